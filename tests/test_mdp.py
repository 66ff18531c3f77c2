"""TabularMDP: what it accepts, what it refuses and how it says so, and the structure of induced chains."""

import pickle
import re
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from numpy.typing import NDArray

import cesaro as cs
from cesaro.mdp import recurrent_classes, single_class

Array = NDArray[np.float64]

P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]])
R = np.array([[0.0, 1.0], [2.0, 3.0]])
UNIFORM = np.full((2, 2), 0.5)


def refusal(build: Any, *args: Any, **kwargs: Any) -> str:
    """The message of the InputError that a call raises, checked for form: field, rule, value, no line breaks."""
    with pytest.raises(cs.InputError) as caught:
        build(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert re.fullmatch(r"\w[\w ]* must .+\. Got .+\.", message), message
    return message


def changed(array: Array, index: tuple[int, ...], value: float) -> Array:
    result = array.copy()
    result[index] = value
    return result


def sparse(array: Array) -> list[Any]:
    return [sp.csr_array(array[:, a]) for a in range(array.shape[1])]


# What is accepted.


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.longdouble])
def test_float_dtypes_are_accepted_and_stored_as_float64(dtype: Any) -> None:
    thirds = np.full((3, 2, 3), 1 / 3).astype(dtype)
    for probabilities in (thirds, [sp.csr_array(thirds[:, a]) for a in range(2)]):
        mdp = cs.TabularMDP(probabilities, np.ones((3, 2), dtype=dtype))
        stored: Any = mdp.probabilities[0] if mdp.is_sparse else mdp.probabilities
        assert stored.dtype == mdp.rewards.dtype == np.float64
        sums = (
            np.stack([np.asarray(m.sum(axis=1)) for m in mdp.probabilities], 1) if mdp.is_sparse else stored.sum(axis=2)
        )
        np.testing.assert_allclose(sums, 1, rtol=0, atol=4e-16)
        policy = mdp.check_policy(np.array([[0.1, 0.9], [0.3, 0.7], [0.6, 0.4]], dtype=np.float32))
        np.testing.assert_allclose(policy.sum(axis=1), 1, rtol=0, atol=4e-16)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64])
def test_whole_numbers_are_accepted(dtype: Any) -> None:
    swap = np.array([[[0, 1]], [[1, 0]]], dtype=dtype)
    for probabilities in (swap, [sp.csr_array(swap[:, 0])]):
        mdp = cs.TabularMDP(probabilities, np.array([[0], [1]], dtype=dtype))
        assert cs.exact.reward_rate(mdp, np.ones((2, 1), dtype=dtype)) == 0.5


@pytest.mark.parametrize(
    "kind",
    [sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array, sp.bsr_array, sp.dia_array, sp.csr_matrix],
)
def test_every_sparse_format_means_the_same(kind: Any) -> None:
    mdp = cs.TabularMDP([kind(P[:, 0]), kind(P[:, 1])], R)
    assert repr(mdp) == "TabularMDP(2 states, 2 actions, sparse)"
    assert cs.exact.reward_rate(mdp, UNIFORM) == pytest.approx(
        cs.exact.reward_rate(cs.TabularMDP(P, R), UNIFORM), rel=1e-14
    )


def test_duplicate_sparse_entries_add_up() -> None:
    halves = sp.coo_array(([0.25, 0.25, 0.5, 1.0], ([0, 0, 0, 1], [1, 1, 0, 0])), shape=(2, 2))
    stored = cs.TabularMDP([halves], np.zeros((2, 1))).probabilities[0]
    np.testing.assert_array_equal(stored.toarray(), [[0.5, 0.5], [1.0, 0.0]])


def test_nested_lists_and_negative_zero_are_accepted() -> None:
    mdp = cs.TabularMDP([[[-0.0, 1.0]], [[1, 0]]], [[3], [5]])
    assert repr(mdp) == "TabularMDP(2 states, 1 actions, dense)"
    assert cs.exact.reward_rate(mdp, [[1]] * 2) == 4.0
    two = cs.TabularMDP(P, R)
    np.testing.assert_array_equal(two.check_policy([[-0.0, 1], [1, -0.0]]), [[0, 1], [1, 0]])


def test_rounding_of_row_sums_is_forgiven_and_normalized() -> None:
    mdp = cs.TabularMDP(P * (1 + 5e-10), R)
    np.testing.assert_allclose(mdp.probabilities, P, rtol=1e-15)
    refusal(cs.TabularMDP, P * (1 + 5e-9), R)
    refusal(cs.TabularMDP, sparse(P * (1 + 5e-9)), R)
    cs.TabularMDP((P * (1 + 5e-7)).astype(np.float32), R)
    refusal(cs.TabularMDP, (P * (1 + 5e-6)).astype(np.float32), R)


# Values, not references.


def test_dense_inputs_are_copied_and_stored_read_only() -> None:
    probabilities, rewards = P.copy(), R.copy()
    mdp = cs.TabularMDP(probabilities, rewards)
    probabilities[:], rewards[:] = 0.5, 99.0
    np.testing.assert_array_equal(mdp.probabilities, P)
    np.testing.assert_array_equal(mdp.rewards, R)
    for stored in (mdp.probabilities, mdp.rewards):
        with pytest.raises(ValueError, match="read-only"):
            stored[0] = 1.0  # type: ignore[index]
    assert probabilities.flags.writeable


def test_sparse_inputs_are_copied_and_stored_read_only() -> None:
    matrices = sparse(P)
    mdp = cs.TabularMDP(matrices, R)
    for matrix in matrices:
        matrix.data[:] = 0.0
    np.testing.assert_array_equal(np.stack([m.toarray() for m in mdp.probabilities], axis=1), P)
    with pytest.raises(ValueError, match="read-only"):
        mdp.probabilities[0].data[0] = 0.5


def test_policy_sampling_and_features_are_copied_and_read_only() -> None:
    mdp = cs.TabularMDP(P, R)
    policy, sampling, features = UNIFORM.copy(), np.full((2, 2), 0.25), np.arange(8.0).reshape(2, 2, 2)
    problem = cs.LinearProblem(mdp, policy=policy, sampling=sampling, features=features)
    for given_array, stored in ((policy, problem.policy), (sampling, problem.sampling), (features, problem.features)):
        before = stored.copy()
        given_array[:] = -7.0
        np.testing.assert_array_equal(stored, before)
        with pytest.raises(ValueError, match="read-only"):
            stored[0] = 1.0


def test_exact_results_cannot_be_overwritten() -> None:
    solution = cs.exact.solve(cs.TabularMDP(P, R), UNIFORM)
    for array in (
        solution.policy,
        solution.state_distribution,
        solution.state_values,
        solution.differential_values,
        solution.stationary_distribution,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


# What is refused.


@pytest.mark.parametrize("as_given", [np.asarray, sparse], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("index", "value", "expected"),
    [
        ((1, 1, 0), 0.2, ["sum to one over next state", "state 1, action 1", "0.9"]),
        ((0, 1, 1), 0.5, ["sum to one over next state", "state 0, action 1", "1.5"]),
        ((0, 0, 0), -0.5, ["not be negative", "state 0, action 0, next state 0", "-0.5"]),
        ((1, 0, 1), np.nan, ["be finite", "state 1, action 0, next state 1", "nan"]),
        ((1, 1, 1), np.inf, ["be finite", "state 1, action 1, next state 1", "inf"]),
        ((1, 1, 1), -np.inf, ["be finite", "state 1, action 1, next state 1", "-inf"]),
    ],
)
def test_bad_probabilities_are_named(as_given: Any, index: tuple[int, ...], value: float, expected: list[str]) -> None:
    message = refusal(cs.TabularMDP, as_given(changed(P, index, value)), R)
    for part in ("probabilities must", *expected):
        assert part in message


def test_the_first_bad_row_is_named_however_large_the_process() -> None:
    big = np.full((40, 3, 40), 1 / 40)
    big[17, 2, 5] += 1e-3
    big[31, 0, 5] += 1e-3
    assert "1.001 at state 17, action 2;" in refusal(cs.TabularMDP, big, np.zeros((40, 3)))


@pytest.mark.parametrize(
    ("given_probabilities", "rewards", "expected"),
    [
        (P[0], R, ["shape [state, action, next state]", "(2, 2)"]),
        (np.moveaxis(np.full((3, 2, 3), 1 / 3), 1, 0), np.zeros((3, 2)), ["[S, A, S]", "(2, 3, 3)"]),
        (np.zeros((0, 2, 0)), np.zeros((0, 2)), ["shape", "(0, 2, 0)"]),
        (np.zeros((2, 0, 2)), np.zeros((2, 0)), ["shape", "(2, 0, 2)"]),
        ([], [], ["shape", "(0,)"]),
        (None, R, ["real array", "NoneType"]),
        ("half", R, ["real array", "str"]),
        (b"half", R, ["real array", "bytes"]),
        (["a", "b"], R, ["real array", "list"]),
        ([[[1, 0], [1]], [[0, 1], [1, 0]]], R, ["real array", "list"]),
        (P.astype(object), R, ["real array", "dtype object"]),
        (P.astype(complex), R, ["real array", "dtype complex128"]),
        (P.astype(str), R, ["real array", "dtype <U32"]),
        (P.astype("datetime64[s]"), R, ["real array", "dtype datetime64"]),
        ((sp.csr_array(P[:, a]) for a in range(2)), R, ["real array", "generator"]),
    ],
)
def test_wrong_shapes_and_types_of_probabilities(given_probabilities: Any, rewards: Any, expected: list[str]) -> None:
    message = refusal(cs.TabularMDP, given_probabilities, rewards)
    for part in ("probabilities must", *expected):
        assert part in message


@pytest.mark.parametrize(
    ("matrices", "expected"),
    [
        (sp.csr_array(P[:, 0]), ["single sparse matrix", "wrap it in a list"]),
        ([sp.csr_array(P[:, 0]), P[:, 1]], ["sparse for every action", "ndarray for action 1"]),
        ([P[:, 0].tolist(), sp.csr_array(P[:, 1])], ["sparse for every action", "list for action 0"]),
        ([sp.csr_array(np.eye(2)), sp.csr_array(np.eye(3))], ["one shape", "(3, 3) for action 1"]),
        ([sp.csr_array(np.full((2, 3), 1 / 3))], ["[S, S]", "(2, 3) for action 0"]),
        ([sp.csr_array((0, 0))], ["[S, S]", "(0, 0) for action 0"]),
        ([sp.coo_array(np.ones(2))], ["[S, S]", "(2,) for action 0"]),
        ([sp.csr_array(np.eye(2) * 1j)], ["real", "complex128 for action 0"]),
        ([sp.csr_array(np.array([[0.0, 0.0], [0.0, 1.0]]))] * 2, ["sum to one", "Got 0 at state 0, action 0"]),
    ],
)
def test_wrong_sparse_probabilities(matrices: Any, expected: list[str]) -> None:
    message = refusal(cs.TabularMDP, matrices, R)
    for part in ("probabilities must", *expected):
        assert part in message


@pytest.mark.parametrize("as_given", [np.asarray, sparse], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        (R[:, :1], ["[state=2, action=2]", "(2, 1)"]),
        (R.T[:, :, None], ["[state=2, action=2]", "(2, 2, 1)"]),
        (changed(R, (1, 0), np.nan), ["finite", "nan at state 1, action 0"]),
        (changed(R, (0, 1), np.inf), ["finite", "inf at state 0, action 1"]),
        (R.astype(object), ["real array", "dtype object"]),
        (R.astype(str), ["real array", "dtype <U32"]),
        ([[0, 1], [2]], ["real array", "list"]),
        (sp.csr_array(R), ["real array"]),
    ],
)
def test_wrong_rewards(as_given: Any, rewards: Any, expected: list[str]) -> None:
    message = refusal(cs.TabularMDP, as_given(P), rewards)
    for part in ("rewards must", *expected):
        assert part in message


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ([[0.5, 0.6], [1, 0]], ["sum to one over action", "1.1 at state 0"]),
        ([[1, 0], [0.25, 0.25]], ["sum to one over action", "0.5 at state 1"]),
        ([[1, 0], [-0.5, 1.5]], ["not be negative", "-0.5 at state 1, action 0"]),
        ([[np.nan, 1], [1, 0]], ["finite", "nan at state 0, action 0"]),
        ([[1, 0]], ["[state=2, action=2]", "(1, 2)"]),
        ([1, 0], ["[state=2, action=2]", "(2,)"]),
        (None, ["real array", "NoneType"]),
        (np.eye(2).astype(object), ["real array", "dtype object"]),
        ([["a", "b"], ["c", "d"]], ["real array", "list"]),
    ],
)
def test_wrong_policies_are_refused_everywhere(policy: Any, expected: list[str]) -> None:
    mdp = cs.TabularMDP(P, R)
    problem = cs.LinearProblem(mdp, policy=UNIFORM, sampling=UNIFORM / 2, features=np.ones((2, 2, 1)))
    for call in (
        mdp.check_policy,
        lambda p: cs.exact.reward_rate(mdp, p),
        lambda p: cs.exact.differential_values(mdp, p),
        lambda p: cs.exact.stationary_distribution(mdp, p),
        lambda p: cs.exact.density_ratio(mdp, p, UNIFORM / 2),
        lambda p: problem.replace(policy=p),
    ):
        message = refusal(call, policy)
        for part in ("policy must", *expected):
            assert part in message


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (UNIFORM, ["sum to one over state and action", "Got 2"]),
        ([[0.5, 0.6], [-0.1, 0]], ["not be negative", "-0.1 at state 1, action 0"]),
        ([[0.5, np.nan], [0.5, 0]], ["finite", "nan at state 0, action 1"]),
        (np.full(4, 0.25), ["[state=2, action=2]", "(4,)"]),
        (None, ["real array", "NoneType"]),
    ],
)
def test_wrong_sampling_is_refused_everywhere(sampling: Any, expected: list[str]) -> None:
    mdp = cs.TabularMDP(P, R)
    problem = cs.LinearProblem(mdp, policy=UNIFORM, sampling=UNIFORM / 2, features=np.ones((2, 2, 1)))
    for call in (
        mdp.check_sampling,
        lambda d: cs.exact.density_ratio(mdp, UNIFORM, d),
        lambda d: problem.replace(sampling=d),
    ):
        message = refusal(call, sampling)
        for part in ("sampling must", *expected):
            assert part in message


def test_sums_beyond_the_range_of_a_float_are_refused_too() -> None:
    assert "sum to one" in refusal(cs.TabularMDP, np.full((2, 1, 2), 1e308), np.zeros((2, 1)))
    assert "sum to one" in refusal(cs.TabularMDP, [sp.csr_array(np.full((2, 2), 1e308))], np.zeros((2, 1)))
    assert "sum to one" in refusal(cs.TabularMDP(P, R).check_policy, np.full((2, 2), 1e308))


def test_masked_entries_are_not_used_as_if_they_were_data() -> None:
    masked = np.ma.masked_array(R, mask=[[False, True], [False, False]])
    assert "rewards must" in refusal(cs.TabularMDP, P, masked)


def test_something_that_is_no_mdp_is_refused() -> None:
    for call in (cs.exact.reward_rate, cs.exact.differential_values, cs.exact.stationary_distribution):
        assert "mdp must be a TabularMDP" in refusal(call, P, UNIFORM)


# The chain of a policy.


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4))
def test_chain_and_expectations_match_their_sums(seed: int, states: int, actions: int) -> None:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(states, 0.3), size=(states, actions))
    policy = rng.dirichlet(np.full(actions, 0.3), size=states)
    values, weights = rng.normal(size=(states, 2)), rng.normal(size=(states, actions))
    dense = cs.TabularMDP(probabilities, rng.normal(size=(states, actions)))
    also_sparse = cs.TabularMDP([sp.csr_array(probabilities[:, a]) for a in range(actions)], dense.rewards)
    for mdp in (dense, also_sparse):
        chain: Any = mdp.state_chain(mdp.check_policy(policy))
        chain = chain.toarray() if mdp.is_sparse else chain
        np.testing.assert_allclose(chain, np.einsum("sa,sat->st", policy, probabilities), atol=1e-15)
        np.testing.assert_allclose(mdp.expect_next(values), np.einsum("sat,tk->sak", probabilities, values), atol=1e-14)
        np.testing.assert_allclose(
            mdp.push_forward(weights), np.einsum("sa,sat->t", weights, probabilities), atol=1e-14
        )


def closed_classes(chain: Array) -> list[tuple[int, ...]]:
    """By definition: reachability by matrix powers, then communicating sets that nothing leaves."""
    size = len(chain)
    reach = (np.eye(size) + (chain > 0)) > 0
    for _ in range(size):
        reach = (reach.astype(int) @ reach.astype(int)) > 0
    classes = {tuple(np.flatnonzero(reach[s] & reach[:, s]).tolist()) for s in range(size)}
    return sorted(c for c in classes if not reach[c[0]][[t for t in range(size) if t not in c]].any())


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_recurrent_classes_match_reachability(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    links = rng.random((size, size)) < 1.2 / size
    links[np.arange(size), rng.integers(size, size=size)] = True
    chain = links / links.sum(axis=1, keepdims=True)
    expected = closed_classes(chain)
    for form in (chain, sp.csr_array(chain)):
        assert sorted(tuple(c.tolist()) for c in recurrent_classes(form)) == expected
        if len(expected) == 1:
            assert tuple(single_class(form).tolist()) == expected[0]
        else:
            with pytest.raises(cs.MultichainError) as caught:
                single_class(form)
            assert sorted(caught.value.classes) == expected


def test_stored_zeros_of_a_sparse_chain_are_no_links() -> None:
    with_zero = sp.csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    mdp = cs.TabularMDP([with_zero], np.zeros((2, 1)))
    with pytest.raises(cs.MultichainError):
        cs.exact.reward_rate(mdp, np.ones((2, 1)))


@pytest.mark.parametrize("as_given", [np.asarray, sparse], ids=["dense", "sparse"])
def test_multichain_error_lists_the_classes(as_given: Any) -> None:
    links = np.zeros((6, 1, 6))
    for s, t in ((0, 0), (1, 2), (2, 1), (3, 0), (4, 3), (5, 4)):
        links[s, 0, t] = 1.0
    links[4, 0, [1, 3]] = 0.5
    mdp = cs.TabularMDP(as_given(links), np.zeros((6, 1)))
    for call in (cs.exact.reward_rate, cs.exact.differential_values, cs.exact.stationary_distribution):
        with pytest.raises(cs.MultichainError) as caught:
            call(mdp, np.ones((6, 1)))
        assert sorted(caught.value.classes) == [(0,), (1, 2)]
        assert "{0}" in str(caught.value)
        assert "{1, 2}" in str(caught.value)
        assert isinstance(caught.value, cs.InputError)


def test_multichain_message_stays_short_while_classes_are_complete() -> None:
    identity = sp.eye_array(5_000, format="csr")
    with pytest.raises(cs.MultichainError, match="5000 recurrent classes") as caught:
        cs.exact.reward_rate(cs.TabularMDP([identity], np.zeros((5_000, 1))), np.ones((5_000, 1)))
    assert len(caught.value.classes) == 5_000
    assert len(str(caught.value)) < 400
    halves = np.kron(np.eye(2), np.full((30, 30), 1 / 30))[:, None]
    with pytest.raises(cs.MultichainError, match="29: 30 states") as caught:
        cs.exact.reward_rate(cs.TabularMDP(halves, np.zeros((60, 1))), np.ones((60, 1)))
    assert caught.value.classes == (tuple(range(30)), tuple(range(30, 60)))


def test_an_error_survives_the_way_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(cs.MultichainError("two classes", ((0,), (1, 2)))))
    assert (str(error), error.classes) == ("two classes", ((0,), (1, 2)))
