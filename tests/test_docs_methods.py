"""The pages of the methods: one each, all sections in order, numbers as in the registry and in the exact layer."""

import inspect
import re
from pathlib import Path

import pytest

import cesaro as cs
from cesaro.algorithms import REGISTRY
from cesaro.algorithms.saddle_point import SCHEDULE_DEFAULTS
from cesaro.approximators import linear
from cesaro.estimators.learned import base as learned_settings
from cesaro.linear import METHODS

FOLDER = Path(__file__).parents[1] / "docs" / "methods"
SECTIONS = [
    *("Objective", "Update", "Limit", "When it converges", "What to expect", "Example", "Settings", "References"),
]
LEARNED = list(REGISTRY)
# Names as in the index, in its order; the projected variants are no method of their own.
NAMES = ["diff-lstd", *LEARNED, "projected"]


def page(name: str) -> str:
    return (FOLDER / f"{name.replace('-', '_')}.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """The text under a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    assert found, f"no section '{title}'"
    return found[1]


def table(text: str, header: str) -> list[list[str]]:
    """The cells of the one table whose first header cell is `header`, without backticks."""
    found = re.search(rf"^\| {re.escape(header)} \|.*\n\|[-:| ]+\|\n((?:\|.*\n?)+)", text, flags=re.M)
    assert found, f"no table '{header}'"
    return [[cell.strip() for cell in row.replace("`", "").strip("|").split("|")] for row in found[1].splitlines()]


def defaults(name: str) -> dict[str, float | None]:
    return REGISTRY[name](linear, 3).defaults


def number(cell: str) -> float | None:
    """A default as a table gives it; None: as `step_size`."""
    return None if cell == "as step_size" else float(cell)


def test_every_method_has_a_page_and_every_page_a_method() -> None:
    assert [name for name in LEARNED if name in METHODS] == list(METHODS), "forms are optional, in the same order"
    names = ["index", "diff-lstd", *REGISTRY, "projected", "world"]
    assert {path.stem for path in FOLDER.glob("*.md")} == {name.replace("-", "_") for name in names}


def test_a_line_in_the_registry_wants_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "own-method", REGISTRY["diff-gq1"])
    with pytest.raises(AssertionError, match="own_method"):
        test_every_method_has_a_page_and_every_page_a_method()


def test_the_index_links_to_the_pages_in_the_order_of_the_registry() -> None:
    cells = [row[0] for row in table(page("index"), "method")]
    links = [re.fullmatch(r"\[([a-z0-9-]+)\]\((\w+)\.md\)", cell) for cell in cells]
    names = [*NAMES, "world"]
    assert [(link[1], link[2]) for link in links if link] == [(name, name.replace("-", "_")) for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_all_sections_in_order(name: str) -> None:
    text = page(name)
    assert re.findall(r"^## (.*)$", text, flags=re.M) == SECTIONS
    title, introduction = text.split("\n## ")[0].split("\n\n")[:2]
    assert title.startswith("# ")
    assert len(re.findall(r"\.(?=\s|$)", introduction)) == 2, "what it is, in two sentences"
    assert all(section(text, title).strip() for title in SECTIONS)
    assert "```python" in section(text, "Example")
    assert "`cesaro reproduce " in section(text, "What to expect"), "figures name the command that made them"
    assert "ICML 2021" in section(text, "References")


@pytest.mark.parametrize("name", LEARNED)
def test_a_page_gives_the_defaults_of_the_registry(name: str) -> None:
    rows = table(section(page(name), "Settings"), "number")
    assert {row[0]: number(row[1]) for row in rows} == defaults(name)
    assert [row[0] for row in rows] == list(defaults(name))
    assert f"(`{name}`)" in page(name).splitlines()[0]


@pytest.mark.parametrize("name", LEARNED)
def test_a_page_tells_how_many_samples_a_step_takes(name: str) -> None:
    row = {row[0]: row for row in table(page("index"), "method")}[f"[{name}]({name.replace('-', '_')}.md)"]
    objective = REGISTRY[name](linear, 3)
    assert int(row[2]) == objective.minibatches
    assert ("values" in row[4]) == (objective.values is not None)
    assert row[3].startswith("no") == (not objective.has_dual)
    assert ("ratio" in row[4]) == objective.learns_ratio


def test_the_projected_page_gives_the_defaults_of_both_methods() -> None:
    rows = {row[0]: row[1] for row in table(section(page("projected"), "Settings"), "number")}
    assert rows.pop("radius").startswith("none")
    projected = [name for name in LEARNED if REGISTRY[name](linear, 3).projected]
    assert projected == ["diff-gq1", "diff-gq2"]
    assert {name: number(cell) for name, cell in rows.items()} == defaults("diff-gq1") | defaults("diff-gq2")
    assert not SCHEDULE_DEFAULTS["constant"]


def test_the_page_of_the_closed_form_gives_its_arguments() -> None:
    rows = table(section(page("diff-lstd"), "Settings"), "argument")
    signature = inspect.signature(cs.DiffLSTD).parameters
    assert {row[0]: row[1] for row in rows} == {name: str(one.default) for name, one in signature.items()}


def test_the_index_gives_the_settings_of_learned_methods() -> None:
    rows = {row[0]: row for row in table(section(page("index"), "Settings of `Learned`"), "argument")}
    signature = inspect.signature(cs.Learned).parameters
    assert {name: row[1] for name, row in rows.items()} == {
        name: str(one.default)
        for name, one in signature.items()
        if name not in ("method", "checkpoint", "engine", "address", "quiet", "run")
    }
    networks = {name: row[3] for name, row in rows.items()}
    assert float(networks["step_size"]) == learned_settings.NETWORK_STEP
    assert int(networks["steps"].replace(",", "")) == learned_settings.NETWORK_STEPS
    assert int(networks["batch_size"]) == learned_settings.NETWORK_BATCH
    assert f"tracked at {learned_settings.MIXING:g} " in networks["target"]
    assert learned_settings.NETWORK.widths == (128, 128)
    assert "two layers of 128 ReLU units" in networks["approximator"]


def test_the_limits_of_the_index_are_those_of_the_exact_layer() -> None:
    rows = table(page("index"), "limit of the rate")
    assert [row[0] for row in rows] == LEARNED
    chain = cs.problems.boyan_chain(0.1, 0.9)
    for name, *cells in rows:
        limits = [chain.limit(name, ridge=ridge).reward_rate for ridge in (0.0, 0.001, 0.01, 0.1)]
        assert [float(cell) for cell in cells] == pytest.approx(limits, abs=6e-4)


def test_the_steps_of_the_index_are_those_of_the_exact_layer() -> None:
    rows = {row[0]: row[1:] for row in table(section(page("index"), "Steps and speed"), "method")}
    assert list(rows) == LEARNED
    shares = (0.1, 0.3, 0.5, 0.7, 0.9)
    panels = [(pi0, mu0) for pi0 in shares for mu0 in dict.fromkeys((pi0, 0.5, round(1 - pi0, 1)))]
    chains = [cs.problems.boyan_chain(*panel) for panel in panels]
    assert len(chains) == 13
    for name, cells in rows.items():
        found = [chain.stability(name) for chain in chains]
        numbers: tuple[list[float | None], ...] = (
            [one.max_step_expected for one in found],
            [one.max_step_sampled for one in found],
            [one.time_constant(1.0) for one in found],
        )
        for cell, column in zip(cells, numbers, strict=True):
            known = [one for one in column if one is not None]
            assert len(known) == len(panels)
            low, high = cell.split(" to ")
            assert [float(low), float(high)] == pytest.approx([min(known), max(known)], rel=6e-3)


def test_the_assumptions_of_the_index_are_those_of_the_package() -> None:
    names = [row[2] for row in table(page("index"), "number") if row[2] != "–"]
    assert set(names) == {one.name for one in cs.problems.boyan_chain().assumptions()}


@pytest.mark.parametrize("name", ["index", *NAMES])
def test_links_to_methods_and_studies_name_a_heading(name: str) -> None:
    """The strict build of the site checks the others, and builds all of them."""
    for target, anchor in re.findall(r"\]\(([\w./]+\.md)(?:#([\w-]+))?\)", page(name)):
        path = FOLDER / target
        if path.parent.name == "howto":
            continue
        assert path.exists(), target
        titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.M)
        slugs = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
        assert not anchor or anchor in slugs, (target, anchor)
