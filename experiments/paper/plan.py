"""In which order runs are made: what is worth most first, so that a part of them is of use."""

from __future__ import annotations

from collections.abc import Iterable
from math import log2

from experiments.paper.comparison import EPSILONS, EXACT, LIBSVM, LIKE_AESVM, ON_WHOLE_GRID
from experiments.paper.runs import Run
from experiments.paper.scales import ORDER, Scale


def in_order(scale: Scale, runs: Iterable[Run]) -> list[Run]:
    """By dataset where everything is made anyway.

    Otherwise the paper's method and the exact SVM come first, at the points that all solvers
    share; then LIBSVM at its sample, the sets of Tables 1 to 3, the rest of the grid and of
    the solvers. Runs of the same set follow each other: it is computed once.
    """
    if not scale.estimates:
        return sorted(runs, key=lambda run: (run.dataset, run.fold))
    return sorted(runs, key=lambda run: _rank(scale, run))


def _rank(scale: Scale, run: Run) -> tuple:
    return (
        _stage(scale, run),
        ORDER.index(run.dataset),
        run.fold,
        run.train_rows or 0,
        run.solver not in (EXACT, LIBSVM),
        abs(log2(run.C)) if run.solver in (EXACT, LIBSVM) else 0.0,  # from the grid's middle
        run.degree,
        run.gamma,
        -run.epsilon,
        run.solver,
        run.C,
    )


def _stage(scale: Scale, run: Run) -> int:
    if run.degree:
        return 5
    if run.solver == LIBSVM:
        return 1
    if run.solver == "DeriveRS":
        return 2
    if run.solver == EXACT or run.solver in EPSILONS.values():
        return 0 if (run.C, run.gamma) in scale.small_points else 3
    if run.solver in ON_WHOLE_GRID:
        return 4
    return 6 if run.solver in LIKE_AESVM else 7
