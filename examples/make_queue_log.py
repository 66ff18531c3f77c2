"""Write queue.parquet: what twenty halls with ten servers each logged, a customer a minute, under rules of their own.

Each customer offers 1 (bronze), 2 (silver), 4 (gold) or 8 (platinum) for a server. Half of the halls serve almost
anyone, the others hardly anyone but the best, and all now and then do the opposite. The log says what was done, not why.
"""

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cesaro as cs

FILE = Path(__file__).with_name("queue.parquet")
PRIORITIES = {"bronze": 1, "silver": 2, "gold": 4, "platinum": 8}
ROWS = 2_500  # per hall
# The least offer that is accepted with at most 4, at most 7, and more free servers; how often the opposite is done.
RULES = {"north": ((2, 1, 1), 0.15), "south": ((8, 4, 4), 0.25)}
HALLS = {f"{side} {number}": rule for number in range(1, 11) for side, rule in RULES.items()}


def simulate(hall: str, rng: np.random.Generator) -> dict[str, list[object]]:
    """One hall as an MDP, from the table of its transition probabilities."""
    mdp = cs.problems.access_control_queue(priorities=list(PRIORITIES.values())).mdp
    assert isinstance(mdp.probabilities, np.ndarray)
    steps, names = mdp.probabilities.cumsum(axis=2), list(PRIORITIES)
    least, odd = HALLS[hall]
    columns: dict[str, list[object]] = {"free_servers": [], "priority": [], "action": [], "reward": []}
    state = mdp.num_states - 1
    for chance, change in rng.random((ROWS, 2)):
        free, number = divmod(state, len(names))
        wanted = PRIORITIES[names[number]] >= least[(free > 4) + (free > 7)]
        accept = int(free > 0 and wanted != (chance < odd))
        row = (free, names[number], ("reject", "accept")[accept], float(mdp.rewards[state, accept]))
        for column, value in zip(columns.values(), row):
            column.append(value)
        state = min(int(np.searchsorted(steps[state, accept], change, side="right")), mdp.num_states - 1)
    return columns


def build(seed: int = 0) -> pa.Table:
    """All halls, interleaved in time."""
    tables = []
    for number, hall in enumerate(HALLS):
        start = datetime(2024, 3, 1) + timedelta(seconds=3 * number)
        times = pa.array([start + timedelta(minutes=minute) for minute in range(ROWS)], pa.timestamp("ms"))
        data = {"agent": [hall] * ROWS, "time": times, **simulate(hall, np.random.default_rng([seed, number]))}
        tables.append(pa.table(data))
    table = pa.concat_tables(tables).sort_by("time")
    return table.set_column(2, "free_servers", table["free_servers"].cast(pa.int8()))


if __name__ == "__main__":
    encoding = {"time": "DELTA_BINARY_PACKED"}
    dictionaries = ["agent", "free_servers", "priority", "action", "reward"]
    pq.write_table(build(), FILE, compression="zstd", use_dictionary=dictionaries, column_encoding=encoding)
    print(f"{FILE.name}: {FILE.stat().st_size / 1e3:.0f} kB")
