"""Sparse rows on a device that something stands in for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from aesvm import AESVC
from aesvm.gpu import rows, vectors
from aesvm.kernels import KernelSpec
from aesvm.kernels.expansion import n_additions
from aesvm.machines.training_kernel import TrainingKernel


@pytest.mark.parametrize("device", ["stand_in", "emulated"])
@pytest.mark.parametrize("gamma", [100.0, 1e12])
def test_rows_so_far_apart_that_products_cancel(request, device, gamma):
    # products are not precise enough for a certificate; with the second gamma, for nothing at all
    request.getfixturevalue(device)
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(0.4, (40, 30)).astype(float))
    y = np.arange(40) % 2
    here = AESVC(gamma=gamma, refine="exact").fit(X, y)
    there = AESVC(gamma=gamma, refine="exact", device="cuda").fit(X, y)
    for name in ("objective", "dual_objective"):
        one, other = (getattr(model.certificate_, name) for model in (here, there))
        assert_allclose(one, other, rtol=1e-3)
    assert_allclose(here.decision_function(X), there.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("device", ["stand_in", "emulated"])
def test_numbers_of_64_bits_entries_twice_and_without_order(request, device):
    request.getfixturevalue(device)
    rng = np.random.default_rng(0)
    X = sp.random(40, 30, 0.2, format="csr", random_state=rng)
    given = X.copy()
    given.data, given.indices = (np.repeat(one, 2) for one in (0.5 * X.data, X.indices))
    given.indptr = 2 * X.indptr
    for first, last in zip(given.indptr[:-1], given.indptr[1:], strict=True):
        order = first + rng.permutation(last - first)
        given.data[first:last], given.indices[first:last] = given.data[order], given.indices[order]
    given.indices, given.indptr = (one.astype(np.int64) for one in (given.indices, given.indptr))
    y = np.arange(40) % 2
    here = AESVC(gamma=1.0, refine="exact").fit(X, y)
    there = AESVC(gamma=1.0, refine="exact", device="cuda").fit(given, y)
    found = there.decision_function(given)
    assert_allclose(here.decision_function(X), found, atol=5e-3)
    assert given.indices.dtype == np.int64
    assert given.nnz == 2 * X.nnz


@pytest.mark.parametrize("held", [1 << 26, 3 * 50, 300 * 50])
@pytest.mark.parametrize("kind", ["rbf", "precomputed"])
def test_sums_add_up_no_more_terms_in_a_row_than_certificates_count(
    stand_in, monkeypatch, kind, held
):
    monkeypatch.setattr(vectors, "_HELD_VALUES", held)
    depths = []  # of each value that is added to the sums

    class Depth(np.ndarray):
        """Coefficients of one; products with them say how many terms they have."""

        def __matmul__(self, values):
            return np.full((1, values.shape[1]), float(self.shape[1]))

    class Sums(np.ndarray):
        def __iadd__(self, other):
            depths.append(float(np.max(other)))
            return self

    X = sp.random(2000, 5, 0.5, format="csr", random_state=0)
    X = np.eye(2000) if kind == "precomputed" else X
    kernel = TrainingKernel(KernelSpec(kind, 1.0, device="cuda"), X).matrix(np.float64, 1e-12)
    lines = kernel.vectors(np.arange(2000))
    columns = kernel.vectors(np.arange(50))
    for n in (1, 512, 513, 2000):
        depths.clear()
        sums = np.zeros((1, 50)).view(Sums)
        columns.sum_lines(lines, np.arange(n), np.ones((1, n)).view(Depth), None, sums)
        assert sum(depths) == n
        assert max(depths) + sum(one > 0 for one in depths) - 1 <= n_additions(n)


def test_more_entries_than_32_bits_number_are_refused(stand_in, monkeypatch):
    monkeypatch.setattr(rows, "_MOST_ENTRIES", 50)
    X = sp.random(20, 6, 0.5, format="csr", random_state=0)
    with pytest.raises(ValueError, match="X has 60 entries and 6 features"):
        AESVC(gamma=1.0, device="cuda").fit(X, np.arange(20) % 2)
