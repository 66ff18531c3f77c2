"""The settings of the stall study, and the problems that it trains networks on."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from cesaro.reproduce import study
from cesaro.reproduce.stall.networks import METHODS, RECORDS
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

_require = partial(study.require, "stall")


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
        study.require_sizes("stall", self)
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


def _is_plain(method: str) -> bool:
    return method in ("diff-sgq", "diff-gq1", "residual")


def command(config: Config) -> str:
    """A command that gives these settings; where no options do, the manifest itself does."""
    if config == Config(**{**QUICK, "seed": config.seed}):
        return f"cesaro reproduce stall --quick --seed {config.seed}"
    if config == Config(seeds=config.seeds, seed=config.seed):
        return f"cesaro reproduce stall --seeds {config.seeds} --seed {config.seed}"
    return "cesaro reproduce --from manifest.json"
