"""What made an answer: versions, platform, time."""

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cesaro import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pyarrow")
# Only where they are in use.
_OPTIONAL = {"jax": "jax", "optax": "optax", "equinox": "equinox", "onnxruntime": "onnxruntime", "ray": "ray"}


def versions() -> dict[str, str]:
    """Of cesaro, of Python, and of what an answer rests on."""
    names = [*_PACKAGES, *(package for package, module in _OPTIONAL.items() if module in sys.modules)]
    found = {"cesaro": __version__, "python": platform.python_version()}
    for name in names:
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
