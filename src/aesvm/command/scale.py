"""``aesvm scale``: features, and targets where that is asked, to a range; LIBSVM's svm-scale.

A value x between the least and the largest of its feature becomes

    lower + (upper - lower) (x - least) / (largest - least),

and features that have one value only are left out. Range files are LIBSVM's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.data import DataFile, DataOptions, Wanted, opened
from aesvm.command.formats import (
    check_outputs,
    is_numeric,
    output_format,
    outputs_of,
    row_blocks,
    write_rows,
)
from aesvm.command.screen import CommandError, Screen, UsageError
from aesvm.io import BadLineError, Chunk
from aesvm.io.files import written_whole
from aesvm.kernels.sparse import narrowed, restricted
from aesvm.runtime.warn import warn


class Interval(NamedTuple):
    """What values go from and to; arrays, or numbers."""

    least: Any
    largest: Any
    lower: float
    upper: float

    def scaled(self, values: NDArray) -> NDArray[np.float64]:
        """Values in the range; those at its ends exactly."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inner = (values - self.least) / (self.largest - self.least)
            found = self.lower + (self.upper - self.lower) * inner
        found = np.where(values == self.largest, self.upper, found)
        return np.where(values == self.least, self.lower, found)

    def at(self, which: NDArray) -> Interval:
        """Those of some features."""
        return self._replace(least=self.least[which], largest=self.largest[which])


class Ranges(NamedTuple):
    """What a range file holds: features that vary, and targets where they are scaled.

    No array is as long as the largest index, which may be arbitrarily large in a file.
    """

    numbers: NDArray[np.intp]  #: of the features, from 0, ascending
    features: Interval
    targets: Interval | None = None

    def varying(self) -> Ranges:
        """Without features of one value, which are not written."""
        varies = self.features.least != self.features.largest
        return self._replace(numbers=self.numbers[varies], features=self.features.at(varies))

    def text(self) -> str:
        """LIBSVM's range file."""
        lines = []
        if self.targets is not None:
            y = self.targets
            lines = [
                "y",
                f"{y.lower:.17g} {y.upper:.17g}",
                f"{y.least:.17g} {y.largest:.17g}",
            ]
        least, largest, lower, upper = self.features
        lines += ["x", f"{lower:.17g} {upper:.17g}"]
        for number, *ends in zip(self.numbers.tolist(), least, largest, strict=True):
            lines.append(f"{number + 1} {ends[0]:.17g} {ends[1]:.17g}")
        return "\n".join(lines) + "\n"


def scale(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Scale a data file, to a file or standard output."""
    data, output, save, restore = options.data, options.output, options.save, options.restore
    limits, target_limits = (options.lower, options.upper), options.targets
    for low, high in filter(None, (limits, target_limits)):
        if not (low < high and np.isfinite([low, high]).all()):
            raise UsageError(f"{low:g} {high:g}: two numbers are needed, the smaller one first.")
    if screen.as_json and output is None:
        raise UsageError("--json needs -o: rows would be on standard output as well.")
    if save and restore:
        raise UsageError("-s and -r: a range is saved, or restored, and not both.")
    if save == "-":
        raise UsageError("-s -: write the range to a file.")
    outputs = outputs_of(output, columns.is_weighted)
    check_outputs([*outputs, save], [data, restore, *columns.files])
    kept = None if restore is None else read_ranges(restore)
    width = None if kept is None else int(kept.numbers.max(initial=-1)) + 1
    with opened(data, columns, Wanted(n_features=width, needs_target=False)) as file:
        output_format(output, file)  # refused before anything is written
        file.note_target(columns, screen)
        found = _ranges(file, limits, target_limits)
        used = found if kept is None else _restored(kept, found, file, str(restore))
        if save:
            with written_whole(save) as ranges:
                ranges.write(used.text().encode())
        scaled = _Scaled(file, used)
        n_rows, _ = write_rows(scaled, output, file, used.numbers, libsvm_digits="g")
    if scaled.after > scaled.before:
        counts = f"{scaled.before:,} values were not zero before, and {scaled.after:,} are now"
        remedy = ": with -l 0, features that are not negative keep their zeros" if limits[0] else ""
        warn(f"{counts}{remedy}.")
    screen.result({"rows": n_rows, "features": len(used.numbers), "output": output, "range": save})


def _ranges(
    file: DataFile, limits: tuple[float, float], target_limits: tuple[float, float] | None
) -> Ranges:
    """The least and the largest value of every feature, and of the targets, in a pass."""
    numbers, ends = None, np.empty((2, 0))
    low, high = np.inf, -np.inf
    for X, y, _ in file.reader:
        here = _ends(X)
        numbers, ends = here if numbers is None else _joined((numbers, ends), here)
        if target_limits is not None:
            if y is None or not is_numeric(y):
                raise UsageError("-y: the targets are not numbers, and cannot be scaled.")
            low, high = min(low, float(y.min())), max(high, float(y.max()))
    if numbers is None:
        raise CommandError(f"{file.name}: there are no rows in the file.")
    if not np.isfinite(ends).all():
        raise CommandError(f"{file.name}: a feature is not finite.")
    targets = None if target_limits is None else Interval(low, high, *target_limits)
    return Ranges(numbers, Interval(ends[0], ends[1], *limits), targets).varying()


#: Numbers of features, and their least and largest values.
Ends = tuple[NDArray[np.intp], NDArray[np.float64]]


def _ends(X: Any) -> Ends:
    """Those of some rows; features that are not there are zero in all of them."""
    if not sp.issparse(X):
        return np.arange(X.shape[1]), np.array([X.min(axis=0), X.max(axis=0)])
    numbers, X = narrowed(X)
    if not len(numbers):
        return numbers, np.empty((2, 0))
    return numbers, np.array([one(axis=0).toarray().ravel() for one in (X.min, X.max)])


def _joined(one: Ends, other: Ends) -> Ends:
    """Those of two blocks of rows."""
    numbers = np.union1d(one[0], other[0])
    both = np.zeros((2, 2, len(numbers)))
    for found, (own, ends) in zip(both, (one, other), strict=True):
        found[:, np.searchsorted(numbers, own)] = ends
    return numbers, np.array([both[:, 0].min(axis=0), both[:, 1].max(axis=0)])


def _restored(kept: Ranges, found: Ranges, file: DataFile, restore: str) -> Ranges:
    """Kept ranges; features that they do not know are left out."""
    beyond = kept.numbers[kept.numbers >= file.n_features]
    if len(beyond):
        raise CommandError(
            f"{file.name} has {file.n_features} features, and {restore} a range of feature "
            f"{beyond[0] + 1}."
        )
    unknown = np.setdiff1d(found.numbers, kept.numbers) + 1
    if len(unknown):
        listed = ", ".join(map(str, unknown[:10])) + (", ..." if len(unknown) > 10 else "")
        warn(f"{file.name}: {restore} has no range of feature {listed}: it is left out.")
    return kept


def read_ranges(path: str) -> Ranges:
    """A range file of LIBSVM's."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = list(enumerate((line.split() for line in file), 1))
    end: tuple[int, list[str]] = max(1, len(lines)), []
    left = iter([one for one in lines if one[1]])

    def numbers(line: tuple[int, list[str]], wanted: int) -> list[float]:
        try:
            values = [float(one) for one in line[1]]
        except ValueError:
            values = []
        if len(values) != wanted or not np.isfinite(values).all():
            raise BadLineError(path, line[0], f"{wanted} numbers are needed")
        return values

    targets: Interval | None = None
    line = next(left, end)
    if line[1] == ["y"]:
        lower, upper = numbers(next(left, end), 2)
        least, largest = numbers(next(left, end), 2)
        targets = Interval(least, largest, lower, upper)
        line = next(left, end)
    if line[1] != ["x"]:
        raise BadLineError(path, line[0], "this is no range file of LIBSVM's")
    lower, upper = numbers(next(left, end), 2)
    found: dict[int, list[float]] = {}
    for line in left:
        index, *ends = numbers(line, 3)
        if not (index.is_integer() and 1 <= index < 2**31):
            raise BadLineError(path, line[0], f"{index:g} is not the number of a feature")
        found[int(index)] = ends
    order = sorted(found)
    ends_of = np.array([found[one] for one in order]).reshape(-1, 2)
    features = Interval(ends_of[:, 0], ends_of[:, 1], lower, upper)
    return Ranges(np.array(order, dtype=np.intp) - 1, features, targets).varying()


@dataclass
class _Scaled:
    """The chunks of a data file, scaled, and how many values were and are not zero."""

    file: DataFile
    used: Ranges
    before: int = 0
    after: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        for X, y, weights in self.file.reader:
            self.before += int(X.count_nonzero() if sp.issparse(X) else np.count_nonzero(X))
            if y is not None and self.used.targets is not None:
                y = self.used.targets.scaled(y)
            for values, *others in self._scaled(Chunk(X, y, weights)):
                self.after += int(values.count_nonzero())
                yield Chunk(values, *others)

    def _scaled(self, chunk: Chunk) -> Iterator[Chunk]:
        """Rows over the features that are written; zeros that stay zeros are not looked at."""
        ranges = self.used.features
        zeros = ranges.scaled(np.zeros(len(self.used.numbers)))
        moved = np.flatnonzero(zeros)
        X = restricted(sp.csr_array(chunk.X), self.used.numbers)
        for rows in row_blocks(X.shape[0], len(moved)):
            here = X[rows]
            at = here.indices
            scaled = ranges.at(at).scaled(here.data)
            values = sp.csr_array((scaled, at, here.indptr), shape=here.shape)
            if len(moved):
                stored = sp.csr_array((np.ones(here.nnz), at, here.indptr), shape=here.shape)
                unset = sp.coo_array(
                    np.where(restricted(stored, moved).toarray(), 0.0, zeros[moved])
                )
                places = unset.row, moved[unset.col]
                values = values + sp.csr_array((unset.data, places), shape=here.shape)
            yield Chunk(values, *(None if one is None else one[rows] for one in chunk[1:]))
