"""A policy for `thermostat.csv`."""

import numpy as np


def keep_20(seen):
    """Heat below 20 °C, and below 20.5 °C when it is cold outside."""
    room, outside = np.asarray(seen["Room Temp"]), np.asarray(seen["Outside Temp"])
    return (room < np.where(outside < 5, 20.5, 20.0)).astype(int)
