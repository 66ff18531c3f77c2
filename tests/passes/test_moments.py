"""The accumulator against plain sums, and the order of merging."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from cesaro.features.maps import ActionPairs, BasePairs
from cesaro.passes.moments import Moments, MomentsPass
from cesaro.passes.prepare import EncodedRows, FeatureRows


def some_rows(rng: np.random.Generator, n: int, *, dual: bool, weighted: bool, dtype: str) -> FeatureRows:
    x, x_next = (rng.normal(size=(n, 5)).astype(dtype) for _ in range(2))
    v = rng.normal(size=(n, 7)).astype(dtype) if dual else x
    return FeatureRows(x, rng.normal(size=n), x_next, v, rng.uniform(size=n) if weighted else None)


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_moments_are_the_plain_means(dual: bool, weighted: bool, dtype: str) -> None:
    rows = some_rows(np.random.default_rng(0), 3000, dual=dual, weighted=weighted, dtype=dtype)
    moments = Moments()
    for part in (slice(0, 1000), slice(1000, 3000)):
        x = rows.x[part]
        own = None if rows.weights is None else rows.weights[part]
        moments.add(FeatureRows(x, rows.rewards[part], rows.x_next[part], rows.v[part] if dual else x, own))
    weights = np.ones(3000) if rows.weights is None else rows.weights
    one = np.ones((3000, 1))
    v = np.concatenate([one, rows.v], axis=1).astype(float)
    z = np.concatenate([-one, rows.x_next.astype(float) - rows.x.astype(float)], axis=1)
    total, tolerance = weights.sum(), 1e-13 if dtype == "float64" else 2e-6
    np.testing.assert_allclose(moments.A, (weights[:, None] * v).T @ z / total, atol=tolerance)
    np.testing.assert_allclose(moments.C, (weights[:, None] * v).T @ v / total, atol=tolerance)
    np.testing.assert_allclose(moments.b, (weights * rows.rewards) @ v / total, atol=tolerance)
    np.testing.assert_allclose(moments.mean("xx"), weights @ rows.x.astype(float) ** 2 / total, atol=tolerance)
    assert moments.rows == 3000
    assert moments.weight == pytest.approx(total, rel=1e-14)
    assert moments.same is not dual


class Inputs:
    """A base whose features are its inputs."""

    size, description = 3, "inputs"

    def __call__(self, inputs: Any) -> Any:
        return np.ascontiguousarray(inputs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_moments_by_action_are_those_of_all_features(weighted: bool, dtype: str) -> None:
    """Of five actions, one of which never occurs and one once; the same features, so that nothing but sums rounds otherwise."""
    rng, n = np.random.default_rng(2), 2000
    states, after = (BasePairs(Inputs(), rng.normal(size=(3, n)).astype(dtype)) for _ in range(2))
    codes, chances = rng.choice(np.array([0, 2, 4]), n), rng.dirichlet(np.ones(5), n)
    codes[700] = 1
    x, x_next = ActionPairs(states, 5, codes, None), ActionPairs(after, 5, None, chances)
    weights, rewards = rng.uniform(size=n) if weighted else None, rng.normal(size=n)
    found = MomentsPass().of_piece(None, EncodedRows(x, rewards, x_next, None, weights, 64), 0)  # type: ignore[arg-type]
    dense, every = Moments(), x.features(slice(0, n))
    dense.add(FeatureRows(every, rewards, x_next.features(slice(0, n)), every, weights))
    for name in ("R", "v", "z", "vz", "vv", "vR", "xx"):
        np.testing.assert_allclose(found.mean(name), dense.mean(name), atol=1e-13)
    assert found.weight == pytest.approx(dense.weight, rel=1e-14)
    assert (found.rows, found.same, found.precision) == (dense.rows, dense.same, dense.precision)


@pytest.mark.parametrize("size", [5, 700])
def test_merging_block_by_block_gives_the_same_bits(size: int) -> None:
    """However blocks were spread over workers: each is summed alone and merged in order."""
    rng = np.random.default_rng(1)
    blocks = []
    for n in (5000, 1, 3777):
        x = rng.normal(size=(n, size)).astype(np.float32)
        blocks.append(FeatureRows(x, rng.normal(size=n), rng.normal(size=(n, size)).astype(np.float32), x))
    together = Moments()
    merged = Moments()
    for block in blocks:
        together.add(block)
        alone = Moments()
        alone.add(block)
        merged.merge(alone)
    for name in ("w", "R", "v", "z", "vz", "vv", "vR", "xx"):
        np.testing.assert_array_equal(
            together.mean(name) if name != "w" else together.weight, merged.mean(name) if name != "w" else merged.weight
        )


def test_sparse_moments_are_the_dense_ones() -> None:
    rng = np.random.default_rng(2)
    codes, after = rng.integers(6, size=(2, 500))
    x, x_next = np.eye(6)[codes], 0.5 * np.eye(6)[after] + 0.5 * np.eye(6)[(after + 1) % 6]
    rewards, weights = rng.normal(size=500), rng.uniform(size=500)
    dense, sparse = Moments(), Moments()
    dense.add(FeatureRows(x, rewards, x_next, x, weights))
    xs = sp.csr_array(x)
    sparse.add(FeatureRows(xs, rewards, sp.csr_array(x_next), xs, weights))
    for name in ("v", "z", "vR", "xx"):
        np.testing.assert_allclose(sparse.mean(name), dense.mean(name), atol=1e-15)
    for name in ("vz", "vv"):
        np.testing.assert_allclose(sparse.mean(name).toarray(), dense.mean(name), atol=1e-15)
