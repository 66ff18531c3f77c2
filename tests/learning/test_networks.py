"""Networks as approximators: the same objectives, linear updates where the network is linear."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.algorithms import REGISTRY, Batch, Objective
from cesaro.approximators import APPROXIMATORS, MLP, Network
from cesaro.errors import InputError
from cesaro.learning.source import draw, source

pytestmark = pytest.mark.slow  # each compiles networks of its own

METHODS = tuple(REGISTRY)
LINEAR_NETWORK = MLP(widths=(), head_scale=0.0)
PROBLEM = cs.problems.random_problem(5, 4, 2, 3)


# Diff-GQ3 and Diff-GQ4 have the functions of Diff-GQ1 without the dual's constant.
@pytest.mark.parametrize("method", ["diff-sgq", "diff-gq1", "diff-gq2", "gradient-dice"])
def test_a_linear_network_gives_the_linear_updates(method: str) -> None:
    """q without bias, τ of Diff-GQ1 with: the network of no hidden layers is the linear method, step by step."""
    rates, batch_size = [], 4
    for approximator in ("linear", LINEAR_NETWORK):
        result = cs.sweep(
            method,
            PROBLEM,
            settings=cs.grid(step_size=[0.02, 0.1], ridge=[0.0, 0.3]),
            seeds=3,
            budget=160 * batch_size,
            record_every=8 * batch_size,
            window=8 * batch_size,
            batch_size=batch_size,
            approximator=approximator,
            record=("weights",),
            dtype="float64",
            quiet=True,
        )
        rates.append((result.reward_rate, result.records["weights"]))
    for linear, network in zip(*rates):
        np.testing.assert_allclose(network, linear, rtol=1e-9, atol=1e-12)
    assert np.ptp(rates[0][0]) > 0.01


def test_a_network_starts_as_the_paper_says() -> None:
    function = MLP(widths=(16, 8), head_scale=1e-3)(5, bias=False)
    network: Network = jax.jit(function.init)(jax.random.key(3))
    first, second, last = network.layers
    np.testing.assert_allclose(first.weight.T @ first.weight, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(second.weight @ second.weight.T, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(jnp.linalg.norm(last.weight), 1e-3, rtol=1e-4)
    assert not any(np.any(layer.bias) for layer in network.layers)
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    hidden = np.maximum(x @ first.weight.T, 0)
    hidden = np.maximum(hidden @ second.weight.T, 0)
    np.testing.assert_allclose(network.hidden(jnp.asarray(x)), hidden, atol=1e-5)
    np.testing.assert_allclose(function.apply(network, jnp.asarray(x)), (hidden @ last.weight.T)[:, 0], atol=1e-7)


def test_two_functions_of_one_run_start_differently() -> None:
    primal, dual = jax.jit(REGISTRY["diff-gq1"](MLP((8,)), 4).init)(jax.random.key(0))
    assert not np.allclose(primal["values"].layers[0].weight, dual.layers[0].weight)


def test_finite_actions_give_the_exact_expectation() -> None:
    """A mixture of actions has the mean of their values, though the network is not linear in the state."""
    function = MLP(widths=(8,), head_scale=1.0, actions=3)(5, bias=False)
    network = jax.jit(function.init)(jax.random.key(1))
    states = np.random.default_rng(1).normal(size=(6, 2)).astype(np.float32)
    chances = np.random.default_rng(2).dirichlet(np.ones(3), size=6).astype(np.float32)
    each = np.stack(
        [
            function.apply(network, jnp.concatenate([states, np.tile(np.eye(3, dtype=np.float32)[a], (6, 1))], 1))
            for a in range(3)
        ],
        axis=1,
    )
    mixed = function.apply(network, jnp.concatenate([states, chances], axis=1))
    np.testing.assert_allclose(mixed, (each * chances).sum(axis=1), rtol=1e-5)
    assert np.ptp(each, axis=1).min() > 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": 64}, "widths must be a sequence"),
        ({"widths": (64, 0)}, "widths must be an integer ≥ 1"),
        ({"activation": "relu6"}, "activation must be one of relu"),
        ({"initializer": "zeros"}, "initializer must be one of orthogonal"),
        ({"head_scale": -1.0}, "head_scale must be a number ≥ 0"),
        ({"actions": -1}, "actions must be an integer ≥ 0"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MLP(**changes)


def test_actions_need_other_inputs() -> None:
    with pytest.raises(InputError, match="needs inputs beside them"):
        MLP(actions=3)(3, bias=False)


def _content() -> Objective:
    """Writes the rows of both minibatches into its parameters: at step size 1 each update adds what it saw."""
    size = 4

    def lagrangian(primal: Any, dual: Any, target: Any, batch: Batch, hyper: Any) -> Any:
        return -jnp.sum(primal["seen"] * batch.x[..., 0]) + 0.0 * primal["rate"] + 0.0 * hyper["ridge"]

    return Objective(
        init=lambda key: ({"rate": jnp.zeros(()), "seen": jnp.zeros((2, size))}, {}),
        lagrangian=lagrangian,
        reward_rate=lambda primal: primal["rate"],
        values=None,
        defaults={"step_size": 1.0, "ridge": 0.0},
        minibatches=2,
    )


def test_the_two_minibatches_are_fresh_and_independent() -> None:
    """By content: every update of a two-sample method sees 2 × b rows of the stream that no other update saw.

    The correlation of paired row numbers over 4,000 updates × 4 pairs has standard deviation 1/√16,000 if they are independent;
    the test fails wrongly with probability 6e-5 (four standard deviations).
    """
    rows, size, updates = 1_000, 4, 4_000
    ids = np.arange(rows, dtype=float)
    data = cs.FeatureTransitions(ids[:, None], ids, ids[:, None])
    per_step = 2 * size
    result = cs.sweep(
        _content(),
        data,
        settings=cs.grid(step_size=[1.0]),
        seeds=[5],
        budget=updates * per_step,
        record_every=per_step,
        window=per_step,
        batch_size=size,
        record={"seen": lambda state: state.primal["seen"]},
        dtype="float64",
        quiet=True,
    )
    seen = np.diff(result.records["seen"][0, 0], axis=0, prepend=0.0).round().astype(int)  # [updates, 2, size]
    stream = jax.random.fold_in(jax.random.key(5), 1)
    expected = draw(source(data, "float64").cumulative, stream, jnp.int32(0), updates * per_step)
    np.testing.assert_array_equal(seen.ravel(), np.asarray(expected))
    first, second = seen[:, 0].ravel(), seen[:, 1].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(first.size)
    assert abs(np.corrcoef(first[size:], first[:-size])[0, 1]) < 4 / np.sqrt(first.size)
    assert not np.array_equal(seen[:-1, 1], seen[1:, 0])


def test_diff_gq2_uses_both_minibatches() -> None:
    """Its gradient depends on the rows of the second as much as on those of the first."""
    objective = REGISTRY["diff-gq2"](MLP((8,), head_scale=1.0), 3)
    assert objective.minibatches == 2
    primal, dual = jax.jit(objective.init)(jax.random.key(0))
    rng = np.random.default_rng(0)
    x, x_next, reward = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5))
    gradient = jax.jit(jax.grad(objective.lagrangian, argnums=(0, 1)))
    hyper = {"ridge": 0.0}

    def flat(x: NDArray[np.float64]) -> NDArray[Any]:
        batch = Batch(jnp.asarray(x), jnp.asarray(reward), jnp.asarray(x_next))
        return np.asarray(jax.flatten_util.ravel_pytree(gradient(primal, dual, primal, batch, hyper))[0])

    base = flat(x)
    for minibatch in range(2):
        other = x.copy()
        other[minibatch] += rng.normal(size=(5, 3))
        assert np.abs(flat(other) - base).max() > 1e-3


def test_the_name_mlp_is_the_papers_network() -> None:
    assert APPROXIMATORS["mlp"] == MLP((64, 64), "relu", "orthogonal", 1e-3)
