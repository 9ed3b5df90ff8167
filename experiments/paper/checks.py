"""Our exact SVM beside LIBSVM itself, at the points where both were run."""

from __future__ import annotations

import statistics

from benchmarks.datasets import label
from experiments.paper.comparison import number
from experiments.paper.estimates import WithLibsvm, samples
from experiments.paper.pages import Section, Table, Text
from experiments.paper.runs import Ledger
from experiments.paper.scales import Scale


def section(scale: Scale, ledger: Ledger) -> Section:
    """What of LIBSVM was run, what of its labels and objective ours has, and its seconds."""
    laws = ledger.laws if isinstance(ledger, WithLibsvm) else {}
    rows = []
    for kind, found in sorted(samples(ledger).items()):
        checked = [one for _, _, one in found if one.agreement is not None]
        if not checked:
            continue
        sizes = sorted({one.rows or 0 for one in checked})
        worst = min(one.agreement or 0.0 for one in checked)
        excess = [one.excess or 0.0 for one in checked]
        ratios = [(one.seconds or 0.0) / one.exact_seconds for one in checked if one.exact_seconds]
        law = laws.get(kind)
        rows.append(
            [
                label(kind[0]) + ("" if kind[1] == "rbf" else f", {kind[1]}"),
                ", ".join(f"{size:,}" for size in sizes),
                str(len(checked)),
                f"{100.0 * worst:.3f} %",
                f"{min(excess):+.0e} to {max(excess):+.0e}",
                number(statistics.median(ratios)) if ratios else "–",
                "–" if law is None else f"{law.error:.2f}",
            ]
        )
    text = Text(
        "Both have the same rows, C, kernel and tolerance (1e-3), and one thread. The labels are "
        "those of the test rows; the objective is the dual one, from coefficients and vectors "
        "alone, ours less LIBSVM's and relative to it: below zero ours is the better one. The "
        "points are " + ", ".join(f"({C:g}, {g:g})" for C, g in scale.sample or scale.points) + "."
    )
    note = (
        "The last column is the standard deviation of log seconds about the law that LIBSVM's "
        "seconds are estimated by elsewhere: a + b log(rows × support vectors) + c log C."
        if scale.estimates
        else ""
    )
    columns = [
        *("dataset", "rows", "points", "labels alike, at least", "objective, ours less LIBSVM's"),
        *("LIBSVM's seconds over ours, median", "scatter of the law"),
    ]
    table = Table("Our exact SVM beside LIBSVM", columns, rows, note)
    nothing = Text("No run of LIBSVM has been compared yet.")
    return Section("Our exact SVM and LIBSVM", [text, table if rows else nothing], "exact")
