"""Model files that are damaged or forged: an error, or a model; and nothing in them is executed."""

from __future__ import annotations

import copy
import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aesvm
from aesvm import AESVC
from aesvm.io import load_libsvm_model, save_libsvm_model
from tests.io.fitted_models import model, other_rows, rows
from tests.io.test_model_files import number, rewritten, same, state_of

NAMES = ["two classes", "sparse", "stream", "compressed", "precomputed", "AEOneClassSVM"]


@cache
def _file(name, save=aesvm.save):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        save(model(name), path)
        return path.read_bytes()


def _loaded(content, load=aesvm.load):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(content)
        return load(path)


@st.composite
def _damaged(draw, save=aesvm.save):
    """A file that ends too early, or with some bytes that are others; and what it was of."""
    name = draw(st.sampled_from(NAMES))
    content = bytearray(_file(name, save))
    last = len(content) - 1
    if draw(st.integers(0, 3)) == 0:
        return name, bytes(content[: draw(st.integers(0, last))])
    # the directory of an archive is at its end, and the smallest part of it
    places = st.integers(0, last) | st.integers(max(0, last - 2000), last)
    for place in draw(st.lists(places, min_size=1, max_size=3)):
        content[place] ^= draw(st.integers(1, 255))
    return name, bytes(content)


@given(_damaged())
def test_a_damaged_file_is_refused_or_read_as_it_was(damaged):
    """Some bytes of an archive, such as the time of day, are no part of the model."""
    name, content = damaged
    try:
        found = _loaded(content)
    except ValueError as error:
        said = str(error)
    else:
        said = "model: as it was" if same(vars(found), vars(model(name))) else "another model"
    assert "model: " in said


@given(_damaged(save_libsvm_model))
def test_a_damaged_file_of_libsvms_is_refused_or_predicts(damaged):
    name, content = damaged
    try:
        found = _loaded(content, load_libsvm_model)
    except ValueError:
        return
    _predict(found, name)


def _predict(found, name):
    try:
        found.predict(other_rows(model(name)))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return


def _places(tree, here=()):
    """The way to everything in a tree."""
    if here:
        yield here
    if isinstance(tree, dict | list):
        for key, one in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _places(one, (*here, key))


def _at(tree, place):
    for key in place:
        tree = tree[key]
    return tree


@cache
def _schema(name):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(_file(name))
        with zipfile.ZipFile(path) as archive:
            schema = json.loads(archive.read("schema.json"))
    return schema, list(_places(schema))


ODD = [
    None,
    True,
    -1,
    0,
    3,
    2**40,
    2**70,
    10**400,
    1.5,
    1e308,
    "",
    "x",
    "rbf",
    "NaN",
    "[1]",
    [],
    [1],
    {},
]


@st.composite
def _forged(draw):
    """A file with another value somewhere in its schema, and checksums that agree."""
    name = draw(st.sampled_from(NAMES))
    schema, places = _schema(name)
    schema = copy.deepcopy(schema)
    *before, last = draw(st.sampled_from(places))
    elsewhere = st.sampled_from(places).map(lambda place: copy.deepcopy(_at(schema, place)))
    value = draw(st.sampled_from(ODD) | elsewhere)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        path.write_bytes(_file(name))
        _at(schema, before)[last] = value
        rewritten(path, lambda whole: (whole.clear(), whole.update(schema)))
        return name, path.read_bytes()


@pytest.mark.weekly
@given(_forged())
def test_a_forged_file_is_refused_or_gives_a_model(forged):
    name, content = forged
    try:
        found = _loaded(content)
    except ValueError:
        return
    _predict(found, name)


def _node(module, name, loader, **content):
    return {"__module__": module, "__class__": name, "__loader__": loader, **content}


def _planted(marker):
    """What would write a file, by each way that skops has to call something."""
    text = json.dumps(str(marker))
    args = _node("builtins", "tuple", "TupleNode", content=[number(str(marker))])
    nothing = _node("builtins", "dict", "DictNode", content={}, key_types=_types([]))
    system = _node("os", "mkdir", "FunctionNode")
    return {
        "os.mkdir": system,
        "os.system": _node("os", "system", "TypeNode"),
        "pathlib.Path": _node("pathlib", "Path", "ConstructorFromReduceNode", content=args),
        "subprocess.Popen": _node(
            "subprocess",
            "Popen",
            "ConstructorFromReduceNode",
            content=_node(
                "builtins",
                "tuple",
                "TupleNode",
                content=[number(["mkdir", str(marker)])],
            ),
        ),
        "functools.partial": _node(
            "functools",
            "partial",
            "PartialNode",
            content={"func": system, "args": args, "kwds": nothing, "namespace": nothing},
        ),
        "operator.methodcaller": _node("operator", "methodcaller", "OperatorFuncNode", attrs=args),
        "tests.io.test_damaged_models.Planted": _node(
            __name__, "Planted", "ObjectNode", content=number(text)
        ),
        "builtins.eval": _node("builtins", "eval", "ListNode", content=[number(f"open({text})")]),
    }


def _types(names):
    types = [_node("builtins", name, "TypeNode") for name in names]
    return _node("builtins", "list", "ListNode", content=types)


class Planted:
    """A type that does something as soon as it is made."""

    def __setstate__(self, state):
        Path(json.loads(state)).mkdir()


@pytest.mark.parametrize("name", _planted("x"))
def test_a_planted_type_is_refused_by_name(name, tmp_path):
    path, marker = tmp_path / "model", tmp_path / "marker"
    path.write_bytes(_file("two classes"))
    rewritten(path, lambda schema: state_of(schema).update(verbose=_planted(marker)[name]))
    with pytest.raises(ValueError, match=rf"model: the file names .*{name}"):
        aesvm.load(path)
    path.write_bytes(_file("two classes"))
    rewritten(path, lambda schema: schema.update(_planted(marker)[name]))
    with pytest.raises(ValueError, match=rf"model: the file names .*{name}"):
        aesvm.load(path)
    assert not marker.exists()


LIES = {
    "more features": {"n_features_in_": 9},
    "another number of support vectors": {"support_": np.arange(3, dtype=np.int32)},
    "support vectors of another type": {"support_vectors_": np.zeros((91, 5), dtype=np.int8)},
    "coefficients in single precision": {"dual_coef_": np.zeros((1, 91), dtype=np.float32)},
    "coefficients of more classes": {"dual_coef_": np.zeros((2, 91))},
    "coefficients that are a list": {"dual_coef_": [1.0]},
    "no coefficients": {"dual_coef_": None},
    "coefficients that are not finite": {"dual_coef_": np.full((1, 91), np.nan)},
    "gamma that is not finite": {"gamma_": np.nan},
    "offsets of more pairs": {"intercept_": np.zeros(3)},
    "classes that add up to more": {"n_support_": np.array([90, 90], dtype=np.int32)},
    "more classes": {"classes_": np.arange(5)},
    "ties of other classes": {"tie_order_": np.array([0, 7])},
    "fewer rows of training": {"shape_fit_": (3, 5)},
    "no multipliers": {"_trained_on_": {"in_memory": True}},
    "sparse rows with indices that are beyond the features": {
        "support_vectors_": sp.csr_array((np.ones(91), np.full(91, 7), np.arange(92)), (91, 9))
    },
}


@pytest.mark.parametrize("lie", LIES)
def test_attributes_that_do_not_fit_each_other_are_refused(lie, tmp_path):
    """So that compiled code does not read beyond arrays."""
    liar = copy.copy(model("two classes"))
    vars(liar).update(LIES[lie])
    if sp.issparse(liar.support_vectors_):
        liar.support_vectors_._shape = (91, 5)
    liar.save(tmp_path / "model")
    with pytest.raises(ValueError, match="model: the file is damaged: what it says does not fit"):
        aesvm.load(tmp_path / "model")


def test_sets_whose_columns_differ_in_length_are_refused(tmp_path):
    from dataclasses import replace

    for change in ({"weights": np.ones(3)}, {"X": np.zeros((2, 2), dtype=np.int32)}):
        liar = copy.copy(model("set of a stream"))
        liar._rows_ = replace(liar._rows_, **change)
        liar.save(tmp_path / "model")
        with pytest.raises(ValueError, match="of a set"):
            aesvm.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("C", number("x"), "The 'C' parameter of AESVC must be"),
        ("degree", number(10**400), "it holds a whole number of 1,329 bits"),
        ("fit", number(1), "fit of AESVC is no value"),
        ("certificate_", number(1), "certificate_ of AESVC is no value"),
    ],
)
def test_parameters_and_methods_that_are_forged_are_refused(name, value, said, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(_file("two classes"))

    def forge(schema):
        if name not in state_of(schema):
            schema["content"]["key_types"]["content"].append(_node("builtins", "str", "TypeNode"))
        state_of(schema)[name] = value

    rewritten(path, forge)
    with pytest.raises(ValueError, match=said):
        aesvm.load(path)


def test_a_folder_of_pickles_is_refused(tmp_path):
    """A pipeline's ``memory`` is one: a fit would unpickle what lies there."""
    X, two, *_ = rows()
    path = tmp_path / "model"
    aesvm.save(make_pipeline(StandardScaler(), AESVC()).fit(X, two), path)
    rewritten(path, lambda schema: state_of(schema).update(memory=number("folder")))
    with pytest.raises(ValueError, match=r"Pipeline's memory is 'folder'"):
        aesvm.load(path)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a": ' * 100_000, b"{}", b"[]", b"1", b"\xff"])
def test_schemas_that_are_none_are_refused(text, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(_file("two classes"))
    for member in ("schema.json", "aesvm.json"):
        with zipfile.ZipFile(path) as archive:
            members = {one: archive.read(one) for one in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, text if name == member else content)
        with pytest.raises(ValueError, match="damaged"):
            aesvm.load(path)
