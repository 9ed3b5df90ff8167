"""Which classes can be told from each other in arrays of strings and of doubles."""

from __future__ import annotations

import numpy as np

#: Characters of a class. Arrays of strings give every row as many as the longest has.
LONGEST = 1000
#: Doubles tell all integers apart below this, and not above.
TOO_LARGE = 2.0**53
#: Its bits, moved up by one, so that there is no sign.
TOO_LARGE_BITS = np.float64(TOO_LARGE).view(np.uint64) << np.uint64(1)


def fault_of(label: str) -> str | None:
    """Why a string cannot be a class; None where it can."""
    if len(label) > LONGEST:
        return f"a class has {len(label)} characters, and may have {LONGEST}: {label[:20]!r}..."
    if "\0" in label:  # of which arrays drop those at the end
        return f"the class {label[:40]!r} has a NUL character"
    return None


def too_large(label: str) -> str:
    """What is wrong with a number for a class that doubles may not tell from another."""
    return (
        f"the class {label[:40]!r} is not below 2^53: double precision cannot represent it exactly"
    )
