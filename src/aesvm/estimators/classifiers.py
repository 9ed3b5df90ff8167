"""What classifiers share: fitted attributes written from values, and training on gathered rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from aesvm.certificate import Account, Certificate, certificate_of
from aesvm.estimators.class_weights import class_weights
from aesvm.estimators.feature_scales import warn_of_scales
from aesvm.estimators.fitting import fitting, set_fitted
from aesvm.estimators.pairwise import model_of
from aesvm.estimators.parameters import (
    check_unchanged,
    kernel_spec,
    reduction_settings,
    solver_options,
    trained_with,
)
from aesvm.estimators.streams import reducer_of, valid_chunk
from aesvm.estimators.validation import (
    check_labels,
    check_two_classes,
    valid_classes,
    valid_weights,
    validated_rows,
)
from aesvm.kernels import TrainingKernel, check_symmetric, resolve_gamma
from aesvm.machines import classifier
from aesvm.machines.fitted import FittedPairs, fitted_pairs, n_solved, warn_of_solver
from aesvm.machines.problem import total_of_costs
from aesvm.machines.rounds import COARSER, Policy
from aesvm.out_of_core.classifier import (
    GatheredFit,
    GatheredTrainer,
    StreamedClassifier,
    certify,
)
from aesvm.out_of_core.elsewhere import Answers, GatheredRows
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.out_of_core.reread import RereadSource
from aesvm.out_of_core.source import Chunk, KnownRows
from aesvm.out_of_core.tally import ClassCounts
from aesvm.representative_set import (
    RepresentativeSet,
    set_of,
    set_represented,
    set_rows,
    warn_given_up,
)
from aesvm.runtime.progress import Progress, say
from aesvm.runtime.warn import warn
from aesvm.sets.digest import digest


class TrainedOn(NamedTuple):
    """What a model was trained on and with, and what is kept of it for a certificate."""

    in_memory: bool
    digest: int  #: of the rows
    parameters: dict[str, Any]
    hull_tol: float
    n_rows: int  #: distinct rows in memory, or all of a stream
    n_solved: int  #: rows that were solved for
    accounts: list[Account]  #: of every pair of classes
    multipliers: list[Any]  #: rows and coefficients lifted to them; of rows in memory
    definiteness: str  #: of the kernel

    @classmethod
    def of(cls, estimator: Any) -> TrainedOn:
        """What a fitted estimator keeps."""
        check_is_fitted(estimator)
        kept = estimator._trained_on_
        return cls(**{**kept, "accounts": [Account(**account) for account in kept["accounts"]]})

    def keep(self, estimator: Any) -> Certificate:
        """Have an estimator keep it, as plain values: a file of them needs no type of ours."""
        accounts = [asdict(account) for account in self.accounts]
        estimator._trained_on_ = {**self._asdict(), "accounts": accounts}
        return self.certificate()

    def certificate(self) -> Certificate:
        return certificate_of(
            self.accounts,
            self.n_rows,
            self.n_solved,
            self.hull_tol,
            self.definiteness,
            self.in_memory,
        )


def certificate(estimator: Any) -> Certificate:
    """How close the model is to the exact SVM."""
    return TrainedOn.of(estimator).certificate()


def set_trained(
    estimator: Any,
    fitted: FittedPairs,
    trained_on: TrainedOn,
    chosen: RepresentativeSet,
    shape: tuple[int, int],
) -> None:
    """Write the fitted attributes of a classifier that has ``classes_`` and ``gamma_``."""
    set_fitted(estimator, fitted)
    estimator.representative_set_ = chosen
    estimator.shape_fit_ = shape
    certificate = trained_on.keep(estimator)
    warn_of_solver(fitted, certificate, estimator.tol, estimator.max_iter)
    doubt = certificate.doubt()
    if doubt and estimator.refine != 0:  # the paper's method alone was asked for
        warn(f"The model may be far from the exact SVM: {doubt}.")


def set_classes(estimator: Any, counts: ClassCounts) -> NDArray[np.float64]:
    """Write the classes and their weights; C times these is returned."""
    estimator.classes_ = counts.classes
    estimator.class_weight_ = class_weights(estimator.class_weight, counts.classes, counts.counts)
    with np.errstate(over="ignore"):
        return estimator.C * estimator.class_weight_


def fit_in_memory(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Check the input of a fit, train, and write the fitted attributes."""
    data = validated_rows(estimator, X, reset=True)
    y = valid_classes(y, data, type(estimator).__name__)
    weights = valid_weights(sample_weight, data)
    classes, labels = np.unique(y, return_inverse=True)
    check_two_classes(classes, labels, weights)
    counts = np.bincount(labels, minlength=len(classes))
    settings = reduction_settings(estimator)
    costs = set_classes(estimator, ClassCounts(classes, counts))
    with np.errstate(over="ignore"):
        total_of_costs(costs[labels] * weights)
    if estimator.kernel == "precomputed":
        check_symmetric(data)
    estimator.gamma_ = resolve_gamma(estimator.gamma, data, estimator.kernel)
    if estimator.kernel == "rbf":
        warn_of_scales(data)
    spec = kernel_spec(estimator, estimator.gamma_)
    rows = classifier.ClassRows(data, labels, weights, costs)
    with fitting(estimator, data, y, n_tasks=2) as (run, progress):
        kernel = TrainingKernel(spec, data, estimator.tol)
        first = classifier.first_set(rows, kernel, settings, estimator.refine, run, progress)
        options = solver_options(estimator)
        trained = classifier.train(
            rows, kernel, first, settings, options, estimator.refine, run, progress
        )
        known = digest(data, y, weights, run=run)
    warn_given_up(estimator, first)
    chosen = set_of(estimator, first.settings.hull_tol)
    set_represented(chosen, first, estimator.gamma_)
    trained_on = TrainedOn(
        True,
        known,
        trained_with(estimator),
        estimator.hull_tol,
        len(first.prepared.rows),
        n_solved([pair.machine for pair in trained]),
        [pair.account for pair in trained],
        [pair.multipliers for pair in trained],
        spec.definiteness,
    )
    vars(estimator).pop("n_seen_", None)  # of a stream before
    fitted = fitted_pairs(data, labels, trained, spec)
    set_trained(estimator, fitted, trained_on, chosen, data.shape)


def certify_in_memory(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Certificate:
    """The certificate of a model of rows in memory, with all of them seen."""
    known = TrainedOn.of(estimator)
    if not known.in_memory:
        raise ValueError(
            "certify wants all rows here, and the model was trained on rows that are "
            "elsewhere: use certify_stream."
        )
    check_unchanged(estimator, known.parameters)
    data = validated_rows(estimator, X, reset=False)
    y = valid_classes(y, data, type(estimator).__name__)
    weights = valid_weights(sample_weight, data)
    with fitting(estimator) as (run, _):
        if digest(data, y, weights, run=run) != known.digest:
            raise ValueError(
                f"X of shape {data.shape}, y or sample_weight is not what the model was "
                f"trained on, shape {estimator.shape_fit_}: certify wants the same rows, in the "
                "same order."
            )
        labels = np.searchsorted(estimator.classes_, y)
        costs = estimator.C * estimator.class_weight_
        model = model_of(estimator)
        accounts = classifier.certify(
            classifier.ClassRows(data, labels, weights, costs),
            model.spec,
            known.accounts,
            list(model.expansions()),
            known.multipliers,
            estimator.tol,
            run,
            partial(say, estimator),
        )
    return known._replace(accounts=accounts).keep(estimator)


def set_gathered(estimator: Any, fit: GatheredFit, n_rows: int, digest: int) -> None:
    """Write the fitted attributes of a classifier of rows that are not in memory."""
    chosen = set_of(estimator, fit.first_tol)
    set_rows(chosen, fit.first, n_rows, estimator.gamma_)
    trained_on = TrainedOn(
        False,
        digest,
        trained_with(estimator),
        fit.hull_tol,
        n_rows,
        fit.n_solved,
        fit.accounts,
        [],
        kernel_spec(estimator, estimator.gamma_).definiteness,
    )
    shape = (n_rows, estimator.n_features_in_)
    set_trained(estimator, fit.fitted, trained_on, chosen, shape)


def gathered_trainer(
    estimator: Any, counts: ClassCounts, run: Callable, progress: Progress
) -> GatheredTrainer:
    """Trains the pairs of some classes, with an estimator's parameters."""
    costs = set_classes(estimator, counts)
    spec = kernel_spec(estimator, estimator.gamma_)
    return GatheredTrainer(counts, costs, spec, solver_options(estimator), run, progress)


def policy_of(estimator: Any) -> Policy:
    return Policy(estimator.refine, loosen=estimator.on_overflow == "loosen")


def train_on_stream(
    estimator: Any,
    streamed: StreamedClassifier,
    run: Callable,
    progress: Progress,
    source: Iterable | None = None,
) -> StreamedClassifier:
    """Write the model of a stream so far; with a source that can be read again, after rounds."""
    stream = streamed.stream
    estimator.gamma_ = stream.spec.gamma
    reduce = reducer_of(estimator, stream).at_levels(run, progress)
    tree = stream.tree.settled(reduce)
    held = GatheredRows(tree.condensed(reduce), tree.hull_tol)
    trainer = gathered_trainer(estimator, streamed.counts(), run, progress)
    now = replace(
        streamed, trained_at=stream.n_rows, trained_digest=stream.tally.digest, refined=False
    )
    if source is None:
        fit = trainer.train(*held, streamed.start_of)
    else:
        # the set that is held stays fine: the stream may go on
        first_tol = max(held.hull_tol, COARSER * estimator.hull_tol)
        first = reduce(held.rows, first_tol, None)
        answers = reread(estimator, now, source, held, first_tol, run, progress)
        policy = policy_of(estimator)
        fit = trainer.refine(first, first_tol, answers, estimator.hull_tol, policy)
    set_gathered(estimator, fit, stream.n_rows, stream.tally.digest)
    return replace(now, refined=fit.rounds > 0, starts=fit.starts)


def reread(
    estimator: Any,
    streamed: StreamedClassifier,
    source: Iterable,
    held: GatheredRows,
    first_tol: float,
    run: Callable,
    progress: Progress,
    same_chunks: bool = True,
) -> RereadSource:
    """A source that is to give the rows again that the model of a stream was trained on."""
    stream = streamed.stream
    known = KnownRows(
        streamed.trained_at,
        streamed.trained_digest,
        stream.digests,
        stream.is_sparse,
        same_chunks,
    )
    return RereadSource(
        source,
        known,
        partial(valid_chunk, estimator),
        reducer_of(estimator, stream),
        first_tol,
        held,
        bytes_of(estimator.memory_budget),
        run,
        progress,
    )


def certify_gathered(estimator: Any, answers: Answers) -> Certificate:
    """The certificate of a model of rows that are elsewhere, with all of them seen."""
    known = TrainedOn.of(estimator)
    costs = estimator.C * estimator.class_weight_
    accounts = certify(known.accounts, model_of(estimator), costs, answers, estimator.tol)
    return known._replace(accounts=accounts).keep(estimator)


def chunk_of_classes(
    estimator: Any,
    streamed: StreamedClassifier | None,
    X: Any,
    y: Any,
    sample_weight: Any,
    first: bool,
) -> Chunk:
    """A chunk of rows that must have classes; of a stream, those that were announced."""
    if y is None:
        raise ValueError("y=None: a classifier needs the classes of the rows.")
    chunk = valid_chunk(estimator, X, y, sample_weight, first)
    if streamed is not None:
        streamed.check_classes(chunk.targets)
    return chunk


def classes_of_stream(
    estimator: Any, before: StreamedClassifier | None, classes: Any
) -> NDArray | None:
    """All classes there will be in a stream: announced in its first call, and the same since."""
    given = None if classes is None else _announced(classes)
    if before is None:
        given = getattr(estimator, "classes_", None) if given is None else given
        if given is None:
            raise ValueError(
                "classes=None: the first partial_fit of a stream needs all classes there "
                "will be, as in classes=[0, 1]."
            )
        return given
    if (
        given is not None
        and before.classes is not None
        and given.tolist() != before.classes.tolist()
    ):
        raise ValueError(
            f"classes={given.tolist()} were {before.classes.tolist()} in the first call of this "
            "stream."
        )
    return before.classes


def _announced(classes: Any) -> NDArray:
    try:
        given = column_or_1d(classes)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"classes={classes!r}: a list of all classes is needed, numbers or strings."
        ) from error
    check_labels(given, "classes")
    return np.unique(given)
