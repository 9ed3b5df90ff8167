"""``python -m benchmarks.pictures RESULTS.json FOLDER``: the refinement table as pictures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

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

#: Columns of the table, and how each is shown.
PANELS = (
    ("accuracy", "test accuracy", "linear"),
    ("labels as SVC %", "labels unlike SVC's, %", "symlog"),
    ("relative gap", "certified relative gap", "log"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    tables = json.loads(options.results.read_text())["tables"]
    table = next((t for t in tables if t["title"].startswith("Refinement")), None)
    if table is None:
        parser.error(f"{options.results} has no table of refinement: run that benchmark first.")
    lines = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    problems = list(dict.fromkeys((line["data"], line["C, gamma"]) for line in lines))
    for number in range(2):  # the first and the second C and gamma of each dataset
        draw(lines, problems[number::2], options.folder / f"how_close_{number + 1}.png")


def draw(lines: list[dict], problems: list[tuple[str, str]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
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
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.png")
    figure.savefig(partial, dpi=80)
    partial.replace(path)
    plt.close(figure)


if __name__ == "__main__":
    main()
