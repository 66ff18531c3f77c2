"""`inspect`: a log in, a proposal of how to read it out, with what was seen and what is in doubt."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cesaro.data.notes import reject_empty
from cesaro.data.reader import check_outcome
from cesaro.data.roles import Given, given_columns
from cesaro.data.settings import GAP
from cesaro.data.sources.formats import open_source
from cesaro.inspection.evidence import looked_at
from cesaro.inspection.profiles import Profile, corrected, profile
from cesaro.inspection.proposal import Draft, Proposal
from cesaro.inspection.refinement import refine
from cesaro.inspection.roles import find_roles
from cesaro.text import option, shown_address, visible

SCHEMA = "cesaro-inspection/1"
_WIDTH = 26
# How settings are named, and what they do.
_SETTINGS = {
    "reward_lag": ("reward lag", "1 row"),
    "gap": ("gap", "never cut"),
    "drop_duplicates": ("duplicates", "counted once"),
    "drop_incomplete": ("incomplete rows", "left out"),
}
_ROLES = ("observation", "action", "reward", "next_observation", "trajectory", "time", "terminated", "truncated")


@dataclass(frozen=True)
class Inspection:
    """A log as it looks before anybody has described it.

    Attributes:
        name: the name of the log.
        rows: how many there are; None where only reading the whole log would tell.
        looked_at: how many rows were looked at.
        columns: what each holds.
        notes: sentences on how the file was read.
        proposal: roles, kinds and settings, with reasons, columns left out and doubts.
        path: the path that the log was opened by; None where it is a frame or arrays.
        policy: the policy that the command evaluates.
    """

    name: str
    rows: int | None
    looked_at: int
    columns: tuple[Profile, ...]
    notes: tuple[str, ...]
    proposal: Proposal
    path: str | None
    policy: str

    @property
    def doubts(self) -> tuple[str, ...]:
        """Doubts that somebody should look at before relying on an answer."""
        return tuple(self.proposal.doubts)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments to pass to `cesaro.read`."""
        found = self.proposal
        roles: dict[str, Any] = {
            role: list(columns) if len(columns) > 1 else columns[0] for role, columns in self._roles().items()
        }
        roles |= dict.fromkeys(found.ignored, False)
        more: dict[str, Any] = {}
        if found.kinds:
            more["kinds"] = dict(found.kinds)
        if found.reward_lag:
            more["reward_lag"] = found.reward_lag
        more |= {name: True for name in ("drop_duplicates", "drop_incomplete") if getattr(found, name)}
        if found.gap != GAP:
            more["gap"] = found.gap
        return roles | more

    def _roles(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role, in the order in which people name roles."""
        known = self.proposal.roles
        return {
            "cost" if role == "reward" and self.proposal.is_cost else role: known[role]
            for role in _ROLES
            if role in known
        }

    @property
    def command(self) -> str:
        """The `cesaro evaluate` command that reads the log in this way."""
        found = self.proposal
        words = ["cesaro", "evaluate", self.path or "LOG", "--policy", self.policy]
        for role, columns in self._roles().items():
            words += [word for column in columns for word in (f"--{role.replace('_', '-')}", column)]
        words += [word for role in found.ignored for word in ("--ignore", role)]
        words += [word for column, kind in found.kinds.items() for word in ("--kind", f"{column}={kind}")]
        if found.reward_lag:
            words += ["--reward-lag", str(found.reward_lag)]
        words += [option(name) for name in ("drop_duplicates", "drop_incomplete") if getattr(found, name)]
        if found.gap is None:
            words += ["--gap", "none"]
        if found.unit is not None:
            words += ["--unit", found.unit]
        return shlex.join(words)

    @property
    def python(self) -> str:
        """The same in Python."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        unit = "" if self.proposal.unit is None else f", unit={self.proposal.unit!r}"
        log = "log" if self.path is None else repr(self.path)
        return (
            f"import cesaro as cs\nlog = cs.read({log}, {given})\nprint(cs.evaluate(log, {self.policy!r}{unit}))"
        ).replace("read(log,", "read(frame,")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the schema's version."""
        found = self.proposal
        return {
            "schema": SCHEMA,
            "log": self.name,
            "rows": self.rows,
            "looked_at": self.looked_at,
            "columns": [column.to_dict() for column in self.columns],
            "notes": list(self.notes),
            "roles": {role: list(columns) for role, columns in self._roles().items()},
            "ignored": list(found.ignored),
            "kinds": dict(found.kinds),
            "reward_lag": found.reward_lag,
            "drop_duplicates": found.drop_duplicates,
            "drop_incomplete": found.drop_incomplete,
            "gap": found.gap,
            "unit": found.unit,
            "ends": found.continuing,
            "reasons": dict(found.reasons),
            "left_out": dict(found.left_out),
            "doubts": list(found.doubts),
            "obstacle": found.obstacle,
            "command": self.command,
            "python": self.python,
        }

    def __str__(self) -> str:
        rows = "rows" if self.rows is None else f"{self.rows:,} rows"
        some = "" if self.rows == self.looked_at else f", of which {self.looked_at:,} were looked at"
        lines = [f"{visible(self.name)}: {rows} of {len(self.columns)} columns{some}.", *map(visible, self.notes), ""]
        lines += self._table()
        lines += ["", "What it seems to be"]
        for role, columns in self._roles().items():
            lines.append(
                _entry(
                    role.replace("_", " "),
                    f"{_named(columns)}",
                    self.proposal.reasons.get("reward" if role == "cost" else role, ""),
                )
            )
        for name, reason in self.proposal.reasons.items():
            if name.startswith("kind of "):
                column = name.removeprefix("kind of ")
                lines.append(_entry("kind", f"{visible(column)} = {self.proposal.kinds.get(column, '')}", reason))
            elif name not in self.proposal.roles:
                lines.append(_entry(*_SETTINGS[name], reason))
        lines.append(_entry("ends", self.proposal.continuing, ""))
        if self.proposal.unit is not None:
            lines.append(_entry("unit", self.proposal.unit, "the usual time step"))
        for column, reason in self.proposal.left_out.items():
            lines.append(_entry("left out", visible(column), reason))
        if self.doubts:
            lines += ["", "What to look at", *(f"  - {visible(doubt)}" for doubt in self.doubts)]
        put = ", with your policy in place of logged" if self.policy == "logged" else ""
        is_first_doubt = self.proposal.obstacle in self.doubts[:1]
        if is_first_doubt:
            put = f', once the first point under "What to look at" is corrected (until then the command fails){put}'
        elif self.proposal.obstacle:
            lines += [
                "",
                "What the command below fails with until it is corrected",
                f"  ! {visible(self.proposal.obstacle)}",
            ]
        lines += ["", f"To evaluate, paste{put}", f"  {visible(self.command)}", "", "In Python"]
        lines += [f"  {visible(line)}" for line in self.python.splitlines()]
        return "\n".join(lines)

    def _table(self) -> list[str]:
        width = min(_WIDTH, max(len(visible(column.name)) for column in self.columns))
        lines = [f"  {'column':<{width}}  {'holds':<12}  {'levels':>8}  {'empty':>7}  {'shape':<12}  range or levels"]
        for column in self.columns:
            name = visible(column.name)
            name = name if len(name) <= width else name[: width - 1] + "…"
            levels = "" if column.levels is None else f"{column.levels:,}"
            if column.low is not None:
                seen = f"{column.low} … {column.high}"
            else:
                seen = ", ".join(column.common) + (", …" if (column.levels or 0) > len(column.common) > 0 else "")
            line = f"  {name:<{width}}  {column.kind:<12}  {levels:>8}  {column.missing or '':>7}  {column.shape:<12}  {seen}"
            lines.append(line.rstrip())
        return lines


def _entry(what: str, value: str, reason: str) -> str:
    return f"  {what:<16}  {value}{f' ({visible(reason)})' if reason else ''}"


def _named(columns: tuple[str, ...]) -> str:
    shown = ", ".join(map(visible, columns[:8]))
    return f"{shown}, … ({len(columns)})" if len(columns) > 8 else shown


def inspect(
    source: Any,
    *,
    policy: str = "logged",
    observation: Given = None,
    action: Given = None,
    reward: str | None = None,
    cost: str | None = None,
    trajectory: str | Literal[False] | None = None,
    time: str | Literal[False] | None = None,
    terminated: str | Literal[False] | None = None,
    truncated: str | Literal[False] | None = None,
    ignore: Sequence[str] = (),
) -> Inspection:
    """Look at a log and propose how to read it: roles, kinds, order, the row of the reward, columns to leave out.

    Names of columns are compared without regard to case, spaces and underscores. What names do not tell, held-out
    predictions do: rows are ordered by the columns by which state and action predict the next state best, and a reward
    belongs to the row that predicts it.

    Args:
        source: what `cesaro.read` takes: a path, a frame, a table or arrays.
        policy: the policy in the proposed command, which is tried on the log where no name says what the action is; "logged" is
            what the log did.
        observation: columns of which you know the role, as `cesaro.read` takes them, here and below; False: none has it. The
            rest of the proposal follows from these.
        action: likewise.
        reward: likewise.
        cost: likewise, in place of `reward`.
        trajectory: likewise.
        time: likewise.
        terminated: likewise.
        truncated: likewise.
        ignore: columns that have no role.

    Example:
        >>> import cesaro as cs
        >>> log = {"Time Stamp": range(8), "Level": [1.5, 3.0, 2.5, 2.0] * 2, "Switch": ["on", "off"] * 4}
        >>> log["Profit"] = [0, 2, 1, 1] * 2
        >>> seen = cs.inspect(log)
        >>> seen.arguments
        {'observation': 'Level', 'action': 'Switch', 'reward': 'Profit', 'time': 'Time Stamp'}
    """
    check_outcome(reward, cost)
    opened = open_source(source)
    asked: dict[str, Given] = {"observation": observation, "action": action, "reward": reward, "cost": cost}
    asked |= {"trajectory": trajectory, "time": time, "terminated": terminated, "truncated": truncated}
    asked |= {"ignore": list(ignore) or None}
    given = given_columns(opened.name, opened.names, asked)
    unused = given.pop("ignore", ())
    most = looked_at(opened)
    table = opened.excerpt(most)
    reject_empty(opened.name, len(table))
    read = corrected(opened, table, given)
    columns = tuple(profile(name, read.table[name]) for name in table.column_names)
    rows = opened.num_rows
    if rows is None and len(table) < most:
        rows = len(table)
    denied = [role for role, value in asked.items() if value is False]
    draft = Draft(opened, read, {column.name: column for column in columns}, policy, given, denied, unused)
    find_roles(draft)
    refine(draft)
    path = shown_address(os.fspath(source)) if isinstance(source, str | os.PathLike) else None
    return Inspection(opened.name, rows, len(table), columns, tuple(opened.notes), draft.found, path, policy)
