"""Whether JAX starts: it believes what the environment says of it, and fails at length where that is wrong."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from cesaro.errors import CesaroError, InputError

_PREFIXES = ("JAX_", "XLA_", "CUDA_VISIBLE_DEVICES")
_LONGEST = 300


@contextmanager
def starting_jax() -> Iterator[None]:
    """Around the first import of JAX, and around the first look at its devices: what it raises becomes one sentence."""
    try:
        yield
    except (CesaroError, ImportError, MemoryError):
        raise
    except Exception as error:
        reason = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split())[:_LONGEST])))
        said = ", ".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES))
        remedy = f"correct or unset what the environment says of it: {said}" if said else "cesaro doctor may tell why"
        raise InputError(f"JAX does not start ({reason}); {remedy}.") from error
