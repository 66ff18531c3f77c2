"""The counterexample study: every method at every step size."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from cesaro import problems
from cesaro.checks import Array
from cesaro.files import Arrays
from cesaro.linear import LinearProblem
from cesaro.linear.stability import Stability
from cesaro.reproduce import study
from cesaro.reproduce.counterexample import show
from cesaro.reproduce.counterexample.config import METHODS, Config, command, minibatches
from cesaro.reproduce.counterexample.result import EXPECTED_STEPS, Cell, Result, Trajectories
from cesaro.reproduce.counterexample.updates import (
    expected_exponent,
    expected_trajectory,
    lower_bound,
    spectral_radius,
    trajectories,
)


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave two tables, a figure and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    with study.Folder(out, {"study": "counterexample", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="counterexample", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        show.write_exponents(result, work.file("counterexample.csv"))
        show.write_trajectories(result, work.file("trajectories.csv"))
        show.plot(result).savefig(work.file("counterexample.png"), dpi=150, metadata={"Software": None})
        summary = result.summary()
        manifest = study.manifest("counterexample", asdict(config), seed=config.seed, options={}, summary=summary)
        work.finish({**manifest, "command": command(config)})
    return result


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    def piece(method: str, step_size: float) -> Arrays:
        return {"norms": trajectories(config, method, step_size)}

    # Longest first, so that no long piece is left to the end; methods in turn, so that they compile side by side.
    pairs = [(method, step) for step in sorted(config.step_sizes) for method in reversed(METHODS)]
    return {_name(*pair): partial(piece, *pair) for pair in pairs}


def _name(method: str, step_size: float) -> str:
    return f"{method}_{step_size!r}"


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    problem = problems.two_state_counterexample()
    stability = {method: problem.stability(method) for method in METHODS}
    cells, shown = [], []
    for method in METHODS:
        for step_size in config.step_sizes:
            norms, marks = pieces[_name(method, step_size)]["norms"], config.marks(method, step_size)
            expected = expected_trajectory(stability[method], step_size, marks)
            cells.append(_cell(config, problem, stability[method], step_size, norms, expected))
            if step_size == config.shown_step_size:
                shown.append(Trajectories(method, marks * minibatches(method), expected, norms))
    radii = np.array([spectral_radius(stability["diff-sgq"], step) for step in EXPECTED_STEPS])
    return Result(config, tuple(cells), tuple(shown), stability, radii)


def _cell(
    config: Config, problem: LinearProblem, stability: Stability, step_size: float, norms: Array, expected: Array
) -> Cell:
    method = stability.method
    samples = int(config.marks(method, step_size)[-1]) * minibatches(method)
    growth = (norms[:, -1] - norms[:, 0]) / (samples * step_size)
    bound = lower_bound(problem, step_size) if method == "diff-sgq" else -math.inf
    return Cell(
        method=method,
        step_size=step_size,
        samples=samples,
        runs=config.runs,
        exponent=float(growth.mean()),
        standard_error=float(growth.std(ddof=1) / math.sqrt(config.runs)),
        expected=expected_exponent(stability, step_size),
        expected_so_far=float(expected[-1] - expected[0]) / (samples * step_size),
        lower_bound=bound if math.isfinite(bound) else None,
        log_distance=float(np.median(norms[:, -1])),
        closer=float((norms[:, -1] < norms[:, 0]).mean()),
    )
