"""A fitted estimator made into another: on fewer support vectors (``compress``), or one of
scikit-learn's (``to_sklearn``).
"""

from __future__ import annotations

import copy
from dataclasses import replace
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.validation import check_is_fitted

from aesvm.bases.compress import Compressed, Compression, Machines, compress
from aesvm.certificate.records import Records
from aesvm.estimators.fitting import fitting
from aesvm.estimators.prediction import model_of
from aesvm.estimators.trained import TrainedOn
from aesvm.estimators.validation import from_gpu, validated_rows
from aesvm.machines.one_vs_one import as_array
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.warn import warn

#: The estimators of scikit-learn, by ours.
_TWINS = {
    "AESVC": SVC,
    "AENuSVC": NuSVC,
    "AESVR": SVR,
    "AENuSVR": NuSVR,
    "AEOneClassSVM": OneClassSVM,
}

#: The kernels that scikit-learn's SVMs know by name.
_THEIR_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")

#: Fitted attributes that our estimators and scikit-learn's have in common.
_SHARED = ("classes_", "class_weight_", "feature_names_in_", "n_features_in_", "shape_fit_")


def check_compress(n_vectors: int | None, tol: float | None) -> None:
    """Refuse arguments of ``compress`` that set no limit, or an impossible one."""
    if n_vectors is None and tol is None:
        raise ValueError(
            "compress needs n_vectors (the most vectors to keep), or tol (the largest change of a "
            "decision value)."
        )
    whole = isinstance(n_vectors, Integral) and not isinstance(n_vectors, bool)
    if n_vectors is not None and not (whole and n_vectors >= 1):
        raise ValueError(f"n_vectors={n_vectors!r} must be a whole number of at least 1.")
    if tol is not None and not (isinstance(tol, Real) and 0.0 < float(tol) < inf):
        raise ValueError(f"tol={tol!r} must be a positive number.")


def compressed(estimator: Any, n_vectors: int | None, tol: float | None, X: Any) -> Any:
    """A copy of a fitted estimator with fewer support vectors; see ``KernelMachine.compress``."""
    model = model_of(estimator)
    if model.spec.kernel == "precomputed":
        raise ValueError(
            'kernel="precomputed": compress needs the kernel matrix of the support vectors, which '
            "the model does not keep."
        )
    if not model.spec.is_definite:
        raise ValueError(
            f"kernel={model.spec.kernel!r}: compress needs a positive semidefinite kernel."
        )
    rows = None
    if X is not None:
        rows = validated_rows(estimator, from_gpu(estimator, X)[0], reset=False)
    are_outliers = not estimator._learns.takes_targets
    now = copy.copy(estimator)  # before anything is noted on it that belongs to this call
    with fitting(estimator, name="compress") as (run, progress):
        kernel = TrainingKernel(model.spec, model.vectors).matrix(np.float64, 1e-12)
        machines = Machines(list(model.at_vectors()), kernel, model.groups, model.shares, run)
        found = compress(machines, n_vectors, tol, are_outliers, progress.to_the_end())
    if rows is not None and tol is None and are_outliers and found.shifts.any():
        found = _as_many_outliers(found, model, rows, estimator.n_jobs)
    layout = model.layout(found.expansions)
    now.support_ = model.support[layout.support]
    now.support_vectors_ = model.vectors[layout.support]
    now.n_support_ = layout.n_support
    dual = layout.dual_coef
    now.dual_coef_ = type(estimator.dual_coef_)(dual) if sp.issparse(estimator.dual_coef_) else dual
    now.intercept_ = layout.intercept
    now.dual_objective_ = np.full(len(estimator.dual_objective_), np.nan)
    now.kkt_violation_ = now.dual_objective_.copy()
    now._stream_ = None
    if hasattr(estimator, "_trained_on_"):  # not of a model in a foreign format
        _keep_record(now, estimator, found, kernel)
    now.compression_ = _measured(
        Compression(
            len(model.support),
            len(layout.support),
            float(found.distances.max(initial=0.0)),
            float(found.shifts[np.argmax(np.abs(found.shifts))]),
        ),
        model,
        model_of(now),
        rows,
        estimator.n_jobs,
        are_outliers,
    )
    return now


def _as_many_outliers(found: Compressed, model: Any, rows: Any, n_jobs: Any) -> Compressed:
    """With an offset that makes as many of some rows outliers as before."""
    (one,) = found.expansions
    if not rows.shape[0]:
        return found
    fraction = float(np.mean(model.pair_values(rows, n_jobs) <= 0))
    smaller = replace(
        model,
        support=model.support[one.rows],
        vectors=model.vectors[one.rows],
        dual_coef=one.coefs[None, :],
        intercept=np.zeros(1),
    )
    scores = smaller.pair_values(rows, n_jobs)
    offset = -float(np.quantile(scores, fraction))
    shift = float(found.shifts[0]) + offset - one.offset
    return found._replace(expansions=[one._replace(offset=offset)], shifts=np.array([shift]))


def _keep_record(now: Any, before: Any, found: Compressed, kernel: Any) -> None:
    """Keep what the certificate is made of; the losses of all rows are no longer known."""
    known = TrainedOn.of(before)
    records = []
    for record, one, shift in zip(known.records, found.expansions, found.shifts, strict=True):
        scale, offsets = 1.0, record.offsets
        if len(one.rows) or shift:  # else it is the constant that it was
            decision = before._learns.decision(before, offsets)
            scale, moved = decision.scale, decision.scale * float(shift)
            offsets = tuple(
                offset + sign * moved for offset, sign in zip(offsets, decision.signs, strict=True)
            )
        coefs = scale * one.coefs
        norm = float(coefs @ kernel.square(one.rows) @ coefs) if len(coefs) else 0.0
        records.append(
            replace(
                record,
                exact=False,
                squared_norm=norm,
                offsets=offsets,
                loss=None,
                loss_reduced=None,
                violators=None,
                changed=None,
                proven=False,
                n_vectors=len(one.rows),
                estimated_dual=None,
                estimated_loss=None,
            )
        )
    known._replace(records=Records.of(records), n_vectors=len(now.support_)).keep(now)
    if known.changed(before):  # then this is no model of what was trained either
        now._trained_on_["model"] = known.model


def _measured(
    known: Compression, before: Any, now: Any, rows: Any, n_jobs: Any, are_outliers: bool
) -> Compression:
    """With the changes of decision values and labels on some rows."""
    if rows is None:
        return known
    values, others = before.pair_values(rows, n_jobs), now.pair_values(rows, n_jobs)
    change = np.abs(values - others)
    labels = None
    if hasattr(before, "classes"):
        labels = float(np.mean(before.predict(rows, n_jobs) != now.predict(rows, n_jobs)))
    elif are_outliers:
        labels = float(np.mean((values <= 0) != (others <= 0)))
    return replace(
        known,
        n_measured=len(change),
        largest_change=float(change.max(initial=0.0)),
        typical_change=float(np.sqrt(np.square(change).mean())) if change.size else 0.0,
        labels_changed=labels,
    )


def to_sklearn(estimator: Any) -> Any:
    """The model as a fitted estimator of scikit-learn, with the same decision values.

    Parameters that both estimators have keep their values; ``gamma`` is the number that was used,
    and ``cache_size="auto"`` becomes scikit-learn's default.
    With dense support vectors, scikit-learn's estimators predict dense rows only. They settle ties
    of votes in the order of ``classes_``; a warning says so if ``tie_order_`` is another.

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
            "training rows, which the model does not keep: use a kernel by its name."
        )
    if estimator.kernel not in _THEIR_KERNELS:
        known = ", ".join(map(repr, _THEIR_KERNELS))
        raise ValueError(
            f"kernel={estimator.kernel!r}: scikit-learn's SVMs do not have this kernel: use one of "
            f"{known}."
        )
    ties = getattr(estimator, "tie_order_", None)  # which regressions do not have
    if ties is not None and (np.diff(ties) < 0).any() and len(ties) > 2:
        warn(
            "The model settles ties of votes in LIBSVM's order of its classes, "
            f"{', '.join(map(str, estimator.classes_[ties][:10]))}, and scikit-learn's estimator "
            "does so in ascending order: rows with such ties may have another label."
        )
    twin = _TWINS[type(estimator).__name__.removeprefix("Dask")]()
    own = estimator.get_params(deep=False)
    if isinstance(own["cache_size"], str):
        del own["cache_size"]
    twin.set_params(**{name: own[name] for name in twin.get_params() if name in own})
    twin.set_params(gamma=float(estimator.gamma_), verbose=False)
    attributes = {name: getattr(estimator, name) for name in _SHARED if hasattr(estimator, name)}
    vectors, sparse = estimator.support_vectors_, sp.issparse(estimator.support_vectors_)
    dual = as_array(estimator.dual_coef_).astype(np.float64)
    n_classes = len(estimator.classes_) if hasattr(estimator, "classes_") else 0
    sign = -1.0 if n_classes == 2 else 1.0  # private attributes have LIBSVM's signs
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
    """In LIBSVM's form: sorted, 32-bit indices, double precision."""
    found = sp.csr_matrix(vectors, dtype=np.float64, copy=True)
    found.sort_indices()
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def _every_entry(dual: np.ndarray) -> sp.csr_matrix:
    """Coefficients with explicit zeros, which scikit-learn's predictions need."""
    n_lines, n_vectors = dual.shape
    columns = np.tile(np.arange(n_vectors, dtype=np.int32), n_lines)
    ends = np.arange(n_lines + 1, dtype=np.int32) * n_vectors
    return sp.csr_matrix((dual.ravel(), columns, ends), shape=dual.shape)
