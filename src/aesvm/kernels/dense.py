"""Kernels of dense input vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from aesvm.kernels import blocks, expansion, tiles
from aesvm.kernels.blocks import cached_rows
from aesvm.kernels.crew import Crew, KeptRows
from aesvm.kernels.distances import RowDistances, finite
from aesvm.kernels.functions import EXPONENTIAL
from aesvm.kernels.matrix import Columns
from aesvm.kernels.tiles import ProductMap, RowsByClass
from aesvm.kernels.vectors import (
    FARTHEST,
    GAMMAS,
    MOST_FAR,
    NO_FAR,
    Limit,
    VectorKernel,
    mend,
    scaled,
)
from aesvm.runtime.cached import cached_property
from aesvm.runtime.jit import COMPILES, jit


class DenseKernel(VectorKernel):
    @cached_property
    def center(self) -> NDArray:
        """A point inside the data, one occurring value per feature.

        Near the median of a sample, so that neither an offset nor an outlier costs digits;
        a value that occurs, so that differences of whole numbers stay exact.
        """
        if not self.n_rows:
            return np.zeros(self.X.shape[1], dtype=self.X.dtype)
        sample = self.X[:: max(1, self.n_rows // 101)]
        center = np.partition(sample, (len(sample) - 1) // 2, axis=0)[(len(sample) - 1) // 2]
        return np.ascontiguousarray(center)

    def square(self, rows, out=None):
        return self.square_of(self.X[rows], out)

    def square_by(self, rows, columns, crew):
        n = len(rows)
        if not (isinstance(columns, _Products) and columns._in_tiles(n, n)):
            return self.square(rows)
        values = np.empty((n, n), dtype=self.dtype)
        columns.write_square(rows, values, crew)
        return values

    def columns(self, rows):
        return self.columns_by(rows)

    def columns_by(self, rows, run=map):
        if not self.kernel.of_distances:
            return _Products(self, self.X[rows].astype(self.dtype, copy=False))
        found = self.products(rows)
        if found is None:
            return self.apart(rows)
        dtype, limit = found
        return _Products(self, self.factor(self.X, dtype, rows, run), limit)

    def products(self, rows: NDArray[np.intp]) -> tuple[np.dtype, Limit] | None:
        """The precision of products, and which rows are far; None: products are not for them."""
        norms, gamma = self.scaled_squared_norms[rows], self.parameters.gamma
        largest, may_be_far = float(norms.max(initial=0.0)), False
        if self.kernel.compiled_map == EXPONENTIAL and COMPILES:
            may_be_far = largest <= FARTHEST and GAMMAS[0] <= gamma <= GAMMAS[1]
        for dtype in dict.fromkeys([self.dtype, np.dtype(np.float64)]):
            most = self.most_precise(dtype)
            if largest <= most:
                return dtype, NO_FAR
            if may_be_far and np.count_nonzero(norms > most) <= MOST_FAR * len(norms):
                return dtype, Limit(most, gamma)
        return None

    def size_of_terms(self, rows):
        found = self.products(rows)
        if found is None or not found[1].exists:
            return super().size_of_terms(rows)
        # differences are rounded as the vectors are
        return max(4.0 * (found[1].squared + 1.0), float(np.sqrt(self.largest(rows))))

    def keeps(self, rows):
        if not self.kernel.of_distances:
            return not self._is_cheap
        found = self.products(rows)
        return found is None or found[0] != self.dtype or not self._is_cheap

    @property
    def _is_cheap(self) -> bool:
        """Whether compiled tiles compute values, as long as products are of their precision."""
        has_map = self.kernel.compiled_map in tiles.MAPS and COMPILES
        return has_map and self.X.shape[1] <= blocks.CHEAP_FEATURES

    def distances(self, rows: NDArray[np.intp]) -> RowDistances:
        return _DenseDistances(self, rows) if self.kernel.euclidean else super().distances(rows)

    def squared_norms(self, rows):
        return self._squared_lengths(rows)

    def n_terms(self, rows: NDArray[np.intp]) -> int:
        return self.X.shape[1]

    def factor(
        self,
        vectors: NDArray,
        dtype: np.dtype,
        rows: NDArray[np.intp] | None = None,
        run: Callable = map,
    ) -> NDArray:
        """[y, 1, -g|y|^2] of the given vectors, or of some rows of them, seen from the centre."""
        n_rows = len(vectors) if rows is None else len(rows)
        factor = np.empty((n_rows, vectors.shape[1] + 2), dtype=dtype)
        finer = np.result_type(vectors.dtype, dtype)  # differences of single in double, too

        def write(part: slice) -> None:
            with np.errstate(over="ignore"):
                plain, own = factor[part, :-2], vectors[part if rows is None else rows[part]]
                np.subtract(own, self.center, out=plain, dtype=finer, casting="same_kind")
                factor[part, -2] = 1.0
                norms = np.einsum("ij,ij->i", plain, plain, dtype=np.float64)
                factor[part, -1] = -self.parameters.gamma * norms

        for _ in run(write, _parts(n_rows, vectors.shape[1])):
            pass
        return factor

    @cached_property
    def scaled_squared_norms(self) -> NDArray[np.float64]:
        return self._scaled_squared_norms(map)

    def prepare(self, run):
        if self.kernel.of_distances and "scaled_squared_norms" not in vars(self):
            self.scaled_squared_norms = self._scaled_squared_norms(run)

    def _scaled_squared_norms(self, run: Callable) -> NDArray[np.float64]:
        norms = self._squared_lengths(None, self.center, run)
        with np.errstate(over="ignore"):
            return self.parameters.gamma * norms

    def _squared_lengths(
        self,
        rows: NDArray[np.intp] | None,
        origin: NDArray | None = None,
        run: Callable = map,
    ) -> NDArray[np.float64]:
        """Of some rows, or of all, seen from an origin."""
        n_rows = self.n_rows if rows is None else len(rows)
        norms = np.empty(n_rows)

        def write(part: slice) -> None:
            with np.errstate(over="ignore"):
                own = self.X[part if rows is None else rows[part]]
                if origin is None:
                    vectors = own.astype(np.float64, copy=False)
                else:
                    vectors = np.subtract(own, origin, dtype=np.float64)
                norms[part] = np.einsum("ij,ij->i", vectors, vectors)

        for _ in run(write, _parts(n_rows, self.X.shape[1])):
            pass
        return norms


def _parts(n_rows: int, n_features: int) -> Iterator[slice]:
    """Rows by the few that fit into a core's cache."""
    step = cached_rows(2 * 8 * n_features)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


class _Products(Columns):
    """Columns whose values are a map of matrix products."""

    def __init__(self, kernel: DenseKernel, right: NDArray, limit: Limit = NO_FAR) -> None:
        self.kernel = kernel
        self.right = right
        self.limit = limit  #: beyond which rows are far
        self.dtype = kernel.dtype
        self.worth_keeping = not (kernel._is_cheap and right.dtype == kernel.dtype)

    def __len__(self):
        return len(self.right)

    def take(self, positions):
        return self.take_by(positions)

    def take_by(self, positions, run=map):
        right = np.empty((len(positions), self.right.shape[1]), dtype=self.right.dtype)

        def copy(part: slice) -> None:  # "clip": the other modes copy twice
            np.take(self.right, positions[part], axis=0, out=right[part], mode="clip")

        for _ in run(copy, _parts(len(positions), self.right.shape[1])):
            pass
        return _Products(self.kernel, right, self.limit)

    def lines(self, rows):
        return self.new_lines(self.kernel.X[rows])

    def new_lines(self, X_new):
        gamma = self.kernel.parameters.gamma
        if not self.kernel.kernel.of_distances:
            return scaled(X_new.astype(self.right.dtype, copy=False), gamma)
        with np.errstate(over="ignore"):
            left = self._left(self.kernel.factor(X_new, self.right.dtype))
        _hold_back(left)
        return left

    def own_lines(self, positions, rows):
        if not self.kernel.kernel.of_distances:
            return scaled(self.right[positions], self.kernel.parameters.gamma)
        return self._left(self.right[positions])

    def _left(self, factor: NDArray) -> NDArray:
        """[2g x, -g|x|^2, 1], of [x, 1, -g|x|^2]: the same array."""
        norms = factor[:, -1].copy()
        factor *= factor.dtype.type(2.0 * self.kernel.parameters.gamma)
        factor[:, -2], factor[:, -1] = norms, 1.0
        return factor

    def accumulate(self, lines, coefs, scores, kept, crew):
        # a solve for many rows needs tiles sooner or later: all of it may as well use them
        many = self._has_map and len(self) > blocks.MANY_COLUMNS
        if not many and not self._in_tiles(len(coefs), len(self)):
            super().accumulate(lines, coefs, scores, kept, crew)
            return
        add = self._addition(lines, self.right)
        size = blocks.TILE_COLUMNS, blocks.TILE_LINES
        if self.worth_keeping:
            size = blocks.WIDE_TILE_COLUMNS, blocks.WIDE_TILE_LINES
        add(coefs[None], scores[None], kept, crew, *size)

    def write_square(self, rows, out, crew):
        if not self._has_map:
            return super().write_square(rows, out, crew)
        n = len(self)
        every = np.arange(n)
        add = self._addition(self.own_lines(every, rows), self.right)
        # rows that are kept, and nothing is added up
        kept = KeptRows.none(self.dtype)._replace(rows=out, free=every)
        add(np.empty((0, n)), np.empty((0, n)), kept, crew, blocks.SQUARE_COLUMNS, symmetric=True)
        return n * n // 2

    def sums(self, lines, n_lines, edges, coefs, run=map):
        if not self._in_tiles(n_lines, len(self)):
            return super().sums(lines, n_lines, edges, coefs, run)
        found = np.zeros((len(edges) - 1, len(coefs), n_lines))
        kept, crew = KeptRows.none(self.dtype), Crew(run)
        for part in expansion.parts(n_lines, self.right.shape[1]):
            ready = self._prepared(lines, part, run)
            for own, (first, last) in zip(found, pairwise(edges.tolist()), strict=True):
                # products are symmetric in both: a thread has some of the lines, and their sums
                add = self._addition(self.right[first:last], ready, lines_are_scaled=False)
                sums = np.zeros((len(coefs), len(ready)))
                segment = np.ascontiguousarray(coefs[:, first:last])
                add(segment, sums, kept, crew)
                own[:, part] = sums
        return found.transpose(2, 0, 1)

    def rows_by_class(self, ends, run=map):
        kernel, parameters = self.kernel.kernel, self.kernel.parameters
        in_double = self.dtype == self.right.dtype == np.float64
        if not COMPILES or kernel.compiled_map is None or not in_double or self.limit.exists:
            return None
        scale = parameters.gamma * (2.0 if kernel.of_distances else 1.0)
        # of one type each: compiled code would be compiled again for others
        numbers = float(scale), kernel.of_distances, kernel.compiled_map
        product_map = ProductMap(*numbers, float(parameters.coef0), int(parameters.degree))
        return RowsByClass.of(self.right, ends, product_map, run)

    def _addition(
        self, lines: NDArray, columns: NDArray, lines_are_scaled: bool = True
    ) -> tiles.Addition:
        compiled_map = self.kernel.kernel.compiled_map
        assert compiled_map in tiles.MAPS
        return tiles.Addition(lines, columns, compiled_map, self.limit.numbers(lines_are_scaled))

    @property
    def _has_map(self) -> bool:
        """Whether compiled tiles have the kernel's map, in the products' precision."""
        known = self.kernel.kernel.compiled_map in tiles.MAPS and COMPILES
        return known and self.right.dtype == self.dtype

    def _in_tiles(self, n_lines: int, n_columns: int) -> bool:
        """Whether compiled tiles can be used, and are worth it."""
        products = float(n_lines) * n_columns * self.right.shape[1]
        return self._has_map and products > blocks.TILE_PRODUCTS

    def _prepared(self, lines: Callable, part: slice, run: Callable) -> NDArray:
        """Lines of an expansion."""
        shape = part.stop - part.start, self.right.shape[1]
        ready = np.empty(shape, dtype=self.dtype)

        def some(first: int) -> None:
            last = min(first + blocks.EXPANSION_LINES, len(ready))
            ready[first:last] = lines(slice(part.start + first, part.start + last))

        for _ in run(some, range(0, len(ready), blocks.EXPANSION_LINES)):
            pass
        return ready

    def write(self, lines, start, stop, out):
        right = self.right[start:stop]
        # products may need more digits than the values
        values = out if right.dtype == self.dtype else np.empty(out.shape, right.dtype)
        np.matmul(lines, right.T, out=values)
        self.kernel.kernel.map(values, self.kernel.parameters)
        if self.limit.exists:
            mend(lines, right, self.limit.numbers(True), values)
        if values is not out:
            out[...] = values


def _hold_back(left: NDArray) -> None:
    """Rows whose squared lengths overflow, moved to where their kernel values are zero as well."""
    farthest = -0.25 * np.finfo(left.dtype).max
    far = ~(left[:, -2] > farthest)
    left[far, :-2], left[far, -2] = 0.0, farthest


class _DenseDistances(RowDistances):
    def __init__(self, kernel: DenseKernel, rows: NDArray[np.intp]) -> None:
        super().__init__(kernel, rows)
        self.copy = np.empty((len(rows), kernel.X.shape[1]), dtype=np.float32)
        self.parallel.append(self.copy)
        self.result = np.empty(len(rows), dtype=np.float32)
        norms = np.empty(len(rows))
        center = kernel.center
        peak = 0.0
        step = blocks.cached_rows(8 * kernel.X.shape[1])
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            vectors = kernel.X[rows[part]]
            peak = max(peak, _copy_vectors(vectors, center, self.copy[part], norms[part]))
        self.scale = 1.0
        if peak > 1e15 or 0.0 < peak < 1e-15:
            # squares would overflow or vanish: a power of two changes no digit
            exponent = -np.ceil(np.log2(peak)) if np.isfinite(peak) else -1025
            self.scale = 2.0**exponent
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                self.copy[part] = kernel.X[rows[part]] * self.scale - center * self.scale
        self.origin = int(np.argmax(norms))

    def farthest(self):
        return self.origin

    def from_row(self, anchor, left):
        result = self.result[:left]
        _dense_distances(self.copy, self.copy[anchor].copy(), result)
        if self.scale == 1.0:
            return result
        with np.errstate(over="ignore"):
            return finite(result.astype(float) / self.scale / self.scale)


@jit
def _copy_vectors(vectors, center, copy, norms):
    """Single-precision copy around the centre, and squared norms. Returns the largest entry."""
    peak = 0.0
    for i in range(norms.size):
        norm = 0.0
        for f in range(center.size):
            x = float(vectors[i, f])
            norm += x * x
            copy[i, f] = vectors[i, f] - center[f]
            peak = max(peak, abs(x - center[f]))
        norms[i] = norm
    return peak


@jit
def _dense_distances(vectors, anchor, out):
    for i in range(out.size):
        total = np.float32(0.0)
        for f in range(anchor.size):
            difference = vectors[i, f] - anchor[f]
            total += difference * difference
        out[i] = total
