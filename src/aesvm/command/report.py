"""The report of ``aesvm fit``: one page of HTML that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from math import prod
from typing import Any

from aesvm import __version__
from aesvm.command.outcome import as_flags
from aesvm.io.atomic import written_whole
from aesvm.plotting.search import with_most_resources

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2rem }
p.when { color: #666; margin-top: 0 } table { border-collapse: collapse }
td, th { padding: .2rem 1rem .2rem 0; text-align: left; vertical-align: top }
td:first-child { color: #555 } pre { background: #f5f5f5; padding: 1rem; overflow-x: auto;
  font-size: .85rem } figure { display: inline-block; margin: 0 1rem 1rem 0 }
figcaption { color: #555; font-size: .9rem } svg { max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181a1b } p.when, td:first-child, figcaption { color: #aaa }
  pre { background: #26292b } svg { background: #fff }
}
"""


def write_report(found: Any, path: str) -> None:
    """Write the report of a fit."""
    with written_whole(path) as file:
        file.write("".join(_page(found)).encode())


def _page(found: Any) -> Iterator[str]:
    title = escape(f"{found.target} of {found.data}")
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    yield f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title>"
    yield f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
    yield f"<p class='when'>aesvm {__version__}, {when}</p>"
    yield _section("On rows that were held out", _table(found.test.lines()))
    yield _pictures(found)
    yield _section("What was done", _table(_steps(found)))
    yield _section("The best candidates", _candidates(found.search))
    yield _section("Certificate", f"<pre>{escape(as_flags(str(found.certificate)))}</pre>")
    features = ", ".join(found.feature_names or [])
    if features:
        yield _section("Features", f"<p>{escape(features)}</p>")
    yield "</body></html>\n"


def _steps(found: Any) -> Iterator[tuple[str, str]]:
    parts, svm = found.parts, found.model.steps[-1][1]
    scaler = type(found.model.steps[0][1]).__name__
    yield "rows", f"{parts.n_train:,} to learn from, {parts.n_test:,} held out, by chance"
    yield "features", f"{found.n_features}, scaled by {scaler}"
    grid, n_folds = found.search.param_grid_, found.search.n_splits_
    n_candidates = prod(len(values) for values in grid.values())
    yield (
        "search",
        f"{n_candidates} candidates for C and gamma, {n_folds}-fold cross-validation on "
        f"{parts.search.X.shape[0]:,} rows, score {found.search.best_score_:.4g}",
    )
    if found.edges:
        yield "", found.edges
    tube = f", epsilon {svm.epsilon:.4g}" if hasattr(svm, "epsilon") else ""
    yield "model", f"{type(svm).__name__}, C {svm.C:.4g}, gamma {svm.gamma_:.4g}{tube}"
    yield "support vectors", f"{len(svm.support_):,}"
    yield "seconds", ", ".join(f"{name} {value:.1f}" for name, value in found.seconds.items())
    yield "model file", found.files["model"]


def _candidates(search: Any) -> str:
    results = search.cv_results_
    finalists = with_most_resources(results)
    order = sorted(finalists.nonzero()[0], key=lambda at: results["rank_test_score"][at])
    rows = []
    for at in order[:5]:
        named = results["params"][at].items()
        listed = ", ".join(
            f"{name.removeprefix('svm__')} {value:.4g}"
            for name, value in named
            if name.startswith("svm__") and isinstance(value, float)
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


def _pictures(found: Any) -> str:
    try:
        from aesvm.command.pictures import pictures
    except ImportError:
        return _section(
            "Pictures", "<p>There are none: they need matplotlib, pip install 'aesvm[plot]'.</p>"
        )
    figures = (
        f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
        for caption, svg in pictures(found)
    )
    return _section("Pictures", "".join(figures))


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>{content}"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = (f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(lines)}</table>"
