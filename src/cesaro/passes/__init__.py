"""Passes over a log: from a log, a policy and features to moments, to the influence of every row, and to standard errors.

`prepare` turns blocks of a log into rows of features, `run` goes over all of them, in threads or on a cluster, and keeps progress
(`checkpoint`). The first pass is `moments`, the second `influence`; `standard_errors` turns what the second
adds up to into an error.
"""
