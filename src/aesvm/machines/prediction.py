"""Prediction: one machine's decision values, or the votes of pairs of classes, as in LIBSVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels import Columns, KernelSpec, expansion
from aesvm.machines import one_vs_one
from aesvm.machines.problem import Expansion, pair_classes
from aesvm.machines.processor import processor
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.threads import one_blas_thread

#: Error in a kernel value beyond which predictions use a slower way to compute it.
_ACCURACY = 1e-8


@dataclass(frozen=True)
class PairwiseModel:
    """A trained classifier as a value: what predictions are made of, in SVC's layout."""

    spec: KernelSpec
    classes: NDArray
    support: NDArray  #: rows of the training data
    vectors: Any  #: these rows; none where the kernel is precomputed
    n_support: NDArray[np.int32]
    dual_coef: Any
    intercept: NDArray[np.float64]
    shape: str = "ovr"  #: of decision values: "ovr" or "ovo"
    break_ties: bool = False
    #: Which class comes first where votes are equal; a value of 0 is a vote for the later one.
    tie_order: NDArray[np.intp] | None = None

    def decision_function(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Decision values of valid rows."""
        n_classes = len(self.classes)
        if n_classes == 2:
            return self._decide(X, lambda values: -values[:, 0], n_jobs)
        if self.shape == "ovr":
            return self._decide(X, partial(one_vs_one.one_vs_rest, n_classes=n_classes), n_jobs)
        return self._decide(X, lambda values: values, n_jobs)

    def predict(self, X: Any, n_jobs: int | None = None) -> NDArray:
        """The class of each of some valid rows."""
        n_classes = len(self.classes)
        if self.break_ties and n_classes > 2:
            if self.shape == "ovo":
                raise ValueError(
                    'break_ties=True needs decision_function_shape="ovr", and got "ovo".'
                )
            return self.classes[self.decision_function(X, n_jobs).argmax(axis=1)]
        winners = partial(one_vs_one.winners, n_classes=n_classes, order=self.tie_order)
        return self.classes[self._decide(X, winners, n_jobs)]

    def expansions(self) -> Iterator[one_vs_one.Expansion]:
        """The SVM of every pair of classes, over training rows."""
        return one_vs_one.expansions(self.support, self.n_support, self.dual_coef, self.intercept)

    def at_vectors(self) -> Iterator[Expansion]:
        """The SVM of every pair of classes, over the support vectors by position."""
        every = np.arange(len(self.support))
        return one_vs_one.expansions(every, self.n_support, self.dual_coef, self.intercept)

    @property
    def groups(self) -> NDArray[np.intp]:
        """The class of each support vector, by number."""
        return np.repeat(np.arange(len(self.classes)), self.n_support)

    @property
    def shares(self) -> NDArray[np.bool_]:
        """Of every pair, the classes whose support vectors it uses."""
        pairs = pair_classes(len(self.classes))
        shares = np.zeros((len(pairs[0]), len(self.classes)), dtype=bool)
        for own in pairs:
            shares[np.arange(len(own)), own] = True
        return shares

    def layout(self, expansions: list[Expansion]) -> one_vs_one.Layout:
        """Other SVMs of all pairs, over the support vectors by position, in SVC's layout."""
        return one_vs_one.assemble(self.groups, expansions)

    def pair_values(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Decision values of some rows in every pair."""
        return self._decide(X, lambda values: values, n_jobs)

    def _decide(
        self, X: Any, decide: Callable[[NDArray[np.float64]], NDArray], n_jobs: int | None
    ) -> NDArray:
        """What ``decide`` makes of the decision values of every pair of classes.

        They are positive for the first class of a pair, and handed over for a few rows at a
        time: with many classes there are very many pairs.
        """
        dual = one_vs_one.as_array(self.dual_coef)
        edges = np.concatenate([[0], np.cumsum(self.n_support)])

        def combine(sums: NDArray[np.float64]) -> NDArray:
            return decide(one_vs_one.pair_values(sums, self.intercept))

        return expand(self, X, edges, np.ascontiguousarray(dual.T), combine, n_jobs)


@dataclass(frozen=True)
class MachineModel:
    """A trained machine as a value: what predictions are made of, in SVR's layout."""

    spec: KernelSpec
    support: NDArray  #: rows of the training data
    vectors: Any  #: these rows; none where the kernel is precomputed
    dual_coef: Any
    intercept: NDArray[np.float64]

    def decision_function(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Decision values of valid rows."""
        coefs = self._coefs()
        edges = np.array([0, len(coefs)])

        def combine(sums: NDArray[np.float64]) -> NDArray:
            return sums[:, 0, 0] + self.intercept[0]

        return expand(self, X, edges, coefs[:, None], combine, n_jobs)

    def expansions(self) -> Iterator[Expansion]:
        """The machine, over training rows."""
        yield Expansion(self.support.astype(np.intp), self._coefs(), float(self.intercept[0]))

    def at_vectors(self) -> Iterator[Expansion]:
        """The machine, over its support vectors by position."""
        coefs = self._coefs()
        yield Expansion(np.arange(len(coefs)), coefs, float(self.intercept[0]))

    @property
    def groups(self) -> NDArray[np.intp]:
        """All support vectors are of one group."""
        return np.zeros(len(self.support), dtype=np.intp)

    @property
    def shares(self) -> NDArray[np.bool_]:
        """The machine uses all of them."""
        return np.ones((1, 1), dtype=bool)

    def layout(self, expansions: list[Expansion]) -> one_vs_one.Layout:
        """Another machine over the support vectors by position, in SVR's layout."""
        (one,) = expansions
        return one_vs_one.of_one_machine(one)

    def pair_values(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Decision values of some rows."""
        return self.decision_function(X, n_jobs)

    def _coefs(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(one_vs_one.as_array(self.dual_coef)[0])


def expand(
    model: PairwiseModel | MachineModel,
    X: Any,
    edges: NDArray[np.intp],
    coefs: NDArray[np.float64],
    combine: Callable[[NDArray[np.float64]], NDArray],
    n_jobs: int | None,
) -> NDArray:
    """Expansions of rows over a model's support vectors; see ``kernels.expansion``."""
    device = processor(model.spec.device)
    with one_blas_thread(), device.computing(), device.threads(n_jobs) as run:
        columns, rows = _support_columns(model, X)
        return expansion.expand(columns, rows, edges, coefs, combine, run)


def _support_columns(model: PairwiseModel | MachineModel, X: Any) -> tuple[Columns, Any]:
    """The support vectors as columns of the kernel matrix, and rows of the same kind."""
    if model.spec.kernel == "precomputed":
        kernel = TrainingKernel(model.spec, X[:0]).matrix(np.float64, _ACCURACY)  # of no rows
        return kernel.columns(model.support.astype(np.intp)), X
    vectors = model.vectors
    if sp.issparse(X) and not sp.issparse(vectors):
        vectors = type(X)(vectors)
    elif sp.issparse(vectors) and not sp.issparse(X):
        X = sp.csr_array(X)
    kernel = TrainingKernel(model.spec, vectors).matrix(np.float64, _ACCURACY)
    return kernel.columns(np.arange(vectors.shape[0])), X
