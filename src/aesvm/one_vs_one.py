"""Many classes from pairs of them, in the layout of LIBSVM and scikit-learn.

Classes i < j form a pair, in the order (0, 1), (0, 2), ..., (1, 2), ...; its decision value is
positive for class i. Support vectors are listed class by class. One of class c takes part in
``n_classes - 1`` pairs, and has a coefficient for each: row ``j - 1`` of the dual coefficients
for the pair with a later class j, row ``i`` for that with an earlier class i. With two classes,
as in scikit-learn, signs are turned round: positive is the second class.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.dual import Solution


def assemble(
    members: list[NDArray[np.intp]], solutions: list[Solution | None]
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Support vectors, their number in each class, dual coefficients and intercepts.

    Parameters
    ----------
    members : list of ndarray
        The representatives of each class, by position.
    solutions : list of Solution or None
        Of every pair, the variables of its first class first. None where a class of the pair
        has no representatives: the other one wins.
    """
    n_classes = len(members)
    coefs = np.zeros((n_classes - 1, sum(len(part) for part in members)))
    intercept = np.empty(len(solutions))
    pairs = combinations(range(n_classes), 2)
    for pair, ((i, j), solution) in enumerate(zip(pairs, solutions, strict=True)):
        if solution is None:
            intercept[pair] = float(len(members[i]) > 0) - float(len(members[j]) > 0)
            continue
        ones = len(members[i])
        coefs[j - 1, members[i]] = solution.alpha[:ones]
        coefs[i, members[j]] = -solution.alpha[ones:]
        intercept[pair] = -solution.offsets[0]
    used = [part[coefs[:, part].any(axis=0)] for part in members]
    order = np.concatenate(used)
    sign = -1.0 if n_classes == 2 else 1.0
    n_support = np.array([len(part) for part in used], dtype=np.int32)
    return order, n_support, sign * coefs[:, order], sign * intercept


def pair_values(sums: NDArray[np.float64], intercept: NDArray[np.float64]) -> NDArray[np.float64]:
    """Decision values of some rows in every pair.

    ``sums[:, c]`` has the sums over the support vectors of class c, with each of their
    coefficients.
    """
    n_classes = sums.shape[1]
    i, j = np.array(list(combinations(range(n_classes), 2))).T
    sign = -1.0 if n_classes == 2 else 1.0
    return sign * (sums[:, i, j - 1] + sums[:, j, i] + intercept)


def winners(values: NDArray[np.float64], n_classes: int) -> NDArray[np.intp]:
    """The class with most votes in each row; the first of them where votes are equal."""
    votes = np.zeros((len(values), n_classes), dtype=np.intp)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        first = values[:, pair] > 0
        votes[:, i] += first
        votes[:, j] += ~first
    return votes.argmax(axis=1)


def feature_weights(dual: Any, vectors: Any, n_support: NDArray[np.int32]) -> Any:
    """The weights of the features in every pair, for the linear kernel."""
    if len(n_support) == 2:
        return dual @ vectors
    parts = [slice(a, b) for a, b in pairwise(np.r_[0, np.cumsum(n_support)])]
    lines = [
        dual[[j - 1], one] @ vectors[one] + dual[[i], other] @ vectors[other]
        for (i, one), (j, other) in combinations(enumerate(parts), 2)
    ]
    return sp.vstack(lines, format="csr") if sp.issparse(vectors) else np.vstack(lines)
