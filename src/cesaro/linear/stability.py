"""Does a method converge here, to what, how fast, and with which step sizes? From `G` and `h` of its mean update."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs, schur
from scipy.sparse.linalg import LinearOperator, eigs

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import NoLimitError
from cesaro.linear import fixed_point
from cesaro.linear.expectations import Expectations
from cesaro.linear.fixed_point import Reduced
from cesaro.linear.methods import AffineForm, LimitPoint, form_of
from cesaro.linear.methods.base import MeanUpdate, MethodSettings, SampleUpdates, settings

# For methods that are no saddles, eigenvalues with a real part above −MARGIN·max|λ| do not count as stable.
MARGIN = 1e-14
# Smallest cosine between range and row space of G at which a zero eigenvalue counts as semisimple.
SEMISIMPLE = 1e-8
# Relative accuracy of the largest sampled step.
TOLERANCE = 1e-10
# The grid on which instability is looked for, as a part of the ridge that is safe, and the relative accuracy of where it ends.
SMALLEST_RIDGE, RIDGES, RIDGE_ACCURACY = 1e-6, 61, 1e-10


@dataclass(frozen=True)
class Limit:
    """Where a method converges to, started at zero.

    Attributes:
        reward_rate: the limit of `r̂`.
        weights: the limit of `w`, `[K]`; None for GradientDICE. Where only the rate is determined, the least-‖w‖ choice.
        ratio_weights: the limit of `θ`, `[K]`, for GradientDICE: `density ratio ≈ Xθ`; None otherwise.
        weights_are_unique: whether the weights are determined too.
    """

    reward_rate: float
    weights: Array | None
    ratio_weights: Array | None
    weights_are_unique: bool


@dataclass(frozen=True)
class Stability:
    """The long-run behavior of one method on one problem.

    Attributes:
        converges: whether the expected update converges for small steps: every non-zero eigenvalue of `G` has negative
            real part, zero eigenvalues are semisimple, and `h` lies in the range of `G`.
        reason: one sentence that says why.
        eigenvalues: of `G`, zeros included, by real part.
        determined: for each variable, whether its limit is independent of the start.
        max_step_expected: largest constant step of the expected update; None if there is none.
        mean: the mean update itself.
        form: the affine form of the method.
    """

    method: str
    converges: bool
    reason: str
    eigenvalues: NDArray[np.complex128]
    determined: dict[str, bool]
    max_step_expected: float | None
    mean: MeanUpdate
    form: AffineForm = field(repr=False)
    _problem: Expectations = field(repr=False)
    _reduced: Reduced = field(repr=False)
    _sampled: Expectations = field(repr=False)
    _settings: MethodSettings = field(repr=False)
    _tolerance: float = field(repr=False, default=TOLERANCE)

    @cached_property
    def max_step_sampled(self) -> float | None:
        """Largest constant step at which the sampled update is bounded in mean square; None if there is none.

        The spectral radius of `E[(I + αG_k) ⊗ (I + αG_k)]` is at most one up to this `α` and above one beyond it.
        """
        samples = self.form.samples(self._sampled, self._settings)
        ratio = self.form.own_rate_step(self._settings)
        if ratio is None:
            return largest_sampled_step(samples, self._tolerance)
        # By itself, r̂ forgets as 1 − β does, which is stable up to β = 2.
        others = np.delete(np.eye(self.mean.layout.size), self.mean.layout.rate, axis=1)
        step = largest_sampled_step(samples.project(others), self._tolerance)
        return None if step is None else min(step, 2 / ratio)

    @cached_property
    def min_ridge(self) -> float:
        """The least ridge above which the expected update converges, whatever the ridge is here.

        It is 0 where every positive ridge does, as for saddles, and NaN for a method of your own. Others converge above the
        `safe_ridge` of their form; below, growing directions are looked for on a grid, ten ridges per factor of ten, and the
        last ridge that has one is found by bisection.
        """
        top = self.form.safe_ridge(self._problem)
        if not top > 0:
            return top
        ridges = [0.0, *np.geomspace(SMALLEST_RIDGE * top, top, RIDGES)]
        unstable = [i for i, ridge in enumerate(ridges[:-1]) if self._grows(ridge)]
        if not unstable:
            return 0.0
        low, high = ridges[unstable[-1]], ridges[unstable[-1] + 1]
        while high - low > RIDGE_ACCURACY * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._grows(middle) else (low, middle)
        return float(high)

    def _grows(self, ridge: float) -> bool:
        """Whether the expected update with that ridge has a growing direction."""
        s = self._settings
        found = stability(self._problem, self.form, ridge=ridge, lam=s.lam, rate_step_ratio=s.rate_step_ratio)
        return bool(((found.eigenvalues != 0) & (found.eigenvalues.real >= 0)).any())

    def time_constant(self, step_size: float) -> float:
        """Updates after which the slowest determined direction has shrunk by `e`, for small steps."""
        alpha = checks.number("step_size", step_size, low=0.0, low_open=True)
        nonzero = self.eigenvalues[self.eigenvalues != 0]
        if not self.converges:
            return float("inf")
        return float(1 / (alpha * np.min(np.abs(nonzero.real)))) if len(nonzero) else 0.0


@checks.decomposing("The stability of the method")
def stability(
    problem: Expectations,
    method: str | AffineForm,
    *,
    ridge: float,
    lam: float,
    rate_step_ratio: float = 1.0,
    batch_size: int = 1,
    sampled: Expectations | None = None,
    tolerance: float = TOLERANCE,
) -> Stability:
    """Analyze the mean update of a method.

    `sampled` holds the single samples behind `max_step_sampled`, where those of `problem` are too many; `tolerance` is its
    relative accuracy.
    """
    form, chosen = form_of(method), settings(ridge, lam, rate_step_ratio, batch_size)
    mean = form.mean(problem, chosen)
    rows, columns = _scales(problem, form, mean, chosen.ridge)
    reduced = fixed_point.reduce(mean.G, rows, columns)
    # G = left·diag(core)·rightᵀ, so its non-zero eigenvalues are those of the small matrix diag(core)·rightᵀ·left.
    nonzero = np.linalg.eigvals(reduced.core[:, None] * (reduced.right.T @ reduced.left))
    zeros = mean.layout.size - len(nonzero)
    angle = np.linalg.svd(np.linalg.qr(reduced.right)[0].T @ np.linalg.qr(reduced.left)[0], compute_uv=False)
    outside = reduced.solve(mean.h)[1] if mean.h.any() else 0.0
    is_saddle = form.is_saddle(chosen)
    if is_saddle:
        nonzero = np.minimum(nonzero.real, -np.finfo(np.float64).eps * np.abs(nonzero)) + 1j * nonzero.imag
        unstable = nonzero[:0]
    else:
        unstable = nonzero[nonzero.real >= -MARGIN * float(np.max(np.abs(nonzero), initial=0.0))]
    if len(unstable):
        worst = unstable[np.argmax(unstable.real)]
        reason = (
            f"G has an eigenvalue {_show(worst)} whose real part is not negative, so that the expected update diverges."
        )
    elif not is_saddle and zeros and len(angle) and angle.min() < SEMISIMPLE:
        reason = "A zero eigenvalue of G is defective, so that the expected update grows without bound."
    elif not is_saddle and outside > fixed_point.RANGE_TOLERANCE:
        reason = "h is not in the range of G: there is no fixed point, and the expected update drifts forever."
    else:
        reason = f"All {len(nonzero)} non-zero eigenvalues of G have negative real parts."
        if zeros:
            reason += f" {zeros} directions never move or never matter; see `determined`."
    converges = reason.startswith("All")
    outside_row_space = np.linalg.norm(reduced.null, axis=1)
    determined = {name: bool(share < 1e-7) for name, share in zip(mean.layout.names, outside_row_space)}
    moving = nonzero[nonzero != 0]  # beside huge ones, small eigenvalues are rounded to zero, and bound no step
    step = float(np.min(-2 * moving.real / np.abs(moving) ** 2)) if converges and len(moving) else None
    eigenvalues = np.concatenate([nonzero, np.zeros(zeros)]).astype(np.complex128)
    return Stability(
        method=form.name,
        converges=converges,
        reason=reason,
        eigenvalues=eigenvalues[np.argsort(-eigenvalues.real, kind="stable")],
        determined=determined,
        max_step_expected=step,
        mean=mean,
        form=form,
        _problem=problem,
        _reduced=reduced,
        _sampled=problem if sampled is None else sampled,
        _settings=chosen,
        _tolerance=tolerance,
    )


@checks.decomposing("The limit of the method")
def limit(problem: Expectations, method: str | AffineForm, *, ridge: float, lam: float) -> Limit:
    """The fixed point of the mean update, where it attracts and determines the rate."""
    result = stability(problem, method, ridge=ridge, lam=lam)
    form, name = result.form, result.method
    if reason := form.why_no_limit(result._settings):
        raise NoLimitError(reason)
    if not result.converges:
        raise NoLimitError(f"{name} with ridge {ridge:g} has no limit on this problem: {result.reason}")
    order = result.mean.layout
    if not result.determined["reward_rate"]:
        remedy = "take ridge > 0" if ridge == 0 else "add features that tell the sampled pairs apart"
        raise NoLimitError(
            f"{name} with ridge {ridge:g} has no single limit on this problem: the rate it ends at depends on where it "
            f"starts, because several rates solve its equations; {remedy}."
        )
    point = fixed_point.td_fixed_point(problem) if ridge == 0 and form.ends_at_td_fixed_point else None
    if point is not None and point.kind == "unique" and point.reward_rate is not None:
        return Limit(point.reward_rate, point.weights, None, True)
    solution = fixed_point.least_norm(result._reduced.solve(-result.mean.h)[0], result._reduced.null, order.weights)
    weights = solution[order.weights]
    return Limit(
        reward_rate=float(solution[order.rate]),
        weights=None if form.learns_ratio else weights,
        ratio_weights=weights if form.learns_ratio else None,
        weights_are_unique=all(result.determined[name] for name in order.names[order.weights]),
    )


def limit_point(problem: Expectations, found: Stability) -> LimitPoint:
    """Solve for where the method ends, and for `p = −e_r̂ᵀ G⁺`, which turns the update of a row into its influence on the rate."""
    order, reduced = found.mean.layout, found._reduced
    unit = np.zeros(order.size)
    unit[order.rate] = 1.0
    return LimitPoint(
        layout=order,
        settings=found._settings,
        point=fixed_point.least_norm(reduced.solve(-found.mean.h)[0], reduced.null, order.weights),
        row=reduced.solve_transposed(-unit),
        mean_features=problem.c,
        mean_change=problem.g,
    )


def largest_sampled_step(samples: SampleUpdates, tolerance: float = TOLERANCE) -> float | None:
    """The largest `α` with `ρ(E[(I + αG_k) ⊗ (I + αG_k)]) ≤ 1`.

    At that step some positive semidefinite `Σ` satisfies `GΣ + ΣGᵀ + α E[G_k Σ G_kᵀ] = 0`; with `𝓛` the Lyapunov operator
    of `G`, `Σ = α (−𝓛)⁻¹ E[G_k Σ G_kᵀ]`, an eigenvalue problem for a positive operator: `α` is one over its spectral
    radius. Directions that no sample moves and directions that no sample reads have eigenvalue one at every step and are
    taken out first.
    """
    samples = _without_idle_directions(samples)
    size = samples.constant.shape[0]
    if size == 0:
        return float("inf")
    triangular, basis = schur(samples.mean, output="real")
    eigenvalues = np.linalg.eigvals(triangular)
    if np.max(eigenvalues.real) >= -MARGIN * np.max(np.abs(eigenvalues)):
        return None
    (trsyl,) = get_lapack_funcs(("trsyl",), (triangular, triangular))

    def lyapunov_inverse(vector: Array) -> Array:
        matrix = vector.reshape(size, size)
        forcing = basis.T @ samples.second_moment((matrix + matrix.T) / 2) @ basis
        solution, scale, _ = trsyl(triangular, triangular, -forcing, tranb="C")
        return np.asarray((basis @ (scale * solution) @ basis.T).ravel())

    return 1 / _spectral_radius(lyapunov_inverse, size * size, tolerance)


def _spectral_radius(apply: Callable[[Array], Array], size: int, tolerance: float) -> float:
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    if size <= 16:
        return float(np.max(np.abs(np.linalg.eigvals(operator @ np.eye(size)))))
    start = np.eye(int(np.sqrt(size))).ravel()
    vectors = None if tolerance == TOLERANCE else 8  # few, where a rough answer will do
    value = eigs(operator, k=1, which="LM", v0=start, return_eigenvectors=False, tol=tolerance, ncv=vectors)[0]
    return float(np.abs(value))


def _without_idle_directions(samples: SampleUpdates) -> SampleUpdates:
    size = -1
    while samples.constant.shape[0] not in (0, size):
        size = samples.constant.shape[0]
        for transposed in (False, True):
            values, vectors = np.linalg.eigh(
                samples.second_moment(np.eye(len(samples.constant)), transposed=transposed)
            )
            samples = samples.project(vectors[:, values > 1e-13 * max(values[-1], 1e-300)])
            if samples.constant.shape[0] == 0:
                break
    return samples


def _scales(problem: Expectations, form: AffineForm, mean: MeanUpdate, ridge: float) -> tuple[Array, Array]:
    """Scales of the rows and columns of `G` under which units of features and rewards do not matter."""
    scale = np.ones(mean.layout.size)
    scale[mean.layout.weights] = fixed_point.feature_scale(problem, ridge)
    dual = scale[mean.layout.dual]
    features = fixed_point.feature_scale(problem)
    dual[len(dual) - min(len(dual), len(features)) :] = features[: len(dual)]
    rows, columns = scale.copy(), scale
    if form.only_rate_has_unit:
        size = float(np.sqrt(problem.d @ problem.r**2)) or 1.0
        rows[mean.layout.rate], columns[mean.layout.rate] = 1 / size, size
    return rows, columns


def _show(value: complex) -> str:
    return f"{value.real:.4g}" if abs(value.imag) <= 1e-12 * abs(value) else f"{value.real:.4g}{value.imag:+.4g}i"
