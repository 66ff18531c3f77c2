"""Every example runs as it is, and the shipped log is what its script writes."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import cesaro

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    # Optax's Adam raises a float to an integer power, which the tests' strict setting forbids.
    environment = {**os.environ, "COLUMNS": "80", "JAX_NUMPY_DTYPE_PROMOTION": "standard"}
    command = [sys.executable, "-W", "error", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_prints_the_answer_beside_the_truth(tmp_path: Path) -> None:
    """The second command of `make demo`, on an answer; the first is the README's own, which tests/test_docs.py runs."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    assert recipe
    first, second = recipe[1].replace("\\\n", "").replace("$(BIN)/", "").strip().split("\n")
    printed = re.search(r"^\.venv/bin/(cesaro evaluate examples/queue.*?--out) answer$", README, flags=re.M | re.S)
    assert printed
    assert first.split() == [*printed[1].replace("\\\n", "").split(), "demo", "--force"]
    assert second.split() == ["python", "examples/queue_truth.py", "demo"]
    rate = {"value": 2.714, "standard_error": 0.014, "low": 2.686, "high": 2.743}
    (tmp_path / "evaluation.json").write_text(
        json.dumps({"unit": "per customer", "reward_rate": rate}), encoding="utf-8"
    )
    said = run("examples/queue_truth.py", tmp_path)
    assert "Exact truth:  2.7266, inside the interval; the estimate is -0.9 standard errors off." in said


@pytest.mark.slow
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


@pytest.mark.slow
def test_arrays() -> None:
    said = run("examples/arrays.py")
    assert re.search(r"'from wear 3 on' would earn 6\.8\d* per step", said)


@pytest.mark.slow
def test_pendulum() -> None:
    pytest.importorskip("gymnasium")
    said = run("examples/pendulum.py", "--rows", "5000")
    assert "'controller' would earn -" in said
    assert re.search(r"Simulated: +-\d\.\d+ ± 0\.\d+", said)


@pytest.mark.slow
def test_known_mdp(tmp_path: Path) -> None:
    said = run("examples/known_mdp.py", "--out", tmp_path)
    assert "2.7266" in said
    assert (tmp_path / "access_control.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_shipped_heating_log_is_what_the_script_makes() -> None:
    shipped = ROOT / "examples" / "heating.csv"
    assert shipped.stat().st_size < 400_000
    with shipped.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["time", "house", "temperature", "tariff", "action", "reward"]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport json, make_heating_log\n"
        "print(json.dumps([list(map(str, row)) for row in make_heating_log.build()]))"
    )
    assert json.loads(run("-c", code, ROOT / "examples")) == rows[1:]


@pytest.mark.parametrize("policy", ["preheat", "thrifty", "steady"])
def test_the_heating_log_tells_the_exact_rate(policy: str) -> None:
    """Each of the three intervals misses with a chance of 0.001; the seed is fixed."""
    spec = ROOT / "examples" / f"heating_policy.py:{policy}"
    said = run("examples/make_heating_log.py", "--truth", spec)
    truth = re.search(r"is (-0\.\d+) per hour", said)
    assert truth
    log = cesaro.read(
        ROOT / "examples" / "heating.csv",
        observation=["temperature", "tariff"],
        trajectory="house",
        kinds={"temperature": "category"},
    )
    answer = cesaro.evaluate(log, str(spec), quiet=True)
    low, high = answer.interval(0.999)
    assert low < float(truth[1]) < high
    assert answer.verdict == "ok"
    if policy == "preheat":  # the page that people start with prints this answer
        rows = [line for line in str(answer).splitlines() if line.startswith(("target:", "the log itself", "diff"))]
        page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
        assert len(rows) == 3
        assert all(row in page for row in rows)


def test_the_exact_rate_of_the_thermostat_by_its_own_chain() -> None:
    """Temperature alone is a chain where the tariff does not matter; prices are those of the tariff's own law."""
    cold, warm = 20, range(16, 24)
    up = {t: 0.6 if t < cold else 0.05 for t in warm}
    down = {t: 0.1 if t < cold else 0.5 for t in warm}
    share = {16: 1.0}
    for t in range(17, 24):  # detailed balance
        share[t] = share[t - 1] * up[t - 1] / down[t]
    total = sum(share.values())
    price = 0.6 * 0.1 + 0.4 * 0.3
    rate = -sum(share[t] / total * (0.1 * (cold - t) + 2.0 * price) for t in warm if t < cold)
    said = run("examples/make_heating_log.py", "--truth", ROOT / "examples" / "heating_policy.py:steady")
    assert f"is {rate:.4f} per hour" in said
