"""Logs by simulation: they read back without options, resume, appear whole, and lead to the exact rate."""

import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.errors import InputError
from cesaro.inspection import evidence
from cesaro.policies import save_actor
from cesaro.simulation import collection, run_jobs
from cesaro.simulation.collection import identity

START, HOLES_AND_GOAL = 0, (5, 7, 11, 12, 15)
UNIFORM = dict.fromkeys(range(4), 0.25)


def controller(observations: NDArray[Any]) -> NDArray[Any]:
    return -observations[:, 1:2] - 0.1 * observations[:, 2:3]


@pytest.fixture
def actor(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "actor.safetensors"
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 3), (1, 8))]
    biases = [np.zeros(size, dtype=np.float32) for size in (8, 1)]
    save_actor(path, weights, biases, activation="relu", squash="tanh", low=[-2.0], high=[2.0])
    return path


def metadata(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pq.read_schema(path).metadata[b"cesaro"])
    return found


def test_a_log_reads_back_without_options(tmp_path: Path, actor: Path) -> None:
    out = tmp_path / "log.parquet"
    log = cs.collect("Pendulum-v1", actor, 1_003, sigma=0.5, streams=4, seed=7, out=out, workers=1, quiet=True)
    held = log.load()
    assert (log.num_rows, len(held.rewards), log.notes) == (1_003, 1_003, ())
    assert log.schema.settings.on_termination == log.schema.settings.on_truncation == "keep"
    table = pq.read_table(out)
    assert table["trajectory"].to_pylist() == [0] * 251 + [1] * 251 + [2] * 251 + [3] * 250
    rows = {name: np.array(table[name].to_pylist()) for name in ("observation", "next_observation", "truncated")}
    borders = np.array([250, 501, 752])
    follows = (rows["next_observation"][:-1] == rows["observation"][1:]).all(axis=1)
    assert np.flatnonzero(~follows).tolist() == borders.tolist()
    assert np.flatnonzero(rows["truncated"]).tolist() == [199, 450, 701, 952]
    about = metadata(out)
    expected = {"env": "Pendulum-v1", "sigma": 0.5, "steps": 1_003, "streams": 4, "seed": 7, "time_limit": 200}
    assert {name: about[name] for name in expected} == expected
    assert (about["terminated"], about["truncated"]) == (0, 4)
    assert about["policy"]["file"] == "actor.safetensors"
    assert len(about["policy"]["sha256"]) == 64
    assert about["versions"]["gymnasium"] == gymnasium.__version__
    assert "not Markov" in about["reset_rule"]
    assert about["mean_reward"] == pytest.approx(held.rewards.mean(), rel=1e-12)
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["actor.safetensors", "log.parquet"]
    evaluation = cs.evaluate(cs.read(out), actor, quiet=True)
    assert np.isfinite(evaluation.reward_rate)


def test_in_memory_and_in_a_file_are_the_same(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sigma": 0.2, "streams": 3, "workers": 1, "quiet": True}
    inside = cs.collect("Pendulum-v1", controller, 300, **settings)
    outside = cs.collect("Pendulum-v1", controller, 300, out=tmp_path / "log.parquet", **settings)
    for one, other in zip(inside.blocks(), outside.blocks()):
        np.testing.assert_array_equal(one.observations.plain(), other.observations.plain())
        np.testing.assert_array_equal(one.actions.plain(), other.actions.plain())
        np.testing.assert_array_equal(one.next_observations.plain(), other.next_observations.plain())
        np.testing.assert_array_equal(one.rewards, other.rewards)


def test_actions_are_logged_as_executed(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"streams": 2, "workers": 1, "quiet": True}
    out = tmp_path / "log.parquet"
    log = cs.collect("Pendulum-v1", controller, 400, sigma=3.0, out=out, **settings)
    table = pq.read_table(out)
    action, chosen = (np.array(table[name].to_pylist()) for name in ("action", "chosen_action"))
    assert np.abs(chosen).max() > 2
    np.testing.assert_array_equal(action, np.clip(chosen, -2, 2))
    about = metadata(out)
    assert (about["actions"], about["action_low"], about["action_high"]) == ("executed", [-2.0], [2.0])
    # It is no column to wonder about, nor one to cut.
    assert log.notes == ()
    assert log.origin is not None
    assert evidence.unused_columns(log.origin) == []
    assert "chosen_action" not in log.schema.roles["observation"].columns + log.schema.roles["action"].columns
    found = cs.inspect(out)
    assert found.to_dict()["left_out"]["chosen_action"] == 'it is "action" before bounds cut it'
    labels = cs.collect("CartPole-v1", "uniform", 40, **settings)
    assert labels.origin is not None
    assert "chosen_action" not in labels.origin.source.names
    assert labels.origin.bounds is None


def frozen_lake() -> tuple[cs.TabularMDP, list[int]]:
    """The lake as a continuing problem, from Gymnasium's own table: an end leads to the start."""
    table: Any = gymnasium.make("FrozenLake-v1", is_slippery=True).unwrapped
    states = [state for state in range(16) if state not in HOLES_AND_GOAL]
    probabilities, rewards = np.zeros((11, 4, 11)), np.zeros((11, 4))
    for row, state in enumerate(states):
        for action in range(4):
            for chance, after, reward, done in table.P[state][action]:
                probabilities[row, action, states.index(START if done else after)] += chance
                rewards[row, action] += chance * reward
    return cs.TabularMDP(probabilities, rewards), states


@pytest.mark.slow
def test_logs_and_truths_agree_with_the_exact_rate() -> None:
    """Each within 4 standard errors: wrong for about one seed in 3,000 (t, 39 degrees of freedom) and one in 15,000."""
    mdp, states = frozen_lake()
    exact = cs.exact.reward_rate(mdp, np.full((11, 4), 0.25))
    rate = cs.monte_carlo_rate("FrozenLake-v1", "uniform", 20_000, time_limit=False, workers=1, quiet=True)
    assert abs(rate.value - exact) < 4 * rate.standard_error
    assert 0 < rate.standard_error < exact / 3
    log = cs.collect(
        "FrozenLake-v1", "constant:2", 20_000, epsilon=0.8, seed=1, time_limit=False, workers=1, quiet=True
    )
    evaluation = cs.evaluate(log, dict.fromkeys(states, UNIFORM), quiet=True)
    assert abs(evaluation.reward_rate - exact) < 4 * evaluation.standard_error
    assert evaluation.standard_error < exact / 2


def test_an_interrupted_run_resumes_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"sigma": 0.2, "streams": 5, "workers": 1, "quiet": True}
    whole, out = tmp_path / "whole.parquet", tmp_path / "log.parquet"
    cs.collect("Pendulum-v1", controller, 500, out=whole, **settings)
    run = run_jobs

    def stops(jobs: Any, on_done: Any, *, workers: int | None) -> None:
        run(jobs[:2], on_done, workers=workers)
        raise KeyboardInterrupt

    monkeypatch.setattr(collection, "run_jobs", stops)
    with pytest.raises(KeyboardInterrupt):
        cs.collect("Pendulum-v1", controller, 500, out=out, **settings)
    assert not out.exists()
    with pytest.raises(cs.InputError, match=r"other settings \(seed is 0 there and 1 here\)"):
        cs.collect("Pendulum-v1", controller, 500, out=out, seed=1, **settings)
    with pytest.raises(cs.InputError, match="policy_fingerprint is"):
        cs.collect("Pendulum-v1", lambda rows: controller(rows) / 2, 500, out=out, **settings)
    ran: list[int] = []

    def rest(jobs: Any, on_done: Any, *, workers: int | None) -> None:
        ran.extend(job.number for job in jobs)
        run(jobs, on_done, workers=workers)

    monkeypatch.setattr(collection, "run_jobs", rest)
    cs.collect("Pendulum-v1", controller, 500, out=out, **settings)
    assert ran == [2, 3, 4]
    assert out.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "log.parquet.partial").exists()


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    out = tmp_path / "log.parquet"
    settings: dict[str, Any] = {"streams": 2, "workers": 1, "quiet": True}
    cs.collect("Pendulum-v1", controller, 40, out=out, **settings)
    with pytest.raises(cs.InputError, match=r"exists; add --force to replace it"):
        cs.collect("Pendulum-v1", controller, 60, out=out, **settings)
    assert cs.collect("Pendulum-v1", controller, 60, out=out, force=True, **settings).num_rows == 60
    pq.write_table(pa.table({"reward": [1.0]}), out)
    with pytest.raises(cs.InputError, match="was not written by collect"):
        cs.collect("Pendulum-v1", controller, 60, out=out, force=True, **settings)
    for name, message in (
        ("log.csv", r"out must end in \.parquet"),
        ("missing/log.parquet", "does not exist; create it"),
    ):
        with pytest.raises(cs.InputError, match=message):
            cs.collect("Pendulum-v1", controller, 60, out=tmp_path / name, **settings)
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]


def test_a_minari_data_set_holds_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    settings: dict[str, Any] = {"sigma": 3.0, "streams": 2, "workers": 1, "quiet": True}
    log = cs.collect("Pendulum-v1", controller, 900, out="pendulum/noisy-v0", format="minari", **settings)
    assert list(minari.list_local_datasets()) == ["pendulum/noisy-v0"]
    data = minari.load_dataset("pendulum/noisy-v0")
    assert (data.total_episodes, data.total_steps, data.env_spec.id) == (6, 900, "Pendulum-v1")
    assert data.storage.metadata["cesaro"]["sigma"] == 3.0
    assert (data.action_space.low.item(), data.action_space.high.item()) == (-2, 2)
    assert log.origin is not None
    assert str(log.origin.bounds) == "-2 … 2"
    same = cs.collect("Pendulum-v1", controller, 900, **settings)
    (ours,), (theirs,) = same.blocks(), log.blocks()
    for name in ("observations", "actions"):
        np.testing.assert_array_equal(getattr(ours, name).plain(), getattr(theirs, name).plain())
    np.testing.assert_array_equal(ours.rewards, theirs.rewards)
    differ = (ours.next_observations.plain() != theirs.next_observations.plain()).any(axis=1)
    assert np.flatnonzero(differ).tolist() == [199, 399, 649, 849]  # where an episode was reset
    with pytest.raises(cs.InputError, match="exists; add --force"):
        cs.collect("Pendulum-v1", controller, 40, out="pendulum/noisy-v0", format="minari", **settings)
    assert (
        cs.collect(
            "Pendulum-v1", controller, 40, out="pendulum/noisy-v0", format="minari", force=True, **settings
        ).num_rows
        == 40
    )
    (tmp_path / "pendulum" / "noisy-v0" / "notes.md").write_text("mine")
    with pytest.raises(cs.InputError, match=r"also holds 'notes\.md', which collect did not write"):
        cs.collect("Pendulum-v1", controller, 40, out="pendulum/noisy-v0", format="minari", force=True, **settings)
    (tmp_path / "others-v0" / "data").mkdir(parents=True)
    (tmp_path / "others-v0" / "data" / "metadata.json").write_text("{}")
    with pytest.raises(cs.InputError, match="was not written by collect, so that --force leaves it alone"):
        cs.collect("Pendulum-v1", controller, 40, out="others-v0", format="minari", force=True, **settings)
    with pytest.raises(cs.InputError, match="out must be the id of a Minari data set"):
        cs.collect("Pendulum-v1", controller, 40, out="no id", format="minari", **settings)
    with pytest.raises(cs.InputError, match="needs the id of the data set"):
        cs.collect("Pendulum-v1", controller, 40, format="minari", **settings)
    with pytest.raises(cs.InputError, match="format must be parquet or minari"):
        cs.collect("Pendulum-v1", controller, 40, format="csv", **settings)


# Fingerprints of environments and policies: what they do not see would be resumed with.


def test_a_changed_module_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of an importable module is stored by name; its code counts all the same."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "policy_of_a_test.py"
    found = []
    for action in (0.5, -1.5, 0.5):
        file.write_text(f"def act(observations):\n    return observations * 0 + {action}\n")
        sys.modules.pop(file.stem, None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
        module = importlib.import_module(file.stem)
        sys.dont_write_bytecode = before
        found.append(identity("Pendulum-v1", module.act)["policy_fingerprint"])
    assert found[0] == found[2] != found[1]


class WithALock:
    def __init__(self, action: float = 1.0) -> None:
        self.lock, self.action = threading.Lock(), action

    def act(self, observations: Any) -> Any:
        return observations[:, :1] * 0 + self.action


def test_locks_do_not_count() -> None:
    assert identity("Pendulum-v1", WithALock().act) == identity("Pendulum-v1", WithALock().act)
    assert identity("Pendulum-v1", WithALock().act) != identity("Pendulum-v1", WithALock(2.0).act)
    assert identity(WithALock, "constant:0").keys() == {"env_fingerprint", "policy_fingerprint"}


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["policy.py", "helper.py"])
def test_a_log_is_not_finished_with_another_policy_file(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that acts alike in most states, or imports something that changed."""
    monkeypatch.chdir(tmp_path)
    Path("policy.py").write_text("from helper import FAR\ndef act(s):\n    return (s[:, 2] > FAR) * 1\n")
    Path("helper.py").write_text("FAR = 100.0\n")

    def collected() -> Any:
        return cs.collect("CartPole-v1", "policy.py:act", 60, streams=2, out="log.parquet", workers=1, quiet=True)

    def interrupted(self: Any, *_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(collection.ParquetSink, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collected()
    before = Path(changed).read_text()
    Path(changed).write_text(before.replace("FAR", "FAR ").replace("100", "101"))
    with pytest.raises(InputError, match=r"unfinished work with other settings \(.*policy"):
        collected()
    Path(changed).write_text(before)
    assert len(collected()) == 60
