"""The package as strangers get it: the wheel, installed where the repository is not.

The environment is empty but for the dependencies, which it borrows from the one that runs the tests: that the package index
gives them is not tested here.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cesaro

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(*words: str | Path, cwd: Path) -> str:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=inherited, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel."""
    folder = tmp_path_factory.mktemp("stranger")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("cesaro-*.whl")
    assert wheel.stat().st_size < 10_000_000
    made = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", made, cwd=folder)
    python = made / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # The .pth files in these folders, one of which leads to the repository, are not read.
    borrowed = [place for place in sys.path if Path(place).name == "site-packages"]
    (packages / "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    assert run(python, "-c", "import cesaro; print(cesaro.__file__)", cwd=folder).startswith(str(packages))
    assert (packages / "cesaro" / "py.typed").exists()
    assert not (packages / "research").exists()
    return made


@pytest.mark.slow
def test_the_examples_of_the_wheel_give_the_answer_of_the_readme(environment: Path, tmp_path: Path) -> None:
    said = run(environment / "bin" / "cesaro", "examples", cwd=tmp_path)
    first = said[said.index("cesaro evaluate") :]
    printed = re.search(r"^(?:\S*/)?(cesaro evaluate examples/queue.*?) --out \S+$", README, flags=re.M | re.S)
    assert printed
    assert first.split() == [*printed[1].split(), "--out", "answer"]
    run("bash", "-c", f"PATH={environment / 'bin'}:$PATH; {first}", cwd=tmp_path)
    answer = json.loads((tmp_path / "answer" / "evaluation.json").read_text(encoding="utf-8"))
    assert f"{answer['reward_rate']['value']:.3f}" in README
    written = {path.name for path in (tmp_path / "examples").iterdir() if path.name != ".cesaro"}
    assert written == {path.name for path in (ROOT / "examples").iterdir() if path.name != "__pycache__"}


SCRIPT = """\
import cesaro as cs

log = cs.read("queue.parquet", observation=["free_servers"], kinds={"free_servers": "category"})
answer = cs.evaluate(log, "uniform", unit="per customer")
reveal_type(answer)
reveal_type(answer.reward_rate)
reveal_type(answer.interval())
reveal_type(cs.compare(log, {"a": "uniform", "b": "logged"}))
reveal_type(cs.DiffLSTD().fit(log, "uniform"))
queue = cs.problems.access_control_queue()
reveal_type(cs.exact.reward_rate(queue.mdp, queue.policy))
cs.evaluate(log, "uniform", unit=3)
"""
REVEALED = [
    "cesaro.evaluation.Evaluation",
    "float",
    "tuple[float, float]",
    "cesaro.comparison.Comparison",
    "cesaro.estimators.diff_lstd.DiffLSTD",
    "float",
]


@pytest.mark.slow
def test_the_type_checker_of_a_user_sees_the_hints(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        environment / "bin" / "python",
        "script.py",
    ]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stdout.replace("builtins.", "")
    assert re.findall(r'Revealed type is "(.*)"', said) == REVEALED, said + done.stderr
    errors = [line for line in said.splitlines() if " error: " in line]
    assert len(errors) == 1, said
    assert errors[0].startswith('script.py:12: error: Argument "unit" to "evaluate" has incompatible type "int"')


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {cesaro.__version__}\n" in citation


def test_the_versions_of_python_are_those_of_the_workflow() -> None:
    """Classifiers name what runs; the workflow may try newer ones."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    tried = re.findall(r'"(3\.\d+)"', workflow.partition("matrix:")[2].partition("]")[0])
    assert project["requires-python"] == f">={named[0]}"
    assert named == tried[: len(named)]
