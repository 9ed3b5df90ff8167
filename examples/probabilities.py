"""Probabilities of an SVM, the scikit-learn way: its decision values, calibrated.

``CalibratedClassifierCV(ensemble=False)`` cross-validates for decision values of rows that a model
was not trained on, fits a sigmoid to them, and then trains one model on all rows. Real data: the
breast cancer dataset of scikit-learn, every row predicted by a model that has not seen it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC


def probabilities() -> tuple[NDArray, dict[str, NDArray]]:
    """Classes, 0 and 1, and what several ways to predict give for the probability of 1."""
    X, y = load_breast_cancer(return_X_y=True)

    def predicted(model, method: str) -> NDArray:
        return cross_val_predict(make_pipeline(StandardScaler(), model), X, y, method=method)

    def calibrated(model) -> NDArray:
        return predicted(CalibratedClassifierCV(model, ensemble=False), "predict_proba")[:, 1]

    return y, {
        "AESVC, sigmoid of decision_function": expit(predicted(AESVC(), "decision_function")),
        "AESVC, calibrated": calibrated(AESVC()),
        "SVC, calibrated": calibrated(SVC()),
    }


def calibration_error(y: NDArray, given: NDArray, n_bins: int = 10) -> float:
    """How far the share of class 1 is from its probability, on average over bins of rows."""
    bins = np.minimum((given * n_bins).astype(int), n_bins - 1)
    return float(np.abs(np.bincount(bins, y - given, minlength=n_bins)).sum() / len(y))


def main() -> None:
    table = Table(title="Breast cancer, 569 rows")
    for column in ("", "Brier score", "calibration error"):
        table.add_column(column, justify="right" if column else "left")
    y, ways = probabilities()
    for name, given in ways.items():
        brier = brier_score_loss(y, given)
        table.add_row(name, f"{brier:.4f}", f"{calibration_error(y, given):.4f}")
    Console().print(table)


if __name__ == "__main__":
    main()
