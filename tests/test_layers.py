"""The layers of the house: a module imports only from its own layer and from those above it, and nothing goes in circles."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from benchmarks.house import Import, Tree, cycles, graph, package_of

ROOT = Path(__file__).parents[1] / "src" / "cesaro"
# From the ground up; names on one line may import each other. CONTRIBUTING.md says what they are.
LAYERS = [
    "cesaro lazy errors checks text documents files folders progress versions user_code fingerprints python_file devices",
    "mdp",
    "solvers",
    "exact",
    "linear",
    "problems",
    "engines",
    "policies",
    "data",
    "inspection",
    "features",
    "passes",
    "closed_forms",
    "diagnostics",
    "approximators",
    "algorithms",
    "learning",
    "estimators",
    "worlds",
    "candidates",
    "panel",
    "rehearsal",
    "views",
    "evaluation",
    "comparison",
    "report",
    "simulation",
    "reproduce",
    "suite",
    "commands",
    "cli",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
# Results show themselves, by what stands below them.
SHOWN = {
    f"cesaro.{place}.{method}"
    for place in (
        "learning.result.Sweep",
        "evaluation.Evaluation",
        "comparison.Comparison",
        "rehearsal.Rehearsal",
    )
    for method in ("plot", "save", "_repr_html_", "__str__")
}
# Packages that take long to import; an import of ours inside a function is for these alone.
SLOW = {"jax", "equinox", "optax", "matplotlib", "sklearn"}
# May only shrink.
ALLOWED: set[tuple[str, str]] = set()

TREE = Tree.read(ROOT)
IMPORTS = [
    found for found in TREE.imports() if not found.type_checking and f"{found.importer}.{found.function}" not in SHOWN
]


def test_every_module_imports_from_above() -> None:
    wrong = {
        (found.importer, found.imported)
        for found in IMPORTS
        if LEVEL[package_of(found.importer)] < LEVEL[package_of(found.imported)]
    }
    assert wrong == ALLOWED


def test_the_house_is_told_as_it_is() -> None:
    """CONTRIBUTING.md lists what the package has, in the order of the layers; of one layer in any order."""
    page = (ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = page.partition("src/cesaro/\n")[2].partition("```")[0]
    names = [name.rstrip("/") for line in told.splitlines() for name in line[:38].split()]
    assert sorted(["cesaro", *names]) == sorted(LEVEL)
    levels = [LEVEL[name] for name in names]
    assert levels == sorted(levels)


def test_the_report_computes_nothing() -> None:
    """It takes answers and their views: no log, no policy, no features, no estimator."""
    used = {package_of(found.imported) for found in IMPORTS if package_of(found.importer) == "report"}
    shown = {
        "evaluation",
        "comparison",
        "rehearsal",
        "views",
        "diagnostics",
        "passes",
        "learning",
    }  # of the last two, result types
    assert used <= shown | {"report", *LAYERS[0].split()}


def test_no_imports_go_in_circles() -> None:
    assert cycles(graph((found.importer, found.imported) for found in IMPORTS)) == []


def test_the_package_does_not_import_research() -> None:
    """Which is in the repository alone."""
    names = _packages(node for module in TREE.modules.values() for node in ast.walk(module))
    assert "cesaro" in names
    assert "research" not in names


def test_imports_inside_functions_are_for_slow_packages() -> None:
    inside = [found for found in IMPORTS if found.function and package_of(found.importer) not in ("commands", "cli")]
    assert [_place(found) for found in inside if not _loads(found.imported) - _loads(found.importer)] == []


@cache
def _loads(module: str) -> frozenset[str]:
    """The slow packages that come with a module."""
    own = _packages(TREE.modules[module].body)
    ours = (f.imported for f in IMPORTS if f.importer == module and f.function is None)
    return frozenset(own & SLOW).union(*map(_loads, ours))


def _packages(nodes: Iterable[ast.AST]) -> set[str]:
    """The first names of all imports among some statements."""
    return {
        name.split(".")[0]
        for node in nodes
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }


def _place(found: Import) -> str:
    return f"{found.importer}:{found.line} → {found.imported}"
