"""Passes on a device of JAX against NumPy's: the same features, rates, series and answers, on JAX's own processor.

The device makes features in double precision. `in_double` has their formulas in NumPy, and `double_precision` has NumPy's passes
use these.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import SplineTransformer, StandardScaler

import cesaro as cs
from cesaro.data import blocks
from cesaro.devices import accelerator, device_words
from cesaro.errors import InputError
from cesaro.features.base import Base, Fourier, Linear, Polynomial, Smooth, Splines
from cesaro.features.formulas import Formula, base_of_pairs, features, products, sendable
from cesaro.features.maps import ActionPairs, BasePairs, Pairs, ReadyPairs
from cesaro.features.networks import HiddenLayer
from cesaro.passes import prepare
from cesaro.passes.accelerator import Accelerator, _influence, _sums
from cesaro.passes.influence import Plan
from cesaro.passes.prepare import Prepared

ROWS = 6_000
ON_JAX = "jax:cpu"  # JAX on the processor, which nobody asks for


@pytest.fixture(params=[ON_JAX, "gpu"])
def device(request: pytest.FixtureRequest) -> str:
    """Where passes run: the same tests tell a GPU, where there is one, as tell the processor."""
    if request.param == "gpu" and accelerator("auto") is None:
        pytest.skip("JAX sees no GPU here")
    return str(request.param)


def table(rows: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    force, noise = rng.normal(size=rows), 0.3 * rng.normal(size=(rows, 2))
    state = np.zeros((rows + 1, 2))
    for t in range(rows):
        state[t + 1] = 0.8 * state[t] + 0.3 * np.tanh(force[t]) + noise[t]
    return {
        "place": state[:-1, 0].astype(np.float32),
        "speed": state[:-1, 1].astype(np.float32),
        "force": force,
        "side": np.where(force > 0, "left", "right"),
        "gain": np.sin(state[:-1, 0]) - 0.1 * force**2,
        "run": np.arange(rows) // 100,
        "hour": np.arange(rows) % 24,
        "team": np.array(["red", "green", "blue"])[rng.integers(3, size=rows)],
        "worth": rng.uniform(0.5, 2.0, rows),
    }


TABLE = table()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table(TABLE), path)
    return path


@pytest.fixture(autouse=True)
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are gone through in several tiles, as long ones are."""
    monkeypatch.setattr("cesaro.passes.accelerator.NUMBERS", 5_000)


def weak(observations: Any) -> Any:
    return -0.2 * observations["place"]


def half(observations: Any) -> Any:
    return 0.5 * observations[:, 0]


def drawn(observations: Any, rng: np.random.Generator) -> Any:
    return -0.2 * observations["place"] + 0.1 * rng.normal(size=len(observations["place"]))


def leaning(observations: Any) -> Any:
    left = 1 / (1 + np.exp(observations["place"]))
    return np.stack([left, 1 - left], axis=1)


def of_pairs(observations: Any, actions: Any) -> Any:
    return np.stack([observations["place"], observations["speed"], np.tanh(actions)], axis=1).astype(np.float64)


def of_states(observations: Any) -> Any:
    return np.stack([np.ones(len(observations["place"])), observations["place"], observations["speed"] ** 2], axis=1)


def in_double(base: Base, inputs: Any) -> Any:
    """The features of a base, of inputs `[n, inputs]`, by its formula in double precision."""
    z = inputs.astype(np.float64)
    if isinstance(base, Linear):
        return np.concatenate([np.ones((len(z), 1)), z], axis=1)
    if isinstance(base, Polynomial):
        return np.stack([np.prod(z[:, list(term)], axis=1) for term in base.terms], axis=1)
    if isinstance(base, Splines):
        made = SplineTransformer(degree=3, knots=base.knots, extrapolation="linear", include_bias=False)
        return made.fit(base.knots).transform(z[:, base.inputs])
    if isinstance(base, Fourier):
        return np.sqrt(2) * np.cos(z @ base.frequencies.astype(np.float64) + base.phases.astype(np.float64))
    assert isinstance(base, Smooth)
    core = [in_double(part, inputs) for part in (base.polynomial, base.splines) if part is not None]
    if base.fourier is None:
        return np.concatenate(core, axis=1)
    functions = np.concatenate([*core, in_double(base.fourier, inputs)], axis=1)
    return np.concatenate([*core, functions @ base.loadings.astype(np.float64)], axis=1)


def double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's passes in features of double precision, of maps that are fitted as always; equations count as rounded as ever."""
    monkeypatch.setattr(BasePairs, "_made", lambda pairs, inputs, tile: in_double(pairs.base, inputs))
    monkeypatch.setattr("cesaro.passes.moments.precision_of", lambda rows: float(np.finfo(np.float32).eps))


SIDES = cs.policies.Finite(["left", "right"], leaning)

# The most that rates may differ, in standard errors: in the same features, and where the host rounds them to single precision.
# That rounding alone moves NumPy's own rate by up to 7.6e-6 in these cases ("smooth"), so nothing closer can be asked for.
SAME, ROUNDED = 1e-9, 1e-5

CASES: dict[str, tuple[dict[str, Any], Any, dict[str, Any], float]] = {
    "linear": ({"action": "force"}, weak, {"features": "linear"}, SAME),
    "pairs": ({"action": "force"}, weak, {"features": of_pairs}, SAME),
    "states": ({"action": "side"}, SIDES, {"features": of_states}, SAME),
    "continuous": ({"action": "force"}, weak, {"features": "fourier:30"}, ROUNDED),
    "drawn": ({"action": "force"}, drawn, {"features": "polynomial:2", "draws": 3}, ROUNDED),
    "smooth": ({"action": "force"}, weak, {}, ROUNDED),
    "finite": ({"action": "side"}, SIDES, {"features": "fourier:12"}, ROUNDED),
    "trajectories": ({"action": "force", "trajectory": "run"}, weak, {"features": "splines"}, ROUNDED),
    "weights": ({"action": "force", "weight": "worth"}, weak, {"features": "fourier:30", "ridge": 1e-4}, ROUNDED),
    "dual": (
        {"action": "side", "weight": "worth"},
        SIDES,
        {"features": "linear", "dual_features": "fourier:10"},
        ROUNDED,
    ),
}


def fitted(case: tuple[Any, ...], stream: bool, file: Path, device: str) -> cs.DiffLSTD:
    roles, policy, settings, *_ = case
    log = cs.read(file, observation=["place", "speed"], reward="gain", stream=stream, **roles)
    return cs.DiffLSTD(standard_errors="long-run", quiet=True, device=device, **settings).fit(log, policy)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_numpy(
    name: str, stream: bool, device: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, most = fitted(CASES[name], stream, file, device), CASES[name][-1]
    if most == ROUNDED and not stream:
        here = fitted(CASES[name], stream, file, "cpu")
        assert abs(there.reward_rate_ - here.reward_rate_) < most * here.standard_error_
        assert there.standard_error_ == pytest.approx(here.standard_error_, rel=most)
        assert_judged_alike(there, here)
    if most == ROUNDED:
        double_precision(monkeypatch)
    here = fitted(CASES[name], stream, file, "cpu")
    assert abs(there.reward_rate_ - here.reward_rate_) < SAME * here.standard_error_
    assert there.standard_error_ == pytest.approx(here.standard_error_, rel=1e-8)
    assert there.level_ == pytest.approx(here.level_, rel=1e-6, abs=1e-9)
    if not stream:
        np.testing.assert_allclose(there.influence_, here.influence_, rtol=0, atol=1e-8 * np.abs(here.influence_).max())
    assert_judged_alike(there, here)
    assert "device" not in here.summary_()
    assert there.summary_()["device"] == device_words(accelerator(device))


def assert_judged_alike(there: cs.DiffLSTD, here: cs.DiffLSTD) -> None:
    assert there.moments_.precision == here.moments_.precision
    assert there.solution_.rank == here.solution_.rank
    assert there.features_ == here.features_
    assert [one.verdict for one in there.diagnostics_] == [one.verdict for one in here.diagnostics_]


# Features by themselves.

KINDS = ("linear", "polynomial:3", "splines", "fourier:20", "smooth:15", "smooth:0")
BY_THE_HOST = {"transformer": StandardScaler(), "states": of_states, "pairs": of_pairs}
EVERY = [*((kind, action) for kind in KINDS for action in ("force", "side")), ("states", "side"), ("pairs", "force")]


def pairs_of(kind: str, action: str, file: Path) -> tuple[Pairs, Pairs]:
    """Rows on the way to `x` and `x̄'`, of numbers, an hour and labels; some are far outside of what the map was fitted on."""
    log = cs.read(file, observation=["place", "speed", "hour", "team"], action=action, reward="gain")
    policy, features = SIDES if action == "side" else drawn, BY_THE_HOST.get(kind, kind)
    prepared = Prepared(log, policy, features=features, dual_features="same", draws=3, random_state=0)
    rows = prepared.encoded_block(next(iter(prepared.data.blocks())).part(slice(0, 500)))
    return farther(rows.x), farther(rows.x_next)


def farther(pairs: Any) -> Any:
    if isinstance(pairs, ActionPairs):
        return pairs._replace(states=farther(pairs.states))
    if isinstance(pairs, ReadyPairs):
        return pairs
    scale = np.where(np.arange(pairs.states.shape[1]) % 5 == 0, np.float32(4), np.float32(1))
    return pairs._replace(states=pairs.states * scale)


def on_device(*pairs: Pairs) -> list[Any]:
    """Features as the device makes them of rows with others behind them."""
    base = base_of_pairs(pairs[0])
    formula = None if base is None else Formula.of(base)
    with jax.enable_x64(True):
        sent = [sendable(one, formula, 500, 128, 512) for one in pairs]
        made = [np.asarray(one).T for one in jax.jit(features)(formula, *sent)]
    assert all(one.dtype == np.float64 and np.isfinite(one).all() for one in made)
    return [one[:500] for one in made]


def mean_in_double(pairs: Any) -> Any:
    """By the definitions of `maps`."""
    if isinstance(pairs, ActionPairs):
        states = mean_in_double(pairs.states)
        chances: Any = np.eye(pairs.num_actions)[pairs.codes] if pairs.codes is not None else pairs.chances
        return np.concatenate([chance[:, None] * states for chance in chances.T], axis=1)
    if isinstance(pairs, ReadyPairs):
        return np.asarray(pairs.table, np.float64)
    if not pairs.actions:
        return in_double(pairs.base, pairs.states.T)
    every = [in_double(pairs.base, np.concatenate([pairs.states, action]).T) for action in pairs.actions]
    count = len(every)
    chances = np.full((500, count), 1 / count) if pairs.chances is None else pairs.chances
    return sum(chance[:, None] * one for chance, one in zip(chances.T, every))


def by_units(found: Any, expected: Any) -> float:
    """The largest difference, in units of each feature."""
    return float((np.abs(found - expected) / np.maximum(1, np.abs(expected).max(axis=0))).max())


@pytest.mark.parametrize(("kind", "action"), [*EVERY, ("transformer", "side"), ("transformer", "force")])
def test_features_are_those_of_numpy_in_double_precision(kind: str, action: str, file: Path) -> None:
    pairs: Any = pairs_of(kind, action, file)
    for found, one in zip(on_device(*pairs), pairs):
        rounded = one.features(slice(0, 500))
        assert by_units(found, rounded if kind == "transformer" else mean_in_double(one)) < 1e-12
        assert by_units(found, rounded) < 1e-5  # the host's single precision


@pytest.mark.parametrize(("kind", "action"), EVERY)
def test_products_with_vectors_are_those_of_the_features(kind: str, action: str, file: Path) -> None:
    pairs = pairs_of(kind, action, file)
    base = base_of_pairs(pairs[0])
    formula = None if base is None else Formula.of(base)
    here = on_device(*pairs)
    vectors = np.random.default_rng(4).normal(size=(3, here[0].shape[1]))
    with jax.enable_x64(True):
        sent = [sendable(one, formula, 500, 128, 512) for one in pairs]
        found = [np.asarray(one).T[:500] for one in jax.jit(products)(formula, vectors, *sent)]
    for one, expected in zip(found, (made @ vectors.T for made in here)):
        assert by_units(one, expected) < 1e-12


@pytest.mark.parametrize(("kind", "action"), EVERY)
def test_the_host_multiplies_features_that_are_not_formed(kind: str, action: str, file: Path) -> None:
    """In tiles, the last of which is shorter; functions are in single precision, as features are."""
    for one in pairs_of(kind, action, file):
        exact, rows = mean_in_double(one), slice(100, 500)
        vectors = np.random.default_rng(4).normal(size=(3, exact.shape[1]))
        found = one.multiplier(vectors)(rows, 128)
        assert found.shape == (3, 400)
        assert by_units(found.T, exact[rows] @ vectors.T) < 1e-5


LONG: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "auto": ({"action": "force"}, weak, {}),
    "fourier": ({"action": "force"}, weak, {"features": "fourier:30"}),
    "drawn": ({"action": "force"}, drawn, {"features": "smooth:20", "draws": 3}),
    "weights": ({"action": "force", "weight": "worth"}, weak, {"features": "smooth:20", "ridge": 1e-4}),
    "finite": ({"action": "side"}, SIDES, {"features": "smooth:12"}),
    "dual": ({"action": "side", "weight": "worth"}, SIDES, {"features": "smooth:8", "dual_features": "smooth:16"}),
    "other": ({"action": "side"}, SIDES, {"features": "smooth:8", "dual_features": "fourier:30"}),
}


@pytest.mark.parametrize("name", LONG)
def test_the_second_pass_over_a_long_log_forms_no_components(
    name: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are those of short logs but for rounding; another action or weight would move them by hundredths of an error."""
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 2_500)
    short = fitted(LONG[name], False, file, "cpu")
    monkeypatch.setattr(prepare, "HELD", 0)
    formed, form, plan = [0], Smooth.__call__, Plan.of

    def counted(self: Smooth, inputs: Any) -> Any:
        formed[0] += len(inputs)
        return form(self, inputs)

    def planned(*arguments: Any) -> Plan:  # between the passes
        assert bool(formed[0]) == (name != "fourier")
        formed[0] = 0
        return plan(*arguments)

    monkeypatch.setattr(Smooth, "__call__", counted)
    monkeypatch.setattr(Plan, "of", planned)
    long = fitted(LONG[name], False, file, "cpu")
    assert formed[0] == 0
    most = 2 * ROUNDED if name != "fourier" else 0  # without components there is nothing to round otherwise
    assert abs(long.reward_rate_ - short.reward_rate_) <= most * short.standard_error_
    assert long.standard_error_ == pytest.approx(short.standard_error_, rel=most, abs=0)
    np.testing.assert_allclose(long.influence_, short.influence_, rtol=0, atol=most * np.abs(short.influence_).max())
    streamed = fitted(LONG[name], True, file, "cpu")
    assert (long.reward_rate_, long.standard_error_) == (streamed.reward_rate_, streamed.standard_error_)


def test_an_hour_and_labels_are_among_the_inputs(file: Path) -> None:
    pairs: Any = pairs_of("smooth:15", "force", file)[0]
    assert len(pairs.states) == 2 + 2 + 3 + 1  # numbers, the sine and cosine of the hour, teams and the action
    assert len(pairs.base.splines.inputs) == 2 + 2 + 1


def test_finite_actions_of_a_log_with_continuous_ones(file: Path) -> None:
    """Several actions at each state, with chances."""
    pairs: Any = pairs_of("smooth:15", "force", file)[1]
    chances = np.random.default_rng(3).dirichlet(np.ones(len(pairs.actions)), 500)
    (found,) = on_device(pairs._replace(chances=chances))
    assert by_units(found, mean_in_double(pairs._replace(chances=chances))) < 1e-12
    vectors = np.random.default_rng(4).normal(size=(2, found.shape[1]))
    of_host = pairs._replace(chances=chances).multiplier(vectors)(slice(0, 500), 128)
    assert by_units(of_host.T, found @ vectors.T) < 1e-5


def test_products_that_overflow_are_refused_there_too() -> None:
    sample = np.random.default_rng(0).normal(size=(100, 1)).astype(np.float32)
    for base in (Polynomial(sample, 2), Smooth(sample, 0, 0, most=100)):
        with pytest.raises(
            InputError, match=r"polynomials of degree 2 .* overflow: an input is 1e\+20 standard deviat"
        ):
            on_device(BasePairs(base, np.full((1, 500), 1e20, np.float32)))
    on_device(BasePairs(Linear(sample), np.full((1, 500), 1e20, np.float32)))


def test_networks_stay_with_the_host() -> None:
    rng = np.random.default_rng(0)
    base = HiddenLayer([rng.normal(size=(4, 2))], [rng.normal(size=4)], "tanh")
    pairs = BasePairs(base, rng.normal(size=(2, 500)).astype(np.float32))
    (found,) = on_device(pairs)
    np.testing.assert_array_equal(found, pairs.features(slice(0, 500)))


def test_inputs_are_sent_and_programs_compiled_once(file: Path) -> None:
    """Parameters are arguments: another map of the same kind takes the programs of the first."""
    log = cs.read(file, observation=["place", "speed"], action="force", reward="gain")
    compiled: tuple[Any, ...] = _sums, _influence
    fits, programs = [], []
    for seed in (0, 1):
        estimator = cs.DiffLSTD("fourier:30", device=ON_JAX, random_state=seed, quiet=True)
        fits.append(estimator.fit(log, weak))
        programs.append([one._cache_size() for one in compiled])
    assert fits[0].reward_rate_ != fits[1].reward_rate_
    assert programs[0] == programs[1]
    prepared = fits[0].prepared_
    place = Accelerator(accelerator(ON_JAX), prepared)
    with jax.enable_x64(True):
        rows = place.sent(prepared.encoded_block(next(iter(prepared.data.blocks())).part(slice(0, 900))))
    # 64 tiles of 94 rows.
    assert sum(array.nbytes for array in jax.tree.leaves(rows)) == 6_016 * (2 * 3 * 4 + 2 * 8)


def test_several_blocks_and_a_last_piece_that_is_shorter(device: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150_000, 5))
    data = cs.FeatureTransitions(x, x[:, 0] + rng.normal(size=len(x)), 0.5 * x + rng.normal(size=x.shape))
    here, there = (cs.DiffLSTD(standard_errors="long-run", quiet=True, device=one).fit(data) for one in ("cpu", device))
    assert abs(there.reward_rate_ - here.reward_rate_) < 1e-9 * here.standard_error_
    assert there.standard_error_ == pytest.approx(here.standard_error_, rel=1e-9)


def test_several_blocks_in_features_of_the_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 256)
    monkeypatch.setattr(prepare, "PIECE", 64)
    monkeypatch.setattr(prepare, "PIECE_ROWS", 100)
    double_precision(monkeypatch)
    rng = np.random.default_rng(2)
    states, actions = rng.normal(size=(2_901, 3)), rng.normal(size=2_900)
    log = cs.Transitions(states[:-1], actions, np.tanh(states[1:, 0]) + 0.1 * actions, states[1:])
    here, there = (
        cs.DiffLSTD("smooth:10", standard_errors="independent", quiet=True, device=one).fit(log, half)
        for one in ("cpu", device)
    )
    assert abs(there.reward_rate_ - here.reward_rate_) < SAME * here.standard_error_
    assert there.standard_error_ == pytest.approx(here.standard_error_, rel=1e-9)


def test_one_hot_features_stay_with_numpy(file: Path) -> None:
    labels = cs.Transitions(np.arange(400) % 3, np.arange(400) % 2, np.arange(400) % 5 * 1.0)
    fitted = cs.DiffLSTD(quiet=True, device=ON_JAX).fit(labels, "uniform")
    assert "device" not in fitted.summary_()


@pytest.fixture
def no_gpu() -> None:
    if accelerator("auto") is not None:
        pytest.skip("JAX sees a GPU here")


@pytest.mark.usefixtures("no_gpu")
def test_auto_takes_the_processor_where_there_is_no_gpu() -> None:
    assert accelerator("cpu") is None
    assert accelerator("auto") is None


@pytest.mark.usefixtures("no_gpu")
def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(
        InputError, match=r"device=.gpu. needs a GPU that JAX sees, and it sees none; install .* device=.cpu."
    ):
        cs.DiffLSTD(quiet=True, device="gpu").fit(cs.FeatureTransitions(np.ones((9, 1)), np.ones(9), np.ones((9, 1))))


def test_a_device_of_another_name() -> None:
    data = cs.FeatureTransitions(np.ones((9, 1)), np.ones(9), np.ones((9, 1)))
    with pytest.raises(InputError, match=r"device must be one of auto, cpu, gpu. Got 'tpu'."):
        cs.DiffLSTD(quiet=True, device="tpu").fit(data)


def test_workers_of_a_cluster_have_no_device() -> None:
    pytest.importorskip("ray")
    data = cs.FeatureTransitions(np.ones((9, 1)), np.ones(9), np.ones((9, 1)))
    with pytest.raises(InputError, match=r"device=.gpu. needs engine=.local.: workers of a cluster compute with NumPy"):
        cs.DiffLSTD(quiet=True, device="gpu", engine="ray").fit(data)


def test_who_did_not_ask_for_jax_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no such platform")

    monkeypatch.setattr(jax, "devices", broken)
    assert accelerator("auto") is None
    with pytest.raises(InputError, match="JAX does not start"):
        accelerator("gpu")


def test_precision_is_set_nowhere_else() -> None:
    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
