"""`evaluate` and `compare` as functions: what they take, refuse, keep and say."""

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import cesaro as cs
from cesaro.diagnostics import Diagnostic
from cesaro.estimators import Estimate
from cesaro.evaluation import COVERS, COVERS_ALL, COVERS_MEAN, COVERS_NOTHING, NO_OTHERS, NO_RARE_PAIRS
from cesaro.progress import stage
from cesaro.report.style import save_png
from cesaro.report.text import comparison_text, evaluation_text
from cesaro.report.words import common_decimals, headline, numbers


@pytest.fixture(scope="module")
def log() -> cs.Transitions:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 4_000)
    state = np.concatenate([[0], np.cumsum(action)[:-1]]) % 3
    return cs.Transitions(state, action, (state == 2) + rng.normal(size=4_000))


@pytest.fixture(scope="module")
def answer(log: cs.Transitions) -> cs.Evaluation:
    return cs.evaluate(log, "constant:1", quiet=True)


def test_the_answer_is_the_estimators(log: cs.Transitions, answer: cs.Evaluation) -> None:
    est = cs.DiffLSTD().fit(log, "constant:1")
    assert (answer.reward_rate, answer.standard_error) == (est.reward_rate_, est.standard_error_)
    assert answer.interval(0.5) == est.interval(0.5)
    low, high = answer.interval()
    assert low < 1 / 3 < high
    assert answer.difference.value == pytest.approx(answer.reward_rate - answer.behavior.value)
    assert answer.behavior.value == pytest.approx(log.rewards.mean())


def test_the_difference_is_paired(log: cs.Transitions) -> None:
    """Two names of one policy differ by nothing, although each has an interval."""
    found = cs.compare(log, {"a": "constant:1", "b": "constant:1", "c": "uniform"}, quiet=True)
    assert found.evaluations["a"].standard_error > 0
    assert found.differences["a", "b"] == Estimate(0.0, 0.0, found.differences["a", "b"].degrees_of_freedom)
    assert found.differences["a", "b"].p_value() == 0.5
    assert found.differences.keys() == {("a", "b"), ("a", "c"), ("b", "c")}


def test_logged_is_the_mean_reward_and_says_so(log: cs.Transitions) -> None:
    found = cs.evaluate(log, "logged", quiet=True)
    assert found.reward_rate == pytest.approx(log.rewards.mean())
    assert found.is_logged
    assert "only if the log is stationary" in found.warnings[0]
    assert headline(found).startswith("The log earned ")
    assert found.difference.value == 0


def test_json_is_plain_even_where_numbers_are_missing(answer: cs.Evaluation) -> None:
    unknown = Estimate(1.0, math.nan, 1.0)
    odd = Diagnostic("odd", math.inf, "bad", "Something is infinite.", "Mend it.")
    settings = {"ridge": np.float64("nan"), "size": np.int64(3), "nested": [np.float32(1.5), None], "kind": object}
    strange = replace(answer, target=unknown, difference=unknown, diagnostics=(odd,), settings=settings)
    found = json.loads(json.dumps(strange.to_dict(), allow_nan=False))
    nothing: dict[str, float | None] = {"standard_error": None, "low": None, "high": None}
    assert found["reward_rate"] == {"value": 1.0, **nothing, "widened_below": 0.0, "widened_above": 0.0}
    assert found["difference"]["p_one_sided"] is None
    assert found["verdict"] == "bad"
    assert found["settings"] == {"ridge": None, "size": 3, "nested": [1.5, None], "kind": "<class 'object'>"}
    said = evaluation_text(strange, 80)
    assert "(no interval)" in headline(strange)
    assert "Verdict: bad (odd): see below" in said
    assert "Something is infinite. Mend it." in said


def test_a_picture_is_drawn_even_where_numbers_are_missing(answer: cs.Evaluation, tmp_path: Path) -> None:
    unknown = Estimate(math.nan, math.nan, 1.0)
    save_png(replace(answer, difference=unknown, name="$\\frac{ x" * 9).plot(), tmp_path / "rates.png")
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_names_intervals_only_where_it_has_them(
    answer: cs.Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[str, str]] = []

    def keep(figure: Figure, *_: Any, **__: Any) -> None:
        drawn.extend((axes.get_xlabel().rpartition("\n")[2], axes.texts[0].get_text()) for axes in figure.axes)

    monkeypatch.setattr(Figure, "savefig", keep)
    unknown = Estimate(0.12345678, math.nan, 1.0)
    save_png(replace(answer, target=unknown, difference=unknown).plot(), tmp_path / "rates.png")
    save_png(replace(answer, target=unknown, behavior=unknown).plot(), tmp_path / "rates.png")
    decimals = common_decimals([answer.behavior])
    assert drawn[0] == ("(lines: 95 % intervals)", f"{unknown.value:.{decimals}f}")
    assert drawn[1] == ("(no intervals)", f"{unknown.value:+.{decimals}f}")
    assert [words for words, _ in drawn[2:]] == ["(no intervals)", "(lines: 95 % intervals)"]


def test_what_intervals_cover_is_said_of_those_that_have_one(log: cs.Transitions) -> None:
    compared = cs.compare(log, {"a": "constant:1", "b": "uniform"}, quiet=True)
    text = " ".join(comparison_text(compared).split())
    assert text.count(COVERS_ALL) == 1
    assert f"a, b: {COVERS_ALL}" not in text
    unknown = replace(compared.evaluations["b"], target=Estimate(1.0, math.nan, 1.0))
    mixed = replace(compared, evaluations={**compared.evaluations, "b": unknown})
    text = " ".join(comparison_text(mixed).split())
    assert f"a: {COVERS_ALL} {NO_RARE_PAIRS} b: {COVERS_NOTHING}" in text
    alone = " ".join(str(unknown).split())
    assert COVERS_NOTHING in alone
    assert COVERS_ALL not in alone
    wide = cs.evaluate(log, "uniform", ridge=1e-3, quiet=True)
    assert f"{COVERS} {NO_OTHERS}" in " ".join(str(wide).split())
    assert COVERS_MEAN in " ".join(str(cs.evaluate(log, "logged", quiet=True)).split())


def test_short_text_leaves_out_what_is_ok_and_full_text_does_not(answer: cs.Evaluation, log: cs.Transitions) -> None:
    fine = Diagnostic("fine", 1.0, "ok", "All is well.")
    odd = Diagnostic("odd", 0.0, "caution", "Something is odd.", "Look.")
    both = replace(answer, diagnostics=(odd, fine))
    assert "All is well." not in str(both)
    assert "Something is odd. Look." in str(both)
    assert "All is well." in evaluation_text(both, full=True)
    assert "Verdict: ok (checked: fine)" in str(replace(answer, diagnostics=(fine,)))
    compared = cs.compare(log, {"a": "constant:1", "b": "uniform"}, quiet=True)
    assert comparison_text(compared, full=True).count("What could be wrong") == 2


@pytest.mark.parametrize(
    ("estimate", "value"),
    [
        (Estimate(2.73136, 0.0142, 20), "2.731"),
        (Estimate(-0.00008919, 0.00028, 20), "-0.00009"),
        (Estimate(1234567.8, 321.0, 20), "1,234,568"),
        (Estimate(1.23e-12, 4.5e-14, 20), "1.23e-12"),
        (Estimate(1.23456e12, 4.5e9, 20), "1.235e+12"),
        (Estimate(1 / 3, 0.0, 20), "0.333333"),
        (Estimate(1 / 3, 1e-18, 20), "0.333333"),
        (Estimate(math.nan, 0.1, 20), "none"),
        (Estimate(0.0, 0.0, 20), "0"),
    ],
)
def test_numbers_have_the_digits_that_their_error_deserves(estimate: Estimate, value: str) -> None:
    assert numbers(estimate, 0.95)[0] == value


def test_wrong_arguments_are_named(log: cs.Transitions) -> None:
    ready = cs.FeatureTransitions(np.ones((3, 1)), np.ones(3), np.ones((3, 1)))
    for bad, message in (([1, 2], "Got list; see cesaro.read"), (ready, "ready features go to an estimator")):
        with pytest.raises(cs.InputError, match=message):
            cs.evaluate(bad, "uniform")
    with pytest.raises(cs.InputError, match="has no setting colour; it has"):
        cs.evaluate(log, "uniform", colour="red")
    with pytest.raises(cs.InputError, match="confidence must be a number > 0 and < 1"):
        cs.evaluate(log, "uniform", confidence=95)
    with pytest.raises(cs.InputError, match="at least two names"):
        cs.compare(log, {"a": "uniform"})
    with pytest.raises(cs.InputError, match=r"different names\. Got '1' twice"):
        cs.compare(log, {1: "uniform", "1": "constant:1"})  # type: ignore[dict-item]


def test_what_belongs_to_read_is_said(log: cs.Transitions) -> None:
    for source in (log, "calls.csv"):
        with pytest.raises(
            cs.InputError, match=r"Got observation; call cesaro\.read first: log = cesaro\.read\(path, obs"
        ):
            cs.evaluate(source, "uniform", observation=["load"])
        with pytest.raises(cs.InputError, match=r"Got observation, gap; call cesaro\.read first"):
            cs.compare(source, {"a": "uniform", "b": "constant:1"}, observation=["load"], gap=None)


def test_differences_in_either_order(log: cs.Transitions) -> None:
    found = cs.compare(log, {"a": "constant:1", "b": "uniform"}, quiet=True)
    assert found.difference("a", "b") == found.differences["a", "b"]
    assert found.difference("b", "a") == found.differences["a", "b"].negative()
    for names in (("a", "c"), ("a", "a")):
        with pytest.raises(cs.InputError, match="two different names among 'a', 'b'"):
            found.difference(*names)


def test_a_standard_error_of_zero_is_none_where_rewards_differ() -> None:
    few = cs.evaluate(cs.Transitions([0, 1] * 3, [0] * 6, [0.0, 1.0] * 3), "uniform", quiet=True)
    assert few.estimator.estimate_.standard_error == 0
    assert "would earn 0.5 per step in the long run (no interval)" in headline(few)
    assert "0.5 … 0.5" not in str(few)
    rate = few.to_dict()["reward_rate"]
    assert (rate["value"], rate["low"], rate["high"]) == (0.5, None, None)
    constant = cs.evaluate(cs.Transitions([0, 1] * 3, [0] * 6, [1.0] * 6), "uniform", quiet=True)
    assert constant.interval() == (1.0, 1.0)


def test_comparisons_say_things_once(log: cs.Transitions) -> None:
    policies = {"log": "logged", "a": "constant:1", "b": "uniform"}
    said = " ".join(str(cs.compare(log, policies, quiet=True)).split())
    assert "the log itself" not in said
    assert "beyond noise?" in said
    assert said.count("Used for") == 2
    assert "Used for a, b: method: DiffLSTD" in said
    assert "Log: 3,999 transitions. Dropped" in said
    assert "Columns:" not in said
    del policies["log"]
    said = " ".join(str(cs.compare(log, policies, quiet=True)).split())
    assert "the log itself" in said
    assert "Used: method" in said


def test_rates_of_one_table_have_the_same_decimals(answer: cs.Evaluation) -> None:
    mixed = replace(answer, target=Estimate(2.73136, 0.5, 20), behavior=Estimate(2.5, 0.0042, 20))
    said = str(mixed)
    assert "'constant:1' would earn 2.7314 per step" in said
    assert "2.5000" in said
    assert "0.5000" in said
    assert common_decimals([Estimate(1.0, 0.0, 3), Estimate(2.0, math.nan, 3)]) is None
    assert common_decimals([Estimate(1e12, 4e9, 3), Estimate(2.0, 0.1, 3)]) is None


def test_a_path_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    rows = "".join(f"{t % 2},{t % 3 % 2},{t % 5}\n" for t in range(400))
    file.write_text(f"state,action,reward\n{rows}", encoding="utf-8")
    assert cs.evaluate(str(file), "uniform", quiet=True).log["columns"]["observation"] == ["state"]
    assert cs.evaluate(file, "uniform", quiet=True).log["rows"] == 399


def test_other_warnings_pass_through(log: cs.Transitions) -> None:
    def old(observations: object) -> object:
        warnings.warn("this function is old", DeprecationWarning, stacklevel=1)
        return np.ones(len(np.asarray(observations)), dtype=int)

    with pytest.warns(DeprecationWarning, match="this function is old"):
        assert cs.evaluate(log, old, quiet=True).warnings == ()


def test_stages_are_shown_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stage("reading"):
        pass
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with stage("reading", quiet=True):
        pass
    assert capsys.readouterr() == ("", "")
    with stage("reading"), stage("within"):  # only one at a time can be on show
        pass
    out, err = capsys.readouterr()
    assert out == ""
    assert "reading" in err


def test_an_answer_reaches_to_features_that_disagree_beyond_noise() -> None:
    """A parabola of the state in linear features: the interval of the limit misses the truth, the answer's does not."""
    rng = np.random.default_rng(0)
    rows = 6_000
    x, u = np.zeros(rows + 1), rng.normal(size=rows)
    for t in range(rows):
        x[t + 1] = 0.7 * x[t] + 0.5 * u[t] + 0.3 * rng.normal()
    log = cs.Transitions(x[:-1], u, x[:-1] ** 2, x[1:])
    policies = {
        "one": lambda x, rng: 1 + 0.3 * rng.normal(size=len(x)),
        "zero": lambda x, rng: 0.3 * rng.normal(size=len(x)),
    }
    truth = (0.5 / 0.3) ** 2 + (0.3**2 + (0.5 * 0.3) ** 2) / (1 - 0.7**2)
    found = cs.compare(log, policies, features="linear", quiet=True)
    answer = found.evaluations["one"]
    low, high = answer.interval()
    assert low <= truth <= high
    assert not answer.estimator.interval()[0] <= truth <= answer.estimator.interval()[1]
    assert answer.verdict == "bad"
    entry = next(entry for entry in answer.diagnostics if entry.name == "agreement of features")
    assert max(entry.widens) > 0
    assert (answer.target.below, answer.target.above) == entry.widens
    assert (answer.difference.below, answer.difference.above) == (answer.target.below, answer.target.above)
    written = answer.to_dict()["reward_rate"]
    assert (written["widened_below"], written["widened_above"]) == (answer.target.below, answer.target.above)
    other = found.evaluations["zero"].target
    apart = found.differences["one", "zero"]
    assert apart.below == pytest.approx(answer.target.below + other.above)
    assert apart.above == pytest.approx(answer.target.above + other.below)
    default = cs.evaluate(log, policies["one"], quiet=True)
    assert default.interval()[0] <= truth <= default.interval()[1]
    assert default.verdict != "ok" or default.to_dict()["reward_rate"]["widened_below"] == 0
