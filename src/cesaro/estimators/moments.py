"""`Moments`: the only accumulator. Everything that the closed form needs to know of a log.

With `v` the dual features, `z = x' − x` and `w` the weight of a row, the sums over rows of `w`, `w v`, `w z`, `w R`, `w v zᵀ`,
`w v vᵀ` and `w v R`. Blocks are merged in their order, so that every way of running gives the same bits.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.features import Features


class Rows(NamedTuple):
    """A block of transitions as features; `v is x` where the dual features are the primal ones."""

    x: Features  # [n, K]
    rewards: Array  # [n]
    x_next: Features  # [n, K]
    v: Features  # [n, L]
    weights: Array | None = None  # [n]

    def __len__(self) -> int:
        return len(self.rewards)


class Moments:
    """Sums over rows, dense or sparse as the features are."""

    def __init__(self) -> None:
        self.rows = 0
        self.precision = float(np.finfo(np.float64).eps)  # of the features
        self.same = True
        self._sums: dict[str, Any] = {}

    def add(self, rows: Rows) -> None:
        """Count rows in."""
        _accumulate(self._sums, _sums(rows))
        self.rows += len(rows)
        self.same &= rows.v is rows.x
        if not isinstance(rows.x, sp.csr_array):
            self.precision = max(self.precision, *(float(np.finfo(part.dtype).eps) for part in (rows.x, rows.v)))

    def merge(self, other: "Moments") -> None:
        """Count in what another accumulator holds, as if its blocks came next."""
        _accumulate(self._sums, other._sums)
        self.rows += other.rows
        self.same &= other.same
        self.precision = max(self.precision, other.precision)

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        sums = {
            name: (value.data, value.indices, value.indptr, value.shape) if isinstance(value, sp.csr_array) else value
            for name, value in self._sums.items()
        }
        return {"rows": self.rows, "precision": self.precision, "same": self.same, "sums": sums}

    @staticmethod
    def of_state(state: dict[str, Any]) -> "Moments":
        """What `state` gave."""
        result = Moments()
        result.rows, result.precision, result.same = state["rows"], state["precision"], state["same"]
        result._sums = {
            name: sp.csr_array(value[:3], shape=value[3]) if isinstance(value, tuple) else value
            for name, value in state["sums"].items()
        }
        return result

    @property
    def weight(self) -> float:
        """The sum of weights: the number of rows where there are none."""
        return float(self._sums["w"])

    def mean(self, name: str) -> Any:
        """One of `R`, `v`, `z`, `vz`, `vv`, `vR`, `xx` (squares, entry by entry) as a mean over rows."""
        return self._sums[name] / self.weight

    def with_duals(self, chosen: NDArray[np.intp]) -> "Moments":
        """What the accumulator would hold with these dual features alone."""
        part = Moments()
        part.rows, part.precision, part.same = self.rows, self.precision, self.same
        part._sums = dict(self._sums)
        for name in ("v", "vz", "vR"):
            part._sums[name] = self._sums[name][chosen]
        part._sums["vv"] = self._sums["vv"][np.ix_(chosen, chosen)]
        return part

    def with_features(self, chosen: NDArray[np.intp]) -> "Moments":
        """What the accumulator would hold with these primal features alone, which stay their own dual if they were."""
        part = self.with_duals(chosen) if self.same else self.with_duals(np.arange(len(self._sums["v"])))
        for name in ("z", "xx"):
            part._sums[name] = self._sums[name][chosen]
        part._sums["vz"] = part._sums["vz"][:, chosen]
        return part

    @property
    def A(self) -> Array:
        """`mean v zᵀ` with the rate as first unknown and the constant as first dual feature, `[1 + L, 1 + K]`."""
        return np.block([[np.array([[-1.0]]), self.mean("z")[None]], [-self.mean("v")[:, None], self.mean("vz")]])

    @property
    def b(self) -> Array:
        """`[1 + L]`."""
        return np.concatenate([[self.mean("R")], self.mean("vR")])

    @property
    def C(self) -> Array:
        """`[1 + L, 1 + L]`."""
        mean = self.mean("v")
        return np.block([[np.array([[1.0]]), mean[None]], [mean[:, None], self.mean("vv")]])


def _accumulate(total: dict[str, Any], sums: dict[str, Any]) -> None:
    for name, value in sums.items():
        total[name] = total[name] + value if name in total else value


def _sums(rows: Rows) -> dict[str, Any]:
    x, v, rewards = rows.x, rows.v, rows.rewards
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    result: dict[str, Any] = {"w": weights.sum(), "R": weights @ rewards}
    if isinstance(x, sp.csr_array):
        z = sp.csr_array(rows.x_next - x)
        weighted = v if rows.weights is None else sp.csr_array(sp.diags_array(weights) @ v)
        products = {"vz": sp.csr_array(weighted.T @ z), "vv": sp.csr_array(weighted.T @ v)}
        sums = {"v": v.T @ weights, "z": z.T @ weights, "vR": v.T @ (weights * rewards), "xx": (x * x).T @ weights}
        return result | products | sums
    # Features may be single precision; their products never are: in single precision, rounding moved rates by a standard error.
    size = 1 + v.shape[1]
    every = np.empty((len(rows), size + x.shape[1] + 1))  # [1, v, z, R], times the root of the weight
    every[:, 0], every[:, -1] = 1.0, rewards
    every[:, 1:size] = v
    np.subtract(rows.x_next, x, out=every[:, size:-1], dtype=np.float64)
    if rows.weights is not None:
        every *= np.sqrt(weights)[:, None]
    tests = every[:, :size]
    square, cross = tests.T @ tests, tests.T @ every[:, size:]  # the first is symmetric, which halves its cost
    return result | {
        "v": square[1:, 0],
        "vv": square[1:, 1:],
        "z": cross[0, :-1],
        "vz": cross[1:, :-1],
        "vR": cross[1:, -1],
        "xx": np.diag(square)[1:] if v is x else weights @ np.square(x),
    }
