"""The actors that come with cesaro: trained by `cesaro train-target`, one file per environment."""

from pathlib import Path
from typing import Any

from cesaro.errors import InputError

SHIPPED = "shipped"  # the word for the shipped actor of the environment at hand
_FOLDER = Path(__file__).parent / "actors"


def shipped() -> list[str]:
    """The environments for which an actor is shipped."""
    return sorted(file.stem for file in _FOLDER.glob("*.safetensors"))


def actor_path(env: Any) -> Path:
    """The file of the shipped actor for an environment, such as "HalfCheetah-v5"."""
    names = shipped()
    if not isinstance(env, str) or env not in names:
        there = ", ".join(names) or "none"
        raise InputError(
            f"A shipped actor must be for one of these environments: {there}. Got {env!r}; name a policy file."
        )
    return _FOLDER / f"{env}.safetensors"
