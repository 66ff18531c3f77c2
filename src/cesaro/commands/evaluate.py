"""Questions about a log and policies: `cesaro evaluate`, `cesaro compare` and `cesaro rehearse`, which share their options."""

import inspect
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cesaro.commands import program
from cesaro.commands.options import (
    estimate_options,
    log_options,
    output_options,
    policies_of,
    read_log,
    some_options,
    taking_options,
)
from cesaro.commands.program import one_line_errors
from cesaro.errors import InputError
from cesaro.text import for_command_line, shown_address

if TYPE_CHECKING:
    from cesaro.diagnostics import Diagnostic
    from cesaro.evaluation import Evaluation

# What goes to the estimator as it is, where it is given.
_ESTIMATOR_SETTINGS = ("dual_features", "standard_errors", "draws", "device", "approximator", "checkpoint", "address")
# They change where an answer goes or how it is computed, not what it is.
_ELSEWHERE = ("out", "force", "json", "quiet", "fail_on", "checkpoint", "engine", "address", "device", "stream")


# Of an answer whose verdict `--fail-on` does not accept; 2 refuses an input, and 1 is for what the machine did.
VERDICT_EXIT = 3


@taking_options(log_options, estimate_options, output_options)
def evaluate(**given: Any) -> None:
    """What would this policy earn per step, in the long run? An answer from a log, with an interval and what to check."""
    _run(given, several=False)


@taking_options(log_options, estimate_options, output_options)
def compare(**given: Any) -> None:
    """Rank several policies on one log and say which differences are beyond noise: repeat --policy."""
    _run(given, several=True)


def _run(given: dict[str, Any], *, several: bool) -> None:
    kept: list[Path] = []

    def resumes() -> bool:
        return any(path.exists() for path in kept)

    with one_line_errors(resumes=resumes), ExitStack() as held:
        settings = _settings(given)
        if given["fail_on"] not in (None, "bad", "caution"):
            raise InputError(f"--fail-on must be bad or caution. Got {given['fail_on']!r}.")
        if not several and len(given["policy"]) > 1:
            raise InputError(f"evaluate takes one --policy. Got {len(given['policy'])}; for several: cesaro compare.")
        if several and len(given["policy"]) < 2:
            raise InputError("compare takes at least two --policy options. Got 1; for one: cesaro evaluate.")

        from cesaro import comparison, evaluation, files, panel
        from cesaro.estimators import registry
        from cesaro.report import folder as report

        out = None
        if given["out"] is not None:
            out = held.enter_context(report.ReportFolder(given["out"], force=given["force"]))
            if registry.method(given["method"]).kind == "closed form":
                settings.setdefault("checkpoint", out.path / report.PASSES)
        if "checkpoint" in settings:
            places = range(len(given["policy"])) if several else [None]
            kept += [comparison.numbered(settings["checkpoint"], place) for place in places]
            if evaluation.effort_of(given["effort"], given["method"], given["features"]) != "none":
                kept += [file for path in kept for file in panel.progress_files(path)]
        for path in kept:
            if out is not None and path.parent == out.path:
                out.file(path.name, progress=True)
            held.enter_context(files.holding(path))
        policies, log = policies_of(given["policy"], given["trust"]), read_log(given)
        if several:
            answer: Any = comparison.compare(log, policies, **settings)
        else:
            ((name, target),) = policies.items()
            answer = evaluation.evaluate(log, target, name=name, **settings)
        command = _repeating("compare" if several else "evaluate", compare if several else evaluate, given)
        if several:
            answer.evaluations.update({name: _worded(one, command) for name, one in answer.evaluations.items()})
        else:
            answer = _worded(answer, command)
        _print(answer, several, as_json=given["json"])
        if out is not None:
            names = (report.write_comparison if several else report.write_evaluation)(answer, out)
            pictures = sum(name.endswith(".png") for name in names)
            beside = ", ".join(name for name in names[1:] if not name.endswith(".png"))
            where = given["out"] / names[0]
            program.echo(f"Report: {where} (beside it: {beside}, {pictures} pictures)", aside=given["json"])
    failed = [one for one in (answer.evaluations.values() if several else [answer]) if _fails(one, given["fail_on"])]
    if failed:
        from cesaro.report.words import reasons

        verdicts = ", ".join(f"{one.name!r} is {one.verdict} ({', '.join(reasons(one))})" for one in failed)
        program.echo(f"--fail-on {given['fail_on']}: the verdict on {verdicts}.", aside=True)
        raise typer.Exit(VERDICT_EXIT)


def _fails(evaluation: Any, fail_on: str | None) -> bool:
    return fail_on is not None and evaluation.verdict in ("bad", fail_on)


def _worded(answer: "Evaluation", command: str) -> "Evaluation":
    """An answer in the words of the command line, with the command that repeats it."""
    answer.run["command"] = command
    answer.log["notes"] = [for_command_line(note) for note in answer.log["notes"]]
    said = (for_command_line(warning) for warning in answer.warnings)
    return replace(answer, diagnostics=_worded_findings(answer.diagnostics), warnings=tuple(said))


def _worded_findings(findings: Iterable["Diagnostic"]) -> "tuple[Diagnostic, ...]":
    return tuple(
        replace(entry, sentence=for_command_line(entry.sentence), remedy=for_command_line(entry.remedy))
        for entry in findings
    )


def _repeating(name: str, function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """The command that repeats an answer: all that was given, but for where the answer goes and credentials in addresses."""
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


def _print(answer: Any, several: bool, *, as_json: bool) -> None:
    from cesaro.report import text, words

    if as_json:
        program.document(json.dumps(answer.to_dict(), indent=2, allow_nan=False))
        evaluations = answer.evaluations.values() if several else [answer]
        for names, warning in words.once((one.name, warning) for one in evaluations for warning in one.warnings):
            program.echo(f"warning: {', '.join(names)}: {warning}", aside=True)
        return
    console = program.console()
    for part in (text.render_comparison if several else text.render_evaluation)(answer):
        console.print(part)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `cesaro.evaluate` beside the log and the policy; the estimator's own only where given."""
    settings = {name: given[name] for name in _ESTIMATOR_SETTINGS if given.get(name) is not None}
    if "approximator" in settings:
        _check_learned(given["method"], settings["approximator"])
    if "device" in settings:
        _check_closed_form(given["method"], settings["device"])
    if given["engine"] != "local":
        settings["engine"] = given["engine"]
    options = {*given, "random_state"}
    for text in given["set"] or ():
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in settings:
            raise InputError(f"--set must be NAME=VALUE, each name once. Got {text!r}.")
        if name == "run":
            raise InputError(
                f"--set is for settings of the method. Got {text!r}; use --checkpoint, --engine, --address or --quiet."
            )
        if name in options:
            option = "seed" if name == "random_state" else name.replace("_", "-")
            raise InputError(f"--set is for settings without an option of their own. Got {text!r}; use --{option}.")
        settings[name] = _value(value)
    if given["ridge"] is not None:
        settings["ridge"] = _ridge(given["ridge"])
    named = {name: given[name] for name in ("effort", "features", "method", "confidence", "quiet")}
    return {**settings, **named, "random_state": given["seed"], "unit": given["unit"] or None}


def _check_learned(method: str, approximator: str) -> None:
    """Other methods take no approximator."""
    from cesaro.estimators import registry
    from cesaro.linear import METHODS

    if registry.method(method).kind != "learned":
        raise InputError(
            f"--approximator is for learned methods, and {method} is none. Got --approximator {approximator}; "
            f"add --method and one of {', '.join(METHODS)}."
        )


def _check_closed_form(method: str, device: str) -> None:
    """Others run where JAX does."""
    from cesaro.estimators import registry

    if registry.method(method).kind != "closed form":
        raise InputError(
            f"--device is for the closed form, and {method} runs where JAX does. Got --device {device}; leave it out, or set "
            "JAX_PLATFORMS=cpu to keep JAX from a GPU."
        )


def _ridge(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--ridge must be auto or a number ≥ 0. Got {text!r}.") from None


def _value(text: str) -> int | float | str | tuple[int, ...]:
    """A number, whole numbers with commas between or behind them, or the text as it is."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    with suppress(ValueError):
        return tuple(int(part) for part in text.removesuffix(",").split(","))
    return text


def _rehearsal_options(
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A method, or features of the closed form, that is rehearsed; may be repeated. Without it: features of "
            "several families.",
        ),
    ] = None,
    worlds: Annotated[int, typer.Option(help="Systems that are learned from the log.")] = 20,
) -> None:
    """The options that only a rehearsal has. Never called: see `taking_options`."""


@taking_options(
    log_options,
    _rehearsal_options,
    some_options(estimate_options, "seed", "trust"),
    some_options(output_options, "unit", "out", "force", "json", "quiet"),
)
def rehearse(**given: Any) -> None:
    """Would the tool have been right on a system like yours? In systems that are learned from the log, the answer is known."""
    kept: list[Path] = []

    def resumes() -> bool:
        return any(path.exists() for path in kept)

    with one_line_errors(resumes=resumes), ExitStack() as held:
        if len(given["policy"]) > 1:
            raise InputError(f"rehearse takes one --policy. Got {len(given['policy'])}; rehearse them one by one.")

        from cesaro import files, panel, rehearsal
        from cesaro.report import folder as report
        from cesaro.report import text

        out = checkpoint = None
        if given["out"] is not None:
            out = held.enter_context(report.RehearsalFolder(given["out"], force=given["force"]))
            checkpoint = out.file(report.REHEARSING, progress=True)
            kept += [checkpoint, out.file(panel.beside(checkpoint, "world").name, progress=True)]
        for path in kept:
            held.enter_context(files.holding(path))
        (target,) = policies_of(given["policy"], given["trust"]).values()
        found = rehearsal.rehearse(
            read_log(given),
            target,
            given["candidate"] or "auto",
            worlds=given["worlds"],
            random_state=given["seed"],
            unit=given["unit"] or None,
            quiet=given["quiet"],
            checkpoint=checkpoint,
        )
        found = replace(found, of_rows=_worded_findings(found.of_rows))
        if given["json"]:
            program.document(json.dumps(found.to_dict(), indent=2, allow_nan=False))
        else:
            console = program.console()
            for part in text.render_rehearsal(found):
                console.print(part)
        if out is not None:
            names = report.write_rehearsal(found, out)
            program.echo(
                f"Rehearsal: {given['out'] / names[0]} (beside it: {', '.join(names[1:])})", aside=given["json"]
            )
