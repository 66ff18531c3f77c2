"""One function over many items on threads: order, room, failures, and what is refused."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from threadpoolctl import threadpool_info

import cesaro as cs
from cesaro.engines import check_engine, map_completed, map_ordered
from cesaro.engines.local import Threads, check_wanted
from cesaro.progress import _PART, part


def test_results_come_in_order_or_as_they_end() -> None:
    first = threading.Event()

    def wait_for_the_second(item: int) -> int:
        if item == 0:
            assert first.wait(30)
            time.sleep(0.1)  # so that the second has ended
        elif item == 1:
            first.set()
        return 10 * item

    assert list(map_ordered(wait_for_the_second, range(5), workers=2)) == [0, 10, 20, 30, 40]
    first.clear()
    found = list(map_completed(wait_for_the_second, range(5), workers=2))
    assert found[0] == (1, 10)
    assert sorted(found) == [(item, 10 * item) for item in range(5)]


def test_items_are_asked_for_when_there_is_room() -> None:
    """Also where a slow piece holds up those that have ended: they wait, and they are few."""
    asked, is_free = [], threading.Event()

    def items() -> Iterator[int]:
        for item in range(100):
            asked.append(item)
            yield item

    def slow_first(item: int) -> int:
        assert item or is_free.wait(30)
        return item

    results = map_ordered(slow_first, items(), workers=3)
    threading.Timer(0.3, is_free.set).start()
    assert next(results) == 0
    assert len(asked) <= 7
    results.close()  # type: ignore[attr-defined] # it is a generator
    time.sleep(0.05)
    assert len(asked) <= 7


def test_what_a_piece_raises_comes_out_as_itself() -> None:
    def refuse(item: int) -> int:
        if item == 2:
            raise cs.InputError("two must not be.")
        return item

    results = map_ordered(refuse, range(5), workers=1)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(cs.InputError, match=r"^two must not be\.$"):
        next(results)


def test_libraries_take_one_thread_meanwhile_and_their_own_number_afterwards() -> None:
    """Also where two maps overlap and the first to begin ends first."""

    def threads(_: int = 0) -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    before = threads()
    first, second = (map_ordered(threads, range(3), workers=1) for _ in range(2))
    assert next(first) == next(second) == {1}
    assert list(first) == [{1}, {1}]
    assert list(second) == [{1}, {1}]
    assert threads() == before


@pytest.mark.parametrize(
    ("engine", "address", "message"),
    [
        ("spark", None, "engine must be 'local' or 'ray'. Got 'spark'"),
        ("local", "auto", "address is for the engine 'ray' alone"),
        ("ray", 6379, "address must be the text 'auto' or 'host:port'. Got 6379"),
        (
            "ray",
            "127.0.0.1:1",
            r"address must be that of (a running Ray cluster|the cluster in use).*Got '127.0.0.1:1'",
        ),
    ],
)
def test_wrong_engines_get_one_sentence(engine: str, address: str | None, message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        list(map_ordered(abs, [1], engine=engine, address=address))


def test_ray_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(cs.InputError, match=r"pip install 'cesaro\[ray\]'"):
        check_engine("ray", None)


def test_pieces_see_the_context_of_their_caller() -> None:
    with part("policy 2 of 3"):
        assert list(map_ordered(lambda _: _PART.get(), range(3), workers=2)) == ["policy 2 of 3: "] * 3


@pytest.mark.parametrize("error", [cs.InputError("no"), KeyboardInterrupt()])
def test_pieces_end_that_nobody_waits_for(error: BaseException) -> None:
    """Also those that pieces have started, and none of other work."""
    begun, ended, others = threading.Event(), threading.Event(), threading.Event()

    def loop(_: int) -> None:
        begun.set()
        try:
            while True:
                check_wanted()
                time.sleep(0.01)
        finally:
            ended.set()

    def piece(item: int) -> None:
        if item == 0:
            list(map_ordered(loop, range(1), workers=1))
        assert begun.wait(30)
        raise cs.InputError("no")

    def other(_: int) -> None:
        assert ended.wait(30)
        check_wanted()
        others.set()

    beside = threading.Thread(target=lambda: list(map_ordered(other, range(1), workers=1)))
    beside.start()
    if isinstance(error, KeyboardInterrupt):
        with suppress(KeyboardInterrupt), Threads(loop, 1) as threads:
            threads.start(0)
            assert begun.wait(30)
            raise error
    else:
        with pytest.raises(cs.InputError):
            list(map_ordered(piece, range(2), workers=2))
    assert ended.wait(30)
    beside.join(30)
    assert others.is_set()
