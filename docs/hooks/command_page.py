"""The page of the command line, from the commands themselves: every command, argument and option with its help."""

from collections.abc import Iterator
from typing import Any

import typer

MARKER = "<!-- commands -->"


def commands_markdown() -> str:
    """Headings, usage lines and tables of options of every command, as Markdown."""
    from cesaro.cli import app

    return "\n".join(_lines("cesaro", typer.main.get_command(app)))


def command_names() -> list[str]:
    """Every command in full, such as `cesaro reproduce boyan`."""
    from cesaro.cli import app

    return [name for name, _ in _walk("cesaro", typer.main.get_command(app))]


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _walk(f"{name} {word}", inner)


def _lines(root: str, top: Any) -> Iterator[str]:
    for name, command in _walk(root, top):
        if not command.help:
            raise ValueError(f"The command '{name}' has no help; give its function a docstring.")
        yield from (f"## {name}", "", _text(command.help), "")
        groups = _groups(name, command)
        usage = name
        for entry in groups.pop("Arguments", []):
            usage += f" {entry.metavar or entry.name.upper()}"
            yield from (f"`{entry.metavar or entry.name.upper()}`: {_text(entry.help)}", "")
        if hasattr(command, "commands"):
            usage += " COMMAND"
        yield from ("```text", f"{usage} [OPTIONS]", "```", "")
        for title, entries in groups.items():
            if title != "Options":
                yield from (f"**{title}**", "")
            with_defaults = any(map(_default, entries))
            yield from (
                ("| option | meaning | default |", "|---|---|---|")
                if with_defaults
                else ("| option | meaning |", "|---|---|")
            )
            yield from (_row(entry, with_defaults) for entry in entries)
            yield ""


def _groups(name: str, command: Any) -> dict[str, list[Any]]:
    """Arguments and options by the panel that the help shows them in, in its order."""
    found: dict[str, list[Any]] = {}
    for entry in command.params:
        if entry.hidden:
            continue
        if not entry.help:
            raise ValueError(f"'{entry.name}' of the command '{name}' has no help; give it one.")
        is_argument = entry.param_type_name == "argument"
        found.setdefault("Arguments" if is_argument else entry.rich_help_panel or "Options", []).append(entry)
    return found


def _row(entry: Any, with_default: bool) -> str:
    value = "" if entry.is_flag else f" {entry.metavar or _kind(entry)}"
    names = ", ".join(f"`{option}{value}`" for option in [*entry.opts, *entry.secondary_opts]).replace("|", "\\|")
    return f"| {names} | {_text(entry.help)} |" + (f" {_default(entry)} |" if with_default else "")


def _kind(entry: Any) -> str:
    annotation = entry.type_descriptor.annotation
    return {int: "INTEGER", float: "NUMBER", str: "TEXT"}.get(
        annotation, str(getattr(annotation, "__name__", "")).upper()
    )


def _default(entry: Any) -> str:
    if entry.required:
        return "required"
    if isinstance(entry.show_default, str):
        return _text(entry.show_default)
    if not entry.show_default or entry.is_flag or entry.default is None:
        return ""
    return _text(str(entry.default))


def _text(words: str) -> str:
    """Help as Markdown: a paragraph whose signs mean nothing but themselves, code in backticks aside."""
    parts = " ".join(words.split()).split("`")
    for i in range(0, len(parts), 2):
        for sign in "\\*_[]<>$":
            parts[i] = parts[i].replace(sign, f"\\{sign}" if sign not in "<>" else {"<": "&lt;", ">": "&gt;"}[sign])
    return "`".join(parts).replace("|", "\\|")
