"""What the names of columns suggest, whatever their case and separators."""

import re


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SEPARATORS = re.compile(r"[ \u00a0_\-.]+")
_NUMBERED = ("id", "uuid", "key", "no", "nr", "number", "num", "name")
# A code may stand for anything, such as a command: it tells trajectories apart only behind what does.
_CODE = "code"
# What tells trajectories apart.
_IDS = _listed(
    """store shop user customer client house home building room machine device session patient agent unit site sensor vehicle
    server account subject player trajectory episode run robot truck line plant member participant meter pump location"""
)
# What orders rows.
TIMES = _listed(
    """time timestamp date datetime step steps day days tick seq sequence period epoch round ts t timestep stepindex stepid
    seconds minutes hours index idx row rownumber when created createdat clock"""
)
# What repeats as the calendar does, and tells no trajectories apart; it orders rows only where it counts on.
CALENDAR = _listed("weekday dayofweek dow week month hour hourofday timeofday holiday season quarter weekend daytype")
# What a row earned, or cost.
REWARDS = _listed(
    """profit return score payoff revenue margin gain utility click clicked clicks conversion converted outcome earnings income
    kpi objective sales yield benefit rating r"""
)
COSTS = _listed(
    """cost costs loss losses penalty penalties expense expenses fee fees kosten kost verlust ausgaben aufwand coût coûts cout
    couts perte dépense dépenses coste costes costo costos costi gasto gastos custo custos koszt koszty kostnad kostnader"""
)
# What was done, and how likely that was. The last ones are as often what is seen, and count where no other name does.
ACTIONS = _listed(
    """decision choice treatment arm control order ordered dose recommendation recommended command setpoint heater heating valve
    switch bid offer allocation assigned chosen act move intervention setting route dispatch button a u quantity item ad
    price"""
)
PROPENSITIES = _listed("propensity propensities prob probability logprob actionprob actionprobability pscore")


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
    """Whether a name, its first or its last word is one of the known ones.

    Example:
        >>> from cesaro.data.names import TIMES, means
        >>> [name for name in ("time_s", "log time", "wind_ms") if means(name, TIMES)]
        ['time_s', 'log time']
    """
    return folded(name) in known or bool(set(words(name)[:1] + words(name)[-1:]) & set(known))


def sounds_like_cost(name: str) -> bool:
    """Whether one of the words of a name is that of a cost: `op_cost_ct`, `totalCost`, `Betriebskosten`.

    Example:
        >>> from cesaro.data.names import sounds_like_cost
        >>> [sounds_like_cost(name) for name in ("op_cost_ct", "Kosten", "costume")]
        [True, True, False]
    """
    parts = re.findall(r"[^\W\d_]+", " ".join(words(name)))
    return any(word in COSTS or word.endswith("kosten") for word in parts)


def is_id(name: str) -> bool:
    """Whether a name is that of ids: `store`, `store_id`, `id`, but not `store_size`; `store_code`, but not `gate_code`.

    Example:
        >>> from cesaro.data.names import is_id
        >>> [name for name in ("store", "storeId", "store_code", "store_size", "gate_code") if is_id(name)]
        ['store', 'storeId', 'store_code']
    """
    parts = words(name)
    if len(parts) > 1 and parts[-1] == _CODE:
        return parts[-2] in _IDS
    while len(parts) > 1 and parts[-1] in _NUMBERED:
        parts.pop()
        if parts[-1] not in _IDS:
            return True
    return bool(parts) and (parts[-1] in _IDS or parts[-1] in _NUMBERED[:3] or folded(name) in _IDS)
