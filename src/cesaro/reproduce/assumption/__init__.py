"""Tables 1 and 2: how often is F positive semidefinite on random chains?

The paper's bounds assume (with the paper's symbols, P = P_π, D = diag(d_μ), 0 < ξ < 1)

    F = [[XᵀDX, XᵀDPX], [XᵀPᵀDX, ξ²XᵀDX]] ⪰ 0,

which says that the projected operator has norm at most ξ: ‖G^{-1/2} M G^{-1/2}‖₂ ≤ ξ, G = XᵀDX, M = XᵀDPX.
One norm per trial therefore answers for every ξ.
"""

from cesaro.reproduce.assumption.config import QUICK, Config
from cesaro.reproduce.assumption.result import PUBLISHED, Cell, Result
from cesaro.reproduce.assumption.run import norms, projected_norms, run
from cesaro.reproduce.assumption.show import plot

__all__ = [
    "PUBLISHED",
    "QUICK",
    "Cell",
    "Config",
    "Result",
    "norms",
    "plot",
    "projected_norms",
    "run",
]
