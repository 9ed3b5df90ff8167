"""The memory of the machine: how much there is, and how much is free."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: Limits of a container, and what it uses of them, by version of Linux's control groups.
_CONTAINER = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def machine_memory() -> float:
    """Bytes of memory that the machine has; 8 GiB where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8.0 * 2**30


def free_memory() -> float:
    """Bytes of memory that programs can still take; all there is where the machine does not say."""
    return min((machine_memory(), *_free()))


def in_bytes(n: float) -> str:
    """A number of bytes in words.

    Examples
    --------
    >>> from aesvm.runtime.memory import in_bytes
    >>> in_bytes(3.21e9), in_bytes(5.4e7)
    ('3.2 GB', '54 MB')
    """
    unit, name = (1e9, "GB") if n >= 1e9 else (1e6, "MB")
    return f"{float(f'{max(n / unit, 1.0):.2g}'):g} {name}"


def _free() -> Iterator[float]:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024.0 * float(line.split()[1])
    for limit, used in _CONTAINER:
        with suppress(OSError, ValueError):  # "max": there is no limit
            yield max(1.0, float(Path(limit).read_text()) - float(Path(used).read_text()))
