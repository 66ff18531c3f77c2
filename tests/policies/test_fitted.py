"""Models of scikit-learn: their predictions on a log's columns, and what does not fit."""

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import cesaro as cs
from cesaro.errors import InputError
from cesaro.policies import attach, policy

FRAME = pd.DataFrame({"temperature": [16.0, 18.0, 21.0, 23.0] * 3, "tariff": ["low", "high", "low"] * 4})
ACTION = np.where((FRAME["temperature"] < 20) & (FRAME["tariff"] == "low"), "on", "off")
LOG = cs.read({**FRAME, "action": ACTION, "reward": np.zeros(12)}, observation=list(FRAME))
LONE = cs.read({**FRAME, "action": ACTION, "reward": np.zeros(12)}, observation="temperature")
AMOUNTS = cs.read({**FRAME, "action": np.arange(12.0), "reward": np.zeros(12)}, observation="temperature")
RNG = np.random.default_rng(0)


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
