"""Gymnasium environments, by name or from a function, and what the rest has to know about them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import __version__, user_code
from cesaro.errors import InputError
from cesaro.policies import LogInfo
from cesaro.text import Sentence, Wording

Env = str | Callable[[], Any]  # a name, or a function without parameters that makes the environment

_NARROW = (np.dtype(np.float32), np.dtype(np.float16))


def make(env: str, **options: Any) -> Any:
    """The environment of this name, or a sentence about why there is none."""
    try:
        import gymnasium
    except ImportError as error:
        raise InputError("Simulation needs Gymnasium: pip install 'cesaro[mujoco]'.") from error

    def made() -> Any:
        try:
            with mujoco_log(console=False):
                return gymnasium.make(env, **options)
        except gymnasium.error.DependencyNotInstalled as error:
            raise InputError(f"The environment {env} needs a package that is missing ({error}).") from error
        except (gymnasium.error.Error, ModuleNotFoundError) as error:
            raise InputError(f"env must be the name of a Gymnasium environment. Got {env!r} ({error}).") from error

    return user_code.call(lambda error: f"The environment {env} cannot be made: {error}; correct it.", made)


def open_env(env: Env, *, time_limit: bool = True) -> Any:
    """A fresh environment for one stream, without Gymnasium's checker, which costs more than many a step."""
    if isinstance(env, str):
        return make(env, disable_env_checker=True, **({} if time_limit else {"max_episode_steps": -1}))
    if not callable(env):
        raise InputError(
            f"env must be the name of a Gymnasium environment, or a function without parameters that makes one. Got {env!r}."
        )
    if not time_limit:
        raise InputError(
            Sentence(
                "{no_limit} is for environments given by name. Got the function {name}; leave the limit out there.",
                no_limit=Wording("time_limit=False", "--no-time-limit"),
                name=name_of(env),
            )
        )
    with mujoco_log(console=False):
        made = env()
    if not all(hasattr(made, part) for part in ("reset", "step", "action_space", "observation_space")):
        raise InputError(f"env must make a Gymnasium environment. Got a {type(made).__name__} from {name_of(env)}.")
    return made


def name_of(env: Env) -> str:
    return env if isinstance(env, str) else str(getattr(env, "__qualname__", type(env).__name__))


@contextmanager
def mujoco_log(*, console: bool) -> Iterator[None]:
    """Meanwhile MuJoCo writes no MUJOCO_LOG.TXT into the current folder, and its warnings go to the console or nowhere."""
    config = _log_config()
    if config is None:
        yield
        return
    before, now = config.get(), config.get()
    now.logto_file, now.logto_console = False, console
    now.set()
    try:
        yield
    finally:
        before.set()


def _log_config() -> Any:
    """MuJoCo's log settings; None where it is not installed, or older than they are."""
    if "mujoco" not in sys.modules and find_spec("mujoco") is None:
        return None
    try:
        import mujoco
    except ImportError:
        return None
    return getattr(mujoco, "MjLogConfig", None)


@dataclass(frozen=True)
class Interface:
    """The observations and actions of an environment, as a log stores them.

    Attributes:
        name: of the environment, for messages.
        observation: shape of a stored observation: `(d,)`, or `()` for a label.
        observation_dtype: of the stored observations: float32, float64, or int64 for labels.
        states: every label of a discrete observation; None: vectors.
        actions: every label of a discrete action; None: vectors.
        action_dtype: of the stored actions.
        action_shape: the shape that the environment wants; a log holds vectors.
        low, high: bounds of vectors, flat.
        time_limit: steps after which an episode is cut; None: never.
        versions: of the packages that the numbers depend on.
    """

    name: str
    observation: tuple[int, ...]
    observation_dtype: np.dtype[Any]
    states: NDArray[np.int64] | None
    actions: NDArray[np.int64] | None
    action_dtype: np.dtype[Any]
    action_shape: tuple[int, ...]
    low: NDArray[Any]
    high: NDArray[Any]
    time_limit: int | None
    versions: dict[str, str]

    @property
    def width(self) -> int:
        return 1 if self.actions is not None else len(self.low)

    def info(self) -> LogInfo:
        """The environment as a policy has to know it, as if it were a log."""
        what = "one column of labels" if self.states is not None else "vectors of numbers"
        low, high = (None, None) if self.actions is not None else (self.low, self.high)
        return LogInfo(self.name, self.actions, self.width, self.states, what, low, high, kind="environment")


def interface(env: Env, made: Any) -> Interface:
    """The interface of an environment that `env` made; spaces that a log cannot hold are refused."""
    name, seen, done = name_of(env), made.observation_space, made.action_space
    kind = type(seen).__name__
    states: NDArray[np.int64] | None = None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    action_dtype: np.dtype[Any]
    if kind == "Discrete":
        states, shape, dtype = _labels(seen), (), np.dtype(np.int64)
    elif kind in ("Box", "MultiDiscrete", "MultiBinary"):
        shape = (int(np.prod(seen.shape)),)
        small = seen.dtype in _NARROW or (seen.dtype.kind in "biu" and seen.dtype.itemsize <= 2)
        dtype = np.dtype(np.float32 if small else np.float64)
    else:
        raise InputError(
            f"{name} must have observations that are numbers or labels: Box, Discrete, MultiDiscrete or MultiBinary. "
            f"Got {kind}; make it with gymnasium.wrappers.FlattenObservation in a function, and pass that as env."
        )
    kind = type(done).__name__
    if kind == "Discrete":
        actions, bounds, action_dtype = _labels(done), (np.empty(0), np.empty(0)), np.dtype(np.int64)
    elif kind == "Box" and done.dtype.kind == "f":
        actions, action_dtype = None, done.dtype
        bounds = (done.low.reshape(-1), done.high.reshape(-1))
    else:
        raise InputError(
            f"{name} must have actions that are labels (Discrete) or vectors of numbers (Box). Got {done}; "
            "make it with a wrapper that turns them into one of these in a function, and pass that as env."
        )
    limit = getattr(getattr(made, "spec", None), "max_episode_steps", None)
    return Interface(
        name, shape, dtype, states, actions, action_dtype, done.shape, *bounds, limit, _versions(made.unwrapped)
    )


def _labels(space: Any) -> NDArray[np.int64]:
    return int(space.start) + np.arange(int(space.n), dtype=np.int64)


def _versions(inner: Any) -> dict[str, str]:
    versions = {"cesaro": __version__} | {name: version(name) for name in ("gymnasium", "numpy")}
    if type(getattr(inner, "model", None)).__module__.partition(".")[0] == "mujoco":
        versions["mujoco"] = version("mujoco")
    return versions
