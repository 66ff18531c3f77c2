"""The run behind `Learned`: which step size, how many steps, and what the seeds ended at."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.learning import sweep
from cesaro.learning.feed import Feed
from cesaro.linear.mean_update import MeanUpdate

# Fewest and most steps of `steps="auto"`; in between they double. The second half of a run is averaged.
FEWEST_STEPS, MOST_STEPS = 25_600, 204_800
# Records of a run: at least as many, at most twice.
RECORDS = 100
# Squarings of the expected update: up to 2³⁴ steps, up to 2¹⁸ where there are many variables.
SQUARINGS, FEW_SQUARINGS, MANY_VARIABLES = 34, 18, 600


# Variance of a median over that of a mean, of many normal numbers.
MEDIAN = np.pi / 2


@dataclass(frozen=True)
class Runs:
    """What the seeds ended at.

    Attributes:
        rates: mean rate over the second half of each run, `[seeds]`; NaN where it diverged.
        weights: mean weights over the second half, then over seeds, `[K]`.
        diverged_at: the step at which a run diverged, `[seeds]`; −1 where it did not.
        steps: of each run.
    """

    rates: Array
    weights: Array
    diverged_at: NDArray[np.int64]
    steps: int


def steps_needed(mean: MeanUpdate, step_size: float, gap: Array, tolerance: float) -> int | None:
    """Steps after which the expected rate is within `tolerance` of its limit, as a power of two; None: more than can be said.

    The expected update is affine, so that after `N` steps a gap `κ − κ*` has become `(I + αG)^N` times it, exactly.
    """
    power = np.eye(mean.layout.size) + step_size * mean.G
    inside = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range((FEW_SQUARINGS if len(power) > MANY_VARIABLES else SQUARINGS) + 1):
            left = abs(float(power[mean.layout.rate] @ gap))
            inside = inside + 1 if left <= tolerance else 0
            if inside == 2:  # twice, because an oscillation may pass through zero
                return int(2 ** (k - 1))
            if not np.isfinite(left):
                return None
            power = power @ power
    return None


def automatic_steps(needed: int | None, num_rows: int, seeds: int) -> int:
    """The start is forgotten well within half of them, and all seeds draw as many samples as there are rows, if affordable."""
    steps = FEWEST_STEPS
    while steps < MOST_STEPS and (needed is None or steps < 4 * needed or steps * seeds < 2 * num_rows):
        steps *= 2
    return steps


def run(
    data: FeatureTransitions | Feed,
    method: str,
    *,
    step_size: float,
    ridge: float,
    lam: float,
    steps: int,
    batch_size: int,
    seeds: int,
    random_state: int,
    approximator: str,
    dtype: str,
    checkpoint: Path | None = None,
    quiet: bool,
) -> Runs:
    """All seeds side by side."""
    # Powers of two, so that the compiled program cuts them into even blocks.
    per_record = 2 ** max(0, int(np.log2(max(1.0, steps / RECORDS))))
    records = -(-steps // per_record)
    per_step = batch_size * (2 if method == "diff-gq2" else 1)
    setting = {"step_size": step_size, "ridge": ridge} | ({"lam": lam} if method == "gradient-dice" else {})
    if per_step * records * per_record >= 2**31:
        raise InputError(f"steps × batch_size must be below 2³¹ samples. Got {steps} × {per_step}; take fewer steps.")
    result = sweep(
        method,
        data,
        settings=[setting],
        seeds=seed_numbers(random_state, seeds),
        budget=records * per_record * per_step,
        record_every=per_record * per_step,
        window=per_record * per_step,
        record=("weights",),
        batch_size=batch_size,
        approximator=approximator,
        dtype=dtype,
        checkpoint=checkpoint,
        quiet=quiet,
    )
    tail = slice(records // 2, None)
    diverged_at = result.diverged_at[0]
    kept = diverged_at < 0
    rates = np.where(kept, result.reward_rate[0][:, tail].mean(axis=1), np.nan)
    weights = result.records["weights"][0]
    weights = weights[kept][:, tail].mean(axis=(0, 1)) if kept.any() else np.zeros(weights.shape[-1])
    return Runs(rates, weights, np.where(kept, -1, diverged_at // per_step), records * per_record)


def spread_over_runs(rates: Array) -> tuple[float, float]:
    """The standard deviation over runs, NaN for one, and the standard error of their median, zero for one."""
    spread = float(rates.std(ddof=1)) if len(rates) > 1 else float("nan")
    share = (MEDIAN if len(rates) > 2 else 1.0) / len(rates)
    return spread, float(np.nan_to_num(spread) * np.sqrt(share))


def seed_numbers(random_state: int, seeds: int) -> list[int]:
    """Different ones for every `random_state`."""
    numbers = np.random.SeedSequence(random_state).generate_state(seeds + 8)
    return [int(number) for number in dict.fromkeys(numbers.tolist())][:seeds]
