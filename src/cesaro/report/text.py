"""The answer as text for a terminal or a file."""

import math
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cesaro.comparison import Comparison
from cesaro.diagnostics import Diagnostic
from cesaro.evaluation import Evaluation
from cesaro.passes.standard_errors import Estimate
from cesaro.rehearsal import Rehearsal
from cesaro.report.words import (
    REHEARSAL_COLUMNS,
    beyond,
    candidate_rows,
    common_decimals,
    comparison_sentences,
    comparison_title,
    decimals_of,
    decision,
    differences_title,
    expectation,
    expectations,
    findings_note,
    headline,
    level_text,
    noise_note,
    number,
    numbers,
    once,
    outcome,
    panel_sentence,
    reasons,
    rehearsal_notes,
    rehearsal_rows,
    rehearsal_title,
    settings_of,
    shrink_sentence,
    spoken,
    spoken_differences,
    warnings_of,
)
from cesaro.text import visible

WIDTH = 100
_STYLE = {"ok": "green", "caution": "yellow", "bad": "bold red"}
# Names of logs that come from memory, which say nothing to a reader.
_NAMELESS = ("Transitions", "arrays", "table", "frame")


def evaluation_text(evaluation: Evaluation, width: int = WIDTH, *, full: bool = False) -> str:
    """The answer as plain text, for a file or `print`."""
    return _plain(render_evaluation(evaluation, full=full), width)


def comparison_text(comparison: Comparison, width: int = WIDTH, *, full: bool = False) -> str:
    """The comparison as plain text, for a file or `print`."""
    return _plain(render_comparison(comparison, full=full), width)


def rehearsal_text(rehearsal: Rehearsal, width: int = WIDTH) -> str:
    """The rehearsal as plain text, for a file or `print`."""
    return _plain(render_rehearsal(rehearsal), width)


def render_evaluation(evaluation: Evaluation, *, full: bool = False) -> Iterable[RenderableType]:
    """The answer in words, the table of rates, what could be wrong, what was used; `full`: checks that are ok as well."""
    yield _text(headline(evaluation), style="bold")
    yield _verdict(evaluation)
    for sentence in filter(None, (decision(evaluation), expectation(evaluation))):
        yield _text(sentence)
    yield from _first_remedy(evaluation)
    yield from _warnings([evaluation])
    yield ""
    rates, shown = _rates_table(evaluation), spoken(evaluation)
    decimals = decimals_of(shown)
    _row(rates, f"target: {shown.name}", shown.target, shown.confidence, decimals)
    _row(rates, "the log itself", shown.behavior, shown.confidence, decimals)
    own = None if math.isfinite(shown.difference.standard_error) else decimals
    _row(rates, "difference", shown.difference, shown.confidence, own, signed=True)
    yield rates
    yield ""
    yield from _candidates(evaluation)
    if evaluation.rehearsal is not None:
        yield from render_rehearsal(evaluation.rehearsal)
    yield from _findings([evaluation], full)
    yield from _footer([evaluation])


def render_comparison(comparison: Comparison, *, full: bool = False) -> Iterable[RenderableType]:
    """All rates, all paired differences, what could be wrong; `full`: checks that are ok as well."""
    evaluations = list(comparison.evaluations.values())
    first = evaluations[0]
    listed = comparison.listed
    yield _text(comparison_title(comparison), style="bold")
    for sentence in (*comparison_sentences(comparison), *expectations(listed)):
        yield _text(sentence)
    yield from _warnings(evaluations)
    yield ""
    rates = _rates_table(first)
    rates.add_column("verdict", overflow="fold")
    has_log = any(evaluation.is_logged for evaluation in evaluations)
    decimals = common_decimals([*(one.target for one in evaluations), *([] if has_log else [first.behavior])])
    for evaluation in listed:
        verdict = Text(evaluation.verdict, style=_STYLE[evaluation.verdict])
        _row(rates, evaluation.name, spoken(evaluation).target, first.confidence, decimals, verdict)
    if not has_log:
        _row(rates, "the log itself", spoken(first).behavior, first.confidence, decimals)
    yield rates
    yield ""
    paired = _table(differences_title(comparison))
    paired.add_column("", overflow="fold")
    for column in ("difference", "std. error", f"{level_text(first.confidence)} interval"):
        paired.add_column(column, justify="right", overflow="fold")
    paired.add_column("beyond noise?", overflow="fold")
    if any(math.isfinite(difference.standard_error) for difference in comparison.differences.values()):
        decimals = common_decimals(comparison.differences.values())
    for (a, b), difference in spoken_differences(comparison).items():
        _row(paired, f"{a} − {b}", difference, first.confidence, decimals, Text(beyond(comparison, a, b)), signed=True)
    yield paired
    yield _text(noise_note(comparison), style="italic")
    yield ""
    for evaluation in listed:
        if full:
            yield from _candidates(evaluation, several=True)
        elif shrinking := shrink_sentence(evaluation):
            yield _text(f"{evaluation.name}: {shrinking}")
            yield ""
    yield from _findings(listed, full)
    yield from _footer(evaluations)


def render_rehearsal(rehearsal: Rehearsal) -> Iterable[RenderableType]:
    """Would it have been right? The answer in words, the table, and what the log says of the systems."""
    yield _text(rehearsal.summary, style="bold")
    yield ""
    table = _table(rehearsal_title(rehearsal))
    for key, heading, is_number in REHEARSAL_COLUMNS:
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column("" if key == "name" else heading, justify=justify, overflow="fold")
    for row in rehearsal_rows(rehearsal):
        table.add_row(*(_text(row[key]) for key, _, _ in REHEARSAL_COLUMNS))
    yield table
    for note in rehearsal_notes(rehearsal):
        yield _text(note, style="italic")
    yield ""
    yield from _found("Do these systems resemble the log?", rehearsal.findings, findings_note(rehearsal))


def _candidates(evaluation: Evaluation, *, several: bool = False) -> Iterable[RenderableType]:
    """The candidates that the answer is made of, and what would make its interval shorter."""
    if evaluation.panel is None:
        return
    table = _table(f"What each candidate says: {evaluation.name}" if several else "What each candidate says")
    table.add_column("", no_wrap=True)
    for column in ("rate", f"{level_text(evaluation.confidence)} interval", "weight"):
        table.add_column(column, justify="right", overflow="fold")
    table.add_column("", overflow="fold")
    for row in candidate_rows(evaluation):
        table.add_row(*map(_text, row))
    yield table
    yield _text(f"{panel_sentence(evaluation)} {shrink_sentence(evaluation)}")
    yield ""


def _verdict(evaluation: Evaluation) -> Text:
    """One line that cannot be overlooked."""
    verdict = evaluation.verdict
    names = ", ".join(reasons(evaluation))
    line = Text("Verdict: ").append(verdict, style=_STYLE[verdict])
    if verdict == "ok":
        return line.append(visible(f" (checked: {names})" if names else " (nothing was checked)"))
    return line.append(visible(f" ({names}): see below"))


def _first_remedy(evaluation: Evaluation) -> Iterable[Text]:
    """The first thing to do, where something is bad."""
    worst = next(
        (entry for entry in evaluation.diagnostics if entry.verdict == "bad" and not entry.is_about_others), None
    )
    if worst is not None and worst.remedy:
        yield _text(f"First ({worst.name}): {worst.remedy}")


def _warnings(evaluations: Sequence[Evaluation]) -> Iterable[Text]:
    return (_text(warning, style="yellow") for warning in warnings_of(evaluations))


def _findings(evaluations: Sequence[Evaluation], full: bool) -> Iterable[RenderableType]:
    several = len(evaluations) > 1
    for evaluation in evaluations:
        shown = [
            entry for entry in evaluation.diagnostics if full or (entry.verdict != "ok" and not entry.is_about_others)
        ]
        if not shown:
            continue
        title = f"What could be wrong: {evaluation.name}" if several else "What could be wrong"
        yield from _found(title, shown, findings_note(evaluation))


def _found(title: str, shown: Iterable[Diagnostic], note: str) -> Iterable[RenderableType]:
    """A table of findings."""
    table = _table(title)
    table.add_column("verdict", no_wrap=True)
    table.add_column("check", overflow="fold", max_width=22)
    table.add_column("what was found", overflow="fold")
    for entry in shown:
        sentence = entry.sentence if entry.verdict == "ok" else f"{entry.sentence} {entry.remedy}".strip()
        table.add_row(Text(entry.verdict, style=_STYLE[entry.verdict]), _text(entry.name), _text(sentence))
    yield table
    if note:
        yield _text(note, style="italic")
    yield ""


def _footer(evaluations: Sequence[Evaluation]) -> Iterable[RenderableType]:
    first = evaluations[0]
    for names, used in once((one.name, _settings(one)) for one in evaluations):
        yield _text(f"Used{'' if len(names) == len(evaluations) else ' for ' + ', '.join(names)}: {used}.")
    of = "" if first.log["name"] in _NAMELESS else f" of {first.log['name']}"
    yield _text(" ".join([f"Log: {first.log['rows']:,} transitions{of}.", *first.log["notes"]]))
    columns: dict[str, list[str]] = first.log["columns"]
    inferred: list[str] = first.log.get("inferred", [])
    if inferred or any(names != [role] for role, names in columns.items()):
        by_name = f" Found by name: {', '.join(inferred)}." if inferred else ""
        listed = "; ".join(f"{role} {', '.join(names)}" for role, names in columns.items())
        yield _text(f"Columns: {listed}.{by_name}")
    for names, covers in once((one.name, one.covers) for one in evaluations):
        yield _text(f"{'' if len(names) == len(evaluations) else ', '.join(names) + ': '}{covers}", style="italic")


def _settings(evaluation: Evaluation) -> str:
    return "; ".join(f"{key}: {value}" for key, value in settings_of(evaluation))


def _rates_table(evaluation: Evaluation) -> Table:
    noun, unit = outcome(evaluation), evaluation.unit
    title = f"{noun[0].upper()}{noun[1:]} " + (
        "per step, in the long run" if unit is None else f"in the long run, {unit}"
    )
    table = _table(title if evaluation.cost is None else f"{title} (lower is better)")
    table.add_column("", overflow="fold")
    for column in ("rate", "std. error", f"{level_text(evaluation.confidence)} interval"):
        table.add_column(column, justify="right", overflow="fold")
    return table


def _row(
    table: Table,
    name: str,
    estimate: Estimate,
    confidence: float,
    decimals: int | None,
    *more: Text,
    signed: bool = False,
) -> None:
    value, low, high = numbers(estimate, confidence, decimals, signed=signed)
    error = estimate.standard_error
    interval = f"{low} … {high}" if math.isfinite(error) else "no interval"
    table.add_row(_text(name), value, number(error, error, decimals if error else None, False), interval, *more)


def _table(title: str) -> Table:
    return Table(
        title=_text(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )


def _text(text: str, style: str = "") -> Text:
    """No markup, no control codes."""
    return Text(visible(text), style=style)


def _plain(parts: Iterable[RenderableType], width: int) -> str:
    stream = StringIO()
    console = Console(file=stream, width=width, highlight=False, color_system=None)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
