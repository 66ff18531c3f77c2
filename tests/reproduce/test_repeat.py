"""`cesaro reproduce --from manifest.json`: what it repeats, what it says, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from cesaro.cli import app
from cesaro.errors import InputError
from cesaro.reproduce import assumption, boyan, study

pytestmark = pytest.mark.slow  # studies and sweeps that take seconds to compile

TINY: dict[str, Any] = {"step_sizes": (2.0**-6, 2.0**-4), "runs": 2, "samples": 100}


def cesaro(*arguments: str | Path) -> Outcome:
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("repeat") / "out"
    study.run(boyan.Config(methods=("diff-sgq", "gradient-dice"), pi0s=(0.1,), **TINY), out, quiet=True)
    return out


def changed(recorded: Path, file: Path, **changes: Any) -> Path:
    """The manifest with some entries replaced."""
    manifest = json.loads((recorded / "manifest.json").read_text(encoding="utf-8"))
    file.write_text(json.dumps(manifest | changes), encoding="utf-8")
    return file


def test_a_study_repeats_from_its_manifest(recorded: Path, tmp_path: Path) -> None:
    result = cesaro("--from", recorded / "manifest.json", "--out", tmp_path / "again", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "Repeated: the summary is identical to the manifest's."
    assert f"Results: {tmp_path / 'again'}" in result.stdout
    for name in ("boyan.csv", "best.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (recorded / name).read_bytes()
    once_more = cesaro("--from", recorded / "manifest.json", "--out", tmp_path / "again")
    assert once_more.exit_code == 2
    assert "add --force" in once_more.stderr


def test_the_default_folder_is_the_studys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study.run(assumption.Config(sizes=(5,), trials=3), tmp_path / "first", quiet=True)
    assert cesaro("--from", "first/manifest.json").exit_code == 0
    assert (tmp_path / "out" / "assumption" / "assumption.csv").exists()
    assert cesaro("--from", "first/manifest.json").exit_code == 2
    assert cesaro("--from", "first/manifest.json", "--force").exit_code == 0


@pytest.mark.slow
def test_another_summary_is_shown_and_fails(recorded: Path, tmp_path: Path) -> None:
    summary = json.loads((recorded / "manifest.json").read_text(encoding="utf-8"))["summary"]
    summary["methods"]["diff-sgq"]["mean_final_error"] = 7.5
    file = changed(recorded, tmp_path / "m.json", summary={**summary, "gone": 1})
    result = cesaro("--from", file, "--out", tmp_path / "again", "--quiet")
    assert result.exit_code == 1
    *_, head, first, second = result.stdout.splitlines()
    assert head == "NOT repeated: the summary differs from the manifest's."
    assert first.startswith("  methods.diff-sgq.mean_final_error: 7.5 in the manifest, ")
    assert second == "  gone: 1 in the manifest, None here"
    assert (tmp_path / "again" / "manifest.json").exists()


@pytest.mark.slow
def test_other_versions_are_noted_in_one_line(recorded: Path, tmp_path: Path) -> None:
    versions = json.loads((recorded / "manifest.json").read_text(encoding="utf-8"))["versions"]
    file = changed(recorded, tmp_path / "m.json", versions={**versions, "jax": "0.0.1", "fortran": "77"})
    result = cesaro("--from", file, "--out", tmp_path / "again", "--quiet")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: other versions than in the manifest (jax 0.0.1 then, ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "cesaro-study/99"}, "must be a manifest of schema 'cesaro-study/1'. Got schema 'cesaro-study/99'."),
        ({"study": "mystery"}, "must be one of assumption, boyan"),
        ({"settings": None}, "has no valid settings; it may be damaged"),
        ({"settings": {"pi0s": [0.1]}}, "(missing: lams, methods, misfit, radius, "),
        ({"settings+": {"color": "red"}}, "(unknown: color)"),
        ({"settings+": {"runs": "many"}}, "The setting 'runs' of"),
        ({"settings+": {"runs": True}}, "must look like 30. Got True."),
        ({"settings+": {"pi0s": 0.1}}, "The setting 'pi0s' of"),
        ({"settings+": {"pi0s": ["a"]}}, "The setting 'pi0s' of"),
        (
            {"settings+": {"samples": 150}},
            "'samples' setting of the boyan study must be a positive multiple of 100 below",
        ),
    ],
)
def test_wrong_manifests_are_refused(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    if more := changes.get("settings+"):
        settings = json.loads((recorded / "manifest.json").read_text(encoding="utf-8"))["settings"]
        changes = {"settings": settings | more}
    file = changed(recorded, tmp_path / "m.json", **changes)
    monkeypatch.chdir(tmp_path)
    result = cesaro("--from", file)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert message in result.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "\x00"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"is not readable JSON|must be a manifest of schema"):
        study.read(tmp_path / "m.json")
    with pytest.raises(InputError, match="does not exist"):
        study.read(tmp_path / "missing.json")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        study.read(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--force"], "needs the name of a study, or --from manifest.json"),
        (
            ["--out", "x", "boyan"],
            "belong to --from alone, but for --engine and --address; write: reproduce boyan OPTIONS",
        ),
        (["--from", "m.json", "assumption"], "belong to --from alone"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cesaro(*arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_features_that_misfit_have_a_folder_and_a_table_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boyan.Config, "ABOUT", replace(boyan.Config.ABOUT, quick=TINY))
    result = cesaro("boyan", "--quick", "--misfit", "--quiet")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("What the features cannot express")
    text = " ".join(result.stdout.split())
    assert "Verdict: the claim " in text
    assert "This is not the full study" in text
    assert lines[-1] == "Results: out/boyan_misfit (boyan.csv, best.csv, boyan.png, step_size.png, manifest.json)"
    manifest = json.loads((tmp_path / "out" / "boyan_misfit" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["command"] == "cesaro reproduce boyan --quick --seed 0 --start zero --misfit"
    assert manifest["summary"]["panels"] == 13
