"""The device's hull: its kernel, built for this processor, with fibers for its threads."""

import numpy as np
import pytest

from aesvm.gpu import hull
from aesvm.gpu.hull import most_rows, reduce_batch
from tests.gpu.stand_in import NumpyDevice, launch_on_the_host

TOL = 1e-3


def clouds(dtype, n=32):
    """Three subsets of different sizes; rows beyond those are no rows."""
    rng = np.random.default_rng(3)
    gram = np.empty((3, n, n), dtype=dtype)
    sizes = np.array([n, n - 5, 1])
    for own in gram:
        x = rng.normal(size=(n, 2))
        own[...] = np.exp(-0.1 * np.square(x[:, None] - x[None]).sum(axis=2))
    weights = rng.uniform(0.5, 2.0, size=(3, n)) * (np.arange(n) < sizes[:, None])
    return {"gram": gram, "sizes": sizes, "weights": weights, "tol": TOL}


def crowds(dtype, n=160):
    """Two subsets of which members leave that others lean on, with rows close to others.

    One is wide, and keeps many rows.
    """
    rng = np.random.default_rng(5)
    gram = np.empty((2, n, n), dtype=dtype)
    for own, width in zip(gram, (3, 6), strict=True):
        x = rng.normal(size=(n, width))
        x[-20:] = x[:20] + rng.normal(size=(20, width)) / 100
        own[...] = np.exp(-0.05 * np.square(x[:, None] - x[None]).sum(axis=2))
    weights = rng.uniform(0.5, 2.0, size=(2, n)) * (np.arange(n) < [[n], [n - 1]])
    return {"gram": gram, "sizes": np.array([n, n - 1]), "weights": weights, "tol": TOL}


def on_device(device, problem, threads):
    return reduce_batch(device, **problem, keep_combinations=True, threads=threads)


def on_host(problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hull, "_launch", launch_on_the_host)
        return reduce_batch(NumpyDevice(), **problem, keep_combinations=True)


def check(problem, hulls):
    """What the mathematics promises."""
    gram, sizes, weights = problem["gram"], problem["sizes"], problem["weights"]
    lengths, indices, coefs = hulls.combinations
    at = 0
    for b, size in enumerate(sizes):
        K = gram[b].astype(np.float64)
        sums = np.zeros(len(K))
        for i in range(size):
            part = slice(at, at + lengths[b, i])
            at = part.stop
            own, mu = indices[part], coefs[part]
            assert hulls.selected[b, own].all()
            assert len(set(own)) == len(own) > 0
            assert (mu >= 0.0).all()
            assert mu.sum() == pytest.approx(1.0, abs=1e-12)
            residual = K[i, i] - 2.0 * mu @ K[i, own] + mu @ K[np.ix_(own, own)] @ mu
            assert hulls.residuals[b, i] <= problem["tol"]
            assert residual == pytest.approx(hulls.residuals[b, i], abs=1e-6)
            sums[own] += weights[b, i] * mu
        assert not lengths[b, size:].any()
        assert not hulls.selected[b, size:].any()
        np.testing.assert_allclose(hulls.weights[b], sums, atol=1e-12)
    assert at == len(indices) == len(coefs)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [clouds, crowds])
@pytest.mark.parametrize(("dtype", "threads"), [(np.float32, 32), (np.float64, 128)])
def test_the_kernel_keeps_the_bound_with_as_few_rows_as_the_host(emulated, dtype, threads, problem):
    problem = problem(dtype)
    hulls, host = on_device(emulated, problem, threads), on_host(problem)
    check(problem, hulls)
    check(problem, host)
    few = host.selected.sum(axis=1)
    assert (np.abs(hulls.selected.sum(axis=1) - few) <= 1 + 0.05 * few).all()
    assert few[0] < len(problem["gram"][0])  # there was something to do


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "threads"), [(np.float32, 64), (np.float64, 128)])
def test_nothing_depends_on_which_thread_comes_first(emulated, monkeypatch, dtype, threads):
    monkeypatch.setattr(hull, "ABSORB_MOVES", 2)  # some checks end by that
    problem = crowds(dtype)
    found = on_device(emulated, problem, threads)
    check(problem, found)
    monkeypatch.setenv("BACKWARDS", "1")
    again = on_device(emulated, problem, threads)
    check(problem, again)
    np.testing.assert_array_equal(found.selected, again.selected)
    np.testing.assert_array_equal(found.residuals, again.residuals)
    np.testing.assert_array_equal(found.weights, again.weights)
    for one, other in zip(found.combinations, again.combinations, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_ledger_that_is_full_is_made_longer(emulated, monkeypatch):
    problem = clouds(np.float32, n=24)
    roomy = on_device(emulated, problem, 32)
    monkeypatch.setattr(hull, "_ENTRIES", (1, 256))
    tight = on_device(emulated, problem, 32)
    check(problem, tight)
    np.testing.assert_array_equal(tight.selected, roomy.selected)
    np.testing.assert_array_equal(tight.residuals, roomy.residuals)


def test_longer_ledgers_take_no_more_memory(monkeypatch):
    """Every subset needs the longest: they are reduced a few at a time."""
    n_subsets, n = 100, 4
    asked, done = [], []

    def launch(device, gram, sizes, weights, tol, work, threads):
        asked.append(work.ledger_rows.size)
        enough = work.ledger_rows.shape[1] == n * hull._ENTRIES[-1]
        if enough:
            done.extend(sizes)
            work.selected[...] = sizes[:, None]
        return np.full(len(gram), 0 if enough else 1)

    monkeypatch.setattr(hull, "_launch", launch)
    sizes = np.arange(n_subsets) % n + 1
    gram, weights = np.ones((n_subsets, n, n)), np.ones((n_subsets, n))
    found = reduce_batch(NumpyDevice(), gram, sizes, weights, TOL, False)
    assert done == sizes.tolist()
    assert found.selected.all()
    assert max(asked) == asked[0] == n_subsets * n * hull._ENTRIES[0]


@pytest.mark.slow
def test_points_on_a_line_need_its_two_ends(emulated):
    x = np.array([3.0, 0.0, 5.0, 1.0, 4.0, 5.0])
    gram = np.multiply.outer(x, x)[None]
    weights = np.ones((1, 6))
    problem = {"gram": gram, "sizes": np.array([6]), "weights": weights, "tol": 1e-9}
    hulls = on_device(emulated, problem, 32)
    check(problem, hulls)
    assert sorted(x[hulls.selected[0]]) == [0.0, 5.0]


@pytest.mark.weekly
@pytest.mark.slow
@pytest.mark.parametrize("scale", [-1e35, 1e35, np.nan])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_out_of_any_reach_are_read_within_the_subset(emulated, dtype, scale):
    """The emulator refuses to read beyond; some row is selected, whatever the values are."""
    gram = np.full((1, 6, 6), scale, dtype=dtype)
    weights = np.ones((1, 6))
    problem = {"gram": gram, "sizes": np.array([6]), "weights": weights, "tol": 1e-3}
    assert on_device(emulated, problem, 32).selected.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_stand_in_of_the_host_keeps_the_bound(dtype):
    problem = clouds(dtype)
    check(problem, on_host(problem))


def test_a_thread_block_has_room_for_the_usual_subsets():
    assert most_rows(np.dtype(np.float64)) >= 1000
