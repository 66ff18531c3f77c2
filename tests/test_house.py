"""The count of the house, on a small tree that is written for it."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

FILES = {
    "__init__.py": '''
        """The map."""
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from house.rooms.kitchen import Oven
    ''',
    "rooms/__init__.py": "",
    "rooms/kitchen.py": """
        import os.path
        from house import tools, NAME
        from .hall import Door, Key
        class Oven:
            def bake(self):
                from house.roof.tiles import Tile
                return Tile
    """,
    "rooms/hall.py": """
        import house.tools
        from . import kitchen
        class Door: ...
        class Key: ...
        DEFAULT = "diff-gq1"  # a method outside the registry
    """,
    "roof/__init__.py": "from house.roof.tiles import Tile",
    "roof/tiles.py": """
        import typing
        from house.rooms.kitchen import Oven
        if typing.TYPE_CHECKING:
            from house.rooms import hall
        else:
            from house import tools
        class Tile: ...
    """,
    "tools.py": "class Key: ...",
    "algorithms.py": 'NAME = "diff-gq1"',
    "evaluation.py": """
        '''Of diff-gq1.'''
        def evaluate():
            from house.roof import Tile
    """,
}


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import house

    return house


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return tmp_path / "house"


def test_every_way_of_importing_is_an_edge(house: Any, root: Path) -> None:
    found = {(one.importer, one.imported, one.function, one.type_checking) for one in house.import_graph(root)}
    assert found == {
        ("house", "house.rooms.kitchen", None, True),
        ("house.rooms.kitchen", "house.tools", None, False),
        ("house.rooms.kitchen", "house", None, False),
        ("house.rooms.kitchen", "house.rooms.hall", None, False),
        ("house.rooms.kitchen", "house.roof.tiles", "Oven.bake", False),
        ("house.rooms.hall", "house.tools", None, False),
        ("house.rooms.hall", "house.rooms.kitchen", None, False),
        ("house.roof", "house.roof.tiles", None, False),
        ("house.roof.tiles", "house.rooms.kitchen", None, False),
        ("house.roof.tiles", "house.rooms.hall", None, True),
        ("house.roof.tiles", "house.tools", None, False),
        ("house.evaluation", "house.roof", "evaluate", False),
    }


def test_cycles_are_strongly_connected_components(house: Any) -> None:
    edges = house.graph(["ab", "bc", "ca", "cd", "de", "ed", "ff", "fg"])
    assert house.cycles(edges) == [["a", "b", "c"], ["d", "e"]]
    assert house.reachable(edges, ["d"]) == {"d", "e"}


def test_counts(house: Any, root: Path) -> None:
    counts, lists = house.measure(house.Tree.read(root))
    assert counts == {
        "modules": 9,
        "lines": sum(len(path.read_text().splitlines()) for path in root.rglob("*.py")),
        "lines per module": 4,
        "modules below 80 lines": 9,
        "functions": 2,
        "functions of at most 5 lines": 2,
        "modules with one importer": 3,  # the map, the hall and the roof
        "package cycles": 1,
        "packages in cycles": 2,
        "module cycles": 1,
        "modules in cycles": 3,
        "own imports inside functions": 2,
        "module pairs where one closes a cycle": 1,
        "modules on the way of evaluate": 7,
        "module pairs on the way of evaluate": 10,
        "method names outside the registry": 1,
        "modules with such names": 1,
        "class names in several modules": 1,
    }
    assert lists == {
        "package cycles": ["roof rooms"],
        "module cycles": ["house.roof.tiles house.rooms.hall house.rooms.kitchen"],
        "imports inside functions that close a cycle": ["house.rooms.kitchen (Oven.bake) → house.roof.tiles"],
        "method names outside the registry": ["house.rooms.hall: 1"],
        "class names in several modules": ["Key: house.rooms.hall house.tools"],
    }


def test_a_wrong_folder_is_said(house: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no Python module"):
        house.main(["--root", str(tmp_path)])
