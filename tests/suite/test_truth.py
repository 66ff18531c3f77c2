"""Stored rates: of the systems as they are, precise enough, and equal to closed forms where there are some."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.suite import truth
from cesaro.suite.design import BASE, LARGE
from cesaro.suite.system import RELEASE, SHIFTS, Acting, Simulated
from cesaro.suite.systems import SYSTEMS, kind_of, make
from cesaro.suite.systems.linear_quadratic import LinearQuadratic1
from cesaro.suite.truth import NotAccepted, Rate, Truths, signature, simulated, truths


def _made(name: str, mixing: str = "usual") -> Simulated:
    found = make(name, mixing)
    assert isinstance(found, Simulated)
    return found


RIGHT = sorted(name for name in SYSTEMS if not kind_of(name).fault)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("mixing", ["usual", "slow"])
def test_stored_rates_are_those_of_the_system_as_it_is(name: str, mixing: str) -> None:
    made = truth._stored()[name][mixing]["made"]
    assert made["release"] == RELEASE or kind_of(name).side == "development"  # which is the same in every release
    assert made["signature"] == pytest.approx(signature(_made(name, mixing)), rel=1e-9), (
        f"python -m cesaro.suite.truth --only {name}"
    )
    assert {"numpy", "cesaro"} <= made["versions"].keys()


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("mixing", ["usual", pytest.param("slow", marks=pytest.mark.slow)])
def test_closed_forms_agree_with_simulations(name: str, mixing: str) -> None:
    """About 300 comparisons; one of |z| > 4.9 comes by chance once in 3,000 releases."""
    found, system = truths(name, mixing), _made(name, mixing)
    for rate in (*found.targets.values(), *found.behaviors.values()):
        assert abs(rate.simulated[0] - rate.rate) <= 4.9 * rate.simulated[1]
        assert rate.deviation > 0
    exact = system.exact(system.targets[system.main])
    if exact is not None:
        assert found.targets[system.main].rate == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", RIGHT)
def test_rates_are_precise_and_apart(name: str) -> None:
    found, main = truths(name), make(name).main
    for shift in SHIFTS:
        behavior = found.behaviors[f"{SHIFTS[shift]:g}"]
        error = math.hypot(found.targets[main].standard_error, behavior.standard_error)
        assert error <= 0.01 * abs(found.targets[main].rate - behavior.rate), shift
    gap = abs(found.targets[main].rate - found.logged("medium", "one")[0])
    assert found.scale(main, "medium", "one", BASE.rows) == gap
    assert found.scale(main, "medium", "one", LARGE.rows) == gap
    # Ranks mean something: no two targets are closer than half a deviation of the larger logs' mean.
    rates = sorted(rate.rate for rate in found.targets.values())
    assert min(np.diff(rates)) > found.logged("medium", "one")[1] / 2 / math.sqrt(LARGE.rows)


def test_two_basins_have_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "PARTICLES", 512)
    monkeypatch.setattr(truth, "MOST_STEPS", 3_000)
    system = _made("basins")
    with pytest.raises(NotAccepted, match="the rate must not depend on the start"):
        simulated(system, Acting((system.targets[system.main],)), 1e-3, np.random.default_rng(0))


class Luck(LinearQuadratic1):
    """Particles that are born lucky stay so: both kinds of starts have as many of them."""

    def start(self, count: int, rng: np.random.Generator) -> NDArray[Any]:
        return np.column_stack([super().start(count, rng), np.where(rng.random(count) < 0.5, 0.03, -0.03)])

    def observe(self, state: NDArray[Any]) -> Any:
        return super().observe(state[:, :1])

    def step(self, state: NDArray[Any], actions: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], Any]:
        following, rewards = super().step(state[:, :1], actions, rng)
        return np.column_stack([following, state[:, 1]]), rewards + state[:, 1]


def test_what_a_particle_keeps_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A difference of 0.06 between two kinds of particles, half of what target and log differ by."""
    monkeypatch.setattr(truth, "PARTICLES", 1_024)
    system = Luck()
    with pytest.raises(NotAccepted, match=r"a correlation of 0\.\d+"):
        simulated(system, Acting((system.targets[system.main],)), 1e-3, np.random.default_rng(0))


def test_a_simulated_rate_meets_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """|z| < 4.5 fails by chance once in 100,000 times, and the seed is fixed."""
    monkeypatch.setattr(truth, "PARTICLES", 512)
    system = _made("linear-quadratic-1")
    policy = system.behavior(0.6)
    found, exact = simulated(system, Acting((policy,), 0.5), 0.02, np.random.default_rng(0)), system.exact(policy, 0.5)
    assert exact is not None
    assert abs(found.rate - exact) < 4.5 * found.standard_error
    assert found.standard_error <= 0.02
    monkeypatch.setattr(truth, "MOST_STEPS", 200)
    with pytest.raises(NotAccepted, match="out of reach"):
        simulated(system, Acting((policy,)), 1e-6, np.random.default_rng(0))


def test_scales_are_the_difference_or_five_deviations() -> None:
    def rate(value: float, deviation: float) -> Rate:
        return Rate(value, 0.0, deviation, (value, 0.0), 1, 1)

    behaviors = {"0.6": rate(1.0, 2.0), "0.36": rate(1.5, 3.0), "0.72": rate(0.5, 1.0), "0.6 sticky": rate(0.8, 2.0)}
    found = Truths({"main": rate(2.0, 1.0)}, behaviors)
    assert found.scale("main", "medium", "one", 10_000) == 1.0
    assert found.scale("main", "medium", "one", 25) == pytest.approx(5 * 2 / 5)
    assert found.logged("medium", "mixture")[0] == 1.0
    assert found.logged("medium", "mixture")[1] == pytest.approx(math.sqrt(5))
    assert found.logged("medium", "changed")[0] == 1.0
    assert found.logged("medium", "sticky")[0] == 0.8


def test_systems_without_stored_rates_say_how_to_find_them() -> None:
    with pytest.raises(InputError, match=r"python -m cesaro\.suite\.truth --only nothing"):
        truths("nothing")
