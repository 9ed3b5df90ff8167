"""``aesvm warm-up``: compile what fits need, ahead of use."""

from __future__ import annotations

from typing import Any

from aesvm.command.data import DataOptions
from aesvm.command.screen import Screen
from aesvm.compiling import warm_up as compile_all


def warm_up(options: Any, columns: DataOptions, screen: Screen) -> None:
    """Compile, and say for how many kinds of fits that was needed."""
    n_compiled = compile_all()
    screen.answer(f"compiled code for {n_compiled} kinds of fits; it is in Numba's cache")
    screen.result({"compiled": n_compiled})
