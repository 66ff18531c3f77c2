"""Addresses of object stores, and how they are written where others can read them: without credentials."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

from cesaro.data.printable import printable
from cesaro.errors import InputError

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "viewfs", "file")
# One slash is left of two where an address was taken for a path.
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+:/{1,2}"
_ADDRESS = re.compile(rf"\b{_SCHEME}[^\s'\"<>]+")
_MAGIC = re.compile(r"[*\[]")
# Query keys whose values say nothing secret.
_HARMLESS = ("endpoint_override", "scheme", "region", "allow_bucket_creation", "allow_bucket_deletion", "replication")
_HIDDEN = "…"
# Seconds between the tries of a request that fails.
PAUSES = (0.2, 0.4, 0.8, 1.6)

T = TypeVar("T")
Part = TypeVar("Part", bound=Sized)


def is_address(text: str) -> bool:
    """Whether it names a place by a scheme, `s3://…`, and not by a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def shown_address(text: str) -> str:
    """An address as a whole without its credentials, whatever characters these hold; other text as `redacted` gives it.

    Example:
        >>> from cesaro.data.addresses import shown_address
        >>> shown_address("s3://me:my 'secret'@bucket/logs")
        's3://…@bucket/logs'
    """
    return _without_credentials(text) if re.match(_SCHEME, text) else redacted(text)


def reject_address(name: str, path: str | os.PathLike[str]) -> None:
    """What is written must lie on this machine."""
    text = os.fspath(path)
    if re.match(_SCHEME, text):
        shown = printable(shown_address(text))
        raise InputError(f"{name} must be a path on this machine. Got {shown}; write it here, and copy it there.")


def redacted(text: str, address: str = "") -> str:
    """`text` without the credentials of any address that it quotes, and without those of `address` wherever they stand.

    Example:
        >>> from cesaro.data.addresses import redacted
        >>> redacted("cesaro evaluate 's3://me:secret@bucket/logs?region=us-east-1&access_key=me' --policy uniform")
        "cesaro evaluate 's3://…@bucket/logs?region=us-east-1&access_key=…' --policy uniform"
    """
    text = _ADDRESS.sub(lambda found: _without_credentials(found.group()), text)
    for secret in sorted(_secrets(address), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def _without_credentials(address: str) -> str:
    start, mark, query = address.partition("?")
    scheme, slashes, rest = re.split(r"(:/{1,2})", start, maxsplit=1)
    user, at, rest = rest.rpartition("@")
    if at and (":" in user or not scheme.lower().startswith(("abfs", "az"))):
        user = _HIDDEN  # all before the last @, because a key may hold a slash; a container of Azure is no secret
    return f"{scheme}{slashes}{user}{at}{rest}{mark}" + "&".join(map(_shown_option, query.split("&")))


def _shown_option(option: str) -> str:
    key, equals, _ = option.partition("=")
    return option if key in _HARMLESS or not equals else f"{key}={_HIDDEN}"


def _secrets(address: str) -> set[str]:
    """What of an address must never be shown, as it stands there and decoded."""
    if not re.match(_SCHEME, address):
        return set()
    start, _, query = address.partition("?")
    user = re.split(r":/{1,2}", start, maxsplit=1)[1].rpartition("@")[0]
    found = set(user.split(":", 1)[1:]) | {user if ":" in user else ""}
    found |= {option.partition("=")[2] for option in query.split("&") if option.partition("=")[0] not in _HARMLESS}
    return {secret for text in found for secret in (text, unquote(text)) if secret}


@dataclass(frozen=True)
class File:
    """One file of a log, on this machine or elsewhere. It can be pickled; nothing stays open.

    Attributes:
        name: what messages call it: its path below the folder. Never holds credentials.
        path: where it lies in its file system.
        size: bytes.
        filesystem: None: this machine.
        address: as the caller gave it, credentials included.
    """

    name: str
    path: str = field(repr=False)
    size: int = field(repr=False, default=0)
    filesystem: pa.fs.FileSystem | None = field(repr=False, default=None)
    address: str = field(repr=False, default="")

    @property
    def is_remote(self) -> bool:
        return self.filesystem is not None

    def opened(self) -> pa.NativeFile:
        """For reading at any place."""
        return pa.OSFile(self.path) if self.filesystem is None else self.filesystem.open_input_file(self.path)


class Place(NamedTuple):
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


def place(address: str) -> Place:
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
    return Place((pattern or path).split("/")[-1] or path, path, pattern, None if local else system)


def _user(scheme: str, query: str) -> tuple[str, str]:
    """Keys of S3 that stand in the query go where Arrow wants them: before the bucket."""
    options = dict(option.partition("=")[::2] for option in query.split("&") if option)
    if scheme.lower() != "s3" or not {"access_key", "secret_key"} <= set(options):
        return "", query
    keys = ":".join(quote(unquote(options.pop(key)), safe="") for key in ("access_key", "secret_key"))
    return f"{keys}@", "&".join(f"{key}={value}" for key, value in options.items())


def listed(found: Place, address: str) -> list[File] | File:
    """The files of a folder or a pattern, in order, or the one file there is; a list without any where nothing lies there."""
    system = found.filesystem
    assert system is not None
    info = retried(lambda: system.get_file_info(found.path))
    if info.type == pa.fs.FileType.File and not found.pattern:
        return File(found.name, info.path, info.size, system, address)
    if info.type != pa.fs.FileType.Directory:
        return []
    inside = retried(lambda: system.get_file_info(pa.fs.FileSelector(found.path, recursive=True)))
    files = []
    for entry in inside:
        name = entry.path[len(found.path) :].lstrip("/")
        wanted = _matches(name.split("/"), found.pattern.split("/")) if found.pattern else not is_hidden(name)
        if entry.type == pa.fs.FileType.File and wanted:
            files.append(File(name, entry.path, entry.size, system, address))
    return sorted(files, key=lambda file: file.name.split("/"))


def is_hidden(name: str) -> bool:
    """Whether some part of a path below a folder says that it is no part of the data."""
    return any(part.startswith((".", "_")) for part in name.split("/"))


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """As `glob` does it: `**` stands for any folders, and only a dot matches a dot at the start of a name."""
    if not pattern or not parts:
        return not parts and all(part == "**" for part in pattern)
    if pattern[0] == "**":
        return _matches(parts, pattern[1:]) or _matches(parts[1:], pattern)
    if parts[0].startswith(".") and not pattern[0].startswith("."):
        return False
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


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
