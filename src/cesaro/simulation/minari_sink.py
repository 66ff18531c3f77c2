"""Logs as Minari data sets on this machine: whole episodes, each with its last observation."""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.simulation.environments import open_env
from cesaro.simulation.sink import Sink
from cesaro.simulation.streams import Arrays, Job

REMARK = (
    "A Minari data set holds the last observation of an episode, not the reset state: read it with "
    "on_termination='restart' and on_truncation='restart' (--on-truncation restart) for the process with resets."
)


class MinariSink(Sink):
    """One Minari data set. The end of a stream cuts its last episode, which is flagged as truncated then."""

    def __init__(self, out: str | os.PathLike[str], settings: Mapping[str, Any], *, force: bool = False) -> None:
        self.id = os.fspath(out)
        try:
            from minari.dataset.minari_dataset import parse_dataset_id
            from minari.storage import get_dataset_path
        except ImportError as error:
            raise InputError("A Minari data set needs Minari: pip install 'cesaro[minari]'.") from error
        try:
            self._namespace = parse_dataset_id(self.id)[0]
        except ValueError as error:
            raise InputError(
                f"out must be the id of a Minari data set, such as cheetah/noisy-v0. Got {self.id!r}."
            ) from error
        super().__init__(get_dataset_path(self.id), settings, force=force)
        self.path = self.out.parent / f".{self.out.name}.partial"  # hidden, or Minari would list it

    def refusal(self) -> str | None:
        return None if (self.out / "data" / "metadata.json").is_file() else "is no Minari data set"

    def check(self) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)  # namespaces are Minari's to make
        super().check()

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        from minari.dataset.minari_storage import MinariStorage

        folder = self.path / "data"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        made = open_env(job.env, time_limit=job.time_limit)
        try:
            seen, done = made.observation_space, _unbounded(made.action_space)
            storage = MinariStorage.new(
                folder, observation_space=seen, action_space=done, env_spec=made.spec, jpeg_encoding=False
            )
        finally:
            made.close()
        storage.update_metadata(
            {
                "dataset_id": self.id,
                "minari_version": version("minari"),
                "algorithm_name": about["policy"]["name"],
                "description": f"{about['env']}, {about['steps']:,} steps. {REMARK}",
                "requirements": [f"{name}=={number}" for name, number in about["versions"].items() if name != "cesaro"],
                "cesaro": {name: value for name, value in about.items() if not name.startswith(("on_", "reset_"))},
            }
        )
        for stream in streams:
            storage.update_episodes(_episodes(stream, seen, done))
        self._make_namespace()
        self.rename()
        shutil.rmtree(self.out / "pieces")
        (self.out / "settings.json").unlink()

    def _make_namespace(self) -> None:
        from minari.namespace import create_namespace, list_local_namespaces

        if self._namespace is not None and self._namespace not in list_local_namespaces():
            create_namespace(self._namespace)


def _unbounded(space: Any) -> Any:
    """The space of the actions as stored: with their noise they pass the bounds."""
    from gymnasium.spaces import Box

    return Box(-np.inf, np.inf, space.shape, space.dtype) if isinstance(space, Box) else space


def _episodes(stream: Arrays, seen: Any, done: Any) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    length = len(stream["rewards"])
    truncated = stream["truncated"].copy()
    ends = np.flatnonzero(stream["terminated"] | truncated)
    lasts = stream["final_observations"]
    if not len(ends) or ends[-1] != length - 1:
        ends, lasts = np.append(ends, length - 1), np.concatenate([lasts, stream["next_observations"][-1:]])
        truncated[-1] = True
    for start, end, last in zip((0, *(ends[:-1] + 1)), ends, lasts):
        rows = slice(start, end + 1)
        observations = np.concatenate([stream["observations"][rows], last[None]])
        yield EpisodeBuffer(
            observations=_shaped(observations, seen),
            actions=_shaped(stream["actions"][rows], done),
            rewards=stream["rewards"][rows],
            terminations=stream["terminated"][rows],
            truncations=truncated[rows],
        )


def _shaped(values: NDArray[Any], space: Any) -> NDArray[Any]:
    return values.astype(space.dtype).reshape(len(values), *space.shape)
