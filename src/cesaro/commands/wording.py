"""Messages that name arguments of Python functions, in the words of the command line."""

import re
import shlex
from collections.abc import Callable

_ROLES = (
    *("observation", "action", "reward", "next_observation", "trajectory", "time", "terminated", "truncated"),
    *("weight", "available"),
)
_NAMES = "|".join((*_ROLES, "on_termination", "on_truncation"))


def _option(name: str, value: str = "") -> str:
    shown = "COLUMN" if value == "…" else shlex.quote(value) if value else ""
    return f"--{name.replace('_', '-')} {shown}".rstrip()


def _call(found: re.Match[str]) -> str:
    names = re.findall(rf'\b({_NAMES})="…"', found[1])
    return "give " + " ".join(_option(name, "…") for name in names)


def _repeated(found: re.Match[str]) -> str:
    columns = re.findall(r'"([^"]*)"', found[2])
    return "repeat the option: " + " ".join(_option(found[1], column) for column in columns)


def _ignored(found: re.Match[str]) -> str:
    return " ".join(f"--ignore {role}" for role in re.findall(r"\w+(?==False)", found[0]))


# In this order: what is more special comes first.
_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\bcall read\(…, (.*)\)", _call),
    (rf"\bpass ({_NAMES})=\[(.*)\]", _repeated),
    (
        r"\bnext_observation= \(False: take the next row\)",
        "--next-observation, or --ignore next_observation to take the next row",
    ),
    (rf"\b(?:{_NAMES})=False(?: and (?:{_NAMES})=False)*", _ignored),
    (rf'\b({_NAMES})="([^"]*)"', lambda found: _option(found[1], found[2])),
    (r'\bkinds=\{"([^"]*)": "(category|number)"\}', lambda found: _option("kind", f"{found[1]}={found[2]}")),
    (r"\bgive trajectory=(?=\W|$)", "give --trajectory COLUMN"),
    (rf"\b({_NAMES})=(?=[ ,;.]|$)", lambda found: _option(found[1])),
    (r"\bkinds=(?=[ ,;.]|$)", "--kind"),
    (r"\bpass (?=--)", "give "),
)


def command_line(message: str) -> str:
    """The message with options where it names arguments of `cesaro.read`; any other message as it is."""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return message
