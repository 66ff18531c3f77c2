"""A log that is read in blocks, again and again; what it holds in memory does not grow with its rows.

Before its blocks can be read one by one, its order, its pieces and its labels must be known. Only the columns that tell them are
read for that, and what is kept grows with the number of blocks, trajectories and labels, not of rows.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cesaro.data.assemble import Assembly, KnownColumns, Outline, unlisted
from cesaro.data.blocks import AssembledRows, BlockLayout, Integers, Stretch
from cesaro.data.columns import basic_type, is_list, list_width, unwrapped
from cesaro.data.continuing import (
    DisorderError,
    Structure,
    Successors,
    episodes,
    find_structure,
    find_successors,
)
from cesaro.data.gaps import UsualSteps, are_long, steps_within
from cesaro.data.labels import Encoded, Levels
from cesaro.data.log import OpenedLog, Origin
from cesaro.data.notes import NO_GAPS, Tally, reject_empty, unused_notes
from cesaro.data.roles import describe
from cesaro.data.settings import Settings
from cesaro.data.sources.base import ChangedError
from cesaro.data.sources.files import FilesSource
from cesaro.data.transitions import Transitions, loaded
from cesaro.data.windows import ColumnDigests, Window, Windows
from cesaro.engines.local import has_many_cores, read_ahead
from cesaro.errors import InputError
from cesaro.progress import row_progress
from cesaro.text import GIVE, Sentence, Wording, switch

APART, LINKED, COMPARED = 0, 1, 2  # the first row of a block goes on from the row before: never, always, if they match
T = TypeVar("T")
LevelsOfRoles = dict[str, dict[str, NDArray[Any]]]
# Where there are many cores a thread decodes files, another one assembles their rows, and a third one cuts these into blocks,
# each so many ahead: whoever works on blocks waits for all of that.
STEPS_AHEAD = 2
_SEEN = 1 << 20  # times that are remembered, to see one of them again
_CHECKED = 1 << 16  # ids that are gathered before they are compared


class Streamed(OpenedLog):
    """A log in blocks. `cesaro.read` makes one of what is larger than memory should hold.

    Making one reads the columns that say which rows belong together, and those of labels. It can be sent to another
    process, which reads the blocks itself.
    """

    is_streamed = True

    def __init__(self, origin: Origin, *, quiet: bool = True) -> None:
        source, roles = origin.source, origin.roles
        assert isinstance(source, FilesSource)
        self.name, self.origin = source.name, origin
        _reject_drops(self.name, origin.settings)
        self._loaded: Transitions | None = None
        self.stamps = source.stamps()
        types = source.piece_types(roles, origin.kinds)  # first: it settles the files
        self._schema = describe(self.name, roles, types, origin.kinds, origin.settings)
        file_rows = source.file_rows()
        reject_empty(self.name, sum(file_rows))
        self._layout = BlockLayout(file_rows)
        self._windows = Windows(source, self._layout)
        files = tuple(zip(source.files.names, file_rows))
        self._outline = Outline(origin, self._schema, files, self._windows.missing)
        self._first = next(self._windows.read(roles.columns(), 0, 1, below=False)).table.take([0])
        self._index = index_blocks(self._outline, self._windows, self._layout, quiet=quiet)
        widths = self._widths()
        self._known = {role: KnownColumns(levels, widths) for role, levels in self._index.levels.items()}
        tally = self._index.tally
        self._counts = tally.counts | {"files": len(files)}
        tally.reject_nothing_left(self.name)
        unused = unused_notes(source, roles, origin.unused)
        self._notes = (*source.notes, *origin.notes, *unused, *tally.notes())
        if roles.weight is not None and not any(
            block.weights is None or block.weights.any() for block in self.blocks()
        ):
            raise self._outline.no_weight()

    def _widths(self) -> dict[str, int]:
        """The lengths of lists, as in the first row."""
        rows, roles = Assembly(self._outline, self._first), self._outline.origin.roles
        columns = (*roles.observation.columns, *roles.action.columns)
        listed = [name for name in columns if is_list(basic_type(self._first[name].type))]
        found = {name: unwrapped(self._first[name], rows.place(name)) for name in listed}
        return {name: list_width(column, rows.place(name)) for name, column in found.items() if not column.null_count}

    @property
    def action_levels(self) -> NDArray[Any] | None:
        return self._index.levels["action"].get(self._outline.origin.roles.action.columns[0])

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        return self._index.lengths

    def load(self) -> Transitions:
        if self._loaded is None:
            self._loaded = loaded(self._outline.origin)
        return self._loaded

    @property
    def _before(self) -> Integers:
        return self._index.before

    def _assembled(self, blocks: Sequence[int]) -> Iterator[tuple[Sequence[int], int, AssembledRows]]:
        for first, last in _runs(blocks):
            for block, rows in _ahead(self._assembled_run(first, last + 1)):
                yield [block], int(self._before[block]), rows

    def _assembled_run(self, start: int, stop: int) -> Iterator[tuple[int, AssembledRows]]:
        """The rows of consecutive blocks, from `start` to before `stop`."""
        index, roles = self._index, self._outline.origin.roles
        link = int(index.links[start])
        skipped = 0
        if link == COMPARED:  # what is compared stands in the block before
            start, skipped = start - 1, 1
        goes_on = link == LINKED
        columns = (roles if index.usual is not None else replace(roles, time=None)).columns()
        windows = self._windows.read(columns, start, stop, wrapped=self._first, below=self._looks_below)
        for window in _ahead(windows):
            rows = WindowAssembly(self._outline, window, self._known)
            found = rows.structure(int(index.codes[window.block]))
            assembled, goes_on = rows.assembled(found.successors(self._outline, index.usual), found.codes, goes_on)
            if skipped:
                skipped -= 1
            else:
                yield window.block, assembled

    @property
    def _looks_below(self) -> bool:
        """Whether something about a row stands in the row below."""
        origin = self._outline.origin
        return bool(origin.roles.structural) or not self._outline.has_next or origin.settings.reward_lag > 0

    def digests(self) -> ColumnDigests:
        return self._windows.digests.found

    def changed_since(self, before: ColumnDigests, *, reread: bool, quiet: bool = True) -> str | None:
        digests = self._windows.digests
        unread = {column: digests.unread(column, found) for column, found in before.items()} if reread else {}
        differing = digests.merge(before)
        if differing is not None:
            return self._outline.files[self._layout.key(differing[1])[0]][0]
        columns = [column for column, blocks in unread.items() if len(blocks)]
        again = np.unique(np.concatenate([np.empty(0, np.int64), *unread.values()])).tolist()
        rows = sum(map(self._layout.rows, again))
        try:
            with row_progress("comparing with the checkpoint", total=rows, quiet=quiet or not rows) as advance:
                for first, last in _runs(again):
                    for window in self._windows.read(columns, first, last + 1, below=False):
                        advance(window.rows)
        except ChangedError as error:
            return error.file
        return None

    def digests_of(self, stretch: Stretch) -> ColumnDigests:
        """Digests of what has been read of a stretch, as `compare` takes them."""
        blocks = self._layout.blocks(stretch)
        return {column: found[blocks.start : blocks.stop].copy() for column, found in self.digests().items()}

    def compare(self, stretch: Stretch, found: ColumnDigests) -> None:
        """Compare what a stretch held elsewhere with what was read before, and remember it."""
        differing = self._windows.digests.merge(found, self._layout.blocks(stretch).start)
        if differing is not None:
            raise self._windows.changed(stretch.file, f'other entries of column "{differing[0]}"')

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_loaded": None}

    def __repr__(self) -> str:
        return f"Streamed({len(self)} transitions, {self.num_rows} rows)"


def _reject_drops(log: str, settings: Settings) -> None:
    """Refuse what needs all rows at once."""
    dropped = {"drop_duplicates": "duplicates", "drop_incomplete": "incomplete rows"}
    for name, what in dropped.items():
        if getattr(settings, name):
            raise InputError.of(
                "{log}: {drop} needs a log that is held in memory. Got one that is read in blocks; {give} {held}, or remove "
                "the {what} from the file.",
                log=log,
                drop=switch(name),
                what=what,
                held=Wording("stream=False", "--no-stream"),
            )


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, made by a thread of their own where there are many cores."""
    return read_ahead(items, STEPS_AHEAD) if has_many_cores() else items


def _runs(blocks: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last of consecutive blocks, of increasing ones."""
    if not len(blocks):
        return []
    breaks = np.flatnonzero(np.diff(blocks) > 1)
    firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(blocks) - 1)
    return [(int(blocks[first]), int(blocks[last])) for first, last in zip(firsts, lasts)]


class WindowStructure(NamedTuple):
    """Ids, times and ends of episodes in a window; codes, ids and times have an entry more, for the row below."""

    codes: NDArray[np.int64] | None
    ids: Encoded | None
    time: NDArray[Any] | None
    rows: Structure

    def steps(self) -> tuple[Integers, NDArray[np.float64], Integers] | None:
        """Rows that do not end an episode, the time until the next row, and their trajectories; None: there are no times."""
        if self.time is None:
            return None
        at, steps = steps_within(self.time, self.rows.ends_steps)
        return at, steps, np.zeros(len(at), dtype=np.int64) if self.codes is None else self.codes[at]

    def successors(self, outline: Outline, usual: NDArray[np.float64] | None) -> Successors:
        """The fate of the rows, given the usual step of every trajectory; None: no trajectory is cut."""
        settings = outline.origin.settings
        cut = np.zeros(len(self.rows.ended), dtype=np.bool_)
        found = None if usual is None else self.steps()
        if usual is not None and found is not None and settings.gap is not None:
            at, steps, codes = found
            cut[at] = are_long(steps, usual[codes], settings.gap)
        return find_successors(self.rows, cut, outline.has_next, settings)


class WindowAssembly(Assembly):
    """The rows of a window, with the row below them."""

    by_column = True

    def __init__(self, outline: Outline, window: Window, known: Mapping[str, KnownColumns] | None = None) -> None:
        super().__init__(outline, window.table, window.first, window.rows, known)
        self._window = window

    def structure(self, code: int) -> WindowStructure:
        """The structure of the window; `code`: the trajectory of its first row."""
        window = self._window
        terminated, truncated = self.flags()
        ids, codes = self.ids(), None
        if ids is not None:
            codes = ids.codes + np.int64(code)
        elif terminated is not None or truncated is not None:
            none = np.zeros(window.table.num_rows, dtype=np.bool_)
            ended = (none if terminated is None else terminated) | (none if truncated is None else truncated)
            codes = episodes(ended) + np.int64(code)
        lost = self.outline.lost(window.first, window.rows)
        rows = find_structure(window.rows, codes, terminated, truncated, lost, window.is_last)
        return WindowStructure(codes, ids, self.time(), rows)


@dataclass(frozen=True)
class BlockIndex:
    """All that must be known of a log before its blocks can be read one by one.

    Attributes:
        before: transitions before every block, and in all, `[blocks + 1]`.
        codes: the trajectory of every block's first row, `[blocks]`.
        links: whether that row goes on from the row before, `[blocks]`.
        usual: the usual step in time of every trajectory; None: no trajectory is cut.
        lengths: transitions of every trajectory that has some; None: the log has neither ids nor flags.
        levels: the sorted labels of every column of labels, by role and column.
        tally: what became of the rows.
    """

    before: Integers
    codes: Integers
    links: NDArray[np.int8]
    usual: NDArray[np.float64] | None
    lengths: Integers | None
    levels: LevelsOfRoles
    tally: Tally


def index_blocks(outline: Outline, windows: Windows, layout: BlockLayout, *, quiet: bool) -> BlockIndex:
    """Read what tells the structure of a log: once, and again where trajectories have gaps in time."""
    roles, settings = outline.origin.roles, outline.origin.settings
    columns = list(dict.fromkeys(roles.structural))
    labelled, order, first = _Labels(outline), _OrderCheck(outline), _BlockWalk(outline, layout)
    steps = None
    if roles.time is not None and settings.gap is not None:
        steps = UsualSteps(settings.gap, lambda: _many_steps(outline))
    acted = () if settings.action_bounds is None else roles.action.columns
    cut_actions = 0
    if not columns and not labelled.columns and not acted:
        first.skip()
        return first.index(labelled.levels())
    with row_progress("structure", total=layout.num_rows, quiet=quiet) as advance:
        for window in windows.read(list(dict.fromkeys((*columns, *labelled.columns, *acted)))):
            rows = WindowAssembly(outline, window)
            found = first.add(rows, window)
            order.add(found, window)
            if steps is not None and (taken := found.steps()) is not None:
                steps.add(*taken[1:])
            labelled.add(rows)
            if acted:
                rows.actions()
                cut_actions += rows.cut_actions or 0
            advance(window.rows)
    order.finish()
    first.tally.cut_actions = cut_actions if acted else None
    levels = labelled.levels()
    usual = None if steps is None else steps.finish(first.tally.counts["trajectories"])
    if usual is None:
        return first.index(levels)
    again = _BlockWalk(outline, layout, usual)
    with row_progress("gaps in time", total=layout.num_rows, quiet=quiet) as advance:
        for window in windows.read(columns):
            again.add(WindowAssembly(outline, window), window)
            advance(window.rows)
    again.tally.cut_actions = first.tally.cut_actions
    return again.index(levels)


def _many_steps(outline: Outline) -> InputError:
    return outline.place(outline.origin.roles.time or "").error(
        "must have at most 2**20 different steps in a trajectory, for gaps to be found in a log of this size",
        "more",
        Sentence("round the times, or {give} {none}, which does not cut", give=GIVE, none=NO_GAPS),
    )


class _BlockWalk:
    """Counts transitions, trajectories and links from block to block."""

    def __init__(self, outline: Outline, layout: BlockLayout, usual: NDArray[np.float64] | None = None) -> None:
        self._outline, self._layout, self._usual = outline, layout, usual
        self.tally = Tally(outline.has_next, outline.origin.settings)
        self._kept = np.zeros(len(layout), dtype=np.int64)
        self._codes = np.zeros(len(layout) + 1, dtype=np.int64)
        self._links = np.zeros(len(layout) + 1, dtype=np.int8)
        self._lengths: list[tuple[int, Integers]] = []

    def add(self, rows: WindowAssembly, window: Window) -> WindowStructure:
        """Count the rows of the next block, and say what their structure is."""
        block = window.block
        code = int(self._codes[block])
        found = rows.structure(code)
        then = found.successors(self._outline, self._usual)
        self.tally.add(found.rows, then)
        self._kept[block] = np.count_nonzero(then.keep)
        self._links[block + 1] = LINKED if then.linked[-1] else APART
        if len(then.compared) and then.compared[-1] == window.rows - 1:
            self._links[block + 1] = COMPARED
        if found.codes is not None:
            self._codes[block + 1] = found.codes[-1]
            self._lengths.append((code, np.bincount(found.codes[: window.rows][then.keep] - code)))
        return found

    def skip(self) -> None:
        """Count all rows as one piece, but for files that were left out, where nothing tells their structure."""
        outline, layout = self._outline, self._layout
        for block in range(len(layout)):
            rows, is_last = layout.rows(block), block == len(layout) - 1
            lost = outline.lost(int(layout.starts[block]), rows)
            if not is_last and not lost[-1]:
                self.tally.add_plain(rows)
                self._kept[block], self._links[block + 1] = rows, LINKED
                continue
            found = WindowStructure(None, None, None, find_structure(rows, None, None, None, lost, is_last))
            then = found.successors(outline, None)
            self.tally.add(found.rows, then)
            self._kept[block] = np.count_nonzero(then.keep)

    def index(self, levels: LevelsOfRoles) -> BlockIndex:
        """All that was counted, once every block was."""
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
        schema, roles = outline.schema, outline.origin.roles
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
        """The sorted labels of every column, by role."""
        return {
            role: {name: levels.sorted(self._outline.place(name)) for name, levels in found.items()}
            for role, found in self._levels.items()
        }


@dataclass
class _OrderCheck:
    """Whether the rows of a trajectory are together and in order of time; else the log cannot be read in blocks."""

    outline: Outline
    _ids: list[pa.Array] = field(default_factory=list)
    _starts: list[Integers] = field(default_factory=list)
    _checked: int = 0
    _back: int | None = None  # the first row that is earlier than the one before, of another episode
    _times: NDArray[Any] | None = None
    _repeats: bool = False

    def add(self, found: WindowStructure, window: Window) -> None:
        if found.ids is not None:
            self._add_ids(found.ids, window)
        if found.time is not None:
            self._add_times(found.time, found.rows, window)

    def finish(self) -> None:
        self._check_ids()
        if self._back is not None and not self._repeats:
            raise self._unsorted(self.outline.origin.roles.time or "", "increase", "an earlier time", self._back)

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
        return self._unsorted(self.outline.origin.roles.trajectory or "", what, "a trajectory that comes back", row)

    def _add_times(self, time: NDArray[Any], found: Structure, window: Window) -> None:
        ends = found.ends_trajectory[: len(time) - 1]
        late = time[1:] > time[:-1]
        wrong = np.flatnonzero(~late & ~ends)
        if len(wrong):
            row = int(wrong[0])
            if time[row] == time[row + 1]:
                raise self.outline.disorder(DisorderError("equal", None, window.first + row), are_equal=False)
            what, got = "increase within a trajectory", "an earlier time"
            raise self._unsorted(self.outline.origin.roles.time or "", what, got, window.first + row + 1)
        roles = self.outline.origin.roles
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
        source, roles = self.outline.origin.source, self.outline.origin.roles
        words = ["cesaro", "sort", source.given or source.name]
        if roles.trajectory is not None:
            words += ["--trajectory", roles.trajectory]
        if roles.time is not None:
            words += ["--time", roles.time]
        if isinstance(source, FilesSource) and source.files.skipped:
            words.append("--skip-bad-files")
        place = self.outline.place(column)
        return place.error(
            f"must {rule}, where the log is too large to be sorted in memory",
            f"{got} at {place.row(row)}",
            Sentence(
                "sort it: {command}, or, if there is enough memory, read it as a whole ({held})",
                command=shlex.join([*words, "--out", "SORTED.parquet"]),
                held=Wording("stream=False, --no-stream", "--no-stream"),
            ),
        )
