"""Dense rows class by class, for compiled code that computes kernel values of two classes.

Each class is a matrix with a column for each row, as products of few rows with all of a class want
it: BLAS would copy it otherwise.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.blocks import MAPPED_LINES
from aesvm.kernels.exponential import take_exponential
from aesvm.kernels.functions import EXPONENTIAL, POWER, TANH
from aesvm.runtime.jit import jit


class ProductMap(NamedTuple):
    """How kernel values come about from products of rows."""

    scale: float  #: of products
    of_distances: bool  #: whether rows carry their norms, as ``vectors`` has it
    compiled_map: int  #: of ``functions``
    coef0: float
    degree: int


class RowsByClass(NamedTuple):
    """The factors ``[y, 1, -g|y|^2]``, or y, of rows y class by class.

    The matrices of the classes, each of shape (width, n_rows), lie one after another.
    """

    factors: NDArray[np.float64]
    width: int
    ends: NDArray[np.intp]  #: where each class ends, in rows
    product_map: ProductMap

    @classmethod
    def of(
        cls, factors: NDArray[np.float64], ends: NDArray[np.intp], product_map: ProductMap
    ) -> RowsByClass:
        """Those of rows that are given class by class; ``ends``: where each class ends."""
        width, found = factors.shape[1], np.empty(factors.size)
        for a, b in pairwise([0, *ends.tolist()]):
            found[width * a : width * b].reshape(width, b - a)[...] = factors[a:b].T
        return cls(found, width, ends, product_map)


@jit
def write_lines(first, second, at, product_map, lines):
    """Some rows of two classes, counted through both, made ready to be the lines of a block.

    They are ``[2g x, -g|x|^2, 1]``, or x times the scale.
    """
    width, n_first = first.shape
    for f in range(width):
        for k in range(at.size):
            x = first[f, at[k]] if at[k] < n_first else second[f, at[k] - n_first]
            lines[k, f] = product_map.scale * x
            if product_map.of_distances and f == width - 1:
                lines[k, f - 1], lines[k, f] = x, 1.0


@jit
def write_columns(first, second, at, columns):
    """The same rows, as the columns of a block."""
    width, n_first = first.shape
    for f in range(width):
        for k in range(at.size):
            columns[f, k] = first[f, at[k]] if at[k] < n_first else second[f, at[k] - n_first]


@jit
def write_values(lines, columns, product_map, out):
    """The kernel values of lines and columns."""
    for top in range(0, lines.shape[0], MAPPED_LINES):
        some = out[top : top + MAPPED_LINES]
        np.dot(lines[top : top + MAPPED_LINES], columns, some)
        values = some.reshape(some.size)
        if product_map.compiled_map == EXPONENTIAL:
            take_exponential(values)
        elif product_map.compiled_map == POWER:
            _take_power(values, product_map.coef0, product_map.degree)
        elif product_map.compiled_map == TANH:
            for k in range(values.size):
                values[k] = np.tanh(values[k] + product_map.coef0)


@jit
def _take_power(values, coef0, degree):
    """``(values + coef0) ** degree`` in place, by squaring as ``functions`` has it."""
    base = np.empty(values.size)
    for k in range(values.size):
        base[k] = values[k] + coef0
        values[k] = base[k] if degree > 0 else 1.0
    power = 1  # of two, the largest that is not above the degree
    while 2 * power <= degree:
        power *= 2
    while power > 1:
        power //= 2
        for k in range(values.size):
            values[k] *= values[k]
        if degree & power:
            for k in range(values.size):
                values[k] *= base[k]
