"""A proposal of how a log is read before anybody described it, and the draft from which it is made.

A `Proposal` has roles, kinds and settings with reasons, and what is in doubt. A `Draft` is the proposal so far, with all that is
known of the log: `roles` finds the columns, and `refinement` what the rows tell once these are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cesaro.data.log import Origin
from cesaro.data.roles import RoleColumns, Roles
from cesaro.data.settings import GAP, Settings
from cesaro.data.sources.arrays import TableSource
from cesaro.data.sources.base import Source
from cesaro.data.transitions import loaded
from cesaro.errors import CesaroError, InputError
from cesaro.inspection.profiles import Corrected, Profile, complete
from cesaro.policies import Policy, attach, parse
from cesaro.policies import policy as as_policy
from cesaro.text import for_command_line

# Whole numbers of at most so many levels may be labels.
FEW_LABELS = 30
# Columns with more empty entries than this part, as of dropped rows, are left out instead of the rows; those with as many as the
# second leave too few rows to try a policy on.
SPARSE, HARDLY_THERE = 0.05, 0.5
# Rows that a policy is tried on.
TRIED = 2_000
# Kinds of columns that hold numbers.
NUMBERS = ("number", "whole number", "true/false")
# Roles without which nobody knows what follows what, so that their columns must be complete.
STRUCTURAL = ("trajectory", "time", "terminated", "truncated")


@dataclass
class Proposal:
    """Arguments of `cesaro.read`, with reasons.

    Attributes:
        roles: role → columns; several for the observation.
        is_cost: whether the column of the reward holds costs, so that it is given as one.
        ignored: roles that a column has the usual name of, and must not take.
        kinds: "number" or "category" where the column's type alone would say the other.
        reasons: role or setting → why.
        left_out: column → why it has no role.
        doubts: sentences on what somebody should look at.
        obstacle: why the log cannot be read in this way as it is; empty where it can.
        unit: of time, such as "per day"; None where times do not tell.
    """

    roles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_cost: bool = False
    ignored: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    reward_lag: int = 0
    drop_duplicates: bool = False
    drop_incomplete: bool = False
    gap: float | None = GAP
    reasons: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    unit: str | None = None
    continuing: str = ""
    obstacle: str = ""

    def settings(self) -> Settings:
        return Settings(
            self.reward_lag,
            gap=self.gap,
            drop_duplicates=self.drop_duplicates,
            drop_incomplete=self.drop_incomplete,
        )

    def as_roles(self) -> Roles:
        """The roles as the reader takes them."""
        observation = self.roles["observation"]
        names = {role: columns[0] for role, columns in self.roles.items() if role not in ("observation", "action")}
        names.pop("next_observation", None)
        chosen = self.roles.get("next_observation")
        return Roles(
            role_columns(observation),
            role_columns(self.roles["action"]),
            next_observation=None if chosen is None else role_columns(chosen),
            **names,  # type: ignore[arg-type]
        )


def role_columns(columns: tuple[str, ...]) -> RoleColumns:
    """Columns of a role as the reader takes them: one, or several by name."""
    return RoleColumns(columns, "several" if len(columns) > 1 else "single")


class Draft:
    """A proposal in the making.

    Args:
        source: the log.
        read: some of its rows, with the corrections that columns need.
        profiles: what each column holds.
        policy: what will be evaluated.
        given: roles whose columns are known, also of a "cost"; all others follow from these.
        denied: roles that no column has.
        unused: columns that have no role.

    Attributes:
        every: the rows that were looked at.
        table: those of them that are complete in the columns without which nobody knows what follows what.
        panels: ids none of which has the same time twice, with that time.
        found: the proposal so far.
    """

    def __init__(
        self,
        source: Source,
        read: Corrected,
        profiles: Mapping[str, Profile],
        policy: str,
        given: Mapping[str, tuple[str, ...]],
        denied: Sequence[str],
        unused: Sequence[str],
    ) -> None:
        self.source, self.profiles, self.policy = source, profiles, policy
        self.read, self.every = read, read.table
        self.table = complete(self.every, [name for role in STRUCTURAL for name in given.get(role, ())])
        self.given, self.denied = {"reward" if role == "cost" else role: given[role] for role in given}, denied
        self.panels: dict[str, str] = {}
        self.found = Proposal(roles=dict(self.given), is_cost="cost" in given, drop_incomplete=True)
        self.found.reasons |= dict.fromkeys(self.given, "as you say")
        self.found.left_out |= dict.fromkeys(unused, "as you say")

    @property
    def free(self) -> list[str]:
        """Columns without a role or a reason to have none."""
        used = {column for columns in self.found.roles.values() for column in columns} | set(self.found.left_out)
        return [name for name in self.table.column_names if name not in used]

    def take(self, role: str, name: str, reason: str) -> None:
        """Give a role to a column."""
        self.found.roles[role] = (name,)
        self.found.reasons[role] = reason

    def others(self, action: str) -> list[str]:
        """All columns that a policy may see beside its action: those that are nearly always there, and no dates."""
        return [
            name
            for name in self.free
            if name != action
            and self.profiles[name].missing < HARDLY_THERE * self.profiles[name].rows
            and self.profiles[name].kind != "date"
        ]

    def trial(self, action: str, seen: Sequence[str]) -> CesaroError | None:
        """The error of the policy if it sees some columns of complete rows and acts by one; None: it works."""
        if self.tried_policy is None:
            return None
        if not seen:
            return InputError("there is nothing that it could see.")
        roles = Roles(role_columns(tuple(seen)), role_columns((action,)), reward=self.found.roles["reward"][0])
        rows = complete(self.table, roles.columns()).slice(0, TRIED)
        try:
            log = loaded(Origin(TableSource(self.source.name, rows), roles, {}, Settings(gap=None)))
            attach(self.tried_policy, log).sample(log.observations.plain(), np.random.default_rng(0))
        except CesaroError as error:
            return error
        return None

    def is_needed(self, name: str, seen: Sequence[str]) -> bool:
        """Whether the policy fails where it does not see a column, and does not where it sees it among others."""
        if len(self.found.roles["action"]) > 1:
            return False
        action = self.found.roles["action"][0]
        rest = [one for one in seen if one != name]
        return bool(rest) and self.trial(action, rest) is not None and self.trial(action, seen) is None

    def is_sparse(self, name: str) -> bool:
        """Whether leaving out the rows that have no entry would cost too many."""
        return self.profiles[name].missing > SPARSE * self.profiles[name].rows

    @cached_property
    def tried_policy(self) -> Policy | None:
        """The policy, where one was given that can be tried on rows."""
        if self.policy in ("logged", "uniform"):
            return None
        try:
            return as_policy(parse(self.policy)[1])
        except CesaroError as error:
            self.found.doubts.append(f"The policy could not be tried on the log: {for_command_line(error.message)}")
            return None
