"""How the networks of all members learn together: one compiled program, until held-out rows gain nothing more; resumable."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from cesaro import __version__, files
from cesaro.checks import Array
from cesaro.engines.local import check_wanted, cores
from cesaro.errors import InputError
from cesaro.fingerprints import fingerprint
from cesaro.worlds.space import Codes

Float32 = NDArray[np.float32]

# Steps between two looks at held-out rows, and looks without a gain before the next, smaller step size; after the last one
# training ends.
CHUNK, PATIENCE = 200, 3
STEP_SIZES = (2e-3, 4e-4)
MOST_STEPS = 12_000
GAIN = 1e-4
# Members that one program trains on a CPU, where a thread runs each program; a GPU trains all at once. And those of a group,
# which goes on while any of them gains. Both do not depend on the number of cores, so that answers do not.
TOGETHER, GROUP = 5, 10
# Rows of a tile that one core goes through while others do something else: XLA divides larger ones among all cores, which wait
# for each other where two rollouts go beside each other. With more rows than these it pays.
TILE, MOST_TILED = 480, 4_800
# Rows that a member draws at once for several steps, at most: drawing for each step takes a third of a core's time.
DRAWN = 2**16
# Of files that keep progress; and seconds between two writings.
SCHEMA, OLDER, SECONDS = "cesaro-world/2", "cesaro-world/1", 30.0


class Rows(NamedTuple):
    """Rows that networks learn from.

    Attributes:
        inputs: `[n, d]`.
        numbers: standardized, `[n, k]`.
        labels: `[n, c]`.
        known: whether the numbers of a row are to be learned, `[n, k]`; after a jump they are not.
        weights: `[n]`, with mean one.
    """

    inputs: Float32
    numbers: Float32
    labels: Codes
    known: NDArray[np.bool_]
    weights: Float32


class Training(NamedTuple):
    """How networks are trained.

    Attributes:
        widths: units of the hidden layers.
        batch_size: rows of one step.
    """

    widths: tuple[int, ...]
    batch_size: int
    seed: int


class Progress(NamedTuple):
    """Where a training stands.

    Attributes:
        networks, state: of all members, and of their optimizers.
        kept: the networks at their best on held-out rows, and `best` their losses there.
        key: for what is random from here on, as plain numbers.
        size: place in `STEP_SIZES`, of each group.
        waited: looks since the last gain, of each group.
        is_done: whether a group has ended; its members stay as they are.
        steps: of the groups that have not.
    """

    networks: Any
    state: Any
    kept: Any
    best: Array
    key: Any
    size: NDArray[np.int64]
    waited: NDArray[np.int64]
    is_done: NDArray[np.bool_]
    steps: int = 0


class Kept:
    """Progress of one training after the other, in a file that a later run of the same ones goes on from, bit for bit.

    Args:
        path: the file; None: nothing is kept.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._trainings: list[dict[str, Any]] = []
        self._number, self._written = -1, time.monotonic()
        if path is not None and path.exists():
            files.reject_older(path, OLDER, files.AFRESH)
            found = files.read_values(path, SCHEMA, remedy=files.AFRESH).get("trainings")
            if not isinstance(found, list) or not all(
                isinstance(one, dict) and {*one} >= {"identity", "leaves"} for one in found
            ):
                raise InputError(f"The checkpoint '{path}' holds no progress of a world; {files.AFRESH}.")
            self._trainings = found

    def begin(self, start: Progress, *depends_on: Any) -> Progress:
        """Where the next training stands: at its start, or where the file has it."""
        self._number += 1
        if self.path is None:
            return start
        versions = (__version__, jax.__version__, optax.__version__)
        settings = (jax.default_backend(), jax.config.jax_enable_x64, jax.config.jax_default_prng_impl)  # type: ignore[attr-defined]
        told = fingerprint([versions, settings, *depends_on])
        if self._number == len(self._trainings):
            self._trainings.append({"identity": told, "leaves": None})
        found = self._trainings[self._number]
        if found["identity"] != told:
            raise InputError(
                f"The checkpoint '{self.path}' belongs to another world: its rows, settings, versions or device were others; "
                f"{files.AFRESH}, or choose another one."
            )
        if found["leaves"] is None:
            return start
        leaves, expected = found["leaves"], jax.tree.leaves(start)
        if not isinstance(leaves, list) or [np.shape(leaf) for leaf in leaves] != [np.shape(leaf) for leaf in expected]:
            raise InputError(f"The checkpoint '{self.path}' holds no progress of this world; {files.AFRESH}.")
        progress: Progress = jax.tree.unflatten(jax.tree.structure(start), leaves)
        return progress

    def keep(self, progress: Progress) -> None:
        """Write it if that was long ago, or if it is the end."""
        if self.path is not None and (progress.is_done.all() or time.monotonic() - self._written >= SECONDS):
            leaves = [np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf for leaf in jax.tree.leaves(progress)]
            self._trainings[self._number]["leaves"] = leaves
            files.write_values(self.path, SCHEMA, {"trainings": self._trainings})
            self._written = time.monotonic()


def trained(
    rows: Rows,
    sizes: tuple[int, ...],
    own: Codes,
    held_out: Codes,
    training: Training,
    kept: Kept,
    most_steps: int | None = None,
) -> tuple[Any, Array, int]:
    """Networks at their best on held-out rows, their losses there, and the steps that it took.

    Args:
        sizes: of the columns of labels, in levels.
        own, held_out: rows of each member, and rows that it never sees, `[members, …]`.
        most_steps: after these it ends; None: `MOST_STEPS`.
    """
    most = MOST_STEPS if most_steps is None else most_steps
    data = jax.device_put(rows._replace(labels=rows.labels.astype(np.int32)))
    members = len(own)
    together = TOGETHER if jax.default_backend() == "cpu" else members
    parts = [slice(first, first + together) for first in range(0, members, together)]
    bags = [jax.device_put((own[part].astype(np.int32), held_out[part].astype(np.int32))) for part in parts]
    now = kept.begin(_start(rows, sizes, members, training), rows, sizes, own, held_out, training, most)
    chunk = partial(_chunk, sizes=sizes, batch_size=training.batch_size)
    with ThreadPoolExecutor(min(cores(), len(parts))) as pool:
        while not now.is_done.all():
            check_wanted()
            key, drawn = jax.random.split(jax.random.wrap_key_data(now.key))
            keys = jax.random.split(drawn, members)
            step_sizes = np.array(STEP_SIZES, np.float32)[_by_member(now.size, members)]
            is_done = _by_member(now.is_done, members)
            jobs = []
            for part, bag in zip(parts, bags):
                so_far = (*_of((now.networks, now.state), part), now.best[part])
                inputs = None if is_done[part].all() else (data, *bag, keys[part], step_sizes[part])
                jobs.append(pool.submit(_advanced, chunk, so_far, inputs))
            networks, state, losses = _joined([job.result() for job in jobs])
            now = _looked(now._replace(networks=networks, state=state, key=jax.random.key_data(key)), losses, most)
            kept.keep(now)
    return now.kept, now.best, now.steps


def _advanced(program: Any, so_far: Any, inputs: Any) -> Any:
    """Networks, states and losses of some members after a chunk; as they were where there are no inputs, since all have ended.

    It waits for them: a thread that waits leaves the others a core each.
    """
    return so_far if inputs is None else jax.block_until_ready(program(*so_far[:2], *inputs))


def _of(tree: Any, part: slice) -> Any:
    return jax.tree.map(lambda leaf: leaf[part], tree)


def _by_member(of_groups: NDArray[Any], members: int) -> NDArray[Any]:
    """What is known of groups, for each of their members."""
    return np.repeat(of_groups, GROUP)[:members]


def _joined(parts: list[Any]) -> Any:
    """Parts of the members as all of them."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _start(rows: Rows, sizes: tuple[int, ...], members: int, training: Training) -> Progress:
    """Drawn by NumPy, since a program that draws takes longer to compile than to train a small world."""
    shape = (rows.inputs.shape[1], *training.widths, rows.numbers.shape[1] + sum(sizes))
    networks = first_networks(np.random.default_rng([training.seed, 12]), members, shape)
    state = jax.tree.map(
        lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(jax.vmap(_optimizer().init), networks)
    )
    key = np.asarray(jax.random.key_data(jax.random.key(training.seed)))
    groups = -(-members // GROUP)
    size, waited, is_done = np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups, np.bool_)
    return Progress(networks, state, networks, np.full(members, np.inf), key, size, waited, is_done)


def first_networks(rng: np.random.Generator, members: int, shape: tuple[int, ...]) -> Any:
    """Weights and biases by layer; the last layer begins small, so that outputs begin at their means."""
    sizes = [1.4] * (len(shape) - 2) + [0.1]
    return [
        (
            (size / np.sqrt(i) * rng.normal(size=(members, i, o))).astype(np.float32),
            np.zeros((members, o), np.float32),
        )
        for size, i, o in zip(sizes, shape[:-1], shape[1:])
    ]


def _looked(now: Progress, losses: Any, most_steps: int) -> Progress:
    """After some more steps and a look at held-out rows: a group goes on while any of its members gains."""
    steps, found, members = now.steps + CHUNK, np.asarray(losses, dtype=np.float64), len(now.best)
    better = (found < now.best) & ~_by_member(now.is_done, members)
    gains = np.logical_or.reduceat(found < (1 - GAIN) * now.best, np.arange(0, members, GROUP))
    waited = np.where(gains, 0, now.waited + 1)
    kept = _chosen(jnp.asarray(better), now.networks, now.kept)
    is_slower = (waited >= PATIENCE) & (now.size + 1 < len(STEP_SIZES)) & ~now.is_done
    waited = np.where(is_slower, 0, waited)
    return now._replace(
        networks=_chosen(jnp.asarray(_by_member(is_slower, members)), kept, now.networks)
        if is_slower.any()
        else now.networks,
        kept=kept,
        best=np.where(better, found, now.best),
        size=now.size + is_slower,
        waited=waited,
        is_done=now.is_done | (waited >= PATIENCE) | (steps >= most_steps),
        steps=steps,
    )


def _optimizer() -> optax.GradientTransformation:
    """The step size is multiplied in later, so that a smaller one needs no other program."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())


def _forward(network: Any, inputs: Any) -> Any:
    """`[n, d]` through one network."""
    for weight, bias in network[:-1]:
        inputs = jax.nn.silu(inputs @ weight + bias[None])
    weight, bias = network[-1]
    return inputs @ weight + bias[None]


@jax.jit
def outputs_of(networks: Any, inputs: Any) -> Any:
    """The outputs of all members, `[members, n, d]` to `[members, n, out]`; on a CPU in tiles, the same bits, if rows are few."""
    rows = inputs.shape[1]
    if jax.default_backend() != "cpu" or not 0 < rows <= MOST_TILED:
        return jax.vmap(_forward)(networks, inputs)
    tiles = -(-rows // TILE)
    size = -(-rows // tiles)
    padded = jnp.pad(inputs, ((0, 0), (0, tiles * size - rows), (0, 0)))

    def of_member(pair: Any) -> Any:
        network, own = pair
        found = jax.lax.map(partial(_forward, network), own.reshape(tiles, size, own.shape[1]))
        return found.reshape(tiles * size, -1)[:rows]

    return jax.lax.map(of_member, (networks, padded))


def outputs_of_one(networks: Any, member: int, inputs: Float32) -> Float32:
    """The outputs of one member, `[n, d]` to `[n, out]`, in parts of one size: one program serves any number of rows."""
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[member : member + 1], networks)
    count = max(1, -(-len(inputs) // MOST_TILED))
    padded = np.zeros((count * MOST_TILED, inputs.shape[1]), np.float32)
    padded[: len(inputs)] = inputs
    parts = [np.asarray(outputs_of(one, part[None]))[0] for part in np.split(padded, count)]
    return np.concatenate(parts)[: len(inputs)]


def _loss(network: Any, rows: Rows, sizes: tuple[int, ...]) -> Any:
    """Squared errors of numbers, and cross entropies of labels."""
    outputs, count = _forward(network, rows.inputs), rows.numbers.shape[1]
    errors = jnp.where(rows.known, (outputs[:, :count] - rows.numbers) ** 2, 0.0).sum(axis=1)
    for column, size in enumerate(sizes):
        logits = outputs[:, count : count + size]
        errors += optax.softmax_cross_entropy_with_integer_labels(logits, rows.labels[:, column])
        count += size
    return (errors * rows.weights).mean()


def _drawn_together(batch_size: int) -> int:
    """The number of steps whose batches are drawn at once, of which a chunk is a multiple."""
    most = max(1, DRAWN // batch_size)
    return max(count for count in range(1, CHUNK + 1) if CHUNK % count == 0 and count <= most)


@partial(jax.jit, static_argnames=("sizes", "batch_size"))
def _chunk(
    networks: Any,
    state: Any,
    rows: Rows,
    own: Any,
    held: Any,
    keys: Any,
    step_sizes: Any,
    *,
    sizes: Any,
    batch_size: int,
) -> Any:
    """So many steps of some members, each with its key and step size, and their losses on held-out rows after it."""
    optimizer = _optimizer()

    def step(carry: Any, drawn: Any, step_size: Any) -> Any:
        network, state = carry
        batch = jax.tree.map(lambda leaf: leaf[drawn], rows)
        updates, state = optimizer.update(jax.grad(_loss)(network, batch, sizes), state)
        return (jax.tree.map(lambda old, change: old - step_size * change, network, updates), state), None

    def one(network: Any, state: Any, mine: Any, theirs: Any, key: Any, step_size: Any) -> Any:
        draw = partial(jax.random.randint, shape=(batch_size,), minval=0, maxval=len(mine))

        def several(carry: Any, keys: Any) -> Any:
            return jax.lax.scan(lambda carry, drawn: step(carry, drawn, step_size), carry, mine[jax.vmap(draw)(keys)])

        keys = jax.random.split(key, CHUNK).reshape(-1, _drawn_together(batch_size))
        (network, state), _ = jax.lax.scan(several, (network, state), keys)
        looked_at = jax.tree.map(lambda leaf: leaf[theirs], rows)
        return network, state, _loss(network, looked_at, sizes)

    return jax.vmap(one)(networks, state, own, held, keys, step_sizes)


@jax.jit
def _chosen(better: Any, new: Any, old: Any) -> Any:
    """The members that got better, and the others as they were."""
    return jax.tree.map(lambda a, b: jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)
