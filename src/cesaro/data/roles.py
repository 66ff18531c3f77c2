"""Which column plays which part, and as what it is read.

`find_roles` takes columns that are given by name, or finds them by a usual name where there is no doubt; `describe` decides from
the columns' types whether they hold numbers or labels.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from cesaro.data.columns import basic_type, is_list, is_number, is_text, kind_argument
from cesaro.data.settings import BOUNDS, Settings
from cesaro.data.values import Form
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence, Wording, argument, nearest, option, visible

Given = str | Sequence[str] | Literal[False] | None
Kind = Literal["number", "category"]

# Names that stand for a role where the caller gives none. Where they do not suffice, case, spaces, underscores and
# hyphens do not count.
STATES = ("observation", "observations", "obs", "state", "states")
DEFAULTS: dict[str, tuple[str, ...]] = {
    "observation": STATES,
    "action": ("action", "actions"),
    "reward": ("reward", "rewards"),
    "next_observation": tuple(f"next_{name}" for name in STATES),
    "trajectory": ("trajectory", "trajectory_id", "episode", "episode_id"),
    "time": ("time", "timestamp", "step"),
    "terminated": ("terminated", "terminations", "terminal", "terminals"),
    "truncated": ("truncated", "truncations", "timeout", "timeouts"),
    "available": ("available",),
}
# The column that `collect` logs beside the action: what the policy chose, before the environment's bounds cut it. It has no role.
CHOSEN = "chosen_action"
PREFIXED = ("observation", "action", "next_observation")
# Names that could mean something else: said, never taken.
DONE = ("done", "dones")
WEIGHTS = ("weight", "weights")
SEPARATORS = re.compile(r"[ \u00a0_\-.]+")


def is_chosen(name: str, names: Sequence[str]) -> bool:
    """Whether a column is the one that `collect` logs beside the action."""
    return name == CHOSEN and "action" in names


@dataclass(frozen=True)
class RoleColumns:
    """The columns of one role and how they were named: one, by a prefix (the entries of one vector), or as a list."""

    columns: tuple[str, ...]
    how: Literal["single", "prefixed", "several"] = "single"


@dataclass(frozen=True)
class Roles:
    """The columns of every role; None where the log has none."""

    observation: RoleColumns
    action: RoleColumns
    reward: str
    next_observation: RoleColumns | None = None
    trajectory: str | None = None
    time: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    weight: str | None = None
    available: RoleColumns | None = None

    def items(self) -> list[tuple[str, tuple[str, ...]]]:
        """Role and columns of every role that the log has."""
        found = []
        for role, value in vars(self).items():
            if value is not None:
                found.append((role, value.columns if isinstance(value, RoleColumns) else (value,)))
        return found

    @property
    def structural(self) -> list[str]:
        """The columns that say which rows belong together, and in which order; one may have two roles."""
        columns = (self.trajectory, self.time, self.terminated, self.truncated)
        return [column for column in columns if column is not None]

    def columns(self) -> list[str]:
        """Every column in use, once."""
        return list(dict.fromkeys(column for _, columns in self.items() for column in columns))


def find_roles(log: str, names: Sequence[str], given: Mapping[str, Given]) -> tuple[Roles, list[str]]:
    """The roles of a log with these columns, and sentences on columns that were left out on purpose."""
    return _Finder(log, tuple(names), given).find()


def given_columns(log: str, names: Sequence[str], given: Mapping[str, Given]) -> dict[str, tuple[str, ...]]:
    """The columns of those roles that were given, each of which the log has."""
    finder = _Finder(log, tuple(names), given)
    return {
        role: finder._given(role).columns for role, value in given.items() if value is not None and value is not False
    }


class _Finder:
    """Finds the columns of all roles among names, some of which were given.

    Attributes:
        taken: columns that have a role, and which.
    """

    def __init__(self, log: str, names: tuple[str, ...], given: Mapping[str, Given]) -> None:
        self.log, self.names, self.given = log, names, given
        self.taken: dict[str, str] = {}
        self._folds = False  # whether case and separators of usual names do not count
        for role, value in given.items():
            if value is not None and value is not False:
                self._claim(role, self._given(role))

    def find(self) -> tuple[Roles, list[str]]:
        observation = self._chosen("observation")
        action = self._chosen("action")
        reward = self._single("reward" if self.given.get("cost") is None else "cost")
        if observation is None or action is None or reward is None:
            # Not before: a column `Time` has no role beside `state`, `action` and `reward`.
            self._folds = True
            observation = observation or self._chosen("observation")
            action = action or self._chosen("action")
            reward = reward or self._single("reward")
        if observation is None or action is None or reward is None:
            found = {"observation": observation, "action": action, "reward": reward}
            raise self._unknown([role for role, chosen in found.items() if chosen is None])
        self._claim("observation", observation)
        roles = Roles(
            observation,
            action,
            reward,
            self._next(observation),
            trajectory=self._single("trajectory"),
            time=self._single("time"),
            terminated=self._single("terminated"),
            truncated=self._single("truncated"),
            weight=self._single("weight"),
            available=self._available(),
        )
        self._check(roles)
        self._check_done(roles)
        notes: list[str] = [
            Sentence(
                'The column "{column}" was not used: {give} {weight} if rows should count by it.',
                column=name,
                give=GIVE,
                weight=argument("weight", name),
            )
            for name in self.names
            if name in WEIGHTS and self.given.get("weight") is None and name not in self.taken
        ]
        return roles, notes

    def _error(self, template: str, **fields: str | Wording) -> InputError:
        return InputError.of(template, log=self.log, **fields)

    def _claim(self, role: str, chosen: RoleColumns | None) -> None:
        for column in chosen.columns if chosen else ():
            self.taken[column] = role

    def _chosen(self, role: str) -> RoleColumns | None:
        if self.given.get(role) is False:
            return None
        if self.given.get(role) is not None:
            return self._given(role)
        return self._default(role, DEFAULTS.get(role, ()))

    def _single(self, role: str) -> str | None:
        chosen = self._chosen(role)
        if chosen is None:
            return None
        if len(chosen.columns) > 1:
            raise InputError(
                f"{self.log}: {role} must be one column. Got {', '.join(chosen.columns)}; name the one that holds it."
            )
        return chosen.columns[0]

    def _given(self, role: str) -> RoleColumns:
        value = self.given[role]
        if isinstance(value, str):
            if value in self.names:
                return RoleColumns((value,))
            if value.endswith("*"):
                return self._prefixed(role, value)
            return RoleColumns((self._known(role, value),))
        if not isinstance(value, Sequence) or not value or not all(isinstance(name, str) for name in value):
            raise InputError(
                f'{role} must be a column name, a list of names or a prefix such as "obs_*". Got {value!r}.'
            )
        columns = tuple(self._known(role, name) for name in value)
        repeated = {name for name in columns if columns.count(name) > 1}
        if repeated:
            raise InputError(f'{role} must name each column once. Got "{sorted(repeated)[0]}" twice; remove one.')
        return RoleColumns(columns, "several" if len(columns) > 1 else "single")

    def _known(self, role: str, name: str) -> str:
        if name not in self.names:
            raise self._error(
                '{log} must have the column "{column}" that {role} names. Got {names}; {instead}',
                column=name,
                role=argument(role),
                names=_listed(self.names),
                instead=self._instead(role, name),
            )
        return name

    def _instead(self, role: str, name: str) -> str:
        parts = [part.strip() for part in name.split(",")]
        if len(parts) > 1 and all(part in self.names for part in parts):
            listed = ", ".join(f'"{part}"' for part in parts)
            repeated = " ".join(option(role, part) for part in parts)
            return Sentence("{all}.", all=Wording(f"pass {role}=[{listed}]", f"repeat the option: {repeated}"))
        close = nearest(name, self.names)
        return f'did you mean "{close}"?' if close else "name one of these."

    def _prefixed(self, role: str, pattern: str) -> RoleColumns:
        prefix = pattern[:-1]
        found = {name: name[len(prefix) :] for name in self.names if name.startswith(prefix) and name != prefix}
        numbered = [name for name, end in found.items() if _is_index(end)]
        if not found:
            raise self._error(
                '{log} must have columns that begin with "{prefix}", as {pattern} says. Got {names}; check the prefix.',
                prefix=prefix,
                pattern=argument(role, pattern),
                names=_listed(self.names),
            )
        if numbered and len(numbered) < len(found):
            other = next(name for name in found if name not in numbered)
            raise self._error(
                '{log}: {pattern} must match numbered columns or named ones, not both. Got "{one}" and "{other}"; list the '
                "columns instead.",
                pattern=argument(role, pattern),
                one=numbered[0],
                other=other,
            )
        if numbered:
            return self._numbered(role, prefix, found)
        return RoleColumns(tuple(found), "prefixed")

    def _numbered(self, role: str, prefix: str, found: Mapping[str, str]) -> RoleColumns:
        """Columns in the order of their numbers, which must have no hole."""
        columns = sorted(found, key=lambda name: int(found[name]))
        numbers = [int(found[name]) for name in columns]
        start = numbers[0]
        for position, number in enumerate(numbers):
            if start not in (0, 1) or number != start + position:
                raise InputError(
                    f'{self.log}: the columns "{prefix}…" of {role} must be numbered from 0 without a hole. '
                    f'Got "{columns[position]}" in place {position}; add or list the columns.'
                )
        return RoleColumns(tuple(columns), "prefixed")

    def _default(self, role: str, candidates: Sequence[str]) -> RoleColumns | None:
        free = [name for name in self.names if name not in self.taken]
        if self._folds:
            known = set(map(folded, candidates))
            found = [(name, RoleColumns((name,))) for name in free if folded(name) in known]
        else:
            found = [(name, RoleColumns((name,))) for name in candidates if name in free]
        if role in PREFIXED:
            for name in candidates:
                prefix = f"{name}_"
                ends = {n: n[len(prefix) :] for n in free if n.startswith(prefix) and _is_index(n[len(prefix) :])}
                if ends:
                    found.append((f"{prefix}*", self._numbered(role, prefix, ends)))
        if len(found) > 1:
            raise self._error(
                "{log}: {role} must be clear from the column names. Got {names}; {give} {first} or the other.",
                role=role,
                names=" and ".join(f'"{name}"' for name, _ in found),
                first=argument(role, found[0][0]),
            )
        return found[0][1] if found else None

    def _next(self, observation: RoleColumns) -> RoleColumns | None:
        """The columns that are given, else `next_` before every observation column, else a usual name where that is no guess."""
        given = self.given.get("next_observation")
        if given is not None:
            return self._chosen("next_observation")
        wanted = tuple(self._next_name(column) for column in observation.columns)
        there = [column for column in wanted if column in self.names and column not in self.taken]
        if len(there) == len(wanted):
            return RoleColumns(wanted, observation.how)
        if there:
            lost = next(column for column in wanted if column not in there)
            raise self._error(
                '{log} must have a next column for every observation column, or for none. Got "{there}" but no "{lost}"; add '
                "it, or {give} {next_observation}.",
                there=there[0],
                lost=lost,
                next_observation=Wording(
                    "next_observation= (False: take the next row)",
                    "--next-observation, or --ignore next_observation to take the next row",
                ),
            )
        found = self._default("next_observation", DEFAULTS["next_observation"])
        if found is not None and self.given.get("observation") is not None:
            raise self._error(
                '{log}: next_observation must be given where observation is. Got the column "{column}"; pass its name, or '
                "{ignored} to take the next row.",
                column=found.columns[0],
                ignored=ignored(["next_observation"]),
            )
        return found

    def _next_name(self, column: str) -> str:
        name = f"next_{column}"
        if self._folds and name not in self.names:
            return next((other for other in self.names if folded(other) == folded(name)), name)
        return name

    def _available(self) -> RoleColumns | None:
        chosen = self._chosen("available")
        flags = [name for name in self.names if name.startswith("available_") and name not in self.taken]
        if self.given.get("available") is not None or not flags:
            return chosen
        if chosen is not None:
            raise self._error(
                '{log}: available must be clear from the column names. Got "{one}" and "{other}"; {give} {column} or '
                "{prefix}.",
                one=chosen.columns[0],
                other=flags[0],
                column=argument("available", "available"),
                prefix=argument("available", "available_*"),
            )
        return RoleColumns(tuple(flags), "prefixed")

    def _check(self, roles: Roles) -> None:
        if roles.next_observation is not None:
            observed, then = roles.observation.columns, roles.next_observation.columns
            if len(observed) != len(then):
                raise InputError(
                    f"{self.log}: next_observation must have the columns of observation. Got {len(then)} against "
                    f"{len(observed)}; name the columns of both in the same order."
                )
            twice = set(observed) & set(then)
            if twice:
                raise InputError(
                    f"{self.log}: observation and next_observation must not share a column. "
                    f'Got "{sorted(twice)[0]}"; leave next_observation out to take the next row.'
                )
        if roles.terminated is not None and roles.terminated == roles.truncated:
            raise InputError(
                f'{self.log}: terminated and truncated must not be one column. Got "{roles.terminated}" for both; '
                "say which of the two it means."
            )

    def _check_done(self, roles: Roles) -> None:
        """A `done` column mixes both ways to end; only the caller knows which it means."""
        done = next((name for name in DONE if name in self.names and name not in roles.columns()), None)
        open_roles = [
            role
            for role in ("terminated", "truncated")
            if getattr(roles, role) is None and self.given.get(role) is None
        ]
        if done is not None and open_roles:
            raise self._error(
                '{log}: the column "{done}" may mean termination or a time limit, which are treated differently. Got no '
                "{roles}; {give} {one}, or {ignored} to leave it out.",
                done=done,
                roles=" and no ".join(open_roles),
                one=argument(open_roles[0], done),
                ignored=ignored(open_roles),
            )

    def _unknown(self, missing: Sequence[str]) -> InputError:
        call = ", ".join(argument(role, "…").python for role in missing)
        options = " ".join(option(role, "COLUMN") for role in missing)
        separator = next((s for s in (";", "\t", "|") if len(self.names) == 1 and s in self.names[0]), None)
        hint = f" (the one column name holds {separator!r}: write the file with commas)" if separator else ""
        for role in missing:
            taken = next((name for name in DEFAULTS[role] if name in self.taken), None)
            hint += f' ("{taken}" is already used as {self.taken[taken]})' if taken else ""
        return self._error(
            "{log}: the columns of {roles} must be known. Got {names}{hint}; {remedy}.",
            roles=" and ".join(missing),
            names=_listed(self.names),
            hint=hint,
            remedy=Wording(
                f"call read(…, {call}); cesaro.inspect proposes columns",
                f"give {options}; cesaro inspect proposes columns",
            ),
        )


def ignored(roles: Sequence[str]) -> Wording:
    """The arguments, or options, by which a caller says that the log has no columns of these roles."""
    return Wording(" and ".join(f"{role}=False" for role in roles), " ".join(option("ignore", role) for role in roles))


def _is_index(text: str) -> bool:
    return re.fullmatch(r"0|[1-9][0-9]{0,8}", text) is not None


def _listed(names: Sequence[str]) -> str:
    shown = visible(", ".join(f'"{name}"' for name in names[:20]))
    return f"the columns {shown}{f' and {len(names) - 20} more' if len(names) > 20 else ''}"


def check_kinds(log: str, kinds: Mapping[str, Any] | None, roles: Roles) -> dict[str, str]:
    """The kind of every column that `kinds` names by itself, or by "observation" or "action", for all columns of that role."""
    by_role = {"observation": roles.observation.columns, "action": roles.action.columns}
    known = [column for columns in by_role.values() for column in columns]
    result: dict[str, str] = {}
    if kinds is not None and not isinstance(kinds, Mapping):
        raise InputError(f'kinds must map columns to "number" or "category". Got {kinds!r}.')
    for key, kind in (kinds or {}).items():
        if kind not in ("number", "category"):
            raise InputError(f'kinds of "{key}" must be "number" or "category". Got {kind!r}; choose one of the two.')
        columns = (key,) if key in known else by_role.get(key, ())
        if not columns:
            raise InputError.of(
                '{log}: {kinds} must name columns of the observation or the action. Got "{key}"; choose among {known}.',
                log=log,
                kinds=Wording("kinds", "--kind"),
                key=key,
                known=", ".join(known[:20]),
            )
        result.update({column: str(kind) for column in columns})
    return result


def folded(name: str) -> str:
    """The name in small letters, without spaces, underscores, hyphens and points.

    Example:
        >>> from cesaro.data.roles import folded
        >>> folded("Time_Stamp "), folded("timeStamp")
        ('timestamp', 'timestamp')
    """
    return SEPARATORS.sub("", name).casefold()


class SchemaRole(NamedTuple):
    """The columns of one role; `form` and `kinds` (one per column) are set for observations and actions."""

    columns: tuple[str, ...]
    form: Form | None = None
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class Schema:
    """Role → columns, form and kinds, and how rows become transitions."""

    roles: Mapping[str, SchemaRole]
    settings: Settings

    @property
    def observation(self) -> SchemaRole:
        return self.roles["observation"]

    @property
    def action(self) -> SchemaRole:
        return self.roles["action"]

    def __repr__(self) -> str:
        lines = []
        for name, role in self.roles.items():
            shown = ", ".join(role.columns[:6]) + (f", … ({len(role.columns)})" if len(role.columns) > 6 else "")
            kinds = role.kinds[0] if len(set(role.kinds)) == 1 else ", ".join(role.kinds[:6])
            lines.append(f"  {name:<16} {shown}" + (f"  ({role.form}: {kinds})" if role.form else ""))
        lines += [f"  {name:<16} {value}" for name, value in vars(self.settings).items()]
        return "Schema(\n" + "\n".join(lines) + "\n)"


def describe(log: str, roles: Roles, types: pa.Schema, kinds: Mapping[str, str], settings: Settings) -> Schema:
    """Decide form and kinds of observation and action, from the columns' types alone."""
    action = _role(log, "action", roles.action, types, kinds)
    if action.form == "named":
        if "category" in action.kinds:
            column = action.columns[action.kinds.index("category")]
            raise InputError(
                f"{log}: several action columns must all hold numbers. "
                f'Got labels in "{column}"; join the action columns into one column of labels.'
            )
        action = action._replace(form="vector")
    if settings.action_bounds is not None and "category" in action.kinds:
        raise InputError.of(
            '{log}: {bounds} must come with actions that are numbers. Got labels in "{column}"; leave them out, or {give} '
            "{number} if these are numbers.",
            log=log,
            bounds=BOUNDS,
            column=action.columns[0],
            number=kind_argument(action.columns[0], "number"),
        )
    found = {role: SchemaRole(columns) for role, columns in roles.items()}
    found["observation"] = _role(log, "observation", roles.observation, types, kinds)
    found["action"] = action
    return Schema(found, settings)


def _role(log: str, role: str, chosen: RoleColumns, types: pa.Schema, kinds: Mapping[str, str]) -> SchemaRole:
    lone = len(chosen.columns) == 1
    found: list[Kind] = []
    vector = False
    for column in chosen.columns:
        kind = basic_type(types.field(column).type)
        asked = kinds.get(column)
        vector = is_list(kind)
        if vector:
            if asked == "category" and not lone:
                raise InputError(
                    f'{log}: kinds of "{column}" must be "number", because it holds lists. Got "category"; '
                    "split it into one column per entry."
                )
            found.append("category" if asked == "category" else "number")
            continue
        found.append(_kind(log, role, column, types.field(column).type, lone, asked, chosen.how))
    if lone and (not vector or found[0] == "category"):
        form: Form = "vector" if chosen.how == "prefixed" and found[0] == "number" else "lone"
    elif lone or (chosen.how == "prefixed" and set(found) == {"number"}):
        form = "vector"
    else:
        form = "named"
    return SchemaRole(chosen.columns, form, tuple(found))


def _kind(log: str, role: str, column: str, kind: pa.DataType, lone: bool, asked: str | None, how: str) -> Kind:
    basic = basic_type(kind)
    labels = is_text(basic) or pa.types.is_boolean(basic)
    if not (labels or is_number(basic) or pa.types.is_null(basic)):
        if pa.types.is_temporal(basic):
            remedy = "turn the date or time into numbers or text first, for example into the hour"
        else:
            remedy = "flatten it into columns of numbers or text"
        raise InputError(
            f'{log}: column "{column}" of {role} must hold numbers, text, true/false or lists of numbers. '
            f"Got type {kind}; {remedy}."
        )
    if asked is not None:
        return "category" if asked == "category" else "number"
    if lone and how == "prefixed" and pa.types.is_integer(basic):
        raise ambiguous(log, column, "the one column of its prefix, of integers")
    if labels or pa.types.is_dictionary(kind) or (lone and pa.types.is_integer(basic)):
        return "category"
    return "number"


def ambiguous(log: str, column: str, got: str) -> InputError:
    """The error of a column that may hold labels or numbers."""
    return InputError.of(
        '{log}: column "{column}" must be clear about its kind. Got {got}; {give} {category} for labels or {number} for a '
        "number.",
        log=log,
        column=column,
        got=got,
        category=kind_argument(column, "category"),
        number=kind_argument(column, "number"),
    )
