"""Rehearsals: what candidates say is compared with what the target earns in worlds whose answers are known."""

from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.errors import InputError
from cesaro.rehearsal import closed_forms, count_features
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
    pivots = found.mistakes / found.rehearsed_errors
    assert 0.55 < np.sqrt((pivots**2).mean()) < 1.6  # of χ² with 30 degrees of freedom
    assert found.truths.std(ddof=1) == pytest.approx(found.errors[0], rel=0.5)
    frame = found.to_frame()
    assert frame["coverage_in_worlds"][0] == (np.abs(pivots) <= 1.959964).mean()
    assert frame["error_in_worlds"][0] == pytest.approx(np.sqrt((found.mistakes**2).mean()))
    assert [line.split()[0] for line in str(found).splitlines()] == ["candidate", "auto", "the"]


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
    assert found.rates[0] == pytest.approx(truth, abs=5 * found.errors[0])
    assert found.rehearsed.shape == (4, 2)
    assert found.truths == pytest.approx(truth, abs=0.05)
    assert found.own == pytest.approx(found.logged, rel=0.3)
    assert found.residual is not None


def test_candidates_suit_the_log() -> None:
    log = _numbers()
    assert [*closed_forms(log)] == ["polynomial:2", "polynomial:3", "fourier:50", "fourier:200", "auto"]
    rng = np.random.default_rng(0)
    wide = cs.Transitions(rng.normal(size=(200, 30)), rng.integers(0, 3, 200), rng.normal(size=200))
    assert count_features("polynomial:2", wide) == 3 * 31 * 32 // 2
    assert [*closed_forms(wide)] == ["fourier:50", "fourier:200", "auto"]


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
    assert "no answer in some of them" in str(found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "logged"}, "policy must be a target"),
        ({"candidates": 3}, "candidates must be 'auto', names, or a dict"),
        ({"candidates": []}, "at least one name"),
        ({"candidates": {"mine": 1}}, "a function that makes an estimator"),
        ({"worlds": 1}, "members must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"log": 3}, "log must be a Log"),
    ],
)
def test_wrong_input(given: dict[str, Any], message: str) -> None:
    arguments = {"log": _discrete(200), "policy": "constant:1", "quiet": True, **given}
    with pytest.raises(InputError, match=message):
        cs.rehearse(**arguments)
