"""JAX on this machine: whether it starts, and where the programs that it compiles are kept.

JAX believes what the environment says of it, and fails at length where that is wrong.
"""

import gc
import hashlib
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cesaro.errors import CesaroError, InputError
from cesaro.text import Sentence, Wording, argument

# Where passes over a log may run.
DEVICES = ("auto", "cpu", "gpu")
# The variable that names another folder for compiled programs, or turns keeping them off.
CACHE, OFF = "CESARO_CACHE", "off"
# JAX removes programs that were not used for longest beyond so many bytes.
LARGEST_CACHE = 512 * 2**20
# A program whose writing ended in the middle is removed after so many seconds, and programs of other versions or machines after
# so many without use.
_UNFINISHED, _UNUSED = 60.0, 90 * 86_400.0

_PREFIXES = ("JAX_", "XLA_", "CUDA_VISIBLE_DEVICES")
_LONGEST = 300


@contextmanager
def starting_jax() -> Iterator[None]:
    """Around the first import of JAX, and around the first look at its devices: what it raises becomes one sentence.

    Garbage is not collected meanwhile: modules stay, and going through them again and again takes an eighth of the import.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    except (CesaroError, ImportError, MemoryError):
        raise
    except Exception as error:
        reason = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split())[:_LONGEST])))
        said = ", ".join(f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES))
        remedy = f"correct or unset what the environment says of it: {said}" if said else "cesaro doctor may tell why"
        raise InputError(f"JAX does not start ({reason}); {remedy}.") from error
    finally:
        if is_collecting:
            gc.enable()


def accelerator(asked: str) -> Any:
    """The device of JAX that passes over a log run on; None: the processor, with NumPy.

    Args:
        asked: "auto" (a GPU, if JAX starts and sees one), "cpu" or "gpu"; "jax:cpu" is the processor with JAX, for tests.
    """
    if asked == "cpu" or (asked == "auto" and "jax" not in sys.modules and find_spec("jax_plugins") is None):
        return None  # without a plug-in JAX sees no GPU, and takes a second to say so
    try:
        with starting_jax():
            import jax

            if asked == "jax:cpu":
                return jax.devices("cpu")[0]
            found = [device for device in jax.devices() if device.platform == "gpu"]
    except InputError:
        if asked == "auto":  # who did not ask for JAX needs none
            return None
        raise
    if not found and asked == "gpu":
        raise InputError(
            Sentence(
                "{device} needs a GPU that JAX sees, and it sees none; install JAX with the plug-in for yours (pip install "
                "'jax[cuda13]'), or take {cpu}.",
                device=argument("device", "gpu"),
                cpu=argument("device", "cpu"),
            )
        )
    return found[0] if found else None


def check_device(asked: Any) -> None:
    """Refuse what is no device."""
    if asked not in (*DEVICES, "jax:cpu"):
        raise InputError(
            Sentence(
                "{device} must be one of {known}. Got {got}.",
                device=Wording("device", "--device"),
                known=", ".join(DEVICES),
                got=repr(asked),
            )
        )


def device_words(device: Any) -> str:
    """What an answer says of the device of its passes."""
    return f"{device.device_kind}, double precision"


def keep_programs() -> Path | None:
    """Have JAX keep what it compiles for later commands, in the user's cache folder; where it is, or None where nothing is kept.

    It works through the environment, so that JAX need not be imported yet and started processes do the same. A folder that the
    environment gives to JAX itself is left to JAX.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or os.environ.get(CACHE) == OFF:
        return None
    given = os.environ.get(CACHE) or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cesaro"
    folder = Path(given) / "programs" / _compatible()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # in use
        _remove_unfinished(folder)
        _remove_unused(folder.parent)
    except OSError:  # nobody needs the folder for an answer
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(LARGEST_CACHE))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    return folder


def _compatible() -> str:
    """A name that machines share which can run each other's programs: versions, and what the processor can do."""
    abilities = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        abilities = next((line for line in lines if line.startswith(("flags", "Features"))), abilities)
    said = f"{platform.machine()} {abilities} {version('jaxlib')}"
    return f"jax-{version('jax')}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _remove_unused(folder: Path) -> None:
    """The limit on bytes is that of one version on one kind of machine: those that nobody uses any more are removed whole."""
    for other in folder.glob("jax-*"):
        with suppress(OSError):  # another process removed it
            if time.time() - other.stat().st_mtime > _UNUSED:
                shutil.rmtree(other, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """A process that was killed while JAX wrote a program leaves a part of it, without the time of its last use."""
    for program in folder.glob("*-cache"):
        used = program.with_name(f"{program.name.removesuffix('-cache')}-atime")
        if not used.exists() and time.time() - program.stat().st_mtime > _UNFINISHED:
            program.unlink(missing_ok=True)
