"""The other SVMs, each with the same C, gamma, tol and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC

from aesvm import AESVC
from aesvm.kernels import KernelMatrix, expansion, kernel_matrix
from aesvm.runtime.threads import Threads, one_blas_thread
from benchmarks.datasets import MissingError

#: Megabytes for the others' kernel rows. Ours has its default, a fifth of that.
CACHE = 1000


def svc(C: float, gamma: float) -> Any:
    """LIBSVM, in scikit-learn; it has one thread."""
    return SVC(C=C, gamma=gamma, cache_size=CACHE)


def intelex(C: float, gamma: float, n_jobs: int) -> Any:
    return with_intelex(n_jobs).SVC(C=C, gamma=gamma, cache_size=CACHE)


def with_intelex(n_jobs: int) -> Any:
    """The SVMs of scikit-learn-intelex, on some threads."""
    try:
        from daal4py import daalinit
        from sklearnex import svm
    except ImportError as error:
        raise MissingError("scikit-learn-intelex is not installed here") from error
    daalinit(n_jobs)
    return svm


def ours(C: float, gamma: float, n_jobs: int, refine: int | str = 0, **others: Any) -> AESVC:
    """AESVC; the paper's own unless ``refine`` says otherwise."""
    return AESVC(C=C, gamma=gamma, n_jobs=n_jobs, refine=refine, **others)


def warm_up(data, n_jobs: int) -> None:
    """Compile, or load what was compiled."""
    for rows in (500, 5000):
        for hull_tol in (0.0, 1e-3):
            part = slice(0, rows)
            if len(np.unique(data.y[part])) > 1:
                ours(1.0, 1.0, n_jobs, 1, hull_tol=hull_tol).fit(data.X[part], data.y[part])


def _expansion(model: Any, gamma: float) -> tuple[Any, NDArray, KernelMatrix]:
    """Support vectors, their coefficients and kernel matrix, of a model of two classes."""
    dual: Any = model.dual_coef_
    coefs: NDArray = np.ravel(dual.toarray() if hasattr(dual, "toarray") else dual)
    vectors = model.support_vectors_.astype(np.float64)
    if sp.issparse(vectors):
        vectors = sp.csr_array(vectors)
    return vectors, coefs, kernel_matrix(vectors, gamma=gamma, accuracy=1e-10)


def dual_objective(model: Any, gamma: float, n_jobs: int) -> float:
    """1/2 a'Qa - sum(a) of a fitted model of two classes, in double precision."""
    _, coefs, kernel = _expansion(model, gamma)
    with one_blas_thread(), Threads(n_jobs) as run:
        norm = kernel.squared_norm(np.arange(len(coefs)), coefs, run)
    return float(0.5 * norm - np.abs(coefs).sum())


def objectives(
    model: Any, X: Any, y: NDArray, C: float, gamma: float, n_jobs: int
) -> tuple[float, float]:
    """The primal and the dual objective of another's model of all rows."""
    _, coefs, kernel = _expansion(model, gamma)
    with one_blas_thread(), Threads(n_jobs) as run:
        norm = kernel.squared_norm(np.arange(len(coefs)), coefs, run)
        values = expansion.expand(
            kernel.columns(np.arange(len(coefs))),
            X,
            np.array([0, len(coefs)]),
            coefs[:, None],
            lambda sums: sums[:, 0, 0],
            run,
        )
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    losses = np.maximum(0.0, 1.0 - signs * (values + float(np.ravel(model.intercept_)[0])))
    return 0.5 * norm + C * float(losses.sum()), float(np.abs(coefs).sum()) - 0.5 * norm


def relative_gap(model: Any, X: Any, y: NDArray, C: float, gamma: float, n_jobs: int) -> float:
    """The duality gap, relative to the primal objective, of another's model of all rows."""
    primal, dual = objectives(model, X, y, C, gamma, n_jobs)
    return (primal - dual) / primal
