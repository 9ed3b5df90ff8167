"""Displays of fitted models, in scikit-learn's manner. They need the extra ``aesvm[plot]``."""

from aesvm.plotting.certificate import CertificateDisplay
from aesvm.plotting.representatives import RepresentativeSetDisplay
from aesvm.plotting.search import SearchDisplay

__all__ = ["CertificateDisplay", "RepresentativeSetDisplay", "SearchDisplay"]
