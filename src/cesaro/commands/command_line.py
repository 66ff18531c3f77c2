"""The command that repeats an answer: the options that were given, without those that say where it goes."""

import inspect
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from cesaro.text import shown_address

# They change where an answer goes or how it is computed, not what it is.
_ELSEWHERE = ("out", "force", "json", "quiet", "checkpoint", "engine", "address", "stream")


def repeating(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """`given` are the function's arguments; what has its default is left out, and credentials in addresses too."""
    words = ["cesaro", name]
    for parameter in inspect.signature(function).parameters.values():
        value = given[parameter.name]
        if parameter.name in _ELSEWHERE or value == parameter.default or value is None:
            continue
        if parameter.default is inspect.Parameter.empty and not isinstance(value, list):
            words.append(f"./{value}" if str(value).startswith("-") else str(value))  # else it would be an option
            continue
        option = f"--{parameter.name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value]:
            words += [option] if one is True else [option, str(one)]
    return shlex.join(shown_address(word) for word in words)
