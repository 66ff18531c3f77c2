"""Blocked state reduction (Grassmann, Taksar and Heyman, 1985) for dense and banded chains.

State reduction factors `I − P = (I − T)(diag(s) − L)` with `T` strictly upper, `L` strictly lower, both non-negative, and
every pivot `s_k` computed as a sum of off-diagonal entries, never as `1 − p_kk`. Nothing is ever subtracted, so each
entry of the stationary law keeps its digits even if the chain nearly falls apart. The blocked form eliminates a panel of
states at a time: the panel needs only the *sums* of its rows over the states that remain, and the rest is two triangular
solves and one matrix product, all over non-negative numbers.

A unichain needs no splitting: with a recurrent state in front, every pivot behind it is positive, and transient states
receive an exact zero.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from cesaro.checks import Array
from cesaro.errors import ToleranceError
from cesaro.mdp import Chain

# States per panel: large for dense chains, where the products dominate; small for bands, which a panel widens.
BLOCK = 64
DENSE_BLOCK = 128
STRIP = 256
# Numbers below this, relative to the largest beside them, are handled as logarithms.
SMALL = 1e-250


@dataclass(frozen=True)
class _Panel:
    """The factors of states `low … high−1`; earlier states outside `start … low−1` do not touch them."""

    start: int
    low: int
    high: int
    upper: Array  # I − T within the panel, [b, b]
    lower: Array  # diag(s) − L within the panel, [b, b]; 1 in place of the reference state's zero pivot
    above: Array  # T of the earlier states against the panel, [low − start, b]
    left: Array  # L of the panel against the earlier states, [b, low − start]


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of this process; to look for them takes longer than to solve a small chain."""
    return ThreadpoolController()


class StateReduction:
    """The factors of one chain.

    Args:
        chain: the stochastic matrix of a unichain, `[S, S]`.
        order: a permutation of the states; its first one, the reference, must be recurrent.
        bandwidth: largest distance of two linked states in that order; None treats the chain as dense.
    """

    name = "state reduction"

    def __init__(self, chain: Chain, order: NDArray[np.intp], bandwidth: int | None = None) -> None:
        self.order = order
        self.reference = int(order[0])
        self._panels: list[_Panel] = []
        band = len(order) if bandwidth is None else bandwidth
        # Products of small blocks lose more to waking threads than they gain.
        with _blas().limit(limits=1 if band <= 4 * BLOCK else None, user_api="blas"):
            self._factor(chain[order][:, order], band, DENSE_BLOCK if bandwidth is None else BLOCK)

    def _factor(self, permuted: Chain, band: int, block: int) -> None:
        high = len(self.order)
        start = max(0, high - block - band)
        window = _dense(permuted, start, high)
        while high > 0:
            low = max(0, high - block)
            panel = _eliminate(window, start, low, high)
            self._panels.append(panel)
            kept = low - start
            rest = window[:kept, :kept]
            for strip in range(0, kept, STRIP):  # strips, so that the product needs no second large matrix
                rest[strip : strip + STRIP] += panel.above[strip : strip + STRIP] @ panel.left
            high, next_start = low, max(0, low - block - band)
            if next_start == start:
                window = rest
            elif high > 0:
                window = _dense(permuted, next_start, high)
                window[-kept:, -kept:] = rest
            start = next_start

    def stationary(self) -> Array:
        """The stationary law, `[S]`."""
        # Kept as logarithms from panel to panel, so that a chain may span more than the range of a float.
        logs = np.full(len(self.order), -np.inf)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for panel in reversed(self._panels):
                before = logs[panel.start : panel.low]
                logs[panel.low : panel.high] = _panel_logs(panel, before)
            result = np.exp(logs - logs.max())
        law = np.empty(len(self.order))
        law[self.order] = result / result.sum()
        return law

    def values(self, excess: Array) -> Array:
        """A solution of `(I − P) v = excess` with `v = 0` at the reference state; `excess` has mean zero."""
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows fails the residual test of the caller
            return self._values(excess)

    def _values(self, excess: Array) -> Array:
        right = excess[self.order].copy()
        for panel in self._panels:
            here = slice(panel.low, panel.high)
            right[here] = solve_triangular(panel.upper, right[here], unit_diagonal=True, check_finite=False)
            right[panel.start : panel.low] += panel.above @ right[here]
        right[0] = 0.0  # the last equation follows from the others
        solution = np.zeros_like(right)
        for panel in reversed(self._panels):
            here = slice(panel.low, panel.high)
            known = right[here] + panel.left @ solution[panel.start : panel.low]
            solution[here] = solve_triangular(panel.lower, known, lower=True, check_finite=False)
        result = np.empty_like(solution)
        result[self.order] = solution
        return result


def _dense(matrix: Chain, start: int, stop: int) -> Array:
    block = matrix[start:stop, start:stop]
    return np.array(block.toarray() if isinstance(block, sp.csr_array) else block)


def _eliminate(window: Array, start: int, low: int, high: int) -> _Panel:
    """Eliminate states `low … high−1` of the window, whose first row is state `start`."""
    first, size = low - start, high - low
    inside = window[first:, first:].copy()
    outside = window[first:, :first]
    to_earlier = outside.sum(axis=1)
    pivots = np.ones(size)
    for k in range(size - 1, -1, -1):
        if low == 0 and k == 0:
            break
        row = inside[k, :k]
        pivot = row.sum() + to_earlier[k]
        if not pivot > np.finfo(np.float64).tiny:
            raise ToleranceError(
                "The chain spans more orders of magnitude than a float64 holds: the probability of leaving a group of "
                "states underflows to zero; merge states that are never left in practice."
            )
        pivots[k] = pivot
        column = inside[:k, k]
        column /= pivot
        inside[:k, :k] += column[:, None] * row
        to_earlier[:k] += column * to_earlier[k]
    upper = -np.triu(inside, 1)
    np.fill_diagonal(upper, 1.0)
    lower = -np.tril(inside, -1)
    np.fill_diagonal(lower, pivots)
    left = solve_triangular(upper, outside, unit_diagonal=True, check_finite=False)
    above = solve_triangular(lower, window[:first, first:].T, lower=True, trans="T", check_finite=False).T
    return _Panel(start, low, high, upper, lower, np.ascontiguousarray(above), left)


def _panel_logs(panel: _Panel, before: Array) -> Array:
    """Logarithms of the law in a panel, given those of the states before it.

    In plain numbers where they stay well inside the range of a float; else in logarithms, state by state.
    """
    if panel.low == 0:
        known, top = np.zeros(panel.high), 0.0
        known[0] = 1.0
    else:
        top = float(before.max())
        if top == -np.inf:  # every neighbor before is transient, and so are these
            return np.full(panel.high - panel.low, -np.inf)
        known = np.exp(before - top) @ panel.above
    plain = np.asarray(solve_triangular(panel.upper, known, trans="T", unit_diagonal=True, check_finite=False))
    if plain.min() >= SMALL and plain.max() <= 1 / SMALL and (panel.low == 0 or before.min() >= top + np.log(SMALL)):
        return np.asarray(top + np.log(plain))
    steps = np.log(-np.triu(panel.upper, 1))
    entering = np.log(known) if panel.low == 0 else np.logaddexp.reduce(before[:, None] + np.log(panel.above), axis=0)
    logs = np.full(len(known), -np.inf)
    for k in range(len(known)):
        logs[k] = np.logaddexp(entering[k], np.logaddexp.reduce(logs[:k] + steps[:k, k], initial=-np.inf))
    return logs
