"""Fits to rows in memory: input checked, machines trained, fitted attributes written.

Also what a fitted estimator keeps of all that, for its certificate.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from math import isinf
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from aesvm.bases.span_training import SpanTraining, train_in_span
from aesvm.certificate.certificate import NOT_LOOKED, Certificate, certificate_of
from aesvm.certificate.history import columns_of, steps_of
from aesvm.certificate.records import Records
from aesvm.estimators.fit_warnings import (
    scale_factor,
    stopped_at_limit,
    warn_of_gap,
    warn_of_scales,
    warn_of_solver,
)
from aesvm.estimators.fitting import all_or_nothing, fitting, forget, set_fitted
from aesvm.estimators.learning import Learner
from aesvm.estimators.parameters import (
    check_unchanged,
    facts_of,
    kernel_spec,
    solver_options,
    trained_with,
)
from aesvm.estimators.prediction import model_of
from aesvm.estimators.validation import MANY_VALUES, from_gpu, valid_weights, validated_rows
from aesvm.kernels import NOT_DEFINITE, KernelSpec, check_symmetric, resolve_gamma
from aesvm.machines.fit import FitContext, counted, every_row, first_set, train
from aesvm.machines.fit_memory import check_memory
from aesvm.machines.forecast import expect
from aesvm.machines.ladder import Reached, train_in_time
from aesvm.machines.one_vs_one import Fitted
from aesvm.machines.plan import Exact, Ladder, Plan, Rounds, Span, check, outcome, plan, remedy
from aesvm.machines.processor import processor
from aesvm.machines.results import Terms, certify
from aesvm.machines.sharing import SharedWork
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.representative_set import RepresentativeSet, set_of, set_represented, warn_given_up
from aesvm.runtime.progress import say
from aesvm.runtime.scikit_learn import with_callbacks
from aesvm.runtime.warn import warn
from aesvm.sets.digest import Digest, differing, digest
from aesvm.sets.distinct import row_hashes

#: With ``refine=0``, a relative gap up to this causes no warning. Beyond it, the objective may be
#: more than twice that of the exact SVM.
_USUAL_GAP = 0.5


class TrainedOn(NamedTuple):
    """What a model was trained on and with, and what is kept of it for a certificate."""

    in_memory: bool
    digest: Digest  #: of the rows
    parameters: dict[str, Any]
    hull_tol: float
    n_rows: int  #: distinct rows in memory, or all of a stream
    n_solved: int  #: rows that were solved for
    records: Records  #: of every machine
    multipliers: Terms  #: coefficients lifted to all rows; of rows in memory
    definiteness: str  #: of the kernel
    n_vectors: int | None = None  #: of all machines together, where they are few by design
    history: dict[str, NDArray] = columns_of([])  #: see ``Step``
    plan: str = ""  #: what was planned, the counts that decided it, and what came of it
    remedy: str = ""  #: what to change, where a callback ended the fit before it was done
    stopped_after: float | None = None  #: see ``Certificate``
    exact_after: float | None = None
    model: dict[str, str] | None = None  #: see ``_hashes``; None in files of older versions

    @classmethod
    def of(cls, estimator: Any) -> TrainedOn:
        """What a fitted estimator keeps."""
        check_is_fitted(estimator)
        if not hasattr(estimator, "_trained_on_"):
            raise AttributeError(
                f"this {type(estimator).__name__} was read from a file without information on its "
                "training: it has no certificate_."
            )
        kept = estimator._trained_on_
        records, multipliers = Records(kept["records"]), Terms(**kept["multipliers"])
        return cls(**{**kept, "records": records, "multipliers": multipliers})

    def keep(self, estimator: Any) -> Certificate:
        """Have an estimator keep it, and its certificate.

        It is kept as plain values: a file of them needs no type of ours.
        """
        estimator._trained_on_ = {
            **self._asdict(),
            "model": _hashes(estimator),
            "records": self.records.columns,
            "multipliers": self.multipliers._asdict(),
        }
        return self.certificate()

    def changed(self, estimator: Any) -> list[str]:
        """Attributes that predict, and are no longer what was trained."""
        now, then = _hashes(estimator), self.model or {}
        return [name for name in then if now.get(name) != then[name]]

    def certificate(self) -> Certificate:
        return certificate_of(
            self.records,
            n_rows=self.n_rows,
            n_solved=self.n_solved,
            hull_tol=self.hull_tol,
            definiteness=self.definiteness,
            in_memory=self.in_memory,
            n_vectors=self.n_vectors,
            history=steps_of(self.history),
            plan=self.plan,
            remedy=self.remedy,
            stopped_after=self.stopped_after,
            exact_after=self.exact_after,
        )


#: Fitted attributes that predictions are made of.
_PREDICT = (
    "support_",
    "support_vectors_",
    "n_support_",
    "dual_coef_",
    "intercept_",
    "gamma_",
    "classes_",
)


def _hashes(estimator: Any) -> dict[str, str]:
    """A hash of each attribute that predicts, to see whether it was changed after training."""
    fitted = {name: getattr(estimator, name) for name in _PREDICT if hasattr(estimator, name)}
    return {name: _hash(values) for name, values in fitted.items()}


def _hash(values: Any) -> str:
    found = blake2b(digest_size=16)
    found.update(str(np.shape(values)).encode())
    if sp.issparse(values):
        values = row_hashes(values.tocsr())
    values = np.asarray(values)
    if values.ndim == 2 and values.size and values.dtype.kind == "f":  # many: in less time
        values = row_hashes(values)
    if values.dtype.kind in "iu":  # as wide in every copy, and in files
        values = values.astype(np.int64)
    is_plain = values.dtype.kind in "biuf"
    found.update(np.ascontiguousarray(values).data if is_plain else repr(values.tolist()).encode())
    return found.hexdigest()


def check_as_trained(estimator: Any) -> None:
    """Refuse to certify a model that is no longer the one that was trained."""
    changed = TrainedOn.of(estimator).changed(estimator)
    if changed:
        raise ValueError(f"{_said_of(changed)}: certify needs the model as fit left it.")


def _said_of(changed: list[str]) -> str:
    *others, last = changed
    names = f"{', '.join(others)} and {last} were" if others else f"{last} was"
    return f"{names} changed after training"


def check_same_rows(estimator: Any, known: TrainedOn, found: Digest, n_rows: int, how: str) -> None:
    """Refuse to certify with other rows than the model was trained on; say what is not the same.

    ``how``: in which order, or where, the rows are to be.
    """
    wanted = f"certify needs the rows that the model was trained on, {how}."
    if n_rows != estimator.shape_fit_[0]:
        before = f"{estimator.shape_fit_[0]:,}"
        raise ValueError(
            f"X has {n_rows:,} rows, and had {before} when the model was trained: {wanted}"
        )
    *others, last = differing(found, known.digest) or [""]
    if last:
        names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        if "X" in (*others, last):
            wanted += " The last step of a pipeline was trained on pipeline[:-1].transform(X)."
        raise ValueError(f"{names} not the same as when the model was trained: {wanted}")


def check_not_compressed(estimator: Any) -> None:
    """Refuse to certify a compressed model of a stream."""
    if not TrainedOn.of(estimator).in_memory and hasattr(estimator, "compression_"):
        raise ValueError(
            "a compressed model keeps nothing of its stream, so it cannot be certified: call "
            "certify_stream before compress."
        )


def certificate(estimator: Any) -> Certificate:
    """How close the model is to the exact SVM."""
    known = TrainedOn.of(estimator)
    changed = known.changed(estimator)
    if changed:
        warn(f"{_said_of(changed)}: certificate_ describes the model as fit left it.")
    return known.certificate()


def set_trained(
    estimator: Any,
    fitted: Fitted,
    trained_on: TrainedOn,
    chosen: RepresentativeSet,
    shape: tuple[int, int],
    plan: Plan,
    cut_short: str,
) -> None:
    """Write the fitted attributes of an estimator that has ``gamma_``.

    ``plan``: that of the fit; ``cut_short``: what a callback has cut short, which is warned of.
    """
    set_fitted(estimator, fitted)
    estimator.device_ = processor(estimator.device).name
    estimator.representative_set_ = chosen
    estimator.shape_fit_ = shape
    records = trained_on.records
    exact, n_rounds = bool(records["exact"].all()), int(records["rounds"].max())
    ended, advice = cut_short.removesuffix("."), ""
    if cut_short:
        advice = remedy(plan, trained_on.definiteness != NOT_DEFINITE)
    elif stopped_at_limit(fitted, estimator.tol, estimator.max_iter):
        ended, advice = f"max_iter={estimator.max_iter} was reached", "raise max_iter"
    done = outcome(plan, exact, n_rounds, ended)
    certificate = trained_on._replace(plan=done, remedy=advice).keep(estimator)
    if estimator.verbose:
        say(estimator, f"certificate: {certificate.verdict()}")
    if cut_short:
        known = "certificate_ says how close the model is."
        if certificate.estimated_gap is None and certificate.missing.get("gap") == NOT_LOOKED:
            known = f"How close the model is was not computed ({NOT_LOOKED})."
        warn(f"{cut_short} {known} To go further, {advice}.", ConvergenceWarning)
        return
    easier = "lower C" if hasattr(estimator, "C") else "raise nu"
    warn_of_solver(fitted, certificate, estimator.tol, estimator.max_iter, easier)
    # the paper's method alone has a large gap more often than not; of samples the stream has warned
    alone = estimator.refine == 0 and not certificate.exact
    usual = alone and (certificate.relative_gap or 0.0) <= _USUAL_GAP
    if not usual and not fitted.fit_status and not isinf(certificate.max_residual):
        warn_of_gap(estimator, certificate, trained_on.records)


@with_callbacks
def fit_rows(
    estimator: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    shared: SharedWork | None = None,
) -> Any:
    """Fit an estimator to rows in memory: check them, train, and write the fitted attributes.

    ``shared``: work in common with other fits to these very rows, of estimators of this class.
    """
    with all_or_nothing(estimator):
        forget(estimator)
        shared = SharedWork() if shared is None else shared
        data, y, weights = _valid_input(estimator, X, y, sample_weight, reset=True)
        learner = estimator._learns.learner(estimator, data, y, weights)
        asked = facts_of(estimator)
        check(asked)
        if estimator.kernel == "precomputed":
            check_symmetric(data)
        with fitting(estimator, data, y, weighted=True) as (run, progress):
            # each is a pass over all rows; of few, a thread would take longer to start
            side_by_side = run if np.prod(data.shape) >= MANY_VALUES else map
            estimator.gamma_, factor = side_by_side(
                lambda find: find(),
                [
                    lambda: resolve_gamma(estimator.gamma, data, estimator.kernel, run),
                    lambda: _scale_factor(estimator, data, shared),
                ],
            )
            warn_of_scales(factor)
            spec = kernel_spec(estimator, estimator.gamma_)
            kernel = shared.kernel(
                (spec, estimator.tol), lambda: _kernel(estimator, spec, data, learner, X, shared)
            )
            context = FitContext(
                learner.rows,
                kernel,
                learner.formulation,
                asked.settings,
                solver_options(estimator),
                run,
                progress,
                shared,
            )
            prepared = context.distinct()
            pilots = SpanTraining(learner.rows, kernel, prepared, context.trainer())
            chosen = plan(counted(asked, context, prepared), pilots)
            progress.say(f"plan: {chosen}")
            if isinstance(chosen, Exact) and spec.device == "cpu":
                check_memory(context, prepared)
                chosen = expect(context, prepared, chosen)
            reached: Reached | None = None
            match chosen:
                case Ladder():
                    first, trained, reached = train_in_time(context, prepared, chosen)
                case Exact():
                    first = every_row(context, prepared)
                    trained = train(context, first, chosen)
                case Rounds():
                    first = first_set(context, prepared, chosen)
                    trained = train(context, first, chosen)
                case Span():
                    first, trained = train_in_span(context, prepared, chosen, pilots)
            hashes = shared.of_rows("hashes", lambda: row_hashes(data, run))
            known = shared.of_rows("digest", lambda: digest(data, y, weights, hashes=hashes))
        if progress.ending.cut:
            shared.forget()
        if isinstance(chosen, Rounds) and chosen.most is not None:  # else "auto" chose not to
            warn_given_up(estimator, first)
        represented = set_of(estimator, first.settings.hull_tol)
        set_represented(represented, first, estimator.gamma_)
        if reached is None:
            n_rows, n_solved = len(prepared.rows), len(trained.solved)
            in_span = isinstance(chosen, Span)
            reached = Reached(n_rows if in_span else n_solved, n_solved if in_span else None)
        trained_on = TrainedOn(
            in_memory=True,
            digest=known,
            parameters=trained_with(estimator),
            hull_tol=estimator.hull_tol,
            n_rows=len(prepared.rows),
            n_solved=reached.n_solved,
            records=trained.records,
            multipliers=trained.multipliers,
            definiteness=spec.definiteness,
            n_vectors=reached.n_vectors,
            history=columns_of(trained.history),
            stopped_after=reached.stopped_after,
            exact_after=reached.exact_after,
        )
        fitted = estimator._learns.fitted(data, learner, trained, spec)
        cut_short = progress.ending.message()
        set_trained(estimator, fitted, trained_on, represented, data.shape, chosen, cut_short)
        estimator._stream_ = None
        return estimator


def _scale_factor(estimator: Any, X: Any, shared: SharedWork) -> float | None:
    """``scale_factor`` of the rows; None for kernels that it does not matter to."""
    if estimator.kernel != "rbf":
        return None
    return shared.of_rows("scales", lambda: scale_factor(X))


def certify_in_memory(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Certificate:
    """The certificate of a model of rows in memory, with all of them seen."""
    known = TrainedOn.of(estimator)
    if not known.in_memory:
        check_not_compressed(estimator)
        raise ValueError(
            "certify needs all rows in memory, and the model was trained on a stream: use "
            "certify_stream."
        )
    check_unchanged(estimator, known.parameters)
    check_as_trained(estimator)
    data, y, weights = _valid_input(estimator, X, y, sample_weight, reset=False)
    with fitting(estimator, name="certify") as (run, _):
        found = digest(data, y, weights, run=run)
        check_same_rows(estimator, known, found, data.shape[0], "in the same order")
        learner = estimator._learns.learner(estimator, data, y, weights, fitted=True)
        model = model_of(estimator)
        records = certify(
            known.records,
            learner.rows,
            model.expansions(),
            known.multipliers,
            _kernel(estimator, model.spec, data, learner, X, SharedWork()),
            learner.formulation,
            estimator.tol,
            run,
            partial(say, estimator),
        )
    return known._replace(records=records).keep(estimator)


def _valid_input(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool
) -> tuple[Any, NDArray, NDArray[np.float64]]:
    """Rows, targets and weights, checked; ``reset``: whether these are the rows to fit to."""
    X, y, sample_weight = from_gpu(estimator, X, y, sample_weight)
    data = validated_rows(estimator, X, reset=reset)
    y = estimator._learns.valid_targets(estimator, y, data)
    return data, y, valid_weights(sample_weight, data)


def name_of_rows(spec: KernelSpec) -> tuple:
    """The name of a fit's rows, wherever they are, in work that fits share."""
    return "rows", spec.device, spec.kernel == "precomputed"


def _kernel(
    estimator: Any, spec: KernelSpec, X: Any, learner: Learner, given: Any, shared: SharedWork
) -> TrainingKernel:
    """The kernel matrix of a fit; ``given``: its rows, as they were given."""
    rows = shared.of_rows(
        name_of_rows(spec),
        lambda: processor(spec.device).rows(spec, X, given, partial(say, estimator)),
    )
    return TrainingKernel(spec, X, estimator.tol, learner.joint_targets, rows)
