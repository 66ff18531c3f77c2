"""Passes over a log as tasks of a real cluster: the same bits, whatever dies."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cesaro as cs
from cesaro.data import blocks
from cesaro.engines import cluster as ray_engine
from cesaro.engines import map_ordered
from cesaro.errors import ClusterError
from cesaro.passes import run

from .conftest import Nodes

ROWS = 6 * 65_536 - 100  # blocks cannot be smaller: workers do not know what a test changes here


@pytest.fixture(autouse=True)
def _many_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "STRETCH_BLOCKS", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trajectory over two files, and a few others."""
    rng = np.random.default_rng(0)
    state = np.convolve(rng.normal(size=ROWS), 0.6 ** np.arange(20), "same")
    action = rng.normal(size=ROWS)
    ids = np.repeat(np.arange(5), [ROWS - 4_000, *[1_000] * 4])
    table = pa.table({"level": state, "action": action, "reward": state + action**2, "trajectory": ids})
    path = tmp_path_factory.mktemp("log")
    for number, (start, rows) in enumerate(((0, 150_000), (150_000, ROWS - 150_000))):
        pq.write_table(table.slice(start, rows), path / f"{number}.parquet", row_group_size=100_000)
    return path


def halved(observations: Any) -> Any:
    return observations / 2


def fitted(folder: Path, policy: Any = halved, **settings: Any) -> cs.DiffLSTD:
    log = cs.read(folder, observation="level", stream=True)
    return cs.DiffLSTD(features="polynomial:2", quiet=True, **settings).fit(log, policy)


def after(monkeypatch: pytest.MonkeyPatch, stretches: int, event: Callable[[], None]) -> Callable[[], bool]:
    """Let something happen once so many stretches came back; the answer tells whether it did."""
    count = 0

    def watched(*arguments: Any, **options: Any) -> Iterator[Any]:
        nonlocal count
        for result in map_ordered(*arguments, **options):
            yield result
            count += 1
            if count == stretches:
                event()

    monkeypatch.setattr(run, "map_ordered", watched)
    return lambda: count >= stretches


def fatal_once(mark: Path) -> Any:
    """A policy whose first use elsewhere ends that process."""
    home = os.getpid()

    def policy(observations: Any) -> Any:
        if os.getpid() != home and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return observations / 2

    return policy


def assert_identical(found: cs.DiffLSTD, expected: cs.DiffLSTD) -> None:
    assert (found.estimate_, found.behavior_) == (expected.estimate_, expected.behavior_)
    assert found.weights_.tobytes() == expected.weights_.tobytes()
    assert found.totals_.sums == expected.totals_.sums


def test_a_worker_and_a_node_die_in_a_pass(
    connected: Nodes, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connected.fill()
    is_killed = after(monkeypatch, 3, connected.kill)
    found = fitted(folder, fatal_once(tmp_path / "killed"), engine="ray", address=connected.address)
    assert (tmp_path / "killed").exists()
    assert is_killed()
    assert_identical(found, fitted(folder))


def test_a_lost_cluster_leaves_a_checkpoint_that_is_finished_here(
    connected: Nodes, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connected.fill(1)
    monkeypatch.setattr(ray_engine, "_NODELESS_SECONDS", 0.5)
    kept = tmp_path / "passes.npz"
    with monkeypatch.context() as patched:
        after(patched, 3, connected.kill_all)
        with pytest.raises(ClusterError, match="local engine finishes it"):
            fitted(folder, engine="ray", checkpoint=kept)
    done: list[Any] = []
    blocks = run._blocks

    def counted(*given: Any) -> Any:
        done.extend(given[2])
        return blocks(*given)

    monkeypatch.setattr(run, "_blocks", counted)
    finished = fitted(folder, checkpoint=kept)
    stretches = len(cs.read(folder, observation="level").stretches)
    assert 3 <= 2 * stretches - len(done) < stretches, "only what was missing"
    assert_identical(finished, fitted(folder))


def test_data_in_memory_travel_too_and_errors_come_out_as_themselves(connected: Nodes) -> None:
    connected.fill(1)
    rng = np.random.default_rng(1)
    log = cs.Transitions(rng.integers(0, 3, 1_000), rng.integers(0, 2, 1_000), rng.normal(size=1_000))
    found, expected = (cs.DiffLSTD(engine=engine, quiet=True).fit(log, "uniform") for engine in ("ray", "local"))
    assert_identical(found, expected)
    assert found.influence_.tobytes() == expected.influence_.tobytes()
    home = os.getpid()

    def fails_elsewhere(observations: Any) -> Any:
        if os.getpid() != home:
            raise ValueError("not at home")
        return observations % 2

    with pytest.raises(cs.InputError, match=r"'fails_elsewhere' failed with ValueError at .* not at home"):
        cs.DiffLSTD(engine="ray", quiet=True).fit(log, fails_elsewhere)


def test_a_log_that_is_replaced_between_passes_is_refused(
    connected: Nodes, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Workers do not know what others read; what they found is compared here."""
    connected.fill(1)
    own = tmp_path / "log"
    shutil.copytree(folder, own)

    def replace() -> None:
        table = pq.read_table(own / "1.parquet")
        reward = table["reward"].to_numpy().copy()
        reward[190_000] += 1.0
        pq.write_table(table.set_column(2, "reward", pa.array(reward)), own / "new")
        (own / "new").rename(own / "1.parquet")

    monkeypatch.setattr("cesaro.data.log.sample_rows", lambda rows, _: np.arange(1_000))
    stretches = len(cs.read(own, observation="level").stretches)
    after(monkeypatch, stretches, replace)  # the first pass is done
    said = r'^log must not change while it is read. Got other entries of column "reward" in 1.parquet than before'
    with pytest.raises(cs.InputError, match=said):
        fitted(own, engine="ray", address=connected.address)
