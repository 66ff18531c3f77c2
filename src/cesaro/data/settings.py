"""The settings that say how rows become transitions, and the bounds to which the system behind a log cuts its actions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cesaro import checks, documents
from cesaro.checks import beyond
from cesaro.errors import InputError
from cesaro.text import Wording, shortened

OnTermination = Literal["restart", "keep", "drop"]
OnTruncation = Literal["keep", "restart", "drop"]
GAP = 1.5
BOUNDS = Wording("action_bounds", "--action-low and --action-high")
_LOW, _HIGH = Wording("low (action_bounds[0])", "--action-low"), Wording("high (action_bounds[1])", "--action-high")


@dataclass(frozen=True)
class ActionBounds:
    """The bounds to which the system behind a log cuts its actions.

    Attributes:
        low, high: as many numbers each: one for all dimensions of the action, or one per dimension; infinite on open sides.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def fit(self, width: int) -> bool:
        """Whether actions of so many dimensions can have these bounds."""
        return len(self.low) in (1, width)

    def cut(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Actions `[n]` or `[n, d]` within the bounds, in their own precision."""
        low, high = (np.array(side, dtype=actions.dtype) for side in (self.low, self.high))
        return np.clip(actions, low, high)

    def beyond(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Which actions lie outside in some dimension, by more than rounding, `[n]`."""
        table = actions.reshape(len(actions), -1)
        outside = beyond(table, np.array(self.low), -1.0) | beyond(table, np.array(self.high), 1.0)
        return np.asarray(outside.any(axis=1))

    @property
    def wording(self) -> Wording:
        """The argument, and the options, that cut a log's actions to these bounds."""
        sides = {name: _entries(side, "None") for name, side in (("low", self.low), ("high", self.high))}
        low, high = (f"[{', '.join(side)}]" if len(side) > 1 else side[0] for side in sides.values())
        options = [
            f"--action-{name} {entry.lower()}"
            for name, side in sides.items()
            for entry in side
            if side != ["None"]  # an open side needs no option
        ]
        return Wording(f"action_bounds=({low}, {high})", " ".join(options))

    def __str__(self) -> str:
        sides = (_entries(self.low, "-∞"), _entries(self.high, "∞"))
        return " … ".join(side[0] if len(side) == 1 else f"({', '.join(side)})" for side in sides)

    def to_dict(self) -> dict[str, list[float | None]]:
        """The bounds for a log's metadata, which `carried_bounds` reads; None where a side is open."""
        return {
            f"action_{name}": [value if np.isfinite(value) else None for value in side]
            for name, side in (("low", self.low), ("high", self.high))
        }


@dataclass(frozen=True)
class Settings:
    """How rows become transitions.

    Attributes:
        reward_lag: rows between a transition and its reward.
        on_termination, on_truncation: what an episode's last row becomes.
        gap: a step of more than this many median steps of its trajectory cuts it; None: none does.
        cost: whether the column of rewards holds costs, so that a reward is minus its entry.
        drop_duplicates: whether rows of one trajectory and time that agree in every column in use count once.
        drop_incomplete: whether rows with an empty entry are left out, and the log is cut there.
        action_bounds: what actions are cut to; None: they stay as they are logged.
    """

    reward_lag: int = 0
    on_termination: OnTermination = "restart"
    on_truncation: OnTruncation = "keep"
    gap: float | None = GAP
    cost: bool = False
    drop_duplicates: bool = False
    drop_incomplete: bool = False
    action_bounds: ActionBounds | None = None


def check_settings(
    log: str,
    reward_lag: Any,
    on_termination: Any,
    on_truncation: Any,
    gap: Any,
    carried: Mapping[str, Any] | None = None,
    drop_duplicates: Any = False,
    drop_incomplete: Any = False,
    action_bounds: Any = None,
) -> Settings:
    """The settings: the caller's choice, else what the log carries, else restart and keep."""
    if isinstance(reward_lag, bool) or not isinstance(reward_lag, int) or reward_lag not in (0, 1):
        raise InputError(f"reward_lag must be 0 or 1. Got {reward_lag!r}; shift the reward column yourself for more.")
    chosen: dict[str, Any] = {}
    for name, given, allowed, default in (
        ("on_termination", on_termination, get_args(OnTermination), "restart"),
        ("on_truncation", on_truncation, get_args(OnTruncation), "keep"),
    ):
        where, value = ("", given) if given is not None else (f"{log}: metadata ", (carried or {}).get(name, default))
        if not isinstance(value, str) or value not in allowed:
            raise InputError(f"{where}{name} must be one of {', '.join(allowed)}. Got {value!r}.")
        chosen[name] = value
    factor = None if gap is None else checks.number("gap", gap, low=1.0)
    drops = {"drop_duplicates": drop_duplicates, "drop_incomplete": drop_incomplete}
    for name, drop in drops.items():
        if not isinstance(drop, bool):
            raise InputError(f"{name} must be True or False. Got {drop!r}.")
    return Settings(reward_lag, **chosen, gap=factor, **drops, action_bounds=check_bounds(action_bounds))


def carried_settings(log: str, metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """The settings that a log written by `collect` carries in its schema's metadata."""
    raw = (metadata or {}).get(b"cesaro")
    if raw is None:
        return {}
    reason = ""
    try:
        settings = documents.parse(raw)
    except ValueError as error:
        settings, reason = None, f" ({error})"
    if not isinstance(settings, dict):
        raise InputError(
            f'{log}: metadata "cesaro" must be a JSON object. Got {raw[:60]!r}{reason}; remove or correct it.'
        )
    return settings


def check_bounds(given: Any) -> ActionBounds | None:
    """The bounds that a caller gave as `(low, high)`; None: there are none, or both sides are open."""
    if given is None:
        return None
    pair = _plain(given)
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise InputError(
            f"action_bounds must be a pair (low, high). Got {shortened(pair)}; write None for a side that is open."
        )
    return _bounds(pair[0], pair[1], _LOW, _HIGH)


def carried_bounds(log: str, metadata: Mapping[str, Any]) -> ActionBounds | None:
    """The bounds of its actions that a log carries in its metadata; None: it carries none."""
    low, high = "action_low", "action_high"
    return _bounds(metadata.get(low), metadata.get(high), f"{log}: metadata {low}", f"{log}: metadata {high}")


def bounds_of(low: Any, high: Any) -> ActionBounds | None:
    """The bounds of an environment or a policy; None: neither side is known."""
    return _bounds(low, high, "low", "high")


def _bounds(low: Any, high: Any, low_name: str | Wording, high_name: str | Wording) -> ActionBounds | None:
    lows, highs = _side(low_name, low, -np.inf), _side(high_name, high, np.inf)
    width = max(len(lows), len(highs))
    if not {len(lows), len(highs)} <= {1, width}:
        raise InputError.of(
            "{low} and {high} must have one number for all dimensions of the action, or one per dimension. Got {lows} and "
            "{highs}; correct one of them.",
            low=low_name,
            high=high_name,
            lows=str(len(lows)),
            highs=str(len(highs)),
        )
    lows, highs = (side * width if len(side) == 1 else side for side in (lows, highs))
    for dimension, (least, largest) in enumerate(zip(lows, highs)):
        if least > largest:
            raise InputError.of(
                "{low} must be at most {high}. Got {least} and {largest}{where}; exchange or correct them.",
                low=low_name,
                high=high_name,
                least=f"{least:g}",
                largest=f"{largest:g}",
                where=f" in dimension {dimension}" if width > 1 else "",
            )
    return None if np.isinf(lows).all() and np.isinf(highs).all() else ActionBounds(lows, highs)


def _plain(given: Any) -> Any:
    return given.tolist() if isinstance(given, np.ndarray) else given


def _side(name: str | Wording, given: Any, opened: float) -> tuple[float, ...]:
    side = _plain(given)
    entries = side if isinstance(side, list | tuple) else [side]
    numbers = tuple(opened if entry is None else _number(entry) for entry in entries)
    if not numbers or any(np.isnan(number) or number == -opened for number in numbers):
        raise InputError.of(
            "{name} must be a number, or one per dimension of the action. Got {given}; {open} leaves a side open.",
            name=name,
            given=shortened(side),
            open=Wording("None", "none"),
        )
    return numbers


def _number(entry: Any) -> float:
    """The entry as a float; NaN where it is no number."""
    if isinstance(entry, bool | str | bytes):
        return np.nan
    try:
        return float(entry)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _entries(side: Sequence[float], opened: str) -> list[str]:
    """The numbers of one side as text; one text where all dimensions are alike."""
    return [f"{value:.12g}" if np.isfinite(value) else opened for value in (side if len(set(side)) > 1 else side[:1])]


def reject_width(log: str, bounds: ActionBounds, width: int) -> None:
    """Refuse bounds that do not fit actions of so many dimensions."""
    if not bounds.fit(width):
        raise InputError.of(
            "{log}: {bounds} must have one number for all dimensions of the action, or one per dimension. Got "
            "{count} for {width}; {give} as many as the action has.",
            log=log,
            bounds=BOUNDS,
            count=str(len(bounds.low)),
            width=f"{width} dimension{'' if width == 1 else 's'}",
        )
