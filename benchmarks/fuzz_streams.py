"""Small random problems, in memory and in chunks, held against what the mathematics promises.

Sets are measured by non-negative least squares, models by their objective in double precision
and by scikit-learn's SVC, whose objective no lower bound may exceed. Sources that fail or change
must be noticed, and leave the estimator as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC

from aesvm import AESVC, RepresentativeSet
from aesvm.out_of_core import merge_tree
from benchmarks.fuzz_files import pick
from tests import oracles

#: What rounding may do to kernel values, as a share of the largest.
_ROUNDING = 1e-5

_LABELS = [np.arange(4), np.array([-7.0, 0.0, 1.0, 9.0]), np.array(["", "a", "b", "ccc"])]
_LABELS += [np.array([2**60, 2**60 + 1, -3, 5])]


class SourceError(Exception):
    """What a source raises that fails."""


class Problem(NamedTuple):
    """Rows with classes and weights, a kernel and a C, cut into chunks."""

    X: Any
    y: NDArray
    weights: NDArray[np.float64] | None
    kernel: dict[str, Any]
    C: float
    cuts: NDArray[np.intp]

    @property
    def used(self) -> NDArray[np.float64]:
        return np.ones(len(self.y)) if self.weights is None else self.weights

    @property
    def present(self) -> NDArray:
        """Classes with a row of non-zero weight."""
        return np.unique(self.y[self.used > 0])

    def chunks(self) -> list[tuple[Any, NDArray, NDArray | None]]:
        ends = [0, *self.cuts.tolist(), len(self.y)]
        parts = [slice(first, last) for first, last in zip(ends, ends[1:], strict=False)]
        return [
            (self.X[part], self.y[part], None if self.weights is None else self.weights[part])
            for part in parts
        ]

    def gram(self, gamma: float, Y: Any = None) -> NDArray[np.float64]:
        return oracles.kernel(self.X, Y, **{**self.kernel, "gamma": gamma})


def trial(rng: np.random.Generator, folder: Path) -> str:
    kinds: dict[str, Callable[[np.random.Generator], str]] = {
        "set": _set,
        "stream of a set": _stream_of_a_set,
        "memory": _memory,
        "stream": _stream,
        "faulty source": _faulty_source,
    }
    name = pick(rng, list(kinds))
    with mock.patch.object(merge_tree, "BUFFER_ROWS", int(np.exp(rng.uniform(0, 6)))):
        return f"{name}: {kinds[name](rng)}"


# Problems


def _problem(rng: np.random.Generator, n_classes: int | None = None) -> Problem:
    n, d = int(np.exp(rng.uniform(1.2, 4.5))), int(rng.integers(1, 5))
    labels = pick(rng, _LABELS)
    y = labels[rng.integers(n_classes or int(rng.integers(1, 5)), size=n)]
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 1)
    if rng.random() < 0.4:
        X = np.round(X)
    if rng.random() < 0.3:
        X = X[rng.integers(max(1, n // 4), size=n)]
    X = pick(rng, [_same, np.float32, np.asfortranarray, sp.csr_array, sp.csr_matrix, _single])(X)
    weights = None
    if rng.random() < 0.6:
        decades = pick(rng, [0, 1, 6])
        weights = 10.0 ** rng.uniform(-decades, decades, n) * (rng.random(n) < 0.8)
    name = pick(rng, ["rbf", "rbf", "linear", "poly"])
    kernel: dict[str, Any] = {"kernel": name}
    if name != "linear":
        kernel["gamma"] = pick(rng, ["scale", "auto", 10.0 ** rng.uniform(-2, 1)])
    if name == "poly":
        kernel |= {"degree": int(rng.integers(0, 3)), "coef0": float(rng.integers(0, 2))}
    cuts = np.sort(rng.integers(0, n + 1, size=int(rng.integers(0, 8))))
    return Problem(X, y, weights, kernel, 10.0 ** rng.uniform(-2, 2), cuts)


def _same(X: NDArray) -> NDArray:
    return X


def _single(X: NDArray) -> sp.csr_array:
    return sp.csr_array(X.astype(np.float32))


def _reduction(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(1, 50))
    return {
        "hull_tol": pick(rng, [0.0, 1e-3, 0.1, 10.0 ** rng.uniform(-6, 1)]),
        "subset_size": size,
        "partition_size": size * int(rng.integers(1, 5)),
        "partition": pick(rng, ["distance", "sequence"]),
    }


def _budget(rng: np.random.Generator) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {}
    budget = int(np.exp(rng.uniform(0, 9)))
    return {"memory_budget": budget, "on_overflow": pick(rng, ["raise", "loosen"])}


def _numbered(problem: Problem, gamma: float) -> Problem:
    """With a number for gamma, as ``partial_fit`` needs."""
    if "gamma" not in problem.kernel:
        return problem
    return problem._replace(kernel={**problem.kernel, "gamma": gamma})


# Sets


def _set(rng: np.random.Generator) -> str:
    problem = _problem(rng)
    chosen = RepresentativeSet(**problem.kernel, **_reduction(rng), keep_combinations=True)
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
    assert off <= _ROUNDING * _largest(K), f"residuals are off by {off}"
    assert np.allclose(G[used].sum(axis=1), 1.0) and (G >= 0).all()
    assert np.allclose(problem.used @ G, chosen.weights_, rtol=1e-9)
    return "within its tolerance"


def _stream_of_a_set(rng: np.random.Generator) -> str:
    problem = _problem(rng)
    chosen = RepresentativeSet(**problem.kernel, **_reduction(rng), **_budget(rng))
    if not (problem.used > 0).any():
        return _refused(chosen, chosen.fit_stream, problem, ("sample_weight",))
    try:
        chosen.fit_stream(problem.chunks())
    except ValueError as error:
        return _over_budget(chosen, error)
    _check_held(chosen, problem)
    _check_set(chosen, problem, problem.gram(chosen.gamma_))
    other = RepresentativeSet(**chosen.get_params())
    other.set_params(**_numbered(problem, chosen.gamma_).kernel)
    try:
        _chunk_by_chunk(other, problem)
    except ValueError as error:
        assert "rows so far has a weight" in str(error), error
        return "no weight at first"
    assert np.array_equal(chosen.sample_indices_, other.sample_indices_)
    assert np.array_equal(chosen.weights_, other.weights_)
    return "sampled" if np.isinf(chosen.max_residual_) else "within its bound"


def _check_set(chosen: Any, problem: Problem, K: NDArray) -> None:
    """Weights are those of the classes, and rows as near as is said."""
    at, weights = chosen.sample_indices_, chosen.weights_
    assert (weights > 0).all() and (np.diff(at) > 0).all()
    limit = chosen.max_residual_ + _ROUNDING * _largest(K)
    if chosen.memory_budget is None:
        assert chosen.max_residual_ <= chosen.hull_tol + _ROUNDING * _largest(K)
    for label in np.unique(problem.y):
        own = problem.y == label
        total = problem.used[own].sum()
        assert np.isclose(weights[own[at]].sum(), total, rtol=1e-9), f"weights of {label}"
        rows = np.flatnonzero(own & (problem.used > 0))
        if len(rows) and np.isfinite(limit):
            far = oracles.hull_distances(K, rows, at[own[at]]).max()
            assert far <= limit, f"{far} from the hull of {label}, and not {limit}"


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
    problem = _problem(rng)
    refine = pick(rng, [0, 1, 2, "auto", "exact"])
    model = _model(rng, problem, refine).set_params(tol=pick(rng, [1e-3, 1e-5]))
    if len(problem.present) < 2:
        return _refused(model, model.fit, problem, ("class", "sample_weight", "weights"))
    model.fit(problem.X, problem.y, problem.weights)
    if model.fit_status_:
        return "not converged"
    certificate = model.certify(problem.X, problem.y, problem.weights)
    best, ours = _known_optimum(model, problem), _objective(model, problem)
    slack = 1e-9 * (best + ours)
    assert certificate.proven
    assert abs(certificate.objective - ours) <= certificate.gap + slack, "objective"
    assert certificate.dual_objective <= best + slack, "a lower bound above an optimum"
    assert ours - best <= certificate.gap + slack, "a gap below the excess"
    _check_theorem_2(certificate, ours)
    if certificate.exact:
        assert ours <= best + _tolerance(model, problem), f"{ours}, and not {best}"
    _check_predictions(model, problem)
    changed = problem.y.copy()
    changed[0] = np.setdiff1d(problem.y, changed[:1])[0]
    _check_refuses(model, lambda: model.certify(problem.X, changed, problem.weights))
    return "exact" if certificate.exact else "refined" if certificate.rounds else "reduced"


def _stream(rng: np.random.Generator) -> str:
    problem = _problem(rng)
    refine = pick(rng, [0, 0, 1, 2, "auto"])
    model = _model(rng, problem, refine).set_params(**_budget(rng))
    if len(problem.present) < 2:
        return _refused(model, model.fit_stream, problem, ("class", "memory_budget"))
    try:
        model.fit_stream(problem.chunks())
    except ValueError as error:
        return _over_budget(model, error)
    if model.fit_status_:
        return "not converged"
    _check_held(model, problem)
    ours = _objective(model, problem)
    _check_theorem_2(model.certificate_, ours)
    _check_predictions(model, problem)
    found = _certified(rng, model, problem, ours)
    if refine == 0:
        _check_is_the_svm_of_its_set(model, problem)
        other = AESVC(**model.get_params())
        other.set_params(**_numbered(problem, model.gamma_).kernel)
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
        **_reduction(rng),
    )


def _certified(rng: np.random.Generator, model: AESVC, problem: Problem, ours: float) -> str:
    """The certificate of a pass over all rows, cut in other chunks; other rows are refused."""
    cuts = np.sort(rng.integers(0, len(problem.y) + 1, size=3))
    certificate = model.certify_stream(problem._replace(cuts=cuts).chunks())
    off = abs(certificate.objective - ours)
    assert off <= _ROUNDING * ours + _rounding_of_losses(model, problem), f"objective off by {off}"
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
    best, ours = _known_optimum(model, held), _objective(model, held)
    assert ours <= best + _tolerance(model, held), f"F2 is {ours}, and not {best}"


def _check_predictions(model: AESVC, problem: Problem) -> None:
    """Decision values are the sums that the attributes say."""
    values = np.asarray(model.decision_function(problem.X)).reshape(len(problem.y), -1)
    for number, (scores, _, _) in enumerate(_pairs(model, problem)):
        off = np.abs(values[:, number] - scores).max()
        assert off <= _rounding_of_scores(model, problem), f"decision values are off by {off}"
    assert np.isin(model.predict(problem.X), problem.y).all()


def _pairs(model: Any, problem: Problem) -> Iterator[tuple[NDArray, float, NDArray]]:
    """Scores of all rows, the squared norm, and the sign of each row (or 0), pair by pair."""
    classes, vectors = model.classes_, model.support_vectors_
    K = problem.gram(model.gamma_, vectors)
    own = oracles.kernel(vectors, **{**problem.kernel, "gamma": model.gamma_})
    dual = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    of_class = np.repeat(np.arange(len(classes)), model.n_support_)
    for number, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        coefs = dual[j - 1] * (of_class == i) + dual[i] * (of_class == j)
        signs = (problem.y == classes[i]) * 1.0 - (problem.y == classes[j])
        if len(classes) == 2:
            signs = -signs
        scores = K @ coefs + model.intercept_[number]
        yield scores, float(coefs @ own @ coefs), signs


def _costs(model: Any, problem: Problem) -> NDArray[np.float64]:
    places = np.searchsorted(model.classes_, problem.y)
    return problem.C * model.class_weight_[places] * problem.used


def _objective(model: Any, problem: Problem) -> float:
    """F1 of all pairs of classes together, by the attributes, in double precision."""
    costs = _costs(model, problem)
    total = 0.0
    for scores, norm, signs in _pairs(model, problem):
        total += 0.5 * norm + (costs * (signs != 0)) @ np.maximum(0.0, 1.0 - signs * scores)
    return float(total)


def _known_optimum(model: AESVC, problem: Problem) -> float:
    """The objective that SVC reaches: no smaller than the optimum, and near it."""
    rows = np.flatnonzero(problem.used)
    few = problem._replace(
        X=problem.X[rows], y=problem.y[rows], weights=problem.used[rows], cuts=rows[:0]
    )
    places = np.searchsorted(model.classes_, few.y)
    kernel = {**problem.kernel, **({"gamma": model.gamma_} if "gamma" in problem.kernel else {})}
    weights = few.used * model.class_weight_[places]
    svc = SVC(C=problem.C, tol=1e-8, max_iter=200_000, decision_function_shape="ovo", **kernel)
    rows_64 = few.X.astype(np.float64)
    svc.fit(sp.csr_matrix(rows_64) if sp.issparse(rows_64) else rows_64, few.y, weights)
    svc.gamma_ = model.gamma_
    svc.class_weight_ = np.array(
        [model.class_weight_[model.classes_ == label][0] for label in svc.classes_]
    )
    return _objective(svc, few)


def _tolerance(model: AESVC, problem: Problem) -> float:
    """What the stopping criterion may leave of the objective, and rounding."""
    pairs = len(model.classes_) - 1
    return 2 * pairs * model.tol * float(_costs(model, problem).sum()) + _rounding_of_losses(
        model, problem
    )


def _rounding_of_scores(model: AESVC, problem: Problem) -> float:
    K = problem.gram(model.gamma_, model.support_vectors_)
    total = float(np.abs(model.dual_coef_).sum())
    return _ROUNDING * (total * (float(np.abs(K).max()) if K.size else 0.0) + 1.0)


def _rounding_of_losses(model: AESVC, problem: Problem) -> float:
    pairs = len(model.classes_) - 1
    return pairs * float(_costs(model, problem).sum()) * _rounding_of_scores(model, problem)


def _largest(K: NDArray) -> float:
    return max(1.0, float(np.abs(K).max()))


# What is refused


def _refused(estimator: Any, fit: Callable, problem: Problem, words: tuple[str, ...]) -> str:
    """A fit that must fail, with a message that has one of some words, and leave nothing."""
    data = (problem.chunks(),) if fit.__name__ == "fit_stream" else problem[:3]
    try:
        fit(*data)
    except ValueError as error:
        assert any(word in str(error) for word in words), f"another message: {error}"
        _check_state(estimator, {})
        return "refused"
    raise AssertionError("what has too few classes, or no weight, was fitted")


def _over_budget(estimator: Any, error: ValueError) -> str:
    assert estimator.memory_budget is not None and "memory_budget" in str(error), error
    if estimator.on_overflow == "loosen":
        assert "one row of each class" in str(error), error
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
    problem = _problem(rng, n_classes=int(rng.integers(2, 5)))
    estimator: Any = _model(rng, problem, pick(rng, [0, 1, 2, "auto"]))
    if rng.random() < 0.2:
        estimator = RepresentativeSet(**problem.kernel, **_reduction(rng))
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
    except ValueError as error:
        assert which < source.n_passes and not raises, error
        _check_state(estimator, before)
        return "refused"
    unseen = failing is None or failing < first or source.n_passes == first + 1
    assert unseen, f"pass {failing} of {source.n_passes} gave other rows"
    return "not reached" if failing is None else "of no consequence"
