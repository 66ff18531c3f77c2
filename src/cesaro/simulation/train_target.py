"""Target policies for studies: the deterministic actor of TD3, with the settings of the paper's authors.

Training goes in segments. Each begins with a new episode and with random numbers that depend on the seed and the
segment alone, and ends with a checkpoint that holds everything else, the replay buffer included: a run that was killed
and resumed gives the same actor as one that was not.
"""

import json
import os
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import checks, files, user_code
from cesaro.errors import InputError
from cesaro.folders import OutFolder
from cesaro.policies.actor import load, save_actor
from cesaro.progress import progress
from cesaro.simulation.environments import make
from cesaro.simulation.streams import MOST_STEPS

SEGMENT = 25_000  # steps between two checkpoints
EPISODES = 10  # for the return in the metadata
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "buffer_size": 1_000_000,
    "learning_starts": 10_000,
    "batch_size": 100,
    "tau": 5e-3,
    "gamma": 0.99,
    "train_freq": 1,
    "gradient_steps": 1,
    "policy_delay": 2,
    "target_policy_noise": 0.2,
    "target_noise_clip": 0.5,
}
WIDTHS = (400, 300)
EXPLORATION = 0.1
_SCHEMA = "cesaro-training/2"
_CHECKPOINT = "checkpoint.npz"
_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def train_target(
    env: str,
    *,
    out: str | os.PathLike[str],
    steps: int = 300_000,
    seed: int = 0,
    segment: int = SEGMENT,
    force: bool = False,
    quiet: bool = False,
) -> Path:
    """Train TD3 on a Gymnasium environment and write its deterministic actor as a `cesaro-actor/1` file.

    The same call resumes what an earlier one left in `OUT.partial/`.

    Args:
        env: the environment's name, such as "Hopper-v5"; observations and actions are vectors of numbers.
        out: the file to write; it ends in `.safetensors`.
        steps: steps in the environment, 10,000 of them with random actions.
        seed: of all random numbers.
        segment: steps between two checkpoints; it is part of the result, because every segment begins an episode.
        force: replace the file of another actor.
        quiet: no progress bar.

    Raises:
        InputError: Stable-Baselines3 is not installed, or the environment or the file will not do.
    """
    checks.count("steps", steps, high=MOST_STEPS)
    checks.count("seed", seed, low=0)
    checks.count("segment", segment, high=MOST_STEPS)
    with ActorFile(out, force=force) as folder:
        made = _make(env)
        settings = json.dumps({**SETTINGS, "widths": WIDTHS, "exploration": EXPLORATION})
        wanted = {
            "schema": _SCHEMA,
            "env": env,
            "seed": seed,
            "segment": segment,
            "settings": settings,
            "versions": _versions(),
        }
        work, checkpoint = folder.path, folder.file(_CHECKPOINT, progress=True)
        done, model = _resume(checkpoint, wanted, made) or (0, _new(made, seed))
        if done > steps or (done < steps and done % segment):
            rule = "as many" if done % segment else "as many or more"
            raise InputError(
                f"'{work}' holds {done:,} steps of an unfinished run; ask for {rule}, or remove the folder. Got steps {steps:,}."
            )
        number = -(-steps // segment)
        with progress(f"training on {env}", total=number, done=-(-done // segment), quiet=quiet) as advance:
            while done < steps:
                size = min(segment - done % segment, steps - done)
                user_code.call(partial(_failed, env), partial(_learn, model, size, seed=(seed, done)))
                done += size
                _checkpoint(checkpoint, {**wanted, "steps": done}, model)
                advance()
        returns = user_code.call(partial(_failed, env), _returns, model, env, seed)
        metadata = {
            "env": env,
            "steps": str(done),
            "seed": str(seed),
            "segment": str(segment),
            "algorithm": "TD3",
            "settings": settings,
            "versions": json.dumps(_versions()),
            "returns": json.dumps([round(value, 2) for value in returns]),
            "mean_return": f"{np.mean(returns):.2f}",
        }
        actor = folder.file("actor.safetensors")
        _write_actor(actor, model, metadata)
        folder.appear(actor)
    return folder.out


class ActorFile(OutFolder):
    """The actor's file, and `OUT.partial/` with the checkpoint of its training."""

    WRITER = "train-target"
    WRITTEN_BY = "train-target"
    ENDING = ".safetensors"

    def is_ours(self) -> bool:
        try:
            load(self.out, name=self.out.stem)
        except InputError:
            return False
        return True


def _failed(env: str, error: str) -> str:
    return f"Training on {env} failed with {error}; correct the environment."


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("stable-baselines3", "torch", "gymnasium", "mujoco", "numpy")}


def _make(env: str) -> Any:
    try:
        import stable_baselines3  # noqa: F401
        import torch
    except ImportError as error:
        raise InputError(
            "Training a target needs Stable-Baselines3: pip install torch==2.13.0, then pip install 'cesaro[targets]'."
        ) from error
    torch.set_num_threads(1)  # small networks: more threads are slower
    torch.set_flush_denormal(True)
    made = make(env)
    if type(made.action_space).__name__ != "Box" or type(made.observation_space).__name__ != "Box":
        raise InputError(
            f"TD3 needs observations and actions that are vectors of numbers. Got {env} with "
            f"{made.observation_space} and {made.action_space}; train another policy and pass it as a Python file."
        )
    return made


def _new(env: Any, seed: int) -> Any:
    from stable_baselines3 import TD3
    from stable_baselines3.common.noise import NormalActionNoise

    size = env.action_space.shape[0]
    noise = NormalActionNoise(np.zeros(size), np.full(size, EXPLORATION))
    return TD3(
        "MlpPolicy",
        env,
        action_noise=noise,
        policy_kwargs={
            "net_arch": list(WIDTHS),
            "optimizer_kwargs": {"fused": True},
        },  # Adam in one pass: a quarter faster
        seed=seed,
        device="cpu",
        **SETTINGS,
    )


def _learn(model: Any, size: int, *, seed: tuple[int, int]) -> None:
    """One segment, from a new episode and a fresh state of every random number generator."""
    from stable_baselines3.common.utils import set_random_seed

    words = np.random.SeedSequence(seed).generate_state(3)
    set_random_seed(int(words[0]))
    model.action_space.seed(int(words[1]))
    model.env.seed(int(words[2] >> 1))
    model.action_noise.reset()
    model._last_obs = None  # so that learn() resets the environment
    model.learn(size, reset_num_timesteps=False)


def _checkpoint(file: Path, state: dict[str, Any], model: Any) -> None:
    """Keep the model and its replay buffer in one file, which replaces the last one when it is complete."""
    saved = BytesIO()
    model.save(saved)
    buffer = model.replay_buffer
    filled = buffer.buffer_size if buffer.full else buffer.pos
    arrays = {name: getattr(buffer, name)[:filled] for name in _BUFFER}
    arrays["model"] = np.frombuffer(saved.getvalue(), dtype=np.uint8)
    meta = {**state, "position": int(buffer.pos), "full": bool(buffer.full)}
    files.write_arrays(file, meta, arrays)


def _resume(file: Path, wanted: dict[str, Any], env: Any) -> tuple[int, Any] | None:
    if not file.exists():
        return None
    work = file.parent
    from stable_baselines3 import TD3

    try:
        state, arrays = files.read_arrays(file, _SCHEMA)
        steps, position, full = (state.pop(name) for name in ("steps", "position", "full"))
        model_bytes, contents = arrays["model"].tobytes(), {name: arrays[name] for name in _BUFFER}
    except (InputError, KeyError) as error:
        raise InputError(
            f"'{file}' is not a checkpoint of a training run; remove '{work}' or choose another --out."
        ) from error
    if state != wanted:
        different = ", ".join(name for name in wanted if state.get(name) != wanted[name])
        raise InputError(
            f"'{work}' holds a run with another {different}; repeat its settings, remove it or choose another --out."
        )
    model = TD3.load(BytesIO(model_bytes), env=env, device="cpu")
    buffer = model.replay_buffer
    buffer.pos, buffer.full = position, full
    for name, values in contents.items():
        getattr(buffer, name)[: len(values)] = values
    return int(steps), model


def _returns(model: Any, env: str, seed: int) -> list[float]:
    """The undiscounted returns of whole episodes under the deterministic actor."""
    made, returns = make(env), []
    for episode in range(EPISODES):
        observation, _ = made.reset(seed=int(np.random.SeedSequence((seed, 1, episode)).generate_state(1)[0] >> 1))
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = made.step(action)
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def _write_actor(file: Path, model: Any, metadata: dict[str, str]) -> None:
    layers = [layer for layer in model.policy.actor.mu if hasattr(layer, "weight")]
    save_actor(
        file,
        [layer.weight.detach().numpy() for layer in layers],
        [layer.bias.detach().numpy() for layer in layers],
        activation="relu",
        squash="tanh",
        low=model.action_space.low,
        high=model.action_space.high,
        metadata=metadata,
    )
