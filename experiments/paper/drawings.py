"""Charts drawn as SVG.

The charts of a page are drawn 360 units wide, about the width of a phone, with text that reads
there; wide screens get several side by side rather than one that is larger. Bars lie, a block
for each group, with names on their left and values on their right: that way any number of them
fits a narrow screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.paper.axes import (
    Axis,
    Tick,
    around,
    bar_axis,
    clip,
    fold,
    short,
    text_width,
    ticks,
)
from experiments.paper.charts import Bars, Chart, Pairs, Panels, Scatter, file_stem
from experiments.paper.marks import (
    SIZE,
    Drawing,
    apart,
    curve,
    in_file,
    legend,
    line,
    marker,
    number,
    shifted,
    text,
)
from experiments.paper.prose import plain

WIDTH = 360.0
FILE_WIDTH = 440.0
_PLOT_HEIGHT = 190.0
_LINE = 15.0
_ROW = 16.0
_BAR = 9.0


def files(chart: Chart, numbers: Mapping[str, int], origin: str) -> dict[str, str]:
    """The chart's SVG files by name; ``numbers``: those of the report's series."""
    looks = apart(chart.measured(), numbers)
    if isinstance(chart, Scatter):
        drawings = {chart.name: scatter(chart, looks, FILE_WIDTH, with_legend=True)}
    elif isinstance(chart, Panels):
        drawings = {
            chart.panel_name(title): scatter(panel, looks, WIDTH, title, with_legend=True)
            for title, panel in chart.panels.items()
        }
    else:
        drawings = {chart.name: bars(chart, looks)}
    return {f"{file_stem(name)}.svg": in_file(d, name, origin) for name, d in drawings.items()}


def scatter(
    chart: Scatter,
    looks: Mapping[str, int],
    width: float = WIDTH,
    title: str = "",
    with_legend: bool = False,
) -> Drawing:
    name = ": ".join(dict.fromkeys(words for words in (title, plain(chart.caption)) if words))
    series = chart.measured()
    head, top = _lines(fold(title, width, SIZE), 0, 0, "strong")
    if not series:
        return _nothing(name, width, head, top)
    if with_legend:
        shown = {each: looks[each] for each in series}
        signs, height = legend(shown, width, chart.connect)
        head, top = head + shifted(signs, 0, top + 3), top + height + 6
    y_label, top = _lines(fold(chart.y_label, width, SIZE), 0, top, "muted")
    plot = _Plot.of(chart, series, width, top + 8)
    x_label, height = _lines(
        fold(chart.x_label, width, SIZE), width, plot.bottom + 18, "muted", "end"
    )
    marks = "".join(
        _series_marks(plot, each, points, looks[each], chart.connect)
        for each, points in reversed(series.items())
    )
    body = head + y_label + _grid(plot) + x_label + marks
    return Drawing(width, height + 3, name, _scatter_words(chart), body)


@dataclass(frozen=True)
class _Plot:
    """Where a scatter's points lie: a rectangle and its two axes."""

    left: float
    right: float
    top: float
    bottom: float
    x_axis: Axis
    y_axis: Axis
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]

    @classmethod
    def of(cls, chart: Scatter, series: Mapping[str, Pairs], width: float, top: float) -> _Plot:
        height = _PLOT_HEIGHT * width / WIDTH
        points = [point for each in series.values() for point in each]
        x_axis = around((x for x, _ in points), chart.x_log)
        y_axis = around((y for _, y in points), chart.y_log, chart.y_limits)
        y_ticks = ticks(y_axis, height, SIZE, stacked=True)
        left = 7 + max((text_width(tick.label, SIZE) for tick in y_ticks), default=0.0)
        right = width - 8
        x_ticks = ticks(x_axis, right - left, SIZE, stacked=False)
        return cls(left, right, top, top + height, x_axis, y_axis, x_ticks, y_ticks)

    def x(self, value: float) -> float:
        return self.left + self.x_axis.at(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self.y_axis.at(value) * (self.bottom - self.top)


def _grid(plot: _Plot) -> str:
    parts = []
    for tick in plot.y_ticks:
        y = plot.y(tick.value)
        if tick.major:
            parts.append(line(plot.left, y, plot.right, y, "grid"))
        else:
            parts.append(line(plot.left - 3, y, plot.left, y, "axis"))
        parts.append(text(plot.left - 6, y + 4, tick.label, "muted", "end"))
    for tick in plot.x_ticks:
        x = plot.x(tick.value)
        if tick.major:
            parts.append(line(x, plot.top, x, plot.bottom, "grid"))
        parts.append(line(x, plot.bottom, x, plot.bottom + (4 if tick.major else 2.5), "axis"))
        parts.append(_tick_label(x, plot.bottom + 15, tick.label, plot.right + 8))
    parts.append(line(plot.left, plot.bottom, plot.right, plot.bottom, "axis"))
    return "".join(parts)


def _series_marks(plot: _Plot, name: str, points: Pairs, look: int, connect: bool) -> str:
    places = [(plot.x(x), plot.y(y)) for x, y in points]
    lined = curve(sorted(places, key=lambda place: place[0]), look) if connect else ""
    return lined + "".join(
        marker(x, y, look, f"{name}: {short(value_x)}, {short(value_y)}")
        for (x, y), (value_x, value_y) in zip(places, points, strict=True)
    )


def bars(chart: Bars, looks: Mapping[str, int]) -> Drawing:
    """All groups in one drawing, one above the other."""
    head, top = _lines(fold(scale(chart), WIDTH, SIZE), 0, 0, "muted")
    blocks = list(bar_blocks(chart, looks))
    if not blocks:
        return _nothing(plain(chart.caption), WIDTH, head, top)
    parts, top = [head], top + 6
    for block in blocks:
        parts.append(shifted(block.body, 0, top))
        top += block.height + 8
    words = " ".join(
        f"{group}: {b.description}" for group, b in zip(chart.groups, blocks, strict=True)
    )
    return Drawing(WIDTH, top - 8, plain(chart.caption), words, "".join(parts))


def bar_blocks(chart: Bars, looks: Mapping[str, int]) -> Iterator[Drawing]:
    """A drawing for every group, all on one scale; none if nothing was measured."""
    series = chart.measured()
    values = [value for each in series.values() for value in each if value is not None]
    if not values:
        return
    axis, start = bar_axis(values, chart.log, chart.origin)
    left = 6 + min(0.42 * WIDTH, max(text_width(name, SIZE) for name in series))
    right = WIDTH - 10 - max(text_width(short(value), SIZE) for value in values)
    for at, group in enumerate(chart.groups):
        rows = {name: each[at] for name, each in series.items()}
        yield _block(
            group, f"{plain(chart.caption)}: {group}", rows, looks, _Lane(left, right, axis, start)
        )


@dataclass(frozen=True)
class _Lane:
    """Where bars lie: between the names and the values."""

    left: float
    right: float
    axis: Axis
    start: float

    def x(self, value: float) -> float:
        return self.left + self.axis.at(value) * (self.right - self.left)


def _block(
    group: str, title: str, rows: Mapping[str, float | None], looks: Mapping[str, int], lane: _Lane
) -> Drawing:
    head, top = _lines(fold(group, WIDTH, SIZE), 0, 0, "strong")
    top += 4
    bottom = top + _ROW * len(rows)
    parts = [head]
    for tick in ticks(lane.axis, lane.right - lane.left, SIZE, stacked=False):
        x = lane.x(tick.value)
        parts.append(line(x, top, x, bottom, "grid") if tick.major else "")
        parts.append(_tick_label(x, bottom + 13, tick.label, WIDTH))
    for at, (name, value) in enumerate(rows.items()):
        parts.append(_bar(name, value, looks[name], lane, top + _ROW * at))
    parts.append(line(lane.x(lane.start), top, lane.x(lane.start), bottom, "axis"))
    words = ", ".join(
        f"{name} {'not measured' if value is None else short(value)}"
        for name, value in rows.items()
    )
    return Drawing(WIDTH, bottom + 18, title, f"{words}.", "".join(parts))


def _bar(name: str, value: float | None, look: int, lane: _Lane, top: float) -> str:
    middle = top + _ROW / 2 + 4
    label = text(lane.left - 6, middle, clip(name, lane.left - 6, SIZE), "ink", "end")
    if value is None:
        return label + text(WIDTH, middle, "–", "muted", "end")
    low, high = sorted((lane.x(lane.start), lane.x(value)))
    shape = (
        f'<rect class="bar c{look}" x="{number(low)}" y="{number(top + (_ROW - _BAR) / 2)}" '
        f'width="{number(max(high - low, 1))}" height="{number(_BAR)}"/>'
    )
    return label + shape + text(WIDTH, middle, short(value), "ink", "end")


def scale(chart: Bars) -> str:
    return f"{chart.y_label} (log scale)" if chart.log else chart.y_label


def _nothing(title: str, width: float, head: str, top: float) -> Drawing:
    words = "nothing measured"
    body = head + text(width / 2, top + 28, words, "muted", "middle")
    return Drawing(width, top + 44, title, words, body)


def _lines(
    lines: Sequence[str], x: float, top: float, css: str, anchor: str = "start"
) -> tuple[str, float]:
    """Lines of text from a height on, and where they end."""
    drawn = (text(x, top + 12 + _LINE * at, words, css, anchor) for at, words in enumerate(lines))
    return "".join(drawn), top + _LINE * len(lines)


def _tick_label(x: float, y: float, label: str, width: float) -> str:
    """Below its tick, and not over the right edge."""
    return text(min(x, width - text_width(label, SIZE) / 2), y, label, "muted", "middle")


def _scatter_words(chart: Scatter) -> str:
    axes = f"{chart.y_label} over {chart.x_label}."
    return " ".join([axes, *(f"{name}: {_extent(p)}." for name, p in chart.measured().items())])


def _extent(points: Pairs) -> str:
    xs, ys = zip(*points, strict=True)
    count = f"{len(points)} point{'s' if len(points) > 1 else ''}"
    return f"{count}, x {_from_to(xs)}, y {_from_to(ys)}"


def _from_to(values: Sequence[float]) -> str:
    low, high = short(min(values)), short(max(values))
    return low if low == high else f"{low} to {high}"
