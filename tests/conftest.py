"""Settings of the whole suite (before anything imports JAX) and the oracles that several files share."""

import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = os.environ.get("CESARO_TEST_PLATFORMS", "cpu")  # "cuda,cpu" tests passes on a GPU, too
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
# Compiled programs and matplotlib's list of fonts are kept between runs, beside what is installed. Programs that a test
# starts only read them (none takes that long to compile): one that is killed while it writes would leave half a file.
if sys.prefix != sys.base_prefix:
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(sys.prefix) / "jax_cache"))
    os.environ.setdefault("MPLCONFIGDIR", str(Path(sys.prefix) / "matplotlib"))
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "1e6"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs

hypothesis.settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=40, database=None, print_blob=False
)
hypothesis.settings.load_profile("fixed")

Array = NDArray[np.float64]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is for `make slow`: a Ray cluster or a browser, which takes seconds to start and to kill, and of tests that
    run for every method those of four methods, each of which takes seconds to trace and to compile."""
    for item in items:
        _, _, parameters = item.name.partition("[")
        methods = ("diff-gq2", "diff-gq3", "diff-gq4", "gradient-dice", "projected")
        is_another = "/tests/" in str(item.path) and any(name in parameters for name in methods)
        if {"cluster", "browser"} & {*getattr(item, "fixturenames", ())} or (is_another and _compiles(item.path)):
            item.add_marker("slow")


def _compiles(file: Path) -> bool:
    return file.parent.name in ("algorithms", "learning", "estimators", "closed_forms")


def pytest_collection_finish() -> None:
    """This process also keeps what it compiles, in files that appear whole: another one may read at the same moment."""
    if "jax" not in sys.modules:
        return
    import jax
    from jax._src import lru_cache

    replace = os.replace  # also where a test makes it fail

    def put(self: Any, key: str, value: bytes) -> None:
        whole = self.path / f"{key}{lru_cache._CACHE_SUFFIX}"
        part = whole.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        part.write_bytes(value)
        replace(part, whole)

    lru_cache.LRUCache.put = put  # type: ignore[method-assign]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.fixture(scope="session", autouse=True)
def immediate() -> Iterator[None]:
    """Answers of the closed form alone, also in fixtures, unless a test is about panels: these learn a world, for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cesaro.evaluation.DEFAULT_EFFORT", "none")
        yield


@pytest.fixture(autouse=True)
def by_panel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default where a test is about it."""
    if request.node.get_closest_marker("panel") is not None:
        monkeypatch.setattr("cesaro.evaluation.DEFAULT_EFFORT", "quick")


@pytest.fixture(scope="module")
def adam_is_allowed() -> Iterator[None]:
    """Optax's Adam raises a float to an integer power, which the tests' strict setting forbids, in every thread."""
    import jax

    strict = jax.config.jax_numpy_dtype_promotion  # type: ignore[attr-defined]
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    yield
    jax.config.update("jax_numpy_dtype_promotion", strict)


@pytest.fixture(scope="module")
def plain_starts() -> Iterator[None]:
    """Networks start at numbers that nobody draws, where a test is not about starts: to draw takes seconds to compile."""
    import jax
    import jax.numpy as jnp

    from cesaro import approximators
    from cesaro.learning import engine

    def plain(key: Any, shape: tuple[int, int], dtype: Any) -> Any:
        places = jnp.arange(shape[0] * shape[1], dtype=dtype).reshape(shape)
        return jnp.cos(jax.random.key_data(key)[0].astype(dtype) + places**2) / math.sqrt(shape[1] / 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(approximators.INITIALIZERS, "orthogonal", plain)
        patch.setattr(engine, "_PROGRAMS", {})
        yield


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with empty pictures, where a test is not about them: to draw those of one answer takes seconds."""
    from cesaro.report import folder, html

    monkeypatch.setattr(html, "svg", lambda figure, name, alt: f'<svg id="{name}" role="img"></svg>')
    monkeypatch.setattr(folder, "save_png", lambda figure, file: file.write_bytes(b"\x89PNG"))


@pytest.fixture(scope="session")
def pair_chain() -> Callable[[Array, Array], Array]:
    """`P_π` over pairs, `[n, n]`, from dense `p(s' | s, a)` and `π`, written out pair by pair."""

    def build(probabilities: Array, policy: Array) -> Array:
        states, actions = policy.shape
        chain = np.zeros((states * actions, states * actions))
        for s in range(states):
            for a in range(actions):
                for b in range(actions):
                    chain[s * actions + a, b::actions] = probabilities[s, a] * policy[:, b]
        return chain

    return build


@pytest.fixture(scope="session")
def rational_chain() -> Callable[[Array, Array], tuple[list[Fraction], Fraction, list[Fraction]]]:
    """Stationary law, rate and mean-zero values of an irreducible chain in exact rational arithmetic.

    The floats off the diagonal are taken as the numbers they are; the diagonal is one minus their sum.
    """

    def solve(chain: Array, rewards: Array) -> tuple[list[Fraction], Fraction, list[Fraction]]:
        size = len(chain)
        laplacian = [
            [-Fraction(float(chain[i, j])) if i != j else Fraction(0) for j in range(size)] for i in range(size)
        ]
        for i in range(size):
            laplacian[i][i] = -sum(laplacian[i], Fraction(0))
        r = [Fraction(float(x)) for x in rewards]
        # Law: d (I − P) = 0 with the first equation replaced by Σ d = 1.
        transposed = [[laplacian[j][i] for j in range(size)] for i in range(size)]
        transposed[0] = [Fraction(1)] * size
        law = _gauss(transposed, [Fraction(1)] + [Fraction(0)] * (size - 1))
        rate = sum((d * x for d, x in zip(law, r)), Fraction(0))
        # Values: (I − P) v = r − rate with the first equation replaced by v_0 = 0, then shifted to mean zero.
        pinned = [row[:] for row in laplacian]
        pinned[0] = [Fraction(int(j == 0)) for j in range(size)]
        values = _gauss(pinned, [Fraction(0)] + [x - rate for x in r[1:]])
        shift = sum((d * v for d, v in zip(law, values)), Fraction(0))
        return law, rate, [v - shift for v in values]

    return solve


def _gauss(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss–Jordan elimination without rounding."""
    size = len(matrix)
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        inverse = 1 / rows[k][k]
        rows[k] = [x * inverse for x in rows[k]]
        for i in range(size):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k])]
    return [row[-1] for row in rows]


# The updates of MATHS.md, transcribed line by line, and their exact enumeration over every tuple or pair of tuples.


class Sample(NamedTuple):
    """One tuple `(s, a, R, s', a')` in features."""

    x: Array
    x_next: Array
    reward: float


@dataclass(frozen=True)
class Enumeration:
    """Every sample of the update: probabilities `[N]`, `G_k [N, m, m]` and `h_k [N, m]` in the order of `names`."""

    names: tuple[str, ...]
    probability: Array
    G: Array
    h: Array

    @property
    def mean_G(self) -> Array:
        return np.einsum("k,kij->ij", self.probability, self.G)

    @property
    def mean_h(self) -> Array:
        return self.probability @ self.h

    def second_moment(self, step: float) -> Array:
        """`E[(I + αG_k) ⊗ (I + αG_k)]`."""
        one = np.eye(len(self.names)) + step * self.G
        size = len(self.names) ** 2
        return np.einsum("k,kij,kab->iajb", self.probability, one, one, optimize=True).reshape(size, size)

    def second_moment_with_noise(self, step: float) -> Array:
        """The same for the vector `(κ, 1)`, whose recursion is linear with `h_k` inside."""
        m = len(self.names)
        one = np.zeros((len(self.probability), m + 1, m + 1))
        one[:, :m, :m] = np.eye(m) + step * self.G
        one[:, :m, m] = step * self.h
        one[:, m, m] = 1.0
        size = (m + 1) ** 2
        return np.einsum("k,kij,kab->iajb", self.probability, one, one, optimize=True).reshape(size, size)


Step = Callable[..., dict[str, Any]]


def diff_sgq(k: dict[str, Any], samples: list[Sample], eta: float, lam: float, beta: float) -> dict[str, Any]:
    (x, x1, R), w, r = samples[0], k["w"], k["reward_rate"]
    delta = R - r + x1 @ w - x @ w
    return {"w": delta * x - eta * w, "reward_rate": delta}


def diff_gq1(k: dict[str, Any], samples: list[Sample], eta: float, lam: float, beta: float) -> dict[str, Any]:
    (x, x1, R), w, r, nu = samples[0], k["w"], k["reward_rate"], k["nu"]
    y, y1, u = np.append(1, x), np.append(1, x1), np.append(r, w)
    e1 = np.eye(len(y))[0]
    I0 = np.diag(1 - e1)
    delta = R - r + x1 @ w - x @ w
    du = (y - y1 + e1) * (y @ nu) - eta * I0 @ u
    return {"nu": (delta - y @ nu) * y, "reward_rate": du[0], "w": du[1:]}


def diff_gq2(
    k: dict[str, Any], samples: list[Sample], eta: float, lam: float, beta: float, form: str = "correct"
) -> dict[str, Any]:
    (x1, x1n, R1), (x2, x2n, R2) = samples
    w, r, nu = k["w"], k["reward_rate"], k["nu"]
    rho1, rho2 = R1 + x1n @ w - x1 @ w, R2 + x2n @ w - x2 @ w
    direction = {
        "correct": (x1 - x1n) - (x2 - x2n),
        "main text": (x1 - x1n) + (x2 - x2n),
        "appendix": -((x1 - x1n) - (x2 - x2n)),
    }[form]
    return {
        "nu": (rho1 - rho2 - x1 @ nu) * x1,
        "w": direction * (x1 @ nu) - eta * w,
        "reward_rate": beta * (0.5 * (rho1 + rho2) - r),
    }


def diff_gq3(k: dict[str, Any], samples: list[Sample], eta: float, lam: float, beta: float) -> dict[str, Any]:
    (x, x1, R), w, r, nu = samples[0], k["w"], k["reward_rate"], k["nu"]
    y, y1, u = np.append(1, x), np.append(1, x1), np.append(r, w)
    e1 = np.eye(len(y))[0]
    delta = R - r + x1 @ w - x @ w
    du = (y - y1 + e1) * (x @ nu) - eta * u
    return {"nu": (delta - x @ nu) * x, "reward_rate": du[0], "w": du[1:]}


def diff_gq4(k: dict[str, Any], samples: list[Sample], eta: float, lam: float, beta: float) -> dict[str, Any]:
    (x, x1, R), w, r, nu = samples[0], k["w"], k["reward_rate"], k["nu"]
    rho = R + x1 @ w - x @ w
    return {"reward_rate": rho - r, "nu": (rho - r - x @ nu) * x, "w": (x - x1) * (x @ nu) - eta * w}


def gradient_dice(k: dict[str, Any], samples: list[Sample], eta: float, lam: float, beta: float) -> dict[str, Any]:
    (x, x1, R), theta, kappa, u, r = samples[0], k["theta"], k["kappa"], k["u"], k["reward_rate"]
    tau, f, f1 = theta @ x, kappa @ x, kappa @ x1
    return {
        "theta": -(x * (f1 - f + lam * u) + eta * theta),
        "kappa": tau * (x1 - x) - f * x,
        "u": lam * (tau - 1 - u),
        "reward_rate": tau * R - r,
    }


STEPS: dict[str, Step] = {
    "diff-sgq": diff_sgq,
    "diff-gq1": diff_gq1,
    "diff-gq2": diff_gq2,
    "diff-gq3": diff_gq3,
    "diff-gq4": diff_gq4,
    "gradient-dice": gradient_dice,
}


def read(names: tuple[str, ...], vector: Array) -> dict[str, Any]:
    """The named variables of a stacked vector: "w[0]", "w[1]" become the array "w"; scalars stay scalars."""
    groups: dict[str, list[float]] = {}
    for name, value in zip(names, vector):
        groups.setdefault(name.split("[")[0], []).append(float(value))
    scalars = {name for name in names if "[" not in name}
    return {key: values[0] if key in scalars else np.array(values) for key, values in groups.items()}


def write(names: tuple[str, ...], variables: dict[str, Any]) -> Array:
    where: dict[str, int] = {}
    result = []
    for name in names:
        key = name.split("[")[0]
        position = where.get(key, 0)
        where[key] = position + 1
        if "[" in name:
            assert name == f"{key}[{position}]"
        result.append(float(np.atleast_1d(variables[key])[position]))
    assert where == {key: np.size(value) for key, value in variables.items()}, "a variable of the update has no name"
    return np.array(result)


def tuples(problem: cs.LinearProblem) -> list[tuple[float, Sample]]:
    """All tuples of positive probability under `d_μ(s, a) p(s' | s, a) π(a' | s')`."""
    stored = problem.mdp.probabilities
    p = np.stack([m.toarray() for m in stored], axis=1) if isinstance(stored, tuple) else stored
    states, actions = problem.policy.shape
    result = []
    for s in range(states):
        for a in range(actions):
            for t in range(states):
                for b in range(actions):
                    weight = problem.sampling[s, a] * p[s, a, t] * problem.policy[t, b]
                    if weight > 0:
                        x, x_next = problem.features[s, a], problem.features[t, b]
                        result.append((float(weight), Sample(x, x_next, float(problem.mdp.rewards[s, a]))))
    return result


Enumerate = Callable[..., Enumeration]


@pytest.fixture(scope="session")
def enumerate_update() -> Enumerate:
    """`enumerate_update(problem, method, names, ridge=, lam=, ratio=, form=)`: the literal update, tuple by tuple."""

    def build(
        problem: cs.LinearProblem,
        method: str,
        names: tuple[str, ...],
        *,
        ridge: float = 0.0,
        lam: float = 1.0,
        ratio: float = 1.0,
        form: str | None = None,
    ) -> Enumeration:
        step, single = STEPS[method], tuples(problem)
        if method == "diff-gq2":
            outcomes = [(p * q, [first, second]) for p, first in single for q, second in single]
        else:
            outcomes = [(p, [first]) for p, first in single]
        extra = {} if form is None else {"form": form}
        size = len(names)
        G, h = np.zeros((len(outcomes), size, size)), np.zeros((len(outcomes), size))
        for n, (_, samples) in enumerate(outcomes):
            h[n] = write(names, step(read(names, np.zeros(size)), samples, ridge, lam, ratio, **extra))
            for i in range(size):
                moved = write(names, step(read(names, np.eye(size)[i]), samples, ridge, lam, ratio, **extra))
                G[n, :, i] = moved - h[n]
        return Enumeration(names, np.array([p for p, _ in outcomes]), G, h)

    return build
