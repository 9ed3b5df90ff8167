"""Who stands for whom: rows as convex combinations of representatives.

The combinations are a matrix, the paper's Gamma: how much of each row every representative stands
for. ``gather`` adds up what rows have, their weights say, over the rows that each representative
stands for, and keeps the total; ``spread`` averages what representatives have for every row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.sets.derive import Representatives


class Combinations(NamedTuple):
    """The rows of a problem, each as a combination of some of them."""

    members: NDArray[np.intp]  #: positions of the representatives
    matrix: sp.csr_array | None  #: rows by members; None where every row is a member
    residuals: NDArray[np.float64]  #: squared distance of each row to its combination

    @classmethod
    def identity(cls, n_rows: int) -> Combinations:
        """Every row stands for itself."""
        return cls(np.arange(n_rows), None, np.zeros(n_rows))

    @classmethod
    def of(cls, rows: NDArray[np.intp], found: Representatives) -> Combinations:
        """Of some rows, ascending, whose representatives were found among them."""
        here = np.isin(found.selected, rows, assume_unique=True)
        members = np.searchsorted(rows, found.selected[here])
        if len(members) == len(rows):
            return cls.identity(len(members))
        assert found.combinations is not None
        matrix = sp.csr_array(found.combinations[rows][:, np.flatnonzero(here)])
        return cls(members, matrix, found.residuals[rows])

    @classmethod
    def stacked(
        cls, n_rows: int, parts: list[tuple[NDArray[np.intp], Combinations]]
    ) -> Combinations:
        """Of ``n_rows`` rows in several parts, each given with the positions of its rows."""
        members = np.concatenate([rows[own.members] for rows, own in parts])
        if len(members) == n_rows:
            return cls.identity(n_rows)
        residuals = np.empty(n_rows)
        lines, columns, values, first = [], [], [], 0
        for rows, own in parts:
            residuals[rows] = own.residuals
            matrix = sp.coo_array(sp.eye_array(len(rows)) if own.matrix is None else own.matrix)
            lines.append(rows[matrix.row])
            columns.append(matrix.col + first)
            values.append(matrix.data)
            first += len(own.members)
        places = np.concatenate(lines), np.concatenate(columns)
        whole = sp.csr_array((np.concatenate(values), places), shape=(n_rows, len(members)))
        return cls(members, whole, residuals)

    @property
    def is_identity(self) -> bool:
        return self.matrix is None

    def gather(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the members receive of the rows' amounts."""
        return amounts[self.members] if self.matrix is None else self.matrix.T @ amounts

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The members' values, averaged for each row by its combination."""
        return values if self.matrix is None else self.matrix @ values

    def lift(self, coefs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients of all rows: each member's is handed on to those it stands for."""
        return weights * self.spread(coefs / self.gather(weights))
