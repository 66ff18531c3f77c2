"""Rehearsals: what candidates say is compared with what the target earns in worlds whose answers are known."""

from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.candidates import closed_forms, count_features
from cesaro.errors import InputError
from cesaro.rehearsal import _shape
from cesaro.worlds import networks, process, training


def _discrete(rows: int = 3_000) -> cs.Transitions:
    rng = np.random.default_rng(0)
    states, actions = np.zeros(rows, np.int64), rng.integers(0, 2, rows)
    for t in range(rows - 1):
        states[t + 1] = (states[t] + 1) % 3 if rng.random() < 0.2 + 0.6 * actions[t] else states[t]
    return cs.Transitions(states, actions, (states == 2) + 0.1 * rng.normal(size=rows))


def _numbers(rows: int = 1_200) -> cs.Transitions:
    """x' = 0.7 x + 0.5 a + noise."""
    rng = np.random.default_rng(0)
    x, actions = np.zeros((12, rows // 12)), rng.normal(size=(12, rows // 12))
    for t in range(rows // 12 - 1):
        x[:, t + 1] = 0.7 * x[:, t] + 0.5 * actions[:, t] + 0.3 * rng.normal(size=12)
    ids = np.repeat(np.arange(12), rows // 12)
    return cs.Transitions(x.ravel(), actions.ravel(), -(x**2).ravel(), trajectory=ids)


def test_a_discrete_log() -> None:
    """The closed form of an empirical MDP is as right in its worlds as its standard error says, at an error rate of 1e-4."""
    found = cs.rehearse(_discrete(), "constant:1", worlds=30, quiet=True)
    assert found.candidates == ("auto",)
    assert found.eligible.tolist() == [True]
    assert found.truths.shape == found.own.shape == (30,)
    assert found.rehearsed.shape == (30, 1)
    assert found.residual is None
    assert (found.noise == 0).all()
    pivots = found.errors / found.rehearsed_standard_errors
    assert 0.55 < np.sqrt((pivots**2).mean()) < 1.6  # of χ² with 30 degrees of freedom
    assert found.truths.std(ddof=1) == pytest.approx(found.standard_errors[0], rel=0.5)
    frame = found.to_frame()
    assert frame["coverage_in_worlds"][0] == (np.abs(pivots) <= 1.959964).mean()
    assert frame["error_in_worlds"][0] == pytest.approx(np.sqrt((found.errors**2).mean()))
    assert found.choice == "auto"
    assert found.summary.startswith("In 30 systems that were learned from this log, the interval of auto held what")
    assert str(found).startswith(found.summary)
    assert [line.split()[0] for line in str(found).splitlines()[2:]] == ["candidate", "auto", "the", "the"]


def test_a_seed_decides() -> None:
    one, same, other = (
        cs.rehearse(_discrete(500), "constant:1", worlds=2, random_state=seed, quiet=True) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.rehearsed, same.rehearsed)
    assert (one.rehearsed != other.rehearsed).all()


@pytest.mark.slow
@pytest.mark.usefixtures("adam_is_allowed")
def test_a_log_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target a = −x earns −E x² = −0.09 / (1 − 0.2²); badly learned, which the shape of the answer does not mind."""
    monkeypatch.setattr(training, "MOST_STEPS", 1_000)
    monkeypatch.setattr(networks, "GLANCE", 200)
    monkeypatch.setattr(process, "PARTICLES", 60)
    found = cs.rehearse(_numbers(), lambda x: -x, ["polynomial:2", "linear"], worlds=4, quiet=True)
    truth = -0.09 / (1 - 0.2**2)
    assert found.rates[0] == pytest.approx(truth, abs=5 * found.standard_errors[0])
    assert found.rehearsed.shape == (4, 2)
    assert found.truths == pytest.approx(truth, abs=0.05)
    assert found.own == pytest.approx(found.logged, rel=0.5)
    assert found.residual is not None


def test_candidates_suit_the_log() -> None:
    log = _numbers()
    assert [*closed_forms(log)] == ["polynomial:2", "polynomial:3", "fourier:50", "fourier:200", "auto"]
    rng = np.random.default_rng(0)
    wide = cs.Transitions(rng.normal(size=(200, 30)), rng.integers(0, 3, 200), rng.normal(size=200))
    assert count_features("polynomial:2", wide) == 3 * 31 * 32 // 2
    assert [*closed_forms(wide)] == ["fourier:50", "fourier:200", "auto"]
    labels = {"x": rng.normal(size=200), "city": rng.integers(0, 20, 200).astype(str)}
    mixed = cs.Transitions(labels, rng.normal(size=200), rng.normal(size=200))
    assert count_features("polynomial:2", mixed) == 24 * 23 // 2  # 20 cities, x and the action
    assert [*closed_forms(mixed)] == ["polynomial:2", "fourier:50", "fourier:200", "auto"]


def test_a_candidate_that_fails_is_not_eligible() -> None:
    class Fussy:
        def fit(self, log: Any, policy: Any) -> "Fussy":
            if not np.array_equal(log.rewards, _discrete().rewards):
                raise InputError("Only this log will do.")
            self.reward_rate_ = 1.0
            return self

    found = cs.rehearse(
        _discrete(), "constant:1", {"mine": lambda seed: Fussy(), "auto": closed_forms(_discrete())["auto"]}, worlds=2
    )
    assert found.eligible.tolist() == [False, True]
    assert "not everywhere an answer with a standard error. Only this log will do." in str(found)
    assert found.notes == ("Only this log will do.", "")


def test_an_estimator_that_breaks_does_not_end_the_others() -> None:
    class Broken:
        def fit(self, log: Any, policy: Any) -> None:
            raise ValueError("no luck")

    candidates = {"mine": lambda seed: Broken(), "auto": closed_forms(_discrete())["auto"]}
    found = cs.rehearse(_discrete(200), "constant:1", candidates, worlds=2, quiet=True)
    assert found.notes == ("ValueError: no luck", "")
    assert found.eligible.tolist() == [False, True]


def test_weights_and_names_of_the_log_come_back() -> None:
    """Rows that earn 1 weigh three times what those that earn 0 do; a lone column is told by its name."""
    rng = np.random.default_rng(0)
    won = rng.random(4_000) < 0.5
    table = {"place": rng.choice(["a", "b"], 4_000), "heater": rng.choice(["on", "off"], 4_000)}
    table |= {"earned": won.astype(float), "count": np.where(won, 3.0, 1.0)}
    log = cs.read(table, observation="place", action="heater", reward="earned", weight="count")
    found = cs.rehearse(log, "rule:on if place == 'a' else off", worlds=4, quiet=True)
    assert found.notes == ("",)
    assert found.logged == pytest.approx(0.75, abs=0.03)
    assert found.truths == pytest.approx(0.75, abs=0.06)
    assert found.own == pytest.approx(0.75, abs=0.05)
    assert found.rehearsed[:, 0] == pytest.approx(found.truths, abs=0.06)


def test_a_world_serves_several_targets() -> None:
    log = _discrete(600)
    world = cs.World(3, quiet=True).fit(log)
    one, other = (cs.rehearse(log, target, worlds=world, quiet=True) for target in ("constant:0", "constant:1"))
    np.testing.assert_array_equal(one.own, other.own)
    assert (one.truths != other.truths).all()
    with pytest.raises(InputError, match="fitted on this log"):
        cs.rehearse(_discrete(500), "constant:1", worlds=world, quiet=True)


def test_long_logs_are_rehearsed_in_parts() -> None:
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.integers(0, 2, 12_001), rng.integers(0, 2, 12_001), rng.normal(size=12_001))
    assert _shape(log) == (2, 5_001)
    assert _shape(_numbers()) == (12, 100)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "logged"}, "policy must be a target"),
        ({"candidates": 3}, "candidates must be 'auto', names, or a dict"),
        ({"candidates": []}, "at least one name"),
        ({"candidates": {"mine": 1}}, "a function from a seed to an estimator"),
        ({"candidates": {"mine": cs.DiffLSTD}}, "for a class: {'name': lambda seed: Class"),
        ({"candidates": ["polynominal:2"]}, "did you mean polynomial"),
        ({"candidates": ["diff-gq9"]}, "features must be one of"),
        ({"worlds": 1}, "worlds must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"log": 3}, "log must be a Log"),
    ],
)
def test_wrong_input(given: dict[str, Any], message: str) -> None:
    arguments = {"log": _discrete(200), "policy": "constant:1", "quiet": True, **given}
    with pytest.raises(InputError, match=message):
        cs.rehearse(**arguments)
