"""Users' code is called in one place: what it raises, where it leaves the process, and objectives and environments among it."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cesaro as cs
from cesaro import user_code
from cesaro.devices import starting_jax
from cesaro.errors import InputError, UserMemoryError


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    return user_code.call(lambda error: f"It failed with {error}.", function, *arguments)


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize(
    "error", [SystemExit(0), GeneratorExit(), StopIteration(), BaseException("x"), RecursionError("x")]
)
def test_what_is_raised_is_one_sentence(error: BaseException) -> None:
    with pytest.raises(
        InputError, match=rf"^It failed with {type(error).__name__} at test_user_code\.py, line \d+"
    ) as caught:
        called(raising(error))
    assert caught.value.__cause__ is error


def test_an_interruption_passes_and_memory_is_named() -> None:
    class Mine(KeyboardInterrupt): ...

    for kind in (KeyboardInterrupt, Mine):
        with pytest.raises(kind):
            called(raising(kind()))
    with pytest.raises(UserMemoryError, match=r"It failed with MemoryError at .*: out of memory \(1 TB\)\.") as caught:
        called(raising(MemoryError("1 TB")))
    assert isinstance(caught.value, MemoryError)


def test_sentences_of_ours_pass_and_name_the_inner_call() -> None:
    ours = InputError("ridge must be a number.")
    with pytest.raises(InputError) as caught:
        called(called, raising(ours))
    assert caught.value is ours
    with pytest.raises(InputError, match=r"InputError at .*: 5"):
        called(raising(InputError(5)))


def test_the_surroundings_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = np.geterr()

    def leave() -> None:
        np.seterr(all="raise")
        os.chdir("/")
        called(os.chdir, "/usr")
        assert os.getcwd() == "/usr"  # its own code inside its own code

    def leave_badly() -> None:
        leave()
        raise ValueError

    called(leave)
    with pytest.raises(InputError):
        called(leave_badly)
    assert (os.getcwd(), np.geterr()) == (str(tmp_path), before)


def test_one_call_at_a_time() -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.01)
        inside -= 1

    threads = [threading.Thread(target=called, args=(work,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize(("ends", "code"), [(lambda: None, 0), (lambda: sys.exit(3), 3), (raising(SystemExit("x")), 1)])
def test_a_forked_process_ends_where_the_call_does(ends: Callable[[], None], code: int) -> None:
    def fork() -> int:
        child = os.fork()
        if not child:
            ends()
        return child

    parent = os.getpid()
    child = called(fork)
    if os.getpid() != parent:
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


def test_an_objective_of_ones_own() -> None:
    chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)

    def leave(*_: Any, **__: Any) -> Any:
        raise SystemExit

    from cesaro.algorithms import REGISTRY
    from cesaro.approximators import APPROXIMATORS

    whole = REGISTRY["diff-gq1"](APPROXIMATORS["linear"], 6)
    settings: dict[str, Any] = {"settings": cs.grid(step_size=[0.1]), "seeds": 1, "budget": 100, "quiet": True}
    for objective in (whole._replace(init=leave), whole._replace(lagrangian=leave), whole._replace(reward_rate=leave)):
        with pytest.raises(
            InputError, match=r"^objective failed with SystemExit at test_user_code\.py, line \d+; correct"
        ):
            cs.sweep(objective, chain, **settings)
    with pytest.raises(InputError, match=r"^leave failed with SystemExit"):
        cs.sweep(leave, chain, **settings)
    with pytest.raises(InputError, match=r"^diff-gq1 failed with SystemExit"):
        cs.sweep("diff-gq1", chain, approximator=leave, **settings)
    with pytest.raises(InputError, match=r"^record 'mine' failed with SystemExit"):
        cs.sweep("diff-gq1", chain, record={"mine": leave}, **settings)


class Hostile:
    """An environment that is one in most respects."""

    def __init__(self, **parts: Any) -> None:
        from gymnasium.spaces import Box, Discrete

        self.observation_space, self.action_space = Box(-1, 1, (1,)), Discrete(2)
        self.unwrapped, self.parts = self, parts

    def reset(self, **_: Any) -> Any:
        return self._given("reset", (np.zeros(1), {}))

    def step(self, _: Any) -> Any:
        return self._given("step", (np.zeros(1), 1.0, False, False, {}))

    def close(self) -> None:
        self._given("close", None)

    def _given(self, part: str, plain: Any) -> Any:
        given = self.parts.get(part, plain)
        return given() if callable(given) else given


LEAVE = raising(SystemExit(0))


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            {"step": LEAVE},
            r"Hostile, stream 0, step 0: step failed with SystemExit at test_user_code.py, line \d+: 0; correct",
        ),
        ({"reset": LEAVE}, "Hostile, stream 0, step 0: reset failed with SystemExit"),
        ({"reset": 3}, "Hostile, stream 0.* failed with TypeError"),
        ({"close": LEAVE}, "Hostile, stream 0 failed with SystemExit"),
        ({"step": (np.zeros(1), None, False, False, {})}, "the reward must be finite. Got nan"),
        ({"step": 5}, "step failed with TypeError"),
        ({"step": (object(), 1.0, False, False, {})}, "the observation must be of its space"),
    ],
)
def test_environments(parts: dict[str, Any], says: str) -> None:
    def hostile() -> Hostile:
        return Hostile(**parts)

    hostile.__qualname__ = "Hostile"
    with pytest.raises(InputError, match=says):
        cs.monte_carlo_rate(hostile, "uniform", 100, streams=1, workers=1, quiet=True)


def test_an_environment_that_cannot_be_made() -> None:
    with pytest.raises(InputError, match=r"function, stream 0 failed with SystemExit"):
        cs.monte_carlo_rate(LEAVE, "uniform", 100, streams=1, workers=1, quiet=True)


def test_jax_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "abacus")
    said = r"^JAX does not start \(RuntimeError: no abacus here\); correct or unset what the environment .*JAX_PLATFORMS=abacus"
    with pytest.raises(InputError, match=said), starting_jax():
        raise RuntimeError("no abacus\nhere")
    with pytest.raises(InputError, match=r"\(AssertionError\);"), starting_jax():
        raise AssertionError
