"""Queries to one part of the rows, and how the answers of several parts are merged.

A part is some rows, and the combinations of a few of them that stand for the others. Rows in a file
that is read again, or on the workers of a cluster, are such parts. There are three queries:

gather      the representatives of the part;
look        the losses of its rows. The scores of its representatives are computed, and of the
            others those that ``|<w, z_i> - <w, u_i>| <= |w| |tau_i|`` leaves in doubt;
stratify    its rows by position, as in ``machines.rounds``: rows near a kink as they are, and
            representatives of those on each linear piece of the loss.

Answers of several parts are merged into one, level by level: sets as in ``merge_tree``, numbers by
adding them. Each process holds a few answers at a time, and only rows that matter are sent.

The losses of a part's rows are sums that are added over the parts. The sums are sent from the
parts. With many classes there are very many machines, and few rows of each in a part, so that most
sums are zero. Only the others are sent, and the numbers of all machines are columns. That is some
60 bytes for each machine that has rows in a part, and at most 18 for each kink of the loss of such
a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.kernels import KernelSpec
from aesvm.machines.place import cautious_scores, rows_to_score, wrong_losses
from aesvm.machines.plan import COARSER
from aesvm.machines.problem import RowSelection
from aesvm.machines.rounds import DEVIATIONS, WIDEST, Cut
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.out_of_core import merge_tree
from aesvm.out_of_core.reducer import LevelReducer, Part
from aesvm.out_of_core.weighted_rows import WeightedRows, joined, stacked

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
    """The looks of several machines at the rows of a part, or of several parts."""

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


class SentMachine(NamedTuple):
    """A machine as it is sent to the parts."""

    selection: RowSelection  #: the rows that belong to it
    support: NDArray[np.intp]  #: among the vectors
    coefs: Array
    offsets: Offsets
    norm: float  #: of w; infinite where the kernel is not known to be positive semidefinite


class SentMachines(NamedTuple):
    """The machines that have rows, by number, and what parts need to know to use them."""

    vectors: Any  #: rows that support any of them
    machines: dict[int, SentMachine]
    spec: KernelSpec
    formulation: Formulation
    tol: float


class RowScores(NamedTuple):
    """The scores of the rows of a part that belong to one machine."""

    at: NDArray[np.intp]  #: which they are
    values: Array  #: <w, z>; a bound of it where that is proven to be far from a kink
    n_values: int  #: kernel values that took
    squared_error: float  #: summed squares of the representatives' losses less the rows' losses
    n_wrong: int  #: rows where the two differ


def score(part: Part, sent: SentMachines, run: Callable) -> dict[int, RowScores]:
    """The scores of all rows of a part, by every machine."""
    if not len(part.rows):
        return {}
    vectors = sent.vectors
    X = stacked([vectors, part.rows.X.astype(vectors.dtype, copy=False)])
    kernel = TrainingKernel(sent.spec, X, sent.tol)
    found = {
        number: _scores(part, machine, kernel, vectors.shape[0], sent.formulation, run)
        for number, machine in sent.machines.items()
    }
    return {number: scores for number, scores in found.items() if len(scores.at)}


def _scores(
    part: Part,
    machine: SentMachine,
    kernel: TrainingKernel,
    first: int,
    formulation: Formulation,
    run: Callable,
) -> RowScores:
    """The scores of one machine; ``first``: where the part's rows begin in the kernel matrix."""
    combinations, labels = part.combinations, part.rows.targets
    at = machine.selection.members(labels)
    if not len(at):
        return RowScores(at, np.empty(0), 0, 0.0, 0)
    targets = machine.selection.targets_of(labels)
    here = np.zeros(len(labels), dtype=bool)
    here[at] = True
    members = combinations.members
    member_here = here[members]
    padded = np.r_[machine.coefs, np.zeros(len(at))]
    values = kernel.for_sums(np.r_[machine.support, first + at], padded)

    def scored(rows: NDArray[np.intp]) -> Array:
        return values.scores(machine.support, machine.coefs, first + rows, run)

    own = np.zeros(len(members))
    own[member_here] = scored(members[member_here])
    known = cautious_scores(combinations, own, machine.norm, targets, formulation)
    seen = ~here
    seen[members] = True
    far = (WIDEST + SHIFT) * formulation.width(machine.offsets)
    wanted = rows_to_score(known, seen, machine.norm, targets, machine.offsets, far, formulation)
    asked = np.flatnonzero(wanted)
    known[asked] = scored(asked)
    losses = formulation.losses(formulation.positions(known, targets, machine.offsets))
    wrong = wrong_losses(combinations, losses, losses[members], at)
    n_values = (int(member_here.sum()) + len(asked)) * len(machine.support)
    return RowScores(at, known[at], n_values, float(wrong @ wrong), len(wrong))


class LastRound(NamedTuple):
    """How the rows of a part were last represented: the scores then, and where they were cut."""

    scores: dict[int, RowScores]
    cuts: dict[int, Cut]


def look(
    part: Part, found: dict[int, RowScores], sent: SentMachines, before: LastRound | None
) -> PartLooks:
    """The losses of the rows of a part, by every machine that has some of them."""
    return PartLooks.of(
        (number, _look(part.rows, found[number], machine, sent, before, number))
        for number, machine in sent.machines.items()
        if number in found
    )


def _look(
    rows: WeightedRows,
    found: RowScores,
    machine: SentMachine,
    sent: SentMachines,
    before: LastRound | None,
    number: int,
) -> PartLook:
    formulation, labels = sent.formulation, rows.targets[found.at]
    targets = machine.selection.targets_of(labels)
    costs = machine.selection.costs_of(labels) * rows.weights[found.at]
    ramps = formulation.ramps(found.values, targets, costs)
    kinks = ramps.kinks - np.array(machine.offsets)[ramps.which]
    width = formulation.width(machine.offsets)
    steps = steps_of(width)
    sums = np.zeros((len(machine.offsets), 2, len(steps) + 1, 2))
    for offset, direction in np.ndindex(sums.shape[:2]):
        mine = (ramps.which == offset) & (ramps.rising == bool(direction))
        # a kink on a step costs nothing there, so either side will do
        interval = np.searchsorted(steps, kinks[mine])
        for power in (0, 1):
            amounts = ramps.costs[mine] * kinks[mine] ** power
            sums[offset, direction, :, power] = np.bincount(interval, amounts, len(steps) + 1)
    crossed = 0
    if before is not None and number in before.cuts:
        cut = before.cuts[number]
        then = formulation.positions(before.scores[number].values, targets, cut.offsets)
        now = formulation.positions(found.values, targets, machine.offsets)
        was, is_ = formulation.pieces(then, cut.doubt), formulation.pieces(now, sent.tol)
        crossed = int(np.count_nonzero((was >= 0) & (is_ >= 0) & (was != is_)))
    return PartLook(
        sums,
        np.array(formulation.slopes(float(costs.sum()))),
        found.squared_error,
        found.n_wrong,
        found.n_values,
        crossed,
        width,
    )


#: Rows of a machine by position: first those near a kink as they are, then a set for each piece.
Strata = list[WeightedRows]


def stratum_tolerances(formulation: Formulation, hull_tol: float) -> list[float]:
    """Of the rows near a kink, and of each linear piece."""
    return [0.0, *(hull_tol * (COARSER if flat else 1.0) for flat in formulation.flat_pieces)]


def stratify(
    part: Part,
    found: dict[int, RowScores],
    cuts: dict[int, Cut],
    sent: SentMachines,
    hull_tol: float,
    reduce: LevelReducer,
    level: int | None = 1,
) -> dict[int, Strata]:
    """The strata of every machine, of the rows of a part; ``level`` as ``tolerance_of`` has it."""
    strata: dict[int, Strata] = {}
    formulation = sent.formulation
    tolerances = stratum_tolerances(formulation, hull_tol)
    for number, cut in cuts.items():
        if number not in found:
            continue
        rows = part.rows.take(found[number].at)
        targets = sent.machines[number].selection.targets_of(rows.targets)
        positions = formulation.positions(found[number].values, targets, cut.offsets)
        rows = replace(rows, positions=positions)
        pieces = formulation.pieces(positions, cut.doubt)
        own = [rows.take(np.flatnonzero(pieces == at - 1)) for at in range(len(tolerances))]
        strata[number] = [
            # without a tolerance there is nothing to reduce: the rows of a part are distinct
            reduce(stratum, tolerance, level) if len(stratum) and tolerance > 0.0 else stratum
            for stratum, tolerance in zip(own, tolerances, strict=True)
        ]
    return strata


def merged_strata(
    several: list[dict[int, Strata]],
    level: int | None,
    tolerances: list[float],
    reduce: LevelReducer,
) -> dict[int, Strata]:
    """The strata of several parts, as sets of the next level."""
    merged: dict[int, Strata] = {}
    for number in sorted({number for own in several for number in own}):
        own = [one[number] for one in several if number in one]
        if len(own) == 1 and level is not None:
            merged[number] = own[0]
            continue
        band, *pieces = zip(*own, strict=True)
        near = joined(band)
        merged[number] = [
            reduce(near, 0.0, level) if len(near) and len(own) > 1 else near,
            *(
                merge_tree.merged(sets, tolerance, level, reduce)
                for sets, tolerance in zip(pieces, tolerances[1:], strict=True)
            ),
        ]
    return merged
