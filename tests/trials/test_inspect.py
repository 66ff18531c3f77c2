"""Logs that `cesaro inspect` cannot make sense of, or only with a doubt, and what `evaluate` says of the same files."""

from collections.abc import Callable

from .table import Files, Trial, log, rows, walk

TIMES = [str(t // 2) for t in range(24)]
HIDDEN = "log.csv: 24 rows of 3 columns."


def inspect(name: str, files: Files, says: str, code: int = 2, options: str = "") -> Trial:
    return Trial(name, files, says, command=f"inspect log.csv {options}", code=code)


TRIALS = [
    inspect("an empty file", {"log.csv": ""}, "log.csv must hold a log. Got an empty file; check what wrote it."),
    inspect("a header alone", {"log.csv": "state,action,reward\n"}, "log.csv must have …row"),
    inspect(
        "a constant reward",
        log(reward=["1"] * 24),
        'log.csv must have a column of rewards: numbers that are not the same in every row. Got "reward", which is '
        "the same in every row; check what the export left out.",
    ),
    inspect(
        "no reward",
        log(reward=None),
        "log.csv must have a column of rewards: … Got no column of numbers that could be one; check",
    ),
    inspect("no action", log(action=None), "log.csv must have a column of actions. Got no column with a name"),
    inspect(
        "an action that is a number without a name of one",
        log(action=None, fan=[str(0.5 + t % 7) for t in range(24)]),
        'No name says which column is the action; "fan" is a guess.',
        code=0,
    ),
    inspect(
        "a reward with the name of a time",
        log(reward=None, log_steps=[str(0.5 + t % 3) for t in range(24)]),
        'No name says which column is the reward; "log_steps" is a guess',
        code=0,
    ),
    inspect(
        "keys of single rows, in no order",
        log(order_key=[str(7 * t % 24) for t in range(24)]),
        "order_key (it tells single rows apart)",
        code=0,
    ),
    inspect(
        "a column that is half there",
        log(load=[str(t % 5) if t % 4 else "" for t in range(24)]),
        '"load" was left out because of 6 empty entries (25 %), and it may drive the system: fill',
        code=0,
    ),
    inspect(
        "an observation that is never there",
        log(load=[""] * 24),
        'log.csv must have a row without empty entries in "load". Got none; name other columns.',
        options="--observation load",
    ),
    inspect(
        "a reward that is not there once",
        log(reward="n/a", unit=["u", "v"] * 12),
        '1 of 24 rows has an empty entry in "reward": --drop-incomplete leaves it out',
        code=0,
    ),
    inspect(
        "a label that differs by a blank",
        log(action="Stay "),
        """The labels 'Stay ' (1 row) and 'stay' (8 rows) of the action "action" differ only in case or blanks""",
        code=0,
    ),
    inspect(
        "repeated timestamps",
        log(timestamp=TIMES),
        '"timestamp" was not used as the time, because times repeat within trajectories.',
        code=0,
    ),
    inspect("a log that says what it is", log(), HIDDEN, code=0),
    *(
        inspect(f"a cost called {name}", log(reward=None, **{name: walk()["reward"]}), f"--cost {name}", code=0)
        for name in ("op_cost_ct", "totalCostEur", "Kosten", "Betriebskosten")
    ),
    inspect(
        "a cost that is now and then a gain",
        log(reward=None, cost=["-1.5", "2.5"] * 12),
        "--cost cost",
        code=0,
    ),
    inspect(
        "a cost that was written as a negative reward",
        log(reward=None, cost=["-1.5", "0"] * 12),
        '"cost" sounds like a cost, but nearly all entries are negative; if less is better, use --cost instead of --reward.',
        code=0,
    ),
    inspect(
        "a reward that no name tells",
        log(reward=None, x1=walk()["reward"]),
        '"x1" is a guess; if less of it is better, take --cost x1 in place of --reward x1.',
        code=0,
    ),
    Trial(
        "evaluated: a cost as the reward",
        log(reward=None, op_cost_ct=walk()["reward"]),
        'warning: uniform: More of "op_cost_ct" counts as better, because it is the reward; if it is a cost, give --cost '
        "op_cost_ct in place of --reward op_cost_ct.",
        rate=0.5,
        options="--reward op_cost_ct",
    ),
    inspect(
        "a role that somebody knows",
        log(reward=None, x1=walk()["reward"], x2=walk()["reward"][::-1]),
        "--cost x1",
        code=0,
        options="--cost x1",
    ),
    inspect(
        "a reward that is text",
        log(),
        'the column "state" that --reward names must hold numbers. Got text; name another column.',
        options="--reward state",
    ),
    inspect(
        "a reward that is text once",
        log(reward="tbc"),
        "What to look at\n  - log.csv: …must hold numbers or text, not both. Got 'tbc' at row 2 (counted from 0), "
        "line 4; correct that entry.…(until then the command fails)…--reward reward",
        code=0,
    ),
    inspect(
        "a reward with a sign",
        log(reward=[f"{reward} €" for reward in walk()["reward"]]),
        "Got '0 €' at row 0 (counted from 0), line 2, one of 24 such entries; write the numbers alone, without '€'.",
        code=0,
        options="--reward reward",
    ),
    inspect(
        "a day that does not exist",
        log(day=[f"{t + 1:02d}.01.2024" if t != 2 else "31.02.2024" for t in range(24)]),
        "Got '31.02.2024' at row 2 (counted from 0), line 4, a day that does not exist; correct it.…--time day",
        code=0,
    ),
    inspect(
        "a number that stands for nothing",
        log(
            heat=["-999" if t in (3, 9, 14) else str(20 + t % 5) for t in range(96)],
            **{k: 4 * v for k, v in walk().items()},
        ),
        '"heat" is -999 in 3 rows, far from all other entries (20 to 24); if that stands for a missing entry',
        code=0,
        options="--observation heat --observation state",
    ),
    inspect(
        "dates of no known form",
        log(
            began=[f"Sun {t % 28 + 1:02d} Oct {2000 + t // 28} AM" for t in range(72)],
            **{k: 3 * v for k, v in walk().items()},
        ),
        "The times of \"began\", such as 'Sun 01 Oct 2000 AM', have a form that cannot be read; write them as 2024-01-31",
        code=0,
    ),
    inspect("a time that is text", log(), "must hold numbers or dates. Got text; name", options="--time state"),
    inspect("a role of no column", log(), 'did you mean "action"?', options="--action actoin"),
    inspect("cost and reward", log(), "exclude each other", options="--cost state --reward reward"),
    inspect("an order that nobody wants", log(time=TIMES), "--ignore time", code=0, options="--ignore time"),
    inspect("an ignored role that must be there", log(), "--ignore must be one of", options="--ignore reward"),
    inspect(
        "no such column to ignore", log(), 'must have the column "weight" that --ignore', options="--ignore weight"
    ),
    inspect(
        "an action that is not there once",
        log(action=""),
        '1 of 24 rows has an empty entry in "action": --drop-incomplete leaves it out…--drop-incomplete',
        code=0,
    ),
    inspect("as a document", log(), '"schema": "cesaro-inspection/1"', code=0, options="--json"),
    inspect("a policy for the command", log(), "--policy 'a b.py:c'", code=0, options="--policy 'a b.py:c'"),
    inspect(
        "an action that only the policy tells",
        log(action=None, mode=walk()["action"], zone=["n", "s", "w"] * 8),
        "mode (the policy's actions are among its entries)",
        code=0,
        options="--policy \"rule:go if state == 'a' else stay\"",
    ),
    inspect(
        "a policy that fits no column",
        log(action=None, mode=walk()["action"], zone=["n", "s", "w"] * 8),
        """The policy cannot act with "zone" as the action: Policy 'constant:fly' must be an action of the log…'n'""",
        code=0,
        options="--policy constant:fly",
    ),
    inspect("control codes in names", log(**{"\x1b[31mx": walk()["state"]}), r"\x1b[31mx", code=0),
    inspect("no file", {"other.csv": ""}, "log.csv"),
    Trial(
        "evaluated: an empty file", {"log.csv": ""}, "log.csv must hold a log. Got an empty file; check what wrote it."
    ),
    Trial("evaluated: a header alone", {"log.csv": "state,action,reward\n"}, "log.csv must have …row"),
    Trial(
        "evaluated: repeated timestamps",
        log(timestamp=TIMES),
        "must be different in every row of a trajectory. Got the same at row 0 (counted from 0), line 2 and row 1 "
        "(counted from 0), line 3; give --trajectory COLUMN if several trajectories share times, add to the column what tells",
    ),
    inspect(
        "one time of another form",
        log(
            **{name: 3 * entries for name, entries in walk().items()},
            time=[f"2025-03-01 00:00:{t}" for t in range(10, 82)],
        ),
        "  - log.csv: column \"time\" must hold times, all of one form. Got '2025-03-01 00:00:60' at row 50 (counted from 0), "
        "line 52, one of 22 such entries; correct it, or write it as the other entries.",
        code=0,
    ),
    Trial(
        "evaluated: one time of another form",
        log(timestamp=[f"2025-03-01T00:{t:02d}:00Z" if t != 9 else "01.03.2025 00:09" for t in range(24)]),
        "must hold times, all of one form. Got '01.03.2025 00:09' at row 9 (counted from 0), line 11; correct",
    ),
    Trial(
        "evaluated: one time without a zone, in blocks",
        log(timestamp=[f"2025-03-01T00:{t:02d}:00{'Z' * (t != 9)}" for t in range(24)]),
        "must hold times, all of one form. Got '2025-03-01T00:09:00' at row 9",
        options="--stream",
    ),
    Trial(
        "evaluated: rows twice",
        {
            "log.csv": "".join(
                f"{line}\n"
                for line in [
                    "state,action,reward,time",
                    *(
                        f"{','.join(entries)},{t}"
                        for t, entries in enumerate(zip(*walk().values(), strict=True))
                        for _ in range(2)
                    ),
                ]
            )
        },
        "Left out 24 rows that repeat others of the same trajectory and time.",
        rate=0.5,
        options="--drop-duplicates",
    ),
    Trial(
        "evaluated: duplicates without times",
        says="--drop-duplicates needs a column of times, …; give --time COLUMN.",
        options="--drop-duplicates",
    ),
    Trial(
        "evaluated: duplicates in blocks",
        log(time=[str(t) for t in range(24)]),
        "--drop-duplicates needs a log that is held in memory. …; give --no-stream, or remove",
        options="--drop-duplicates --stream",
    ),
    Trial(
        "evaluated: an empty first reward that a lag never needs, beside decimal commas",
        {
            "log.csv": "state;action;reward\n"
            + "".join(
                f"{state};{action};{'' if not t else walk()['reward'][t - 1] + ',0'}\n"
                for t, (state, action) in enumerate(zip(walk()["state"], walk()["action"], strict=True))
            )
        },
        rate=0.5,
        options="--reward-lag 1",
    ),
    Trial(
        "evaluated: names in another case",
        {
            "log.csv": "State,ACTION,Re Ward\n"
            + "".join(",".join(line) + "\n" for line in zip(*walk().values(), strict=True))
        },
        '"inferred": […"observation",…"action",…"reward"',
        rate=0.5,
    ),
]


@rows(TRIALS)
def test_inspect(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
