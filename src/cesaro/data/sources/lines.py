"""Files of text, one row after the other, also compressed: chunks of whole lines, and where they start."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from cesaro.data.sources.base import ChangedError
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.places import File, resumed

CHUNK = 1 << 24  # bytes
COMPRESSED = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".bz2": "bz2",
}  # what follows the ending of a format, and Arrow's name for it
_RATIO = 4  # bytes of text per compressed byte, about


class LinesSource(FilesSource):
    """Files of text with a row per line; only the data tell the types of the columns."""

    is_typed = False

    def __init__(
        self, name: str, files: Sequence[File], skip_bad_files: bool = False, notes: Sequence[str] = ()
    ) -> None:
        # Per file (row, byte) where a chunk starts, and the stamp of the file in which it does.
        self._marks: dict[str, tuple[str, list[tuple[int, int]]]] = {}
        super().__init__(name, files, skip_bad_files, notes)

    def _text_size(self) -> int:
        """Bytes of text in all files, about."""
        return sum(file.size * (_RATIO if _codec(file) else 1) for file in self.files)

    def _chunks(self, file: File, place: int = 0) -> Iterator[tuple[int, bytes]]:
        """Whole lines, and the byte at which they start."""
        tail = b""
        for data in resumed(file, partial(text_from, file), place):
            lines = tail + data
            cut = lines.rfind(b"\n") + 1 or lines.rfind(b"\r") + 1
            if cut:
                yield place, lines[:cut]
                place += cut
            tail = lines[cut:]
        if tail:
            yield place, tail

    def _keep_marks(self, file: File, stamp: str, marks: list[tuple[int, int]]) -> None:
        """Remember where chunks of a file start, if it can be read from there."""
        if _codec(file) is None:
            self._marks[file.path] = stamp, marks

    def _mark(self, file: File, row: int) -> tuple[int, int]:
        """The last known start of a chunk up to a row; the start of the file where it has changed since."""
        stamp, marks = self._marks.get(file.path, ("", []))
        known = marks if row and stamp == file.stamp() else ()
        return max((mark for mark in known if mark[0] <= row), default=(0, 0))


def _codec(file: File) -> str | None:
    """How a file is compressed, by its name; None: it is not."""
    return next((codec for ending, codec in COMPRESSED.items() if file.name.lower().endswith(ending)), None)


@contextmanager
def opened_text(file: File) -> Iterator[pa.NativeFile]:
    """The text of a file; only what is not compressed can be read at any place."""
    codec = _codec(file)
    with file.opened() as data:
        if codec is None:
            yield data
        else:
            with pa.CompressedInputStream(data, codec) as stream:
                yield stream


def text_from(file: File, place: int) -> Iterator[bytes]:
    """The text of a file from a byte on."""
    with opened_text(file) as stream:
        if _codec(file) is None:
            if stream.size() < place:
                raise _changed(file)
            stream.seek(place)
        else:
            while place:
                passed = len(stream.read(min(place, CHUNK)))
                if not passed:
                    raise _changed(file)
                place -= passed
        while data := stream.read(CHUNK):
            yield data


def _changed(file: File) -> ChangedError:
    return ChangedError(file.name, "less text than before", file.name)
