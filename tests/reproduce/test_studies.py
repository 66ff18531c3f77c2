"""Promises of every study: its folder, its manifest, its settings and its command. The numbers are in files of their own."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from cesaro.cli import app
from cesaro.commands.studies import study_command
from cesaro.errors import InputError
from cesaro.policies import save_actor
from cesaro.reproduce import MOVED, STUDIES, study
from cesaro.reproduce.settings import StudyConfig
from cesaro.reproduce.study import run
from cesaro.worlds import networks, process, training

# The first piece that does not come to its end.
INTERRUPTED = 1


@dataclass(frozen=True)
class Promise:
    """A study and what it is to keep.

    Attributes:
        small: settings with which it takes seconds, and at least three pieces.
        commands: settings, and the options that give them; None where only the manifest does.
        wrong: settings that break a rule, and a part of what is said.
        options: options that break a rule, and a part of what is said.
        both: options that `--quick` does not go with, and a part of what is said.
        times: columns of tables that differ between reruns.
    """

    package: str
    small: dict[str, Any]
    commands: list[tuple[dict[str, Any], str | None]]
    wrong: list[tuple[dict[str, Any], str]]
    options: tuple[str, str]
    both: tuple[str, str]
    times: tuple[str, ...] = ()
    also: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.package.rpartition(".")[2]

    @property
    def config(self) -> type[StudyConfig]:
        kind: type[StudyConfig] = import_module(self.package).Config
        return kind

    @property
    def quick(self) -> dict[str, Any]:
        return dict(self.config.ABOUT.quick)


def quick(package: str, **settings: Any) -> dict[str, Any]:
    """The settings of `--quick`, with others."""
    return {**import_module(package).Config.ABOUT.quick, **settings}


BOYAN, MUJOCO, PRACTICE = "cesaro.reproduce.boyan", "cesaro.reproduce.mujoco", "research.practice"
ROBOTS = "--env HalfCheetah-v5 --env Walker2d-v5 --env Hopper-v5 --env Swimmer-v5"
EVERY_METHOD = (
    *("diff-sgq", "diff-gq1", "diff-gq2", "gradient-dice"),
    *("diff-gq3", "diff-gq4", "projected-diff-gq1", "projected-diff-gq2"),
)

PROMISES = [
    Promise(
        "cesaro.reproduce.assumption",
        {"sizes": (5, 10, 12), "trials": 24},
        [
            ({}, "--trials 10000 --seed 0 --simplex stick-breaking"),
            ({"trials": 300, "seed": 2, "simplex": "uniform"}, "--trials 300 --seed 2 --simplex uniform"),
            ({"sizes": (5,)}, None),
        ],
        [
            ({"trials": 0}, "'trials' setting of the assumption study must be an integer ≥ 1. Got 0 instead"),
            ({"seed": -1}, "'seed' setting .* ≥ 0. Got -1"),
            ({"sizes": (5, 1)}, "'sizes' setting .* ≥ 2"),
            ({"sizes": ()}, "'sizes' setting"),
            ({"sizes": (10_001,)}, "'sizes' setting .* at most 10,000. Got 10001 instead"),
            ({"sigmas": (math.nan,)}, "'sigmas' setting .* finite"),
            ({"sigmas": (-1.0,)}, "'sigmas' setting"),
            ({"xis": (1.0,)}, "'xis' setting .* between 0 and 1"),
            ({"simplex": "round"}, "must be 'stick-breaking' or 'uniform'. Got 'round' instead"),
        ],
        ("--trials 0", "'trials' setting of the assumption study must be an integer ≥ 1. Got 0 instead."),
        ("--trials 7", "--quick means --trials 300; give one of the two. Got --trials 7 as well."),
        also=[
            (("--seed", "-1"), "'seed' setting"),
            (("--simplex", "round"), "'simplex' setting"),
        ],
    ),
    Promise(
        BOYAN,
        {"methods": ("diff-sgq", "gradient-dice"), "pi0s": (0.1,), "step_sizes": (2.0**-6, 0.0625)}
        | {"ridges": (0.0,), "lams": (1.0,), "runs": 2, "samples": 100},
        [
            ({}, "--runs 30 --samples 5000 --seed 0 --start zero"),
            (
                {"methods": EVERY_METHOD, "runs": 5, "seed": 3, "misfit": True},
                "--runs 5 --samples 5000 --seed 3 --start zero --all-methods --misfit",
            ),
            (quick(BOYAN, start="authors"), "--quick --seed 0 --start authors"),
            ({"pi0s": (0.2,)}, None),
            ({"methods": ("diff-sgq",)}, None),
        ],
        [
            ({"methods": ()}, "'methods' setting of the boyan study must be different names of diff-sgq, .* Got"),
            ({"methods": ("diff-sgq", "diff-sgq")}, "'methods' setting"),
            ({"methods": ("lstd",)}, "'methods' setting"),
            ({"pi0s": (0.0,)}, "'pi0s' setting .* between 0 and 1"),
            ({"step_sizes": (0.1, 0.1)}, "'step_sizes' setting .* different"),
            ({"step_sizes": (math.inf,)}, "'step_sizes' setting"),
            ({"ridges": (-0.1,)}, "'ridges' setting .* ≥ 0"),
            ({"lams": ()}, "'lams' setting"),
            ({"runs": 1}, "'runs' setting .* ≥ 2. Got 1 instead"),
            ({"runs": 100_001}, "'runs' setting .* at most 100,000"),
            ({"samples": 150}, "'samples' setting .* multiple of 100 below 2³¹. Got 150 instead"),
            ({"radius": 0.0}, "'radius' setting"),
            ({"seed": 2**32}, "'seed' setting"),
            ({"start": "random"}, "must be 'zero' or 'authors'. Got 'random' instead"),
        ],
        ("--runs 1", "'runs' setting of the boyan study must be an integer ≥ 2. Got 1 instead."),
        ("--runs 3", "--quick means --runs 10, --samples 1000 and more; give one of the two. Got --runs 3 as well."),
        also=[
            (("--samples", "7"), "'samples' setting"),
            (("--start", "here"), "'start' setting"),
            (("--seed", "-1"), "'seed' setting"),
            (
                ("--quick", "--runs", "3", "--samples", "200"),
                "Got --runs 3, --samples 200 as well.",
            ),
        ],
    ),
    Promise(
        "cesaro.reproduce.counterexample",
        {"step_sizes": (2.0**-6, 2.0**-4), "runs": 20},
        [
            ({}, "--runs 400 --seed 0"),
            ({"runs": 7, "seed": 3}, "--runs 7 --seed 3"),
            (quick("cesaro.reproduce.counterexample", seed=1), "--quick --seed 1"),
            ({"horizon": 10.0}, None),
            ({"runs": 2, "seed": 2**31 - 1}, f"--runs 2 --seed {2**31 - 1}"),
        ],
        [
            ({"step_sizes": ()}, "'step_sizes' setting of the counterexample study must be different numbers from"),
            ({"step_sizes": (0.0,)}, "'step_sizes'"),
            ({"step_sizes": (0.5, 0.5)}, "'step_sizes'"),
            ({"step_sizes": (11.0,)}, "to 10. Got"),
            ({"shown_step_size": 0.3}, "'shown_step_size' .* one of the step sizes"),
            ({"runs": 1}, "'runs' .* ≥ 2. Got 1 instead"),
            ({"horizon": math.nan}, "'horizon'"),
            ({"settling": 0.5}, "'settling' .* from 1 to 1000"),
            ({"seed": -1}, "'seed' .* from 0 to"),
        ],
        ("--runs 1", "'runs' setting of the counterexample study must be an integer ≥ 2. Got 1 instead."),
        ("--runs 9", "--quick means --runs 100 and more; give one of the two. Got --runs 9 as well."),
    ),
    Promise(
        "cesaro.reproduce.rates",
        {"problems": 2, "concentration": 1.0, "horizons": (64, 128, 256), "runs": 10, "resamples": 100},
        [
            ({}, "--problems 20 --runs 40 --seed 0"),
            ({"problems": 3, "seed": 3}, "--problems 3 --runs 40 --seed 3"),
            (quick("cesaro.reproduce.rates", seed=1), "--quick --seed 1"),
            ({"xi": 0.9}, None),
        ],
        [
            ({"problems": 0}, "'problems' setting of the rates study must be an integer ≥ 1. Got 0 instead"),
            ({"features": 0}, "'features'"),
            ({"concentration": 0.0}, "'concentration' .* > 0"),
            ({"off_policy": 1.5}, "'off_policy' .* from 0 to 1"),
            ({"xi": 1.0}, "'xi' .* between 0 and 1"),
            ({"horizons": (256, 512)}, "'horizons' .* at least three increasing multiples"),
            ({"horizons": (256, 512, 700)}, "'horizons'"),
            ({"horizons": (255, 510, 1020)}, "'horizons' .* even"),
            ({"horizons": ()}, "'horizons'"),
            ({"runs": 1}, "'runs'"),
            ({"step_share": 1.0}, "'step_share'"),
            ({"radius_factor": 1.0}, "'radius_factor' .* > 1"),
            ({"rate_step_size": math.nan}, "'rate_step_size'"),
            ({"resamples": 5}, "'resamples'"),
            ({"seed": 2**32}, "'seed' .* from 0 to"),
        ],
        ("--problems 0", "'problems' setting of the rates study must be an integer ≥ 1. Got 0 instead."),
        ("--runs 9", "--quick means --problems 6, --runs 20 and more; give one of the two. Got --runs 9 as well."),
    ),
    Promise(
        "cesaro.reproduce.coverage",
        {"logs": 3, "lengths": (30,), "trajectories": (1, 5, 50), "rows": (400,), "rows_logs": (1,), "limits": (0,)},
        [
            ({}, "--logs 1000 --seed 0"),
            ({"logs": 30, "seed": 3}, "--logs 30 --seed 3"),
            (quick("cesaro.reproduce.coverage", seed=1), "--quick --seed 1"),
            ({"stay": 0.5}, None),
        ],
        [
            ({"logs": 1}, "'logs' setting of the coverage study must be an integer ≥ 2. Got 1 instead"),
            ({"lengths": ()}, "'lengths' .* increasing"),
            ({"lengths": (100, 50)}, "'lengths'"),
            ({"trajectories": (0, 1)}, "'trajectories'"),
            ({"rows_logs": (1,)}, "'rows_logs' .* as many integers ≥ 1 as there are rows"),
            ({"stay": 1.0}, "'stay' .* between 0 and 1"),
            ({"ridge": 0.0}, "'ridge' .* > 0"),
            ({"ridge": math.inf}, "'ridge'"),
            ({"seed": -1}, "'seed'"),
        ],
        ("--logs 0", "'logs' setting of the coverage study must be an integer ≥ 2. Got 0 instead."),
        ("--logs 9", "--quick means --logs 40 and more; give one of the two. Got --logs 9 as well."),
    ),
    Promise(
        MUJOCO,
        {"envs": ("Pendulum-v1",), "sigmas": (0.5,), "transitions": 400, "truth_steps": 400, "lrs": (0.01,)}
        | {"lams": (1.0,), "runs": 2, "minibatches": 100},
        [
            ({}, f"--runs 30 {ROBOTS} --sigma 0.1 --sigma 0.5 --sigma 0.9 --seed 0"),
            (
                quick(MUJOCO, seed=3, actors="my actors"),
                "--quick --env HalfCheetah-v5 --sigma 0.9 --seed 3 --actors 'my actors'",
            ),
            (quick(MUJOCO, envs=("Hopper-v5",)), "--quick --env Hopper-v5 --sigma 0.9 --seed 0"),
            ({"lrs": (0.1,)}, None),
        ],
        [
            ({"envs": ()}, "'envs' setting"),
            ({"envs": ("Pendulum-v1", "Pendulum-v1")}, "'envs' setting .* different names"),
            ({"sigmas": (0.0,)}, "'sigmas' setting"),
            ({"sigmas": (1e40,)}, "'sigmas' setting .* below 1e.30 in size"),
            ({"lrs": (math.inf,)}, "'lrs' setting"),
            ({"transitions": 39}, "'transitions' setting .* ≥ 40. Got 39 instead"),
            ({"runs": 1}, "'runs' setting"),
            ({"minibatches": 150}, "'minibatches' setting .* multiple of 100, .* Got 150 instead"),
            ({"seed": -1}, "'seed' setting"),
        ],
        ("--runs 0", "'runs' setting of the mujoco study must be an integer ≥ 2. Got 0 instead."),
        ("--runs 3", "--quick means --runs 5 and more; give one of the two. Got --runs 3 as well."),
        times=("seconds",),
    ),
    Promise(
        "research.stall",
        {"walks": (6, 12), "noises": (0.0, 0.2), "problems": ("many",), "rows": 600, "steps": 24, "held_steps": 12}
        | {"seeds": 1, "width": 4, "starts": False},
        [
            ({}, "--seeds 2 --seed 0"),
            (quick("research.stall", seed=4), "--quick --seed 4"),
            ({"width": 8}, None),
        ],
        [
            ({"walks": (8,)}, "'walks' setting of the stall study must be at least two increasing"),
            ({"noises": ()}, "'noises'"),
            ({"problems": ("one",)}, "'problems' .* must be many, and others of"),
            ({"rows": 10}, "'rows' .* from 200"),
            ({"steps": 13}, "'steps' .* a multiple of 12. Got 13"),
            ({"seeds": 0}, "'seeds' .* ≥ 1"),
            ({"seed": -1}, "'seed'"),
        ],
        ("--seeds 0", "'seeds' setting of the stall study must be an integer ≥ 1. Got 0 instead."),
        ("--seeds 3", "--quick means --seeds 1 and more; give one of the two. Got --seeds 3 as well."),
    ),
    Promise(
        PRACTICE,
        {"envs": ("Pendulum-v1", "pendulum"), "sigmas": (0.5,), "noises": (1.5,), "transitions": 1_200}
        | {"truth_steps": 1_200, "rows": 1_000, "pendulum_rows": 1_200, "maps": ("linear",), "widths": (8,)}
        | {"steps": 64, "batch_size": 16, "seeds": 2, "members": 2, "world_widths": (8,), "held": ()},
        [
            (
                {},
                f"{ROBOTS} --env pendulum --sigma 0.1 --sigma 0.5 --sigma 0.9 --noise 0.5 --noise 1.0 --noise 1.5 --rows 1000000 "
                "--seed 0 --actions executed",
            ),
            (
                quick(PRACTICE, seed=3, actors="x", noises=(0.7, 2.0), rows=500, actions="chosen"),
                "--quick --env HalfCheetah-v5 --env pendulum --sigma 0.9 --noise 0.7 --noise 2.0 --rows 500 --seed 3 --actors x "
                "--actions chosen",
            ),
            ({"steps": 7}, None),
        ],
        [
            ({"envs": ()}, "one or more names"),
            ({"envs": ("pendulum", "pendulum")}, "each once"),
            ({"noises": (1.0, 0.5)}, "increasing"),
            ({"envs": ("pendulum",), "noises": ()}, "such that a log is left"),
            ({"pendulum_rows": 50}, "multiple of 20"),
            ({"steps": 0}, "integer ≥ 1"),
            ({"discount": 1.0}, "below 1"),
            ({"mixing": 0.0}, "above 0"),
            ({"widths": ()}, "one or more integers"),
            ({"step_size": math.inf}, "finite"),
            ({"seed": -1}, "integer from 0"),
            ({"transitions": 1}, "transitions"),
            ({"actions": "logged"}, "'executed' or 'chosen'"),
        ],
        ("--rows 0", "'rows' setting of the practice study must be an integer ≥ 1. Got 0 instead."),
        (
            "--rows 0",
            "'rows' setting of the practice study must be an integer ≥ 1. Got 0 instead.",
        ),  # goes with --quick
        times=("seconds",),
    ),
]
# The others take seconds to compile.
QUICKLY = ("assumption",)


def each(*, runs: bool = True) -> pytest.MarkDecorator:
    """A test for every study; those that run one are slow, but for one."""
    marks = {promise.name: [] if promise.name in QUICKLY or not runs else [pytest.mark.slow] for promise in PROMISES}
    return pytest.mark.parametrize(
        "promise",
        [pytest.param(promise, id=promise.name, marks=marks[promise.name]) for promise in PROMISES],
        scope="module",
    )


@pytest.fixture(scope="module", autouse=True)
def lenient(adam_is_allowed: None) -> Iterator[None]:
    """Adam also joins numbers of several ranks. Runs are on threads of their own, which a context would not reach."""
    strict = jax.config.jax_numpy_rank_promotion  # type: ignore[attr-defined]
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", strict)


@pytest.fixture(scope="module", autouse=True)
def rough(plain_starts: None) -> Iterator[None]:
    """Worlds that are soon learned and soon run, and a pendulum whose start is soon forgotten."""
    logs = import_module("research.practice.logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "MOST_STEPS", 200)
        patch.setattr(networks, "GLANCE", 200)
        for name, value in (("PARTICLES", 20), ("FIRST", 20), ("MOST_STEPS", 140), ("AGREE", 1e9), ("REMEMBERED", 2.0)):
            patch.setattr(process, name, value)
        patch.setattr(logs, "GRID", (41, 11))
        patch.setattr(logs, "RESET", 1 / 20)
        logs._pendulum_rate.cache_clear()
        yield
    logs._pendulum_rate.cache_clear()


@pytest.fixture(scope="module")
def actors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an actor for Pendulum-v1."""
    folder, rng = tmp_path_factory.mktemp("actors"), np.random.default_rng(0)
    weights, biases = [rng.normal(size=(8, 3)), rng.normal(size=(1, 8))], [np.zeros(8), np.zeros(1)]
    file = folder / "Pendulum-v1.safetensors"
    save_actor(file, weights, biases, activation="relu", squash="tanh", low=[-2.0], high=[2.0])
    return folder


def small(promise: Promise, actors: Path) -> StudyConfig:
    return promise.config(**promise.small, **({"actors": str(actors)} if promise.config.ABOUT.data_help else {}))


@pytest.fixture(scope="module")
def finished(promise: Promise, actors: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A small study: its result, and its folder."""
    out = tmp_path_factory.mktemp(promise.name) / "out"
    return run(small(promise, actors), out, quiet=True), out


def cesaro(promise: Promise, *words: str | Path) -> Outcome:
    """The command of the study."""
    arguments = [str(word) for word in words]
    if promise.package.startswith("cesaro."):
        return CliRunner().invoke(app, ["reproduce", promise.name, *arguments])
    alone = typer.Typer()
    alone.command()(study_command(promise.package, repeats=True))
    return CliRunner().invoke(alone, arguments)


def contents(folder: Path, times: tuple[str, ...]) -> dict[str, Any]:
    """The files of results, tables without times; the manifest and the ledger have tests of their own."""
    found: dict[str, Any] = {}
    for file in folder.iterdir():
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", newline="") as stream:
                rows = list(csv.DictReader(stream))
            found[file.name] = [{key: value for key, value in row.items() if key not in times} for row in rows]
        elif file.suffix == ".png":
            found[file.name] = file.read_bytes()
    return found


def test_every_study_of_the_package_has_promises() -> None:
    assert {promise.name: promise.package for promise in PROMISES if promise.package.startswith("cesaro.")} == STUDIES


@each()
def test_a_folder_holds_files_and_a_manifest(promise: Promise, finished: tuple[Any, Path], actors: Path) -> None:
    result, out = finished
    config = small(promise, actors)
    names = [*import_module(f"{promise.package}.show").files(result), "manifest.json", ".cesaro"]
    assert sorted(file.name for file in out.iterdir()) == sorted(names)
    assert [entry.name for entry in out.parent.iterdir() if entry.name != "mujoco_data"] == ["out"]
    for file in out.glob("*.png"):
        assert file.read_bytes().startswith(b"\x89PNG")
    for rows in (rows for name, rows in contents(out, ()).items() if name.endswith(".csv")):
        assert rows
        assert not {"nan", "inf", "-inf"} & {value for row in rows for value in row.values()}
    found = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert found["schema"] == study.SCHEMA
    assert (found["study"], found["seed"]) == (promise.name, 0)
    assert found["settings"] == json.loads(json.dumps(asdict(config)))
    assert found["summary"] == json.loads(json.dumps(result.summary()))
    assert found["versions"].keys() >= {"cesaro", "python", "numpy", "scipy"}
    is_ours = promise.package.startswith("cesaro.")
    assert (
        found["command"] == f"{'cesaro reproduce' if is_ours else f'python -m {promise.package}'} --from manifest.json"
    )
    assert str(out.parent) not in json.dumps({**found, "settings": {}})


@each()
def test_an_interrupted_run_resumes_to_the_same_files(
    promise: Promise, finished: tuple[Any, Path], actors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored pieces are not computed again, and another number of workers gives the same."""
    config = small(promise, actors)
    kind = import_module(f"{promise.package}.run").STUDY
    original, is_interrupted = kind.jobs, True
    computed: list[str] = []

    def counted(name: str, job: Callable[[], Any]) -> Any:
        if is_interrupted and len(computed) == INTERRUPTED:
            raise KeyboardInterrupt
        computed.append(name)
        return job()

    def jobs(self: Any) -> Any:
        return {name: lambda name=name, job=job: counted(name, job) for name, job in original(self).items()}

    monkeypatch.setattr(kind, "jobs", jobs)
    out, data = tmp_path / "out", finished[1].parent / "mujoco_data"
    with pytest.raises(KeyboardInterrupt):
        run(config, out, data=data, workers=1, quiet=True)
    pieces = tmp_path / "out.partial" / "pieces"
    assert not out.exists()
    assert len(list(pieces.iterdir())) == INTERRUPTED
    if not config.ABOUT.data_help:  # or the other seed would be simulated first
        with pytest.raises(InputError, match=r"unfinished work with other settings \(seed is 0 there and 1 here\)"):
            run(replace(config, seed=1), out, data=data, quiet=True)  # type: ignore[call-arg] # every study has a seed
    is_interrupted = False
    result = run(config, out, data=data, workers=2, quiet=True)
    assert len(computed) == len(set(computed)) > INTERRUPTED
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
    assert result.summary() == finished[0].summary()
    assert contents(out, promise.times) == contents(finished[1], promise.times)


@each()
def test_other_settings_than_those_of_a_started_folder_are_refused(
    promise: Promise, finished: tuple[Any, Path], actors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = import_module(f"{promise.package}.run").STUDY
    monkeypatch.setattr(kind, "jobs", lambda self: {"a": lambda: {"x": np.zeros(1)}})
    monkeypatch.setattr(kind, "result", lambda self, pieces: pytest.fail("it is interrupted before"))
    data = finished[1].parent / "mujoco_data"
    with pytest.raises(pytest.fail.Exception):
        run(small(promise, actors), tmp_path / "out", data=data, quiet=True)
    before = {file: file.read_bytes() for file in (tmp_path / "out.partial").rglob("*") if file.is_file()}
    name, value = next((name, value) for name, value in promise.small.items() if name not in ("envs", "sigmas"))
    other = promise.quick.get(name, getattr(promise.config, name))
    assert other != value
    with pytest.raises(InputError, match=rf"unfinished work with other settings \(.*{name} is .* there and .* here"):
        run(replace(small(promise, actors), **{name: other}), tmp_path / "out", data=data, quiet=True)
    assert {file: file.read_bytes() for file in (tmp_path / "out.partial").rglob("*") if file.is_file()} == before


@each()
def test_an_existing_folder_is_refused(promise: Promise, finished: tuple[Any, Path], actors: Path) -> None:
    before = contents(finished[1], ())
    with pytest.raises(InputError, match="exists; add --force to replace it"):
        run(small(promise, actors), finished[1], quiet=True)
    outcome = cesaro(promise, "--out", finished[1])
    assert (outcome.exit_code, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)
    assert "--force" in outcome.stderr
    assert contents(finished[1], ()) == before


@each()
def test_the_command_prints_tables_and_the_manifest_repeats(
    promise: Promise, finished: tuple[Any, Path], actors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of `--quick` stand for the small ones."""
    monkeypatch.chdir(tmp_path)
    about = promise.config.ABOUT
    monkeypatch.setattr(promise.config, "ABOUT", replace(about, quick=promise.small))
    places = ("--actors", actors, "--data", finished[1].parent / "mujoco_data") if about.data_help else ()
    outcome = cesaro(promise, "--quick", "--quiet", *places)
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stderr == ""
    *lines, last = outcome.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    files = ", ".join(import_module(f"{promise.package}.show").files(finished[0]))
    assert last == f"Results: out/{promise.name} ({files}, manifest.json)"
    made = tmp_path / "out" / promise.name
    assert contents(made, promise.times) == contents(finished[1], promise.times)
    command = json.loads((made / "manifest.json").read_text(encoding="utf-8"))["command"]
    start = (
        f"cesaro reproduce {promise.name}" if promise.package.startswith("cesaro.") else f"python -m {promise.package}"
    )
    assert command.startswith(f"{start} ")
    assert "--quick" in command or promise.name == "assumption"
    if about.data_help:
        (tmp_path / "mujoco_data").symlink_to(finished[1].parent / "mujoco_data")
    words = ["--from", str(made / "manifest.json"), "--out", "again", "--quiet"]
    is_ours = promise.package.startswith("cesaro.")
    again = CliRunner().invoke(app, ["reproduce", *words]) if is_ours else cesaro(promise, *words)
    assert again.exit_code == 0, again.output
    assert again.stdout.splitlines()[-1] == "Repeated: the summary is identical to the manifest's."


@pytest.mark.parametrize(
    ("promise", "settings", "message"),
    [
        pytest.param(promise, settings, message, id=f"{promise.name}-{'-'.join(settings)}-{number}")
        for promise in PROMISES
        for number, (settings, message) in enumerate(promise.wrong)
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(promise: Promise, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        promise.config(**settings)
    assert re.fullmatch(r"The '\w+' setting of the \w+ study must be .*\. Got .* instead\.", refused.value.message)


@each(runs=False)
def test_wrong_options_are_one_line_and_write_nothing(
    promise: Promise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[tuple[tuple[str, ...], str]] = [
        (tuple(promise.options[0].split()), promise.options[1]),
        (("--quick", *promise.both[0].split()), promise.both[1]),
        (("--workers", "0"), "'workers' setting of a study must be an integer ≥ 1 and ≤ 1,024. Got 0."),
        (("--out", "missing/out"), "does not exist; create it"),
        *promise.also,
    ]
    places = ("--data", "data") if promise.config.ABOUT.data_help else ()  # the default is in out/, which is made
    for words, message in asked:
        outcome = cesaro(promise, *words, *places)
        assert (outcome.exit_code, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1), words
        assert outcome.stderr.startswith("error: ")
        assert message in outcome.stderr
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("promise", "settings", "options"),
    [
        pytest.param(promise, settings, options, id=f"{promise.name}-{number}")
        for promise in PROMISES
        for number, (settings, options) in enumerate(promise.commands)
    ],
)
def test_the_recorded_command_gives_the_settings(
    promise: Promise,
    settings: dict[str, Any],
    options: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = promise.config(**settings)
    is_ours = promise.package.startswith("cesaro.")
    start = "cesaro reproduce" if is_ours else f"python -m {promise.package}"
    if options is None:
        assert config.command == f"{start} --from manifest.json"
        return
    assert config.command == f"{start}{f' {promise.name}' if is_ours else ''} {options}"
    asked: list[StudyConfig] = []

    def asks(config: StudyConfig, *_: Any, **__: Any) -> Any:
        asked.append(config)
        raise InputError("That is all.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "run", asks)
    cesaro(promise, *[word.strip("'") for word in re.findall(r"'[^']*'|\S+", options)])
    assert asked == [config]


@pytest.mark.parametrize("name", MOVED)
def test_studies_that_moved_say_where(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = "cesaro suite --only pendulum" if name == "pendulum" else f"python -m research.{name}"
    for words in ((), ("--quick", "--seeds", "2"), ("--out", "x")):
        outcome = CliRunner().invoke(app, ["reproduce", name, *words])
        assert (outcome.exit_code, outcome.stdout, outcome.stderr.count("\n")) == (2, "", 1)
        assert place in outcome.stderr
    assert list(tmp_path.iterdir()) == []
    manifest = {"schema": study.SCHEMA, "study": name, "settings": {}, "summary": {}, "versions": {}}
    (tmp_path / "m.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(InputError, match=place):
        study.read(tmp_path / "m.json")
