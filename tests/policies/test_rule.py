"""`rule:…`: what it means, against the same rule in Python, and where it is wrong."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import cesaro as cs
from cesaro.errors import InputError
from cesaro.policies import attach, parse, policy

SEEN: dict[str, NDArray[Any]] = {
    "temperature": np.array([16.0, 18.0, 19.0, 21.5, 24.0]),
    "tariff": np.array(["low", "high", "low", "mid", "high"], dtype=object),
    "out door": np.array([-3.0, 0.0, 2.0, 5.0, 9.0]),
    "at_home": np.array([True, False, True, True, False]),
}
ROWS = [dict(zip(SEEN, row)) for row in zip(*(column.tolist() for column in SEEN.values()))]


def log(actions: Any, **columns: Any) -> cs.Transitions:
    found = columns or SEEN
    return cs.Transitions(found, actions, np.zeros(5), found)


LOG = log(["on", "off", "eco", "on", "off"])


def chosen(rule: str, data: cs.Transitions = LOG) -> list[Any]:
    attached = attach(rule, data)
    found = attached.sample(SEEN, np.random.default_rng(0))
    return found.ravel().tolist() if data.action_levels is None else data.action_levels[found].tolist()


@pytest.mark.parametrize(
    ("rule", "python"),
    [
        ("on if temperature < 19 else off", lambda r: "on" if r["temperature"] < 19 else "off"),
        ("'on' if 18 <= temperature < 22 else \"eco\"", lambda r: "on" if 18 <= r["temperature"] < 22 else "eco"),
        ("on if tariff == 'low' and not at_home else off", lambda _: "off"),
        ("on if tariff == 'low' and at_home else off", lambda r: "on" if r["tariff"] == "low" and r["at_home"] else "off"),
        ("on if tariff in ('low', 'mid') else off", lambda r: "on" if r["tariff"] in ("low", "mid") else "off"),
        ("on if tariff not in ['low'] else off", lambda r: "on" if r["tariff"] != "low" else "off"),
        (
            "on if temperature - 2 * `out door` / 4 > 18.25 or tariff != 'high' else eco if at_home else off",
            lambda r: (
                "on"
                if r["temperature"] - 2 * r["out door"] / 4 > 18.25 or r["tariff"] != "high"
                else "eco"
                if r["at_home"]
                else "off"
            ),
        ),
        (
            "on if temperature // 2 % 3 == 0 and -temperature ** 2 < -300 else off",
            lambda r: "on" if r["temperature"] // 2 % 3 == 0 and -(r["temperature"] ** 2) < -300 else "off",
        ),
        ("eco", lambda _: "eco"),
    ],
)  # fmt: skip
def test_a_rule_means_what_it_means_in_python(rule: str, python: Any) -> None:
    assert chosen(f"rule:{rule}") == [python(row) for row in ROWS]
    bound = attach(f"rule:{rule}", LOG).policy
    again = pickle.loads(pickle.dumps(bound)).sample(SEEN, np.random.default_rng(0))
    assert again.tolist() == bound.sample(SEEN, np.random.default_rng(0)).tolist()


def test_one_column_has_its_name_too() -> None:
    lone = log(["on", "off", "on", "on", "off"], temperature=SEEN["temperature"])
    named = cs.read(
        {"temperature": SEEN["temperature"], "action": ["on", "off", "on", "on", "off"], "reward": np.zeros(5)},
        observation="temperature",
    )
    for data in (lone, named):
        found = attach("rule:on if temperature < 19 else off", data)
        seen = next(iter(data.blocks())).observations.plain()
        assert found.sample(seen, np.random.default_rng(0)).tolist()[:3] == [1, 1, 0]


def test_numbers_as_actions() -> None:
    assert chosen("rule:0.5 * (20 - temperature) if temperature < 20 else 0", log(np.arange(5.0))) == [2, 1, 0.5, 0, 0]
    assert chosen("rule:-1 if temperature < 19 else 2", log([-1, 2, 2, -1, 0])) == [-1, -1, 2, 2, 2]
    assert chosen("rule:temperature", log(np.arange(5.0))) == SEEN["temperature"].tolist()


def test_the_command_line_finds_the_name() -> None:
    assert parse("rule:on if x == 1 else off") == (None, "rule:on if x == 1 else off")
    assert parse("mine=rule:on if x <= 1 else off") == ("mine", "rule:on if x <= 1 else off")
    assert policy("rule: on if x < 1 else off").name == "rule:on if x < 1 else off"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "must hold an expression. Got none; a rule is ACTION if CONDITION else ACTION, such as rule:on if"),
        ("on if temperature < 19", "character 23 of the rule, '' (expected 'else' after 'if' expression); a rule is"),
        ("on if temperature < 19 els off", "cannot be read at character 23 of the rule, 'els off' (expected 'else'"),
        ("on if temperature = 19 else off", "character 18 of the rule, '= 19 else off' (expected 'else' … equality is =="),
        ("on if temperature < else off", "cannot be read at character 18 of the rule, '< else off' ("),
        ("on if temprature < 19 else off", "Got 'temprature' at character 7 of the rule; write temperature if that"),
        ("on if tariff == low else off", "Got 'low' at character 17 of the rule; name one of these, or put text in quotes"),
        ("onn if temperature < 19 else off", "must be an action of the log Transitions: 'eco', 'off', 'on' (text). Got 'onn'"),
        ("1 if temperature < 19 else off", "(text). Got '1' at character 1 of the rule; name one of these, or a column:"),
        ("on if tariff < 3 else off", "not of text and a number. Got 'tariff < 3' at character 7 of the rule;"),
        ("on if temperature else off", "a condition must be true or false. Got 'temperature' at character 7"),
        ("on if tariff + 1 > 2 else off", "arithmetic must be of numbers. Got 'tariff' at character 7"),
        ("on if (at_home) & (temperature < 3) else off", "must not use this operator. Got …; write and."),
        ("on if 1 / (temperature - 18) > 3 else off", "finite numbers, also at the observation {temperature: 18.0, …"),
        ("on if 9 ** 9 ** 9 ** 9 > temperature else off", "arithmetic must give finite numbers"),
        ("on if `in door` < 3 else off", "Got '`in door`' at character 7 of the rule; write out door if that was meant"),
        ("[on, off]", "a result must be one action. Got '[on, off]' at character 1"),
        ("on if temperature in 3 else off", "what follows in must be a list. Got 'temperature in 3' at character 7"),
        ("on if None else off", "a value must be a number or text. Got 'None' at character 7"),
        ("__import__('os').system('touch ran')", "must consist of if-else, comparisons, arithmetic, numbers, text"),
        ("on if temperature.real > 3 else off", "must consist of … Got 'temperature.real' at character 7"),
        ("on if (lambda: 1)() else off", "must consist of"),
        ("on if [t for t in temperature] else off", "must consist of"),
        ("on if (x := 3) > 2 else off", "must consist of"),
        ("on if f'{temperature}' == 'a' else off", "must consist of"),
        ("(" * 300 + "on" + ")" * 300, "(too many nested parentheses)"),
        ("on if temperature < 1 else " * 150 + "off", "A rule must be at most 100 parts deep. Got 'rule:on if …; write it"),
        ("on if temperature < 1 else " * 500 + "off", "A rule must have at most 10,000 characters. Got 13,503; write it"),
        ("on if temperature < 19 else\0off", "cannot be read"),
    ],
)  # fmt: skip
def test_rules_that_are_wrong(rule: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        chosen(f"rule:{rule}")
    said, found = str(caught.value), 0
    for part in words.split("…"):
        found = said.find(part.strip(), found)
        assert found >= 0, said
    assert len(said) < 700


def test_an_action_that_is_a_column_too_must_be_in_quotes() -> None:
    data = log(["on", "off", "on", "on", "off"], on=SEEN["temperature"], x=SEEN["temperature"])
    with pytest.raises(
        InputError, match=r"and this is both\. Got 'on' at character 1 of the rule; put an action in quotes"
    ):
        attach("rule:on if x < 1 else off", data)
    attach("rule:'on' if x < 1 else off", data)


@given(st.text(max_size=40) | st.text(alphabet="onf if else<>=()'\"`temperau1.+-*/,and", max_size=40))
def test_any_text_is_a_rule_or_one_sentence(text: str) -> None:
    try:
        found = chosen(f"rule:{text}")
    except InputError:
        return
    assert len(found) == 5
