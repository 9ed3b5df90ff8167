"""``python -m benchmarks.pictures RESULTS.json FOLDER``: tables of benchmarks as pictures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import stream_growth

COLORS = {
    "SVC": "#444444",
    "intelex": "#8a6d3b",
    "subsample": "#999999",
    "refine=0": "#9ecae1",
    "refine=1": "#4292c6",
    "refine=2": "#08519c",
    "refine=auto": "#d94801",
    "refine=exact": "#238b45",
}

#: Columns of the table of refinement, and how each is shown.
PANELS = (
    ("accuracy", "test accuracy", "linear"),
    ("labels as SVC %", "labels unlike SVC's, %", "symlog"),
    ("relative gap", "certified relative gap", "log"),
)

#: Programs of the table of growth.
PROGRAMS = {
    "AESVC": "#d94801",
    stream_growth.BOUNDED: "#238b45",
    "SVC": "#444444",
    "intelex": "#4292c6",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    tables = json.loads(options.results.read_text())["tables"]
    paths = [path for table in tables for path in pictures(table, options.folder)]
    if not paths:
        parser.error(
            f"{options.results} has no table that is drawn: run refinement or stream_growth first."
        )
    for path in paths:
        print(path)


def pictures(table: dict, folder: Path) -> list[Path]:
    """Draw a table, if it is one of those that are drawn."""
    draw = next((PICTURES[title] for title in PICTURES if table["title"].startswith(title)), None)
    if draw is None:
        return []
    return draw([dict(zip(table["columns"], row, strict=True)) for row in table["rows"]], folder)


def how_close(lines: list[dict], folder: Path) -> list[Path]:
    """Accuracy, labels and gap against seconds, of the table of refinement."""
    problems = list(dict.fromkeys((line["data"], line["C, gamma"]) for line in lines))
    # the first and the second C and gamma of each dataset
    paths = [folder / f"how_close_{number + 1}.png" for number in range(2)]
    for number, path in enumerate(paths):
        _how_close(lines, problems[number::2], path)
    return paths


def _how_close(lines: list[dict], problems: list[tuple[str, str]], path: Path) -> None:
    plt = _pyplot()
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, axes = plt.subplots(
        len(PANELS), len(problems), figsize=(3.1 * len(problems), 2.6 * len(PANELS)), squeeze=False
    )
    for column, problem in enumerate(problems):
        here = [line for line in lines if (line["data"], line["C, gamma"]) == problem]
        for row, (key, label, scale) in enumerate(PANELS):
            axis = axes[row, column]
            for line in here:
                if line[key] == "":
                    continue
                value = float(line[key])
                if key.startswith("labels"):
                    value = max(0.0, 100.0 - value)
                axis.plot(line["seconds"], value, "o", color=COLORS[line["program"]], ms=7)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
            axis.set_yscale(scale, **({"linthresh": 0.01} if scale == "symlog" else {}))
            if scale == "symlog":
                axis.set_ylim(-0.003, 10.0)
            elif scale == "log":
                axis.set_ylim(5e-7, 2.0)
            else:
                axis.ticklabel_format(axis="y", useOffset=False)
            for which in (axis.xaxis, axis.yaxis):
                which.set_minor_formatter(NullFormatter())
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=7)
            if row == 0:
                axis.set_title(f"{problem[0]}\nC, gamma = {problem[1]}", fontsize=9)
            if row == len(PANELS) - 1:
                axis.set_xlabel("seconds", fontsize=8)
            if column == 0:
                axis.set_ylabel(label, fontsize=8)
    handles = [
        plt.Line2D([], [], marker="o", linestyle="", color=color, label=name)
        for name, color in COLORS.items()
    ]
    figure.legend(handles=handles, loc="lower center", ncol=len(COLORS), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    _save(figure, path)


def growth(lines: list[dict], folder: Path) -> list[Path]:
    """Seconds against rows, of the table of streams and of SVMs of their first rows."""
    plt = _pyplot()
    from matplotlib.ticker import FuncFormatter, NullFormatter

    figure, axis = plt.subplots(figsize=(9.5, 5.0))
    for program, noise in dict.fromkeys((line["program"], line["noise"]) for line in lines):
        _growth_of(axis, program, noise, lines)
    _guides(axis, lines)
    axis.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds to train")
    for which in (axis.xaxis, axis.yaxis):
        which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        which.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9, frameon=False)
    figure.tight_layout()
    path = folder / "stream_growth.png"
    _save(figure, path)
    return [path]


def _growth_of(axis: Any, program: str, noise: float, lines: list[dict]) -> None:
    """One line, and a mark where the limit of seconds ended it."""
    here = [line for line in lines if (line["program"], line["noise"]) == (program, noise)]
    points = [(line["n"], line["seconds"]) for line in here if line["seconds"] != ""]
    if not points:
        return
    axis.plot(
        *zip(*points, strict=True),
        color=PROGRAMS[program],
        linestyle="-" if noise == stream_growth.NEAR else "--",
        marker="o",
        markersize=4,
        label=f"{program}, noise {noise:g}",
    )
    if len(points) < len(here):
        limit = stream_growth.LIMIT
        stopped = here[-1]["remark"].startswith("stopped")
        n = here[-1]["n"] if stopped else stream_growth.expected_rows(points, limit)
        axis.plot(*zip(points[-1], (n, limit), strict=True), ":", color=PROGRAMS[program])
        axis.plot(n, limit, "x", color=PROGRAMS[program], markersize=9, markeredgewidth=2)


def _guides(axis: Any, lines: list[dict]) -> None:
    """The limit, and a line of exponent 1 below the lowest of the others."""
    limit = stream_growth.LIMIT
    label = f"stopped at {limit / 60:.3g} minutes,\nor expected to be"
    axis.plot([], [], "x", color="#888888", markersize=9, markeredgewidth=2, label=label)
    axis.axhline(limit, color="#888888", linewidth=0.8, linestyle=":")
    measured = [line for line in lines if line["seconds"] != ""]
    if not measured:
        return
    lowest = min(measured, key=lambda line: line["seconds"] / line["n"])
    rate = 0.5 * lowest["seconds"] / lowest["n"]
    rows = [line["n"] for line in measured if line["program"] == lowest["program"]]
    ends = [min(rows), max(rows)]
    axis.plot(ends, [rate * n for n in ends], color="#888888", linewidth=0.8, label="exponent 1")


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.png")
    figure.savefig(partial, dpi=80)
    partial.replace(path)
    _pyplot().close(figure)


#: How titles of tables begin, and what draws them.
PICTURES: dict[str, Callable[[list[dict], Path], list[Path]]] = {
    "Refinement": how_close,
    stream_growth.TITLE: growth,
}


if __name__ == "__main__":
    main()
