"""`python -m benchmarks [name …]`: run all benchmarks, or the named ones, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    available = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    chosen = sys.argv[1:] or available
    unknown = sorted(set(chosen) - set(available))
    if unknown:
        print(f"error: unknown benchmark {', '.join(unknown)}; there are {', '.join(available)}", file=sys.stderr)
        return 2
    return max(subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode for name in chosen)


if __name__ == "__main__":
    sys.exit(main())
