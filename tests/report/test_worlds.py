"""Views of an answer from a learned world, against means and counts written out here."""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import cesaro as cs
from cesaro.data.values import Categories
from cesaro.diagnostics.worlds import Residual
from cesaro.report.html import evaluation_page
from cesaro.report.pictures import OF_WORLDS, pictures, rates_picture
from cesaro.report.style import svg
from cesaro.worlds import WorldRate, estimator, networks, process, training

pytestmark = pytest.mark.slow
ROWS = 2_000


@pytest.fixture(scope="module")
def answer(adam_is_allowed: None) -> Iterator[cs.Evaluation]:
    """The target pushes level and queue up, and leaves the mode alone; badly learned, which pictures do not mind."""
    rng = np.random.default_rng(0)
    level, queue, push = np.zeros(ROWS), np.zeros(ROWS), rng.normal(size=ROWS)
    mode = np.array(["busy", "idle", "night <b>"])[rng.integers(0, 3, ROWS)]
    for t in range(ROWS - 1):
        level[t + 1] = 0.5 * level[t] + push[t] + 0.2 * rng.normal()
        queue[t + 1] = max(0, np.floor(0.5 * queue[t] + 2 * push[t])) + rng.poisson(16)
    seen = {"level": level, "queue": queue, "mode": mode, "site": np.ones(ROWS)}
    log = cs.Transitions(seen, push, level - queue, kinds={"queue": "number", "site": "number"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "MOST_STEPS", 200)
        patch.setattr(networks, "GLANCE", 200)
        for name, few in (("PARTICLES", 40), ("FIRST", 50), ("MOST_STEPS", 350)):
            patch.setattr(process, name, few)
        patch.setattr(estimator, "residual", lambda *given: Residual(0.0, 0.01, 1_000.0, 0.0, 0.0))
        yield cs.evaluate(log, lambda seen: 0 * seen["level"] + 1, method="world", members=2, widths=(8,), quiet=True)


def world(answer: cs.Evaluation) -> WorldRate:
    assert isinstance(answer.estimator, WorldRate)
    return answer.estimator


def test_stretches_of_rollouts_are_means_of_their_steps(answer: cs.Evaluation) -> None:
    rates, view = world(answer).rates_, answer.views.rollouts
    assert view is not None
    assert view.reward.shape == (2, 60)
    assert (view.edges[0], view.edges[-1]) == (0, rates.steps)
    for k in (0, 31, 59):
        steps = rates.trace[:, view.edges[k] : view.edges[k + 1]]
        np.testing.assert_allclose(view.reward[:, k], steps.mean(axis=1))
    # Rates are means of what comes after the burn-in.
    assert 0 < view.burn_in < rates.steps
    np.testing.assert_allclose(view.rates, rates.trace[:, view.burn_in :].mean(axis=1))
    assert view.logged == answer.behavior.value


def test_occupancy_counts_the_log_and_the_rollouts_in_the_same_bins(answer: cs.Evaluation) -> None:
    seen, log = world(answer).rates_.seen, world(answer).prepared_.sample.rows.observations
    assert seen is not None
    found = {one.name: one for one in answer.views.occupancy}
    assert set(found) == {"level", "queue", "mode"}  # the site is constant, and tells nothing
    common = [one.common for one in answer.views.occupancy]
    assert common == sorted(common)
    for values, kind in ((log, "logged"), (seen[0], "target")):
        level, queue, mode, _ = values.columns
        assert isinstance(mode, Categories)
        shares = {name: getattr(one, kind) for name, one in found.items()}
        np.testing.assert_allclose(shares["mode"], [(mode.codes == k).mean() for k in range(3)])
        edges = found["queue"].edges
        assert edges is not None
        assert (np.diff(edges) == 2).all()  # whole numbers, two to a bin
        inside = [((low < queue) & (queue < high)).mean() for low, high in pairwise(edges[1:-1])]
        np.testing.assert_allclose(shares["queue"][1:-1], inside, atol=1e-12)
        edges = found["level"].edges
        assert edges is not None
        assert shares["level"][0] == pytest.approx((level < edges[1]).mean())  # what lies further out as well
        assert shares["level"].sum() == pytest.approx(1)
    assert found["mode"].common == pytest.approx(1 - abs(found["mode"].logged - found["mode"].target).sum() / 2)


@pytest.mark.usefixtures("blank_pictures")
def test_the_page_and_the_folder_have_both_pictures_and_none_of_values(answer: cs.Evaluation, tmp_path: Path) -> None:
    answer.save(tmp_path / "answer")
    files = {file.name for file in (tmp_path / "answer").glob("*.png")}
    assert files == {"rates.png", "reward.png", "support.png", "rollouts.png", "occupancy.png"}
    page = (tmp_path / "answer/report.html").read_text(encoding="utf-8")
    assert re.findall(r'id="p1-(\w+)"', page) == ["reward", "support", "rollouts", "occupancy"]
    assert "Reward in the learned process" in page
    assert "Where the target goes" in page
    assert "gains and loses" not in page
    assert "Values" not in page
    assert "paired" not in page  # the answer does not come from rows
    (tmp_path / "answer/.cesaro").unlink()  # as older versions left folders, known by the names of their files
    answer.save(tmp_path / "answer", force=True)


@pytest.mark.parametrize("kind", OF_WORLDS)
def test_pictures_follow_the_theme_and_keep_labels_as_text(answer: cs.Evaluation, kind: str) -> None:
    drawn = svg(answer.plot(kind), "p", "")
    assert "var(--target)" in drawn
    assert "var(--log)" in drawn
    assert ("night &lt;b&gt;" in drawn) == (kind == "occupancy")


def test_costs_have_one_sign_in_rollouts(answer: cs.Evaluation) -> None:
    (shown,) = pictures(replace(answer, cost="bill"), ("rollouts",))
    assert shown.title == "Cost in the learned process"
    assert f"the log's is {-answer.behavior.value:.4g}." in shown.alt
    (axes,) = shown.figure.axes
    view = answer.views.rollouts
    assert view is not None
    np.testing.assert_allclose(axes.patches[1].get_data().values, -view.reward[0])


def test_equal_rewards_have_no_rollouts(answer: cs.Evaluation) -> None:
    """The errors of networks would be all there is to see."""
    equal = copy(answer.estimator)
    equal.facts_ = replace(equal.facts_, low=1.0, high=1.0)
    found = replace(answer, estimator=equal)
    assert found.views.occupancy
    with pytest.raises(cs.InputError, match="There is no picture of rollouts: all rewards are equal"):
        found.plot("rollouts")


def test_answers_without_rollouts_say_why() -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 1_000)
    state = np.concatenate([[0], np.cumsum(action)[:-1]]) % 3
    log = cs.Transitions(state, action, (state == 2) + rng.normal(size=1_000))
    exact = cs.evaluate(log, "uniform", method="world", quiet=True)
    closed, logged = (cs.evaluate(log, policy, quiet=True) for policy in ("uniform", "logged"))
    for kind in OF_WORLDS:
        for answer, why in (
            (exact, "the log is discrete, and the rate in its process is exact"),
            (closed, "the target was run in no learned process"),
            (logged, "the policy is the log itself"),
        ):
            with pytest.raises(cs.InputError, match=f"^There is no picture of {kind}: {why}; take kind='rates'.$"):
                answer.plot(kind)
    assert [picture.name for picture in pictures(exact)] == ["reward", "support"]
    assert "Values" not in evaluation_page(exact, [rates_picture(exact), *pictures(exact)])
    compared = cs.compare(log, {"both": "uniform", "one": "constant:1"}, method="world", quiet=True)
    assert "Paired" not in str(compared)
