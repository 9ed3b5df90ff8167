"""How a model does on rows that were held out, and the report of ``aesvm fit``.

The report is one page of HTML that needs no other file.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import prod
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import (
    accuracy_score,
    mean_absolute_error,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from aesvm import __version__
from aesvm.io.files import written_whole
from aesvm.plotting.search import with_most_resources
from aesvm.runtime.scikit_learn import safe_indexing

#: Classes whose names stand at a confusion matrix.
_NAMED = 20

#: Letters that fit below it, of all names together.
_LETTERS = 30

#: Bins of a calibration curve.
_BINS = 10

#: Rows whose Shapley values are computed, at most and at least; background rows; and the factors
#: of kernels, by rows, background rows, vectors and columns, that are worth a picture.
_MOST_EXPLAINED, _FEWEST_EXPLAINED, _BACKGROUND, _FACTORS = 200, 20, 25, 5e8


def write_report(found: Any, path: str) -> None:
    """Write the report of a fit."""
    title = f"{found.target} of {os.path.basename(found.data)}"
    page = _PAGE.substitute(
        title=escape(title),
        heading=_breakable(title),
        version=__version__,
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        scores=_table(found.test.lines()),
        classes=_classes(found.test),
        pictures=_pictures(found),
        steps=_table(_steps(found)),
        columns=_columns(found.columns),
        candidates=_candidates(found.search),
        certificate=escape(str(found.certificate)),
        python=escape(_python(found)),
    )
    with written_whole(path) as file:
        file.write(page.encode())


def _classes(test: Any) -> str:
    """Precision and recall of each class."""
    if test.classes is None:
        return ""
    rows = [
        (label, f"{one['precision']:.1%}", f"{one['recall']:.1%}", f"{one['rows']:,}")
        for label, one in test.found()["classes"].items()
    ]
    return _table(rows, ("class", "precision", "recall", "rows"))


def _steps(found: Any) -> Iterator[tuple[str, str]]:
    parts, svm = found.parts, found.model[-1]
    yield "rows", f"{parts.n_train:,} to learn from, {parts.n_test:,} held out at random"
    if not found.columns:
        scaler = type(found.model[0]).__name__
        yield "features", f"{svm.n_features_in_}, scaled by {scaler}"
    n_candidates = prod(len(values) for values in found.search.param_grid_.values())
    together = ", groups kept together" if parts.groups is not None else ""
    yield (
        "search",
        f"{n_candidates} candidates for C and gamma, {found.search.n_splits_}-fold "
        f"cross-validation{together} on {parts.search.X.shape[0]:,} rows, "
        f"{found.scoring or 'score'} {found.search.best_score_:.4g}",
    )
    if edges := at_edge(found.search):
        yield "", edges
    tube = f", epsilon {svm.epsilon:.4g}" if hasattr(svm, "epsilon") else ""
    weights = getattr(svm, "class_weight", None)
    weighted = f", class weights {weights}" if weights else ""
    yield "model", f"{type(svm).__name__}, C {svm.C:.4g}, gamma {svm.gamma_:.4g}{tube}{weighted}"
    yield "support vectors", f"{len(svm.support_):,}"
    yield "seconds", ", ".join(f"{name} {value:.1f}" for name, value in found.seconds.items())
    yield "model file", found.files["model"]


def at_edge(search: Any) -> str:
    """A note if the best candidate is at the edge of the grid; else empty."""
    found = []
    for name, value in search.best_params_.items():
        tried = search.param_grid_.get(name, [])
        for end, word in ((min, "smallest"), (max, "largest")):
            if len(tried) > 1 and value == end(tried):
                found.append(f"{name.removeprefix('svm__')} is the {word} that was tried")
    return f"{' and '.join(found)}: others beyond it may do better" if found else ""


def _columns(columns: list[Any]) -> str:
    """What became of each column of a table."""
    if not columns:
        return ""
    rows = []
    for one in columns:
        doubt = f"; it {one.doubt}" if one.doubt else ""
        rows.append((one.name, one.kind, one.treatment + doubt))
    return "<h2>Columns</h2>" + _table(rows, ("column", "holds", "treatment"))


def _candidates(search: Any) -> str:
    results = search.cv_results_
    finalists = with_most_resources(results)
    order = sorted(finalists.nonzero()[0], key=lambda at: results["rank_test_score"][at])
    rows = []
    for at in order[:5]:
        listed = ", ".join(
            f"{name.removeprefix('svm__')} {value:.4g}"
            for name, value in results["params"][at].items()
        )
        score, spread = results["mean_test_score"][at], results["std_test_score"][at]
        rows.append((listed, f"{score:.4f} ± {spread:.4f}"))
    note = ""
    if not finalists.all():
        n_rows, n_others = search.n_resources_[-1], search.n_candidates_[0] - len(order)
        note = (
            f"<p>The candidates of the last round of halving, on {n_rows:,} rows. The other "
            f"{n_others:,} were dropped on fewer rows, and their scores do not compare.</p>"
        )
    return _table(rows) + note


def _python(found: Any) -> str:
    """Three lines that use the model."""
    if found.columns:
        lines = "import aesvm, pandas", 'new = pandas.read_csv("new.csv")', "model.predict(new)"
    else:
        lines = "import aesvm", "", "model.predict(X)  # rows as arrays, as the file had them"
    return f"{lines[0]}\nmodel = aesvm.load({found.files['model']!r})\n" + "\n".join(
        line for line in lines[1:] if line
    )


def _table(rows: Iterable[tuple[str, ...]], header: tuple[str, ...] = ()) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in header)
    lines = [f"<tr>{head}</tr>"] if header else []
    for row in rows:
        style = ' class="out"' if row[-1] == "left out" else ""
        lines.append(f"<tr{style}>{''.join(f'<td>{_breakable(one)}</td>' for one in row)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _breakable(text: str) -> str:
    """HTML of a text; names such as ``late_arrivals.csv`` may break after _ and before a dot."""
    return re.sub(r"(?<=_)|(?=\.[^\W\d])", "<wbr>", escape(text))


def _pictures(found: Any) -> str:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return "<p>There are none: they need matplotlib, pip install 'aesvm[plot]'.</p>"
    figures = []
    with mpl.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}):
        for caption, draw, *arguments in _drawn(found):
            figure, text = Figure(figsize=(4.8, 3.8), layout="constrained"), io.StringIO()
            draw(figure.subplots(), *arguments)
            figure.savefig(text, format="svg", metadata={"Date": None})
            svg = text.getvalue()
            svg = svg[svg.index("<svg") :]  # without the head of a file
            figures.append(f"<figure>{svg}<figcaption>{caption}</figcaption></figure>")
    return f"<div class='pictures'>{''.join(figures)}</div>"


def _drawn(found: Any) -> Iterator[tuple]:
    """Captions, and functions that draw."""
    test = found.test
    yield "Scores of the search, by C and gamma", _draw_search, found.search
    if n_explained := _n_explained(found):
        yield (
            f"Importance of the columns: mean absolute Shapley values of {n_explained:,} rows",
            _draw_importance,
            found,
            n_explained,
        )
    if test.classes is None:
        yield "Rows held out: values and predictions", _draw_values, test, "actual_vs_predicted"
        yield "Residuals: value less prediction", _draw_values, test, "residual_vs_predicted"
        return
    yield "Rows held out: their classes, and predictions", _draw_confusion, test
    if "roc_auc" in test.found():
        yield "ROC of rows held out", _draw_roc, test
        if found.folded is not None:
            yield (
                f"Calibration on rows held out. The model itself has no probabilities: these are a "
                f"sigmoid of its decision values, fitted by cross-validation to "
                f"{len(found.folded[0]):,} rows of training. scikit-learn's CalibratedClassifierCV "
                "makes such a model",
                _draw_calibration,
                test,
                found.folded,
            )


def _n_explained(found: Any) -> int:
    """Rows whose Shapley values are worth their time; 0: too few."""
    svm, n_rows = found.model[-1], found.parts.search.X.shape[0]
    each = _BACKGROUND * len(svm.support_) * svm.n_features_in_
    n_explained = int(min(_MOST_EXPLAINED, n_rows, _FACTORS // max(1, each)))
    return n_explained if n_explained >= _FEWEST_EXPLAINED and n_rows >= _BACKGROUND else 0


def _draw_importance(axes: Any, found: Any, n_explained: int) -> None:
    from aesvm.inspection import ShapleyDisplay

    X = found.parts.search.X
    chosen = np.random.default_rng(0).permutation(X.shape[0])
    rows = safe_indexing(X, chosen[:n_explained])
    background = safe_indexing(X, chosen[-_BACKGROUND:])
    ShapleyDisplay.from_estimator(
        found.model, rows, background=background, kind="bar", max_features=15, ax=axes
    )


def _draw_search(axes: Any, search: Any) -> None:
    from aesvm.plotting import SearchDisplay

    SearchDisplay.from_search(search, ax=axes)
    axes.set(xlabel="C", ylabel="gamma")


def _draw_confusion(axes: Any, test: Any) -> None:
    from sklearn.metrics import ConfusionMatrixDisplay

    names = [str(one) for one in np.unique([test.y, test.predicted])]
    few = len(names) <= _NAMED
    are_long = sum(map(len, names)) > _LETTERS
    ConfusionMatrixDisplay.from_predictions(
        test.y,
        test.predicted,
        ax=axes,
        cmap="Blues",
        include_values=few,
        xticks_rotation=45 if are_long else "horizontal",
        values_format=",d",
    )
    axes.set(xlabel="prediction", ylabel="class")
    if not few:
        axes.set(xticks=[], yticks=[])


def _draw_roc(axes: Any, test: Any) -> None:
    from sklearn.metrics import RocCurveDisplay

    known = test.is_known
    RocCurveDisplay.from_predictions(
        test.y[known],
        test.values[known],
        pos_label=test.classes[1],
        ax=axes,
        plot_chance_level=True,
    )


def _draw_calibration(axes: Any, test: Any, folded: tuple) -> None:
    from sklearn.calibration import CalibrationDisplay
    from sklearn.linear_model import LogisticRegression

    targets, values = folded
    sigmoid = LogisticRegression(C=np.inf).fit(values[:, None], targets)
    known = test.is_known
    CalibrationDisplay.from_predictions(
        test.y[known] == test.classes[1],
        sigmoid.predict_proba(test.values[known][:, None])[:, 1],
        n_bins=_BINS,
        strategy="quantile",
        ax=axes,
        name="sigmoid of decision values",
    )
    axes.set(xlabel="predicted probability", ylabel="share of positives")


def _draw_values(axes: Any, test: Any, kind: str) -> None:
    from sklearn.metrics import PredictionErrorDisplay

    PredictionErrorDisplay.from_predictions(
        test.y, test.predicted, kind=kind, ax=axes, random_state=0, scatter_kwargs={"s": 8}
    )


@dataclass(frozen=True)
class HeldOut:
    """Targets of rows held out, their predictions, and decision values if there are two classes."""

    y: NDArray
    predicted: NDArray
    values: NDArray | None
    classes: NDArray | None  #: None: a regression

    @classmethod
    def of(cls, model: Any, chunks: Iterable[tuple]) -> HeldOut:
        """Predict chunks of rows."""
        classes = getattr(model, "classes_", None)
        two = classes is not None and len(classes) == 2
        found: list[tuple[NDArray, ...]] = []
        for X, y, _ in chunks:
            if X.shape[0]:
                values = (model.decision_function(X),) if two else ()
                found.append((y, model.predict(X), *values))
        y, predicted, *rest = (np.concatenate(column) for column in zip(*found, strict=True))
        return cls(y, predicted, rest[0] if rest else None, classes)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """The rows whose class the model knows."""
        return np.isin(self.y, np.asarray(self.classes))

    def found(self) -> dict[str, Any]:
        """The numbers, by name."""
        y, predicted, n_rows = self.y, self.predicted, len(self.y)
        if self.classes is None:
            return {
                "r2": r2_score(y, predicted) if n_rows > 1 else float("nan"),
                "root_mean_squared_error": root_mean_squared_error(y, predicted),
                "mean_absolute_error": mean_absolute_error(y, predicted),
                "rows": n_rows,
            }
        n_right = int(accuracy_score(y, predicted, normalize=False))
        interval = binomtest(n_right, n_rows).proportion_ci(method="wilson")
        labels, counts = np.unique(y, return_counts=True)
        scores = precision_recall_fscore_support(y, predicted, labels=labels, zero_division=0.0)
        known = self.is_known
        found = {
            "accuracy": n_right / n_rows,
            "interval": [float(interval.low), float(interval.high)],
            "balanced_accuracy": float(np.mean(scores[1])),
            "majority": float(counts.max()) / n_rows,
            "rows": n_rows,
            "classes": {
                str(label): {"precision": precision, "recall": recall, "rows": int(n)}
                for label, precision, recall, _, n in zip(labels.tolist(), *scores, strict=True)
            },
        }
        if self.values is not None and len(np.unique(y[known])) == 2:
            positive = y[known] == self.classes[1]
            found["roc_auc"] = float(roc_auc_score(positive, self.values[known]))
        return found

    def lines(self) -> Iterator[tuple[str, str]]:
        """For people."""
        found = self.found()
        if self.classes is None:
            yield "R2", f"{found['r2']:.3f} on {found['rows']:,} rows held out"
            yield "root mean square error", f"{found['root_mean_squared_error']:.4g}"
            yield "mean absolute error", f"{found['mean_absolute_error']:.4g}"
            return
        low, high = found["interval"]
        yield "accuracy", f"{found['accuracy']:.1%} of {found['rows']:,} rows held out"
        yield "95% interval", f"{low:.1%} to {high:.1%}"
        yield "balanced accuracy", f"{found['balanced_accuracy']:.1%}, the mean of the recalls"
        if "roc_auc" in found:
            yield "area under the ROC", f"{found['roc_auc']:.3f}"
        yield "most frequent class", f"{found['majority']:.1%}"


_PAGE = Template(
    """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 64rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2rem }
p.when, figcaption, td:first-child { color: #555 } p.when { margin-top: 0 }
table { border-collapse: collapse } table + table { margin-top: 1rem }
td, th { overflow-wrap: break-word; padding: .2rem 1.2rem .2rem 0; text-align: left;
  vertical-align: top }
tr.out td { color: #a33 }
pre { background: #f5f5f5; padding: 1rem; overflow-x: auto; font-size: .85rem;
  overflow-wrap: normal }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
  gap: 1rem }
figure { margin: 0 } figcaption { font-size: .9rem }
svg { max-width: 100%; height: auto }
@media (max-width: 30rem) {
  body { font-size: 15px; margin: 1rem auto } td, th { padding-right: .6rem }
  pre { font-size: .7rem; padding: .8rem }
}
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181a1b } p.when, td:first-child, figcaption { color: #aaa }
  tr.out td { color: #e99 } pre { background: #26292b } svg { background: #fff }
}
</style>
</head>
<body>
<h1>$heading</h1>
<p class="when">aesvm $version, $when</p>
<h2>On rows that were held out</h2>
$scores
$classes
<h2>Pictures</h2>
$pictures
<h2>What was done</h2>
$steps
$columns
<h2>The best candidates</h2>
$candidates
<h2>Certificate</h2>
<pre>$certificate</pre>
<h2>Using the model</h2>
<pre>$python</pre>
</body>
</html>
"""
)
