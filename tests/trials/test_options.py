"""Settings out of range, words that mean nothing, feature functions that fail; commands and manifests that do not exist."""

from collections.abc import Callable

from .table import Files, Trial, log, rows

NUMBERS = log(state=[f"{row % 5}.5" for row in range(24)])
MANIFEST = "reproduce --from m.json --out o --quiet"
SCHEMA = '{"schema": "cesaro-study/1", "study": "../../x", "settings": {}}'
FUNCTION = "The output of the feature function 'f' must {}"


def option(options: str, says: str) -> Trial:
    return Trial(options, says=says, options=options)


def bounds(options: str, says: str) -> Trial:
    content = log(action=[f"{row}.5" for row in range(24)])
    return Trial(options, content, says, options=f"--kind state=category {options}", policy="constant:1.5")


def features(name: str, says: str, returned: str) -> Trial:
    content = f"import numpy as np\n\ndef f(observations, actions):\n    n = len(actions)\n    {returned}\n"
    return Trial(f"features: {name}", {**log(), "x.py": content}, says, options="--features x.py:f")


def collect(
    name: str, says: str, options: str, files: Files | None = None, policy: str = "uniform", out: str = "o.parquet"
) -> Trial:
    command = f"collect {options} --policy {policy} --out {out} --quiet"
    return Trial(f"collect: {name}", files or {}, says, command=command)


TRIALS = [
    option("--confidence 0", "confidence must be a number > 0 and < 1. Got 0.0."),
    option("--confidence 95", "confidence must be a number > 0 and < 1. Got 95.0."),
    option("--confidence nan", "confidence must be a number > 0 and < 1. Got nan."),
    option("--confidence many", "Invalid value for '--confidence'"),
    option("--ridge -1", "ridge must be a number ≥ 0 and < 1e+30. Got -1.0."),
    option("--ridge nan", "ridge must be a number ≥ 0 and < 1e+30. Got nan."),
    option("--ridge some", "--ridge must be auto or a number ≥ 0. Got 'some'."),
    option("--fail-on worst", "--fail-on must be bad or caution. Got 'worst'."),
    option(
        "--cost reward --reward reward",
        "--cost and --reward exclude each other: an outcome is better if it is low, or if it is high. Got 'reward' and 'reward';",
    ),
    option("--cost bill", 'log.csv must have the column "bill" that --cost names.'),
    option(
        "--cost state", '("state" is already used as cost); give --observation COLUMN; cesaro inspect proposes columns.'
    ),
    option("--ignore cost", "--ignore must be one of next_observation, … Got 'cost'."),
    option("--gap 0", "gap must be a number ≥ 1. Got 0.0."),
    option("--gap inf", "gap must be a number ≥ 1. Got inf."),
    option("--gap few", "--gap must be none or a number ≥ 1. Got 'few'."),
    option("--action-low 0 --action-high 1", 'Got labels in "action"; leave them out, or give --kind action=number if'),
    bounds("--action-low 2 --action-high 1", "--action-low must be at most --action-high. Got 2 and 1; exchange"),
    bounds("--action-low far", "--action-low must be a number or none. Got 'far'."),
    bounds(
        "--action-high nan",
        "--action-high must be a number, or one per dimension of the action. Got [nan]; none leaves",
    ),
    bounds("--action-low -inf --action-high -inf", "--action-high must be a number, … Got [-inf]"),
    bounds(
        "--action-low 0 --action-low 0",
        "log.csv: --action-low and --action-high must have one … Got 2 for 1 dimension;",
    ),
    option("--seed -1", "must be an integer ≥ 0. Got -1."),
    option("--seed 1.5", "Invalid value for '--seed'"),
    option("--draws 0", "draws must be an integer ≥ 1 and ≤ 10,000. Got 0."),
    option("--reward-lag 2", "must be 0 or 1. Got 2; shift the reward column yourself for more."),
    option("--method diff_gq1", "method must be one of auto, diff-lstd, diff-sgq, diff-gq1, … Got 'diff_gq1'."),
    option("--method none.py:f", "'none.py' cannot be read (No such file or directory); check the path."),
    option(
        "--set run=local",
        "--set is for settings of the method. Got 'run=local'; use --checkpoint,",
    ),
    option("--engine cloud", "engine must be 'local' or 'ray'. Got 'cloud'."),
    option("--address auto", "address is for the engine 'ray' alone. Got 'auto'; take --engine ray."),
    option(
        "--approximator mlp",
        "--approximator is for learned methods, and auto is none. Got --approximator mlp;",
    ),
    option("--set steps=5", "The method 'auto' has no setting steps; it has address, checkpoint, device, draws"),
    option("--set steps", "--set must be NAME=VALUE, each name once. Got 'steps'."),
    option("--set =1", "--set must be NAME=VALUE, each name once. Got '=1'."),
    option("--set x=1 --set x=2", "--set must be NAME=VALUE, each name once. Got 'x=2'."),
    option("--set ridge=1", "--set is for settings without an option of their own. Got 'ridge=1'; use --ridge."),
    option("--set random_state=1", "Got 'random_state=1'; use --seed."),
    option("--set __class__=1", "The method 'auto' has no setting __class__; it has"),
    option("--standard-errors bogus", "must be one of auto, independent, clustered, long-run. Got 'bogus'."),
    option("--standard-errors clustered", "needs a trajectory for every row; name its column (--trajectory)."),
    option("--on-termination bogus", "must be one of restart, keep, drop. Got 'bogus'."),
    option("--on-truncation ''", "must be one of keep, restart, drop. Got ''."),
    option("--nonsense", "No such option: --nonsense"),
    option("more", "Got unexpected extra argument"),
    option(
        "--features bogus",
        "features must be one of auto, one-hot, smooth, splines, linear, fourier, polynomial, … Got 'bogus'.",
    ),
    option("--features polinomial", "Got 'polinomial'; did you mean polynomial?"),
    option("--features fourier:-1", "features must be 'fourier' or 'fourier:<whole number>'. Got 'fourier:-1'."),
    option("--features x.py:f", "'x.py' cannot be read (No such file or directory); check the path."),
    Trial(
        "--features fourier:0",
        NUMBERS,
        "N in fourier:N must be an integer ≥ 1 and ≤ 4,096. Got 0.",
        options="--features fourier:0",
    ),
    Trial(
        "--features fourier:4097",
        NUMBERS,
        "must be an integer ≥ 1 and ≤ 4,096. Got 4097.",
        options="--features fourier:4097",
    ),
    Trial("--features fourier:1e3", NUMBERS, "Got 'fourier:1e3'.", options="--features fourier:1e3"),
    features("an error", "The feature function 'f' failed with ValueError at …: no;", "raise ValueError('no')"),
    features("nan", FUNCTION.format("be finite. Got nan at row 0, feature 0;"), "return np.full((n, 2), np.nan)"),
    features("none", FUNCTION.format("have shape [row=2, feature]. Got (2, 0);"), "return np.ones((n, 0))"),
    features("one axis", FUNCTION.format("have shape [row=2, feature]. Got (3,);"), "return np.ones(3)"),
    features("nothing", FUNCTION.format("be a real array of shape [row, feature]. Got a NoneType;"), "return None"),
    features(
        "labels", FUNCTION.format("be a real array of shape [row, feature]. Got dtype object;"), "return observations"
    ),
    Trial("--seed of 70 bits", rate=0.5, options=f"--seed {2**70}"),
    Trial("--unit of two lines", rate=0.5, options="--unit 'a\nb'"),
    Trial("--unit of a page", rate=0.5, options="--unit '</script><b>'"),
    Trial("--stream of a small log", rate=0.5, options="--stream"),
]


COMMANDS = [
    collect("no steps", "steps must be an integer ≥ 1 and ≤ 2,000,000,000. Got 0.", "CartPole-v1 --steps 0"),
    collect("fewer steps than streams", "Got 10 for 20 streams; ask for more steps.", "CartPole-v1 --steps 10"),
    collect("no streams", "streams must be an integer ≥ 1 and ≤ 100,000. Got 0.", "CartPole-v1 --steps 20 --streams 0"),
    collect("unknown environment", "must be the name of a Gymnasium environment. Got 'Nope-v0'", "Nope-v0 --steps 20"),
    collect("a module", "must be the name of a Gymnasium environment. Got 'os:system'", "os:system --steps 20"),
    collect("an action that does not exist", "Got 'fly'.", "CartPole-v1 --steps 20", policy="constant:fly"),
    collect("another ending", "out must end in .parquet. Got 'o.txt'.", "CartPole-v1 --steps 20", out="o.txt"),
    collect(
        "something in the way",
        "exists; add --force to replace it",
        "CartPole-v1 --steps 20",
        files={"o.parquet": "mine"},
    ),
    Trial("truth: unknown environment", {}, "Got 'Nope-v0'", command="truth Nope-v0 --policy uniform --steps 100"),
    Trial(
        "truth: of a log", {}, "'logged' is what a log did.", command="truth CartPole-v1 --policy logged --steps 100"
    ),
    Trial(
        "reproduce: no trials", {}, "must be an integer ≥ 1. Got 0", command="reproduce assumption --trials 0 --out o"
    ),
    Trial("reproduce: unknown", {}, "No such command 'everything'.", command="reproduce everything --out o"),
    Trial("reproduce: no manifest", {}, "The manifest 'm.json' does not exist.", command=MANIFEST),
    Trial(
        "reproduce: a list",
        {"m.json": "[]"},
        "must be a manifest of schema 'cesaro-study/1'. Got sch",
        command=MANIFEST,
    ),
    Trial(
        "reproduce: no text",
        {"m.json": b"\xff"},
        "'m.json' is not readable JSON (…invalid start byte); give the manifest.json of",
        command=MANIFEST,
    ),
    Trial(
        "reproduce: cut",
        {"m.json": SCHEMA[:-1]},
        "'m.json' is not readable JSON (Expecting…); give the manifest.json of",
        command=MANIFEST,
    ),
    Trial(
        "reproduce: nothing else",
        {"m.json": SCHEMA},
        "'m.json' has no valid summary and versions; it may be",
        command=MANIFEST,
    ),
    Trial("evaluate: no log", {}, "Missing argument 'LOG'.", command="evaluate"),
    Trial("evaluate: no policy", says="Missing option '--policy'.", command="evaluate log.csv"),
    Trial("no command", {}, "No such command 'evalute'. Did you mean 'evaluate'?", command="evalute"),
]


@rows(COMMANDS)
def test_commands(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(TRIALS)
def test_options(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
