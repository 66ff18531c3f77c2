"""The pendulum study: its simulator against Gymnasium's, its exact rates, its settings, its tables and its verdict."""

import csv
import json
import math
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from typer.testing import CliRunner

import cesaro as cs
from cesaro.cli import app
from cesaro.closed_forms.tabular import NotIdentified
from cesaro.diagnostics import Diagnostic, Verdict
from cesaro.errors import InputError
from cesaro.reproduce import pendulum
from cesaro.reproduce.pendulum import Config, run, show
from cesaro.reproduce.pendulum import config as pendulum_config
from cesaro.reproduce.pendulum.model import CONTROLLERS, Pendulums, exact_rate, log, simulated_rate
from cesaro.reproduce.pendulum.result import Result, Truth, settings

# The module: `run` of the package is the function.
pendulum_run: Any = import_module("cesaro.reproduce.pendulum.run")

# Frequent resets, so that a start is soon forgotten; rows for 68 default features, since up to 64 diagnostics take longer.
SETTINGS: dict[str, Any] = {
    "controllers": ("smooth",),
    "noises": (0.5, 1.5),
    "rows": 3_400,
    "logs": 2,
    "reset": 1 / 20,
    "maps": (8, 16),
    "ridges": (1e-6, 1e-2),
    "degrees": (2,),
    "grid": (41, 11),
    "agents": 200,
    "seed": 3,
}
SMALL = Config(**SETTINGS)
FILES = [".cesaro", "logs.csv", "manifest.json", "pendulum.csv", "pendulum.png", "settings.csv"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    out = tmp_path_factory.mktemp("pendulum") / "out"
    return run(SMALL, out, quiet=True), out


def read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_step_is_that_of_gymnasium() -> None:
    env: Any = gymnasium.make("Pendulum-v1", max_episode_steps=1_000).unwrapped
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for time in range(200):
        if time % 20 == 0:
            env.state = np.array([rng.uniform(-9, 9), rng.uniform(-8, 8)])
        state = Pendulums(*(np.array([entry]) for entry in env.state))
        torque = rng.normal(0, 2, 1)
        observation, reward, *_ = env.step(torque)
        following, rewards = state.step(torque)
        assert rewards[0] == pytest.approx(float(reward), abs=1e-12)
        np.testing.assert_allclose(np.concatenate(following), env.state, rtol=0, atol=1e-12)
        np.testing.assert_allclose(following.observe()[0], observation, rtol=0, atol=1e-5)  # float32 there
    env.close()


@pytest.mark.parametrize("name", CONTROLLERS)
def test_exact_rates_are_those_of_a_simulation(name: str) -> None:
    # Four standard errors on either side: error rate 6e-5.
    rate = exact_rate(CONTROLLERS[name], 1 / 50, (81, 21))
    found, error = simulated_rate(CONTROLLERS[name], 500, 1_500, 1 / 50, np.random.default_rng(0))
    assert error < 0.05
    assert found == pytest.approx(rate, abs=4 * error)
    assert exact_rate(CONTROLLERS[name], 1 / 50, (81, 21), 0.25) == pytest.approx(rate, abs=0.02)


def test_a_log_is_that_of_noisy_controllers_with_resets() -> None:
    controller = CONTROLLERS["steep"]
    data = log(controller, 1.5, 20_000, 20, 1 / 20, np.random.default_rng(0))
    seen, then = (np.asarray(values.plain()) for values in (data.observations, data.next_observations))
    actions = np.asarray(data.actions.plain())
    noise = actions - controller(seen)
    assert noise.std() == pytest.approx(1.5, rel=0.03)
    assert np.abs(actions).max() > 4
    state = Pendulums(np.arctan2(seen[:, 1], seen[:, 0]), seen[:, 2])
    following, rewards = state.step(actions)
    np.testing.assert_allclose(data.rewards, rewards, atol=1e-9)
    # The next state is the next row's, a new start after a reset.
    assert (then.reshape(20, -1, 3)[:, :-1] == seen.reshape(20, -1, 3)[:, 1:]).all()
    was_reset = np.abs(following.observe() - then).max(axis=1) > 1e-9
    assert was_reset.mean() == pytest.approx(1 / 20, abs=5 * math.sqrt(0.0475 / 20_000))
    assert np.abs(then[was_reset, 2]).max() <= 1
    assert data.counts["trajectories"] == 20


def test_settings_hold_the_default_once_and_first() -> None:
    full = settings(Config())
    assert [setting.is_default for setting in full] == [True] + [False] * 17
    assert len({setting[1:] for setting in full}) == len(full)
    assert {("fourier:800", "same", "auto"), ("fourier:800", "fourier:1600", "auto")} < {choice[1:] for choice in full}
    assert ("fourier:800", "fourier:1600", 1e-8) in {setting[1:] for setting in full}


def test_the_default_is_the_map_it_is_called() -> None:
    controller = CONTROLLERS["smooth"]
    data = log(controller, 1.0, 2_000, 20, 1 / 20, np.random.default_rng(0))
    found = [cs.DiffLSTD(features, random_state=5, quiet=True).fit(data, controller) for features in ("auto", "smooth")]
    assert settings(SMALL)[0].label == "default (smooth)"
    assert found[0].reward_rate_ == found[1].reward_rate_


def test_pieces_hold_what_the_estimator_gives(small: tuple[Result, Path]) -> None:
    result = small[0]
    assert len(result.pieces) == 4
    controller = CONTROLLERS["smooth"]
    data = log(controller, 1.5, 3_400, 20, 1 / 20, pendulum_run.random_numbers("smooth", 1.5, 4))
    piece = result.pieces["smooth", 1.5, 4]
    assert float(piece["behavior"]) == data.rewards.mean()
    for i in (0, 4, len(settings(SMALL)) - 1):
        features, dual, ridge = settings(SMALL)[i][1:]
        fitted = cs.DiffLSTD(features, dual, ridge, random_state=4, quiet=True).fit(data, controller)
        assert piece["estimate"][i] == pytest.approx(fitted.reward_rate_, rel=1e-6)
        assert (piece["low"][i], piece["high"][i]) == pytest.approx(fitted.interval(0.95), rel=1e-6)
        if i == 0:
            expected = pendulum_run._diagnosed(fitted)
            assert (str(piece["verdict"]), str(piece["findings"])) == tuple(map(str, expected.values()))


def test_findings_are_named_worst_first() -> None:
    verdicts: tuple[Verdict, ...] = ("ok", "caution", "bad")
    fitted: Any = SimpleNamespace(diagnostics_=[Diagnostic(f"{said} one", 1.0, said, "So.") for said in verdicts])
    found = pendulum_run._diagnosed(fitted)
    assert str(found["findings"]) == "bad one (bad); caution one (caution)"
    assert str(found["verdict"]) == "bad"
    fitted.diagnostics_ = fitted.diagnostics_[:1]
    assert {name: str(value) for name, value in pendulum_run._diagnosed(fitted).items()} == {
        "verdict": "ok",
        "findings": "",
    }


def test_scores_are_over_single_logs(small: tuple[Result, Path]) -> None:
    result = small[0]
    truth = result.truths["smooth"].rate
    for i, setting in enumerate(settings(SMALL)):
        estimates = np.array([piece["estimate"][i] for piece in result.pieces.values()])
        covers = [piece["low"][i] <= truth <= piece["high"][i] for piece in result.pieces.values()]
        score = result.scores[setting]
        assert score.mean_error == pytest.approx(np.abs(estimates - truth).mean())
        assert score.worst_error == pytest.approx(np.abs(estimates - truth).max())
        assert (score.answered, score.covered, score.logs) == (4, sum(covers), 4)
        first = result.of(setting)[0]
        assert first.estimate == pytest.approx(estimates[:2].mean())
        assert first.deviation == pytest.approx(estimates[:2].std(ddof=1))


def test_files_hold_what_was_computed(small: tuple[Result, Path]) -> None:
    result, out = small
    assert sorted(file.name for file in out.iterdir()) == FILES
    rows = read(out / "pendulum.csv")
    assert len(rows) == len(result.cells) == 2 * len(settings(SMALL))
    for row, cell in zip(rows, result.cells):
        assert (row["controller"], float(row["noise"]), row["setting"]) == (
            cell.controller,
            cell.noise,
            cell.setting.label,
        )
        assert float(row["estimate"]) == pytest.approx(cell.estimate, rel=1e-5)
        assert (row["covered"], row["is_default"]) == (str(cell.covered), str(int(cell.setting.is_default)))
        assert float(row["behavior"]) == pytest.approx(result.behavior(cell.controller, cell.noise), rel=1e-5)
    logs = read(out / "logs.csv")
    assert len(logs) == 4 * len(settings(SMALL))
    assert all((row["verdict"] != "") == row["setting"].startswith("default") for row in logs)
    assert {row["seed"] for row in logs} == {"3", "4"}
    assert [row["setting"] for row in read(out / "settings.csv")] == [setting.label for setting in settings(SMALL)]
    for file in out.glob("*.csv"):
        assert not {"nan", "inf", "-inf"} & {value for row in read(file) for value in row.values()}
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["summary"] == json.loads(json.dumps(result.summary()))
    assert manifest["summary"]["truths"]["smooth"]["simulated_standard_error"] > 0
    assert (out / "pendulum.png").read_bytes().startswith(b"\x89PNG")


def test_results_do_not_depend_on_workers_and_stored_pieces_are_kept(
    small: tuple[Result, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    piece = pendulum_run._piece

    def sometimes(config: Config, controller: str, noise: float, seed: int) -> dict[str, Any]:
        computed.append((controller, noise, seed))
        if len(computed) == 3:
            raise KeyboardInterrupt
        return piece(config, controller, noise, seed)

    monkeypatch.setattr(pendulum_run, "_piece", sometimes)
    with pytest.raises(KeyboardInterrupt):
        run(SMALL, tmp_path / "out", workers=1, quiet=True)
    assert not (tmp_path / "out").exists()
    run(SMALL, tmp_path / "out", workers=1, quiet=True)
    assert all(computed.count(done) == 1 for done in computed[:2])
    assert len(set(computed)) == 4
    for name in ("pendulum.csv", "logs.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (small[1] / name).read_bytes()


def test_refused_logs_are_counted_and_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(cs.DiffLSTD):
        def fit(self, data: Any, policy: Any = None) -> Any:
            if self.features in ("linear", "auto"):
                raise NotIdentified("The log does not identify the rate.")
            return super().fit(data, policy)

    monkeypatch.setattr(pendulum_run, "DiffLSTD", Refusing)
    config = replace(SMALL, noises=(0.5,), logs=1, rows=1_000, maps=(4,), ridges=(1e-2,))
    pieces = {name: job() for name, job in pendulum_run._jobs(config).items()}
    result = pendulum_run._result(config, pieces)
    default, last = settings(config)[0], settings(config)[-1]
    for setting in (default, last):
        score = result.scores[setting]
        assert (score.answered, score.identified, score.covered) == (0, 0, 0)
        assert math.isnan(score.mean_error)
    assert result.scores[settings(config)[1]].answered == 1
    assert result.summary()["settings"]["linear"]["mean_error"] is None
    assert "refused" in result.summary()["default"]["smooth 0.5"]["verdicts"]
    lines = show.verdict(result)
    assert any("1 log refused" in line for line in lines)
    assert any(line.startswith("The default FAILS for smooth, noise 0.5 (covers 0 of 1") for line in lines)
    figure: Any = show.plot(result)
    assert [text.get_text() for text in figure.axes[0].texts] == ["0/1", "0/1"]


def with_estimates(result: Result, offset: float, verdict: str) -> Result:
    """The result of logs whose every estimate is so far from the truth, with intervals of ±0.1."""
    pieces = {}
    for key, piece in result.pieces.items():
        value = np.full_like(piece["estimate"], result.truths[key[0]].rate + offset)
        made = {"estimate": value, "low": value - 0.1, "high": value + 0.1, "verdict": np.array(verdict)}
        pieces[key] = {**piece, **made, "standard_error": np.full_like(value, 0.05)}
    return replace(result, pieces=pieces)


def test_the_verdict_is_honest(small: tuple[Result, Path]) -> None:
    good = with_estimates(small[0], 0.02, "ok")
    lines = show.verdict(good)
    assert lines[0].startswith(f"True rates: smooth {good.truths['smooth'].rate:.4f} (simulated")
    gap = np.mean([abs(float(piece["behavior"]) - good.truths["smooth"].rate) for piece in good.pieces.values()])
    assert lines[1] == (
        "Default: mean |error| 0.020, worst 0.020, intervals of 95 % cover the truth in 4 of 4 logs; the logs' own rate would be "
        f"off by {gap:.3f}."
    )
    assert not any("FAILS" in line for line in lines)
    assert "of 4 logs whose interval holds the truth, 0 bad and 0 caution" in " ".join(lines)
    bad = with_estimates(small[0], 5.0, "bad")
    lines = show.verdict(bad)
    assert lines[2].startswith("The default FAILS for smooth, noise 0.5 (covers 0 of 2, mean |error| 5.000, not below")
    assert "smooth, noise 1.5" in lines[2]
    assert "of 4 logs whose interval misses the truth, 4 bad and 0 caution" in lines[3]
    off = replace(good, truths={"smooth": Truth(-1.0, -1.0, -0.9, 0.01)})
    assert "NOT within 4 standard errors" in show.verdict(off)[0]
    assert not off.summary()["truths"]["smooth"]["is_confirmed"]


def test_answers_by_a_ridge_alone_are_counted(small: tuple[Result, Path]) -> None:
    pieces = {key: {**piece, "identified": piece["identified"].copy()} for key, piece in small[0].pieces.items()}
    pieces["smooth", 0.5, 3]["identified"][-3] = False
    lines = show.verdict(replace(small[0], pieces=pieces))
    assert any(line.startswith("Answers that came from a ridge") and line.endswith(": 1.") for line in lines)


def test_the_plot_has_a_mark_for_every_log(small: tuple[Result, Path]) -> None:
    result = small[0]
    figure: Any = show.plot(result)
    (panel,) = figure.axes
    assert panel.get_title() == "smooth controller"
    marks = sum(len(collection.get_offsets()) for collection in panel.collections)
    assert marks == 4 * len(settings(SMALL))
    truth = next(line for line in panel.lines if line.get_label() == "true rate of the target")
    assert set(truth.get_xdata()) == {result.truths["smooth"].rate}
    assert panel.get_yticklabels()[0].get_text() == "default (smooth)"


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({}, "cesaro reproduce pendulum --logs 5 --seed 100"),
        ({"logs": 3, "seed": 7}, "cesaro reproduce pendulum --logs 3 --seed 7"),
        ({**pendulum.QUICK, "seed": 1}, "cesaro reproduce pendulum --quick --seed 1"),
        ({"noises": (0.1,)}, "cesaro reproduce --from manifest.json"),
    ],
)
def test_the_recorded_command_gives_the_settings(given: dict[str, Any], command: str) -> None:
    assert pendulum_config.command(Config(**given)) == command


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"logs": 0}, "'logs' setting of the pendulum study must be an integer ≥ 1. Got 0 instead"),
        ({"controllers": ("flat",)}, "'controllers' .* one or more of steep, smooth"),
        ({"controllers": ("steep", "steep")}, "'controllers' .* each once"),
        ({"noises": (1.0, 0.5)}, "'noises' .* increasing"),
        ({"maps": ()}, "'maps'"),
        ({"ridges": (0.0, 1.0)}, "'ridges' .* > 0"),
        ({"degrees": (0,)}, "'degrees'"),
        ({"rows": 1_001}, "'rows' .* multiple"),
        ({"pendulums": 0}, "'pendulums'"),
        ({"reset": 1.0}, "'reset' .* between 0 and 1"),
        ({"grid": (3,)}, "'grid' .* two"),
        ({"agents": 1}, "'agents'"),
        ({"seed": -1}, "'seed'"),
    ],
)
def test_bad_settings_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Config(**given)


def test_the_command_prints_tables_and_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {**SETTINGS, "noises": (1.0,), "logs": 1, "rows": 1_000, "maps": (8,), "ridges": (1e-2,)}
    del quick["seed"]
    monkeypatch.setattr(pendulum, "QUICK", quick)
    arguments = ["reproduce", "pendulum", "--quick", "--out", str(tmp_path / "out"), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert max(len(line) for line in lines[:-1]) <= 80
    assert sum(line.startswith("default (smooth)") for line in lines) == 2
    assert any(line.startswith("Default: mean |error|") for line in lines)
    again = CliRunner().invoke(
        app,
        ["reproduce", "--from", str(tmp_path / "out" / "manifest.json"), "--out", str(tmp_path / "again"), "--quiet"],
    )
    assert again.exit_code == 0, again.output
    assert "Repeated: the summary is identical" in again.stdout
    both = CliRunner().invoke(app, [*arguments, "--logs", "9"])
    assert (both.exit_code, both.stderr.count("\n")) == (2, 1)
    bad = CliRunner().invoke(app, ["reproduce", "pendulum", "--logs", "0", "--out", str(tmp_path / "bad")])
    assert (bad.exit_code, bad.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "bad").exists()
