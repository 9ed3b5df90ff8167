"""Classes as text, and as what they stand for: 1, "1" and "1.0" are the same number."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WHOLE = re.compile("[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


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
    text = str(label)
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def equal_labels(some: NDArray, others: NDArray) -> NDArray[np.bool_]:
    """Where labels are equal; of text and numbers, where they stand for the same.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.command.labels import equal_labels
    >>> equal_labels(np.array(["1", "2", "x"]), np.array([1.0, 1.0, 2.0]))
    array([ True, False, False])
    """
    if _kind(some) == _kind(others):
        return np.asarray(some == others)
    numbers: dict[Any, int] = {}

    def numbered(labels: NDArray) -> NDArray[np.intp]:
        different, which = np.unique(labels, return_inverse=True)
        known = [numbers.setdefault(meaning(one), len(numbers)) for one in different.tolist()]
        return np.array(known, dtype=np.intp)[which]

    return numbered(some) == numbered(others)


def _kind(labels: NDArray) -> str:
    kind = "number" if is_numeric(labels) else labels.dtype.kind
    return "text" if kind in "OUT" else kind


def is_numeric(labels: NDArray) -> bool:
    """Whether labels are numbers, and not text."""
    return labels.dtype.kind in "biuf"
