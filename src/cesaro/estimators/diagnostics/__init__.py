"""What could be wrong with an estimate: each finding has a value, a verdict, one sentence and a remedy."""

from cesaro.estimators.diagnostics.finding import OTHERS, SEVERITY, Diagnostic, Verdict, diagnose, worst

__all__ = ["OTHERS", "SEVERITY", "Diagnostic", "Verdict", "diagnose", "worst"]
