"""Solvers over a grid of hyper-parameters, beside LIBSVM: what the comparing tables share."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from benchmarks.datasets import label
from experiments.paper import published
from experiments.paper.metrics import expected_speedup, overall_speedup, rmse
from experiments.paper.pages import Cell, Table
from experiments.paper.runs import Ledger, Outcome, Run
from experiments.paper.scales import Scale

LIBSVM = "LIBSVM"
AESVM = published.AESVM[1e-3]

#: Beside the paper's: today's fastest exact SVM, this package's default, and what is simplest.
MODERN = ("intelex", "AESVC auto", "subsample, same M", "subsample, same time", "Nystroem")

#: The subsamples are measured against the paper's AESVM.
LIKE_AESVM = ("subsample, same M", "subsample, same time")

#: What is shown of each metric: its heading, digits, and whether the least is best.
SHOWN = {
    "RMSE": ("RMSE (x 100)", 2, True),
    "ETS": ("ETS", 1, False),
    "OTS": ("OTS", 1, False),
    "ECS": ("ECS", 1, False),
    "OCS": ("OCS", 1, False),
    "max": ("max. accuracy (x 100)", 1, False),
    "mean": ("mean accuracy (x 100)", 1, False),
    "std": ("std. of accuracy (x 100)", 1, None),
}


#: What does not need LIBSVM's runs.
ACCURACIES = ("max", "mean", "std")


class Compared(NamedTuple):
    """A solver's figures on a dataset; None where it has none."""

    values: dict[str, float | None]
    finished: int  #: runs that it finished
    shared: int  #: runs that LIBSVM finished as well
    wanted: int
    why: str  #: it did not finish, where it did not

    def of(self, metric: str) -> int:
        """Runs that a metric is taken over."""
        return self.finished if metric in ACCURACIES else self.shared


#: Every solver's figures, dataset by dataset.
Figures = dict[str, dict[str, Compared]]


def grid(scale: Scale, dataset: str, solver: str, points=None) -> list[Run]:
    """The runs of a solver with the RBF kernel."""
    return [
        _with_partner(
            Run(
                dataset,
                solver,
                gamma=g,
                C=C,
                epsilon=epsilon_of(solver),
                fold=fold,
                components=_components(scale, dataset, solver),
                train_rows=scale.train_rows.get(dataset),
                test_rows=scale.test_rows,
            )
        )
        for fold in scale.folds_of(dataset)
        for C, g in points or scale.points
    ]


def epsilon_of(solver: str) -> float:
    return next((e for e, name in published.AESVM.items() if name == solver), 0.0)


def _components(scale: Scale, dataset: str, solver: str) -> int:
    if solver == "RfeatSVM":
        return published.RANDOM_FEATURES[dataset]
    return {"CPSP": scale.basis, "Nystroem": scale.landmarks}.get(solver, 0)


def _with_partner(run: Run) -> Run:
    if run.solver not in LIKE_AESVM:
        return run
    return replace(run, like=replace(run, solver=AESVM, epsilon=1e-3))


def compare(ledger: Ledger, reference: list[Run], runs: list[Run]) -> Compared:
    """The metrics, over those points of the grid that both finished; accuracies over its own."""
    own = [ledger[run] for run in runs if ledger[run].ok]
    both = [
        (run, ledger[other], ledger[run])
        for other, run in zip(reference, runs, strict=True)
        if ledger[other].ok and ledger[run].ok
    ]
    values: dict[str, float | None] = dict.fromkeys(SHOWN)
    if own:
        accuracies = _accuracies(own)
        values["max"] = 100.0 * max(accuracies)
        values["mean"] = 100.0 * statistics.fmean(accuracies)
        values["std"] = 100.0 * statistics.pstdev(accuracies)
    if both:
        values |= _beside_libsvm(both)
    why = _why([ledger[run] for run in runs if not ledger[run].ok])
    return Compared(values, len(own), len(both), len(runs), why)


def _beside_libsvm(both: list[tuple[Run, Outcome, Outcome]]) -> dict[str, float | None]:
    theirs, ours = [a for _, a, _ in both], [b for _, _, b in both]
    values: dict[str, float | None] = {
        "RMSE": 100.0 * rmse(_accuracies(theirs), _accuracies(ours)),
        "ETS": expected_speedup(_seconds(theirs), _seconds(ours)),
        "OTS": overall_speedup(_seconds(theirs), _seconds(ours), _once(both)),
    }
    if all(one.support_vectors for one in ours):
        exact, counts = _vectors(theirs), _vectors(ours)
        values["ECS"] = expected_speedup(exact, counts)
        values["OCS"] = overall_speedup(exact, counts)
    return values


def _why(unfinished: list[Outcome]) -> str:
    statuses = {one.status for one in unfinished}
    if statuses & {"timeout"} or any("time limit" in (one.reason or "") for one in unfinished):
        return "over time"
    return "failed" if "error" in statuses else "–"


def compared(
    ledger: Ledger,
    runs_of: Callable[[str, str], list[Run]],
    datasets: Iterable[str],
    solvers: Iterable[str],
) -> Figures:
    """Every solver's figures, dataset by dataset; ``runs_of`` a dataset and a solver."""
    solvers = list(solvers)
    return {
        dataset: {
            solver: compare(ledger, runs_of(dataset, LIBSVM), runs_of(dataset, solver))
            for solver in solvers
        }
        for dataset in datasets
    }


def _accuracies(outcomes: Iterable[Outcome]) -> list[float]:
    return [one.accuracy or 0.0 for one in outcomes]


def _seconds(outcomes: Iterable[Outcome]) -> list[float]:
    return [one.seconds or 0.0 for one in outcomes]


def _vectors(outcomes: Iterable[Outcome]) -> list[float]:
    return [float(one.support_vectors or 0) for one in outcomes]


def _once(both: list[tuple[Run, Outcome, Outcome]]) -> list[float]:
    """Seconds of the representative sets: one for each kernel and fold, whatever C is."""
    sets: dict[tuple, list[float]] = {}
    for run, _, outcome in both:
        if outcome.reduction_seconds is not None:
            kind = (run.gamma, run.degree, run.fold)
            sets.setdefault(kind, []).append(outcome.reduction_seconds)
    return [statistics.fmean(seconds) for seconds in sets.values()]


def number(value: float | None, digits: int = 1) -> str:
    """A figure as the tables print it."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}"


def cells(
    compared: Mapping[str, Compared],
    metric: str,
    paper: Mapping[str, float | None],
    rivals: Iterable[str],
) -> list[Cell | str]:
    """A metric of each of the solvers, the best of those that finished the grid marked."""
    _, digits, least = SHOWN[metric]
    values = {name: one.values[metric] for name, one in compared.items()}
    whole = {name for name, one in compared.items() if one.of(metric) == one.wanted}
    among = [v for name, v in values.items() if v is not None and name in whole & set(rivals)]
    best = None if least is None or not among else (min(among) if least else max(among))
    row: list[Cell | str] = []
    for name, one in compared.items():
        value = values[name]
        theirs = _published(paper[name]) if name in paper else ""
        if value is None:
            row.append(Cell(one.why, theirs, "missing"))
            continue
        text = number(value, digits)
        if one.of(metric) < one.wanted:
            text += f" ({one.of(metric)}/{one.wanted})"
        shown = name in whole & set(rivals) and value == best
        row.append(Cell(text, theirs, "best" if shown else ""))
    return row


def _published(value: float | None) -> str:
    """As the paper prints it; a dash where it has none."""
    return "–" if value is None else f"{value:,}"


def by_metric(
    caption: str,
    metrics: Iterable[str],
    compared: Mapping[str, Mapping[str, Compared]],
    paper: Mapping[str, Mapping[str, Mapping[str, float | None]]],
    note: str = "",
) -> Table:
    """The layout of Tables 4 to 7: a row for each metric and dataset, a column for each solver."""
    solvers = list(next(iter(compared.values())))
    rivals = [name for name in solvers if name != LIBSVM]
    rows: list[list[Cell | str]] = []
    for metric in metrics:
        for dataset, of_dataset in compared.items():
            figures = paper.get(metric, {}).get(dataset, {})
            name = f"{label(dataset)} {SHOWN[metric][0]}"
            rows.append([name, *cells(of_dataset, metric, figures, rivals)])
    return Table(caption, ["", *solvers], rows, note)


def by_solver(
    caption: str,
    metrics: Iterable[str],
    compared: Mapping[str, Mapping[str, Compared]],
    paper: Mapping[str, Mapping[str, tuple[float | None, ...]]],
    note: str = "",
) -> Table:
    """The layout of Tables 8, 9 and 11: a row for each solver, a column for each metric."""
    metrics = list(metrics)
    rows: list[list[Cell | str]] = []
    for dataset, of_dataset in compared.items():
        for name, one in of_dataset.items():
            theirs = paper.get(dataset, {}).get(name)
            row: list[Cell | str] = [f"{label(dataset)} {name}"]
            for at, metric in enumerate(metrics):
                of_paper = {name: theirs[at]} if theirs and theirs[at] is not None else {}
                if name == LIBSVM and metric in ("RMSE", "ETS", "OTS", "ECS", "OCS"):
                    row.append("")
                else:
                    row.extend(cells({name: one}, metric, of_paper, ()))
            rows.append(row)
    return Table(caption, ["", *(SHOWN[metric][0] for metric in metrics)], rows, note)
