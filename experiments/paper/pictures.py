"""Pictures of the report, drawn with matplotlib: points in panels, and bars."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a machine that only makes runs need not have matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Pairs = Sequence[tuple[float, float]]

#: Colours that stay apart for the kinds of colour blindness; with the markers, 84 looks.
_COLOURS = (
    *("#0072b2", "#dd6207", "#22262b", "#139a5b", "#ae2d8b", "#7f5f00"),
    *("#8f6ff2", "#960045", "#7d8590", "#00535e", "#602300", "#320b92"),
)
_MARKERS = "os^DvPX"

#: Pixels of an inch, and colours of a picture: few, so that the file is small.
_DPI, _N_COLOURS = 80, 64

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
}


@dataclass(frozen=True)
class Scatter:
    """Points of several series in panels, by title; ``connect``: with lines, in order of x.

    ``y_limits``: what y can be at all, as 0 to 100 for a share in per cent.
    """

    caption: str
    name: str  #: the stem of its file
    x_label: str
    y_label: str
    panels: Mapping[str, Mapping[str, Pairs]]
    x_log: bool = False
    connect: bool = False
    y_limits: tuple[float, float] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        for series in self.panels.values():
            for name, points in series.items():
                where = f"picture {self.name!r}, series {name!r}"
                _check((x for x, _ in points), (0.0 if self.x_log else -math.inf, math.inf), where)
                _check((y for _, y in points), self.y_limits, where, closed=True)

    def series(self) -> Iterator[str]:
        """Names of the series that have a point."""
        for series in self.panels.values():
            yield from (name for name, points in series.items() if points)

    def drawn(self, looks: Mapping[str, int]) -> Figure:
        panels = self.panels or {"": {}}
        figure, axes = _grid(len(panels), 3.4, 2.9)
        for ax, (title, series) in zip(axes, panels.items(), strict=True):
            ax.set(title=title, xlabel=self.x_label, ylabel=self.y_label)
            ax.set_xscale("log" if self.x_log else "linear")
            for name, points in series.items():
                if points:
                    ax.plot(
                        *zip(*(sorted(points) if self.connect else points), strict=True),
                        _MARKERS[looks[name] % len(_MARKERS)],
                        linestyle="-" if self.connect else "none",
                        color=_COLOURS[looks[name] % len(_COLOURS)],
                        markersize=4,
                        linewidth=1,
                        label=name,
                    )
            low, high = ax.get_ylim()
            ax.set_ylim(max(low, self.y_limits[0] - 1e-9), min(high, self.y_limits[1] + 1e-9))
            if not any(series.values()):
                _nothing(ax)
            elif self.x_log:
                _label_few(ax)
        keys = {
            label: key
            for ax in axes
            for key, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        if keys:
            figure.legend(
                list(keys.values()),
                list(keys),
                loc="outside lower center",
                ncols=4,
                frameon=False,
            )
        return figure


@dataclass(frozen=True)
class Bars:
    """A bar for every group and series; ``None`` where there is no value.

    On a log scale bars begin at one, otherwise at zero.
    """

    caption: str
    name: str  #: the stem of its file
    groups: Sequence[str]
    bars: Mapping[str, Sequence[float | None]]
    label: str
    log: bool = False

    def __post_init__(self) -> None:
        for name, values in self.bars.items():
            where = f"picture {self.name!r}, series {name!r}"
            if len(values) != len(self.groups):
                raise ValueError(f"{where}: {len(values)} values for {len(self.groups)} groups")
            given = (value for value in values if value is not None)
            _check(given, (0.0 if self.log else -math.inf, math.inf), where)

    def series(self) -> Iterator[str]:
        """Names of the series that have a value."""
        for name, values in self.bars.items():
            if any(value is not None for value in values):
                yield name

    def drawn(self, looks: Mapping[str, int]) -> Figure:
        names = list(self.series())
        figure, axes = _grid(len(self.groups), 3.4, 0.7 + 0.17 * len(names), shared=True)
        start = 1.0 if self.log else 0.0
        for at, (ax, group) in enumerate(zip(axes, self.groups, strict=True)):
            ax.set(title=group, xlabel=self.label)
            ax.set_xscale("log" if self.log else "linear")
            ax.set_yticks(range(len(names)), names)
            ax.grid(visible=False, axis="y")
            ax.margins(x=0.3 if self.log else 0.15)
            for place, name in enumerate(names):
                value, colour = self.bars[name][at], _COLOURS[looks[name] % len(_COLOURS)]
                if value is None:
                    ax.annotate("–", (start, place), (3, -3), textcoords="offset points")
                    continue
                drawn = ax.barh(place, value - start, left=start, height=0.65, color=colour)
                ax.bar_label(drawn, [_short(value)], padding=3, fontsize=8)
            ax.set_ylim(len(names) - 0.4, -0.6)
            if not names:
                _nothing(ax)
        return figure


def _label_few(ax: Axes) -> None:
    """On a log scale of less than two decades: labels in short, where matplotlib's overlap."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    if high < 100.0 * low:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())


Picture = Scatter | Bars


def pngs(pictures: Iterable[Picture]) -> dict[str, bytes]:
    """The pictures by file name; a series looks the same in all of them."""
    from matplotlib import rc_context
    from PIL import Image

    shown = list(pictures)
    names = dict.fromkeys(name for picture in shown for name in picture.series())
    looks = {name: number for number, name in enumerate(names)}
    files: dict[str, bytes] = {}
    for picture in shown:
        if f"{picture.name}.png" in files:
            raise ValueError(f"picture {picture.name!r}: another has that name")
        drawn, small = io.BytesIO(), io.BytesIO()
        with rc_context(_STYLE):
            picture.drawn(looks).savefig(drawn, dpi=_DPI)
        image = Image.open(drawn).convert("RGB")
        image = image.quantize(_N_COLOURS, method=Image.Quantize.FASTOCTREE)
        image.save(small, "PNG", optimize=True)
        files[f"{picture.name}.png"] = small.getvalue()
    return files


def _grid(
    panels: int, width: float, height: float, shared: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels: one is larger, two rows of two look better than three."""
    from matplotlib.figure import Figure

    across = {1: 1, 2: 2, 4: 2}.get(panels, 3)
    down = math.ceil(panels / across)
    if panels == 1:
        width, height = 1.5 * width, 1.5 * height
    figure = Figure(figsize=(width * across, height * down), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False, sharex=shared, sharey=shared).flat)
    for ax in axes[panels:]:
        ax.remove()
    return figure, axes[:panels]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _nothing(ax: Axes) -> None:
    ax.text(0.5, 0.5, "nothing measured", transform=ax.transAxes, ha="center", color="#57606a")


def _check(
    values: Iterable[float], limits: tuple[float, float], where: str, closed: bool = False
) -> None:
    low, high = limits
    for value in values:
        inside = low <= value <= high if closed else low < value < high
        if not (inside and math.isfinite(value)):
            raise ValueError(f"{where}: {value} is not a number between {low} and {high}")
