"""The policies that have a word: uniform, constant:<action>, logged."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.policies import labels
from cesaro.policies.base import LogInfo, Policy, count
from cesaro.policies.observed import Observations
from cesaro.text import Sentence


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
