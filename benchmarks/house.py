"""The shape of the source tree, by its syntax alone: `python -m benchmarks house`, a second.

Counts modules, lines, functions, imports and cycles; `--base COMMIT` shows the same counts of that commit beside them. An import
counts as an edge from the importing module to the module that the statement names; that Python also runs the `__init__.py` of the
packages above it does not count.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

Graph = Mapping[str, set[str]]


class Import(NamedTuple):
    """One import of a module of the package by another one."""

    importer: str
    """Dotted name of the importing module; a package's `__init__.py` has the name of the package."""
    imported: str
    """Dotted name of the imported module."""
    function: str | None
    """Name of the function around the import, such as `Evaluation.plot`; None at the top of the module."""
    type_checking: bool
    """Whether only type checkers see the import."""
    line: int
    """Where the statement begins in the importing module."""


@dataclass(frozen=True)
class Tree:
    """A source tree: the text and the syntax of every module of one package, by dotted name."""

    package: str
    texts: dict[str, str]
    modules: dict[str, ast.Module]
    packages: frozenset[str]

    @classmethod
    def read(cls, root: str | Path) -> "Tree":
        """The tree below `root`, the folder of the package itself."""
        root = Path(root)
        texts, packages = {}, set()
        for path in sorted(root.rglob("*.py")):
            parts = [root.resolve().name, *path.relative_to(root).with_suffix("").parts]
            if parts[-1] == "__init__":
                parts.pop()
                packages.add(".".join(parts))
            texts[".".join(parts)] = path.read_text(encoding="utf-8")
        if not texts:
            raise SystemExit(
                f"error: {root} holds no Python module; give the folder of the package, such as src/cesaro."
            )
        modules = {name: ast.parse(text, filename=name) for name, text in texts.items()}
        return cls(root.resolve().name, texts, modules, frozenset(packages))

    def imports(self) -> list[Import]:
        """All imports of the package's own modules, in the order of modules and lines."""
        return [found for name in self.modules for found in self._imports_of(name)]

    def _imports_of(self, importer: str) -> list[Import]:
        found = []
        for node, function, type_checking in _placed(self.modules[importer]):
            if isinstance(node, ast.Import):
                imported = [self._module(alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = self._source(importer, node)
                imported = [self._module(f"{source}.{alias.name}") for alias in node.names]
            else:
                continue
            names = dict.fromkeys(name for name in imported if name is not None and name != importer)
            found += [Import(importer, name, function, type_checking, node.lineno) for name in names]
        return found

    def _source(self, importer: str, node: ast.ImportFrom) -> str:
        """The absolute name of what a `from … import` imports from."""
        parts = importer.split(".")
        up = node.level - (importer in self.packages)  # a single dot is the package itself
        base = parts[: len(parts) - up] if node.level else []
        return ".".join([*base, *([node.module] if node.module else [])])

    def _module(self, name: str) -> str | None:
        """The module that a dotted name stands for or is defined in; None outside of the package."""
        while name not in self.modules:
            name, _, last = name.rpartition(".")
            if not last or not name:
                return None
        return name


def _placed(tree: ast.Module) -> Iterator[tuple[ast.AST, str | None, bool]]:
    """Every node, with the name of the function around it and whether only type checkers see it."""

    def below(
        node: ast.AST, names: tuple[str, ...], inside: bool, hidden: bool
    ) -> Iterator[tuple[ast.AST, str | None, bool]]:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names, inside = (*names, node.name), inside or is_function
        for child in ast.iter_child_nodes(node):
            child_hidden = hidden or (isinstance(node, ast.If) and child in node.body and _is_type_checking(node.test))
            yield child, ".".join(names) if inside else None, child_hidden
            yield from below(child, names, inside, child_hidden)

    return below(tree, (), False, False)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def import_graph(root: str | Path) -> list[Import]:
    """All imports among the modules of the package whose folder is `root`, such as `src/cesaro`."""
    return Tree.read(root).imports()


def package_of(module: str) -> str:
    """The part of the house that a module belongs to: the first name below the package, or the package itself."""
    return module.split(".")[min(1, module.count("."))]


def graph(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """The successors of every node, by pairs of nodes; a node is no successor of itself."""
    found: dict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        if one != other:
            found[one].add(other)
    return dict(found)


def reachable(edges: Graph, starts: Iterable[str]) -> set[str]:
    """The starts and all nodes to which a path leads from them."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += edges.get(node, ())
    return found


def cycles(edges: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node, each sorted."""
    reached = {node: reachable(edges, [node]) for node in edges}
    components = {
        frozenset(other for other in reached[node] if node in reached.get(other, {other})) for node in reached
    }
    return sorted(sorted(component) for component in components if len(component) > 1)
