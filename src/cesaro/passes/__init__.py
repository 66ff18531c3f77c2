"""Passes over a log: from a log, a policy and features to moments, to the influence of every row, and to standard errors.

- `prepare`: blocks of a log, or of what stands for one, as rows of features.
- `run`: a pass over all rows, in threads or on a cluster; `checkpoint`: its progress, in a file.
- `moments`: the first pass. `repeats` counts rows that the log holds more than once for it.
- `influence`: the second pass. `standard_errors` keeps its series in a few sums and turns them into an error.
- `accelerator`: the sums of both passes on a GPU.
- `support`: where the target goes and the log does not.
"""
