"""Small random problems, and what is known of their solutions by other means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.svm import SVC

from aesvm import AESVC
from tests import oracles

#: What rounding may do to kernel values, as a share of the largest.
ROUNDING = 1e-5

_LABELS = [np.arange(4), np.array([-7.0, 0.0, 1.0, 9.0]), np.array(["", "a", "b", "ccc"])]
_LABELS += [np.array([2**60, 2**60 + 1, -3, 5])]


class Problem(NamedTuple):
    """Rows with classes and weights, a kernel and a C, cut into chunks."""

    X: Any
    y: NDArray
    weights: NDArray[np.float64] | None
    kernel: dict[str, Any]
    C: float
    cuts: NDArray[np.intp]

    @property
    def used(self) -> NDArray[np.float64]:
        return np.ones(len(self.y)) if self.weights is None else self.weights

    @property
    def present(self) -> NDArray:
        """Classes with a row of non-zero weight."""
        return np.unique(self.y[self.used > 0])

    def chunks(self) -> list[tuple[Any, NDArray, NDArray | None]]:
        ends = [0, *self.cuts.tolist(), len(self.y)]
        parts = [slice(first, last) for first, last in pairwise(ends)]
        return [
            (self.X[part], self.y[part], None if self.weights is None else self.weights[part])
            for part in parts
        ]

    def gram(self, gamma: float, Y: Any = None) -> NDArray[np.float64]:
        return oracles.kernel(self.X, Y, **{**self.kernel, "gamma": gamma})


@st.composite
def problems(draw: Any, min_classes: int = 1) -> Problem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(3, 90)), draw(st.integers(1, 4))
    y = draw(st.sampled_from(_LABELS))[rng.integers(draw(st.integers(min_classes, 4)), size=n)]
    X = rng.normal(size=(n, d)) * 10.0 ** draw(st.floats(-2, 1))
    if draw(st.booleans()):
        X = np.round(X)
    if draw(st.sampled_from([False, False, True])):
        X = X[rng.integers(max(1, n // 4), size=n)]
    X = draw(st.sampled_from(_FORMS))(X)
    weights = None
    decades = draw(st.sampled_from([None, 0, 1, 6]))
    if decades is not None:
        weights = 10.0 ** rng.uniform(-decades, decades, n) * (rng.random(n) < 0.8)
    name = draw(st.sampled_from(["rbf", "rbf", "linear", "poly"]))
    kernel: dict[str, Any] = {"kernel": name}
    if name != "linear":
        kernel["gamma"] = draw(st.sampled_from(["scale", "auto"]) | _powers(-2, 1))
    if name == "poly":
        kernel |= {"degree": draw(st.integers(0, 2)), "coef0": float(draw(st.integers(0, 1)))}
    cuts = np.sort(draw(st.lists(st.integers(0, n), max_size=7)))
    return Problem(X, y, weights, kernel, draw(_powers(-2, 2)), cuts.astype(np.intp))


def _powers(low: float, high: float) -> st.SearchStrategy[float]:
    """Of ten."""
    return st.floats(low, high).map(lambda power: 10.0**power)


#: How rows are given.
_FORMS = (
    *(np.asarray, np.float32, np.asfortranarray, sp.csr_array, sp.csr_matrix),
    lambda X: sp.csr_array(X.astype(np.float32)),
)


@st.composite
def reductions(draw: Any) -> dict[str, Any]:
    size = draw(st.integers(1, 49))
    return {
        "hull_tol": draw(st.sampled_from([0.0, 1e-3, 0.1]) | _powers(-6, 1)),
        "subset_size": size,
        "partition_size": size * draw(st.integers(1, 4)),
        "partition": draw(st.sampled_from(["distance", "sequence"])),
    }


#: None, or one that may be too small.
budgets = st.just({}) | st.fixed_dictionaries(
    {
        "memory_budget": st.integers(1, 3000),
        "on_overflow": st.sampled_from(["raise", "loosen", "loosen"]),
    }
)


def with_gamma(problem: Problem, gamma: float) -> Problem:
    """With a number for gamma, as ``partial_fit`` needs."""
    if "gamma" not in problem.kernel:
        return problem
    return problem._replace(kernel={**problem.kernel, "gamma": gamma})


# Objectives


def pairs_of(model: Any, problem: Problem) -> Iterator[tuple[NDArray, float, NDArray]]:
    """Scores of all rows, the squared norm, and the sign of each row (or 0), pair by pair."""
    classes, vectors = model.classes_, model.support_vectors_
    K = problem.gram(model.gamma_, vectors)
    own = oracles.kernel(vectors, **{**problem.kernel, "gamma": model.gamma_})
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    of_class = np.repeat(np.arange(len(classes)), model.n_support_)
    for number, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        coefs = dual[j - 1] * (of_class == i) + dual[i] * (of_class == j)
        signs = (problem.y == classes[i]) * 1.0 - (problem.y == classes[j])
        if len(classes) == 2:
            signs = -signs
        scores = K @ coefs + model.intercept_[number]
        yield scores, float(coefs @ own @ coefs), signs


def costs_of(model: Any, problem: Problem) -> NDArray[np.float64]:
    places = np.searchsorted(model.classes_, problem.y)
    return problem.C * model.class_weight_[places] * problem.used


def objective(model: Any, problem: Problem) -> float:
    """F1 of all pairs of classes together, by the attributes, in double precision."""
    costs = costs_of(model, problem)
    total = 0.0
    for scores, norm, signs in pairs_of(model, problem):
        total += 0.5 * norm + (costs * (signs != 0)) @ np.maximum(0.0, 1.0 - signs * scores)
    return float(total)


def known_optimum(model: AESVC, problem: Problem) -> float:
    """The objective that SVC reaches: no smaller than the optimum, and near it."""
    rows = np.flatnonzero(problem.used)
    few = problem._replace(
        X=problem.X[rows], y=problem.y[rows], weights=problem.used[rows], cuts=rows[:0]
    )
    places = np.searchsorted(model.classes_, few.y)
    kernel = {
        **problem.kernel,
        "gamma": model.gamma_,
    }  # SVC looks at it with any kernel
    weights = few.used * model.class_weight_[places]
    svc = SVC(C=problem.C, tol=1e-8, max_iter=200_000, decision_function_shape="ovo", **kernel)
    rows_64 = few.X.astype(np.float64)
    svc.fit(sp.csr_matrix(rows_64) if sp.issparse(rows_64) else rows_64, few.y, weights)
    svc.gamma_ = model.gamma_
    svc.class_weight_ = np.array(
        [model.class_weight_[model.classes_ == label][0] for label in svc.classes_]
    )
    return objective(svc, few)


def tolerance(model: AESVC, problem: Problem) -> float:
    """What the stopping criterion may leave of the objective, and rounding."""
    pairs = len(model.classes_) - 1
    return 2 * pairs * model.tol * float(costs_of(model, problem).sum()) + rounding_of_losses(
        model, problem
    )


def rounding_of_scores(model: AESVC, problem: Problem) -> float:
    K = problem.gram(model.gamma_, model.support_vectors_)
    total = float(np.abs(model.dual_coef_).sum())
    return ROUNDING * (total * (float(np.abs(K).max()) if K.size else 0.0) + 1.0)


def rounding_of_losses(model: AESVC, problem: Problem) -> float:
    pairs = len(model.classes_) - 1
    return pairs * float(costs_of(model, problem).sum()) * rounding_of_scores(model, problem)


def largest(K: NDArray) -> float:
    return max(1.0, float(np.abs(K).max()))
