"""A policy for `recommender.csv`."""

from typing import Any

import numpy as np

MOODS = ("news", "sport", "music", "film")


def by_mood(seen: Any) -> Any:
    """A popular item that fits the mood; for tired users one that few know."""
    mood = np.array([MOODS.index(mood) for mood in seen["mood"]])
    tired = np.asarray(seen["fatigue"]).astype(int) > 0
    return np.where(tired, mood + 8, np.minimum(mood, 3))
