"""`cesaro inspect` on logs that nobody described, and the findings on logs that were described wrongly."""

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import cesaro as cs
from cesaro.cli import app
from cesaro.data.roles import folded
from cesaro.inspection import evidence
from cesaro.inspection.order import better_order
from cesaro.inspection.refinement import unit_of_step

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("sequence of rows", "row of the reward", "unused columns", "kind of the action")
INVENTORY: dict[str, Any] = {
    "observation": ["Stock", "Weekday"],
    "action": "Order",
    "reward": "Profit",
    "trajectory": "Shop",
    "time": "Date",
    "reward_lag": 1,
    "drop_duplicates": True,
    "kinds": {"Order": "number"},
}
POLICY = str(EXAMPLES / "inventory_policy.py:order_up_to")


def generator(name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        return __import__(name)
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.mark.parametrize(
    ("name", "options", "policy", "truth"),
    [
        (
            "inventory",
            "--observation Stock --observation Weekday --action Order --reward Profit --trajectory Shop --time Date --kind "
            "Order=number --reward-lag 1 --drop-duplicates --unit 'per day and Shop'",
            "order_up_to",
            2.7180,
        ),
        (
            "thermostat",
            "--observation 'Room Temp' --observation 'Outside Temp' --action Heater --reward Score --time TimeStamp --unit "
            "'per step of 15 minutes'",
            "keep_20",
            -0.2720,  # simulated, with a standard error of 0.0007
        ),
        (
            "recommender",
            "--observation mood --observation fatigue --action item --reward clicked --trajectory user_id --time event_time "
            "--kind item=category --kind fatigue=category --gap none",
            "by_mood",
            0.4050,
        ),
    ],
)
def test_the_proposed_command_gives_the_right_answer(name: str, options: str, policy: str, truth: float) -> None:
    """Each of the three intervals misses with a chance of 0.001; seeds are fixed."""
    spec = str(EXAMPLES / f"{name}_policy.py:{policy}")
    file = EXAMPLES / f"{name}.csv"
    found = cs.inspect(file, policy=spec)
    assert found.command == f"cesaro evaluate {shlex.quote(str(file))} --policy {shlex.quote(spec)} {options}"
    words = shlex.split(found.command)[1:]
    result = CliRunner().invoke(app, [*words, "--json", "--quiet", "--confidence", "0.999"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["reward_rate"]["low"] < truth < answer["reward_rate"]["high"]
    assert answer["verdict"] in ("ok", "caution")
    assert all(one["verdict"] == "ok" for one in answer["diagnostics"] if one["name"] in NAMES)
    space: dict[str, Any] = {}
    exec("import cesaro as cs\n" + found.python.splitlines()[1], space)
    assert space["log"].schema == cs.read(file, **found.arguments).schema


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("inventory", 400_000), ("thermostat", 600_000), ("recommender", 600_000)])
def test_the_shipped_logs_are_what_the_scripts_make(name: str, size: int) -> None:
    module = generator(f"make_{name}_log")
    text = module.FILE.read_text(encoding="utf-8")
    assert len(text) < size
    header = module.HEADER if isinstance(module.HEADER, str) else ",".join(module.HEADER)
    rows = [row if isinstance(row, str) else ",".join(map(str, row)) for row in module.build()]
    assert text.splitlines() == [header, *rows]


def test_the_exact_rates_of_the_examples() -> None:
    assert generator("make_inventory_log").exact_rate(POLICY) == pytest.approx(2.7180, abs=1e-4)
    spec = str(EXAMPLES / "recommender_policy.py:by_mood")
    assert generator("make_recommender_log").exact_rate(spec) == pytest.approx(0.4050, abs=1e-4)


def described(**changes: Any) -> str:
    """The output for the inventory where something was forgotten (None) or changed."""
    given = {name: value for name, value in (INVENTORY | changes).items() if value is not None}
    words = ["evaluate", str(EXAMPLES / "inventory.csv"), "--policy", changes.get("policy", POLICY), "--quiet"]
    for name, value in given.items():
        if name == "policy":
            continue
        option = f"--{name.replace('_', '-')}"
        if name == "kinds":
            words += [word for column, kind in value.items() for word in ("--kind", f"{column}={kind}")]
        elif value is True:
            words.append(option)
        else:
            words += [word for one in (value if isinstance(value, list) else [value]) for word in (option, str(one))]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("forgotten", "remedy"),
    [
        (["trajectory", "time", "drop_duplicates"], "Give --trajectory Shop --time Date --drop-duplicates."),
        (["time", "drop_duplicates"], "Give --time Date --drop-duplicates."),
        (["reward_lag"], "Give --reward-lag 1."),
    ],
)
def test_a_forgotten_option_is_bad_and_named_in_the_first_lines(forgotten: list[str], remedy: str) -> None:
    first = " ".join(described(features="polynomial:2", **dict.fromkeys(forgotten)).splitlines()[:5])
    assert "Verdict: bad" in first
    assert remedy in first


@pytest.mark.slow
def test_a_column_left_out_and_an_action_read_as_labels_are_no_worse_than_said() -> None:
    said = described(observation="Stock", policy=str(EXAMPLES / "inventory_policy.py:whatever_the_day"))
    said = " ".join(said.split())
    assert 'The column "Weekday", which' in said
    assert "--observation Weekday" in said
    said = " ".join(described(kinds=None).split())
    assert "kind of the action" in said
    assert "--kind Order=number" in said


def walk(rng: np.random.Generator, rows: int = 1_500, lag: int = 0, memory: float = 0.0) -> dict[str, Any]:
    """One system; the reward depends on what comes next and, with memory, on rewards before."""
    state, reward = np.zeros(rows + 1), np.zeros(rows + 1)
    action = rng.integers(0, 2, rows + 1)
    for t in range(rows):
        state[t + 1] = 0.8 * state[t] + action[t] + 0.3 * rng.standard_normal()
        earned = 4 * action[t] - (state[t + 1] - 2) ** 2
        reward[t] = memory * reward[t - 1] + (1 - memory) * earned
    names = np.array(["off", "on"])
    return {"level": state[lag:rows], "switch": names[action[lag:rows]], "reward": reward[: rows - lag]}


def found_in(table: dict[str, Any], **roles: Any) -> dict[str, str]:
    log = cs.read(pa.table(table), **{"observation": "level", "action": "switch", "reward": "reward"} | roles)
    answer = cs.evaluate(log, "uniform", features="polynomial:2", quiet=True)
    return {one.name: one.verdict for one in answer.diagnostics if one.name in NAMES}


def several(rng: np.random.Generator) -> dict[str, Any]:
    """Three systems whose rows take turns, with a column that never changes and one that means nothing."""
    parts = [walk(rng, 700) for _ in range(3)]
    mixed = {name: np.stack([part[name] for part in parts], axis=1).ravel() for name in parts[0]}
    count = len(mixed["level"])
    return mixed | {"Machine ID": np.arange(count) % 3, "shift": rng.integers(0, 4, count).astype(str)}


def clean() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    rng = np.random.default_rng(0)
    yield "one system", walk(rng), {}
    yield "several, named", several(rng), {"trajectory": "Machine ID"}
    yield "sluggish rewards", walk(rng, memory=0.8), {}
    rows = 1_500
    independent = {"level": rng.standard_normal(rows), "switch": np.array(["off", "on"])[rng.integers(0, 2, rows)]}
    reward = independent["level"] * (independent["switch"] == "on") + 0.1 * rng.standard_normal(rows)
    ids = {"user": rng.integers(0, 30, rows), "date": np.arange(rows), "noise": rng.standard_normal(rows)}
    yield "independent states", independent | {"reward": reward} | ids, {}
    customers = rng.integers(0, 40, rows)
    fixed = {"level": np.random.default_rng(1).standard_normal(40)[customers], "customer_id": customers}
    yield "states that never change by customer", {**independent, **fixed, "reward": reward}, {}
    tier = rng.integers(0, 4, rows)
    alike = {
        **independent,
        "level": tier + 0.5 * independent["level"],
        "tier": np.array(list("abcd"))[tier],
        "reward": reward,
    }
    yield "states that differ by a column and do not follow", alike, {}


@pytest.mark.parametrize(("table", "roles"), [pytest.param(*rest, id=name) for name, *rest in clean()])
def test_no_finding_on_a_clean_log(table: dict[str, Any], roles: dict[str, Any]) -> None:
    assert set(found_in(table, **roles).values()) <= {"ok"}


def test_rows_that_take_turns_and_late_rewards_are_found() -> None:
    rng = np.random.default_rng(0)
    mixed = several(rng)
    assert found_in(mixed)["sequence of rows"] == "bad"
    assert "sequence of rows" not in found_in(mixed, trajectory=False)  # whoever says so knows it
    noise = {f"noise {k}": rng.standard_normal(len(mixed["level"])) for k in range(12)}
    assert found_in(mixed | noise, observation=["level", *noise])["sequence of rows"] == "bad"
    assert found_in(walk(rng, lag=1))["row of the reward"] == "bad"
    assert found_in(walk(rng, lag=1), reward_lag=1)["row of the reward"] == "ok"
    assert found_in(walk(rng), reward_lag=1)["row of the reward"] == "bad"


def test_rows_that_are_alike_need_not_follow_each_other() -> None:
    *_, (_, alike, _) = clean()
    assert "trajectory" not in cs.inspect(alike).arguments
    shift = np.arange(1_500) // 8 % 3
    shifted = walk(np.random.default_rng(0))
    shifted |= {"level": shifted["level"] + 2 * shift, "shift": np.array(["early", "late", "night"])[shift]}
    assert found_in(shifted)["sequence of rows"] == "ok"
    assert cs.inspect(shifted).arguments["observation"] == ["level", "shift"]


def test_roles_that_names_alone_do_not_tell() -> None:
    rng = np.random.default_rng(0)
    rows = 1_200
    level, price, fan = rng.random((3, rows))
    table: dict[str, Any] = {"Trip Key": rng.permutation(rows), "unit": np.repeat(["a", "b"], rows // 2)}
    table |= {"week": np.tile(np.arange(rows // 2), 2), "price_now": price, "level": level, "fan": fan}
    table |= {"kept": level + fan, "log_steps": (level - fan).round(1)}
    roles = cs.inspect(table).to_dict()["roles"]
    assert roles["reward"] == ["log_steps"]  # it repeats, as no time does
    assert roles["time"] == ["week"]  # it counts on, as no part of the calendar does
    assert "Trip Key" not in roles["observation"]
    assert cs.inspect(table | {"setpoint_kw": price[::-1], "profit": fan[::-1]}).to_dict()["roles"]["action"] == [
        "setpoint_kw"
    ]
    del table["price_now"]
    assert cs.inspect(table).to_dict()["roles"]["action"] == ["kept"]  # a guess, as all others are


def plant() -> dict[str, Any]:
    """Three machines that take turns, times that they share, and a feed that was not always measured."""
    mixed = several(np.random.default_rng(0))
    rows = len(mixed["level"])
    feed: list[float | None] = list(np.random.default_rng(1).random(rows))
    feed[10:40:3] = [None] * 10
    start = np.datetime64("2024-02-05T06:00:00") + np.arange(rows) // 3 * np.timedelta64(8, "h")
    skid = np.array(["UF-1", "UF-2", "UF-3"])[mixed["Machine ID"]]
    return {"skid": skid, "start": start, "level": mixed["level"], "feed": feed} | {
        "operator_step": mixed["switch"],
        "cost_eur": 9 - mixed["reward"],
    }


def test_text_that_holds_no_times_may_be_the_action_whatever_its_name() -> None:
    seen = cs.inspect(plant())
    roles = seen.to_dict()["roles"]
    assert (roles["action"], roles["trajectory"], roles["time"]) == (["operator_step"], ["skid"], ["start"])
    assert '"operator_step" is a guess. If it is another, such as "skid", give --action COLUMN.' in str(seen)
    days = np.array(["Mon", "Tue", "Wed"])[np.arange(2_100) % 3]
    assert cs.inspect(plant() | {"last_day": days}).to_dict()["roles"]["action"] == ["operator_step"]


def test_a_column_with_empty_entries_is_left_out_aloud() -> None:
    table = plant()
    table["feed"][200:500] = [None] * 300
    said = str(cs.inspect(table))
    assert (
        '"feed" was left out because of 310 empty entries (15 %), and it may drive the system: fill them in and' in said
    )
    assert "add --observation feed, or add --drop-incomplete, too, which leaves out those rows." in said
    said = str(cs.inspect(table, policy="rule:on if feed > 0.5 else off"))
    assert "action            operator_step (the policy's actions are among its entries)" in said
    assert "310 empty entries (15 %), and the policy needs it:" in said
    assert "the policy needs it" not in str(cs.inspect(table, policy="rule:on if level > 0.5 else off"))


def test_rows_with_empty_entries_go_where_they_are_few_and_the_command_works() -> None:
    table = plant()
    table["operator_step"] = [None if row % 500 == 7 else step for row, step in enumerate(table["operator_step"])]
    seen = cs.inspect(table)
    assert seen.arguments["drop_incomplete"]
    assert "--drop-incomplete" in seen.command
    assert '15 of 2,100 rows have an empty entry in "operator_step" or "feed": --drop-incomplete' in str(seen)
    assert cs.read(table, **seen.arguments).counts["dropped: incomplete"] == 15
    assert not seen.proposal.obstacle
    table["skid"] = [None, *table["skid"][1:].tolist()]
    seen = cs.inspect(table, trajectory="skid")
    assert 'fails with until it is corrected\n  ! arrays: column "skid" must not have missing entries' in str(seen)


@pytest.mark.parametrize("order", ["ascending", "random"])
def test_a_key_of_rows_is_no_observation(order: str) -> None:
    rng = np.random.default_rng(0)
    table = plant() | {"feed": rng.random(2_100)}
    key = np.cumsum(rng.integers(1, 5, 2_100)) if order == "ascending" else rng.choice(10**7, 2_100, replace=False)
    seen = cs.inspect({"ticket": key, **table})
    assert seen.arguments["observation"] == ["level", "feed"]
    assert '"ticket" was left out because it looks like a key' in str(seen)
    assert cs.inspect({"ticket": key, **table}, ignore=["ticket"]).proposal.left_out["ticket"] == "as you say"
    by_key = cs.inspect({"ticket": key, **table}, policy="rule:on if ticket > 5000 else off")
    assert "ticket" in by_key.arguments["observation"]
    # As many numbers, of which the reward, or what comes next, or the row before, tells something.
    money = (1e6 * table["level"]).astype(int) + np.arange(2_100) % 7
    noise = rng.choice(10**7, 2_100, replace=False)
    paid = table["cost_eur"] + noise / 1e7
    for column, more in ((money, {}), (noise, {"cost_eur": paid})):
        assert "amount" in cs.inspect({"amount": column, **table, **more}).arguments["observation"]


def test_a_policy_that_fails_is_not_said_to_have_other_labels(tmp_path: Path) -> None:
    file = tmp_path / "rules.py"
    file.write_text("def early(seen):\n    return ['on' if x > 1 else 'off' for x in seen['flow']]\n")
    said = str(cs.inspect(plant(), policy=f"{file}:early"))
    assert "as the action: Policy 'early' failed with KeyError at rules.py, line 2: 'flow'" in said
    said = str(cs.inspect(plant(), policy="constant:onn"))
    assert "must be an action of the log arrays: 'off', 'on' (text). Got 'onn'; did you mean 'on'?" in said


def test_rows_with_empty_entries_in_a_given_column_are_counted_and_the_others_looked_at() -> None:
    seen = cs.inspect(plant(), observation=["level", "feed"], cost="cost_eur")
    assert (seen.arguments["trajectory"], seen.arguments["time"]) == ("skid", "start")
    assert '10 of 2,100 rows have an empty entry in "feed": --drop-incomplete leaves them out' in str(seen)


def test_a_reward_that_is_not_there_once_leaves_the_order_and_labels_that_occur_once_are_named() -> None:
    table = plant()
    table["cost_eur"] = [None if row == 50 else cost for row, cost in enumerate(table["cost_eur"].tolist())]
    assert cs.inspect(table).arguments["trajectory"] == "skid"
    table = walk(np.random.default_rng(0))
    table["switch"] = table["switch"].astype(object)
    table["switch"][700] = "onn"
    log = cs.read(table, observation="level", action="switch")
    answer = cs.evaluate(log, "rule:on if level < 1 else off", features="linear", quiet=True)
    assert any("is 'onn' in a single row, of which nothing can be learned; correct" in said for said in answer.warnings)


def test_roles_that_are_given_are_kept_and_the_rest_follows() -> None:
    seen = cs.inspect(EXAMPLES / "inventory.csv", reward="Stock", observation=["Profit", "Weekday"], trajectory=False)
    assert seen.arguments["observation"] == ["Profit", "Weekday"]
    assert (seen.arguments["reward"], seen.arguments["trajectory"]) == ("Stock", False)
    assert "Shop" in seen.proposal.left_out
    assert "--ignore trajectory" in seen.command
    seen = cs.inspect(EXAMPLES / "inventory.csv", cost="Profit", time="Date", trajectory="Shop")
    assert {
        role: seen.proposal.reasons[role].split(";")[0] for role in ("reward", "time", "trajectory")
    } == dict.fromkeys(("reward", "time", "trajectory"), "as you say")
    assert seen.arguments["cost"] == "Profit"
    assert seen.arguments["observation"] == ["Stock", "Weekday"]
    assert seen.arguments["reward_lag"] == 1


def test_units_of_steps() -> None:
    day = 86_400
    steps: dict[str, float] = {
        "per second": 1,
        "per step of 2 seconds": 2,
        "per step of 90 minutes": 5_400,
        "per hour": 3_600,
        "per day": day,
    }
    steps |= {
        "per week": 7 * day,
        "per month": 31 * day,
        "per step of 10 days": 10 * day,
        "per step of 0.5 seconds": 0.5,
    }
    assert [unit_of_step(seconds) for seconds in steps.values()] == list(steps)


def test_text_that_holds_times_is_read_as_times(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = np.arange("2024-01-01", "2025-01-01", dtype="datetime64[D]")
    table: dict[str, Any] = {"state": rng.integers(0, 3, len(days)), "action": rng.integers(0, 2, len(days))}
    table |= {"reward": rng.random(len(days)), "when": [f"{day}T14:00" for day in days]}
    expected = cs.read(table | {"when": days}, time="when").load()
    pq.write_table(pa.table(table).slice(0), tmp_path / "log.parquet", row_group_size=100)
    dotted = [f"{str(day)[8:]}.{str(day)[5:7]}.{str(day)[:4]}" for day in days]
    rows = zip(table["state"], table["action"], table["reward"], dotted, strict=True)
    text = "\n".join(["state,action,reward,when", *(",".join(map(str, row)) for row in rows)])
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    for name in ("log.parquet", "log.csv"):
        seen = cs.inspect(tmp_path / name)
        assert (seen.arguments["time"], seen.proposal.unit) == ("when", "per day")
        for stream in (False, True):
            log = cs.read(tmp_path / name, time="when", stream=stream).load()
            np.testing.assert_array_equal(log.rewards, expected.rewards)
    unclear = cs.inspect(table | {"when": [f"{row % 12 + 1:02}/05/{1900 + row // 12}" for row in range(len(days))]})
    assert any("may have the day or the month first" in doubt for doubt in unclear.doubts)


def test_results_that_tell_the_same_are_left_out_and_a_name_alone_is_in_doubt() -> None:
    rng = np.random.default_rng(0)
    rows = 2_000
    level, bid = rng.integers(0, 3, rows), rng.integers(0, 3, rows)
    won = rng.random(rows) < 0.1 + 0.1 * bid
    clicked = won & (rng.random(rows) < 0.5)
    table = {
        "level": level,
        "bid": bid,
        "won": won,
        "clicked": clicked,
        "sold": 5.0 * clicked,
        "profit": 5.0 * clicked - bid,
    }
    assert cs.inspect(table).arguments["observation"] == "level"
    seen = cs.inspect(table | {"device": rng.choice(["phone", "desk"], rows)})
    assert seen.arguments["observation"] == ["level", "device"]
    assert any("Only its name says" in doubt and "give --trajectory device" in doubt for doubt in seen.doubts)


def test_what_never_has_a_time_twice_tells_trajectories_apart() -> None:
    """Where rows also follow each other; a name that may be that of a kind of thing is not enough."""
    rng = np.random.default_rng(0)
    zones, rows = 4, 400
    level = np.zeros((zones, rows))
    switch = rng.integers(0, 2, (zones, rows))
    for t in range(1, rows):
        level[:, t] = 0.8 * level[:, t - 1] + switch[:, t - 1] + 0.5 * rng.standard_normal(zones)
    table: dict[str, Any] = {"zone": np.repeat(np.arange(zones), rows), "day_no": np.tile(np.arange(rows), zones)}
    table |= {"level": level.ravel(), "switch": switch.ravel(), "reward": -np.abs(level).ravel()}
    seen = cs.inspect(table)
    assert (seen.arguments["trajectory"], seen.arguments["time"]) == ("zone", "day_no")
    assert any("--observation zone --ignore trajectory" in doubt for doubt in seen.doubts)
    mixed = {
        name: column[rng.permutation(zones * rows)] for name, column in table.items() if name not in ("zone", "day_no")
    }
    seen = cs.inspect(table | mixed)
    assert "trajectory" not in seen.arguments
    assert any('No "zone" has the same "day_no" twice' in doubt for doubt in seen.doubts)


def test_a_result_is_one_also_where_the_log_acts_by_the_state() -> None:
    """What was known before then tells most of the action, and so of its result: the action tells what is left."""
    rng = np.random.default_rng(0)
    rows = 4_000
    fill, feed = np.zeros(rows), np.zeros(rows, dtype=int)
    for t in range(rows):
        feed[t] = rng.choice(3, p=(0.04, 0.06, 0.9) if fill[t] < 0.6 else (0.9, 0.06, 0.04))
        if t + 1 < rows:
            fill[t + 1] = np.clip(0.7 * fill[t] + 0.2 * feed[t] + 0.1 * rng.standard_normal(), 0, 1)
    eaten = (20 * feed * (1.2 - fill)).round(1)
    table = {"fill": fill, "command": np.array(["stop", "half", "full"])[feed], "eaten": eaten}
    assert cs.inspect(table | {"profit": eaten + rng.standard_normal(rows)}).arguments["observation"] == "fill"


def test_what_repeats_the_calendar_explains_errors_and_what_a_row_makes_does_not() -> None:
    rng = np.random.default_rng(0)
    table = walk(rng, 3_000)
    day = np.arange(3_000) % 7
    surprise = rng.standard_normal(3_000)
    table["reward"] = table["reward"] + 3.0 * (day > 4) + surprise
    log = cs.read(
        pa.table(table | {"surprise": surprise, "weekday": day}), observation="level", action="switch", reward="reward"
    )
    answer = cs.evaluate(log, "uniform", features="polynomial:2", quiet=True)
    (found,) = [one for one in answer.diagnostics if one.name == "unused columns"]
    assert found.verdict == "caution"
    assert 'The column "weekday"' in found.sentence
    assert 'pass observation=["level", "weekday"]' in found.remedy


def test_a_result_of_the_action_is_left_out_and_named_where_it_was_taken_for_an_observation() -> None:
    rng = np.random.default_rng(0)
    action, moist = rng.integers(0, 2, 2_000), np.empty(2_000)
    moist[0] = 50.0
    for t in range(1, 2_000):
        moist[t] = np.clip(moist[t - 1] + 8 * action[t - 1] - 4 + rng.normal(), 10, 90)
    log = {
        "moist": moist,
        "valve": np.where(action == 1, "open", "shut"),
        "flow": 5 * action + rng.normal(0, 0.1, 2_000),
        "profit": -abs(moist - 55) + rng.normal(size=2_000),
    }
    assert cs.inspect(log).arguments["observation"] == "moist"
    with pytest.raises(
        cs.InputError, match='the action of a row predicts 100 % of "flow" in the same row: if that is a'
    ):
        cs.evaluate(
            cs.read(log, observation=["moist", "flow"], action="valve", reward="profit"), "constant:open", quiet=True
        )


def test_what_another_column_is_on_the_next_row_is_no_observation() -> None:
    rng = np.random.default_rng(0)
    level, action = np.zeros(2_001), rng.integers(0, 2, 2_000)
    for t in range(2_000):
        level[t + 1] = 0.9 * level[t] + action[t] - 0.5 + rng.normal()
    log = {"level": level[:-1], "action": action, "profit": -(level[:-1] ** 2), "level_end": level[1:]}
    said = 'is what "level" is on the next row'
    assert cs.inspect(log).proposal.left_out["level_end"] == f"it {said}"
    for given in (["level", "level_end"], "level_end"):
        assert any(doubt.startswith(f'"level_end" {said}') for doubt in cs.inspect(log, observation=given).doubts)


def test_a_column_that_may_be_a_result_is_in_doubt() -> None:
    """It is one that the action makes, before the action; or one that is new in its step, behind the action."""
    rng = np.random.default_rng(0)
    rows = 4_000
    action, inflow, level = rng.integers(0, 2, rows), rng.normal(size=rows), np.zeros(rows)
    for t in range(1, rows):
        level[t] = 0.8 * level[t - 1] + action[t - 1] - 0.5 + 0.3 * inflow[t - 1]
    table = {
        "watts_avg": 5 * action + rng.normal(0, 0.1, rows),
        "level": level,
        "pump_cmd": np.array(["off", "on"])[action],
    }
    table |= {"inflow": inflow, "profit": 0.3 * inflow - level**2 + rng.normal(size=rows)}
    for names, doubted in ((list(table), {"watts_avg", "inflow"}), (["level", "inflow", "pump_cmd", "profit"], set())):
        seen = cs.inspect({name: table[name] for name in names}, action="pump_cmd")
        assert "level" in seen.arguments["observation"]
        assert {name for name in names if any(f'"{name}" may be a result' in doubt for doubt in seen.doubts)} == doubted


def test_a_streamed_log_is_looked_at_as_well(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table(several(np.random.default_rng(0))), file)
    log = cs.read(file, observation="level", action="switch", reward="reward", stream=True).opened()
    assert log.is_streamed
    assert log.origin is not None
    table = evidence.excerpt(log.origin)
    assert table is not None
    found = better_order(log.origin, table)
    assert found is not None
    assert (found.trajectory, found.is_clear) == ("Machine ID", True)
    assert evidence.reward_lag(evidence.contiguous(log, 0), 0) is not None


def test_names_are_compared_without_case_and_separators(tmp_path: Path) -> None:
    assert {folded(name) for name in ("TimeStamp", "time_stamp", "Time Stamp", "time-stamp")} == {"timestamp"}
    table = {"State": [0, 1, 0, 1], "ACTION": [0, 1, 1, 0], "Re_Ward": [0.0, 1.0, 2.0, 3.0], "Time Stamp": [3, 2, 1, 0]}
    log = cs.read(table)
    assert log.schema.roles["time"].columns == ("Time Stamp",)
    assert log.origin is not None
    assert set(log.origin.inferred) == {"observation", "action", "reward", "time"}
    known = {"state": [0, 1, 0, 1], "action": [0, 1, 1, 0], "reward": [0.0, 1.0, 2.0, 3.0], "Time": [3, 2, 1, 0]}
    assert "time" not in cs.read(known).schema.roles  # it has never had a role beside these
    path = tmp_path / "log.csv"
    path.write_text("state,action,reward\n" + "a,x,0\nb,y,1\n" * 20, encoding="utf-8")
    said = " ".join(str(cs.evaluate(cs.read(path), "uniform", quiet=True, ridge=0.1)).split())
    assert "Found by name: observation, action, reward." in said


def test_duplicates_count_once() -> None:
    state, time = ["a", "b", "b", "a", "b"], [0, 1, 1, 2, 3]
    rest = {"actions": [0, 1, 1, 0, 1], "rewards": [0.0, 1.0, 1.0, 2.0, 3.0]}
    log = cs.Transitions(state, time=time, drop_duplicates=True, **rest)  # type: ignore[arg-type]
    assert log.observations.plain().tolist() == ["a", "b", "a"]
    assert log.notes[0] == "Left out 1 row that repeats another of the same trajectory and time."
    with pytest.raises(cs.InputError, match=r"row 2 .*; pass drop_duplicates=True, because they are equal"):
        cs.Transitions(state, time=time, **rest)  # type: ignore[arg-type]
    with pytest.raises(cs.InputError, match=r"must be different in every row.*what tells them apart"):
        cs.Transitions(["a", "b", "a", "a", "b"], time=time, drop_duplicates=True, **rest)  # type: ignore[arg-type]


def test_an_inspection_as_json_and_as_text() -> None:
    result = CliRunner().invoke(app, ["inspect", str(EXAMPLES / "heating.csv"), "--json"])
    found = json.loads(result.stdout)
    assert (found["schema"], found["rows"]) == ("cesaro-inspection/1", 9_600)
    assert found["roles"]["trajectory"] == ["house"]
    assert found["kinds"] == {"temperature": "category"}
    assert found["unit"] == "per hour and house"
    said = str(cs.inspect(EXAMPLES / "thermostat.csv"))
    assert "left out          Energy kWh" in said
    assert "6 gaps in time" in said
    rng = np.random.default_rng(0)
    frame = cs.inspect(several(rng) | {"id": np.arange(2_100), "constant": ["x"] * 2_100})
    assert frame.proposal.left_out["constant"] == "it is the same in every row"
    assert frame.proposal.roles["trajectory"] == ("Machine ID",)
    assert frame.command.startswith("cesaro evaluate LOG --policy logged --observation level")
