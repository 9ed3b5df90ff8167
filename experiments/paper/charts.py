"""What a chart shows: points, panels of points, bars; checked when it is made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Pairs = Sequence[tuple[float, float]]

_NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Scatter:
    """Points of several series; ``connect``: with a line through each, in order of x.

    ``y_limits``: what y can be at all, as 0 to 100 for a share in per cent; the axis ends there.

    ``name`` is the stem of its SVG file; a panel's file is named after its title instead.
    """

    caption: str
    name: str
    x_label: str
    y_label: str
    series: Mapping[str, Pairs]
    x_log: bool = False
    y_log: bool = False
    connect: bool = False
    note: str = ""
    y_limits: tuple[float, float] = (-math.inf, math.inf)

    def __post_init__(self) -> None:
        chart = self.name or self.caption
        for name, points in self.series.items():
            _check((x for x, _ in points), self.x_log, chart, f"x of series {name!r}")
            _check((y for _, y in points), self.y_log, chart, f"y of series {name!r}")
            for _, y in points:
                if not self.y_limits[0] <= y <= self.y_limits[1]:
                    raise ValueError(
                        f"chart {chart!r}: y of series {name!r} is {y!r}, beyond {self.y_limits}"
                    )

    def measured(self) -> dict[str, Pairs]:
        return {name: points for name, points in self.series.items() if points}


@dataclass(frozen=True)
class Panels:
    """Scatters of the same series side by side, by title, under one legend."""

    caption: str
    name: str
    panels: Mapping[str, Scatter]
    note: str = ""

    def __post_init__(self) -> None:
        names = [self.panel_name(title) for title in self.panels]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"chart {self.name!r}: two panels would both be {twice[0]}.svg")

    def measured(self) -> list[str]:
        return list(dict.fromkeys(s for panel in self.panels.values() for s in panel.measured()))

    def panel_name(self, title: str) -> str:
        return f"{self.name}-{_slug(title)}"


@dataclass(frozen=True)
class Bars:
    """A bar for every group and series; ``None`` where there is no value.

    Bars begin at ``origin``: by default at zero or, on a log scale, at the axis' lower end.
    """

    caption: str
    name: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    y_label: str
    log: bool = False
    note: str = ""
    origin: float | None = None

    def __post_init__(self) -> None:
        if self.origin is not None:
            _check([self.origin], self.log, self.name, "origin")
        for name, values in self.series.items():
            if len(values) != len(self.groups):
                raise ValueError(
                    f"chart {self.name!r}: series {name!r} has {len(values)} values "
                    f"for {len(self.groups)} groups"
                )
            given = (value for value in values if value is not None)
            _check(given, self.log, self.name, f"series {name!r}")

    def measured(self) -> dict[str, Sequence[float | None]]:
        return {
            name: values
            for name, values in self.series.items()
            if any(value is not None for value in values)
        }


Chart = Scatter | Panels | Bars


def file_stem(name: str) -> str:
    """The name, if a file of the report can have it."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"file name {name!r}: letters and digits, with single '.', '_' or '-' between them"
        )
    return name


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "panel"


def _check(values: Iterable[float], log: bool, chart: str, where: str) -> None:
    for value in values:
        if not math.isfinite(value):
            raise ValueError(f"chart {chart!r}: {where} is {value}, not a finite number")
        if log and value <= 0:
            raise ValueError(f"chart {chart!r}: {where} is {value} on a log axis, not above 0")
