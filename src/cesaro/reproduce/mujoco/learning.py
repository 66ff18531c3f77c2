"""The grid of the MuJoCo study on one log: a method with every setting, and the rates its networks give over all rows.

The paper's neural section writes `2δτ − τ²` where this package writes `δτ − ½τ²`: its learning rate `lr` is the step size `2 lr`
of all of Diff-GQ1 and of both networks of Diff-GQ2, whose rate goes on with `lr`; for Diff-SGQ and GradientDICE the two are the
same.

The paper counts minibatches. One of Diff-GQ2's updates takes two, so that 1,000 minibatches are 500 of its updates.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cesaro.algorithms import REGISTRY
from cesaro.algorithms.base import Batch
from cesaro.algorithms.saddle_point import CURRENT, Target, copied
from cesaro.approximators import MLP
from cesaro.checks import Array as FloatArray
from cesaro.data import FeatureTransitions
from cesaro.files import Arrays
from cesaro.learning import Sweep, sweep
from cesaro.learning.settings import Setting
from cesaro.learning.source import SampleSource, gather, source
from cesaro.reproduce.mujoco.config import BASELINE, BATCH_SIZE, COPIED, RECORD, WINDOW

_NETWORK = MLP()
_TARGETS: dict[str, Target] = {"diff-sgq": copied(COPIED)}  # one object, so that its program is found again
# Rows at a time for the rates over all rows.
_BLOCK = 8_192


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
