"""Rehearsals: what candidates say is compared with what the target earns in worlds whose answers are known."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro import panel
from cesaro.candidates import ask, closed_forms, count_features
from cesaro.diagnostics.panel import rehearsed
from cesaro.diagnostics.worlds import Residual, WorldFacts
from cesaro.errors import InputError
from cesaro.passes.standard_errors import Estimate
from cesaro.rehearsal import Rehearsal, _shape
from cesaro.worlds import networks, process, training

# Two closed forms in four worlds; together they say 1 ± 0.1 of a log that earned 0 ± 0.05, and worlds earn that in the mean.
FOUND = Rehearsal(
    candidates=("polynomial:2", "auto"),
    notes=("", ""),
    rates=np.array([1.0, 1.0]),
    standard_errors=np.array([0.1, 0.1]),
    truths=np.array([0.9, 1.0, 1.1, 1.2]),
    noise=np.zeros(4),
    rehearsed=np.array([[0.9, 1.0], [1.0, 1.0], [1.1, 1.2], [1.2, 1.2]]),
    rehearsed_standard_errors=np.full((4, 2), 0.1),
    logged=0.0,
    own=np.array([-0.01, 0.0, 0.0, 0.01]),
    residual=Residual(0.05, 0.05, 100.0, 0.0, 0.0),
    logged_standard_error=0.05,
)
LITTLE = "These systems do not resemble your log, so this tells little: in 4 systems"


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
    assert found.summary.startswith(
        "In 30 systems that were learned from this log, the interval of the closed form held"
    )
    assert " ".join(str(found).split()).startswith(found.summary)
    rows = re.findall(r"^([a-z ]+?) +[\d.]+ +[\d.]+", str(found), flags=re.M)
    assert rows == ["closed form", "the policy there", "simulated logs", "the log"]
    assert found.verdict == "ok"
    assert [entry.name for entry in found.findings] == ["rate of the log in the world", "drift", "memory"]
    assert found.covers.startswith("The closed form was rehearsed")


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


@pytest.mark.parametrize(
    ("change", "name", "verdict"),
    [
        ({}, "", "ok"),
        ({"own": FOUND.own + 0.5}, "rate of the log in the world", "bad"),
        ({"own": FOUND.own + 0.15}, "rate of the log in the world", "caution"),
        ({"own": FOUND.own + 0.08}, "", "ok"),  # within noise
        ({"residual": Residual(0.5, 0.05, 100.0, 0.0, 0.0)}, "held-out rows", "bad"),
        ({"residual": Residual(0.0, 0.05, 100.0, 0.0, 0.05)}, "state of the world", "bad"),
        ({"residual": Residual(0.0, 0.05, 100.0, 0.0, 0.0, 0.01)}, "world over time", "bad"),
        ({"residual": Residual(0.0, 0.05, 100.0, 0.0, 0.0, 0.005)}, "world over time", "caution"),
    ],
)
def test_worlds_unlike_the_log_tell_little(change: dict[str, Any], name: str, verdict: str) -> None:
    """However often intervals held there: here in every world."""
    found = replace(FOUND, **change)
    assert found.verdict == verdict
    assert [entry.name for entry in found.findings if entry.verdict != "ok"] == [name][: verdict != "ok"]
    assert found.summary.startswith(LITTLE) == (verdict == "bad")
    assert found.summary.startswith("These systems resemble your log only in part: in 4") == (verdict == "caution")
    assert "the interval of all closed forms together held what the policy earns there 4 times of 4" in found.summary
    text = " ".join(str(found).split())
    assert text.startswith(found.summary)
    assert "the learned process" in text.lower()
    assert "cannot be rehearsed in itself" in text
    assert f"{verdict} {name[:18]}" in text  # the name of a check may take two lines
    document = found.to_dict()
    assert document["verdict"] == verdict
    assert [entry["name"] for entry in document["findings"]] == [entry.name for entry in found.findings]
    # As a finding of a full answer it is never a recommendation.
    assert rehearsed(20, 1.0, found.verdict, found.summary).verdict == ("caution" if verdict == "bad" else "ok")


@pytest.mark.parametrize("off", [0.0, 0.08, 0.15, 0.19, 0.2, 0.5, -0.5])
def test_worlds_have_a_vote_where_a_rehearsal_in_them_counts(off: float) -> None:
    """One rule: what simulated logs earn beside what the log earned."""
    found = replace(FOUND, own=FOUND.own + off)
    facts = WorldFacts(float(np.median(found.own)), float(found.own.std(ddof=1)), None, None, 0.0, 0.0, 0.0)
    assert found.whole is not None
    half = panel.QUANTILE * found.whole["standard_error"]
    reason = panel._unlike(facts, Estimate(0.0, 0.05, np.inf), half)
    assert (reason == "") == (found.findings[0].verdict != "bad")


def test_a_hidden_state_of_a_discrete_log_is_told() -> None:
    """The worlds of its counts repeat what it earned, and do not know what the row before tells."""
    rng = np.random.default_rng(0)
    rows = 6_000
    states, actions = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    hidden = np.cumsum(rng.random(rows) < 0.1) % 2
    log = cs.Transitions(states, actions, hidden + 0.1 * states, trajectory=np.repeat(np.arange(60), rows // 60))
    found = cs.rehearse(log, "constant:1", worlds=4, quiet=True)
    assert found.findings[0].verdict == "ok"
    assert {entry.name: entry.verdict for entry in found.findings}["memory"] == "bad"
    assert found.summary.startswith(LITTLE)


@pytest.mark.slow
@pytest.mark.usefixtures("adam_is_allowed")
def test_a_hidden_state_of_numbers_is_told() -> None:
    """x' = 0.6 x + 0.5 a + h + noise, where h, which is not logged, stays for about twenty steps."""
    rng = np.random.default_rng(0)
    count, steps = 20, 150
    x, a, hidden = np.zeros((steps + 1, count)), np.zeros((steps, count)), np.zeros(count)
    for t in range(steps):
        a[t] = -0.2 * x[t] + 0.5 * rng.normal(size=count)
        hidden = 0.95 * hidden + 0.3 * rng.normal(size=count)
        x[t + 1] = 0.6 * x[t] + 0.5 * a[t] + hidden + 0.1 * rng.normal(size=count)
    columns = (x[:-1].T.ravel(), a.T.ravel(), -(x[:-1].T.ravel() ** 2), x[1:].T.ravel())
    log = cs.Transitions(*columns, trajectory=np.repeat(np.arange(count), steps))
    found = cs.rehearse(log, lambda x: -0.8 * x, ["polynomial:2", "polynomial:3"], worlds=4, quiet=True)
    assert {entry.name: entry.verdict for entry in found.findings}["state of the world"] == "bad"
    assert found.summary.startswith(LITTLE)


def test_costs_and_units_are_shown_as_costs() -> None:
    rng = np.random.default_rng(0)
    spent = rng.random(2_000) < 0.5
    table = {"place": rng.choice(["a", "b"], 2_000), "heater": rng.choice(["on", "off"], 2_000), "spent": 1.0 * spent}
    log = cs.read(table, observation="place", action="heater", cost="spent")
    found = cs.rehearse(log, "constant:on", worlds=3, unit="€ per hour", quiet=True)
    assert (found.cost, found.unit) == ("spent", "€ per hour")
    assert found.logged == pytest.approx(-spent.mean(), abs=1e-3)  # the last row leads nowhere
    assert found.to_dict()["table"][0]["rate"] == found.rates[0] < 0  # programs get rewards, as of an evaluation
    text = str(found)
    assert f"{-found.rates[0]:.4g}" in text
    assert f"{found.rates[0]:.4g}" not in text
    assert "held what the policy costs there" in " ".join(text.split())
    assert "€ per hour (root mean square)" in " ".join(text.split())
    assert "(cost 'spent', € per hour)" in " ".join(text.split())
    assert "Findings speak of rewards, which are minus 'spent'." in text
    (axes,) = found.plot().axes
    errors = np.concatenate([line.get_xdata() for line in axes.lines[:-1]])
    np.testing.assert_allclose(np.sort(errors), np.sort(-found.errors[:, 0]))
    assert "error of the cost in 3 systems" in " ".join(axes.get_xlabel().split())


def test_names_are_those_of_reports_and_programs_get_those_of_features() -> None:
    text = str(FOUND)
    for name in ("polynomials, degree 2", "smooth features", "all closed forms together"):
        assert f"\n{name} " in text
    assert "polynomial:2" not in text
    assert [row["candidate"] for row in FOUND.to_dict()["table"]] == ["polynomial:2", "auto", "together"]
    (axes,) = FOUND.plot().axes
    drawn = [" ".join(label.get_text().split()) for label in axes.get_yticklabels()]
    assert drawn == ["polynomials, degree 2", "smooth features", "all closed forms together"]
    assert "all candidates together" in replace(FOUND, is_closed=False).summary


def test_a_rehearsal_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after the log and a world of five or two; the same bits, and what is kept is not asked again."""
    file, asked = tmp_path / "kept.npz", list[int]()
    plain = ask

    def interrupted(make: Any, log: Any, policy: Any, seed: int) -> Any:
        asked.append(seed)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return plain(make, log, policy, seed)

    def run(target: str = "constant:1", **settings: Any) -> Rehearsal:
        return cs.rehearse(_discrete(500), target, ["auto"], worlds=5, quiet=True, **settings)

    whole = run()
    monkeypatch.setattr("cesaro.rehearsal.ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=file)
    assert file.exists()
    resumed = run(checkpoint=file)
    assert set(asked) == {0, 1, 2, 3, 4, 5}
    assert asked.count(0) == 1
    assert len(asked) <= 9  # two threads: of the first five calls two are kept at least, and six answers are needed
    for name in ("rates", "standard_errors", "truths", "rehearsed", "rehearsed_standard_errors", "own"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    assert resumed.to_dict() == whole.to_dict()
    for other in ({"target": "constant:0"}, {"random_state": 1}):
        with pytest.raises(InputError, match="belongs to another rehearsal"):
            run(checkpoint=file, **other)
    file.write_bytes(b"no archive")
    with pytest.raises(InputError, match="is not a file of this package"):
        run(checkpoint=file)


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
    assert "Mine: not everywhere an answer with a standard error. Only this log will do." in str(found)
    assert found.summary.partition("of ")[2].startswith("auto held")  # the only one that answered, whatever its place
    other_way = {"auto": closed_forms(_discrete())["auto"], "mine": lambda seed: Fussy()}
    same = cs.rehearse(_discrete(), "constant:1", other_way, worlds=2)
    assert (same.whole, same.summary) == (found.whole, found.summary)
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


def test_simulated_logs_are_not_compared_with_a_log_that_has_weights() -> None:
    """Weights depend on the state here, and simulated logs go to states as often as rows do, and not as weights say."""
    rng = np.random.default_rng(0)
    places = rng.choice([0, 1], 2_000)
    weights = np.where(places == 1, 5.0, 1.0)
    log = cs.Transitions(places, rng.integers(0, 2, 2_000), 1.0 * places, weights=weights)
    found = cs.rehearse(log, "uniform", worlds=4, quiet=True)
    assert found.logged > 0.8 > 0.6 > found.own.max()
    assert found.findings[0].verdict == "ok"


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
        ({"candidates": ["polynominal:2"]}, "candidates must name methods .*did you mean polynomial"),
        ({"candidates": ["nonsense"]}, "candidates must name .*fourier.*Got 'nonsense'; take one of these"),
        (
            {"candidates": ["linear:x"]},
            "candidates must name features that this log can have. Got 'linear:x': features",
        ),
        ({"checkpoint": 3}, "checkpoint must be a path or None"),
        ({"worlds": 1}, "worlds must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"log": 3}, "log must be a Log"),
    ],
)
def test_wrong_input(given: dict[str, Any], message: str) -> None:
    arguments = {"log": _discrete(200), "policy": "constant:1", "quiet": True, **given}
    with pytest.raises(InputError, match=message):
        cs.rehearse(**arguments)
