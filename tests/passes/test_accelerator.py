"""Passes on a device of JAX against NumPy's: the same rates, series and answers, on JAX's own processor."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cesaro as cs
from cesaro.devices import accelerator
from cesaro.errors import InputError

ROWS = 6_000
ON_JAX = "jax:cpu"  # JAX on the processor, which nobody asks for


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
        "worth": rng.uniform(0.5, 2.0, rows),
    }


TABLE = table()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table(TABLE), path)
    return path


def weak(observations: Any) -> Any:
    return -0.2 * observations["place"]


def drawn(observations: Any, rng: np.random.Generator) -> Any:
    return -0.2 * observations["place"] + 0.1 * rng.normal(size=len(observations["place"]))


def leaning(observations: Any) -> Any:
    left = 1 / (1 + np.exp(observations["place"]))
    return np.stack([left, 1 - left], axis=1)


SIDES = cs.policies.Finite(["left", "right"], leaning)

CASES: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "continuous": ({"action": "force"}, weak, {"features": "fourier:30"}),
    "drawn": ({"action": "force"}, drawn, {"features": "polynomial:2", "draws": 3}),
    "smooth": ({"action": "force"}, weak, {}),
    "finite": ({"action": "side"}, SIDES, {"features": "fourier:12"}),
    "trajectories": ({"action": "force", "trajectory": "run"}, weak, {"features": "splines"}),
    "weights": ({"action": "force", "weight": "worth"}, weak, {"features": "fourier:30", "ridge": 1e-4}),
    "dual": ({"action": "side", "weight": "worth"}, SIDES, {"features": "linear", "dual_features": "fourier:10"}),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_numpy(name: str, stream: bool, file: Path) -> None:
    roles, policy, settings = CASES[name]
    log = cs.read(file, observation=["place", "speed"], reward="gain", stream=stream, **roles)
    here, there = (
        cs.DiffLSTD(standard_errors="long-run", quiet=True, device=device, **settings).fit(log, policy)
        for device in ("cpu", ON_JAX)
    )
    error = here.standard_error_
    assert abs(there.reward_rate_ - here.reward_rate_) < 1e-9 * error
    assert there.standard_error_ == pytest.approx(error, rel=1e-8)
    assert there.level_ == pytest.approx(here.level_, rel=1e-6, abs=1e-9)
    assert "device" not in here.summary_()
    assert there.summary_()["device"] == "cpu, double precision"
    if not stream:
        np.testing.assert_allclose(there.influence_, here.influence_, rtol=0, atol=1e-8 * np.abs(here.influence_).max())
    assert [one.verdict for one in there.diagnostics_] == [one.verdict for one in here.diagnostics_]


def test_several_blocks_and_a_last_piece_that_is_shorter() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(150_000, 5))
    data = cs.FeatureTransitions(x, x[:, 0] + rng.normal(size=len(x)), 0.5 * x + rng.normal(size=x.shape))
    here, there = (
        cs.DiffLSTD(standard_errors="long-run", quiet=True, device=device).fit(data) for device in ("cpu", ON_JAX)
    )
    assert abs(there.reward_rate_ - here.reward_rate_) < 1e-9 * here.standard_error_
    assert there.standard_error_ == pytest.approx(here.standard_error_, rel=1e-9)


def test_one_hot_features_stay_with_numpy(file: Path) -> None:
    labels = cs.Transitions(np.arange(400) % 3, np.arange(400) % 2, np.arange(400) % 5 * 1.0)
    fitted = cs.DiffLSTD(quiet=True, device=ON_JAX).fit(labels, "uniform")
    assert "device" not in fitted.summary_()


def test_auto_takes_the_processor_where_there_is_no_gpu() -> None:
    assert accelerator("cpu") is None
    assert accelerator("auto") is None


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(
        InputError, match=r"device=.gpu. needs a GPU that JAX sees, and it sees none; install .* device=.cpu."
    ):
        cs.DiffLSTD(quiet=True, device="gpu").fit(cs.FeatureTransitions(np.ones((9, 1)), np.ones(9), np.ones((9, 1))))


def test_a_device_of_another_name() -> None:
    data = cs.FeatureTransitions(np.ones((9, 1)), np.ones(9), np.ones((9, 1)))
    with pytest.raises(InputError, match=r"device must be one of auto, cpu, gpu. Got 'tpu'."):
        cs.DiffLSTD(quiet=True, device="tpu").fit(data)
    with pytest.raises(InputError, match=r"device=.gpu. needs engine=.local.: workers of a cluster compute with NumPy"):
        cs.DiffLSTD(quiet=True, device="gpu", engine="ray").fit(data)


def test_who_did_not_ask_for_jax_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    def broken() -> None:
        raise RuntimeError("no such platform")

    monkeypatch.setattr(jax, "devices", broken)
    assert accelerator("auto") is None
    with pytest.raises(InputError, match="JAX does not start"):
        accelerator("gpu")


def test_precision_is_set_nowhere_else() -> None:
    import jax

    assert not jax.config.jax_enable_x64  # type: ignore[attr-defined]
