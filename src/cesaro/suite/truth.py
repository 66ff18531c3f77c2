"""The rates of policies in the suite's systems: a closed form where there is one, else a simulation that passed its checks.

    python -m cesaro.suite.truth [--only SYSTEM …] [--workers N]

A simulated rate is accepted only if particles that began with a reset and particles that began where a behavior was agree with
each other on the last and longest stretch, and with all before it, and if the middle half of particles' means spreads less the
longer they run. A system with two basins fails: its rate is none.
"""

import argparse
import math
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cesaro import documents
from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import write_json
from cesaro.suite.system import RELEASE, SHIFTS, STICKY, Acting, Particles, Simulated, acting_by, parts_of, walk
from cesaro.suite.systems import ROBOTS, SYSTEMS, kind_of, make
from cesaro.suite.systems.robots import SIGMAS
from cesaro.versions import versions

SCHEMA = "cesaro-truths/1"
STORED = "truths.json"
# Standard errors are driven below this part of the difference that they are to tell, so that the difference of two has 1 %.
PRECISE = 0.006
# Rates of one policy may differ by so many standard errors: each comparison fails by chance once in 2,000 times.
AGREE = 3.5
# What the middle half of particles' means spreads over, times the root of the length, may grow so much from one stretch to the
# next, twice as long. Standard deviations would not do: where rewards have no fourth moment, a single one may double them.
STEADY = 1.3
# Means of a particle over two stretches are uncorrelated if it forgets its start; of 8,192 particles the standard error is 0.011.
REMEMBERED = 0.1
PARTICLES = 4_096
# Steps of the first stretch, in times that a start takes to be forgotten; later ones are twice as long each.
FIRST = 2
# Steps after which a simulation gives up.
MOST_STEPS = 400_000
# A log's mean has to be so many standard deviations from a target's rate for errors to be measured by the difference.
APART = 5


class NotAccepted(InputError):
    """A simulated rate that is not one."""


@dataclass(frozen=True)
class Rate:
    """The rate of a policy, and how it was found.

    Attributes:
        standard_error: of the rate; 0 where it is exact.
        deviation: the standard deviation of the mean over n steps of one trajectory is about this over √n.
        simulated: the simulated rate and its standard error, where the rate is exact.
        particles, steps: of the simulation, after starts are forgotten; of each of the two kinds of starts.
    """

    rate: float
    standard_error: float
    deviation: float
    simulated: tuple[float, float]
    particles: int
    steps: int


@dataclass(frozen=True)
class Truths:
    """Stored rates of one system at one mixing."""

    targets: Mapping[str, Rate]
    behaviors: Mapping[str, Rate]

    def logged(self, shift: str, behavior: str) -> tuple[float, float]:
        """The rate of a behavior, and its deviation; of a mixture or a change the mean of its parts."""
        degree = SHIFTS[shift]
        if behavior in ("mixture", "changed"):
            parts = [self.behaviors[_behavior_name(part)] for part in parts_of(degree)]
            return sum(part.rate for part in parts) / 2, math.sqrt(sum(part.deviation**2 for part in parts) / 2)
        found = self.behaviors[_behavior_name(degree, STICKY if behavior == "sticky" else 0.0)]
        return found.rate, found.deviation

    def scale(self, target: str, shift: str, behavior: str, rows: int) -> float:
        """The unit of errors: the difference of target and log, or five deviations of the log's mean if that is more."""
        logged, deviation = self.logged(shift, behavior)
        return max(abs(self.targets[target].rate - logged), APART * deviation / math.sqrt(rows))


def _behavior_name(degree: float, stickiness: float = 0.0) -> str:
    return f"{degree:g} sticky" if stickiness else f"{degree:g}"


def truths(name: str, mixing: str = "usual", release: str = RELEASE) -> Truths:
    """The stored rates of a system.

    Raises:
        InputError: there are none of this release.
    """
    found = _stored().get(name, {}).get(mixing)
    if found is None or (kind_of(name).side == "exam" and found["made"]["release"] != release):
        raise InputError(
            f"system must be one whose rates are stored at {mixing} mixing. Got {name!r}; simulate them first: "
            f"python -m cesaro.suite.truth --only {name}"
        )
    return Truths(
        **{
            part: {
                policy: Rate(**{**rate, "simulated": tuple(rate["simulated"])}) for policy, rate in found[part].items()
            }
            for part in ("targets", "behaviors")
        }
    )


@cache
def _stored() -> Any:
    file = files("cesaro.suite").joinpath(STORED)
    return documents.parse(file.read_text(encoding="utf-8"))["systems"]


def signature(found: Simulated) -> float:
    """Rewards of a few particles and steps under every policy, which change when the system does: stored truths are of the system
    that has it."""
    rng = np.random.default_rng(0)
    policies = [*found.targets.values(), *(found.behavior(degree) for degree in _degrees(found.mixing))]
    actings = [*(Acting((policy,)) for policy in policies), acting_by(found, "medium", "sticky", 2, 20)]
    return sum(float(step.rewards.sum()) for acting in actings for step in walk(found, acting, 32, 20, rng))


def _degrees(mixing: str) -> list[float]:
    """The degrees of the behaviors whose rates are stored: at slow mixing that of the medium shift alone."""
    if mixing == "slow":
        return [SHIFTS["medium"]]
    return list(dict.fromkeys(part for degree in SHIFTS.values() for part in (degree, *parts_of(degree))))


def simulated(found: Simulated, acting: Acting, goal: float, rng: np.random.Generator) -> Rate:
    """The rate by simulation, until its standard error is below the goal.

    Raises:
        NotAccepted: it is not a rate whatever the start, or the goal is out of reach.
    """
    beginnings = found.start(PARTICLES, rng), _logged_states(found, rng)
    groups = [Particles(found, acting, state, rng) for state in beginnings]
    for group in groups:
        group.earned(found.warm)
    total, earned = 0, np.zeros((2, PARTICLES))
    steps, before, previous = FIRST * found.warm, math.inf, np.zeros(0)
    last = [np.zeros(0)]
    while True:
        added = np.stack([group.earned(steps) for group in groups])
        previous, last = np.concatenate(last), list(added / steps)
        deviation = math.sqrt(sum(float(means.var(ddof=1)) for means in last) / 2 * steps)
        spread = sum(float(np.subtract(*np.quantile(means, [0.75, 0.25]))) for means in last) * math.sqrt(steps)
        steady, before = spread <= STEADY * before, spread
        total, earned = total + steps, earned + added
        pooled = earned.ravel() / total
        rate, error = float(pooled.mean()), float(pooled.std(ddof=1)) / math.sqrt(len(pooled))
        if (error <= goal and total >= 3 * FIRST * found.warm) or total >= MOST_STEPS:
            break
        steps *= 2
    apart = abs(float(last[0].mean() - last[1].mean())) / _error(last)
    # The last stretch is part of the whole, which makes their difference smaller.
    moved = abs(float(np.mean(last)) - rate) / max(_error(last) / 2 * math.sqrt(1 - steps / total), 1e-300)
    remembered = float(np.corrcoef(previous, np.concatenate(last))[0, 1])
    if not steady or apart > AGREE or moved > AGREE or remembered > REMEMBERED:
        raise NotAccepted(
            f"{found.name}, {found.mixing}: the rate must not depend on the start. Got {apart:.1f} standard errors between "
            f"reset and logged states, {moved:.1f} between stretches, a correlation of {remembered:.2f} between the means of a "
            f"particle in one stretch and the next, deviations {'steady' if steady else 'growing'}; change the system or call "
            "it faulty."
        )
    if error > goal:
        raise NotAccepted(
            f"{found.name}: a standard error of {goal:g} is out of reach. Got {error:g} after {total} steps."
        )
    return Rate(rate, error, deviation, (rate, error), PARTICLES, total)


def _logged_states(found: Simulated, rng: np.random.Generator) -> Any:
    """Where a log could be: after the behavior of the strong shift has run for a while."""
    particles = Particles(found, acting_by(found, "strong", "one", 1, 1), found.start(PARTICLES, rng), rng)
    particles.earned(found.warm)
    return particles.state


def _error(groups: Iterable[Array]) -> float:
    return max(math.sqrt(sum(float(group.var(ddof=1)) / len(group) for group in groups)), 1e-300)


def measured(name: str, mixing: str, release: str = RELEASE) -> dict[str, Any]:
    """All rates of a system at one mixing, as they are stored; at slow mixing the main target's and the medium shift's alone."""
    found = _simulated(name, mixing, release)
    rng = np.random.default_rng(zlib.crc32(f"{name} {mixing} {release}".encode()))
    main = found.targets[found.main]
    shifts = SHIFTS if mixing == "usual" else {"medium": SHIFTS["medium"]}
    # How far apart things are, roughly; precise enough to set the goals.
    rough = {shift: _rough(found, Acting((found.behavior(degree),)), rng) for shift, degree in shifts.items()}
    at_main = _rough(found, Acting((main,)), rng)
    gaps = {shift: abs(at_main - rate) for shift, rate in rough.items()}
    targets = found.targets if mixing == "usual" else {found.main: main}
    goals = dict.fromkeys(targets, PRECISE * gaps["medium"])
    goals[found.main] = PRECISE * min(gaps.values())
    behaviors = {}
    for shift, degree in shifts.items():
        for part in (degree, *parts_of(degree)) if mixing == "usual" else (degree,):
            behaviors[part, 0.0] = PRECISE * gaps[shift]
        if mixing == "usual":
            behaviors[degree, STICKY] = PRECISE * gaps[shift]
    return {
        "targets": {target: _rate(found, targets[target], 0.0, goal, rng) for target, goal in goals.items()},
        "behaviors": {
            _behavior_name(degree, stickiness): _rate(found, found.behavior(degree), stickiness, goal, rng)
            for (degree, stickiness), goal in behaviors.items()
        },
    }


def _alone(name: str, mixing: str, release: str) -> dict[str, Any]:
    """The same on one thread of BLAS: others would only wait for each other, beside a process per core."""
    with threadpool_limits(limits=1):
        return measured(name, mixing, release)


def _simulated(name: str, mixing: str, release: str) -> Simulated:
    found = make(name, mixing, release)
    assert isinstance(found, Simulated)
    return found


def _rough(found: Simulated, acting: Acting, rng: np.random.Generator) -> float:
    total = sum(float(step.rewards.mean()) for step in walk(found, acting, PARTICLES, 200, rng, warm=found.warm))
    return total / 200


def _rate(found: Simulated, policy: Any, stickiness: float, goal: float, rng: np.random.Generator) -> dict[str, Any]:
    exact = found.exact(policy, stickiness)
    rate = simulated(found, Acting((policy,), stickiness), goal if exact is None else 3 * goal, rng)
    return asdict(rate) | ({} if exact is None else {"rate": exact, "standard_error": 0.0})


def recorded(manifest: Any) -> dict[str, Any]:
    """The rates of robots, by system, as the MuJoCo study's manifest has them."""
    summary, steps = manifest["summary"], manifest["settings"]["transitions"]
    found = {}
    for name in ROBOTS:
        env = vars(kind_of(name))["env"]
        behaviors = {
            _behavior_name(SHIFTS[shift]): summary["places"][f"{env} {sigma!r}"]["behavior"]
            for shift, sigma in SIGMAS.items()
        }
        found[name] = {
            "targets": {"main": _recorded(summary["truths"][env], manifest["settings"]["truth_steps"])},
            "behaviors": {degree: _recorded(rate, steps) for degree, rate in behaviors.items()},
        }
    return found


def _recorded(rate: tuple[float, float], steps: int) -> dict[str, Any]:
    value, error = rate
    return asdict(Rate(value, error, error * math.sqrt(steps), (value, error), 1, steps))


def main() -> None:
    """Measure systems and store what was found, beside what is stored of the others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[name for name in SYSTEMS if not kind_of(name).fault])
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument(
        "--study", type=Path, help="store the rates of robots from this manifest.json of the MuJoCo study"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(str(files("cesaro.suite").joinpath(STORED))))
    given = parser.parse_args()
    document: Any = documents.read(given.out) if given.out.exists() else {"schema": SCHEMA, "systems": {}}
    if given.study is not None:
        manifest: Any = documents.read(given.study)
        made = {"study": manifest["command"], "versions": manifest["versions"], "created": manifest["created"]}
        document["systems"] |= {name: {"usual": {"made": made, **rates}} for name, rates in recorded(manifest).items()}
        write_json(given.out, document)
        return
    refused: list[str] = []
    with ProcessPoolExecutor(given.workers) as pool:
        jobs = {
            pool.submit(_alone, name, mixing, given.release): (name, mixing)
            for name in given.only
            for mixing in ("usual", "slow")
        }
        for job in as_completed(jobs):
            name, mixing = jobs[job]
            try:
                rates = job.result()
            except NotAccepted as error:
                print(f"NOT ACCEPTED  {error}", flush=True)
                refused.append(name)
                document["systems"].get(name, {}).pop(mixing, None)
                write_json(given.out, document)
                continue
            signed = {"release": given.release, "signature": signature(_simulated(name, mixing, given.release))}
            document["systems"].setdefault(name, {})[mixing] = {"made": signed | _provenance(), **rates}
            write_json(given.out, document)
            shown = {key: round(rate["rate"], 4) for key, rate in rates["targets"].items()}
            print(f"{name}, {mixing}: {shown}", flush=True)
    if refused:
        raise SystemExit(1)


def _provenance() -> dict[str, Any]:
    return {"versions": versions(("numpy",), ()), "created": datetime.now(UTC).isoformat(timespec="seconds")}


if __name__ == "__main__":
    main()
