"""Minari data sets on this machine. Nothing is ever downloaded."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cesaro.data.roles import Roles
from cesaro.data.sources.arrays import array_column, reject_foreign
from cesaro.data.sources.base import Files, Source, reading
from cesaro.errors import InputError

PREFIX = "minari:"
_HDF5 = "main_data.hdf5"
_ID = re.compile(r"([-_\w]+/)*[-_\w]+-v\d+")
_ERRORS = (KeyError, TypeError, AttributeError, AssertionError, IndexError, RuntimeError, ImportError)


def local_path(name: str) -> Path | None:
    """The folder of the data set of this id; None: it is not on this machine."""
    root = os.environ.get("MINARI_DATASETS_PATH")
    folder = Path(root) if root else Path.home() / ".minari" / "datasets"
    path = folder / name / "data"
    with reading(name, "the id of a Minari data set that can be read", remedy="check the permissions of its folder"):
        return path if _ID.fullmatch(name) and path.is_dir() else None


class MinariSource(Source):
    """Episodes as rows. An episode holds one observation more than actions, so every next observation is real.

    The parts of dict and tuple spaces become columns: `observation.position`, `next_observation.position`, …
    """

    def __init__(self, name: str) -> None:
        path = local_path(name)
        if path is None:
            raise InputError(
                f"{name} must be the id of a Minari data set on this machine. Got none of that name; run: "
                f"minari download {name}."
            )
        self._path = path
        with reading(name, "a complete Minari data set", *_ERRORS, *_gym_errors(name)):
            data = self._data(name)
            observations = dict(_leaves("observation", data.observation_space))
            actions = dict(_leaves("action", data.action_space))
            self._steps = int(data.total_steps)
        self._observations, self._actions = list(observations), list(actions)
        then = [f"next_{column}" for column in observations]
        names = [*observations, *actions, "reward", *then, "terminated", "truncated", "trajectory"]
        super().__init__(name, names, _bounds(list(actions.values())))
        self.roles = {"observation": self._observations, "next_observation": then, "action": self._actions}
        spaces = {**observations, **actions}
        self.kinds = {column: "category" for column, space in spaces.items() if type(space).__name__ == "Discrete"}

    @property
    def num_rows(self) -> int:
        return self._steps

    def _data(self, name: str) -> Any:
        _gym_errors(name)
        import minari

        return minari.MinariDataset(self._path)

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        parts: dict[str, list[Any]] = {column: [] for column in roles.columns()}
        with reading(self.name, "a complete Minari data set", *_ERRORS, *_gym_errors(self.name)):
            if (self._path / _HDF5).exists():
                reject_foreign(self.name, self._path / _HDF5)
            for episode in self._data(self.name).iterate_episodes():
                for column, values in self._episode(episode).items():
                    if column in parts:
                        parts[column].append(values)
            if not any(parts.values()):
                raise InputError(f"{self.name} must have at least one episode. Got none; check what wrote it.")
            joined = {column: np.concatenate(arrays) for column, arrays in parts.items()}
        rows = len(joined[roles.reward])
        if rows != self._steps:
            raise InputError(
                f"{self.name} must hold the {self._steps} steps that its metadata count. Got {rows}, so that some are "
                "missing or cannot be read; download or record it again."
            )
        columns = {column: array_column(self.name, column, array, copy=False) for column, array in joined.items()}
        return pa.table(columns), ((self.name, rows),)

    def _episode(self, episode: Any) -> dict[str, Any]:
        steps = len(episode.rewards)
        columns = {
            "reward": np.asarray(episode.rewards),
            "terminated": np.asarray(episode.terminations),
            "truncated": np.asarray(episode.truncations),
            "trajectory": np.full(steps, int(episode.id)),
            **{column: _leaf(episode.actions, column) for column in self._actions},
        }
        for column in self._observations:
            values = _leaf(episode.observations, column)
            if len(values) != steps + 1:
                raise InputError(
                    f"{self.name}: episode {episode.id} must have one observation more than steps. Got {len(values)} "
                    f"observations and {steps} steps; record it again."
                )
            columns[column], columns[f"next_{column}"] = values[:-1], values[1:]
        for column, values in columns.items():
            if len(values) != steps:
                raise InputError(
                    f'{self.name}: episode {episode.id} must have one entry of "{column}" per step. Got {len(values)} '
                    f"for {steps} steps; record it again."
                )
        return columns


def _leaves(name: str, space: Any) -> Iterator[tuple[str, Any]]:
    """Column names of a space and their spaces, one per part of dicts and tuples."""
    parts = getattr(space, "spaces", None)
    if parts is None:
        yield name, space
    else:
        for key, part in parts.items() if isinstance(parts, Mapping) else enumerate(parts):
            yield from _leaves(f"{name}.{key}", part)


def _bounds(spaces: Sequence[Any]) -> dict[str, Any]:
    """The bounds of the actions, as a log's metadata tell them; none where they are labels, or several vectors."""
    if len(spaces) != 1 or type(spaces[0]).__name__ != "Box":
        return {}
    return {"action_low": spaces[0].low.reshape(-1), "action_high": spaces[0].high.reshape(-1)}


def _leaf(values: Any, column: str) -> Any:
    """The part of nested values that a column names."""
    for key in column.split(".")[1:]:
        values = values[int(key)] if isinstance(values, tuple) else values[key]
    return np.asarray(values)


def _gym_errors(name: str) -> tuple[type[Exception], ...]:
    """The errors of Gymnasium; that it is there is checked on the way."""
    try:
        import gymnasium
        import minari  # noqa: F401
    except ImportError:
        raise InputError(f"{name} needs Minari, which is not installed; run: pip install 'cesaro[minari]'.") from None
    return (gymnasium.error.Error,)
