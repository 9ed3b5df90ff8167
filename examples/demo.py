"""The representative set of 100,000 generated rows: how small, how fast, how close."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.callback import ProgressBar
from sklearn.datasets import make_moons

from aesvm import RepresentativeSet

N_ROWS = 100_000
PICTURE = Path("representatives.png")


def main() -> None:
    console = Console()
    X, y = make_moons(N_ROWS, noise=0.15, random_state=0)
    console.print(f"{N_ROWS:,} rows, 2 features, 2 classes; RBF kernel, gamma=10")
    console.print("Compiling (once per machine) ...")
    RepresentativeSet(gamma=10.0).fit(X[:2000], y[:2000])

    rs = RepresentativeSet(gamma=10.0, hull_tol=1e-3, n_jobs=-1).set_callbacks(ProgressBar())
    started = time.perf_counter()
    rs.fit(X, y)
    seconds = time.perf_counter() - started

    table = Table(title="Representative set")
    table.add_column("what")
    table.add_column("value", justify="right")
    size = len(rs.sample_indices_)
    table.add_row("seconds", f"{seconds:.2f}")
    table.add_row("subsets", f"{rs.n_subsets_:,}")
    table.add_row("representatives, M", f"{size:,}")
    table.add_row("M / N", f"{size / N_ROWS:.2%}")
    table.add_row("sum of weights", f"{rs.weights_.sum():,.6f}")
    table.add_row("tolerance (squared distance)", f"{rs.hull_tol:.1e}")
    table.add_row("largest residual", f"{rs.max_residual_:.3e}")
    table.add_row("mean residual", f"{rs.residuals_.mean():.3e}")
    console.print(table)
    draw(X, y, rs)
    console.print(f"Picture: {PICTURE.resolve()}")


def draw(X: np.ndarray, y: np.ndarray, rs: RepresentativeSet) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colors = np.array(["#2a6f97", "#c8553d"])
    selected = rs.sample_indices_
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), sharex=True, sharey=True)
    axes[0].scatter(*X.T, c=colors[y], s=1, alpha=0.15, linewidths=0)
    axes[0].set_title(f"{len(X):,} rows")
    axes[1].scatter(
        *X[selected].T, c=colors[y[selected]], s=rs.weights_ / 8, alpha=0.6, linewidths=0
    )
    axes[1].set_title(f"{len(selected):,} representatives, area by weight")
    for axis in axes:
        axis.set_aspect("equal")
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    partial = PICTURE.with_suffix(".partial.png")
    figure.savefig(partial, dpi=120)
    partial.replace(PICTURE)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
