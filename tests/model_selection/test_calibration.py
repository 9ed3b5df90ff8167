"""``calibrated`` has the probabilities of scikit-learn's calibration with separate fits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aesvm import AESVC, AENuSVC
from aesvm.machines.sharing import Starts
from aesvm.model_selection import calibrated, calibration


def problem(n_classes=2, n_rows=240):
    X, y = make_classification(
        n_rows, 5, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=0
    )
    return X, np.array(["ash", "birch", "cedar"])[y]


def both(svm, X, y, weights=None, **options):
    ours = calibrated(svm, **options).fit(X, y, weights)
    theirs = CalibratedClassifierCV(svm, **{"ensemble": False, **options})
    return ours, theirs.fit(X, y, sample_weight=weights)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_probabilities_are_those_of_separate_fits(n_classes, ensemble, weighted, class_weight):
    X, y = problem(n_classes)
    rng = np.random.default_rng(0)
    X[:20], y[:20] = X[20:40], y[20:40]  # copies
    weights = rng.uniform(0.5, 2.0, len(X)) * (rng.uniform(size=len(X)) > 0.1)
    svm = AESVC(gamma=0.3, tol=1e-7, class_weight=class_weight)
    cv = KFold(3, shuffle=True, random_state=0)
    ours, theirs = both(svm, X, y, weights if weighted else None, cv=cv, ensemble=ensemble)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert_array_equal(ours.classes_, theirs.classes_)
    assert len(ours.calibrated_classifiers_) == len(theirs.calibrated_classifiers_)
    assert type(ours.calibrated_classifiers_[0].estimator) is AESVC
    assert ours.n_features_in_ == 5


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_rows_may_be_sparse_named_or_a_kernel_matrix(method):
    pd = pytest.importorskip("pandas")
    X, y = problem()
    options = {"cv": 3, "method": method}
    svm = AESVC(kernel="linear", tol=1e-7)
    expected = calibrated(svm, **options).fit(X, y).predict_proba(X)
    table = pd.DataFrame(X, columns=list("abcde"))
    named = calibrated(svm, **options).fit(table, pd.Series(y))
    assert_array_equal(named.predict_proba(table), expected)
    assert list(named.feature_names_in_) == list("abcde")
    given = calibrated(clone(svm).set_params(kernel="precomputed"), **options)
    for rows, model in ((sp.csr_array(X), calibrated(svm, **options)), (X @ X.T, given)):
        # where two values are equal but for rounding, an isotonic step may lie before or after
        found = model.fit(rows, y).predict_proba(rows)
        assert np.mean(np.abs(found - expected) > 1e-4) < (0.05 if method == "isotonic" else 1e-9)


def test_gamma_scale_is_that_of_all_rows():
    X, y = problem()
    ours = calibrated(AESVC(tol=1e-7), cv=3, ensemble=True).fit(X, y)
    gammas = {one.estimator.gamma_ for one in ours.calibrated_classifiers_}
    assert gammas == {AESVC().fit(X, y).gamma_}
    theirs = CalibratedClassifierCV(AESVC(gamma=gammas.pop(), tol=1e-7), cv=3, ensemble=True)
    assert_allclose(ours.predict_proba(X), theirs.fit(X, y).predict_proba(X), atol=1e-4)


def test_folds_begin_at_the_solution_of_all_rows(monkeypatch):
    X, y = make_moons(2000, noise=0.3, random_state=0)
    found = []

    def find(self, *args):
        found.append(theirs(self, *args))
        return found[-1]

    theirs = calibration._StartsOfFold.find
    monkeypatch.setattr(calibration._StartsOfFold, "find", find)
    shared = calibrated(AESVC(gamma=1.0), ensemble=True).fit(X, y)
    assert len(found) == 5
    assert all(start.known is not None for start in found)
    separate = CalibratedClassifierCV(AESVC(gamma=1.0), ensemble=True).fit(X, y)
    n_iter = [
        sum(int(one.estimator.n_iter_[0]) for one in model.calibrated_classifiers_)
        for model in (shared, separate)
    ]
    assert n_iter[0] < 0.7 * n_iter[1]


def test_scores_of_a_start_are_its_kernel_sums(monkeypatch):
    X, y = make_moons(600, noise=0.3, random_state=0)
    checked = []

    def find(self, number, kernel, rows, variables):
        start = theirs(self, number, kernel, rows, variables)
        coefs = variables.signs * start.alpha
        assert abs(coefs.sum()) < 1e-9
        assert (start.alpha >= 0).all()
        assert (start.alpha <= variables.bounds).all()
        assert_allclose(start.known.scores, kernel.scores(rows, coefs, rows), atol=1e-4)
        checked.append(number)
        return start

    theirs = calibration._StartsOfFold.find
    monkeypatch.setattr(calibration._StartsOfFold, "find", find)
    calibrated(AESVC(gamma=1.0), cv=3).fit(X, y)
    assert len(checked) == 3


def test_the_model_of_all_rows_has_its_certificate():
    X, y = problem()
    model = calibrated(AESVC()).fit(X, y).calibrated_classifiers_[0].estimator
    alone = AESVC().fit(X, y)
    assert model.certificate_ == alone.certificate_
    assert_array_equal(model.dual_coef_, alone.dual_coef_)
    assert model.certify(X, y).exact


def test_it_is_an_estimator_as_any_other():
    X, y = problem()
    model = calibrated(AESVC(C=3.0), cv=4, method="isotonic")
    assert clone(model).get_params()["estimator__C"] == 3.0
    assert not hasattr(model, "classes_")
    piped = make_pipeline(StandardScaler(), model).fit(X, y)
    assert piped.predict_proba(X).shape == (len(X), 2)
    assert Starts().find(0, None, None, None) is None  # what a machine without a solution has


@pytest.mark.parametrize("estimator", [SVC(), AENuSVC(), make_pipeline(AESVC()), None])
def test_other_estimators_are_refused_with_what_takes_them(estimator):
    X, y = problem()
    with pytest.raises(TypeError, match=r"must be an AESVC: sklearn.*CalibratedClassifierCV"):
        calibrated(estimator).fit(X, y)


def test_there_is_no_n_jobs_as_folds_follow_each_other():
    with pytest.raises(ValueError, match="Invalid parameter 'n_jobs'"):
        calibrated(AESVC()).set_params(n_jobs=2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_time_limit_may_end_every_fit(n_classes):
    """Folds of a fit that was cut short have nothing to start from, and are fitted all the same."""
    X, y = problem(n_classes, 2500)
    with pytest.warns(ConvergenceWarning, match="time_limit=0 ended the fit"):
        model = calibrated(AESVC(gamma=0.3, time_limit=0), cv=3).fit(X, y)
    found = model.predict_proba(X)
    assert found.shape == (len(X), n_classes)
    assert_allclose(found.sum(axis=1), 1.0)


def test_a_word_for_cv_is_refused():
    with pytest.raises(ValueError, match="cv='prefit': a number of folds"):
        calibrated(AESVC(), cv="prefit").fit(*problem())
