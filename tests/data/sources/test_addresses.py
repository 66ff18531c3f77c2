"""Addresses: what may be shown of them, and what they lead to."""

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import cesaro as cs
from cesaro.commands.program import one_line_errors
from cesaro.data.sources.base import reading
from cesaro.data.sources.places import File, place
from cesaro.files import holding
from cesaro.folders import OutFolder
from cesaro.text import is_address, redacted, shown_address


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("logs/part?.parquet", "logs/part?.parquet"),
        ("s3://bucket/logs/*.parquet", "s3://bucket/logs/*.parquet"),
        ("s3://KEY:TOPSECRET@bucket/logs", "s3://…@bucket/logs"),
        ("s3://KEY:TOP/SECRET@bucket/logs", "s3://…@bucket/logs"),
        ("S3://KEY:TOP@SECRET@bucket/logs", "S3://…@bucket/logs"),
        ("s3://TOPSECRET@bucket/logs", "s3://…@bucket/logs"),
        ("s3://b/l?region=eu&scheme=http&token=TOPSECRET", "s3://b/l?region=eu&scheme=http&token=…"),
        ("s3://b/l?Secret_Key=TOPSECRET&endpoint_override=h:1", "s3://b/l?Secret_Key=…&endpoint_override=h:1"),
        ("abfs://container@account.dfs.core.windows.net/l", "abfs://container@account.dfs.core.windows.net/l"),
        ("abfs://container:TOPSECRET@account/l", "abfs://…@account/l"),
        ("hdfs://user:TOPSECRET@host:9000/l", "hdfs://…@host:9000/l"),
        ("s3:/KEY:TOPSECRET@bucket/logs?key=TOPSECRET", "s3:/…@bucket/logs?key=…"),
        ("from 's3://a:TOPSECRET@b' to \"s3://c?d=TOPSECRET\"!", "from 's3://…@b' to \"s3://c?d=…\"!"),
    ],
)
def test_credentials_are_not_shown(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


def test_credentials_of_an_address_are_not_shown_without_it_either() -> None:
    address = "s3://KEY:TOP%2FSECRET@bucket/logs?session_token=abc%3Ddef&region=eu"
    said = "refused TOP/SECRET and TOP%2FSECRET with abc=def in eu"
    assert redacted(said, address) == "refused … and … with … in eu"
    with pytest.raises(cs.InputError) as error, reading("bucket", "there", address=address):
        raise OSError(f"cannot open {address} with TOP/SECRET")
    assert str(error.value).startswith(
        "bucket must be there. Got: cannot open s3://…@bucket/logs?session_token=…&region=eu with …;"
    )


QUOTED = "s3://KEY:TOP'SE CRET\"@bucket/a?region=eu"


def test_credentials_may_hold_any_character() -> None:
    assert shown_address(QUOTED) == "s3://…@bucket/a?region=eu"
    assert shown_address(QUOTED.replace("//", "/")) == "s3:/…@bucket/a?region=eu"
    assert shown_address("logs/a?/b=c") == redacted("logs/a?/b=c", "logs/a?/b=c") == "logs/a?/b=c"
    for address in (QUOTED.replace("s3:", "ftp:"), QUOTED.replace("//", "/")):
        with pytest.raises(cs.InputError) as error:
            cs.read(address)
        assert "SE CRET" not in str(error.value)
        assert "@bucket/a" in str(error.value)


def test_results_are_written_here() -> None:
    with pytest.raises(cs.InputError, match=r"^out \(--out\) must be a path on this machine. Got s3:/…@bucket/a\?"):
        OutFolder(Path(QUOTED))
    with pytest.raises(cs.InputError, match=r"^checkpoint \(--checkpoint\) must be a path on this machine. Got s3:/…@"):
        holding(Path(QUOTED)).__enter__()


def test_no_message_of_a_command_shows_credentials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["cesaro", "sort", "--out=" + QUOTED])
    with pytest.raises(typer.Exit), one_line_errors():
        raise OSError(f"no access to {QUOTED}, nor to s3://me:OTHERSECRET@b with TOP'SE CRET\"")
    said = capsys.readouterr().err
    assert "SECRET" not in said
    assert "SE CRET" not in said
    assert "@bucket/a" in said


@pytest.mark.parametrize("error", [OSError(), MemoryError()])
def test_an_error_without_words_has_its_name(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), one_line_errors():
        raise error
    assert type(error).__name__ in capsys.readouterr().err


def test_files_do_not_show_their_address() -> None:
    file = File("a.parquet", "bucket/a.parquet", 3, pa.fs.LocalFileSystem(), "s3://KEY:TOPSECRET@bucket")
    assert repr(file) == "File(name='a.parquet')"
    assert pickle.loads(pickle.dumps(file)) == file


def test_what_is_an_address() -> None:
    assert is_address("s3://bucket/x")
    assert is_address("gs://bucket")
    assert not any(map(is_address, ("minari:cesaro/x-v0", "a/b", "C:\\logs", "/x://y", "x")))


def test_places() -> None:
    found = place("s3://KEY:SECRET@bucket/my logs/day=*/**/*.parquet?region=us-east-1")
    assert found[:3] == ("*.parquet", "bucket/my logs", "day=*/**/*.parquet")
    assert place("s3://bucket?region=us-east-1")[:3] == ("bucket", "bucket", "")
    found = place("s3://bucket/x/?region=us-east-1&access_key=K&secret_key=a%2Fb")
    assert found[:3] == ("x", "bucket/x", "")
    assert found.filesystem == pa.fs.S3FileSystem(access_key="K", secret_key="a/b", region="us-east-1")


def test_files_on_this_machine_have_addresses_too(tmp_path: Path) -> None:
    folder = tmp_path / "my logs"
    folder.mkdir()
    table = pa.table({"state": [1, 2, 3], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0]})
    pq.write_table(table, folder / "a.parquet")
    pq.write_table(table, folder / "b.parquet")
    for address, files in (
        (f"file://{folder}", 2),
        (f"file://{folder}/a*.parquet", 1),
        (f"file://{folder}/b.parquet", 1),
    ):
        assert cs.read(address).counts["files"] == files


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("http://TOP:SECRET@host/log.parquet", r"^http://…@host/log.parquet must be an address that Arrow can open"),
        (
            "s3://TOP:SECRET@bucket/x?region=eu&key=SECRET",
            r"^s3://…@bucket/x\?region=eu&key=… must be an address that can",
        ),
        ("s3://TOP:SEC/RET@bucket/x?region=eu", r"^s3://…@bucket/x\?region=eu must be an address that can be opened"),
        ("file:///no/such/file.parquet", r"^/no/such/file.parquet must be an existing file"),
        (Path("s3://TOP:SECRET@bucket/x"), r"^s3:/…@bucket/x must be an existing file"),
        (Path("s3://TOP:SECRET@bucket/x?key=SECRET"), r"^s3:/…@bucket/x\?key=… must match files"),
        ("s3://", r"^s3:// must be an address that can be opened"),
    ],
)
def test_addresses_that_lead_nowhere(address: str | Path, match: str) -> None:
    with pytest.raises(cs.InputError, match=match) as error:
        cs.read(address)
    assert "SEC" not in str(error.value)
    assert "RET" not in str(error.value)
