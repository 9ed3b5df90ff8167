"""What the steps of the dual's solver work on; ``steps.cu`` has them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np


class Summary(IntEnum):
    """The places of what the host reads in every iteration; as in ``steps.cu``."""

    VIOLATION = 0
    LOWEST = 1  #: of each of two groups
    HIGHEST = 3
    N_CHOSEN = 5
    N_UPDATES = 6  #: so far
    MOVED = 7  #: all that coefficients have moved so far
    N_MOVED = 8  #: variables that moved so far, each in every iteration
    FELL = 9  #: what pair updates have lowered the objective by so far
    N_STAY = 10
    N_FREE = 11  #: variables strictly between their bounds


class DeviceVariables(NamedTuple):
    """Variables in play, group by group, in signed coefficients; arrays of the device."""

    scores: Any  #: float64, of rows in play
    at: Any  #: int32: the point in play of each variable
    coefs: Any  #: float64, of variables
    linear: Any
    lower: Any
    upper: Any
    groups: Any  #: int8, of variables

    @property
    def n(self) -> int:
        return len(self.coefs)


class Work(NamedTuple):
    """Memory of the steps."""

    chosen: Any  #: int32: the working set
    n_chosen: Any  #: int32, of one
    numbers: Any  #: int32: its rows, among the rows in play
    block: Any  #: its kernel values
    moved_rows: Any  #: int32: rows of variables that moved, in the same way
    moves: Any  #: float64, (1, working set): what they moved by
    n_moved: Any  #: int32, of one
    marks: Any  #: int32, of variables: those that stay in the next working set have a mark
    rest: Any  #: int8, of variables: for how many iterations each has rested at a bound
    found: Any  #: float64: candidates, as the device sees them
    edges: Any  #: float64: of chunks of variables
    summary: Any  #: float64

    @classmethod
    def of(cls, n: int, size: int, dtype: np.dtype, xp: Any) -> Work:
        """Memory for n variables and working sets of ``size``."""

        def whole(count: int) -> Any:
            return xp.zeros(count, dtype=np.int32)

        return cls(
            chosen=whole(size),
            n_chosen=whole(1),
            numbers=whole(size),
            block=xp.empty((size, size), dtype=dtype),
            moved_rows=whole(size),
            moves=xp.zeros((1, size)),
            n_moved=whole(1),
            marks=whole(n),
            rest=xp.zeros(n, dtype=np.int8),
            found=xp.zeros(4 * size),
            edges=xp.zeros(2 * size),
            summary=xp.zeros(len(Summary) + 2),
        )
