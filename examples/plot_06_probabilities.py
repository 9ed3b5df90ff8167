"""
Probabilities
=============

Decision values are no probabilities. ``CalibratedClassifierCV`` makes them so, from values of rows
that a model was not trained on. Of the rows that are said to be of class 1 with probability 0.8, four
in five should be: the nearer to the diagonal, the better.
"""

import matplotlib.pyplot as plt
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from aesvm import AESVC

X, y = make_moons(12_000, noise=0.4, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = AESVC(gamma=2.0).fit(X_train, y_train)
calibrated = CalibratedClassifierCV(AESVC(gamma=2.0), ensemble=False).fit(X_train, y_train)

figure, axis = plt.subplots(figsize=(5, 5))
ways = {
    "sigmoid of the decision function": expit(model.decision_function(X_test)),
    "CalibratedClassifierCV": calibrated.predict_proba(X_test)[:, 1],
}
for name, probabilities in ways.items():
    CalibrationDisplay.from_predictions(y_test, probabilities, n_bins=10, name=name, ax=axis)
figure.tight_layout()
