"""One reader for JSON from outside: what it refuses, and that nothing goes round it."""

import ast
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cesaro
from cesaro import documents, files
from cesaro.cli import app
from cesaro.data.settings import carried_settings
from cesaro.documents import MAX_DEPTH, parse, read
from cesaro.errors import InputError

DEEP = "[" * 100_000


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [None, 1, 10**300, 0.5, "a", [], {}, {"a": [1, {"b": "\ud800"}]}, nested(MAX_DEPTH)])
def test_documents_come_back(value: Any, tmp_path: Path) -> None:
    assert parse(json.dumps(value)) == parse(json.dumps(value).encode()) == value
    (tmp_path / "a.json").write_text(json.dumps(value), encoding="utf-8")
    assert read(tmp_path / "a.json") == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (DEEP, "nested more than 100 levels deep"),
        (DEEP + DEEP.replace("[", "]"), "nested more than 100 levels deep"),
        ('{"a":' * 50_000, "nested more than 100 levels deep"),
        (json.dumps(nested(MAX_DEPTH + 1)), "nested more than 100 levels deep"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' occurs twice in one object"),
        ("[NaN]", "NaN is not a number in JSON"),
        ("-Infinity", "-Infinity is not a number in JSON"),
        ("[1e999]", "1e999 is not a number that a float can hold"),
        ("9" * 5_000, "integer string conversion"),
        (b"\xff", "invalid start byte"),
        ("", "Expecting value"),
        ("{} {}", "Extra data"),
    ],
)
def test_documents_that_are_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse(text)


def test_only_regular_files_of_a_moderate_size_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match="no regular file"):
            read(path)
    with pytest.raises(OSError, match="directory"):
        read(tmp_path)
    monkeypatch.setattr(documents, "MAX_BYTES", 10)
    (tmp_path / "a.json").write_text("[1, 2, 3, 4, 5]", encoding="utf-8")
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read(tmp_path / "a.json")


def test_manifest_nested_deeply(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(DEEP, encoding="utf-8")
    result = CliRunner().invoke(app, ["reproduce", "--from", str(tmp_path / "manifest.json")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert "not readable JSON (nested more than 100 levels deep); give the manifest.json of a study." in result.stderr


def test_metadata_of_a_log_nested_deeply() -> None:
    with pytest.raises(
        InputError, match=r'"cesaro" must be a JSON object. Got b.* \(nested more than 100 levels deep\)'
    ):
        carried_settings("log", {b"cesaro": DEEP.encode()})


def test_stores_nested_deeply(tmp_path: Path) -> None:
    import numpy as np

    np.savez(tmp_path / "a.npz", meta=np.array(DEEP))
    with pytest.raises(InputError, match="is not a file of this package"):
        files.read_arrays(tmp_path / "a.npz", "any")


def test_nothing_else_parses_json() -> None:
    root = Path(cesaro.__file__).parent
    found = [
        f"{file.relative_to(root)}:{node.lineno}"
        for file in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("load", "loads", "JSONDecoder")
        and isinstance(node.value, ast.Name)
        and node.value.id == "json"
    ]
    assert [place.partition(":")[0] for place in found] == ["documents.py"]
