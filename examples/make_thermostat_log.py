"""Write `thermostat.csv`: four months of a heating system, a row every 15 minutes.

The room loses heat to the outside and gains it from the heater. A row is scored by how far the room is from 21 °C and
by the energy that the heater took, which is logged as well but known only afterwards. Sometimes the logger was off. Numbers are
continuous, so that there is no exact rate; `--truth POLICY` simulates one million steps and gives the mean score with
its standard error. Of `thermostat_policy.py:keep_20` it is -0.2720 with a standard error of 0.0007.
"""

import argparse
import csv
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cesaro as cs

FILE = Path(__file__).with_name("thermostat.csv")
HEADER = ("TimeStamp", "Room Temp", "Outside Temp", "Heater", "Energy kWh", "Score")
STEPS, PAUSES = 12_000, 6
LOSS, HEAT, MEAN, SPREAD, MEMORY = 0.05, 1.5, 6.0, 4.0, 0.98
DISCOMFORT, PRICE = 0.1, 0.3


def after(
    room: NDArray[np.float64], outside: NDArray[np.float64], heater: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Any, ...]:
    """The temperatures a quarter of an hour later, the energy that was used, and the score."""
    energy = heater * np.clip(1.2 + 0.2 * rng.standard_normal(len(room)), 0.5, None)
    score = -DISCOMFORT * (room - 21) ** 2 - PRICE * energy
    warmer = room + LOSS * (outside - room) + HEAT * heater + 0.15 * rng.standard_normal(len(room))
    noise = SPREAD * np.sqrt(1 - MEMORY**2) * rng.standard_normal(len(room))
    return warmer, MEAN + MEMORY * (outside - MEAN) + noise, energy, score


def old_rule(room: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """What the log did: heat below 20 °C, with much doubt."""
    chance = 0.1 + 0.8 / (1 + np.exp(1.5 * (room - 20)))
    return (rng.random(len(room)) < chance).astype(int)


def simulated_rate(policy: object, steps: int = 2_000, rooms: int = 500) -> tuple[float, float]:
    """The mean score of independent rooms, the first tenth left out, and its standard error."""
    chosen, rng = cs.policy(policy), np.random.default_rng(1)
    room, outside = np.full(rooms, 20.0), MEAN + SPREAD * rng.standard_normal(rooms)
    total = np.zeros(rooms)
    for step in range(steps + steps // 10):
        heater = np.asarray(chosen.sample({"Room Temp": room, "Outside Temp": outside}, rng)).astype(int)
        room, outside, _, score = after(room, outside, heater, rng)
        if step >= steps // 10:
            total += score
    rates = total / steps
    return float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(rooms))


def build(seed: int = 0) -> list[tuple[str, str, str, int, str, str]]:
    """The rows of the file."""
    rng = np.random.default_rng(seed)
    room, outside, time = np.array([20.0]), np.array([MEAN]), datetime(2024, 1, 1)
    pauses = set(rng.choice(STEPS, PAUSES, replace=False).tolist())
    rows = []
    for step in range(STEPS):
        heater = old_rule(room, rng)
        warmer, then, energy, score = after(room, outside, heater, rng)
        entries = (f"{room[0]:.2f}", f"{outside[0]:.2f}", int(heater[0]), f"{energy[0]:.2f}", f"{score[0]:.4f}")
        rows.append((f"{time:%Y-%m-%d %H:%M}", *entries))
        room, outside, time = warmer, then, time + timedelta(minutes=15)
        for _ in range(int(rng.integers(20, 80)) if step in pauses else 0):
            room, outside, _, _ = after(room, outside, old_rule(room, rng), rng)
            time += timedelta(minutes=15)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", metavar="POLICY", help="simulate the rate of this policy; write nothing")
    policy = parser.parse_args().truth
    if policy is not None:
        rate, error = simulated_rate(policy)
        print(f"The simulated rate of {policy} is {rate:.4f} per 15 minutes, with a standard error of {error:.4f}.")
        return
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *build()])
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
