"""LIBSVM's problems solved exactly, and its models evaluated, by this package.

LIBSVM lists support vectors by class, and by row within a class. Its decision values are positive
for the first class of a pair, also where there are two classes; our estimators and scikit-learn's
public attributes have the opposite signs there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec
from aesvm.machines.one_vs_one import as_array
from aesvm.machines.prediction import MachineModel, PairwiseModel
from aesvm.one_class import AEOneClassSVM
from aesvm.runtime.warn import kept_warnings
from aesvm.sets.distinct import distinct_rows
from aesvm.svc import AESVC, AENuSVC
from aesvm.svr import AESVR, AENuSVR

#: Our estimators, by LIBSVM's number of a formulation.
_ESTIMATORS: tuple[Any, ...] = (AESVC, AENuSVC, AEOneClassSVM, AESVR, AENuSVR)

#: The parameters of each that LIBSVM's formulation has.
_PARAMETERS = (("C",), ("nu",), ("nu",), ("C", "epsilon"), ("C", "nu"))

#: The parameters that all of them have.
_COMMON = ("kernel", "degree", "coef0", "tol", "cache_size", "max_iter")

#: Formulations of classes.
_OF_CLASSES = (0, 1)


class NotSolvedError(ValueError):
    """The solver has stopped before it reached the tolerance."""


class LibsvmSolution(NamedTuple):
    """In LIBSVM's layout, with LIBSVM's signs."""

    support: NDArray[np.int32]
    vectors: Any
    n_support: NDArray[np.int32]  #: of every class; of one machine, the number of all
    dual_coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    n_iter: NDArray[np.int32]


def solve(given: dict[str, Any], n_jobs: int, device: str) -> LibsvmSolution:
    """The exact solution, to ``tol``; a ValueError if the solver does not reach it.

    ``given``: the arguments of ``libsvm.fit``; X may be sparse.
    """
    X, y, svm_type, sample_weight = (given[k] for k in ("X", "Y", "svm_type", "sample_weight"))
    weights = sample_weight if len(sample_weight) else None
    of_classes = svm_type in _OF_CLASSES
    if weights is not None and of_classes:
        left = np.bincount(y.astype(np.intp), weights)
        if (left == 0).any():
            raise NotSolvedError("a class has no rows of positive weight")
    model = _estimator(given, n_jobs, device)
    with kept_warnings():  # scikit-learn warns in its own words
        model.fit(X, y, sample_weight=weights)
    if model.fit_status_ and not (np.atleast_1d(model.kkt_violation_) <= given["tol"]).all():
        raise NotSolvedError(
            f"max_iter={given['max_iter']} was reached"
            if given["max_iter"] >= 0
            else f"tol={given['tol']:g} was not reached"
        )
    sign = -1.0 if of_classes and len(model.n_support_) == 2 else 1.0
    dual = sign * as_array(model.dual_coef_).astype(np.float64, copy=False)
    support, dual = _with_copies(given, model.support_, dual)
    n_support = np.array([len(support)], dtype=np.int32)
    if of_classes:
        counts = np.bincount(y[support].astype(np.intp), minlength=len(model.n_support_))
        n_support = counts.astype(np.int32)
    return LibsvmSolution(
        support.astype(np.int32),
        X[support],
        n_support,
        np.ascontiguousarray(dual),
        sign * model.intercept_.astype(np.float64),
        np.atleast_1d(model.n_iter_).astype(np.int32),
    )


def _estimator(given: dict[str, Any], n_jobs: int, device: str) -> Any:
    """Our estimator of the same problem."""
    svm_type = given["svm_type"]
    own = {name: given[name] for name in (*_COMMON, *_PARAMETERS[svm_type])}
    if svm_type == 0 and len(given["class_weight"]):  # with nu, LIBSVM ignores them
        own["class_weight"] = dict(enumerate(given["class_weight"].tolist()))
    own["gamma"] = given["gamma"] if given["kernel"] != "linear" else 1.0
    return _ESTIMATORS[svm_type](
        **own, shrinking=bool(given["shrinking"]), refine="exact", device=device, n_jobs=n_jobs
    )


def _with_copies(
    given: dict[str, Any], support: NDArray, dual: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Coefficients shared out between equal rows, in proportion to their weights.

    Our solver merges equal rows, and gives the first of them the coefficients of all. In LIBSVM's
    model none is beyond its row's bound.
    """
    X, y, svm_type, weights = (given[k] for k in ("X", "Y", "svm_type", "sample_weight"))
    targets = np.zeros(X.shape[0], dtype=np.intp)
    if svm_type != 2:  # the one-class SVM has no targets
        targets = np.unique(y, return_inverse=True)[1]
    first, inverse = distinct_rows(X, targets)
    if len(first) == len(inverse):
        return support.astype(np.intp), dual
    weights = weights if len(weights) else np.ones(len(inverse))
    totals = np.bincount(inverse, weights)
    column = np.full(len(first), -1)
    column[inverse[support]] = np.arange(len(support))
    rows = np.flatnonzero((column[inverse] >= 0) & (weights > 0))
    if svm_type in _OF_CLASSES:
        rows = rows[np.argsort(y[rows], kind="stable")]
    shares = weights[rows] / totals[inverse[rows]]
    return rows, dual[:, column[inverse[rows]]] * shares


def predictions(method: str, given: dict[str, Any], n_jobs: int, device: str) -> Any:
    """What LIBSVM's ``predict`` or ``decision_function`` returns.

    ``given``: the arguments of these; X and SV may be sparse.
    """
    X, model = given["X"], _model(given, device)
    if method == "predict" and isinstance(model, PairwiseModel):
        return model.predict(X, n_jobs)
    values = model.pair_values(X, n_jobs)
    if method == "decision_function":
        return np.ascontiguousarray(values.reshape(X.shape[0], -1))
    return np.where(values > 0, 1.0, -1.0) if given["svm_type"] == 2 else values


def _model(given: dict[str, Any], device: str) -> PairwiseModel | MachineModel:
    spec = KernelSpec(given["kernel"], given["gamma"], given["degree"], given["coef0"], device)
    dual, intercept = np.asarray(given["sv_coef"]), np.asarray(given["intercept"])
    vectors, n_support = given["SV"], np.asarray(given["nSV"])
    parts = np.asarray(given["support"]), vectors
    if given["svm_type"] not in _OF_CLASSES:
        return MachineModel(spec, *parts, dual, intercept)
    n_classes = len(n_support)
    sign = -1.0 if n_classes == 2 else 1.0
    classes = np.arange(n_classes, dtype=np.float64)
    return PairwiseModel(spec, classes, *parts, n_support, sign * dual, sign * intercept)
