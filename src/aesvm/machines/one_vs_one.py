"""Many classes from pairs of them, in the layout of LIBSVM and scikit-learn.

Classes i < j form a pair, in the order (0, 1), (0, 2), ..., (1, 2), ...; its decision value is
positive for class i. Support vectors are listed class by class. One of class c takes part in
``n_classes - 1`` pairs, and has a coefficient for each: row ``j - 1`` of the dual coefficients for
the pair with a later class j, row ``i`` for that with an earlier class i. With two classes, as in
scikit-learn, signs are turned round: positive is the second class. ``Fitted`` are the attributes of
SVC and SVR.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels import KernelSpec
from aesvm.kernels.sparse import narrowed
from aesvm.machines.problem import Expansion, pair_classes
from aesvm.machines.results import Terms, TrainedMachines


def pair_number(
    first: NDArray[np.intp], second: NDArray[np.intp], n_classes: int
) -> NDArray[np.intp]:
    """The number of the pair of some classes, the first of which is the smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.one_vs_one import pair_number
    >>> pair_number(np.array([0, 1]), np.array([2, 2]), 3)
    array([1, 2])
    """
    return first * n_classes - first * (first + 1) // 2 + second - first - 1


class Layout(NamedTuple):
    """All pairs of classes, as SVC's attributes have them."""

    support: NDArray[np.intp]
    n_support: NDArray[np.int32]
    dual_coef: NDArray[np.float64]
    intercept: NDArray[np.float64]


def assemble(labels: NDArray[np.intp], trained: list[Expansion]) -> Layout:
    """The layout of machines that are given one by one; see ``layout_of``."""
    terms = Terms.of((one.rows, one.coefs) for one in trained)
    return layout_of(labels, terms, np.array([one.offset for one in trained]))


def layout_of(labels: NDArray[np.intp], terms: Terms, intercept: NDArray[np.float64]) -> Layout:
    """Support vectors, their number in each class, dual coefficients and intercepts.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Class of each training row, by number.
    terms : Terms
        Of every pair.
    intercept : ndarray
        The same.
    """
    n_classes = round((1 + sqrt(1 + 8 * len(intercept))) / 2)
    held = np.flatnonzero(terms.coefs)
    rows, coefs, pairs = terms.rows[held], terms.coefs[held], terms.machines[held]
    is_used = np.zeros(len(labels), dtype=bool)
    is_used[rows] = True
    used = np.flatnonzero(is_used)
    order = used[np.argsort(labels[used], kind="stable")]
    place = np.empty(len(labels), dtype=np.intp)
    place[order] = np.arange(len(order))
    i, j = pair_classes(n_classes)
    i, j = i[pairs], j[pairs]
    dual = np.zeros((n_classes - 1, len(order)))
    dual[np.where(labels[rows] == i, j - 1, i), place[rows]] = coefs
    sign = -1.0 if n_classes == 2 else 1.0
    n_support = np.bincount(labels[order], minlength=n_classes).astype(np.int32)
    return Layout(order, n_support, sign * dual, sign * intercept)


def of_one_machine(expansion: Expansion) -> Layout:
    """A single machine, as SVR's attributes have it."""
    rows, coefs, offset = expansion
    n_support = np.array([len(rows)], dtype=np.int32)
    return Layout(rows, n_support, coefs[None, :], np.array([offset]))


def expansions(
    support: NDArray[np.integer],
    n_support: NDArray[np.int32],
    dual: Any,
    intercept: NDArray[np.float64],
) -> Iterator[Expansion]:
    """Every pair of classes, taken from a model's attributes again."""
    dual = as_array(dual)
    sign = -1.0 if len(n_support) == 2 else 1.0
    ends = np.cumsum(n_support)
    parts = [np.arange(end - size, end) for end, size in zip(ends, n_support, strict=True)]
    for number, (i, j) in enumerate(combinations(range(len(parts)), 2)):
        coefs = sign * np.concatenate([dual[j - 1, parts[i]], dual[i, parts[j]]])
        rows = support[np.concatenate([parts[i], parts[j]])].astype(np.intp)
        yield Expansion(rows[coefs != 0], coefs[coefs != 0], sign * float(intercept[number]))


def as_array(dual: Any) -> NDArray[np.float64]:
    """Coefficients in SVC's layout, which are sparse where the rows are."""
    return dual.toarray() if sp.issparse(dual) else dual


def pair_values(sums: NDArray[np.float64], intercept: NDArray[np.float64]) -> NDArray[np.float64]:
    """Decision values of some rows in every pair.

    ``sums[:, c]`` has the sums over the support vectors of class c, with each of their
    coefficients.
    """
    n_classes = sums.shape[1]
    values = _like(sums, len(intercept))
    end = 0
    for first in range(n_classes - 1):  # by slices: indices of all pairs would take twice the time
        begin, end = end, end + n_classes - 1 - first
        np.add(sums[:, first, first:], sums[:, first + 1 :, first], out=values[:, begin:end])
    values += intercept
    return -values if n_classes == 2 else values


def winners(
    values: NDArray[np.float64], n_classes: int, order: NDArray[np.intp] | None = None
) -> NDArray[np.intp]:
    """The class with most votes in each row; the first of them where votes are equal.

    A value of 0 is a vote for the later class of its pair, as in LIBSVM. ``order``: which class
    comes first, where that is not their own order.
    """
    if order is None:
        return _added_up((values > 0).astype(np.float64), n_classes, 1.0).argmax(axis=1)
    won = (values > 0) | ((values == 0) & turned_pairs(order))
    votes = _added_up(won.astype(np.float64), n_classes, 1.0)
    return order[votes[:, order].argmax(axis=1)]


def turned_pairs(order: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Of every pair, whether its first class comes after its second one in an order of classes.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.machines.one_vs_one import turned_pairs
    >>> turned_pairs(np.array([2, 0, 1]))
    array([False,  True,  True])
    """
    place = np.argsort(order)
    first, second = pair_classes(len(order))
    return place[first] > place[second]


def one_vs_rest(values: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Votes, and less than half a vote by the sum of a class's values, as in scikit-learn."""
    votes = _added_up((values >= 0).astype(np.float64), n_classes, 1.0)
    sums = _added_up(values, n_classes, 0.0)
    return votes + sums / (3.0 * (np.abs(sums) + 1.0))


def _added_up(values: NDArray[np.float64], n_classes: int, whole: float) -> NDArray[np.float64]:
    """The value of every pair added up for its first class; what is left of ``whole``, for its
    second.
    """
    sums = _like(values, n_classes)
    sums.fill(0.0)
    end = 0
    for first in range(n_classes - 1):
        begin, end = end, end + n_classes - 1 - first
        own = values[:, begin:end]
        sums[:, first] += own.sum(axis=1)
        sums[:, first + 1 :] += whole - own
    return sums


def _like(values: NDArray[np.float64], n_columns: int) -> NDArray[np.float64]:
    """Memory for others of the same rows, which lie one after another where those do."""
    rows_first = values.strides[0] > values.strides[-1]
    return np.empty((len(values), n_columns), order="C" if rows_first else "F")


def feature_weights(dual: Any, vectors: Any, n_support: NDArray[np.int32]) -> Any:
    """The weights of the features in every pair, for the linear kernel."""
    if not sp.issparse(vectors):
        return _pair_weights(dual, vectors, n_support)
    features, narrow = narrowed(vectors)
    weights = _pair_weights(dual, narrow, n_support)
    entries = weights.data, features[weights.indices], weights.indptr
    return type(vectors)(entries, shape=(weights.shape[0], vectors.shape[1]))


def _pair_weights(dual: Any, vectors: Any, n_support: NDArray[np.int32]) -> Any:
    if len(n_support) == 2:
        return dual @ vectors
    parts = [slice(a, b) for a, b in pairwise(np.r_[0, np.cumsum(n_support)])]
    lines = [
        dual[[j - 1], one] @ vectors[one] + dual[[i], other] @ vectors[other]
        for (i, one), (j, other) in combinations(enumerate(parts), 2)
    ]
    return sp.vstack(lines, format="csr") if sp.issparse(vectors) else np.vstack(lines)


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
    layout = layout_of(labels, trained.decisions, trained.intercept)
    return _fitted(X, layout, trained.n_iter, trained, spec)


def fitted_machine(X: Any, trained: TrainedMachines, spec: KernelSpec) -> Fitted:
    """The only machine, in SVR's layout."""
    rows, coefs = trained.decisions.one(0)
    layout = of_one_machine(Expansion(rows.astype(np.intp), coefs, float(trained.intercept[0])))
    return _fitted(X, layout, int(trained.n_iter[0]), trained, spec)


def _fitted(
    X: Any,
    layout: Layout,
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
