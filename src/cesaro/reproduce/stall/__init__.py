"""Why neural Diff-GQ1, trained on, stays near the rate of the log: three explanations, and experiments that tell them apart.

Slow: Diff-GQ1 descends a squared residual, whose conditioning is that of the semi-gradient squared; it would get there, late.
Noise: its dual fits the noise of single transitions; the objective becomes E[δ²], and its minimum is elsewhere.
Free: logged pairs (s, a) and the target's (s', a') are different points, between which a network can bend; some q makes δ small
for every r̂, and nothing pushes r̂ on.

Exact parts (`exact`): a slowly mixing walk for the first, closed forms under noise for the second. Networks
(`networks`) on a problem whose answer is known (`problem`) for the third, and for which of them is at work.
"""

from cesaro.reproduce.stall.config import HELD, PROBLEMS, QUICK, Config, Key
from cesaro.reproduce.stall.exact import rate_force
from cesaro.reproduce.stall.result import Result
from cesaro.reproduce.stall.run import run
from cesaro.reproduce.stall.show import plot

__all__ = [
    "HELD",
    "PROBLEMS",
    "QUICK",
    "Config",
    "Key",
    "Result",
    "plot",
    "rate_force",
    "run",
]
