"""The candidate: which customers shall get one of the free servers?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class candidate:
    """Platinum and gold whenever a server is free, the others only while more than half of the ten are free."""

    actions = ("reject", "accept")

    def probabilities(self, observations: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """One row per observation, one column per action."""
        free, priority = observations["free_servers"], observations["priority"]
        accept = (free > 0) & ((free > 5) | np.isin(priority, ["gold", "platinum"]))
        return np.column_stack([~accept, accept]).astype(float)
