"""Files of networks as policies: safetensors headers that lie, weights that are none, ONNX models that reach elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save

from .table import Content, Trial, log, rows

LOG = log(state=[f"{row % 5}.5" for row in range(24)], action=[f"{row % 3}.25" for row in range(24)])
META = {"format": "cesaro-actor/1", "activation": "relu", "squash": "tanh", "low": "[-1]", "high": "[1]"}
LAYER = {"layers.0.weight": np.ones((1, 1), np.float32), "layers.0.bias": np.zeros(1, np.float32)}


def actor(name: str, says: str, *, meta: dict[str, str] | None = None, **arrays: Any) -> Trial:
    """An actor of one layer with other metadata or tensors."""
    tensors = LAYER | {f"layers.0.{key}": value for key, value in arrays.items()}
    return Trial(name, {**LOG, "p.safetensors": save(tensors, META | (meta or {}))}, says, policy="p.safetensors")


def header(name: str, says: str, entries: Any, length: int | None = None) -> Trial:
    """A file of tensors whose header says this about itself, and about its own length."""
    content = json.dumps(entries).encode()
    size = (len(content) if length is None else length).to_bytes(8, "little")
    return Trial(name, {**LOG, "p.safetensors": size + content + bytes(8)}, says, policy="p.safetensors")


def model(*, weight: float = 1.0, rows: Any = "n", width: int = 1, outside: str = "") -> Content:
    """An ONNX model of one product; `outside`: the file that its weight claims to be in."""

    def write(path: Path) -> None:
        matrix = numpy_helper.from_array(np.full((width, 1), weight, np.float32), "matrix")
        if outside:
            matrix.ClearField("raw_data")
            matrix.data_location = TensorProto.EXTERNAL
            matrix.external_data.add(key="location", value=outside)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "matrix"], ["action"])],
            "policy",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, width])],
            [helper.make_tensor_value_info("action", TensorProto.FLOAT, [rows, 1])],
            [matrix],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path.write_bytes(made.SerializeToString())

    return write


def network(name: str, says: str, content: Content) -> Trial:
    return Trial(name, {**LOG, "p.onnx": content}, says, policy="p.onnx")


F8 = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
NO_TENSORS = (
    "'p.safetensors' is not a readable safetensors file (Error while deserializing header: {}…); write it again."
)
NO_MODEL = "'p.onnx' is not an ONNX model that can be run ([ONNXRuntimeError] : {}); export it again."
WIDTH = (
    "Policy 'p' takes 3 numbers per observation, and the log has 1; give the log's observation columns that the policy"
)
ACTORS = [
    actor("another format", "format = 'cesaro-actor/1'. Got 'other/1'; write it with", meta={"format": "other/1"}),
    actor(
        "a bound that is nan",
        "must have low as a JSON list of numbers, such as…NaN is not a number in JSON",
        meta={"low": "[NaN]"},
    ),
    actor(
        "a bound that is infinite",
        "must have low as a JSON list of numbers, such as…-1e999 is not a number that a float can hold",
        meta={"low": "[-1e999]"},
    ),
    actor(
        "a bound of 5,000 digits", "must have low as a JSON list of numbers, such as", meta={"low": f"[-1{'0' * 5000}]"}
    ),
    actor(
        "a bound that is a mapping", "low must be a real array of shape [dimension]. Got a dict;", meta={"low": "{}"}
    ),
    actor("bounds in the other order", "must have low < high in every dimension.", meta={"low": "[1]", "high": "[-1]"}),
    actor(
        "another activation", "must have activation relu, tanh, elu, silu, sigmoid. Got", meta={"activation": "exit()"}
    ),
    actor("weights that are nan", "NaN or infinite ones in layer 0.", weight=np.full((1, 1), np.nan, np.float32)),
    actor("weights of another width", WIDTH, weight=np.ones((1, 3), np.float32)),
    actor("weights of half precision", "Got float16 and float32 in layer 0;", weight=np.ones((1, 1), np.float16)),
    actor(
        "a tensor too many", "and no others. Got layers.0.gain beside 1 complete layers.", gain=np.ones(1, np.float32)
    ),
    header("a header beyond the file", NO_TENSORS.format("header too large"), {}, 2**40),
    header("a header of 2⁶⁴ bytes", NO_TENSORS.format("header too large"), {}, 2**64 - 1),
    header("a header that is a list", NO_TENSORS.format("invalid JSON in header"), []),
    header("a tensor beyond the file", NO_TENSORS.format("invalid shape"), {"a": F8 | {"data_offsets": [0, 80]}}),
    header("a tensor that overflows", NO_TENSORS.format("overflow computing"), {"a": F8 | {"shape": [2**32, 2**32]}}),
    header("tensors that overlap", NO_TENSORS.format("invalid offset for tensor"), {"a": F8, "b": F8}),
    header("metadata that are no text", NO_TENSORS.format("invalid JSON"), {"__metadata__": {"format": 3}, "a": F8}),
    Trial("no bytes", {**LOG, "p.safetensors": ""}, NO_TENSORS.format("header too small"), policy="p.safetensors"),
]
MODELS = [
    network(
        "no bytes", NO_MODEL.format("2 : INVALID_ARGUMENT : Load model from p.onnx failed:No graph was found…"), ""
    ),
    network(
        "text",
        NO_MODEL.format("7 : INVALID_PROTOBUF : Load model from p.onnx failed:Protobuf parsing failed."),
        "hello" * 40,
    ),
    network(
        "weights that are nan",
        "Policy 'p' must give finite actions of at most 1e+100 in size. Got nan in dimension 0",
        model(weight=float("nan")),
    ),
    network(
        "one row at a time", "Got a fixed first axis of 1; export the model with a dynamic batch axis.", model(rows=1)
    ),
    network("another width", WIDTH, model(width=3)),
    network(
        "weights in a file that is missing",
        NO_MODEL.format("…External data path does not exist…"),
        model(outside="w.bin"),
    ),
    network(
        "weights in a file of the system", NO_MODEL.format("…Absolute path not allowed…"), model(outside="/etc/passwd")
    ),
    network("weights in a folder above", NO_MODEL.format("…escapes model directory…"), model(outside="../w.bin")),
]


@rows(ACTORS)
def test_actors(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(MODELS)
def test_models(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
