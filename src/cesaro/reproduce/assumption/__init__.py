"""Tables 1 and 2: how often the assumption that F is positive semidefinite holds on random chains.

The paper's bounds assume (with the paper's symbols, P = P_π, D = diag(d_μ), 0 < ξ < 1)

    F = [[XᵀDX, XᵀDPX], [XᵀPᵀDX, ξ²XᵀDX]] ⪰ 0,

which says that the projected operator has norm at most ξ: ‖G^{-1/2} M G^{-1/2}‖₂ ≤ ξ, G = XᵀDX, M = XᵀDPX.
One norm per trial therefore answers for every ξ.
"""

from cesaro.reproduce.assumption.config import AssumptionConfig as Config

__all__ = ["Config"]
