"""Write `recommender.csv`: sixty users, each shown one of twenty items at a time.

A user is in the mood for one of four things, which changes now and then, and gets tired of what everybody shows: the
first six items are popular, and tire. The log is sorted by time, so that users are mixed, and users come back after
irregular times. Items have numbers, which are names and no quantities. The exact rate of a policy comes from the
probabilities, which no log tells: `python examples/make_recommender_log.py --truth
examples/recommender_policy.py:by_mood` gives clicks per event.
"""

import argparse
import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cesaro as cs

FILE = Path(__file__).with_name("recommender.csv")
HEADER = ("user_id", "event_time", "mood", "fatigue", "item", "clicked")
USERS, EVENTS, ITEMS, POPULAR = 60, 250, 20, 6
MOODS, TIRED = ("news", "sport", "music", "film"), (0, 1, 2)
STATES = [(mood, fatigue) for mood in MOODS for fatigue in TIRED]
CHANGE, TIRES, RESTS = 0.1, 0.6, 0.5
# How much a mood likes an item: everything a little, popular ones more, and five items of its own most.
LIKES = np.random.default_rng(20).uniform(0.02, 0.1, (len(MOODS), ITEMS))
LIKES[:, :POPULAR] += 0.25
for _mood in range(len(MOODS)):
    LIKES[_mood, _mood::4] += 0.3


def click_chance(mood: str, fatigue: int) -> NDArray[np.float64]:
    """Of every item."""
    return LIKES[MOODS.index(mood)] * (1 - 0.35 * fatigue)


def model() -> cs.TabularMDP:
    """States as in STATES, actions are the items."""
    probabilities = np.zeros((len(STATES), ITEMS, len(STATES)))
    rewards = np.stack([click_chance(mood, fatigue) for mood, fatigue in STATES])
    for here, (mood, fatigue) in enumerate(STATES):
        for item in range(ITEMS):
            move, chance = (1, TIRES) if item < POPULAR else (-1, RESTS)
            for then, share in ((min(2, max(0, fatigue + move)), chance), (fatigue, 1 - chance)):
                for other in MOODS:
                    changes = CHANGE / 3 if other != mood else 1 - CHANGE
                    probabilities[here, item, STATES.index((other, then))] += share * changes
    return cs.TabularMDP(probabilities, rewards)


def exact_rate(policy: object) -> float:
    """Clicks per event of a policy without randomness, in the long run."""
    seen = {"mood": np.array([mood for mood, _ in STATES]), "fatigue": np.array([fatigue for _, fatigue in STATES])}
    chosen = np.asarray(cs.policy(policy).sample(seen, np.random.default_rng(0))).astype(int)
    return cs.exact.reward_rate(model(), np.eye(ITEMS)[chosen])


def build(seed: int = 0) -> list[tuple[int, str, str, int, int, int]]:
    """The rows of all users, by time. Old recommendations favored what a mood likes, and everything else a little."""
    rng, mdp = np.random.default_rng(seed), model()
    assert isinstance(mdp.probabilities, np.ndarray)
    rows = []
    for user in range(USERS):
        here, time = int(rng.integers(len(STATES))), datetime(2024, 5, 1) + timedelta(seconds=int(rng.integers(86_400)))
        for _ in range(EVENTS):
            mood, fatigue = STATES[here]
            weights = 0.5 / ITEMS + 0.5 * LIKES[MOODS.index(mood)] / LIKES[MOODS.index(mood)].sum()
            item = int(rng.choice(ITEMS, p=weights))
            clicked = int(rng.random() < click_chance(mood, fatigue)[item])
            rows.append((time, 1_000 + 17 * user, mood, fatigue, item, clicked))
            here = int(rng.choice(len(STATES), p=mdp.probabilities[here, item]))
            time += timedelta(seconds=1 + int(rng.exponential(3_600)))
    rows.sort()
    return [(user, f"{time:%Y-%m-%dT%H:%M:%S}", *rest) for time, user, *rest in rows]  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", metavar="POLICY", help="print the exact rate of this policy; write nothing")
    policy = parser.parse_args().truth
    if policy is not None:
        print(f"The exact rate of {policy} is {exact_rate(policy):.4f} per event.")
        return
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *build()])
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
