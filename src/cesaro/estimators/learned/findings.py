"""What could be wrong with a learned estimate; of networks there is no limit to compare with, so that runs are compared."""

from collections.abc import Iterator

import numpy as np

from cesaro.estimators.diagnostics import Diagnostic, Verdict
from cesaro.estimators.learned.base import LearnedBase
from cesaro.text import Sentence, Wording, argument

# Runs still move if, together, the last quarter of their steps differs from the one before by more than its own noise, and by
# more than these parts of what matters: the spread over seeds, and the difference between target and log.
NOISE, OF_SPREAD, OF_DIFFERENCE = 2.0, 0.1, 0.02
# The same of single runs, in whatever direction; what only fluctuates moves by about the spread. Bad from five times as much.
EACH_OF_SPREAD, EACH_OF_DIFFERENCE, BAD = 0.5, 0.1, 5.0
# A spread over seeds from which the answer is uncertain, as a part of that difference, or else of the rates.
SPREAD_OF_DIFFERENCE, SPREAD_OF_RATE, LARGE_SPREAD = 0.25, 0.02, 0.1
# The mean of a density ratio is one.
MASS_CAUTION, MASS_BAD = 0.05, 0.2

CLOSED_FORM = Wording("DiffLSTD", "--method diff-lstd")


def _setting(name: str, value: object) -> Wording:
    """A setting of the method with a value."""
    return Wording(f"{name}={value}", f"--set {name}={value}")


def _larger(ridge: float) -> str:
    return f"{10 * ridge:.2g}" if ridge > 0 else "1e-3"


def linear_findings(est: LearnedBase) -> tuple[Diagnostic, ...]:
    """Did it move from its start, did runs diverge, is the step stable?"""
    return _moved(est), _diverged(est), _step(est)


def _moved(est: LearnedBase) -> Diagnostic:
    """The rate starts at zero."""
    value = est.reward_rate_
    spreads = abs(value) / est.spread_ if est.spread_ > 0 else float("nan")
    times = est.steps_ / est.time_constant_
    beside = f", {spreads:.3g} times its spread over seeds" if np.isfinite(spreads) else ""
    slowest = f" ({times:.2g} time constants of its slowest direction)" if np.isfinite(times) else ""
    said = f"After {est.steps_:,} steps{slowest} the rate has moved from 0 to {value:.4g}{beside}"
    name, measure = "moved from its start", spreads if np.isfinite(spreads) else None
    if not np.isfinite(est.limit_):
        return Diagnostic(
            name,
            measure,
            "ok" if spreads > 10 else "caution",
            f"{said}; its limit is not known.",
            Sentence("Compare with {closed_form}.", closed_form=CLOSED_FORM),
        )
    said = f"{said}; its limit is {est.limit_:.4g}."
    if est.reached_:
        return Diagnostic(name, measure, "ok", said)
    half_way = abs(value - est.limit_) <= 0.5 * abs(est.limit_)
    remedy = Sentence(
        "Take more steps ({steps}{needed}), a larger ridge ({ridge}), fewer features ({fewer}), or {closed_form}.",
        steps=_setting("steps", 4 * est.steps_ if est.steps_needed_ is None else 2 * est.steps_needed_),
        needed="" if est.steps_needed_ is None else " would do",
        ridge=Wording(f"ridge={_larger(est.ridge_)}", f"--ridge {_larger(est.ridge_)}"),
        fewer=argument("features", "linear"),
        closed_form=CLOSED_FORM,
    )
    return Diagnostic(name, measure, "caution" if half_way else "bad", said, remedy)


def _diverged(est: LearnedBase) -> Diagnostic:
    lost = int(est.diverged_.sum())
    if not lost:
        return Diagnostic("diverged runs", 0.0, "ok", f"None of {est.seeds} runs diverged.")
    first = int(est.diverged_at_[est.diverged_].min())
    return Diagnostic(
        "diverged runs",
        float(lost),
        "bad" if 2 * lost >= est.seeds else "caution",
        f"{lost} of {est.seeds} runs diverged, the first at step {first:,}.",
        Sentence("Take a smaller step size: {step}.", step=_setting("step_size", f"{est.step_size_ / 4:.2g}")),
    )


def _step(est: LearnedBase) -> Diagnostic:
    limit = est.plug_in_.max_step_sampled
    if limit is None:
        return Diagnostic(
            "step size",
            est.step_size_,
            "caution",
            "No step size is known to be stable here.",
            Sentence("Compare with {closed_form}.", closed_form=CLOSED_FORM),
        )
    share = est.step_size_ / limit
    said = f"The step size {est.step_size_:.3g} is {share:.3g} times the largest stable one, {limit:.3g}. {est.plug_in_.note}"
    if share <= 1:
        return Diagnostic("step size", est.step_size_, "ok", said)
    return Diagnostic(
        "step size",
        est.step_size_,
        "caution",
        said,
        Sentence("Take {step}.", step=_setting("step_size", f"{limit / 2:.2g}")),
    )


def network_findings(est: LearnedBase) -> tuple[Diagnostic, ...]:
    """No interval; have runs settled, do seeds agree, did runs diverge, do the last networks say the same?"""
    return (_interval(est), *_settled(est), *_spread(est), _diverged(est), *_over_rows(est))


def _interval(est: LearnedBase) -> Diagnostic:
    values = est.method != "gradient-dice"
    return Diagnostic(
        "interval",
        None,
        "caution",
        "There is no interval, because no formula says what networks converge to. The spread over seeds says how far runs agree, "
        "and nothing about the noise of the log.",
        Sentence(
            "For an interval, use {closed_form}{features}.",
            closed_form=CLOSED_FORM,
            features=Wording(" with this fitted estimator as its features" if values else "", ""),
        ),
    )


def _difference(est: LearnedBase) -> float:
    return abs(est.reward_rate_ - est.behavior_.value)


def _settled(est: LearnedBase) -> Iterator[Diagnostic]:
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
        "" if verdict == "ok" else Sentence("Take more steps: {steps}.", steps=_setting("steps", 4 * est.steps_)),
    )


def _spread(est: LearnedBase) -> Iterator[Diagnostic]:
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
        ""
        if verdict == "ok"
        else Sentence(
            "Take more seeds ({seeds}) and steps ({steps}), or a larger log.",
            seeds=_setting("seeds", 2 * est.seeds),
            steps=_setting("steps", 4 * est.steps_),
        ),
    )


def _over_rows(est: LearnedBase) -> Iterator[Diagnostic]:
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
            ""
            if verdict == "ok"
            else Sentence(
                "Take more steps ({steps}), or a larger weight of that mean ({lam}).",
                steps=_setting("steps", 4 * est.steps_),
                lam=_setting("lam", f"{10 * est.lam:g}"),
            ),
        )
        return
    gap = float(np.median(est.offline_rates_[kept] - est.seed_rates_[kept]))
    spread, difference = float(np.nan_to_num(est.spread_)), _difference(est)
    verdict = "ok" if abs(gap) <= max(spread, 5 * OF_DIFFERENCE * difference) else "caution"
    yield Diagnostic(
        "rate over all rows",
        gap,
        verdict,
        f"With the last networks, the mean of R + q(s', a') − q(s, a) over all rows differs from the rate by {gap:+.2g}.",
        ""
        if verdict == "ok"
        else Sentence(
            "The two should be equal: take more steps ({steps}), or smaller ones ({step}).",
            steps=_setting("steps", 4 * est.steps_),
            step=_setting("step_size", f"{est.step_size_ / 4:.2g}"),
        ),
    )
