"""The public names of the package, which of them lack a docstring, and which the reference leaves out.

Needs neither the generator nor the site: the build and the tests both call it.
"""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

PACKAGE = "cesaro"
# Modules whose public names are for users, beside the ones that `cesaro` itself exports.
MODULES = (
    "exact",
    "problems",
    "policies",
    "learning",
    "simulation",
    "approximators",
    "linear",
    "estimators",
    "data",
    "views",
)
DIRECTIVE = re.compile(r"^::: ([\w.]+)$((?:\n    .*)*)", flags=re.MULTILINE)


def public(module: ModuleType) -> dict[str, Any]:
    """The classes, functions and modules that a module offers: those of `__all__`, or else those that it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, thing in vars(module).items()
            if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
        ]
    found = {name: getattr(module, name) for name in names}
    return {name: thing for name, thing in found.items() if isinstance(thing, type | FunctionType | ModuleType)}


def all_public() -> dict[str, Any]:
    """Every public name, with its dots, to the thing it names; the same thing may have several names."""
    found = {}
    for path in (PACKAGE, *(f"{PACKAGE}.{name}" for name in MODULES)):
        module = import_module(path)
        found[path] = module
        found |= {f"{path}.{name}": thing for name, thing in public(module).items()}
    return found


def undocumented(names: dict[str, Any]) -> list[str]:
    """Those of the names, and of the public methods and properties behind them, that have no docstring."""
    seen: set[int] = set()
    missing = []
    for path, thing in names.items():
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if not _own_docstring(thing):
            missing.append(path)
        if isinstance(thing, type):
            missing += [f"{path}.{name}" for name, member in _members(thing) if not _documented(thing, name, member)]
    return missing


def in_reference(folder: Path) -> dict[str, Any]:
    """The names that the pages of a folder document, to the things that they name."""
    found: dict[str, Any] = {}
    for page in sorted(folder.glob("*.md")):
        for path, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            try:
                thing = found[path] = resolve(path)
            except ImportError:
                raise ValueError(f"{page.name} documents {path}, which does not exist.") from None
            if isinstance(thing, ModuleType) and "members: false" not in options:
                found |= {f"{path}.{name}": member for name, member in public(thing).items()}
    return found


def left_out(names: dict[str, Any], pages: dict[str, Any]) -> list[str]:
    """Those of the names whose thing the pages do not document under any name."""
    documented = {id(thing) for thing in pages.values()}
    return [path for path, thing in names.items() if path != PACKAGE and id(thing) not in documented]


def resolve(path: str) -> Any:
    """The thing that a dotted path names; a function may hide a module of its name."""
    parts = path.split(".")
    for i in range(1, len(parts) + 1):
        try:
            return reduce(getattr, parts[i:], import_module(".".join(parts[:i])))
        except AttributeError:
            continue
    raise ImportError(path)


def _own_docstring(thing: Any) -> bool:
    """Whether it has a docstring that someone wrote: dataclasses and named tuples make one up."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    return bool(text) and not (isinstance(thing, type) and str(text).startswith(f"{thing.__name__}("))


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that the package itself gives a class."""
    for name, member in inspect.getmembers_static(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), kind)
        is_ours = owner.__module__.startswith(PACKAGE)
        is_code = isinstance(member, FunctionType | property | cached_property | classmethod | staticmethod)
        if is_code and is_ours and not name.startswith("_"):
            yield name, member


def _documented(kind: type, name: str, member: Any) -> bool:
    """A method that overrides one may leave the docstring to it."""
    inner = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if inner.__doc__:
        return True
    return any(getattr(vars(base).get(name), "__doc__", None) for base in kind.__mro__ if name in vars(base))
