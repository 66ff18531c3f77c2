"""Every example runs as it is, and the shipped log is what its script writes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-W", "error", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_prints_the_answer_beside_the_truth(tmp_path: Path) -> None:
    """The commands of `make demo`, with another folder, twice."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    assert recipe
    script = "set -eu\n" + recipe[1].replace("$(BIN)/python", sys.executable)
    script = script.replace("$(BIN)/cesaro", f"{sys.executable} -c 'from cesaro.cli import main; main()'")
    script = re.sub(r"\bdemo\b(?=( --force|\n))", str(tmp_path / "demo"), script)
    for _ in range(2):
        done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "'candidate' would earn 2.7" in done.stdout
        assert "Exact truth:  2.7266, inside the interval" in done.stdout
    answer = json.loads((tmp_path / "demo" / "evaluation.json").read_text(encoding="utf-8"))
    assert answer["verdict"] == "ok"
    assert answer["difference"]["low"] > 0.4
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo"]


def test_the_shipped_log_is_what_the_script_makes() -> None:
    shipped = ROOT / "examples" / "queue.parquet"
    assert shipped.stat().st_size < 1_000_000
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport make_queue_log\nimport pyarrow.parquet as pq\n"
        "print(make_queue_log.build().equals(pq.read_table(make_queue_log.FILE)))"
    )
    assert run("-c", code, ROOT / "examples") == "True\n"
    table = pq.read_table(shipped)
    assert table.column_names == ["agent", "time", "free_servers", "priority", "action", "reward"]
    assert len(table) == 50_000


def test_arrays() -> None:
    said = run("examples/arrays.py")
    assert re.search(r"'from wear 3 on' would earn 6\.8\d* per step", said)


def test_pendulum() -> None:
    pytest.importorskip("gymnasium")
    said = run("examples/pendulum.py", "--rows", "5000")
    assert "'controller' would earn -" in said
    assert re.search(r"Simulated: +-\d\.\d+ ± 0\.\d+", said)


def test_known_mdp(tmp_path: Path) -> None:
    said = run("examples/known_mdp.py", "--out", tmp_path)
    assert "2.7266" in said
    assert (tmp_path / "access_control.png").read_bytes().startswith(b"\x89PNG")
