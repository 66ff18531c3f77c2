"""Repeat a study from its `manifest.json`, and compare what came out."""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from cesaro import documents
from cesaro.errors import InputError
from cesaro.reproduce import study

# Every study is a module with the names `Config` and `run`; the result of `run` has `summary()`.
STUDIES = {
    name: f"cesaro.reproduce.{name}"
    for name in (
        *("assumption", "boyan", "counterexample", "coverage", "mujoco", "pendulum", "practice", "rates", "stall"),
    )
}


class Recorded(NamedTuple):
    """What a manifest holds, checked."""

    study: str
    config: Any
    summary: dict[str, Any]
    versions: dict[str, str]

    def run(self, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Any:
        """Run the study again."""
        return import_module(STUDIES[self.study]).run(self.config, out, workers=workers, force=force, quiet=quiet)


def read(file: str | Path) -> Recorded:
    """The study that a manifest records.

    Raises:
        InputError: the file is no manifest of a study that this version knows, or has settings that it does not know.
    """
    file = Path(file)
    try:
        found = documents.read(file)
    except FileNotFoundError:
        raise InputError(f"The manifest '{file}' does not exist.") from None
    except OSError as error:
        raise InputError(f"The manifest '{file}' cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise InputError(f"'{file}' is not readable JSON ({error}); give the manifest.json of a study.") from None
    parts = {"study": str, "settings": dict, "summary": dict, "versions": dict}
    if not isinstance(found, dict) or found.get("schema") != study.SCHEMA:
        schema = found.get("schema") if isinstance(found, dict) else None
        raise InputError(f"'{file}' must be a manifest of schema {study.SCHEMA!r}. Got schema {schema!r}.")
    broken = [name for name, kind in parts.items() if not isinstance(found.get(name), kind)]
    if broken:
        raise InputError(f"The manifest '{file}' has no valid {' and '.join(broken)}; it may be damaged.")
    name = found["study"]
    if name not in STUDIES:
        raise InputError(f"The study of '{file}' must be one of {', '.join(STUDIES)}. Got {name!r}.")
    config = _config(import_module(STUDIES[name]).Config, found["settings"], file)
    return Recorded(name, config, found["summary"], found["versions"])


def other_versions(recorded: Recorded) -> list[str]:
    """`jax 0.10.2 then, 0.11.0 now`, for what has changed since."""
    now: Mapping[str, str] = study.manifest(recorded.study, {}, seed=0, options={}, summary={})["versions"]
    both = [name for name in recorded.versions if name in now]
    return [
        f"{name} {recorded.versions[name]} then, {now[name]} now"
        for name in both
        if now[name] != recorded.versions[name]
    ]


def differences(recorded: Recorded, result: Any) -> list[str]:
    """Where the summary of a new result differs from the recorded one, one line each."""
    return _differences(recorded.summary, documents.parse(json.dumps(result.summary())))


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return [
            line
            for key in [*then, *(key for key in now if key not in then)]
            for line in _differences(then.get(key), now.get(key), f"{name}.{key}" if name else str(key))
        ]
    return [] if then == now else [f"{name}: {then} in the manifest, {now} here"]


def _config(kind: Any, settings: Mapping[str, Any], file: Path) -> Any:
    defaults = {field.name: getattr(kind(), field.name) for field in fields(kind)}
    unknown, missing = sorted(settings.keys() - defaults), sorted(defaults.keys() - settings)
    if unknown or missing:
        problems = [f"unknown: {', '.join(unknown)}"] * bool(unknown) + [f"missing: {', '.join(missing)}"] * bool(
            missing
        )
        raise InputError(f"The settings of '{file}' are not those of this version's study ({'; '.join(problems)}).")
    for name, value in settings.items():
        if not _is_like(value, defaults[name]):
            raise InputError(f"The setting '{name}' of '{file}' must look like {defaults[name]!r}. Got {value!r}.")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()})


def _is_like(value: Any, default: Any) -> bool:
    """Whether a JSON value has the kind of a default; whole numbers will do for floats."""
    if isinstance(default, tuple):
        return isinstance(value, list) and all(_is_like(entry, default[0]) for entry in value)
    if isinstance(default, float):
        return isinstance(value, float | int) and not isinstance(value, bool)
    return type(value) is type(default)
