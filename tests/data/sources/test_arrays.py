"""NPZ headers of any kind get one sentence, and HDF5 files give only what is written in them."""

import io
import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cesaro.data import read
from cesaro.errors import InputError

STATE, ACTION, REWARD = np.array([0, 1, 2]), np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])


# NPZ


def npy(header: str, data: bytes = REWARD.tobytes(), version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("latin1", errors="replace") if version < (3, 0) else header.encode(errors="surrogatepass")
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def archive(path: Path, reward: bytes) -> Path:
    """A log whose rewards are these bytes."""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in {"state": STATE, "action": ACTION}.items():
            content = io.BytesIO()
            np.save(content, array)
            file.writestr(f"{name}.npy", content.getvalue())
        file.writestr("reward.npy", reward)
    return path


def refused(path: Path, match: str = "log") -> str:
    """The sentence that refuses a file, which is one line and no warning."""
    with warnings.catch_warnings(action="error"), pytest.raises(InputError, match=match) as error:
        read(path).load()
    said = str(error.value)
    assert said.startswith(path.name)
    assert said.endswith(".")
    assert said.isprintable()
    assert len(said) < 400
    return said


def described(descr: str = "'<f8'", order: str = "False", shape: str = "(3,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    "header",
    [
        "(" * 9_000,
        "(" * 150 + ")" * 150,
        "[" * 9_000,
        "-" * 9_000 + "1",
        "~" * 5_000 + "1",
        "not " * 2_000 + "1",
        "{'a':" * 1_500,
        "1" + "+1" * 4_500,
        "1" + "**1" * 3_000,
        "f'{" * 2_000,
        "'''",
        "\\",
        "\0",
        "{\n  'a'\n",
        "if x:\n",
        "  1\n 2\n",
        "0777L",
        "1_",
        "'\\d'",
        "'\\N{no such}'",
        "é",
        "",
        "[]",
        "{1: 2}",
        "{[]: 2}",
        "{'descr': '<f8', 'fortran_order': False, 1: (3,)}",
        described(shape="(" + "9" * 5_000 + ",)"),
        described(shape="(0x" + "f" * 5_000 + ",)"),
        described(shape="(3.0,)"),
        described(shape="3"),
        described(shape="(True, 3)"),
        described(shape="(-1, -3)"),
        described(shape="(0, 99999999999999999999)"),
        described(order="1"),
        described(descr="'<f9'"),
        described(descr="'|S0'", shape="(3,)"),
        described(descr="'<U0'", shape="(1000000000000000,)"),
        described(descr="'a10'"),
        described(descr="('<f8', (-1,))"),
        described(descr="('<f8', (3,))", shape="(1,)"),
        described(descr="'(3,)<f8'", shape="()"),
        described(descr="[('x', '<f8')]"),
        described(descr="[('x', '<f8'), ('x', '<f8')]"),
        described(descr="[('x', '<f4', (2,))]"),
        described(descr="{'names': 1}"),
        described(descr="'<M8[7000000000000D]'"),
        described(descr="'<M8[xx]'"),
        described(descr="'<M8'"),
        described(descr="'m8[as]'"),
        described(descr="'|O'"),
        described(descr="None", shape="(4,)"),
        described(descr="'<f8,<f8'"),
        described(descr="'\\ud800'"),
        described(descr="''", shape="(3,)"),
        described(descr="'|V8'"),
        described(descr="'<c16'"),
        described(shape="(" + "1," * 70 + "3)"),
    ],
)
def test_any_header_gets_one_sentence(header: str, tmp_path: Path) -> None:
    for version in ((1, 0), (2, 0), (3, 0)):
        refused(archive(tmp_path / "log.npz", npy(header, version=version)))


def test_a_nested_header_names_its_array(tmp_path: Path) -> None:
    said = refused(archive(tmp_path / "log.npz", npy("(" * 9_000)))
    assert said.startswith(
        'log.npz must be a complete NPZ file. Got: array "reward" has a header that cannot be read ('
    )


TOKENS = st.sampled_from(
    [*"(){}[],:'\"-+*\\\n #L_", "1", "0x", "9" * 50, "'descr'", "'shape'", "'<f8'", "False", "é", "\0"]
)


@pytest.mark.slow
@given(st.lists(TOKENS, max_size=40).map("".join), st.sampled_from([(1, 0), (2, 0), (3, 0), (9, 9)]))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_headers_get_one_sentence(tmp_path: Path, header: str, version: tuple[int, int]) -> None:
    refused(archive(tmp_path / "log.npz", npy(header, version=version)))


@given(st.integers(0, 79), st.binary(min_size=1, max_size=6))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_headers_get_one_sentence_or_are_read(tmp_path: Path, place: int, damage: bytes) -> None:
    whole = npy(described().ljust(70))
    path = archive(tmp_path / "log.npz", whole[:place] + damage + whole[place + len(damage) :])
    with warnings.catch_warnings(action="error"), suppress(InputError):
        read(path).load()


def test_a_header_of_python_2_is_read_without_a_warning(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.npz", npy(described(shape="(3L,)")))
    with warnings.catch_warnings(action="error"):
        assert read(path).load().rewards.tolist() == [1.0, 2.0]


def test_fortran_order_is_what_the_header_says(tmp_path: Path) -> None:
    state = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    np.savez(tmp_path / "log.npz", state=state, action=ACTION, reward=REWARD)
    assert read(tmp_path / "log.npz").load().observations.plain().tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_an_archive_behind_an_array_is_read_as_an_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.npz", npy(described()))
    content = io.BytesIO()
    np.save(content, STATE)
    path.write_bytes(content.getvalue() + path.read_bytes())
    assert read(path).load().rewards.tolist() == [1.0, 2.0]


def promising(path: Path, shape: tuple[int, ...]) -> Path:
    """Three rows of a log, where the header of `reward` promises another shape for its 24 bytes."""
    with zipfile.ZipFile(path, "w") as file:
        for name, values in {"state": [0, 1, 2], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]}.items():
            array = np.array(values)
            content = io.BytesIO()
            header: dict[str, Any] = np.lib.format.header_data_from_array_1_0(array)
            np.lib.format.write_array_header_1_0(
                content, {**header, "shape": shape if name == "reward" else array.shape}
            )
            file.writestr(f"{name}.npy", content.getvalue() + array.tobytes())
    return path


def test_an_honest_archive_is_read(tmp_path: Path) -> None:
    assert read(promising(tmp_path / "log.npz", (3,))).load().rewards.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("shape", [(10**15,), (4,), (2,), (2**62, 4), (0, 3)])
def test_an_archive_that_promises_another_size_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = promising(tmp_path / "log.npz", shape)
    with pytest.raises(InputError, match=r'^log.npz: array "reward" must be complete. Got 24 bytes; write it again.$'):
        read(path)


# HDF5


def hdf5(path: Path, write: Callable[[Any], None]) -> Path:
    """A log without rewards, which `write` adds."""
    with h5py.File(path, "w") as file:
        file["state"], file["action"] = STATE, ACTION
        write(file)
    return path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with rewards that are no part of the log."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["reward"] = REWARD
        file["group/reward"] = REWARD
    REWARD.tofile(tmp_path / "reward.bin")
    return tmp_path


def _virtual(file: Any, source: str) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(source, "reward", (3,))
    file.create_virtual_dataset("reward", layout)


def _linked(file: Any) -> None:
    file["far"] = h5py.ExternalLink("other.h5", "/group")
    file["reward"] = h5py.SoftLink("/far/reward")


def _relative(file: Any) -> None:
    file["near/reward"] = h5py.ExternalLink("other.h5", "/reward")
    file["near/one"] = h5py.SoftLink("reward")
    file["reward"] = h5py.SoftLink("near/one")


def _round(file: Any) -> None:
    file["reward"], file["back"] = h5py.SoftLink("/back"), h5py.SoftLink("/reward")


def _partly(file: Any) -> None:
    file.create_dataset("reward", (3,), "f8", chunks=(1,), compression="gzip")[:2] = 1.0


ELSEWHERE: dict[str, tuple[Callable[[Any], None], str]] = {
    "an external link": (
        lambda file: file.__setitem__("reward", h5py.ExternalLink("other.h5", "/reward")),
        "a link to another file",
    ),
    "an external link to nothing": (
        lambda file: file.__setitem__("reward", h5py.ExternalLink("absent.h5", "/reward")),
        "a link to another file",
    ),
    "a soft link through an external one": (_linked, "a link to another file"),
    "relative soft links to an external one": (_relative, "a link to another file"),
    "a soft link to nothing": (
        lambda file: file.__setitem__("reward", h5py.SoftLink("/absent/reward")),
        "a link that leads nowhere",
    ),
    "a soft link through a data set": (
        lambda file: file.__setitem__("reward", h5py.SoftLink("/state/reward")),
        "a link that leads nowhere",
    ),
    "soft links in a circle": (_round, "a link that leads nowhere"),
    "a virtual data set": (lambda file: _virtual(file, "other.h5"), "a virtual data set, whose rows lie in others"),
    "a virtual data set of nothing": (
        lambda file: _virtual(file, "absent.h5"),
        "a virtual data set, whose rows lie in others",
    ),
    "a virtual data set of its own file": (
        lambda file: _virtual(file, "."),
        "a virtual data set, whose rows lie in others",
    ),
    "external storage": (
        lambda file: file.create_dataset("reward", (3,), "f8", external=[("reward.bin", 0, 24)]),
        "external storage: its rows lie in another file",
    ),
    "rows that nobody wrote": (
        lambda file: file.create_dataset("reward", (3,), "f8"),
        "rows that were never written",
    ),
    "chunks that nobody wrote": (_partly, "rows that were never written"),
    "far more rows than were written": (
        lambda file: file.create_dataset("reward", (1 << 40,), "f8", chunks=(1 << 20,)),
        "rows that were never written",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_rewards_must_be_written_in_the_file_itself(
    name: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere)
    write, got = ELSEWHERE[name]
    path = hdf5(elsewhere / "log.h5", write)
    assert refused(path) == (
        f'log.h5: data set "reward" must be written in the file itself. Got {got}; write the file again with all of its data.'
    )


@pytest.mark.parametrize("name", ELSEWHERE)
def test_columns_that_play_no_part_may_lie_anywhere(name: str, elsewhere: Path) -> None:
    def write(file: Any) -> None:
        ELSEWHERE[name][0](file)
        file["gain"] = REWARD

    path = hdf5(elsewhere / "log.h5", write)
    assert read(path, reward="gain").load().rewards.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["an external link", "a virtual data set", "external storage"])
def test_other_files_are_not_even_opened(name: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe would be waited for without end."""
    monkeypatch.chdir(elsewhere)
    for other in ("other.h5", "reward.bin"):
        (elsewhere / other).unlink()
        os.mkfifo(elsewhere / other)
    refused(hdf5(elsewhere / "log.h5", ELSEWHERE[name][0]), "must be written in the file itself")


def test_what_lies_in_the_file_is_read_by_any_name(tmp_path: Path) -> None:
    def write(file: Any) -> None:
        file["deep/er/reward"] = REWARD
        file["deep/one"] = h5py.SoftLink("er/reward")
        file["reward"] = h5py.SoftLink("/deep/./one")
        file["nothing"] = h5py.SoftLink("/absent")
        file["sparse"] = h5py.SoftLink("/deep")

    assert read(hdf5(tmp_path / "log.h5", write)).load().rewards.tolist() == [1.0, 2.0]


def test_a_chosen_value_for_rows_that_nobody_wrote_is_data(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "log.h5", lambda file: file.create_dataset("reward", (3,), "f8", fillvalue=7.0))
    assert read(path).load().rewards.tolist() == [7.0, 7.0]


@pytest.mark.parametrize("how", [{}, {"chunks": (2,)}, {"chunks": (2,), "compression": "gzip"}, {"track_times": True}])
def test_rows_that_were_written_are_read(how: dict[str, Any], tmp_path: Path) -> None:
    path = hdf5(tmp_path / "log.h5", lambda file: file.create_dataset("reward", data=np.zeros(3), **how))
    assert read(path).load().rewards.tolist() == [0.0, 0.0]
