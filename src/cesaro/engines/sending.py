"""How a function travels to workers, and what a worker does with it."""

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cesaro.errors import InputError
from cesaro.user_code import NOT_USERS
from cesaro.versions import versions

# Functions that a worker keeps.
_KEPT = 4
_LOADED: dict[str, Callable[[Any], Any]] = {}


class Sent(NamedTuple):
    """A function as bytes, its arrays beside them, so that workers of a node share one copy."""

    function: bytes
    arrays: list[NDArray[np.uint8]]


def pickled(function: Callable[[Any], Any], cloudpickle: Any) -> tuple[str, Sent]:
    """The function by value where its module is a user's own, and a name for it."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        with _own_modules_by_value(cloudpickle):
            data = cloudpickle.dumps(function, protocol=5, buffer_callback=buffers.append)
        arrays = [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]
    except Exception as error:  # whatever an object of the user's own raises
        raise InputError(
            f"What runs on a cluster must be able to travel, which fails with {type(error).__name__} "
            f"({' '.join(str(error).split())[:300]}); make it of plain data and functions, or take the local engine."
        ) from error
    digest = hashlib.sha256(data)
    for array in arrays:
        digest.update(array.data)
    return digest.hexdigest(), Sent(data, arrays)


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


def run(key: str, sent: Sent, made_with: dict[str, str], uses_gpu: bool, item: Any) -> Any:
    """What a worker does: load the function once, and compute a piece as the local engine would."""
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
