"""Logs in an object store: the protocol of S3 over loopback, with requests that fail in the middle."""

import io
import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from typer.testing import CliRunner
from werkzeug.serving import WSGIRequestHandler, make_server

import cesaro as cs
from cesaro.cli import app
from cesaro.data import blocks as block_module
from cesaro.data.roles import RoleColumns, Roles
from cesaro.data.sources import files, places
from cesaro.data.sources.files import FilesSource
from cesaro.data.sources.formats import FORMATS, open_path
from cesaro.data.sources.places import File
from cesaro.errors import InputError
from cesaro.passes import checkpoint as pass_checkpoint

from .writers import WRITERS

ROWS = 6_000
ROLES = Roles(RoleColumns(("state",)), RoleColumns(("action",)), "reward")
SECRET = "TOPSECRET"


class Faults:
    """A server in front of the store. Requests for data are answered as `plan` says, one entry after the other."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self.app = app
        self.plan: list[str] = []
        self.met = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        data = environ["REQUEST_METHOD"] == "GET" and "HTTP_RANGE" in environ
        fault = self.plan.pop(0) if data and self.plan else ""
        if not fault:
            return self.app(environ, start_response)
        self.met += 1
        if fault == "drop":
            return self._cut(self.app(environ, start_response))
        start_response(fault, [("Content-Type", "text/plain")])
        return [b"not now"]

    def _cut(self, body: Iterable[bytes]) -> Iterator[bytes]:
        yield b"".join(body)[:100]
        raise ConnectionResetError


class Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Nothing: connections are cut on purpose."""


@pytest.fixture(scope="module")
def store() -> Iterator[tuple[Faults, str]]:
    """The server, and the options that lead there."""
    faults = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, faults, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield faults, f"?scheme=http&region=us-east-1&endpoint_override=127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def logs(store: tuple[Faults, str]) -> dict[str, str]:
    """Addresses of the same data in every format, credentials included."""
    options = store[1]
    system, bucket = pa.fs.FileSystem.from_uri(f"s3://me:{SECRET}@bucket{options}&allow_bucket_creation=true")
    system.create_dir(bucket)
    for number in range(4):
        part = table().slice(number * ROWS // 4, ROWS // 4)
        place = f"{bucket}/logs/day={number // 2}/part-{number}"
        for ending, write in WRITERS.items():
            path = f"{place}.parquet" if ending == "parquet" else f"{bucket}/{ending}/part-{number}.{ending}"
            with system.open_output_stream(path, compression=None) as file:
                write(part, file, rows=700)
    for name in ("_temporary.parquet", ".hidden.parquet"):
        with system.open_output_stream(f"{bucket}/logs/{name}") as file:
            file.write(b"no log")
    start = f"s3://me:{SECRET}@bucket"
    return {
        **{ending: f"{start}/{ending}{options}" for ending in WRITERS},
        "parquet": f"{start}/logs{options}",
        "pattern": f"{start}/logs/*/part-*.parquet{options}",
        "arrow": f"{start}/arrow/*.arrow{options}",
    }


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "state": rng.choice(["a", "b", "c"], ROWS),
            "action": rng.integers(0, 3, ROWS),
            "reward": rng.normal(size=ROWS),
        }
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "BLOCK_ROWS", 500)
    monkeypatch.setattr(files, "CHUNK", 10_000)
    monkeypatch.setattr(places, "PAUSES", (0.01,) * 4)


def opened(path: str) -> FilesSource:
    found = open_path(path)
    assert isinstance(found, FilesSource)
    return found


def pieces(source: FilesSource) -> dict[str, list[Any]]:
    source.piece_types(ROLES, {})
    blocks = [block for file in range(len(source.files)) for block in source.batches(file, ROLES.columns())]
    assert [len(block) for block in blocks] == [500] * 12
    return dict(pa.concat_tables(blocks).to_pydict())


@pytest.mark.parametrize("name", ["pattern", *WRITERS])
def test_a_store_is_read_like_a_folder(name: str, logs: dict[str, str]) -> None:
    source = opened(logs[name])
    assert [file.rpartition("/")[2].partition(".")[0] for file in source.files.names] == [f"part-{n}" for n in range(4)]
    assert pieces(source) == table().to_pydict()
    if name != "pattern":
        assert source.table(ROLES, {})[0].to_pydict() == table().to_pydict()
    assert next(source.batches(3, ROLES.columns(), 1_000)).to_pydict() == table().slice(5_500, 500).to_pydict()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fault"), [("parquet", "503 Slow Down"), ("parquet", "drop"), ("csv", "500 Error"), ("arrow", "drop")]
)
def test_requests_that_fail_are_made_again(
    name: str, fault: str, store: tuple[Faults, str], logs: dict[str, str]
) -> None:
    source = opened(logs[name])
    source.piece_types(ROLES, {})
    faults = store[0]
    faults.met, faults.plan = 0, ["", fault, "", "", fault, fault]
    assert pieces(source) == table().to_pydict()
    assert faults.met == 3


class Flaky:
    """A file system in which the reads with these numbers fail; None: all of them."""

    def __init__(self) -> None:
        self.wrong: Collection[int] | None = ()
        self.reads, self.failures = 0, 0

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(FlakyFile(path, self), "r")


class FlakyFile(io.FileIO):
    def __init__(self, path: str, system: Flaky) -> None:
        super().__init__(path)
        self.system = system

    def read(self, size: int | None = -1, /) -> bytes:
        system = self.system
        system.reads += 1
        if system.wrong is None or system.reads in system.wrong:
            system.failures += 1
            raise OSError(f"connection to s3://me:{SECRET}@bucket lost")
        return super().read(size) or b""


@pytest.mark.parametrize("ending", WRITERS)
def test_reading_goes_on_where_it_failed(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    WRITERS[ending](table(), path, rows=700)
    system = Flaky()
    form = next(form.in_pieces for form in FORMATS if path.name.endswith(form.endings))
    assert form is not None
    source = form("log", [File(path.name, str(path), 0, system)])
    source.piece_types(ROLES, {})
    system.wrong, system.reads = (1, 3, 20, 40, 41), 0
    assert pieces(source) == table().to_pydict()
    assert system.failures == sum(number <= system.reads for number in system.wrong) >= 2
    system.wrong, system.failures = None, 0
    for use in (lambda: pieces(source), lambda: source.table(ROLES, {})):
        with pytest.raises(
            InputError, match=rf"^log.{ending} must be a .* Got: .*connection to s3://…@bucket lost"
        ) as error:
            use()
        assert SECRET not in str(error.value)
    assert system.failures >= 2 * 5


def test_credentials_stay_where_they_are(store: tuple[Faults, str], logs: dict[str, str]) -> None:
    log = cs.read(logs["parquet"])
    source = opened(logs["csv"])
    said = [repr(log), log.name, *log.notes, repr(log.schema), repr(vars(source)), repr(vars(source.files))]
    missing = f"s3://me:{SECRET}@bucket/nowhere{store[1]}"
    for address in (missing, missing.replace("nowhere", "logs/x*"), missing.replace("bucket", "other")):
        with pytest.raises(InputError) as error:
            cs.read(address)
        said.append(str(error.value))
    assert SECRET not in "".join(said)
    assert log.name == "logs"
    assert log.counts["files"] == 4


@pytest.mark.slow
def test_an_answer_from_a_store_tells_no_secret(
    store: tuple[Faults, str], logs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamed, with failing requests in the middle and a checkpoint: the answer of the same data in memory."""
    monkeypatch.setattr(pass_checkpoint, "SECONDS", 0.0)
    store[0].plan = ["", "503 Slow Down", "", "", "drop", "", "500 Internal Server Error"]
    places = ["--checkpoint", str(tmp_path / "kept.npz"), "--out", str(tmp_path / "out")]
    options = ["--policy", "uniform", "--stream", "--quiet", *places]
    result = CliRunner().invoke(app, ["evaluate", logs["parquet"], *options])
    assert result.exit_code == 0, result.output
    assert store[0].plan == []
    answer = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    expected = cs.evaluate(cs.read(table()), "uniform", quiet=True)
    assert answer["reward_rate"]["value"] == pytest.approx(expected.reward_rate, rel=1e-12)
    assert answer["run"]["command"].startswith("cesaro evaluate 's3://…@bucket/logs?scheme=http&region=us-east-1&")
    written = [*(tmp_path / "out").iterdir(), tmp_path / "kept.npz"]
    assert len(written) > 4
    assert not any(SECRET.encode() in file.read_bytes() for file in written)
    assert SECRET not in result.output
