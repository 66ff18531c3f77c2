"""The report folder: the answer as JSON, as text, as one HTML file, and its pictures."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from cesaro import documents
from cesaro.comparison import Comparison
from cesaro.errors import InputError
from cesaro.evaluation import Evaluation
from cesaro.files import ELSEWHERE, OutFolder, temporary, write, write_json
from cesaro.report.html import comparison_page, comparison_picture, evaluation_page, pictured
from cesaro.report.pictures import pictures, rates_picture
from cesaro.report.style import save_png
from cesaro.report.text import comparison_text, evaluation_text

ANSWERS = ("evaluation.json", "comparison.json")
# Progress of passes over a large log, while they run.
PASSES = "passes.npz"
_PASSES = re.compile(r"\.?passes(_\d+)?\.npz(\.tmp)?")
_PICTURE = re.compile(r"(rates|(reward|values|gains|influence|support)(_\d+)?)\.png")
_SCHEMAS = ("cesaro-evaluation/", "cesaro-comparison/")


class ReportFolder(OutFolder):
    """The folder of one answer. Progress of passes stays in `OUT.partial/` until the answer is written; nothing else resumes."""

    def refusal(self) -> str | None:
        if not any(_is_answer(self.out / name) for name in ANSWERS):
            return "was not written by evaluate or compare"
        other = _not_ours(self.out)
        return None if other is None else f"also holds '{other}', which is none of a report's files"

    def prepare(self) -> None:
        if (other := _not_ours(self.path)) is not None:
            raise InputError(f"'{self.path}' holds '{other}' and is in the way; delete that folder or {ELSEWHERE}.")
        for file in self.path.iterdir():
            if not _PASSES.fullmatch(file.name):
                file.unlink()

    def rename(self) -> Path:
        for file in self.path.iterdir():
            if _PASSES.fullmatch(file.name):
                file.unlink()
        return super().rename()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            if self.replaced.exists() and not self.out.exists():
                self.replaced.rename(self.out)
            self._remove_all_but_progress()
        super().__exit__(kind, error, traceback)

    def _remove_all_but_progress(self) -> None:
        with suppress(OSError):
            for file in self.path.iterdir():
                if not _PASSES.fullmatch(file.name):
                    file.unlink()
            self.path.rmdir()  # where there is no progress either


def write_evaluation(evaluation: Evaluation, folder: ReportFolder) -> list[str]:
    """Write the folder; return the names of its files."""
    drawn = pictures(evaluation)
    page = evaluation_page(evaluation, [rates_picture(evaluation), *drawn])
    figures = {"rates.png": evaluation.plot(), **{f"{picture.name}.png": picture.figure for picture in drawn}}
    return _write(
        folder, "evaluation.json", evaluation.to_dict(), evaluation_text(evaluation, full=True), page, figures
    )


def write_comparison(comparison: Comparison, folder: ReportFolder) -> list[str]:
    """Write the folder; return the names of its files. Pictures of single policies end in their rank."""
    each = pictured(comparison)
    page = comparison_page(comparison, [comparison_picture(comparison)], each)
    figures = {"rates.png": comparison.plot()} | {
        f"{picture.name}_{rank}.png": picture.figure
        for rank, one in enumerate(comparison.ranking, 1)
        for picture in each.get(one.name, ())
    }
    return _write(
        folder, "comparison.json", comparison.to_dict(), comparison_text(comparison, full=True), page, figures
    )


def _write(
    folder: ReportFolder, name: str, answer: Mapping[str, Any], text: str, page: str, figures: Mapping[str, Any]
) -> list[str]:
    with folder:
        write_json(folder.path / name, answer)
        write(folder.path / "report.txt", text.encode(errors="backslashreplace"))
        write(folder.path / "report.html", page.encode(errors="backslashreplace"))
        for file, figure in figures.items():
            save_png(figure, folder.path / file)
        folder.rename()
    return ["report.html", name, "report.txt", *figures]


def _is_answer(file: Path) -> bool:
    with suppress(OSError, ValueError):
        found = documents.read(file)
        return isinstance(found, dict) and str(found.get("schema", "")).startswith(_SCHEMAS)
    return False


def _not_ours(folder: Path) -> str | None:
    """A name in the folder that no report has."""
    written = ("report.html", "report.txt", *ANSWERS)
    known = {*written, *(temporary(Path(name)).name for name in written)}
    return next(
        (
            entry
            for entry in sorted(os.listdir(folder))
            if entry not in known and not _PICTURE.fullmatch(entry) and not _PASSES.fullmatch(entry)
        ),
        None,
    )
