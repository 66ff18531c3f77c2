"""The path under which the reference once listed `Leverages`, which stands beside the finding on support."""

from cesaro.estimators.diagnostics.support import Leverages

__all__ = ["Leverages"]
