"""`LinearSystem`: expectations, and what follows from them: TD fixed points, limits and stability of every method."""

from cesaro.linear import fixed_point, stability
from cesaro.linear.expectations import Expectations
from cesaro.linear.fixed_point import FixedPoint
from cesaro.linear.methods import AffineForm
from cesaro.linear.stability import Limit, Stability


class LinearSystem(Expectations):
    """Expectations over weighted rows `(x, r, E[x'] − x)`, and what follows from them for every method.

    `A, b, C` have the rate as first unknown; in `A2, b2, C2` it is eliminated; `A3, b3` have dual features without the constant.
    """

    def td_fixed_point(self) -> FixedPoint:
        """The solutions of `A u + b = 0`: unique, none or many."""
        return fixed_point.td_fixed_point(self)

    def limit(self, method: str | AffineForm, *, ridge: float = 0.0, lam: float = 1.0) -> Limit:
        """Where a method converges to from zero; raises `NoLimitError` with the reason where it does not.

        `method` is a name, or the affine form of a method of your own (`cesaro.learning.affine_form`).
        `lam` is GradientDICE's weight of the normalization.
        """
        return stability.limit(self, method, ridge=ridge, lam=lam)

    def stability(
        self, method: str | AffineForm, *, ridge: float = 0.0, lam: float = 1.0, rate_step_ratio: float = 1.0
    ) -> Stability:
        """Whether the mean dynamics of a method converge, how fast, and up to which step size.

        `method` is a name, or the affine form of a method of your own (`cesaro.learning.affine_form`).
        `rate_step_ratio` is `β/α` of Diff-GQ2.
        """
        return stability.stability(self, method, ridge=ridge, lam=lam, rate_step_ratio=rate_step_ratio)
