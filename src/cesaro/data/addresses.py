"""Addresses of object stores, files there and here, and requests that are tried again."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "viewfs", "file")
_MAGIC = re.compile(r"[*\[]")
# Seconds between the tries of a request that fails.
PAUSES = (0.2, 0.4, 0.8, 1.6)

# Nanoseconds after which the time of a change tells it from a later one.
SETTLED = 2_000_000_000

T = TypeVar("T")
Part = TypeVar("Part", bound=Sized)


@dataclass(frozen=True)
class File:
    """One file of a log, on this machine or elsewhere. It can be pickled; nothing stays open.

    Attributes:
        name: what messages call it: its path below the folder. Never holds credentials.
        path: where it lies in its file system.
        size: bytes.
        modified: when it last changed, in nanoseconds, where its file system told that with its name; None: it did not.
        filesystem: None: this machine.
        address: as the caller gave it, credentials included.
        obstacle: what lies there instead of a file that can be read; such a file is never opened.
    """

    name: str
    path: str = field(repr=False)
    size: int = field(repr=False, default=0)
    filesystem: pa.fs.FileSystem | None = field(repr=False, default=None)
    address: str = field(repr=False, default="")
    obstacle: str = field(repr=False, default="")
    modified: int | None = field(repr=False, default=None)

    @property
    def is_remote(self) -> bool:
        return self.filesystem is not None

    def opened(self) -> pa.NativeFile:
        """For reading at any place."""
        return pa.OSFile(self.path) if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def stamp(self) -> str:
        """Its size and the time of its last change: now, or, of a file elsewhere, when it was listed."""
        if self.filesystem is not None:
            return f"{self.size} bytes, {self.modified} ns"
        try:
            found = os.stat(self.path)
        except OSError:  # reading it will say what is wrong
            return "gone"
        return f"{found.st_size} bytes, {found.st_mtime_ns} ns"

    def state(self) -> tuple[int, ...] | None:
        """What is another one after every change of a file on this machine, and after a touch; None: nothing is.

        Clocks of file systems are coarse: a file that has just changed may change again without another time.
        """
        if self.filesystem is not None:
            return None
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        if time.time_ns() - found.st_ctime_ns < SETTLED:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Location(NamedTuple):
    """What an address leads to.

    Attributes:
        name: what messages call it.
        path: where it lies in its file system, without the part that is a pattern.
        pattern: that part; empty: it names one file or a folder.
        filesystem: None: this machine.
    """

    name: str
    path: str
    pattern: str
    filesystem: pa.fs.FileSystem | None


def place(address: str) -> Location:
    """The file system and the path of an address. What Arrow says about a wrong one may quote it."""
    start, _, query = address.partition("?")
    scheme, _, rest = start.partition("://")
    parts = rest.split("/")
    magic = next((number for number, part in enumerate(parts) if number and _MAGIC.search(part)), len(parts))
    user, query = _user(scheme, query)
    fixed = quote("/".join(parts[:magic]), safe="/%:@=&+,;!$()~")
    scheme = {"az": "abfs", "gcs": "gs"}.get(scheme.lower(), scheme.lower())
    wanted = f"{scheme}://{user}{fixed}" + (f"?{query}" if query else "")
    system, path = retried(lambda: pa.fs.FileSystem.from_uri(wanted))
    path, pattern = path.rstrip("/") or path, "/".join(parts[magic:])
    if not path:
        raise ValueError("no bucket or folder")
    local = isinstance(system, pa.fs.LocalFileSystem)
    return Location((pattern or path).split("/")[-1] or path, path, pattern, None if local else system)


def _user(scheme: str, query: str) -> tuple[str, str]:
    """Keys of S3 that stand in the query go where Arrow wants them: before the bucket."""
    options = dict(option.partition("=")[::2] for option in query.split("&") if option)
    if scheme.lower() != "s3" or not {"access_key", "secret_key"} <= set(options):
        return "", query
    keys = ":".join(quote(unquote(options.pop(key)), safe="") for key in ("access_key", "secret_key"))
    return f"{keys}@", "&".join(f"{key}={value}" for key, value in options.items())


def retried(use: Callable[[], T]) -> T:
    """What `use` gives; a request over a network has several tries, unless there is no such thing."""
    for pause in PAUSES:
        try:
            return use()
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(pause)
    return use()


def resumed(file: File, use: Callable[[int], Iterator[Part]], start: int) -> Iterator[Part]:
    """What `use` gives from row or byte `start` on; over a network, the next try goes on after the last part that came."""
    tries = 0
    while True:
        try:
            for part in use(start):
                start, tries = start + len(part), 0
                yield part
            return
        except OSError:
            if not file.is_remote or tries == len(PAUSES):
                raise
        time.sleep(PAUSES[tries])
        tries += 1
