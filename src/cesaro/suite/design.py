"""Which logs are scored: a base case at two sizes, and what is varied around it one factor at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cesaro.suite.methods import SuiteMethod
from cesaro.suite.system import System


@dataclass(frozen=True)
class Cell:
    """A kind of log."""

    rows: int = 5_000
    shift: str = "medium"
    behavior: str = "one"
    trajectories: int = 20
    mixing: str = "usual"

    @property
    def label(self) -> str:
        """The changes from the base cell, in words."""
        base = Cell()
        changes = [
            f"{self.shift} shift" if self.shift != base.shift else "",
            self.behavior if self.behavior != base.behavior else "",
            "one trajectory" if self.trajectories == 1 else "",
            f"{self.mixing} mixing" if self.mixing != base.mixing else "",
        ]
        return ", ".join(filter(None, changes)) or "base"

    @property
    def key(self) -> str:
        """The cell in the names of files."""
        return f"{self.rows}_{self.shift}_{self.behavior}_{self.trajectories}_{self.mixing}"


@dataclass(frozen=True)
class Part:
    """Some logs of a kind.

    Attributes:
        logs: how many, by group of methods; a group that is not named has none.
        targets: "main", or "all", so that ranks can be compared.
    """

    cell: Cell
    logs: Mapping[str, int] = field(default_factory=dict)
    targets: str = "main"


BASE = Cell()
LARGE = replace(BASE, rows=20_000)
# Closed forms everywhere; the default, which takes seconds, on fewer logs; learned methods and worlds on the base case; networks
# on one log of each shift.
WHOLE = (
    Part(BASE, {"closed": 50, "default": 50, "learned": 5, "network": 1, "world": 5}),
    Part(LARGE, {"closed": 50, "default": 10, "world": 3}),
    Part(BASE, {"closed": 10, "default": 1, "network": 1}, "all"),
    Part(replace(BASE, shift="mild"), {"closed": 10, "default": 5, "network": 1, "world": 3}),
    Part(replace(BASE, shift="strong"), {"closed": 10, "default": 5, "network": 1, "world": 3}),
    Part(replace(BASE, trajectories=1), {"closed": 10, "default": 1}),
    Part(replace(BASE, mixing="slow"), {"closed": 10, "default": 1}),
    Part(replace(BASE, behavior="mixture"), {"closed": 10, "default": 1}),
    Part(replace(BASE, behavior="sticky"), {"closed": 10, "default": 1}),
    Part(replace(BASE, behavior="changed"), {"closed": 10, "default": 1}),
    Part(replace(BASE, rows=2_000), {"closed": 10, "default": 1}),
    Part(replace(BASE, rows=200_000), {"closed": 2, "default": 2}),
)
# A glance in minutes.
QUICK = (Part(BASE, {"closed": 4, "default": 1}), Part(BASE, {"closed": 1}, "all"))
# Robots take 400 µs a step: one log of each shift.
ROBOTS = tuple(
    Part(replace(LARGE, shift=shift), {"closed": 1, "default": 1, "network": 1, "world": 1})
    for shift in ("medium", "mild", "strong")
)
# Rows that are simulated together, as whole logs.
_TOGETHER = 50_000


def parts(kind: type[System], quick: bool, most: int | None = None, rows: int | None = None) -> tuple[Part, ...]:
    """The questions for a kind of system, each about at most so many logs, of so many rows alone where that is said.

    For a faulty system these are the base questions alone, where its fault is sure to matter.
    """
    found: tuple[Part, ...] = WHOLE
    if kind.kind == "robot":
        found = ROBOTS[:1] if quick else ROBOTS
    elif quick:
        found = QUICK
    if kind.fault:
        found = tuple(part for part in found if part.targets == "main" and part.cell in (BASE, LARGE))
    if rows is not None:
        found = tuple(part for part in found if part.cell.rows == rows)
    if most is None:
        return found
    return tuple(replace(part, logs={group: min(most, logs) for group, logs in part.logs.items()}) for part in found)


def chunks(kind: type[System], part: Part, method: SuiteMethod) -> Iterator[tuple[int, int]]:
    """First log and number of logs, piece by piece; a log is the same however many there are."""
    size, logs = chunk(part.cell), part.logs.get(method.group, 0) if kind.kind in method.kinds else 0
    for first in range(0, logs, size):
        yield first, min(size, logs - first)


def chunk(cell: Cell) -> int:
    """Logs of a piece."""
    return max(1, min(10, _TOGETHER // cell.rows))
