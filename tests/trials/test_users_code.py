"""Code of users: policies and features that end the program, hide their errors, go elsewhere, or give objects of their own."""

from collections.abc import Callable

from .table import Trial, log, rows
from .test_policies import FAILED, LOADED, code, function, python

GO = "return ['go'] * len(observations)"
READ = "policy must be an object that can be read. Got a {}, which failed with {}."
LABELS = "Policy 'f' must give labels or numbers. Got objects whose reading failed with {}; convert them."
FEATURES = (
    "The feature function 'f' failed with {}; it must accept the log's observations, an array of object with shape"
)


def features(name: str, says: str, *lines: str, code: int | None = None) -> Trial:
    """The features p.py:f, a function with these lines."""
    head = ("import sys", "import numpy as np", "def f(observations):")
    file = "\n".join([*head, *(f"    {line}" for line in lines), ""])
    return Trial(f"features: {name}", {**log(), "p.py": file}, says, options="--features p.py:f", code=code)


def label(name: str, says: str, *lines: str) -> Trial:
    """A policy whose actions are objects with these methods."""
    head = ("import sys", "class A:", *(f"    {line}" for line in lines))
    return python(f"labels: {name}", says, *head, "def f(observations, rng):", "    return [A()] * len(observations)")


def method(name: str, says: str, *lines: str) -> Trial:
    """The method p.py:f, a function with these lines."""
    file = "\n".join(["def f(approximator, num_inputs):", *(f"    {line}" for line in lines), ""])
    return Trial(f"method: {name}", {**log(), "p.py": file}, says, options="--method p.py:f")


METHODS = [
    method("fails", "f failed with ValueError at p.py, line 2: no; correct that function.", "raise ValueError('no')"),
    method("exits", "f failed with SystemExit at p.py, line 2: 0; correct that function.", "raise SystemExit(0)"),
    method("gives nothing", "method must build an Objective. Got NoneType.", "return None"),
]
CALLS = [
    function("exit 0", FAILED.format("SystemExit at p.py, line 3: 0"), "import sys; sys.exit(0)"),
    function("exit 3", FAILED.format("SystemExit at p.py, line 3: 3"), "import sys; sys.exit(3)"),
    function("exit with words", FAILED.format("SystemExit at p.py, line 3: bye"), "raise SystemExit('bye')"),
    function("the end of a generator", FAILED.format("GeneratorExit at p.py, line 3"), "raise GeneratorExit"),
    function("cancelled", "failed with CancelledError at p.py, line 3", "import asyncio; raise asyncio.CancelledError"),
    function(
        "out of memory",
        "Policy 'f' failed with MemoryError at p.py, line 3: out of memory (Unable to allocate 7.11 PiB for an array",
        "np.zeros((10**6, 10**9))",
        code=1,
    ),
    function(
        "out of memory without words",
        "Policy 'f' failed with MemoryError at p.py, line 3: out of memory;",
        "raise MemoryError",
        code=1,
    ),
    python(
        "an error of its own",
        FAILED.format("B at p.py, line 4: x"),
        "class B(BaseException): pass",
        "def f(observations, rng):",
        "    raise B('x')",
    ),
    python(
        "an error without text",
        FAILED.format("E at p.py, line 6"),
        "class E(Exception):",
        "    def __str__(self): raise RuntimeError('no str')",
        "    __repr__ = __str__",
        "def f(observations, rng):",
        "    raise E('x')",
    ),
    python(
        "an error whose text ends the program",
        FAILED.format("E at p.py, line 5"),
        "class E(Exception):",
        "    def __str__(self): raise SystemExit(0)",
        "def f(observations, rng):",
        "    raise E('x')",
    ),
    python(
        "an error without a name",
        FAILED.format("E at p.py, line 7: x"),
        "class M(type):",
        "    __name__ = property(lambda kind: 1 / 0)",
        "class E(Exception, metaclass=M): pass",
        "def f(observations, rng):",
        "    pass",
        "    raise E('x')",
    ),
    python(
        "an error of ours without words",
        FAILED.format("InputError at p.py, line 4: 5"),
        "from cesaro.errors import InputError",
        "def f(observations, rng):",
        "    raise InputError(5)",
    ),
    function("another folder", "", "import os; os.chdir('/')", GO, rate=0.5),
    python(
        "another folder from the start",
        "",
        "import os; os.chdir('/')",
        "def f(observations, rng):",
        f"    {GO}",
        rate=0.5,
    ),
    Trial(
        "another folder before another policy",
        {
            **code("import os; os.chdir('/')", "def f(observations, rng):", f"    {GO}"),
            "q.py": f"def g(observations, rng): {GO}",
        },
        "f − g",
        command="compare log.csv --policy p.py:f --policy q.py:g --features one-hot",
        code=0,
    ),
    python(
        "a folder of its own",
        "",
        "import os; os.mkdir('own') if not os.path.exists('own') else None; os.chdir('own'); open('x', 'w').close()",
        "def f(observations, rng):",
        "    open('x').close()",
        f"    {GO}",
        rate=0.5,
        makes=frozenset({"own"}),
    ),
]
LOADING = [
    python("exit", LOADED.format("SystemExit at p.py, line 2: 0"), "import sys; sys.exit(0)"),
    python(
        "an error of its own", LOADED.format("B at p.py, line 3: x"), "class B(BaseException): pass", "raise B('x')"
    ),
    python("out of memory", LOADED.format("MemoryError at p.py, line 2: out of memory"), "raise MemoryError", code=1),
    python("a name that exits", LOADED.format("SystemExit at p.py, line 2"), "def __getattr__(name): raise SystemExit"),
    python(
        "a class that exits",
        "Policy class 'f' must be made without arguments; it failed with SystemExit at p.py, line 3.",
        "class f:",
        "    def __init__(self): raise SystemExit",
    ),
    python(
        "an object that is not looked at",
        READ.format("P", "ZeroDivisionError at p.py, line 3: division by zero"),
        "class P:",
        "    def __getattr__(self, name): 1 / 0",
        "f = P()",
    ),
    python(
        "actions that exit",
        READ.format("P", "SystemExit at p.py, line 4"),
        "class P:",
        "    @property",
        "    def actions(self): raise SystemExit",
        "    def probabilities(self, observations): pass",
        "f = P()",
    ),
    python(
        "a mapping that exits",
        READ.format("D", "SystemExit at p.py, line 3"),
        "class D(dict):",
        "    def items(self): raise SystemExit",
        "f = D(a={'go': 1.0}, b={'go': 1.0})",
    ),
    python(
        "a policy of its own class",
        "Policy 'f' failed with SystemExit at p.py, line 5.",
        "from cesaro.policies import Policy",
        "class P(Policy):",
        "    name = 'mine'",
        "    def sample(self, observations, rng): raise SystemExit",
        "f = P()",
    ),
]
RESULTS = [
    python(
        "an array that exits",
        "Policy 'f' must return one action per observation. Got a A that is not an array (SystemExit at p.py, line 3); return",
        "class A:",
        "    def __array__(self, *_, **__): raise SystemExit",
        "def f(observations, rng): return A()",
    ),
    python(
        "a list that exits",
        "that is not an array (SystemExit at p.py, line 3); return",
        "class L(list):",
        "    def __iter__(self): raise SystemExit",
        "def f(observations, rng): return L('ab')",
    ),
    python(
        "a class that hides",
        FAILED.format("SystemExit at p.py, line 4"),
        "class A:",
        "    @property",
        "    def __class__(self): raise SystemExit",
        "def f(observations, rng): return A()",
    ),
    label("exit", LABELS.format("SystemExit at p.py, line 4"), "def __repr__(self): sys.exit()"),
    label("no text", LABELS.format("ZeroDivisionError at p.py, line 4…"), "def __repr__(self): return 1 / 0"),
    label("no number", LABELS.format("SystemExit at p.py, line 5"), "ndim = 0", "def item(self): sys.exit()"),
    label("plain", "is of another type: A objects); convert its actions", "pass"),
]
FEATURE_FUNCTIONS = [
    features("exit", FEATURES.format("SystemExit at p.py, line 4: 0"), "sys.exit(0)"),
    features("an error", FEATURES.format("ValueError at p.py, line 4: no"), "raise ValueError('no')"),
    features(
        "out of memory", FEATURES.format("MemoryError at p.py, line 4: out of memory"), "raise MemoryError", code=1
    ),
    features(
        "an array that exits",
        FEATURES.format("SystemExit at p.py, line 5"),
        "class A:",
        "    def __array__(self, *_, **__): sys.exit()",
        "return A()",
    ),
    Trial(
        "features: a class that exits",
        {**log(), "p.py": "class A:\n    def __getattr__(self, name): raise SystemExit\nf = A()\n"},
        "features must be an object that can be read. Got a A, which failed with SystemExit at p.py, line 2.",
        options="--features p.py:f",
    ),
    Trial(
        "features: exit when they are loaded",
        {**log(), "p.py": "raise SystemExit\n"},
        "'p.py' cannot be loaded: SystemExit at p.py, line 1;",
        options="--features p.py:f",
    ),
]


@rows(CALLS)
def test_calls(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(LOADING)
def test_loading(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(RESULTS)
def test_results(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(FEATURE_FUNCTIONS)
def test_feature_functions(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(METHODS)
def test_methods(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
