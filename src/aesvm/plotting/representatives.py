"""RepresentativeSetDisplay: rows, and their representatives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.extmath import randomized_svd

from aesvm.plotting.fitted import axes_for, machine_in

#: How often rows are multiplied by their products, until two directions stand out.
_POWERS = 10

#: Areas of the lightest and the heaviest representative, in points squared.
_SMALLEST, _LARGEST = 12.0, 220.0


@dataclass
class RepresentativeSetDisplay:
    """Rows as dots, representatives as circles whose areas grow with their weights.

    Parameters
    ----------
    rows : ndarray of shape (n_shown, 2)
        Positions of the rows that are drawn.
    representatives : ndarray of shape (n_representatives, 2)
        Positions of the representatives.
    weights : ndarray of shape (n_representatives,)
        Of the representatives.
    row_groups, groups : ndarray or None
        Classes of both, by number, which colours tell; None draws all alike.
    names : tuple of str
        Of the two directions.
    n_rows : int
        How many rows there are, drawn or not.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    rows_ : matplotlib PathCollection
        The dots.
    representatives_ : matplotlib PathCollection
        The circles.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import RepresentativeSet
    >>> from aesvm.plotting import RepresentativeSetDisplay
    >>> X, y = make_moons(3000, noise=0.1, random_state=0)
    >>> chosen = RepresentativeSet(gamma=1.0).fit(X, y)
    >>> display = RepresentativeSetDisplay.from_estimator(chosen, X, y)
    >>> len(display.representatives) == len(chosen.sample_indices_)
    True
    """

    rows: NDArray[np.float64]
    representatives: NDArray[np.float64]
    weights: NDArray[np.float64]
    row_groups: NDArray[np.intp] | None
    groups: NDArray[np.intp] | None
    names: tuple[str, str]
    n_rows: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: Sequence[int | str] | None = None,
        max_rows: int = 5000,
        ax: Any = None,
        cmap: Any = "tab10",
    ) -> Self:
        """Draw the representatives of a fitted estimator among the rows it was fitted to.

        Parameters
        ----------
        estimator : RepresentativeSet, or AESVC and another of the family
            Fitted. Of the latter the set of the first solution is drawn, ``representative_set_``;
            of a search that of its best estimator, of a pipeline that of its last step.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            What it was fitted to, in the same order; of a precomputed kernel, the rows that it is
            the kernel matrix of. Of a pipeline, before its other steps or after them.
        y : array-like of shape (n_samples,), default=None
            Classes, for colours.
        features : two int or str, default=None
            The features across and upwards, by number or, of a dataframe, by name. None: the only
            two, or where there are more the two directions in which rows differ most (a singular
            value decomposition of what is left of them without their mean; of sparse rows, with
            it).
        max_rows : int, default=5000
            The most rows that are drawn, evenly spread over all; representatives all are.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure where None.
        cmap : str or Colormap, default="tab10"
            Colours of classes.

        Returns
        -------
        display : RepresentativeSetDisplay
        """
        machine = machine_in(estimator, cls, "representative_set_", "sample_indices_")
        chosen = getattr(machine, "representative_set_", machine)
        columns = getattr(X, "columns", None)
        names = None if columns is None else [str(name) for name in columns]
        data = check_array(X, accept_sparse="csr", dtype=np.float64, estimator=cls.__name__)
        n_rows = data.shape[0]
        fitted_to = _n_rows_of(chosen)
        if n_rows != fitted_to:
            raise ValueError(
                f"X has {n_rows:,} rows, and the estimator was fitted to {fitted_to:,}: pass what "
                "fit was given."
            )
        if not isinstance(max_rows, Integral) or max_rows < 0:
            raise ValueError(f"max_rows={max_rows!r}: use a whole number of rows, or 0.")
        positions, named = _positions(data, features, names)
        groups = None if y is None else np.unique(np.asarray(y), return_inverse=True)[1]
        if groups is not None and len(groups) != n_rows:
            raise ValueError(f"y has {len(groups):,} values, and X {n_rows:,} rows.")
        shown = np.linspace(0, n_rows - 1, min(max_rows, n_rows)).astype(np.intp)
        at = chosen.sample_indices_
        return cls(
            positions[shown],
            positions[at],
            chosen.weights_,
            None if groups is None else groups[shown],
            None if groups is None else groups[at],
            named,
            n_rows,
        ).plot(ax=ax, cmap=cmap)

    def plot(self, *, ax: Any = None, cmap: Any = "tab10") -> Self:
        """Draw it; see ``from_estimator``."""
        ax = axes_for(self, ax)
        n_colours = 10  # those of "tab10"; more classes share them
        of_rows, of_circles = (
            {"color": "0.5"}
            if groups is None
            else {"c": groups % n_colours, "cmap": cmap, "vmin": -0.5, "vmax": n_colours - 0.5}
            for groups in (self.row_groups, self.groups)
        )
        self.rows_ = ax.scatter(*self.rows.T, s=4, alpha=0.35, linewidths=0, **of_rows)
        heaviest = self.weights.max(initial=0.0)
        shares = self.weights / heaviest if heaviest > 0 else self.weights
        self.representatives_ = ax.scatter(
            *self.representatives.T,
            s=_SMALLEST + (_LARGEST - _SMALLEST) * shares,
            alpha=0.7,
            edgecolors="black",
            linewidths=0.8,
            **(of_circles if self.groups is not None else {"color": "tab:orange"}),
        )
        across, upwards = self.names
        n = len(self.representatives)
        title = f"{n:,} representatives of {self.n_rows:,} rows ({n / self.n_rows:.1%})"
        ax.set(xlabel=across, ylabel=upwards, title=title)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _n_rows_of(chosen: Any) -> int:
    return chosen.n_seen_ if hasattr(chosen, "n_seen_") else len(chosen.residuals_)


def _positions(
    data: Any, features: Sequence[int | str] | None, names: list[str] | None
) -> tuple[NDArray[np.float64], tuple[str, str]]:
    """Where rows are drawn, and what the directions are."""
    n_features = data.shape[1]
    if features is None and n_features == 1:
        raise ValueError("X has one feature, but the picture needs two: add a second one.")
    if features is None and n_features > 2:
        centred = data if sp.issparse(data) else data - data.mean(axis=0)
        directions, lengths, _ = randomized_svd(centred, 2, n_iter=_POWERS, random_state=0)
        found = np.zeros((data.shape[0], 2))  # a single row has one direction
        found[:, : len(lengths)] = directions * lengths
        return found, ("first singular direction", "second singular direction")
    wanted: Any = (0, 1) if features is None else features
    if isinstance(wanted, str) or not isinstance(wanted, Collection) or len(wanted) != 2:
        raise ValueError(f"features={features!r}: two are needed, by number or by name.")
    at = [_column(one, n_features, names) for one in wanted]
    own = data[:, at]
    labels = [f"feature {one}" if names is None else names[one] for one in at]
    return (own.toarray() if sp.issparse(own) else own), (labels[0], labels[1])


def _column(feature: int | str, n_features: int, names: list[str] | None) -> int:
    if isinstance(feature, str):
        if names is None or feature not in names:
            known = "X has no names" if names is None else f"X has {names}"
            raise ValueError(f"features: {feature!r} is no feature, {known}: use one of X's.")
        return names.index(feature)
    if not isinstance(feature, Integral) or not 0 <= feature < n_features:
        raise ValueError(f"features: {feature!r} is no feature of X, which has {n_features}.")
    return int(feature)
