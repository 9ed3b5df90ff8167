"""Seconds of other programs at points of the paper's grid, beside those of our exact SVM.

Theirs were measured once, with 600 MB of kernel cache and a tolerance of 1e-3: on two cores
(AVX-512), where seconds are noisy by 20 % or more, and on an H200, cuML's with the data on the
device already. They are for their order of magnitude.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.datasets import label
from experiments.paper.comparison import EXACT, number
from experiments.paper.pages import Section, Table, Text
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale

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
    """On all rows: a scale with fewer has nothing to compare."""
    rows = []
    for (dataset, C, gamma), theirs in SECONDS.items():
        run = Run(dataset, EXACT, gamma=gamma, C=C, all_test_rows=scale.all_test_rows)
        found = [ledger.outcomes.get(replace(run, device=device).key) for device in ("cpu", "cuda")]
        ours = ["–" if one is None or not one.ok else number(one.seconds, 2) for one in found]
        shown = [number(seconds, 3 if seconds < 1 else 1) for seconds in theirs]
        rows.append([f"{label(dataset)} ({C:g}, {gamma:g})", *ours, *shown])
    columns = ["dataset (C', g)", "our exact SVM, 1 thread", "on a GPU", *PROGRAMS]
    text = Text(
        "What exact training takes today, in seconds, where others' were measured on the same "
        "rows. The programs on two cores had another machine than ours; see it as an order."
    )
    table = Table("Seconds of exact SVMs", columns, rows)
    return Section("Today's exact solvers", [text, table], "today")
