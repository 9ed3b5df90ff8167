"""Compiling ahead of use: for container images, continuous integration and demonstrations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from aesvm.inspection import shapley_values
from aesvm.one_class import AEOneClassSVM
from aesvm.runtime.jit import compiling_reported_to
from aesvm.svc import AESVC, AENuSVC
from aesvm.svr import AESVR, AENuSVR

__all__ = ["warm_up"]


def warm_up(verbose: int = 0) -> int:
    """Compile what fits and predictions need, and keep it in Numba's cache.

    The first fit of each kind compiles code, once per machine, which takes some seconds. After
    this call none has to. The call trains small models on generated rows: of all estimators, dense
    and sparse, in both precisions.

    Parameters
    ----------
    verbose : int, default=0
        1 prints a line for each kind of fit.

    Returns
    -------
    n_compiled : int
        Kinds for which code was compiled; 0 where the cache had all of it.

    Examples
    --------
    In the recipe of a container image: ``RUN python -c "import aesvm; aesvm.warm_up()"``, or
    ``RUN aesvm warm-up``. The environment variable ``NUMBA_CACHE_DIR`` says where the cache is.

    >>> import aesvm
    >>> n_compiled = aesvm.warm_up()  # doctest: +SKIP
    """
    n_compiled = 0
    for name, use in _uses():
        compiled: list[str] = []
        with warnings.catch_warnings(), compiling_reported_to(compiled.append):
            warnings.simplefilter("ignore")  # models of few rows may be far from exact
            use()
        n_compiled += len(compiled)
        if verbose:
            print(f"[warm_up] {name}: {'compiled' if compiled else 'in the cache'}")
    return n_compiled


def _uses() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The name of each kind of fit, and a function that makes a small one, and predicts."""

    def fit(model: Any, X: Any, y: Any) -> Callable[[], Any]:
        return lambda: model.fit(X, y).predict(X[:300])

    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0
    labels = np.digitize(X[:, 0], [-1.0, 0.0, 1.0])
    sparse = sp.csr_matrix(X * (np.abs(X) > 0.5))
    few = np.arange(200)
    for kind, rows in {
        "dense rows": X,
        "dense rows in single precision": X.astype(np.float32),
        "sparse rows": sparse,
        "sparse rows in single precision": sparse.astype(np.float32),
    }.items():
        yield f"two classes, {kind}", fit(AESVC(refine="exact"), rows, y)
        yield f"many classes, {kind}", fit(AESVC(refine="exact"), rows, labels)
        representatives = AESVC(refine=1, hull_tol=0.01, subset_size=500)
        yield f"representatives, {kind}", fit(representatives, rows, y)
        yield f"few vectors, {kind}", fit(AESVC(max_vectors=100), rows, y)
    yield "small classes", fit(AESVC(), X[few], labels[few])
    yield "linear kernel", fit(AESVC(kernel="linear", refine="exact"), X, y)
    yield "nu", fit(AENuSVC(nu=0.4, refine="exact"), X, y)
    yield "regression", fit(AESVR(refine="exact"), X, X[:, 0])
    yield "regression, representatives", fit(AESVR(refine=0), X, X[:, 0])
    yield "regression, nu", fit(AENuSVR(refine="exact"), X, X[:, 0])
    yield "regression, nu, few vectors", fit(AENuSVR(max_vectors=100), sparse, X[:, 0])
    yield "one class", fit(AEOneClassSVM(refine="exact"), X, None)
    model = AESVC(refine="exact").fit(X, y)
    yield "Shapley values", lambda: shapley_values(model, X[:20], background=X[:50])
