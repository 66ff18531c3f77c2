"""The circumstances of an answer: versions, platform, time."""

import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cesaro import __version__

# What an answer rests on; the second kind only where it is in use.
_ALWAYS, _IF_USED = ("numpy", "scipy", "scikit-learn", "pyarrow"), ("jax", "optax", "equinox", "onnxruntime")


def versions(always: Sequence[str] = _ALWAYS, if_used: Sequence[str] = _IF_USED) -> dict[str, str]:
    """The versions of cesaro, of Python, and of these packages, whose modules have the same names where they may be unused."""
    found = {"cesaro": __version__, "python": platform.python_version()}
    for name in (*always, *(name for name in if_used if name in sys.modules)):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a copy without metadata
            continue
    return found


def run_info() -> dict[str, Any]:
    """Time, versions and platform; the command line adds its command."""
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": None,
        "versions": versions(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
