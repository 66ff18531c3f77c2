"""Bounds of numbers: what they refuse, and that what they let through computes without a warning."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cesaro as cs
from cesaro import checks
from cesaro.approximators import MLP
from cesaro.closed_forms import dense
from cesaro.data.values import Values
from cesaro.errors import InputError, ToleranceError
from cesaro.features.base import Polynomial
from cesaro.features.encoder import FAR, Encoder
from cesaro.learning import arguments
from cesaro.passes.checkpoint import identity
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import FeatureRows, Prepared
from cesaro.policies.base import check_actions
from cesaro.text import shortened

RNG = np.random.default_rng(0)
X, ACTIONS = RNG.normal(size=(400, 2)), RNG.integers(0, 2, 400)
REWARDS = X[:, 0] + RNG.normal(size=400)


@pytest.mark.parametrize("value", [0, 11, -1, True, 2.0, "3", None, 10**30])
def test_counts(value: Any) -> None:
    assert checks.count("draws", np.int8(10), high=10) == 10
    with pytest.raises(InputError, match=r"draws must be an integer ≥ 1 and ≤ 10\. Got "):
        checks.count("draws", value, high=10)


def test_numbers_of_many_digits_are_shown_short() -> None:
    assert [shortened(value) for value in (12, -(10**40), 10**5_000)] == [
        "12",
        "about -10**40",
        "about 10**5000",
    ]
    assert shortened("a" * 100) == f"'{'a' * 59}…"


def test_arrays_have_a_largest_size() -> None:
    with pytest.raises(InputError, match=r"x must be at most 1e\+100 in size.* Got -1e\+101 at row 1; scale it"):
        checks.float_array("x", [0.0, -1e101], ("row",), (None,), largest=checks.LARGEST)
    whole: dict[str, Any] = {"x": [[1.0]], "rewards": [1.0], "x_next": [[1.0]], "weights": [1.0]}
    for name, value in whole.items():
        with pytest.raises(InputError, match=rf"{name} must be at most 1e\+100 in size"):
            cs.FeatureTransitions(**{**whole, name: np.multiply(value, 1e200)})
    with pytest.raises(InputError, match=r"weights must be 0 or at least 1e-100.* Got 1e-200; multiply all"):
        cs.FeatureTransitions([[1.0]], [1.0], [[1.0]], weights=[1e-200])
    problem = cs.problems.random_problem(0)
    with pytest.raises(InputError, match="features must be at most"):
        problem.replace(features=problem.features * 1e200)


@pytest.mark.parametrize("size", [1e-99, 1e-30, 1e30, 1e99])
@pytest.mark.parametrize("features", ["linear", "fourier:20"])
def test_units_of_observations_and_rewards_do_not_matter(size: float, features: str) -> None:
    plain = cs.DiffLSTD(features=features, quiet=True).fit(cs.Transitions(X, ACTIONS, REWARDS), "uniform")
    other = cs.DiffLSTD(features=features, quiet=True).fit(cs.Transitions(X * size, ACTIONS, REWARDS * size), "uniform")
    assert other.reward_rate_ / size == pytest.approx(plain.reward_rate_, rel=1e-6)
    assert other.standard_error_ / size == pytest.approx(plain.standard_error_, rel=1e-6)
    if features == "linear":  # stability of learned methods takes seconds with more
        assert [one.verdict for one in other.diagnostics_] == [one.verdict for one in plain.diagnostics_]


@pytest.mark.parametrize("size", [1e-310, 1e-200])
def test_tiny_rewards_are_one_finding(size: float) -> None:
    answer = cs.evaluate(cs.Transitions(X, ACTIONS, REWARDS * size), "uniform", quiet=True)
    found = {one.name: one for one in answer.diagnostics}
    assert (answer.verdict, found["tiny rewards"].verdict) == ("bad", "bad")
    assert not {"drift", "influential rows", "memory"} & found.keys()


def encoder() -> Encoder:
    return Encoder(Values("vector", ("place",), (X,)))


@pytest.mark.parametrize("value", [1e99, -1e99, 1e31])
def test_numbers_far_from_the_sample_are_refused(value: float) -> None:
    rows = X.copy()
    rows[7, 1] = value
    with pytest.raises(
        InputError, match=r"Column 'place\[1\]' must stay within 1e\+30 standard .* in row 7 of a piece of 400"
    ):
        encoder()(Values("vector", ("place",), (rows,)))
    rows[7, 1] = FAR / 10
    assert np.isfinite(encoder()(Values("vector", ("place",), (rows,)))).all()


def test_single_precision_may_overflow_where_it_is_centered() -> None:
    table = np.array([[3e38], [3.3e38], [3.2e38]], np.float32)
    fitted = Encoder(Values("vector", ("place",), (table,)))
    with pytest.raises(InputError, match="must stay within"):
        fitted(Values("vector", ("place",), (-table * 1.02,)))


def test_columns_of_tiny_numbers_are_refused_and_constant_ones_are_not() -> None:
    with pytest.raises(InputError, match=r"Column 'load' must reach 1e-100 in size .* Got at most 2e-200"):
        Encoder(Values("lone", ("load",), (np.array([1e-200, 2e-200]),)))
    assert Encoder(Values("lone", ("load",), (np.full(2, 1e-200),))).size == 1


def test_polynomials_that_overflow() -> None:
    inputs = np.full((2, 1), 1e20, np.float32)
    assert np.isfinite(Polynomial(inputs, 1)(inputs)).all()
    with pytest.raises(
        InputError, match=r"polynomials of degree 2 .* overflow: an input is 1e\+20 standard deviations"
    ):
        Polynomial(inputs, 2)(inputs)


def moments(scale: float = 1.0) -> Moments:
    found = Moments()
    found.add(FeatureRows(X * scale, REWARDS, np.roll(X, 1, axis=0), X * scale))
    return found


def test_sums_that_overflow_are_a_sentence() -> None:
    found = moments()
    found._sums["vz"] = np.full((2, 2), np.inf)
    with pytest.raises(InputError, match="The sums of products of features and rewards overflowed; scale"):
        dense.solve(found, 0.0)


def test_decompositions_that_fail_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise np.linalg.LinAlgError("SVD did not converge")

    found, problem = moments(), cs.problems.random_problem(0)
    monkeypatch.setattr(np.linalg, "svd", fails)
    for compute in (
        lambda: dense.solve(found, 0.0),
        problem.td_fixed_point,
        lambda: problem.stability("diff-gq1"),
        lambda: problem.limit("diff-gq1", ridge=0.1),
    ):
        with pytest.raises(
            ToleranceError, match=r"cannot be computed in double precision \(SVD did not converge\); scale"
        ):
            compute()


def test_huge_ridges_have_a_stability() -> None:
    """Small eigenvalues are rounded to zero beside them."""
    problem = cs.problems.random_problem(1, num_features=4)
    found = problem.stability("diff-gq1", ridge=9e29)
    assert found.max_step_expected is not None
    assert 0 < found.max_step_expected < 1e-29


def test_sizes_of_sweeps_and_networks() -> None:
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"seeds": 10**30}, "seeds must be an integer ≥ 1 and ≤ 1,000,000"),
        ({"budget": 10**30}, "budget must be an integer ≥ 1 and ≤ 2,147,483,647"),
        ({"batch_size": 10**12}, "batch_size must be an integer"),
        ({"workers": 10**9}, "workers must be an integer ≥ 0 and ≤ 1,024"),
        (
            {"seeds": 10**6, "budget": 100_000, "record_every": 100},
            "must be at most 500,000,000 rates. Got 1 × 1,000,000 × 1,000",
        ),
    ]
    for settings, words in refused:
        with pytest.raises(InputError, match=words):
            cs.sweep("diff-gq1", chain, settings=cs.grid(step_size=[0.1]), quiet=True, **settings)
    for widths, words in (
        ((10**9,), "widths must be an integer ≥ 1 and ≤ 16,384"),
        ((1,) * 101, "at most 100 entries"),
    ):
        with pytest.raises(InputError, match=words):
            MLP(widths=widths)
    arguments.check_records(1, arguments.MOST_RECORDS, 1)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: cs.problems.garnet(10**9, 2, 2), "num_states must be an integer ≥ 1 and ≤ 100,000,000"),
        (lambda: cs.problems.garnet(10**7, 100, 2), "num_states × num_actions × branching must be at most 100,000,000"),
        (lambda: cs.problems.random_problem(0, 100_000), "num_states × num_actions × num_next_states must be at most"),
        (lambda: cs.problems.access_control_queue(10**6), "num_servers must be an integer ≥ 1 and ≤ 10,000"),
    ],
)
def test_sizes_of_problems(build: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build()


def test_a_checkpoint_knows_sparse_features_without_making_them_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million labels would take 15 GiB."""

    def fails(*_: Any, **__: Any) -> None:
        raise MemoryError

    log = cs.Transitions(ACTIONS, ACTIONS[::-1].copy(), REWARDS)
    prepared = Prepared(log, "uniform", features="one-hot", dual_features="auto", draws=1, random_state=0)
    monkeypatch.setattr(sp.csr_array, "toarray", fails)
    assert "one-hot" in identity(prepared, {})["features"]


@pytest.mark.parametrize("actions", [[[0, 1], [2]], [[[[0]]], 1], {0: "a"}, np.array([[0, 1], [2, 3]])])
def test_actions_may_be_nested_lists(actions: Any) -> None:
    assert len(check_actions("The policy", actions)) == len(actions)


@pytest.mark.parametrize("actions", [None, 3, "ab", [], np.array(1)])
def test_actions_must_be_a_sequence(actions: Any) -> None:
    with pytest.raises(InputError, match="The policy must have a sequence of at least one action label"):
        check_actions("The policy", actions)
