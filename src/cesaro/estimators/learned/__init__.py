"""The methods of the registry on a log: linear functions with the standard error of their limit, and networks."""

from cesaro.estimators.learned.estimator import Learned

__all__ = ["Learned"]
