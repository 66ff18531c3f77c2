"""Roles that the names of columns suggest, whatever their case and separators."""

import re
from collections.abc import Sequence

from cesaro.data.roles import SEPARATORS, folded


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NUMBERED = ("id", "uuid", "key", "no", "nr", "number", "num", "name")
# A code may stand for anything, such as a command: it tells trajectories apart only behind what does.
_CODE = "code"
# What tells trajectories apart, and what may as well be a kind of thing that a policy sees.
_SURE_IDS = _listed("user customer session account subject player trajectory episode run participant agent")
_IDS = _SURE_IDS + _listed(
    """store shop client house home building room machine device patient unit site sensor vehicle server robot truck line plant
    member meter pump location ward bay"""
)
# The number of one of these is a time.
_MOMENTS = _listed("day date time step tick second minute hour week month quarter year")
# What orders rows.
TIMES = _listed(
    """time timestamp date datetime step steps day days tick seq sequence period epoch round ts t timestep stepindex stepid
    seconds minutes hours index idx row rownumber when created createdat clock"""
)
# What repeats as the calendar does, and tells no trajectories apart; it orders rows only where it counts on.
CALENDAR = _listed("weekday dayofweek dow week month hour hourofday timeofday holiday season quarter weekend daytype")
# What may hold the names of weekdays where it is text.
DAYS = _listed("day days date dates")
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


def words(name: str) -> list[str]:
    """The words of a name: `storeId` and `store_id` have two."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word.casefold() for word in SEPARATORS.split(parted) if word]


def means(name: str, known: tuple[str, ...]) -> bool:
    """Whether a name, its first or its last word is one of the known ones.

    Example:
        >>> from cesaro.inspection.names import TIMES, means
        >>> [name for name in ("time_s", "log time", "wind_ms") if means(name, TIMES)]
        ['time_s', 'log time']
    """
    return folded(name) in known or bool(set(words(name)[:1] + words(name)[-1:]) & set(known))


def sounds_like_cost(name: str) -> bool:
    """Whether one of the words of a name is that of a cost: `op_cost_ct`, `totalCost`, `Betriebskosten`.

    Example:
        >>> from cesaro.inspection.names import sounds_like_cost
        >>> [sounds_like_cost(name) for name in ("op_cost_ct", "Kosten", "costume")]
        [True, True, False]
    """
    parts = re.findall(r"[^\W\d_]+", " ".join(words(name)))
    return any(word in COSTS or word.endswith("kosten") for word in parts)


def is_id(name: str) -> bool:
    """Whether a name is that of ids: `store`, `store_id`, `id`, but not `store_size`; `store_code`, but not `gate_code`.

    Example:
        >>> from cesaro.inspection.names import is_id
        >>> [name for name in ("store", "storeId", "store_code", "store_size", "gate_code", "day_no") if is_id(name)]
        ['store', 'storeId', 'store_code']
    """
    return _is_id(name, _IDS)


def is_surely_id(name: str) -> bool:
    """Whether a name is that of ids and of nothing else: `store_id` and `user`, but not `store`, which may be a kind of store.

    Example:
        >>> from cesaro.inspection.names import is_surely_id
        >>> [name for name in ("store", "store_id", "user", "patient", "patientNo") if is_surely_id(name)]
        ['store_id', 'user', 'patientNo']
    """
    return _is_id(name, _SURE_IDS) or (is_id(name) and words(name)[-1] in (*_NUMBERED, _CODE))


def _is_id(name: str, known: tuple[str, ...]) -> bool:
    parts = words(name)
    if len(parts) > 1 and parts[-1] == _CODE:
        return parts[-2] in known
    while len(parts) > 1 and parts[-1] in _NUMBERED:
        parts.pop()
        if parts[-1] not in known:
            return parts[-1] not in _MOMENTS
    return bool(parts) and (parts[-1] in known or parts[-1] in _NUMBERED[:3] or folded(name) in known)


def by_name(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Columns of these names, whatever their case; first those whose whole name it is."""
    wanted = tuple(map(folded, known))
    whole = [name for name in names if folded(name) in wanted]
    whole.sort(key=lambda name: wanted.index(folded(name)))
    rest = [name for name in names if name not in whole and means(name, wanted)]
    rest.sort(key=lambda name: next(place for place, word in enumerate(wanted) if means(name, (word,))))
    return whole + rest


def named_costs(names: Sequence[str]) -> list[str]:
    """Columns whose name speaks of a cost; last those where the word stands between others."""
    outer = by_name(names, COSTS)
    return outer + [name for name in names if name not in outer and sounds_like_cost(name)]


def numbered(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Columns `obs_0`, `obs_1`, …, in order."""
    for prefix in known:
        found = {name: name[len(prefix) + 1 :] for name in names if name.casefold().startswith(f"{prefix}_")}
        ending = [name for name, end in found.items() if end.isdigit()]
        if len(ending) > 1:
            return sorted(ending, key=lambda name: int(found[name]))
    return []


def is_next(name: str, names: Sequence[str]) -> bool:
    """Whether a column holds what another one is on the next row, by its name."""
    return any(folded(name) == folded(f"next{other}") for other in names if other != name)
