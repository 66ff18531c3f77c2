"""Figure 4 and the appendix's figure: MuJoCo tasks with networks, four methods with the whole grid of settings.

The target is the deterministic actor of an environment, the behavior the same with normal noise of standard deviation σ on its
actions. Every setting of every method learns from 30 streams of 1,000 minibatches of 100 transitions; what counts is |r_π − mean
r̂ over the last 100 minibatches|, and each method shows its best setting, by the truth.

Beside r̂, every method has a second estimate from the networks it ends at, over all rows: the mean of `R + q(x') − q(x)`, or for
GradientDICE that of `τ(x) R`.
"""

from cesaro.reproduce.mujoco.config import MujocoConfig as Config

__all__ = ["Config"]
