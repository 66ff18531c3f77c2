"""Where a collected log goes: finished streams wait in `OUT.partial/`, and the log appears when it is complete.

A log is one Parquet file that `cesaro.read` takes without options, or a Minari data set on this machine.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cesaro import documents
from cesaro.data.roles import CHOSEN
from cesaro.data.settings import carried_bounds
from cesaro.data.sorting import has_mark
from cesaro.errors import InputError
from cesaro.files import holding, write_json
from cesaro.folders import Workspace
from cesaro.simulation.environments import open_env
from cesaro.simulation.streams import Arrays, Job

_COLUMNS = {
    "trajectory": "trajectory",
    "observation": "observations",
    "action": "actions",
    "reward": "rewards",
    "next_observation": "next_observations",
    "terminated": "terminated",
    "truncated": "truncated",
    CHOSEN: "chosen_actions",
}
# The files of a Minari data set.
_DATA = ("data/metadata.json", "data/main_data.hdf5")
REMARK = (
    "A Minari data set holds the last observation of an episode, not the reset state: read it with "
    "on_termination='restart' and on_truncation='restart' (--on-truncation restart) for the process with resets."
)


class Sink(Workspace):
    """A log in the making. The same settings find the streams of an interrupted run again; others are refused."""

    WRITTEN_BY = "collect"

    def piece(self, name: str) -> Arrays:
        """A stream that was stored."""
        found = self.load(name)
        if found is None:
            raise InputError(f"'{self.path}' must keep the stream {name!r}. Got a damaged file; run it again.")
        return found

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        """Write the log from all its streams, in order, and let it appear."""
        raise NotImplementedError


class ParquetSink(Sink):
    """One Parquet file, a row group per stream."""

    WRITER = "collect"
    ENDING = ".parquet"

    def is_ours(self) -> bool:
        return has_mark(self.out, b"cesaro")

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        file, writer = self.file("log.parquet"), None
        try:
            for number, stream in enumerate(streams):
                rows = _rows(number, stream, about)
                if writer is None:
                    writer = pq.ParquetWriter(
                        file, rows.schema, use_dictionary=["trajectory"], write_page_checksum=True, version="2.6"
                    )
                writer.write_table(rows, row_group_size=max(1, len(rows)))
        finally:
            if writer is not None:
                writer.close()
        self.appear(file)


def table(about: dict[str, Any], streams: Iterable[Arrays]) -> pa.Table:
    """The same log in memory."""
    return pa.concat_tables([_rows(number, stream, about) for number, stream in enumerate(streams)])


def _rows(number: int, stream: Arrays, about: dict[str, Any]) -> pa.Table:
    ids = np.full(len(stream["rewards"]), number, dtype=np.int32)
    arrays = {**executed(stream, about), "trajectory": ids}
    columns = {column: _column(arrays[name]) for column, name in _COLUMNS.items() if name in arrays}
    return pa.table(columns).replace_schema_metadata({b"cesaro": json.dumps(about).encode()})


def executed(stream: Arrays, about: Mapping[str, Any]) -> Arrays:
    """The stream with the actions that the environment got, and what was chosen as `chosen_actions`, where it has bounds."""
    bounds = carried_bounds(about["env"], about)
    if bounds is None:
        return stream
    return {**stream, "actions": bounds.cut(stream["actions"]), "chosen_actions": stream["actions"]}


def _column(values: NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


class MinariSink(Sink):
    """One Minari data set. The end of a stream cuts its last episode, which is flagged as truncated then."""

    WRITER = "collect to Minari"

    def __init__(self, out: str | os.PathLike[str], *, force: bool = False) -> None:
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
        super().__init__(get_dataset_path(self.id), force=force)
        self.path = self.out.parent / f".{self.out.name}.partial"  # hidden, or Minari would list it

    def unmarked(self) -> set[str] | None:
        with suppress(OSError, ValueError):
            found = documents.read(self.out / "data" / "metadata.json")
            return {"data/", *_DATA} if isinstance(found, dict) and "cesaro" in found else None
        return None

    def check(self) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)  # namespaces are Minari's to make
        super().check()

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        from minari.dataset.minari_storage import MinariStorage

        folder = self.files(list(_DATA))[0].parent
        made = open_env(job.env, time_limit=job.time_limit)
        try:
            seen, done = made.observation_space, made.action_space
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
            storage.update_episodes(_episodes(executed(stream, about), seen, done))
        self._make_namespace()
        self.rename()

    def _make_namespace(self) -> None:
        """Write what `minari.create_namespace` would, whole or not at all."""
        from minari.namespace import NAMESPACE_METADATA_FILENAME

        folder = self.out.parent
        for _ in self._namespace.split("/") if self._namespace else ():
            file, folder = folder / NAMESPACE_METADATA_FILENAME, folder.parent
            with holding(file):
                if not file.exists():
                    write_json(file, {})


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
