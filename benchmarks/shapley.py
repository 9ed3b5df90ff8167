"""Exact Shapley values: their seconds, and what the samplers of shap take and miss.

python -m benchmarks shapley shapley_rivals
python -m benchmarks.shapley --device cuda
python -m benchmarks.shapley --picture docs/pictures/shapley_california.png --data-dir FOLDER

The rivals need shap, which is no dependency: pip install shap.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aesvm import AESVR
from aesvm.inspection import ShapleyDisplay, shapley_values
from benchmarks.datasets import MissingError
from benchmarks.report import Report, median_seconds, show

#: Rows to explain, features, support vectors and background rows.
ROWS, FEATURES, VECTORS, BACKGROUND = 1000, 30, 2000, 100

#: Widths of the kernel times the number of features: 1 is gamma="scale".
SPREADS = (1.0, 10.0)


def _problem(width: int, spread: float, n_vectors: int = VECTORS) -> tuple[AESVR, NDArray]:
    """A machine with so many vectors, and rows."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n_vectors + ROWS + BACKGROUND, width))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.3 * random.normal(size=len(X))
    model = AESVR(gamma=spread / width, epsilon=0.0).fit(X[:n_vectors], y[:n_vectors])
    return model, X[n_vectors:]


def shapley(report: Report) -> None:
    """Seconds on the processor; values add up to the predictions."""
    lines = []
    for width in (FEATURES, 100, 300):
        for spread in SPREADS:
            n_rows = ROWS if width == FEATURES else ROWS // 20
            model, X = _problem(width, spread)
            lines.append(show(_line(model, X, n_rows, spread, report.jobs, "cpu", report.repeats)))
            report.table("Shapley values", lines)


def _line(
    model: AESVR, X: NDArray, n_rows: int, spread: float, jobs: int, device: str, repeats: int
) -> dict:
    rows, background = X[:n_rows], X[-BACKGROUND:]
    found = shapley_values(model, rows[:2], background, device=device)  # compiles

    def explain() -> None:
        nonlocal found
        found = shapley_values(model, rows, background, n_jobs=jobs, device=device)

    busy = time.process_time()
    explain()
    busy = time.process_time() - busy
    seconds = median_seconds(explain, repeats)
    sums = found.values.sum(axis=1) + found.base_values
    return {
        "rows": n_rows,
        "features": X.shape[1],
        "vectors": len(model.support_),
        "background": BACKGROUND,
        "gamma times features": spread,
        "device": f"{jobs} threads" if device == "cpu" else device,
        "seconds": seconds,
        "processor seconds": busy,  # of all threads: what other programs take does not count
        "sum less prediction": float(np.abs(sums - model.predict(rows)).max()),
    }


def shapley_rivals(report: Report) -> None:
    """Seconds for a row, and the error, of shap's explainers with the same background."""
    try:
        import shap
    except ImportError as error:
        raise MissingError("shap is not installed") from error
    lines: list[dict] = []
    for width, n_vectors, n_rows, names in (
        (10, 500, 10, ("Exact", "Permutation", "Kernel")),
        (FEATURES, VECTORS, 5, ("Permutation", "Kernel")),
    ):
        model, X = _problem(width, 1.0, n_vectors)
        rows, background = X[:n_rows], X[-BACKGROUND:]
        many = X[:200]
        shapley_values(model, many[:2], background)  # compiles
        seconds = median_seconds(
            lambda model=model, many=many, background=background: shapley_values(  # type: ignore[misc]
                model, many, background, n_jobs=report.jobs
            ),
            report.repeats,
        )
        exact = shapley_values(model, rows, background).values
        line = {"features": width, "vectors": n_vectors, "background": BACKGROUND}
        ours = {"by": "aesvm", "seconds for a row": seconds / len(many), "error, RMS": 0.0}
        lines.append(show({**line, **ours, "error, largest": 0.0}))
        for name in names:
            started = time.perf_counter()
            found = _by_shap(shap, name, model.predict, rows, background)
            apart = (found - exact) / np.sqrt(np.mean(exact**2))
            lines.append(
                show(
                    {
                        **line,
                        "by": f"shap's {name}Explainer",
                        "seconds for a row": (time.perf_counter() - started) / n_rows,
                        "error, RMS": float(np.sqrt(np.mean(apart**2))),
                        "error, largest": float(np.abs(apart).max()),
                    }
                )
            )
    note = "Errors are relative to the root mean square of the exact values."
    report.table("Shapley values beside those of shap", lines, note)


def _by_shap(
    shap: Any, name: str, predict: Callable, rows: NDArray, background: NDArray
) -> NDArray[np.float64]:
    if name == "Kernel":
        return shap.KernelExplainer(predict, background).shap_values(rows, silent=True)
    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = getattr(shap.explainers, f"{name}Explainer", None)
    explainer = explainer or getattr(shap.explainers, name)
    return explainer(predict, masker)(rows, silent=True).values


def california(path: Path, folder: Path) -> None:
    """Draw the values of 500 districts of California, in thousands of dollars."""
    with np.load(folder / "reg_california_housing.npz", allow_pickle=True) as file:
        frame = pd.DataFrame(file["X"], columns=[str(name) for name in file["feature_names"]])
        prices = pd.Series(file["y"] / 1000.0)
    rows = frame.dropna().sample(4000, random_state=0)
    model = make_pipeline(StandardScaler(), AESVR(C=100.0, epsilon=10.0))
    model.fit(rows[:3000], prices[rows.index[:3000]])
    score = model.score(rows[3000:], prices[rows.index[3000:]])
    print(f"R² of 1,000 other rows: {score:.3f}")
    figure = Figure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    ShapleyDisplay.from_estimator(model, rows[3000:3500], background=rows[:100], ax=axes)
    axes.set_xlabel("Shapley value, thousands of dollars")
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapley", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, default=2, help="threads, of the processor")
    parser.add_argument("--picture", type=Path, help="draw California housing, and nothing else")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    options = parser.parse_args()
    if options.picture is not None:
        return california(options.picture, Path(options.data_dir))
    for width in (FEATURES, 100, 300):
        for spread in SPREADS:
            model, X = _problem(width, spread)
            print(_line(model, X, ROWS, spread, options.jobs, options.device, 3), flush=True)
            here = shapley_values(model, X[:5], X[-BACKGROUND:])
            there = shapley_values(model, X[:5], X[-BACKGROUND:], device=options.device)
            apart = float(np.abs(here.values - there.values).max())
            print(f"  largest difference from the processor, of 5 rows: {apart:.1e}", flush=True)


if __name__ == "__main__":
    main()
