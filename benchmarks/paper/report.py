"""The report: claims first, then every table and figure, then what it was measured on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import datasets
from benchmarks.paper import claims, pages
from benchmarks.paper.pages import Points, Section, Table, Text
from benchmarks.paper.runs import Ledger, Run
from benchmarks.paper.scales import Scale
from benchmarks.paper.tables import TABLES, PaperTable

TITLE = "The paper's experiments, made again"


def write(
    tables: Sequence[PaperTable], scale: Scale, ledger: Ledger, folder: Path
) -> tuple[Path, Path]:
    """Markdown with its charts, and one HTML page."""
    wanted = [run for table in tables for run in table.runs(scale)]
    sections = [
        *([claims.section(scale, ledger)] if len(tables) == len(TABLES) else []),
        _how(scale, ledger),
        *(table.section(scale, ledger) for table in tables),
        _datasets(scale),
        _left_out(wanted, ledger),
    ]
    return pages.write(TITLE, _lead(scale), sections, folder)


def _lead(scale: Scale) -> str:
    return (
        "“Fast SVM Training Using Approximate Extreme Points” (Nandan, Khargonekar and Talathi, "
        "JMLR 2014) compares AESVM with LIBSVM, CVM, BVM, LASVM, SVMperf and random features on "
        "nine datasets. This is that comparison, run anew with `aesvm` and its rivals in "
        f"`aesvm.baselines`, at the scale “{scale.name}”. Small figures in grey are the paper's "
        "own."
    )


def _how(scale: Scale, ledger: Ledger) -> Section:
    folds = ", ".join(
        f"{dataset} {' '.join(map(str, numbers))}" for dataset, numbers in scale.folds.items()
    )
    points = [
        f"Grid of Tables 4 to 8: {len(scale.points)} points (C', g): "
        + (", ".join(f"({C:g}, {g:g})" for C, g in scale.points) if len(scale.points) < 9 else "")
        + f" of the paper's 84. Folds tested with, of 0 to 4: {folds}.",
        "Folds are of consecutive rows: the data is ordered in time, or by region, and the "
        "paper's accuracies of 60 to 68 % on D4 can only come from such folds.",
        f"Every solver has one thread unless it says otherwise below, and {scale.time_limit:g} s "
        f"to train ({scale.reduction_limit:g} s for a representative set of Tables 1 to 3 and 10); "
        "past that a run counts as not finished.",
        "Solvers are this package's own implementations, from the papers. LIBSVM is scikit-learn's "
        "SVC; intelex is scikit-learn-intelex; “AESVC auto” is this package as it comes; the "
        "subsamples are random rows, as many as AESVM (1e-3) keeps, or as many as take as long.",
    ]
    if scale.train_rows:
        rows = ", ".join(
            f"{datasets.label(data)} {rows:,}" for data, rows in scale.train_rows.items()
        )
        points.insert(
            1,
            f"Rows trained on, at even distances from the training part: {rows}; tested on at most "
            f"{scale.test_rows:,}. Representative sets of Tables 1 to 3 are of all rows unless "
            "the table says otherwise. With so few rows the speedups are far below the paper's, "
            "which grow with N: read who is ahead, not by how much.",
        )
    for environment in ledger.environments:
        versions = ", ".join(f"{k} {v}" for k, v in environment["versions"].items() if v)
        points.append(
            f"Measured on {environment['machine']}, Python {environment['python']}, {versions}; "
            f"threads of a solver: {environment['threads']}, runs at a time: "
            f"{environment['runs at a time']}, time limit {environment['time limit']:g} s, seed "
            f"{environment['seed']}."
        )
    return Section("How it was measured", [Points(points)], "how")


def _datasets(scale: Scale) -> Section:
    rows = datasets.describe()
    table = Table("The datasets", datasets.COLUMNS, rows)
    stand_ins = [
        f"{entry.paper} ({entry.name}): {entry.stand_in}"
        for entry in datasets.REGISTRY.values()
        if entry.stand_in
    ]
    text = Text("Not all of the paper's data can be had. Where another stands in for it:")
    return Section("Datasets", [text, Points(stand_ins), table], "datasets")


def _left_out(wanted: list[Run], ledger: Ledger) -> Section:
    unique = {run.key: run for run in wanted}.values()
    failed = Counter(
        (run.dataset, run.solver, ledger[run].status, ledger[run].reason or "")
        for run in unique
        if not ledger[run].ok
    )
    done = sum(ledger[run].ok for run in unique)
    text = Text(f"{done:,} of {len(unique):,} runs gave a result.")
    if not failed:
        return Section("What was not finished", [text], "left-out")
    rows = [
        [datasets.label(dataset), solver, str(count), status, reason]
        for (dataset, solver, status, reason), count in sorted(failed.items())
    ]
    table = Table("Runs without a result", ["dataset", "solver", "runs", "", "why"], rows)
    return Section("What was not finished", [text, table], "left-out")
