"""Rows that come in pieces: bounds that hold whatever the pieces are, and a memory budget."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from aesvm import RepresentativeSet
from aesvm.out_of_core import merge_tree
from aesvm.out_of_core.merge_tree import MergeTree, bytes_of
from aesvm.out_of_core.reducer import level_tolerance
from aesvm.out_of_core.weighted_rows import WeightedRows, joined
from tests import oracles


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that a few hundred rows make a tree."""
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 20)


def streamed(X, y, ends, **parameters):
    """A set of rows that come in the given pieces."""
    stream = RepresentativeSet(gamma=1.0, subset_size=10, **parameters)
    for first, last in zip([0, *ends], [*ends, len(y)], strict=True):
        if first < last:
            stream.partial_fit(X[first:last], y[first:last])
    return stream.partial_fit()


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_true_residuals_are_within_the_bound_for_any_pieces_and_order(data):
    n = data.draw(st.integers(30, 120))
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    hull_tol = data.draw(st.sampled_from([1e-3, 1e-2, 0.1]))
    X = rng.normal(size=(n, 2)) * data.draw(st.sampled_from([0.1, 0.5, 2.0]))
    y = rng.integers(0, 2, n)
    ends = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=8)))
    stream = streamed(X, y, ends, hull_tol=hull_tol)
    assert stream.max_residual_ <= hull_tol * (1 + 1e-9)
    K = oracles.kernel(X, gamma=1.0)
    for c in (0, 1):
        members = stream.sample_indices_[y[stream.sample_indices_] == c]
        distances = oracles.hull_distances(K, np.flatnonzero(y == c)[::7], members)
        assert (distances <= stream.max_residual_ + 1e-7).all()
    assert stream.weights_.sum() == pytest.approx(n, rel=1e-12)


def test_weights_of_every_class_are_handed_on():
    X, y = make_moons(700, noise=0.1, random_state=0)
    weights = np.random.default_rng(0).uniform(0.0, 3.0, 700)
    weights[::10] = 0.0
    stream = RepresentativeSet(gamma=1.0, subset_size=50)
    for first in range(0, 700, 33):
        part = slice(first, first + 33)
        stream.partial_fit(X[part], y[part], sample_weight=weights[part])
    rows, classes, found = stream.partial_fit().select()
    for c in (0, 1):
        assert found[classes == c].sum() == pytest.approx(weights[y == c].sum(), rel=1e-12)
    assert_array_equal(rows, X[stream.sample_indices_])
    assert_array_equal(classes, y[stream.sample_indices_])
    assert_array_equal(found, stream.weights_)
    assert np.all(np.diff(stream.sample_indices_) > 0)
    assert stream.n_seen_ == 700
    assert np.all(weights[stream.sample_indices_] > 0)


def test_a_stream_in_one_piece_is_a_fit_at_the_tolerance_of_level_one(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 10_000)
    X, y = make_moons(2000, noise=0.1, random_state=0)
    stream = RepresentativeSet(gamma=1.0).partial_fit(X, y).partial_fit()
    whole = RepresentativeSet(gamma=1.0, hull_tol=level_tolerance(1e-3, 1)).fit(X, y)
    assert_array_equal(stream.sample_indices_, whole.sample_indices_)
    assert_allclose(stream.weights_, whole.weights_)
    assert stream.max_residual_ == pytest.approx(whole.max_residual_)


def test_there_is_one_set_of_a_level_at_most_and_as_many_levels_as_binary_digits():
    X, y = make_moons(20 * 13, noise=0.1, random_state=0)
    stream = RepresentativeSet(gamma=1.0, subset_size=10, hull_tol=0.01)
    for piece in range(13):
        stream.partial_fit(X[20 * piece : 20 * piece + 20], y[20 * piece : 20 * piece + 20])
        occupied = [level is not None for level in stream._stream_.tree.levels]
        assert occupied[::-1] == [digit == "1" for digit in f"{piece + 1:b}"]


def test_what_waits_represents_itself():
    X, y = make_moons(15, random_state=0)
    stream = RepresentativeSet(gamma=1.0).partial_fit(X, y)
    assert len(stream.sample_indices_) == 15
    assert stream.max_residual_ == 0.0


def test_sparse_rows_are_held_sparse_and_give_a_set_as_good():
    X, y = make_moons(300, noise=0.1, random_state=0)
    X[np.abs(X) < 0.3] = 0.0
    dense = streamed(X, y, [70, 150], hull_tol=0.01)
    sparse = streamed(sp.csr_array(X), y, [70, 150], hull_tol=0.01)
    assert sp.issparse(sparse.select()[0])
    # which of two rows is chosen may be decided by the last digit of a kernel value
    assert len(sparse.sample_indices_) == pytest.approx(len(dense.sample_indices_), rel=0.05)
    common = np.intersect1d(dense.sample_indices_, sparse.sample_indices_)
    assert len(common) > 0.9 * len(dense.sample_indices_)
    assert sparse.max_residual_ <= sparse.hull_tol * (1 + 1e-9)
    assert sparse.weights_.sum() == pytest.approx(300, rel=1e-12)


def test_classes_may_be_strings_or_be_missing():
    X, y = make_moons(100, noise=0.1, random_state=0)
    names = np.array(["no", "yes"])[y]
    by_name, by_number = (streamed(X, labels, [40], hull_tol=0.01) for labels in (names, y))
    assert_array_equal(by_name.sample_indices_, by_number.sample_indices_)
    stream = RepresentativeSet(gamma=1.0).partial_fit(X).partial_fit()
    assert_array_equal(stream.select()[1], np.zeros(len(stream.weights_)))


def test_a_classifier_of_a_stream_is_nearly_that_of_all_rows(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 1000)
    X, y = make_moons(6000, noise=0.2, random_state=0)
    stream = RepresentativeSet(gamma=2.0)
    for first in range(0, 5000, 500):
        stream.partial_fit(X[first : first + 500], y[first : first + 500])
    rows, classes, weights = stream.partial_fit().select()
    model = SVC(gamma=2.0).fit(rows, classes, sample_weight=weights)
    exact = SVC(gamma=2.0).fit(X[:5000], y[:5000])
    assert np.mean(model.predict(X[5000:]) == exact.predict(X[5000:])) > 0.97
    assert len(rows) < 2500


def test_a_buffer_may_be_used_again():
    X, y = make_moons(40, random_state=0)
    buffer, weights = np.empty((10, 2)), np.empty(10)
    stream = RepresentativeSet(gamma=1.0)
    for first in range(0, 40, 10):
        buffer[:], weights[:] = X[first : first + 10], 1.0
        stream.partial_fit(buffer, y[first : first + 10], weights)
        buffer[:], weights[:] = np.nan, 100.0
    rows, _, found = stream.partial_fit().select()
    assert np.isfinite(rows).all()
    assert found.sum() == pytest.approx(40.0)
    rows[:], found[:] = 0.0, 7.0
    assert stream.select()[2].sum() == pytest.approx(40.0)
    assert stream.select()[0].any()


def test_a_budget_that_cannot_hold_the_set_is_refused_and_nothing_is_lost():
    X, y = np.random.default_rng(0).normal(size=(200, 30)), np.zeros(200)
    stream = RepresentativeSet(gamma=1.0, memory_budget="30 KB")
    stream.partial_fit(X[:80], y[:80])
    before = stream.sample_indices_
    with pytest.raises(
        ValueError, match=r"memory_budget=30,000 bytes cannot hold .* hull_tol=0.001"
    ):
        stream.partial_fit(X[80:], y[80:])
    assert stream.sample_indices_ is before
    assert stream.n_seen_ == 80
    assert stream.partial_fit().n_seen_ == 80
    stream.set_params(memory_budget="1 MB").partial_fit(X[80:], y[80:])  # as the error says
    assert stream.n_seen_ == 200


def test_a_looser_tolerance_is_warned_of_and_reported():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)), np.zeros(400)
    stream = RepresentativeSet(gamma=0.05, subset_size=50, memory_budget=9000, on_overflow="loosen")

    def take_in():
        for first in range(0, 400, 40):
            stream.partial_fit(X[first : first + 40], y[first : first + 40])

    with pytest.warns(UserWarning, match="cannot hold the set at hull_tol=0.001: it is"):
        take_in()
    stream.partial_fit()
    assert stream._stream_.tree.n_bytes <= 9000
    assert stream.max_residual_ > 1e-3
    assert stream.weights_.sum() == pytest.approx(400, rel=1e-12)
    K = oracles.kernel(X, gamma=0.05)
    distances = oracles.hull_distances(K, range(0, 400, 25), stream.sample_indices_)
    assert (distances <= stream.max_residual_ + 1e-7).all()


def test_a_stream_without_tolerance_can_be_loosened_too():
    X = np.random.default_rng(0).normal(size=(200, 3))
    stream = RepresentativeSet(gamma=0.01, hull_tol=0.0, memory_budget=3000, on_overflow="loosen")
    with pytest.warns(UserWarning, match="cannot hold the set at hull_tol=0: it is"):
        stream.partial_fit(X)
    assert stream._stream_.tree.n_bytes <= 3000


def test_a_budget_too_small_for_any_tolerance_is_refused():
    X = 100.0 * np.random.default_rng(0).normal(size=(100, 3))
    stream = RepresentativeSet(gamma=1.0, memory_budget=10, on_overflow="loosen")
    with pytest.raises(ValueError, match="memory_budget=10 bytes cannot hold one row of each"):
        stream.partial_fit(X)


@pytest.mark.parametrize(
    ("budget", "n_bytes"),
    [(None, np.inf), (1000, 1000.0), ("1.5 GB", 1.5e9), ("2 GiB", 2.0**31), ("64kib", 65536.0)],
)
def test_budgets_are_read_as_people_write_them(budget, n_bytes):
    assert bytes_of(budget) == n_bytes


@pytest.mark.parametrize("budget", ["much", "2 parsecs", "-1 GB", ""])
def test_a_budget_that_is_no_size_is_refused(budget):
    with pytest.raises(ValueError, match=f"memory_budget='{budget}' is not a size"):
        RepresentativeSet(gamma=1.0, memory_budget=budget).partial_fit(np.eye(3))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "gamma='scale' is a statistic of all rows"),
        ({"kernel": "precomputed", "gamma": 1.0}, "is the kernel matrix of all rows"),
    ],
)
def test_what_all_rows_are_needed_for_is_not_for_a_stream(parameters, message):
    stream = RepresentativeSet(**parameters)
    with pytest.raises(ValueError, match=message):
        stream.partial_fit(np.eye(3), [0, 1, 0])
    assert not hasattr(stream, "partial_fit")


@pytest.mark.parametrize(
    ("rows", "classes", "message"),
    [
        (np.eye(3), [0, 1, 0], "X has 3 features, but RepresentativeSet is expecting 2"),
        (np.eye(2), ["a", "b"], "numbers, or strings, for its classes throughout"),
        (sp.csr_array(np.eye(2)), [0, 1], "X is sparse, and was not before"),
        (np.eye(2), None, "y is missing, and was given before"),
    ],
)
def test_pieces_must_be_of_one_kind(rows, classes, message):
    stream = RepresentativeSet(gamma=1.0).partial_fit(*make_moons(30, random_state=0))
    with pytest.raises(ValueError, match=message):
        stream.partial_fit(rows, classes)
    assert stream.n_seen_ == 30


def test_a_stream_begins_with_rows():
    with pytest.raises(ValueError, match="needs rows of a stream that has begun"):
        RepresentativeSet(gamma=1.0).partial_fit()


def test_rows_that_were_not_streamed_are_not_held():
    X, y = make_moons(30, random_state=0)
    with pytest.raises(ValueError, match=r"X\[sample_indices_\] are its representatives"):
        RepresentativeSet(gamma=1.0).fit(X, y).select()


def test_fit_ends_a_stream_and_the_next_piece_begins_another():
    X, y = make_moons(60, noise=0.1, random_state=0)
    model = RepresentativeSet(gamma=1.0).partial_fit(X, y)
    model.fit(X[:50], y[:50])
    assert not hasattr(model, "n_seen_")
    assert len(model.residuals_) == 50
    model.partial_fit(X[:10], y[:10])
    assert model.n_seen_ == 10
    assert not hasattr(model, "residuals_")


def test_a_stream_is_cloned_without_its_rows_and_pickled_with_them():
    X, y = make_moons(200, noise=0.1, random_state=0)
    stream = RepresentativeSet(gamma=1.0, subset_size=10).partial_fit(X[:100], y[:100])
    assert not hasattr(clone(stream), "_stream_")
    copy = pickle.loads(pickle.dumps(stream))
    for one in (stream, copy):
        one.partial_fit(X[100:], y[100:]).partial_fit()
    assert_array_equal(stream.sample_indices_, copy.sample_indices_)


def weighted(X, y, indices, reach):
    return WeightedRows(X, y, y, np.ones(len(y)), indices, reach, whole=reach == 0.0)


def test_joined_rows_are_in_the_order_of_the_stream():
    sets = [
        weighted(np.eye(2), np.zeros(2), np.array([5, 9]), 0.1),
        weighted(2 * np.eye(2), np.ones(2), np.array([1, 7]), 0.3),
    ]
    whole = joined(sets)
    assert_array_equal(whole.indices, [1, 5, 7, 9])
    assert_array_equal(whole.targets, [1, 0, 1, 0])
    assert whole.reach == 0.3
    assert len(MergeTree(1e-3, np.inf, False, (sets[1],)).everything()) == 2


def chunks_of(X, y, size, weights=None):
    return [
        (
            X[at : at + size],
            None if y is None else y[at : at + size],
            None if weights is None else weights[at : at + size],
        )
        for at in range(0, X.shape[0], size)
    ]


def test_a_source_gives_what_its_chunks_give():
    X, y = make_moons(300, noise=0.1, random_state=0)
    weights = np.random.default_rng(0).uniform(size=300)
    by_hand = RepresentativeSet(gamma=1.0, subset_size=10)
    for chunk in chunks_of(X, y, 45, weights):
        by_hand.partial_fit(*chunk)
    by_hand.partial_fit()
    for source in (chunks_of(X, y, 45, weights), iter(chunks_of(X, y, 45, weights))):
        stream = RepresentativeSet(gamma=1.0, subset_size=10).fit_stream(source)
        assert_array_equal(stream.sample_indices_, by_hand.sample_indices_)
        assert_array_equal(stream.weights_, by_hand.weights_)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_scale_is_that_of_all_rows(make, offset):
    X = np.random.default_rng(0).normal(size=(200, 3)) + offset
    X[offset > X] = 0.0
    whole = RepresentativeSet().fit(make(X))
    stream = RepresentativeSet().fit_stream(chunks_of(make(X), None, 30))
    assert stream.gamma_ == pytest.approx(whole.gamma_, rel=1e-9)
    auto = RepresentativeSet(gamma="auto").fit_stream(chunks_of(make(X), None, 30))
    assert auto.gamma_ == pytest.approx(1 / 3)


MOONS = make_moons(30, random_state=0)


@pytest.mark.parametrize(
    ("parameters", "source", "message"),
    [
        ({}, iter(chunks_of(*MOONS, 10)), r"gamma='scale' is .* source can be read only once"),
        ({"gamma": 1.0}, [], "source has no rows"),
        ({"gamma": "scale"}, [], "source has no rows"),
        (
            {"kernel": "precomputed"},
            chunks_of(*MOONS, 10),
            'kernel="precomputed" is the kernel matrix of all rows',
        ),
        (
            {"gamma": 1.0},
            "rows.csv.gz",
            r"'rows\.csv\.gz' is a name: .*, aesvm\.io\.CSVReader\('rows\.csv\.gz', target=",
        ),
        ({"gamma": 1.0}, Path("a.PQ"), r"aesvm\.io\.ParquetReader\('a\.PQ', target="),
        ({"gamma": 1.0}, "X.npy", r"NpyReader\('X\.npy', \"y\.npy\"\)"),
        ({"gamma": 1.0}, "a9a.svm", r"LibsvmReader\('a9a\.svm', n_features="),
        ({"gamma": 1.0}, "a9a", "one of CSVReader, LibsvmReader, NpyReader, ParquetReader"),
        ({"gamma": 1.0}, 5, "source=5 is no iterable"),
        ({"gamma": 1.0}, [MOONS[0]], "for a chunk: it must give triples"),
        ({"gamma": 1.0}, [MOONS], "for a chunk: it must give triples"),
    ],
    ids=[
        "once",
        "empty",
        "empty scale",
        "precomputed",
        *("csv", "parquet", "npy", "libsvm"),
        "name",
        "number",
        "rows",
        "pairs",
    ],
)
def test_what_a_source_must_have_is_said(parameters, source, message):
    with pytest.raises(ValueError, match=message):
        RepresentativeSet(**parameters).fit_stream(source)


def test_a_source_that_breaks_off_leaves_the_estimator_as_it_was():
    X, y = make_moons(60, noise=0.1, random_state=0)

    def broken():
        yield X[:30], y[:30], None
        raise OSError("the disk is gone")

    stream = RepresentativeSet(gamma=1.0).partial_fit(X, y)
    before = dict(vars(stream))
    with pytest.raises(OSError, match="the disk is gone"):
        stream.fit_stream(broken())
    assert vars(stream) == before


class Bytes(list):
    """Chunks that know their bytes, as the readers of files do."""

    n_bytes = 1000

    def __iter__(self):
        outer = self

        class Iterator:
            position = 0

            def __init__(self):
                self.chunks = [outer[at] for at in range(len(outer))]

            def __iter__(self):
                return self

            def __next__(self):
                if not self.chunks:
                    raise StopIteration
                self.position += 1000 // len(outer)
                return self.chunks.pop(0)

        return Iterator()


class Growing(Bytes):
    """More bytes come while it is read."""

    n_bytes = 300


@pytest.mark.parametrize("source", [Bytes, Growing])
def test_progress_is_by_bytes_where_they_are_known(source):
    X, y = make_moons(100, noise=0.1, random_state=0)
    steps = []

    class Recorder:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            steps.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

    model = RepresentativeSet(gamma=1.0).set_callbacks(Recorder())
    model.fit_stream(source(chunks_of(X, y, 25)))
    assert steps.count("bytes") == 100
    assert "read" in steps


@pytest.mark.parametrize(
    ("name", "value"), [("kernel", "linear"), ("gamma", 2.0), ("degree", 2), ("coef0", 1.0)]
)
def test_what_cannot_change_in_a_stream_is_said(name, value):
    stream = RepresentativeSet(gamma=1.0).partial_fit(*MOONS)
    with pytest.raises(ValueError, match=f"{name}=.* when the stream began"):
        stream.set_params(**{name: value}).partial_fit(*MOONS)


def test_a_stream_has_subsets_within_its_pieces():
    with pytest.raises(ValueError, match="subset_size=1000 is larger than partition_size=10"):
        RepresentativeSet(gamma=1.0, partition_size=10).partial_fit(*MOONS)


def test_chunks_without_weight_or_rows_are_passed_over():
    X, y = make_moons(90, noise=0.1, random_state=0)
    chunks = [
        (X[:40], y[:40], np.zeros(40)),
        (X[:0], y[:0], None),
        (X[40:], y[40:], None),
    ]
    stream = RepresentativeSet(gamma=1.0).fit_stream(chunks)
    assert stream.n_seen_ == 90
    assert stream.weights_.sum() == pytest.approx(50.0)
    assert stream.sample_indices_.min() >= 40


def test_many_small_chunks_are_joined_while_they_wait(monkeypatch):
    monkeypatch.setattr(merge_tree, "BUFFER_ROWS", 10_000)
    X, y = make_moons(300, noise=0.1, random_state=0)
    stream = RepresentativeSet(gamma=1.0)
    for row in range(300):
        stream.partial_fit(X[row : row + 1], y[row : row + 1])
    assert len(stream._stream_.tree.buffer) <= 65
    assert_array_equal(stream.select()[0], X)


def test_a_kernel_that_is_an_object_can_be_streamed():
    from sklearn.gaussian_process.kernels import RBF

    X, y = make_moons(60, noise=0.1, random_state=0)
    stream = RepresentativeSet(kernel=RBF(1.0), gamma=1.0).partial_fit(X, y).partial_fit()
    assert stream.weights_.sum() == pytest.approx(60.0)


def test_a_source_that_changes_after_the_pass_for_gamma_is_refused():
    X, y = make_moons(300, noise=0.1, random_state=0)

    class Changing:
        n_passes = 0

        def __iter__(self):
            self.n_passes += 1
            yield from chunks_of(X * self.n_passes, y, 45)

    with pytest.raises(ValueError, match=r'gamma="scale" is .* for the rows that source gave'):
        RepresentativeSet().fit_stream(Changing())


@pytest.mark.parametrize("method", ["partial_fit", "fit_stream"])
def test_rows_without_any_weight_are_no_stream(method):
    X, y = make_moons(30, random_state=0)
    nothing = np.zeros(30)
    rows = (X, y, nothing) if method == "partial_fit" else ([(X, y, nothing)],)
    take_in = getattr(RepresentativeSet(gamma=1.0), method)
    with pytest.raises(ValueError, match="none of the 30 rows so far has a weight"):
        take_in(*rows)


def test_a_chunk_without_rows_of_features_is_refused():
    with pytest.raises(ValueError, match="source gave X=None for a chunk"):
        RepresentativeSet(gamma=1.0).fit_stream([(None, [1], None)])
