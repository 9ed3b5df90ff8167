"""Small random problems, in memory and in chunks, held against what the mathematics promises.

Sets are measured by non-negative least squares, models by their objective in double precision
and by scikit-learn's SVC, whose objective no lower bound may exceed. Sources that fail or change
must be noticed, and leave the estimator as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from tests import oracles

from aesvm import AESVC, RepresentativeSet
from aesvm.out_of_core import merge_tree
from benchmarks.fuzz_problems import (
    ROUNDING,
    Problem,
    known_optimum,
    largest,
    objective,
    pairs_of,
    pick,
    random_budget,
    random_problem,
    random_reduction,
    rounding_of_losses,
    rounding_of_scores,
    tolerance,
    with_gamma,
)


class SourceError(Exception):
    """What a source raises that fails."""


def trial(rng: np.random.Generator, folder: Path) -> str:
    kinds: dict[str, Callable[[np.random.Generator], str]] = {
        "set": _set,
        "stream of a set": _stream_of_a_set,
        "memory": _memory,
        "stream": _stream,
        "faulty source": _faulty_source,
    }
    name = pick(rng, list(kinds))
    with (
        mock.patch.object(merge_tree, "BUFFER_ROWS", int(np.exp(rng.uniform(0, 6)))),
        mock.patch.object(merge_tree, "_LOOSEST_SHARE", pick(rng, [0.01, 1e-6])),
    ):
        return f"{name}: {kinds[name](rng)}"


# Sets


def _set(rng: np.random.Generator) -> str:
    problem = random_problem(rng)
    chosen = RepresentativeSet(**problem.kernel, **random_reduction(rng), keep_combinations=True)
    if not (problem.used > 0).any():
        return _refused(chosen, chosen.fit, problem, ("sample_weight", "weights"))
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
    return "within its tolerance"


def _stream_of_a_set(rng: np.random.Generator) -> str:
    problem = random_problem(rng)
    chosen = RepresentativeSet(**problem.kernel, **random_reduction(rng), **random_budget(rng))
    if not (problem.used > 0).any():
        return _refused(chosen, chosen.fit_stream, problem, ("sample_weight",))
    try:
        chosen.fit_stream(problem.chunks())
    except ValueError as error:
        return _over_budget(chosen, error)
    _check_held(chosen, problem)
    _check_set(chosen, problem, problem.gram(chosen.gamma_))
    other = RepresentativeSet(**chosen.get_params())
    other.set_params(**with_gamma(problem, chosen.gamma_).kernel)
    try:
        _chunk_by_chunk(other, problem)
    except ValueError as error:
        if "rows so far has a weight" not in str(error):
            raise
        return "no weight at first"
    assert np.array_equal(chosen.sample_indices_, other.sample_indices_)
    assert np.array_equal(chosen.weights_, other.weights_)
    return "sampled" if np.isinf(chosen.max_residual_) else "within its bound"


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


def _memory(rng: np.random.Generator) -> str:
    problem = random_problem(rng)
    refine = pick(rng, [0, 1, 2, "auto", "exact"])
    model = _model(rng, problem, refine).set_params(tol=pick(rng, [1e-3, 1e-5]))
    if len(problem.present) < 2:
        return _refused(model, model.fit, problem, ("class", "sample_weight", "weights"))
    model.fit(problem.X, problem.y, problem.weights)
    if model.fit_status_:
        return "not converged"
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
    return "exact" if certificate.exact else "refined" if certificate.rounds else "reduced"


def _stream(rng: np.random.Generator) -> str:
    problem = random_problem(rng)
    refine = pick(rng, [0, 0, 1, 2, "auto"])
    model = _model(rng, problem, refine).set_params(**random_budget(rng))
    if len(problem.present) < 2:
        return _refused(
            model, model.fit_stream, problem, ("class", "memory_budget", "sample_weight")
        )
    try:
        model.fit_stream(problem.chunks())
    except ValueError as error:
        return _over_budget(model, error)
    if model.fit_status_:
        return "not converged"
    _check_held(model, problem)
    ours = objective(model, problem)
    _check_theorem_2(model.certificate_, ours)
    _check_predictions(model, problem)
    found = _certified(rng, model, problem, ours)
    if refine == 0:
        _check_is_the_svm_of_its_set(model, problem)
        other = AESVC(**model.get_params())
        other.set_params(**with_gamma(problem, model.gamma_).kernel)
        _chunk_by_chunk(other, problem, classes=np.unique(problem.y))
        for mine, theirs in zip(model.select(), other.select(), strict=True):
            same = (mine != theirs).sum() == 0
            assert same, "partial_fit and fit_stream hold other rows"
        if not other.fit_status_:
            _check_is_the_svm_of_its_set(other, problem)
    return found


def _model(rng: np.random.Generator, problem: Problem, refine: int | str) -> AESVC:
    class_weight = None
    if rng.random() < 0.3:
        some = {label: 10.0 ** rng.uniform(-1, 1) for label in np.unique(problem.y).tolist()}
        class_weight = pick(rng, ["balanced", some])
    return AESVC(
        C=problem.C,
        refine=refine,
        class_weight=class_weight,
        decision_function_shape="ovo",
        cache_size=pick(rng, [0, 200]),
        shrinking=bool(rng.integers(2)),
        **problem.kernel,
        **random_reduction(rng),
    )


def _certified(rng: np.random.Generator, model: AESVC, problem: Problem, ours: float) -> str:
    """The certificate of a pass over all rows, cut in other chunks; other rows are refused."""
    cuts = np.sort(rng.integers(0, len(problem.y) + 1, size=3))
    certificate = model.certify_stream(problem._replace(cuts=cuts).chunks())
    off = abs(certificate.objective - ours)
    assert off <= ROUNDING * ours + rounding_of_losses(model, problem), f"objective off by {off}"
    damaged = _damaged(rng, problem)
    _check_refuses(model, lambda: model.certify_stream(damaged.chunks()))
    return "sampled" if np.isinf(certificate.max_residual) else f"rounds: {certificate.rounds}"


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


def _refused(estimator: Any, fit: Callable, problem: Problem, words: tuple[str, ...]) -> str:
    """A fit that must fail, with a message that has one of some words, and leave nothing."""
    data = (problem.chunks(),) if fit.__name__ == "fit_stream" else problem[:3]
    try:
        fit(*data)
    except ValueError as error:
        if not any(word in str(error) for word in words):
            raise
        _check_state(estimator, {})
        return "refused"
    raise AssertionError("what has too few classes, or no weight, was fitted")


def _over_budget(estimator: Any, error: ValueError) -> str:
    words = "one row of each class" if estimator.on_overflow == "loosen" else "memory_budget"
    if estimator.memory_budget is None or words not in str(error):
        raise error
    _check_state(estimator, {})
    return f"over budget, {estimator.on_overflow}"


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


def _damaged(rng: np.random.Generator, problem: Problem) -> Problem:
    """With other rows, classes, or weights."""
    at = int(rng.integers(len(problem.y)))
    X, y, weights = problem.X.copy(), problem.y.copy(), problem.used.copy()
    what = pick(rng, ["value", "class", "weight", "row", "fewer", "more"])
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


def _faulty_source(rng: np.random.Generator) -> str:
    problem = random_problem(rng, n_classes=int(rng.integers(2, 5)))
    estimator: Any = _model(rng, problem, pick(rng, [0, 1, 2, "auto"]))
    if rng.random() < 0.2:
        estimator = RepresentativeSet(**problem.kernel, **random_reduction(rng))
    if len(problem.present) < 2:
        return "too few classes"
    if rng.random() < 0.5:
        estimator.fit_stream(problem.chunks())
    before = _state(estimator)
    first = int(isinstance(problem.kernel.get("gamma"), str))  # the pass after that for gamma
    which, raises, failing = int(rng.integers(4)), rng.random() < 0.5, None
    other = _damaged(rng, problem)
    chunks = problem.chunks()
    at = int(rng.integers(len(chunks)))

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
        return "failed"
    except ValueError:
        if raises or which >= source.n_passes:
            raise
        _check_state(estimator, before)
        return "refused"
    unseen = failing is None or failing < first or source.n_passes == first + 1
    assert unseen, f"pass {failing} of {source.n_passes} gave other rows"
    return "not reached" if failing is None else "of no consequence"
