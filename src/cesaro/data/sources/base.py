"""A source: where the columns of a log come from. It knows its columns at once and gives their data on demand."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cesaro.data.columns import as_times, basic_type, is_plain_text
from cesaro.data.roles import RoleColumns, Roles
from cesaro.errors import CesaroError, InputError, is_out_of_memory
from cesaro.text import Sentence, redacted, visible

Files = tuple[tuple[str, int], ...]
PLACES = 8  # of an excerpt


class UnreadableError(InputError):
    """A file cannot be opened, or its data cannot be decoded; `reason` says why, in the parser's words."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class ChangedError(InputError):
    """A file is not what it was when it was read before; `file` is its name."""

    def __init__(self, log: str, got: str, file: str) -> None:
        super().__init__(f"{log} must not change while it is read. Got {got}; run it again when it is complete.")
        self.file = file


class Source(ABC):
    """Columns of a log, read as a whole; `FilesSource` can be read in pieces, too.

    Attributes:
        name: what messages call it.
        given: the path or address that it was opened by, without credentials; None: it was none.
        names: its columns.
        types: their Arrow types; None where only the data tell.
        is_text: whether every entry is text in the file, so that the type of a column is what its entries look like.
        options: settings that the log itself carries, such as `on_termination`.
        roles, kinds: what the format itself says about its columns; the caller's choice goes before.
    """

    given: str | None = None
    types: pa.Schema | None = None
    is_text: ClassVar[bool] = False

    def __init__(self, name: str, names: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.names = tuple(names)
        self.options: Mapping[str, Any] = options or {}
        self.roles: Mapping[str, Any] = {}
        self.kinds: Mapping[str, str] = {}
        check_names(name, self.names)

    @property
    def num_rows(self) -> int | None:
        """The number of rows; None where only the data tell."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on how it was read."""
        return ()

    @property
    def holes(self) -> tuple[int, ...]:
        """Places among the files before which one was left out."""
        return ()

    @abstractmethod
    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        """The columns of `roles`, in file order, and the files with their rows."""

    def head(self, columns: Sequence[str], rows: int) -> pa.Table | None:
        """The first rows of some columns, unchecked; None where a look would cost too much.

        Whatever goes wrong may be raised: it is a look at columns that nobody asked for, and no look will do.
        """
        return None

    def excerpt(self, rows: int) -> pa.Table:
        """Every column that can be read, used or not: all rows, or some contiguous ones where there are more than `rows`.

        Text that holds times is read as such.
        """
        table = self._excerpt(rows)
        for place, field in enumerate(table.schema):
            kind = basic_type(field.type)
            times = as_times(table[place].cast(kind)) if is_plain_text(kind) else None
            if times is not None:
                table = table.set_column(place, field.name, times)
        return table

    def _excerpt(self, rows: int) -> pa.Table:
        """The rows of `excerpt`, with the types that the columns have."""
        try:
            table = self.table(every_column(self.names), {})[0]
        except InputError:
            table = pa.table({name: column for name in self.names for column in self._readable(name)})
        return spread(table, rows)

    def _readable(self, name: str) -> list[pa.ChunkedArray]:
        """One column, or none where it cannot be read."""
        try:
            return [self.table(every_column([name]), {})[0][name]]
        except InputError:
            return []

    def stamps(self) -> dict[str, str]:
        """Per file its size and the time of its last change; empty where these do not tell whether the log is the same."""
        return {}

    def written(self, file: int, row: int, column: str) -> tuple[int, str] | None:
        """The line of a file that holds an entry, and its text, for messages about other mistakes.

        Never raises: None if the file is no text, or if in doubt.
        """
        return None


def every_column(names: Sequence[str]) -> Roles:
    """Roles that use every column."""
    return Roles(RoleColumns(tuple(names)), RoleColumns(()), names[0])


def spread(table: pa.Table, rows: int) -> pa.Table:
    """All rows, or about `rows` together, contiguous ones at `PLACES` places."""
    if len(table) <= rows:
        return table
    starts = np.linspace(0, len(table) - rows // PLACES, PLACES).astype(int)
    return pa.concat_tables([table.slice(start, rows // PLACES) for start in starts.tolist()])


def check_names(log: str, names: Sequence[str]) -> None:
    """Refuse a log without columns, or with two columns of one name."""
    if not names:
        raise InputError(f"{log} must have columns. Got none; write the log again.")
    seen = set()
    for name in names:
        if name in seen:
            shown = visible(name)
            raise InputError(f'{log} must have different column names. Got "{shown}" twice; rename one of the two.')
        seen.add(name)


@contextmanager
def reading(
    name: str,
    what: str,
    *families: type[Exception],
    remedy: str = "check that it is complete and has the format its name says",
    address: str = "",
) -> Iterator[None]:
    """Whatever a parser says about a broken input becomes one sentence, without the credentials of `address`.

    Where memory ran out nothing is known about the input: that stays a MemoryError.
    """
    try:
        yield
    except CesaroError:
        raise
    except (pa.ArrowException, OSError, ValueError, MemoryError, *families) as error:
        said = visible(redacted(" ".join(str(error).split()).rstrip("."), address)) or type(error).__name__
        said = said if len(said) <= 200 else said[:197] + "…"
        if is_out_of_memory(error):
            raise MemoryError(said if name in said else f"{visible(name)}: {said}") from None
        sentence = "{name} must be {what}. Got: {said}; {remedy}."
        raise UnreadableError(
            Sentence(sentence, name=visible(name), what=what, said=said, remedy=remedy), said
        ) from None
