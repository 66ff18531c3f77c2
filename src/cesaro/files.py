"""Files that we write on this machine: complete or not at all, by one run at a time, never over somebody else's.

Single files are replaced atomically (`replacing`, `write`, `write_json`), and held by one run at a time where they are written
again and again (`holding`); folders are in `folders.py`. What must come back bit by bit, such as checkpoints and fitted
estimators, is one `.npz` file of arrays with JSON beside them (`write_arrays`, `write_values`).
"""

import json
import os
import re
import secrets
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cesaro import documents
from cesaro.errors import InputError, is_out_of_memory
from cesaro.text import looks_like_address, nearest, shown_address, visible

Arrays = dict[str, NDArray[Any]]

AFRESH = "delete that file to start afresh"  # the remedy for a checkpoint that cannot be used

_LOCK = "cesaro-lock/1"
# What stands beside a file of ours while it is written: its next content, and who holds it.
_BESIDE = re.compile(r"\.(.+)\.(?:[0-9a-f]{8}\.tmp|lock)", re.DOTALL)
_NO_LINKS: int = getattr(os, "O_NOFOLLOW", 0)
# Bytes of a name that most file systems take.
_NAME_BYTES = 255
# Names of a folder that are compared with one that is not there.
_MOST_NAMES = 10_000


def reject_address(name: str, path: str | os.PathLike[str]) -> None:
    """Refuse an address where a path is needed: what we write must lie on this machine."""
    text = os.fspath(path)
    if looks_like_address(text):
        shown = visible(shown_address(text))
        raise InputError(f"{name} must be a path on this machine. Got {shown}; write it here, and copy it there.")


def not_there(path: Path, remedy: str = "check the path.") -> str:
    """A remedy for a path that leads nowhere: take the name beside it that was probably meant, or the given remedy."""
    try:
        beside = os.listdir(path.parent)[:_MOST_NAMES]
    except (OSError, ValueError):
        beside = []
    names = {Path(name).stem: name for name in sorted(beside) if name != path.name}
    close = nearest(path.stem, names)
    return remedy if close is None else f"did you mean {visible(str(path.with_name(names[close])))!r}?"


def kind(path: Path) -> str | None:
    """The kind of thing at a path, in words, without following links; None: nothing is there."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be looked at ({error}); choose another path.") from error
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link"}
    return kinds.get(stat.S_IFMT(mode), "neither a file nor a folder")


def reject_other(path: Path, remedy: str = "remove it, or choose another path") -> None:
    """Refuse a place where something other than a regular file is; links are neither followed nor replaced."""
    if (found := kind(path)) not in (None, "a file"):
        raise InputError(f"'{path}' must be a file, or nothing yet. Got {found}; {remedy}.")


def reject_long(name: str, path: Path, beside: str) -> None:
    """Refuse a name that leaves no room for the longest one beside it, which has `beside` in addition."""
    room = _NAME_BYTES
    with suppress(OSError, ValueError, AttributeError):
        room = os.pathconf(path.parent, "PC_NAME_MAX")
    most, own = room - len(beside), len(os.fsencode(path.name))
    if own > most:
        raise InputError(
            f"{name} must have a name of at most {most} bytes, because files with longer ones lie beside it while it is "
            f"written. Got {own} bytes ('{path.name[:20]}…'); choose a shorter one."
        )


# One file.


def temporary(file: Path) -> Path:
    """Where the content of a file grows until it is complete; a name that nobody else has."""
    suffix = _HELD.get().get(os.path.abspath(file)) or secrets.token_hex(4)
    return file.with_name(f".{file.name}.{suffix}.tmp")


def owner(name: str) -> str | None:
    """The name of the file that a temporary or a lock of this name belongs to; None: it is neither."""
    found = _BESIDE.fullmatch(name)
    return None if found is None else found[1]


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes `file` at the end; a kill or a power cut leaves the old state or the new one."""
    reject_other(file)
    beside = temporary(file)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINKS, 0o666)
    try:
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def write(file: Path, data: bytes) -> None:
    """Write a whole file."""
    with replacing(file) as stream:
        stream.write(data)


def write_json(file: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON document."""
    # What UTF-8 cannot hold, such as undecodable bytes of a file's name, is a valid escape of JSON as well.
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write(file, text.encode(errors="backslashreplace"))


@contextmanager
def chosen(path: Path) -> Iterator[None]:
    """Turn a failure to write the file that a caller chose into a sentence that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror}); choose another path.") from error


# One run at a time.

# Files that this context holds, and the suffix of their temporary names.
_HELD: ContextVar[Mapping[str, str]] = ContextVar("held", default={})  # noqa: B039 # never changed in place


@contextmanager
def holding(file: str | os.PathLike[str] | None, name: str = "checkpoint (--checkpoint)") -> Iterator[None]:
    """Hold a file that is written again and again, such as a checkpoint; whoever holds it already goes on.

    `.NAME.lock` beside it says who holds it, and under which name the next content grows, so that a kill leaves nothing that the
    next run does not know.

    Args:
        file: None: there is no file to hold.
        name: of the argument that names the file.
    """
    if file is not None:
        reject_address(name, file)
    path = None if file is None else os.path.abspath(file)
    if path is None or path in _HELD.get():
        yield
        return
    place = Path(path)
    reject_long(name, place, "..00000000.tmp")
    reject_other(place)
    lock = place.with_name(f".{place.name}.lock")
    with ExitStack() as stack:
        with chosen(place):
            earlier, suffix = stack.enter_context(locked(lock, f"with '{place}'", "choose another file"))
            if earlier is not None and kind(stale := place.with_name(f".{place.name}.{earlier}.tmp")) == "a file":
                stale.unlink()
        token = _HELD.set({**_HELD.get(), path: suffix})
        try:
            yield
        finally:
            _HELD.reset(token)


@contextmanager
def locked(lock: Path, where: str, elsewhere: str) -> Iterator[tuple[str | None, str]]:
    """Lock a file that says who holds it, where the system can; the lock dies with the process, even on kill -9.

    Args:
        lock: the file; it is made, and removed at the end. One that a kill has left does no harm: the system knows who holds it.
        where: what the other run is at work with, for the sentence that refuses this one.
        elsewhere: what to do instead of waiting.

    Yields:
        A suffix that the last holder had for temporary names, None where it left nothing behind, and one for this run.
    """
    handle, process = _taken(lock, where, elsewhere), os.getpid()
    try:
        earlier, suffix = _words(handle), secrets.token_hex(4)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        os.truncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, f"{_LOCK} {os.getpid()} {socket.gethostname()} {now} {suffix}\n".encode())
        yield earlier[4] if len(earlier) == 5 and re.fullmatch("[0-9a-f]{8}", earlier[4]) else None, suffix
    finally:
        with suppress(OSError):
            if process == os.getpid() and _is_at(handle, lock):  # not in a child that a policy has forked
                lock.unlink()
        os.close(handle)


def _taken(lock: Path, where: str, elsewhere: str) -> int:
    """The file, open and locked."""
    while True:
        reject_other(lock)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | _NO_LINKS, 0o666)
        try:
            words = _words(handle)
            if words and words[0] != _LOCK:
                raise InputError(f"'{lock}' is in the way, and no run of ours wrote it; move it away, or {elsewhere}.")
            try:
                _lock(handle)
            except BlockingIOError as error:
                who = f" (process {words[1]} on {words[2]}, since {words[3]})" if len(words) == 5 else ""
                raise InputError(f"Another run is at work {where}{who}; wait for it or {elsewhere}.") from error
            except OSError:  # some network file systems have no locks
                return handle
            if _is_at(handle, lock):  # else its holder has just removed it
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _words(handle: int) -> list[str]:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 1000).decode(errors="replace").split()


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


# Values that come back bit by bit.


def write_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and JSON metadata, of which "schema" says what they are, as one `.npz` file without pickle."""
    with replacing(path) as stream:
        np.savez(stream, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type] # the stubs know one keyword


def read_arrays(path: Path, schema: str) -> tuple[dict[str, Any], Arrays]:
    """The metadata and arrays of a file that `write_arrays` made with this schema."""
    return _read(path, schema, lambda stored: {name: stored[name] for name in stored.files if name != "meta"})


def read_metadata(path: Path, schema: str) -> dict[str, Any]:
    """The metadata alone of a file that `write_arrays` made; its arrays stay where they are."""
    return _read(path, schema, lambda stored: {})[0]


def reject_older(path: Path, schema: str, remedy: str) -> None:
    """Refuse a file of an older version, by its schema; whatever else is wrong with a file is said when it is read."""
    try:
        read_metadata(path, schema)
    except InputError:
        return
    raise InputError(f"'{path}' was made by an older version; {remedy}.")


def _read(path: Path, schema: str, arrays: Callable[[Any], Arrays]) -> tuple[dict[str, Any], Arrays]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            meta = dict(documents.parse(str(stored["meta"])))
            found = arrays(stored)
    except FileNotFoundError:
        raise InputError(f"'{path}' does not exist.") from None
    except Exception as error:  # whatever is wrong with a file that should be an archive
        if is_out_of_memory(error):
            raise MemoryError(f"'{path}': {error}") from None
        raise InputError(
            f"'{path}' is not a file of this package ({type(error).__name__}), or it is damaged; choose another one, or "
            "delete it."
        ) from None
    if meta.get("schema") != schema:
        raise InputError(f"'{path}' holds {meta.get('schema')!r}, not {schema!r}.")
    return meta, found


def write_values(
    path: Path, schema: str, values: Mapping[str, Any], describe: Callable[[Any], dict[str, Any] | None] | None = None
) -> None:
    """Write named values, nested as one likes, as one `.npz` file.

    Args:
        values: numbers, texts, arrays, and lists, tuples and dicts of these.
        describe: an object of a class of one's own as a dict that `read_values` gives to its `make`; None: refuse it.
    """
    arrays: Arrays = {}
    meta = {name: _packed(value, arrays, describe) for name, value in values.items()}
    with chosen(path):
        write_arrays(path, {"schema": schema, **meta}, arrays)


def read_values(
    path: Path, schema: str, make: Callable[[dict[str, Any]], Any] | None = None, remedy: str = "write it again"
) -> dict[str, Any]:
    """Read what `write_values` was given; `make` turns descriptions into objects again, and `remedy` is for a damaged file."""
    meta, arrays = read_arrays(path, schema)
    try:
        return {name: _unpacked(value, arrays, make) for name, value in meta.items() if name != "schema"}
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(f"'{path}' is damaged ({type(error).__name__}: {error}); {remedy}.") from None


def _packed(value: Any, arrays: Arrays, describe: Callable[[Any], dict[str, Any] | None] | None) -> Any:
    """The value as plain JSON; arrays go to `arrays` and leave their name."""

    def each(parts: Any) -> list[Any]:
        return [_packed(part, arrays, describe) for part in parts]

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays, describe)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"labels": each(value.tolist())}
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": each(value)}
    if isinstance(value, list):
        return {"list": each(value)}
    if isinstance(value, dict):
        return {"dict": [[key, _packed(part, arrays, describe)] for key, part in value.items()]}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    described = None if describe is None else describe(value)
    if described is None:
        raise InputError(f"A {type(value).__name__} cannot be written without pickle; keep plain data instead.")
    return {key: _packed(part, arrays, describe) for key, part in described.items()}


def _unpacked(value: Any, arrays: Arrays, make: Callable[[dict[str, Any]], Any] | None) -> Any:
    """Undo `_packed`."""

    def each(parts: Any) -> list[Any]:
        return [_unpacked(part, arrays, make) for part in parts]

    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "array" in value:
        return arrays[value["array"]]
    if "labels" in value:
        labels = np.empty(len(value["labels"]), dtype=object)
        labels[:] = each(value["labels"])
        return labels
    if "tuple" in value:
        return tuple(each(value["tuple"]))
    if "list" in value:
        return each(value["list"])
    if "dict" in value:
        return {key: _unpacked(part, arrays, make) for key, part in value["dict"]}
    if make is None:
        raise ValueError(f"an object {sorted(value)}")
    return make({key: _unpacked(part, arrays, make) for key, part in value.items()})


def plain(value: Any) -> Any:
    """Plain JSON values; what is not finite is None."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
