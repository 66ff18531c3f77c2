"""Files that we write on this machine: complete or not at all, by one run at a time, never over somebody else's.

Single files are replaced atomically (`replacing`, `write`, `write_json`). A result folder grows in `OUT.partial/` and appears
by a rename (`OutFolder`); one that resumes keeps its finished pieces there (`Workspace`). What must come back bit by bit, such
as checkpoints and fitted estimators, is one `.npz` file of arrays with JSON beside them (`write_arrays`, `write_values`).
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from cesaro import __version__
from cesaro.errors import InputError
from cesaro.text import looks_like_address, shown_address, visible

ELSEWHERE = "choose another output folder (--out)"
_PIECE = "cesaro-piece/1"

Arrays = dict[str, NDArray[Any]]


def reject_address(name: str, path: str | os.PathLike[str]) -> None:
    """Refuse an address where a path is needed: what we write must lie on this machine."""
    text = os.fspath(path)
    if looks_like_address(text):
        shown = visible(shown_address(text))
        raise InputError(f"{name} must be a path on this machine. Got {shown}; write it here, and copy it there.")


# One file.


def temporary(file: Path) -> Path:
    """Where the content of a file grows until it is complete."""
    return file.with_name(f".{file.name}.tmp")


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes `file` at the end; a kill or a power cut leaves the old state or the new one."""
    beside = temporary(file)
    try:
        with beside.open("wb") as stream:
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


def move(finished: Path, file: Path) -> None:
    """Let a finished file appear under its name, with its content safely on the disk."""
    with finished.open("rb") as written:
        os.fsync(written.fileno())
    os.replace(finished, file)


@contextmanager
def chosen(path: Path) -> Iterator[None]:
    """Turn a failure to write the file that a caller chose into a sentence that names it."""
    try:
        yield
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror}); choose another path.") from error


# A folder.


@contextmanager
def locked(folder: Path, elsewhere: str = ELSEWHERE) -> Iterator[None]:
    """Lock a folder, where the system can, for one run at a time; the lock dies with the process, even on kill -9."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"Another run is at work in '{folder}'; wait for it or {elsewhere}.") from error
        except OSError:  # some network file systems have no locks
            pass
        yield
    finally:
        os.close(lock)


class OutFolder:
    """`OUT`: files go to `OUT.partial/`, and a rename to `OUT` ends the work.

    A kill at any moment leaves either no `OUT` or a complete one; one that was there stays until the new one is complete.

    Args:
        out: the folder that will hold the results; it must not exist unless `force`.
        force: replace an `OUT` that `refusal` has nothing against.

    Use it as a context manager. Result files go to `path`, under the names they will have in `OUT`.

    Raises:
        InputError: `OUT` is in the way or cannot be made, or `OUT.partial/` is in use or not ours.
    """

    def __init__(self, out: str | os.PathLike[str], *, force: bool = False) -> None:
        reject_address("out (--out)", out)
        self.out = Path(os.path.abspath(out))
        self.path = self.out.parent / f"{self.out.name}.partial"
        self.replaced = self.out.parent / f".{self.out.name}.replaced"
        self.force = force
        self._held = ExitStack()

    def refusal(self) -> str | None:
        """Why an existing `OUT` is not replaced even with --force; None: it is ours."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Check or set up `OUT.partial/`, which exists and is locked by now."""
        raise NotImplementedError

    def check(self) -> None:
        """Whether `OUT` can be written; nothing is changed."""
        parent = self.out.parent
        if not parent.is_dir():
            what = "is not a folder" if parent.exists() else "does not exist"
            raise InputError(f"The folder '{parent}', which would hold the results, {what}; create it or {ELSEWHERE}.")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"The folder '{parent}', which would hold the results, is not writable; {ELSEWHERE}.")
        if not os.path.lexists(self.out):
            return
        if self.out.is_symlink() or not self.out.is_dir():
            raise InputError(f"'{self.out}' exists and is not a folder; {ELSEWHERE}.")
        if not self.force:
            raise InputError(f"'{self.out}' exists; add --force to replace it, or {ELSEWHERE}.")
        if (reason := self.refusal()) is not None:
            raise InputError(f"'{self.out}' {reason}, so that --force leaves it alone; {ELSEWHERE}.")

    def __enter__(self) -> Self:
        self.check()
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"The folder '{self.path}' cannot be made ({error.strerror}); {ELSEWHERE}.") from error
        self._held.enter_context(locked(self.path))
        try:
            self.prepare()
        except OSError as error:
            self._held.close()
            raise InputError(f"The folder '{self.path}' cannot be used ({error.strerror}); {ELSEWHERE}.") from error
        except InputError:
            self._held.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()

    def rename(self) -> Path:
        """Make `OUT.partial/` the new `OUT`, and return `OUT`."""
        self.check()  # again: hours may have passed
        shutil.rmtree(self.replaced, ignore_errors=True)
        if self.out.exists():
            self.out.rename(self.replaced)
        self.path.rename(self.out)
        shutil.rmtree(self.replaced, ignore_errors=True)
        return self.out


class Workspace(OutFolder):
    """The folder of one study, which resumes.

    Work is kept as named pieces, each a few arrays. The same settings find the pieces of an interrupted run again;
    other settings are refused. A kill at any moment leaves either no piece or a whole one.

    Args:
        out: the folder that will hold the results; it must not exist unless `force`.
        settings: everything that the results depend on, as JSON values.
        force: replace an `OUT` that a study wrote.
    """

    def __init__(self, out: str | os.PathLike[str], settings: Mapping[str, Any], *, force: bool = False) -> None:
        super().__init__(out, force=force)
        # Through JSON once, so that what is compared is what would be read back; the version, because other code
        # may compute other pieces.
        self.settings: dict[str, Any] = json.loads(json.dumps({**settings, "cesaro": __version__}))

    def refusal(self) -> str | None:
        return None if _is_study(self.out) else "was not written by a study"

    def prepare(self) -> None:
        self._check_settings()
        self._pieces.mkdir(exist_ok=True)

    def load(self, name: str) -> Arrays | None:
        """The piece of that name, or `None` if it is yet to be computed (or the disk has spoiled it)."""
        try:
            return read_arrays(self._pieces / f"{name}.npz", _PIECE)[1]
        except InputError:
            return None

    def store(self, name: str, piece: Arrays) -> None:
        """Keep a piece, whole or not at all."""
        write_arrays(self._pieces / f"{name}.npz", {"schema": _PIECE}, piece)

    def finish(self, manifest: Mapping[str, Any]) -> Path:
        """Add `manifest.json`, rename the folder to `OUT` and return `OUT`."""
        self.check()
        write_json(self.path / "manifest.json", manifest)
        self.rename()
        shutil.rmtree(self.out / "pieces")
        (self.out / "settings.json").unlink()
        return self.out

    @property
    def _pieces(self) -> Path:
        return self.path / "pieces"

    def _check_settings(self) -> None:
        file = self.path / "settings.json"
        if not file.exists():
            # A kill between the first two steps leaves an empty folder or a half-written temporary file.
            if any(entry.name != temporary(file).name for entry in self.path.iterdir()):
                raise InputError(
                    f"'{self.path}' holds no settings.json, so that nothing tells which study its files belong to; "
                    f"delete that folder or {ELSEWHERE}."
                )
            write_json(file, self.settings)
            return
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise InputError(
                f"'{file}' is not readable JSON, so that nothing tells which study its pieces belong to; "
                f"delete the folder '{self.path}' or {ELSEWHERE}."
            )
        differences = [
            f"{key} is {stored.get(key, 'unset')} there and {self.settings.get(key, 'unset')} here"
            for key in sorted(stored.keys() | self.settings.keys())
            if stored.get(key) != self.settings.get(key)
        ]
        if differences:
            raise InputError(
                f"'{self.path}' holds unfinished work with other settings ({'; '.join(differences)}); "
                f"repeat that command to resume it, delete that folder to start afresh, or {ELSEWHERE}."
            )


def _is_study(folder: Path) -> bool:
    with suppress(OSError, ValueError):
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return isinstance(found, dict) and str(found.get("schema", "")).startswith("cesaro-study/")
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
    """The metadata of such a file alone; its arrays stay where they are."""
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
            meta = dict(json.loads(str(stored["meta"])))
            found = arrays(stored)
    except FileNotFoundError:
        raise InputError(f"'{path}' does not exist.") from None
    except MemoryError:
        raise
    except Exception as error:  # whatever is wrong with a file that should be an archive
        raise InputError(
            f"'{path}' is not a file of this package ({type(error).__name__}); it may be damaged."
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
    """What `write_values` was given; `make` turns descriptions into objects again, and `remedy` is for a damaged file."""
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
    """What `_packed` was given."""

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
