"""Trained machines put together: the fitted attributes of SVC and SVR, as a value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from aesvm.certificate.certificate import Certificate
from aesvm.kernels import KernelSpec
from aesvm.machines import one_vs_one
from aesvm.machines.problem import Expansion
from aesvm.machines.results import TrainedMachines
from aesvm.runtime.warn import warn


class Fitted(NamedTuple):
    """Fitted attributes, by their names without the underscore."""

    support: NDArray
    support_vectors: Any
    n_support: NDArray[np.int32]
    dual_coef: Any
    intercept: NDArray[np.float64]
    n_iter: NDArray[np.int64] | int
    dual_objective: NDArray[np.float64]
    kkt_violation: NDArray[np.float64]
    fit_status: int


def fitted_pairs(
    X: Any, labels: NDArray[np.intp], trained: TrainedMachines, spec: KernelSpec
) -> Fitted:
    """All pairs in SVC's layout; ``labels`` are the classes of the rows of X, by number."""
    layout = one_vs_one.layout_of(labels, trained.decisions, trained.intercept)
    return _fitted(X, layout, trained.n_iter, trained, spec)


def fitted_machine(X: Any, trained: TrainedMachines, spec: KernelSpec) -> Fitted:
    """The only machine, in SVR's layout."""
    rows, coefs = trained.decisions.one(0)
    layout = one_vs_one.of_one_machine(
        Expansion(rows.astype(np.intp), coefs, float(trained.intercept[0]))
    )
    return _fitted(X, layout, int(trained.n_iter[0]), trained, spec)


def _fitted(
    X: Any,
    layout: one_vs_one.Layout,
    n_iter: NDArray[np.int64] | int,
    trained: TrainedMachines,
    spec: KernelSpec,
) -> Fitted:
    support = layout.support.astype(np.int32)
    return Fitted(
        support=support,
        support_vectors=np.empty((0, 0)) if spec.kernel == "precomputed" else X[support],
        n_support=layout.n_support,
        dual_coef=type(X)(layout.dual_coef) if sp.issparse(X) else layout.dual_coef,
        intercept=layout.intercept,
        n_iter=np.minimum(n_iter, np.iinfo(np.int32).max).astype(np.int32)
        if isinstance(n_iter, np.ndarray)
        else n_iter,
        dual_objective=trained.dual_objective,
        kkt_violation=trained.kkt_violation,
        fit_status=int(not trained.converged.all()),
    )


def warn_of_solver(
    fitted: Fitted, certificate: Certificate, tol: float, max_iter: int, remedy: str
) -> None:
    """Say where a machine did not converge; ``remedy``: what makes that easier."""
    if not fitted.fit_status:
        return
    if np.isnan(fitted.kkt_violation).any():
        warn(
            "A solve in the span of few vectors ended before it had converged: certificate_ says "
            "how near the model is.",
            ConvergenceWarning,
        )
        return
    at_limit = max_iter != -1 and np.max(fitted.n_iter) >= max_iter
    gap = certificate.relative_gap
    if certificate.n_vectors is not None:
        message = (
            "The solver stopped before it converged, in the span of "
            f"{certificate.n_vectors:,} vectors: scale the data, or {remedy}."
        )
    elif certificate.negligible:
        message = (
            "The objective is zero to within rounding, and so may be the exact SVM's: there may be "
            f"nothing to learn. Scale the data, or {remedy}."
        )
    elif at_limit and not fitted.kkt_violation.max() <= tol:
        message = (
            f"The solver stopped at max_iter={max_iter}, before tol={tol:g} was reached "
            f"(KKT violation {fitted.kkt_violation.max():.3g}): raise max_iter or tol, scale the "
            f"data, or {remedy}."
        )
    elif fitted.kkt_violation.max() <= tol and gap is not None:
        message = (
            f"The solver reached tol={tol:g}, but the relative duality gap is only known to be at "
            f'most {gap:.3g}; refine="exact" aims at 1e-3. '
            f"{f'Raise max_iter={max_iter}, scale' if at_limit else 'Scale'} the data, or {remedy}."
        )
    else:
        message = (
            f"Rounding errors keep the solver from tol={tol:g}: it stopped making progress at a "
            f"KKT violation of {fitted.kkt_violation.max():.3g}. Raise tol, scale the data, or "
            f"{remedy}."
        )
    if not fitted.n_support.sum():
        message += " The model has no support vectors: it predicts a constant."
    warn(message, ConvergenceWarning)
