"""The assumption study: random chains, the norm of the projected operator on each, and the share that is small enough."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cesaro.checks import Array
from cesaro.files import Arrays
from cesaro.reproduce.assumption.config import PUBLISHED_SIGMAS, AssumptionConfig
from cesaro.reproduce.study import Jobs, Study

# Zhang, Wan, Sutton, Whiteson, "Average-Reward Off-Policy Policy Evaluation with Function Approximation", ICML 2021,
# appendix, Table 1 (ξ = 0.9) and Table 2 (ξ = 0.99): ξ -> number of pairs -> one probability per σ in PUBLISHED_SIGMAS.
PUBLISHED: dict[float, dict[int, tuple[float, ...]]] = {
    0.9: {
        5: (0.70, 0.69, 0.70, 0.65, 0.52),
        10: (0.64, 0.65, 0.63, 0.56, 0.42),
        50: (0.55, 0.50, 0.44, 0.41, 0.36),
        100: (0.52, 0.42, 0.43, 0.38, 0.35),
    },
    0.99: {
        5: (0.92, 0.92, 0.91, 0.77, 0.58),
        10: (0.92, 0.92, 0.84, 0.68, 0.50),
        50: (0.93, 0.68, 0.53, 0.48, 0.42),
        100: (0.93, 0.51, 0.49, 0.45, 0.42),
    },
}
# What this package promises for the full study (stick-breaking, 10,000 trials or more).
PROMISED_MAX, PROMISED_RMS = 0.03, 0.01
# Trials per resumable piece: about a second of work at 100 pairs, 20 MB of transition matrices.
_TRIALS_PER_PIECE = 250


@dataclass(frozen=True)
class TableEntry:
    """One entry of the tables: the share of `trials` in which F ⪰ 0, beside the published one (if there is one)."""

    pairs: int
    sigma: float
    xi: float
    probability: float
    trials: int

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.probability * (1 - self.probability) / self.trials)

    @property
    def published(self) -> float | None:
        row = PUBLISHED.get(self.xi, {}).get(self.pairs)
        return row[PUBLISHED_SIGMAS.index(self.sigma)] if row and self.sigma in PUBLISHED_SIGMAS else None

    @property
    def difference(self) -> float | None:
        return None if self.published is None else self.probability - self.published


@dataclass(frozen=True)
class AssumptionResult:
    """The tables: `cells` in the order ξ, size, σ."""

    config: AssumptionConfig
    cells: tuple[TableEntry, ...]

    @property
    def max_difference(self) -> float:
        """The largest absolute difference from a published value; nan if no cell was published."""
        return max(self._differences, default=math.nan)

    @property
    def rms_difference(self) -> float:
        """The root mean square difference over the published cells; nan if there is none."""
        differences = self._differences
        return math.sqrt(sum(d * d for d in differences) / len(differences)) if differences else math.nan

    @property
    def is_full(self) -> bool:
        """Whether this is the study that the promise is made for; any seed will do."""
        full = AssumptionConfig(trials=self.config.trials, seed=self.config.seed)
        return self.config == full and self.config.trials >= AssumptionConfig.trials

    @property
    def is_within_promise(self) -> bool:
        return self.max_difference <= PROMISED_MAX and self.rms_difference <= PROMISED_RMS

    def summary(self) -> dict[str, Any]:
        """The comparison in JSON values: null for what does not apply."""
        promise = {"max_difference": PROMISED_MAX, "rms_difference": PROMISED_RMS}
        return {
            "max_difference": round(self.max_difference, 6) if self._differences else None,
            "rms_difference": round(self.rms_difference, 6) if self._differences else None,
            "promise": promise if self.is_full else None,
        }

    @property
    def _differences(self) -> list[float]:
        return [abs(cell.difference) for cell in self.cells if cell.difference is not None]


class AssumptionStudy(Study[AssumptionConfig, AssumptionResult]):
    """Norms of the projected operator in blocks of trials, and the tables that they give."""

    def jobs(self) -> Jobs:
        # Largest first, so that no long piece is left to the end.
        sizes = sorted(self.config.sizes, reverse=True)
        return {
            name: partial(_piece, self.config, pairs, trials)
            for pairs in sizes
            for name, trials in _blocks(self.config, pairs).items()
        }

    def result(self, pieces: Mapping[str, Arrays]) -> AssumptionResult:
        config = self.config
        found = {n: np.concatenate([pieces[name]["norms"] for name in _blocks(config, n)]) for n in config.sizes}
        return AssumptionResult(
            config,
            tuple(
                TableEntry(n, sigma, xi, float((found[n][:, column] <= xi).mean()), config.trials)
                for xi in config.xis
                for n in config.sizes
                for column, sigma in enumerate(config.sigmas)
            ),
        )


STUDY = AssumptionStudy


def _blocks(config: AssumptionConfig, pairs: int) -> dict[str, range]:
    starts = range(0, config.trials, _TRIALS_PER_PIECE)
    return {f"{pairs}-{start}": range(start, min(start + _TRIALS_PER_PIECE, config.trials)) for start in starts}


def _piece(config: AssumptionConfig, pairs: int, trials: range) -> Arrays:
    return {"norms": norms(config, pairs, trials)}


def norms(config: AssumptionConfig, pairs: int, trials: range) -> Array:
    """The projected operator's norm in these trials, for every σ: [trials, sigmas]; F ⪰ 0 where it is at most ξ.

    A trial's P, K, X and d_π serve all σ. Trials with the same K are one batch, since their arrays have one shape.
    """
    drawn = [_draw(config, pairs, trial) for trial in trials]
    transitions = np.stack([trial.transitions for trial in drawn])
    noise = np.stack([trial.noise for trial in drawn])
    sampling = _sampling_distributions(_stationary_distributions(transitions), noise, np.array(config.sigmas))
    by_width: dict[int, list[int]] = {}
    for index, trial in enumerate(drawn):
        by_width.setdefault(trial.features.shape[1], []).append(index)
    found = np.empty(sampling.shape[:2])
    for group in by_width.values():
        features = np.stack([drawn[index].features for index in group])
        found[group] = projected_norms(transitions[group, None], features[:, None], sampling[group])
    return found


def projected_norms(transitions: Array, features: Array, sampling: Array) -> Array:
    """‖G^{-1/2} M G^{-1/2}‖₂ with G = XᵀDX and M = XᵀDPX; infinite where G is singular.

    With D^{1/2}X = QR this is the norm of Qᵀ D^{1/2} P X R⁻¹, which neither squares the condition of X nor divides by
    an entry of d (the softmax can make some underflow to zero).

    Args:
        transitions: P, [..., n, n].
        features: X, [..., n, K].
        sampling: d, [..., n].

    Example:
        A constant feature is left as it is, whatever the distribution.

        >>> projected_norms(np.array([[0.5, 0.5], [0.2, 0.8]]), np.ones((2, 1)), np.array([0.3, 0.7])).item()
        1.0
    """
    root = np.sqrt(sampling)[..., None]
    q, r = np.linalg.qr(root * features)
    diagonal = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    singular = diagonal.min(axis=-1) <= np.finfo(np.float64).eps * diagonal.max(axis=-1)
    r = np.where(singular[..., None, None], np.eye(r.shape[-1]), r)
    whitened = np.linalg.solve(r.mT, np.broadcast_to(features, q.shape).mT).mT  # X R⁻¹
    projected = q.mT @ (root * (transitions @ whitened))
    largest = np.linalg.eigvalsh(projected.mT @ projected)[..., -1]
    return np.where(singular, np.inf, np.sqrt(largest))


@dataclass(frozen=True)
class _Trial:
    transitions: Array  # P, [n, n]
    features: Array  # X, [n, K]
    noise: Array  # standard normal, [sigmas, n]


def _draw(config: AssumptionConfig, pairs: int, trial: int) -> _Trial:
    random = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(pairs, trial)))
    return _Trial(
        transitions=_SIMPLEX[config.simplex](random, pairs),
        features=random.standard_normal((pairs, random.integers(1, pairs))),  # K = n would put the constant in the span
        noise=random.standard_normal((len(config.sigmas), pairs)),
    )


def _stick_breaking(random: np.random.Generator, pairs: int) -> Array:
    """Rows that break uniform fractions off what is left of a unit stick, each row in random order."""
    sticks = np.ones((pairs, pairs))
    sticks[:, :-1] = random.random((pairs, pairs - 1))
    sticks[:, 1:] *= np.cumprod(1 - sticks[:, :-1], axis=1)
    return random.permuted(sticks, axis=1)


def _uniform(random: np.random.Generator, pairs: int) -> Array:
    """Rows uniform on the simplex, Dirichlet(1, …, 1)."""
    masses = random.standard_exponential((pairs, pairs))
    masses /= masses.sum(axis=1, keepdims=True)
    return masses


_SIMPLEX: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "stick-breaking": _stick_breaking,
    "uniform": _uniform,
}


def _stationary_distributions(transitions: Array) -> Array:
    """d_π, [trials, n]: the balance equations, the last of which is redundant and gives way to Σd = 1."""
    pairs = transitions.shape[-1]
    balance = np.eye(pairs) - transitions.mT
    balance[:, -1, :] = 1
    return np.asarray(np.linalg.solve(balance, np.eye(pairs)[:, -1:])[..., 0], dtype=np.float64)


def _sampling_distributions(stationary: Array, noise: Array, sigmas: Array) -> Array:
    """d_μ, [trials, sigmas, n]: d_π plus noise, normalized; its softmax where that leaves the open simplex."""
    noisy = stationary[:, None, :] + sigmas[:, None] * noise
    noisy /= noisy.sum(axis=-1, keepdims=True)
    outside = ((noisy <= 0) | (noisy >= 1)).any(axis=-1, keepdims=True)
    softmax = np.exp(noisy - noisy.max(axis=-1, keepdims=True))
    softmax /= softmax.sum(axis=-1, keepdims=True)
    return np.where(outside, softmax, noisy)
