"""Where simulated numbers come from: what a log says about itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cesaro.data.roles import CHOSEN
from cesaro.data.settings import bounds_of
from cesaro.fingerprints import file_fingerprint, fingerprint
from cesaro.policies import policy as as_policy
from cesaro.simulation.environments import Env, Interface
from cesaro.simulation.streams import Job

SCHEMA = "cesaro-log/1"


def describe_policy(policy: Any, *, trust: bool = False) -> dict[str, str]:
    """Its name, and the name and checksum of its file where it is one."""
    named = {"name": as_policy(policy, trust=trust).name}
    if not isinstance(policy, str):
        return named
    path, marker, _ = policy.rpartition(".py:")
    file = Path(f"{path}.py" if marker else policy).expanduser()
    if not file.is_file():
        return named
    return {**named, "file": file.name, "sha256": file_fingerprint(file)}


def describe_log(jobs: Sequence[Job], face: Interface) -> dict[str, Any]:
    """The metadata of a log: what is simulated, and how `cesaro.read` shall take it."""
    job = jobs[0]
    noise = {"sigma": job.sigma} if face.actions is None else {"epsilon": job.epsilon}
    bounds = None if face.actions is not None else bounds_of(face.low, face.high)
    if bounds is not None:
        stored = f"as executed: cut to the environment's bounds; {CHOSEN} is what was asked for"
    else:
        stored = "as drawn" if face.actions is not None else "with its noise"
    return {
        "schema": SCHEMA,
        "on_termination": "keep",
        "on_truncation": "keep",
        "env": face.name,
        "policy": describe_policy(job.policy, trust=job.trust),
        **noise,
        "steps": sum(job.length for job in jobs),
        "streams": len(jobs),
        "seed": job.seed,
        "time_limit": face.time_limit,
        "reset_rule": reset_rule(face),
        "stored_action": stored,
        **({} if bounds is None else {"actions": "executed", **bounds.to_dict()}),
        "versions": face.versions,
    }


def reset_rule(face: Interface) -> str:
    """A sentence on what happens at the end of an episode."""
    rule = "The next observation of a row that ends an episode is the first one of the next episode"
    if face.time_limit is None:
        return f"{rule}; no time limit was set."
    return (
        f"{rule}, also after the time limit of {face.time_limit:,} steps: such a reset is not Markov in the observation, "
        "which does not hold the time."
    )


def identity(env: Env, policy: Any, *, trust: bool = False) -> dict[str, str]:
    """Fingerprints of the policy, and of an environment that has no name: of what runs, which no description tells."""
    found = {"policy_fingerprint": fingerprint(as_policy(policy, trust=trust))}
    return found if isinstance(env, str) else {"env_fingerprint": fingerprint(env), **found}
