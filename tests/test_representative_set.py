from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

from aesvm import RepresentativeSet
from aesvm.machines import plan
from tests import oracles

# Nothing is expected to fail. What would have to is listed here, by name, with the reason.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [
        RepresentativeSet(),
        RepresentativeSet(gamma=1.0),
        RepresentativeSet(kernel="precomputed"),
        RepresentativeSet(hull_tol=0),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@st.composite
def problems(draw):
    """Rows (some of them equal), classes, weights (some of them zero) and parameters."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    X = random.normal(size=(n, d))
    if draw(st.booleans()):
        X = X.round(0)
    y = random.integers(0, draw(st.integers(1, 3)), n)
    w = None
    if draw(st.booleans()):
        w = random.uniform(0.1, 3.0, n) * (random.random(n) < 0.8)
        w[0] = 1.0
    subset_size = draw(st.integers(1, 40))
    parameters = {
        "kernel": draw(st.sampled_from(["rbf", "poly", "linear"])),
        "gamma": draw(st.sampled_from([0.02, 0.2, 1.0])),
        "degree": 2,
        "coef0": 1.0,
        "hull_tol": draw(st.sampled_from([1e-4, 1e-3, 1e-2, 1e-1, 1.0])),
        "subset_size": subset_size,
        "partition_size": draw(st.integers(subset_size, 80)),
        "partition": draw(st.sampled_from(["distance", "sequence"])),
        "keep_combinations": True,
    }
    return X, y, w, parameters


def kernel_of(X, parameters):
    names = ("kernel", "gamma", "degree", "coef0")
    return oracles.kernel(X, **{name: parameters[name] for name in names})


@pytest.fixture(autouse=True, scope="module")
def never_give_up():
    """Small random problems would mostly give up, and show nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "TABLE", plan.TABLE._replace(most_kept=2.0))
        yield


@given(problems())
def test_the_set_keeps_every_promise(problem):
    X, y, w, parameters = problem
    rs = RepresentativeSet(**parameters).fit(X, y, sample_weight=w)
    weights = np.ones(len(X)) if w is None else w
    used = weights > 0
    K = kernel_of(X, parameters)
    tol = parameters["hull_tol"] + 1e-11 * (1 + K.max())
    gamma = rs.combinations_.toarray()

    assert gamma.shape == (len(X), len(rs.sample_indices_))
    assert (np.diff(rs.sample_indices_) > 0).all()
    assert (gamma >= 0).all()
    assert_allclose(gamma[used].sum(axis=1), 1.0, rtol=1e-13)
    assert not gamma[~used].any()
    assert_allclose(rs.weights_, gamma.T @ weights, rtol=1e-12)
    assert (rs.weights_ > 0).all()
    assert_allclose(rs.weights_.sum(), weights.sum(), rtol=1e-12)
    classes = np.unique(y)
    for label in classes:
        inside = y[rs.sample_indices_] == label
        assert_allclose(rs.weights_[inside].sum(), weights[y == label].sum(), rtol=1e-12)
        assert not gamma[np.ix_(y == label, ~inside)].any()

    full = np.zeros((len(X), len(X)))
    full[:, rs.sample_indices_] = gamma
    assert_allclose(rs.residuals_[used], oracles.residuals(K, full)[used], atol=tol * 1e-6)
    assert np.isnan(rs.residuals_[~used]).all()
    assert rs.max_residual_ == np.nanmax(rs.residuals_) <= tol
    for label in classes:
        some = np.flatnonzero(used & (y == label))[:4]
        own_class = rs.sample_indices_[y[rs.sample_indices_] == label]
        distances = oracles.hull_distances(K, some, own_class)
        assert (distances <= tol + 1e-8 * (1 + K.max())).all()


@given(problems())
def test_equal_rows_of_a_class_are_merged(problem):
    X, y, w, parameters = problem
    rs = RepresentativeSet(**parameters).fit(X, y, sample_weight=w)
    selected = np.c_[y, X][rs.sample_indices_]
    assert len(np.unique(selected, axis=0)) == len(selected)
    exact = RepresentativeSet(**{**parameters, "hull_tol": 0.0}).fit(X, y, sample_weight=w)
    used = np.ones(len(X), dtype=bool) if w is None else w > 0
    distinct = np.unique(np.c_[y, X][used], axis=0)
    assert len(exact.sample_indices_) == len(distinct)
    assert exact.max_residual_ == 0.0
    assert not exact.reduced_
    assert exact.n_subsets_ == 0


def objectives(X, y, weights, rs, parameters, coefs, b, C=2.0):
    """F1, F2, F3 and Theorem 2's two sums at w = sum_j coefs_j z_j."""
    sign = np.where(y == 0, -1.0, 1.0)
    f = kernel_of(X, parameters) @ coefs
    gamma = rs.combinations_
    selected = rs.sample_indices_
    f_u = gamma @ f[selected]
    half = 0.5 * coefs @ f

    def hinge(s, values):
        return np.maximum(0.0, 1.0 - s * (values + b))

    F1 = half + C * weights @ hinge(sign, f)
    F2 = half + C * rs.weights_ @ hinge(sign[selected], f[selected])
    F3 = half + C * weights @ hinge(sign, f_u)
    tau = sign * (f - f_u)
    return F1, F2, F3, C * weights @ np.maximum(0, tau), C * weights @ np.maximum(0, -tau)


@given(problems(), st.integers(0, 100))
def test_theorems_1_and_2_hold_at_random_hyperplanes(problem, seed):
    X, y, w, parameters = problem
    y = np.minimum(y, 1)
    weights = np.ones(len(X)) if w is None else w
    rs = RepresentativeSet(**parameters).fit(X, y, sample_weight=w)
    random = np.random.default_rng(seed)
    for scale in (0.1, 1.0, 5.0):
        coefs, b = scale * random.normal(size=len(X)), random.normal()
        F1, F2, F3, low, high = objectives(X, y, weights, rs, parameters, coefs, b)
        rounding = 1e-9 * (1 + abs(F1) + abs(F2))
        assert F2 + rounding >= F3
        assert -low - rounding <= F1 - F3 <= high + rounding


@given(problems(), st.integers(0, 100))
def test_shuffled_rows_give_a_set_as_good(problem, seed):
    X, y, w, parameters = problem
    order = np.random.default_rng(seed).permutation(len(X))
    w = np.ones(len(X)) if w is None else w
    rs = RepresentativeSet(**parameters).fit(X[order], y[order], sample_weight=w[order])
    K = kernel_of(X[order], parameters)
    gamma = np.zeros((len(X), len(X)))
    gamma[:, rs.sample_indices_] = rs.combinations_.toarray()
    used = w[order] > 0
    tol = parameters["hull_tol"] + 1e-11 * (1 + K.max())
    assert oracles.residuals(K, gamma)[used].max() <= tol
    assert_allclose(rs.weights_.sum(), w.sum(), rtol=1e-12)


@given(problems(), st.sampled_from([1e-3, 1e-2, 1e-1]))
def test_sets_compose(problem, second_tol):
    X, y, w, parameters = problem
    first = RepresentativeSet(**parameters)
    X1, y1, w1 = first.fit_select(X, y, sample_weight=w)
    second = RepresentativeSet(**{**parameters, "hull_tol": second_tol})
    second.fit(X1, y1, sample_weight=w1)
    gamma = np.zeros((len(X), len(X)))
    rows = first.sample_indices_[second.sample_indices_]
    gamma[:, rows] = (first.combinations_ @ second.combinations_).toarray()
    K = kernel_of(X, parameters)
    bound = (np.sqrt(parameters["hull_tol"]) + np.sqrt(second_tol)) ** 2
    used = np.ones(len(X), dtype=bool) if w is None else w > 0
    assert oracles.residuals(K, gamma)[used].max() <= bound * (1 + 1e-9) + 1e-11 * (1 + K.max())
    total = len(X) if w is None else w.sum()
    assert_allclose(second.weights_.sum(), total, rtol=1e-12)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(6000, noise=0.15, random_state=0)
    return np.c_[X, 0.3 * X[:, 0] ** 2], y


@pytest.fixture(scope="module")
def moons_set(moons):
    return RepresentativeSet(gamma=2.0, subset_size=300, partition_size=2000).fit(*moons)


def assert_same_set(found, expected):
    assert_array_equal(found.sample_indices_, expected.sample_indices_)
    assert_array_equal(found.weights_, expected.weights_)
    assert_array_equal(found.residuals_, expected.residuals_)


def assert_as_good(found, expected, y):
    """Kernel values are not the same to the last digit, which may decide between two rows."""
    size = len(expected.sample_indices_)
    assert len(found.sample_indices_) == pytest.approx(size, rel=0.05)
    assert len(np.intersect1d(found.sample_indices_, expected.sample_indices_)) > 0.9 * size
    assert found.max_residual_ <= found.hull_tol
    for label in np.unique(y):
        weights = found.weights_[y[found.sample_indices_] == label]
        assert_allclose(weights.sum(), (y == label).sum(), rtol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2, 4, -1])
def test_the_set_does_not_depend_on_the_number_of_threads(moons, moons_set, n_jobs):
    assert_same_set(clone(moons_set).set_params(n_jobs=n_jobs).fit(*moons), moons_set)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_backends_give_the_same_set(moons, moons_set, backend):
    with parallel_config(backend=backend, n_jobs=2):
        assert_same_set(clone(moons_set).fit(*moons), moons_set)


def test_the_set_does_not_depend_on_how_the_rows_are_stored(moons, moons_set, tmp_path):
    X, y = moons
    read_only = X.copy()
    read_only.flags.writeable = False
    np.save(tmp_path / "X.npy", X)
    frame = pd.DataFrame(X, columns=list("abc"))
    stored = {
        "fortran": np.asfortranarray(X),
        "read-only": read_only,
        "memmap": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "frame": frame,
        "list": X.tolist(),
    }
    for rows in stored.values():
        assert_same_set(clone(moons_set).fit(rows, y), moons_set)
    unsorted = sp.csr_array(X)[:, [2, 0, 1]][:, [1, 2, 0]]
    for rows in (sp.csr_matrix(X), sp.csc_array(X), sp.coo_array(X), unsorted):
        assert_as_good(clone(moons_set).fit(rows, y), moons_set, y)
    assert sp.issparse(unsorted)


def test_the_kernels_that_are_given_as_values_give_the_same_set(moons):
    # values without rounding: of rows that are nearly in the hull it decides which are chosen
    X, y = np.round(64.0 * moons[0][:900]) / 64.0, moons[1][:900]
    rs = RepresentativeSet(kernel="poly", gamma=0.5, degree=2, coef0=1.0, subset_size=200)
    K = oracles.kernel(X, kernel="poly", gamma=0.5, degree=2, coef0=1.0)
    rs.fit(X, y)

    def poly(A, B):
        return (0.5 * A @ B.T + 1.0) ** 2

    # with no input vectors the first anchor is the largest K_ii: here the same row
    for kernel, data in (("precomputed", K), (poly, X)):
        found = clone(rs).set_params(kernel=kernel).fit(data, y)
        assert_array_equal(found.sample_indices_, rs.sample_indices_)
        assert_allclose(found.weights_, rs.weights_)
        assert_allclose(found.residuals_, rs.residuals_, atol=1e-9)


def test_single_precision_stays_within_the_tolerance(moons):
    X, y = moons[0].astype(np.float32), moons[1]
    K = oracles.kernel(X, gamma=2.0)
    for tol in (1e-3, 1e-5):
        rs = RepresentativeSet(gamma=2.0, hull_tol=tol, keep_combinations=True).fit(X, y)
        gamma = sp.csr_array(rs.combinations_)
        worst = 0.0
        for part in np.array_split(np.arange(len(X)), 10):
            G = gamma[part]
            cross = G.multiply(K[np.ix_(part, rs.sample_indices_)]).sum(axis=1)
            own = np.asarray(G @ K[np.ix_(rs.sample_indices_, rs.sample_indices_)] @ G.T)
            worst = max(worst, float((1.0 - 2 * cross + own.diagonal()).max()))
        assert rs.max_residual_ <= tol
        assert worst <= tol + (2e-6 if tol == 1e-3 else 1e-9)


def true_residuals(X, rs):
    """Of an RBF set, from differences in double precision."""
    K = oracles.kernel(X, gamma=rs.gamma_)
    selected, G = rs.sample_indices_, rs.combinations_
    own = ((G @ K[np.ix_(selected, selected)]) * G.toarray()).sum(axis=1)
    return 1.0 - 2 * G.multiply(K[:, selected]).sum(axis=1) + own


@pytest.mark.parametrize("sparse", [False, True])
def test_data_far_from_the_origin_is_represented_as_well(sparse):
    X = np.random.default_rng(0).uniform(size=(3000, 3))
    near = RepresentativeSet(gamma=1.0, keep_combinations=True).fit(X)
    shifted = X + 1e4
    far = clone(near).fit(sp.csr_array(shifted) if sparse else shifted)
    assert abs(len(far.sample_indices_) / len(near.sample_indices_) - 1) < 0.05
    assert true_residuals(shifted, far).max() <= 1e-3 * (1 + 1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("dtype", "distance"),
    [(np.float32, 30.0), (np.float32, 1000.0), (np.float64, 1e6), (np.float64, 1e8)],
)
def test_the_bound_holds_where_products_would_cancel(dtype, distance, sparse):
    """Clusters far apart in one subset, and one row far from everything."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 2)) * 0.3
    X[::2] += distance
    X[0] = -100 * distance
    X = X.astype(dtype)
    rs = RepresentativeSet(gamma=1.0, subset_size=1500, keep_combinations=True)
    rs.fit(sp.csr_array(X) if sparse else X)
    assert len(rs.sample_indices_) < 700
    rounding = 1e-9 if dtype == np.float64 else 2e-6
    assert true_residuals(X, rs).max() <= 1e-3 + rounding
    assert rs.residuals_.min() >= -rounding


@pytest.mark.parametrize("seed", range(6))
def test_sparse_rows_give_a_set_as_good_as_dense_ones(seed):
    random = np.random.default_rng(seed)
    X, y = random.uniform(size=(2000, 3)), random.integers(0, 2, 2000)
    X[random.random(X.shape) < 0.3] = 0.0
    rs = RepresentativeSet(gamma=1.0, subset_size=300, keep_combinations=True).fit(X, y)
    sparse = clone(rs).fit(sp.csr_array(X), y)
    assert_as_good(sparse, rs, y)
    assert true_residuals(X, sparse).max() <= 1e-3 * (1 + 1e-9)


def test_rows_of_different_groups_never_share_a_subset(moons):
    X, y = moons
    groups = np.random.default_rng(0).choice(["a", "b", "c"], len(X))
    rs = RepresentativeSet(gamma=2.0, keep_combinations=True).fit(X, y, groups=groups)
    rows, columns = rs.combinations_.nonzero()
    assert_array_equal(groups[rows], groups[rs.sample_indices_[columns]])
    assert_array_equal(y[rows], y[rs.sample_indices_[columns]])
    for name in "abc":
        total = rs.weights_[groups[rs.sample_indices_] == name].sum()
        assert_allclose(total, (groups == name).sum(), rtol=1e-12)


def test_without_classes_there_is_one_set(moons):
    X, _ = moons
    together = RepresentativeSet(gamma=2.0).fit(X)
    constant = RepresentativeSet(gamma=2.0).fit(X, np.zeros(len(X)))
    assert_same_set(together, constant)


def test_any_estimator_with_sample_weight_can_be_trained_on_it(moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=list("abc"))
    labels = np.array(["no", "yes"])[y]
    rs = RepresentativeSet(gamma=1.0, hull_tol=1e-3)
    X_small, y_small, weights = rs.fit_select(frame, labels)
    assert list(X_small.columns) == list("abc")
    assert set(y_small) == {"no", "yes"}
    assert len(X_small) == len(weights) < 0.25 * len(X)
    exact = SVC(gamma=1.0).fit(frame, labels)
    model = SVC(gamma=1.0).fit(X_small, y_small, sample_weight=weights)
    assert np.mean(model.predict(frame) == exact.predict(frame)) > 0.97
    linear = LogisticRegression().fit(X_small, y_small, sample_weight=weights)
    assert (
        linear.score(frame, labels)
        > LogisticRegression().fit(frame, labels).score(frame, labels) - 0.02
    )
    K = oracles.kernel(X[:500], gamma=1.0)
    rows, none, _ = RepresentativeSet(kernel="precomputed").fit_select(K)
    assert none is None
    assert rows.shape[0] == rows.shape[1] < 500


def test_where_there_is_nothing_to_gain_it_stops_and_says_so(monkeypatch):
    monkeypatch.setattr(plan, "TABLE", plan.TABLE._replace(most_kept=0.9))
    X, y = load_digits(return_X_y=True)
    many = np.vstack([X + shift for shift in np.random.default_rng(0).normal(size=(6, 1, 64))])
    rs = RepresentativeSet(gamma=0.01, subset_size=100, partition_size=1000)
    with pytest.warns(UserWarning, match=r"\d+ of 10,782 distinct rows .* hull_tol") as caught:
        rs.fit(many, np.tile(y, 6))
    assert len(caught) == 1
    assert not rs.reduced_
    assert len(rs.sample_indices_) == len(many)
    assert rs.max_residual_ == 0.0
    assert_array_equal(rs.weights_, np.ones(len(many)))
    assert rs.n_subsets_ > 100
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="hull_tol") as caught:
        rs.fit_select(many, np.tile(y, 6))
    assert caught[0].filename == __file__
    # with few rows nothing is left undone, so there is nothing to say
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RepresentativeSet(gamma=10.0).fit(X[:50]).reduced_


def test_small_classes_do_not_decide_that_there_is_nothing_to_gain(monkeypatch):
    monkeypatch.setattr(plan, "TABLE", plan.TABLE._replace(most_kept=0.9))
    X = np.random.default_rng(0).uniform(size=(23_000, 2))
    groups = np.r_[np.arange(3000), np.full(20_000, 3000)]
    rs = RepresentativeSet(gamma=1.0).fit(X, groups=groups)
    assert rs.reduced_
    assert len(rs.sample_indices_) < 3400


def test_nothing_of_an_earlier_fit_is_left(moons):
    X, y = moons
    rs = RepresentativeSet(gamma=2.0, keep_combinations=True).fit(X[:500], y[:500])
    assert rs.combinations_.shape[0] == 500
    rs.set_params(keep_combinations=False).fit(X, y)
    assert not hasattr(rs, "combinations_")
    assert len(rs.residuals_) == len(X)


def test_it_survives_a_round_trip(moons, moons_set):
    again = pickle.loads(pickle.dumps(moons_set))
    assert_same_set(again, moons_set)


def test_verbose_prints_a_few_useful_lines(moons, capsys):
    RepresentativeSet(gamma=2.0).fit(*moons)
    assert capsys.readouterr().out == ""
    RepresentativeSet(gamma=2.0, verbose=1).fit(*moons)  # all is compiled by now
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0] == (
        "[RepresentativeSet] 6,000 rows of 2 classes, 6,000 distinct rows of non-zero weight"
    )
    assert "representatives" in lines[-1]


def test_kernel_values_beyond_its_precision_are_warned_of():
    X = 1e5 * make_blobs(300, random_state=0)[0]
    with pytest.warns(UserWarning, match="scale the data"):
        RepresentativeSet(kernel="linear").fit(X)


def test_fit_select_takes_what_fit_takes(moons):
    X, y = moons[0][:300], moons[1][:300]
    rs = RepresentativeSet(gamma=2.0)
    expected = rs.fit_select(X, y)[0]
    for rows in (sp.coo_array(X), sp.bsr_array(X), sp.csc_array(X)):
        assert_allclose(rs.fit_select(rows, y)[0].toarray(), expected)
    assert_allclose(rs.fit_select(X.tolist(), y.tolist())[0], expected)
    K = oracles.kernel(X, gamma=2.0)
    rows = clone(rs).set_params(kernel="precomputed").fit_select(K.tolist(), y)[0]
    assert rows.shape == (len(expected), len(expected))


def test_overlapping_fits_give_blas_its_threads_back(moons):
    X, y = moons

    def threads():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    rs = [RepresentativeSet(gamma=2.0, subset_size=100 * k) for k in (1, 2, 3, 4)]
    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(4) as pool:
        before = threads()
        assert set(before) == {2}
        sets = list(pool.map(lambda r: r.fit(X, y), rs))
        assert threads() == before
    for found in sets:
        assert_same_set(found, clone(found).fit(X, y))
