"""When not to believe a world: what it says of things that the log knows, and where its rollouts go."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cesaro.data import Block
from cesaro.diagnostics.finding import Check, Diagnostic, at_most
from cesaro.passes.standard_errors import Estimate
from cesaro.text import percent

if TYPE_CHECKING:
    from cesaro.diagnostics.subject import Subject

# The world's rate of the log's own behavior may miss the log's by so many half widths of the answer's interval, beyond its noise.
CONTROL_CAUTION, CONTROL_BAD = 0.5, 1.0
NOISE = 2.0
# A residual is there beyond so many standard errors, and matters from these parts of the half width.
RESIDUAL_CAUTION, RESIDUAL_BAD = 0.5, 1.5
# Shares of the target's time beyond the log, and of steps that had to be held back near it.
OUTSIDE_CAUTION, OUTSIDE_BAD = 0.05, 0.3
FAR_CAUTION, FAR_BAD = 0.01, 0.1
# What the row before explains of a column beyond the world.
MEMORY_CAUTION, MEMORY_BAD = 0.01, 0.02
# What the time of a row explains: by chance one over the number of rows.
TREND_CAUTION, TREND_BAD = 0.004, 0.006
# Ends in rollouts, as a multiple of those in the log.
ENDS_CAUTION, ENDS_BAD = 1.5, 4.0


@dataclass(frozen=True)
class Residual:
    """A check of a world and a target by held-out rows.

    Attributes:
        value: how much more the target earns than the world says, by these rows.
        standard_error: over trajectories or blocks.
        rows: an effective number of rows behind it.
        outside: the share of the target's pairs that lie further out than all but a thousandth of the log's.
        memory: the share of a column's variance that the row before explains beyond the world, held out; the largest of all.
        trend: the share of a column's variance that the time of a row explains beyond the world; the largest of all.
    """

    value: float
    standard_error: float
    rows: float
    outside: float
    memory: float
    trend: float = 0.0

    @property
    def proven(self) -> float:
        """By how much the world is off at least, as far as noise allows to say."""
        return max(0.0, abs(self.value) - self.standard_error)

    @property
    def is_noise(self) -> bool:
        """Whether the world may be right, by these rows."""
        return abs(self.value) <= NOISE * self.standard_error


@dataclass(frozen=True)
class WorldFacts:
    """Facts about a learned world, by which its answer is judged.

    Attributes:
        control, control_error: what the log's own behavior earns in it; None if that depends on the start.
        residual: what held-out rows say; None of a discrete log, and so below.
        explained: the share of variance explained, by column, held out.
        far: the share of steps held back near the log.
        jumps, logged_jumps: the share of steps with a reset or an end, of the target and in the log.
    """

    control: float | None
    control_error: float
    residual: Residual | None
    explained: dict[str, float] | None
    far: float
    jumps: float
    logged_jumps: float


CONTROL = Check(
    "rate of the log in the world",
    number="what the log's own behavior earns in the learned process, minus what the log earned",
    caution=f"beyond its noise and {CONTROL_CAUTION:g} of the half width of the interval",
    bad="beyond the half width, or it depends on the start",
    meaning="the learned process does not even repeat its log",
    remedy="`--method auto`; more observation columns, if the system has a state that they do not show",
)
RESIDUAL = Check(
    "held-out rows",
    number="how much more the target earns than the learned process says, by rows that its members did not learn from",
    caution=f"beyond its noise and {RESIDUAL_CAUTION:g} of the half width of the interval",
    bad=f"beyond its noise and {RESIDUAL_BAD:g} of the half width",
    meaning="the learned process is wrong where the target goes; the interval reaches as far",
    remedy="more rows where the target goes; a number with few values as labels (`--kind …=category`)",
)
OUTSIDE = Check(
    "time outside the log",
    number="share of the target's time in the learned process further out than all but a thousandth of the log",
    caution=f"over {percent(OUTSIDE_CAUTION)}",
    bad=f"over {percent(OUTSIDE_BAD)}",
    meaning="the learned process is asked about what it has not seen",
    remedy="collect data there; evaluate a policy closer to the log",
)
EDGE = Check(
    "rollouts at the edge",
    number="share of steps in which a rollout's state, or the target's action, had to be held back near the log",
    caution=f"over {percent(FAR_CAUTION)}",
    bad=f"over {percent(FAR_BAD)}",
    meaning="the learned process runs away under the target, or the target does what the log never did",
    remedy="collect data where the target goes; evaluate a policy closer to the log",
)
HIDDEN = Check(
    "state of the world",
    number="share of a column's variance that the row before explains beyond the learned process, held out",
    caution=f"over {percent(MEMORY_CAUTION)}",
    bad=f"over {percent(MEMORY_BAD)}",
    meaning="the columns do not show all of the state",
    remedy="add columns, or the last values of those that there are, to the observations",
)
TREND = Check(
    "world over time",
    number="share of a column's variance that the time of a row explains beyond the learned process, in the log or "
    "in its trajectory",
    caution=f"over {percent(TREND_CAUTION)}",
    bad=f"over {percent(TREND_BAD)}",
    meaning="the system changed while the log was written, or changes as a trajectory goes on",
    remedy="recent rows alone; add what changed, such as the time since the start, to the observations",
)
FIT = Check(
    "held-out fit",
    number="the least share of a column's variance that the learned process explains held out",
    caution="below zero",
    meaning="the networks say less than a mean would",
    remedy="more rows; fewer columns",
)
ENDS = Check(
    "ends in the world",
    number="resets and ends of the target's rollouts, as a multiple of the log's",
    caution=f"over {ENDS_CAUTION:g}",
    bad=f"over {ENDS_BAD:g}",
    meaning="the target may end more often, or the learned process is wrong about ends",
    remedy="`--method auto`; compare with what is known of the system",
)
CHECKS = (CONTROL, RESIDUAL, OUTSIDE, EDGE, HIDDEN, TREND, FIT, ENDS)


def world(subject: "Subject") -> Iterator[Diagnostic]:
    """Findings on an answer from a learned world."""
    found = subject.world
    if found is None:
        return
    low, high = subject.estimate.interval()
    half = max((high - low) / 2, 1e-300)
    logged = comparable(subject.behavior, subject.prepared.sample.rows)
    yield repeats_log(found.control, found.control_error, logged, half)
    if found.residual is not None:
        yield from _by_rows(found.residual, half)
    if found.explained is not None:
        worst = min(found.explained, key=lambda name: found.explained[name] if found.explained else 0.0)
        share = found.explained[worst]
        yield FIT.found(
            share,
            "ok" if not share < 0 else "caution",
            f'Of rows that it did not learn from, the world explains {percent(max(0.0, share))} of column "{worst}", its least.',
            "Take more rows, or fewer columns.",
        )
        yield edge(found)
    if found.logged_jumps > 0:
        times = found.jumps / found.logged_jumps
        yield ENDS.found(
            times,
            at_most(times, ENDS_CAUTION, ENDS_BAD),
            f"The target's rollouts are reset or end in {percent(found.jumps)} of steps, the log's rows in "
            f"{percent(found.logged_jumps)}.",
            "Compare with what is known of the system, and with the closed form.",
        )


def comparable(logged: Estimate, rows: Block) -> Estimate:
    """What a log earned, as far as simulated rows can be compared with it: where rows have weights, nothing is known.

    Weights may stand for rows that were left out, wherever these were, and a simulated log has no such rows.
    """
    return logged if rows.weights is None else replace(logged, standard_error=np.inf)


def repeats_log(control: float | None, error: float, logged: Estimate, half: float) -> Diagnostic:
    """Whether the log's own behavior earns in a world what the log earned, beside this half width of an interval.

    Where it is bad, the world does not resemble the log: it has no vote in an answer, and a rehearsal in it tells little.

    Args:
        control: what it earns there; None if that depends on the start.
        error: of that, as a standard error.
        logged: what the log earned.
    """
    remedy = (
        "The learned process does not repeat its log: take the closed form, or add columns that show more of the state."
    )
    if control is None:
        return CONTROL.found(
            None, "bad", "In the learned process, what the log does has no rate: it depends on the start.", remedy
        )
    off = control - logged.value
    noise = NOISE * float(np.hypot(error, np.nan_to_num(logged.standard_error)))
    return CONTROL.found(
        off,
        "ok" if abs(off) <= noise else at_most(abs(off) / max(half, 1e-300), CONTROL_CAUTION, CONTROL_BAD),
        f"In the learned process, what the log does earns {control:.4g}; the log earned {logged.value:.4g}.",
        remedy,
    )


def held_out(found: Residual, half: float) -> Diagnostic:
    """Whether rows that members did not learn from say that the world is wrong where the target goes, beside this half width."""
    return RESIDUAL.found(
        found.value,
        "ok" if found.is_noise else at_most(abs(found.value) / half, RESIDUAL_CAUTION, RESIDUAL_BAD),
        f"By rows that it did not learn from, the learned process is off by {found.value:.3g} ± "
        f"{NOISE * found.standard_error:.2g} where the target goes.",
        "Collect more rows where the target goes; a number with few values may do better as labels (kind category).",
    )


def _by_rows(found: Residual, half: float) -> Iterator[Diagnostic]:
    yield held_out(found, half)
    yield OUTSIDE.found(
        found.outside,
        at_most(found.outside, OUTSIDE_CAUTION, OUTSIDE_BAD),
        f"The target spends {percent(found.outside)} of its time in the learned process further out than all but a thousandth of "
        "the log.",
        "Collect data there, or evaluate a policy closer to the log.",
    )
    yield hidden_state(found)
    yield over_time(found)


def hidden_state(found: Residual) -> Diagnostic:
    """Whether the row before tells more of what comes next than the columns of a row."""
    return HIDDEN.found(
        found.memory,
        at_most(found.memory, MEMORY_CAUTION, MEMORY_BAD),
        f"The row before explains {percent(max(0.0, found.memory))} of a column's variance beyond what the learned process "
        "knows.",
        "The columns may not show all of the state: add columns, or the last values of those that there are.",
    )


def over_time(found: Residual) -> Diagnostic:
    """Whether the time of a row tells more of what comes next than its columns."""
    return TREND.found(
        found.trend,
        at_most(found.trend, TREND_CAUTION, TREND_BAD),
        f"The time of a row explains {percent(found.trend)} of a column's variance beyond what the learned process knows.",
        "The system changes over time: evaluate recent rows alone, or add what changed to the observations.",
    )


def edge(found: WorldFacts) -> Diagnostic:
    """How often rollouts had to be held back near the log."""
    return EDGE.found(
        found.far,
        at_most(found.far, FAR_CAUTION, FAR_BAD),
        f"In {percent(found.far)} of steps a rollout's state, or the target's action, had to be held back near the log.",
        "Collect data where the target goes, or evaluate a policy closer to the log.",
    )
