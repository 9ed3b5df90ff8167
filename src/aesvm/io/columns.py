"""Which columns of a table are features, classes and weights, and what a class may be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from aesvm.io.base import is_whole

#: A column by its name, or by its position; negative ones count from the end.
Column = str | int

#: Characters of a class. Arrays of strings give every row as many as the longest has.
LONGEST = 1000

#: Doubles tell all integers apart below this, and not above.
TOO_LARGE = 2.0**53


@dataclass(frozen=True)
class RequestedColumns:
    """Columns as the caller names them; without features, all that are nothing else."""

    target: Column | None
    features: Sequence[Column] | None
    weight: Column | None

    def __post_init__(self) -> None:
        if self.features is None:
            return
        if isinstance(self.features, str) or not isinstance(self.features, Collection):
            raise ValueError(f"features={self.features!r}: a list of columns is needed.")
        if len(self.features) == 0:
            raise ValueError("features=[]: at least one column, or None, is needed.")

    def found(self, names: Sequence[str], path: Path, index: Collection[str] = ()) -> Columns:
        """Their positions in a file with these columns.

        Those of an ``index`` are found by their names alone.
        """
        counted = [position for position, name in enumerate(names) if name not in index]

        def position_of(parameter: str, column: Column) -> int:
            return _position(parameter, column, names, counted, path)

        target = None if self.target is None else position_of("target", self.target)
        weight = None if self.weight is None else position_of("weight", self.weight)
        apart = {target, weight} - {None}
        if target is not None and target == weight:
            raise ValueError(f"target and weight are one column, {names[target]!r}.")
        if self.features is None:
            features = [position for position in counted if position not in apart]
            if not features:
                raise ValueError(f"{path}: there is no column for features in {_listed(names)}.")
        else:
            features = [position_of("features", name) for name in self.features]
        for position in features:
            if position in apart:
                raise ValueError(f"features: {names[position]!r} is the target or the weight.")
            if features.count(position) > 1:
                raise ValueError(f"features: {names[position]!r} is there twice.")
        return Columns(target, features, weight, list(names))


@dataclass(frozen=True)
class Columns:
    """Positions of columns in a file, and the names of all its columns."""

    target: int | None
    features: list[int]
    weight: int | None
    names: list[str]

    @property
    def feature_names(self) -> list[str]:
        return [self.names[position] for position in self.features]

    @property
    def by_name(self) -> RequestedColumns:
        target, weight = (
            None if position is None else self.names[position]
            for position in (self.target, self.weight)
        )
        return RequestedColumns(target, self.feature_names, weight)

    @property
    def used_names(self) -> list[str]:
        """Those of features, classes and weights, without the other columns of the file."""
        used = (*self.features, self.target, self.weight)
        return [self.names[position] for position in used if position is not None]


def _position(
    parameter: str, column: Column, names: Sequence[str], counted: list[int], path: Path
) -> int:
    if isinstance(column, str):
        times = list(names).count(column)
        if times == 1:
            return list(names).index(column)
        problem = "there is no such column" if times == 0 else f"there are {times} such columns"
    elif is_whole(column):
        if -len(counted) <= column < len(counted):
            return counted[column]
        problem = f"there are {len(counted)} columns"
    else:
        raise TypeError(f"{parameter}={column!r}: a name or a position is needed.")
    raise ValueError(f"{parameter}={column!r}: {problem} in {path}, which has {_listed(names)}.")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:50])
    return shown if len(names) <= 50 else f"{shown} and {len(names) - 50} more"


def fault_of(label: str) -> str | None:
    """Why a string cannot be a class; None where it can."""
    if len(label) > LONGEST:
        return f"a class has {len(label)} characters, and may have {LONGEST}: {label[:20]!r}..."
    if "\0" in label:  # of which arrays drop those at the end
        return f"the class {label[:40]!r} has a NUL character"
    return None


def too_large(label: str) -> str:
    """What is wrong with a number for a class that doubles may not tell from another."""
    return (
        f"the class {label[:40]!r} is not below 2^53: double precision cannot represent it exactly"
    )
