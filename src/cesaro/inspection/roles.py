"""The roles of columns that nobody described: by names and types, by what a policy does with them, and by the order of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cesaro.data import Transitions
from cesaro.data.roles import DEFAULTS, DONE, WEIGHTS, folded, is_chosen
from cesaro.errors import InputError
from cesaro.inspection.evidence import are_costs
from cesaro.inspection.names import (
    ACTIONS,
    CALENDAR,
    DAYS,
    PROPENSITIES,
    REWARDS,
    TIMES,
    by_name,
    is_id,
    is_next,
    is_surely_id,
    means,
    named_costs,
    numbered,
    sounds_like_cost,
)
from cesaro.inspection.order import (
    REPEATS,
    follow,
    follow_better,
    followed,
    followed_if_seen,
    in_orders,
    moves,
    panels,
    possible_ids,
    possible_times,
)
from cesaro.inspection.prediction import LEVELS, Errors, Gain
from cesaro.inspection.profiles import MOST_LABELS, Profile, holds_unread_times, unread_times_sentence
from cesaro.inspection.proposal import FEW_LABELS, HARDLY_THERE, NUMBERS, Draft, role_columns
from cesaro.text import Sentence, argument, for_command_line, option, percent, visible

# Columns that a doubt names beside the one that was taken.
MOST_NAMED = 4


@dataclass(frozen=True)
class Ordering:
    """One way to order rows: its columns, and how well the next state is predicted by it and in the order of the file."""

    trajectory: str | None
    time: str | None
    repeated: bool
    after: Errors | None
    before: Errors | None
    log: Transitions

    @property
    def explained(self) -> float:
        """The held-out R² of the next state; zero where it was not asked for."""
        return 0.0 if self.after is None else self.after.explained

    @property
    def gain(self) -> Gain | None:
        return None if self.after is None or self.before is None else Gain.of(self.before, self.after, paired=False)

    @cached_property
    def is_clear(self) -> bool:
        """Whether rows follow each other clearly better so than in the order of the file."""
        if self.after is None or self.before is None:
            return False
        return follow_better(self.before, self.after, self.log, 0, moves(self.log, 0))

    @property
    def words(self) -> str:
        """The gain in words, for the reason of the proposal; empty where it is not clear."""
        if self.gain is None or not self.is_clear:
            return ""
        before, after = (percent(max(0.0, share)) for share in (self.gain.before, self.gain.after))
        return f"; in this order state and action predict {after} of the next row's state, in the order of the file {before}"


def find_roles(draft: Draft) -> None:
    """Find the columns of reward, action, observation, trajectory and time; those that were given stay."""
    _check_given(draft)
    _leave_out_useless(draft)
    _take_flags(draft)
    times = _candidates(draft, "time", possible_times)
    _take_reward(draft, times)
    times = [name for name in times if name in draft.free or "time" in draft.given]
    if "action" not in draft.given:
        _take_action(draft, times)
    ids = _candidates(draft, "trajectory", possible_ids)
    draft.panels = panels(draft.table, ids, times)
    named = [name for name in ids if "trajectory" in draft.given or _is_id(draft, name)]
    _take_observation(draft, ids, named, times)
    _take_order(draft, ids, named, times)


def _check_given(draft: Draft) -> None:
    """Refuse columns of text as rewards or times."""
    for role, kinds, what in (("reward", NUMBERS, "numbers"), ("time", (*NUMBERS, "date"), "numbers or dates")):
        for name in draft.given.get(role, ()):
            if draft.profiles[name].kind not in kinds:
                said = argument("cost" if role == "reward" and draft.found.is_cost else role)
                raise InputError(
                    Sentence(
                        '{log}: the column "{name}" that {role} names must hold {what}. Got {got}; name another column.',
                        log=draft.source.name,
                        name=visible(name),
                        role=said,
                        what=what,
                        got=draft.profiles[name].kind,
                    )
                )


def _candidates(draft: Draft, role: str, columns: Callable[[pa.Table, Sequence[str]], list[str]]) -> list[str]:
    """Columns that may have a role: those given, or else those that look like it."""
    if role in draft.denied:
        return []
    return list(draft.given.get(role) or columns(draft.table, draft.free))


def _leave_out_useless(draft: Draft) -> None:
    """Leave out columns that can have no role, each with the reason."""
    seen: dict[Any, str] = {}
    for name, found in draft.profiles.items():
        if name not in draft.free:
            continue
        reason = ""
        if found.kind in ("empty", "other"):
            reason = "it holds nothing that can be used"
        elif found.levels is not None and found.levels <= 1:
            reason = "it is the same in every row"
        elif is_chosen(name, draft.table.column_names):
            reason = 'it is "action" before bounds cut it'
        elif means(name, PROPENSITIES):
            reason = "probabilities of the logging policy are not needed"
        elif folded(name) in WEIGHTS:
            reason = "it looks like a weight"
            draft.found.doubts.append(
                f'The column "{visible(name)}" may say how much rows count; if so, add {option("weight", name)}.'
            )
        elif holds_unread_times(name, found):
            reason = "its times cannot be read"
            draft.found.doubts.append(unread_times_sentence(name, draft.table[name]))
        elif _is_row_number(draft, name, found):
            reason = "it numbers the rows"
        elif is_id(name) and found.kind == "whole number" and (found.levels or 0) > found.rows // REPEATS:
            reason = "it tells single rows apart"
        elif found.kind == "text" and found.levels is not None and found.levels > max(MOST_LABELS, found.rows // 5):
            reason = _different_texts(draft, name)
        if reason:
            draft.found.left_out[name] = reason
            continue
        if found.kind != "list" and len(draft.table) >= 2:
            key = (found.kind, found.levels, found.low, found.high, found.common, found.shape)
            twin = seen.setdefault(key, name)
            if twin != name and draft.table[name].equals(draft.table[twin]):
                draft.found.left_out[name] = f'it is the same as "{visible(twin)}"'


def _is_row_number(draft: Draft, name: str, found: Profile) -> bool:
    """Whether a column counts the rows of the file."""
    if found.kind != "whole number" or found.levels != found.rows or found.rows < 2 or means(name, TIMES):
        return False
    steps = np.diff(draft.table[name].to_numpy())
    return bool((steps == steps[0]).all()) and not means(name, REWARDS + ACTIONS)


def _take_flags(draft: Draft) -> None:
    """Take the columns that say where episodes end, by their names."""
    for role in ("terminated", "truncated"):
        names = set(map(folded, DEFAULTS[role]))
        for name in draft.free:
            if folded(name) in names and role not in draft.found.roles:
                draft.take(role, name, "by its name")
    for name in draft.free:
        if folded(name) in DONE and "terminated" not in draft.found.roles:
            draft.take("terminated", name, "by its name")
            draft.found.doubts.append(
                f'"{visible(name)}" was taken to mean that an episode ended by itself; if a time limit ended it, use '
                f"{option('truncated', name)} instead."
            )


def _take_named(draft: Draft, role: str, named: Sequence[str]) -> None:
    """Take the first of the columns that have a name of the role, and say which others have one."""
    draft.take(role, named[0], "by its name")
    if len(named) > 1:
        others = ", ".join(f'"{visible(name)}"' for name in named[1:])
        draft.found.doubts.append(
            f'"{visible(named[0])}" was taken as the {role}; {others} may be meant instead (--{role}).'
        )


def _take_reward(draft: Draft, times: Sequence[str]) -> None:
    """Take a column of numbers whose name is that of a reward or a cost, or else the last one."""
    if "reward" in draft.given:
        return
    numeric = [name for name in draft.free if draft.profiles[name].kind in NUMBERS]
    named = by_name(numeric, DEFAULTS["reward"]) or by_name(numeric, REWARDS) or named_costs(numeric)
    if named:
        _take_named(draft, "reward", named)
        if sounds_like_cost(named[0]):
            entries = draft.table[named[0]].drop_null().cast(pa.float64(), safe=False).to_numpy()
            draft.found.is_cost = are_costs(named[0], entries)
            draft.found.doubts.append(
                f'"{visible(named[0])}" sounds like a cost, '
                + (
                    "so less is taken to be better; if more is better, use --reward instead of --cost."
                    if draft.found.is_cost
                    else "but nearly all entries are negative; if less is better, use --cost instead of --reward."
                )
            )
    else:
        rest = [
            name
            for name in numeric
            if not (name in times or means(name, CALENDAR) or is_id(name)) and draft.profiles[name].levels
        ]
        if not rest:
            every = list(draft.profiles)
            lost = next(iter(by_name(every, (*DEFAULTS["reward"], *REWARDS)) or named_costs(every)), None)
            got = (
                "no column of numbers that could be one"
                if lost is None
                else f'"{visible(lost)}", which {draft.found.left_out.get(lost, "holds no numbers").removeprefix("it ")}'
            )
            raise InputError(
                f"{draft.source.name} must have a column of rewards: numbers that are not the same in every row. Got {got}; "
                "check what the export left out."
            )
        draft.take("reward", rest[-1], "it is the last column of numbers")
        draft.found.doubts.append(
            f'No name says which column is the reward; "{visible(rest[-1])}" is a guess; if less of it is better, take '
            f"{option('cost', rest[-1])} in place of {option('reward', rest[-1])}."
        )


def _take_action(draft: Draft, times: Sequence[str]) -> None:
    """Take columns with the names of actions, or else one that the policy's actions fit, or the last that may be one."""
    free = [name for name in draft.free if name not in times and not draft.is_sparse(name)]
    vectors = numbered(free, DEFAULTS["action"])
    named = by_name(free, DEFAULTS["action"]) or by_name(free, ACTIONS)
    if vectors:
        draft.found.roles["action"], draft.found.reasons["action"] = tuple(vectors), "by their names"
    elif named:
        _take_named(draft, "action", named)
    elif not _action_of_policy(draft, free):
        seen = set(map(folded, DEFAULTS["observation"]))
        rest = [name for name in free if not (_tells_time(draft, name) or is_id(name) or folded(name) in seen)]
        few = [
            name
            for name in rest
            if draft.profiles[name].kind in ("text", "whole number", "true/false")
            and (draft.profiles[name].levels or 0) <= FEW_LABELS
        ]
        apart = panels(draft.table, few, times)
        few.sort(key=lambda name: name not in apart)
        numbers = [name for name in rest if draft.profiles[name].kind == "number"]
        if not (few or numbers) or len(free) == 1:
            raise InputError(
                f"{draft.source.name} must have a column of actions. Got no column with a name like it, and none with few "
                'levels or with numbers that could be one; call the column of actions "action".'
            )
        guess, why = (few[-1], "with few levels") if few else (numbers[-1], "of numbers beside the reward")
        draft.take("action", guess, f"it is the last column {why} that may be one")
        rivals = [f'"{visible(name)}"' for name in reversed(few[:-1] or numbers) if name != guess][:MOST_NAMED]
        draft.found.doubts.append(
            f'No name says which column is the action; "{visible(guess)}" is a guess.'
            + (f" If it is another, such as {' or '.join(rivals)}, give --action COLUMN." if rivals else "")
        )
        wrong = draft.trial(guess, draft.others(guess))
        if wrong is not None:
            draft.found.doubts.append(
                f'The policy cannot act with "{visible(guess)}" as the action: {for_command_line(wrong.message)}'
            )


def _tells_time(draft: Draft, name: str) -> bool:
    """Whether a name is that of times or of parts of the calendar; text that holds no times can only be such a part."""
    return means(name, CALENDAR + (DAYS if draft.profiles[name].kind == "text" else TIMES))


def _action_of_policy(draft: Draft, names: Sequence[str]) -> bool:
    """Take the only column of labels, or else of numbers, that the policy's actions fit; False where there is none."""
    if draft.tried_policy is None:
        return False
    kinds = {name: draft.profiles[name].kind for name in names if draft.trial(name, draft.others(name)) is None}
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    few = [name for name in kinds if name not in numbers and (draft.profiles[name].levels or 0) <= FEW_LABELS]
    found = few or numbers
    if len(found) == 1:
        draft.take(
            "action", found[0], "the policy's actions are among its entries" if few else "the policy gives numbers"
        )
        return True
    if found:
        which = ", ".join(f'"{visible(name)}"' for name in found)
        draft.found.doubts.append(
            f"The policy's actions fit several columns: {which}; name the one that is meant (--action)."
        )
    return False


def _is_id(draft: Draft, name: str) -> bool:
    """Whether a column tells trajectories apart by its name.

    One that may as well be a kind of thing, such as a device, must have many levels, or rows that stand together or never
    share a time.
    """
    if not is_id(name) or is_surely_id(name):
        return is_id(name)
    return (draft.profiles[name].levels or 0) > FEW_LABELS or not _alternates(draft, name) or name in draft.panels


def _take_observation(draft: Draft, ids: Sequence[str], named_ids: Sequence[str], times: Sequence[str]) -> None:
    """Take the columns whose names are those of observations, or else all that are left and that a policy may see."""
    _leave_out_sparse(draft, [name for name in draft.free if draft.is_sparse(name) and name not in times])
    free = [name for name in draft.free if name not in times]
    named = numbered(free, DEFAULTS["observation"]) or by_name(free, DEFAULTS["observation"])[:1]
    rest = [name for name in free if not is_next(name, free) and name not in named]
    if "observation" in draft.given:
        for name in free:
            if name not in ids:
                draft.found.left_out[name] = "not used: the observation is as you say"
    elif named:
        draft.found.reasons["observation"] = "by its name" if len(named) == 1 else "by their names"
        for name in rest:
            if name not in ids:
                draft.found.left_out[name] = _not_seen(named)
        draft.found.roles["observation"] = tuple(named)
    else:
        seen = [name for name in rest if name not in named_ids and _may_be_seen(draft, name)]
        if not seen:  # then an id is all that a policy can see
            seen = [name for name in rest if _may_be_seen(draft, name)]
        if not seen:
            raise InputError(
                f"{draft.source.name} must have a column that the policy sees. Got none beside reward, action and times; "
                "add one."
            )
        draft.found.reasons["observation"] = "the remaining columns"
        draft.found.roles["observation"] = tuple(seen)
    own = draft.found.roles["observation"]
    after = [next((other for other in free if folded(other) == folded(f"next{name}")), None) for name in own]
    if all(name is not None for name in after):
        draft.found.roles["next_observation"] = tuple(name for name in after if name is not None)
        draft.found.reasons["next_observation"] = "by their names"


def _leave_out_sparse(draft: Draft, names: Sequence[str]) -> None:
    """Leave out columns with many empty entries, and say whether the policy needs them."""
    is_open = "observation" not in draft.given
    seen = [] if len(draft.found.roles["action"]) > 1 else draft.others(draft.found.roles["action"][0])
    needed = [name for name in names if is_open and draft.is_needed(name, seen)]
    for name in names:
        found = draft.profiles[name]
        draft.found.left_out[name] = f"it has {_empty(found.missing)}"
        if is_open and found.missing < HARDLY_THERE * found.rows:
            draft.found.doubts.append(
                f'"{visible(name)}" was left out because of {_empty(found.missing)} ({percent(found.missing / found.rows)}), '
                f"and {'the policy needs it' if name in needed else 'it may drive the system'}: fill them in and add "
                f"{option('observation', name)}, or add --drop-incomplete, too, which leaves out those rows."
            )


def _not_seen(named: Sequence[str]) -> str:
    """The reason that a column is no part of an observation that was found by its name."""
    if len(named) > 1:
        return "not used: numbered columns were taken for the whole observation, by their names"
    return f'not used: the column "{visible(named[0])}" was taken for the whole observation, by its name'


def _may_be_seen(draft: Draft, name: str) -> bool:
    """Whether a policy can act by a column; one by which it cannot is left out."""
    found = draft.profiles[name]
    if found.kind == "date":
        draft.found.left_out[name] = "it is a date or time; turn it into numbers such as the hour if it matters"
        return False
    if found.kind == "text" and (found.levels or 0) > MOST_LABELS:
        draft.found.left_out[name] = _different_texts(draft, name)
        return False
    return True


def _different_texts(draft: Draft, name: str) -> str:
    """The reason that a column of many texts is left out; what would make numbers of it becomes a doubt."""
    if name in draft.read.possible:
        draft.found.doubts.append(draft.read.possible[name].message())
    return f"it has {draft.profiles[name].levels:,} different texts"


def _take_order(draft: Draft, ids: Sequence[str], named: Sequence[str], times: Sequence[str]) -> None:
    """Trajectory and time: what names say, and how well state and action predict the state of the next row."""
    found = _best_ordering(draft, ids, named, times)
    if found is None:
        for name in [one for one in (*named, *times) if one in draft.free]:
            draft.found.left_out[name] = "rows cannot be read in its order"
        return
    if found.trajectory is not None:
        why = "by what it predicts" if found.is_clear else "none has the same time twice"
        why = "by its name" if found.trajectory in named else why
        why = draft.found.reasons.get("trajectory", why)
        draft.take("trajectory", found.trajectory, why + found.words)
        own = draft.found.roles["observation"]
        draft.found.roles["observation"] = tuple(name for name in own if name != found.trajectory)
    if found.time is not None:
        is_clock = draft.profiles[found.time].kind == "date"
        why = draft.found.reasons.get("time", "it holds dates or times" if is_clock else "by its name")
        draft.take("time", found.time, why + ("" if found.trajectory else found.words))
    draft.found.drop_duplicates = found.repeated
    if found.repeated:
        draft.found.reasons["drop_duplicates"] = "some rows are in the file twice"
        draft.found.doubts.append(
            "Some rows are in the file twice, with the same time; --drop-duplicates counts them once."
        )
    if found.time is None and times:
        draft.found.doubts.append(
            f'"{visible(times[0])}" was not used as the time, because times repeat within trajectories. Rows are taken in '
            "the order of the file; if that is not their order in time, add to the column what is missing, such as the hour."
        )
    for name in [one for one in ids if one not in named]:
        _doubt_id(draft, name, found)
    for name in (*ids, *times):
        if name in draft.free:
            is_seen_by_name = draft.found.reasons["observation"].startswith("by ") and not is_id(name) and name in ids
            draft.found.left_out[name] = (
                _not_seen(draft.found.roles["observation"]) if is_seen_by_name else "it does not order the rows better"
            )
    for name in named:
        is_used = name == found.trajectory
        if (
            "trajectory" not in draft.given
            and (draft.profiles[name].levels or 0) <= FEW_LABELS
            and _alternates(draft, name)
            and not (is_used and found.is_clear)
        ):
            draft.found.doubts.append(
                f'Only its name says that "{visible(name)}" tells trajectories apart: rows do not follow each other better '
                f"by it. If it is what a policy sees, give {option('observation', name)} --ignore trajectory."
            )


def _best_ordering(draft: Draft, ids: Sequence[str], named: Sequence[str], times: Sequence[str]) -> Ordering | None:
    """The best order of the rows; None where they cannot be read in any."""
    found = _best_of(draft, named, times, None)
    if found is None or found.trajectory is None:
        # A column without the name of an id counts as one only if the others follow by it.
        others = [_best_of(draft, [name], times, name) for name in ids if name not in named]
        clear = [
            one
            for one in others
            if one is not None and ((one.is_clear and not _may_be_state(draft, one)) or _is_panel(draft, one))
        ]
        found = max(clear, key=lambda one: one.explained, default=found)
    return found


def _is_panel(draft: Draft, order: Ordering) -> bool:
    """Whether rows follow each other in an order in which no trajectory has the same time twice."""
    if order.trajectory is None or order.time is None or draft.panels.get(order.trajectory) != order.time:
        return False
    moving = moves(order.log, 0)
    return order.after is not None and bool(moving.any()) and follow(order.log, 0, moving)


def _may_be_state(draft: Draft, order: Ordering) -> bool:
    """Whether an order has no trajectory, or one that tells as much where it is seen."""
    name = order.trajectory
    if name is None or order.after is None:
        return True
    if (draft.profiles[name].levels or 0) > LEVELS:
        return False
    kept = tuple(one for one in draft.found.roles["observation"] if one != name)
    roles = replace(draft.found.as_roles(), observation=role_columns(kept))
    seen = followed_if_seen(draft.table, roles, draft.found.kinds, draft.found.settings(), name, 0)
    moving = moves(order.log, 0)
    return seen is not None and not follow_better(seen, order.after, order.log, 0, moving)


def _best_of(draft: Draft, ids: Sequence[str], times: Sequence[str], without: str | None) -> Ordering | None:
    """The ordering of rows that predicts next states best; `without`: a column that is no observation then."""
    roles = draft.found.as_roles()
    if without is not None:
        kept = tuple(name for name in roles.observation.columns if name != without)
        if not kept:
            return None
        roles = replace(roles, observation=role_columns(kept))
    tried: list[Ordering] = []
    plain = None
    orders = [
        (trajectory, time)
        for time in (times if "time" in draft.given else (None, *times))
        for trajectory in (ids if "trajectory" in draft.given else (None, *ids))
    ]
    found = draft.found
    for trajectory, time, repeated, log in in_orders(orders, draft.table, roles, found.kinds, found.settings()):
        errors = followed(log, 0) if roles.next_observation is None else None
        if trajectory is None and time is None:
            plain = errors
        tried.append(Ordering(trajectory, time, repeated, errors, plain, log))
    if not tried:
        return None
    top = max(one.explained for one in tried)
    near = [one for one in tried if one.explained >= top - 0.02]
    return max(near, key=lambda one: (one.time is not None, one.trajectory is not None))


def _doubt_id(draft: Draft, name: str, found: Ordering) -> None:
    """Say what speaks for a column as the trajectory, and is not enough."""
    time = draft.panels.get(name)
    if name == found.trajectory and time is not None:
        draft.found.doubts.append(
            f'"{visible(name)}" was taken to tell trajectories apart, because none has the same "{visible(time)}" twice; if '
            f"it is what a policy sees, give {option('observation', name)} --ignore trajectory."
        )
    elif found.trajectory is None and time is not None:
        draft.found.doubts.append(
            f'No "{visible(name)}" has the same "{visible(time)}" twice: if it tells trajectories apart, give '
            f"{option('trajectory', name)} {option('time', time)}."
        )
    elif found.trajectory is None and is_id(name):
        draft.found.doubts.append(
            f'Only its name says that "{visible(name)}" may tell trajectories apart: rows do not follow each other better by '
            f"it. If it does, give {option('trajectory', name)}."
        )


def _alternates(draft: Draft, name: str) -> bool:
    """Whether rows of the same id stand apart in the file."""
    codes = pc.dictionary_encode(draft.table[name].combine_chunks()).indices.to_numpy()
    return int((np.diff(codes) != 0).sum()) >= (draft.profiles[name].levels or 1)


def _empty(count: int) -> str:
    return "1 empty entry" if count == 1 else f"{count:,} empty entries"
