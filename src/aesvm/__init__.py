"""Kernel SVMs for data too large for ``sklearn.svm.SVC``."""

from aesvm.certificate import Certificate
from aesvm.representative_set import RepresentativeSet
from aesvm.svc import AESVC

__version__ = "0.1.0"

__all__ = ["AESVC", "Certificate", "RepresentativeSet"]
