"""Continuous systems against exact answers and the laws that they follow; |z| < 4.5 fails by chance once in 150,000."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from cesaro.checks import Array
from cesaro.policies import Policy
from cesaro.suite.rules import Always, Blend, Noisy, RulePolicy, places
from cesaro.suite.system import Acting, Simulated, Step, walk
from cesaro.suite.systems import dosing, heating, inventory, pendulum, server_farm
from cesaro.suite.systems.ad_pacing import AdPacing
from cesaro.suite.systems.dosing import Dosing
from cesaro.suite.systems.heating import Heating
from cesaro.suite.systems.inventory import Inventory
from cesaro.suite.systems.pendulum import Pendulum, Pendulums, exact_rate
from cesaro.suite.systems.recommender import Recommender
from cesaro.suite.systems.server_farm import ServerFarm


def path(system: Simulated, policy: Policy, count: int, steps: int, **acting: Any) -> list[Step]:
    walked = walk(system, Acting((policy,), **acting), count, steps, np.random.default_rng(0), warm=system.warm)
    return list(walked)


def z_score(steps: list[Step], truth: float) -> float:
    """The z score of the mean reward, by the spread over particles."""
    means = np.mean([step.rewards for step in steps], axis=0)
    return float((means.mean() - truth) / (means.std(ddof=1) / np.sqrt(len(means))))


def columns(steps: list[Step], name: str) -> tuple[Any, Any]:
    """A column before and after each step, `[T, n]`."""
    before, after = (np.stack([getattr(step, part)[name] for step in steps]) for part in ("observations", "following"))
    return before, after


def test_a_shop_that_orders_nothing_loses_all_demand() -> None:
    steps = path(Inventory(), Noisy(Always(0.0), 0.0, inventory.ORDERS, "nothing"), 500, 140)
    assert abs(z_score(steps, -0.5 * inventory.USUAL_DEMAND.mean() * np.exp(inventory.INDEX_SPREAD**2 / 2))) < 4.5


def test_stock_stays_in_its_room_and_comes_from_orders() -> None:
    steps = path(Inventory(), Inventory().behavior(0.9), 100, 100)
    stock, left = columns(steps, "stock")
    orders = np.stack([step.actions for step in steps])
    assert (left >= 0).all()
    assert (left <= inventory.KEPT * np.minimum(stock + orders, inventory.ROOM) + 1e-9).all()
    day, next_day = (places(column.ravel(), inventory.WEEKDAYS) for column in columns(steps, "weekday"))
    assert np.array_equal(next_day, (day + 1) % 7)


@pytest.mark.parametrize("mixing", ["usual", "slow"])
def test_a_house_under_constant_power_has_an_exact_rate(mixing: str) -> None:
    """Temperatures are normal then: means by the hour, and one covariance of weather and what the house adds to it."""
    system, power = Heating(mixing), 0.45
    mean = np.zeros(24)
    for hour in (k % 24 for k in range(24 * 60)):
        outdoor = heating.SEASON[hour] + heating.REACH * power
        mean[(hour + 1) % 24] = mean[hour] + system.loss * (outdoor - mean[hour])
    moves = np.array([[system.memory, 0.0], [system.loss, 1 - system.loss]])
    shocks = np.diag([(1 - system.memory**2) * heating.WEATHER_SPREAD**2, 0.15**2])
    spread = np.linalg.solve(np.eye(4) - np.kron(moves, moves), shocks.ravel())[3]
    deviation = (np.roll(mean, -1) - heating.WISHED) ** 2 + spread
    truth = float(np.mean(-heating.COMFORT * deviation - heating.PRICE * power))
    steps = path(system, Noisy(Always(power), 0.0, heating.POWER, "constant"), 500, 240)
    assert abs(z_score(steps, truth)) < 4.5


def test_a_step_of_the_pendulum_is_that_of_gymnasium() -> None:
    env: Any = gymnasium.make("Pendulum-v1", max_episode_steps=1_000).unwrapped
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for time in range(200):
        if time % 20 == 0:
            env.state = np.array([rng.uniform(-9, 9), rng.uniform(-8, 8)])
        state = Pendulums(*(np.array([entry]) for entry in env.state))
        torque = rng.normal(0, 2, 1)
        observation, reward, *_ = env.step(torque)
        following, rewards = state.step(torque)
        assert rewards[0] == pytest.approx(float(reward), abs=1e-12)
        np.testing.assert_allclose(np.concatenate(following), env.state, rtol=0, atol=1e-12)
        np.testing.assert_allclose(following.observe()[0], observation, rtol=0, atol=1e-5)  # float32 there
    env.close()


def test_the_pendulum_earns_its_exact_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pendulum, "GRID", (61, 11))
    system = Pendulum()
    policy = system.targets[system.main]
    truth = system.exact(policy)
    assert truth is not None
    assert abs(z_score(path(system, policy, 500, 150), truth)) < 4.5
    assert exact_rate(pendulum.SMOOTH, system.reset, (61, 11), 0.25) == pytest.approx(truth, abs=0.02)
    assert system.exact(policy, 0.5) is None
    assert system.exact(system.behavior(0.0)) is None


@pytest.mark.parametrize(
    ("mixing", "chance", "stickiness"), [("usual", 0.9, 0.0), ("usual", 0.5, 0.9), ("slow", 0.5, 0.9)]
)
def test_messages_by_chance_have_exact_rates(mixing: str, chance: float, stickiness: float) -> None:
    system = Dosing(mixing, release="test")
    policy = RulePolicy(dosing.ACTIONS, Always((1 - chance, chance)), "by chance")
    truth = system.exact(policy, stickiness)
    assert truth is not None
    assert abs(z_score(path(system, policy, 400, 150, stickiness=stickiness), truth)) < 4.5
    assert system.exact(system.targets["suited"]) is None


def test_messages_add_to_a_burden_that_fades() -> None:
    system = Dosing(release="test")
    steps = path(system, system.behavior(0.6), 100, 50)
    burden, later = columns(steps, "burden")
    sent = np.stack([step.actions for step in steps]) == "send"
    assert np.allclose(later, system.fading * burden + (1 - system.fading) * sent)


def test_items_shown_evenly_bore_by_their_genres() -> None:
    system = Recommender(release="test")
    steps = path(system, system.targets["even"], 500, 100)
    satiation = np.stack([np.asarray(step.following) for step in steps])[..., 3:]
    assert np.allclose(satiation.sum(axis=2), 1)
    means = satiation.mean(axis=0)
    off = means.mean(axis=0) - system.genres.mean(axis=0)
    assert (np.abs(off) < 4.5 * means.std(axis=0) / np.sqrt(len(means))).all()
    assert all((step.rewards >= 0).all() for step in steps)


def test_racks_come_after_they_have_booted() -> None:
    system = ServerFarm(release="test")
    steps = path(system, system.behavior(0.9), 200, 100)
    (racks, later), (power, next_power), (queue, longer), (load, _) = (
        columns(steps, name) for name in ("racks", "power", "queue", "load")
    )
    actions = np.stack([step.actions for step in steps])
    more, fewer = later > racks, later < racks
    assert set(np.unique(later - racks)) == {-1, 0, 1}
    assert ((power == "booting") | (actions == "up"))[more].all()
    assert (next_power == "steady")[more].all()
    assert ((power == "steady") & (actions == "down"))[fewer].all()
    assert later.min() >= 1
    assert later.max() <= server_farm.RACKS
    serving = racks - fewer
    assert np.allclose(longer, np.clip(queue + load - serving, 0, server_farm.LONGEST))


def test_a_budget_is_only_filled_at_midnight() -> None:
    system = AdPacing(release="test")
    steps = path(system, system.behavior(0.6), 500, 96)
    (hour, later), (budget, left) = columns(steps, "hour"), columns(steps, "budget")
    assert np.array_equal(later, (hour + 1) % 24)
    assert (left >= 0).all()
    assert (left <= budget + 1e-12)[later > 0].all()
    assert (left[later == 0] >= 0.8).all()


def test_conversions_are_worth_one_on_average() -> None:
    """With a budget that suffices: the reward of a bid in an hour, whose variance is finite (its tail exponent is above 2.3)."""
    system, count = AdPacing(release="test"), 200_000
    hour, market, bid = 5, 0.2, np.full(count, 0.8)
    state = np.tile([hour, 1.0, market], (count, 1))
    _, rewards = system.step(state, bid, np.random.default_rng(0))
    won = system.traffic[hour] * 0.8 / (0.8 + np.exp(market))
    truth = 1 - np.exp(-system.rate * system.quality[hour] * won) - system.cost * won * 0.8
    assert abs(rewards.mean() - truth) < 4.5 * rewards.std() / np.sqrt(count)
    nothing, earned = system.step(state, np.zeros(count), np.random.default_rng(0))
    assert not earned.any()
    assert (nothing[:, 1] == 1).all()


def test_a_blend_is_between_its_rules() -> None:
    seen: Array = np.zeros(3)
    assert Blend(Always(1.0), Always(3.0), 0.25)(seen).tolist() == [1.5, 1.5, 1.5]
    assert Blend(Always((1.0, 0.0)), Always((0.0, 1.0)), 0.25)(seen).shape == (3, 2)
    cut = Noisy(Always(5.0), 0.0, (0.0, 2.0), "cut")
    assert cut.deterministic
    assert cut.sample(seen, np.random.default_rng(0)).tolist() == [2.0, 2.0, 2.0]
