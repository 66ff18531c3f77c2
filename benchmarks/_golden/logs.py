"""Logs of the cases, which are written once, and target policies for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cesaro as cs
from benchmarks._golden.interrupt import CTRL_C


def write_logs() -> None:
    """All logs of the cases, as files in this folder; every file is a block at least, so that there are several."""
    _write_files(_continuous(72_000), "continuous", [500] * 6 + [69_000])  # the last file has two blocks
    _write_files(_discrete(4_000), "discrete", [700] * 5 + [500])
    _write_files(_episodes(3_000), "episodes", [500] * 6)
    _write_files(_weighted(2_400), "weighted", [400] * 6)
    Path("policy.py").write_text(POLICY_FILE, encoding="utf-8")


# A policy for the command line, which runs in this process.
POLICY_FILE = """
import numpy as np
from benchmarks._golden.interrupt import CTRL_C
from cesaro.policies import Finite


def chances(observations):
    CTRL_C()
    return np.where(observations["state"][:, None] > 1, [0.8, 0.2], [0.3, 0.7])


target = Finite(["go", "stay"], chances)
"""


def _write_files(table: pa.Table, name: str, sizes: Sequence[int]) -> None:
    Path(name).mkdir()
    start = 0
    for number, size in enumerate(sizes):
        pq.write_table(table.slice(start, size), f"{name}/{number}.parquet", row_group_size=333)
        start += size


def _continuous(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    action, noise = rng.normal(size=rows), 0.4 * rng.normal(size=(rows, 2))
    state = np.zeros((rows + 1, 2))
    for t in range(rows):
        state[t + 1] = 0.8 * state[t] + noise[t]
        state[t + 1, 0] += 0.3 * np.tanh(action[t])
    reward = np.sin(state[:-1, 0]) - 0.1 * action**2
    return pa.table({"obs_0": state[:-1, 0], "obs_1": state[:-1, 1], "action": action, "reward": reward})


def _discrete(rows: int) -> pa.Table:
    rng = np.random.default_rng(2)
    go = rng.integers(0, 2, rows)
    state = np.cumsum(go * rng.integers(0, 2, rows)) % 5
    day = rng.choice(["mo", "tu"], rows)
    reward = (state == 2) - 0.1 * go + 0.2 * rng.normal(size=rows)
    return pa.table({"state": state, "day": day, "action": np.array(["stay", "go"])[go], "reward": reward})


def _episodes(rows: int) -> pa.Table:
    """Episodes of a walk that end by themselves or by a time limit, with ids, times and a gap."""
    rng = np.random.default_rng(3)
    action, level = rng.integers(0, 2, rows), rng.normal(size=rows).cumsum() / 10
    terminated = rng.random(rows) < 0.01
    truncated = (rng.random(rows) < 0.005) & ~terminated
    agent = np.repeat(np.arange(rows // 500), 500)
    when = np.arange(rows) + 100 * (np.arange(rows) >= 1_300)
    columns = {"level": np.sin(level), "action": action, "reward": np.cos(level) - 0.2 * action}
    return pa.table({**columns, "terminated": terminated, "truncated": truncated, "agent": agent, "time": when})


def _weighted(rows: int) -> pa.Table:
    rng = np.random.default_rng(4)
    state, action = rng.normal(size=rows), rng.integers(0, 2, rows)
    after = 0.5 * state + 0.8 * (action - 0.5) + 0.6 * rng.normal(size=rows)
    columns = {"obs": state, "action": action, "reward": 1 + state + 0.5 * action + 0.3 * rng.normal(size=rows)}
    return pa.table({**columns, "next_obs": after, "weight": rng.uniform(0.5, 2.0, rows)})


def drawn(observations: Any, rng: np.random.Generator) -> Any:
    """A target with continuous actions, which are drawn."""
    CTRL_C()
    return 0.5 * observations[:, 0] + 0.2 * rng.normal(size=len(observations))


class Often:
    """A target that takes the second of two actions four times in five."""

    actions = (0, 1)

    def probabilities(self, observations: Any) -> Any:
        CTRL_C()
        return np.tile([0.2, 0.8], (len(observations), 1))


class Going:
    """A target on named columns of labels."""

    actions = ("go", "stay")

    def probabilities(self, observations: Any) -> Any:
        CTRL_C()
        return np.where(observations["state"][:, None] > 1, [0.8, 0.2], [0.3, 0.7])


# Of each log: how it is read, and the target.
CATEGORIES = {"observation": ["state", "day"], "kinds": {"state": "category"}}
LOGS: dict[str, tuple[dict[str, Any], Any]] = {
    "continuous": ({}, drawn),
    "discrete": (CATEGORIES, Going()),
    "episodes": ({"observation": "level", "trajectory": "agent"}, Often()),
    "weighted": ({"weight": "weight"}, Often()),
}


def read(name: str, way: str = "memory", **changes: Any) -> cs.Log:
    return cs.read(name, **{**LOGS[name][0], "stream": way != "memory", **changes})


def features(rows: int = 600) -> cs.FeatureTransitions:
    """Ready features of independent pairs."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, 3))
    after = 0.5 * x[:, ::-1] + 0.5 * rng.normal(size=(rows, 3))
    rewards = 1 + x @ [1.0, 0.5, -0.5] + 0.1 * rng.normal(size=rows)
    return cs.FeatureTransitions(x, rewards, after, trajectory=np.arange(rows) // 60)
