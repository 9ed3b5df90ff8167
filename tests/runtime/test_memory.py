"""How much memory the machine has."""

from __future__ import annotations

import os

from aesvm.runtime.threads import machine_memory


def test_memory_is_known(monkeypatch):
    assert machine_memory() > 2**28
    monkeypatch.delattr(os, "sysconf", raising=False)  # as on Windows
    assert machine_memory() == 8 * 2**30
