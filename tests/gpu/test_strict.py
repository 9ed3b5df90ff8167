"""Whole fits with arrays that refuse to be taken for those of the host, as CuPy's do."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVC, AESVR, AENuSVC, AEOneClassSVM, RepresentativeSet
from aesvm.gpu import rows as device_rows
from aesvm.gpu.rows import is_on_gpu
from tests import oracles
from tests.gpu.strict import Csr, There

pytestmark = pytest.mark.usefixtures("strict_device")


@pytest.mark.parametrize(
    "estimator",
    [
        AESVC(gamma=1.0, C=2.0, refine="exact"),
        AESVC(gamma=1.0, refine=0, subset_size=100),
        AESVC(gamma=1.0, refine=1, subset_size=100),
        AESVC(gamma=1.0, max_vectors=50),
        AESVC(kernel="linear"),
        AESVC(kernel="poly", degree=2, coef0=1.0),
        AENuSVC(nu=0.3, gamma=1.0, tol=1e-5),
        AESVR(gamma=1.0, C=2.0),
        AESVR(gamma=1.0, refine=1, subset_size=100),
        AEOneClassSVM(gamma=1.0, nu=0.2),
    ],
    ids=repr,
)
def test_estimators_are_those_of_the_processor(estimator):
    X, y = make_moons(600, noise=0.3, random_state=0)
    if isinstance(estimator, AESVR):
        y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]
    here = clone(estimator).fit(X, y)
    there = clone(estimator).set_params(device="cuda").fit(X, y)
    values = "predict" if isinstance(estimator, AESVR) else "decision_function"
    one, other = getattr(here, values)(X), getattr(there, values)(X)
    assert_allclose(other, one, atol=0.03 * np.abs(one).max())
    if isinstance(estimator, AESVC):
        found = there.certify(X, y)
        assert found.dual_objective <= here.certify(X, y).objective * (1 + 1e-9)


def test_several_classes_and_far_rows():
    X, y = make_classification(400, 12, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    X[0] = 1e8
    here = AESVC(gamma=0.1).fit(X, y)
    there = AESVC(gamma=0.1, device="cuda").fit(X, y)
    assert np.mean(here.predict(X) == there.predict(X)) > 0.99


def sparse_rows(n=300):
    X, y = make_classification(n, 12, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    X[np.abs(X) < 0.7] = 0.0
    return sp.csr_matrix(X), y


@pytest.mark.parametrize(
    "estimator",
    [
        AESVC(gamma=0.1, refine="exact"),
        AESVC(gamma=0.1, refine=0, subset_size=50),
        AESVC(gamma=0.1, max_vectors=30),
        AESVC(gamma=1e12, refine="exact"),
        AESVC(kernel="poly", degree=2, coef0=1.0),
    ],
    ids=repr,
)
def test_sparse_rows_of_the_device_are_those_of_the_host(monkeypatch, estimator):
    X, y = sparse_rows()
    model = clone(estimator).set_params(device="cuda")
    wanted = model.fit(X, y).decision_function(X)
    copied, copies = device_rows.copied, []
    monkeypatch.setattr(
        device_rows, "copied", lambda device, own: copies.append(own) or copied(device, own)
    )
    model.fit(Csr(X), There(y), There(np.ones(len(y))))
    assert not any(map(sp.issparse, copies))  # small pairs are trained as dense ones
    found = model.decision_function(Csr(X))
    assert isinstance(found, There)
    assert_allclose(found.get(), wanted)
    assert model.score(Csr(X), There(y)) == model.score(X, y)
    stream = clone(model).set_params(refine=0, max_vectors=None)
    wanted = stream.fit_stream([(X, y, None)]).decision_function(X)
    found = stream.fit_stream([(Csr(X), There(y), None)]).decision_function(X)
    assert_allclose(found, wanted)


def unsorted(X):
    order = np.concatenate(
        [np.arange(a, b)[::-1] for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    )
    return sp.csr_matrix((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def twice(X):
    parts = 0.5 * np.repeat(X.data, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sp.csr_matrix(parts, shape=X.shape)


def wide_numbers(X):
    own = X.copy()
    own.indices, own.indptr = own.indices.astype(np.int64), own.indptr.astype(np.int64)
    return own


@pytest.mark.parametrize("given", [unsorted, twice, wide_numbers])
def test_sparse_rows_that_cannot_be_used_as_they_are_are_copied_and_stay_as_they_are(given):
    X, y = sparse_rows()
    model = AESVC(gamma=0.1, device="cuda")
    wanted = model.fit(X, y).decision_function(X)
    rows = Csr(given(X))
    before = rows.own.copy()
    assert_allclose(model.fit(rows, y).decision_function(X), wanted)
    assert_allclose(model.decision_function(rows).get(), wanted)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(rows.own, name), getattr(before, name))


def test_dense_models_and_sparse_rows_of_the_device_mix():
    X, y = sparse_rows()
    model = AESVC(gamma=0.1, device="cuda")
    wanted = model.fit(X.toarray(), y).decision_function(X)
    assert_allclose(model.decision_function(Csr(X)).get(), wanted)
    model.fit(Csr(X), y)
    assert_allclose(model.decision_function(There(X.toarray())).get(), wanted, atol=1e-3)


def test_sparse_rows_of_the_device_need_it():
    X, y = sparse_rows(60)
    assert is_on_gpu(Csr(X))
    assert not is_on_gpu(X)
    with pytest.raises(ValueError, match='X is on a GPU, and device="cpu": use device="cuda"'):
        AESVC().fit(Csr(X), y)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_representatives_come_as_the_rows_did(kernel):
    X, y = make_moons(400, noise=0.1, random_state=0)
    rows = oracles.kernel(X, X, gamma=1.0) if kernel == "precomputed" else X
    chosen = RepresentativeSet(kernel=kernel, gamma=1.0, subset_size=100, device="cuda")
    wanted, wanted_labels, wanted_weights = chosen.fit_select(rows, y)
    selected, labels, weights = chosen.fit_select(There(rows), There(y))
    assert_array_equal(selected.get(), wanted)
    assert_array_equal(labels.get(), wanted_labels)
    assert_array_equal(weights, wanted_weights)
    assert isinstance(chosen.fit_select(There(rows))[0], There)
    if kernel == "rbf":
        found, own_labels, _ = chosen.fit_select(Csr(sp.csr_matrix(X)), y)
        assert isinstance(found, Csr)
        assert isinstance(own_labels, np.ndarray)
        assert_allclose(found.get().toarray(), X[chosen.sample_indices_])
