"""``python -m benchmarks.pictures FOLDER [RESULTS.json]``: the docs' pictures.

The charts of seconds and of time limits from recorded runs, the layers of the package and the flow
chart of ``refine="auto"``; and with results, those of refinement and of growing streams.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.limits import LIMIT
from benchmarks.records import TITLES, WAYS, recorded
from benchmarks.streams import GROWTH

COLORS = {
    "SVC": "#444444",
    "intelex": "#8a6d3b",
    "subsample": "#999999",
    "refine=0": "#9ecae1",
    "refine=1": "#4292c6",
    "refine=2": "#08519c",
    "refine=auto": "#d94801",
    "refine=exact": "#238b45",
    "ThunderSVM": "#4292c6",
    "cuML": "#74a57f",
    "aesvm": "#d94801",
}

ROOT = Path(__file__).parents[1]

#: Objectives closer to the optimum than this are drawn here, in percent.
_LEAST_ABOVE = 1e-2

#: Datasets in a row of that chart.
_IN_A_ROW = 5

#: Columns of the table of refinement: title, scale and limits.
PANELS: dict[str, tuple[str, dict[str, Any], tuple[float, float] | None]] = {
    "accuracy": ("test accuracy", {"value": "linear"}, None),
    "labels unlike": (
        "labels unlike SVC's, %",
        {"value": "symlog", "linthresh": 0.01},
        (-0.003, 10.0),
    ),
    "relative gap": ("certified relative gap", {"value": "log"}, (5e-7, 2.0)),
}

#: Questions of "auto" from top to bottom, and what a "yes" leads to.
STEPS = (
    ("rows × rows at most 2e10?\n(some 140,000 rows; on a GPU 2e12)", "exact SVM"),
    ("rows × expected support vectors\nat most 2e10? (by a pilot)", "exact SVM"),
    ("few vectors carry the pilot,\nthe SVM of 20,000 rows?", "SVM of all rows\non few vectors"),
    (
        "rounds expected to take less than\n0.8 of the exact SVM's time?",
        "representatives,\nthen rounds",
    ),
)
LAST = "exact SVM, and how\nlong it may take"
_LEFT, _RIGHT, _STEP = 3.0, 8.3, 1.35


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path, nargs="?")
    options = parser.parse_args()
    tables = json.loads(options.results.read_text())["tables"] if options.results else {}
    for path in drawn(tables, options.folder):
        print(path)


def drawn(tables: dict[str, dict], folder: Path) -> list[Path]:
    """Draw the charts that need no results, and those of the tables that are drawn."""
    figures = {
        "pictures/speed.png": speed(),
        "pictures/layers.png": layers(),
        "pictures/auto.png": auto_chart(),
        "pictures/time_limit.png": time_limits(),
    }
    for title, table in tables.items():
        lines = pd.DataFrame(table["rows"])
        if title.startswith("Refinement"):
            # the first and the second C and gamma of each dataset
            points = lines.groupby("data", sort=False)["C, gamma"].unique()
            for number in range(2):
                chosen = [(data, settings[number]) for data, settings in points.items()]
                figures[f"how_close_{number + 1}.png"] = how_close(lines, chosen)
        elif title.startswith(GROWTH):
            figures["stream_growth.png"] = growth(lines)
    for name, figure in figures.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.png")
        figure.savefig(partial, dpi=110 if name == "pictures/speed.png" else 80)
        partial.replace(path)
    return [folder / name for name in figures]


def how_close(lines: pd.DataFrame, problems: list[tuple[str, str]]) -> Figure:
    """Accuracy, labels and gap against seconds."""
    lines = lines.assign(**{"labels unlike": (100.0 - lines["labels as SVC %"]).clip(lower=0.0)})
    figure = Figure(figsize=(3.1 * len(problems), 2.6 * len(PANELS)))
    axes = figure.subplots(len(PANELS), len(problems), squeeze=False)
    for column, (data, setting) in enumerate(problems):
        here = lines[(lines["data"] == data) & (lines["C, gamma"] == setting)]
        for axis, (key, (label, scale, limits)) in zip(
            axes[:, column], PANELS.items(), strict=True
        ):
            for program, x, y in here[["program", "seconds", key]].dropna().itertuples(index=False):
                axis.plot(x, y, "o", color=COLORS[program], ms=7, label=program)
            axis.set_yscale(**scale)
            axis.set_ylim(limits)
            _style(axis, ("x",))
            axis.set_ylabel(label if column == 0 else "", fontsize=8)
        axes[0, column].set_title(f"{data}\nC, gamma = {setting}", fontsize=9)
        axes[-1, column].set_xlabel("seconds", fontsize=8)
    keys, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(keys, labels, loc="lower center", ncol=len(COLORS), fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    return figure


def growth(lines: pd.DataFrame) -> Figure:
    """Seconds against rows; a cross where the limit of seconds ended a line."""
    figure = Figure(figsize=(9.5, 5.0), layout="tight")
    axis = figure.subplots()
    for number, ((program, noise), here) in enumerate(
        lines.groupby(["program", "noise"], sort=False)
    ):
        points = here.dropna(subset="seconds")
        color = f"C{number}"
        axis.plot(
            points["n"], points["seconds"], "o-", ms=4, color=color, label=f"{program}, {noise:g}"
        )
        if 0 < len(points) < len(here):
            axis.plot(here["n"].iloc[-1], LIMIT, "x", ms=9, mew=2, color=color)
    axis.axhline(LIMIT, color="#888888", linewidth=0.8, linestyle=":", label="limit (× beyond)")
    axis.set(xlabel="rows", ylabel="seconds to train")
    axis.set_yscale("log")
    _style(axis, ("x", "y"))
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), fontsize=9, frameon=False)
    return figure


def _style(axis: Any, plain: tuple[str, ...]) -> None:
    """A log x axis, a grid, and plain numbers along some of the axes."""
    axis.set_xscale("log")
    axis.grid(alpha=0.3)
    axis.tick_params(labelsize=7)
    for name in plain:
        which = getattr(axis, f"{name}axis")
        which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        which.set_minor_formatter(NullFormatter())


def speed() -> Figure:
    """Seconds to fit and to predict, as they were recorded."""
    (front, lines), (gpu, on_gpu) = recorded("front"), recorded("gpu")
    on_gpu = on_gpu[on_gpu["C"] == 1.0]
    compared = on_gpu[on_gpu["program"] == "cuML"][["data", "rows", "dense"]]
    on_gpu = on_gpu.merge(compared, on=["data", "rows", "dense"])
    figure = Figure(figsize=(10.0, 4.1))
    axes = figure.subplots(1, 3)
    lines["of"] = [
        f"{TITLES[data]}\n{rows:,} × {n}"
        for data, rows, n in lines[["data", "rows", "features"]].itertuples(index=False)
    ]
    on_gpu["of"] = [
        f"{TITLES[data]}\n{rows:,} rows"
        for data, rows in on_gpu[["data", "rows"]].itertuples(index=False)
    ]
    three, on_device = ("SVC", "intelex", "aesvm"), ("ThunderSVM", "cuML", "aesvm")
    _bars(axes[0], lines, "fit s", three, f"fit, {front['machine']}")
    _bars(axes[1], lines.dropna(subset="predict s"), "predict s", three, "predict 10,000 rows")
    _bars(axes[2], on_gpu, "fit s", on_device, f"fit, {gpu['machine']}")
    names = dict.fromkeys((*three, *on_device))
    handles = [Patch(color=COLORS[name], label=name) for name in names]
    figure.legend(handles=handles, loc="lower center", ncol=5, fontsize=9, frameon=False)
    figure.text(
        0.99, 0.015, f"{front['date']}; GPU {gpu['date']}", ha="right", fontsize=7, color="#57606a"
    )
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


#: Colours and markers of the ways to use some seconds.
_WAYS = dict(
    zip(WAYS, (("#d94801", "o"), ("#238b45", "s"), ("#8a6d3b", "D"), ("#2171b5", "^")), strict=True)
)


def time_limits() -> Figure:
    """Objective above the optimum, and predictions as the exact SVM's, against the limit.

    Each run is a mark; lines join the means of several.
    """
    _, lines = recorded("time_limit")
    names = list(dict.fromkeys(zip(lines["data"], lines["rows"], strict=True)))
    n_blocks = -(-len(names) // _IN_A_ROW)
    figure = Figure(figsize=(2.4 * _IN_A_ROW, 4.6 * n_blocks))
    axes = figure.subplots(2 * n_blocks, _IN_A_ROW, squeeze=False)
    # a column of two for each dataset
    axes = np.hstack(np.split(axes, n_blocks))
    for axis in axes[:, len(names) :].flat:
        axis.set_axis_off()
    panels = {"above %": "objective above the optimum, %", "same %": "as the exact SVM's, %"}
    for column, (data, rows) in enumerate(names):
        own = lines[(lines["data"] == data) & (lines["rows"] == rows)]
        for axis, (what, label) in zip(axes[:, column], panels.items(), strict=True):
            for way, (color, marker) in _WAYS.items():
                here = own[own["how"] == way].dropna(subset=what)
                values = here[what].clip(lower=_LEAST_ABOVE) if what == "above %" else here[what]
                means = values.groupby(here["limit s"]).mean()
                axis.plot(here["limit s"], values, marker, color=color, ms=4, alpha=0.6)
                axis.plot(means.index, means, color=color, label=WAYS[way])
            _style(axis, ("x",))
            axis.set_xticks(sorted(own.loc[own["how"] != "exact", "limit s"].unique()))
            axis.set_ylabel(label if column % _IN_A_ROW == 0 else "", fontsize=8)
        if own["above %"].notna().sum() > 1:
            axes[0, column].set_yscale("log")
            axes[0, column].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
            axes[0, column].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes[0, column].yaxis.set_minor_formatter(NullFormatter())
        else:
            axes[0, column].set_axis_off()
        axes[0, column].set_title(f"{TITLES[data]}\n{rows:,} rows", fontsize=9)
        axes[1, column].set_xlabel("limit, s", fontsize=8)
    keys, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        keys,
        labels,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.012),
        ncol=len(WAYS),
        fontsize=8,
        frameon=False,
    )
    runs = lines[["machine", "date", "clock"]].drop_duplicates()
    noted = "; ".join(", ".join(run) for run in runs.itertuples(index=False))
    figure.text(0.99, 0.005, noted, ha="right", fontsize=6, color="#57606a")
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    return figure


def _bars(axis: Any, lines: pd.DataFrame, what: str, programs: tuple[str, ...], title: str) -> None:
    """A bar of seconds for each dataset and program; the first dataset on top."""
    names = list(dict.fromkeys(lines["of"]))
    height = 0.8 / len(programs)
    for number, program in enumerate(programs):
        seconds = lines[lines["program"] == program].set_index("of")[what].reindex(names)
        places = np.arange(len(names)) + (number - (len(programs) - 1) / 2) * height
        axis.barh(places, seconds, height, color=COLORS[program])
        for place, value in zip(places, seconds, strict=True):
            shown = f" {value:.2g}" if value < 10 else f" {value:.0f}"
            bold = "bold" if program == "aesvm" else "normal"
            axis.text(value, place, shown, va="center", fontsize=7, fontweight=bold)
    axis.set_xscale("log")
    axis.set_xlim(lines[what].min() / 2, lines[what].max() * 3)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.invert_yaxis()
    axis.tick_params(axis="x", labelsize=7)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("seconds (logarithmic)", fontsize=8)
    axis.set_title(title, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def layers() -> Figure:
    """The layers of the package, as CONTRIBUTING.md lists them: imports go downwards."""
    lines = layers_of((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    figure = Figure(figsize=(8.2, 0.42 * len(lines) + 0.3), layout="tight")
    axis = figure.subplots()
    colors = matplotlib.colormaps["Blues"](np.linspace(0.08, 0.4, len(lines)))
    for number, (names, color) in enumerate(zip(lines, colors, strict=True)):
        axis.barh(number, 1.0, 0.86, color=color)
        axis.text(0.5, number, "    ".join(names), ha="center", va="center", fontsize=9)
    axis.invert_yaxis()
    axis.axis("off")
    return figure


def layers_of(text: str) -> list[list[str]]:
    """The names of each layer, the highest first; what a layer is follows its names."""
    block = re.search(r"(?:^ {6}\S.*\n)+", text, re.MULTILINE)
    assert block is not None
    parts = [re.split(r"\s{2,}", line.strip()) for line in block[0].splitlines()]
    return [[part for part in line if " " not in part] for line in parts]


def auto_chart() -> Figure:
    """The questions that "auto" asks."""
    figure = Figure(figsize=(7.2, 6.6), layout="tight")
    axis = figure.subplots()
    tops = -_STEP * np.arange(len(STEPS) + 1)
    for (question, answer), y, below in zip(STEPS, tops, tops[1:], strict=False):
        _box(axis, _LEFT, y, question, "#eef3f7")
        _box(axis, _RIGHT, y, answer, "#dff0e3")
        _arrow(axis, (_LEFT + 2.15, y), (_RIGHT - 1.25, y), "yes")
        _arrow(axis, (_LEFT, y - 0.42), (_LEFT, below + 0.42), "no")
    _box(axis, _LEFT, tops[-1], LAST, "#dff0e3")
    axis.set(xlim=(0.6, 9.8), ylim=(tops[-1] - 0.6, 0.6))
    axis.axis("off")
    return figure


def _box(axis: Any, x: float, y: float, words: str, color: str) -> None:
    frame = {"boxstyle": "round,pad=0.45", "facecolor": color, "edgecolor": "#57606a"}
    axis.text(x, y, words, ha="center", va="center", fontsize=10, bbox=frame)


def _arrow(axis: Any, begin: tuple[float, float], end: tuple[float, float], word: str) -> None:
    axis.annotate("", end, begin, arrowprops={"arrowstyle": "->", "color": "#57606a"})
    middle = ((begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2)
    axis.annotate(word, middle, (6, 4), textcoords="offset points", fontsize=9, color="#57606a")


if __name__ == "__main__":
    main()
