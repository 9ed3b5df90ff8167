"""What differs between versions of scikit-learn: our callbacks, weights, sparse attributes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import make_moons

from aesvm import AESVC
from aesvm.runtime import scikit_learn
from aesvm.runtime.scikit_learn import OwnCallbackSupport, _with_own_callbacks, check_sample_weight


class Recorder:
    """A callback that notes what it is called with."""

    def __init__(self):
        self.seen = []

    def setup(self, estimator, context):
        self.seen.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.seen.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X):
        self.seen.append(("begin", context.task_name, X))

    def on_fit_task_end(self, estimator, context):
        self.seen.append(("end", context.task_name, context.parent is None))
        return context.parent is not None


class Fits(OwnCallbackSupport, BaseEstimator):
    def __init__(self, fails=False):
        self.fails = fails

    @_with_own_callbacks
    def fit(self, X):
        whole = self._init_callback_context(max_subtasks=1)
        whole.call_on_fit_task_begin(estimator=self, X=X, y=None)
        part = whole.subcontext("part").call_on_fit_task_begin(estimator=self)
        self.asked_ = part.call_on_fit_task_end(estimator=self)
        if self.fails:
            raise RuntimeError
        whole.call_on_fit_task_end(estimator=self)
        return self


def test_our_callbacks_see_all_tasks_and_may_ask_to_end():
    seen = Recorder()
    fitted = clone(Fits().set_callbacks(seen)).fit("rows")  # a clone keeps them
    assert fitted.asked_
    assert seen.seen == [
        ("setup", "fit"),
        ("begin", "fit", "rows"),
        ("begin", "part", None),
        ("end", "part", False),
        ("end", "fit", True),
        ("teardown", "fit"),
    ]
    assert not hasattr(clone(fitted.set_callbacks()), "_skl_callbacks")


def test_our_callbacks_are_torn_down_after_an_error():
    seen = Recorder()
    with pytest.raises(RuntimeError):
        Fits(fails=True).set_callbacks(seen).fit("rows")
    assert seen.seen[-1] == ("teardown", "fit")


@pytest.mark.parametrize("wrong", [Recorder, object()])
def test_what_is_no_callback_is_refused(wrong):
    with pytest.raises(TypeError, match="FitCallback protocol"):
        Fits().set_callbacks(wrong)


@pytest.mark.parametrize("knows_zeros", [False, scikit_learn._takes_zeros])
def test_weights_that_are_all_zero_are_refused_unless_allowed(monkeypatch, knows_zeros):
    monkeypatch.setattr(scikit_learn, "_takes_zeros", knows_zeros)
    X = np.zeros((2, 1))
    if scikit_learn.VERSION < (1, 9) or knows_zeros:
        zeros = check_sample_weight(np.zeros(2), X, copy=True, all_may_be_zero=True)
        assert zeros.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="at least one non-zero number"):
        check_sample_weight(np.zeros(2), X, copy=False, all_may_be_zero=False)


@pytest.mark.skipif(scikit_learn.VERSION < (1, 9), reason="sparse_interface needs scikit-learn 1.9")
@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_sparse_attributes_are_arrays_where_the_setting_says_so(kind):
    X, y = make_moons(60, noise=0.1, random_state=0)
    with sklearn.config_context(sparse_interface="sparray"):
        model = AESVC(kernel="linear").fit(kind(X), y)
        assert isinstance(model.support_vectors_, sp.sparray)
        assert isinstance(model.dual_coef_, sp.sparray)
        assert isinstance(model.coef_, sp.sparray)
    assert isinstance(AESVC().fit(kind(X), y).support_vectors_, kind)


def test_fits_in_threads_are_those_made_alone():
    problems = [make_moons(300, noise=0.2, random_state=seed) for seed in range(4)]
    alone = [AESVC(gamma=1.0).fit(*problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda one: AESVC(gamma=1.0, n_jobs=2).fit(*one), problems * 2))
    for model, expected in zip(models, alone * 2, strict=True):
        np.testing.assert_array_equal(model.support_, expected.support_)
        np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)
