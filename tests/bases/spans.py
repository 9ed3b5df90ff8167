"""SVMs in the span of given vectors, solved with all rows in one place: the other answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aesvm.bases.descent import Point
from aesvm.bases.solve_in_memory import BasisValues, ProblemInMemory
from aesvm.formulations.objective import best_offsets, total_loss
from aesvm.kernels import kernel_matrix
from aesvm.runtime.progress import Silence

WIDTHS = (0.3, 0.1, 0.03, 0.01)


class InOnePlace(NamedTuple):
    """The machine, what it says of the rows, and its objective."""

    coefs: np.ndarray
    offsets: tuple
    scores: np.ndarray
    objective: float


def solved_in_one_place(X, targets, bounds, vectors, formulation, **kernel):
    """The SVM of rows with w in the span of some vectors, from scratch and in double precision."""
    n = len(targets)
    stacked = np.concatenate([np.asarray(X, dtype=float), np.asarray(vectors, dtype=float)])
    matrix = kernel_matrix(stacked, **kernel)
    basis = np.arange(n, len(stacked))
    values = BasisValues(matrix, np.arange(n), 1e9)
    values.add(basis)
    within = matrix.square(basis)
    start = Point(np.zeros(len(basis)), best_offsets(formulation, np.zeros(n), targets, bounds))
    problem = ProblemInMemory(values, within, targets, bounds, formulation, start, map, True)
    found = problem.solve(WIDTHS, Silence())
    offsets = best_offsets(formulation, found.scores, targets, bounds)
    positions = formulation.positions(found.scores, targets, offsets)
    coefs = found.point.coefs
    objective = 0.5 * coefs @ within @ coefs + total_loss(formulation, positions, bounds, offsets)
    return InOnePlace(coefs, offsets, found.scores, float(objective))
