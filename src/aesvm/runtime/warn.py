"""Warnings that point at the user's own line, and errors that name the parameter they are about."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

#: Packages whose frames a warning looks past.
_INSIDE = ("aesvm", "sklearn")

#: A message, and its category.
Warned = tuple[str, type[Warning]]

_own = threading.local()  # the list that warnings of this thread are put on


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package, or scikit-learn's wrapper around it."""
    if getattr(_own, "kept", None) is not None:
        _own.kept.append((message, category))
        return
    depth = 2
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame = frame.f_back
        depth += 1
    warnings.warn(message, category, stacklevel=max(2, depth - 1))


@contextmanager
def kept_warnings() -> Iterator[list[Warned]]:
    """Keep the warnings of this thread, so that the caller can give those of many fits once.

    Examples
    --------
    >>> from aesvm.runtime.warn import kept_warnings, warn
    >>> with kept_warnings() as kept:
    ...     warn("careful")
    >>> kept
    [('careful', <class 'UserWarning'>)]
    """
    before = getattr(_own, "kept", None)
    _own.kept = []
    try:
        yield _own.kept
    finally:
        _own.kept = before


class ParameterError(ValueError):
    """A ``ValueError`` about a parameter, whose name is ``parameter``.

    Examples
    --------
    >>> from aesvm.runtime.warn import ParameterError
    >>> ParameterError("nu", "nu=2: a number up to 1 is needed.").parameter
    'nu'
    """

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter

    def __reduce__(self) -> tuple:
        return type(self), (self.parameter, str(self))
