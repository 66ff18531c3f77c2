"""Functions, objects and Python files."""

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro.errors import InputError
from cesaro.policies import Finite, Sampler, parse, policy

RNG = np.random.default_rng(0)
STATES = np.array([0, 1, 2])


# Which arguments


def with_rng(observations: Any, rng: Any) -> Any:
    assert isinstance(rng, np.random.Generator)
    return observations


def with_default_rng(observations: Any, scale: float = 1.0, rng: Any = None) -> Any:
    assert isinstance(rng, np.random.Generator)
    return scale * observations


def with_keyword_rng(observations: Any, *, rng: Any) -> Any:
    assert isinstance(rng, np.random.Generator)
    return observations


def with_other_name(observations: Any, generator: Any, /) -> Any:
    assert isinstance(generator, np.random.Generator)
    return observations


@pytest.mark.parametrize("function", [with_rng, with_default_rng, with_keyword_rng, with_other_name])
def test_functions_that_draw(function: Any) -> None:
    made = policy(function)
    assert not made.deterministic
    assert made.name == function.__name__
    np.testing.assert_array_equal(made.sample(STATES, RNG), STATES)


def test_functions_without_randomness() -> None:
    def scaled(observations: Any, scale: float = 1.0, *extra: Any, **more: Any) -> Any:
        return scale * observations

    for function in (scaled, lambda s: s, functools.partial(scaled, scale=1.0), np.positive):
        made = policy(function)
        assert made.deterministic
        np.testing.assert_array_equal(made.sample(STATES, RNG), STATES)
    assert policy(lambda s: s).name == "policy"


@pytest.mark.parametrize(
    "function",
    [
        lambda: 0,
        lambda *arguments: 0,
        lambda a, b, c: 0,
        lambda s=None: 0,
        lambda rng, observations: 0,
        lambda s, *, temperature: 0,
        lambda s, other, rng=None: 0,
    ],
)
def test_other_arguments(function: Any) -> None:
    with pytest.raises(InputError, match=r"must be a function of \(observations\) or \(observations, rng\).*wrap it"):
        policy(function)


def test_error_of_the_function_is_the_cause() -> None:
    def broken(observations: Any) -> Any:
        raise KeyError("two\nlines")

    with pytest.raises(InputError, match=r"'broken' failed with KeyError at test_convert\.py, line \d+: ") as caught:
        policy(broken).sample(STATES, RNG)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "\n" not in str(caught.value)
    assert "an array of int64 with shape (3,)" in str(caught.value)
    with pytest.raises(InputError, match="a dict of arrays with the keys 'load', 'hour'"):
        policy(broken).sample({"load": STATES, "hour": STATES}, RNG)


# Objects


class Chooser:
    actions = np.array([1, 0])

    def probabilities(self, observations: Any) -> Any:
        return np.tile([0.25, 0.75], (len(observations), 1))

    def sample(self, observations: Any, rng: Any) -> Any:
        raise AssertionError("probabilities come first")


class Drawer:
    low: Any = -1.0
    high: Any = 1.0

    def sample(self, observations: Any, rng: Any) -> Any:
        return rng.uniform(-1, 1, len(observations))


def test_objects_and_classes() -> None:
    for chooser in (Chooser(), Chooser):
        made = policy(chooser)
        assert made.actions == (1, 0)
        assert made.name == "Chooser"
        np.testing.assert_array_equal(made.probabilities(STATES), [[0.25, 0.75]] * 3)
        assert set(made.sample(STATES, RNG).tolist()) <= {0, 1}
    drawer = policy(Drawer())
    assert drawer.actions is None
    assert drawer.low is not None
    assert drawer.low.tolist() == [-1.0]
    assert drawer.sample(STATES, RNG).shape == (3,)
    with pytest.raises(InputError, match="gives no probabilities"):
        drawer.probabilities(STATES)


def test_broken_objects() -> None:
    class NoActions:
        def probabilities(self, observations: Any) -> Any: ...

    class NoMethod:
        actions, probabilities = (0, 1), 3

    class Arguments:
        def __init__(self, size: int) -> None: ...

    class Bound(Drawer):
        low: Any = "lowest"

    for thing, words in (
        (NoActions(), "must have actions, their labels"),
        (NoMethod(), "must have a method probabilities. Got a int"),
        (Arguments, "must be made without arguments; it failed with TypeError"),
        (Bound(), "one number per action dimension as low. Got 'lowest'"),
        (None, "Got a NoneType"),
        (3.5, "Got a float"),
        (object(), "Got a object"),
    ):
        with pytest.raises(InputError, match=words):
            policy(thing)


def test_finite() -> None:
    half = Finite(["a", "b"], lambda s: np.full((len(s), 2), 0.5), name="half")
    assert repr(half) == "Finite('half', 2 actions)"
    assert set(half.sample(np.zeros(50), RNG).tolist()) == {"a", "b"}
    assert Finite([0, "a"], lambda s: np.tile([1.0, 0.0], (len(s), 1))).sample(STATES, RNG).tolist() == [0, 0, 0]
    for actions, words in (
        ([], "at least one action label"),
        ("ab", "at least one action label"),
        (3, "at least one action label"),
        ([0, 1.0, 1], "Got 1 twice"),
    ):
        with pytest.raises(InputError, match=words):
            Finite(actions, lambda s: s)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a function of the observations alone"):
        Finite([0, 1], lambda s, rng: s)  # type: ignore[misc, arg-type]
    with pytest.raises(InputError, match="must have a function"):
        Finite([0, 1], [0.5, 0.5])  # type: ignore[arg-type]


def test_names() -> None:
    original = Sampler(lambda s: s, name="one")
    assert policy(original) is original
    assert policy(original, name="two").name == "two"
    assert original.name == "one"
    with pytest.raises(InputError, match="name must not be empty"):
        policy("uniform", name=" ")


# Python files


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_everything_a_file_may_hold(tmp_path: Path) -> None:
    file = write(
        tmp_path / "my policy.py",
        """
import numpy as np
from dataclasses import dataclass
from cesaro.policies import Finite

def last(observations): return observations
def drawn(observations, rng): return rng.integers(0, 2, len(observations))

@dataclass
class Kind:
    actions: tuple = (0, 1)
    def probabilities(self, observations): return np.full((len(observations), 2), 0.5)

thing, table, mapping = Kind(), [[0.5, 0.5]], {"a": "go"}
finite = Finite([0, 1], thing.probabilities)
class space: inner = staticmethod(last)
""",
    )
    for name, actions in (
        ("last", None),
        ("drawn", None),
        ("Kind", (0, 1)),
        ("thing", (0, 1)),
        ("table", (0, 1)),
        ("mapping", ("go",)),
        ("finite", (0, 1)),
        ("space.inner", None),
    ):
        made = policy(f"{file}:{name}")
        assert made.actions == actions
        assert made.name == name
    np.testing.assert_array_equal(policy(f"{file}:last").sample(STATES, RNG), STATES)
    assert policy(f"{file}:finite", name="f").name == "f"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("x = 1 / 0", "x", r"policy\.py' cannot be loaded: ZeroDivisionError at policy\.py, line 1: division by zero"),
        ("def f(:\n  pass", "f", r"cannot be loaded: SyntaxError at policy\.py, line 1"),
        ("x = '\0'", "x", r"cannot be loaded: (SyntaxError|ValueError)"),
        ("\n\nimport nothing_of_this_name", "f", r"ModuleNotFoundError at policy\.py, line 3: No module named"),
        ("import sys; sys.exit(3)", "f", r"SystemExit at policy\.py, line 1: 3"),
        ("import json\njson.loads('{')", "f", r"JSONDecodeError at policy\.py, line 2"),
        ("def choose(s): return s", "chose", r"must define 'chose', and it does not \(it has choose\)"),
        ("", "f", "it defines nothing"),
        ("f = None", "f", r"policy\.py:f' must be a function, an object, a class or a table\. Got None"),
        ("f = 'uniform'", "f", "Got 'uniform'"),
        ("f = 3", "f", "Got a int"),
        ("f = 3", "f x", "must end in a Python name"),
        ("f = 3", "", "must end in a Python name"),
    ],
)
def test_broken_files(text: str, name: str, words: str, tmp_path: Path) -> None:
    file = write(tmp_path / "policy.py", text)
    before = dict(sys.modules), list(sys.path)
    with pytest.raises(InputError, match=words) as caught:
        policy(f"{file}:{name}")
    assert "\n" not in str(caught.value)
    assert sys.path == before[1]
    if "cannot be loaded" in str(caught.value):
        assert caught.value.__cause__ is not None


def test_other_paths(tmp_path: Path) -> None:
    write(tmp_path / "policy.py", "")
    (tmp_path / "folder.py").mkdir()
    for spec, words in (
        (f"{tmp_path}/missing.py:f", r"missing\.py' cannot be found"),
        (f"{tmp_path}/folder.py:f", "cannot be found"),
        (f"{tmp_path}/policy.py", r"must be followed by the name to use from it, as in policy\.py:choose"),
        (f"{tmp_path}/model.pt", "runs code when it is loaded"),
        (f"{tmp_path}/model.pt", "runs code when it is loaded"),
        (
            "Uniform",
            r"policy must be uniform, logged, constant:<action>, rule:<expression>, shipped:<environment>, .* Got 'Uniform'",
        ),
        ("", "policy must be uniform"),
        ("constant:", "must name an action"),
        ("\0.csv", "cannot be found"),
        ("x" * 5000 + ".csv", "cannot be found"),
    ):
        with pytest.raises(InputError, match=words):
            policy(spec)
    with pytest.raises(InputError, match="never read"):
        policy(tmp_path / "model.ckpt", trust=True)


def test_modules_beside_the_file(tmp_path: Path) -> None:
    for folder, value in (("one", 1), ("two", 2)):
        write(tmp_path / folder / "helpers.py", f"value = {value}\n")
        write(tmp_path / folder / "tools" / "more.py", f"value = {value}\n")
        write(
            tmp_path / folder / "policy.py",
            "import helpers\nfrom tools.more import value\nimport numpy as np\n"
            "def early(s): return np.full(len(s), helpers.value + value)\n"
            "def late(s):\n    import helpers as again, later, tools.more as more\n    assert again is helpers\n"
            "    return np.full(len(s), later.value + more.value)\n",
        )
        write(tmp_path / folder / "later.py", f"value = {value}\n")
    path, modules = list(sys.path), set(sys.modules)
    one, two = (policy(f"{tmp_path}/{folder}/policy.py:early") for folder in ("one", "two"))
    first, second = (policy(f"{tmp_path}/{folder}/policy.py:late") for folder in ("one", "two"))
    for _ in range(2):
        assert [made.sample(STATES, RNG)[0] for made in (one, two, first, second)] == [2, 4, 2, 4]
    assert sys.path == path
    assert {name for name in set(sys.modules) - modules if not name.startswith("cesaro_file_")} == set()


def test_module_of_the_program_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "program" / "cesaro_test_helper.py", "value = 1\n")
    write(tmp_path / "policies" / "cesaro_test_helper.py", "value = 2\n")
    file = write(
        tmp_path / "policies" / "policy.py", "import cesaro_test_helper as h\ndef f(s): return s * 0 + h.value\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "program")
    import cesaro_test_helper  # type: ignore[import-not-found]

    assert policy(f"{file}:f").sample(STATES, RNG).tolist() == [2, 2, 2]
    assert sys.modules["cesaro_test_helper"] is cesaro_test_helper
    assert cesaro_test_helper.value == 1
    del sys.modules["cesaro_test_helper"]


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    for value in (1, 2):
        file = write(tmp_path / "policy.py", f"def f(s): return s * 0 + {value}\n")
        assert policy(f"{file}:f").sample(STATES, RNG).tolist() == [value] * 3


# The command line's form


@pytest.mark.parametrize(
    ("text", "name", "spec"),
    [
        ("uniform", None, "uniform"),
        ("a=uniform", "a", "uniform"),
        (" new policy = p.csv ", "new policy", "p.csv"),
        ("v1.2=constant:a=b", "v1.2", "constant:a=b"),
        ("constant:a=b", None, "constant:a=b"),
        ("runs/lr=0.1/p.csv", None, "runs/lr=0.1/p.csv"),
        ("./lr=0.1.csv", None, "./lr=0.1.csv"),
        ("a=runs/lr=0.1/p.csv", "a", "runs/lr=0.1/p.csv"),
        (r"C:\x=1\p.onnx", None, r"C:\x=1\p.onnx"),
        (r"a=C:\x=1\p.py:f", "a", r"C:\x=1\p.py:f"),
        ("p.py:f", None, "p.py:f"),
        ("a=p.py:f", "a", "p.py:f"),
        ("lr=0.1.csv", "lr", "0.1.csv"),
    ],
)
def test_parse(text: str, name: str | None, spec: str) -> None:
    assert parse(text) == (name, spec)


@pytest.mark.parametrize("text", ["", "=uniform", "a=", "  "])
def test_parse_of_nothing(text: str) -> None:
    with pytest.raises(InputError, match=f"--policy must .*{re.escape(repr(text))}"):
        parse(text)


def test_parse_of_a_file_with_equals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lr=0.1.csv", "")
    write(tmp_path / "a=p.py", "")
    for text in ("lr=0.1.csv", "a=p.py:f"):
        with pytest.raises(InputError, match=re.escape(f"write ./{text} for the file")):
            parse(text)
        assert parse(f"./{text}") == (None, f"./{text}")


def test_parse_of_a_name_with_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "pol.py", "")
    for text, mark in (("a/b=pol.py:lazy", "/"), ("a:b=uniform", ":"), ("a\\b=pol.py:lazy", "\\")):
        name = text.partition("=")[0]
        with pytest.raises(
            InputError, match=re.escape(f"must have a name without {mark!r}. Got {name!r}; call it 'a-b'")
        ):
            parse(text)
    (tmp_path / "a").mkdir()
    write(tmp_path / "a" / "b=pol.py", "")
    assert parse("a/b=pol.py:lazy") == (None, "a/b=pol.py:lazy")


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, cesaro.policies\n"
        "print([m for m in ('jax', 'onnxruntime', 'stable_baselines3', 'torch', 'sklearn', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
