"""The report folder: the answer as JSON, as text and as a picture."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cesaro.errors import InputError
from cesaro.out_folder import ELSEWHERE, OutFolder, temporary, write, write_json

if TYPE_CHECKING:
    from cesaro.evaluation import Comparison, Evaluation

ANSWERS = ("evaluation.json", "comparison.json")
FILES = (*ANSWERS, "report.txt", "rates.png")
_SCHEMAS = ("cesaro-evaluation/", "cesaro-comparison/")


class ReportFolder(OutFolder):
    """The folder of one answer. There is nothing to resume: what an interrupted run leaves is removed or written anew."""

    def refusal(self) -> str | None:
        if not any(_is_answer(self.out / name) for name in ANSWERS):
            return "was not written by evaluate or compare"
        other = _not_ours(self.out)
        return None if other is None else f"also holds '{other}', which is none of a report's files"

    def prepare(self) -> None:
        if (other := _not_ours(self.path)) is not None:
            raise InputError(f"'{self.path}' holds '{other}' and is in the way; delete that folder or {ELSEWHERE}.")
        for file in self.path.iterdir():
            file.unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            if self.replaced.exists() and not self.out.exists():
                self.replaced.rename(self.out)
            shutil.rmtree(self.path, ignore_errors=True)
        super().__exit__(kind, error, traceback)


def write_evaluation(evaluation: "Evaluation", folder: ReportFolder) -> list[str]:
    """Write the folder; return the names of its files."""
    from cesaro.report.figure import draw_evaluation
    from cesaro.report.text import evaluation_text

    return _write(
        folder,
        "evaluation.json",
        evaluation.to_dict(),
        evaluation_text(evaluation, full=True),
        lambda f: draw_evaluation(evaluation, f),
    )


def write_comparison(comparison: "Comparison", folder: ReportFolder) -> list[str]:
    """Write the folder; return the names of its files."""
    from cesaro.report.figure import draw_comparison
    from cesaro.report.text import comparison_text

    return _write(
        folder,
        "comparison.json",
        comparison.to_dict(),
        comparison_text(comparison, full=True),
        lambda f: draw_comparison(comparison, f),
    )


def _write(
    folder: ReportFolder, name: str, answer: Mapping[str, Any], text: str, draw: Callable[[Path], None]
) -> list[str]:
    with folder:
        write_json(folder.path / name, answer)
        write(folder.path / "report.txt", text.encode(errors="backslashreplace"))
        draw(folder.path / "rates.png")
        folder.rename()
    return [name, "report.txt", "rates.png"]


def _is_answer(file: Path) -> bool:
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text(encoding="utf-8"))
        return isinstance(found, dict) and str(found.get("schema", "")).startswith(_SCHEMAS)
    return False


def _not_ours(folder: Path) -> str | None:
    """A name in the folder that no report has."""
    known = {*FILES, *(temporary(Path(name)).name for name in FILES)}
    return next((entry for entry in sorted(os.listdir(folder)) if entry not in known), None)
