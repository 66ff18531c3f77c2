"""`file.py:name`: the file is run as a module of its own, and its folder's modules are found as a script would find them."""

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from cesaro import user_code
from cesaro.errors import InputError
from cesaro.fingerprints import fingerprint
from cesaro.text import nearest


class Siblings:
    """The modules beside a file.

    They are importable within `imports()` only, so that equal names in two folders, or in the program itself, do not meet.
    Likewise a working directory that the file has chosen is its own there, and nobody else's.

    Attributes:
        fingerprint: of the file, and of those beside it that it imports when it is loaded.
    """

    fingerprint: str

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/*.py")}
        self._modules: dict[str, ModuleType] = {}
        self._directory: str | None = None  # where the file has gone, which holds for it alone

    @contextmanager
    def imports(self) -> Iterator[None]:
        """Let the file import its neighbors; for calls through `user_code` alone, one at a time: threads share modules."""
        names = self._names
        present = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in names}
        others = {
            name: module for name, module in present.items() if _is_loose(name, module) and not self._owns(module)
        }
        for name in others:
            del sys.modules[name]
        sys.modules.update(self._modules)
        entry = str(self._folder)
        sys.path.insert(0, entry)
        before = user_code.directory()
        if self._directory is not None:
            with suppress(OSError):  # it is gone
                os.chdir(self._directory)
        try:
            yield
        finally:
            if (now := user_code.directory()) != before:
                self._directory = now
            if entry in sys.path:
                sys.path.remove(entry)
            self._modules = {
                name: module
                for name, module in list(sys.modules.items())
                if name.partition(".")[0] in names and name not in present and self._owns(module)
            } | {name: sys.modules[name] for name in others if name in sys.modules}
            for name in self._modules:
                del sys.modules[name]
            sys.modules.update(others)

    def _owns(self, module: ModuleType) -> bool:
        return any(place.is_relative_to(self._folder) for place in _places(module))


def place(spec: Any) -> tuple[Path, str] | None:
    """Path and name of the text `file.py:name`; None where it is something else."""
    file, marker, name = spec.rpartition(".py:") if isinstance(spec, str) else ("", "", "")
    return (Path(f"{file}.py").expanduser(), name) if marker else None


def load(path: Path, name: str) -> tuple[Any, Siblings]:
    """The object that `name` (dots allowed) stands for after the file has run."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(f"'{path}:{name}' must end in a Python name, as in policy.py:choose. Got {name!r}.")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}); check the path.") from error
    resolved = path.resolve()
    siblings = Siblings(resolved.parent)
    digest = hashlib.sha256(str(resolved).encode()).hexdigest()[:12]
    module = ModuleType(f"cesaro_file_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{digest}")
    module.__file__ = str(resolved)
    sys.modules[module.__name__] = module
    importlib.invalidate_caches()

    def run() -> Any:
        with siblings.imports():
            exec(compile(source, str(resolved), "exec", dont_inherit=True), module.__dict__)
            return _named(module, path, name)

    try:
        value = user_code.call(
            lambda error: f"'{path}' cannot be loaded: {error}; correct the file, which must run without an error.", run
        )
    except BaseException:
        sys.modules.pop(module.__name__, None)
        raise
    siblings.fingerprint = fingerprint((source, sorted(siblings._modules.items())))
    return value, siblings


def _named(module: ModuleType, path: Path, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            public = [
                key
                for key, known in vars(module).items()
                if not (key.startswith("_") or key == part or isinstance(known, ModuleType))
            ]
            there = f"it has {', '.join(public[:8])}" if public else "it defines nothing"
            close = nearest(part, public)
            remedy = "check the name." if close is None else f"did you mean {close!r}?"
            raise InputError(f"'{path}' must define {name!r}, and it does not ({there}); {remedy}") from None
    return value


def _is_loose(name: str, module: ModuleType) -> bool:
    """Whether the module is a file of somebody's folder, not of the standard library or an installed package."""
    places = _places(module)
    installed = any({"site-packages", "dist-packages"} & set(place.parts) for place in places)
    return bool(places) and not installed and name.partition(".")[0] not in {*sys.stdlib_module_names, "cesaro"}


def _places(module: ModuleType) -> list[Path]:
    file = getattr(module, "__file__", None)
    return [Path(place).resolve() for place in ([file] if file else getattr(module, "__path__", None) or ())]
