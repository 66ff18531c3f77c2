"""What the names of columns suggest, whatever their case and separators."""

import re

_SEPARATORS = re.compile(r"[ \u00a0_\-.]+")
# Words that a name may end with, or be, where a column tells trajectories apart or orders rows.
IDS = (
    *("id", "store", "shop", "user", "customer", "client", "house", "home", "building", "room", "machine", "device", "session"),
    *("patient", "agent", "unit", "site", "sensor", "vehicle", "server", "account", "subject", "player", "trajectory", "episode"),
    *("run", "uuid", "key", "robot", "truck", "line", "plant", "member", "participant", "meter", "pump", "location"),
)
TIMES = (
    *("time", "timestamp", "date", "datetime", "step", "day", "tick", "seq", "sequence", "period", "epoch", "round", "ts", "t"),
    *("timestep", "stepindex", "seconds", "minutes", "hours", "days", "ms", "rownumber", "index", "when", "created", "createdat", "clock", "stepid", "steps"),
)
# What repeats like the calendar does, and neither orders rows nor tells trajectories apart.
CALENDAR = ("weekday", "dayofweek", "dow", "month", "hour", "hourofday", "holiday", "season", "quarter", "weekend", "daytype")

# What a row earned, or cost; what was done; and what tells how likely that was.
REWARDS = (
    *("profit", "return", "score", "payoff", "revenue", "margin", "gain", "utility", "click", "clicked", "clicks", "conversion"),
    *("converted", "outcome", "earnings", "income", "kpi", "objective", "sales", "yield", "benefit", "rating", "r"),
)
COSTS = ("cost", "costs", "loss", "losses", "penalty", "expense", "expenses")
ACTIONS = (
    *("decision", "choice", "treatment", "arm", "control", "order", "ordered", "quantity", "dose", "item", "recommendation"),
    *("recommended", "command", "setpoint", "heater", "heating", "valve", "switch", "bid", "price", "offer", "ad", "allocation"),
    *("assigned", "chosen", "act", "move", "intervention", "setting", "route", "dispatch", "button", "a", "u"),
)
PROPENSITIES = ("propensity", "propensities", "prob", "probability", "logprob", "actionprob", "actionprobability", "pscore")


def folded(name: str) -> str:
    """The name in small letters, without spaces, underscores, hyphens and points.

    Example:
        >>> from cesaro.data.names import folded
        >>> folded("Time_Stamp "), folded("timeStamp")
        ('timestamp', 'timestamp')
    """
    return _SEPARATORS.sub("", name).casefold()


def words(name: str) -> list[str]:
    """The words of a name: `storeId` and `store_id` have two."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word.casefold() for word in _SEPARATORS.split(parted) if word]


def means(name: str, known: tuple[str, ...]) -> bool:
    """Whether a name is one of the known ones, or its last or first word is."""
    parts = words(name)
    return folded(name) in known or bool(parts) and (parts[-1] in known or parts[0] in known)
