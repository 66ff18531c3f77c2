"""Models fitted by scikit-learn, or by what builds on it: a classifier's labels or a regressor's numbers are the actions."""

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cesaro import user_code
from cesaro.errors import InputError
from cesaro.policies import labels, observed
from cesaro.policies.base import LogInfo, Policy
from cesaro.policies.observed import Observations
from cesaro.text import GIVE, Sentence, Wording, argument


class FittedModel(Policy):
    """A policy by `model.predict`: the model without randomness, as it would be put to use.

    A model that was fitted on a data frame gets the log's columns of the same names, and ignores the others. One that was
    fitted on an array gets all observation columns, in the log's order.
    """

    deterministic = True

    def __init__(self, model: Any, *, name: str) -> None:
        self.name, self._model = name, model
        self._check_fitted()
        self._names = [str(column) for column in getattr(model, "feature_names_in_", ())]
        self._width: int | None = getattr(model, "n_features_in_", None)
        self._classes = getattr(model, "classes_", None)

    def bind(self, log: LogInfo) -> Policy:
        has_names = len(log.names) == len(log.columns) > 0  # else they are the entries of a column of vectors
        missing = [column for column in self._names if column not in log.columns]
        if missing and has_names:
            raise InputError(
                Sentence(
                    "{who} was fitted on the columns {names}, and the policy sees {seen} of the log {log}. Got no {column}; "
                    "{give} {observation} as well, or rename the log's column.",
                    who=self._who,
                    names=", ".join(map(repr, self._names)),
                    seen=", ".join(map(repr, log.columns)),
                    log=log.name,
                    column=repr(missing[0]),
                    give=GIVE,
                    observation=argument("observation", missing[0]),
                )
            )
        if log.actions is None:
            return self
        bound = copy.copy(self)
        if self._classes is None:
            column = log.action_columns[0] if log.action_columns else "action"
            bound._unknown_remedy = Sentence(
                "it gives numbers: if the log's actions are amounts, read them with {kind}, else round to a label in a function",
                kind=Wording(f"kinds={{{column!r}: 'number'}}", f"--kind {column}=number"),
            )
        elif np.ndim(self._classes) == 1 and (labels.Index(log.actions).codes(np.asarray(self._classes)) < 0).all():
            raise InputError(
                f"{self._who} knows the classes {labels.show(self._classes)} ({labels.kind(self._classes)}), and the log "
                f"{log.name} has the actions {labels.show(log.actions)} ({labels.kind(log.actions)}): none is the same; fit the "
                "model on the log's labels, or write a function that translates what it predicts."
            )
        else:
            bound._unknown_remedy = (
                "the log cannot tell what follows an action that it never shows, so fit the model without it"
            )
        return bound

    def sample(self, observations: Observations, rng: np.random.Generator) -> NDArray[Any]:
        chosen: NDArray[Any] = self._called(observations, self._predict)
        return chosen

    def _predict(self, observations: Observations) -> NDArray[Any]:
        return labels.array(self._model.predict(self._inputs(observations)))

    def _inputs(self, observations: Observations) -> Any:
        seen = observed.columns(observations)
        if set(self._names) <= set(seen) and self._names:
            return observed.frame({column: seen[column] for column in self._names})
        if self._width is not None and len(seen) != self._width:
            raise InputError(
                f"{self._who} takes {self._width} columns, and the policy sees {len(seen)}: {', '.join(map(repr, seen))}; give "
                "the observation columns that the model was fitted on."
            )
        if self._names:  # a vector whose entries have no names
            return observed.frame(dict(zip(self._names, seen.values())))
        are_numbers = all(column.dtype.kind in "biuf" for column in seen.values())
        return np.column_stack([np.asarray(part, dtype=None if are_numbers else object) for part in seen.values()])

    def _check_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        if not hasattr(self._model, "predict"):
            raise InputError(
                f"{self._who} must be a model that predicts actions. Got a {user_code.type_name(self._model)} without predict; "
                "put a classifier or a regressor behind it in a Pipeline."
            )
        user_code.call(
            lambda error: f"{self._who} must be fitted before it can act. Got {error}; call fit on it first.",
            check_is_fitted,
            self._model,
        )


def is_model(x: Any) -> bool:
    """Whether this is an object of scikit-learn, which is loaded then."""
    base = sys.modules.get("sklearn.base")
    return base is not None and isinstance(x, base.BaseEstimator)


def load(path: Path, *, trust: bool) -> Any:
    """Load a joblib or pickle file; only with trust, because loading it runs code."""
    if not trust:
        raise InputError(
            f"'{path}' is a pickled object, and loading it runs the code inside; if you trust who made it, pass trust=True "
            "(--trust on the command line), else export the model to ONNX."
        )
    import joblib

    return user_code.call(
        lambda error: (
            f"'{path}' cannot be loaded ({error}); save the model again, with joblib.dump and the installed versions."
        ),
        joblib.load,
        path,
    )
