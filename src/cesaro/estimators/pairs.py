"""Observations and actions given to `predict`, in the form that the log had them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.data import Block
from cesaro.data.values import Categories, Column, Form, Values
from cesaro.errors import InputError


@dataclass(frozen=True)
class Role:
    """One role in the form that the log had it: names, and per column the levels (labels) or the width (numbers)."""

    role: str
    form: Form
    names: tuple[str, ...]
    columns: tuple[NDArray[Any] | int, ...]

    @staticmethod
    def of(role: str, values: Values) -> "Role":
        columns: list[NDArray[Any] | int] = []
        for column in values.columns:
            if isinstance(column, Categories):
                columns.append(column.levels)
            else:
                columns.append(1 if column.ndim == 1 else int(column.shape[1]))
        return Role(role, values.form, values.names, tuple(columns))

    def values(self, given: Any) -> Values:
        """`given` as the log would hold it."""
        if self.form == "named":
            if not hasattr(given, "keys") or set(self.names) - set(given.keys()):
                raise InputError(
                    f"{self.role} must be a dict of the columns {', '.join(self.names)}. Got {_kind(given)}."
                )
            columns = tuple(self._column(n, given[n], c) for n, c in zip(self.names, self.columns))
            lengths = {n: len(c.codes if isinstance(c, Categories) else c) for n, c in zip(self.names, columns)}
            if len(set(lengths.values())) > 1:
                raise InputError(f"The columns of {self.role} must have as many rows. Got {lengths}.")
            return Values(self.form, self.names, columns)
        if self.form == "lone" and hasattr(given, "keys") and self.names[0] in given:
            given = given[self.names[0]]
        return Values(self.form, self.names, (self._column(self.role, given, self.columns[0]),))

    def _column(self, name: str, given: Any, column: NDArray[Any] | int) -> Column:
        if isinstance(column, int):
            array = np.asarray(given)
            if self.form == "vector":
                if array.ndim == 1 and column == 1:
                    array = array[:, None]
                return checks.float_array(name, array, ("row", "column"), (None, column))
            return checks.float_array(name, array, ("row",), (None,))
        # NumPy's own text would lose zero characters at the end.
        labels = given if isinstance(given, np.ndarray) else _objects(given)
        if labels.ndim != 1:
            raise InputError(f"{name} must be a list of labels, [row]. Got shape {labels.shape}.")
        position = {label: code for code, label in enumerate(column.tolist())}
        codes = []
        for label in labels.tolist():
            try:
                codes.append(position[label])
            except (KeyError, TypeError):
                raise InputError(
                    f"{name} must hold labels that are in the log. Got {label!r}, which is not among {len(column)} such as "
                    f"{', '.join(map(repr, column[:3].tolist()))}."
                ) from None
        return Categories(np.array(codes, dtype=np.int64), column)


@dataclass(frozen=True)
class Inputs:
    """The two roles of a pair."""

    observations: Role
    actions: Role

    @staticmethod
    def of(rows: Block) -> "Inputs":
        return Inputs(Role.of("observations", rows.observations), Role.of("actions", rows.actions))

    def pairs(self, observations: Any, actions: Any) -> tuple[Values, Values]:
        """Both, with as many rows."""
        if actions is None:
            raise InputError("predict needs observations and actions: predict(observations, actions).")
        result = self.observations.values(observations), self.actions.values(actions)
        if len(result[0]) != len(result[1]):
            raise InputError(
                f"observations and actions must have as many rows. Got {len(result[0])} and {len(result[1])}."
            )
        return result


def _kind(given: Any) -> str:
    return f"shape {np.shape(given)}" if not hasattr(given, "keys") else f"the keys {', '.join(map(str, given.keys()))}"


def _objects(given: Any) -> NDArray[Any]:
    try:
        rows = list(given)
    except TypeError:
        return np.asarray(given)
    result = np.empty(len(rows), dtype=object)
    result[:] = rows
    return result
