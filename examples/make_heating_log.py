"""Write heating.csv: what the heat pumps of ten houses did in 40 days, an hour a row, and what it cost.

The room has 16 to 23 °C, electricity has a low or a high tariff. Thermostats of 20 or 21 °C decide, and in one hour of seven
somebody turned the switch. A reward is minus the cost in euros: electricity, and 10 cents per degree below 20 °C.
"""

import argparse
import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cesaro as cs

FILE = Path(__file__).with_name("heating.csv")
HEADER = ("time", "house", "temperature", "tariff", "action", "reward")
TEMPERATURES, TARIFFS, ACTIONS = tuple(range(16, 24)), ("low", "high"), ("off", "on")
STATES = [(temperature, tariff) for temperature in TEMPERATURES for tariff in TARIFFS]
# Chances that the room gets colder or warmer in an hour.
CHANGES = {"off": (0.5, 0.05), "on": (0.1, 0.6)}
# Chances that the tariff changes, and what a kilowatt-hour costs.
SWITCHES, PRICES = {"low": 0.2, "high": 0.3}, {"low": 0.1, "high": 0.3}
# Kilowatt-hours of the heat pump in an hour, and their chances.
USES = {1.8: 0.25, 2.0: 0.5, 2.2: 0.25}
DISCOMFORT = 0.1
THERMOSTATS, ODD = dict.fromkeys("ABCDE", 20) | dict.fromkeys("FGHIJ", 21), 1 / 7
HOURS = 960  # per house


def cost(temperature: int, tariff: str, action: str, used: float) -> float:
    """In euros per hour."""
    return DISCOMFORT * max(0, 20 - temperature) + (PRICES[tariff] * used if action == "on" else 0.0)


def model() -> cs.TabularMDP:
    """The system that wrote the log: states as in STATES, actions as in ACTIONS."""
    mean = sum(used * chance for used, chance in USES.items())
    probabilities = np.zeros((len(STATES), len(ACTIONS), len(STATES)))
    rewards = np.zeros((len(STATES), len(ACTIONS)))
    for here, (temperature, tariff) in enumerate(STATES):
        for number, action in enumerate(ACTIONS):
            rewards[here, number] = -cost(temperature, tariff, action, mean)
            colder, warmer = CHANGES[action]
            for change, chance in ((-1, colder), (0, 1 - colder - warmer), (1, warmer)):
                after = int(np.clip(temperature + change, TEMPERATURES[0], TEMPERATURES[-1]))
                for then in TARIFFS:
                    switch = SWITCHES[tariff] if then != tariff else 1 - SWITCHES[tariff]
                    probabilities[here, number, STATES.index((after, then))] += chance * switch
    return cs.TabularMDP(probabilities, rewards)


def table(policy: object) -> NDArray[np.float64]:
    """What a policy of `cesaro.policy` does in every state, `[S, A]`; it must have no randomness of its own."""
    seen = {
        "temperature": np.array([temperature for temperature, _ in STATES]),
        "tariff": np.array([tariff for _, tariff in STATES]),
    }
    chosen = cs.policy(policy).sample(seen, np.random.default_rng(0))
    return np.stack([np.asarray(chosen) == action for action in ACTIONS], axis=1).astype(float)


def exact_rate(policy: object) -> float:
    """What the policy earns per hour in the long run, from probabilities that no log tells."""
    return cs.exact.reward_rate(model(), table(policy))


def simulate(thermostat: int, rng: np.random.Generator) -> list[tuple[int, str, str, str]]:
    """One house: temperature, tariff, action and reward of every hour."""
    mdp = model()
    assert isinstance(mdp.probabilities, np.ndarray)
    steps, rows, here = mdp.probabilities.cumsum(axis=2), [], STATES.index((20, "low"))
    for odd, change in rng.random((HOURS, 2)):
        temperature, tariff = STATES[here]
        number = int((temperature < thermostat) != (odd < ODD))
        used = float(rng.choice(list(USES), p=list(USES.values())))
        rows.append(
            (temperature, tariff, ACTIONS[number], f"{0 - cost(temperature, tariff, ACTIONS[number], used):.2f}")
        )
        here = min(int(np.searchsorted(steps[here, number], change, side="right")), len(STATES) - 1)
    return rows


def build(seed: int = 0) -> list[tuple[str, str, int, str, str, str]]:
    """The rows of all houses, hour by hour."""
    houses = {
        house: simulate(degrees, np.random.default_rng([seed, k]))
        for k, (house, degrees) in enumerate(THERMOSTATS.items())
    }
    start = datetime(2024, 1, 8)
    times = [f"{start + timedelta(hours=hour):%Y-%m-%d %H:%M}" for hour in range(HOURS)]
    return [(time, house, *rows[hour]) for hour, time in enumerate(times) for house, rows in houses.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--truth", metavar="POLICY", help="print the exact rate of this policy, such as file.py:name; write nothing"
    )
    policy = parser.parse_args().truth
    if policy is not None:
        print(f"The exact rate of {policy} is {exact_rate(policy):.4f} per hour.")
        return
    with FILE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEADER, *build()])
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
