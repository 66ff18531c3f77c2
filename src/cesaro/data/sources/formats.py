"""The table of formats, and the source of a log by whatever holds it: files, folders, patterns, addresses, data in memory.

Opening reads names, types and sizes; the data wait.
"""

import glob
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from cesaro.data.sources import minari
from cesaro.data.sources.arrays import ArrayFile, ArraySource, FrameSource, Hdf5Source, NpzSource, TableSource
from cesaro.data.sources.arrow import ArrowSource
from cesaro.data.sources.base import Source, reading
from cesaro.data.sources.csv import CsvSource
from cesaro.data.sources.files import COMPRESSED, FilesSource, named
from cesaro.data.sources.minari import MinariSource
from cesaro.data.sources.parquet import ParquetSource
from cesaro.data.sources.places import (
    EVERYTHING,
    SCHEMES,
    File,
    Listing,
    Selection,
    in_store,
    on_this_machine,
    place,
    sort_of,
)
from cesaro.errors import InputError
from cesaro.files import not_there
from cesaro.text import is_address, shown_address, visible


class Format(NamedTuple):
    """A format of files, and the source that reads them.

    Attributes:
        name: the format, as messages call it.
        endings: how the names of such files end.
        mark: the bytes that such a file begins with; empty: there are none.
        source: reads several files, in pieces too, or one file on this machine as a whole.
    """

    name: str
    endings: tuple[str, ...]
    mark: bytes
    source: type[FilesSource] | type[ArrayFile]

    @property
    def in_pieces(self) -> type[FilesSource] | None:
        """The source of several files; None where a log is one file."""
        return self.source if issubclass(self.source, FilesSource) else None


_CSV = tuple(f"{ending}{packed}" for packed in ("", *COMPRESSED) for ending in (".csv", ".tsv"))
# Messages name the formats in this order. In a folder Parquet files go before others (`_folder`); else its files have one format.
FORMATS = (
    Format("Parquet", (".parquet", ".parq", ".pq"), b"PAR1", ParquetSource),
    Format("CSV", _CSV, b"", CsvSource),
    Format("Arrow/Feather", (".arrow", ".feather", ".ipc", ".arrows"), b"ARROW1", ArrowSource),
    Format("NPZ", (".npz",), b"PK\x03\x04", NpzSource),
    Format("HDF5", (".hdf5", ".h5", ".hdf"), b"\x89HDF", Hdf5Source),
)


def _listed(names: Sequence[str], last: str = "or") -> str:
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


_IN_PIECES = [form.name.partition("/")[0] for form in FORMATS if form.in_pieces is not None]
IN_PIECES = _listed(_IN_PIECES)  # formats of logs that may be several files
_AS_A_WHOLE = [form for form in FORMATS if form.in_pieces is None]


# How names end of files that may hold data and are not read where there are several; those that are read are told apart before.
_PACKED = (*COMPRESSED, ".xz", ".lzma", ".zip", ".lz4", ".br", ".7z", ".z")
_UNREAD = tuple(
    ending + packed
    for form in FORMATS
    for ending in form.endings
    for packed in (("",) if form.in_pieces is None else _PACKED)
)


def open_source(source: Any, skip_bad_files: bool = False) -> Source:
    """The source of whatever `read` takes."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if not isinstance(path, str):
            path = os.fsdecode(path)
        if path.startswith(minari.PREFIX):
            return MinariSource(path.removeprefix(minari.PREFIX))
        if not os.path.lexists(path) and minari.local_path(path) is not None:
            return MinariSource(path)
        opened = open_path(path, skip_bad_files)
        opened.given = shown_address(path)
        return opened
    if isinstance(source, pa.Table):
        return TableSource("table", source)
    if isinstance(source, pa.RecordBatch):
        return TableSource("table", pa.Table.from_batches([source]))
    if isinstance(source, Mapping):
        return ArraySource("arrays", source)
    if type(source).__module__.split(".")[0] in ("pandas", "polars") and type(source).__name__ == "DataFrame":
        return FrameSource("frame", source)
    raise InputError(
        "A log must be a path, a pyarrow table, a pandas or Polars frame or a dict of arrays. "
        f"Got a {type(source).__name__}; convert it to one of these."
    )


def open_path(text: str, skip_bad_files: bool = False) -> Source:
    """The source behind a path or an address: a file, a folder of files of one format, or a pattern."""
    if not text.strip():
        raise InputError(f"A log's path must not be empty. Got {text!r}; name a file, a folder or a pattern.")
    if is_address(text):
        return _open_address(text, skip_bad_files)
    path, shown = Path(text), visible(shown_address(text))
    name = path.name or text
    mode = _mode(text, shown)
    if mode is None and glob.has_magic(text):
        magic = next(number for number, part in enumerate(path.parts) if glob.has_magic(part))
        folder, pattern = str(Path(*path.parts[:magic])), Selection.of("/".join(path.parts[magic:]))
        is_folder = stat.S_ISDIR(_mode(folder, shown) or 0)
        found = on_this_machine(_fixed(folder), pattern, _is_log) if is_folder else Listing([], [], [], [])
        return _matched(name, shown, found, skip_bad_files)
    if mode is None:
        got = "a broken link" if path.is_symlink() else "no such file"
        raise InputError(f"{shown} must be an existing file, folder or pattern. Got {got}; {not_there(path)}")
    if stat.S_ISDIR(mode):
        return _folder(name, on_this_machine(_fixed(text), EVERYTHING, _is_log), skip_bad_files)
    if not stat.S_ISREG(mode):
        raise InputError(
            f"{visible(name)} must be a regular file or a folder. Got {sort_of(mode)}; copy what it gives into a file."
        )
    return _open_file(File(name, _fixed(text), path.stat().st_size), skip_bad_files)


def _fixed(path: str) -> str:
    """The path from the root on: blocks are read again and again, and users' code may change the working directory meanwhile."""
    return str(Path(path).absolute())


def _mode(path: str, shown: str) -> int | None:
    """The mode of what lies at a path; None: nothing lies there."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last: a path that no file can have
        return None
    except OSError as error:
        raise InputError(
            f"{shown} must be a file or a folder that can be read. Got: {error.strerror}; check the path and its permissions."
        ) from None


def _open_address(text: str, skip_bad_files: bool) -> Source:
    shown = visible(shown_address(text))
    if text.partition("://")[0].lower() not in SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise InputError(f"{shown} must be an address that Arrow can open. Got none of {schemes}; copy the files.")
    remedy = "check the address, its options and the credentials of this environment"
    with reading(shown, "an address that can be opened", NotImplementedError, remedy=remedy, address=text):
        found = place(text)
        if found.filesystem is None:
            return open_path("/".join(filter(None, (found.path, found.pattern))), skip_bad_files)
        selection = Selection.of(found.pattern) if found.pattern else EVERYTHING
        listing = in_store(found, text, selection, _is_log)
    if isinstance(listing, File):
        return _open_file(listing, skip_bad_files)
    if found.pattern:
        return _matched(found.name, shown, listing, skip_bad_files)
    if not listing.files and not listing.others:
        raise InputError(f"{shown} must be an existing file or folder. Got nothing there; check the address.")
    return _folder(found.name, listing, skip_bad_files)


def _format(name: str) -> Format | None:
    """The format of a file, by its name."""
    return next((form for form in FORMATS if name.lower().endswith(form.endings)), None)


def _source(name: str) -> type[FilesSource] | None:
    """The source of several files of such names; None: a log is one such file, or none."""
    form = _format(name)
    return None if form is None else form.in_pieces


def _is_log(name: str) -> bool:
    return _source(name) is not None


def _matched(name: str, pattern: str, found: Listing, skip_bad_files: bool) -> Source:
    if found.others:
        raise InputError(
            f"{pattern} must match {IN_PIECES} files only. Got {visible(found.others[0])}; narrow the pattern."
        )
    if not found.files:
        raise InputError(f"{pattern} must match files. Got none; check the folder and the pattern.")
    return _several(name, found.files, skip_bad_files, _said_of_links(found))


def _folder(name: str, found: Listing, skip_bad_files: bool) -> Source:
    """The files of a folder; Parquet files go before others that lie beside them."""
    files, notes = found.files, _said_of_links(found)
    if any(_source(file.name) is ParquetSource for file in files):
        files = [file for file in files if _source(file.name) in (ParquetSource, None)]
        others = [file.name for file in found.files if file not in files]
        if others:
            notes.append(f"The Parquet files of the folder were read, and not {named(others)}.")
    _reject_copies(name, [file.name for file in files])
    unread = [other for other in found.others if other.lower().endswith(_UNREAD)]
    if unread:
        notes.append(f"Only {_listed(_IN_PIECES, 'and')} files of a folder are read, and not {named(unread)}.")
    if found.hidden:
        notes.append(
            f"Left out {named(found.hidden)}: names that begin with a dot or an underscore are not part of a log."
        )
    return _several(name, files, skip_bad_files, notes)


def _reject_copies(folder: str, names: Sequence[str]) -> None:
    """Refuse a file that lies beside itself, once as it is and once compressed, whose rows would count twice."""
    whole = set(names)
    for name in names:
        stem = next((name[: -len(ending)] for ending in COMPRESSED if name.lower().endswith(ending)), None)
        if stem is not None and stem in whole:
            raise InputError(
                f"{visible(folder)} must hold every file once. Got {visible(stem)} and {visible(name)}; remove one of the "
                "two, or name the files by a pattern."
            )


def _said_of_links(found: Listing) -> list[str]:
    if not found.repeated:
        return []
    return [f"Read only once, although links lead there by another name: {named(found.repeated)}."]


def _several(name: str, files: Sequence[File], skip_bad_files: bool, notes: Sequence[str]) -> Source:
    """Files of one format; a folder that cannot be read may hold files of any."""
    if not files:
        raise InputError(
            f"{name} must hold {IN_PIECES} files. Got a folder without any; name a file or another folder."
        )
    sources: dict[type[FilesSource], File] = {}
    for file in files:
        found = _source(file.name)
        if found is not None:
            sources.setdefault(found, file)
    if len(sources) > 1:
        one, other, *_ = sources.values()
        raise InputError(
            f"{name} must hold files of one format. Got {one.name} and {other.name}; name one of them, or a pattern."
        )
    return next(iter(sources), ParquetSource)(name, files, skip_bad_files, notes)


def _open_file(file: File, skip_bad_files: bool) -> Source:
    """One file, whose format its name tells, or its first bytes."""
    with reading(file.name, "a readable file", address=file.address), file.opened() as data:
        start = data.read(8)
    if not start:
        raise InputError(f"{file.name} must hold a log. Got an empty file; check what wrote it.")
    form = _format(file.name) or next((form for form in FORMATS if form.mark and start.startswith(form.mark)), None)
    if form is None:
        raise InputError(
            f"{file.name} must be {_listed([form.name for form in FORMATS])}. Got "
            f"{Path(file.name).suffix or 'no file ending'}; rename it to say what it is, or read it yourself and pass the table."
        )
    if issubclass(form.source, FilesSource):
        return form.source(file.name, [file], skip_bad_files)
    if file.is_remote:
        raise InputError(
            f"{file.name} must lie on this machine, because it is {_listed([form.name for form in _AS_A_WHOLE])}. Got an "
            "address; copy it here."
        )
    return form.source(Path(file.path))
