"""A pass over all rows: pieces of blocks in threads, merged in order; interrupted ones go on where they were.

Every block is cut into the same pieces. A piece is computed by one thread, with one thread of BLAS; pieces are merged in order
within their block, blocks within their stretch, stretches within the log. So the bits do not depend on how many threads,
processes or machines did the work, nor on whether it was interrupted.
"""

import copy
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cesaro.data import Block, Stretch, blocks
from cesaro.data.streamed import Streamed
from cesaro.data.windows import ColumnDigests
from cesaro.engines import map_ordered
from cesaro.engines.local import ONE_THREAD, Threads, cores, read_ahead, until
from cesaro.errors import ClusterError
from cesaro.passes.checkpoint import PassCheckpoint
from cesaro.passes.prepare import ASKED, EncodedRows, FeatureBlock, FeatureRows, Prepared
from cesaro.progress import row_progress

# Bytes: once so many were freed together, glibc keeps smaller pieces for itself instead of giving each back; it is the most that
# it goes by. A fresh process, such as a worker of a cluster, would spend a third of its time on new pages for chunks of features.
FREED = 2**25 - 2**16
# Blocks that are read ahead of those at work, and pieces per thread that are at work or wait for it.
AHEAD, WAITING = 2, 8
# Blocks that are sent to a device, computed there or fetched at the same time, whatever the cores: they bound its memory.
AT_DEVICE = 4

P = TypeVar("P", bound="Partial", covariant=True)
T = TypeVar("T")


class Partial(Protocol):
    """The sums of some rows."""

    def add(self, other: Any) -> None:
        """Count in the rows that follow."""
        ...

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays, for a checkpoint."""
        ...


class Work(Protocol[P]):
    """The work of a pass; it travels to other processes."""

    @property
    def label(self) -> str: ...

    @property
    def whole_blocks(self) -> bool:
        """Whether it takes blocks whole, to compute them elsewhere, and not in pieces that suit a core's cache."""
        ...

    @property
    def has_features(self) -> bool:
        """Whether it looks at features."""
        ...

    def zero(self) -> P: ...

    def restored(self, state: dict[str, Any]) -> P: ...

    def of_piece(self, prepared: Prepared, part: Any, number: int) -> Any: ...

    def collect(self, so_far: Any, piece: Any) -> Any: ...

    def of_block(self, prepared: Prepared, block: Any, pieces: Any) -> P: ...


@dataclass(frozen=True)
class Running:
    """How passes are run.

    Attributes:
        quiet: no progress bar.
        checkpoint: keeps progress; None: nothing is kept.
        engine: "local" or "ray".
        address: of the Ray cluster; None: one on this machine.
        device: of JAX, for the products of passes; None: NumPy.
    """

    quiet: bool = False
    checkpoint: PassCheckpoint | None = None
    engine: str = "local"
    address: str | None = None
    device: Any = None


def run_pass(work: Work[P], prepared: Prepared, running: Running) -> P:
    """Everything that `work` adds up over all rows."""
    stretches = prepared.data.stretches
    total, part, at, rows, before = work.zero(), work.zero(), (0, 0), 0, 0
    kept = None if running.checkpoint is None else running.checkpoint.begin()
    if kept is not None:
        total, part = work.restored(kept["total"]), work.restored(kept["part"])
        at, rows, before = kept["at"], kept["rows"], kept["before"]
    if running.engine != "local" and at[1]:  # workers do whole stretches
        part, at, rows = work.zero(), (at[0], 0), before
    is_whole = True  # not between counting a block and noting that it was counted

    def state() -> dict[str, Any]:
        return {"total": total.state(), "part": part.state(), "at": at, "rows": rows, "before": before}

    with row_progress(work.label, total=prepared.num_rows, done=rows, quiet=running.quiet) as advance:
        left = _from(stretches, at)
        try:
            if running.engine == "local":
                steps = _blocks(work, prepared, left, cores())
            else:
                steps = _distributed(work, prepared, left, running)
            with closing(steps) as results:
                for step in results:
                    is_whole = False
                    if step.partial is not None:
                        part.add(step.partial)
                    at, rows = step.at, rows + step.rows
                    if at[1] == 0:
                        total.add(part)
                        part, before = work.zero(), rows
                    is_whole = True
                    advance(step.rows)
                    if running.checkpoint is not None:
                        running.checkpoint.keep(state)
        except (KeyboardInterrupt, ClusterError):
            if running.checkpoint is not None and is_whole:
                running.checkpoint.write(state)
            raise
    if running.checkpoint is not None:
        running.checkpoint.end(state)
    return total


@dataclass(frozen=True)
class _Step:
    """A block or a stretch is done, and `at` (stretch, block within it) comes next; block 0 after the end of a stretch."""

    at: tuple[int, int]
    partial: Any
    rows: int


def _from(stretches: tuple[Stretch, ...], at: tuple[int, int]) -> list[Stretch]:
    """The stretches that are left to do."""
    left = [stretch for stretch in stretches if stretch.number >= at[0]]
    if left and at[1]:
        left[0] = left[0]._replace(blocks=left[0].blocks[at[1] :])
    return left


def _blocks(work: Work[Any], prepared: Prepared, stretches: list[Stretch], workers: int) -> Generator[_Step]:
    """Block by block: pieces go to threads as blocks come in; what they find is taken in order, and few wait at a time.

    Threads also sum up blocks. This one only hands out work, since one that computes beside them would make all of them wait.
    """
    pieces: deque[tuple[Stretch, Any, bool, Future[Any] | None]] = deque()
    ends: deque[tuple[Stretch, Any, Future[Any] | None]] = deque()  # of blocks, and of stretches: None
    collected: Any = None

    def collect() -> None:
        nonlocal collected
        stretch, block, is_last, future = pieces.popleft()
        if future is not None:
            collected = work.collect(collected, future.result())
        if is_last:
            found = None if future is None else pool.submit(work.of_block, prepared, block, collected)
            ends.append((stretch, block, found))
            collected = None

    def step() -> _Step:
        stretch, block, future = ends.popleft()
        if future is None:
            return _Step((stretch.number + 1, 0), None, 0)
        return _Step((stretch.number, block.key[1] + 1 - _first(stretch)), future.result(), len(block))

    def encoding() -> Iterator[tuple[Stretch, Any, Future[EncodedRows] | None]]:
        """Blocks, each once some after it are on the way to being encoded, so that nobody waits for that."""
        if whole or not work.has_features or not prepared.encodes_blocks:
            yield from ((stretch, block, None) for stretch, block in _ahead(prepared, stretches))
            return

        def begin(block: Block | FeatureBlock) -> Future[EncodedRows]:
            return pool.submit(copy_context().run, until, given_up, prepared.encoded_block, block, ASKED)

        begun: deque[tuple[Stretch, Any, Future[EncodedRows] | None]] = deque()
        for stretch, block in _ahead(prepared, stretches):
            encoded = None if block is None else begin(block)
            begun.append((stretch, block, encoded))
            if len(begun) > ahead:
                yield begun.popleft()
        yield from begun

    np.empty(FREED, np.uint8)  # never touched, and freed at once
    whole = work.whole_blocks
    if whole:  # threads wait for the device most of the time
        workers = AT_DEVICE
    is_alone = workers == 1 or prepared.num_rows <= (blocks.BLOCK_ROWS if whole else prepared.piece_rows)
    most = 1 if is_alone else workers + AHEAD if whole else WAITING * workers
    ahead, given_up = 0 if is_alone else -(-workers // 2), threading.Event()
    with ONE_THREAD, _Here() if is_alone else ThreadPoolExecutor(workers) as pool:
        try:
            for stretch, block, encoded in encoding():
                if block is None:
                    pieces.append((stretch, None, True, None))
                    continue
                if encoded is not None and encoded.exception() is not None:
                    while pieces:  # what fails in rows before these is said first, however many threads there are
                        collect()
                parts = [block] if whole else prepared.pieces(block if encoded is None else encoded.result())
                for number, piece in enumerate(parts):
                    while len(pieces) >= most:
                        collect()
                    future = pool.submit(work.of_piece, prepared, piece, number)
                    pieces.append((stretch, block, number == len(parts) - 1, future))
                while len(ends) > 1:
                    yield step()
            while pieces:
                collect()
            while ends:
                yield step()
        finally:
            given_up.set()
            for under_way in (*(piece[-1] for piece in pieces), *(end[-1] for end in ends)):
                if under_way is not None:
                    under_way.cancel()


class _Here:
    """Does the work at once: starting a thread takes longer than a small log, and one thread more gains nothing."""

    def __enter__(self) -> "_Here":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done


def _first(stretch: Stretch) -> int:
    """The first block of the whole stretch, of which this one may be the rest."""
    return stretch.blocks.start // blocks.STRETCH_BLOCKS * blocks.STRETCH_BLOCKS


def _ahead(prepared: Prepared, stretches: list[Stretch]) -> Iterator[tuple[Stretch, Block | FeatureBlock | None]]:
    """Blocks in order, and None at the end of each stretch; those of a streamed log are read by a thread of its own."""

    def every() -> Iterator[tuple[Stretch, Block | FeatureBlock | None]]:
        for file, group in groupby(stretches, lambda stretch: stretch.file):
            left = deque(group)
            blocks = range(left[0].blocks.start, left[-1].blocks.stop)  # of all at once: a file is read in one go
            for block in prepared.data.blocks(Stretch(left[0].number, file, blocks)) if blocks else ():
                while block.key[1] >= left[0].blocks.stop:
                    yield left.popleft(), None
                yield left[0], block
            yield from ((stretch, None) for stretch in left)

    return read_ahead(every(), AHEAD) if prepared.data.is_streamed else every()


def map_pieces(prepared: Prepared, function: Callable[[Any, int], T]) -> list[T]:
    """What a function of a piece and its number gives of all rows of a log that is small, in order."""
    every = [one for block in prepared.data.blocks() for one in enumerate(prepared.pieces(block))]
    if len(every) == 1:
        with ONE_THREAD:
            return [function(piece, number) for number, piece in every]
    with Threads(lambda one: function(one[1], one[0]), None) as threads:
        return [handle.result() for handle in [threads.start(one) for one in every]]


def joined_rows(prepared: Prepared) -> FeatureRows:
    """All rows of a log that is small as one block of features, dense."""
    found = map_pieces(prepared, lambda piece, number: list(prepared.chunks_of(piece, piece=number)))
    pieces = [chunk for chunks in found for chunk in chunks]
    x = np.concatenate([_dense(piece.x) for piece in pieces])
    return FeatureRows(
        x,
        np.concatenate([piece.rewards for piece in pieces]),
        np.concatenate([_dense(piece.x_next) for piece in pieces]),
        x if all(piece.v is piece.x for piece in pieces) else np.concatenate([_dense(piece.v) for piece in pieces]),
        None if pieces[0].weights is None else np.concatenate([p.weights for p in pieces if p.weights is not None]),
    )


def _dense(features: NDArray[np.floating] | sp.csr_array) -> NDArray[np.floating]:
    return np.asarray(features.toarray()) if isinstance(features, sp.csr_array) else features


def _distributed(work: Work[Any], prepared: Prepared, stretches: list[Stretch], running: Running) -> Generator[_Step]:
    """Stretch by stretch, each a task of a Ray cluster."""
    task = partial(of_stretch, work, prepared)
    results = map_ordered(task, stretches, engine=running.engine, address=running.address)
    for stretch, (state, rows, digests) in zip(stretches, results):
        if isinstance(prepared.data, Streamed):
            prepared.data.compare(stretch, digests)
        yield _Step((stretch.number + 1, 0), work.restored(copy.deepcopy(state)), rows)  # out of the cluster's memory


def of_stretch(work: Work[Any], prepared: Prepared, stretch: Stretch) -> tuple[dict[str, Any], int, ColumnDigests]:
    """The sums of one stretch, as a state, its rows, and the digests of what was read: one thread computes it all."""
    total, rows = work.zero(), 0
    for step in _blocks(work, prepared, [stretch], 1):
        if step.partial is not None:
            total.add(step.partial)
        rows += step.rows
    return total.state(), rows, prepared.data.digests_of(stretch) if isinstance(prepared.data, Streamed) else {}
