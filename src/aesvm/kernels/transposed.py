"""Dense rows of several classes, for compiled code that computes kernel values of two of them.

Each class is a matrix with a column for each row, as products of few rows with all of a class want
it: BLAS would copy it otherwise.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.exponential import take_exponential
from aesvm.kernels.functions import EXPONENTIAL
from aesvm.runtime.jit import jit

#: Lines of a block whose map follows while their products are in the core's cache.
_LINES = 32


class Form(NamedTuple):
    """How kernel values come about from rows."""

    scale: float  #: of products
    of_distances: bool  #: whether rows carry their norms, as ``vectors`` has it
    tile_map: int  #: of ``functions``: IDENTITY or EXPONENTIAL


class TransposedRows(NamedTuple):
    """The factors ``[y, 1, -g|y|^2]``, or y, of rows y class by class."""

    classes: list[NDArray[np.float64]]  #: each of shape (n_columns, n_rows)
    form: Form

    @classmethod
    def of(cls, factors: NDArray[np.float64], ends: NDArray[np.intp], form: Form) -> TransposedRows:
        """Those of rows that are given class by class; ``ends``: where each class ends."""
        edges = pairwise([0, *ends.tolist()])
        return cls([np.ascontiguousarray(factors[a:b].T) for a, b in edges], form)


@jit
def take_lines(first, second, at, form, lines, columns):
    """Some rows of two classes, counted through both, made ready to be the lines of a block.

    They are ``[2g x, -g|x|^2, 1]``, or x times the scale; ``columns`` has them as its columns.
    """
    width, n_first = first.shape
    for f in range(width):
        for k in range(at.size):
            x = first[f, at[k]] if at[k] < n_first else second[f, at[k] - n_first]
            columns[f, k] = x
            lines[k, f] = form.scale * x
    if form.of_distances:
        for k in range(at.size):
            lines[k, width - 2] = columns[width - 1, k]
            lines[k, width - 1] = 1.0


@jit
def write_values(lines, columns, form, out):
    """The kernel values of lines and columns."""
    for top in range(0, lines.shape[0], _LINES):
        some = out[top : top + _LINES]
        np.dot(lines[top : top + _LINES], columns, some)
        if form.tile_map == EXPONENTIAL:
            take_exponential(some.reshape(some.size))
