"""Ranking, and which differences are beyond noise."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro.diagnostics import Diagnostic, Verdict
from cesaro.estimators import Estimate
from cesaro.report.words import numbers


@pytest.fixture(scope="module")
def found() -> cs.Comparison:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, 4_000)
    log = cs.Transitions(np.cumsum(action) % 3, action, action + rng.normal(size=4_000))
    policies = {"low": "constant:0", "high": "constant:2", "middle": "constant:1"}
    return cs.compare(log, policies, quiet=True)


def with_differences(found: cs.Comparison, chances: list[float]) -> cs.Comparison:
    """The same policies, with differences of these two-sided p-values."""
    from scipy.stats import norm

    z = [float(norm.isf(p / 2)) for p in chances]
    names = ("high", "middle"), ("high", "low"), ("middle", "low")
    differences = {
        pair if pair in found.differences else pair[::-1]: Estimate(
            size if pair in found.differences else -size, 1.0, 1e9
        )
        for pair, size in zip(names, z)
    }
    return replace(found, differences=differences)


def test_the_ranking_is_by_rate(found: cs.Comparison) -> None:
    assert [one.name for one in found.ranking] == ["high", "middle", "low"]
    assert list(found.ranked_differences()) == [("high", "middle"), ("high", "low"), ("middle", "low")]
    assert all(difference.value > 0 for difference in found.ranked_differences().values())
    assert found.to_dict()["ranking"] == ["high", "middle", "low"]
    assert all(entry["beyond_noise"] for entry in found.to_dict()["differences"])


def test_holm_counts_all_comparisons(found: cs.Comparison) -> None:
    """By hand: p = .012, .03, .04 become .036, .06, .06; the second is raised, the third cannot fall below it."""
    adjusted = with_differences(found, [0.012, 0.03, 0.04]).adjusted
    assert list(adjusted.values()) == pytest.approx([0.036, 0.06, 0.06], rel=1e-5)
    shown = with_differences(found, [0.012, 0.03, 0.04])
    assert shown.beyond_noise("high", "middle")
    assert shown.beyond_noise("middle", "high")
    assert not shown.beyond_noise("high", "low")
    assert "The lead over 'middle' is beyond noise." in str(shown)
    assert "The lead over 'low' is within noise" in str(shown)
    assert "Of all 3 differences, 1 is beyond noise." in str(shown)


@pytest.mark.slow
def test_claims_are_rarely_wrong_where_all_policies_are_alike(found: cs.Comparison) -> None:
    """2,000 seeded draws of three equal policies: some claim in at most 5 % of them, up to 4 standard errors of that share.

    Without Holm's rule it would be about 12 %.
    """
    rng = np.random.default_rng(0)
    rates = rng.normal(size=(2_000, 3))
    wrong = plain = 0
    for one in rates:
        values = dict(zip(("high", "low", "middle"), one))
        differences = {(a, b): Estimate(values[a] - values[b], 2**0.5, 1e9) for a, b in found.differences}
        drawn = replace(found, differences=differences)
        wrong += any(drawn.beyond_noise(a, b) for a, b in differences)
        plain += any(2 * min(d.p_value(), 1 - d.p_value()) <= 0.05 for d in differences.values())
    assert wrong / 2_000 <= 0.05 + 4 * (0.05 * 0.95 / 2_000) ** 0.5
    assert plain / 2_000 > 0.09


def test_differences_without_an_interval_are_not_claimed(found: cs.Comparison) -> None:
    differences = {pair: Estimate(1.0, float("nan"), 1.0) for pair in found.differences}
    unknown = replace(found, differences=differences)
    assert not any(unknown.beyond_noise(a, b) for a, b in differences)
    assert "not known" in str(unknown)
    assert unknown.beyond_noise("high", "low") is None
    assert unknown.to_dict()["differences"][0]["beyond_noise"] is None
    assert "These methods do not say how certain the lead over" in str(unknown)
    assert "within noise" not in str(unknown)


def test_equal_rates_are_said_to_be_equal(found: cs.Comparison) -> None:
    high = found.evaluations["high"]
    twice = replace(found, evaluations={**found.evaluations, "middle": replace(high, name="middle")})
    assert "'high' and 'middle' have the same rate, the highest" in str(twice)
    assert "The lead over 'middle'" not in str(twice)


@pytest.mark.parametrize(
    ("difference", "words"),
    [(-0.5, "The log itself earned more"), (0.01, "is within noise of"), (0.5, "")],
)
def test_a_log_that_did_better_is_named(found: cs.Comparison, difference: float, words: str) -> None:
    best = found.ranking[0]
    changed = replace(best, difference=Estimate(difference, 0.1, 100.0))
    text = str(replace(found, evaluations={**found.evaluations, best.name: changed}))
    assert ("log itself earned" in text.split("Reward")[0]) == bool(words)
    assert words in " ".join(text.split())


def test_unknown_names_are_refused(found: cs.Comparison) -> None:
    with pytest.raises(cs.InputError, match="two different names among"):
        found.beyond_noise("high", "other")


def with_verdicts(found: cs.Comparison, **verdicts: Verdict) -> cs.Comparison:
    """The same policies, some of them with one finding of this verdict."""
    evaluations = {
        name: replace(
            one, diagnostics=(Diagnostic("order of rows", None, verdicts[name], "The rows are out of order."),)
        )
        if name in verdicts
        else one
        for name, one in found.evaluations.items()
    }
    return replace(found, evaluations=evaluations)


def test_answers_that_are_bad_have_no_rank(found: cs.Comparison) -> None:
    shown = with_verdicts(found, high="bad")
    assert [one.name for one in shown.ranking] == ["middle", "low"]
    assert [one.name for one in shown.listed] == ["middle", "low", "high"]
    assert shown.beyond_noise("high", "low") is None
    assert shown.beyond_noise("middle", "low")
    document = shown.to_dict()
    assert (document["ranking"], document["unranked"]) == (["middle", "low"], ["high"])
    text = str(shown)
    assert text.startswith("'middle' has the highest rate of those that can be ranked: ")
    assert "'high' has no rank, because the verdict is bad (order of rows)" in text
    assert "The lead over 'low' is beyond noise." in text
    assert "Of all 3 differences, 1 is beyond noise." in text


def test_nothing_is_ranked_where_every_answer_is_bad(found: cs.Comparison) -> None:
    shown = with_verdicts(found, low="bad", middle="bad", high="bad")
    assert shown.to_dict()["ranking"] == []
    assert not any(entry["beyond_noise"] for entry in shown.to_dict()["differences"])
    for text in (str(shown), shown._repr_html_()):
        assert "No ranking: the verdict on every policy is bad" in text
        assert "What is known is what the log itself earned: " in text
        assert not any(claim in text for claim in ("highest", "The lead", ">yes<", " yes\n", "From best"))


def test_one_answer_that_is_not_bad_is_no_winner(found: cs.Comparison) -> None:
    text = str(with_verdicts(found, middle="bad", high="bad"))
    assert text.startswith("No ranking: only 'low' has an answer that is not bad, ")
    assert "highest" not in text


def test_costs_are_compared_as_costs(found: cs.Comparison) -> None:
    """The rates 2, 1 and 0 of rewards that are minus a cost are the costs −2, −1 and 0, of which the first is the lowest."""
    evaluations = {name: replace(one, cost="bill") for name, one in found.evaluations.items()}
    shown = replace(found, evaluations=evaluations)
    text = str(shown)
    assert text.startswith("'high' has the lowest cost: -")
    assert "Cost 'bill' per step, in the long run (lower is better)" in text
    difference = numbers(found.difference("high", "low").negative(), found.confidence, None, signed=True)[0]
    for page in (text, shown._repr_html_()):
        assert difference.startswith("-")
        assert difference in page
        assert difference.replace("-", "+") not in page


def test_frames(found: cs.Comparison) -> None:
    shown = with_verdicts(found, high="bad")
    rates = shown.to_frame()
    assert rates["policy"].tolist() == ["middle", "low", "high"]
    assert rates["rank"].fillna(0).tolist() == [1, 2, 0]
    assert rates["reward_rate"].tolist() == [one.reward_rate for one in shown.listed]
    differences = shown.to_frame("differences")
    assert differences[["policy", "minus"]].values.tolist() == [list(pair) for pair in shown.ranked_differences()]
    assert differences["beyond_noise"].tolist() == [True, None, None]
    assert set(shown.to_frame("diagnostics")["policy"]) == {"low", "middle", "high"}
    high = found.evaluations["high"]
    row = high.to_frame().iloc[0]
    assert (row["reward_rate_low"], row["reward_rate_high"]) == high.interval()
    assert high.to_frame("diagnostics")["name"].tolist() == [entry.name for entry in high.diagnostics]
    with pytest.raises(cs.InputError, match=r"of must be one of rates, diagnostics\. Got 'values'"):
        high.to_frame("values")


def choose(seen: Any) -> Any:
    return seen["observation"] % 2


def test_answers_can_be_pickled() -> None:
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.integers(0, 3, 500), rng.integers(0, 2, 500), rng.normal(size=500))
    answer = cs.compare(log, {"mine": choose, "rule": "rule:1 if observation > 1 else 0"}, quiet=True)
    again = pickle.loads(pickle.dumps(answer))
    assert str(again) == str(answer)
    assert again.to_dict() == answer.to_dict()
    seen = np.array([0, 1, 2])
    assert again.evaluations["mine"].estimator.predict(seen, seen % 2) == pytest.approx(
        answer.evaluations["mine"].estimator.predict(seen, seen % 2), nan_ok=True
    )
