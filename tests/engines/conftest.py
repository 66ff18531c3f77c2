"""One real Ray cluster for all tests here: a head node without cores and two nodes with one core each, on this machine."""

import os
import uuid

# Before anything imports Ray: a token of its own, so that nobody else's is read or written; and no news for its makers.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex, "RAY_USAGE_STATS_ENABLED": "0"}

import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

# A node that is killed is missed after a second, not after half a minute; and workers wait no longer than other tests do.
CONFIGURATION = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 2,
    "worker_niceness": 0,
}


@contextmanager
def forks() -> Iterator[None]:
    """JAX warns of forks, and those that start Ray's processes are harmless."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield


class Nodes:
    """The cluster, and how to take nodes away and put them back."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster  # seconds, which tests without a cluster need not wait

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "object_store_memory": 80_000_000,
                "include_dashboard": False,
                "_system_config": CONFIGURATION,
            },
        )
        self._workers: list[Any] = []

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def fill(self, nodes: int = 2) -> None:
        """So many nodes with a core, whatever was killed before."""
        with forks():
            while len(self._workers) < nodes:
                self._workers.append(self._cluster.add_node(num_cpus=1, object_store_memory=80_000_000, wait=False))
        self._cluster.wait_for_nodes()

    def kill(self) -> None:
        """One of them, as a power cut would: workers, which would live on for a moment, with their node."""
        node = self._workers.pop()
        parent = node.all_processes["raylet"][0].process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        self._cluster.remove_node(node, allow_graceful=False)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)

    def kill_all(self) -> None:
        """All that could work; the head node stays."""
        while self._workers:
            self.kill()

    def end(self) -> None:
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the cluster come first: one worker of xdist begins with them, and others steal from the end alone."""
    items.sort(key=lambda item: "cluster" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Nodes]:
    """Started once per process."""
    import ray

    with forks():
        nodes = Nodes()
    yield nodes
    ray.shutdown()
    nodes.end()


@pytest.fixture
def connected(cluster: Nodes) -> Nodes:
    """This process connected, once for all: workers that a test has warmed serve the next. A test asks for its nodes."""
    import ray

    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    return cluster
