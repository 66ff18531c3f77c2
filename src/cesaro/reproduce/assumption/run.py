"""Tables 1 and 2: how often is F positive semidefinite on random chains?

The paper's bounds assume (with the paper's symbols, P = P_π, D = diag(d_μ), 0 < ξ < 1)

    F = [[XᵀDX, XᵀDPX], [XᵀPᵀDX, ξ²XᵀDX]] ⪰ 0,

which says that the projected operator has norm at most ξ: ‖G^{-1/2} M G^{-1/2}‖₂ ≤ ξ, G = XᵀDX, M = XᵀDPX.
One norm per trial therefore answers for every ξ.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.files import Arrays, Workspace
from cesaro.reproduce import study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

# Zhang, Wan, Sutton, Whiteson, "Average-Reward Off-Policy Policy Evaluation with Function Approximation", ICML 2021,
# appendix, Table 1 (ξ = 0.9) and Table 2 (ξ = 0.99): ξ -> number of pairs -> one probability per σ in PUBLISHED_SIGMAS.
PUBLISHED_SIGMAS = (0.0, 0.001, 0.01, 0.1, 1.0)
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
QUICK_TRIALS = 300
# Trials per resumable piece: about a second of work at 100 pairs, 20 MB of transition matrices.
_TRIALS_PER_PIECE = 250


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        sizes: numbers n of state-action pairs.
        sigmas: standard deviations σ of the noise that turns the stationary into the sampling distribution.
        xis: bounds ξ on the norm.
        trials: random chains per size.
        seed: of all random numbers. A trial's numbers depend on `(seed, n, trial)` only.
        simplex: how rows of P are drawn, "stick-breaking" (what gives the published numbers) or "uniform".
    """

    sizes: tuple[int, ...] = (5, 10, 50, 100)
    sigmas: tuple[float, ...] = PUBLISHED_SIGMAS
    xis: tuple[float, ...] = (0.9, 0.99)
    trials: int = 10_000
    seed: int = 0
    simplex: str = "stick-breaking"

    def __post_init__(self) -> None:
        _require(bool(self.sizes) and min(self.sizes) >= 2, "sizes", "integers ≥ 2", self.sizes)
        _require(
            bool(self.sigmas) and all(0 <= sigma < math.inf for sigma in self.sigmas),
            "sigmas",
            "finite numbers ≥ 0",
            self.sigmas,
        )
        _require(bool(self.xis) and all(0 < xi < 1 for xi in self.xis), "xis", "numbers between 0 and 1", self.xis)
        _require(self.trials >= 1, "trials", "an integer ≥ 1", self.trials)
        _require(self.seed >= 0, "seed", "an integer ≥ 0", self.seed)
        names = " or ".join(repr(name) for name in _SIMPLEX)
        _require(self.simplex in _SIMPLEX, "simplex", names, repr(self.simplex))


@dataclass(frozen=True)
class Cell:
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
class Result:
    """The tables: `cells` in the order ξ, size, σ."""

    config: Config
    cells: tuple[Cell, ...]

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
        full = Config(trials=self.config.trials, seed=self.config.seed)
        return self.config == full and self.config.trials >= Config.trials

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


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave `assumption.csv`, `assumption.png` and `manifest.json` in `out`.

    The results are the same for every number of workers, and after any interruption.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    study.check_workers(workers)
    settings = {"study": "assumption", **asdict(config)}
    with Workspace(out, settings, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="assumption", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        _write_csv(result, work.path / "assumption.csv")
        plot(result).savefig(work.path / "assumption.png", dpi=150, metadata={"Software": None})
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


def plot(result: Result) -> "Figure":
    """A heat map per ξ: a row per size, a column per σ, ours above the published value in every cell."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    config = result.config
    figure = Figure(figsize=(0.9 + 0.95 * len(config.sigmas) * len(config.xis), 1.7 + 0.75 * len(config.sizes)))
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, len(config.xis), squeeze=False, sharey=True)[0]
    shares = np.array([cell.probability for cell in result.cells])
    shares = shares.reshape(len(config.xis), len(config.sizes), len(config.sigmas))
    for xi, panel, share in zip(config.xis, panels, shares):
        image = panel.imshow(share, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.set_title(f"ξ = {xi:g}")
        panel.set_xlabel("noise σ of the sampling distribution")
        panel.set_xticks(range(len(config.sigmas)), [f"{sigma:g}" for sigma in config.sigmas])
        panel.set_yticks(range(len(config.sizes)), [f"{size}" for size in config.sizes])
        panel.spines[:].set_visible(False)
        panel.set_xticks(np.arange(1, len(config.sigmas)) - 0.5, minor=True)
        panel.set_yticks(np.arange(1, len(config.sizes)) - 0.5, minor=True)
        panel.tick_params(which="both", length=0)
        panel.grid(which="minor", color="white", linewidth=2)
    for index, cell in enumerate(result.cells):
        panel = panels[index // (len(config.sizes) * len(config.sigmas))]
        row, column = divmod(index % (len(config.sizes) * len(config.sigmas)), len(config.sigmas))
        color = "white" if cell.probability > 0.6 else "black"
        below = "" if cell.published is None else f"paper {cell.published:.2f}"
        panel.text(column, row - 0.12, f"{cell.probability:.3f}", color=color, ha="center", va="center", fontsize=11)
        panel.text(column, row + 0.22, below, color=color, ha="center", va="center", fontsize=8)
    panels[0].set_ylabel("state-action pairs n")
    figure.colorbar(image, ax=list(panels), label="share of trials with F ⪰ 0", pad=0.02)
    figure.suptitle(f"How often F ⪰ 0 holds on random chains ({config.trials:,} trials, {config.simplex} rows)")
    return figure


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


def _write_csv(result: Result, file: Path) -> None:
    columns = ("pairs", "sigma", "xi", "probability", "standard_error", "published", "difference", "trials")
    study.write_csv(file, columns, ((getattr(cell, column) for column in columns) for cell in result.cells))


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the assumption study must be {rule}. Got {value} instead.")
