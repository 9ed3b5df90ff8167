"""AESVC and scikit-learn's SVC on the same 100,000 generated rows: one table, one picture.

SVC runs in a process of its own, which is stopped when its time is up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.callback import ProgressBar
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from aesvm import AESVC

N_TRAIN, N_TEST = 100_000, 20_000
C, GAMMA = 1.0, 10.0
PICTURE = Path("representatives.png")


def rows(n_train: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = make_moons(n_train + N_TEST, noise=0.3, random_state=0)
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def main(n_train: int, limit: float, picture: Path) -> None:
    console = Console()
    X, y, X_test, y_test = rows(n_train)
    console.print(f"{n_train:,} rows, 2 features, 2 classes; RBF kernel, gamma={GAMMA:g}, C={C:g}")
    console.print("Compiling (once for each kind of fit) ...")
    AESVC(C=C, gamma=GAMMA, refine=1).fit(X[:3000], y[:3000])

    table = Table(title=f"{n_train:,} rows")
    for column in ("", "seconds", "rows solved for", "support vectors", "test accuracy"):
        table.add_column(column, justify="right" if column else "left")
    models = {}
    for refine in ("auto", 0):
        model = AESVC(C=C, gamma=GAMMA, refine=refine, n_jobs=-1).set_callbacks(ProgressBar())
        started = time.perf_counter()
        models[refine] = model.fit(X, y)
        table.add_row(
            "AESVC" if refine == "auto" else "AESVC, refine=0",
            f"{time.perf_counter() - started:.2f}",
            f"{model.certificate_.n_solved:,}",
            f"{len(model.support_):,}",
            f"{model.score(X_test, y_test):.4f}",
        )
    with console.status(f"SVC on the same rows, {limit:g} seconds at most ..."):
        theirs = svc_in_time(n_train, limit)
    if theirs is None:
        table.add_row("SVC", f"over {limit:g}, stopped", f"{n_train:,}", "", "")
    else:
        table.add_row(
            "SVC",
            f"{theirs['seconds']:.2f}",
            f"{n_train:,}",
            f"{theirs['support']:,}",
            f"{theirs['accuracy']:.4f}",
        )
    console.print(table)
    console.print("certificate_ of AESVC:")
    console.print(str(models["auto"].certificate_), highlight=False)
    draw(X, y, models["auto"], models[0], picture)
    console.print(f"Picture: {picture.resolve()}")


def svc_in_time(n_train: int, limit: float) -> dict | None:
    """What SVC needed, or None where its time was up."""
    command = [sys.executable, __file__, "--svc", "--rows", str(n_train)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(result.stdout)


def svc(n_train: int) -> None:
    X, y, X_test, y_test = rows(n_train)
    started = time.perf_counter()
    model = SVC(C=C, gamma=GAMMA).fit(X, y)
    seconds = time.perf_counter() - started
    answer = {
        "seconds": seconds,
        "support": len(model.support_),
        "accuracy": model.score(X_test, y_test),
    }
    print(json.dumps(answer))


def draw(X: np.ndarray, y: np.ndarray, exact: AESVC, few: AESVC, picture: Path) -> None:
    """All rows and representatives, each with the boundary of its model."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    colors = np.array(["#2a6f97", "#c8553d"])
    chosen = few.representative_set_
    selected = chosen.sample_indices_
    left, right = X.min(axis=0) - 0.1, X.max(axis=0) + 0.1
    grid = np.stack(
        np.meshgrid(np.linspace(left[0], right[0], 160), np.linspace(left[1], right[1], 120)), -1
    )
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), dpi=80, sharex=True, sharey=True)
    axes[0].scatter(*X.T, c=colors[y], s=1, alpha=0.1, linewidths=0)
    axes[0].set_title(f"{len(X):,} rows")
    axes[1].scatter(
        *X[selected].T, c=colors[y[selected]], s=chosen.weights_ / 8, alpha=0.5, linewidths=0
    )
    axes[1].set_title(f"{len(selected):,} representatives, area by weight")
    for axis, model in zip(axes, (exact, few), strict=True):
        values = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
        axis.contour(grid[..., 0], grid[..., 1], values, levels=[0.0], colors="black")
        axis.set_aspect("equal")
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.canvas.draw()
    drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")  # type: ignore[attr-defined]
    partial = picture.with_suffix(".partial.png")
    drawn.quantize(48).save(partial, optimize=True)
    partial.replace(picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_TRAIN, help="rows to train on")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that SVC may take")
    parser.add_argument("--svc", action="store_true", help="run SVC alone, and print JSON")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="file of the picture")
    options = parser.parse_args()
    try:
        if options.svc:
            svc(options.rows)
        else:
            main(options.rows, options.limit, options.picture)
    except KeyboardInterrupt:
        sys.exit("interrupted")
