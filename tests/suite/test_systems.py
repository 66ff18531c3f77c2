"""Every system of the suite: what its logs, policies and targets promise."""

import pickle

import numpy as np
import pytest

from cesaro.errors import InputError
from cesaro.suite.system import BEHAVIORS, MIXINGS, SHIFTS, Acting, Discrete, Simulated, aliases, sticky, walk
from cesaro.suite.systems import SYSTEMS, kind_of, make

# Exam systems are tried with parameters of no release.
RELEASE = "check 0"
ALL = sorted(SYSTEMS)


def _made(name: str, mixing: str = "usual") -> Simulated:
    found = make(name, mixing, RELEASE)
    assert isinstance(found, Simulated)
    return found


@pytest.mark.parametrize("name", ALL)
def test_a_log_of_each_behavior_is_one_of_the_system(name: str) -> None:
    system = _made(name)
    for behavior in BEHAVIORS:
        log = system.logs(2, 120, np.random.default_rng(1), behavior=behavior, trajectories=4)[1]
        assert len(log) == 120
        assert log.lengths is not None
        assert log.lengths.tolist() == [30] * 4
        assert np.isfinite(log.rewards).all()
        # The next observation is that of the next row of the trajectory.
        inside = np.flatnonzero(np.arange(120) % 30 != 29)
        now, then = (values.plain() for values in (log.observations, log.next_observations))
        for name_of in now if isinstance(now, dict) else [...]:
            assert np.array_equal(now[name_of][inside + 1], then[name_of][inside])


@pytest.mark.parametrize("name", ALL)
def test_policies_pickle_and_choose_the_same(name: str) -> None:
    system = _made(name)
    seen = system.observe(system.start(20, np.random.default_rng(0)))
    for policy in (*system.targets.values(), *(system.behavior(degree) for degree in SHIFTS.values())):
        copy = pickle.loads(pickle.dumps(policy))
        one, other = (choosing.sample(seen, np.random.default_rng(1)) for choosing in (policy, copy))
        assert np.array_equal(one, other)
        assert len(one) == 20


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_it_is(name: str) -> None:
    kind = kind_of(name)
    assert kind.name == name
    assert kind.side in ("development", "exam")
    assert kind.kind in ("discrete", "continuous", "robot")
    for mixing in MIXINGS:
        assert len(_made(name, mixing).targets) >= (1 if kind.fault else 5)
    assert _made(name).warm > 0
    logs = [make(name, release=release).logs(1, 40, np.random.default_rng(0))[0] for release in ("check 0", "check 1")]
    is_same = np.array_equal(logs[0].rewards, logs[1].rewards)
    assert is_same == (kind.side == "development")  # exam systems are drawn anew for each release


def test_families_stay_on_one_side() -> None:
    sides = {side: [name for name in SYSTEMS if kind_of(name).side == side] for side in ("development", "exam")}
    assert {"linear-quadratic-1", "linear-quadratic-4", "pendulum", "inventory", "stock", "heating", "garnet-20"} <= {
        *sides["development"]
    }
    assert {
        "access-control",
        "birth-death",
        "maintenance",
        "linear-quadratic-12",
        "dosing",
        "recommender",
        "server-farm",
        "ad-pacing",
    } <= {*sides["exam"]}
    assert sum(bool(kind_of(name).fault) for name in sides["exam"]) == 2


@pytest.mark.parametrize("name", [name for name in ALL if issubclass(kind_of(name), Discrete)])
@pytest.mark.parametrize("stickiness", [0.0, 0.5])
def test_simulations_of_tables_agree_with_exact_rates(name: str, stickiness: float) -> None:
    """|z| < 4.5 fails by chance once in 100,000 times, and the seed is fixed."""
    system = _made(name)
    policy, count, steps = system.behavior(0.6), 1_000, system.warm // 2
    rewards = np.zeros(count)
    for step in walk(system, Acting((policy,), stickiness), count, steps, np.random.default_rng(0), warm=system.warm):
        rewards += step.rewards
    means, exact = rewards / steps, system.exact(policy, stickiness)
    assert exact is not None
    assert abs(means.mean() - exact) < 4.5 * means.std() / np.sqrt(count)


def test_the_stationary_law_of_a_table_is_met() -> None:
    system = _made("garnet-20")
    assert isinstance(system, Discrete)
    from cesaro import exact

    policy, seen = system.targets[system.main], []
    for step in walk(system, Acting((policy,)), 4_000, 40, np.random.default_rng(0), warm=system.warm):
        seen.append(np.bincount(np.asarray(step.observations), minlength=system.mdp.num_states) / 4_000)
    law = exact.stationary_distribution(system.mdp, system.table(policy)).sum(axis=1)
    # Counts of 4,000 particles at one time are binomial; their mean over times varies less.
    assert (np.abs(np.mean(seen, axis=0) - law) < 4.5 * np.sqrt(law * (1 - law) / 4_000) + 1e-9).all()


def test_aliases_keep_probabilities() -> None:
    table = np.random.default_rng(0).dirichlet(np.full(7, 0.3), 5)
    table[0] = np.eye(7)[2]
    kept, alias = aliases(table)
    found = np.zeros_like(table)
    for row in range(5):
        for cell in range(7):
            found[row, cell] += min(kept[row, cell], 1) / 7
            found[row, alias[row, cell]] += max(1 - kept[row, cell], 0) / 7
    np.testing.assert_allclose(found, table, atol=1e-12)


def test_without_stickiness_the_larger_process_is_the_same() -> None:
    from cesaro import exact

    system = _made("garnet-20")
    assert isinstance(system, Discrete)
    table = system.table(system.behavior(0.6))
    assert exact.reward_rate(*sticky(system.mdp, table, 0.0)) == pytest.approx(exact.reward_rate(system.mdp, table))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"shift": "wild"}, "shift must be one of mild, medium, strong. Got 'wild'."),
        ({"behavior": "none"}, "behavior must be one of one, mixture, sticky, changed. Got 'none'."),
        ({"trajectories": 7}, "rows must be a multiple of 7 trajectories, two rows each. Got 120."),
        ({"trajectories": 3, "behavior": "mixture"}, "trajectories must be even for a mixture. Got 3."),
    ],
)
def test_wrong_logs_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as error:
        _made("linear-quadratic-1").logs(1, 120, np.random.default_rng(0), **wrong)  # type: ignore[arg-type]
    assert str(error.value) == says


def test_unknown_systems_and_mixings_are_refused() -> None:
    with pytest.raises(InputError, match=r"system must be one of .*linear-quadratic-1.* Got 'nothing'"):
        make("nothing")
    with pytest.raises(InputError, match=r"mixing must be one of usual, slow\. Got 'quick'"):
        make("linear-quadratic-1", "quick")


def test_robots_are_logged_as_they_act() -> None:
    (log,) = make("hopper").logs(1, 80, np.random.default_rng(0), shift="strong", trajectories=2)
    actions = np.asarray(log.actions.plain())
    assert log.counts["trajectories"] == 2
    assert len(log) == 80
    assert np.abs(actions).max() == 1.0  # noise of 0.9 is cut at the bounds
    with pytest.raises(InputError, match=r"hopper has one mixing and one behavior\. Got usual mixing and .* 'sticky'"):
        make("hopper").logs(1, 80, np.random.default_rng(0), behavior="sticky", trajectories=2)
