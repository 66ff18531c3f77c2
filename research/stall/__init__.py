"""Why a network trained with Diff-GQ1 stays near the log's rate: slow, misled by noise, or free to fit any rate?

Slow: Diff-GQ1 descends a squared residual, whose conditioning is that of the semi-gradient squared; it would get there, late.
Noise: its dual fits the noise of single transitions; the objective becomes E[δ²], and its minimum is elsewhere.
Free: logged pairs (s, a) and the target's (s', a') are different points, between which a network can bend; some q makes δ small
for every r̂, and nothing pushes r̂ on.

Exact parts (`exact`): a slowly mixing walk for the first, closed forms under noise for the second. Networks
(`networks`) on a problem whose answer is known (`problem`) for the third, and for which of them is at work.
"""

from research.stall.config import StallConfig as Config

__all__ = ["Config"]
