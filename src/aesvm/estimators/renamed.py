"""Fitted attributes under the names they had before, with a warning."""

from __future__ import annotations

from typing import Any

from aesvm.runtime.warn import warn


def renamed(before: str, name: str, sign: int = 1) -> Any:
    """A property that gives an attribute under its name before; ``sign``: -1 where it had another.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from aesvm.estimators.renamed import renamed
    >>> class Model:
    ...     gain_ = np.ones(2)
    ...     loss_ = renamed("loss_", "gain_", sign=-1)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Model().loss_
    array([-1., -1.])
    >>> print(caught[0].message)
    loss_ is gain_ with the opposite sign, and will be removed in version 0.4: use gain_.
    """
    opposite = " with the opposite sign" if sign < 0 else " now"

    def read(estimator: Any) -> Any:
        value = getattr(estimator, name)
        warn(
            f"{before} is {name}{opposite}, and will be removed in version 0.4: use {name}.",
            FutureWarning,
        )
        return sign * value

    read.__doc__ = f"Deprecated: ``{name}``{opposite}."
    return property(read)


#: What the dual's optimality was called before there was one word for it.
GAP = renamed("gap_", "kkt_violation_")

#: The dual objective as the solver minimises it.
OBJECTIVE = renamed("objective_", "dual_objective_", sign=-1)
