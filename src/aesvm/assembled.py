"""SVC's fitted attributes, in SVC's layout, from the trained pairs of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from aesvm import one_vs_one
from aesvm.base import warn
from aesvm.certificate import Account, Certificate, certify, definiteness
from aesvm.training import Result


class Assembled:
    """Puts trained pairs together, and says where one did not converge."""

    # of the estimator that this is a part of
    kernel: Any
    coef0: float
    hull_tol: float
    tol: float
    max_iter: int

    support_: NDArray
    certificate_: Certificate
    _accounts_: list[Account]
    _multipliers_: list[Any]

    def _assemble(self, X, labels, results: list[Result | int]) -> None:
        """SVC's fitted attributes, in SVC's layout; and the certificate."""
        order, n_support, dual, intercept = one_vs_one.assemble(
            labels, [r if isinstance(r, int) else r.trained for r in results]
        )
        self.support_ = order.astype(np.int32)
        self.n_support_ = n_support
        self.support_vectors_ = (
            np.empty((0, 0)) if self.kernel == "precomputed" else X[self.support_]
        )
        self.dual_coef_ = type(X)(dual) if sp.issparse(X) else dual
        self.intercept_ = intercept
        found = [None if isinstance(r, int) else r for r in results]
        self.n_iter_ = np.array([r.n_iter if r else 0 for r in found], dtype=np.int32)
        self.objective_ = np.array([r.solution.objective if r else 0.0 for r in found])
        self.gap_ = np.array([r.solution.gap if r else 0.0 for r in found])
        self.fit_status_ = int(not all(r.solution.converged for r in found if r))
        self._multipliers_ = [r.multipliers if r else None for r in found]
        self._accounts_ = [r.account for r in found if r]
        self.certificate_ = certify(
            self._accounts_, self.hull_tol, definiteness(self.kernel, self.coef0)
        )
        if self.fit_status_:
            self._warn_of_solver()

    def _warn_of_solver(self) -> None:
        limit = "" if self.max_iter == -1 else f" at max_iter={self.max_iter}"
        gap = self.certificate_.relative_gap
        if self.gap_.max() <= self.tol and gap is not None:
            warn(
                f"The solver stopped{limit} at a relative duality gap of {gap:.3g}: "
                'refine="exact" aims at 1e-3. Scale the data, or lower C.',
                ConvergenceWarning,
            )
            return
        warn(
            f"The solver stopped{limit} before tol={self.tol:g} was reached (gap "
            f"{self.gap_.max():.3g}): raise max_iter or tol, scale the data, or lower C.",
            ConvergenceWarning,
        )
