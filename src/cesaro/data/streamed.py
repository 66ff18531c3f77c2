"""A log that is read in blocks, again and again; what it holds in memory does not grow with its rows.

Before its blocks can be read one by one, its order, its pieces and its labels must be known. Only the columns that tell them are
read for that, and what is kept grows with the number of blocks, trajectories and labels, not of rows.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.data import blocks
from cesaro.data.account import NO_GAPS, Tally, account, reject_empty, reject_nothing_left
from cesaro.data.assemble import Assembly, Outline, disorder, no_weight
from cesaro.data.blocks import Block, Parts, Rows, Stretch, joined
from cesaro.data.columns import ColumnPlace, basic_type, is_list, list_width, unwrapped
from cesaro.data.continuing import (
    DisorderError,
    Structure,
    Successors,
    episodes,
    find_structure,
    find_successors,
)
from cesaro.data.digests import Found
from cesaro.data.gaps import UsualSteps, are_long, steps_within
from cesaro.data.labels import Encoded, Levels
from cesaro.data.log import Log, Transitions
from cesaro.data.role_values import Known, unlisted
from cesaro.data.roles import Roles
from cesaro.data.schema import Schema, describe
from cesaro.data.settings import Settings
from cesaro.data.sources import ChangedError, Source
from cesaro.data.unused import unused_notes
from cesaro.data.windows import Window, Windows
from cesaro.errors import InputError
from cesaro.progress import row_progress
from cesaro.text import GIVE, Sentence, Wording, switch

APART, LINKED, COMPARED = 0, 1, 2  # the first row of a block goes on from the row before: never, always, if they match
LevelsOfRoles = dict[str, dict[str, NDArray[Any]]]
_SEEN = 1 << 20  # times that are remembered, to see one of them again
_CHECKED = 1 << 16  # ids that are gathered before they are compared


class Streamed(Log):
    """A log in blocks. `cesaro.read` makes one of what is larger than memory should hold.

    Making one reads the columns that say which rows belong together, and those of labels. It can be sent to another
    process, which reads the blocks itself.
    """

    is_streamed = True

    def __init__(
        self,
        source: Source,
        roles: Roles,
        kinds: Mapping[str, str],
        settings: Settings,
        notes: tuple[str, ...] = (),
        unused: tuple[str, ...] = (),
        *,
        quiet: bool = True,
    ) -> None:
        self.name = source.name
        dropped = {"drop_duplicates": "duplicates", "drop_incomplete": "incomplete rows"}
        for name, what in dropped.items():
            if not getattr(settings, name):
                continue
            raise InputError(
                Sentence(
                    "{log}: {drop} needs a log that is held in memory. Got one that is read in blocks; {give} {held}, or remove "
                    "the {what} from the file.",
                    log=self.name,
                    drop=switch(name),
                    what=what,
                    give=GIVE,
                    held=Wording("stream=False", "--no-stream"),
                )
            )
        self._source, self._roles, self._settings = source, roles, settings
        self._given = source, roles, kinds, settings, notes, unused
        self._loaded: Transitions | None = None
        self.stamps = source.stamps()
        types = source.piece_types(roles, kinds)  # first: it settles the files
        self._schema = describe(self.name, roles, types, kinds, settings)
        rows = source.file_rows()
        reject_empty(self.name, sum(rows))
        windows = Windows(source, rows, blocks.BLOCK_ROWS)
        files = tuple(zip(source.files or (), rows))
        told = (windows.missing, source.given, source.holes, bool(source.skipped), source.written)
        self._outline = Outline(self.name, roles, kinds, settings, self._schema, files, *told)
        self._windows = windows
        self._first = next(windows.read(roles.columns(), 0, 1, below=False)).table.take([0])
        self._index = index_blocks(self._outline, windows, quiet=quiet)
        widths = self._widths()
        self._known = {role: Known(levels, widths) for role, levels in self._index.levels.items()}
        tally = self._index.tally
        self._counts = tally.counts | {"files": len(files)}
        reject_nothing_left(self.name, tally, self._outline.has_next, settings)
        said = account(tally, self._outline.has_next, settings)
        self._told = (*source.notes, *notes, *unused_notes(source, roles, unused), *said)
        if roles.weight is not None and not any(
            block.weights is None or block.weights.any() for block in self.blocks()
        ):
            raise no_weight(self._outline)

    def _widths(self) -> dict[str, int]:
        """The lengths of lists, as in the first row."""
        rows = Assembly(self._outline, self._first)
        columns = (*self._roles.observation.columns, *self._roles.action.columns)
        listed = [name for name in columns if is_list(basic_type(self._first[name].type))]
        found = {name: unwrapped(self._first[name], rows.place(name)) for name in listed}
        return {name: list_width(column, rows.place(name)) for name, column in found.items() if not column.null_count}

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def num_rows(self) -> int:
        return sum(self._windows.file_rows)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._counts)

    @property
    def notes(self) -> tuple[str, ...]:
        return self._told

    @property
    def action_levels(self) -> NDArray[Any] | None:
        return self._index.levels["action"].get(self._roles.action.columns[0])

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return blocks.stretches(self._windows.file_rows)

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        return self._index.lengths

    def opened(self, *, quiet: bool = True) -> "Streamed":
        return self

    def load(self) -> Transitions:
        if self._loaded is None:
            self._loaded = Transitions._read(*self._given)
        return self._loaded

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        for block, parts in self._parts(*self._range(stretch)):
            if len(parts.kept):
                before = int(self._index.before[block])
                yield parts.block(self._windows.key(block), np.arange(len(parts.kept)), before)

    def part(self, index: Rows) -> Block:
        places = np.searchsorted(self._index.before, index, side="right") - 1
        found = []
        wanted = np.unique(places)
        for run in np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1):
            for block, parts in self._parts(int(run[0]), int(run[-1]) + 1):
                before = int(self._index.before[block])
                low, high = np.searchsorted(places, (block, block + 1))
                if low < high:
                    found.append(parts.block((0, 0), index[low:high] - before, before))
        return joined(found)

    def digests(self) -> Found:
        return self._windows.digests.found

    def changed_since(self, before: Found, *, reread: bool, quiet: bool = True) -> str | None:
        windows, digests = self._windows, self._windows.digests
        unread = {column: digests.unread(column, found) for column, found in before.items()} if reread else {}
        differing = digests.merge(before)
        if differing is not None:
            return str((self._source.files or ())[windows.key(differing[1])[0]])
        columns = [column for column, blocks in unread.items() if len(blocks)]
        again = np.unique(np.concatenate([np.empty(0, np.int64), *unread.values()]))
        rows = sum(map(windows.rows, again.tolist()))
        try:
            with row_progress("comparing with the checkpoint", total=rows, quiet=quiet or not rows) as advance:
                for run in np.split(again, np.flatnonzero(np.diff(again) > 1) + 1) if rows else ():
                    for window in windows.read(columns, int(run[0]), int(run[-1]) + 1, below=False):
                        advance(window.rows)
        except ChangedError as error:
            return error.file
        return None

    def digests_of(self, stretch: Stretch) -> Found:
        """Of what has been read of a stretch, as `compare` takes it."""
        start, stop = self._range(stretch)
        return {column: found[start:stop].copy() for column, found in self.digests().items()}

    def compare(self, stretch: Stretch, found: Found) -> None:
        """Compare what a stretch held elsewhere with what was read before, and remember it."""
        differing = self._windows.digests.merge(found, self._range(stretch)[0])
        if differing is not None:
            raise self._windows.changed(stretch.file, f'other entries of column "{differing[0]}"')

    def _range(self, stretch: Stretch | None) -> tuple[int, int]:
        """The first block of a stretch or of the log, and the one behind the last."""
        if stretch is None:
            return 0, len(self._windows)
        start = self._windows.number((stretch.file, stretch.blocks.start))
        return start, start + len(stretch.blocks)

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, Parts]]:
        """The rows of blocks, from `start` to before `stop`."""
        index, outline = self._index, self._outline
        link = int(index.links[start])
        skipped = 0
        if link == COMPARED:  # what is compared stands in the block before
            start, skipped = start - 1, 1
        goes_on = link == LINKED
        for window in self._windows.read(self._columns(), start, stop, wrapped=self._first, below=self._looks_below):
            rows = Assembly(outline, window.table, window.first, window.rows, self._known)
            found = shape(rows, window, int(index.codes[window.block]))
            parts, goes_on = rows.parts(successors(found, outline, index.usual), found.codes, goes_on)
            if skipped:
                skipped -= 1
            else:
                yield window.block, parts

    @property
    def _looks_below(self) -> bool:
        """Whether something about a row stands in the row below."""
        roles = self._roles
        structural = (roles.trajectory, roles.time, roles.terminated, roles.truncated)
        told = any(column is not None for column in structural)
        return told or not self._outline.has_next or self._settings.reward_lag > 0

    def _columns(self) -> list[str]:
        """All but the time where no trajectory is cut."""
        roles = self._roles if self._index.usual is not None else replace(self._roles, time=None)
        return roles.columns()

    def __len__(self) -> int:
        return int(self._index.before[-1])

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_loaded": None}

    def __repr__(self) -> str:
        return f"Streamed({len(self)} transitions, {self.num_rows} rows)"


@dataclass(frozen=True)
class BlockIndex:
    """What is known of a log before its blocks are read.

    Attributes:
        before: transitions before every block, and in all, `[blocks + 1]`.
        codes: the trajectory of every block's first row, `[blocks]`.
        links: whether that row goes on from the row before, `[blocks]`.
        usual: the usual step in time of every trajectory; None: no trajectory is cut.
        lengths: transitions of every trajectory that has some; None: the log has neither ids nor flags.
        levels: the sorted labels of every column of labels, by role and column.
        tally: what became of the rows.
    """

    before: Rows
    codes: Rows
    links: NDArray[np.int8]
    usual: NDArray[np.float64] | None
    lengths: Rows | None
    levels: LevelsOfRoles
    tally: Tally


class Shape(NamedTuple):
    """What ids, flags and times say about a window; codes, ids and times have an entry for the row below."""

    codes: NDArray[np.int64] | None
    ids: Encoded | None
    time: NDArray[Any] | None
    structure: Structure


def shape(rows: Assembly, window: Window, code: int) -> Shape:
    """`code`: the trajectory of the window's first row."""
    terminated, truncated = rows.flags()
    ids, codes = rows.ids(), None
    if ids is not None:
        codes = ids.codes + np.int64(code)
    elif terminated is not None or truncated is not None:
        none = np.zeros(window.table.num_rows, dtype=np.bool_)
        ended = (none if terminated is None else terminated) | (none if truncated is None else truncated)
        codes = episodes(ended) + np.int64(code)
    lost = rows.outline.lost(window.first, window.rows)
    structure = find_structure(window.rows, codes, terminated, truncated, lost, window.is_last)
    return Shape(codes, ids, rows.time(), structure)


def successors(found: Shape, outline: Outline, usual: NDArray[np.float64] | None) -> Successors:
    """What becomes of the rows of a window, where the usual steps are known."""
    structure = found.structure
    cut = np.zeros(len(structure.ended), dtype=np.bool_)
    if usual is not None and found.time is not None and outline.settings.gap is not None:
        at, steps = steps_within(found.time, structure.ends_steps)
        codes = np.zeros(len(at), dtype=np.int64) if found.codes is None else found.codes[at]
        cut[at] = are_long(steps, usual[codes], outline.settings.gap)
    return find_successors(structure, cut, outline.has_next, outline.settings)


def index_blocks(outline: Outline, windows: Windows, *, quiet: bool) -> BlockIndex:
    """Read what tells the structure of a log: once, and again where trajectories have gaps in time."""
    roles = outline.roles
    structural = [roles.trajectory, roles.time, roles.terminated, roles.truncated]
    columns = [column for column in dict.fromkeys(structural) if column is not None]
    labelled = _Labels(outline)
    first = _Walk(outline, windows)
    order = _Order(outline)
    steps = None
    gap = outline.settings.gap
    if roles.time is not None and gap is not None:
        steps = UsualSteps(gap, lambda: _many_steps(outline))
    acted = () if outline.settings.action_bounds is None else roles.action.columns
    cut_actions = 0
    if not columns and not labelled.columns and not acted:
        first.skip()
        return first.index(labelled.levels())
    rows = sum(windows.file_rows)
    with row_progress("structure", total=rows, quiet=quiet) as advance:
        for window in windows.read(list(dict.fromkeys((*columns, *labelled.columns, *acted)))):
            table = Assembly(outline, window.table, window.first, window.rows)
            found = first.add(table, window)
            order.add(found, window)
            if steps is not None and found.time is not None:
                at, taken = steps_within(found.time, found.structure.ends_steps)
                steps.add(taken, np.zeros(len(at), dtype=np.int64) if found.codes is None else found.codes[at])
            labelled.add(table)
            if acted:
                table.actions()
                cut_actions += table.cut_actions or 0
            advance(window.rows)
    order.finish()
    first.tally.cut_actions = cut_actions if acted else None
    levels = labelled.levels()
    usual = None if steps is None else steps.finish(first.tally.counts["trajectories"])
    if usual is None:
        return first.index(levels)
    again = _Walk(outline, windows, usual)
    with row_progress("gaps in time", total=rows, quiet=quiet) as advance:
        for window in windows.read(columns):
            again.add(Assembly(outline, window.table, window.first, window.rows), window)
            advance(window.rows)
    again.tally.cut_actions = first.tally.cut_actions
    return again.index(levels)


def _many_steps(outline: Outline) -> InputError:
    place = ColumnPlace(outline.name, outline.roles.time or "", outline.files, written=outline.written)
    return place.error(
        "must have at most 2**20 different steps in a trajectory, for gaps to be found in a log of this size",
        "more",
        Sentence("round the times, or {give} {none}, which does not cut", give=GIVE, none=NO_GAPS),
    )


class _Walk:
    """Counts transitions, trajectories and links from block to block."""

    def __init__(self, outline: Outline, windows: Windows, usual: NDArray[np.float64] | None = None) -> None:
        self._outline, self._windows, self._usual = outline, windows, usual
        self.tally = Tally()
        self._kept = np.zeros(len(windows), dtype=np.int64)
        self._codes = np.zeros(len(windows) + 1, dtype=np.int64)
        self._links = np.zeros(len(windows) + 1, dtype=np.int8)
        self._lengths: list[tuple[int, Rows]] = []

    def add(self, rows: Assembly, window: Window) -> Shape:
        block = window.block
        code = int(self._codes[block])
        found = shape(rows, window, code)
        then = successors(found, self._outline, self._usual)
        self.tally.add(found.structure, then)
        self._kept[block] = np.count_nonzero(then.keep)
        self._links[block + 1] = LINKED if then.linked[-1] else APART
        if len(then.compared) and then.compared[-1] == window.rows - 1:
            self._links[block + 1] = COMPARED
        if found.codes is not None:
            self._codes[block + 1] = found.codes[-1]
            self._lengths.append((code, np.bincount(found.codes[: window.rows][then.keep] - code)))
        return found

    def skip(self) -> None:
        """The log tells nothing: all rows are one piece, but for files that were left out."""
        outline, first = self._outline, 0
        for block in range(len(self._windows)):
            rows, is_last = self._windows.rows(block), block == len(self._windows) - 1
            lost = outline.lost(first, rows)
            first += rows
            if not is_last and not lost[-1]:
                self.tally.add_plain(rows)
                self._kept[block], self._links[block + 1] = rows, LINKED
                continue
            structure = find_structure(rows, None, None, None, lost, is_last)
            then = find_successors(structure, np.zeros_like(lost), outline.has_next, outline.settings)
            self.tally.add(structure, then)
            self._kept[block] = np.count_nonzero(then.keep)

    def index(self, levels: LevelsOfRoles) -> BlockIndex:
        lengths = None
        if self._lengths:
            lengths = np.zeros(self.tally.counts["trajectories"], dtype=np.int64)
            for code, counts in self._lengths:
                lengths[code : code + len(counts)] += counts
            lengths = lengths[lengths > 0]
        before = np.append(0, np.cumsum(self._kept))
        return BlockIndex(before, self._codes[:-1], self._links[:-1], self._usual, lengths, levels, self.tally)


class _Labels:
    """The labels of every column that holds such, window by window."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        schema, roles = outline.schema, outline.roles
        after = () if roles.next_observation is None else roles.next_observation.columns
        self._groups: dict[str, dict[str, tuple[str, ...]]] = {"observation": {}, "action": {}}
        for place, (name, kind) in enumerate(zip(schema.observation.columns, schema.observation.kinds)):
            if kind == "category":
                self._groups["observation"][name] = (name, *after[place : place + 1])  # with its next column
        for name, kind in zip(schema.action.columns, schema.action.kinds):
            if kind == "category":
                self._groups["action"][name] = (name,)
        self._levels = {role: {name: Levels() for name in groups} for role, groups in self._groups.items()}
        self.columns = [column for groups in self._groups.values() for group in groups.values() for column in group]

    def add(self, rows: Assembly) -> None:
        for role, groups in self._groups.items():
            for name, group in groups.items():
                places = [rows.place(column) for column in group]
                columns = [unlisted(rows.column(column), place) for column, place in zip(group, places)]
                self._levels[role][name].add(columns, places)

    def levels(self) -> LevelsOfRoles:
        log, files = self._outline.name, self._outline.files
        return {
            role: {name: levels.sorted(ColumnPlace(log, name, files)) for name, levels in found.items()}
            for role, found in self._levels.items()
        }


@dataclass
class _Order:
    """Whether the rows of a trajectory are together and in order of time; else the log cannot be read in blocks."""

    outline: Outline
    _ids: list[pa.Array] = field(default_factory=list)
    _starts: list[Rows] = field(default_factory=list)
    _checked: int = 0
    _back: int | None = None  # the first row that is earlier than the one before, of another episode
    _times: NDArray[Any] | None = None
    _repeats: bool = False

    def add(self, found: Shape, window: Window) -> None:
        if found.ids is not None:
            self._add_ids(found.ids, window)
        if found.time is not None:
            self._add_times(found.time, found.structure, window)

    def finish(self) -> None:
        self._check_ids()
        if self._back is not None and not self._repeats:
            raise self._unsorted(self.outline.roles.time or "", "increase", "an earlier time", self._back)

    def _add_ids(self, ids: Encoded, window: Window) -> None:
        starts = np.flatnonzero(ids.codes[1:] != ids.codes[:-1]) + 1
        again = np.flatnonzero(ids.codes[1:] < ids.codes[:-1])
        if len(again):
            raise self._apart(window.first + int(again[0]) + 1)
        new = slice(0 if window.block == 0 else 1, None)  # the first row was the row below before
        self._ids.append(ids.values[new])
        self._starts.append(window.first + np.append(0, starts)[new])
        if sum(map(len, self._ids)) > 2 * self._checked + _CHECKED:
            self._check_ids()

    def _check_ids(self) -> None:
        """Every id begins once."""
        if not self._ids:
            return
        ids = pa.concat_arrays(self._ids)
        self._ids, self._starts, self._checked = [ids], [np.concatenate(self._starts)], len(ids)
        codes = ids.dictionary_encode().indices.to_numpy()
        again = np.flatnonzero(codes != np.arange(len(codes)))
        if len(again):
            raise self._apart(int(self._starts[0][again[0]]))

    def _apart(self, row: int) -> InputError:
        what = "keep the rows of a trajectory together"
        return self._unsorted(self.outline.roles.trajectory or "", what, "a trajectory that comes back", row)

    def _add_times(self, time: NDArray[Any], found: Structure, window: Window) -> None:
        ends = found.ends_trajectory[: len(time) - 1]
        late = time[1:] > time[:-1]
        wrong = np.flatnonzero(~late & ~ends)
        if len(wrong):
            row = int(wrong[0])
            if time[row] == time[row + 1]:
                raise disorder(self.outline, DisorderError("equal", None, window.first + row), are_equal=False)
            what, got = "increase within a trajectory", "an earlier time"
            raise self._unsorted(self.outline.roles.time or "", what, got, window.first + row + 1)
        roles = self.outline.roles
        if roles.trajectory is not None or (roles.terminated is None and roles.truncated is None):
            return
        back = np.flatnonzero(~late)
        if self._back is None and len(back):
            self._back = window.first + int(back[0]) + 1
        self._look_for_repeats(time[: window.rows])

    def _look_for_repeats(self, time: NDArray[Any]) -> None:
        """Times that are all different order a log without ids as a whole; one that occurs twice belongs to an episode."""
        if self._repeats:
            return
        own = np.unique(time)
        seen = own[:0] if self._times is None else self._times
        self._repeats = len(own) < len(time) or bool(np.isin(own, seen).any())
        if len(seen) < _SEEN:
            self._times = np.union1d(seen, own)

    def _unsorted(self, column: str, rule: str, got: str, row: int) -> InputError:
        outline = self.outline
        words = ["cesaro", "sort", outline.given or outline.name]
        if outline.roles.trajectory is not None:
            words += ["--trajectory", outline.roles.trajectory]
        if outline.roles.time is not None:
            words += ["--time", outline.roles.time]
        words += ["--skip-bad-files"] * outline.skips
        place = ColumnPlace(outline.name, column, outline.files, written=outline.written)
        return place.error(
            f"must {rule}, where the log is too large to be sorted in memory",
            f"{got} at {place.row(row)}",
            Sentence(
                "sort it: {command}, or, if there is enough memory, read it as a whole ({held})",
                command=shlex.join([*words, "--out", "SORTED.parquet"]),
                held=Wording("stream=False, --no-stream", "--no-stream"),
            ),
        )
