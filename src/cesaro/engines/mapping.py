"""One function over many items, in order or as they end, with a bounded number under way."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from cesaro.engines.cluster import Tasks, ray_module, session
from cesaro.engines.local import Threads
from cesaro.errors import InputError
from cesaro.text import Sentence, argument

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_engine(engine: str, address: str | None) -> None:
    """Refuse what cannot work, before anything is computed."""
    if engine not in ("local", "ray"):
        raise InputError(f"engine must be 'local' or 'ray'. Got {engine!r}.")
    if engine == "ray":
        ray_module()
        if not (address is None or isinstance(address, str)):
            raise InputError(f"address must be the text 'auto' or 'host:port'. Got {address!r}.")
    elif address is not None:
        sentence = "address is for the engine 'ray' alone. Got {got}; take {engine}."
        raise InputError(Sentence(sentence, got=repr(address), engine=argument("engine", "ray")))


_IN_USE: list[tuple[str, str | None]] = [("local", None)]


@contextmanager
def using(engine: str, address: str | None = None) -> Iterator[None]:
    """Studies inside take this engine; for commands, whose studies need not know of engines."""
    check_engine(engine, address)
    _IN_USE.append((engine, address))
    try:
        with session(engine, address):
            yield
    finally:
        _IN_USE.pop()


def in_use() -> tuple[str, str | None]:
    """The engine of the innermost `using`, and its address."""
    return _IN_USE[-1]


def map_ordered(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Iterator[Result]:
    """`function(item)` for each item, in their order, several at a time.

    Args:
        function: sent to every worker once; see `cesaro.engines`.
        items: asked for as there is room.
        engine: "local" or "ray".
        address: of a running Ray cluster, `host:port` or "auto"; None: that of this machine, or one that is started for it.
        workers: threads of the local engine; None: one per core.
        num_cpus: what a piece occupies of a Ray node, above 0. BLAS takes one thread in every engine.
        num_gpus: the same for GPUs; a piece sees only its own. With 0 JAX computes on the CPU, whatever the node has.

    Example:
        >>> from cesaro.engines import map_ordered
        >>> list(map_ordered(abs, [-3, 2, -1], workers=2))
        [3, 2, 1]
    """
    runner = _runner(function, engine, address, workers, num_cpus, num_gpus)
    for _, result in _mapped(runner, items, in_order=True):
        yield result


def map_completed(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Iterator[tuple[int, Result]]:
    """`function(item)` for each item, as they end: the number of the item, from 0, and its result; otherwise as `map_ordered`."""
    yield from _mapped(_runner(function, engine, address, workers, num_cpus, num_gpus), items, in_order=False)


def _runner(
    function: Callable[[Any], Any],
    engine: str,
    address: str | None,
    workers: int | None,
    num_cpus: float,
    num_gpus: float,
) -> "_Runner":
    check_engine(engine, address)
    return Threads(function, workers) if engine == "local" else Tasks(function, address, num_cpus, num_gpus)


class _Runner(Protocol):
    """Starts pieces and waits for them, between `__enter__` and `__exit__`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...

    def room(self) -> int:
        """The number of pieces that may be under way."""

    def start(self, item: Any) -> Any:
        """A handle of the piece."""

    def first_ended(self, handles: list[Any]) -> tuple[Any, Any]:
        """A handle whose piece has ended, and its result."""


def _mapped(runner: _Runner, items: Iterable[Any], *, in_order: bool) -> Iterator[tuple[int, Any]]:
    """The number of every item and its result; one that waits for an earlier one takes room as if it were under way."""
    with runner:
        rest, is_more = enumerate(items), True
        numbers: dict[Any, int] = {}  # of the pieces under way, by their handles
        waiting: dict[int, Any] = {}
        started = passed = 0
        while True:
            while is_more and started - passed < runner.room():
                number, item = next(rest, (-1, None))
                if number < 0:
                    is_more = False
                else:
                    numbers[runner.start(item)] = number
                    started += 1
            if not numbers:
                return
            handle, result = runner.first_ended(list(numbers))
            number = numbers.pop(handle)
            waiting[number] = result
            while (following := passed if in_order else number) in waiting:
                passed += 1
                yield following, waiting.pop(following)
