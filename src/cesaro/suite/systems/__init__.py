"""The systems of the suite, one file each. A new one is a file here and a line in `SYSTEMS`."""

from importlib import import_module

from cesaro.errors import InputError
from cesaro.suite.system import RELEASE, System

# Name -> module and class. Families stay on one side: what is seen on development systems is judged on exam systems.
SYSTEMS = {
    # Development.
    "garnet-20": "garnets.Garnet20",
    "garnet-100": "garnets.Garnet100",
    "stock": "stock.Stock",
    "linear-quadratic-1": "linear_quadratic.LinearQuadratic1",
    "linear-quadratic-4": "linear_quadratic.LinearQuadratic4",
    "inventory": "inventory.Inventory",
    "heating": "heating.Heating",
    "pendulum": "pendulum.Pendulum",
    "drift": "drift.Drift",
    "basins": "basins.Basins",
    # Exam.
    "access-control": "access_control.AccessControl",
    "birth-death": "birth_death.BirthDeath",
    "maintenance": "maintenance.Maintenance",
    "linear-quadratic-12": "linear_quadratic.LinearQuadratic12",
    "dosing": "dosing.Dosing",
    "recommender": "recommender.Recommender",
    "server-farm": "server_farm.ServerFarm",
    "ad-pacing": "ad_pacing.AdPacing",
    "hidden-state": "hidden_state.HiddenState",
    "untried-action": "untried_action.UntriedAction",
}
# Systems that take an extra, and longer; scored where they are asked for, one by one or as `robots`.
ROBOTS = {
    "half-cheetah": "robots.HalfCheetah",
    "walker2d": "robots.Walker2d",
    "hopper": "robots.Hopper",
    "swimmer": "robots.Swimmer",
}


def kind_of(name: str) -> type[System]:
    """The class of a system.

    Raises:
        InputError: there is none of this name.
    """
    known = {**SYSTEMS, **ROBOTS}
    if name not in known:
        raise InputError(f"system must be one of {', '.join(known)}. Got {name!r}.")
    module, _, kind = known[name].partition(".")
    found: type[System] = getattr(import_module(f"cesaro.suite.systems.{module}"), kind)
    return found


def make(name: str, mixing: str = "usual", release: str = RELEASE) -> System:
    """A system by its name, ready to be simulated.

    Example:
        >>> import cesaro as cs
        >>> import numpy as np
        >>> damped = cs.suite.make("linear-quadratic-1")
        >>> log = damped.logs(1, 2_000, np.random.default_rng(0))[0]
        >>> log
        Transitions(2000 transitions, 2000 rows)
        >>> round(cs.suite.truths(damped.name).targets[damped.main].rate, 3)
        -0.13
    """
    return kind_of(name)(mixing, release)
