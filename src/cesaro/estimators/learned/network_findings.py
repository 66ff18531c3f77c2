"""What could be wrong with an estimate from networks: there is no limit to compare with, so that runs are compared."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cesaro.estimators.diagnostics import Diagnostic, Verdict
from cesaro.estimators.learned.findings import diverged

if TYPE_CHECKING:
    from cesaro.estimators.learned import Learned

# Runs still move if, together, the last quarter of their steps differs from the one before by more than its own noise, and by
# more than these parts of what matters: the spread over seeds, and the difference between target and log.
NOISE, OF_SPREAD, OF_DIFFERENCE = 2.0, 0.1, 0.02
# The same of single runs, in whatever direction; what only fluctuates moves by about the spread. Bad from five times as much.
EACH_OF_SPREAD, EACH_OF_DIFFERENCE, BAD = 0.5, 0.1, 5.0
# A spread over seeds from which the answer is uncertain, as a part of that difference, or else of the rates.
SPREAD_OF_DIFFERENCE, SPREAD_OF_RATE, LARGE_SPREAD = 0.25, 0.02, 0.1
# The mean of a density ratio is one.
MASS_CAUTION, MASS_BAD = 0.05, 0.2


def network_findings(est: "Learned") -> tuple[Diagnostic, ...]:
    """No interval; have runs settled, do seeds agree, did runs diverge, do the last networks say the same?"""
    return (_interval(est), *_settled(est), *_spread(est), diverged(est), *_over_rows(est))


def _interval(est: "Learned") -> Diagnostic:
    values = est.method != "gradient-dice"
    return Diagnostic(
        "interval",
        None,
        "caution",
        "There is no interval: what networks tend to has no formula; the spread over seeds says how far they agree, and nothing "
        "about the log's own noise.",
        "For an interval, take DiffLSTD with this fitted estimator as its features."
        if values
        else "For an interval, take DiffLSTD.",
    )


def _difference(est: "Learned") -> float:
    return abs(est.reward_rate_ - est.behavior_.value)


def _settled(est: "Learned") -> Iterator[Diagnostic]:
    kept = ~est.diverged_
    moves = est.seed_rates_[kept] - est.earlier_rates_[kept]
    move = float(moves.mean())
    noise = NOISE * float(moves.std(ddof=1)) / np.sqrt(len(moves)) if len(moves) > 1 else 0.0
    each = float(np.median(np.abs(moves)))
    spread, difference = float(np.nan_to_num(est.spread_)), _difference(est)
    verdict: Verdict = "ok"
    if abs(move) > max(noise, OF_SPREAD * spread, OF_DIFFERENCE * difference):
        verdict = "bad" if abs(move) > max(spread, 5 * OF_DIFFERENCE * difference) else "caution"
    bound = max(EACH_OF_SPREAD * spread, EACH_OF_DIFFERENCE * difference)
    if each > bound:
        verdict = "bad" if verdict == "bad" or each > BAD * bound else "caution"
    state = "have settled" if verdict == "ok" else "have not settled"
    beside = f" on average and by {each:.2g} each (median)" if len(moves) > 1 else ""
    over_seeds = f"a spread over seeds of {spread:.2g} and " if len(moves) > 1 else ""
    yield Diagnostic(
        "settled",
        move,
        verdict,
        f"Runs {state}: from the third to the last quarter of {est.steps_:,} steps their rates moved by "
        f"{move:+.2g}{beside}, against {over_seeds}a difference to the log of {difference:.2g}.",
        "" if verdict == "ok" else "Take more steps.",
    )


def _spread(est: "Learned") -> Iterator[Diagnostic]:
    if not np.isfinite(est.spread_):
        return
    spread, difference = est.spread_, _difference(est)
    scale = max(abs(est.reward_rate_), abs(est.behavior_.value))
    verdict: Verdict = "ok"
    if spread > max(SPREAD_OF_DIFFERENCE * difference, SPREAD_OF_RATE * scale):
        verdict = "bad" if spread > max(difference, LARGE_SPREAD * scale) else "caution"
    yield Diagnostic(
        "spread over seeds",
        spread,
        verdict,
        f"The rates of {int((~est.diverged_).sum())} runs have a standard deviation of {spread:.2g}; their median is "
        f"{difference:.2g} from what the log earned.",
        "" if verdict == "ok" else "Take more seeds and steps, or a larger log.",
    )


def _over_rows(est: "Learned") -> Iterator[Diagnostic]:
    kept = ~est.diverged_
    if est.method == "gradient-dice":
        mass = float(np.median(est.levels_[kept]))
        off = abs(mass - 1)
        verdict: Verdict = "ok" if off <= MASS_CAUTION else "caution" if off <= MASS_BAD else "bad"
        yield Diagnostic(
            "mass of the ratio",
            mass,
            verdict,
            f"The density ratio has a mean of {mass:.3g} over the log, where it should be one.",
            "" if verdict == "ok" else "Take more steps, or a larger lam.",
        )
        return
    gap = float(np.median(est.offline_rates_[kept] - est.seed_rates_[kept]))
    spread, difference = float(np.nan_to_num(est.spread_)), _difference(est)
    verdict = "ok" if abs(gap) <= max(spread, 5 * OF_DIFFERENCE * difference) else "caution"
    yield Diagnostic(
        "rate over all rows",
        gap,
        verdict,
        f"With the last networks, the mean of R + q(s', a') − q(s, a) over all rows is {gap:+.2g} from the rate.",
        "" if verdict == "ok" else "Both estimate the same: take more steps, or a smaller step_size at the end.",
    )
