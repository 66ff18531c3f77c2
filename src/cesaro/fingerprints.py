"""Fingerprints of what computes: policies, features, objectives, so that a later run can tell whether it has the same ones."""

import copyreg
import hashlib
import inspect
import random
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from cesaro.user_code import NOT_USERS, type_name

_STANDARD = sysconfig.get_paths()["stdlib"]
_PLAIN = {
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    type(None),
    type(Ellipsis),
}  # not their subclasses, which may hold more
# What has another state at every start.
_OPAQUE = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)


def fingerprint(thing: Any) -> str:
    """64 hexadecimal digits that are the same, in any process, for what computes the same, as far as can be told.

    - Numbers, text, arrays and containers: their content.
    - A function: its source text (its compiled code where there is none of its own), its defaults, and what it refers to,
      enclosed or global. Of one from an installed package its name counts, and what it encloses.
    - An object: its class, and its attributes; where it shows none, what pickle would keep of it. An object with a method
      `__fingerprint__` is what that gives.
    - A module of the user's own: the text of its file.

    Anything else counts by its type alone: open files, locks, sessions, random generators.

    Example:
        >>> from cesaro.fingerprints import fingerprint
        >>> fingerprint({"idle": [0.5, 0.5]}) == fingerprint({"idle": [0.5, 0.25]})
        False
    """
    walk = _ObjectWalk()
    walk.add(thing)
    return walk.digest.hexdigest()


def file_fingerprint(path: Path) -> str:
    """The SHA-256 checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _ObjectWalk:
    """Goes through everything that a thing is made of, once."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}  # kept alive, so that no id is given twice

    def add(self, thing: Any) -> None:
        if type(thing) in _PLAIN:
            self._say(type(thing).__name__, repr(thing))
        elif id(thing) in self._seen:
            self._say("again", str(self._seen[id(thing)][0]))
        else:
            self._seen[id(thing)] = len(self._seen), thing
            try:
                self._add(thing)
            except KeyboardInterrupt:
                raise
            except BaseException:  # whatever an object has against being looked at
                self._say("opaque", type_name(thing))

    def _say(self, *words: str) -> None:
        self.digest.update("".join(f"{len(word)} {word};" for word in words).encode(errors="backslashreplace"))

    def _each(self, kind: str, things: Any) -> None:
        every = list(things)
        self._say(kind, str(len(every)))
        if all(type(thing) in _PLAIN for thing in every):  # at once: there may be a million labels
            self._say(repr(every))
            return
        for thing in every:
            self.add(thing)

    def _add(self, thing: Any) -> None:
        if type(thing) is np.ndarray or isinstance(thing, np.generic):
            self._array(np.asarray(thing))
        elif isinstance(thing, np.ndarray):  # such as one with a mask
            self._reduced(thing)
        elif _is_array(thing):
            self._array(np.asarray(thing))
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, MethodType):
            self._each("method", (thing.__func__, thing.__self__))
        elif isinstance(thing, partial):
            self._each("partial", (thing.func, thing.args, thing.keywords))
        elif isinstance(thing, CodeType):
            self._each("code", (thing.co_code, thing.co_names, thing.co_consts))
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, ModuleType):
            file = getattr(thing, "__file__", None)
            self._say("module", thing.__name__)
            if file is not None and _is_users(file) and Path(file).is_file():
                self._say(file_fingerprint(Path(file)))
        elif isinstance(thing, Path):
            self._say("path", thing.name)
        elif hasattr(type(thing), "__fingerprint__"):
            self._say(type(thing).__qualname__)
            self.add(thing.__fingerprint__())
        elif isinstance(thing, Mapping):
            self._each(type(thing).__qualname__, (part for item in thing.items() for part in item))
            self._attributes(thing)
        elif isinstance(thing, set | frozenset):
            self._each("set", sorted(map(fingerprint, thing)))
        elif isinstance(thing, list | tuple):
            self._each(type(thing).__qualname__, thing)
            self._attributes(thing)
        elif hasattr(thing, "__wrapped__"):  # compiled or cached functions
            self._each("wrapped", (thing.__wrapped__,))
        elif isinstance(thing, BuiltinFunctionType | np.ufunc):
            self._say("function", thing.__name__)
            owner = getattr(thing, "__self__", None)
            if not isinstance(owner, ModuleType):
                self.add(owner)
        else:
            self._object(thing)

    def _array(self, array: Any) -> None:
        self._say("array", array.dtype.str, str(array.shape))
        if array.dtype.hasobject:
            self._each("objects", array.ravel().tolist())
        else:
            self.digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        self._say("function", function.__qualname__.rpartition(".")[2])
        if _is_users(code.co_filename):
            is_alone = code.co_name != "<lambda>"  # the text of a lambda is its line, which may hold two
            self.add((_source(function) if is_alone else None) or code)
            known = function.__globals__
            self._each("globals", (part for name in _names(code) if name in known for part in (name, known[name])))
        else:
            self._say(str(function.__module__), function.__qualname__)
        self._each("defaults", (function.__defaults__, function.__kwdefaults__))
        self._each("closure", _enclosed(function))

    def _class(self, kind: type) -> None:
        self._say("class", kind.__qualname__)
        for base in kind.__mro__:
            if (source := _source(base)) is not None:
                self._say(source)
                members = (
                    getattr(member, "__func__", getattr(member, "fget", member)) for member in vars(base).values()
                )
                self._each("methods", (member for member in members if isinstance(member, FunctionType)))
                own = {name: member for name, member in vars(base).items() if not name.startswith(("__", "_abc_"))}
                self._each("members", (part for item in own.items() if not callable(item[1]) for part in item))
            else:
                self._say(base.__module__, base.__qualname__)

    def _object(self, thing: Any) -> None:
        self.add(type(thing))
        if isinstance(thing, _OPAQUE):
            return
        module = inspect.getmodule(type(thing))
        file = getattr(module, "__file__", None) or ""
        is_known = is_dataclass(thing) or not (type(thing).__module__ == "builtins" or _is_standard(file))
        if not (is_known and self._attributes(thing)):
            self._reduced(thing)

    def _attributes(self, thing: Any) -> bool:
        """Count in the attributes of an object, and tell whether it has any."""
        slots = (name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ()))
        named = {name: getattr(thing, name) for name in slots if isinstance(name, str) and hasattr(thing, name)}
        named |= getattr(thing, "__dict__", {})
        if named:
            self.add(named)
        return bool(named)

    def _reduced(self, thing: Any) -> None:
        """Count in what pickle would keep; locks, open files and sessions have nothing of the kind."""
        own = copyreg.dispatch_table.get(type(thing))
        parts = thing.__reduce_ex__(4) if own is None else own(thing)
        if isinstance(parts, tuple):
            self._each("reduced", (list(part) if isinstance(part, Iterator) else part for part in parts))
        else:
            self._say("reduced", str(parts))


def _is_array(thing: Any) -> bool:
    return not isinstance(thing, type) and hasattr(thing, "__array__") and hasattr(thing, "dtype")


def _is_users(file: str) -> bool:
    return not file.startswith(NOT_USERS)


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "site-packages" not in file


def _source(thing: Any) -> str | None:
    """The text of a function or class of the user's own; None where it is somebody else's, or there is none."""
    try:
        return inspect.getsource(thing) if _is_users(inspect.getfile(thing)) else None
    except Exception:  # typed at a prompt, made by exec, or in a file that is gone
        return None


def _names(code: CodeType) -> list[str]:
    """The global names that a function and those inside of it use."""
    inside = (const for const in code.co_consts if isinstance(const, CodeType))
    return sorted({*code.co_names, *(name for part in inside for name in _names(part))})


def _enclosed(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet set
            yield None
