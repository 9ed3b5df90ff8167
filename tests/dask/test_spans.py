"""``max_vectors`` on a cluster: sums on workers solve the SVM of all rows in a span."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from aesvm.dask import DaskAEOneClassSVM, DaskAESVC, DaskAESVR, fitting
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import OneClass
from aesvm.formulations.tube import Tube
from tests.bases.spans import solved_in_one_place
from tests.dask.clusters import AtStep, has_forgotten_all, lazy, moons, wait_until
from tests.dask.test_estimators import recomputable
from tests.out_of_core.test_rounds_of_sources import objective

SVC = {"gamma": 2.0, "hull_tol": 1e-2, "max_vectors": 30}


def test_two_workers_solve_what_one_place_solves(client):
    X, y = moons()
    model = DaskAESVC(**SVC).fit(*lazy(X, y))
    assert 0 < len(model.support_) <= 30
    assert_array_equal(X[model.support_], model.support_vectors_)
    signs = np.where(y == 1, 1.0, -1.0)
    best = solved_in_one_place(
        X, signs, np.ones(len(y)), model.support_vectors_, Hinge(), gamma=2.0
    )
    certificate = model.certificate_
    assert certificate.objective == pytest.approx(best.objective, rel=1e-3)
    assert certificate.objective == pytest.approx(objective(model, X, y), rel=1e-4)
    assert ((model.predict(X) == 1) == (best.scores + best.offsets[0] > 0)).mean() > 0.995
    assert certificate.n_vectors == len(model.support_)
    assert certificate.n_solved == len(y)
    certified = model.certify(*lazy(X, y))
    assert certified.objective == pytest.approx(certificate.objective, rel=1e-4)
    wait_until(lambda: has_forgotten_all(client), "scheduler that has forgotten all tasks")


def test_three_classes_values_and_supports(client):
    X, y = make_blobs(3000, centers=3, cluster_std=2.0, random_state=0)
    X = X / 6.0
    model = DaskAESVC(**SVC).fit(*lazy(X, y))
    vectors, of_class = model.support_vectors_, np.repeat(np.arange(3), model.n_support_)
    total = 0.0
    for pair in ((0, 1), (0, 2), (1, 2)):
        here, own = np.isin(y, pair), np.isin(of_class, pair)
        signs, ones = np.where(y[here] == pair[0], 1.0, -1.0), np.ones(here.sum())
        total += solved_in_one_place(
            X[here], signs, ones, vectors[own], Hinge(), gamma=2.0
        ).objective
    assert model.certificate_.objective == pytest.approx(total, rel=1e-3)

    noise = np.random.default_rng(0).normal(size=len(y))
    values = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.2 * noise
    regression = DaskAESVR(C=3.0, **SVC).fit(*lazy(X, values))
    best = solved_in_one_place(
        X,
        values,
        np.full(len(y), 3.0),
        regression.support_vectors_,
        Tube(0.1, float(values.std())),
        gamma=2.0,
    )
    assert regression.certificate_.objective == pytest.approx(best.objective, rel=1e-3)

    support = DaskAEOneClassSVM(nu=0.2, **SVC).fit(*lazy(X))
    ones = np.ones(len(y))
    best = solved_in_one_place(X, ones, ones, support.support_vectors_, OneClass(0.2), gamma=2.0)
    assert support.certificate_.objective == pytest.approx(best.objective, rel=1e-3)


@pytest.mark.weekly
def test_a_worker_that_is_killed_in_a_pass_changes_nothing(client, mortal):
    X, y = recomputable()
    expected = DaskAESVC(**SVC).fit(X, y)
    mortal.wait_for_workers(2)

    def kill():
        pids = mortal.run(os.getpid)
        held = {worker: len(what) for worker, what in mortal.has_what().items()}
        victim = max(held, key=held.get)
        assert held[victim] > 0
        os.kill(pids[victim], signal.SIGKILL)

    at_step = AtStep("pass", kill)
    model = DaskAESVC(client=mortal, **SVC).set_callbacks(at_step).fit(X, y)
    assert at_step.done
    wait_until(lambda: has_forgotten_all(mortal), "scheduler that has forgotten all tasks")
    assert_array_equal(model.dual_coef_, expected.dual_coef_)
    assert_array_equal(model.intercept_, expected.intercept_)


def test_an_interrupt_in_a_pass_leaves_nothing(client):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DaskAESVC(**SVC).set_callbacks(AtStep("pass", interrupt)).fit(*lazy(*moons()))
    wait_until(lambda: has_forgotten_all(client), "scheduler that has forgotten all tasks")


def test_little_comes_here_where_passes_follow(client, monkeypatch):
    """Sets that are too large are sampled, on the workers."""
    X, y = moons()
    monkeypatch.setattr(fitting, "SET_BYTES", 500 * (2 + 3) * 8.0)
    model = DaskAESVC(**{**SVC, "hull_tol": 1e-6}, split_every=2).fit(*lazy(X, y))
    assert len(model.representative_set_.sample_indices_) <= 500
    assert model.representative_set_.weights_.sum() == pytest.approx(len(y))
    signs = np.where(y == 1, 1.0, -1.0)
    best = solved_in_one_place(
        X, signs, np.ones(len(y)), model.support_vectors_, Hinge(), gamma=2.0
    )
    assert model.certificate_.objective == pytest.approx(best.objective, rel=1e-3)


def test_rounds_in_a_span_are_refused(client):
    with pytest.raises(ValueError, match=r"max_vectors=30 trains on all rows, and refine=1"):
        DaskAESVC(refine=1, **SVC).fit(*lazy(*moons()))
