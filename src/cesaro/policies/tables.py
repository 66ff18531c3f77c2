"""Tables: the probabilities of actions for each discrete state, from arrays, mappings and CSV files."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies import labels
from cesaro.policies.base import LogInfo, Observations, Policy
from cesaro.text import Sentence, Wording

_TEXT_TOLERANCE = checks.row_sum_tolerance(np.dtype(np.float32))  # written numbers are rounded
_AS_LABELS = Wording("kinds={…: 'category'}", "--kind COLUMN=category")  # of a column of a log


class Table(Policy):
    """A row of probabilities for each state; observations are one column of labels."""

    actions: tuple[Any, ...]

    def __init__(self, states: labels.Index, actions: tuple[Any, ...], table: Array, *, name: str) -> None:
        self.name, self.states, self.actions, self.table = name, states, actions, table

    def probabilities(self, observations: Observations) -> Array:
        column = observations if isinstance(observations, dict) else np.asarray(observations)
        if isinstance(column, dict) or column.ndim != 1:
            what = "named columns" if isinstance(column, dict) else f"an array of shape {column.shape}"
            raise self._not_discrete(what)
        rows = self.states.codes(column)
        if (rows < 0).any():
            row = int(np.argmax(rows < 0))
            raise self._missing(column[row], "among the observations")
        return np.asarray(self.table[rows])

    def bind(self, log: LogInfo) -> Policy:
        if log.states is None:
            raise self._not_discrete(log.observation)
        rows = self.states.codes(log.states)
        if (rows < 0).any():
            raise self._missing(log.states[int(np.argmax(rows < 0))], f"in the log {log.name}")
        return self

    def _not_discrete(self, what: str) -> InputError:
        return InputError(
            Sentence(
                "{who} is a table and needs one column of discrete states. Got {what}; read that column with {kind}, or write "
                "the policy as a function of the observations.",
                who=self._who,
                what=what,
                kind=_AS_LABELS,
            )
        )

    def _missing(self, state: Any, where: str) -> InputError:
        own, other = labels.kind(self.states.labels), labels.kind([state])
        remedy = "add the row" if own == other else f"{other} never match {own}, so write the states as the log does"
        return InputError(
            f"{self._who} must have a row for every state, and state {labels.native(state)!r} {where} has none: its "
            f"states are {labels.show(self.states.labels)} ({own}); {remedy}."
        )


class TextTable(Policy):
    """A table whose labels are text until a log says what they stand for."""

    def __init__(self, path: Path, entries: list["Entry"], *, name: str) -> None:
        self.name, self.path, self._entries = name, path, entries
        self.actions = tuple(dict.fromkeys(entry.action for entry in entries))

    def probabilities(self, observations: Observations) -> Array:
        raise InputError(f"{self._who} needs a log to read its labels; use cesaro.policies.attach(policy, log).")

    def bind(self, log: LogInfo) -> Policy:
        if log.states is None:
            raise InputError(
                Sentence(
                    "'{path}' holds a row for each state, and the log {log} has {what}; read one column with {kind}, or write "
                    "the policy as a function of the observations.",
                    path=str(self.path),
                    log=log.name,
                    what=log.observation,
                    kind=_AS_LABELS,
                )
            )
        states: dict[str, Any] = {}
        actions: dict[str, Any] = {}
        for entry in self._entries:
            if entry.state not in states:
                states[entry.state] = labels.read(entry.state, log.states)
                if states[entry.state] is None:
                    raise self._unreadable(entry, "state", entry.state, labels.kind(log.states))
            if entry.action not in actions:
                if log.actions is None:
                    actions[entry.action] = labels.read_vector(entry.action)
                    kind = f"continuous ({log.width} numbers)"
                else:
                    actions[entry.action] = labels.read(entry.action, log.actions)
                    kind = labels.kind(log.actions)
                if actions[entry.action] is None:
                    raise self._unreadable(entry, "action", entry.action, kind)
        entries = [(states[e.state], actions[e.action], e.probability, e.line) for e in self._entries]
        return _build(f"'{self.path}'", entries, self.name, _TEXT_TOLERANCE).bind(log)

    def _unreadable(self, entry: "Entry", field: str, text: str, kind: str) -> InputError:
        return InputError(
            f"'{self.path}', line {entry.line}: the log's {field}s are {kind}, and {text!r} is none; "
            f"write the {field}s as the log does."
        )


class Entry(NamedTuple):
    state: str
    action: str
    probability: float
    line: int


def from_array(values: ArrayLike, *, name: str) -> Table:
    """`[S, A]` for states 0 … S−1 and actions 0 … A−1."""
    axes = ("state", "action")
    table = checks.float_array(f"Policy table {name!r}", values, axes, (None, None))
    tolerance = checks.row_sum_tolerance(np.asarray(values).dtype)
    table = checks.distributions(f"Policy table {name!r}", table, axes, tolerance, over=1)
    return Table(labels.Index(range(len(table))), tuple(range(table.shape[1])), checks.frozen(table), name=name)


def from_mapping(mapping: Mapping[Any, Any], *, name: str) -> Table:
    """`{state: {action: probability}}`, or `{state: action}` where it is certain."""
    if not mapping:
        raise InputError(f"Policy {name!r} must have at least one state. Got an empty mapping.")
    entries = []
    for state, row in mapping.items():
        if not isinstance(row, Mapping):
            entries.append((state, row, 1.0, 0))
            continue
        if not row:
            raise InputError(f"Policy {name!r} must have probabilities for every state. Got none for state {state!r}.")
        for action, probability in row.items():
            if type(probability) is not float or not 0 <= probability <= 1:
                field = f"Policy {name!r}, state {state!r}: the probability of {action!r}"
                probability = checks.number(field, probability, low=0.0)
            entries.append((state, action, probability, 0))
    return _build(f"Policy {name!r}", entries, name, checks.row_sum_tolerance(np.dtype(np.float64)))


def from_csv(path: Path, *, name: str) -> TextTable:
    """A CSV file in one of three forms, told apart by its header.

    - `state,action,probability`: a line per pair; pairs without a line have probability zero.
    - `state,action`: a line per state, whose action is certain.
    - `state,<action>,<action>,…`: a line per state, a column per action; no action may be called action or probability.
    """
    lines = _lines(path)
    try:
        header = [field.strip() for field in next(lines)[1]]
    except StopIteration:
        raise InputError(f"'{path}' is empty; its first line must be state,action,probability.") from None
    form = _form(path, header)
    entries = []
    for line, fields in lines:
        if len(fields) != len(header):
            raise InputError(f"'{path}', line {line}: must have {len(header)} fields as the header. Got {len(fields)}.")
        row = dict(zip(header, fields))
        if "" in row.values():
            field = next(field for field, text in row.items() if text == "")
            raise InputError(f"'{path}', line {line}: column {field!r} is empty; write a value, or 0 for no chance.")
        if form == "long":
            entries.append(Entry(row["state"], row["action"], _probability(path, line, row["probability"]), line))
        elif form == "certain":
            entries.append(Entry(row["state"], row["action"], 1.0, line))
        else:
            for action in header[1:]:
                entries.append(Entry(row["state"], action, _probability(path, line, row[action]), line))
    if not entries:
        raise InputError(f"'{path}' has a header and no rows; add a line for each state.")
    return TextTable(path, entries, name=name)


def _form(path: Path, header: list[str]) -> str:
    if len(header) != len(set(header)) or "" in header:
        raise InputError(f"'{path}' must name every column once. Got the header {','.join(header)!r}.")
    if set(header) == {"state", "action", "probability"}:
        return "long"
    if set(header) == {"state", "action"}:
        return "certain"
    if len(header) >= 2 and header[0] == "state" and not {"action", "probability"} & set(header):
        return "wide"
    raise InputError(
        f"'{path}' must have the header state,action,probability, or state,action, or state and then one column per "
        f"action, separated by commas. Got {','.join(header)[:200]!r}."
    )


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


def _probability(path: Path, line: int, text: str) -> float:
    try:
        value = float(text) if "_" not in text else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"'{path}', line {line}: a probability must be a number between 0 and 1. Got {text!r}.")
    return value


def _build(who: str, entries: list[tuple[Any, Any, float, int]], name: str, tolerance: float) -> Table:
    """A table of (state, action, probability, line of the file) in any order; pairs that are missing get zero."""
    states: dict[Any, int] = {}
    actions: dict[Any, int] = {}
    state_labels, action_labels = [], []
    places: dict[tuple[int, int], float] = {}
    for state, action, probability, line in entries:
        row, column = labels.key(state), labels.key(action)
        if row not in states:
            states[row] = len(states)
            state_labels.append(labels.native(state))
        if column not in actions:
            actions[column] = len(actions)
            action_labels.append(labels.native(action))
        place = states[row], actions[column]
        if place in places:
            where = f", line {line}" if line else ""
            raise InputError(f"{who}{where}: state {state!r} and action {action!r} occur twice; keep one of them.")
        places[place] = probability
    table = np.zeros((len(states), len(actions)))
    for place, probability in places.items():
        table[place] = probability
    sums = table.sum(axis=1, keepdims=True)
    off = ~(np.abs(sums[:, 0] - 1) <= tolerance)
    if off.any():
        row_number = int(np.argmax(off))
        raise InputError(
            f"{who}: the probabilities of state {state_labels[row_number]!r} must sum to one. "
            f"Got {sums[row_number, 0]:.12g}; add what is missing or divide by the sum."
        )
    return Table(labels.Index(state_labels), tuple(action_labels), checks.frozen(table / sums), name=name)
