"""The report: claims, a few lines and words; then every table and figure, and the data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.datasets import COLUMNS, REGISTRY, describe, label
from experiments.paper import checks, claims, pages, peers, readings, summary, verdicts
from experiments.paper.comparison import EXACT
from experiments.paper.estimates import WithLibsvm
from experiments.paper.pages import Points, Section, Table, Text, escaped
from experiments.paper.runs import Ledger, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import TABLES, PaperTable

TITLE = "The paper's experiments, made again"

#: Grids of at most this many points are listed.
_FEW = 8

#: What is left out of published test rows, where not all are used.
_SOME_TEST_ROWS = ", but for D5 the first 20,000 of them and for D1 every third."


def write(
    tables: Sequence[PaperTable], scale: Scale, ledger: Ledger, folder: Path
) -> tuple[Path, Path]:
    """Markdown with its charts, and one HTML page."""
    wanted = [run for table in tables for run in table.runs(scale)]
    whole = len(tables) == len(TABLES)
    made = ledger
    if scale.estimates:
        ledger = WithLibsvm(ledger, scale.device)
    sections = [
        *(_of_all_tables(scale, ledger) if whole else []),
        _how(scale, ledger),
        checks.section(scale, ledger),
        *([peers.section(scale, ledger)] if scale.estimates else []),
        *(table.section(scale, ledger) for table in tables),
        _datasets(),
        _left_out(wanted, made, ledger),
    ]
    return pages.write(TITLE, _lead(scale), sections, folder)


def _of_all_tables(scale: Scale, ledger: Ledger) -> list[Section]:
    return [
        verdicts.section(scale, ledger),
        *summary.sections(scale, ledger),
        claims.section(scale, ledger),
        readings.section(scale, ledger),
    ]


def _lead(scale: Scale) -> str:
    not_the_papers = ", ".join(
        f"{entry.name} ({entry.kind})"
        for entry in sorted(REGISTRY.values(), key=lambda entry: entry.paper)
        if entry.kind
    )
    return (
        "“Fast SVM Training Using Approximate Extreme Points” (Nandan, Khargonekar and Talathi, "
        "JMLR 2014) compares AESVM with LIBSVM, CVM, BVM, LASVM, SVMperf and random features on "
        "nine datasets. This is that comparison, run anew with `aesvm` and its rivals in "
        f"`experiments.rivals`, at the scale “{scale.name}”, with the paper's own figure beside "
        "each.\n\n"
        f"Not all data is the paper's: {not_the_papers}. [Datasets](#datasets) says how they "
        "differ."
    )


def _how(scale: Scale, ledger: Ledger) -> Section:
    listed = ", ".join(f"({C:g}, {g:g})" for C, g in scale.points)
    folds = ", ".join(
        f"{label(dataset)} {' '.join(map(str, numbers))}"
        for dataset, numbers in scale.folds.items()
    )
    points = [
        f"Tables 4 to 8 are over {len(scale.points)} of the paper's 84 points (C', g)"
        + (f": {listed}." if len(scale.points) <= _FEW else ".")
        + _rivals_points(scale),
        *_estimated(scale),
        f"Folds tested with, of 0 to 4: {folds}. They are of consecutive rows: the data is "
        "ordered in time, or by region, and the paper's accuracies of 60 to 68 % on D4 can only "
        "come from such folds. Where test rows are published they are used"
        + ("." if scale.all_test_rows else _SOME_TEST_ROWS),
        "CVM, BVM, LASVM and CPSP (SVMperf) are this package's own implementations; RfeatSVM and "
        "Nystroem put scikit-learn's parts together. LIBSVM is scikit-learn's SVC; intelex is "
        "scikit-learn-intelex; “AESVC auto” is this package as it comes. The subsamples are "
        "random rows: as many as AESVM 1e-3 keeps, or about as many as take as long.",
    ]
    if scale.train_rows:
        rows = ", ".join(f"{label(data)} {n:,}" for data, n in scale.train_rows.items())
        points.insert(
            1,
            f"Rows trained on, at even distances from the training part: {rows}; tested on at most "
            f"{scale.test_rows:,}. Representative sets of Figure 1 and Tables 1 to 3 are of all "
            "rows unless the table says otherwise. With so few rows the speedups are far below "
            "the paper's, which grow with N: read who is ahead, not by how much.",
        )
    for environment in _once(ledger.environments):
        versions = ", ".join(f"{k} {v}" for k, v in environment["versions"].items() if v)
        points.append(
            f"Measured on {environment['machine']}{_when(environment)}, "
            f"Python {environment['python']}, {versions}. "
            f"Threads of a solver: {environment['threads']}; runs at a time: "
            f"{environment['runs at a time']}; seconds allowed to train: "
            f"{environment['time limit']:g}, for a representative set of Tables 1 to 3 and 10: "
            f"{environment['reduction limit']:g}; seed {environment['seed']}."
            + _command(environment)
        )
    if len(ledger.environments) > 1 and not scale.estimates:
        points.append(
            "**The runs were made in several environments**: seconds of different ones are "
            "compared where a table mixes them."
        )
    return Section("How it was measured", [Points(points)], "how")


def _rivals_points(scale: Scale) -> str:
    if len(scale.small_points) == len(scale.points):
        return ""
    return (
        f" CVM, BVM, LASVM, SVMperf, RfeatSVM, intelex, the subsamples and Nystroem are over its "
        f"{len(scale.small_points)} points of Table 9."
    )


def _estimated(scale: Scale) -> list[str]:
    if not scale.estimates:
        return []
    rows = "; ".join(
        f"{label(data)} {' and '.join(f'{n:,}' for n in sizes)}"
        for data, sizes in scale.sample_rows.items()
    )
    return [
        "“LIBSVM” is our exact SVM, whose labels and support vectors are LIBSVM's "
        "([checked](#exact)), but for LIBSVM's seconds. Those were measured at "
        f"{len(scale.sample)} points, on all rows or fewer ({rows}), and estimated elsewhere. "
        "Behind a speedup that rests on estimates stands its range: one standard error of an "
        "estimate, the largest of them, down and up.",
        "Seconds of different machines are not compared: a run made elsewhere than LIBSVM's "
        "sample counts with its accuracy and support vectors, and not in ETS and OTS.",
        "“not run” stands for runs that nobody has made yet. The same command makes them.",
    ]


def _when(environment: dict[str, Any]) -> str:
    told = [environment[key] for key in ("gpu", "date") if key in environment]
    return "".join(f", {one}" for one in told)


def _command(environment: dict[str, Any]) -> str:
    clock = " Seconds are the processor's, not the clock's: the machine had other work."
    said = clock if environment.get("clock") == "processor" else ""
    return said + (f" Command: `{environment['command']}`." if "command" in environment else "")


def _once(environments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that differ in what is printed."""
    found: dict[str, dict[str, Any]] = {}
    for one in environments:
        found.setdefault(json.dumps(one, sort_keys=True), one)
    return list(found.values())


def _datasets() -> Section:
    stand_ins = [
        f"{label(entry.paper)}, {entry.name}: {entry.stand_in}"
        for entry in sorted(REGISTRY.values(), key=lambda entry: entry.paper)
        if entry.stand_in
    ]
    text = Text("Not all of the paper's data can be had. What is taken for it:")
    table = Table("The datasets", COLUMNS, describe())
    return Section("Datasets", [text, Points(stand_ins), table], "datasets")


def _left_out(wanted: list[Run], made: Ledger, filled: Ledger) -> Section:
    """Of our exact SVM any device's run counts; of LIBSVM those that were made."""
    unique = {run.key: run for run in wanted}.values()
    ledger = {run: (filled if run.solver == EXACT else made)[run] for run in unique}
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
        [label(dataset), solver, str(count), status, escaped(reason)]
        for (dataset, solver, status, reason), count in sorted(failed.items())
    ]
    table = Table("Runs without a result", ["dataset", "solver", "runs", "", "why"], rows)
    return Section("What was not finished", [text, table], "left-out")
