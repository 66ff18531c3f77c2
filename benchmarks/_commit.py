"""Files as they were in a commit of this repository."""

import io
import subprocess
import tarfile
from pathlib import Path


def unpack(commit: str, folder: Path, target: Path, *paths: str) -> None:
    """Write the files below `folder` (or those of its `paths`) into `target`, as they were in `commit`.

    An archive instead of a work tree of Git's own: nothing of it stays in the repository, whatever ends the process.
    """
    command = ["git", "archive", "--format=tar", commit, "--", *(paths or (".",))]
    archive = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(
            f"error: {commit} cannot be read ({archive.stderr.decode().strip()}); give a commit of this repository."
        )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(target, filter="data")
