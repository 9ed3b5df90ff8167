"""The SVMs that the paper compares itself with, and those that any claim must survive.

Written from their papers, on this package's kernels and solver. They are here to be measured
against, under the same conditions; each says what it is faithful to and where it differs.

``base`` holds what they share, ``growing_gram`` the kernel matrix of a set that grows.
"""

from experiments.rivals.bvm import BVM
from experiments.rivals.cpsp import CPSP
from experiments.rivals.cvm import CVM
from experiments.rivals.features import NystroemSVM, RandomFeatureSVM
from experiments.rivals.lasvm import LASVM
from experiments.rivals.subsample import SubsampleSVM

__all__ = ["BVM", "CPSP", "CVM", "LASVM", "NystroemSVM", "RandomFeatureSVM", "SubsampleSVM"]
