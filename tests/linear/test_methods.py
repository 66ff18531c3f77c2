"""`G` and `h` of every method, entry by entry, against exact enumeration of the update as MATHS.md writes it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.linear import METHODS
from cesaro.linear.methods import FORMS
from cesaro.linear.methods.base import settings

Array = NDArray[np.float64]
Enumerate = Callable[..., Any]

TOLERANCE = 1e-12


def mismatches(problem: cs.LinearProblem, enumeration: Any, mean: Any) -> list[str]:
    """Entries of `G` and `h` that differ by more than rounding."""
    assert enumeration.names == mean.layout.names
    found = []
    scale = 1 + np.abs(enumeration.mean_G).max()
    for i, row in enumerate(mean.layout.names):
        if abs(mean.h[i] - enumeration.mean_h[i]) > TOLERANCE * scale:
            found.append(f"h[{row}]: {mean.h[i]} instead of {enumeration.mean_h[i]}")
        for j, column in enumerate(mean.layout.names):
            if abs(mean.G[i, j] - enumeration.mean_G[i, j]) > TOLERANCE * scale:
                found.append(f"G[{row}, {column}]: {mean.G[i, j]} instead of {enumeration.mean_G[i, j]}")
    return found


def problems() -> list[cs.LinearProblem]:
    """Uncentred, off-policy, with skewed sampling; one with more features than pairs minus one, one sparse, one with gaps."""
    result = [
        cs.problems.random_problem(seed, states, actions, features)
        for seed, (states, actions, features) in enumerate([(3, 2, 2), (4, 1, 3), (2, 2, 1), (1, 3, 2), (2, 2, 5)])
    ]
    garnet = cs.problems.garnet(4, 2, 2, seed=3)
    rng = np.random.default_rng(9)
    result.append(garnet.replace(features=rng.normal(size=(4, 2, 2)) + 1))
    sampling = result[0].sampling.copy()
    sampling[1, 0] = 0.0
    result.append(result[0].replace(sampling=sampling / sampling.sum()))
    return result


PROBLEMS = problems()


@pytest.mark.parametrize("index", range(len(PROBLEMS)))
@pytest.mark.parametrize("method", METHODS)
def test_mean_update_is_the_enumerated_one(method: str, index: int, enumerate_update: Enumerate) -> None:
    problem = PROBLEMS[index]
    assert np.abs(problem.c).max() > 1e-2  # uncentred
    for ridge, lam, ratio in ((0.0, 1.0, 1.0), (0.37, 2.3, 0.6), (1.9, 0.2, 4.0)):
        result = problem.stability(method, ridge=ridge, lam=lam, rate_step_ratio=ratio)
        exact = enumerate_update(problem, method, result.mean.layout.names, ridge=ridge, lam=lam, ratio=ratio)
        assert exact.probability.sum() == pytest.approx(1, abs=1e-12)
        assert mismatches(problem, exact, result.mean) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", ["main text", "appendix"])
@pytest.mark.parametrize("index", [0, 1, 5])
def test_both_printed_forms_of_diff_gq2_are_detected(form: str, index: int, enumerate_update: Enumerate) -> None:
    """Correction 1 of MATHS.md: the comparison above tells the printed forms from the right one."""
    problem = PROBLEMS[index]
    mean = problem.stability("diff-gq2", ridge=0.1).mean
    assert mismatches(problem, enumerate_update(problem, "diff-gq2", mean.layout.names, ridge=0.1), mean) == []
    printed = enumerate_update(problem, "diff-gq2", mean.layout.names, ridge=0.1, form=form)
    wrong = mismatches(problem, printed, mean)
    assert wrong
    assert all(entry.startswith("G[w[") for entry in wrong), "only the update of w is misprinted"
    # What compares limits without a ridge cannot see it: the solutions are the same.
    solution = np.linalg.lstsq(mean.G, -mean.h)[0]
    unridged = enumerate_update(problem, "diff-gq2", mean.layout.names, form=form)
    right = problem.stability("diff-gq2").mean
    point = np.linalg.lstsq(right.G, -right.h)[0]
    np.testing.assert_allclose(unridged.mean_G @ point + unridged.mean_h, 0, atol=1e-9)
    assert np.abs(printed.mean_G @ solution + printed.mean_h).max() > 1e-6


@pytest.mark.slow
def test_printed_forms_of_diff_gq2_on_boyans_chain(enumerate_update: Enumerate) -> None:
    """The main-text form is stable there, the appendix form diverges, the right one is stable."""
    problem = cs.problems.boyan_chain(0.1, 0.9)
    names = problem.stability("diff-gq2").mean.layout.names
    largest = {
        form: float(np.linalg.eigvals(mean_of_pairs(problem, enumerate_update, names, form)).real.max())
        for form in ("correct", "main text", "appendix")
    }
    assert largest["correct"] < 1e-8
    assert largest["main text"] < 1e-8
    assert largest["appendix"] > 1e-2


def mean_of_pairs(problem: cs.LinearProblem, enumerate_update: Enumerate, names: tuple[str, ...], form: str) -> Array:
    """Mean over pairs from small random draws would be slow on 13 states: `G` is bilinear in the two samples, so the
    blocks follow from means over single tuples."""
    K = problem.num_features
    pair, next_pair, p = problem.sample_space
    x = problem.X[pair]
    z = problem.X[next_pair] - x
    own = np.einsum("k,ki,kj->ij", p, x, z)  # E[x1 z1ᵀ]
    cross = np.outer(p @ x, p @ z)  # E[x1] E[z2]ᵀ
    second = np.einsum("k,ki,kj->ij", p, x, x)
    to_w = {"correct": -(own - cross).T, "main text": -(own + cross).T, "appendix": (own - cross).T}[form]
    G = np.zeros((2 * K + 1, 2 * K + 1))
    G[:K, :K], G[:K, K : 2 * K], G[K : 2 * K, :K] = -second, own - cross, to_w
    G[2 * K, K : 2 * K], G[2 * K, 2 * K] = p @ z, -1
    # The shortcut is itself checked against enumeration on a small problem.
    if problem.mdp.num_states > 3:
        small = PROBLEMS[0]
        small_names = small.stability("diff-gq2").mean.layout.names
        exact = enumerate_update(small, "diff-gq2", small_names, form=form).mean_G
        np.testing.assert_allclose(mean_of_pairs(small, enumerate_update, small_names, form), exact, atol=1e-12)
    return G


@pytest.mark.parametrize("index", range(len(PROBLEMS)))
@pytest.mark.parametrize("method", METHODS)
def test_second_moments_are_the_enumerated_ones(method: str, index: int, enumerate_update: Enumerate) -> None:
    """`E[G_k M G_kᵀ]` and `E[G_kᵀ M G_k]` of the factored samples, which the sampled step limit rests on."""
    problem = PROBLEMS[index]
    ridge, lam, ratio = 0.3, 1.7, 0.6
    names = problem.stability(method).mean.layout.names
    exact = enumerate_update(problem, method, names, ridge=ridge, lam=lam, ratio=ratio)
    samples = FORMS[method].samples(problem, settings(ridge, lam, ratio))
    rng = np.random.default_rng(index)
    matrix = rng.normal(size=(len(names), len(names)))
    matrix = matrix + matrix.T
    for transposed, pattern in ((False, "k,kia,ab,kjb->ij"), (True, "k,kai,ab,kbj->ij")):
        expected = np.einsum(pattern, exact.probability, exact.G, matrix, exact.G, optimize=True)
        found = samples.second_moment(matrix, transposed=transposed)
        np.testing.assert_allclose(found, expected, atol=1e-11 * (1 + np.abs(expected).max()))


def test_layout_names_every_variable_once() -> None:
    problem = PROBLEMS[0]
    for method in METHODS:
        order = problem.stability(method).mean.layout
        assert len(set(order.names)) == len(order.names) == order.size
        assert order.names[order.rate] == "reward_rate"
        weights = "theta" if method == "gradient-dice" else "w"
        assert order.names[order.weights] == tuple(f"{weights}[{i}]" for i in range(problem.num_features))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "diff-gq5"}, "method must be one of diff-sgq, .* Got 'diff-gq5'"),
        ({"method": "diff-sgq", "ridge": -0.1}, "ridge must be a number ≥ 0. Got -0.1"),
        ({"method": "diff-sgq", "ridge": np.nan}, "ridge must be .* Got nan"),
        ({"method": "diff-sgq", "ridge": "much"}, "ridge must be .* Got 'much'"),
        ({"method": "gradient-dice", "lam": -1}, "lam must be .* Got -1"),
        ({"method": "diff-gq2", "rate_step_ratio": 0}, "rate_step_ratio must be a number > 0. Got 0"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        PROBLEMS[0].stability(**arguments)
