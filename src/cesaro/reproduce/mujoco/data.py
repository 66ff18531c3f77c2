"""Logs and truths of the MuJoCo study, simulated once and kept in a folder.

A file holds one log (the target's actions with noise) or one truth (the target itself). Its name ends in a checksum of the
settings it was simulated with, the versions of the simulators among them, which is checked when the file is found; a checksum of
the numbers is checked when they are read. Where no simulator is installed, a file of any version will do.
"""

import hashlib
import json
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro.data import FeatureTransitions
from cesaro.errors import InputError
from cesaro.files import chosen, holding, read_arrays, read_metadata, write_arrays
from cesaro.learning.source import source
from cesaro.policies import policy
from cesaro.progress import progress
from cesaro.reproduce.mujoco.config import STREAMS, MujocoConfig, Place
from cesaro.simulation import Job, actor_path, batch_means, plan, run_jobs

SCHEMA = "cesaro-study-data/1"
SIMULATORS = ("gymnasium", "mujoco")
_MISSING = "none"
_AGAIN = "delete it to have it simulated again, or choose another folder (--data)"
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Recording:
    """A simulation to be kept: a log, or without noise a truth.

    Attributes:
        actor: file of the target policy.
        sigma: standard deviation of the noise on actions; None: a truth, of which rewards are kept only.
        steps: in all streams.
        seed: of the study; every recording of a study has random numbers of its own.
    """

    env: str
    actor: Path
    sigma: float | None
    steps: int
    streams: int
    seed: int

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, but for versions."""
        return {
            "env": self.env,
            "actor": checksum_of_file(self.actor),
            "sigma": self.sigma,
            "steps": self.steps,
            "streams": self.streams,
            "seed": self.seed,
        }

    @property
    def stem(self) -> str:
        return f"{self.env.replace('/', '_')}_{'truth' if self.sigma is None else f'sigma_{self.sigma:g}'}"

    def jobs(self) -> list[Job]:
        """Its streams."""
        noise = [0, 0] if self.sigma is None else [1, round(1e6 * self.sigma)]
        entropy = [self.seed, int.from_bytes(hashlib.sha256(self.env.encode()).digest()[:4]), *noise]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        settings = {"sigma": self.sigma or 0.0, "rewards_only": self.sigma is None}
        return plan(self.env, str(self.actor), self.steps, seed=seed, streams=self.streams, **settings)


@dataclass(frozen=True)
class Stored:
    """A file with a recording, as it describes itself.

    Attributes:
        content: checksum of its arrays.
        inputs: numbers in `x = [s, a]`; 0 for a truth.
    """

    file: Path
    settings: dict[str, Any]
    content: str
    inputs: int


@dataclass(frozen=True)
class LoadedLog:
    """A log in memory, ready for learning, and its mean reward with a standard error."""

    data: FeatureTransitions
    behavior: tuple[float, float]


class Logs:
    """Logs by key, read when needed: one is in memory as long as some thread uses it, and until another is read."""

    def __init__(self, files: Mapping[Any, Stored]) -> None:
        self._files, self._locks = files, {key: threading.Lock() for key in files}
        self._used: weakref.WeakValueDictionary[Any, LoadedLog] = weakref.WeakValueDictionary()
        self._last: LoadedLog | None = None

    def __getitem__(self, key: Any) -> LoadedLog:
        with self._locks[key]:
            log = self._used.get(key)
            if log is None:
                self._last = None
                arrays = load(self._files[key])
                log = LoadedLog(transitions(arrays), rate(arrays))
                source(log.data, "float32")  # here, or every method that waits for the log sends it to the device again
                self._last = self._used[key] = log
            return log


def truth_of(config: MujocoConfig, env: str) -> Recording:
    """The recording of the target itself in an environment."""
    return _recording(config, env, None, config.truth_steps)


def log_of(config: MujocoConfig, place: Place) -> Recording:
    """The recording of the target with noise."""
    return _recording(config, *place, config.transitions)


def _recording(config: MujocoConfig, env: str, sigma: float | None, steps: int) -> Recording:
    return Recording(env, actor_file(env, config.actors), sigma, steps, STREAMS, config.seed)


def actor_file(env: str, folder: str) -> Path:
    """The target of an environment: `FOLDER/ENV.safetensors`, or the one that comes with cesaro where there is no folder."""
    if not folder:
        return actor_path(env)
    file = Path(folder) / f"{env}.safetensors"
    if not file.is_file():
        raise InputError(
            f"The folder of actors must hold a file {file.name}. Got none in '{folder}'; see train-target."
        )
    return file


def find(recording: Recording, folder: Path) -> Stored | None:
    """The file of a recording, if there is one; a file that says other things than its name is refused."""
    here = versions()
    wanted = {**recording.settings, "versions": here}
    exact = folder / _name(recording, wanted)
    if exact.exists():
        return _about(exact, wanted)
    if _MISSING not in here.values():
        return None
    others = [_about(file, recording.settings) for file in sorted(folder.glob(f"{recording.stem}_*.npz"))]
    fitting = [other for other in others if _but_versions(other.settings) == recording.settings]
    if len(fitting) > 1:
        raise InputError(
            f"'{folder}' must hold one file for {recording.stem}, as no simulator is installed whose version would tell. "
            f"Got {', '.join(other.file.name for other in fitting)}; keep one of them."
        )
    return fitting[0] if fitting else None


def needed(recording: Recording, folder: Path) -> Stored:
    """The file of a recording, which was there when work began."""
    found = find(recording, folder)
    if found is None:
        raise InputError(
            f"'{folder}' must hold a file for {recording.stem}. Got none: it was taken away meanwhile; run again."
        )
    return found


def collect(recordings: Sequence[Recording], folder: Path, *, workers: int | None = None, quiet: bool = False) -> None:
    """Simulate what the folder lacks: the streams of all recordings in one pool of processes."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder '{folder}' cannot be made ({error.strerror}); choose another (--data)."
        ) from error
    missing = [recording for recording in recordings if find(recording, folder) is None]
    streams = [(recording, job) for recording in missing for job in recording.jobs()]
    if not streams:
        return
    done: dict[Recording, dict[int, Arrays]] = {recording: {} for recording in missing}
    with progress("simulating", total=len(streams), quiet=quiet) as advance:

        def keep(number: int, arrays: Arrays) -> None:
            recording, job = streams[number]
            parts = done[recording]
            parts[job.number] = arrays
            if len(parts) == recording.streams:
                _write(recording, [parts[i] for i in range(recording.streams)], folder)
                del done[recording]
            advance()

        run_jobs([job for _, job in streams], keep, workers=workers)


def _write(recording: Recording, parts: list[Arrays], folder: Path) -> None:
    arrays: Arrays = {"lengths": np.array([len(part["rewards"]) for part in parts])}
    for name in ("terminated", "truncated"):
        arrays[name] = np.array(sum(int(part[name].sum()) for part in parts))
    if recording.sigma is None:
        arrays["rewards"] = np.concatenate([part["rewards"] for part in parts])
    else:
        for name in ("observations", "actions", "rewards", "next_observations"):
            arrays[name] = np.concatenate([part[name] for part in parts]).astype(np.float32)
        following = policy(str(recording.actor)).sample(arrays["next_observations"], np.random.default_rng(0))
        arrays["target_actions"] = np.asarray(following, dtype=np.float32)
    settings = {**recording.settings, "versions": versions()}
    meta = {
        "schema": SCHEMA,
        "settings": settings,
        "checksum": _digest(settings),
        "content": _content(arrays),
        "inputs": 0 if recording.sigma is None else arrays["observations"].shape[1] + arrays["actions"].shape[1],
    }
    file = folder / _name(recording, settings)
    with chosen(file), holding(file):
        write_arrays(file, meta, arrays)


def load(stored: Stored) -> Arrays:
    """The arrays of a file, which must be those that were written."""
    _, arrays = read_arrays(stored.file, SCHEMA)
    if (content := _content(arrays)) != stored.content:
        raise InputError(
            f"'{stored.file}' must hold arrays with the checksum {stored.content[:12]}…. Got {content[:12]}…: they are not "
            f"those that were simulated; {_AGAIN}."
        )
    return arrays


def rate(arrays: Mapping[str, NDArray[Any]]) -> tuple[float, float]:
    """Mean reward of a recording and its standard error, from batch means."""
    ends = np.cumsum(arrays["lengths"])
    value, error, _ = batch_means(np.split(arrays["rewards"], ends[:-1]))
    return value, error


def transitions(arrays: Mapping[str, NDArray[Any]]) -> FeatureTransitions:
    """`x = [s, a]` with the action as logged, and `x' = [s', π(s')]`, both as they are."""
    return FeatureTransitions(
        np.concatenate([arrays["observations"], arrays["actions"]], axis=1),
        arrays["rewards"],
        np.concatenate([arrays["next_observations"], arrays["target_actions"]], axis=1),
    )


def versions() -> dict[str, str]:
    """Versions of the simulators; "none" where one is not installed."""
    return {name: _version(name) for name in SIMULATORS}


def checksum_of_file(file: Path) -> str:
    """The SHA-256 of a file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"The actor '{file}' cannot be read ({error.strerror}); name another folder.") from error


def _about(file: Path, wanted: Mapping[str, Any]) -> Stored:
    """A file as it describes itself, without its arrays; that must agree with its own name, and with what is wanted there."""
    try:
        meta = read_metadata(file, SCHEMA)
        settings, checksum, content = dict(meta["settings"]), str(meta["checksum"]), str(meta["content"])
        inputs = int(meta["inputs"])
    except Exception as error:  # whatever is wrong with a file that should be an archive
        raise InputError(f"'{file}' is not a recording of a study ({type(error).__name__}); {_AGAIN}.") from None
    if checksum != _digest(settings) or checksum[:12] != file.stem.rpartition("_")[2]:
        differences = [
            f"{key} is {settings.get(key, 'unset')} there and {value} here"
            for key, value in wanted.items()
            if settings.get(key) != value
        ]
        raise InputError(
            f"'{file}' must have the settings that its name stands for. Got others "
            f"({'; '.join(differences) or 'with a checksum that is not theirs'}); {_AGAIN}."
        )
    return Stored(file, settings, content, inputs)


def _but_versions(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != "versions"}


def _name(recording: Recording, settings: Mapping[str, Any]) -> str:
    return f"{recording.stem}_{_digest(settings)[:12]}.npz"


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _content(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return _MISSING
