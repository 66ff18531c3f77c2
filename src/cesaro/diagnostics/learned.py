"""Findings on what could be wrong with a learned estimate, and with features that networks learned.

Networks have no limit to compare with, so that runs are compared with each other.
"""

from collections.abc import Iterator

import numpy as np

from cesaro.diagnostics.finding import Check, Diagnostic, Verdict, at_most, nearly
from cesaro.diagnostics.subject import NetworkFeatures, Runs, Subject
from cesaro.linear import methods
from cesaro.text import Sentence, Wording, argument, percent

# Runs still move if, together, the last quarter of their steps differs from the one before by more than its own noise, and by
# more than these parts of what matters: the spread over seeds, and the difference between target and log.
NOISE, OF_SPREAD, OF_DIFFERENCE = 2.0, 0.1, 0.02
# The same of single runs, in whatever direction; what only fluctuates moves by about the spread. Bad from five times as much.
EACH_OF_SPREAD, EACH_OF_DIFFERENCE, BAD = 0.5, 0.1, 5.0
# A spread over seeds from which the answer is uncertain, as a part of that difference, or else of the rates.
SPREAD_OF_DIFFERENCE, SPREAD_OF_RATE, LARGE_SPREAD = 0.25, 0.02, 0.1
# The mean of a density ratio is one.
MASS_CAUTION, MASS_BAD = 0.05, 0.2
# Of a rate whose limit is not known: so many spreads over seeds from its start it has moved.
FAR_SPREADS = 10.0
# A spread over seeds beyond so many standard errors is outside of the interval, in features of networks.
SPREAD_CAUTION, SPREAD_BAD = 1.0, 3.0
# A share of rows that networks were fitted on from which the interval is in doubt.
SHARED_CAUTION = 0.01

CLOSED_FORM = Wording("DiffLSTD", f"--method {methods.CLOSED_FORM}")

MOVED_FROM_ITS_START = Check(
    "moved from its start",
    number="the rate divided by its spread over seeds",
    caution=(
        "the limit is not reached, but half of the way is done; or the limit is unknown and the rate within "
        f"{FAR_SPREADS:g} spreads of 0"
    ),
    bad="less than half of the way is done",
    meaning="runs start at zero and may still be near it",
    remedy=f"`--set steps=N`, a larger `--ridge`, `--features linear`, or the closed form (`--method {methods.CLOSED_FORM}`)",
)

DIVERGED_RUNS = Check(
    "diverged runs",
    number="number of runs that diverged",
    caution="some",
    bad="half or more",
    meaning="steps were too large; networks have this finding, too",
    remedy="`--set step_size=…`, smaller",
)

STEP_SIZE = Check(
    "step size",
    number="the step size",
    caution="above the largest stable one, or none is known",
    meaning="the sampled update may be unstable",
    remedy="the step that the sentence names",
)

INTERVAL = Check(
    "interval",
    number="none",
    caution="always",
    meaning="there is no interval for networks, nor for a method of one's own",
    remedy="`DiffLSTD` with the fitted networks as features",
)

SETTLED = Check(
    "settled",
    number="how far the rates move from the third to the last quarter of the steps",
    caution=(
        f"over noise, {percent(OF_SPREAD)} of the spread and {percent(OF_DIFFERENCE)} of the difference from the log; "
        "or single runs by half the spread"
    ),
    bad="over the spread and 10 % of that difference; or single runs by five times as much",
    meaning="runs still move",
    remedy="`--set steps=N`",
)

SPREAD_OVER_SEEDS = Check(
    "spread over seeds",
    number="standard deviation of the runs' rates",
    caution=(
        f"over {percent(SPREAD_OF_DIFFERENCE)} of the difference from the log and {percent(SPREAD_OF_RATE)} of the "
        f"rates; in features of networks: over {SPREAD_CAUTION:g} SE"
    ),
    bad=(
        f"over that difference and {percent(LARGE_SPREAD)} of the rates; in features of networks: over {SPREAD_BAD:g} "
        "SE"
    ),
    meaning="seeds do not agree",
    remedy="`--set seeds=N`, `--set steps=N`; more rows",
)

RATE_OVER_ALL_ROWS = Check(
    "rate over all rows",
    number="the rate that the last networks give over all rows, minus the rate",
    caution="over the spread and 10 % of the difference from the log",
    meaning="two estimates of the same thing differ",
    remedy="`--set steps=N`, or a smaller `--set step_size=…`",
)

MASS_OF_THE_RATIO = Check(
    "mass of the ratio",
    number="mean of GradientDICE's density ratio, which should be 1",
    caution=f"off by over {percent(MASS_CAUTION)}",
    bad=f"off by over {percent(MASS_BAD)}",
    meaning="the ratio is not normalized",
    remedy="`--set steps=N`, or a larger `--set lam=…`",
)

LEARNED_FEATURES = Check(
    "learned features",
    number="share of rows that the networks were fitted on",
    caution=f"over {percent(SHARED_CAUTION)}",
    meaning="the interval does not account for features that were chosen by the same rows",
    remedy="fit networks on other trajectories",
)

LINEAR_CHECKS = (MOVED_FROM_ITS_START, DIVERGED_RUNS, STEP_SIZE)
NETWORK_CHECKS = (INTERVAL, SETTLED, SPREAD_OVER_SEEDS, RATE_OVER_ALL_ROWS, MASS_OF_THE_RATIO, LEARNED_FEATURES)


def _setting(name: str, value: object) -> Wording:
    """A setting of the method with a value."""
    return Wording(f"{name}={value}", f"--set {name}={value}")


def _larger(ridge: float) -> str:
    return f"{10 * ridge:.2g}" if ridge > 0 else "1e-3"


def learned(subject: Subject) -> Iterator[Diagnostic]:
    """Findings on the runs of a learned method, and on networks whose last hidden layers are the features."""
    if subject.networks is not None:
        yield from network_features(subject)
    if subject.runs is None:
        return
    if subject.runs.members is None:
        yield from _own(subject, subject.runs)
        yield _moved(subject, subject.runs)
        yield _diverged(subject.runs)
        yield _step(subject.runs)
        return
    yield _interval(subject.runs)
    yield from _settled(subject, subject.runs)
    yield from _spread(subject, subject.runs)
    yield _diverged(subject.runs)
    yield from _over_rows(subject, subject.runs)


def _own(subject: Subject, runs: Runs) -> Iterator[Diagnostic]:
    """A method without a closed form has no standard error."""
    if runs.plug_in is None or runs.plug_in.stability is None or runs.plug_in.stability.form.has_influence:
        return
    yield INTERVAL.found(
        None,
        "caution",
        f"There is no interval, because the influence of rows on where {subject.label} ends is not known. The spread over seeds "
        "says how far runs agree, and nothing about the noise of the log.",
        Sentence("For an interval, use {closed_form}.", closed_form=CLOSED_FORM),
    )


def _moved(subject: Subject, runs: Runs) -> Diagnostic:
    """The rate starts at zero."""
    value = subject.estimate.value
    spreads = abs(value) / runs.spread if runs.spread > 0 else float("nan")
    times = runs.steps / runs.time_constant
    beside = f", {spreads:.3g} times its spread over seeds" if np.isfinite(spreads) else ""
    slowest = f" ({times:.2g} time constants of its slowest direction)" if np.isfinite(times) else ""
    said = f"After {runs.steps:,} steps{slowest} the rate has moved from 0 to {value:.4g}{beside}"
    measure = spreads if np.isfinite(spreads) else None
    if not np.isfinite(runs.limit):
        return MOVED_FROM_ITS_START.found(
            measure,
            "ok" if spreads > FAR_SPREADS else "caution",
            f"{said}; its limit is not known.",
            Sentence("Compare with {closed_form}.", closed_form=CLOSED_FORM),
        )
    said = f"{said}; its limit is {runs.limit:.4g}."
    if runs.reached:
        return MOVED_FROM_ITS_START.found(measure, "ok", said)
    half_way = abs(value - runs.limit) <= 0.5 * abs(runs.limit)
    remedy = Sentence(
        "Take more steps ({steps}{needed}), a larger ridge ({ridge}), fewer features ({fewer}), or {closed_form}.",
        steps=_setting("steps", 4 * runs.steps if runs.steps_needed is None else 2 * runs.steps_needed),
        needed="" if runs.steps_needed is None else " would do",
        ridge=Wording(f"ridge={_larger(runs.ridge)}", f"--ridge {_larger(runs.ridge)}"),
        fewer=argument("features", "linear"),
        closed_form=CLOSED_FORM,
    )
    return MOVED_FROM_ITS_START.found(measure, "caution" if half_way else "bad", said, remedy)


def _diverged(runs: Runs) -> Diagnostic:
    lost = int(runs.diverged.sum())
    if not lost:
        return DIVERGED_RUNS.found(0.0, "ok", f"None of {len(runs.seed_rates)} runs diverged.")
    first = int(runs.diverged_at[runs.diverged].min())
    return DIVERGED_RUNS.found(
        float(lost),
        "bad" if 2 * lost >= len(runs.seed_rates) else "caution",
        f"{lost} of {len(runs.seed_rates)} runs diverged, the first at step {first:,}.",
        Sentence("Take a smaller step size: {step}.", step=_setting("step_size", f"{runs.step_size / 4:.2g}")),
    )


def _step(runs: Runs) -> Diagnostic:
    analysis = runs.plug_in
    assert analysis is not None
    limit = analysis.max_step_sampled
    if limit is None:
        return STEP_SIZE.found(
            runs.step_size,
            "caution",
            "No step size is known to be stable here.",
            Sentence("Compare with {closed_form}.", closed_form=CLOSED_FORM),
        )
    share = runs.step_size / limit
    said = (
        f"The step size {runs.step_size:.3g} is {share:.3g} times the largest stable one, {limit:.3g}. {analysis.note}"
    )
    if share <= 1:
        return STEP_SIZE.found(runs.step_size, "ok", said)
    return STEP_SIZE.found(
        runs.step_size,
        "caution",
        said,
        Sentence("Take {step}.", step=_setting("step_size", f"{limit / 2:.2g}")),
    )


def _interval(runs: Runs) -> Diagnostic:
    has_values = not runs.learns_ratio
    return INTERVAL.found(
        None,
        "caution",
        "There is no interval, because no formula says what networks converge to. The spread over seeds says how far runs agree, "
        "and nothing about the noise of the log.",
        Sentence(
            "For an interval, use {closed_form}{features}.",
            closed_form=CLOSED_FORM,
            features=Wording(" with this fitted estimator as its features" if has_values else "", ""),
        ),
    )


def _difference(subject: Subject) -> float:
    return abs(subject.estimate.value - subject.behavior.value)


def _settled(subject: Subject, runs: Runs) -> Iterator[Diagnostic]:
    assert runs.earlier_rates is not None
    kept = ~runs.diverged
    moves = runs.seed_rates[kept] - runs.earlier_rates[kept]
    move = float(moves.mean())
    noise = NOISE * float(moves.std(ddof=1)) / np.sqrt(len(moves)) if len(moves) > 1 else 0.0
    each = float(np.median(np.abs(moves)))
    spread, difference = float(np.nan_to_num(runs.spread)), _difference(subject)
    verdict: Verdict = "ok"
    if abs(move) > max(noise, OF_SPREAD * spread, OF_DIFFERENCE * difference):
        verdict = "bad" if abs(move) > max(spread, 5 * OF_DIFFERENCE * difference) else "caution"
    bound = max(EACH_OF_SPREAD * spread, EACH_OF_DIFFERENCE * difference)
    if each > bound:
        verdict = "bad" if verdict == "bad" or each > BAD * bound else "caution"
    state = "have settled" if verdict == "ok" else "have not settled"
    beside = f" on average and by {each:.2g} each (median)" if len(moves) > 1 else ""
    over_seeds = f"a spread over seeds of {spread:.2g} and " if len(moves) > 1 else ""
    yield SETTLED.found(
        move,
        verdict,
        f"Runs {state}: from the third to the last quarter of {runs.steps:,} steps their rates moved by "
        f"{move:+.2g}{beside}, against {over_seeds}a difference to the log of {difference:.2g}.",
        Sentence("Take more steps: {steps}.", steps=_setting("steps", 4 * runs.steps)),
    )


def _spread(subject: Subject, runs: Runs) -> Iterator[Diagnostic]:
    if not np.isfinite(runs.spread):
        return
    spread, difference = runs.spread, _difference(subject)
    scale = max(abs(subject.estimate.value), abs(subject.behavior.value))
    verdict: Verdict = "ok"
    if spread > max(SPREAD_OF_DIFFERENCE * difference, SPREAD_OF_RATE * scale):
        verdict = "bad" if spread > max(difference, LARGE_SPREAD * scale) else "caution"
    yield SPREAD_OVER_SEEDS.found(
        spread,
        verdict,
        f"The rates of {int((~runs.diverged).sum())} runs have a standard deviation of {spread:.2g}; their median is "
        f"{difference:.2g} from what the log earned.",
        Sentence(
            "Take more seeds ({seeds}) and steps ({steps}), or a larger log.",
            seeds=_setting("seeds", 2 * len(runs.seed_rates)),
            steps=_setting("steps", 4 * runs.steps),
        ),
    )


def _over_rows(subject: Subject, runs: Runs) -> Iterator[Diagnostic]:
    kept = ~runs.diverged
    if runs.learns_ratio:
        assert runs.levels is not None
        mass = float(np.median(runs.levels[kept]))
        off = abs(mass - 1)
        yield MASS_OF_THE_RATIO.found(
            mass,
            at_most(off, MASS_CAUTION, MASS_BAD),
            f"The density ratio has a mean of {mass:.3g} over the log, where it should be one.",
            Sentence(
                "Take more steps ({steps}), or a larger weight of that mean ({lam}).",
                steps=_setting("steps", 4 * runs.steps),
                lam=_setting("lam", f"{10 * subject.lam:g}"),
            ),
        )
        return
    assert runs.offline_rates is not None
    gap = float(np.median(runs.offline_rates[kept] - runs.seed_rates[kept]))
    spread, difference = float(np.nan_to_num(runs.spread)), _difference(subject)
    verdict: Verdict = "ok" if abs(gap) <= max(spread, 5 * OF_DIFFERENCE * difference) else "caution"
    yield RATE_OVER_ALL_ROWS.found(
        gap,
        verdict,
        f"With the last networks, the mean of R + q(s', a') − q(s, a) over all rows differs from the rate by {gap:+.2g}.",
        Sentence(
            "The two should be equal: take more steps ({steps}), or smaller ones ({step}).",
            steps=_setting("steps", 4 * runs.steps),
            step=_setting("step_size", f"{runs.step_size / 4:.2g}"),
        ),
    )


def network_features(subject: Subject) -> Iterator[Diagnostic]:
    """Findings on the networks whose hidden layers are the features: what they share, and whether their seeds agree."""
    networks, error = subject.networks, subject.estimate.standard_error
    assert networks is not None
    yield _shared(networks)
    spread, rates = networks.spread, networks.rates
    if not np.isfinite(spread):
        return
    errors = spread / error if error > 0 else np.inf * spread
    verdict = at_most(errors, SPREAD_CAUTION, SPREAD_BAD)
    if spread <= 1e-6 * abs(subject.estimate.value):
        verdict = "ok"
    lost = int((~np.isfinite(rates)).sum())
    without = f" ({lost} of {len(rates)} without an answer)" if lost else ""
    yield SPREAD_OVER_SEEDS.found(
        spread,
        verdict,
        f"Between the features of different seeds the rate has a standard deviation of {spread:.2g}{without}, against a standard "
        f"error of {error:.2g}.",
        "Train the networks longer, or wider ones; the interval covers one seed's features.",
    )


def _shared(networks: NetworkFeatures) -> Diagnostic:
    if not networks.shared:
        return LEARNED_FEATURES.found(0.0, "ok", "Features were learned from other rows.")
    said = f"Features were learned from {nearly(networks.shared)} of the same rows"
    if networks.shared <= SHARED_CAUTION:
        return LEARNED_FEATURES.found(networks.shared, "ok", f"{said}, too few to matter.")
    return LEARNED_FEATURES.found(
        networks.shared,
        "caution",
        f"{said}, and the interval does not cover that choice."
        + (" Rows of this log repeat, so equal ones may be separate events." if networks.repeated else ""),
        "Fit the networks on one part of the log's trajectories, and DiffLSTD on the other.",
    )
