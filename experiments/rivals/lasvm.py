"""LASVM: the exact SVM's dual, two variables at a time, while the rows are met one by one.

Every row is met once: it enters the current set where it violates optimality, and one more step
is made among the members (``online_set``). When all have been met, steps go on until no pair
violates (Bordes, Ertekin, Weston and Bottou 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from experiments.rivals.base import CACHE_CONSTRAINTS, Expansion, Pair, PairwiseSVM
from experiments.rivals.online_set import CurrentSet

#: Reports of progress in an epoch.
_REPORTS = 20


@dataclass(kw_only=True, eq=False, repr=False)
class LASVM(PairwiseSVM):
    """The SVM trained online: each row is met once, and support vectors so far are kept.

    Close to the exact SVM, and closer with more epochs.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation, as in SVC: the larger, the less.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
    degree, gamma, coef0 : int, {"scale", "auto"} or float, float
        Parameters of the kernel, as in SVC.
    epochs : int, default=1
        How often each row is met, in a random order.
    tol : float, default=1e-3
        Tolerance for stopping, with SVC's meaning, among the rows that are kept.
    max_iter : int, default=-1
        Most steps after the last row was met: 0 leaves the model as it is then, -1 stands for
        ``max(10_000_000, 100 * n_rows)``.
    random_state : int, RandomState instance or None, default=None
        For the order of the rows.
    n_jobs : int, default=None
        Threads of prediction.
    verbose : int, default=0
        1 prints a line per pair of classes.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_, classes_, fit_status_
        As SVC's.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Steps.

    Notes
    -----
    Faithful to the paper in the problem solved, a few rows of each class (five) to begin with,
    PROCESS, REPROCESS and finishing with pairs chosen by first order, and the removal of rows.
    As in the authors' program, coefficients under a thousandth of the largest are dropped; only
    where that moves no decision value in the set by more than ``tol``. It differs in that

    - a row that violates with no member does not enter the set; in the paper it does, until the
      next step of REPROCESS makes it leave;
    - rows come in a random order only: the paper also has selections of the worst classified row
      and of the one nearest to the boundary;
    - later epochs meet the rows that are outside the set when they begin.

    The kernel matrix of the set is kept: four or eight bytes for each pair of support vectors,
    and a third as much again for rows that have left; room for it grows by halves.

    References
    ----------
    A. Bordes, S. Ertekin, J. Weston, L. Bottou, "Fast Kernel Classifiers with Online and Active
    Learning", Journal of Machine Learning Research 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import LASVM
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = LASVM(gamma=1.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    epochs: int = 1
    tol: float = 1e-3
    max_iter: int = -1

    _parameter_constraints: ClassVar[dict] = {
        **PairwiseSVM._parameter_constraints,
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": CACHE_CONSTRAINTS["max_iter"],
    }

    def _train(self, pair: Pair) -> Expansion:
        current = CurrentSet(pair, float(self.C), float(self.tol))
        with pair.progress.task("process", self.epochs * _REPORTS) as progress:
            for _ in range(self.epochs):
                reported = 0
                for part in current.meet_all():
                    while reported < int(part * _REPORTS):
                        progress.step("rows")
                        reported += 1
        online = current.n_steps
        limit = max(10_000_000, 100 * len(pair.rows)) if self.max_iter < 0 else self.max_iter
        with pair.progress.task("finish", None) as progress:
            for _ in current.finish(limit):
                progress.step("steps")
        current.prune()
        coefs = current.coefs()
        pair.progress.say(
            f"{len(pair.rows)} rows: {np.count_nonzero(coefs)} support vectors, {online} steps "
            f"online, {current.n_steps - online} to finish, KKT violation {current.gap:.2g}"
        )
        return Expansion(coefs, current.offset, current.n_steps, current.gap <= self.tol)
