"""Passes over a log: from a log, a policy and features to moments, to the influence of every row, and to standard errors.

- `prepare`: blocks of a log as rows of features; `feature_log`: the same for rows that come from no log.
- `run`: a pass over all rows, in threads or on a cluster; `checkpoint`: its progress, in a file.
- `moments`: the first pass. `repeats` counts rows that the log holds more than once for it, by their `row_hashes`.
- `influence`: the second pass. `projection` keeps its series in a few sums, which `standard_errors` turns into an error.
- `support`: where the target goes and the log does not.
"""
