"""Where simulated numbers come from: what a log says about itself."""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cesaro.errors import InputError
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
    return {**named, "file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def describe_log(jobs: Sequence[Job], face: Interface) -> dict[str, Any]:
    """The metadata of a log: what is simulated, and how `cesaro.read` shall take it."""
    job = jobs[0]
    noise = {"sigma": job.sigma} if face.actions is None else {"epsilon": job.epsilon}
    stored = "as drawn" if face.actions is not None else "with its noise, before the environment's bounds cut it"
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
        "versions": face.versions,
    }


def reset_rule(face: Interface) -> str:
    """What happens at the end of an episode, in words."""
    rule = "The next observation of a row that ends an episode is the first one of the next episode"
    if face.time_limit is None:
        return f"{rule}; no time limit was set."
    return (
        f"{rule}, also after the time limit of {face.time_limit:,} steps: such a reset is not Markov in the observation, "
        "which does not hold the time."
    )


def identity(env: Env, policy: Any) -> dict[str, str]:
    """Checksums of what has no file and no name: functions and objects, with the source of the module that defines them."""
    things = {"env": env, "policy": policy}
    return {f"{name}_object": _checksum(name, thing) for name, thing in things.items() if not isinstance(thing, str)}


def _checksum(name: str, thing: Any) -> str:
    import cloudpickle

    try:
        digest = hashlib.sha256(cloudpickle.dumps(thing))
    except Exception as error:  # whatever an object has against being stored
        raise InputError(
            f"{name} must be an object that can be stored, so that the same command resumes. Got {type(thing).__name__} "
            f"({error}); name a policy file, or leave out= away."
        ) from error
    # What an importable module defines is stored by name alone.
    for part in (thing, type(thing)):
        module = sys.modules.get(getattr(part, "__module__", None) or "")
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_file():
            digest.update(Path(file).read_bytes())
    return digest.hexdigest()
