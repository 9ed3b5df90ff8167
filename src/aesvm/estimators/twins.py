"""Fitted estimators of scikit-learn that decide as ours do: ``to_sklearn``.

Whatever knows ``sklearn.svm`` can have the model so. The attributes that scikit-learn's predictions
read, private ones among them, are written here and nowhere else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.validation import check_is_fitted

from aesvm.machines.one_vs_one import as_array
from aesvm.runtime.warn import warn

_TWINS = {
    "AESVC": SVC,
    "AENuSVC": NuSVC,
    "AESVR": SVR,
    "AENuSVR": NuSVR,
    "AEOneClassSVM": OneClassSVM,
}

#: Attributes that both have.
_SHARED = ("classes_", "class_weight_", "feature_names_in_", "n_features_in_", "shape_fit_")


def to_sklearn(estimator: Any) -> Any:
    """The model as a fitted estimator of scikit-learn, with the same decision values.

    Parameters that both have are ours; ``gamma`` is the number that was used. Where the support
    vectors are dense, scikit-learn's estimators predict dense rows alone. They settle ties of votes
    in the order of ``classes_``: a model of LIBSVM's, which has another order, is warned of.

    Returns
    -------
    twin : SVC, NuSVC, SVR, NuSVR or OneClassSVM

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = AESVC(gamma=1.0).fit(X, y)
    >>> twin = model.to_sklearn()
    >>> twin
    SVC(gamma=1.0)
    >>> bool(np.allclose(twin.decision_function(X), model.decision_function(X)))
    True
    """
    check_is_fitted(estimator)
    if callable(estimator.kernel):
        raise ValueError(
            f"kernel={estimator.kernel!r}: with a callable, scikit-learn's estimators need all "
            "rows of training, which the model does not keep: use a kernel by its name."
        )
    ties = getattr(estimator, "_tie_order_", None)
    if ties is not None and (np.diff(ties) < 0).any() and len(ties) > 2:
        warn(
            "The model settles ties of votes in LIBSVM's order of its classes, "
            f"{', '.join(map(str, estimator.classes_[ties][:10]))}, and scikit-learn's estimator "
            "does so in ascending order: rows with such ties may have another label."
        )
    twin = _TWINS[type(estimator).__name__.removeprefix("Dask")]()
    own = estimator.get_params(deep=False)
    twin.set_params(**{name: own[name] for name in twin.get_params() if name in own})
    twin.set_params(gamma=float(estimator.gamma_), verbose=False)
    attributes = {name: getattr(estimator, name) for name in _SHARED if hasattr(estimator, name)}
    vectors, sparse = estimator.support_vectors_, sp.issparse(estimator.support_vectors_)
    dual = as_array(estimator.dual_coef_).astype(np.float64)
    n_classes = len(estimator.classes_) if hasattr(estimator, "classes_") else 0
    sign = -1.0 if n_classes == 2 else 1.0  # scikit-learn's private ones are LIBSVM's
    # LIBSVM keeps two counts where there is one machine
    n_support = estimator.n_support_ if n_classes else [len(estimator.support_), 0]
    attributes |= {
        "support_": estimator.support_.astype(np.int32),
        "support_vectors_": _csr(vectors) if sparse else np.array(vectors, dtype=np.float64),
        "dual_coef_": _every_entry(dual) if sparse else dual,
        "_dual_coef_": _every_entry(sign * dual) if sparse else sign * dual,
        "intercept_": estimator.intercept_.copy(),
        "_intercept_": sign * estimator.intercept_,
        "_n_support": np.array(n_support, dtype=np.int32),
        "_probA": np.empty(0),
        "_probB": np.empty(0),
        "_effective_probability": False,
        "_sparse": sparse,
        "_gamma": 0.0 if estimator.kernel == "precomputed" else float(estimator.gamma_),
        "fit_status_": estimator.fit_status_,
        "n_iter_": estimator.n_iter_,
    }
    if not n_classes:
        attributes["class_weight_"] = np.empty(0)
    if isinstance(twin, OneClassSVM):
        attributes["offset_"] = -estimator.intercept_
    vars(twin).update(attributes)
    return twin


def _csr(vectors: Any) -> sp.csr_matrix:
    """As LIBSVM reads it: sorted, 32-bit indices, double precision."""
    found = sp.csr_matrix(vectors, dtype=np.float64, copy=True)
    found.sort_indices()
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def _every_entry(dual: np.ndarray) -> sp.csr_matrix:
    """Coefficients with their zeros, which scikit-learn's predictions count on."""
    n_lines, n_vectors = dual.shape
    columns = np.tile(np.arange(n_vectors, dtype=np.int32), n_lines)
    ends = np.arange(n_lines + 1, dtype=np.int32) * n_vectors
    return sp.csr_matrix((dual.ravel(), columns, ends), shape=dual.shape)
