"""Programs that may take so long, and sizes that are looked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log, sqrt
from typing import Any, NamedTuple

from benchmarks.report import median_seconds
from benchmarks.stream_growth import expected

#: Seconds that a program may take beside ours. One that is expected to take longer is not started.
LIMIT = 600.0

#: The shares of a size that are tried first, and the least rows that it is done for.
_SHARES, LEAST_ROWS = (16, 8), 4000

#: A bisection ends where the vectors are as many as wanted within this share, or after so many
#: fits.
_NEAR, _MOST_FITS = 0.03, 10


class Fitted(NamedTuple):
    """A model, and what it took."""

    model: Any
    seconds: float
    n_vectors: int


def expected_seconds(fit: Callable[[int], object], size: int, least: int = LEAST_ROWS) -> float:
    """Seconds of ``fit(size)``, as two smaller sizes have it; 0 of a size below ``least``."""
    if size < least:
        return 0.0
    for share in _SHARES:
        fit(size // share)  # it compiles, or loads what was compiled: another part for each size
    points = [(size // share, median_seconds(partial(fit, size // share), 1)) for share in _SHARES]
    return expected(points, size)


def too_long(fit: Callable[[int], object], size: int, least: int = LEAST_ROWS) -> str:
    """Why ``fit(size)`` is not started; empty where it is."""
    seconds = expected_seconds(fit, size, least)
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


def _off(found: Fitted, n_vectors: int) -> float:
    return abs(log(max(found.n_vectors, 1) / n_vectors))
