"""The closed form against exact answers, and its influence against derivatives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import cesaro as cs
from cesaro.checks import Array


def walk(mdp: cs.TabularMDP, behavior: Array, steps: int, seed: int) -> tuple[Any, Any, Array]:
    """States, actions and rewards of one trajectory."""
    rng = np.random.default_rng(seed)
    stored = mdp.probabilities
    chain = np.stack([m.toarray() for m in stored], axis=1) if isinstance(stored, tuple) else stored
    states, actions = np.empty(steps, dtype=np.int64), np.empty(steps, dtype=np.int64)
    state = 0
    for t in range(steps):
        action = rng.choice(mdp.num_actions, p=behavior[state])
        states[t], actions[t] = state, action
        state = rng.choice(mdp.num_states, p=chain[state, action])
    return states, actions, mdp.rewards[states, actions]


@pytest.fixture(scope="module")
def garnet() -> cs.LinearProblem:
    return cs.problems.random_problem(3)


@pytest.fixture(scope="module")
def log(garnet: cs.LinearProblem) -> cs.Transitions:
    behavior = np.full(garnet.policy.shape, 1 / garnet.policy.shape[1])
    return cs.Transitions(*walk(garnet.mdp, behavior, 2000, seed=0))


def exact_log(problem: cs.LinearProblem) -> cs.Transitions:
    """Every transition once, with its exact weight."""
    stored = problem.mdp.probabilities
    chain = np.stack([m.toarray() for m in stored], axis=1) if isinstance(stored, tuple) else stored
    s, a, after = np.nonzero(problem.sampling[:, :, None] * chain)
    weights = problem.sampling[s, a] * chain[s, a, after]
    return cs.Transitions(s, a, problem.mdp.rewards[s, a], after, weights=weights)


@pytest.mark.parametrize("seed", range(4))
def test_one_hot_on_exact_weights_is_the_exact_answer(seed: int) -> None:
    problem = cs.problems.random_problem(seed)
    est = cs.DiffLSTD(quiet=True, standard_errors="independent").fit(exact_log(problem), problem.policy)
    assert est.reward_rate_ == pytest.approx(problem.exact.reward_rate, abs=1e-12)
    s, a = (index.ravel() for index in np.indices(problem.policy.shape))
    np.testing.assert_allclose(est.predict(s, a), problem.exact.differential_values.ravel(), atol=1e-10)
    ratio = problem.exact.density_ratio(problem.sampling)
    log = exact_log(problem)
    s, a = log.observations.plain(), log.actions.plain()
    np.testing.assert_allclose(est.density_ratio_, ratio[s, a], atol=1e-10)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_the_features_of_a_problem_give_its_limit(ridge: float) -> None:
    """Through the whole path: log, policy, a feature function, the expectation over actions."""
    problem = cs.problems.random_problem(1)

    def features(observations: Any, actions: Any) -> Array:
        return problem.features[observations, actions]

    est = cs.DiffLSTD(features, ridge=ridge, quiet=True, standard_errors="independent").fit(
        exact_log(problem), problem.policy
    )
    limit = problem.limit("diff-gq1", ridge=ridge)
    assert est.reward_rate_ == pytest.approx(limit.reward_rate, abs=1e-12)
    assert limit.weights is not None
    np.testing.assert_allclose(est.weights_, limit.weights, atol=1e-11)


def derivative(build: Any, weights: Array, row: int) -> float:
    """The derivative of the rate with respect to the share of one row, by central differences."""
    step = 1e-4
    rates = []
    for sign in (1, -1):
        moved = weights.copy()
        moved[row] += sign * step
        rates.append(build(moved).reward_rate_)
    return float((rates[0] - rates[1]) / (2 * step))


CASES: dict[str, dict[str, Any]] = {
    "one-hot": {"features": "one-hot"},
    "one-hot with ridge": {"features": "one-hot", "ridge": 0.03},
    "misfit": {"features": lambda o: np.stack([np.sin(o), np.cos(o)], axis=1), "ridge": 0.0},
    "misfit with ridge": {"features": lambda o: np.stack([np.sin(o), np.cos(o)], axis=1), "ridge": 0.1},
    "larger dual": {
        "features": lambda o: np.stack([np.sin(o), o / 5], axis=1),
        "dual_features": lambda o: np.stack([np.sin(o), np.cos(o), o / 5, o**2 / 25], axis=1),
        "ridge": 0.0,
    },
    "larger dual with ridge": {
        "features": lambda o: np.stack([np.sin(o), o / 5], axis=1),
        "dual_features": lambda o: np.stack([np.sin(o), np.cos(o), o / 5, o**2 / 25], axis=1),
        "ridge": 0.02,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_influence_is_the_derivative_of_the_rate(case: str, garnet: cs.LinearProblem, log: cs.Transitions) -> None:
    s, a, r = log.observations.plain(), log.actions.plain(), log.rewards
    after = log.next_observations.plain()
    n = 400
    weights = np.random.default_rng(5).uniform(0.5, 1.5, size=n)

    def build(weights: Array) -> cs.DiffLSTD:
        data = cs.Transitions(s[:n], a[:n], r[:n], after[:n], weights=weights)
        return cs.DiffLSTD(**CASES[case], quiet=True, standard_errors="independent").fit(data, garnet.policy)

    fitted = build(weights)
    assert fitted.influence_.mean() == pytest.approx(0, abs=1e-12)
    for row in (0, 17, 211, 399):
        # The rate of the reweighted log moves by IF/(n · w̄) per unit of weight; `influence_` carries the factor w/w̄.
        expected = fitted.influence_[row] / (n * weights.mean()) / (weights[row] / weights.mean())
        assert derivative(build, weights, row) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_draws_approach_the_expectation(garnet: cs.LinearProblem, log: cs.Transitions) -> None:
    """A sampler has the same limit as its probabilities; 40 draws per state leave less than 8 of their standard deviations."""
    table = garnet.policy

    def sampler(observations: Any, rng: np.random.Generator) -> Any:
        return (rng.random(len(observations))[:, None] > table[observations].cumsum(axis=1)).sum(axis=1)

    exact = cs.DiffLSTD("linear", ridge=0.0, quiet=True).fit(log, table).reward_rate_
    once, again = (cs.DiffLSTD("linear", ridge=0.0, quiet=True).fit(log, sampler).reward_rate_ for _ in range(2))
    other = cs.DiffLSTD("linear", ridge=0.0, quiet=True, random_state=1).fit(log, sampler).reward_rate_
    many = cs.DiffLSTD("linear", ridge=0.0, draws=40, quiet=True).fit(log, sampler).reward_rate_
    assert once == again != other
    assert 0 < abs(many - exact) < 8 / np.sqrt(40) * max(abs(once - exact), abs(other - exact))


@pytest.mark.parametrize(
    "features",
    ["linear", "fourier:30", "polynomial:2", RBFSampler(n_components=20), make_pipeline(PolynomialFeatures(2))],
)
def test_feature_maps_are_named_and_repeatable(features: Any, log: cs.Transitions, garnet: cs.LinearProblem) -> None:
    one, two = (cs.DiffLSTD(features, quiet=True).fit(log, garnet.policy) for _ in range(2))
    assert one.reward_rate_ == two.reward_rate_
    assert one.features_
    assert abs(one.reward_rate_ - garnet.exact.reward_rate) < 6 * one.standard_error_ + 0.05
    values = one.predict(log.observations.plain(), log.actions.plain())
    assert float(one.density_ratio_ @ values) / len(log) == pytest.approx(0, abs=1e-6)


def test_standard_errors_follow_the_log(garnet: cs.LinearProblem) -> None:
    behavior = np.full(garnet.policy.shape, 1 / garnet.policy.shape[1])
    s, a, r = walk(garnet.mdp, behavior, 3000, seed=1)

    def rule(**columns: Any) -> str:
        with_next = columns.pop("after", None)
        data = cs.Transitions(s, a, r, with_next, **columns)
        return cs.DiffLSTD(quiet=True).fit(data, garnet.policy).sampling_.rule

    assert rule() == "long-run"
    assert rule(trajectory=np.arange(3000) // 50) == "clustered"
    assert rule(trajectory=np.arange(3000) // 500) == "long-run"
    assert rule(after=np.roll(s, -1)) == "long-run"
    order = np.random.default_rng(0).permutation(2999)
    shuffled = cs.Transitions(s[order], a[order], r[order], s[order + 1])
    with pytest.warns(cs.EvaluationWarning, match="rows as independent"):
        assert cs.DiffLSTD(quiet=True).fit(shuffled, garnet.policy).sampling_.rule == "independent"
    with pytest.raises(cs.InputError, match="needs a trajectory for every row"):
        cs.DiffLSTD(quiet=True, standard_errors="clustered").fit(shuffled, garnet.policy)


def test_it_is_a_scikit_learn_estimator() -> None:
    est = cs.DiffLSTD(ridge=0.1)
    assert est.get_params()["ridge"] == 0.1
    assert clone(est.set_params(features="linear")).features == "linear"
    for use in (
        lambda: est.reward_rate_,
        lambda: est.interval(),
        lambda: est.predict([0], [0]),
        lambda: est.diagnostics_,
    ):
        with pytest.raises(NotFittedError, match="call fit"):
            use()


@pytest.mark.parametrize("features", ["one-hot", "fourier:20", "linear", "polynomial:2"])
def test_a_file_keeps_the_answer_and_the_values(
    features: str, log: cs.Transitions, garnet: cs.LinearProblem, tmp_path: Path
) -> None:
    est = cs.DiffLSTD(features, quiet=True).fit(log, garnet.policy)
    est.save(tmp_path / "fit.npz")
    back = cs.DiffLSTD.load(tmp_path / "fit.npz")
    assert back.get_params() == est.get_params()
    assert (back.reward_rate_, back.interval(), back.summary_()) == (est.reward_rate_, est.interval(), est.summary_())
    assert back.diagnostics_ == est.diagnostics_
    s, a = log.observations.plain(), log.actions.plain()
    np.testing.assert_array_equal(back.predict(s, a), est.predict(s, a))


def test_a_second_fit_forgets_the_first(log: cs.Transitions, garnet: cs.LinearProblem) -> None:
    est = cs.DiffLSTD(quiet=True).fit(log, garnet.policy)
    before = est.diagnostics_
    assert est.fit(log, "uniform").diagnostics_ is not before
    with pytest.warns(cs.EvaluationWarning, match="mean logged reward"):
        est.fit(log, "logged")
    assert est.reward_rate_ == pytest.approx(log.rewards.mean())
    with pytest.raises(cs.InputError, match="logged"):
        est.predict([0], [0])
    with pytest.raises(cs.InputError, match="logged"):
        _ = est.density_ratio_
    with pytest.raises(cs.InputError):
        est.fit(log, "constant:17")
    est.set_params(features="fourrier")
    with pytest.raises(cs.InputError):
        est.fit(log, "uniform")


def test_a_loaded_estimator_can_be_saved_again(log: cs.Transitions, garnet: cs.LinearProblem, tmp_path: Path) -> None:
    text = np.array([f"state {s}\0" for s in log.observations.plain()], dtype=object)
    data = cs.Transitions(text, log.actions.plain(), log.rewards)
    est = cs.DiffLSTD(quiet=True).fit(data, "uniform")
    est.save(tmp_path / "one.npz")
    back = cs.DiffLSTD.load(tmp_path / "one.npz")
    back.save(tmp_path / "two.npz")
    again = cs.DiffLSTD.load(tmp_path / "two.npz")
    np.testing.assert_array_equal(again.predict(text[:9], [0] * 9), est.predict(text[:9], [0] * 9))
    with pytest.raises(cs.InputError, match="no density ratio here"):
        _ = back.density_ratio_


def test_predict_names_what_is_wrong(log: cs.Transitions) -> None:
    columns = {"x": np.random.default_rng(0).normal(size=len(log)), "s": log.observations.plain().astype(str)}
    est = cs.DiffLSTD("linear", quiet=True).fit(cs.Transitions(columns, log.actions.plain(), log.rewards), "uniform")
    for observations, message in (
        ({"x": [0.0], "s": ["0", "1"]}, "as many rows"),
        ({"x": [0.0]}, "dict of the columns"),
        ({"x": [0.0], "s": [["0"]]}, "labels that are in the log"),
        ({"x": [0.0], "s": ["nowhere"]}, "nowhere"),
    ):
        with pytest.raises(cs.InputError, match=message):
            est.predict(observations, [0])


def test_constant_rewards_have_no_significant_difference(log: cs.Transitions) -> None:
    for reward in (0.1, 1 / 3, 7.7):
        flat = cs.Transitions(log.observations.plain(), log.actions.plain(), np.full(len(log), reward))
        for features in ("auto", "linear"):
            difference = cs.evaluate(flat, "uniform", features=features, quiet=True).difference
            assert (difference.value, difference.standard_error, difference.p_value()) == (0.0, 0.0, 0.5)


def test_files_hold_no_code(log: cs.Transitions, garnet: cs.LinearProblem, tmp_path: Path) -> None:
    own = cs.DiffLSTD(lambda o: np.stack([o, o**2], axis=1), quiet=True).fit(log, garnet.policy)
    with pytest.raises(cs.InputError, match="cannot be saved"):
        own.save(tmp_path / "own.npz")
    assert not list(tmp_path.iterdir())
    (tmp_path / "junk.npz").write_bytes(b"PK junk")
    with pytest.raises(cs.InputError, match=r"junk\.npz"):
        cs.DiffLSTD.load(tmp_path / "junk.npz")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": -1}, "ridge must be a number ≥ 0"),
        ({"ridge": "much"}, "ridge must be a number"),
        ({"features": "fourrier"}, "features must be one of"),
        ({"features": "fourier:many"}, "<whole number>"),
        ({"features": "fourier:5000"}, "at most 4,096|≤ 4,096"),
        ({"features": 3}, "a name, a transformer or a function"),
        ({"features": lambda a, b, c: a}, "must take"),
        ({"features": lambda o: np.full((len(o), 2), np.nan)}, "must be finite"),
        ({"features": lambda o: o[:1, None]}, "must have shape"),
        ({"features": lambda o: 1 / 0}, "ZeroDivisionError"),
        ({"features": "one-hot", "dual_features": "linear"}, "dual_features must be 'same'"),
        ({"standard_errors": "robust"}, "standard_errors must be one of"),
        ({"draws": 0}, "draws must be an integer"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_wrong_settings_get_one_sentence(
    settings: dict[str, Any], message: str, log: cs.Transitions, garnet: cs.LinearProblem
) -> None:
    with pytest.raises(cs.InputError, match=message):
        cs.DiffLSTD(**settings, quiet=True).fit(log, garnet.policy)


def test_ready_features_and_logs_are_not_confused(log: cs.Transitions) -> None:
    data = cs.FeatureTransitions([[1.0], [2.0]], [0.5, 1.5], [[2.0], [1.0]])
    with pytest.raises(cs.InputError, match="without a policy"):
        cs.DiffLSTD().fit(data, "uniform")
    with pytest.raises(cs.InputError, match="needs a target policy"):
        cs.DiffLSTD().fit(log)
    with pytest.raises(cs.InputError, match="must be a Log"):
        cs.DiffLSTD().fit([1, 2, 3], "uniform")
