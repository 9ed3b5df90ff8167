"""Counts of rows by class, and a digest that tells whether other rows are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.sets.digest import NOTHING, Digest, added, digest


class ClassCounts(NamedTuple):
    """All classes, sorted, and the number of rows of each."""

    classes: NDArray
    counts: NDArray[np.intp]


class Tally(NamedTuple):
    """Counts of some rows; those of several parts add up."""

    n_rows: int
    counts: dict[Any, int]  #: rows of each class
    weights: dict[Any, float]  #: of all rows of each class together
    digest: Digest

    @classmethod
    def of_nothing(cls) -> Tally:
        return cls(0, {}, {}, NOTHING)

    @classmethod
    def of(
        cls,
        X: Any,
        targets: NDArray,
        groups: NDArray,
        weights: NDArray[np.float64],
        first: int,
        run: Callable = map,
    ) -> Tally:
        """Of some rows, the first of which is at place ``first`` among all.

        Classes are groups; rows without classes have one group.
        """
        found, numbers = np.unique(groups, return_inverse=True)
        labels = found.tolist()
        counts, sums = np.bincount(numbers), np.bincount(numbers, weights)
        return cls(
            len(targets),
            dict(zip(labels, counts.tolist(), strict=True)),
            dict(zip(labels, sums.tolist(), strict=True)),
            digest(X, targets, weights, first, run),
        )

    def __or__(self, other: Tally) -> Tally:
        """Of the rows of both."""
        return Tally(
            self.n_rows + other.n_rows,
            dict(Counter(self.counts) + Counter(other.counts)),
            dict(Counter(self.weights) + Counter(other.weights)),
            added(self.digest, other.digest),
        )

    @property
    def present(self) -> set:
        """Classes with a row of non-zero weight."""
        return {label for label, weight in self.weights.items() if weight > 0}

    def weights_of(self, classes: NDArray) -> NDArray[np.float64]:
        """The weight of each of some classes."""
        return np.array([self.weights.get(label, 0.0) for label in classes.tolist()])

    def check_two_classes(self, what: str) -> None:
        """Refuse rows that are not of at least two classes; ``what`` has them."""
        if len(self.present) < 2:
            raise ValueError(
                f"{what} has rows of {len(self.present)} class ({sorted(self.present)}): "
                "classification needs at least two classes."
            )

    def of_classes(self, classes: NDArray) -> ClassCounts:
        """The counts of classes that were given."""
        return ClassCounts(
            classes, np.array([self.counts.get(label, 0) for label in classes.tolist()])
        )

    def sorted_classes(self, like: NDArray) -> ClassCounts:
        """All classes that were found, of the type of some labels."""
        try:
            labels = sorted(self.counts)
        except TypeError as error:
            raise ValueError(
                f"y has classes of different kinds ({list(self.counts)[:5]}): use numbers, or "
                "strings."
            ) from error
        return self.of_classes(
            np.array(labels, dtype=like.dtype if like.dtype.kind in "biufMm" else None)
        )
