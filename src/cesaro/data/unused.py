"""Columns that were not used although they could say which rows belong together, or in which order."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cesaro.data.columns import as_times, basic_type, is_plain_text, is_text
from cesaro.data.dates import digits, orders
from cesaro.data.misfits import is_number
from cesaro.data.roles import DEFAULTS, DONE, WEIGHTS, Roles
from cesaro.data.sources import Source
from cesaro.errors import CesaroError
from cesaro.text import Sentence, Wording, option, visible

_ROWS, _ENTRIES = 1 << 18, 1 << 22  # as many are looked at
_REPEATS = 10  # an id has at least as many rows, on average
_NAMED = 3
_TIMES = 1_000  # rows that tell whether a column holds times
# What stands for another role was left out on purpose.
_OTHERS = {*DONE, *WEIGHTS, *(name for role, names in DEFAULTS.items() if role != "trajectory" for name in names)}


def possible_ids(names: Sequence[str], roles: Roles) -> tuple[str, ...]:
    """Columns without a role, where the log is taken as one trajectory for want of ids, flags and next observations."""
    told = (roles.trajectory, roles.terminated, roles.truncated, roles.next_observation)
    if any(role is not None for role in told):
        return ()
    used = set(roles.columns())
    return tuple(name for name in names if name not in used and name not in _OTHERS)


def possible_times(names: Sequence[str], roles: Roles) -> tuple[str, ...]:
    """Columns without a role, where rows of a trajectory are taken in the order of the file."""
    if roles.trajectory is None or roles.time is not None or roles.next_observation is not None:
        return ()
    used = set(roles.columns())
    return tuple(name for name in names if name not in used)


def unused_notes(source: Source, roles: Roles, columns: Sequence[str]) -> list[str]:
    """A sentence where some of these columns look like ids, or like times where ids are known. Bad ones are no error.

    Ids are text or whole numbers that repeat.
    """
    is_known = roles.trajectory is not None
    if source.types is not None and not is_known:
        columns = [name for name in columns if _may_be_id(source.types.field(name).type)]
    if not columns:
        return []
    most = _TIMES if is_known else min(_ROWS, _ENTRIES // len(columns))
    try:
        head = source.head(columns, most)
        found = [name for name in columns if head is not None and (_is_time if is_known else _is_id)(head[name])]
    except MemoryError:
        raise
    except (CesaroError, pa.ArrowException, OSError, ValueError):
        return []
    return [] if not found else [_of_times(found[0])] if is_known else [_sentence(found)]


def _is_time(column: pa.ChunkedArray) -> bool:
    kind = basic_type(column.type)
    if column.null_count or not len(column):
        return False
    if not is_plain_text(kind):
        return pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    texts = column.cast(kind).unique().to_pylist()
    if all(text.isascii() and text.isdigit() and len(text) <= 14 for text in texts):
        return bool(digits(np.array(texts, dtype=np.int64)))
    return as_times(column.cast(kind)) is not None or all(map(orders, texts))


def _of_times(column: str) -> str:
    name = visible(column)
    return Sentence(
        'Rows of a trajectory were taken in the order of the file; column "{column}" holds times and was not used: to order '
        "rows by it, give {time}.",
        column=name,
        time=Wording(f'time="{name}" (--time {name})', option("time", name)),
    )


def _may_be_id(kind: pa.DataType) -> bool:
    basic = basic_type(kind)
    return is_text(basic) or pa.types.is_integer(basic)


def _is_id(column: pa.ChunkedArray) -> bool:
    if not _may_be_id(column.type) or column.null_count:
        return False
    levels = column.unique()
    if not 2 <= len(levels) <= len(column) // _REPEATS:
        return False
    # A CSV file is looked at as text.
    return not is_text(basic_type(column.type)) or not any(map(_is_other, levels.to_pylist()))


def _is_other(level: str | bytes) -> bool:
    """Missing, a flag or a number that is not whole."""
    text = level.decode(errors="replace") if isinstance(level, bytes) else level
    if text.strip().lower() in ("", "true", "false"):
        return True
    return is_number(text) and not text.strip().lstrip("+-").isdigit()


def _sentence(names: Sequence[str]) -> str:
    if len(names) == 1:
        name = visible(names[0])
        given = Wording(f'trajectory="{name}" (--trajectory {name})', option("trajectory", name))
        return Sentence(
            'The log was taken as one trajectory; column "{column}" was not used: if it names trajectories, give {trajectory}.',
            column=name,
            trajectory=given,
        )
    shown = visible(", ".join(f'"{name}"' for name in names[:_NAMED]))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return Sentence(
        "The log was taken as one trajectory; columns {columns} were not used: if one of them names trajectories, give "
        "{trajectory}.",
        columns=f"{shown}{more}",
        trajectory=Wording("trajectory= (--trajectory)", "--trajectory COLUMN"),
    )
