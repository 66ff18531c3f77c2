"""The answer as text for a terminal or a file."""

import math
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cesaro.report.escape import visible

if TYPE_CHECKING:
    from cesaro.estimators.influence import Estimate
    from cesaro.evaluation import Comparison, Evaluation

WIDTH = 100
_STYLE = {"ok": "green", "caution": "yellow", "bad": "bold red"}
# More decimals than this, or numbers above it, are written with an exponent.
_DECIMALS, _LARGE = 8, 1e9
# Smaller standard errors, relative to the value, are rounding.
_EXACT = 1e-12
# Names of logs that come from memory, which say nothing to a reader.
_NAMELESS = ("Transitions", "arrays", "table", "frame")


def evaluation_text(evaluation: "Evaluation", width: int = WIDTH, *, full: bool = False) -> str:
    return _plain(render_evaluation(evaluation, full=full), width)


def comparison_text(comparison: "Comparison", width: int = WIDTH, *, full: bool = False) -> str:
    return _plain(render_comparison(comparison, full=full), width)


def render_evaluation(evaluation: "Evaluation", *, full: bool = False) -> Iterable[RenderableType]:
    """The answer in words, the table of rates, what could be wrong, what was used; `full`: checks that are ok as well."""
    yield _text(headline(evaluation), style="bold")
    yield _verdict(evaluation)
    yield ""
    rates = _rates_table(evaluation.confidence, evaluation.unit)
    decimals = _decimals_of(evaluation)
    _row(rates, f"target: {evaluation.name}", evaluation.target, evaluation.confidence, decimals)
    _row(rates, "the log itself", evaluation.behavior, evaluation.confidence, decimals)
    own = None if math.isfinite(evaluation.difference.standard_error) else decimals
    _row(rates, "difference", evaluation.difference, evaluation.confidence, own, signed=True)
    yield rates
    yield ""
    yield from _findings([evaluation], full)
    yield from _footer([evaluation])


def render_comparison(comparison: "Comparison", *, full: bool = False) -> Iterable[RenderableType]:
    """All rates, all paired differences, what could be wrong; `full`: checks that are ok as well."""
    evaluations = list(comparison.evaluations.values())
    first = evaluations[0]
    ranked = sorted(evaluations, key=lambda evaluation: -evaluation.reward_rate)
    rates = _rates_table(first.confidence, first.unit)
    rates.add_column("verdict", overflow="fold")
    has_log = any(evaluation.is_logged for evaluation in evaluations)
    decimals = common_decimals([*(one.target for one in evaluations), *([] if has_log else [first.behavior])])
    for evaluation in ranked:
        verdict = Text(evaluation.verdict, style=_STYLE[evaluation.verdict])
        _row(rates, evaluation.name, evaluation.target, first.confidence, decimals, verdict)
    if not has_log:
        _row(rates, "the log itself", first.behavior, first.confidence, decimals)
    yield rates
    yield ""
    paired = _table("Paired differences")
    paired.add_column("", overflow="fold")
    for column in ("difference", "std. error", f"{percent(first.confidence)} interval", "one-sided p"):
        paired.add_column(column, justify="right", overflow="fold")
    if any(math.isfinite(difference.standard_error) for difference in comparison.differences.values()):
        decimals = common_decimals(comparison.differences.values())
    for (a, b), difference in comparison.differences.items():
        name, estimate = f"{a} − {b}", difference
        if difference.value < 0:
            name, estimate = f"{b} − {a}", difference.negative()
        _row(paired, name, estimate, first.confidence, decimals, Text(_probability(estimate.p_value())), signed=True)
    yield paired
    yield ""
    yield from _findings(ranked, full)
    yield from _footer(evaluations)


def headline(evaluation: "Evaluation") -> str:
    """The answer in a sentence."""
    rate, low, high = numbers(evaluation.target, evaluation.confidence, _decimals_of(evaluation))
    per = evaluation.unit or "per step"
    has_interval = math.isfinite(evaluation.standard_error)
    within = f"{percent(evaluation.confidence)} interval {low} to {high}" if has_interval else _no_interval(evaluation)
    if evaluation.is_logged:
        return f"The log earned {rate} {per} ({within})."
    return f"'{evaluation.name}' would earn {rate} {per} in the long run ({within}){_against(evaluation)}."


def _no_interval(evaluation: "Evaluation") -> str:
    """With how far seeds agree, where that is known."""
    spread = evaluation.settings.get("spread_over_seeds")
    known = spread is not None and math.isfinite(spread)
    return f"no interval; standard deviation over seeds {spread:.2g}" if known else "no interval"


def _against(evaluation: "Evaluation") -> str:
    """More or less than the log, where that can be said."""
    low, high = evaluation.difference.interval(evaluation.confidence)
    if evaluation.verdict == "bad":
        return "; do not rely on this before what is bad below is mended"
    if low > 0 or high < 0:
        return f": {'more' if low > 0 else 'less'} than the log earned"
    return ": not clearly different from what the log earned" if low <= 0 <= high else ""


def percent(confidence: float) -> str:
    return f"{100 * confidence:.4g} %"


def numbers(
    estimate: "Estimate", confidence: float, decimals: int | None = None, *, signed: bool = False
) -> tuple[str, str, str]:
    """The value and both ends of its interval, with as many decimals as its standard error deserves, or those given."""
    low, high = (_number(end, estimate.standard_error, decimals, signed) for end in estimate.interval(confidence))
    return _number(estimate.value, estimate.standard_error, decimals, signed), low, high


def common_decimals(estimates: Iterable["Estimate"]) -> int | None:
    """As many as the most certain of the numbers deserves; None: each is written by itself."""
    found = [estimate for estimate in estimates if math.isfinite(estimate.value)]
    errors = [one.standard_error for one in found if _EXACT * abs(one.value) < one.standard_error < math.inf]
    if not errors or any(abs(one.value) >= _LARGE for one in found):
        return None
    decimals = max(0, _deserved(min(errors)))
    return decimals if decimals <= _DECIMALS else None


def _decimals_of(evaluation: "Evaluation") -> int | None:
    return common_decimals([evaluation.target, evaluation.behavior])


def _deserved(error: float) -> int:
    return 1 - math.floor(math.log10(error))


def _number(value: float, error: float, common: int | None, signed: bool) -> str:
    sign = "+" if signed else ""
    if not math.isfinite(value):
        return "none"
    if common is not None and abs(value) < _LARGE:
        return f"{value:{sign},.{common}f}"
    if not math.isfinite(error) or error <= _EXACT * abs(value):
        return f"{value:{sign}.6g}"
    decimals = _deserved(error)
    if decimals > _DECIMALS or abs(value) >= _LARGE:
        size = max(abs(value), error)
        digits = min(17, max(2, 2 + math.floor(math.log10(size / error))))
        return f"{value:{sign}.{digits}g}"
    return f"{value:{sign},.{max(0, decimals)}f}"


def _probability(p: float) -> str:
    return "none" if not math.isfinite(p) else "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _verdict(evaluation: "Evaluation") -> Text:
    """One line that cannot be overlooked."""
    verdict = evaluation.verdict
    names = ", ".join(
        entry.name for entry in evaluation.diagnostics if entry.verdict == verdict and not entry.is_about_others
    )
    line = Text("Verdict: ").append(verdict, style=_STYLE[verdict])
    if verdict == "ok":
        return line.append(visible(f" (checked: {names})" if names else " (nothing was checked)"))
    return line.append(visible(f" ({names}): see below"))


def _findings(evaluations: Sequence["Evaluation"], full: bool) -> Iterable[RenderableType]:
    several = len(evaluations) > 1
    for evaluation in evaluations:
        shown = [
            entry for entry in evaluation.diagnostics if full or (entry.verdict != "ok" and not entry.is_about_others)
        ]
        if not shown:
            continue
        table = _table(f"What could be wrong: {evaluation.name}" if several else "What could be wrong")
        table.add_column("verdict", no_wrap=True)
        table.add_column("check", overflow="fold", max_width=22)
        table.add_column("what was found", overflow="fold")
        for entry in shown:
            sentence = entry.sentence if entry.verdict == "ok" else f"{entry.sentence} {entry.remedy}".strip()
            table.add_row(Text(entry.verdict, style=_STYLE[entry.verdict]), _text(entry.name), _text(sentence))
        yield table
        yield ""


def _footer(evaluations: Sequence["Evaluation"]) -> Iterable[RenderableType]:
    first = evaluations[0]
    for names, used in _once((one.name, _settings(one)) for one in evaluations):
        yield _text(f"Used{'' if len(names) == len(evaluations) else ' for ' + ', '.join(names)}: {used}.")
    of = "" if first.log["name"] in _NAMELESS else f" of {first.log['name']}"
    yield _text(" ".join([f"Log: {first.log['rows']:,} transitions{of}.", *first.log["notes"]]))
    columns: dict[str, list[str]] = first.log["columns"]
    if any(names != [role] for role, names in columns.items()):
        yield _text("Columns: " + "; ".join(f"{role} {', '.join(names)}" for role, names in columns.items()) + ".")
    for names, covers in _once((one.name, one.covers) for one in evaluations):
        yield _text(f"{'' if len(names) == len(evaluations) else ', '.join(names) + ': '}{covers}", style="italic")
    for evaluation in evaluations:
        of = f" ({evaluation.name})" if len(evaluations) > 1 else ""
        for warning in evaluation.warnings:
            yield _text(f"Warning{of}: {warning}", style="yellow")


def _once(said: Iterable[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Every sentence once, with the names of the policies it was said of."""
    found: dict[str, list[str]] = {}
    for name, sentence in said:
        found.setdefault(sentence, []).append(name)
    return [(names, sentence) for sentence, names in found.items()]


def _settings(evaluation: "Evaluation") -> str:
    """What was used."""
    items = [(key.replace("_", " "), value) for key, value in evaluation.settings.items() if value is not None]
    return "; ".join(f"{key}: {_shown(value)}" for key, value in items)


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if math.isfinite(value) else "none"


def _rates_table(confidence: float, unit: str | None) -> Table:
    table = _table("Reward per step, in the long run" if unit is None else f"Reward in the long run, {unit}")
    table.add_column("", overflow="fold")
    for column in ("rate", "std. error", f"{percent(confidence)} interval"):
        table.add_column(column, justify="right", overflow="fold")
    return table


def _row(
    table: Table,
    name: str,
    estimate: "Estimate",
    confidence: float,
    decimals: int | None,
    *more: Text,
    signed: bool = False,
) -> None:
    value, low, high = numbers(estimate, confidence, decimals, signed=signed)
    error = estimate.standard_error
    interval = f"{low} … {high}" if math.isfinite(error) else "no interval"
    table.add_row(_text(name), value, _number(error, error, decimals if error else None, False), interval, *more)


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
