"""The order of the rows of a log: the trajectory and the time by which state and action predict the next state best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from cesaro.data import Transitions
from cesaro.data.roles import Roles
from cesaro.inspection import evidence
from cesaro.inspection.prediction import LEVELS, Errors, Gain
from cesaro.inspection.profiles import Profile
from cesaro.inspection.proposal import Proposal, role_columns
from cesaro.text import percent


@dataclass(frozen=True)
class Ordering:
    """One way to order rows: its columns, and how well the next state is predicted by it and in the order of the file."""

    trajectory: str | None
    time: str | None
    repeated: bool
    after: Errors | None
    before: Errors | None
    log: Transitions

    @property
    def explained(self) -> float:
        return 0.0 if self.after is None else self.after.explained

    @property
    def gain(self) -> Gain | None:
        return None if self.after is None or self.before is None else Gain.of(self.before, self.after, paired=False)

    @cached_property
    def is_clear(self) -> bool:
        if self.after is None or self.before is None:
            return False
        return evidence.follow_better(self.before, self.after, self.log, 0, evidence.moves(self.log, 0))

    @property
    def words(self) -> str:
        if self.gain is None or not self.is_clear:
            return ""
        before, after = (percent(max(0.0, share)) for share in (self.gain.before, self.gain.after))
        return f"; in this order state and action predict {after} of the next row's state, in the order of the file {before}"


class Orderings:
    """All ways to order the rows of a log.

    Args:
        table: its rows, in the order of the file.
        found: what is known of it so far.
        given: roles whose columns are known.
        panels: ids none of which has the same time twice, with that time.
    """

    def __init__(
        self,
        table: pa.Table,
        found: Proposal,
        profiles: Mapping[str, Profile],
        given: Mapping[str, tuple[str, ...]],
        panels: Mapping[str, str],
    ) -> None:
        self.table, self.found, self.profiles, self.given, self.panels = table, found, profiles, given, panels

    def best(self, ids: Sequence[str], named: Sequence[str], times: Sequence[str]) -> Ordering | None:
        """The best order of the rows; None where they cannot be read in any."""
        found = self._best(named, times, None)
        if found is None or found.trajectory is None:
            # A column without the name of an id counts as one only if the others follow by it.
            others = [self._best([name], times, name) for name in ids if name not in named]
            clear = [
                one
                for one in others
                if one is not None and ((one.is_clear and not self._may_be_state(one)) or self._is_panel(one))
            ]
            found = max(clear, key=lambda one: one.explained, default=found)
        return found

    def _is_panel(self, order: Ordering) -> bool:
        """Whether rows follow each other in an order in which no trajectory has the same time twice."""
        if order.trajectory is None or order.time is None or self.panels.get(order.trajectory) != order.time:
            return False
        moving = evidence.moves(order.log, 0)
        return order.after is not None and bool(moving.any()) and evidence.follow(order.log, 0, moving)

    def _may_be_state(self, order: Ordering) -> bool:
        """Whether an order has no trajectory, or one that tells as much where it is seen."""
        name = order.trajectory
        if name is None or order.after is None:
            return True
        if (self.profiles[name].levels or 0) > LEVELS:
            return False
        kept = tuple(one for one in self.found.roles["observation"] if one != name)
        roles = replace(self.found.as_roles(), observation=role_columns(kept))
        seen = evidence.followed_if_seen(self.table, roles, self.found.kinds, self.found.settings(), name, 0)
        moving = evidence.moves(order.log, 0)
        return seen is not None and not evidence.follow_better(seen, order.after, order.log, 0, moving)

    def _best(self, ids: Sequence[str], times: Sequence[str], without: str | None) -> Ordering | None:
        """The ordering of rows that predicts next states best; `without`: a column that is no observation then."""
        roles = self.found.as_roles()
        if without is not None:
            kept = tuple(name for name in roles.observation.columns if name != without)
            if not kept:
                return None
            roles = replace(roles, observation=role_columns(kept))
        tried: list[Ordering] = []
        plain = None
        for time in times if "time" in self.given else (None, *times):
            for trajectory in ids if "trajectory" in self.given else (None, *ids):
                here = replace(roles, trajectory=trajectory, time=time)
                log, repeated = self._rows(here), False
                if log is None and time is not None:
                    log, repeated = self._rows(here, drop_duplicates=True), True
                if log is None:
                    continue
                errors = evidence.followed(log, 0) if roles.next_observation is None else None
                if trajectory is None and time is None:
                    plain = errors
                tried.append(Ordering(trajectory, time, repeated, errors, plain, log))
        if not tried:
            return None
        top = max(one.explained for one in tried)
        near = [one for one in tried if one.explained >= top - 0.02]
        return max(near, key=lambda one: (one.time is not None, one.trajectory is not None))

    def _rows(self, roles: Roles, *, drop_duplicates: bool = False) -> Transitions | None:
        settings = replace(self.found.settings(), drop_duplicates=drop_duplicates or self.found.drop_duplicates)
        return evidence.transitions(self.table, roles, self.found.kinds, settings)
