"""LIBSVM's problems solved exactly, and its models evaluated, by this package.

LIBSVM lists support vectors by class, and by row within a class. Its decision values are positive
for the first class of a pair, also where there are two classes; our estimators and scikit-learn's
public attributes have the opposite signs there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
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

#: Formulations of classes.
_OF_CLASSES = (0, 1)


class NotSolvedError(ValueError):
    """The solver has stopped before it reached the tolerance."""


@dataclass(frozen=True)
class LibsvmProblem:
    """What ``sklearn.svm`` asks LIBSVM to solve."""

    X: Any
    y: NDArray[np.float64]
    svm_type: int
    kernel: str
    degree: int
    gamma: float
    coef0: float
    tol: float
    C: float
    nu: float
    epsilon: float
    class_weight: NDArray[np.float64]  #: of every class, or empty
    sample_weight: NDArray[np.float64]  #: of every row, or empty
    shrinking: bool
    cache_size: float
    max_iter: int

    def estimator(self, n_jobs: int, device: str) -> Any:
        """Our estimator of the same problem."""
        given = {name: getattr(self, name) for name in _PARAMETERS[self.svm_type]}
        if self.svm_type == 0 and len(self.class_weight):  # with nu, LIBSVM ignores them
            given["class_weight"] = dict(enumerate(self.class_weight.tolist()))
        return _ESTIMATORS[self.svm_type](
            kernel=self.kernel,
            degree=self.degree,
            gamma=self.gamma if self.kernel not in ("linear", "precomputed") else 1.0,
            coef0=self.coef0,
            tol=self.tol,
            shrinking=bool(self.shrinking),
            cache_size=self.cache_size,
            max_iter=self.max_iter,
            refine="exact",
            device=device,
            n_jobs=n_jobs,
            **given,
        )


class LibsvmSolution(NamedTuple):
    """In LIBSVM's layout, with LIBSVM's signs."""

    support: NDArray[np.int32]
    vectors: Any
    n_support: NDArray[np.int32]  #: of every class; of one machine, the number of all
    dual_coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    n_iter: NDArray[np.int32]


def solve(problem: LibsvmProblem, n_jobs: int, device: str) -> LibsvmSolution:
    """The exact solution, to ``tol``; a ValueError if the solver does not reach it."""
    weights = problem.sample_weight if len(problem.sample_weight) else None
    of_classes = problem.svm_type in _OF_CLASSES
    if weights is not None and of_classes:
        left = np.bincount(problem.y.astype(np.intp), weights)
        if (left == 0).any():
            raise NotSolvedError("a class has no rows of positive weight")
    model = problem.estimator(n_jobs, device)
    with kept_warnings():  # scikit-learn warns in its own words
        model.fit(problem.X, problem.y, sample_weight=weights)
    if model.fit_status_ and not (np.atleast_1d(model.kkt_violation_) <= problem.tol).all():
        raise NotSolvedError(
            f"max_iter={problem.max_iter} was reached"
            if problem.max_iter >= 0
            else f"tol={problem.tol:g} was not reached"
        )
    sign = -1.0 if of_classes and len(model.n_support_) == 2 else 1.0
    dual = sign * as_array(model.dual_coef_).astype(np.float64, copy=False)
    support, dual = _with_copies(problem, model.support_, dual)
    n_support = np.array([len(support)], dtype=np.int32)
    if of_classes:
        counts = np.bincount(problem.y[support].astype(np.intp), minlength=len(model.n_support_))
        n_support = counts.astype(np.int32)
    return LibsvmSolution(
        support.astype(np.int32),
        problem.X[support],
        n_support,
        np.ascontiguousarray(dual),
        sign * model.intercept_.astype(np.float64),
        np.atleast_1d(model.n_iter_).astype(np.int32),
    )


def _with_copies(
    problem: LibsvmProblem, support: NDArray, dual: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Coefficients shared out between equal rows, in proportion to their weights.

    Our solver merges equal rows, and gives the first of them the coefficients of all. In LIBSVM's
    model none is beyond its row's bound.
    """
    targets = np.zeros(problem.X.shape[0], dtype=np.intp)
    if problem.svm_type != 2:  # the one-class SVM has no targets
        targets = np.unique(problem.y, return_inverse=True)[1]
    first, inverse = distinct_rows(problem.X, targets)
    if len(first) == len(inverse):
        return support.astype(np.intp), dual
    weights = problem.sample_weight if len(problem.sample_weight) else np.ones(len(inverse))
    totals = np.bincount(inverse, weights)
    column = np.full(len(first), -1)
    column[inverse[support]] = np.arange(len(support))
    rows = np.flatnonzero((column[inverse] >= 0) & (weights > 0))
    if problem.svm_type in _OF_CLASSES:
        rows = rows[np.argsort(problem.y[rows], kind="stable")]
    shares = weights[rows] / totals[inverse[rows]]
    return rows, dual[:, column[inverse[rows]]] * shares


@dataclass(frozen=True)
class LibsvmModel:
    """A model of LIBSVM's, and the rows to evaluate it at."""

    X: Any
    svm_type: int
    kernel: str
    degree: int
    gamma: float
    coef0: float
    support: NDArray[np.int32]
    vectors: Any
    n_support: NDArray[np.int32]
    dual_coef: NDArray[np.float64]
    intercept: NDArray[np.float64]

    def decision_function(self, n_jobs: int, device: str) -> NDArray[np.float64]:
        """Decision values, a column for every pair of classes, or one."""
        values = self._trained(device).pair_values(self.X, n_jobs)
        return np.ascontiguousarray(values.reshape(self.X.shape[0], -1))

    def predict(self, n_jobs: int, device: str) -> NDArray[np.float64]:
        """Classes by number, values, or 1 and -1."""
        trained = self._trained(device)
        if isinstance(trained, PairwiseModel):
            return trained.predict(self.X, n_jobs)
        values = trained.pair_values(self.X, n_jobs)
        return np.where(values > 0, 1.0, -1.0) if self.svm_type == 2 else values

    def _trained(self, device: str) -> PairwiseModel | MachineModel:
        spec = KernelSpec(self.kernel, self.gamma, self.degree, self.coef0, device)
        parts = self.support, self.vectors
        if self.svm_type not in _OF_CLASSES:
            return MachineModel(spec, *parts, self.dual_coef, self.intercept)
        n_classes = len(self.n_support)
        sign = -1.0 if n_classes == 2 else 1.0
        return PairwiseModel(
            spec,
            np.arange(n_classes, dtype=np.float64),
            *parts,
            self.n_support,
            sign * self.dual_coef,
            sign * self.intercept,
        )


def csr(parts: list[NDArray], n_features: int) -> sp.csr_array:
    """Sparse rows from the data, indices and row ends that scikit-learn passes."""
    found = sp.csr_array(tuple(parts), shape=(len(parts[2]) - 1, n_features))
    found.has_sorted_indices = True  # scikit-learn sorts them
    return found
