"""`python -m benchmarks [name …] [options]`: run all benchmarks, or the named ones, each in a process of its own.

Options go to all that are named; `python -m benchmarks scale --help` shows those of one that has some. What measures no speed
runs only where it is named.
"""

import subprocess
import sys
from itertools import takewhile
from pathlib import Path

HERE = Path(__file__).parent
# What a benchmark that takes long gets where all are run.
SHORT = {"scale": ["--sizes", "1e5,1e6"], "shuffle": ["--seeds", "2"]}

# What looks at the code or at answers instead of measuring speed.
ON_DEMAND = {"golden", "house", "noise", "spread", "verdicts"}


def main() -> int:
    available = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    named = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    options = sys.argv[1 + len(named) :]
    unknown = sorted(set(named) - set(available))
    if unknown:
        print(f"error: unknown benchmark {', '.join(unknown)}; there are {', '.join(available)}", file=sys.stderr)
        return 2
    codes = []
    for name in named or [name for name in available if name not in ON_DEMAND]:
        command = [sys.executable, "-m", f"benchmarks.{name}", *(options if named else SHORT.get(name, []))]
        codes.append(subprocess.run(command, cwd=HERE.parent, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
