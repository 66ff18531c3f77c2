"""Looking at a log: evidence on how it was described, and proposals of how to describe it.

Evidence compares two predictions on rows that were held out; findings (`diagnostics/`) and proposals rest on it alike:

- `prediction`: how well some columns predict others. `names`: what the names of columns suggest.
- `evidence`: the rows that are looked at, the row of the reward, rare events, labels. `order`: do rows follow each other?
  `observation`: which columns belong in an observation.

`inspect` makes a proposal for a log that nobody described: `profiles` of its columns, with corrections of text that is nearly
numbers or times; a draft (`proposal`); `roles` by names, types and the order of rows; a `refinement` by what the rows tell then.
`inspection` shows it, with the command to paste.
"""

from cesaro.inspection.inspection import Inspection, inspect

__all__ = ["Inspection", "inspect"]
