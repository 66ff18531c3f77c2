"""Rules for the heat pump of heating.csv: they see a dict of columns and give an action per row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Seen = Mapping[str, NDArray[Any]]


def preheat(seen: Seen) -> NDArray[np.str_]:
    """Heat up to 22 °C while electricity is cheap, and only below 19 °C while it is not."""
    wanted = np.where(seen["tariff"] == "low", 22, 19)
    return np.where(seen["temperature"] < wanted, "on", "off")


def thrifty(seen: Seen) -> NDArray[np.str_]:
    """Heat below 18 °C, whatever electricity costs."""
    return np.where(seen["temperature"] < 18, "on", "off")


def steady(seen: Seen) -> NDArray[np.str_]:
    """A thermostat at 20 °C, whatever electricity costs."""
    return np.where(seen["temperature"] < 20, "on", "off")
