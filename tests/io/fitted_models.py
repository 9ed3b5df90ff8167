"""Fitted models of every kind that a file can have."""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.sparse as sp

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, RepresentativeSet


@cache
def rows():
    """Rows with zeros among them, two classes, four classes in no order, numbers; other rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 5))
    X[rng.random(X.shape) < 0.4] = 0.0
    two = np.where(X[:, 0] + X[:, 1] ** 2 > 0.7, 1, -1)
    four = np.digitize(X[:, 0] + 0.5 * rng.normal(size=len(X)), [-0.5, 0.0, 0.5])
    values = np.sin(X[:, 0]) + X[:, 1]
    return X, two, np.array([3, -7, 12, 5])[four], values, rng.normal(size=(100, 5))


def _chunks(X, y):
    return [(X[at : at + 80], None if y is None else y[at : at + 80], None) for at in (0, 80, 160)]


def _make(name):
    X, two, four, values, _ = rows()
    words = np.array(["no", "yes"])[(two > 0).astype(int)]
    match name:
        case "two classes":
            return AESVC(gamma=0.2).fit(X, two)
        case "four classes":
            return AESVC(C=np.float64(10.0), decision_function_shape="ovo").fit(X, four)
        case "break_ties":
            return AESVC(C=10.0, break_ties=True).fit(X, four)
        case "words":
            return AESVC(class_weight={"no": 2.0, "yes": np.float32(1.0)}).fit(X, words)
        case "words as objects":
            return AESVC().fit(X, words.astype(object))
        case "booleans":
            return AESVC(class_weight={True: 2, False: 1}).fit(X, two > 0)
        case "dates":
            return AESVC().fit(X, np.array(["2020-01-01", "2021-01-01"], "M8[D]")[(two + 1) // 2])
        case "sparse":
            return AESVC().fit(sp.csr_array(X), four)
        case "sparse matrix":
            return AESVR(kernel="linear").fit(sp.csr_matrix(X), values)
        case "float32":
            return AESVC().fit(X.astype(np.float32), two)
        case "precomputed":
            return AESVC(kernel="precomputed").fit(X @ X.T, two)
        case "poly":
            return AESVC(kernel="poly", degree=2, coef0=1.0, gamma="auto").fit(X, two)
        case "few vectors":
            return AESVC(max_vectors=20, gamma=0.2).fit(X, two)
        case "representatives":
            return AESVC(refine=0, gamma=0.2, subset_size=50).fit(X, two)
        case "stream":
            return AESVC(gamma=0.2, refine=0).fit_stream(_chunks(X, four))
        case "stream of words":
            return AESVC(gamma=0.2).fit_stream(_chunks(X, words))
        case "partial_fit":
            return AESVC(gamma=0.2, memory_budget="1 GB").partial_fit(X, two, classes=[-1, 1])
        case "compressed":
            return AESVC(gamma=0.2).fit(X, four).compress(20, X=X)
        case "AENuSVC":
            return AENuSVC(nu=0.1).fit(X, four)
        case "AESVR":
            return AESVR().fit(X, values)
        case "AESVR of a stream":
            return AESVR(gamma=0.2, refine=0).fit_stream(_chunks(X, values))
        case "AENuSVR":
            return AENuSVR().fit(X, values)
        case "AEOneClassSVM":
            return AEOneClassSVM(nu=0.2).fit(X)
        case "set":
            return RepresentativeSet(keep_combinations=True).fit(X, two)
        case "set of a stream":
            return RepresentativeSet(gamma=0.2).fit_stream(_chunks(sp.csr_array(X), two))
    raise KeyError(name)


MODELS = [
    "two classes",
    "four classes",
    "break_ties",
    "words",
    "words as objects",
    "booleans",
    "dates",
    "sparse",
    "sparse matrix",
    "float32",
    "precomputed",
    "poly",
    "few vectors",
    "representatives",
    "stream",
    "stream of words",
    "partial_fit",
    "compressed",
    "AENuSVC",
    "AESVR",
    "AESVR of a stream",
    "AENuSVR",
    "AEOneClassSVM",
]
SETS = ["set", "set of a stream"]


@cache
def model(name):
    """A fitted model, the same in every call: not to be changed."""
    return _make(name)


def other_rows(fitted):
    """Rows that it was not trained on, of the kind that it takes."""
    X, _, _, _, others = rows()
    return others @ X.T if fitted.kernel == "precomputed" else others


def decide(fitted, others):
    """Decision values, or what a regressor predicts."""
    return getattr(fitted, "decision_function", fitted.predict)(others)
