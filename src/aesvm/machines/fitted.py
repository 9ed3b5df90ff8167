"""The fitted attributes of SVC and SVR, made of trained machines."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec
from aesvm.machines import one_vs_one
from aesvm.machines.problem import Expansion
from aesvm.machines.results import TrainedMachines


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
