"""`cesaro evaluate` and `cesaro compare`: the answer, the JSON document, the folder, one-line errors, hostile text."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from cesaro.cli import app
from cesaro.commands import evaluate

QUEUE = Path(__file__).parents[2] / "examples" / "queue.parquet"
COMMAND = [sys.executable, "-c", "from cesaro.cli import main; main()"]
PICTURES = ["gains.png", "influence.png", "rates.png", "reward.png", "support.png", "values.png"]
FILES = sorted([".cesaro", "evaluation.json", "report.html", "report.txt", *PICTURES])
COLUMNS = ("--observation", "state", "--action", "done", "--reward", "earned")
POLICY = ("--policy", "uniform")


def cesaro(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def table(rows: int = 2_000, state: str = "state", label: str = "go") -> pa.Table:
    """A walk on three states; action `label` moves on, "stay" does not."""
    rng = np.random.default_rng(0)
    moves = rng.random(rows) < 0.5
    states = np.concatenate([[0], np.cumsum(moves)[:-1]]) % 3
    return pa.table(
        {state: states, "done": np.where(moves, label, "stay"), "earned": (states == 2) + rng.normal(size=rows)}
    )


@pytest.fixture(autouse=True)
def _no_stage_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stderr holds must not depend on how busy the machine is."""
    monkeypatch.setattr("cesaro.progress._SECONDS_BEFORE_A_STAGE", 600.0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.parquet"
    pq.write_table(table(), file)
    return file


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """The output of `evaluate --out`, and the folder it wrote, for those that copy it: pictures take a second."""
    folder = tmp_path_factory.mktemp("saved")
    pq.write_table(table(), folder / "log.parquet")
    out = folder / "out"
    return cesaro("evaluate", folder / "log.parquet", *POLICY, *COLUMNS, "--quiet", "--out", out), out


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_answer_in_words(log: Path) -> None:
    result = cesaro("evaluate", log, "--policy", "always=constant:go", *COLUMNS, "--unit", "€ per minute", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    said = " ".join(result.stdout.split())
    assert re.search(
        r"'always' would earn 0\.\d+ € per minute in the long run \(95 % interval 0\.\d+ to 0\.\d+\):", said
    )
    assert "Verdict: " in said
    assert "so the features leave nothing out" in said
    assert "Columns: observation state; action done; reward earned." in said
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "Results:" not in said


@pytest.mark.usefixtures("blank_pictures")
def test_one_json_document_and_nothing_else(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--confidence", "0.9", "--seed", "3", "--ridge", "1e-9", "--json", "--out", out)
    result = cesaro("evaluate", log, "--policy", "always=constant:go", *COLUMNS, *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["schema"] == "cesaro-evaluation/2"
    assert found.keys() == {
        *(
            "schema",
            "cesaro",
            "policy",
            "unit",
            "cost",
            "confidence",
            "effort",
            "reward_rate",
            "limit",
            "candidates",
            "rehearsal",
            "behavior_rate",
            "difference",
            "covers",
            "width",
        ),
        *("verdict", "diagnostics", "settings", "log", "warnings", "run"),
    }
    rate = found["reward_rate"]
    assert rate.keys() == {"value", "standard_error", "low", "high", "widened_below", "widened_above"}
    assert rate["low"] < 1 / 3 < rate["high"]
    assert found["difference"].keys() == {*rate, "p_one_sided"}
    assert (found["policy"], found["unit"], found["confidence"]) == ("always", None, 0.9)
    assert (found["settings"]["random_state"], found["settings"]["ridge"]) == (3, 1e-9)
    assert found["log"]["columns"] == {"observation": ["state"], "action": ["done"], "reward": ["earned"]}
    assert {entry["verdict"] for entry in found["diagnostics"]} <= {"ok", "caution", "bad"}
    assert json.loads((out / "evaluation.json").read_text(encoding="utf-8")) == found
    assert (
        result.stderr.splitlines()[-1]
        == f"Report: {out}/report.html (beside it: evaluation.json, report.txt, 6 pictures)"
    )


def test_warnings_stand_above_the_numbers_or_on_stderr(log: Path) -> None:
    arguments = ("evaluate", log, "--policy", "logged", *COLUMNS)
    said = cesaro(*arguments)
    assert said.stdout.split("Reward per step")[0].count("Warning: 'logged' is the mean logged reward") == 1
    assert "The log earned 0." in said.stdout
    found = cesaro(*arguments, "--json")
    assert found.stderr.startswith("warning: logged: 'logged' is the mean logged reward")
    assert json.loads(found.stdout)["warnings"]


def test_the_folder_is_complete(saved: tuple[Result, Path]) -> None:
    first, out = saved
    assert first.exit_code == 0, first.output
    assert (
        first.stdout.splitlines()[-1]
        == f"Report: {out}/report.html (beside it: evaluation.json, report.txt, 6 pictures)"
    )
    assert names(out) == FILES
    assert (out / "rates.png").read_bytes().startswith(b"\x89PNG")
    assert "What could be wrong" in (out / "report.txt").read_text(encoding="utf-8")
    assert names(out.parent) == ["log.parquet", "out"]


@pytest.mark.usefixtures("blank_pictures")
def test_a_folder_is_not_overwritten_without_force(saved: tuple[Result, Path], log: Path, tmp_path: Path) -> None:
    """With it, what a kill has left beside it is written anew."""
    out, partial = shutil.copytree(saved[1], tmp_path / "out"), tmp_path / "out.partial"
    arguments = ("evaluate", log, *POLICY, *COLUMNS, "--quiet", "--out", out)
    refused = cesaro(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "exists; add --force" in refused.stderr
    partial.mkdir()
    (partial / ".cesaro").write_text("cesaro-folder/1 answer\nresult report.txt\nresult evaluation.json\nresult ev")
    (partial / "report.txt").write_text("half", encoding="utf-8")
    (partial / ".evaluation.json.0123abcd.tmp").write_text("{", encoding="utf-8")
    assert cesaro(*arguments, "--confidence", "0.5", "--force").exit_code == 0
    assert json.loads((out / "evaluation.json").read_text(encoding="utf-8"))["confidence"] == 0.5
    assert names(out) == FILES
    assert names(tmp_path) == ["log.parquet", "out"]


@pytest.mark.parametrize(
    "content", [None, "{", "[" * 100_000, '{"schema": "cesaro-study/1"}', '{"schema": "cesaro-evaluation/1"}']
)
def test_force_leaves_folders_alone_that_hold_anything_else(log: Path, tmp_path: Path, content: str | None) -> None:
    out = tmp_path / "photos"
    out.mkdir()
    (out / "cat.png").touch()
    if content is not None:
        (out / "evaluation.json").write_text(content, encoding="utf-8")
    result = cesaro("evaluate", log, "--policy", "uniform", *COLUMNS, "--out", out, "--force")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--force leaves it alone" in result.stderr
    assert (out / "cat.png").exists()
    assert names(tmp_path) == ["log.parquet", "photos"]


@pytest.mark.usefixtures("blank_pictures")
def test_a_failure_while_writing_leaves_the_old_folder_and_nothing_partial(
    saved: tuple[Result, Path], log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(saved[1], tmp_path / "out")
    arguments = ("evaluate", log, *POLICY, *COLUMNS, "--quiet", "--out", out)
    before = (out / "evaluation.json").read_bytes()
    rename = Path.rename

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted(self: Path, target: Path) -> Path:
        if self.name == "out.partial":
            raise KeyboardInterrupt
        return rename(self, target)

    for name, broken, code in (("fsync", full, 1), ("rename", interrupted, 130)):
        with monkeypatch.context() as patch:
            if name == "fsync":
                patch.setattr(os, "fsync", broken)
            else:
                patch.setattr(Path, "rename", broken)
            result = cesaro(*arguments, "--force")
        assert result.exit_code == code, result.output
        assert result.stderr.count("\n") == (code > 0)
        assert names(out) == FILES
        assert names(tmp_path) == ["log.parquet", "out"]
        assert (out / "evaluation.json").read_bytes() == before


@pytest.mark.usefixtures("blank_pictures")
def test_files_of_others_stay(saved: tuple[Result, Path], log: Path, tmp_path: Path) -> None:
    out, partial = shutil.copytree(saved[1], tmp_path / "out"), tmp_path / "out.partial"
    partial.mkdir()
    (partial / "notes.txt").touch()
    refused = cesaro("evaluate", log, *POLICY, *COLUMNS, "--quiet", "--out", out, "--force")
    assert refused.exit_code == 2
    assert "holds 'notes.txt' and is in the way" in refused.stderr
    assert (partial / "notes.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.parquet", *POLICY, *COLUMNS], "nowhere.parquet"),
        (["log.parquet", *POLICY, "--observation", "stat", *COLUMNS[2:]], 'did you mean "state"?'),
        (["log.parquet", *POLICY], "the columns of action and reward must be known"),
        (["log.parquet", "--policy", "nobody", *COLUMNS], "policy must be uniform"),
        (["log.parquet", "--policy", "constant:fly", *COLUMNS], "'fly'"),
        (["log.parquet", "--policy", "bad.py:policy", *COLUMNS], "cannot be loaded"),
        (["log.parquet", "--policy", "=uniform", *COLUMNS], "must have a name before '='"),
        (["log.parquet", *POLICY, "--policy", "b=uniform", *COLUMNS], "for several: cesaro compare"),
        (["log.parquet", *POLICY, *COLUMNS, "--ridge", "much"], "--ridge must be auto or a number ≥ 0. Got 'much'."),
        (["log.parquet", *POLICY, *COLUMNS, "--ridge", "-1"], "ridge must be a number ≥ 0 and < 1e+30. Got -1.0."),
        (["log.parquet", *POLICY, *COLUMNS, "--ridge", "nan"], "ridge must be a number ≥ 0 and < 1e+30. Got nan."),
        (["log.parquet", *POLICY, *COLUMNS, "--confidence", "1"], "confidence must be a number > 0 and < 1"),
        (["log.parquet", *POLICY, *COLUMNS, "--confidence", "95"], "confidence must be a number > 0 and < 1"),
        (["log.parquet", *POLICY, *COLUMNS, "--seed", "-1"], "random_state must be an integer ≥ 0"),
        (["log.parquet", *POLICY, *COLUMNS, "--draws", "0"], "draws must be an integer ≥ 1"),
        (["log.parquet", *POLICY, *COLUMNS, "--features", "magic"], "features must be one of"),
        (["log.parquet", *POLICY, *COLUMNS, "--standard-errors", "none"], "standard_errors must be one of"),
        (["log.parquet", *POLICY, *COLUMNS, "--kind", "state"], "--kind must be COLUMN=category or COLUMN=number"),
        (["log.parquet", *POLICY, *COLUMNS, "--kind", "hour=category"], 'Got "hour"'),
        (["log.parquet", *POLICY, *COLUMNS, "--kind", "state=category", "--kind", "state=number"], "one thing about"),
        (["log.parquet", *POLICY, *COLUMNS, "--method", "magic"], "method must be one of auto, diff-lstd, diff-sgq"),
        (
            ["log.parquet", *POLICY, *COLUMNS, "--set", "steps"],
            "--set must be NAME=VALUE, each name once. Got 'steps'.",
        ),
        (["log.parquet", *POLICY, *COLUMNS, "--set", "draws=3"], "use --draws"),
        (["log.parquet", *POLICY, *COLUMNS, "--set", "steps=3"], "has no setting steps; it has"),
        (["log.parquet", *POLICY, *COLUMNS, "--reward-lag", "2"], "reward_lag must be 0 or 1. Got 2"),
        (["log.parquet", *POLICY, *COLUMNS, "--on-truncation", "stop"], "on_truncation must be one of"),
        (["log.parquet", *POLICY, *COLUMNS, "--ignore", "reward"], "--ignore must be one of next_observation"),
        (["log.parquet", *POLICY, *COLUMNS, "--ignore", "time", "--time", "earned"], "exclude each other"),
        (["log.parquet", *POLICY, *COLUMNS, "--out", "missing/out"], "does not exist; create it"),
        (["log.parquet", *POLICY, *COLUMNS, "--out", "log.parquet"], "exists and is a file, not a folder"),
        (["log.parquet", *POLICY, *COLUMNS, "--out", "/", "--force"], "--force leaves it alone"),
        (["a\nb\x1b[31m.parquet", *POLICY, *COLUMNS], r"a\nb\x1b[31m.parquet"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("import nothing_of_this_name", encoding="utf-8")
    if "--out" not in arguments:
        arguments = [*arguments, "--out", "out"]
    result = cesaro("evaluate", *arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert [name for name in names(tmp_path) if name != "__pycache__"] == ["bad.py", "log.parquet"]


def test_a_rate_that_the_log_does_not_identify_is_an_error_and_a_ridge_overrides(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    pq.write_table(table(label="run").slice(0, 40), file)
    policy = tmp_path / "p.csv"
    policy.write_text("state,stay,run\n0,1,0\n1,1,0\n2,1,0\n", encoding="utf-8")
    arguments = ("evaluate", file, "--policy", policy, *COLUMNS, "--quiet")
    result = cesaro(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "does not identify one rate" in result.stderr
    answered = cesaro(*arguments, "--ridge", "0.001")
    assert answered.exit_code == 0, answered.output
    assert "Warning: The log does not identify one rate" in answered.stdout


def test_an_answer_with_a_bad_verdict_is_an_answer(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    pq.write_table(table(12), file)
    result = cesaro("evaluate", file, *POLICY, *COLUMNS, "--ridge", "1", "--json", "--quiet")
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (0, "bad")


def test_actions_that_are_not_possible_everywhere(tmp_path: Path) -> None:
    """`uniform` is refused, and the policy that the message proposes is not."""
    rng, states, possible = np.random.default_rng(0), [0], []
    actions = []
    for _ in range(600):
        possible.append(["go"] if states[-1] == 2 else ["go", "stay"])
        actions.append(str(rng.choice(possible[-1])))
        states.append((states[-1] + (actions[-1] == "go")) % 3)
    file = tmp_path / "log.parquet"
    columns = {"state": states[:-1], "done": actions, "earned": rng.normal(size=600), "available": possible}
    pq.write_table(pa.table(columns), file)
    refused = cesaro("evaluate", file, "--policy", "uniform", *COLUMNS, "--quiet")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "Got probability 0.5 for action 'stay' at the observation 2, where only 'go' is possible" in refused.stderr
    shape = re.search(r"spread = (.*), where possible\(s\) is true or false, shape \[n, 2\]", refused.stderr)
    assert shape is not None
    policy = tmp_path / "rule.py"
    policy.write_text(
        "import cesaro, cesaro.policies\nimport numpy as np\n\n"
        "def possible(s):\n    return np.column_stack([s >= 0, s != 2])\n\n"
        f"spread = {shape[1]}\n",
        encoding="utf-8",
    )
    answered = cesaro("evaluate", file, "--policy", f"{policy}:spread", *COLUMNS, "--quiet")
    assert answered.exit_code == 0, answered.output


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.1", 0.1),
        ("64,64", (64, 64)),
        ("64, 32", (64, 32)),
        ("64,", (64,)),
        ("64,x", "64,x"),
        ("auto", "auto"),
        ("", ""),
    ],
)
def test_settings_are_numbers_several_whole_ones_or_text(text: str, value: Any) -> None:
    assert evaluate._value(text) == value


def test_a_learned_method_with_settings_of_its_own(log: Path) -> None:
    options = ("--method", "diff-gq1", "--set", "steps=2000", "--set", "seeds=2", "--set", "step_size=0.1", "--json")
    result = cesaro("evaluate", log, "--policy", "uniform", *COLUMNS, *options, "--quiet")
    assert result.exit_code == 0, result.output
    used = json.loads(result.stdout)["settings"]
    assert (used["steps"], used["seeds"], used["step_size"]) == (2000, 2, 0.1)


def test_compare_ranks_and_pairs(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("compare", log, "--policy", "coin=uniform", "--policy", "always=constant:go", *COLUMNS, "--quiet")
    said = cesaro(*arguments, "--out", out)
    assert said.exit_code == 0, said.output
    assert "Paired differences" in said.stdout
    assert max(map(len, said.stdout.splitlines()[:-1])) <= 80
    of_each = [f"{name[:-4]}_{rank}.png" for name in PICTURES if name != "rates.png" for rank in (1, 2)]
    assert names(out) == sorted([".cesaro", "comparison.json", "rates.png", "report.html", "report.txt", *of_each])
    found = json.loads(cesaro(*arguments, "--json").stdout)
    written = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    assert all(one["run"].pop("made") for answer in (found, written) for one in answer["evaluations"])
    assert found == written
    assert found["schema"] == "cesaro-comparison/2"
    assert [entry["policy"] for entry in found["evaluations"]] == ["coin", "always"]
    (difference,) = found["differences"]
    assert (difference["policy"], difference["minus"]) == ("coin", "always")
    rates = [entry["reward_rate"]["value"] for entry in found["evaluations"]]
    assert difference["value"] == pytest.approx(rates[0] - rates[1])


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (["uniform"], "compare takes at least two --policy options. Got 1"),
        (["a=uniform", "a=constant:go"], "'a' twice; write --policy NAME=constant:go"),
        (["uniform", "uniform"], "'uniform' twice"),
    ],
)
def test_compare_needs_two_names(log: Path, policies: list[str], message: str) -> None:
    result = cesaro("compare", log, *COLUMNS, *(word for policy in policies for word in ("--policy", policy)))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert message in result.stderr


NAME = "[red]x[bold] $x^{$ \x1b[31m\n\u202e 漢 \udcff"
UNIT = f"{NAME} [/red] $\\frac$"


def test_hostile_text_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    label, column = "[bold]go\x1b]0;title\x07", "[link=x]state\n"
    log, out = tmp_path / "log.parquet", tmp_path / "out"
    pq.write_table(table(state=column, label=label), log)
    columns = ("--observation", column, "--action", "done", "--reward", "earned")
    arguments: tuple[Any, ...] = (
        log,
        *columns,
        "--unit",
        UNIT,
        "--policy",
        f"{NAME}=constant:{label}",
        "--quiet",
    )
    result = cesaro("evaluate", *arguments, "--out", out)
    assert result.exit_code == 0, result.output
    report = (out / "report.txt").read_text(encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "30")
    narrow = cesaro("evaluate", *arguments)
    assert narrow.exit_code == 0, narrow.output
    for text in (result.stdout, narrow.stdout, report):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    for piece in ("[red]x[bold]", r"\x1b[31m\n\u202e", "漢", r"\udcff", "[link=x]state"):
        assert piece in re.sub(r"\s+", " ", report)
    found = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert (found["policy"], found["unit"]) == (NAME, UNIT)
    printed = json.loads(cesaro("evaluate", *arguments, "--json").stdout)
    assert printed["run"].pop("made")
    assert found["run"].pop("made")
    assert printed == found


def test_numbers_are_never_cut(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("evaluate", log, *COLUMNS, "--policy", f"{'long ' * 20}=uniform", "--quiet")
    digits = []
    for width in (20, 30, 45, 80, 300):
        monkeypatch.setenv("COLUMNS", str(width))
        said = cesaro(*arguments).stdout
        assert max(map(len, said.splitlines())) <= width
        digits.append(sorted(re.findall(r"[0-9+-]", said[said.index("Reward per") : said.index("Used:")])))
        if width >= 80:
            low, high = re.findall(r"interval (-?[\d.]+) to ([\d.]+)\)", " ".join(said.split()))[0]
            assert f"{low} … {high}" in said
    assert all(found == digits[0] for found in digits)


def test_a_terminal_without_unicode_gets_escapes(log: Path) -> None:
    command = [*COMMAND, "evaluate", str(log), *POLICY, *COLUMNS, "--unit", "€"]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert rb"\u20ac in the long run" in b" ".join(done.stdout.split())


def test_columns_that_are_in_the_way_can_be_ignored(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    rows = "".join(f"{t % 2},{t % 3 % 2},{t % 5},0\n" for t in range(400))
    file.write_text(f"state,action,reward,done\n{rows}", encoding="utf-8")
    asked = cesaro("evaluate", file, *POLICY)
    assert (asked.exit_code, asked.stderr.count("\n")) == (2, 1)
    assert 'the column "done" may mean' in asked.stderr
    assert cesaro("evaluate", file, *POLICY, "--ignore", "terminated", "--ignore", "truncated").exit_code == 0
    assert cesaro("evaluate", file, *POLICY, "--terminated", "done", "--ignore", "truncated").exit_code == 0


def test_gaps_in_time_can_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "calls.parquet"
    time = np.cumsum(np.random.default_rng(1).exponential(size=2_000))
    pq.write_table(table().append_column("time", pa.array(time)), file)
    arguments = ("evaluate", file, *POLICY, *COLUMNS, "--json", "--quiet")
    cut, kept = (json.loads(cesaro(*arguments, "--gap", gap).stdout)["log"] for gap in ("1.5", "none"))
    assert cut["rows"] < 1_500
    assert (kept["rows"], kept["counts"]["cuts"]) == (1_999, 0)
    for wrong in ("much", "0.1"):
        refused = cesaro(*arguments, "--gap", wrong)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert "a number ≥ 1" in refused.stderr


@pytest.mark.parametrize("command", ["evaluate", "compare", "doctor"])
def test_help_loads_nothing_heavy(command: str) -> None:
    code = (
        "import sys\nfrom cesaro.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print('loaded:', {'jax', 'matplotlib', 'sklearn', 'numpy', 'scipy', 'pyarrow'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: set()\n")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_is_one_line_and_leaves_nothing(tmp_path: Path, log: Path) -> None:
    policy, started = tmp_path / "slow.py", tmp_path / "started"
    policy.write_text(
        f"import pathlib, time\ndef slow(s):\n    pathlib.Path({str(started)!r}).touch()\n    time.sleep(60)\n",
        encoding="utf-8",
    )
    # A shell starts background jobs with interrupts ignored, and children inherit that.
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    command = [*COMMAND, "evaluate", str(log), "--policy", f"{policy}:slow", *COLUMNS, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", heed, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "interrupted: nothing was written.\n")
    assert not {"out", "out.partial"} & set(names(tmp_path))


def test_help_says_what_a_log_and_the_automatic_ridge_are() -> None:
    said = " ".join(re.sub(r"[^\w\s:;,.'-]", " ", cesaro("evaluate", "--help").stdout).split())
    assert "a folder or pattern of Parquet, CSV or Arrow files" in said
    assert "auto: none for the closed form; for learned methods on our own features 1e-6 of the features' mean" in said


# Verdicts for scheduled jobs, and costs


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [("ok", "caution", 0), ("caution", "bad", 0), ("caution", "caution", 3), ("bad", "caution", 3), ("bad", "bad", 3)],
)
def test_fail_on_exits_with_3(
    log: Path, monkeypatch: pytest.MonkeyPatch, verdict: str, fail_on: str, code: int
) -> None:
    monkeypatch.setattr("cesaro.evaluation.Evaluation.verdict", property(lambda _: verdict))
    assert cesaro("evaluate", log, *POLICY, *COLUMNS, "--quiet", "--fail-on", fail_on).exit_code == code


def test_fail_on_comes_after_the_document_and_the_folder(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cesaro.evaluation.Evaluation.verdict", property(lambda _: "bad"))
    monkeypatch.setattr("cesaro.report.words.reasons", lambda _: ["odd", "worse"])
    given = (log, *POLICY, *COLUMNS, "--quiet", "--json", "--fail-on", "bad")
    failed = cesaro("evaluate", *given, "--out", tmp_path / "answer")
    assert (failed.exit_code, json.loads(failed.stdout)["verdict"]) == (3, "bad")
    assert sorted(os.listdir(tmp_path / "answer")) == FILES
    assert failed.stderr.endswith("--fail-on bad: the verdict on 'uniform' is bad (odd, worse).\n")
    several = cesaro("compare", *given, "--policy", "constant:go")
    assert (several.exit_code, json.loads(several.stdout)["ranking"]) == (3, [])


def test_a_log_of_costs_speaks_of_costs(tmp_path: Path) -> None:
    costs = table()
    costs = costs.append_column("bill", pa.array([0.0 - value for value in costs["earned"].to_pylist()]))
    file = tmp_path / "log.parquet"
    pq.write_table(costs, file)
    given = ("evaluate", file, *POLICY, "--observation", "state", "--action", "done", "--quiet")
    rewards, bills = cesaro(*given, "--reward", "earned", "--json"), cesaro(*given, "--cost", "bill", "--json")
    one, other = json.loads(rewards.stdout), json.loads(bills.stdout)
    assert (one["cost"], other["cost"]) == (None, "bill")
    assert other["reward_rate"] == one["reward_rate"]
    assert 'speak of rewards, which are minus "bill"' in " ".join(other["log"]["notes"])
    assert (other["log"]["columns"]["cost"], "reward" in other["log"]["columns"]) == (["bill"], False)
    text = " ".join(cesaro(*given, "--cost", "bill").stdout.split())
    assert "'uniform' would cost -0." in text
    assert "action done; cost bill." in text
    assert "Found by name" not in text
    assert "than the log cost" in text or "from what the log cost" in text
    streamed = cesaro(*given, "--cost", "bill", "--json", "--stream")
    assert json.loads(streamed.stdout)["reward_rate"] == other["reward_rate"]


def refusal(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["evaluate", str(QUEUE), *map(str, arguments)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("method", [(), ("--method", "diff-lstd")])
def test_options_of_learned_methods_name_them(method: tuple[str, ...]) -> None:
    said = refusal("--policy", "uniform", *method, "--approximator", "mlp")
    assert "--approximator is for learned methods" in said
    assert "Got --approximator mlp; add --method and one of diff-sgq, diff-gq1, " in said
    assert "gradient-dice" in said


def test_shipped_needs_its_environment() -> None:
    said = refusal("--policy", "shipped")
    assert "policy 'shipped' must name its environment" in said
    assert "shipped:HalfCheetah-v5" in said
