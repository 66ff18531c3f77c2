"""Figure 4: the paper's grid and step sizes, kept logs, an independent recomputation, resumption, the claim."""

import csv
import io
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from typer.testing import CliRunner

import cesaro as cs
from cesaro.algorithms import Objective
from cesaro.algorithms.saddle_point import CURRENT
from cesaro.approximators import MLP, linear
from cesaro.cli import app
from cesaro.errors import InputError
from cesaro.policies import save_actor
from cesaro.reproduce.mujoco import Config, show
from cesaro.reproduce.mujoco import config as mujoco_config
from cesaro.reproduce.mujoco import data as mujoco_data
from cesaro.reproduce.mujoco import run as mujoco_run
from cesaro.reproduce.mujoco.config import BASELINE, CLAIMED, ENVS, METHODS, Place
from cesaro.reproduce.mujoco.data import Recording, find, load, log_of, truth_of
from cesaro.reproduce.mujoco.run import MethodOnLog, MujocoResult, MujocoStudy, SimulatedRate
from cesaro.reproduce.study import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("plain_starts")]

ENV, PLACE = "Pendulum-v1", ("Pendulum-v1", 0.5)
# At the larger learning rate every method diverges.
SIZE: dict[str, Any] = {
    "envs": (ENV,),
    "sigmas": (0.5,),
    "transitions": 400,
    "truth_steps": 800,
    "lrs": (0.01, 1e6),
    "lams": (1.0,),
    "runs": 2,
    "minibatches": 100,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an actor, the logs and truths of a small study, and its results."""
    folder = tmp_path_factory.mktemp("mujoco")
    (folder / "actors").mkdir()
    weights = [np.array([[0.3, -1.0, -0.5], [0.5, 0.2, 0.1]], dtype=np.float32), np.array([[1.0, -1.0]], np.float32)]
    biases = [np.zeros(2, np.float32), np.full(1, 0.1, np.float32)]
    save_actor(
        folder / "actors" / f"{ENV}.safetensors",
        weights,
        biases,
        activation="relu",
        squash="tanh",
        low=[-2.0],
        high=[2.0],
    )
    return folder


@pytest.fixture(scope="module")
def config(root: Path) -> Config:
    return Config(**SIZE, actors=str(root / "actors"))


@pytest.fixture(scope="module")
def small(root: Path, config: Config) -> tuple[MujocoResult, Path]:
    return run(config, root / "out", workers=1, quiet=True), root / "out"


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def not_called(*_: Any, **__: Any) -> Any:
    raise AssertionError("this must not be called")


# The study is the paper's.


def test_the_grid_is_the_papers() -> None:
    config = Config()
    assert [env.partition("-")[0] for env in config.envs] == ["HalfCheetah", "Walker2d", "Hopper", "Swimmer"]
    assert (config.sigmas, len(config.places)) == ((0.1, 0.5, 0.9), 12)
    assert (config.transitions, config.truth_steps, config.runs, config.minibatches) == (10**6, 10**6, 30, 1_000)
    rates = (0.1, 0.05, 0.01, 0.005, 0.001)
    for method in ("diff-sgq", "diff-gq1", "diff-gq2"):
        assert [setting["lr"] for setting in config.settings(method)] == list(rates)
    found = {(setting["lr"], setting["lam"]) for setting in config.settings(BASELINE)}
    assert found == {(lr, lam) for lr in rates for lam in (0.1, 1.0, 10.0)}
    assert (mujoco_config.BATCH_SIZE, mujoco_config.WINDOW, mujoco_config.COPIED) == (100, 100, 100)


def test_every_method_consumes_the_same_samples(small: tuple[MujocoResult, Path]) -> None:
    """Diff-GQ2 makes half the updates; a record is at every tenth minibatch for all."""
    for cell in small[0].cells.values():
        np.testing.assert_array_equal(cell.minibatches, 10 * np.arange(1, 11))


def papers_gq1(approximator: Any, inputs: int) -> Objective:
    """As the paper's neural section prints it: `2δτ − τ²`."""
    q, tau = approximator(inputs, bias=False), approximator(inputs, bias=True)

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Any, hyper: Any) -> Any:
        x, reward, x_next = batch.x[0], batch.reward[0], batch.x_next[0]
        delta = reward - primal["rate"] + q.apply(primal["q"], x_next) - q.apply(primal["q"], x)
        weight = tau.apply(dual, x)
        return jnp.mean(2 * delta * weight - weight**2)

    return _paper(q, tau, lagrangian, 1)


def papers_gq2(approximator: Any, inputs: int) -> Objective:
    q, tau = approximator(inputs, bias=False), approximator(inputs, bias=False)

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Any, hyper: Any) -> Any:
        rho = [
            batch.reward[i] + q.apply(primal["q"], batch.x_next[i]) - q.apply(primal["q"], batch.x[i]) for i in (0, 1)
        ]
        weight = tau.apply(dual, batch.x[0])
        goal = jax.lax.stop_gradient(jnp.mean(rho[0] + rho[1]) / 2)
        return jnp.mean(2 * (rho[0] - rho[1]) * weight - weight**2) + (goal - primal["rate"]) ** 2 / 2

    return _paper(q, tau, lagrangian, 2)


def _paper(q: Any, tau: Any, lagrangian: Callable[..., Any], minibatches: int) -> Objective:
    return Objective(
        init=lambda key: ({"rate": jnp.zeros(()), "q": q.init(key)}, tau.init(key)),
        lagrangian=lagrangian,
        reward_rate=lambda primal: primal["rate"],
        values=None,
        defaults={"step_size": 0.01},
        minibatches=minibatches,
    )


@pytest.mark.parametrize(("method", "build"), [("diff-gq1", papers_gq1), ("diff-gq2", papers_gq2)])
def test_step_sizes_are_those_of_the_papers_objectives(method: str, build: Callable[..., Objective]) -> None:
    """The paper's objective with its learning rate takes the steps of ours with the converted ones."""
    rng = np.random.default_rng(0)
    data = cs.FeatureTransitions(rng.normal(size=(50, 3)), rng.normal(size=50), rng.normal(size=(50, 3)))
    sizes: dict[str, Any] = {"seeds": 2, "budget": 400, "record_every": 40, "window": 40, "batch_size": 10}
    ours = cs.sweep(method, data, settings=[mujoco_run.step_sizes(method, {"lr": 0.05})], quiet=True, **sizes)
    papers = cs.sweep(build(linear, 3), data, settings=[{"step_size": 0.05}], quiet=True, **sizes)
    assert np.abs(ours.reward_rate).max() > 0.01
    np.testing.assert_allclose(ours.reward_rate, papers.reward_rate, rtol=2e-4, atol=1e-6)


def test_the_other_step_sizes_are_the_learning_rates() -> None:
    assert mujoco_run.step_sizes("diff-sgq", {"lr": 0.05}) == {"step_size": 0.05}
    assert mujoco_run.step_sizes(BASELINE, {"lr": 0.05, "lam": 10.0}) == {"step_size": 0.05, "lam": 10.0}


# Logs and truths.


def test_a_log_holds_what_the_paper_stores(root: Path, config: Config, small: tuple[MujocoResult, Path]) -> None:
    stored = find(log_of(config, PLACE), root / "mujoco_data")
    assert stored is not None
    arrays = load(stored)
    assert {array.dtype for name, array in arrays.items() if array.ndim == 2} == {np.dtype(np.float32)}
    assert len(arrays["rewards"]) == 400
    ends = np.cumsum(arrays["lengths"])
    inside = np.setdiff1d(np.arange(399), ends - 1)
    np.testing.assert_array_equal(arrays["next_observations"][inside], arrays["observations"][inside + 1])
    target = cs.policy(str(log_of(config, PLACE).actor))
    chosen = np.asarray(target.sample(arrays["next_observations"], np.random.default_rng(0)))
    np.testing.assert_allclose(arrays["target_actions"], chosen, rtol=1e-6)
    noise = arrays["actions"] - np.asarray(target.sample(arrays["observations"], np.random.default_rng(0)))
    assert noise.std() == pytest.approx(0.5, rel=0.15)  # 400 draws: 4 standard errors, wrong once in 15,000 seeds
    data = mujoco_data.transitions(arrays)
    assert stored.inputs == data.x.shape[1] == 4
    np.testing.assert_array_equal(data.x[:, 3:], arrays["actions"])
    np.testing.assert_array_equal(data.x_next[:, 3:], arrays["target_actions"])
    np.testing.assert_array_equal(data.x_next[:, :3], arrays["next_observations"])
    truth = find(truth_of(config, ENV), root / "mujoco_data")
    assert truth is not None
    assert small[0].truths[ENV].value == pytest.approx(load(truth)["rewards"].mean())
    assert small[0].behaviors[PLACE].value == pytest.approx(arrays["rewards"].mean(dtype=np.float64))


def test_actions_are_kept_as_drawn(root: Path, config: Config, tmp_path: Path) -> None:
    """With much noise some are beyond the bounds, which cut what the environment gets."""
    recording = replace(log_of(config, PLACE), sigma=3.0, steps=60)
    mujoco_data.collect([recording], tmp_path / "data", workers=1, quiet=True)
    stored = find(recording, tmp_path / "data")
    assert stored is not None
    assert np.abs(load(stored)["actions"]).max() > 2.0


def test_every_recording_has_random_numbers_of_its_own(config: Config) -> None:
    log = log_of(config, PLACE)
    others = [
        log,
        replace(log, sigma=0.6),
        replace(log, sigma=None),
        replace(log, seed=1),
        replace(log, env="Hopper-v5"),
    ]
    assert len({recording.jobs()[0].seed for recording in others}) == 5
    assert replace(log, streams=10).jobs()[0].seed == log.jobs()[0].seed


def test_what_is_there_is_not_simulated_again(
    root: Path, config: Config, small: tuple[MujocoResult, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mujoco_data, "run_jobs", not_called)
    MujocoStudy(config).collect(root / "mujoco_data")
    with pytest.raises(AssertionError, match="must not be called"):
        MujocoStudy(replace(config, seed=1), quiet=True).collect(root / "mujoco_data")


@pytest.fixture
def copy(root: Path, config: Config, small: tuple[MujocoResult, Path], tmp_path: Path) -> tuple[Recording, Path, Path]:
    """A log, a copy of the folder with it, and its file there."""
    shutil.copytree(root / "mujoco_data", tmp_path / "data")
    recording = log_of(config, PLACE)
    stored = find(recording, tmp_path / "data")
    assert stored is not None
    return recording, tmp_path / "data", stored.file


def parts(file: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with np.load(file) as stored:
        return json.loads(str(stored["meta"])), {name: stored[name] for name in stored.files if name != "meta"}


def write(file: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    np.savez(file, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]


def test_changed_numbers_are_refused(copy: tuple[Recording, Path, Path], config: Config, tmp_path: Path) -> None:
    _, folder, file = copy
    meta, arrays = parts(file)
    arrays["rewards"][7] += 1
    write(file, meta, arrays)
    with pytest.raises(InputError, match=r"checksum .* not those that were simulated; delete it"):
        run(config, tmp_path / "out", data=folder, workers=1, quiet=True)
    assert not (tmp_path / "out").exists()


def test_other_settings_under_a_name_are_refused(copy: tuple[Recording, Path, Path]) -> None:
    recording, folder, file = copy
    meta, arrays = parts(file)
    other = {**meta["settings"], "seed": 3}
    write(file, {**meta, "settings": other}, arrays)
    with pytest.raises(
        InputError, match=r"settings that its name stands for. Got others \(seed is 3 there and 0 here\)"
    ):
        find(recording, folder)
    write(file, {**meta, "settings": other, "checksum": mujoco_data._digest(other)}, arrays)
    with pytest.raises(InputError, match="seed is 3 there and 0 here"):
        find(recording, folder)
    file.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"is not a recording of a study \(.*\); delete it"):
        find(recording, folder)


def test_other_versions_are_other_files_unless_none_is_installed(
    copy: tuple[Recording, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, folder, file = copy
    monkeypatch.setattr(mujoco_data, "_version", lambda name: "99.0")
    assert find(recording, folder) is None
    monkeypatch.setattr(mujoco_data, "_version", lambda name: "none")
    found = find(recording, folder)
    assert found is not None
    assert found.file == file
    assert find(replace(recording, seed=1), folder) is None
    meta, arrays = parts(file)
    settings = {**meta["settings"], "versions": {"gymnasium": "1", "mujoco": "2"}}
    digest = mujoco_data._digest(settings)
    write(folder / f"{recording.stem}_{digest[:12]}.npz", {**meta, "settings": settings, "checksum": digest}, arrays)
    with pytest.raises(InputError, match=r"must hold one file for Pendulum-v1_sigma_0\.5, .* keep one of them"):
        find(recording, folder)


def test_an_actor_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must hold a file Pendulum-v1.safetensors. Got none"):
        MujocoStudy(Config(**SIZE, actors=str(tmp_path))).collect(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


# The numbers are those of the engine.


@pytest.mark.parametrize("method", METHODS)
def test_tables_equal_a_recomputation_from_the_log(
    root: Path, config: Config, small: tuple[MujocoResult, Path], method: str
) -> None:
    """Rates, errors and the second estimate, once more from the kept arrays and by their definitions."""
    recording, truths = (find(r, root / "mujoco_data") for r in (log_of(config, PLACE), truth_of(config, ENV)))
    assert recording is not None
    assert truths is not None
    arrays, truth = load(recording), load(truths)["rewards"].mean()
    x = np.concatenate([arrays["observations"], arrays["actions"]], axis=1).astype(np.float64)
    x_next = np.concatenate([arrays["next_observations"], arrays["target_actions"]], axis=1).astype(np.float64)
    again = cs.sweep(
        method,
        cs.FeatureTransitions(x, arrays["rewards"], x_next),
        settings=[mujoco_run.step_sizes(method, {"lr": 0.01, "lam": 1.0})],
        seeds=2,
        budget=10_000,
        record_every=1_000,
        window=10_000,
        batch_size=100,
        approximator=MLP(),
        target=mujoco_run._TARGETS.get(method, CURRENT),
        keep_final=True,
        quiet=True,
    )
    errors = np.abs(again.reward_rate[0] - truth)
    best = next(row for row in rows(small[1] / "best.csv") if row["method"] == method)
    assert (best["lr"], best["lam"]) == ("0.01", "1.0" if method == BASELINE else "")
    assert float(best["true_rate"]) == pytest.approx(truth, rel=1e-5)
    assert float(best["behavior_rate"]) == pytest.approx(arrays["rewards"].mean(dtype=np.float64), rel=1e-5)
    assert float(best["final_error"]) == pytest.approx(errors[:, -1].mean(), rel=1e-5)
    assert float(best["std_final_error"]) == pytest.approx(errors[:, -1].std(), rel=1e-3, abs=1e-6)
    curve = [float(row["mean_error"]) for row in rows(small[1] / "curves.csv") if row["method"] == method]
    np.testing.assert_allclose(curve, errors.mean(axis=0), rtol=1e-5)
    final = jax.tree.map(lambda leaf: np.asarray(leaf[0], dtype=np.float64), again.final)
    network = final["ratio" if method == BASELINE else "values"]

    def function(run: int, inputs: NDArray[Any]) -> NDArray[Any]:
        for layer in network.layers[:-1]:
            inputs = np.maximum(inputs @ layer.weight[run].T + layer.bias[run], 0)
        return (inputs @ network.layers[-1].weight[run].T + network.layers[-1].bias[run])[:, 0]

    seconds = np.array(
        [
            np.mean(function(run, x) * arrays["rewards"])
            if method == BASELINE
            else np.mean(arrays["rewards"] + function(run, x_next) - function(run, x))
            for run in range(2)
        ]
    )
    assert float(best["second_rate"]) == pytest.approx(seconds.mean(), rel=1e-4)
    assert float(best["second_rate_standard_error"]) == pytest.approx(
        seconds.std(ddof=1) / math.sqrt(2), rel=0.02, abs=1e-5
    )
    assert float(best["second_error"]) == pytest.approx(np.abs(seconds - truth).mean(), rel=1e-4)


def test_a_setting_that_diverged_is_never_the_best(small: tuple[MujocoResult, Path]) -> None:
    result, out = small
    for cell in result.cells.values():
        assert cell.best == 0
        assert cell.diverged.tolist() == [0, 2]
        assert np.isinf(cell.mean[1])
        assert np.isfinite(cell.offline).all()
    diverged = [row for row in rows(out / "mujoco.csv") if row["lr"] == "1000000.0"]
    assert [row["diverged_runs"] for row in diverged] == ["2"] * 4
    assert all(row["mean_final_error"] == row["std_final_error"] == "" for row in diverged)


# Files.


def test_the_figures_and_the_data_that_they_are_from(small: tuple[MujocoResult, Path]) -> None:
    assert show.figures_of(Config()) == {
        "mujoco": (0.9,),
        "mujoco_appendix": (0.1, 0.5),
        "rates": (0.1, 0.5, 0.9),
    }
    manifest = json.loads((small[1] / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["simulators"]) == {"gymnasium", "mujoco"}
    assert len(manifest["summary"]["data"]) == 2


# The command.


def cesaro(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


def test_the_command_can_stop_after_the_data(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[Recording] = []
    monkeypatch.setattr(mujoco_data, "collect", lambda recordings, folder, **_: simulated.extend(recordings))
    monkeypatch.setattr(mujoco_data, "needed", lambda *_: None)
    options = ("--quick", "--env", ENV, "--sigma", 0.5, "--actors", root / "actors", "--data", tmp_path / "data")
    outcome = cesaro("mujoco", *map(str, options), "--only", "data", "--out", tmp_path / "out")
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.startswith("Logs and truths:")
    assert [(r.env, r.sigma, r.steps) for r in simulated] == [(ENV, 0.5, 20_000), (ENV, None, 20_000)]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--only", "grid"), "--only must be data, or left out. Got 'grid'"),
        (("--sigma", "0"), "'sigmas' setting of the mujoco study must be"),
    ],
)
def test_bad_options_are_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = cesaro("mujoco", *options)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.stderr.split())
    assert list(tmp_path.iterdir()) == []


# The claim and what is said about it.


def cell(method: str, final: list[float] | None) -> MethodOnLog:
    """One setting with these final errors; the truth is 1."""
    runs = np.full((1, 4, 1), np.nan) if final is None else 1.0 + np.array(final).reshape(1, -1, 1)
    return MethodOnLog(
        method,
        [{"lr": 0.1, "lam": 1.0}],
        truth=1.0,
        reward_rate=runs,
        diverged_at=np.full((1, 4), 5 if final is None else -1),
        minibatches=np.array([100.0]),
        best=None if final is None else 0,
        offline=np.array([1.5, 1.5, 1.7, 1.7])[: 0 if final is None else 4],
        seconds=1.0,
    )


def made(*places: tuple[list[float] | None, list[float] | None]) -> MujocoResult:
    """Final errors of Diff-GQ1 and of Diff-SGQ; the others are far off."""
    config = Config(envs=(ENVS[0],), sigmas=tuple(0.1 * (i + 1) for i in range(len(places))))
    cells: dict[tuple[Place, str], MethodOnLog] = {}
    for place, (claimed, rival) in zip(config.places, places):
        errors = {CLAIMED: claimed, "diff-sgq": rival, "diff-gq2": [5.0, 5.1, 5.0, 5.1], BASELINE: [6.0, 6.1, 6.0, 6.1]}
        cells |= {(place, method): cell(method, errors[method]) for method in METHODS}
    behaviors = dict.fromkeys(config.places, SimulatedRate(0.5, 0.01))
    return MujocoResult(config, {ENVS[0]: SimulatedRate(1.0, 0.01)}, behaviors, cells, {}, {})


def printed(result: MujocoResult) -> str:
    console = Console(file=io.StringIO(), width=120)
    show.print_tables(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_claim_is_counted_place_by_place() -> None:
    result = made(
        ([0.1, 0.2, 0.1, 0.2], [0.3, 0.4, 0.3, 0.4]),  # every run better by 0.2: clearly best
        ([0.1, 0.2, 0.1, 0.3], [0.3, 0.1, 0.3, 0.1]),  # on average better, runs disagree
        ([0.3, 0.4, 0.3, 0.4], [0.1, 0.2, 0.1, 0.2]),  # clearly beaten
        ([0.2, 0.2, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2]),  # equal is not best
        (None, [0.1, 0.2, 0.1, 0.2]),  # every setting diverged
        ([0.1, 0.2, 0.1, 0.2], None),  # every setting of the rival diverged
    )
    claims = list(result.claims.values())
    assert [claim.is_best for claim in claims] == [True, True, False, False, False, True]
    assert [claim.is_clearly_best for claim in claims] == [True, False, False, False, False, True]
    assert [claim.is_clearly_beaten for claim in claims] == [False, False, True, False, True, False]
    assert claims[0].margin == pytest.approx(0.2)
    difference = np.array([0.2, -0.1, 0.2, -0.2])
    assert claims[1].margin == pytest.approx(difference.mean())
    assert claims[1].standard_error == pytest.approx(difference.std(ddof=1) / 2)
    assert claims[5].rival == "diff-gq2"
    assert not result.claim_holds
    summary = result.summary()
    assert (summary["best"], summary["clearly_best"], summary["clearly_beaten"]) == (3, 2, 2)
    text = " ".join(show.verdict(result))
    assert "Diff-GQ1 is best in 3 of 6 cells, clearly in 2; clearly beaten in 2." in text
    assert "does NOT hold" in text
    assert "HalfCheetah-v5 0.3 (Diff-SGQ, clearly), HalfCheetah-v5 0.4 (Diff-SGQ), HalfCheetah-v5 0.5" in text
    assert "Diff-SGQ in 5, Diff-GQ1 in 5, Diff-GQ2 in 0, GradientDICE in 0 of 6" in text
    assert printed(result).count("all diverged") == 2


def test_the_claim_holds_where_it_holds_everywhere() -> None:
    result = made(([0.1, 0.2, 0.1, 0.2], [0.3, 0.4, 0.3, 0.4]))
    assert result.claim_holds
    text = show.verdict(result)
    assert "No verdict, as this is not the full study: here the claim holds in every cell." in text
    assert text[-1].startswith("The full study has more")
    second = result.cells[result.config.places[0], CLAIMED].second
    assert second == pytest.approx((1.6, 0.2 / math.sqrt(3) / 2))
    assert show.files(result).keys() >= {"mujoco.png", "rates.png"}
    assert "mujoco_appendix.png" not in show.files(result)
