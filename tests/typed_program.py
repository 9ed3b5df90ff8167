"""What mypy knows of the estimators in a program that uses them: ``make lint`` checks it.

An unknown parameter is an error. mypy is told to expect one, and would say if there were none.
"""

from typing import assert_type

import numpy as np

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, Certificate

X, y = np.zeros((4, 2)), np.zeros(4)


def fitted() -> None:
    assert_type(AESVC().fit(X, y), AESVC)
    assert_type(AENuSVC(nu=0.5, gamma=1.0, break_ties=True).fit(X, y), AENuSVC)
    assert_type(AESVR(epsilon=0.1).fit(X, y), AESVR)
    assert_type(AENuSVR(nu=0.1, C=2.0).fit(X, y), AENuSVR)
    assert_type(AEOneClassSVM(nu=0.1).fit(X), AEOneClassSVM)


def certified() -> None:
    assert_type(AESVC(C=1.0).fit(X, y).certificate_, Certificate)
    assert_type(AESVC().certify(X, y), Certificate)


def unknown_parameters() -> None:
    AESVC(cost=1.0)  # type: ignore[call-arg]
    AENuSVC(C=1.0)  # type: ignore[call-arg]
    AESVR(nu=1.0)  # type: ignore[call-arg]
    AENuSVR(epsilon=1.0)  # type: ignore[call-arg]
    AEOneClassSVM(C=1.0)  # type: ignore[call-arg]
