"""The SVMs that the paper compares itself with, and those that any claim must survive.

Written from their papers, on this package's kernels and solver. They are here to be measured
against, under the same conditions; each says what it is faithful to and where it differs.

``base`` holds what they share, ``growing_gram`` the kernel matrix of a set that grows.
"""

from aesvm.baselines.bvm import BVM
from aesvm.baselines.cpsp import CPSP
from aesvm.baselines.cvm import CVM
from aesvm.baselines.features import NystroemSVM, RandomFeatureSVM
from aesvm.baselines.lasvm import LASVM
from aesvm.baselines.subsample import SubsampleSVM

__all__ = ["BVM", "CPSP", "CVM", "LASVM", "NystroemSVM", "RandomFeatureSVM", "SubsampleSVM"]
