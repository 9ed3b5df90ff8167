"""ShapleyDisplay: which features matter, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aesvm.inspection.shapley import ShapleyValues, shapley_values
from aesvm.plotting.fitted import axes_for

#: What can be drawn.
_KINDS = ("beeswarm", "bar")

#: Bins along the values of a feature, whose rows are drawn beside each other; and half the height
#: that they take of a line.
_BINS, _HALF_LINE = 100, 0.4


@dataclass
class ShapleyDisplay:
    """Shapley values of the most important features.

    Bars show mean absolute values. In a beeswarm every dot is a row: how far it lies from zero is
    what the feature adds to its decision value, and its colour is the feature's value.

    Parameters
    ----------
    values : ShapleyValues

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer or None
    dots_ : list of matplotlib PathCollection
        Of a beeswarm, one for each feature.
    order_ : ndarray
        The features that are drawn, by number, the most important first.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_friedman1
    >>> from aesvm import AESVR
    >>> from aesvm.inspection import ShapleyDisplay
    >>> X, y = make_friedman1(500, random_state=0)
    >>> model = AESVR(C=10.0).fit(X, y)
    >>> display = ShapleyDisplay.from_estimator(model, X[:50], background=X[-50:], max_features=5)
    >>> sorted(display.values.feature_names[one] for one in display.order_)
    ['x0', 'x1', 'x2', 'x3', 'x4']
    """

    values: ShapleyValues

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        background: Any = 100,
        kind: str = "beeswarm",
        output: int | str | None = None,
        max_features: int = 20,
        ax: Any = None,
        cmap: Any = "coolwarm",
        **parameters: Any,
    ) -> Self:
        """Compute the Shapley values of some rows, and draw them.

        Parameters
        ----------
        model : estimator
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        background : int, or rows like X, default=100
        kind : {"beeswarm", "bar"}, default="beeswarm"
        output : int or str, default=None
            Which output, by number or name, where there are several. Bars of None add all up.
        max_features : int, default=20
            The most features that are drawn.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure where None.
        cmap : str or Colormap, default="coolwarm"
            Colours of a beeswarm, from low to high values of a feature. Values that are no
            numbers are grey.
        **parameters
            ``groups``, ``n_jobs`` and ``device`` of ``shapley_values``, which has more
            on the others.

        Returns
        -------
        display : ShapleyDisplay
        """
        display = cls(shapley_values(model, X, background, **parameters))
        return display.plot(kind=kind, output=output, max_features=max_features, ax=ax, cmap=cmap)

    def plot(
        self,
        *,
        kind: str = "beeswarm",
        output: int | str | None = None,
        max_features: int = 20,
        ax: Any = None,
        cmap: Any = "coolwarm",
    ) -> Self:
        """Draw them; see ``from_estimator``."""
        if kind not in _KINDS:
            raise ValueError(f"kind={kind!r} cannot be drawn: use one of {[*_KINDS]}.")
        if max_features < 1:
            raise ValueError(f"max_features={max_features}: at least one is needed.")
        by_feature = self.values.importances
        own = self._output(kind, output)
        if own is not None:
            by_feature = by_feature[:, own]
        elif by_feature.ndim > 1:
            by_feature = by_feature.sum(axis=1)
        self.order_ = np.argsort(-by_feature, kind="stable")[:max_features]
        ax = axes_for(self, ax)
        names = [self.values.feature_names[one] for one in self.order_]
        lines = np.arange(len(names))
        self.bars_, self.dots_ = None, []
        if kind == "bar":
            self.bars_ = ax.barh(lines, by_feature[self.order_])
            ax.set_xlabel("mean |Shapley value|")
        else:
            values = self.values.values if own is None else self.values.values[:, :, own]
            ax.axvline(0.0, color="0.7", linewidth=1)
            for line, feature in enumerate(self.order_):
                self.dots_.append(self._swarm(ax, line, feature, values[:, feature], cmap))
            ax.set_xlabel("Shapley value")
            bar = ax.figure.colorbar(_scale(cmap), ax=ax, ticks=[0, 1], aspect=40)
            bar.ax.set_yticklabels(["low", "high"])
            bar.set_label("value of the feature")
        ax.set_yticks(lines, names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        if own is not None and self.values.output_names is not None:
            ax.set_title(self.values.output_names[own])
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _output(self, kind: str, output: int | str | None) -> int | None:
        """Which output to draw, by number; None: all of them, or the only one."""
        names = self.values.output_names
        if names is None:
            if output is not None:
                raise ValueError(f"output={output!r}: there is one output, leave this out.")
            return None
        if isinstance(output, int) and 0 <= output < len(names):
            return output
        if isinstance(output, str) and output in names:
            return names.index(output)
        if output is None and kind == "bar":
            return None
        raise ValueError(
            f"output={output!r}: pass output=, one of {names} or its number. "
            "A beeswarm shows one output."
        )

    def _swarm(
        self, ax: Any, line: int, feature: int, values: NDArray[np.float64], cmap: Any
    ) -> Any:
        """The dots of a feature."""
        heights = line + _HALF_LINE * _beside_each_other(values)
        shades = _shades(self.values.data[:, feature])
        style = {"s": 12, "linewidths": 0, "rasterized": len(values) > 2000}
        if shades is None:
            return ax.scatter(values, heights, color="0.5", **style)
        return ax.scatter(values, heights, c=shades, cmap=cmap, vmin=0.0, vmax=1.0, **style)


def _beside_each_other(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Heights between -1 and 1: dots of one bin are spread, those of full bins most."""
    width = float(np.ptp(values)) or 1.0
    bins = np.floor((values - values.min()) / width * (_BINS - 1)).astype(np.intp)
    order = np.lexsort((np.arange(len(values)), bins))
    counts = np.bincount(bins)
    begins = np.cumsum(counts) - counts
    rank = np.empty(len(values))
    rank[order] = np.arange(len(values)) - begins[bins[order]]
    sides = np.where(rank % 2 == 1, -1.0, 1.0) * np.ceil(rank / 2.0)
    return sides / max(1.0, float(np.abs(sides).max()), 6.0)


def _shades(data: NDArray) -> NDArray[np.float64] | None:
    """Values of a feature as ranks between 0 and 1; None where they are no numbers."""
    try:
        numbers = data.astype(np.float64)
    except (TypeError, ValueError):
        return None
    if np.isnan(numbers).all():
        return None
    known = np.unique(numbers[~np.isnan(numbers)])
    shades = np.searchsorted(known, numbers).astype(np.float64) / max(1, len(known) - 1)
    shades[np.isnan(numbers)] = np.nan
    return shades


def _scale(cmap: Any) -> Any:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(0.0, 1.0), cmap)
