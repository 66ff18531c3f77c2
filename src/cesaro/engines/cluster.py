"""Pieces as tasks of a Ray cluster: the connection, the tasks, how functions travel. The only module that knows Ray."""

import hashlib
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cesaro.engines.local import AHEAD
from cesaro.errors import ClusterError, InputError
from cesaro.text import Sentence, argument
from cesaro.user_code import NOT_USERS
from cesaro.versions import versions

# How often the same piece may lose its worker.
_RETRIES = 8
_POLL_SECONDS = 1.0
_RECOUNT_SECONDS = 10.0
# Without an answer of the head node. Ray ends this process after 60.
_LOST_SECONDS = 20.0
# Without any node that could take a piece: a cluster that grows on demand needs minutes for its first.
_NODELESS_SECONDS = 300.0
# How an HTTP/2 client begins, with settings that are empty; the server answers with its own.
_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)
# Functions that a worker keeps.
_KEPT = 4
_LOADED: dict[str, Callable[[Any], Any]] = {}


def ray_module() -> Any:
    """The Ray package; raises with the remedy where it is not installed."""
    try:
        import ray
    except ImportError:
        raise InputError("engine 'ray' needs Ray; install it with: pip install 'cesaro[ray]'.") from None
    return ray


class _Connection:
    """The connection of this process, shared by everybody inside a session."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.is_own = False
        self.address: str | None = None


_CONNECTION = _Connection()


@contextmanager
def session(engine: str = "local", address: str | None = None) -> Iterator[None]:
    """Stay connected to a cluster between calls; what was started or connected here ends with the last one inside."""
    if engine != "ray":
        yield
        return
    ray, connection = ray_module(), _CONNECTION
    with connection.lock:
        if not ray.is_initialized():
            _connect(address)
            connection.users, connection.is_own, connection.address = 0, True, address
        elif connection.users == 0:  # the caller's own
            connection.is_own, connection.address = False, None
        known = (None, "auto", connection.address, ray.get_runtime_context().gcs_address)
        if address not in known:
            raise InputError(
                f"address must be that of the cluster in use, {known[-1]}. Got {address!r}; leave it out, or end that "
                "connection first."
            )
        connection.users += 1
    try:
        yield
    finally:
        with connection.lock:
            connection.users -= 1
            if connection.users <= 0 and connection.is_own:
                ray.shutdown()


def _connect(address: str | None) -> None:
    """Connect to the cluster there; without an address, to that of this machine or to one that is started now."""
    try:
        _check_head(address)
        with warnings.catch_warnings(), _sigterm_kept():
            # JAX warns of forks, and those that start Ray's processes are harmless.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray_module().init(
                address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR
            )
    except (Exception, SystemExit) as error:  # Ray raises what it likes, and ends programs
        with suppress(Exception, SystemExit):
            ray_module().shutdown()  # of what was started
        reason = " ".join(str(error).split())[:300]
        if address is None:
            raise ClusterError(
                Sentence(
                    "No Ray cluster could be reached or started on this machine ({reason}); take the local engine, or give the "
                    "{address} of one that runs.",
                    reason=reason,
                    address=argument("address"),
                )
            ) from error
        raise InputError(
            f"address must be that of a running Ray cluster, host:port or 'auto'. Got {address!r} ({reason}); start one "
            "with: ray start --head."
        ) from error


def _check_head(address: str | None) -> None:
    """Refuse the address of a head node that does not answer; Ray would try for minutes."""
    with suppress(Exception):  # also where the environment, or a file that `ray start` left, names it
        address = ray_module()._private.services.canonicalize_bootstrap_address(address)
    host, _, port = (address or "").rpartition(":")
    if (
        host
        and port.isdecimal()
        and "/" not in host
        and not _answers((host.strip("[]"), int(port)), 10 * _POLL_SECONDS)
    ):
        raise ConnectionError(f"no head node answers at {address}")


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and then it would end the program without a word about what was kept."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if is_main else None
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


class Tasks:
    """Runs pieces as tasks that need `num_cpus` and `num_gpus` each."""

    def __init__(self, function: Callable[[Any], Any], address: str | None, num_cpus: float, num_gpus: float) -> None:
        self._function = function
        self._address = address
        self._needs = {"CPU": num_cpus, "GPU": num_gpus} if num_gpus else {"CPU": num_cpus}
        self._pending: set[Any] = set()

    def __enter__(self) -> "Tasks":
        ray = ray_module()
        key, sent = _pickled(self._function, ray.cloudpickle)
        with ExitStack() as stack:
            stack.enter_context(session("ray", self._address))
            self._head, self._node = _head(), _node()
            self._slots, self._counted = 0, -float("inf")
            self._answered = self._had_slots = self._seen = time.monotonic()
            with _losses_told():
                self._arguments = (key, ray.put(sent), versions(), "GPU" in self._needs)
            self._task = ray.remote(_run).options(
                num_cpus=self._needs["CPU"],
                num_gpus=self._needs.get("GPU", 0),
                max_retries=_RETRIES,
                retry_exceptions=False,
            )
            self._session = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        ray = ray_module()
        for reference in self._pending if ray.is_initialized() else ():
            with suppress(Exception):  # it has ended, or the cluster has
                ray.cancel(reference)
        self._session.close()

    def room(self) -> int:
        if time.monotonic() - self._counted > _RECOUNT_SECONDS:
            self._count()
        return AHEAD * max(self._slots, 1)

    def start(self, item: Any) -> Any:
        with _losses_told():
            reference = self._task.remote(*self._arguments, item)
        self._pending.add(reference)
        return reference

    def first_ended(self, handles: list[Any]) -> tuple[Any, Any]:
        ray = ray_module()
        while True:
            self._check_node()
            failure, result = None, None
            with _losses_told():
                ended, _ = ray.wait(handles, num_returns=1, timeout=_POLL_SECONDS)
                try:
                    result = ray.get(ended[0], timeout=_POLL_SECONDS) if ended else None
                except ray.exceptions.GetTimeoutError:
                    ended = []
                except ray.exceptions.RayTaskError as error:
                    failure = error
            if not ended:
                self._check_cluster()
                continue
            self._pending.discard(ended[0])
            if failure is not None:
                raise failure.cause from failure
            return ended[0], result

    def _check_node(self) -> None:
        """Ray ends this process some seconds after the node that it is connected to: rather say it before."""
        if self._node is None or time.monotonic() - self._seen < _POLL_SECONDS:
            return
        try:
            socket.create_connection(self._node, timeout=_POLL_SECONDS).close()
        except ConnectionRefusedError:
            ray_module().shutdown()
            raise _lost("the node of this process has died") from None
        except OSError:  # it is busy, as far as anybody can tell
            pass
        self._seen = time.monotonic()

    def _check_cluster(self) -> None:
        """Ray waits for lost nodes for ever, and ends this process when the head node stays away: rather say it in time."""
        now = time.monotonic()
        if self._head is not None and not _answers(self._head):
            if now - self._answered > _LOST_SECONDS:
                ray_module().shutdown()
                raise _lost(f"its head node has not answered for {_LOST_SECONDS:.0f} seconds")
            return
        self._answered = now
        self._count()
        if self._slots:
            self._had_slots = now
        elif now - self._had_slots > _NODELESS_SECONDS:
            needs = " and ".join(f"{count:g} {name}" for name, count in self._needs.items())
            raise _lost(f"no node has offered {needs} for {_NODELESS_SECONDS:.0f} seconds")

    def _count(self) -> None:
        with _losses_told():
            there = ray_module().cluster_resources()
        self._slots = min(int(there.get(name, 0) // count) for name, count in self._needs.items())
        self._counted = time.monotonic()


def _head() -> tuple[str, int] | None:
    """Where the head node answers; None where Ray's client speaks for this process and notices a loss itself."""
    with suppress(Exception):
        host, _, port = ray_module().get_runtime_context().gcs_address.rpartition(":")
        return host.strip("[]"), int(port)
    return None


def _node() -> tuple[str, int] | None:
    """Where the node answers that this process is connected to; None where Ray's client speaks for it."""
    with suppress(Exception):
        ray = ray_module()
        mine = ray.get_runtime_context().get_node_id()
        node = next(node for node in ray.nodes() if node["NodeID"] == mine)
        return node["NodeManagerAddress"], int(node["NodeManagerPort"])
    return None


def _answers(head: tuple[str, int], seconds: float = _POLL_SECONDS) -> bool:
    """Whether something there speaks HTTP/2, as the head node does: a process that hangs lets others connect, too."""
    try:
        with socket.create_connection(head, timeout=seconds) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return True
            connection.sendall(_GREETING)
            return connection.recv(4)[3:] == _SETTINGS
    except (OSError, OverflowError):
        return False


def _lost(reason: str) -> ClusterError:
    return ClusterError(
        f"The Ray cluster was lost: {reason}. What came back is in the checkpoint, if there is one: the same call with the "
        "local engine finishes it."
    )


@contextmanager
def _losses_told() -> Iterator[None]:
    """Turn what Ray raises about itself into one sentence."""
    ray = ray_module()
    if not ray.is_initialized():  # it would start another one by itself
        raise _lost("its connection was ended")
    try:
        yield
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise _lost(f"{type(error).__name__} ({' '.join(str(error).split())[:300]})") from error


# How a function travels, and what a worker does with it.


class _Sent(NamedTuple):
    """A function as bytes, its arrays beside them, so that workers of a node share one copy."""

    function: bytes
    arrays: list[NDArray[np.uint8]]


def _pickled(function: Callable[[Any], Any], cloudpickle: Any) -> tuple[str, _Sent]:
    """The function by value where its module is a user's own, and a name for it."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        with _own_modules_by_value(cloudpickle):
            data = cloudpickle.dumps(function, protocol=5, buffer_callback=buffers.append)
        arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    except Exception as error:  # whatever an object of the user's own raises
        raise InputError(
            f"What runs on a cluster is sent to its machines, which fails with {type(error).__name__} "
            f"({' '.join(str(error).split())[:300]}); make it of plain data and functions, or use the local engine."
        ) from error
    digest = hashlib.sha256(data)
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest(), _Sent(data, arrays)


@contextmanager
def _own_modules_by_value(cloudpickle: Any) -> Iterator[None]:
    """Modules that no installed package brings, which a worker would look for in vain."""
    registered = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        is_own = isinstance(file, str) and not file.startswith(NOT_USERS) and name != "__main__"
        if is_own and name not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _run(key: str, sent: _Sent, made_with: dict[str, str], uses_gpu: bool, item: Any) -> Any:
    """The work of a worker: load the function once, and compute a piece as the local engine would."""
    if key not in _LOADED:
        _prepare(made_with, uses_gpu)
        try:
            function = pickle.loads(sent.function, buffers=sent.arrays)
        except ImportError as error:
            raise InputError(
                f"A worker cannot load what it should compute ({type(error).__name__}: {error}); "
                "install the same packages on every node."
            ) from error
        while len(_LOADED) >= _KEPT:
            del _LOADED[next(iter(_LOADED))]
        _LOADED[key] = function
    with threadpool_limits(limits=1):
        return _LOADED[key](item)


def _prepare(made_with: dict[str, str], uses_gpu: bool) -> None:
    """The same packages, and the same kind of device; before JAX is loaded, which looks for devices once."""
    here = versions(tuple(made_with), ())
    different = [f"{name} {here.get(name, 'none')} there and {made_with[name]} here" for name in made_with]
    different = [text for name, text in zip(made_with, different) if here.get(name) != made_with[name]]
    if different:
        raise InputError(
            f"A worker has other versions ({', '.join(different)}), which may give other numbers; "
            "install the same on every node."
        )
    if uses_gpu:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the caller's process may hold the same GPU
    else:
        os.environ["JAX_PLATFORMS"] = "cpu"
