"""The report as one HTML file, and the fragments that notebooks show: no script, no outside request, data stays text."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from cesaro import __version__
from cesaro.comparison import Comparison
from cesaro.diagnostics import SEVERITY
from cesaro.evaluation import Evaluation
from cesaro.passes.standard_errors import Estimate
from cesaro.rehearsal import Rehearsal
from cesaro.report import words
from cesaro.report.pictures import Picture, extremes, pictures, rates_picture
from cesaro.report.rates import comparison_rates
from cesaro.report.style import svg
from cesaro.report.words import level_text, numbers, share_text
from cesaro.text import visible

# Policies of a comparison whose own pictures are in the report.
MOST_PICTURED = 4
_VERDICT_WORDS = {
    "ok": "No check found a reason to doubt the answer.",
    "caution": "Read the cautions below.",
    "bad": "Do not rely on the answer until the problems marked bad below are fixed.",
}


def evaluation_page(evaluation: Evaluation, drawn: Sequence[Picture]) -> str:
    """The whole report of one policy; `drawn` are its pictures, the rates first."""
    context = _evaluation(evaluation, drawn[:1])
    context["policies"] = [_policy(evaluation, drawn[1:], 1)]
    context["pictures_note"] = ""
    return _page(context, [evaluation], "cesaro.evaluate")


def comparison_page(comparison: Comparison, drawn: Sequence[Picture], each: Mapping[str, Sequence[Picture]]) -> str:
    """The whole report of several policies; `each` has the pictures of single policies by name."""
    context = _comparison(comparison, drawn)
    listed = comparison.listed
    context["policies"] = [_policy(one, each.get(one.name, ()), k) for k, one in enumerate(listed, 1)]
    context["pictures_note"] = pictures_note(comparison)
    return _page(context, listed, "cesaro.compare")


def evaluation_fragment(evaluation: Evaluation) -> str:
    """The fragment of a page by which a notebook shows an evaluation."""
    context = _evaluation(evaluation, [rates_picture(evaluation)])
    return _fragment(context, [evaluation])


def comparison_fragment(comparison: Comparison) -> str:
    """The fragment of a page by which a notebook shows a comparison."""
    context = _comparison(comparison, [comparison_picture(comparison)])
    return _fragment(context, comparison.listed)


def comparison_picture(comparison: Comparison) -> Picture:
    """All rates and differences."""
    alt = " ".join(
        f"{said}: {', '.join(f'{one.name} {numbers(words.spoken(one).target, one.confidence)[0]}' for one in found)}."
        for said, found in (("From best to worst", comparison.ranking), ("Without a rank", comparison.unranked))
        if found
    )
    return Picture(
        "rates",
        "Rates with intervals",
        f"Points are estimates, lines their {level_text(comparison.confidence)} intervals."
        + (
            " Differences are paired: noise that moves both rates alike cancels in them."
            if comparison.is_paired
            else ""
        ),
        alt,
        comparison_rates(comparison, wide=False),
    )


def pictures_note(comparison: Comparison) -> str:
    """A sentence on the policies whose pictures are left out."""
    rest = len(comparison.evaluations) - MOST_PICTURED
    return (
        f"Pictures are of the first {MOST_PICTURED} policies of the table; for the others, evaluate them one by one."
        if rest > 0
        else ""
    )


def pictured(comparison: Comparison) -> dict[str, list[Picture]]:
    """The pictures of the first policies of the table."""
    return {one.name: pictures(one) for one in comparison.listed[:MOST_PICTURED]}


def _page(context: dict[str, Any], evaluations: Sequence[Evaluation], call: str) -> str:
    first = evaluations[0]
    run = first.run
    return _render(
        "page.html",
        ("style.css", "page.css"),
        {
            **context,
            "call": call,
            "command": run.get("command"),
            "made": run.get("made", ""),
            "log": {"name": first.log["name"], "notes": first.log["notes"]},
            "tables": list(_tables(evaluations)),
            "footer": f"Made by cesaro {__version__}. {_WHAT}",
        },
    )


_WHAT = (
    "The reward rate is the mean reward per step that a policy earns in the long run, estimated here from transitions that other "
    "policies logged."
)


def _fragment(context: dict[str, Any], evaluations: Sequence[Evaluation]) -> str:
    context["policies"] = [_policy(one, (), k) for k, one in enumerate(evaluations, 1)]
    first = evaluations[0]
    what = f"{first.log['rows']:,} transitions of {first.log['name']}; {first.settings.get('method', '')}"
    footer = f"{what}. {context['answer']['covers']}"
    return _render("fragment.html", ("style.css",), {**context, "footer": footer})


def _evaluation(evaluation: Evaluation, drawn: Sequence[Picture]) -> dict[str, Any]:
    verdict, title = evaluation.verdict, words.title(evaluation)
    prefix = _prefix(title)
    return {
        "answer": {
            "title": title,
            "sentences": [*words.sentences(evaluation), *filter(None, (words.panel_sentence(evaluation),))],
            "warnings": list(words.warnings_of([evaluation])),
            "verdict": verdict,
            "verdict_words": _joined(words.decision(evaluation), _VERDICT_WORDS[verdict]),
            "expectations": words.expectations([evaluation]),
            "ranking": [],
            "cards": list(_cards(evaluation)),
            "covers": evaluation.covers,
            "shrink": [words.shrink_sentence(evaluation)] if evaluation.panel is not None else [],
            "pictures": [_shown(picture, prefix) for picture in drawn],
        }
    }


def _cards(evaluation: Evaluation) -> Iterable[dict[str, str]]:
    evaluation = words.spoken(evaluation)
    decimals = words.decimals_of(evaluation)
    rows = [("log", "the log itself", evaluation.behavior, decimals, False)]
    if not evaluation.is_logged:
        own = None if math.isfinite(evaluation.difference.standard_error) else decimals
        rows = [
            ("target", evaluation.name, evaluation.target, decimals, False),
            *rows,
            ("difference", "difference", evaluation.difference, own, True),
        ]
    for kind, name, estimate, places, signed in rows:
        value, interval = _value_and_interval(estimate, evaluation.confidence, places, signed)
        noun = "" if evaluation.cost is None else f"{words.outcome(evaluation)} "
        per = f"{noun}{evaluation.unit or 'per step'}"
        yield {"kind": kind, "name": name, "value": value, "interval": f"{interval}, {per}"}


def _value_and_interval(estimate: Estimate, confidence: float, decimals: int | None, signed: bool) -> tuple[str, str]:
    value, low, high = numbers(estimate, confidence, decimals, signed=signed)
    known = math.isfinite(estimate.standard_error)
    return value, f"{low} to {high}" if known else "no interval"


def _comparison(comparison: Comparison, drawn: Sequence[Picture]) -> dict[str, Any]:
    listed = [words.spoken(one) for one in comparison.listed]
    has_log = any(one.is_logged for one in listed)
    behavior = listed[0].behavior
    decimals = words.common_decimals([*(one.target for one in listed), *([] if has_log else [behavior])])
    rows = []
    for rank, one in enumerate(listed, 1):
        value, interval = _value_and_interval(one.target, comparison.confidence, decimals, False)
        against = ""
        if not one.is_logged:
            against = "{} ({})".format(*_value_and_interval(one.difference, comparison.confidence, None, True))
        rows.append(
            {
                "rank": "none" if one.verdict == "bad" else str(rank),
                "name": one.name,
                "value": value,
                "interval": interval,
                "against": against,
                "verdict": one.verdict,
            }
        )
    if not has_log:
        value, interval = _value_and_interval(behavior, comparison.confidence, decimals, False)
        rows.append(
            {"rank": "", "name": "the log itself", "value": value, "interval": interval, "against": "", "verdict": ""}
        )
    differences = []
    for (a, b), found in words.spoken_differences(comparison).items():
        value, interval = _value_and_interval(found, comparison.confidence, None, True)
        differences.append(
            {
                "name": f"{a} − {b}",
                "value": value,
                "interval": interval,
                "chance": words.probability(comparison.adjusted[a, b]),
                "beyond": words.beyond(comparison, a, b),
            }
        )
    title, level = words.comparison_title(comparison), level_text(comparison.confidence)
    prefix = _prefix(title)
    return {
        "answer": {
            "title": title,
            "sentences": list(words.comparison_sentences(comparison)),
            "warnings": list(words.warnings_of(comparison.listed)),
            "ranking": rows,
            "ranking_columns": [
                ("rank", "rank", False),
                ("name", "policy", False),
                ("value", "rate" if listed[0].cost is None else words.outcome(listed[0]), True),
                ("interval", f"{level} interval", True),
                ("against", "against the log", True),
                ("verdict", "verdict", False),
            ],
            "difference_columns": [
                ("name", "difference", False),
                ("value", "value", True),
                ("interval", f"{level} interval", True),
                ("chance", "adjusted p", True),
                ("beyond", "beyond noise?", False),
            ],
            "differences_title": words.differences_title(comparison),
            "differences": differences,
            "noise_note": words.noise_note(comparison),
            "verdict": min((one.verdict for one in listed), key=lambda verdict: SEVERITY[verdict]),
            "verdict_words": "The worst of the policies' verdicts.",
            "expectations": words.expectations(listed),
            "covers": _covers(listed),
            "shrink": [
                f"{one.name}: {words.shrink_sentence(one)}" for one in comparison.listed if one.panel is not None
            ],
            "pictures": [_shown(picture, prefix) for picture in drawn],
        }
    }


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _covers(evaluations: Sequence[Evaluation]) -> str:
    """Sentences on what intervals cover, with the names of the policies where they differ."""
    said = words.once((one.name, one.covers) for one in evaluations)
    return said[0][1] if len(said) == 1 else " ".join(f"{', '.join(names)}: {covers}" for names, covers in said)


def _policy(evaluation: Evaluation, drawn: Sequence[Picture], number: int) -> dict[str, Any]:
    own = [entry for entry in evaluation.diagnostics if not entry.is_about_others]
    others = [entry for entry in evaluation.diagnostics if entry.is_about_others]
    chosen = extremes(evaluation.views.places) if any(picture.name == "gains" for picture in drawn) else []
    largest = max((abs(place.gain) for place in chosen), default=1.0)
    said = list(words.candidate_rows(evaluation)) if drawn else []
    has_actions, shown = any(place.logged for place in chosen), words.sign(evaluation)
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest > 0 else 0
    return {
        "name": evaluation.name,
        "verdict": evaluation.verdict,
        "findings_note": words.findings_note(evaluation),
        "wrong": [entry for entry in own if entry.verdict != "ok"],
        "fine": [entry for entry in own if entry.verdict == "ok"],
        "others": others,
        "pictures": [_shown(picture, f"p{number}") for picture in drawn],
        "candidates": [row._asdict() for row in said],
        "candidate_columns": [
            ("name", "candidate", False),
            ("rate", "rate" if evaluation.cost is None else words.outcome(evaluation), True),
            ("interval", f"{level_text(evaluation.confidence)} interval", True),
            ("weight", "weight", True),
            *([("note", "note", False)] if any(row.note for row in said) else []),
        ],
        "places": [
            {
                "name": place.where,
                "share": share_text(place.share),
                "logged": place.logged,
                "target": place.target,
                "gain": f"{shown * place.gain:+.{decimals}f}" if decimals <= 8 else f"{shown * place.gain:+.3g}",
            }
            for place in chosen
        ],
        "place_columns": [
            ("name", "state", False),
            ("share", "share of the log", True),
            *([("logged", "the log does", False), ("target", "the target does", False)] if has_actions else []),
            ("gain", "adds to the difference", True),
        ],
        "places_note": words.places_note(evaluation) if chosen else "",
        "rehearsal": None if evaluation.rehearsal is None else _rehearsal(evaluation.rehearsal),
    }


def _rehearsal(rehearsal: Rehearsal) -> dict[str, Any]:
    return {
        "summary": rehearsal.summary,
        "title": words.rehearsal_title(rehearsal),
        "columns": words.REHEARSAL_COLUMNS,
        "rows": words.rehearsal_rows(rehearsal),
        "notes": [*words.rehearsal_notes(rehearsal)],
        "verdict": rehearsal.verdict,
        "findings": rehearsal.findings,
        "findings_note": words.findings_note(rehearsal),
    }


def _prefix(title: str) -> str:
    """A beginning of ids that no other fragment has: notebooks show several on one page."""
    return "n" + hashlib.sha256(title.encode(errors="backslashreplace")).hexdigest()[:8]


def _shown(picture: Picture, prefix: str) -> dict[str, str]:
    drawn = svg(picture.figure, f"{prefix}-{picture.name}", f"{picture.title}. {picture.alt}")
    return {"title": picture.title, "caption": picture.caption, "alt": picture.alt, "svg": drawn}


def _tables(evaluations: Sequence[Evaluation]) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    """Settings, log, versions."""
    for names, settings in words.once((one.name, tuple(words.settings_of(one))) for one in evaluations):
        of = "" if len(names) == len(evaluations) else f" of {', '.join(names)}"
        yield f"Settings{of}", [*settings, ("confidence", level_text(evaluations[0].confidence))]
    log = evaluations[0].log
    inferred = log.get("inferred", ())
    columns = [
        (role.replace("_", " "), ", ".join(names) + (" (found by its name)" if role in inferred else ""))
        for role, names in log["columns"].items()
    ]
    counts = [(name, f"{count:,}") for name, count in log["counts"].items()]
    yield "Log", [("name", log["name"]), ("transitions", f"{log['rows']:,}"), *counts]
    yield "Columns", columns
    run = evaluations[0].run
    if run.get("versions"):
        yield "Versions", [*run["versions"].items(), ("platform", run.get("platform", ""))]


def _render(name: str, styles: Iterable[str], context: dict[str, Any]) -> str:
    environment = _environment()
    css = "".join(environment.loader.get_source(environment, style)[0] for style in styles)
    return environment.get_template(name).render(**context, css=css, version=__version__) + "\n"


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def printable(value: Any) -> Any:
        """Everything but our own markup: no control characters, which HTML cannot hold or which turn text around."""
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    return Environment(
        loader=PackageLoader("cesaro.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=False,
    )
