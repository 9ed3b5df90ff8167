"""SearchDisplay: scores of a search over two parameters, as a heat map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from aesvm.plotting.axes import axes_for

#: Parameters that are drawn where none are named, if the search has them.
_USUAL = "gamma", "C"


@dataclass
class SearchDisplay:
    """The heat map that SVM users know: scores over C and gamma.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_columns)
        The best mean score of all candidates with such values; nan where there is none.
    row_values, column_values : list
        Of the parameters.
    row_name, column_name : str
    score_name : str
    best : tuple of int
        Where the best candidate is.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    text_ : ndarray of matplotlib Text, or None

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection import AEGridSearchCV, SearchDisplay
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> search = AEGridSearchCV(AESVC(), {"C": [1, 10], "gamma": [0.1, 1, 10]}, cv=3).fit(X, y)
    >>> SearchDisplay.from_search(search).scores.shape
    (3, 2)
    """

    scores: NDArray[np.float64]
    row_values: list[Any]
    column_values: list[Any]
    row_name: str
    column_name: str
    score_name: str
    best: tuple[int, int]

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        x: str | None = None,
        y: str | None = None,
        score: str = "score",
        ax: Any = None,
        cmap: str = "viridis",
        values_format: str = ".3g",
        include_values: bool | None = None,
    ) -> Self:
        """Draw the scores of a fitted search.

        Parameters
        ----------
        search : AEGridSearchCV, or any search of scikit-learn's
            Fitted.
        x, y : str, default=None
            The parameters across and upwards: names, or the ends of them. None stands for C
            and gamma where the search has these, else for the first two that vary.
        score : str, default="score"
            Which of several scores.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure where None.
        cmap : str, default="viridis"
        values_format : str, default=".3g"
        include_values : bool, default=None
            Whether scores are written; None: where there are at most a hundred.

        Returns
        -------
        display : SearchDisplay
        """
        return cls._of(search, x, y, score).plot(
            ax=ax, cmap=cmap, values_format=values_format, include_values=include_values
        )

    from_estimator = from_search

    @classmethod
    def _of(cls, search: Any, x: str | None, y: str | None, score: str) -> Self:
        check_is_fitted(search, "cv_results_")
        results = search.cv_results_
        if f"mean_test_{score}" not in results:
            known = [
                name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")
            ]
            raise ValueError(f"score={score!r} is none of the search's: use one of {known}.")
        names = [name.removeprefix("param_") for name in results if name.startswith("param_")]
        row_name, column_name = _axes(names, results["params"], x, y)
        rows = _distinct(params.get(row_name) for params in results["params"])
        columns = _distinct(params.get(column_name) for params in results["params"])
        scores = np.full((len(rows), len(columns)), np.nan)
        best, highest = (0, 0), -np.inf
        for params, value in zip(results["params"], results[f"mean_test_{score}"], strict=True):
            at = rows.index(params.get(row_name)), columns.index(params.get(column_name))
            scores[at] = np.fmax(scores[at], value)
            if value > highest:
                best, highest = at, value
        return cls(scores, rows, columns, row_name, column_name, score, best)

    def plot(
        self,
        *,
        ax: Any = None,
        cmap: str = "viridis",
        values_format: str = ".3g",
        include_values: bool | None = None,
    ) -> Self:
        """Draw it; see ``from_search``."""
        ax = axes_for(self, ax)
        image = ax.imshow(self.scores, cmap=cmap, aspect="auto", origin="lower")
        ax.figure.colorbar(image, ax=ax, label=f"mean test {self.score_name}")
        ax.set_xticks(range(len(self.column_values)), [_text(v) for v in self.column_values])
        ax.set_yticks(range(len(self.row_values)), [_text(v) for v in self.row_values])
        ax.set(xlabel=self.column_name, ylabel=self.row_name)
        ax.tick_params(axis="x", rotation=45)
        self.text_ = None
        if include_values is None:
            include_values = self.scores.size <= 100
        if include_values:
            self.text_ = np.empty(self.scores.shape, dtype=object)
            middle = np.nanmean([np.nanmin(self.scores), np.nanmax(self.scores)])
            for at, value in np.ndenumerate(self.scores):
                if not np.isnan(value):
                    color = image.cmap(1.0 if value < middle else 0.0)
                    self.text_[at] = ax.text(
                        at[1],
                        at[0],
                        format(value, values_format),
                        ha="center",
                        va="center",
                        color=color,
                        fontsize="small",
                    )
        row, column = self.best
        ax.plot(column, row, marker="s", markersize=18, fillstyle="none", color="red", mew=2)
        self.ax_, self.figure_, self.image_ = ax, ax.figure, image
        return self


def _axes(names: list[str], params: list[dict], x: str | None, y: str | None) -> tuple[str, str]:
    """The names of the parameters upwards and across."""
    varied = [name for name in names if len(_distinct(one.get(name) for one in params)) > 1]
    found = []
    for given, usual in ((y, _USUAL[0]), (x, _USUAL[1])):
        wanted = usual if given is None else given
        matching = [name for name in names if name == wanted or name.endswith(f"__{wanted}")]
        if given is not None and not matching:
            raise ValueError(f"{given!r} is none of the search's parameters: use one of {names}.")
        found.append(matching[0] if matching else None)
    others = [name for name in [*varied, *names] if name not in found]
    for at, name in enumerate(found):
        if name is None:
            if not others:
                raise ValueError(
                    f"A heat map is of two parameters, and the search is over {names}: draw "
                    "cv_results_ yourself, or search over another one."
                )
            found[at] = others.pop(0)
    row, column = found
    assert row is not None
    assert column is not None
    return row, column


def _distinct(values: Any) -> list[Any]:
    """Distinct values, in order where they have one."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    try:
        return sorted(found)
    except TypeError:
        return found


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
