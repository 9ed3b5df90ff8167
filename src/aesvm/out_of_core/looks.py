"""The losses of rows that are elsewhere, by each machine: sums that are added over the parts.

The sums are sent from the parts. With many classes there are very many machines, and few rows of
each in a part, so that most sums are zero. Only the others are sent, and the numbers of all
machines are columns. That is some 60 bytes for each machine that has rows in a part, and at most 18
for each kink of the loss of such a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array, Offsets
from aesvm.machines.rounds import DEVIATIONS, WIDEST

#: How far from the present offset a better one is looked for, in the formulation's ``width``, and
#: on how many steps.
SHIFT, STEPS = 0.25, 256


def steps_of(width: float) -> Array:
    """Offsets that are tried, from the present one."""
    return width * np.linspace(-SHIFT, SHIFT, STEPS + 1)


class PartLook(NamedTuple):
    """The losses of the rows of one machine, as a function of its offsets.

    A loss is a sum of ramps (``formulations.protocol``) that begin at kinks. Ramps whose kinks are
    between the same two steps are kept as two sums: of costs, and of costs times kinks, falling and
    rising ones apart. So the losses at every step are exact; between two steps little is to gain.
    """

    sums: Array  #: offset, falling or rising, interval, power of the kink (from the present offset)
    slopes: Array  #: of F in each offset, beside the losses
    squared_error: float
    n_wrong: int
    n_values: int
    n_crossed: int  #: rows on another piece than the one they were represented on
    width: float  #: the formulation's, which steps are measured in

    def doubt(self, loss_reduced: float, offsets: Offsets) -> float:
        """How far from a kink a row must be for its piece to be believed (``machines.rounds``).

        Two errors bound it. That of the parts' representatives is known row by row. Of the set that
        the machine was trained on, with the loss ``loss_reduced``, only the mean error is known.
        """
        error = sqrt(self.squared_error / self.n_wrong) if self.n_wrong else 0.0
        middle = STEPS // 2 + 1
        paying = self.sums[:, 0, middle:, 0].sum() + self.sums[:, 1, :middle, 0].sum()
        if paying > 0.0:
            error = max(error, abs(self.here(offsets) - loss_reduced) / paying)
        return min(DEVIATIONS * error, WIDEST * self.width)

    def losses(self, offsets: Offsets) -> Array:
        """The losses that depend on each offset, at every step; the middle step is the present."""
        steps = steps_of(self.width)
        falling, rising = self.sums[:, 0], self.sums[:, 1]
        above = np.cumsum(falling[:, ::-1], axis=1)[:, ::-1][:, 1:]
        below = np.cumsum(rising, axis=1)[:, :-1]
        ramps = above[..., 1] - steps * above[..., 0] + steps * below[..., 0] - below[..., 1]
        return ramps + self.slopes[:, None] * (np.array(offsets)[:, None] + steps)

    def here(self, offsets: Offsets) -> float:
        """The losses at the present offsets."""
        return float(self.losses(offsets)[:, STEPS // 2].sum())

    def best(self, offsets: Offsets) -> tuple[Offsets, float]:
        """The steps on which the losses are least, and these; ``offsets`` are the present ones."""
        losses = self.losses(offsets)
        at = losses.argmin(axis=1)
        each = np.arange(len(offsets))
        at[losses[each, at] >= losses[:, STEPS // 2]] = STEPS // 2
        found = np.array(offsets) + steps_of(self.width)[at]
        return tuple(found.tolist()), float(losses[each, at].sum())


class PartLooks(NamedTuple):
    """The looks of several machines at the rows of a part, or of several parts.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.out_of_core.looks import STEPS, PartLook, PartLooks, merged_looks
    >>> sums = np.zeros((1, 2, STEPS + 2, 2))
    >>> sums[0, 0, 9] = 2.0, 0.5
    >>> looks = PartLooks.of([(7, PartLook(sums, np.zeros(1), 0.0, 1, 3, 0, 1.0))])
    >>> twice = merged_looks([looks, looks])
    >>> twice.one(7).sums[0, 0, 9], twice.one(7).n_values, twice.one(8)
    (array([4., 1.]), 6, None)
    """

    numbers: NDArray[np.int32]  #: of the machines, ascending
    width: Array  #: of each machine
    #: What is added over the parts, a line for each machine: squared_error, n_wrong, n_values,
    #: n_crossed and the slopes, as in ``PartLook``.
    totals: Array
    ends: NDArray[np.int64]  #: where the sums of each machine end
    cells: NDArray[np.uint16]  #: which sums are not zero, one machine after another
    sums: Array  #: these: (len(cells), 2)

    @classmethod
    def of(cls, each: Iterable[tuple[int, PartLook]]) -> PartLooks:
        """Those of machines that are given one by one, by ascending number."""
        numbers, widths, totals, cells, sums = [], [], [], [_NO_CELLS], [np.empty((0, 2))]
        for number, look in each:
            own = look.sums.reshape(-1, 2)
            at = np.flatnonzero(own.any(axis=1) & _counts(len(look.slopes)))
            numbers.append(number)
            widths.append(look.width)
            counts = look.squared_error, look.n_wrong, look.n_values, look.n_crossed
            totals.append([*counts, *look.slopes])
            cells.append(at.astype(np.uint16))
            sums.append(own[at])
        return cls(
            np.array(numbers, dtype=np.int32),
            np.array(widths),
            np.array(totals),
            np.cumsum([len(own) for own in cells[1:]], dtype=np.int64),
            np.concatenate(cells),
            np.concatenate(sums),
        )

    def one(self, number: int) -> PartLook | None:
        """The look of one machine; None where it has seen no row."""
        at = int(np.searchsorted(self.numbers, np.int32(number)))  # else they would be copied
        if at == len(self.numbers) or self.numbers[at] != number:
            return None
        own = slice(int(self.ends[at - 1]) if at else 0, int(self.ends[at]))
        squared_error, n_wrong, n_values, n_crossed, *slopes = self.totals[at].tolist()
        sums = np.zeros((len(slopes) * _CELLS, 2))
        sums[self.cells[own]] = self.sums[own]
        return PartLook(
            sums.reshape(len(slopes), 2, STEPS + 2, 2),
            np.array(slopes),
            squared_error,
            int(n_wrong),
            int(n_values),
            int(n_crossed),
            float(self.width[at]),
        )


#: Sums of a machine for each of its offsets, falling and rising; and its totals beside slopes.
_CELLS, _COUNTS = 2 * (STEPS + 2), 4

_NO_CELLS: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)


def _counts(n_offsets: int) -> NDArray[np.bool_]:
    """Which sums are of ramps that cost something at one of the steps."""
    counts = np.ones((n_offsets, 2, STEPS + 2), dtype=bool)
    counts[:, 0, 0] = counts[:, 1, -1] = False
    return counts.ravel()


def merged_looks(looks: Sequence[PartLooks]) -> PartLooks:
    """The sums of several parts, added."""
    own = [one for one in looks if len(one.numbers)]
    if len(own) < 2:
        return own[0] if own else looks[0]
    given = np.concatenate([one.numbers for one in own])
    numbers, first, which = np.unique(given, return_index=True, return_inverse=True)
    totals = np.zeros((len(numbers), own[0].totals.shape[1]))
    np.add.at(totals, which, np.concatenate([one.totals for one in own]))
    each = np.repeat(which, np.concatenate([np.diff(one.ends, prepend=0) for one in own]))
    size = (totals.shape[1] - _COUNTS) * _CELLS
    keys, at = np.unique(
        each * size + np.concatenate([one.cells for one in own]), return_inverse=True
    )
    sums = np.concatenate([one.sums for one in own])
    return PartLooks(
        numbers,
        np.concatenate([one.width for one in own])[first],
        totals,
        np.cumsum(np.bincount(keys // size, minlength=len(numbers)), dtype=np.int64),
        (keys % size).astype(np.uint16),
        np.stack([np.bincount(at, power, len(keys)) for power in sums.T], axis=1),
    )
