"""Environments, stepped by policies: the only place where anything is simulated, one stream at a time or many on all cores.

A stream begins with a reset and has a length in steps, whatever number of episodes that is. Where an episode ends, the
environment is reset and the stream goes on; the next observation of that step is the first one of the new episode.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import PicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks, user_code
from cesaro.engines.local import cores, in_processes
from cesaro.errors import InputError
from cesaro.fingerprints import file_fingerprint
from cesaro.policies import Attached
from cesaro.policies import policy as as_policy
from cesaro.policies.actor import SHIPPED, actor_path
from cesaro.progress import progress
from cesaro.simulation.environments import Env, Interface, interface, mujoco_log, name_of, open_env
from cesaro.text import Sentence, Wording

Arrays = dict[str, NDArray[Any]]

STREAMS = 20
# Streams are held one by one in memory; there may be many.
MOST_STREAMS, MOST_STEPS = 100_000, 100_000_000
_CHECK_EVERY = 1_000  # steps between two full checks of what a policy returns; cheap ones are made at every step


@dataclass(frozen=True)
class Job:
    """One stream to be simulated, all that it takes: it can be sent to another process.

    Attributes:
        env: an environment's name, or a function without parameters that makes one.
        policy: anything that `cesaro.policy` takes; text is read where the job runs.
        length: steps.
        seed, number: all random numbers of the stream come from these two.
        sigma: standard deviation of the normal noise on continuous actions.
        epsilon: probability of a uniform action instead of the policy's, for discrete actions.
        time_limit: False: without the environment's limit on the length of episodes.
        trust: allow a policy file that runs pickled code.
        rewards_only: leave observations and actions out of the result.
    """

    env: Env
    policy: Any
    length: int
    seed: int = 0
    number: int = 0
    sigma: float = 0.0
    epsilon: float = 0.0
    time_limit: bool = True
    trust: bool = False
    rewards_only: bool = False


def plan(env: Env, policy: Any, steps: int, *, seed: int = 0, streams: int = STREAMS, **settings: Any) -> list[Job]:
    """The streams of one log or one truth: `steps` in all, the first streams one step longer where that does not divide.

    Args:
        policy: as `cesaro.policy` takes it, or "shipped" for the actor that comes with cesaro for this environment.
        settings: further fields of `Job`.
    """
    checks.count("seed", seed, low=0)
    checks.count("streams", streams, high=MOST_STREAMS)
    checks.count("steps", steps, high=MOST_STEPS * streams)
    for name in ("sigma", "epsilon"):
        settings[name] = checks.number(name, settings.get(name, 0.0), low=0.0, high=checks.LARGEST_SETTING)
    if settings["epsilon"] > 1:
        raise InputError(f"epsilon must be a probability between 0 and 1. Got {settings['epsilon']:g}.")
    if steps < streams:
        raise InputError(
            f"steps must be at least one per stream. Got {steps} for {streams} streams; ask for more steps."
        )
    if isinstance(policy, os.PathLike):
        policy = os.fspath(policy)
    if isinstance(policy, str) and policy == SHIPPED:
        policy = str(actor_path(env))
    whole, rest = divmod(steps, streams)
    return [
        Job(env, policy, whole + (number < rest), seed=seed, number=number, **settings) for number in range(streams)
    ]


def stream(job: Job) -> Arrays:
    """Simulate one stream.

    Returns:
        `observations` and `next_observations` `[n, d]` (`[n]` for labels), `actions` `[n, d]` as chosen, before the bounds
        of the environment cut them (`[n]` for labels), `rewards`, `terminated` and `truncated` `[n]`, and
        `final_observations` `[m, d]`: what the environment showed at the ends of its m episodes, where the next
        observation is a reset state.

    Raises:
        InputError: environment and policy do not fit, one of them fails, or gives numbers that are not finite.
    """
    from threadpoolctl import threadpool_limits

    def simulated() -> Arrays:
        with (
            _opened(job) as simulation,
            threadpool_limits(limits=1, user_api="blas"),
            mujoco_log(console=True),
            np.errstate(over="ignore", invalid="ignore"),  # what is not finite is refused with its place
        ):
            return simulation.run()

    arrays: Arrays = user_code.call(partial(_broken, job), simulated)
    return arrays


def probe(job: Job) -> Interface:
    """The interface of a job's environment, after one action of its policy: what is wrong shows before anything runs."""

    def probed() -> Interface:
        with _opened(job) as simulation:
            simulation.begin()
            simulation.choose(0)
            return simulation.face

    face: Interface = user_code.call(partial(_broken, job), probed)
    return face


def describe_policy(policy: Any, *, trust: bool = False) -> dict[str, str]:
    """The name of a policy, and the name and checksum of its file where it comes from one."""
    named = {"name": as_policy(policy, trust=trust).name}
    if not isinstance(policy, str):
        return named
    path, marker, _ = policy.rpartition(".py:")
    file = Path(f"{path}.py" if marker else policy).expanduser()
    if not file.is_file():
        return named
    return {**named, "file": file.name, "sha256": file_fingerprint(file)}


# Many streams at once.


def worker_count(workers: int | None) -> int:
    """A number of processes as a user gives it: at least 1, or None for all cores."""
    return cores() if workers is None else checks.count("workers", workers, high=checks.MOST_WORKERS)


def run_jobs(jobs: Sequence[Job], on_done: Callable[[int, Arrays], None], *, workers: int | None = None) -> None:
    """Simulate streams, of one log or of many, in one pool of processes.

    Args:
        jobs: the streams; those of different environments, policies and lengths may be mixed. Long ones first is fastest.
        on_done: called in this process with the place of a job in `jobs` and its arrays (see `stream`), as streams end, in
            any order. What it raises ends the run.
        workers: processes; None: as many as there are cores. 1 stays in this process. The arrays do not depend on it.

    Functions, and policies that are objects, are sent to the processes as they are; a policy that is text is read there.

    Example:
        >>> from cesaro.simulation import plan, run_jobs
        >>> logs = {sigma: plan("Pendulum-v1", "constant:0", 40, streams=2, sigma=sigma) for sigma in (0.1, 0.5)}
        >>> jobs = [job for log in logs.values() for job in log]
        >>> run_jobs(jobs, lambda number, arrays: print(jobs[number].sigma, arrays["actions"].shape), workers=1)
        0.1 (20, 1)
        0.1 (20, 1)
        0.5 (20, 1)
        0.5 (20, 1)
    """
    try:
        in_processes(stream, jobs, on_done, worker_count(workers))
    except (BrokenProcessPool, PicklingError) as error:
        raise InputError(
            Sentence(
                "A worker process must be able to load the environment and the policy and to live to the end. Got {kind} "
                "({reason}); give a policy file by its path, take fewer workers if memory is short, or {one} to see more.",
                kind=type(error).__name__,
                reason=str(error).splitlines()[0] if str(error) else "no reason",
                one=Wording("workers=1", "--workers 1"),
            )
        ) from error


def simulate(jobs: Sequence[Job], *, workers: int | None = None, quiet: bool = False) -> tuple[Interface, list[Arrays]]:
    """Simulate the streams of one log or one truth, all in memory.

    Returns:
        The interface of their environment, and the arrays of every job, in the order of `jobs`.
    """
    face = probe(jobs[0])
    done: dict[int, Arrays] = {}
    with progress(f"simulating {face.name}", total=len(jobs), quiet=quiet) as advance:

        def keep(number: int, arrays: Arrays) -> None:
            done[number] = arrays
            advance()

        run_jobs(jobs, keep, workers=workers)
    return face, [done[number] for number in range(len(jobs))]


# One stream.


def _broken(job: Job, error: str) -> str:
    return f"{name_of(job.env)}, stream {job.number} failed with {error}; correct the environment."


@contextmanager
def _opened(job: Job) -> "Iterator[_Simulation]":
    made = open_env(job.env, time_limit=job.time_limit)
    try:
        yield _Simulation(job, made)
    finally:
        made.close()


class _Simulation:
    def __init__(self, job: Job, made: Any) -> None:
        self.job, self.made = job, made
        self.face = face = interface(job.env, made)
        self.attached = Attached(as_policy(job.policy, trust=job.trust), face.info())
        if self.attached.is_logged:
            raise InputError("policy must choose actions, and 'logged' is what a log did. Got it; name another policy.")
        if job.sigma > 0 and face.actions is not None:
            raise InputError(
                f"sigma must be 0 where actions are labels, as those of {face.name}. Got {job.sigma:g}; take epsilon, the "
                "probability of a uniform action, or a policy that draws its actions."
            )
        if job.epsilon > 0 and face.actions is None:
            raise InputError(
                f"epsilon must be 0 where actions are vectors of numbers, as those of {face.name}. Got {job.epsilon:g}; "
                "take sigma, the standard deviation of noise on the action."
            )
        # A log and a truth of one seed are independent: neither is judged by its own accidents.
        purpose = 1 if job.rewards_only else 2
        seeds = np.random.SeedSequence((job.seed, job.number, purpose)).spawn(3)
        self.reset_seed = int(seeds[0].generate_state(1)[0] >> 1)
        self.noise, self.draws = np.random.default_rng(seeds[1]), np.random.default_rng(seeds[2])
        # Labels, and policies with finitely many vectors, go the way with all checks.
        self.fast = face.actions is None and self.attached.policy.actions is None
        self.observations = np.empty((job.length + 1, *face.observation), dtype=face.observation_dtype)
        self.actions = np.empty(
            (job.length, *(() if face.actions is not None else (face.width,))), dtype=face.action_dtype
        )

    def run(self) -> Arrays:
        length, step_env = self.job.length, self.made.step
        rewards = np.empty(length)
        terminated, truncated = np.zeros(length, dtype=np.bool_), np.zeros(length, dtype=np.bool_)
        finals = []

        def take(step: int, command: Any) -> tuple[Any, bool]:
            seen, rewards[step], is_terminated, is_truncated, _ = step_env(command)
            if is_terminated or is_truncated:
                terminated[step], truncated[step] = is_terminated, is_truncated
                return seen, True
            return seen, False

        self.begin()
        for step in range(length):
            command = self.choose(step)
            seen, is_over = user_code.call(partial(self._failed, "step", step), take, step, command)
            if not math.isfinite(rewards[step]):
                raise self._wrong(step, f"the reward must be finite. Got {rewards[step]}")
            self._see(step, seen)
            if is_over:
                finals.append(self.observations[step + 1].copy())
                self._reset(step)
        ends: Arrays = {"rewards": rewards, "terminated": terminated, "truncated": truncated}
        if self.job.rewards_only:
            return ends
        shape = (len(finals), *self.face.observation)
        return {
            "observations": self.observations[:-1],
            "actions": self.actions,
            "next_observations": self.observations[1:],
            **ends,
            "final_observations": np.array(finals, dtype=self.face.observation_dtype).reshape(shape),
        }

    def begin(self) -> None:
        self._reset(-1, seed=self.reset_seed)

    def choose(self, step: int) -> Any:
        """Store the action of a step, and return what the environment takes for it."""
        row = self.observations[step : step + 1]
        if self.face.actions is not None:
            code = int(self.attached.sample(row, self.draws)[0])
            if self.job.epsilon > 0 and self.noise.random() < self.job.epsilon:
                code = int(self.noise.integers(len(self.face.actions)))
            self.actions[step] = label = self.face.actions[code]
            return label
        checked = not self.fast or step % _CHECK_EVERY == 0
        action = self.attached.sample(row, self.draws)[0] if checked else self._quick(row, step)
        if self.job.sigma > 0:
            action = action + self.job.sigma * self.noise.standard_normal(self.face.width)
        stored = self.actions[step]
        stored[:] = action
        if not math.isfinite(np.add.reduce(stored)) and not np.isfinite(stored).all():
            raise self._wrong(step, f"policy {self.attached.name!r} must give finite actions. Got {stored}")
        cut = np.minimum(np.maximum(stored, self.face.low), self.face.high)
        return cut if len(self.face.action_shape) == 1 else cut.reshape(self.face.action_shape)

    def _quick(self, row: NDArray[Any], step: int) -> NDArray[Any]:
        raw = self.attached.policy.sample(row, self.draws)
        if raw.size != self.face.width or raw.dtype.kind not in "iufO":
            raise self._wrong(
                step,
                f"policy {self.attached.name!r} must give {self.face.width} numbers per observation. Got shape "
                f"{raw.shape} of {raw.dtype}",
            )
        return raw.reshape(-1)

    def _see(self, step: int, seen: Any) -> None:
        """Store the observation after a step."""
        target = self.observations[step + 1 : step + 2]
        try:
            target[...] = seen if self.face.states is not None else np.reshape(seen, (1, -1))
        except (TypeError, ValueError) as error:
            raise self._wrong(step, f"the observation must be of its space. Got {user_code.explain(error)}") from error
        if self.face.states is None and not math.isfinite(np.add.reduce(target[0])) and not np.isfinite(target).all():
            column = int(np.argmin(np.isfinite(target[0])))
            raise self._wrong(step, f"the observation must be finite. Got {target[0, column]} in dimension {column}")

    def _reset(self, step: int, **seed: int) -> None:
        seen, _ = user_code.call(partial(self._failed, "reset", step), partial(self.made.reset, **seed))
        self._see(step, seen)

    def _wrong(self, step: int, what: str) -> InputError:
        return InputError(f"{self._where(step)}: {what}; correct the environment or the policy.")

    def _failed(self, what: str, step: int, error: str) -> str:
        return f"{self._where(step)}: {what} failed with {error}; correct the environment."

    def _where(self, step: int) -> str:
        return f"{self.face.name}, stream {self.job.number}, step {max(step, 0)}"
