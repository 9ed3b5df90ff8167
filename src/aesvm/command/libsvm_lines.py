"""The lines that LIBSVM's svm-train and svm-predict print, for scripts that read them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.command.outcome import CommandError
from aesvm.machines.one_vs_one import as_array

#: A coefficient that is this near to its bound is at it.
_AT_BOUND = 1e-9


class Solved(NamedTuple):
    """What LIBSVM prints of a machine; None where it prints nothing."""

    n_iter: int
    obj: float
    rho: float
    n_sv: int
    n_bsv: int
    nu: float | None = None
    C: float | None = None
    epsilon: float | None = None

    def lines(self) -> Iterator[str]:
        """As LIBSVM prints them."""
        yield f"optimization finished, #iter = {self.n_iter}"
        for name in ("nu", "C", "epsilon"):
            if getattr(self, name) is not None:
                yield f"{name} = {getattr(self, name):.6f}"
        yield f"obj = {self.obj:.6f}, rho = {self.rho:.6f}"
        yield f"nSV = {self.n_sv}, nBSV = {self.n_bsv}"


def training_lines(machines: list[Solved], n_support: int, classifies: bool) -> Iterator[str]:
    """Those of svm-train."""
    for machine in machines:
        yield from machine.lines()
    if classifies:
        yield f"Total nSV = {n_support}"


def solved(model: Any, y: NDArray | None, weights: NDArray | None) -> list[Solved]:
    """The machines of a fitted estimator in LIBSVM's order, its classes as they come in y.

    Without y, as where rows were streamed, classes are in ascending order.
    """
    dual = as_array(model.dual_coef_)
    sizes = np.ones(dual.shape[1])
    if weights is not None:
        sizes = weights[model.support_]
    n_iter, objective = np.atleast_1d(model.n_iter_), -model.dual_objective_  # as it is minimised
    if not hasattr(model, "classes_"):
        n_rows = model.n_seen_ if y is None else float(len(y))
        alphas = np.abs(dual[0])
        bound = getattr(model, "C", 1.0)
        found = _solved(n_iter[0], objective[0], -model.intercept_[0], alphas, bound * sizes)
        if hasattr(model, "epsilon"):
            found = found._replace(nu=float(alphas.sum()) / (bound * n_rows))
        elif hasattr(model, "epsilon_"):
            found = found._replace(epsilon=model.epsilon_)
        return [found]
    return _of_pairs(model, dual, sizes, y, n_iter, objective)


def _of_pairs(
    model: Any,
    dual: NDArray,
    sizes: NDArray,
    y: NDArray | None,
    n_iter: NDArray,
    objective: NDArray,
) -> list[Solved]:
    order = libsvm_order(model.classes_, y)
    ends = np.cumsum(model.n_support_)
    of_class = [slice(end - n, end) for end, n in zip(ends, model.n_support_, strict=True)]
    numbers = {pair: at for at, pair in enumerate(combinations(range(len(order)), 2))}
    counts = None if y is None else [int((y == one).sum()) for one in model.classes_]
    costs = getattr(model, "C", 1.0) * np.asarray(model.class_weight_)
    machines = []
    for first, second in combinations(order, 2):
        i, j = sorted((first, second))
        at = numbers[i, j]
        alphas = np.abs(np.concatenate([dual[j - 1, of_class[i]], dual[i, of_class[j]]]))
        bounds = np.concatenate([costs[i] * sizes[of_class[i]], costs[j] * sizes[of_class[j]]])
        rho = -model.intercept_[at] * (-1 if len(order) == 2 else 1) * (1 if first == i else -1)
        if hasattr(model, "nu"):
            bounds = np.full(len(alphas), alphas.max(initial=0.0))
        found = _solved(n_iter[at], objective[at], rho, alphas, bounds)
        if hasattr(model, "nu"):
            C = float(bounds.max(initial=0.0))
            found = found._replace(C=C, obj=C**2 * found.obj)  # LIBSVM's is of scaled coefficients
        elif counts is not None and costs[i] == costs[j]:
            found = found._replace(nu=float(alphas.sum()) / (costs[i] * (counts[i] + counts[j])))
        machines.append(found)
    return machines


def libsvm_order(classes: NDArray, y: NDArray | None) -> list[int]:
    """Classes as LIBSVM orders them: as they come, but +1 before -1."""
    if y is None:
        return list(range(len(classes)))
    firsts = [int(np.argmax(y == one)) for one in classes]
    order = sorted(range(len(classes)), key=firsts.__getitem__)
    if classes.dtype.kind in "iuf" and classes.tolist() == [-1, 1]:
        return [1, 0]
    return order


def _solved(n_iter: Any, objective: Any, rho: Any, alphas: NDArray, bounds: NDArray) -> Solved:
    used = alphas > 0
    at_bound = used & (alphas >= (1.0 - _AT_BOUND) * bounds)
    return Solved(int(n_iter), float(objective), float(rho), int(used.sum()), int(at_bound.sum()))


class Agreement:
    """How predictions agree with targets, counted chunk by chunk."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression
        self.n_rows = 0
        self.correct = 0
        self.origin = 0.0  # that predictions p and targets t are counted from: digits are kept so
        self.sums = np.zeros(6)  # of squared errors, p, t, p^2, t^2 and p t

    def add(self, predicted: NDArray, targets: NDArray) -> None:
        """Some more rows."""
        is_first = not self.n_rows
        self.n_rows += len(predicted)
        if not self.regression:
            self.correct += int(np.sum(predicted == targets))
            return
        if targets.dtype.kind not in "biuf":
            raise CommandError(f"the target is {targets[0]!s:.40}, and the model predicts numbers.")
        if is_first:
            self.origin = float(targets[0])
        p, t = predicted - self.origin, targets - self.origin
        self.sums += [float(one.sum()) for one in ((p - t) ** 2, p, t, p**2, t**2, p * t)]

    def found(self) -> dict[str, float | int]:
        """The numbers, by name."""
        if not self.regression:
            share = 100.0 * self.correct / self.n_rows
            return {"accuracy": share, "correct": self.correct, "rows": self.n_rows}
        squares, p, t, pp, tt, pt = self.sums
        n = self.n_rows
        spread = (n * pp - p * p) * (n * tt - t * t)
        correlation = (n * pt - p * t) ** 2 / spread if spread else float("nan")
        return {
            "mean_squared_error": squares / n,
            "squared_correlation_coefficient": correlation,
            "rows": n,
        }

    def prediction_lines(self) -> Iterator[str]:
        """Those of svm-predict."""
        found = self.found()
        if self.regression:
            yield f"Mean squared error = {found['mean_squared_error']:g} (regression)"
            correlation = found["squared_correlation_coefficient"]
            yield f"Squared correlation coefficient = {correlation:g} (regression)"
        else:
            counts = f"({self.correct}/{self.n_rows})"
            yield f"Accuracy = {found['accuracy']:g}% {counts} (classification)"

    def cross_validation_lines(self) -> Iterator[str]:
        """Those of svm-train -v."""
        found = self.found()
        if self.regression:
            yield f"Cross Validation Mean squared error = {found['mean_squared_error']:g}"
            correlation = found["squared_correlation_coefficient"]
            yield f"Cross Validation Squared correlation coefficient = {correlation:g}"
        else:
            yield f"Cross Validation Accuracy = {found['accuracy']:g}%"
