"""The searches take what scikit-learn's take, and give what they give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import aesvm
from aesvm import AESVC, AESVR
from aesvm.machines import fit
from aesvm.machines.sharing import Starts
from aesvm.model_selection import AEGridSearchCV, AERandomizedSearchCV, evaluation
from aesvm.model_selection.paths import paths_of, svm_of
from aesvm.sets.derive import SetKernel
from tests.progress_bar import ProgressBar

GRID = {"C": [0.1, 1.0, 10.0], "gamma": [0.3, 3.0]}


@pytest.fixture(scope="module")
def moons():
    return make_moons(400, noise=0.25, random_state=0)


def searched(X, y, estimator=None, grid=GRID, kind=AEGridSearchCV, **options):
    estimator = AESVC() if estimator is None else estimator
    options = {"cv": 3, **options}
    return kind(estimator, grid, **options).fit(X, y)


def test_results_have_the_schema_of_grid_search_and_more(moons):
    ours = searched(*moons, return_train_score=True)
    theirs = searched(*moons, kind=GridSearchCV, return_train_score=True)
    more = set(ours.cv_results_) - set(theirs.cv_results_)
    assert set(theirs.cv_results_) <= set(ours.cv_results_)
    assert more == {
        f"{of}_{name}"
        for of in ("mean", "std")
        for name in ("partition_time", "set_time", "solve_time", "kernel_values", "rows_solved")
    }
    for name, values in theirs.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            assert_allclose(ours.cv_results_[name], values, atol=1e-2)
        if name.startswith("param"):
            assert list(ours.cv_results_[name]) == list(values)
    assert vars(theirs).keys() <= vars(ours).keys()
    assert ours.best_params_ == theirs.best_params_
    assert_array_equal(ours.predict(moons[0]), theirs.predict(moons[0]))
    assert ours.best_estimator_.certificate_.proven


def test_rows_that_were_solved_for_and_kernel_values_are_told(moons):
    results = searched(*moons).cv_results_
    n_train = 400 * 2 / 3
    assert_allclose(results["mean_rows_solved"], n_train, atol=1)
    assert (results["mean_kernel_values"] > 0).any()
    assert (results["mean_solve_time"] <= results["mean_fit_time"]).all()
    sets = searched(*moons, estimator=AESVC(refine=0, subset_size=50)).cv_results_
    assert (sets["mean_rows_solved"] < n_train).all()


def test_kernel_values_that_are_not_counted_are_nan():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(320, 3)), np.arange(320) % 16  # over a hundred pairs of classes
    results = searched(X, y, grid={"C": [1.0]}, cv=2).cv_results_
    assert np.isnan(results["mean_kernel_values"]).all()
    assert (results["mean_rows_solved"] > 0).all()


def test_several_scores_and_a_rule_of_ones_own_for_the_best(moons):
    scoring = {"accuracy": "accuracy", "auc": "roc_auc"}
    found = [
        searched(*moons, kind=kind, scoring=scoring, refit="auc")
        for kind in (AEGridSearchCV, GridSearchCV)
    ]
    assert found[0].best_params_ == found[1].best_params_
    for name in ("mean_test_accuracy", "mean_test_auc"):
        assert_allclose(found[0].cv_results_[name], found[1].cv_results_[name], atol=1e-2)
    last = searched(*moons, refit=lambda results: len(results["params"]) - 1)
    assert last.best_params_ == {"C": 10.0, "gamma": 3.0}


def test_a_scorer_sees_the_fitted_estimator(moons):
    def n_vectors(estimator, X, y):
        return -len(estimator[-1].support_)

    pipe = make_pipeline(StandardScaler(), AESVC())
    grid = {f"aesvc__{name}": values for name, values in GRID.items()}
    ours = searched(*moons, estimator=pipe, grid=grid, scoring=n_vectors)
    theirs = searched(*moons, estimator=pipe, grid=grid, scoring=n_vectors, kind=GridSearchCV)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=2
    )


class Counting(StandardScaler):
    """Counts how often it is fitted."""

    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


def test_steps_before_the_svm_are_fitted_once_for_every_fold(moons):
    Counting.fits = 0
    grid = {f"svc__{name}": values for name, values in GRID.items()}
    pipe = Pipeline([("scale", Counting()), ("svc", AESVC())])
    searched(*moons, estimator=pipe, grid=grid, refit=False)
    assert Counting.fits == 3
    grid = [{**grid, "scale": [Counting(), Counting(with_mean=False), MinMaxScaler()]}]
    Counting.fits = 0
    ours = searched(*moons, estimator=pipe, grid=grid, refit=False)
    assert Counting.fits == 6
    theirs = searched(*moons, estimator=pipe, grid=grid, refit=False, kind=GridSearchCV)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-2
    )


def test_other_estimators_are_searched_as_scikit_learn_does_it(moons):
    grid = [{"C": [0.1, 1.0]}]
    ours = searched(*moons, estimator=LogisticRegression(), grid=grid)
    theirs = searched(*moons, estimator=LogisticRegression(), grid=grid, kind=GridSearchCV)
    assert_array_equal(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert ours.cv_results_.keys() == theirs.cv_results_.keys()
    steps = [{"svc": [LogisticRegression()], "svc__C": [1.0]}, {"svc__gamma": [1.0, 2.0]}]
    pipe = Pipeline([("svc", AESVC())])
    mixed = searched(*moons, estimator=pipe, grid=steps)
    plain = searched(*moons, estimator=pipe, grid=steps, kind=GridSearchCV)
    assert_allclose(mixed.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_a_point_that_fails_leaves_the_rest(moons):
    grid = {"C": [1.0, -1.0, 10.0], "gamma": [1.0]}
    with pytest.warns(FitFailedWarning, match="3 fits failed"):
        ours = searched(*moons, grid=grid, error_score=-7.0)
    assert ours.cv_results_["mean_test_score"][1] == -7.0
    with pytest.warns(FitFailedWarning):
        theirs = searched(*moons, grid=grid, error_score=-7.0, kind=GridSearchCV)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-2
    )
    with pytest.raises(ValueError, match="C"):
        searched(*moons, grid=grid, error_score="raise")
    with pytest.raises(ValueError, match="All the 3 fits failed"):
        searched(*moons, grid={"C": [-1.0]})


def test_a_step_that_fails_leaves_the_rest(moons):
    pipe = Pipeline([("scale", MinMaxScaler()), ("svc", AESVC())])
    grid = {"scale__feature_range": [(0, 1), (1, 0)], "svc__C": [1.0, 2.0]}
    with pytest.warns(FitFailedWarning, match="6 fits failed"):
        found = searched(*moons, estimator=pipe, grid=grid)
    assert_array_equal(np.isnan(found.cv_results_["mean_test_score"]), [False, False, True, True])


def test_an_unknown_parameter_is_told_as_ever(moons):
    with pytest.raises(ValueError, match="Invalid parameter 'cost'"):
        searched(*moons, grid={"cost": [1.0]}, error_score="raise")


def test_weights_go_to_fits_and_scores(moons):
    X, y = moons
    weight = np.random.default_rng(0).uniform(0.1, 3.0, len(y))
    fit_to = [kind(AESVC(), GRID, cv=3) for kind in (AEGridSearchCV, GridSearchCV)]
    scores = [
        search.fit(X, y, sample_weight=weight).cv_results_["mean_test_score"] for search in fit_to
    ]
    assert_allclose(*scores, atol=1e-2)
    assert not np.allclose(scores[0], searched(X, y).cv_results_["mean_test_score"], atol=1e-6)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = AESVC().set_fit_request(sample_weight=True)
        routed.set_score_request(sample_weight=True)
        found = [
            kind(routed, GRID, cv=3).fit(X, y, sample_weight=weight).cv_results_["mean_test_score"]
            for kind in (AEGridSearchCV, GridSearchCV)
        ]
    assert_allclose(*found, atol=1e-2)


def test_tables_sparse_rows_and_given_kernels(moons):
    pandas = pytest.importorskip("pandas")
    X, y = moons
    plain = searched(X, y).cv_results_["mean_test_score"]
    table = searched(pandas.DataFrame(X, columns=["a", "b"]), y)
    assert list(table.feature_names_in_) == ["a", "b"]
    assert_array_equal(table.cv_results_["mean_test_score"], plain)
    sparse = searched(sp.csr_array(X), y)
    assert_allclose(sparse.cv_results_["mean_test_score"], plain, atol=1e-2)
    kernels = rbf_kernel(X, gamma=3.0)
    given = searched(kernels, y, estimator=AESVC(kernel="precomputed"), grid={"C": GRID["C"]})
    at = table.cv_results_["param_gamma"] == 3.0
    assert_allclose(given.cv_results_["mean_test_score"], plain[np.asarray(at)], atol=1e-2)
    called = searched(X, y, estimator=AESVC(kernel=rbf_kernel), grid={"C": GRID["C"]})
    assert len(called.cv_results_["mean_test_score"]) == 3


def test_a_random_search_draws_what_scikit_learn_draws(moons):
    drawn = {"C": loguniform(0.1, 100.0), "gamma": [0.1, 1.0, 10.0]}
    found = [
        kind(AESVC(), drawn, n_iter=7, random_state=4, cv=3).fit(*moons)
        for kind in (AERandomizedSearchCV, RandomizedSearchCV)
    ]
    assert found[0].cv_results_["params"] == found[1].cv_results_["params"]
    assert_allclose(*[one.cv_results_["mean_test_score"] for one in found], atol=1e-2)


def test_fits_of_few_iterations_start_no_others():
    X, y = make_moons(3000, noise=0.3, random_state=1)
    cut = AESVC(gamma=5.0, max_iter=1)
    grid = {"C": [1.0, 10.0], "max_iter": [1, -1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours = searched(X, y, estimator=cut, grid=grid)
        theirs = searched(X, y, estimator=cut, grid=grid, kind=GridSearchCV)
    whole = np.asarray(ours.cv_results_["param_max_iter"]) == -1
    assert_allclose(
        ours.cv_results_["mean_test_score"][whole],
        theirs.cv_results_["mean_test_score"][whole],
        atol=2e-3,
    )


def test_one_bar_for_the_grid(moons):
    class Steps:
        def __init__(self):
            self.tasks = []

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            self.tasks.append((type(estimator).__name__, context.task_name))

        def on_fit_task_end(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

    told = Steps()
    AEGridSearchCV(AESVC(), GRID, cv=3, refit=False).set_callbacks(told).fit(*moons)
    steps = [task for task in told.tasks if task[1] == "candidate-split-evaluation"]
    assert len(steps) == 6 * 3
    assert {name for name, _ in told.tasks} == {"AEGridSearchCV"}


def test_scikit_learns_progress_bar(moons, capsys):
    search = AEGridSearchCV(AESVC(), GRID, cv=3).set_callbacks(ProgressBar())
    search.fit(*moons)
    assert "100%" in capsys.readouterr().out


def test_lines_tell_what_is_left(moons, capsys):
    searched(*moons, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Fitting 3 folds for each of 6 candidates, totalling 18 fits"
    assert "18 of 18 fits, about 0 s left" in lines[-1]
    searched(*moons, verbose=3)
    said = capsys.readouterr().out.splitlines()
    assert len([line for line in said if line.startswith("[CV ") and "END" in line]) == 18


def test_a_frame_of_results_the_best_first(moons):
    pytest.importorskip("pandas")
    search = searched(*moons)
    frame = search.to_frame()
    assert len(frame) == 6
    assert frame["mean_test_score"].iloc[0] == search.best_score_
    assert frame["mean_test_score"].is_monotonic_decreasing
    with pytest.raises(NotFittedError):
        clone(search).to_frame()


def test_parameters_are_those_of_the_search_and_of_its_estimator():
    search = AEGridSearchCV(AESVC(C=3.0), GRID, memory="somewhere")
    copy = clone(search)
    assert copy.memory == "somewhere"
    assert copy.get_params()["estimator__C"] == 3.0
    assert "AEGridSearchCV" in repr(search)


@pytest.mark.parametrize(
    ("name", "value"), [("memory", 3), ("param_grid", "libsvm"), ("error_score", "no")]
)
def test_bad_parameters_are_named(moons, name, value):
    with pytest.raises(ValueError, match=name):
        AEGridSearchCV(AESVC(), GRID).set_params(**{name: value}).fit(*moons)


def test_targets_of_a_regression(moons):
    X, _ = moons
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [1.0], "epsilon": [0.01, 0.1]}
    ours = searched(X, X[:, 0] * X[:, 1], estimator=AESVR(), grid=grid)
    theirs = searched(X, X[:, 0] * X[:, 1], estimator=AESVR(), grid=grid, kind=GridSearchCV)
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=2e-3
    )


def mean_value(y_true, values):
    return float(np.mean(np.tanh(values)))


def test_scores_of_a_scorer_that_needs_more_than_predictions(moons):
    scorer = make_scorer(mean_value, response_method="decision_function")
    found = [searched(*moons, scoring=scorer, kind=kind) for kind in (AEGridSearchCV, GridSearchCV)]
    assert_allclose(*[one.cv_results_["mean_test_score"] for one in found], atol=1e-2)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_what_all_fits_warn_of_is_said_once(moons, n_jobs):
    X, y = moons
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        searched(X * [1.0, 1e-4], y, n_jobs=n_jobs, refit=False)
    told = [str(one.message) for one in said if "differ in scale" in str(one.message)]
    assert len(told) == 1
    assert told[0].endswith("(18 of 18 fits of the search warn of this.)")
    assert said[0].filename == __file__


def test_work_is_shared(moons, monkeypatch):
    """Partitions by the rows, sets and values to score by the kernel, starts along C."""
    counts = dict.fromkeys(("cut", "represent", "starts", "values"), 0)

    def counted(module, name, what):
        plain = getattr(module, name)

        def counting(*args, **kwargs):
            counts[what] += what != "starts" or kwargs.get("start", args[3:]) not in ((), None)
            return plain(*args, **kwargs)

        monkeypatch.setattr(module, name, counting)

    counted(SetKernel, "cut", "cut")
    counted(fit, "represent", "represent")
    counted(evaluation, "with_decision_values", "values")
    searched(*moons, estimator=AESVC(refine=0, subset_size=50), refit=False)
    assert counts == {"cut": 3, "represent": 6, "starts": 0, "values": 6}
    starts = []
    find = Starts.find
    monkeypatch.setattr(Starts, "find", lambda *args: starts.append(find(*args)) or starts[-1])
    searched(*moons, refit=False)
    assert len(starts) == 18
    assert sum(start is not None for start in starts) == 12


def test_models_of_the_search_are_not_certified(moons):
    def proven(model, X, y):
        return float(model.certificate_.proven)

    X, y = make_moons(3000, noise=0.3, random_state=0)
    found = searched(X, y, estimator=AESVC(refine=0), grid={"C": [1.0]}, scoring=proven)
    assert found.best_score_ == 0.0


def test_a_row_that_cannot_be_predicted_is_an_error_of_its_score(moons):
    X, y = moons
    X = X.copy()
    X[7] = np.nan
    folds = [(np.arange(100, 400), np.arange(100)), (np.arange(100, 300), np.arange(300, 400))]
    with pytest.warns(UserWarning, match="Scoring failed"):
        found = searched(X, y, cv=folds, refit=False)
    assert np.isnan(found.cv_results_["split0_test_score"]).all()
    assert (found.cv_results_["split1_test_score"] > 0.5).all()


class Differing(StandardScaler):
    """Transforms the rows that it is fitted to otherwise than others."""

    def fit_transform(self, X, y=None):
        return self.fit(X).transform(X) * [1.0, 0.1]


def test_training_rows_are_scored_as_they_are_transformed_later(moons):
    pipe = Pipeline([("scale", Differing()), ("svc", AESVC())])
    options = {"estimator": pipe, "grid": {"svc__C": [1.0, 10.0]}, "return_train_score": True}
    ours, theirs = (
        searched(*moons, kind=kind, **options) for kind in (AEGridSearchCV, GridSearchCV)
    )
    for name in ("mean_train_score", "mean_test_score"):
        assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=5e-3)


def spoiling(model, X, y):
    score = model.score(X, y)
    X -= X.mean(axis=0)
    return score


@pytest.mark.parametrize("scoring", [None, spoiling, lambda model, X, y: model.score(X, y)])
def test_steps_and_scorers_that_change_rows_in_place(moons, scoring):
    pipe = Pipeline([("scale", StandardScaler(copy=False)), ("svc", AESVC())])
    options = {"estimator": pipe, "grid": {"svc__gamma": [0.1, 1.0, 10.0]}, "scoring": scoring}
    X = moons[0] * [3.0, 50.0]
    ours, theirs = (
        searched(X.copy(), moons[1], kind=kind, **options)
        for kind in (AEGridSearchCV, GridSearchCV)
    )
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=5e-3
    )


def test_kernels_that_are_not_definite_start_from_nothing(moons):
    X, y = moons
    grid = {"C": [0.1, 3.0, 30.0], "gamma": [0.05, 1.0]}
    sigmoid = AESVC(kernel="sigmoid")
    ours, theirs = (
        searched(X, y, estimator=sigmoid, grid=grid, kind=kind)
        for kind in (AEGridSearchCV, GridSearchCV)
    )
    assert_array_equal(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])


def test_given_kernels_beside_others(moons):
    X, y = moons
    K = rbf_kernel(X, gamma=1.0)
    grid = {"kernel": ["precomputed", "rbf"], "C": [1.0, 10.0]}
    ours, theirs = (
        searched(K, y, grid=grid, kind=kind, refit=False) for kind in (AEGridSearchCV, GridSearchCV)
    )
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=5e-3
    )


class Halved(Pipeline):
    """Is fitted to half of the rows."""

    def fit(self, X, y):
        return super().fit(X[::2], y[::2])


@pytest.mark.parametrize(
    ("pipe", "grid"),
    [
        (Halved([("scale", StandardScaler()), ("svc", AESVC())]), {"svc__C": [1.0, 10.0]}),
        (
            Pipeline([("svc", AESVC())]),
            {"steps": [[("svc", AESVC(C=3.0))], [("other", LogisticRegression())]]},
        ),
    ],
)
def test_pipelines_that_are_fitted_in_their_own_way(moons, pipe, grid):
    ours, theirs = (
        searched(*moons, estimator=pipe, grid=grid, kind=kind, refit=False)
        for kind in (AEGridSearchCV, GridSearchCV)
    )
    assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-12
    )


@pytest.mark.parametrize("name", ["AESVC", "AESVR", "AENuSVC", "AENuSVR", "AEOneClassSVM"])
def test_every_estimator_of_the_family_shares(name):
    assert svm_of(getattr(aesvm, name)(), {})[1] is not None


def test_paths_have_one_kernel_and_rising_c():
    costs = np.int64(10), 1, np.float32(0.1)
    grid = [{"C": C, "tol": tol} for C in costs for tol in (1e-3, 1e-4)]
    paths = paths_of(AESVC(), grid)
    assert [[grid[at]["C"] for at in path.numbers] for path in paths] == [
        [np.float32(0.1), 1, 10]
    ] * 2
    assert {path.rows for path in paths} == {0}
