"""Streams are called exact where every row stands for itself, and not where it seems so.

A residual of zero does not say it: a row may be a combination of others, or equal to one in
kernel values, and still have a loss of its own.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from aesvm import AESVC, AESVR


def on_a_grid():
    """Two squares of whole numbers that overlap."""
    square = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), -1).reshape(-1, 2)
    return np.concatenate([square, square + 2.0]), np.repeat([0, 1], 25)


def on_a_line(n_classes=30):
    X = np.concatenate([np.arange(9.0) + 3.0 * k for k in range(n_classes)])[:, None] / 4.0
    return X, np.repeat(np.arange(n_classes), 9)


def nearly_equal():
    X = 3e-5 * np.random.default_rng(0).normal(size=(60, 1))
    X[30:] += 1.0
    return X.astype(np.float32), np.repeat([0, 1], 30)


@pytest.mark.filterwarnings("ignore:The model may be far")
@pytest.mark.parametrize(
    ("model", "make"),
    [
        (AESVC(kernel="linear"), on_a_grid),
        (AESVC(kernel="linear"), on_a_line),
        (AESVC(kernel="poly", degree=2, gamma=1.0), on_a_grid),
        (AESVC(C=1e4, gamma=1.0), nearly_equal),
    ],
    ids=["grid", "line", "poly", "nearly equal"],
)
@pytest.mark.parametrize("refine", [0, "auto"])
@pytest.mark.parametrize("piecewise", [False, True])
def test_rows_that_are_combinations_of_others_are_not_called_exact(model, make, refine, piecewise):
    X, y = make()
    exact = clone(model).set_params(refine="exact", tol=1e-6).fit(X, y).certificate_
    found = clone(model).set_params(refine=refine, tol=1e-6)
    if piecewise:
        for part in np.array_split(np.random.default_rng(1).permutation(len(y)), 7):
            found.partial_fit(X[part], y[part], classes=np.unique(y))
    else:
        found.fit_stream([(X, y, None)])
    certificate = found.certificate_
    if certificate.exact:
        assert certificate.n_solved == certificate.n_rows
    if certificate.exact and certificate.n_rows == len(y):
        assert certificate.dual_objective <= exact.objective
        assert certificate.objective >= exact.dual_objective


@pytest.mark.parametrize(
    ("X", "y", "weights"),
    [
        (np.repeat(np.arange(3.0), 4), 1e14 + np.tile([0.0, 8.0, 2.0, 4.0], 3), np.ones(12)),
        (
            np.zeros(6),
            np.array([-1.2, -1.4, -0.88, 0.5, 0.1, -2.0]),
            [1e-28] * 2 + [1.0] + [1e-28] * 3,
        ),
    ],
    ids=["large", "of little weight"],
)
def test_targets_that_differ_next_to_nothing_are_not_equal(X, y, weights):
    X, weights = X[:, None], np.asarray(weights)
    model = AESVR(epsilon=0.1, gamma=1.0, hull_tol=0.0).fit_stream([(X, y, weights)])
    whole = AESVR(epsilon=0.1, gamma=1.0, refine="exact").fit(X, y, weights)
    loss, least = (
        float(weights @ np.maximum(0.0, np.abs(one.predict(X) - y) - 0.1)) for one in (model, whole)
    )
    assert loss == pytest.approx(least, rel=1e-6)
    assert model.certificate_.objective == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("heavy", [1e12, 1e18, 1e25])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_position_that_rounding_puts_beyond_the_margin_may_pay(heavy, streamed):
    X, y = 1e-3 * np.random.default_rng(9).normal(size=(6, 1)), np.array([0, 1] * 3)
    weights = np.array([1.0, 1.0, 1e3, heavy, 1.0, 1.0])
    model = AESVC(kernel="linear", tol=1e-9, hull_tol=0.0, refine="exact")
    if streamed:
        model.set_params(refine="auto").fit_stream([(X, y, weights)])
    else:
        model.fit(X, y, weights)
    certificate = model.certificate_
    assert certificate.proven

    def exactly(values):
        return [Fraction(float(value)) for value in values]

    coefs, vectors = exactly(model.dual_coef_[0]), exactly(model.support_vectors_[:, 0])
    w = sum(a * x for a, x in zip(coefs, vectors, strict=True))
    b = Fraction(float(model.intercept_[0]))
    objective = w * w / 2 + sum(
        c * max(Fraction(0), 1 - (2 * int(label) - 1) * (w * x + b))
        for c, x, label in zip(exactly(weights), exactly(X[:, 0]), y, strict=True)
    )
    assert objective - Fraction(certificate.dual_objective) <= Fraction(certificate.gap)


@pytest.mark.parametrize("on_overflow", ["raise", "loosen"])
def test_a_budget_that_holds_all_rows_is_enough(on_overflow):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 30)
    X = rng.normal(size=(240, 3)) + 2.0 * rng.normal(size=(8, 3))[y]
    model = AESVC(gamma=0.5, memory_budget=60_000, on_overflow=on_overflow)
    certificate = model.fit_stream([(X, y, None)]).certificate_
    assert certificate.exact
    assert certificate.relative_gap < 1e-2
