"""Transitions in the forms that estimators and learners take."""

from cesaro.data.feature_transitions import FeatureTransitions

__all__ = ["FeatureTransitions"]
