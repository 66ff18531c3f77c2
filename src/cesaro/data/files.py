"""Log files: Parquet, CSV and Arrow, also in folders and object stores. Opening reads names, types and sizes; the data wait."""

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from cesaro.data.addresses import SCHEMES, File, is_hidden, listed, place
from cesaro.data.array_files import Hdf5Source, NpzSource
from cesaro.data.arrow_file import ArrowSource
from cesaro.data.csv_file import CsvSource
from cesaro.data.file_source import FilesSource
from cesaro.data.parquet_file import ParquetSource
from cesaro.data.sources import Source, reading
from cesaro.errors import InputError
from cesaro.text import is_address, shown_address, visible

PARQUET = (".parquet", ".parq", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".csv.bz2")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
HDF5 = (".hdf5", ".h5", ".hdf")
_FORMATS: tuple[tuple[tuple[str, ...], type[FilesSource]], ...] = (
    (PARQUET, ParquetSource),
    (CSV, CsvSource),
    (ARROW, ArrowSource),
)
_MAGIC = ((b"PAR1", PARQUET[0]), (b"ARROW1", ARROW[0]), (b"PK\x03\x04", ".npz"), (b"\x89HDF", HDF5[0]))


def open_path(text: str, skip_bad_files: bool = False) -> Source:
    """The source behind a path or an address: a file, a folder of files of one format, or a pattern."""
    if not text.strip():
        raise InputError(f"A log's path must not be empty. Got {text!r}; name a file, a folder or a pattern.")
    if is_address(text):
        return _open_address(text, skip_bad_files)
    path, shown = Path(text), visible(shown_address(text))
    name = path.name or text
    try:
        exists, folder = path.exists(), path.is_dir()
    except (OSError, ValueError):
        exists = folder = False
    if folder:
        inside = [file for file in path.rglob("*") if not is_hidden(file.relative_to(path).as_posix())]
        found = sorted(file for file in inside if _format(file.name) is not None and file.is_file())
        return _folder(name, _local(found, path), skip_bad_files)
    if not exists and glob.has_magic(text):
        found = sorted(map(Path, glob.glob(text, recursive=True)))
        other = next((file for file in found if _format(file.name) is not None and not file.is_file()), None)
        if other is not None:
            raise InputError(f"{shown} must match files only. Got {other.name}, {_sort(other)}; narrow the pattern.")
        files = _local(found, Path(os.path.commonpath([file.parent for file in found])) if found else path)
        return _matched(name, shown, files, skip_bad_files)
    if not exists:
        raise InputError(f"{shown} must be an existing file, folder or pattern. Got no such file; check the path.")
    if not path.is_file():
        raise InputError(
            f"{visible(name)} must be a regular file or a folder. Got {_sort(path)}; copy what it gives into a file."
        )
    return _open_file(_local([path], path.parent)[0], skip_bad_files)


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
        files = listed(found, text)
    if isinstance(files, File):
        return _open_file(files, skip_bad_files)
    if found.pattern:
        return _matched(found.name, shown, files, skip_bad_files)
    if not files:
        raise InputError(f"{shown} must be an existing file or folder. Got nothing there; check the address.")
    return _folder(found.name, [file for file in files if _format(file.name) is not None], skip_bad_files)


def _local(paths: Sequence[Path], folder: Path) -> list[File]:
    sizes = [path.stat().st_size if path.is_file() else 0 for path in paths]
    return [File(path.relative_to(folder).as_posix(), str(path), size) for path, size in zip(paths, sizes)]


def _format(name: str) -> type[FilesSource] | None:
    """What reads a file of this name, where several such files may make a log."""
    lower = name.lower()
    return next((found for endings, found in _FORMATS if lower.endswith(endings)), None)


def _matched(name: str, pattern: str, files: Sequence[File], skip_bad_files: bool) -> Source:
    if not files:
        raise InputError(f"{pattern} must match files. Got none; check the folder and the pattern.")
    other = next((file for file in files if _format(file.name) is None), None)
    if other is not None:
        raise InputError(
            f"{pattern} must match Parquet, CSV or Arrow files only. Got {other.name}; narrow the pattern."
        )
    return _several(name, files, skip_bad_files)


def _folder(name: str, files: Sequence[File], skip_bad_files: bool) -> Source:
    """Parquet files go before others that lie beside them."""
    parquet = [file for file in files if _format(file.name) is ParquetSource]
    if not 0 < len(parquet) < len(files):
        return _several(name, files, skip_bad_files)
    source = ParquetSource(name, parquet, skip_bad_files)
    source.ignore([file.name for file in files if _format(file.name) is not ParquetSource])
    return source


def _several(name: str, files: Sequence[File], skip_bad_files: bool) -> Source:
    if not files:
        raise InputError(
            f"{name} must hold Parquet, CSV or Arrow files. Got a folder without any; name a file or another folder."
        )
    found = _format(files[0].name)
    assert found is not None
    other = next((file for file in files if _format(file.name) is not found), None)
    if other is not None:
        raise InputError(
            f"{name} must hold files of one format. Got {files[0].name} and {other.name}; name one of them, or a pattern."
        )
    return found(name, files, skip_bad_files)


def _sort(path: Path) -> str:
    """What lies at a path that is no regular file; it must not be opened, which may wait forever."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a broken link"
    sorts = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return sorts.get(stat.S_IFMT(mode), "a device")


def _open_file(file: File, skip_bad_files: bool) -> Source:
    with reading(file.name, "a readable file", address=file.address), file.opened() as data:
        start = data.read(8)
    if not start:
        raise InputError(f"{file.name} must hold a log. Got an empty file; write it again.")
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
