"""Actors in safetensors: their forward pass, what the file holds, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save_file

from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.policies import attach, policy, save_actor
from cesaro.policies.actor import ACTIVATIONS

RNG = np.random.default_rng(0)
CONTINUOUS = Transitions(RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2)), np.zeros(5), RNG.normal(size=(5, 3)))
DISCRETE = Transitions(RNG.normal(size=(5, 3)), [0, 1, 1, 0, 1], np.zeros(5), RNG.normal(size=(5, 3)))
TEXT = Transitions(RNG.normal(size=(5, 3)), ["go", "stop", "go", "go", "go"], np.zeros(5), RNG.normal(size=(5, 3)))


def network(dtype: Any = np.float32, sizes: tuple[int, ...] = (3, 4, 2)) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "weights": [rng.normal(size=(out, into)).astype(dtype) for into, out in pairwise(sizes)],
        "biases": [rng.normal(size=out).astype(dtype) for out in sizes[1:]],
    }


def forward(layers: dict[str, Any], x: NDArray[Any], activation: str) -> NDArray[Any]:
    """One row and one unit at a time, in float64."""
    functions: dict[str, Any] = {
        "relu": lambda z: max(z, 0.0),
        "tanh": np.tanh,
        "elu": lambda z: z if z > 0 else np.exp(z) - 1,
        "silu": lambda z: z / (1 + np.exp(-z)),
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    }
    rows = []
    for row in x:
        values = [float(v) for v in row]
        for number, (weight, bias) in enumerate(zip(layers["weights"], layers["biases"])):
            values = [sum(float(w) * v for w, v in zip(unit, values)) + float(b) for unit, b in zip(weight, bias)]
            if number < len(layers["weights"]) - 1:
                values = [float(functions[activation](v)) for v in values]
        rows.append(values)
    return np.array(rows)


# Actors


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("squash", ["tanh", "clip", "none"])
def test_forward_pass(tmp_path: Path, activation: str, squash: str, dtype: Any) -> None:
    layers = network(dtype, (3, 4, 5, 2))
    low, high = np.array([-1.0, 0.5]), np.array([2.0, 0.75])
    bounds = (None, None) if squash == "none" else (low, high)
    path = tmp_path / "actor.safetensors"
    save_actor(path, **layers, activation=activation, squash=squash, low=bounds[0], high=bounds[1])
    x = RNG.normal(size=(7, 3)).astype(dtype)
    expected = forward(layers, x, activation)
    if squash == "tanh":
        expected = low + (high - low) * (np.tanh(expected) + 1) / 2
    elif squash == "clip":
        expected = np.minimum(np.maximum(expected, low), high)
    attached = attach(path, CONTINUOUS)
    found = attached.sample(x, RNG)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 if dtype is np.float32 else 1e-12)
    assert found.shape == (7, 2)
    assert attached.name == "actor"
    assert attached.deterministic


def test_long_blocks_and_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    save_actor(path, **network(np.float64), activation="tanh", squash="none", low=None, high=None)
    made = policy(path)
    x = RNG.normal(size=(20_000, 3))
    np.testing.assert_allclose(made.sample(x, RNG)[-5:], made.sample(x[-5:], RNG), rtol=1e-12)
    assert attach(made, CONTINUOUS).sample(np.empty((0, 3)), RNG).shape == (0, 2)


def test_file_holds_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    path.write_bytes(b"old")
    save_actor(
        path, **network(), activation="relu", squash="tanh", low=[-1, -2], high=[1, 2], metadata={"made": "for a test"}
    )
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        assert file.metadata() == {
            "format": "cesaro-actor/1",
            "activation": "relu",
            "squash": "tanh",
            "low": "[-1.0, -2.0]",
            "high": "[1.0, 2.0]",
            "made": "for a test",
        }
        assert sorted(file.keys()) == ["layers.0.bias", "layers.0.weight", "layers.1.bias", "layers.1.weight"]
        assert file.get_tensor("layers.0.weight").shape == (4, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["actor.safetensors"]


def test_observations_of_other_forms(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    save_actor(path, **network(np.float64), activation="tanh", squash="none", low=None, high=None)
    made = policy(path)
    x = RNG.normal(size=(4, 3))
    columns = {"load": x[:, 0], "hour": x[:, 1], "price": x[:, 2]}
    np.testing.assert_array_equal(made.sample(columns, RNG), made.sample(x, RNG))
    with pytest.raises(InputError, match="takes 3 numbers per observation, and the log has 2"):
        made.sample(x[:, :2], RNG)
    with pytest.raises(InputError, match="takes numbers only, and the log's column 'region' holds text"):
        made.sample({"load": x[:, 0], "hour": x[:, 1], "region": np.array(["n"] * 4)}, RNG)
    save_actor(path, **network(np.float64, (1, 2)), activation="tanh", squash="none", low=None, high=None)
    assert policy(path).sample(np.array([1, 2]), RNG).shape == (2, 2)


def test_actor_on_a_discrete_log(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    save_actor(path, **network(), activation="tanh", squash="none", low=None, high=None)
    with pytest.raises(InputError, match="an actor file gives continuous actions only"):
        attach(path, DISCRETE).probabilities(np.zeros((2, 3)))


def test_weights_that_overflow(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    layers = network()
    layers["weights"][0] *= np.float32(1e38)
    save_actor(path, **layers, activation="relu", squash="none", low=None, high=None)
    with pytest.raises(InputError, match="finite actions"):
        attach(path, CONTINUOUS).sample(np.full((1, 3), 1e30), RNG)


def metadata(**changes: str | None) -> dict[str, str]:
    entries = {"format": "cesaro-actor/1", "activation": "relu", "squash": "tanh", "low": "[-1, -1]", "high": "[1, 1]"}
    return {key: value for key, value in {**entries, **changes}.items() if value is not None}


def tensors(**changes: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    layers = network()
    entries = {
        "layers.0.weight": layers["weights"][0],
        "layers.0.bias": layers["biases"][0],
        "layers.1.weight": layers["weights"][1],
        "layers.1.bias": layers["biases"][1],
    }
    changed = {key.replace("_", "."): value for key, value in changes.items()}
    return {key: value for key, value in {**entries, **changed}.items() if value is not None}


F32 = np.float32


@pytest.mark.parametrize(
    ("entries", "arrays", "words"),
    [
        (metadata(format=None), tensors(), "format = 'cesaro-actor/1'. Got None; write it with"),
        (metadata(format="cesaro-actor/2"), tensors(), "Got 'cesaro-actor/2'"),
        (metadata(activation="swoosh"), tensors(), "must have activation relu, tanh, elu, silu, sigmoid. Got 'swoosh'"),
        (metadata(activation=None), tensors(), "must have activation"),
        (metadata(squash="sigmoid"), tensors(), "must have squash tanh, clip, none. Got 'sigmoid'"),
        (metadata(low="[-1]"), tensors(), r"low must have shape \[dimension=2\]\. Got \(1,\)"),
        (metadata(low="[-1, NaN]"), tensors(), r"such as .*\(NaN is not a number in JSON\)"),
        (metadata(low="[" * 100_000), tensors(), r"such as .*\(nested more than 100 levels deep\)"),
        (metadata(low="-1, -1"), tensors(), "low as a JSON list of numbers, .*Got '-1, -1'"),
        (metadata(low='["a", "b"]'), tensors(), "low must be a real array"),
        (metadata(low="[1, -1]"), tensors(), "low < high"),
        (metadata(low=None), tensors(), "both low and high"),
        (metadata(low=None, high=None), tensors(), "both low and high"),
        (metadata(), tensors(layers_0_bias=None), "must hold the tensors layers.0.weight"),
        (metadata(), tensors(extra=np.zeros(2, F32)), "Got extra beside 2 complete layers"),
        (metadata(), {}, "Got none beside 0 complete layers"),
        (
            metadata(),
            tensors(layers_1_weight=np.zeros((2, 5), F32)),
            r"fit together\. Got \(2, 5\) .* layer 1, after 4",
        ),
        (metadata(), tensors(layers_1_bias=np.zeros(3, F32)), "fit together"),
        (metadata(), tensors(layers_0_weight=np.full((4, 3), np.nan, F32)), "NaN or infinite ones in layer 0"),
        (metadata(), tensors(layers_1_bias=np.zeros(2, np.int32)), "Got float32 and int32 in layer 1"),
        (metadata(), tensors(layers_1_weight=np.zeros((2, 4)), layers_1_bias=np.zeros(2)), "float64 .* in layer 1"),
    ],
)
def test_broken_actors(entries: dict[str, str], arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    save_file(arrays, path, metadata=entries)
    with pytest.raises(InputError, match=words) as caught:
        policy(path)
    assert "actor.safetensors'" in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    for name in ("any.safetensors", "any.onnx"):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=name) as caught:
            policy(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": []}, "one entry per layer"),
        ({"activation": "swish"}, "The actor must have activation"),
        ({"high": None}, "both low and high"),
        ({"weights": [np.zeros((2, 3), int)], "biases": [np.zeros(2, int)]}, "float32 or float64"),
        ({"metadata": {"steps": 3}}, "metadata must map text to text"),
        ({"path": "actor.bin"}, "must end in .safetensors"),
        ({"path": "no/such/folder/actor.safetensors"}, "cannot be written"),
    ],
)
def test_actors_that_are_not_saved(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    bounds = {"low": [-1, -1], "high": [1, 1]}
    arguments = {"path": "actor.safetensors", **network(), "activation": "relu", "squash": "tanh", **bounds, **changes}
    with pytest.raises(InputError, match=words):
        save_actor(**{**arguments, "path": tmp_path / arguments["path"]})
    assert list(tmp_path.iterdir()) == []


def test_json_of_bounds_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "actor.safetensors"
    low = [-1 / 3, -1e-300]
    save_actor(path, **network(), activation="relu", squash="clip", low=low, high=[1, 1])
    made = policy(path)
    assert made.low is not None
    assert made.low.tolist() == json.loads(json.dumps(low))
