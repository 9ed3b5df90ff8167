"""Explanations of decision values: exact Shapley values."""

from aesvm.inspection.display import ShapleyDisplay
from aesvm.inspection.shapley import ShapleyValues, shapley_values

__all__ = ["ShapleyDisplay", "ShapleyValues", "shapley_values"]
