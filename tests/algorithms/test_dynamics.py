"""`G` and `h` by evaluating the step, against the closed forms of `LinearProblem`, entry by entry."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

import cesaro as cs
from cesaro.algorithms import REGISTRY, Batch, Objective, dynamics, saddle_point
from cesaro.approximators import linear

pytestmark = pytest.mark.slow  # each method and shape takes seconds to trace

Array = NDArray[np.float64]

METHODS = tuple(REGISTRY)


def closed_name(method: str, name: str) -> str:
    """The name that `LinearProblem.stability(…).mean.layout` gives to a variable of `dynamics`."""
    fixed = {"primal.rate": "reward_rate", "dual.bias": "nu[0]", "dual.normalizer": "u"}
    if name in fixed:
        return fixed[name]
    match = re.fullmatch(r"(primal\.values|primal\.ratio|dual\.test|dual)\.weights\[(\d+)\]", name)
    assert match is not None, f"unknown variable {name}"
    part, index = match[1], int(match[2])
    if part == "dual":
        return f"nu[{index + (method == 'diff-gq1')}]"
    return f"{ {'primal.values': 'w', 'primal.ratio': 'theta', 'dual.test': 'kappa'}[part] }[{index}]"


def closed_form(
    problem: cs.LinearProblem, method: str, names: tuple[str, ...], **numbers: float
) -> tuple[Array, Array]:
    """`G` and `h` of `LinearProblem`, in the order of `names`."""
    mean = problem.stability(method, **numbers).mean
    wanted = [closed_name(method, name) for name in names]
    assert sorted(wanted) == sorted(mean.layout.names), "every variable exactly once"
    order = [mean.layout.names.index(name) for name in wanted]
    return mean.G[np.ix_(order, order)], mean.h[order]


def assert_same(found: Any, G: Array, h: Array, tolerance: float = 1e-12) -> None:
    scale = 1 + np.abs(G).max()
    np.testing.assert_allclose(found.G, G, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(found.h, h, rtol=0, atol=tolerance * scale)


def transitions(problem: cs.LinearProblem, factor: float = 1.0) -> cs.FeatureTransitions:
    """The whole sample space as weighted rows."""
    space = problem.sample_space
    return cs.FeatureTransitions(
        problem.X[space.pair], problem.r[space.pair], problem.X[space.next_pair], weights=factor * space.probability
    )


# Those that occur twice do so with one ridge, so that they share their program.
SIZES = [(3, 2, 2), (4, 2, 3), (2, 3, 1), (3, 2, 2), (4, 2, 3), (5, 1, 2), (2, 2, 5), (3, 3, 4), (1, 3, 2), (4, 2, 2)]


@pytest.mark.parametrize("index", range(len(SIZES)))
@pytest.mark.parametrize("method", METHODS)
def test_evaluating_the_step_gives_the_closed_form(method: str, index: int) -> None:
    problem = cs.problems.random_problem(40 + index, *SIZES[index])
    assert np.abs(problem.c).max() > 1e-2, "uncentred"
    assert np.abs(problem.g).max() > 1e-2, "off policy"
    ridge, lam = (0.0, 0.37, 1.9)[index % 3], (1.0, 2.3, 0.2)[index % 3]
    own: dict[str, Any] = {"lam": lam} if method == "gradient-dice" else {}
    found = cs.learning.dynamics(method, problem, ridge=ridge, **own)
    G, h = closed_form(problem, method, found.names, ridge=ridge, **own)
    assert_same(found, G, h)
    expected = np.sort_complex(np.linalg.eigvals(G))
    np.testing.assert_allclose(np.sort_complex(found.eigenvalues), expected, atol=1e-6 * (1 + np.abs(expected).max()))
    assert (np.diff(found.eigenvalues.real) <= 0).all()


def test_boyans_chain() -> None:
    """A singular one, with a second sample that is correlated with nothing."""
    problem = cs.problems.boyan_chain(pi0=0.3, mu0=0.7)
    for method in ("diff-gq1", "diff-gq2"):
        found = cs.learning.dynamics(method, problem, ridge=0.1)
        assert_same(found, *closed_form(problem, method, found.names, ridge=0.1))


def test_step_sizes_of_rate_and_dual_count_relative_to_the_step_size() -> None:
    problem = cs.problems.random_problem(50, 3, 2, 2)
    found = cs.learning.dynamics("diff-gq2", problem, ridge=0.2, step_size=0.1, rate_step_size=0.25)
    G, h = closed_form(problem, "diff-gq2", found.names, ridge=0.2, rate_step_ratio=2.5)
    assert_same(found, G, h)
    found = cs.learning.dynamics("diff-gq2", problem, ridge=0.2, dual_step_size=0.3)
    G, h = closed_form(problem, "diff-gq2", found.names, ridge=0.2)
    factor = np.array([0.3 if name.startswith("dual") else 1.0 for name in found.names])
    assert_same(found, factor[:, None] * G, factor * h)


@pytest.mark.parametrize("method", METHODS)
def test_plug_in_on_the_whole_sample_space_is_exact(method: str) -> None:
    problem = cs.problems.random_problem(51, 3, 2, 2)
    found = cs.learning.dynamics(method, transitions(problem, factor=17.0), ridge=0.4)
    assert_same(found, *closed_form(problem, method, found.names, ridge=0.4))


@pytest.mark.parametrize("method", ["diff-sgq", "diff-gq2"])
def test_plug_in_on_a_sample(method: str) -> None:
    """20,000 rows give exactly what their frequencies as weights give (for Diff-GQ2 so many rows go through the mean row,
    and the few weighted ones are enumerated as pairs), and come close to the problem: six standard errors, where the largest
    product that can occur stands for the standard deviation (error rate below 1e-6)."""
    problem = cs.problems.random_problem(52, 3, 2, 2)
    space = problem.sample_space
    rng = np.random.default_rng(0)
    rows = rng.choice(len(space.pair), size=20_000, p=space.probability / space.probability.sum())
    sample = cs.FeatureTransitions(
        problem.X[space.pair][rows], problem.r[space.pair][rows], problem.X[space.next_pair][rows]
    )
    weighted = cs.FeatureTransitions(
        problem.X[space.pair],
        problem.r[space.pair],
        problem.X[space.next_pair],
        weights=np.bincount(rows, minlength=len(space.pair)),
    )
    assert len(rows) ** 2 > dynamics.PAIRS >= len(space.pair) ** 2
    found = cs.learning.dynamics(method, sample, ridge=0.1)
    again = cs.learning.dynamics(method, weighted, ridge=0.1)
    assert_same(found, again.G, again.h, tolerance=1e-11)
    G, h = closed_form(problem, method, found.names, ridge=0.1)
    size = np.abs(np.column_stack([np.ones(len(space.pair)), problem.X[space.pair], problem.X[space.next_pair]])).max()
    size = max(size, np.abs(problem.r).max())
    error = 6 * 4 * size**2 / np.sqrt(len(rows))  # a feature times a difference of four
    assert max(np.abs(found.G - G).max(), np.abs(found.h - h).max()) < error
    assert np.abs(found.G - G).max() > 1e-6, "a sample is not the truth"
    relative = np.linalg.norm(found.G - G) / np.linalg.norm(G)
    assert relative < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_row_stands_for_all_second_samples(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cs.problems.random_problem(53 + seed, 3, 2, 2)
    monkeypatch.setattr(dynamics, "PAIRS", 0)
    found = cs.learning.dynamics("diff-gq2", problem, ridge=0.3, rate_step_size=0.6)
    assert_same(found, *closed_form(problem, "diff-gq2", found.names, ridge=0.3, rate_step_ratio=0.6))


@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2"])
def test_blocks_do_not_matter(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cs.problems.random_problem(56, 3, 2, 2)
    monkeypatch.setattr(dynamics, "BLOCK", 7)
    found = cs.learning.dynamics(method, transitions(problem), ridge=0.3)
    assert_same(found, *closed_form(problem, method, found.names, ridge=0.3))


def test_differentiating_the_step_would_be_wrong_for_diff_sgq() -> None:
    """`stop_gradient` erases how the goals depend on the variables: the Jacobian is `−C2` and `−1` on the diagonal and
    nothing else, which is stable on the counterexample, where the method diverges."""
    problem = cs.problems.two_state_counterexample()
    with jax.enable_x64(True):
        algorithm = saddle_point(REGISTRY["diff-sgq"](linear, 1))
        hyper = {"step_size": jnp.asarray(1.0), "ridge": jnp.asarray(0.0)}
        start = algorithm.init(jax.random.key(0), hyper)
        flat, unravel = ravel_pytree(start.primal)
        space = problem.sample_space

        def direction(kappa: Any) -> Any:
            total = jnp.zeros_like(kappa)
            for pair, next_pair, probability in zip(*space):
                batch = Batch(
                    jnp.asarray(problem.X[pair])[None, None],
                    jnp.asarray(problem.r[pair])[None, None],
                    jnp.asarray(problem.X[next_pair])[None, None],
                )
                after, _ = algorithm.step(start._replace(primal=unravel(kappa)), batch, hyper)
                total = total + probability * (ravel_pytree(after.primal)[0] - kappa)
            return total

        jacobian = np.asarray(jax.jit(jax.jacrev(direction))(flat))
    np.testing.assert_allclose(jacobian, np.diag([-1.0, -problem.C2[0, 0]]), atol=1e-12)
    found = cs.learning.dynamics("diff-sgq", problem)
    assert found.names == ("primal.rate", "primal.values.weights[0]")
    np.testing.assert_allclose(found.G, [[-1, 6], [-2, 6]], atol=1e-12)
    assert np.linalg.eigvals(jacobian).real.max() < 0 < found.eigenvalues.real.min()
    np.testing.assert_allclose(np.sort(found.eigenvalues.real), [2, 3], atol=1e-9)


# A user's own objective.


def regression(approximator: Any, num_inputs: int) -> Objective:
    """Tracks the mean reward in `rate` and regresses the reward on the features: `G = diag(−1, −C2 − η)`, `h = (dᵀr, b3)`."""
    f = approximator(num_inputs, bias=False)

    def init(key: Any) -> Any:
        return {"rate": jnp.zeros(()), "fit": f.init(key)}, {}

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Batch, hyper: Any) -> Any:
        fit = 0.5 * jnp.mean((batch.reward - f.apply(primal["fit"], batch.x)) ** 2)
        rate = 0.5 * jnp.mean((batch.reward - primal["rate"]) ** 2)
        return fit + rate + 0.5 * hyper["ridge"] * jnp.sum(primal["fit"]["weights"] ** 2)

    return Objective(init, lagrangian, lambda primal: primal["rate"], None, {"step_size": 0.1, "ridge": 0.0})


def curved(approximator: Any, num_inputs: int) -> Objective:
    base = regression(approximator, num_inputs)

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Batch, hyper: Any) -> Any:
        return base.lagrangian(primal, dual, target, batch, hyper) + 0.01 * primal["rate"] ** 4

    return base._replace(lagrangian=lagrangian)


def test_a_users_objective() -> None:
    problem = cs.problems.random_problem(57, 3, 2, 2)
    for method in (regression, regression(linear, 2)):
        found = cs.learning.dynamics(method, problem, ridge=0.3)
        assert found.names == ("primal.fit.weights[0]", "primal.fit.weights[1]", "primal.rate")
        G = np.zeros((3, 3))
        G[:2, :2] = -problem.C2 - 0.3 * np.eye(2)
        G[2, 2] = -1
        assert_same(found, G, np.append(problem.b3, problem.mean_reward))


def test_an_update_that_is_not_affine_is_refused() -> None:
    problem = cs.problems.random_problem(57, 3, 2, 2)
    with pytest.raises(cs.InputError, match="not affine in its variables"):
        cs.learning.dynamics(curved, problem)


def squared_second(approximator: Any, num_inputs: int) -> Objective:
    """Affine in its variables, quadratic in the second sample."""
    base = regression(approximator, num_inputs)

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Batch, hyper: Any) -> Any:
        return base.lagrangian(primal, dual, target, batch, hyper) + primal["rate"] * jnp.mean(batch.reward[1] ** 2)

    return base._replace(lagrangian=lagrangian, minibatches=2)


def test_a_second_sample_that_is_not_linear_is_enumerated_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cs.problems.random_problem(58, 3, 2, 2)
    found = cs.learning.dynamics(squared_second, problem)
    assert found.h[-1] == pytest.approx(problem.mean_reward - problem.d @ problem.r**2, rel=1e-12)
    monkeypatch.setattr(dynamics, "PAIRS", 0)
    with pytest.raises(cs.InputError, match="not affine in its second sample"):
        cs.learning.dynamics(squared_second, problem)


def test_three_minibatches_are_refused() -> None:
    problem = cs.problems.random_problem(58, 3, 2, 2)
    method = regression(linear, 2)._replace(minibatches=3)
    with pytest.raises(cs.InputError, match="3 minibatches"):
        cs.learning.dynamics(method, problem)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "diff-gq9"}, "method must be one of"),
        ({"ridge": -1.0}, "ridge must be a number ≥ 0"),
        ({"ridge": float("nan")}, "ridge must be a number ≥ 0"),
        ({"lam": 1.0}, "lam"),
        ({"approximator": "mlp9"}, "approximator must be one of"),
        ({"data": np.zeros(3)}, "LinearProblem or FeatureTransitions"),
    ],
)
def test_wrong_arguments_get_one_sentence(arguments: dict[str, Any], message: str) -> None:
    problem = cs.problems.random_problem(58, 3, 2, 2)
    given: dict[str, Any] = {"method": "diff-gq1", "data": problem, **arguments}
    with pytest.raises(cs.InputError, match=message) as caught:
        cs.learning.dynamics(given.pop("method"), given.pop("data"), **given)
    assert "\n" not in str(caught.value)


def test_precision_of_the_caller_is_left_alone() -> None:
    before = jax.config.read("jax_enable_x64")
    problem = cs.problems.random_problem(59, 3, 2, 2)
    found = cs.learning.dynamics("diff-gq1", problem)
    assert jax.config.read("jax_enable_x64") == before
    assert jnp.zeros(()).dtype == (jnp.float64 if before else jnp.float32)
    assert found.G.dtype == found.h.dtype == np.float64
