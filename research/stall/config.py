"""The settings of the stall study, and the problems that it trains networks on."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, NamedTuple

from cesaro.reproduce.settings import RUNS, SEED, SIDES, About, Option, Requirement, StudyConfig, at_least, several
from research.stall.networks import METHODS, RECORDS
from research.stall.problem import Problem

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

_WALKS = Requirement(
    "at least two increasing integers from 4 to 128",
    lambda walks: len(walks) >= 2 and all(4 <= a < b <= 128 for a, b in pairwise(walks)),
)
_NOISES = several("numbers from 0 to 1", lambda noise: 0 <= noise <= 1)
_PROBLEMS = Requirement(
    f"many, and others of {', '.join(PROBLEMS)}", lambda names: "many" in names and set(names) <= PROBLEMS.keys()
)
_ROWS = Requirement("an integer from 200 to 1,000,000", lambda rows: 200 <= rows <= 10**6)
_STEPS = Requirement(f"a multiple of {RECORDS}", lambda steps: steps >= RECORDS and steps % RECORDS == 0)


@dataclass(frozen=True)
class StallConfig(StudyConfig):
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

    ABOUT: ClassVar = About(
        __package__,
        "A glance in seconds: one problem, 10,000 rows, 3,600 steps, 1 run.",
        {
            "walks": (8, 16, 32),
            "noises": (0.0, 0.2),
            "problems": ("many",),
            "rows": 10_000,
            "steps": 3_600,
            "held_steps": 2_400,
            "seeds": 1,
            "starts": False,
        },
    )

    walks: Annotated[tuple[int, ...], _WALKS] = (8, 16, 32, 64)
    noises: Annotated[tuple[float, ...], _NOISES] = (0.0, 0.1, 0.2, 0.4)
    problems: Annotated[tuple[str, ...], _PROBLEMS] = tuple(PROBLEMS)
    rows: Annotated[int, _ROWS] = 50_000
    few_rows: Annotated[int, _ROWS] = 2_000
    steps: Annotated[int, _STEPS] = 12_000
    held_steps: Annotated[int, _STEPS] = 8_400
    seeds: Annotated[int, at_least(1, most=RUNS), Option("Runs per problem and method.")] = 2
    width: Annotated[int, at_least(1, most=SIDES)] = 64
    starts: bool = True
    seed: Annotated[
        int,
        Requirement("an integer from 0 to 999,999", lambda seed: 0 <= seed < 10**6),
        SEED,
    ] = 0


class Key(NamedTuple):
    """Which training: r̂ starts at `start`; for the method "held" `start` is its share of the way."""

    problem: str
    method: str
    start: str
    rows: int


def keys(config: StallConfig) -> list[Key]:
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
