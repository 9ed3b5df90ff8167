"""Kernel SVMs for data too large for ``sklearn.svm.SVC``."""

from aesvm.representative import RepresentativeSet

__version__ = "0.1.0"

__all__ = ["RepresentativeSet"]
