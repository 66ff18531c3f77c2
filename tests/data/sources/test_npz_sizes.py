"""An NPZ archive whose arrays promise another size than they have is refused before anything of that size is allocated."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cesaro.data import read
from cesaro.errors import InputError


def written(path: Path, shape: tuple[int, ...]) -> Path:
    """Three rows of a log, where the header of `reward` promises another shape for its 24 bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, values in {"state": [0, 1, 2], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]}.items():
            array = np.array(values)
            content = io.BytesIO()
            header: dict[str, Any] = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(
                content, {**header, "shape": shape if name == "reward" else array.shape}
            )
            archive.writestr(f"{name}.npy", content.getvalue() + array.tobytes())
    return path


def test_an_honest_archive_is_read(tmp_path: Path) -> None:
    assert read(written(tmp_path / "log.npz", (3,))).load().rewards.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("shape", [(10**15,), (4,), (2,), (2**62, 4), (0, 3)])
def test_an_archive_that_promises_another_size_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = written(tmp_path / "log.npz", shape)
    with pytest.raises(InputError, match=r'^log.npz: array "reward" must be complete. Got 24 bytes; write it again.$'):
        read(path)
