"""The report folder: the answer as JSON, as text, as one HTML file, and its pictures."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from cesaro import documents
from cesaro.comparison import Comparison
from cesaro.evaluation import Evaluation
from cesaro.files import write, write_json
from cesaro.folders import OutFolder
from cesaro.rehearsal import Rehearsal
from cesaro.report.html import comparison_page, comparison_picture, evaluation_page, pictured
from cesaro.report.pictures import KINDS, pictures, rates_picture
from cesaro.report.style import save_png
from cesaro.report.text import comparison_text, evaluation_text

ANSWERS = ("evaluation.json", "comparison.json")
# Progress of passes over a large log, and of a rehearsal, while they run.
PASSES, REHEARSING = "passes.npz", "rehearsing.npz"
_PICTURE = re.compile(rf"(rates|({'|'.join(KINDS[1:])})(_\d+)?)\.png")
_SCHEMAS = ("cesaro-evaluation/", "cesaro-comparison/")


class ReportFolder(OutFolder):
    """The folder of one answer. Progress of passes stays in `OUT.partial/` until the answer is written; nothing else resumes."""

    WRITER = "answer"
    WRITTEN_BY = "evaluate or compare"

    def unmarked(self) -> set[str] | None:
        if not any(_is_answer(self.out / name) for name in ANSWERS):
            return None
        pictures = {file.name for file in self.out.iterdir() if _PICTURE.fullmatch(file.name)}
        return {"report.html", "report.txt", *ANSWERS, *pictures}


def write_evaluation(evaluation: Evaluation, folder: ReportFolder) -> list[str]:
    """Write the folder, which is held already; return the names of its files."""
    drawn = pictures(evaluation)
    page = evaluation_page(evaluation, [rates_picture(evaluation), *drawn])
    figures = {"rates.png": evaluation.plot(), **{f"{picture.name}.png": picture.figure for picture in drawn}}
    return _write(
        folder, "evaluation.json", evaluation.to_dict(), evaluation_text(evaluation, full=True), page, figures
    )


def write_comparison(comparison: Comparison, folder: ReportFolder) -> list[str]:
    """Write the folder, which is held already; return the names of its files. Pictures of single policies end in their place."""
    each = pictured(comparison)
    page = comparison_page(comparison, [comparison_picture(comparison)], each)
    figures = {"rates.png": comparison.plot()} | {
        f"{picture.name}_{place}.png": picture.figure
        for place, one in enumerate(comparison.listed, 1)
        for picture in each.get(one.name, ())
    }
    return _write(
        folder, "comparison.json", comparison.to_dict(), comparison_text(comparison, full=True), page, figures
    )


class RehearsalFolder(OutFolder):
    """The folder of one rehearsal. Progress stays in `OUT.partial/` until it is written."""

    WRITER = "rehearsal"
    WRITTEN_BY = "rehearse"


def write_rehearsal(rehearsal: Rehearsal, folder: RehearsalFolder) -> list[str]:
    """Write the folder, which is held already; return the names of its files."""
    names = ["rehearsal.txt", "rehearsal.json", "errors.png"]
    text, numbers, picture = folder.files(names)
    write(text, str(rehearsal).encode(errors="backslashreplace"))
    write_json(numbers, rehearsal.to_dict())
    save_png(rehearsal.plot(), picture)
    folder.rename()
    return names


def _write(
    folder: ReportFolder, name: str, answer: Mapping[str, Any], text: str, page: str, figures: Mapping[str, Any]
) -> list[str]:
    names = ["report.html", name, "report.txt", *figures]
    places = dict(zip(names, folder.files(names)))
    write_json(places[name], answer)
    write(places["report.txt"], text.encode(errors="backslashreplace"))
    write(places["report.html"], page.encode(errors="backslashreplace"))
    for file, figure in figures.items():
        save_png(figure, places[file])
    folder.rename()
    return names


def _is_answer(file: Path) -> bool:
    with suppress(OSError, ValueError):
        found = documents.read(file)
        return isinstance(found, dict) and str(found.get("schema", "")).startswith(_SCHEMAS)
    return False
