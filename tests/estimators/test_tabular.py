"""One-hot features on sparse chains: what is identified, what is refused, and that size does not matter."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.estimators import tabular
from cesaro.estimators.moments import Moments
from cesaro.estimators.tabular import NotIdentified


def test_pairs_without_data_are_named() -> None:
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, 600)
    action = np.where(state == 2, 0, rng.integers(0, 2, 600))  # (2, 1) is never logged
    log = cs.Transitions(state, action, rng.normal(size=600))
    with pytest.raises(NotIdentified, match=r"\(s', a'\) = \(2, 1\);.*ridge"):
        cs.DiffLSTD(quiet=True).fit(log, "uniform")
    cautious = {0: {0: 0.5, 1: 0.5}, 1: {0: 0.5, 1: 0.5}, 2: {0: 1.0, 1: 0.0}}
    assert np.isfinite(cs.DiffLSTD(quiet=True).fit(log, cautious).reward_rate_)
    with pytest.warns(cs.EvaluationWarning, match="comes from the ridge"):
        cs.DiffLSTD(ridge=1e-6, quiet=True).fit(log, "uniform")
    with pytest.raises(NotIdentified, match=r"\(2, 1\)"):
        cs.DiffLSTD("linear", ridge=0.0, quiet=True).fit(log, "constant:1")


def test_parts_that_never_meet_are_refused() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 2, 300), rng.integers(2, 4, 300)
    state = np.concatenate([left, right])
    log = cs.Transitions(state, np.zeros(600, dtype=int), (state >= 2).astype(float), trajectory=np.repeat([0, 1], 300))
    with pytest.raises(NotIdentified, match="2 separate parts"):
        cs.DiffLSTD(quiet=True).fit(log, "constant:0")


def test_the_refusal_tells_how_small_a_part_is_and_what_to_do_about_it() -> None:
    """A cell of 3 rows that loop on themselves; of 20 rows elsewhere, half lead there: 13 of 223 rows end in it."""
    rng = np.random.default_rng(1)
    state = np.repeat([0, 9, 5], [200, 3, 20])
    after = np.concatenate([np.zeros(200), np.full(3, 9), np.tile([0, 9], 10)]).astype(int)
    log = cs.Transitions(state, np.zeros(223, dtype=int), rng.normal(size=223), after)
    with pytest.raises(NotIdentified) as refused:
        cs.DiffLSTD(quiet=True).fit(log, "constant:0")
    said = str(refused.value)
    assert (
        "2 separate parts that never meet, 200 rows around (0, 0) (94 % of the target's time), 3 rows around (9, 0)"
        in said
    )
    assert (
        "(5.8 % of the target's time); so few rows may lead only to themselves by chance: drop the rows of the small"
        in said
    )
    assert "merge it with similar states, or collect more data there" in said


@pytest.mark.parametrize("seed", range(20))
def test_parts_with_odd_shares_are_refused_too(seed: int) -> None:
    """Thirds and sevenths do not sum to one exactly: rounding must not pass for a rare way out."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(100, 400))
    part = np.repeat([0, 1], size)
    state, after = (part * 3 + rng.integers(0, 3, 2 * size) for _ in range(2))
    log = cs.Transitions(state, np.zeros(2 * size, dtype=int), state.astype(float), after)
    with pytest.raises(NotIdentified, match="2 separate parts"):
        cs.DiffLSTD(quiet=True).fit(log, "constant:0")


def test_a_pair_seen_once_that_led_to_itself_is_an_accident() -> None:
    """Row 500 is a fifth state that was entered once and stayed once: by itself a closed class of one row."""
    rng = np.random.default_rng(2)
    state = rng.integers(0, 4, 1000)
    after = rng.integers(0, 4, 1000)
    state[500] = after[500] = 4
    reward = np.where(state == 4, 1000.0, state.astype(float))
    log = cs.Transitions(state, np.zeros(1000, dtype=int), reward, after)
    est = cs.DiffLSTD(quiet=True, standard_errors="independent").fit(log, "constant:0")
    rest = np.delete(np.arange(1000), 500)
    clean = cs.Transitions(state[rest], np.zeros(999, dtype=int), reward[rest], after[rest])
    expected = cs.DiffLSTD(quiet=True, standard_errors="independent").fit(clean, "constant:0").reward_rate_
    assert est.reward_rate_ == pytest.approx(expected, abs=1e-9)
    assert est.influence_[500] == pytest.approx(0, abs=1e-12)
    assert np.isnan(est.predict([4], [0])).all()


def test_a_log_that_mostly_leads_astray_is_refused() -> None:
    """States 0 to 3 leave for a state without data; the only closed class is one accidental self-loop, reached by 1 in 100."""
    rng = np.random.default_rng(3)
    state = rng.integers(0, 4, 2000)
    after = np.where(rng.random(2000) < 0.1, 5, rng.integers(0, 4, 2000))
    after[rng.random(2000) < 0.001] = 4
    state[0] = after[0] = 4
    log = cs.Transitions(state, np.zeros(2000, dtype=int), state.astype(float), after)
    with pytest.raises(NotIdentified, match=r"\(5, 0\)"):
        cs.DiffLSTD(quiet=True).fit(log, "constant:0")


@pytest.mark.parametrize("leak", [1e-4, 1e-10])
def test_a_rare_pair_without_data_does_not_refuse_the_log(leak: float) -> None:
    """The policy gives a never-logged pair a tiny probability: the answer is the one without it, up to that size."""
    rng = np.random.default_rng(7)
    state, action = rng.integers(0, 4, 4000), rng.integers(0, 2, 4000)
    action[state == 3] = 0
    log = cs.Transitions(state, action, state + action + rng.normal(size=4000))
    near = [[0.5, 0.5]] * 3 + [[1 - leak, leak]]
    never = [[0.5, 0.5]] * 3 + [[1.0, 0.0]]
    one, two = (cs.DiffLSTD(quiet=True).fit(log, policy) for policy in (near, never))
    assert one.reward_rate_ == pytest.approx(two.reward_rate_, abs=10 * leak)
    assert one.standard_error_ == pytest.approx(two.standard_error_, rel=100 * leak + 1e-6)
    assert 0 < one.solution_.unidentified < 1e-3
    assert float(one.density_ratio_.mean()) == pytest.approx(1)
    # the same least-norm limit as the sparse normal equations with a vanishing ridge
    ridge = cs.DiffLSTD(ridge=1e-11, quiet=True).fit(log, near)
    assert one.reward_rate_ == pytest.approx(ridge.reward_rate_, abs=1e-4)


def test_one_row_that_ends_in_a_new_state() -> None:
    """A level seen only at `s'` has no features; one row of 6,000 does not matter."""
    rng = np.random.default_rng(5)
    state, action = rng.integers(0, 4, 6000), rng.integers(0, 2, 6000)
    after = np.r_[state[1:], 99]
    est = cs.DiffLSTD(quiet=True).fit(cs.Transitions(state, action, state + action * 1.0, after), "uniform")
    mended = np.r_[state[1:], 0]
    other = cs.DiffLSTD(quiet=True).fit(cs.Transitions(state, action, state + action * 1.0, mended), "uniform")
    assert est.reward_rate_ == pytest.approx(other.reward_rate_, abs=0.1 * other.standard_error_)


def test_combinations_that_never_occur_have_no_value() -> None:
    log = cs.Transitions(
        {"a": ["x", "z", "x", "z"] * 50, "b": ["u", "u", "v", "u"] * 50}, [0, 1, 1, 0] * 50, np.arange(200.0)
    )
    with pytest.warns(cs.EvaluationWarning):
        est = cs.DiffLSTD(quiet=True, ridge=1e-6).fit(log, "uniform")
    with pytest.raises(cs.InputError, match=r"\(z, v\) never occurs"):
        est.predict({"a": ["z"], "b": ["v"]}, [0])


def test_several_labelled_columns_are_one_state() -> None:
    """Levels of two columns combined, against the same states numbered by hand."""
    rng = np.random.default_rng(4)
    color, size = rng.choice(["red", "blue"], 3000), rng.integers(0, 3, 3000)
    action = rng.choice(["a", "b"], 3000)
    reward = rng.normal(size=3000) + (color == "red") * (action == "a")
    named = cs.Transitions({"color": color, "size": size}, action, reward, kinds={"size": "category"})
    lone = cs.Transitions((color == "red") * 3 + size, action, reward)
    one, two = (cs.DiffLSTD(quiet=True).fit(log, "uniform") for log in (named, lone))
    assert one.reward_rate_ == pytest.approx(two.reward_rate_, abs=1e-12)
    assert "6 states × 2 actions" in one.features_


@pytest.mark.slow
def test_a_hundred_thousand_pairs() -> None:
    """A queue of 50,000 places with two service speeds, 400,000 rows: the empirical chain's exact rate, standard error and all.

    Rows are drawn evenly over all pairs, so that the log covers them; the truth is the rate of the empirical chain by itself: its
    detailed balance gives the stationary law without any matrix.
    """
    places, rows = 50_000, 400_000
    rng = np.random.default_rng(5)
    state, action = np.repeat(np.arange(places), 8), np.tile([0, 0, 0, 0, 1, 1, 1, 1], places)
    up = np.tile([True, False, False, False, True, True, False, False], places)  # speed 0 drains faster
    after = np.clip(np.where(up, state + 1, state - 1), 0, places - 1)
    order = rng.permutation(rows)
    reward = -np.minimum(state, 100).astype(float) + rng.normal(size=rows)
    log = cs.Transitions(state[order], action[order], reward[order], after[order])
    est = cs.DiffLSTD(quiet=True, standard_errors="independent").fit(log, "constant:0")
    law = (1 / 3.0) ** np.arange(200)  # up 1/4, down 3/4
    law /= law.sum()
    mean = reward.reshape(places, 2, 4).mean(axis=2)[:200, 0]
    assert est.reward_rate_ == pytest.approx(float(law @ mean), abs=1e-9)
    assert est.standard_error_ > 0
    assert "50,000 states × 2 actions" in est.features_


def dense_solution(moments: Moments, ridge: float) -> NDArray[np.float64]:
    """`[r̂, w]` that minimizes the squared residuals of the pairs' equations, by their shares, plus the ridge."""
    shares, steps = np.asarray(moments.mean("v")), moments.mean("vz").toarray()
    logged = shares > 0
    root = np.sqrt(shares[logged])
    unknown = np.concatenate([-shares[:, None], steps], axis=1)[logged] / root[:, None]
    penalty = ridge * np.diag(np.arange(1 + len(shares)) > 0)
    right = unknown.T @ (moments.mean("vR")[logged] / root)
    return np.asarray(np.linalg.solve(unknown.T @ unknown + penalty, -right))


@pytest.mark.parametrize("ridge", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("rows", [3_000, 20_000])
def test_conjugate_gradients_solve_the_ridge_equations(rows: int, ridge: float) -> None:
    """A log that mixes fast, with and without pairs that nobody logged, against a dense solve of the same equations."""
    states = 600
    rng = np.random.default_rng(11)
    log = cs.Transitions(rng.integers(0, states, rows), rng.integers(0, 2, rows), rng.normal(size=rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.EvaluationWarning)
        est = cs.DiffLSTD(quiet=True, ridge=ridge).fit(log, "uniform")
    expected = dense_solution(est.moments_, ridge)
    assert len(est.weights_) > tabular.SMALL
    assert est.solution_.reward_rate == pytest.approx(expected[0], abs=1e-9)
    np.testing.assert_allclose(est.weights_, expected[1:], atol=1e-7 * np.abs(expected).max())


@pytest.mark.slow
def test_a_ridge_on_many_pairs_is_quick() -> None:
    """Elimination of 16,000 random pairs would take minutes and gigabytes; and it is not tried."""
    rng = np.random.default_rng(12)
    log = cs.Transitions(rng.integers(0, 8_000, 200_000), rng.integers(0, 2, 200_000), rng.normal(size=200_000))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tabular, "_factored", None)
        est = cs.DiffLSTD(quiet=True, ridge=1e-9).fit(log, "uniform")
    without = cs.DiffLSTD(quiet=True).fit(log, "uniform")
    assert est.reward_rate_ == pytest.approx(without.reward_rate_, abs=1e-3 * without.standard_error_)
    assert est.standard_error_ == pytest.approx(without.standard_error_, rel=1e-3)


def test_a_ridge_on_a_queue_is_eliminated() -> None:
    """A queue mixes slowly, and its equations are banded."""
    places = 600
    state, action = np.repeat(np.arange(places), 8), np.tile([0, 0, 0, 0, 1, 1, 1, 1], places)
    up = np.tile([True, False, False, False, True, True, False, False], places)
    after = np.clip(np.where(up, state + 1, state - 1), 0, places - 1)
    log = cs.Transitions(state, action, -np.minimum(state, 100.0), after)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tabular, "_iterated", None)
        est = cs.DiffLSTD(quiet=True, ridge=1e-6, standard_errors="independent").fit(log, "constant:0")
    expected = dense_solution(est.moments_, 1e-6)
    assert est.reward_rate_ == pytest.approx(expected[0], abs=1e-6)
    np.testing.assert_allclose(est.weights_, expected[1:], atol=1e-6 * np.abs(expected).max())
