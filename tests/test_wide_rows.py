"""Sparse rows with billions of columns, of which few occur: they cost what these few cost."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from aesvm.estimators.fit_warnings import scale_factor, warn_of_scales
from aesvm.kernels import blocks, kernel_matrix
from aesvm.sets.digest import added, digest
from aesvm.sets.distinct import distinct_rows
from tests import children

#: The first has indices of 32 bits, the second of 64.
WIDTHS = [2_000_000_000, 2**40]


def widened(X, width):
    """The same rows, with their columns at other indices, in the same order."""
    indices = np.linspace(0, width - 1, X.shape[1]).astype(np.int64)[X.indices]
    return type(X)((X.data, indices, X.indptr), shape=(X.shape[0], width))


def few_columns(n_rows=60, n_columns=20, seed=0):
    return sp.csr_array(sp.random_array((n_rows, n_columns), density=0.2, rng=seed, format="csr"))


_EVERYTHING = """
import resource
import sys

import numpy as np
from numpy.testing import assert_allclose

from aesvm import AESVC, RepresentativeSet
from aesvm.io import LibsvmReader
from tests.test_wide_rows import few_columns, widened

SETTINGS = {"n_jobs": 1, "subset_size": 50, "partition_size": 200, "hull_tol": 0.01}
width, folder = int(sys.argv[1]), sys.argv[2]


def results(X, y, X_new):
    for parameters in ({"gamma": 0.001}, {"kernel": "linear"}, {"kernel": "poly", "gamma": 0.001}):
        model = AESVC(**SETTINGS, **parameters).fit(X, y)
        certificate = model.certify(X, y)
        yield from (certificate.objective, model.decision_function(X_new), model.predict(X_new))
        if model.kernel == "linear":
            yield model.coef_.data
    chunks = [(X[at : at + 200], y[at : at + 200], None) for at in range(0, 800, 200)]
    model = AESVC(gamma=0.001, **SETTINGS).fit_stream(chunks)
    yield model.certify_stream(chunks[:1] + [(X[200:], y[200:], None)]).objective
    yield model.decision_function(X_new)
    model = AESVC(gamma=0.001, **SETTINGS)
    for rows, classes, _ in chunks:
        model.partial_fit(rows, classes, classes=[0, 1])
    yield model.decision_function(X_new)
    chosen = RepresentativeSet(gamma=0.001, **SETTINGS).fit(X, y)
    assert len(chosen.weights_) < 600
    yield chosen.weights_
    path = f"{folder}/{X.shape[1]}.txt"
    with open(path, "w") as file:
        for row, label in zip(X, y, strict=True):
            pairs = zip(row.indices, row.data, strict=True)
            print(label, *(f"{index + 1}:{value}" for index, value in pairs), file=file)
    for n_features in (None, X.shape[1]):
        read = LibsvmReader(path, n_features=n_features, chunk_rows=300)
        yield AESVC(gamma=0.001, **SETTINGS).fit_stream(read).decision_function(X_new)


narrow = few_columns(800, 20)
narrow.data[:] = np.ceil(3 * narrow.data)  # so that some rows are equal
y = (narrow.sum(axis=1) > 8).astype(int)
expected = list(results(narrow, y, narrow[::5]))
with open("/proc/self/statm") as sizes:
    now = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), resource.RLIM_INFINITY))
wide = widened(narrow, width)
found = list(results(wide, y, wide[::5]))
for one, other in zip(expected, found, strict=True):
    assert_allclose(one, other, rtol=1e-9, atol=1e-9)
print("done")
"""


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
@pytest.mark.parametrize("width", WIDTHS)
def test_billions_of_columns_fit_into_little_memory_and_give_the_same_models(width, tmp_path):
    assert children.run(children.code(_EVERYTHING, width, tmp_path)) == "done\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "oracle"), [("rbf", rbf_kernel), ("poly", polynomial_kernel)])
def test_features_that_no_column_has_count_in_distances(name, oracle, width):
    X = few_columns()
    wide = widened(X, width)
    columns = np.arange(0, 60, 20)  # three rows, which do not have all features
    kernel = kernel_matrix(wide, kernel=name, gamma=0.7, degree=3, coef0=1.0)
    parameters = {"gamma": 0.7} if name == "rbf" else {"gamma": 0.7, "degree": 3, "coef0": 1.0}
    wanted = oracle(X.toarray(), X[columns].toarray(), **parameters)
    assert_allclose(kernel.cross(wide, columns), wanted, atol=1e-12)
    assert_allclose(kernel.block(np.arange(60), columns), wanted, atol=1e-12)
    assert kernel.rounding(columns) < 1e-12


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_far_apart_are_compared_a_few_features_at_a_time(width, monkeypatch):
    X = few_columns() * 1e6
    kernel = kernel_matrix(widened(X, width), kernel="rbf", gamma=1e-12)
    rows, columns = np.arange(60), np.arange(0, 60, 20)
    monkeypatch.setattr(kernel, "precision", lambda largest: None)
    monkeypatch.setattr(blocks, "copied_bytes", lambda: 4 * 8 * (len(rows) + len(columns)))
    wanted = rbf_kernel(X.toarray(), X[columns].toarray(), gamma=1e-12)
    assert_allclose(kernel.block(rows, columns), wanted, atol=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
def test_equal_rows_are_found_and_digests_do_not_depend_on_chunks(width):
    X = sp.vstack([few_columns(), few_columns()], format="csr")
    X.data[:3] = 0.0  # stored zeros: the first copy only
    wide = widened(X, width)
    labels, weights = np.zeros(120, dtype=int), np.ones(120)
    first, inverse = distinct_rows(X.toarray(), labels)
    assert_array_equal(distinct_rows(wide, labels)[0], first)
    assert_array_equal(distinct_rows(wide, labels)[1], inverse)
    parts = [
        digest(wide[part], labels[part], weights[part], first=part.start)
        for part in (slice(0, 50), slice(50, 120))
    ]
    assert added(*parts) == digest(wide, labels, weights)
    assert digest(X, labels, weights) == digest(X.toarray(), labels, weights)


@pytest.mark.parametrize("width", WIDTHS)
def test_scales_are_those_of_features_that_occur(width, recwarn):
    X = few_columns()
    warn_of_scales(scale_factor(widened(X, width)))
    assert not recwarn
    X.data[X.indices == 3] *= 1e6
    with pytest.warns(UserWarning, match="differ in scale"):
        warn_of_scales(scale_factor(widened(X, width)))
