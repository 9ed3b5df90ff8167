"""Refinement and the certificate, against LIBSVM, a general solver and the paper's theorems."""

from __future__ import annotations

import copy
import json
import warnings
from dataclasses import FrozenInstanceError
from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from aesvm import AESVC, Certificate
from aesvm.formulations.hinge import Hinge
from aesvm.kernels import KernelMatrix, KernelSpec
from aesvm.machines import rounds as rounds_module
from aesvm.machines.fit import represent_anew
from aesvm.machines.pilots import Pilots
from aesvm.machines.place import RowsInMemory
from aesvm.machines.plan import Expected
from aesvm.machines.problem import Problem, TrainingRows
from aesvm.machines.represent import represent
from aesvm.machines.rounds import Cut, State, looked_at
from aesvm.machines.trainer import SolverOptions, Trainer
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Silence
from aesvm.runtime.threads import Threads
from aesvm.sets.derive import Combinations, ReductionSettings
from tests import oracles
from tests.plans import set_limits, set_table

RUN = Threads(1)


def noisy(n, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    y = ((X[:, 0] + 0.15 * rng.normal(size=n)).clip(0, 0.999) * n_classes).astype(int)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def svc_objective(model, **parameters):
    """The dual objective of LIBSVM's solution, all pairs together, from its attributes."""
    K = oracles.kernel(model.support_vectors_, **parameters)
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    label = np.repeat(np.arange(len(model.n_support_)), model.n_support_)
    total = 0.0
    for i, j in combinations(range(len(model.n_support_)), 2):
        coefs = np.where(label == i, dual[j - 1], np.where(label == j, dual[i], 0.0))
        total += np.abs(coefs).sum() - 0.5 * coefs @ K @ coefs
    return total


DATA = {
    "moons": lambda: make_moons(600, noise=0.3, random_state=0),
    "noisy": lambda: noisy(700, 1, 3),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "digits": lambda: tuple(part[:500] for part in load_digits(return_X_y=True)),
}


@pytest.mark.parametrize(
    ("kernel", "how"),
    [
        (kernel, how)
        for kernel in ("rbf", "poly", "linear", "precomputed", "callable")
        for how in ("plain", "weighted", "sparse", "balanced")
        if how != "sparse" or kernel not in ("precomputed", "callable")
    ],
)
@pytest.mark.parametrize("data", DATA)
def test_exact_is_svc(data, kernel, how):
    X, y = DATA[data]()
    X = scale(X) / np.sqrt(X.shape[1])
    formula = {"precomputed": "rbf", "callable": "poly"}.get(kernel, kernel)
    gamma = 1.0 if formula == "rbf" else 0.5  # LIBSVM's kernel values are in single precision
    K = oracles.kernel(X, kernel=formula, gamma=gamma, coef0=1.0)
    weights = None
    if how == "weighted":
        rng = np.random.default_rng(0)
        weights = rng.uniform(0.2, 2.0, len(y)) * (rng.uniform(size=len(y)) > 0.1)
    parameters = {
        "C": 1.0,
        "tol": 1e-5,
        "class_weight": "balanced" if how == "balanced" else None,
        "decision_function_shape": "ovo",
    }
    theirs = SVC(kernel=formula, gamma=gamma, coef0=1.0, **parameters)
    theirs.fit(X, y, sample_weight=weights)
    ours = AESVC(
        kernel=(lambda A, B: (0.5 * (A @ B.T) + 1.0) ** 3) if kernel == "callable" else kernel,
        gamma=gamma,
        coef0=1.0,
        refine="exact",
        **parameters,
    )
    rows = K if kernel == "precomputed" else X
    if how == "sparse":
        rows = sp.csr_array(X)
    ours.fit(rows, y, sample_weight=weights)
    values = theirs.decision_function(X)
    assert_allclose(ours.decision_function(rows), values, atol=2e-3)
    sure = np.abs(values.reshape(len(y), -1)).min(axis=1) > 1e-3
    assert sure.mean() > 0.8
    assert_array_equal(ours.predict(rows)[sure], theirs.predict(X)[sure])
    certificate = ours.certificate_
    best = svc_objective(theirs, kernel=formula, gamma=gamma, coef0=1.0)
    assert_allclose(certificate.objective, best, rtol=1e-4)
    assert_allclose(certificate.dual_objective, best, rtol=1e-4)
    assert certificate.exact
    assert certificate.violators == 0
    assert certificate.relative_gap <= 1e-3


@given(
    st.integers(0, 10**6),
    st.sampled_from([0, 1, 2, "exact"]),
    st.sampled_from([1e-1, 1e-2, 1e-3]),
    st.sampled_from([0.1, 1.0, 30.0]),
    st.sampled_from(["rbf", "linear", "poly"]),
    st.booleans(),
    st.integers(2, 3),
)
@settings(max_examples=80)
def test_the_gap_bounds_the_distance_to_libsvm(seed, rounds, tol, C, kernel, weighted, n_classes):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(80, 200))
    X, y = noisy(n, seed, n_classes)
    weights = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
    parameters = {"kernel": kernel, "gamma": 2.0, "coef0": 1.0, "C": C}
    model = AESVC(hull_tol=tol, subset_size=30, refine=rounds, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # little to gain
        model.fit(X, y, sample_weight=weights)
    certificate = model.certify(X, y, weights)

    theirs = SVC(tol=1e-6, **parameters).fit(X, y, sample_weight=weights)
    best = svc_objective(theirs, kernel=kernel, gamma=2.0, coef0=1.0)  # at most the optimum's
    F1 = 0.0
    values = AESVC.decision_function(model.set_params(decision_function_shape="ovo"), X)
    values = -values[:, None] if n_classes == 2 else values
    pairs = list(combinations(range(n_classes), 2))
    for at, (i, j) in enumerate(pairs):
        here = (y == i) | (y == j)
        signs = np.where(y[here] == i, 1.0, -1.0)
        F1 += C * weights[here] @ np.maximum(0.0, 1.0 - signs * values[here, at])
    F1 += 0.5 * certificate.norm**2
    small = 1e-6 * max(1.0, F1)
    assert_allclose(certificate.objective, F1, atol=small)
    assert certificate.dual_objective <= best + 1e-4 * best + small
    assert best - 1e-4 * best - small <= F1
    assert certificate.gap >= F1 - best - small
    assert certificate.gap >= 0
    F2 = certificate.reduced_objective
    assert F2 + certificate.theorem_2_bound + small >= F1
    assert best - F2 <= certificate.paper_bound + small + 1e-3 * F2  # F2 is optimal to tol
    total = C * sum(weights[(y == i) | (y == j)].sum() for i, j in pairs)
    assert_allclose(certificate.paper_bound, total**1.5 * certificate.max_residual**0.5)
    assert certificate.max_residual <= tol * (1 if rounds in (0, "exact") else 10) * (1 + 1e-9)
    if rounds == "exact":
        assert certificate.exact
        assert certificate.relative_gap <= 1e-3
        assert certificate.violators == 0


class OneMachine:
    """A machine and its place, as the loop of rounds has them."""

    def __init__(self, seed, n=300, weighted=True, C=1.0, hull_tol=1e-2, gamma=5.0):
        self.X, y = noisy(n, seed)
        rng = np.random.default_rng(seed)
        weights = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
        kernel = TrainingKernel(KernelSpec("rbf", gamma=gamma), self.X)
        how = ReductionSettings(hull_tol, 40, 100_000, "distance")
        first = represent(kernel, y, weights, how, RUN, Silence(), keep_combinations=True)
        rows = first.prepared.rows
        of_classes = TrainingRows.of_classes(self.X, y, weights, np.full(2, C))
        (problem,) = of_classes.problems(rows, first.prepared.weights)
        anew = partial(represent_anew, first, how, RUN)
        self.place = RowsInMemory(problem, kernel, anew, Hinge(), 1e-3, RUN, Silence())
        options = SolverOptions(1e-3, -1, 200_000_000, True)
        self.trainer = Trainer(Hinge(), options, 1, RUN, Silence())
        self.problem = problem
        self.train(self.place.represented(first.derived.found))

    def train(self, sets):
        machine = self.trainer.train(0, sets.kernel, sets.sets[0], Silence())
        self.state = State([machine], 0, sets)

    def look(self):
        self.state = looked_at(self.place, self.state, free_offsets=True)
        return self.state.looks[0]

    @property
    def machine(self):
        return self.state.machines[0]


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.3, 3.0, 50.0]))
@settings(max_examples=25)
def test_rounds_keep_who_stands_for_whom(seed, weighted, C):
    own = OneMachine(seed, weighted=weighted, C=C)
    problem, place = own.problem, own.place
    duals = []
    for _ in range(3):
        seen = own.look()
        duals.append(seen.dual)
        # the lifted multipliers are feasible
        alpha = problem.targets * place.lifted(own.machine)
        assert (alpha >= 0).all()
        assert (alpha <= problem.bounds).all()
        assert_allclose(problem.targets @ alpha, 0.0, atol=1e-8 * problem.bounds.sum())
        assert_allclose(alpha.sum(), np.abs(own.machine.coefs).sum(), rtol=1e-7, atol=1e-9)
        if own.state.sets.exact:
            break
        low, high = 1 - seen.doubt, 1 + seen.doubt
        strata = np.where(place.positions < low, -1, np.where(place.positions > high, 1, 0))
        own.train(place.stratify([Cut(seen.offsets, seen.doubt)], Silence()))
        found = own.machine.set.combinations
        # nothing is lost, and no subset mixes strata, or classes
        assert_allclose(found.gather(problem.weights).sum(), problem.weights.sum(), rtol=1e-12)
        assert_allclose(found.spread(np.ones(len(found.members))), 1.0, rtol=1e-12)
        if found.matrix is not None:
            for attribute in (strata, problem.targets):
                shares = found.matrix.tocoo()
                assert_array_equal(attribute[shares.row], attribute[found.members[shares.col]])
        # rows of the band stand for themselves
        band = np.flatnonzero(strata == 0)
        assert np.isin(band, found.members).all()
        assert (found.residuals[band] == 0).all()
    duals.append(own.look().dual)
    assert all(b >= a for a, b in pairwise(duals))


@given(st.integers(0, 10**6), st.sampled_from([0.1, 2.0]))
@settings(max_examples=25)
def test_margins_are_those_of_the_formula_or_bounds_of_them(seed, gamma):
    own = OneMachine(seed, C=0.3, hull_tol=1e-3, gamma=gamma)
    look, problem, found = own.look(), own.problem, own.place.positions
    K = oracles.kernel(own.X, gamma=gamma)[np.ix_(problem.rows, own.machine.set.rows)]
    margins = problem.targets * (K @ own.machine.coefs + look.offsets[0])
    seen = np.isclose(found, margins, atol=1e-6)
    assert (margins[~seen] >= found[~seen]).all()
    assert (found[~seen] >= 2.0 - 1e-9).all()
    losses = problem.bounds @ np.maximum(0.0, 1.0 - margins)
    assert_allclose(look.loss, losses, rtol=1e-7)
    assert_allclose(own.state.objective, 0.5 * own.machine.squared_norm + losses, rtol=1e-7)


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_rows_that_have_crossed_the_margin_since_they_were_represented_are_counted(seed):
    own = OneMachine(seed)
    seen = own.look()
    assert seen.n_crossed == 0  # the first set was made without a margin
    before = own.place.positions
    own.train(own.place.stratify([Cut(seen.offsets, seen.doubt)], Silence()))
    seen_again, now = own.look(), own.place.positions
    inside, outside = before < 1 - seen.doubt, before > 1 + seen.doubt
    crossed = (inside & (now > 1 + 1e-3)) | (outside & (now < 1 - 1e-3))
    assert seen_again.n_crossed == crossed.sum()


def test_rows_that_are_proven_to_be_outside_are_not_looked_at(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 20.0, size=(6000, 2)) * np.repeat([-1.0, 1.0], 3000)[:, None]
    y = np.repeat([0, 1], 3000)
    looked = []
    scores = KernelMatrix.scores

    def counted(self, support, coefs, rows, run):
        looked.append(len(rows))
        return scores(self, support, coefs, rows, run)

    monkeypatch.setattr(KernelMatrix, "scores", counted)
    monkeypatch.setattr(rounds_module, "FREE", 0.0)  # no certificate, which looks at all
    monkeypatch.setattr(rounds_module, "FREE_SHARE", 0.0)
    model = AESVC(C=100.0, kernel="linear", refine=1).fit(X, y)
    assert model.score(X, y) == 1.0
    assert not model.certificate_.exact
    assert 0 < sum(looked) < 1000


def test_rounds_come_closer_to_svc():
    X, y = make_moons(6000, noise=0.3, random_state=0)
    X_test, _ = make_moons(4000, noise=0.3, random_state=1)
    exact = SVC(gamma=10.0).fit(X, y)
    best = svc_objective(exact, gamma=10.0)  # at most the optimum's
    off, size = [], []
    for rounds in (0, 1, 2):
        model = AESVC(gamma=10.0, hull_tol=1e-2, refine=rounds).fit(X, y)
        certificate = model.certify(X, y)
        assert min(rounds, 1) <= certificate.rounds <= rounds
        assert (model.predict(X_test) == exact.predict(X_test)).mean() > 0.98
        off.append(certificate.objective - best)
        size.append(certificate.n_solved)
    assert off[1] < 0.7 * off[0]
    assert off[2] < 0.3 * off[0]

    sample = np.random.default_rng(0).permutation(6000)[: size[1]]
    plain = SVC(gamma=10.0, C=6000 / len(sample)).fit(X[sample], y[sample])
    norm = plain.dual_coef_[0] @ oracles.kernel(plain.support_vectors_, gamma=10.0)
    margins = np.where(y == 1, 1.0, -1.0) * plain.decision_function(X)
    objective = 0.5 * norm @ plain.dual_coef_[0] + np.maximum(0.0, 1.0 - margins).sum()
    assert off[1] < 0.7 * (objective - best)


def test_auto_is_exact_where_that_is_affordable():
    X, y = noisy(3000)
    model = AESVC(gamma=5.0).fit(X, y)
    assert model.certificate_.exact
    assert not model.representative_set_.reduced_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_auto_makes_rounds_where_it_is_not(monkeypatch, capsys, n_classes):
    X, y = noisy(3000, n_classes=n_classes)
    exact = AESVC(gamma=5.0, refine="exact").fit(X, y)
    set_limits(monkeypatch, exact=1e6)
    set_table(monkeypatch, worth=np.inf)
    model = AESVC(gamma=5.0, verbose=1, subset_size=200).fit(X, y)
    assert not model.certificate_.exact
    assert 1 <= model.certificate_.rounds <= 6
    assert (model.predict(X) == exact.predict(X)).mean() > 0.98
    if n_classes == 2:
        assert "of the predictions" in capsys.readouterr().out


@pytest.mark.parametrize("sampled", [True, False])
def test_auto_is_exact_where_there_are_few_support_vectors(monkeypatch, sampled):
    """A sample of the rows tells so at once, or the first look at all margins."""
    X, y = make_moons(3000, noise=0.05, random_state=0)
    set_limits(monkeypatch, exact=1e6)
    if not sampled:
        many = Expected(n_rows=3000, n_support=3000)
        monkeypatch.setattr(Pilots, "expected", lambda _: many)
    model = AESVC(gamma=5.0, subset_size=200).fit(X, y)
    assert model.representative_set_.reduced_ != sampled
    assert model.certificate_.exact
    assert_allclose(
        model.dual_objective_, AESVC(gamma=5.0, refine="exact").fit(X, y).dual_objective_, rtol=1e-3
    )


def test_auto_makes_no_round_that_would_take_too_long(monkeypatch):
    X, y = noisy(3000)
    set_limits(monkeypatch, exact=10.0, first_round=10.0)
    set_table(monkeypatch, worth=np.inf)
    model = AESVC(gamma=5.0, subset_size=200).fit(X, y)
    paper = AESVC(gamma=5.0, subset_size=200, refine=0).fit(X, y)
    assert model.certificate_.rounds == 0
    assert_array_equal(model.support_, paper.support_)


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid", "precomputed", "callable"])
def test_every_kernel_is_refined(kernel, n_classes, rounds):
    X, y = noisy(800, n_classes=n_classes)
    K = oracles.kernel(X, gamma=2.0)
    parameters = {"gamma": 0.5 if kernel == "sigmoid" else 2.0, "coef0": 0.5}
    parameters["kernel"] = oracles.kernel if kernel == "callable" else kernel
    rows = K if kernel == "precomputed" else X
    model = AESVC(hull_tol=1e-3, subset_size=150, refine=rounds, **parameters)
    exact = AESVC(refine="exact", **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (UserWarning, ConvergenceWarning))
        model.fit(rows, y)
        exact.fit(rows, y)
    assert not model.certificate_.exact
    # of rows in the plane the linear kernel keeps a handful, whose sums are off
    few = kernel in ("linear", "sigmoid")
    assert (model.predict(rows) == exact.predict(rows)).mean() > (0.85 if few else 0.95)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_same_on_any_number_of_threads(sparse):
    X, y = noisy(4000, n_classes=3)
    X = sp.csr_array(X) if sparse else X
    models = [
        AESVC(gamma=5.0, refine=2, subset_size=200, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 3)
    ]
    one, other = (sp.csr_array(model.dual_coef_).toarray() for model in models)
    assert_array_equal(one, other)
    assert_array_equal(models[0].intercept_, models[1].intercept_)
    assert models[0].certificate_ == models[1].certificate_


def test_equal_rows_and_rows_of_weight_zero():
    X, y = noisy(800)
    rng = np.random.default_rng(0)
    again = rng.integers(0, 800, 1600)
    weights = rng.uniform(0.0, 2.0, 800) * (rng.uniform(size=800) > 0.2)
    parameters = {"gamma": 5.0, "subset_size": 100, "refine": 1, "tol": 1e-6}
    merged = np.bincount(again, weights[again], 800)
    apart = AESVC(**parameters).fit(X[again], y[again], sample_weight=weights[again])
    once = AESVC(**parameters).fit(X, y, sample_weight=merged)
    assert (apart.predict(X) == once.predict(X)).mean() > 0.98
    ours, theirs = (
        model.certify(*data)
        for model, data in (
            (apart, (X[again], y[again], weights[again])),
            (once, (X, y, merged)),
        )
    )
    assert ours.n_rows == theirs.n_rows
    assert_allclose(ours.objective, theirs.objective, rtol=2e-2)


def test_the_certificate_can_be_read(monkeypatch):
    X, y = noisy(3000)
    monkeypatch.setattr(rounds_module, "FREE", 0.0)
    model = AESVC(gamma=5.0, refine=1, subset_size=200).fit(X, y)
    certificate = model.certificate_
    assert isinstance(certificate, Certificate)
    assert certificate.gap is None
    assert "certify" in certificate.missing["gap"]
    assert "call certify(X, y)" in str(certificate)
    of_a_span = {"n_vectors", "estimated_gap", "estimated_gap_error"}  # which there is none of
    of_a_limit = {"stopped_after", "exact_after"}
    empty = {name for name, value in certificate.as_dict().items() if value is None}
    assert set(certificate.missing) == empty - of_a_span - of_a_limit
    assert of_a_span <= empty
    json.dumps(certificate.as_dict())
    with pytest.raises(FrozenInstanceError):
        certificate.gap = 0.0
    complete = model.certify(X, y)
    assert complete == model.certificate_
    assert complete.missing == {}
    assert complete.gap > 0
    assert complete.as_dict()["rounds"] == 1
    assert complete.paper_bound_is_vacuous
    assert "Corollary 3" not in str(complete)
    again = AESVC(gamma=5.0, refine=1, subset_size=200).fit(X, y)
    monkeypatch.setattr(rounds_module, "FREE", np.inf)
    now = again.fit(X, y).certificate_
    assert_allclose(now.objective, complete.objective, rtol=1e-5)
    assert now.dual_objective >= complete.dual_objective * (1 - 1e-9)


@pytest.mark.parametrize("parameters", [{"kernel": "sigmoid"}, {"kernel": "poly", "coef0": -1.0}])
def test_an_indefinite_kernel_has_no_gap(parameters):
    X, y = noisy(500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AESVC(**parameters, refine=1, subset_size=100).fit(X, y)
    certificate = model.certify(X, y)
    assert certificate.kernel == "not positive semidefinite"
    assert certificate.gap is None
    assert certificate.paper_bound is None
    assert "positive semidefinite" in certificate.missing["gap"]
    assert certificate.objective is not None


def test_a_given_kernel_is_taken_at_its_word():
    X, y = noisy(200)
    certificate = AESVC(kernel="precomputed").fit(X @ X.T, y).certificate_
    assert certificate.kernel == "taken to be positive semidefinite"
    assert certificate.gap is not None


@pytest.fixture(name="weighted", scope="module")
def weighted_model():
    """A model of weighted rows, that is not certified yet; and its rows."""
    X, y = noisy(500, n_classes=3)
    weights = np.random.default_rng(0).uniform(1.0, 2.0, 500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds_module, "FREE", 0.0)
        model = AESVC(gamma=5.0, refine=1, subset_size=100).fit(X, y, sample_weight=weights)
    return model, X, y, weights


def one_changed(array, model, change):
    """In a row that is no support vector."""
    changed = array.copy()
    at = np.setdiff1d(np.arange(len(array)), model.support_)[0]
    changed[at] = change(changed[at])
    return changed


OTHERS = {
    "fewer": lambda _, X, y, w: (X[1:], y[1:], w[1:]),
    "other order": lambda _, X, y, w: (X[::-1], y[::-1], w[::-1]),
    "moved": lambda model, X, y, w: (one_changed(X, model, lambda x: x + 1e-9), y, w),
    "other classes": lambda _, X, y, w: (X, 2 - y, w),
    "flipped": lambda model, X, y, w: (X, one_changed(y, model, lambda c: c ^ 1), w),
    "new classes": lambda _, X, y, w: (X, y + 1, w),
    "no weights": lambda _, X, y, w: (X, y, None),
    "other weights": lambda _, X, y, w: (X, y, np.roll(w, 1)),
    "a class of no weight": lambda _, X, y, w: (X, y, np.where(y == 2, 0.0, w)),
    "two": lambda _, X, y, w: (X, 2 - y, np.roll(w, 1)),
}
SAID = {
    "fewer": r"X has [\d,]+ rows, and had [\d,]+ when",
    "other order": "X, y and sample_weight are not the same as when",
    "moved": "X is not the same as when",
    **dict.fromkeys(("other classes", "flipped", "new classes"), "y is not the same as when"),
    **dict.fromkeys(
        ("no weights", "other weights", "a class of no weight"),
        "sample_weight is not the same as when",
    ),
    "two": "y and sample_weight are not the same as when",
}


@pytest.mark.parametrize("other", OTHERS)
def test_certify_says_what_the_model_was_not_trained_on(weighted, other):
    model, X, y, weights = copy.copy(weighted[0]), *weighted[1:]
    with pytest.raises(ValueError, match=f"^{SAID[other]} the model was trained"):
        model.certify(*OTHERS[other](model, X, y, weights))
    assert model.certificate_ == weighted[0].certificate_


@pytest.mark.parametrize(
    ("name", "value"), [("C", 2.0), ("kernel", "linear"), ("hull_tol", 5.0), ("tol", 0.1)]
)
def test_certify_wants_the_parameters_that_the_model_was_trained_with(weighted, name, value):
    model, X, y, weights = copy.copy(weighted[0]), *weighted[1:]
    with pytest.raises(ValueError, match=f"{name}="):
        model.set_params(**{name: value}).certify(X, y, weights)
    assert model.certificate_ == weighted[0].certificate_


def test_certify_takes_the_same_rows_sparse(weighted):
    model, X, y, weights = copy.copy(weighted[0]), *weighted[1:]
    assert model.certificate_.missing
    assert model.certify(sp.csr_array(X), y, weights).missing == {}


def test_certify_knows_another_kernel_matrix(monkeypatch):
    monkeypatch.setattr(rounds_module, "FREE", 0.0)
    X, y = noisy(300)
    K = oracles.kernel(X, gamma=5.0)
    model = AESVC(kernel="precomputed", refine=1, subset_size=60).fit(K, y)
    with pytest.raises(ValueError, match=r"^X is not the same as when the model was trained"):
        model.certify(np.eye(300), y)
    assert model.certify(K, y).gap > 0


def test_certify_with_a_class_of_weight_zero(monkeypatch):
    monkeypatch.setattr(rounds_module, "FREE", 0.0)
    X, y = noisy(600, n_classes=3)
    weights = np.where(y == 0, 0.0, 1.0)
    model = AESVC(gamma=5.0, refine=1, subset_size=60).fit(X, y, sample_weight=weights)
    certificate = model.certify(X, y, weights)
    assert certificate.n_rows == np.count_nonzero(y)
    assert certificate.missing == {}


@pytest.mark.parametrize("C", [1.0, 1e3, 1e8, 1e12])
@pytest.mark.parametrize("heavy", [1.0, 1e8])
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_the_dual_is_below_a_known_point(rounds, heavy, C):
    """Bounds far larger than the multipliers: w = (2, 0), b = -1 separates, its objective is 2."""
    rng = np.random.default_rng(0)
    n = 200
    up = np.c_[1 + rng.exponential(0.3, n), 0.5 + rng.exponential(0.3, n)]
    down = np.c_[1 + rng.exponential(0.3, n), -0.5 - rng.exponential(0.3, n)]
    other = np.c_[-rng.exponential(0.3, 2 * n), 0.01 * rng.normal(size=2 * n)]
    up[0], down[0], other[0] = (1.0, 0.5), (1.0, -0.5), (0.0, 0.0)
    X, y = np.r_[up, down, other], np.repeat([0, 1], 2 * n)
    weights = np.r_[np.full(n, heavy), np.ones(3 * n)]
    model = AESVC(kernel="linear", C=C, hull_tol=1e-4, subset_size=50, refine=rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        certificate = model.fit(X, y, sample_weight=weights).certify(X, y, weights)
    assert certificate.dual_objective <= 2.0 * (1 + 1e-9)
    assert certificate.gap >= certificate.objective - 2.0 - 1e-9
    assert certificate.kernel == "positive semidefinite"


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("rounds", [0, 1, "exact"])
def test_classes_of_the_same_rows(kernel, rounds):
    """Nothing can be told apart: w is zero, but for rounding."""
    X, _ = noisy(300)
    X, y = np.r_[X, X], np.repeat([0, 1], 300)
    model = AESVC(kernel=kernel, gamma=5.0, subset_size=60, refine=rounds).fit(X, y)
    certificate = model.certify(X, y)
    assert certificate.kernel == "positive semidefinite"
    assert certificate.gap >= 0
    assert certificate.dual_objective <= 600.0 * (1 + 1e-9)


def test_weights_of_very_different_size_are_solved_exactly():
    X, y = noisy(600)
    model = AESVC(gamma=5.0, refine="exact", class_weight={0: 1e10, 1: 1.0})
    certificate = model.fit(X, y).certificate_
    assert certificate.violators == 0
    # what rounding may add to losses that weigh 1e10 is counted
    assert certificate.relative_gap <= 1e-2


def test_an_enormous_bound_is_infinite():
    X, y = noisy(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AESVC(C=1e210, refine=0, subset_size=50, max_iter=10_000).fit(X, y)
    assert model.certificate_.paper_bound == np.inf


def test_rounds_end_where_there_is_nothing_left_to_do():
    X, y = noisy(240)
    model = AESVC(gamma=50.0, hull_tol=1e-3, subset_size=60, refine=10**9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        certificate = model.fit(X, y).certificate_
    assert certificate.rounds < 100
    assert certificate.exact == (certificate.n_solved == certificate.n_rows)


def test_a_gap_that_is_not_reached_is_warned_of():
    X, y = noisy(300)
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        model = AESVC(gamma=5.0, refine="exact", max_iter=5).fit(X, y)
    assert model.fit_status_ == 1
    assert model.certificate_.relative_gap > 1e-3
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        model = AESVC(gamma=5.0, refine="exact", tol=10.0, max_iter=50).fit(X, y)
    assert model.fit_status_ == 1


@pytest.mark.parametrize("value", [-1, 1.5, "never", None])
def test_refine_is_checked(value):
    X, y = noisy(50)
    with pytest.raises(ValueError, match="refine"):
        AESVC(refine=value).fit(X, y)


def test_combinations_are_stacked_as_they_are():
    one = Combinations(np.array([1]), sp.csr_array(np.array([[1.0], [1.0]])), np.array([0.3, 0.0]))
    parts = [(np.array([2]), Combinations.identity(1)), (np.array([0, 1]), one)]
    whole = Combinations.stacked(3, parts)
    assert_array_equal(whole.members, [2, 1])
    assert_array_equal(whole.matrix.toarray(), [[0, 1], [0, 1], [1, 0]])
    assert_array_equal(whole.residuals, [0.3, 0.0, 0.0])
    assert_array_equal(whole.gather(np.array([1.0, 2.0, 4.0])), [4.0, 3.0])
    assert_array_equal(whole.lift(np.array([1.0, 3.0]), np.array([1.0, 2.0, 4.0])), [1.0, 2.0, 1.0])
    assert Combinations.stacked(1, parts[:1]).is_identity


def test_the_bounds_of_a_problem_are_costs_times_weights():
    numbers = np.array([1.0, -1.0]), np.array([0, 1]), np.array([2.0, 3.0]), np.array([0.5, 2.0])
    assert_array_equal(Problem(np.arange(2), *numbers).bounds, [1.0, 6.0])


def test_theorems_count_the_rounding_of_residuals():
    """Rows that are nearer to each other, in kernel space, than single precision tells."""
    X = (28_000.0 + np.random.default_rng(0).normal(size=(60, 30))).astype(np.float32)
    y = np.argsort(np.argsort(X[:, 0])) % 2
    model = AESVC(gamma=1e-10, C=1e3, refine=0, subset_size=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(X, y).certify(X, y)
        best = AESVC(gamma=1e-10, C=1e3, tol=1e-6).fit(X.astype(float), y).certificate_
    assert found.n_solved < found.n_rows
    assert found.objective <= found.reduced_objective + found.theorem_2_bound
    assert best.dual_objective <= found.reduced_objective + found.paper_bound
