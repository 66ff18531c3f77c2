"""The truth to compare with: the rate of a policy in its environment, by simulation."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.errors import InputError
from cesaro.simulation.environments import Env
from cesaro.simulation.streams import STREAMS, describe_policy, plan, simulate

SCHEMA = "cesaro-truth/1"
BATCHES = 40  # at least; every stream gives at least two


@dataclass(frozen=True)
class MonteCarloRate:
    """A reward rate by simulation.

    Attributes:
        value: the mean reward per step.
        standard_error: of the mean, from batch means.
        batches: stretches of the streams, all about as long, whose means are taken as independent.
        steps: simulated in all.
        terminated, truncated: episodes that ended so; the environment was reset and the stream went on.
        time_limit: steps after which an episode was cut; None: never.
        env, policy, seed, streams, versions: what was simulated.
    """

    value: float
    standard_error: float
    batches: int
    steps: int
    terminated: int
    truncated: int
    time_limit: int | None
    env: str
    policy: dict[str, str]
    seed: int
    streams: int
    versions: dict[str, str]

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The interval from Student's t with one degree of freedom less than there are batches."""
        from scipy.special import stdtrit

        level = checks.number("confidence", confidence, low=0.0, low_open=True, high=1.0)
        half = float(stdtrit(self.batches - 1, (1 + level) / 2)) * self.standard_error
        return self.value - half, self.value + half

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """The result as JSON values, with the interval."""
        interval = {"confidence": confidence, "interval": list(self.interval(confidence))}
        return {"schema": SCHEMA, **asdict(self), **interval}


def monte_carlo_rate(
    env: Env,
    policy: Any,
    steps: int,
    *,
    seed: int = 0,
    streams: int = STREAMS,
    time_limit: bool = True,
    workers: int | None = None,
    trust: bool = False,
    quiet: bool = False,
) -> MonteCarloRate:
    """The reward rate of a policy in an environment, with its standard error.

    Args:
        env: the name of a Gymnasium environment, or a function without parameters that makes one.
        policy: anything that `cesaro.policy` takes, or "shipped" for the actor that comes with cesaro.
        steps: in all.
        seed: of all random numbers.
        streams: independent runs, each from a reset of its own.
        time_limit: False: without the environment's limit on the length of episodes (environments by name only).
        workers: processes; None: one per core. The result does not depend on it.
        trust: allow policy files that run pickled code.
        quiet: no progress bar.

    Where an episode ends the environment is reset, and the rate is that of the process with these resets. The streams
    begin with a reset as well: where that matters for long, make them long.

    Example:
        >>> import cesaro as cs
        >>> rate = cs.monte_carlo_rate("CartPole-v1", "uniform", 2_000, workers=1, quiet=True)
        >>> rate.value
        1.0
    """
    jobs = plan(env, policy, steps, seed=seed, streams=streams, time_limit=time_limit, trust=trust, rewards_only=True)
    if jobs[-1].length < _pieces(streams):
        raise InputError(
            f"steps must be at least {streams * _pieces(streams)}, one per batch. Got {steps}; ask for more, or fewer streams."
        )
    face, done = simulate(jobs, workers=workers, quiet=quiet)
    value, error, batches = batch_means([arrays["rewards"] for arrays in done])
    counts = {name: sum(int(arrays[name].sum()) for arrays in done) for name in ("terminated", "truncated")}
    return MonteCarloRate(
        value,
        error,
        batches,
        steps=steps,
        **counts,
        time_limit=face.time_limit,
        env=face.name,
        policy=describe_policy(jobs[0].policy, trust=trust),
        seed=seed,
        streams=streams,
        versions=face.versions,
    )


def batch_means(rewards: Sequence[NDArray[Any]]) -> tuple[float, float, int]:
    """The mean of all rewards, its standard error and the number of batches.

    Args:
        rewards: of every stream, in order of time. Each is cut into equal stretches (to one step), at least two and as
            many as make 40 in all.
    """
    pieces = _pieces(len(rewards))
    batches = [batch for stream in rewards for batch in np.array_split(np.asarray(stream, dtype=np.float64), pieces)]
    if not all(map(len, batches)):
        raise InputError(
            f"Every stream must have at least {pieces} steps. Got {min(map(len, rewards))}; simulate more."
        )
    steps = sum(map(len, batches))
    value = math.fsum(float(batch.sum()) for batch in batches) / steps
    squares = math.fsum((len(batch) * (float(batch.mean()) - value)) ** 2 for batch in batches)
    return value, math.sqrt(squares * len(batches) / (len(batches) - 1)) / steps, len(batches)


def _pieces(streams: int) -> int:
    return max(2, -(-BATCHES // streams))
