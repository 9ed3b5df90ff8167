"""Models in ONNX, run by onnxruntime: the labels and decision values of ours."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC
from aesvm.machines.one_vs_one import as_array
from aesvm.onnx import register_converters
from tests.io.fitted_models import MODELS, decide, model, other_rows, rows

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

#: What ONNX's operators do not have: a kernel matrix, ties broken by values, dates for labels.
REFUSED = {
    "precomputed": "kernel='precomputed': ONNX has linear, poly",
    "break_ties": "break_ties=True",
    "dates": "whole numbers or strings",
}


def run(fitted, X):
    """All outputs of a model, which was converted for rows of the type of X."""
    register_converters()
    graph = skl2onnx.to_onnx(fitted, X[:1])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph.SerializeToString(), options).run(None, {"X": X})


def _rounding(fitted):
    """What single precision may change in a decision value: sums over coefficients are rounded."""
    return 1e-6 * (1.0 + np.abs(as_array(fitted.dual_coef_)).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in REFUSED])
def test_onnx_decides_as_the_model(name, dtype):
    fitted = model(name)
    X = other_rows(fitted).astype(dtype)
    *labels, values = run(fitted, X)
    expected = decide(fitted, X.astype(np.float64)).reshape(len(X), -1)
    np.testing.assert_allclose(values, expected, atol=_rounding(fitted))
    assert values.dtype == dtype
    if labels:
        np.testing.assert_array_equal(labels[0], fitted.predict(X.astype(np.float64)))


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
def test_every_kernel(kernel):
    X, _, four, _, others = rows()
    fitted = AESVC(kernel=kernel, coef0=0.5, degree=2, gamma=0.1).fit(X, four)
    labels, values = run(fitted, others)
    np.testing.assert_allclose(values, decide(fitted, others), atol=_rounding(fitted))
    np.testing.assert_array_equal(labels, fitted.predict(others))


def test_single_precision_keeps_decision_values_to_1e_3():
    """As the documentation says, of coefficients that are large and many."""
    X, y = make_moons(6000, noise=0.3, random_state=0)
    fitted = AESVC(C=100.0, gamma=1.0).fit(X[:3000], y[:3000])
    X = X[3000:]
    labels, values = run(fitted, X.astype(np.float32))
    assert (labels == fitted.predict(X)).mean() >= 0.999
    assert np.abs(values[:, 0] - fitted.decision_function(X)).max() < 1e-3


def test_pipelines():
    X, two, _, _, others = rows()
    fitted = make_pipeline(StandardScaler(), AESVC()).fit(X, two)
    labels, values = run(fitted, others.astype(np.float32))
    assert (labels == fitted.predict(others)).mean() >= 0.999
    np.testing.assert_allclose(values[:, 0], fitted.decision_function(others), atol=1e-4)


def test_the_twin_of_scikit_learn_is_converted_too():
    fitted = model("two classes")
    others = other_rows(fitted).astype(np.float32)
    labels, _ = run(fitted.to_sklearn(), others)
    np.testing.assert_array_equal(labels, fitted.predict(others))


def test_another_order_of_ties_is_said():
    """scikit-learn's estimators have but one."""
    fitted = copy.copy(model("four classes"))
    fitted.tie_order_ = np.array([3, 2, 1, 0])
    with pytest.warns(UserWarning, match="ties of votes"):
        run(fitted, other_rows(fitted))


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_cannot_have_is_refused(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        run(model(name), other_rows(model(name)))


def test_a_callable_is_refused():
    X, two, *_ = rows()
    with pytest.raises(ValueError, match="no matrix or callable"):
        run(AESVC(kernel=lambda a, b: a @ b.T).fit(X, two), X)
