"""``aesvm scale``: features, and targets where that is asked, to a range; LIBSVM's svm-scale.

A value x between the least and the largest of its feature becomes

    lower + (upper - lower) (x - least) / (largest - least),

and features that have one value only are left out. Range files are LIBSVM's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.data import DataFile, DataOptions, opened
from aesvm.command.outcome import CommandError, UsageError
from aesvm.command.screen import Screen
from aesvm.command.tables import output_format, write_rows
from aesvm.command.writing import dense_blocks
from aesvm.io.atomic import checked_output_path, written_whole
from aesvm.io.base import BadLineError, Chunk
from aesvm.runtime.warn import warn


@dataclass(frozen=True)
class Interval:
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


@dataclass(frozen=True)
class Ranges:
    """What a range file holds: features by number, and targets where they are scaled."""

    features: Interval
    targets: Interval | None = None

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Features that are written."""
        return self.features.least != self.features.largest

    def text(self) -> str:
        """LIBSVM's range file."""
        lines = []
        for name, one in (("y", self.targets), ("x", self.features)):
            if one is not None:
                lines += [name, f"{one.lower:.17g} {one.upper:.17g}"]
            if name == "y" and one is not None:
                lines.append(f"{one.least:.17g} {one.largest:.17g}")
        least, largest = self.features.least, self.features.largest
        for at in np.flatnonzero(self.varies):
            lines.append(f"{at + 1} {least[at]:.17g} {largest[at]:.17g}")
        return "\n".join(lines) + "\n"


def scale(
    data: str,
    columns: DataOptions,
    limits: tuple[float, float],
    target_limits: tuple[float, float] | None,
    save: str | None,
    restore: str | None,
    output: str | None,
    screen: Screen,
) -> None:
    """Scale a data file, to a file or standard output."""
    for low, high in filter(None, (limits, target_limits)):
        if not (low < high and np.isfinite([low, high]).all()):
            raise UsageError(f"{low:g} {high:g}: two numbers are needed, the smaller one first.")
    if screen.as_json and output is None:
        raise UsageError("--json needs -o: rows would be on standard output as well.")
    if save and restore:
        raise UsageError("-s and -r: a range is saved, or restored, and not both.")
    if save is not None:
        others = [one for one in (data, output) if one not in (None, "-")]
        if save == "-" or checked_output_path(save) in map(checked_output_path, others):
            raise UsageError(f"-s {save}: the range needs a file of its own.")
    kept = None if restore is None else read_ranges(restore)
    width = None if kept is None else len(kept.features.least)
    with opened(data, columns, n_features=width, needs_target=False) as file:
        output_format(output, file)  # refused before anything is written
        found = _ranges(file, limits, target_limits)
        used = found if kept is None else _restored(kept, found, file.name, str(restore))
        if save:
            with written_whole(save) as ranges:
                ranges.write(used.text().encode())
        scaled, varying = _Scaled(file, used), np.flatnonzero(used.varies)
        n_rows, _ = write_rows(scaled, output, file, varying, libsvm_digits="g")
    if scaled.after > scaled.before:
        remedy = ": of sparse data that is not negative, -l 0 keeps zeros" if limits[0] else ""
        warn(f"{scaled.before} values were not zero, and {scaled.after} are{remedy}.")
    screen.result({"rows": n_rows, "features": len(varying), "output": output, "range": save})


def _ranges(
    file: DataFile, limits: tuple[float, float], target_limits: tuple[float, float] | None
) -> Ranges:
    """The least and the largest value of every feature, and of the targets, in a pass."""
    least, largest = np.full(file.n_features, np.inf), np.full(file.n_features, -np.inf)
    low, high = np.inf, -np.inf
    for X, y, _ in file.reader:
        if sp.issparse(X):
            here = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        else:
            here = X.min(axis=0), X.max(axis=0)
        least, largest = np.minimum(least, here[0]), np.maximum(largest, here[1])
        if target_limits is not None:
            if y is None or y.dtype.kind not in "biuf":
                raise UsageError("-y: the targets are no numbers, and cannot be scaled.")
            low, high = min(low, float(y.min())), max(high, float(y.max()))
    if not (np.isfinite(least).all() and np.isfinite(largest).all()):
        raise CommandError(f"{file.name}: a feature is not finite.")
    targets = None if target_limits is None else Interval(low, high, *target_limits)
    return Ranges(Interval(least, largest, *limits), targets)


def _restored(kept: Ranges, found: Ranges, data: str, restore: str) -> Ranges:
    """Kept ranges, as wide as the data; features that they do not know are left out."""
    missing = len(found.features.least) - len(kept.features.least)
    least, largest = (
        np.pad(one, (0, max(0, missing))) for one in (kept.features.least, kept.features.largest)
    )
    unknown = np.flatnonzero(found.varies & (least == largest)) + 1
    if len(unknown):
        listed = ", ".join(map(str, unknown[:10])) + (", ..." if len(unknown) > 10 else "")
        warn(f"{data}: {restore} has no range of feature {listed}: it is left out.")
    return replace(kept, features=replace(kept.features, least=least, largest=largest))


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
    ...     read_ranges(str(path)).features.largest.tolist()
    [10.0, 0.0, 4.0]
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = list(enumerate((line.split() for line in file), 1))
    lines = [one for one in lines if one[1]]
    targets = None

    def numbers(wanted: int) -> tuple[int, list[float]]:
        at, fields = lines.pop(0) if lines else (0, [])
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
        raise BadLineError(path, lines[0][0] if lines else 1, "this is no range file of LIBSVM's")
    lower, upper = numbers(2)[1]
    found: dict[int, tuple[float, float]] = {}
    while lines:
        at, (index, low, high) = numbers(3)
        if not (index.is_integer() and 1 <= index < 2**31):
            raise BadLineError(path, at, f"{index:g} is not the number of a feature")
        found[int(index)] = (low, high)
    width = max(found, default=0)
    ends = np.zeros((2, width))
    for number, both in found.items():
        ends[:, number - 1] = both
    return Ranges(Interval(ends[0], ends[1], lower, upper), targets)


@dataclass
class _Scaled:
    """The chunks of a data file, scaled, and how many values were and are not zero."""

    file: DataFile
    used: Ranges
    before: int = 0
    after: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        kept = np.flatnonzero(self.used.varies)
        for X, y, weights in dense_blocks(self.file.reader):
            values = self.used.features.scaled(X)[:, kept]
            self.before += int(np.count_nonzero(X))
            self.after += int(np.count_nonzero(values))
            if y is not None and self.used.targets is not None:
                y = self.used.targets.scaled(y)
            yield Chunk(values, y, weights)
