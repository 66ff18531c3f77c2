"""Answers of several kinds: pooled by hand, paired, without a vote, and by default."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import cesaro as cs
from cesaro import panel as panels
from cesaro.cli import app
from cesaro.diagnostics.panel import panel_findings
from cesaro.diagnostics.worlds import Residual, WorldFacts
from cesaro.errors import InputError
from cesaro.estimators import DiffLSTD
from cesaro.panel import QUANTILE, Opinion, equivalent, pooled
from cesaro.passes.standard_errors import Estimate

# A linear system with quadratic rewards: x' = 0.8 x + 0.5 a + noise, r = −x² − 0.1 a².
NOISE = 0.3


def _log(rows: int = 2_000, seed: int = 0) -> cs.Transitions:
    rng = np.random.default_rng(seed)
    count = 20
    steps = rows // count
    x, a = np.zeros((steps + 1, count)), np.zeros((steps, count))
    for t in range(steps):
        a[t] = -0.2 * x[t] + 0.5 * rng.normal(size=count)
        x[t + 1] = 0.8 * x[t] + 0.5 * a[t] + NOISE * rng.normal(size=count)
    rewards = -(x[:-1] ** 2) - 0.1 * a**2
    columns = (x[:-1].T.ravel(), a.T.ravel(), rewards.T.ravel(), x[1:].T.ravel())
    return cs.Transitions(*columns, trajectory=np.repeat(np.arange(count), steps))


def _gain(gain: float) -> Any:
    def policy(observations: Any, rng: np.random.Generator) -> Any:
        return gain * observations

    return policy


def _truth(gain: float) -> float:
    """The stationary variance of x under a = gain x."""
    variance = NOISE**2 / (1 - (0.8 + 0.5 * gain) ** 2)
    return -(1 + 0.1 * gain**2) * variance


def test_pooling_by_hand() -> None:
    """Two of one kind with errors 0.1 and 0.2, twenty times as far apart as they would be by chance, and one of another."""
    found = pooled([1.0, 2.0, 3.0], [0.1, 0.2, 0.5], ["a", "a", "b"])
    # Precisions of 100 and 25 give a mean of 1.2, Q = 100 · 0.04 + 25 · 0.64 = 20, and (20 − 1) / (125 − 85) = 0.475.
    one, other = 1 / (0.01 + 0.475), 1 / (0.04 + 0.475)
    own = one / (one + other)
    first = own + 2 * (1 - own)
    error = math.hypot(0.1 * own + 0.2 * (1 - own), math.sqrt(own * (1 - first) ** 2 + (1 - own) * (2 - first) ** 2))
    share = error**-2 / (error**-2 + 0.5**-2)
    value = share * first + (1 - share) * 3.0
    assert found.value == pytest.approx(value)
    one, other = share * error, (1 - share) * 0.5
    within = one**2 + other**2 + one * other  # a correlation of one half
    between = share * (first - value) ** 2 + (1 - share) * (3.0 - value) ** 2
    assert found.error == pytest.approx(math.sqrt(within + between))
    assert found.weights == pytest.approx([own * share, (1 - own) * share, 1 - share])
    again = pooled([1.0, 2.0, 3.0], [0.1, 0.2, 0.5], ["a", "a", "b"], found.weights)
    assert (again.value, again.error) == pytest.approx((found.value, found.error))


def test_a_number_that_says_nothing_changes_nothing() -> None:
    """Nobody disagrees beyond noise here, so that precisions alone count."""
    assert pooled([1.0, 2.0], [1e-9, 1e9], ["a", "a"]).value == pytest.approx(1.0)
    pair, three = (pooled([1.0, 1.3, 6.0][:n], [0.1, 0.5, 80.0][:n], ["a"] * n) for n in (2, 3))
    assert pair.weights == pytest.approx([25 / 26, 1 / 26])
    assert three.weights == pytest.approx([25 / 26, 1 / 26, 0], abs=1e-5)
    assert (three.value, three.error) == pytest.approx((pair.value, pair.error), rel=1e-2)


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_numbers_without_errors_that_agree_have_none_together(value: float) -> None:
    """As policies that act alike have, whose differences are zero, or answers on a log without noise."""
    found = pooled([value] * 3, [0.0, 0.0, 1e-18], ["a", "a", "b"])
    assert found.value == pytest.approx(value)
    assert found.error == 0
    assert sum(found.weights) == pytest.approx(1)
    assert sum(found.parts) == pytest.approx(1)


def test_what_agrees_is_surer_than_what_does_not() -> None:
    """Errors of one kind do not average out, those of two kinds do in part, and what they are apart enters in full."""
    assert pooled([1.0, 1.0], [0.1, 0.1], ["a", "a"]).error == pytest.approx(0.1)
    assert pooled([1.0, 1.0], [0.1, 0.1], ["a", "b"]).error == pytest.approx(0.1 * math.sqrt(0.75))
    assert pooled([1.0, 3.0], [0.1, 0.1], ["a", "b"]).error > 1.0


def test_errors_are_of_intervals_as_wide() -> None:
    plain, few = Estimate(1.0, 0.1, np.inf), Estimate(1.0, 0.1, 4.0, 0.05, 0.05)
    assert equivalent(plain) == pytest.approx(0.1)
    low, high = few.interval(0.95)
    assert QUANTILE * equivalent(few) == pytest.approx((high - low) / 2)


def _facts(control: float | None) -> WorldFacts:
    return WorldFacts(control, 0.01, None, None, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(("control", "votes"), [(0.0, True), (0.15, True), (5.0, False), (None, False)])
def test_a_world_unlike_the_log_has_no_vote(control: float | None, votes: bool) -> None:
    """The log earned 0 ± 0.05; the interval is about 0.2 wide on each side."""
    closed = Opinion("auto", "closed form", Estimate(1.0, 0.1, np.inf), Estimate(1.0, 0.1, np.inf))
    world = Opinion("world", "world", Estimate(1.2, 0.1, np.inf), Estimate(1.2, 0.1, np.inf))
    found = panels._together([closed, world], Estimate(0.0, 0.05, np.inf), _facts(control))
    assert [one.weight > 0 for one in found.opinions] == [True, votes]
    assert sum(one.weight for one in found.opinions) == pytest.approx(1.0)
    assert found.estimate.value == pytest.approx(1.1 if votes else 1.0)
    assert found.against_log.value == pytest.approx(found.estimate.value)
    if not votes:
        assert "what the log does" in found.opinions[1].note
        assert found.facts.world is None


@pytest.mark.parametrize(
    ("off", "error", "control", "further"),
    [
        (0.4, 0.1, 0.0, (0.0, 0.5)),  # the world says 1.2, the panel 1.1, and rows point to 1.6
        (-0.4, 0.1, 0.0, (0.3, 0.0)),
        (-0.1, 0.01, 0.0, (0.0, 0.0)),  # to where the panel is
        (0.4, 0.3, 0.0, (0.0, 0.0)),  # noise
        (0.4, 0.1, 5.0, (0.0, 0.0)),  # the world has no vote
    ],
)
def test_an_interval_reaches_where_held_out_rows_point(
    off: float, error: float, control: float, further: tuple[float, float]
) -> None:
    """To one side, beyond noise, and if the world has a vote."""
    opinions = [
        Opinion("auto", "closed form", Estimate(1.0, 0.1, np.inf), Estimate(1.0, 0.1, np.inf)),
        Opinion("world", "world", Estimate(1.2, 0.1, np.inf), Estimate(1.2, 0.1, np.inf)),
    ]
    facts = replace(_facts(control), residual=Residual(off, error, 100.0, 0.0, 0.0))
    found = panels._together(opinions, Estimate(0.0, 0.05, np.inf), facts)
    for estimate in (found.estimate, found.against_log, found.facts.target):
        assert (estimate.below, estimate.above) == pytest.approx(further)
    other = panels._together(opinions, Estimate(0.0, 0.05, np.inf), _facts(0.0))
    assert (found.minus(other).below, found.minus(other).above) == pytest.approx(further)
    assert (other.minus(found).below, other.minus(found).above) == pytest.approx(further[::-1])
    told = [entry.name for entry in panel_findings(found.facts, ())]
    assert ("held-out rows" in told) == (control == 0.0)


def test_networks_are_shown_and_have_no_vote() -> None:
    opinions = [
        Opinion("auto", "closed form", Estimate(1.0, 0.1, np.inf), Estimate(1.0, 0.1, np.inf)),
        Opinion("world", "world", Estimate(1.2, 0.1, np.inf), Estimate(1.2, 0.1, np.inf)),
    ]
    network = Opinion("network", "network", Estimate(9.0, 0.01, np.inf), Estimate(9.0, 0.01, np.inf), panels.NO_VOTE)
    logged = Estimate(0.0, 0.05, np.inf)
    without, found = (panels._together([*opinions, *more], logged, _facts(0.0)) for more in ([], [network]))
    assert (found.estimate, found.against_log) == (without.estimate, without.against_log)
    assert found.opinions[-1] == network
    assert [one.name for one in found.voting] == ["auto", "world"]


def test_effort_is_checked() -> None:
    log = _log(200)
    with pytest.raises(InputError, match=r"effort must be one of none, quick, full\. Got 'much'"):
        cs.evaluate(log, _gain(-0.4), effort="much")
    with pytest.raises(InputError, match=r'needs the default method and features\. Got method="world"'):
        cs.evaluate(log, _gain(-0.4), effort="quick", method="world")
    with pytest.raises(InputError, match=r'needs the default method and features\. Got features="linear"'):
        cs.evaluate(log, _gain(-0.4), effort="full", features="linear")
    answer = cs.evaluate(log, _gain(-0.4), features="polynomial:2", quiet=True)
    assert (answer.effort, answer.panel) == ("none", None)
    assert answer.interval() == answer.interval(of="limit")
    with pytest.raises(InputError, match="of must be 'rate' or 'limit'"):
        answer.interval(of="truth")


@pytest.mark.panel
def test_a_log_that_is_too_short_for_a_world_is_answered_by_closed_forms() -> None:
    answer = cs.evaluate(_log(80), _gain(-0.3), quiet=True)
    assert answer.effort == "quick"
    assert answer.panel is not None
    world = answer.panel.opinions[-1]
    assert (world.name, world.estimate, world.weight) == ("world", None, 0.0)
    assert "A learned process needs 50 rows for each of its 2 inputs" in world.note
    (found,) = (entry for entry in answer.diagnostics if entry.name == "agreement of kinds")
    assert found.verdict == "caution"


def test_a_long_log_is_answered_from_all_rows_and_compared_on_an_excerpt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other features on all rows, those that are moved from an excerpt have the same values, up to its noise."""

    def refuse() -> cs.World:
        raise InputError("No world here.")

    log, policy = _log(8_000), _gain(-0.3)
    base, other = (DiffLSTD(quiet=True).fit(log, one) for one in (policy, _gain(-0.5)))
    whole = panels.ask_panel(base, world=refuse, run=cs.Run(quiet=True))
    monkeypatch.setattr(panels, "MOST_ROWS", 4_000)
    part, beside = (panels.ask_panel(one, world=refuse, run=cs.Run(quiet=True)) for one in (base, other))
    assert (whole.excerpt, part.excerpt) == (None, 4_000)
    assert part.opinions[0].estimate == base.estimate_
    for one, all_rows in zip(part.opinions[1:-1], whole.opinions[1:-1], strict=True):
        assert one.estimate is not None
        assert all_rows.estimate is not None
        assert one.estimate.value == pytest.approx(all_rows.estimate.value, abs=4 * one.estimate.standard_error)
        assert one.estimate.standard_error >= base.estimate_.standard_error
        assert one.against_log is not None
        assert one.against_log.value == pytest.approx(one.estimate.value - base.behavior_.value)
        twin = next(entry for entry in beside.opinions if entry.name == one.name)
        difference = one.minus(twin)
        assert difference is not None
        assert twin.estimate is not None
        assert difference.value == pytest.approx(one.estimate.value - twin.estimate.value)
        assert difference.standard_error < math.hypot(one.estimate.standard_error, twin.estimate.standard_error)
    low, high = part.estimate.interval()
    assert low < _truth(-0.3) < high


def _discrete(rows: int = 400) -> cs.Transitions:
    """Three states; one of the two actions is rare."""
    rng = np.random.default_rng(1)
    states, actions = np.zeros(rows, np.int64), (rng.random(rows) < 0.03).astype(np.int64)
    for t in range(rows - 1):
        states[t + 1] = (states[t] + 1) % 3 if rng.random() < 0.3 + 0.4 * actions[t] else states[t]
    return cs.Transitions(states, actions, (states == 2) + 0.0)


@pytest.mark.panel
def test_rare_pairs_widen_a_discrete_log() -> None:
    answer = cs.evaluate(_discrete(), "constant:1", quiet=True)
    immediate = cs.evaluate(_discrete(), "constant:1", effort="none", quiet=True)
    assert answer.interval(of="limit") == immediate.interval()
    low, high = answer.interval()
    inner = answer.interval(of="limit")
    assert low < inner[0]
    assert high > inner[1]
    assert answer.reward_rate == immediate.reward_rate
    few, many = (
        next(entry for entry in one.diagnostics if entry.name == "rare pairs")
        for one in (answer, cs.evaluate(_discrete(40_000), "constant:1", quiet=True))
    )
    assert few.value is not None
    assert many.value is not None
    assert few.value > 4 * many.value
    assert few.widens == pytest.approx((inner[0] - low, high - inner[1]))


@pytest.mark.slow
@pytest.mark.panel
@pytest.mark.usefixtures("adam_is_allowed")
def test_the_default_holds_the_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two policies on one log, whose world is learned once; intervals hold what the closed form says."""
    fits = []
    fit = cs.World.fit

    def counted(self: cs.World, log: Any) -> cs.World:
        fits.append(self.members)
        return fit(self, log)

    monkeypatch.setattr(cs.World, "fit", counted)
    gains = {"strong": -0.6, "weak": -0.3}
    found = cs.compare(_log(), {name: _gain(gain) for name, gain in gains.items()}, quiet=True)
    assert fits == [10]
    for name, gain in gains.items():
        answer = found.evaluations[name]
        assert answer.panel is not None
        low, high = answer.interval()
        assert low < _truth(gain) < high
        assert [one.kind for one in answer.panel.opinions].count("world") == 1
        assert sum(one.weight for one in answer.panel.opinions) == pytest.approx(1.0)
        assert answer.difference.value == pytest.approx(answer.reward_rate - answer.behavior.value)
        assert isinstance(answer.estimator, DiffLSTD)
        assert "agreement of features" not in {entry.name for entry in answer.diagnostics}
        assert json.loads(json.dumps(answer.to_dict()))["candidates"][-1]["name"] == "world"
    difference = found.differences["strong", "weak"]
    strong, weak = (found.evaluations[name].target for name in gains)
    assert difference.value == pytest.approx(strong.value - weak.value)
    assert difference.standard_error < math.hypot(strong.standard_error, weak.standard_error)  # paired
    low, high = difference.interval()
    assert low < _truth(-0.6) - _truth(-0.3) < high
    found.evaluations["weak"].save(tmp_path / "answer")
    assert (tmp_path / "answer/candidates.png").exists()
    assert "What each candidate says" in (tmp_path / "answer/report.txt").read_text(encoding="utf-8")
    again = cs.evaluate(_log(), _gain(-0.6), name="strong", quiet=True)
    assert again.target == strong  # deterministic, alone as in a comparison


def test_rehearse_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    states, actions = np.cumsum(rng.integers(0, 2, 600)) % 3, rng.integers(0, 2, 600)
    columns = {"state": [f"s{k}" for k in states], "action": [f"a{k}" for k in actions], "reward": states == 2}
    pandas.DataFrame(columns).to_csv("log.csv", index=False)
    asked = ["rehearse", "log.csv", "--policy", "uniform", "--worlds", "5", "--quiet"]
    done = CliRunner().invoke(app, [*asked, "--out", "out"])
    assert done.exit_code == 0, done.output
    assert "In 5 systems that were learned from this log" in done.stdout
    assert {file.name for file in Path("out").iterdir() if file.suffix} == {
        "rehearsal.txt",
        "rehearsal.json",
        "errors.png",
    }
    document = CliRunner().invoke(app, [*asked, "--json"])
    assert json.loads(document.stdout)["schema"] == "cesaro-rehearsal/1"
    assert CliRunner().invoke(app, [*asked, "--policy", "logged"]).exit_code == 2
    wrong = CliRunner().invoke(app, [*asked, "--candidate", "nonsense"])
    assert wrong.exit_code == 2
    for part in ("--candidate must name methods (auto, ", "polynomial", "Got 'nonsense'", "take one of these"):
        assert part in " ".join(wrong.stderr.split())
    unit = CliRunner().invoke(app, [*asked, "--unit", "€ per hour"])
    assert "€ per hour" in unit.stdout
    assert "Do these systems resemble the log?" in unit.stdout
    refused = CliRunner().invoke(app, [*asked, "--out", "out"])
    assert refused.exit_code == 2
    assert "add --force to replace it" in refused.stderr
