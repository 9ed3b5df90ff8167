"""device="cuda" of the estimators, with NumPy in place of CuPy: as on the processor."""

from __future__ import annotations

import pickle
import threading
import weakref
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, RepresentativeSet
from aesvm.bases import span_machine
from aesvm.formulations.hinge import Hinge
from aesvm.gpu import devices, matrix
from aesvm.gpu import rows as device_rows
from aesvm.gpu.dual import DeviceDual
from aesvm.gpu.small import DevicePairs
from aesvm.kernels import KernelSpec
from aesvm.kernels.functions import KERNELS
from aesvm.machines import class_bundles, training_kernel
from aesvm.machines.problem import EveryRow
from aesvm.machines.processor import processor
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.model_selection import AEGridSearchCV, calibrated
from aesvm.out_of_core.part import SentMachine, SentMachines
from aesvm.out_of_core.reducer import RowReducer
from aesvm.sets.derive import ReductionSettings
from tests.children import LIMIT
from tests.gpu import plain
from tests.gpu.stand_in import NumpyDevice


@pytest.fixture(name="many_rounds", autouse=True)
def small_working_sets(monkeypatch):
    monkeypatch.setattr(plain, "WORKING_SET", 32)


def moons(n=600):
    return make_moons(n, noise=0.3, random_state=0)


def targets(X):
    return np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]


CLASSIFIERS = [
    AESVC(gamma=1.0, C=2.0),
    AESVC(kernel="linear"),
    AESVC(kernel="poly", degree=2, coef0=1.0),
    AESVC(gamma=1.0, refine="exact", class_weight="balanced"),
    AENuSVC(nu=0.3, gamma=1.0, tol=1e-5),
]


def test_solves_begin_in_single_precision_however_large_bounds_are(stand_in, monkeypatch):
    monkeypatch.setattr(training_kernel, "_FEW", 0)
    monkeypatch.setattr(plain, "WORKING_SET", 256)
    precisions = []
    begin = DeviceDual.__init__

    def watched(self, problem, *given):
        precisions.append(problem.columns.vectors.form.dtype)
        begin(self, problem, *given)

    monkeypatch.setattr(DeviceDual, "__init__", watched)
    X, y = moons(300)
    here = AESVC(gamma=1.0, C=1e4, refine="exact").fit(X, y)
    there = clone(here).set_params(device="cuda").fit(X, y)
    rows, bounds = np.arange(300), np.full(300, 1e4)
    assert TrainingKernel(KernelSpec("rbf", 1.0), X).for_sums(rows, bounds).dtype == np.float64
    assert precisions[0] == np.float32
    assert (there.kkt_violation_ <= there.tol).all()
    assert there.dual_objective_ == pytest.approx(here.dual_objective_, rel=1e-3)


def assert_as_on_the_processor(estimator, X, y, values, sample_weight=None):
    """The same objective to 1e-4, the same labels where decision values are over 1e-3."""
    here = clone(estimator).set_params(device="cpu").fit(X, y, sample_weight)
    there = clone(estimator).set_params(device="cuda").fit(X, y, sample_weight)
    assert (here.device_, there.device_) == ("cpu", "cuda:0")
    assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-4)
    one, other = getattr(here, values)(X), getattr(there, values)(X)
    spread = np.abs(one).max()
    assert_allclose(other, one, atol=0.02 * spread)
    return here, there


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_classifiers_are_those_of_the_processor(stand_in, estimator):
    X, y = moons()
    here, there = assert_as_on_the_processor(estimator, X, y, "decision_function")
    clear = np.abs(here.decision_function(X)) > 1e-2
    assert (here.predict(X) == there.predict(X))[clear].all()


@pytest.mark.parametrize(
    "estimator",
    [
        AESVR(gamma=1.0, C=2.0),
        AENuSVR(gamma=1.0, nu=0.4, tol=1e-5),
        AEOneClassSVM(gamma=1.0, nu=0.2),
    ],
    ids=repr,
)
def test_other_machines_are_those_of_the_processor(stand_in, estimator):
    X, _ = moons()
    values = "decision_function" if isinstance(estimator, AEOneClassSVM) else "predict"
    assert_as_on_the_processor(estimator, X, targets(X), values)


def test_weights_and_several_classes_of_sparse_rows(stand_in):
    X, y = make_classification(400, 12, n_informative=5, n_classes=3, flip_y=0.1, random_state=0)
    X[np.abs(X) < 0.7] = 0.0
    weights = np.random.default_rng(0).integers(0, 3, 400).astype(float)
    estimator = AESVC(gamma=0.1, C=2.0)
    for rows in (X, sp.csr_matrix(X), X.astype(np.float32)):
        here, there = assert_as_on_the_processor(estimator, rows, y, "decision_function", weights)
        assert np.mean(here.predict(rows) == there.predict(rows)) > 0.99


def test_entries_that_are_there_twice_are_added_up(stand_in):
    given = np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])
    rows = device_rows.copied(stand_in, sp.csr_matrix(given, shape=(2, 2)))
    assert_array_equal(rows.data, [3.0, 5.0])


def test_an_interrupt_is_answered_as_soon_of_wide_rows(stand_in, monkeypatch):
    """The device is waited for after so many products, however many features they are of."""
    monkeypatch.setattr(matrix, "LINES", 10)
    monkeypatch.setattr(matrix, "_BETWEEN", 200 * 100 * 8.0)
    n_waits = {}
    for width in (8, 80):
        waits = []
        monkeypatch.setattr(NumpyDevice, "wait", lambda own, waits=waits: waits.append(own))
        spec = KernelSpec("rbf", 0.1, device="cuda")
        kernel = TrainingKernel(spec, np.ones((200, width))).matrix(np.float64, 1e-5)
        vectors = kernel.vectors(np.arange(200))
        matrix.add(vectors, vectors, None, np.ones((1, 200)), np.zeros((1, 200)))
        n_waits[width] = len(waits)
    assert n_waits[80] > 5 * n_waits[8] > 0


def test_far_rows_whose_products_cancel(stand_in):
    X, y = moons(300)
    X[0] = 1e8
    assert_as_on_the_processor(AESVC(gamma=1.0), X, y, "decision_function")


@pytest.mark.parametrize("parameters", [{"refine": 0}, {"refine": 1}, {"max_vectors": 40}])
def test_every_way_to_train(stand_in, parameters):
    X, y = moons(1500)
    estimator = AESVC(gamma=5.0, subset_size=200, **parameters)
    here = clone(estimator).fit(X, y)
    there = clone(estimator).set_params(device="cuda").fit(X, y)
    for model in (here, there):
        model.certify(X, y)
    one, other = here.certificate_, there.certificate_
    assert other.objective == pytest.approx(one.objective, rel=0.01)
    assert other.dual_objective <= one.objective * (1 + 1e-9)


def test_certificates_are_proven(stand_in):
    X, y = moons(400)
    model = AESVC(gamma=1.0, device="cuda", refine="exact").fit(X, y)
    found = model.certify(X, y)
    assert found.proven
    assert found.relative_gap <= 1e-3


def test_streams(stand_in):
    X, y = moons(900)
    chunks = [(X[at : at + 300], y[at : at + 300], None) for at in (0, 300, 600)]
    here = AESVC(gamma=2.0, refine=0).fit_stream(chunks)
    there = AESVC(gamma=2.0, refine=0, device="cuda").fit_stream(chunks)
    assert there.device_ == "cuda:0"
    assert np.mean(here.predict(X) == there.predict(X)) > 0.99


def test_a_model_can_be_used_where_there_is_no_gpu(stand_in):
    X, y = moons(200)
    model = pickle.loads(pickle.dumps(AESVC(gamma=1.0, device="cuda").fit(X, y)))
    before = model.decision_function(X)
    assert_allclose(model.set_params(device="cpu").decision_function(X), before, atol=1e-8)


def test_kernels_of_the_host_alone_are_refused(stand_in):
    X, y = moons(60)
    with pytest.raises(ValueError, match=r"cannot be computed with device='cuda'"):
        AESVC(kernel=lambda a, b: a @ b.T, device="cuda").fit(X, y)


def test_kernels_that_were_added_for_the_host_are_refused(stand_in, monkeypatch):
    X, _ = moons(60)
    own = KERNELS["rbf"]._replace(map=lambda products, parameters: None)
    monkeypatch.setitem(KERNELS, "another", own)
    wanted = r"'another' cannot .* use 'rbf', 'poly', 'sigmoid', 'linear', 'precomputed', or"
    with pytest.raises(ValueError, match=wanted):
        TrainingKernel(KernelSpec("another", device="cuda"), X).in_double()


class OnGPU(np.ndarray):
    """An array as CuPy has it, as far as estimators look."""

    __cuda_array_interface__ = ()

    def get(self):
        return np.array(self, order="C")


def test_rows_of_a_gpu_need_a_gpu(stand_in):
    X, y = moons(60)
    with pytest.raises(ValueError, match=r'X is on a GPU, and device="cpu": use device="cuda"'):
        AESVC().fit(X.view(OnGPU), y)


def test_rows_of_a_gpu_are_known_there_again(stand_in, monkeypatch):
    X, y = moons(100)
    copied = []
    monkeypatch.setattr(device_rows, "copied", lambda device, rows: copied.append(rows) or rows)
    model = AESVC(gamma=1.0, device="cuda").fit(X.view(OnGPU), y)
    assert not copied
    assert type(model.decision_function(X.view(OnGPU))) is np.ndarray  # as the device has arrays
    AESVC(gamma=1.0, device="cuda").fit(X, y)
    assert copied


@pytest.mark.parametrize(
    "given",
    [
        lambda X: X,
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.astype(np.float32),
    ],
    ids=["rows", "fortran", "slice", "single"],
)
def test_predictions_use_the_rows_that_are_there(stand_in, monkeypatch, given):
    X, y = moons(300)
    model = AESVC(gamma=1.0, device="cuda").fit(X, y)
    rows = given(X)
    wanted = model.decision_function(rows)
    used = []
    monkeypatch.setattr(matrix, "copied", lambda device, own: used.append(own) or np.asarray(own))
    assert_allclose(model.decision_function(rows.view(OnGPU)), wanted)
    assert used
    assert all(type(own) is OnGPU for own in used)


@pytest.mark.parametrize("dtype", [np.float16, np.int32, bool])
def test_rows_of_a_gpu_of_other_types_are_those_of_the_host(stand_in, dtype):
    X, y = make_classification(200, 5, random_state=0)
    X = (2.0 * X).astype(dtype)
    model = AESVC(gamma=0.1, device="cuda")
    wanted = model.fit(X, y).decision_function(X)
    rows = X.view(OnGPU)
    assert_allclose(model.fit(rows, y.view(OnGPU)).decision_function(rows), wanted)


class OfAnotherLibrary:
    """An array on a GPU, of a library that keeps to the array API standard."""

    __cuda_array_interface__ = __dlpack__ = ()
    from_dlpack = staticmethod(lambda there: ("taken over", there))

    def __array_namespace__(self):
        return self


def test_results_are_arrays_of_the_library_that_rows_are_of(stand_in, monkeypatch):
    result = np.arange(3)
    entered = []
    monkeypatch.setattr(NumpyDevice, "here", lambda self: entered.append(self) or nullcontext())
    said, there = device_rows.like_input(stand_in, result, OfAnotherLibrary())
    assert said == "taken over"
    assert entered == [stand_in]  # which need not be the first GPU
    assert_allclose(there, result)
    assert device_rows.like_input(stand_in, np.array(["a"]), OfAnotherLibrary()).dtype.kind == "U"
    assert device_rows.like_input(stand_in, result, np.ones((3, 2))) is result


class Column:
    """An array on a GPU without DLPack, whose ``get`` wants a key: as cuDF's columns are."""

    __cuda_array_interface__ = ()

    def __init__(self, values):
        self.values = values

    def get(self, key, default=None):
        return self.values[key]

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_arrays_of_libraries_without_dlpack_are_taken(stand_in):
    X, y = moons(60)
    model = AESVC(gamma=1.0, device="cuda")
    wanted = model.fit(X, y).predict(X)
    assert_array_equal(model.fit(Column(X), Column(y)).predict(Column(X)), wanted)


@pytest.mark.parametrize("beside", [False, True])
def test_rows_that_were_changed_are_copied_again(stand_in, monkeypatch, beside):
    X, y = moons(200)
    monkeypatch.setattr(device_rows, "copied", lambda device, rows: rows.copy())
    begun, ended = threading.Event(), threading.Event()

    def compute():  # something else, all the time
        with processor("cuda").computing():
            begun.set()
            ended.wait(LIMIT)

    other = threading.Thread(target=compute)
    if beside:
        other.start()
        begun.wait(LIMIT)
    AESVC(gamma=1.0, device="cuda").fit(X, y)
    X *= 3.0
    here = AESVC(gamma=1.0).fit(X, y)
    there = AESVC(gamma=1.0, device="cuda").fit(X, y)
    ended.set()
    if beside:
        other.join(LIMIT)
    assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-4)


def test_rows_are_copied_once_for_a_fit(stand_in, monkeypatch):
    X, y = moons(200)
    copied = []
    monkeypatch.setattr(
        device_rows, "copied", lambda device, rows: copied.append(rows) or rows.copy()
    )
    AESVC(gamma=1.0, device="cuda", refine="exact").fit(X, y)
    assert len(copied) == 1


@pytest.mark.parametrize("operation", ["solve_pairs", "write_values"])
def test_threads_of_many_small_pairs_are_on_the_device(monkeypatch, operation):
    """Whether the device solves them, or compiled code with kernel values of the device."""
    # which need not be the first GPU: that is where arrays of other threads would be made
    inside, threads, are_two = threading.local(), set(), threading.Event()

    class Second(NumpyDevice):
        @contextmanager
        def here(self):
            inside.n = getattr(inside, "n", 0) + 1
            try:
                yield
            finally:
                inside.n -= 1

    class Checked:
        WORKING_SET = plain.WORKING_SET
        MOST_SLOTS, SLOTS_PER_THREAD = plain.MOST_SLOTS, plain.SLOTS_PER_THREAD

        def __getattr__(self, name):
            assert getattr(inside, "n", 0), "it is asked from where no device was chosen"
            if name == operation:
                threads.add(threading.current_thread())
                if len(threads) > 1:
                    are_two.set()
                assert are_two.wait(LIMIT)  # else one may have done all before another begins
            return getattr(plain, name)

    device = Second("cuda:1", Checked())
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    monkeypatch.setattr(class_bundles, "BUNDLE_ROWS", 12)
    monkeypatch.setattr(class_bundles, "_DEVICE_ROWS", 48)
    if operation == "write_values":
        monkeypatch.setattr(DevicePairs, "has_room", False)
    X, y = np.random.default_rng(0).normal(size=(96, 2)), np.arange(96) % 16
    AESVC(gamma=1.0, refine="exact", device="cuda:1", n_jobs=3).fit(X, y)
    assert are_two.is_set()


def test_rows_on_the_device_are_freed_with_the_fit_or_prediction(stand_in, monkeypatch):
    X, y = moons(60)
    copies, copied = [], device_rows.copied

    class Noted(np.ndarray):
        pass

    def noted(device, rows):
        found = copied(device, rows).copy().view(Noted)
        copies.append(weakref.ref(found))
        return found

    monkeypatch.setattr(device_rows, "copied", noted)
    model = AESVC(gamma=1.0, device="cuda").fit(X, y)
    model.predict(X[:5])
    assert len(copies) == 2
    assert not any(one() is not None for one in copies)


def test_rows_of_a_fold_are_copied_once_for_all_candidates(stand_in, monkeypatch):
    X, y = moons(200)
    fitted, copied = [], device_rows.copied

    def noted(device, rows):
        fitted.extend([rows] * (len(rows) == 100))
        return copied(device, rows)

    monkeypatch.setattr(device_rows, "copied", noted)
    grid = {"gamma": [0.5, 1.0, 2.0], "C": [1.0, 2.0]}
    AEGridSearchCV(AESVC(device="cuda"), grid, cv=2, refit=False).fit(X, y)
    assert len(fitted) == 2


def test_workers_of_a_cluster_copy_rows_once_for_a_task(stand_in, monkeypatch):
    pytest.importorskip("distributed")
    from aesvm.dask import worker as workers
    from aesvm.dask.cluster import Partition

    X, y = moons(300)
    spec = KernelSpec("rbf", 0.1, device="cuda")
    settings = ReductionSettings(0.01, 50, 100, "distance")
    features = workers.Features(2, "AESVC")
    part = workers._part(features, RowReducer(spec, settings), 0, 0.01, 1, Partition(X, y, None))
    machine = SentMachine(EveryRow(300, 1.0), np.arange(20), np.ones(20), (0.0,), 5.0)
    sent = SentMachines(X[:20], {0: machine, 1: machine}, spec, Hinge(), 1e-3)
    copied = []
    monkeypatch.setattr(device_rows, "copied", lambda device, own: copied.append(own) or own.copy())
    scores = workers._score(part, sent)
    assert set(scores) == {0, 1}
    assert len(copied) == 1


def test_candidates_of_a_search_are_scored_on_the_device_of_their_name(stand_in, monkeypatch):
    """A GPU other than the first must be the current one while it computes."""
    X, y = moons(200)
    inside = []
    here = NumpyDevice.here

    @contextmanager
    def watched(self):
        with here(self):
            inside.append(self.name)
            yield
            inside.pop()

    monkeypatch.setattr(NumpyDevice, "here", watched)
    outside = []
    sum_lines = plain.sum_lines

    def watched_sums(*given):
        outside.extend([given] * (not inside))
        sum_lines(*given)

    monkeypatch.setattr(plain, "sum_lines", watched_sums)
    search = AEGridSearchCV(AESVC(device="cuda"), {"gamma": [0.5, 1.0], "C": [1.0, 2.0]}, cv=2)
    search.fit(X, y)
    assert not outside


# -------------------------------------------------------------------- representative sets


def held_to_its_bound(chosen, X, y, K, weights):
    """The paper's conditions, with kernel values K: who stands for whom, and how closely."""
    gamma = chosen.combinations_.toarray()
    selected = chosen.sample_indices_
    assert_allclose(gamma.sum(axis=1), 1.0)
    assert (gamma >= 0.0).all()
    assert ((gamma > 0.0) <= (y[:, None] == y[selected])).all()
    left = np.eye(len(K)) - gamma @ np.eye(len(K))[selected]
    residuals = np.einsum("ij,jk,ik->i", left, K, left)
    assert_allclose(chosen.residuals_, residuals, atol=1e-6)
    assert residuals.max() <= chosen.hull_tol + 1e-9
    assert_allclose(chosen.weights_, weights @ gamma)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_representatives_keep_the_bound(stand_in, kernel):
    X, y = moons(400)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    rows = K if kernel == "precomputed" else X
    weights = np.random.default_rng(0).integers(1, 4, 400).astype(float)
    parameters = {"kernel": kernel, "gamma": 1.0, "subset_size": 100, "keep_combinations": True}
    chosen = RepresentativeSet(device="cuda", **parameters).fit(rows, y, weights)
    assert chosen.device_ == "cuda:0"
    assert chosen.reduced_
    held_to_its_bound(chosen, X, y, K, weights)
    here = RepresentativeSet(**parameters).fit(rows, y, weights)
    assert here.device_ == "cpu"
    n, n_here = len(chosen.sample_indices_), len(here.sample_indices_)
    assert abs(n - n_here) <= 2 + 0.1 * n_here


def test_representatives_of_a_stream(stand_in):
    X, y = moons(900)
    chunks = [(X[at : at + 300], y[at : at + 300], None) for at in (0, 300, 600)]
    chosen = RepresentativeSet(gamma=2.0, hull_tol=0.05, device="cuda").fit_stream(chunks)
    assert chosen.device_ == "cuda:0"
    rows, _, weights = chosen.select()
    assert len(rows) < 500
    assert weights.sum() == pytest.approx(900.0)
    assert chosen.max_residual_ <= chosen.hull_tol
    bit_by_bit = RepresentativeSet(gamma=2.0, device="cuda")
    for own in chunks:
        bit_by_bit.partial_fit(*own)
    assert bit_by_bit.partial_fit().device_ == "cuda:0"


def test_the_set_of_a_model_was_computed_where_the_model_was(stand_in):
    X, y = moons(400)
    model = AESVC(gamma=1.0, refine=0, device="cuda").fit(X, y)
    assert model.representative_set_.device_ == model.device_ == "cuda:0"
    assert AESVC(gamma=1.0, refine=0).fit(X, y).representative_set_.device_ == "cpu"


def test_a_callable_kernel_has_no_representatives_on_a_device(stand_in):
    X, y = moons(60)
    with pytest.raises(ValueError, match=r"cannot be computed with device='cuda'"):
        RepresentativeSet(kernel=lambda a, b: a @ b.T, device="cuda").fit(X, y)
    with pytest.raises(ValueError, match=r"device='gpu' is unknown"):
        RepresentativeSet(device="gpu").fit(X, y)


def test_too_few_vectors_are_called_so_wherever_they_were_chosen(stand_in, monkeypatch):
    monkeypatch.setattr(span_machine, "FREE", 0.0)  # gaps are estimated
    X, y = moons(1500)
    for device in ("cpu", "cuda"):
        model = AESVC(gamma=100.0, C=100.0, max_vectors=3, device=device)
        with pytest.warns(UserWarning, match=r"far from the exact SVM.* more vectors \(now 3\)"):
            model.fit(X, y)
        found = model.certificate_
        assert found.estimated_gap > 0.5
        assert found.verdict().startswith(
            "may be far from the exact SVM: its objective may be over 100%"
        )
        assert found.caveat() in str(found)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_folds_of_a_calibration_share_work_on_the_device(stand_in, kernel):
    X, y = moons(200)
    rows = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2)) if kernel == "precomputed" else X
    found = [
        calibrated(AESVC(kernel=kernel, gamma=1.0, device=name), cv=3).fit(rows, y)
        for name in ("cpu", "cuda")
    ]
    here, there = (model.predict_proba(rows) for model in found)
    assert_allclose(there, here, atol=0.01)
