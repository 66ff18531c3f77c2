"""A policy on a log: its labels are matched to the log's, and everything it returns is checked."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cesaro import checks, user_code
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies import labels
from cesaro.policies.base import Fixed, LogInfo, Policy, draw
from cesaro.policies.convert import policy as as_policy
from cesaro.policies.observed import Observations, columns, count, named, place
from cesaro.text import Sentence


class Attached:
    """A policy whose actions are those of one log.

    Attributes:
        name: the policy's name.
        given: the policy as it was given.
        policy: the policy with its labels resolved.
        is_logged: it is `logged`, which chooses no actions.
        has_probabilities: `probabilities` gives the exact expectation over actions (discrete actions, and a policy with
            probabilities or without randomness).
        deterministic: `sample` gives the same actions for every generator.
    """

    def __init__(self, policy: Policy, log: LogInfo) -> None:
        self.given = policy
        self.name, self._log, self._who = policy.name, log, f"Policy {policy.name!r}"
        self._is_ours = type(policy).__module__.startswith("cesaro.")
        self.policy: Policy = self._asked(policy.bind, log)
        self.is_logged, self.deterministic = self.policy.is_logged, self.policy.deterministic
        finite = self.policy.actions is not None
        self.has_probabilities = log.actions is not None and not self.is_logged and (finite or self.deterministic)
        self._levels = labels.Index(() if log.actions is None else log.actions)
        self._columns = np.empty(0, dtype=np.int64)
        self._vectors = np.empty((0, log.width))
        if self.policy.actions is not None and log.actions is not None:
            self._columns = self._match(self.policy.actions)
        elif self.policy.actions is not None:
            self._vectors = self._numbers(self.policy.actions)

    def probabilities(self, observations: Observations) -> Array | None:
        """`[n, A]` in the order of the log's action levels; None where actions can only be drawn."""
        if not self.has_probabilities:
            return None
        if self.policy.actions is None:
            codes = self._codes(observations, np.random.default_rng(0))
            result = np.zeros((len(codes), len(self._levels)))
            result[np.arange(len(codes)), codes] = 1.0
            return result
        given = self._probabilities(observations)
        strange = np.flatnonzero(self._columns < 0)
        if len(strange) and (given[:, strange] > 0).any():
            row, number = checks.first_index(given[:, strange] > 0)
            label, chance = self.policy.actions[strange[number]], given[row, strange[number]]
            raise self._unknown(label, f"gives probability {chance:g} to", place(observations, row))
        if np.array_equal(self._columns, np.arange(len(self._levels))):
            return given
        source = np.full(len(self._levels), -1)
        source[self._columns[self._columns >= 0]] = np.flatnonzero(self._columns >= 0)
        result = given[:, source]
        result[:, source < 0] = 0.0
        return result

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[np.int64] | Array:
        """One action per observation: codes `[n]` of the log's action levels, or continuous actions `[n, d]`."""
        if self._log.actions is None:
            return self._continuous(observations, rng)
        if self.policy.actions is None:
            return self._codes(observations, rng)
        probabilities = self.probabilities(observations)
        assert probabilities is not None
        return draw(probabilities, rng)

    def repeats_itself(self, observations: Observations) -> bool:
        """Whether actions depend on nothing but the observations and the generator; False: it has random numbers of its own."""
        first, again = (self.sample(observations, np.random.default_rng(0)) for _ in range(2))
        return np.array_equal(first, again)

    def finite_actions(self, observations: Observations) -> tuple[Array, Array] | None:
        """On a log with continuous actions, for a policy with finitely many: the actions `[A, d]` and `[n, A]`; else None."""
        if self._log.actions is not None or self.policy.actions is None:
            return None
        return self._vectors, self._probabilities(observations)

    def check_available(self, chosen: NDArray[Any], available: NDArray[np.bool_], observations: Observations) -> None:
        """Refuse probabilities `[n, A]`, or codes `[n]`, of actions that were not available, `[n, A]`."""
        every = np.array(self._levels.labels, dtype=object)
        chance = np.asarray(chosen, dtype=np.float64)
        if chance.ndim == 1:
            chance = (chosen[:, None] == np.arange(len(every))).astype(np.float64)
        wrong = (chance > 0) & ~available
        if wrong.any():
            row, column = checks.first_index(wrong)
            raise InputError(
                f"{self._who} must not use an action that is not available. Got probability {chance[row, column]:g} "
                f"for action {every[column]!r} {place(observations, row)}, where only "
                f"{labels.show(every[available[row]]) or 'nothing'} is possible; {self._without_it()}."
            )

    def _without_it(self) -> str:
        """A remedy for an action that is not available; a log tells that at `s` only, so the policy has to know."""
        if isinstance(self.policy, Fixed) and not self.deterministic:
            return (
                "the log tells what is possible at s and not at s', so write the rule in a .py file, spread = "
                f"cesaro.policies.Finite([{labels.show(self._levels.labels)}], lambda s: possible(s) / "
                "possible(s).sum(axis=1, keepdims=True)), where possible(s) is true or false, shape "
                f"[n, {len(self._levels)}], and pass file.py:spread"
            )
        if isinstance(self.policy, Fixed):
            return "write a function in a .py file that chooses a possible action there, and pass file.py:name"
        return "set it to 0 there" if self.policy.actions is not None else "choose a possible one there"

    def _match(self, actions: tuple[Any, ...]) -> NDArray[np.int64]:
        columns = np.array([self._levels.find(action) for action in actions], dtype=np.int64)
        if (columns < 0).all():
            own, other = labels.kind(actions), labels.kind(self._levels.labels)
            differ = f" ({own})" if own != other else ""
            raise InputError(
                f"{self._who} has the actions {labels.show(actions)}{differ}, and the log {self._log.name} has "
                f"{labels.show(self._levels.labels)}{f' ({other})' if differ else ''}: labels are compared as they are, "
                "never by position; give the policy the log's labels (a mapping, or cesaro.policies.Finite(actions, "
                "function)), or rename them in the log."
            )
        return columns

    def _numbers(self, actions: tuple[Any, ...]) -> Array:
        rows = []
        for action in actions:
            row = action if isinstance(action, tuple) else (action,)
            if not all(map(labels.is_number, row)) or len(row) != self._log.width:
                raise InputError(
                    Sentence(
                        "{who} must have {width} numbers per action, as the log {log}, whose actions are continuous. Got "
                        "{action}; if the log's column holds labels, read it with {kind}.",
                        who=self._who,
                        width=str(self._log.width),
                        log=self._log.name,
                        action=repr(action),
                        kind=labels.AS_LABELS,
                    )
                )
            rows.append(row)
        return np.array(rows, dtype=np.float64)

    def _codes(self, observations: Observations, rng: np.random.Generator) -> NDArray[np.int64]:
        values, rows = self._drawn(observations, rng), count(observations)
        if values.shape != (rows,):
            raise self._wrong_shape(values, rows)
        if values.dtype.kind != "O":
            return self._matched(values, observations)
        codes: NDArray[np.int64] = user_code.call(self._unreadable, self._matched, values, observations)
        return codes

    def _matched(self, values: NDArray[Any], observations: Observations) -> NDArray[np.int64]:
        codes = self._levels.codes(values)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise self._unknown(values[row], "chooses", place(observations, row))
        return codes

    def _probabilities(self, observations: Observations) -> Array:
        given: Array = self._asked(self.policy.probabilities, named(observations, self._log.names))
        return given

    def _drawn(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        values: NDArray[Any] = self._asked(self.policy.sample, named(observations, self._log.names), rng)
        return values

    def _asked(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of the policy; our own classes call users' code themselves, and others are users' code."""
        if self._is_ours:
            return method(*arguments)
        return user_code.call(lambda error: f"{self._who} failed with {error}.", method, *arguments)

    def _unreadable(self, error: str) -> str:
        return f"{self._who} must give labels or numbers. Got objects whose reading failed with {error}; convert them."

    def _wrong_shape(self, values: NDArray[Any], rows: int) -> InputError:
        message = f"{self._who} must give one action label per observation, shape ({rows},). Got shape {values.shape}"
        if values.ndim == 2 and (self.policy._float_hint or values.shape[1] > 1):
            hint = self.policy._float_hint or "for probabilities, pass cesaro.policies.Finite(actions, function)"
            return InputError(f"{message} of {values.dtype}; {hint}.")
        return InputError(f"{message}; return an array with one label for each row.")

    def _unknown(self, label: Any, verb: str, where: str) -> InputError:
        own, other = labels.kind([label]), labels.kind(self._levels.labels)
        differ = f" ({other}; {labels.native(label)!r} is of another type: {own})" if own != other else ""
        remedy = "convert its actions to the log's labels" if differ else "leave out actions that were never logged"
        if question := labels.meant(labels.native(label), self._levels.labels):
            remedy = f"{question} Else {remedy}"
        return InputError(
            Sentence(
                "{who} {verb} the action {label} {where}, and the log {log} holds only {levels}{differ}; {remedy}.",
                who=self._who,
                verb=verb,
                label=repr(labels.native(label)),
                where=where,
                log=self._log.name,
                levels=labels.show(self._levels.labels),
                differ=differ,
                remedy=self.policy._unknown_remedy or remedy,
            )
        )

    def _continuous(self, observations: Observations, rng: np.random.Generator) -> Array:
        rows, width = count(observations), self._log.width
        if self.policy.actions is not None:
            values = self._vectors[draw(self._probabilities(observations), rng)]
        else:
            values = self._drawn(observations, rng)
        if values.dtype.kind == "O":
            values = user_code.call(self._unreadable, self._floats, values)
        if values.dtype.kind not in "iuf" or values.shape not in ((rows, width), *([(rows,)] if width == 1 else [])):
            raise InputError(
                f"{self._who} must give {width} numbers per observation, shape ({rows}, {width}), as the log "
                f"{self._log.name}, whose actions are continuous. Got shape {values.shape} of {values.dtype}."
            )
        result = np.array(values, dtype=np.float64).reshape(rows, width)
        if result.size and not (result.min() >= -checks.LARGEST and result.max() <= checks.LARGEST):
            row, column = checks.first_index(~(np.abs(result) <= checks.LARGEST))
            raise InputError(
                f"{self._who} must give finite actions of at most {checks.LARGEST:g} in size. Got {result[row, column]} in "
                f"dimension {column} {place(observations, row)}."
            )
        self._check_bounds(result, observations)
        return result

    def _floats(self, values: NDArray[Any]) -> NDArray[Any]:
        """A list of Python numbers as floats; anything else unchanged, to be refused."""
        numbers = [labels.native(value) for value in values.ravel()]
        fine = all(isinstance(number, float) or labels.is_number(number) for number in numbers)
        return np.array(numbers, dtype=np.float64).reshape(values.shape) if fine else values

    def _check_bounds(self, actions: Array, observations: Observations) -> None:
        for field, bound, sign in (("low", self.policy.low, -1.0), ("high", self.policy.high, 1.0)):
            if bound is None:
                continue
            if bound.shape not in ((1,), (self._log.width,)):
                raise InputError(
                    f"{self._who} must have one bound per action dimension. Got {len(bound)} in {field}, and the log "
                    f"{self._log.name} has actions of {self._log.width} numbers."
                )
            limits = np.broadcast_to(bound, (self._log.width,))
            wrong = checks.beyond(actions, limits, sign)
            if wrong.any():
                row, column = checks.first_index(wrong)
                raise InputError(
                    f"{self._who} must stay within its bounds. Got {actions[row, column]:g} in dimension {column} "
                    f"{place(observations, row)}, and its {field} is {limits[column]:g}; "
                    "correct the bound, or clip the action."
                )


class LoggedRows(Protocol):
    """The part of a `Log` that a policy has to know; a protocol, because this layer comes before that of logs."""

    @property
    def name(self) -> str:
        """The name of the log in messages."""
        ...

    @property
    def action_levels(self) -> NDArray[Any] | None:
        """The sorted labels of discrete actions; None where actions are numbers."""
        ...

    def blocks(self) -> Iterator[Any]:
        """Blocks of rows with `observations` and `actions`, of which the first tells names, forms and labels."""
        ...

    def states(self) -> NDArray[np.int64] | None:
        """Numbers of the states that occur; None where observations are not labels."""
        ...


def attach(policy: Any, log: LoggedRows) -> Attached:
    """`policy` (anything that `cs.policy` takes) on `log`; raises where its labels or states do not fit."""
    return Attached(as_policy(policy), _info(log))


def _info(log: LoggedRows) -> LogInfo:
    first = next(iter(log.blocks()))
    observations, states = first.observations, None
    width = 1 if first.actions.form == "lone" else first.actions.columns[0].shape[1]
    if observations.form == "lone" and observations.is_discrete:
        states = observations.joint().levels[log.states()]
    what = {
        "lone": f"one column of {'labels' if observations.is_discrete else 'numbers'}",
        "vector": "vectors of numbers",
        "named": f"the columns {', '.join(observations.names)}",
    }[observations.form]
    labelled = zip(observations.names, observations.columns)
    levels = {name: column.levels for name, column in labelled if not isinstance(column, np.ndarray)}
    return LogInfo(
        log.name,
        log.action_levels,
        width,
        states,
        what,
        columns={
            name: levels.get(name, np.empty(0))
            for name in columns(named(observations.take(slice(0, 1)).plain(), observations.names))
        },
        names=observations.names,
        action_columns=first.actions.names,
    )
