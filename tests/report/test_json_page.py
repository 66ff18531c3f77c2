"""docs/reference/json.md names exactly the fields that documents have."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cesaro as cs

PAGE = (Path(__file__).parents[2] / "docs/reference/json.md").read_text(encoding="utf-8")


def fields(after: str) -> set[str]:
    """The first column of the table that follows these words."""
    table = re.search(r"\| field .*?\n\n", PAGE[PAGE.index(after) :], flags=re.S)
    assert table
    return set(re.findall(r"^\| `(\w+)`", table[0], flags=re.M))


def test_the_page_names_every_field_of_a_rehearsal() -> None:
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.integers(0, 3, 500), rng.integers(0, 2, 500), rng.normal(size=500))
    found = cs.rehearse(log, "uniform", worlds=2, quiet=True).to_dict()
    assert fields("## A rehearsal") == found.keys()
    assert f"`{found['schema']}`" in PAGE


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.integers(0, 3, 2_000), rng.integers(0, 2, 2_000), rng.normal(size=2_000))
    return cs.compare(log, {"a": "uniform", "b": "constant:1"}, quiet=True).to_dict()


def test_the_page_names_every_field(document: dict[str, Any]) -> None:
    evaluation, difference = document["evaluations"][0], document["differences"][0]
    assert fields("## An evaluation") == evaluation.keys()
    assert fields("An **estimate**") == evaluation["difference"].keys()
    assert fields("An **estimate**") - {"p_one_sided"} == evaluation["reward_rate"].keys()
    assert fields("A **finding**") == evaluation["diagnostics"][0].keys()
    assert fields("The **log**") == evaluation["log"].keys()
    assert fields("The **run**") == evaluation["run"].keys()
    assert fields("## A comparison") == document.keys()
    assert fields("A **difference**") | evaluation["difference"].keys() == difference.keys()
    assert f"`{evaluation['schema']}`" in PAGE
    assert f"`{document['schema']}`" in PAGE
