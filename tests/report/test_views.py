"""Numbers that pictures show, against sums over rows written out here and against exact values."""

import numpy as np
import pytest

import cesaro as cs
from cesaro.views import views


@pytest.fixture(scope="module")
def queue_log() -> tuple[cs.Transitions, cs.TabularMDP, np.ndarray, np.ndarray]:
    """A long trajectory of a random MDP under a uniform policy, in numbers of states and actions."""
    rng = np.random.default_rng(3)
    probabilities = rng.dirichlet(np.ones(4), size=(4, 3))
    rewards = rng.normal(size=(4, 3))
    state, states, actions = 0, [], rng.integers(0, 3, 40_000)
    for action, uniform in zip(actions, rng.random(len(actions))):
        states.append(state)
        state = int(np.searchsorted(np.cumsum(probabilities[state, action]), uniform).clip(0, 3))
    seen = np.array(states)
    target = rng.dirichlet(np.ones(3), size=4)
    log = cs.Transitions(seen, actions, rewards[seen, actions], next_observations=np.append(seen[1:], state))
    return log, cs.TabularMDP(probabilities, rewards), target, np.full((4, 3), 1 / 3)


def test_values_and_gains_are_those_of_the_known_mdp(queue_log) -> None:  # type: ignore[no-untyped-def]
    log, mdp, target, logging = queue_log
    found = cs.evaluate(log, target, quiet=True)
    table = found.views.table
    assert table is not None
    assert table.states == ((0,), (1,), (2,), (3,))
    assert table.actions == (0, 1, 2)
    np.testing.assert_allclose(table.target, target)
    exact = cs.exact.differential_values(mdp, target)
    np.testing.assert_allclose(table.values, exact, atol=0.05)
    law = cs.exact.stationary_distribution(mdp, logging).sum(axis=1)
    gains = law * ((target * exact).sum(axis=1) - (logging * exact).sum(axis=1))
    # The identity itself, which says that gains add up to the difference of the rates.
    rates = cs.exact.reward_rate(mdp, target) - cs.exact.reward_rate(mdp, logging)
    assert gains.sum() == pytest.approx(rates, abs=1e-12)
    ours = {place.where: place.gain for place in found.views.places}
    for state in range(4):
        assert ours[f"observation {state}"] == pytest.approx(gains[state], abs=0.02)
    assert found.views.total_gain == pytest.approx(found.difference.value, abs=1e-3)
    assert list(found.views.places) == sorted(found.views.places, key=lambda place: -place.gain)


def test_stretches_are_means_of_their_rows(queue_log) -> None:  # type: ignore[no-untyped-def]
    log, _, target, _ = queue_log
    found = cs.evaluate(log, target, quiet=True)
    view = found.views.over_time
    assert len(view.reward) == 60
    assert (view.edges[0], view.edges[-1]) == (0, len(log))
    first = slice(0, view.edges[1])
    assert view.reward[0] == pytest.approx(log.rewards[first].mean())
    assert view.influence[0] == pytest.approx(found.influence[first].sum() / len(log))
    assert view.influence.sum() == pytest.approx(0, abs=1e-12)
    assert view.trajectories == 1


def test_leaving_a_stretch_out_moves_the_rate_by_its_influence(queue_log) -> None:  # type: ignore[no-untyped-def]
    log, _, target, _ = queue_log
    found = cs.evaluate(log, target, quiet=True)
    view = found.views.over_time
    k = int(np.argmax(np.abs(view.influence)))
    keep = np.ones(len(log), dtype=bool)
    keep[view.edges[k] : view.edges[k + 1]] = False
    state, after = log.observations.plain(), log.next_observations.plain()
    rest = cs.Transitions(state[keep], log.actions.plain()[keep], log.rewards[keep], after[keep])
    moved = found.reward_rate - cs.evaluate(rest, target, quiet=True).reward_rate
    assert moved == pytest.approx(view.influence[k], rel=0.1)


def test_actions_and_leverage_of_discrete_pairs(queue_log) -> None:  # type: ignore[no-untyped-def]
    log, _, target, _ = queue_log
    found = cs.evaluate(log, target, quiet=True).views
    (shares,) = found.actions
    state, action = log.observations.plain(), log.actions.plain()
    np.testing.assert_allclose(shares.logged, np.bincount(action) / len(log))
    np.testing.assert_allclose(shares.target, target[state].mean(axis=0))
    assert found.leverage is not None
    assert found.leverage.by_count
    counts = np.bincount(state * 3 + action)
    assert found.leverage.logged.min() == pytest.approx(len(log) / counts.max())
    # Over the log, the mean of n / count is the number of pairs.
    assert found.leverage.logged.mean() == pytest.approx(12, rel=0.01)


def test_pairs_that_were_never_logged_are_infinitely_far_out() -> None:
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, 3_000)
    action = np.where(state == 0, 0, rng.integers(0, 2, 3_000))
    log = cs.Transitions(state, action, rng.normal(size=3_000))
    est = cs.DiffLSTD(ridge=1e-6)
    with pytest.warns(cs.EvaluationWarning):
        est.fit(log, "uniform")
    leverage = views(est).leverage
    assert leverage is not None
    assert np.isinf(leverage.target).mean() == pytest.approx(1 / 6, abs=0.05)
    assert np.isfinite(leverage.logged).all()


@pytest.fixture(scope="module")
def linear_log() -> cs.Transitions:
    """A linear system with a quadratic reward: position and mode observed, an action of one number."""
    rng = np.random.default_rng(1)
    n = 6_000
    position, action = np.zeros(n + 1), rng.normal(size=n)
    for i in range(n):
        position[i + 1] = 0.7 * position[i] + 0.5 * action[i] + 0.2 * rng.normal()
    mode = np.array(["day", "night"])[rng.integers(0, 2, n + 1)]
    reward = -(position[:-1] ** 2)
    here = {"position": position[:-1], "mode": mode[:-1]}
    return cs.Transitions(here, action, reward, {"position": position[1:], "mode": mode[1:]})


def test_continuous_observations_are_shown_along_columns(linear_log: cs.Transitions) -> None:
    def calm(observations: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        return -0.8 * observations["position"]

    found = cs.evaluate(linear_log, calm, features="polynomial:2", quiet=True)
    view = found.views
    assert view.table is None
    assert [one.column for one in view.along] == ["position", "mode"]  # the mode says nothing
    position, mode = view.along
    assert position.explains > 0.5 > 0.1 > mode.explains
    assert position.centers is not None
    middle = int(np.argmin(np.abs(position.centers)))
    assert position.value[middle] == position.value.max()  # rewards are best at zero
    assert position.share.sum() == pytest.approx(1)
    assert mode.labels == ("day", "night")
    for one in view.along:
        assert one.gain.sum() == pytest.approx(view.total_gain)
    assert view.total_gain == pytest.approx(found.difference.value, rel=0.05)
    (shares,) = view.actions
    assert shares.logged.sum() == pytest.approx(1)
    assert shares.target.sum() == pytest.approx(1)
    assert shares.edges is not None
    middles = (shares.edges[1:] + shares.edges[:-1]) / 2
    spread = [float(share @ middles**2) for share in (shares.logged, shares.target)]
    assert spread[1] < spread[0]  # the target acts less


@pytest.mark.slow
def test_what_an_estimator_does_not_have_is_left_out(linear_log: cs.Transitions) -> None:
    logged = cs.evaluate(linear_log, "logged", quiet=True).views
    assert (logged.table, logged.along, logged.places, logged.actions, logged.leverage) == (None, (), (), (), None)
    ratio = cs.evaluate(linear_log, "constant:0.0", method="gradient-dice", features="linear", quiet=True, steps=200)
    assert ratio.views.along == ()
    assert ratio.views.places == ()
    assert ratio.views.actions


def test_many_states_are_cut_to_those_with_most_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cesaro.views.MOST_PAIRS", 24)
    rng = np.random.default_rng(0)
    state = np.where(rng.random(6_000) < 0.5, rng.integers(0, 10, 6_000), rng.integers(10, 60, 6_000))
    log = cs.Transitions(state, rng.integers(0, 2, 6_000), rng.normal(size=6_000))
    table = views(cs.DiffLSTD().fit(log, "uniform")).table
    assert table is not None
    assert len(table.states) == 12
    assert table.left_out == 60 - 12
    assert {(k,) for k in range(10)} <= set(table.states)
    assert table.share.sum() < 1


def test_policies_that_only_draw_are_drawn_often(queue_log) -> None:  # type: ignore[no-untyped-def]
    log, _, target, _ = queue_log

    def drawn(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random((len(states), 1)) > np.cumsum(target, axis=1)[states]).sum(axis=1)

    exact, found = cs.evaluate(log, target, quiet=True), cs.evaluate(log, drawn, quiet=True)
    assert found.views.table is not None
    # 200 draws: a standard deviation of at most 0.036; five of them.
    np.testing.assert_allclose(found.views.table.target, target, atol=0.18)
    assert found.views.total_gain == pytest.approx(exact.views.total_gain, abs=0.2)


def test_weights_count_everywhere() -> None:
    """Rows of weight zero change nothing."""
    rng = np.random.default_rng(2)
    n = 2_000
    seen, done = rng.normal(size=n), rng.normal(size=n)
    weights = (rng.random(n) < 0.5).astype(float)
    reward = -(seen**2) + done
    after = rng.normal(size=n)
    wild = np.where(weights > 0, reward, 1e3)
    found = [
        cs.evaluate(
            cs.Transitions(seen, done, r, after, weights=weights, trajectory=np.arange(n)),
            "constant:0.0",
            features="linear",
            quiet=True,
        )
        for r in (reward, wild)
    ]
    for one in found:
        (along,) = one.views.along
        assert 0 <= along.explains <= 1
    first, second = (one.views for one in found)
    np.testing.assert_allclose(first.over_time.reward, second.over_time.reward)
    np.testing.assert_allclose(first.along[0].value, second.along[0].value, atol=1e-8)


def test_levels_without_rows_and_narrow_ranges() -> None:
    rng = np.random.default_rng(3)
    n = 1_000
    room = np.array(["hall", "kitchen"], dtype=object)[rng.integers(0, 2, n)]
    room[-1] = "attic"  # in the last row, which is no transition
    pressure = 1_013 + 0.01 * rng.normal(size=n)
    log = cs.Transitions({"room": room, "pressure": pressure}, rng.integers(0, 2, n), rng.normal(size=n))
    found = cs.evaluate(log, "uniform", features="linear", quiet=True).views
    by_name = {one.column: one for one in found.along}
    assert by_name["room"].labels == ("hall", "kitchen")
    assert len(set(by_name["pressure"].labels)) == 12
    assert all(low != high for low, high in (label.split(" to ") for label in by_name["pressure"].labels))
