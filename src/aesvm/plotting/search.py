"""SearchDisplay: scores of a search over two parameters, as a heat map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aesvm.plotting.fitted import axes_for, search_in


@dataclass
class SearchDisplay:
    """The heat map that SVM users know: scores over C and gamma.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_columns)
        The best mean score of the candidates with such values, over all other parameters; nan where
        there is none. After halving, of the candidates with the most resources alone: scores on
        fewer rows do not compare with theirs.
    row_values, column_values : list
        Of the parameters.
    row_name, column_name : str
    score_name : str
    best : tuple of int
        Where the candidate is that the search has found best, or that has the highest score.
    eliminated : ndarray of bool of shape (n_rows, n_columns), default=None
        Cells whose candidates halving has dropped before its last round. They are drawn in grey.

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
    >>> from aesvm.model_selection import AEGridSearchCV
    >>> from aesvm.plotting import SearchDisplay
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
    eliminated: NDArray[np.bool_] | None = None

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
            Fitted; or a pipeline that ends in one.
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
        search = search_in(search, cls)
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
        values = np.asarray(results[f"mean_test_{score}"], dtype=float)
        finalists = with_most_resources(results)
        places = [
            (_place(params.get(row_name), rows), _place(params.get(column_name), columns))
            for params in results["params"]
        ]
        tried, compared = np.zeros(scores.shape, dtype=bool), np.zeros(scores.shape, dtype=bool)
        for at, value, is_finalist in zip(places, values, finalists, strict=True):
            tried[at] = True
            if is_finalist:
                compared[at], scores[at] = True, np.fmax(scores[at], value)
        number = int(np.argmax(np.where(finalists & ~np.isnan(values), values, -np.inf)))
        own = getattr(search, "refit", None) in (True, score) or score == "score"
        if own and hasattr(search, "best_index_"):
            number = search.best_index_
        eliminated = None if finalists.all() else tried & ~compared
        return cls(scores, rows, columns, row_name, column_name, score, places[number], eliminated)

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
        from matplotlib.patches import Rectangle

        if self.eliminated is not None:
            grey = np.where(self.eliminated, 0.3, np.nan)
            ax.imshow(grey, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto", origin="lower")
            ax.set_title("grey: dropped before the last round", fontsize="medium")
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
            there = self.scores[~np.isnan(self.scores)]
            middle = 0.5 * (there.min() + there.max()) if len(there) else 0.0
            for at, value in np.ndenumerate(self.scores):
                if not np.isnan(value):
                    color = image.cmap(1.0 if value < middle else 0.0)
                    style = {"ha": "center", "va": "center", "fontsize": "small", "color": color}
                    self.text_[at] = ax.text(at[1], at[0], format(value, values_format), **style)
        row, column = self.best
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="red", lw=2))
        self.ax_, self.figure_, self.image_ = ax, ax.figure, image
        return self


def with_most_resources(results: dict[str, Any]) -> NDArray[np.bool_]:
    """The candidates whose scores compare: after halving, those with the most resources."""
    n_resources = np.asarray(results.get("n_resources", np.zeros(len(results["params"]))))
    return n_resources == n_resources.max(initial=0)


def _axes(names: list[str], params: list[dict], x: str | None, y: str | None) -> tuple[str, str]:
    """The names of the parameters upwards and across."""
    found: list[str | None] = []
    for given in (y, x):
        matching = [name for name in names if given is not None and _ends_in(name, given)]
        if given is not None and not matching:
            raise ValueError(f"{given!r} is none of the search's parameters: use one of {names}.")
        found.append(matching[0] if matching else None)
    if found[0] is not None and found[0] == found[1]:
        raise ValueError(f"x={x!r} and y={y!r} are the same parameter: use two of {names}.")
    # the axes that are left: gamma upwards and C across where these are free, then what varies
    for at, usual in ((0, "gamma"), (1, "C")):
        for name in names:
            if _ends_in(name, usual) and name not in found and None in found:
                found[at if found[at] is None else 1 - at] = name
    varied = [name for name in names if len(_distinct(one.get(name) for one in params)) > 1]
    others = [name for name in dict.fromkeys([*varied, *names]) if name not in found]
    if found.count(None) > len(others):
        raise ValueError(
            f"A heat map needs two parameters, and the search is over {names}: draw "
            "cv_results_ yourself, or search over another parameter too."
        )
    row, column = (others.pop(0) if name is None else name for name in found)
    return row, column


def _ends_in(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f"__{wanted}")


def _distinct(values: Any) -> list[Any]:
    """Distinct values, in order where they have one; arrays and the like by their text."""
    found = list({_key(value): value for value in values}.values())
    try:
        return sorted(found)
    except (TypeError, ValueError):
        return found


def _place(value: Any, values: list[Any]) -> int:
    return [_key(one) for one in values].index(_key(value))


def _key(value: Any) -> Any:
    """Equal for equal values; of arrays and the like, for the same text."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    # three digits; where an exponent would be longer than the number, that in full
    return f"{float(f'{value:.3g}'):,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"
