"""Rows on a cluster: two worker processes give what one place gives, and survive a death."""

from __future__ import annotations

import os
import pickle
import signal
from functools import partial

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning

from aesvm import AESVC, RepresentativeSet
from aesvm.dask import DaskAESVC, DaskRepresentativeSet
from tests import children, oracles
from tests.dask.clusters import (
    AtStep,
    cluster_of,
    has_forgotten_all,
    is_idle,
    lazy,
    moons,
    wait_until,
)


def fitted(model, *, of=("support_", "dual_coef_", "intercept_", "support_vectors_")):
    return [getattr(model, name) for name in of]


def assert_nothing_is_left(client):
    """The scheduler knows of no task, once it had the time to forget."""
    wait_until(lambda: has_forgotten_all(client), "scheduler that has forgotten all tasks")


def test_without_a_client_it_says_how_to_get_one(monkeypatch):
    def nobody(**_):
        raise ValueError("no clients found")

    monkeypatch.setattr(distributed.Client, "current", nobody)  # another test's may be there
    with pytest.raises(ValueError, match=r"there is no dask.distributed client: Client\(\)"):
        DaskAESVC().fit(*lazy(*moons(2000)))


@pytest.mark.weekly
@pytest.mark.parametrize("refine", [0, 1, "auto"])
def test_it_is_as_accurate_as_in_one_place(client, refine):
    X, y = make_moons(12_000, noise=0.3, random_state=0)
    X_new, y_new = make_moons(10_000, noise=0.3, random_state=1)
    model = DaskAESVC(gamma=2.0, C=10.0, refine=refine).fit(*lazy(X, y))
    here = AESVC(gamma=2.0, C=10.0).fit(X, y)
    assert abs(model.score(X_new, y_new) - here.score(X_new, y_new)) < 0.01
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert (model.certificate_.rounds > 0) == (refine != 0)


def test_many_classes_with_names_and_weights(client):
    X, y = load_digits(return_X_y=True)
    X = (X / 16.0).astype(np.float32)
    names = np.array(["zero", "one", "two", "three", "four", "5", "6", "7", "8", "9"])[y]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    rows = lazy(X, names, weights, chunks=400)
    model = DaskAESVC(gamma=0.05, refine=1, class_weight="balanced").fit(*rows)
    here = AESVC(gamma=0.05, class_weight="balanced").fit(X, names, sample_weight=weights)
    assert_allclose(model.class_weight_, here.class_weight_)
    assert np.mean(model.predict(X) == here.predict(X)) > 0.97
    assert model.classes_.tolist() == here.classes_.tolist()
    assert model.decision_function(rows[0]).shape == (len(y), 10)
    assert_allclose(model.decision_function(rows[0]).compute(), model.decision_function(X))
    assert model.score(*rows) == pytest.approx(model.score(X, names, weights))


@pytest.mark.parametrize("weighted", [False, True])
def test_no_weight_is_lost_and_the_bound_holds(client, weighted):
    X, y = make_moons(800, noise=0.1, random_state=0)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 800)
    weights[::5] = 0.0
    rows = lazy(X, y, weights, chunks=100)[: 3 if weighted else 2]
    given = weights if weighted else np.ones(800)
    chosen = DaskRepresentativeSet(gamma=1.0, hull_tol=0.01, split_every=3).fit(*rows)
    assert chosen.weights_.sum() == pytest.approx(given.sum(), rel=1e-12)
    assert 0 < chosen.max_residual_ <= chosen.hull_tol
    K = oracles.kernel(X, gamma=1.0)
    for c in (0, 1):
        members = chosen.sample_indices_[y[chosen.sample_indices_] == c]
        own = chosen.weights_[y[chosen.sample_indices_] == c]
        assert own.sum() == pytest.approx(given[y == c].sum(), rel=1e-12)
        some = np.flatnonzero((y == c) & (given > 0))[::31]
        assert (oracles.hull_distances(K, some, members) <= chosen.max_residual_ + 1e-7).all()
    assert len(chosen.sample_indices_) < 300
    X_small, y_small, own = chosen.select()
    assert_array_equal(X_small, X[chosen.sample_indices_])
    assert_array_equal(y_small, y[chosen.sample_indices_])
    assert_array_equal(own, chosen.weights_)


def test_the_number_of_workers_changes_nothing(client, one_worker):
    X, y = moons()
    two = DaskAESVC(gamma=2.0, refine=1, split_every=2).fit(*lazy(X, y))
    with distributed.Client(one_worker):
        one = DaskAESVC(gamma=2.0, refine=1, split_every=2).fit(*lazy(X, y))
    for ours, theirs in zip(fitted(two), fitted(one), strict=True):
        assert_array_equal(ours, theirs)


def made(block_info=None):
    """A partition that can be made again."""
    number = block_info[None]["chunk-location"][0]
    X, y = make_moons(1000, noise=0.25, random_state=number)
    return np.column_stack([X, y])


def recomputable(n=8):
    rows = da.map_blocks(made, chunks=((1000,) * n, (3,)), dtype=float, meta=np.empty((0, 0)))
    return rows[:, :2], rows[:, 2].astype(int)


@pytest.fixture(scope="module")
def of_workers_that_live(client):
    return DaskAESVC(gamma=2.0, refine=1, client=client).fit(*recomputable())


@pytest.mark.parametrize(
    ("when", "all_done"),
    [
        ("reduce", False),
        pytest.param("reduce", True, marks=pytest.mark.weekly),
        pytest.param("look", False, marks=pytest.mark.weekly),
        pytest.param("stratify", True, marks=pytest.mark.weekly),
    ],
)
def test_a_worker_that_is_killed_changes_nothing(of_workers_that_live, mortal, when, all_done):
    """Killed as soon as one task is done, or once all are, and are lost with it."""
    mortal.wait_for_workers(2)

    def kill():
        if all_done:
            wait_until(lambda: is_idle(mortal), "end of all tasks")
        pids = mortal.run(os.getpid)
        held = {worker: len(what) for worker, what in mortal.has_what().items()}
        victim = max(held, key=held.get)
        assert held[victim] > 0
        os.kill(pids[victim], signal.SIGKILL)
        if all_done:
            wait_until(lambda: victim not in mortal.has_what(), "scheduler that has noticed")

    at_step = AtStep(when, kill)
    model = DaskAESVC(gamma=2.0, refine=1, client=mortal).set_callbacks(at_step)
    model.fit(*recomputable())
    assert at_step.done
    assert_nothing_is_left(mortal)
    for ours, theirs in zip(fitted(model), fitted(of_workers_that_live), strict=True):
        assert_array_equal(ours, theirs)


def broken(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        raise OSError("the disk is on fire")
    return block


@pytest.mark.parametrize("gamma", [1.0, "scale"])
def test_an_error_in_a_partition_names_it_and_leaves_nothing(client, gamma):
    X, y = moons()
    rows, classes = lazy(X, y)
    model = DaskAESVC(gamma=gamma).fit(rows, classes)
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match=r"partition 3 of X failed: OSError: the disk is on"):
        model.fit(rows.map_blocks(broken, dtype=float), classes)
    X[2500, 1] = np.nan
    with pytest.raises(ValueError, match=r"in partition 2 of X: Input X contains NaN"):
        model.fit(*lazy(X, y))
    with pytest.raises(ValueError, match=r"in partition 5 of X: .*inconsistent numbers of"):
        model.fit(rows, unknown(y[:-1]))
    assert vars(model) == before
    del classes, rows
    assert_nothing_is_left(client)


def unknown(array, chunks=1000):
    """A dask array that does not know how many rows its chunks have."""
    columns = [f"x{at}" for at in range(array.shape[1])] if array.ndim == 2 else None
    frame = pd.DataFrame(array, columns=columns) if array.ndim == 2 else pd.Series(array)
    return dd.from_pandas(frame, chunksize=chunks, sort=False).to_dask_array()


def test_no_key_is_left_after_a_fit_or_an_interrupt(client):
    rows, classes = lazy(*moons())
    DaskRepresentativeSet(gamma=1.0).fit(rows, classes)
    assert_nothing_is_left(client)
    DaskAESVC(gamma="scale", refine=2).fit(rows, classes)
    assert_nothing_is_left(client)

    def interrupt():
        raise KeyboardInterrupt

    for step in ("reduce", "look", "stratify"):
        with pytest.raises(KeyboardInterrupt):
            DaskAESVC(gamma=1.0, refine=1).set_callbacks(AtStep(step, interrupt)).fit(rows, classes)
        assert_nothing_is_left(client)


def test_dataframes_and_unknown_chunks_give_the_same(client):
    X, y = moons()
    frame = pd.DataFrame(X, columns=["width", "height"])
    rows = dd.from_pandas(frame, chunksize=1000, sort=False)
    classes = dd.from_pandas(pd.Series(y), chunksize=1000, sort=False)
    assert rows.npartitions == 6
    by_frame = DaskAESVC(gamma=1.0, refine=1).fit(rows, classes)
    by_array = DaskAESVC(gamma=1.0, refine=1).fit(*lazy(X, y))
    by_unknown = DaskAESVC(gamma=1.0, refine=1).fit(unknown(X), unknown(y))
    mixed = DaskAESVC(gamma=1.0, refine=1).fit(rows, da.from_array(y, chunks=1000))
    for model in (by_frame, by_unknown, mixed):
        for ours, theirs in zip(fitted(model), fitted(by_array), strict=True):
            assert_array_equal(ours, theirs)
    assert by_frame.feature_names_in_.tolist() == ["width", "height"]
    assert_array_equal(by_frame.predict(rows).compute(), by_array.predict(X))
    assert by_frame.score(rows, classes) == by_array.score(X, y)
    assert by_unknown.score(unknown(X), unknown(y)) == by_array.score(X, y)
    with pytest.raises(ValueError, match="feature names"):
        by_frame.predict(rows.rename(columns={"width": "depth"}))
    with pytest.raises(ValueError, match="X has 3 features, but DaskAESVC is expecting 2"):
        by_array.predict(da.zeros((10, 3)))


def test_prediction_is_lazy_and_of_the_kind_of_the_rows(client):
    X, y = make_blobs(3000, centers=3, cluster_std=3.0, random_state=0)
    rows, classes = lazy(X, y)
    model = DaskAESVC(refine=1).fit(rows.rechunk((1000, 1)), classes)
    assert model.gamma_ == pytest.approx(AESVC().fit(X, y).gamma_)
    labels, values = model.predict(rows), model.decision_function(rows)
    assert isinstance(labels, da.Array)
    assert labels.chunks == (rows.chunks[0],)
    assert labels.dtype == y.dtype
    assert values.chunks == (rows.chunks[0], (3,))
    assert_array_equal(labels.compute(), model.predict(X))
    assert_allclose(values.compute(), model.decision_function(X), atol=1e-12)
    assert isinstance(model.predict(X), np.ndarray)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("names", [["left", "right"], ["a", "b", "c"], [0, 1, 2]])
def test_a_dataframe_gives_series_with_its_index(client, names):
    X, y = make_blobs(3000, centers=len(names), cluster_std=3.0, random_state=0)
    frame = pd.DataFrame(X, columns=["width", "height"], index=np.arange(3000) * 10)
    frame["class"] = np.array(names)[y]
    rows = dd.from_pandas(frame, npartitions=3)
    features = rows[["width", "height"]]
    model = DaskAESVC(gamma=1.0, refine=0).fit(features, rows["class"])
    labels = model.predict(features)
    assert isinstance(labels, dd.Series)
    assert labels.divisions == rows.divisions
    found = rows.assign(label=labels).compute()
    pd.testing.assert_index_equal(found.index, frame.index)
    assert found["label"].dtype == labels.dtype
    assert_array_equal(found["label"], model.predict(frame[["width", "height"]]))
    assert model.score(features, rows["class"]) == (found["label"] == found["class"]).mean()
    none = features[features["width"] > 1e9]
    assert len(model.predict(none).compute()) == 0
    for shape in ("ovr", "ovo"):
        values = model.set_params(decision_function_shape=shape).decision_function(features)
        assert values.divisions == rows.divisions
        expected = model.decision_function(frame[["width", "height"]])
        assert_allclose(values.compute(), expected, rtol=0, atol=1e-9)
        assert list(values.compute().index) == list(frame.index)
        if len(names) == 2:
            assert isinstance(values, dd.Series)
        elif shape == "ovr":
            assert values.columns.tolist() == names
        else:
            one, two, three = names
            assert values.columns.tolist() == [
                f"{one} or {two}",
                f"{one} or {three}",
                f"{two} or {three}",
            ]


def test_names_of_features_are_compared_wherever_rows_come(client):
    X, y = moons(2000)
    rows = dd.from_pandas(pd.DataFrame(X, columns=["a", "b"]), npartitions=2)
    classes = dd.from_pandas(pd.Series(y), npartitions=2)
    model = DaskAESVC(gamma=1.0, refine=0).fit(rows, classes)
    swapped = rows[["b", "a"]]
    for use in (model.score, model.certify, lambda X, y: model.predict(X)):
        with pytest.raises(ValueError, match="feature names"):
            use(swapped, classes)
    with pytest.raises(ValueError, match="X has no row of non-zero weight"):
        model.score(rows, classes, classes * 0)


def sparse_block(block):
    return sp.csr_array(block)


def test_sparse_partitions(client):
    X, y = moons(2000)
    X[np.abs(X) < 0.4] = 0.0
    rows, classes = lazy(X, y, chunks=500)
    sparse = rows.map_blocks(sparse_block, dtype=float)
    dense = DaskRepresentativeSet(gamma=1.0).fit(rows, classes)
    chosen = DaskRepresentativeSet(gamma=1.0).fit(sparse, classes)
    assert sp.issparse(chosen.select()[0])
    # which of two rows is chosen may be decided by the last digit of a kernel value
    assert len(chosen.sample_indices_) == pytest.approx(len(dense.sample_indices_), rel=0.05)
    common = np.intersect1d(chosen.sample_indices_, dense.sample_indices_)
    assert len(common) > 0.9 * len(dense.sample_indices_)
    assert chosen.max_residual_ <= chosen.hull_tol
    assert chosen.weights_.sum() == pytest.approx(2000, rel=1e-12)


def test_partitions_may_be_empty_without_weight_or_of_one_class(client):
    X, y = moons(4000)
    order = np.argsort(y, kind="stable")
    X, y, weights = X[order], y[order], np.ones(4000)
    weights[1000:2000] = 0.0
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "w": weights})
    rows = dd.from_pandas(frame, chunksize=1000, sort=False)
    rows = rows[(rows["y"] == 1) | (rows["a"] > 1.0e9) | (rows["w"] == 0.0)]  # the first is empty
    model = DaskAESVC(gamma=1.0, refine=1)
    with pytest.raises(ValueError, match=r"y has rows of 1 class \(\[1\]\)"):
        model.fit(rows[["a", "b"]], rows["y"], rows["w"])
    model.fit(rows[["a", "b"]], rows[["y"]], rows["w"] + 1.0)
    labels = model.predict(rows[["a", "b"]]).compute()
    assert_array_equal(labels, model.predict(rows[["a", "b"]].compute()))
    truth, given = rows["y"].compute(), rows["w"].compute() + 1.0
    accuracy = np.average(labels == truth, weights=given)
    assert model.score(rows[["a", "b"]], rows[["y"]], rows["w"] + 1.0) == pytest.approx(accuracy)
    here = AESVC(gamma=1.0).fit(X[1000:], y[1000:], sample_weight=weights[1000:] + 1.0)
    assert np.mean(model.predict(X) == here.predict(X)) > 0.98
    assert model.shape_fit_ == (3000, 2)
    with pytest.raises(ValueError, match="X has no row of non-zero weight"):
        model.fit(rows[["a", "b"]], rows["y"], rows["w"] * 0.0)


def fit_inside():
    return fitted(DaskAESVC(gamma=2.0, refine=1).fit(*recomputable(3)))


@pytest.mark.weekly
def test_it_may_be_fitted_inside_a_task():
    with cluster_of(1) as cluster, distributed.Client(cluster) as own:
        outside = fit_inside()
        inside = own.submit(fit_inside).result(timeout=children.LIMIT)
    for ours, theirs in zip(inside, outside, strict=True):
        assert_array_equal(ours, theirs)


@pytest.mark.parametrize("refine", [0, 1])
def test_the_objective_of_all_rows_is_certified_where_they_are(client, refine):
    X, y = moons(4000)
    rows = lazy(X, y)
    model = DaskAESVC(gamma=2.0, C=5.0, refine=refine).fit(*rows)
    assert (model.certificate_.objective is None) == (refine == 0)
    certificate = model.certify(*rows)
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    K = oracles.kernel(model.support_vectors_, gamma=2.0)
    norm = model.dual_coef_[0] @ K @ model.dual_coef_[0]
    objective = 0.5 * norm + 5.0 * np.maximum(0.0, 1.0 - margins).sum()
    assert certificate.objective == pytest.approx(objective, rel=1e-4)
    bound = certificate.reduced_objective + certificate.theorem_2_bound
    assert certificate.objective <= bound * (1 + 1e-6)
    assert certificate == model.certificate_
    assert_nothing_is_left(client)
    for others, message in (
        (lazy(X[:3000], y[:3000]), "^X has 3,000 rows, and had 4,000 when the model was trained"),
        (lazy(X[::-1], y), "^X is not the same as when the model was trained"),
        (lazy(X, 1 - y), "^y is not the same as"),
        (lazy(X, y, np.full(4000, 2.0)), "^sample_weight is not the same as"),
        (lazy(X, y, chunks=500), "^X, y and sample_weight are not .* in the same partitions"),
    ):
        with pytest.raises(ValueError, match=message):
            model.certify(*others)
    with pytest.raises(ValueError, match=r"C=1.0 was 5.0 when the model was trained"):
        model.set_params(C=1.0).certify(*rows)


def test_a_budget_is_kept_on_the_workers(client):
    rows = lazy(*moons())
    with pytest.raises(ValueError, match="memory_budget=2,000 bytes cannot hold the set"):
        DaskRepresentativeSet(gamma=1.0, memory_budget=2000).fit(*rows)
    with pytest.warns(UserWarning, match="memory_budget=5000 cannot hold the set"):
        chosen = DaskRepresentativeSet(gamma=1.0, memory_budget=5000, on_overflow="loosen").fit(
            *rows
        )
    assert chosen.max_residual_ > 1e-3
    assert chosen.weights_.sum() == pytest.approx(6000, rel=1e-12)
    small = DaskAESVC(gamma=1.0, refine=1, memory_budget=30_000)
    with pytest.raises(ValueError, match="cannot hold what a round gathers"):
        small.fit(*rows)
    with pytest.warns(UserWarning, match="The model has 0 rounds"):
        small.set_params(on_overflow="loosen").fit(*rows)
    assert small.certificate_.rounds == 0
    assert small.score(*rows) > 0.9
    assert small.certify(*rows).objective > 0
    with pytest.warns(UserWarning, match="memory_budget=1500 cannot hold the set"):
        small.set_params(refine=0, memory_budget=1500).fit(*rows)


def mixed_labels(block, block_info=None):
    first = block_info is None or block_info[0]["chunk-location"][0] == 0
    return block.astype(str) if first else block


def wrong(X, y):
    """What cannot be: an estimator, what it is fitted on, and what it says."""
    rows, classes = lazy(X, y)
    mixed = classes.map_blocks(mixed_labels, dtype=object)
    exact = 'refine="exact" needs all rows in one place'
    given = 'kernel="precomputed" is the kernel matrix of all rows'
    sizes = {"subset_size": 10, "partition_size": 5}
    groups = {"groups": classes}
    return {
        "X here": (DaskAESVC(), (X, y), "X is a ndarray: pass a dask array or a dask dataframe"),
        "y here": (DaskAESVC(), (rows, y), "y is a ndarray: pass a dask array"),
        "no y": (DaskAESVC(), (rows, None), "the target y is None"),
        "short y": (DaskAESVC(), (rows, classes[:1000]), "X has 2,000 rows, and y 1,000"),
        "partitions": (DaskAESVC(), (unknown(X), unknown(y, 500)), "X has 2 partitions, and y 4"),
        "exact": (DaskAESVC(refine="exact"), (rows, classes), exact),
        "dimensions": (DaskAESVC(), (classes, classes), "X has 1 dimensions"),
        "split_every": (
            DaskAESVC(split_every=1),
            (rows, classes),
            r"'split_every' parameter of DaskAESVC must be",
        ),
        "precomputed": (DaskAESVC(kernel="precomputed"), (rows, classes), given),
        "sizes": (DaskAESVC(**sizes), (rows, classes), r"^subset_size=10 is larger than"),
        "kinds of classes": (DaskAESVC(), (rows, mixed), "classes of different kinds"),
        "combinations": (
            DaskRepresentativeSet(keep_combinations=True),
            (rows, classes),
            "keep_combinations=True",
        ),
        "groups": (
            partial(DaskRepresentativeSet().fit, **groups),
            (rows, classes),
            "groups must be",
        ),
    }


@pytest.mark.parametrize("what", wrong(*moons(2000)))
def test_what_cannot_be_is_said(client, what):
    model, data, message = wrong(*moons(2000))[what]
    with pytest.raises(ValueError, match=message):
        getattr(model, "fit", model)(*data)


def test_rows_on_a_cluster_are_no_stream():
    assert not hasattr(DaskAESVC(gamma=1.0), "partial_fit")
    assert not hasattr(DaskRepresentativeSet(gamma=1.0), "fit_stream")


def test_parameters_are_those_of_the_estimator_and_two_more():
    for ours, theirs in ((DaskAESVC, AESVC), (DaskRepresentativeSet, RepresentativeSet)):
        mine = ours().get_params()
        assert mine.pop("split_every") == 16
        assert mine.pop("client") is None
        assert mine == theirs().get_params()
        copy = clone(ours(gamma=3.0, split_every=4))
        assert (copy.gamma, copy.split_every) == (3.0, 4)
        assert repr(copy) == f"{ours.__name__}(gamma=3.0, split_every=4)"
        with pytest.raises(TypeError, match="gama"):
            ours(gama=1.0)


@pytest.mark.parametrize("how", [{}, {"refine": 1}, {"max_vectors": 50}])
def test_a_time_limit_ends_what_follows_the_first_pass(client, how):
    X, y = make_moons(4000, noise=0.3, random_state=0)
    model = DaskAESVC(gamma=2.0, C=10.0, hull_tol=1e-2, time_limit=0, **how)
    with pytest.warns(ConvergenceWarning, match="time_limit=0 ended the fit before it was done"):
        model.fit(*lazy(X, y))
    assert model.certificate_.n_rows == 4000
    assert model.certificate_.rounds == 0
    assert "time_limit=0 ended the fit" in model.certificate_.plan
    assert model.score(X, y) > 0.8
    assert_nothing_is_left(client)
