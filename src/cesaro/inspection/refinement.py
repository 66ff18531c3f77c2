"""The refinement of a proposal by what the rows tell once the roles of columns are known.

Columns that hardly belong in the observation are left out; the row of the reward, kinds, the unit of time and rows with empty
entries follow, and at last what must be corrected before the log can be read so.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cesaro.data import Transitions
from cesaro.data.log import Origin
from cesaro.data.roles import find_roles
from cesaro.data.settings import GAP
from cesaro.data.sources.arrays import TableSource
from cesaro.data.transitions import loaded
from cesaro.errors import CesaroError, InputError
from cesaro.inspection import evidence
from cesaro.inspection.evidence import Contiguous
from cesaro.inspection.names import CALENDAR, means
from cesaro.inspection.observation import is_key, is_result, known_before, may_be_result, sentinel, what_comes_next
from cesaro.inspection.order import SHARED
from cesaro.inspection.prediction import ENOUGH
from cesaro.inspection.profiles import complete
from cesaro.inspection.proposal import FEW_LABELS, NUMBERS, STRUCTURAL, Draft, role_columns
from cesaro.text import for_command_line, option, percent, visible

# Columns of an observation whose results are looked for.
MOST_COLUMNS = 50
# A log whose pairs of labels have as many rows each is worth a table.
ROWS_PER_PAIR = 20
# Steps of times that are longer than the gap, as a part of all: more are irregular by nature.
IRREGULAR = 0.2
_DAY = 86_400.0
_UNITS = ((_DAY, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second"))
# Units of the calendar, with the fewest and the most days that they have.
_CALENDAR = ((7, 7, "week"), (28, 31, "month"), (90, 92, "quarter"), (365, 366, "year"))


def refine(draft: Draft) -> None:
    """Add to a proposal of roles what the rows tell of everything else."""
    _leave_out_keys(draft)
    _find_reward_lag(draft)
    _leave_out_results(draft)
    _doubt_given(draft)
    _doubt_sentinels(draft)
    _choose_kinds(draft)
    _find_time_unit(draft)
    _say_ends(draft)
    _ignore_usual_names(draft)
    _leave_out_incomplete(draft)
    _find_obstacle(draft)


def _leave_out_keys(draft: Draft) -> None:
    """Leave out whole numbers that tell rows apart, and nothing else."""
    names = draft.found.roles["observation"]
    whole = [name for name in names if draft.profiles[name].kind == "whole number"]
    found = _sample(draft) if whole and "observation" not in draft.given else None
    if found is None or found[1].rows.observations.form != "named":
        return
    keys = [name for name in whole if is_key(found[1], name) and not draft.is_needed(name, names)]
    kept = tuple(name for name in names if name not in keys)
    if not kept:
        return
    draft.found.roles["observation"] = kept
    for name in keys:
        draft.found.left_out[name] = "it looks like a key: nearly every row has a number of its own"
        draft.found.doubts.append(
            f'"{visible(name)}" was left out because it looks like a key: nearly every row has a number of its own, which '
            f"tells nothing about what happens; if a policy acts by it, add {option('observation', name)}."
        )


def _find_reward_lag(draft: Draft) -> None:
    """Find out whether rewards are logged one row late: by which row predicts them, or because only first rows have none."""
    found = _sample(draft)
    if draft.table[draft.found.roles["reward"][0]].null_count and _only_first_rows_lack_rewards(draft):
        draft.found.reward_lag = 1
        draft.found.reasons["reward_lag"] = "only first rows have no reward"
        draft.found.doubts.append(
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
        draft.found.reward_lag = 1
        draft.found.reasons["reward_lag"] = said
    else:
        draft.found.doubts.append(f"Rewards may be logged one row late ({said}); if they are, add --reward-lag 1.")


def _only_first_rows_lack_rewards(draft: Draft) -> bool:
    """Whether the rows can be read with a lag of one although rewards are missing."""
    roles = draft.found.as_roles()
    table = complete(draft.table, [name for name in roles.columns() if name != roles.reward])
    settings = replace(draft.found.settings(), reward_lag=1, drop_incomplete=False)
    return evidence.transitions(table, roles, draft.found.kinds, settings) is not None


def _leave_out_results(draft: Draft) -> None:
    """Leave out columns that are made in a step and logged with it: they explain its reward, and nobody knew them before."""
    found = None if "observation" in draft.given else _sample(draft)
    names = draft.found.roles["observation"]
    if found is None or not 2 <= len(names) <= MOST_COLUMNS:
        return
    sample = found[1]
    rows = sample.rows
    if rows.observations.form != "named" or len(sample.pairs) < ENOUGH:
        return
    known, is_behind = known_before(names, draft.table.column_names, draft.found.roles["action"][0]), False
    doubtful: list[str] = []
    for name in names:
        after = what_comes_next(found[0], name)
        if after is not None:
            draft.found.left_out[name] = f'it is what "{visible(after)}" is on the next row'
        elif name not in known and is_result(sample, name, known, is_behind):
            is_behind = True
            draft.found.left_out[name] = (
                "it comes after the action and seems to be its result, which a policy cannot see in time"
            )
            draft.found.doubts.append(
                f'"{visible(name)}" was left out because it seems to be a result of the action; if it is known before the '
                f"action, add {option('observation', name)}."
            )
        elif may_be_result(sample, name, known, name not in known):
            doubtful.append(name)
    kept = tuple(name for name in names if name not in draft.found.left_out)
    if kept:
        draft.found.roles["observation"] = kept
        if len(kept) > 1:
            draft.found.doubts += [
                f'"{visible(name)}" may be a result of its step, such as an average, which a policy cannot see in time; '
                f"if it is, take {option('observation', name)} out of the command."
                for name in doubtful
            ]
    else:
        for name in names:
            draft.found.left_out.pop(name, None)


def _doubt_given(draft: Draft) -> None:
    """Say which columns of an observation that was given are what other columns are on the next row."""
    names = draft.given.get("observation", ())
    used = {name for columns in draft.found.roles.values() for name in columns}
    known = draft.found.as_roles()
    if draft.panels and known.trajectory is None:  # what follows what may be known all the same
        trajectory, time = next(iter(draft.panels.items()))
        known = replace(known, trajectory=trajectory, time=time)
    others = [
        name
        for name, found in draft.profiles.items()
        if name not in (used | set(known.columns())) and found.kind in (*NUMBERS, "text") and not draft.is_sparse(name)
    ]
    if not names or not 2 <= len(names) + len(others) <= MOST_COLUMNS:
        return
    roles = replace(known, observation=role_columns((*names, *others)))
    log = evidence.transitions(draft.table, roles, draft.found.kinds, draft.found.settings())
    if log is None or len(log) < ENOUGH or log.observations.form != "named":
        return
    for name in names:
        after = what_comes_next(log, name)
        if after is not None:
            draft.found.doubts.append(
                f'"{visible(name)}" is what "{visible(after)}" is on the next row, which a policy cannot see in time; take '
                f"{option('observation', name)} out of the command."
            )


def _doubt_sentinels(draft: Draft) -> None:
    """Say which numbers of the observation may stand for missing entries."""
    for name in draft.found.roles["observation"]:
        found = sentinel(draft.table[name]) if draft.profiles[name].kind in ("number", "whole number") else None
        if found is not None:
            draft.found.doubts.append(
                f'"{visible(name)}" is {found.value:g} in {found.rows:,} rows, far from all other entries ({found.low:g} to '
                f"{found.high:g}); if that stands for a missing entry, empty it in the file and add --drop-incomplete."
            )


def _choose_kinds(draft: Draft) -> None:
    """Labels or numbers, where the type alone does not say it."""
    _choose_kind_of_action(draft)
    _doubt_labels_of_action(draft)
    names = draft.found.roles["observation"]
    whole = [name for name in names if draft.profiles[name].kind == "whole number"]
    for name in whole:
        if len(names) > 1 and means(name, CALENDAR) and (draft.profiles[name].levels or 0) <= FEW_LABELS:
            draft.found.kinds[name] = "category"
            draft.found.reasons[f"kind of {name}"] = "parts of the calendar are labels"
    action = draft.profiles[draft.found.roles["action"][0]]
    discrete = len(draft.found.roles["action"]) == 1 and (
        action.kind in ("text", "true/false") or draft.found.kinds.get(action.name, "category") == "category"
    )
    if (
        action.kind == "number"
        or not discrete
        or any(draft.profiles[name].kind in ("number", "list") for name in names)
    ):
        return
    pairs = (action.levels or 1) * int(np.prod([float(draft.profiles[name].levels or 1) for name in names]))
    if pairs * ROWS_PER_PAIR <= len(draft.table):
        for name in whole if len(names) > 1 else ():
            draft.found.kinds[name] = "category"
            draft.found.reasons[f"kind of {name}"] = "the log has enough rows for a table of all states and actions"
    elif len(names) == 1 and whole and (draft.profiles[whole[0]].levels or 0) > FEW_LABELS:
        draft.found.kinds[whole[0]] = "number"
        draft.found.reasons[f"kind of {whole[0]}"] = "it has too many levels for a table"


def _choose_kind_of_action(draft: Draft) -> None:
    """Whole numbers of the action as labels or as a quantity: the reading that predicts better."""
    names = draft.found.roles["action"]
    found = _sample(draft)
    if len(names) > 1 or found is None:
        return
    readings = evidence.action_readings(found[1])
    if readings is None:
        return
    name = names[0]
    kind, other = ("category", "number") if readings.are_labels else ("number", "category")
    draft.found.kinds[name] = kind
    draft.found.reasons[f"kind of {name}"] = (
        "labels predict what happens better than a quantity does"
        if readings.are_labels
        else "a quantity predicts what happens no worse than labels do"
    )
    draft.found.doubts.append(
        f'The action "{visible(name)}" has {readings.levels} whole numbers and is read as '
        f"{'labels' if readings.are_labels else 'a quantity'}; for the other reading: {option('kind', f'{name}={other}')}."
    )


def _doubt_labels_of_action(draft: Draft) -> None:
    """Name labels that are most likely typing errors."""
    found = _sample(draft)
    if found is not None:
        draft.found.doubts += evidence.odd_labels(found[0].actions)


def _find_time_unit(draft: Draft) -> None:
    """The unit of a rate from the usual step in time; irregular steps never cut the log."""
    time = draft.found.roles.get("time")
    if time is None:
        return
    column, is_clock = draft.table[time[0]], draft.profiles[time[0]].kind == "date"
    if is_clock:
        column = column.cast(pa.timestamp("us")).cast(pa.int64())
    seconds = column.cast(pa.float64(), safe=False).to_numpy() / (1e6 if is_clock else 1.0)
    ids = draft.found.roles.get("trajectory")
    codes = np.zeros(len(seconds), dtype=np.int64)
    if ids is not None:
        codes = pc.dictionary_encode(draft.table[ids[0]].combine_chunks()).indices.to_numpy().astype(np.int64)
    order = np.lexsort((seconds, codes))
    steps = np.diff(seconds[order])[np.diff(codes[order]) == 0]
    steps = steps[steps > 0]
    if not len(steps):
        return
    usual = float(np.median(steps))
    long = float((steps > GAP * usual).mean())
    if long > IRREGULAR:
        draft.found.gap = None
        draft.found.reasons["gap"] = f"{percent(long)} of the time steps are longer than {GAP:g} times the usual one"
        draft.found.doubts.append("Steps take irregular times: the rate is per row, not per unit of time.")
        return
    if long > 0:
        count = int((steps > GAP * usual).sum())
        draft.found.doubts.append(
            f"{count:,} {'gap' if count == 1 else 'gaps'} in time: trajectories are cut there, unless you add --gap none."
        )
    if not is_clock:
        return
    draft.found.unit = unit_of_step(usual)
    if ids is not None and len(np.unique(seconds)) * SHARED <= len(seconds):
        draft.found.unit += f" and {visible(ids[0])}"  # each of them takes a step in that time


def unit_of_step(seconds: float) -> str:
    """The unit that a rate is counted by, where a step takes so long: a unit of time, or a step of several."""
    for fewest, most, word in _CALENDAR:
        if fewest * _DAY <= seconds <= most * _DAY:
            return f"per {word}"
    whole = (
        one for one in _UNITS if seconds >= 0.99 * one[0] and abs(seconds / one[0] - round(seconds / one[0])) < 0.01
    )
    size, word = next(whole, _UNITS[-1])
    number = f"{seconds / size:.3g}"
    return f"per {word}" if number == "1" else f"per step of {number} {word}s"


def _say_ends(draft: Draft) -> None:
    """Say whether the log is one of episodes or of a continuing system."""
    ended = [role for role in ("terminated", "truncated") if role in draft.found.roles]
    draft.found.continuing = (
        "episodes, by the flags above" if ended else "a continuing system: no column says that an episode ends"
    )


def _ignore_usual_names(draft: Draft) -> None:
    """Roles that the reader would give to columns that have none here, and those that no column has, as was said."""
    draft.found.ignored += draft.denied
    given: dict[str, Any] = {
        role: list(columns) if len(columns) > 1 else columns[0] for role, columns in draft.found.roles.items()
    } | dict.fromkeys(draft.denied, False)
    for role in ("next_observation", "trajectory", "time", "terminated", "truncated", "available"):
        if role in given or role in draft.denied:
            continue
        try:
            roles, _ = find_roles(draft.source.name, draft.source.names, given)
        except InputError:
            roles = None
        if roles is None or getattr(roles, role) is not None:
            if roles is None and role not in ("next_observation", "terminated", "truncated"):
                continue
            draft.found.ignored.append(role)
            given[role] = False


def _leave_out_incomplete(draft: Draft) -> None:
    """Leave out rows with empty entries in columns in use, and say what that costs."""
    roles = draft.found.roles
    names = [name for role, columns in roles.items() if role not in STRUCTURAL for name in columns]
    if draft.found.reward_lag:
        names.remove(roles["reward"][0])  # an entry that no transition needs may be empty
    gaps = [name for name in names if draft.every[name].null_count]
    draft.found.drop_incomplete = bool(gaps)
    if not gaps:
        return
    rows, lost = len(draft.every), len(draft.every) - len(complete(draft.every, gaps))
    which = " or ".join(f'"{visible(name)}"' for name in gaps)
    if lost == rows:
        raise InputError(
            f"{draft.source.name} must have a row without empty entries in {which}. Got none; name other columns."
        )
    draft.found.reasons["drop_incomplete"] = f"{lost:,} of {rows:,}, with an empty entry in {which}"
    draft.found.doubts.append(
        f"{lost:,} of {rows:,} rows {'has' if lost == 1 else 'have'} an empty entry in {which}: --drop-incomplete leaves "
        f"{'it' if lost == 1 else 'them'} out and cuts the log there; fill in what you can."
    )


def _find_obstacle(draft: Draft) -> None:
    """Say what must be corrected before the command works, or whether the rows that were looked at can be read by it."""
    wrong = [
        draft.read.needed[name].message(is_choice=role in ("observation", "action"))
        for role, columns in draft.found.roles.items()
        for name in columns
        if name in draft.read.needed
    ]
    if wrong:
        draft.found.doubts[:0] = wrong
        draft.found.obstacle = wrong[0]
        return
    source = TableSource(draft.source.name, draft.every)
    try:
        loaded(Origin(source, draft.found.as_roles(), draft.found.kinds, draft.found.settings()))
    except CesaroError as error:
        draft.found.obstacle = for_command_line(error.message)


def _sample(draft: Draft) -> tuple[Transitions, Contiguous] | None:
    """The transitions under the roles so far, and stretches of them; None where there are none."""
    log = evidence.transitions(draft.table, draft.found.as_roles(), draft.found.kinds, draft.found.settings())
    return None if log is None or not len(log) else (log, evidence.contiguous(log, 0))
