"""Log files: Parquet, CSV and Arrow, also in folders and object stores. Opening reads names, types and sizes; the data wait."""

import glob
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from cesaro.data.addresses import SCHEMES, File, place
from cesaro.data.array_files import Hdf5Source, NpzSource
from cesaro.data.arrow_file import ArrowSource
from cesaro.data.csv_file import CsvSource
from cesaro.data.file_source import FilesSource, named
from cesaro.data.folders import EVERYTHING, Listing, Selection, in_store, on_this_machine, sort_of
from cesaro.data.parquet_file import ParquetSource
from cesaro.data.sources import Source, reading
from cesaro.errors import InputError
from cesaro.files import not_there
from cesaro.text import is_address, shown_address, visible

PARQUET = (".parquet", ".parq", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst", ".csv.bz2", ".tsv.bz2")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
HDF5 = (".hdf5", ".h5", ".hdf")
_FORMATS: tuple[tuple[tuple[str, ...], type[FilesSource]], ...] = (
    (PARQUET, ParquetSource),
    (CSV, CsvSource),
    (ARROW, ArrowSource),
)
# What may hold data, and cannot be one of several files; and endings of files that are read in spite of them.
_UNREAD = re.compile(
    r"\.(npz|hdf5|h5|hdf|(csv|tsv)\.(xz|lzma|zip|lz4|br|7z|z)|(parquet|arrow|feather)\.(gz|zst|bz2|xz|zip))$",
    re.IGNORECASE,
)
_COMPRESSED = re.compile(r"\.(gz|zst|bz2)$", re.IGNORECASE)
_MAGIC = ((b"PAR1", PARQUET[0]), (b"ARROW1", ARROW[0]), (b"PK\x03\x04", ".npz"), (b"\x89HDF", HDF5[0]))


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
    """What lies at a path; None: nothing."""
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


def _format(name: str) -> type[FilesSource] | None:
    """What reads a file of this name, where several such files may make a log."""
    lower = name.lower()
    return next((found for endings, found in _FORMATS if lower.endswith(endings)), None)


def _is_log(name: str) -> bool:
    return _format(name) is not None


def _matched(name: str, pattern: str, found: Listing, skip_bad_files: bool) -> Source:
    if found.others:
        raise InputError(
            f"{pattern} must match Parquet, CSV or Arrow files only. Got {visible(found.others[0])}; narrow the pattern."
        )
    if not found.files:
        raise InputError(f"{pattern} must match files. Got none; check the folder and the pattern.")
    return _several(name, found.files, skip_bad_files, _said_of_links(found))


def _folder(name: str, found: Listing, skip_bad_files: bool) -> Source:
    """Parquet files go before others that lie beside them."""
    files, notes = found.files, _said_of_links(found)
    if any(_format(file.name) is ParquetSource for file in files):
        files = [file for file in files if _format(file.name) in (ParquetSource, None)]
        others = [file.name for file in found.files if file not in files]
        if others:
            notes.append(f"The Parquet files of the folder were read, and not {named(others)}.")
    _reject_copies(name, [file.name for file in files])
    unread = [other for other in found.others if _UNREAD.search(other)]
    if unread:
        notes.append(f"Only Parquet, CSV and Arrow files of a folder are read, and not {named(unread)}.")
    if found.hidden:
        notes.append(
            f"Left out {named(found.hidden)}: names that begin with a dot or an underscore are not part of a log."
        )
    return _several(name, files, skip_bad_files, notes)


def _reject_copies(folder: str, names: Sequence[str]) -> None:
    """Refuse a file that lies beside itself, once as it is and once compressed, whose rows would count twice."""
    whole = set(names)
    for name in names:
        if (stem := _COMPRESSED.sub("", name)) != name and stem in whole:
            raise InputError(
                f"{visible(folder)} must hold every file once. Got {visible(stem)} and {visible(name)}; remove one of the "
                "two, or name the files by a pattern."
            )


def _said_of_links(found: Listing) -> list[str]:
    if not found.repeated:
        return []
    return [f"Read only once, although links lead there by another name: {named(found.repeated)}."]


def _several(name: str, files: Sequence[File], skip_bad_files: bool, notes: Sequence[str]) -> Source:
    """What has no format, such as a folder that cannot be read, may hold files of any."""
    if not files:
        raise InputError(
            f"{name} must hold Parquet, CSV or Arrow files. Got a folder without any; name a file or another folder."
        )
    formats: dict[type[FilesSource], File] = {}
    for file in files:
        found = _format(file.name)
        if found is not None:
            formats.setdefault(found, file)
    if len(formats) > 1:
        one, other, *_ = formats.values()
        raise InputError(
            f"{name} must hold files of one format. Got {one.name} and {other.name}; name one of them, or a pattern."
        )
    return next(iter(formats), ParquetSource)(name, files, skip_bad_files, notes)


def _open_file(file: File, skip_bad_files: bool) -> Source:
    with reading(file.name, "a readable file", address=file.address), file.opened() as data:
        start = data.read(8)
    if not start:
        raise InputError(f"{file.name} must hold a log. Got an empty file; check what wrote it.")
    suffix = Path(file.name).suffix.lower()
    if _format(file.name) is None and suffix not in (*HDF5, ".npz"):
        suffix = next((known for magic, known in _MAGIC if start.startswith(magic)), "")
    found = _format(file.name) or _format(suffix)
    if found is not None:
        return found(file.name, [file], skip_bad_files)
    if suffix not in (*HDF5, ".npz"):
        raise InputError(
            f"{file.name} must be Parquet, CSV, Arrow/Feather, NPZ or HDF5. Got {Path(file.name).suffix or 'no file ending'}; "
            "rename it to say what it is, or read it yourself and pass the table."
        )
    if file.is_remote:
        raise InputError(
            f"{file.name} must lie on this machine, because it is NPZ or HDF5. Got an address; copy it here."
        )
    return NpzSource(Path(file.path)) if suffix == ".npz" else Hdf5Source(Path(file.path))
