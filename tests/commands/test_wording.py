"""The command line names its own options where Python messages name arguments."""

import ast
import copy
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cesaro
from cesaro.cli import app
from cesaro.data.columns import ColumnPlace, kind_argument
from cesaro.data.roles import find_roles, ignored
from cesaro.errors import InputError
from cesaro.text import GIVE, Sentence, Wording, argument, for_command_line, option


def said(file: Path, *options: str) -> str:
    result = CliRunner().invoke(app, ["evaluate", str(file), "--policy", "uniform", "--quiet", *options])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    return result.stderr


def rows(file: Path, head: str, row: str, count: int = 40) -> Path:
    lines = [row.format(t=t, half=t // 2, state=t % 3, action=t % 2) for t in range(count)]
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return rows(tmp_path / "calls.csv", "load,hour,action,reward", "{t}.5,{state},{action},{t}")


def test_no_observation_column(calls: Path) -> None:
    assert said(calls).endswith("; give --observation COLUMN; cesaro inspect proposes columns.\n")


def test_unknown_column(calls: Path) -> None:
    error = said(calls, "--observation", "laod")
    assert 'must have the column "laod" that --observation names' in error
    assert error.endswith('did you mean "load"?\n')


def test_columns_with_a_comma(calls: Path) -> None:
    error = said(calls, "--observation", "load,hour")
    assert error.endswith("; repeat the option: --observation load --observation hour.\n")


def test_a_column_that_is_taken(calls: Path) -> None:
    error = said(calls, "--observation", "load", "--observation", "reward")
    assert '("reward" is already used as observation); give --reward COLUMN; cesaro inspect' in error


def test_equal_times(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "state,action,reward,time", "{state},{action},1,{half}")
    remedy = "such as the hour, or give --ignore time in place of --time if the file is in order.\n"
    assert said(file).endswith(remedy)


def test_ambiguous_done(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "state,action,reward,done", "{state},{action},1,0")
    remedy = "--ignore terminated --ignore truncated"
    assert said(file).endswith(f"; give --terminated done, or {remedy} to leave it out.\n")
    assert said(file, "--ignore", "done").endswith(f"; for that column: {remedy}.\n")


def test_text_among_numbers(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "the load,action,reward", "{state},{action},1")
    with file.open("a", encoding="utf-8") as stream:
        stream.write("closed,0,1\n")
    error = said(file, "--observation", "the load")
    assert error.endswith("correct that entry, or give --kind 'the load=category' if these are labels.\n")


def test_notes(tmp_path: Path) -> None:
    file = rows(tmp_path / "log.csv", "state,action,reward,weight", "{state},{action},{t},1")
    result = CliRunner().invoke(app, ["evaluate", str(file), "--policy", "uniform", "--quiet", "--ridge", "0.1"])
    assert result.exit_code == 0, result.output
    assert "give --weight weight if rows should count by it" in " ".join(result.stdout.split())


def test_remedies_name_options(tmp_path: Path) -> None:
    """Findings, refusals and warnings, in the words of who reads them."""
    file, draws = tmp_path / "log.csv", np.random.default_rng(0).normal(size=(300, 3)).round(3)
    lines = [f"{one},{t % 2},{two},{three}" for t, (one, two, three) in enumerate(draws)]
    file.write_text("\n".join(["state,action,reward,next_state", *lines]), encoding="utf-8")
    result = CliRunner().invoke(app, ["evaluate", str(file), "--policy", "uniform", "--quiet", "--json"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    remedies = {entry["name"]: entry["remedy"] for entry in answer["diagnostics"]}
    assert "(--trajectory COLUMN, --time COLUMN)" in remedies["order of rows"]
    assert "--standard-errors independent" in remedies["order of rows"]
    assert "--standard-errors long-run" in answer["warnings"][0]
    assert "=" not in "".join(remedies.values())
    python = cesaro.evaluate(cesaro.read(file), "uniform", quiet=True)
    assert 'standard_errors="long-run"' in python.warnings[0]
    assert "--" not in "".join(entry.remedy for entry in python.diagnostics)


@pytest.mark.parametrize(
    ("sentence", "python", "command"),
    [
        (
            Sentence("as {pattern} says", pattern=argument("observation", "obs_*")),
            'as observation="obs_*" says',
            "as --observation 'obs_*' says",
        ),
        (
            Sentence(
                "{give} {labels} or {numbers}.",
                give=GIVE,
                labels=kind_argument("a", "category"),
                numbers=kind_argument("a", "number"),
            ),
            'pass kinds={"a": "category"} or kinds={"a": "number"}.',
            "give --kind a=category or --kind a=number.",
        ),
        (
            Sentence(
                "{give} {ignored}, or {kinds} if so.",
                give=GIVE,
                ignored=ignored(["available"]),
                kinds=Wording("kinds=", "--kind"),
            ),
            "pass available=False, or kinds= if so.",
            "give --ignore available, or --kind if so.",
        ),
        (Sentence("leave {weight} out", weight=argument("weight")), "leave weight= out", "leave --weight out"),
        (
            Sentence("{give} {both}", give=GIVE, both=ignored(["terminated", "truncated"])),
            "pass terminated=False and truncated=False",
            "give --ignore terminated --ignore truncated",
        ),
        (
            Sentence("give {next}, longer trajectories", next=argument("next_observation")),
            "give next_observation=, longer trajectories",
            "give --next-observation, longer trajectories",
        ),
        (
            Sentence("{remedy}, or not", remedy=Sentence("leave {weight} out", weight=argument("weight", "a b"))),
            'leave weight="a b" out, or not',
            "leave --weight 'a b' out, or not",
        ),
        # Text of users is no template, quotes and braces included, and says nothing about arguments.
        (
            Sentence(
                "Got {text}; {give} {time}.", text="{give} time= {0}", give=GIVE, time=argument("time", '{x} "y"')
            ),
            'Got {give} time= {0}; pass time="{x} "y"".',
            "Got {give} time= {0}; give --time '{x} \"y\"'.",
        ),
        (Sentence("{kind}", kind=kind_argument("{a}", "number")), 'kinds={"{a}": "number"}', "--kind '{a}=number'"),
        (Sentence("{time}", time=argument("time", "a\nb")), 'time="a\\nb"', "--time 'a\\nb'"),
        (Sentence("{ridge}", ridge=option("ridge", "0.1")), "--ridge 0.1", "--ridge 0.1"),
    ],
)
def test_sentences(sentence: Sentence, python: str, command: str) -> None:
    assert (sentence, sentence.command_line) == (python, command)
    assert str(InputError(sentence)) == python
    assert for_command_line(InputError(sentence).message) == command
    assert json.loads(json.dumps({"notes": [sentence]})) == {"notes": [python]}
    for again in (pickle.loads(pickle.dumps(sentence)), copy.deepcopy(sentence)):
        assert (again, again.command_line) == (python, command)
    error = pickle.loads(pickle.dumps(InputError(sentence)))
    assert (str(error), for_command_line(error.message)) == (python, command)


@pytest.mark.parametrize(
    "text", ["method='magic' has no setting steps.", "reward_lag must be 0 or 1. Got 2.", "{time}="]
)
def test_other_messages_stay_as_they_are(text: str) -> None:
    assert for_command_line(InputError(text).message) == text
    assert for_command_line(InputError().message) == ""


def test_column_names_with_braces() -> None:
    names = ("{load}", "action", "reward", "{}")
    with pytest.raises(InputError) as caught:
        find_roles("{log}", names, {"observation": "{load},{}"})
    assert str(caught.value).endswith('; pass observation=["{load}", "{}"].')
    assert for_command_line(caught.value.message).endswith(
        "repeat the option: --observation '{load}' --observation '{}'."
    )
    error = ColumnPlace("{log}", "{load}", (("{log}", 3),)).error("must be {clear}", "{0}", "mend {it}")
    assert str(error) == '{log}: column "{load}" must be {clear}. Got {0}; mend {it}.'


ARGUMENTS = (
    *("observation", "action", "reward", "next_observation", "trajectory", "time", "terminated", "truncated", "weight"),
    *("available", "on_termination", "on_truncation", "kinds"),
)
COMPUTED = "\0"
# An argument of `read` by its name, or one whose name is computed and which looks like one.
ARGUMENT = re.compile(rf"(?<![\w-])({'|'.join(ARGUMENTS)})=|{COMPUTED}=([\s\"\[,;.)]|False|$)")


def _pieces(node: ast.AST) -> list[str]:
    """The text of a string, or of an f-string, with a mark where something is computed."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    assert isinstance(node, ast.JoinedStr)
    return ["".join(str(part.value) if isinstance(part, ast.Constant) else COMPUTED for part in node.values)]


def _said(tree: ast.AST) -> list[str]:
    """All text of a module but for docstrings, wordings and the insides of f-strings."""
    found: list[str] = []
    for node in ast.iter_child_nodes(tree):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if called == "Wording" or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        found += _pieces(node) if isinstance(node, ast.Constant | ast.JoinedStr) else _said(node)
    return found


def test_no_message_names_an_argument_but_in_a_wording() -> None:
    """Text that gives the option as well, in parentheses, serves both."""
    root = Path(cesaro.__file__).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        said = _said(ast.parse(file.read_text(encoding="utf-8")))
        if wrong := [text for text in said if ARGUMENT.search(text) and "(--" not in text]:
            found[str(file.relative_to(root))] = wrong
    assert found == {}
