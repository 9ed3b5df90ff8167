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

    @classmethod
    def varying(cls, numbers: NDArray, features: Interval, targets: Interval | None) -> Ranges:
        """Without features of one value, which are not written."""
        varies = features.least != features.largest
        return cls(numbers[varies], features.at(varies), targets)

    def text(self) -> str:
        """LIBSVM's range file."""
        ends, targets, lines = self.features, self.targets, []
        if targets is not None:
            lines = [
                "y",
                _pair(targets.lower, targets.upper),
                _pair(targets.least, targets.largest),
            ]
        lines += ["x", _pair(ends.lower, ends.upper)]
        for at, *both in zip(self.numbers.tolist(), ends.least, ends.largest, strict=True):
            lines.append(f"{at + 1} {_pair(*both)}")
        return "\n".join(lines) + "\n"


def _pair(one: float, other: float) -> str:
    return f"{one:.17g} {other:.17g}"


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
    ends: Ends | None = None
    low, high = np.inf, -np.inf
    for X, y, _ in file.reader:
        here = Ends.of(X)
        ends = here if ends is None else ends.joined(here)
        if target_limits is not None:
            if y is None or not is_numeric(y):
                raise UsageError("-y: the targets are no numbers, and cannot be scaled.")
            low, high = min(low, float(y.min())), max(high, float(y.max()))
    if ends is None:
        raise CommandError(f"{file.name}: there are no rows in the file.")
    if not (np.isfinite(ends.least).all() and np.isfinite(ends.largest).all()):
        raise CommandError(f"{file.name}: a feature is not finite.")
    targets = None if target_limits is None else Interval(low, high, *target_limits)
    return Ranges.varying(ends.numbers, Interval(*ends[1:], *limits), targets)


class Ends(NamedTuple):
    """The least and the largest value of features; others are zero in all rows."""

    numbers: NDArray[np.intp]
    least: NDArray[np.float64]
    largest: NDArray[np.float64]

    @classmethod
    def of(cls, X: Any) -> Ends:
        """Those of some rows."""
        if not sp.issparse(X):
            return cls(np.arange(X.shape[1]), X.min(axis=0), X.max(axis=0))
        numbers, X = narrowed(X)
        if not len(numbers):
            return cls(numbers, np.empty(0), np.empty(0))
        return cls(numbers, X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel())

    def joined(self, other: Ends) -> Ends:
        """Those of two blocks of rows; what one of them lacks is zero there."""
        numbers = np.union1d(self.numbers, other.numbers)
        least, largest = np.zeros((2, 2, len(numbers)))
        for at, one in enumerate((self, other)):
            places = np.searchsorted(numbers, one.numbers)
            least[at, places], largest[at, places] = one.least, one.largest
        return Ends(numbers, least.min(axis=0), largest.max(axis=0))


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
    r"""A range file of LIBSVM's.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.command.scale import read_ranges
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "range")
    ...     _ = path.write_text("x\n-1 1\n1 0 10\n3 2 4\n")
    ...     ranges = read_ranges(str(path))
    >>> ranges.numbers, ranges.features.largest
    (array([0, 2]), array([10.,  4.]))
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = list(enumerate((line.split() for line in file), 1))
    n_lines = max(1, len(lines))
    lines = [one for one in lines if one[1]]
    targets = None

    def numbers(wanted: int) -> tuple[int, list[float]]:
        at, fields = lines.pop(0) if lines else (n_lines, [])
        try:
            values = [float(one) for one in fields]
        except ValueError:
            values = []
        if len(values) != wanted or not np.isfinite(values).all():
            raise BadLineError(path, at, f"{wanted} numbers are needed")
        return at, values

    def section(name: str) -> bool:
        here = bool(lines) and lines[0][1] == [name]
        if here:
            lines.pop(0)
        return here

    if section("y"):
        lower, upper = numbers(2)[1]
        least, largest = numbers(2)[1]
        targets = Interval(least, largest, lower, upper)
    if not section("x"):
        raise BadLineError(
            path, lines[0][0] if lines else n_lines, "this is no range file of LIBSVM's"
        )
    lower, upper = numbers(2)[1]
    found: dict[int, tuple[float, float]] = {}
    while lines:
        at, (index, low, high) = numbers(3)
        if not (index.is_integer() and 1 <= index < 2**31):
            raise BadLineError(path, at, f"{index:g} is not the number of a feature")
        found[int(index)] = (low, high)
    numbers_of = np.array(sorted(found), dtype=np.intp)
    least_of, largest_of = np.array([found[one] for one in numbers_of.tolist()]).reshape(-1, 2).T
    return Ranges.varying(numbers_of - 1, Interval(least_of, largest_of, lower, upper), targets)


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
