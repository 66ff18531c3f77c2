"""A log that is read in blocks, again and again; what it holds in memory does not grow with its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data import log as logs
from cesaro.data.account import account, reject_empty, reject_nothing_left
from cesaro.data.assemble import Assembly, Outline, no_weight
from cesaro.data.columns import basic_type, is_list, list_width, unwrapped
from cesaro.data.log import Block, Log, Sample, Stretch, sample_rows
from cesaro.data.parts import Parts, joined
from cesaro.data.role_values import Known
from cesaro.data.roles import Roles
from cesaro.data.schema import Schema, describe
from cesaro.data.settings import Settings
from cesaro.data.skeleton import COMPARED, LINKED, find_skeleton, shape, successors
from cesaro.data.sources import Source
from cesaro.data.unused import unused_ids
from cesaro.data.windows import Windows


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
        super().__init__(source, roles, kinds, settings, notes, unused)
        types = source.piece_types(roles, kinds)  # first: it settles the files
        self._schema = describe(self.name, roles, types, kinds, settings)
        rows = source.file_rows()
        reject_empty(self.name, sum(rows))
        windows = Windows(source, rows, logs.BLOCK_ROWS)
        files = tuple(zip(source.files or (), rows))
        told = (windows.missing, source.given, source.holes, bool(source.skipped))
        self._outline = Outline(self.name, roles, kinds, settings, self._schema, files, *told)
        self._windows = windows
        self._first = next(windows.read(roles.columns(), 0, 1, below=False)).table.take([0])
        self._skeleton = find_skeleton(self._outline, windows, quiet=quiet)
        widths = self._widths()
        self._known = {role: Known(levels, widths) for role, levels in self._skeleton.levels.items()}
        tally = self._skeleton.tally
        self._counts = tally.counts | {"files": len(files)}
        reject_nothing_left(self.name, self._counts, self._outline.has_next, settings)
        said = account(tally, self._outline.has_next, settings)
        self._told = (*source.notes, *notes, *unused_ids(source, unused), *said)
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
        assert self._schema is not None
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
        return self._skeleton.levels["action"].get(self._roles.action.columns[0])

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return logs.stretches(self._windows.file_rows)

    @property
    def lengths(self) -> NDArray[np.int64] | None:
        return self._skeleton.lengths

    def opened(self, *, quiet: bool = True) -> "Streamed":
        return self

    def blocks(self, stretch: Stretch | None = None) -> Iterator[Block]:
        start, stop = 0, len(self._windows)
        if stretch is not None:
            start = self._windows.number((stretch.file, stretch.blocks.start))
            stop = start + len(stretch.blocks)
        for block, parts in self._parts(start, stop):
            if len(parts.kept):
                before = int(self._skeleton.before[block])
                yield parts.block(self._windows.key(block), np.arange(len(parts.kept)), before)

    def sample(self, random_state: int) -> Sample:
        index = sample_rows(len(self), random_state)
        places = np.searchsorted(self._skeleton.before, index, side="right") - 1
        found = []
        wanted = np.unique(places)
        for run in np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1):
            for block, parts in self._parts(int(run[0]), int(run[-1]) + 1):
                before = int(self._skeleton.before[block])
                low, high = np.searchsorted(places, (block, block + 1))
                if low < high:
                    found.append(parts.block((0, 0), index[low:high] - before, before))
        return Sample(index, joined(found))

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, Parts]]:
        """The rows of blocks, from `start` to before `stop`."""
        skeleton, outline = self._skeleton, self._outline
        link = int(skeleton.links[start])
        skipped = 0
        if link == COMPARED:  # what is compared stands in the block before
            start, skipped = start - 1, 1
        goes_on = link == LINKED
        for window in self._windows.read(self._columns(), start, stop, wrapped=self._first, below=self._looks_below):
            rows = Assembly(outline, window.table, window.first, window.rows, self._known)
            found = shape(rows, window, int(skeleton.codes[window.block]))
            parts, goes_on = rows.parts(successors(found, outline, skeleton.usual), found.codes, goes_on)
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
        roles = self._roles if self._skeleton.usual is not None else replace(self._roles, time=None)
        return roles.columns()

    def __len__(self) -> int:
        return int(self._skeleton.before[-1])

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_loaded": None}

    def __repr__(self) -> str:
        return f"Streamed({len(self)} transitions, {self.num_rows} rows)"
