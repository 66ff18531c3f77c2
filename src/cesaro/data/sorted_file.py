"""The file that a sorted log goes to, which appears complete or not at all."""

import fnmatch
import glob
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from types import TracebackType

from cesaro.data.addresses import place
from cesaro.errors import InputError
from cesaro.files import OutFolder, move
from cesaro.text import is_address


class SortedFile(OutFolder):
    """The result, and `OUT.partial/` with the parts, which go with the work, whatever its end.

    Args:
        log: as it was given.
        files: where those of its files lie that are on this machine.
    """

    def __init__(self, out: str | os.PathLike[str], log: str, files: Sequence[str], *, force: bool) -> None:
        super().__init__(out, force=force)
        if is_address(log):
            found = place(log) if log.lower().startswith("file:") else None
            log = "" if found is None else os.path.join(found.path, found.pattern)
        self._log, self._files = log, files

    def check(self) -> None:
        parent = self.out.parent
        if self.out.suffix != ".parquet":
            raise InputError(f"out must end in .parquet. Got {self.out.name!r}.")
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(
                f"'{parent}', which would hold the sorted log, is no folder one can write to; create it or mend that."
            )
        if self._is_part():
            raise InputError(f"'{self.out}' must not be part of the log that is sorted; choose another file (--out).")
        if not os.path.lexists(self.out):
            return
        if not self.force:
            raise InputError(f"'{self.out}' exists; add --force to replace it, or choose another file (--out).")
        if not _is_parquet(self.out):
            raise InputError(
                f"'{self.out}' is no Parquet file, so that --force leaves it alone; choose another file (--out)."
            )

    def _is_part(self) -> bool:
        """Whether `OUT` is a file of the log, or would be one when the log is read again; links lead nowhere else."""
        out = {str(self.out), _in_real_folder(self.out), os.path.realpath(self.out)}
        if any(out & {os.path.abspath(file), _in_real_folder(file), os.path.realpath(file)} for file in self._files):
            return True
        if os.path.isdir(self._log):
            folder = os.path.realpath(self._log)
            return any(Path(path).is_relative_to(folder) for path in out)
        if not self._log or os.path.exists(self._log):
            return False
        folders = {os.path.realpath(os.path.dirname(file)) for file in self._files}
        beside = os.path.dirname(_in_real_folder(self.out)) in folders
        if beside and fnmatch.fnmatch(self.out.name, os.path.basename(self._log)):
            return True
        parts = Path(os.path.abspath(self._log)).parts
        fixed = list(takewhile(lambda part: not glob.has_magic(part), parts))
        rest = [part for part in parts[len(fixed) :] if part != "**"]  # a star stands for folders as well here
        patterns = [
            os.path.join(start, *rest) for start in (os.path.join(*fixed), os.path.realpath(os.path.join(*fixed)))
        ]
        return any(fnmatch.fnmatch(path, pattern) for path in out for pattern in patterns)

    def prepare(self) -> None:
        """Parts of a run that was killed are of no use."""
        for file in self.path.iterdir():
            if not file.name.startswith("part-") and file.name != "sorted.parquet":
                raise InputError(f"'{file}' was not written by sort; choose another file (--out), or remove it.")
            file.unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(OSError, InputError):
                self.prepare()
                self.path.rmdir()
        super().__exit__(kind, error, traceback)

    def appear(self, file: Path) -> None:
        self.check()  # again: hours may have passed
        move(file, self.out)
        shutil.rmtree(self.path)


def _in_real_folder(file: str | Path) -> str:
    """Where a file lies, which may itself be a link."""
    return os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file))


def _is_parquet(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as data:
        return data.read(4) == b"PAR1"
