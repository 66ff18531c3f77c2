"""The methods with linear functions, in closed form: one file each, and one line here.

A method need not have a form here: `cesaro.learning.affine_form` makes one by evaluating the step itself, which does without the
influence of rows.
"""

from typing import Any

from cesaro.errors import InputError
from cesaro.linear.methods.base import AffineForm, LimitPoint, MethodSettings, RowInfluence
from cesaro.linear.methods.diff_gq1 import DiffGQ1
from cesaro.linear.methods.diff_gq2 import DiffGQ2
from cesaro.linear.methods.diff_gq3 import DiffGQ3
from cesaro.linear.methods.diff_gq4 import DiffGQ4
from cesaro.linear.methods.diff_sgq import DiffSGQ
from cesaro.linear.methods.gradient_dice import GradientDICE

__all__ = [
    "ALWAYS_CONVERGE",
    "CLOSED_FORM",
    "FORMS",
    "FOR_NETWORKS",
    "METHODS",
    "AffineForm",
    "LimitPoint",
    "RowInfluence",
    "form_of",
]

FORMS: dict[str, AffineForm] = {
    form.name: form for form in (DiffSGQ(), DiffGQ1(), DiffGQ2(), DiffGQ3(), DiffGQ4(), GradientDICE())
}
METHODS = tuple(FORMS)
# Those that converge on every log, to where the closed form is.
ALWAYS_CONVERGE = tuple(
    name for name, form in FORMS.items() if form.is_saddle(MethodSettings()) and form.ends_at_td_fixed_point
)
# The one that comes nearest with networks where nobody tunes it (docs/reproduction.md): it has no dual to be trained.
FOR_NETWORKS = DiffSGQ().name
# What solves the equations at once and does not learn; `cesaro.DiffLSTD`.
CLOSED_FORM = "diff-lstd"


def form_of(method: Any) -> AffineForm:
    """The affine form of that name, or the one given; raises where there is none."""
    if isinstance(method, AffineForm):
        return method
    if not (isinstance(method, str) and method in FORMS):
        own = "; of a method of your own: cesaro.learning.affine_form(method)" if callable(method) else ""
        raise InputError(f"method must be one of {', '.join(METHODS)}. Got {method!r}{own}.")
    return FORMS[method]
