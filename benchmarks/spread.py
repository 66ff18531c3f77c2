"""Does the spread over members of a world tell how its rate varies over logs? On a linear system whose rate is known.

`python -m benchmarks spread [--logs N]`. x' = 0.8 x + 0.4 a + 0.5 e, reward −x² − 0.1 a²; logged actions are normal, the target
is a = −x. For every number of rows: errors over logs against the closed form, and the spread over bootstrap members against the
deviation over logs, which is 1 if worlds know how uncertain they are.
"""

import argparse
import math

import numpy as np

import cesaro as cs

TRUTH = -1.1 * 0.25 / (1 - 0.4**2)
TRAJECTORIES, WARM = 20, 200


def a_log(rows: int, seed: list[int]) -> cs.Transitions:
    rng, length = np.random.default_rng(seed), rows // TRAJECTORIES + 1
    x, kept = np.zeros(TRAJECTORIES), []
    for _ in range(WARM + length):
        actions = rng.normal(size=TRAJECTORIES)
        kept.append((x, actions, -(x**2) - 0.1 * actions**2))
        x = 0.8 * x + 0.4 * actions + 0.5 * rng.normal(size=TRAJECTORIES)
    columns = (np.stack(column[WARM:], axis=1).ravel() for column in zip(*kept))
    return cs.Transitions(*columns, trajectory=np.repeat(np.arange(TRAJECTORIES), length))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=24)
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 2_000, 8_000])
    given = parser.parse_args()
    sizes = []
    for rows in given.rows:
        found = []
        for number in range(given.logs):
            rates = cs.World(random_state=number, quiet=True).fit(a_log(rows, [rows, number])).rate(lambda x: -x)
            found.append((rates.by_member.mean(), rates.spread))
        means, spreads = np.array(found).T
        error, over_logs = math.sqrt(((means - TRUTH) ** 2).mean()), means.std(ddof=1)
        sizes.append(error)
        spread = math.sqrt((spreads**2).mean())
        ratio = spread / over_logs
        print(
            f"{rows:,} rows, {given.logs} logs, rate {TRUTH:.4f}: root mean square error {error:.4f}, deviation over logs",
            end=" ",
        )
        print(
            f"{over_logs:.4f}, spread over members {spread:.4f}: {ratio:.2f} of it (± {ratio / math.sqrt(2 * given.logs):.2f})",
            flush=True,
        )
    if len(sizes) > 1:
        slope = np.polyfit(np.log(given.rows), np.log(sizes), 1)[0]
        print(f"errors fall like rows to the power {slope:.2f}")


if __name__ == "__main__":
    main()
