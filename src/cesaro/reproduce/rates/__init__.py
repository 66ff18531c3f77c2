"""The finite-sample analysis: how fast Projected Diff-GQ1 and Diff-GQ2 approach the TD fixed point.

The guarantee (appendix of the paper): with a constant step α ∝ N^{−½} for a run of N samples, iterates kept in balls that hold
the solution, and averages reported, ‖ū − u_TD‖² ≤ K₀ √(5/N) (8 + 2 log(2/δ)) with probability at least 1 − δ (for Diff-GQ2 of the
weights alone; printed with a factor δ too many). So not only means over runs have to fall like N^{−½} but quantiles, at one K₀
for all δ. The error to r_π then has a floor, what the features cannot express. Diff-GQ2's r̂ follows the averaged weights with a
constant step β, and its mean square error keeps a term O(1), the variance of a constant-step average.

What to expect: the update is affine, so that the average of N iterates errs by the forgetting of the start, (−G)⁻¹(κ₀ − κ*)/(αN),
and by noise of variance O(1/N). With α ∝ N^{−½} both squares are O(1/N): the bound is not tight here.
"""

from cesaro.reproduce.rates.config import RatesConfig as Config

__all__ = ["Config"]
