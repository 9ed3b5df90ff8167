"""The objective of machines whose scores are known, and the best they can do with these.

    F(w, b) = 1/2 |w|^2 + sum_k d_k b_k + sum_i c_i loss(p_i)

Given ``w`` by its scores ``<w, phi(x_i)>``, F is convex and piecewise linear in the offsets ``b``,
and convex in a multiple of w. The rows of several machines lie one after another in arrays, as
``Segments``; the numbers of each machine are arrays over machines. A single machine is one segment.

A dual solution that was cut short is no good primal solution: w is often far too long for its rows.
Its best multiple is found by ``best_multiples``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.runtime.jit import jit

#: Sums of costs that differ by this fraction of them are taken as equal.
_FLAT = 1e-10

#: An intercept below this fraction of the scores is rounding. An uncertain intercept is replaced by
#: zero where that raises the objective by no more than the second fraction.
_UNBIASED, _UNCHANGED = 1e-10, 1e-5

#: Powers of this are tried first: solutions that were cut are up to a millionfold too long.
_FACTOR, _EXPONENTS = 4.0, np.arange(-12, 5)

#: Steps of a golden-section search between these: some, and as many more as take little time. (With
#: a large C, objectives differ in the sixth digit of a multiple and beyond.)
_STEPS, _MOST_STEPS, _ROWS_OF_A_STEP = 12, 60, 500_000

#: Where a fit has several machines, the multiple is found from at most this many rows of each.
#: (With all rows, 780 pairs of classes that were cut short took three times as long as their solves
#: had.)
_SAMPLED = 128

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)

#: The offsets of several machines, an array for each offset.
OffsetArrays = tuple[Array, ...]


class Segments(NamedTuple):
    """Where machines begin in arrays over rows. Of several machines none is without rows.

    Arrays over the rows of a single machine may be on a device. Arrays over machines never are.
    """

    begins: NDArray[np.intp]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, sizes: NDArray[np.intp]) -> Segments:
        return cls(np.cumsum(sizes) - sizes, sizes)

    @property
    def single(self) -> bool:
        return len(self.sizes) == 1

    def sum(self, values: Any) -> Array:
        """The sum of each machine's values."""
        if self.single:
            return np.array([float(values.sum())])
        return np.add.reduceat(values, self.begins, dtype=np.float64)

    def largest(self, values: Any) -> Array:
        """The largest of each machine's values, which are not negative."""
        if self.single:
            return np.array([float(values.max(initial=0.0))])
        return np.maximum.reduceat(values, self.begins)

    def spread(self, numbers: Array) -> Any:
        """The number of its machine, for each row."""
        return float(numbers[0]) if self.single else np.repeat(numbers, self.sizes)


class Objective:
    """F of machines, as a function of scores.

    Targets and bounds of machines lie one after another; without ``segments`` there is one machine.
    """

    def __init__(
        self,
        formulation: Formulation,
        targets: Array,
        bounds: Array,
        segments: Segments | None = None,
    ) -> None:
        self.formulation = formulation
        self.targets = targets
        self.bounds = bounds
        self.segments = segments or Segments.of(np.array([len(bounds)]))
        self.total_cost = self.segments.sum(bounds)
        slopes = formulation.slopes(self.total_cost)
        self.slopes = tuple(one + np.zeros(len(self.total_cost)) for one in slopes)

    def part(self, begin: int, end: int) -> Objective:
        """That of consecutive machines."""
        segments = self.segments
        if end - begin == len(segments.sizes):
            return self
        starts = [*segments.begins.tolist(), len(self.bounds)]
        rows = slice(starts[begin], starts[end])
        own = Segments.of(segments.sizes[begin:end])
        return Objective(self.formulation, self.targets[rows], self.bounds[rows], own)

    def positions(self, scores: Array, offsets: OffsetArrays) -> Array:
        """Where rows lie on the axis of the loss."""
        of_rows = tuple(self.segments.spread(own) for own in offsets)
        return self.formulation.positions(scores, self.targets, of_rows)

    def loss(self, scores: Array, offsets: OffsetArrays) -> Array:
        """F without ``1/2 |w|^2``."""
        losses = self.formulation.losses(self.positions(scores, offsets))
        return self.segments.sum(self.bounds * losses) + self.linear(offsets)

    def linear(self, offsets: OffsetArrays) -> Array:
        """What F has of the offsets alone."""
        return sum(slope * own for slope, own in zip(self.slopes, offsets, strict=True))

    def best_offsets(self, scores: Array) -> OffsetArrays:
        """The offsets that minimise F; the middle where several do."""
        ramps = self.formulation.ramps(scores, self.targets, self.bounds)
        numbers = None
        if not self.segments.single:
            of_rows = np.repeat(np.arange(len(self.segments.sizes)), self.segments.sizes)
            numbers = np.concatenate([of_rows] * (len(ramps.kinks) // len(scores)))
        found = []
        for number, slope in enumerate(self.slopes):
            own = ramps.which == number if len(self.slopes) > 1 else slice(None)
            each = ramps.kinks[own], ramps.costs[own], ramps.rising[own]
            if numbers is None:
                found.append(np.array([_lowest_point(*each, float(slope[0]))]))
            else:
                found.append(_lowest_points(*each, slope, numbers[own]))
        return tuple(found)

    def unbiased_offsets(
        self, scores: Array, squared_norms: Array | float, violations: Array | float
    ) -> OffsetArrays:
        """The best offsets; those of an intercept of zero where these are as good.

        An intercept is known up to the ``violations`` that solves ended at, and up to rounding. Far
        from all support vectors it alone decides, and the last digits of a solution must not.
        """
        formulation, offsets = self.formulation, self.best_offsets(scores)
        if not formulation.predicts_sign:
            return offsets
        decision = formulation.decision(offsets)
        intercepts = decision.intercept * decision.scale
        size = np.maximum(formulation.width(offsets), self.segments.largest(np.abs(scores)))
        unknown = np.abs(intercepts) <= np.maximum(violations, _UNBIASED * size)
        if not unknown.any():
            return offsets
        zero = tuple(
            np.where(unknown, own - sign * intercepts, own)
            for own, sign in zip(offsets, decision.signs, strict=True)
        )
        best, other = self.loss(scores, offsets), self.loss(scores, zero)
        same = other - best <= _UNCHANGED * np.abs(0.5 * squared_norms + best)
        return tuple(
            np.where(same, of_zero, own) for own, of_zero in zip(offsets, zero, strict=True)
        )

    def best_multiples_of_w(self, scores: Array, squared_norms: Array | float) -> Array:
        """The t for which ``F(t w, b)`` is smallest, with the best offsets b."""

        def objective(t: Array) -> Array:
            scaled = self.segments.spread(t) * scores
            return 0.5 * t * t * squared_norms + self.loss(scaled, self.best_offsets(scaled))

        n_machines = len(self.total_cost)
        # otherwise the kernel is not positive semidefinite
        known = np.greater(squared_norms, 0.0) & np.less(squared_norms, inf)
        if not known.any():
            return np.ones(n_machines)
        is_few = self.segments.single or self.segments.sizes.max() <= _SAMPLED
        if is_few or self.formulation.is_homogeneous:  # a nu form is feasible for all rows alone
            return np.where(known, best_multiples(objective, n_machines, len(scores)), 1.0)
        some, at = self._some_rows()
        multiples = some.best_multiples_of_w(scores[at], squared_norms)
        tried = np.stack([np.ones(n_machines), np.zeros(n_machines), multiples])
        best = np.argmin([objective(t) for t in tried], axis=0)
        return np.where(known, tried[best, np.arange(n_machines)], 1.0)

    def _some_rows(self) -> tuple[Objective, NDArray[np.intp]]:
        """Every k-th row of each machine, with the costs of all; and which rows these are."""
        segments = self.segments
        steps = -(-segments.sizes // _SAMPLED)
        places = np.arange(len(self.bounds)) - np.repeat(segments.begins, segments.sizes)
        at = np.flatnonzero(places % np.repeat(steps, segments.sizes) == 0)
        own = Segments.of(-(-segments.sizes // steps))
        bounds = self.bounds[at] * own.spread(self.total_cost / own.sum(self.bounds[at]))
        return Objective(self.formulation, self.targets[at], bounds, own), at


def best_multiples(value: Callable[[Array], Array], n: int, n_rows: int) -> Array:
    """Multiples t, 0 or more, that make convex functions small; no worse than t = 1.

    ``value`` takes the multiples of n machines to their objectives. Its time grows with ``n_rows``,
    those of all machines.
    """
    tried = [(np.full(n, t), value(np.full(n, t))) for t in (1.0, 0.0)]
    powers = np.log(_FACTOR) * _EXPONENTS
    values = np.array([value(np.full(n, np.exp(power))) for power in powers])
    middle = powers[values.argmin(axis=0)]
    tried.append((np.exp(middle), values.min(axis=0)))
    low, high = middle - np.log(_FACTOR), middle + np.log(_FACTOR)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(np.exp(left)), value(np.exp(right))
    tried += [(np.exp(left), at_left), (np.exp(right), at_right)]
    for _ in range(min(_MOST_STEPS, _STEPS + _ROWS_OF_A_STEP // max(n_rows, 1))):
        is_left = at_left <= at_right
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
        new = np.where(is_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = value(np.exp(new))
        tried.append((np.exp(new), at_new))
        left, right = np.where(is_left, new, right), np.where(is_left, left, new)
        at_left, at_right = (
            np.where(is_left, at_new, at_right),
            np.where(is_left, at_left, at_new),
        )
    best = np.argmin([values for _, values in tried], axis=0)
    return np.array([multiples for multiples, _ in tried])[best, np.arange(n)]


def _lowest_point(kinks: Any, costs: Any, rising: Any, linear: float) -> float:
    """The b that minimises the ramps of one machine and ``linear * b``.

    The sum is piecewise linear in b. Its slope right of a kink is the cost of rising ramps up to
    there, less that of falling ramps beyond. So it is lowest between the first kink right of which
    it does not fall, and the first right of which it rises; where there is none, the last kink.
    """
    if not len(kinks):
        return 0.0
    order = np.argsort(kinks)
    kinks, costs, rising = kinks[order], costs[order], rising[order]
    falling = np.where(rising, 0.0, costs)
    below = np.cumsum(costs - falling) + linear
    # grows from the end: huge values leave small ones their digits
    above = np.zeros_like(falling)
    above[:-1] = np.cumsum(falling[::-1])[::-1][1:]
    # sums that only grow: what holds right of a kink holds right of all that follow
    falls = below * (1.0 + _FLAT) < above * (1.0 - _FLAT)
    rises = below * (1.0 - _FLAT) > above * (1.0 + _FLAT)
    ends = (min(int(before.sum()), len(kinks) - 1) for before in (falls, ~rises))
    return sum(0.5 * float(kinks[end]) for end in ends)


def _lowest_points(
    kinks: Array, costs: Array, rising: NDArray[np.bool_], linear: Array, numbers: NDArray[np.intp]
) -> Array:
    """The same for each of several machines; ``numbers``: the machine of each ramp."""
    order = np.argsort(kinks)
    # small whole numbers are put in order by their digits, in less time than lexsort takes
    small = numbers[order].astype(np.min_scalar_type(len(linear)))
    order = order[np.argsort(small, kind="stable")]
    sizes = np.bincount(numbers, minlength=len(linear))
    lowest, above = np.zeros(len(linear)), np.empty(len(kinks))
    _find_lowest(kinks[order], costs[order], rising[order], linear, sizes, above, lowest)
    return lowest


@jit
def _find_lowest(kinks, costs, rising, linear, sizes, above, lowest):
    """As ``_lowest_point``, machine by machine; ``above``: room for a number for each ramp."""
    begin = 0
    for number in range(sizes.size):
        end = begin + sizes[number]
        rest = 0.0
        for k in range(end - 1, begin - 1, -1):
            above[k] = rest
            rest += 0.0 if rising[k] else costs[k]
        below = linear[number]
        n_falls = n_level = 0
        for k in range(begin, end):
            below += costs[k] if rising[k] else 0.0
            n_falls += below * (1.0 + _FLAT) < above[k] * (1.0 - _FLAT)
            n_level += not below * (1.0 - _FLAT) > above[k] * (1.0 + _FLAT)
        if end > begin:
            last = end - 1
            first, second = min(begin + n_falls, last), min(begin + n_level, last)
            lowest[number] = 0.5 * kinks[first] + 0.5 * kinks[second]
        begin = end


def best_offsets(formulation: Formulation, scores: Array, targets: Array, bounds: Array) -> Offsets:
    """The offsets that minimise F of one machine; the middle where several do."""
    return only(Objective(formulation, targets, bounds).best_offsets(scores))


def total_loss(
    formulation: Formulation, positions: Array, bounds: Array, offsets: Offsets
) -> float:
    """F of one machine without ``1/2 |w|^2``."""
    slopes = formulation.slopes(float(bounds.sum()))
    linear = sum(slope * offset for slope, offset in zip(slopes, offsets, strict=True))
    return float(bounds @ formulation.losses(positions)) + linear


def worst_optimum(formulation: Formulation, targets: Array, bounds: Array) -> float:
    """An upper bound on the least F of one machine: its value at ``w = 0`` and the best offsets."""
    objective, scores = Objective(formulation, targets, bounds), np.zeros(len(targets))
    return float(objective.loss(scores, objective.best_offsets(scores))[0])


def dual_value(
    formulation: Formulation, coefs: Array, targets: Array, squared_norm: float
) -> float:
    """The dual objective of one machine, at the best multiple of feasible coefficients."""
    gain = float(formulation.gain(coefs, targets).sum())
    return float(formulation.dual_value(gain, squared_norm))


def tol_of(formulation: Formulation, tol: float, total_cost: Any, n_rows: Any) -> Any:
    """The violation of optimality that a solve ends at, in the unit of its scores.

    ``tol`` is meant for costs of about one. Where scores are proportional to the costs, it is
    lowered with these. Costs and rows are those of one machine, or arrays.

    Examples
    --------
    >>> from aesvm.formulations.objective import tol_of
    >>> from aesvm.formulations.hinge import Hinge
    >>> from aesvm.formulations.nu_hinge import NuHinge
    >>> tol_of(Hinge(), 1e-3, 0.5, 50), float(tol_of(NuHinge(0.5), 1e-3, 0.5, 50))
    (0.001, 1e-05)
    """
    if not formulation.is_homogeneous:
        return tol
    return tol * np.minimum(1.0, total_cost / np.maximum(n_rows, 1))


def n_support(formulation: Formulation, positions: Array) -> int:
    """Rows that would be support vectors: those that are not on a piece of zero loss."""
    flat = [piece for piece, is_flat in enumerate(formulation.flat_pieces) if is_flat]
    pieces = formulation.pieces(positions, 0.0)
    return int(np.count_nonzero(~np.isin(pieces, flat)))


def only(offsets: OffsetArrays) -> Offsets:
    """The offsets of a single machine."""
    return tuple(float(own[0]) for own in offsets)


def arrays(numbers: Offsets) -> OffsetArrays:
    """Offsets or other numbers of a single machine, as arrays over machines."""
    return tuple(np.array([own]) for own in numbers)
