"""Single steps of every method against the update table of MATHS.md, transcribed line by line in NumPy (float64, 1e-12)."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.typing import NDArray

from cesaro.algorithms import REGISTRY, Algorithm, Batch, Objective, State, saddle_point
from cesaro.algorithms.saddle_point import copied, tracked
from cesaro.approximators import MLP, WIDE, Function, linear, linear_random

Array = NDArray[np.float64]
Variables = dict[str, Any]

TOLERANCE = 1e-12


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Sample(NamedTuple):
    """One `(x, R, x')`."""

    x: Array
    reward: float
    x_next: Array


# The table of MATHS.md: what α multiplies. `old` holds what the step sees through its target (the same unless a rule says so).


def diff_sgq(v: Variables, old: Variables, s: list[Sample], eta: float, lam: float) -> Variables:
    (x, R, x1), w, r = s[0], v["w"], v["rate"]
    return {
        "w": (R - old["rate"] + x1 @ old["w"] - x @ w) * x - eta * w,
        "rate": R + x1 @ old["w"] - x @ old["w"] - r,
    }


def diff_gq1(v: Variables, old: Variables, s: list[Sample], eta: float, lam: float) -> Variables:
    x, R, x1 = s[0]
    y, y1 = np.append(1.0, x), np.append(1.0, x1)
    u, nu = np.append(v["rate"], v["w"]), v["nu"]
    e1 = np.eye(len(u))[0]
    I0 = np.diag(1 - e1)
    delta = R - v["rate"] + x1 @ v["w"] - x @ v["w"]
    du = (y - y1 + e1) * (y @ nu) - eta * (I0 @ u)
    return {"nu": (delta - y @ nu) * y, "rate": du[0], "w": du[1:]}


def diff_gq2(v: Variables, old: Variables, s: list[Sample], eta: float, lam: float) -> Variables:
    (x1, R1, x1n), (x2, R2, x2n) = s
    w, nu = v["w"], v["nu"]
    rho1, rho2 = R1 + x1n @ w - x1 @ w, R2 + x2n @ w - x2 @ w
    seen1, seen2 = R1 + x1n @ old["w"] - x1 @ old["w"], R2 + x2n @ old["w"] - x2 @ old["w"]
    return {
        "nu": (rho1 - rho2 - x1 @ nu) * x1,
        "w": ((x1 - x1n) - (x2 - x2n)) * (x1 @ nu) - eta * w,
        "rate": 0.5 * (seen1 + seen2) - v["rate"],
    }


def diff_gq3(v: Variables, old: Variables, s: list[Sample], eta: float, lam: float) -> Variables:
    x, R, x1 = s[0]
    y, y1 = np.append(1.0, x), np.append(1.0, x1)
    u, nu = np.append(v["rate"], v["w"]), v["nu"]
    e1 = np.eye(len(u))[0]
    delta = R - v["rate"] + x1 @ v["w"] - x @ v["w"]
    du = (y - y1 + e1) * (x @ nu) - eta * u
    return {"nu": (delta - x @ nu) * x, "rate": du[0], "w": du[1:]}


def diff_gq4(v: Variables, old: Variables, s: list[Sample], eta: float, lam: float) -> Variables:
    (x, R, x1), w, r, nu = s[0], v["w"], v["rate"], v["nu"]
    rho = R + x1 @ w - x @ w
    return {"rate": rho - r, "nu": (rho - r - x @ nu) * x, "w": (x - x1) * (x @ nu) - eta * w}


def gradient_dice(v: Variables, old: Variables, s: list[Sample], eta: float, lam: float) -> Variables:
    (x, R, x1), theta, kappa, u, r = s[0], v["theta"], v["kappa"], v["u"], v["rate"]
    tau, f, f1 = theta @ x, kappa @ x, kappa @ x1
    return {
        "theta": -(x * (f1 - f + lam * u) + eta * theta),
        "kappa": tau * (x1 - x) - f * x,
        "u": lam * (tau - 1 - u),
        "rate": tau * R - r,
    }


Direction = Callable[[Variables, Variables, list[Sample], float, float], Variables]
TABLE: dict[str, Direction] = {
    "diff-sgq": diff_sgq,
    "diff-gq1": diff_gq1,
    "diff-gq2": diff_gq2,
    "diff-gq3": diff_gq3,
    "diff-gq4": diff_gq4,
    "gradient-dice": gradient_dice,
}
DUAL = ("nu", "kappa", "u")


def shapes(method: str, K: int) -> dict[str, int]:
    """The variables of a method: 0 for a scalar, else the length."""
    if method == "diff-sgq":
        return {"rate": 0, "w": K}
    if method == "gradient-dice":
        return {"rate": 0, "theta": K, "kappa": K, "u": 0}
    return {"rate": 0, "w": K, "nu": K + 1 if method == "diff-gq1" else K}


def random_variables(method: str, K: int, rng: np.random.Generator) -> Variables:
    return {name: float(rng.normal()) if n == 0 else rng.normal(size=n) for name, n in shapes(method, K).items()}


def random_samples(count: int, K: int, rng: np.random.Generator) -> list[Sample]:
    """Uncentred features, rewards away from zero."""
    return [Sample(rng.normal(size=K) + 0.7, float(rng.normal() + 0.4), rng.normal(size=K) + 0.7) for _ in range(count)]


def moved(
    method: str,
    v: Variables,
    groups: list[list[Sample]],
    *,
    alpha: float,
    dual_alpha: float | None = None,
    beta: float | None = None,
    eta: float = 0.0,
    lam: float = 1.0,
    old: Variables | None = None,
) -> Variables:
    """One step from `v` with the mean of the updates of all groups (a sample, or a pair for Diff-GQ2)."""
    each = [TABLE[method](v, v if old is None else old, group, eta, lam) for group in groups]
    result = {}
    for name, value in v.items():
        step = alpha if dual_alpha is None or name not in DUAL else dual_alpha
        if name == "rate" and beta is not None:
            step = beta
        result[name] = value + step * sum(one[name] for one in each) / len(each)
    return result


# Between the names of MATHS.md and the trees of the package.


def trees(method: str, v: Variables) -> tuple[dict[str, Any], dict[str, Any]]:
    if method == "gradient-dice":
        primal = {"rate": v["rate"], "ratio": {"weights": v["theta"]}}
        dual: dict[str, Any] = {"test": {"weights": v["kappa"]}, "normalizer": v["u"]}
    else:
        primal = {"rate": v["rate"], "values": {"weights": v["w"]}}
        dual = {}
        if method == "diff-gq1":
            dual = {"bias": v["nu"][0], "weights": v["nu"][1:]}
        elif method != "diff-sgq":
            dual = {"weights": v["nu"]}
    converted: tuple[dict[str, Any], dict[str, Any]] = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64), (primal, dual)
    )
    return converted


def variables(method: str, primal: Any, dual: Any) -> Variables:
    if method == "gradient-dice":
        return {
            "rate": float(primal["rate"]),
            "theta": np.asarray(primal["ratio"]["weights"]),
            "kappa": np.asarray(dual["test"]["weights"]),
            "u": float(dual["normalizer"]),
        }
    result: Variables = {"rate": float(primal["rate"]), "w": np.asarray(primal["values"]["weights"])}
    if method == "diff-gq1":
        result["nu"] = np.append(np.asarray(dual["bias"]), np.asarray(dual["weights"]))
    elif method != "diff-sgq":
        result["nu"] = np.asarray(dual["weights"])
    return result


def as_batch(groups: list[list[Sample]]) -> Batch:
    """`[k, b, …]` from b groups of k samples."""
    k = len(groups[0])
    return Batch(
        jnp.asarray(np.stack([[group[i].x for group in groups] for i in range(k)])),
        jnp.asarray(np.array([[group[i].reward for group in groups] for i in range(k)])),
        jnp.asarray(np.stack([[group[i].x_next for group in groups] for i in range(k)])),
    )


def numbers(**values: float) -> dict[str, Any]:
    return {name: jnp.asarray(value, jnp.float64) for name, value in values.items()}


def state_at(algorithm: Algorithm, method: str, v: Variables, hyper: dict[str, Any], **fields: Any) -> State:
    primal, dual = trees(method, v)
    return algorithm.init(jax.random.key(0), hyper)._replace(primal=primal, dual=dual, **fields)


def assert_same(actual: Variables, expected: Variables, message: str = "") -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=TOLERANCE, atol=TOLERANCE, err_msg=f"{message} {name}")


def build(method: str, K: int) -> Objective:
    return REGISTRY[method](linear, K)


def groups_of(objective: Objective, count: int, K: int, rng: np.random.Generator) -> list[list[Sample]]:
    return [random_samples(objective.minibatches, K, rng) for _ in range(count)]


def test_the_table_covers_the_registry() -> None:
    assert list(TABLE) == list(REGISTRY)


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("method", REGISTRY)
def test_a_step_is_the_update_of_the_table(method: str, case: int) -> None:
    """Random state, sample, ridge and λ; one feature, several and many; every field of the state after the step."""
    rng = np.random.default_rng([case, 1])
    K = (1, 2, 3, WIDE + 8)[case]
    objective = build(method, K)
    algorithm = saddle_point(objective)
    v, groups = random_variables(method, K, rng), groups_of(objective, 1, K, rng)
    alpha, eta, lam = rng.uniform(0.05, 0.9), rng.uniform(0.1, 2) * (case > 0), rng.uniform(0.2, 5)
    hyper = numbers(step_size=alpha, ridge=eta, lam=lam)
    state, _ = jax.jit(algorithm.step)(state_at(algorithm, method, v, hyper), as_batch(groups), hyper)
    expected = moved(method, v, groups, alpha=alpha, eta=eta, lam=lam)
    assert_same(variables(method, state.primal, state.dual), expected)
    assert all(np.max(np.abs(expected[name] - value)) > 1e-3 for name, value in v.items()), "every variable must move"
    assert (state.target, state.average, state.count) == (None, None, None)
    assert float(objective.reward_rate(state.primal)) == pytest.approx(expected["rate"], rel=TOLERANCE)
    assert algorithm.minibatches == (2 if method == "diff-gq2" else 1)


@pytest.mark.parametrize("method", REGISTRY)
def test_a_minibatch_is_the_mean_of_single_updates(method: str) -> None:
    """For Diff-GQ2 of paired ones: the j-th of the first minibatch with the j-th of the second."""
    rng = np.random.default_rng(2)
    K, size = 4, 7
    objective = build(method, K)
    algorithm = saddle_point(objective)
    v, groups = random_variables(method, K, rng), groups_of(objective, size, K, rng)
    hyper = numbers(step_size=0.3, ridge=0.45, lam=2.5)
    state, _ = jax.jit(algorithm.step)(state_at(algorithm, method, v, hyper), as_batch(groups), hyper)
    after = variables(method, state.primal, state.dual)
    assert_same(after, moved(method, v, groups, alpha=0.3, eta=0.45, lam=2.5))
    if method == "diff-gq2":  # pairs matter: with the second minibatch turned around it is another update
        turned = [[first, groups[size - 1 - j][1]] for j, (first, _) in enumerate(groups)]
        other = moved(method, v, turned, alpha=0.3, eta=0.45)
        assert np.max(np.abs(other["w"] - after["w"])) > 1e-3
        np.testing.assert_allclose(other["rate"], after["rate"], rtol=TOLERANCE)


@pytest.mark.parametrize("method", REGISTRY)
def test_dual_step_size_moves_the_dual_only(method: str) -> None:
    rng = np.random.default_rng(3)
    objective = build(method, 3)
    algorithm = saddle_point(objective)
    v, groups = random_variables(method, 3, rng), groups_of(objective, 2, 3, rng)
    hyper = numbers(step_size=0.2, dual_step_size=0.7, ridge=0.3, lam=1.7)
    state, _ = jax.jit(algorithm.step)(state_at(algorithm, method, v, hyper), as_batch(groups), hyper)
    expected = moved(method, v, groups, alpha=0.2, dual_alpha=0.7, eta=0.3, lam=1.7)
    assert_same(variables(method, state.primal, state.dual), expected)


@pytest.mark.parametrize("beta", [0.05, 0.9])
def test_diff_gq2_has_a_step_size_of_its_own_for_the_rate(beta: float) -> None:
    rng = np.random.default_rng(4)
    objective = build("diff-gq2", 3)
    algorithm = saddle_point(objective)
    v, groups = random_variables("diff-gq2", 3, rng), groups_of(objective, 3, 3, rng)
    hyper = numbers(step_size=0.2, rate_step_size=beta, dual_step_size=0.6, ridge=0.3)
    state, _ = jax.jit(algorithm.step)(state_at(algorithm, "diff-gq2", v, hyper), as_batch(groups), hyper)
    expected = moved("diff-gq2", v, groups, alpha=0.2, dual_alpha=0.6, beta=beta, eta=0.3)
    assert_same(variables("diff-gq2", state.primal, state.dual), expected)


def test_the_printed_forms_of_diff_gq2_are_not_what_is_computed() -> None:
    """Correction 1 of MATHS.md: `+ (x2 − x2')` in the main text, the sign of the whole flipped in the appendix."""
    rng = np.random.default_rng(5)
    objective = build("diff-gq2", 3)
    algorithm = saddle_point(objective)
    v, groups = random_variables("diff-gq2", 3, rng), groups_of(objective, 1, 3, rng)
    hyper = numbers(step_size=0.5, ridge=0.2)
    state, _ = jax.jit(algorithm.step)(state_at(algorithm, "diff-gq2", v, hyper), as_batch(groups), hyper)
    (x1, _, x1n), (x2, _, x2n) = groups[0]
    w, nu = v["w"], v["nu"]
    after = np.asarray(state.primal["values"]["weights"])
    right = w + 0.5 * (((x1 - x1n) - (x2 - x2n)) * (x1 @ nu) - 0.2 * w)
    main_text = w + 0.5 * (((x1 - x1n) + (x2 - x2n)) * (x1 @ nu) - 0.2 * w)
    appendix = w + 0.5 * ((-(x1 - x1n) + (x2 - x2n)) * (x1 @ nu) - 0.2 * w)
    np.testing.assert_allclose(after, right, rtol=TOLERANCE)
    assert np.min(np.abs(after - main_text)) > 1e-2
    assert np.min(np.abs(after - appendix)) > 1e-2


@pytest.mark.parametrize("power", [0.6, 1.0])
@pytest.mark.parametrize("method", REGISTRY)
def test_robbins_monro_step_sizes(method: str, power: float) -> None:
    """`α_k = a/(k + b)^p` from `k = 0`, for the primal, the dual and the rate of Diff-GQ2, over eight steps."""
    rng = np.random.default_rng(6)
    objective = build(method, 2)
    algorithm = saddle_point(objective, schedule="robbins-monro")
    step = jax.jit(algorithm.step)
    own = {"rate_step_size": 1.1} if method == "diff-gq2" else {}
    hyper = numbers(step_size=0.8, dual_step_size=1.3, ridge=0.2, lam=1.5, offset=3.5, power=power, **own)
    v = random_variables(method, 2, rng)
    state = state_at(algorithm, method, v, hyper)
    for k in range(8):
        groups = groups_of(objective, 1, 2, rng)
        state, _ = step(state, as_batch(groups), hyper)
        shrink = (k + 3.5) ** power
        beta = 1.1 / shrink if own else None
        v = moved(method, v, groups, alpha=0.8 / shrink, dual_alpha=1.3 / shrink, beta=beta, eta=0.2, lam=1.5)
        assert_same(variables(method, state.primal, state.dual), v, f"step {k}")
    assert int(state.count) == 8


# The projected variants: Projected Diff-GQ1 and Diff-GQ2 of the paper's appendix, with correction 1.


def into_ball(vector: Array, radius: float) -> Array:
    norm = np.linalg.norm(vector)
    return vector if norm <= radius else vector * (radius / norm)


def projected_step(
    method: str, v: Variables, average: Variables, groups: list[list[Sample]], radius: float, alpha: float, beta: float
) -> Variables:
    after = moved(method, v, groups, alpha=alpha, beta=beta if method == "diff-gq2" else None, old=average)
    after["nu"] = into_ball(after["nu"], radius)
    if method == "diff-gq1":
        u = into_ball(np.append(after["rate"], after["w"]), radius)
        after["rate"], after["w"] = float(u[0]), u[1:]
    else:
        after["w"] = into_ball(after["w"], radius)
    return after


@pytest.mark.parametrize("radius", [0.3, 1.0, 1e4])
@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2"])
def test_projected_variants_follow_the_paper(method: str, radius: float) -> None:
    """Forty steps from zero: both vectors in their balls (`u = [r̂, w]` jointly in Diff-GQ1; `w` without `r̂` in Diff-GQ2),
    plain running averages reported, and Diff-GQ2's rate following the average of `w` from before the step."""
    rng = np.random.default_rng(7)
    K, alpha, beta = 3, 0.15, 0.1
    objective = build(method, K)
    algorithm = saddle_point(objective, is_projected=True)
    step = jax.jit(algorithm.step)
    own = {"rate_step_size": beta} if method == "diff-gq2" else {}
    hyper = numbers(step_size=alpha, ridge=0.0, radius=radius, **own)
    state = algorithm.init(jax.random.key(0), hyper)
    v: Variables = {"rate": 0.0, "w": np.zeros(K), "nu": np.zeros(shapes(method, K)["nu"])}
    history: list[Variables] = []
    bound, rates = 0, []
    for k in range(40):
        groups = groups_of(objective, 1, K, rng)
        average = {
            "rate": np.mean([h["rate"] for h in history]) if history else 0.0,
            "w": np.mean([h["w"] for h in history], axis=0) if history else np.zeros(K),
        }
        v = projected_step(method, v, average, groups, radius, alpha, beta)
        history.append(v)
        state, _ = step(state, as_batch(groups), hyper)
        assert_same(variables(method, state.primal, state.dual), v, f"step {k}")
        reported = algorithm.report(state)
        np.testing.assert_allclose(
            float(reported["rate"]), np.mean([h["rate"] for h in history]), rtol=1e-11, atol=1e-13
        )
        np.testing.assert_allclose(
            np.asarray(reported["values"]["weights"]),
            np.mean([h["w"] for h in history], axis=0),
            rtol=1e-11,
            atol=1e-13,
        )
        bound += int(np.linalg.norm(v["nu"]) > 0.999 * radius)
        rates.append(abs(v["rate"]))
    assert (bound > 0) == (radius < 2), "the balls bind for the small radii and not for the large one"
    if radius == 0.3:
        assert (max(rates) > radius) == (method == "diff-gq2"), "only Diff-GQ1's rate is projected"


def test_the_projected_rate_of_diff_gq2_differs_from_the_plain_one() -> None:
    """The test above could not tell `w̄` from `w` if the two gave the same rate."""
    rng = np.random.default_rng(8)
    v, average = random_variables("diff-gq2", 3, rng), random_variables("diff-gq2", 3, rng)
    groups = [random_samples(2, 3, rng)]
    followed = projected_step("diff-gq2", v, average, groups, 9.0, 0.1, 0.1)["rate"]
    assert abs(followed - projected_step("diff-gq2", v, v, groups, 9.0, 0.1, 0.1)["rate"]) > 1e-2


# Target rules, in the neural form of MATHS.md: the target in both places.


def test_diff_sgq_with_a_copied_target() -> None:
    rng = np.random.default_rng(9)
    algorithm = saddle_point(build("diff-sgq", 3), target=copied(4))
    step = jax.jit(algorithm.step)
    hyper = numbers(step_size=0.2, ridge=0.1)
    v = random_variables("diff-sgq", 3, rng)
    old = random_variables("diff-sgq", 3, rng)
    state = state_at(algorithm, "diff-sgq", v, hyper, target=trees("diff-sgq", old)[0])
    for k in range(1, 14):
        groups = [random_samples(1, 3, rng)]
        v = moved("diff-sgq", v, groups, alpha=0.2, eta=0.1, old=old)
        if k % 4 == 0:
            old = v
        state, _ = step(state, as_batch(groups), hyper)
        assert_same(variables("diff-sgq", state.primal, {}), v, f"step {k}")
        assert_same(variables("diff-sgq", state.target, {}), old, f"target {k}")


def test_diff_sgq_with_a_tracked_target() -> None:
    rng = np.random.default_rng(10)
    algorithm = saddle_point(build("diff-sgq", 3), target=tracked(0.3))
    step = jax.jit(algorithm.step)
    hyper = numbers(step_size=0.2, ridge=0.1)
    v = random_variables("diff-sgq", 3, rng)
    old = random_variables("diff-sgq", 3, rng)
    state = state_at(algorithm, "diff-sgq", v, hyper, target=trees("diff-sgq", old)[0])
    for k in range(10):
        groups = [random_samples(1, 3, rng)]
        v = moved("diff-sgq", v, groups, alpha=0.2, eta=0.1, old=old)
        old = {name: old[name] + 0.3 * (v[name] - old[name]) for name in v}
        state, _ = step(state, as_batch(groups), hyper)
        assert_same(variables("diff-sgq", state.primal, {}), v, f"step {k}")
        assert_same(variables("diff-sgq", state.target, {}), old, f"target {k}")


def test_a_target_starts_as_the_primal_and_copied_every_step_is_no_target() -> None:
    rng = np.random.default_rng(11)
    objective = build("diff-sgq", 3)
    hyper = numbers(step_size=0.2, ridge=0.1)
    with_target, plain = saddle_point(objective, target=copied(1)), saddle_point(objective)
    first, second = (a.init(jax.random.key(0), hyper) for a in (with_target, plain))
    steps = jax.jit(with_target.step), jax.jit(plain.step)
    jax.tree.map(np.testing.assert_array_equal, first.target, first.primal)
    for _ in range(5):
        batch = as_batch([random_samples(1, 3, rng)])
        first, _ = steps[0](first, batch, hyper)
        second, _ = steps[1](second, batch, hyper)
        jax.tree.map(np.testing.assert_array_equal, first.primal, second.primal)


# What is not linear, and what is not a plain gradient.


def network(num_inputs: int, *, bias: bool) -> Function:
    """Four tanh units; nothing in it is linear in its parameters."""

    def init(key: Any) -> Any:
        rng = np.random.default_rng(int(jax.random.key_data(key)[-1]))
        return {"in": jnp.asarray(rng.normal(size=(num_inputs, 4))), "out": jnp.asarray(rng.normal(size=4))}

    return Function(init, lambda params, x: jnp.tanh(x @ params["in"]) @ params["out"])


@pytest.mark.parametrize("size", [3, WIDE + 3])
def test_a_change_is_the_difference_of_two_values(size: int) -> None:
    """Of linear functions with a bias and without, narrow and wide, of networks, and of functions of one's own."""
    x, x_next = np.random.default_rng(13).normal(size=(2, 5, size))
    with jax.enable_x64(True):
        for approximator in (linear_random, MLP(widths=(4,), head_scale=1.0), network):
            for bias in (False, True):
                function = approximator(size, bias=bias)
                params = function.init(jax.random.key(2))
                found = function.change(params, jnp.asarray(x), jnp.asarray(x_next))
                expected = function.apply(params, jnp.asarray(x_next)) - function.apply(params, jnp.asarray(x))
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_neural_diff_sgq_uses_the_target_network_in_both_places() -> None:
    """`θ += α (R − r̂⁻ + q⁻(x') − q(x)) ∇q(x)`, `r̂ += α (R + q⁻(x') − q⁻(x) − r̂)`."""
    rng = np.random.default_rng(12)
    objective = REGISTRY["diff-sgq"](network, 3)
    algorithm = saddle_point(objective, target=copied(100))
    hyper = numbers(step_size=0.3, ridge=0.0)
    state = algorithm.init(jax.random.key(1), hyper)
    state = state._replace(
        primal={"rate": jnp.asarray(0.4), "values": state.primal["values"]},
        target={"rate": jnp.asarray(-0.6), "values": jax.tree.map(lambda p: p + 0.2, state.primal["values"])},
    )
    (sample,) = random_samples(1, 3, rng)
    after, _ = jax.jit(algorithm.step)(state, as_batch([[sample]]), hyper)
    apply = jax.jit(network(3, bias=False).apply)
    theta, old = state.primal["values"], state.target["values"]
    x, x1, R = jnp.asarray(sample.x), jnp.asarray(sample.x_next), sample.reward
    error = R + 0.6 + apply(old, x1) - apply(theta, x)
    expected = jax.tree.map(lambda p, g: p + 0.3 * error * g, theta, jax.jit(jax.grad(apply))(theta, x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=TOLERANCE), after.primal["values"], expected)
    rate = 0.4 + 0.3 * (R + apply(old, x1) - apply(old, x) - 0.4)
    np.testing.assert_allclose(float(after.primal["rate"]), float(rate), rtol=TOLERANCE)


def test_neural_diff_gq1_is_a_true_gradient() -> None:
    """`θ += α τ(x) ∇(q(x) − q(x'))`, `r̂ += α τ(x)`, `θ_τ += α (δ − τ(x)) ∇τ(x)`."""
    rng = np.random.default_rng(13)
    algorithm = saddle_point(REGISTRY["diff-gq1"](network, 3))
    hyper = numbers(step_size=0.3, ridge=0.0)
    state = algorithm.init(jax.random.key(2), hyper)
    (sample,) = random_samples(1, 3, rng)
    after, _ = jax.jit(algorithm.step)(state, as_batch([[sample]]), hyper)
    apply = jax.jit(network(3, bias=False).apply)
    theta, nu = state.primal["values"], state.dual
    x, x1 = jnp.asarray(sample.x), jnp.asarray(sample.x_next)
    tau, delta = apply(nu, x), sample.reward + apply(theta, x1) - apply(theta, x)
    here, there = jax.jit(jax.grad(apply))(theta, x), jax.jit(jax.grad(apply))(theta, x1)
    expected = jax.tree.map(lambda p, g, h: p + 0.3 * tau * (g - h), theta, here, there)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), after.primal["values"], expected)
    dual = jax.tree.map(lambda p, g: p + 0.3 * (delta - tau) * g, nu, jax.jit(jax.grad(apply))(nu, x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11), after.dual, dual)
    np.testing.assert_allclose(float(after.primal["rate"]), 0.3 * float(tau), rtol=TOLERANCE)


@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2"])
def test_an_optimizer_transforms_directions_before_step_sizes_multiply_them(method: str) -> None:
    """Momentum: `m ← ½ m + direction`, with its own memory for primal and dual, and all three step sizes behind it."""
    rng = np.random.default_rng(14)
    objective = build(method, 2)
    algorithm = saddle_point(objective, optimizer=optax.trace(decay=0.5))
    step = jax.jit(algorithm.step)
    own = {"rate_step_size": 0.4} if method == "diff-gq2" else {}
    hyper = numbers(step_size=0.1, dual_step_size=0.2, ridge=0.3, **own)
    v = random_variables(method, 2, rng)
    state = state_at(algorithm, method, v, hyper)
    memory: Variables = dict.fromkeys(v, 0.0)
    for k in range(5):
        groups = groups_of(objective, 1, 2, rng)
        direction = TABLE[method](v, v, groups[0], 0.3, 1.0)
        memory = {name: 0.5 * memory[name] + direction[name] for name in v}
        steps = {"w": 0.1, "nu": 0.2, "rate": 0.4 if own else 0.1}
        v = {name: v[name] + steps[name] * memory[name] for name in v}
        state, _ = step(state, as_batch(groups), hyper)
        assert_same(variables(method, state.primal, state.dual), v, f"step {k}")


def test_the_scalar_is_the_one_that_the_paper_states() -> None:
    """`Info` carries it: `τ(ρ − r̂) − ½τ² + ½η‖w‖²` (Diff-GQ1), and `L_k` of the appendix for GradientDICE."""
    rng = np.random.default_rng(15)
    (sample,) = random_samples(1, 3, rng)
    x, R, x1 = sample
    hyper = numbers(step_size=0.1, ridge=0.7, lam=2.2)
    v = random_variables("diff-gq1", 3, rng)
    algorithm = saddle_point(build("diff-gq1", 3))
    _, info = jax.jit(algorithm.step)(state_at(algorithm, "diff-gq1", v, hyper), as_batch([[sample]]), hyper)
    tau = v["nu"] @ np.append(1.0, x)
    rho = R + x1 @ v["w"] - x @ v["w"]
    expected = tau * (rho - v["rate"]) - tau**2 / 2 + 0.35 * v["w"] @ v["w"]
    np.testing.assert_allclose(float(info.lagrangian), expected, rtol=TOLERANCE)
    v = random_variables("gradient-dice", 3, rng)
    algorithm = saddle_point(build("gradient-dice", 3))
    _, info = jax.jit(algorithm.step)(state_at(algorithm, "gradient-dice", v, hyper), as_batch([[sample]]), hyper)
    tau, f, f1, u = v["theta"] @ x, v["kappa"] @ x, v["kappa"] @ x1, v["u"]
    expected = tau * f1 - tau * f - f**2 / 2 + 2.2 * (u * tau - u - u**2 / 2) + 0.35 * v["theta"] @ v["theta"]
    expected += (tau * R - v["rate"]) ** 2 / 2  # the tracked rate
    np.testing.assert_allclose(float(info.lagrangian), expected, rtol=TOLERANCE)


@pytest.mark.parametrize("method", REGISTRY)
def test_iterates_start_at_zero_and_values_are_linear(method: str) -> None:
    rng = np.random.default_rng(16)
    objective = build(method, 4)
    primal, dual = objective.init(jax.random.key(3))
    v = variables(method, primal, dual)
    assert {name: np.shape(value) for name, value in v.items()} == {
        name: (n,) if n else () for name, n in shapes(method, 4).items()
    }
    assert all(not np.any(value) for value in v.values())
    if method == "gradient-dice":
        assert objective.values is None
    else:
        assert objective.values is not None
        v, x = random_variables(method, 4, rng), rng.normal(size=(5, 4))
        q = objective.values(trees(method, v)[0], jnp.asarray(x))
        np.testing.assert_allclose(np.asarray(q), x @ v["w"], rtol=TOLERANCE)
