"""How much memory the machine has."""

from __future__ import annotations

import os

#: Bytes taken where the machine does not say.
_UNKNOWN = 8.0 * 2**30


def machine_memory() -> float:
    """Bytes of memory that the machine has; 8 GiB where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN
