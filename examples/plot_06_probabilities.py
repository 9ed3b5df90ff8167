"""
Probabilities
=============

Decision values are not probabilities. ``CalibratedClassifierCV`` turns them into probabilities,
with the help of rows that a model was not trained on. Of the rows with a predicted probability
of 0.8, four in five should be of class 1. The closer a line is to the diagonal, the better.
"""

import matplotlib.pyplot as plt
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from aesvm import AESVC

X, y = make_classification(8_000, n_features=6, weights=[0.8], class_sep=0.8, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = AESVC().fit(X_train, y_train)
calibrated = CalibratedClassifierCV(AESVC(), ensemble=False).fit(X_train, y_train)

figure, axis = plt.subplots(figsize=(5, 5))
ways = {
    "sigmoid of the decision function": expit(model.decision_function(X_test)),
    "CalibratedClassifierCV": calibrated.predict_proba(X_test)[:, 1],
}
for name, given in ways.items():
    label = f"{name} (Brier {brier_score_loss(y_test, given):.3f})"
    CalibrationDisplay.from_predictions(y_test, given, n_bins=6, name=label, ax=axis)
figure.tight_layout()
