"""`cesaro examples`: the logs, policies and programs that the pages use, for those who have no copy of the repository."""

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

import cesaro
from cesaro.commands import output
from cesaro.commands.errors import one_line_errors

# The command of the README, with the folder in the place of {0}.
_FIRST = (
    "cesaro evaluate {0}/queue.parquet --policy candidate={0}/queue_policy.py:candidate \\",
    "  --observation free_servers --observation priority --kind free_servers=category --trajectory agent \\",
    '  --unit "per customer" --out answer',
)


def examples(
    out: Annotated[Path, typer.Option(help="The folder that will hold them.")] = Path("examples"),
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier run wrote.")] = False,
) -> None:
    """Write the logs, policies and programs of the documentation into a folder, and print a command that uses them."""
    with one_line_errors(resumes=False):
        from cesaro.folders import OutFolder  # help must not wait for NumPy

        class Copy(OutFolder):
            WRITER = "examples"
            WRITTEN_BY = "cesaro examples"

        source = _source()
        names = sorted(
            file.relative_to(source).as_posix()
            for file in source.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        )
        with Copy(out, force=force) as folder:
            for name, place in zip(names, folder.files(names), strict=True):
                shutil.copyfile(source / name, place)
            folder.rename()
        output.echo(f"{len(names)} files: {out}. A first answer from them:")
        for line in _FIRST:
            output.echo(line.format(shlex.quote(str(out))))


def _source() -> Path:
    """Inside the package where a wheel was installed; beside src/ in the repository, from where the wheel has them."""
    package = Path(cesaro.__file__).parent
    inside = package / "examples"
    return inside if inside.is_dir() else package.parents[1] / "examples"
