"""The settings that say how rows become transitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cesaro import checks, documents
from cesaro.data.bounds import ActionBounds, check_bounds
from cesaro.errors import InputError

OnTermination = Literal["restart", "keep", "drop"]
OnTruncation = Literal["keep", "restart", "drop"]
GAP = 1.5


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
    """The caller's choice, else what the log carries, else restart and keep."""
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
    """What a log written by `collect` says about itself in its schema's metadata."""
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
