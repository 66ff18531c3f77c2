"""The practice study: fitted Q against a linear solve, its logs, its pieces, its scores, its tables and its verdict."""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import cesaro as cs
from cesaro.algorithms.saddle_point import tracked
from cesaro.approximators import MLP
from cesaro.cli import app
from cesaro.commands.reproduce import practice_settings
from cesaro.errors import InputError
from cesaro.policies import policy, save_actor
from cesaro.reproduce import mujoco, practice
from cesaro.reproduce.mujoco import data as mujoco_data
from cesaro.reproduce.practice import QUICK, Config, run, show
from cesaro.reproduce.practice import logs as practice_logs
from cesaro.reproduce.practice.fqe import fitted_q, inputs_of, moved
from cesaro.reproduce.practice.logs import ACTIONS, Remembered, Subject, mujoco_case, pendulum_case, thinned
from cesaro.reproduce.practice.methods import FQE, GQ1, HIDDEN, SGQ, WORLD, Method, _slowly, fits, methods
from cesaro.reproduce.practice.result import Result, Truth
from cesaro.worlds import networks, process, training

# The module: `run` of the package is the function.
practice_run: Any = import_module("cesaro.reproduce.practice.run")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_starts")]

FILES = [".cesaro", "manifest.json", "methods.csv", "practice.csv", "practice.png", "seeds.csv"]
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
def small(folder: Path) -> tuple[Result, Path]:
    config = Config(**SMALL, actors=str(folder))
    return run(config, folder / "out", data=folder / "data", workers=1, quiet=True), folder / "out"


def read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_fitted_q_solves_the_discounted_equations() -> None:
    # Five states in all proportions: the empirical equations have an exact solution. Averages of runs are within the noise of
    # Adam's last steps, far below the tolerance; the seed is fixed.
    rng = np.random.default_rng(1)
    here, there = rng.integers(5, size=(2, 400))
    rewards = 100 + 3 * here + rng.normal(size=400)
    discount, chain, mean = 0.9, np.zeros((5, 5)), np.zeros(5)
    for state in range(5):
        mean[state] = rewards[here == state].mean()
        chain[state] = np.bincount(there[here == state], minlength=5) / (here == state).sum()
    values = np.linalg.solve(np.eye(5) - discount * chain, mean)
    exact = (1 - discount) * values[there].mean()
    found = fitted_q(
        cs.FeatureTransitions(np.eye(5)[here], rewards, np.eye(5)[there]),
        approximator=MLP(()),
        discount=discount,
        steps=4_000,
        batch_size=64,
        step_size=0.01,
        target=tracked(0.1),
        seeds=3,
    )
    # The mean logged reward is off by more than the tolerance, so that the start does not pass.
    assert abs(rewards.mean() - exact) > 0.1
    np.testing.assert_allclose(found.rates, exact, atol=0.05)
    np.testing.assert_allclose(found.tracked[:, -10:].mean(axis=1), exact, atol=0.1)


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


def test_logs_are_those_of_the_mujoco_study(small: tuple[Result, Path], folder: Path) -> None:
    result = small[0]
    place = ("Pendulum-v1", 0.5)
    own = mujoco.Config(envs=place[:1], sigmas=(0.5,), transitions=1_200, truth_steps=1_200, actors=str(folder))
    log, truth = (mujoco_data.find(r, folder / "data") for r in (own.log(place), own.truth(place[0])))
    assert log is not None
    assert truth is not None
    arrays, rewards = mujoco_data.load(log), mujoco_data.load(truth)["rewards"]
    found = result.truths[Subject(*place)]
    assert found.rate == pytest.approx(rewards.mean(), rel=1e-6)
    assert found.behavior == pytest.approx(arrays["rewards"].mean(), rel=1e-6)
    assert (found.rows, found.standard_error > 0, found.behavior_error > 0) == (1_000, True, True)
    exact = result.truths[Subject("pendulum", 1.5)]
    assert (exact.standard_error, exact.rows) == (0.0, 1_200)


def test_logged_actions_are_cut_to_the_actuators_bounds(small: tuple[Result, Path], folder: Path) -> None:
    place = ("Pendulum-v1", 0.5)
    own = mujoco.Config(envs=place[:1], sigmas=(0.5,), transitions=1_200, truth_steps=1_200, actors=str(folder))
    log, truth = (mujoco_data.find(r, folder / "data") for r in (own.log(place), own.truth(place[0])))
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


def test_pieces_hold_what_the_estimators_give(small: tuple[Result, Path]) -> None:
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


def test_every_method_answers_with_every_seed(small: tuple[Result, Path]) -> None:
    result = small[0]
    for e in result.estimates:
        expected = {"linear": 1, WORLD: 3}.get(e.method.name, 2)
        assert np.isfinite(e.rates).sum() == len(e.rates) == expected, (e.subject, e.method, e.note)
        assert e.low <= e.value <= e.high
        assert math.isfinite(e.moved) == (e.method.name in (SGQ, GQ1, FQE))
        assert math.isfinite(e.offline) == (e.method.name in (SGQ, GQ1))


def test_files_hold_what_was_computed(small: tuple[Result, Path]) -> None:
    result, out = small
    assert sorted(file.name for file in out.iterdir()) == FILES
    rows = read(out / "practice.csv")
    assert len(rows) == len(result.estimates) == 2 * 7
    for row, e in zip(rows, result.estimates):
        assert (row["env"], float(row["sigma"]), row["method"]) == (*e.subject, e.method.label)
        assert float(row["median"]) == pytest.approx(np.median(e.rates), rel=1e-5)
        assert float(row["error"]) == pytest.approx(np.median(e.rates) - e.truth.rate, rel=1e-3, abs=1e-5)
    seeds = read(out / "seeds.csv")
    assert len(seeds) == sum(len(e.rates) for e in result.estimates) == 2 * (1 + 5 * 2 + 3)
    assert [row["method"] for row in read(out / "methods.csv")] == [m.label for m in methods(result.config)]
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["summary"] == json.loads(json.dumps(result.summary()))
    assert manifest["command"] == "cesaro reproduce --from manifest.json"
    assert (out / "practice.png").read_bytes().startswith(b"\x89PNG")


def test_work_resumes_and_other_settings_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(**{**SMALL, "envs": ("pendulum",), "maps": ("linear",)})
    names, done = ["linear_0"], []
    monkeypatch.setattr(practice_run, "fits", lambda config: {name: fits(config)[name] for name in names})
    monkeypatch.setattr(practice_run, "methods", lambda config: methods(config)[:1])

    def broken(shelf: Any, subject: Subject, fit: Any) -> Any:
        done.append(subject)
        raise RuntimeError

    monkeypatch.setattr(practice_run, "_fit", broken)
    with pytest.raises(RuntimeError):
        run(config, tmp_path / "out", workers=1, quiet=True)
    monkeypatch.setattr(practice_run, "_truth", lambda *_: pytest.fail("the truth was stored"))
    monkeypatch.setattr(practice_run, "_fit", lambda shelf, subject, fit: fit(shelf(subject)))
    with pytest.raises(InputError, match="seed is 0 there and 1 here"):
        run(replace(config, seed=1), tmp_path / "out", quiet=True)
    result = run(config, tmp_path / "out", quiet=True)
    assert done == [Subject("pendulum", 1.5)]
    assert np.isfinite(result.estimates[0].value)


ONE, TWO = Subject("a", 0.1), Subject("b", 0.9)


def made(**rates: list[list[float]]) -> Result:
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
    return Result(config, truths, found, {})


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


def test_options_choose_logs() -> None:
    full = practice_settings(practice, None, None, None, 0, False, "")
    assert full == Config()
    assert len(full.subjects) == 15
    assert practice_settings(practice, None, None, None, 3, True, "x") == Config(**QUICK, seed=3, actors="x")
    assert [s.label for s in practice_settings(practice, None, [0.5], None, 0, False, "").subjects][-2:] == [
        "Swimmer-v5 0.5",
        "pendulum 0.5",
    ]
    assert practice_settings(practice, ["pendulum"], [2.0, 0.7], 5, 0, False, "").noises == (0.7, 2.0)
    assert practice_settings(practice, ["Hopper-v5"], None, 500, 0, False, "").rows == 500
    with pytest.raises(InputError, match="once per noise"):
        practice_settings(practice, None, [0.5, 0.5], None, 0, False, "")


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("envs", (), "one or more names"),
        ("envs", ("pendulum", "pendulum"), "each once"),
        ("noises", (1.0, 0.5), "increasing"),
        ("pendulum_rows", 50, "multiple of 20"),
        ("steps", 0, "integer ≥ 1"),
        ("discount", 1.0, "below 1"),
        ("mixing", 0.0, "above 0"),
        ("widths", (), "one or more integers"),
        ("step_size", math.inf, "finite"),
        ("seed", -1, "integer from 0"),
        ("transitions", 1, "transitions"),
        ("actions", "logged", "executed or chosen"),
    ],
)
def test_settings_that_break_a_rule_are_named(name: str, value: Any, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        Config(**{name: value})


def test_without_a_log_there_is_no_study() -> None:
    with pytest.raises(InputError, match="such that a log is left"):
        Config(envs=("pendulum",), noises=())


def test_the_command_prints_tables_and_refuses_an_existing_folder(
    small: tuple[Result, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fake(config: Config, out: Path, **options: Any) -> Result:
        asked.append((config, options["data"]))
        return RESULT

    monkeypatch.setattr(practice, "run", fake)
    arguments = ["reproduce", "practice", "--quick", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert asked == [(Config(**QUICK), tmp_path / "data")]
    assert "1.90, 1.60 … 2.20" in done.stdout
    assert "Nearest to the truth" in done.stdout
    assert f"Results: {tmp_path / 'out'} (practice.csv" in done.stdout.replace("\n", "")
    monkeypatch.setattr(practice, "run", run)
    again = CliRunner().invoke(app, ["reproduce", "practice", "--quick", "--out", str(small[1])])
    assert again.exit_code == 2
    assert "--force" in again.stderr
