"""AENuSVC: nu-support vector classification."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Unpack

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval

from aesvm.estimators.learning import Classes, InfeasibleError
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import ClassifierParameters, with_parameters_of
from aesvm.estimators.prediction import PairwiseClassifier
from aesvm.formulations.nu_hinge import NuHinge
from aesvm.runtime.scikit_learn import CallbackSupportMixin
from aesvm.svc import AESVC, CLASS_CONSTRAINTS


def _check_feasible(estimator: Any, one: float, other: float) -> None:
    """Refuse a nu that two classes of such summed weights do not allow."""
    most = 2.0 * min(one, other) / (one + other)
    if estimator.nu > most * (1.0 + 1e-12):
        raise InfeasibleError(
            f"specified nu is infeasible: nu={estimator.nu:g} is more than {most:.6g}, twice the "
            "share of the lighter of two classes. Lower nu, or raise that class's weight."
        )


class AENuSVC(
    CallbackSupportMixin, KernelMachine, PairwiseClassifier, ClassifierMixin, BaseEstimator
):
    """Nu-support vector classification for data too large for :class:`sklearn.svm.NuSVC`.

    The interface is NuSVC's. All else is as in :class:`aesvm.AESVC`.

    Parameters
    ----------
    nu : float, default=0.5
        An upper bound on the fraction of rows inside the margin, and a lower bound on the fraction
        of support vectors.
    **parameters
        The parameters of :class:`aesvm.AESVC`, without ``C``.

    Attributes
    ----------
    support_, dual_coef_, intercept_, ...
        As in :class:`aesvm.AESVC`.

    See Also
    --------
    AESVC : The same with C in place of nu.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AENuSVC
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = AENuSVC(nu=0.1, gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        **CLASS_CONSTRAINTS,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }
    _learns = Classes(lambda estimator: NuHinge(float(estimator.nu)), _check_feasible)

    @with_parameters_of(AESVC, without=("C",))
    def __init__(self, *, nu: float = 0.5, **parameters: Unpack[ClassifierParameters]) -> None:
        self.nu = nu

    partial_fit = AESVC.__dict__["partial_fit"]
