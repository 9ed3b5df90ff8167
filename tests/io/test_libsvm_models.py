"""Model files of LIBSVM, exchanged with LIBSVM itself; the oracle is its own library."""

from __future__ import annotations

import copy
import warnings
from ctypes import c_double

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.io import BadLineError, load_libsvm_model, save_libsvm_model
from tests.io.fitted_models import model, rows

KERNELS = {"linear": 0, "poly": 1, "rbf": 2, "sigmoid": 3, "precomputed": 4}

#: Estimators, which targets of ``rows`` they take, and LIBSVM's options for the same.
FAMILY = {
    "two classes": (AESVC(C=2.0), 1, "-s 0 -c 2"),
    "four classes": (AESVC(C=10.0), 2, "-s 0 -c 10"),
    "nu": (AENuSVC(nu=0.1), 2, "-s 1 -n 0.1"),
    "outliers": (AEOneClassSVM(nu=0.2), None, "-s 2 -n 0.2"),
    "regression": (AESVR(), 3, "-s 3"),
    "nu regression": (AENuSVR(nu=0.3), 3, "-s 4 -n 0.3"),
}


def nodes(X, precomputed):
    """Rows as LIBSVM's Python takes them; of a kernel matrix, numbered."""
    each = [{at + 1: value for at, value in enumerate(row)} for row in X.tolist()]
    return [{0: n + 1, **row} for n, row in enumerate(each)] if precomputed else each


def theirs(model, X, precomputed=False):
    """What LIBSVM predicts, and its decision values.

    By its C functions: of nu-SVC with many classes, its ``svm_predict`` in Python has room for a
    single value, and writes beyond.
    """
    low = pytest.importorskip("libsvm.svm")
    n_classes = model.get_nr_class()
    labels, values = [], []
    for row in nodes(X, precomputed):
        node, _ = low.gen_svm_nodearray(row, isKernel=precomputed)
        room = (c_double * (n_classes * (n_classes - 1) // 2))()
        labels.append(low.libsvm.svm_predict_values(model, node, room))
        values.append(list(room))
    return np.array(labels), np.array(values)


def pair_values(model, X):
    return model._model().pair_values(np.ascontiguousarray(X)).reshape(len(X), -1)


def problem(kernel, target):
    X, *targets, others = rows()
    y = None if target is None else targets[target - 1]
    return (X @ X.T, y, others @ X.T) if kernel == "precomputed" else (X, y, others)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", FAMILY)
def test_libsvm_reads_ours(kind, kernel, sparse, tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil")
    if sparse and kernel == "precomputed":
        pytest.skip("kernel matrices are dense")
    estimator, target, _ = FAMILY[kind]
    X, y, others = problem(kernel, target)
    parameters = {"kernel": kernel, "gamma": 0.2, "coef0": 0.5, "degree": 2}
    ours = estimator.set_params(**parameters).fit(sp.csr_array(X) if sparse else X, y)
    path = str(tmp_path / "model")
    save_libsvm_model(ours, path)
    labels, values = theirs(svmutil.svm_load_model(path), others, kernel == "precomputed")
    scale = 1.0 + np.abs(ours.dual_coef_).sum()
    np.testing.assert_allclose(values, pair_values(ours, others), atol=1e-12 * scale)
    np.testing.assert_allclose(labels, ours.predict(others), atol=1e-12 * scale)
    again = load_libsvm_model(path, n_features=others.shape[1])
    np.testing.assert_allclose(pair_values(again, others), values, atol=1e-12 * scale)
    np.testing.assert_allclose(again.predict(others), labels, atol=1e-12 * scale)
    assert type(again) is type(ours)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", FAMILY)
def test_we_read_libsvms(kind, kernel, tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil")
    _, target, options = FAMILY[kind]
    X, y, others = problem(kernel, target)
    given = kernel == "precomputed"
    answers = np.ones(len(X)) if y is None else y
    options = f"{options} -t {KERNELS[kernel]} -g 0.2 -r 0.5 -d 2 -w3 2 -q"
    trained = svmutil.svm_train(answers.tolist(), nodes(X, given), options)
    path = str(tmp_path / "model")
    svmutil.svm_save_model(path, trained)
    ours = load_libsvm_model(path, n_features=others.shape[1])
    # it writes vectors with eight digits: what it reads again is what we read
    labels, values = theirs(svmutil.svm_load_model(path), others, given)
    scale = 1.0 + np.abs(ours.dual_coef_).sum()
    if y is not None and len(set(y)) <= 4:  # ties of votes included
        np.testing.assert_array_equal(ours.predict(others), labels)
        assert ours.classes_.tolist() == sorted(set(y))
    else:
        np.testing.assert_allclose(ours.predict(others), labels, atol=1e-12 * scale)
    save_libsvm_model(ours, path)
    again, same_values = theirs(svmutil.svm_load_model(path), others, given)
    np.testing.assert_allclose(again, labels, atol=1e-12 * scale)
    np.testing.assert_allclose(same_values, values, atol=1e-12 * scale)


def test_a_model_of_libsvm_is_saved_compressed_and_turned_into_another(tmp_path):
    import aesvm

    path = tmp_path / "model"
    save_libsvm_model(model("four classes"), path)
    read = load_libsvm_model(path)
    *_, others = rows()
    values = pair_values(read, others)
    read.save(path)
    np.testing.assert_array_equal(pair_values(aesvm.load(path), others), values)
    assert read.compress(5).support_vectors_.shape[0] <= 20
    np.testing.assert_array_equal(read.to_sklearn().predict(others), read.predict(others))
    assert not hasattr(read, "certificate_")
    with pytest.raises(AttributeError, match="without information on its training"):
        _ = read.certificate_


def test_a_model_that_was_read_can_be_fitted(tmp_path):
    X, _, four, _, others = rows()
    svmutil = pytest.importorskip("libsvm.svmutil")
    trained = svmutil.svm_train(four.tolist(), nodes(X, False), "-g 0.2 -q")
    svmutil.svm_save_model(str(tmp_path / "model"), trained)
    read = load_libsvm_model(tmp_path / "model")
    fresh = AESVC(gamma=0.2).fit(X, four)
    np.testing.assert_array_equal(read.fit(X, four).predict(others), fresh.predict(others))


def test_sparse_vectors_stay_sparse_and_dense_ones_are_dense(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 500), density=0.02, rng=rng, format="csr")
    y = (X[:, :50].sum(axis=1) > 0.3).astype(int)
    save_libsvm_model(AESVC().fit(X, y), tmp_path / "model")
    assert sp.issparse(load_libsvm_model(tmp_path / "model").support_vectors_)
    save_libsvm_model(model("two classes"), tmp_path / "model")
    assert isinstance(load_libsvm_model(tmp_path / "model").support_vectors_, np.ndarray)


def test_a_twin_that_settles_ties_otherwise_is_warned_of(tmp_path):
    """Three classes in a circle of machines that each win once: the first of the file wins."""
    text = (
        "svm_type c_svc\nkernel_type linear\nnr_class 3\ntotal_sv 3\nrho -1 1 -1\n"
        "label 7 2 5\nnr_sv 1 1 1\nSV\n0 0 1:1\n0 0 1:1\n0 0 1:1\n"
    )
    (tmp_path / "model").write_text(text)
    read = load_libsvm_model(tmp_path / "model")
    assert read.predict([[0.0]]) == [7]
    with pytest.warns(UserWarning, match=r"ties of votes .* 7, 2, 5"):
        twin = read.to_sklearn()
    assert twin.predict([[0.0]]) == [2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model("four classes").to_sklearn()


def test_a_row_at_the_boundary_of_a_one_class_model_is_an_outlier_as_in_libsvm(tmp_path):
    text = "svm_type one_class\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0\nSV\n1 1:1\n"
    (tmp_path / "model").write_text(text)
    read = load_libsvm_model(tmp_path / "model")
    boundary = [[-1.0], [0.0], [1.0]]
    assert read.predict(boundary).tolist() == [-1, -1, 1]
    assert read.to_sklearn().predict(boundary).tolist() == [-1, -1, 1]


@pytest.mark.parametrize("labels", ["1 -1", "-1 1", "7 2 5", "5 7 2", "2 5 7"])
def test_a_decision_value_of_0_is_a_vote_for_the_later_class_as_in_libsvm(labels, tmp_path):
    n_classes = len(labels.split())
    n_pairs = n_classes * (n_classes - 1) // 2
    coefs = " ".join(["1"] * (n_classes - 1))
    text = (
        f"svm_type c_svc\nkernel_type linear\nnr_class {n_classes}\ntotal_sv {n_classes}\n"
        f"rho {' '.join(['0'] * n_pairs)}\nlabel {labels}\nnr_sv {' '.join(['1'] * n_classes)}\n"
        "SV\n" + f"{coefs} 1:1\n" * n_classes
    )
    (tmp_path / "model").write_text(text)
    read = load_libsvm_model(tmp_path / "model")
    library = pytest.importorskip("libsvm.svmutil")
    expected, _ = theirs(library.svm_load_model(str(tmp_path / "model")), np.zeros((1, 1)))
    assert read.predict([[0.0]]).tolist() == expected.tolist() == [int(labels.split()[-1])]
    save_libsvm_model(read, tmp_path / "again")
    lines = [(tmp_path / name).read_text().splitlines() for name in ("model", "again")]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "sigmoid"])
def test_a_gamma_of_0_is_a_kernel_that_is_constant_as_in_libsvm(kernel, tmp_path):
    import aesvm

    more = {"rbf": "", "polynomial": "degree 3\ncoef0 0.5\n", "sigmoid": "coef0 0.5\n"}[kernel]
    text = (
        f"svm_type epsilon_svr\nkernel_type {kernel}\n{more}gamma 0\nnr_class 2\ntotal_sv 2\n"
        "rho 0.25\nSV\n1.5 1:1\n-1 2:3\n"
    )
    path = tmp_path / "model"
    path.write_text(text)
    read = load_libsvm_model(path)
    library = pytest.importorskip("libsvm.svmutil")
    X = np.array([[1.0, 2.0], [0.0, 0.0]])
    expected, _ = theirs(library.svm_load_model(str(path)), X)
    np.testing.assert_allclose(read.predict(X), expected, rtol=1e-12)
    read.save(path)
    np.testing.assert_array_equal(aesvm.load(path).predict(X), read.predict(X))
    save_libsvm_model(read, path)
    np.testing.assert_array_equal(load_libsvm_model(path).predict(X), read.predict(X))


def test_an_index_that_libsvm_cannot_hold_is_refused(tmp_path):
    read = copy.copy(model("sparse"))
    vectors = read.support_vectors_
    indices = vectors.indices.astype(np.int64)
    indices[-1] = 2**31
    wide = sp.csr_array((vectors.data, indices, vectors.indptr), shape=(vectors.shape[0], 2**32))
    read.support_vectors_ = wide
    with pytest.raises(ValueError, match="2147483649"):
        save_libsvm_model(read, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_probabilities_are_ignored_with_a_warning(tmp_path):
    svmutil = pytest.importorskip("libsvm.svmutil")
    X, y = make_classification(100, 5, random_state=0)
    path = str(tmp_path / "model")
    svmutil.svm_save_model(path, svmutil.svm_train(y.tolist(), nodes(X, False), "-b 1 -q"))
    with pytest.warns(UserWarning, match="probA and probB"):
        ours = load_libsvm_model(path, n_features=5)
    labels, _ = theirs(svmutil.svm_load_model(path), X)
    np.testing.assert_array_equal(ours.predict(X), labels)


def test_what_libsvm_does_not_have_is_refused(tmp_path):
    X, two, *_ = rows()
    path = tmp_path / "model"
    with pytest.raises(ValueError, match="LIBSVM's labels are whole numbers"):
        save_libsvm_model(model("words"), path)
    with pytest.raises(ValueError, match="no callable"):
        save_libsvm_model(AESVC(kernel=lambda a, b: a @ b.T).fit(X, two), path)
    with pytest.raises(ValueError, match="LIBSVM has no such model"):
        save_libsvm_model(model("set"), path)
    save_libsvm_model(model("two classes"), path)
    with pytest.raises(ValueError, match="n_features=2"):
        load_libsvm_model(path, n_features=2)
    with pytest.raises(ValueError, match="path=99"):
        load_libsvm_model(99)


DAMAGE = {
    "foreign": ("svm_type c_svc", "an elephant"),
    "another type": ("svm_type c_svc", "svm_type d_svc"),
    "another kernel": ("kernel_type rbf", "kernel_type laplace"),
    "no gamma": ("gamma", "delta"),
    "gamma twice": ("gamma", "gamma 0.1\ngamma"),
    "a negative gamma": ("gamma ", "gamma -"),
    "a rho too many": ("rho", "rho 1"),
    "no number": ("rho", "rho x"),
    "an infinite number": ("gamma ", "gamma 1e999"),
    "other vectors than said": ("total_sv ", "total_sv 9"),
    "a label twice": ("label -1 1", "label 1 1"),
    "a label of a half": ("label -1 1", "label -1 1.5"),
    "a huge number of classes": ("nr_class 2", "nr_class 2000000000"),
    "one class": ("nr_class 2", "nr_class 1"),
    "an index of zero": (" 1:", " 0:"),
    "a negative index": (" 1:", " -3:"),
    "a huge index": (" 5:", " 99999999999:"),
    "no colon": (" 5:", " 5;"),
    "an index twice": (" 5:", " 1:"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_of_libsvm_are_refused_with_the_line(damage, tmp_path):
    path = tmp_path / "model"
    save_libsvm_model(model("two classes"), path)
    before, after = DAMAGE[damage]
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(BadLineError, match=r"model, line \d+: "):
        load_libsvm_model(path)


def test_truncated_files_of_libsvm_are_refused(tmp_path):
    path = tmp_path / "model"
    save_libsvm_model(model("two classes"), path)
    content = path.read_bytes()
    for end in range(0, len(content) - 1, 97):
        path.write_bytes(content[:end])
        with pytest.raises(BadLineError):
            load_libsvm_model(path)


def test_flipped_bytes_of_libsvms_files_never_crash(tmp_path):
    """Its format has no checksum: a digit that was changed is another digit."""
    path = tmp_path / "model"
    save_libsvm_model(model("two classes"), path)
    content = path.read_bytes()
    *_, others = rows()
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            read = load_libsvm_model(path)
        except ValueError:
            n_refused += 1
        else:
            if read.n_features_in_ == 5:
                assert len(read.predict(others)) == len(others)
    assert n_refused > 100
