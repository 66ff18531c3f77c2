"""The errors of the package, one class per kind of cause. Every message is one sentence that names the remedy."""

import errno
import re
from typing import Self

from cesaro.text import GIVE, Sentence, Wording

# How zlib, HDF5, Arrow and C++ say that an allocation failed where they raise no MemoryError; a thread needs memory, too.
_ALLOCATION = re.compile(
    r"^Error -4 while|allocation failed|unable to allocate|can(no|')t allocate|alloc of size|bad_alloc"
    r"|failed to launch worker thread|can't start new thread",
    re.IGNORECASE,
)


class CesaroError(Exception):
    """The base of every error this package raises on purpose."""

    @property
    def message(self) -> str:
        """The sentence: a `cesaro.text.Sentence` where it names arguments, which the command line calls options."""
        return self.args[0] if self.args else ""


class InputError(CesaroError, ValueError):
    """The input breaks a rule; the message names the field, the rule, the value and the remedy."""

    @classmethod
    def of(cls, template: str, /, **fields: str | Wording) -> Self:
        """An error that names arguments: a `Sentence` of these fields, and of `give`, which is how a caller gives an argument."""
        return cls(Sentence(template, give=GIVE, **fields))


class UserMemoryError(CesaroError, MemoryError):
    """Code of a user, such as a policy, ran out of memory; the message names it."""


class MultichainError(InputError):
    """The policy has more than one recurrent class, so that no single reward rate exists.

    `classes` holds the states of every recurrent class.
    """

    def __init__(self, message: str, classes: tuple[tuple[int, ...], ...]) -> None:
        super().__init__(message)
        self.classes = classes

    def __reduce__(self) -> tuple[type["MultichainError"], tuple[str, tuple[tuple[int, ...], ...]]]:
        return type(self), (self.message, self.classes)  # else a copy from another process would lack the classes


class StartError(InputError):
    """The policy earns more or less depending on where it starts, as far as rollouts tell, so that no single reward rate exists.

    `remembered` is the correlation between what a rollout earns in one stretch and in the next, which is twice as long.
    """

    def __init__(self, message: str, remembered: float) -> None:
        super().__init__(message)
        self.remembered = remembered

    def __reduce__(self) -> tuple[type["StartError"], tuple[str, float]]:
        return type(self), (self.message, self.remembered)


class ToleranceError(CesaroError, ArithmeticError):
    """No solver reached the accuracy that was asked for; a wrong number would have been the alternative."""


class NoLimitError(CesaroError, ArithmeticError):
    """The method has no limit at these settings; the message says why."""


class ClusterError(CesaroError, ConnectionError):
    """The cluster was lost; what came back before is in the checkpoint, which a local run can finish."""


class EvaluationWarning(UserWarning):
    """The answer stands, but something about it deserves a look."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of a library says that memory ran out, by its class, its number or its words.

    Example:
        >>> from cesaro.errors import is_out_of_memory
        >>> is_out_of_memory(OSError("Can't synchronously read data (memory allocation failed for chunk)"))
        True
    """
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return _ALLOCATION.search(str(error)) is not None
