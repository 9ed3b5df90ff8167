"""Digests: numbers that change if rows, targets or weights change, or their order.

Every row is hashed with its place among all rows, and the hashes are added up. Targets and weights
have sums of their hashes, too. So a digest does not depend on the chunks in which rows come.
Another order, value or label changes it, except with a probability of about 2**-64.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.sets.distinct import bits_of, hash_keys, row_hashes

#: Of the features, the targets and the weights of some rows: plain numbers, for files of models.
Digest = tuple[int, int, int]

#: Of no rows.
NOTHING: Digest = (0, 0, 0)

#: What the numbers are of, as estimators name it.
_OF = ("X", "y", "sample_weight")

#: They are added modulo this.
_MODULUS = 2**64


def digest(
    X: Any,
    targets: NDArray,
    weights: NDArray[np.float64],
    first: int = 0,
    run: Callable = map,
    hashes: NDArray[np.uint64] | None = None,
) -> Digest:
    """The digest of some rows, the first of which is at place ``first`` among all.

    ``hashes``: of the rows, where they are known.
    """
    place, target, weight = hash_keys(3)
    with np.errstate(over="ignore"):
        places = np.arange(first, first + len(weights), dtype=np.uint64) * place

        def total(hashes: NDArray[np.uint64]) -> int:
            each = hashes + places
            each = (each ^ (each >> np.uint64(31))) * place
            return int((each ^ (each >> np.uint64(29))).sum())

        return (
            total(row_hashes(X, run) if hashes is None else hashes),
            total(_target_hashes(targets) * target),
            total(bits_of(weights) * weight),
        )


def added(one: Digest, other: Digest) -> Digest:
    """The digest of the rows of both."""
    (a, b, c), (d, e, f) = one, other
    return (a + d) % _MODULUS, (b + e) % _MODULUS, (c + f) % _MODULUS


def differing(one: Digest, other: Digest) -> list[str]:
    """What differs between two digests of as many rows: "X", "y", "sample_weight".

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.sets.digest import differing, digest
    >>> X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    >>> differing(digest(X, y, np.ones(2)), digest(X, 1 - y, np.ones(2)))
    ['y']
    """
    return [name for name, a, b in zip(_OF, one, other, strict=True) if a != b]


def _target_hashes(targets: NDArray) -> NDArray[np.uint64]:
    """Equal for equal targets: numbers by their value, others by how they are written."""
    if targets.dtype.kind in "bf" or (targets.dtype.kind in "iu" and _as_float(targets)):
        return bits_of(targets)
    values, codes = np.unique(targets, return_inverse=True)
    return np.array([_target_hash(value) for value in values.tolist()], dtype=np.uint64)[codes]


def _as_float(numbers: NDArray) -> bool:
    """Whether whole numbers are floats as well."""
    most = 2**53
    return not len(numbers) or bool(numbers.max() <= most and numbers.min() >= -most)


def _target_hash(value: Any) -> int:
    if isinstance(value, int) and abs(value) <= 2**53:  # as a float of the same value has
        return int(bits_of(np.array([value], dtype=np.float64))[0])
    written = blake2b(repr(value).encode(), digest_size=8).digest()
    return int.from_bytes(written, "little")
