"""`rule:on if temperature < 19 else off`: a policy as an expression, read by a parser of ours and never run as code.

Python's grammar gives the tree, and only these may stand in it: `… if … else …`, comparisons, `in (…)`, `and`, `or`, `not`,
arithmetic, numbers, text in quotes, names of columns (in backticks where they hold spaces), and labels of actions as results.
"""

import ast
import copy
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.policies import labels
from cesaro.policies.base import LogInfo, Policy
from cesaro.policies.observed import Observations, columns, count, place
from cesaro.text import nearest, visible

PREFIX = "rule:"
_LONGEST, _DEEPEST, _SHOWN = 10_000, 100, 100  # characters, levels, characters in a message
_SHAPE = "a rule is ACTION if CONDITION else ACTION, such as rule:on if temperature < 19 else off"
_INSTEAD = "write it as a function in a Python file, and pass file.py:name"

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_MEMBERSHIP = (ast.In, ast.NotIn)
_PARTS = (
    *(ast.Expression, ast.IfExp, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Constant, ast.Name, ast.Load),
    *(ast.And, ast.Or, ast.Not, ast.USub, ast.UAdd, ast.Tuple, ast.List, ast.Set),
    *(*_ARITHMETIC, *_COMPARISONS, *_MEMBERSHIP),
)
_MEANT = {ast.BitAnd: "and", ast.BitOr: "or", ast.Invert: "not", ast.Is: "==", ast.IsNot: "!="}


class Rule(Policy):
    """A policy without randomness whose expression is evaluated for all observations at once."""

    deterministic = True

    def __init__(self, text: str, *, name: str | None = None) -> None:
        self._text = re.sub(r"\s", " ", text.strip())  # one character for one, so that places stay where they are
        self.name = f"{PREFIX}{self._text}" if name is None else name
        self._quoted: dict[str, str] = {}  # what stands for a column in backticks
        self._source = self._without_backticks()
        self._tree = self._parsed()
        self._columns: tuple[str, ...] | None = None  # of the log
        self._labels: dict[int, Any] = {}  # by place in the text

    def __fingerprint__(self) -> Any:
        return PREFIX, self._text

    def bind(self, log: LogInfo) -> Policy:
        bound = copy.copy(self)
        bound._columns = tuple(log.columns)
        bound._labels = {}
        bound._check_choice(self._tree, log)
        return bound

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        seen = columns(observations)
        if self._columns is None:
            raise InputError(f"{self._who} needs a log to read its names; use cesaro.policies.attach(policy, log).")
        with np.errstate(all="ignore"):
            chosen = np.asarray(_Evaluation(self, seen).choice(self._tree))
        return np.array(np.broadcast_to(chosen, (count(seen),)))

    def wrong(self, node: ast.expr, rule: str, remedy: str) -> InputError:
        """A sentence that points to a part of the text."""
        start, end = self._start(node), len(self._source.encode()[: node.end_col_offset].decode())
        part = self._text[start:end]
        return InputError(f"{self._shown}: {rule}. Got {part!r} at character {start + 1} of the rule; {remedy}.")

    def column(self, node: ast.Name) -> str | None:
        """The column that a name stands for; None: it is none."""
        name = self._quoted.get(node.id, node.id)
        return name if name in (self._columns or ()) else None

    def label(self, node: ast.expr) -> tuple[Any] | None:
        """The label of the log that a result stands for; None: it is computed."""
        place = self._start(node)
        return (self._labels[place],) if place in self._labels else None

    def _parsed(self) -> ast.expr:
        if not self._text:
            raise InputError(f"{PREFIX} must hold an expression. Got none; {_SHAPE}.")
        if len(self._text) > _LONGEST:
            raise InputError(f"A rule must have at most {_LONGEST:,} characters. Got {len(self._text):,}; {_INSTEAD}.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about backslashes in text
                tree = ast.parse(self._source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            why = getattr(error, "msg", "") or str(error) or type(error).__name__
            # Python points to the whole of what should go on with else, whose end is the place.
            offset = getattr(error, "end_offset" if why.startswith("expected 'else'") else "offset", None) or 1
            start = min(max(0, offset - 1), len(self._text))
            part = self._text[start : start + 20].strip()
            hint = "a column whose name is more than one plain word stands in backticks, `room temp`"
            if re.search(r"(?<![<>=!])=(?!=)", self._text):
                hint = "equality is =="
            elif re.match(r",\d", self._text[start:]):
                hint = "decimals have a point, 0.6"
            raise InputError(
                f"{self._shown} cannot be read at character {start + 1} of the rule, {part!r} ({why.rstrip('.')}); "
                f"{_SHAPE}; {hint}."
            ) from None
        self._check_parts(tree)
        return tree

    def _without_backticks(self) -> str:
        """The text with a name of the same length for every column in backticks, so that places stay where they are."""
        free = (chr(code) for code in range(0x4E00, 0x9FFF) if chr(code) not in self._text)

        def stand_in(found: re.Match[str]) -> str:
            name = next((short for short, full in self._quoted.items() if full == found[1]), next(free) * len(found[0]))
            self._quoted[name] = found[1]
            return name

        return re.sub(r"`([^`]+)`", stand_in, self._text)

    def _check_parts(self, tree: ast.expr) -> None:
        level: list[ast.AST] = [tree]
        for _ in range(_DEEPEST):
            for node in level:
                self._check_part(node)
            level = [child for node in level for child in ast.iter_child_nodes(node)]
            if not level:
                return
        raise InputError(f"A rule must be at most {_DEEPEST} parts deep. Got {self._shown}; {_INSTEAD}.")

    def _check_part(self, node: ast.AST) -> None:
        if not isinstance(node, ast.expr):  # an operator, which is checked with what it joins
            return
        if not isinstance(node, _PARTS):
            rule = "a rule must consist of if-else, comparisons, arithmetic, numbers, text and names"
            raise self.wrong(node, rule, _INSTEAD)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.expr, *_PARTS)):
                meant = _MEANT.get(type(child))
                raise self.wrong(node, "a rule must not use this operator", f"write {meant}" if meant else _INSTEAD)
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool | int | float | str):
            raise self.wrong(node, "a value must be a number or text", "write a number, or text in quotes")
        if isinstance(node, ast.Compare):
            for op, right in zip(node.ops, node.comparators):
                if isinstance(op, _MEMBERSHIP) != isinstance(right, ast.Tuple | ast.List | ast.Set):
                    raise self.wrong(
                        node, "what follows in must be a list", 'write column in ("a", "b"), or column == "a"'
                    )

    def _check_choice(self, node: ast.expr, log: LogInfo) -> None:
        """Find the labels among the results, and every name among the columns."""
        if isinstance(node, ast.IfExp):
            self._check_names(node.test)
            self._check_texts(node.test, log)
            self._check_choice(node.body, log)
            self._check_choice(node.orelse, log)
            return
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            raise self.wrong(node, "a result must be one action", "write one action per result")
        text = self._text_of(node)
        if text is None or (isinstance(node, ast.Name) and self.column(node) and not _is_label(text, log)):
            self._check_names(node)
        elif isinstance(node, ast.Name) and self.column(node):
            raise self.wrong(
                node, "a result must be an action or a column, and this is both", "put an action in quotes"
            )
        elif log.actions is not None:
            if not _is_label(text, log):
                close = nearest(text, map(str, log.actions))
                seen = ", ".join(map(repr, log.columns)) or "none"
                remedy = f"write {close} if that was meant" if close else f"name one of these, or a column: {seen}"
                known = f"{labels.show(log.actions)} ({labels.kind(log.actions)})"
                raise self.wrong(node, f"a result must be an action of the {log.kind} {log.name}: {known}", remedy)
            self._labels[self._start(node)] = labels.read(text, log.actions)
        elif (
            not (isinstance(node, ast.Constant) and not isinstance(node.value, str))
            and labels.read_vector(text) is None
        ):
            raise self.wrong(
                node, f"the actions of the {log.kind} {log.name} are numbers", "write a number or arithmetic"
            )

    def _text_of(self, node: ast.expr) -> str | None:
        """The label that a result names, as text; None where it is computed."""
        if isinstance(node, ast.Name):
            return self._quoted.get(node.id, node.id)
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number = node.operand.value
            return f"-{number}" if isinstance(number, int | float) else None
        return None

    def _check_names(self, node: ast.expr) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and self.column(part) is None:
                name = self._quoted.get(part.id, part.id)
                seen = self._columns or ()
                close = nearest(name, seen)
                meant = f"write {close} if that was meant" if close else "name one of these"
                known = ", ".join(map(repr, seen)) or "here they have no names"
                raise self.wrong(
                    part,
                    f"a name in a condition must be a column that the policy sees: {known}",
                    f"{meant}, or put text in quotes" if seen else _INSTEAD,
                )

    def _check_texts(self, condition: ast.expr, log: LogInfo) -> None:
        """Refuse text that is nearly a label of the column that it is compared with; others may be rare, and not in this log."""
        for part in ast.walk(condition):
            if not isinstance(part, ast.Compare):
                continue
            sides = [part.left, *part.comparators]
            for one, other in (pair for left, right in pairwise(sides) for pair in ((left, right), (right, left))):
                name = self.column(one) if isinstance(one, ast.Name) else None
                known = log.columns[name] if name is not None else np.empty(0)
                if not len(known) or not _is_text(known):
                    continue
                for text in other.elts if isinstance(other, ast.Tuple | ast.List | ast.Set) else [other]:
                    if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value not in known:
                        question = labels.meant(text.value, known)
                        if not question:
                            continue
                        raise self.wrong(
                            text,
                            f'"{visible(name or "")}" must be compared with a label that the {log.kind} {log.name} has: '
                            f"{labels.show(known)}",
                            f"{question} Else leave it out",
                        )

    def _start(self, node: ast.expr) -> int:
        """Where a part begins, in characters; the tree counts bytes."""
        return len(self._source.encode()[: node.col_offset].decode())

    @property
    def _shown(self) -> str:
        return f"'{PREFIX}{self._text[:_SHOWN]}{'…' if len(self._text) > _SHOWN else ''}'"


class _Evaluation:
    """The rule on one set of observations."""

    def __init__(self, rule: Rule, seen: Mapping[str, NDArray[Any]]) -> None:
        self._rule, self._seen = rule, seen

    def choice(self, node: ast.expr) -> Any:
        if isinstance(node, ast.IfExp):
            return np.where(self._condition(node.test), self.choice(node.body), self.choice(node.orelse))
        label = self._rule.label(node)
        return self._value(node) if label is None else label[0]

    def _condition(self, node: ast.expr) -> Any:
        if isinstance(node, ast.BoolOp):
            joined = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            found = self._condition(node.values[0])
            for part in node.values[1:]:
                found = joined(found, self._condition(part))
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return np.logical_not(self._condition(node.operand))
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        found = self._value(node)
        if np.asarray(found).dtype.kind != "b":
            remedy = "compare it with something, as in temperature < 19"
            raise self._rule.wrong(node, "a condition must be true or false", remedy)
        return found

    def _comparison(self, node: ast.Compare) -> Any:
        found: Any = True
        left = node.left
        for op, right in zip(node.ops, node.comparators):
            if isinstance(right, ast.Tuple | ast.List | ast.Set):
                within: Any = False
                for one in right.elts:
                    within = np.logical_or(within, self._compared(node, operator.eq, left, one))
                now = np.logical_not(within) if isinstance(op, ast.NotIn) else within
            else:
                now = self._compared(node, _COMPARISONS[type(op)], left, right)
            found, left = np.logical_and(found, now), right
        return found

    def _compared(
        self, node: ast.expr, compare: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr
    ) -> NDArray[np.bool_]:
        one, other = self._value(left), self._value(right)
        if _is_text(one) != _is_text(other):
            kinds = " and ".join("text" if _is_text(side) else "a number" for side in (one, other))
            remedy = "put text in quotes and write numbers without"
            raise self._rule.wrong(node, f"a comparison must be of two numbers or two texts, not of {kinds}", remedy)
        return np.asarray(compare(np.asarray(one), np.asarray(other)), dtype=np.bool_)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            is_large = isinstance(node.value, int) and abs(node.value) >= 2**63
            return float(str(node.value)) if is_large else node.value
        if isinstance(node, ast.Name):
            name = self._rule.column(node)
            assert name is not None
            return self._seen[name]
        if isinstance(node, ast.IfExp):
            return np.where(self._condition(node.test), self._value(node.body), self._value(node.orelse))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number = self._number(node.operand)
            return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.BinOp):
            found = _ARITHMETIC[type(node.op)](self._number(node.left), self._number(node.right))
            self._reject_infinite(node, found)
            return found
        if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
            return self._condition(node)
        raise self._rule.wrong(node, "a list may only follow in", 'write column in ("a", "b")')

    def _number(self, node: ast.expr) -> Any:
        found = self._value(node)
        if _is_text(found):
            raise self._rule.wrong(node, "arithmetic must be of numbers", "leave text out")
        return np.asarray(found, dtype=np.float64)

    def _reject_infinite(self, node: ast.expr, found: Any) -> None:
        wrong = ~np.isfinite(np.broadcast_to(found, (count(self._seen),)))
        if wrong.any():
            row = int(np.argmax(wrong))
            where = place(self._seen, row)
            raise self._rule.wrong(
                node, f"arithmetic must give finite numbers, also {where}", "treat that case by if-else"
            )


def _is_label(text: str, log: LogInfo) -> bool:
    if log.actions is None:
        return False
    label = labels.read(text, log.actions)
    return label is not None and labels.Index(log.actions).find(label) >= 0


def _is_text(values: Any) -> bool:
    return np.asarray(values).dtype.kind in "UO"
