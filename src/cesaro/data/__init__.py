"""Logs: rows of a continuing system as transitions, in blocks that do not depend on how the log is read.

A `Log` is a handle: a source of columns, the roles that these play, and settings. It opens to rows in memory (`Transitions`) or,
where it is large, to windows of its files (`Streamed`). Both are an `OpenedLog` and hand out the same blocks; an opened log opens
to itself, so that `Transitions` can stand wherever a log can.

```
                 source + roles + settings               columns → rows                in blocks
read(…) ──▶ Log ──────────────────────────▶ opened() ─┬─▶ Transitions (all rows at once) ─┬─▶ Block, Block, … ──▶ passes
                                                      └─▶ Streamed (window by window) ────┘
```

Its modules, from the top:

- `reader`: `read`, and the handle that it gives.
- `sources/`: where columns come from, one file per format, and the table of formats.
- `roles`, `settings`: which column plays which part, as number or label; how rows become transitions.
- `log`: `Log`, `OpenedLog` and the `Origin` of both. `blocks`: `Block`, and what passes need of rows in blocks (`RowBlocks`).
- `transitions`: in memory, where rows can be sorted and left out. `streamed`: in windows, whose order, ends and labels are found
  first. `windows`: files by blocks, each compared with what it was.
- `assemble`: from the columns of some rows, all or a window, to transitions. It converts them by `columns` (numbers), `labels`
  (labels, flags, ids, times) and `texts` (numbers and dates that are written as text), into `values`.
- `continuing`, `gaps`: order, ends of episodes, gaps in time, and the successor of every row, on arrays alone.
- `clocks`: columns that advance by themselves.
- `notes`: what was done to the rows, counted and in sentences.
- `sorting`: a log that is larger than memory, sorted on disk. `shuffled`: its rows in random order.
"""

from cesaro.data.blocks import Block, Sample, Stretch
from cesaro.data.log import Log
from cesaro.data.reader import read
from cesaro.data.sorting import sort
from cesaro.data.transitions import FeatureTransitions, Transitions
from cesaro.data.values import Categories, Values

__all__ = [
    "Block",
    "Categories",
    "FeatureTransitions",
    "Log",
    "Sample",
    "Stretch",
    "Transitions",
    "Values",
    "read",
    "sort",
]
