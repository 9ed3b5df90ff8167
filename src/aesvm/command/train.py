"""``aesvm train``: LIBSVM's svm-train, and the lines that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import validate_parameter_constraints

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM, compiling
from aesvm.command.data import DataFile, DataOptions, Wanted, opened
from aesvm.command.formats import NATIVE, meaning, suffix_of
from aesvm.command.models import (
    OUTLIER_OR_NOT,
    Agreement,
    check_model_path,
    checked_device,
    note_columns,
    save_model,
)
from aesvm.command.screen import CommandError, Screen, UsageError, flag_of
from aesvm.io import Chunk
from aesvm.io.libsvm_model import whole_labels
from aesvm.machines.one_vs_one import as_array
from aesvm.runtime.warn import warn
from aesvm.sets.distinct import distinct_rows

#: By LIBSVM's numbers.
_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")


def train(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Train a model on a data file, and write it; with ``folds``, cross-validate instead.

    ``options``: LIBSVM's flags by their meaning, and ours, as ``app.train`` declares them.
    """
    if options.probability:
        raise UsageError(
            "-b 1: probabilities are not part of the model; in Python, CalibratedClassifierCV of "
            "scikit-learn makes them of any classifier."
        )
    estimator, data = estimator_of(options), options.data
    name = "standard_input" if data == "-" else Path(data).name
    model_path = options.model or f"{name}.model"
    if options.folds is None:
        check_model_path(model_path, [data, *columns.files])
    is_matrix = options.kernel_type == 4
    wanted = Wanted(needs_target=options.svm_type != 2, is_matrix=is_matrix)
    with opened(data, columns, wanted) as file:
        file.note_target(columns, screen)
        if file.is_large:
            if options.folds is not None or is_matrix:
                flag = "-t 4" if is_matrix else "-v"
                raise UsageError(f"{flag} needs all rows in memory, and {file.why_streamed()}.")
            labels = _labels(file, estimator)
            _check_labels(labels, estimator, file, model_path)
            leave_out_unknown(labels, estimator)
            screen.note(file.why_streamed())
            estimator.set_params(memory_budget=int(file.limit), on_overflow="loosen")
            with screen.progress(estimator):
                estimator.fit_stream(file.reader)
            _settle_ties(estimator, labels)
            amounts = Amounts(None if columns.is_weighted else estimator.n_seen_, None, None)
        else:
            rows = file.rows()
            if options.folds is None:
                _check_labels(rows.y, estimator, file, model_path)
            leave_out_unknown(rows.y, estimator)
            if options.folds is not None:
                _cross_validate(estimator, rows, file.name, options, screen)
                return
            with screen.progress(estimator):
                estimator.fit(*rows)
            _settle_ties(estimator, rows.y)
            amounts = Amounts.of(estimator, *rows)
        if suffix_of(model_path) == NATIVE:
            note_columns(estimator, estimator, file.feature_names, file.target)
        save_model(estimator, model_path)
    _report(estimator, amounts, model_path, screen)


def _settle_ties(estimator: Any, y: Any) -> None:
    """Have ties of votes go to the class that comes first in y, as LIBSVM does."""
    if hasattr(estimator, "classes_"):
        estimator.tie_order_ = np.array(libsvm_order(estimator.classes_, y))


def estimator_of(options: Any) -> Any:
    """The estimator that LIBSVM's flags ask for; flags that do not apply are passed by."""
    kernel = _KERNELS[options.kernel_type]
    parameters: dict[str, Any] = {
        "kernel": kernel,
        "coef0": options.coef0,
        "cache_size": options.cache_size,
        "tol": options.tol,
        "shrinking": bool(options.shrinking),
        "hull_tol": options.hull_tol,
        "refine": int(options.refine) if options.refine.isdecimal() else options.refine,
        "max_vectors": options.max_vectors,
        "time_limit": options.time_limit,
        "device": checked_device(options.device),
        "n_jobs": options.jobs,
    }
    if kernel == "poly":
        parameters["degree"] = options.degree
    if kernel in ("poly", "rbf", "sigmoid"):
        parameters["gamma"] = options.gamma or "auto"
    weights = class_weights(options.class_weight)
    C, nu, epsilon = options.C, options.nu, options.epsilon
    estimators = (
        partial(AESVC, C=C, class_weight=weights),
        partial(AENuSVC, nu=nu),
        partial(AEOneClassSVM, nu=nu),
        partial(AESVR, C=C, epsilon=epsilon),
        partial(AENuSVR, C=C, nu=nu),
    )
    estimator = estimators[options.svm_type](**parameters)
    for parameter, value in estimator.get_params().items():
        try:
            validate_parameter_constraints(
                estimator._parameter_constraints, {parameter: value}, type(estimator).__name__
            )
        except ValueError as error:
            raise UsageError(f"{flag_of(parameter)} {value}: {error}") from error
    return estimator


def class_weights(given: list[str] | None) -> dict[Any, float] | str | None:
    """``1=5`` as LIBSVM's ``-w1 5``, classes of text by their names; or "balanced"."""
    if given == ["balanced"]:
        return "balanced"
    weights: dict[Any, float] = {}
    for one in given or ():
        name, _, value = one.rpartition("=")
        label = meaning(name)
        try:
            weight = float(value)
        except ValueError:
            weight = np.nan
        if not (name and 0 < weight < np.inf):
            raise UsageError(f"--class-weight {one}: CLASS=WEIGHT is needed, a weight above 0.")
        weights[label] = weights.get(label, 1.0) * weight  # as LIBSVM has it
    return weights or None


def _check_labels(y: Any, estimator: Any, file: DataFile, model_path: str) -> None:
    """Refuse classes that cannot be written, before training."""
    if suffix_of(model_path) == NATIVE or not isinstance(estimator, AESVC | AENuSVC):
        return
    try:
        whole_labels(np.unique(y))
    except ValueError as error:
        raise CommandError(
            f"{file.name}: LIBSVM's model files have whole numbers of 32 bits for classes, and "
            "there are others: a model file that ends with .aesvm has any. Where they are values, "
            "-s 3 learns a regression."
        ) from error


def _labels(file: DataFile, estimator: Any) -> Any:
    """The classes of a data file as they come, each once; None where there are none to learn."""
    if not isinstance(estimator, AESVC | AENuSVC):
        return None
    found: dict[Any, None] = {}
    for chunk in file.reader:
        values, firsts = np.unique(chunk.y, return_index=True)
        found.update(dict.fromkeys(values[np.argsort(firsts)].tolist()))
    return np.array(list(found))


def leave_out_unknown(y: Any, estimator: Any) -> None:
    """Weights of classes that do not occur are warned of, as LIBSVM does, and not used."""
    weights = getattr(estimator, "class_weight", None)
    if not isinstance(weights, dict):
        return
    classes = {meaning(one): one for one in np.unique(y).tolist()}
    known = {classes[one]: weights[one] for one in weights if one in classes}
    for label in set(weights) - set(classes):
        warn(f"class label {label} specified in weight is not found")
    estimator.set_params(class_weight=known or None)


def _cross_validate(estimator: Any, rows: Chunk, name: str, options: Any, screen: Screen) -> None:
    """Predict every row by a model that was trained without it."""
    from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold

    regression = isinstance(estimator, AESVR | AENuSVR)
    classifies = isinstance(estimator, AESVC | AENuSVC)
    n_rows, folds = rows.X.shape[0], options.folds or 2
    if rows.y is None:
        raise UsageError(
            f"-v: {name} has no targets to compare with: --target says which they are."
        )
    if folds > n_rows:
        warn("there are more folds than rows: each row is left out by itself")
    splits: Any = LeaveOneOut() if folds >= n_rows else KFold(folds, shuffle=True, random_state=0)
    targets = rows.y
    if classifies and folds < n_rows and folds <= np.unique(targets, return_counts=True)[1].max():
        splits = StratifiedKFold(folds, shuffle=True, random_state=0)
    one_class = isinstance(estimator, AEOneClassSVM)
    agreement = Agreement(regression, OUTLIER_OR_NOT if one_class else None)
    for kept, left_out in splits.split(rows.X, targets):
        weights = None if rows.weights is None else rows.weights[kept]
        X = rows.X[:, kept] if estimator.kernel == "precomputed" else rows.X
        with screen.progress(estimator):
            estimator.fit(X[kept], targets[kept], weights)
        _settle_ties(estimator, targets[kept])
        agreement.add(estimator.predict(X[left_out]), targets[left_out])
    agreement.warn_of_strangers(name)
    for line in agreement.lines(cross_validation=True):
        screen.answer(line)
    screen.result({"folds": folds, **agreement.found()})


def _report(estimator: Any, amounts: Amounts, model_path: str, screen: Screen) -> None:
    machines = libsvm_summaries(estimator, amounts)
    n_support = len(estimator.support_)
    classifies = hasattr(estimator, "classes_")
    for machine in machines:
        for line in machine.lines():
            screen.line(line)
    if classifies:
        screen.line(f"Total nSV = {n_support}")
    if not n_support:
        helps = "a smaller -e" if classifies else "with -s 3, a smaller -p"
        warn(
            f"the model has no support vectors, and predicts the same for all rows: {helps} is "
            "needed."
        )
    certificate = estimator.certificate_
    if not certificate.exact:
        screen.note(certificate.verdict())
    screen.result(
        {
            "model": model_path,
            "machines": [machine._asdict() for machine in machines],
            "total_sv": n_support,
            "exact": certificate.exact,
            "relative_gap": certificate.relative_gap,
        }
    )


#: A coefficient that is this near to its bound is at it.
_AT_BOUND = 1e-9


class LibsvmSummary(NamedTuple):
    """What LIBSVM prints of a machine; None where it prints nothing, or it does not apply."""

    n_iter: int
    obj: float | None
    rho: float
    n_sv: int
    n_bsv: int | None
    nu: float | None = None
    C: float | None = None
    epsilon: float | None = None

    def lines(self) -> Iterator[str]:
        """As LIBSVM prints them."""
        yield f"optimization finished, #iter = {self.n_iter}"
        for name in ("nu", "C", "epsilon"):
            if getattr(self, name) is not None:
                yield f"{name} = {getattr(self, name):.6f}"
        yield ("" if self.obj is None else f"obj = {self.obj:.6f}, ") + f"rho = {self.rho:.6f}"
        yield f"nSV = {self.n_sv}" + ("" if self.n_bsv is None else f", nBSV = {self.n_bsv}")


class Amounts(NamedTuple):
    """How much of the data machines are bounded by; None where it is not known."""

    total: float | None  #: the weights of all rows
    of_classes: NDArray | None  #: the same by class
    of_vectors: NDArray | None  #: of all rows that are equal to each support vector

    @classmethod
    def of(cls, model: Any, X: Any, y: NDArray | None, weights: NDArray | None) -> Amounts:
        """Those of rows in memory, which a model was fitted to."""
        weights = np.ones(X.shape[0]) if weights is None else weights
        codes = np.zeros(len(weights), dtype=np.intp)
        if y is not None and not isinstance(model, AEOneClassSVM):
            codes = np.unique(y, return_inverse=True)[1].astype(np.intp)
        of_classes = np.bincount(codes, weights) if hasattr(model, "classes_") else None
        of_vectors = None
        if model.certificate_.exact:
            of_vectors = weights[model.support_]
        if model.certificate_.exact and model.kernel != "precomputed":  # equal rows are one
            _, group = distinct_rows(X, codes)
            of_vectors = np.bincount(group, weights)[group[model.support_]]
        return cls(float(weights.sum()), of_classes, of_vectors)


def libsvm_summaries(model: Any, amounts: Amounts) -> list[LibsvmSummary]:
    """The machines of a fitted estimator, its classes in LIBSVM's order.

    A model in the span of few vectors has coefficients that are no solution of the dual problem:
    there is nothing to say of that.
    """
    dual = as_array(model.dual_coef_)
    n_iter, objective = np.atleast_1d(model.n_iter_), -model.dual_objective_  # as it is minimised
    if model.certificate_.n_vectors is not None:
        amounts, objective = Amounts(None, None, None), np.full(len(objective), np.nan)
    if hasattr(model, "classes_"):
        return _of_pairs(model, dual, amounts, n_iter, objective)
    alphas, cost = np.abs(dual[0]), getattr(model, "C", 1.0)
    bounds = None if amounts.of_vectors is None else cost * amounts.of_vectors
    found = _summary(n_iter[0], objective[0], -model.intercept_[0], alphas, bounds)
    if hasattr(model, "epsilon") and amounts.total is not None:
        found = found._replace(nu=float(alphas.sum()) / (cost * amounts.total))
    elif hasattr(model, "epsilon_"):
        found = found._replace(epsilon=model.epsilon_)
    return [found]


def _of_pairs(
    model: Any, dual: NDArray, amounts: Amounts, n_iter: NDArray, objective: NDArray
) -> list[LibsvmSummary]:
    n_classes = len(model.classes_)
    order = range(n_classes) if model.tie_order_ is None else model.tie_order_.tolist()
    ends = np.cumsum(model.n_support_)
    of_class = [np.arange(end - n, end) for end, n in zip(ends, model.n_support_, strict=True)]
    numbers = {pair: at for at, pair in enumerate(combinations(range(n_classes), 2))}
    costs = getattr(model, "C", 1.0) * np.asarray(model.class_weight_)
    machines = []
    for first, second in combinations(order, 2):
        i, j = sorted((first, second))
        at = numbers[i, j]
        own = np.concatenate([of_class[i], of_class[j]])
        alphas = np.abs(np.concatenate([dual[j - 1, of_class[i]], dual[i, of_class[j]]]))
        total = bounds = C = nu = None
        if amounts.of_classes is not None:
            total = float(costs[i] * amounts.of_classes[i] + costs[j] * amounts.of_classes[j])
        if amounts.of_vectors is not None:
            bounds = np.repeat(costs[[i, j]], model.n_support_[[i, j]]) * amounts.of_vectors[own]
        if hasattr(model, "nu"):  # coefficients are divided by the margin, and came to nu total
            C = None if total is None else float(alphas.sum()) / (model.nu * total)
            bounds = None if bounds is None or C is None else C * bounds
        elif total is not None and costs[i] == costs[j]:
            nu = float(alphas.sum()) / total
        rho = -model.intercept_[at] * (-1 if n_classes == 2 else 1) * (1 if first == i else -1)
        scale = 1.0 if not hasattr(model, "nu") else np.nan if C is None else C**2
        found = _summary(n_iter[at], scale * objective[at], rho, alphas, bounds)
        machines.append(found._replace(nu=nu, C=C))
    return machines


def libsvm_order(classes: NDArray, y: NDArray) -> list[int]:
    """Classes as LIBSVM orders them: as they come, but +1 before -1."""
    firsts = [int(np.argmax(y == one)) for one in classes]
    order = sorted(range(len(classes)), key=firsts.__getitem__)
    if classes.dtype.kind in "iuf" and classes.tolist() == [-1, 1]:
        return [1, 0]
    return order


def _summary(
    n_iter: Any, objective: float, rho: float, alphas: NDArray, bounds: NDArray | None
) -> LibsvmSummary:
    used, n_bsv = alphas > 0, None
    if bounds is not None:
        n_bsv = int(np.sum(used & (alphas >= (1.0 - _AT_BOUND) * bounds)))
    known = float(objective) if np.isfinite(objective) else None
    return LibsvmSummary(int(n_iter), known, float(rho) + 0.0, int(used.sum()), n_bsv)  # no -0.0


def warm_up(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Compile, and say for how many kinds of fits that was needed."""
    n_compiled = compiling.warm_up()
    screen.answer(f"compiled code for {n_compiled} kinds of fits; it is in Numba's cache")
    screen.result({"compiled": n_compiled})
