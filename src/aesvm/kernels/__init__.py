"""The kernel matrix of the training rows, addressed by row index and never held whole.

``spec`` says which kernel it is. Values are only ever needed in blocks: ``matrix`` says what a
kernel matrix must offer, ``functions`` lists the kernels of input vectors, ``dense`` and ``sparse``
fill their blocks by one matrix product and an elementwise map (``vectors``), ``given`` asks a
precomputed matrix or a callable. Whoever asks for a block cannot tell the difference. ``tiles``
computes values of dense rows and sums them up, in compiled code.
"""

from aesvm.kernels.functions import KERNELS, Kernel
from aesvm.kernels.gamma import resolve_gamma
from aesvm.kernels.given import check_symmetric
from aesvm.kernels.matrix import Columns, KernelMatrix, bounded
from aesvm.kernels.spec import DEFINITE, NOT_DEFINITE, TAKEN, KernelSpec, kernel_matrix

__all__ = [
    "DEFINITE",
    "KERNELS",
    "NOT_DEFINITE",
    "TAKEN",
    "Columns",
    "Kernel",
    "KernelMatrix",
    "KernelSpec",
    "bounded",
    "check_symmetric",
    "kernel_matrix",
    "resolve_gamma",
]
