"""Fits to rows that are elsewhere: streams, sources that are read again, clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d

from aesvm.certificate.certificate import Certificate
from aesvm.certificate.history import columns_of
from aesvm.estimators.learning import Learning
from aesvm.estimators.parameters import (
    kernel_spec,
    plan_elsewhere,
    solver_options,
    trained_with,
)
from aesvm.estimators.prediction import model_of
from aesvm.estimators.streams import reducer_of
from aesvm.estimators.trained import TrainedOn, check_as_trained, set_trained
from aesvm.estimators.validation import check_labels
from aesvm.kernels.joint import TargetScale
from aesvm.machines.plan import Rounds, Span
from aesvm.machines.results import Terms
from aesvm.machines.rounds import Policy
from aesvm.out_of_core.elsewhere import Answers, GatheredRows
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.out_of_core.reread import RereadSource
from aesvm.out_of_core.source import KnownRows
from aesvm.out_of_core.tally import ClassCounts
from aesvm.out_of_core.training import GatheredFit, GatheredTrainer, StreamedModel, certify
from aesvm.representative_set import set_of, set_rows
from aesvm.runtime.progress import Progress
from aesvm.sets.digest import Digest


def set_gathered(
    estimator: Any, fit: GatheredFit, n_rows: int, digest: Digest, plan: Rounds | Span
) -> None:
    """Write the fitted attributes of an estimator of rows that are not in memory."""
    chosen = set_of(estimator, fit.first_tol)
    set_rows(chosen, fit.first, n_rows, estimator.gamma_)
    trained_on = TrainedOn(
        False,
        digest,
        trained_with(estimator),
        fit.hull_tol,
        n_rows,
        fit.n_solved,
        fit.records,
        Terms.of([]),
        kernel_spec(estimator, estimator.gamma_).definiteness,
        fit.n_vectors,
        columns_of(fit.history),
    )
    shape = (n_rows, estimator.n_features_in_)
    set_trained(estimator, fit.fitted, trained_on, chosen, shape, plan, fit.cut_short)


def gathered_trainer(
    estimator: Any,
    learning: Learning,
    counts: ClassCounts,
    scale: TargetScale | None,
    run: Callable,
    progress: Progress,
) -> GatheredTrainer:
    """Trains the machines of some rows, with an estimator's parameters."""
    spec = kernel_spec(estimator, estimator.gamma_)
    learner = learning.gathered(estimator, counts, scale, spec)
    return GatheredTrainer(learner, spec, solver_options(estimator), run, progress)


def train_on_stream(
    estimator: Any,
    learning: Learning,
    streamed: StreamedModel,
    run: Callable,
    progress: Progress,
    source: Iterable | None = None,
) -> StreamedModel:
    """Write the model of a stream so far; of all rows again where a source has them, as
    ``refine`` and ``max_vectors`` say.
    """
    stream = streamed.stream
    estimator.gamma_ = stream.spec.gamma
    reduce = reducer_of(estimator, stream).at_levels(run, progress)
    tree = stream.tree.settled(reduce)
    held = GatheredRows(tree.condensed(reduce), tree.hull_tol)
    counts = streamed.counts()
    trainer = gathered_trainer(estimator, learning, counts, stream.scale, run, progress)
    learning.check_weights(estimator, counts.classes, stream.tally.weights_of(counts.classes))
    now = replace(
        streamed, trained_at=stream.n_rows, trained_digest=stream.tally.digest, refined=False
    )
    if estimator.max_vectors is None and source is not None and progress.is_over():
        progress.cut_short("no round was made")
        source = None
    plan = plan_elsewhere(estimator, asked_again=source is not None)
    progress.say(f"plan: {plan}")
    if isinstance(plan, Span):
        answers = None
        if source is not None:
            tol = held.hull_tol
            answers = reread(estimator, learning, now, source, held, tol, run, progress)
        fit = trainer.train_in_span(*held, plan, stream.n_rows, answers)
    elif source is None:
        fit = trainer.train(*held, streamed.start_of)
    else:
        # the set that is held stays fine: the stream may go on
        first_tol = max(held.hull_tol, plan.settings.hull_tol)
        first = reduce(held.rows, first_tol, None)
        answers = reread(estimator, learning, now, source, held, first_tol, run, progress)
        policy = Policy(plan, loosen=estimator.on_overflow == "loosen")
        fit = trainer.refine(first, first_tol, answers, estimator.hull_tol, policy)
    set_gathered(estimator, fit, stream.n_rows, stream.tally.digest, plan)
    return replace(now, refined=fit.refined, starts=fit.starts)


def reread(
    estimator: Any,
    learning: Learning,
    streamed: StreamedModel,
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
        partial(learning.chunk, estimator, None),
        reducer_of(estimator, stream),
        first_tol,
        held,
        bytes_of(estimator.memory_budget),
        run,
        progress,
    )


def certify_gathered(
    estimator: Any,
    learning: Learning,
    counts: ClassCounts,
    scale: TargetScale | None,
    answers: Answers,
) -> Certificate:
    """The certificate of a model of rows that are elsewhere, with all of them seen."""
    check_as_trained(estimator)
    known, model = TrainedOn.of(estimator), model_of(estimator)
    learner = learning.gathered(estimator, counts, scale, model.spec, fitted=True)
    records = certify(known.records, model, learner, answers, estimator.tol)
    return known._replace(records=records).keep(estimator)


def classes_of_stream(estimator: Any, before: StreamedModel | None, classes: Any) -> NDArray | None:
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
