"""Subsets of similar rows, cut on the device: what ``sets.partition`` does, all pieces at a time.

A step of all pieces is one pass over the rows left, which gives the distance of each from the
anchor of its piece, and one sort of whole numbers

    (piece, distance, place in the piece),

the bits of one after those of the other: non-negative floats rank as their bits do, and ties go
to the lower row. How many rows each piece has left is known beforehand, so the host waits for
nothing between steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu.devices import Device
from aesvm.gpu.room import tile_rows

Rows = NDArray[np.intp]

#: Bits of a distance in single precision.
_DISTANCE_BITS = 32

#: Of the device's memory, what rows that are gathered may take.
_GATHERED_SHARE = 0.1


class DevicePoints:
    """Rows as points of the device, in single precision around a centre.

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
        step = tile_rows(8 * (width + 1))
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
        self.step = max(1, int(_GATHERED_SHARE * device.free_bytes()) // row_bytes)

    def distances(self, rows: Any, anchors: Any, piece: Any) -> Any:
        """Squared distance of each row from the anchor of its piece."""
        xp = self.device.xp
        found = xp.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), self.step):
            part = slice(start, start + self.step)
            apart = self.vectors[rows[part]]
            apart -= self.vectors[anchors[piece[part]]]
            apart *= apart
            found[part] = apart.sum(axis=1)
        return xp.nan_to_num(found, copy=False, nan=np.inf, posinf=np.finfo(np.float32).max)


class Pieces(NamedTuple):
    """Pieces side by side: rows of the device, those of each piece ascending."""

    rows: Any
    lengths: NDArray[np.intp]  #: of each piece, on the host

    @property
    def starts(self) -> NDArray[np.intp]:
        return np.cumsum(self.lengths) - self.lengths


def subsets_on_device(
    points: DevicePoints,
    groups: list[Rows],
    partition_size: int,
    subset_size: int,
    by_distance: bool,
) -> list[Rows]:
    """Cut every group into subsets of at most ``subset_size`` similar rows.

    ``by_distance``: coarse pieces by FLS2; else groups are pieces already.
    """
    device = points.device
    lengths = np.array([len(rows) for rows in groups], dtype=np.intp)
    pieces = Pieces(device.array(np.concatenate(groups), dtype=np.int64), lengths)
    if by_distance:
        pieces = distance_pieces(points, pieces, partition_size)
    subsets = fine_subsets(points, pieces, subset_size)
    rows = device.to_host(subsets.rows).astype(np.intp, copy=False)
    return [own for own in np.split(rows, subsets.starts[1:]) if len(own)]


def distance_pieces(points: DevicePoints, pieces: Pieces, size: int) -> Pieces:
    """FLS2: a level of halving at a time, of all pieces that are too large."""
    done = pieces.lengths <= size
    while not done.all():
        wide = np.flatnonzero(~done)
        rows = points.device.xp.empty_like(pieces.rows)
        _copy_pieces(points.device, pieces, np.flatnonzero(done), rows)
        for some in _together(pieces.lengths, wide):
            _halve(points, pieces, some, rows)
        half = pieces.lengths // 2
        parts = [
            [(length, True)]
            if over
            else [(near, length <= 2 * size), (length - near, length <= 2 * size)]
            for length, near, over in zip(pieces.lengths, half, done, strict=True)
        ]
        flat = [part for own in parts for part in own]
        pieces = Pieces(rows, np.array([length for length, _ in flat], dtype=np.intp))
        done = np.array([over for _, over in flat])
    return pieces


def _halve(points: DevicePoints, pieces: Pieces, some: NDArray[np.intp], out: Any) -> None:
    """Write rows of these pieces in the place where they were: the near half, then the others."""
    device, xp = points.device, points.device.xp
    starts, lengths = pieces.starts[some], pieces.lengths[some]
    own, piece, place = _members(device, lengths)
    index = device.array(starts)[piece] + place
    bits = _place_bits(lengths)
    anchors = pieces.rows[device.array(starts)]
    distances = points.distances(pieces.rows[index], anchors, piece)
    keys = _sorted_keys(xp, piece, distances, place, bits)
    place = (keys & (2**bits - 1)).astype(np.int64)
    within = own - device.array(np.cumsum(lengths) - lengths)[piece]
    far = within >= device.array(lengths // 2)[piece]
    # rows of a half in their own order again
    halves = xp.sort(((2 * piece + far) << bits) | place)
    out[index] = pieces.rows[device.array(starts)[piece] + (halves & (2**bits - 1))]


def fine_subsets(points: DevicePoints, pieces: Pieces, size: int) -> Pieces:
    """SLS: subsets of ``size`` similar rows of each piece, and a last one of at most ``size``."""
    device, xp = points.device, points.device.xp
    n_subsets = np.maximum(-(-pieces.lengths // size), 1)
    first = np.cumsum(n_subsets) - n_subsets
    whole = np.flatnonzero(pieces.lengths <= size)
    taken = _Taken(device)
    for number in whole:
        start = pieces.starts[number]
        taken.add(pieces.rows[start : start + pieces.lengths[number]][None], first[[number]])
    for some in _together(pieces.lengths, np.flatnonzero(pieces.lengths > size)):
        _take_off(points, pieces, some, first, size, taken)
    counts = np.full(int(n_subsets.sum()), size, dtype=np.intp)
    counts[first + n_subsets - 1] = pieces.lengths - (n_subsets - 1) * size
    rows, numbers = taken.joined()
    keys = xp.sort((numbers << _DISTANCE_BITS) | rows)
    return Pieces(keys & (2**_DISTANCE_BITS - 1), counts)


def _take_off(
    points: DevicePoints,
    pieces: Pieces,
    some: NDArray[np.intp],
    first: NDArray[np.intp],
    size: int,
    taken: _Taken,
) -> None:
    """From each of these pieces, the rows nearest to an anchor, until all are taken."""
    device, xp = points.device, points.device.xp
    bits = _place_bits(pieces.lengths[some])
    starts, left, numbers = pieces.starts[some], pieces.lengths[some], first[some].copy()
    _, piece, place = _members(device, left)
    ends = zip(starts, starts + left, strict=True)
    norms = points.squared_norms
    anchors = xp.stack([a + xp.argmax(norms[pieces.rows[a:b]]) for a, b in ends])
    while len(left):
        begins = device.array(starts)
        rows = pieces.rows[begins[piece] + place]
        distances = points.distances(rows, pieces.rows[anchors], piece)
        keys = _sorted_keys(xp, piece, distances, place, bits)
        place = (keys & (2**bits - 1)).astype(np.int64)
        index = begins[piece] + place
        at = np.cumsum(left) - left
        nearest = index[device.array(at)[:, None] + xp.arange(size)]
        taken.add(pieces.rows[nearest], numbers)
        rest = left - size
        numbers += 1
        for own in np.flatnonzero(rest <= size):
            last = index[at[own] + size : at[own] + left[own]]
            taken.add(pieces.rows[last][None], numbers[[own]])
        stay = np.flatnonzero(rest > size)
        if not len(stay):
            return
        anchors = index[device.array(at[stay] + size)]
        _, piece, within = _members(device, rest[stay])
        place = place[device.array(at[stay] + size)[piece] + within]
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
    """Of pieces side by side: every position, its piece, and its place in that."""
    xp = device.xp
    ends = np.cumsum(lengths)
    every = xp.arange(int(ends[-1]))
    piece = xp.searchsorted(device.array(ends), every, side="right")
    return every, piece, every - device.array(ends - lengths)[piece]


def _sorted_keys(xp: Any, piece: Any, distances: Any, place: Any, bits: int) -> Any:
    keys = piece.astype(np.uint64) << np.uint64(_DISTANCE_BITS + bits)
    keys |= distances.view(np.uint32).astype(np.uint64) << np.uint64(bits)
    keys |= place.astype(np.uint64)
    return xp.sort(keys).view(np.int64)


def _place_bits(lengths: NDArray[np.intp]) -> int:
    return int(lengths.max() - 1).bit_length()


def _together(lengths: NDArray[np.intp], some: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Pieces in batches whose keys fit into 63 bits."""
    if not len(some):
        return []
    most = 2 ** (63 - _DISTANCE_BITS - _place_bits(lengths[some]))
    return [some[start : start + most] for start in range(0, len(some), most)]


def _copy_pieces(device: Device, pieces: Pieces, some: NDArray[np.intp], out: Any) -> None:
    for number in some:
        own = slice(pieces.starts[number], pieces.starts[number] + pieces.lengths[number])
        out[own] = pieces.rows[own]
