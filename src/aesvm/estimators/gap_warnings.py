"""What a fit warns of where its certificate has a large gap: the cause, where it is known.

Where the optimum of an objective may be zero, no percentage says how far a model is from it. There
are two causes. The optimum of nu-classification is zero, with ``w = 0``, where nu is so small that
the reduced convex hulls of the classes (no weight above ``2 / (nu n)`` of n rows) meet. And a
regression whose tol is larger than the errors of a constant stops at that constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from aesvm.certificate.certificate import Certificate
from aesvm.certificate.records import Records
from aesvm.runtime.warn import warn

#: What a warning of a large gap begins with, and one of an objective and gap that are zero.
FAR, NOTHING = "The model may be far from the exact SVM", "There may be nothing to learn"


def warn_of_gap(estimator: Any, certificate: Certificate, records: Records) -> None:
    """Say where a gap is large, or nothing can have been learned."""
    caveat = certificate.caveat()
    message = f"{caveat}." if caveat else ""
    if certificate.exact and certificate.gap is not None and (caveat or certificate.negligible):
        if is_classifier(estimator) and hasattr(estimator, "nu"):
            message = _of_nu(estimator.nu, records) or message
        elif is_regressor(estimator):
            message = _of_tol(estimator.tol, certificate, records) or message
    if message:
        warn(f"{NOTHING if certificate.negligible else FAR}: {message}")


def _of_nu(nu: float, records: Records) -> str:
    """Nu-classification whose objective is not below zero, in pairs that have rows."""
    not_below = records.objectives + records["proof_rounding"] >= 0.0
    n_pairs = int(np.count_nonzero(not_below & (records["n_rows"] > 0)))
    if not n_pairs:
        return ""
    where = "" if len(records) == 1 else f" in {n_pairs:,} of {len(records):,} pairs"
    return (
        f"nu={nu:g} seems too small for classes that overlap as much as these{where}. The "
        "objective is not below zero; where the exact SVM's is zero, its w is zero too, and "
        "decision values are what tol and rounding leave. Raise nu, or change the kernel; a "
        "smaller tol tells whether there is anything to learn."
    )


def _of_tol(tol: float, certificate: Certificate, records: Records) -> str:
    """Regression that ended with the constant it began with."""
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
