"""What the losses of each class weigh."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def class_weights(
    given: dict[Any, float] | str | None, classes: NDArray, counts: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Factors of C by class, from SVC's ``class_weight``.

    Parameters
    ----------
    given : dict, "balanced" or None
        Classes that a dict does not name have 1.
    classes : ndarray of shape (n_classes,)
    counts : ndarray of shape (n_classes,)
        Rows of each class; a class without rows counts as one that has one.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.estimators.class_weights import class_weights
    >>> class_weights("balanced", np.array(["no", "yes"]), np.array([30, 10]))
    array([0.66666667, 2.        ])
    """
    if given is None:
        return np.ones(len(classes))
    if not isinstance(given, dict):
        rows = np.maximum(counts, 1)
        return rows.sum() / (len(classes) * rows)
    known = classes.tolist()
    unknown = [label for label in given if label not in known]
    if unknown and not all(label in given for label in known):
        raise ValueError(
            f"class_weight={given} has weights for {unknown}, which are not "
            f"among the classes of y: use {known}."
        )
    wrong = {
        label: weight
        for label, weight in given.items()
        if not isinstance(weight, Real) or not 0 <= float(weight) < inf
    }
    if wrong:
        raise ValueError(f"class_weight has {wrong}: weights must be finite, non-negative numbers.")
    return np.array([float(given.get(label, 1.0)) for label in known])
