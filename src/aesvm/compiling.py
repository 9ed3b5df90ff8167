"""Compiling ahead of use: for container images, continuous integration and demonstrations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from aesvm.one_class import AEOneClassSVM
from aesvm.runtime.jit import compiling_reported_to
from aesvm.svc import AESVC
from aesvm.svr import AESVR

__all__ = ["warm_up"]


def warm_up(verbose: int = 0) -> int:
    """Compile what fits and predictions need, and keep it in Numba's cache.

    The first fit of each kind compiles code, once per machine, which takes some seconds. After
    this call no fit has to. The call trains a few small models on generated rows.

    Parameters
    ----------
    verbose : int, default=0
        1 prints a line for each kind of fit.

    Returns
    -------
    n_compiled : int
        Kinds of fits for which code was compiled; 0 where the cache had all of it.

    Examples
    --------
    In the recipe of a container image: ``RUN python -c "import aesvm; aesvm.warm_up()"``, or
    ``RUN aesvm warm-up``. The environment variable ``NUMBA_CACHE_DIR`` says where the cache is.

    >>> import aesvm
    >>> n_compiled = aesvm.warm_up()  # doctest: +SKIP
    """
    n_compiled = 0
    for name, model, X, y in _fits():
        compiled: list[str] = []
        with warnings.catch_warnings(), compiling_reported_to(compiled.append):
            warnings.simplefilter("ignore")  # models of few rows may be far from exact
            model.fit(X, y).predict(X[:300])
        n_compiled += len(compiled)
        if verbose:
            print(f"[warm_up] {name}: {'compiled' if compiled else 'in the cache'}")
    return n_compiled


def _fits() -> Iterator[tuple[str, Any, Any, Any]]:
    """A small fit of each kind: its name, the estimator, rows and targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0
    labels = np.digitize(X[:, 0], [-1.0, 0.0, 1.0])
    few = np.arange(200)
    yield "two classes", AESVC(refine="exact"), X, y
    yield "two classes in single precision", AESVC(refine="exact"), X.astype(np.float32), y
    yield "linear kernel", AESVC(kernel="linear", refine="exact"), X, y
    yield "many classes", AESVC(refine="exact"), X, labels
    yield "small classes", AESVC(), X[few], labels[few]
    yield "sparse rows", AESVC(refine="exact"), sp.csr_matrix(X * (np.abs(X) > 0.5)), y
    yield "regression", AESVR(refine="exact"), X, X[:, 0]
    yield "one class", AEOneClassSVM(refine="exact"), X, None
    yield "representatives", AESVC(refine=1, hull_tol=0.01, subset_size=500), X, y
    yield "few vectors", AESVC(max_vectors=100), X, y
