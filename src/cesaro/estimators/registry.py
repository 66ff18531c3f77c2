"""Methods of evaluation by name: what makes each, what it needs and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias

from cesaro import python_file
from cesaro.devices import starting_jax
from cesaro.errors import InputError
from cesaro.linear.methods import CLOSED_FORM, FORMS

Kind: TypeAlias = Literal["closed form", "learned", "world"]
# The method that is taken unless another is asked for.
DEFAULT = "auto"


@dataclass(frozen=True)
class MethodEntry:
    """A method of evaluation.

    Attributes:
        place: the module and the class of its estimator, which is imported when it is asked for: JAX takes a second.
        settings: that the name stands for.
        kind: how it comes to its answer: equations solved at once, learned step by step, or the target run in a learned process.
        has_interval: whether answers have an interval, on every log.
        has_values: whether it gives differential values.
        summary: what it does, in a few words.
    """

    name: str
    place: tuple[str, str]
    kind: Kind
    has_interval: bool
    has_values: bool
    summary: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimator(self) -> Any:
        """A function that makes an estimator, from its settings."""
        module, name = self.place
        with starting_jax():
            made = getattr(import_module(module), name)
        return partial(made, **self.settings)

    @property
    def parameters(self) -> list[str]:
        """Settings that it takes."""
        return [name for name in self.estimator.func._get_param_names() if name not in self.settings]


_CLOSED = ("cesaro.estimators.diff_lstd", "DiffLSTD")
_LEARNED = ("cesaro.estimators.learned", "Learned")
METHODS: dict[str, MethodEntry] = {
    method.name: method
    for method in (
        MethodEntry(DEFAULT, _CLOSED, "closed form", True, True, "the closed form in features chosen for the log"),
        MethodEntry(CLOSED_FORM, _CLOSED, "closed form", True, True, "the same by its name"),
        *(
            MethodEntry(
                name, _LEARNED, "learned", True, not form.learns_ratio, "learned step by step", {"method": name}
            )
            for name, form in FORMS.items()
        ),
        MethodEntry(
            "world", ("cesaro.worlds", "WorldRate"), "world", True, True, "the target run in a learned process"
        ),
    )
}


def method(given: Any) -> MethodEntry:
    """The entry of a method by its name; or your own as in `Learned`: an objective, or `file.py:name`.

    Raises:
        InputError: there is none of this name.
    """
    if isinstance(given, str) and given in METHODS:
        return METHODS[given]
    if isinstance(given, str) and python_file.place(given) is None:
        raise InputError(f"method must be one of {', '.join(METHODS)}, or file.py:name. Got {given!r}.")
    return MethodEntry(str(given), _LEARNED, "learned", False, True, "a method of your own", {"method": given})
