"""Which solver is chosen, that all agree with dense state reduction, and that none is ever quietly wrong."""

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import cesaro as cs
from cesaro import solvers
from cesaro.solvers import Krylov, PinnedLU, StateReduction, choose
from cesaro.solvers.pinned_lu import has_low_fill, laplacian

Array = NDArray[np.float64]


# Graphs.


def normalized(matrix: Any) -> Any:
    matrix = sp.csr_array(matrix)
    return sp.csr_array(sp.diags_array(1 / np.asarray(matrix.sum(axis=1)).ravel()) @ matrix)


def random_graph(rng: np.random.Generator, size: int, branching: int = 5) -> Any:
    """Random successors, and a cycle through all states so that it is irreducible."""
    rows = np.repeat(np.arange(size), branching)
    columns = rng.integers(size, size=size * branching)
    columns[::branching] = (np.arange(size) + 1) % size
    weights = rng.dirichlet(np.ones(branching), size=size).ravel()
    return normalized(sp.csr_array((weights, (rows, columns)), shape=(size, size)))


def bipartite_graph(rng: np.random.Generator, size: int, branching: int = 5) -> Any:
    """The same with period 2: even states lead to odd ones and back."""
    graph = random_graph(rng, size, branching).tocoo()
    columns = np.where((graph.row + graph.col) % 2 == 1, graph.col, (graph.col + 1) % size)
    return normalized(sp.csr_array((graph.data, (graph.row, columns)), shape=(size, size)))


def star(rng: np.random.Generator, size: int, *, lazy: bool = True) -> Any:
    """A hub (state 0) that leads to every leaf; leaves return, at once (period 2) or after a while."""
    leaves = np.arange(1, size)
    back = rng.uniform(0.05, 0.95, size - 1) if lazy else np.ones(size - 1)
    rows = np.concatenate([np.zeros(size - 1, dtype=int), leaves, leaves])
    columns = np.concatenate([leaves, np.zeros(size - 1, dtype=int), leaves])
    weights = np.concatenate([rng.dirichlet(np.ones(size - 1)), back, 1 - back])
    matrix = sp.csr_array((weights, (rows, columns)), shape=(size, size))
    matrix.eliminate_zeros()
    return normalized(matrix)


def hub_and_tree(rng: np.random.Generator, size: int) -> Any:
    """A random tree walked up and down, whose root leads to every state."""
    parent = np.array([0, *(int(rng.integers(max(1, s // 2))) for s in range(1, size))])
    states = np.arange(1, size)
    rows = np.concatenate([states, parent[1:], np.zeros(size - 1, dtype=int)])
    columns = np.concatenate([parent[1:], states, states])
    return normalized(sp.csr_array((rng.uniform(0.1, 1, 3 * (size - 1)), (rows, columns)), shape=(size, size)))


def with_transient(rng: np.random.Generator, chain: Any, extra: int) -> Any:
    """`extra` states in front that are left for good, linked among themselves."""
    size = chain.shape[0] + extra
    among = sp.random_array((extra, extra), density=3 / extra, rng=rng)
    into = sp.csr_array((np.ones(extra), (np.arange(extra), rng.integers(chain.shape[0], size=extra))))
    into.resize((extra, chain.shape[0]))
    result = normalized(sp.block_array([[among, into], [None, chain]]))
    assert result.shape == (size, size)
    return result


def coupled(first: Any, second: Any, there: float, back: float, ends: tuple[int, int, int, int]) -> Any:
    """Two chains linked by one edge each way: `ends` are leave first, enter second, leave second, enter first."""
    n = first.shape[0]
    blocks = sp.csr_array(sp.block_diag([first, second]))
    links = sp.csr_array(([there, back], ([ends[0], n + ends[2]], [n + ends[1], ends[3]])), shape=blocks.shape)
    return sp.csr_array(sp.diags_array(1 - np.asarray(links.sum(axis=1)).ravel()) @ blocks + links)


def shuffled(rng: np.random.Generator, chain: Any) -> Any:
    order = rng.permutation(chain.shape[0])
    return sp.csr_array(chain[order][:, order])


def solve(chain: Any, rewards: Array) -> Any:
    stored = [chain] if sp.issparse(chain) else chain[:, None]
    return cs.exact.solve(cs.TabularMDP(stored, rewards[:, None]), np.ones((len(rewards), 1)))


# The choice.


def test_dense_chains_use_state_reduction() -> None:
    assert isinstance(choose(np.full((3, 3), 1 / 3), 0), StateReduction)


def test_a_long_band_is_solved_by_banded_state_reduction() -> None:
    """30,000 states in random order: only the banded form fits in memory, and the law is a product."""
    rng = np.random.default_rng(0)
    size = 30_000
    up, down = rng.uniform(0.2, 0.4, size - 1), rng.uniform(0.2, 0.4, size - 1)
    cut = rng.integers(size - 1, size=10)
    up[cut] *= 1e-12
    down[cut] *= 1e-12
    chain = sp.diags_array([down, np.zeros(size), up], offsets=[-1, 0, 1]).tolil()
    chain.setdiag(1 - np.asarray(chain.sum(axis=1)).ravel())
    order = rng.permutation(size)
    solver = choose(sp.csr_array(sp.csr_array(chain)[order][:, order]), 7)
    assert isinstance(solver, StateReduction)
    logs = np.concatenate([[0.0], np.cumsum(np.log(up) - np.log(down))])
    expected = np.exp(logs - logs.max())
    expected = (expected / expected.sum())[order]
    law = solver.stationary()
    visible = expected > 1e-250
    assert visible.sum() > 1_000
    np.testing.assert_allclose(law[visible], expected[visible], rtol=1e-9)


def band(width: int, periodic: bool) -> tuple[Any, Array]:
    """A random walk in a random environment, whose steps are of at most `width`, and rewards. Walks of single steps take ages."""
    rng = np.random.default_rng(width)
    size = 400
    offsets = [k for k in range(-width, width + 1) if k % 2 == 1] if periodic else list(range(-width, width + 1))
    chain = normalized(
        sp.diags_array([rng.uniform(0.1, 1, size - abs(k)) for k in offsets], offsets=offsets, shape=(size, size))
    )
    return chain, rng.normal(size=size)


@pytest.mark.parametrize("width", [1, 3, 17, 70])
@pytest.mark.parametrize("periodic", [False, True])
def test_banded_equals_dense_for_every_bandwidth(width: int, periodic: bool) -> None:
    """Where no signs cancel, all digits agree. Where they do, values are known up to what an ulp of every state's excess does to
    them, `ε · values(|excess|)`: with single steps, which take up to 1e20 steps to the reference, that is visible.
    """
    chain, rewards = band(width, periodic)
    order, ulp = np.arange(len(rewards)), np.finfo(np.float64).eps
    banded, dense = StateReduction(chain, order, width), StateReduction(chain.toarray(), order)
    np.testing.assert_allclose(banded.stationary(), dense.stationary(), rtol=1e-12)
    excess = rewards - dense.stationary() @ rewards
    for positive in (np.ones_like(excess), np.maximum(excess, 0), np.maximum(-excess, 0)):
        np.testing.assert_allclose(banded.values(positive), dense.values(positive), rtol=1e-13)
    found, expected = banded.values(excess), dense.values(excess)
    assert (np.abs(found - expected) <= 4 * ulp * dense.values(np.abs(excess))).all()
    for values in (
        found,
        expected,
    ):  # and the equations hold to rounding, but for the reference's own, which is not solved
        residual, size = values - chain @ values - excess, np.abs(values) + chain @ np.abs(values)
        assert (np.abs(residual) <= 10 * ulp * size)[1:].all()


@pytest.mark.parametrize("periodic", [False, True])
def test_values_are_as_exact_as_the_excess_determines_them(periodic: bool) -> None:
    """Single steps in exact arithmetic: with `p` up, `q` down and `D_i = v_i − v_{i−1}`, `q_i D_i = excess_i + p_i D_{i+1}`."""
    chain, rewards = band(1, periodic)
    up, down = chain.diagonal(1).tolist(), chain.diagonal(-1).tolist()
    dense = StateReduction(chain.toarray(), np.arange(len(rewards)))
    excess = rewards - dense.stationary() @ rewards
    differences = [Fraction(0)]
    for p, q, own in zip([*up[1:], 0.0][::-1], down[::-1], excess[:0:-1].tolist()):
        differences.append((Fraction(own) + Fraction(p) * differences[-1]) / Fraction(q))
    exact = list(accumulate(differences[:0:-1], initial=Fraction(0)))
    bound = 4 * np.finfo(np.float64).eps * dense.values(np.abs(excess))
    for solver in (dense, StateReduction(chain, np.arange(len(rewards)), 1)):
        errors = [abs(float(Fraction(v) - e)) for v, e in zip(solver.values(excess).tolist(), exact)]
        assert (np.array(errors) <= bound).all()


@pytest.mark.parametrize("build", [star, hub_and_tree])
def test_hubs_and_trees_use_sparse_lu(build: Any) -> None:
    rng = np.random.default_rng(1)
    assert isinstance(choose(shuffled(rng, build(rng, 2_100)), 3), PinnedLU)


def test_large_random_graphs_use_iteration() -> None:
    assert isinstance(choose(random_graph(np.random.default_rng(2), 9_000), 0), Krylov)


def test_fill_estimate_tells_trees_from_random_graphs() -> None:
    rng = np.random.default_rng(3)
    assert has_low_fill(hub_and_tree(rng, 3_000))
    assert has_low_fill(star(rng, 3_000))
    assert not has_low_fill(random_graph(rng, 3_000))


def test_laplacian_rows_sum_to_zero_and_keep_small_links() -> None:
    chain = coupled(
        random_graph(np.random.default_rng(4), 20), star(np.random.default_rng(5), 9), 1e-15, 1e-14, (0, 1, 2, 3)
    )
    result = laplacian(chain).toarray()
    off = chain.toarray()
    np.fill_diagonal(off, 0.0)
    np.testing.assert_array_equal(result - np.diag(np.diag(result)), -off)
    np.testing.assert_allclose(np.diag(result), off.sum(axis=1), rtol=1e-15)


# Agreement with dense state reduction, sizes at which every solver is the natural one or is forced.

CASES: dict[str, tuple[type, Callable[[np.random.Generator], Any]]] = {
    "star": (PinnedLU, lambda rng: star(rng, 2_100)),
    "star of period 2": (PinnedLU, lambda rng: star(rng, 2_100, lazy=False)),
    "hub and tree": (PinnedLU, lambda rng: hub_and_tree(rng, 2_200)),
    "star with transient states": (PinnedLU, lambda rng: with_transient(rng, star(rng, 2_050), 60)),
    "random graph": (Krylov, lambda rng: random_graph(rng, 2_200)),
    "random graph of period 2": (Krylov, lambda rng: bipartite_graph(rng, 2_200)),
    "random graph with transient states": (Krylov, lambda rng: with_transient(rng, random_graph(rng, 2_100), 200)),
    "periodic graph with transient states": (Krylov, lambda rng: with_transient(rng, bipartite_graph(rng, 2_100), 100)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_solver_agrees_with_dense_state_reduction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "BAND_FLOPS", 0.0)  # the band would take most of these; it is tested above
    expected_solver, build = CASES[name]
    rng = np.random.default_rng(len(name))
    chain = shuffled(rng, build(rng))
    size = chain.shape[0]
    rewards = rng.normal(size=size)
    solution, dense = solve(chain, rewards), solve(chain.toarray(), rewards)
    assert isinstance(solution._first_solver, expected_solver)
    assert isinstance(dense._first_solver, StateReduction)
    law, expected = solution.state_distribution, dense.state_distribution
    assert np.abs(law - expected).sum() <= 1e-9
    assert ((law == 0) == (expected == 0)).all()
    np.testing.assert_allclose(law, expected, rtol=1e-6)
    assert solution.reward_rate == pytest.approx(dense.reward_rate, abs=1e-9)
    values = dense.state_values
    np.testing.assert_allclose(solution.state_values, values, rtol=0, atol=1e-8 * np.abs(values).max())


@pytest.mark.slow
def test_large_random_graph_needs_no_dense_matrix() -> None:
    """The public way at 20,000 states: stationarity and the Bellman equation, checked with the chain alone."""
    rng = np.random.default_rng(6)
    chain = with_transient(rng, random_graph(rng, 20_000), 50)
    rewards = rng.normal(size=chain.shape[0])
    solution = solve(chain, rewards)
    assert isinstance(solution._first_solver, Krylov)
    law, values = solution.state_distribution, solution.state_values
    assert (law[:50] == 0).all()
    assert np.abs(chain.T @ law - law).sum() <= 1e-10
    assert solution.reward_rate == pytest.approx(law @ rewards, abs=1e-9)
    residual = rewards - solution.reward_rate + chain @ values - values
    assert np.abs(residual).max() <= 1e-10 * (1 + np.abs(values).max())
    assert abs(law @ values) <= 1e-9 * (1 + np.abs(values).max())


# Never a quiet wrong number.

QUANTITIES = ("reward_rate", "state_distribution", "state_values")


def answers(solution: Any) -> dict[str, Any]:
    """Those quantities that can be computed; what ends in ToleranceError is left out."""
    result = {}
    for name in QUANTITIES:
        try:
            result[name] = getattr(solution, name)
        except cs.ToleranceError:
            continue
    return result


def right_or_refused(chain: Any, rewards: Array, truth: Any) -> None:
    for name, value in answers(solve(chain, rewards)).items():
        expected = getattr(truth, name)
        assert np.abs(value - expected).max() <= 1e-6 * np.abs(expected).max(), name


@pytest.mark.parametrize("coupling", [1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-13, 1e-15])
def test_sparse_lu_on_nearly_separate_hubs_is_right_or_refuses(
    coupling: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stars, each hub leading to 1,100 leaves; one rarely leads to the other. (Larger ones need no forcing.)"""
    monkeypatch.setattr(solvers, "BAND_FLOPS", 0.0)
    rng = np.random.default_rng(7)
    half = 1_100
    chain = sp.csr_array(sp.block_diag([star(rng, half), star(rng, half)])).tolil()
    chain[0, half:] = coupling * rng.dirichlet(np.ones(half))
    chain[half + 3, 0] = 0.3 * coupling
    chain = shuffled(rng, normalized(chain))
    rewards = rng.normal(size=2 * half)
    truth = solve(chain.toarray(), rewards)
    assert isinstance(solve(chain, rewards)._first_solver, PinnedLU)
    right_or_refused(chain, rewards, truth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "back"),
    [(1e-2, 1e-2), (1e-5, 3e-5), (1e-9, 1e-9), (1e-13, 1e-11), (1e-3, 1e-13)],
)
def test_iteration_on_nearly_separate_graphs_is_right_or_refuses(
    there: float, back: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solvers, "BAND_FLOPS", 0.0)
    monkeypatch.setattr(solvers, "DENSE_STATES", 500)
    rng = np.random.default_rng(8)
    chain = coupled(random_graph(rng, 400), random_graph(rng, 300), there, back, (17, 5, 44, 170))
    rewards = rng.normal(size=700)
    rewards[:400] += 1.0
    truth = solve(chain.toarray(), rewards)
    assert isinstance(solve(chain, rewards)._first_solver, Krylov)
    right_or_refused(chain, rewards, truth)


@pytest.mark.slow
@pytest.mark.parametrize(("there", "back"), [(1e-10, 3e-10), (1e-12, 3e-12)])
def test_iteration_on_large_nearly_separate_graphs_is_right_or_refuses(there: float, back: float) -> None:
    """Two random graphs of 5,000 states. The larger they are, the less a residual says about their balance:
    `‖residual‖` of a wrong balance falls with the square root of the size, the error does not.

    For small links the truth is known: each graph has its own law, and the flow between them balances.
    """
    rng = np.random.default_rng(9)
    half = 5_000
    first, second = random_graph(rng, half), random_graph(rng, half)
    laws = [solve(g, np.zeros(half)).state_distribution for g in (first, second)]
    leave, leave_back = 1_717, 3_434
    chain = coupled(first, second, there, back, (leave, 5, leave_back, 170))
    weights = np.array([laws[1][leave_back] * back, laws[0][leave] * there])
    weights /= weights.sum()
    rewards = np.repeat([1.0, 0.0], half)
    solution = solve(chain, rewards)
    assert isinstance(solution._first_solver, Krylov)
    found = answers(solution)
    slack = 1e-5 + 100 * max(there, back)
    if "reward_rate" in found:
        assert found["reward_rate"] == pytest.approx(weights[0], abs=slack)
    if "state_distribution" in found:
        assert found["state_distribution"][:half].sum() == pytest.approx(weights[0], abs=slack)
    if (
        "state_values" in found
    ):  # from the second to the first: mean time between crossings times the difference in rates
        gap = found["state_values"][:half].mean() - found["state_values"][half:].mean()
        assert gap == pytest.approx(1 / (laws[0][leave] * there + laws[1][leave_back] * back), rel=1e-2)


def test_many_weakly_linked_groups_are_right_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve random graphs in a ring, every link of another size."""
    monkeypatch.setattr(solvers, "BAND_FLOPS", 0.0)
    monkeypatch.setattr(solvers, "DENSE_STATES", 500)
    rng = np.random.default_rng(10)
    groups, width = 12, 60
    chain = sp.csr_array(sp.block_diag([random_graph(rng, width) for _ in range(groups)])).tolil()
    for g in range(groups):
        for step in (1, -1):
            chain[g * width + int(rng.integers(width)), ((g + step) % groups) * width] = 10.0 ** -rng.uniform(1, 9)
    chain = normalized(chain)
    rewards = rng.normal(size=groups * width)
    truth = solve(chain.toarray(), rewards)
    right_or_refused(chain, rewards, truth)


def test_a_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "BAND_FLOPS", 0.0)
    monkeypatch.setattr(solvers, "DENSE_STATES", 500)
    rng = np.random.default_rng(11)
    chain = coupled(random_graph(rng, 400), random_graph(rng, 300), 1e-12, 1e-12, (1, 2, 3, 4))
    with pytest.raises(cs.ToleranceError) as caught:
        _ = solve(chain, rng.normal(size=700)).state_distribution
    message = str(caught.value)
    assert "tolerance" in message
    assert "dense" in message
    assert "\n" not in message
