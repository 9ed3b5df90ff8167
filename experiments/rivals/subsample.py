"""The SVM of a random subsample: what every method that selects rows must be better than."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, RealNotInt

from aesvm.estimators.parameters import cache_bytes
from aesvm.solver.smo import minimize
from experiments.rivals.base import CACHE_CONSTRAINTS, Expansion, Pair, PairwiseSVM


@dataclass(kw_only=True, eq=False, repr=False)
class SubsampleSVM(PairwiseSVM):
    """The exact SVM of some random rows.

    Each drawn row stands for as many as its class has rows to a drawn one: its C is that much
    larger, so that the losses of a class weigh as much as those of all its rows.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation, as in SVC.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
    degree, gamma, coef0 : int, {"scale", "auto"} or float, float
        Parameters of the kernel, as in SVC.
    sample_size : float or int, default=0.1
        The share of the rows to draw, or their number. Each class has its share of them, to
        the nearest row, and at least one.
    tol : float, default=1e-3
        Tolerance for stopping, with SVC's meaning.
    max_iter : int, default=-1
        Most pair updates; -1 for no limit.
    cache_size : float, default=200
        Megabytes for rows of the kernel matrix.
    random_state : int, RandomState instance or None, default=None
        For the rows drawn.
    n_jobs : int, default=None
        Threads.
    verbose : int, default=0

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_
        As SVC's.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Pair updates.

    Notes
    -----
    The solver is that of :class:`aesvm.AESVC`, so that a comparison is of the rows chosen alone.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import SubsampleSVM
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = SubsampleSVM(gamma=2.0, sample_size=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    sample_size: float | int = 0.1
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 200

    _parameter_constraints: ClassVar[dict] = {
        **PairwiseSVM._parameter_constraints,
        **CACHE_CONSTRAINTS,
        "sample_size": [
            Interval(RealNotInt, 0.0, 1.0, closed="right"),
            Interval(Integral, 1, None, closed="left"),
        ],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
    }

    def _drawn(
        self, rows: NDArray[np.intp], n_rows: int, random: np.random.RandomState
    ) -> NDArray[np.intp]:
        share = self.sample_size
        if isinstance(self.sample_size, Integral):
            share = min(1.0, float(self.sample_size) / n_rows)
        size = max(1, round(share * len(rows)))
        return np.sort(random.permutation(rows)[:size])

    def _coefficient_norm(self, n_rows: int) -> float:
        return self.C * n_rows

    def _train(self, pair: Pair) -> Expansion:
        pair.progress.say(f"{len(pair.rows):,} rows drawn, for {pair.weights.sum():,.0f}")
        solution = minimize(
            pair.kernel,
            pair.rows,
            pair.signs,
            -np.ones(len(pair.rows)),
            self.C * pair.weights,
            tol=self.tol,
            max_iter=self.max_iter,
            cache_bytes=cache_bytes(self),
            run=pair.run,
            watch=lambda *_: pair.progress.step("round"),
        )
        offset = -float(solution.offsets[0])
        return Expansion(
            solution.alpha * pair.signs, offset, solution.n_updates, solution.converged
        )
