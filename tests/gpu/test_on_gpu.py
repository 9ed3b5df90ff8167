"""On a GPU itself, where there is one: ``make test-gpu``."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVC, AESVR, AENuSVC, AEOneClassSVM, RepresentativeSet
from aesvm.gpu import hull
from aesvm.gpu import rows as device_rows
from aesvm.gpu.devices import DeviceMemoryError, cuda_device
from aesvm.gpu.dual import minimize
from aesvm.gpu.matrix import add
from aesvm.gpu.vectors import HostVectors
from aesvm.inspection import shapley_values
from aesvm.kernels import KernelSpec, expansion
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.model_selection import AEGridSearchCV
from aesvm.solver import smo
from aesvm.solver.state import Known
from tests.gpu.stand_in import device_kernel
from tests.gpu.test_hull import check, clouds, on_host
from tests.gpu.test_vectors import LittleMemory

pytestmark = pytest.mark.gpu


@pytest.fixture(name="gpu", scope="module")
def first_gpu():
    try:
        return cuda_device(0)
    except (ImportError, RuntimeError) as error:
        pytest.skip(str(error))


SPECS = [
    KernelSpec("rbf", 0.5),
    KernelSpec("linear"),
    KernelSpec("poly", 0.3, 3, 1.0),
    KernelSpec("sigmoid", 0.3, 3, 0.1),
]


@pytest.mark.parametrize(
    ("estimator", "sizes"),
    [
        (AESVC(tol=1e-5), (1, 2, 40, 300, 150, 9)),
        (AESVC(tol=1e-5), (900, 1100, 3, 1500)),
        (AENuSVC(nu=0.3, tol=1e-5), (300, 450, 350, 1300)),
    ],
)
def test_small_pairs_of_classes(gpu, estimator, sizes):
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = random.normal(size=(len(sizes), 5))[y] + random.normal(size=(len(y), 5))
    here = clone(estimator).fit(X, y)
    there = clone(estimator).set_params(device="cuda").fit(X, y)
    assert_allclose(there.dual_objective_, here.dual_objective_, rtol=1e-5)
    assert (there.kkt_violation_ <= estimator.tol).all()
    assert_array_equal(there.dual_coef_, clone(there).fit(X, y).dual_coef_)


@pytest.mark.parametrize("width", [3, 54, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kernel)
def test_sums_and_blocks_are_those_of_the_host(gpu, spec, dtype, width):
    random = np.random.default_rng(0)
    X, new = (random.normal(size=(n, width)) / np.sqrt(width) for n in (700, 333))
    host = spec.matrix(X, dtype=dtype)
    device = device_kernel(host, gpu)
    every, edges = np.arange(700), np.array([0, 300, 700])
    tol = 1e-4 if dtype == np.float32 else 1e-12
    for n_outputs in (1, 5, 40):
        coefs = random.normal(size=(700, n_outputs))
        found = expansion.expand(device.columns(every), new, edges, coefs, lambda sums: sums)
        wanted = expansion.expand(host.columns(every), new, edges, coefs, lambda sums: sums)
        assert_allclose(found, wanted, rtol=tol, atol=tol * np.abs(wanted).max())
    some = np.arange(10, 400)
    assert_allclose(device.square(some), host.square(some), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("groups", [1, 2])
def test_duals_are_those_of_the_host_and_the_same_every_time(gpu, dtype, groups):
    n = 5000
    X = np.random.default_rng(0).normal(size=(n, 5))
    signs = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0, 1.0, -1.0)
    host = KernelSpec("rbf", 0.5).matrix(X, dtype=dtype)
    device = device_kernel(host, gpu)
    parameters = {"tol": 1e-4}
    if groups == 2:
        parameters |= {"groups": (signs > 0).astype(int), "start": np.full(n, 0.3)}
    problem = np.arange(n), signs, -np.ones(n), np.ones(n)
    found = minimize(device, *problem, **parameters)
    wanted = smo.minimize(host, *problem, **parameters)
    assert found.converged
    assert found.objective == pytest.approx(wanted.objective, rel=1e-5)
    assert_array_equal(minimize(device, *problem, **parameters).alpha, found.alpha)


@pytest.mark.parametrize(
    "parameters", [{"refine": "exact"}, {"refine": 0}, {"refine": 1}, {"max_vectors": 300}], ids=str
)
def test_every_way_to_train(gpu, parameters):
    X, y = make_moons(20_000, noise=0.3, random_state=0)
    here = AESVC(gamma=2.0, **parameters).fit(X, y)
    there = AESVC(gamma=2.0, device="cuda", **parameters).fit(X, y)
    assert there.device_ == "cuda:0"
    one, other = here.certify(X, y), there.certify(X, y)
    assert other.objective == pytest.approx(one.objective, rel=1e-2)
    assert other.dual_objective <= one.objective * (1 + 1e-9)
    assert np.mean(here.predict(X) == there.predict(X)) > 0.995


@pytest.mark.parametrize(
    "estimator", [AESVR(gamma=1.0), AENuSVC(nu=0.3, gamma=1.0), AEOneClassSVM(nu=0.1)], ids=repr
)
def test_other_machines(gpu, estimator):
    X, y = make_moons(5000, noise=0.3, random_state=0)
    here = estimator.set_params(device="cpu", tol=1e-4).fit(X, y).predict(X)
    there = estimator.set_params(device="cuda").fit(X, y).predict(X)
    assert np.mean(np.abs(here - there) > 0.01) < 0.005


def test_sparse_rows_of_several_classes(gpu):
    X, y = make_classification(4000, 20, n_informative=8, n_classes=4, random_state=0)
    X[np.abs(X) < 0.7] = 0.0
    rows = sp.csr_matrix(X)
    here = AESVC(gamma=0.05).fit(rows, y).predict(rows)
    there = AESVC(gamma=0.05, device="cuda").fit(rows, y).predict(rows)
    assert np.mean(here == there) > 0.995


@pytest.mark.parametrize("gamma", [100.0, 1e12])
def test_sparse_rows_so_far_apart_that_products_cancel(gpu, gamma):
    X = sp.csr_matrix(np.random.default_rng(0).poisson(0.4, (3000, 30)).astype(float))
    y = np.arange(3000) % 3
    here = AESVC(gamma=gamma, refine="exact").fit(X, y).certificate_
    there = AESVC(gamma=gamma, refine="exact", device="cuda").fit(X, y).certificate_
    assert_allclose(there.objective, here.objective, rtol=1e-3)
    assert_allclose(there.dual_objective, here.dual_objective, rtol=1e-3)


def test_arrays_of_the_gpu_go_in_and_come_out(gpu):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    rows = gpu.array(X)
    model = AESVC(gamma=1.0, device="cuda").fit(rows, gpu.array(y))
    found = model.predict(rows)
    assert isinstance(found, gpu.xp.ndarray)
    assert_array_equal(gpu.to_host(found), model.predict(X))


@pytest.mark.parametrize("n_lines", [1, 130, 5000])
@pytest.mark.parametrize("width", [1, 8, 700])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_of_any_shape(gpu, dtype, width, n_lines):
    """Of one row and one feature; around the edges of tiles; of many tiles to a block."""
    random = np.random.default_rng(0)
    host = KernelSpec("rbf", 0.7).matrix(
        random.normal(size=(n_lines, width)) / np.sqrt(width), dtype=dtype
    )
    device = device_kernel(host, gpu)
    every, edges = np.arange(n_lines), np.array([0, n_lines])
    tol = 1e-4 if dtype == np.float32 else 1e-12
    for n_columns, n_outputs in ((1, 1), (127, 1), (129, 33), (200_000 // width, 1)):
        new = random.normal(size=(n_columns, width)) / np.sqrt(width)
        coefs = random.normal(size=(n_lines, n_outputs))
        found = expansion.expand(device.columns(every), new, edges, coefs, lambda sums: sums)
        wanted = expansion.expand(host.columns(every), new, edges, coefs, lambda sums: sums)
        assert_allclose(found, wanted, rtol=tol, atol=tol * np.abs(coefs).sum())


def test_far_rows_are_numbers(gpu):
    """The first is so far away that its values overflow where its length is not counted."""
    X, y = make_moons(1000, noise=0.3, random_state=0)
    X[0] = 30.0
    here, there = AESVC(gamma=1.0).fit(X, y), AESVC(gamma=1.0, device="cuda").fit(X, y)
    assert there.dual_objective_ == pytest.approx(here.dual_objective_, rel=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(gpu, value):
    n = 3000
    device = device_kernel(KernelSpec("rbf", 1.0).matrix(np.arange(float(n))[:, None]), gpu)
    signs, ones, scores = np.where(np.arange(n) % 2, 1.0, -1.0), np.ones(n), np.zeros(n)
    scores[n // 3] = value
    known = Known(scores, 1.0)
    with pytest.raises(ValueError, match="not finite numbers"):
        minimize(device, np.arange(n), signs, -ones, ones, start=np.zeros(n), known=known)


@pytest.mark.parametrize(
    "given",
    [
        lambda xp, X: xp.asfortranarray(X),
        lambda xp, X: xp.repeat(X, 2, axis=1)[:, ::2],
        lambda xp, X: X.astype(np.float32),
        lambda xp, X: X.astype(np.float16),
        lambda xp, X: (10 * X).astype(np.int32),
    ],
    ids=["fortran", "slice", "single", "half", "whole"],
)
def test_arrays_of_the_gpu_of_every_kind(gpu, given):
    X, y = make_moons(2000, noise=0.3, random_state=0)
    rows = given(gpu.xp, gpu.array(X))
    host = gpu.to_host(rows)
    model = AESVC(gamma=1.0, device="cuda")
    wanted = model.fit(host, y).decision_function(host)
    found = gpu.to_host(model.fit(rows, y).decision_function(rows))
    assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("entries", [(16, 64, 678), (1, 678)])
def test_representatives_keep_the_bound(gpu, monkeypatch, dtype, entries):
    """Also where ledgers are too short, and subsets are reduced once more."""
    monkeypatch.setattr(hull, "_ENTRIES", entries)
    problem = clouds(dtype, 200)
    given = (gpu.array(problem["gram"]), problem["sizes"], gpu.array(problem["weights"]))
    with gpu.here():
        found = hull.reduce_batch(gpu, *given, problem["tol"], True)
        again = hull.reduce_batch(gpu, *given, problem["tol"], True)
    check(problem, found)
    few = on_host(problem).selected.sum(axis=1)
    assert (np.abs(found.selected.sum(axis=1) - few) <= 2 + 0.05 * few).all()
    assert_array_equal(found.selected, again.selected)
    assert_array_equal(found.weights, again.weights)


def test_too_little_memory_leaves_the_device_usable(gpu):
    with pytest.raises(DeviceMemoryError, match="bytes more were wanted"), gpu.here():
        gpu.xp.empty(2**50, dtype=np.int8)
    X, y = make_moons(300, noise=0.3, random_state=0)
    assert AESVC(gamma=1.0, device="cuda").fit(X, y).score(X, y) > 0.85


@pytest.mark.parametrize("width", [1, 20, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_rows_of_the_host_are_those_of_rows_on_the_device(gpu, monkeypatch, dtype, width):
    """In panels that are copied while others are computed with: time and again the same."""
    n = 100_001
    random = np.random.default_rng(0)
    X = random.normal(size=(n, width)) / np.sqrt(width)
    kernel = device_kernel(KernelSpec("rbf", 0.7).matrix(X, dtype=dtype), gpu)
    some = gpu.array(np.sort(random.choice(n, 70_000, replace=False)))
    numbers = gpu.array(random.integers(0, n, 9000), dtype=np.int32)
    coefs = gpu.array(random.normal(size=(2, 9000)))
    order = random.permutation(n)
    plain = kernel.vectors(order)
    LittleMemory(monkeypatch).begin(free=2.0**22, panel=1 << 20)
    streamed = kernel.vectors(order)
    assert isinstance(streamed, HostVectors)
    assert isinstance(streamed.take(some), HostVectors)
    with gpu.here():
        for one, other in ((streamed, plain), (streamed.take(some), plain.take(some))):
            assert_array_equal(gpu.to_host(one.on_device().rows), gpu.to_host(other.rows))
            wanted = gpu.xp.zeros((2, len(other)))
            add(other, plain, numbers, coefs, wanted)
            found = []
            for lines in (streamed, plain, streamed):
                found.append(gpu.xp.zeros((2, len(one))))
                add(one, lines, numbers, coefs, found[-1])
            wanted, *found = (gpu.to_host(sums) for sums in (wanted, *found))
            tol = 1e-5 if dtype == np.float32 else 1e-12
            for sums in found:  # squared lengths of rows are rounded as they are copied
                assert_allclose(sums, wanted, atol=tol * float(abs(coefs).sum()))
            assert_array_equal(found[2], found[0])


@pytest.mark.parametrize(
    "estimator",
    [
        AESVC(gamma=2.0, refine="exact", tol=1e-4),
        AESVC(gamma=2.0, refine=0),
        AESVC(gamma=2.0, refine=1),
        AESVC(gamma=2.0, max_vectors=300),
        AENuSVC(nu=0.3, gamma=1.0, tol=1e-4),
    ],
    ids=repr,
)
def test_rows_that_the_gpu_has_no_room_for(gpu, monkeypatch, estimator):
    X, y = make_moons(20_001, noise=0.3, random_state=0)
    estimator = estimator.set_params(device="cuda")
    wanted = estimator.fit(X, y).decision_function(X)
    objective = estimator.dual_objective_
    little_memory = LittleMemory(monkeypatch)
    little_memory.begin(free=4e6, panel=1 << 18)
    found = estimator.fit(X, y).decision_function(X)
    assert little_memory.lengths
    assert estimator.dual_objective_ == pytest.approx(objective, rel=1e-3)
    assert np.mean(np.sign(found) == np.sign(wanted)) > 0.995
    assert estimator.certify(X, y).relative_gap is not None


def test_streams(gpu):
    X, y = make_moons(6000, noise=0.3, random_state=0)
    chunks = [(X[at : at + 2000], y[at : at + 2000], None) for at in (0, 2000, 4000)]
    for parameters in ({"refine": 0}, {"refine": 1}):
        here = AESVC(gamma=2.0, **parameters).fit_stream(chunks)
        there = AESVC(gamma=2.0, device="cuda", **parameters).fit_stream(chunks)
        assert there.device_ == "cuda:0"
        assert np.mean(here.predict(X) == there.predict(X)) > 0.99
    bit_by_bit = AESVC(gamma=2.0, device="cuda")
    for rows, labels, _ in chunks:
        bit_by_bit.partial_fit(rows, labels, classes=[0, 1])
    assert np.mean(bit_by_bit.predict(X) == y) > 0.85


def test_arrays_of_other_libraries(gpu):
    torch = pytest.importorskip("torch")
    X, y = make_moons(3000, noise=0.3, random_state=0)
    rows = torch.tensor(X, device="cuda")
    model = AESVC(gamma=1.0, device="cuda").fit(rows, y)
    found = model.decision_function(rows)
    assert isinstance(found, torch.Tensor)
    assert found.is_cuda
    wanted = model.decision_function(X)
    assert_allclose(found.cpu().numpy(), wanted, atol=1e-6 * np.abs(wanted).max())


def test_searches_and_fewer_vectors(gpu):
    X, y = make_moons(3000, noise=0.3, random_state=0)
    grid = {"C": [0.1, 10.0], "gamma": [0.5, 2.0]}
    scores = [
        AEGridSearchCV(AESVC(device=name), grid, cv=3).fit(X, y).cv_results_["mean_test_score"]
        for name in ("cpu", "cuda")
    ]
    assert_allclose(scores[1], scores[0], atol=0.003)
    model = AESVC(gamma=2.0, device="cuda").fit(X, y)
    small = model.compress(tol=0.05, X=X)
    assert len(small.support_) < len(model.support_)
    assert np.mean(small.predict(X) == model.predict(X)) > 0.99


@pytest.mark.parametrize("gamma", [0.01, 0.3, 30.0])
def test_shapley_values_are_those_of_the_host(gpu, gamma):
    X, y = make_classification(2000, 30, n_informative=20, n_classes=3, random_state=0)
    model = AESVC(gamma=gamma).fit(X[:500], y[:500])
    here = shapley_values(model, X[:40], X[500:520], n_jobs=2)
    there = shapley_values(model, X[:40], X[500:520], device="cuda")
    assert_allclose(there.values, here.values, rtol=0, atol=1e-13 * np.abs(model.dual_coef_).sum())


# ------------------------------------------------------------------------- kernel matrices


def rbf(X, others, gamma=1.0):
    return KernelSpec("rbf", gamma).matrix(X).cross(others, np.arange(len(X)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_and_values_of_a_kernel_matrix_are_those_of_the_host(gpu, dtype):
    random = np.random.default_rng(0)
    K = random.normal(size=(3000, 3000))
    K = (K + K.T).astype(dtype)
    kernel = TrainingKernel(KernelSpec("precomputed", device="cuda"), K).matrix(dtype, 1e-5)
    rows, some = random.permutation(3000)[:2500], random.permutation(3000)[:700]
    coefs, new = random.normal(size=700), random.normal(size=(900, 3000))
    with gpu.here():
        assert_array_equal(kernel.square(some), K[np.ix_(some, some)])
        found = kernel.scores(some, coefs, rows)
        assert_allclose(found, K[np.ix_(rows, some)] @ coefs, rtol=1e-9, atol=1e-9)
        assert_allclose(kernel.cross(new, some), new[:, some], rtol=1e-6)


@pytest.mark.parametrize(
    "estimator",
    [
        AESVC(refine="exact", tol=1e-4),
        AESVC(refine=0),
        AESVC(refine=1),
        AESVC(max_vectors=300),
        AESVR(),
        AENuSVC(nu=0.3),
        AEOneClassSVM(nu=0.1),
    ],
    ids=repr,
)
def test_models_of_a_kernel_matrix(gpu, estimator):
    X, y = make_moons(6000, noise=0.3, random_state=0)
    K, K_new = rbf(X[:5000], X[:5000]), rbf(X[:5000], X[5000:])
    estimator = estimator.set_params(kernel="precomputed")
    here = estimator.set_params(device="cpu").fit(K, y[:5000]).predict(K_new)
    there = estimator.set_params(device="cuda").fit(K, y[:5000])
    assert there.device_ == "cuda:0"
    assert np.mean(np.abs(here - there.predict(K_new)) > 0.05) < 0.01
    again = there.fit(gpu.array(K), gpu.array(y[:5000])).predict(gpu.array(K_new))
    assert isinstance(again, gpu.xp.ndarray)
    assert np.mean(np.abs(here - gpu.to_host(again)) > 0.05) < 0.01
    if isinstance(there, AESVC):
        assert there.certify(K, y[:5000]).proven


def test_several_classes_of_a_kernel_matrix(gpu):
    X, y = make_classification(4000, 20, n_informative=8, n_classes=4, random_state=0)
    K = rbf(X, X, gamma=0.05)
    here = AESVC(kernel="precomputed").fit(K, y).predict(K)
    there = AESVC(kernel="precomputed", device="cuda").fit(K, y).predict(K)
    assert np.mean(here == there) > 0.995


def test_a_kernel_matrix_without_room_is_refused_by_its_bytes(gpu, monkeypatch):
    X, y = make_moons(2000, noise=0.3, random_state=0)
    monkeypatch.setattr(type(gpu), "_free_bytes", lambda self: 3e7)
    with pytest.raises(DeviceMemoryError, match="32,000,000 bytes were wanted"):
        AESVC(kernel="precomputed", device="cuda").fit(X @ X.T + 1e-3 * np.eye(2000), y)


# ----------------------------------------------------------- sparse rows, representatives


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_that_are_there_are_used_as_they_are(gpu, monkeypatch, dtype):
    X, y = make_classification(8000, 20, n_informative=8, random_state=0)
    X[np.abs(X) < 0.7] = 0.0
    rows = sp.csr_matrix(X.astype(dtype))
    model = AESVC(gamma=0.05, device="cuda")
    wanted = model.fit(rows, y).decision_function(rows)
    copies, copied = [], device_rows.copied
    monkeypatch.setattr(
        device_rows, "copied", lambda device, own: copies.append(own) or copied(device, own)
    )
    with gpu.here():
        there, labels = gpu.csr(rows), gpu.array(y)
    model.fit(there, labels)
    assert not copies
    found = model.decision_function(there)
    assert isinstance(found, gpu.xp.ndarray)
    assert_allclose(gpu.to_host(found), wanted, atol=1e-3 * np.abs(wanted).max())
    assert model.score(there, labels) == pytest.approx(model.score(rows, y), abs=1e-3)


@pytest.mark.parametrize("kind", ["tocsc", "tocoo", "twice"])
def test_other_sparse_matrices_are_rows_too(gpu, kind):
    X, y = make_classification(3000, 20, n_informative=8, random_state=0)
    X[np.abs(X) < 0.7] = 0.0
    rows = sp.csr_matrix(X)
    if kind == "twice":
        parts = 0.5 * np.repeat(rows.data, 2), np.repeat(rows.indices, 2), 2 * rows.indptr
        given = gpu.csr(sp.csr_matrix(parts, shape=X.shape))
    else:
        given = getattr(gpu.csr(rows), kind)()
    model = AESVC(gamma=0.05, device="cuda")
    wanted = model.fit(rows, y).decision_function(rows)
    found = gpu.to_host(model.fit(given, y).decision_function(given))
    assert_allclose(found, wanted, atol=1e-3 * np.abs(wanted).max())
    with pytest.raises(ValueError, match='X is on a GPU, and device="cpu"'):
        AESVC().fit(given, y)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_representative_sets(gpu, kernel):
    X, y = make_moons(6000, noise=0.1, random_state=0)
    K = rbf(X, X)
    rows = K if kernel == "precomputed" else X
    chosen = RepresentativeSet(kernel=kernel, gamma=1.0, keep_combinations=True)
    n_here = len(chosen.fit(rows, y).sample_indices_)
    selected, labels, weights = chosen.set_params(device="cuda").fit_select(gpu.array(rows), y)
    assert chosen.device_ == "cuda:0"
    assert isinstance(selected, gpu.xp.ndarray)
    assert len(selected) == len(labels) == len(weights)
    assert abs(len(labels) - n_here) <= 2 + 0.1 * n_here
    combinations = chosen.combinations_.toarray()
    apart = K[:, chosen.sample_indices_] @ combinations.T
    own = combinations @ K[np.ix_(chosen.sample_indices_, chosen.sample_indices_)]
    residuals = 1.0 - 2.0 * apart.diagonal() + np.einsum("ij,ij->i", own, combinations)
    assert residuals.max() <= chosen.hull_tol * (1 + 1e-6)
    assert_allclose(chosen.weights_, combinations.sum(axis=0))
