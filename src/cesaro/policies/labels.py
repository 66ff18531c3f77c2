"""Labels of actions and states: which ones are the same, and what text stands for among them."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.text import Wording, nearest

Codes = NDArray[np.int64]

_INT64 = 2.0**63
# How a column of a log is read as labels.
AS_LABELS = Wording("kinds={…: 'category'}", "--kind COLUMN=category")


def native(label: Any) -> Any:
    """The label as a plain Python value: NumPy scalars and small arrays are unwrapped, lists become tuples."""
    if isinstance(label, np.ndarray | np.generic):
        label = label.tolist()
    elif getattr(label, "ndim", None) == 0 and hasattr(label, "item"):  # a scalar of another array library
        label = label.item()
    if isinstance(label, list | tuple):
        return tuple(native(part) for part in label)
    return label


def key(label: Any) -> tuple[str, Any]:
    """Labels are the same exactly if their keys are: 1, 1.0 and `np.int8(1)` are; 1, True and "1" are three."""
    label = native(label)
    if isinstance(label, bool):
        return "truth", label
    if isinstance(label, int):
        return "number", int(label)
    if isinstance(label, float):
        return "number", int(label) if label.is_integer() else float(label)
    if isinstance(label, str):
        return "text", str(label)
    if isinstance(label, tuple):
        return "vector", tuple(key(part) for part in label)
    return type(label).__name__, repr(label)


def is_number(label: Any) -> bool:
    """Whether the label can be a coordinate of a continuous action."""
    if isinstance(label, bool) or not isinstance(label, int | float):
        return False
    try:
        return math.isfinite(label)
    except OverflowError:
        return False


def kind(labels: Iterable[Any]) -> str:
    """The kinds of the labels, in words."""
    keys = [key(label) for label in labels]
    words = []
    for name in dict.fromkeys(name for name, _ in keys):
        if name == "number":
            whole = all(isinstance(value, int) for other, value in keys if other == name)
            words.append("integers" if whole else "numbers")
        else:
            words.append({"truth": "truth values", "text": "text", "vector": "vectors"}.get(name, f"{name} objects"))
    return " and ".join(words) or "no labels"


def show(labels: Iterable[Any], limit: int = 6) -> str:
    """The first labels as Python writes them."""
    every = [native(label) for label in labels]
    shown = [text if len(text := repr(label)) <= 60 else f"{text[:60]}…" for label in every[:limit]]
    return ", ".join(shown) + (f", … ({len(every)} in all)" if len(every) > limit else "")


def meant(label: Any, known: Iterable[Any]) -> str:
    """A question, where text is much like one of the known labels; else nothing."""
    texts = [one for one in map(native, known) if isinstance(one, str)]
    close = nearest(label, texts) if isinstance(label, str) else None
    return f"did you mean {close!r}?" if close is not None else ""


def repeated(labels: Iterable[Any]) -> Any | None:
    """The first label that occurs a second time, as a tuple of one; None if all differ."""
    seen = set()
    for label in labels:
        if (this := key(label)) in seen:
            return (label,)
        seen.add(this)
    return None


def read(text: str, levels: NDArray[Any]) -> Any | None:
    """The label that `text` stands for among labels of the type of `levels`; None if it stands for none."""
    if levels.dtype.kind == "b":
        return {"true": True, "false": False}.get(text.strip().lower())
    if levels.dtype.kind in "iu":
        whole = re.fullmatch(r"([+-]?[0-9]{1,30})(\.0*)?", text.strip())
        return int(whole[1]) if whole else None
    if levels.dtype.kind == "f":
        numbers = read_vector(text)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None
    return text


def read_vector(text: str) -> tuple[float, ...] | None:
    """Comma-separated finite numbers; None if `text` is anything else."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        return None
    return values if np.isfinite(values).all() and "_" not in text else None


def array(values: Any) -> NDArray[Any]:
    """The values that a policy returned as an array, without NumPy's conversions among labels (`[0, "a"]` to two strings)."""
    if isinstance(values, list | tuple) and not any(
        isinstance(value, list | tuple) or getattr(value, "ndim", 0) for value in values
    ):
        result = np.empty(len(values), dtype=object)
        result[:] = values
        return result
    return np.asarray(values)


class Index:
    """Positions of labels in a sequence; labels are the same if their keys are (see `key`)."""

    def __init__(self, labels: Iterable[Any]) -> None:
        self.labels = tuple(native(label) for label in labels)
        self._positions = {key(label): position for position, label in enumerate(self.labels)}
        numbers = [(value, position) for (name, value), position in self._positions.items() if name == "number"]
        whole = sorted(pair for pair in numbers if isinstance(pair[0], int) and -_INT64 <= pair[0] < _INT64)
        self._integers = np.array([value for value, _ in whole], dtype=np.int64)
        self._integer_positions = np.array([position for _, position in whole], dtype=np.int64)
        self._only_integers = len(whole) == len(numbers)
        self._text = {value: position for (name, value), position in self._positions.items() if name == "text"}

    def __len__(self) -> int:
        return len(self.labels)

    def __fingerprint__(self) -> Any:
        return self.labels

    def find(self, label: Any) -> int:
        """The position of one label; -1 if it is not there."""
        return self._positions.get(key(label), -1)

    def codes(self, values: NDArray[Any]) -> Codes:
        """The position of every entry of an array `[n]`; -1 where it is not there."""
        if values.dtype.kind == "b":
            return np.array([self.find(False), self.find(True)])[values.astype(np.int8)]
        if values.dtype.kind in "iu" and self._only_integers:
            fits = values <= np.iinfo(np.int64).max
            return np.where(fits, self._search(values.astype(np.int64)), -1)
        if values.dtype.kind == "f" and self._only_integers:
            fits = (np.abs(values) < _INT64) & (np.floor(values) == values)
            return np.where(fits, self._search(np.where(fits, values, 0).astype(np.int64)), -1)
        find = [self._text.get(v, -1) if type(v) is str else self.find(v) for v in values.tolist()]
        return np.array(find, dtype=np.int64)

    def _search(self, values: NDArray[np.int64]) -> Codes:
        if not len(self._integers):
            return np.full(len(values), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._integers, values), len(self._integers) - 1)
        return np.where(self._integers[place] == values, self._integer_positions[place], -1)
