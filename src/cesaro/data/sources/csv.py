"""CSV files, by chunks of whole lines.

The header tells what separates the columns. A `TypeSurvey` finds their types: those that the whole column allows, over all files,
section by section; text that is more likely a mistake than a label is refused with its line.
"""

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from cesaro.data.columns import EXACT, Written, can_cast, first_failure, kind_argument, named_row, time_kind
from cesaro.data.roles import Roles
from cesaro.data.sources.base import Files, every_column, reading, spread
from cesaro.data.sources.files import Header, LinesSource, first_rows, opened_text, text_from
from cesaro.data.sources.places import File, resumed
from cesaro.data.texts import (
    BOTH,
    DIGITS,
    Complaint,
    Order,
    digits,
    formats,
    has_comma,
    is_number,
    mixed,
    orders,
    untimely,
)
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence, visible

WHAT = "a CSV file with a header"
_DIGITS = r"^\s*([+-]?\d+)?\s*$"
_CLOCK = (pa.date32(), pa.timestamp("s"), pa.timestamp("ns"))
_ZONED = (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"))
# Sections of a column, taken alone, may get several types of one of these families; Arrow would give the whole column the last
# one of them, unless some entry forbids it. Everything else is text.
_FAMILIES = ((pa.int64(), pa.float64()), (pa.int64(), pa.bool_()), _CLOCK, _ZONED)
SMALL = 1 << 26  # bytes of files of which an excerpt takes every line
_HEADER = 65_536  # bytes
_SEMICOLONS = "Semicolons separate the columns, as in the header of the file."
_DECIMALS = "Semicolons separate the columns, as in the header of the file, and decimal commas are read as such."


class Notation(NamedTuple):
    """The notation of numbers and dates.

    Attributes:
        decimal: the mark before decimals.
        dates: what comes first in dates that do not begin with the year; None: there are none.
    """

    decimal: str = "."
    dates: Order | None = None


class Request(NamedTuple):
    """Columns that are to be parsed, types that some of them must have, and how they are written."""

    columns: Sequence[str]
    types: Mapping[str, pa.DataType]
    notation: Notation = Notation()


class Spot(NamedTuple):
    """An entry of a column: number of the file, and row in it."""

    file: int
    row: int


@dataclass
class Section:
    """Some rows of one file that are parsed at once.

    Attributes:
        number: the place of the file among all.
        read: parses some columns.
        rows: how many there are; known after the first reading.
    """

    number: int
    file: File
    read: Callable[[Request], pa.Table]
    rows: int = 0


@dataclass
class ColumnTraits:
    """The types, marks and dates that the entries of one column have shown so far."""

    kinds: set[pa.DataType] = field(default_factory=set)
    number: bool = False
    other: tuple[str, Spot] | None = None  # the first entry that is no number
    others: int = 0  # entries that are none
    comma: bool = False
    numeric: bool = True  # numbers alone, if decimal commas count as such
    marked: dict[str, str] = field(default_factory=dict)  # decimal mark → the first entry that holds it
    largest: float = 0.0
    whole: bool = True
    orders: frozenset[Order] = BOTH  # what may come first in all entries, if these are dates
    digits: frozenset[int] = DIGITS  # of all entries, if these are dates written as whole numbers
    misfit: tuple[str, Spot] | None = None  # the first entry that is no date of the order that those before it have

    @property
    def kind(self) -> pa.DataType:
        """The type of the whole column: the only one, or the first that Arrow would try for all."""
        kinds = self.kinds - {pa.null()}
        if len(kinds) <= 1:
            return next(iter(kinds), pa.null())
        for family in _FAMILIES:
            if kinds.issubset(family):
                return max(kinds, key=family.index)
        return pa.binary() if pa.binary() in kinds else pa.string()

    def has_large_whole(self) -> bool:
        return self.kind == pa.float64() and self.whole and self.largest > EXACT

    def has_decimal_commas(self) -> bool:
        return self.kind == pa.string() and self.comma and self.numeric

    def add(self, values: pa.ChunkedArray, start: Spot) -> None:
        if not len(values):
            return
        self.kinds.add(values.type)
        if pa.types.is_string(values.type):
            self._add_text(values, start)
        elif pa.types.is_int64(values.type):
            self.digits = self.digits and self.digits & digits(values.drop_null().to_numpy())
        elif pa.types.is_floating(values.type):
            numbers = values.to_numpy()
            finite = numbers[np.isfinite(numbers)]
            self.largest = max(self.largest, float(np.abs(finite).max(initial=0.0)))
            self.whole = self.whole and bool((finite == np.round(finite)).all())

    def _add_text(self, values: pa.ChunkedArray, start: Spot) -> None:
        counted = pc.value_counts(values.drop_null())
        for level, count in zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist()):
            if self.orders:
                self.orders &= orders(level)
                if not self.orders and self.other is not None:
                    self.misfit = level, _spot(values, level, start)
            if is_number(level):
                self.number = True
            else:
                self.others += count
                comma = has_comma(level)
                self.comma, self.numeric = self.comma or comma, self.numeric and comma
                if self.other is None:
                    self.other = level, _spot(values, level, start)
            for mark in ",.":
                if mark in level:
                    self.marked.setdefault(mark, level)


def _spot(values: pa.ChunkedArray, level: str, start: Spot) -> Spot:
    return Spot(start.file, start.row + pc.index(values, pa.scalar(level, values.type)).as_py())


class TypeSurvey:
    """Reads all sections of a CSV log, more than once where one time does not tell, and finds the types of columns.

    Attributes:
        types: per column.
        commas: columns whose decimal mark is a comma.
        dates: columns of dates that do not begin with the year, and what comes first in them.
        columns: per column its data, one array per section; None where they shall not be kept.
        rows: of every file.
    """

    def __init__(
        self,
        log: str,
        files: Sequence[str],
        sections: Callable[[], Iterable[Section]],
        keep: bool,
        semicolons: bool,
        written: Written,
    ) -> None:
        self.types: dict[str, pa.DataType] = {}
        self.commas: set[str] = set()
        self.dates: dict[str, Order] = {}
        self.columns: dict[str, list[pa.ChunkedArray]] | None = {} if keep else None
        self.rows = [0] * len(files)
        self._log, self._files, self._sections, self._semicolons = log, files, sections, semicolons
        self._seen: dict[str, ColumnTraits] = {}
        self._written = written

    def run(self, columns: Sequence[str], roles: Roles, kinds: Mapping[str, str], checked: bool = True) -> None:
        owners = _owners(roles)
        text = {roles.trajectory} if roles.trajectory is not None else set()
        labels = text | {column for column, owner in owners.items() if kinds.get(owner) == "category"}
        self._find(columns, text, Notation())
        others = [column for column in columns if column not in labels]
        if self._semicolons and any(self._seen[column].has_decimal_commas() for column in others):
            # Labels stay as they were: a comma or a point in them is no decimal mark.
            self._find(others, text, Notation(","))
            self.commas = set(others)
        self._find_dates([roles.time] if roles.time is not None else [] if checked else others)
        if not checked:
            ids = self._long_numbers([column for column in others if column != roles.time])
            self._find(ids, set(ids), Notation())
            return
        large = {column for column in columns if self._seen[column].has_large_whole()}
        exact = {column for column in large if kinds.get(column) == "category"}
        if exact:
            self._find(sorted(exact), exact, Notation())
        for column in (*roles.observation.columns, *roles.action.columns):
            if column in large - exact and kinds.get(column) is None:
                raise InputError.of(
                    '{log}: column "{column}" must be clear about its kind. Got whole numbers of 2**53 or more; {give} '
                    "{category} for ids or {number} for numbers.",
                    log=self._log,
                    column=column,
                    category=kind_argument(column, "category"),
                    number=kind_argument(column, "number"),
                )
        for column in columns:
            if self.types[column] == pa.string() and column not in exact:
                self._check_text(column, column in labels, owners.get(column))
                if column == roles.time:
                    self._check_times(column)

    def _long_numbers(self, columns: Sequence[str]) -> list[str]:
        """Columns of whole numbers, written out, whose digits a float64 would lose."""
        large = [column for column in columns if self._seen[column].has_large_whole()]
        for section in self._sections() if large else ():
            if not large:
                break
            with reading(section.file.name, WHAT, address=section.file.address):
                table = section.read(Request(large, dict.fromkeys(large, pa.string())))
            section.rows = len(table)
            large = [c for c in large if pc.all(pc.match_substring_regex(table[c], _DIGITS), min_count=0).as_py()]
        return large

    def _find_dates(self, columns: Sequence[str]) -> None:
        """Read as times what holds dates alone: text of one order, whole numbers of as many digits."""
        text = [c for c in columns if self.types[c] == pa.string()]
        every: dict[Order, list[str]] = {order: [c for c in text if self._seen[c].orders == {order}] for order in BOTH}
        every["year"] = [c for c in columns if self.types[c] == pa.int64() and self._seen[c].digits]
        for order, found in every.items():
            self._find(found, set(), Notation(dates=order), dict.fromkeys(found, pa.timestamp("s")))
            self.dates |= dict.fromkeys(found, order)

    def _find(
        self,
        columns: Sequence[str],
        text: set[str],
        notation: Notation,
        expected: Mapping[str, pa.DataType] | None = None,
    ) -> None:
        """Types of some columns, in as many passes as it takes until all their sections agree."""
        types = {column: pa.string() for column in columns if column in text} | dict(expected or {})
        while columns:
            seen = self._pass(columns, types, text, notation)
            self._seen |= seen
            self.types |= {column: seen[column].kind for column in columns}
            columns = [column for column in columns if len(seen[column].kinds) > 1]
            types = {column: self.types[column] for column in columns}

    def _pass(
        self, columns: Sequence[str], types: dict[str, pa.DataType], text: set[str], notation: Notation
    ) -> dict[str, ColumnTraits]:
        seen = {column: ColumnTraits() for column in columns}
        if self.columns is not None:
            self.columns |= {column: [] for column in columns}
        rows = [0] * len(self._files)
        for section in self._sections():
            with reading(section.file.name, WHAT, address=section.file.address):
                table = self._read(section, columns, types, text, notation)
            for column in columns:
                seen[column].add(table[column], Spot(section.number, rows[section.number]))
                if self.columns is not None:
                    self.columns[column].append(table[column])
            section.rows = len(table)
            rows[section.number] += section.rows
        self.rows = rows
        return seen

    def _read(
        self,
        section: Section,
        columns: Sequence[str],
        types: dict[str, pa.DataType],
        text: set[str],
        notation: Notation,
    ) -> pa.Table:
        """One section; a type that it contradicts gives way to text for this section and all that follow."""
        try:
            return section.read(Request(columns, types, notation))
        except pa.ArrowInvalid:
            doubtful = [column for column in types if column not in text]
            for column in doubtful:
                try:
                    section.read(Request([column], {column: types[column]}, notation))
                except pa.ArrowInvalid:
                    types[column] = pa.binary() if types[column] == pa.string() else pa.string()
                    return self._read(section, columns, types, text, notation)
            raise

    def _check_text(self, column: str, labels: bool, owner: str | None) -> None:
        """Numbers and text in one column are more likely a mistake than labels.

        `owner`: the column of the observation or the action whose kind decides; None where `kinds` has no say.
        """
        seen = self._seen[column]
        if labels:
            return
        choice = ""
        if owner is not None:
            kind = kind_argument(owner, "category")
            choice = Sentence(", or {give} {kind} if these are labels", give=GIVE, kind=kind)
        self._check_decimals(column, seen, choice)
        if seen.number and seen.other is not None:
            wrong, spot = seen.other
            raise self._error(column, mixed(wrong, self._row(column, spot), seen.others), choice)

    def _check_times(self, column: str) -> None:
        """Refuse dates that can be read in two ways, and the first entry that is not read as those before it are."""
        seen = self._seen[column]
        if seen.orders == BOTH and seen.other is not None:
            raise InputError(
                f'{self._log}: column "{column}" must hold times that can be read in one way. Got {seen.other[0]!r} at '
                f"{self._row(column, seen.other[1])}, and no entry has a day over 12 that would tell days from months; write "
                "times as 2024-01-31 14:00:00."
            )
        if seen.misfit is not None:
            wrong, where = seen.misfit
            raise self._error(column, untimely(wrong, self._row(column, where)))
        kind, rows = None, [0] * len(self._files)
        for section in self._sections():
            values = section.read(Request([column], {column: pa.string()}))[column]
            kind = kind or time_kind(values.drop_null())
            if kind is None:
                return
            if not can_cast(values, kind):
                row = first_failure(values, kind)
                spot = Spot(section.number, rows[section.number] + row)
                raise self._error(column, untimely(values[row].as_py(), self._row(column, spot)))
            rows[section.number] += len(values)

    def _error(self, column: str, complaint: Complaint, choice: str = "") -> InputError:
        said = '{log}: column "{column}" {rule}. Got {got}; {remedy}{choice}.'
        return InputError.of(said, log=self._log, column=column, choice=choice, **complaint._asdict())

    def _check_decimals(self, column: str, seen: ColumnTraits, choice: str) -> None:
        """Numbers whose decimal mark is not that of the file must not become labels."""
        other = "." if self.commas else ","
        if not seen.numeric or other not in seen.marked:
            return
        what = {",": "a decimal comma", ".": "a decimal point in a file whose other columns have decimal commas"}[other]
        remedy = "write it with a decimal point" if other == "," else "write all columns in the same way"
        raise InputError.of(
            '{log}: column "{column}" must hold numbers that can be read. Got {wrong}, {what}; {remedy}{choice}.',
            log=self._log,
            column=column,
            wrong=repr(seen.marked[other]),
            what=what,
            remedy=remedy,
            choice=choice,
        )

    def _row(self, column: str, spot: Spot) -> str:
        return named_row(*spot, column, self._files, self._written)


def _owners(roles: Roles) -> dict[str, str]:
    """Per column the column by which `kinds` names it: its own, or that of the observation for a next one."""
    used = (*roles.observation.columns, *roles.action.columns)
    after = () if roles.next_observation is None else zip(roles.next_observation.columns, roles.observation.columns)
    return dict(after) | dict(zip(used, used))


class ColumnTypes(NamedTuple):
    """The types and the notation by which the columns of a log are read.

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
        for place, kept in enumerate(table.schema):
            column = table.column(place)
            if pa.types.is_string(kept.type) and pc.any(gaps := pc.equal(column, "")).as_py():
                table = table.set_column(place, kept, pc.if_else(gaps, pa.scalar(None, kept.type), column))
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
