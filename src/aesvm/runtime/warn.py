"""Warnings that point at the user's own line."""

from __future__ import annotations

import inspect
import warnings

#: Packages whose frames a warning looks past.
_INSIDE = ("aesvm", "sklearn")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn whoever called into this package and scikit-learn's wrapper around it."""
    depth = 2
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame = frame.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=max(2, depth - 1))
