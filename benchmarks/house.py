"""The shape of the source tree, by its syntax alone: `python -m benchmarks house`, a second.

Counts modules, lines, functions, imports and cycles; `--base COMMIT` shows the same counts of that commit beside them. An import
counts as an edge from the importing module to the module that the statement names; that Python also runs the `__init__.py` of the
packages above it does not count.
"""

import argparse
import ast
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks._commit import unpack

METHODS = frozenset(("diff-sgq", "diff-gq1", "diff-gq2", "diff-gq3", "diff-gq4", "gradient-dice"))
# Where the name of a method belongs: what implements it, and studies of certain methods.
OF_METHODS = ("algorithms", "linear.methods", "reproduce")
# Where `evaluate` starts, in Python and on the command line; those that exist count.
EVALUATE = ("evaluation", "commands.evaluate", "cli.evaluate")
# Results show themselves: these methods may import what stands below them, which is no part of a cycle.
SHOWING, SHOWN_BY = ("plot", "save", "_repr_html_", "__str__"), "report"
SHORT_MODULE, SHORT_FUNCTION = 80, 5  # lines

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

    def below(self, name: str) -> str:
        """The full name of a module or package, given without the name of the whole package."""
        return f"{self.package}.{name}"

    def imports(self) -> list[Import]:
        """All imports of the package's own modules, in the order of modules and lines."""
        return [found for name in self.modules for found in sorted(self._imports_of(name), key=lambda one: one.line)]

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


def _placed(tree: ast.Module) -> Iterator[tuple[ast.stmt, str | None, bool]]:
    """Every statement, with the name of the function around it and whether only type checkers see it."""
    waiting: list[tuple[ast.AST, str, bool, bool]] = [(tree, "", False, False)]
    while waiting:
        node, scope, in_function, hidden = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node, scope if in_function else None, hidden
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope = f"{scope}.{node.name}" if scope else node.name
            in_function = in_function or not isinstance(node, ast.ClassDef)
        only_types = node.body if isinstance(node, ast.If) and _is_type_checking(node.test) else []
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):  # no expression holds a statement
                waiting.append((child, scope, in_function, hidden or child in only_types))


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


class House(NamedTuple):
    """What a source tree is like: counts by what they count, and the lists behind some of them."""

    counts: dict[str, int]
    lists: dict[str, list[str]]


def is_shown(found: Import) -> bool:
    """Whether a result shows itself by this import."""
    method = (found.function or "").rpartition(".")[2]
    return method in SHOWING and package_of(found.imported) == SHOWN_BY


def measure(tree: Tree) -> House:
    """Count what `python -m benchmarks house` prints."""
    imports = [found for found in tree.imports() if not found.type_checking]
    edges = graph((found.importer, found.imported) for found in imports)
    downwards = [found for found in imports if not is_shown(found)]
    downward_edges = graph((found.importer, found.imported) for found in downwards)
    parts = graph((package_of(found.importer), package_of(found.imported)) for found in downwards)
    importers = graph((found.imported, found.importer) for found in imports)
    inside = [found for found in imports if found.function is not None]
    closing = sorted(
        {
            f"{found.importer} ({found.function}) → {found.imported}"
            for found in inside
            if not is_shown(found) and found.importer in reachable(downward_edges, [found.imported])
        }
    )
    on_the_way = reachable(edges, [name for name in map(tree.below, EVALUATE) if name in tree.modules])
    lengths = [len(text.splitlines()) for text in tree.texts.values()]
    functions = [
        node.end_lineno - node.lineno + 1
        for module in tree.modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]
    names = _method_names(tree)
    package_cycles, module_cycles = cycles(parts), cycles(downward_edges)
    classes = {name: where for name, where in _classes(tree).items() if len(where) > 1}
    counts = {
        "modules": len(lengths),
        "lines": sum(lengths),
        "lines per module": round(sum(lengths) / len(lengths)),
        f"modules below {SHORT_MODULE} lines": sum(length < SHORT_MODULE for length in lengths),
        "functions": len(functions),
        f"functions of at most {SHORT_FUNCTION} lines": sum(length <= SHORT_FUNCTION for length in functions),
        "modules with one importer": sum(len(found) == 1 for found in importers.values()),
        "package cycles": len(package_cycles),
        "packages in cycles": sum(map(len, package_cycles)),
        "module cycles": len(module_cycles),
        "modules in cycles": sum(map(len, module_cycles)),
        "own imports inside functions": len({(found.importer, found.line) for found in inside}),
        "module pairs where one closes a cycle": len(closing),
        "modules on the way of evaluate": len(on_the_way),
        "module pairs on the way of evaluate": sum(len(edges.get(name, ())) for name in on_the_way),
        "method names outside the registry": sum(names.values()),
        "modules with such names": len(names),
        "class names in several modules": len(classes),
    }
    lists = {
        "package cycles": [" ".join(cycle) for cycle in package_cycles],
        "module cycles": [" ".join(cycle) for cycle in module_cycles],
        "imports inside functions that close a cycle": closing,
        "method names outside the registry": [f"{name}: {count}" for name, count in names.items()],
        "class names in several modules": [f"{name}: {' '.join(where)}" for name, where in sorted(classes.items())],
    }
    return House(counts, lists)


def _method_names(tree: Tree) -> dict[str, int]:
    """How many strings of a module are the name of a method, for modules with some where none belongs; not in docstrings."""
    belongs = tuple(tree.below(part) for part in OF_METHODS)
    found = {}
    for name, module in tree.modules.items():
        count = sum(isinstance(node, ast.Constant) and node.value in METHODS for node in ast.walk(module))
        if count and not any(f"{name}.".startswith(f"{part}.") for part in belongs):
            found[name] = count
    return found


def _classes(tree: Tree) -> dict[str, list[str]]:
    """The modules that define a class at their top, by its name."""
    found = defaultdict(list)
    for name, module in tree.modules.items():
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    return found


def print_table(columns: Mapping[str, House]) -> None:
    """One line per count, one column per tree."""
    (first, *_) = columns.values()
    width = max(map(len, first.counts))
    if len(columns) > 1:
        print(" " * width + "".join(f"{title:>14}" for title in columns))
    for name in first.counts:
        print(f"{name:{width}}" + "".join(f"{house.counts[name]:14,d}" for house in columns.values()))


def print_lists(house: House) -> None:
    """What stands behind the counts that should become small."""
    for title, lines in house.lists.items():
        if lines:
            print(f"\n{title}:")
            print("\n".join(f"  {line}" for line in lines))


def tree_of_commit(root: Path, commit: str) -> Tree:
    """The source tree as it was in `commit` of the repository that holds `root`."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / root.resolve().name
        unpack(commit, root, target)
        return Tree.read(target)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks house", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("src/cesaro"), help="the package's folder")
    parser.add_argument("--base", metavar="COMMIT", help="show the counts of this commit as well")
    given = parser.parse_args(arguments)
    now = measure(Tree.read(given.root))
    before = {} if given.base is None else {given.base[:12]: measure(tree_of_commit(given.root, given.base))}
    print_table(before | {"here": now})
    print_lists(now)


if __name__ == "__main__":
    main()
