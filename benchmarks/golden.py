"""Whether this tree gives the same results as an earlier commit, byte for byte: `make golden BASE=COMMIT`, three minutes.

The cases of `_golden/` run once with the source of that commit and once with that of this tree, on this machine, each in
a process of its own. Nothing is recorded for later, because bits differ between processors.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._commit import unpack

ROOT = Path(__file__).parents[1]
USAGE = (
    "Give the commit before your change, with whose results those of this tree are compared: make golden BASE=COMMIT."
)
# Differences that are printed of one case, and characters of a text around the first of them.
MOST, AROUND = 5, 60
# A number within text: with a fraction, with an exponent or hexadecimal, or a zero in the place of one.
NUMBER = re.compile(r"-?0x[01]\.[0-9a-f]+p[-+]\d+|-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+|\b0\b(?![.\dx])")


class Difference(NamedTuple):
    """A value that the two trees do not share."""

    path: str
    base: str
    here: str


def differences(
    base: Any, here: Any, path: str = "", tolerance: float = 0.0, scale: float = 0.0
) -> Iterator[Difference]:
    """All values of two JSON documents that differ, or that only one of them has.

    Args:
        tolerance: the share of their size by which numbers may differ, also within text; zero: not in any bit.
        scale: the size where it is larger than theirs: that of the numbers beside them, or of the rate that they belong to,
            because a difference that should be zero is as uncertain as what it is the difference of.
    """
    if isinstance(base, dict) and isinstance(here, dict):
        rate = base.get("reward_rate")
        rate = max(scale, _largest(rate.values() if isinstance(rate, dict) else [rate]))
        for name in base | here:
            below = f"{path}.{name}" if path else name
            if name == "sha256" and tolerance and "values" in base:
                continue  # the numbers themselves are compared
            if name in base and name in here:
                beside = max(_largest(base.values()), _largest(here.values()))
                is_number = isinstance(base[name], float)
                yield from differences(
                    base[name], here[name], below, tolerance, max(rate, beside) if is_number else rate
                )
            else:
                yield Difference(below, *(_shown(one[name]) if name in one else "missing" for one in (base, here)))
        if base.keys() == here.keys() and list(base) != list(here):
            yield Difference(path, *(f"in the order {', '.join(one)}" for one in (base, here)))
    elif isinstance(base, list) and isinstance(here, list):
        if len(base) != len(here):
            yield Difference(path, f"{len(base)} entries", f"{len(here)} entries")
        scale = max(_largest(base), _largest(here), scale)
        for place, (one, other) in enumerate(zip(base, here)):
            yield from differences(one, other, f"{path}[{place}]", tolerance, scale)
    elif not _are_same(base, here, tolerance, scale):
        start = 0
        if isinstance(base, str) and isinstance(here, str):
            same = next((place for place, (one, other) in enumerate(zip(base, here)) if one != other), 0)
            start = max(0, same - AROUND // 2)
        yield Difference(path, _shown(base, start), _shown(here, start))


def _largest(values: Iterable[Any]) -> float:
    """The size of the largest number with a fraction among some values."""
    return max((abs(one) for one in values if isinstance(one, float) and math.isfinite(one)), default=0.0)


def _are_same(base: Any, here: Any, tolerance: float, scale: float) -> bool:
    if type(base) is type(here) and repr(base) == repr(here):  # the shortest text that gives these bits
        return True
    if not tolerance or type(base) is not type(here):
        return False
    if isinstance(base, float):
        return abs(base - here) <= tolerance * max(abs(base), abs(here), scale)
    if not isinstance(base, str) or NUMBER.sub("#", base) != NUMBER.sub("#", here):
        return False
    pairs = [map(_number, both) for both in zip(NUMBER.findall(base), NUMBER.findall(here))]
    return all(abs(one - other) <= tolerance * max(abs(one), abs(other), 1.0) for one, other in pairs)


def _number(text: str) -> float:
    return float.fromhex(text) if "x" in text else float(text)


def _shown(value: Any, start: int = 0) -> str:
    text = repr(value)
    cut = text[start : start + 2 * AROUND]
    return ("…" if start else "") + cut + ("…" if start + len(cut) < len(text) else "")


def count(document: Any) -> int:
    """The values of a JSON document."""
    if isinstance(document, dict):
        return sum(map(count, document.values()))
    return sum(map(count, document)) if isinstance(document, list) else 1


def compare(base: Path, here: Path, tolerance: float = 0.0) -> tuple[list[str], int, int]:
    """What differs between two folders of results, in lines, and the numbers of cases and of values."""
    lines, values = [], 0
    names = sorted({file.name for folder in (base, here) for file in folder.iterdir()})
    for name in names:
        case = name.removesuffix(".json")
        missing = [side for side, folder in (("BASE", base), ("this tree", here)) if not (folder / name).exists()]
        if missing:
            lines.append(f"{case}: {missing[0]} has no result")
            continue
        one, other = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (base, here))
        values += count(other)
        found = list(differences(one, other, tolerance=tolerance))
        for difference in found[:MOST]:
            lines += [f"{case}: {difference.path}", f"    BASE  {difference.base}", f"    here  {difference.here}"]
        if len(found) > MOST:
            lines.append(f"{case}: {len(found) - MOST:,} more values differ")
        if not found and "failed" in other:
            lines.append(f"{case}: fails with both, so that it compares nothing: {other['failed']}")
    return lines, len(names), values


def run_cases(tree: Path, folder: Path, out: Path, cache: Path, selection: Sequence[str]) -> None:
    """Run the cases with the source of `tree`, in an empty `folder`, and write their results into `out`."""
    folder.mkdir()
    out.mkdir(parents=True)
    command_line = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]["cesaro"]
    settings = {
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(ROOT)]),  # the cases are those of this tree
        "GOLDEN_COMMAND": command_line,
        "PYTHONHASHSEED": "0",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "100",  # of the terminal
        # The second tree finds the compiled programs that it has in common with the first.
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    options = ["--source", str(tree / "src"), "--out", str(out), *selection]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "benchmarks._golden", *options],
        cwd=folder,
        env={**os.environ, **settings},
        check=False,
    )
    if ended.returncode:
        raise SystemExit("error: the cases did not run to their end.")
    shutil.rmtree(folder)  # the other tree runs in a folder of the same name, which messages may hold


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks golden", description=__doc__)
    parser.add_argument("--base", metavar="COMMIT", help="the commit to compare with")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="cases to run, such as 'sweep-*'")
    parser.add_argument("--except", metavar="PATTERN", default="", dest="left_out", help="cases to leave out")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the results of both in this new folder")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="numbers may differ by this share of their size (0)",
    )
    given = parser.parse_args(arguments)
    if not given.base:
        print(USAGE, file=sys.stderr)
        return 2
    if given.keep is not None and given.keep.exists():
        print(f"error: --keep {given.keep} exists; choose a new folder.", file=sys.stderr)
        return 2
    selection = ["--only", given.only, "--except", given.left_out]
    with tempfile.TemporaryDirectory(prefix="cesaro-golden-") as name:
        folder = Path(name).resolve()
        results = folder / "results"
        unpack(given.base, ROOT, folder / "base", "src", "pyproject.toml")
        for side, tree in (("base", folder / "base"), ("here", ROOT)):
            print(f"{given.base if side == 'base' else 'this tree'}:", flush=True)
            run_cases(tree, folder / "run", results / side, folder / "cache", selection)
        if given.keep is not None:
            shutil.copytree(results, given.keep)
        lines, cases, values = compare(results / "base", results / "here", given.tolerance)
    same = f"within {given.tolerance:g} of" if given.tolerance else "identical to"
    if lines:
        print("\n".join(lines))
        print(f"{cases} cases, {values:,} values: NOT {same} {given.base}")
        return 1
    print(f"{cases} cases, {values:,} values: {same} {given.base}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
