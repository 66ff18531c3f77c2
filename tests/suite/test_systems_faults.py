"""The systems on which no method can be right: each has its fault, and the fault matters."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cesaro.suite.system import BEHAVIORS, MIXINGS, SHIFTS, Acting, Simulated, walk
from cesaro.suite.systems.basins import Basins
from cesaro.suite.systems.drift import LOAD, LOSS, NEAR, Drift
from cesaro.suite.systems.hidden_state import HiddenState
from cesaro.suite.systems.linear_quadratic import DISTURBANCE, EFFORT, LinearFeedback
from cesaro.suite.systems.untried_action import UntriedAction

SYSTEMS = [HiddenState, Drift, Basins, UntriedAction]
CHECK = "check 0"  # never the release's own exam


@pytest.mark.parametrize("kind", SYSTEMS, ids=lambda kind: kind.name)
def test_faults_are_told(kind: type[Simulated]) -> None:
    assert kind(release=CHECK).fault.endswith(".")


@pytest.mark.parametrize("mixing", MIXINGS)
def test_what_a_level_tells_of_the_hidden_inflow_depends_on_the_policy(mixing: str) -> None:
    """Rates agree with second moments (|z| < 4.5, which fails by chance once in 150,000), and E[h | x] is another one."""
    system, rng = HiddenState(mixing, CHECK), np.random.default_rng(3)
    slopes = []
    for policy in (system.targets["main"], system.behavior(SHIFTS["medium"])):
        assert isinstance(policy, LinearFeedback)
        moments = _moments(system, policy)
        state = rng.multivariate_normal(np.zeros(2), moments, size=3_000)
        steps = walk(system, Acting((policy,)), len(state), 20, rng, state=state)
        rate = -moments[0, 0] - EFFORT * (policy.gain[0, 0] ** 2 * moments[0, 0] + policy.noise**2)
        assert abs(_z(np.mean([step.rewards for step in steps], axis=0), rate)) < 4.5
        slopes.append(moments[0, 1] / moments[0, 0])
    assert abs(slopes[0] - slopes[1]) > 0.2 * max(slopes)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_the_load_grows_over_a_log_and_beyond_it(mixing: str) -> None:
    """Rewards fall over the log, and those of the target to a limit in closed form (|z| < 4.5) far from what it earns then."""
    system, rng = Drift(mixing), np.random.default_rng(4)
    main = system.targets["main"]
    stays, pace = 1 + system.pace * (NEAR - LOSS), system.pace
    mean, variance = LOAD / (LOSS - NEAR), (pace * DISTURBANCE**2 + (pace * 0.2) ** 2) / (1 - stays**2)
    at_last = np.column_stack([mean + np.sqrt(variance) * rng.normal(size=4_000), np.full(4_000, 1e9)])
    earned = [step.rewards for step in walk(system, Acting((main,)), 4_000, 20, rng, state=at_last)]
    limit = -(1 + EFFORT * NEAR**2) * (mean**2 + variance) - EFFORT * 0.2**2
    assert abs(_z(np.mean(earned, axis=0), limit)) < 4.5
    for policy, ratio in ((system.behavior(SHIFTS["medium"]), 1.3), (main, 1.0)):
        earned = [step.rewards for step in walk(system, Acting((policy,)), 1_000, 250, rng, warm=system.warm)]
        assert np.mean(earned[-50:]) < ratio * np.mean(earned[:50])
    assert limit < 1.3 * np.mean(earned)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_no_particle_changes_its_basin(mixing: str) -> None:
    system, rng = Basins(mixing), np.random.default_rng(5)
    for policy in (system.targets["main"], system.behavior(1.0)):
        steps = list(walk(system, Acting((policy,)), 1_000, 300, rng, warm=system.warm))
        side = np.sign(np.asarray(steps[0].observations))
        np.testing.assert_array_equal(np.sign(np.asarray(steps[-1].following)), side)
        rewards = np.mean([step.rewards for step in steps], axis=0)
        assert rewards[side > 0].min() > 0.5
        assert rewards[side < 0].max() < -0.5


@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_nobody_flushes_a_full_tank_but_the_target(behavior: str) -> None:
    system, rng = UntriedAction(release=CHECK), np.random.default_rng(6)
    (log,) = system.logs(1, 2_000, rng, shift="mild", behavior=behavior)
    full = log.observations.plain()["level"] > system.threshold
    flushed = log.actions.plain() == "flush"
    assert 0.1 < full.mean() < 0.9
    assert not (full & flushed).any()
    assert flushed.mean() > 0.02
    (step,) = walk(system, Acting((system.targets["main"],)), 4_000, 1, rng, warm=system.warm)
    assert isinstance(step.observations, dict)
    lost = (step.actions == "flush") & (step.observations["level"] > system.threshold)
    assert system.loss * lost.mean() > 0.2


def _moments(system: HiddenState, policy: LinearFeedback) -> NDArray[np.float64]:
    """The covariance of level and inflow in the long run: M = F M F' + N."""
    moves = np.array([[system.damping + policy.gain[0, 0], 1.0], [0.0, system.stays]])
    noise = np.diag([policy.noise**2 + DISTURBANCE**2, (1 - system.stays**2) * system.size**2])
    solved = np.linalg.solve(np.eye(4) - np.kron(moves, moves), noise.ravel())
    return np.asarray(solved.reshape(2, 2))


def _z(means: NDArray[np.float64], truth: float) -> float:
    return float((means.mean() - truth) / (means.std() / np.sqrt(len(means))))
