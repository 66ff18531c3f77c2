"""`rehearse`: would these methods be right on a system like this one? In worlds learned from the log, answers are known."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from cesaro import checks
from cesaro.checks import Array
from cesaro.data import Log
from cesaro.data.values import Categories, Values
from cesaro.diagnostics.worlds import Residual
from cesaro.errors import CesaroError, InputError
from cesaro.estimators import DiffLSTD, registry
from cesaro.evaluation import as_log
from cesaro.features import build
from cesaro.policies import attach
from cesaro.progress import progress, stage
from cesaro.worlds import World
from cesaro.worlds.tabular import TabularWorld

# Maps of different families; one with more features than this, over all actions, takes minutes, and is left out.
MAPS = ("polynomial:2", "polynomial:3", "fourier:50", "fourier:200", "auto")
MOST_FEATURES = 1_000
# Rows of a simulated log, and of one trajectory of it, at most.
MOST_ROWS, LONGEST = 100_000, 5_000
CONFIDENCE = 0.95
QUANTILE = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)

# From a seed to something with `fit(log, policy)`, and then `reward_rate_` and `standard_error_`.
Candidate: TypeAlias = Callable[[int], Any]


def closed_forms(log: Log) -> dict[str, Candidate]:
    """Candidates for a log: the closed form in every map that suits it; one for a discrete log, which needs no map."""
    if log.opened(quiet=True).states() is not None:
        return {"auto": _closed("auto")}
    return {name: _closed(name) for name in MAPS if name == "auto" or count_features(name, log) <= MOST_FEATURES}


def count_features(features: str, log: Log) -> int:
    """Features of a map over all actions, roughly."""
    block = log.part(np.arange(1))
    inputs = sum(_width(values) for values in (block.observations, block.actions))
    family, _, size = features.partition(":")
    sizes = {"linear": inputs, "fourier": int(size or 0), "polynomial": math.comb(inputs + int(size or 0), inputs)}
    each = sizes.get(family, 0)  # splines choose their number themselves
    return each * (1 if log.action_levels is None else len(log.action_levels))


def _width(values: Values) -> int:
    """Numbers among some columns."""
    arrays = [np.asarray(column) for column in values.columns if not isinstance(column, Categories)]
    return sum(array[0].size for array in arrays)


def _closed(features: str) -> Candidate:
    return lambda seed: DiffLSTD(features, random_state=seed, quiet=True)


def _named(name: str) -> Candidate:
    """A method of the registry, or the closed form in a map."""
    if name in registry.METHODS:
        return lambda seed: registry.METHODS[name].estimator(random_state=seed, quiet=True)
    return _closed(name)


@dataclass(frozen=True)
class Rehearsal:
    """What candidates say about a log, and what they said about logs of worlds like it.

    Attributes:
        candidates: their names.
        notes: why a candidate had no answer, where that happened first; empty for the others.
        rates, errors: of the log itself, with standard errors, `[candidates]`; nan where there is no answer.
        truths, noise: what the target earns in every world, with the error of its simulation, `[worlds]`.
        rehearsed, rehearsed_errors: of the simulated logs, `[worlds, candidates]`.
        logged, own: what the log earned per step, and what simulated logs did, `[worlds]`.
        residual: what held-out rows say about the worlds; None for a discrete log.
    """

    candidates: tuple[str, ...]
    notes: tuple[str, ...]
    rates: Array
    errors: Array
    truths: Array
    noise: Array
    rehearsed: Array
    rehearsed_errors: Array
    logged: float
    own: Array
    residual: Residual | None

    @property
    def eligible(self) -> Any:
        """Which candidates answered on the log and in every world, with standard errors, `[candidates]`."""
        own = np.isfinite(self.rates) & np.isfinite(self.errors)
        return own & (np.isfinite(self.rehearsed) & np.isfinite(self.rehearsed_errors)).all(axis=0)

    @property
    def mistakes(self) -> Array:
        """By how much each was wrong in every world, `[worlds, candidates]`."""
        return self.rehearsed - self.truths[:, None]

    def to_frame(self) -> Any:
        """A pandas frame with a row per candidate: its answer on the log, and in worlds its root mean square and mean errors, and
        the share of its 95 % intervals that hold what the target earns there."""
        import pandas

        return pandas.DataFrame(self._table())

    def _table(self) -> list[dict[str, Any]]:
        mistakes, errors = self.mistakes, self.rehearsed_errors
        return [
            {
                "candidate": name,
                "rate": self.rates[place],
                "standard_error": self.errors[place],
                "error_in_worlds": math.sqrt(float(np.mean(mistakes[:, place] ** 2))),
                "bias_in_worlds": float(mistakes[:, place].mean()),
                "coverage_in_worlds": float((np.abs(mistakes[:, place]) <= QUANTILE * errors[:, place]).mean()),
                "eligible": bool(self.eligible[place]),
                "note": self.notes[place],
            }
            for place, name in enumerate(self.candidates)
        ]

    def __str__(self) -> str:
        lines = [f"{'candidate':14s}{'rate':>10s}{'± s.e.':>10s}   in {len(self.truths)} worlds: error, bias, coverage"]
        for row in self._table():
            told = f"{row['error_in_worlds']:.4g}, {row['bias_in_worlds']:+.4g}, {row['coverage_in_worlds']:.0%}"
            said = (
                told if row["eligible"] else f"not everywhere an answer with a standard error. {row['note']}".rstrip()
            )
            lines.append(f"{row['candidate']:14s}{row['rate']:10.4g}{row['standard_error']:10.4g}   {said}")
        middle, spread = float(np.median(self.truths)), float(self.truths.std(ddof=1))
        lines.append(f"{'the worlds':14s}{middle:10.4g}{spread:10.4g}   their own rates: median, and spread")
        return "\n".join(lines)


def rehearse(
    log: Any,
    policy: Any,
    candidates: Any = "auto",
    *,
    worlds: int | World = 20,
    random_state: int = 0,
    quiet: bool = False,
) -> Rehearsal:
    """Learn worlds from a log, in which everything is known, and look how candidates do there.

    In every world a log of the same shape is simulated (at most 100,000 rows, in trajectories of at most 5,000), by the log's own
    behavior as it was learned; candidates are asked about the target, and the target is run to see who was right.

    Args:
        log: as in `evaluate`.
        policy: the target.
        candidates: "auto": closed forms in maps of several families; a list of names of methods or maps; or a dict from names of
            your own to functions that make an estimator from a seed.
        worlds: how many, each learned from a bootstrap of the log; or a world that was learned from this log, whose members they
            are, for several targets.
        random_state: seed of everything random.
        quiet: no progress bar.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> state = np.cumsum(rng.integers(0, 2, 2000)) % 3
        >>> log = cs.Transitions(state, rng.integers(0, 2, 2000), rewards=(state == 2).astype(float))
        >>> found = cs.rehearse(log, "uniform", worlds=5, quiet=True)
        >>> bool(abs(found.mistakes).max() < 0.1)
        True
    """
    data = as_log(log).opened(quiet=quiet)
    seed = checks.count("random_state", random_state, low=0, high=2**32 - 1)
    asked = _candidates(candidates, data)
    target = attach(policy, data)
    if target.is_logged:
        raise InputError("policy must be a target. Got 'logged', whose rate the log knows; give a policy to rehearse.")
    world = _world(worlds, data, seed, quiet)
    with stage("running the policy in the worlds", quiet=quiet):
        truths = world.rate(target)
    found: Residual | None = None
    if not isinstance(world.process_, TabularWorld):
        from cesaro.worlds.residual import residual  # scikit-learn's trees take a while to import

        with stage("comparing the worlds with held-out rows", quiet=quiet):
            found = residual(world, target, seed)
    with stage("simulating logs", quiet=quiet):
        logs = world.simulate_each("logged", *_shape(data), np.random.default_rng([seed, 17]))
    answers = []
    with progress("rehearsing", total=len(logs) + 1, quiet=quiet) as advance:
        for number, one in enumerate([data, *logs]):
            answers.append([ask(make, one, policy, (seed + number) % 2**32) for make in asked.values()])
            advance()
    given = np.array([[answer[:2] for answer in by_log] for by_log in answers])
    rows = data.part(np.arange(len(data))) if len(data) <= MOST_ROWS else data.sample(seed).rows
    return Rehearsal(
        candidates=tuple(asked),
        notes=tuple(
            next(filter(None, told), "") for told in zip(*([answer[2] for answer in by_log] for by_log in answers))
        ),
        rates=given[0, :, 0],
        errors=given[0, :, 1],
        truths=truths.by_member,
        noise=truths.errors,
        rehearsed=given[1:, :, 0],
        rehearsed_errors=given[1:, :, 1],
        logged=float(np.average(rows.rewards, weights=rows.weights)),
        own=np.array([one.rewards.mean() for one in logs]),
        residual=found,
    )


def _candidates(given: Any, log: Log) -> dict[str, Candidate]:
    if isinstance(given, str) and given == "auto":
        return closed_forms(log)
    if isinstance(given, Mapping):
        found = {str(name): make for name, make in given.items()}
    else:
        names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"candidates must be 'auto', names, or a dict from names to functions. Got {given!r}.")
        for name in names:
            if name not in registry.METHODS:
                build(name, log, random_state=0)  # refuses what is no map
        found = {name: _named(name) for name in names}
    if not found or not all(callable(make) and not isinstance(make, type) for make in found.values()):
        raise InputError(
            f"candidates must be at least one name, or a function from a seed to an estimator. Got {given!r}; for a class: "
            "{'name': lambda seed: Class(...)}."
        )
    return found


def _world(given: Any, log: Log, seed: int, quiet: bool) -> World:
    if not isinstance(given, World):
        return World(checks.count("worlds", given, low=2, high=1_000), random_state=seed, quiet=quiet).fit(log)
    fitted = getattr(given, "log_", None)
    if fitted is None or len(fitted) != len(log) or fitted.schema != log.schema:
        raise InputError(
            "worlds must be a number, or a World that was fitted on this log. Got one that was not; fit it first."
        )
    return given


def _shape(log: Log) -> tuple[int, int]:
    """Trajectories and rows of each, of a simulated log: as many as there are, up to limits that keep it in minutes."""
    lengths = np.asarray([len(log)] if log.lengths is None else log.lengths)
    rows, length = min(int(lengths.sum()), MOST_ROWS), min(round(float(lengths.mean())), LONGEST)
    return max(1, round(rows / length)), length + 1  # the last row of a trajectory only says where it led


def ask(make: Candidate, log: Log, policy: Any, seed: int) -> tuple[float, float, str]:
    """Rate, standard error and an empty note; nan where it refuses or fails, and why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator = make(seed)
            estimator.fit(log, policy)
            return float(estimator.reward_rate_), float(getattr(estimator, "standard_error_", math.nan)), ""
        except MemoryError:
            raise
        except CesaroError as error:
            return math.nan, math.nan, str(error)
        except Exception as error:  # of an estimator of one's own
            return math.nan, math.nan, f"{type(error).__name__}: {error}"
