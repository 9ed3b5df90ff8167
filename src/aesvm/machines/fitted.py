"""Trained machines put together: the fitted attributes of SVC and SVR, as a value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from aesvm.certificate import Certificate
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
    n_iter: NDArray[np.int32] | int
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
    n_iter: NDArray[np.int32] | int,
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
        n_iter=n_iter,
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
    limit, most = ("", "") if max_iter == -1 else (f" at max_iter={max_iter}", "max_iter or ")
    gap = certificate.relative_gap
    if certificate.n_vectors is not None:
        message = (
            "The solver stopped before it converged, in the span of "
            f"{certificate.n_vectors:,} vectors: scale the data, or {remedy}."
        )
    elif fitted.kkt_violation.max() <= tol and gap is not None:
        message = (
            f"The solver stopped{limit} at a relative duality gap of {gap:.3g}: "
            f'refine="exact" aims at 1e-3. Scale the data, or {remedy}.'
        )
    else:
        message = (
            f"The solver stopped{limit} before tol={tol:g} was reached (KKT violation "
            f"{fitted.kkt_violation.max():.3g}): raise {most}tol, scale the data, or "
            f"{remedy}."
        )
    warn(message, ConvergenceWarning)
