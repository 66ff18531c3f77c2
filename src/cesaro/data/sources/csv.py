"""CSV files, by chunks of whole lines. The header tells what separates the columns; `csv_types.py` finds their types."""

import csv
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cesaro.data.roles import Roles
from cesaro.data.sources.base import Files, every_column, reading, spread
from cesaro.data.sources.csv_types import WHAT, Notation, Request, Section, TypeSurvey
from cesaro.data.sources.files import Header, first_rows
from cesaro.data.sources.lines import LinesSource, opened_text, text_from
from cesaro.data.sources.places import File, resumed
from cesaro.data.texts import Order, formats
from cesaro.errors import InputError
from cesaro.text import visible

SMALL = 1 << 26  # bytes of files of which an excerpt takes every line
_HEADER = 65_536  # bytes
_SEMICOLONS = "Semicolons separate the columns, as in the header of the file."
_DECIMALS = "Semicolons separate the columns, as in the header of the file, and decimal commas are read as such."


class ColumnTypes(NamedTuple):
    """How the columns of a log are read.

    Attributes:
        types: per column.
        commas: columns whose decimal mark is a comma.
        dates: columns of dates that do not begin with the year, and what comes first in them.
    """

    types: Mapping[str, pa.DataType]
    commas: frozenset[str]
    dates: Mapping[str, Order]


class CsvSource(LinesSource):
    """CSV files with a header; types come from the whole column, over all files, and ids stay text.

    Columns are separated by commas, or by semicolons where the header has these and no commas; `notes` says so.
    """

    what = WHAT
    is_text = True

    def __init__(
        self, name: str, files: Sequence[File], skip_bad_files: bool = False, notes: Sequence[str] = ()
    ) -> None:
        self._separator = ""
        self._found = ColumnTypes({}, frozenset(), {})
        self._surveyed: tuple[Roles, dict[str, str]] | None = None
        super().__init__(name, files, skip_bad_files, notes)

    def _header(self, file: File) -> Header:
        separator = _separator(file)
        with opened_text(file) as stream, pyarrow.csv.open_csv(stream, parse_options=_parsing(separator)) as opened:
            names = opened.schema.names
        if self._separator not in ("", separator):
            raise InputError(
                f"{file.name} must separate its columns as {self.files[0].name} does. "
                f"Got {separator!r} instead of {self._separator!r}; write both in the same way."
            )
        self._separator = separator
        return Header(pa.schema([(name, pa.null()) for name in names]))

    @property
    def notes(self) -> tuple[str, ...]:
        marks = _DECIMALS if self._found.commas else _SEMICOLONS
        dates = (
            f'Dates of "{visible(name)}" are read with the {order} first.' for name, order in self._found.dates.items()
        )
        return (*super().notes, *([marks] if self._separator == ";" else []), *dates)

    def table(self, roles: Roles, kinds: Mapping[str, str]) -> tuple[pa.Table, Files]:
        survey = self._survey(roles, kinds, self._whole_files, keep=True)
        self._learn(survey)
        return self._joined(survey, roles.columns()), tuple(zip(self.files.names, survey.rows))

    def written(self, file: int, row: int, column: str) -> tuple[int, str] | None:
        one = self.files[file]
        if one.is_remote or column not in self._columns[one.path]:
            return None
        place = self._columns[one.path].index(column)
        try:
            with opened_text(one) as stream:
                lines = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
                found = csv.reader(lines, delimiter=self._separator)
                entries = next(itertools.islice(filter(None, found), row + 1, None))  # the header is a row, too
                return found.line_num, entries[place] if place < len(entries) else ""
        except (csv.Error, StopIteration, OSError, ValueError):
            return None

    def head(self, columns: Sequence[str], rows: int) -> pa.Table:
        """The first rows as text, so that no later row can contradict the type of the first ones."""
        own, file = self._own(columns), self.files[0]
        conversion = _conversion(Request(own, dict.fromkeys(own, pa.string())))
        options = {"parse_options": _parsing(self._separator), "convert_options": conversion}
        with opened_text(file) as stream, pyarrow.csv.open_csv(stream, **options) as opened:
            return first_rows((self._folders.completed(file, pa.table(batch), columns) for batch in opened), rows)

    def _excerpt(self, rows: int) -> pa.Table:
        """All lines of small files, and the first ones of large files: only a pass over all would tell where others begin."""
        is_small = sum(file.size for file in self.files) <= SMALL and not any(file.is_remote for file in self.files)
        sections = self._whole_files if is_small else self._first_chunk
        survey = self._survey(every_column(self.names), {}, sections, keep=True, checked=False)
        return spread(self._joined(survey, self.names), rows)

    def piece_types(self, roles: Roles, kinds: Mapping[str, str], *, checked: bool = True) -> pa.Schema:
        if self._surveyed != (roles, dict(kinds)):
            self._learn(self._survey(roles, kinds, self._chunks_of_files, keep=False, checked=checked))
            self._surveyed = (roles, dict(kinds)) if checked else None
        return self._folders.described(roles.columns(), pa.schema(list(self._found.types.items())))

    def nbytes(self, roles: Roles) -> int:
        """An estimate from the length of the first lines; an entry is taken for eight bytes."""
        file = self.files[0]
        with reading(file.name, WHAT, address=file.address), opened_text(file) as stream:
            start = stream.read(_HEADER)
        lines = max(1, start.count(b"\n") or start.count(b"\r"))
        return int(self._text_size() / max(1, len(start)) * lines * 8 * len(roles.columns()))

    def _survey(
        self,
        roles: Roles,
        kinds: Mapping[str, str],
        sections: Callable[[], Iterator[Section]],
        *,
        keep: bool,
        checked: bool = True,
    ) -> TypeSurvey:
        own = self._own(roles.columns())
        self._settle(own)
        survey = TypeSurvey(self.name, self.files.names, sections, keep, self._separator == ";", self.written)
        survey.run(own, roles, kinds, checked)
        return survey

    def _learn(self, survey: TypeSurvey) -> None:
        """Remember what a survey of all rows found."""
        self._rows.update(zip((file.path for file in self.files), survey.rows))
        self._found = ColumnTypes(survey.types, frozenset(survey.commas), survey.dates)

    def _joined(self, survey: TypeSurvey, columns: Sequence[str]) -> pa.Table:
        """Columns whose data a survey kept, and columns that stand in the names of folders."""
        assert survey.columns is not None
        found = {}
        for name in columns:
            if name in self._folders.types:
                kind = self._folders.types[name]
                chunks = [self._folders.column(name, file, rows) for file, rows in zip(self.files, survey.rows)]
            else:
                kind = survey.types[name]
                chunks = [chunk for section in survey.columns[name] if len(section) for chunk in section.chunks]
            found[name] = pa.chunked_array(chunks, kind)
        return pa.table(found)

    def _some_column(self) -> str:
        return next(iter(self._found.types), super()._some_column())

    def _whole_files(self) -> Iterator[Section]:
        for number, file in enumerate(self.files):
            yield Section(number, file, partial(self._parsed_file, file))

    def _first_chunk(self) -> Iterator[Section]:
        """The first lines of the first file."""
        file = self.files[0]
        with reading(file.name, WHAT, address=file.address):
            for place, chunk in itertools.islice(self._chunks(file), 1):
                yield Section(0, file, partial(self._parsed, file, place, chunk))

    def _chunks_of_files(self) -> Iterator[Section]:
        for number, file in enumerate(self.files):
            marks, row, stamp = [], 0, file.stamp()
            with reading(file.name, WHAT, address=file.address):
                for place, chunk in self._chunks(file):
                    section = Section(number, file, partial(self._parsed, file, place, chunk))
                    yield section
                    marks.append((row, place))
                    row += section.rows
            self._keep_marks(file, stamp, marks)

    def _pieces(self, file: File, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        # Decimal commas are for numbers alone; labels that are numbers have points, and are parsed apart.
        types, commas, dates = self._found
        points = [c for c in columns if c not in commas and types[c] == pa.float64()] if commas else []
        rest = [c for c in columns if c not in points]
        every: list[Order | None] = list(dict.fromkeys(dates[c] for c in rest if c in dates)) or [None]
        requests = [Request(points, types)]
        for order in every:
            names = [c for c in rest if dates.get(c, every[0]) == order]
            requests.append(Request(names, types, Notation("," if commas else ".", order)))
        row, place = self._mark(file, start)
        start -= row
        for at, chunk in self._chunks(file, place):
            tables = [self._parsed(file, at, chunk, request) for request in requests if request.columns]
            table = pa.table({name: table[name] for table in tables for name in table.column_names}).select(columns)
            cut = min(start, len(table))
            start -= cut
            yield from table.slice(cut).to_batches()

    def _count(self, file: File, columns: list[str]) -> int:
        request = Request(columns, dict.fromkeys(columns, pa.binary()))
        return sum(len(self._parsed(file, at, chunk, request)) for at, chunk in self._chunks(file))

    def _parsed_file(self, file: File, request: Request) -> pa.Table:
        if file.is_remote:
            return self._read(io.BytesIO(b"".join(resumed(file, partial(text_from, file), 0))), None, request)
        with opened_text(file) as stream:
            return self._read(stream, None, request)

    def _parsed(self, file: File, place: int, chunk: bytes, request: Request) -> pa.Table:
        """Lines of a file; the first ones hold the header."""
        return self._read(pa.BufferReader(chunk), self._columns[file.path] if place else None, request)

    def _read(self, data: Any, header: list[str] | None, request: Request) -> pa.Table:
        """Text as a table. An empty text is a missing entry; words such as NA are one only among numbers."""
        table = pyarrow.csv.read_csv(
            data,
            read_options=pyarrow.csv.ReadOptions(column_names=header),
            parse_options=_parsing(self._separator),
            convert_options=_conversion(request),
        )
        for place, field in enumerate(table.schema):
            column = table.column(place)
            if pa.types.is_string(field.type) and pc.any(gaps := pc.equal(column, "")).as_py():
                table = table.set_column(place, field, pc.if_else(gaps, pa.scalar(None, field.type), column))
        return table


def _parsing(separator: str) -> Any:
    return pyarrow.csv.ParseOptions(delimiter=separator)


def _conversion(request: Request) -> Any:
    columns, types, notation = request
    wanted = {column: types[column] for column in columns if column in types}
    dates = [] if notation.dates is None else [pyarrow.csv.ISO8601, *formats(notation.dates)]
    return pyarrow.csv.ConvertOptions(
        include_columns=columns, column_types=wanted, decimal_point=notation.decimal, timestamp_parsers=dates
    )


def _separator(file: File) -> str:
    """The mark that separates the columns: the header is one column by any other."""
    if ".tsv" in file.name.lower():
        return "\t"
    with opened_text(file) as stream:
        start = stream.read(_HEADER).decode("utf-8-sig", errors="replace")
    header = start.lstrip("\r\n")

    def fields(separator: str) -> int:
        try:
            return len(next(csv.reader(io.StringIO(header), delimiter=separator), ()))
        except csv.Error:  # the parser of the data will say what is wrong
            return 1

    return ";" if fields(",") <= 1 < fields(";") else ","
