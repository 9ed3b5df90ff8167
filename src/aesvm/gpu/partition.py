"""Subsets of similar rows, cut on the device: what ``sets.partition`` does, all segments at a time.

A step of all segments is one pass over the rows left, which gives the distance of each from the
anchor of its segment, and one sort of whole numbers

    (segment, distance, place in the segment),

the bits of one after those of the other: non-negative floats rank as their bits do, and ties go
to the lower row. How many rows each segment has left is known beforehand, so the host waits for
nothing between steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.rows import panel_rows

Rows = NDArray[np.intp]

#: Bits of a distance in single precision.
_DISTANCE_BITS = 32

#: Of the device's memory, what rows that are gathered may take.
_GATHERED_FRACTION = 0.1


class DeviceDistances:
    """Squared distances of rows on the device, in single precision around a centre.

    Parameters
    ----------
    device : Device
    vectors : array of shape (n_rows, n_features)
        Of the device; or of the host, from where they go over some at a time.
    center : ndarray of shape (n_features,)
    targets : ndarray of shape (n_rows,), default=None
        Coordinates beside those of the vectors, in the unit of a squared distance that the squared
        distance of vectors, times ``distance_scale``, is added to.
    distance_scale : float, default=1.0
    """

    def __init__(
        self,
        device: Device,
        vectors: Any,
        center: NDArray,
        targets: NDArray[np.float64] | None = None,
        distance_scale: float = 1.0,
    ) -> None:
        xp = device.xp
        self.device = device
        n_rows, width = vectors.shape
        there = device.array(center, dtype=vectors.dtype)

        def around(here: slice, own: Any) -> Any:
            own = own - there
            if targets is None:
                return own
            beside = device.array(targets[here], dtype=np.float64)[:, None]
            beside = beside / np.sqrt(distance_scale or 1.0)
            return xp.concatenate([own * float(distance_scale > 0.0), beside], axis=1)

        self.squared_norms = xp.empty(n_rows)
        self.vectors = xp.empty((n_rows, width + (targets is not None)), dtype=np.float32)
        step = panel_rows(8 * (width + 1))
        parts = [slice(at, min(at + step, n_rows)) for at in range(0, n_rows, step)]
        peaks = xp.zeros(len(parts) + 1)
        with np.errstate(over="ignore"):  # looked at below
            for number, here in enumerate(parts):
                own = device.array(vectors[here])
                self.squared_norms[here] = xp.square(own, dtype=np.float64).sum(axis=1)
                own = around(here, own)
                peaks[number] = xp.abs(own).max() if own.size else 0.0
                self.vectors[here] = own
        peak = float(peaks.max())
        if np.isfinite(peak) and (peak > 1e15 or 0.0 < peak < 1e-15):
            for here in parts:  # squares would overflow or vanish
                own = around(here, device.array(vectors[here]))
                self.vectors[here] = own * 2.0 ** -np.ceil(np.log2(peak))
        row_bytes = 16 * self.vectors.shape[1] + 64
        self.step = max(1, int(_GATHERED_FRACTION * device.free_bytes()) // row_bytes)

    def from_anchors(self, rows: Any, anchors: Any, segment: Any) -> Any:
        """Squared distance of each row from the anchor of its segment."""
        xp = self.device.xp
        found = xp.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), self.step):
            part = slice(start, start + self.step)
            apart = self.vectors[rows[part]]
            apart -= self.vectors[anchors[segment[part]]]
            apart *= apart
            found[part] = apart.sum(axis=1)
        return xp.nan_to_num(found, copy=False, nan=np.inf, posinf=np.finfo(np.float32).max)


class Segments(NamedTuple):
    """Segments side by side: rows of the device, those of each segment ascending."""

    rows: Any
    lengths: NDArray[np.intp]  #: of each segment, on the host

    @property
    def starts(self) -> NDArray[np.intp]:
        return np.cumsum(self.lengths) - self.lengths


def subsets_on_device(
    distances: DeviceDistances,
    groups: list[Rows],
    partition_size: int,
    subset_size: int,
    by_distance: bool,
) -> list[Rows]:
    """Cut every group into subsets of at most ``subset_size`` similar rows.

    ``by_distance``: partitions by FLS2; else groups are partitions already.
    """
    device = distances.device
    lengths = np.array([len(rows) for rows in groups], dtype=np.intp)
    segments = Segments(device.array(np.concatenate(groups), dtype=np.int64), lengths)
    if by_distance:
        segments = distance_partitions(distances, segments, partition_size)
    subsets = fine_subsets(distances, segments, subset_size)
    rows = device.to_host(subsets.rows).astype(np.intp, copy=False)
    return [own for own in np.split(rows, subsets.starts[1:]) if len(own)]


def distance_partitions(distances: DeviceDistances, segments: Segments, size: int) -> Segments:
    """FLS2: a level of halving at a time, of all segments that are too large."""
    done = segments.lengths <= size
    while not done.all():
        wide = np.flatnonzero(~done)
        rows = distances.device.xp.empty_like(segments.rows)
        _copy_segments(distances.device, segments, np.flatnonzero(done), rows)
        for some in _together(segments.lengths, wide):
            _halve(distances, segments, some, rows)
        half = segments.lengths // 2
        parts = [
            [(length, True)]
            if over
            else [(near, length <= 2 * size), (length - near, length <= 2 * size)]
            for length, near, over in zip(segments.lengths, half, done, strict=True)
        ]
        flat = [part for own in parts for part in own]
        segments = Segments(rows, np.array([length for length, _ in flat], dtype=np.intp))
        done = np.array([over for _, over in flat])
    return segments


def _halve(
    distances: DeviceDistances, segments: Segments, some: NDArray[np.intp], out: Any
) -> None:
    """Write rows of these segments in the place where they were: the near half, then the others."""
    device, xp = distances.device, distances.device.xp
    starts, lengths = segments.starts[some], segments.lengths[some]
    own, segment, place = _members(device, lengths)
    index = device.array(starts)[segment] + place
    bits = _place_bits(lengths)
    anchors = segments.rows[device.array(starts)]
    found = distances.from_anchors(segments.rows[index], anchors, segment)
    keys = _sorted_keys(xp, segment, found, place, bits)
    place = (keys & (2**bits - 1)).astype(np.int64)
    within = own - device.array(np.cumsum(lengths) - lengths)[segment]
    far = within >= device.array(lengths // 2)[segment]
    # rows of a half in their own order again
    halves = xp.sort(((2 * segment + far) << bits) | place)
    out[index] = segments.rows[device.array(starts)[segment] + (halves & (2**bits - 1))]


def fine_subsets(distances: DeviceDistances, segments: Segments, size: int) -> Segments:
    """SLS: subsets of ``size`` similar rows of each segment, and a last one of at most ``size``."""
    device, xp = distances.device, distances.device.xp
    n_subsets = np.maximum(-(-segments.lengths // size), 1)
    first = np.cumsum(n_subsets) - n_subsets
    whole = np.flatnonzero(segments.lengths <= size)
    taken = _Taken(device)
    for number in whole:
        start = segments.starts[number]
        taken.add(segments.rows[start : start + segments.lengths[number]][None], first[[number]])
    for some in _together(segments.lengths, np.flatnonzero(segments.lengths > size)):
        _take_off(distances, segments, some, first, size, taken)
    counts = np.full(int(n_subsets.sum()), size, dtype=np.intp)
    counts[first + n_subsets - 1] = segments.lengths - (n_subsets - 1) * size
    rows, numbers = taken.joined()
    keys = xp.sort((numbers << _DISTANCE_BITS) | rows)
    return Segments(keys & (2**_DISTANCE_BITS - 1), counts)


def _take_off(
    distances: DeviceDistances,
    segments: Segments,
    some: NDArray[np.intp],
    first: NDArray[np.intp],
    size: int,
    taken: _Taken,
) -> None:
    """From each of these segments, the rows nearest to an anchor, until all are taken."""
    device, xp = distances.device, distances.device.xp
    bits = _place_bits(segments.lengths[some])
    starts, left, numbers = segments.starts[some], segments.lengths[some], first[some].copy()
    _, segment, place = _members(device, left)
    ends = zip(starts, starts + left, strict=True)
    norms = distances.squared_norms
    anchors = xp.stack([a + xp.argmax(norms[segments.rows[a:b]]) for a, b in ends])
    while len(left):
        begins = device.array(starts)
        rows = segments.rows[begins[segment] + place]
        found = distances.from_anchors(rows, segments.rows[anchors], segment)
        keys = _sorted_keys(xp, segment, found, place, bits)
        place = (keys & (2**bits - 1)).astype(np.int64)
        index = begins[segment] + place
        at = np.cumsum(left) - left
        nearest = index[device.array(at)[:, None] + xp.arange(size)]
        taken.add(segments.rows[nearest], numbers)
        rest = left - size
        numbers += 1
        for own in np.flatnonzero(rest <= size):
            last = index[at[own] + size : at[own] + left[own]]
            taken.add(segments.rows[last][None], numbers[[own]])
        stay = np.flatnonzero(rest > size)
        if not len(stay):
            return
        anchors = index[device.array(at[stay] + size)]
        _, segment, within = _members(device, rest[stay])
        place = place[device.array(at[stay] + size)[segment] + within]
        starts, left, numbers = starts[stay], rest[stay], numbers[stay]


class _Taken:
    """Rows of subsets, each with the number of its subset."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.rows: list = []
        self.numbers: list[NDArray[np.int64]] = []

    def add(self, rows: Any, numbers: NDArray) -> None:
        """Subsets of one size: an array of two dimensions."""
        self.rows.append(rows.ravel())
        self.numbers.append(np.repeat(numbers.astype(np.int64), rows.shape[1]))

    def joined(self) -> tuple[Any, Any]:
        rows = self.device.xp.concatenate(self.rows)
        return rows, self.device.array(np.concatenate(self.numbers))


def _members(device: Device, lengths: NDArray[np.intp]) -> tuple[Any, Any, Any]:
    """Of segments side by side: every position, its segment, and its place in that."""
    xp = device.xp
    ends = np.cumsum(lengths)
    every = xp.arange(int(ends[-1]))
    segment = xp.searchsorted(device.array(ends), every, side="right")
    return every, segment, every - device.array(ends - lengths)[segment]


def _sorted_keys(xp: Any, segment: Any, distances: Any, place: Any, bits: int) -> Any:
    keys = segment.astype(np.uint64) << np.uint64(_DISTANCE_BITS + bits)
    keys |= distances.view(np.uint32).astype(np.uint64) << np.uint64(bits)
    keys |= place.astype(np.uint64)
    return xp.sort(keys).view(np.int64)


def _place_bits(lengths: NDArray[np.intp]) -> int:
    return int(lengths.max() - 1).bit_length()


def _together(lengths: NDArray[np.intp], some: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Segments in batches whose keys fit into 63 bits."""
    if not len(some):
        return []
    most = 2 ** (63 - _DISTANCE_BITS - _place_bits(lengths[some]))
    return [some[start : start + most] for start in range(0, len(some), most)]


def _copy_segments(device: Device, segments: Segments, some: NDArray[np.intp], out: Any) -> None:
    for number in some:
        own = slice(segments.starts[number], segments.starts[number] + segments.lengths[number])
        out[own] = segments.rows[own]
