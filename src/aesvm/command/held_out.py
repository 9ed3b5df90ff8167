"""How a model does on rows that were held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels.moments import Moments

#: Standard deviations on either side of which 95% lie.
_Z = 1.96

#: Rows that are kept for pictures.
_MOST_SHOWN = 2000


@dataclass(frozen=True)
class HeldOutScores:
    """Predictions of rows held out, and their targets."""

    task: str
    classes: NDArray | None
    confusion: NDArray | None  #: rows: the class, columns: the prediction
    n_rows: int
    squared_errors: float  #: of a regression, their sum
    absolute_errors: float  #: the same
    targets: Moments  #: the same
    shown: tuple[NDArray, NDArray]  #: targets and predictions of some rows

    @property
    def accuracy(self) -> float:
        assert self.confusion is not None
        return float(np.trace(self.confusion)) / self.n_rows

    @property
    def majority(self) -> float:
        """The share of the most frequent class: what no model is needed for."""
        assert self.confusion is not None
        return float(self.confusion.sum(axis=1).max()) / self.n_rows

    def interval(self) -> tuple[float, float]:
        """Wilson's 95% confidence interval of the accuracy on other rows of the same kind."""
        n, p = self.n_rows, self.accuracy
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def found(self) -> dict[str, Any]:
        """The numbers, by name."""
        if self.task == "classification":
            low, high = self.interval()
            return {
                "accuracy": self.accuracy,
                "interval": [low, high],
                "majority": self.majority,
                "rows": self.n_rows,
            }
        n, constant = self.n_rows, self.targets.all_equal
        return {
            "mean_squared_error": self.squared_errors / n,
            "mean_absolute_error": self.absolute_errors / n,
            "r2": float("nan") if constant else 1.0 - self.squared_errors / self.targets.squares,
            "rows": n,
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """For people."""
        found = self.found()
        if self.task == "classification":
            low, high = found["interval"]
            yield "accuracy", f"{self.accuracy:.1%} of {self.n_rows:,} rows held out"
            yield "95% interval", f"{low:.1%} to {high:.1%}"
            yield "most frequent class", f"{self.majority:.1%}"
        else:
            yield "R2", f"{found['r2']:.3f} on {self.n_rows:,} rows held out"
            yield "root mean square error", f"{sqrt(found['mean_squared_error']):.4g}"
            yield "mean absolute error", f"{found['mean_absolute_error']:.4g}"


def tested(model: Any, chunks: Any, task: str) -> HeldOutScores:
    """Predict chunks of rows that were held out."""
    classes = model.classes_ if task == "classification" else None
    size = 0 if classes is None else len(classes) + 1  # the last: classes never seen before
    confusion = np.zeros((size, size), dtype=np.int64)
    squared = absolute = 0.0
    targets, n_rows = Moments(), 0
    known = {} if classes is None else {one: at for at, one in enumerate(classes.tolist())}
    shown: list[tuple[NDArray, NDArray]] = []
    for X, y, _ in chunks:
        if not X.shape[0]:
            continue
        predicted = model.predict(X)
        n_rows += len(y)
        if sum(len(one) for one, _ in shown) < _MOST_SHOWN:
            shown.append((y[:_MOST_SHOWN], predicted[:_MOST_SHOWN]))
        if classes is not None:
            rows = [known.get(one, size - 1) for one in y.tolist()]
            np.add.at(confusion, (rows, [known[one] for one in predicted.tolist()]), 1)
        else:
            y = y.astype(np.float64)
            gaps = predicted - y
            squared += float(np.square(gaps).sum())
            absolute += float(np.abs(gaps).sum())
            targets |= Moments.of(y, np.ones(len(y)))
    pairs = tuple(np.concatenate(column) for column in zip(*shown, strict=True))
    return HeldOutScores(
        task,
        classes,
        None if classes is None else confusion,
        n_rows,
        squared,
        absolute,
        targets,
        (pairs[0], pairs[1]),
    )
