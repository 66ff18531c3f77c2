"""Policies for `inventory.csv`: how much a shop orders in the evening."""

from typing import Any

import numpy as np


def order_up_to(seen: Any) -> Any:
    """Fill the shelf up to 9 pieces, and up to 12 before busy days."""
    busy = np.isin(seen["Weekday"], ["Wed", "Thu", "Fri"])
    return np.clip(np.where(busy, 12, 9) - np.asarray(seen["Stock"]).astype(int), 0, 10)


def whatever_the_day(stock: Any) -> Any:
    """Fill the shelf up to 10 pieces: for a log whose observation is the stock alone."""
    return np.clip(10 - np.asarray(stock).astype(int), 0, 10)
