"""Checkpoints of a sweep: one file, replaced atomically, continued only by the sweep it belongs to."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cesaro.approximators import MLP
from cesaro.errors import InputError
from cesaro.files import read_values, reject_older, write_values
from cesaro.fingerprints import fingerprint
from cesaro.learning.run import FIRST, Recipe, Records, SweepJob, settings_of, start
from cesaro.learning.source import SampleSource

SCHEMA = "cesaro-sweep-checkpoint/3"
_OLDER = "cesaro-sweep-checkpoint/2"
_REMEDY = "delete it, or choose another file"


def save(path: Path, identity: dict[str, Any], done: int, carries: list[Any], stored: list[list[Records]]) -> None:
    """Keep what every chunk has; `done` is the number of records that all of them have."""
    chunks: list[dict[str, Any] | None] = []
    for carry, parts in zip(carries, stored):
        merged = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts) if parts else None
        chunks.append(
            None
            if merged is None
            else {
                "carry": [np.asarray(leaf) for leaf in jax.tree.leaves(carry)],
                "reward_rate": np.asarray(merged.reward_rate),
                "extra": {name: np.asarray(values) for name, values in merged.extra.items()},
            }
        )
    write_values(path, SCHEMA, {"identity": identity, "done": done, "chunks": chunks})


def load(path: Path, identity: dict[str, Any], structure: Any, chunks: int) -> tuple[list[Any], list[list[Records]]]:
    """Load what every chunk carries and its records: None and no records where it has not begun."""
    reject_older(path, _OLDER, _REMEDY)
    kept = read_values(path, SCHEMA, remedy=_REMEDY)
    was = kept.get("identity")
    different = sorted(name for name in identity if not isinstance(was, dict) or was.get(name) != identity[name])
    if different:
        raise InputError(
            f"checkpoint '{path}' belongs to another sweep (different: {', '.join(different)}); {_REMEDY}."
        )
    found = kept.get("chunks")
    if not isinstance(found, list) or len(found) != chunks or not all(_is_whole(chunk, structure) for chunk in found):
        raise InputError(f"checkpoint '{path}' does not hold the {chunks} parts of this sweep; {_REMEDY}.")
    carries: list[Any] = [None] * chunks
    stored: list[list[Records]] = [[] for _ in range(chunks)]
    for i, chunk in enumerate(found):
        if chunk is not None:
            carries[i] = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in chunk["carry"]])
            stored[i].append(Records(chunk["reward_rate"], chunk["extra"]))
    return carries, stored


def _is_whole(chunk: Any, structure: Any) -> bool:
    """Whether a part has not begun, or has everything that a run goes on from."""
    if not isinstance(chunk, dict):
        return chunk is None
    carry = chunk.get("carry")
    return isinstance(carry, list) and len(carry) == structure.num_leaves and {"reward_rate", "extra"} <= set(chunk)


def identity(
    job: SweepJob, recipe: Recipe, origin: SampleSource, log: str, label: str, radius: float | None
) -> dict[str, Any]:
    """All that a checkpoint must agree on to be continued; `log`: a fingerprint of rows that come after those of `origin`."""
    approximator = recipe.approximator
    return {
        "method": label,
        "settings": {name: values.tolist() for name, values in job.hyper.items()},
        "seeds": job.seeds.tolist(),
        "records": job.records,
        "shape": list(job.shape),
        "schedule": recipe.schedule,
        "approximator": repr(approximator)
        if isinstance(approximator, str | MLP)
        else getattr(approximator, "__name__", "own"),
        "radius": radius,
        "dtype": job.dtype,
        "backend": jax.default_backend(),
        "jax": jax.__version__,
        "data": fingerprint([np.asarray(array) for array in origin]),
        "log": log,
        "start": _start_digest(job),
        "recorded": sorted(map(str, recipe.record)),
        "program": _digest(job, origin),
        "source": fingerprint((recipe.method, approximator, recipe.optimizer, recipe.target, recipe.record)),
    }


def _digest(job: SweepJob, origin: SampleSource) -> str:
    """A fingerprint of the traced program: what names cannot tell (objectives, optimizers, targets, recorders)."""
    carry = jax.eval_shape(lambda: start(job, FIRST))
    drawn, bound = jax.ShapeDtypeStruct((job.shape.samples, 1), jnp.int32), np.asarray(job.bound, job.dtype)
    advance = partial(job.program.advance, shape=job.shape)
    traced = jax.make_jaxpr(advance)(origin, carry, drawn, settings_of(job, FIRST), bound)
    return fingerprint((str(traced), [np.asarray(const) for const in traced.consts]))


def _start_digest(job: SweepJob) -> str:
    """A fingerprint of where the first run starts: the start of an approximator or objective of one's own has no name."""
    return fingerprint([np.asarray(leaf) for leaf in jax.tree.leaves(start(job, FIRST))])
