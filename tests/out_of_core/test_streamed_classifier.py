"""AESVC on a stream: near the model of all rows, certified, trained from where it was."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from aesvm import AESVC
from aesvm.io import ParquetReader
from aesvm.out_of_core import merge_tree, stream
from tests import oracles


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 500)


def streamed(model, X, y, size=350, weights=None, **others):
    for first in range(0, X.shape[0], size):
        part = slice(first, first + size)
        model.partial_fit(
            X[part], y[part], sample_weight=None if weights is None else weights[part], **others
        )
    return model.partial_fit()


def test_a_stream_gives_nearly_the_model_of_all_rows():
    X, y = make_moons(6000, noise=0.2, random_state=0)
    exact = SVC(gamma=2.0).fit(X[:5000], y[:5000])
    model = streamed(AESVC(gamma=2.0), X[:5000], y[:5000], classes=[0, 1])
    assert np.mean(model.predict(X[5000:]) == exact.predict(X[5000:])) > 0.97
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.shape_fit_ == (5000, 2)
    assert model.n_seen_ == 5000
    assert len(model.representative_set_.sample_indices_) < 3000
    assert model.representative_set_.weights_.sum() == pytest.approx(5000, rel=1e-12)


def test_with_no_tolerance_it_is_the_svm():
    X, y = make_moons(1200, noise=0.2, random_state=0)
    exact = SVC(gamma=1.0, C=2.0, tol=1e-5).fit(X, y)
    model = AESVC(gamma=1.0, C=2.0, hull_tol=0.0, tol=1e-5)
    streamed(model, X, y, classes=[0, 1])
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-2)
    assert model.certificate_.max_residual == 0.0


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_the_certificate_bounds_the_objective_of_all_rows(C):
    X, y = make_moons(3000, noise=0.2, random_state=0)
    model = streamed(AESVC(gamma=1.0, C=C, hull_tol=1e-2), X, y, classes=[0, 1])
    certificate = model.certificate_
    assert not certificate.exact
    assert 0.0 < certificate.max_residual <= 1e-2 * (1 + 1e-9)
    assert certificate.n_rows == 3000
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    K = oracles.kernel(model.support_vectors_, gamma=1.0)
    coefs = model.dual_coef_[0]
    objective = 0.5 * coefs @ K @ coefs + C * np.maximum(0.0, 1.0 - margins).sum()
    assert certificate.norm**2 == pytest.approx(coefs @ K @ coefs, rel=1e-3)
    bound = certificate.reduced_objective + certificate.theorem_2_bound
    assert objective <= bound * (1 + 1e-6)
    assert certificate.objective is None
    assert "objective" in certificate.missing
    assert certificate.hull_tol == 1e-2
    assert "certify_stream" in str(certificate)
    with pytest.raises(ValueError, match="use certify_stream"):
        model.certify(X, y)
    assert len(model.representative_set_.select()[0]) == certificate.n_solved


def test_three_classes_weights_and_sparse_rows():
    X, y = make_blobs(3000, centers=3, cluster_std=2.0, random_state=0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 3000)
    names = np.array(["a", "b", "c"])[y]
    exact = SVC(gamma=0.1).fit(X, names, sample_weight=weights)
    for rows in (X, sp.csr_array(X)):
        model = streamed(AESVC(gamma=0.1), rows, names, weights=weights, classes=["a", "b", "c"])
        assert np.mean(model.predict(rows) == exact.predict(X)) > 0.97
        assert model.classes_.tolist() == ["a", "b", "c"]


def test_balanced_is_by_all_rows_seen():
    X, y = make_moons(2000, noise=0.2, random_state=0)
    keep = np.flatnonzero((y == 0) | (np.arange(2000) % 10 == 0))
    X, y = X[keep], y[keep]
    whole = AESVC(gamma=1.0, class_weight="balanced").fit(X, y)
    model = streamed(AESVC(gamma=1.0, class_weight="balanced"), X, y, classes=[0, 1])
    assert_allclose(model.class_weight_, whole.class_weight_)
    by_dict = streamed(AESVC(gamma=1.0, class_weight={1: 5.0}), X, y, classes=[0, 1])
    assert by_dict.class_weight_.tolist() == [1.0, 5.0]


def test_a_model_is_trained_from_where_the_last_one_was(monkeypatch):
    X, y = make_moons(4000, noise=0.3, random_state=0)
    model = streamed(AESVC(gamma=2.0, C=10.0), X, y, classes=[0, 1])
    warm = model.partial_fit().n_iter_[0]
    values = model.decision_function(X)
    monkeypatch.setattr(stream.StreamedModel, "start_of", lambda *_: None)
    cold = model.partial_fit().n_iter_[0]
    assert cold > 1000
    assert warm < 0.1 * cold  # none at all, but for the rounding of sums that begin anew
    assert_allclose(model.decision_function(X), values, atol=0.05)


def test_it_is_trained_when_the_stream_has_grown_by_a_quarter_and_not_before():
    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0).partial_fit(X[:1000], y[:1000], classes=[0, 1])
    support = model.support_
    model.partial_fit(X[1000:1200], y[1000:1200])
    assert model.support_ is support
    model.partial_fit(X[1200:1300], y[1200:1300])
    assert model.support_ is not support


def test_predicting_changes_nothing():
    X, y = make_moons(1000, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0).partial_fit(X, y, classes=[0, 1])
    before = dict(vars(model))
    model.predict(X)
    model.decision_function(X)
    assert vars(model).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(model).items())


def test_before_two_classes_are_there_is_no_model():
    X, y = make_moons(600, noise=0.2, random_state=0)
    order = np.argsort(y, kind="stable")
    model = AESVC(gamma=1.0).partial_fit(X[order][:200], y[order][:200], classes=[0, 1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match=r"rows of 1 class \(\[0\]\)"):
        model.partial_fit()
    model.partial_fit(X[order][200:], y[order][200:])
    assert model.partial_fit().score(X, y) > 0.9


def test_a_source_shows_its_classes():
    X, y = make_moons(3000, noise=0.2, random_state=0)
    names = np.array(["no", "yes"])[y]
    chunks = [(X[at : at + 700], names[at : at + 700], None) for at in range(0, 3000, 700)]
    model = AESVC(gamma="scale").fit_stream(chunks)
    whole = AESVC(gamma="scale").fit(X, names)
    assert model.gamma_ == pytest.approx(whole.gamma_)
    assert np.mean(model.predict(X) == whole.predict(X)) > 0.97
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (None, "classes=None: the first partial_fit"),
        ([0, 1], r"y has \[2\], which are not among classes=\[0, 1\]"),
    ],
)
def test_a_stream_begins_with_all_of_its_classes(classes, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        AESVC(gamma=1.0).partial_fit(X, y, classes=classes)


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ({"classes": [0, 1]}, r"classes=\[0, 1\] were \[0, 1, 2\] in the first call"),
        ({"y": None}, "requires y to be passed"),
    ],
)
def test_classes_stay_as_they_began(then, message):
    X, y = load_iris(return_X_y=True)
    model = AESVC(gamma=1.0).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, **{"y": y, **then})
    assert model.n_seen_ == 150


def test_fit_ends_a_stream():
    X, y = make_moons(500, noise=0.2, random_state=0)
    model = AESVC(gamma=1.0).partial_fit(X, y, classes=[0, 1])
    model.fit(X, y)
    assert model._stream_ is None
    assert not hasattr(model, "n_seen_")
    assert model.certify(X, y).objective > 0


def test_a_budget_is_kept_and_a_looser_bound_reported():
    X, y = make_moons(3000, noise=0.3, random_state=0)
    model = AESVC(gamma=5.0, memory_budget="20 KB", on_overflow="loosen")
    with pytest.warns(UserWarning, match="memory_budget='20 KB' cannot hold"):
        streamed(model, X, y, classes=[0, 1])
    assert model._stream_.stream.tree.n_bytes <= 20_000
    assert model.certificate_.max_residual > 1e-3
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="memory_budget=20,000 bytes cannot hold"):
        streamed(AESVC(gamma=5.0, memory_budget="20 KB"), X, y, classes=[0, 1])


def test_a_stream_after_a_fit_does_not_begin_with_its_model():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = AESVC(gamma=5.0).fit(X, y).set_params(gamma=0.1)
    model.partial_fit(X[y == 0], y[y == 0])  # fit has shown the classes
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="needs rows of a stream that has begun"):
        AESVC(gamma=1.0).partial_fit(classes=[0, 1])


def test_the_model_is_of_the_set_however_many_rows_wait(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 100_000)
    X, y = make_moons(3000, noise=0.1, random_state=0)
    model = AESVC(gamma=1.0).partial_fit(X, y, classes=[0, 1])
    assert model.certificate_.n_solved < 1000
    assert len(model._stream_.stream.tree.buffer) == 1


def test_the_names_of_a_readers_features_are_known(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = make_moons(600, noise=0.1, random_state=0)
    frame = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "label": y})
    frame.to_parquet(tmp_path / "rows.parquet")
    reader = ParquetReader(tmp_path / "rows.parquet", target="label", chunk_rows=100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AESVC(gamma=1.0, refine=1).fit_stream(reader)
        model.certify_stream(reader)
        model.predict(frame[["east", "north"]])
    assert model.feature_names_in_.tolist() == ["east", "north"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["north", "east"]])


def test_a_chunk_that_is_refused_is_told_by_its_row():
    X, y = make_moons(300, noise=0.1, random_state=0)
    bad = X[200:].copy()
    bad[3] = np.nan
    chunks = [(X[:200], y[:200], None), (bad, y[200:], None)]
    with pytest.raises(ValueError, match=r"NaN.*begins at row 200"):
        AESVC(gamma=1.0).fit_stream(chunks)
    with pytest.raises(ValueError, match="a tuple of 2 for a chunk"):
        AESVC(gamma=1.0).fit_stream([(X, y)])


def test_targets_without_rows_are_refused():
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = AESVC(gamma=1.0).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="X=None"):
        model.partial_fit(y=y)
    with pytest.raises(ValueError, match="memory_budget"):
        AESVC(memory_budget="2 GiBs").fit(X, y)


def test_other_rows_than_those_of_the_model_are_called_that():
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = AESVC(gamma=1.0, refine=0).fit_stream([(X, y, None)])
    with pytest.raises(ValueError, match="other rows than the 300 that the model was trained on"):
        model.certify_stream([(X + 1.0, y, None)])


@pytest.mark.parametrize("refine", [0, 1])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_theorems_count_the_rounding_of_residuals(n_classes, refine):
    """Rows that are nearer to each other, in kernel space, than single precision tells."""
    X = (28_000.0 + np.random.default_rng(0).normal(size=(60, 30))).astype(np.float32)
    source = [(X, np.argsort(np.argsort(X[:, 0])) % n_classes, None)]
    model = AESVC(gamma=1e-10, C=1e3, refine=refine)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit_stream(source).certify_stream(source)
        best = AESVC(gamma=1e-10, C=1e3, tol=1e-6).fit(X.astype(float), source[0][1]).certificate_
    assert found.n_solved < found.n_rows
    assert found.objective <= found.reduced_objective + found.theorem_2_bound
    assert best.dual_objective <= found.reduced_objective + found.paper_bound


def test_certify_stream_keeps_an_objective_that_was_proven():
    """A look over the rows was off by 5e-5 of it, and by more than the gap counted."""
    rng = np.random.default_rng(1)
    X = rng.standard_cauchy((228, 29))
    y = np.argsort(np.argsort(X[:, 0] + 0.5 * rng.normal(size=228))) * 5 // 228
    source = [(X, y, rng.uniform(0.1, 2.0, 228))]
    model = AESVC(gamma=1e4, C=400.0, refine=0, subset_size=20).fit_stream(source)
    before = model.certificate_
    assert before.proven
    found = model.certify_stream(source)
    assert found.proven
    assert (found.objective, found.gap) == (before.objective, before.gap)
