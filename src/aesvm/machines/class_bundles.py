"""Small classes in bundles of a few hundred rows, and the pairs of classes in batches.

A bundle is some classes that follow each other. Kernel values are computed in blocks of two
bundles, which serve all pairs of a class of the one and a class of the other. These pairs are a
batch: the work of one thread.

That would be far more values than a pair of more rows than a bundle needs. Such pairs are put into
batches as they follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array
from aesvm.kernels import KernelMatrix
from aesvm.kernels.accumulate import Scratch
from aesvm.kernels.blocks import SQUARE_LINES
from aesvm.machines.one_vs_one import pair_number
from aesvm.solver.small_working_sets import BothClassValues, ClassValues

#: Rows of a bundle, at most where it has several classes.
BUNDLE_ROWS = 512

#: Rows of a batch of larger pairs, at most where it has several pairs.
_BATCH_ROWS = 16_384


class ClassMembers(NamedTuple):
    """Distinct rows of several classes, class by class."""

    rows: NDArray[np.intp]
    ends: NDArray[np.intp]  #: where each class ends
    bounds: Array  #: of the rows, costs times weights

    @property
    def sizes(self) -> NDArray[np.intp]:
        return np.diff(self.ends, prepend=0)

    @property
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
    """Pairs that one thread solves, one after another."""

    bundles: tuple[int, int] | None  #: those of the classes; None where pairs are larger
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
        The kernel values within some bundles.
    """

    def __init__(self, classes: ClassMembers, kernel: KernelMatrix) -> None:
        self.classes = classes
        self.kernel = kernel
        self.edges = _edges(classes.sizes)
        self.starts = np.concatenate([[0], classes.ends])[self.edges]
        self.held: dict[int, Array] = {}

    def of(self, number: int) -> int:
        """The bundle of a class."""
        return int(np.searchsorted(self.edges, number, side="right")) - 1

    def hold(self, wanted: Iterable[int], cache_bytes: int, run: Callable) -> None:
        """Compute and keep the values within the first of these bundles that there is room for."""
        bundles = np.array(sorted(wanted), dtype=np.intp)
        n_bytes = 8.0 * np.square(np.diff(self.starts)[bundles])
        bundles = bundles[np.cumsum(n_bytes) <= cache_bytes]
        found = run(lambda own: self.block(own, own, Scratch()), bundles.tolist())
        self.held = dict(zip(bundles.tolist(), found, strict=True))

    def within(self, bundle: int, scratch: Scratch) -> Array:
        """The kernel values within a bundle."""
        held = self.held.get(bundle)
        return self.block(bundle, bundle, scratch) if held is None else held

    def block(self, first: int, second: int, scratch: Scratch) -> Array:
        """The kernel values of two bundles, by lines that stay in the core's cache."""
        rows, starts = self.classes.rows, self.starts
        lines = rows[starts[first] : starts[first + 1]]
        columns = self.kernel.columns(rows[starts[second] : starts[second + 1]])
        block = scratch.block(len(lines), len(columns), self.kernel.dtype)
        for begin in range(0, len(lines), SQUARE_LINES):
            part = slice(begin, begin + SQUARE_LINES)
            columns.write(columns.lines(lines[part]), 0, len(columns), block[part])
        return block

    def class_values(self, pair: NDArray[np.intp]) -> BothClassValues:
        """The kernel values within each class of a pair, where they are held."""

        def one(number: int) -> ClassValues | None:
            bundle = self.of(number)
            if bundle not in self.held:
                return None
            begin = int(self.classes.begins[number] - self.starts[bundle])
            return ClassValues(self.held[bundle], begin)

        return one(int(pair[0])), one(int(pair[1]))

    def batches(self, wanted: NDArray[np.bool_]) -> list[Batch]:
        """The wanted pairs, by the bundles of their classes; those of a second bundle in a row."""
        found, n_classes = [], len(self.classes.ends)
        spans = [np.arange(*edges) for edges in pairwise(self.edges)]
        for other, second in enumerate(spans):
            for one, first in enumerate(spans[: other + 1]):
                grid = np.meshgrid(first, second, indexing="ij")
                pairs = np.stack([own.ravel() for own in grid], axis=1)
                pairs = pairs[pairs[:, 0] < pairs[:, 1]]
                pairs = pairs[wanted[pair_number(pairs[:, 0], pairs[:, 1], n_classes)]]
                if len(pairs):
                    found.append(Batch((one, other), pairs))
        return found


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
    """Consecutive pairs in batches of about ``_BATCH_ROWS`` rows; ``n_rows``: of each pair."""
    found, begin = [], 0
    while begin < len(pairs):
        reached = np.cumsum(n_rows[begin:])
        end = begin + max(1, int(np.searchsorted(reached, _BATCH_ROWS, side="right")))
        found.append(Batch(None, pairs[begin:end]))
        begin = end
    return found
