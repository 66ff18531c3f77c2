"""Write `inventory.csv`: the stock of five shops, exported as such tables often are.

Every evening a shop orders goods that arrive overnight. A sold piece earns 2, a piece that stays overnight costs 0.2, an order
costs 3, and a customer who finds nothing costs 1. More customers come towards the weekend. The export has the warts of its kind:
semicolons and decimal commas, rows in no order, some of them twice, and a profit that is known a day later and stands on the next
row of the shop. The exact rate of a policy comes from the probabilities, which no log tells:
`python examples/make_inventory_log.py --truth examples/inventory_policy.py:order_up_to`.
"""

import argparse
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

import cesaro as cs

FILE = Path(__file__).with_name("inventory.csv")
HEADER = "Date;Shop;Stock;Weekday;Order;Profit"
SHOPS, DAYS, MOST, LARGEST = ("Aachen", "Bonn", "Celle", "Dresden", "Emden"), 2_000, 24, 10
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DEMAND = (2.0, 2.0, 3.0, 4.0, 6.0, 9.0, 1.0)
PRICE, HOLDING, ORDERING, LOST = 2.0, 0.2, 3.0, 1.0
CUSTOMERS = 40  # no day sees more


def outcomes(
    stock: int, weekday: int, order: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Chance, next stock and profit for every number of customers. What was ordered is there for the next day."""
    customers = np.arange(CUSTOMERS + 1)
    chance = poisson.pmf(customers, DEMAND[weekday])
    sold = np.minimum(customers, stock)
    left = stock - sold
    profit = PRICE * sold - HOLDING * left - LOST * (customers - sold) - ORDERING * (order > 0)
    return chance / chance.sum(), np.minimum(left + order, MOST), profit


def model() -> cs.TabularMDP:
    """States: weekday and stock, the stock fastest."""
    size = MOST + 1
    probabilities = np.zeros((7 * size, LARGEST + 1, 7 * size))
    rewards = np.zeros((7 * size, LARGEST + 1))
    for weekday in range(7):
        for stock in range(size):
            for order in range(LARGEST + 1):
                chance, after, profit = outcomes(stock, weekday, order)
                here = weekday * size + stock
                np.add.at(probabilities[here, order], (weekday + 1) % 7 * size + after, chance)
                rewards[here, order] = chance @ profit
    return cs.TabularMDP(probabilities, rewards)


def exact_rate(policy: object) -> float:
    """What a policy without randomness earns per day and shop in the long run."""
    seen = {
        "Stock": np.tile(np.arange(MOST + 1), 7),
        "Weekday": np.repeat(np.array(WEEKDAYS), MOST + 1),
    }
    chosen = np.asarray(cs.policy(policy).sample(seen, np.random.default_rng(0)))
    return cs.exact.reward_rate(model(), np.eye(LARGEST + 1)[chosen.astype(int)])


def simulate(rng: np.random.Generator) -> list[tuple[int, int, int, str]]:
    """One shop: stock, weekday, order and yesterday's profit of every day. Orders follow the stock, with a lot of whim."""
    rows, stock, before = [], 8, "6,0"
    for day in range(DAYS):
        weekday = day % 7
        whim = rng.random() < 0.3
        order = int(rng.integers(0, LARGEST + 1) if whim else np.clip(rng.integers(6, 13) - stock, 0, LARGEST))
        rows.append((stock, weekday, order, before))
        chance, after, profit = outcomes(stock, weekday, order)
        customers = int(rng.choice(CUSTOMERS + 1, p=chance))
        stock, before = int(after[customers]), f"{profit[customers]:.1f}".replace(".", ",")
    return rows


def build(seed: int = 0) -> list[str]:
    """The lines of the file, in no order."""
    rng = np.random.default_rng(seed)
    start = date(2019, 1, 7)  # a Monday
    lines = [
        f"{start + timedelta(days=day)};{shop};{stock};{WEEKDAYS[weekday]};{order};{profit}"
        for shop in SHOPS
        for day, (stock, weekday, order, profit) in enumerate(simulate(rng))
    ]
    again = rng.choice(len(lines), len(lines) // 100, replace=False)
    lines += [lines[row] for row in again]
    return [lines[row] for row in rng.permutation(len(lines))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", metavar="POLICY", help="print the exact rate of this policy; write nothing")
    policy = parser.parse_args().truth
    if policy is not None:
        print(f"The exact rate of {policy} is {exact_rate(policy):.4f} per day.")
        return
    FILE.write_text("\n".join([HEADER, *build()]) + "\n", encoding="utf-8")
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
