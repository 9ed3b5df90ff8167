"""kernel="precomputed" on a device that something stands in for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_moons

from aesvm import AESVC, AESVR, AENuSVC, AEOneClassSVM
from aesvm.gpu import vectors
from aesvm.gpu.devices import DeviceMemoryError
from aesvm.kernels import KernelSpec
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.model_selection import AEGridSearchCV
from tests import oracles
from tests.gpu import plain
from tests.gpu.stand_in import HostMemory, NumpyDevice


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Working sets of some of the rows, and kernel values held of some of their lines."""
    monkeypatch.setattr(plain, "WORKING_SET", 32)
    monkeypatch.setattr(vectors, "_HELD_VALUES", 5000)


def moons(n=400):
    X, y = make_moons(n + 100, noise=0.3, random_state=0)
    K = oracles.kernel(X, X[:n], gamma=1.0)
    return K[:n], y[:n], K[n:]


ESTIMATORS = [
    AESVC(C=2.0, refine="exact"),
    AESVC(refine=0, subset_size=100),
    AESVC(refine=1, subset_size=100),
    AESVC(max_vectors=50),
    AENuSVC(nu=0.3, tol=1e-5),
    AESVR(C=2.0),
    AEOneClassSVM(nu=0.2),
]


@pytest.mark.parametrize("device", ["stand_in", "strict_device", "emulated"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_models_are_those_of_the_processor(request, device, estimator):
    if device == "emulated" and estimator is not ESTIMATORS[0]:
        pytest.skip("the emulator is slow")
    request.getfixturevalue(device)
    K, y, K_new = moons()
    here = clone(estimator).set_params(kernel="precomputed").fit(K, y)
    there = clone(estimator).set_params(kernel="precomputed", device="cuda").fit(K, y)
    assert there.device_ == "cuda:0"
    values = "predict" if isinstance(estimator, AESVR) else "decision_function"
    one, other = getattr(here, values)(K_new), getattr(there, values)(K_new)
    assert_allclose(other, one, atol=0.03 * np.abs(one).max())
    on_host = there.set_params(device="cpu")
    assert_allclose(other, getattr(on_host, values)(K_new), atol=1e-9 * np.abs(one).max())
    if isinstance(estimator, AESVC):
        found = there.set_params(device="cuda").certify(K, y)
        assert found.proven
        assert found.dual_objective <= here.certify(K, y).objective * (1 + 1e-9)


@pytest.mark.parametrize("n_classes", [3, 16])
def test_several_classes_are_those_of_the_processor(stand_in, n_classes):
    """Of 16 classes, the processor trains the pairs."""
    X = np.random.default_rng(0).normal(size=(320, 4))
    y = np.argmax(X @ np.random.default_rng(1).normal(size=(4, n_classes)), axis=1)
    K = oracles.kernel(X, X, gamma=0.5)
    here = AESVC(kernel="precomputed").fit(K, y)
    there = AESVC(kernel="precomputed", device="cuda").fit(K, y)
    assert np.mean(here.predict(K) == there.predict(K)) > 0.99
    assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_and_values_are_those_of_the_matrix(stand_in, dtype):
    random = np.random.default_rng(0)
    K = random.normal(size=(300, 300))
    K += K.T
    spec = KernelSpec("precomputed", device="cuda")
    kernel = TrainingKernel(spec, K.astype(dtype)).matrix(dtype, 1e-5)
    tol = 1e-4 if dtype == np.float32 else 1e-11
    rows, some = random.permutation(300)[:250], random.permutation(300)[:90]
    assert_allclose(kernel.square(some), K[np.ix_(some, some)], rtol=tol)
    coefs = random.normal(size=90)
    assert_allclose(kernel.scores(some, coefs, rows), K[np.ix_(rows, some)] @ coefs, atol=tol * 100)
    new = random.normal(size=(40, 300))
    assert_allclose(kernel.cross(new, some), new[:, some], rtol=1e-6)
    assert_allclose(
        kernel.columns(rows).take(np.arange(7)).values(kernel.columns(rows).new_lines(new), 40),
        new[:, rows[:7]],
        rtol=1e-6,
    )


class OnGPU(np.ndarray):
    """An array as CuPy has it, as far as estimators look."""

    __cuda_array_interface__ = ()

    def get(self):
        return np.array(self, order="C")


def test_the_matrix_goes_to_the_device_once_and_one_that_is_there_never(stand_in, monkeypatch):
    K, y, K_new = moons()
    sent = []
    large_array = HostMemory.large_array

    def noted(device, values):
        sent.append(np.size(values))
        return large_array(device, values)

    monkeypatch.setattr(HostMemory, "large_array", noted)
    model = AESVC(kernel="precomputed", refine="exact", device="cuda").fit(K, y)
    assert sent == [K.size]
    sent.clear()
    wanted = model.decision_function(K_new)
    assert sum(sent) == K_new.size
    sent.clear()
    model.fit(K.view(OnGPU), y)
    assert not sent
    assert_allclose(model.decision_function(K_new.view(OnGPU)), wanted)


def test_a_matrix_without_room_on_the_device_is_refused_by_its_bytes(stand_in, monkeypatch):
    K, y, K_new = moons()
    model = AESVC(kernel="precomputed", device="cuda").fit(K, y)
    monkeypatch.setattr(NumpyDevice, "_free_bytes", lambda self: 1e6)
    wanted = "has too little free memory: 1,280,000 bytes were wanted, and 800,000 may be taken"
    with pytest.raises(DeviceMemoryError, match=wanted):
        AESVC(kernel="precomputed", device="cuda").fit(K, y)
    AESVC(kernel="precomputed", device="cuda").fit(K.astype(np.float32), y)
    assert model.predict(np.tile(K_new, (10, 1))).shape == (1000,)  # a few rows at a time


def test_what_is_no_kernel_matrix_is_refused(stand_in):
    K, y, _ = moons(60)
    model = AESVC(kernel="precomputed", device="cuda")
    with pytest.raises(ValueError, match="X is not symmetric"):
        model.fit(np.triu(K), y)
    with pytest.raises(ValueError, match="square kernel matrix"):
        model.fit(K[:, :-1], y)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        model.fit(sp.csr_matrix(K), y)


def test_searches_are_those_of_the_processor(stand_in):
    K, y, _ = moons(200)
    grid = {"C": [0.1, 1.0, 10.0]}
    found = [
        AEGridSearchCV(AESVC(kernel="precomputed", device=name), grid, cv=3).fit(K, y)
        for name in ("cpu", "cuda")
    ]
    here, there = (search.cv_results_["mean_test_score"] for search in found)
    assert_allclose(there, here, atol=0.01)
