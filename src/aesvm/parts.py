"""Rows that lie in several places: what is asked of each place, and how answers are merged.

A part is some rows, and who of them stands for whom. An SVM whose rows are elsewhere, in a file
that is read again or on the workers of a cluster, asks three things of every part:

gather      its representatives;
look        at the margins of its rows. Those of its representatives are computed, and of the others
            those that ``|<w, z_i> - <w, u_i>| <= |w| |tau_i|`` leaves in doubt;
stratify    its rows by margin, as in ``refine``: rows near the margin come as they are, those on
            either side as sets of their own.

Answers of several parts are merged into one, level by level: sets as in ``tree``, numbers by adding
them up. So no place ever holds more than a few answers, and no rows but those that matter travel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm import tree
from aesvm.base import Progress
from aesvm.books import Books
from aesvm.expansion import scores
from aesvm.refine import COARSER, DEVIATIONS, SAME, WIDEST
from aesvm.representative import RepresentativeSet, represented
from aesvm.tree import Held, Reduce, stacked, together

#: The offset is looked for within so much of the present one, on so many steps.
SHIFT, STEPS = 0.25, 256


class Part(NamedTuple):
    """Some rows, all different and of some weight, and who stands for whom."""

    rows: Held
    books: Books

    def representatives(self) -> Held:
        weights = self.books.gather(self.rows.weights)
        reach = sqrt(max(float(self.books.residuals.max(initial=0.0)), 0.0))
        return replace(self.rows.take(self.books.members), weights=weights, reach=reach)


def part_of(
    settings: RepresentativeSet,
    rows: Held,
    tolerance: float,
    run: Any,
    progress: Progress,
    enough: float | None = None,
) -> Part:
    """A part of some rows as they come, its representatives within a squared distance.

    Where more than a share of ``enough`` would represent, all do.
    """
    rows = rows.take(np.flatnonzero(rows.weights))
    if not len(rows):
        return Part(rows, Books.everyone(0))
    gamma = float(settings.gamma)
    _, merged = represented(
        settings, rows, tolerance, gamma, run, progress, combinations=True, enough=enough
    )
    at, found = merged.distinct, merged.found
    own = replace(rows.take(at), weights=merged.weights[at])
    n_most = len(at) - 1 if enough is None else enough * len(at)
    if found.combinations is None or len(found.selected) > n_most:
        return Part(own, Books.everyone(len(at)))
    members = np.searchsorted(at, found.selected)
    return Part(own, Books(members, found.combinations[at], found.residuals[at]))


class PairSVM(NamedTuple):
    """The SVM of a pair of classes, as it is sent to the parts."""

    classes: tuple[Any, Any]  #: the first is the positive one
    costs: tuple[float, float]  #: C times the weight of each
    support: NDArray[np.intp]  #: among the vectors
    coefs: NDArray[np.float64]
    offset: float
    norm: float  #: of w; infinite where the kernel is not known to be positive semidefinite


class PairSVMs(NamedTuple):
    """The SVMs of all pairs that have rows, by the number of the pair."""

    vectors: Any  #: rows that support any of them
    of: dict[int, PairSVM]


#: The kernel matrix of some rows that is precise enough for the coefficients of some of them.
KernelFor = Callable[[Any, NDArray[np.intp], NDArray[np.float64]], Any]


class Scores(NamedTuple):
    """What the SVM of one pair says of the rows of a part that belong to it."""

    at: NDArray[np.intp]  #: which they are
    values: NDArray[np.float64]  #: <w, z>; of those proven to be far outside, a bound
    n_values: int  #: kernel values that took
    squared_error: float  #: what representatives get wrong of the losses: the sum of squares
    n_wrong: int  #: over so many rows


def score(part: Part, machines: PairSVMs, kernel_for: KernelFor, run: Any) -> dict[int, Scores]:
    """The scores of all rows of a part, for every pair."""
    if not len(part.rows):
        return {}
    vectors = machines.vectors
    everything = stacked([vectors, part.rows.X.astype(vectors.dtype, copy=False)])
    found = {
        number: _scores(part, machine, everything, vectors.shape[0], kernel_for, run)
        for number, machine in machines.of.items()
    }
    return {number: scores for number, scores in found.items() if len(scores.at)}


def _scores(
    part: Part, machine: PairSVM, everything: Any, first: int, kernel_for: KernelFor, run: Any
) -> Scores:
    """The scores of one pair; ``first``: where the part's rows begin among all that are known."""
    books, y = part.books, part.rows.y
    at = np.flatnonzero((y == machine.classes[0]) | (y == machine.classes[1]))
    if not len(at):
        return Scores(at, np.empty(0), 0, 0.0, 0)
    signs = np.where(y == machine.classes[0], 1.0, -1.0)
    here = np.zeros(len(y), dtype=bool)
    here[at] = True
    members = here[books.members]
    kernel = kernel_for(everything, np.r_[machine.support, first + at], _padded(machine, len(at)))

    def scored(rows: NDArray[np.intp]) -> NDArray[np.float64]:
        return scores(kernel, machine.support, machine.coefs, first + rows, run)

    own = np.zeros(len(books.members))
    own[members] = scored(books.members[members])
    known = np.array(books.spread(own))
    known[books.members] = own
    wanted = here.copy()
    wanted[books.members] = False
    if np.isfinite(machine.norm):
        # what is not looked at is taken as near to the margin as it can be
        reach = machine.norm * np.sqrt(np.maximum(books.residuals, 0.0))
        reach[books.members] = 0.0
        known -= signs * reach
        wanted &= signs * (known + machine.offset) < 1.0 + WIDEST + SHIFT
    asked = np.flatnonzero(wanted)
    known[asked] = scored(asked)
    losses = np.maximum(0.0, 1.0 - signs * (known + machine.offset))
    wrong = (books.spread(losses[books.members]) - losses)[at]
    wrong = wrong[np.abs(wrong) > SAME]
    n_values = (int(members.sum()) + len(asked)) * len(machine.support)
    return Scores(at, known[at], n_values, float(wrong @ wrong), len(wrong))


def _padded(machine: PairSVM, n: int) -> NDArray[np.float64]:
    return np.r_[machine.coefs, np.zeros(n)]


class Seen(NamedTuple):
    """The rows of a pair, seen by its SVM: hinge losses as a function of the offset b.

    A row loses ``c |kink - b|`` on one side of its kink, the b at which its margin is 1. Of all
    rows between two of the steps, the sums of c and of ``c kink`` are kept, by sign: at every step
    the losses are known to the last digit, and between two steps there is little to gain.
    """

    sums: NDArray[np.float64]  #: by sign, interval, and power of the kink (from the present offset)
    squared_error: float
    n_wrong: int
    n_values: int

    def plus(self, other: Seen) -> Seen:
        return Seen(
            self.sums + other.sums,
            self.squared_error + other.squared_error,
            self.n_wrong + other.n_wrong,
            self.n_values + other.n_values,
        )

    def doubt(self, hinge_reduced: float) -> float:
        """How far from 1 a margin must be for its side to be believed (``refine``).

        What the representatives of the parts get wrong is known row by row; of those that the SVM
        was trained on, whose losses are ``hinge_reduced``, no more than the mean, over the rows
        within the margin.
        """
        error = sqrt(self.squared_error / self.n_wrong) if self.n_wrong else 0.0
        within = self.sums[0, STEPS // 2 + 1 :, 0].sum() + self.sums[1, : STEPS // 2 + 1, 0].sum()
        if within > 0.0:
            error = max(error, abs(self.here() - hinge_reduced) / within)
        return min(DEVIATIONS * error, WIDEST)

    def losses(self) -> NDArray[np.float64]:
        """Hinge losses on every step; the one in the middle is the present offset."""
        steps = _steps()
        positive, negative = self.sums
        above = np.cumsum(positive[::-1], axis=0)[::-1][1:]
        below = np.cumsum(negative, axis=0)[:-1]
        return above[:, 1] - steps * above[:, 0] + steps * below[:, 0] - below[:, 1]

    def here(self) -> float:
        """Hinge losses at the present offset."""
        return float(self.losses()[STEPS // 2])

    def best(self, offset: float) -> float:
        """The step on which hinge losses are least; ``offset``: the present one."""
        return offset + float(_steps()[int(np.argmin(self.losses()))])


def look(part: Part, found: dict[int, Scores], machines: PairSVMs) -> dict[int, Seen]:
    """What every pair is to know of a part, from its scores."""
    return {
        number: _seen(part.rows, found[number], machine)
        for number, machine in machines.of.items()
        if number in found
    }


def _seen(rows: Held, found: Scores, machine: PairSVM) -> Seen:
    first = rows.y[found.at] == machine.classes[0]
    signs = np.where(first, 1.0, -1.0)
    bounds = np.where(first, *machine.costs) * rows.weights[found.at]
    kinks = signs - found.values - machine.offset
    steps = _steps()
    sums = np.zeros((2, len(steps) + 1, 2))
    for sign, mine in enumerate((first, ~first)):
        # a kink on a step costs nothing there, so either side will do
        interval = np.searchsorted(steps, kinks[mine])
        for power in (0, 1):
            amounts = bounds[mine] * kinks[mine] ** power
            sums[sign, :, power] = np.bincount(interval, amounts, len(steps) + 1)
    return Seen(sums, found.squared_error, found.n_wrong, found.n_values)


def merged_looks(looks: list[dict[int, Seen]]) -> dict[int, Seen]:
    """What several parts have seen, together."""
    merged: dict[int, Seen] = {}
    for one in looks:
        for number, seen in one.items():
            merged[number] = merged[number].plus(seen) if number in merged else seen
    return merged


def _steps() -> NDArray[np.float64]:
    return np.linspace(-SHIFT, SHIFT, STEPS + 1)


class Cut(NamedTuple):
    """Where a pair's rows are cut by margin."""

    classes: tuple[Any, Any]
    offset: float
    doubt: float


class Strata(NamedTuple):
    """Rows of a pair by margin: near it as they are, and sets of those on either side."""

    band: Held
    inside: Held
    outside: Held

    @property
    def n_bytes(self) -> int:
        return sum(stratum.n_bytes for stratum in self)


def stratify(
    part: Part,
    found: dict[int, Scores],
    cuts: dict[int, Cut],
    hull_tol: float,
    reduce: Reduce,
    level: int | None = 1,
) -> dict[int, Strata]:
    """The strata of every pair, of the rows of a part; ``level`` as ``tolerance_of`` has it."""
    strata = {}
    for number, cut in cuts.items():
        if number not in found:
            continue
        own = found[number]
        rows = part.rows.take(own.at)
        signs = np.where(rows.y == cut.classes[0], 1.0, -1.0)
        margins = signs * (own.values + cut.offset)
        rows = replace(rows, margins=margins)
        inside, outside = margins < 1.0 - cut.doubt, margins > 1.0 + cut.doubt
        band, *sides = (
            rows.take(np.flatnonzero(side)) for side in (~inside & ~outside, inside, outside)
        )
        strata[number] = Strata(
            *(
                reduce(stratum, tolerance, level) if len(stratum) else stratum
                for stratum, tolerance in zip(
                    (band, *sides), (0.0, hull_tol, COARSER * hull_tol), strict=True
                )
            )
        )
    return strata


def merged_strata(
    several: list[dict[int, Strata]],
    level: int | None,
    hull_tol: float,
    reduce: Reduce,
) -> dict[int, Strata]:
    """The strata of several parts, as sets of the next level."""
    numbers = sorted({number for one in several for number in one})
    merged = {}
    for number in numbers:
        own = [one[number] for one in several if number in one]
        if len(own) == 1 and level is not None:
            merged[number] = own[0]
            continue
        band, *sides = (list(sets) for sets in zip(*own, strict=True))
        near = together(band)
        merged[number] = Strata(
            reduce(near, 0.0, level) if len(near) else near,
            *(
                tree.merged(sets, tolerance, level, reduce)
                for sets, tolerance in zip(sides, (hull_tol, COARSER * hull_tol), strict=True)
            ),
        )
    return merged
