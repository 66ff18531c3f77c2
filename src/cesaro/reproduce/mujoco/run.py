"""The MuJoCo study: logs and truths where they are missing, then every setting of every method on every log.

The paper's neural section writes `2δτ − τ²` where this package writes `δτ − ½τ²`: its learning rate `lr` is the step size `2 lr`
of all of Diff-GQ1 and of both networks of Diff-GQ2, whose rate goes on with `lr`; for Diff-SGQ and GradientDICE the two are the
same.

The paper counts minibatches. One of Diff-GQ2's updates takes two, so that 1,000 minibatches are 500 of its updates.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from cesaro.algorithms import REGISTRY
from cesaro.algorithms.base import Batch
from cesaro.algorithms.saddle_point import CURRENT, Target, copied
from cesaro.approximators import MLP
from cesaro.checks import Array as FloatArray
from cesaro.data import FeatureTransitions
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.learning.arguments import Setting
from cesaro.learning.source import SampleSource, gather, source
from cesaro.reproduce.mujoco import data as recordings
from cesaro.reproduce.mujoco.config import (
    BASELINE,
    BATCH_SIZE,
    CLAIMED,
    COPIED,
    METHODS,
    RECORD,
    WINDOW,
    MujocoConfig,
    Place,
)
from cesaro.reproduce.mujoco.data import Stored, log_of, truth_of
from cesaro.reproduce.study import Jobs, Study, paired

# A margin counts as clear from this many standard errors on.
CLEAR = 2.0
_NETWORK = MLP()
_TARGETS: dict[str, Target] = {"diff-sgq": copied(COPIED)}  # one object, so that its program is found again
# Rows at a time for the rates over all rows.
_BLOCK = 8_192


class SimulatedRate(NamedTuple):
    """A mean reward by simulation, with its standard error from batch means."""

    value: float
    standard_error: float


@dataclass(frozen=True)
class MethodOnLog:
    """A method on one log.

    Attributes:
        settings: the paper's `lr`, and `lam` for GradientDICE.
        truth: the target's rate.
        reward_rate: mean r̂ over the last 100 minibatches at every record, `[settings, runs, records]`; nan once diverged.
        diverged_at: the sample at which a run diverged, `[settings, runs]`; −1 where it did not.
        minibatches: at every record.
        best: number of the setting with the lowest mean final error; None if each had a diverged run.
        offline: its second estimate, `[runs]`: what the final networks give over all rows.
        seconds: that learning and the second estimate took.
    """

    method: str
    settings: list[Setting]
    truth: float
    reward_rate: FloatArray
    diverged_at: NDArray[np.int64]
    minibatches: FloatArray
    best: int | None
    offline: FloatArray
    seconds: float

    @cached_property
    def errors(self) -> FloatArray:
        """Final errors, `[settings, runs]`; infinite for the settings of which some run diverged."""
        final = np.abs(self.reward_rate[:, :, -1] - self.truth)
        return np.where((self.diverged_at >= 0).any(axis=1, keepdims=True), np.inf, final)

    @property
    def diverged(self) -> NDArray[np.int64]:
        """Numbers of runs that diverged, `[settings]`."""
        return np.asarray((self.diverged_at >= 0).sum(axis=1))

    @property
    def mean(self) -> FloatArray:
        """Means of the final errors over runs, `[settings]`."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def std(self) -> FloatArray:
        """Standard deviations of the final errors over runs, `[settings]`; infinite where a run diverged."""
        runs = np.where(np.isinf(self.errors), 0.0, self.errors).std(axis=1)
        return np.where(np.isinf(self.mean), np.inf, runs)

    @property
    def final(self) -> FloatArray:
        """Final errors at the best setting, `[runs]`; none if there is no best."""
        return self.errors[0, :0] if self.best is None else self.errors[self.best]

    @property
    def error(self) -> float:
        return math.inf if self.best is None else float(self.mean[self.best])

    @property
    def spread(self) -> float:
        return math.inf if self.best is None else float(self.std[self.best])

    @property
    def rates(self) -> FloatArray:
        """Rates at the best setting, `[runs, records]`; none if there is no best."""
        return self.reward_rate[0, :0] if self.best is None else self.reward_rate[self.best]

    @property
    def curve(self) -> tuple[FloatArray, FloatArray]:
        """Mean error over runs at every record, and its standard deviation; for the best setting, which must exist."""
        errors = np.abs(self.rates - self.truth)
        return errors.mean(axis=0), errors.std(axis=0)

    @property
    def rate(self) -> SimulatedRate:
        """Mean final r̂ at the best setting."""
        return _mean(self.rates[:, -1])

    @property
    def second(self) -> SimulatedRate:
        """Mean second estimate."""
        return _mean(self.offline)

    @property
    def second_error(self) -> tuple[float, float]:
        """Mean and standard deviation over runs of the second estimate's error."""
        if self.best is None:
            return math.nan, math.nan
        errors = np.abs(self.offline - self.truth)
        return float(errors.mean()), float(errors.std())


@dataclass(frozen=True)
class Claim:
    """Whether the paper's method is best somewhere; clearly: against every other method.

    Attributes:
        rival: the best of the other methods.
        margin, standard_error: the rival's final error minus the claimed method's, paired over runs.
        is_best: whether its error is the lowest of all.
        is_clearly_best: by more than two standard errors against every other method.
        is_clearly_beaten: some other method is better by more than two standard errors.
    """

    rival: str
    margin: float
    standard_error: float
    is_best: bool
    is_clearly_best: bool
    is_clearly_beaten: bool


@dataclass(frozen=True)
class MujocoResult:
    """Everything the tables and figures show.

    Attributes:
        truths: rates of the targets, by environment.
        behaviors: mean logged rewards, by environment and noise.
        cells: by environment and noise, and method.
        actors, data: checksums, by environment, and by recording.
    """

    config: MujocoConfig
    truths: dict[str, SimulatedRate]
    behaviors: dict[Place, SimulatedRate]
    cells: dict[tuple[Place, str], MethodOnLog]
    actors: dict[str, str]
    data: dict[str, str]

    def margin(self, place: Place, method: str) -> tuple[float, float] | None:
        """Another method's final error minus Diff-GQ1's, and the standard error of this mean of paired differences.

        None where every setting of either diverged.
        """
        own, other = self.cells[place, CLAIMED], self.cells[place, method]
        if own.best is None or other.best is None:
            return None
        return paired(other.final, own.final)

    def claim(self, place: Place) -> Claim:
        """The comparison of Diff-GQ1 in a place. A method of which every setting diverged loses to any other."""
        own = self.cells[place, CLAIMED]
        others = [method for method in METHODS if method != CLAIMED]
        rival = min(others, key=lambda method: self.cells[place, method].error)
        margins = {method: self.margin(place, method) for method in others}
        if own.best is None:
            beaten = self.cells[place, rival].best is not None
            return Claim(rival, math.nan, math.nan, False, False, beaten)
        found = [margin for margin in margins.values() if margin is not None]
        rivals = margins[rival]
        return Claim(
            rival,
            *((math.inf, math.nan) if rivals is None else rivals),
            is_best=own.error < self.cells[place, rival].error,
            is_clearly_best=all(mean > CLEAR * error for mean, error in found),
            is_clearly_beaten=any(mean < -CLEAR * error for mean, error in found),
        )

    @cached_property
    def claims(self) -> dict[Place, Claim]:
        return {place: self.claim(place) for place in self.config.places}

    @property
    def claim_holds(self) -> bool:
        """Whether Diff-GQ1 is best in every place."""
        return all(claim.is_best for claim in self.claims.values())

    def behavior_error(self, place: Place) -> float:
        """The error of the mean logged reward as an estimate of the target's rate."""
        return abs(self.behaviors[place].value - self.truths[place[0]].value)

    def lowest(self, place: Place) -> str:
        """The method with the lowest final error."""
        return min(METHODS, key=lambda method: self.cells[place, method].error)

    def seconds(self, place: Place) -> float:
        return sum(self.cells[place, method].seconds for method in METHODS)

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values; times are no part of them."""
        claims = self.claims.values()
        return {
            "truths": {env: _rounded(*rate) for env, rate in self.truths.items()},
            "claim_holds": self.claim_holds,
            "best": sum(claim.is_best for claim in claims),
            "clearly_best": sum(claim.is_clearly_best for claim in claims),
            "clearly_beaten": sum(claim.is_clearly_beaten for claim in claims),
            "places": {
                f"{place[0]} {place[1]:g}": {
                    "behavior": _rounded(*self.behaviors[place]),
                    "lowest": self.lowest(place),
                    "methods": {method: self._summary(self.cells[place, method]) for method in METHODS},
                }
                for place in self.config.places
            },
            "actors": self.actors,
            "data": self.data,
        }

    def _summary(self, cell: MethodOnLog) -> dict[str, Any]:
        return {
            "setting": None if cell.best is None else cell.settings[cell.best],
            "final_error": _rounded(cell.error, cell.spread),
            "second_error": _rounded(*cell.second_error),
            "settings_with_divergence": int((cell.diverged > 0).sum()),
        }


def _mean(values: FloatArray) -> SimulatedRate:
    if not len(values):
        return SimulatedRate(math.nan, math.nan)
    return SimulatedRate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))))


def _rounded(*values: float) -> list[float | None]:
    return [round(value, 4) if math.isfinite(value) else None for value in values]


class MujocoStudy(Study[MujocoConfig, MujocoResult]):
    """All runs of a method on a log are a piece."""

    def collect(self, data: Path) -> None:
        """Simulate the logs and truths that the folder `data` lacks, all streams in one pool of processes."""
        config = self.config
        logs = {place: log_of(config, place) for place in config.places}
        truths = {env: truth_of(config, env) for env in config.envs}
        recordings.collect([*logs.values(), *truths.values()], data, workers=self.workers, quiet=self.quiet)
        self._truths = {env: recordings.needed(recording, data) for env, recording in truths.items()}
        self._logs = {place: recordings.needed(recording, data) for place, recording in logs.items()}

    @cached_property
    def truths(self) -> dict[str, SimulatedRate]:
        """Rates of the targets, by environment."""
        return {env: SimulatedRate(*recordings.rate(recordings.load(stored))) for env, stored in self._truths.items()}

    @cached_property
    def contents(self) -> dict[str, str]:
        """Checksums of all recordings."""
        return {stored.file.stem: stored.content[:16] for stored in (*self._truths.values(), *self._logs.values())}

    def depends_on(self) -> dict[str, Any]:
        return {"data": self.contents}

    @property
    def at_a_time(self) -> int:
        """On a CPU the runs of one sweep fill all cores; an accelerator waits for compilers and for logs."""
        return 1 if jax.default_backend() == "cpu" else len(METHODS) * len(_first_of_each_width(self._logs))

    def jobs(self) -> Jobs:
        first = _first_of_each_width(self._logs)
        places = [*first, *(place for place in self.config.places if place not in first)]
        learn = partial(_learn_from, recordings.Logs(self._logs), self.truths, self.config, self.workers)
        # The baseline has the largest grid.
        return {_name(place, m): partial(learn, place, m) for place in places for m in reversed(METHODS)}

    def result(self, pieces: Mapping[str, Arrays]) -> MujocoResult:
        config, cells, behaviors = self.config, {}, {}
        for place in config.places:
            for method in METHODS:
                piece = pieces[_name(place, method)]
                best = int(piece["best"])
                behaviors[place] = SimulatedRate(*(float(value) for value in piece["behavior"]))
                cells[place, method] = MethodOnLog(
                    method,
                    config.settings(method),
                    self.truths[place[0]].value,
                    piece["reward_rate"],
                    piece["diverged_at"],
                    piece["samples"] / BATCH_SIZE,
                    None if best < 0 else best,
                    piece["offline"],
                    float(piece["seconds"]),
                )
        actors = {env: truth_of(config, env).settings["actor"][:16] for env in config.envs}
        return MujocoResult(config, self.truths, behaviors, cells, actors, self.contents)

    def about(self) -> dict[str, Any]:
        simulators = next(iter(self._logs.values())).settings["versions"]
        return {"device": str(jax.devices()[0].device_kind), "simulators": simulators}


STUDY = MujocoStudy


def _learn_from(
    logs: recordings.Logs,
    truths: Mapping[str, SimulatedRate],
    config: MujocoConfig,
    workers: int | None,
    place: Place,
    method: str,
) -> Arrays:
    log = logs[place]
    found = piece(
        method,
        log.data,
        config.settings(method),
        truth=truths[place[0]].value,
        seeds=config.seeds,
        minibatches=config.minibatches,
        workers=workers,
    )
    return {**found, "behavior": np.array(log.behavior)}


def _first_of_each_width(logs: Mapping[Place, Stored]) -> list[Place]:
    """Logs of one width share compiled programs: these come first, so that each program compiles once, all at a time."""
    found: dict[int, Place] = {}
    for place, stored in logs.items():
        found.setdefault(stored.inputs, place)
    return list(found.values())


def _name(place: Place, method: str) -> str:
    return f"{place[0].replace('/', '_')}_{place[1]!r}_{method}"


# The grid of a method on one log.


def step_sizes(method: str, setting: Setting) -> Setting:
    """The numbers that this package takes for the paper's `lr` and `lam`."""
    lr = setting["lr"]
    if method == "diff-gq1":
        return {"step_size": 2 * lr}
    if method == "diff-gq2":
        return {"step_size": 2 * lr, "rate_step_size": lr}
    if method == BASELINE:
        return {"step_size": lr, "lam": setting["lam"]}
    return {"step_size": lr}


def learn(
    method: str,
    data: FeatureTransitions,
    settings: Sequence[Setting],
    *,
    seeds: Sequence[int],
    minibatches: int,
    workers: int | None = None,
) -> Sweep:
    """Every setting of a method with every seed."""
    return sweep(
        method,
        data,
        settings=[step_sizes(method, setting) for setting in settings],
        seeds=seeds,
        budget=minibatches * BATCH_SIZE,
        record_every=RECORD * BATCH_SIZE,
        window=WINDOW * BATCH_SIZE,
        batch_size=BATCH_SIZE,
        approximator=_NETWORK,
        target=_TARGETS.get(method, CURRENT),
        keep_final=True,
        workers=workers,
        quiet=True,
    )


def piece(
    method: str,
    data: FeatureTransitions,
    settings: Sequence[Setting],
    *,
    truth: float,
    seeds: Sequence[int],
    minibatches: int,
    workers: int | None = None,
) -> Arrays:
    """All rates of a method on a log, and at the setting that the truth selects the rates of its networks over all rows."""
    start = time.perf_counter()
    found = learn(method, data, settings, seeds=seeds, minibatches=minibatches, workers=workers)
    best, offline = -1, np.empty(0)
    if not found.diverged.all():
        best = found.best(truth).index
        offline = offline_rates(method, jax.tree.map(lambda leaf: leaf[best], found.final), data)
    return {
        "reward_rate": found.reward_rate,
        "diverged_at": found.diverged_at,
        "samples": found.samples,
        "best": np.array(best),
        "offline": offline,
        "seconds": np.array(time.perf_counter() - start),
    }


def offline_rates(method: str, primal: Any, data: FeatureTransitions) -> FloatArray:
    """The rate that networks give over all rows, `[runs]`: mean of `R + q(x') − q(x)`, or of `τ(x) R` for GradientDICE.

    Args:
        primal: what the runs ended at, each leaf `[runs, …]`.
    """
    numbers = np.arange(-(-len(data) // _BLOCK) * _BLOCK, dtype=np.int32).reshape(-1, _BLOCK)
    inside = numbers < len(data)
    sums = _block_sums(method, data.x.shape[1])(
        primal, source(data, "float32"), jnp.asarray(np.where(inside, numbers, 0)), jnp.asarray(inside, jnp.float32)
    )
    return np.asarray(sums, dtype=np.float64).sum(axis=0) / len(data)


@cache
def _block_sums(method: str, inputs: int) -> Callable[..., Float[Array, "blocks runs"]]:
    """Sums over blocks of rows, as the rows lie on the device; they are added up in float64 outside."""
    values, ratio = REGISTRY[method](_NETWORK, inputs).values, _NETWORK(inputs, bias=False)

    def estimates(primal: Any, batch: Batch) -> Float[Array, " rows"]:
        if values is None:
            return ratio.apply(primal["ratio"], batch.x) * batch.reward
        return batch.reward + values(primal, batch.x_next) - values(primal, batch.x)

    @jax.jit
    def sums(primal: Any, origin: SampleSource, numbers: Array, inside: Array) -> Array:
        def block(rows: tuple[Array, Array]) -> Array:
            batch = gather(origin, rows[0])
            return jax.vmap(lambda run: estimates(run, batch) @ rows[1])(primal)

        return jax.lax.map(block, (numbers, inside))

    return sums
