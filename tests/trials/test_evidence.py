"""Logs that hold less evidence than rows: copies, no order, no noise, no moves. All are answered, and none is ok."""

from collections.abc import Callable, Sequence

import numpy as np

from .table import Files, Trial, rows


def made(times: int = 1, order: Sequence[int] | None = None, noise: float = 1.0, states: int = 3) -> Files:
    """300 rows of a chain in log.csv, some times over, each time as a run of its own."""
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.integers(0, 2, 301)) % states
    lines = [
        f"s{here},{action},{reward},s{after}"
        for here, action, reward, after in zip(
            state[:-1], rng.integers(0, 2, 300), state[:-1] + noise * rng.normal(size=300), state[1:]
        )
    ]
    chosen = range(300) if order is None else order
    body = [f"run {copy},{lines[row]}\n" for copy in range(times) for row in chosen]
    return {"log.csv": "run,state,action,reward,next_state\n" + "".join(body)}


NAMED = "--trajectory run --kind action=category"
ALONE = "--observation state --kind action=category"
TRIALS = [
    Trial("the log twice", made(2), "50 % of the rows repeat earlier ones", code=0, options=NAMED),
    Trial("the log forty times", made(40), "98 % of the rows repeat earlier ones", code=0, options=NAMED),
    Trial("rows of few values, once", made(noise=0.0), "None of the 300 rows looks like a copy", code=0, options=NAMED),
    Trial(
        "rows in no order",
        made(order=[int(row) for row in np.random.default_rng(1).permutation(300)]),
        "Only … of the rows' next states are the next row's state",
        code=0,
        options=ALONE,
    ),
    Trial("a single state", made(states=1), "The state of the log never changes", code=0, options=ALONE),
    Trial("no noise and one state", made(states=1, noise=0.0), "All 300 rewards are 0", rate=0.0, options=ALONE),
    Trial("two runs", made(2, range(150)), "they are worth 2 of equal length, too few to tell", code=0, options=NAMED),
]


@rows(TRIALS)
def test_evidence(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
