"""Why neural Diff-GQ1, trained on, stays near the rate of the log: three explanations, and experiments that tell them apart.

Slow: Diff-GQ1 descends a squared residual, whose conditioning is that of the semi-gradient squared; it would get there, late.
Noise: its dual fits the noise of single transitions; the objective becomes E[δ²], and its minimum is elsewhere.
Free: logged pairs (s, a) and the target's (s', a') are different points, between which a network can bend; some q makes δ small
for every r̂, and nothing pushes r̂ on.

Exact parts (`stall_exact`): a slowly mixing walk for the first, closed forms under noise for the second. Networks
(`stall_networks`) on a problem whose answer is known (`stall_problem`) for the third, and for which of them is at work.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.files import Arrays, Workspace
from cesaro.reproduce import study
from cesaro.reproduce.stall import exact as stall_exact
from cesaro.reproduce.stall import networks as stall_networks
from cesaro.reproduce.stall.exact import Limits, Walk
from cesaro.reproduce.stall.networks import CURVES, METHODS, PROBE, RECORDS, Trained
from cesaro.reproduce.stall.problem import Problem

# "many" is the MuJoCo-like one: deterministic, six action coordinates, ten steps of memory.
PROBLEMS = {
    "many": Problem(),
    "one": Problem(actions=1),
    "forgetful": Problem(memory=0.0),
    "noisy": Problem(noise=0.2),
}
# Where r̂ starts on "many": at the log's rate, at r_π, as far beyond it again; "solution": at r_π with q at q_π.
STARTS = ("behavior", "truth", "beyond", "solution")
# r̂ held at: the log's rate plus these shares of the way to r_π.
HELD = (-1.0, 0.0, 0.5, 1.0, 2.0)
HELD_PROBLEMS = ("many", "one")
# Two best residuals count as equal within this factor, and as small below this share of the rewards' variance.
EQUAL, SMALL = 2.0, 0.05
QUICK: dict[str, Any] = {
    "walks": (8, 16, 32),
    "noises": (0.0, 0.2),
    "problems": ("many",),
    "rows": 10_000,
    "steps": 3_600,
    "held_steps": 2_400,
    "seeds": 1,
    "starts": False,
}


@dataclass(frozen=True)
class Config:
    """The settings of the study; the defaults are the full study.

    Attributes:
        walks: numbers of states of the walks.
        noises: of the closed forms.
        problems: names in `PROBLEMS` to train networks on; "many" is always among them.
        rows: of a log.
        few_rows: of a log so short that a dual can fit single rows; for "noisy".
        steps: training steps, a multiple of 12.
        held_steps: the same where r̂ is held.
        seeds: runs per problem and method that start at the log's rate; everything else is run once.
        width: units of both hidden layers.
        starts: whether to start elsewhere too.
        seed: of the log; held-out rows and networks have seeds that follow from it.
    """

    walks: tuple[int, ...] = (8, 16, 32, 64)
    noises: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4)
    problems: tuple[str, ...] = tuple(PROBLEMS)
    rows: int = 50_000
    few_rows: int = 2_000
    steps: int = 12_000
    held_steps: int = 8_400
    seeds: int = 2
    width: int = 64
    starts: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        right = len(self.walks) >= 2 and all(4 <= a < b <= 128 for a, b in zip(self.walks, self.walks[1:]))
        _require(right, "walks", "at least two increasing integers from 4 to 128", self.walks)
        right = bool(self.noises) and all(0 <= noise <= 1 for noise in self.noises)
        _require(right, "noises", "numbers from 0 to 1", self.noises)
        right = "many" in self.problems and set(self.problems) <= PROBLEMS.keys()
        _require(right, "problems", f"many, and others of {', '.join(PROBLEMS)}", self.problems)
        for name in ("rows", "few_rows"):
            value = getattr(self, name)
            _require(200 <= value <= 10**6, name, "an integer from 200 to 1,000,000", value)
        for name in ("steps", "held_steps"):
            value = getattr(self, name)
            _require(value >= RECORDS and value % RECORDS == 0, name, f"a multiple of {RECORDS}", value)
        for name in ("seeds", "width"):
            _require(getattr(self, name) >= 1, name, "an integer ≥ 1", getattr(self, name))
        _require(0 <= self.seed < 10**6, "seed", "an integer from 0 to 999,999", self.seed)


class Key(NamedTuple):
    """Which training: r̂ starts at `start`; for the method "held" `start` is its share of the way."""

    problem: str
    method: str
    start: str
    rows: int


@dataclass(frozen=True)
class Result:
    """Everything the study measured.

    Attributes:
        walks, limits: the exact parts.
        trained: the networks.
        variances: of the logged rewards, by problem.
        true_line: mean of q_π along the actions on "many", as `Trained.line`.
    """

    config: Config
    walks: list[Walk]
    limits: list[Limits]
    trained: dict[Key, Trained]
    variances: dict[str, float]
    true_line: Array

    def share(self, key: Key) -> float:
        """Share of the way from the log's rate to r_π that r̂ has gone at the end, mean over seeds: 0 stays, 1 arrives."""
        problem = PROBLEMS[key.problem]
        return float((self.trained[key].rates[:, -1].mean() - problem.behavior_rate) / _way(problem))

    def curve(self, key: Key, name: str) -> float:
        """A value of `CURVES` at the end, mean over seeds."""
        return float(self.trained[key].curves[:, -1, CURVES.index(name)].mean())

    def held(self, problem: str, name: str = "residual") -> Array:
        """Residual over the rewards' variance by held rate, as `HELD`."""
        keys = [Key(problem, "held", f"{share:g}", self.config.rows) for share in HELD]
        return np.array([self.curve(key, name) for key in keys]) / self.variances[problem]

    @property
    def exponents(self) -> tuple[float, float]:
        """Of time against gap, Diff-SGQ and Diff-GQ1."""
        return stall_exact.exponents(self.walks)

    @property
    def is_flat(self) -> bool:
        """Whether the best residual on "many" is small at the log's rate and at r_π and tells neither from the other."""
        here, there = (float(self.held("many")[HELD.index(share)]) for share in (0.0, 1.0))
        return here <= EQUAL * there and there <= EQUAL * here and max(here, there) <= SMALL

    def summary(self) -> dict[str, Any]:
        """The findings in JSON values."""
        flat = {name: [round(v, 4) for v in self.held(name).tolist()] for name in self._held_problems}
        return {
            "exponents": [round(value, 3) for value in self.exponents],
            "free_dual": {f"{found.noise:g}": round(found.free_dual, 4) for found in self.limits},
            "right_dual": {f"{found.noise:g}": round(found.right_dual, 4) for found in self.limits},
            "is_flat": self.is_flat,
            "held": flat,
            "shares": {"/".join(map(str, key)): round(self.share(key), 3) for key in self.of_methods},
        }

    @property
    def of_methods(self) -> list[Key]:
        return [key for key in self.trained if key.method != "held"]

    @property
    def _held_problems(self) -> list[str]:
        return [name for name in self.config.problems if name in HELD_PROBLEMS]


def run(config: Config, out: str | Path, *, workers: int = 2, force: bool = False, quiet: bool = False) -> Result:
    """Run the study, or what is left of it, and leave tables, a figure and `manifest.json` in `out`.

    Raises:
        InputError: a setting breaks its rule, or `out` cannot be used.
    """
    from cesaro.reproduce.stall import figures as stall_figures
    from cesaro.reproduce.stall import show as stall_tables

    study.check_workers(workers)
    with Workspace(out, {"study": "stall", **asdict(config)}, force=force) as work:
        pieces = study.compute(work, _jobs(config), label="stall", workers=workers, quiet=quiet)
        result = _result(config, pieces)
        stall_tables.write_walks(result, work.path / "walks.csv")
        stall_tables.write_limits(result, work.path / "noise.csv")
        stall_tables.write_trained(result, work.path / "networks.csv")
        stall_figures.plot(result).savefig(work.path / "stall.png", dpi=150, metadata={"Software": None})
        manifest = study.manifest("stall", asdict(config), seed=config.seed, options={}, summary=result.summary())
        work.finish({**manifest, "command": _command(config)})
    return result


def keys(config: Config) -> list[Key]:
    """All trainings, the most telling first."""
    starts = STARTS if config.starts else STARTS[:1]
    found = [Key("many", method, "behavior", config.rows) for method in METHODS]
    found += [Key("many", "held", f"{share:g}", config.rows) for share in HELD]
    found += [
        Key("many", method, start, config.rows) for start in starts[1:] for method in METHODS if _is_plain(method)
    ]
    for name in config.problems:
        if name != "many":
            found += [Key(name, method, "behavior", config.rows) for method in METHODS]
        if name != "many" and name in HELD_PROBLEMS:
            found += [Key(name, "held", f"{share:g}", config.rows) for share in HELD]
    if "noisy" in config.problems:
        few = ("diff-sgq", "diff-gq1-fast-dual", "residual")
        found += [Key("noisy", method, "behavior", config.few_rows) for method in few]
    return found


def _jobs(config: Config) -> dict[str, Callable[[], Arrays]]:
    jobs: dict[str, Callable[[], Arrays]] = {_name(key): partial(_train, config, key) for key in keys(config)}
    jobs |= {f"walk_{states}": partial(_walk, states) for states in config.walks}
    return jobs | {f"noise_{noise:g}": partial(_limits, config, noise) for noise in config.noises}


def _train(config: Config, key: Key) -> Arrays:
    problem = PROBLEMS[key.problem]
    rows, held_out = problem.log(key.rows, 2 * config.seed), problem.log(PROBE, 2 * config.seed + 1)
    seeds = [config.seed * 100 + i for i in range(config.seeds if key.start == "behavior" else 1)]
    shares = {"behavior": 0.0, "truth": 1.0, "solution": 1.0, "beyond": 2.0}
    share = float(key.start) if key.method == "held" else shares[key.start]
    size: dict[str, Any] = {"width": config.width}
    values = None
    if key.start == "solution":
        values = stall_networks.true_values(problem, rows, steps=config.steps, seed=seeds[0], **size)
    found = stall_networks.train(
        problem,
        key.method,
        rows,
        held_out,
        steps=config.held_steps if key.method == "held" else config.steps,
        seeds=seeds,
        start=problem.behavior_rate + share * _way(problem),
        values=values,
        **size,
    )
    return found._asdict()


def _walk(states: int) -> Arrays:
    return {"walk": np.array(stall_exact.walk(states))}


def _limits(config: Config, noise: float) -> Arrays:
    return {"limits": np.array(stall_exact.limits(Problem(noise=noise), config.rows, 2 * config.seed))}


def _result(config: Config, pieces: Mapping[str, Arrays]) -> Result:
    many = PROBLEMS["many"]
    return Result(
        config,
        [
            Walk(int(found[0]), *found[1:].tolist())
            for found in (pieces[f"walk_{states}"]["walk"] for states in config.walks)
        ],
        [Limits(*pieces[f"noise_{noise:g}"]["limits"].tolist()) for noise in config.noises],
        {key: Trained(**pieces[_name(key)]) for key in keys(config)},
        {name: float(PROBLEMS[name].log(config.rows, 2 * config.seed).rewards.var()) for name in config.problems},
        stall_networks.true_line(many, many.log(PROBE, 2 * config.seed + 1).x),
    )


def _way(problem: Problem) -> float:
    return problem.rate - problem.behavior_rate


def _is_plain(method: str) -> bool:
    return method in ("diff-sgq", "diff-gq1", "residual")


def _name(key: Key) -> str:
    return "_".join(map(str, key))


def _command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce stall --quick --seed {config.seed}"
    if config == Config(seeds=config.seeds, seed=config.seed):
        return f"cesaro reproduce stall --seeds {config.seeds} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"


def _require(holds: bool, name: str, rule: str, value: Any) -> None:
    if not holds:
        raise InputError(f"The '{name}' setting of the stall study must be {rule}. Got {value} instead.")
