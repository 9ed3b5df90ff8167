"""Plans of tests: what "auto" may spend, changed for a while."""

from __future__ import annotations

from aesvm.machines import plan


def set_limits(monkeypatch, **limits):
    """Have a processor other limits: ``exact``, ``first_round``, ``machine_in_span``."""
    monkeypatch.setitem(plan.LIMITS, "cpu", plan.LIMITS["cpu"]._replace(**limits))


def set_table(monkeypatch, **values):
    """Have "auto" decide by other numbers: see ``aesvm.machines.plan.TABLE``."""
    monkeypatch.setattr(plan, "TABLE", plan.TABLE._replace(**values))
