"""A real cluster: the same answers as without it, whatever dies. The tests are few, since starting and killing takes seconds."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import pytest

import cesaro as cs
from cesaro import python_file
from cesaro.algorithms import REGISTRY
from cesaro.approximators import linear
from cesaro.engines import cluster as ray_engine
from cesaro.engines import map_completed, map_ordered
from cesaro.errors import ClusterError
from cesaro.learning import engine
from cesaro.learning.run import advanced

from .conftest import Nodes

PROBLEM = cs.problems.random_problem(80, 3, 2, 2)
SWEEP: dict[str, Any] = {
    "settings": cs.grid(step_size=[0.02, 0.05, 0.1, 4.0]),
    "seeds": 4,
    "budget": 120,
    "record_every": 20,
    "window": 40,
    "record": ("weights",),
    "keep_final": True,
    "quiet": True,
}


@pytest.fixture(autouse=True)
def _many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lanes in each of eight chunks."""
    monkeypatch.setattr(engine, "CPU_NUMBERS", 6)


def assert_identical(found: cs.Sweep, expected: cs.Sweep) -> None:
    assert (found.method, found.settings) == (expected.method, expected.settings)
    for name in ("seeds", "samples", "reward_rate", "diverged_at"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name
    assert found.records["weights"].tobytes() == expected.records["weights"].tobytes()
    for one, other in zip(jax.tree.leaves(found.final), jax.tree.leaves(expected.final), strict=True):
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


def after(monkeypatch: pytest.MonkeyPatch, pieces: int, event: Callable[[], None]) -> list[int]:
    """Let something happen once a sweep has so many chunks back; the list fills with the chunks' numbers."""
    came: list[int] = []

    def watched(*arguments: Any, **options: Any) -> Iterator[tuple[int, Any]]:
        if options.get("engine") != "ray":
            yield from map_completed(*arguments, **options)
            return
        for number, result in map_completed(*arguments, **options):
            came.append(number)
            yield number, result
            if len(came) == pieces:
                event()

    monkeypatch.setattr(engine, "map_completed", watched)
    return came


def test_order_own_functions_and_refusals(connected: Nodes, tmp_path: Path) -> None:
    """A function of a file and what it calls travel by value: the file is gone when it is called."""
    import ray

    file = tmp_path / "own.py"
    file.write_text(
        "import time\nimport numpy as np\nfrom cesaro import InputError\n"
        "TABLE = np.arange(50_000.0)\n"
        "class Twice:\n    def of(self, x): return 2 * x\n"
        "def check(x):\n    if x == 7: raise InputError('seven must not be.')\n"
        "def own(x):\n    check(x)\n    time.sleep(0.1 * (x == 0))\n    return Twice().of(TABLE[x])\n"
    )
    connected.fill()
    own, _ = python_file.load(file, "own")
    file.unlink()
    assert list(map_ordered(own, iter(range(6)), engine="ray")) == [0, 2, 4, 6, 8, 10]
    with pytest.raises(cs.InputError, match=r"^seven must not be\.$") as caught:
        list(map_ordered(own, range(20), engine="ray"))
    assert type(caught.value) is cs.InputError
    assert ray.is_initialized(), "a connection of the caller's own stays"
    with pytest.raises(cs.InputError, match=f"address must be that of the cluster in use, {connected.address}"):
        list(map_ordered(own, [1], engine="ray", address="127.0.0.1:1"))
    with pytest.raises(cs.InputError, match="is sent to its machines, which fails"):
        list(map_ordered(partial(print, threading.Lock()), [1], engine="ray"))


def test_a_sweep_is_the_local_one(connected: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two segments, so that what chunks carry goes to and fro."""
    connected.fill()
    monkeypatch.setattr(engine, "DRAWN_AHEAD", 4 * 20 * 3)
    found = cs.sweep("diff-gq2", PROBLEM, **SWEEP, engine="ray", address=connected.address)
    expected = cs.sweep("diff-gq2", PROBLEM, **SWEEP)
    assert expected.diverged.tolist() == [False, False, False, True]
    assert_identical(found, expected)


def fatal_once(mark: Path) -> Any:
    """A method of the user's own, whose first use ends the process of a worker."""
    base = REGISTRY["diff-sgq"](linear, 2)
    home = os.getpid()

    def lagrangian(*arguments: Any) -> Any:
        if os.getpid() != home and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.5 * base.lagrangian(*arguments)

    return base._replace(lagrangian=lagrangian)


def test_a_worker_and_a_node_die_in_a_sweep(connected: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connected.fill()
    objective = fatal_once(tmp_path / "killed")
    came = after(monkeypatch, 2, connected.kill)
    found = cs.sweep(objective, PROBLEM, **SWEEP, engine="ray")
    assert (tmp_path / "killed").exists()
    assert sorted(came) == list(range(8))
    assert_identical(found, cs.sweep(objective, PROBLEM, **SWEEP))


def test_a_lost_cluster_leaves_a_checkpoint_that_is_finished_here(
    connected: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every node that could work is killed after three of eight chunks."""
    connected.fill(1)
    arguments: dict[str, Any] = {**SWEEP, "budget": 60, "checkpoint": tmp_path / "sweep.npz"}
    monkeypatch.setattr(ray_engine, "_NODELESS_SECONDS", 0.5)
    came = after(monkeypatch, 3, connected.kill_all)
    with pytest.raises(ClusterError, match=r"no node has offered 1 CPU for .* local engine finishes it"):
        cs.sweep("diff-gq2", PROBLEM, **arguments, engine="ray")
    assert 3 <= len(came) < 8
    done: list[Any] = []

    def counted(*inputs: Any) -> Any:
        done.append(inputs)
        return advanced(*inputs)

    monkeypatch.setattr(engine, "advanced", counted)
    finished = cs.sweep("diff-gq2", PROBLEM, **arguments)
    assert len(done) == 8 - len(came), "only what was missing"
    assert_identical(finished, cs.sweep("diff-gq2", PROBLEM, **{**arguments, "checkpoint": None}))


def test_a_connection_that_ends_is_told_and_a_silent_head_node_too(
    connected: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs: there is no node. Ray would start a cluster by itself, or end this process after a minute."""
    import ray

    monkeypatch.setattr(ray_engine, "_POLL_SECONDS", 0.05)
    items = (ray.shutdown() if item else item for item in range(2))
    with pytest.raises(ClusterError, match="its connection was ended"):
        list(map_ordered(abs, items, engine="ray"))
    assert not ray.is_initialized()
    monkeypatch.setattr(ray_engine, "_LOST_SECONDS", 0.2)
    answers = iter([True])  # to who connects, and never again
    monkeypatch.setattr(ray_engine, "_answers", lambda *_: next(answers, False))
    with pytest.raises(ClusterError, match="its head node has not answered"):
        list(map_ordered(abs, [1], engine="ray", address=connected.address))
    assert not ray.is_initialized(), "what was connected here is ended here"
