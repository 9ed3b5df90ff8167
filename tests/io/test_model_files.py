"""Models written to files and read again; files that are no such, or no longer."""

from __future__ import annotations

import json
import pickle
import re
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

import aesvm
import aesvm.model_selection
from aesvm import AESVC, AESVR, TimeLimit
from aesvm.io.model_file import OURS
from aesvm.model_selection import AEGridSearchCV, calibrated
from aesvm.runtime.scikit_learn import VERSION
from aesvm.tabular import DateParts, LevelNames, TableColumns
from tests.io.fitted_models import MODELS, SETS, decide, model, other_rows, rows


@pytest.fixture(params=MODELS)
def fitted(request):
    return model(request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.aesvm"


def loaded(fitted, path):
    aesvm.save(fitted, path)
    return aesvm.load(path)


def same(one, other):
    """Whether two values are the same, and of the same types all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and _equal(one, other)
    if sp.issparse(one):
        parts = ("data", "indices", "indptr")
        return one.shape == other.shape and all(
            same(getattr(one, part), getattr(other, part)) for part in parts
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dict__"):
        return same(vars(one), vars(other))
    return one == other or (one != one and other != other)


def _equal(one, other):
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def test_a_model_decides_after_it_was_read_as_before(fitted, path):
    others = other_rows(fitted)
    again = loaded(fitted, path)
    np.testing.assert_array_equal(decide(again, others), decide(fitted, others))
    np.testing.assert_array_equal(again.predict(others), fitted.predict(others))
    assert again.predict(others).dtype == fitted.predict(others).dtype


def test_all_that_was_fitted_comes_back(fitted, path):
    again = loaded(fitted, path)
    assert same(vars(again), vars(fitted))
    assert same(again.get_params(), fitted.get_params())
    assert same(again.certificate_, fitted.certificate_)
    assert same(clone(again).get_params(), fitted.get_params())


@pytest.mark.parametrize("name", SETS)
def test_sets_come_back(name, path):
    assert same(vars(loaded(model(name), path)), vars(model(name)))


def test_a_model_that_was_read_is_certified_and_compressed_as_before(path):
    X, two, *_ = rows()
    fitted = AESVC(gamma=0.2, refine=1).fit(X, two)
    again = loaded(fitted, path)
    assert same(again.compress(10).dual_coef_, fitted.compress(10).dual_coef_)
    assert again.certify(X, two) == fitted.certify(X, two)


@pytest.mark.parametrize("classes", [("keys", "values"), ("noise", "record")])
def test_classes_may_be_called_as_the_format_calls_its_parts(classes, path):
    X = rows()[0]
    y = np.array(classes)[(X[:, 0] > np.median(X[:, 0])).astype(int)]
    fitted = AESVC(gamma=1.0, class_weight=dict(zip(classes, (1.0, 2.0), strict=True))).fit(X, y)
    for again in (loaded(fitted, path), pickle.loads(pickle.dumps(fitted))):
        assert again.class_weight == fitted.class_weight
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_a_stream_goes_on_after_it_was_read(path):
    X, two, *_ = rows()
    fitted = AESVC(gamma=0.2).partial_fit(X, two, classes=[-1, 1])
    again = loaded(fitted, path)
    more = X + 0.1
    for one in (fitted, again):
        one.partial_fit(more, two)
        one.partial_fit()
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    chunks = [(X, two, None), (more, two, None)]
    assert again.certify_stream(chunks) == fitted.certify_stream(chunks)


def test_an_array_that_is_two_things_is_one_when_it_was_read(path):
    set_of_classes = loaded(model("stream"), path).representative_set_
    assert set_of_classes._rows_.groups is set_of_classes._rows_.targets


def test_names_of_features_are_checked_after_reading(path):
    pandas = pytest.importorskip("pandas")
    X, two, *_ = rows()
    frame = pandas.DataFrame(X, columns=list("abcde"))
    again = loaded(AESVC().fit(frame, two), path)
    assert again.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[list("edcba")])


def _table():
    pandas = pytest.importorskip("pandas")
    X, two, _, values, others = rows()
    frames = []
    for one in (X, others):
        frame = pandas.DataFrame(one.copy(), columns=list("abcde"))
        frame["town"] = np.where(one[:, 1] > 0.0, "Ulm", np.where(one[:, 2] > 0.0, "Bonn", None))
        frame.loc[::7, "a"] = np.nan
        frames.append(frame)
    return frames[0], two, values, frames[1]


def _columns():
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    towns = make_pipeline(
        SimpleImputer(strategy="most_frequent"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5),
    )
    return ColumnTransformer([("numbers", numbers, list("abcde")), ("towns", towns, ["town"])])


PIPELINES: dict[str, Callable] = {
    **{
        scaler.__name__: lambda X, two, values, scaler=scaler: make_pipeline(scaler(), AESVC()).fit(
            X, two
        )
        for scaler in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
    },
    "FunctionTransformer": lambda X, two, values: make_pipeline(
        FunctionTransformer(np.arctan), AESVC()
    ).fit(X, two),
    "TransformedTargetRegressor": lambda X, two, values: TransformedTargetRegressor(
        AESVR(), func=np.arcsinh, inverse_func=np.sinh
    ).fit(X, values),
    "scaled targets": lambda X, two, values: TransformedTargetRegressor(
        AESVR(), transformer=StandardScaler()
    ).fit(X, values),
    "CalibratedClassifierCV": lambda X, two, values: CalibratedClassifierCV(AESVC(), cv=3).fit(
        X, two
    ),
    "calibrated": lambda X, two, values: calibrated(AESVC(), cv=3).fit(X, two),
    "isotonic": lambda X, two, values: CalibratedClassifierCV(
        AESVC(), method="isotonic", cv=KFold(3)
    ).fit(X, two),
    "frozen": lambda X, two, values: CalibratedClassifierCV(
        FrozenEstimator(AESVC().fit(X, two)),
        method="temperature" if VERSION >= (1, 8) else "sigmoid",
    ).fit(X, two),
    "GridSearchCV": lambda X, two, values: GridSearchCV(
        make_pipeline(StandardScaler(), AESVC()),
        {"aesvc__C": [1.0, 2.0], "aesvc__class_weight": [None, {1: 2.0}]},
        cv=StratifiedKFold(2, shuffle=True, random_state=0),
        scoring="balanced_accuracy",
    ).fit(X, two),
    "GridSearchCV, score": lambda X, two, values: GridSearchCV(
        AESVR(), {"C": [1.0, 2.0]}, cv=2
    ).fit(X, values),
    "AEGridSearchCV": lambda X, two, values: AEGridSearchCV(AESVC(), {"C": [1.0, 2.0]}, cv=2).fit(
        X, two
    ),
    "StackingClassifier": lambda X, two, values: StackingClassifier(
        [("svm", AESVC())], LogisticRegression(), cv=2
    ).fit(X, two),
    "BaggingClassifier": lambda X, two, values: BaggingClassifier(AESVC(), 2, random_state=0).fit(
        X, two
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_estimators_of_scikit_learn_that_hold_ours(name, path):
    X, two, _, values, others = rows()
    fitted = PIPELINES[name](X, two, values)
    again = loaded(fitted, path)
    assert type(again) is type(fitted)
    np.testing.assert_array_equal(again.predict(others), fitted.predict(others))
    for method in ("decision_function", "predict_proba"):
        if hasattr(fitted, method):
            np.testing.assert_array_equal(
                getattr(again, method)(others), getattr(fitted, method)(others)
            )
    targets = two if is_classifier(fitted) else values
    assert again.score(X, targets) == fitted.score(X, targets)
    assert clone(again).get_params().keys() == fitted.get_params().keys()


def test_pipelines_of_tables_with_text_and_missing_values(path):
    table, two, values, others = _table()
    classifier = make_pipeline(_columns(), AESVC()).fit(table, two)
    again = loaded(classifier, path)
    np.testing.assert_array_equal(decide(again, others), decide(classifier, others))
    with pytest.raises(ValueError, match="town"):
        again.predict(others.drop(columns="town"))
    regressor = TransformedTargetRegressor(
        make_pipeline(_columns(), AESVR()), transformer=StandardScaler()
    ).fit(table, values)
    again = loaded(regressor, path)
    np.testing.assert_array_equal(again.predict(others), regressor.predict(others))


def test_a_file_is_one_of_skops(path):
    """And names estimators alone, whatever a model keeps of its rows."""
    for name in [*MODELS, *SETS]:
        found = skops.io.get_untrusted_types(file=_saved(path, name))
        ours = {one for one in found if not one.startswith("scipy.sparse._csr.")}
        assert ours <= {
            f"{type(one).__module__}.{type(one).__name__}" for one in (model(name), model("set"))
        }


def test_callbacks_and_metadata_requests_are_not_written(path):
    X, two, *_ = rows()
    fitted = AESVC().set_callbacks(TimeLimit(10**6)).fit(X, two)
    again = loaded(make_pipeline(StandardScaler(), fitted), path)
    assert again[-1].__dict__.keys() == AESVC().fit(X, two).__dict__.keys()
    assert fitted._skl_callbacks  # which the model itself keeps
    with config_context(enable_metadata_routing=True):
        asks = AESVC().set_fit_request(sample_weight=True).fit(X, two)
        np.testing.assert_array_equal(loaded(asks, path).predict(X), asks.predict(X))


def test_arrays_of_a_model_that_was_read_can_be_written_to(path):
    assert loaded(model("two classes"), path).support_vectors_.flags.writeable


def test_the_estimators_of_clusters_come_back_without_a_client(path):
    """As workers leave them: what is kept of rows elsewhere is that of a stream."""
    dask = pytest.importorskip("aesvm.dask")
    from_stream = model("stream")
    state = {k: v for k, v in vars(from_stream).items() if k not in ("_stream_", "n_seen_")}
    twin = dask.DaskAESVC(**{**from_stream.get_params(), "split_every": 4})
    vars(twin).update({k: v for k, v in state.items() if k.endswith("_")})
    again = loaded(twin, path)
    assert type(again) is dask.DaskAESVC
    assert again.client is None
    assert again.split_every == 4
    others = other_rows(twin)
    np.testing.assert_array_equal(again.predict(others), from_stream.predict(others))


def test_what_cannot_be_written_is_named(path):
    X, two, *_ = rows()
    with pytest.raises(ValueError, match=r"cannot be saved: it holds .*<lambda>.* no code"):
        AESVC(kernel=lambda a, b: a @ b.T).fit(X, two).save(path)
    with pytest.raises(NotFittedError):
        AESVC().save(path)
    with pytest.raises(ValueError, match="is no estimator: these can be saved"):
        aesvm.save({"C": 1.0}, path)
    keeps = make_pipeline(StandardScaler(), AESVC(), memory=str(path.parent / "kept"))
    with pytest.raises(ValueError, match="Pipeline's memory"):
        aesvm.save(keeps.fit(X, two), path)
    odd = AESVC().fit(X, two)
    odd.odd_ = object()
    with pytest.raises(ValueError, match=r"it holds builtins.object"):
        odd.save(path)
    odd.odd_ = np.zeros(2, dtype="V4,O")
    with pytest.raises(ValueError, match="cannot be saved"):
        odd.save(path)
    weights = {"class_weight": [{True: 2.0, False: 1.0}]}
    with pytest.raises(ValueError, match=r"a dict with the key True"):
        aesvm.save(GridSearchCV(AESVC(), weights, cv=2).fit(X, two > 0), path)
    stacked = StackingClassifier([("svm", AESVC())], RandomForestClassifier(2), cv=2)
    with pytest.raises(ValueError, match=r"it holds sklearn\.tree\._tree\.Tree"):
        aesvm.save(stacked.fit(X, two), path)
    assert not path.exists()


class Heir(AESVC):
    """A class that files cannot name."""


def test_other_classes_are_not_written(path):
    X, two, *_ = rows()
    with pytest.raises(ValueError, match=r"it holds tests\.io\.test_model_files\.Heir"):
        aesvm.save(Heir().fit(X, two), path)
    again = pickle.loads(pickle.dumps(Heir().fit(X, two)))
    np.testing.assert_array_equal(again.predict(X), Heir().fit(X, two).predict(X))


def test_a_file_that_cannot_be_written_leaves_the_old_one(path, monkeypatch):
    _saved(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="full"):
        model("AESVR").save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def _saved(path, name="two classes"):
    model(name).save(path)
    return path


def test_errors_say_what_is_wrong(path):
    content = _saved(path).read_bytes()
    cases = {
        b"": "no model file",
        pickle.dumps(model("AESVR")): "no model file",
        b"svm_type c_svc\n": "no model file",
        content[:7]: "truncated or damaged",
        content[:500]: "truncated or damaged",
        content[:-30]: "truncated or damaged",
        content.replace(b"AESVC", b"AESVR", 1): "damaged",
    }
    for damaged, said in cases.items():
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{said}"):
            aesvm.load(path)
    np.savez(path.with_suffix(".npz"), np.ones(3))
    with pytest.raises(ValueError, match="no model file of aesvm"):
        aesvm.load(path.with_suffix(".npz"))
    with pytest.raises(FileNotFoundError):
        aesvm.load(path.with_name("none"))
    with pytest.raises(ValueError, match="path"):
        aesvm.load(7)


def rewritten(path, change, member="schema.json"):
    """A file with one member of its archive changed, and checksums that agree."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    content = json.loads(members[member])
    change(content)
    members[member] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def state_of(schema):
    """The attributes of an estimator in a file, by name."""
    return schema["content"]["content"]


def number(value):
    """A number as skops writes it."""
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        "is_json": True,
    }


@pytest.mark.parametrize(
    ("version", "is_refused"),
    [("99.0.0", True), ("1.99.0", True), (aesvm.__version__ + "1", False), ("0.0.1", False)],
)
def test_files_of_a_newer_version_are_refused(version, is_refused, path):
    rewritten(_saved(path), lambda versions: versions.update(aesvm=version), "aesvm.json")
    if not is_refused:
        assert same(vars(aesvm.load(path)), vars(model("two classes")))
        return
    said = rf"written with aesvm {version}.* newer than this aesvm, {aesvm.__version__}"
    with pytest.raises(ValueError, match=said):
        aesvm.load(path)


def test_parameters_that_came_later_have_their_defaults(path):
    def forget(schema):
        names = list(state_of(schema))
        place = names.index("max_vectors")
        del state_of(schema)["max_vectors"]
        del schema["content"]["key_types"]["content"][place]

    rewritten(_saved(path), forget)
    again = aesvm.load(path)
    assert again.max_vectors is None
    assert again.get_params() == model("two classes").get_params()


def test_too_little_memory_is_not_called_a_damaged_file(path, monkeypatch):
    def fail(*_):
        raise MemoryError

    _saved(path)
    monkeypatch.setattr("aesvm.io.model_file.check_model", fail)
    with pytest.raises(MemoryError):
        aesvm.load(path)


def test_every_public_estimator_can_be_written():
    dask = pytest.importorskip("aesvm.dask")
    modules = (aesvm, dask, aesvm.model_selection)
    public = [getattr(module, name) for module in modules for name in module.__all__]
    estimators = [one for one in public if hasattr(one, "fit")]
    estimators += [DateParts, LevelNames, TableColumns]  # which pipelines of tables hold
    assert {f"{one.__module__}.{one.__name__}" for one in estimators} == set(OURS)
