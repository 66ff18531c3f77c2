"""What a world is asked about a target, at the same time, and whose refusal is said."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from cesaro.errors import InputError, StartError
from cesaro.worlds import estimator


def test_that_a_rate_depends_on_the_start_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out rows refuse at once, and rollouts only after them."""
    refused = threading.Event()

    def residual(*_: Any) -> Any:
        refused.set()
        raise InputError("Held-out rows say nothing.")

    def rate(policy: Any) -> Any:
        if policy == "logged":
            return None
        assert refused.wait(10)
        raise StartError("The rate must not depend on the start.", 0.5)

    monkeypatch.setattr(estimator, "residual", residual)
    monkeypatch.setattr(estimator, "_check_actions", lambda *_: None)
    world: Any = SimpleNamespace(process_=None, log_=None, rate=rate)
    target: Any = "target"
    with pytest.raises(StartError, match="depend on the start"):
        estimator.ask_world(world, target, 0, quiet=True)


def test_what_held_out_rows_refuse_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def residual(*_: Any) -> Any:
        raise InputError("Held-out rows say nothing.")

    monkeypatch.setattr(estimator, "residual", residual)
    monkeypatch.setattr(estimator, "_check_actions", lambda *_: None)
    world: Any = SimpleNamespace(process_=None, log_=None, rate=lambda _: None)
    target: Any = "target"
    with pytest.raises(InputError, match="Held-out rows say nothing"):
        estimator.ask_world(world, target, 0, quiet=True)
