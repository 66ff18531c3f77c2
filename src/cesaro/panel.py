"""A panel: answers of several kinds to one question, and what they say together.

Closed forms in different features extrapolate values; a learned world extrapolates the process. Where they agree, an error would
have to be common to both; where they do not, the interval reaches as far as they are apart. Which construction holds the truth
was found by a contest: docs/contest.md.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from cesaro.candidates import MAPS, networks, suitable_maps
from cesaro.checks import SMALLEST, Array
from cesaro.data import Log, Transitions
from cesaro.data.transitions import excerpt
from cesaro.devices import starting_jax
from cesaro.diagnostics.panel import PanelFacts
from cesaro.diagnostics.worlds import WorldFacts, comparable, repeats_log
from cesaro.engines import map_ordered
from cesaro.errors import EvaluationWarning, InputError, StartError
from cesaro.estimators import DiffLSTD
from cesaro.estimators.run import Run
from cesaro.passes.standard_errors import Estimate, Projection, Sampling
from cesaro.progress import stage
from cesaro.worlds import World
from cesaro.worlds.process import median_estimate

if TYPE_CHECKING:
    from cesaro.worlds.estimator import WorldAnswer
    from cesaro.worlds.process import Rates

Kind: TypeAlias = Literal["closed form", "world", "network"]
# Networks are shown beside: with a vote of theirs, intervals of the contest's logs held the truth less often.
VOTERS = ("closed form", "world")
NO_VOTE = "shown beside the others; networks have no vote"
# Errors that are pooled are those of normal laws whose intervals are as wide at this level.
CONFIDENCE = 0.95
QUANTILE = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
# Of the errors of two kinds of answers, which come from the same rows.
CORRELATION = 0.5
# Rows up to which every candidate is asked about all of them; of a longer log others than the first one are asked about an
# excerpt, and what they differ by there is added to what the first one says of all rows.
MOST_ROWS = 1_000_000
NOTHING = Estimate(0.0, 0.0, np.inf)
# Relative to the numbers that are pooled, errors that are none: those of a log without noise, or of policies that act alike.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Opinion:
    """What one candidate says.

    Attributes:
        name: the features of a closed form, "world" or "network".
        estimate: of the rate; None where there is none, or where a world is unlike the log, and then `note` says why.
        against_log: of the difference from what the log earned, paired.
        weight: in the panel's answer; all weights add up to one.
    """

    name: str
    kind: Kind
    estimate: Estimate | None
    against_log: Estimate | None = None
    note: str = ""
    weight: float = 0.0
    _series: "_Series | None" = field(default=None, repr=False)

    @property
    def votes(self) -> bool:
        return self.kind in VOTERS and self.estimate is not None

    def minus(self, other: "Opinion") -> Estimate | None:
        """The difference from another opinion of the same kind, paired: on another policy, or of other features."""
        if self.estimate is None or other.estimate is None:
            return None
        if self._series is None or other._series is None:
            return None
        return self._series.minus(other._series, self.estimate, other.estimate)


class _Series(NamedTuple):
    """What differences are paired by: the influence of rows, or members that learned from the same bootstraps of the log."""

    sampling: Sampling | None = None
    influence: Projection | None = None
    members: Array | None = None
    in_excerpt: "_Series | None" = None

    def minus(self, other: "_Series", one: Estimate, two: Estimate) -> Estimate:
        value = one.value - two.value
        if self.sampling is not None and self.influence is not None and other.influence is not None:
            found = self.sampling.over_time().estimate(value, self.influence.minus(other.influence))
            if self.in_excerpt is None or other.in_excerpt is None:
                return found
            return _sum(found, self.in_excerpt.minus(other.in_excerpt, NOTHING, NOTHING))
        assert self.members is not None
        assert other.members is not None
        return replace(median_estimate(self.members - other.members, proven=one.below + two.below), value=value)


def _sum(one: Estimate, other: Estimate) -> Estimate:
    """Two numbers whose errors have nothing to do with each other."""
    return Estimate(one.value + other.value, float(np.hypot(equivalent(one), equivalent(other))), np.inf)


class Parts(NamedTuple):
    """Shares of a variance."""

    noise: float
    features: float
    kinds: float


@dataclass(frozen=True)
class Pooled:
    """Several numbers as one.

    Attributes:
        value: the average by weights.
        error: the standard error of a normal law whose interval is as wide.
        weights: of the numbers, which add up to one.
        parts: what the error comes from.
    """

    value: float
    error: float
    weights: Array
    parts: Parts

    @property
    def estimate(self) -> Estimate:
        """Normal."""
        return Estimate(self.value, self.error, np.inf)


def pooled(values: Sequence[float], errors: Sequence[float], kinds: Sequence[str], weights: Any = None) -> Pooled:
    """Average numbers by precision within kinds, and kinds by precision; what they differ by enters the error.

    Numbers of one kind come from the same rows in much the same way: their errors do not average out, and their average has the
    average error. Errors of different kinds do in part (`CORRELATION`). Where numbers of a kind differ by more than their errors,
    small errors say little about who is right, so that what they differ by beyond them counts in every precision, as in a
    meta-analysis with random effects.

    Args:
        weights: taken instead of precisions; of numbers that were pooled before, such as the rates whose differences these are.
    """
    rates, groups = np.asarray(values, float), np.asarray(kinds)
    least = max(ROUNDING * float(np.abs(rates).max()), SMALLEST)
    sizes = np.maximum(np.asarray(errors, float), least)
    names, shares = list(dict.fromkeys(kinds)), np.zeros(len(rates))
    value, noise, spread, weight = np.empty((4, len(names)))
    for place, kind in enumerate(names):
        own = groups == kind
        apart = _beyond_noise(rates[own], sizes[own])
        precision = 1 / (sizes[own] ** 2 + apart) if weights is None else np.asarray(weights, float)[own]
        shares[own] = precision / precision.sum()
        value[place] = shares[own] @ rates[own]
        noise[place], spread[place] = shares[own] @ sizes[own], shares[own] @ (rates[own] - value[place]) ** 2
        weight[place] = 1 / (noise[place] ** 2 + spread[place]) if weights is None else precision.sum()
    total = weight / weight.sum()
    mean = float(total @ value)
    within = _variance(total, np.sqrt(noise**2 + spread))
    between = float(total @ (value - mean) ** 2)
    features = within * float(total @ spread) / float(total @ (noise**2 + spread))
    variance = within + between
    for place, kind in enumerate(names):
        shares[groups == kind] *= total[place]
    parts = Parts((within - features) / variance, features / variance, between / variance)
    error = float(np.sqrt(variance))
    return Pooled(mean, 0.0 if error <= 2 * least else error, shares, parts)


def _beyond_noise(values: Array, errors: Array) -> float:
    """The variance by which numbers differ beyond their errors, by the moments of DerSimonian and Laird."""
    total = (errors**-2.0).sum()
    shares = errors**-2.0 / total
    several = 1 - float(shares @ shares)
    if several < ROUNDING:  # one of them has all the precision
        return 0.0
    return max(0.0, float(shares @ (values - shares @ values) ** 2 - (len(values) - 1) / total) / several)


def _variance(weights: Array, errors: Array) -> float:
    """Of a weighted sum of numbers whose errors are correlated."""
    sizes = weights * errors
    return float((1 - CORRELATION) * sizes @ sizes + CORRELATION * sizes.sum() ** 2)


def equivalent(estimate: Estimate) -> float:
    """The standard error of a normal law whose interval is as wide."""
    low, high = estimate.interval(CONFIDENCE)
    return (high - low) / 2 / QUANTILE


@dataclass(frozen=True)
class Panel:
    """Opinions on one policy, and the answer that they give together.

    Attributes:
        opinions: those that have a vote with their weights, and the others with the reason.
        estimate: of the rate: what they say together.
        against_log: of the difference from what the log earned.
        parts: of the variance behind the interval: noise of the log, features that differ, kinds that differ; they add up to one.
        facts: for findings.
        rates: of the target in the learned world; None where there is none.
        excerpt: rows that other closed forms than the first were asked about, where the log is too long for all; None: all rows.
    """

    opinions: tuple[Opinion, ...]
    estimate: Estimate
    against_log: Estimate
    parts: Parts
    facts: PanelFacts
    rates: "Rates | None" = field(default=None, repr=False)
    excerpt: int | None = None

    @property
    def voting(self) -> list[Opinion]:
        """Those that have a weight in the answer."""
        return [opinion for opinion in self.opinions if opinion.weight > 0]

    def minus(self, other: "Panel") -> Estimate:
        """The difference of two policies' rates: every candidate's own, paired, by the mean of its weights."""
        found = []
        theirs = {opinion.name: opinion for opinion in other.voting}
        for opinion in self.voting:
            if opinion.name in theirs:
                difference = opinion.minus(theirs[opinion.name])
                if difference is not None:
                    weight = (opinion.weight + theirs[opinion.name].weight) / 2
                    found.append((difference, opinion.kind, weight))
        mine, its = self.estimate, other.estimate
        error = _pool(found).error if found else float(np.hypot(mine.standard_error, its.standard_error))
        return Estimate(mine.value - its.value, error, np.inf, mine.below + its.above, mine.above + its.below)


def _pool(found: Sequence[tuple[Estimate, str, float]]) -> Pooled:
    estimates, kinds, weights = zip(*found)
    return pooled([one.value for one in estimates], [equivalent(one) for one in estimates], kinds, weights)


def ask_panel(base: DiffLSTD, *, world: Callable[[], World], run: Run, with_networks: bool = False) -> Panel:
    """Ask other closed forms and a learned world what a fitted closed form was asked, and pool what they say.

    Args:
        base: fitted with the default features, on a log that is not discrete.
        world: gives a world that was learned from the same log.
        run: how it is run.
        with_networks: ask networks, too, which have no vote.
    """
    log = base.prepared_.log
    assert log is not None
    maps = [name for name in suitable_maps(log) if name != base.features]
    part: Transitions | None = None
    first = there = _closed(base, str(base.features))
    if len(log) <= MOST_ROWS:
        opinions = [first, *(_in_features(base, name, log, run) for name in maps)]
    else:
        with stage("taking an excerpt of the log", quiet=run.quiet):
            part = excerpt(log.opened(), MOST_ROWS, base.random_state)
        there = _in_features(base, str(base.features), part, run)
        opinions = [first, *(_moved(first, there, _in_features(base, name, part, run)) for name in maps)]

    def in_networks() -> Opinion:
        found = _in_networks(base, log if part is None else part, run)
        return found if part is None else _moved(first, there, found)

    works: list[Callable[[], Any]] = [partial(_ask_world, base, _learned(world), run)]
    if with_networks:  # training has a core to itself while rollouts, whose steps are short, take another
        works.append(in_networks)
    with warnings.catch_warnings():  # what a thread puts back while another one still asks
        about_world, *beside = map_ordered(lambda work: work(), works, workers=len(works))
    opinion, found, remembered = about_world
    simulated = None if found is None else found.facts
    repeated = comparable(base.behavior_, base.prepared_.sample.rows)
    panel = _together([*opinions, opinion, *beside], base.behavior_, simulated, remembered, repeated)
    return replace(panel, rates=None if found is None else found.rates, excerpt=None if part is None else len(part))


def _learned(world: Callable[[], World]) -> World | InputError:
    """The learned process, or why there is none."""
    try:
        return world()
    except InputError as error:
        return error


def _ask_world(base: DiffLSTD, learned: World | InputError, run: Run) -> "tuple[Opinion, WorldAnswer | None, float]":
    """What a learned process says of the target; without an answer, how far the rate depends on the start."""
    target = base.prepared_.policy
    assert target is not None
    try:
        if isinstance(learned, InputError):
            raise learned
        with starting_jax():
            from cesaro.worlds.estimator import ask_world  # JAX takes a second to import

        found = ask_world(learned, target, base.random_state, quiet=run.quiet)
    except InputError as error:
        remembered = error.remembered if isinstance(error, StartError) else 0.0
        return Opinion("world", "world", None, note=str(error)), None, remembered
    return _in_world(found, learned, base.behavior_), found, 0.0


def _together(
    opinions: list[Opinion],
    logged: Estimate,
    facts: WorldFacts | None,
    remembered: float = 0.0,
    repeated: Estimate | None = None,
) -> Panel:
    """Pool those that have an answer; a world that does not resemble the log does not vote.

    Args:
        logged: what the log earned.
        repeated: the same, as far as a world can repeat it; None: just so.
    """
    found = _weighed(opinions)
    if facts is not None and (reason := _unlike(facts, repeated or logged, QUANTILE * found.error)):
        opinions = [
            replace(opinion, estimate=None, against_log=None, note=reason) if opinion.kind == "world" else opinion
            for opinion in opinions
        ]
        found = _weighed(opinions)
    weights = iter(found.weights.tolist())
    opinions = [replace(one, weight=next(weights)) if one.votes else one for one in opinions]
    differences = [
        (one.against_log, one.kind, one.weight) for one in opinions if one.votes and one.against_log is not None
    ]
    below, above = _further(found.value, opinions, facts)
    estimate = replace(found.estimate, below=below, above=above)
    against_log = replace(_pool(differences).estimate, value=found.value - logged.value, below=below, above=above)
    return Panel(
        tuple(opinions),
        estimate,
        against_log,
        found.parts,
        PanelFacts(
            target=estimate,
            difference=against_log,
            logged=logged,
            closed_forms=_weighed([one for one in opinions if one.kind == "closed form"]).estimate,
            world=next((one.estimate for one in opinions if one.kind == "world"), None),
            note=next((one.note for one in opinions if one.kind == "world"), ""),
            about_world=facts,
            remembered=remembered,
        ),
    )


def _further(value: float, opinions: Sequence[Opinion], facts: WorldFacts | None) -> tuple[float, float]:
    """How much further the interval reaches below and above this value: as if the value were where held-out rows point.

    That is the world's rate, corrected by rows that it did not learn from, where these contradict it beyond noise.
    """
    world = next((one.estimate for one in opinions if one.kind == "world"), None)
    if world is None or facts is None or facts.residual is None or facts.residual.is_noise:
        return 0.0, 0.0
    point = world.value + facts.residual.value
    return max(0.0, value - point), max(0.0, point - value)


def _weighed(opinions: Sequence[Opinion]) -> Pooled:
    able = [(one.estimate, one.kind) for one in opinions if one.votes and one.estimate is not None]
    return pooled([one.value for one, _ in able], [equivalent(one) for one, _ in able], [kind for _, kind in able])


def _unlike(facts: WorldFacts, logged: Estimate, half: float) -> str:
    """Why a world has no vote; empty where it has one."""
    found = repeats_log(facts.control, facts.control_error, logged, half)
    return found.sentence if found.verdict == "bad" else ""


def _closed(fitted: DiffLSTD, name: str) -> Opinion:
    """What a fitted closed form says."""
    estimate, series, logged = fitted.estimate_, fitted.totals_.influence, fitted.totals_.behavior.whole.centered()
    difference = estimate.value - fitted.behavior_.value
    against_log = fitted.sampling_.over_time().estimate(difference, series.minus(logged))
    return Opinion(name, "closed form", estimate, against_log, _series=_Series(fitted.sampling_, series))


def _in_features(base: DiffLSTD, features: str, log: Log, run: Run) -> Opinion:
    """The closed form in these features, on all rows or an excerpt."""
    with stage(f"the same in other features ({features})", quiet=run.quiet):
        return _fitted(base, features, features, log, run)


def _in_networks(base: DiffLSTD, log: Log, run: Run) -> Opinion:
    """The closed form in the last layer of networks that were trained for this policy."""
    assert base.prepared_.policy is not None
    quiet = replace(run, quiet=True, checkpoint=own_file(run, "training"))
    with stage("networks", quiet=run.quiet), starting_jax(), warnings.catch_warnings():
        warnings.simplefilter("ignore", EvaluationWarning)
        try:
            trained = networks(base.random_state, quiet).fit(log, base.prepared_.policy.given)
        except InputError as error:
            return Opinion("network", "network", None, note=str(error))
        found = _fitted(base, trained, "network", log, run)
    return replace(found, kind="network", note=found.note or NO_VOTE)


def _fitted(base: DiffLSTD, features: Any, name: str, log: Log, run: Run) -> Opinion:
    """What a closed form in other features says that is fitted as the first one was."""
    other = DiffLSTD(
        features,
        ridge=base.ridge,
        standard_errors=base.standard_errors,
        draws=base.draws,
        random_state=base.random_state,
        device=base.device,
        run=replace(run, quiet=True, checkpoint=own_file(run, name)),
    )
    assert base.prepared_.policy is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvaluationWarning)  # the first one has said it
        try:
            return _closed(other.fit(log, base.prepared_.policy.given), name)
        except InputError as error:
            return Opinion(name, "closed form", None, note=str(error))


def _moved(first: Opinion, there: Opinion, other: Opinion) -> Opinion:
    """What a candidate says of all rows, as far as an excerpt tells: what the first one does, and how they differ there."""
    difference = other.minus(there)
    if difference is None:
        return replace(other, estimate=None, against_log=None, note=other.note or there.note)
    assert first.estimate is not None
    assert first.against_log is not None
    assert first._series is not None
    return replace(
        other,
        estimate=_sum(first.estimate, difference),
        against_log=_sum(first.against_log, difference),
        _series=first._series._replace(in_excerpt=_between(other._series, there._series)),
    )


def _between(one: _Series | None, other: _Series | None) -> _Series:
    """The influence of rows on what two closed forms differ by."""
    assert one is not None
    assert other is not None
    assert one.influence is not None
    assert other.influence is not None
    return _Series(one.sampling, one.influence.minus(other.influence))


def learned_world(base: DiffLSTD, members: int) -> World:
    """The process of the log of a fitted closed form; its progress is kept beside that of the latter."""
    run, log = base._run(), base.prepared_.log
    assert log is not None
    return World(members, random_state=base.random_state, quiet=run.quiet, checkpoint=own_file(run, "world")).fit(log)


def _in_world(found: "WorldAnswer", world: World, logged: Estimate) -> Opinion:
    """The target in a process that was learned from the log."""
    process: Any = world.process_
    estimate, members = found.estimate, found.rates.by_member
    earned = np.array([np.average(process.rewards, weights=times * process.weights) for times in process.bag.times])
    difference = median_estimate(members - earned, proven=estimate.below)
    difference = replace(difference, value=estimate.value - logged.value)
    return Opinion("world", "world", estimate, difference, _series=_Series(members=members))


def progress_files(path: Path) -> list[Path]:
    """The files in which candidates keep their progress, beside that of the first one."""
    return [beside(path, name) for name in (*MAPS, "world", "training", "network", "rehearsal")]


def beside(path: Path, name: str) -> Path:
    """The file of a part of the work, beside that of the whole."""
    return path.with_name(f"{path.stem}_{name.replace(':', '_')}{path.suffix}")


def own_file(run: Run, name: str) -> Path | None:
    """The file of one candidate."""
    return None if run.checkpoint is None else beside(Path(run.checkpoint), name)
