"""Slow, independent answers that the tests compare with."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize, nnls
from scipy.spatial.distance import cdist


def kernel(X, Y=None, *, kernel="rbf", gamma=1.0, degree=3, coef0=0.0):
    """Kernel values by their textbook formulas, in double precision."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
    Y = X if Y is None else np.asarray(Y.toarray() if sp.issparse(Y) else Y, dtype=float)
    if kernel == "rbf":
        return np.exp(-gamma * cdist(X, Y, "sqeuclidean"))
    products = X @ Y.T
    if kernel == "linear":
        return products
    if kernel == "poly":
        return (gamma * products + coef0) ** degree
    assert kernel == "sigmoid"
    return np.tanh(gamma * products + coef0)


def hull_distances(K, rows, members):
    """Squared distance in kernel space of every row to the convex hull of the members.

    Non-negative least squares problems on a square root of K, with a heavily weighted
    equation for the sum of the coefficients; scaled to sum to one, these are feasible. Members
    are in the hull. (SciPy 1.15.0 finds some of them a little outside.)
    """
    if len(rows) == 0:
        return np.empty(0)
    values, vectors = np.linalg.eigh(K)
    some = values > 1e-15 * values.max()  # what is left out is the rounding of K
    root = np.sqrt(values[some])[:, None] * vectors.T[some]
    heavy = 1e4 * max(1.0, np.sqrt(np.abs(K.diagonal()).max()))
    A = np.vstack([root[:, members], np.full((1, len(members)), heavy)])
    distances = []
    for i in rows:
        coefs, _ = nnls(A, np.append(root[:, i], heavy))
        coefs /= coefs.sum()
        distances.append(((root[:, i] - root[:, members] @ coefs) ** 2).sum())
    return np.where(np.isin(rows, members), 0.0, distances)


def hull_distance_slsqp(K, i, members):
    """The same of row i by sequential quadratic programming, for small problems."""
    Q, k = K[np.ix_(members, members)], K[i, members]
    start = np.full(len(members), 1.0 / len(members))
    result = minimize(
        lambda mu: K[i, i] - 2 * mu @ k + mu @ Q @ mu,
        start,
        jac=lambda mu: 2 * (Q @ mu - k),
        bounds=[(0, 1)] * len(members),
        constraints={"type": "eq", "fun": lambda mu: mu.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return float(result.fun)


def enclosing_ball(K):
    """Squared radius and centre coefficients of the smallest enclosing ball."""
    diag = K.diagonal()
    result = minimize(
        lambda a: a @ K @ a - a @ diag,
        np.full(len(K), 1.0 / len(K)),
        jac=lambda a: 2 * K @ a - diag,
        bounds=[(0, 1)] * len(K),
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    return -float(result.fun), result.x


def residuals(K, combinations):
    """Squared distance of every row to its combination, and the combinations' Gram."""
    G = np.asarray(combinations.todense()) if sp.issparse(combinations) else combinations
    return K.diagonal() - 2 * (G * K).sum(axis=1) + ((G @ K) * G).sum(axis=1)


# The paper's segregation methods, transcribed line by line. Lists of row indices stand for
# X'; the rearranged X' and the array Delta' are the list of subsets, in order. ``distance``
# gives d_i = |phi(x_i) - phi(x_j)|^2.


def fls1(rows, P):
    subsets = []
    for outer in range(1, -(-len(rows) // P) + 1):
        subsets.append(rows[(outer - 1) * P : min(outer * P, len(rows))])
    return subsets


def fls2(rows, P, distance):
    first = rows[0]
    d = {i: distance(i, first) for i in rows}
    k = next(k for k in rows if sum(d[i] < d[k] for i in rows) == len(rows) // 2)
    X1 = [i for i in rows if d[i] < d[k]]
    X2 = [i for i in rows if i not in X1]
    if len(rows) / 2 <= P:
        return [subset for subset in (X1, X2) if subset]
    return [s for half in (X1, X2) if half for s in fls2(half, P, distance)]


def sls(rows, V, distance, squared_norm):
    subsets = []
    anchor = max(rows, key=squared_norm)
    while len(rows) > V:
        d = {i: distance(i, anchor) for i in rows}
        k = next(k for k in rows if sum(d[i] < d[k] for i in rows) == V)
        X1 = [i for i in rows if d[i] < d[k]]
        rows = [i for i in rows if i not in X1]
        subsets.append(X1)
        anchor = k
    return [*subsets, rows]


def svm_dual(K, signs, linear, bounds, groups, start):
    """Minimum of 1/2 a'Qa + p'a between bounds, with the group sums of a feasible start."""
    Q = K * np.outer(signs, signs)
    constraints = [
        {
            "type": "eq",
            "fun": lambda a, s=signs * (groups == g): s @ (a - start),
            "jac": lambda a, s=signs * (groups == g): s,
        }
        for g in np.unique(groups)
    ]
    result = minimize(
        lambda a: 0.5 * a @ Q @ a + linear @ a,
        start,
        jac=lambda a: Q @ a + linear,
        bounds=[(0.0, bound) for bound in bounds],
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    return float(result.fun)
