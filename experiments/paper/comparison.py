"""Solvers over a grid of hyper-parameters, beside LIBSVM: what the comparing tables share.

The paper's five metrics take what LIBSVM and the other solver measured, in the same order: one
value for every fold and every point of the grid.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

from benchmarks.datasets import label
from experiments.paper import published
from experiments.paper.pages import Cell, Table
from experiments.paper.runs import Ledger, Outcome, Run
from experiments.paper.scales import Scale

LIBSVM = "LIBSVM"
AESVM = published.AESVM[1e-3]

#: Beside the paper's: today's fastest exact SVM, this package's default, and what is simplest.
MODERN = ("intelex", "AESVC auto", "subsample, same M", "subsample, same time", "Nystroem")

#: What the paper did not run: a set ten times as coarse.
COARSE = "AESVM 1e-2"
EPSILONS = {1e-2: COARSE, **published.AESVM}

#: Where the scale is full our exact SVM stands for LIBSVM.
EXACT = "exact"

#: These train where the scale says.
ON_DEVICES = (EXACT, *EPSILONS.values())

#: These are run at every point of the paper's grid; all others on its sub-grid of 24.
ON_WHOLE_GRID = (LIBSVM, EXACT, "AESVC auto", *EPSILONS.values())

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


#: Marks a figure over the 24 points, where the 84 are not complete.
PART = "†"

#: Marks a dataset of which a solver kept all rows at every point.
ALL = "‡"

#: What the words for a solver past its limit begin with.
OVER = "over"

#: Stand for a solver some of whose runs ended with an error, or whose seconds are not compared.
FAILED, UNTIMED = "failed", "not timed"

#: The limit that a run was past.
_LATE = re.compile(r"training took over (\d+ s)")

#: What does not need LIBSVM's runs, and what needs seconds of both.
ACCURACIES = ("max", "mean", "std")
SPEEDUPS = ("ETS", "OTS")


class Compared(NamedTuple):
    """A solver's figures on a dataset; None where it has none.

    ``spread``: of the figures that rest on estimated seconds, their standard error as a factor.
    ``part``: the metrics over the 24 points, where the 84 are not complete. ``whole``: reducing
    was given up everywhere.
    """

    values: dict[str, float | None]
    finished: int  #: runs that it finished
    shared: int  #: runs that LIBSVM finished as well
    timed: int  #: of these, those whose seconds can be compared with LIBSVM's
    wanted: int
    why: str  #: it did not finish, where it did not
    exact_why: str = ""  #: the exact SVM did not, where the solver did
    untimed: str = ""  #: seconds cannot be compared, where the runs were finished
    spread: float | None = None
    part: Collection[str] = ()
    whole: bool = False

    def of(self, metric: str) -> int:
        """Runs that a metric is taken over."""
        if metric in SPEEDUPS:
            return self.timed
        return self.finished if metric in ACCURACIES else self.shared

    def or_over(self, fewer: Compared) -> Compared:
        """With the figures over fewer points of the grid where its own lack some of its points."""
        if fewer.wanted == self.wanted:
            return self
        if self.shared < self.wanted:
            return fewer._replace(part=tuple(SHOWN))
        if self.timed < self.wanted and fewer.timed == fewer.wanted:
            values = self.values | {metric: fewer.values[metric] for metric in SPEEDUPS}
            return self._replace(
                values=values, timed=self.wanted, spread=fewer.spread, part=SPEEDUPS
            )
        return self


#: Every solver's figures, dataset by dataset.
Figures = dict[str, dict[str, Compared]]


def rmse(libsvm: Sequence[float], other: Sequence[float]) -> float:
    """Root mean squared difference of the accuracies."""
    squares = [(a - b) ** 2 for a, b in zip(libsvm, other, strict=True)]
    return sqrt(sum(squares) / len(squares))


def expected_speedup(libsvm: Sequence[float], other: Sequence[float]) -> float:
    """ETS of training seconds, ECS of support vectors: the mean of the ratios."""
    ratios = [a / b for a, b in zip(libsvm, other, strict=True)]
    return sum(ratios) / len(ratios)


def overall_speedup(
    libsvm: Sequence[float], other: Sequence[float], once: Sequence[float] = ()
) -> float:
    """OTS of training seconds, OCS of support vectors: the ratio of the sums.

    ``once`` is what is spent once for several points of the grid: the seconds of the
    representative sets, one for each g and fold.
    """
    return sum(libsvm) / (sum(other) + sum(once))


def grid(scale: Scale, dataset: str, solver: str, points=None) -> list[Run]:
    """The runs of a solver with the RBF kernel."""
    if points is None:
        points = scale.points if solver in ON_WHOLE_GRID else scale.small_points
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
                all_test_rows=scale.all_test_rows,
            )
        )
        for fold in scale.folds_of(dataset)
        for C, g in points
    ]


def twin(run: Run) -> Run:
    """LIBSVM's run at the same point."""
    return replace(run, solver=LIBSVM, epsilon=0.0, components=0, like=None, device="cpu")


def to_make(scale: Scale, runs: Iterable[Run]) -> list[Run]:
    """The runs behind those of a table: where our exact SVM stands for LIBSVM, both of them."""
    found: list[Run] = []
    for run in runs:
        if run.solver != LIBSVM or not scale.estimates:
            found.append(replace(run, device=scale.device) if run.solver in ON_DEVICES else run)
            continue
        found.append(replace(run, solver=EXACT, device=scale.device))
        at = (run.C, run.degree) if run.degree else (run.C, run.gamma)
        sample = scale.poly_sample if run.degree else scale.sample
        if at in sample and run.fold == scale.folds_of(run.dataset)[0]:
            sizes = scale.sample_rows.get(run.dataset, (run.train_rows,))
            found += [replace(run, train_rows=size) for size in sizes]
    return found


def epsilon_of(solver: str) -> float:
    return next((e for e, name in EPSILONS.items() if name == solver), 0.0)


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
    timed = [one for one in both if one[1].seconds and one[2].seconds]
    if both:
        values |= _beside_libsvm(both)
    if timed:
        values |= _faster_than_libsvm(timed)
    why = _why([ledger[run] for run in runs if not ledger[run].ok])
    alone = [other for other, run in zip(reference, runs, strict=True) if ledger[run].ok]
    exact_why = _why([ledger[other] for other in alone if not ledger[other].ok])
    factors = [theirs.factor for _, theirs, _ in both if theirs.factor is not None]
    whole = bool(own) and all(one.reduced is False for one in own)
    spread = max(factors, default=None)
    counts = len(own), len(both), len(timed), len(runs)
    untimed = _why_untimed([pair for _, *pair in both if not all(one.seconds for one in pair)])
    return Compared(values, *counts, why, exact_why, untimed, spread, whole=whole)


def _why_untimed(pairs: list[list[Outcome]]) -> str:
    """LIBSVM's outcome and another solver's, of which one has no seconds."""
    ours = [other for _, other in pairs if not other.seconds]
    late = _why(ours)
    if late.startswith(OVER):
        return f"{late} at others tried on a CPU"
    return next((one.reason for one in ours if one.reason), "LIBSVM was not timed" if pairs else "")


def _beside_libsvm(both: list[tuple[Run, Outcome, Outcome]]) -> dict[str, float | None]:
    theirs, ours = [a for _, a, _ in both], [b for _, _, b in both]
    values: dict[str, float | None] = {
        "RMSE": 100.0 * rmse(_accuracies(theirs), _accuracies(ours)),
    }
    if all(one.support_vectors for one in ours):
        exact, counts = _vectors(theirs), _vectors(ours)
        values["ECS"] = expected_speedup(exact, counts)
        values["OCS"] = overall_speedup(exact, counts)
    return values


def _faster_than_libsvm(timed: list[tuple[Run, Outcome, Outcome]]) -> dict[str, float | None]:
    theirs = _seconds(one for _, one, _ in timed)
    ours = _seconds(one for _, _, one in timed)
    return {
        "ETS": expected_speedup(theirs, ours),
        "OTS": overall_speedup(theirs, ours, _once(timed)),
    }


def _why(unfinished: list[Outcome]) -> str:
    """In a table's cell; nothing where the runs are only still to be made."""
    late = [found for one in unfinished if (found := _LATE.search(one.reason or ""))]
    if late:
        return f"{OVER} {late[0][1]}"
    if any("time limit" in (one.reason or "") for one in unfinished):
        return f"{OVER} time"
    return FAILED if any(one.status == "error" for one in unfinished) else "–"


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
            solver: compare(ledger, [twin(run) for run in runs], runs)
            for solver in solvers
            for runs in [runs_of(dataset, solver)]
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


def _cell(one: Compared, name: str, metric: str, paper: Mapping[str, float | None]) -> Cell:
    """A metric of a solver, beside the paper's figure."""
    theirs = _published(paper[name]) if name in paper else ""
    value = one.values[metric]
    if value is None:
        untimed = metric in SPEEDUPS and one.untimed and not one.why.startswith(OVER)
        return Cell(UNTIMED if untimed else one.why, theirs, "missing")
    digits = SHOWN[metric][1]
    text = number(value, digits) + (PART if metric in one.part else "")
    if one.spread is not None and metric in SPEEDUPS and name != LIBSVM:
        text += f" ({number(value / one.spread)} to {number(value * one.spread)})"
    if one.of(metric) < one.wanted:
        text += f" ({one.of(metric)}/{one.wanted})"
    return Cell(text, theirs)


def _published(value: float | None) -> str:
    """As the paper prints it; a dash where it has none."""
    return "–" if value is None else f"{value:,g}"


def _best(of_dataset: Mapping[str, Compared], metric: str) -> float | None:
    """The best figure of the solvers that finished the grid, LIBSVM aside."""
    least = SHOWN[metric][2]
    found = [value_of(one, metric) for name, one in of_dataset.items() if name != LIBSVM]
    values = [value for value in found if value is not None]
    if least is None or not values:
        return None
    return min(values) if least else max(values)


def value_of(one: Compared | None, metric: str) -> float | None:
    """A figure over a whole grid; None where runs are missing."""
    return None if one is None or one.of(metric) < one.wanted else one.values[metric]


def _measured(compared: Figures, metrics: Sequence[str]) -> tuple[Figures, list[str]]:
    """Without datasets and solvers of which nothing was measured; sentences that name them."""
    alone = set(metrics) <= set(ACCURACIES)  # LIBSVM's say something without another solver's
    rows = {
        dataset: row
        for dataset, row in compared.items()
        if any(one.finished for name, one in row.items() if alone or name != LIBSVM)
    }
    solvers = list(next(iter(compared.values())))
    kept = [name for name in solvers if any(rows[d][name].finished for d in rows)]
    late = [name for name in solvers if any(rows[d][name].why.startswith(OVER) for d in rows)]
    shown = [name for name in solvers if name in {*kept, *late}]
    missing = [f"{label(d)} (all solvers)" for d in compared if d not in rows]
    missing += [name for name in solvers if rows and name not in shown]
    said = [f"Not run yet: {', '.join(missing)}."] if missing else []
    return {d: {name: row[name] for name in shown} for d, row in rows.items()}, said


def by_metric(
    caption: str,
    metrics: Sequence[str],
    compared: Figures,
    paper: published.Cells,
    note: str = "",
) -> Table:
    """The layout of Tables 4 to 7: a row for each metric and dataset, a column for each solver."""
    shown, missing = _measured(compared, metrics)
    rows: list[list[Cell | str]] = []
    for metric in metrics:
        for dataset, of_dataset in shown.items():
            best = _best(of_dataset, metric)
            row: list[Cell | str] = [f"{label(dataset)} {SHOWN[metric][0]}"]
            for name, one in of_dataset.items():
                cell = _cell(one, name, metric, paper[metric].get(dataset, {}))
                first = best is not None and name != LIBSVM and value_of(one, metric) == best
                row.append(replace(cell, mark="best") if first else cell)
            rows.append(row)
    solvers = list(next(iter(shown.values()), {}))
    return Table(caption, ["", *solvers], rows, " ".join(filter(None, [note, *missing])))


def by_solver(
    caption: str,
    metrics: Sequence[str],
    compared: Figures,
    paper: published.Cells,
    note: str = "",
) -> Table:
    """The layout of Tables 8, 9 and 11: a row for each solver, a column for each metric."""
    shown, missing = _measured(compared, metrics)
    rows: list[list[Cell | str]] = []
    for dataset, of_dataset in shown.items():
        for name, one in of_dataset.items():
            row: list[Cell | str] = [f"{label(dataset)} {name}"]
            for metric in metrics:
                if name == LIBSVM and metric not in ACCURACIES:
                    row.append("")
                    continue
                known = {k: v for k, v in paper[metric][dataset].items() if v is not None}
                row.append(_cell(one, name, metric, known))
            rows.append(row)
    columns = ["", *(SHOWN[metric][0] for metric in metrics)]
    return Table(caption, columns, rows, " ".join(filter(None, [note, *missing])))
