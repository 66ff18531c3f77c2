"""The base of linear functions and networks: the parameters of `Learned`, checked and completed, what a fit leaves, seeds, and
runs that diverged.
"""

import os
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optax
from numpy.typing import NDArray

from cesaro import checks, python_file
from cesaro.algorithms import DEFAULT, Objective
from cesaro.algorithms.saddle_point import CURRENT, Target, tracked
from cesaro.approximators import MLP
from cesaro.checks import Array
from cesaro.closed_forms.plug_in import PlugIn
from cesaro.diagnostics.subject import Runs
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators.base import Estimator
from cesaro.estimators.registry import Kind
from cesaro.estimators.run import Run
from cesaro.features.networks import Members
from cesaro.learning.arguments import Method, as_method, as_objective, label_of
from cesaro.passes.run import Running
from cesaro.passes.standard_errors import MEDIAN, Estimate

APPROXIMATORS = ("linear", "linear-random", "mlp")
# The network of `approximator="mlp"`, and how it is trained.
NETWORK = MLP(widths=(128, 128))
NETWORK_STEP, NETWORK_STEPS, NETWORK_BATCH = 3e-4, 40_000, 512
# Runs side by side, and samples of one minibatch.
MOST_SEEDS, MOST_BATCH = 10_000, 1_000_000
# Of the target network of methods that need one.
MIXING = 0.005


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


# Parameters, checked and completed: linear functions and networks differ in their defaults.


class LearnedSettings(NamedTuple):
    """All that does not depend on the log.

    Attributes:
        method: a name of the registry, or the user's own, loaded.
        label: what answers call it.
        objective: of one input, for what it takes and gives.
        approximator, batch_size, dtype, optimizer, target: as `sweep` takes them; an optimizer of None is plain gradients.
        run: how the fit is run.
        checkpoint: the file that keeps progress.
    """

    method: Method
    label: str
    objective: Objective
    approximator: str | MLP
    batch_size: int
    dtype: str
    optimizer: optax.GradientTransformation | None
    target: Target
    run: Run
    checkpoint: Path | None

    @property
    def per_step(self) -> int:
        """Samples of one step."""
        return self.batch_size * self.objective.minibatches

    @property
    def running(self) -> Running:
        """How passes over the log are run; the file of a checkpoint belongs to the runs."""
        return Running(self.run.quiet, engine=self.run.engine, address=self.run.address)

    def numbers(self, **given: float) -> dict[str, float]:
        """Those of the given numbers that the method takes."""
        return {name: value for name, value in given.items() if name in self.objective.defaults}

    def words(self, optimizer: Any, target: Any) -> dict[str, Any]:
        """Layers, optimizer and target of a network in words, for the summary."""
        assert isinstance(self.approximator, MLP)
        network = self.approximator
        layers = " × ".join(map(str, network.widths)) or "none"
        named = optimizer if isinstance(optimizer, str) else "own"
        if named == "auto":
            named = "adam" if self.optimizer is adam() else "adam without momentum"
        followed = "own" if isinstance(target, Target) and target.update is not None else "none"
        if isinstance(target, str) and self.target.update is not None:
            followed = f"tracked, {MIXING:g}"
        return {"layers": f"{layers} ({network.activation})", "optimizer": named, "target_network": followed}


@cache
def adam(momentum: float = 0.9) -> optax.GradientTransformation:
    """One object each, so that programs compiled with it are found again.

    Momentum makes the two sides of a saddle point circle around each other: methods with a dual do without.
    """
    return optax.scale_by_adam(b1=momentum)


@cache
def _tracked() -> Target:
    return tracked(MIXING)


def is_network(approximator: Any) -> bool:
    return isinstance(approximator, MLP) or (isinstance(approximator, str) and approximator == "mlp")


def check(estimator: LearnedBase) -> LearnedSettings:
    """Every parameter that does not depend on the log; raises where one breaks its rule."""
    run = estimator._run()
    method = as_method(estimator.method)
    objective, label = as_objective(method, "linear", 1)
    approximator = estimator.approximator
    if not isinstance(approximator, MLP) and str(approximator) not in APPROXIMATORS:
        raise InputError(
            f"approximator must be one of {', '.join(APPROXIMATORS)}, or an MLP (cesaro.approximators.MLP). "
            f"Got {approximator!r}."
        )
    for name, low_open in (("step_size", True), ("ridge", False)):
        value = getattr(estimator, name)
        if not _is_auto(value):
            checks.number(name, value, low=0.0, low_open=low_open, high=checks.LARGEST_SETTING)
    if not _is_auto(estimator.steps):
        checks.count("steps", estimator.steps)
    if "ridge" not in objective.defaults and not _is_auto(estimator.ridge) and estimator.ridge != 0:
        raise InputError(f"ridge must be 'auto' or 0 with {label}, which has none. Got {estimator.ridge!r}.")
    takes_lam = "lam" in objective.defaults
    checks.number("lam", estimator.lam, low=0.0, low_open=takes_lam, high=checks.LARGEST_SETTING)
    checks.count("seeds", estimator.seeds, high=MOST_SEEDS)
    network = is_network(approximator)
    if network and not _is_auto(estimator.features):
        raise InputError(
            "features must be 'auto' with a network, whose inputs are the log's columns, standardized; inputs of your own go in "
            f"as FeatureTransitions. Got {estimator.features!r}."
        )
    dtype = ("float32" if network else "float64") if _is_auto(estimator.dtype) else estimator.dtype
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype must be 'auto', 'float32' or 'float64'. Got {dtype!r}.")
    batch = estimator.batch_size
    automatic = NETWORK_BATCH if network else 1
    return LearnedSettings(
        method=method,
        label=label,
        objective=objective,
        approximator=NETWORK if network and isinstance(approximator, str) else approximator,
        batch_size=automatic if _is_auto(batch) else checks.count("batch_size", batch, high=MOST_BATCH),
        dtype=dtype,
        optimizer=_optimizer(estimator.optimizer, objective, network),
        target=_target(estimator.target, objective, network),
        run=run,
        checkpoint=_checkpoint(run.checkpoint),
    )


def with_actions(network: MLP, num_actions: int) -> MLP:
    """The network for a log's actions."""
    if network.actions not in (0, num_actions):
        raise InputError(
            f"approximator.actions must be 0 (taken from the log) or the number of the log's actions, {num_actions}. "
            f"Got {network.actions}."
        )
    return replace(network, actions=num_actions)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _optimizer(given: Any, objective: Objective, network: bool) -> optax.GradientTransformation | None:
    if not network:
        if not (isinstance(given, str) and given in ("auto", "sgd")):
            raise InputError(
                "optimizer must be 'auto' or 'sgd' with a linear approximator, whose steps are analyzed as plain gradients; "
                f"cesaro.sweep takes others. Got {given!r}."
            )
        return None
    if isinstance(given, str) and given in ("auto", "adam", "sgd"):
        if given == "sgd":
            return None
        return adam(0.0) if given == "auto" and objective.has_dual else adam()
    if not isinstance(given, optax.GradientTransformation):
        raise InputError(
            "optimizer must be 'auto', 'adam', 'sgd' or an Optax transformation without learning rate, such as "
            f"optax.scale_by_adam(). Got {given!r}."
        )
    return given


def _target(given: Any, objective: Objective, network: bool) -> Target:
    if _is_auto(given):
        return _tracked() if network and objective.bootstraps else CURRENT
    if not isinstance(given, Target):
        raise InputError(f"target must be 'auto', CURRENT, copied(every) or tracked(mixing). Got {given!r}.")
    if not network and given.update is not None:
        raise InputError(
            "target must be 'auto' or CURRENT with a linear approximator, whose steps are analyzed without a target network; "
            "cesaro.sweep takes others."
        )
    return given


def _checkpoint(given: Any) -> Path | None:
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"checkpoint must be a path or None. Got {given!r}.")
    path = Path(given)
    if not path.parent.is_dir() or path.is_dir():
        raise InputError(f"checkpoint must be a file in a folder that exists. Got '{path}'; choose another path.")
    return path
