"""scikit-learn's own tests of its SVMs, with ours in the place of theirs.

A module of them is executed once more, while ``sklearn.svm`` is a copy in which our classes have
the names of their twins. Nothing of scikit-learn changes for other tests.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any
from unittest import mock

import sklearn.svm
import sklearn.svm._classes

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.estimators.parameters import with_parameters_of


def stand_in(name: str, ours: Any) -> type:
    """Our class by another name; the parameters that it lacks are taken, and dropped."""

    @with_parameters_of(ours)
    def initialize(
        self: Any, *, probability: Any = None, random_state: Any = None, **parameters: Any
    ) -> None:
        self.probability = probability
        self.random_state = random_state

    return type(name, (ours,), {"__init__": initialize, "__module__": __name__})


STAND_INS = {
    name: stand_in(name, ours)
    for name, ours in {
        "SVC": AESVC,
        "NuSVC": AENuSVC,
        "SVR": AESVR,
        "NuSVR": AENuSVR,
        "OneClassSVM": AEOneClassSVM,
    }.items()
}


def substituted(name: str) -> ModuleType:
    """A module of scikit-learn's tests that knows our classes by the names of theirs.

    The modules beside it, which it imports, are imported first: they keep scikit-learn's classes.
    """
    for beside in ("test_svm", "test_sparse"):
        importlib.import_module(f"sklearn.svm.tests.{beside}")
    svm = ModuleType("sklearn.svm")
    vars(svm).update({**vars(sklearn.svm), **STAND_INS})
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"sklearn.svm": svm}), mock.patch("sklearn.svm", svm):
        spec.loader.exec_module(module)
    return module


def using_ours(module: ModuleType) -> Iterator[tuple[str, Callable]]:
    """The tests of a substituted module that use one of our classes."""
    for name, test in vars(module).items():
        if name.startswith("test_") and callable(test):
            given = [mark.args[1] for mark in getattr(test, "pytestmark", ()) if len(mark.args) > 1]
            if STAND_INS.keys() & set(test.__code__.co_names) or _mentions_ours(given):
                yield name, test


def _mentions_ours(values: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return any(_mentions_ours(value) for value in values)
    return values in STAND_INS.values() or type(values) in STAND_INS.values()
