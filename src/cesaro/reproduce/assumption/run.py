"""The assumption study: random chains, the norm of the projected operator on each, and the share that is small enough."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cesaro.checks import Array
from cesaro.files import Arrays
from cesaro.reproduce import study
from cesaro.reproduce.assumption import show
from cesaro.reproduce.assumption.config import Config
from cesaro.reproduce.assumption.result import Cell, Result

# Trials per resumable piece: about a second of work at 100 pairs, 20 MB of transition matrices.
_TRIALS_PER_PIECE = 250


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave `assumption.csv`, `assumption.png` and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    settings = {"study": "assumption", **asdict(config)}
    with study.Folder(out, settings, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="assumption", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        show.write_cells(result, work.file("assumption.csv"))
        show.plot(result).savefig(work.file("assumption.png"), dpi=150, metadata={"Software": None})
        options = {"trials": config.trials, "seed": config.seed, "simplex": config.simplex}
        work.finish(
            study.manifest("assumption", asdict(config), seed=config.seed, options=options, summary=result.summary())
        )
    return result


def norms(config: Config, pairs: int, trials: range) -> Array:
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


def _draw(config: Config, pairs: int, trial: int) -> _Trial:
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


def _pieces(config: Config, pairs: int) -> dict[str, range]:
    starts = range(0, config.trials, _TRIALS_PER_PIECE)
    return {f"{pairs}-{start}": range(start, min(start + _TRIALS_PER_PIECE, config.trials)) for start in starts}


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    def piece(pairs: int, trials: range) -> Arrays:
        return {"norms": norms(config, pairs, trials)}

    # Largest first, so that no long piece is left to the end.
    sizes = sorted(config.sizes, reverse=True)
    return {name: partial(piece, n, trials) for n in sizes for name, trials in _pieces(config, n).items()}


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    found = {n: np.concatenate([pieces[name]["norms"] for name in _pieces(config, n)]) for n in config.sizes}
    return Result(
        config,
        tuple(
            Cell(n, sigma, xi, float((found[n][:, column] <= xi).mean()), config.trials)
            for xi in config.xis
            for n in config.sizes
            for column, sigma in enumerate(config.sigmas)
        ),
    )
