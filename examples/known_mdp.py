"""Evaluate policies of the access-control queue exactly, where its probabilities are known.

A queue with ten servers: each customer offers 1, 2, 4 or 8 for a server. Which rule earns most per customer in the long run?
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import cesaro as cs

PRIORITIES = (1, 2, 4, 8)


def deterministic(accept: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.stack([~accept, accept], axis=1).astype(float)


def improve(mdp: cs.TabularMDP, policy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Policy iteration: act greedily on the differential values until nothing changes."""
    while True:
        values = cs.exact.differential_values(mdp, policy)
        better = deterministic(values[:, 1] > values[:, 0] + 1e-9)
        if (better == policy).all():
            return policy
        policy = better


def draw(path: Path, rates: dict[str, float], gain: NDArray[np.float64]) -> None:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    left.barh(list(rates), list(rates.values()), color=["#9aa5b1", "#9aa5b1", "#2b6cb0", "#2f855a"])
    left.invert_yaxis()
    left.bar_label(left.containers[0], fmt="%.3f", padding=3)
    left.set_xlim(0, 1.15 * max(rates.values()))
    left.set_xlabel("reward rate (earned per customer)")
    left.spines[["top", "right"]].set_visible(False)
    limit = np.abs(gain).max()
    image = right.imshow(gain.T, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", origin="lower")
    for (free, level), value in np.ndenumerate(gain):
        dark = abs(value) > 0.6 * limit
        right.text(
            free, level, f"{value:+.1f}", ha="center", va="center", fontsize=7, color="white" if dark else "black"
        )
    right.set_xticks(range(gain.shape[0]))
    right.set_yticks(range(gain.shape[1]), [str(p) for p in PRIORITIES])
    right.set_xlabel("free servers")
    right.set_ylabel("customer's priority")
    right.set_title("what accepting gains over rejecting, candidate policy", fontsize=10)
    figure.colorbar(image, ax=right, label="difference of differential values")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
    out: Path = parser.parse_args().out
    console = Console()

    queue = cs.problems.access_control_queue(priorities=PRIORITIES)
    states = queue.mdp.num_states
    policies = {
        "accept everyone": deterministic(np.ones(states, dtype=bool)),
        "flip a coin": np.full((states, 2), 0.5),
        "candidate": queue.policy,
        "best possible": improve(queue.mdp, queue.policy),
    }
    table = Table(title="Access-control queue: 10 servers, exact answers", title_justify="left")
    for column in ("policy", "reward rate", "busy servers", "turned away"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    rates = {}
    free = np.repeat(np.arange(11), len(PRIORITIES))
    for name, policy in policies.items():
        solution = cs.exact.solve(queue.mdp, policy)
        rates[name] = solution.reward_rate
        served = solution.stationary_distribution[free > 0, 1].sum()
        busy = 10 - solution.state_distribution @ free
        table.add_row(name, f"{solution.reward_rate:.4f}", f"{busy:.2f}", f"{1 - served:.1%}")
    console.print(table)

    values = cs.exact.differential_values(queue.mdp, queue.policy)
    out.mkdir(parents=True, exist_ok=True)
    draw(out / "access_control.png", rates, (values[:, 1] - values[:, 0]).reshape(11, len(PRIORITIES)))

    console.print(f"Picture: {out / 'access_control.png'}")


if __name__ == "__main__":
    main()
