"""Columns of the observation that the target does not act by and that hardly belong there: they spread the log thin."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cesaro.data.values import Categories, Values
from cesaro.diagnostics.finding import Diagnostic
from cesaro.diagnostics.subject import Subject
from cesaro.diagnostics.support import CHECKS
from cesaro.errors import CesaroError
from cesaro.inspection import evidence
from cesaro.inspection.prediction import ENOUGH
from cesaro.inspection.suspects import are_distinct, known_before, may_be_result, what_comes_next
from cesaro.policies.attach import Attached
from cesaro.text import Sentence, Wording, option, visible

# Columns that are looked at, and rows that the target is asked about.
MOST_COLUMNS, ASKED = 50, 2_000


def without_needless(subject: Subject, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The findings; where the log seems not to reach the target, their remedy begins with columns to leave out."""
    about = {check.name for check in CHECKS}
    if not any(one.verdict == "bad" and one.name in about for one in found):
        return list(found)
    reasons = _reasons(subject)
    if not reasons:
        return list(found)
    names = [f'"{visible(name)}"' for name in reasons]
    leave = Wording(
        f"Leave {', '.join(names)} out of the observation",
        f"Leave out {' '.join(option('observation', name) for name in reasons)}",
    )
    why = "; ".join(f"{name} {reason}" for name, reason in zip(names, reasons.values()))
    reason = f": {why}, and the target does not act by {'it' if len(names) == 1 else 'them'}"
    every = list(found)
    for place, one in enumerate(every):
        if one.verdict == "bad" and one.name in about:
            said = "{leave} first{reason}. If that does not help: {remedy}"
            every[place] = replace(one, remedy=Sentence(said, leave=leave, reason=reason, remedy=one.remedy))
            reason = ""  # said once
    return every


def _reasons(subject: Subject) -> dict[str, str]:
    """Why each of some columns may be left out."""
    log, attached = subject.log, subject.prepared.policy
    if log is None or attached is None or subject.num_rows < ENOUGH:
        return {}
    sample = evidence.contiguous(log, subject.prepared.random_state)
    seen, origin = sample.rows.observations, log.origin
    if seen.form != "named" or len(sample.pairs) < ENOUGH:
        return {}
    order = seen.names if origin is None else origin.source.names
    known = known_before(seen.names, order, sample.rows.actions.names[0])
    found: dict[str, str] = {}
    for place, (name, column) in enumerate(zip(seen.names, seen.columns)):
        if place >= MOST_COLUMNS or _acts_by(attached, seen, place):
            continue
        if not isinstance(column, Categories) and column.ndim == 1 and are_distinct(column):
            found[name] = "has a number of its own in nearly every row, as keys do"
        elif (after := what_comes_next(sample.rows, name)) is not None:
            found[name] = f'is what "{visible(after)}" is on the next row, which no policy sees in time'
        elif may_be_result(sample, name, known, name not in known):
            found[name] = "may be a result of its step, which no policy sees in time"
    return found if len(found) < len(seen.names) else {}


def _acts_by(attached: Attached, seen: Values, place: int) -> bool:
    """Whether the target's actions change if the entries of a column are exchanged between rows."""
    rows = seen.take(np.arange(min(ASKED, len(seen))))
    other = np.random.default_rng(0).permutation(len(rows))
    columns = list(rows.columns)
    columns[place] = evidence.taken(columns[place], other)
    try:
        first, again = (
            attached.sample(values.plain(), np.random.default_rng(0))
            for values in (rows, replace(rows, columns=tuple(columns)))
        )
    except CesaroError:
        return True
    return not np.array_equal(first, again)
