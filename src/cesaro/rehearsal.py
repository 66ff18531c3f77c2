"""`rehearse`: would these methods be right on a system like this one? In worlds learned from the log, answers are known."""

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import __version__, checks, files
from cesaro.candidates import Answered, Candidate, ask, closed_forms, named
from cesaro.checks import Array
from cesaro.data import Log
from cesaro.data.reader import as_log
from cesaro.diagnostics import Diagnostic, worst
from cesaro.diagnostics.finding import Verdict
from cesaro.diagnostics.panel import table_findings
from cesaro.diagnostics.rows import DRIFT, MEMORY
from cesaro.diagnostics.worlds import Residual, comparable, held_out, hidden_state, over_time, repeats_log
from cesaro.engines import map_ordered
from cesaro.errors import InputError
from cesaro.estimators import DiffLSTD, registry
from cesaro.features import FAMILIES, build
from cesaro.files import plain
from cesaro.fingerprints import fingerprint
from cesaro.lazy import pandas
from cesaro.panel import QUANTILE, Pooled, beside, pooled
from cesaro.passes.standard_errors import Estimate
from cesaro.policies import Attached, attach
from cesaro.progress import progress, stage
from cesaro.text import Sentence, Wording, nearest, percent
from cesaro.worlds import World
from cesaro.worlds.process import Rates
from cesaro.worlds.tabular import TabularWorld

# Rows of a simulated log, and of one trajectory of it, at most.
MOST_ROWS, LONGEST = 100_000, 5_000
SCHEMA = "cesaro-rehearsal/1"
# Of files that keep progress.
PROGRESS = "cesaro-rehearsing/1"
# The row of all candidates in a table.
TOGETHER = "together"
# How a summary begins, by the worst of what the log says of the worlds.
BEGINNINGS = {
    "ok": "In",
    "caution": "These systems resemble your log only in part: in",
    "bad": "These systems do not resemble your log, so this tells little: in",
}
COVERS_CLOSED = (
    "Closed forms were rehearsed. The learned process, which has a vote beside them in the default answer, cannot be rehearsed "
    "in itself: these systems are that process."
)
COVERS_TABLE = "The closed form was rehearsed, in processes that the counts of the log allow."
COVERS_OWN = "The candidates that were given were rehearsed; the default answer was not asked about these systems."
_CANDIDATES = Wording("candidates", "--candidate")


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
        logged_standard_error: of what the log earned.
        of_rows: what a closed form finds about the state and the time of a discrete log, which has no residual.
        is_closed: whether all candidates are closed forms.
        cost: the column of costs, where rewards are minus its entries; None: the log holds rewards.
        unit: the unit of a reward per step, such as "€ per minute".
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
    logged_standard_error: float = math.nan
    of_rows: tuple[Diagnostic, ...] = ()
    is_closed: bool = True
    cost: str | None = None
    unit: str | None = None

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
    def whole(self) -> dict[str, Any] | None:
        """The row of all eligible candidates together, or of the only one; None where there is none."""
        count = int(self.eligible.sum())
        return None if count == 0 else self._row(TOGETHER if count > 1 else self.choice)

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """What the log says of the worlds, as `evaluate` judges a learned process: one that is bad has not learned this system.

        Simulated logs earn what the log earned; held-out rows do not contradict the worlds; neither the row before nor the time
        of a row tells more than the worlds know. What is off is compared with the half width of `whole` on the log.
        """
        half = 0.0 if self.whole is None else QUANTILE * self.whole["standard_error"]
        logged = Estimate(self.logged, self.logged_standard_error, np.inf)
        control = repeats_log(float(np.median(self.own)), float(self.own.std(ddof=1)), logged, half)
        if self.residual is None:
            return (control, *self.of_rows)
        found = self.residual
        return (control, held_out(found, max(half, 1e-300)), hidden_state(found), over_time(found))

    @property
    def verdict(self) -> Verdict:
        """How far the worlds resemble the log: the worst of `findings`."""
        return worst(self.findings)

    @property
    def covers(self) -> str:
        """What was rehearsed, and what was not, in a sentence."""
        if not self.is_closed:
            return COVERS_OWN
        return COVERS_TABLE if self.residual is None else COVERS_CLOSED

    @property
    def summary(self) -> str:
        """Would it have been right on a system like this one?"""
        whole = self.whole
        if whole is None:
            return "No candidate has an answer everywhere, so the rehearsal does not tell."
        count, off = len(self.truths), whole["error_in_worlds"]
        held = round(whole["coverage_in_worlds"] * count)
        scale = abs(float(np.median(self.truths)) - self.logged)
        if whole["candidate"] == TOGETHER:
            whose = f"all {'closed forms' if self.is_closed else 'candidates'} together"
        else:
            whose = "the closed form" if self.is_closed else whole["candidate"]
        part = f", which is {percent(off / scale)} of the difference from the log" if scale > 0 else ""
        return (
            f"{BEGINNINGS[self.verdict]} {count} systems that were learned from this log, the interval of {whose} held what the "
            f"policy {'earns' if self.cost is None else 'costs'} there {held} times of {count}; the answers were off by "
            f"{off:.3g} {self.unit or 'per step'} (root mean square){part}."
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
            "verdict": self.verdict,
            "findings": [entry.to_dict() for entry in self.findings],
            "covers": self.covers,
            "unit": self.unit,
            "cost": self.cost,
            "logged": self.logged,
            "logged_standard_error": plain(self.logged_standard_error),
            "table": plain(self.table),
            "worlds": {name: plain(getattr(self, name).tolist()) for name in arrays},
            "residual": None if self.residual is None else plain(asdict(self.residual)),
        }

    def plot(self) -> Any:
        """A matplotlib figure: by how much each candidate was wrong in every world, and its answer on the log."""
        from cesaro.report.rates import rehearsal_figure

        return rehearsal_figure(self)

    def __str__(self) -> str:
        from cesaro.report.text import rehearsal_text

        return rehearsal_text(self)


def rehearse(
    log: Any,
    policy: Any,
    candidates: Any = "auto",
    *,
    worlds: int | World = 20,
    random_state: int = 0,
    unit: str | None = None,
    quiet: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
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
        unit: the unit of a reward per step, such as "€ per minute".
        quiet: no progress bar.
        checkpoint: a file to keep progress in, and beside it that of the worlds; the same rehearsal goes on from it, bit for bit.

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
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise InputError(f"checkpoint must be a path or None. Got {checkpoint!r}.")
    kept = None if checkpoint is None else Path(checkpoint)
    world = _world(worlds, data, seed, quiet, kept)
    with stage("running the policy in the worlds", quiet=quiet):
        truths = world.rate(target)
    found: Residual | None = None
    of_rows: tuple[Diagnostic, ...] = ()
    if isinstance(world.process_, TabularWorld):
        of_rows = _of_rows(data, target, seed)
    else:
        from cesaro.worlds.residual import residual  # scikit-learn's trees take a while to import

        with stage("comparing the worlds with held-out rows", quiet=quiet):
            found = residual(world, target, seed)
    fitted = _fitted(data, "logged", seed)
    logged = comparable(fitted.behavior_, fitted.prepared_.sample.rows)
    made = rehearsed_in(
        world, truths, found, policy, asked, logged=logged, random_state=seed, quiet=quiet, checkpoint=kept
    )
    column = data.schema.roles["reward"].columns[0]
    return replace(
        made,
        of_rows=of_rows,
        is_closed=asked is None or (not isinstance(candidates, Mapping) and all(map(_is_closed, asked))),
        cost=column if data.schema.settings.cost else None,
        unit=unit,
    )


def rehearsed_in(
    world: World,
    truths: Rates,
    found: Residual | None,
    policy: Any,
    asked: Mapping[str, Candidate] | None = None,
    *,
    logged: Estimate,
    random_state: int,
    quiet: bool,
    checkpoint: Path | None = None,
) -> Rehearsal:
    """Rehearse in a world whose answer on the target is known already.

    Args:
        world: learned from the log.
        truths: what the target earns in it.
        found: what held-out rows say about it; None for a discrete log.
        policy: the target.
        asked: candidates; None: closed forms.
        logged: what the log earned.
        checkpoint: a file that keeps what candidates said, log by log.
    """
    data, seed = world.log_, random_state
    is_ours = asked is None  # estimators of others need not know of threads
    asked = closed_forms(data) if asked is None else asked
    with stage("simulating logs", quiet=quiet):
        logs = world.simulate_each("logged", *_shape(data), np.random.default_rng([seed, 17]))

    def answered(item: tuple[int, Log]) -> list[Answered]:
        number, one = item
        return [ask(make, one, policy, (seed + number) % 2**32) for make in asked.values()]

    # Filters of warnings belong to all threads, and each that sets them puts back what it found.
    with files.holding(checkpoint), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a thread puts back while another still asks
        told = (attach(policy, data).policy, dict(asked), seed, len(data), logged, truths.by_member)
        kept = _Kept(checkpoint, *told, [one.rewards for one in logs])
        done = len(kept.answers)
        with progress("rehearsing", total=len(logs) + 1, done=done, quiet=quiet) as advance:
            rest = [*enumerate([data, *logs])][done:]
            for answer in map_ordered(answered, rest, workers=None if is_ours else 1):
                kept.add(answer)
                advance()
    answers = kept.answers
    given = np.array([[answer[:2] for answer in by_log] for by_log in answers])
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
        logged=logged.value,
        own=np.array([one.rewards.mean() for one in logs]),
        residual=found,
        logged_standard_error=logged.standard_error,
    )


class _Kept:
    """What candidates said about the log and then about simulated ones, in a file that the same rehearsal goes on from.

    Args:
        path: the file, which is held; None: nothing is kept.
        depends_on: all that answers depend on.
    """

    def __init__(self, path: Path | None, *depends_on: Any) -> None:
        self.path, self.answers = path, list[list[Answered]]()
        if path is None:
            return
        self._identity = fingerprint([__version__, np.__version__, *depends_on])
        if not path.exists():
            return
        found = files.read_values(path, PROGRESS, remedy=files.AFRESH)
        if found.get("identity") != self._identity:
            raise InputError(
                f"The checkpoint '{path}' belongs to another rehearsal: its log, policy, candidates, seed or versions were "
                f"others; {files.AFRESH}, or choose another one."
            )
        self.answers = [[Answered(*answer) for answer in by_log] for by_log in found["answers"]]

    def add(self, by_log: list[Answered]) -> None:
        """Keep what was said about the next log."""
        self.answers.append(by_log)
        if self.path is not None:
            said = [[tuple(answer) for answer in by_log] for by_log in self.answers]
            files.write_values(self.path, PROGRESS, {"identity": self._identity, "answers": said})


def _fitted(log: Log, policy: Any, seed: int) -> DiffLSTD:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DiffLSTD(random_state=seed, device="cpu", quiet=True).fit(log, policy)


def _of_rows(log: Log, target: Attached, seed: int) -> tuple[Diagnostic, ...]:
    """Whether a discrete log changes over time, or has a state that its columns do not show, as `evaluate` finds it."""
    try:
        fitted = _fitted(log, target.given, seed)
    except InputError:  # the table of candidates says why
        return ()
    estimate = fitted.estimate_
    difference = replace(estimate, value=estimate.value - fitted.behavior_.value)
    found = table_findings(estimate, difference, fitted.behavior_, fitted.diagnostics_, None)
    return tuple(entry for entry in found if entry.name in (MEMORY.name, DRIFT.name))


def _is_closed(name: str) -> bool:
    return name not in registry.METHODS or registry.METHODS[name].kind == "closed form"


def _candidates(given: Any, log: Log) -> dict[str, Candidate]:
    if isinstance(given, Mapping):
        found = {str(name): make for name, make in given.items()}
    else:
        names = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
        if not all(isinstance(name, str) for name in names):
            raise InputError(f"candidates must be 'auto', names, or a dict from names to functions. Got {given!r}.")
        for name in names:
            _check_name(name, log)
        found = {name: named(name) for name in names}
    if not found or not all(callable(make) and not isinstance(make, type) for make in found.values()):
        raise InputError(
            f"candidates must be at least one name, or a function from a seed to an estimator. Got {given!r}; for a class: "
            "{'name': lambda seed: Class(...)}."
        )
    return found


def _check_name(name: str, log: Log) -> None:
    """Refuse what is neither a method nor features that suit the log."""
    if name in registry.METHODS:
        return
    try:
        build(name, log, random_state=0)
    except InputError as error:
        family, known = name.partition(":")[0], (*registry.METHODS, *FAMILIES)
        if family in FAMILIES or family.endswith(".py"):
            why = error.args[0]
            raise InputError(
                Sentence("{which} must name features that this log can have. Got {name}: {why}", **_got(name), why=why)
            ) from None
        close = nearest(family, known)
        raise InputError(
            Sentence(
                "{which} must name methods ({methods}) or features of the closed form ({features}, or file.py:name). Got "
                "{name}; {remedy}",
                **_got(name),
                methods=", ".join(registry.METHODS),
                features=", ".join(family for family in FAMILIES if family not in registry.METHODS),
                remedy=f"did you mean {close}?" if close else "take one of these, such as polynomial:2.",
            )
        ) from None


def _got(name: str) -> dict[str, str | Wording]:
    return {"which": _CANDIDATES, "name": repr(name)}


def _world(given: Any, log: Log, seed: int, quiet: bool, checkpoint: Path | None) -> World:
    if not isinstance(given, World):
        members, kept = checks.count("worlds", given, low=2, high=1_000), checkpoint and beside(checkpoint, "world")
        return World(members, random_state=seed, quiet=quiet, checkpoint=kept).fit(log)
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
