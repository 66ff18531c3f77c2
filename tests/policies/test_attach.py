"""Policies on logs: labels are matched by value and type, and everything a policy returns is checked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.policies import Finite, attach, policy
from cesaro.policies.base import draw

RNG = np.random.default_rng(0)


def log(observations: Any, actions: Any) -> Transitions:
    return Transitions(observations, actions, np.zeros(len(actions)), observations)


NUMBERS = log([0, 1, 2, 1], [0, 1, 1, 0])
TEXT = log(["a", "b", "a", "b"], ["accept", "reject", "accept", "accept"])
TRUTH = log([0, 1, 0, 1], [True, False, True, True])
LINE = log(np.linspace(-1, 1, 5), np.linspace(0, 1, 5))
PLANE = log(np.zeros((4, 3)), np.zeros((4, 2)))


# Probabilities


def test_columns_follow_the_log() -> None:
    attached = attach({"b": {"reject": 0.25, "accept": 0.75}, "a": "reject"}, TEXT)
    np.testing.assert_array_equal(attached.probabilities(np.array(["b", "a"])), [[0.75, 0.25], [0.0, 1.0]])
    assert attached.has_probabilities
    assert not attached.is_logged


@pytest.mark.parametrize("one", [1, 1.0, np.int8(1), np.uint64(1), np.float32(1), np.array(1)])
def test_numbers_are_the_same_label(one: Any) -> None:
    attached = attach(Finite([one, 0], lambda s: np.tile([0.2, 0.8], (len(s), 1))), NUMBERS)
    np.testing.assert_array_equal(attached.probabilities(np.array([0])), [[0.8, 0.2]])


def test_label_that_was_never_logged() -> None:
    never = attach(Finite([0, 7, 1], lambda s: np.column_stack([1 - s, 0 * s, s])), NUMBERS)
    np.testing.assert_array_equal(never.probabilities(np.array([0, 1])), [[1, 0], [0, 1]])
    sometimes = attach(Finite([0, 7, 1], lambda s: np.column_stack([1 - s, s / 4, 3 * s / 4]), name="new"), NUMBERS)
    with pytest.raises(
        InputError,
        match=r"'new' gives probability 0\.25 to the action 7 at the observation 1, and the log .* only 0, 1",
    ):
        sometimes.probabilities(np.array([0, 0, 1]))


@pytest.mark.parametrize(
    ("actions", "data", "words"),
    [
        (["reject", "accept"], NUMBERS, r"'reject', 'accept' \(text\).* has 0, 1 \(integers\)"),
        (["0", "1"], NUMBERS, r"'0', '1' \(text\).* has 0, 1 \(integers\)"),
        ([True, False], NUMBERS, r"True, False \(truth values\).* has 0, 1 \(integers\)"),
        ([0, 1], TEXT, r"0, 1 \(integers\).* has 'accept', 'reject' \(text\)"),
        ([0, 1], TRUTH, r"0, 1 \(integers\).* has False, True \(truth values\)"),
        (["Accept", "Reject"], TEXT, r"'Accept', 'Reject', and the log .* has 'accept', 'reject': labels are compared"),
        ([(0, 1), (1, 0)], NUMBERS, r"\(vectors\)"),
    ],
)
def test_labels_of_another_type(actions: list[Any], data: Transitions, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        attach(Finite(actions, lambda s: np.full((len(s), 2), 0.5)), data)
    assert "never by position" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_label_of_another_type() -> None:
    attached = attach(Finite([0, "1"], lambda s: np.full((len(s), 2), 0.5)), NUMBERS)
    with pytest.raises(
        InputError, match=r"the action '1' at the observation 0, .* only 0, 1 \(integers; '1' is of another type: text"
    ):
        attached.probabilities(np.array([0]))


BROKEN: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: None, "Got None; add a return"),
    (lambda s: np.full((len(s), 3), 1 / 3), r"shape \[2, 2\]: .*Got shape \(2, 3\)"),
    (lambda s: np.full(len(s), 0.5), r"Got shape \(2,\)"),
    (lambda s: np.array([[0.5, 0.5], [0.5, np.nan]]), r"between 0 and 1\. Got nan for action 1 at the observation 1\."),
    (lambda s: np.array([[0.5, 0.5], [-0.5, 1.5]]), r"Got -0\.5 for action 0 at the observation 1\."),
    (lambda s: np.array([[0.5, 0.5], [np.inf, 0.5]]), "Got inf for action 0"),
    (lambda s: np.array([[0.5, 0.5], [0.5, 0.4]]), r"sum to one\. Got 0\.9 at the observation 1; add"),
    (lambda s: np.array([["a", "b"]] * 2), "Got a ndarray; return an array of floats"),
    (lambda s: [[0.5], [0.5, 0.5]], "Got a list"),
    (lambda s: 1 / 0, r"failed with ZeroDivisionError at test_attach\.py, line \d+: .*must accept the log's observ"),
    (lambda s: s["load"], r"failed with KeyError at test_attach\.py, line \d+: 'load'"),
]


@pytest.mark.parametrize(("function", "words"), BROKEN)
def test_broken_probabilities(function: Callable[[Any], Any], words: str) -> None:
    attached = attach(Finite([0, 1], function), NUMBERS)
    with pytest.raises(InputError, match=words) as caught:
        attached.probabilities(np.array([0, 1]))
    assert "\n" not in str(caught.value)


def test_rounding_of_the_precision_is_normalized() -> None:
    thirds = np.full((1, 3), 1 / 3, dtype=np.float32) + np.float32(2e-7)
    three = log([0, 1, 2], [0, 1, 2])
    found = attach(Finite([0, 1, 2], lambda s: thirds), three).probabilities(np.array([0]))
    assert found is not None
    assert found.sum() == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(InputError, match="sum to one"):
        attach(Finite([0, 1, 2], lambda s: thirds.astype(np.float64)), three).probabilities(np.array([0]))


# Samplers


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (np.array([0, 1, 1], dtype=np.int8), [0, 1, 1]),
        (np.array([0.0, 1.0, 1.0], dtype=np.float32), [0, 1, 1]),
        ([0, 1.0, np.int64(1)], [0, 1, 1]),
    ],
)
def test_sampled_labels_become_codes(answer: Any, expected: list[int]) -> None:
    attached = attach(lambda s, rng: answer, NUMBERS)
    codes = attached.sample(np.array([0, 1, 2]), RNG)
    assert codes.tolist() == expected
    assert codes.dtype == np.int64
    assert attached.probabilities(np.array([0, 1, 2])) is None


def test_codes_are_positions_among_the_levels() -> None:
    later = log(["a", "b"], ["reject", "accept"])
    chosen = attach(lambda s, rng: np.where(s == "a", "reject", "accept"), later)
    assert chosen.sample(np.array(["a", "b"], dtype=object), RNG).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            np.array([0, 2]),
            r"chooses the action 2 at the observation 1, and the log .* holds only 0, 1; leave out",
        ),
        (["0", "1"], r"chooses the action '0' at the observation 0, .*\(integers; '0' is of another type: text\)"),
        ([0, True], r"the action True at the observation 1, .*another type: truth values"),
        (np.array([0.0, 0.37]), r"the action 0\.37 at the observation 1, .*another type: numbers"),
        (np.array([0.0, np.nan]), "the action nan at the observation 1,"),
        ([0, None], "the action None at the observation 1,"),
        (np.array([[0.5, 0.5], [0.5, 0.5]]), r"for probabilities, pass cesaro\.policies\.Finite\(actions, function\)"),
        (np.array([[0], [1]]), r"Got shape \(2, 1\); return an array"),
        (np.array([0]), r"shape \(2,\)\. Got shape \(1,\)"),
        (0, r"Got shape \(\); return an array with one label for each row"),
        (None, "Got None; add a return statement"),
        (np.ma.array([0, 1], mask=[False, True]), "Got a masked array"),
        ([[0], [1, 2]], "Got a list that is not an array"),
    ],
)
def test_broken_samples(answer: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        attach(lambda s, rng: answer, NUMBERS).sample(np.array([0, 1]), RNG)
    assert "\n" not in str(caught.value)


def test_function_without_generator_is_an_exact_expectation() -> None:
    attached = attach(lambda s: s % 2, NUMBERS)
    assert attached.deterministic
    np.testing.assert_array_equal(attached.probabilities(np.array([0, 1, 2])), [[1, 0], [0, 1], [1, 0]])
    assert attached.sample(np.array([1, 0]), RNG).tolist() == [1, 0]


def test_only_random_numbers_of_its_own_keep_a_policy_from_repeating_itself() -> None:
    """Each draw for 100 rows is the same by chance less than once in 10²⁹ times."""
    states, own = np.arange(100) % 3, np.random.default_rng(0)
    drawn = {
        "of rng": lambda s, rng: rng.integers(0, 2, len(s)),
        "none": lambda s: s % 2,
        "its own": lambda s, rng: own.integers(0, 2, len(s)),
        "its own, unsaid": lambda s: own.integers(0, 2, len(s)),
    }
    found = {name: attach(function, NUMBERS).repeats_itself(states) for name, function in drawn.items()}
    assert found == {"of rng": True, "none": True, "its own": False, "its own, unsaid": False}


def test_policies_cannot_change_the_log() -> None:
    def careless(observations: Any) -> Any:
        observations[:] = 0
        return observations

    values = np.array([0, 1, 0])
    assert attach(careless, NUMBERS).sample(values, RNG).tolist() == [0, 0, 0]
    assert values.tolist() == [0, 1, 0]
    columns = {"load": np.array([0.1, 0.2])}

    def careless_columns(observations: Any) -> Any:
        observations["load"] *= 0
        return (observations.pop("load") > 0.15).astype(int)

    named = log({"load": [0.1, 0.2, 0.3], "hour": [1, 2, 3]}, [0, 1, 0])
    assert attach(careless_columns, named).sample(columns, RNG).tolist() == [0, 0]
    assert columns["load"].tolist() == [0.1, 0.2]


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_draws_follow_the_probabilities(actions: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    row = rng.dirichlet(np.ones(actions)) * (rng.random(actions) < 0.7)
    row = row / row.sum() if row.sum() else np.eye(actions)[0]
    chosen = draw(np.tile(row, (20_000, 1)), rng)
    shares = np.bincount(chosen, minlength=actions) / len(chosen)
    assert (shares[row == 0] == 0).all()
    # 60 × 5 shares, 6 standard errors: below 1e-6 together.
    assert (np.abs(shares - row) <= 6 * np.sqrt(row * (1 - row) / len(chosen)) + 1e-12).all()


def test_no_draw_of_probability_zero() -> None:
    class Highest:
        def random(self, shape: tuple[int, int]) -> Any:
            return np.full(shape, np.nextafter(1.0, 0.0))

    row = np.array([[0.1] * 9 + [0.1, 0.0, 0.0]])
    row[0, :10] /= row[0, :10].sum()
    assert draw(row, Highest()).tolist() == [9]  # type: ignore[arg-type]


# Continuous actions


def test_shapes_of_continuous_actions() -> None:
    assert attach(lambda s: s**2, LINE).sample(np.array([0.5, 2.0]), RNG).tolist() == [[0.25], [4.0]]
    assert attach(lambda s: [1, 2.5], LINE).sample(np.array([0.5, 2.0]), RNG).tolist() == [[1.0], [2.5]]
    assert attach(lambda s: s[:, :2], PLANE).sample(np.ones((3, 3)), RNG).shape == (3, 2)
    assert attach(lambda s: s, LINE).probabilities(np.array([0.5])) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.zeros(2), r"2 numbers per observation, shape \(2, 2\), .*Got shape \(2,\) of float64"),
        (np.zeros((2, 3)), r"Got shape \(2, 3\)"),
        (np.array([["a", "b"]] * 2), "of <U1"),
        (np.zeros((2, 2), dtype=bool), "of bool"),
        (np.zeros((2, 2), dtype=complex), "of complex128"),
        (
            np.array([[0.0, 1.0], [0.0, np.nan]]),
            r"finite actions of at most 1e\+100 in size\. Got nan in dimension 1 at the observation \[0\.0, 0\.0, 0\.0\]\.",
        ),
        (np.array([[0.0, np.inf], [0.0, 0.0]]), r"Got inf in dimension 1 at the observation \[0\.0, 0\.0, 0\.0\]\."),
    ],
)
def test_broken_continuous_actions(answer: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        attach(lambda s: answer, PLANE).sample(np.zeros((2, 3)), RNG)


def test_bounds_are_checked_where_the_policy_has_them() -> None:
    class Bounded:
        low, high = -1.0, np.array([1.0, np.inf])

        def sample(self, observations: Any, rng: Any) -> Any:
            return observations[:, :2]

    attached = attach(Bounded(), PLANE)
    assert attached.sample(np.array([[1.0 + 1e-9, 9.0, 0.0]]), RNG).shape == (1, 2)
    with pytest.raises(
        InputError, match=r"Got 2 in dimension 0 at the observation \[2\.0, .*\], and its high is 1; correct"
    ):
        attached.sample(np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), RNG)
    with pytest.raises(InputError, match=r"Got -3 in dimension 1 at the observation \[0\.0, -3\.0, .* its low is -1"):
        attached.sample(np.array([[0.0, -3.0, 0.0]]), RNG)
    with pytest.raises(InputError, match="Got 2 in high"):
        attach(Bounded(), LINE).sample(np.zeros((1, 1)), RNG)


def test_finite_actions_on_a_continuous_log() -> None:
    half = Finite([0, 1.5], lambda s: np.full((len(s), 2), 0.5))
    drawn = attach(half, LINE).sample(np.zeros(100), RNG)
    assert drawn.shape == (100, 1)
    assert set(drawn[:, 0]) == {0.0, 1.5}
    vectors = Finite([[0, 1], np.array([2.0, 3.0])], lambda s: np.tile([0.0, 1.0], (len(s), 1)))
    assert attach(vectors, PLANE).sample(np.zeros((2, 3)), RNG).tolist() == [[2.0, 3.0]] * 2
    for actions, data in (([0, 1], PLANE), (["a", "b"], LINE), ([True, False], LINE), ([(1, 2), (3, 4)], LINE)):
        with pytest.raises(InputError, match=r"numbers? per action, .*continuous\. Got "):
            attach(Finite(actions, lambda s: np.full((len(s), 2), 0.5)), data)


# Words


def test_uniform() -> None:
    attached = attach("uniform", TEXT)
    np.testing.assert_array_equal(attached.probabilities(np.array(["a", "b", "b"])), np.full((3, 2), 0.5))
    assert attached.name == "uniform"
    with pytest.raises(InputError, match=r"continuous \(2 numbers\) without bounds; .* or write a function"):
        attach("uniform", PLANE)


@pytest.mark.parametrize(
    ("text", "data", "expected"),
    [
        ("1", NUMBERS, [0, 1]),
        ("1.0", NUMBERS, [0, 1]),
        ("reject", TEXT, [0, 1]),
        ("False", TRUTH, [1, 0]),
        ("true", TRUTH, [0, 1]),
    ],
)
def test_constant_label(text: str, data: Transitions, expected: list[int]) -> None:
    observations = data.observations.plain()[:2]
    attached = attach(f"constant:{text}", data)
    np.testing.assert_array_equal(attached.probabilities(observations), [expected] * 2)
    assert attached.sample(observations, RNG).tolist() == [expected.index(1)] * 2
    assert attached.name == f"constant:{text}"
    assert attached.deterministic


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("2", NUMBERS, r"must be an action of the log .*: 0, 1 \(integers\)\. Got '2'"),
        ("reject", NUMBERS, "Got 'reject'"),
        ("1", TRUTH, r"False, True \(truth values\)"),
        ("Reject", TEXT, "'accept', 'reject'"),
        ("1", PLANE, r"the 2 numbers of an action .*Got '1'"),
        ("1,b", PLANE, "Got '1,b'"),
    ],
)
def test_constant_that_is_no_action(text: str, data: Transitions, words: str) -> None:
    with pytest.raises(InputError, match=words):
        attach(f"constant:{text}", data)


def test_constant_vector() -> None:
    assert attach("constant:0.5,-2", PLANE).sample(np.zeros((2, 3)), RNG).tolist() == [[0.5, -2.0]] * 2
    assert attach("constant:3", LINE).sample(np.zeros(1), RNG).tolist() == [[3.0]]


def test_logged_chooses_nothing() -> None:
    for data in (NUMBERS, LINE):
        attached = attach(policy("logged", name="as before"), data)
        assert attached.is_logged
        assert attached.name == "as before"
        assert attached.probabilities(np.zeros(1)) is None
        with pytest.raises(InputError, match="mean logged reward"):
            attached.sample(np.zeros(1), RNG)


def test_words_need_a_log() -> None:
    with pytest.raises(InputError, match="needs a log"):
        policy("uniform").sample(np.zeros(1), RNG)


# Availability


def test_only_available_actions() -> None:
    attached = attach("uniform", TEXT)
    available, seen = np.array([[True, True], [True, False]]), np.array(["a", "b"])
    attached.check_available(np.array([[0.5, 0.5], [1.0, 0.0]]), available, seen)
    attached.check_available(np.array([1, 0]), available, seen)
    with pytest.raises(
        InputError,
        match=r"Got probability 0\.5 for action 'reject' at the observation b, where only 'accept' is possible",
    ):
        attached.check_available(np.full((2, 2), 0.5), available, seen)
    with pytest.raises(InputError, match=r"probability 1 for action 'reject' at the observation \{free: 0, hour: 9\}"):
        attached.check_available(np.array([1, 1]), available, {"free": np.array([3, 0]), "hour": np.array([8, 9])})
    with pytest.raises(InputError, match="where only nothing is possible"):
        attached.check_available(np.array([0]), np.array([[False, False]]), seen[:1])


@pytest.mark.parametrize(
    ("target", "remedy"),
    [
        (
            "uniform",
            r"not at s', so write the rule in a \.py file, spread = cesaro\.policies\.Finite\(\['accept', 'reject'\], .*"
            r"shape \[n, 2\], and pass file\.py:spread\.$",
        ),
        (
            "constant:reject",
            r"a function in a \.py file that chooses a possible action there, and pass file\.py:name\.$",
        ),
        ({"a": "reject", "b": "reject"}, r"is possible; set it to 0 there\.$"),
        (lambda s: np.full(len(s), "reject"), r"is possible; choose a possible one there\.$"),
        (lambda s, rng: np.full(len(s), "reject"), r"is possible; choose a possible one there\.$"),
    ],
)
def test_what_to_do_about_an_action_that_is_not_available(target: Any, remedy: str) -> None:
    attached, seen = attach(target, TEXT), np.array(["a"])
    given = attached.probabilities(seen)
    chosen = attached.sample(seen, RNG) if given is None else given
    with pytest.raises(InputError, match=remedy) as caught:
        attached.check_available(chosen, np.array([[True, False]]), seen)
    assert "\n" not in str(caught.value)


def test_no_rows() -> None:
    attached = attach("uniform", NUMBERS)
    found = attached.probabilities(np.empty(0, dtype=np.int64))
    assert found is not None
    assert found.shape == (0, 2)
    assert attached.sample(np.empty(0, dtype=np.int64), RNG).shape == (0,)
