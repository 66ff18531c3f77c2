"""Streams: what is stored at the ends of episodes, which numbers are random, and what is refused."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from numpy.typing import NDArray

from cesaro.errors import InputError
from cesaro.simulation import Job, plan, run_jobs, stream
from cesaro.simulation.environments import mujoco_log, open_env


class Walk(gymnasium.Env[Any, Any]):
    """Observation: (episode, step within it). Episodes end after `terminate` steps, or are cut after `truncate`."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space: Any = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, terminate: int = 10**9, truncate: int = 10**9) -> None:
        self.terminate, self.truncate, self.episode, self.place = terminate, truncate, -1, 0

    def observe(self) -> Any:
        return np.array([self.episode, self.place], dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.place = self.episode + 1, 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += 1
        reward = float(np.asarray(action).ravel()[0])
        return self.observe(), reward, self.place >= self.terminate, self.place >= self.truncate, {}


def still(observations: NDArray[Any]) -> NDArray[Any]:
    return np.zeros((len(observations), 1))


def first(observations: NDArray[Any]) -> NDArray[Any]:
    return np.zeros(len(observations), dtype=np.int64)


@pytest.mark.parametrize(("terminate", "truncate", "flag"), [(3, 10**9, "terminated"), (10**9, 3, "truncated")])
def test_the_next_state_after_an_end_is_the_reset_state(terminate: int, truncate: int, flag: str) -> None:
    arrays = stream(Job(lambda: Walk(terminate, truncate), still, 8))
    seen = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]]
    assert arrays["observations"].tolist() == seen[:-1]
    assert arrays["next_observations"].tolist() == seen[1:]
    ended = [False, False, True, False, False, True, False, False]
    assert arrays[flag].tolist() == ended
    assert not arrays[{"terminated": "truncated", "truncated": "terminated"}[flag]].any()
    assert arrays["final_observations"].tolist() == [[0, 3], [1, 3]]


def test_the_log_holds_the_action_before_the_bounds_cut_it() -> None:
    """Walk pays the action that it gets."""
    arrays = stream(Job(Walk, still, 400, sigma=2.0))
    stored = arrays["actions"][:, 0]
    assert stored.dtype == np.float32
    assert (np.abs(stored) > 1).any()
    np.testing.assert_array_equal(arrays["rewards"], np.clip(stored, -1, 1).astype(np.float64))


def test_noise_has_the_deviation_that_was_asked_for() -> None:
    """4,000 normal draws: mean and deviation within 4.5 standard errors, wrong for one seed in 70,000."""
    noise = stream(Job(Walk, still, 4_000, sigma=0.3))["actions"][:, 0]
    assert abs(noise.mean()) < 4.5 * 0.3 / np.sqrt(4_000)
    assert abs(noise.std() - 0.3) < 4.5 * 0.3 / np.sqrt(2 * 4_000)


def test_epsilon_is_the_probability_of_a_uniform_action() -> None:
    """4,000 actions, of which 0.3 · 3/4 are not the policy's: within 4.5 standard errors, wrong for one seed in 140,000."""

    class Four(Walk):
        action_space = Discrete(4, start=2)

    actions = stream(Job(Four, lambda rows: np.full(len(rows), 3), 4_000, epsilon=0.3))["actions"]
    assert set(actions.tolist()) == {2, 3, 4, 5}
    other, expected = (actions != 3).mean(), 0.3 * 3 / 4
    assert abs(other - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 4_000)


def test_random_numbers_depend_on_seed_and_number_alone() -> None:
    job = Job("Pendulum-v1", still, 50, seed=3, number=2, sigma=0.5)
    once, again = stream(job), stream(job)
    for name, values in once.items():
        np.testing.assert_array_equal(values, again[name])
    planned = plan("Pendulum-v1", still, 350, seed=3, streams=7, sigma=0.5)[2]
    assert planned == job
    for other in (Job("Pendulum-v1", still, 50, seed=3, number=1), Job("Pendulum-v1", still, 50, seed=2, number=2)):
        assert not np.array_equal(stream(other)["observations"][0], once["observations"][0])


def test_a_policy_that_draws_has_a_generator_of_its_own() -> None:
    def drawn(observations: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return rng.uniform(-1, 1, (len(observations), 1))

    quiet, noisy = (stream(Job(Walk, drawn, 30, sigma=sigma))["actions"] for sigma in (0.0, 1e-3))
    assert len(np.unique(quiet)) == 30
    assert 0 < np.abs(noisy - quiet).max() < 1e-2


def test_results_do_not_depend_on_the_workers() -> None:
    jobs = plan("Pendulum-v1", lambda rows: -rows[:, 1:2], 300, streams=3, sigma=0.2)
    found: list[dict[int, Any]] = [{}, {}]
    for workers, target in zip((1, 2), found):
        run_jobs(jobs, target.__setitem__, workers=workers)
    assert sorted(found[0]) == sorted(found[1]) == [0, 1, 2]
    for number, arrays in found[0].items():
        for name, values in arrays.items():
            np.testing.assert_array_equal(values, found[1][number][name])
            assert values.dtype == found[1][number][name].dtype


def test_what_a_worker_refuses_is_refused_here() -> None:
    jobs = plan("Pendulum-v1", lambda rows: np.full((len(rows), 1), np.nan), 40, streams=2)
    with pytest.raises(InputError, match="must give finite actions"):
        run_jobs(jobs, lambda number, arrays: None, workers=2)


def test_a_worker_does_without_the_heavy_packages() -> None:
    code = (
        "import sys, cesaro.simulation.streams; print({'jax', 'pyarrow', 'matplotlib', 'sklearn'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_steps_are_shared_out() -> None:
    assert [job.length for job in plan("Pendulum-v1", still, 11, streams=4)] == [3, 3, 3, 2]
    with pytest.raises(InputError, match=r"at least one per stream. Got 3 for 4"):
        plan("Pendulum-v1", still, 3, streams=4)
    with pytest.raises(InputError, match=r"epsilon must be a probability between 0 and 1. Got 1.5"):
        plan("CartPole-v1", still, 100, epsilon=1.5)


def test_rewards_alone() -> None:
    """A truth keeps little, and has random numbers of its own."""
    short = stream(Job("Pendulum-v1", still, 20, rewards_only=True))
    assert set(short) == {"rewards", "terminated", "truncated"}
    assert (short["rewards"] != stream(Job("Pendulum-v1", still, 20))["rewards"]).all()


def test_the_time_limit_can_be_left_out() -> None:
    limited, free = (stream(Job("Pendulum-v1", still, 401, time_limit=limit)) for limit in (True, False))
    assert limited["truncated"].nonzero()[0].tolist() == [199, 399]
    assert not free["truncated"].any()
    with pytest.raises(InputError, match="time_limit=False is for environments given by name"):
        open_env(Walk, time_limit=False)


def test_labels_and_whole_numbers_as_observations() -> None:
    class Digits(Walk):
        observation_space: Any = MultiDiscrete([9, 9])

        def observe(self) -> Any:
            return np.array([self.episode % 9, self.place % 9])

    class Places(Walk):
        observation_space: Any = Discrete(50)

        def observe(self) -> Any:
            return self.place

    class Picture(Walk):
        observation_space: Any = Box(0, 255, (2, 3), np.uint8)

        def observe(self) -> Any:
            return np.full((2, 3), self.place, dtype=np.uint8)

    assert stream(Job(Digits, still, 5))["observations"].tolist() == [[0.0, float(step)] for step in range(5)]
    places = stream(Job(Places, still, 5))
    assert places["observations"].tolist() == [0, 1, 2, 3, 4]
    assert places["next_observations"].dtype == np.int64
    picture = stream(Job(Picture, still, 4))["observations"]
    assert picture.shape == (4, 6)
    assert picture.dtype == np.float32


class Pair(Walk):
    observation_space: Any = Dict({"a": Discrete(2)})


class Several(Walk):
    action_space: Any = MultiDiscrete([2, 2])


class Labels(Walk):
    action_space: Any = Discrete(2)


class Lost(Walk):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, reward, *ends, info = super().step(action)
        return seen, np.nan if self.place == 5 else reward, *ends, info


class Blind(Walk):
    def observe(self) -> Any:
        return np.array([0.0, np.inf if self.place == 5 else 0.0])


class Broken(Walk):
    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        raise RuntimeError("out of fuel")


@pytest.mark.parametrize(
    ("env", "policy", "settings", "message"),
    [
        (Pair, still, {}, "Pair must have observations that are numbers or labels.*Got Dict.*FlattenObservation"),
        (Several, still, {}, "Several must have actions that are labels .* or vectors"),
        (Labels, first, {"sigma": 0.1}, "sigma must be 0 where actions are labels.*Got 0.1; take epsilon"),
        (Walk, still, {"epsilon": 0.1}, "epsilon must be 0 where actions are vectors.*take sigma"),
        (Lost, still, {}, "Lost, stream 7, step 4: the reward must be finite. Got nan"),
        (Blind, still, {}, "Blind, stream 7, step 4: the observation must be finite. Got inf in dimension 1"),
        (Broken, still, {}, "Broken, stream 7, step 0: step failed with RuntimeError.*out of fuel"),
        (Walk, "logged", {}, "policy must choose actions"),
        (Walk, lambda rows: np.zeros((len(rows), 2)), {}, "must give 1 numbers per observation"),
        (
            Walk,
            lambda rows: still(rows) if rows[0, 1] < 3 else np.zeros((1, 2)),
            {},
            "step 3: policy .* must give 1 numbers",
        ),
        (Walk, lambda rows: still(rows) / (rows[0, 1] != 3), {}, "step 3: policy .* must give finite actions"),
        ("NoSuch-v0", still, {}, "env must be the name of a Gymnasium environment. Got 'NoSuch-v0'"),
        ("no_such_module:Env-v0", still, {}, "env must be the name of a Gymnasium environment"),
        (3, still, {}, "env must be the name .* or a function without parameters"),
        (dict, still, {}, "env must make a Gymnasium environment. Got a dict"),
    ],
)
def test_bad_input_is_one_sentence(env: Any, policy: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        stream(Job(env, policy, 10, number=7, **settings))


def test_mujoco_leaves_no_file_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    arrays = stream(Job("HalfCheetah-v5", lambda rows: np.zeros((len(rows), 6)), 5))
    assert arrays["observations"].shape == (5, 17)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    assert mujoco.MjLogConfig.get().logto_file  # as it was before


def test_a_log_setting_survives_an_error() -> None:
    mujoco = pytest.importorskip("mujoco")
    before = mujoco.MjLogConfig.get().logto_console

    def fail() -> None:
        with mujoco_log(console=not before):
            assert mujoco.MjLogConfig.get().logto_console is not before
            raise RuntimeError

    call: Callable[[], None] = fail
    with pytest.raises(RuntimeError):
        call()
    assert mujoco.MjLogConfig.get().logto_console == before
