"""A result folder that appears complete or not at all."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cesaro.errors import InputError

ELSEWHERE = "choose another output folder (--out)"


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
        from cesaro.data.addresses import reject_address

        reject_address("out (--out)", out)
        self.out = Path(os.path.abspath(out))
        self.path = self.out.parent / f"{self.out.name}.partial"
        self.replaced = self.out.parent / f".{self.out.name}.replaced"
        self.force = force
        self._lock: int | None = None

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
        self._acquire()
        try:
            self.prepare()
        except OSError as error:
            self._release()
            raise InputError(f"The folder '{self.path}' cannot be used ({error.strerror}); {ELSEWHERE}.") from error
        except InputError:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release()

    def rename(self) -> Path:
        """Make `OUT.partial/` the new `OUT`, and return `OUT`."""
        self.check()  # again: hours may have passed
        shutil.rmtree(self.replaced, ignore_errors=True)
        if self.out.exists():
            self.out.rename(self.replaced)
        self.path.rename(self.out)
        shutil.rmtree(self.replaced, ignore_errors=True)
        return self.out

    def _acquire(self) -> None:
        """Lock the folder, where the system can; the lock dies with the process, even on kill -9."""
        try:
            import fcntl
        except ImportError:  # Windows
            return
        self._lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._release()
            raise InputError(f"Another run is at work in '{self.path}'; wait for it or {ELSEWHERE}.") from error
        except OSError:  # some network file systems have no locks
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def temporary(file: Path) -> Path:
    return file.with_name(f".{file.name}.tmp")


def write(file: Path, data: bytes) -> None:
    """Write a file so that a kill or a power cut leaves the old state or the new one, nothing between."""
    beside = temporary(file)
    with beside.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(beside, file)


def write_json(file: Path, data: Mapping[str, Any]) -> None:
    # What UTF-8 cannot hold, such as undecodable bytes of a file's name, is a valid escape of JSON as well.
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write(file, text.encode(errors="backslashreplace"))
