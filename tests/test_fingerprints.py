"""Fingerprints: the same in every process for what computes the same, another one for what does not."""

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.tree import DecisionTreeRegressor

from cesaro.fingerprints import fingerprint

BOUND = 1.0


def function(source: str, name: str = "f", **known: Any) -> Any:
    """Made where no source text is, so that its code counts."""
    exec(textwrap.dedent(source), known)
    return known[name]


def enclosing(value: Any) -> Callable[[Any], Any]:
    return lambda x: x * value


def bounded(x: Any) -> Any:
    return np.minimum(x, BOUND)


class Pair(NamedTuple):
    first: Any
    second: Any


class Scaled:
    def __init__(self, scale: Any) -> None:
        self.scale, self.lock = scale, threading.Lock()

    def __call__(self, x: Any) -> Any:
        return bounded(x * self.scale)


class Named(list[int]):
    name = ""


def named_list(name: str) -> Named:
    found = Named([1])
    found.name = name
    return found


def member(value: int) -> type:
    class Holder:
        held = (value,)

    return Holder


def tree(cut: float) -> Any:
    x = np.linspace(0, 1, 50)[:, None]
    return DecisionTreeRegressor(max_depth=1).fit(x, x[:, 0] > cut)


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale: float) -> None:
        self.scale = scale


EQUAL: dict[str, tuple[Any, Any]] = {
    "numbers": (np.arange(3.0), np.arange(3.0)),
    "closures": (enclosing(2.0), enclosing(2.0)),
    "objects": (Scaled(2.0), Scaled(2.0)),
    "generators": (np.random.default_rng(0), np.random.default_rng(1)),
    "sets": ({"a", "b", "c"}, {"c", "b", "a"}),
    "places of files": (Path("a/x.csv"), Path("b/x.csv")),
    "code": (function("def f(x):\n  return x + 1"), function("def f(x):\n\n  return x + 1  # one")),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "numbers": (np.arange(3.0), np.array([0.0, 1.0, 2.5])),
    "types": (np.arange(3), np.arange(3.0)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "labels": (np.array(["a", 1], dtype=object), np.array(["a", "1"], dtype=object)),
    "nesting": ([["a"], "b"], [["a", "b"]]),
    "text": (["ab", "c"], ["a", "bc"]),
    "tuples": (Pair(1, 2), (1, 2)),
    "keys": ({"a": 1}, {"b": 1}),
    "closures": (enclosing(2.0), enclosing(2.5)),
    "enclosed arrays": (enclosing(np.zeros(3)), enclosing(np.ones(3))),
    "enclosed functions": (enclosing(enclosing(1)), enclosing(enclosing(2))),
    "source": (lambda x: x + 1, lambda x: x + 2),
    "code": (function("def f(x):\n  return x + 1"), function("def f(x):\n  return x + 2")),
    "inner code": (
        function("def f(x):\n  return [y + 1 for y in x]"),
        function("def f(x):\n  return [y + 2 for y in x]"),
    ),
    "globals": (function("def f(x):\n  return x + K", K=1), function("def f(x):\n  return x + K", K=2)),
    "defaults": (function("def f(x, k=1):\n  return x + k"), function("def f(x, k=2):\n  return x + k")),
    "keyword defaults": (function("def f(x, *, k=1): return k"), function("def f(x, *, k=2): return k")),
    "partial": (partial(enclosing(1), 1), partial(enclosing(1), 2)),
    "methods": (Scaled(1.0).__call__, Scaled(2.0).__call__),
    "objects": (Scaled(1.0), Scaled(2.0)),
    "slots": (Slotted(1.0), Slotted(2.0)),
    "classes": (Scaled, Slotted),
    "cached": (lru_cache(enclosing(1)), lru_cache(enclosing(2))),
    "library": (np.sin, np.cos),
    "builtins": (abs, len),
    "frames": (pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"a": [1.0, 2.5]})),
    "tables": (pa.table({"a": [1.0, 2.0]}), pa.table({"a": [1.0, 2.5]})),
    "trees": (tree(0.4), tree(0.6)),
    "masks": (np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.array([1.0, 2.0], mask=[True, False])),
    "decimals": (Decimal("1.1"), Decimal("1.2")),
    "dates": (date(2024, 1, 1), date(2024, 1, 2)),
    "queues": (deque([1, 2]), deque([1, 3])),
    "bytes": (bytearray(b"a"), bytearray(b"b")),
    "patterns": (re.compile("a"), re.compile("b")),
    "getters": (itemgetter(0), itemgetter(1)),
    "methods of functions": (np.add.reduce, np.maximum.reduce),
    "members of classes": (member(1), member(2)),
    "lists with attributes": (named_list("a"), named_list("b")),
    "modules": (np, sys),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_things(name: str) -> None:
    one, other = EQUAL[name]
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_things(name: str) -> None:
    one, other = DIFFERENT[name]
    assert fingerprint(one) != fingerprint(other)


def test_what_a_method_refers_to_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(Scaled(1.0))
    monkeypatch.setattr(sys.modules[__name__], "BOUND", 2.0)
    assert fingerprint(Scaled(1.0)) != before


def test_things_that_hold_themselves() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    other: list[Any] = [1]
    other.append([1, other])
    assert fingerprint(circle) != fingerprint(other)


def test_what_refuses_to_be_looked_at_counts_by_its_type() -> None:
    class Private:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no")

    assert fingerprint(Private()) == fingerprint(Private())


PROGRAM = """
import numpy as np
from cesaro.fingerprints import fingerprint
FACTORS = {"a": 1.0, "b": [np.arange(3)]}
class Policy:
    actions = (0, 1)
    def __init__(self):
        self.names = {"x", "y", "z"}
    def probabilities(self, observations):
        return np.full((len(observations), 2), FACTORS["a"] / 2)
print(fingerprint((Policy(), lambda s: s + 1, Policy().probabilities, np.random.default_rng())))
"""


@pytest.mark.slow
def test_processes_agree(tmp_path: Path) -> None:
    found = set()
    for seed, folder in (("1", "here"), ("2", "there")):
        file = tmp_path / folder / "program.py"
        file.parent.mkdir()
        file.write_text(PROGRAM)
        line = [sys.executable, str(file)]
        found.add(subprocess.run(line, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=-1, check=True).stdout)
    assert len(found) == 1
