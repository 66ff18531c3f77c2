"""`kill -9` before every file operation of a command: the same command then gives what an uninterrupted one gives.

A command runs in a child process whose operations on files are counted: opening a file to write, the first write to it, fsync,
rename, unlink, mkdir and rmdir. The child of number k dies before the k-th, without any clean-up; a write it leaves half done.
What writes to files by itself, as pyarrow and HDF5 do, is killed before it and after it only. All children are forks of one
process that has imported everything and started no threads.
"""

import builtins
import gc
import io
import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cesaro.cli import app
from cesaro.data import blocks, sorting
from cesaro.errors import InputError
from cesaro.evaluation import Evaluation
from cesaro.files import Arrays
from cesaro.passes import checkpoint as pass_checkpoint
from cesaro.rehearsal import Rehearsal
from cesaro.report import folder as report
from cesaro.reproduce import study

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")]

Command = Callable[[], object]
# Whatever else happens, these stay as they are.
OTHERS = {"notes.md": "mine", ".out.replaced/thesis.tex": "mine too", ".out.0123abcd.tmp": "also mine"}
KILLED = 137


class Counter:
    """Counts operations that change a file, and dies before the one with the number `last`."""

    def __init__(self, last: int) -> None:
        self.last, self.count = last, 0

    def step(self, before_death: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count == self.last:
            before_death()
            os._exit(KILLED)

    def install(self) -> None:
        for name in ("rename", "replace", "unlink", "remove", "mkdir", "rmdir", "fsync", "truncate", "link", "symlink"):
            setattr(os, name, self._counted(getattr(os, name)))
        written, opened, made = os.write, os.open, io.open

        def write(handle: int, data: bytes) -> int:
            self.step(lambda: written(handle, data[: len(data) // 2]))
            return written(handle, data)

        def open_handle(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & (os.O_CREAT | os.O_TRUNC):
                self.step()
            return opened(path, flags, *rest, **named)

        def open_file(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+"):
                return made(file, mode, *rest, **named)
            if not isinstance(file, int):
                self.step()
            raw = _CountedFile(file, mode.replace("b", "").replace("t", ""))
            raw.counter = self
            stream = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return stream if "b" in mode else io.TextIOWrapper(stream, encoding="utf-8", newline=named.get("newline"))

        os.write, os.open = write, open_handle  # type: ignore[assignment]
        builtins.open = io.open = open_file

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.step()
            return function(*arguments, **named)

        return counted


class _CountedFile(io.FileIO):
    counter: Counter
    is_begun = False

    def write(self, data: Any) -> int:
        if not self.is_begun:
            self.is_begun = True
            self.counter.step(lambda: super(_CountedFile, self).write(bytes(data)[: len(data) // 2]))
        return super().write(data)


def child(folder: Path, command: Command, last: int) -> tuple[int, int]:
    """Run a command in a process of its own; its exit code, and how many operations it came to.

    What it had to import is imported here then, for those that come after it.
    """
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(read)
            os.chdir(folder)
            tell, counter = os.write, Counter(last)
            counter.install()
            command()
            tell(write, " ".join([str(counter.count), *sys.modules]).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        count, *modules = pipe.read().decode().split() or ["0"]
    for name in modules:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), int(count)


def content(folder: Path) -> dict[str, object]:
    """The content of a folder, but for times and for how often a name is in a ledger."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            found[f"{name}/"] = None
        elif path.name == ".cesaro":
            found[name] = {line for line in path.read_text().splitlines() if line.startswith("result ")}
        elif path.suffix == ".json" and ".partial" not in name:
            document = json.loads(path.read_text())
            found[name] = {key: value for key, value in document.items() if key not in ("run", "created")}
        elif path.name == "report.html":
            found[name] = None  # it repeats when it was written
        else:
            found[name] = path.read_bytes()
    return found


def results(found: dict[str, object]) -> dict[str, object]:
    """Those files that are `OUT`, in whatever case."""
    places = ("out/", "small/pendulum-v0/")
    return {name: part for name, part in found.items() if name.startswith(places) or name == "out.parquet"}


def kill_everywhere(place: Path, setting: str, command: Command) -> None:
    """Kill a command before each of its operations, repeat it, and compare with what it gives when nobody kills it.

    Args:
        place: an empty folder.
        setting: what the folder that the command runs in holds, by the name of the function that fills it.
    """
    template = place / "template"
    template.mkdir()
    assert child(template, SETTINGS[setting], 0)[0] == 0  # in a process of its own, as some start threads
    for name, text in OTHERS.items():
        (template / name).parent.mkdir(exist_ok=True)
        (template / name).write_text(text)
    for whole in (place / "first", place / "whole"):  # twice: what is imported on the way may write, too
        shutil.copytree(template, whole)
        code, count = child(whole, command, 0)
        assert (code, count > 10) == (0, True)
    before, expected = content(template), content(whole)
    others = {name: text.encode() for name, text in OTHERS.items()}
    for last in range(1, count + 1):
        folder = shutil.copytree(template, place / "killed")
        assert child(folder, command, last)[0] == KILLED, last
        left = content(folder)
        assert left.items() >= others.items(), last
        assert not results(left) or any(left.items() >= results(one).items() for one in (before, expected)), last
        assert child(folder, command, 0)[0] == 0, last
        assert content(folder) == expected, (last, sorted(expected), sorted(content(folder)))
        shutil.rmtree(folder)
    print(f"killed {count} times")


def cesaro(*arguments: str) -> Command:
    """A command line; one whose result is there already has nothing left to do."""

    def run() -> None:
        result = CliRunner().invoke(app, [*arguments, "--quiet"])
        assert result.exit_code == 0 or "exists; add --force" in result.output, result.output

    return run


def log(rows: int = 300) -> None:
    """A log of two files."""
    rng = np.random.default_rng(0)
    moves = rng.integers(0, 2, rows)
    states = np.concatenate([[0], (np.cumsum(moves) % 3)[:-1]])
    table = pa.table(
        {
            "id": rng.permutation(rows) % 5,
            "t": rng.permutation(rows),
            "state": states,
            "action": moves,
            "reward": (states == 2) + rng.normal(size=rows),
        }
    )
    Path("log").mkdir()
    for part in range(2):
        pq.write_table(table.slice(part * rows // 2, rows // 2), Path("log") / f"{part}.parquet")


def small_study(*, force: bool) -> None:
    def piece(number: int) -> Arrays:
        return {"x": np.full(3, number)}

    if Path("out").exists() and not force:
        with pytest.raises(InputError, match="exists; add --force"), study.Folder("out", {"trials": 2}):
            pass
        return
    with study.Folder("out", {"trials": 2}, force=force) as work:
        pieces = study.compute(work, {f"p{n}": partial(piece, n) for n in range(2)}, label="small", quiet=True)
        study.write_csv(work.file("rates.csv"), ["x"], [piece["x"].tolist() for piece in pieces.values()])
        work.finish(study.manifest("rates", {}, command="", seed=0, summary={}))


def in_order(*commands: Command) -> Command:
    def run() -> None:
        for command in commands:
            command()

    return run


EVALUATE = (
    "evaluate",
    "log/0.parquet",
    "--policy",
    "uniform",
    "--observation",
    "state",
    "--kind",
    "state=category",
    "--json",
)
COLLECT = ("collect", "Pendulum-v1", "--policy", "constant:0", "--steps", "20", "--streams", "2", "--workers", "1")
MINARI = (*COLLECT, "--format", "minari", "--out", "small/pendulum-v0")
SORT = ("sort", "log", "--trajectory", "id", "--time", "t", "--out", "out.parquet")
SETTINGS: dict[str, Command] = {
    "empty": lambda: None,
    "log": log,
    "answer": in_order(log, cesaro(*EVALUATE, "--out", "out", "--confidence", "0.5")),
    "sorted": in_order(log, cesaro(*SORT[:4], "--out", "out.parquet")),
    "data set": cesaro(*MINARI, "--seed", "1"),
    "study of 0.1": in_order(partial(small_study, force=False), Path("out/.cesaro").unlink),
}
CASES: dict[str, tuple[str, Command]] = {
    "evaluate": ("log", cesaro(*EVALUATE, "--out", "out")),
    "evaluate --force": ("answer", cesaro(*EVALUATE, "--out", "out", "--force")),
    "evaluate --stream": ("log", cesaro(*EVALUATE, "--out", "out", "--stream")),
    "evaluate --checkpoint": ("log", cesaro(*EVALUATE, "--stream", "--checkpoint", "kept.npz")),
    "rehearse": ("log", cesaro("rehearse", *EVALUATE[1:], "--worlds", "2", "--out", "out")),
    "sort": ("log", cesaro(*SORT)),
    "sort --force": ("sorted", cesaro(*SORT, "--force")),
    "collect": ("empty", cesaro(*COLLECT, "--out", "out.parquet")),
    "collect to Minari --force": ("data set", cesaro(*MINARI, "--force")),
    "study": ("empty", partial(small_study, force=False)),
    "study --force over 0.1": ("study of 0.1", partial(small_study, force=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_kill_at_any_operation_loses_nothing(case: str, tmp_path: Path) -> None:
    if "Minari" in case:
        pytest.importorskip("minari")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MINARI_DATASETS_PATH": "."}
    found = subprocess.run(
        [sys.executable, __file__, case, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def main(case: str, place: str) -> None:
    """Without pictures, which take long; progress is written after every block of a streamed log."""
    patch = pytest.MonkeyPatch()
    patch.setattr(report, "pictures", lambda answer: [])
    for name in ("rates_picture", "evaluation_page", "evaluation_text"):
        patch.setattr(report, name, lambda *parts, **options: "a page")
    patch.setattr(report, "save_png", lambda figure, file: file.write_bytes(b"PNG"))
    for kind in (Evaluation, Rehearsal):
        patch.setattr(kind, "plot", lambda answer: None)
    patch.setattr(blocks, "BLOCK_ROWS", 150)
    patch.setattr(sorting, "PART_BYTES", 4000)
    if "--stream" in case or "--checkpoint" in case:
        patch.setattr(pass_checkpoint, "SECONDS", 0.0)
    gc.freeze()  # or every child would copy all objects
    kill_everywhere(Path(place), *CASES[case])


if __name__ == "__main__":
    main(*sys.argv[1:])
