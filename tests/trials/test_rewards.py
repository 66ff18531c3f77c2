"""Rewards that are no numbers, that are too large or too small, or numbers in a notation that may mean something else."""

from collections.abc import Callable

from .table import Trial, log, rows, walk

REWARDS = walk()["reward"]
BOTH = (
    'column "reward" must hold numbers or text, not both. Got {} at row 2 (counted from 0), line 4; correct that entry.'
)
MISSING = (
    'column "reward" must not have missing entries. Got {}empty entry…at row 2 (counted from 0), line 4; fill it in, or'
)
LARGE = 'column "reward" must be at most 1e+100 in size, so that squares do not overflow. Got {} (counted from 0), line …; scale'

TRIALS = [
    Trial("text", log(reward="free"), BOTH.format("'free'")),
    Trial("currency", log(reward="€1"), BOTH.format("'€1'")),
    Trial("per cent", log(reward="50%"), BOTH.format("'50%'")),
    Trial("fraction", log(reward="1/2"), BOTH.format("'1/2'")),
    Trial("minus sign of typesetters", log(reward="−1"), BOTH.format("'−1'")),
    Trial("no-break space between thousands", log(reward="1\u00a0000"), BOTH.format(r"'1\xa0000'")),
    Trial("underscore between thousands", log(reward="1_000"), BOTH.format("'1_000'")),
    Trial("digits of another script", log(reward="١"), BOTH.format("'١'")),
    Trial("full-width digit", log(reward="１"), BOTH.format("'１'")),
    Trial("negative as in accounts", log(reward="(1.00)"), BOTH.format("'(1.00)'")),
    Trial("error of a spreadsheet", log(reward="#DIV/0!"), BOTH.format("'#DIV/0!'")),
    Trial("exponent of Fortran", log(reward="1d0"), BOTH.format("'1d0'")),
    Trial("complex", log(reward="1+2j"), BOTH.format("'1+2j'")),
    Trial("one date", log(reward="2024-01-01"), BOTH.format("'2024-01-01'")),
    Trial("all dates", log(reward=["2024-01-01"] * 24), "Got datetime.date(2024, 1, 1) …; turn the date or time into"),
    Trial(
        "comma between thousands", log(reward='"1,000"'), "Got '1,000', a decimal comma; write it with a decimal point"
    ),
    Trial("decimal comma", log(reward='"0,5"'), "Got '0,5', a decimal comma; write it with a decimal point"),
    Trial("empty", log(reward=""), MISSING.format("an ")),
    Trial("NaN", log(reward="NaN"), MISSING.format("'NaN', which counts as an ")),
    Trial("N/A", log(reward="N/A"), MISSING.format("'N/A', which counts as an ")),
    Trial("NULL", log(reward="NULL"), MISSING.format("'NULL', which counts as an ")),
    Trial("all empty", log(reward=[""] * 24), 'column "reward" must hold numbers. Got no entry at all'),
    Trial("not a number with a payload", log(reward="nan(0x7)"), 'column "reward" must be finite. Got nan at row 2'),
    Trial("infinite", log(reward="inf"), 'column "reward" must be finite. Got inf at row 2'),
    Trial("infinite below", log(reward="-Infinity"), 'column "reward" must be finite. Got -inf at row 2'),
    Trial("larger than a double", log(reward="1e400"), 'column "reward" must be finite. Got inf at row 2'),
    Trial("one whose square overflows", log(reward="1e308"), LARGE.format("1e+308 at row 2")),
    Trial("some whose sum overflows", log(reward=["-1e308"] * 24), LARGE.format("-1e+308 at row 0")),
    Trial("a little beyond the largest", log(reward="1.1e100"), LARGE.format("1.1e+100 at row 2")),
    Trial("the largest", log(reward=["1e100"] * 24), rate=1e100),
    # One finding in place of a standard error and of warnings.
    Trial(
        "too small for squares", log(reward=[f"{r}e-200" for r in REWARDS]), "Rewards are at most 1e-200", rate=5e-201
    ),
    Trial("denormal", log(reward=[f"{r}e-310" for r in REWARDS]), "their squares are lost in double", rate=5e-311),
    Trial("one denormal", log(reward="1e-310"), rate=0.5),
    Trial(
        "no such column",
        log(reward=None),
        r'the columns of reward must be known. Got the columns "state", "action"; give',
    ),
    # The third row of the walk is one of four visits to a pair that a quarter of the time is spent in.
    Trial("hexadecimal", log(reward="0x10"), rate=0.5 + 16 / 16),
    Trial("plus sign", log(reward="+1"), rate=0.5 + 1 / 16),
    Trial("point without digits behind it", log(reward="1."), rate=0.5 + 1 / 16),
    Trial("point without digits before it", log(reward=".5"), rate=0.5 + 0.5 / 16),
    Trial("whole number beyond 2⁵³", log(reward=str(2**53 + 1)), rate=0.5 + 2**53 / 16),
    Trial("whole number beyond 2⁶³", log(reward=str(2**63)), rate=2**63 / 16),
    Trial("truth values", log(reward=[["false", "true"][reward == "1"] for reward in REWARDS]), rate=0.5),
    Trial("a truth value among digits", log(reward="True"), rate=0.5 + 1 / 16),
    Trial("spaces around", log(reward=[f" {reward} " for reward in REWARDS]), rate=0.5),
    Trial("constant", log(reward=["2.5"] * 24), rate=2.5),
    Trial("zero", log(reward=["0"] * 24), rate=0.0),
]


@rows(TRIALS)
def test_reward(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
