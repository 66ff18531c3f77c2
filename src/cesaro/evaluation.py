"""`evaluate`: a log and a policy in, a rate with its interval and diagnostics out."""

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from cesaro import __version__
from cesaro.candidates import suitable_maps
from cesaro.checks import Array
from cesaro.data import Log, read
from cesaro.data.reader import as_log
from cesaro.diagnostics import Diagnostic, widened, worst
from cesaro.diagnostics.panel import RARE_PAIRS, not_rehearsed, panel_findings, rare_pairs, rehearsed, table_findings
from cesaro.diagnostics.worlds import comparable
from cesaro.errors import EvaluationWarning, InputError
from cesaro.estimators import registry
from cesaro.estimators.base import Estimator
from cesaro.features import OneHot
from cesaro.files import plain
from cesaro.inspection.evidence import are_costs, odd_labels
from cesaro.lazy import pandas
from cesaro.linear.methods import METHODS
from cesaro.panel import CONFIDENCE, Opinion, Panel, ask_panel, learned_world, own_file
from cesaro.passes.standard_errors import Estimate, Projection, check_confidence
from cesaro.policies import Policy
from cesaro.policies import policy as as_policy
from cesaro.progress import announce, stage
from cesaro.rehearsal import Rehearsal, rehearsed_in
from cesaro.text import GIVE, Sentence, argument, in_words
from cesaro.versions import run_info
from cesaro.views import Scarce, Views, views
from cesaro.worlds import World, posterior_rates

SCHEMA = "cesaro-evaluation/2"

# Relative to the rates, what sums over a log may lose.
ROUNDING = 1e-12
# States at which a policy is asked twice: so many show one that draws an action of its own in one of a hundred.
ASKED_AGAIN = 1_000

# How much is asked beside the closed form, and processes of the world that is learned then.
EFFORTS = {"none": 0, "quick": 10, "full": 20}
DEFAULT_EFFORT = "quick"
# Seconds on two cores, roughly: those of few rows, with so many per member, and rows that double them; and the parts of these
# that every further policy of a comparison takes, which shares the learned process with the first, and a rehearsal and networks.
SECONDS, SECONDS_PER_MEMBER, DOUBLING = 5.0, 0.6, 200_000
FURTHER, REHEARSED = 0.4, 0.4

COVERS = (
    "The interval covers the noise of the log, and the answers of other kinds of features where these differ by more than noise. "
    "It does not cover what none of these features can express."
)
COVERS_PANEL = (
    "The interval aims at the true rate. It covers the noise of the log and how far answers of different kinds are apart: closed "
    "forms in several families of features, and a learned process; and it reaches where held-out rows point that contradict "
    "this process. It assumes that the columns show the state of the system, and it does not cover an error that all of these "
    "share."
)
COVERS_CLOSED_FORMS = (
    "The interval covers the noise of the log and how far closed forms in several families of features are apart. The learned "
    "process has no vote in this answer, so that no other kind of answer stands beside them: the interval does not cover an "
    "error that all closed forms share. It assumes that the columns show the state of the system."
)
COVERS_ALL = (
    "The interval covers the noise of the log. Every logged pair of state and action has a feature of its own, so the features "
    "leave nothing out of these columns."
)
COVERS_TABLE = (
    "The interval covers the noise of the log, and what pairs of state and action leave open that were seen rarely. Every logged "
    "pair has a feature of its own, so the features leave nothing out of these columns."
)
COVERS_COMMON_PAIRS = (
    f"{COVERS_ALL} What pairs leave open that were seen rarely was not looked at, and is not in it: the log has too many states "
    "for that, or the target may come to pairs that no row has."
)
COVERS_WORLD = (
    "The interval covers what the log leaves open about the process, and what held-out rows prove wrong about the learned one. "
    "It does not cover a state that the columns do not show."
)
NO_REHEARSAL = "the log is discrete, and no process is learned for its answer; cesaro rehearse does it all the same."
# Of answers with effort "none".
NO_OTHERS = (
    "Answers of other kinds, such as a learned process, were not asked: effort quick asks them (--effort quick), with the "
    "default method and features."
)
NO_RARE_PAIRS = (
    "What pairs leave open that were seen rarely was not looked at: effort quick looks at it (--effort quick), with the default "
    "method and features."
)
COVERS_MEAN = "The interval covers the noise of the log around its mean reward."
COVERS_NOTHING = "There is no interval: this method has no standard error here."


@dataclass(frozen=True)
class Evaluation:
    """The answer for one policy.

    Attributes:
        name: the policy's.
        target: its reward rate.
        limit: what the closed form in its own features tends to, which `target` is too where nothing else was asked.
        behavior: what the log earned per step.
        difference: target minus behavior, paired where `is_paired`.
        confidence: level of the printed intervals.
        unit: the unit of a reward per step, such as "€ per minute".
        settings: what was used: method, features, ridge, standard errors, seed.
        diagnostics: what could be wrong, worst first.
        log: name, rows, columns by role, which roles were inferred from names, what was dropped and why.
        warnings: sentences that a user should read.
        estimator: the fitted estimator, for values and more.
        is_logged: whether the policy is what the log did, so that the difference is zero by definition.
        run: when it was made, versions, and the command that repeats it where there was one.
        cost: the column of costs, where rewards are minus its entries (`cesaro.read(…, cost=…)`); None: the log holds rewards.
        effort: how much was asked beside the closed form.
        panel: what candidates of several kinds say, from which `target` comes; None where one was asked alone.
        rehearsal: how closed forms do in worlds that were learned from the log, with effort "full"; None with less.
    """

    name: str
    target: Estimate
    limit: Estimate
    behavior: Estimate
    difference: Estimate
    confidence: float
    unit: str | None
    settings: dict[str, Any]
    diagnostics: tuple[Diagnostic, ...]
    log: dict[str, Any]
    warnings: tuple[str, ...]
    estimator: Estimator = field(repr=False)
    is_logged: bool = False
    run: dict[str, Any] = field(default_factory=dict, repr=False)
    cost: str | None = None
    effort: str = "none"
    panel: Panel | None = field(default=None, repr=False)
    rehearsal: Rehearsal | None = field(default=None, repr=False)

    @property
    def reward_rate(self) -> float:
        """The target's reward rate, per step."""
        return self.target.value

    @property
    def standard_error(self) -> float:
        """The standard error of the target's rate; NaN where the method has none."""
        return self.target.standard_error

    def interval(self, confidence: float | None = None, *, of: str = "rate") -> tuple[float, float]:
        """An interval at this confidence, or at that of the evaluation.

        Args:
            of: "rate": it aims at the true rate, as far as `covers` says; "limit": it is about what the closed form tends to in
                its features, as if nothing else had been asked.
        """
        if of not in ("rate", "limit"):
            raise InputError(f"of must be 'rate' or 'limit'. Got {of!r}.")
        estimate = self.target if of == "rate" else self.limit
        return estimate.interval(self.confidence if confidence is None else confidence)

    @property
    def influence(self) -> Array:
        """The influence of every row on the target's rate, `[n]`; a log that is streamed keeps none."""
        return self.estimator.influence_

    @property
    def verdict(self) -> str:
        """The worst verdict of all diagnostics: "ok", "caution" or "bad"."""
        return worst(self.diagnostics)

    @property
    def is_paired(self) -> bool:
        """Whether differences are paired row by row; where the influence of rows is not known, as in a world, they are not."""
        return target_series(self.estimator) is not None

    @property
    def covers(self) -> str:
        """What the interval is about, in a sentence."""
        if not np.isfinite(self.standard_error):
            return COVERS_NOTHING
        if self.is_logged:
            return COVERS_MEAN
        if self.estimator.kind == "world":
            return COVERS_WORLD
        if self.panel is not None:
            return COVERS_CLOSED_FORMS if self.panel.facts.world is None else COVERS_PANEL
        one_hot = str(self.settings.get("features", "")).startswith("one-hot")
        if one_hot and any(entry.name == RARE_PAIRS.name for entry in self.diagnostics):
            return COVERS_TABLE
        if self.estimator.facts_.spread == 0:
            return COVERS_ALL if one_hot else COVERS
        if not one_hot or self.settings.get("ridge"):
            return f"{COVERS} {NO_OTHERS}" if self.effort == "none" else COVERS
        return f"{COVERS_ALL} {NO_RARE_PAIRS}" if self.effort == "none" else COVERS_COMMON_PAIRS

    @cached_property
    def views(self) -> Views:
        """What pictures show: stretches of the log, values by state, where the target gains, actions, leverage, rollouts."""
        return views(self.estimator, self.estimator.rates_ if self.panel is None else self.panel.rates)

    @property
    def scarce(self) -> tuple[Scarce, ...]:
        """Where more rows would help most: what the target does, and where it is in the learned process, more often than the log.

        Empty where one candidate was asked alone; without states where the learned process has no vote.
        """
        if self.panel is None:
            return ()
        knows_states = self.panel.facts.world is not None
        return tuple(one for one in self.views.scarce if one.is_action or knows_states)

    @property
    def held_out_share(self) -> float:
        """The share of the interval's width that a panel adds where held-out rows contradict the learned process."""
        low, high = self.target.interval(self.confidence)
        return (self.target.below + self.target.above) / (high - low) if self.panel is not None and high > low else 0.0

    def plot(self, kind: str = "rates") -> Any:
        """A matplotlib figure, which a notebook shows and `savefig` writes.

        Args:
            kind: "rates" (with intervals), "reward" (over time, with both rates), "values" (by state), "gains" (where the target
                gains and loses), "influence" (of stretches of the log) or "support" (the target's actions against the log's);
                where a world was learned also "candidates" (what each says by itself), "rollouts" (what the target earns in
                every learned world) and "occupancy" (where it goes there, beside the log); with effort "full" also "rehearsal"
                (by how much closed forms are wrong in learned worlds).
        """
        from cesaro.report.pictures import plot

        return plot(self, kind)

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write what `cesaro evaluate --out` writes: report.html, evaluation.json, report.txt and the pictures.

        Args:
            folder: appears complete or not at all.
            force: replace the folder of an earlier answer.
        """
        from cesaro.report.folder import ReportFolder, write_evaluation

        with ReportFolder(folder, force=force) as out:
            write_evaluation(self, out)

    def _repr_html_(self) -> str:
        from cesaro.report.html import evaluation_fragment

        return evaluation_fragment(self)

    def __str__(self) -> str:
        from cesaro.report.text import evaluation_text

        return evaluation_text(self)

    def to_frame(self, of: str = "rates") -> Any:
        """A pandas frame.

        Args:
            of: "rates": one row with the policy, the rates of target, log and difference, each with its standard error and
                interval (`reward_rate`, `reward_rate_low`, …), and the verdict; or "diagnostics": a row per finding.
        """
        return to_frame(of, rates=lambda: [rates_row(self)], diagnostics=lambda: finding_rows(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the schema's version; what is not known is None.

        `p_one_sided` of a difference tests "not above zero" against "above zero": near 1 where it is clearly below.
        """
        return {
            "schema": SCHEMA,
            "cesaro": __version__,
            "policy": self.name,
            "unit": self.unit,
            "cost": self.cost,
            "confidence": self.confidence,
            "effort": self.effort,
            "reward_rate": to_numbers(self.target, self.confidence),
            "limit": to_numbers(self.limit, self.confidence),
            "candidates": [] if self.panel is None else [self._opinion(one) for one in self.panel.opinions],
            "rehearsal": None if self.rehearsal is None else self.rehearsal.to_dict(),
            "behavior_rate": to_numbers(self.behavior, self.confidence),
            "difference": to_numbers(self.difference, self.confidence, p_one_sided=self.difference.p_value()),
            "covers": self.covers,
            "width": self._width(),
            "verdict": self.verdict,
            "diagnostics": [entry.to_dict() for entry in self.diagnostics],
            "settings": plain(self.settings),
            "log": plain(self.log),
            "warnings": list(self.warnings),
            "run": plain(self.run),
        }

    def _width(self) -> dict[str, Any] | None:
        """What the interval of a panel is wide by, as shares of its variance, and where more rows would help."""
        if self.panel is None:
            return None
        places = [
            {
                "column": one.column,
                "role": "action" if one.is_action else "observation",
                "label": one.label,
                "from": one.low,
                "to": one.high,
                "share_of_log": one.logged,
                "share_of_target": one.target,
            }
            for one in self.scarce
        ]
        return {**self.panel.parts._asdict(), "held_out": self.held_out_share, "more_rows": places}

    def _opinion(self, opinion: Opinion) -> dict[str, Any]:
        said = {"name": opinion.name, "kind": opinion.kind, "weight": opinion.weight, "note": opinion.note}
        numbers = None if opinion.estimate is None else to_numbers(opinion.estimate, self.confidence)
        return {**said, "reward_rate": numbers}


def evaluate(
    log: Any,
    policy: Any,
    *,
    method: Any = "auto",
    features: Any = "auto",
    confidence: float = 0.95,
    random_state: int = 0,
    unit: str | None = None,
    name: str | None = None,
    trust: bool = False,
    effort: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Evaluation:
    """What would this policy earn per step, in the long run?

    Args:
        log: a `Log` (`cesaro.read`), `Transitions`, or a path that `cesaro.read` understands as it is.
        policy: anything that `cesaro.policy` takes.
        method: "auto" or "diff-lstd" (the closed form), a learned method such as "diff-gq1", or your own as in `Learned`; with
            `approximator="mlp"` it learns networks; or "world": the target run in a process that is learned from the log.
        features: see `DiffLSTD`.
        confidence: level of the intervals.
        random_state: seed of everything random.
        unit: the unit of a reward per step, such as "€ per minute".
        name: what to call the policy.
        trust: load policy files that run code: .joblib, .pkl, .zip.
        effort: "none": the closed form alone, at once, whose interval is about its limit; "quick": closed forms in several
            families of features and a learned world are asked as well, so that the interval aims at the true rate; "full": the
            same with more members of the world, networks beside them, and a rehearsal. None: "quick" for the default method and
            features, and "none" for others.
        quiet: no progress bar.
        **settings: passed to the estimator (`ridge`, `dual_features`, `standard_errors`, `approximator`, `run`, …).

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> state = np.cumsum(rng.integers(0, 2, 5000)) % 3
        >>> log = cs.Transitions(state, rng.integers(0, 2, 5000), rewards=(state == 2).astype(float))
        >>> answer = cs.evaluate(log, "uniform", quiet=True)
        >>> low, high = answer.interval()
        >>> bool(low < 1 / 3 < high)
        True
    """
    chosen = effort_of(effort, method, features)
    level = check_confidence(confidence)
    reject_columns(settings)
    estimator = _estimator(method, features, random_state, quiet, settings)
    answer = _immediate(as_log(log), as_policy(policy, name=name, trust=trust), estimator, level, unit)
    if chosen == "none":
        return answer
    announce_effort([answer], chosen)
    return with_effort(answer, chosen)


def effort_of(effort: str | None, method: Any = "auto", features: Any = "auto") -> str:
    """How much is asked: by default a panel, unless one candidate is asked for by its name."""
    is_default = isinstance(method, str) and method == "auto" and isinstance(features, str) and features == "auto"
    if effort is None:
        return DEFAULT_EFFORT if is_default else "none"
    if effort not in EFFORTS:
        raise InputError(f"effort must be one of {', '.join(EFFORTS)}. Got {effort!r}.")
    if effort != "none" and not is_default:
        raise InputError(
            Sentence(
                "{effort} asks candidates of several kinds, and needs the default method and features. Got {method}; leave out "
                "one of them.",
                effort=argument("effort", effort),
                method=argument("features", str(features))
                if isinstance(method, str) and method == "auto"
                else argument("method", str(method)),
            )
        )
    return effort


def with_effort(answer: Evaluation, effort: str, world: Callable[[], World] | None = None) -> Evaluation:
    """An immediate answer with an interval that aims at the true rate.

    Args:
        answer: with the default method and features.
        world: gives a world that was learned from the same log, which several policies share; None: one is learned.
    """
    estimator: Any = answer.estimator
    told = replace(answer, effort=effort)
    if not _needs_panel(answer):
        return told if _is_settled(answer) else _with_rare_pairs(told)
    return _by_panel(told, cache(partial(learned_world, estimator, EFFORTS[effort]) if world is None else world))


def _needs_panel(answer: Evaluation) -> bool:
    """Whether candidates of several kinds are asked beside an immediate answer: where there is something to ask, and the log is
    not discrete."""
    estimator: Any = answer.estimator
    return not _is_settled(answer) and not isinstance(estimator.prepared_.map, OneHot)


def _is_settled(answer: Evaluation) -> bool:
    """Whether nothing is left to ask: of the log's own policy, and where all rewards are equal."""
    estimator: Any = answer.estimator
    return answer.is_logged or bool(estimator.facts_.spread == 0)


def announce_effort(answers: Sequence[Evaluation], effort: str) -> None:
    """Say how long it takes to check immediate answers about one log in other ways; nothing where that takes no time."""
    checked = [answer for answer in answers if _needs_panel(answer)]
    if not checked:
        return
    estimator: Any = checked[0].estimator
    quiet = estimator._run().quiet
    if quiet:  # counting the ways looks at rows
        return
    ways = len(suitable_maps(estimator.prepared_.log)) + (
        effort == "full"
    )  # with a learned process, without the first one
    what = "the answer" if len(checked) == 1 else f"{in_words(len(checked))} answers"
    announce(
        f"checking {what} in {in_words(ways)} other {'way' if ways == 1 else 'ways'}{'' if len(checked) == 1 else ' each'}: "
        f"{_duration(effort, checked[0].log['rows'], len(checked))} (--effort none skips this)",
        quiet=quiet,
    )


def _with_rare_pairs(answer: Evaluation) -> Evaluation:
    """The answer on a discrete log, whose interval holds what pairs leave open that were seen rarely."""
    estimator: Any = answer.estimator
    log, target = estimator.prepared_.log, estimator.prepared_.policy
    rates = posterior_rates(log, target, estimator.random_state, quiet=estimator._run().quiet)
    rare = None if rates is None else rare_pairs(estimator.estimate_, rates, CONFIDENCE)
    target, difference = (widened(one, [] if rare is None else [rare]) for one in (answer.target, answer.difference))
    found = [*table_findings(target, difference, answer.behavior, answer.diagnostics, rare)]
    if answer.effort == "full":
        found.append(not_rehearsed(NO_REHEARSAL, is_discrete=True))
    return replace(answer, target=target, difference=difference, diagnostics=ordered(found))


def _by_panel(answer: Evaluation, world: Callable[[], World]) -> Evaluation:
    """The answer of candidates of several kinds; the closed form's own stays its `limit`."""
    estimator: Any = answer.estimator
    run = estimator._run()
    panel = ask_panel(estimator, world=world, run=run, with_networks=answer.effort == "full")
    found = [*panel_findings(panel.facts, answer.diagnostics)]
    rehearsal: Rehearsal | None = None
    if answer.effort == "full" and panel.facts.world is not None:
        about = panel.facts.about_world
        assert panel.rates is not None
        assert about is not None
        rehearsal = rehearsed_in(
            world(),
            panel.rates,
            about.residual,
            estimator.prepared_.policy.given,
            logged=comparable(answer.behavior, estimator.prepared_.sample.rows),
            random_state=estimator.random_state,
            quiet=run.quiet,
            checkpoint=own_file(run, "rehearsal"),
        )
        rehearsal = replace(rehearsal, cost=answer.cost, unit=answer.unit)
        found.append(_on_rehearsal(rehearsal))
    elif answer.effort == "full":
        found.append(not_rehearsed(panel.facts.note))
    settings = _panel_settings(answer, panel)
    if panel.excerpt is not None:
        settings = {**settings, "excerpt": f"other features were compared with these on {panel.excerpt:,} rows"}
    return replace(
        answer,
        panel=panel,
        rehearsal=rehearsal,
        target=panel.estimate,
        difference=panel.against_log,
        settings=settings,
        diagnostics=ordered(found),
    )


def _on_rehearsal(rehearsal: Rehearsal) -> Diagnostic:
    whole = rehearsal.whole
    if whole is None:
        return not_rehearsed(rehearsal.summary)
    return rehearsed(len(rehearsal.truths), whole["coverage_in_worlds"], rehearsal.verdict, rehearsal.summary)


def _panel_settings(answer: Evaluation, panel: Panel) -> dict[str, Any]:
    """The settings of an answer of a panel: how it was made, and then those of its first closed form."""
    first = answer.settings
    forms = sum(one.kind == "closed form" for one in panel.voting)
    what = f"panel of {forms} closed {'form' if forms == 1 else 'forms'}"
    voted = " and a learned process" if panel.facts.world is not None else "; the learned process has no vote"
    rest = {key: value for key, value in first.items() if key != "method"}
    return {"method": what + voted, "first_closed_form": first.get("method"), **rest}


def _duration(effort: str, rows: int, policies: int) -> str:
    """How long answers of several kinds take, in words."""
    seconds = (SECONDS + SECONDS_PER_MEMBER * EFFORTS[effort]) * (1 + rows / DOUBLING)
    seconds *= 1 + FURTHER * (policies - 1) + (REHEARSED * policies if effort == "full" else 0)
    about = f"{round(seconds, -1):.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"
    return f"about {about} on two cores"


def ordered(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Worst first."""
    return tuple(sorted(diagnostics, key=lambda entry: entry.severity))


def _immediate(data: Log, target: Policy, estimator: Any, level: float, unit: str | None) -> Evaluation:
    """The answer of one estimator."""
    quiet = estimator._run().quiet
    opened = data.opened(quiet=quiet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(opened, target)
        with stage("diagnostics", quiet=quiet):
            diagnostics = estimator.diagnostics_
    said = [w.message.args[0] for w in caught if isinstance(w.message, EvaluationWarning)]  # a `Sentence` stays one
    for other in caught:
        if not issubclass(other.category, EvaluationWarning):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    behavior, totals = estimator.behavior_, estimator.totals_
    rate = widened(estimator.estimate_, diagnostics)
    difference = paired_difference(
        estimator, rate, target_series(estimator), behavior, totals.behavior.whole.centered()
    )
    facts = estimator.facts_
    if facts.spread == 0:
        earned = facts.low
        rate, behavior, difference = (
            replace(one, value=value, standard_error=0.0, below=0.0, above=0.0)
            for one, value in ((rate, earned), (behavior, earned), (difference, 0.0))
        )
        said.append(
            f"All {facts.rows:,} rewards are {earned:g}, so that every policy earns that, as far as the log shows."
        )
    else:
        rate, behavior = _known(rate, ROUNDING * facts.spread), _known(behavior, ROUNDING * facts.spread)
    if not _repeats_itself(estimator):
        said.append(
            f"Policy {target.name!r} gives other actions when it is asked again with the same rng, so the answer may differ from "
            "run to run; draw its random numbers from rng: def policy(observations, rng)."
        )
    column = opened.schema.roles["reward"].columns[0]
    cost = column if opened.schema.settings.cost else None
    if cost is None and are_costs(column, estimator.prepared_.sample.rows.rewards):
        said.append(_as_cost(column))
    sample = estimator.prepared_.sample.rows
    if len(sample) == facts.rows:
        said += odd_labels(sample.actions)
    return Evaluation(
        name=target.name,
        target=rate,
        limit=rate,
        behavior=behavior,
        difference=difference,
        confidence=level,
        unit=unit,
        settings=estimator.summary_(),
        diagnostics=ordered(diagnostics),
        log={
            "name": opened.name,
            "rows": facts.rows,
            "columns": {
                "cost" if role == "reward" and cost is not None else role: list(found.columns)
                for role, found in opened.schema.roles.items()
            },
            "inferred": [] if opened.origin is None else list(opened.origin.inferred),
            "counts": dict(opened.counts),
            "notes": list(opened.notes),
        },
        warnings=tuple(said),
        estimator=estimator,
        is_logged=target.is_logged,
        run=run_info(),
        cost=cost,
    )


def _repeats_itself(estimator: Estimator) -> bool:
    """Whether the policy gives the same actions again at some states."""
    prepared = estimator.prepared_
    if prepared.policy is None or prepared.is_logged:
        return True
    return prepared.policy.repeats_itself(prepared.sample.rows.next_observations.take(slice(0, ASKED_AGAIN)).plain())


def _as_cost(column: str) -> str:
    return Sentence(
        'More of "{column}" counts as better, because it is the reward; if it is a cost, {give} {cost} in place of {reward}.',
        column=column,
        give=GIVE,
        cost=argument("cost", column),
        reward=argument("reward", column),
    )


def to_frame(of: Any, **parts: Callable[[], list[dict[str, Any]]]) -> Any:
    """A pandas frame of one of the parts, from its rows."""
    if of not in parts:
        raise InputError(f"of must be one of {', '.join(parts)}. Got {of!r}.")
    return pandas().DataFrame(parts[of]())


def rates_row(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as a row of a frame."""
    row: dict[str, Any] = {"policy": evaluation.name}
    for name, estimate in (
        ("reward_rate", evaluation.target),
        ("behavior_rate", evaluation.behavior),
        ("difference", evaluation.difference),
    ):
        low, high = estimate.interval(evaluation.confidence)
        row |= {name: estimate.value, f"{name}_standard_error": estimate.standard_error}
        row |= {f"{name}_low": low, f"{name}_high": high}
    return {**row, "verdict": evaluation.verdict, "log": evaluation.log["name"], "rows": evaluation.log["rows"]}


def finding_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """The findings on a policy as rows of a frame."""
    return [{"policy": evaluation.name, **vars(entry)} for entry in evaluation.diagnostics]


def target_series(estimator: Estimator) -> Projection | None:
    """The influence on the target's rate, added up; None where there is none."""
    totals = estimator.totals_
    if estimator.prepared_.is_logged:
        return totals.behavior.whole.centered()
    return None if totals.target is None else totals.influence


def paired_difference(
    estimator: Any,
    one: Estimate,
    of_one: Projection | None,
    other: Estimate,
    of_other: Projection | None,
    of_other_estimator: Any = None,
) -> Estimate:
    """Paired, row by row, as rewards depend on each other over time. What learning adds by chance is not paired.

    An estimate that does not come from rows, as that of a world, is not paired at all.
    """
    if of_one is None or of_other is None:
        return Estimate(
            one.value - other.value,
            float(np.hypot(one.standard_error, other.standard_error)),
            min(one.degrees_of_freedom, other.degrees_of_freedom),
            one.below + other.above,
            one.above + other.below,
        )
    paired = estimator.sampling_.over_time().estimate(one.value - other.value, of_one.minus(of_other))
    paired = replace(paired, below=one.below + other.above, above=one.above + other.below)
    learning = [getattr(fitted, "learning_error_", 0.0) for fitted in (estimator, of_other_estimator)]
    error = float(np.sqrt(paired.standard_error**2 + sum(part**2 for part in learning)))
    rounding = ROUNDING * max(abs(one.value), abs(other.value))
    if abs(paired.value) <= rounding and error <= rounding:  # constant rewards: what is left is rounding
        return Estimate(0.0, 0.0, paired.degrees_of_freedom)
    return _known(replace(paired, standard_error=error), rounding)


def _known(estimate: Estimate, rounding: float) -> Estimate:
    """Without a standard error where that is zero although rewards differ: so few or so regular rows do not tell it."""
    return replace(estimate, standard_error=float("nan")) if estimate.standard_error <= rounding else estimate


def _estimator(name: Any, features: Any, random_state: int, quiet: bool, settings: dict[str, Any]) -> Any:
    chosen = registry.method(name)
    if "approximator" in settings and chosen.kind != "learned":
        names = ", ".join(METHODS)
        raise InputError(f"approximator needs a learned method: method= must be one of {names}. Got {name!r}.")
    known = chosen.parameters
    if unknown := sorted(set(settings) - set(known)):
        raise InputError(f"The method '{name}' has no setting {', '.join(unknown)}; it has {', '.join(known)}.")
    beside = {} if settings.get("run") is not None else {"quiet": quiet}
    return chosen.estimator(features=features, random_state=random_state, **beside, **settings)


def reject_columns(settings: Mapping[str, Any]) -> None:
    """What says how a log is read goes to `read`."""
    wrong = [name for name in settings if name in inspect.signature(read).parameters]
    if wrong:
        names = ", ".join(f"{name}=…" for name in wrong)
        raise InputError(
            f"evaluate takes a log that is already read. Got {', '.join(wrong)}; call cesaro.read first: "
            f"log = cesaro.read(path, {names})."
        )


def to_numbers(estimate: Estimate, confidence: float, **more: float) -> dict[str, Any]:
    low, high = estimate.interval(confidence)
    numbers = {"value": estimate.value, "standard_error": estimate.standard_error, "low": low, "high": high}
    numbers |= {"widened_below": estimate.below, "widened_above": estimate.above, **more}
    return {key: plain(value) for key, value in numbers.items()}
