"""``aesvm train``: LIBSVM's svm-train."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM
from aesvm.command.data import DataFile, DataOptions, Wanted, opened
from aesvm.command.formats import NATIVE
from aesvm.command.labels import meaning
from aesvm.command.libsvm_lines import (
    OUTLIER_OR_NOT,
    Agreement,
    Amounts,
    libsvm_order,
    solved,
    training_lines,
)
from aesvm.command.models import check_model_path, is_native, note_columns, save_model
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.io import Chunk
from aesvm.io.libsvm_model import whole_labels
from aesvm.runtime.warn import warn

#: By LIBSVM's numbers.
_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")

#: The types of SVM and of kernel that a flag is about, by LIBSVM's numbers; others are about all.
_OF_FLAGS: dict[str, tuple[Container[int], Container[int]]] = {
    "-c": ((0, 3, 4), range(5)),
    "-n": ((1, 2, 4), range(5)),
    "-p": ((3,), range(5)),
    "-g": (range(5), (1, 2, 3)),
    "-d": (range(5), (1,)),
}


def train(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Train a model on a data file, and write it; with ``folds``, cross-validate instead.

    ``options``: LIBSVM's flags by their meaning, and ours, as ``app.train`` declares them.
    """
    data, model = options.data, options.model
    _check(options)
    native = is_native(model, options.native)
    model_path = model or _default_name(data, native)
    if options.folds is None:
        check_model_path(model_path, [data, *columns.files])
    is_matrix = options.kernel_type == 4
    wanted = Wanted(needs_target=options.svm_type != 2, is_matrix=is_matrix)
    with opened(data, columns, wanted) as file:
        file.note_target(columns, screen)
        estimator = estimator_of(options, file.n_features)
        if file.is_large:
            if options.folds is not None or is_matrix:
                flag = "-t 4" if is_matrix else "-v"
                raise UsageError(f"{flag} needs all rows in memory, and {file.why_streamed()}.")
            labels = _labels(file, estimator)
            _check_labels(labels, estimator, file, native)
            leave_out_unknown(labels, estimator)
            screen.note(file.why_streamed())
            estimator.set_params(memory_budget=int(file.limit), on_overflow="loosen")
            with screen.progress(estimator):
                estimator.fit_stream(file.reader)
            _settle_ties(estimator, labels)
            amounts = Amounts(None if columns.is_weighted else estimator.n_seen_, None, None)
        else:
            rows = file.rows()
            _check_labels(rows.y, estimator, file, native or options.folds is not None)
            leave_out_unknown(rows.y, estimator)
            if options.folds is not None:
                _cross_validate(estimator, rows, file.name, options, screen)
                return
            with screen.progress(estimator):
                estimator.fit(*rows)
            _settle_ties(estimator, rows.y)
            amounts = Amounts.of(estimator, *rows)
        if native:
            note_columns(estimator, estimator, file.feature_names, file.target)
        save_model(estimator, model_path, native)
    _report(estimator, amounts, model_path, screen)


def _settle_ties(estimator: Any, y: Any) -> None:
    """Have ties of votes go to the class that comes first in y, as LIBSVM does."""
    if hasattr(estimator, "classes_"):
        estimator.tie_order_ = np.array(libsvm_order(estimator.classes_, y))


def estimator_of(options: Any, n_features: int) -> Any:
    """The estimator that LIBSVM's flags ask for."""
    parameters: dict[str, Any] = {
        "kernel": _KERNELS[options.kernel_type],
        "coef0": options.coef0,
        "cache_size": options.cache_size,
        "tol": options.tol,
        "shrinking": bool(options.shrinking),
        "hull_tol": options.hull_tol,
        "refine": int(options.refine) if options.refine.isdecimal() else options.refine,
        "max_vectors": options.max_vectors,
        "time_limit": options.time_limit,
        "n_jobs": options.jobs,
    }
    if _applies("-d", options):
        parameters["degree"] = options.degree
    if _applies("-g", options):
        parameters["gamma"] = options.gamma or 1.0 / n_features
    weights = class_weights(options.class_weight)
    if options.svm_type == 0:
        return AESVC(C=options.C, class_weight=weights, **parameters)
    if options.svm_type == 1:
        return AENuSVC(nu=options.nu, **parameters)
    if options.svm_type == 2:
        return AEOneClassSVM(nu=options.nu, **parameters)
    if options.svm_type == 3:
        return AESVR(C=options.C, epsilon=options.epsilon, **parameters)
    return AENuSVR(C=options.C, nu=options.nu, **parameters)


def _check(options: Any) -> None:
    if options.probability:
        raise UsageError(
            "-b 1: probabilities are not part of the model; in Python, CalibratedClassifierCV of "
            "scikit-learn makes them of any classifier."
        )
    for name, number in (("-c", options.C), ("-e", options.tol), ("-m", options.cache_size)):
        if _applies(name, options) and not 0 < number < np.inf:
            raise UsageError(f"{name} {number:g}: a number above 0 is needed.")
    for name, number in (("-p", options.epsilon), ("-g", options.gamma), ("-d", options.degree)):
        if _applies(name, options) and not 0 <= number < np.inf:
            raise UsageError(f"{name} {number:g}: a number of at least 0 is needed.")
    if _applies("-n", options) and not 0 < options.nu <= 1:
        raise UsageError(f"-n {options.nu:g}: a number above 0, and at most 1, is needed.")
    check_time_limit(options.time_limit)
    class_weights(options.class_weight)
    if not (options.refine in ("auto", "exact") or options.refine.isdecimal()):
        raise UsageError(f"--refine {options.refine}: auto, exact or a number is needed.")


def check_time_limit(seconds: float | None) -> None:
    """Refuse a ``--time-limit`` that is no time."""
    if seconds is not None and not 0 < seconds < np.inf:
        raise UsageError(f"--time-limit {seconds:g}: seconds above 0 are needed.")


def _applies(flag: str, options: Any) -> bool:
    """Whether a flag means something; LIBSVM passes by what is said with one that does not."""
    svms, kernels = _OF_FLAGS.get(flag, (range(5), range(5)))
    return options.svm_type in svms and options.kernel_type in kernels


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


def _default_name(data: str, native: bool) -> str:
    name = "standard_input" if data == "-" else Path(data).name
    return name + (NATIVE if native else ".model")


def _check_labels(y: Any, estimator: Any, file: DataFile, any_will_do: bool) -> None:
    """Refuse classes that cannot be written, before training."""
    if any_will_do or y is None or not isinstance(estimator, AESVC | AENuSVC):
        return
    try:
        whole_labels(np.unique(y))
    except ValueError as error:
        raise CommandError(
            f"{file.name}: LIBSVM's model files have whole numbers of 32 bits for classes, and "
            "there are others: --native writes a model file that has any. Where they are values, "
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
    machines = solved(estimator, amounts)
    n_support = len(estimator.support_)
    classifies = hasattr(estimator, "classes_")
    for line in training_lines(machines, n_support, classifies):
        screen.line(line)
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
