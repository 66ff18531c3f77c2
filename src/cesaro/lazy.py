"""Imports at first use: of public names, so that a package costs nothing to import, and of pandas."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from cesaro.errors import InputError


def pandas() -> Any:
    """The package, which only those need who ask for a data frame."""
    try:
        return import_module("pandas")
    except ImportError:
        raise InputError("to_frame() needs pandas; install it with: pip install pandas.") from None


def lazily(package: str, exports: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562) whose names come from these modules.

    Args:
        package: its `__name__`.
        exports: public name to the module that defines it; a name that is a module of the package itself maps to "".
    """

    def get(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = exports[name]
        value = getattr(import_module(module), name) if module else import_module(f"{package}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names
