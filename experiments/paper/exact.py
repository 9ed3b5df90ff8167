"""Our exact SVM beside LIBSVM, and beside what else trains exactly today."""

from __future__ import annotations

import statistics
from dataclasses import replace

from benchmarks.datasets import label
from experiments.paper.comparison import EXACT, number
from experiments.paper.estimates import WithLibsvm, samples
from experiments.paper.pages import Block, Section, Table, Text
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale

#: Other programs were measured once, with 600 MB of kernel cache and a tolerance of 1e-3, on two
#: cores (AVX-512) and on an H200; cuML's seconds are with the data on the device already.
PROGRAMS = (
    *("LIBSVM 3.37", "with OpenMP, 2 threads", "intelex, 2 threads", "ThunderSVM, 2 threads"),
    *("ThunderSVM, H200", "cuML 26.10, H200"),
)

#: By dataset, C' and g: seconds to train, in the order of the programs.
SECONDS: dict[tuple[str, float, float], tuple[float, ...]] = {
    ("D5", 1.0, 1.0): (11.06, 6.45, 3.50, 9.28, 0.366, 0.046),
    ("D5", 16.0, 0.25): (7.88, 5.14, 3.03, 9.62, 0.338, 0.067),
    ("D6", 1.0, 0.0625): (28.92, 16.61, 3.67, 11.71, 0.344, 0.118),
}


def section(scale: Scale, ledger: Ledger) -> Section:
    blocks: list[Block] = [_beside_libsvm(scale, ledger)]
    if scale.estimates:
        blocks.append(_today(scale, ledger))
    return Section("Our exact SVM and LIBSVM", blocks, "exact")


def _beside_libsvm(scale: Scale, ledger: Ledger) -> Table | Text:
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
    if not rows:
        return Text("No run of LIBSVM has been compared yet.")
    columns = [
        *("dataset", "rows", "points", "labels alike, at least", "our objective less LIBSVM's"),
        *("LIBSVM's seconds over ours, median", "scatter"),
    ]
    note = (
        "Both have the same rows, C, kernel and tolerance (1e-3), and one thread. The objective "
        "is the dual's, relative: below zero ours is better. The median is over these points, and "
        "the speedups OTS compare sums over the grid, in which LIBSVM's slowest points count most."
    )
    if scale.estimates:
        note += (
            " Elsewhere LIBSVM's seconds are estimated by a + b log(rows × support vectors) + c "
            "log C. “Scatter” is the standard deviation of log seconds about that law."
        )
    return Table("Our exact SVM beside LIBSVM", columns, rows, note)


def _today(scale: Scale, ledger: Ledger) -> Table:
    """On all rows: a scale with fewer has nothing to compare."""
    rows = []
    for (dataset, C, gamma), theirs in SECONDS.items():
        run = Run(dataset, EXACT, gamma=gamma, C=C, all_test_rows=scale.all_test_rows)
        found = [ledger.outcomes.get(replace(run, device=device).key) for device in ("cpu", "cuda")]
        ours = ["–" if one is None or not one.ok else number(one.seconds, 2) for one in found]
        shown = [number(seconds, 3 if seconds < 1 else 1) for seconds in theirs]
        rows.append([f"{label(dataset)} ({C:g}, {gamma:g})", *ours, *shown])
    columns = ["dataset (C', g)", "our exact SVM, 1 thread", "on a GPU", *PROGRAMS]
    note = "The other programs ran on other machines: compare orders of magnitude."
    return Table("Seconds to train exactly with today's programs", columns, rows, note)
