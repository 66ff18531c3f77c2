"""How a proposal is found: roles by names and types, the order and the row of the reward by what predicts best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cesaro.data import Transitions
from cesaro.data.log import Origin
from cesaro.data.roles import DEFAULTS, DONE, WEIGHTS, Roles, find_roles, folded, is_chosen
from cesaro.data.settings import GAP, Settings
from cesaro.data.sources.arrays import TableSource
from cesaro.data.sources.base import Source
from cesaro.data.transitions import loaded
from cesaro.errors import CesaroError, InputError
from cesaro.inspection import evidence
from cesaro.inspection.corrections import Corrected
from cesaro.inspection.evidence import Contiguous
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
from cesaro.inspection.ordering import Ordering, Orderings
from cesaro.inspection.prediction import ENOUGH
from cesaro.inspection.profiles import MOST_LABELS, Profile, complete
from cesaro.inspection.proposal import Proposal, role_columns
from cesaro.inspection.suspects import is_key, is_result, known_before, may_be_result, sentinel, what_comes_next
from cesaro.inspection.times import is_unread, of_unread, unit_of_step
from cesaro.policies import Policy, attach, parse
from cesaro.policies import policy as as_policy
from cesaro.text import Sentence, argument, for_command_line, option, percent, visible

# Columns of an observation whose results are looked for.
MOST_COLUMNS = 50
# Whole numbers of at most so many levels may be labels; a log whose pairs of labels have as many rows each is worth a table.
FEW_LABELS, ROWS_PER_PAIR = 30, 20
# Columns that a doubt names beside the one that was taken.
MOST_NAMED = 4
# Columns with more empty entries than this part, as of dropped rows, are left out instead of the rows; those with as many as the
# second leave too few rows to try a policy on.
SPARSE, HARDLY_THERE = 0.05, 0.5
# Rows that a policy is tried on.
TRIED = 2_000
# Steps of times that are longer than the gap, as a part of all: more are irregular by nature.
IRREGULAR = 0.2
# Kinds of columns that hold numbers.
NUMBERS = ("number", "whole number", "true/false")
# Roles without which nobody knows what follows what, so that their columns must be complete.
STRUCTURAL = ("trajectory", "time", "terminated", "truncated")


def propose(
    source: Source,
    read: Corrected,
    profiles: Mapping[str, Profile],
    policy: str = "logged",
    given: Mapping[str, tuple[str, ...]] | None = None,
    denied: Sequence[str] = (),
    unused: Sequence[str] = (),
) -> Proposal:
    """Roles by names and types, the order and the row of the reward by what predicts best.

    Args:
        policy: what will be evaluated.
        given: roles whose columns are known, also of a "cost"; all others follow from these.
        denied: roles that no column has.
        unused: columns that have no role.
    """
    return _Proposer(source, read, profiles, policy, given or {}, denied, unused).run()


class _Proposer:
    def __init__(
        self,
        source: Source,
        read: Corrected,
        profiles: Mapping[str, Profile],
        policy: str,
        given: Mapping[str, tuple[str, ...]],
        denied: Sequence[str],
        unused: Sequence[str],
    ) -> None:
        self.source, self.profiles, self.policy = source, profiles, policy
        self.read, self.every = read, read.table
        self.table = complete(self.every, [name for role in STRUCTURAL for name in given.get(role, ())])
        self.given, self.denied = {"reward" if role == "cost" else role: given[role] for role in given}, denied
        self.panels: dict[str, str] = {}
        self.found = Proposal(roles=dict(self.given), is_cost="cost" in given, drop_incomplete=True)
        self.found.reasons |= dict.fromkeys(self.given, "as you say")
        self.found.left_out |= dict.fromkeys(unused, "as you say")

    @property
    def free(self) -> list[str]:
        """Columns without a role or a reason to have none."""
        used = {column for columns in self.found.roles.values() for column in columns} | set(self.found.left_out)
        return [name for name in self.table.column_names if name not in used]

    def _check_given(self) -> None:
        for role, kinds, what in (("reward", NUMBERS, "numbers"), ("time", (*NUMBERS, "date"), "numbers or dates")):
            for name in self.given.get(role, ()):
                if self.profiles[name].kind not in kinds:
                    said = argument("cost" if role == "reward" and self.found.is_cost else role)
                    raise InputError(
                        Sentence(
                            '{log}: the column "{name}" that {role} names must hold {what}. Got {got}; name another column.',
                            log=self.source.name,
                            name=visible(name),
                            role=said,
                            what=what,
                            got=self.profiles[name].kind,
                        )
                    )

    def _incomplete(self) -> None:
        """Leave out rows with empty entries in columns in use, and say what that costs."""
        roles = self.found.roles
        names = [name for role, columns in roles.items() if role not in STRUCTURAL for name in columns]
        if self.found.reward_lag:
            names.remove(roles["reward"][0])  # an entry that no transition needs may be empty
        gaps = [name for name in names if self.every[name].null_count]
        self.found.drop_incomplete = bool(gaps)
        if not gaps:
            return
        rows, lost = len(self.every), len(self.every) - len(complete(self.every, gaps))
        which = " or ".join(f'"{visible(name)}"' for name in gaps)
        if lost == rows:
            raise InputError(
                f"{self.source.name} must have a row without empty entries in {which}. Got none; name other columns."
            )
        self.found.reasons["drop_incomplete"] = f"{lost:,} of {rows:,}, with an empty entry in {which}"
        self.found.doubts.append(
            f"{lost:,} of {rows:,} rows {'has' if lost == 1 else 'have'} an empty entry in {which}: --drop-incomplete leaves "
            f"{'it' if lost == 1 else 'them'} out and cuts the log there; fill in what you can."
        )

    def _find_obstacle(self) -> None:
        """Say what must be corrected before the command works, or whether the rows that were looked at can be read by it."""
        wrong = [
            self.read.needed[name].message(is_choice=role in ("observation", "action"))
            for role, columns in self.found.roles.items()
            for name in columns
            if name in self.read.needed
        ]
        if wrong:
            self.found.doubts[:0] = wrong
            self.found.obstacle = wrong[0]
            return
        source = TableSource(self.source.name, self.every)
        try:
            loaded(Origin(source, self.found.as_roles(), self.found.kinds, self.found.settings()))
        except CesaroError as error:
            self.found.obstacle = for_command_line(error.message)

    def run(self) -> Proposal:
        self._check_given()
        self._leave_out_useless()
        self._flags()
        times = self._possible("time", evidence.possible_times)
        self._reward(times)
        times = [name for name in times if name in self.free or "time" in self.given]
        if "action" not in self.given:
            self._action(times)
        ids = self._possible("trajectory", evidence.possible_ids)
        self.panels = evidence.panels(self.table, ids, times)
        named = [name for name in ids if "trajectory" in self.given or self._is_id(name)]
        self._observation(ids, named, times)
        self._order(ids, named, times)
        self._leave_out_keys()
        self._reward_lag()
        self._leave_out_late()
        self._doubt_given()
        self._doubt_sentinels()
        self._kinds()
        self._time_unit()
        self._ends()
        self._ignored()
        self._incomplete()
        self._find_obstacle()
        return self.found

    def _possible(self, role: str, columns: Callable[[pa.Table, Sequence[str]], list[str]]) -> list[str]:
        """Columns that may have a role: those given, or else those that look like it."""
        if role in self.denied:
            return []
        return list(self.given.get(role) or columns(self.table, self.free))

    def _leave_out_useless(self) -> None:
        seen: dict[Any, str] = {}
        for name, found in self.profiles.items():
            if name not in self.free:
                continue
            reason = ""
            if found.kind in ("empty", "other"):
                reason = "it holds nothing that can be used"
            elif found.levels is not None and found.levels <= 1:
                reason = "it is the same in every row"
            elif is_chosen(name, self.table.column_names):
                reason = 'it is "action" before bounds cut it'
            elif means(name, PROPENSITIES):
                reason = "probabilities of the logging policy are not needed"
            elif folded(name) in WEIGHTS:
                reason = "it looks like a weight"
                self.found.doubts.append(
                    f'The column "{visible(name)}" may say how much rows count; if so, add {option("weight", name)}.'
                )
            elif is_unread(name, found):
                reason = "its times cannot be read"
                self.found.doubts.append(of_unread(name, self.table[name]))
            elif self._is_row_number(name, found):
                reason = "it numbers the rows"
            elif is_id(name) and found.kind == "whole number" and (found.levels or 0) > found.rows // evidence.REPEATS:
                reason = "it tells single rows apart"
            elif found.kind == "text" and found.levels is not None and found.levels > max(MOST_LABELS, found.rows // 5):
                reason = self._different_texts(name)
            if reason:
                self.found.left_out[name] = reason
                continue
            if found.kind != "list" and len(self.table) >= 2:
                key = (found.kind, found.levels, found.low, found.high, found.common, found.shape)
                twin = seen.setdefault(key, name)
                if twin != name and self.table[name].equals(self.table[twin]):
                    self.found.left_out[name] = f'it is the same as "{visible(twin)}"'

    def _is_row_number(self, name: str, found: Profile) -> bool:
        if found.kind != "whole number" or found.levels != found.rows or found.rows < 2 or means(name, TIMES):
            return False
        steps = np.diff(self.table[name].to_numpy())
        return bool((steps == steps[0]).all()) and not means(name, REWARDS + ACTIONS)

    def _flags(self) -> None:
        for role in ("terminated", "truncated"):
            names = set(map(folded, DEFAULTS[role]))
            for name in self.free:
                if folded(name) in names and role not in self.found.roles:
                    self._take(role, name, "by its name")
        for name in self.free:
            if folded(name) in DONE and "terminated" not in self.found.roles:
                self._take("terminated", name, "by its name")
                self.found.doubts.append(
                    f'"{visible(name)}" was taken to mean that an episode ended by itself; if a time limit ended it, use '
                    f"{option('truncated', name)} instead."
                )

    def _take(self, role: str, name: str, reason: str) -> None:
        self.found.roles[role] = (name,)
        self.found.reasons[role] = reason

    def _reward(self, times: Sequence[str]) -> None:
        if "reward" in self.given:
            return
        numeric = [name for name in self.free if self.profiles[name].kind in NUMBERS]
        named = by_name(numeric, DEFAULTS["reward"]) or by_name(numeric, REWARDS) or named_costs(numeric)
        if named:
            self._take("reward", named[0], "by its name")
            if len(named) > 1:
                others = ", ".join(f'"{visible(name)}"' for name in named[1:])
                self.found.doubts.append(
                    f'"{visible(named[0])}" was taken as the reward; {others} may be meant instead (--reward).'
                )
            if sounds_like_cost(named[0]):
                entries = self.table[named[0]].drop_null().cast(pa.float64(), safe=False).to_numpy()
                self.found.is_cost = evidence.are_costs(named[0], entries)
                self.found.doubts.append(
                    f'"{visible(named[0])}" sounds like a cost, '
                    + (
                        "so less is taken to be better; if more is better, use --reward instead of --cost."
                        if self.found.is_cost
                        else "but nearly all entries are negative; if less is better, use --cost instead of --reward."
                    )
                )
        else:
            rest = [
                name
                for name in numeric
                if not (name in times or means(name, CALENDAR) or is_id(name)) and self.profiles[name].levels
            ]
            if not rest:
                every = list(self.profiles)
                lost = next(iter(by_name(every, (*DEFAULTS["reward"], *REWARDS)) or named_costs(every)), None)
                got = (
                    "no column of numbers that could be one"
                    if lost is None
                    else f'"{visible(lost)}", which {self.found.left_out.get(lost, "holds no numbers").removeprefix("it ")}'
                )
                raise InputError(
                    f"{self.source.name} must have a column of rewards: numbers that are not the same in every row. Got {got}; "
                    "check what the export left out."
                )
            self._take("reward", rest[-1], "it is the last column of numbers")
            self.found.doubts.append(
                f'No name says which column is the reward; "{visible(rest[-1])}" is a guess; if less of it is better, take '
                f"{option('cost', rest[-1])} in place of {option('reward', rest[-1])}."
            )

    def _action(self, times: Sequence[str]) -> None:
        free = [name for name in self.free if name not in times and not self._is_sparse(name)]
        vectors = numbered(free, DEFAULTS["action"])
        named = by_name(free, DEFAULTS["action"]) or by_name(free, ACTIONS)
        if vectors:
            self.found.roles["action"], self.found.reasons["action"] = tuple(vectors), "by their names"
        elif named:
            self._take("action", named[0], "by its name")
            if len(named) > 1:
                others = ", ".join(f'"{visible(name)}"' for name in named[1:])
                self.found.doubts.append(
                    f'"{visible(named[0])}" was taken as the action; {others} may be meant instead (--action).'
                )
        elif not self._action_of_policy(free):
            seen = set(map(folded, DEFAULTS["observation"]))
            rest = [name for name in free if not (self._tells_time(name) or is_id(name) or folded(name) in seen)]
            few = [
                name
                for name in rest
                if self.profiles[name].kind in ("text", "whole number", "true/false")
                and (self.profiles[name].levels or 0) <= FEW_LABELS
            ]
            apart = evidence.panels(self.table, few, times)
            few.sort(key=lambda name: name not in apart)
            numbers = [name for name in rest if self.profiles[name].kind == "number"]
            if not (few or numbers) or len(free) == 1:
                raise InputError(
                    f"{self.source.name} must have a column of actions. Got no column with a name like it, and none with few "
                    'levels or with numbers that could be one; call the column of actions "action".'
                )
            guess, why = (few[-1], "with few levels") if few else (numbers[-1], "of numbers beside the reward")
            self._take("action", guess, f"it is the last column {why} that may be one")
            rivals = [f'"{visible(name)}"' for name in reversed(few[:-1] or numbers) if name != guess][:MOST_NAMED]
            self.found.doubts.append(
                f'No name says which column is the action; "{visible(guess)}" is a guess.'
                + (f" If it is another, such as {' or '.join(rivals)}, give --action COLUMN." if rivals else "")
            )
            wrong = self._trial(guess, self._others(guess))
            if wrong is not None:
                self.found.doubts.append(
                    f'The policy cannot act with "{visible(guess)}" as the action: {for_command_line(wrong.message)}'
                )

    def _tells_time(self, name: str) -> bool:
        """Whether a name is that of times or of parts of the calendar; text that holds no times can only be such a part."""
        return means(name, CALENDAR + (DAYS if self.profiles[name].kind == "text" else TIMES))

    @cached_property
    def _tried_policy(self) -> Policy | None:
        """The policy, where one was given that can be tried on rows."""
        if self.policy in ("logged", "uniform"):
            return None
        try:
            return as_policy(parse(self.policy)[1])
        except CesaroError as error:
            self.found.doubts.append(f"The policy could not be tried on the log: {for_command_line(error.message)}")
            return None

    def _action_of_policy(self, names: Sequence[str]) -> bool:
        """Take the only column of labels, or else of numbers, that the policy's actions fit; False where there is none."""
        if self._tried_policy is None:
            return False
        kinds = {name: self.profiles[name].kind for name in names if self._trial(name, self._others(name)) is None}
        numbers = [name for name, kind in kinds.items() if kind == "number"]
        few = [name for name in kinds if name not in numbers and (self.profiles[name].levels or 0) <= FEW_LABELS]
        found = few or numbers
        if len(found) == 1:
            self._take(
                "action", found[0], "the policy's actions are among its entries" if few else "the policy gives numbers"
            )
            return True
        if found:
            which = ", ".join(f'"{visible(name)}"' for name in found)
            self.found.doubts.append(
                f"The policy's actions fit several columns: {which}; name the one that is meant (--action)."
            )
        return False

    def _others(self, action: str) -> list[str]:
        """All columns that a policy may see beside its action: those that are nearly always there, and no dates."""
        return [
            name
            for name in self.free
            if name != action
            and self.profiles[name].missing < HARDLY_THERE * self.profiles[name].rows
            and self.profiles[name].kind != "date"
        ]

    def _trial(self, action: str, seen: Sequence[str]) -> CesaroError | None:
        """The error of the policy if it sees some columns of complete rows and acts by one; None: it works."""
        if self._tried_policy is None:
            return None
        if not seen:
            return InputError("there is nothing that it could see.")
        roles = Roles(role_columns(tuple(seen)), role_columns((action,)), reward=self.found.roles["reward"][0])
        rows = complete(self.table, roles.columns()).slice(0, TRIED)
        try:
            log = loaded(Origin(TableSource(self.source.name, rows), roles, {}, Settings(gap=None)))
            attach(self._tried_policy, log).sample(log.observations.plain(), np.random.default_rng(0))
        except CesaroError as error:
            return error
        return None

    def _is_id(self, name: str) -> bool:
        """Whether a column tells trajectories apart by its name.

        One that may as well be a kind of thing, such as a device, must have many levels, or rows that stand together or never
        share a time.
        """
        if not is_id(name) or is_surely_id(name):
            return is_id(name)
        return (self.profiles[name].levels or 0) > FEW_LABELS or not self._alternates(name) or name in self.panels

    def _observation(self, ids: Sequence[str], named_ids: Sequence[str], times: Sequence[str]) -> None:
        self._leave_out_sparse([name for name in self.free if self._is_sparse(name) and name not in times])
        free = [name for name in self.free if name not in times]
        named = numbered(free, DEFAULTS["observation"]) or by_name(free, DEFAULTS["observation"])[:1]
        rest = [name for name in free if not is_next(name, free) and name not in named]
        if "observation" in self.given:
            for name in free:
                if name not in ids:
                    self.found.left_out[name] = "not used: the observation is as you say"
        elif named:
            self.found.reasons["observation"] = "by its name" if len(named) == 1 else "by their names"
            for name in rest:
                if name not in ids:
                    self.found.left_out[name] = self._not_seen(named)
            self.found.roles["observation"] = tuple(named)
        else:
            seen = [name for name in rest if name not in named_ids and self._may_be_seen(name)]
            if not seen:  # then an id is all that a policy can see
                seen = [name for name in rest if self._may_be_seen(name)]
            if not seen:
                raise InputError(
                    f"{self.source.name} must have a column that the policy sees. Got none beside reward, action and times; "
                    "add one."
                )
            self.found.reasons["observation"] = "the remaining columns"
            self.found.roles["observation"] = tuple(seen)
        own = self.found.roles["observation"]
        after = [next((other for other in free if folded(other) == folded(f"next{name}")), None) for name in own]
        if all(name is not None for name in after):
            self.found.roles["next_observation"] = tuple(name for name in after if name is not None)
            self.found.reasons["next_observation"] = "by their names"

    def _is_sparse(self, name: str) -> bool:
        """Whether leaving out the rows that have no entry would cost too many."""
        return self.profiles[name].missing > SPARSE * self.profiles[name].rows

    def _leave_out_sparse(self, names: Sequence[str]) -> None:
        is_open = "observation" not in self.given
        seen = [] if len(self.found.roles["action"]) > 1 else self._others(self.found.roles["action"][0])
        needed = [name for name in names if is_open and self._is_needed(name, seen)]
        for name in names:
            found = self.profiles[name]
            self.found.left_out[name] = f"it has {_empty(found.missing)}"
            if is_open and found.missing < HARDLY_THERE * found.rows:
                self.found.doubts.append(
                    f'"{visible(name)}" was left out because of {_empty(found.missing)} ({percent(found.missing / found.rows)}), '
                    f"and {'the policy needs it' if name in needed else 'it may drive the system'}: fill them in and add "
                    f"{option('observation', name)}, or add --drop-incomplete, too, which leaves out those rows."
                )

    def _is_needed(self, name: str, seen: Sequence[str]) -> bool:
        """Whether the policy fails where it does not see a column, and does not where it sees it among others."""
        if len(self.found.roles["action"]) > 1:
            return False
        action = self.found.roles["action"][0]
        rest = [one for one in seen if one != name]
        return bool(rest) and self._trial(action, rest) is not None and self._trial(action, seen) is None

    def _not_seen(self, named: Sequence[str]) -> str:
        """Why a column is no part of an observation that was found by its name."""
        if len(named) > 1:
            return "not used: numbered columns were taken for the whole observation, by their names"
        return f'not used: the column "{visible(named[0])}" was taken for the whole observation, by its name'

    def _may_be_seen(self, name: str) -> bool:
        found = self.profiles[name]
        if found.kind == "date":
            self.found.left_out[name] = "it is a date or time; turn it into numbers such as the hour if it matters"
            return False
        if found.kind == "text" and (found.levels or 0) > MOST_LABELS:
            self.found.left_out[name] = self._different_texts(name)
            return False
        return True

    def _different_texts(self, name: str) -> str:
        """Why a column of many texts is left out; what would make numbers of it is a doubt."""
        if name in self.read.possible:
            self.found.doubts.append(self.read.possible[name].message())
        return f"it has {self.profiles[name].levels:,} different texts"

    def _order(self, ids: Sequence[str], named: Sequence[str], times: Sequence[str]) -> None:
        """Trajectory and time: what names say, and how well state and action predict the state of the next row."""
        found = Orderings(self.table, self.found, self.profiles, self.given, self.panels).best(ids, named, times)
        if found is None:
            for name in [one for one in (*named, *times) if one in self.free]:
                self.found.left_out[name] = "rows cannot be read in its order"
            return
        if found.trajectory is not None:
            why = "by what it predicts" if found.is_clear else "none has the same time twice"
            why = "by its name" if found.trajectory in named else why
            why = self.found.reasons.get("trajectory", why)
            self._take("trajectory", found.trajectory, why + found.words)
            own = self.found.roles["observation"]
            self.found.roles["observation"] = tuple(name for name in own if name != found.trajectory)
        if found.time is not None:
            is_clock = self.profiles[found.time].kind == "date"
            why = self.found.reasons.get("time", "it holds dates or times" if is_clock else "by its name")
            self._take("time", found.time, why + ("" if found.trajectory else found.words))
        self.found.drop_duplicates = found.repeated
        if found.repeated:
            self.found.reasons["drop_duplicates"] = "some rows are in the file twice"
            self.found.doubts.append(
                "Some rows are in the file twice, with the same time; --drop-duplicates counts them once."
            )
        if found.time is None and times:
            self.found.doubts.append(
                f'"{visible(times[0])}" was not used as the time, because times repeat within trajectories. Rows are taken in '
                "the order of the file; if that is not their order in time, add to the column what is missing, such as the hour."
            )
        for name in [one for one in ids if one not in named]:
            self._doubt_id(name, found)
        for name in (*ids, *times):
            if name in self.free:
                is_seen_by_name = (
                    self.found.reasons["observation"].startswith("by ") and not is_id(name) and name in ids
                )
                self.found.left_out[name] = (
                    self._not_seen(self.found.roles["observation"])
                    if is_seen_by_name
                    else "it does not order the rows better"
                )
        for name in named:
            is_used = name == found.trajectory
            if (
                "trajectory" not in self.given
                and (self.profiles[name].levels or 0) <= FEW_LABELS
                and self._alternates(name)
                and not (is_used and found.is_clear)
            ):
                self.found.doubts.append(
                    f'Only its name says that "{visible(name)}" tells trajectories apart: rows do not follow each other better '
                    f"by it. If it is what a policy sees, give {option('observation', name)} --ignore trajectory."
                )

    def _doubt_id(self, name: str, found: Ordering) -> None:
        """Say what speaks for a column as the trajectory, and is not enough."""
        time = self.panels.get(name)
        if name == found.trajectory and time is not None:
            self.found.doubts.append(
                f'"{visible(name)}" was taken to tell trajectories apart, because none has the same "{visible(time)}" twice; if '
                f"it is what a policy sees, give {option('observation', name)} --ignore trajectory."
            )
        elif found.trajectory is None and time is not None:
            self.found.doubts.append(
                f'No "{visible(name)}" has the same "{visible(time)}" twice: if it tells trajectories apart, give '
                f"{option('trajectory', name)} {option('time', time)}."
            )
        elif found.trajectory is None and is_id(name):
            self.found.doubts.append(
                f'Only its name says that "{visible(name)}" may tell trajectories apart: rows do not follow each other better by '
                f"it. If it does, give {option('trajectory', name)}."
            )

    def _alternates(self, name: str) -> bool:
        """Whether rows of the same id stand apart in the file."""
        codes = pc.dictionary_encode(self.table[name].combine_chunks()).indices.to_numpy()
        return int((np.diff(codes) != 0).sum()) >= (self.profiles[name].levels or 1)

    def _sample(self) -> tuple[Transitions, Contiguous] | None:
        log = evidence.transitions(self.table, self.found.as_roles(), self.found.kinds, self.found.settings())
        return None if log is None or not len(log) else (log, evidence.contiguous(log, 0))

    def _only_first_rows_lack_rewards(self) -> bool:
        roles = self.found.as_roles()
        table = complete(self.table, [name for name in roles.columns() if name != roles.reward])
        settings = replace(self.found.settings(), reward_lag=1, drop_incomplete=False)
        return evidence.transitions(table, roles, self.found.kinds, settings) is not None

    def _leave_out_keys(self) -> None:
        """Whole numbers that tell rows apart, and nothing else."""
        names = self.found.roles["observation"]
        whole = [name for name in names if self.profiles[name].kind == "whole number"]
        found = self._sample() if whole and "observation" not in self.given else None
        if found is None or found[1].rows.observations.form != "named":
            return
        keys = [name for name in whole if is_key(found[1], name) and not self._is_needed(name, names)]
        kept = tuple(name for name in names if name not in keys)
        if not kept:
            return
        self.found.roles["observation"] = kept
        for name in keys:
            self.found.left_out[name] = "it looks like a key: nearly every row has a number of its own"
            self.found.doubts.append(
                f'"{visible(name)}" was left out because it looks like a key: nearly every row has a number of its own, which '
                f"tells nothing about what happens; if a policy acts by it, add {option('observation', name)}."
            )

    def _reward_lag(self) -> None:
        found = self._sample()
        if self.table[self.found.roles["reward"][0]].null_count and self._only_first_rows_lack_rewards():
            self.found.reward_lag = 1
            self.found.reasons["reward_lag"] = "only first rows have no reward"
            self.found.doubts.append(
                "Only first rows have no reward, so each reward seems to be logged on the next row; if not, leave out "
                "--reward-lag and fill in the empty rewards."
            )
            return
        lag = None if found is None else evidence.reward_lag(found[1], 0)
        if lag is None or not lag.is_material:
            return
        what = "the rank of a reward" if lag.is_of_rank else "a reward"
        own, other = (percent(max(0.0, share)) for share in (lag.gain.before, lag.gain.after))
        said = f"the row before predicts {other} of {what}, its own row {own}"
        if lag.is_clear:
            self.found.reward_lag = 1
            self.found.reasons["reward_lag"] = said
        else:
            self.found.doubts.append(f"Rewards may be logged one row late ({said}); if they are, add --reward-lag 1.")

    def _leave_out_late(self) -> None:
        """Columns that are made in a step and logged with it: they explain its reward, and nobody knew them before the action."""
        found = None if "observation" in self.given else self._sample()
        names = self.found.roles["observation"]
        if found is None or not 2 <= len(names) <= MOST_COLUMNS:
            return
        sample = found[1]
        rows = sample.rows
        if rows.observations.form != "named" or len(sample.pairs) < ENOUGH:
            return
        known, is_behind = known_before(names, self.table.column_names, self.found.roles["action"][0]), False
        doubtful: list[str] = []
        for name in names:
            after = what_comes_next(found[0], name)
            if after is not None:
                self.found.left_out[name] = f'it is what "{visible(after)}" is on the next row'
            elif name not in known and is_result(sample, name, known, is_behind):
                is_behind = True
                self.found.left_out[name] = (
                    "it comes after the action and seems to be its result, which a policy cannot see in time"
                )
                self.found.doubts.append(
                    f'"{visible(name)}" was left out because it seems to be a result of the action; if it is known before the '
                    f"action, add {option('observation', name)}."
                )
            elif may_be_result(sample, name, known, name not in known):
                doubtful.append(name)
        kept = tuple(name for name in names if name not in self.found.left_out)
        if kept:
            self.found.roles["observation"] = kept
            if len(kept) > 1:
                self.found.doubts += [
                    f'"{visible(name)}" may be a result of its step, such as an average, which a policy cannot see in time; '
                    f"if it is, take {option('observation', name)} out of the command."
                    for name in doubtful
                ]
        else:
            for name in names:
                self.found.left_out.pop(name, None)

    def _doubt_given(self) -> None:
        """Say which columns of an observation that was given are what other columns are on the next row."""
        names = self.given.get("observation", ())
        used = {name for columns in self.found.roles.values() for name in columns}
        known = self.found.as_roles()
        if self.panels and known.trajectory is None:  # what follows what may be known all the same
            trajectory, time = next(iter(self.panels.items()))
            known = replace(known, trajectory=trajectory, time=time)
        others = [
            name
            for name, found in self.profiles.items()
            if name not in (used | set(known.columns()))
            and found.kind in (*NUMBERS, "text")
            and not self._is_sparse(name)
        ]
        if not names or not 2 <= len(names) + len(others) <= MOST_COLUMNS:
            return
        roles = replace(known, observation=role_columns((*names, *others)))
        log = evidence.transitions(self.table, roles, self.found.kinds, self.found.settings())
        if log is None or len(log) < ENOUGH or log.observations.form != "named":
            return
        for name in names:
            after = what_comes_next(log, name)
            if after is not None:
                self.found.doubts.append(
                    f'"{visible(name)}" is what "{visible(after)}" is on the next row, which a policy cannot see in time; take '
                    f"{option('observation', name)} out of the command."
                )

    def _doubt_sentinels(self) -> None:
        """Say which numbers of the observation may stand for missing entries."""
        for name in self.found.roles["observation"]:
            found = sentinel(self.table[name]) if self.profiles[name].kind in ("number", "whole number") else None
            if found is not None:
                self.found.doubts.append(
                    f'"{visible(name)}" is {found.value:g} in {found.rows:,} rows, far from all other entries ({found.low:g} to '
                    f"{found.high:g}); if that stands for a missing entry, empty it in the file and add --drop-incomplete."
                )

    def _kinds(self) -> None:
        """Labels or numbers, where the type alone does not say it."""
        self._kind_of_action()
        self._labels_of_action()
        names = self.found.roles["observation"]
        whole = [name for name in names if self.profiles[name].kind == "whole number"]
        for name in whole:
            if len(names) > 1 and means(name, CALENDAR) and (self.profiles[name].levels or 0) <= FEW_LABELS:
                self.found.kinds[name] = "category"
                self.found.reasons[f"kind of {name}"] = "parts of the calendar are labels"
        action = self.profiles[self.found.roles["action"][0]]
        discrete = len(self.found.roles["action"]) == 1 and (
            action.kind in ("text", "true/false") or self.found.kinds.get(action.name, "category") == "category"
        )
        if (
            action.kind == "number"
            or not discrete
            or any(self.profiles[name].kind in ("number", "list") for name in names)
        ):
            return
        pairs = (action.levels or 1) * int(np.prod([float(self.profiles[name].levels or 1) for name in names]))
        if pairs * ROWS_PER_PAIR <= len(self.table):
            for name in whole if len(names) > 1 else ():
                self.found.kinds[name] = "category"
                self.found.reasons[f"kind of {name}"] = "the log has enough rows for a table of all states and actions"
        elif len(names) == 1 and whole and (self.profiles[whole[0]].levels or 0) > FEW_LABELS:
            self.found.kinds[whole[0]] = "number"
            self.found.reasons[f"kind of {whole[0]}"] = "it has too many levels for a table"

    def _kind_of_action(self) -> None:
        names = self.found.roles["action"]
        found = self._sample()
        if len(names) > 1 or found is None:
            return
        readings = evidence.action_readings(found[1])
        if readings is None:
            return
        name = names[0]
        kind, other = ("category", "number") if readings.are_labels else ("number", "category")
        self.found.kinds[name] = kind
        self.found.reasons[f"kind of {name}"] = (
            "labels predict what happens better than a quantity does"
            if readings.are_labels
            else "a quantity predicts what happens no worse than labels do"
        )
        self.found.doubts.append(
            f'The action "{visible(name)}" has {readings.levels} whole numbers and is read as '
            f"{'labels' if readings.are_labels else 'a quantity'}; for the other reading: {option('kind', f'{name}={other}')}."
        )

    def _labels_of_action(self) -> None:
        found = self._sample()
        if found is not None:
            self.found.doubts += evidence.odd_labels(found[0].actions)

    def _time_unit(self) -> None:
        time = self.found.roles.get("time")
        if time is None:
            return
        column, is_clock = self.table[time[0]], self.profiles[time[0]].kind == "date"
        if is_clock:
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        seconds = column.cast(pa.float64(), safe=False).to_numpy() / (1e6 if is_clock else 1.0)
        ids = self.found.roles.get("trajectory")
        codes = np.zeros(len(seconds), dtype=np.int64)
        if ids is not None:
            codes = pc.dictionary_encode(self.table[ids[0]].combine_chunks()).indices.to_numpy().astype(np.int64)
        order = np.lexsort((seconds, codes))
        steps = np.diff(seconds[order])[np.diff(codes[order]) == 0]
        steps = steps[steps > 0]
        if not len(steps):
            return
        usual = float(np.median(steps))
        long = float((steps > GAP * usual).mean())
        if long > IRREGULAR:
            self.found.gap = None
            self.found.reasons["gap"] = f"{percent(long)} of the time steps are longer than {GAP:g} times the usual one"
            self.found.doubts.append("Steps take irregular times: the rate is per row, not per unit of time.")
            return
        if long > 0:
            count = int((steps > GAP * usual).sum())
            self.found.doubts.append(
                f"{count:,} {'gap' if count == 1 else 'gaps'} in time: trajectories are cut there, unless you add --gap none."
            )
        if not is_clock:
            return
        self.found.unit = unit_of_step(usual)
        if ids is not None and len(np.unique(seconds)) * evidence.SHARED <= len(seconds):
            self.found.unit += f" and {visible(ids[0])}"  # each of them takes a step in that time

    def _ends(self) -> None:
        ended = [role for role in ("terminated", "truncated") if role in self.found.roles]
        self.found.continuing = (
            "episodes, by the flags above" if ended else "a continuing system: no column says that an episode ends"
        )

    def _ignored(self) -> None:
        """Roles that the reader would give to columns that have none here, and those that no column has, as was said."""
        self.found.ignored += self.denied
        given: dict[str, Any] = {
            role: list(columns) if len(columns) > 1 else columns[0] for role, columns in self.found.roles.items()
        } | dict.fromkeys(self.denied, False)
        for role in ("next_observation", "trajectory", "time", "terminated", "truncated", "available"):
            if role in given or role in self.denied:
                continue
            try:
                roles, _ = find_roles(self.source.name, self.source.names, given)
            except InputError:
                roles = None
            if roles is None or getattr(roles, role) is not None:
                if roles is None and role not in ("next_observation", "terminated", "truncated"):
                    continue
                self.found.ignored.append(role)
                given[role] = False


def _empty(count: int) -> str:
    return "1 empty entry" if count == 1 else f"{count:,} empty entries"
