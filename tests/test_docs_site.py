"""The documentation site is complete: pages, links, names, docstrings, commands. `make docs` builds and checks it too."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import cesaro
from command_page import command_names, commands_markdown
from formulas import mathml, with_mathml
from public_names import PACKAGE, all_public, in_reference, left_out, undocumented
from site_build import faults

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
MARKDOWN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(DOCS / page for page in PAGES)]


def test_the_navigation_names_every_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", navigation, flags=re.M)
    assert sorted(named) == PAGES


def links(text: str) -> Iterator[str]:
    """Where the links and pictures of a page point to, code aside."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]+`", "", text, flags=re.M | re.S)
    yield from re.findall(r"\]\(([^)\s]+)\)", prose)


def anchors(text: str) -> set[str]:
    """The headings of a page, as GitHub and the site name them."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", prose, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    found = []
    for link in links(page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        is_dead = not target.exists()
        if anchor and target.suffix == ".md" and not is_dead and "reference" not in target.parts:
            is_dead = anchor not in anchors(target.read_text(encoding="utf-8"))
        if is_dead:
            found.append(link)
    return found


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading, with `code`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-heading-with-code) [c](gone.md) [d](there.md#gone) `[e](code.md)` ![f](gone.png)\n",
        encoding="utf-8",
    )
    assert broken(page) == ["gone.md", "there.md#gone", "gone.png"]


def test_faults_of_a_built_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "picture.png").touch()
    (tmp_path / "sub" / "there.html").write_text('<h1 id="a">A</h1><a href="..">up</a>', encoding="utf-8")
    (tmp_path / "index.html").write_text(
        '<a href="sub/there.html#a"></a><a href="https://example.org"></a><img src="picture.png"><a href="/sub/there.html"></a>'
        '<a href="gone.html"></a><a href="sub/there.html#b"></a><script src="https://example.org/x.js"></script>',
        encoding="utf-8",
    )
    assert list(faults(tmp_path)) == [
        "index.html leads to gone.html, which does not exist",
        "index.html leads to sub/there.html#b, where there is no such anchor",
        "index.html asks another place for https://example.org/x.js",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site_links_within_the_site(page: str) -> None:
    """A link out of docs/ works in the repository and not on the site."""
    for link in links((DOCS / page).read_text(encoding="utf-8")):
        if not re.match(r"\w+:", link):
            assert ((DOCS / page).parent / link.partition("#")[0]).resolve().is_relative_to(DOCS.resolve()), link


def test_every_public_name_is_in_the_reference() -> None:
    names = all_public()
    assert {f"{PACKAGE}.{name}" for name in cesaro.__all__ if name != "__version__"} <= set(names)
    assert not left_out(names, in_reference(DOCS / "reference"))


def test_a_name_that_the_reference_leaves_out_is_found() -> None:
    pages = in_reference(DOCS / "reference")
    assert left_out({"cesaro.read": cesaro.read, "cesaro.planted": _documented}, pages) == ["cesaro.planted"]


def test_a_name_that_does_not_exist_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("::: cesaro.read\n\n::: cesaro.gone\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md documents cesaro\.gone, which does not exist"):
        in_reference(tmp_path)


def test_every_public_name_has_a_docstring() -> None:
    assert not undocumented(all_public() | in_reference(DOCS / "reference"))


def test_names_without_docstrings_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (_Parent, _Child, _Tuple):
        monkeypatch.setattr(kind, "__module__", f"{PACKAGE}.planted")
    names: dict[str, Any] = {
        "function": _undocumented,
        "fine": _documented,
        "Parent": _Parent,
        "Child": _Child,
        "Tuple": _Tuple,
        "Again": _Child,
    }
    assert undocumented(names) == ["function", "Parent.bare", "Child", "Child.bare", "Child.own", "Tuple"]


def test_the_page_of_the_command_line_has_every_command_and_option() -> None:
    text = commands_markdown()
    assert {"cesaro evaluate", "cesaro compare", "cesaro doctor", "cesaro reproduce boyan"} <= set(command_names())
    for name in command_names():
        assert f"## {name}\n" in text
    section = text.partition("## cesaro evaluate\n")[2].partition("\n## ")[0]
    for option in ("--policy [NAME=]SPEC", "--observation COLUMN", "--confidence", "--out PATH", "--json"):
        assert f"`{option}" in section
    assert "| required |" in section
    assert "<!-- commands -->" in (DOCS / "reference/cli.md").read_text(encoding="utf-8")


def test_help_is_shown_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    import command_page

    option = SimpleNamespace(
        name="odd",
        opts=["--odd"],
        secondary_opts=[],
        metavar="A|B",
        help="Of *all* <rows>: `a|b`, obs_*.",
        required=False,
        show_default=True,
        default="x_y",
        is_flag=False,
        hidden=False,
        param_type_name="option",
        rich_help_panel=None,
    )
    command = SimpleNamespace(help="Does it.", params=[option])
    lines = list(command_page._lines("cesaro odd", command))
    assert r"| `--odd A\|B` | Of \*all\* &lt;rows&gt;: `a\|b`, obs\_\*. | x\_y |" in lines
    command.help = None
    with pytest.raises(ValueError, match="'cesaro odd' has no help"):
        list(command_page._lines("cesaro odd", command))


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        (r"\bar r_\pi = \lim_{T \to \infty} \frac{1}{T} \sum_{t=1}^T \mathbb E[R_t]", "<munder><mo>lim</mo>"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"),
        (r"\arg\min_w \lVert w \rVert^2", "<munder><mo>argmin</mo>"),
        (r"\mathcal L(w) < 1", "ℒ"),
    ],
)
def test_formulas_become_mathml(latex: str, part: str) -> None:
    escaped = latex.replace("&", "&amp;").replace("<", "&lt;")
    page = with_mathml(f'<div class="arithmatex">\\[{escaped}\\]</div>')
    assert page.startswith("<math")
    assert part in page


@pytest.mark.parametrize("latex", [r"\foo x", r"\frac{1}{", "a & b", r"\boldsymbol{x}"])
def test_a_formula_that_cannot_be_shown_fails(latex: str) -> None:
    with pytest.raises(ValueError, match="The formula"):
        mathml(latex, "inline")


def _documented() -> None:
    """Here."""


def _undocumented() -> None: ...


class _Parent:
    """Documented."""

    def said(self) -> None:
        """Here."""

    def bare(self) -> None: ...

    def _private(self) -> None: ...


class _Child(_Parent):
    def said(self) -> None: ...

    @property
    def own(self) -> int:
        return 1


class _Tuple(NamedTuple):
    x: int
