"""Calibrated probabilities of an SVM whose folds share work.

scikit-learn calibrates by decision values of rows that a model was not trained on: it fits the SVM
to all rows, and once more for every fold. Here all of these have one kernel, and the fit to all
rows comes first. The dual of a fold has the same variables without those of the rows left out:

    multipliers    those of the fit to all rows, without the rows left out; where the sum of
                   s_i alpha_i is no longer zero, rows of the heavier side give theirs up, those
                   with the largest margin first
    scores         known, but for the kernel rows of the multipliers that have changed

So a fold's solve begins close to its solution.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.utils import indexable
from sklearn.utils.validation import column_or_1d

from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.fit_warnings import FAR, NOTHING
from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.trained import fit_rows, name_of_rows
from aesvm.estimators.validation import class_weights, from_gpu, valid_weights
from aesvm.formulations.protocol import Variables
from aesvm.kernels import KernelMatrix
from aesvm.machines.sharing import SharedWork, Start, Starts
from aesvm.runtime.scikit_learn import safe_indexing
from aesvm.runtime.warn import kept_warnings, warn
from aesvm.solver.state import Known
from aesvm.svc import AESVC


def calibrated(
    estimator: AESVC,
    *,
    cv: Any = None,
    method: str = "sigmoid",
    ensemble: bool = False,
) -> SharedCalibration:
    """An SVM with probabilities: ``CalibratedClassifierCV`` whose folds share work.

    The SVM is trained on all rows, and the solve of each fold starts from that solution. The
    probabilities are those of ``CalibratedClassifierCV(estimator, cv=cv, method=method,
    ensemble=ensemble)``, to the tolerance of the solver. One thing differs: ``gamma="scale"`` is
    that of all rows in every fold, so that all models have the same kernel.

    Parameters
    ----------
    estimator : AESVC
        It is not changed.
    cv : int, splitter or iterable, default=None
        As in ``CalibratedClassifierCV``: five stratified folds where None.
    method : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
        How probabilities are made of decision values; "temperature" needs scikit-learn 1.8.
    ensemble : bool, default=False
        Whether to predict by the mean of the folds' models, and not by the model of all rows.

    Returns
    -------
    model : SharedCalibration
        Not fitted. Its ``fit``, ``predict_proba`` and attributes are those of
        ``CalibratedClassifierCV``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection import calibrated
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = calibrated(AESVC(gamma=1.0), cv=3).fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """
    return SharedCalibration(estimator, cv=cv, method=method, ensemble=ensemble)


class SharedCalibration(LinkedToDocumentation, CalibratedClassifierCV):
    """What :func:`calibrated` returns: scikit-learn's ``CalibratedClassifierCV``, with shared work.

    Parameters
    ----------
    estimator : AESVC
    method : str, default="sigmoid"
    cv : int, splitter or iterable, default=None
    ensemble : bool, default=False

    Notes
    -----
    The folds are fitted one after the other. Each uses the threads of the estimator's ``n_jobs``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection.calibration import SharedCalibration
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> SharedCalibration(AESVC(gamma=1.0)).fit(X, y).predict(X[:3]).shape
    (3,)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "sigmoid",
        cv: Any = None,
        ensemble: bool = False,
    ) -> None:
        super().__init__(estimator, method=method, cv=cv, ensemble=ensemble)

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the SVM on all rows and on each fold, and fit the calibration.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows, or with ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C by row, and weights of the calibration.

        Returns
        -------
        self : object
        """
        svm = self.estimator
        if not isinstance(svm, AESVC) or type(svm).fit is not AESVC.fit:
            raise TypeError(
                f"estimator={svm!r} must be an AESVC: sklearn.calibration.CalibratedClassifierCV "
                "takes any classifier. Put calibrated(AESVC()) at the end of a pipeline."
            )
        X, y, sample_weight = from_gpu(svm, X, y, sample_weight)
        X, y = indexable(X, y)
        folds = _Folds(svm, X, column_or_1d(y), sample_weight)
        cv = self.cv
        if isinstance(cv, str):
            raise ValueError(f"cv={cv!r}: a number of folds, a splitter or an iterable is needed.")
        if hasattr(cv, "split"):  # it may look at the rows
            cv = list(cv.split(X, y))
        found = CalibratedClassifierCV(
            _FittedFold(folds), method=self.method, cv=cv, ensemble=self.ensemble
        )
        found.fit(np.arange(folds.n_rows)[:, None], y, sample_weight)
        self.classes_ = found.classes_
        self.calibrated_classifiers_ = found.calibrated_classifiers_
        for one in self.calibrated_classifiers_:
            one.estimator = one.estimator.model_
        first = self.calibrated_classifiers_[0].estimator
        self.n_features_in_ = first.n_features_in_
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_
        return self


class _FittedFold(ClassifierMixin, BaseEstimator):
    """Takes the place of the SVM in scikit-learn's calibration, where rows are numbers.

    scikit-learn splits these, and fits and asks as ever; what is fitted and asked are the models
    of folds that share work.
    """

    def __init__(self, folds: _Folds) -> None:
        self.folds = folds

    def __sklearn_clone__(self) -> _FittedFold:
        return _FittedFold(self.folds)  # not a copy of the rows

    def fit(self, numbers: Any, y: Any, sample_weight: Any = None) -> _FittedFold:
        self.model_ = self.folds.fitted(numbers[:, 0])
        self.classes_ = self.model_.classes_
        return self

    def decision_function(self, numbers: Any) -> Any:
        return self.model_.decision_function(self._rows(numbers))

    def predict(self, numbers: Any) -> Any:
        return self.model_.predict(self._rows(numbers))

    def _rows(self, numbers: Any) -> Any:
        return safe_indexing(self.folds.X, numbers[:, 0])


class _Folds:
    """An SVM fitted to all rows, and to the rows of folds from that solution."""

    def __init__(self, svm: Any, X: Any, y: NDArray, sample_weight: Any) -> None:
        self.svm, self.X, self.y = svm, X, y
        self.n_rows = len(y)
        self.sample_weight = sample_weight
        self.work = _Kept()
        self.whole = fit_rows(clone(svm), X, y, sample_weight, shared=self.work)

    def fitted(self, numbers: NDArray[np.intp]) -> Any:
        """The SVM of some rows, by number."""
        if len(numbers) == self.n_rows:
            return self.whole
        kept = np.zeros(self.n_rows, dtype=bool)
        kept[numbers] = True
        weights = kept * valid_weights(self.sample_weight, self.y[:, None])
        model = clone(self.svm).set_params(class_weight=self._class_weight(kept))
        with kept_warnings() as warned:
            fit_rows(model, self.X, self.y, weights, shared=self._work_of_fold())
        for message, category in warned:
            if not message.startswith((FAR, NOTHING)):  # no fold has a certificate
                warn(message, category)
        return model

    def _class_weight(self, kept: NDArray[np.bool_]) -> Any:
        """The weights of classes as they are in a fold."""
        given = self.svm.class_weight
        if given != "balanced":
            return given
        classes, counts = np.unique(self.y[kept], return_counts=True)
        return dict(zip(classes.tolist(), class_weights(given, classes, counts), strict=True))

    def _work_of_fold(self) -> SharedWork:
        """What depends on the rows and not on their weights."""
        if self.work.is_empty:  # the fit to all rows was cut short
            return SharedWork(in_search=True)
        whole, fold = self.work, _Kept(in_search=True)
        spec = kernel_spec(self.whole, self.whole.gamma_)
        for name in ("hashes", name_of_rows(spec)):
            fold.of_rows(name, partial(whole.of_rows, name, _missing))
        key = spec, self.svm.tol
        fold.kernel(key, lambda: whole.kernel(key, _missing))
        fold.of_kernel("starts", lambda: _StartsOfFold(whole.starts))
        return fold


def _missing() -> Any:
    raise KeyError("the fit to all rows has not kept what folds share")


class _Kept(SharedWork):
    """Work in common that has the solutions, also of a fit that has a certificate."""

    @property
    def starts(self) -> Starts:
        return self.of_kernel("starts", Starts)


class _StartsOfFold(Starts):
    """The solutions of all rows, as starts for the rows of a fold."""

    def __init__(self, whole: Starts) -> None:
        super().__init__()
        self._solutions = dict(whole._solutions)

    def find(
        self, number: int, kernel: KernelMatrix, rows: NDArray[np.intp], variables: Variables
    ) -> Start | None:
        """A start for machine ``number``: the multipliers of all rows, made feasible here."""
        whole = self._solutions.get(number)
        if whole is None or variables.start is not None or variables.constraints is not None:
            return None
        n_all = 1 + max(int(whole.rows.max()), int(rows.max()))
        place = np.full(n_all, -1)
        place[whole.rows] = np.arange(len(whole.rows))
        at = place[rows]
        has = at >= 0  # a row whose copy is left out may be new
        alpha = np.zeros(len(rows))
        alpha[has] = np.minimum(whole.solution.alpha[at[has]], variables.bounds[has])
        same_values = whole.kernel is kernel or whole.kernel.dtype == np.float64
        if not (same_values and has.all()):
            return Start(_balanced(alpha, variables.signs, np.zeros(len(rows))))
        scores = whole.solution.scores[at]
        margins = variables.signs * (scores - whole.solution.offsets[0])
        alpha = _balanced(alpha, variables.signs, margins)
        changes = -whole.variables.signs * whole.solution.alpha
        changes[at] += variables.signs * alpha
        (changed,) = changes.nonzero()
        scores = scores + kernel.scores(whole.rows[changed], changes[changed], rows)
        moved = whole.solution.total_moved + float(np.abs(changes).sum())
        return Start(alpha, Known(scores, moved))


def _balanced(
    alpha: NDArray[np.float64], signs: NDArray[np.float64], margins: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Multipliers with ``sum_i s_i alpha_i = 0``: rows of large margins give theirs up.

    Examples
    --------
    >>> import numpy as np
    >>> _balanced(np.array([1.0, 1.0, 1.5]), np.array([1.0, 1.0, -1.0]), np.array([0.0, 0.9, 1.0]))
    array([1. , 0.5, 1.5])
    """
    excess = float(signs @ alpha)
    heavy = np.flatnonzero((signs == np.sign(excess)) & (alpha > 0))
    heavy = heavy[np.argsort(-margins[heavy], kind="stable")]
    before = np.cumsum(alpha[heavy]) - alpha[heavy]
    alpha = alpha.copy()
    alpha[heavy] -= np.clip(abs(excess) - before, 0.0, alpha[heavy])
    return alpha
