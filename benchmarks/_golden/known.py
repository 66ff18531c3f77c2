"""Cases of known problems: the exact layer, limits and stability."""

from functools import partial
from typing import Any

import numpy as np

import cesaro as cs
from benchmarks._golden.case import METHODS, case, or_error


@case
def exact() -> dict[str, Any]:
    told = {}
    for name, problem in _problems().items():
        mdp, policy = problem.mdp, problem.policy
        told[name] = {
            "rate": cs.exact.reward_rate(mdp, policy),
            "values": cs.exact.differential_values(mdp, policy),
            "law": cs.exact.stationary_distribution(mdp, policy),
            "ratio": or_error(partial(cs.exact.density_ratio, mdp, policy, problem.sampling)),
        }
    return told


@case
def linear_problems() -> dict[str, Any]:
    return {name: _of_problem(problem) for name, problem in _problems().items()}


def _problems() -> dict[str, cs.LinearProblem]:
    problems = cs.problems
    return {
        "boyan": problems.boyan_chain(pi0=0.1, mu0=0.5),
        "counterexample": problems.two_state_counterexample(),
        "garnet": problems.garnet(8, 2, 3, seed=1),
        "queue": problems.access_control_queue(4),
        "birth-death": problems.birth_death_queue(20),
        "random": problems.random_problem(3),
    }


def _of_problem(problem: cs.LinearProblem) -> dict[str, Any]:
    matrices = ("A", "b", "C", "A2", "b2", "C2", "A3", "b3", "B", "c", "g")
    weights = np.linspace(-1, 1, problem.num_features)
    return {
        "matrices": {name: getattr(problem, name) for name in matrices},
        "fixed point": or_error(problem.td_fixed_point),
        "errors": [problem.mspbe(kind, 0.5, weights) for kind in (1, 2, 3, 4)],
        "assumptions": list(problem.assumptions()),
        "bounds": or_error(problem.centered().error_bounds),
        "methods": {
            f"{method}, ridge {ridge}": {
                "limit": or_error(partial(problem.limit, method, ridge=ridge)),
                "stability": _of_stability(problem, method, ridge),
            }
            for method in METHODS
            for ridge in (0.0, 0.01)
        },
    }


def _of_stability(problem: cs.LinearProblem, method: str, ridge: float) -> Any:
    def told() -> dict[str, Any]:
        found = problem.stability(method, ridge=ridge)
        names = ("converges", "reason", "eigenvalues", "determined", "max_step_expected", "max_step_sampled")
        return {name: getattr(found, name) for name in names} | {"time": or_error(lambda: found.time_constant(0.01))}

    return or_error(told)


@case
def expected_updates() -> dict[str, Any]:
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
    methods = ("diff-sgq", "diff-gq2", "gradient-dice")
    return {method: cs.learning.dynamics(method, chain, ridge=0.1) for method in methods}
