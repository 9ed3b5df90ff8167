"""Small classes in bundles of a few hundred rows, and the pairs of classes in batches.

A bundle is some classes that follow each other. Kernel values are computed in blocks of two
bundles, which serve all pairs of a class of the one and a class of the other. These pairs are a
batch: the work of one thread.

That would be far more values than a pair of more rows than a bundle needs. Such pairs are put into
batches as they follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array
from aesvm.kernels import KernelMatrix
from aesvm.kernels.blocks import SQUARE_LINES
from aesvm.kernels.crew import Scratch
from aesvm.machines.problem import ClassPairs
from aesvm.runtime.cached import cached_property
from aesvm.solver.small_working_sets import ClassValues

#: Rows of a bundle, at most where it has several classes.
BUNDLE_ROWS = 512

#: Larger pairs make this many batches or more, which keep many threads busy until the end; but a
#: batch has a pair at least, and one of several pairs at most so many rows.
_BATCHES, _BATCH_ROWS = 96, 16_384

#: Rows of a batch that a device solves. Large GPUs take up to a second for as many: between two
#: batches an interrupt is answered, and the time looked at.
_DEVICE_ROWS = 2**19


@dataclass(frozen=True)
class ClassMembers:
    """Distinct rows of several classes, class by class."""

    rows: NDArray[np.intp]
    ends: NDArray[np.intp]  #: where each class ends
    bounds: Array  #: of the rows, costs times weights

    @classmethod
    def of(
        cls, pairs: ClassPairs, rows: NDArray[np.intp], given: NDArray, weights: Array
    ) -> ClassMembers:
        """Some rows, class by class; ``given``: the class of each."""
        labels = pairs.labels(given)
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=len(pairs.classes)))
        with np.errstate(over="ignore"):
            bounds = pairs.costs[labels] * weights
        return cls(rows[order], ends, bounds[order])

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        return self.ends - np.concatenate([[0], self.ends[:-1]])

    @cached_property
    def begins(self) -> NDArray[np.intp]:
        return self.ends - self.sizes

    def of_pairs(self, pairs: NDArray[np.intp]) -> NDArray[np.intp]:
        """Positions of the rows of pairs of classes, pair by pair.

        Examples
        --------
        >>> import numpy as np
        >>> from aesvm.machines.class_bundles import ClassMembers
        >>> members = ClassMembers(np.arange(5), np.array([2, 3, 5]), np.ones(5))
        >>> members.of_pairs(np.array([[0, 1], [0, 2]]))
        array([0, 1, 2, 0, 1, 3, 4])
        """
        begins, sizes = self.begins[pairs].ravel(), self.sizes[pairs].ravel()
        ends = np.cumsum(sizes)
        return np.repeat(begins - (ends - sizes), sizes) + np.arange(ends[-1])


class Batch(NamedTuple):
    """Pairs that one thread solves, one after another, or a device side by side."""

    bundles: tuple[int, int] | None  #: of the classes; None where their values are not needed
    pairs: NDArray[np.intp]  #: (n_pairs, 2), the classes


class Bundles:
    """The bundles of some classes, and their kernel values.

    Parameters
    ----------
    classes : ClassMembers
    kernel : KernelMatrix

    Attributes
    ----------
    edges : list of int
        Bundle b has the classes ``edges[b]`` to ``edges[b + 1]``.
    starts : ndarray of shape (n_bundles + 1,)
        The position of the first row of each bundle.
    held : dict
        The kernel values within some bundles: views of one array, ``held_values``.
    """

    def __init__(self, classes: ClassMembers, kernel: KernelMatrix) -> None:
        self.classes = classes
        self.kernel = kernel
        self.edges = _edges(classes.sizes)
        self.starts = np.concatenate([[0], classes.ends])[self.edges]
        self.sizes = self.starts[1:] - self.starts[:-1]
        #: the bundle of each class
        self.of_classes = np.repeat(np.arange(len(self.sizes)), np.diff(self.edges))
        self.held: dict[int, Array] = {}
        self.held_values = np.empty(0)

    def hold(self, wanted: Iterable[int], cache_bytes: int, run: Callable) -> None:
        """Compute and keep the values within the first of these bundles that there is room for."""
        bundles = np.array(sorted(wanted), dtype=np.intp)
        sizes = np.square(self.sizes[bundles])
        bundles = bundles[8.0 * np.cumsum(sizes) <= cache_bytes]
        ends = np.cumsum(sizes[: len(bundles)]).tolist()
        self.held_values = np.empty(ends[-1] if ends else 0)
        own = {}
        for bundle, (begin, end) in zip(bundles.tolist(), pairwise([0, *ends]), strict=True):
            n = int(self.sizes[bundle])
            own[bundle] = self.held_values[begin:end].reshape(n, n)
        for _ in run(lambda bundle: self._write(bundle, bundle, own[bundle]), own):
            pass
        self.held = own

    def within(self, bundle: int, scratch: Scratch) -> Array:
        """The kernel values within a bundle."""
        held = self.held.get(bundle)
        return self.block(bundle, bundle, scratch) if held is None else held

    def block(self, first: int, second: int, scratch: Scratch) -> Array:
        """The kernel values of two bundles."""
        shape = int(self.sizes[first]), int(self.sizes[second])
        block = scratch.block(*shape, self.kernel.dtype)
        self._write(first, second, block)
        return block

    def _write(self, first: int, second: int, block: Array) -> None:
        """The kernel values of two bundles, by lines that stay in the core's cache."""
        rows, starts = self.classes.rows, self.starts
        lines = rows[starts[first] : starts[first + 1]]
        columns = self.kernel.columns(rows[starts[second] : starts[second + 1]])
        for begin in range(0, len(lines), SQUARE_LINES):
            part = lines[begin : begin + SQUARE_LINES]
            end = begin + len(part)
            if first == second:  # symmetric: one half is computed, and mirrored
                values = np.empty((len(part), end), dtype=block.dtype)
                columns.write(columns.own_lines(np.arange(begin, end), part), 0, end, values)
                block[begin:end, :end] = values
                block[:begin, begin:end] = values[:, :begin].T
            else:
                columns.write(columns.lines(part), 0, len(columns), block[begin:end])

    def class_values(self) -> ClassValues:
        """Where the kernel values within each class are held."""
        bundle = self.of_classes
        starts = np.full(len(self.sizes), -1, dtype=np.intp)
        at = 0
        for number, block in self.held.items():
            starts[number], at = at, at + block.size
        begins = self.classes.begins - self.starts[bundle]
        places = np.stack([starts[bundle], self.sizes[bundle], begins], axis=1)
        return ClassValues(self.held_values, places.reshape(len(self.classes.ends), 3))

    def batches(self, pairs: NDArray[np.intp]) -> list[Batch]:
        """Some pairs, by the bundles of their classes; those of a second bundle in a row."""
        one, other = (self.of_classes[own] for own in pairs.T)
        number = other * len(self.sizes) + one
        order = np.argsort(number, kind="stable")
        pairs, number = pairs[order], number[order]
        edges = [0, *(np.flatnonzero(number[1:] != number[:-1]) + 1).tolist(), len(pairs)]
        return [
            Batch((one[order[begin]].item(), other[order[begin]].item()), pairs[begin:end])
            for begin, end in pairwise(edges)
            if begin < end
        ]


def _edges(sizes: NDArray[np.intp]) -> list[int]:
    """The first class of each bundle, and the number of classes."""
    edges, n_rows = [0], 0
    for number, size in enumerate(sizes.tolist()):
        if n_rows and n_rows + size > BUNDLE_ROWS:
            edges.append(number)
            n_rows = 0
        n_rows += size
    return [*edges, len(sizes)]


def larger_batches(pairs: NDArray[np.intp], n_rows: NDArray[np.intp]) -> list[Batch]:
    """Consecutive pairs in batches, those of most rows first; ``n_rows``: of each pair."""
    found = _consecutive(pairs, n_rows, min(n_rows.sum() / _BATCHES, _BATCH_ROWS))
    return [batch for _, batch in sorted(found, key=lambda one: -one[0])]


def device_batches(pairs: NDArray[np.intp], n_rows: NDArray[np.intp]) -> list[Batch]:
    """Pairs in batches that a device solves at once, pairs of most rows first."""
    order = np.argsort(-n_rows, kind="stable")
    return [batch for _, batch in _consecutive(pairs[order], n_rows[order], _DEVICE_ROWS)]


def _consecutive(
    pairs: NDArray[np.intp], n_rows: NDArray[np.intp], most: float
) -> list[tuple[int, Batch]]:
    """Pairs as they follow each other, in batches of up to ``most`` rows; and the rows of each."""
    found, begin = [], 0
    ends = np.cumsum(n_rows)
    while begin < len(pairs):
        before = ends[begin] - n_rows[begin]
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        found.append((int(ends[end - 1] - before), Batch(None, pairs[begin:end])))
        begin = end
    return found
