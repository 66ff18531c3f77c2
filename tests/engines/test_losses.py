"""Clusters that cannot be reached, do not start, or lose the node of this process: one sentence, and no long wait."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cesaro.engines import cluster
from cesaro.errors import ClusterError, InputError


class FakeRay(SimpleNamespace):
    """As much of Ray as it takes to connect."""

    def __init__(self, init: Callable[..., None]) -> None:
        self.ended = 0
        super().__init__(
            init=init,
            is_initialized=lambda: False,
            shutdown=self.shut,
            _private=SimpleNamespace(services=SimpleNamespace(canonicalize_bootstrap_address=lambda address: address)),
        )

    def shut(self) -> None:
        self.ended += 1


def fails(error: BaseException) -> Callable[..., None]:
    def init(**_: Any) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: None)  # as Ray does
        raise error

    return init


@pytest.mark.parametrize(
    "error", [Exception("The current node timed out\nduring startup"), SystemExit(15), OSError("no port")]
)
def test_a_cluster_that_does_not_start(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    ray = FakeRay(fails(error))
    monkeypatch.setattr(cluster, "ray_module", lambda: ray)
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ClusterError, match="No Ray cluster could be reached or started on this machine") as caught:
        cluster._connect(None)
    assert "\n" not in str(caught.value)
    assert caught.value.message.command_line.endswith("or give the --address of one that runs.")  # type: ignore[attr-defined]
    assert (ray.ended, signal.getsignal(signal.SIGTERM)) == (1, handler)
    with pytest.raises(InputError, match=r"address must be that of a running Ray cluster, .* Got 'auto'"):
        cluster._connect("auto")


def test_an_interruption_is_none_of_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ray_module", lambda: FakeRay(fails(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        cluster._connect(None)


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_of_something_else(monkeypatch: pytest.MonkeyPatch, answer: bytes | None) -> None:
    """None: it lets others connect and is silent, as a process that hangs."""
    monkeypatch.setattr(cluster, "ray_module", lambda: FakeRay(lambda **_: pytest.fail("it tried for minutes")))
    monkeypatch.setattr(cluster, "_POLL_SECONDS", 0.05)

    def serve() -> None:
        if answer is not None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        host, port = server.getsockname()
        with pytest.raises(InputError, match=rf"Got '{host}:{port}' \(no head node answers at {host}:{port}\)"):
            cluster._connect(f"{host}:{port}")
        thread.join()


def test_a_node_that_dies_is_told_before_ray_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay(lambda **_: None)
    monkeypatch.setattr(cluster, "ray_module", lambda: ray)
    tasks = cluster.Tasks(abs, None, 1, 0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        tasks._node, tasks._seen = server.getsockname(), -float("inf")
        tasks._check_node()
        assert tasks._seen > time.monotonic() - 60
    tasks._check_node()  # it was there a moment ago
    tasks._seen = -float("inf")
    with pytest.raises(ClusterError, match="The Ray cluster was lost: the node of this process has died"):
        tasks._check_node()
    assert ray.ended == 1
