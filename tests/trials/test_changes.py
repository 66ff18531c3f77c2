"""Changes between a stop and the command that should go on: the log, the policy, the features, the settings, cesaro."""

import os
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import cesaro as cs
from cesaro import files
from cesaro.passes import checkpoint as pass_checkpoint

from .table import Content, Files, Trial, parquet, rows, table, text

POLICY = """
import numpy as np
from cesaro.policies import Finite
from helper import rare

target = Finite(["go", "stay"], lambda s: np.where(s[:, None] == "c", rare, [0.5, 0.5]))
"""
FEATURES = "import numpy as np\ndef f(s, a):\n    return np.stack([s == 'b', a == 'go', s == 'c'], axis=1) * 1.0\n"
CODE: Files = {"policy.py": POLICY, "helper.py": "rare = [0.9, 0.1]\n", "f.py": FEATURES}
ROWS = "'c.npz' belongs to another run: the rows of {} have changed since; delete that file to start afresh"
OTHER = "'c.npz' belongs to another run: its {} is…; delete that file to start afresh"


def stopped(change: Callable[[Path], object], stream: bool) -> Content:
    """The checkpoint of a finished evaluation, after which something changes in the folder."""

    def make(path: Path) -> None:
        folder = path.parent
        is_own = (folder / "policy.py").exists()
        estimator = cs.DiffLSTD("f.py:f", ridge=0.1) if is_own else cs.DiffLSTD()
        estimator.set_params(checkpoint=path, quiet=True)
        with mock.patch.object(pass_checkpoint, "SECONDS", 0.0), chdir(folder):
            log = cs.read(next(Path().glob("log*")), stream=stream)
            estimator.fit(log, cs.policy("policy.py:target" if is_own else "uniform", name="p"))
        change(folder)

    return make


def rewrite(name: str, old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text((folder / name).read_text().replace(old, new, 1))


def older(folder: Path) -> None:
    kept = files.read_values(folder / "c.npz", pass_checkpoint.SCHEMA)
    files.write_values(folder / "c.npz", "cesaro-passes/1", {name: kept[name] for name in ("identity", "passes")})


def trial(
    name: str,
    given: Files,
    change: Callable[[Path], object],
    says: str = "",
    *,
    options: str = "",
    stream: bool = False,
) -> Trial:
    """Most are refused; where nothing is said, the answer comes."""
    is_own = "policy.py" in given
    options = f"--checkpoint c.npz {'--ridge 0.1 --features f.py:f' if is_own else ''} {options} {'--stream' * stream}"
    return Trial(
        name,
        {**given, "c.npz": stopped(change, stream)},
        says,
        None if says else 0.5,
        options,
        "p=policy.py:target" if is_own else "p=uniform",
        next(iter(given)).partition("/")[0],
    )


def touch(folder: Path) -> None:
    for file in folder.glob("log.*"):
        os.utime(file, ns=(1, 1))


def leave(folder: Path) -> None:
    pass


def write_parquet(folder: Path) -> None:
    pq.write_table(table(reward=pa.array([2.0] * 24)), folder / "log.parquet")


LOG: Files = {"log.csv": text()}
ALL: Files = {**LOG, **CODE}
HALVES: Files = {"log/a.csv": text(), "log/b.csv": text()}
REWARD = ("go,1", "go,2")
CHANGES = [
    trial("nothing", LOG, leave),
    trial("a touched log", LOG, touch),
    trial("a touched log in blocks", LOG, touch, stream=True),
    trial("a reward", LOG, rewrite("log.csv", *REWARD), ROWS.format("log.csv")),
    trial("a reward, in blocks", LOG, rewrite("log.csv", *REWARD), ROWS.format("log.csv"), stream=True),
    trial("a reward of one file", HALVES, rewrite("log/b.csv", *REWARD), ROWS.format("b.csv")),
    trial("a reward of one file, in blocks", HALVES, rewrite("log/b.csv", *REWARD), ROWS.format("b.csv"), stream=True),
    trial("a reward of a Parquet file", parquet(), write_parquet, ROWS.format("log.parquet")),
    trial(
        "rows in another order", LOG, rewrite("log.csv", "a,go,0\nb,go,1\n", "b,go,1\na,go,0\n"), ROWS.format("log.csv")
    ),
    trial("a row less", LOG, rewrite("log.csv", "a,go,0\n", ""), OTHER.format("log")),
    trial("a new label", LOG, rewrite("log.csv", "a,stay", "c,stay"), OTHER.format("log")),
    trial("a policy at a state that never comes", ALL, rewrite("policy.py", '"c"', '"d"'), OTHER.format("policy")),
    trial("what a policy imports", ALL, rewrite("helper.py", "0.9, 0.1", "0.8, 0.2"), OTHER.format("policy")),
    trial("a feature that is always zero", ALL, rewrite("f.py", "'c'", "'d'"), OTHER.format("features")),
    trial("a setting", LOG, leave, OTHER.format("settings"), options="--seed 1"),
    trial("an older version", LOG, older, "'c.npz' was made by an older version; delete that file to start afresh."),
]


@rows(CHANGES)
def test_changes(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
