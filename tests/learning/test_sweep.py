"""The sweep as a user meets it: interruption, divergence, files, sampling, own objectives, and input that is wrong."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import cesaro as cs
from cesaro import files
from cesaro.algorithms import REGISTRY, Batch, Objective
from cesaro.algorithms.saddle_point import copied, tracked
from cesaro.approximators import Function, linear
from cesaro.learning import checkpoints, engine
from cesaro.learning.arguments import RunShape
from cesaro.learning.run import rows
from cesaro.learning.source import source

Array = NDArray[np.float64]

PROBLEM = cs.problems.random_problem(80, 3, 2, 2)
SMALL: dict[str, Any] = {
    "settings": cs.grid(step_size=[0.05, 0.1]),
    "seeds": 3,
    "budget": 40,
    "record_every": 20,
    "window": 20,
}


def run(method: Any = "diff-sgq", data: Any = PROBLEM, **changes: Any) -> cs.Sweep:
    return cs.sweep(method, data, **{**SMALL, **changes})


def assert_identical(first: cs.Sweep, second: cs.Sweep) -> None:
    assert (first.method, first.settings) == (second.method, second.settings)
    for name in ("seeds", "samples", "reward_rate", "diverged_at"):
        one, other = getattr(first, name), getattr(second, name)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes(), name
    assert first.records.keys() == second.records.keys()
    assert all(values.tobytes() == second.records[name].tobytes() for name, values in first.records.items())


def attempt(action: Callable[[], cs.Sweep]) -> cs.Sweep | str:
    """A result, or the sentence with which it was refused."""
    try:
        return action()
    except cs.InputError as error:
        return str(error)


# Interruption.

# A sweep with a checkpoint after every record; what the test does to it comes in between.
INTERRUPTED = """
    import os, signal, sys, time
    os.environ["JAX_PLATFORMS"] = "cpu"
    import cesaro as cs
    from cesaro.learning import checkpoints, engine, result

    engine.CHECKPOINT_SECONDS, engine.DRAWN_AHEAD, engine.CPU_NUMBERS = 0.0, 1, 12
    {sabotage}
    cs.sweep("diff-gq2", cs.problems.random_problem(80, 3, 2, 2), checkpoint=sys.argv[1], **{arguments})
    print("finished")
"""
ARGUMENTS: dict[str, Any] = {
    "settings": [{"step_size": 0.05}, {"step_size": 0.02, "ridge": 0.1}, {"step_size": 4.0}],
    "seeds": 3,
    "budget": 2000,
    "record_every": 20,
    "window": 40,
    "record": ("weights",),
}
# Slow enough to be met alive in the middle.
SLOW = """
    save = checkpoints.save
    def slow(*arguments):
        save(*arguments)
        time.sleep(0.1)
    checkpoints.save = slow
"""
# Dies after the tenth file is written beside the ninth and before it replaces it.
DIES_WRITING = """
    replace, calls = os.replace, []
    def dying(*arguments):
        calls.append(arguments)
        if len(calls) == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments)
    os.replace = dying
"""


def interrupted(path: Path, sabotage: str) -> subprocess.Popen[str]:
    code = textwrap.dedent(INTERRUPTED).format(sabotage=textwrap.dedent(sabotage), arguments=ARGUMENTS)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def records_done(path: Path) -> int:
    with np.load(path) as stored:
        done = json.loads(str(stored["meta"]))["done"]
    assert isinstance(done, int)
    return done


@pytest.fixture
def _many_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(engine, "DRAWN_AHEAD", 1)
    monkeypatch.setattr(engine, "CPU_NUMBERS", 12)


@pytest.mark.slow
@pytest.mark.usefixtures("_many_segments")
def test_a_killed_sweep_resumes_bit_for_bit(tmp_path: Path) -> None:
    """kill -9 from outside in the middle, and again at the worst moment inside a write; one run diverges meanwhile."""
    problem = cs.problems.random_problem(80, 3, 2, 2)
    whole = cs.sweep("diff-gq2", problem, **ARGUMENTS)
    assert (whole.diverged_at[2] >= 0).all(), "also a diverged run is carried over"
    assert (whole.diverged_at[:2] == -1).all()

    path = tmp_path / "outside.npz"
    with interrupted(path, SLOW) as process:
        deadline = time.monotonic() + 120
        while not (path.exists() and records_done(path) >= 5):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no checkpoint after two minutes"
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert "finished" not in out
    assert 5 <= records_done(path) < 100
    assert_identical(cs.sweep("diff-gq2", problem, checkpoint=path, **ARGUMENTS), whole)
    assert records_done(path) == 100
    assert_identical(cs.sweep("diff-gq2", problem, checkpoint=path, **ARGUMENTS), whole)  # nothing left to do

    path = tmp_path / "inside.npz"
    with interrupted(path, DIES_WRITING) as process:
        process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    assert records_done(path) == 9
    assert_identical(cs.sweep("diff-gq2", problem, checkpoint=path, **ARGUMENTS), whole)
    assert [file.name for file in tmp_path.glob("*inside*")] == ["inside.npz"], "nothing is left lying about"


@pytest.mark.usefixtures("_many_segments")
def test_a_checkpoint_is_continued_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is missing is computed: the continuing call draws rows for the remaining records alone."""

    class Stop(Exception):
        pass

    save, saved, drawn = checkpoints.save, [], []

    def stopping(path: Path, identity: Any, done: int, *rest: Any) -> None:
        save(path, identity, done, *rest)
        saved.append(done)
        if len(saved) == 3:
            raise Stop

    def counting(origin: Any, seeds: Any, first: Any, shape: Any, records: Any) -> Any:
        drawn.append(int(first))
        return rows(origin, seeds, first, shape, records)

    path, arguments = tmp_path / "sweep.npz", {**SMALL, "budget": 160, "checkpoint": tmp_path / "sweep.npz"}
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "save", stopping)
        with pytest.raises(Stop):
            cs.sweep("diff-sgq", PROBLEM, **arguments)
    assert records_done(path) == 3
    monkeypatch.setattr(engine, "rows", counting)
    resumed = cs.sweep("diff-sgq", PROBLEM, **arguments)
    assert sorted(set(drawn)) == [3, 4, 5, 6, 7]
    assert_identical(resumed, cs.sweep("diff-sgq", PROBLEM, **{**arguments, "checkpoint": None}))


def scaled_objective(factor: float) -> Objective:
    """Diff-SGQ with its scalar multiplied: another method with the same variables."""
    base = REGISTRY["diff-sgq"](linear, 2)
    return base._replace(lagrangian=lambda *arguments: factor * base.lagrangian(*arguments))


DIFFERENCES: dict[str, tuple[dict[str, Any], str]] = {
    "settings": ({"settings": cs.grid(step_size=[0.05, 0.11])}, "settings"),
    "more settings": ({"settings": cs.grid(step_size=[0.05, 0.1, 0.2])}, "settings"),
    "seeds": ({"seeds": [0, 1, 3]}, "seeds"),
    "budget": ({"budget": 60}, "records"),
    "record_every": ({"record_every": 10, "window": 10}, "shape"),
    "window": ({"window": 10}, "shape"),
    "batch_size": ({"batch_size": 5}, "shape"),
    "method": ({"method": "diff-gq1"}, "method"),
    "data": ({"data": cs.problems.random_problem(81, 3, 2, 2)}, "data"),
    "dtype": ({"dtype": "float64"}, "dtype"),
    "schedule": ({"schedule": "robbins-monro"}, "schedule"),
    "approximator": ({"approximator": "linear-random"}, "approximator"),
    "record": ({"record": ("weights",)}, "record"),
    "target": ({"target": copied(3)}, ""),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_checkpoint_of_another_sweep_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.npz"
    run(checkpoint=path)
    before = path.read_bytes()
    changes, word = DIFFERENCES[name]
    with pytest.raises(cs.InputError, match=rf"belongs to another sweep \(different: .*{word}"):
        run(**{"checkpoint": path, **changes})
    assert path.read_bytes() == before


def test_a_checkpoint_of_another_objective_is_refused(tmp_path: Path) -> None:
    """Two objectives of a user with variables of the same shapes; the second is a different method."""
    path = tmp_path / "sweep.npz"
    first, other = run(scaled_objective(1.0), checkpoint=path), scaled_objective(0.5)
    second = run(other)
    assert np.abs(first.reward_rate - second.reward_rate).min() > 1e-4
    with pytest.raises(cs.InputError, match="belongs to another sweep"):
        run(other, checkpoint=path)


def test_a_checkpoint_of_an_objective_with_other_numbers_is_refused(tmp_path: Path) -> None:
    """Arrays that an objective encloses stand in no text, neither its own nor that of its program."""
    path, base = tmp_path / "sweep.npz", REGISTRY["diff-sgq"](linear, 2)

    def weighted(weights: Array) -> Objective:
        where = np.asarray(weights, np.float32)
        return base._replace(lagrangian=lambda *given: where[1] * base.lagrangian(*given) + 0 * where.sum())

    run(weighted(np.array([1.0, 1.0])), checkpoint=path)
    run(weighted(np.array([1.0, 1.0])), checkpoint=path)
    with pytest.raises(cs.InputError, match=r"belongs to another sweep \(different: .*source\)"):
        run(weighted(np.array([1.0, 0.5])), checkpoint=path)


def test_a_checkpoint_of_an_older_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sweep.npz"
    run(checkpoint=path)
    kept = files.read_values(path, checkpoints.SCHEMA)
    files.write_values(path, "cesaro-sweep-checkpoint/2", kept)
    with pytest.raises(cs.InputError, match="was made by an older version; delete it, or choose another file"):
        run(checkpoint=path)


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_damaged_checkpoint_gets_one_sentence(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "sweep.npz"
    run(checkpoint=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    with pytest.raises(cs.InputError, match="or it is damaged") as caught:
        run(checkpoint=path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [lambda chunks: 3, lambda chunks: [*chunks, None], lambda chunks: [{**chunks[0], "carry": chunks[0]["carry"][1:]}]],
)
def test_a_checkpoint_with_other_parts_gets_one_sentence(change: Callable[[Any], Any], tmp_path: Path) -> None:
    path = tmp_path / "sweep.npz"
    run(checkpoint=path)
    kept = files.read_values(path, checkpoints.SCHEMA)
    files.write_values(path, checkpoints.SCHEMA, {**kept, "chunks": change(kept["chunks"])})
    with pytest.raises(cs.InputError, match="does not hold the 1 parts of this sweep; delete it"):
        run(checkpoint=path)


def test_other_files_are_no_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    run().save(path)
    with pytest.raises(cs.InputError, match="holds 'cesaro-sweep/1'"):
        run(checkpoint=path)
    with pytest.raises(cs.InputError, match=r"must be a file, or nothing yet\. Got a folder"):
        run(checkpoint=tmp_path)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours of work must not end with "No such file or directory"."""

    def no_work(*_: Any) -> Any:
        raise AssertionError("the work has begun")

    run()
    monkeypatch.setattr(engine, "_drawn", no_work)
    with pytest.raises(cs.InputError, match="cannot be written"):
        run(checkpoint=tmp_path / "missing" / "sweep.npz")


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    """Budgets from arrays, also where they are written to a checkpoint."""
    numbers: dict[str, Any] = {name: np.int64(SMALL[name]) for name in ("budget", "record_every", "window", "seeds")}
    path = tmp_path / "sweep.npz"
    assert_identical(run(**numbers, batch_size=np.int32(1), checkpoint=path), run())
    assert_identical(run(checkpoint=path), run())


# Divergence.


def test_diverged_runs_are_flagged_at_the_right_sample_and_leave_no_number_behind() -> None:
    """Diff-SGQ on the counterexample in NumPy, sample by sample, until |r̂| exceeds a million times 1 + max |R|."""
    problem = cs.problems.two_state_counterexample()
    rewards = np.array([[1.0], [-3.0]])
    problem = problem.replace(mdp=cs.TabularMDP(problem.mdp.probabilities, rewards))
    settings = cs.grid(step_size=[0.06, 1e-4])
    result = cs.sweep(
        "diff-sgq",
        problem,
        settings=settings,
        seeds=4,
        budget=600,
        record_every=20,
        window=40,
        record={
            "weight": lambda state: state.primal["values"]["weights"][0],
            "whole": lambda state: state.primal["rate"],
        },
        dtype="float64",
    )
    space = problem.sample_space
    with jax.enable_x64(True):
        drawn = np.asarray(rows(source(problem, "float64"), np.arange(4), 0, RunShape(600, 600, 1, 1), 1))
    for s in range(4):
        w, r, rates, diverged = 0.0, 0.0, [], -1
        for k, row in enumerate(drawn[:, s], start=1):
            x, x1, R = problem.X[space.pair[row], 0], problem.X[space.next_pair[row], 0], problem.r[space.pair[row]]
            delta = R - r + x1 * w - x * w
            w, r = w + 0.06 * delta * x, r + 0.06 * delta
            rates.append(r)
            if not abs(r) <= 1e6 * (1 + 3.0):
                diverged = k
                break
        assert diverged > 0, "this seed must diverge"
        assert result.diverged_at[0, s] == diverged
        before = result.samples < diverged
        assert before.any()
        expected = [np.mean(rates[max(0, k - 40) : k]) for k in result.samples[before]]
        np.testing.assert_allclose(result.reward_rate[0, s, before], expected, rtol=1e-8)
        for values in (result.reward_rate, result.records["weight"], result.records["whole"]):
            assert np.isnan(values[0, s, ~before]).all()
            assert np.isfinite(values[0, s, before]).all()
    assert (result.diverged_at[1] == -1).all()
    assert all(np.isfinite(values[1]).all() for values in (result.reward_rate, *result.records.values()))
    assert result.diverged.tolist() == [True, False]
    assert "4 of 8 runs diverged" in repr(result)
    assert not np.isinf(result.reward_rate).any()


@pytest.mark.slow
@pytest.mark.parametrize("method", REGISTRY)
def test_no_infinity_reaches_a_table(method: str) -> None:
    """Absurd step sizes in float32 overflow within a few steps: flagged, nan in the arrays, never infinite."""
    result = run(method, settings=cs.grid(step_size=[1e3, 1e18, 1e38, 1e-3]), record=("weights", "last_reward_rate"))
    for values in (result.reward_rate, *result.records.values()):
        assert not np.isinf(values).any()
        assert np.isfinite(values[3]).all()
        flagged = result.diverged_at[:, :, None] >= 0
        late = flagged & (result.samples >= result.diverged_at[:, :, None])
        assert np.isnan(values[late]).all()
        assert np.isfinite(values[~late]).all()
    assert (result.diverged_at[1:3] >= 0).all()
    assert result.best(0.0).index == 3


@pytest.mark.slow
def test_large_rewards_do_not_hide_an_infinity() -> None:
    """The bound of divergence, a million times the largest reward, must itself be a number of float32."""
    data = cs.FeatureTransitions([[1.0], [8.0]], [1e34, -1e34], [[8.0], [8.0]], weights=[6, 1])
    result = run("diff-sgq", data, settings=cs.grid(step_size=1.0), record_every=1, window=1, budget=40)
    assert not np.isinf(result.reward_rate).any()
    flagged = result.diverged_at[:, :, None]
    assert np.isfinite(result.reward_rate[(flagged < 0) | (result.samples < flagged)]).all()


def made_up(rates: list[list[float]], diverged: list[list[int]]) -> cs.Sweep:
    """A sweep of one record with the given numbers."""
    return cs.Sweep(
        "diff-sgq",
        [{"step_size": 0.1 * (i + 1)} for i in range(len(rates))],
        np.arange(len(rates[0])),
        np.array([10]),
        np.array(rates)[:, :, None],
        np.array(diverged),
    )


def test_best_is_the_smallest_mean_error_without_divergence() -> None:
    nan = float("nan")
    sweep = made_up([[1.0, nan], [0.2, 0.8], [0.5, 0.8], [1.3, 0.7]], [[-1, 7], [-1, -1], [-1, -1], [-1, -1]])
    np.testing.assert_allclose(sweep.final_error(1.0), [np.inf, 0.5, 0.35, 0.3])
    best = sweep.best(1.0)
    assert (best.index, best.setting) == (3, sweep.settings[3])
    assert best.error == pytest.approx(0.3)
    assert best.spread == pytest.approx(0.0)
    np.testing.assert_allclose(best.curve, [0.3])
    other = sweep.best(0.5)
    assert other.index == 2
    assert (other.error, other.spread) == pytest.approx((0.15, 0.15))


def test_a_setting_with_a_diverged_run_is_never_best_even_if_its_numbers_are() -> None:
    """The flag decides, not the nan."""
    sweep = made_up([[1.0, 1.0], [5.0, 5.0]], [[-1, 3], [-1, -1]])
    assert sweep.best(1.0).index == 1
    everything = made_up([[1.0], [1.0]], [[3], [3]])
    with pytest.raises(cs.CesaroError, match="Every setting of diff-sgq diverged; take smaller step sizes"):
        everything.best(1.0)


@pytest.mark.parametrize("truth", [float("nan"), float("inf"), "1.9", None])
def test_best_needs_a_number(truth: Any) -> None:
    with pytest.raises(cs.InputError, match="truth must be"):
        made_up([[1.0], [2.0]], [[-1], [-1]]).best(truth)


# Averages.


@pytest.mark.slow
@pytest.mark.parametrize("window", [30_000, 200_000])
def test_the_mean_over_a_long_window_keeps_its_digits(window: int) -> None:
    """A rate that is one at every step has mean one; plain float32 sums lose a thousandth and more."""
    data = cs.FeatureTransitions([[0.0]], [1.0], [[0.0]])
    result = cs.sweep(
        "diff-sgq", data, settings=cs.grid(step_size=1.0), seeds=1, budget=window, record_every=window, window=window
    )
    np.testing.assert_allclose(result.reward_rate, 1.0, rtol=1e-5)


# Files and frames.


def test_save_and_load(tmp_path: Path) -> None:
    recorders = {
        "weights of q/1": lambda state: state.primal["values"]["weights"],
        "n": lambda state: jnp.zeros((2, 2)),
    }
    sweep = run("diff-gq1", settings=[{"step_size": 3.0}, {"step_size": 0.1, "ridge": 0.2}], record=recorders)
    assert sweep.diverged[0]
    path = tmp_path / "result.npz"
    sweep.save(path)
    loaded = cs.Sweep.load(path)
    assert_identical(loaded, sweep)
    assert repr(loaded) == repr(sweep)
    sweep.save(str(path))  # over an existing file
    assert_identical(cs.Sweep.load(str(path)), sweep)
    assert [file.name for file in tmp_path.iterdir()] == ["result.npz"]


def test_damaged_files_get_one_sentence(tmp_path: Path) -> None:
    """Cut anywhere, or with any byte changed: refused, or read as what was written, never as something else."""
    sweep = run()
    path, damaged = tmp_path / "result.npz", tmp_path / "damaged.npz"
    sweep.save(path)
    whole = path.read_bytes()
    refused = 0
    rng = np.random.default_rng(0)
    cuts = [whole[:length] for length in (0, 1, 50, len(whole) // 2, len(whole) - 1)]
    flips = []
    for position in rng.integers(len(whole), size=60):
        changed = bytearray(whole)
        changed[position] ^= 0xFF
        flips.append(bytes(changed))
    for content in cuts + flips:
        damaged.write_bytes(content)
        outcome = attempt(lambda: cs.Sweep.load(damaged))
        if isinstance(outcome, str):
            refused += 1
            assert "\n" not in outcome
            assert str(damaged) in outcome
        else:
            assert_identical(outcome, sweep)
    assert refused > 40


def test_files_that_are_something_else_get_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with pytest.raises(cs.InputError, match="does not exist"):
        cs.Sweep.load(path)
    with pytest.raises(cs.InputError, match="cannot be written"):
        run().save(tmp_path / "missing" / "x.npz")
    path.write_text("a,b\n1,2\n")
    with pytest.raises(cs.InputError, match="is not a file of this package"):
        cs.Sweep.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(cs.InputError, match="is not a file of this package"):
        cs.Sweep.load(path)
    for meta in ('{"schema": "cesaro-sweep/99"}', "[1, 2]", '{"schema": "cesaro-sweep/1"}'):
        np.savez(path, meta=np.array(meta))
        with pytest.raises(cs.InputError):
            cs.Sweep.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.npz"
    sweep = run()
    sweep.save(path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(cs.InputError, match="No space left on device"):
        sweep.save(path)
    assert path.read_bytes() == before


def test_a_frame_has_a_row_per_setting_seed_and_record() -> None:
    settings = cs.grid(step_size=[3.0, 0.1], ridge=[0.0, 0.2])
    sweep = run("diff-gq1", settings=settings, seeds=[5, 2, 9], record=("weights", "last_reward_rate"))
    frame = sweep.to_frame()
    assert list(frame.columns) == ["step_size", "ridge", "seed", "samples", "reward_rate", "diverged_at"]
    assert len(frame) == 4 * 3 * 2
    for i, setting in enumerate(sweep.settings):
        for j, seed in enumerate(sweep.seeds):
            chosen = (frame["step_size"] == setting["step_size"]) & (frame["ridge"] == setting["ridge"])
            part = frame[chosen & (frame["seed"] == seed)]
            np.testing.assert_array_equal(part["samples"], sweep.samples)
            np.testing.assert_array_equal(part["reward_rate"], sweep.reward_rate[i, j])
            assert (part["diverged_at"] == sweep.diverged_at[i, j]).all()
    assert not np.isinf(frame["reward_rate"]).any()
    assert (frame.loc[frame["reward_rate"].isna(), "diverged_at"] > 0).all()


def test_settings_that_name_different_numbers_keep_them_all() -> None:
    """What one setting leaves out has its default there, and the frame says so."""
    for settings in ([{"step_size": 0.1, "ridge": 0.3}, {"step_size": 0.2}], [{}, {"step_size": 0.2, "ridge": 0.3}]):
        sweep = run("diff-gq1", settings=settings)
        frame = sweep.to_frame()
        assert {"step_size", "ridge"} <= set(frame.columns)
        expected = [settings[0].get("ridge", 0.0), settings[1].get("ridge", 0.0)]
        np.testing.assert_array_equal(frame["ridge"], np.repeat(expected, 6))
        alone = run("diff-gq1", settings=2 * [{"step_size": 0.2, "ridge": settings[1].get("ridge", 0.0)}])
        np.testing.assert_allclose(sweep.reward_rate[1], alone.reward_rate[0], rtol=1e-5)


def test_grid() -> None:
    assert cs.grid(step_size=[0.1, 0.2], ridge=(0.0, 1)) == [
        {"step_size": 0.1, "ridge": 0.0},
        {"step_size": 0.1, "ridge": 1.0},
        {"step_size": 0.2, "ridge": 0.0},
        {"step_size": 0.2, "ridge": 1.0},
    ]
    assert cs.grid(step_size=np.array([0.5])) == [{"step_size": 0.5}]
    assert cs.grid(step_size=0.5) == [{"step_size": 0.5}]
    for wrong in ([], [0.1, float("nan")], [0.1, -0.1], "0.1", "12", None, [[0.1]]):
        with pytest.raises(cs.InputError, match="step_size must") as caught:
            cs.grid(step_size=wrong)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


# Sampling.


def chi_square(counts: NDArray[np.int64], probability: Array) -> float:
    """p-value, with categories of expected count below ten put together."""
    total = counts.sum()
    large = probability * total >= 10
    observed = np.append(counts[large], counts[~large].sum())
    expected = np.append(probability[large], probability[~large].sum()) * total
    keep = expected > 0
    assert observed[~keep].sum() == 0
    return float(stats.chisquare(observed[keep], expected[keep]).pvalue)


def draws(data: Any, count: int, seeds: int) -> NDArray[np.int32]:
    """Row numbers, `[count, seeds]`."""
    return np.asarray(rows(source(data, "float32"), np.arange(seeds), 0, RunShape(count, count, 1, 1), 1))


def test_rows_of_a_known_problem_come_with_their_probabilities() -> None:
    """Frequencies, and independence of neighbours and of seeds: chi-square, error rate 3e-6 in all."""
    problem = cs.problems.random_problem(82, 4, 2, 2, concentration=0.3)
    space = problem.sample_space
    # The tuples themselves, written out.
    dense = np.asarray(problem.mdp.probabilities)
    expected = np.einsum("sa,sat,tb->satb", problem.sampling, dense, problem.policy).reshape(8, 8)
    np.testing.assert_allclose(space.probability, expected[space.pair, space.next_pair], rtol=1e-12)
    assert space.probability.sum() == pytest.approx(1, abs=1e-12)
    drawn = draws(problem, 50_000, 4)
    counts = np.bincount(drawn.ravel(), minlength=len(space.pair))
    assert chi_square(counts, space.probability) > 1e-6
    pair, law = space.pair[drawn], problem.d
    neighbours = np.bincount((pair[:-1] * 8 + pair[1:]).ravel(), minlength=64)
    assert chi_square(neighbours, np.outer(law, law).ravel()) > 1e-6
    beside = np.bincount((pair[:, 0] * 8 + pair[:, 1]).ravel(), minlength=64)
    assert chi_square(beside, np.outer(law, law).ravel()) > 1e-6


def test_rows_of_transitions_come_with_their_weights() -> None:
    """Chi-square, error rate 2e-6 in all; rows of weight zero never, at the beginning and the end neither."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=40) ** 3
    weights[[0, 1, 17, 18, 39]] = 0.0
    x = rng.normal(size=(40, 2))
    data = cs.FeatureTransitions(x, np.zeros(40), x, weights=1e5 * weights)
    counts = np.bincount(draws(data, 100_000, 1).ravel(), minlength=40)
    assert len(counts) == 40
    assert (counts[weights == 0] == 0).all()
    assert chi_square(counts, weights / weights.sum()) > 1e-6
    data = cs.FeatureTransitions(x, np.zeros(40), x)
    counts = np.bincount(draws(data, 100_000, 1).ravel(), minlength=40)
    assert chi_square(counts, np.full(40, 1 / 40)) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0, 1, 2**31, 2**32 - 2, 2**32 - 1])
def test_no_random_number_leads_to_a_row_of_weight_zero(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor out of the table: the extremes of the generator, which nobody meets by drawing."""
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: jnp.full(shape, bits, dtype))
    x = np.ones((6, 1))
    data = cs.FeatureTransitions(x, np.zeros(6), x, weights=[0, 0, 1, 0, 3, 0])
    origin = source(data, "float32")
    with jax.disable_jit():
        drawn = np.asarray(rows(origin, np.arange(1), 0, RunShape(3, 3, 1, 1), 1))
    assert set(drawn.ravel().tolist()) <= {2, 4}


def test_data_and_problem_give_the_same_runs() -> None:
    """The sample space of a problem as weighted rows: the same rows in the same order, so the same runs."""
    space = PROBLEM.sample_space
    data = cs.FeatureTransitions(
        PROBLEM.X[space.pair], PROBLEM.r[space.pair], PROBLEM.X[space.next_pair], weights=space.probability
    )
    np.testing.assert_allclose(run(data=data).reward_rate, run().reward_rate, rtol=1e-5, atol=1e-7)


def test_the_tabular_case_is_one_hot_features() -> None:
    """Tabular Diff-SGQ (differential TD with a table) in NumPy, on the drawn samples."""
    problem = PROBLEM.replace(features=np.eye(6).reshape(3, 2, 6))
    result = run(data=problem, record=("weights",), dtype="float64")
    space = problem.sample_space
    drawn = draws(PROBLEM, 40, 3)  # which rows does not depend on the features
    for i, alpha in enumerate((0.05, 0.1)):
        for s in range(3):
            table, rate, rates = np.zeros(6), 0.0, []
            for row in drawn[:, s]:
                here, there = space.pair[row], space.next_pair[row]
                delta = problem.r[here] - rate + table[there] - table[here]
                table[here] += alpha * delta
                rate += alpha * delta
                rates.append(rate)
            np.testing.assert_allclose(result.records["weights"][i, s, -1], table, rtol=1e-11, atol=1e-14)
            np.testing.assert_allclose(
                result.reward_rate[i, s], np.mean(np.reshape(rates, (2, 20)), axis=1), rtol=1e-11
            )


# Starts.


@pytest.mark.slow
def test_a_random_start_is_uniform_and_belongs_to_the_seed() -> None:
    """±1/√inputs: Kolmogorov–Smirnov on 2,000 starts of four weights, error rate 1e-6, with a step too small to move them.

    The dual starts elsewhere than the primal.
    """
    problem = cs.problems.random_problem(83, 3, 2, 4)
    tiny = [{"step_size": 1e-12}, {"step_size": 1e-13, "ridge": 0.5}]
    recorders = {
        "weights": lambda state: state.primal["values"]["weights"],
        "dual": lambda state: state.dual["weights"],
    }
    arguments: dict[str, Any] = {"settings": tiny, "approximator": "linear-random", "record": recorders, "budget": 20}
    result = run("diff-gq3", problem, seeds=2000, **arguments)
    start = result.records["weights"][0, :, 0]
    np.testing.assert_allclose(result.records["weights"][1, :, 0], start, atol=1e-6)
    assert np.abs(start).max() <= 0.5 + 1e-6
    assert stats.kstest(start.ravel(), stats.uniform(-0.5, 1.0).cdf).pvalue > 1e-6
    assert np.abs(np.corrcoef(start.T) - np.eye(4)).max() < 5 / np.sqrt(2000)
    assert np.abs(start - result.records["dual"][0, :, 0]).min() > 1e-6
    backwards = run("diff-gq3", problem, seeds=range(1999, -1, -1), **arguments)
    np.testing.assert_allclose(backwards.records["weights"][0, :, 0], start[::-1], atol=1e-6)
    zero = run("diff-gq3", settings=tiny, record=("weights",))
    assert np.abs(zero.records["weights"]).max() < 1e-6


# A user's own parts.


def mean_reward(approximator: Any, num_inputs: int) -> Objective:
    """Tracks the mean reward of the data, and the mean of a function of its two samples."""

    def init(key: Any) -> Any:
        return {"rate": jnp.zeros(()), "spread": jnp.zeros(())}, {"unused": jnp.zeros(3)}

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Batch, hyper: Any) -> Any:
        spread = jnp.mean((batch.reward[0] - batch.reward[1]) ** 2)
        rate = 0.5 * jnp.mean((batch.reward - primal["rate"]) ** 2)
        return rate + 0.5 * hyper["speed"] * (spread - primal["spread"]) ** 2

    return Objective(init, lagrangian, lambda primal: primal["rate"], None, {"step_size": 0.1, "speed": 1.0}, 2)


def test_a_users_objective_and_records() -> None:
    """By function and ready made; its own numbers swept; records of any shape; literal replay."""
    recorders = {
        "spread": lambda state: state.primal["spread"],
        "matrix": lambda state: state.primal["rate"] * jnp.ones((2, 3)),
        "dual": lambda state: state.dual["unused"],
        "constant": lambda state: 3.0,
    }
    settings = cs.grid(step_size=[0.05, 0.1], speed=[1.0, 0.5])
    by_function = run(mean_reward, settings=settings, record=recorders)
    ready = run(mean_reward(linear, 2), settings=settings, record=recorders)
    assert by_function.method == "mean_reward"
    np.testing.assert_array_equal(by_function.reward_rate, ready.reward_rate)
    shapes = {name: values.shape for name, values in ready.records.items()}
    assert shapes == {"spread": (4, 3, 2), "matrix": (4, 3, 2, 2, 3), "dual": (4, 3, 2, 3), "constant": (4, 3, 2)}
    rewards = PROBLEM.r[PROBLEM.sample_space.pair][draws(PROBLEM, 40, 3)]
    for i, setting in enumerate(settings):
        for s in range(3):
            rate = spread = 0.0
            for first, second in rewards[:, s].reshape(20, 2):
                rate += setting["step_size"] * (0.5 * (first + second) - rate)
                spread += setting["step_size"] * setting["speed"] * ((first - second) ** 2 - spread)
            np.testing.assert_allclose(ready.records["matrix"][i, s, -1], np.full((2, 3), rate), rtol=1e-4)
            np.testing.assert_allclose(ready.records["spread"][i, s, -1], spread, rtol=1e-4)
    assert (ready.records["constant"] == 3).all()
    assert (ready.records["dual"] == 0).all()


@pytest.mark.slow
def test_objectives_that_differ_in_what_is_projected_are_different() -> None:
    """A compiled program must not be taken for that of another objective."""
    base = REGISTRY["diff-gq1"](linear, 2)
    settings, record = cs.grid(step_size=0.5), ("last_reward_rate",)
    both = run(base, settings=settings, radius=0.02, record=record)
    only_values = run(base._replace(projected=("values",)), settings=settings, radius=0.02, record=record)
    assert np.abs(both.records["last_reward_rate"]).max() <= 0.02 + 1e-6
    assert np.abs(only_values.records["last_reward_rate"]).max() > 0.021


def test_an_approximator_of_ones_own() -> None:
    """Features times two is a step times four on the weights of Diff-SGQ's q, so it is another run; named in no registry."""

    def doubled(num_inputs: int, *, bias: bool) -> Function:
        base = linear(num_inputs, bias=bias)
        return Function(base.init, lambda params, x: base.apply(params, 2 * x))

    result = run(approximator=doubled, record=("weights",), dtype="float64")
    expected = run(data=PROBLEM.replace(features=2 * PROBLEM.features), record=("weights",), dtype="float64")
    np.testing.assert_allclose(result.reward_rate, expected.reward_rate, rtol=1e-10)
    np.testing.assert_allclose(result.records["weights"], expected.records["weights"], rtol=1e-10)


def test_a_radius_too_large_to_matter_changes_nothing() -> None:
    """Only averages are reported then. Where its square is no number of float32 it is refused, or does not matter either."""
    settings = cs.grid(step_size=0.05)
    expected = run("diff-gq1", settings=settings, radius=1e6).reward_rate
    assert np.abs(expected).min() > 1e-6
    outcome = attempt(lambda: run("diff-gq1", settings=settings, radius=1e25))
    if isinstance(outcome, str):
        assert "radius" in outcome
    else:
        np.testing.assert_allclose(outcome.reward_rate, expected, rtol=1e-5)


# JAX's global state.


@pytest.mark.slow
def test_no_flag_of_jax_is_changed() -> None:
    before = dict(jax.config.values)
    run(dtype="float64")
    run()
    cs.learning.dynamics("diff-sgq", PROBLEM)
    assert dict(jax.config.values) == before


def test_float32_is_float32_also_where_the_user_computes_in_float64() -> None:
    expected = run("diff-gq2", record=("weights",))
    assert not jax.config.read("jax_enable_x64")
    with jax.enable_x64(True):
        assert_identical(run("diff-gq2", record=("weights",)), expected)
    jax.config.update("jax_enable_x64", True)
    try:
        assert_identical(run("diff-gq2", record=("weights",)), expected)
        assert jax.config.read("jax_enable_x64")
        assert jnp.zeros(()).dtype == jnp.float64
    finally:
        jax.config.update("jax_enable_x64", False)


# Wrong input: one sentence that names what is wrong.

NAN, INF = float("nan"), float("inf")
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown method": ({"method": "diff-gq9"}, "method must be one of"),
    "method in a list": ({"method": ["diff-gq1"]}, "method must be one of"),
    "method that builds no objective": ({"method": lambda approximator, inputs: 3}, "Objective"),
    "raw mdp": ({"data": PROBLEM.mdp}, "LinearProblem or FeatureTransitions"),
    "no data": ({"data": None}, "LinearProblem or FeatureTransitions"),
    "unknown number": ({"settings": [{"step_size": 0.1}, {"lam": 1.0}]}, "Setting 1 has no meaning for lam"),
    "number of another schedule": ({"settings": [{"step_size": 0.1, "power": 1.0}]}, "power"),
    "number without a name": ({"settings": [{1: 0.1}]}, "Setting 0"),
    "nan": ({"settings": [{"step_size": NAN}]}, "step_size must be a number > 0. Got nan"),
    "infinite": ({"settings": [{"step_size": INF}]}, "step_size must be"),
    "zero step": ({"settings": [{"step_size": 0.0}]}, "step_size must be"),
    "negative ridge": ({"settings": [{"ridge": -0.1}]}, "ridge must be a number ≥ 0"),
    "text": ({"settings": [{"step_size": "large"}]}, "step_size must be"),
    "a list": ({"settings": [{"step_size": [0.1]}]}, "step_size must be"),
    "too large for float": ({"settings": [{"step_size": 10**400}]}, "step_size must be"),
    "too large for float32": ({"settings": [{"step_size": 1e300}]}, "step_size"),
    "no settings": ({"settings": []}, "at least one setting"),
    "settings as a dict": ({"settings": {"step_size": [0.1]}}, "cesaro.grid"),
    "settings as numbers": ({"settings": [0.1, 0.2]}, "settings must be"),
    "settings as a number": ({"settings": 0.1}, "settings must be"),
    "no seeds": ({"seeds": 0}, "seeds must be"),
    "empty seeds": ({"seeds": []}, "seeds must be"),
    "negative seed": ({"seeds": [1, -1]}, "seed"),
    "huge seed": ({"seeds": [2**32]}, "2³² − 1"),
    "same seed twice": ({"seeds": [1, 2, 1]}, "different"),
    "fractional seeds": ({"seeds": 3.0}, "seeds must be"),
    "seeds None": ({"seeds": None}, "seeds must be"),
    "nested seeds": ({"seeds": [[1, 2]]}, "seed"),
    "seed as text": ({"seeds": "12"}, "seed"),
    "budget zero": ({"budget": 0}, "budget must be an integer ≥ 1"),
    "budget as float": ({"budget": 40.0}, "budget must be an integer"),
    "budget between records": ({"budget": 50}, "budget must be a multiple of record_every = 20"),
    "budget too large": (
        {"budget": 2**31, "record_every": 2**20, "window": 2**20},
        "budget must be an integer ≥ 1 and ≤ 2,147,483,647",
    ),
    "record_every negative": ({"record_every": -20}, "record_every must be"),
    "window between": ({"window": 30}, "window must be at most record_every = 20 or a multiple"),
    "window zero": ({"window": 0}, "window must be"),
    "batch zero": ({"batch_size": 0}, "batch_size must be"),
    "batch between": ({"batch_size": 3}, "record_every must be a multiple of 3"),
    "odd for two samples": ({"method": "diff-gq2", "record_every": 5, "budget": 5, "window": 5}, "multiple of 2"),
    "odd window for two samples": ({"method": "diff-gq2", "window": 5}, "window must be a multiple of 2"),
    "unknown approximator": ({"approximator": "quadratic"}, "approximator must be one of"),
    "approximator that is none": ({"approximator": 3}, "approximator must be"),
    "unknown schedule": ({"schedule": "linear"}, "schedule must be one of"),
    "power out of range": ({"schedule": "robbins-monro", "settings": [{"power": 0.5}]}, "power must be above ½"),
    "offset zero": ({"schedule": "robbins-monro", "settings": [{"offset": 0.0}]}, "offset must be a number > 0"),
    "radius without variant": ({"radius": 1.0}, "radius must be None for diff-sgq"),
    "radius zero": ({"method": "diff-gq1", "radius": 0.0}, "radius must be a number > 0"),
    "radius swept without radius": ({"method": "diff-gq1", "settings": [{"radius": 1.0}]}, "radius"),
    "unknown record": ({"record": ("weight",)}, "record must be a list of 'reward_rate', 'weights'"),
    "record as text": ({"record": "weights"}, "record must be a list"),
    "record as number": ({"record": 3}, "record must be"),
    "record without function": ({"record": {"w": 3}}, "record must"),
    "unknown dtype": ({"dtype": "float16"}, "dtype must be 'float32' or 'float64'"),
    "negative workers": ({"workers": -1}, "workers must be"),
    "workers as text": ({"workers": "two"}, "workers must be"),
    "target as text": ({"target": "copied"}, "target must be"),
    "optimizer as text": ({"optimizer": "adam"}, "optimizer must be"),
    "rewards too large for float32": ({"data": cs.FeatureTransitions([[1.0]], [1e39], [[1.0]])}, "float32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_gets_one_sentence(name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(cs.InputError, match=message) as caught:
        run(**changes)
    assert "\n" not in str(caught.value)
    assert str(caught.value).rstrip()[-1] in ".…]"


def test_gradient_dice_takes_lam() -> None:
    settings = [{"step_size": 0.1, "lam": 0.0}, {"step_size": 0.1, "lam": 2.0}]
    result = run("gradient-dice", settings=settings)
    assert (result.reward_rate[0] == 0).all(), "with λ = 0 it never moves from zero (MATHS.md)"
    assert (result.reward_rate[1] != 0).all()


@pytest.mark.parametrize(
    ("rule", "value"), [(copied, 0), (copied, -3), (copied, 2.5), (tracked, NAN), (tracked, -0.1), (tracked, 1.5)]
)
def test_target_rules_check_their_numbers(rule: Any, value: Any) -> None:
    with pytest.raises(cs.InputError):
        rule(value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": [[NAN]]}, "x must be finite"),
        ({"x": np.zeros((0, 1)), "rewards": [], "x_next": np.zeros((0, 1))}, "x must have shape"),
        ({"rewards": [1.0, 2.0]}, "rewards must have shape"),
        ({"x_next": [[1.0, 2.0]]}, "x_next must have shape"),
        ({"weights": [0.0]}, "weights must be non-negative and not all zero"),
        ({"weights": [-1.0]}, "weights must be non-negative"),
        ({"weights": [INF]}, "weights must be finite"),
        ({"trajectory": [1, 2]}, "trajectory must have shape"),
        ({"rewards": ["a"]}, "rewards must be a real array"),
    ],
)
def test_wrong_transitions_get_one_sentence(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"x": [[1.0]], "rewards": [1.0], "x_next": [[1.0]], **arguments}
    with pytest.raises(cs.InputError, match=message) as caught:
        cs.FeatureTransitions(given.pop("x"), given.pop("rewards"), given.pop("x_next"), **given)
    assert "\n" not in str(caught.value)


def test_weights_of_the_largest_size_are_still_weights() -> None:
    x = np.ones((40, 2))
    data = cs.FeatureTransitions(x, np.arange(40.0), x, weights=[1e100, 1e100, *np.zeros(38)])
    counts = np.bincount(draws(data, 100_000, 1).ravel(), minlength=40)
    assert (counts[2:] == 0).all()
    assert stats.binomtest(int(counts[0]), 100_000).pvalue > 1e-6


def test_transitions_are_values() -> None:
    """Copied and read-only: later changes of the caller's arrays do not reach them."""
    x = np.ones((3, 1))
    data = cs.FeatureTransitions(x, np.arange(3.0), x, weights=np.ones(3))
    x[:] = 7
    assert (data.x == 1).all()
    for array in (data.x, data.rewards, data.x_next, data.weights):
        assert array is not None
        assert not array.flags.writeable
    assert len(data) == 3
    assert repr(data) == "FeatureTransitions(3 rows, 1 features)"


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A line now and then where there is no terminal; nothing at all when quiet, and never on stdout."""
    monkeypatch.setattr("cesaro.progress._SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(engine, "DRAWN_AHEAD", 1)
    loud = run(quiet=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "diff-sgq: 2 of 2 pieces" in captured.err
    quiet = run(quiet=True)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert_identical(loud, quiet)
