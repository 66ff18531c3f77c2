"""Columns that are text because of some entries, as the numbers or times that they are once these are corrected."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cesaro.data.columns import ColumnPlace, basic_type, is_plain_text
from cesaro.data.roles import DEFAULTS
from cesaro.data.sources.base import Source
from cesaro.data.sources.files import FilesSource
from cesaro.data.texts import MOST, NEARLY, Nearly, nearly_numbers, nearly_times
from cesaro.inspection.evidence import looked_at
from cesaro.inspection.names import REWARDS, TIMES, by_name, is_id, means, named_costs
from cesaro.text import option


@dataclass(frozen=True)
class Correction:
    """A correction that a column needs before it can be read."""

    place: ColumnPlace
    found: Nearly

    def message(self, is_choice: bool = False) -> str:
        """The sentence that `evaluate` says of it; `is_choice`: whether labels would do as well."""
        rule, got, remedy = self.found.complain(self.place.row(self.found.wrong))
        if is_choice:
            remedy += f", or give {option('kind', f'{self.place.column}=category')} if these are labels"
        return self.place.error(rule, got, remedy).message


@dataclass(frozen=True)
class Corrected:
    """The rows of a log as they are once some columns are corrected.

    Attributes:
        table: without the rows that have a wrong time.
        needed: what must be corrected in columns that the table has as numbers or times.
        possible: the same of columns that it has as text, which can be read as labels.
    """

    table: pa.Table
    needed: dict[str, Correction]
    possible: dict[str, Correction]


def corrected(source: Source, table: pa.Table, given: Mapping[str, tuple[str, ...]]) -> Corrected:
    """Read text as the numbers or times that it nearly is.

    Args:
        table: rows of the log.
        given: roles whose columns are known.
    """
    is_known = len(table) < looked_at(source) and not (isinstance(source, FilesSource) and len(source.files) > 1)
    kept = np.ones(len(table), dtype=np.bool_)
    needed: dict[str, Correction] = {}
    possible: dict[str, Correction] = {}
    outcomes = (*given.get("reward", ()), *given.get("cost", ()))
    for number, name in enumerate(table.column_names):
        kind = basic_type(table.schema.field(name).type)
        if not is_plain_text(kind) or name in given.get("trajectory", ()):
            continue
        texts = table[name].cast(kind)
        times, is_outcome = (
            nearly_times(texts, source.is_text),
            name in outcomes if outcomes else _sounds_like_outcome(name),
        )
        found = times or nearly_numbers(texts, MOST if is_outcome else NEARLY)
        if found is None:
            continue
        place = _Place(source.name, name, ((source.name, len(table)),), written=source.written, is_known=is_known)
        is_mixed = source.is_text and not found.fits.all() and not is_id(name)
        if not (is_outcome or is_mixed or times is not None or name in given.get("time", ())):
            possible[name] = Correction(place, found)
            continue
        needed[name] = Correction(place, found)
        table = table.set_column(number, name, found.values)
        if times is not None or means(name, TIMES):
            kept &= found.fits
    return Corrected(table if kept.all() else table.filter(pa.array(kept)), needed, possible)


@dataclass(frozen=True)
class _Place(ColumnPlace):
    """A column of rows that were looked at, whose numbers in the log may be unknown."""

    is_known: bool

    def row(self, index: int) -> str:
        return super().row(index) if self.is_known else "one of the rows that were looked at"


def _sounds_like_outcome(name: str) -> bool:
    return bool(by_name([name], (*DEFAULTS["reward"], *REWARDS)) or named_costs([name]))
