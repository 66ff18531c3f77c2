"""The discrete systems of the suite: what is simulated earns the exact rates, and each exam can be taken."""

import numpy as np
import pytest

from cesaro import exact
from cesaro.policies import Policy
from cesaro.suite.system import MIXINGS, SHIFTS, STICKY, Acting, Discrete, walk
from cesaro.suite.systems.access_control import AccessControl
from cesaro.suite.systems.birth_death import BirthDeath
from cesaro.suite.systems.garnets import Garnet20, Garnet100
from cesaro.suite.systems.maintenance import Maintenance
from cesaro.suite.systems.stock import CAPACITY, COST, DELIVERY, HOLDING, LOST, PRICE, Stock

SYSTEMS = [AccessControl, Garnet20, Garnet100, BirthDeath, Stock, Maintenance]
CHECK = "check 0"  # never the release's own exam


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("kind", SYSTEMS, ids=lambda kind: kind.name)
def test_particles_earn_the_exact_rate(kind: type[Discrete], mixing: str) -> None:
    """|z| < 4.5 fails by chance once in 150,000 tests; particles start in the stationary law, so that none has to be warmed."""
    system, rng = kind(mixing, CHECK), np.random.default_rng(1)
    for policy in (system.targets[system.main], system.behavior(SHIFTS["medium"])):
        law = exact.stationary_distribution(system.mdp, system.table(policy)).sum(axis=1)
        state = rng.choice(len(law), size=2_000, p=law / law.sum())
        steps = walk(system, Acting((policy,)), len(state), 40, rng, state=state)
        assert abs(_z(np.mean([step.rewards for step in steps], axis=0), system.exact(policy))) < 4.5


def test_a_sticky_behavior_earns_its_exact_rate() -> None:
    system, rng = Stock(), np.random.default_rng(2)
    policy = system.behavior(SHIFTS["strong"])
    steps = walk(system, Acting((policy,), stickiness=STICKY), 1_000, 100, rng, warm=system.warm)
    mean = np.mean([step.rewards for step in steps], axis=0)
    assert abs(_z(mean, system.exact(policy, STICKY))) < 4.5
    assert abs(_z(mean, system.exact(policy))) > 4.5


@pytest.mark.parametrize("kind", [kind for kind in SYSTEMS if kind is not Garnet100], ids=lambda kind: kind.name)
def test_slow_mixing_is_several_times_slower_and_the_start_is_forgotten(kind: type[Discrete]) -> None:
    relaxation = []
    for system in (kind(mixing, CHECK) for mixing in MIXINGS):
        seconds = [_second_eigenvalue(system, policy) for policy in (system.targets[system.main], system.behavior(0.6))]
        relaxation.append(1 / (1 - max(seconds)))
        assert max(seconds) ** system.warm < 1e-3
    assert relaxation[1] > 1.9 * relaxation[0]


@pytest.mark.parametrize("kind", SYSTEMS, ids=lambda kind: kind.name)
def test_behaviors_lead_away_from_the_main_target_and_try_its_actions(kind: type[Discrete]) -> None:
    system = kind(release=CHECK)
    target = system.table(system.targets[system.main])
    distances = []
    for degree in (0.0, 0.18, 0.6, 1.0):
        table = system.table(system.behavior(degree))
        distances.append(np.abs(table - target).sum(axis=1).mean())
        assert degree == 0 or table[target > 0.05].min() > 1e-5
    assert distances == sorted(distances)
    assert distances[0] < 1e-12


@pytest.mark.parametrize("kind", [AccessControl, BirthDeath, Maintenance], ids=lambda kind: kind.name)
def test_each_exam_has_a_gap_and_targets_of_different_rates(kind: type[Discrete]) -> None:
    sizes = set()
    for number in range(8):
        system = kind(release=f"check {number}")
        sizes.add(system.mdp.num_states)
        rates = [_exact(system, policy) for policy in system.targets.values()]
        spread = max(rates) - min(rates)
        assert spread > 0.1 * abs(rates[0])
        assert abs(rates[0] - _exact(system, system.behavior(SHIFTS["medium"]))) > 0.2 * spread
    assert len(sizes) > 3


def test_stock_balances() -> None:
    """What was there and came is sold or still there, and the reward tells the demand that was lost: only where all was sold."""
    system, rng = Stock(), np.random.default_rng(3)
    stock, order = rng.integers(CAPACITY + 1, size=4_000), rng.integers(7, size=4_000)
    following, rewards = system.step(stock, order, rng)
    fits = following < CAPACITY
    sold = (stock + order - following)[fits]
    assert following.max() == CAPACITY
    assert ((sold >= 0) & (sold <= stock[fits])).all()
    costs = HOLDING * following + COST * order + DELIVERY * (order > 0)
    lost = (PRICE * sold - (rewards + costs)[fits]) / LOST
    np.testing.assert_allclose(lost, np.round(lost), atol=1e-9)
    assert (lost > -1e-9).all()
    assert (sold == stock[fits])[lost > 0.5].all()


def test_failures_are_rare_and_dear() -> None:
    system = Maintenance(release=CHECK)
    failed = system.mdp.num_states - 1
    for policy in (system.targets[system.main], *map(system.behavior, SHIFTS.values())):
        assert 1e-4 < exact.stationary_distribution(system.mdp, system.table(policy))[failed].sum() < 0.01
    assert system.mdp.rewards[failed].max() < 5 * system.mdp.rewards[:failed].min()


def test_rows_of_a_log_follow_each_other() -> None:
    system = AccessControl(release=CHECK)
    (log,) = system.logs(1, 200, np.random.default_rng(4), trajectories=4)
    seen, following = log.observations.plain(), log.next_observations.plain()
    inner = np.arange(200) % 50 < 49
    np.testing.assert_array_equal(following[inner], np.roll(seen, -1)[inner])


def _z(means: np.ndarray, truth: float | None) -> float:
    assert truth is not None
    return float((means.mean() - truth) / (means.std() / np.sqrt(len(means))))


def _exact(system: Discrete, policy: Policy) -> float:
    found = system.exact(policy)
    assert found is not None
    return found


def _second_eigenvalue(system: Discrete, policy: Policy) -> float:
    return float(np.sort(np.abs(np.linalg.eigvals(system.mdp.state_chain(system.table(policy)))))[-2])
