"""Reading ahead: the same items in the same order, from a thread that ends with whoever takes them."""

import threading
from collections.abc import Iterator

import pytest

from cesaro.engines.local import read_ahead


def counted(events: list[str], stop: int = 100) -> Iterator[int]:
    events.append(threading.current_thread().name)
    try:
        for number in range(stop):
            events.append(str(number))
            yield number
    finally:
        events.append("closed")


def test_items_come_in_order_from_another_thread() -> None:
    events: list[str] = []
    assert list(read_ahead(counted(events, 5), 2)) == [0, 1, 2, 3, 4]
    assert events[0] == "reader"
    assert events[-1] == "closed"


def test_what_goes_wrong_there_is_raised_here_after_the_items_before() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    found: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend(read_ahead(failing(), 2))
    rows = read_ahead(failing(), 2)
    assert next(rows) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(rows)


@pytest.mark.parametrize("taken", [1, 5])
def test_who_leaves_early_ends_the_thread(taken: int) -> None:
    events: list[str] = []
    rows = read_ahead(counted(events), 2)
    assert [next(rows) for _ in range(taken)] == list(range(taken))
    rows.close()
    assert events[-1] == "closed"
    assert len(events) - 2 <= taken + 2 + 1  # two wait, and one is held until there is room
    assert "reader" not in {thread.name for thread in threading.enumerate()}
