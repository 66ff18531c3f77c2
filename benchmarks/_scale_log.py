"""The log of the scale benchmark, a linear system with noise in one trajectory without ids, and the policy to evaluate."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.signal import lfilter

OBSERVATIONS = tuple(f"obs_{i}" for i in range(8))
ACTIONS = ("act_0", "act_1")
FILE_ROWS, GROUP_ROWS = 10_000_000, 1 << 20
ROW_BYTES = 4 * (len(OBSERVATIONS) + len(ACTIONS) + 1)
# Free bytes per row that writing a log asks for: 6 GB for 5·10⁷ rows, all sizes together.
FREE_BYTES = 120


def controller(observations: Any) -> Any:
    """The target: a little feedback on the first two observations."""
    return -0.1 * observations[:, :2]


def write_log(folder: Path, rows: int, *, ids: bool = False) -> None:
    """Float32 columns in files of 10⁷ rows and row groups of 2²⁰, uncompressed: noise does not compress.

    `ids`: beside them trajectories of 1,000 rows and their times, whole numbers.
    """
    folder.mkdir()
    rng = np.random.default_rng(1)
    before = np.zeros(len(ACTIONS), np.float32)  # the action of the row above
    states = np.zeros((len(OBSERVATIONS), 1), np.float32)
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        last = min(first + FILE_ROWS, rows)
        writer = None
        for start in range(first, last, GROUP_ROWS):
            stop = min(start + GROUP_ROWS, last)
            columns, before, states = _rows(rng, stop - start, before, states)
            if ids:
                row = np.arange(start, stop)
                columns |= {"trajectory": row // 1_000, "time": row % 1_000}
            table = pa.table(columns)
            if writer is None:
                path = folder / f"part-{number:03}.parquet"
                writer = pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
            writer.write_table(table, row_group_size=GROUP_ROWS)
        assert writer is not None
        writer.close()


def _rows(
    rng: np.random.Generator, count: int, before: NDArray[np.float32], states: NDArray[np.float32]
) -> tuple[dict[str, Any], NDArray[np.float32], NDArray[np.float32]]:
    """Rows that go on from those before: `s' = 0.9 s + 0.2 a + 0.4 noise`, `r = −mean s²`."""
    noise = rng.standard_normal((len(OBSERVATIONS), count), dtype=np.float32)
    actions = rng.standard_normal((len(ACTIONS), count), dtype=np.float32)
    earlier = np.concatenate([before[:, None], actions[:, :-1]], axis=1)
    driven = np.float32(0.4) * noise + np.float32(0.2) * earlier[np.arange(len(OBSERVATIONS)) % len(ACTIONS)]
    one, decay = np.ones(1, np.float32), np.array([1.0, -0.9], np.float32)
    observed, states = lfilter(one, decay, driven, axis=1, zi=states)
    columns = dict(zip((*OBSERVATIONS, *ACTIONS), (*observed, *actions)))
    columns["reward"] = -np.square(observed).mean(axis=0)
    return columns, actions[:, -1], states
