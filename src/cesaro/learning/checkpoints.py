"""Checkpoints of a sweep: one file, replaced atomically, continued only by the sweep it belongs to."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.learning.run import Records
from cesaro.storage import read_arrays, write_arrays

SCHEMA = "cesaro-sweep-checkpoint/1"


def save(path: Path, identity: dict[str, Any], done: int, carries: list[Any], stored: list[list[Records]]) -> None:
    arrays: dict[str, NDArray[Any]] = {}
    for i, (carry, parts) in enumerate(zip(carries, stored)):
        arrays |= {f"carry_{i}_{j}": np.asarray(leaf) for j, leaf in enumerate(jax.tree.leaves(carry))}
        merged = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        arrays[f"rate_{i}"] = merged.reward_rate
        arrays |= {f"extra_{i}_{name}": values for name, values in merged.extra.items()}
    write_arrays(path, {**identity, "done": done}, arrays)


def load(path: Path, identity: dict[str, Any], starts: list[Any]) -> tuple[int, list[Any], list[list[Records]]]:
    meta, arrays = read_arrays(path, SCHEMA)
    different = sorted(name for name in identity if meta.get(name) != identity[name])
    if different:
        raise InputError(
            f"checkpoint '{path}' belongs to another sweep (different: {', '.join(different)}); "
            "delete it, or choose another file."
        )
    carries, stored = [], []
    for i, start in enumerate(starts):
        leaves, structure = jax.tree.flatten(start)
        carries.append(
            jax.tree.unflatten(structure, [jnp.asarray(arrays[f"carry_{i}_{j}"]) for j in range(len(leaves))])
        )
        prefix = f"extra_{i}_"
        extra = {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
        stored.append([Records(arrays[f"rate_{i}"], extra)])
    return int(meta["done"]), carries, stored
