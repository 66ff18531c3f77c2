"""What a log was taken to be: role, columns, form and kinds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa

from cesaro.data import columns as convert
from cesaro.data.bounds import BOUNDS
from cesaro.data.roles import Chosen, Roles
from cesaro.data.settings import Settings
from cesaro.data.values import Form
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence

Kind = Literal["number", "category"]


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
        raise InputError(
            Sentence(
                '{log}: {bounds} must come with actions that are numbers. Got labels in "{column}"; leave them out, or {give} '
                "{number} if these are numbers.",
                log=log,
                bounds=BOUNDS,
                column=action.columns[0],
                give=GIVE,
                number=convert.kind_argument(action.columns[0], "number"),
            )
        )
    found = {role: SchemaRole(columns) for role, columns in roles.items()}
    found["observation"] = _role(log, "observation", roles.observation, types, kinds)
    found["action"] = action
    return Schema(found, settings)


def _role(log: str, role: str, chosen: Chosen, types: pa.Schema, kinds: Mapping[str, str]) -> SchemaRole:
    lone = len(chosen.columns) == 1
    found: list[Kind] = []
    vector = False
    for column in chosen.columns:
        kind = convert.basic_type(types.field(column).type)
        asked = kinds.get(column)
        vector = convert.is_list(kind)
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
    basic = convert.basic_type(kind)
    labels = convert.is_text(basic) or pa.types.is_boolean(basic)
    if not (labels or convert.is_number(basic) or pa.types.is_null(basic)):
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
    return InputError(
        Sentence(
            '{log}: column "{column}" must be clear about its kind. Got {got}; {give} {category} for labels or {number} for a '
            "number.",
            log=log,
            column=column,
            got=got,
            give=GIVE,
            category=convert.kind_argument(column, "category"),
            number=convert.kind_argument(column, "number"),
        )
    )
