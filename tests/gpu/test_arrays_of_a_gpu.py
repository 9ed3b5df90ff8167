"""Arrays on a GPU, which NumPy cannot look into, wherever estimators take rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, RepresentativeSet
from aesvm.gpu import rows as device_rows
from aesvm.machines import processor
from aesvm.model_selection import (
    AEGridSearchCV,
    AEHalvingGridSearchCV,
    AERandomizedSearchCV,
    svm_grid,
)
from aesvm.runtime.scikit_learn import VERSION
from tests.gpu.stand_in import NumpyDevice


class OnGPU:
    """An array as CuPy and PyTorch have it: it is not made one of NumPy's unasked."""

    __cuda_array_interface__ = ()
    __dlpack__ = None  # there, and not asked for: ``get`` is

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.ndim, self.dtype = (
            self.values.shape,
            self.values.ndim,
            self.values.dtype,
        )

    def __array__(self, *given, **named):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        return OnGPU(self.values[at])

    def get(self):
        return self.values.copy()


@pytest.fixture(name="problem", autouse=True)
def rows_on_a_gpu(stand_in, monkeypatch):
    """Rows and classes on the device, whose predictions are there, too."""

    def like_input(device, result, X):
        return OnGPU(result) if device_rows.is_on_gpu(X) else result

    monkeypatch.setattr(NumpyDevice, "has", lambda *given: False)  # NumPy would compute with them
    monkeypatch.setattr(processor, "like_input", like_input)
    X, y = make_moons(200, noise=0.3, random_state=0)
    return X, y


@pytest.mark.parametrize("machine", [AESVC, AENuSVC, AESVR, AENuSVR])
def test_scores_are_numbers(problem, machine):
    X, y = problem
    weights = np.arange(200.0)
    model = machine(gamma=1.0, device="cuda").fit(OnGPU(X), OnGPU(y))
    assert isinstance(model.predict(OnGPU(X)), OnGPU)
    assert model.score(OnGPU(X), OnGPU(y)) == pytest.approx(model.score(X, y))
    assert model.score(OnGPU(X), y) == pytest.approx(model.score(X, y))
    found = model.score(OnGPU(X), OnGPU(y), sample_weight=OnGPU(weights))
    assert found == pytest.approx(model.score(X, y, sample_weight=weights))


def test_a_model_of_sparse_rows_takes_them(problem, monkeypatch):
    X, y = problem
    model = AESVC(gamma=1.0, device="cuda").fit(sp.csr_matrix(X), y)
    monkeypatch.setattr(NumpyDevice, "has", lambda *given: True)
    found = model.decision_function(OnGPU(X))
    assert_allclose(found.get(), model.decision_function(X))


class Frame:
    """A frame as cuDF has it, with what a dict has."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def get(self, key, default=None):
        return default

    def to_cupy(self):
        return OnGPU(self.values)


def test_frames_of_cudf_are_rows(problem):
    X, y = problem
    model = AESVC(gamma=1.0, device="cuda")
    wanted = model.fit(X, y).decision_function(X)
    model.fit(Frame(X), Frame(y))
    assert_allclose(model.decision_function(X), wanted)
    assert model.score(Frame(X), Frame(y)) == pytest.approx(model.score(X, y))
    with pytest.raises(ValueError, match="X is on a GPU, and device="):
        AESVC().fit(Frame(X), y)


def test_streams_take_them(problem):
    X, y = problem
    model = AESVC(gamma=1.0, device="cuda")
    wanted = model.partial_fit(X, y, classes=[0, 1]).partial_fit().decision_function(X)
    model = AESVC(gamma=1.0, device="cuda")
    weights = OnGPU(np.ones(200))
    model.partial_fit(OnGPU(X), OnGPU(y), sample_weight=weights, classes=[0, 1]).partial_fit()
    assert_allclose(model.decision_function(X), wanted)
    model = AESVC(device="cuda")  # whose gamma takes a look at the rows of its own
    wanted = model.fit_stream([(X, y, None)]).decision_function(X)
    assert_allclose(model.fit_stream([(OnGPU(X), OnGPU(y), None)]).decision_function(X), wanted)


def test_changes_of_a_compressed_model_are_measured_on_them(problem):
    X, y = problem
    model = AESVC(gamma=1.0, device="cuda").fit(X, y)
    wanted = model.compress(20, X=X).compression_
    assert model.compress(20, X=OnGPU(X)).compression_.largest_change == pytest.approx(
        wanted.largest_change
    )


@pytest.mark.parametrize(
    ("search", "named"),
    [
        (AEGridSearchCV, {}),
        (AERandomizedSearchCV, {"n_iter": 2, "random_state": 0}),
        pytest.param(
            AEHalvingGridSearchCV,
            {"random_state": 0},
            marks=pytest.mark.skipif(
                VERSION < (1, 9), reason="scikit-learn's halving looks into y by NumPy first"
            ),
        ),
    ],
)
def test_searches_take_them(problem, search, named):
    X, y = problem
    search = search(AESVC(device="cuda"), "svm", cv=2, error_score="raise", **named)
    wanted = search.fit(X, y, sample_weight=np.ones(200)).cv_results_["mean_test_score"]
    search.fit(OnGPU(X), OnGPU(y), sample_weight=OnGPU(np.ones(200)))
    assert_allclose(search.cv_results_["mean_test_score"], wanted)


def test_targets_of_a_pipeline_may_be_there(problem):
    X, y = problem
    pipe = make_pipeline(StandardScaler(), AESVC(device="cuda"))
    search = AEGridSearchCV(pipe, {"aesvc__C": [1.0, 10.0]}, cv=2, error_score="raise")
    wanted = search.fit(X, y).best_score_
    assert search.fit(X, OnGPU(y)).best_score_ == pytest.approx(wanted)


def test_grids_are_those_of_the_same_rows_here(problem):
    X, y = problem
    wanted = svm_grid(AESVR(device="cuda"), X, y)
    found = svm_grid(AESVR(device="cuda"), OnGPU(X), OnGPU(y))
    assert found == wanted


def test_what_computes_on_the_processor_refuses_them(problem):
    X, y = problem
    for name, rows, classes in (("X", OnGPU(X), y), ("y", X, OnGPU(y))):
        wanted = f'{name} is on a GPU, and device="cpu": use device="cuda", or pass {name} as'
        with pytest.raises(ValueError, match=wanted):
            AESVC().fit(X, y).score(rows, classes)
        with pytest.raises(ValueError, match=wanted):
            AEGridSearchCV(AESVC(), {"C": [1.0]}).fit(rows, classes)
        with pytest.raises(ValueError, match=wanted):
            RepresentativeSet().fit(rows, classes)
