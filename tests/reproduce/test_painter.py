"""The process that draws the pictures of a study: the same files as without it, and no failure of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cesaro.reproduce import looks, study
from cesaro.reproduce.boyan import Config
from cesaro.reproduce.painter import Painter, Picture

SHOW = "cesaro.reproduce.looks"
EMPTY = Picture(looks.blank, (1.0, 1.0))


def test_its_pictures_are_those_of_this_process() -> None:
    wide = Picture(looks.blank, (2.0, 1.0))
    with Painter(SHOW) as beside:
        found = list(beside.ask([EMPTY, wide]))
    assert found == [EMPTY.drawn(), wide.drawn()]


def test_pictures_are_png_whatever_matplotlib_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "savefig.format", "pdf")
    assert EMPTY.drawn().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("show", "pictures"),
    [
        ("no.such.module", [EMPTY]),
        (SHOW, [Picture(lambda: looks.blank(1, 1), ())]),  # which cannot be sent
        (SHOW, [Picture(looks.blank, ("wide", "high"))]),  # which cannot be drawn
    ],
)
def test_what_it_cannot_draw_is_left_out(show: str, pictures: list[Picture]) -> None:
    with Painter(show) as beside:
        assert list(beside.ask(pictures)) == []


def test_a_process_that_does_not_start_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with Painter(SHOW) as beside:
        assert list(beside.ask([EMPTY])) == []


def test_it_ends_with_the_study() -> None:
    with Painter(SHOW) as beside:
        process = beside._process
    assert process is not None
    assert process.returncode is not None


def test_a_study_has_its_pictures_with_it_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(methods=("diff-sgq",), pi0s=(0.5,), step_sizes=(0.25, 0.5), runs=2, samples=200)
    drawn: list[int] = []

    class Counting(Painter):
        def ask(self, pictures: Any) -> Any:
            found = list(super().ask(pictures))
            drawn.append(len(found))
            return iter(found)

    monkeypatch.setattr(study, "Painter", Counting)
    for name, count in (("beside", 2), ("alone", 1)):
        monkeypatch.setattr(study, "cores", lambda count=count: count)
        study.run(config, tmp_path / name, quiet=True)
    assert drawn == [2]
    for name in ("boyan.png", "step_size.png", "boyan.csv", "best.csv"):
        assert (tmp_path / "beside" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()


def test_its_module_is_found_where_this_process_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_show.py").write_text("from cesaro.reproduce.looks import blank\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Painter("own_show") as beside:
        assert list(beside.ask([EMPTY])) == [EMPTY.drawn()]


def test_pictures_of_figure_2_load_no_jax() -> None:
    program = "import sys, cesaro.reproduce.boyan.show; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
