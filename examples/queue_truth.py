"""Put the answer of `make demo` beside the exact one, from probabilities that no log tells."""

import argparse
import json
from pathlib import Path

import numpy as np

import cesaro as cs
from make_queue_log import PRIORITIES
from queue_policy import candidate


def exact_rate() -> float:
    """Of the candidate, from the queue's transition probabilities: state `4 f + i` is f free servers, priority i."""
    mdp = cs.problems.access_control_queue(priorities=list(PRIORITIES.values())).mdp
    free, number = np.divmod(np.arange(mdp.num_states), len(PRIORITIES))
    states = {"free_servers": free, "priority": np.array(list(PRIORITIES))[number]}
    return cs.exact.reward_rate(mdp, candidate().probabilities(states))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("demo"), help="what cesaro evaluate wrote")
    answer = json.loads((parser.parse_args().folder / "evaluation.json").read_text(encoding="utf-8"))
    rate, truth = answer["reward_rate"], exact_rate()
    off = (rate["value"] - truth) / rate["standard_error"]
    inside = "inside" if rate["low"] <= truth <= rate["high"] else "outside"
    print(f"\nFrom the log: {rate['value']:.4f} {answer['unit']} ({rate['low']:.4f} to {rate['high']:.4f})")
    print(f"Exact truth:  {truth:.4f}, {inside} the interval; the estimate is {off:+.1f} standard errors off.")


if __name__ == "__main__":
    main()
