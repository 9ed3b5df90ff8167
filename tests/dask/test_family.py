"""Every estimator of the family on a cluster, beside its twins in memory and of scikit-learn."""

from __future__ import annotations

import pickle
from typing import NamedTuple

import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import svm
from sklearn.base import clone
from sklearn.metrics import r2_score

import aesvm
import aesvm.dask
from aesvm.kernels.gamma import Moments
from aesvm.kernels.joint import TargetScale
from tests import oracles
from tests.dask.clusters import lazy

N, GAMMA = 3000, 1.0


class Twin(NamedTuple):
    """An estimator by its name without prefixes, its parameters, and its kind of targets."""

    name: str
    parameters: dict
    learns: str

    def make(self, **parameters):
        own = {"gamma": GAMMA, **self.parameters, **parameters}
        return getattr(aesvm.dask, f"DaskAE{self.name}")(**own)

    def in_memory(self, **parameters):
        return getattr(aesvm, f"AE{self.name}")(gamma=GAMMA, **self.parameters, **parameters)

    def of_sklearn(self):
        return getattr(svm, self.name)(gamma=GAMMA, **self.parameters)

    def values(self, model, X):
        return model.predict(X) if self.learns == "values" else model.decision_function(X)

    def targets(self, rows):
        return {"classes": rows.classes, "values": rows.values, "support": None}[self.learns]


TWINS = {
    twin.name: twin
    for twin in (
        Twin("NuSVC", {"nu": 0.2}, "classes"),
        Twin("SVR", {"C": 5.0, "epsilon": 0.1}, "values"),
        Twin("NuSVR", {"C": 5.0, "nu": 0.3}, "values"),
        Twin("OneClassSVM", {"nu": 0.1}, "support"),
    )
}
each = pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)


class Data(NamedTuple):
    X: np.ndarray
    values: np.ndarray
    classes: np.ndarray
    weights: np.ndarray


def data(n=N, seed=0):
    """A noisy surface, whether it is high, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    weights = rng.uniform(0.2, 2.0, n)
    weights[::7] = 0.0
    return Data(X, y, (y > 0.3).astype(int), weights)


def on_cluster(*arrays, chunks=500):
    return [None if array is None else lazy(array, chunks=chunks)[0] for array in arrays]


def objective(twin, model, X, y, weights):
    """F on all rows, from the fitted attributes and what the formulas of the machines say."""
    K = oracles.kernel(model.support_vectors_, gamma=GAMMA)
    coefs, f = model.dual_coef_[0], twin.values(model, X)
    half, offsets = 0.5 * coefs @ K @ coefs, model._trained_on_["records"]["offsets"][0]
    nu = twin.parameters.get("nu")
    if twin.name == "OneClassSVM":
        return half + nu * weights.sum() * model.intercept_[0] + weights @ np.maximum(0.0, -f)
    if twin.name == "NuSVC":  # the model is divided by rho
        rho = -0.5 * sum(offsets)
        losses = rho * np.maximum(0.0, 1.0 - np.where(y == 1, f, -f))
        return rho**2 * half - nu * weights.sum() * rho + weights @ losses
    costs = twin.parameters["C"] * weights
    epsilon = twin.parameters["epsilon"] if nu is None else model.epsilon_
    of_width = 0.0 if nu is None else nu * costs.sum() * epsilon
    return half + of_width + costs @ np.maximum(0.0, np.abs(f - y) - epsilon)


@pytest.mark.weekly
@each
@pytest.mark.parametrize(("weighted", "refine"), [(True, 0), (False, 2), (True, "auto")])
def test_it_does_as_well_as_its_twins(client, twin, weighted, refine):
    rows, new = data(), data(seed=1)
    y, weights = twin.targets(rows), rows.weights if weighted else None
    model = twin.make(refine=refine).fit(*on_cluster(rows.X, y, weights))
    here = twin.in_memory(refine=refine).fit(rows.X, y, sample_weight=weights)
    exact = twin.of_sklearn().fit(rows.X, y, sample_weight=weights)
    ours, mine, theirs = (twin.values(one, new.X) for one in (model, here, exact))
    allowed = 0.1 if refine == 0 else 0.02  # of the spread of decision values
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < allowed * theirs.std()
    # two rounds in memory are further from the exact model than those on the cluster
    assert np.sqrt(np.mean((ours - mine) ** 2)) < 3 * allowed * theirs.std()
    if twin.learns != "values":
        assert np.mean(model.predict(new.X) == exact.predict(new.X)) > 0.93
    if twin.learns != "support":
        y_new = twin.targets(new)
        assert model.score(new.X, y_new) == pytest.approx(exact.score(new.X, y_new), abs=0.02)
    assert (model.certificate_.rounds > 0) == (refine != 0)
    assert_array_equal(model.support_vectors_, rows.X[model.support_])
    assert model.shape_fit_ == rows.X.shape


@each
@pytest.mark.parametrize("refine", [0, 1])
def test_the_objective_is_that_of_all_rows(client, twin, refine):
    rows = data()
    given = on_cluster(rows.X, twin.targets(rows), rows.weights)
    model = twin.make(refine=refine).fit(*given)
    certificate = model.certify(*given)
    assert certificate == model.certificate_
    expected = objective(twin, model, rows.X, twin.targets(rows), rows.weights)
    assert certificate.objective == pytest.approx(expected, rel=1e-4)
    if certificate.theorem_2_bound is not None:
        bound = certificate.reduced_objective + certificate.theorem_2_bound
        assert certificate.objective <= bound + 1e-4 * abs(bound)  # in single precision
    others = on_cluster(rows.X[::-1], twin.targets(rows), rows.weights)
    with pytest.raises(ValueError, match=r"^X is not the same as when the model was trained"):
        model.certify(*others)
    with pytest.raises(ValueError, match=r"tol=0.1 was 0.001 when the model was trained"):
        model.set_params(tol=0.1).certify(*given)


def model_on(twin, rows):
    model = twin.make(refine=1, split_every=2, gamma="scale")
    return model.fit(*on_cluster(rows.X, twin.targets(rows), rows.weights, chunks=400))


def test_the_number_of_workers_changes_nothing(client, one_worker):
    rows = data(1000)
    two = [model_on(twin, rows) for twin in TWINS.values()]
    with distributed.Client(one_worker):
        one = [model_on(twin, rows) for twin in TWINS.values()]
    for ours, theirs in zip(two, one, strict=True):
        for name in ("gamma_", "support_", "dual_coef_", "intercept_"):
            assert_array_equal(getattr(ours, name), getattr(theirs, name))


@each
def test_sparse_rows_give_the_same(client, twin):
    rows = data(1500)
    X = np.where(np.abs(rows.X) < 0.3, 0.0, rows.X)
    lazy_X, y = on_cluster(X, twin.targets(rows))
    sparse = lazy_X.map_blocks(sp.csr_array, dtype=float)
    ours = twin.make(refine=1).fit(sparse, y)
    dense = twin.make(refine=1).fit(lazy_X, y)
    assert sp.issparse(ours.support_vectors_)
    expected = twin.values(dense, X)
    found = twin.values(ours, sparse).compute()
    assert_allclose(found, expected, rtol=0, atol=0.02 * expected.std())
    assert_allclose(found, twin.values(ours, sp.csr_array(X)), rtol=0, atol=1e-9)


@each
def test_dataframes_with_empty_and_weightless_partitions(client, twin, tmp_path):
    rows = data(2000)
    frame = pd.DataFrame({"a": rows.X[:, 0], "b": rows.X[:, 1]}, index=np.arange(2000) * 10)
    frame = frame.assign(y=rows.values, c=rows.classes, w=rows.weights)
    frame.iloc[500:1000, -1] = 0.0
    frame["kept"] = np.arange(2000) >= 500
    X_of, kept = ["a", "b"], frame.iloc[500:]
    collection = dd.from_pandas(frame, chunksize=500)
    collection = collection[collection["kept"]]  # nothing of the first partition is left
    y_of = {"classes": "c", "values": "y", "support": None}[twin.learns]
    features, y = collection[X_of], None if y_of is None else collection[y_of]
    model = twin.make(refine=1).fit(features, y, collection["w"])
    exact = twin.of_sklearn().fit(
        kept[X_of].to_numpy(), None if y_of is None else kept[y_of], sample_weight=kept["w"]
    )
    expected = twin.values(exact, kept[X_of].to_numpy())
    found = twin.values(model, features)
    assert isinstance(found, dd.Series)
    assert found.divisions == features.divisions
    pd.testing.assert_index_equal(found.compute().index, kept.index)
    assert np.sqrt(np.mean((found.compute() - expected) ** 2)) < 0.05 * expected.std()
    labels = model.predict(features)
    assert isinstance(labels, dd.Series)
    assert labels.compute().dtype == labels.dtype
    assert_allclose(labels.compute(), model.predict(kept[X_of]), rtol=0, atol=1e-9)
    if y is not None:
        score = model.score(features, y, collection["w"])
        assert score == pytest.approx(model.score(kept[X_of], kept[y_of], kept["w"]))
    assert model.feature_names_in_.tolist() == X_of
    model.save(tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), aesvm.load(tmp_path / "model")):
        assert_array_equal(again.predict(kept[X_of]), model.predict(kept[X_of]))
        assert again.certificate_ == model.certificate_


def test_outliers_are_told_lazily(client):
    (rows,) = on_cluster(data(1500).X)
    model = TWINS["OneClassSVM"].make(refine=0).fit(rows, y="ignored")
    values, scores, labels = (
        ask(rows) for ask in (model.decision_function, model.score_samples, model.predict)
    )
    for found in (values, scores, labels):
        assert isinstance(found, da.Array)
        assert found.chunks == (rows.chunks[0],)
    assert_allclose(scores.compute(), values.compute() + model.offset_)
    assert_array_equal(labels.compute(), np.where(values.compute() < 0.0, -1, 1))
    assert labels.dtype == model.predict(rows.compute()).dtype
    assert np.mean(labels.compute() == -1) == pytest.approx(0.1, abs=0.05)
    assert not hasattr(model, "score")


@pytest.mark.parametrize("weighted", [False, True])
def test_r_squared_is_that_of_all_rows(client, weighted):
    rows = data(1500)
    X, y, weights = on_cluster(rows.X, rows.values, rows.weights if weighted else None, chunks=400)
    model = TWINS["SVR"].make(refine=0).fit(X, y, weights)
    predicted = model.predict(X).compute()
    given = rows.weights if weighted else None
    expected = r2_score(rows.values, predicted, sample_weight=given)
    assert model.score(X, y, weights) == pytest.approx(expected, rel=1e-9)
    far = y + 1e6  # moments are added up about their means
    expected = r2_score(rows.values + 1e6, predicted, sample_weight=given)
    assert model.score(X, far, weights) == pytest.approx(expected, rel=1e-6)
    assert model.score(X, y * 0.0) == 0.0


def test_the_unit_of_targets_is_that_of_all_rows(client):
    """Partitions that lie apart would each have a unit of their own."""
    rows = data(2000)
    X, y = np.sort(rows.X, axis=0), np.sort(rows.values)
    weights = np.linspace(0.0, 3.0, 2000)
    pieces = [Moments.of(y[at], weights[at]) for at in np.split(np.arange(2000), 4)]
    whole = TargetScale.of(y, weights)
    merged = TargetScale.from_moments(pieces[0] | pieces[1] | Moments() | pieces[2] | pieces[3])
    assert_allclose(merged, whole, rtol=1e-12)
    assert whole.center == pytest.approx(np.average(y, weights=weights))
    model = TWINS["SVR"].make(refine=0, hull_tol=0.01).fit(*on_cluster(X, y, weights))
    chosen = model.representative_set_
    joint = oracles.kernel(X, gamma=GAMMA) + np.multiply.outer(*[whole.scaled(y)] * 2)
    some = np.flatnonzero(weights)[::61]
    apart = oracles.hull_distances(joint, some, chosen.sample_indices_)
    assert (apart <= chosen.max_residual_ + 1e-6).all()
    assert chosen.max_residual_ <= 0.01
    assert chosen.weights_.sum() == pytest.approx(weights.sum(), rel=1e-12)


def test_targets_that_are_all_the_same_have_a_unit():
    for value in (0.1, -1e100, 0.0):
        merged = Moments()
        for n in (1, 7, 1000):
            merged |= Moments.of(np.full(n, value), np.linspace(0.3, 0.7, n))
        assert TargetScale.from_moments(merged).spread == pytest.approx(abs(value) or 1.0)


def test_targets_that_are_all_the_same_are_predicted(client):
    X, y = on_cluster(data(1000).X, np.full(1000, 0.1))
    for name, refine in (("SVR", 0), ("SVR", 1), ("SVR", "auto"), ("NuSVR", 2)):
        model = TWINS[name].make(refine=refine).fit(X, y)
        assert_allclose(model.predict(X).compute(), 0.1)
        assert model.certify(X, y).objective == pytest.approx(0.0, abs=1e-9)
        assert model.score(X, y) == pytest.approx(1.0)


def test_nu_must_be_feasible_for_the_weights_of_all_rows(client):
    rows = data(2000)
    heavy = np.where(rows.classes == 1, 20.0, 1.0)
    X, y, weights = on_cluster(rows.X, rows.classes, heavy)
    most = 2.0 * heavy[rows.classes == 0].sum() / heavy.sum()
    model = TWINS["NuSVC"].make(refine=0)
    for nu in (0.95 * most, most):
        model.set_params(nu=nu).fit(X, y, weights)
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        model.set_params(nu=1.05 * most).fit(X, y, weights)
    with pytest.raises(ValueError, match="specified nu is infeasible"):
        model.set_params(class_weight={1: 20.0}).fit(X, y)
    model.set_params(class_weight="balanced", nu=0.9).fit(X, y)


def wrong(rows):
    X, y, classes = on_cluster(rows.X, rows.values, rows.classes)
    bad = rows.values.copy()
    bad[700] = np.nan
    names = np.where(rows.classes == 1, "high", "low")
    nothing = da.zeros(len(rows.X), chunks=500)
    return {
        "no values": ("SVR", (X, None), "DaskAESVR requires y .* pass the values to predict"),
        "no classes": ("NuSVC", (X, None), "DaskAENuSVC requires y .* pass the classes"),
        "NaN": ("NuSVR", (X, *on_cluster(bad)), "in partition 1 of X: Input y contains NaN"),
        "names": ("SVR", (X, *on_cluster(names)), "in partition . of X: "),
        "continuous": ("NuSVC", (X, y), "in partition . of X: Unknown label type"),
        "one class": ("NuSVC", (X, classes * 0), r"y has rows of 1 class \(\[0\]\)"),
        "no weight": ("SVR", (X, y, nothing), "X has no row of non-zero weight"),
        "nor here": ("OneClassSVM", (X, None, nothing), "X has no row of non-zero weight"),
    }


@pytest.mark.parametrize("what", wrong(data(1000)))
def test_what_cannot_be_is_said(client, what):
    name, given, message = wrong(data(1000))[what]
    with pytest.raises(ValueError, match=message):
        TWINS[name].make(refine=0).fit(*given)
    with pytest.raises(ValueError, match='refine="exact" needs all rows in one place'):
        TWINS[name].make(refine="exact").fit(*wrong(data(1000))["one class"][1])


@each
def test_parameters_are_those_of_the_twin_and_two_more(twin):
    ours = twin.make()
    mine = ours.get_params()
    assert mine.pop("split_every") == 16
    assert mine.pop("client") is None
    assert mine == twin.in_memory().get_params()
    assert clone(ours).get_params() == ours.get_params()
    assert not hasattr(ours, "partial_fit")
    with pytest.raises(TypeError, match="gama"):
        twin.make(gama=1.0)
