"""Settings of a sweep: the numbers that vary, checked and completed with a method's defaults."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cesaro.checks import Array, number
from cesaro.errors import InputError

Setting = dict[str, float]
# Every number that must be positive; the others must not be negative.
POSITIVE = frozenset({"step_size", "rate_step_size", "dual_step_size", "offset", "radius"})


def grid(**values: float | Iterable[float]) -> list[Setting]:
    """Every combination of the given values, the last name varying fastest.

    Example:
        >>> import cesaro as cs
        >>> cs.grid(step_size=[0.1, 0.2], ridge=0.0)
        [{'step_size': 0.1, 'ridge': 0.0}, {'step_size': 0.2, 'ridge': 0.0}]
    """
    columns = []
    for name, value in values.items():
        column = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
        if not column:
            raise InputError(f"{name} must hold at least one value. Got none.")
        columns.append([_check(name, entry) for entry in column])
    return [dict(zip(values, combination)) for combination in itertools.product(*columns)]


def complete(settings: Sequence[Mapping[str, float]], defaults: Mapping[str, float | None]) -> dict[str, Array]:
    """One array per number, `[settings]`; what is missing takes its default, and None means "as step_size"."""
    if isinstance(settings, str | Mapping) or not isinstance(settings, Iterable):
        raise InputError(
            f"settings must be a list of settings. Got a {type(settings).__name__}; use cesaro.grid(step_size=[…])."
        )
    settings = list(settings)
    if not all(isinstance(setting, Mapping) for setting in settings):
        raise InputError("settings must be a list of mappings from names to numbers; use cesaro.grid(step_size=[…]).")
    if not settings:
        raise InputError("settings must hold at least one setting. Got none; see cesaro.grid(step_size=[…]).")
    known = {**defaults, "dual_step_size": None}
    columns: dict[str, list[float]] = {name: [] for name in defaults}
    if any("dual_step_size" in setting for setting in settings):
        columns["dual_step_size"] = []
    for position, setting in enumerate(settings):
        unknown = sorted(str(name) for name in set(setting) - set(known))
        if unknown:
            raise InputError(
                f"Setting {position} has no meaning for {', '.join(unknown)}; this method takes {', '.join(sorted(known))}."
            )
        for name, column in columns.items():
            value = setting.get(name, known[name])
            column.append(_check(name, setting.get("step_size", known["step_size"]) if value is None else value))
    return {name: np.array(column) for name, column in columns.items()}


def _check(name: str, value: Any) -> float:
    return number(name, value, low=0.0, low_open=name in POSITIVE)
