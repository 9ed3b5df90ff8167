r"""One file of a JSON header and arrays that can be mapped into memory.

    aesvm-model <version> <bytes of the header> <sha256 of the header>\n
    header: JSON, filled up with spaces
    arrays: each at a multiple of 64 bytes, filled up with zeros

The header says of each array what it is and where, and has a checksum of it, with what it is filled
up with: every byte of a file is covered by some check. Whatever a header says is held against the
size of the file before anything is allocated, and no array has objects: nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from math import prod
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from aesvm.io.atomic import written_whole

#: Of the format, as it is written; and those that can be read.
VERSION = 1
_READABLE = (1,)

#: What a file begins with.
MAGIC = b"aesvm-model "

_FIRST_LINE = re.compile(rb"aesvm-model ([0-9]{4}) ([0-9a-f]{16}) ([0-9a-f]{64})\n")
_FIRST_BYTES = len(MAGIC) + 4 + 1 + 16 + 1 + 64 + 1

#: Where arrays begin: at multiples of this, which is a line of a processor's cache.
_ALIGNMENT = 64

#: Kinds of values that arrays may have: numbers, strings of a fixed length, dates.
KINDS = "biufcUSmM"

#: Bytes that are read at a time to be checked, where they are not kept.
_CHECKED_TOGETHER = 2**20

_LARGEST_CODE_POINT = 0x10FFFF


class BadFileError(ValueError):
    """A model file that cannot be read: it is foreign, truncated, corrupt or of a newer version."""


def write_container(path: str | os.PathLike, tree: Any, arrays: list[NDArray]) -> None:
    """Write a file whole, or not at all.

    Parameters
    ----------
    path : str or path
        A file that is there is replaced.
    tree : object
        What JSON can hold.
    arrays : list of ndarray

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from aesvm.io.container import read_container, write_container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "file")
    ...     write_container(path, {"name": "ones"}, [np.ones(3)])
    ...     read_container(path)
    ({'name': 'ones'}, [array([1., 1., 1.])])
    """
    table: list[dict[str, Any]] = []
    blocks: list[Any] = []
    offset = 0
    for array in arrays:
        block = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        filling = bytes(-len(block) % _ALIGNMENT)
        table.append(
            {
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "offset": offset,
                "sha256": _checksum(block, filling),
            }
        )
        blocks += [block, filling]
        offset += len(block) + len(filling)
    text = json.dumps({"tree": tree, "arrays": table, "n_bytes": offset}, allow_nan=False)
    header = text.encode()
    header += b" " * (-(_FIRST_BYTES + len(header)) % _ALIGNMENT)
    first = f"{VERSION:04d} {len(header):016x} {_checksum(header)}\n".encode()
    with written_whole(path) as file:
        for part in (MAGIC, first, header, *blocks):
            file.write(part)


def read_container(path: str | os.PathLike, mapped: bool = False) -> tuple[Any, list[NDArray]]:
    """What JSON holds, and the arrays.

    Parameters
    ----------
    path : str or path
    mapped : bool, default=False
        Whether arrays stay in the file, to be read when they are used, and cannot be written to.

    Returns
    -------
    tree : object
    arrays : list of ndarray

    Raises
    ------
    BadFileError
        Where the file is foreign, truncated, corrupt, or of a newer version.
    """
    with open(path, "rb") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if not n_bytes:
            raise BadFileError(f"{os.fspath(path)}: the file is empty, and no model.")
        size, checksum = _first_line(path, file.read(_FIRST_BYTES), n_bytes)
        content = _content(path, file.read(size), checksum)
        begin = _FIRST_BYTES + size
        places = _places(path, content, n_bytes - begin)
        arrays = []
        for number, place in enumerate(places):
            found = hashlib.sha256()
            block = _block(path, file, place.n_bytes, found, keep=not mapped)
            if found.hexdigest() != place.sha256:
                _corrupt(path, f"the checksum of array {number} is another")
            if mapped and place.size:
                at = begin + place.offset
                block = np.asarray(np.memmap(file, np.uint8, "r", at, (place.size,)))
                file.seek(at + place.n_bytes)
            arrays.append(_as_array(path, block[: place.size], place.dtype, place.shape))
    return content["tree"], arrays


def is_container(path: str | os.PathLike) -> bool:
    """Whether a file begins as those that are written here."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class _Place(NamedTuple):
    """What an array is, and where."""

    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    sha256: str

    @property
    def size(self) -> int:
        return self.dtype.itemsize * prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """With what it is filled up with."""
        return self.size + -self.size % _ALIGNMENT


def _block(path: Any, file: IO[bytes], n_bytes: int, found: Any, keep: bool) -> NDArray[np.uint8]:
    """The next bytes of a file, added to a checksum; all of them, or none are kept.

    They are read, and not mapped: a file that is cut short meanwhile is an error, not a crash.
    """
    block = np.empty(n_bytes if keep else min(n_bytes, _CHECKED_TOGETHER), np.uint8)
    left = n_bytes
    while left:
        part = block[: min(left, len(block))]
        if file.readinto(part.data) != len(part):  # type: ignore[attr-defined]
            raise BadFileError(f"{os.fspath(path)}: the file was truncated while it was read.")
        found.update(part.data)
        left -= len(part)
    return block


def _first_line(path: Any, first: bytes, n_bytes: int) -> tuple[int, str]:
    """The size of the header, and its checksum."""
    if not first.startswith(MAGIC[: len(first)]):
        raise BadFileError(f"{os.fspath(path)}: this is a foreign file, and no model of aesvm.")
    if len(first) < _FIRST_BYTES:
        _truncated(path, n_bytes)
    match = _FIRST_LINE.fullmatch(first)
    if match is None:
        _corrupt(path, "its first line cannot be read")
    version, size, checksum = int(match[1]), int(match[2], 16), match[3].decode()
    if version > VERSION:
        raise BadFileError(
            f"{os.fspath(path)}: the file is of version {version} of the format, which is newer "
            f"than {VERSION}, the last that this aesvm can read: use a newer aesvm."
        )
    if version not in _READABLE:
        raise BadFileError(
            f"{os.fspath(path)}: version {version} of the format cannot be read by this aesvm, "
            f"which reads {', '.join(map(str, _READABLE))}."
        )
    if _FIRST_BYTES + size > n_bytes:
        _truncated(path, n_bytes)
    return size, checksum


def _content(path: Any, header: bytes, checksum: str) -> dict[str, Any]:
    if _checksum(header) != checksum:
        _corrupt(path, "the checksum of its header is another")
    try:
        content = json.loads(header, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        _corrupt(path, f"its header cannot be read ({error})")
    if not isinstance(content, dict) or set(content) != {"tree", "arrays", "n_bytes"}:
        _corrupt(path, "its header lacks something")
    return content


def _places(path: Any, content: dict[str, Any], left: int) -> list[_Place]:
    """All arrays of a header, one after the other; ``left``: bytes that follow after it."""
    n_bytes, table = content["n_bytes"], content["arrays"]
    if not _is_count(n_bytes) or not isinstance(table, list):
        _corrupt(path, "its header does not say what follows")
    if left < n_bytes:
        _truncated(path, left, n_bytes)
    if left > n_bytes:
        _corrupt(path, f"{left - n_bytes:,} bytes follow after its end")
    places: list[_Place] = []
    end = 0
    for number, entry in enumerate(table):
        sound = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "offset", "sha256"}
        dtype = _dtype(entry["dtype"]) if sound else None
        shape = entry["shape"] if sound else None
        if dtype is None or not isinstance(shape, list) or not all(map(_is_count, shape)):
            _corrupt(path, f"its header does not say what array {number} is")
        place = _Place(dtype, tuple(shape), end, entry["sha256"])
        if len(shape) > 32 or entry["offset"] != end or end + place.n_bytes > n_bytes:
            _corrupt(path, f"its header has array {number} where it cannot be")
        places.append(place)
        end += place.n_bytes
    if end != n_bytes:
        _corrupt(path, f"{n_bytes - end:,} of its bytes belong to no array")
    return places


def _dtype(text: Any) -> np.dtype | None:
    """The type that a header names; None where it names none that an array may have."""
    if not isinstance(text, str) or not re.fullmatch(r"[<>|][a-zA-Z]\d*(\[\d*\w+\])?", text):
        return None
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        return None
    return dtype if dtype.kind in KINDS and dtype.itemsize and dtype.str == text else None


def _as_array(path: Any, block: NDArray, dtype: np.dtype, shape: tuple[int, ...]) -> NDArray:
    try:
        array = block.view(dtype).reshape(shape)
    except ValueError as error:
        _corrupt(path, f"an array cannot have the shape {shape} ({error})")
    if dtype.kind == "U" and array.size:
        codes = np.dtype(np.uint32).newbyteorder(dtype.byteorder)
        if block.view(codes).max() > _LARGEST_CODE_POINT:
            _corrupt(path, "a string has what is no letter")
    if dtype.kind == "b" and array.size and block.max() > 1:
        _corrupt(path, "something is neither true nor false")
    return array


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _checksum(*parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def _truncated(path: Any, n_bytes: int, wanted: int | None = None) -> NoReturn:
    of = "" if wanted is None else f" of {wanted:,}"
    raise BadFileError(
        f"{os.fspath(path)}: the file is truncated, {n_bytes:,} bytes{of} are left: write it anew."
    )


def _corrupt(path: Any, why: str) -> NoReturn:
    raise BadFileError(f"{os.fspath(path)}: the file is corrupt, {why}: write it anew.")
