"""`rehearse`: would these methods be right on a system like this one? In worlds learned from the log, answers are known."""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.candidates import Answered, Candidate, ask, closed_forms, named
from cesaro.checks import Array
from cesaro.data import Log
from cesaro.data.reader import as_log
from cesaro.diagnostics.worlds import Residual
from cesaro.engines import map_ordered
from cesaro.errors import InputError
from cesaro.estimators import registry
from cesaro.features import build
from cesaro.files import plain
from cesaro.lazy import pandas
from cesaro.panel import QUANTILE, Pooled, pooled
from cesaro.policies import attach
from cesaro.progress import progress, stage
from cesaro.text import percent
from cesaro.worlds import World
from cesaro.worlds.process import Rates
from cesaro.worlds.tabular import TabularWorld

# Rows of a simulated log, and of one trajectory of it, at most.
MOST_ROWS, LONGEST = 100_000, 5_000
SCHEMA = "cesaro-rehearsal/1"
# The row of all candidates in a table.
TOGETHER = "together"


@dataclass(frozen=True)
class Rehearsal:
    """What candidates say about a log, and what they said about logs of worlds like it.

    Attributes:
        candidates: their names.
        notes: why a candidate had no answer, where that happened first; empty for the others.
        rates, standard_errors: of the log itself, `[candidates]`; nan where there is no answer.
        truths, noise: what the target earns in every world, with the error of its simulation, `[worlds]`.
        rehearsed, rehearsed_standard_errors: of the simulated logs, `[worlds, candidates]`.
        logged, own: what the log earned per step, and what simulated logs did, `[worlds]`.
        residual: what held-out rows say about the worlds; None for a discrete log.
    """

    candidates: tuple[str, ...]
    notes: tuple[str, ...]
    rates: Array
    standard_errors: Array
    truths: Array
    noise: Array
    rehearsed: Array
    rehearsed_standard_errors: Array
    logged: float
    own: Array
    residual: Residual | None

    @property
    def eligible(self) -> Any:
        """Which candidates answered on the log and in every world, with standard errors, `[candidates]`."""
        own = np.isfinite(self.rates) & np.isfinite(self.standard_errors)
        return own & (np.isfinite(self.rehearsed) & np.isfinite(self.rehearsed_standard_errors)).all(axis=0)

    @property
    def errors(self) -> Array:
        """By how much each was wrong in every world, `[worlds, candidates]`."""
        return self.rehearsed - self.truths[:, None]

    @property
    def choice(self) -> str:
        """The eligible candidate with the least root mean square error in the worlds.

        Averaging candidates does better than choosing one: in worlds that it was not chosen by, its error is larger.
        """
        if not self.eligible.any():
            raise InputError("No candidate has an answer with a standard error on the log and in every world.")
        squares = np.where(self.eligible, (np.nan_to_num(self.errors) ** 2).mean(axis=0), np.inf)
        return self.candidates[int(squares.argmin())]

    @property
    def table(self) -> list[dict[str, Any]]:
        """A row per candidate, and one for all eligible ones together, averaged by precision, with their spread in the interval.

        Each has its answer on the log, and in worlds its root mean square and mean error, and the share of its 95 % intervals
        that hold what the target earns there.
        """
        names = [*self.candidates, *([TOGETHER] if self.eligible.sum() > 1 else [])]
        return [self._row(name) for name in names]

    def _row(self, name: str) -> dict[str, Any]:
        if name == TOGETHER:
            own = self._together(self.rates, self.standard_errors)
            rate, error, eligible, note = own.value, own.error, True, ""
        else:
            place = self.candidates.index(name)
            rate, error = float(self.rates[place]), float(self.standard_errors[place])
            eligible, note = bool(self.eligible[place]), self.notes[place]
        errors, held = self.in_worlds(name)
        return {
            "candidate": name,
            "rate": rate,
            "standard_error": error,
            "error_in_worlds": math.sqrt(float(np.mean(errors**2))),
            "bias_in_worlds": float(errors.mean()),
            "coverage_in_worlds": float(held.mean()),
            "eligible": eligible,
            "note": note,
        }

    def in_worlds(self, name: str) -> tuple[Array, NDArray[np.bool_]]:
        """By how much a candidate was wrong in every world, and whether its 95 % interval held what the target earns there."""
        if name == TOGETHER:
            each = [self._together(*one) for one in zip(self.rehearsed, self.rehearsed_standard_errors)]
            errors, deviations = np.array([(one.value, one.error) for one in each]).T
            errors = errors - self.truths
        else:
            place = self.candidates.index(name)
            errors, deviations = self.errors[:, place], self.rehearsed_standard_errors[:, place]
        return errors, np.abs(errors) <= QUANTILE * deviations

    def _together(self, rates: Array, errors: Array) -> Pooled:
        able = self.eligible
        return pooled(rates[able], errors[able], ["closed form"] * int(able.sum()))

    @property
    def summary(self) -> str:
        """Would it have been right on a system like this one?"""
        last = self.table[-1]
        if not last["eligible"]:
            return "No candidate has an answer everywhere, so the rehearsal does not tell."
        count = len(self.truths)
        held = round(last["coverage_in_worlds"] * count)
        scale = abs(float(np.median(self.truths)) - self.logged)
        whose = "all candidates together" if last["candidate"] == TOGETHER else f"{last['candidate']}"
        part = (
            f", which is {percent(last['error_in_worlds'] / scale)} of the difference from the log" if scale > 0 else ""
        )
        return (
            f"In {count} systems that were learned from this log, the interval of {whose} held what the policy earns there "
            f"{held} times; the answers were off by {last['error_in_worlds']:.3g} (root mean square){part}."
        )

    def to_frame(self) -> Any:
        """The table as a pandas frame."""
        return pandas().DataFrame(self.table)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the schema's version."""
        arrays = ("rehearsed", "rehearsed_standard_errors", "truths", "own")
        return {
            "schema": SCHEMA,
            "summary": self.summary,
            "logged": self.logged,
            "table": plain(self.table),
            "worlds": {name: plain(getattr(self, name).tolist()) for name in arrays},
            "residual": None if self.residual is None else plain(asdict(self.residual)),
        }

    def plot(self) -> Any:
        """A matplotlib figure: by how much each candidate was wrong in every world, and its answer on the log."""
        from cesaro.report.rates import rehearsal_figure

        return rehearsal_figure(self)

    def __str__(self) -> str:
        count, lines = len(self.truths), [self.summary, ""]
        lines.append(f"{'candidate':14s}{'rate':>10s}{'± s.e.':>10s}   in {count} worlds: error, bias, coverage")
        for row in self.table:
            told = f"{row['error_in_worlds']:.4g}, {row['bias_in_worlds']:+.4g}, {percent(row['coverage_in_worlds'])}"
            said = (
                told if row["eligible"] else f"not everywhere an answer with a standard error. {row['note']}".rstrip()
            )
            lines.append(f"{row['candidate']:14s}{row['rate']:10.4g}{row['standard_error']:10.4g}   {said}")
        middle, spread = float(np.median(self.truths)), float(self.truths.std(ddof=1))
        lines.append(f"{'the worlds':14s}{middle:10.4g}{spread:10.4g}   their own rates: median, and spread")
        lines.append(f"{'the log':14s}{self.logged:10.4g}{'':10s}   {self.own.mean():.4g} in logs of the worlds")
        if self.residual is not None:
            lines.append(
                f"By held-out rows the worlds are off by {self.residual.value:.3g} ± {2 * self.residual.standard_error:.2g} "
                "where the policy goes."
            )
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
        >>> bool(abs(found.errors).max() < 0.1)
        True
    """
    data = as_log(log).opened(quiet=quiet)
    seed = checks.count("random_state", random_state, low=0, high=2**32 - 1)
    asked = None if isinstance(candidates, str) and candidates == "auto" else _candidates(candidates, data)
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
    return rehearsed_in(world, truths, found, policy, asked, random_state=seed, quiet=quiet)


def rehearsed_in(
    world: World,
    truths: Rates,
    found: Residual | None,
    policy: Any,
    asked: Mapping[str, Candidate] | None = None,
    *,
    random_state: int,
    quiet: bool,
) -> Rehearsal:
    """Rehearse in a world whose answer on the target is known already.

    Args:
        world: learned from the log.
        truths: what the target earns in it.
        found: what held-out rows say about it; None for a discrete log.
        policy: the target.
        asked: candidates; None: closed forms.
    """
    data, seed = world.log_, random_state
    is_ours = asked is None  # estimators of others need not know of threads
    asked = closed_forms(data) if asked is None else asked
    with stage("simulating logs", quiet=quiet):
        logs = world.simulate_each("logged", *_shape(data), np.random.default_rng([seed, 17]))

    def answered(item: tuple[int, Log]) -> list[Answered]:
        number, one = item
        return [ask(make, one, policy, (seed + number) % 2**32) for make in asked.values()]

    answers = []
    # Filters of warnings belong to all threads, and each that sets them puts back what it found.
    with progress("rehearsing", total=len(logs) + 1, quiet=quiet) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a thread puts back while another still asks
        for answer in map_ordered(answered, enumerate([data, *logs]), workers=None if is_ours else 1):
            answers.append(answer)
            advance()
    given = np.array([[answer[:2] for answer in by_log] for by_log in answers])
    rows = data.part(np.arange(len(data))) if len(data) <= MOST_ROWS else data.sample(seed).rows
    return Rehearsal(
        candidates=tuple(asked),
        notes=tuple(
            next(filter(None, told), "") for told in zip(*([answer[2] for answer in by_log] for by_log in answers))
        ),
        rates=given[0, :, 0],
        standard_errors=given[0, :, 1],
        truths=truths.by_member,
        noise=truths.errors,
        rehearsed=given[1:, :, 0],
        rehearsed_standard_errors=given[1:, :, 1],
        logged=float(np.average(rows.rewards, weights=rows.weights)),
        own=np.array([one.rewards.mean() for one in logs]),
        residual=found,
    )


def _candidates(given: Any, log: Log) -> dict[str, Candidate]:
    if isinstance(given, Mapping):
        found = {str(name): make for name, make in given.items()}
    else:
        names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"candidates must be 'auto', names, or a dict from names to functions. Got {given!r}.")
        for name in names:
            if name not in registry.METHODS:
                build(name, log, random_state=0)  # refuses what is no map
        found = {name: named(name) for name in names}
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
