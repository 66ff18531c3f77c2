"""Was the log described as it is: the order of rows, the row of a reward, what the observation leaves out, what an action is?"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro import user_code
from cesaro.checks import Array
from cesaro.data import Block, Log
from cesaro.data.columns import kind_argument
from cesaro.data.log import Origin
from cesaro.data.settings import bounds_of
from cesaro.data.values import Values
from cesaro.diagnostics.finding import Check, Diagnostic, Verdict, at_most
from cesaro.diagnostics.subject import Subject, solved
from cesaro.errors import CesaroError
from cesaro.inspection import evidence
from cesaro.inspection.evidence import Contiguous
from cesaro.inspection.observation import EXPLAINS, contexts, possible_contexts, with_columns
from cesaro.inspection.order import BetterOrder, better_order
from cesaro.inspection.prediction import ENOUGH
from cesaro.passes.prepare import Prepared
from cesaro.policies import Policy
from cesaro.text import GIVE, Sentence, Wording, argument, option, percent, switch, visible

# Features of a quick answer, at most.
QUICK = 200
# Logged actions beyond what the system can do: as of support, a hundredth is a detail and a tenth decides the answer.
BEYOND_CAUTION, BEYOND_BAD = 0.01, 0.1
# Two quick answers differ if they do by so many standard errors of the difference, and beyond the interval of the estimate.
CLEAR, OUTSIDE, SMALL = 3.0, 2.0, 0.02

SEQUENCE_OF_ROWS = Check(
    "sequence of rows",
    number="R² of the next row's state, given state and action",
    bad=(
        "with rows ordered by columns that were not used, it is higher by over "
        f"{evidence.MATERIAL:g} and over {evidence.CLEAR:g} standard errors (more where several are tried) for a state column "
        "that changes within trajectories, and lower for none; higher than for any other row of the same trajectory, because "
        "rows that are merely alike predict each other, too; and higher than with the unused column in the state, where it may "
        "belong"
    ),
    meaning="rows of several trajectories are mixed, or out of order",
    remedy="the options that the sentence names, such as `--trajectory` and `--time`",
)

ROW_OF_THE_REWARD = Check(
    "row of the reward",
    number=(
        "R² of the reward, or of its rank where that is clearer, given the row before (state, action, next state) minus that "
        "given its own row"
    ),
    caution=(
        f"over {evidence.MATERIAL:g} ({evidence.SLIGHT:g} if the own row predicts next to nothing) and over {evidence.CLEAR:g} "
        "standard errors"
    ),
    bad=(
        f"the same; and the row before leaves less than {percent(evidence.REMAINS)} of what the own row leaves unexplained, or "
        "the own row "
        "predicts next to nothing; and the own row adds nothing to the row before"
    ),
    meaning=(
        "rewards are logged a row late; slowly changing rewards, which still earlier rows predict better, do not count"
    ),
    remedy="`--reward-lag 1`",
)

UNUSED_COLUMNS = Check(
    "unused columns",
    number="R² of the prediction errors, given the last row's entry of a column that was not used",
    caution=f"over {EXPLAINS:g} and over {evidence.CLEAR:g} standard errors (more where several are tried)",
    bad=(
        f"the same; and with the column in the observation the answer moves by over {CLEAR:g} standard errors of the "
        f"move, {OUTSIDE:g} SE and {percent(SMALL)} of the scale"
    ),
    meaning=(
        "the observation leaves out something that matters for what comes next, such as the weekday; results of the "
        "row itself do not count"
    ),
    remedy="add the column: `--observation`",
)

KIND_OF_THE_ACTION = Check(
    "kind of the action",
    number="how far a quick answer moves if whole numbers are read as a quantity instead of labels",
    caution=f"over {CLEAR:g} standard errors of the move, {OUTSIDE:g} SE and {percent(SMALL)} of the scale",
    meaning="more than five whole numbers were read as labels, which predict no better than the quantity does",
    remedy="`--kind COLUMN=number`, or `=category` to say that they are labels",
)

BOUNDS_OF_THE_ACTION = Check(
    "bounds of the action",
    number=(
        "share of rows whose action lies beyond the bounds that the log's metadata tell, or else the target's own; only where "
        "actions are numbers and bounds are known"
    ),
    caution=f"over {percent(BEYOND_CAUTION)}",
    bad=f"over {percent(BEYOND_BAD)} beyond the bounds of the metadata; the target's own may be narrower than the system's",
    meaning=(
        "the log holds actions as they were chosen, and the system executed them cut to its bounds: values are fitted to actions "
        "that never happened, and the target's own seem rarer than they are"
    ),
    remedy="`--action-low` and `--action-high` cut logged actions; better, log what was executed",
)

CHECKS = (
    BOUNDS_OF_THE_ACTION,
    SEQUENCE_OF_ROWS,
    ROW_OF_THE_REWARD,
    UNUSED_COLUMNS,
    KIND_OF_THE_ACTION,
)


def description(subject: Subject) -> Iterator[Diagnostic]:
    """The bounds of the action, the order of rows, the row of the reward, unused columns, the kind of the action."""
    log = subject.log
    if log is None or subject.num_rows < ENOUGH:
        return
    yield from bounds_of_action(subject, log)
    seed = subject.prepared.random_state
    origin = log.origin
    sample = evidence.contiguous(log, seed)
    table = None
    if origin is not None and evidence.unused_columns(origin):
        table = evidence.excerpt(origin)
    found = None
    if origin is not None and table is not None:
        found = better_order(origin, table, seed)
        if found is not None:
            yield sequence_of_rows(found)
    if found is not None and found.is_clear:
        return  # nothing else can be told of rows that are not in order
    lag = evidence.reward_lag(sample, log.schema.settings.reward_lag)
    if lag is not None:
        yield row_of_reward(lag, log.schema.settings.reward_lag)
    if origin is not None and table is not None:
        yield from unused_column(subject, origin, table)
    if origin is not None:
        yield from kind_of_action(subject, origin, sample, table)


def bounds_of_action(subject: Subject, log: Log) -> Iterator[Diagnostic]:
    """Does the log hold actions that its system cannot execute?"""
    policy, rows = subject.prepared.policy, subject.prepared.sample.rows
    if policy is None or rows.actions.is_discrete:
        return
    logged = np.asarray(rows.actions.columns[0]).reshape(len(rows), -1)
    told = log.schema.settings.action_bounds or (None if log.origin is None else log.origin.bounds)
    if told is not None and not told.fit(logged.shape[1]):
        told = None  # of other columns than those in use
    bounds = told or bounds_of(policy.policy.low, policy.policy.high)
    if bounds is None or not bounds.fit(logged.shape[1]):
        return
    share = float(np.mean(bounds.beyond(logged)))
    whose = "the target's own bounds" if told is None else "the bounds of the system"
    said = f"{percent(share) if share else 'None'} of the logged actions lie beyond {whose}, {bounds}"
    if share > BEYOND_CAUTION:
        said += (
            "; if the system cuts what it is asked for there, the log holds actions that were chosen and never executed"
            if told is None
            else ": the log holds actions that were chosen and never executed"
        )
    yield BOUNDS_OF_THE_ACTION.found(
        share,
        at_most(share, BEYOND_CAUTION, 1.0 if told is None else BEYOND_BAD),
        f"{said}.",
        Sentence(
            "{give} {options}{unless}.",
            give=GIVE.capitalized,
            options=bounds.wording,
            unless=", unless the system executes actions beyond these" if told is None else "",
        ),
    )


def sequence_of_rows(found: BetterOrder) -> Diagnostic:
    """Do rows follow each other better by columns that were not used?"""
    gain = found.gain
    columns = [name for name in (found.trajectory, found.time) if name is not None]
    by = " and ".join(f'"{visible(name)}"' for name in columns)
    if not found.is_clear:
        return SEQUENCE_OF_ROWS.found(
            gain.before,
            "ok",
            f"State and action predict {percent(max(0.0, gain.before))} of the next row's state (R² on held-out rows), "
            "and no unused column orders the rows better.",
        )
    options = [argument(role, name) for role, name in (("trajectory", found.trajectory), ("time", found.time)) if name]
    if found.drop_duplicates:
        options.append(switch("drop_duplicates"))
    return SEQUENCE_OF_ROWS.found(
        gain.before,
        "bad",
        f"Rows do not follow each other: state and action predict {percent(max(0.0, gain.before))} of the next row's "
        f"state (R² on held-out rows). Ordered by {by}, which {'was' if len(columns) == 1 else 'were'} not used, they "
        f"predict {percent(gain.after)}.",
        Sentence(
            "{give} {options}.",
            give=GIVE.capitalized,
            options=Wording(", ".join(one.python for one in options), " ".join(one.command_line for one in options)),
        ),
    )


def row_of_reward(found: evidence.RewardLag, lag: int) -> Diagnostic:
    """Does the reward stand on the row that earned it?"""
    gain, where = found.gain, "after" if lag else "before"
    verdict: Verdict = "bad" if found.is_clear else "caution" if found.is_material else "ok"
    own, other = percent(max(0.0, gain.before)), percent(max(0.0, gain.after))
    if verdict == "ok":
        said = f"A reward's own row predicts {own} of it (R² on held-out rows), the row {where} it {other}."
        if found.is_sluggish:
            said += " Rows farther away predict it better still: rewards change slowly, and are not logged late."
        return ROW_OF_THE_REWARD.found(gain.value, "ok", said)
    what = ("their ranks" if lag else "its rank") if found.is_of_rank else "them" if lag else "it"
    may, unless = "seem to", ""
    if verdict == "caution":
        may, unless = "may", f" if rewards are{' not' if lag else ''} logged late"
    return ROW_OF_THE_REWARD.found(
        gain.value,
        verdict,
        f"Rewards {may} be logged on their own rows: these predict {other} of {what} (R² on held-out rows), and the rows before, "
        f"which the reward lag gives them to, {own}."
        if lag
        else f"Rewards {may} be logged one row late: the row before a reward predicts {other} of {what} (R² on held-out rows), "
        f"its own row {own}.",
        Sentence(
            "{option}{unless}.",
            option=Wording("Pass reward_lag=0", "Leave out --reward-lag")
            if lag
            else Wording("Pass reward_lag=1", "Give --reward-lag 1"),
            unless=unless,
        ),
    )


@dataclass(frozen=True)
class QuickAnswer:
    """A quick answer on some rows: the closed form in few features.

    Attributes:
        influence: of every row, `[n]`.
        errors: of the prediction, `[n]`.
    """

    rate: float
    influence: Array
    errors: Array


def answer(log: Log, policy: Policy, rows: Block, subject: Subject) -> QuickAnswer | None:
    """The answer about a policy from some rows of a log; None where there is none."""
    try:
        prepared = Prepared(
            log,
            policy,
            features="auto",
            dual_features="auto",
            draws=subject.prepared.draws,
            random_state=subject.prepared.random_state,
            most=QUICK,
        ).excerpt(rows)
        per_weight = 1.0 if rows.weights is None else len(rows) / float(rows.weights.sum())
        solution, series = solved(prepared, per_weight)
    except (CesaroError, np.linalg.LinAlgError):
        return None
    if not solution.is_identified:
        return None
    mean = float(series.influence.mean())
    return QuickAnswer(solution.reward_rate + mean, series.influence - mean, series.errors)


@dataclass(frozen=True)
class Difference:
    """One quick answer minus another on the same rows, with the standard error over stretches of rows."""

    value: float
    standard_error: float

    @staticmethod
    def of(one: QuickAnswer, other: QuickAnswer, number: NDArray[np.int64]) -> "Difference":
        sums = np.bincount(number, weights=one.influence - other.influence)
        sums = sums[np.bincount(number) > 0]
        count = len(sums)
        error = float(np.sqrt((sums**2).sum() * count / max(1, count - 1))) / len(number)
        return Difference(one.rate - other.rate, error)

    def __str__(self) -> str:
        return f"{self.value:+.3g} (standard error {self.standard_error:.2g})"

    def matters(self, subject: Subject) -> bool:
        size = abs(self.value)
        least = max(OUTSIDE * subject.estimate.standard_error, SMALL * subject.scale)
        return bool(size > CLEAR * self.standard_error and size > least)


class Narrowed(Policy):
    """A policy on a log whose observation has more columns than the policy knows."""

    def __init__(self, policy: Policy, like: Values) -> None:
        self.name, self._policy, self._form, self._columns = policy.name, policy, like.form, like.names
        self.actions, self.deterministic = policy.actions, policy.deterministic
        self.low, self.high = policy.low, policy.high

    def _seen(self, observations: Any) -> Any:
        if self._form == "named":
            return {name: observations[name] for name in self._columns}
        if self._form == "vector":
            return np.stack([observations[name] for name in self._columns], axis=1)
        return observations[self._columns[0]]

    def _asked(self, method: Callable[..., Any], *arguments: Any) -> Any:
        return user_code.call(lambda error: f"{self._who} failed with {error}.", method, *arguments)

    def probabilities(self, observations: Any) -> Array:
        found: Array = self._asked(self._policy.probabilities, self._seen(observations))
        return found

    def sample(self, observations: Any, rng: np.random.Generator) -> NDArray[Any]:
        found: NDArray[Any] = self._asked(self._policy.sample, self._seen(observations), rng)
        return found


def unused_column(subject: Subject, origin: Origin, table: pa.Table) -> Iterator[Diagnostic]:
    """Does a column of the file explain errors of the prediction, although the observation leaves it out?"""
    attached = subject.prepared.policy
    own = subject.prepared.sample.rows.observations
    tried = possible_contexts(origin, table)
    is_list = own.form == "vector" and len(own.names) == 1
    if attached is None or not tried or is_list or origin.roles.next_observation is not None:
        return
    plain = evidence.transitions(table, origin.roles, origin.kinds, origin.settings)
    extended = with_columns(origin, table, tried)
    if plain is None or extended is None:
        return
    sample = evidence.contiguous(plain, subject.prepared.random_state)
    first = answer(plain, attached.given, sample.rows, subject)
    if first is None:
        return
    every = evidence.contiguous(extended, subject.prepared.random_state).rows.observations
    columns = {name: every.columns[every.names.index(name)] for name in tried}
    found = contexts(first.errors, sample, columns)
    if not found:
        yield UNUSED_COLUMNS.found(
            0.0,
            "ok",
            f"Of the columns that were not used, none explains prediction errors (tried: {_listed(tried)}).",
        )
        return
    best = found[0]
    second = None
    log = with_columns(origin, table, [best.column])
    if log is not None:
        rows = evidence.contiguous(log, subject.prepared.random_state).rows
        second = answer(log, Narrowed(attached.policy, own), rows, subject)
    difference = None if second is None else Difference.of(second, first, sample.number)
    matters = difference is not None and difference.matters(subject)
    yield UNUSED_COLUMNS.found(
        best.gain.value,
        "bad" if matters else "caution",
        f'The column "{visible(best.column)}", which was not used, explains {percent(best.gain.value)} of the prediction '
        f"errors (R² on held-out rows; {len(tried)} {'column was' if len(tried) == 1 else 'columns were'} tried)."
        + (
            ""
            if difference is None
            else f" With it in the observation, a quick estimate moves by {difference}{subject.in_rewards}."
        ),
        Sentence("If it is known before the action, {added}.", added=_added(origin, best.column)),
    )


def _added(origin: Origin, column: str) -> Wording:
    """The argument, or option, by which a caller adds a column to the observation."""
    names = ", ".join(f'"{visible(name)}"' for name in (*origin.roles.observation.columns, column))
    return Wording(f"pass observation=[{names}]", f"add {option('observation', column)}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{visible(name)}"' for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def kind_of_action(
    subject: Subject, origin: Origin, sample: Contiguous, table: pa.Table | None
) -> Iterator[Diagnostic]:
    """Would an action of whole numbers say something else as a number than as labels?"""
    attached, (column, *others) = subject.prepared.policy, origin.roles.action.columns
    readings = None if others or column in origin.kinds else evidence.action_readings(sample)
    if attached is None or readings is None:
        return
    said = f'The action "{visible(column)}" has {readings.levels} different whole numbers, which were read as labels'
    if readings.are_labels:
        yield KIND_OF_THE_ACTION.found(
            readings.gain.value, "ok", f"{said}; labels predict what happens better than a quantity does."
        )
        return
    difference = None
    table = evidence.excerpt(origin) if table is None else table
    if table is not None:
        quick = []
        for kind in ("number", "category"):
            log = evidence.transitions(table, origin.roles, {**origin.kinds, column: kind}, origin.settings)
            if log is not None:
                rows = evidence.contiguous(log, subject.prepared.random_state)
                quick.append((answer(log, attached.given, rows.rows, subject), rows.number))
        if len(quick) == 2 and quick[0][0] is not None and quick[1][0] is not None:
            difference = Difference.of(quick[0][0], quick[1][0], quick[0][1])
    number, category = kind_argument(column, "number"), kind_argument(column, "category")
    yield KIND_OF_THE_ACTION.found(
        None if difference is None else difference.value,
        "caution" if difference is not None and difference.matters(subject) else "ok",
        Sentence(
            "{said} that have nothing in common; read as a quantity ({number}), {moves}.",
            said=said,
            number=number,
            moves="they may give another answer"
            if difference is None
            else f"they move a quick estimate by {difference}{subject.in_rewards}",
        ),
        Sentence(
            "{give} {number} if they are a quantity, or {category} to say that they are labels.",
            give=GIVE.capitalized,
            number=number,
            category=category,
        ),
    )
