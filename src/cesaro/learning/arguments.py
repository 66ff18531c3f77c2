"""The arguments of a sweep, checked and completed: method, settings, seeds, the shape of a run, what is recorded."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from cesaro import checks, python_file, user_code
from cesaro.algorithms import REGISTRY, Algorithm, Objective, State
from cesaro.algorithms.saddle_point import SCHEDULE_DEFAULTS, SCHEDULES, Target
from cesaro.approximators import APPROXIMATORS, Approximator
from cesaro.errors import InputError

# Runs side by side of each setting, and rates that are recorded of all of them.
MOST_SEEDS, MOST_RECORDS = 1_000_000, 500_000_000

Method: TypeAlias = str | Objective | Callable[[Approximator, int], Objective]
Recorder: TypeAlias = Callable[[State], jax.Array]
Setting = dict[str, float]
# Every number that must be positive; the others must not be negative.
POSITIVE = frozenset({"step_size", "rate_step_size", "dual_step_size", "offset", "radius"})


class RunShape(NamedTuple):
    """The static part of a run.

    Attributes:
        steps: steps per record.
        window: the last steps of a record whose rates are averaged.
        minibatches: independent minibatches per step.
        batch_size: transitions per minibatch.
    """

    steps: int
    window: int
    minibatches: int
    batch_size: int

    @property
    def samples(self) -> int:
        """Samples consumed per record."""
        return self.steps * self.minibatches * self.batch_size


def as_method(method: Method) -> Method:
    """The name of a method, or a user's own; `file.py:name` is loaded."""
    place = python_file.place(method)
    own: Method = method if place is None else python_file.load(*place)[0]
    if place is not None and not (isinstance(own, Objective) or callable(own)):
        raise InputError(
            f"'{method}' must be a function (approximator, num_inputs) -> Objective. Got {user_code.type_name(own)}; name "
            "another one."
        )
    if not isinstance(own, Objective) and not callable(own) and str(own) not in REGISTRY:
        raise InputError(f"method must be one of {', '.join(REGISTRY)}, file.py:name, or an Objective. Got {method!r}.")
    return own


def label_of(method: Method) -> str:
    """The name of a method in answers."""
    if isinstance(method, str):
        return method
    return "objective" if isinstance(method, Objective) else str(getattr(method, "__name__", "objective"))


def as_objective(method: Method, approximator: str | Approximator, inputs: int) -> tuple[Objective, str]:
    """The objective of a method that `as_method` knows, and what answers call it."""
    method = as_method(method)
    if isinstance(method, Objective):
        return _of_users("objective", method), "objective"
    if isinstance(approximator, str):
        if approximator not in APPROXIMATORS:
            raise InputError(f"approximator must be one of {', '.join(APPROXIMATORS)}. Got {approximator!r}.")
        approximator = APPROXIMATORS[approximator]
    if not callable(approximator):
        raise InputError(f"approximator must be a name or a function. Got {approximator!r}.")
    label = label_of(method)
    built = users(label, method if callable(method) else REGISTRY[method])(approximator, inputs)
    if not isinstance(built, Objective):
        raise InputError(f"method must build an Objective. Got {user_code.type_name(built)}.")
    return _of_users(label, built), label


def _of_users(label: str, objective: Objective) -> Objective:
    """The objective, whose functions may be the user's own, or call an approximator that is."""
    if "step_size" not in objective.defaults:
        raise InputError(f"{label} must have 'step_size' among its defaults. Got {objective.defaults!r}; add it.")
    return objective._replace(
        init=users(label, objective.init),
        lagrangian=users(label, objective.lagrangian),
        reward_rate=users(label, objective.reward_rate),
        values=None if objective.values is None else users(label, objective.values),
    )


@cache
def users(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as the user's own, which JAX calls while it traces; the same one again, so that programs are found again."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        return user_code.call(
            lambda error: f"{label} failed with {error}; correct that function.", function, *arguments
        )

    return called


def all_settings(
    objective: Objective,
    settings: Sequence[Mapping[str, float]] | None,
    schedule: str,
    radius: float | None,
    label: str,
) -> dict[str, checks.Array]:
    if str(schedule) not in SCHEDULES:
        raise InputError(f"schedule must be one of {', '.join(SCHEDULES)}. Got {schedule!r}.")
    defaults: dict[str, float | None] = {**objective.defaults, **SCHEDULE_DEFAULTS[schedule]}
    if radius is not None:
        if not objective.projected:
            raise InputError(f"radius must be None for {label}, which has no projected variant. Got {radius!r}.")
        defaults["radius"] = checks.number("radius", radius, low=0.0, low_open=True)
    if isinstance(settings, Mapping):
        raise InputError("settings must be a list of settings. Got a single mapping; use cesaro.grid(step_size=[…]).")
    chosen = complete(
        settings if settings is not None else grid(step_size=objective.defaults["step_size"] or 0.01), defaults
    )
    if "power" in chosen and ((chosen["power"] <= 0.5) | (chosen["power"] > 1)).any():
        raise InputError(f"power must be above ½ and at most 1 for convergence. Got {chosen['power'].tolist()}.")
    return chosen


def as_shape(
    objective: Objective, budget: int, record_every: int, window: int, batch_size: int
) -> tuple[RunShape, int]:
    numbers = {"budget": budget, "record_every": record_every, "window": window, "batch_size": batch_size}
    numbers = {name: checks.count(name, value, high=2**31 - 1) for name, value in numbers.items()}
    budget, record_every, window, batch_size = numbers.values()
    per_step = objective.minibatches * batch_size
    for name in ("record_every", "window"):
        if numbers[name] % per_step:
            raise InputError(f"{name} must be a multiple of {per_step}, the samples of one step. Got {numbers[name]}.")
    if budget % record_every:
        raise InputError(f"budget must be a multiple of record_every = {record_every}. Got {budget}.")
    if window > record_every and window % record_every:
        raise InputError(f"window must be at most record_every = {record_every} or a multiple of it. Got {window}.")
    shape = RunShape(record_every // per_step, min(window, record_every) // per_step, objective.minibatches, batch_size)
    return shape, max(1, window // record_every)


def as_seeds(seeds: int | Sequence[int]) -> NDArray[np.int64]:
    if not isinstance(seeds, int | np.integer | Iterable):
        raise InputError(f"seeds must be a number of seeds, or a list of them. Got {seeds!r}.")
    numbers = (
        list(range(checks.count("seeds", seeds, high=MOST_SEEDS)))
        if isinstance(seeds, int | np.integer)
        else list(seeds)
    )
    numbers = [checks.count("seed", s, low=0) for s in numbers]
    if not numbers or len(set(numbers)) < len(numbers) or max(numbers) >= 2**32:
        raise InputError(f"seeds must be a number of seeds, or different integers from 0 to 2³² − 1. Got {seeds!r}.")
    return np.array(numbers, dtype=np.int64)


def as_recorders(
    objective: Objective, algorithm: Algorithm, record: Sequence[str] | Mapping[str, Recorder]
) -> dict[str, Recorder]:
    """Functions of the state that give what is kept beside the rate."""
    if isinstance(record, Mapping):
        if not all(callable(function) for function in record.values()):
            raise InputError("record must map names to functions of the state.")
        return {name: users(f"record {name!r}", function) for name, function in record.items()}

    def weights(state: State) -> Any:
        primal = algorithm.report(state)
        flat = [
            leaf.ravel() for name, part in sorted(primal.items()) if name != "rate" for leaf in jax.tree.leaves(part)
        ]
        return jnp.concatenate(flat)

    known: dict[str, Recorder] = {
        "weights": weights,
        "last_reward_rate": lambda state: objective.reward_rate(state.primal),
    }
    unknown = sorted(set(record) - {"reward_rate", *known})
    if isinstance(record, str) or unknown:
        names = ", ".join(repr(name) for name in ("reward_rate", *known))
        raise InputError(f"record must be a list of {names}, or map names to functions of the state. Got {record!r}.")
    return {name: known[name] for name in record if name in known}


def check_choices(dtype: str, target: Any, optimizer: Any, record: Any, workers: Any) -> None:
    """The arguments that are used as they are."""
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype must be 'float32' or 'float64'. Got {dtype!r}.")
    if not isinstance(target, Target):
        raise InputError(f"target must be CURRENT, copied(every) or tracked(mixing). Got {target!r}.")
    if not (optimizer is None or isinstance(optimizer, optax.GradientTransformation)):
        raise InputError(f"optimizer must be an Optax transformation. Got {optimizer!r}.")
    if not isinstance(record, Iterable):
        raise InputError(f"record must be a list of names or a mapping. Got {record!r}.")
    if workers is not None:
        checks.count("workers", workers, low=0, high=checks.MOST_WORKERS)


def check_records(settings: int, seeds: int, records: int) -> None:
    """The recorded rates of all runs must fit into memory."""
    if settings * seeds * records > MOST_RECORDS:
        raise InputError(
            f"settings × seeds × records must be at most {MOST_RECORDS:,} rates. Got {settings:,} × {seeds:,} × {records:,}; "
            "record less often (a larger record_every), or take fewer seeds or settings."
        )


def check_range(settings: Mapping[str, checks.Array], dtype: str) -> None:
    """Numbers that the precision cannot hold would turn into infinities."""
    for name, values in settings.items():
        largest = float(np.finfo(dtype).max) ** (0.5 if name == "radius" else 1.0)  # a radius is squared
        if values.max() > largest:
            raise InputError(f"{name} must be at most {largest:.3g} in {dtype}. Got {values.max():g}.")


# Settings.


def grid(**values: float | Iterable[float]) -> list[Setting]:
    """Every combination of the given values, the last name varying fastest.

    Example:
        >>> import cesaro as cs
        >>> cs.grid(step_size=[0.1, 0.2], ridge=0.0)
        [{'step_size': 0.1, 'ridge': 0.0}, {'step_size': 0.2, 'ridge': 0.0}]
    """
    columns = []
    for name, value in values.items():
        column = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
        if not column:
            raise InputError(f"{name} must hold at least one value. Got none.")
        columns.append([_checked(name, entry) for entry in column])
    return [dict(zip(values, combination)) for combination in itertools.product(*columns)]


def complete(settings: Sequence[Mapping[str, float]], defaults: Mapping[str, float | None]) -> dict[str, checks.Array]:
    """One array per number, `[settings]`; what is missing takes its default, and None means "as step_size"."""
    if isinstance(settings, str | Mapping) or not isinstance(settings, Iterable):
        raise InputError(
            f"settings must be a list of settings. Got a {type(settings).__name__}; use cesaro.grid(step_size=[…])."
        )
    settings = list(settings)
    if not all(isinstance(setting, Mapping) for setting in settings):
        raise InputError("settings must be a list of mappings from names to numbers; use cesaro.grid(step_size=[…]).")
    if not settings:
        raise InputError("settings must hold at least one setting. Got none; see cesaro.grid(step_size=[…]).")
    known = {**defaults, "dual_step_size": None}
    columns: dict[str, list[float]] = {name: [] for name in defaults}
    if any("dual_step_size" in setting for setting in settings):
        columns["dual_step_size"] = []
    for position, setting in enumerate(settings):
        unknown = sorted(str(name) for name in set(setting) - set(known))
        if unknown:
            raise InputError(
                f"Setting {position} has no meaning for {', '.join(unknown)}; this method takes {', '.join(sorted(known))}."
            )
        for name, column in columns.items():
            value = setting.get(name, known[name])
            column.append(_checked(name, setting.get("step_size", known["step_size"]) if value is None else value))
    return {name: np.array(column) for name, column in columns.items()}


def _checked(name: str, value: Any) -> float:
    return checks.number(name, value, low=0.0, low_open=name in POSITIVE)
