"""Pictures of what was fitted, in scikit-learn's manner; of the extra "plot"."""

from aesvm.plotting.certificate import CertificateDisplay
from aesvm.plotting.representatives import RepresentativeSetDisplay
from aesvm.plotting.search import SearchDisplay

__all__ = ["CertificateDisplay", "RepresentativeSetDisplay", "SearchDisplay"]
