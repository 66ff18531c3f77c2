"""Runs the cases with one source tree; each writes what that tree gives into a JSON file."""

import argparse
import json
import shutil
import signal
import sys
import time
import traceback
import warnings
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

import cesaro as cs
from benchmarks._golden.case import CASES
from benchmarks._golden.logs import write_logs
from benchmarks._golden.record import plain

# Those that register cases.
MODULES = ("evaluations", "learning", "known", "commands", "names")


def run(name: str) -> Any:
    """What a case gives and what it warns of; an error that no case expects is what it gives, and found by the comparison."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            given = plain(CASES[name]())
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc().splitlines()}
    said = [str(one.message) for one in caught if issubclass(one.category, cs.EvaluationWarning)]
    return given | ({"warnings": said} if said else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True, help="the folder that cesaro must come from")
    parser.add_argument("--out", type=Path, required=True, help="a folder for a file per case")
    parser.add_argument("--only", default="*", help="a pattern of names")
    parser.add_argument("--except", default="", dest="left_out", help="a pattern of names")
    given = parser.parse_args()
    for module in MODULES:
        import_module(f"benchmarks._golden.{module}")
    names = [name for name in CASES if fnmatch(name, given.only) and not fnmatch(name, given.left_out)]
    if not names:
        sys.exit(f"error: no case is left; there are {', '.join(CASES)}")
    found = Path(cs.__file__).resolve().parent
    if found.parent != given.source.resolve():
        sys.exit(f"error: cesaro comes from {found}, and not from {given.source}")
    vars(import_module("cesaro.evaluation"))["DEFAULT_EFFORT"] = (
        "none"  # answers of one estimator, the same in every tree
    )
    out = given.out.resolve()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, a shell lets processes ignore it
    start = time.perf_counter()
    write_logs()
    logs = [entry.name for entry in Path().iterdir()]
    for name in names:
        began = time.perf_counter()
        told = run(name)
        (out / f"{name}.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
        now = time.perf_counter()
        print(f"  {now - start:6.1f} s  {name} ({now - began:.1f} s)", flush=True)
        for entry in Path().iterdir():  # what the case has written
            if entry.name not in logs:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


if __name__ == "__main__":
    main()
