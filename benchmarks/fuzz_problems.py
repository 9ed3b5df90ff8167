"""Small random problems, and what is known of their solutions by other means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC
from tests import oracles

from aesvm import AESVC

#: What rounding may do to kernel values, as a share of the largest.
ROUNDING = 1e-5

_LABELS = [np.arange(4), np.array([-7.0, 0.0, 1.0, 9.0]), np.array(["", "a", "b", "ccc"])]
_LABELS += [np.array([2**60, 2**60 + 1, -3, 5])]


def pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[rng.integers(len(options))]


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


def random_problem(rng: np.random.Generator, n_classes: int | None = None) -> Problem:
    n, d = int(np.exp(rng.uniform(1.2, 4.5))), int(rng.integers(1, 5))
    labels = pick(rng, _LABELS)
    y = labels[rng.integers(n_classes or int(rng.integers(1, 5)), size=n)]
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 1)
    if rng.random() < 0.4:
        X = np.round(X)
    if rng.random() < 0.3:
        X = X[rng.integers(max(1, n // 4), size=n)]
    X = pick(rng, [_same, np.float32, np.asfortranarray, sp.csr_array, sp.csr_matrix, _single])(X)
    weights = None
    if rng.random() < 0.6:
        decades = pick(rng, [0, 1, 6])
        weights = 10.0 ** rng.uniform(-decades, decades, n) * (rng.random(n) < 0.8)
    name = pick(rng, ["rbf", "rbf", "linear", "poly"])
    kernel: dict[str, Any] = {"kernel": name}
    if name != "linear":
        kernel["gamma"] = pick(rng, ["scale", "auto", 10.0 ** rng.uniform(-2, 1)])
    if name == "poly":
        kernel |= {"degree": int(rng.integers(0, 3)), "coef0": float(rng.integers(0, 2))}
    cuts = np.sort(rng.integers(0, n + 1, size=int(rng.integers(0, 8))))
    return Problem(X, y, weights, kernel, 10.0 ** rng.uniform(-2, 2), cuts)


def _same(X: NDArray) -> NDArray:
    return X


def _single(X: NDArray) -> sp.csr_array:
    return sp.csr_array(X.astype(np.float32))


def random_reduction(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(1, 50))
    return {
        "hull_tol": pick(rng, [0.0, 1e-3, 0.1, 10.0 ** rng.uniform(-6, 1)]),
        "subset_size": size,
        "partition_size": size * int(rng.integers(1, 5)),
        "partition": pick(rng, ["distance", "sequence"]),
    }


def random_budget(rng: np.random.Generator) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {}
    budget = int(np.exp(rng.uniform(pick(rng, [0, 5, 5]), 8)))
    return {"memory_budget": budget, "on_overflow": pick(rng, ["raise", "loosen", "loosen"])}


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
