"""Do the equations of the closed form have a clear answer?"""

from collections.abc import Iterator

import numpy as np

from cesaro.checks import Array
from cesaro.closed_forms import dense, tabular
from cesaro.closed_forms.dense import IDENTIFIED, IDENTIFIED_SINGLE, SINGLE
from cesaro.diagnostics.finding import Check, Diagnostic, Verdict, at_most
from cesaro.diagnostics.subject import Subject, spectrum
from cesaro.errors import InputError
from cesaro.features import OneHot
from cesaro.features.maps import fewer
from cesaro.passes.influence import ClosedForm
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import Prepared
from cesaro.passes.support import without_data
from cesaro.text import Sentence, Wording, argument, percent

# Rows whose pairs lead to pairs without data do not count. A hundredth changes little; a fifth is another log.
LOST_CAUTION, LOST_BAD = 0.01, 0.2
# The part of a constant that features miss, root mean square: a tenth is a level that values may need and cannot have.
MISSED_CONSTANT = 0.1
# A pair's transitions from fewer rows are a guess, and the estimate is not linear in it.
FEW_ROWS = 10
GUESSED_CAUTION, GUESSED_BAD = 0.05, 0.3
# The interval should cover what another ridge would say: one standard error is visible, three are outside of it, and
# a tenth of the rate matters.
MOVE_CAUTION, MOVE_BAD, MATERIAL = 1.0, 3.0, 0.1
# Meeting pairs without data once in so many steps.
LEAK_CAUTION = 1e-4
# What contradicts itself in the equations, as a part of their noise: beyond what a finite log leaves, and at all.
CONTRADICTION_NOISE, CONTRADICTION_CAUTION, CONTRADICTION_BAD = 50.0, 0.01, 0.05
# A log without noise has no standard error.
ROUNDING = 1e-6
# A ridge of these parts of the features' mean square is not meant to matter, in single and in double precision.
TINY_SINGLE, TINY = 1e-6, 1e-12
# The comparison decomposes matrices as large as the fit's own; above this it takes many seconds.
MOST_FEATURES = 1_024

IDENTIFICATION = Check(
    "identification",
    number=(
        "the part of the rate that the log leaves undetermined; one-hot: the share of rows that lead to pairs without"
        " data, or how often the target meets such pairs"
    ),
    caution=f"rows: over {percent(LOST_CAUTION)}; steps: over 1 in {1 / LEAK_CAUTION:,.0f}",
    bad=f"rows: over {percent(LOST_BAD)}; the ridge chose the answer",
    meaning=(
        "whether the log determines the rate at all; a *pair* is a state with an action, and pairs *without data* are"
        " those that no row has"
    ),
    remedy="collect data where the target goes; fewer features (`--features linear`); a policy closer to the log",
)

ROWS_PER_PAIR = Check(
    "rows per pair",
    number=f"share of the target's time on pairs with fewer than {FEW_ROWS} rows",
    caution=f"over {percent(GUESSED_CAUTION)}",
    bad=f"over {percent(GUESSED_BAD)}",
    meaning="one-hot only: parts of the answer are guesses from few rows, which intervals do not cover",
    remedy=(
        "more data there; merge rare labels; `--features linear`, or `--kind COLUMN=number` where labels are quantities"
    ),
)

RIDGE = Check(
    "ridge",
    number="how far the rate moves with ten times the ridge, or with none",
    caution=f"over {MOVE_CAUTION:g} SE",
    bad=f"over {MOVE_BAD:g} SE and over {percent(MATERIAL)} of the scale",
    meaning="one-hot with a ridge: the ridge decides",
    remedy="a smaller `--ridge`, or none",
)

RANK_AND_CONDITIONING = Check(
    "rank and conditioning",
    number=(
        "conditioning of the equations (how much they magnify noise); the verdict is on how far the rate moves with "
        "another ridge"
    ),
    caution=f"move over {MOVE_CAUTION:g} SE",
    bad=f"move over {MOVE_BAD:g} SE and over {percent(MATERIAL)} of the scale",
    meaning=(
        "features other than one-hot: the answer depends on combinations of features that the log barely determines"
    ),
    remedy="fewer features (`--features linear`), another `--ridge`",
)

CONTRADICTION = Check(
    "contradiction",
    number="by how much no single rate fits, as a share of the noise in the equations",
    caution=f"over {percent(CONTRADICTION_CAUTION)}, and beyond what a finite log leaves",
    bad=f"over {percent(CONTRADICTION_BAD)}",
    meaning=(
        "parts of the log contradict each other: under the target they may never meet, such as two sites, and each "
        "has its own rate"
    ),
    remedy="evaluate each part alone, from a file of its rows",
)

CONSTANT_IN_THE_SPAN = Check(
    "constant in the span",
    number="the part of a constant that features miss",
    caution=f"over {MISSED_CONSTANT:g}",
    meaning=(
        "values are determined only up to a constant, and without one features must also fit their arbitrary level"
    ),
    remedy="add a feature that is one everywhere, or take features of ours (`--features polynomial:2`)",
)

CHECKS = (
    IDENTIFICATION,
    ROWS_PER_PAIR,
    RIDGE,
    RANK_AND_CONDITIONING,
    CONTRADICTION,
    CONSTANT_IN_THE_SPAN,
)


def equations(subject: Subject) -> Iterator[Diagnostic]:
    """Identification; rank and conditioning, or rows per pair; the constant; the ridge."""
    solution, moments, chosen = subject.solution, subject.moments, subject.prepared.map
    if solution is None or moments is None:
        return
    if isinstance(chosen, OneHot):
        yield identification_of_pairs(subject.prepared, solution, moments)
        yield rows_per_pair(solution, moments)
        if solution.ridge > 0:
            yield ridge(subject, chosen, solution, moments)
        return
    yield identification(subject, solution, moments)
    if moments.same and solution.ridge == 0:
        yield contradiction(subject, solution, moments)
    if len(solution.weights) <= MOST_FEATURES:
        yield conditioning(subject, solution, moments)
    yield constant(subject, moments)


def identification(subject: Subject, solution: ClosedForm, moments: Moments) -> Diagnostic:
    """Whether the equations tell the rate: what is lost of it in directions that the log does not determine."""
    value = solution.unidentified
    most = IDENTIFIED_SINGLE if moments.precision > SINGLE else IDENTIFIED
    if solution.is_identified:
        return IDENTIFICATION.found(value, "ok", f"The log determines the rate (undetermined part: {value:.1g}).")
    return IDENTIFICATION.found(
        value,
        "bad",
        f"The log does not determine the rate in these features: a part of {value:.2g} is undetermined, where at most {most:g} "
        "may be. The number comes from the ridge, not from the data.",
        Sentence(
            "Take {fewer}; collect data where the target goes; or evaluate a policy closer to the log.",
            fewer=fewer(subject.prepared.map),
        ),
    )


def identification_of_pairs(prepared: Prepared, solution: ClosedForm, moments: Moments) -> Diagnostic:
    """Whether the rate of a discrete log is told by the pairs that were logged."""
    if isinstance(solution.bare, InputError):
        return IDENTIFICATION.found(
            1.0,
            "bad",
            f"{str(solution.bare).partition(';')[0]}; the number comes from the ridge, not from the data.",
            Sentence(
                "Collect data there, evaluate a policy closer to the log, or take features that share rows between states: "
                "{shared}.",
                shared=tabular.SHARED,
            ),
        )
    solution = solution.bare or solution
    if solution.unidentified > 0:
        return IDENTIFICATION.found(
            solution.unidentified,
            at_most(solution.unidentified, LEAK_CAUTION, tabular.LEAK),
            f"About once in {1 / solution.unidentified:,.0f} steps the target meets a pair of state and action that no row of "
            "the log has, and nothing is known of what happens there.",
            _collect(prepared, moments),
        )
    shares = np.asarray(moments.mean("v"))
    logged = shares > 0
    lost = float(shares[~solution.known].sum()) if solution.known is not None else 0.0
    pairs = int((logged & ~solution.known).sum()) if solution.known is not None else 0
    verdict = at_most(lost, LOST_CAUTION, LOST_BAD)
    if pairs == 0:
        sentence = f"The log determines the rate and the values of all {logged.sum():,} logged pairs."
        return IDENTIFICATION.found(lost, verdict, sentence)
    return IDENTIFICATION.found(
        lost,
        verdict,
        f"The log determines the rate, from the pairs of state and action that the target keeps to. Another {pairs:,} of the "
        f"{logged.sum():,} logged pairs, with {percent(lost)} of the rows, lead to pairs that no row of the log has, and are "
        "left out.",
        _collect(prepared, moments),
    )


def _collect(prepared: Prepared, moments: Moments) -> str:
    pairs = without_data(prepared, moments, 3)
    return f"Collect data where the log has none: at (s', a') = {', '.join(pairs)}." if pairs else "Collect more data."


def rows_per_pair(solution: ClosedForm, moments: Moments) -> Diagnostic:
    """How much of the target's time is spent on pairs that were logged a few times only."""
    shares = np.asarray(moments.mean("v"))
    time = np.abs(solution.rate_row[0][1:] * shares)
    rows = shares * moments.rows
    guessed = float(time[(rows > 0) & (rows < FEW_ROWS)].sum() / time.sum())
    verdict = at_most(guessed, GUESSED_CAUTION, GUESSED_BAD)
    return ROWS_PER_PAIR.found(
        guessed,
        verdict,
        f"The target spends {percent(guessed)} of its time at pairs of state and action with fewer than {FEW_ROWS} rows each "
        f"(median over its time: {_weighted_median(rows, time):,.0f} rows).",
        Sentence(
            "Collect more data there, merge rare labels, or take features that share rows between states: {shared}. Intervals do "
            "not cover guesses from few rows.",
            shared=tabular.SHARED,
        ),
    )


def contradiction(subject: Subject, solution: ClosedForm, moments: Moments) -> Diagnostic:
    """Equations that no rate solves: the target falls into parts that never meet, each with a rate of its own."""
    left, totals = solution.residual, subject.totals
    noise = totals.plan.unit**2 * totals.sums["errors2"] / subject.num_rows if subject.has_series else 0.0
    value = max(0.0, float(left @ moments.C @ left)) / noise if noise > 0 and left.any() else 0.0
    surplus = max(1, 1 + len(solution.weights) - solution.rank)
    verdict: Verdict = "ok"
    if value > CONTRADICTION_NOISE * surplus / moments.rows:
        verdict = at_most(value, CONTRADICTION_CAUTION, CONTRADICTION_BAD)
    return CONTRADICTION.found(
        value,
        verdict,
        f"No single rate fits the whole log: parts of it contradict each other, by {percent(value)} of the noise in the "
        "equations."
        if verdict != "ok"
        else f"One rate fits the whole log, up to {percent(value)} of the noise in the equations.",
        "Under the target the log may fall into parts that never meet, such as two sites, each with its own rate: write the rows "
        "of each part to a file of its own, and evaluate these one by one.",
    )


def conditioning(subject: Subject, solution: ClosedForm, moments: Moments) -> Diagnostic:
    """Whether directions that the log barely determines decide, or the ridge does: other ridges, none among them, tell."""
    tiny = TINY_SINGLE if moments.precision > SINGLE else TINY
    more = 10 * solution.ridge if solution.ridge > 0 else tiny * float(np.mean(moments.mean("xx")))
    what = "ten times the ridge" if solution.ridge > 0 else f"a ridge of {tiny:g} of the features' mean square"
    move = dense.solve(moments, more).reward_rate - solution.reward_rate
    if solution.ridge > 0:
        without = dense.solve(moments, 0.0).reward_rate - solution.reward_rate
        if abs(without) > abs(move):
            move, what = without, "no ridge"
    error = subject.estimate.standard_error
    return RANK_AND_CONDITIONING.found(
        solution.conditioning,
        _verdict(move, error, subject.scale),
        f"The equations have rank {solution.rank:,} of {1 + len(solution.weights):,}, conditioning {solution.conditioning:.1e}; "
        f"{what} would move the rate by {move:+.2g}, against a standard error of {error:.2g}.",
        Sentence(
            "The answer rests on combinations of features that the log barely determines: compare it with {fewer} "
            "and with another ridge ({ridge}).",
            fewer=fewer(subject.prepared.map),
            ridge=_other_ridge(solution),
        ),
    )


def constant(subject: Subject, moments: Moments) -> Diagnostic:
    """The distance of a constant from the span of the features, root mean square over the log."""
    mean, gram = first_moments(subject, moments)
    values, vectors, scale = spectrum(gram)
    kept = values > 100 * moments.precision * values[-1]
    along = vectors[:, kept].T @ (scale * mean)
    missed = float(np.sqrt(max(0.0, 1 - float(along**2 @ (1 / values[kept])))))
    verdict = at_most(missed, MISSED_CONSTANT, np.inf)
    return CONSTANT_IN_THE_SPAN.found(
        missed,
        verdict,
        f"The features can express a constant, up to {missed:.1g}, as they should."
        if verdict == "ok"
        else f"The features cannot express a constant; they miss {percent(missed)} of it. So they must also fit the level of the "
        "values, which is arbitrary; GradientDICE needs a constant.",
        Sentence(
            "Add a feature that is one everywhere to your own map, or take one of ours, such as {ours}.",
            ours=argument("features", "polynomial:2"),
        ),
    )


def first_moments(subject: Subject, moments: Moments | None) -> tuple[Array, Array]:
    """The mean of `x` and of `x xᵀ`, from all rows where the moments hold them."""
    if moments is not None and moments.same:
        return np.asarray(moments.mean("v")), np.asarray(moments.mean("vv"))
    rows = subject.sample
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    x = rows.x
    weighted = x * weights.astype(x.dtype)[:, None] / weights.sum().astype(x.dtype)
    return weighted.sum(axis=0, dtype=np.float64), (weighted.T @ x).astype(np.float64)


def ridge(subject: Subject, one_hot: OneHot, solution: ClosedForm, moments: Moments) -> Diagnostic:
    """Compare the rate with those at ten times the ridge and at none (or a thousandth, where there must be one)."""
    more, what = 10 * solution.ridge, f"Ten times the ridge ({10 * solution.ridge:.2g})"
    move = tabular.solve(moments, more, one_hot.label).reward_rate - solution.reward_rate
    less, label = solution.bare, "No ridge"
    if not isinstance(less, ClosedForm):
        less, label = tabular.solve(moments, solution.ridge / 1_000, one_hot.label), "A thousandth of the ridge"
    if abs(less.reward_rate - solution.reward_rate) > abs(move):
        move, what = less.reward_rate - solution.reward_rate, label
    error = subject.estimate.standard_error
    return RIDGE.found(
        move,
        _verdict(move, error, subject.scale),
        f"{what} would move the rate by {move:+.3g}{subject.in_rewards}, against a standard error of {error:.2g}.",
        Sentence(
            "Take a smaller ridge ({ridge}), or none: the interval holds at the chosen ridge only.",
            ridge=_other_ridge(solution),
        ),
    )


def _other_ridge(solution: ClosedForm) -> Wording:
    """A ridge to compare with: a smaller one, or a small one where there is none."""
    ridge = f"{solution.ridge / 100:.2g}" if solution.ridge > 0 else "1e-6"
    return Wording(f"ridge={ridge}", f"--ridge {ridge}")


def _verdict(move: float, error: float, scale: float) -> Verdict:
    """The verdict on what a choice that should not matter does to the rate."""
    if abs(move) <= MOVE_CAUTION * error + ROUNDING * scale:
        return "ok"
    return "bad" if abs(move) > max(MOVE_BAD * error, MATERIAL * scale) else "caution"


def _weighted_median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
