"""Models in ONNX, run by onnxruntime: the labels and decision values of ours."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC
from aesvm.onnx import register_converters
from tests.io.fitted_models import MODELS, decide, model, other_rows, rows

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

#: What labels of ONNX cannot be.
NO_LABELS = {"dates"}


def run(fitted, X):
    """All outputs of a model, which was converted for rows of the type of X."""
    register_converters()
    graph = skl2onnx.to_onnx(fitted, X[:1])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph.SerializeToString(), options).run(None, {"X": X})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in NO_LABELS])
def test_onnx_decides_as_the_model(name, dtype):
    fitted = model(name)
    X = other_rows(fitted).astype(dtype)
    *labels, values = run(fitted, X)
    expected = decide(fitted, X.astype(np.float64)).reshape(len(X), -1)
    tol = (1e-6 if dtype == np.float32 else 1e-12) * (1.0 + np.abs(expected).max())
    np.testing.assert_allclose(values, expected, atol=tol)
    assert values.dtype == dtype
    if labels:
        np.testing.assert_array_equal(labels[0], fitted.predict(X.astype(np.float64)))


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
def test_every_kernel(kernel):
    X, _, four, _, others = rows()
    fitted = AESVC(kernel=kernel, coef0=0.5, degree=2, gamma=0.1).fit(X, four)
    labels, values = run(fitted, others)
    np.testing.assert_allclose(values, decide(fitted, others), atol=1e-9)
    np.testing.assert_array_equal(labels, fitted.predict(others))


def test_single_precision_in_keeps_decision_values_to_1e_4():
    """Where ONNX's own operators, which add up in single precision, do not."""
    X, y = make_moons(6000, noise=0.3, random_state=0)
    fitted = AESVC(C=100.0, gamma=1.0).fit(X[:3000], y[:3000])
    X = X[3000:]
    labels, values = run(fitted, X.astype(np.float32))
    assert (labels == fitted.predict(X)).mean() >= 0.999
    assert np.abs(values[:, 0] - fitted.decision_function(X)).max() < 1e-4


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


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0]])
def test_values_of_0_and_ties_are_settled_in_the_order_of_a_model_of_libsvms(order):
    fitted = copy.copy(model("four classes"))
    fitted.tie_order_ = np.array(order)
    fitted.dual_coef_ = np.zeros_like(fitted.dual_coef_)
    fitted.intercept_ = np.array([0.0, 1.0, -1.0, 0.0, 0.0, 1.0])
    others = other_rows(fitted)[:3]
    np.testing.assert_array_equal(run(fitted, others)[0], fitted.predict(others))


def test_what_onnx_cannot_have_is_refused():
    X, two, *_ = rows()
    with pytest.raises(ValueError, match="callable"):
        run(AESVC(kernel=lambda a, b: a @ b.T).fit(X, two), X)
    with pytest.raises(ValueError, match="whole numbers or strings"):
        run(model("dates"), X)
