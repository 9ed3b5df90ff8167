"""Axes of charts: their range, their ticks, and numbers written short.

Labels must not touch, and no font is at hand to measure them with: widths are estimates, on the
generous side, for the sans-serif fonts that systems ship.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

_STEPS = (1.0, 2.0, 5.0)
_MOST_LABELS = 7
_NARROW = frozenset("iIljft.,:;'|!()[] ")
_WIDE = frozenset("mwMW@%—…")


def short(value: float, digits: int = 3) -> str:
    """A number in few characters: ``1.2k``, ``0.003``, ``1e-5``."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    rounded = float(f"{mantissa}e{exponent}")
    if 1e-3 <= abs(rounded) < 1e3:
        return f"{rounded:.{digits}g}"
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if unit <= abs(rounded) < 1e9:
            return f"{rounded / unit:.{digits}g}{letter}"
    return f"{float(mantissa):g}e{int(exponent)}"


def text_width(text: str, size: float) -> float:
    """About how wide a line of text is at a font size."""
    ems = (
        0.38 if c in _NARROW else 0.95 if c in _WIDE else 0.7 if c.isupper() else 0.64 for c in text
    )
    return size * sum(ems)


def fold(text: str, width: float, size: float) -> list[str]:
    """Lines of words no wider than ``width``; a word that is wider has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def clip(text: str, width: float, size: float) -> str:
    """The text, or as much of it as fits and an ellipsis."""
    if text_width(text, size) <= width:
        return text
    kept = len(text)
    while kept > 1 and text_width(f"{text[:kept].rstrip()}…", size) > width:
        kept -= 1
    return f"{text[:kept].rstrip()}…"


@dataclass(frozen=True)
class Tick:
    value: float
    label: str = ""
    major: bool = True


@dataclass(frozen=True)
class Axis:
    """An interval of values, laid out from 0 to 1."""

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            span = math.log(self.high) - math.log(self.low)
            return (math.log(value) - math.log(self.low)) / span
        return (value - self.low) / (self.high - self.low)

    def holds(self, value: float) -> bool:
        return -1e-9 <= self.at(value) <= 1 + 1e-9


def around(
    values: Iterable[float], log: bool, limits: tuple[float, float] = (-math.inf, math.inf)
) -> Axis:
    """An axis with a little air around the values; from zero on where that costs little.

    ``limits``: what values can be at all. The air stays within them.
    """
    axis = _with_air(list(values), log)
    return Axis(max(axis.low, limits[0]), min(axis.high, limits[1]), log)


def _with_air(values: list[float], log: bool) -> Axis:
    low, high = min(values), max(values)
    if log:
        air = max(0.05 * math.log(high / low), 0.1)
        return Axis(low * math.exp(-air), high * math.exp(air), log=True)
    if low == high:
        air = abs(low) / 10 or 1.0
        return Axis(low - air, high + air)
    air = 0.05 * (high - low)
    floor = 0.0 if 0 <= low < 0.3 * high else low - air
    return Axis(floor, high + air)


def bar_axis(values: Iterable[float], log: bool, origin: float | None) -> tuple[Axis, float]:
    """The axis of bars, and where on it they begin: so that the shortest can still be seen."""
    values = list(values)
    if not log:
        start = 0.0 if origin is None else origin
        low, high = min(start, *values), max(start, *values)
        return Axis(low, high if high > low else low + 1.0), start
    start = _round_below(min(values)) if origin is None else origin
    low, high = min(start, *values), max(start, *values)
    if low == high:
        low, high = low / 2, high * 2
    return Axis(low, high, log=True), start


def ticks(axis: Axis, length: float, size: float, stacked: bool) -> list[Tick]:
    """Ticks whose labels do not touch along ``length``; ``stacked``: labels above each other."""
    candidates = _log_ticks(axis) if axis.log else _linear_ticks(axis)
    found: list[Tick] = []
    for found in candidates:
        labelled = [tick for tick in found if tick.label]
        if len(labelled) <= _MOST_LABELS and _apart(axis, labelled, length, size, stacked):
            break
    return found


def _apart(axis: Axis, labelled: Sequence[Tick], length: float, size: float, stacked: bool) -> bool:
    at = [axis.at(tick.value) * length for tick in labelled]
    if stacked:
        return all(b - a >= 1.7 * size for a, b in pairwise(at))
    half = [text_width(tick.label, size) / 2 for tick in labelled]
    return all(
        at[i + 1] - half[i + 1] - at[i] - half[i] >= 0.8 * size for i in range(len(labelled) - 1)
    )


def _linear_ticks(axis: Axis) -> Iterator[list[Tick]]:
    """Finest first; the last has a single tick at least."""
    span = axis.high - axis.low
    for step in _steps_from(span / 20):
        values = _multiples(axis, step)
        if not values or step > 10 * span:
            return
        size = max(abs(value) for value in values) or step
        digits = max(3, math.floor(math.log10(size)) - math.floor(math.log10(step)) + 1)
        yield [Tick(value, short(value, digits)) for value in values]


def _log_ticks(axis: Axis) -> Iterator[list[Tick]]:
    """Every decade, every second, third ... labelled; within few decades more, or even steps."""
    first, last = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    exponents = [e for e in range(first, last + 1) if axis.holds(_power(e))]
    if len(exponents) < 3:
        within = [m * _power(e) for e in range(first, last + 1) for m in _STEPS]
        within = [value for value in within if axis.holds(value)]
        if len(within) >= 3:
            yield [Tick(value, short(value)) for value in within]
        if len(exponents) < 2:
            yield from _linear_ticks(axis)
            return
    minor = [] if len(exponents) > 4 else _between_decades(axis, first, last)
    for stride in range(1, len(exponents) + 1):
        labels = {e: short(_power(e)) if e % stride == 0 else "" for e in exponents}
        yield [Tick(_power(e), labels[e]) for e in exponents] + minor


def _between_decades(axis: Axis, first: int, last: int) -> list[Tick]:
    values = (m * _power(e) for e in range(first, last + 1) for m in range(2, 10))
    return [Tick(value, major=False) for value in values if axis.holds(value)]


def _multiples(axis: Axis, step: float) -> list[float]:
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _steps_from(least: float) -> Iterator[float]:
    exponent = math.floor(math.log10(least))
    while True:
        yield from (m * _power(exponent) for m in _STEPS if m * _power(exponent) >= least)
        exponent += 1


def _round_below(value: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that leaves a bar to ``value`` some length."""
    exponent = math.floor(math.log10(value))
    rounds = [m * _power(e) for e in (exponent - 1, exponent) for m in _STEPS]
    return max(step for step in rounds if step <= value / 1.25)


def _power(exponent: int) -> float:
    return float(f"1e{exponent}")
