"""Where methods end, from moments: `dense` and `tabular` solve for the rate and its values, `plug_in` tells
whether learning would, `growth` how many features a log can bear.

`dense` and `tabular` give a `ClosedForm`. It is defined in `passes/influence.py`, because the second pass takes it and passes
come before closed forms.
"""
