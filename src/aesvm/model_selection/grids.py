"""Grids of parameters: one that centres itself on the data, and the paper's.

gamma of the RBF kernel is the inverse of a squared distance, beyond which kernel values are nearly
zero: the distances between rows of the data give its range. C limits what a row can add to a
function whose unit is the spread of the data in kernel space, and of the targets in a regression.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import loguniform
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable

from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.validation import from_gpu, validated_rows
from aesvm.kernels import resolve_gamma
from aesvm.model_selection.paths import svm_of
from aesvm.runtime.scikit_learn import safe_indexing

#: Rows that distances are measured on.
_SAMPLE = 1000

#: Values of each parameter.
_VALUES = 5

#: gamma goes from the inverse of the upper of these quantiles of squared distances, and a factor
#: below, to that of the lower, and a factor above.
_QUANTILES, _BEYOND = (0.1, 0.9), 4.0

#: C times the spread of the data in kernel space; and of a regression, that over the spread of the
#: targets: there, a larger one takes minutes, and gains little.
_COSTS, _COSTS_OF_TARGETS = (0.1, 1000.0), (0.1, 100.0)

#: Squared distances below this, and above its inverse, have no gamma that could be computed with.
_LEAST = 1e-200

#: nu of a classifier or regression, as fractions of the largest possible; and of outliers.
_NUS, _OUTLIERS = (0.05, 0.8), (0.005, 0.2)


def paper_grid(estimator: Any = None) -> dict[str, list[float]]:
    """The grid of the paper's experiments: twelve values of C times seven of gamma.

    Parameters
    ----------
    estimator : estimator, default=None
        A pipeline, so that parameters are named as of its last step.

    Examples
    --------
    >>> from aesvm.model_selection import paper_grid
    >>> {name: (len(values), min(values), max(values)) for name, values in paper_grid().items()}
    {'C': (12, 0.0625, 128.0), 'gamma': (7, 0.0625, 4.0)}
    """
    prefix = ""
    if estimator is not None:
        prefix, machine = svm_of(estimator, {})
        if not hasattr(machine, "C"):
            raise ValueError(
                'param_grid="paper" has values of C and gamma, and '
                f"{type(estimator).__name__} does not end in an SVM of aesvm with a C: "
                'use "svm", or a grid of your own.'
            )
    return {
        f"{prefix}C": [2.0**k for k in range(-4, 8)],
        f"{prefix}gamma": [2.0**k for k in range(-4, 3)],
    }


def svm_grid(estimator: Any, X: ArrayLike, y: ArrayLike | None = None) -> dict[str, list[float]]:
    """A grid that centres itself on the data, five values of each parameter.

    Parameters
    ----------
    estimator : estimator
        An SVM of aesvm, or a pipeline that ends in one: its other steps transform X.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), default=None

    Returns
    -------
    grid : dict
        gamma (of the RBF kernel) and C, or nu where there is no C.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection import svm_grid
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> grid = svm_grid(AESVC(), X, y)
    >>> [len(values) for values in grid.values()]
    [5, 5]
    """
    return _values_of(_ranges(estimator, X, y))


def _values_of(ranges: dict[str, tuple[float, float]]) -> dict[str, list[float]]:
    return {
        name: [float(f"{value:.3g}") for value in np.geomspace(low, high, _VALUES)]
        for name, (low, high) in ranges.items()
    }


def svm_distributions(estimator: Any, X: ArrayLike, y: ArrayLike | None = None) -> dict[str, Any]:
    """The ranges of ``svm_grid``, to draw from uniformly on a logarithmic scale.

    gamma is drawn from its five values: candidates with the same kernel share more.
    """
    ranges = _ranges(estimator, X, y)
    grid = _values_of(ranges)
    return {
        name: grid[name] if name.endswith("gamma") else loguniform(low, high)
        for name, (low, high) in ranges.items()
    }


def _ranges(estimator: Any, X: Any, y: Any) -> dict[str, tuple[float, float]]:
    prefix, svm = svm_of(estimator, {})
    if svm is None:
        raise ValueError(
            'The candidates "svm" are for estimators of aesvm and pipelines that end in one, and '
            f"got {type(estimator).__name__}: give candidates of your own."
        )
    y = from_gpu(svm, None, y)[1]
    rows = from_gpu(svm, _transformed_sample(estimator, X, y))[0]
    svm = clone(svm)
    ranges: dict[str, tuple[float, float]] = {}
    if svm.kernel == "precomputed" or callable(svm.kernel):
        spread = 1.0
    else:
        rows = validated_rows(svm, rows, reset=True)
        if svm.kernel == "rbf":
            ranges[f"{prefix}gamma"] = low, high = _gammas(rows)
            svm.gamma = float(np.sqrt(low * high))
        spread = _kernel_spread(svm, rows)
    if hasattr(svm, "C"):
        (low, high), targets = _COSTS, 1.0
        if is_regressor(svm):
            if y is None:
                raise ValueError("y=None: the range of C of a regression depends on y.")
            (low, high), targets = _COSTS_OF_TARGETS, float(np.std(np.asarray(y, float))) or 1.0
        ranges[f"{prefix}C"] = low * targets / spread, high * targets / spread
    else:
        largest = 1.0
        if is_classifier(svm):
            if y is None:
                raise ValueError("y=None: the range of nu of a classifier depends on y.")
            counts = np.sort(np.unique(np.asarray(y), return_counts=True)[1])
            largest = 2.0 * counts[0] / (counts[0] + counts[-1])
        low, high = _NUS if is_classifier(svm) or is_regressor(svm) else _OUTLIERS
        ranges[f"{prefix}nu"] = low * largest, high * largest
    return ranges


def _transformed_sample(estimator: Any, X: Any, y: Any) -> Any:
    """Some rows, as the SVM will see them."""
    X = indexable(X)[0]
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    at = np.sort(np.random.default_rng(0).permutation(n_rows)[:_SAMPLE])
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        X = clone(Pipeline(estimator.steps[:-1])).fit_transform(X, y)
    return safe_indexing(X if hasattr(X, "shape") else np.asarray(X), at)


def _gammas(rows: Any) -> tuple[float, float]:
    """The range of gamma, from distances between random pairs of rows."""
    n = rows.shape[0]
    other = np.random.default_rng(1).permutation(n)
    apart = np.arange(n) != other
    difference = rows[np.flatnonzero(apart)] - rows[other[apart]]
    with np.errstate(over="ignore"):
        squared = (
            difference.multiply(difference) if hasattr(difference, "multiply") else difference**2
        )
    distances = np.asarray(squared.sum(axis=1), dtype=float).ravel()
    distances = distances[(distances > _LEAST) & (distances < 1.0 / _LEAST)]
    if not len(distances):
        return 1.0 / _BEYOND, _BEYOND
    near, far = np.quantile(distances, _QUANTILES)
    return float(1.0 / (_BEYOND * far)), float(_BEYOND / near)


def _kernel_spread(svm: Any, rows: Any) -> float:
    """The mean squared distance of rows from their centre, in kernel space."""
    gamma = resolve_gamma(svm.gamma, rows, svm.kernel)
    every: NDArray[np.intp] = np.arange(rows.shape[0])
    values = kernel_spec(svm, gamma).matrix(rows, dtype=np.float64).square(every)
    spread = float(values.diagonal().mean() - values.mean())
    return spread if spread > 0 and np.isfinite(spread) else 1.0
