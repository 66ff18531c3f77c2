"""A proposal of how a log is read before anybody described it: roles, kinds and settings with reasons, and what is in doubt."""

from dataclasses import dataclass, field

from cesaro.data.roles import RoleColumns, Roles
from cesaro.data.settings import GAP, Settings


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
    return RoleColumns(columns, "several" if len(columns) > 1 else "single")
