"""The systems of the suite, one file each. A new one is a file here and a line in `SYSTEMS`."""

from importlib import import_module

from cesaro.errors import InputError
from cesaro.suite.system import System

# Name -> module and class. Families stay on one side: what is seen on development systems is judged on exam systems.
SYSTEMS = {
    "linear-quadratic-1": "linear_quadratic.LinearQuadratic1",
    "linear-quadratic-4": "linear_quadratic.LinearQuadratic4",
    "linear-quadratic-12": "linear_quadratic.LinearQuadratic12",
}


def system(name: str) -> type[System]:
    """The class of a system.

    Raises:
        InputError: there is none of this name.
    """
    if name not in SYSTEMS:
        raise InputError(f"system must be one of {', '.join(SYSTEMS)}. Got {name!r}.")
    module, _, kind = SYSTEMS[name].partition(".")
    found: type[System] = getattr(import_module(f"cesaro.suite.systems.{module}"), kind)
    return found
