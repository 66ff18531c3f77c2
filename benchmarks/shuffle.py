"""What a shuffle buffer leaves of a log that is sorted by its reward: `python -m benchmarks shuffle`, a few minutes.

Blocks of 64 rows stand for those of 65,536. The first number is the error of the buffer's mean reward over 100 looks, the second
what independent blocks would leave, both in standard deviations of the reward; then the error of Diff-GQ1's rate from its limit,
over seeds of the buffer with 40 runs each.
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cesaro as cs
from cesaro.data import blocks, shuffled
from cesaro.data.shuffled import RENEWALS, ShuffleBuffer
from cesaro.errors import CesaroError, EvaluationWarning
from cesaro.estimators.learned import rows as learned_rows

ROWS, BLOCK = 8_192, 64
RUNS, STEPS, RIDGE = 40, 12_800, 0.02
# Row groups in the buffer, and rows of it.
BUFFERS = ((1, 64), (2, 128), (4, 256), (16, 1_024), (64, 1_024), (64, 4_096))


class Often:
    """Takes the second action four times in five; the log takes it half of the time."""

    actions = (0, 1)

    def probabilities(self, observations: Any) -> NDArray[np.float64]:
        return np.tile([0.2, 0.8], (len(observations), 1))


def sorted_log() -> cs.Transitions:
    """Independent transitions, sorted by their reward."""
    rng = np.random.default_rng(3)
    state, action = rng.normal(size=ROWS), rng.integers(0, 2, ROWS)
    after = 0.5 * state + 0.8 * (action - 0.5) + 0.6 * rng.normal(size=ROWS)
    reward = 1 + state + 0.5 * action + 0.3 * rng.normal(size=ROWS)
    order = np.argsort(reward)
    return cs.Transitions(state[order], action[order], reward[order], after[order])


def features(observations: Any) -> NDArray[np.float64]:
    return np.stack([np.ones(len(observations)), observations], axis=1)


def error_of_the_mean(log: cs.Transitions, groups: int, rows: int, looks: int) -> float:
    """Root mean square over looks at a buffer whose rows have all been replaced in between."""
    buffer = ShuffleBuffer(log, lambda group, visit: (group.rewards,), rows=rows, seed=0, reach=groups)
    means = [buffer.after(look * RENEWALS)[0].mean() for look in range(looks)]
    return float(np.sqrt(np.mean((np.array(means) - log.rewards.mean()) ** 2)) / log.rewards.std())


def errors_of_the_rate(log: cs.Transitions, groups: int, rows: int, seeds: int) -> NDArray[np.float64]:
    """Of fits with different seeds; NaN where a run diverged."""
    shuffled.REACH, learned_rows.BUFFER_BYTES = groups, rows * 2 * 4 * 8
    found = np.full(seeds, np.nan)
    for seed in range(seeds):
        learner = cs.Learned(
            "diff-gq1",
            features=features,
            standard_errors="independent",
            ridge=RIDGE,
            steps=STEPS,
            seeds=RUNS,
            random_state=seed,
            quiet=True,
        )
        try:
            learner.fit(log, Often())
        except CesaroError:  # all runs diverged
            continue
        assert learner.is_buffered_
        if not learner.diverged_.any():
            found[seed] = learner.reward_rate_ - learner.limit_
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks shuffle", description=__doc__)
    parser.add_argument("--seeds", type=int, default=12, help="of the buffer, per row of the table")
    parser.add_argument("--looks", type=int, default=100)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", EvaluationWarning)
    blocks.BLOCK_ROWS, learned_rows.MAX_NUMBERS = BLOCK, ROWS  # small blocks, and features that are too many to be kept
    log = sorted_log()
    print("row groups    rows    error of mean    independent    mean error of the rate    root mean square")
    for groups, rows in BUFFERS:
        mean = error_of_the_mean(log, groups, rows, given.looks)
        errors = errors_of_the_rate(log, groups, rows, given.seeds)
        kept = errors[np.isfinite(errors)]
        rate = f"runs diverged with {given.seeds - len(kept)} of {given.seeds} seeds"
        if len(kept) == given.seeds:
            spread = kept.std(ddof=1) / np.sqrt(len(kept)) if len(kept) > 1 else float("nan")
            rate = f"{kept.mean():+.4f} ± {spread:.4f}{'':8}{np.sqrt(np.mean(kept**2)):16.4f}"
        print(f"{groups:10d}{rows:8,d}{mean:17.3f}{1 / np.sqrt(groups):15.3f}    {rate}", flush=True)


if __name__ == "__main__":
    main()
