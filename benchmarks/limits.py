"""Fits that may take too long, and sizes that are looked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, sqrt
from typing import Any, NamedTuple

from benchmarks.report import median_seconds

#: Seconds that a program may take. One that is expected to take longer is not started.
LIMIT = 600.0

#: The shares of a size that are tried first, and the least size that it is done for.
_SHARES, LEAST_ROWS = (16, 8), 4000

#: A bisection ends where the vectors are as many as wanted within this share, or after so many
#: fits.
_NEAR, _MOST_FITS = 0.03, 10


class Fitted(NamedTuple):
    """A model, and what it took."""

    model: Any
    seconds: float
    n_vectors: int


def exponent(points: list[tuple[int, float]]) -> float:
    """Of seconds as a power of the rows, from the first point to the last."""
    (n, seconds), (more, longer) = points[0], points[-1]
    return log(longer / seconds) / log(more / n)


def expected(points: list[tuple[int, float]], n: int) -> float:
    """Seconds of n rows, as the last two runs have it; in proportion to the rows at least."""
    if not points:
        return 0.0
    power = max(1.0, exponent(points[-2:])) if len(points) > 1 else 1.0
    return points[-1][1] * (n / points[-1][0]) ** power


def too_long(fit: Callable[[int], object], size: int, least: int = LEAST_ROWS) -> str:
    """Why ``fit(size)`` is not started, by the seconds of two smaller sizes; empty where it is."""
    if size < least:
        return ""
    for share in _SHARES:
        fit(size // share)  # it compiles, or loads what was compiled: another part for each size
    points = [(size // share, median_seconds(partial(fit, size // share))) for share in _SHARES]
    seconds = expected(points, size)
    return f"not started: some {seconds:,.0f} s expected" if seconds > LIMIT else ""


def bisected(fit: Callable[[float], Fitted], low: float, high: float, n_vectors: int) -> Fitted:
    """The fit with about so many vectors; the larger the argument, the more there are."""
    best: Fitted | None = None
    for _ in range(_MOST_FITS):
        at = sqrt(low * high)
        found = fit(at)
        if best is None or _off(found, n_vectors) < _off(best, n_vectors):
            best = found
        if _off(best, n_vectors) <= _NEAR:
            break
        low, high = (at, high) if found.n_vectors < n_vectors else (low, at)
    assert best is not None
    return best


def largest(fit: Callable[[int], Fitted], seconds: float, most: int) -> tuple[int, Fitted]:
    """The largest size within some seconds, by doubling from 64; that where none is."""
    size = min(64, most)
    found = fit(size)
    while size < most and found.seconds <= seconds:
        larger = fit(min(2 * size, most))
        if larger.seconds > seconds:
            break
        size, found = min(2 * size, most), larger
    return size, found


def _off(found: Fitted, n_vectors: int) -> float:
    return abs(log(max(found.n_vectors, 1) / n_vectors))
