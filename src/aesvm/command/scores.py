"""How a model does on rows that were held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import (
    accuracy_score,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)


@dataclass(frozen=True)
class HeldOut:
    """Targets of rows held out, their predictions, and decision values if there are two classes."""

    y: NDArray
    predicted: NDArray
    values: NDArray | None
    classes: NDArray | None  #: None: a regression

    @classmethod
    def of(cls, model: Any, chunks: Iterable[tuple]) -> HeldOut:
        """Predict chunks of rows."""
        classes = getattr(model, "classes_", None)
        two = classes is not None and len(classes) == 2
        found: list[tuple[NDArray, ...]] = []
        for X, y, _ in chunks:
            if X.shape[0]:
                values = (model.decision_function(X),) if two else ()
                found.append((y, model.predict(X), *values))
        y, predicted, *rest = (np.concatenate(column) for column in zip(*found, strict=True))
        return cls(y, predicted, rest[0] if rest else None, classes)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """The rows whose class the model knows."""
        return np.isin(self.y, np.asarray(self.classes))

    def found(self) -> dict[str, Any]:
        """The numbers, by name."""
        y, predicted, n_rows = self.y, self.predicted, len(self.y)
        if self.classes is None:
            return {
                "r2": r2_score(y, predicted) if n_rows > 1 else float("nan"),
                "root_mean_squared_error": root_mean_squared_error(y, predicted),
                "mean_absolute_error": mean_absolute_error(y, predicted),
                "rows": n_rows,
            }
        n_right = int(accuracy_score(y, predicted, normalize=False))
        interval = binomtest(n_right, n_rows).proportion_ci(method="wilson")
        labels, counts = np.unique(y, return_counts=True)
        scores = precision_recall_fscore_support(y, predicted, labels=labels, zero_division=0.0)
        known = self.is_known
        found = {
            "accuracy": n_right / n_rows,
            "interval": [float(interval.low), float(interval.high)],
            "balanced_accuracy": float(np.mean(scores[1])),
            "majority": float(counts.max()) / n_rows,
            "rows": n_rows,
            "classes": {
                str(label): {"precision": precision, "recall": recall, "rows": int(n)}
                for label, precision, recall, _, n in zip(labels.tolist(), *scores, strict=True)
            },
        }
        if self.values is not None and len(np.unique(y[known])) == 2:
            positive = y[known] == self.classes[1]
            found["roc_auc"] = float(roc_auc_score(positive, self.values[known]))
        return found

    def lines(self) -> Iterator[tuple[str, str]]:
        """For people."""
        found = self.found()
        if self.classes is None:
            yield "R2", f"{found['r2']:.3f} on {found['rows']:,} rows held out"
            yield "root mean square error", f"{found['root_mean_squared_error']:.4g}"
            yield "mean absolute error", f"{found['mean_absolute_error']:.4g}"
            return
        low, high = found["interval"]
        yield "accuracy", f"{found['accuracy']:.1%} of {found['rows']:,} rows held out"
        yield "95% interval", f"{low:.1%} to {high:.1%}"
        yield "balanced accuracy", f"{found['balanced_accuracy']:.1%}, the mean of the recalls"
        if "roc_auc" in found:
            yield "area under the ROC", f"{found['roc_auc']:.3f}"
        yield "most frequent class", f"{found['majority']:.1%}"
