"""The plug-in analysis: that of a known problem fed with every transition, affordable, and open about what it left out."""

import time

import numpy as np
import pytest

import cesaro as cs
from cesaro.algorithms.dynamics import WeightedRows, mean_dynamics
from cesaro.closed_forms.plug_in import plug_in, rough_step
from cesaro.learning.arguments import as_objective
from cesaro.linear import METHODS, EmpiricalProblem
from cesaro.linear.methods import FORMS
from cesaro.linear.methods.base import settings
from cesaro.linear.stability import largest_sampled_step

pytestmark = pytest.mark.slow  # studies and sweeps that take seconds to compile


def log_of(problem: cs.LinearProblem) -> EmpiricalProblem:
    """Every transition of a known problem with its probability."""
    pair, next_pair, probability = problem.sample_space
    return EmpiricalProblem(problem.X[pair], problem.r[pair], problem.X[next_pair], probability)


def fourier_log(rows: int, size: int, seed: int = 0) -> cs.FeatureTransitions:
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(rows, 3))
    after = 0.8 * state + 0.6 * rng.normal(size=(rows, 3))
    frequencies, phases = rng.normal(size=(3, size)), rng.uniform(0, 2 * np.pi, size)
    x, x_next = (np.sqrt(2 / size) * np.cos(s @ frequencies + phases) for s in (state, after))
    return cs.FeatureTransitions(x, state[:, 0] + rng.normal(size=rows), x_next)


@pytest.mark.parametrize("method", METHODS)
def test_equals_the_known_problem(method: str) -> None:
    problem = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    known = problem.stability(method, ridge=0.01)
    found = plug_in(log_of(problem), method, ridge=0.01)
    assert found.converges == known.converges
    assert found.reason == known.reason
    np.testing.assert_allclose(found.eigenvalues, known.eigenvalues, atol=1e-10)
    assert found.max_step_expected == pytest.approx(known.max_step_expected, rel=1e-9)
    assert found.max_step_sampled == pytest.approx(known.max_step_sampled, rel=0.05)
    assert found.time_constant(0.1) == pytest.approx(known.time_constant(0.1), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_limits_of_rows_are_those_of_the_known_problem(method: str, ridge: float) -> None:
    problem = cs.problems.boyan_chain(pi0=0.3, mu0=0.5)
    known, found = problem.limit(method, ridge=ridge), log_of(problem).limit(method, ridge=ridge)
    assert found.reward_rate == pytest.approx(known.reward_rate, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_mean_update_is_what_the_step_does_on_rows(method: str) -> None:
    """Weighted rows: the closed form against the step itself, evaluated."""
    rng = np.random.default_rng(3)
    x, x_next, rewards, weights = rng.normal(size=(7, 2)), rng.normal(size=(7, 2)), rng.normal(size=7), rng.random(7)
    problem = EmpiricalProblem(x, rewards, x_next, weights)
    objective, _ = as_objective(method, "linear", 2)
    hyper = {"step_size": 1.0, "ridge": 0.2} | ({"lam": 0.7} if method == "gradient-dice" else {})
    hyper |= {"rate_step_size": 1.0} if method == "diff-gq2" else {}
    evaluated = mean_dynamics(objective, WeightedRows(x, rewards, x_next, problem.d), hyper)
    found = problem.stability(method, ridge=0.2, lam=0.7)
    np.testing.assert_allclose(sorted(np.abs(evaluated.eigenvalues)), sorted(np.abs(found.eigenvalues)), atol=1e-9)


def test_two_states_make_diff_sgq_diverge() -> None:
    found = plug_in(log_of(cs.problems.two_state_counterexample()), "diff-sgq")
    assert found.converges is False
    assert found.max_step_sampled is None
    assert found.time_constant(0.1) == np.inf
    assert "eigenvalue 3" in found.reason


def test_a_batch_makes_larger_steps_stable() -> None:
    """One update with the mean of `b` samples: mean of products over pairs of different samples and equal ones."""
    problem = EmpiricalProblem(
        np.array([[1.0], [-2.0]]), np.array([0.0, 1.0]), np.array([[0.5], [1.0]]), np.array([0.3, 0.7])
    )
    x, z, d = problem.X[:, 0], problem.difference[:, 0], problem.d
    singles = [np.outer([1.0, x[i]], [-1.0, z[i]]) for i in range(2)]
    both = np.zeros((4, 4))
    for i in range(2):
        for j in range(2):
            mean = (singles[i] + singles[j]) / 2
            both += d[i] * d[j] * np.kron(mean, mean)
    updates = FORMS["diff-sgq"].samples(problem, settings(0.0, 1.0, 1.0, 2))
    matrix = np.array([[2.0, 0.3], [0.3, 1.0]])
    np.testing.assert_allclose(updates.second_moment(matrix).ravel(), both @ matrix.ravel(), atol=1e-12)
    one, two = (
        largest_sampled_step(FORMS["diff-gq1"].samples(problem, settings(0.1, 1.0, 1.0, size))) for size in (1, 2)
    )
    assert one is not None
    assert two is not None
    assert two > one


def test_few_rows_give_the_step_of_many() -> None:
    data = fourier_log(20_000, 12)
    whole = plug_in(data, "diff-gq1", ridge=1e-3)
    exact = EmpiricalProblem(data.x, data.rewards, data.x_next).stability("diff-gq1", ridge=1e-3).max_step_sampled
    assert whole.max_step_sampled == pytest.approx(exact, rel=0.05)
    assert "5,000" in whole.note
    assert "10,000 of 20,000 rows" in plug_in(data, "diff-gq1", max_rows=10_000).note


def test_64_features_take_seconds_and_more_than_256_nothing() -> None:
    start = time.process_time()
    assert plug_in(fourier_log(100_000, 64), "diff-gq1", ridge=1e-3).max_step_sampled == pytest.approx(0.42, abs=0.05)
    assert time.process_time() - start < 8
    found = plug_in(fourier_log(2_000, 300), "diff-gq1")
    assert found.converges is None
    assert "not computed above 256 features" in found.reason
    assert np.isnan(found.time_constant(0.1))
    assert found.max_step_sampled == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("method", METHODS)
def test_the_rough_step_is_stable(method: str) -> None:
    """Below the exact limit, and not by orders of magnitude, for random features and for unit vectors."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 8, size=(2, 3_000))
    one_hot = cs.FeatureTransitions(np.eye(8)[pairs[0]], rng.normal(size=3_000), np.eye(8)[pairs[1]])
    for data in (fourier_log(3_000, 8), one_hot):
        exact = plug_in(data, method, ridge=0.01).max_step_sampled
        rough = rough_step(EmpiricalProblem(data.x, data.rewards, data.x_next))
        assert exact is not None
        assert exact / 6 < rough < exact


def test_zero_weights_survive_thinning() -> None:
    weights = np.zeros(50)
    weights[7] = 1.0
    problem = EmpiricalProblem(np.ones((50, 1)), np.ones(50), np.ones((50, 1)), weights)
    assert problem.thinned(3).d.sum() == 1.0
    assert repr(problem) == "EmpiricalProblem(50 rows, 1 features)"


@pytest.mark.parametrize("argument", [{"method": "td"}, {"ridge": -1.0}, {"batch_size": 0}, {"max_rows": 0}])
def test_bad_arguments(argument: dict[str, object]) -> None:
    with pytest.raises(cs.InputError, match=next(iter(argument))):
        plug_in(fourier_log(10, 2), **({"method": "diff-gq1"} | argument))  # type: ignore[arg-type]
