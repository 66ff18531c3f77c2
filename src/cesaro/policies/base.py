"""Policies: finite actions with probabilities, a sampler, and those that have a word: uniform, constant:<action>, logged."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks, user_code
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies import labels, observed
from cesaro.policies.observed import Observations, count, place
from cesaro.text import Sentence

# How NumPy and pandas say that `if` was asked about many rows, and what to do.
_AMBIGUOUS = "truth value of a"
_AT_ONCE = "it gets all rows at once, so use np.where, & and | in place of if, and, or; "


@dataclass(frozen=True)
class LogInfo:
    """A log as a policy has to know it, or an environment in the place of one.

    `actions` are the labels of discrete actions (None: continuous, of `width` numbers), `states` the labels of a lone
    discrete observation, those at `s'` included (None: the observation is something else, see `observation`), `low` and
    `high` the bounds of continuous actions (None: unknown, as in a log), and `kind` is "log" or "environment", for messages.
    Of what has names, `columns` are the observation columns, each with its labels (an empty array of floats: numbers), `names`
    what an array of them is called, and `action_columns` the names of what was done.
    """

    name: str
    actions: NDArray[Any] | None
    width: int
    states: NDArray[Any] | None
    observation: str
    low: Array | None = None
    high: Array | None = None
    kind: str = "log"
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    action_columns: tuple[str, ...] = ()


class Policy:
    """A target policy, made by `cs.policy`; to write one of your own, write a function or any object with its methods.

    Attributes:
        name: how results call it.
        actions: its labels where it has finitely many actions and gives their probabilities, else None.
        deterministic: whether `sample` does without the generator.
        low: lower bounds of continuous actions, which are checked; None: unbounded.
        high: upper bounds likewise.
    """

    name: str
    actions: tuple[Any, ...] | None = None
    deterministic: bool = False
    low: Array | None = None
    high: Array | None = None
    is_logged: bool = False
    _float_hint = ""
    _file = ""  # the fingerprint of the file that it came from
    _library: str | None = None  # of the data frame that it asks for
    _unknown_remedy: str = ""  # what to do about an action that the log does not have
    _imports: Callable[[], AbstractContextManager[Any]] = staticmethod(nullcontext)

    def probabilities(self, observations: Observations) -> Array:
        """The probability of each of `actions`, `[n, len(actions)]`."""
        raise InputError(f"{self._who} gives no probabilities; draw from it with sample.")

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        """One action for each of the n observations."""
        if self.actions is None:
            raise InputError(f"{self._who} needs a log to choose actions; use cesaro.policies.attach(policy, log).")
        choices = np.empty(len(self.actions), dtype=object)
        choices[:] = list(self.actions)
        plain = np.array(self.actions)
        if plain.ndim == 1 and len({type(action) for action in self.actions}) == 1:
            choices = plain
        return choices[draw(self.probabilities(observations), rng)]

    def bind(self, log: LogInfo) -> "Policy":
        """This policy with the labels of a log where it could not know them before."""
        return self

    def __fingerprint__(self) -> Any:
        return self._file or {name: part for name, part in vars(self).items() if name not in ("name", "_imports")}

    def _called(self, observations: Observations, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(observations, *arguments)`, which calls what the user wrote, among the modules of its file."""

        def among_modules() -> Any:
            with self._imports():
                return function(observations, *arguments)

        try:
            return user_code.call(
                lambda error: (
                    f"{self._who} failed with {error}; {_AT_ONCE if _AMBIGUOUS in error else ''}it must accept the log's "
                    f"observations, {observed.described(observations, self._library)}."
                ),
                among_modules,
            )
        except InputError as error:
            if not isinstance(error.__cause__, KeyError):
                raise
            remedy = observed.remedy_for_missing(error.__cause__, observations)
            raise InputError(Sentence("{said}{remedy}", said=error.message, remedy=remedy)) from error.__cause__

    @property
    def _who(self) -> str:
        return f"Policy {self.name!r}"

    def __repr__(self) -> str:
        count = "" if self.actions is None else f", {len(self.actions)} actions"
        return f"{type(self).__name__}({self.name!r}{count})"


class Finite(Policy):
    """Finitely many actions whose probabilities are known.

    Args:
        actions: labels, in the order of the columns.
        function: `function(observations)` gives the probabilities `[n, len(actions)]`.
        name: how results call it; by default the name of the function.

    Example:
        >>> import numpy as np
        >>> from cesaro.policies import Finite
        >>> careful = Finite(["accept", "reject"], lambda load: np.column_stack([1 - load, load]), name="careful")
        >>> careful.probabilities(np.array([0.2, 0.9]))
        array([[0.8, 0.2],
               [0.1, 0.9]])
    """

    actions: tuple[Any, ...]

    def __init__(
        self, actions: Sequence[Any] | NDArray[Any], function: Callable[[Any], Any], *, name: str | None = None
    ) -> None:
        self.name = default_name(function) if name is None else name
        self.actions = check_actions(self._who, actions)
        if not callable(function):
            raise InputError(f"{self._who} must have a function that gives probabilities. Got {function!r}.")
        self._library = observed.frame_library(function)
        self._function, plain = user_code.sampler(f"The probabilities of policy {self.name!r}", function)
        if not plain:
            raise InputError(
                f"The probabilities of policy {self.name!r} must be a function of the observations alone, and this one "
                "takes a random generator; if it draws actions, pass it as a function instead: cs.policy(function)."
            )

    def probabilities(self, observations: Observations) -> Array:
        given = self._called(observations, self._numbers)
        return check_probabilities(self._who, given, observations, self.actions)

    def _numbers(self, observations: Observations) -> NDArray[Any]:
        raw = self._function(observed.given(observations, self._library), None)
        return as_probabilities(self._who, raw, observations, self.actions)


class Sampler(Policy):
    """A function that chooses an action for each observation.

    Args:
        function: `f(observations, rng)` draws, `f(observations)` is deterministic; both give n actions.
        name: how results call it; by default the name of the function.
        low: lower bounds of continuous actions, which are then checked.
        high: upper bounds likewise.
    """

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, low: Any = None, high: Any = None
    ) -> None:
        self.name = default_name(function) if name is None else name
        self._library = observed.frame_library(function)
        self._function, self.deterministic = user_code.sampler(self._who, function)
        self.low = None if low is None else check_bound(self._who, "low", low)
        self.high = None if high is None else check_bound(self._who, "high", high)

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        drawn: NDArray[Any] = self._called(observations, self._sample, rng)
        return drawn

    def _sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        raw = self._function(observed.given(observations, self._library), rng)
        if raw is None:
            raise InputError(f"{self._who} must return one action per observation. Got None; add a return statement.")
        if np.ma.isMaskedArray(raw) and np.ma.getmaskarray(raw).any():
            raise InputError(f"{self._who} must return an action in every row. Got a masked array; fill its gaps.")
        array: NDArray[Any] = user_code.call(
            lambda error: (
                f"{self._who} must return one action per observation. Got a {user_code.type_name(raw)} that is not an "
                f"array ({error}); return a NumPy array."
            ),
            labels.array,
            raw,
        )
        return array


class Fixed(Policy):
    """The same probabilities everywhere."""

    actions: tuple[Any, ...]

    def __init__(self, actions: Sequence[Any], weights: Sequence[float], *, name: str) -> None:
        self.name, self.actions, self._weights = name, tuple(actions), np.array(weights)
        self.deterministic = len(self.actions) == 1

    def probabilities(self, observations: Observations) -> Array:
        return np.tile(self._weights, (count(observations), 1))


class UniformBox(Policy):
    """Continuous actions, every one between two bounds alike."""

    def __init__(self, low: Array, high: Array, *, name: str) -> None:
        self.name = name
        self.low, self.high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        assert self.low is not None
        assert self.high is not None
        return rng.uniform(self.low, self.high, (count(observations), len(self.low)))


class Uniform(Policy):
    """Every action of the log, or of the environment, alike."""

    def __init__(self, *, name: str = "uniform") -> None:
        self.name = name

    def bind(self, log: LogInfo) -> Policy:
        if log.actions is None:
            if log.low is not None and log.high is not None and np.isfinite([log.low, log.high]).all():
                return UniformBox(log.low, log.high, name=self.name)
            some = "" if log.low is None else " on some side"
            read = Sentence("read them with {kind} if they are labels, or ", kind=labels.AS_LABELS)
            raise InputError(
                Sentence(
                    "{who} needs finitely many actions, or bounds, and those of the {kind} {log} are continuous ({width}) "
                    "without bounds{some}; {read}write a function that draws: f(observations, rng).",
                    who=self._who,
                    kind=log.kind,
                    log=log.name,
                    width=f"{log.width} number{'' if log.width == 1 else 's'}",
                    some=some,
                    read=read if log.kind == "log" else "",
                )
            )
        every = [labels.native(level) for level in log.actions]
        return Fixed(every, [1 / len(every)] * len(every), name=self.name)


class Constant(Policy):
    """Always the action that a text stands for in the log."""

    def __init__(self, text: str, *, name: str | None = None) -> None:
        self.name = f"constant:{text}" if name is None else name
        self._text = text
        if not text:
            raise InputError("constant: must name an action, such as constant:0 or constant:reject. Got none.")

    def bind(self, log: LogInfo) -> Policy:
        if log.actions is None:
            vector = labels.read_vector(self._text)
            if vector is None or len(vector) != log.width:
                raise InputError(
                    f"{self._who} must give the {log.width} numbers of an action of the {log.kind} {log.name}, separated by "
                    f"commas. Got {self._text!r}."
                )
            return Fixed([vector], [1.0], name=self.name)
        label = labels.read(self._text, log.actions)
        if label is None or labels.Index(log.actions).find(label) < 0:
            question = labels.meant(label, log.actions)
            raise InputError(
                f"{self._who} must be an action of the {log.kind} {log.name}: {labels.show(log.actions)} "
                f"({labels.kind(log.actions)}). Got {self._text!r}{f'; {question}' if question else '.'}"
            )
        return Fixed([label], [1.0], name=self.name)


class Logged(Policy):
    """The policy that made the log: its rate is the mean logged reward, and it chooses no actions."""

    is_logged = True

    def __init__(self, *, name: str = "logged") -> None:
        self.name = name

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        raise InputError(f"{self._who} is what the log did and chooses no actions; its rate is the mean logged reward.")


def default_name(thing: Any) -> str:
    name = getattr(thing, "__name__", None) or type(thing).__name__
    return name if isinstance(name, str) and name.isidentifier() else "policy"


def check_actions(who: str, actions: Any) -> tuple[Any, ...]:
    """Action labels: at least one, all different."""
    try:
        result = () if isinstance(actions, str) else tuple(labels.native(action) for action in actions)
    except TypeError:  # nothing that one can iterate over
        result = ()
    if not result:
        raise InputError(f"{who} must have a sequence of at least one action label. Got {actions!r}.")
    if (twice := labels.repeated(result)) is not None:
        raise InputError(f"{who} must have different action labels. Got {twice[0]!r} twice; merge the two columns.")
    return result


def check_bound(who: str, field: str, values: Any) -> Array:
    try:
        bound = np.atleast_1d(np.array(values, dtype=np.float64))
    except (TypeError, ValueError):
        bound = np.array(np.nan)
    if bound.ndim != 1 or np.isnan(bound).any():
        raise InputError(f"{who} must have one number per action dimension as {field}. Got {values!r}.")
    return checks.frozen(bound)


def as_probabilities(who: str, raw: Any, observations: Observations, actions: tuple[Any, ...]) -> NDArray[Any]:
    """The probabilities that a policy gave as an array of real numbers, a row per observation and a column per action."""
    rows = count(observations)
    expected = f"probabilities of shape [{rows}, {len(actions)}]: a row per observation, a column per action"
    if raw is None:
        raise InputError(f"{who} must give {expected}. Got None; add a return statement.")
    try:
        given = np.asarray(raw)
        if given.dtype.kind not in "biuf" or np.ma.isMaskedArray(raw):
            raise TypeError
    except Exception:
        raise InputError(
            f"{who} must give {expected}. Got a {user_code.type_name(raw)}; return an array of floats."
        ) from None
    if given.shape != (rows, len(actions)):
        raise InputError(f"{who} must give {expected} ({labels.show(actions)}). Got shape {given.shape}.")
    return given


def check_probabilities(who: str, raw: Any, observations: Observations, actions: tuple[Any, ...]) -> Array:
    """The probabilities that a policy gave, normalized: finite, not negative, and summing to one to rounding of their type."""
    given = as_probabilities(who, raw, observations, actions)
    result = np.array(given, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = ~(result >= 0) | np.isinf(result)
        sums = result.sum(axis=1, keepdims=True)
    if wrong.any():
        row, column = checks.first_index(wrong)
        raise InputError(
            f"{who} must give probabilities between 0 and 1. "
            f"Got {result[row, column]:g} for action {actions[column]!r} {place(observations, row)}."
        )
    off = ~(np.abs(sums[:, 0] - 1) <= checks.row_sum_tolerance(given.dtype))
    if off.any():
        row = int(np.argmax(off))
        raise InputError(
            f"{who} must give probabilities that sum to one. Got {sums[row, 0]:.12g} "
            f"{place(observations, row)}; add what is missing or divide by the sum."
        )
    result /= sums
    return result


def draw(probabilities: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """A column for each row, by one uniform number each; a column of probability zero never."""
    chance = rng.random((len(probabilities), 1))
    chosen = np.count_nonzero(chance >= probabilities.cumsum(axis=1), axis=1)
    last = probabilities.shape[1] - 1 - np.argmax(probabilities[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(chosen, last), dtype=np.int64)
