"""The flow chart of ``refine="auto"`` in docs/how_close.md: ``python -m benchmarks.auto_chart``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHART = Path(__file__).parent.parent / "docs" / "pictures" / "auto.png"

#: Questions from top to bottom, and what a "yes" leads to.
STEPS = (
    ("rows × rows at most 2e10?\n(some 140,000 rows; on a GPU 2e12)", "exact SVM"),
    ("rows × expected support vectors\nat most 2e10? (by a pilot)", "exact SVM"),
    (
        "few vectors carry the pilot,\nthe SVM of 20,000 rows?",
        "SVM of all rows\non few vectors",
    ),
    (
        "rounds expected to take less than\n0.8 of the exact SVM's time?",
        "representatives,\nthen rounds",
    ),
)
LAST = "exact SVM, and how\nlong it may take"

_LEFT, _RIGHT, _STEP = 3.0, 8.3, 1.35


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.2, 6.6), dpi=90)
    tops = [-_STEP * at for at in range(len(STEPS) + 1)]
    for (question, answer), y, below in zip(STEPS, tops, tops[1:], strict=False):
        _box(axis, _LEFT, y, question, "#eef3f7")
        _box(axis, _RIGHT, y, answer, "#dff0e3")
        _arrow(axis, (_LEFT + 2.15, y), (_RIGHT - 1.25, y), "yes")
        _arrow(axis, (_LEFT, y - 0.42), (_LEFT, below + 0.42), "no")
    _box(axis, _LEFT, tops[-1], LAST, "#dff0e3")
    axis.set(xlim=(0.6, 9.8), ylim=(tops[-1] - 0.6, 0.6))
    axis.axis("off")
    figure.tight_layout(pad=0.2)
    partial = CHART.with_suffix(".partial.png")
    figure.savefig(partial)
    partial.replace(CHART)
    print(f"Written: {CHART}")


def _box(axis: Any, x: float, y: float, words: str, color: str) -> None:
    frame = {"boxstyle": "round,pad=0.45", "facecolor": color, "edgecolor": "#57606a"}
    axis.text(x, y, words, ha="center", va="center", fontsize=10, bbox=frame)


def _arrow(axis: Any, begin: tuple[float, float], end: tuple[float, float], word: str) -> None:
    axis.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": "#57606a"})
    middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    axis.annotate(word, middle, (6, 4), textcoords="offset points", fontsize=9, color="#57606a")


if __name__ == "__main__":
    main()
