"""Pictures of a report, as SVG that stands in its page."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from aesvm.plotting import SearchDisplay

#: Classes whose names are written at a confusion matrix, and whose counts are.
_NAMED, _COUNTED = 20, 10


def pictures(found: Any) -> Iterator[tuple[str, str]]:
    """Captions and SVG of all pictures."""
    yield "Scores of the search, by C and gamma", _svg(_search(found.search))
    if found.test.task == "classification":
        yield "Rows held out: their classes, and predictions", _svg(_confusion(found.test))
    else:
        yield "Rows held out: their values, and predictions", _svg(_values(found.test))


def _svg(figure: Figure) -> str:
    """The drawing without what belongs to a file of its own."""
    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    whole = text.getvalue()
    return whole[whole.index("<svg") :]


def _search(search: Any) -> Figure:
    figure = Figure(figsize=(5, 3.8), layout="constrained")
    display = SearchDisplay.from_search(search, ax=figure.subplots())
    display.ax_.set(xlabel="C", ylabel="gamma")
    return figure


def _confusion(test: Any) -> Figure:
    counts, names = test.confusion, [str(one) for one in test.classes]
    if not counts[-1].any():
        counts = counts[:-1]
    else:
        names = [*names, "(another)"]
    counts = counts[:, :-1]
    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set(xlabel="prediction", ylabel="class")
    if len(names) <= _NAMED:
        axes.set_xticks(range(counts.shape[1]), names[: counts.shape[1]], rotation=45)
        axes.set_yticks(range(counts.shape[0]), names)
    if len(names) <= _COUNTED:
        for (row, column), n in np.ndenumerate(counts):
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(n), ha="center", va="center", color=color)
    figure.colorbar(image, ax=axes, label="share of the class")
    return figure


def _values(test: Any) -> Figure:
    targets, predicted = test.shown
    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.scatter(targets, predicted, s=8, alpha=0.4)
    ends = [min(targets.min(), predicted.min()), max(targets.max(), predicted.max())]
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.set(xlabel="value", ylabel="prediction")
    return figure
