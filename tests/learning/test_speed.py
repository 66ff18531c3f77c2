"""Speed of linear methods, relative to each other in one process."""

import time

import pytest

import cesaro as cs
from cesaro.algorithms import REGISTRY


@pytest.mark.slow
def test_no_linear_method_is_much_slower_than_diff_gq1() -> None:
    """The time per sample is at most four times that of Diff-GQ1, which needs about the same arithmetic.

    A method whose step no longer compiles to one fused loop takes 20 times as long. Time of the processor, and the least of
    several runs in turn, so that other work on the machine does not count.
    """
    problem = cs.problems.boyan_chain(0.5, 0.1)
    settings = cs.grid(step_size=[2.0**-k for k in range(1, 21)], ridge=[0.0, 0.01, 0.1])
    seconds = dict.fromkeys(REGISTRY, float("inf"))
    for repeat in range(4):
        for method in REGISTRY:
            start = time.process_time()
            cs.sweep(method, problem, settings=settings, seeds=10, quiet=True)
            if repeat:  # the first one compiles
                seconds[method] = min(seconds[method], time.process_time() - start)
    slow = {method: took for method, took in seconds.items() if took > 4 * seconds["diff-gq1"]}
    assert not slow, seconds
