"""Kernel SVMs for data too large for ``sklearn.svm``."""

from aesvm.bases.compress import Compression
from aesvm.callbacks import TimeLimit
from aesvm.certificate import Certificate
from aesvm.io.model_file import load, save
from aesvm.nu_svc import AENuSVC
from aesvm.one_class import AEOneClassSVM
from aesvm.representative_set import RepresentativeSet
from aesvm.svc import AESVC
from aesvm.svr import AESVR, AENuSVR

__version__ = "0.1.0"

__all__ = [
    "AESVC",
    "AESVR",
    "AENuSVC",
    "AENuSVR",
    "AEOneClassSVM",
    "Certificate",
    "Compression",
    "RepresentativeSet",
    "TimeLimit",
    "load",
    "save",
]
