"""Where methods end, from moments: `dense` and `tabular` solve for the rate and its values, `plug_in` tells
whether learning would.
"""
