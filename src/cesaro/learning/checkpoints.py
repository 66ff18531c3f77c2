"""Checkpoints of a sweep: one file, replaced atomically, continued only by the sweep it belongs to."""

import hashlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro.approximators import MLP, Approximator
from cesaro.errors import InputError
from cesaro.learning.job import Job, first_setting, keys
from cesaro.learning.run import Records
from cesaro.learning.source import Source
from cesaro.storage import read_arrays, write_arrays

SCHEMA = "cesaro-sweep-checkpoint/1"


def save(path: Path, identity: dict[str, Any], done: int, carries: list[Any], stored: list[list[Records]]) -> None:
    """Keep what every chunk has; `done` is the number of records that all of them have."""
    arrays: dict[str, NDArray[Any]] = {}
    for i, (carry, parts) in enumerate(zip(carries, stored)):
        if not parts:
            continue
        arrays |= {f"carry_{i}_{j}": np.asarray(leaf) for j, leaf in enumerate(jax.tree.leaves(carry))}
        merged = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        arrays[f"rate_{i}"] = merged.reward_rate
        arrays |= {f"extra_{i}_{name}": values for name, values in merged.extra.items()}
    write_arrays(path, {**identity, "done": done}, arrays)


def load(path: Path, identity: dict[str, Any], structure: Any, chunks: int) -> tuple[list[Any], list[list[Records]]]:
    """What every chunk has: None and no records where it has not begun."""
    meta, arrays = read_arrays(path, SCHEMA)
    different = sorted(name for name in identity if meta.get(name) != identity[name])
    if different:
        raise InputError(
            f"checkpoint '{path}' belongs to another sweep (different: {', '.join(different)}); "
            "delete it, or choose another file."
        )
    carries: list[Any] = [None] * chunks
    stored: list[list[Records]] = [[] for _ in range(chunks)]
    for i in range(chunks):
        if f"rate_{i}" not in arrays:
            continue
        leaves = [jnp.asarray(arrays[f"carry_{i}_{j}"]) for j in range(structure.num_leaves)]
        carries[i] = jax.tree.unflatten(structure, leaves)
        prefix = f"extra_{i}_"
        extra = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
        stored[i].append(Records(arrays[f"rate_{i}"], extra))
    return carries, stored


def identity(
    job: Job,
    origin: Source,
    label: str,
    schedule: str,
    approximator: str | Approximator,
    radius: float | None,
    record: Iterable[str],
) -> dict[str, Any]:
    """What a checkpoint must agree on to be continued."""
    digest = hashlib.sha256()
    for array in origin:
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "schema": SCHEMA,
        "method": label,
        "settings": {name: values.tolist() for name, values in job.hyper.items()},
        "seeds": job.seeds.tolist(),
        "records": job.records,
        "shape": list(job.shape),
        "schedule": schedule,
        "approximator": repr(approximator)
        if isinstance(approximator, str | MLP)
        else getattr(approximator, "__name__", "own"),
        "radius": radius,
        "dtype": job.dtype,
        "backend": jax.default_backend(),
        "jax": jax.__version__,
        "data": digest.hexdigest(),
        "start": _start_digest(job),
        "recorded": sorted(map(str, record)),
        "program": _digest(job, origin),
    }


def _digest(job: Job, origin: Source) -> str:
    """Of the traced program: what names cannot tell (objectives, optimizers, targets, recorders)."""
    hyper = first_setting(job)
    carry = jax.eval_shape(job.program.start, keys(job.seeds[:1]), hyper)
    shape = (1, job.shape.steps, job.shape.minibatches, job.shape.batch_size, 1)
    drawn, bound = jax.ShapeDtypeStruct(shape, jnp.int32), jnp.asarray(job.bound, job.dtype)
    traced = jax.make_jaxpr(partial(job.program.advance, shape=job.shape))(origin, carry, drawn, hyper, bound)
    return hashlib.sha256(str(traced).encode()).hexdigest()


def _start_digest(job: Job) -> str:
    """Of where the first run starts: what an approximator or an objective of one's own begins with has no name."""
    carry = job.program.start(keys(job.seeds[:1]), first_setting(job))
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(carry):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()
