"""CSV files: what separates columns and decimals, and text that is more likely a mistake than a label."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cesaro.data.columns import EXACT, empty
from cesaro.data.roles import Roles
from cesaro.data.sources import Files, Source, reading
from cesaro.errors import InputError

_HEADER = 65_536  # bytes
_SEMICOLONS = "Semicolons separate the columns, as in the header of the file."
_DECIMALS = "Semicolons separate the columns, as in the header of the file, and decimal commas are read as such."
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)([eE][+-]?\d+)?")  # a number with a decimal comma


class CsvSource(Source):
    """A CSV file with a header; types come from the whole column, ids stay text.

    Columns are separated by commas, or by semicolons where the header has these and no commas; `notes` says so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decimal = "."
        with reading(path.name, "a CSV file with a header"):
            self._separator = _separator(path)
            with pyarrow.csv.open_csv(path, **self._options()) as opened:
                names = opened.schema.names
        self.notes = (_SEMICOLONS,) if self._separator == ";" else ()
        super().__init__(path.name, names)

    def _options(self) -> dict[str, Any]:
        return {"parse_options": pyarrow.csv.ParseOptions(delimiter=self._separator)}

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        text = {roles.trajectory} if roles.trajectory is not None else set()
        owners = _owners(roles)
        labels = text | {column for column, owner in owners.items() if kinds.get(owner) == "category"}
        self._decimal = "."
        self.notes = (_SEMICOLONS,) if self._separator == ";" else ()
        table = self._read(roles.columns(), text)
        if self._separator == ";" and self._has_decimal_commas(table, labels):
            self._decimal, self.notes = ",", (_DECIMALS,)
            table = self._with_labels(self._read(roles.columns(), text), table, labels)
        large = {column for column in roles.columns() if _has_large_whole(table[column])}
        exact = {column for column in large if kinds.get(column) == "category"}
        if exact:
            table = self._with_labels(self._read(roles.columns(), text | exact), table, labels - exact)
        for column in (*roles.observation.columns, *roles.action.columns):
            if column in large - exact and kinds.get(column) is None:
                raise InputError(
                    f'{self.name}: column "{column}" must be clear about its kind. Got whole numbers over 2**53; pass '
                    f'kinds={{"{column}": "category"}} for ids or kinds={{"{column}": "number"}} for numbers.'
                )
        for column in table.column_names:
            if pa.types.is_string(table[column].type) and column not in exact:
                self._check_text(column, table[column], column in labels, owners.get(column))
        return table, ((self.name, len(table)),)

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        """As text, so that no later row can contradict the type of the first ones."""
        kinds = dict.fromkeys(columns, pa.string())
        convert = pyarrow.csv.ConvertOptions(include_columns=columns, column_types=kinds)
        with pyarrow.csv.open_csv(self._path, convert_options=convert, **self._options()) as opened:
            return first_rows(opened, rows)

    def _read(self, columns: Sequence[str], text: set[str]) -> pa.Table:
        convert = pyarrow.csv.ConvertOptions(
            include_columns=columns, column_types=dict.fromkeys(text, pa.string()), decimal_point=self._decimal
        )
        with reading(self.name, "a CSV file with a header"):
            return pyarrow.csv.read_csv(self._path, convert_options=convert, **self._options())

    def _with_labels(self, table: pa.Table, before: pa.Table, labels: set[str]) -> pa.Table:
        """Labels as they were read before: a comma or a point in them is no decimal mark."""
        for place, column in enumerate(table.column_names):
            if column in labels:
                table = table.set_column(place, column, before[column])
        return table

    def _has_decimal_commas(self, table: pa.Table, labels: set[str]) -> bool:
        """Whether a column that came out as text, and is not of labels, holds numbers alone, some with a decimal comma."""
        for column in table.column_names:
            if column not in labels and pa.types.is_string(table[column].type):
                levels = table[column].unique().to_pylist()
                if any(map(_has_comma, levels)) and all(is_number(level) or _has_comma(level) for level in levels):
                    return True
        return False

    def _check_text(self, column: str, values: pa.ChunkedArray, labels: bool, owner: str | None) -> None:
        """Empty text is a missing entry; numbers and text in one column are more likely a mistake than labels.

        `owner`: the column of the observation or the action whose kind decides; None where `kinds` has no say.
        """
        levels = values.unique().to_pylist()
        wrong = "" if "" in levels else None
        if wrong is None and not labels:
            self._check_decimals(column, levels, owner)
        if wrong is None and not labels:
            numbers = [level for level in levels if is_number(level)]
            others = [level for level in levels if not is_number(level)]
            wrong = others[0] if numbers and others else None
        if wrong is None:
            return
        row = pc.index(values, pa.scalar(wrong, values.type)).as_py()
        if wrong == "":
            count = pc.sum(pc.equal(values, "")).as_py()
            got, remedy = empty(f"row {row} (counted from 0)", count)
            raise InputError(f'{self.name}: column "{column}" must not have missing entries. Got {got}; {remedy}.')
        choice = "" if owner is None else f', or pass kinds={{"{owner}": "category"}} if these are labels'
        raise InputError(
            f'{self.name}: column "{column}" must hold numbers or text, not both. Got {wrong!r} at row {row} (counted '
            f"from 0); correct that entry{choice}."
        )

    def _check_decimals(self, column: str, levels: Sequence[str], owner: str | None) -> None:
        """Numbers whose decimal mark is not that of the file must not become labels."""
        other = "," if self._decimal == "." else "."
        if not all(is_number(level) or _has_comma(level) for level in levels):
            return
        wrong = next((level for level in levels if other in level), None)
        if wrong is None:
            return
        what = {",": "a decimal comma", ".": "a decimal point in a file whose other columns have decimal commas"}[other]
        choice = "" if owner is None else f', or pass kinds={{"{owner}": "category"}} if these are labels'
        remedy = "write it with a decimal point" if other == "," else "write all columns alike"
        raise InputError(
            f'{self.name}: column "{column}" must hold numbers that can be read. Got {wrong!r}, {what}; {remedy}{choice}.'
        )


def _separator(path: Path) -> str:
    """What separates the columns: what stands in the header, which is one column by any other."""
    if ".tsv" in path.name.lower():
        return "\t"
    with pa.input_stream(str(path), compression="detect") as stream:
        start = stream.read(_HEADER).decode("utf-8-sig", errors="replace")
    header = start.lstrip("\r\n")

    def fields(separator: str) -> int:
        try:
            return len(next(csv.reader(io.StringIO(header), delimiter=separator), ()))
        except csv.Error:  # the parser of the data will say what is wrong
            return 1

    return ";" if fields(",") <= 1 < fields(";") else ","


def _owners(roles: Roles) -> dict[str, str]:
    """Per column the column by which `kinds` names it: its own, or that of the observation for a next one."""
    used = (*roles.observation.columns, *roles.action.columns)
    after = () if roles.next_observation is None else zip(roles.next_observation.columns, roles.observation.columns)
    return dict(after) | dict(zip(used, used))


def _has_large_whole(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(column.type) or not len(column):
        return False
    values = column.to_numpy()
    finite = values[np.isfinite(values)]
    return bool(len(finite)) and bool(np.abs(finite).max() > EXACT) and bool((finite == np.round(finite)).all())


def _has_comma(text: str) -> bool:
    return _COMMA.fullmatch(text.strip()) is not None


def is_number(text: str) -> bool:
    """Whether Python reads it as one."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def first_rows(batches: Iterable[pa.RecordBatch], rows: int) -> pa.Table:
    """The first rows of what comes in batches, and no batch more than that takes."""
    found: list[pa.RecordBatch] = []
    for batch in batches:
        found.append(batch)
        if sum(map(len, found)) >= rows:
            break
    return pa.Table.from_batches(found).slice(0, rows)
