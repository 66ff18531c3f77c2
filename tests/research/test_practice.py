"""The practice study: its logs, its pieces, its scores, its tables and its verdict."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

import cesaro as cs
from cesaro.approximators import MLP
from cesaro.policies import policy, save_actor
from cesaro.reproduce.mujoco import data as mujoco_data
from cesaro.reproduce.mujoco.config import MujocoConfig
from cesaro.reproduce.mujoco.data import log_of, truth_of
from cesaro.reproduce.study import run
from cesaro.suite.fitted_q import inputs_of
from cesaro.suite.systems.pendulum import SMOOTH, Pendulums
from cesaro.worlds import networks, process, training
from research.practice import Config, show
from research.practice import logs as practice_logs
from research.practice.logs import ACTIONS, Remembered, Subject, mujoco_case, pendulum_case, thinned
from research.practice.methods import FQE, GQ1, HIDDEN, SGQ, WORLD, Method, _slowly, methods, moved
from research.practice.run import PracticeResult, Truth

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_starts")]

SMALL: dict[str, Any] = {
    "envs": ("Pendulum-v1", "pendulum"),
    "sigmas": (0.5,),
    "noises": (1.5,),
    "transitions": 1_200,
    "truth_steps": 1_200,
    "rows": 1_000,
    "pendulum_rows": 1_200,
    "maps": ("linear", "fourier:8"),
    "map_seeds": 2,
    "widths": (8,),
    "steps": 64,
    "batch_size": 16,
    "seeds": 2,
    "members": 3,
    "world_widths": (8,),
}


@pytest.fixture(scope="module", autouse=True)
def lenient(adam_is_allowed: None) -> Iterator[None]:
    """It also joins numbers of several ranks. Runs are on threads of their own, which a context would not reach."""
    strict = jax.config.jax_numpy_rank_promotion  # type: ignore[attr-defined]
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", strict)


@pytest.fixture(scope="module", autouse=True)
def often_reset() -> Iterator[None]:
    """A pendulum whose start is soon forgotten, and whose rate takes little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(practice_logs, "GRID", (41, 11))
        patch.setattr(practice_logs, "RESET", 1 / 20)
        practice_logs._pendulum_rate.cache_clear()
        yield
    practice_logs._pendulum_rate.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def rough_worlds() -> Iterator[None]:
    """Soon learned and soon run; an actor that nobody trained leaves its pendulum where it began, which a world would refuse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "MOST_STEPS", 200)
        patch.setattr(networks, "GLANCE", 200)
        for name, value in (("PARTICLES", 20), ("FIRST", 20), ("MOST_STEPS", 140), ("AGREE", 1e9), ("REMEMBERED", 2.0)):
            patch.setattr(process, name, value)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an actor for Pendulum-v1."""
    folder = tmp_path_factory.mktemp("practice")
    rng = np.random.default_rng(0)
    weights, biases = [rng.normal(size=(8, 3)), rng.normal(size=(1, 8))], [np.zeros(8), np.zeros(1)]
    file = folder / "Pendulum-v1.safetensors"
    save_actor(file, weights, biases, activation="relu", squash="tanh", low=[-2.0], high=[2.0])
    return folder


@pytest.fixture(scope="module")
def small(folder: Path) -> tuple[PracticeResult, Path]:
    config = Config(**SMALL, actors=str(folder))
    return run(config, folder / "out", data=folder / "data", workers=1, quiet=True), folder / "out"


def read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_moved_is_the_change_over_the_last_quarters() -> None:
    curves = np.concatenate([np.full((1, 20), 9.0), np.full((1, 10), 1.0), np.full((1, 10), 3.5)], axis=1)
    assert moved(curves).tolist() == [2.5]


def test_a_remembered_policy_answers_as_the_policy_does() -> None:
    case = pendulum_case(1.0, 200, 0)
    then = np.asarray(case.log.next_observations.plain())
    rng, asked = np.random.default_rng(0), []

    def torque(observations: Any) -> Any:
        asked.append(len(observations))
        return np.tanh(observations[:, 2])

    target = policy(torque)
    known = np.tanh(then[:, 2])
    remembered = Remembered(target, case.log, known)
    np.testing.assert_array_equal(remembered.sample(then, rng), known)
    assert asked == []
    np.testing.assert_array_equal(remembered.sample(then[:50], rng), known[:50])
    assert asked == [50]
    remembered.sample(then, rng)[:] = 7
    np.testing.assert_array_equal(remembered.sample(then, rng), known)
    plain, fast = (cs.DiffLSTD("linear", quiet=True).fit(case.log, p).reward_rate_ for p in (target, remembered))
    assert plain == fast


def test_thinned_rows_are_spread_evenly() -> None:
    assert thinned(10, 5).tolist() == [0, 2, 4, 6, 8]
    assert thinned(3, 5).tolist() == [0, 1, 2]
    assert set(np.diff(thinned(1_000_000, 300_000)).tolist()) == {3, 4}


def test_logs_are_those_of_the_mujoco_study(small: tuple[PracticeResult, Path], folder: Path) -> None:
    result = small[0]
    place = ("Pendulum-v1", 0.5)
    own = MujocoConfig(envs=place[:1], sigmas=(0.5,), transitions=1_200, truth_steps=1_200, actors=str(folder))
    log, truth = (mujoco_data.find(r, folder / "data") for r in (log_of(own, place), truth_of(own, place[0])))
    assert log is not None
    assert truth is not None
    arrays, rewards = mujoco_data.load(log), mujoco_data.load(truth)["rewards"]
    found = result.truths[Subject(*place)]
    assert found.rate == pytest.approx(rewards.mean(), rel=1e-6)
    assert found.behavior == pytest.approx(arrays["rewards"].mean(), rel=1e-6)
    assert (found.rows, found.standard_error > 0, found.behavior_error > 0) == (1_000, True, True)
    exact = result.truths[Subject("pendulum", 1.5)]
    assert (exact.standard_error, exact.rows) == (0.0, 1_200)


def test_logged_actions_are_cut_to_the_actuators_bounds(small: tuple[PracticeResult, Path], folder: Path) -> None:
    place = ("Pendulum-v1", 0.5)
    own = MujocoConfig(envs=place[:1], sigmas=(0.5,), transitions=1_200, truth_steps=1_200, actors=str(folder))
    log, truth = (mujoco_data.find(r, folder / "data") for r in (log_of(own, place), truth_of(own, place[0])))
    assert log is not None
    assert truth is not None
    recorded = mujoco_data.load(log)["actions"]
    assert np.abs(recorded).max() > 2  # the recordings of the paper's study stay as chosen
    actor = folder / "Pendulum-v1.safetensors"
    executed, chosen = (mujoco_case(log, truth, actor, 1_200, actions).log.actions.plain() for actions in ACTIONS)
    np.testing.assert_array_equal(chosen, recorded)
    np.testing.assert_array_equal(executed, np.clip(recorded, -2, 2))
    executed, chosen = (pendulum_case(1.5, 1_200, 0, actions).log.actions.plain() for actions in ACTIONS)
    assert np.abs(chosen).max() > 2
    np.testing.assert_array_equal(executed, np.clip(chosen, -2, 2))


def test_pieces_hold_what_the_estimators_give(small: tuple[PracticeResult, Path]) -> None:
    result = small[0]
    case = pendulum_case(1.5, 1_200, 0)
    subject = Subject("pendulum", 1.5)
    for seed in range(2):
        fitted = cs.DiffLSTD("fourier:8", random_state=seed, quiet=True).fit(case.log, case.policy)
        assert result.found[subject, "fourier:8"][seed] == pytest.approx(fitted.reward_rate_, rel=1e-9)
    settings: dict[str, Any] = {"step_size": 3e-4, "steps": 64, "batch_size": 16, "seeds": 2, "quiet": True}
    # The study's own target object, so that its compiled program is found again.
    learned = cs.Learned("diff-sgq", approximator=MLP((8,)), target=_slowly(0.005), **settings)
    learned.fit(case.log, case.policy)
    hidden = cs.DiffLSTD(learned, quiet=True).fit(case.log, case.policy)
    np.testing.assert_allclose(result.found[subject, SGQ], learned.seed_rates_, rtol=1e-5)
    np.testing.assert_allclose(result.found[subject, f"{SGQ}.offline"], learned.offline_rates_, rtol=1e-4)
    np.testing.assert_allclose(result.found[subject, HIDDEN], hidden.seed_rates_, rtol=1e-3)
    # Fitted Q's inputs are those of Learned.
    rows = inputs_of(case.log, case.policy, 0)
    values = learned.members_.values(0, rows.x_next) - learned.members_.values(0, rows.x)
    offline = float(np.mean(case.log.rewards + learned.scale_ * values))
    assert offline == pytest.approx(learned.offline_rates_[0], rel=1e-6)


def test_every_method_answers_with_every_seed(small: tuple[PracticeResult, Path]) -> None:
    result = small[0]
    for e in result.estimates:
        expected = {"linear": 1, WORLD: 3}.get(e.method.name, 2)
        assert np.isfinite(e.rates).sum() == len(e.rates) == expected, (e.subject, e.method, e.note)
        assert e.low <= e.value <= e.high
        assert math.isfinite(e.moved) == (e.method.name in (SGQ, GQ1, FQE))
        assert math.isfinite(e.offline) == (e.method.name in (SGQ, GQ1))


def test_files_hold_what_was_computed(small: tuple[PracticeResult, Path]) -> None:
    result, out = small
    rows = read(out / "practice.csv")
    assert len(rows) == len(result.estimates) == 2 * 7
    for row, e in zip(rows, result.estimates):
        assert (row["env"], float(row["sigma"]), row["method"]) == (*e.subject, e.method.label)
        assert float(row["median"]) == pytest.approx(np.median(e.rates), rel=1e-5)
        assert float(row["error"]) == pytest.approx(np.median(e.rates) - e.truth.rate, rel=1e-3, abs=1e-5)
    seeds = read(out / "seeds.csv")
    assert len(seeds) == sum(len(e.rates) for e in result.estimates) == 2 * (1 + 5 * 2 + 3)
    assert [row["method"] for row in read(out / "methods.csv")] == [m.label for m in methods(result.config)]


ONE, TWO = Subject("a", 0.1), Subject("b", 0.9)


def made(**rates: list[list[float]]) -> PracticeResult:
    """A result of two logs with truth 2 and behavior 1, and a third without a yardstick; rates by method and log."""
    config = Config(maps=("linear",), envs=("a", "b", "c"), noises=())
    truths = {ONE: Truth(2.0, 0.01, 1.0, 0.01, 9), TWO: Truth(2.0, 0.0, 1.0, 0.0, 9)}
    truths[Subject("c", 0.5)] = Truth(2.0, 0.3, 1.0, 0.0, 9)
    names = {"linear": "linear", "sgq": SGQ, "hidden": HIDDEN, "gq1": GQ1, "fqe": FQE, "world": WORLD}
    found = {
        (subject, names[name]): np.array(values)
        for name, logs in rates.items()
        for subject, values in zip(truths, logs)
    }
    found[ONE, f"{SGQ}.moved"] = np.array([0.01, -0.2])
    found[TWO, f"{SGQ}.note"] = np.array(["All runs diverged."])
    return PracticeResult(config, truths, found, {})


RESULT = made(
    linear=[[1.5], [3.0], [0.0]],
    sgq=[[1.9, 2.2, 1.6], [math.nan, math.nan], [0.0]],
    hidden=[[2.5, 2.5], [1.5, 2.1], [2.0]],
    gq1=[[1.1], [1.2], [9.0]],
    fqe=[[1.4], [2.0], [0.0]],
    world=[[1.0], [3.0], [0.0]],
)


def by_name(name: str) -> Method:
    return next(method for method in methods(RESULT.config) if method.name == name)


def test_scores_are_in_gaps_and_leave_out_logs_without_one() -> None:
    assert RESULT.clear == [ONE, TWO]
    linear, sgq, hidden, gq1 = (RESULT.scores[by_name(name)] for name in ("linear", SGQ, HIDDEN, GQ1))
    assert (linear.mean, linear.worst, linear.answered, linear.logs) == (0.75, 1.0, 2, 2)
    assert linear.beaten == 1  # an error as large as the gap is no gain
    assert (round(sgq.mean, 9), sgq.answered, sgq.beaten, sgq.moving) == (0.1, 1, 0, 1)
    assert round(sgq.spread, 9) == 0.6
    assert round(hidden.mean, 9) == 0.35
    assert (gq1.near_behavior, linear.near_behavior) == (2, 0)
    nearest = {subject: method.name for subject, method in RESULT.nearest.items() if method is not None}
    assert nearest == {ONE: SGQ, TWO: FQE}


def test_the_verdict_says_what_was_found() -> None:
    lines = show.verdict(RESULT)
    assert lines[0].startswith("Without a yardstick, as truth and behavior are within 4 standard errors: c 0.5")
    # Fitted Q 0.3, hidden 0.35, linear 0.75, Diff-GQ1 0.85; Diff-SGQ has no answer on a log and is not ranked.
    order = [f"{by_name(name).label} {mean}" for name, mean in ((FQE, "0.30"), (HIDDEN, "0.35"), ("linear", "0.75"))]
    assert ", ".join(order) in lines[1]
    assert "neural Diff-SGQ" not in lines[1]
    assert lines[2] == "Nearest to the truth, of 2 logs: neural Diff-SGQ 1, fitted Q 0.99 1."
    assert lines[3].startswith(
        "Neural Diff-GQ1 stays near the mean logged reward: within 25 % of the gap on 2 of 2 logs"
    )
    assert "closes 15 % of the gap" in lines[3]
    assert "neural Diff-SGQ on 1 of 2 logs" in lines[4]
    assert lines[4].startswith("NOT settled")
    assert lines[5] == "Without an answer: neural Diff-SGQ on b 0.9 (2 of 2 seeds: All runs diverged)."
    away = made(linear=[[1.0]] * 3, gq1=[[2.0], [1.9], [1.0]])
    assert any("does NOT stay near" in line for line in show.verdict(away))


def test_the_figure_shows_every_log_and_the_edges() -> None:
    figure = show.plot(RESULT)
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == ["a, noise 0.1", "b, noise 0.9", "c, noise 0.5"]
    labels = [tick.get_text() for tick in panels[0].get_yticklabels()]
    assert labels == [method.label for method in methods(RESULT.config)]
    # Truth 2 and behavior 1, with as much again on either side.
    assert all(panel.get_xlim() == (0.0, 3.0) for panel in panels)
    assert [text.get_text() for text in panels[1].texts] == ["no answer"]


def test_tables_show_medians_and_spans() -> None:
    console = Console(highlight=False, width=80)
    with console.capture() as capture:
        show.print_tables(RESULT, console)
    assert "1.90, 1.60 … 2.20" in capture.get()


def test_the_full_study_has_fifteen_logs() -> None:
    assert len(Config().subjects) == 15
    assert [subject.label for subject in Config(sigmas=(0.5,), noises=(0.5,)).subjects][-2:] == [
        "Swimmer-v5 0.5",
        "pendulum 0.5",
    ]


def test_pendulums_are_logged_with_noise_and_resets() -> None:
    """Next states are those of the next row, new starts after a reset, and rewards are those of the actions as drawn."""
    log = practice_logs.pendulum_log(1.5, 20_000, np.random.default_rng(0))
    seen, then = (np.asarray(values.plain()) for values in (log.observations, log.next_observations))
    actions = np.asarray(log.actions.plain())
    assert (actions - SMOOTH(seen)).std() == pytest.approx(1.5, rel=0.03)
    assert np.abs(actions).max() > 4
    following, rewards = Pendulums(np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2]).step(actions)
    np.testing.assert_allclose(log.rewards, rewards, atol=1e-9)
    assert (then.reshape(20, -1, 3)[:, :-1] == seen.reshape(20, -1, 3)[:, 1:]).all()
    was_reset = np.abs(following.observe() - then).max(axis=1) > 1e-9
    assert was_reset.mean() == pytest.approx(1 / 20, abs=5 * math.sqrt(0.0475 / 20_000))
    assert np.abs(then[was_reset, 2]).max() <= 1
    assert log.counts["trajectories"] == 20
