"""A fitted estimator on fewer of its support vectors."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np

from aesvm.bases.compress import Compressed, Compression, compress
from aesvm.certificate.accounts import Accounts
from aesvm.estimators.fitting import fitting
from aesvm.estimators.prediction import model_of
from aesvm.estimators.trained import TrainedOn
from aesvm.estimators.validation import from_gpu, validated_rows
from aesvm.machines.training_kernel import TrainingKernel


def check_compress(n_vectors: int | None, tol: float | None) -> None:
    """Refuse arguments that set no limit, or an impossible one."""
    if n_vectors is None and tol is None:
        raise ValueError("compress needs n_vectors or tol: how small, or how near.")
    whole = isinstance(n_vectors, Integral) and not isinstance(n_vectors, bool)
    if n_vectors is not None and not (whole and n_vectors >= 1):
        raise ValueError(f"n_vectors={n_vectors!r} must be a whole number of at least 1.")
    if tol is not None and not (isinstance(tol, Real) and 0.0 < float(tol) < inf):
        raise ValueError(f"tol={tol!r} must be a positive number.")


def compressed(estimator: Any, n_vectors: int | None, tol: float | None, X: Any) -> Any:
    """A copy of a fitted estimator with fewer support vectors; see ``KernelMachine.compress``."""
    model = model_of(estimator)
    if model.spec.kernel == "precomputed":
        raise ValueError(
            'kernel="precomputed": compress needs kernel values of support vectors among each '
            "other, which a model of a kernel matrix does not have."
        )
    if not model.spec.is_definite:
        raise ValueError(
            f"kernel={model.spec.kernel!r}: compress needs a positive semidefinite kernel."
        )
    rows = None
    if X is not None:
        rows = validated_rows(estimator, from_gpu(estimator, X)[0], reset=False)
    are_outliers = not estimator._learns.takes_targets
    now = copy.copy(estimator)  # before anything is noted on it that belongs to this call
    with fitting(estimator, name="compress") as (run, progress):
        kernel = TrainingKernel(model.spec, model.vectors).matrix(np.float64, 1e-12)
        found = compress(
            list(model.at_vectors()),
            kernel,
            model.groups,
            model.shares,
            n_vectors,
            tol,
            are_outliers,
            run,
            progress.to_the_end(),
        )
    if rows is not None and tol is None and are_outliers and found.shifts.any():
        found = _as_many_outliers(found, model, rows, estimator.n_jobs)
    layout = model.layout(found.expansions)
    now.support_ = model.support[layout.support]
    now.support_vectors_ = model.vectors[layout.support]
    now.n_support_ = layout.n_support
    dual = layout.dual_coef
    now.dual_coef_ = type(estimator.dual_coef_)(dual) if _is_sparse(estimator) else dual
    now.intercept_ = layout.intercept
    now.dual_objective_ = np.full(len(estimator.dual_objective_), np.nan)
    now.kkt_violation_ = now.dual_objective_.copy()
    now._stream_ = None
    if hasattr(estimator, "_trained_on_"):  # not of a model in a foreign format
        _keep_account(now, estimator, found, kernel)
    now.compression_ = _measured(
        Compression(
            len(model.support),
            len(layout.support),
            float(found.distances.max(initial=0.0)),
            float(found.shifts[np.argmax(np.abs(found.shifts))]),
        ),
        model,
        model_of(now),
        rows,
        estimator.n_jobs,
        are_outliers,
    )
    return now


def _as_many_outliers(found: Compressed, model: Any, rows: Any, n_jobs: Any) -> Compressed:
    """With the offset at which as many of some rows are outliers as were before."""
    (one,) = found.expansions
    if not rows.shape[0]:
        return found
    share = float(np.mean(model.pair_values(rows, n_jobs) <= 0))
    smaller = replace(
        model,
        support=model.support[one.rows],
        vectors=model.vectors[one.rows],
        dual_coef=one.coefs[None, :],
        intercept=np.zeros(1),
    )
    scores = smaller.pair_values(rows, n_jobs)
    offset = -float(np.quantile(scores, share))
    shift = float(found.shifts[0]) + offset - one.offset
    return found._replace(expansions=[one._replace(offset=offset)], shifts=np.array([shift]))


def _is_sparse(estimator: Any) -> bool:
    return not isinstance(estimator.dual_coef_, np.ndarray)


def _keep_account(now: Any, before: Any, found: Compressed, kernel: Any) -> None:
    """What is known of the model for its certificate: F1 takes another look at all rows."""
    known = TrainedOn.of(before)
    accounts = []
    for account, one, shift in zip(known.accounts, found.expansions, found.shifts, strict=True):
        scale, offsets = 1.0, account.offsets
        if len(one.rows) or shift:  # otherwise a constant, as it was
            decision = before._learns.decision(before, offsets)
            scale, moved = decision.scale, decision.scale * float(shift)
            offsets = tuple(
                offset + sign * moved for offset, sign in zip(offsets, decision.signs, strict=True)
            )
        coefs = scale * one.coefs
        norm = float(coefs @ kernel.square(one.rows) @ coefs) if len(coefs) else 0.0
        accounts.append(
            replace(
                account,
                exact=False,
                squared_norm=norm,
                offsets=offsets,
                loss=None,
                loss_reduced=None,
                violators=None,
                changed=None,
                proven=False,
                n_vectors=len(one.rows),
                estimated_dual=None,
            )
        )
    known._replace(accounts=Accounts.of(accounts), n_vectors=len(now.support_)).keep(now)
    if known.changed(before):  # then this is no model of what was trained either
        now._trained_on_["model"] = known.model


def _measured(
    known: Compression, before: Any, now: Any, rows: Any, n_jobs: Any, are_outliers: bool
) -> Compression:
    """With what has changed on some rows."""
    if rows is None:
        return known
    values, others = before.pair_values(rows, n_jobs), now.pair_values(rows, n_jobs)
    change = np.abs(values - others)
    labels = None
    if hasattr(before, "classes"):
        labels = float(np.mean(before.predict(rows, n_jobs) != now.predict(rows, n_jobs)))
    elif are_outliers:
        labels = float(np.mean((values <= 0) != (others <= 0)))
    return replace(
        known,
        n_measured=len(change),
        largest_change=float(change.max(initial=0.0)),
        typical_change=float(np.sqrt(np.square(change).mean())) if change.size else 0.0,
        labels_changed=labels,
    )
