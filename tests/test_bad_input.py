"""Bad input is refused with a message that says what would do, and leaves nothing behind."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, RepresentativeSet
from aesvm.estimators import validation
from aesvm.io import CSVReader, LibsvmReader, ParquetReader
from experiments.rivals import NystroemSVM, RandomFeatureSVM, SubsampleSVM

X = np.random.default_rng(0).normal(size=(20, 2))
Y = np.arange(20) % 2


def changed(row, value):
    rows = X.copy()
    rows[row, 0] = value
    return rows


def asymmetric():
    K = X @ X.T
    K[3, 5] += 1.0
    return K


CASES = {
    "NaN": ({}, {"X": changed(3, np.nan)}, "NaN"),
    "infinity": ({}, {"X": changed(3, np.inf)}, "infinity"),
    "zero rows": ({}, {"X": X[:0], "y": None}, "0 sample"),
    "zero features": ({}, {"X": X[:, :0]}, "0 feature"),
    "one dimension": ({}, {"X": X[:, 0]}, "2D array"),
    "complex": ({}, {"X": X + 1j}, "[Cc]omplex"),
    "a file": ({}, {"X": "/no/such/file.csv", "y": None}, "X='/no/such/file.csv'.*as an array"),
    "strings": ({}, {"X": np.full((20, 2), "a")}, "could not convert|Unable to convert"),
    "hull_tol": ({"hull_tol": -1.0}, {}, r"'hull_tol'.*\[0.0, inf\).*-1.0"),
    "hull_tol NaN": ({"hull_tol": np.nan}, {}, "'hull_tol'.*nan"),
    "subset_size": ({"subset_size": 0}, {}, r"'subset_size'.*\[1, inf\).*0"),
    "partition_size": ({"partition_size": 0}, {}, r"'partition_size'.*\[1, inf\).*0"),
    "sizes": (
        {"subset_size": 11, "partition_size": 10},
        {},
        "subset_size=11 is larger than partition_size=10",
    ),
    "partition": ({"partition": "random"}, {}, "'partition'.*'distance'.*'random'"),
    "gamma 0": ({"gamma": 0.0}, {}, r"'gamma'.*\(0.0, inf\).*0.0"),
    "gamma -1": ({"gamma": -1.0}, {}, "'gamma'.*-1.0"),
    "gamma name": ({"gamma": "large"}, {}, "'gamma'.*'auto'.*'large'"),
    "kernel": ({"kernel": "cosine"}, {}, "'kernel'.*'rbf'.*'cosine'"),
    "degree": ({"kernel": "poly", "degree": -2}, {}, "'degree'.*-2"),
    "coef0": ({"coef0": np.nan}, {}, "'coef0'.*nan"),
    "not square": ({"kernel": "precomputed"}, {}, r"shape \(20, 2\).*square"),
    "asymmetric": ({"kernel": "precomputed"}, {"X": asymmetric()}, r"not symmetric: X\[3, 5\]"),
    "callable shape": (
        {"kernel": lambda A, B: np.ones((len(A), 1))},
        {},
        r"shape \(\d+, 1\).*must return shape",
    ),
    "callable NaN": (
        {"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)},
        {},
        "returned NaN or infinity",
    ),
    "callable type": (
        {"kernel": lambda A, B: np.full((len(A), len(B)), "a")},
        {},
        "real numbers",
    ),
    "overflowing poly": ({"kernel": "poly", "gamma": 1.0}, {"X": X * 1e6}, "kernel='poly'.*scale"),
    "overflowing linear": ({"kernel": "linear"}, {"X": X * 1e200}, "kernel='linear'.*scale"),
    "overflowing values": ({"kernel": "precomputed"}, {"X": X @ X.T * 1e35}, "scale the data"),
    "overflowing callable": (
        {"kernel": lambda A, B: 1e35 * A @ B.T},
        {},
        "beyond 1e\\+15: scale the data",
    ),
    "overflowing sigmoid": (
        {"kernel": "sigmoid", "gamma": 1.0},
        {"X": X * 1e200},
        "scale the data",
    ),
    "overflowing scale": (
        {"gamma": "scale"},
        {"X": np.sign(X) * 1e308},
        "gamma='scale'.*scale the data",
    ),
    "a number too large": ({}, {"X": [[10**400, 1]] * 20}, "X has a number that is too large"),
    "gamma too large": ({"gamma": 10**400}, {}, "'gamma'.*1000"),
    "gamma a fraction": ({"gamma": Fraction(1, 3)}, {}, "'gamma'.*float.*Fraction"),
    "a weight too large": (
        {},
        {"sample_weight": [10**400] * 20},
        "sample_weight has a number that is too large",
    ),
    "missing group": ({}, {"groups": [None, "a"] * 10}, "groups has values"),
    "negative weight": ({}, {"sample_weight": np.r_[-1.0, np.ones(19)]}, "[Nn]egative"),
    "zero weights": ({}, {"sample_weight": np.zeros(20)}, "sample_weight|[Ww]eights"),
    "NaN weight": ({}, {"sample_weight": np.full(20, np.nan)}, "NaN"),
    "NaN for a weight": ({}, {"sample_weight": np.nan}, "sample_weight adds up to nan"),
    "huge weights": ({}, {"sample_weight": np.full(20, 1e308)}, "sample_weight adds up to inf"),
    "complex weights": ({}, {"sample_weight": np.full(20, 1j)}, "sample_weight has complex"),
    "short weights": ({}, {"sample_weight": np.ones(19)}, r"\(19,\).*\(20,\)"),
    "short y": ({}, {"y": Y[:19]}, r"\[20, 19\]"),
    "short groups": ({}, {"groups": Y[:19]}, r"\[20, 19\]"),
    "continuous y": ({}, {"y": X[:, 0]}, "[Uu]nknown label type"),
    "kinds of y": ({}, {"y": np.array(["a", 1] * 10, object)}, "y has classes of different kinds"),
    "lists as y": ({}, {"y": np.array([[1], [1, 2]] * 10, object)}, "y has classes of different"),
    "n_jobs": ({"n_jobs": 0}, {}, "n_jobs"),
    "n_jobs name": ({"n_jobs": "all"}, {}, "'n_jobs'.*'all'"),
}


CLASSIFIER_CASES = {
    **{name: case for name, case in CASES.items() if "group" not in name},
    "zero rows": ({}, {"X": X[:0]}, "0 sample"),
    "no y": ({}, {"y": None}, "y"),
    "one class": ({}, {"y": np.ones(20)}, r"1 class \(\[1.0\]\).*at least two classes"),
    "one class left": (
        {},
        {"sample_weight": Y.astype(float)},
        r"1 class among the rows of non-zero sample_weight \(\[1\]\)",
    ),
    "two columns of y": ({}, {"y": np.c_[Y, Y]}, r"y should be a 1d array.*\(20, 2\)"),
    "C 0": ({"C": 0.0}, {}, r"'C'.*\(0.0, inf\).*0.0"),
    "C -1": ({"C": -1}, {}, "'C'.*-1"),
    "C NaN": ({"C": np.nan}, {}, "'C'.*nan"),
    "tol": ({"tol": 0.0}, {}, r"'tol'.*\(0.0, inf\).*0.0"),
    "max_iter": ({"max_iter": -2}, {}, r"'max_iter'.*\[-1, inf\).*-2"),
    "cache_size": ({"cache_size": -1}, {}, r"'cache_size'.*\[0.0, inf\).*-1"),
    "shape": ({"decision_function_shape": "ova"}, {}, "'decision_function_shape'.*'ova'"),
    "class_weight name": ({"class_weight": "even"}, {}, "'class_weight'.*'balanced'.*'even'"),
    "unknown class": (
        {"class_weight": {7: 2.0}},
        {},
        r"class_weight=\{7: 2.0\} has weights for \[7\].*use \[0, 1\]",
    ),
    "C too large": ({"C": 10**400}, {}, "'C'.*1000"),
    "class_weight too large": (
        {"class_weight": {1: 10**400}},
        {},
        "class_weight has {1: 1000.*finite",
    ),
    "negative class": ({"class_weight": {1: -2.0}}, {}, "class_weight has {1: -2.0}.*non-negative"),
}

NU_CASES = {
    f"nu {nu}": ({"nu": nu}, {}, rf"'nu'.*\(0.0, 1.0\].*{nu}") for nu in (0.0, -0.1, 1.5, np.nan)
}
NU_CLASSIFIER_CASES = {
    **{name: case for name, case in CLASSIFIER_CASES.items() if not name.startswith("C ")},
    **NU_CASES,
    "infeasible nu": (
        {"nu": 0.6},
        {"y": np.arange(20) % 5 == 0},
        r"specified nu is infeasible: nu=0.6 is more than 0.4, .*[Ll]ower nu",
    ),
    "infeasible nu of weights": (
        {"nu": 0.6},
        {"sample_weight": np.where(Y, 4.0, 1.0)},
        r"specified nu is infeasible: nu=0.6 is more than 0.4, .*raise that class's weight",
    ),
    "infeasible nu of class weights": (
        {"nu": 0.6, "class_weight": {0: 4.0}},
        {},
        "specified nu is infeasible",
    ),
}
ROW_CASES = {
    name: case
    for name, case in CLASSIFIER_CASES.items()
    if name in ("tol", "max_iter", "cache_size") or (name in CASES and "y" not in name.split())
}
VALUE_CASES = {
    **ROW_CASES,
    **{name: case for name, case in CLASSIFIER_CASES.items() if name.startswith("C ")},
    "no y": ({}, {"y": None}, "requires y to be passed.*pass the values"),
    "short y": CASES["short y"],
    "NaN y": ({}, {"y": np.where(Y, np.nan, 1.0)}, "y contains NaN"),
    "infinite y": ({}, {"y": np.where(Y, np.inf, 1.0)}, "y contains infinity"),
    "huge y": ({}, {"y": np.where(Y, 1e200, -1e200)}, "y has values as large as 1e\\+200: scale y"),
    "names as y": ({}, {"y": np.where(Y, "a", "b")}, "y .*'[ab]'|could not convert string"),
    "complex y": ({}, {"y": Y + 1j}, "[Cc]omplex"),
    "two columns of y": CLASSIFIER_CASES["two columns of y"],
}
EPSILON_CASES = {
    f"epsilon {epsilon}": (
        {"epsilon": epsilon},
        {},
        rf"'epsilon'.*\[0.0, inf\).*{epsilon}",
    )
    for epsilon in (-0.1, np.nan, np.inf)
}

CALLS = [
    (estimator, name, case)
    for estimator, cases in (
        (RepresentativeSet, CASES),
        (AESVC, CLASSIFIER_CASES),
        (AENuSVC, NU_CLASSIFIER_CASES),
        (AESVR, VALUE_CASES | EPSILON_CASES),
        (AENuSVR, VALUE_CASES | NU_CASES),
        (AEOneClassSVM, ROW_CASES | NU_CASES),
    )
    for name, case in cases.items()
]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("estimator", "case"),
    [(estimator, case) for estimator, _, case in CALLS],
    ids=[f"{estimator.__name__}-{name}" for estimator, name, _ in CALLS],
)
def test_bad_input_is_refused_and_leaves_nothing_half_fitted(estimator, case):
    parameters, data, message = case
    model = estimator(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(**{"X": X, "y": Y, **data})
    params = estimator(**parameters).get_params()
    left = {name: value for name, value in vars(model).items() if name not in params}
    assert left == {}
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def names(label, dtype=object):
    """Classes, one of which is missing; a series of pandas has the type of its own."""
    labels = np.array(["a", "b"] * 10, dtype=object)
    labels[3] = label
    return labels if dtype is object else pd.Series(labels, dtype=dtype)


MISSING = {
    "None": names(None),
    "NaN": names(np.nan),
    "NA": names(pd.NA),
    "list": names(None).tolist(),
    "string": names(None, "string"),
    "category": names(None, "category"),
    "None among numbers": np.where(np.arange(20) == 3, None, Y.astype(object)),
    "Int64": pd.Series(np.where(np.arange(20) == 3, None, Y.astype(object)), dtype="Int64"),
    "float": np.where(np.arange(20) == 3, np.nan, Y),
    "NaT": np.where(np.arange(20) == 3, np.datetime64("NaT"), np.datetime64("2020-01-01")),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_are_refused_in_these_words(kind):
    y = MISSING[kind]
    message = r"y has missing labels \(None, NaN or NA\): 1 of 20, the first at place 3"
    with pytest.raises(ValueError, match=message):
        RepresentativeSet().fit(X, y)
    with pytest.raises(ValueError, match=message):
        AESVC().fit(X, y)
    with pytest.raises(ValueError, match=message):
        AESVC(gamma=1.0).partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(ValueError, match=message):
        AESVC(gamma=1.0).fit_stream([(X, y, None)])
    with pytest.raises(ValueError, match="classes has missing labels"):
        AESVC(gamma=1.0).partial_fit(X, Y, classes=y)


@pytest.mark.parametrize("estimator", [RepresentativeSet, AESVC])
def test_a_failed_fit_leaves_the_last_one_as_it_was(estimator):
    model = estimator(gamma=1.0).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.c_[changed(1, np.nan), X[:, 0]], Y)
    assert vars(model) == before
    check_is_fitted(model)


PREDICT_CASES = {
    "NaN": (changed(3, np.nan), "NaN"),
    "features": (X[:, :1], "1 features?, but AESVC is expecting 2"),
    "one dimension": (X[0], "2D array"),
    "zero rows": (X[:0], "0 sample"),
}


@pytest.mark.parametrize("case", PREDICT_CASES)
def test_rows_that_cannot_be_predicted_are_refused(case):
    rows, message = PREDICT_CASES[case]
    model = AESVC().fit(X, Y)
    for predict in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match=message):
            predict(rows)


def test_an_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        AESVC().predict(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"class_weight": {0: np.inf}}, r"class_weight has \{0: inf\}: weights must be finite"),
        ({"C": 1e305}, r"add up to .* lower them"),
        ({"n_jobs": 0}, r"'n_jobs' parameter of AESVC"),
    ],
)
def test_what_would_give_no_model_is_refused(parameters, message):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=message):
        AESVC(**parameters).fit(X, X[:, 0] > 0)


def test_large_values_of_a_linear_kernel_are_not_blamed_on_its_gamma():
    X = 1e10 * np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"scale the data\.$"):
        AESVC(kernel="linear").fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="or lower gamma, degree or coef0"):
        AESVC(kernel="poly", gamma=1.0).fit(X, X[:, 0] > 0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("model", [AESVC(kernel="linear"), RandomFeatureSVM()])
def test_rows_whose_decision_values_overflow_are_refused(model):
    model.fit(X, Y)
    rows = X.copy()
    rows[3] = 1e308, -1e308
    with pytest.raises(ValueError, match=r"X .*(too large|NaN|infinity)"):
        model.decision_function(rows)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_classes_that_are_large_numbers_are_refused_without_a_warning():
    with pytest.raises(ValueError, match="Unknown label type"):
        AESVC(gamma=1.0).fit(X, np.where(Y, 1e300, 0.0))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_kernel_may_return_half_precision():
    model = AESVC(kernel=lambda A, B: (A @ B.T).astype(np.float16)).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    "parameters",
    [{"hull_tol": 10**30}, {"cache_size": 1e308}, {"max_iter": 10**30}, {"tol": 10**30}],
)
@pytest.mark.parametrize("method", ["fit", "fit_stream"])
def test_huge_parameters_are_accepted(parameters, method):
    model = AESVC(gamma=1.0, refine=0, subset_size=5, **parameters)
    model = model.fit(X, Y) if method == "fit" else model.fit_stream([(X, Y, None)])
    assert np.isfinite(model.decision_function(X)).all()


def test_a_tolerance_that_compiled_code_cannot_count_is_a_large_one():
    chosen = RepresentativeSet(gamma=1.0, hull_tol=10**30, subset_size=5).fit(X, Y)
    assert len(chosen.sample_indices_) < len(X)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_costs_of_a_stream_must_have_a_finite_sum():
    chunks = [(X, Y, np.full(20, 1e280))]
    with pytest.raises(ValueError, match=r"C, class_weight and sample_weight add up to .* lower"):
        AESVC(gamma=1.0, C=1e30).fit_stream(chunks)


@pytest.mark.parametrize("classes", [3, [None, 1], [[0, 1], [2, 3]], {}])
def test_classes_that_cannot_be_announced_are_named(classes):
    with pytest.raises(ValueError, match=r"classes(=| has)"):
        AESVC(gamma=1.0).partial_fit(X, Y, classes=classes)


@pytest.mark.parametrize(
    ("reader", "options", "message"),
    [
        (CSVReader, {"features": 3}, "features=3: a list of columns"),
        (CSVReader, {"delimiter": None}, "delimiter=None"),
        (CSVReader, {"header": "yes"}, "header='yes': True or False"),
        (CSVReader, {"classes": np.ones(3)}, "classes=array"),
        (CSVReader, {"on_bad": np.ones(3)}, "on_bad=array"),
        (LibsvmReader, {"zero_based": np.ones(3)}, "zero_based=array"),
    ],
)
def test_readers_name_the_parameter(reader, options, message, tmp_path):
    path = tmp_path / "rows"
    path.write_text("a,y\n1,2\n")
    first = {"target": "y"} if reader is CSVReader else {"n_features": 1}
    with pytest.raises(ValueError, match=message):
        reader(path, **first, **options)


@pytest.mark.parametrize("options", [{"dtype": 3}, {"dtype": "not a type"}, {"path": 3}])
def test_the_reader_of_parquet_names_the_parameter(options):
    pytest.importorskip("pyarrow")
    (name,) = options
    with pytest.raises((ValueError, TypeError), match=f"{name}="):
        ParquetReader(**{"path": "rows", "target": "y", **options})


def test_n_components_beyond_32_bits_is_refused():
    with pytest.raises(ValueError, match="'n_components'"):
        RandomFeatureSVM(n_components=2**63).fit(X, Y)


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_tolerance_is_not_looser_by_its_rounding():
    RepresentativeSet(gamma=1.0, hull_tol=10**30).fit_stream([(X, Y, None)])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_of_a_stream_that_is_not_reduced_are_bounded_as_well():
    model = AESVC(kernel="poly", gamma=1.0, hull_tol=0.0)
    with pytest.raises(ValueError, match="kernel='poly' has values as large as"):
        model.fit_stream([(changed(3, 1e308), Y, None)])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        (SubsampleSVM(C=1e308), X, "C, class_weight and sample_weight add up to"),
        (NystroemSVM(gamma=0.5), changed(3, 1e308), "X |must not contain infs"),
    ],
)
def test_rivals_refuse_what_overflows(model, rows, message):
    with pytest.raises(ValueError, match=message):
        model.fit(rows, Y)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_tolerance_may_be_next_to_nothing():
    model = AESVC(gamma=0.5, tol=1e-320).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()


def test_a_model_of_a_callable_without_support_vectors_is_certified():
    with pytest.warns(UserWarning, match="its objective may be 20 above .* a smaller tol"):
        model = AESVC(kernel=lambda A, B: A @ B.T, tol=2.0).fit(X, Y)
    assert len(model.support_) == 0
    assert model.certify(X, Y).proven


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("index", [10**6, 5, -1])
@pytest.mark.parametrize("estimator", [AESVC(gamma=1.0), RepresentativeSet(gamma=1.0)])
def test_sparse_rows_with_an_index_outside_are_refused(estimator, index, dtype):
    parts = np.ones(4), np.array([0, index, 1, 2], dtype=dtype), np.arange(5, dtype=dtype)
    rows = sp.csr_array(parts, shape=(4, 3))
    with pytest.raises(ValueError, match="has 3 columns"):
        clone(estimator).fit(rows, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="has 3 columns"):
        clone(estimator).fit_stream([(rows, [0, 1, 0, 1], None)])


def test_sparse_rows_that_do_not_count_up_are_refused():
    ends = np.array([0, 3, 2, 3, 4], dtype=np.int32)
    rows = sp.csr_array((np.ones(4), np.arange(4, dtype=np.int32), ends), shape=(4, 4))
    with pytest.raises(ValueError, match="indptr"):
        AESVC(gamma=1.0).fit(rows, [0, 1, 0, 1])


def test_masked_and_structured_input_is_refused():
    masked = np.ma.masked_array(X, mask=X > 2.0)
    masked[0, 0] = np.ma.masked
    with pytest.raises(ValueError, match="X has masked values"):
        AESVC().fit(masked, Y)
    with pytest.raises(ValueError, match="y has masked values"):
        AESVC().fit(X, np.ma.masked_array(Y, mask=Y == 0))
    with pytest.raises(ValueError, match="structured"):
        AESVC().fit(X, np.zeros(len(X), dtype=[("a", int)]))


def test_dates_are_classes_of_a_stream_as_well():
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[ns]")[Y]
    streamed = AESVC(gamma=1.0).fit_stream([(X, dates, None)])
    assert streamed.classes_.dtype == AESVC(gamma=1.0).fit(X, dates).classes_.dtype
    assert set(streamed.predict(X)) <= set(dates)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("n_classes", [2, 16], ids=["one pair", "many pairs"])
@pytest.mark.parametrize("scale", [1e-150, 1e-155, 1e-161])
@pytest.mark.parametrize(
    "model",
    [
        AESVC(kernel="linear"),
        AESVC(kernel="linear", max_vectors=2),
        AENuSVC(kernel="linear", nu=0.9),
        AESVR(kernel="linear"),
        AENuSVR(kernel="linear"),
    ],
    ids=str,
)
def test_nothing_overflows_where_rows_are_next_to_zero(model, scale, n_classes):
    rows = scale * np.random.default_rng(0).normal(size=(64, 3))
    model = clone(model).fit(rows, np.arange(64) % n_classes)
    decide = model.predict if is_regressor(model) else model.decision_function
    assert np.isfinite(decide(rows)).all()
    # of the start that tol leaves AENuSVC at, and not of rounding
    most = 10.0 if isinstance(model, AENuSVC) else 1e-6
    assert model.certificate_.relative_gap < most


@pytest.mark.parametrize("estimator", [AENuSVR, AESVR])
def test_targets_that_hardly_differ_leave_no_support_vectors(estimator):
    others = {"epsilon": 0.0} if estimator is AESVR else {}
    with pytest.warns(UserWarning, match="tol=0.001 is larger than the errors of a constant"):
        model = estimator(kernel="linear", **others).fit([[0.0], [1.0]], [0.0, 1e-12])
    assert np.abs(model.predict([[0.0], [1.0]])).max() < 1e-9


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_strings_among_the_features_are_named(method):
    rows = X.astype(object)
    rows[3, 1] = "a"
    with pytest.raises(ValueError, match=r"X has values that are not numbers.*'a'"):
        getattr(AESVR(gamma=1.0), method)(rows, Y)


def test_columns_of_a_table_without_numbers_are_named():
    table = pd.DataFrame(X, columns=["age", "height"]).assign(
        city="Rome", kind=pd.Categorical(["a"] * len(X)), digits="7"
    )
    with pytest.raises(ValueError, match=r"not numbers in 'city', 'kind': could not convert"):
        AESVC().fit(table, Y > 0)
    with pytest.raises(ValueError, match=r"not numbers in 'city': could not convert"):
        AESVC().fit(pytest.importorskip("pyarrow").table(table.drop(columns="kind")), Y > 0)
    many = pd.DataFrame({f"c{at}": ["x"] * len(X) for at in range(8)})
    with pytest.raises(ValueError, match=r"in 'c0', 'c1', 'c2', 'c3', 'c4' and 3 other columns"):
        AESVC().fit(many, Y > 0)
    dates = table[["age"]].assign(day=pd.date_range("2020-01-01", periods=len(X)))
    with pytest.raises(TypeError, match="not numbers in 'day'"):
        AESVC().fit(dates, Y > 0)


@pytest.mark.parametrize("missing", [np.nan, np.inf, None])
def test_columns_of_a_table_with_missing_values_are_named(missing):
    table = pd.DataFrame(X[:, :1], columns=["age"]).assign(
        height=[missing] + [1.0] * (len(X) - 1), whole=pd.array([1] * len(X), dtype="Int64")
    )
    said = r"^X has missing or infinite values in 'height'\. Input X contains (NaN|infinity)"
    with pytest.raises(ValueError, match=said):
        AESVC().fit(table, Y > 0)
    model = AESVC().fit(table.fillna(0.0).replace(np.inf, 0.0), Y > 0)
    with pytest.raises(ValueError, match=said):
        model.predict(table)
    table["whole"] = pd.array([None] + [1] * (len(X) - 1), dtype="Int64")
    with pytest.raises(ValueError, match="values in 'height', 'whole'"):
        model.predict(table)


@pytest.mark.parametrize("name", ["NaN", "infinity"])
def test_values_of_large_arrays_are_looked_at_on_several_threads(name, monkeypatch):
    _, given, message = CASES[name]
    model = AESVC(n_jobs=2)
    with pytest.raises(ValueError, match=message) as few:
        model.fit(given["X"], Y)
    monkeypatch.setattr(validation, "MANY_VALUES", 1)
    with pytest.raises(ValueError, match=message) as many:
        model.fit(given["X"], Y)
    assert str(many.value) == str(few.value)


def test_large_numbers_whose_sum_overflows_are_finite(monkeypatch):
    monkeypatch.setattr(validation, "MANY_VALUES", 1)
    rows = np.full((4, 2), 1e308)
    assert validation.validated_rows(AESVC(), rows, reset=True) is rows
