"""The paper's five metrics: how a solver compares with LIBSVM over a grid of hyper-parameters.

Each takes what LIBSVM and the other measured, in the same order: one value for every fold and
every point of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt


def rmse(libsvm: Sequence[float], other: Sequence[float]) -> float:
    """Root mean squared difference of the accuracies."""
    squares = [(a - b) ** 2 for a, b in zip(libsvm, other, strict=True)]
    return sqrt(sum(squares) / len(squares))


def expected_speedup(libsvm: Sequence[float], other: Sequence[float]) -> float:
    """ETS of training seconds, ECS of support vectors: the mean of the ratios."""
    ratios = [a / b for a, b in zip(libsvm, other, strict=True)]
    return sum(ratios) / len(ratios)


def overall_speedup(
    libsvm: Sequence[float], other: Sequence[float], once: Sequence[float] = ()
) -> float:
    """OTS of training seconds, OCS of support vectors: the ratio of the sums.

    ``once`` is what is spent once for several points of the grid: the seconds of the
    representative sets, one for each g and fold.
    """
    return sum(libsvm) / (sum(other) + sum(once))
