"""A certificate is of the model that was trained: one that was changed by hand is not certified."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

import aesvm
from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.estimators.parameters import trained_with

X, LABELS = make_blobs(90, centers=3, cluster_std=3.0, random_state=0)

MODELS = {
    "two classes": (AESVC(), LABELS > 0),
    "classes": (AESVC(), np.array(["a", "b", "c"])[LABELS]),
    "nu classes": (AENuSVC(nu=0.6), LABELS),
    "values": (AESVR(), X[:, 0]),
    "nu values": (AENuSVR(), X[:, 0]),
    "one class": (AEOneClassSVM(nu=0.3), None),
}

ATTRIBUTES = (
    "support_",
    "support_vectors_",
    "n_support_",
    "dual_coef_",
    "intercept_",
    "gamma_",
    "classes_",
)


def changed(values):
    if isinstance(values, float):
        return values * 2.0
    if sp.issparse(values):
        return values * 2.0
    return values[::-1].copy() if values.dtype.kind in "bU" else values + values.dtype.type(1)


@pytest.fixture(params=list(MODELS))
def fitted(request):
    model, y = MODELS[request.param]
    return copy.deepcopy(model).fit(X, y), y


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_a_model_with_another_attribute_is_not_certified(fitted, name):
    model, y = fitted
    if not hasattr(model, name):
        pytest.skip("it has none")
    before = getattr(model, name)
    setattr(model, name, changed(before))
    said = f"^{name} was changed after training"
    with pytest.raises(ValueError, match=said):
        model.certify(X, y)
    with pytest.warns(UserWarning, match=said):
        _ = model.certificate_
    setattr(model, name, before)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.certify(X, y).exact
        assert model.certificate_.exact


@pytest.mark.parametrize("sparse", [False, True])
def test_copies_are_known_again_and_so_are_their_changes(fitted, sparse, tmp_path):
    model, y = fitted
    rows = sp.csr_array(X) if sparse else X
    model.fit(rows, y)
    model.certify(rows, y)
    aesvm.save(model, tmp_path / "model.aesvm")
    copies = [
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        aesvm.load(tmp_path / "model.aesvm"),
    ]
    for one in copies:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert one.certify(rows, y).exact
        one.dual_coef_ = 2.0 * one.dual_coef_
        one.intercept_ = one.intercept_ + 1.0
        with pytest.raises(ValueError, match="dual_coef_ and intercept_ were changed after"):
            one.certify(rows, y)


def test_a_change_in_place_is_noticed():
    model = AESVC().fit(X, LABELS)
    model.intercept_[0] += 1e-9
    with pytest.raises(ValueError, match="intercept_ was changed"):
        model.certify(X, LABELS)


def test_a_changed_model_of_a_stream_is_not_certified():
    chunks = [(X[:50], LABELS[:50], None), (X[50:], LABELS[50:], None)]
    model = AESVC(gamma=0.1).fit_stream(chunks)
    model.certify_stream(chunks)
    model.intercept_ = model.intercept_ + 1.0
    with pytest.raises(ValueError, match="intercept_ was changed"):
        model.certify_stream(chunks)


def test_a_changed_model_predicts_and_is_still_changed_when_compressed_or_read(tmp_path):
    model = AESVC().fit(X, LABELS > 0)
    model.intercept_ = model.intercept_ + 100.0
    assert model.predict(X).all()
    aesvm.save(model, tmp_path / "model.aesvm")
    with pytest.warns(UserWarning, match="intercept_ was changed"):
        read = aesvm.load(tmp_path / "model.aesvm")
    for one in (read, model.compress(10)):
        assert one.predict(X).all()
        with pytest.raises(ValueError, match=r"intercept_.* changed after training"):
            one.certify(X, LABELS > 0)


def test_a_compressed_model_is_certified():
    model = AESVC().fit(X, LABELS).compress(20)
    assert model.certify(X, LABELS).objective is not None


#: Parameters of how a model is computed or used: which model is optimal does not depend on them.
HOW = {
    *("gamma", "subset_size", "partition_size", "partition", "refine", "gap_tol", "max_iter"),
    *("cache_size", "shrinking", "memory_budget", "on_overflow", "device", "n_jobs", "verbose"),
    *("decision_function_shape", "break_ties", "time_limit"),
}


@pytest.mark.parametrize(
    "kind", [one for name in aesvm.__all__ if hasattr(one := getattr(aesvm, name), "certify")]
)
def test_every_parameter_is_checked_before_certifying_or_does_not_matter(kind):
    """``gamma`` is a fitted attribute, too, and checked as that."""
    parameters = set(inspect.signature(kind).parameters)
    assert parameters - HOW == set(trained_with(kind()))
