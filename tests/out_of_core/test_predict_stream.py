"""Predictions over sources of chunks."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from aesvm import AESVC, AESVR, AEOneClassSVM
from aesvm.io import CSVReader, LibsvmReader, NpyReader
from tests.io.fitted_models import MODELS, decide, model, other_rows


def chunks(X, n_rows=30):
    return [(X[at : at + n_rows], None, None) for at in range(0, X.shape[0], n_rows)]


@pytest.mark.parametrize("name", MODELS)
def test_chunks_are_predicted_as_all_rows_together(name):
    fitted = model(name)
    X = other_rows(fitted)
    parts = list(fitted.predict_stream(chunks(X)))
    assert [len(part) for part in parts] == [30, 30, 30, 10]
    found = np.concatenate(parts)
    if not hasattr(fitted, "decision_function"):
        np.testing.assert_allclose(found, fitted.predict(X), atol=1e-12)
    else:
        np.testing.assert_array_equal(found, fitted.predict(X))
        values = np.concatenate(list(fitted.predict_stream(chunks(X), "decision_function")))
        np.testing.assert_allclose(values, decide(fitted, X), atol=1e-12)


def test_scores_of_outliers():
    fitted = model("AEOneClassSVM")
    X = other_rows(fitted)
    scores = np.concatenate(list(fitted.predict_stream(chunks(X), "score_samples")))
    np.testing.assert_allclose(scores, fitted.score_samples(X))


def test_readers_are_sources(tmp_path):
    fitted = model("two classes")
    X = other_rows(fitted)
    np.save(tmp_path / "rows.npy", X)
    lines = [" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row)) for row in X.tolist()]
    (tmp_path / "rows.txt").write_text("".join(f"1 {line}\n" for line in lines))
    readers = [
        NpyReader(tmp_path / "rows.npy", chunk_rows=30),
        LibsvmReader(tmp_path / "rows.txt", n_features=5, chunk_rows=30),
    ]
    for reader in readers:
        labels = np.concatenate(list(fitted.predict_stream(reader)))
        np.testing.assert_array_equal(labels, fitted.predict(X))


def test_a_source_with_other_features_is_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    fitted = AEOneClassSVM().fit(X)
    X.to_csv(tmp_path / "same.csv", index=False)
    X[["b", "a"]].to_csv(tmp_path / "other.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (labels,) = fitted.predict_stream(CSVReader(tmp_path / "same.csv", target=None))
    np.testing.assert_array_equal(labels, fitted.predict(X))
    with pytest.raises(ValueError, match="must be the same, in the same order"):
        fitted.predict_stream(CSVReader(tmp_path / "other.csv", target=None))


def test_a_source_is_read_as_predictions_are_asked_for():
    fitted = model("two classes")
    X = other_rows(fitted)
    n_given = 0

    def source():
        nonlocal n_given
        for chunk in chunks(X):
            n_given += 1
            yield chunk

    found = fitted.predict_stream(source())
    assert n_given == 0
    next(found)
    assert n_given == 1


def test_memory_does_not_grow_with_the_source():
    fitted = model("two classes")
    X = np.random.default_rng(0).normal(size=(2000, 5))
    list(fitted.predict_stream([(X, None, None)]))

    def peak(n_chunks):
        tracemalloc.start()
        for _ in fitted.predict_stream((X.copy(), None, None) for _ in range(n_chunks)):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(40) < 1.5 * peak(4)


def test_empty_chunks_are_passed_over():
    fitted = model("two classes")
    X = other_rows(fitted)
    (labels,) = fitted.predict_stream([(X[:0], None, None), (X, None, None)])
    np.testing.assert_array_equal(labels, fitted.predict(X))
    assert list(fitted.predict_stream([])) == []


def test_what_is_no_source_is_refused_at_once():
    fitted = model("two classes")
    X = other_rows(fitted)
    for wrong in ("rows.csv", 7):
        with pytest.raises(ValueError, match="source="):
            fitted.predict_stream(wrong)
    with pytest.raises(ValueError, match="method='fit'"):
        fitted.predict_stream(chunks(X), "fit")
    with pytest.raises(ValueError, match="AESVR has 'predict'"):
        model("AESVR").predict_stream(chunks(X), "decision_function")
    with pytest.raises(ValueError, match="triples"):
        list(fitted.predict_stream([X]))
    with pytest.raises(ValueError, match="begins at row 100"):
        list(fitted.predict_stream([(X, None, None), (X[:, :3], None, None)]))
    for unfitted in (AESVC(), AESVR()):
        with pytest.raises(ValueError, match="not fitted"):
            unfitted.predict_stream(chunks(X))


def test_sparse_chunks_of_a_dense_model():
    fitted = model("two classes")
    X = other_rows(fitted)
    (labels,) = fitted.predict_stream([(sp.csr_array(X), None, None)])
    np.testing.assert_array_equal(labels, fitted.predict(X))
