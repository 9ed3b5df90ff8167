"""``cached_property`` without a lock.

That of Python 3.11 has a lock for all objects of a class. A process that is forked while another
thread computes such a property inherits the lock as taken, and waits for it forever. Without one,
two threads may compute the same value at the same time.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801
        """As in ``functools`` since Python 3.12."""

        def __init__(self, function):
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


__all__ = ["cached_property"]
