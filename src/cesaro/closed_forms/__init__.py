"""Where methods end, from moments: `dense` and `tabular` solve for the rate and its values, `plug_in` tells
whether learning would, `growth` how many features a log can bear.

The first two give a `ClosedForm`, which is in `passes/influence.py`: the second pass takes it, and passes come before this folder.
"""
