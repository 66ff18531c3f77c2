"""Numbers that are too large or too small to compute with, numbers that size something, and JSON that is nested or doubled."""

import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cesaro.reproduce.assumption import Config

from .table import Content, Files, Trial, log, rows, table

RNG = np.random.default_rng(0)
PLACES, ACTIONS = RNG.normal(size=(60, 2)), RNG.integers(0, 2, 60)
LARGE = "must be at most 1e+100 in size, so that squares do not overflow. Got {}…; scale the column, or remove that row"
DEEP = "nested more than 100 levels deep"
MANIFEST = "reproduce --from m.json --out o --quiet"
POLICY = {"p.py": "def f(observations, rng):\n    return rng.integers(0, 2, len(observations))\n"}
FUNCTION = "import numpy as np\n\ndef f(observations, actions):\n    return np.full((len(actions), 2), {})\n"


def npz(**changes: Any) -> Files:
    """Walks in the plane as arrays."""
    arrays = {"observations": PLACES, "actions": ACTIONS, "rewards": PLACES[:, 0] > 0, **changes}
    np.savez(file := io.BytesIO(), **arrays)
    return {"log.npz": file.getvalue()}


def with_entry(value: float) -> Any:
    changed = PLACES.copy()
    changed[3, 1] = value
    return changed


def numbers(name: str, says: str, options: str = "", policy: str = "uniform", **changes: Any) -> Trial:
    kinds = "" if "actions" in changes else "--kind actions=category"
    return Trial(name, {**npz(**changes), **POLICY}, says, options=f"{kinds} {options}", policy=policy)


def weights(value: str) -> Files:
    return log(weight=[value] * 24)


VALUES = [
    numbers("observations", 'column "observations" ' + LARGE.format(""), observations=PLACES * 1e307),
    numbers("Fourier of them", LARGE.format(""), "--features fourier:8", observations=PLACES * 1e307),
    numbers(
        "one of them", LARGE.format("1.7e+308 at row 3 (counted from 0), entry 1"), observations=with_entry(1.7e308)
    ),
    numbers(
        "one next to them", "or any over 1e+100 in size", observations=PLACES, next_observations=with_entry(-1e101)
    ),
    numbers("actions", 'column "actions" ' + LARGE.format(""), policy="constant:0", actions=PLACES[:, :1] * 1e200),
    numbers(
        "denormal observations",
        "Column 'observations' must reach 1e-100 in size or hold one number throughout",
        observations=PLACES * 1e-310,
    ),
    numbers(
        "a polynomial that overflows",
        "overflow: an input is 7.6… standard deviations from its mean; take a lower degree",
        "--features polynomial:44",
        observations=with_entry(1e9)[:, 1],
    ),
    Trial("weights", weights("1e308"), 'column "weight" ' + LARGE.format("1e+308 at row 0"), options="--weight weight"),
    Trial(
        "denormal weights",
        weights("1e-320"),
        'column "weight" must be 0 or at least 1e-100, so that no product is lost. Got 9.99989e-321 at row 0',
        options="--weight weight",
    ),
    Trial("small weights", weights("1e-99"), rate=0.5, options="--weight weight"),
    Trial(
        "features of a function",
        {**log(), "x.py": FUNCTION.format("1e200")},
        "must be at most 1e+100 in size, so that squares do not overflow. Got 1e+200 at row 0, feature 0;",
        options="--features x.py:f",
    ),
    Trial("ridge", says="ridge must be a number ≥ 0 and < 1e+30. Got 1e+308.", options="--ridge 1e308"),
]

SIZES = [
    numbers("draws", "draws must be an integer ≥ 1 and ≤ 10,000. Got 1000000000.", "--draws 1000000000", "p.py:f"),
    numbers("draws of 31 digits", "≤ 10,000. Got about 10**30.", f"--draws {10**30}", "p.py:f"),
    numbers("Fourier features", "N in fourier:N must be an integer ≥ 1 and ≤ 4,096", "--features fourier:1000000000"),
    numbers("Fourier features per action", "4,098 features are too many (fourier:2049, for", "--features fourier:2049"),
    numbers("a degree of 5,000 digits", "≤ 4,096. Got 9", f"--features polynomial:{'9' * 5_000}"),
    numbers(
        "a degree of many columns",
        "More than 10¹² features are too many (polynomial:4096",
        "--features polynomial:4096",
        observations=np.tile(PLACES, (1, 20)),
    ),
    numbers(
        "seeds of a method", "seeds must be an integer ≥ 1 and ≤ 10,000", f"--method diff-gq1 --set seeds={10**30}"
    ),
    numbers(
        "minibatches",
        "batch_size must be an integer ≥ 1 and ≤ 1,000,000",
        "--method diff-gq1 --set batch_size=10000000",
    ),
    numbers("steps of a method", "must be below 2³¹ samples", f"--method diff-gq1 --set steps={10**30}"),
    numbers("a step", "step_size must be a number > 0 and < 1e+30", "--method diff-gq1 --set step_size=1e300"),
    Trial(
        "steps",
        {},
        "≤ 2,000,000,000. Got about 10**30",
        command=f"collect CartPole-v1 --policy uniform --steps {10**30}",
    ),
    Trial(
        "streams",
        {},
        "streams must be an integer ≥ 1 and ≤ 100,000. Got 1000000000.",
        command="truth CartPole-v1 --policy uniform --steps 1000000000 --streams 1000000000",
    ),
    Trial(
        "noise",
        {},
        "sigma must be a number ≥ 0 and < 1e+30. Got 1e+308.",
        command="collect Pendulum-v1 --policy uniform --steps 20 --sigma 1e308",
    ),
    Trial(
        "workers",
        {},
        "must be an integer ≥ 1 and ≤ 1,024. Got 1000000000.",
        command="reproduce assumption --trials 3 --workers 1000000000 --out o",
    ),
    Trial(
        "trials", {}, "must be at most 100,000,000. Got about 10**30", command=f"reproduce assumption --trials {10**30}"
    ),
    Trial(
        "noise of a study",
        {},
        "The 'sigmas' setting of the mujoco study must be below 1e+30 in size. Got 1e+308",
        command="reproduce mujoco --sigma 1e308 --out o",
    ),
]


def manifest(text: Content) -> Files:
    return {"m.json": text}


def of_assumption(**changes: Any) -> str:
    settings = asdict(Config()) | changes
    return json.dumps(
        {"schema": "cesaro-study/1", "study": "assumption", "settings": settings, "summary": {}, "versions": {}}
    )


def told(content: str) -> Files:
    pq.write_table(table().replace_schema_metadata({b"cesaro": content.encode()}), file := pa.BufferOutputStream())
    return {"log.parquet": file.getvalue().to_pybytes()}


JSON = [
    Trial("lists", manifest("[" * 100_000), f"'m.json' is not readable JSON ({DEEP})", command=MANIFEST),
    Trial("objects", manifest('{"a":' * 50_000), f"'m.json' is not readable JSON ({DEEP})", command=MANIFEST),
    Trial(
        "lists that end", manifest("[" * 101 + "]" * 101), f"'m.json' is not readable JSON ({DEEP})", command=MANIFEST
    ),
    Trial("a name twice", manifest('{"a": 1, "a": 2}'), "('a' occurs twice in one object)", command=MANIFEST),
    Trial("no number", manifest('{"a": NaN}'), "(NaN is not a number in JSON)", command=MANIFEST),
    Trial(
        "a float that none holds",
        manifest("[1e999]"),
        "(1e999 is not a number that a float can hold)",
        command=MANIFEST,
    ),
    Trial("5,000 digits", manifest("9" * 5_000), "'m.json' is not readable JSON (Exceeds the limit", command=MANIFEST),
    Trial("a pipe", manifest(os.mkfifo), "'m.json' is not readable JSON (no regular file)", command=MANIFEST),
    Trial(
        "many trials", manifest(of_assumption(trials=10**30)), "at most 100,000,000. Got about 10**30", command=MANIFEST
    ),
    Trial(
        "large chains", manifest(of_assumption(sizes=[5, 10**9])), "at most 10,000. Got 1000000000", command=MANIFEST
    ),
    Trial(
        "many chains", manifest(of_assumption(sizes=[5] * 2_000)), "at most 1,000 entries. Got 2,000", command=MANIFEST
    ),
    Trial("metadata: lists", told("[" * 100_000), f'metadata "cesaro" must be a JSON object. Got … ({DEEP})'),
    Trial("metadata: objects", told('{"a":' * 50_000), f'metadata "cesaro" must be a JSON object. Got … ({DEEP})'),
]


@rows(VALUES)
def test_values(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(SIZES)
def test_sizes(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(JSON)
def test_json(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
