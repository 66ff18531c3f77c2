"""Models of other libraries: what they predict on a log's columns, and what does not fit."""

import pickle
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pandas as pd
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import cesaro as cs
from cesaro.data import Transitions
from cesaro.errors import InputError
from cesaro.policies import attach, policy

RNG = np.random.default_rng(0)
CONTINUOUS = Transitions(RNG.normal(size=(5, 3)), RNG.normal(size=(5, 2)), np.zeros(5), RNG.normal(size=(5, 3)))
DISCRETE = Transitions(RNG.normal(size=(5, 3)), [0, 1, 1, 0, 1], np.zeros(5), RNG.normal(size=(5, 3)))
TEXT = Transitions(RNG.normal(size=(5, 3)), ["go", "stop", "go", "go", "go"], np.zeros(5), RNG.normal(size=(5, 3)))


# ONNX


def model(
    path: Path,
    output: str,
    *,
    kind: int = TensorProto.FLOAT,
    operator: str | None = None,
    rows: Any = "n",
    width: Any = 2,
    actions: str | None = None,
    inputs: int = 1,
) -> NDArray[Any]:
    """One linear layer (its matrix is returned), then `operator`, with one output of that name."""
    matrix = np.arange(6, dtype=np.float32).reshape(3, 2) / 3 - 0.9
    nodes = [helper.make_node("MatMul", ["x", "matrix"], ["linear"])]
    if operator == "ArgMax":
        nodes.append(helper.make_node("ArgMax", ["linear"], [output], axis=1, keepdims=int(width == 1)))
    else:
        nodes.append(helper.make_node(operator or "Identity", ["linear"], [output]))
    shape = [rows] if width is None else [rows, width]
    made_of = helper.make_graph(
        nodes,
        "policy",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3])
            for name in ("x", *(f"x{i}" for i in range(1, inputs)))
        ],
        [helper.make_tensor_value_info(output, kind, shape)],
        [numpy_helper.from_array(matrix, "matrix")],
    )
    made = helper.make_model(made_of, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if actions is not None:
        helper.set_model_props(made, {"actions": actions})
    onnx.save(made, path)
    return matrix


X = RNG.normal(size=(6, 3))


def probabilities(path: Path, data: Transitions) -> NDArray[Any]:
    found = attach(path, data).probabilities(X)
    assert found is not None
    return found


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)


def test_onnx_continuous(tmp_path: Path) -> None:
    for name in ("anything", "action"):
        matrix = model(tmp_path / "model.onnx", name, operator="Tanh")
        attached = attach(tmp_path / "model.onnx", CONTINUOUS)
        np.testing.assert_allclose(attached.sample(X, RNG), np.tanh(X @ matrix), atol=1e-6)
        assert attached.name == "model"
        assert attached.probabilities(X) is None
    with pytest.raises(InputError, match="call the output probabilities or logits, or let it give whole numbers"):
        attach(tmp_path / "model.onnx", DISCRETE).probabilities(X)


@pytest.mark.parametrize(("name", "operator"), [("probabilities", "Softmax"), ("logits", None)])
def test_onnx_probabilities(name: str, operator: str | None, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    matrix = model(path, name, operator=operator)
    np.testing.assert_allclose(probabilities(path, DISCRETE), softmax(X @ matrix), atol=1e-6)
    model(path, name, operator=operator, actions='["stop", "go"]', width="k")
    np.testing.assert_allclose(probabilities(path, TEXT), softmax(X @ matrix)[:, ::-1], atol=1e-6)
    with pytest.raises(InputError, match="never by position"):
        attach(path, DISCRETE)


@pytest.mark.parametrize("width", [None, 1])
def test_onnx_labels(width: int | None, tmp_path: Path) -> None:
    matrix = model(tmp_path / "model.onnx", "label", operator="ArgMax", kind=TensorProto.INT64, width=width)
    attached = attach(str(tmp_path / "model.onnx"), DISCRETE)
    np.testing.assert_array_equal(attached.probabilities(X), np.eye(2)[np.argmax(X @ matrix, axis=1)])


def test_onnx_probabilities_that_are_none(tmp_path: Path) -> None:
    model(tmp_path / "model.onnx", "probabilities")
    with pytest.raises(InputError, match="'model' must give probabilities"):
        attach(tmp_path / "model.onnx", DISCRETE).probabilities(X)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": 2}, r"one float input of shape \[n, d\], or one .* Got x tensor\(float\) \['n', 3\], x1 "),
        ({"rows": 4}, "a fixed first axis of 4; export the model with a dynamic batch axis"),
        ({"output": "logits", "actions": "[0, 1, 2]"}, r"a JSON list of the labels\. Got '\[0, 1, 2\]'"),
        ({"output": "logits", "actions": "go, stop"}, "Got 'go, stop'"),
        ({"output": "logits", "actions": "[0, 0]"}, "Got 0 twice"),
        ({"output": "logits", "actions": "[" * 100_000}, "nested more than 100 levels deep"),
        ({"output": "logits", "actions": "[" * 9_000 + "]" * 9_000}, "nested more than 100 levels deep"),
    ],
)
def test_onnx_that_is_unclear(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    model(tmp_path / "model.onnx", **{"output": "out", **options})
    with pytest.raises(InputError, match=words) as caught:
        policy(tmp_path / "model.onnx")
    assert "model.onnx'" in str(caught.value)


def graph(path: Path, operators: dict[str, str], width: Any) -> None:
    """Outputs that are operators of the input."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in ("x", *operators)]
    nodes = [helper.make_node(operator, ["x"], [name]) for name, operator in operators.items()]
    made = helper.make_graph(nodes, "policy", values[:1], values[1:])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_onnx_with_more_actions_than_anyone_has(tmp_path: Path) -> None:
    graph(tmp_path / "model.onnx", {"logits": "Identity"}, 10**12)
    with pytest.raises(InputError, match=r"at most 1,000,000: add the metadata entry actions.* Got None"):
        policy(tmp_path / "model.onnx")


def test_onnx_with_several_outputs(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    graph(path, {"value": "Neg", "logits": "Identity"}, 3)
    np.testing.assert_allclose(policy(path).probabilities(X), softmax(X), atol=1e-6)
    graph(path, {"value": "Neg", "other": "Identity"}, 3)
    with pytest.raises(InputError, match="must have one output, or one called probabilities"):
        policy(path)


def test_onnx_with_an_unknown_number_of_actions(tmp_path: Path) -> None:
    graph(tmp_path / "model.onnx", {"logits": "Identity"}, "d")
    with pytest.raises(InputError, match=r"which actions its output 'logits' of shape \['n', 'd'\]"):
        policy(tmp_path / "model.onnx")


def test_onnx_with_external_data(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    matrix = model(path, "out")
    onnx.save_model(
        onnx.load(path),
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
        convert_attribute=False,
    )
    np.testing.assert_allclose(policy(path).sample(X, RNG), X @ matrix, atol=1e-6)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"model\.onnx' is not an ONNX model that can be run \(.*\); export it again"):
        policy(path)


def test_onnx_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "d"]) for name in ("x", "out")]
    matrix = numpy_helper.from_array(np.zeros((3, 2), np.float32), "matrix")
    product = helper.make_node("MatMul", ["x", "matrix"], ["out"])
    made = helper.make_graph([product], "policy", values[:1], values[1:], [matrix])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert policy(path).sample(X, RNG).shape == (6, 2)
    with pytest.raises(InputError, match=r"model\.onnx' failed on observations of shape \(6, 2\)"):
        policy(path).sample(X[:, :2], RNG)
    graph(path, {"out": "ReduceMean"}, "d")
    with pytest.raises(InputError, match=r"one action per observation\. Got shape"):
        policy(path).sample(X, RNG)


def test_onnxruntime_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "model.onnx", "out")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'cesaro\[onnx\]'"):
        policy(tmp_path / "model.onnx")


# Classifiers as skl2onnx writes them


def classifier(path: Path, *, zipmap: bool, actions: str | None = None) -> NDArray[Any]:
    """A linear classifier of "go" and "stop" with the nodes and names of skl2onnx; its scores are returned as a matrix."""
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3) / 3 - 0.9
    label, scores = ("output_label", "scores") if zipmap else ("label", "probabilities")
    made_of: dict[str, Any] = {
        "classlabels_strings": ["go", "stop"],
        "coefficients": matrix.ravel().tolist(),
        "intercepts": [0.0, 0.0],
    }
    nodes = [
        helper.make_node(
            "LinearClassifier", ["X"], [label, scores], domain="ai.onnx.ml", post_transform="SOFTMAX", **made_of
        )
    ]
    outputs = [helper.make_tensor_value_info(label, TensorProto.STRING, [None])]
    if zipmap:
        nodes.append(
            helper.make_node(
                "ZipMap", [scores], ["output_probability"], domain="ai.onnx.ml", classlabels_strings=["go", "stop"]
            )
        )
        entry = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
        outputs.append(helper.make_value_info("output_probability", helper.make_sequence_type_proto(entry)))
    else:
        outputs.append(helper.make_tensor_value_info(scores, TensorProto.FLOAT, [None, 2]))
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 3])]
    graph = helper.make_graph(nodes, "classifier", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if actions is not None:
        helper.set_model_props(made, {"actions": actions})
    onnx.save(made, path)
    return matrix


def test_onnx_classifiers_act_by_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    matrix = classifier(path, zipmap=True)
    np.testing.assert_array_equal(probabilities(path, TEXT), np.eye(2)[np.argmax(X @ matrix.T, axis=1)])
    classifier(path, zipmap=False)
    with pytest.warns(
        cs.EvaluationWarning, match=r"gives labels \(label\) and probabilities: the policy takes its labels"
    ):
        np.testing.assert_array_equal(probabilities(path, TEXT), np.eye(2)[np.argmax(X @ matrix.T, axis=1)])
    classifier(path, zipmap=False, actions='["go", "stop"]')
    np.testing.assert_allclose(probabilities(path, TEXT), softmax(X @ matrix.T), atol=1e-6)


def test_onnx_with_an_input_per_column(tmp_path: Path) -> None:
    """Text to text, beside a number that is not used: the inputs have the names of columns, as pipelines on frames have."""
    node = helper.make_node(
        "LabelEncoder",
        ["tariff"],
        ["output_label"],
        domain="ai.onnx.ml",
        keys_strings=["low", "high"],
        values_strings=["go", "stop"],
    )
    inputs = [
        helper.make_tensor_value_info("temperature", TensorProto.FLOAT, [None, 1]),
        helper.make_tensor_value_info("tariff", TensorProto.STRING, [None, 1]),
    ]
    outputs = [helper.make_tensor_value_info("output_label", TensorProto.STRING, [None, 1])]
    graph = helper.make_graph([node], "encoder", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "model.onnx")
    seen = {"tariff": np.array(["low", "high", "low"], dtype=object), "temperature": np.array([1.0, 2.0, 3.0])}
    log = Transitions(seen, ["go", "stop", "go"], np.zeros(3))
    assert attach(tmp_path / "model.onnx", log).sample(seen, RNG).tolist() == [0, 1, 0]
    without = {"tariff": seen["tariff"], "x": seen["temperature"]}
    with pytest.raises(
        InputError, match="Got no 'temperature' among those that the policy sees, 'tariff', 'x'; give it"
    ):
        attach(tmp_path / "model.onnx", Transitions(without, ["go", "stop", "go"], np.zeros(3))).sample(without, RNG)


# scikit-learn


FRAME = pd.DataFrame({"temperature": [16.0, 18.0, 21.0, 23.0] * 3, "tariff": ["low", "high", "low"] * 4})
ACTION = np.where((FRAME["temperature"] < 20) & (FRAME["tariff"] == "low"), "on", "off")
LOG = cs.read({**FRAME, "action": ACTION, "reward": np.zeros(12)}, observation=list(FRAME))
LONE = cs.read({**FRAME, "action": ACTION, "reward": np.zeros(12)}, observation="temperature")
AMOUNTS = cs.read({**FRAME, "action": np.arange(12.0), "reward": np.zeros(12)}, observation="temperature")


def pipeline() -> Any:
    columns = make_column_transformer((OneHotEncoder(), ["tariff"]), remainder="passthrough")
    return make_pipeline(columns, DecisionTreeClassifier(random_state=0)).fit(FRAME[["tariff", "temperature"]], ACTION)


def seen(log: cs.Log) -> Any:
    return next(iter(log.blocks())).observations.plain()


def labels(attached: Any, log: cs.Log) -> list[str]:
    levels = log.action_levels
    assert levels is not None
    return list(levels[attached.sample(seen(log), RNG)])


def test_a_classifier_gets_its_columns_by_name() -> None:
    attached = attach(pipeline(), LOG)
    assert labels(attached, LOG) == ACTION[:-1].tolist()
    assert attached.deterministic
    assert attached.name == "Pipeline"
    again = pickle.loads(pickle.dumps(attached.policy))
    assert again.sample(seen(LOG), RNG).tolist() == ACTION[:-1].tolist()


def test_one_column_with_and_without_its_name() -> None:
    wanted = np.where(FRAME["temperature"] < 17, "on", "off")
    by_name = DecisionTreeClassifier().fit(FRAME[["temperature"]], wanted)
    by_place = DecisionTreeClassifier().fit(FRAME[["temperature"]].to_numpy(), wanted)
    for model in (by_name, by_place):
        assert labels(attach(model, LONE), LONE) == wanted[:-1].tolist()


def test_names_that_differ_are_never_taken_by_their_place() -> None:
    model = DecisionTreeClassifier().fit(FRAME.assign(tariff=1.0), ACTION)
    other = cs.Transitions({"tariff": np.ones(12), "temp": FRAME["temperature"]}, ACTION, np.zeros(12))
    with pytest.raises(InputError, match=r"Got no 'temperature'; .* or rename the log's column"):
        attach(model, other)
    vectors = cs.Transitions(FRAME.assign(tariff=1.0).to_numpy(), ACTION, np.zeros(12))  # entries without names
    assert labels(attach(model, vectors), vectors) == model.predict(FRAME.assign(tariff=1.0))[:-1].tolist()


def test_a_regressor_gives_amounts() -> None:
    model = LinearRegression().fit(FRAME[["temperature"]], 2 * FRAME["temperature"] + 1)
    found = attach(model, AMOUNTS).sample(seen(AMOUNTS), RNG)
    assert found[:, 0] == pytest.approx(2 * seen(AMOUNTS) + 1)


def test_joblib_files_need_trust(tmp_path: Path) -> None:
    for name in ("heat.joblib", "heat.pkl"):
        joblib.dump(pipeline(), tmp_path / name)
        with pytest.raises(InputError, match=r"loading it runs the code inside; .* trust=True \(--trust"):
            policy(tmp_path / name)
        attached = attach(policy(tmp_path / name, trust=True), LOG)
        assert (attached.name, labels(attached, LOG)) == ("heat", ACTION[:-1].tolist())
    (tmp_path / "heat.joblib").write_bytes(b"no pickle")
    with pytest.raises(InputError, match=r"heat\.joblib' cannot be loaded \("):
        policy(tmp_path / "heat.joblib", trust=True)


class Own:
    def predict(self, observations: Any) -> Any:
        return observations


@pytest.mark.parametrize(
    ("model", "log", "words"),
    [
        (DecisionTreeClassifier(), LOG, "'DecisionTreeClassifier' must be fitted before it can act. Got NotFittedError"),
        (DecisionTreeClassifier, LOG, "must be fitted before it can act"),
        (StandardScaler().fit(FRAME[["temperature"]]), LOG, "Got a StandardScaler without predict; put a classifier"),
        (Own(), LOG, "Got a Own with predict, which is not a scikit-learn model; pass a function that calls it"),
        (pipeline(), LONE, r"was fitted on the columns 'tariff', 'temperature'.* Got no 'tariff'; pass observation=\"tariff\""),
        (
            DecisionTreeClassifier().fit(np.zeros((12, 3)), ACTION),
            LOG,
            "takes 3 columns, and the policy sees 2: 'temperature', 'tariff'; give the observation columns",
        ),
        (
            DecisionTreeClassifier().fit(FRAME[["temperature"]], ACTION == "on"),
            LONE,
            r"knows the classes False, True \(truth values\), and the log arrays has the actions 'off', 'on' \(text\)",
        ),
        (
            DecisionTreeClassifier().fit(FRAME[["temperature"]], np.where(FRAME["temperature"] < 17, "boost", "on")),
            LONE,
            r"chooses the action 'boost' at the observation 16\.0, and the log arrays holds only 'off', 'on'; the log cannot",
        ),
        (
            LinearRegression().fit(FRAME[["temperature"]], FRAME["temperature"]),
            LONE,
            r"it gives numbers: if the log's actions are amounts, read them with kinds=\{'action': 'number'\}",
        ),
        (
            make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(FRAME[["tariff"]].replace("high", "low"), ACTION),
            LOG,
            "failed with ValueError: Found unknown categories",
        ),
    ],
)  # fmt: skip
def test_models_that_do_not_fit(model: Any, log: cs.Log, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        attach(model, log).sample(seen(log), RNG)
    assert "\n" not in str(caught.value)
