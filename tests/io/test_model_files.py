"""Models written to files and read again; files that are no such, or no longer."""

from __future__ import annotations

import hashlib
import json
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import aesvm
from aesvm import AESVC
from aesvm.io import SKOPS_TYPES
from aesvm.io.container import BadFileError, read_container, write_container
from aesvm.model_selection import AEGridSearchCV
from tests.io.fitted_models import MODELS, SETS, decide, model, other_rows, rows


@pytest.fixture(params=MODELS)
def fitted(request):
    return model(request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.aesvm"


def loaded(fitted, path, **how):
    aesvm.save(fitted, path)
    return aesvm.load(path, **how)


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


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_a_model_decides_after_it_was_read_as_before(fitted, path, mmap_mode):
    others = other_rows(fitted)
    again = loaded(fitted, path, mmap_mode=mmap_mode)
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


def test_arrays_can_stay_in_the_file(path):
    again = loaded(model("two classes"), path, mmap_mode="r")
    assert isinstance(again.support_vectors_.base.base, np.memmap)
    assert not again.support_vectors_.flags.writeable
    assert again.compress(5).n_support_.sum() <= 5
    assert loaded(model("two classes"), path).support_vectors_.flags.writeable


def test_arrays_begin_where_processors_like_them_to(path):
    _, arrays = read_container(_saved(path))
    again = [one for one in read_container(path, mapped=True)[1] if one.size]
    assert len(again) == len([one for one in arrays if one.size])
    assert all(one.ctypes.data % 64 == 0 for one in again)


def test_a_model_that_was_read_is_certified_and_compressed_as_before(path):
    X, two, *_ = rows()
    fitted = AESVC(gamma=0.2, refine=1).fit(X, two)
    again = loaded(fitted, path)
    assert same(again.compress(10).dual_coef_, fitted.compress(10).dual_coef_)
    assert again.certify(X, two) == fitted.certify(X, two)


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


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler])
def test_pipelines_of_a_scaler_and_a_model(scaler, path):
    X, two, _, _, others = rows()
    pipeline = make_pipeline(scaler(), AESVC()).fit(X, two)
    again = loaded(pipeline, path)
    np.testing.assert_array_equal(again.decision_function(others), decide(pipeline, others))


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
    with pytest.raises(ValueError, match="AESVC's kernel is a callable"):
        AESVC(kernel=lambda a, b: a @ b.T).fit(X, two).save(path)
    with pytest.raises(NotFittedError):
        AESVC().save(path)
    with pytest.raises(ValueError, match="no estimator of aesvm"):
        aesvm.save(StandardScaler().fit(X), path)
    with pytest.raises(ValueError, match="no estimator of aesvm"):
        aesvm.save(make_pipeline(StandardScaler()).fit(X), path)
    search = AEGridSearchCV(AESVC(), {"C": [1.0, 2.0]}, cv=2).fit(X, two)
    with pytest.raises(ValueError, match="is a search, and no model: save its best_estimator_"):
        aesvm.save(search, path)
    keeps = make_pipeline(StandardScaler(), AESVC(), memory=str(path.parent / "kept"))
    with pytest.raises(ValueError, match="Pipeline's memory"):
        aesvm.save(keeps.fit(X, two), path)
    odd = AESVC().fit(X, two)
    odd.n_jobs = object()
    with pytest.raises(ValueError, match="n_jobs is of object"):
        odd.save(path)
    assert not path.exists()


class Heir(AESVC):
    """A class that files cannot name."""


def test_other_classes_are_not_written(path):
    X, two, *_ = rows()
    with pytest.raises(ValueError, match="no estimator of aesvm"):
        aesvm.save(Heir().fit(X, two), path)


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
        b"": "empty",
        pickle.dumps(model("AESVR")): "foreign",
        b"svm_type c_svc\n": "foreign",
        content[:7]: "truncated",
        content[:500]: "truncated",
        content[:-1]: "truncated",
        content + b"\0": "corrupt",
        content.replace(b"aesvm-model 0001", b"aesvm-model 0002", 1): "newer",
        content.replace(b"aesvm-model 0001", b"aesvm-model 0000", 1): "version 0 .*cannot be read",
        content.replace(b"AESVC", b"AESVR", 1): "corrupt",
    }
    for damaged, said in cases.items():
        path.write_bytes(damaged)
        with pytest.raises(BadFileError, match=f"{re.escape(str(path))}.*{said}"):
            aesvm.load(path)
    with pytest.raises(FileNotFoundError):
        aesvm.load(path.with_name("none"))
    with pytest.raises(ValueError, match="mmap_mode"):
        aesvm.load(path, mmap_mode="w")
    with pytest.raises(ValueError, match="path"):
        aesvm.load(7)


def test_a_thousand_damaged_files_are_refused(path):
    """Every byte is covered by some check: also those that only fill up."""
    content = _saved(path).read_bytes()
    rng = np.random.default_rng(7)
    padding = [at for at in range(len(content) - 64) if not any(content[at : at + 16])]
    for trial in range(1000):
        damaged = bytearray(content)
        if trial % 4 == 0:
            damaged = damaged[: rng.integers(len(content))]
        elif trial % 8 == 1:
            damaged[rng.choice(padding)] ^= 1 << int(rng.integers(8))
        elif trial % 4 == 2:
            damaged[int(rng.integers(600))] ^= int(rng.integers(1, 256))
        else:
            for at in rng.integers(len(content), size=rng.integers(1, 4)):
                damaged[at] ^= int(rng.integers(1, 256))
        if bytes(damaged) == content:
            continue
        path.write_bytes(damaged)
        with pytest.raises(
            BadFileError, match=r"empty|foreign|truncated|corrupt|newer|cannot be read"
        ):
            aesvm.load(path)


def rewritten(path, change):
    """A file whose header was changed, with a checksum that agrees."""
    content = path.read_bytes()
    first, rest = content.split(b"\n", 1)
    size = int(first.split()[2], 16)
    header = json.loads(rest[:size])
    change(header)
    text = json.dumps(header).encode()
    text += b" " * (-(len(first) + 1 + len(text)) % 64)
    digest = hashlib.sha256(text).hexdigest()
    line = f"aesvm-model 0001 {len(text):016x} {digest}\n".encode()
    path.write_bytes(line + text + rest[size:])


def _set(header, key, value, number=2):
    header["arrays"][number][key] = value


LIES = {
    "a negative shape": lambda header: _set(header, "shape", [-1, 2]),
    "a huge shape": lambda header: _set(header, "shape", [2**61]),
    "shapes whose product is huge": lambda header: _set(header, "shape", [2**40, 2**40]),
    "an empty array that is huge": lambda header: _set(header, "shape", [0, 2**61, 2**61]),
    "a shape of floats": lambda header: _set(header, "shape", [1.5]),
    "too many dimensions": lambda header: _set(header, "shape", [1] * 100),
    "objects": lambda header: _set(header, "dtype", "|O"),
    "a structured type": lambda header: _set(header, "dtype", "i4,f8"),
    "values without a kind": lambda header: _set(header, "dtype", "|V0"),
    "values of no bytes": lambda header: _set(header, "dtype", "<U0"),
    "another type": lambda header: _set(header, "dtype", "<f4"),
    "arrays upon each other": lambda header: _set(header, "offset", 0),
    "an offset beyond the end": lambda header: _set(header, "offset", 2**50),
    "a negative offset": lambda header: _set(header, "offset", -64),
    "no checksum": lambda header: header["arrays"][2].pop("sha256"),
    "more bytes than there are": lambda header: header.update(n_bytes=2**50),
    "a size that is no number": lambda header: header.update(n_bytes="many"),
    "fewer arrays": lambda header: header["arrays"].pop(),
    "no tree": lambda header: header.pop("tree"),
    "no model": lambda header: header.update(tree={}),
    "a number for a model": lambda header: header["tree"].update(model=1),
    "another class": lambda header: _estimator(header).update({"class": "Popen"}),
    "a class of another kind": lambda header: _estimator(header).update({"class": "AESVR"}),
    "a parameter that is none": lambda header: _estimator(header)["parameters"].update(x=1),
    "a parameter of a wrong kind": lambda header: _estimator(header)["parameters"].update(C="x"),
    "an attribute that is a method": lambda header: _estimator(header)["fitted"].update(fit=1),
    "an attribute of Python's": lambda header: _estimator(header)["fitted"].update(__class__=1),
    "a property": lambda header: _estimator(header)["fitted"].update(certificate_=1),
    "an array that is not there": lambda header: _fitted(header, "intercept_", {"array": 999}),
    "an array by its name": lambda header: _fitted(header, "intercept_", {"array": "intercept"}),
    "another array": lambda header: _fitted(header, "intercept_", {"array": 0}),
    "a list for an array": lambda header: _fitted(header, "dual_coef_", [1.0]),
    "no support vectors": lambda header: _estimator(header)["fitted"].pop("support_vectors_"),
    "more features": lambda header: _fitted(header, "n_features_in_", 9),
    "an unknown kind": lambda header: _fitted(header, "gamma_", {"pickle": "gASV"}),
    "two kinds": lambda header: _fitted(header, "gamma_", {"float": "inf", "tuple": []}),
    "a record that is none": lambda header: _fitted(header, "gamma_", {"record": ["eval", {}]}),
    "gamma that is not finite": lambda header: _fitted(header, "gamma_", {"float": "nan"}),
}


def _estimator(header):
    return header["tree"]["model"]["estimator"]


def _fitted(header, name, value):
    _estimator(header)["fitted"][name] = value


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie_are_refused(lie, path):
    _saved(path)
    rewritten(path, LIES[lie])
    with pytest.raises(BadFileError, match=r"corrupt|truncated"):
        aesvm.load(path)


def test_a_folder_of_pickles_is_refused(path):
    """A pipeline's ``memory`` is one: a fit would unpickle what lies there."""
    X, two, *_ = rows()
    aesvm.save(make_pipeline(StandardScaler(), AESVC()).fit(X, two), path)
    rewritten(path, lambda header: _estimator(header)["parameters"].update(memory="folder"))
    with pytest.raises(BadFileError, match=r"Pipeline's memory is 'folder'"):
        aesvm.load(path)


def test_indices_beyond_the_features_are_refused(path):
    """Compiled code would read out of bounds."""

    def narrow(header):
        fitted = _estimator(header)["fitted"]
        fitted["n_features_in_"] = 1
        fitted["support_vectors_"]["csr_array"][0][1] = 1

    rewritten(_saved(path, "sparse"), narrow)
    with pytest.raises(BadFileError, match=r"indices"):
        aesvm.load(path)


def test_parameters_that_came_later_have_their_defaults(path):
    rewritten(_saved(path), lambda header: _estimator(header)["parameters"].pop("max_vectors"))
    assert same(vars(aesvm.load(path)), vars(model("two classes")))


def test_errors_say_what_a_file_was_written_with(path):
    rewritten(_saved(path), lambda header: _estimator(header)["parameters"].update(new=1))
    said = rf"no parameter 'new'.*written with aesvm {re.escape(aesvm.__version__)}, scikit-learn "
    with pytest.raises(BadFileError, match=said):
        aesvm.load(path)


def test_too_little_memory_is_not_called_a_corrupt_file(path, monkeypatch):
    def fail(*_):
        raise MemoryError

    _saved(path)
    monkeypatch.setattr("aesvm.io.model_file.check_model", fail)
    with pytest.raises(MemoryError):
        aesvm.load(path)


def test_sets_whose_columns_lie_are_refused(path):
    def cut(header):
        _, columns = header["tree"]["model"]["estimator"]["fitted"]["_rows_"]["record"]
        columns["weights"] = columns["indices"]

    def shorten(header):
        _, columns = header["tree"]["model"]["estimator"]["fitted"]["_rows_"]["record"]
        columns["weights"] = {"array": header["arrays"].index(min(header["arrays"], key=_length))}

    def _length(entry):
        return entry["shape"][0] if entry["shape"] else 0

    for change in (cut, shorten):
        rewritten(_saved(path, "set of a stream"), change)
        with pytest.raises(BadFileError, match="of a set"):
            aesvm.load(path)


def test_multipliers_of_rows_that_were_not_there_are_refused(path):
    def grow(header):
        _fitted(header, "shape_fit_", {"tuple": [3, 5]})

    rewritten(_saved(path), grow)
    with pytest.raises(BadFileError, match="_trained_on_"):
        aesvm.load(path)


def test_a_header_that_was_written_anew_can_be_read(path):
    """So it is for their lies that the others are refused."""
    rewritten(_saved(path), lambda header: None)
    assert same(vars(aesvm.load(path)), vars(model("two classes")))


def test_headers_that_are_nested_without_end_are_refused(path):
    def nest(header):
        tree = []
        for _ in range(900):
            tree = [tree]
        header["tree"]["model"] = tree

    rewritten(_saved(path), nest)
    with pytest.raises(BadFileError, match="corrupt"):
        aesvm.load(path)
    text = b"[" * 100_000
    text += b" " * (-(98 + len(text)) % 64)
    digest = hashlib.sha256(text).hexdigest()
    path.write_bytes(f"aesvm-model 0001 {len(text):016x} {digest}\n".encode() + text)
    with pytest.raises(BadFileError, match="corrupt"):
        aesvm.load(path)


def test_strings_and_truth_values_are_checked(path):
    for array in (np.array([2**31 - 1], np.uint32).view("<U1"), np.array([7], np.uint8).view(bool)):
        write_container(path, {}, [array])
        with pytest.raises(BadFileError, match="corrupt"):
            read_container(path)


@pytest.mark.parametrize("name", [*MODELS, *SETS])
def test_skops_needs_to_trust_no_other_types(name):
    skops = pytest.importorskip("skops.io")
    fitted = model(name)
    content = skops.dumps(fitted)
    assert set(skops.get_untrusted_types(data=content)) <= set(SKOPS_TYPES)
    again = skops.loads(content, trusted=SKOPS_TYPES)
    if name in SETS:
        assert same(again.weights_, fitted.weights_)
    else:
        others = other_rows(fitted)
        np.testing.assert_array_equal(again.predict(others), fitted.predict(others))


def test_every_public_estimator_can_be_written():
    from aesvm.io.values import ESTIMATORS, estimator_class

    dask = pytest.importorskip("aesvm.dask")
    names = [getattr(aesvm, name) for name in aesvm.__all__]
    names += [getattr(dask, name) for name in dask.__all__]
    public = {one.__name__ for one in names if hasattr(one, "fit")}
    ours = {name for name, module in ESTIMATORS.items() if module.startswith("aesvm.")}
    assert public == ours
    assert all(hasattr(estimator_class(name), "save") for name in public)
