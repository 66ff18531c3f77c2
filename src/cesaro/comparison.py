"""`compare`: several policies on one log, ranked, with paired differences."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import __version__
from cesaro.data.reader import as_log
from cesaro.errors import InputError
from cesaro.estimators.run import Run
from cesaro.evaluation import (
    EFFORTS,
    Evaluation,
    announce_effort,
    effort_of,
    evaluate,
    finding_rows,
    paired_difference,
    rates_row,
    reject_columns,
    target_series,
    to_frame,
    to_numbers,
    with_effort,
)
from cesaro.files import holding
from cesaro.panel import learned_world
from cesaro.passes.standard_errors import Estimate
from cesaro.progress import part

COMPARISON_SCHEMA = "cesaro-comparison/2"


@dataclass(frozen=True)
class Comparison:
    """Several policies on one log.

    Attributes:
        evaluations: by name, in the order given.
        differences: `(a, b)` to the rate of a minus that of b, paired: row by row, and in a panel also process by process.
    """

    evaluations: dict[str, Evaluation]
    differences: dict[tuple[str, str], Estimate]

    def difference(self, a: str, b: str) -> Estimate:
        """The rate of a minus that of b, in either order of the names."""
        if (a, b) in self.differences:
            return self.differences[a, b]
        if (b, a) in self.differences:
            return self.differences[b, a].negative()
        names = ", ".join(map(repr, self.evaluations))
        raise InputError(f"difference needs two different names among {names}. Got {a!r} and {b!r}.")

    @property
    def confidence(self) -> float:
        """Level of the intervals."""
        return next(iter(self.evaluations.values())).confidence

    @property
    def ranking(self) -> list[Evaluation]:
        """The evaluations whose verdict is not bad, highest rate first; an answer that is bad has no rank."""
        fine = [evaluation for evaluation in self.evaluations.values() if evaluation.verdict != "bad"]
        return sorted(fine, key=lambda evaluation: -evaluation.reward_rate)

    @property
    def unranked(self) -> list[Evaluation]:
        """The evaluations whose verdict is bad, in the order given."""
        return [evaluation for evaluation in self.evaluations.values() if evaluation.verdict == "bad"]

    @property
    def listed(self) -> list[Evaluation]:
        """All evaluations as reports list them: the ranking, and then those without a rank."""
        return [*self.ranking, *self.unranked]

    @property
    def is_paired(self) -> bool:
        """Whether differences are paired, as every evaluation's `is_paired` says."""
        return all(one.is_paired for one in self.evaluations.values())

    def ranked_differences(self) -> dict[tuple[str, str], Estimate]:
        """All paired differences, the better policy first: the best against all others, then the second, and so on.

        Policies whose verdict is bad come last, in the order given.
        """
        names = [evaluation.name for evaluation in self.listed]
        return {(a, b): self.difference(a, b) for a, b in combinations(names, 2)}

    @cached_property
    def adjusted(self) -> dict[tuple[str, str], float]:
        """Two-sided p-values of `ranked_differences`, adjusted by Holm's rule for how many there are.

        NaN where there is no interval, and where the verdict on one of the two policies is bad: such a p-value means nothing.
        """
        chances = {pair: _two_sided(found) for pair, found in self.ranked_differences().items()}
        known = sorted((pair for pair, p in chances.items() if np.isfinite(p)), key=lambda pair: chances[pair])
        result, least = dict.fromkeys(chances, float("nan")), 0.0
        for place, pair in enumerate(known):
            least = max(least, min(1.0, (len(known) - place) * chances[pair]))
            result[pair] = least
        bad = {evaluation.name for evaluation in self.unranked}
        return {pair: float("nan") if bad & set(pair) else chance for pair, chance in result.items()}

    def beyond_noise(self, a: str, b: str) -> bool | None:
        """Whether the rates of a and b differ by more than noise explains, with all comparisons counted (Holm's rule).

        However many policies have the same rate, the chance that any two of these are said to differ is at most 1 − confidence.
        None where the difference has no standard error, or the verdict on one of the two is bad.
        """
        self.difference(a, b)  # refuses unknown names
        chance = self.adjusted.get((a, b), self.adjusted.get((b, a), float("nan")))
        return chance <= 1 - self.confidence if np.isfinite(chance) else None

    def plot(self) -> Any:
        """A matplotlib figure of all rates and paired differences, with intervals; for more: `evaluations[name].plot(kind)`."""
        from cesaro.report.rates import comparison_rates

        return comparison_rates(self)

    def save(self, folder: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write what `cesaro compare --out` writes: report.html, comparison.json, report.txt and the pictures.

        Args:
            folder: appears complete or not at all.
            force: replace the folder of an earlier answer.
        """
        from cesaro.report.folder import ReportFolder, write_comparison

        with ReportFolder(folder, force=force) as out:
            write_comparison(self, out)

    def _repr_html_(self) -> str:
        from cesaro.report.html import comparison_fragment

        return comparison_fragment(self)

    def __str__(self) -> str:
        from cesaro.report.text import comparison_text

        return comparison_text(self)

    def to_frame(self, of: str = "rates") -> Any:
        """A pandas frame.

        Args:
            of: "rates": a row per policy as `Evaluation.to_frame` gives it, in the order of `listed`, with its rank (none where
                the verdict is bad); "differences": a row per pair; or "diagnostics": a row per finding on a policy.
        """
        ranks = {one.name: rank for rank, one in enumerate(self.ranking, 1)}
        return to_frame(
            of,
            rates=lambda: [{"rank": ranks.get(one.name), **rates_row(one)} for one in self.listed],
            differences=self._difference_rows,
            diagnostics=lambda: [row for one in self.listed for row in finding_rows(one)],
        )

    def _difference_rows(self) -> list[dict[str, Any]]:
        return [
            {
                "policy": a,
                "minus": b,
                "difference": found.value,
                "standard_error": found.standard_error,
                **dict(zip(("low", "high"), found.interval(self.confidence))),
                "adjusted_p": self.adjusted[a, b],
                "beyond_noise": self.beyond_noise(a, b),
            }
            for (a, b), found in self.ranked_differences().items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `p_one_sided` of `policy` minus `minus` as in `Evaluation.to_dict`."""
        return {
            "schema": COMPARISON_SCHEMA,
            "cesaro": __version__,
            "evaluations": [evaluation.to_dict() for evaluation in self.evaluations.values()],
            "ranking": [evaluation.name for evaluation in self.ranking],
            "unranked": [evaluation.name for evaluation in self.unranked],
            "differences": [
                {
                    "policy": a,
                    "minus": b,
                    **to_numbers(d, self.confidence, p_one_sided=d.p_value()),
                    "beyond_noise": self.beyond_noise(a, b),
                }
                for (a, b), d in self.differences.items()
            ],
        }


def compare(log: Any, policies: Mapping[str, Any], **settings: Any) -> Comparison:
    """Evaluate several policies on one log, with all paired differences; `settings` are those of `evaluate`.

    A `checkpoint` is one file per policy, with a number before its ending.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> action = rng.integers(0, 2, 5000)
        >>> log = cs.Transitions(np.cumsum(action) % 3, action, rewards=action + rng.normal(size=5000))
        >>> result = cs.compare(log, {"always": "constant:1", "never": "constant:0"}, quiet=True)
        >>> result.differences["always", "never"].p_value() < 0.01
        True
    """
    if not hasattr(policies, "keys") or len(policies) < 2:
        raise InputError("policies must map at least two names to policies, such as {'a': …, 'b': …}.")
    names = [str(name) for name in policies]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"policies must have different names. Got {twice[0]!r} twice.")
    reject_columns(settings)
    effort = effort_of(settings.pop("effort", None), settings.get("method", "auto"), settings.get("features", "auto"))
    data, found = as_log(log), {}
    run = settings.get("run")
    kept = run.checkpoint if isinstance(run, Run) else settings.get("checkpoint")
    files = [None if kept is None else numbered(kept, place) for place in range(len(names))]  # one per policy
    with ExitStack() as held:
        for file in files:
            held.enter_context(holding(file))
        for place, (name, policy, file) in enumerate(zip(names, policies.values(), files), 1):
            own = {"checkpoint": file} if not isinstance(run, Run) else {"run": replace(run, checkpoint=file)}
            with part(f"policy {place} of {len(names)}"):
                asked = settings if file is None else {**settings, **own}
                found[name] = evaluate(data, policy, name=name, effort="none", **asked)
        if effort != "none":
            first: Any = found[names[0]].estimator
            world = cache(partial(learned_world, first, EFFORTS[effort]))
            announce_effort([*found.values()], effort)
            for place, name in enumerate(names, 1):
                with part(f"policy {place} of {len(names)}"):
                    found[name] = with_effort(found[name], effort, world)
    return Comparison(found, {(a, b): _difference(found[a], found[b]) for a, b in combinations(found, 2)})


def _difference(one: Evaluation, other: Evaluation) -> Estimate:
    """Of two policies on one log, paired."""
    if one.panel is not None and other.panel is not None:
        return one.panel.minus(other.panel)
    if one.panel is not None and other.is_logged:
        return one.difference
    if other.panel is not None and one.is_logged:
        return other.difference.negative()
    series = target_series(one.estimator), target_series(other.estimator)
    return paired_difference(one.estimator, one.target, series[0], other.target, series[1], other.estimator)


def numbered(path: str | os.PathLike[str], place: int | None) -> Path:
    """The file of the policy in this place: `name_2.npz` beside `name.npz`; the path itself without a place."""
    file = Path(path)
    return file if place is None else file.with_name(f"{file.stem}_{place + 1}{file.suffix}")


def _two_sided(estimate: Estimate) -> float:
    chance = estimate.p_value()
    return 2 * min(chance, 1 - chance)
