"""CSV files as spreadsheets write them in countries with decimal commas."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import cesaro as cs
from cesaro.data.columns import ColumnPlace, named_row
from cesaro.data.sources.files import text_from
from cesaro.data.sources.formats import open_path
from cesaro.data.sources.places import File

ROWS = [("a", "stop", 1.5), ("b", "go", -0.25), ("a", "go", 1e-3), ("b", "stop", 20.0)]
PLAIN = "state,action,reward\n" + "".join(f"{state},{action},{reward}\n" for state, action, reward in ROWS)


def written(tmp_path: Path, text: str, name: str = "log.csv") -> Path:
    file = tmp_path / name
    data = text.encode()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return file


def labels(log: cs.Transitions) -> list[str]:
    return [str(label) for label in log.observations.plain()]


def european(text: str = PLAIN) -> str:
    return text.replace(",", ";").replace(".", ",")


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_semicolons_and_decimal_commas_give_the_same_log(tmp_path: Path, name: str) -> None:
    expected = cs.read(written(tmp_path, PLAIN, "plain.csv")).load()
    log = cs.read(written(tmp_path, european(), name)).load()
    np.testing.assert_array_equal(log.rewards, expected.rewards)
    np.testing.assert_array_equal(log.rewards, [reward for *_, reward in ROWS[:3]])
    assert labels(log) == labels(expected) == [state for state, *_ in ROWS[:3]]
    assert log.action_levels is not None
    assert log.action_levels.tolist() == ["go", "stop"]


def test_semicolons_with_decimal_points(tmp_path: Path) -> None:
    log = cs.read(written(tmp_path, PLAIN.replace(",", ";"))).load()
    np.testing.assert_array_equal(log.rewards, [reward for *_, reward in ROWS[:3]])


def test_the_source_says_that_it_found_semicolons(tmp_path: Path) -> None:
    notes = open_path(str(written(tmp_path, european()))).notes
    assert [note for note in notes if "Semicolons separate the columns" in note] == list(notes) != []
    assert open_path(str(written(tmp_path, PLAIN))).notes == ()


def test_the_note_speaks_of_decimal_commas_only_where_they_were_read(tmp_path: Path) -> None:
    for text, said in ((european(), True), (PLAIN.replace(",", ";"), False)):
        notes = cs.read(written(tmp_path, text)).load().notes
        assert sum("Semicolons" in note for note in notes) == 1
        assert any("decimal commas" in note for note in notes) is said


@pytest.mark.parametrize("reward", ["0,5", "0.5"])
def test_labels_keep_their_commas(tmp_path: Path, reward: str) -> None:
    """Whatever the decimal mark of the rewards; labels that are whole numbers stay that."""
    rows = "".join(f"{x};{y};{number % 2};{reward}\n" for number, (x, y) in enumerate([("1,2", 7), ("2", 8)] * 3))
    path = written(tmp_path, f"x;y;action;reward\n{rows}")
    kinds = {"x": "category", "y": "category"}
    log = cs.read(path, observation=["x", "y"], kinds=kinds).load()
    assert log.rewards.tolist() == [0.5] * 5
    assert log.observations.joint().levels.tolist() == [("1,2", 7), ("2", 8)]
    assert any("decimal commas" in note for note in log.notes) is (reward == "0,5")


def test_trajectory_ids_keep_their_commas(tmp_path: Path) -> None:
    rows = "".join(f"{number % 3};{number % 2};{number};{run}\n" for run in ("1,2", "1,3") for number in range(4))
    log = cs.read(written(tmp_path, f"state;action;reward;run\n{rows}"), trajectory="run").load()
    assert log.rewards.tolist() == [0.0, 1.0, 2.0] * 2
    assert not any("decimal commas" in note for note in log.notes)


def test_a_decimal_comma_far_down_is_found(tmp_path: Path) -> None:
    rows = "".join(f"{number % 3};{number % 2};{number % 5}\n" for number in range(150_000))
    log = cs.read(written(tmp_path, f"state;action;reward\n{rows}1;1;2,75\n2;0;0\n")).load()
    assert log.rewards[-1] == 2.75
    assert log.rewards[7] == 2.0


def test_a_header_in_quotes_keeps_its_semicolons_and_commas(tmp_path: Path) -> None:
    text = '"state; of the hall",action,reward\nx,0,1\ny,1,2\n'
    assert open_path(str(written(tmp_path, text))).names == ("state; of the hall", "action", "reward")
    text = '"state, of the hall";action;reward\nx;0;1\ny;1;2\n'
    assert open_path(str(written(tmp_path, text))).names == ("state, of the hall", "action", "reward")
    assert open_path(str(written(tmp_path, '"only;one"\n1\n'))).names == ("only;one",)


def test_decimal_commas_in_quotes_do_not_become_labels(tmp_path: Path) -> None:
    file = written(tmp_path, 'state,action,reward\n"0,5",0,1\n"1,5",1,2\n"2",1,2\n')
    with pytest.raises(
        cs.InputError, match=r"\"state\" must hold numbers .* Got '0,5', a decimal comma; write it with"
    ) as e:
        cs.read(file).load()
    assert 'kinds={"state": "category"}' in str(e.value)
    log = cs.read(file, kinds={"state": "category"}).load()
    assert labels(log) == ["0,5", "1,5"]
    rewards = written(tmp_path, 'state,action,reward\n0,0,"1,5"\n1,1,"2,5"\n')
    with pytest.raises(cs.InputError, match=r"\"reward\" must hold numbers .* Got '1,5', a decimal comma"):
        cs.read(rewards).load()


def test_points_beside_commas_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "state;action;reward\n0.5;0;1,5\n1.5;1;2,5\n")
    with pytest.raises(cs.InputError, match=r"Got '0\.5', a decimal point in a file whose other columns have decimal"):
        cs.read(file).load()


def test_lists_of_numbers_with_commas_stay_labels(tmp_path: Path) -> None:
    log = cs.read(written(tmp_path, "state;action;reward\n1,2,3;0;1\n4,5,6;1;2\n1,2,3;1;2\n")).load()
    assert labels(log) == ["1,2,3", "4,5,6"]


@pytest.mark.parametrize("text", ["\r\r;\r", "\n\n", ";", "\x00;\x00,", '"state;action', "a\rb;c\nd"])
def test_broken_headers_get_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(cs.InputError, match=r"log\.csv"):
        cs.read(written(tmp_path, text)).load()


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_file_that_got_shorter(tmp_path: Path, name: str) -> None:
    file = File(name, str(written(tmp_path, PLAIN, name)))
    assert b"".join(text_from(file, 10)) == PLAIN.encode()[10:]
    assert list(text_from(file, len(PLAIN))) == []
    with pytest.raises(cs.InputError, match=rf"^{name} must not change while it is read. Got less text than before"):
        list(text_from(file, len(PLAIN) + 1))


def test_a_message_does_without_lines_of_a_file_that_is_gone(tmp_path: Path) -> None:
    file = written(tmp_path, PLAIN)
    source = open_path(str(file))
    assert source.written(0, 0, source.names[0]) is not None
    file.unlink()
    assert source.written(0, 0, source.names[0]) is None

    def fail(file: int, row: int, column: str) -> tuple[int, str] | None:
        raise OSError("gone")

    assert named_row(0, 3, "x", ["log.csv"], fail) == "row 3 (counted from 0)"
    assert ColumnPlace("log", "x", (("log.csv", 4),), written=fail).text(3) == ""


def test_dates_without_marks_are_read_in_both_modes(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    days = [*range(20240125, 20240132), *range(20240201, 20240205)]
    file.write_text("day,time,action,reward\n" + "".join(f"{day},0,go,{row}\n" for row, day in enumerate(days)))
    for stream in (False, True):
        log = cs.read(file, observation="time", action="action", reward="reward", time="day", stream=stream).opened()
        assert (log.counts["kept"], log.counts["cuts"]) == (10, 0)  # as numbers, the end of the month would be a gap
