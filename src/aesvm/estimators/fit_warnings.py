"""What a fit warns of: features and targets on unsuitable scales, solves that did not converge, and
models that may be far from the exact SVM.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

from aesvm.certificate.certificate import Certificate
from aesvm.certificate.records import Records
from aesvm.certificate.text import EXACT_GAP
from aesvm.formulations.objective import best_offsets
from aesvm.formulations.protocol import AT_BOUND, Array
from aesvm.formulations.tube import Tube
from aesvm.kernels.sparse import narrowed
from aesvm.machines.one_vs_one import Fitted
from aesvm.machines.problem import Machine
from aesvm.runtime.warn import warn

#: Features differ in scale where twice the spread of one is over this many times the range of
#: another. Features that are a hundredfold apart give 12 to 60, whatever their distribution; scaled
#: ones, beside indicators too, 0.2 to 4. An indicator that is rarely set has a small spread, and a
#: feature with a long tail a large range, without being on another scale: so the spread of the
#: larger one counts, the range of the smaller.
_SCALE_FACTOR = 10.0

#: A smaller fraction of features on a small scale causes no warning: pixels at the edge of images,
#: say.
_FRACTION_OF_FEATURES = 0.1

#: Scales are measured on a sample: at most this many rows; of wide rows fewer, but at least the
#: second number, with about the third number of values at most.
_MOST_ROWS, _FEWEST_ROWS, _MOST_VALUES = 10_000, 1000, 1e6

#: C may be too small where support vectors at their bound have this fraction of the weight of all
#: rows, or of what nu allows.
_NEARLY_ALL = 0.95

#: A model whose loss is more than this fraction of the constant's is hardly better than that.
_HARDLY_BETTER = 0.9

#: ``|w|^2``, as a fraction of the decrease of the loss, from which C is what holds the model back.
_STRAIGHT = 0.9

#: Scores that differ by less, as a fraction of the coefficients, differ by rounding alone.
_ROUNDING = 1e-12

#: How a warning of a large gap begins, and one of an objective and gap that are zero.
FAR, NOTHING = "The model may be far from the exact SVM", "There may be nothing to learn"


def warn_of_scales(factor: float | None) -> None:
    """Warn where features differ in scale: distances are then those of the largest features.

    ``factor``: see ``scale_factor``.
    """
    if factor is not None:
        warn(
            f"The features of X differ in scale by a factor of {factor:.2g}, and the smaller ones "
            "hardly count in the distances of the RBF kernel: scale X, for instance with "
            "sklearn.preprocessing.StandardScaler."
        )


def scale_factor(X: Any) -> float | None:
    """By how much features differ in scale; None where that is not worth a warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        n_rows = int(min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_VALUES // max(1, X.shape[1]))))
        sample = X[:: max(1, X.shape[0] // n_rows)].astype(np.float64)
        if sp.issparse(sample):
            _, sample = narrowed(sample)
        ranges = _ranges(sample)
        least = ranges.min(initial=np.inf, where=ranges > 0)
        if ranges.max(initial=0.0) <= _SCALE_FACTOR * least:  # twice a spread is at most the range
            return None
        spreads = _spreads(sample)
        varies = (ranges > 0) & (spreads > 0)
        if not varies.any():
            return None
        ascending = np.sort(ranges[varies])
        small = ascending[int(_FRACTION_OF_FEATURES * (len(ascending) - 1))]
        widest = np.argmax(spreads)
        is_far = 2.0 * spreads[widest] > _SCALE_FACTOR * small
        return float(ranges[widest] / small) if is_far else None


def _ranges(sample: Any) -> NDArray:
    """The largest value less the smallest, of each feature."""
    if not sp.issparse(sample):
        return sample.max(axis=0) - sample.min(axis=0)
    lowest, highest = (np.ravel(f(axis=0).toarray()) for f in (sample.min, sample.max))
    return highest - lowest


def _spreads(sample: Any) -> NDArray:
    """The standard deviation of each feature."""
    if not sp.issparse(sample):
        return sample.std(axis=0)
    mean = np.ravel(sample.mean(axis=0))
    squares = np.ravel(sample.multiply(sample).mean(axis=0))
    return np.sqrt(np.maximum(squares - mean**2, 0.0))


def warn_of_targets(machine: Machine, tube: Tube) -> None:
    """Warn where C is too small for the targets of a regression."""
    if _is_held_back(machine, tube):
        warn(
            f"C={machine.set.costs.max():g} is too small for targets with a standard deviation of "
            f"{tube.spread:.3g}: nearly all support vectors are at their bound, and the model is "
            "hardly better than a constant. Raise C, or scale y, for instance with "
            "sklearn.compose.TransformedTargetRegressor(model, transformer=StandardScaler())."
        )


def _is_held_back(machine: Machine, tube: Tube) -> bool:
    """Whether a regression is hardly better than a constant because C is small.

    No coefficient is larger than C times the weight of its row. With large targets nearly all
    coefficients are at that bound, and predictions still hardly move.

    Where targets are noise the model is a constant as well, whatever C is. To tell the two apart,
    let L(t) be the loss of t w at its best offsets. L is convex, and as w is optimal, its slope at
    t = 1 is -|w|^2. So the model has lowered the loss by L(0) - L(1) >= |w|^2. The two are equal
    where L is a straight line: a larger C would then lower the loss by as much again. Where L has
    flattened out, |w|^2 is far smaller.
    """
    rows, scores = machine.set, machine.scores
    if machine.solution is None or not machine.solution.converged:
        return False
    bounds, sizes = rows.bounds, np.abs(machine.coefs)
    most = sum(tube.slopes(float(bounds.sum()))) or float(bounds.sum())
    at_bound = sizes >= (1.0 - AT_BOUND) * bounds
    if bounds[at_bound].sum() < _NEARLY_ALL * most:
        return False
    if np.ptp(scores) <= _ROUNDING * sizes.sum():
        return False
    before, now = (_losses(tube, at, rows.targets, bounds) for at in (0.0 * scores, scores))
    lowered = float((before - now).sum())  # row by row: both sums may be far larger
    if lowered > (1.0 - _HARDLY_BETTER) * float(before.sum()):
        return False
    return machine.squared_norm > _STRAIGHT * lowered


def _losses(tube: Tube, scores: Array, targets: Array, bounds: Array) -> Array:
    """What each row adds to F beside ``1/2 |w|^2``, at the best offsets."""
    offsets = best_offsets(tube, scores, targets, bounds)
    losses = bounds * tube.losses(tube.positions(scores, targets, offsets))
    total_cost = float(bounds.sum())
    linear = sum(one * at for one, at in zip(tube.slopes(total_cost), offsets, strict=True))
    return losses + bounds * (linear / total_cost)


def stopped_at_limit(fitted: Fitted, tol: float, max_iter: int) -> bool:
    """Whether ``max_iter`` ended a solve before it had reached ``tol``."""
    at_limit = max_iter != -1 and np.max(fitted.n_iter) >= max_iter
    return bool(fitted.fit_status and at_limit and not fitted.kkt_violation.max() <= tol)


def warn_of_solver(
    fitted: Fitted, certificate: Certificate, tol: float, max_iter: int, remedy: str
) -> None:
    """Warn where a machine did not converge; ``remedy``: what makes that easier."""
    if not fitted.fit_status:
        return
    if np.isnan(fitted.kkt_violation).any():
        warn(
            "A solve in the span of few vectors ended before it had converged: certificate_ says "
            "how close the model is.",
            ConvergenceWarning,
        )
        return
    at_limit = max_iter != -1 and np.max(fitted.n_iter) >= max_iter
    gap = certificate.relative_gap
    if certificate.n_vectors is not None:
        message = (
            "The solver stopped before it converged, in the span of "
            f"{certificate.n_vectors:,} vectors: scale the data, or {remedy}."
        )
    elif certificate.negligible:
        message = (
            "The objective is zero to within rounding, and so may be the exact SVM's: there may be "
            f"nothing to learn. Scale the data, or {remedy}."
        )
    elif stopped_at_limit(fitted, tol, max_iter):
        message = (
            f"The solver stopped at max_iter={max_iter}, before tol={tol:g} was reached "
            f"(KKT violation {fitted.kkt_violation.max():.3g}): raise max_iter or tol, scale the "
            f"data, or {remedy}."
        )
    elif fitted.kkt_violation.max() <= tol and gap is not None:
        message = (
            f"The solver reached tol={tol:g}, but the relative duality gap is only known to be at "
            f'most {gap:.3g}; refine="exact" aims at {EXACT_GAP:g}. '
            f"{f'Raise max_iter={max_iter}, scale' if at_limit else 'Scale'} the data, or {remedy}."
        )
    else:
        message = (
            f"Rounding errors keep the solver from tol={tol:g}: it stopped making progress at a "
            f"KKT violation of {fitted.kkt_violation.max():.3g}. Raise tol, scale the data, or "
            f"{remedy}."
        )
    if not fitted.n_support.sum():
        message += " The model has no support vectors: it predicts a constant."
    warn(message, ConvergenceWarning)


def warn_of_gap(estimator: Any, certificate: Certificate, records: Records) -> None:
    """Warn where the gap is large, or nothing can have been learned; name the cause if known.

    Where the optimum of an objective may be zero, no percentage says how far a model is from it.
    There are two causes. The optimum of nu-classification is zero, with ``w = 0``, where nu is so
    small that the reduced convex hulls of the classes (no weight above ``2 / (nu n)`` of n rows)
    meet. And a regression whose tol is larger than the errors of a constant stops at that constant.
    """
    caveat = certificate.caveat()
    message = f"{caveat}." if caveat else ""
    if certificate.exact and certificate.gap is not None and (caveat or certificate.negligible):
        if is_classifier(estimator) and hasattr(estimator, "nu"):
            message = _nu_too_small(estimator.nu, records) or message
        elif is_regressor(estimator):
            message = _tol_too_large(estimator.tol, certificate, records) or message
    if message:
        warn(f"{NOTHING if certificate.negligible else FAR}: {message}")


def _nu_too_small(nu: float, records: Records) -> str:
    """The cause where objectives of nu-classification are not below zero; "" where they are."""
    not_below = records.objectives + records["proof_rounding"] >= 0.0
    n_pairs = int(np.count_nonzero(not_below & (records["n_rows"] > 0)))
    if not n_pairs:
        return ""
    where = "" if len(records) == 1 else f" in {n_pairs:,} of {len(records):,} pairs"
    return (
        f"nu={nu:g} seems too small for classes that overlap as much as these{where}. The "
        "objective is not below zero. If the exact SVM's is zero, so is its w, and decision values "
        "are noise of the size of tol. Raise nu, or change the kernel; a smaller tol shows "
        "whether there is anything to learn."
    )


def _tol_too_large(tol: float, certificate: Certificate, records: Records) -> str:
    """The cause where a regression stopped at the constant it began with; "" where it did not."""
    total_cost = float(records["total_cost"].sum())
    if certificate.norm or certificate.objective is None or not total_cost:
        return ""
    error = certificate.objective / total_cost
    if error > tol:
        return ""
    return (
        f"tol={tol:g} is larger than the errors of a constant prediction ({error:.2g} on average), "
        "so the model is that constant. Use a smaller tol, or scale y, for instance with "
        "sklearn.compose.TransformedTargetRegressor(model, transformer=StandardScaler())."
    )
