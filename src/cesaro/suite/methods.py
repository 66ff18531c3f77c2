"""The methods that the suite scores: every candidate of today, each as a user would run it, none of which sees a truth."""

import copy
import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cesaro import candidates, python_file
from cesaro.data import Log
from cesaro.errors import CesaroError, ClusterError, InputError, UserMemoryError
from cesaro.estimators import DiffLSTD, registry
from cesaro.estimators.run import Run
from cesaro.evaluation import Evaluation, evaluate
from cesaro.fingerprints import fingerprint
from cesaro.panel import CONFIDENCE, QUANTILE
from cesaro.policies import Policy

KINDS = ("discrete", "continuous", "robot")
_NUMBERS = KINDS[1:]
VERDICTS = ("ok", "caution", "bad", "refused", "none", "skipped")
# Maps that are drawn on, in the order of what they can express.
MAPS = ("linear", "polynomial:2", "polynomial:3", "splines", "fourier:50", "fourier:200")
# Those whose answers are put together where candidates disagree.
TOGETHER = ("polynomial:2", "polynomial:3", "fourier:200", "closed form")
# Of fitted Q, whose networks have the settings of candidates.
DISCOUNT = 0.99


class Answer(NamedTuple):
    """The answer of a method about a log and a target.

    Attributes:
        rate: nan where there is no answer.
        low, high: the interval; nan where there is none.
        standard_error: nan where there is none.
        verdict: "ok", "caution" or "bad"; "refused": there is no answer; "none": the method has no verdicts; "skipped": it was
            not asked.
        note: why there is no answer.
    """

    rate: float
    low: float = math.nan
    high: float = math.nan
    standard_error: float = math.nan
    verdict: str = "none"
    note: str = ""


class Scored(NamedTuple):
    """An answer with what it took."""

    answer: Answer
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class SuiteMethod:
    """A row of the scoreboard.

    Attributes:
        group: "closed" (a second or so), "learned" (ten), "default", "network" and "world" (up to a minute).
        ask: the answer on a log for a policy, from a seed.
        kinds: of systems that it is for; feature maps are for numbers, and one label per state is all there is of labels.
        together: names of methods whose answers on a log are put together instead of asking anything.
        digest: of the code of an estimator of one's own, so that answers of other code are not taken for its.
    """

    name: str
    group: str
    ask: Callable[[Log, Policy, int], Answer]
    kinds: tuple[str, ...] = KINDS
    together: tuple[str, ...] = ()
    digest: str = ""

    def __call__(self, log: Log, policy: Policy, seed: int) -> Scored:
        """Refusals are answers too, and so is what goes wrong in an estimator of one's own; an error of ours is raised."""
        _forget_peak()
        before, start = _megabytes("VmRSS"), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = self.ask(log, policy, seed)
            except (ClusterError, UserMemoryError):
                raise
            except Exception as error:
                if not self.digest and not isinstance(error, CesaroError):
                    raise
                answer = Answer(math.nan, verdict="refused", note=f"{type(error).__name__}: {error}")
        return Scored(answer, time.perf_counter() - start, max(0.0, _megabytes("VmHWM") - before))


def methods() -> dict[str, SuiteMethod]:
    """Every candidate of today, by name."""
    found = [
        SuiteMethod("default", "default", _default),
        SuiteMethod("closed form", "closed", partial(_evaluated, "auto")),
        *(SuiteMethod(name, "closed", partial(_map, name), _NUMBERS) for name in MAPS),
        SuiteMethod("disagreement", "closed", _not_asked, _NUMBERS, TOGETHER),
        SuiteMethod("log", "closed", _logged),
        *(SuiteMethod(name, "learned", partial(_evaluated, name)) for name in _of_kind("learned")),
        SuiteMethod("neural diff-sgq", "network", _neural, _NUMBERS),
        SuiteMethod("last layer", "network", _last_layer, _NUMBERS),
        SuiteMethod("fitted q", "network", _fitted_q, _NUMBERS),
        *(SuiteMethod(name, "world", partial(_evaluated, name)) for name in _of_kind("world")),
    ]
    return {method.name: method for method in found}


def _of_kind(kind: str) -> list[str]:
    return [name for name, method in registry.METHODS.items() if method.kind == kind]


def chosen(name: str) -> SuiteMethod:
    """One of them by its name, or an estimator of one's own as `file.py:NAME`.

    Raises:
        InputError: there is none of this name.
    """
    known = methods()
    if name in known:
        return known[name]
    place = python_file.place(name)
    if place is None:
        raise InputError(f"method must be one of {', '.join(known)}, or file.py:NAME. Got {name!r}.")
    _loaded(name)  # what is wrong with it shows before anything runs
    digest = hashlib.sha256(place[0].read_bytes()).hexdigest()[:8]
    return SuiteMethod(Path(name).name, "closed", partial(_own_file, str(Path(name).resolve())), digest=digest)


def own(estimator: Any, name: str | None = None) -> SuiteMethod:
    """A method from anything with `fit(log, policy)` and `reward_rate_`, and perhaps `interval()` and `standard_error_`.

    Args:
        estimator: an object, or a function without parameters (or a class) that makes one.
    """
    if not callable(estimator) and not callable(getattr(estimator, "fit", None)):
        raise InputError(f"estimator must have fit(log, policy) and then reward_rate_. Got {estimator!r}.")
    made = name or getattr(estimator, "__name__", type(estimator).__name__)
    return SuiteMethod(str(made), "closed", partial(_own, estimator), digest=fingerprint(estimator)[:8])


def _own(estimator: Any, log: Log, policy: Policy, seed: int) -> Answer:
    """Each log is met by a fresh estimator."""
    is_made = not isinstance(estimator, type) and callable(getattr(estimator, "fit", None))
    made = copy.deepcopy(estimator) if is_made else estimator()
    made.fit(log, policy)
    interval = getattr(made, "interval", None)
    low, high = (math.nan, math.nan) if interval is None else interval()
    verdict = str(getattr(made, "verdict_", "none"))
    if verdict not in VERDICTS:
        raise InputError(f"verdict_ must be one of {', '.join(VERDICTS)}. Got {verdict!r}.")
    error = float(getattr(made, "standard_error_", math.nan))
    return Answer(float(made.reward_rate_), float(low), float(high), error, verdict)


def _own_file(place: str, log: Log, policy: Policy, seed: int) -> Answer:
    return _own(_loaded(place), log, policy, seed)


@cache
def _loaded(place: str) -> Any:
    """The object of `file.py:NAME`, loaded once in every process."""
    found = python_file.place(place)
    assert found is not None
    return python_file.load(*found)[0]


def _fitted(estimator: Any) -> Answer:
    low, high = estimator.interval(CONFIDENCE)
    return Answer(estimator.reward_rate_, low, high, estimator.standard_error_)


def _default(log: Log, policy: Policy, seed: int) -> Answer:
    """The answer that users get who choose nothing."""
    return _answer(evaluate(log, policy, effort="quick", random_state=seed, quiet=True))


def _evaluated(method: str, log: Log, policy: Policy, seed: int) -> Answer:
    return _answer(evaluate(log, policy, method=method, effort="none", random_state=seed, quiet=True))


def _answer(found: Evaluation) -> Answer:
    low, high = found.interval(CONFIDENCE)
    return Answer(found.reward_rate, low, high, found.standard_error, found.verdict)


def _map(features: str, log: Log, policy: Policy, seed: int) -> Answer:
    if candidates.count_features(features, log) > candidates.MOST_FEATURES:
        return Answer(math.nan, verdict="skipped")
    return _fitted(DiffLSTD(features, random_state=seed, quiet=True).fit(log, policy))


def disagreement(answers: Iterable[Answer]) -> Answer:
    """The median of several answers; their spread enters the interval beside the median of their standard errors."""
    found = [answer for answer in answers if math.isfinite(answer.rate)]
    if not found:
        return Answer(math.nan, verdict="refused")
    rates = np.array([answer.rate for answer in found])
    rate = float(np.median(rates))
    error = math.hypot(float(np.nanmedian([answer.standard_error for answer in found])), float(rates.std()))
    return Answer(rate, rate - QUANTILE * error, rate + QUANTILE * error, error)


def _not_asked(log: Log, policy: Policy, seed: int) -> Answer:
    raise AssertionError("answers of others are put together instead")


def _logged(log: Log, policy: Policy, seed: int) -> Answer:
    return _fitted(DiffLSTD(quiet=True).fit(log, "logged"))


@lru_cache(1)
def _networks(log: Log, policy: Policy, seed: int) -> Any:
    """Trained once for the methods that are asked about a log one after the other."""
    return candidates.networks(seed, Run(quiet=True)).fit(log, policy)


def _neural(log: Log, policy: Policy, seed: int) -> Answer:
    return Answer(_networks(log, policy, seed).reward_rate_)


def _last_layer(log: Log, policy: Policy, seed: int) -> Answer:
    return _fitted(DiffLSTD(_networks(log, policy, seed), random_state=seed, quiet=True).fit(log, policy))


def _fitted_q(log: Log, policy: Policy, seed: int) -> Answer:
    from cesaro.approximators import MLP
    from cesaro.suite.fitted_q import fitted_q, inputs_of

    found = fitted_q(
        inputs_of(log.load(), policy, seed),
        approximator=MLP(candidates.WIDTHS),
        discount=DISCOUNT,
        steps=candidates.STEPS,
        batch_size=candidates.BATCH,
        step_size=candidates.STEP_SIZE,
        target=candidates.tracking(),
        seeds=1,
        random_state=seed,
    )
    return Answer(float(found.rates[0]))


def _forget_peak() -> None:
    """Begin to measure the peak of this process's memory anew, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _megabytes(what: str) -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(what):
                return int(line.split()[1]) / 1024
    return math.nan
