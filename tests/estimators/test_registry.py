"""Claims of the registry about each method, against its estimator."""

import pytest

import cesaro as cs
from cesaro.errors import InputError
from cesaro.estimators import registry
from cesaro.estimators.base import Estimator

LOG = cs.Transitions([0, 1, 1, 0, 0, 1] * 40, [0, 1, 0, 1, 1, 0] * 40, [0.0, 1.0, 1.0, 0.0, 0.5, 1.0] * 40)


def test_estimators_are_of_the_kind_that_is_said() -> None:
    for method in registry.METHODS.values():
        made = method.estimator(quiet=True)
        assert isinstance(made, Estimator)
        assert made.kind == method.kind
        assert {"features", "random_state", "quiet"} <= {*method.parameters}
        assert all(getattr(made, name) == value for name, value in method.settings.items())


@pytest.mark.parametrize("name", ["auto", "world"])
def test_intervals_and_values_are_there(name: str) -> None:
    method = registry.METHODS[name]
    fitted = method.estimator(quiet=True).fit(LOG, "uniform")
    low, high = fitted.interval()
    assert (low < fitted.reward_rate_ < high) == method.has_interval
    assert (len(fitted.predict([0, 1], [1, 0])) == 2) == method.has_values


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"method must be one of auto, diff-lstd.*world, or file\.py:name\. Got 'nothing'"
    ):
        registry.method("nothing")
