"""`cs.policy`: tables, functions, objects, words and files become policies."""

import copy
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from cesaro import python_file, user_code
from cesaro.errors import InputError
from cesaro.files import not_there
from cesaro.fingerprints import file_fingerprint, fingerprint
from cesaro.policies import actor, models, tables
from cesaro.policies.base import Constant, Finite, Logged, Policy, Sampler, Uniform, default_name
from cesaro.policies.rule import PREFIX, Rule
from cesaro.text import nearest

_PICKLES = (".joblib", ".pkl", ".pickle")
_TORCH = (".pt", ".pth", ".ckpt", ".dill")
_FORMS = (
    "uniform, logged, constant:<action>, rule:<expression>, shipped:<environment>, file.py:name, or a file that ends in .csv, "
    ".onnx, .safetensors, .joblib (scikit-learn) or .zip (Stable-Baselines3)"
)


def policy(x: Any, *, name: str | None = None, trust: bool = False) -> Policy:
    """Turn anything that says how to act into a `Policy`.

    Args:
        x: one of

            - a table `[S, A]` of probabilities for states 0 … S−1 and actions 0 … A−1;
            - a mapping `{state: {action: probability}}` or `{state: action}`, where a state of several columns is a tuple;
            - a pandas or Polars frame or a pyarrow table, with columns of what the policy sees and then `action`, or `action`
              and `probability`, or a column per action;
            - a function `f(observations, rng)` that draws one action per observation, or `f(observations)` that has no
              randomness; for probabilities use `cesaro.policies.Finite(actions, function)`. Where the annotation of its
              first parameter is `pandas.DataFrame` (or `polars.DataFrame`), it gets one;
            - a fitted classifier or regressor of scikit-learn, which acts as its `predict` says;
            - an object with `actions` and `probabilities(observations)`, or with `sample(observations, rng)`, or a class of
              such objects that takes no arguments;
            - the words "uniform", "constant:<action>", "logged", and "shipped:<environment>" for actors that come with cesaro,
              such as "shipped:Hopper-v5";
            - an expression, "rule:on if temperature < 19 else off", which is parsed and never run as code;
            - a path: `file.py:name`, a `.csv` table, an `.onnx` model, an actor in `.safetensors`, a scikit-learn model in
              `.joblib` or `.pkl`, a Stable-Baselines3 `.zip`.
        name: how results call it; by default what `x` suggests.
        trust: allow files that run pickled code when they are loaded.

    Observations are the log's own columns, and `observations["temperature"]` is one of them in every case: several are a dict
    of arrays, and a single one, or a vector, is an array that knows its names.

    Example:
        >>> import numpy as np
        >>> from cesaro.policies import policy
        >>> policy([[0.5, 0.5], [0, 1]]).probabilities(np.array([1, 0]))
        array([[0. , 1. ],
               [0.5, 0.5]])
    """
    if name is not None and not str(name).strip():
        raise InputError(f"name must not be empty. Got {name!r}.")
    if isinstance(x, str):
        made = _from_text(x, name, trust)
    elif isinstance(x, os.PathLike):
        made = _from_file(Path(os.fspath(x)), name, trust)
    else:
        made = _from_users(x, name)
    return made if name is None or made.name == name else _named(made, name)


def _named(made: Policy, name: str) -> Policy:
    """A copy with another name; objects of the user's own stay as they are."""
    made = copy.copy(made)
    with suppress(AttributeError):  # a name that its class does not let others choose
        made.name = name
    return made


def parse(text: str) -> tuple[str | None, str]:
    """Split the command line's `[NAME=]SPEC`.

    What stands before the first `=` is a name unless it holds `/`, `\\` or `:`, as in `runs/lr=0.1/policy.csv` or
    `constant:a=b`. A file whose own name has an `=` needs its folder: `./lr=0.1.csv`.

    Example:
        >>> from cesaro.policies import parse
        >>> parse("new=policy.py:choose"), parse("uniform")
        (('new', 'policy.py:choose'), (None, 'uniform'))
    """
    before, equals, after = text.partition("=")
    if not equals or re.search(r"[/\\:]", before):
        name, spec = None, text.strip()
        _check_not_name(before, after, text)
    else:
        name, spec = before.strip(), after.strip()
        if not name:
            raise InputError(f"--policy must have a name before '='. Got {text!r}.")
        if _is_file(_file_part(text)):
            raise InputError(
                f"--policy {text!r} can be the file of that name or {spec!r} called {name!r}; "
                f"write ./{text} for the file, or remove it."
            )
    if not spec:
        raise InputError(f"--policy must be [NAME=]SPEC with SPEC {_FORMS}. Got {text!r}.")
    return name, spec


def _check_not_name(before: str, after: str, text: str) -> None:
    """A path with an `=` that is no file, where what follows the `=` is one, was meant as a name."""
    marks = [mark for mark in "/\\:" if mark in before]
    meant = after.strip() in ("uniform", "logged") or _is_file(_file_part(after.strip()).expanduser())
    if (
        after
        and meant
        and not before.startswith(("constant:", PREFIX))
        and not _is_file(_file_part(text.strip()).expanduser())
    ):
        raise InputError(
            f"--policy NAME=SPEC must have a name without {marks[0]!r}. Got {before.strip()!r}; call it "
            f"{re.sub(r'[/:]|' + re.escape(chr(92)), '-', before.strip())!r}, or check the path if {text.strip()!r} is a file."
        )


def _from_text(text: str, name: str | None, trust: bool) -> Policy:
    if text == "uniform":
        return Uniform()
    if text == "logged":
        return Logged()
    if text.startswith("constant:"):
        return Constant(text.removeprefix("constant:"))
    if text.startswith(PREFIX):
        return Rule(text.removeprefix(PREFIX))
    if text == "shipped":
        raise InputError(
            "policy 'shipped' must name its environment, which a log does not tell. Got 'shipped'; write one of "
            f"{', '.join(f'shipped:{env}' for env in actor.shipped())}."
        )
    if text.startswith("shipped:"):
        return _from_file(actor.actor_path(text.removeprefix("shipped:")), name or text, trust)
    place = python_file.place(text)
    if place is not None:
        return _from_python(*place, name)
    return _from_file(Path(text).expanduser(), name, trust)


def _file_part(text: str) -> Path:
    file, marker, _ = text.rpartition(".py:")
    return Path(f"{file}.py" if marker else text)


def _from_file(path: Path, name: str | None, trust: bool) -> Policy:
    suffix, called = path.suffix.lower(), name or path.stem
    if suffix in _TORCH:
        raise InputError(
            f"'{path}' is a pickle file, which runs code when it is loaded and is never read; load it in a Python file of "
            "your own and pass file.py:name, or export it to ONNX or an actor file."
        )
    if suffix == ".py":
        raise InputError(f"'{path}' must be followed by the name to use from it, as in {path.name}:choose.")
    if suffix not in (".csv", ".onnx", ".safetensors", ".zip", *_PICKLES):
        close = nearest(str(path), ("uniform", "logged"))
        raise InputError(
            f"policy must be {_FORMS}. Got {str(path)!r}{'.' if close is None else f'; did you mean {close}?'}"
        )
    _check_exists(path)
    made: Policy
    if suffix == ".csv":
        made = tables.from_csv(path, name=called)
    elif suffix == ".onnx":
        made = models.OnnxModel(path, name=called)
    elif suffix == ".safetensors":
        made = actor.load(path, name=called)
    elif suffix in _PICKLES:
        made = _named(_from_users(models.load_pickled(path, trust=trust), called), called)
    else:
        made = models.load_stable_baselines(path, name=called, trust=trust)
    made._file = file_fingerprint(path)
    return made


def _from_python(path: Path, attribute: str, name: str | None) -> Policy:
    _check_exists(path)
    value, siblings = python_file.load(path, attribute)
    if isinstance(value, str | os.PathLike) or value is None:
        raise InputError(
            f"'{path}:{attribute}' must be a function, an object, a class or a table. Got {value!r}; name another one."
        )
    made = _named(_from_users(value, name or attribute, siblings.imports), name or attribute)
    made._imports = siblings.imports
    made._file = fingerprint((siblings.fingerprint, attribute))
    return made


def _check_exists(path: Path) -> None:
    if not _is_file(path):
        raise InputError(f"'{path}' cannot be found; {not_there(path, 'check the path of the policy.')}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _from_users(x: Any, name: str | None, imports: Callable[[], AbstractContextManager[None]] = nullcontext) -> Policy:
    """A policy from an object that a user made, which may do anything when it is looked at."""

    def among_modules() -> Policy:
        with imports():
            return _from_object(x, name)

    made: Policy = user_code.call(
        lambda error: (
            f"policy must be an object that can be read. Got a {user_code.type_name(x)}, which failed with {error}."
        ),
        among_modules,
    )
    return made


def _from_object(x: Any, name: str | None) -> Policy:
    if isinstance(x, Policy):
        return x
    called = name or default_name(x)
    if isinstance(x, type):
        x = _instance(x, called)
    if isinstance(x, Mapping):
        return tables.from_mapping(x, name=name or "table")
    if type(x).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow"):
        if type(x).__name__ in ("DataFrame", "Table"):
            return tables.from_frame(x, name=name or "table")
        raise InputError(
            f"policy must not be a {type(x).__name__}, whose labels would be lost. "
            "Got one; pass a mapping {state: action}, in pandas series.to_dict(), or a data frame with a column per role."
        )
    if models.is_fitted_model(x):
        return models.FittedModel(x, name=called)
    if hasattr(x, "probabilities"):
        if not hasattr(x, "actions"):
            raise InputError(f"Policy {called!r} has probabilities and must have actions, their labels, as well.")
        return Finite(x.actions, _method(x, "probabilities", called), name=called)
    if hasattr(x, "sample"):
        bounds = {field: getattr(x, field, None) for field in ("low", "high")}
        return Sampler(_method(x, "sample", called), name=called, **bounds)
    if callable(x):
        return Sampler(x, name=called)
    if isinstance(x, list | tuple) and any(map(callable, x)):
        raise InputError(
            f"policy must not be a {type(x).__name__} with a function in it; for actions and a function that gives their "
            "probabilities pass cesaro.policies.Finite(actions, function)."
        )
    if isinstance(x, list | tuple) or (hasattr(x, "__array__") and np.ndim(x) > 0):
        return tables.from_array(x, name=name or "table")
    if hasattr(x, "predict"):
        raise InputError(
            f"policy must say what its actions are. Got a {user_code.type_name(x)} with predict, which is not a "
            "scikit-learn model; pass a function that calls it, def f(observations): return …"
        )
    raise InputError(
        "policy must be a table [S, A], a mapping, a data frame, a function of (observations, rng), a fitted model of "
        f"scikit-learn, an object with sample or with actions and probabilities, or text: {_FORMS}. Got a {type(x).__name__}."
    )


def _instance(kind: type, called: str) -> Any:
    return user_code.call(
        lambda error: f"Policy class {called!r} must be made without arguments; it failed with {error}.", kind
    )


def _method(x: Any, field: str, called: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(x, field)
    if not callable(method):
        raise InputError(f"Policy {called!r} must have a method {field}. Got a {type(method).__name__}.")
    return method
