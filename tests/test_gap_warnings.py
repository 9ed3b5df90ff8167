"""Warnings of a gap name its cause: a nu that is too small, a tol that is too large."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR
from aesvm.certificate.certificate import certificate_of
from aesvm.certificate.records import Record, Records
from aesvm.estimators.fit_warnings import FAR, NOTHING, warn_of_solver
from aesvm.kernels import DEFINITE


def warned(model, X, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(one.message) for one in found]


def mingled(n_classes=2):
    """Rows on a line, classes by turns: no nu below one parts them far."""
    return np.linspace(-1.0, 1.0, 60)[:, None], np.arange(60) % n_classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_nu_that_is_too_small_is_named_where_the_optimum_is_zero(n_classes):
    X, y = mingled(n_classes)
    model = AENuSVC(kernel="linear", nu=0.3)
    (message,) = warned(model, X, y)
    assert message.startswith((FAR, NOTHING))  # which of the two, rounding decides
    assert "nu=0.3 seems too small" in message
    assert "Raise nu" in message
    assert ("in 3 of 3 pairs" in message) == (n_classes == 3)
    certificate = model.certificate_
    # the optimum is zero, as multipliers say whose w is zero
    assert certificate.dual_objective <= 0.0 <= certificate.objective
    assert "any number of times" not in str(certificate)


def test_an_objective_of_nothing_but_rounding_is_no_caveat():
    """With a row of either class at each place the hulls are one, and w is zero."""
    X = np.repeat([[1.0], [2.0], [3.0], [4.0]], 2, axis=0)
    model = AENuSVC(kernel="linear", nu=1.0)
    (message,) = warned(model, X, np.arange(8) % 2)
    certificate = model.certificate_
    assert certificate.negligible
    assert certificate.relative_gap == certificate.worst_pair_gap == 0.0
    assert message.startswith(NOTHING)
    assert certificate.caveat() == ""
    assert certificate.verdict().startswith("objective zero to within ")
    assert "relative duality gap" not in str(certificate)
    assert certificate.gap >= certificate.objective - certificate.dual_objective


def test_an_objective_of_zero_is_not_called_exact_where_the_gap_is_not_zero():
    """In single precision alone there is no bound on rounding, and the gap is what is known."""
    zero = replace(Record.of_nothing(), exact=True, n_rows=2, total_cost=2.0, dual_objective=-1.0)
    certificate = certificate_of(Records.of([zero]), 2, 2, 1e-3, DEFINITE)
    assert certificate.relative_gap == np.inf
    assert certificate.verdict() == "objective 0, at most 1 above the exact SVM's"
    assert "may be 1 above the exact SVM's, which may be zero" in certificate.caveat()


@pytest.mark.parametrize("max_iter", [-1, 3])
def test_max_iter_is_to_be_raised_only_where_there_is_one(max_iter):
    stopped = SimpleNamespace(
        fit_status=1,
        kkt_violation=np.array([0.5]),
        n_iter=np.array([3]),
        n_support=np.array([1, 1]),
    )
    certificate = SimpleNamespace(relative_gap=None, n_vectors=None, negligible=False)
    with pytest.warns(ConvergenceWarning, match=r"tol=0\.1") as found:
        warn_of_solver(stopped, certificate, 0.1, max_iter, "lower C")
    assert ("max_iter" in str(found[0].message)) == (max_iter == 3)


def test_a_nu_that_parts_the_classes_is_not_warned_of():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 2)) + 3.0 * y[:, None]
    assert not warned(AENuSVC(kernel="linear", nu=0.5), X, y)


@pytest.mark.parametrize("model", [AESVR(epsilon=0.0), AENuSVR()], ids=str)
def test_a_tol_beside_which_targets_hardly_differ_is_named(model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), 1e-5 * rng.normal(size=40)
    (message,) = warned(model, X, y)
    assert "tol=0.001 is larger than the errors of a constant" in message
    assert np.ptp(model.predict(X)) == 0.0
    # what it says would help does
    assert not warned(model.set_params(tol=1e-9), X, y)
    assert np.ptp(model.predict(X)) > 0.0


def test_a_tol_that_leaves_classes_untold_is_told_in_the_objectives_own_unit():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    (message,) = warned(AESVC(kernel="linear", tol=2.0), X, y)
    assert "its objective may be 20 above the exact SVM's, which may be zero" in message
    assert "a smaller tol" in message
