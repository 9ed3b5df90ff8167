"""Errors that carry the name of the parameter they are about."""

from __future__ import annotations


class ParameterError(ValueError):
    """A ``ValueError`` about a parameter, whose name is ``parameter``.

    Examples
    --------
    >>> from aesvm.runtime.errors import ParameterError
    >>> ParameterError("nu", "nu=2: a number up to 1 is needed.").parameter
    'nu'
    """

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter

    def __reduce__(self) -> tuple:
        return type(self), (self.parameter, str(self))
