"""Promises of every method of the registry in a sweep, whatever runs beside it."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

import cesaro as cs
from cesaro.algorithms import REGISTRY, Batch, saddle_point
from cesaro.algorithms.saddle_point import SCHEDULE_DEFAULTS, copied
from cesaro.approximators import APPROXIMATORS, WIDE
from cesaro.learning import engine
from cesaro.learning import run as compiled
from cesaro.learning.arguments import RunShape
from cesaro.learning.run import rows
from cesaro.learning.source import draw, source

Array = NDArray[np.float64]

METHODS = tuple(REGISTRY)
SEEDS = (3, 11, 0, 2**32 - 1)
SETTINGS = [{"step_size": 0.05, "ridge": 0.0}, {"step_size": 0.1, "ridge": 0.3}, {"step_size": 0.02, "ridge": 1.0}]
TARGET = copied(7)
PROBLEM = cs.problems.random_problem(70, 4, 2, 3)


def wide_problem() -> cs.LinearProblem:
    """So many features that lanes are laid out the other way."""
    base = cs.problems.random_problem(72, 4, 2, WIDE + 5)
    return base.replace(features=0.2 * base.features)


WIDE_PROBLEM = wide_problem()

_compilations = 0


def _count(event: str, duration_secs: float, **kwargs: str | int) -> None:
    global _compilations
    _compilations += event.endswith("backend_compile_duration")


jax.monitoring.register_event_duration_secs_listener(_count)


def run(method: str, problem: Any = PROBLEM, **changes: Any) -> cs.Sweep:
    arguments: dict[str, Any] = {
        "settings": SETTINGS,
        "seeds": SEEDS,
        "budget": 240,
        "record_every": 40,
        "window": 40,
        "record": ("weights", "last_reward_rate"),
        "dtype": "float64",
    }
    return cs.sweep(method, problem, **{**arguments, **changes})


def assert_same(first: cs.Sweep, second: cs.Sweep, tolerance: float = 0.0) -> None:
    assert first.settings == second.settings
    np.testing.assert_array_equal(first.seeds, second.seeds)
    np.testing.assert_array_equal(first.samples, second.samples)
    np.testing.assert_array_equal(first.diverged_at, second.diverged_at)
    assert first.records.keys() == second.records.keys()
    pairs = [(first.reward_rate, second.reward_rate)]
    pairs += [(values, second.records[name]) for name, values in first.records.items()]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def select(sweep: cs.Sweep, setting: int, seed: int) -> cs.Sweep:
    """One run of a sweep, as a sweep."""
    where = np.ix_([setting], [seed])
    return cs.Sweep(
        sweep.method,
        [sweep.settings[setting]],
        sweep.seeds[[seed]],
        sweep.samples,
        sweep.reward_rate[where],
        sweep.diverged_at[where],
        {name: values[where] for name, values in sweep.records.items()},
    )


# One sample per step and two, with a dual and a ratio: every way that numbers reach a step.
PRECISE = ("diff-gq2", "gradient-dice")


@pytest.mark.parametrize("method", METHODS)
def test_shapes_and_precision(method: str) -> None:
    """float32 unless asked otherwise; results in float64 arrays that hold exactly the numbers of the run."""
    results = {"float64": run(method)}
    if method in PRECISE:
        results["float32"] = run(method, dtype="float32")
    for result in results.values():
        assert result.method == method
        assert result.settings == SETTINGS
        assert result.seeds.tolist() == list(SEEDS)
        assert result.samples.tolist() == [40, 80, 120, 160, 200, 240]
        assert result.reward_rate.shape == (3, 4, 6)
        assert result.records.keys() == {"weights", "last_reward_rate"}
        assert result.records["weights"].shape == (3, 4, 6, 3)
        assert result.records["last_reward_rate"].shape == (3, 4, 6)
        assert result.diverged_at.shape == (3, 4)
        assert result.diverged.tolist() == [False] * 3
        assert (result.diverged_at == -1).all()
        assert np.issubdtype(result.diverged_at.dtype, np.integer)
        for values in (result.reward_rate, *result.records.values()):
            assert values.dtype == np.float64
            assert np.isfinite(values).all()
            assert len(np.unique(values)) == values.size, "every run is a run of its own"
    if method not in PRECISE:
        return
    for single, double in zip(values_of(results["float32"]), values_of(results["float64"])):
        assert (single == single.astype(np.float32)).all()
        assert (double != double.astype(np.float32)).mean() > 0.9
        np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-4)  # the same samples, other rounding


def values_of(sweep: cs.Sweep) -> list[Array]:
    return [sweep.reward_rate, *(sweep.records[name] for name in sorted(sweep.records))]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_compiled_twice(method: str) -> None:
    """Not on a second call, with other hyper-parameters, other seeds, or another problem of the same size."""
    run(method)
    before = _compilations
    assert before > 0, "the counter must count"
    run(method)
    other = [{"step_size": 0.03, "ridge": 0.7}, {"step_size": 0.01, "ridge": 0.2}, {"step_size": 0.02, "ridge": 0.1}]
    run(method, settings=other)
    run(method, seeds=(5, 6, 7, 8))
    run(method, cs.problems.random_problem(71, 4, 2, 3))
    run(method, budget=240, window=120, workers=3)
    assert _compilations == before


@pytest.mark.parametrize("method", METHODS)
def test_a_run_does_not_depend_on_what_runs_beside_it(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sweep, alone, lane by lane, with any number of workers, and in another order: the same to rounding."""
    whole = run(method)
    backwards = run(method, settings=SETTINGS[::-1], seeds=SEEDS[::-1])
    for one, other in zip(values_of(backwards), values_of(whole)):
        np.testing.assert_array_equal(one[::-1, ::-1], other)
    for setting, seed in ((1, 2), (2, 3)):
        alone = run(method, settings=[SETTINGS[setting]], seeds=[SEEDS[seed]])
        assert_same(alone, select(whole, setting, seed), tolerance=1e-11)
    monkeypatch.setattr(engine, "CPU_NUMBERS", 1)  # a chunk per lane
    single = run(method, workers=1)
    assert_same(single, whole, tolerance=1e-11)
    assert_same(run(method, workers=2), single)
    assert_same(run(method, workers=5), single)


@pytest.mark.parametrize("method", ["diff-sgq", "diff-gq2"])
def test_many_settings_in_rows_are_what_each_is_alone(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough settings for the other order in memory; also in rows that do not divide them, padded."""
    settings = cs.grid(step_size=[0.05, 0.1, 0.02], ridge=[0.1 * k for k in range(compiled.ROW // 2)])
    whole = run(method, settings=settings, budget=80)
    for setting, seed in ((1, 2), (len(settings) - 1, 3)):
        alone = run(method, settings=[settings[setting]], seeds=[SEEDS[seed]], budget=80)
        assert_same(alone, select(whole, setting, seed), tolerance=1e-11)
    monkeypatch.setattr(engine, "CPU_ROW", 17)
    assert_same(run(method, settings=settings, budget=80), whole, tolerance=1e-11)


@pytest.mark.slow
def test_chunks_cover_every_lane_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that do not divide, padded in seeds (two of five lanes at a time) and in settings (five times two of three)."""
    seeds = [4, 1, 9, 2, 6]
    whole = run("diff-sgq", seeds=seeds, budget=40)
    for lanes in (2, 11):
        monkeypatch.setattr(engine, "CPU_NUMBERS", 3 * lanes)
        assert_same(run("diff-sgq", seeds=seeds, budget=40), whole, tolerance=1e-11)


@pytest.mark.slow
def test_chunks_of_wide_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many parameters settings come first: all lanes, two settings of one seed (padded), a lane at a time."""
    whole = run("diff-gq1", WIDE_PROBLEM, budget=40)
    for lanes in (2, 1):
        monkeypatch.setattr(engine, "CPU_WIDE_NUMBERS", lanes * (WIDE + 5))
        assert_same(run("diff-gq1", WIDE_PROBLEM, budget=40), whole, tolerance=1e-10)
    alone = run("diff-gq1", WIDE_PROBLEM, budget=40, settings=[SETTINGS[1]], seeds=[SEEDS[2]])
    assert_same(alone, select(whole, 1, 2), tolerance=1e-10)


def test_blocks_of_gathered_transitions_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step at a time, and two of 40 where three would fit; the window begins inside a block."""
    whole = run("diff-gq1", window=25)
    for steps in (1, 3):
        monkeypatch.setattr(compiled, "BLOCK_NUMBERS", steps * len(SEEDS) * 7)
        monkeypatch.setattr(engine, "_PROGRAMS", {})
        assert_same(run("diff-gq1", window=25), whole, tolerance=1e-11)


def test_steps_of_a_turn_on_an_accelerator_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps a turn, which leave a rest of each block, in the program that a GPU gets."""
    whole = run("diff-gq1", window=25)
    scan, turns = jax.lax.scan, set()

    def seen(*arguments: Any, **settings: Any) -> Any:
        turns.add(settings.get("unroll", 1))
        return scan(*arguments, **settings)

    monkeypatch.setattr(jax.lax, "scan", seen)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(compiled, "UNROLLED", 3)
    monkeypatch.setattr(engine, "_PROGRAMS", {})
    assert_same(run("diff-gq1", window=25), whole, tolerance=1e-11)
    assert turns == {1, 3}


def tuples(problem: cs.LinearProblem) -> tuple[Array, Array, Array]:
    """`x, R, x'` of every row of the sample space, read off the problem."""
    space = problem.sample_space
    X = problem.features.reshape(-1, problem.features.shape[2])
    return X[space.pair], problem.mdp.rewards.ravel()[space.pair], X[space.next_pair]


Replay = tuple[Array, Array, Array]


def replay(
    method: str,
    problem: cs.LinearProblem,
    setting: dict[str, float],
    seed: int,
    steps: int,
    *,
    batch_size: int = 1,
    approximator: str = "linear",
    radius: float | None = None,
    schedule: str = "constant",
    **options: Any,
) -> Replay:
    """The run step by step: the reported rate, the raw rate and the reported weights after every step."""
    with jax.enable_x64(True):
        objective = REGISTRY[method](APPROXIMATORS[approximator], problem.num_features)
        algorithm = saddle_point(objective, schedule=schedule, is_projected=radius is not None, **options)
        replayed = _compiled(
            algorithm, (method, problem.num_features, approximator, radius is None, schedule, tuple(options))
        )
        values: dict[str, Any] = {**objective.defaults, **SCHEDULE_DEFAULTS[schedule], "radius": radius, **setting}
        values = {name: setting["step_size"] if value is None else value for name, value in values.items()}
        hyper = {name: jnp.asarray(value, jnp.float64) for name, value in values.items()}
        key = jax.random.key(jnp.uint32(seed))
        state = algorithm.init(jax.random.fold_in(key, 0), hyper)
        k = objective.minibatches
        drawn = np.asarray(
            draw(
                source(problem, "float64").cumulative, jax.random.fold_in(key, 1), jnp.int32(0), steps * k * batch_size
            )
        )
        x, R, x1 = tuples(problem)
        # Consecutive samples of the stream: first minibatch, then the second.
        part = drawn.reshape(steps, k, batch_size)
        batches = Batch(jnp.asarray(x[part]), jnp.asarray(R[part]), jnp.asarray(x1[part]))
        reported, raw, primal = replayed(state, batches, hyper)
        weights = primal["ratio" if method == "gradient-dice" else "values"]["weights"]
    return np.asarray(reported), np.asarray(raw), np.asarray(weights)


_replays: dict[Any, Callable[..., Any]] = {}


def _compiled(algorithm: Any, key: Any) -> Callable[..., Any]:
    """One step after the other, without blocks, lanes or windows: the rates and the reported variables after each."""

    def replayed(state: Any, batches: Batch, hyper: dict[str, Any]) -> Any:
        def one(state: Any, batch: Batch) -> Any:
            state, _ = algorithm.step(state, batch, hyper)
            primal = algorithm.report(state)
            return state, (primal["rate"], state.primal["rate"], primal)

        return jax.lax.scan(one, state, batches)[1]

    return _replays.setdefault(key, jax.jit(replayed))


def assert_replayed(
    result: cs.Sweep, setting: int, seed: int, replayed: Replay, per_step: int, record_every: int, window: int
) -> None:
    reported, raw, weights = replayed
    for j, samples in enumerate(range(record_every, int(result.samples[-1]) + 1, record_every)):
        end, first = samples // per_step, max(0, samples - window) // per_step
        mean = np.mean(reported[first:end])
        np.testing.assert_allclose(result.reward_rate[setting, seed, j], mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(result.records["last_reward_rate"][setting, seed, j], raw[end - 1], rtol=1e-10)
        np.testing.assert_allclose(result.records["weights"][setting, seed, j], weights[end - 1], rtol=1e-9, atol=1e-12)


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method in METHODS},
    "projected diff-gq1": ("diff-gq1", {"radius": 0.4}),
    "projected diff-gq2": ("diff-gq2", {"radius": 0.2}),
    "robbins-monro": ("diff-gq1", {"schedule": "robbins-monro"}),
    "target network": ("diff-sgq", {"target": TARGET}),
    "random start": ("gradient-dice", {"approximator": "linear-random"}),
    "wide diff-gq2": ("diff-gq2", {"approximator": "linear-random", "problem": WIDE_PROBLEM}),
    "wide projected diff-gq1": ("diff-gq1", {"radius": 0.4, "problem": WIDE_PROBLEM}),
}


@pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=[pytest.mark.slow] * (name.startswith(("wide", "random")))) for name in VARIANTS],
)
def test_records_equal_a_step_by_step_replay(variant: str) -> None:
    """A window of one record and of three, for every setting and seed; all settings of a seed use the samples of that seed;
    Diff-GQ2 takes two consecutive ones per step."""
    method, options = VARIANTS[variant]
    problem, options = options.get("problem", PROBLEM), {k: v for k, v in options.items() if k != "problem"}
    per_step = REGISTRY[method](APPROXIMATORS["linear"], 3).minibatches
    steps = 240 // per_step
    results = [(window, run(method, problem, window=window, **options)) for window in (40, 120)]
    for i, setting in enumerate(SETTINGS):
        for j, seed in enumerate(SEEDS):
            replayed = replay(method, problem, setting, seed, steps, **options)
            for window, result in results:
                assert_replayed(result, i, j, replayed, per_step, 40, window)
    equal, long = (result.reward_rate for _, result in results)
    np.testing.assert_array_equal(long[:, :, 0], equal[:, :, 0])  # nothing before the first record
    assert np.abs(long - equal)[:, :, 1:].min() > 0


@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2"])
def test_replay_with_minibatches_and_a_short_window(method: str) -> None:
    """A window below `record_every`, even one that does not divide it."""
    per_step = 5 * (2 if method == "diff-gq2" else 1)
    result = run(method, batch_size=5, window=30)
    for i, j in ((0, 0), (2, 1)):
        replayed = replay(method, PROBLEM, SETTINGS[i], SEEDS[j], 240 // per_step, batch_size=5)
        assert_replayed(result, i, j, replayed, per_step, 40, 30)


@pytest.mark.slow
def test_replay_from_transitions() -> None:
    """Rows of data instead of a known problem: the same stream, the rows as they stand."""
    rng = np.random.default_rng(0)
    x, R, x1 = rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=(9, 3))
    data = cs.FeatureTransitions(x, R, x1, weights=rng.uniform(size=9))
    result = run("diff-sgq", data, budget=40)
    with jax.enable_x64(True):
        stream = jax.random.fold_in(jax.random.key(3), 1)
        drawn = np.asarray(draw(source(data, "float64").cumulative, stream, jnp.int32(0), 40))
    w, r, rates = np.zeros(3), 0.0, []
    for i in drawn:
        delta = R[i] - r + x1[i] @ w - x[i] @ w
        w, r = w + 0.1 * (delta * x[i] - 0.3 * w), r + 0.1 * delta
        rates.append(r)
    np.testing.assert_allclose(result.reward_rate[1, 0, 0], np.mean(rates), rtol=1e-11)
    np.testing.assert_allclose(result.records["weights"][1, 0, 0], w, rtol=1e-11)


def test_all_settings_of_a_seed_see_the_same_samples() -> None:
    """The same setting three times is the same run three times; other seeds are other runs."""
    result = run("diff-gq2", settings=[SETTINGS[1]] * 3)
    assert (result.reward_rate == result.reward_rate[:1]).all()
    final = result.reward_rate[0, :, -1]
    assert len(np.unique(final)) == len(SEEDS)


def test_the_stream_of_a_seed_is_one_sequence() -> None:
    """It does not depend on the batch size, the number of minibatches, where records fall, the window, how far ahead it is
    drawn, on which seeds run beside, or on the precision."""
    seeds = np.array(SEEDS)
    origin = source(PROBLEM, "float32")
    reference = np.asarray(rows(origin, seeds, 0, RunShape(240, 240, 1, 1), 1))
    assert reference.shape == (240, 4)
    assert len(np.unique(reference)) > 20
    for shape, records in (
        (RunShape(40, 20, 1, 1), 6),
        (RunShape(4, 1, 2, 5), 6),
    ):
        drawn = np.asarray(rows(origin, seeds, 0, shape, records))
        np.testing.assert_array_equal(drawn, reference)
        later = np.asarray(rows(origin, seeds, 2, shape, 1))
        np.testing.assert_array_equal(later, reference[2 * shape.samples : 3 * shape.samples])
    single = np.asarray(rows(origin, seeds[1:2], 0, RunShape(240, 240, 1, 1), 1))
    np.testing.assert_array_equal(single.ravel(), reference[:, 1])
    with jax.enable_x64(True):
        again = rows(source(PROBLEM, "float64"), seeds, 0, RunShape(240, 240, 1, 1), 1)
        np.testing.assert_array_equal(again, reference)
    for one in range(4):
        for other in range(one):
            assert (reference[:, one] != reference[:, other]).mean() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["diff-gq1", "diff-gq2"])
def test_a_longer_run_begins_with_the_shorter_one(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the budget nor the spacing of records nor how far ahead samples are drawn changes a run."""
    long, short = run(method), run(method, budget=80)
    np.testing.assert_array_equal(long.reward_rate[:, :, :2], short.reward_rate)
    sparse = run(method, record_every=120)
    np.testing.assert_allclose(sparse.reward_rate, long.reward_rate[:, :, 2::3], rtol=1e-11, atol=1e-12)
    weights = long.records["weights"][:, :, 2::3]
    np.testing.assert_allclose(sparse.records["weights"], weights, rtol=1e-11, atol=1e-12)
    monkeypatch.setattr(engine, "DRAWN_AHEAD", 1)  # one record at a time
    assert_same(run(method), long)


@pytest.mark.parametrize(("method", "minibatches"), [("diff-gq1", 1), ("diff-gq2", 2)])
def test_the_budget_counts_samples(method: str, minibatches: int) -> None:
    """A step of Diff-GQ2 consumes two minibatches."""
    counted = {"steps": lambda state: state.count}
    result = run(method, schedule="robbins-monro", record=counted, batch_size=5)
    assert (result.records["steps"] * minibatches * 5 == result.samples).all()
