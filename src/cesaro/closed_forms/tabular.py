"""The closed form with one-hot features: the rate of the target in the empirical MDP, on its sparse chain over pairs.

With `c` the share of each pair, `P̂` its empirical transitions under the target and `r̄` its mean reward, the equations are
`r̂ = r̄ + P̂w − w` on every logged pair. They fix the rate where the target, once inside some set of logged pairs, never leaves it:
a closed class. Its stationary law gives the rate, and the influence of a row is `d(s, a)/c(s, a)` times its TD error.

With a ridge the answer is that of the normal equations `(ηI0 + MᵀDM) u = −MᵀD r̄`, where `M = [−1, P̂ − I]` on logged pairs and
`D` holds their shares. A log that mixes fast fills up any factorization, and conjugate gradients need few steps there; a log that
mixes slowly, such as one of a queue, is the other way round.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee
from scipy.sparse.linalg import LinearOperator, cg, splu

from cesaro import exact
from cesaro.checks import Array
from cesaro.data.columns import kind_argument
from cesaro.errors import InputError
from cesaro.mdp import TabularMDP
from cesaro.passes.influence import ClosedForm
from cesaro.passes.moments import Moments
from cesaro.solvers.pinned_lu import has_low_fill
from cesaro.text import Sentence, Wording, argument

# A second closed class is an accident of a finite log (a pair seen once that led to itself) up to this share of the information.
ACCIDENT = 0.01
# The rate is identified although the target leaves the data, if it does so less than once in a thousand steps: as much of the
# rate's unit vector may lie in the null space of the equations elsewhere.
LEAK = 1e-3
# A part of the log with fewer rows than this that leads only to itself may do so by chance.
FEW_ROWS = 30
# What answers where the log does not; and features by which a pair that has few rows learns from others.
RIDGE = Wording("ridge=1e-6", "--ridge 1e-6")
SHARED = Sentence(
    "{linear} where the observation has several columns, or {number} where labels are quantities",
    linear=argument("features", "linear"),
    number=kind_argument("COLUMN", "number"),
)
# Parts of the log that a refusal describes.
_DESCRIBED = 3
# From this share of the logged pairs on, a target that runs into pairs without data is not the target in the log any more.
LOST = 0.5
# Sparse elimination of so many pairs takes seconds at worst.
FEW_PAIRS = 3_000

# Normal equations: up to so many unknowns any factorization is quick.
SMALL = 1_000
# Operations of a banded elimination: a second or so.
BANDED = 1e9
# Steps of conjugate gradients: systems that need more are badly conditioned. Logs with 100,000 pairs take seconds for these.
STEPS = 3_000
# What a second pass may correct, relative to the solution: its own error is about the square of that.
CORRECTION = 1e-5
# Normal equations with at least this share of entries are factored as dense ones, up to so many unknowns (some 200 MB).
FILLED, DENSE = 0.02, 5_000


class NotIdentified(InputError):
    """The log does not determine the rate of this policy."""


def attempt(moments: Moments, label: Callable[[int], str]) -> ClosedForm | NotIdentified:
    """The solution without ridge, or the reason why there is none."""
    try:
        return solve(moments, 0.0, label)
    except NotIdentified as problem:
        return problem


def solve(moments: Moments, ridge: float, label: Callable[[int], str]) -> ClosedForm:
    """Without ridge the closed class of the empirical chain, with ridge the sparse normal equations."""
    shares = np.asarray(moments.mean("v"))
    logged = np.flatnonzero(shares > 0)
    changes = sp.csr_array(moments.mean("vz"))[logged]
    step = sp.csr_array(sp.diags_array(1 / shares[logged]) @ changes)  # P̂ − I on logged pairs, [logged, K]
    rewards = moments.mean("vR")[logged] / shares[logged]
    if not np.isfinite(rewards).all():
        raise InputError("The sums of rewards overflowed; scale rewards to moderate numbers.")
    if ridge > 0:
        return _with_ridge(step, rewards, shares, logged, ridge)
    identity = sp.csr_array((np.ones(len(logged)), (np.arange(len(logged)), logged)), shape=step.shape)
    chain = sp.csr_array(step + identity)
    chain.data[np.abs(chain.data) < 1e-12] = 0.0  # P̂ − I + I leaves rounding where there was no transition
    chain.eliminate_zeros()
    inside = _structure(chain, shares, logged, label, moments.rows)
    if inside is None:
        leaking = _leaking(chain, rewards, shares, logged)
        if leaking is None:
            raise NotIdentified(
                _no_data(chain, shares, label, "every logged pair of state and action leads to pairs that no row has")
            )
        return leaking
    size = len(shares)
    weights, ratio, known = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)
    pairs = logged[inside]
    process = TabularMDP((_normalized(chain[inside][:, pairs]),), rewards[inside, None])
    answer = exact.solve(process, np.ones((len(pairs), 1)))
    weights[pairs], known[pairs] = answer.state_values, True
    ratio[pairs] = answer.state_distribution / shares[pairs]
    return ClosedForm(
        reward_rate=answer.reward_rate,
        weights=weights,
        residual=np.zeros(1 + size),
        rate_row=(np.concatenate([[0.0], ratio]), np.zeros(1 + size)),
        unidentified=0.0,
        rank=len(pairs),
        conditioning=float("nan"),
        ridge=0.0,
        known=known,
    )


def _with_ridge(
    step: sp.csr_array, rewards: Array, shares: Array, logged: NDArray[np.intp], ridge: float
) -> ClosedForm:
    """The rate and the weights, and what their influence needs; `step` is `P̂ − I` on logged pairs, `[logged, K]`."""
    size, root = len(shares), np.sqrt(shares[logged])
    equations = sp.csr_array(sp.diags_array(root) @ sp.hstack([-np.ones((len(logged), 1)), step]))
    penalty = np.concatenate([[0.0], np.full(size, ridge)])
    right, unit = -equations.T @ (root * rewards), np.eye(1, 1 + size)[0]
    direct = size <= SMALL or _is_banded(step, logged)
    found = None if direct else _iterated(equations, penalty, (right, unit))
    if found is None:
        inverse = _factored(equations, penalty)
        found = [inverse(right), inverse(unit)]
    solution, primal = found
    residual, dual = np.zeros(1 + size), np.zeros(1 + size)
    residual[1 + logged] = (equations @ solution) / root + rewards
    dual[1 + logged] = -(equations @ primal) / root
    return ClosedForm(float(solution[0]), solution[1:], residual, (dual, primal), 0.0, 1 + size, float("nan"), ridge)


def _is_banded(step: sp.csr_array, logged: NDArray[np.intp]) -> bool:
    """Whether pairs can be numbered so that each is linked to near ones only."""
    size = step.shape[1]
    place = sp.csr_array((np.ones(len(logged)), (logged, np.arange(len(logged)))), shape=(size, len(logged)))
    square = sp.csr_array(place @ abs(step))
    graph = sp.csr_array(square + square.T)
    position = np.empty(size, dtype=np.intp)
    position[reverse_cuthill_mckee(graph, symmetric_mode=True)] = np.arange(size)
    links = graph.tocoo()
    width = 2.0 * np.max(np.abs(position[links.row] - position[links.col]), initial=0)  # of the normal equations
    return bool(size * width**2 <= BANDED)


def _iterated(equations: sp.csr_array, penalty: Array, rights: tuple[Array, ...]) -> list[Array] | None:
    """Conjugate gradients, scaled to a unit diagonal, with one refinement; None where they do not settle."""
    size, backward = len(penalty), sp.csr_array(equations.T)
    diagonal = np.asarray(equations.power(2).sum(axis=0)).ravel() + penalty
    scale = 1 / np.sqrt(diagonal)

    def apply(x: Array) -> Array:
        scaled = scale * x
        return np.asarray(scale * (backward @ (equations @ scaled) + penalty * scaled))

    normal = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    found = []
    for right in rights:
        target = scale * right
        first, failed = cg(normal, target, rtol=1e-10, atol=0.0, maxiter=STEPS)
        if failed:
            return None
        second, failed = cg(normal, target - apply(first), rtol=1e-6, atol=0.0, maxiter=STEPS)
        if failed or not np.linalg.norm(second) <= CORRECTION * np.linalg.norm(first):
            return None
        found.append(np.asarray(scale * (first + second)))
    return found


def _factored(equations: sp.csr_array, penalty: Array) -> Callable[[Array], Array]:
    size = len(penalty)
    normal = sp.csc_array(equations.T @ equations + sp.diags_array(penalty))
    if size <= DENSE and normal.nnz >= FILLED * size**2:
        factors = lu_factor(normal.toarray())
        return lambda right: np.asarray(lu_solve(factors, right))
    # Symmetric and positive definite: without pivoting, and with the dense row of the rate last.
    sparse = splu(normal, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda right: np.asarray(sparse.solve(right))


def _leaking(chain: sp.csr_array, rewards: Array, shares: Array, logged: NDArray[np.intp]) -> ClosedForm | None:
    """The least-‖w‖ solution where the target seldom leaves the data; None where it does so often, or the solve is too large.

    With `T` the expected steps and `V` the expected rewards until the target meets a pair without data, all solutions are
    `r̂ = t`, `w = V − t T`; the least one has `t = V·T / T·T`. The rarer the meeting, the larger `T`, and the less the choice
    matters.
    """
    size, count = len(shares), len(logged)
    inner = sp.csr_array(chain[:, logged])
    if count > FEW_PAIRS and not has_low_fill(inner):
        return None
    try:
        factors = splu(sp.csc_array(sp.eye_array(count) - inner))
        steps, total = factors.solve(np.ones(count)), factors.solve(rewards)
    except RuntimeError:  # singular to rounding
        return None
    share = float(1 / np.sqrt(1 + shares[logged] @ steps**2))
    if not (np.isfinite(steps).all() and (steps > 0).all() and share <= LEAK):
        return None
    rate = float(total @ steps / (steps @ steps))
    weights, ratio, known = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)
    weights[logged], known[logged] = total - rate * steps, True
    ratio[logged] = factors.solve(steps, trans="T") / (steps @ steps) / shares[logged]
    nothing = np.zeros(1 + size)
    row = (np.concatenate([[0.0], ratio]), nothing)
    return ClosedForm(rate, weights, nothing, row, share, count, float("nan"), 0.0, known=known)


def _structure(
    chain: sp.csr_array, shares: Array, logged: NDArray[np.intp], label: Callable[[int], str], rows: int
) -> NDArray[np.intp] | None:
    """Rows of `chain` (logged pairs) that end in the one closed class and nowhere else; None where there is no closed class."""
    size = len(shares)
    square = _scatter(chain, logged, size)
    _, component = connected_components(square, directed=True, connection="strong")
    entries = square.tocoo()
    leaving = np.zeros(component.max() + 1, dtype=bool)
    leaving[component[entries.row[component[entries.row] != component[entries.col]]]] = True
    has_data = shares > 0
    unknown = _without_data(chain, shares)
    closed = np.unique(component[has_data & ~leaving[component]])
    if not len(closed):
        return None
    members = _members(component, closed)
    information = np.ones(1)  # of the only one: there is nothing to compare
    if len(members) > 1:
        information = np.array([_information(square, pairs, shares) for pairs in members])
    main = int(np.argmax(information))
    others = 1 - information[main] / information.sum()
    if others > ACCIDENT:
        parts = [members[k] for k in np.argsort(-information, kind="stable")]
        raise NotIdentified(_parts_that_never_meet(chain, shares, logged, parts, label, rows))
    row_of = np.full(size, -1)
    row_of[logged] = np.arange(len(logged))
    astray = np.concatenate([unknown, *(pairs for k, pairs in enumerate(members) if k != main)])
    strays = _ancestors(square, astray)
    inside = row_of[np.flatnonzero(has_data & ~strays)]
    if len(unknown):
        lost = float(shares[strays & has_data].sum())
        if lost > LOST and _absorbed(chain, shares, logged, [members[main]])[0] < 1 - LOST:
            raise NotIdentified(
                _no_data(
                    chain,
                    shares,
                    label,
                    f"{lost:.0%} of the logged rows lead to pairs of state and action that no row has",
                )
            )
    return inside


def _scatter(chain: sp.csr_array, logged: NDArray[np.intp], size: int) -> sp.csr_array:
    counts = np.zeros(size, dtype=np.int64)
    counts[logged] = np.diff(chain.indptr)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array((chain.data, chain.indices, starts), shape=(size, size))


def _members(component: NDArray[np.intp], closed: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    order = np.argsort(component, kind="stable")
    borders = np.searchsorted(component[order], np.stack([closed, closed + 1]))
    return [order[first:last] for first, last in borders.T]


def _information(square: sp.csr_array, pairs: NDArray[np.intp], shares: Array) -> float:
    """`1 / Σ d²/c`: the share of a log of independent rows that would tell the rate of this class as well."""
    if len(pairs) == 1:
        return float(shares[pairs[0]])
    process = TabularMDP((_normalized(square[pairs][:, pairs]),), np.zeros((len(pairs), 1)))
    law = exact.solve(process, np.ones((len(pairs), 1))).state_distribution
    return float(1 / np.sum(law**2 / shares[pairs]))


def _ancestors(square: sp.csr_array, targets: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which pairs can reach the targets, themselves included."""
    found = np.zeros(square.shape[0], dtype=bool)
    found[targets] = True
    frontier, backward = targets, sp.csr_array(square.T)
    while len(frontier):
        nearby = np.unique(backward[frontier].indices)
        frontier = nearby[~found[nearby]]
        found[frontier] = True
    return found


def _parts_that_never_meet(
    chain: sp.csr_array,
    shares: Array,
    logged: NDArray[np.intp],
    parts: list[NDArray[np.intp]],
    label: Callable[[int], str],
    rows: int,
) -> str:
    """Why the log tells more than one rate: how large the parts are, how much of its time the target spends in each, a remedy."""
    counts = [round(rows * float(shares[pairs].sum())) for pairs in parts]
    time = _absorbed(chain, shares, logged, parts)
    described = [
        f"{count:,} {'row' if count == 1 else 'rows'} around {label(pairs[np.argmax(shares[pairs])])} "
        f"({spent:.2g} % of the target's time)"
        for pairs, count, spent in zip(parts[:_DESCRIBED], counts, 100 * time)
    ]
    more = f" and {len(parts) - _DESCRIBED} more" if len(parts) > _DESCRIBED else ""
    few = [count for count in counts[1:] if count < FEW_ROWS]
    if len(few) == len(parts) - 1 and counts[0] >= FEW_ROWS:
        each, it = ("the small part", "it") if len(few) == 1 else (f"the {len(few)} small parts", "them")
        remedy = (
            f"so few rows may lead only to themselves by chance: drop the rows of {each}, merge {it} with similar states, or "
            f"collect more data there, until the log shows how the target leaves {it}"
        )
    else:
        remedy = (
            "evaluate each part alone, on a log of its rows only, or collect rows that lead from one part to another"
        )
    return Sentence(
        "The log does not identify one rate: under this policy it falls into {parts} separate parts that never meet, "
        "{described}; {remedy}. A small ridge ({ridge}) gives a number anyway, with verdict bad.",
        parts=str(len(parts)),
        described=f"{', '.join(described)}{more}",
        remedy=remedy,
        ridge=RIDGE,
    )


def _absorbed(chain: sp.csr_array, shares: Array, logged: NDArray[np.intp], parts: list[NDArray[np.intp]]) -> Array:
    """Where the log's rows end under the policy: the share that has reached each closed class rather than a pair without data."""
    size = len(shares)
    mass = shares.copy()
    settled = np.ones(size, dtype=bool)
    settled[logged] = False
    settled[np.concatenate(parts)] = True
    square = _scatter(chain, logged, size)
    for _ in range(10_000):
        moving = np.where(settled, 0.0, mass)
        if moving.sum() < 1e-3:
            break
        mass = np.where(settled, mass, 0.0) + square.T @ moving
    return np.array([mass[pairs].sum() for pairs in parts]) / mass[settled].sum()


def _without_data(chain: sp.csr_array, shares: Array) -> NDArray[np.intp]:
    """Pairs that a logged one leads to, and that no row has."""
    reached = np.unique(chain.indices)
    return np.asarray(reached[shares[reached] == 0])


def _no_data(chain: sp.csr_array, shares: Array, label: Callable[[int], str], why: str) -> str:
    unknown = _without_data(chain, shares)
    inflow = np.bincount(chain.indices, weights=chain.data, minlength=chain.shape[1])[unknown]
    first = [label(pair) for pair in unknown[np.argsort(-inflow, kind="stable")[:5]]]
    more = f" and {len(unknown) - len(first):,} more" if len(unknown) > len(first) else ""
    return Sentence(
        "The log does not identify the rate of this policy: {why}, above all (s', a') = {first}; collect data there, evaluate a "
        "policy closer to the log, or use features that share rows between states ({shared}). A small ridge ({ridge}) gives a "
        "number anyway, with verdict bad.",
        why=why,
        first=f"{', '.join(first)}{more}",
        shared=SHARED,
        ridge=RIDGE,
    )


def _normalized(chain: sp.csr_array) -> sp.csr_array:
    chain = sp.csr_array(chain)
    return sp.csr_array(sp.diags_array(1 / chain.sum(axis=1)) @ chain)
