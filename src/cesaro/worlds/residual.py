"""How far a world's rate may be off, by rows that its members did not learn from.

By the simulation lemma, with v the target's differential values in the world and ω the ratio of the target's pairs to the log's,
r_π − r_W = E[ω (R + v(S') − W[R + v](S, A))] up to what is wrong with ω: what counts is not how well the world predicts, but how
well it predicts what matters to the target, where the target goes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cesaro.checks import Array
from cesaro.data.values import Values
from cesaro.diagnostics.worlds import Residual
from cesaro.engines.local import ONE_THREAD
from cesaro.estimators import DiffLSTD
from cesaro.policies import Attached
from cesaro.worlds.networks import NetworkWorld
from cesaro.worlds.space import Codes, SplitState
from cesaro.worlds.training import outputs_of_one
from cesaro.worlds.world import World

# Rows of the log that are looked at, and of the target's rollouts.
ROWS = 20_000
LENGTH = 500
# Features of the target's values in its own rollouts, over all actions, and a ridge that keeps them determined.
FEATURES, RIDGE = 200, 1e-6
# Draws of the world at every row.
DRAWS = 4
# A ratio beyond this is taken for this.
LARGEST_RATIO = 50.0


def residual(world: World, target: Attached, seed: int) -> Residual:
    """The residual of a world of networks; the empirical MDP has none.

    One thread: more gain nothing on so few rows, and take eight times as long where another program has a core.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: F401 - limits hold for libraries that are loaded

    with ONE_THREAD, threadpool_limits(limits=1, user_api="openmp"):
        return _residual(world, target, seed)


def _residual(world: World, target: Attached, seed: int) -> Residual:
    process: Any = world.process_
    assert isinstance(process, NetworkWorld)
    rng = np.random.default_rng([seed, 15])
    rows = np.sort(rng.choice(process.model.rows, min(ROWS, len(process.model.rows)), replace=False))
    logged = process.now.take(rows)
    taken = process.taken[rows]
    simulated = world.simulate(target, max(20, ROWS // LENGTH), LENGTH, rng)
    count = 1 if simulated.action_levels is None else len(simulated.action_levels)
    values = DiffLSTD(f"fourier:{max(10, FEATURES // count)}", ridge=RIDGE, device="cpu", quiet=True, random_state=seed)
    values.fit(simulated, target.given)
    inputs = process.inputs(logged, taken)
    space = process.space.columns
    theirs = process.inputs(space.split(simulated.observations), process.actions.of_values(simulated.actions))
    ratio = _ratio(inputs, theirs, process.groups[rows], seed)
    worth = _worth(values, world.log_.action_levels, target, rng)
    found = process.rewards[rows] + worth(space.join(process.following.take(rows)))
    expected, member = np.zeros(len(rows)), _held_out_by(process, rows, rng)
    each = [np.flatnonzero(member == one) for one in range(process.members)]
    found_by = [outputs_of_one(process.model.networks, one, inputs[own]) for one, own in enumerate(each)]
    outputs = np.concatenate(found_by)[np.argsort(np.concatenate(each))]
    for _ in range(DRAWS):
        done = process.drawn(logged, inputs, outputs, member, rng)
        state = done.state
        assert isinstance(state, SplitState)
        expected += (done.rewards + worth(space.join(state))) / DRAWS
    value, error = _mean(ratio, found - expected, process.groups[rows])
    rows_behind = float(ratio.sum() ** 2 / (ratio**2).sum())
    return Residual(value, error, rows_behind, _outside(inputs, theirs), _memory(process), _trend(process))


def _worth(values: DiffLSTD, levels: NDArray[Any] | None, target: Attached, rng: np.random.Generator) -> Any:
    """`v` at states: the values of the target's actions there; zero, which is their mean, of labels that no rollout took.

    Args:
        values: of the target, in its own rollouts.
        levels: labels of the log's actions; None where these are numbers.
    """
    log = values.prepared_.log
    taken = None if log is None else log.action_levels

    def worth(observations: Values) -> Array:
        plain = observations.plain()
        if levels is None or taken is None:
            actions = target.sample(plain, rng)
            if actions.ndim == 2 and values.prepared_.sample.rows.actions.form == "lone":
                actions = actions[:, 0]
            return np.asarray(values.predict(plain, actions))
        chances = target.probabilities(plain)
        if chances is None:
            chances = np.eye(len(levels))[target.sample(plain, rng)]
        each = [
            values.predict(plain, np.full(len(observations), level)) if level in taken else np.zeros(len(observations))
            for level in levels
        ]
        return np.asarray(np.nan_to_num(np.where(chances > 0, np.stack(each, axis=1), 0.0) * chances).sum(axis=1))

    return worth


def _held_out_by(process: NetworkWorld, rows: Codes, rng: np.random.Generator) -> Codes:
    """For each row a member that did not learn from it."""
    chance = rng.random((process.members, len(rows)))
    return np.asarray(np.where(process.bag.is_held_out[:, rows], chance, -1.0).argmax(axis=0))


def _ratio(logged: NDArray[np.float32], target: NDArray[np.float32], groups: Codes, seed: int) -> Array:
    """The target's pairs to the log's, at the log's: by a classifier that did not see their trajectory; mean one."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    fold = np.unique(groups, return_inverse=True)[1] % 2
    theirs = np.arange(len(target)) % 2
    found = np.ones(len(logged))
    for part in (0, 1):
        own, other = logged[fold != part], target[theirs != part]
        if not len(own) or not (fold == part).any():
            continue
        model = HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=40, random_state=seed)
        model.fit(np.concatenate([own, other]), np.repeat([0, 1], [len(own), len(other)]))
        chance = np.clip(model.predict_proba(logged[fold == part])[:, 1], 1e-6, 1 - 1e-6)
        found[fold == part] = chance / (1 - chance) * len(own) / len(other)
    found = np.minimum(found, LARGEST_RATIO)
    return np.asarray(found / found.mean())


def _mean(weights: Array, numbers: Array, groups: Codes) -> tuple[float, float]:
    """A weighted mean, and its standard error over groups."""
    value = float(weights @ numbers / weights.sum())
    place = np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(place, weights * (numbers - value))
    count = len(sums)
    return value, float(np.sqrt((sums**2).sum() * count / max(1, count - 1)) / weights.sum())


def _outside(logged: NDArray[np.float32], target: NDArray[np.float32]) -> float:
    """The share of the target further out than the log, by `xᵀC⁻¹x` of inputs, their squares and a constant."""
    half = len(logged) // 2

    def features(x: NDArray[np.float32]) -> Array:
        return np.concatenate([np.ones((len(x), 1)), x, x.astype(np.float64) ** 2], axis=1)

    gram = np.linalg.pinv(features(logged[:half]).T @ features(logged[:half]) / half)
    far = [np.einsum("ij,jk,ik->i", features(x), gram, features(x)) for x in (logged[half:], target)]
    return float((far[1] > np.quantile(far[0], 0.999)).mean())


def _memory(process: NetworkWorld) -> float:
    """How much of the next row's residual a row's inputs and residual explain, beyond that row's own inputs."""
    from sklearn.linear_model import RidgeCV

    model = process.model
    place = np.full(len(process.rewards), -1)
    place[model.rows] = np.arange(len(model.rows))
    later = np.flatnonzero(process.follows & (place >= 0))
    later = later[later > 0]
    later = later[(place[later - 1] >= 0) & ~process.is_jump[later] & ~process.is_jump[later - 1]]
    if len(later) < 200:
        return 0.0
    before = later - 1
    inputs = np.concatenate(
        [process.inputs(process.now.take(before), process.taken[before]), model.residuals[place[before]]], axis=1
    )
    left = model.residuals[place[later]]
    half = len(later) // 2
    best = 0.0
    for column in range(left.shape[1]):
        if left[:, column].std() < 1e-6:
            continue
        fitted = RidgeCV(np.logspace(-2, 4, 7)).fit(inputs[:half], left[:half, column])
        # As a part of all, and not of what is left: a good fit leaves the error of networks, which is alike in like states.
        best = max(best, float(fitted.score(inputs[half:], left[half:, column]) * np.square(left[:, column]).mean()))
    return best


def _trend(process: NetworkWorld) -> float:
    """What the place of a row, in the log and in its trajectory, tells of its residual, by a straight line."""
    model, count = process.model, len(process.rewards)
    place = np.arange(count)
    since = place - np.maximum.accumulate(np.where(process.follows, 0, place))
    best = 0.0
    for times in (place[model.rows], since[model.rows]):
        if times.std() > 0:
            line = (times - times.mean()) / times.std()
            best = max(best, float(np.square(line @ model.residuals / len(line)).max()))
    return best
