"""The practice study: every method on every log, and the truths that score them."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.errors import EvaluationWarning
from cesaro.files import Arrays
from cesaro.reproduce.mujoco import data as recordings
from cesaro.reproduce.mujoco.data import Recording, Stored, log_of, truth_of
from cesaro.reproduce.study import Jobs, Study
from research.practice.config import PracticeConfig
from research.practice.held import held_residuals
from research.practice.logs import PENDULUM, Case, Shelf, Subject, mujoco_case, pendulum_case
from research.practice.methods import GQ1, Method, fits, methods

# A gap between behavior and truth of fewer standard errors is no yardstick.
CLEAR = 4.0
# An estimate within this share of the gap from the behavior's rate counts as near that rate.
NEAR = 0.25
# A run that goes farther than this share of the gap in its last quarter still moves.
MOVES = 0.1


class Truth(NamedTuple):
    """The known rates of a log.

    Attributes:
        rate, standard_error: of the target.
        behavior, behavior_error: the mean logged reward of all rows, and its standard error.
        rows: of the log that were used.
    """

    rate: float
    standard_error: float
    behavior: float
    behavior_error: float
    rows: int

    @property
    def gap(self) -> float:
        """The distance from behavior to truth."""
        return self.rate - self.behavior

    @property
    def is_clear(self) -> bool:
        """Whether the gap can serve as a yardstick."""
        return abs(self.gap) > CLEAR * math.hypot(self.standard_error, self.behavior_error)


class Estimate(NamedTuple):
    """The estimates of a method on a log, and their median.

    Attributes:
        rates: by seed, nan where there is no answer, `[seeds]`.
        value: the median over seeds with an answer; nan where there is none.
        low, high: the least and the largest.
        moved: the largest change of the rate over the last quarter of steps; nan where nothing is learned in steps.
        offline: the median of the rates read off all rows; nan where there are none.
        note: why there is no answer, for the seeds that have none.
        seconds: of all seeds.
    """

    subject: Subject
    method: Method
    truth: Truth
    rates: Array
    value: float
    low: float
    high: float
    moved: float
    offline: float
    note: str
    seconds: float

    @property
    def error(self) -> float:
        return self.value - self.truth.rate

    @property
    def relative_error(self) -> float:
        """`|estimate − truth| / |behavior − truth|`: one for whoever answers with the mean logged reward."""
        return abs(self.error / self.truth.gap) if self.truth.gap else math.inf

    @property
    def closed(self) -> float:
        """The share of the gap that was closed: zero for the mean logged reward, one for the truth."""
        return (self.value - self.truth.behavior) / self.truth.gap if self.truth.gap else math.nan


class Score(NamedTuple):
    """A method over the logs whose gap is clear.

    Attributes:
        mean, median, worst: relative errors over the logs with an answer.
        answered: logs with an answer.
        logs: all of them.
        nearest: logs on which no method's estimate is nearer to the truth.
        beaten: logs on which the mean logged reward is at least as near.
        spread: mean over logs of (high − low) / |gap|; nan with a single seed.
        near_behavior: logs whose estimate is near the mean logged reward.
        moving: logs on which a run still moves.
        seconds: per log.
    """

    mean: float
    median: float
    worst: float
    answered: int
    logs: int
    nearest: int
    beaten: int
    spread: float
    near_behavior: int
    moving: int
    seconds: float


@dataclass(frozen=True)
class PracticeResult:
    """Every estimate.

    Attributes:
        truths: by log.
        found: by log and array name, see `methods.fits`.
        held: by log where it was asked for, see `held`: residuals by held rate, of training and of held-out rows.
    """

    config: PracticeConfig
    truths: dict[Subject, Truth]
    found: dict[tuple[Subject, str], NDArray[Any]]
    held: dict[Subject, Array]

    def estimate(self, subject: Subject, method: Method) -> Estimate:
        """The estimate of one method on one log."""
        rates = self._array(subject, method.name)
        answers = rates[np.isfinite(rates)]
        moved, offline = (self._array(subject, method.name + kind) for kind in (".moved", ".offline"))
        notes = [str(note) for note in self.found.get((subject, f"{method.name}.note"), ()) if str(note)]
        some = len(answers) > 0
        return Estimate(
            subject,
            method,
            self.truths[subject],
            rates,
            value=float(np.median(answers)) if some else math.nan,
            low=float(answers.min()) if some else math.nan,
            high=float(answers.max()) if some else math.nan,
            moved=float(np.nanmax(np.abs(moved))) if np.isfinite(moved).any() else math.nan,
            offline=float(np.nanmedian(offline)) if np.isfinite(offline).any() else math.nan,
            note="; ".join(dict.fromkeys(notes)),
            seconds=float(np.sum(self._array(subject, f"{method.name}.seconds"))),
        )

    def _array(self, subject: Subject, name: str) -> Array:
        return np.asarray(self.found.get((subject, name), np.empty(0)), dtype=np.float64)

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """All estimates, by log and then by method."""
        return tuple(self.estimate(subject, method) for subject in self.truths for method in methods(self.config))

    def of(self, method: Method) -> list[Estimate]:
        """Its estimates on the logs whose gap is clear."""
        return [e for e in self.estimates if e.method == method and e.truth.is_clear]

    @property
    def clear(self) -> list[Subject]:
        """The logs whose gap between behavior and truth is clear."""
        return [subject for subject, truth in self.truths.items() if truth.is_clear]

    @cached_property
    def nearest(self) -> dict[Subject, Method | None]:
        """The method nearest to the truth, by log with a clear gap; None where there is no answer."""
        found: dict[Subject, Method | None] = {}
        for subject in self.clear:
            own = [e for e in self.estimates if e.subject == subject and math.isfinite(e.value)]
            found[subject] = min(own, key=lambda e: abs(e.error)).method if own else None
        return found

    @cached_property
    def scores(self) -> dict[Method, Score]:
        """Scores by method."""
        return {method: self._score(method) for method in methods(self.config)}

    def _score(self, method: Method) -> Score:
        own = self.of(method)
        errors = np.array([e.relative_error for e in own])
        answers = errors[np.isfinite(errors)]
        spreads = [(e.high - e.low) / abs(e.truth.gap) for e in own if len(e.rates) > 1 and math.isfinite(e.value)]
        return Score(
            mean=float(answers.mean()) if len(answers) else math.nan,
            median=float(np.median(answers)) if len(answers) else math.nan,
            worst=float(answers.max()) if len(answers) else math.nan,
            answered=len(answers),
            logs=len(own),
            nearest=sum(nearest == method for nearest in self.nearest.values()),
            beaten=int(np.sum(answers >= 1)),
            spread=float(np.mean(spreads)) if spreads else math.nan,
            near_behavior=sum(abs(e.closed) <= NEAR for e in own),
            moving=sum(e.moved > MOVES * abs(e.truth.gap) for e in own),
            seconds=float(np.mean([e.seconds for e in own])) if own else math.nan,
        )

    @property
    def gq1(self) -> list[Estimate]:
        """Neural Diff-GQ1's estimates."""
        return [e for e in self.estimates if e.method.name == GQ1 and e.truth.is_clear]

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values; times are no part of them."""

        def shown(value: float, digits: int = 4) -> float | None:
            return round(value, digits) if math.isfinite(value) else None

        return {
            "held": {subject.label: residuals.round(4).tolist() for subject, residuals in self.held.items()},
            "logs": {
                subject.label: {
                    "truth": round(truth.rate, 4),
                    "truth_standard_error": round(truth.standard_error, 4),
                    "behavior": round(truth.behavior, 4),
                    "rows": truth.rows,
                    "is_clear": truth.is_clear,
                    "estimates": {
                        e.method.label: {"median": shown(e.value), "low": shown(e.low), "high": shown(e.high)}
                        for e in self.estimates
                        if e.subject == subject
                    },
                }
                for subject, truth in self.truths.items()
            },
            "methods": {
                method.label: {
                    "mean_relative_error": shown(score.mean),
                    "median_relative_error": shown(score.median),
                    "worst_relative_error": shown(score.worst),
                    "answered": score.answered,
                    "logs": score.logs,
                    "nearest": score.nearest,
                    "not_nearer_than_behavior": score.beaten,
                    "spread": shown(score.spread),
                    "near_behavior": score.near_behavior,
                    "still_moving": score.moving,
                }
                for method, score in self.scores.items()
            },
        }


class PracticeStudy(Study[PracticeConfig, PracticeResult]):
    """A fit on a log is a piece."""

    def collect(self, data: Path) -> None:
        recorded, wanted = self.config.recorded, dict[str, Recording]()
        if recorded is not None:
            wanted |= {"truth " + env: truth_of(recorded, env) for env in recorded.envs}
            wanted |= {Subject(*place).label: log_of(recorded, place) for place in recorded.places}
            recordings.collect(list(wanted.values()), data, quiet=self.quiet)
        self._files: dict[str, Stored] = {name: recordings.needed(one, data) for name, one in wanted.items()}

    def depends_on(self) -> dict[str, Any]:
        return {"data": {name: stored.content[:16] for name, stored in self._files.items()}}

    def case(self, subject: Subject) -> Case:
        """A log with its target and its truth."""
        config = self.config
        if subject.env == PENDULUM:
            return pendulum_case(subject.sigma, config.pendulum_rows, config.seed, config.actions)
        actor = recordings.actor_file(subject.env, config.actors)
        log, truth = self._files[subject.label], self._files["truth " + subject.env]
        return mujoco_case(log, truth, actor, config.rows, config.actions)

    def jobs(self) -> Jobs:
        """Fits log by log, so that few logs are in memory at a time."""
        # Refusals and runs that diverged are counted; filters of warnings are shared by all threads.
        warnings.simplefilter("ignore", EvaluationWarning)
        config, shelf = self.config, Shelf(self.case)
        jobs: dict[str, Callable[[], Arrays]] = {}
        for subject in config.subjects:
            jobs[f"{subject.file}_truth"] = partial(_truth, shelf, subject)
            for name, fit in fits(config).items():
                jobs[f"{subject.file}_{name}"] = partial(_fit, shelf, subject, fit)
            if subject.env in config.held:
                jobs[f"{subject.file}_held"] = partial(_fit, shelf, subject, partial(held_residuals, config))
        return jobs

    def result(self, pieces: Mapping[str, Arrays]) -> PracticeResult:
        config, truths, found = self.config, {}, {}
        for subject in config.subjects:
            truth, error, behavior, its_error, rows = (float(v) for v in pieces[f"{subject.file}_truth"]["truth"])
            truths[subject] = Truth(truth, error, behavior, its_error, int(rows))
            parts = [pieces[f"{subject.file}_{name}"] for name in fits(config)]
            for method in methods(config):
                for kind in ("", ".note", ".moved", ".offline", ".seconds"):
                    own = [part[method.name + kind] for part in parts if method.name + kind in part]
                    if own:
                        found[subject, method.name + kind] = np.concatenate([np.atleast_1d(array) for array in own])
        held = {subject: pieces[f"{subject.file}_held"]["held"] for subject in truths if subject.env in config.held}
        return PracticeResult(config, truths, found, held)


STUDY = PracticeStudy


def _truth(shelf: Shelf, subject: Subject) -> Arrays:
    case = shelf(subject)
    return {"truth": np.array([*case.truth, *case.behavior, len(case.log)])}


def _fit(shelf: Shelf, subject: Subject, fit: Callable[[Case], Arrays]) -> Arrays:
    return fit(shelf(subject))
