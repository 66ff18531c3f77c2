"""Networks trained on the continuous problem: the methods, where they start, and what is measured of them.

Everything goes through `cesaro.sweep`. A start of r̂ at c is a shift of all rewards by −c, so that one program serves all starts,
and a rate that is held at c is an objective without a rate on such rewards.
"""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Scalar

from cesaro.algorithms import REGISTRY, Objective, State, diff_gq1
from cesaro.algorithms.base import Batch, Hyper, Params, value_objective
from cesaro.algorithms.saddle_point import CURRENT, Target, tracked
from cesaro.approximators import MLP, Approximator
from cesaro.checks import Array
from cesaro.data import FeatureTransitions
from cesaro.estimators.learned.base import adam
from cesaro.features import networks
from cesaro.learning import sweep
from cesaro.linear import EmpiricalProblem, rate_force
from research.stall.problem import Problem, Rows

METHODS = ("diff-sgq", "diff-gq1", "diff-gq1-no-momentum", "diff-gq1-fast-dual", "residual")
BATCH = 128
# Points of every curve.
RECORDS = 12
# Rows that curves are measured on, and that closed forms see.
PROBE, CLOSED_FORM_ROWS = 4_000, 20_000
# Of the closed form on hidden units, in units of their mean square: units can be dead or collinear.
RIDGE = 1e-6
# Where q is looked at between the target's action (0) and the logged one (1), and beyond.
SHARES = tuple(round(0.1 * i, 1) for i in range(16))
# Adam's step sizes. The rate has the same everywhere, so that no method is held back by it.
RATE_STEP = 1e-3
STEPS: dict[str, dict[str, float]] = {
    "diff-sgq": {"step_size": 1e-3},
    "diff-gq1": {"step_size": 3e-4, "dual_step_size": 3e-4, "rate_step_size": RATE_STEP},
    "diff-gq1-no-momentum": {"step_size": 3e-4, "dual_step_size": 3e-4, "rate_step_size": RATE_STEP},
    "diff-gq1-fast-dual": {"step_size": 1e-4, "dual_step_size": 1e-3, "rate_step_size": RATE_STEP},
    "residual": {"step_size": 1e-3},
}
# The numbers that a curve holds at every record.
CURVES = ("residual", "held_out_residual", "dual_error", "held_out_dual_error", "correlation", "target_correlation")


def residual(approximator: Approximator, num_inputs: int) -> Objective:
    """½ E[δ²]: Diff-GQ1 with the best dual there is, τ = δ, where transitions are deterministic."""
    q = approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        values = primal["values"]
        error = batch.reward - primal["rate"] + q.apply(values, batch.x_next) - q.apply(values, batch.x)
        return 0.5 * jnp.mean(error**2)

    return value_objective(q, None, lagrangian)


def held(approximator: Approximator, num_inputs: int) -> Objective:
    """The same with r̂ held at 0."""
    q = approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        values = primal["values"]
        return 0.5 * jnp.mean((batch.reward + q.apply(values, batch.x_next) - q.apply(values, batch.x)) ** 2)

    return value_objective(q, None, lagrangian)


def regression(approximator: Approximator, num_inputs: int) -> Objective:
    """q fitted to goals that stand where rewards would be."""
    q = approximator(num_inputs, bias=False)

    def lagrangian(primal: Params, dual: Params, target: Params, batch: Batch, hyper: Hyper) -> Scalar:
        return 0.5 * jnp.mean((batch.reward - q.apply(primal["values"], batch.x)) ** 2)

    return value_objective(q, None, lagrangian)


def two_speeds(approximator: Approximator, num_inputs: int) -> Objective:
    """Diff-GQ1 whose dual and rate may have step sizes of their own."""
    objective = diff_gq1.objective(approximator, num_inputs)
    return objective._replace(defaults={**objective.defaults, "dual_step_size": None, "rate_step_size": None})


class Trained(NamedTuple):
    """Runs of one method, a row per seed.

    Attributes:
        rates: r̂ at every record, the mean since the one before, `[seeds, RECORDS]`.
        curves: `[seeds, RECORDS, len(CURVES)]`; dual errors are nan without a dual.
        line: mean of q(s, a) at `SHARES` less the one at the logged action, at the end, `[seeds, len(SHARES)]`.
        closed_form: the rate of the closed form on the last hidden layer at the end, `[seeds]`.
        force: of that layer (`rate_force`), `[seeds]`.
    """

    rates: Array
    curves: Array
    line: Array
    closed_form: Array
    force: Array


def train(
    problem: Problem,
    method: str,
    rows: Rows,
    held_out: Rows,
    *,
    steps: int,
    seeds: list[int],
    width: int,
    start: float,
    values: Any = None,
) -> Trained:
    """Train a method of `METHODS`, or "held", with r̂ started (or held) at `start`; `values`: q's start, default near zero."""
    build: Any = {"diff-sgq": "diff-sgq", "residual": residual, "held": held}.get(method, two_speeds)
    approximator = MLP((width, width))
    if values is not None:
        build = _started(build, approximator, rows.x.shape[1], values)
    every = steps // RECORDS * BATCH
    found = sweep(
        build,
        FeatureTransitions(rows.x, rows.rewards - start, rows.x_next),
        settings=[STEPS.get(method, STEPS["residual"])],
        seeds=seeds,
        budget=every * RECORDS,
        record_every=every,
        window=every,
        record=_RECORDERS,
        batch_size=BATCH,
        approximator=approximator,
        optimizer=adam(0.0) if method.endswith("no-momentum") else adam(),
        target=_slow() if method == "diff-sgq" else CURRENT,
        workers=1,
        quiet=True,
    )
    sizes = (rows.x.shape[1], width, width, 1)
    rates = start + found.reward_rate[0]
    ends = [network(vector[-1], sizes) for vector in found.records["values"][0]]
    closed = [closed_form(layers, rows) for layers in ends]
    return Trained(
        rates,
        np.stack(
            [
                _curves(problem, rows, held_out, sizes, start + found.records["rate"][0, i], values, dual)
                for i, (values, dual) in enumerate(zip(found.records["values"][0], found.records["dual"][0]))
            ]
        ),
        np.stack([action_line(problem, layers, held_out.x[:PROBE]) for layers in ends]),
        np.array([rate for rate, _ in closed]),
        np.array([force for _, force in closed]),
    )


def true_values(problem: Problem, rows: Rows, *, steps: int, seed: int, width: int) -> Any:
    """A network fitted to q_π at the logged pairs and at the target's: parameters to start from."""
    x = np.vstack([rows.x, rows.x_next])
    found = sweep(
        regression,
        FeatureTransitions(x, problem.values(x), x),
        settings=[STEPS["residual"]],
        seeds=[seed],
        budget=steps * BATCH,
        record_every=steps * BATCH,
        window=BATCH,
        batch_size=BATCH,
        approximator=MLP((width, width)),
        optimizer=adam(),
        keep_final=True,
        workers=1,
        quiet=True,
    )
    return jax.tree.map(lambda leaf: leaf[0, 0], found.final["values"])


Layers = list[tuple[Array, Array]]


def network(vector: Array, sizes: tuple[int, ...]) -> Layers:
    """Weights `[out, in]` and biases `[out]` of each layer, from all of them in a row."""
    layers, first = [], 0
    for inputs, outputs in pairwise(sizes):
        last = first + inputs * outputs
        layers.append((vector[first:last].reshape(outputs, inputs), vector[last : last + outputs]))
        first = last + outputs
    return layers


def hidden(layers: Layers, x: Array) -> Array:
    """The inputs of the last layer, `[N, width]`."""
    weights, biases = zip(*layers[:-1])
    return np.asarray(networks.hidden(x, weights, biases, "relu"), dtype=np.float64)


def apply(layers: Layers, x: Array) -> Array:
    """The network's output, `[N]`."""
    weight, bias = layers[-1]
    return (hidden(layers, x) @ weight.T + bias)[:, 0]


def closed_form(layers: Layers, rows: Rows) -> tuple[float, float]:
    """The rate of the closed form with the last hidden layer as features, and that layer's force."""
    x, x_next = (hidden(layers, inputs[:CLOSED_FORM_ROWS]) for inputs in (rows.x, rows.x_next))
    problem = EmpiricalProblem(x, rows.rewards[:CLOSED_FORM_ROWS], x_next)
    ridge = RIDGE * float((x**2).mean())
    return problem.limit("diff-gq1", ridge=ridge).reward_rate, rate_force(x, x_next)


def action_line(problem: Problem, layers: Layers, x: Array) -> Array:
    """Mean of q at `SHARES` of the way from the target's action to the logged one, less the one at the logged action."""
    means = np.array([apply(layers, problem.along_actions(x, share)).mean() for share in SHARES])
    return np.asarray(means - apply(layers, x).mean())


def true_line(problem: Problem, x: Array) -> Array:
    """The same of q_π."""
    means = np.array([problem.values(problem.along_actions(x, share)).mean() for share in SHARES])
    return np.asarray(means - problem.values(x).mean())


def _curves(
    problem: Problem,
    rows: Rows,
    held_out: Rows,
    sizes: tuple[int, ...],
    rates: Array,
    values: Array,
    duals: Array,
) -> Array:
    """`CURVES` at every record, `[RECORDS, len(CURVES)]`."""
    seen, unseen = (Rows(*(part[:PROBE] for part in log)) for log in (rows, held_out))
    exact = problem.values(unseen.x), problem.values(unseen.x_next)
    found = np.full((len(rates), len(CURVES)), np.nan)
    for i, rate in enumerate(rates):
        layers = network(values[i], sizes)
        for k, log in enumerate((seen, unseen)):
            q, following = apply(layers, log.x), apply(layers, log.x_next)
            error = log.rewards - rate + following - q
            found[i, k] = (error**2).mean()
            if duals.shape[1] > 1:
                found[i, 2 + k] = ((error - apply(network(duals[i], sizes), log.x)) ** 2).mean()
        found[i, 4:] = np.corrcoef(q, exact[0])[0, 1], np.corrcoef(following, exact[1])[0, 1]
    return found


def _vector(params: Params) -> Any:
    leaves = jax.tree.leaves(params)
    return jnp.concatenate([leaf.ravel() for leaf in leaves]) if leaves else jnp.zeros(1)


def _rate(state: State) -> Any:
    return state.primal["rate"]


def _values(state: State) -> Any:
    return _vector(state.primal["values"])


def _dual(state: State) -> Any:
    return _vector(state.dual)


_RECORDERS = {"rate": _rate, "values": _values, "dual": _dual}


def _started(build: Any, approximator: MLP, inputs: int, values: Any) -> Objective:
    objective: Objective = (REGISTRY[build] if isinstance(build, str) else build)(approximator, inputs)

    def init(key: jax.Array) -> tuple[Params, Params]:
        primal, dual = objective.init(key)
        return {**primal, "values": jax.tree.map(jnp.asarray, values)}, dual

    return objective._replace(init=init)


# One object: programs are kept by what they were built from.
@cache
def _slow() -> Target:
    return tracked(0.005)
