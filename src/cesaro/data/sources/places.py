"""Where the files of a log lie: addresses of object stores, and folders and patterns there and here.

A file that may hold a part of a log is never passed over in silence, and requests over a network are tried again.
"""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from glob import has_magic
from itertools import islice
from typing import NamedTuple, Self, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "az", "hdfs", "viewfs", "file")
_MAGIC = re.compile(r"[*\[]")
# Seconds between the tries of a request that fails.
PAUSES = (0.2, 0.4, 0.8, 1.6)

# Nanoseconds after which the time of a change tells it from a later one.
SETTLED = 2_000_000_000

# Entries of a hidden folder that are looked at.
MOST_HIDDEN = 1_000

_SORTS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
_Patterns = frozenset[tuple[str, ...]]

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
        """The file, open for reading at any place."""
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
        """A state that is another one after every change of a file on this machine, and after a touch; None: there is no such.

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
    """The place that an address leads to.

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
    """The result of `use`; a request over a network has several tries, unless there is no such thing."""
    for pause in PAUSES:
        try:
            return use()
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(pause)
    return use()


def resumed(file: File, use: Callable[[int], Iterator[Part]], start: int) -> Iterator[Part]:
    """The parts that `use` gives from row or byte `start` on; over a network, the next try goes on after the last that came."""
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


class Selection(NamedTuple):
    """Which paths below a folder are wanted, by the rules of `glob`: `**` stands for any folders.

    Attributes:
        patterns: parts of the paths that are wanted from here on; the empty one: what was reached so far is itself wanted.
        hidden: beginnings of names that only a pattern with the same beginning matches.
    """

    patterns: _Patterns
    hidden: tuple[str, ...]

    @classmethod
    def of(cls, pattern: str, hidden: tuple[str, ...] = (".",)) -> Self:
        return cls(_closed([tuple(filter(None, pattern.split("/")))]), hidden)

    def inside(self, name: str) -> Self:
        """The selection among the entries of that name."""
        shown = not self.is_hidden(name)
        rest = [
            pattern if pattern[0] == "**" else pattern[1:]
            for pattern in self.below
            if (shown or pattern[0].startswith(name[0])) and fnmatchcase(name, pattern[0])
        ]
        return self._replace(patterns=_closed(rest))

    def is_hidden(self, name: str) -> bool:
        return name.startswith(self.hidden)

    @property
    def is_complete(self) -> bool:
        return () in self.patterns

    @property
    def below(self) -> _Patterns:
        """Patterns of paths below a folder; none: it need not be looked into."""
        return self.patterns - {()}

    @property
    def names(self) -> set[str] | None:
        """The only names that can match; None: the folder has to be listed."""
        first = {pattern[0] for pattern in self.below}
        return None if any(map(has_magic, first)) else first


def _closed(patterns: Iterable[tuple[str, ...]]) -> _Patterns:
    """These patterns, and what is left of them where `**` stands for no folder."""
    found = set(patterns)
    for pattern in list(found):
        while pattern[:1] == ("**",):
            pattern = pattern[1:]
            found.add(pattern)
    return frozenset(found)


# Programs that write logs begin the names of their marks and of unfinished work with a dot or an underscore.
EVERYTHING = Selection.of("**/*", (".", "_"))


class Listing(NamedTuple):
    """The paths that were found, in order.

    Attributes:
        files: those with the name of a log; where one, or a folder, cannot be read, its `obstacle` says why.
        others: names that are wanted and not those of a log.
        hidden: names of logs that were left out because of how they begin.
        repeated: links to files and folders that are here by another name, and are not read twice.
    """

    files: list[File]
    others: list[str]
    hidden: list[str]
    repeated: list[str]


def in_store(found: Location, address: str, selection: Selection, is_log: Callable[[str], bool]) -> Listing | File:
    """The selected files of a place in an object store, or the one file that lies there."""
    system = found.filesystem
    assert system is not None
    info = retried(lambda: system.get_file_info(found.path))
    if info.type == pa.fs.FileType.File and not found.pattern:
        return File(found.name, info.path, info.size, system, address, modified=info.mtime_ns)
    listing = Listing([], [], [], [])
    if info.type != pa.fs.FileType.Directory:
        return listing
    for entry in retried(lambda: system.get_file_info(pa.fs.FileSelector(found.path, recursive=True))):
        if entry.type == pa.fs.FileType.Directory:
            continue
        name = entry.path[len(found.path) :].lstrip("/")
        parts, wanted = name.split("/"), selection
        for part in parts:
            wanted = wanted.inside(part)
        if not wanted.is_complete:
            if is_log(name) and any(map(selection.is_hidden, parts)):
                listing.hidden.append(name)
        elif is_log(name):
            obstacle = "" if entry.type == pa.fs.FileType.File else "neither a file nor a folder"
            listing.files.append(File(name, entry.path, entry.size or 0, system, address, obstacle, entry.mtime_ns))
        else:
            listing.others.append(name)
    return _sorted(listing)


def _sorted(listing: Listing) -> Listing:
    listing.files.sort(key=lambda file: file.name.split("/"))
    for names in (listing.others, listing.hidden, listing.repeated):
        names.sort(key=lambda name: name.split("/"))
    return listing


def on_this_machine(folder: str, selection: Selection, is_log: Callable[[str], bool]) -> Listing:
    """The selected files of a folder. Links are followed, and a folder is read once: by its own name if it has one here."""
    return _FolderWalk(is_log).run(folder, selection)


class _Folder(NamedTuple):
    path: str
    name: str
    selection: Selection
    is_linked: bool = False


class _FolderWalk:
    """One walk over folders of this machine."""

    def __init__(self, is_log: Callable[[str], bool]) -> None:
        self._is_log = is_log
        self._found = Listing([], [], [], [])
        self._own: set[tuple[int, int]] = set()  # files that are here by their own names
        self._linked: list[tuple[tuple[int, int], File]] = []
        self._named: list[File] = []  # folders with the name of a log
        self._folders: deque[_Folder] = deque()
        self._links: deque[_Folder] = deque()  # come last, because a folder's own name goes before
        self._seen: set[tuple[int, int, _Patterns]] = set()

    def run(self, path: str, selection: Selection) -> Listing:
        self._folders.append(_Folder(path, "", selection))
        while self._folders or self._links:
            folder = (self._folders or self._links).popleft()
            try:
                self._read(folder)
            except OSError as error:
                name = folder.name or os.path.basename(os.path.abspath(path)) or path
                self._hinder(name, folder.path, f"a folder that cannot be read ({error.strerror})")
        found = self._found
        for identity, file in self._linked:
            if identity in self._own:
                found.repeated.append(file.name)
            else:
                found.files.append(file)
        full = {parent for file in found.files for parent in _parents(file.name)} | set(found.repeated)
        found.files.extend(file for file in self._named if file.name not in full)
        return _sorted(found)

    def _read(self, folder: _Folder) -> None:
        status = os.stat(folder.path)
        identity = (status.st_dev, status.st_ino, folder.selection.below)
        if folder.is_linked and identity in self._seen:
            self._found.repeated.append(folder.name)
            return
        self._seen.add(identity)
        names = folder.selection.names
        if names is not None:
            for name in names:
                self._look(folder, name, name == os.pardir or os.path.islink(os.path.join(folder.path, name)))
            return
        with os.scandir(folder.path) as entries:
            for entry in entries:
                self._look(folder, entry.name, entry.is_symlink(), entry)

    def _look(self, folder: _Folder, name: str, is_link: bool, entry: os.DirEntry[str] | None = None) -> None:
        """One entry of a folder; without `entry` it may not be there."""
        inside, is_log = folder.selection.inside(name), self._is_log(name)
        path, below = os.path.join(folder.path, name), f"{folder.name}/{name}".lstrip("/")
        if not inside.patterns:
            if folder.selection.is_hidden(name):
                if is_log:
                    self._found.hidden.append(below)
                elif entry is not None and entry.is_dir(follow_symlinks=False):
                    self._found.hidden.extend(self._hidden_logs(path, below))
            return
        is_wanted = inside.is_complete and is_log
        if inside.is_complete and not is_log:
            self._found.others.append(below)
        if not is_wanted and (not inside.below or (entry is not None and _is_plain(entry))):
            return
        try:
            status = os.stat(path)
        except OSError as error:
            is_absent = isinstance(error, FileNotFoundError)
            if entry is not None or is_link or not is_absent:
                reason = f"what cannot be opened ({error.strerror})"
                self._hinder(below, path, "a broken link" if is_link and is_absent else reason)
            return
        is_linked = is_link or folder.is_linked
        if stat.S_ISDIR(status.st_mode) and inside.below:
            (self._links if is_link else self._folders).append(_Folder(path, below, inside, is_linked))
            if is_wanted:
                self._named.append(File(below, path, obstacle="a folder without logs"))
        elif is_wanted and not stat.S_ISREG(status.st_mode):
            self._hinder(below, path, sort_of(status.st_mode))
        elif is_wanted:
            file, identity = File(below, path, status.st_size), (status.st_dev, status.st_ino)
            if is_linked:
                self._linked.append((identity, file))
            else:
                self._own.add(identity)
                self._found.files.append(file)

    def _hidden_logs(self, path: str, below: str) -> Iterator[str]:
        """The first log inside of a hidden folder, or the folder itself where that cannot be told; not far into large ones."""
        try:
            with os.scandir(path) as entries:
                for entry in islice(entries, MOST_HIDDEN):
                    name = f"{below}/{entry.name}"
                    inside = self._hidden_logs(entry.path, name) if entry.is_dir(follow_symlinks=False) else iter(())
                    if (found := name if self._is_log(entry.name) else next(inside, None)) is not None:
                        yield found
                        return
        except OSError:
            yield f"{below}/"

    def _hinder(self, name: str, path: str, obstacle: str) -> None:
        self._found.files.append(File(name, path, obstacle=obstacle))


def sort_of(mode: int) -> str:
    """The sort of thing that lies where no regular file does; it must not be opened, which may wait forever."""
    return _SORTS.get(stat.S_IFMT(mode), "a device")


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is known to be a file and no link."""
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _parents(name: str) -> Iterator[str]:
    parts = name.split("/")
    return ("/".join(parts[:number]) for number in range(1, len(parts)))
