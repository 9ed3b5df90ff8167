"""Small random problems, in memory and in chunks, held against what the mathematics promises.

Sets are measured by non-negative least squares, models by their objective in double precision
and by scikit-learn's SVC, whose objective no lower bound may exceed. Sources that fail or change
must be noticed, and leave the estimator as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from aesvm import AESVC, RepresentativeSet
from aesvm.out_of_core import merge_tree
from tests import oracles
from tests.fuzz.examples import few
from tests.fuzz.problems import (
    ROUNDING,
    Problem,
    budgets,
    known_optimum,
    largest,
    objective,
    pairs_of,
    problems,
    reductions,
    rounding_of_losses,
    rounding_of_scores,
    tolerance,
    with_gamma,
)

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # random problems deserve many
]

#: Rows that streams gather before they reduce them, and the largest tolerance, as a fraction of the
#: squared diameter.
merging = st.tuples(st.integers(1, 400), st.sampled_from([0.01, 1e-6]))


@contextmanager
def merged_by(how: tuple[int, float]) -> Iterator[None]:
    with (
        mock.patch.object(merge_tree, "BUFFER_ROWS", how[0]),
        mock.patch.object(merge_tree, "_LOOSEST_FRACTION", how[1]),
    ):
        yield


class SourceError(Exception):
    """What a source raises that fails."""


# Sets


@few(25)
@given(problems(), reductions())
def test_sets_are_within_their_tolerance(problem, reduction):
    chosen = RepresentativeSet(**problem.kernel, **reduction, keep_combinations=True)
    if not (problem.used > 0).any():
        _check_refused(chosen, chosen.fit, problem, ("sample_weight", "weights"))
        return
    chosen.fit(problem.X, problem.y, problem.weights)
    K = problem.gram(chosen.gamma_)
    _check_set(chosen, problem, K)
    used = np.flatnonzero(problem.used)
    G = chosen.combinations_.toarray()
    spread = np.zeros((len(problem.y), len(problem.y)))
    spread[:, chosen.sample_indices_] = G
    off = np.abs(oracles.residuals(K, spread) - chosen.residuals_)[used].max()
    assert off <= _allowance(chosen, K), f"residuals are off by {off}"
    assert np.allclose(G[used].sum(axis=1), 1.0)
    assert (G >= 0).all()
    assert np.allclose(problem.used @ G, chosen.weights_, rtol=1e-9)


@few(25)
@given(problems(), reductions(), budgets, merging)
def test_sets_of_streams_are_within_their_bound(problem, reduction, budget, how):
    chosen = RepresentativeSet(**problem.kernel, **reduction, **budget)
    with merged_by(how):
        if not (problem.used > 0).any():
            _check_refused(chosen, chosen.fit_stream, problem, ("sample_weight",))
        elif _fits_its_budget(chosen, problem):
            _check_set_of_a_stream(chosen, problem)


def _check_set_of_a_stream(chosen: Any, problem: Problem) -> None:
    _check_held(chosen, problem)
    _check_set(chosen, problem, problem.gram(chosen.gamma_))
    other = RepresentativeSet(**chosen.get_params())
    other.set_params(**with_gamma(problem, chosen.gamma_).kernel)
    try:
        _chunk_by_chunk(other, problem)
    except ValueError as error:
        if "rows so far has a weight" not in str(error):
            raise
        return
    assert np.array_equal(chosen.sample_indices_, other.sample_indices_)
    assert np.array_equal(chosen.weights_, other.weights_)


def _check_set(chosen: Any, problem: Problem, K: NDArray) -> None:
    """Weights are those of the classes, and rows as near as is said."""
    at, weights = chosen.sample_indices_, chosen.weights_
    assert (weights > 0).all()
    assert (np.diff(at) > 0).all()
    limit = chosen.max_residual_ + _allowance(chosen, K)
    if chosen.memory_budget is None:
        assert chosen.max_residual_ <= chosen.hull_tol + _allowance(chosen, K)
    for label in np.unique(problem.y):
        own = problem.y == label
        total = problem.used[own].sum()
        assert np.isclose(weights[own[at]].sum(), total, rtol=1e-9), f"weights of {label}"
        rows = np.flatnonzero(own & (problem.used > 0))
        if len(rows) and np.isfinite(limit):
            far = oracles.hull_distances(K, rows, at[own[at]]).max()
            assert far <= limit, f"{far} from the hull of {label}, and not {limit}"


def _allowance(chosen: Any, K: NDArray) -> float:
    """What residuals may be off by: four kernel values, each right to a hundredth of hull_tol."""
    return ROUNDING * largest(K) + 0.04 * chosen.hull_tol


def _check_held(estimator: Any, problem: Problem) -> None:
    """What is held is within the budget, and sums to the weights of the classes."""
    _, y, weights = estimator.select()
    for label in np.unique(problem.y):
        total = problem.used[problem.y == label].sum()
        assert np.isclose(weights[y == label].sum(), total, rtol=1e-9), f"weights of {label}"
    stream = getattr(estimator._stream_, "stream", estimator._stream_)
    n_bytes = stream.tree.n_bytes
    assert n_bytes <= merge_tree.bytes_of(estimator.memory_budget), f"{n_bytes} bytes"
    assert estimator.n_seen_ == len(problem.y)


def _chunk_by_chunk(estimator: Any, problem: Problem, **first: Any) -> None:
    """``partial_fit`` of all chunks that have rows; others are refused in between."""
    for X, y, weights in problem.chunks():
        if X.shape[0]:
            estimator.partial_fit(X, y, sample_weight=weights, **first)
            _check_refuses(estimator, lambda: estimator.partial_fit(problem.X, problem.y[:-1]))
            _check_refuses(estimator, lambda: estimator.partial_fit(problem.X[:, :0], problem.y))
    estimator.partial_fit()


# Models


@few(25)
@given(st.data(), problems(), st.sampled_from([0, 1, 2, "auto", "exact"]))
def test_certificates_hold(data, problem, refine):
    model = data.draw(models(problem, refine)).set_params(
        tol=data.draw(st.sampled_from([1e-3, 1e-5]))
    )
    if len(problem.present) < 2:
        _check_refused(model, model.fit, problem, ("class", "sample_weight", "weights"))
        return
    model.fit(problem.X, problem.y, problem.weights)
    if model.fit_status_:
        return  # not converged
    certificate = model.certify(problem.X, problem.y, problem.weights)
    best, ours = known_optimum(model, problem), objective(model, problem)
    slack = 1e-9 * (best + ours)
    assert certificate.proven
    assert abs(certificate.objective - ours) <= certificate.gap + slack, "objective"
    assert certificate.dual_objective <= best + slack, "a lower bound above an optimum"
    assert ours - best <= certificate.gap + slack, "a gap below the excess"
    _check_theorem_2(certificate, ours)
    if certificate.exact:
        assert ours <= best + tolerance(model, problem), f"{ours}, and not {best}"
    _check_predictions(model, problem)
    changed = problem.y.copy()
    changed[0] = np.setdiff1d(problem.y, changed[:1])[0]
    _check_refuses(model, lambda: model.certify(problem.X, changed, problem.weights))


@few(25)
@given(st.data(), problems(), st.sampled_from([0, 0, 1, 2, "auto"]), budgets, merging)
def test_models_of_streams_are_what_they_say(data, problem, refine, budget, how):
    model = data.draw(models(problem, refine)).set_params(**budget)
    with merged_by(how):
        if len(problem.present) < 2:
            words = ("class", "memory_budget", "sample_weight")
            _check_refused(model, model.fit_stream, problem, words)
        elif _fits_its_budget(model, problem) and not model.fit_status_:
            _check_model_of_a_stream(data, model, problem)


def _check_model_of_a_stream(data: st.DataObject, model: AESVC, problem: Problem) -> None:
    _check_held(model, problem)
    ours = objective(model, problem)
    _check_theorem_2(model.certificate_, ours)
    _check_predictions(model, problem)
    _check_certified(data, model, problem, ours)
    if model.refine == 0:
        _check_is_the_svm_of_its_set(model, problem)
        other = AESVC(**model.get_params())
        other.set_params(**with_gamma(problem, model.gamma_).kernel)
        _chunk_by_chunk(other, problem, classes=np.unique(problem.y))
        for mine, theirs in zip(model.select(), other.select(), strict=True):
            same = (mine != theirs).sum() == 0
            assert same, "partial_fit and fit_stream hold other rows"
        if not other.fit_status_:
            _check_is_the_svm_of_its_set(other, problem)


@st.composite
def models(draw: Any, problem: Problem, refine: int | str) -> AESVC:
    labels = np.unique(problem.y).tolist()
    some = st.fixed_dictionaries({label: st.floats(0.1, 10.0) for label in labels})
    return AESVC(
        C=problem.C,
        refine=refine,
        class_weight=draw(st.none() | st.just("balanced") | some),
        decision_function_shape="ovo",
        cache_size=draw(st.sampled_from([0, 200])),
        shrinking=draw(st.booleans()),
        **problem.kernel,
        **draw(reductions()),
    )


def _check_certified(data: st.DataObject, model: AESVC, problem: Problem, ours: float) -> None:
    """The certificate of a pass over all rows, cut in other chunks; other rows are refused."""
    cuts = data.draw(st.lists(st.integers(0, len(problem.y)), min_size=3, max_size=3))
    certificate = model.certify_stream(problem._replace(cuts=np.sort(cuts)).chunks())
    off = abs(certificate.objective - ours)
    assert off <= ROUNDING * ours + rounding_of_losses(model, problem), f"objective off by {off}"
    damaged = data.draw(damages(problem))
    _check_refuses(model, lambda: model.certify_stream(damaged.chunks()))


def _check_theorem_2(certificate: Any, ours: float) -> None:
    if certificate.theorem_2_bound is not None:
        most = certificate.reduced_objective + certificate.theorem_2_bound
        assert ours <= most * (1 + 1e-4), f"F1 is {ours}, and not at most {most}"


def _check_is_the_svm_of_its_set(model: AESVC, problem: Problem) -> None:
    rows = model.representative_set_.select()
    held = problem._replace(**dict(zip(("X", "y", "weights"), rows, strict=True)))
    best, ours = known_optimum(model, held), objective(model, held)
    assert ours <= best + tolerance(model, held), f"F2 is {ours}, and not {best}"


def _check_predictions(model: AESVC, problem: Problem) -> None:
    """Decision values are the sums that the attributes say."""
    values = np.asarray(model.decision_function(problem.X)).reshape(len(problem.y), -1)
    for number, (scores, _, _) in enumerate(pairs_of(model, problem)):
        off = np.abs(values[:, number] - scores).max()
        assert off <= rounding_of_scores(model, problem), f"decision values are off by {off}"
    assert np.isin(model.predict(problem.X), problem.y).all()


# What is refused


def _check_refused(estimator: Any, fit: Callable, problem: Problem, words: tuple[str, ...]) -> None:
    """A fit that must fail, with a message that has one of some words, and leave nothing."""
    data = (problem.chunks(),) if fit.__name__ == "fit_stream" else problem[:3]
    try:
        fit(*data)
    except ValueError as error:
        if not any(word in str(error) for word in words):
            raise
        _check_state(estimator, {})
        return
    raise AssertionError("what has too few classes, or no weight, was fitted")


def _fits_its_budget(estimator: Any, problem: Problem) -> bool:
    """Whether a stream was fitted; one that was not must be over its budget."""
    try:
        estimator.fit_stream(problem.chunks())
    except ValueError as error:
        words = "one row of each class" if estimator.on_overflow == "loosen" else "memory_budget"
        if estimator.memory_budget is None or words not in str(error):
            raise
        _check_state(estimator, {})
        return False
    return True


def _state(estimator: Any) -> dict[str, Any]:
    names = estimator.get_params()
    return {name: value for name, value in vars(estimator).items() if name not in names}


def _check_state(estimator: Any, before: dict[str, Any]) -> None:
    now = _state(estimator)
    assert now.keys() == before.keys(), f"{now.keys() ^ before.keys()} by a failure"
    changed = [name for name in now if now[name] is not before[name]]
    assert not changed, f"{changed} by a failure"


def _check_refuses(estimator: Any, call: Callable[[], object]) -> None:
    before = _state(estimator)
    try:
        call()
    except ValueError:
        _check_state(estimator, before)
        return
    raise AssertionError("other rows were taken for those of the model")


@st.composite
def damages(draw: Any, problem: Problem) -> Problem:
    """The problem with other rows, classes, or weights."""
    at = draw(st.integers(0, len(problem.y) - 1))
    X, y, weights = problem.X.copy(), problem.y.copy(), problem.used.copy()
    what = draw(st.sampled_from(["value", "class", "weight", "row", "fewer", "more"]))
    if what == "value":
        X = X.tolil() if sp.issparse(X) else X
        X[at, 0] += 1.0
        X = type(problem.X)(X) if sp.issparse(X) else X
    elif what == "class":
        y[at] = np.setdiff1d(y, y[at : at + 1])[0]
    elif what == "weight":
        weights[at] += 1.0
    elif what == "row":
        y = np.roll(y, 1)
        y[0] = y[0] if (y != problem.y).any() else np.setdiff1d(y, y[:1])[0]
    rows = np.arange(len(y))
    if what == "fewer":
        rows = np.delete(rows, at)
    elif what == "more":
        rows = np.append(rows, at)
    cuts = np.minimum(problem.cuts, len(rows))
    return Problem(X[rows], y[rows], weights[rows], problem.kernel, problem.C, cuts)


class _Source:
    """Chunks that can be read again, and are others, or fail, in a pass."""

    def __init__(self, passes: Callable[[int], Iterator]) -> None:
        self.passes = passes
        self.n_passes = 0

    def __iter__(self) -> Iterator:
        self.n_passes += 1
        return self.passes(self.n_passes - 1)


@few(25)
@given(st.data(), problems(min_classes=2), st.sampled_from([0, 1, 2, "auto"]), merging)
def test_sources_that_fail_or_change_are_noticed_and_change_nothing(data, problem, refine, how):
    assume(len(problem.present) >= 2)
    estimator: Any = data.draw(models(problem, refine))
    if data.draw(st.integers(0, 4)) == 0:
        estimator = RepresentativeSet(**problem.kernel, **data.draw(reductions()))
    with merged_by(how):
        _check_a_faulty_source(data, estimator, problem)


def _check_a_faulty_source(data: st.DataObject, estimator: Any, problem: Problem) -> None:
    if data.draw(st.booleans()):
        estimator.fit_stream(problem.chunks())
    before = _state(estimator)
    first = int(isinstance(problem.kernel.get("gamma"), str))  # the pass after that for gamma
    which, raises, failing = data.draw(st.integers(0, 3)), data.draw(st.booleans()), None
    other = data.draw(damages(problem))
    chunks = problem.chunks()
    at = data.draw(st.integers(0, len(chunks) - 1))

    def passes(number: int) -> Iterator:
        nonlocal failing
        if number != which:
            yield from chunks
        elif raises:
            failing = number
            yield from chunks[:at]
            raise SourceError
        else:
            yield from other.chunks()
            failing = number

    source = _Source(passes)
    try:
        estimator.fit_stream(source)
    except SourceError:
        _check_state(estimator, before)
        return
    except ValueError:
        if raises or which >= source.n_passes:
            raise
        _check_state(estimator, before)
        return
    unseen = failing is None or failing < first or source.n_passes == first + 1
    assert unseen, f"pass {failing} of {source.n_passes} gave other rows"
