"""The files of a folder or a pattern, here or in a store: what may hold a part of a log is never passed over in silence."""

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from glob import has_magic
from itertools import islice
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.fs

from cesaro.data.addresses import File, Location, retried

# Entries of a hidden folder that are looked at.
MOST_HIDDEN = 1_000

_SORTS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
_Patterns = frozenset[tuple[str, ...]]


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
        """What is wanted of the entry of that name."""
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
        """What is wanted below a folder; nothing: it need not be looked into."""
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
    """What was found, in the order of the paths.

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
    """What is wanted of a place in an object store, or the one file that lies there."""
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
    """What is wanted of a folder. Links are followed, and a folder is read once: by its own name if it has one here."""
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
    """What lies where no regular file does; it must not be opened, which may wait forever."""
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
