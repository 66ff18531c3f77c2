"""Exact solvers: time and peak memory of the promised sizes, beside what bounds them.

Dense state reduction costs 2/3 S³ floating-point operations; its bound is this machine's own matrix-product rate. The
sparse solvers stream the chain; their bound is the time of the sparse products, or of LAPACK on the band. Every case
runs in a fresh process, so that its peak memory is its own.
"""

import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_banded

import cesaro as cs

LIMITS = {
    "dense 2,000 × 2": 5.0,
    "dense 5,000 × 2": None,
    "Garnet 100,000 × 4, 5 successors": 30.0,
    "birth-death 100,000 × 2": 30.0,
}


def build(name: str) -> cs.LinearProblem:
    if name.startswith("dense"):
        states = 2_000 if "2,000" in name else 5_000
        rng = np.random.default_rng(0)
        probabilities = rng.exponential(size=(states, 2, states))
        probabilities /= probabilities.sum(axis=2, keepdims=True)
        mdp = cs.TabularMDP(probabilities, rng.normal(size=(states, 2)))
        uniform = np.full((states, 2), 0.5)
        return cs.LinearProblem(mdp, policy=uniform, sampling=uniform / states, features=np.ones((states, 2, 1)))
    if name.startswith("Garnet"):
        return cs.problems.garnet(100_000, 4, 5, seed=0)
    return cs.problems.birth_death_queue(100_000)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def matrix_rate() -> float:
    """Floating-point operations per second of a large matrix product here."""
    a = np.random.default_rng(0).normal(size=(2_000, 2_000))
    return 2 * 2_000**3 / min(timed(lambda: a @ a) for _ in range(5))


def bound(name: str, problem: cs.LinearProblem) -> tuple[float, str]:
    states = problem.mdp.num_states
    if name.startswith("dense"):
        return 2 / 3 * states**3 / matrix_rate(), "2/3 S³ flops at this machine's matrix-product rate"
    if name.startswith("Garnet"):
        chain = problem.mdp.state_chain(problem.policy)
        vector = np.ones(states)
        product = min(timed(lambda: chain @ vector) for _ in range(5))
        return 20 * product, "20 sparse products (error × 0.25 per step, 12 digits)"
    chain = problem.mdp.state_chain(problem.policy)
    bands = np.zeros((3, states - 1))
    bands[0, 1:], bands[1], bands[2, :-1] = -chain.diagonal(1)[1:], 1 - chain.diagonal()[1:], -chain.diagonal(-1)[1:]
    return min(
        timed(lambda: solve_banded((1, 1), bands, np.ones(states - 1))) for _ in range(5)
    ), "one LAPACK tridiagonal solve"


def case(name: str) -> tuple[float, float, float, float, str, float, str]:
    problem = build(name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rate = timed(lambda: cs.exact.reward_rate(problem.mdp, problem.policy))
    values = timed(lambda: cs.exact.differential_values(problem.mdp, problem.policy))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    floor, meaning = bound(name, problem)
    return rate, values, before, peak, cs.exact.solve(problem.mdp, problem.policy)._first_solver.name, floor, meaning


def main() -> None:
    print("Exact solvers: each call from scratch, factorization included")
    header = (
        f"{'case':<34}{'solver':<17}{'rate':>8}{'values':>9}{'limit':>8}{'bound':>9}{'rate/bound':>12}{'peak GiB':>10}"
    )
    print(header)
    notes = []
    for name, limit in LIMITS.items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rate, values, _, peak, solver, floor, meaning = pool.apply(case, (name,))
        allowed = f"{limit:.0f} s" if limit else "-"
        print(
            f"{name:<34}{solver:<17}{rate:>6.2f} s{values:>7.2f} s{allowed:>8}{floor:>7.3f} s{rate / floor:>11.0f}×{peak:>10.2f}"
        )
        notes.append(f"  {name}: bound = {meaning}")
    print("\n".join(notes))


if __name__ == "__main__":
    main()
