"""The report: what the paper claims and what we find; every table and figure; how it was done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.datasets import REGISTRY, label
from experiments.paper import claims, exact, pages, readings
from experiments.paper.comparison import ON_DEVICES
from experiments.paper.estimates import WithLibsvm
from experiments.paper.pages import Points, Section, Table, Text, escaped
from experiments.paper.runs import NOT_RUN, Ledger, Outcome, Run
from experiments.paper.scales import Scale
from experiments.paper.tables import TABLES, PaperTable

TITLE = "The paper's experiments, made again"

#: Grids of at most this many points are listed.
_FEW = 8

#: What the abbreviations of the tables stand for.
WORDS = (
    ("LIBSVM", "the exact SVM that all solvers are compared with"),
    ("AESVM 1e-3", "the paper's method with epsilon = 1e-3, here `AESVC(refine=0)`"),
    ("epsilon", "the largest squared distance in kernel space from a row to the set's hull"),
    ("N, M", "the number of rows, and of rows in the representative set"),
    ("P, V", "rows in a piece of the first segregation, and in a subset of the second"),
    ("FLS1, FLS2", "first-level segregation by the rows' order, and by distance"),
    ("C', g", "the SVM's C, and gamma of the RBF kernel; a pair is a point of the grid"),
    ("RMSE", "root mean squared difference from LIBSVM's accuracies over the grid, times 100"),
    ("ETS, OTS", "training speedup over LIBSVM: mean of the ratios, and ratio of the sums"),
    ("ECS, OCS", "the same two for support vectors, which prediction time is proportional to"),
    ("CVM, BVM, LASVM", "the core and ball vector machines, and the online SVM; written anew here"),
    ("CPSP, RfeatSVM", "SVMperf's method, written anew; a linear SVM on random Fourier features"),
    ("AESVC auto", "this package with default settings"),
    ("intelex", "scikit-learn-intelex, an exact SVM"),
    ("subsample", "the exact SVM of random rows: as many, or as many seconds, as AESVM 1e-3"),
)

_QUICK = (
    " All rows are used. Some fits were stopped at a limit, and some were not run: "
    "[they are listed](#left-out). With fewer rows and points every solver was run on every "
    "dataset: see [the quick scale](quick/report.md)."
)


def write(
    tables: Sequence[PaperTable], scale: Scale, ledger: Ledger, folder: Path
) -> tuple[Path, Path]:
    """Markdown with its charts, and one HTML page."""
    wanted = [run for table in tables for run in table.runs(scale)]
    whole = len(tables) == len(TABLES)
    made = ledger
    if scale.estimates:
        ledger = WithLibsvm(ledger, scale.device)
    found = claims.every_claim(scale, ledger) if whole else []
    first = [
        claims.section(found, claims.of_accuracies(scale, ledger)),
        readings.section(scale, ledger),
        _words(scale),
        claims.figures_section(found, scale),
    ]
    sections = [
        *(first if whole else [_words(scale)]),
        *(table.section(scale, ledger) for table in tables),
        _how(scale, made),
        exact.section(scale, ledger),
        _datasets(),
        _left_out(wanted, made, ledger, found),
    ]
    return pages.write(TITLE, _lead(scale), sections, folder)


def _of_paper() -> list[Any]:
    return sorted((e for e in REGISTRY.values() if e.paper), key=lambda entry: entry.paper)


def _lead(scale: Scale) -> str:
    names = ", ".join(f"{label(entry.paper)} {entry.name}" for entry in _of_paper())
    return (
        "“Fast SVM Training Using Approximate Extreme Points” (Nandan, Khargonekar and Talathi, "
        "JMLR 2014) compares AESVM with LIBSVM, CVM, BVM, LASVM, SVMperf and random features. "
        f"This page repeats that comparison with `aesvm`, at the scale “{scale.name}”."
        + (_QUICK if scale.estimates else "")
        + "\n\n"
        f"The datasets are {names}. “Part” means fewer rows than the paper had, “stand-in” "
        "another dataset in place of one that is not public ([more](#datasets))."
    )


def _words(scale: Scale) -> Section:
    text = (
        "A cell holds our figure, then the paper's in brackets. A dash stands for a run that has "
        "not been made, “over 60 s” for one stopped at that limit, “not timed” for seconds that "
        "are a GPU's or another machine's than LIBSVM's, and (20/24) for figures over the 20 of "
        "24 points that were finished. Bold is the best of a row among the solvers that "
        "finished the grid, LIBSVM aside."
    )
    if len(scale.small_points) < len(scale.points):
        text += (
            f" AESVM, `AESVC` and LIBSVM are over the paper's {len(scale.points)} points (C', g), "
            f"or over its {len(scale.small_points)} of Table 9 where there is a †. The other "
            f"solvers are over the {len(scale.small_points)}."
        )
    text += (
        " OTS counts the seconds of a representative set, and ETS does not, as in the paper. "
        "Nystroem's landmarks count as its support vectors." + _alone(scale)
    )
    table = Table("Words of the tables", ["", "meaning"], WORDS)
    return Section("How to read the tables", [Text(text), table], "words")


def _alone(scale: Scale) -> str:
    alone = [label(dataset) for dataset, folds in scale.folds.items() if len(folds) == 1]
    if not alone:
        return ""
    return (
        f" Accuracies of {', '.join(alone)} are those of one fold, and the paper's are averages of "
        "five: there, compare solvers with each other."
    )


def _how(scale: Scale, ledger: Ledger) -> Section:
    folds = ", ".join(
        f"{label(dataset)} {' '.join(map(str, numbers))}"
        for dataset, numbers in scale.folds.items()
    )
    points = []
    if len(scale.points) <= _FEW:
        listed = ", ".join(f"({C:g}, {g:g})" for C, g in scale.points)
        points.append(f"Points (C', g): {listed}.")
    if scale.train_rows:
        rows = ", ".join(f"{label(data)} {n:,}" for data, n in scale.train_rows.items())
        points.append(
            f"Training rows, at even distances: {rows}. Test rows: at most {scale.test_rows:,}. "
            "Representative sets of Figure 1 and Tables 1 to 3 are of all rows unless the table "
            "says otherwise. The paper's speedups grow with the number of rows, so they are far "
            "larger than ours: read who is ahead, not by how much."
        )
    points += [
        *_estimated(scale),
        f"Test folds, of 0 to 4: {folds}. Folds are of consecutive rows, because the data is "
        "ordered in time or by region. With random folds D4 would give 82 % and more, where the "
        "paper has 60 to 68 %. Published test sets are used where there are any.",
        "Once a solver has been past its limit twice with one kernel, it is not run with that "
        "kernel and other values of C.",
    ]
    if len(ledger.environments) > 1 and not scale.estimates:
        points.append("**Runs were made in several environments, and their seconds are compared.**")
    blocks: list[pages.Block] = [Points(points)]
    if ledger.lines:
        blocks += [_limits(ledger), *_machines(ledger)]
    return Section("How it was measured", blocks, "how")


def _estimated(scale: Scale) -> list[str]:
    if not scale.estimates:
        return []
    rows = "; ".join(
        f"{label(data)} {' and '.join(f'{n:,}' for n in sizes)}"
        for data, sizes in scale.sample_rows.items()
    )
    return [
        "“LIBSVM” is our exact SVM: its labels and support vectors are LIBSVM's "
        f"([checked](#exact)). LIBSVM's seconds were measured at {len(scale.sample)} points, on "
        f"all rows or fewer ({rows}), and estimated elsewhere. A speedup that rests on estimates "
        "has a range: one standard error, the largest of its estimates, down and up.",
        "Seconds of different machines are not compared. A run made elsewhere than LIBSVM's "
        "counts with its accuracy and support vectors, and not in ETS and OTS. Nor do seconds of "
        "a GPU.",
    ]


def _limits(ledger: Ledger) -> Table:
    """Of every dataset, which solvers had how many seconds."""
    found: dict[str, dict[str, set[float]]] = {}
    for content, environment in ledger.lines:
        solver = content["run"]["solver"]
        limit = environment["reduction limit" if solver == "DeriveRS" else "time limit"]
        name = "AESVM" if solver.startswith("AESVM") else solver.partition(",")[0]
        found.setdefault(content["run"]["dataset"], {}).setdefault(name, set()).add(limit)
    rows = []
    for dataset, of_dataset in sorted(found.items()):
        alike: dict[tuple[float, float], list[str]] = {}
        for name, limits in sorted(of_dataset.items()):
            alike.setdefault((min(limits), max(limits)), []).append(name)
        said = (f"{', '.join(names)} {_span(*limits)} s" for limits, names in sorted(alike.items()))
        rows.append([label(dataset), "; ".join(said)])
    note = "DeriveRS computes the representative sets of Figure 1 and Tables 1 to 3 and 10."
    return Table("Seconds allowed for a fit", ["dataset", "solvers and their limit"], rows, note)


def _span(low: float, high: float) -> str:
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _machines(ledger: Ledger) -> list[Table | Points]:
    """Where runs were made, and when; with which versions."""
    found: dict[tuple[str, str], _Made] = {}
    versions: dict[str, dict[str, set[str]]] = {}
    for content, environment in ledger.lines:
        machine = environment["machine"]
        clock = "the processor's" if environment.get("clock") == "processor" else "the clock's"
        where = ", ".join(filter(None, [machine.partition(",")[0], environment.get("gpu")]))
        made = found.setdefault((where, clock), _Made())
        made.dates.add(environment.get("date", "earlier"))
        made.datasets.add(content["run"]["dataset"])
        made.at_a_time.add(environment["runs at a time"])
        made.runs += 1
        of_machine = versions.setdefault(machine, {})
        for name, version in {"Python": environment["python"], **environment["versions"]}.items():
            of_machine.setdefault(name, set()).add(version or "none")
    rows = [
        [
            where,
            clock,
            " ".join(sorted(made.datasets)),
            ", ".join(sorted(made.dates)),
            f"{made.runs:,}",
            _span(min(made.at_a_time), max(made.at_a_time)),
        ]
        for (where, clock), made in found.items()
    ]
    columns = ["machine", "seconds are", "datasets", "dates", "runs", "runs at a time"]
    note = (
        "A solver has one thread. The processor's seconds leave out what other work takes, and are "
        "more where many runs at a time share cores and memory. `runs.jsonl`, beside this page, "
        "has the command, the machine and the date of every run."
    )
    seen = Points([f"{machine}: {_versions(of)}." for machine, of in versions.items()])
    return [Table("Machines and dates", columns, rows, note), seen]


def _versions(packages: dict[str, set[str]]) -> str:
    return ", ".join(f"{name} {' and '.join(sorted(of))}" for name, of in packages.items())


@dataclass
class _Made:
    """Runs on one machine."""

    dates: set[str] = field(default_factory=set)
    datasets: set[str] = field(default_factory=set)
    at_a_time: set[int] = field(default_factory=set)
    runs: int = 0


def _datasets() -> Section:
    items = [
        " ".join(
            [
                f"**{label(entry.paper)}** [{entry.name}]({entry.origin}): {entry.title}, "
                f"{entry.size}.",
                *filter(None, [entry.stand_in, entry.preprocessing]),
                f"Test rows: {entry.split}",
                entry.traps,
            ]
        )
        for entry in _of_paper()
    ]
    text = Text("Sizes are rows for training / for testing × features.")
    return Section("Datasets", [text, Points(items)], "datasets")


def _left_out(
    wanted: list[Run], made: Ledger, filled: Ledger, claims_made: Sequence[claims.Claim]
) -> Section:
    """A run on any device counts; of LIBSVM those that were made."""
    unique = {run.key: run for run in wanted}.values()
    ledger = {run: (filled if run.solver in ON_DEVICES else made)[run] for run in unique}
    blocks: list[pages.Block] = [_open_cells(claims_made)] if claims_made else []
    of_solver: dict[str, dict[str, list[Run]]] = {}
    for run in unique:
        of_solver.setdefault(_named(run), {}).setdefault(run.dataset, []).append(run)
    datasets = sorted({run.dataset for run in unique})
    rows = [
        [name, *(_made_of([ledger[run] for run in of_dataset.get(d, [])]) for d in datasets)]
        for name, of_dataset in sorted(of_solver.items())
    ]
    failed = {
        escaped(f"{run.solver} on {run.dataset}: {one.reason}")
        for run, one in ledger.items()
        if one.status in ("error", "missing")
    }
    done = sum(one.ok for one in ledger.values())
    said = f"{done:,} of {len(unique):,} runs gave a result. The same command makes the rest."
    gpu = _on_a_gpu_alone(made)
    if gpu:
        said += f" Made on a GPU alone, whose seconds are not compared: {gpu}."
    note = (
        "Runs with a result, and of how many where that is not all. “Late” are those past their "
        "limit, and those left out after two such." + " ".join(["", *sorted(failed)])
    )
    blocks += [Text(said), Table("Runs", ["solver", *map(label, datasets)], rows, note)]
    return Section("What was not run", blocks, "left-out")


def _named(run: Run) -> str:
    return run.solver + (" (polynomial)" if run.degree else "")


def _made_of(outcomes: list[Outcome]) -> str:
    done = sum(one.ok for one in outcomes)
    reasons = [one.reason or "" for one in outcomes if not one.ok]
    late = sum("took over" in why or "limit" in why for why in reasons)
    if done == len(outcomes):
        return f"{done}" if done else ""
    return f"{done} of {len(outcomes)}" + (f", {late} late" if late else "")


def _on_a_gpu_alone(made: Ledger) -> str:
    """Datasets and solvers, of which some runs were made nowhere else."""
    found: dict[str, set[str]] = {}
    for content, _ in made.lines:
        run = Run(**content["run"]) if content["run"].get("device") else None
        if run and made[run].ok and not made[replace(run, device="cpu")].ok:
            found.setdefault(run.dataset, set()).add(_named(run))
    return "; ".join(
        f"{label(data)} {' and '.join(sorted(of))}" for data, of in sorted(found.items())
    )


def _open_cells(claims_made: Sequence[claims.Claim]) -> Table:
    """Of the paper's cells, those that have no figure of ours."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for claim in claims_made:
        for pair in claim.pairs:
            if pair.ours is None:
                kind = (pair.dataset, pair.lacks or NOT_RUN)
                found.setdefault(kind, Counter())[pair.solver] += 1
    rows = [
        [
            label(dataset),
            str(cells.total()),
            ", ".join(f"{solver} {count}" for solver, count in sorted(cells.items())),
            why,
        ]
        for (dataset, why), cells in sorted(found.items())
    ]
    every = Counter(pair.outcome for claim in claims_made for pair in claim.pairs)
    kinds = (claims.LATE, claims.UNTIMED, claims.OPEN)
    counts = ", ".join(f"{every[kind]} {kind}" for kind in kinds if every[kind])
    caption = f"The paper's cells without a figure of ours, of {every.total()}: {counts or 'none'}"
    return Table(caption, ["dataset", "cells", "solvers", "why"], rows)
