"""The lines that LIBSVM's svm-train and svm-predict print, for scripts that read them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm import AEOneClassSVM
from aesvm.command.labels import equal_labels, is_numeric, label_text, meaning
from aesvm.command.outcome import CommandError
from aesvm.machines.one_vs_one import as_array
from aesvm.runtime.warn import warn
from aesvm.sets.distinct import distinct_rows

#: A coefficient that is this near to its bound is at it.
_AT_BOUND = 1e-9

#: What a one-class SVM predicts.
OUTLIER_OR_NOT = np.array([-1, 1])


class Solved(NamedTuple):
    """What LIBSVM prints of a machine; None where it prints nothing, or it does not apply."""

    n_iter: int
    obj: float | None
    rho: float
    n_sv: int
    n_bsv: int | None
    nu: float | None = None
    C: float | None = None
    epsilon: float | None = None

    def lines(self) -> Iterator[str]:
        """As LIBSVM prints them."""
        yield f"optimization finished, #iter = {self.n_iter}"
        for name in ("nu", "C", "epsilon"):
            if getattr(self, name) is not None:
                yield f"{name} = {getattr(self, name):.6f}"
        yield ("" if self.obj is None else f"obj = {self.obj:.6f}, ") + f"rho = {self.rho:.6f}"
        yield f"nSV = {self.n_sv}" + ("" if self.n_bsv is None else f", nBSV = {self.n_bsv}")


def training_lines(machines: list[Solved], n_support: int, classifies: bool) -> Iterator[str]:
    """Those of svm-train."""
    for machine in machines:
        yield from machine.lines()
    if classifies:
        yield f"Total nSV = {n_support}"


class Amounts(NamedTuple):
    """How much of the data machines are bounded by; None where it is not known."""

    total: float | None  #: the weights of all rows
    of_classes: NDArray | None  #: the same by class
    of_vectors: NDArray | None  #: of all rows that are equal to each support vector

    @classmethod
    def of(cls, model: Any, X: Any, y: NDArray | None, weights: NDArray | None) -> Amounts:
        """Those of rows in memory, which a model was fitted to."""
        weights = np.ones(X.shape[0]) if weights is None else weights
        codes = np.zeros(len(weights), dtype=np.intp)
        if y is not None and not isinstance(model, AEOneClassSVM):
            codes = np.unique(y, return_inverse=True)[1].astype(np.intp)
        of_classes = np.bincount(codes, weights) if hasattr(model, "classes_") else None
        of_vectors = None
        if model.certificate_.exact:
            of_vectors = weights[model.support_]
        if model.certificate_.exact and model.kernel != "precomputed":  # equal rows are one
            _, group = distinct_rows(X, codes)
            of_vectors = np.bincount(group, weights)[group[model.support_]]
        return cls(float(weights.sum()), of_classes, of_vectors)


def solved(model: Any, amounts: Amounts) -> list[Solved]:
    """The machines of a fitted estimator, its classes in LIBSVM's order.

    A model in the span of few vectors has coefficients that are no solution of the dual problem:
    there is nothing to say of that.
    """
    dual = as_array(model.dual_coef_)
    n_iter, objective = np.atleast_1d(model.n_iter_), -model.dual_objective_  # as it is minimised
    if model.certificate_.n_vectors is not None:
        amounts, objective = Amounts(None, None, None), np.full(len(objective), np.nan)
    if hasattr(model, "classes_"):
        return _of_pairs(model, dual, amounts, n_iter, objective)
    alphas, cost = np.abs(dual[0]), getattr(model, "C", 1.0)
    bounds = None if amounts.of_vectors is None else cost * amounts.of_vectors
    found = _solved(n_iter[0], objective[0], -model.intercept_[0], alphas, bounds)
    if hasattr(model, "epsilon") and amounts.total is not None:
        found = found._replace(nu=float(alphas.sum()) / (cost * amounts.total))
    elif hasattr(model, "epsilon_"):
        found = found._replace(epsilon=model.epsilon_)
    return [found]


def _of_pairs(
    model: Any, dual: NDArray, amounts: Amounts, n_iter: NDArray, objective: NDArray
) -> list[Solved]:
    n_classes = len(model.classes_)
    order = range(n_classes) if model.tie_order_ is None else model.tie_order_.tolist()
    ends = np.cumsum(model.n_support_)
    of_class = [np.arange(end - n, end) for end, n in zip(ends, model.n_support_, strict=True)]
    numbers = {pair: at for at, pair in enumerate(combinations(range(n_classes), 2))}
    costs = getattr(model, "C", 1.0) * np.asarray(model.class_weight_)
    machines = []
    for first, second in combinations(order, 2):
        i, j = sorted((first, second))
        at = numbers[i, j]
        own = np.concatenate([of_class[i], of_class[j]])
        alphas = np.abs(np.concatenate([dual[j - 1, of_class[i]], dual[i, of_class[j]]]))
        total = bounds = C = nu = None
        if amounts.of_classes is not None:
            total = float(costs[i] * amounts.of_classes[i] + costs[j] * amounts.of_classes[j])
        if amounts.of_vectors is not None:
            bounds = np.repeat(costs[[i, j]], model.n_support_[[i, j]]) * amounts.of_vectors[own]
        if hasattr(model, "nu"):  # coefficients are divided by the margin, and came to nu total
            C = None if total is None else float(alphas.sum()) / (model.nu * total)
            bounds = None if bounds is None or C is None else C * bounds
        elif total is not None and costs[i] == costs[j]:
            nu = float(alphas.sum()) / total
        rho = -model.intercept_[at] * (-1 if n_classes == 2 else 1) * (1 if first == i else -1)
        scale = 1.0 if not hasattr(model, "nu") else np.nan if C is None else C**2
        found = _solved(n_iter[at], scale * objective[at], rho, alphas, bounds)
        machines.append(found._replace(nu=nu, C=C))
    return machines


def libsvm_order(classes: NDArray, y: NDArray) -> list[int]:
    """Classes as LIBSVM orders them: as they come, but +1 before -1."""
    firsts = [int(np.argmax(y == one)) for one in classes]
    order = sorted(range(len(classes)), key=firsts.__getitem__)
    if classes.dtype.kind in "iuf" and classes.tolist() == [-1, 1]:
        return [1, 0]
    return order


def _solved(
    n_iter: Any, objective: float, rho: float, alphas: NDArray, bounds: NDArray | None
) -> Solved:
    used, n_bsv = alphas > 0, None
    if bounds is not None:
        n_bsv = int(np.sum(used & (alphas >= (1.0 - _AT_BOUND) * bounds)))
    known = float(objective) if np.isfinite(objective) else None
    return Solved(int(n_iter), known, float(rho) + 0.0, int(used.sum()), n_bsv)  # no -0.0


class Agreement:
    """How predictions agree with targets, counted chunk by chunk."""

    def __init__(self, regression: bool, known: NDArray | None = None) -> None:
        self.regression = regression
        self.known = [] if regression or known is None else known.tolist()  # classes
        self.strangers: dict[Any, None] = {}  # other classes, until there is a known one
        self.any_known = not self.known
        self.n_rows = 0
        self.correct = 0
        self.origin = 0.0  # that predictions p and targets t are counted from: digits are kept so
        self.sums = np.zeros(6)  # of squared errors, p, t, p^2, t^2 and p t

    def add(self, predicted: NDArray, targets: NDArray) -> None:
        """Some more rows."""
        is_first = not self.n_rows
        self.n_rows += len(predicted)
        if not self.regression:
            self.correct += int(np.sum(equal_labels(predicted, targets)))
            if not self.any_known:
                self.strangers |= dict.fromkeys(np.unique(targets).tolist())
                known = set(map(meaning, self.known))
                self.any_known = not known.isdisjoint(map(meaning, self.strangers))
            return
        if not is_numeric(targets):
            raise CommandError(f"the target is {targets[0]!s:.40}, and the model predicts numbers.")
        if is_first:
            self.origin = float(targets[0])
        p, t = predicted - self.origin, targets - self.origin
        self.sums += [float(one.sum()) for one in ((p - t) ** 2, p, t, p**2, t**2, p * t)]

    def warn_of_strangers(self, name: str) -> None:
        """Say where no class of the data, which has that name, is one of the model's."""
        if self.strangers and not self.any_known:
            data, model = _listed(self.strangers), _listed(self.known)
            warn(f"no class of {name} is one of the model's: {data}; {model}")

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

    def lines(self, cross_validation: bool = False) -> Iterator[str]:
        """Those of svm-predict, or of svm-train -v."""
        found = self.found()
        before = "Cross Validation " if cross_validation else ""
        if self.regression:
            after = "" if cross_validation else " (regression)"
            yield f"{before}Mean squared error = {found['mean_squared_error']:g}{after}"
            correlation = found["squared_correlation_coefficient"]
            yield f"{before}Squared correlation coefficient = {correlation:g}{after}"
        else:
            counts = f" ({self.correct}/{self.n_rows}) (classification)"
            after = "" if cross_validation else counts
            yield f"{before}Accuracy = {found['accuracy']:g}%{after}"


def _listed(classes: Collection[Any]) -> str:
    return ", ".join(sorted(map(label_text, classes))[:5]) + (", ..." if len(classes) > 5 else "")
