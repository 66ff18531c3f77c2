"""`assumptions()`: each entry on problems built to break just that one, and no exception on any problem."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import cesaro as cs

Array = NDArray[np.float64]
NAMES = ["unichain", "coverage", "independent-columns", "non-constant", "fixed-point", "F-positive", "zero-mean"]


def sound() -> cs.LinearProblem:
    """Everything holds: on-policy, centred, two independent features, fast mixing."""
    return cs.problems.random_problem(4, 6, 2, 2, concentration=5.0, on_policy=True).centered()


def broken(problem: cs.LinearProblem, xi: float = 0.99) -> list[str]:
    report = problem.assumptions(xi)
    assert [entry.name for entry in report] == NAMES
    assert len(report) == 7
    for entry in report:
        assert np.isfinite(entry.margin)
        assert entry.holds == (entry.margin > 0) or entry.margin == 0
        assert not (entry.margin < 0 and entry.holds)
        assert entry.sentence.endswith(".")
        assert "\n" not in entry.sentence
        assert "nan" not in entry.sentence
        assert report[entry.name] is entry
    return [entry.name for entry in report if not entry.holds]


def test_a_sound_problem_meets_every_assumption() -> None:
    assert broken(sound()) == []


def test_coverage_alone() -> None:
    problem = sound()
    policy = problem.policy.copy()
    policy[2] = [1.0, 0.0]
    problem = problem.replace(policy=policy)
    sampling = cs.exact.stationary_distribution(problem.mdp, policy)
    problem = problem.replace(sampling=sampling).centered()
    assert broken(problem) == ["coverage"]
    entry = problem.assumptions()["coverage"]
    assert "1 of 12" in entry.sentence
    assert "0.00%" in entry.sentence
    assert entry.margin == pytest.approx(-1 / 12)
    # Where the target goes, the sentence says how much of its time that is.
    gap = sound().sampling.copy()
    gap[0, 0] = 0.0
    entry = sound().replace(sampling=gap / gap.sum()).assumptions()["coverage"]
    share = sound().exact.stationary_distribution[0, 0]
    assert f"{share:.2%}" in entry.sentence


def test_dependent_columns() -> None:
    problem = sound()
    doubled = problem.replace(features=np.concatenate([problem.features, problem.features[..., :1] * 7], axis=2))
    assert broken(doubled) == ["independent-columns", "non-constant"]  # a zero combination is a constant too
    entry = doubled.assumptions()["independent-columns"]
    assert "rank-deficient (rank 2 of 3)" in entry.sentence
    assert entry.margin == pytest.approx(-1 / 3)
    assert "zero" in doubled.assumptions()["non-constant"].sentence
    with_zero = problem.replace(features=np.concatenate([problem.features, np.zeros((6, 2, 1))], axis=2))
    assert broken(with_zero) == ["independent-columns", "non-constant"]


def test_constant_in_the_span() -> None:
    """The constant is no centred feature and is kept by every chain, so zero mean and F ⪰ 0 break with it."""
    problem = sound()
    x = problem.features
    with_one = problem.replace(features=np.concatenate([x, np.ones((6, 2, 1))], axis=2))
    assert broken(with_one) == ["non-constant", "F-positive", "zero-mean"]
    hidden = problem.replace(features=np.concatenate([x, 2 * x[..., :1] - 5], axis=2))
    assert "non-constant" in broken(hidden)
    assert "independent-columns" not in broken(hidden)
    assert "contain the constant" in hidden.assumptions()["non-constant"].sentence


def test_mean_of_features_alone() -> None:
    problem = sound()
    shifted = problem.replace(features=problem.features + 0.05)
    assert broken(shifted) == ["zero-mean"]
    entry = shifted.assumptions()["zero-mean"]
    size = np.sqrt(np.diag(shifted.C2))
    assert entry.margin == pytest.approx(-np.max(np.abs(shifted.c) / size), rel=1e-6)
    assert "centered()" in entry.sentence
    assert broken(shifted.centered()) == []


def test_contraction_alone() -> None:
    """A chain that swaps two halves nearly always keeps a feature's size."""
    swap = cs.TabularMDP([[[0.02, 0.98]], [[0.98, 0.02]]], [[0.0], [1.0]])
    problem = cs.LinearProblem(swap, policy=[[1], [1]], sampling=[[0.5], [0.5]], features=[[[1.0]], [[-1.0]]])
    assert broken(problem, 0.9) == ["F-positive"]
    assert broken(problem, 0.97) == []
    assert problem.assumptions(0.9)["F-positive"].margin == pytest.approx(0.9 - 0.96, abs=1e-12)


def test_no_fixed_point_and_many() -> None:
    problem = sound()
    assert problem.assumptions()["fixed-point"].margin > 0
    one_hot = cs.problems.garnet(4, 2, 2)
    entry = one_hot.assumptions()["fixed-point"]
    assert entry.holds
    assert "infinitely many" in entry.sentence
    assert "all with the rate" in entry.sentence
    # x = (1, 2, 4) on a 3-cycle with the sampling that makes A2 vanish: see test_fixed_point.
    cycle = cs.TabularMDP(np.roll(np.eye(3), 1, axis=1)[:, None], [[1.0], [0.0], [0.0]])
    x, moved = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, -3.0])
    low, high = 0.0, 1.0
    for _ in range(200):
        share = (low + high) / 2
        d = (1 - share) * np.array([0.495, 0.495, 0.01]) + share / 3
        low, high = (share, high) if (d * (x - d @ x)) @ moved > 0 else (low, share)
    contradictory = cs.LinearProblem(cycle, policy=np.ones((3, 1)), sampling=d[:, None], features=x[:, None, None])
    entry = contradictory.assumptions()["fixed-point"]
    assert not entry.holds
    assert entry.margin < 0
    assert "no TD fixed point" in entry.sentence
    same = contradictory.replace(mdp=cs.TabularMDP(cycle.probabilities, np.ones((3, 1))))
    assert "disagree on the rate" in same.assumptions()["fixed-point"].sentence


def test_boyans_chain_is_rank_deficient_and_contains_the_constant() -> None:
    for pi0, mu0 in ((0.1, 0.9), (0.5, 0.5), (0.9, 0.9)):
        report = cs.problems.boyan_chain(pi0, mu0).assumptions()
        assert not report["independent-columns"].holds
        assert "rank-deficient (rank 5 of 6)" in report["independent-columns"].sentence
        assert not report["non-constant"].holds
        assert "contain the constant" in report["non-constant"].sentence
        assert report["unichain"].holds
        assert report["coverage"].holds
        assert report["fixed-point"].holds
        text = repr(report)
        assert "rank-deficient" in text
        assert "NO" in text
        assert len(text.splitlines()) == 8


def test_multichain_policies_are_reported_not_raised() -> None:
    mdp = cs.TabularMDP(np.eye(3)[:, None], [[0.0], [1.0], [2.0]])
    for sampling in ([[0.2], [0.3], [0.5]], [[0.4], [0.6], [0.0]]):
        problem = cs.LinearProblem(mdp, policy=np.ones((3, 1)), sampling=sampling, features=[[[1.0]], [[2.0]], [[0.5]]])
        assert "unichain" in broken(problem)
        entry = problem.assumptions()["unichain"]
        assert entry.margin == -2
        assert "3 groups" in entry.sentence


def test_transient_states_are_told_and_periodic_chains_hold() -> None:
    problem = cs.problems.two_state_counterexample()
    entry = problem.assumptions()["unichain"]
    assert entry.holds
    assert "1 of 2 states are left for good" in entry.sentence
    assert cs.problems.garnet(5, 1, 1).assumptions()["unichain"].holds


def test_margin_of_the_chain_falls_as_it_falls_apart() -> None:
    margins = []
    for coupling in (1e-1, 1e-3, 1e-6, 1e-9):
        mdp = cs.TabularMDP([[[1 - coupling, coupling]], [[coupling, 1 - coupling]]], [[0.0], [1.0]])
        problem = cs.LinearProblem(mdp, policy=[[1], [1]], sampling=[[0.5], [0.5]], features=[[[1.0]], [[-1.0]]])
        margins.append(problem.assumptions()["unichain"].margin)
        assert margins[-1] == pytest.approx(2 * coupling, rel=1.0)
    assert margins == sorted(margins, reverse=True)


@pytest.mark.parametrize("features", [1, 2, 5, 30])
def test_no_exception_on_random_and_degenerate_problems(features: int) -> None:
    rng = np.random.default_rng(features)
    for seed in range(6):
        problem = cs.problems.random_problem(seed, 3, 2, features, concentration=[1.0, 0.01][seed % 2])
        broken(problem)
        broken(problem.replace(features=np.zeros((3, 2, features))))
        broken(problem.replace(features=np.ones((3, 2, features))))
        broken(problem.replace(features=problem.features * 10.0 ** rng.uniform(-6, 6, features)))
        point_mass = np.zeros((3, 2))
        point_mass[1, 0] = 1.0
        broken(problem.replace(sampling=point_mass))
    one = cs.LinearProblem(
        cs.TabularMDP([[[1.0]]], [[1.0]]), policy=[[1]], sampling=[[1]], features=np.ones((1, 1, features))
    )
    broken(one)


def test_units_of_features_change_no_verdict() -> None:
    problem = sound()
    for scales in ([1e-6, 1.0], [1.0, 1e6], [1e-6, 1e6]):
        assert broken(problem.replace(features=problem.features * np.array(scales))) == []
    boyan = cs.problems.boyan_chain()
    scaled = boyan.replace(features=boyan.features * 10.0 ** np.linspace(-6, 6, 6))
    assert broken(scaled) == broken(boyan)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(cs.InputError, match=r"name must be one of unichain, coverage, .* Got 'ergodic'"):
        sound().assumptions()["ergodic"]


def test_report_of_a_large_sparse_process() -> None:
    """More states than the exact sensitivity covers, and 3,000 pairs: answers in a moment, by estimation."""
    problem = cs.problems.garnet(1_500, 2, 5)
    report = problem.assumptions()
    assert report["unichain"].holds
    chain = sp.csr_array(problem.mdp.state_chain(problem.policy)).toarray()
    exact = 1 / np.linalg.norm(np.linalg.inv(np.eye(1_500) - chain + 1 / 1_500), np.inf)
    assert report["unichain"].margin == pytest.approx(exact, rel=0.5)


def test_margin_of_a_slow_chain_is_found_and_repeatable() -> None:
    """A queue of 1,100: GMRES is slow on it, and an estimate that stops early or draws at random would show."""
    problem = cs.problems.birth_death_queue(1_100)
    margins = [problem.assumptions()["unichain"].margin for _ in range(2)]
    chain = sp.csr_array(problem.mdp.state_chain(problem.policy)).toarray()
    exact = 1 / np.linalg.norm(np.linalg.inv(np.eye(1_100) - chain + 1 / 1_100), np.inf)
    assert margins[0] == margins[1]
    assert exact / 2 <= margins[0] <= 2 * exact
