"""Result folders: they grow in `OUT.partial/` and appear by a rename, and what others put there is never touched.

Every folder of ours has a ledger, `.cesaro`. It names each file before that file is made, so that a kill at any moment leaves
nothing unknown. Only regular files that a ledger names are removed or replaced; anything else in the way is an error that
names it, and links are never followed. A result that is a single file appears from a folder `OUT.partial/` in the same way.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cesaro import __version__, documents
from cesaro.errors import InputError
from cesaro.files import (
    Arrays,
    kind,
    locked,
    owner,
    read_arrays,
    reject_address,
    reject_long,
    reject_other,
    write,
    write_arrays,
    write_json,
)

LEDGER = ".cesaro"
_LOCK = ".cesaro.lock"
_SCHEMA = "cesaro-folder/1"
_PIECE = "cesaro-piece/1"
# What a line of a ledger says of the file that it names: a result, or progress that goes when the results are complete.
_RESULT, _PROGRESS = "result", "progress"
# What belongs to the folder itself, and to a file that is being written.
_OWN, _BESIDE = "own", "beside"


class Ledger:
    """The names of our files in a folder, a line of text each, written before the file is made; folders end in a slash.

    Attributes:
        writer: what wrote the folder, such as "study".
        names: by relative name whether it is a result or progress.
        notes: what else was written down, in order: a word and its value.
    """

    def __init__(self, folder: Path, writer: str) -> None:
        self.folder, self.writer = folder, writer
        self.names: dict[str, str] = {}
        self.notes: list[tuple[str, str]] = []

    @classmethod
    def read(cls, folder: Path) -> "Ledger | None":
        """The ledger of a folder; None where it has none, or one that ends before its first line does."""
        head, *lines = _text(folder).split("\n")
        schema, _, writer = head.partition(" ")
        if schema != _SCHEMA or not lines:
            return None
        found = cls(folder, writer)
        for line in lines[:-1]:  # a kill may have cut the last one
            found._take(*line.split(" ", 1))
        return found

    @classmethod
    def opened(cls, folder: Path, writer: str) -> "Ledger":
        """The ledger of a folder that we hold, begun if need be, and without a line that a kill has cut."""
        text = _text(folder)
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            os.truncate(folder / LEDGER, len(_encoded(whole)))
        found = cls.read(folder)
        if found is None:
            found = cls(folder, writer)
            found._append(found._head)
        return found

    @property
    def _head(self) -> str:
        return f"{_SCHEMA} {self.writer}\n"

    def is_begun(self) -> bool:
        """Whether the folder has no ledger, or one of whose first line a kill has left a part."""
        return self._head.startswith(_text(self.folder))

    def adopt(self, names: Iterable[str]) -> None:
        """Write the ledger of a folder that has none, whole or not at all."""
        write(self.folder / LEDGER, _encoded("".join([self._head, *(f"{_RESULT} {name}\n" for name in names)])))

    def add(self, word: str, *values: str) -> None:
        """Write down names, or a note, that are not there yet."""
        new = [value for value in dict.fromkeys(values) if self.names.get(value) != word]
        if any("\n" in value for value in new):
            raise ValueError(f"A name of ours has a line break: {new!r}")
        if new:
            self._append("".join(f"{word} {value}\n" for value in new))
            for value in new:
                self._take(word, value)

    def _append(self, text: str) -> None:
        # Without fsync: after a power cut a file may be unknown, which is an error that names it, and no loss.
        handle = os.open(
            self.folder / LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666
        )
        with open(handle, "wb") as stream:
            stream.write(_encoded(text))

    def _take(self, word: str, value: str = "") -> None:
        if word in (_RESULT, _PROGRESS):
            self.names[value] = word
        else:
            self.notes.append((word, value))


def _text(folder: Path) -> str:
    file = folder / LEDGER
    return file.read_bytes().decode(errors="surrogateescape") if kind(file) == "a file" else ""


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _entries(folder: Path, names: Mapping[str, str], inside: str = "") -> Iterator[tuple[str, str | None]]:
    """Everything in a folder of ours, by relative name, with what it is there; None: not ours. A folder's content comes first."""
    with os.scandir(folder / inside) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name, what = inside + entry.name, None
        if entry.is_dir(follow_symlinks=False):
            what = names.get(f"{name}/")
            if what is not None:
                yield from _entries(folder, names, f"{name}/")
        elif entry.is_file(follow_symlinks=False):
            what = names.get(name)
            if not inside and name in (LEDGER, _LOCK):
                what = _OWN
            elif what is None and (of := owner(entry.name)) is not None and (inside + of in names or of == LEDGER):
                what = _BESIDE
        yield name, what


def _foreign(folder: Path, names: Mapping[str, str]) -> str | None:
    """A name in the folder that is not ours, or not what we would have made of it."""
    return next((name for name, what in _entries(folder, names) if what is None), None)


def _remove(folder: Path, names: Mapping[str, str], *which: str) -> None:
    """Remove some of our files, and our folders that are empty then."""
    for name, what in list(_entries(folder, names)):
        if what in which:
            path = folder / name
            if f"{name}/" not in names:
                path.unlink()
            elif not os.listdir(path):
                path.rmdir()


def _dissolve(folder: Path) -> None:
    """Remove a folder of ours, unless there is anything else in it: the ledger last, so that a kill leaves nothing unknown."""
    ledger = Ledger.read(folder)
    names = {} if ledger is None else ledger.names
    if _foreign(folder, names) is None:
        _remove(folder, names, _RESULT, _PROGRESS, _BESIDE)
        for name in (LEDGER, _LOCK):
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


class OutFolder:
    """`OUT`: files go to `OUT.partial/`, and a rename to `OUT` ends the work.

    A kill at any moment leaves either no `OUT` or a complete one; one that was there stays until the new one is complete.
    The folder is held from the beginning: a second run is refused at once.

    Args:
        out: what will hold the results; it must not exist unless `force`.
        force: replace an `OUT` of the same kind.

    Use it as a context manager. `file` gives the place of a file, under the name that it will have in `OUT`.

    Raises:
        InputError: `OUT` is in the way or cannot be made, or `OUT.partial/` is in use or not ours.
    """

    # What the ledger says of who wrote the folder, and what a sentence says.
    WRITER = ""
    WRITTEN_BY = ""
    # The ending of `OUT`, where it is a single file and no folder.
    ENDING = ""

    def __init__(self, out: str | os.PathLike[str], *, force: bool = False) -> None:
        reject_address("out (--out)", out)
        self.out = Path(os.path.abspath(out))
        self.path = self.out.parent / f"{self.out.name}.partial"
        self.force = force
        self._elsewhere = f"choose another {'file' if self.ENDING else 'output folder'} (--out)"
        self._ledger: Ledger | None = None
        self._is_complete = False
        self._process = os.getpid()
        self._held = ExitStack()

    def unmarked(self) -> set[str] | None:
        """Names that are ours in an `OUT` without a ledger, as version 0.1 left it; None: it is not ours."""
        return None

    def is_ours(self) -> bool:
        """Whether an `OUT` that is a single file was written by us."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Check or set up `OUT.partial/`, which is held by now and has no results in it."""

    def check(self) -> None:
        """Whether `OUT` can be written; nothing is changed."""
        self._check_place()
        found = kind(self.out)
        if found is None:
            return
        wanted = "a file" if self.ENDING else "a folder"
        if found != wanted:
            raise InputError(f"'{self.out}' exists and is {found}, not {wanted}; {self._elsewhere}.")
        if not self.force:
            raise InputError(f"'{self.out}' exists; add --force to replace it, or {self._elsewhere}.")
        if (reason := self._refusal()) is not None:
            raise InputError(f"'{self.out}' {reason}, so that --force leaves it alone; {self._elsewhere}.")

    def _check_place(self) -> None:
        if self.out.suffix != self.ENDING and self.ENDING:
            raise InputError(f"out must end in {self.ENDING}. Got {self.out.name!r}.")
        parent = self.out.parent
        reject_long("out (--out)", self.out, "..00000000.replaced")
        if not os.path.isdir(parent):
            what = "is not a folder" if os.path.lexists(parent) else "does not exist"
            raise InputError(
                f"The folder '{parent}', which would hold the results, {what}; create it or {self._elsewhere}."
            )
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(
                f"The folder '{parent}', which would hold the results, is not writable; {self._elsewhere}."
            )

    def _refusal(self) -> str | None:
        """Why an existing `OUT` is not replaced even with --force; None: it is ours."""
        if self.ENDING:
            return None if self.is_ours() else f"was not written by {self.WRITTEN_BY}"
        names = self._names_in_out()
        if names is None:
            return f"was not written by {self.WRITTEN_BY}"
        other = _foreign(self.out, names)
        return None if other is None else f"also holds '{other}', which {self.WRITTEN_BY} did not write"

    def _names_in_out(self) -> Mapping[str, str] | None:
        ledger = Ledger.read(self.out)
        if ledger is not None:
            return ledger.names if ledger.writer == self.WRITER else None
        names = self.unmarked() if Ledger(self.out, self.WRITER).is_begun() else None
        return None if names is None else dict.fromkeys(names, _RESULT)

    def __enter__(self) -> Self:
        self._tidy_up_after_a_kill()
        self.check()
        try:
            self._hold()
            self._begin()
            self.check()  # again: another run may have ended meanwhile, or a kill may have left an `OUT` to put back
            self.prepare()
        except BaseException as error:
            self._give_up()
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise InputError(f"The folder '{self.path}' cannot be used ({reason}); {self._elsewhere}.") from error
            raise
        return self

    def _hold(self) -> None:
        """Make `OUT.partial/` if need be, and hold it."""
        while True:
            if kind(self.path) not in (None, "a folder"):
                raise InputError(
                    f"'{self.path}' is {kind(self.path)} and in the way; move it away, or {self._elsewhere}."
                )
            try:
                self.path.mkdir(exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"The folder '{self.path}' cannot be made ({error.strerror}); {self._elsewhere}."
                ) from error
            with suppress(FileNotFoundError):  # another run has just removed it
                self._held.enter_context(locked(self.path / _LOCK, f"in '{self.path}'", self._elsewhere))
                return

    def _begin(self) -> None:
        """Take over what an interrupted run has left: its progress stays, and its half-written results go."""
        ledger = Ledger.read(self.path)
        names = {} if ledger is None else ledger.names
        other = _foreign(self.path, names)
        if ledger is None and other is None and not Ledger(self.path, self.WRITER).is_begun():
            other = LEDGER
        if other is not None:
            raise InputError(
                f"'{self.path}' holds '{other}' and is in the way, because no run of ours wrote that; move it elsewhere, "
                f"or {self._elsewhere}."
            )
        if ledger is not None and ledger.writer != self.WRITER:
            raise InputError(
                f"'{self.path}' holds unfinished work of another kind ({ledger.writer}); repeat that command to finish it, "
                f"delete that folder, or {self._elsewhere}."
            )
        self._ledger = Ledger.opened(self.path, self.WRITER)
        _remove(self.path, names, _RESULT, _BESIDE)
        self._put_back()

    def file(self, name: str, *, progress: bool = False) -> Path:
        """The place of a file of ours in `OUT.partial/`, whose name is noted before anything is there.

        Args:
            name: relative to `OUT`.
            progress: the file stays for the next run after an interruption, and goes when the results are complete.
        """
        return self.files([name], progress=progress)[0]

    def files(self, names: list[str], *, progress: bool = False) -> list[Path]:
        """The places of several files."""
        assert self._ledger is not None, "the folder has not been entered"
        folders = list(dict.fromkeys(f"{parent}/" for name in names if (parent := os.path.dirname(name))))
        self._ledger.add(_PROGRESS if progress else _RESULT, *folders, *names)
        for folder in folders:
            if kind(self.path / folder.rstrip("/")) != "a folder":
                (self.path / folder).mkdir()
        places = [self.path / name for name in names]
        for place in places:
            reject_other(place)
        return places

    def rename(self) -> Path:
        """Make `OUT.partial/` the new `OUT`, and return `OUT`."""
        assert self._ledger is not None, "the folder has not been entered"
        self.check()  # again: hours may have passed
        if (names := self._names_in_out() if self.out.exists() else None) is not None:
            suffix = secrets.token_hex(4)
            self._ledger.add("replaced", suffix)
            if Ledger.read(self.out) is None:  # as 0.1 left it
                Ledger(self.out, self.WRITER).adopt(names)
            self.out.rename(self._replaced(suffix))
        self.path.rename(self.out)
        self._is_complete = True
        with suppress(OSError):  # the next run would do it
            self._tidy_up()
        return self.out

    def appear(self, file: Path) -> None:
        """Let a finished file of `OUT.partial/` be `OUT`, with its content safely on the disk."""
        assert self._ledger is not None, "the folder has not been entered"
        self.check()  # again: hours may have passed
        with file.open("rb") as written:
            os.fsync(written.fileno())
        self._ledger.add("moved", _identity(file))
        os.replace(file, self.out)
        self._is_complete = True
        with suppress(OSError):  # the next run would do it
            self._tidy_up()

    def __exit__(
        self, failure: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._give_up()

    def _give_up(self) -> None:
        """Leave progress for the next run, or nothing."""
        if os.getpid() != self._process:  # a policy may fork, and its child end here
            return
        with self._held, suppress(OSError):
            if self._ledger is not None and not self._is_complete:
                self._put_back()
                _remove(self.path, self._ledger.names, _RESULT, _BESIDE)
                if not self.has_progress():
                    _dissolve(self.path)
        if not self._is_complete:
            with suppress(OSError):
                self.path.rmdir()  # if it is empty

    def has_progress(self) -> bool:
        """Whether `OUT.partial/` holds anything that the next run would go on from."""
        names = {} if self._ledger is None else self._ledger.names
        return any(what == _PROGRESS and f"{name}/" not in names for name, what in _entries(self.path, names))

    def _replaced(self, suffix: str) -> Path:
        """Where an older `OUT` is between the two renames, and until it is removed."""
        return self.out.parent / f".{self.out.name}.{suffix}.replaced"

    def _put_back(self) -> None:
        """Put the older `OUT` back after a kill or an error between the two renames."""
        assert self._ledger is not None
        for word, suffix in self._ledger.notes:
            if word == "replaced" and kind(self.out) is None and kind(self._replaced(suffix)) == "a folder":
                self._replaced(suffix).rename(self.out)

    def _tidy_up(self) -> None:
        """Remove what a complete `OUT` no longer needs: its progress, and the `OUT` before it."""
        if self.ENDING:
            _dissolve(self.path)
            return
        ledger = Ledger.read(self.out)
        assert ledger is not None
        for word, suffix in ledger.notes:
            if word == "replaced" and kind(self._replaced(suffix)) == "a folder":
                _dissolve(self._replaced(suffix))
        _remove(self.out, ledger.names, _PROGRESS, _BESIDE)
        (self.out / _LOCK).unlink(missing_ok=True)  # last: as long as it is there, there may be more to remove

    def _tidy_up_after_a_kill(self) -> None:
        """Tidy up where a kill came after `OUT` was complete."""
        folder = self.path if self.ENDING else self.out
        with suppress(OSError, InputError):
            ledger = Ledger.read(folder)
            is_ours = ledger is not None and ledger.writer == self.WRITER
            if self.ENDING:
                moved = ("moved", _identity(self.out))
                is_due = set(os.listdir(folder)) <= {_LOCK} if ledger is None else is_ours and moved in ledger.notes
            else:
                is_due = is_ours and kind(folder / _LOCK) is not None
            if is_due:
                with locked(folder / _LOCK, f"in '{folder}'", self._elsewhere):
                    self._tidy_up()


def _identity(file: Path) -> str:
    """The number and the time of a file, which it keeps when it is moved."""
    about = file.lstat()
    return f"{about.st_ino} {about.st_mtime_ns}"


class Workspace(OutFolder):
    """A folder whose work resumes.

    Work is kept as named pieces, each a few arrays. The same settings find the pieces of an interrupted run again;
    other settings are refused. A kill at any moment leaves either no piece or a whole one.

    Args:
        out: what will hold the results; it must not exist unless `force`.
        settings: everything that the results depend on, as JSON values; None: `resume` is told later.
        force: replace an `OUT` of the same kind.
    """

    def __init__(
        self, out: str | os.PathLike[str], settings: Mapping[str, Any] | None = None, *, force: bool = False
    ) -> None:
        super().__init__(out, force=force)
        self._settings = settings

    def prepare(self) -> None:
        if self._settings is not None:
            self.resume(self._settings)

    def load(self, name: str) -> Arrays | None:
        """The piece of that name, or `None` if it is yet to be computed (or the disk has spoiled it)."""
        try:
            return read_arrays(self.path / _piece(name), _PIECE)[1]
        except InputError:
            return None

    def store(self, name: str, piece: Arrays) -> None:
        """Keep a piece, whole or not at all."""
        write_arrays(self.file(_piece(name), progress=True), {"schema": _PIECE}, piece)

    def has_progress(self) -> bool:
        pieces = self.path / "pieces"
        return pieces.is_dir() and bool(os.listdir(pieces))

    def resume(self, settings: Mapping[str, Any]) -> None:
        """Go on with the pieces of a run with these settings, if there are any; refuse those of another."""
        # Through JSON once, so that what is compared is what would be read back; the version, because other code
        # may compute other pieces.
        wanted: dict[str, Any] = documents.parse(json.dumps({**settings, "cesaro": __version__}))
        file = self.file("settings.json", progress=True)
        if not self.has_progress():
            write_json(file, wanted)
            return
        if not file.exists():
            raise InputError(
                f"'{self.path}' holds no settings.json, so that nothing tells which run its pieces belong to; "
                f"delete that folder or {self._elsewhere}."
            )
        try:
            stored = documents.read(file)
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise InputError(
                f"'{file}' is not readable JSON, so that nothing tells which run its pieces belong to; "
                f"delete the folder '{self.path}' or {self._elsewhere}."
            )
        differences = [
            f"{key} is {stored.get(key, 'unset')} there and {wanted.get(key, 'unset')} here"
            for key in sorted(stored.keys() | wanted.keys())
            if stored.get(key) != wanted.get(key)
        ]
        if differences:
            raise InputError(
                f"'{self.path}' holds unfinished work with other settings ({'; '.join(differences)}); "
                f"repeat that command to resume it, delete that folder to start afresh, or {self._elsewhere}."
            )


def _piece(name: str) -> str:
    return f"pieces/{name}.npz"
