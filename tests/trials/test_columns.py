"""Columns of CSV files: labels, ids, times, weights and flags, and options that name columns."""

from collections.abc import Callable

from .table import Trial, log, rows, walk

STATES, ACTIONS, _ = walk().values()
ROWS = range(24)


def states(a: str, b: str) -> list[str]:
    return [a if state == "a" else b for state in STATES]


def actions(go: str, stay: str) -> list[str]:
    return [go if action == "go" else stay for action in ACTIONS]


def ids(first: str, second: str) -> list[str]:
    return [first] * 12 + [second] * 12


def third(entry: str, others: list[str] | str) -> list[str]:
    """A column whose third entry is another one than the rest."""
    others = [others] * 24 if isinstance(others, str) else others
    return [*others[:2], entry, *others[3:]]


TIMES = [str(row) for row in ROWS]
DAYS = [f"2024-01-{row + 1:02}" for row in ROWS]
MISSING = 'column "{}" must not have missing entries. Got …empty entry…at row 2 (counted from 0), line 4; fill it in'
NO_FORM = 'column "time" must hold times, all of one form. Got {} at row 2 (counted from 0), line 4; correct it, or write it as'
NO_TIME = 'column "time" must hold times that can be subtracted. Got {} at row 0 (counted from 0), line 2 (type {}); '
SAME_TIME = (
    "must be different in every row of a trajectory. Got the same at row {} (counted from 0), line … and row {} ("
)
NO_FLAG = 'column "{}" must be true/false or 0/1. Got {} at row {} (counted from 0)…; write it as a Boolean column.'
ALL_USED = (
    'Got the columns "state", "action", "reward" ("reward" is already used as {}); give --reward COLUMN; cesaro inspect'
)

LABELS = [
    Trial("two ways to write one letter", log(state=states("e\u0301", "\u00e9")), rate=0.5),
    Trial("a space of no width", log(state=states("x\u200b", "x")), rate=0.5),
    Trial("letters of two alphabets", log(state=states("а", "a")), rate=0.5),
    Trial("a space behind", log(action=actions("go ", "go")), rate=0.5),
    Trial("another case", log(action=actions("go", "Go")), rate=0.5),
    Trial("a space alone", log(state=states(" ", "b")), rate=0.5),
    Trial("null", log(action=actions("null", "stay")), rate=0.5),
    Trial(
        "nan",
        log(state=states("nan", "b")),
        "Got 'b' at row 1 (counted from 0), line 3, one of 12 that are no numbers; correct those entries, or give --kind",
    ),
    Trial("nan, called a label", log(state=states("nan", "b")), rate=0.5, options="--kind state=category"),
    Trial("markup of a terminal", log(action=actions("[red]go[/red]", "[/]")), rate=0.5),
    Trial("codes of a terminal", log(action=actions("\x1b[2Jgo", "\x07")), rate=0.5),
    Trial("fields of a format", log(action=actions("{0.__class__}", "%s%n")), rate=0.5),
    Trial("text from right to left", log(action=actions("\u202eog", "\u2066x")), rate=0.5),
    Trial("emoji of several signs", log(action=actions("👩\u200d👩\u200d👧", "👩")), rate=0.5),
    Trial("a formula", log(action=actions("=cmd|' /C calc'!A0", "@SUM(1)")), rate=0.5),
    Trial("a zero byte", log(action=actions("go\0", "go")), rate=0.5),
    Trial("empty", log(state=""), MISSING.format("state")),
    Trial(
        "an empty action",
        log(action=""),
        MISSING.format("action") + ", or give --drop-incomplete to leave that row out",
    ),
    Trial("an empty action that is left out", log(action=""), rate=0.5, options="--drop-incomplete"),
    Trial(
        "every action is empty",
        log(action=[""] * 24),
        'Got none of 24 rows (24 with an empty entry in "action")',
        options="--drop-incomplete",
    ),
    Trial(
        "an empty action of a log in blocks",
        log(action=""),
        "--drop-incomplete needs a log that is held in memory. …; give --no-stream, or remove the incomplete rows",
        options="--drop-incomplete --stream",
    ),
    Trial(
        "dates",
        log(state=states("2024-01-01", "2024-01-02")),
        "Got type date32[day]; turn the date or time into numbers or",
    ),
    Trial(
        "digits beyond 2⁵³",
        log(state=states(str(2**64), str(2**64 + 1))),
        "Got whole numbers of 2**53 or more; give --kind st",
    ),
    Trial(
        "digits beyond 2⁵³, called labels",
        log(state=states(str(2**64), str(2**64 + 1))),
        rate=0.5,
        options="--kind state=category",
    ),
    Trial(
        "fractions, called labels", log(state=states("0.5", "1.5")), "Got 0.5 at row 0", options="--kind state=category"
    ),
    Trial("one state", log(state=["a"] * 24), rate=19 / 36),
    Trial("one action in fact", log(action=["go"] * 24, state=["a", "b"] * 12, reward=["0", "1"] * 12), rate=0.5),
    Trial(
        "a state per row",
        log(state=[f"s{row}" for row in ROWS]),
        "every logged pair of state and action leads to pairs that no row has…(s1, stay)",
    ),
    Trial(
        "two parts that never meet",
        log(state=ids("a", "b"), trajectory=ids("1", "2")),
        "falls into 2 separate parts that never meet, 11 rows around (a, go) (50 % of the target's time), 11 rows around (b, go) "
        "(50 % of the target's time); evaluate each part alone, on a log of its rows only",
    ),
]
NUMBERS = [
    Trial("nan", log(state=third("nan", TIMES)), MISSING.format("state")),
    Trial(
        "infinite", log(state=third("inf", TIMES)), 'column "state" must be finite. Got inf at row 2 (counted from 0)'
    ),
    Trial(
        "text",
        log(state=third("x", TIMES)),
        "Got 'x' at row 2 (counted from 0), line 4; correct that entry, or give --kind state=",
    ),
    Trial("constant", log(state=["7.5"] * 24), rate=19 / 36),
    Trial("a missing action", log(action=third("nan", actions("1", "0"))), MISSING.format("action")),
    Trial(
        "actions without bounds",
        log(action=[f"{row}.5" for row in ROWS]),
        "Policy 'uniform' needs finitely many actions, or",
    ),
    Trial("actions as digits", log(action=actions("1", "0")), rate=0.5, policy="constant:1"),
]
IDS = [
    Trial("leading zeros", log(trajectory=ids("01", "1")), rate=0.5, says="Dropped 2 of 24 rows"),
    Trial("one number in two ways", log(trajectory=ids("1", "1.0")), rate=0.5, says="Dropped 2 of 24 rows"),
    Trial("digits beyond 2⁶⁴", log(trajectory=ids(str(2**64), str(2**64 + 1))), rate=0.5, says="Dropped 2 of 24 rows"),
    Trial(
        "the largest of 64 bits",
        log(trajectory=ids(str(2**63 - 1), str(2**63 - 2))),
        rate=0.5,
        says="Dropped 2 of 24 rows",
    ),
    Trial("dates", log(trajectory=ids("2024-01-01", "2024-01-02")), rate=0.5, says="Dropped 2 of 24 rows"),
    Trial("empty", log(trajectory=third("", ids("1", "2"))), MISSING.format("trajectory") + " or remove that row"),
    Trial(
        "one per row",
        log(trajectory=TIMES),
        "Got none of 24 rows (24 at the end of a trajectory without a next observation); give",
    ),
    Trial("in turns", log(trajectory=["0", "1"] * 12), says="The rows were sorted by trajectory.", code=0),
]
WEIGHTS = [
    Trial(
        "not asked for",
        log(weight=["-1"] * 24),
        rate=0.5,
        says='The column \\"weight\\" was not used: give --weight weight if',
    ),
    Trial(
        "negative",
        log(w=third("-1", "1")),
        'column "w" must not be negative. Got -1 at row 2 (counted from 0)',
        options="--weight w",
    ),
    Trial(
        "all zero",
        log(w=["0"] * 24),
        'column "w" must not be zero in every row. Got no positive weight; leave --weight out',
        options="--weight w",
    ),
    Trial("nan", log(w=third("nan", "1")), MISSING.format("w"), options="--weight w"),
    Trial("infinite", log(w=third("inf", "1")), 'column "w" must be finite. Got inf at row 2', options="--weight w"),
    Trial(
        "text",
        log(w=third("heavy", "1")),
        "Got 'heavy' at row 2 (counted from 0), line 4; correct that entry",
        options="--weight w",
    ),
    Trial(
        "one row counts",
        log(w=third("1", "0")),
        "pairs that no row has, above all (s', a') = (a, go)",
        options="--weight w",
    ),
    Trial("truth values", log(w=["true"] * 24), rate=0.5, options="--weight w"),
]
TIME = [
    Trial("twice the same", log(time=[str(row // 2) for row in ROWS]), SAME_TIME.format(0, 1)),
    Trial("backwards", log(time=[str(-row) for row in ROWS]), says="The rows were sorted by time.", code=0),
    Trial("nan", log(time=third("nan", TIMES)), MISSING.format("time")),
    Trial("empty", log(time=third("", TIMES)), MISSING.format("time")),
    Trial("infinite", log(time=third("inf", TIMES)), 'column "time" must be finite. Got inf at row 2 (counted from 0)'),
    Trial(
        "one text", log(time=third("noon", TIMES)), "Got 'noon' at row 2 (counted from 0), line 4; correct that entry."
    ),
    Trial(
        "the American order",
        log(time=[f"1/{row + 1}/2024 1:05 PM" for row in ROWS]),
        says="are read with the month first.",
        code=0,
    ),
    Trial(
        "the German order",
        log(time=[f"{row + 1:02}.01.2024 14:00" for row in ROWS]),
        says="are read with the day first.",
        code=0,
    ),
    Trial(
        "months by name",
        log(time=[f"{row + 1:02d} Feb 2024 06:00" for row in ROWS]),
        code=0,
        says="are read with the day first.",
        rate=0.5,
    ),
    Trial(
        "dates without marks",
        log(time=[str(row + 20240201) for row in ROWS]),
        code=0,
        says="are read with the year first.",
        rate=0.5,
    ),
    Trial(
        "numbers one of which is no date",
        log(time=[str(row + 20240210) for row in ROWS]),
        rate=0.5,
    ),
    Trial(
        "times that are not used beside trajectories",
        log(unit=["u"] * 24, logged=[f"2024-02-01 {row:02d}:00" for row in ROWS]),
        code=0,
        says="to order rows by it, give --time logged.",
        options="--trajectory unit",
        rate=0.5,
    ),
    Trial("points, and no day over 12", log(time=[f"01.01.{row + 2000}" for row in ROWS]), code=0, says="day first"),
    Trial(
        "no day over 12",
        log(time=[f"01/02/{row + 2000}" for row in ROWS]),
        "must hold times that can be read in one way. Got '01/02/2000' at row 0 (counted from 0), line 2, and no entry "
        "has a day over 12 that would tell days from months; write times as 2024-01-31 14:00:00.",
    ),
    Trial(
        "days and months first",
        log(time=third("13/01/2024", [f"01/{row + 13:02}/2024" for row in ROWS])),
        NO_FORM.format("'13/01/2024'"),
    ),
    Trial(
        "a date that does not exist",
        log(time=third("31.02.2024", [f"{row + 1:02}.01.2024" for row in ROWS])),
        "Got '31.02.2024' at row 2 (counted from 0), line 4, a day that does not exist; correct it.",
    ),
    Trial(
        "the same day twice",
        log(time=[f"{row // 2 + 1:02}.01.2024" for row in ROWS], unit=["u"] * 24),
        "line 3; add to the column what tells them apart, such as the hour, or give --ignore time in place of --time if",
        options="--trajectory unit",
    ),
    Trial("weeks", log(time=[f"2024-W{row + 1:02}" for row in ROWS]), NO_TIME.format("'2024-W01'", "string")),
    Trial(
        "a clock of 12 hours",
        log(time=[f"{row % 12 + 1}:00 PM" for row in ROWS]),
        NO_TIME.format("'1:00 PM'", "string"),
    ),
    Trial(
        "a clock without a date",
        log(time=[f"{row:02}:00" for row in ROWS]),
        NO_TIME.format("datetime.time(0, 0)", "time32[s]"),
    ),
    Trial(
        "a day that does not exist",
        log(time=third("2024-02-30", DAYS)),
        "Got '2024-02-30' at row 2 (counted from 0), line 4, a day that does not exist; correct it.",
    ),
    Trial(
        "the year 9999",
        log(time=third("9999-12-31", DAYS)),
        rate=0.5,
        says="Trajectories were cut at 2 gaps of more than",
    ),
    Trial(
        "zones in turns",
        log(time=[f"2024-01-01T{row:02}:00{'Z' if row % 2 else '+01:00'}" for row in ROWS]),
        SAME_TIME.format(1, 2),
    ),
    Trial(
        "zones in some rows",
        log(time=[f"2024-01-01T{row:02}:00{'Z' if row % 2 else ''}" for row in ROWS]),
        "must hold times, all of one form. Got '2024-01-01T01:00Z' at row 1",
    ),
    Trial(
        "the hour that comes twice in autumn",
        log(time=[f"2024-10-27T{hour:02}:00" for hour in (0, 1, 2, *range(2, 23))]),
        SAME_TIME.format(2, 3),
    ),
    Trial(
        "the hour that comes twice in autumn, with offsets",
        log(time=[f"2024-10-27T{max(row - (row > 2), 0):02}:00{'+02:00' if row < 3 else '+01:00'}" for row in ROWS]),
        rate=0.5,
    ),
    Trial(
        "from end to end of a double",
        log(time=["-1.7e308", *TIMES[:22], "1.7e308"]),
        rate=0.5,
        says="cut at 2 gaps of more",
    ),
    Trial(
        "from end to end of 64 bits",
        log(time=[f"{-(2**63)}", *TIMES[:22], f"{2**63 - 1}"]),
        rate=0.5,
        says="cut at 2 gaps",
    ),
    Trial("steps of 10³⁰⁶", log(time=[f"{row}e306" for row in ROWS]), rate=0.5),
]
FLAGS = [
    Trial("text", log(terminated=third("maybe", "false")), NO_FLAG.format("terminated", "'false'", 0)),
    Trial("two", log(terminated=third("2", "0")), NO_FLAG.format("terminated", "2", 2)),
    Trial("one half", log(terminated=third("0.5", "0")), NO_FLAG.format("terminated", "0.5", 2)),
    Trial("empty", log(terminated=third("", "0")), MISSING.format("terminated")),
    Trial(
        "an end in every row",
        log(terminated=["1"] * 24),
        rate=0.5,
        says="of 24 rows that ended an episode is the first one of",
    ),
    Trial(
        "done",
        log(done=third("1", "0")),
        "may mean termination or a time limit…give --terminated done, or --ignore terminated",
    ),
    Trial(
        "next states of another type",
        log(next_state=TIMES),
        'column "next_state" must hold labels of the type of the column it',
    ),
    Trial(
        "next states that are empty", log(next_state=third("", [*STATES[1:], "a"])), "or flag the end of the episode."
    ),
    Trial(
        "next states that nobody visits",
        log(next_state=["c"] * 24),
        "pairs that no row has, above all (s', a') = (c, go), (c,…or --kind COLUMN=number where labels are quantities). A "
        "small ridge (--ridge 1e-6) gives a number anyway",
    ),
    Trial(
        "taken, but not possible",
        log(available_go=["0"] * 24, available_stay=["1"] * 24),
        "Got go taken but not available at",
    ),
    Trial(
        "possible, but text",
        log(available_go=["yes"] * 24, available_stay=["1"] * 24),
        NO_FLAG.format("available_go", "'yes'", 0),
    ),
    Trial(
        "possible, but unknown",
        log(available_go=["1"] * 24, available_fly=["1"] * 24),
        "Got no action 'fly' in the log; choose",
    ),
    Trial("possible, but not for all", log(available_go=["1"] * 24), "Got none for stay; add available_stay."),
]
OPTIONS = [
    Trial(
        "a column that is not there",
        says='must have the column "agent" that --trajectory names. Got',
        options="--trajectory agent",
    ),
    Trial(
        "a column without a name", says='must have the column "" that --observation names.', options="--observation ''"
    ),
    Trial("a column for two roles", says=ALL_USED.format("observation"), options="--observation reward"),
    Trial("an action for a reward", says=ALL_USED.format("action"), options="--action reward"),
    Trial(
        "a column twice",
        says='must name each column once. Got "state" twice',
        options="--observation state --observation state",
    ),
    Trial(
        "a pattern that matches nothing",
        says='must have columns that begin with "obs_", as --o',
        options="--observation 'obs_*'",
    ),
    Trial(
        "a pattern that matches everything",
        says='("action" is already used as observation)',
        options="--observation '*'",
    ),
    Trial(
        "an option for a column", says='must have the column "--reward" that --obs', options="--observation --reward"
    ),
    Trial(
        "no reward",
        says="--ignore must be one of next_observation, trajectory, time, … Got 'reward'",
        options="--ignore reward",
    ),
    Trial(
        "given and ignored", says="--ignore time and --time exclude each other", options="--ignore time --time state"
    ),
    Trial("a kind that is none", says="--kind must be COLUMN=category or COLUMN=num", options="--kind state=colour"),
    Trial(
        "a kind of nothing",
        says="--kind must be COLUMN=category or COLUMN=number. Got '=category'",
        options="--kind =category",
    ),
    Trial(
        "a kind of an unknown column",
        says="--kind must name columns of the observation",
        options="--kind queue=category",
    ),
    Trial(
        "two kinds",
        says="--kind must say one thing about the column 'state'",
        options="--kind state=category --kind state=number",
    ),
    Trial(
        "text as numbers", says="""column "state" must hold numbers. Got 'a' at row 0""", options="--kind state=number"
    ),
]


@rows(LABELS)
def test_labels(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(NUMBERS)
def test_numbers(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(IDS)
def test_ids(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(WEIGHTS)
def test_weights(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(TIME)
def test_time(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(FLAGS)
def test_flags(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(OPTIONS)
def test_options(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
