"""Policies for `inventory.csv`: how much a shop orders in the evening."""

import numpy as np


def order_up_to(seen):
    """Fill the shelf up to 12 pieces, and up to 16 before busy days."""
    busy = np.isin(seen["Weekday"], ["Wed", "Thu", "Fri"])
    return np.clip(np.where(busy, 16, 12) - np.asarray(seen["Stock"]).astype(int), 0, 10)


def order_up_to_12(stock):
    """Fill the shelf up to 12 pieces, whatever the day: for a log whose observation is the stock alone."""
    return np.clip(12 - np.asarray(stock).astype(int), 0, 10)
