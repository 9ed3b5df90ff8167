"""Calls that other SVMs allow: what would do instead is said."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, RepresentativeSet
from aesvm.estimators.parameters import ClassifierParameters, CostParameters, MachineParameters
from tests import children


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: AESVC(10), r"keyword-only\), as in AESVC\(C=10\)"),
        (lambda: AENuSVC(0.5), r"keyword-only\), as in AENuSVC\(nu=0.5\)"),
        (lambda: RepresentativeSet("rbf"), r"RepresentativeSet\(kernel='rbf'\)"),
        (lambda: RepresentativeSet(0.1), r"RepresentativeSet\(hull_tol=0.1\)"),
        (lambda: AESVR("rbf", 1), r"as in AESVR\(kernel='rbf'\)"),
        (lambda: AESVC([1]), r"keyword-only\)\.$"),
        (lambda: AESVC(probability=True), "CalibratedClassifierCV"),
        (lambda: AENuSVC(probability=True), "CalibratedClassifierCV"),
        (lambda: AESVR(probability=True), r"get_params\(\) of AESVR\(\) shows"),
        (lambda: AESVC(random_state=0), "fits are deterministic"),
        (lambda: AEOneClassSVM(random_state=0), "fits are deterministic"),
        (lambda: AESVC(hull_tolerance=0.1), "no parameter 'hull_tolerance'"),
        (lambda: AESVC().fit_stream(np.eye(2), [0, 1]), r"fit\(X, y\)"),
        (lambda: AESVC().certify_stream(np.eye(2), y=[0, 1]), r"certify\(X, y\)"),
    ],
)
def test_calls_that_others_allow_are_told_what_would_do(make, says):
    with pytest.raises(TypeError, match=says):
        make()


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        (AENuSVC, ClassifierParameters),
        (AENuSVR, CostParameters),
        (AEOneClassSVM, MachineParameters),
    ],
)
def test_parameters_taken_from_another_estimator_have_types(kind, types):
    assert {*inspect.signature(kind).parameters} == {"nu", *types.__annotations__}


def test_without_dask_a_line_says_what_to_install():
    program = """
import sys
sys.modules["dask"] = None
try:
    import aesvm.dask
except ModuleNotFoundError as error:
    print(error)
"""
    said = children.run(children.code(program))
    assert said.startswith('aesvm.dask needs Dask: pip install "aesvm[dask]" (')
