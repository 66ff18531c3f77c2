"""Tables: the probabilities of actions for each state, from arrays, mappings, data frames and CSV files."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies import labels, observed
from cesaro.policies.base import LogInfo, Policy
from cesaro.policies.observed import Observations
from cesaro.text import Sentence, nearest

_TEXT_TOLERANCE = checks.row_sum_tolerance(np.dtype(np.float32))  # written numbers are rounded
_STATE, _ACTION, _PROBABILITY = "state", "action", ("probability", "prob", "p")


class Table(Policy):
    """A row of probabilities for each state.

    `columns` are the log's columns whose labels or numbers tell the state; none: all that a log has, which must be one column
    of labels where `states` are single labels.
    """

    actions: tuple[Any, ...]

    def __init__(
        self, states: "TableStates", actions: tuple[Any, ...], table: Array, *, name: str, columns: tuple[str, ...] = ()
    ) -> None:
        self.name, self.states, self.actions, self.table, self.columns = name, states, actions, table, columns

    def probabilities(self, observations: Observations) -> Array:
        seen = observed.columns(observations)
        if self.columns:
            missing = [column for column in self.columns if column not in seen]
            if missing:
                raise InputError(f"{self._who} needs the column {missing[0]!r}. Got {', '.join(map(repr, seen))}.")
            seen = {column: seen[column] for column in self.columns}
        if len(seen) != self.states.width:
            named = isinstance(observations, dict)
            raise self._not_discrete("named columns" if named else f"an array of shape {np.shape(observations)}")
        rows = self.states.codes(list(seen.values()))
        if (rows < 0).any():
            row = int(np.argmax(rows < 0))
            raise self._missing(tuple(column[row] for column in seen.values()), "among the observations")
        return np.asarray(self.table[rows])

    def bind(self, log: LogInfo) -> Policy:
        if self.columns or self.states.width > 1:
            if self.states.width > 1 and not self.columns and len(log.columns) != self.states.width:
                raise self._not_discrete(log.observation)
            return self
        if log.states is None:
            raise self._not_discrete(log.observation)
        self.check_complete(log)
        return self

    def check_complete(self, log: LogInfo) -> None:
        """Refuse a log with a state that has no row."""
        if log.states is None:
            return
        rows = self.states.codes([log.states])
        if (rows < 0).any():
            state, known = labels.native(log.states[int(np.argmax(rows < 0))]), labels.Index(log.states)
            strange = [one for one in self.states.columns[0].labels if known.find(one) < 0]
            close = nearest(state, filter(_is_text, strange)) if _is_text(state) else None
            remedy = "" if close is None else f"the table's label {close!r} is not in the log: did you mean {state!r}?"
            raise self._missing((state,), f"in the log {log.name}", remedy)

    def _not_discrete(self, what: str) -> InputError:
        if self.states.width > 1:
            return InputError(
                f"{self._who} is a table whose states have {self.states.width} labels each, and the log has {what}; give as many "
                "observation columns, in the same order."
            )
        return InputError(
            Sentence(
                "{who} is a table and needs one column of discrete states. Got {what}; read that column with {kind}, or write "
                "the policy as a function of the observations.",
                who=self._who,
                what=what,
                kind=labels.AS_LABELS,
            )
        )

    def _missing(self, state: tuple[Any, ...], where: str, remedy: str = "") -> InputError:
        shown = ", ".join(repr(labels.native(label)) for label in state)
        if self.states.width > 1:
            return InputError(
                f"{self._who} must have a row for every state, and ({shown}) {where} has none; add the row."
            )
        own, other = labels.kind(self.states.columns[0].labels), labels.kind(state)
        remedy = remedy or (
            "add the row." if own == other else f"{other} never match {own}, so write the states as the log does."
        )
        return InputError(
            f"{self._who} must have a row for every state, and state {shown} {where} has none: its "
            f"states are {labels.show(self.states.columns[0].labels)} ({own}); {remedy}"
        )


class TableStates:
    """The states of a table, all different: a label, or one label for each of several columns."""

    def __init__(self, states: Sequence[tuple[Any, ...]]) -> None:
        self.width = len(states[0])
        found = [{labels.key(label): label for label in column} for column in zip(*states)]
        self.columns = tuple(labels.Index(by_key.values()) for by_key in found)
        # With every further column, the numbers of the combinations that occur so far; the last are the rows of the table.
        self._joints: list[NDArray[np.int64]] = []
        rows = [np.array([index.find(label) for label in column]) for index, column in zip(self.columns, zip(*states))]
        codes = rows[0]
        for index, own in zip(self.columns[1:], rows[1:]):
            joint, codes = np.unique(codes * len(index) + own, return_inverse=True)
            self._joints.append(joint)
        self._rows = np.argsort(codes)

    def __fingerprint__(self) -> Any:
        return self.columns, self._joints, self._rows

    def codes(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """The number of each row's state; -1 where it is none of them."""
        first, *others = (index.codes(np.asarray(column)) for index, column in zip(self.columns, columns))
        if not others:
            return first
        for index, own, joint in zip(self.columns[1:], others, self._joints):
            sought = np.where((first < 0) | (own < 0), -1, first * len(index) + own)
            place = np.minimum(np.searchsorted(joint, sought), len(joint) - 1)
            first = np.where(joint[place] == sought, place, -1)
        return np.where(first < 0, -1, self._rows[first])


class Entry(NamedTuple):
    """The probability of an action in a state, and the line or row that says so; 0: none does."""

    state: tuple[Any, ...]
    action: Any
    probability: float
    line: int = 0


class _Form(NamedTuple):
    """Which columns of a written table hold what; `wide`: a column per action."""

    keys: list[int]
    action: int | None = None
    probability: int | None = None
    wide: tuple[int, ...] = ()


class WrittenTable(Policy):
    """A table with a header, from a file or a frame, whose columns and labels are known once a log says what it has.

    Args:
        source: the file, or the policy, in words.
        header: names of columns.
        rows: the number of the line or row, and its cells.
        is_text: whether cells are text, which stands for the log's labels and numbers.
    """

    def __init__(
        self, source: str, header: list[str], rows: list[tuple[int, list[Any]]], *, name: str, is_text: bool
    ) -> None:
        self.name, self._source, self._header, self._rows, self._is_text = name, source, header, rows, is_text
        if len(header) != len(set(header)) or "" in header:
            raise InputError(f"{source} must name every column once. Got the header {','.join(header)!r}.")
        for line, cells in rows:
            for column, cell in zip(header, cells):
                if cell is None or cell == "" or cell != cell:
                    where = self._where(line)
                    raise InputError(f"{where}: column {column!r} is empty; write a value, or 0 for no chance.")
        if not rows:
            raise InputError(f"{source} has a header and no rows; add a line for each state.")

    def probabilities(self, observations: Observations) -> Array:
        raise InputError(f"{self._who} needs a log to read its labels; use cesaro.policies.attach(policy, log).")

    def bind(self, log: LogInfo) -> Policy:
        form, is_lone = self._form(log), len(log.columns) <= 1
        if is_lone and log.states is None:
            raise self._not_discrete(log)
        columns = () if is_lone else tuple(self._header[key] for key in form.keys)
        made = _build(self._source, self._entries(form, log), self.name, _TEXT_TOLERANCE, self._where, columns)
        if is_lone:
            made.check_complete(log)
        return made

    def _entries(self, form: _Form, log: LogInfo) -> list[Entry]:
        columns = [self._header[key] for key in form.keys]
        known = [log.columns.get(column, log.states) for column in columns]
        called = [f"entries of {column!r}" for column in columns]
        if columns[0] not in log.columns:  # the only one, which may have any name
            taken = "".join(f" of {name!r}, for which {columns[0]!r} is taken," for name in log.columns)
            called = ["states" if columns[0] == _STATE else f"entries{taken}"]
        states = [dict[Any, Any]() for _ in columns]
        actions: dict[Any, Any] = {}
        entries = []
        for line, cells in self._rows:
            state = tuple(
                self._read(read, cells[key], levels, line, what)
                for key, what, levels, read in zip(form.keys, called, known, states)
            )
            for place in form.wide:
                action = self._action(actions, self._header[place], log, line, True)
                entries.append(Entry(state, action, self._probability(line, cells[place]), line))
            if form.action is not None:
                chance = 1.0 if form.probability is None else self._probability(line, cells[form.probability])
                action = self._action(actions, cells[form.action], log, line, self._is_text)
                entries.append(Entry(state, action, chance, line))
        return entries

    def _form(self, log: LogInfo) -> _Form:
        """The form by the names of columns: those of the log are the state, the others the action, or a column per action."""
        header = self._header
        special = [place for place, name in enumerate(header) if name in (_ACTION, *log.action_columns, *_PROBABILITY)]
        keys = [place for place, name in enumerate(header) if name in log.columns]
        is_known = bool(keys)
        if not keys and len(log.columns) <= 1:
            keys = [place for place in range(len(header)) if place not in special][:1]
            if _STATE in header:
                keys, is_known = [header.index(_STATE)], True
        rest = [place for place in range(len(header)) if place not in keys]
        labelled = [place for place in rest if self._is_action(header[place], log)]
        chance = next((place for place in rest if header[place] in _PROBABILITY and place not in labelled), None)
        action = next((place for place in rest if header[place] in (_ACTION, *log.action_columns)), None)
        if len(rest) == 2 and action is None and chance is not None:
            action = next(place for place in rest if place != chance)
        if keys and action is not None and set(rest) <= {action, chance}:
            return _Form(keys, action, chance)
        if keys and action is None and chance is None and rest:
            if labelled and (is_known or (len(labelled) == len(rest) and not self._is_action(header[keys[0]], log))):
                return _Form(keys, wide=tuple(rest))
            if len(rest) == 1 and not labelled:
                return _Form(keys, rest[0])
        if len(log.columns) <= 1 and log.states is None and log.kind == "log":
            raise self._not_discrete(log)
        seen = ", ".join(map(repr, log.columns)) or "state"
        raise InputError(
            f"{self._source} must have columns of what the policy sees ({seen}), and then action, or action and probability, or "
            f"a column per action, separated by commas. Got the header {','.join(header)[:200]!r}."
        )

    def _is_action(self, text: str, log: LogInfo) -> bool:
        if log.actions is None:
            vector = labels.read_vector(text)
            return vector is not None and len(vector) == log.width
        label = labels.read(text, log.actions)
        return label is not None and labels.Index(log.actions).find(label) >= 0

    def _read(self, read: dict[Any, Any], cell: Any, levels: Any, line: int, what: str) -> Any:
        """The label or number of the log that a cell stands for; each is read once."""
        if not self._is_text:
            return labels.native(cell)
        if cell not in read:
            read[cell] = labels.read(cell, levels)
            if read[cell] is None:
                kind = labels.kind(levels) if len(levels) else "numbers"
                raise self._unreadable(line, what, cell, kind)
        return read[cell]

    def _action(self, read: dict[Any, Any], cell: Any, log: LogInfo, line: int, is_text: bool) -> Any:
        if not is_text:
            return labels.native(cell)
        if cell not in read:
            if log.actions is None:
                read[cell], kind = labels.read_vector(cell), f"continuous ({log.width} numbers)"
            else:
                read[cell], kind = labels.read(cell, log.actions), labels.kind(log.actions)
            if read[cell] is None:
                raise self._unreadable(line, "actions", cell, kind)
        return read[cell]

    def _probability(self, line: int, cell: Any) -> float:
        try:
            value = float(cell) if "_" not in str(cell) else -1.0
        except (TypeError, ValueError):
            value = -1.0
        if not 0 <= value <= 1:
            raise InputError(f"{self._where(line)}: a probability must be a number between 0 and 1. Got {cell!r}.")
        return value

    def _where(self, line: int) -> str:
        return (
            f"{self._source}, {'line' if self._is_text else 'row'} {line}"
            if line or not self._is_text
            else self._source
        )

    def _unreadable(self, line: int, what: str, text: str, kind: str) -> InputError:
        return InputError(
            f"{self._where(line)}: the log's {what} are {kind}, and {text!r} is none; write them as the log does."
        )

    def _not_discrete(self, log: LogInfo) -> InputError:
        return InputError(
            Sentence(
                "{source} holds a row for each state, and the {place} {log} has {what}; read one column with {kind}, or write "
                "the policy as a function of the observations.",
                source=self._source,
                place=log.kind,
                log=log.name,
                what=log.observation,
                kind=labels.AS_LABELS,
            )
        )


def from_array(values: ArrayLike, *, name: str) -> Table:
    """`[S, A]` for states 0 … S−1 and actions 0 … A−1."""
    axes = ("state", "action")
    table = checks.float_array(f"Policy table {name!r}", values, axes, (None, None))
    tolerance = checks.row_sum_tolerance(np.asarray(values).dtype)
    table = checks.distributions(f"Policy table {name!r}", table, axes, tolerance, over=1)
    states = TableStates([(state,) for state in range(len(table))])
    return Table(states, tuple(range(table.shape[1])), checks.frozen(table), name=name)


def from_mapping(mapping: Mapping[Any, Any], *, name: str) -> Table:
    """`{state: {action: probability}}`, or `{state: action}` where it is certain; a tuple is a state of several columns."""
    if not mapping:
        raise InputError(f"Policy {name!r} must have at least one state. Got an empty mapping.")
    widths = {len(state) if isinstance(state, tuple) else 0 for state in mapping}
    if len(widths) > 1 or widths & {1}:
        raise InputError(
            f"Policy {name!r} must have states of one form: a label, or as many labels each, (19, 'low'), as there are "
            f"observation columns. Got states of {', '.join(str(width or 1) for width in sorted(widths))} labels."
        )
    entries = []
    for key, row in mapping.items():
        state = key if isinstance(key, tuple) else (key,)
        if not isinstance(row, Mapping):
            entries.append(Entry(state, row, 1.0))
            continue
        if not row:
            raise InputError(f"Policy {name!r} must have probabilities for every state. Got none for state {key!r}.")
        for action, probability in row.items():
            if type(probability) is not float or not 0 <= probability <= 1:
                field = f"Policy {name!r}, state {key!r}: the probability of {action!r}"
                probability = checks.number(field, probability, low=0.0)
            entries.append(Entry(state, action, probability))
    who = f"Policy {name!r}"
    return _build(who, entries, name, checks.row_sum_tolerance(np.dtype(np.float64)), lambda _: who)


def from_frame(frame: Any, *, name: str) -> WrittenTable:
    """A frame of pandas or Polars or a pyarrow table, in a form of `from_csv`; a pandas index with names counts as columns."""
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas":
        frame = frame.reset_index() if any(part is not None for part in frame.index.names) else frame
        header = [str(column) for column in frame.columns]
        columns = [frame.iloc[:, place].tolist() for place in range(len(header))]
    elif library == "polars":
        header, columns = list(frame.columns), [column.to_list() for column in frame.get_columns()]
    else:
        header, columns = list(frame.column_names), [column.to_pylist() for column in frame.columns]
    rows = [(number, list(cells)) for number, cells in enumerate(zip(*columns))]
    return WrittenTable(f"Policy {name!r}", header, rows, name=name, is_text=False)


def from_csv(path: Path, *, name: str) -> WrittenTable:
    """A CSV file with columns of what the policy sees, named as in the log (a single one: `state`, or as you like), and then

    - `action` and `probability`: a line per pair; pairs without a line have probability zero;
    - `action`: a line per state, whose action is certain;
    - a column per action: a line per state.
    """
    lines = _lines(path)
    try:
        header = [field.strip() for field in next(lines)[1]]
    except StopIteration:
        raise InputError(f"'{path}' is empty; its first line must be state,action,probability.") from None
    rows = []
    for line, fields in lines:
        if len(fields) != len(header):
            raise InputError(f"'{path}', line {line}: must have {len(header)} fields as the header. Got {len(fields)}.")
        rows.append((line, fields))
    return WrittenTable(f"'{path}'", header, list[tuple[int, list[Any]]](rows), name=name, is_text=True)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"'{path}' cannot be read as CSV ({reason}); save it as comma-separated UTF-8 text."
        ) from error


def _build(
    who: str,
    entries: list[Entry],
    name: str,
    tolerance: float,
    where: Callable[[int], str],
    columns: tuple[str, ...] = (),
) -> Table:
    """A table of entries in any order; pairs that are missing get zero."""
    states: dict[Any, int] = {}
    actions: dict[Any, int] = {}
    state_labels, action_labels = [], []
    places: dict[tuple[int, int], float] = {}
    for state, action, probability, line in entries:
        row, column = tuple(map(labels.key, state)), labels.key(action)
        if row not in states:
            states[row] = len(states)
            state_labels.append(tuple(map(labels.native, state)))
        if column not in actions:
            actions[column] = len(actions)
            action_labels.append(labels.native(action))
        place = states[row], actions[column]
        if place in places:
            shown = _shown(state_labels[place[0]])
            raise InputError(f"{where(line)}: state {shown} and action {action!r} occur twice; keep one of them.")
        places[place] = probability
    table = np.zeros((len(states), len(actions)))
    for place, probability in places.items():
        table[place] = probability
    sums = table.sum(axis=1, keepdims=True)
    off = ~(np.abs(sums[:, 0] - 1) <= tolerance)
    if off.any():
        row_number = int(np.argmax(off))
        raise InputError(
            f"{who}: the probabilities of state {_shown(state_labels[row_number])} must sum to one. "
            f"Got {sums[row_number, 0]:.12g}; add what is missing or divide by the sum."
        )
    frozen = checks.frozen(table / sums)
    return Table(TableStates(state_labels), tuple(action_labels), frozen, name=name, columns=columns)


def _is_text(label: Any) -> bool:
    return isinstance(label, str)


def _shown(state: tuple[Any, ...]) -> str:
    return repr(state[0] if len(state) == 1 else state)
