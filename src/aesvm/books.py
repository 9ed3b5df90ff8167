"""A pair of classes, and who stands for whom among its rows.

The books are a matrix, the paper's Gamma: how much of each row every representative stands for.
What rows have, their weights or multipliers, is gathered by their representatives; what these
have is spread over the rows they stand for. Nothing is lost either way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.reduction import Representatives


class Pair(NamedTuple):
    """Two classes: all their distinct rows, ascending."""

    rows: NDArray[np.intp]
    signs: NDArray[np.float64]  #: +1 for the first class, -1 for the second
    weights: NDArray[np.float64]
    costs: NDArray[np.float64]  #: C times the class weight

    @property
    def bounds(self) -> NDArray[np.float64]:
        return self.costs * self.weights


class Books(NamedTuple):
    """Who stands for whom among the rows of a pair."""

    members: NDArray[np.intp]  #: positions of the rows that stand for others
    shares: sp.csr_array | None  #: of the members in each row; None where each is its own
    residuals: NDArray[np.float64]  #: squared distance of each row to what stands for it

    @classmethod
    def everyone(cls, n: int) -> Books:
        return cls(np.arange(n), None, np.zeros(n))

    @classmethod
    def of(cls, pair: Pair, found: Representatives) -> Books:
        """The books of a representative set that has combinations, for the rows of a pair."""
        here = np.isin(found.selected, pair.rows, assume_unique=True)
        members = np.searchsorted(pair.rows, found.selected[here])
        if len(members) == len(pair.rows):
            return cls.everyone(len(members))
        assert found.combinations is not None
        shares = sp.csr_array(found.combinations[pair.rows][:, np.flatnonzero(here)])
        return cls(members, shares, found.residuals[pair.rows])

    @classmethod
    def stacked(cls, n: int, parts: list[tuple[NDArray[np.intp], Books]]) -> Books:
        """Books of several parts, given with the positions of each, as one."""
        members = np.concatenate([rows[books.members] for rows, books in parts])
        residuals = np.empty(n)
        lines, columns, values, offset = [], [], [], 0
        for rows, books in parts:
            residuals[rows] = books.residuals
            shares = sp.coo_array(sp.eye_array(len(rows)) if books.shares is None else books.shares)
            lines.append(rows[shares.row])
            columns.append(shares.col + offset)
            values.append(shares.data)
            offset += len(books.members)
        if offset == n:
            return cls.everyone(n)
        places = np.concatenate(lines), np.concatenate(columns)
        shares = sp.csr_array((np.concatenate(values), places), shape=(n, offset))
        return cls(members, shares, residuals)

    def gather(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the members receive of the rows' amounts."""
        return amounts[self.members] if self.shares is None else self.shares.T @ amounts

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The members' values, averaged for each row by its shares."""
        return values if self.shares is None else self.shares @ values

    def lift(self, alpha: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multipliers of all rows: each member's is handed on to those it stands for."""
        return weights * self.spread(alpha / self.gather(weights))
