"""What a fit of `Learned` leaves, whether of linear functions or of networks."""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cesaro.checks import Array
from cesaro.closed_forms.plug_in import PlugIn
from cesaro.features.networks import Members


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs of all seeds. The attribute `NAME_` of a fitted `Learned` is the field `NAME`, which it says the meaning of.

    Attributes:
        seed_rates: `[seeds]`; NaN where a run diverged.
        diverged_at: the step at which a run diverged, `[seeds]`; −1 where it did not.
        spread, learning_error: over runs that did not diverge.
        step_size, steps, ridge, batch_size: what was used.
        limit, reached, steps_needed, time_constant: of linear functions; NaN, False, None and NaN where they are not known.
        level: the mean of values under the target.
        is_buffered: whether runs drew from a shuffle buffer.
        weights, ratio_weights: of linear functions, of values or of a density ratio, `[K]`; None where there are none.
        plug_in: convergence and stable steps of linear functions; files do not keep it.
        members: the networks; None for linear functions, and then so is everything below.
        levels: the mean of each network over pairs, in its own units, `[seeds]`.
        scale: what the rewards of networks were divided by.
        earlier_rates: of each run, the mean rate over the quarter before the last, `[seeds]`.
        offline_rates: `mean R + q(x') − q(x)` over all rows, `[seeds]`; None for a density ratio.
        ratio_rates: `mean τR` over all rows, `[seeds]`; None for values.
        rows_digest: which rows the networks were fitted on.
    """

    seed_rates: Array
    diverged_at: NDArray[np.int64]
    spread: float
    learning_error: float
    step_size: float
    steps: int
    ridge: float
    batch_size: int
    limit: float = float("nan")
    reached: bool = False
    steps_needed: int | None = None
    time_constant: float = float("nan")
    level: float = 0.0
    is_buffered: bool = False
    weights: Array | None = None
    ratio_weights: Array | None = None
    plug_in: PlugIn | None = None
    members: Members | None = None
    levels: Array | None = None
    scale: float | None = None
    earlier_rates: Array | None = None
    offline_rates: Array | None = None
    ratio_rates: Array | None = None
    rows_digest: NDArray[np.uint64] | None = None

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Which runs diverged, `[seeds]`."""
        return self.diverged_at >= 0

    @property
    def learns_ratio(self) -> bool:
        """Whether runs learned a density ratio and no values."""
        return self.ratio_weights is not None or self.ratio_rates is not None

    @classmethod
    def of_attributes(cls, attributes: dict[str, Any]) -> Self:
        """From the attributes of a fitted estimator, as files keep them."""
        names = {field.name for field in fields(cls)}
        return cls(**{name[:-1]: value for name, value in attributes.items() if name[:-1] in names})
