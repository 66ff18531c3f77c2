"""Policies: Python files, tables, words, and files that run code."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .table import Files, Trial, log, rows, text, walk

TABLE = "state,action,probability\na,go,0.5\na,stay,0.5\nb,go,0.5\nb,stay,0.5\n"
SHAPE = "Policy 'f' must give one action label per observation, shape (23,). Got shape {}; return an array with one label for"
FAILED = "Policy 'f' failed with {}; it must accept the log's observations, an array of object with shape (23,)."
LOADED = "'p.py' cannot be loaded: {}; correct the file, which must run without an error."
NOT_ONE = (
    "Policy 'f' must be a function of (observations) or (observations, rng), other parameters with defaults. Got {};"
)
NO_SHAPE = "Policy 'f' must give probabilities of shape [2, 2]: a row per observation, a column per action"
NO_NUMBER = "'p.csv', line 2: a probability must be a number between 0 and 1. Got {}."
NO_HEADER = (
    "'p.csv' must have columns of what the policy sees ('state'), and then action, or action and probability, or a column per "
    "action"
)
NO_WORD = "policy must be uniform, logged, constant:<action>, rule:<expression>, shipped:<environment>, file.py:name, or a file"
NO_FILE = "cannot be found; check the path of the policy."


def code(*lines: str) -> Files:
    return {**log(), "p.py": "\n".join(["import numpy as np", *lines, ""])}


def python(name: str, says: str, *lines: str, **more: Any) -> Trial:
    """The policy p.py:f in a file with these lines."""
    return Trial(name, code(*lines), says, policy="p.py:f", **more)


def function(name: str, says: str, *lines: str, **more: Any) -> Trial:
    """The same for a function with these lines."""
    return python(name, says, "def f(observations, rng):", *(f"    {line}" for line in lines), **more)


def probabilities(name: str, says: str, given: str, actions: str = "['go', 'stay']", **more: Any) -> Trial:
    """The same for an object that gives these probabilities of `n` observations."""
    head = (
        "class P:",
        f"    actions = {actions}",
        "    def probabilities(self, observations):",
        "        n = len(observations)",
    )
    return python(name, says, *head, f"        return {given}", "f = P()", **more)


def table(name: str, says: str, content: str | bytes, **more: Any) -> Trial:
    """A policy in p.csv."""
    return Trial(name, {**more.pop("files", log()), "p.csv": content}, says, policy="p.csv", **more)


def classifier(*actions: Any) -> Callable[[Path], object]:
    """A fitted pipeline that takes the first action in state a and the other in state b."""

    def write(file: Path) -> None:
        import joblib
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
        from sklearn.tree import DecisionTreeClassifier

        joblib.dump(make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit([["a"], ["b"]], actions), file)

    return write


FUNCTIONS = [
    function(
        "random numbers of its own",
        "warning: f: Policy 'f' gives other actions when it is asked again with the same rng, …; draw its random numbers from",
        "return np.random.choice(['go', 'stay'], len(observations))",
        code=0,
    ),
    function(
        "an action in other letters",
        "chooses the action 'Go' …, and the log log.csv holds only 'go', 'stay'; did you mean 'go'? Else leave out actions that",
        "return ['Go'] * len(observations)",
    ),
    function("too few actions", SHAPE.format("(1,)"), "return ['go']"),
    function("two axes", SHAPE.format("(23, 1)"), "return [['go']] * len(observations)"),
    function("one action", SHAPE.format("()"), "return 'go'"),
    function("a generator's result", SHAPE.format("()"), "return ('go' for _ in observations)"),
    function("a generator", SHAPE.format("()"), "yield 'go'"),
    function("a set", SHAPE.format("()"), "return {'go'}"),
    function("nothing", "Policy 'f' must return one action per observation. Got None; add a return", "return None"),
    function(
        "an action that nobody took", "chooses the action 'fly' at the observation b, and the", "return ['fly'] * 23"
    ),
    function("nan", "nan is of another type: numbers); convert its actions", "return [float('nan')] * 23"),
    function("bytes", "b'go' is of another type: bytes objects); convert its actions", "return [b'go'] * 23"),
    function("an error", FAILED.format("ValueError at p.py, line 3: no customer"), "raise ValueError('no customer')"),
    function("an error without words", FAILED.format("ValueError at p.py, line 3"), "raise ValueError"),
    function(
        "an error with fields",
        FAILED.format("ValueError at p.py, line 3: %s {0} [red]x[/]"),
        "raise ValueError('%s {0} [red]x[/]')",
    ),
    function(
        "an error of two lines",
        FAILED.format(r"ValueError at p.py, line 3: one two\x1b"),
        r"raise ValueError('one\ntwo\x1b')",
    ),
    function("an error of 100 kB", "line 3: xxx…; it must accept the log's", "raise ValueError('x' * 100_000)"),
    function(
        "an error of the system", FAILED.format("OSError at p.py, line 3: [Errno 28] full"), "raise OSError(28, 'full')"
    ),
    function("an end of iteration", FAILED.format("StopIteration at p.py, line 3"), "raise StopIteration"),
    function("no end", FAILED.format("RecursionError at p.py, line 3: maximum…"), "return f(observations, rng)"),
    function("other observations", "", "observations[:] = 'b'", "return ['go'] * 23", rate=0.5),
    function("other errors of NumPy", "", "np.seterr(all='raise')", "return ['go'] * 23", rate=0.5),
    function("other seeds", "", "np.random.seed(0)", "return ['go'] * 23", rate=0.5),
    function("other filters", "", "import warnings; warnings.simplefilter('error')", "return ['go'] * 23", rate=0.5),
    python("no parameters", NOT_ONE.format("()"), "def f(): return 1"),
    python("three parameters", NOT_ONE.format("(a, b, c)"), "def f(a, b, c): return 1"),
    python(
        "a class with parameters",
        "Policy class 'f' must be made without arguments; it failed",
        "class f:",
        "    def __init__(self, x): pass",
    ),
    python("a number", "policy must be a table [S, A], a mapping, a data frame, a function … Got a int.", "f = 3"),
    python("a module", "policy must be a table [S, A], a mapping, a data frame, a function … Got a module.", "f = np"),
    python(
        "a path",
        "must be a function, an object, a class or a table. Got '/etc/passwd'; name another",
        "f = '/etc/passwd'",
    ),
    python(
        "a table of numbers for text",
        "state 'a' in the log log.csv has none: its states are 0, 1 (integers)",
        "f = np.full((2, 2), 0.5)",
    ),
    python("a mapping", "", "f = {'a': {'go': 1.0}, 'b': {'go': 1.0}}", rate=0.5),
    python(
        "a mapping of one state", "state 'b' in the log log.csv has none: its states are 'a'", "f = {'a': {'go': 1.0}}"
    ),
    python(
        "a mapping of 0.999", "the probabilities of state 'a' must sum to one. Got 0.999;", "f = {'a': {'go': 0.999}}"
    ),
    python(
        "a mapping below 0",
        "the probability of 'go' must be a number ≥ 0. Got -1.0.",
        "f = {'a': {'go': -1.0, 'stay': 2.0}}",
    ),
    python(
        "a mapping in a mapping",
        "the probability of 'go' must be a number ≥ 0. Got {'x': 1}.",
        "f = {'a': {'go': {'x': 1}}}",
    ),
    python(
        "a mapping in itself", "the probability of 'a' must be a number ≥ 0. Got {'a': {...}}.", "f = {}", "f['a'] = f"
    ),
    python("another name", "'p.py' must define 'f', and it does not (it has g); check the name.", "g = 3"),
    python(
        "a name like that of a module",
        "'p.py' must define 'f', and it does not (it has g); check the name.",
        "import math as ff",
        "g = 3",
    ),
    python("no syntax", LOADED.format("SyntaxError at p.py, line 2: invalid syntax"), "def f(:"),
    python("no indentation", LOADED.format("IndentationError at p.py, line 2: unexpected indent"), "  x = 1"),
    python("a zero byte", LOADED.format("SyntaxError: source code string cannot contain null bytes"), "x = 1\0"),
    python(
        "another module that is missing",
        LOADED.format("ModuleNotFoundError at p.py, line 2…'no_such'"),
        "import no_such",
    ),
    python("an error at once", LOADED.format("ZeroDivisionError at p.py, line 2: division by zero"), "1 / 0"),
    Trial(
        "Latin-1",
        {**log(), "p.py": b"x = '\xe9'"},
        LOADED.format("SyntaxError…'utf-8' codec can't decode…"),
        policy="p.py:f",
    ),
    Trial(
        "no name",
        code("f = 3"),
        "'p.py' must be followed by the name to use from it, as in p.py:choose.",
        policy="p.py",
    ),
    Trial(
        "an empty name",
        code("f = 3"),
        "'p.py:' must end in a Python name, as in policy.py:choose. Got ''.",
        policy="p.py:",
    ),
    Trial(
        "a path for a name",
        code("f = 3"),
        "must end in a Python name, as in policy.py:choose. Got '../f'.",
        policy="p.py:../f",
    ),
    Trial(
        "what Python adds",
        code("f = 3"),
        "Policy '__builtins__' must have a row for every state",
        policy="p.py:__builtins__",
    ),
]
PROBABILITIES = [
    probabilities("plain", "", "np.full((n, 2), 0.5)", rate=0.5),
    probabilities("single precision", "", "np.full((n, 2), 0.5, np.float32)", rate=0.5),
    probabilities("truth values", "", "np.array([[True, False]] * n)", rate=0.5),
    probabilities(
        "a sum of 0.999",
        "must give probabilities that sum to one. Got 0.999 at the observation a;",
        "np.full((n, 2), 0.4995)",
    ),
    probabilities("nan", "between 0 and 1. Got nan for action 'go' at the observation a.", "np.full((n, 2), np.nan)"),
    probabilities(
        "below 0", "between 0 and 1. Got -0.5 for action 'go' at the observation a.", "np.array([[-0.5, 1.5]] * n)"
    ),
    probabilities(
        "infinite", "between 0 and 1. Got inf for action 'go' at the observation a.", "np.array([[np.inf, 0]] * n)"
    ),
    probabilities("three columns", f"{NO_SHAPE} ('go', 'stay'). Got shape (2, 3).", "np.full((n, 3), 1 / 3)"),
    probabilities("one axis", f"{NO_SHAPE} ('go', 'stay'). Got shape (2,).", "np.full(n, 0.5)"),
    probabilities("a row too few", f"{NO_SHAPE} ('go', 'stay'). Got shape (1, 2).", "np.full((n - 1, 2), 0.5)"),
    probabilities("objects", f"{NO_SHAPE}. Got a ndarray; return an array of floats.", "np.full((n, 2), None)"),
    probabilities("text", f"{NO_SHAPE}. Got a ndarray; return an array of floats.", "np.full((n, 2), '0.5')"),
    probabilities(
        "complex numbers", f"{NO_SHAPE}. Got a ndarray; return an array of floats.", "np.full((n, 2), 0.5 + 0j)"
    ),
    probabilities("masks", f"{NO_SHAPE}. Got a MaskedArray; return an array of floats.", "np.ma.masked_all((n, 2))"),
    probabilities("an action twice", "Got 'go' twice; merge the two columns.", "np.full((n, 2), 0.5)", "['go', 'go']"),
    probabilities(
        "no actions", "Policy 'f' must have a sequence of at least one action label. Got [].", "np.ones((n, 0))", "[]"
    ),
    probabilities(
        "an action that nobody took",
        "probability 0.5 to the action 'fly' at the obs",
        "np.full((n, 2), 0.5)",
        "['go', 'fly']",
    ),
    probabilities("an action left out", "", "np.ones((n, 1))", "['go']", rate=0.5),
]
TABLES = [
    table(
        "a state misspelt",
        "state 'rain' in the log log.csv has none: … the table's label 'rainy' is not in the log: did you mean 'rain'?",
        "state,action\nsun,go\nrainy,stay\n",
        files=log(state=[{"a": "sun", "b": "rain"}[one] for one in walk()["state"]]),
    ),
    table("plain", "", TABLE, rate=0.5),
    table("a byte order mark", "", f"\ufeff{TABLE}", rate=0.5),
    table("CR LF", "", TABLE.replace("\n", "\r\n"), rate=0.5),
    table("a state that nobody visits", "", f"{TABLE}c,go,1e-400\nc,stay,1\n", rate=0.5),
    table("an action that nobody took, never", "", f"{TABLE}b,fly,0\n", rate=0.5),
    table(
        "an action that nobody took",
        "gives probability 0.5 to the action 'fly' at the observation b",
        TABLE.replace("b,go", "b,fly"),
    ),
    table(
        "a sum of 0.999",
        "'p.csv': the probabilities of state 'a' must sum to one. Got 0.999;",
        TABLE.replace("go,0.5", "go,0.499", 1),
    ),
    table("below 0", NO_NUMBER.format("'-0.5'"), TABLE.replace("go,0.5", "go,-0.5", 1)),
    table("nan", NO_NUMBER.format("'nan'"), TABLE.replace("go,0.5", "go,nan", 1)),
    table("infinite", NO_NUMBER.format("'inf'"), TABLE.replace("go,0.5", "go,inf", 1)),
    table("text", NO_NUMBER.format("'half'"), TABLE.replace("0.5", "half")),
    table("per cent", NO_NUMBER.format("'50%'"), TABLE.replace("0.5", "50%")),
    table("hundreds", NO_NUMBER.format("'50'"), TABLE.replace("0.5", "50")),
    table("decimal commas", NO_NUMBER.format("'0,5'"), TABLE.replace("0.5", '"0,5"')),
    table("underscores", NO_NUMBER.format("'0.5_0'"), TABLE.replace("0.5", "0.5_0")),
    table("a pair twice", "line 6: state 'a' and action 'go' occur twice; keep one of them.", f"{TABLE}a,go,0.5\n"),
    table(
        "a state too few",
        "state 'b' in the log log.csv has none: its states are 'a' (text); add the row.",
        "\n".join(TABLE.split("\n")[:3]),
    ),
    table("no bytes", "'p.csv' is empty; its first line must be state,action,probability.", ""),
    table("a header alone", "'p.csv' has a header and no rows; add a line for each state.", TABLE[:25]),
    table(
        "another header",
        f"{NO_HEADER}, separated by commas. Got the header 'state,action,chance'.",
        TABLE.replace("probability", "chance"),
    ),
    table("no header", f"{NO_HEADER}, separated by commas. Got the header 'a,go,0.5'.", TABLE[25:]),
    table(
        "semicolons",
        f"{NO_HEADER}, separated by commas. Got the header 'state;action;probability'.",
        TABLE.replace(",", ";"),
    ),
    table("a row too short", "'p.csv', line 6: must have 3 fields as the header. Got 2.", f"{TABLE}a,go\n"),
    table(
        "Latin-1",
        "cannot be read as CSV ('utf-8' codec can't decode byte 0xe9",
        TABLE.replace("stay", "é").encode("latin-1"),
    ),
    table(
        "UTF-16", "cannot be read as CSV ('utf-8' codec can't decode byte 0xff in position 0", TABLE.encode("utf-16")
    ),
    table(
        "a field of 200 kB",
        "(field larger than field limit (131072)); save it as comma-sep",
        f"{TABLE}{'x' * 200_000},go,1\n",
    ),
    table(
        "a quote that nobody closes",
        "'p.csv' cannot be read as CSV (unexpected end of data); save it",
        f'{TABLE}"a,go,1\n',
    ),
    table(
        "a zero byte",
        r"to the action 'st\x00y' at the observation a, and the log log.csv holds only",
        TABLE.replace("stay", "st\0y"),
    ),
    table(
        "spaces before labels",
        "has the actions ' go', ' stay', and the log log.csv has 'go', 'stay': labels",
        TABLE.replace(",", ", "),
    ),
    Trial("the log itself", says="Got the header 'state,action,reward'.", policy="log.csv"),
    Trial(
        "letters of two signs",
        {"log.csv": text().replace("stay", "é"), "p.csv": TABLE.replace("stay", "e\u0301")},
        "to the action",
        policy="p.csv",
    ),
]
WORDS = [
    Trial("no word", says="--policy must be [NAME=]SPEC with SPEC uniform, logged, … Got ''.", policy=""),
    Trial(
        "a name alone", says="--policy must be [NAME=]SPEC with SPEC uniform, logged, … Got 'mine='.", policy="mine="
    ),
    Trial("another word", says=NO_WORD, policy="uniformly"),
    Trial(
        "a constant without an action",
        says="constant: must name an action, such as constant:0 or constant",
        policy="constant:",
    ),
    Trial(
        "a constant that nobody took",
        says="must be an action of the log log.csv: 'go', 'stay' (text). Got 'fly'.",
        policy="constant:fly",
    ),
    Trial(
        "an actor that is not shipped",
        says="A shipped actor must be for one of these environments",
        policy="shipped:Nope-v0",
    ),
    Trial("an actor elsewhere", says="Got '../../etc/passwd'; name a policy file.", policy="shipped:../../etc/passwd"),
    Trial(
        "two policies",
        says="evaluate takes one --policy. Got 2; for several: cesaro compare.",
        options="--policy logged",
    ),
    Trial(
        "two equal policies",
        says="Got 'uniform' twice; write --policy NAME=unif",
        command="compare log.csv --policy uniform --policy uniform",
    ),
    Trial(
        "one policy to compare",
        says="compare takes at least two --policy options. Got 1; for",
        command="compare log.csv --policy uniform",
    ),
    Trial("a constant in other letters", says="Got 'GO'; did you mean 'go'?", policy="constant:GO"),
    Trial("a word misspelt", says="Got 'unifrom'; did you mean uniform?", policy="unifrom"),
    Trial(
        "a file misspelt",
        {**log(), "nightly.py": ""},
        "'nighty.py' cannot be found; did you mean 'nightly.py'?",
        policy="nighty.py:f",
    ),
    Trial(
        "a column that is no plain word, without backticks",
        log(**{"soil%": [str(t) for t in range(24)]}),
        "a column whose name is more than one plain word stands in backticks, `room temp`.",
        policy="rule:go if soil% < 5 else stay",
    ),
    python("a name misspelt", "did you mean 'f2'?", "def f2(observations): return ['go'] * len(observations)"),
    Trial("a table that is missing", says=f"'nope.csv' {NO_FILE}", policy="nope.csv"),
    Trial("a file that is missing", says=f"'p.py' {NO_FILE}", policy="p.py:f"),
    Trial("a folder", {**log(), "p.py/x": ""}, f"'p.py' {NO_FILE}", policy="p.py:f"),
    Trial("a pipe of Python", {**log(), "p.py": os.mkfifo}, f"'p.py' {NO_FILE}", policy="p.py:f"),
    Trial("a pipe of a table", {**log(), "p.csv": os.mkfifo}, f"'p.csv' {NO_FILE}", policy="p.csv"),
    Trial("a path with a zero byte", says=rf"'a\x00b.csv' {NO_FILE}", policy="a\0b.csv"),
    Trial("an address", says=NO_FILE, policy="https://example.com/p.py:f"),
    Trial(
        "a pickle",
        {**log(), "p.pkl": b"cos\nsystem\n(S'touch ran'\ntR."},
        "'p.pkl' is a pickled object, and loading it runs the code inside; if you trust who made it, pass trust=True (--trust",
        policy="p.pkl",
    ),
    Trial(
        "a pickle of Torch",
        {**log(), "p.pt": b"PK"},
        "'p.pt' is a pickle file, which runs code when it is loaded and is never read",
        policy="p.pt",
    ),
    Trial("an array", {**log(), "p.npy": b""}, NO_WORD, policy="p.npy"),
    Trial(
        "a model without trust",
        {**log(), "p.zip": b"PK"},
        "loading it runs the pickled code inside; if you trust who",
        policy="p.zip",
    ),
    Trial(
        "a model that is none",
        {**log(), "p.zip": b"PK"},
        "'p.zip' is not a zip file; save the model again",
        policy="p.zip",
        options="--trust",
    ),
    Trial(
        "a pickle that is none, trusted",
        {**log(), "p.joblib": b"no pickle"},
        "'p.joblib' cannot be loaded (…); save the model again, with joblib.dump and the installed versions.",
        policy="p.joblib",
        options="--trust",
    ),
    Trial(
        "a label that the log does not know",
        {**log(), "p.joblib": classifier("go", "fly")},
        "Policy 'p' chooses the action 'fly' at the observation b, and the log log.csv holds only 'go', 'stay'; the log",
        policy="p.joblib",
        options="--trust",
    ),
    Trial(
        "no label that the log knows",
        {**log(), "p.joblib": classifier(0, 1)},
        "Policy 'p' knows the classes 0, 1 (integers), and the log log.csv has the actions 'go', 'stay' (text): none is the same",
        policy="p.joblib",
        options="--trust",
    ),
    Trial(
        "a state that the classifier does not know",
        {"log.csv": text(state=["a", "b", "c"] * 8), "p.joblib": classifier("go", "stay")},
        "Policy 'p' failed with ValueError: Found unknown categories ['c'] in column 0 during transform;",
        policy="p.joblib",
        options="--trust",
    ),
    Trial("a packed table", {**log(), "p.csv.gz": b""}, NO_WORD, policy="p.csv.gz"),
    Trial("a name of markup", rate=0.5, policy="[red]x=constant:go"),
    Trial("a name of two lines", rate=0.5, policy="a\nb=constant:go"),
]
RULES = [
    Trial("a rule", rate=0.5, policy="rule:go if state == 'a' else 'go'"),
    Trial("no expression", says="rule: must hold an expression. Got none; a rule is ACTION if", policy="rule:"),
    Trial("a decimal comma", says="…; decimals have a point, 0.6.", policy="rule:go if state > 0,6 else stay"),
    Trial(
        "if, of all rows at once",
        {**log(), "p.py": "def p(seen):\n    return 'go' if seen == 'a' else 'stay'\n"},
        "it gets all rows at once, so use np.where, & and | in place of if, and, or;",
        policy="p.py:p",
    ),
    Trial(
        "three rows",
        {"log.csv": "x,action,reward\n0.5,go,1\n1.5,stay,0\n2.5,go,1\n"},
        "in these features, because it is too short, 2 transitions for",
        options="--observation x",
    ),
    Trial("no else", says="cannot be read at character 19 of the rule, ''", policy="rule:go if state == 'a'"),
    Trial(
        "one equals sign",
        says="cannot be read at character 12…; equality is ==.",
        policy="rule:go if state = 'a' else stay",
    ),
    Trial("no quotes", says="Got 'a' at character 16 of the rule; name one", policy="rule:go if state == a else stay"),
    Trial(
        "another action",
        says="must be an action of … Got 'fly' at character 1 of",
        policy="rule:fly if state == 'a' else go",
    ),
    Trial(
        "another column",
        says="Got 'stat' at character 7 of the rule; write state",
        policy="rule:go if stat == 'a' else go",
    ),
    Trial(
        "a label that the log does not have",
        log(state=["quiet", "busy"] * 12),
        "\"state\" must be compared with a label that the log log.csv has: 'busy', 'quiet'. Got \"'quite'\" at character 16 "
        "of the rule; did you mean 'quiet'? Else leave it out.",
        policy="rule:go if state == 'quite' else stay",
    ),
    Trial(
        "a rare label that the log does not have",
        rate=0.5,
        policy="rule:go if state in ('a', 'b', 'zebra') else stay",
    ),
    Trial("text and number", says="not of text and a number. Got 'state < 3'", policy="rule:go if state < 3 else stay"),
    Trial("code", says="a rule must consist of", policy="rule:open('ran', 'w').write('x')"),
    Trial("code in a name", says="put text in quotes", policy="rule:go if `__import__('os')` == 1 else stay"),
    Trial(
        "a number without end", says="arithmetic must give finite numbers", policy="rule:go if 9**9**9**9 > 1 else stay"
    ),
]


@rows(RULES)
def test_rules(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(FUNCTIONS)
def test_functions(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(PROBABILITIES)
def test_probabilities(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(TABLES)
def test_tables(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(WORDS)
def test_words(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
