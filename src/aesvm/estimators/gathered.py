"""Fits to rows that are elsewhere, in a stream or on a cluster: from a gathered set to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from aesvm.certificate.certificate import Certificate
from aesvm.certificate.history import columns_of
from aesvm.estimators.learning import Learning
from aesvm.estimators.parameters import (
    kernel_spec,
    plan_elsewhere,
    reduction_settings,
    solver_options,
    trained_with,
)
from aesvm.estimators.prediction import model_of
from aesvm.estimators.trained import TrainedOn, check_as_trained, set_trained
from aesvm.kernels.joint import TargetScale
from aesvm.machines.plan import Rounds, Span
from aesvm.machines.results import Terms
from aesvm.out_of_core.answers import Answers, RereadSource
from aesvm.out_of_core.gathered_training import GatheredFit, GatheredTraining, certify
from aesvm.out_of_core.merge_tree import bytes_of
from aesvm.out_of_core.source import ClassCounts, KnownRows, Tally, read_again
from aesvm.out_of_core.stream import StreamedModel
from aesvm.out_of_core.training_sets import StartOf
from aesvm.out_of_core.weighted_rows import GatheredRows
from aesvm.representative_set import set_of, set_rows
from aesvm.runtime.progress import Progress


class Gathered(NamedTuple):
    """What a stream or a cluster has gathered: a first set, and counts of all rows."""

    first: GatheredRows
    tally: Tally
    counts: ClassCounts
    scale: TargetScale | None  #: of targets that rows stand for each other with


def train_gathered(
    estimator: Any,
    plan: Rounds | Span,
    gathered: Gathered,
    answers: Answers | None,
    run: Callable,
    progress: Progress,
    start_of: StartOf | None = None,
) -> GatheredFit:
    """Train an estimator that has ``gamma_`` on a gathered set, and write its fitted attributes.

    ``answers``: the holder of the rows; None where they cannot be read again. ``start_of``:
    coefficients that machines begin with.
    """
    learning: Learning = estimator._learns
    first, tally, counts, scale = gathered
    spec = kernel_spec(estimator, estimator.gamma_)
    learner = learning.gathered(estimator, counts, scale, spec)
    learning.check_weights(estimator, counts.classes, tally.weights_of(counts.classes))
    progress.say(f"plan: {plan}")
    training = GatheredTraining(learner, solver_options(estimator), run, progress)
    loosen = estimator.on_overflow == "loosen"
    fit = training.train(plan, first, answers, estimator.hull_tol, loosen, start_of)
    chosen = set_of(estimator, fit.first.hull_tol)
    set_rows(chosen, fit.first.rows, tally.n_rows, estimator.gamma_)
    trained_on = TrainedOn(
        in_memory=False,
        digest=tally.digest,
        parameters=trained_with(estimator),
        hull_tol=fit.hull_tol,
        n_rows=tally.n_rows,
        n_solved=tally.n_rows if fit.n_solved is None else fit.n_solved,
        records=fit.records,
        multipliers=Terms.of([]),
        definiteness=spec.definiteness,
        n_vectors=fit.n_vectors,
        history=columns_of(fit.history),
    )
    shape = (tally.n_rows, estimator.n_features_in_)
    cut_short = progress.ending.message()
    set_trained(estimator, fit.fitted, trained_on, chosen, shape, plan, cut_short)
    return fit


def train_on_stream(
    estimator: Any,
    streamed: StreamedModel,
    run: Callable,
    progress: Progress,
    source: Iterable | None = None,
) -> StreamedModel:
    """Train and write the model of a stream so far.

    ``source``: the rows again, where ``refine`` or ``max_vectors`` makes use of them.
    """
    stream = streamed.stream
    estimator.gamma_ = stream.spec.gamma
    reduce = stream.reducer(reduction_settings(estimator)).at_levels(run, progress)
    tree = stream.tree.settled(reduce)
    held = GatheredRows(tree.condensed(reduce), tree.hull_tol)
    now = replace(
        streamed, trained_at=stream.n_rows, trained_digest=stream.tally.digest, refined=False
    )
    if estimator.max_vectors is None and source is not None and progress.is_over():
        progress.cut_short("no round was made")
        source = None
    plan = plan_elsewhere(estimator, asked_again=source is not None)
    first = held
    if isinstance(plan, Rounds) and source is not None:
        # the set that is held stays fine: the stream may go on
        first_tol = max(held.hull_tol, plan.settings.hull_tol)
        first = GatheredRows(reduce(held.rows, first_tol, None), first_tol)
    answers = None
    if source is not None:
        answers = reread(estimator, now, source, held, first.hull_tol, run, progress)
    gathered = Gathered(first, stream.tally, streamed.counts(), stream.scale)
    fit = train_gathered(estimator, plan, gathered, answers, run, progress, streamed.start_of)
    return replace(now, refined=fit.refined, starts=fit.starts)


def reread(
    estimator: Any,
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
    seen = streamed.trained_at, streamed.trained_digest, stream.digests
    known = KnownRows(*seen, stream.is_sparse, same_chunks)
    validate = partial(estimator._learns.chunk, estimator, None)
    return RereadSource(
        partial(read_again, source, known, validate, progress),
        stream.reducer(reduction_settings(estimator)).at_levels(run, progress),
        first_tol,
        held,
        bytes_of(estimator.memory_budget),
        run,
    )


def certify_gathered(
    estimator: Any, counts: ClassCounts, scale: TargetScale | None, answers: Answers
) -> Certificate:
    """The certificate of a model of rows that are elsewhere, with all of them seen."""
    check_as_trained(estimator)
    known, model = TrainedOn.of(estimator), model_of(estimator)
    learner = estimator._learns.gathered(estimator, counts, scale, model.spec, fitted=True)
    records = certify(known.records, model, learner, answers)
    return known._replace(records=records).keep(estimator)
