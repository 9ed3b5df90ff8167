"""Classes as text, and as what they stand for: 1, "1" and "1.0" are the same number."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_number(text: str) -> float | None:
    """The number that a text is; None where it is none.

    Examples
    --------
    >>> from aesvm.command.labels import as_number
    >>> as_number("1e3"), as_number("cat"), as_number("1_000")
    (1000.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def label_text(label: Any) -> str:
    """A class or value as LIBSVM writes it; whole numbers with all their digits.

    Examples
    --------
    >>> from aesvm.command.labels import label_text
    >>> label_text(1.0), label_text(0.1), label_text("cat"), label_text(2**62 + 1)
    ('1', '0.10000000000000001', 'cat', '4611686018427387905')
    """
    if isinstance(label, int):
        return str(int(label))
    return f"{label:.17g}" if isinstance(label, float) else str(label)


@lru_cache(maxsize=1000)
def meaning(label: Any) -> Any:
    """What a class stands for: a number where its text is one, else text.

    Examples
    --------
    >>> from aesvm.command.labels import meaning
    >>> meaning("1") == meaning(1.0), meaning("1.0") == meaning(1), meaning("cat")
    (True, True, 'cat')
    """
    if isinstance(label, int | float):
        return label
    number = as_number(str(label))
    if number is None or not isfinite(number):
        return str(label)
    return int(label) if label.removeprefix("-").removeprefix("+").isdecimal() else number


def equal_labels(some: NDArray, others: NDArray) -> NDArray[np.bool_]:
    """Where labels are equal; of text and numbers, where they stand for the same.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.command.labels import equal_labels
    >>> equal_labels(np.array(["1", "2", "x"]), np.array([1.0, 1.0, 2.0]))
    array([ True, False, False])
    """
    if is_numeric(some) == is_numeric(others):
        return np.asarray(some == others)
    pairs = zip(some.tolist(), others.tolist(), strict=True)
    return np.array([meaning(one) == meaning(other) for one, other in pairs], dtype=bool)


def is_numeric(labels: NDArray) -> bool:
    """Whether labels are numbers, and not text."""
    return labels.dtype.kind in "biuf"
