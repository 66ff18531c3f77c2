"""The base of linear functions and networks: the parameters of `Learned`, what a fit leaves, seeds, and runs that diverged."""

import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cesaro import python_file
from cesaro.algorithms import DEFAULT
from cesaro.algorithms.saddle_point import Target
from cesaro.approximators import MLP
from cesaro.checks import Array
from cesaro.closed_forms.plug_in import PlugIn
from cesaro.diagnostics.subject import Runs
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.base import Estimator
from cesaro.estimators.registry import Kind
from cesaro.estimators.run import Run
from cesaro.features.networks import Members
from cesaro.learning.arguments import Method, label_of
from cesaro.passes.standard_errors import MEDIAN, Estimate


class LearnedBase(Estimator):
    """The parameters of `Learned` and the attributes of its runs; `Learned` says what they mean."""

    kind: Kind = "learned"
    # In files, in this order.
    _RUNS = (
        *("ridge_", "step_size_", "steps_", "steps_needed_", "time_constant_", "limit_", "learning_error_", "reached_"),
        *("seed_rates_", "spread_", "diverged_", "diverged_at_", "weights_", "ratio_weights_", "level_", "batch_size_"),
        *("members_", "levels_", "scale_", "earlier_rates_", "offline_rates_", "ratio_rates_", "rows_digest_"),
        "is_buffered_",
    )
    _STORED = (*Estimator._STORED, *_RUNS, "_known", "_inputs", "_map")

    runs_: Runs | None = None
    step_size_: float
    steps_: int
    ridge_: float
    batch_size_: int
    seed_rates_: Array
    spread_: float
    learning_error_: float
    limit_: float
    reached_: bool
    steps_needed_: int | None
    time_constant_: float
    is_buffered_: bool
    plug_in_: PlugIn
    diverged_: NDArray[np.bool_]
    diverged_at_: NDArray[np.int64]
    ratio_weights_: Array
    members_: Members
    levels_: Array
    scale_: float
    earlier_rates_: Array
    offline_rates_: Array
    ratio_rates_: Array
    rows_digest_: NDArray[np.uint64]

    def __init__(
        self,
        method: Method = DEFAULT,
        features: Any = "auto",
        approximator: str | MLP = "linear",
        step_size: float | str = "auto",
        ridge: float | str = "auto",
        lam: float = 1.0,
        steps: int | str = "auto",
        batch_size: int | str = "auto",
        optimizer: Any = "auto",
        target: str | Target = "auto",
        seeds: int = 5,
        standard_errors: str = "auto",
        draws: int = 1,
        random_state: int = 0,
        dtype: str = "auto",
        checkpoint: str | os.PathLike[str] | None = None,
        engine: str = "local",
        address: str | None = None,
        quiet: bool = False,
        run: Run | None = None,
    ) -> None:
        self.method = method
        self.features = features
        self.approximator = approximator
        self.step_size = step_size
        self.ridge = ridge
        self.lam = lam
        self.steps = steps
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.target = target
        self.seeds = seeds
        self.standard_errors = standard_errors
        self.draws = draws
        self.random_state = random_state
        self.dtype = dtype
        self.checkpoint = checkpoint
        self.engine = engine
        self.address = address
        self.quiet = quiet
        self.run = run

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Take from the runs what they hold, such as `rates_`."""
            if name in (*self._RUNS, "plug_in_") and self.runs_ is not None:
                value = getattr(self.runs_, name[:-1])
                if value is not None or name == "steps_needed_":
                    return value
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r} here")

    @property
    def label(self) -> str:
        """The name of the method in answers."""
        place = python_file.place(self.method)
        return label_of(self.method) if place is None else place[1]

    def _restore(self, fitted: dict[str, Any]) -> None:
        runs = {name: fitted.pop(name) for name in self._RUNS if name in fitted}
        super()._restore(fitted)
        self.runs_ = Runs.of_attributes(runs) if runs else None

    def _conclude(self, runs: Runs, estimate: Estimate, summary: dict[str, Any]) -> None:
        """Keep what a fit leaves."""
        self.runs_, self.estimate_, self._summary = runs, estimate, summary


def spread_over_runs(rates: Array) -> tuple[float, float]:
    """The standard deviation over runs, NaN for one, and the standard error of their median, zero for one."""
    spread = float(rates.std(ddof=1)) if len(rates) > 1 else float("nan")
    share = (MEDIAN if len(rates) > 2 else 1.0) / len(rates)
    return spread, float(np.nan_to_num(spread) * np.sqrt(share))


def seed_numbers(random_state: int, seeds: int) -> list[int]:
    """Different ones for every `random_state`."""
    numbers = np.random.SeedSequence(random_state).generate_state(seeds + 8)
    return [int(number) for number in dict.fromkeys(numbers.tolist())][:seeds]


def report_divergence(
    label: str, diverged_at: NDArray[np.int64], why: str, remedy: str = "take a smaller step_size"
) -> None:
    """Raises where no run of the method is left; warns where some are."""
    lost, runs = np.flatnonzero(diverged_at >= 0), len(diverged_at)
    if not len(lost):
        return
    where = ", ".join(f"run {i + 1} at step {diverged_at[i]:,}" for i in lost[:3])
    where += ", …" if len(lost) > 3 else ""
    said = f"{len(lost)} of {runs} runs of {label} diverged ({where}), because {why}; {remedy}."
    if len(lost) == runs:
        raise InputError(said)
    warnings.warn(f"{said[:-1]}, or rely on the others, as this answer does.", EvaluationWarning, stacklevel=4)
