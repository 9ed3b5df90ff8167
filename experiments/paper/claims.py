"""What the paper claims, whether it holds, and how many of its figures we find.

A claim is about datasets. It holds where the figures say so on every dataset measured, and holds
in part where they do on some. A solver counts where it and LIBSVM finished every point of the
grid: figures over different points cannot be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.datasets import label
from experiments.paper import grids, published, sets
from experiments.paper.comparison import (
    AESVM,
    ALL,
    EXACT,
    FAILED,
    LIBSVM,
    OVER,
    PART,
    Compared,
    Figures,
    compare,
    number,
    twin,
    value_of,
)
from experiments.paper.pages import Section, Table, Text
from experiments.paper.runs import Ledger
from experiments.paper.scales import Scale

#: A figure is the paper's where it differs by no more than this share of it.
REPRODUCED = 0.15

#: Maximum accuracies are called similar within this, in hundredths.
SIMILAR = 1.0

#: The paper's rivals of AESVM, and those of today that select rows or landmarks.
RIVALS = ("CVM", "BVM", "LASVM", "CPSP")
APPROXIMATE_TODAY = ("subsample, same M", "subsample, same time", "Nystroem")

#: What names the sizes of representative sets where solvers are listed.
SETS = "sizes of sets"

SOLVERS = tuple(published.AESVM.values())
FINEST = published.AESVM[1e-5]


class Pair(NamedTuple):
    """Our figure, None where it was not measured, and the paper's.

    ``lacks``: why it was not measured, where more is known than that it was not run.
    """

    ours: float | None
    paper: float
    dataset: str = ""
    solver: str = ""
    lacks: str = ""

    @property
    def late(self) -> bool:
        return self.ours is None and OVER in self.lacks


@dataclass
class Claim:
    """What the paper says; datasets where that is so and where not, each with its figures."""

    short: str
    details: str = ""
    so: list[str] = field(default_factory=list)
    not_so: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    lacks: str = ""  #: what has to be run before it can be judged

    def judge(self, holds: bool, words: str) -> None:
        (self.so if holds else self.not_so).append(words)

    @property
    def verdict(self) -> str:
        if not self.so and not self.not_so:
            return "not judged"
        if not self.not_so:
            return "holds"
        return "holds in part" if self.so else "does not hold"

    def row(self) -> list[str]:
        said = "; ".join(self.so) or "–", "; ".join(self.not_so) or "–"
        words = f"{self.short}: {self.details}" if self.details else self.short
        verdict, why = f"**{self.verdict}**", ""
        if self.verdict == "not judged":
            why = self.lacks
        elif len(self.so) + len(self.not_so) == 1:
            why = "one dataset"
        return [words, f"{verdict} ({why})" if why else verdict, *said, counted(self.pairs)]


def counted(pairs: Iterable[Pair]) -> str:
    """Cells of the paper that are found again, of those measured."""
    every = list(pairs)
    if not every:
        return "–"
    measured = [(one.ours, one.paper) for one in every if one.ours is not None]
    same = sum(reproduced(ours, paper) for ours, paper in measured)
    late = sum(one.late for one in every)
    left = len(every) - len(measured) - late
    open_ = [f"{n} {words}" for n, words in ((late, "over the limit"), (left, "not run")) if n]
    return f"{same} of {len(measured)}" + (f" ({', '.join(open_)})" if open_ else "")


def reproduced(ours: float, paper: float) -> bool:
    """Half a unit of the paper's last digit is allowed as well: it prints 0.02 and 0.5."""
    decimals = len(f"{paper:g}".partition(".")[2])
    return abs(ours - paper) <= max(REPRODUCED * abs(paper), 0.5 * 10.0**-decimals) + 1e-9


#: The verdicts, in words of one claim and of several.
VERDICTS = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
    "not judged": ("is not judged", "are not judged"),
}


#: What the claims begin with that are not the paper's.
_TODAY = "(today"


def section(scale: Scale, ledger: Ledger) -> Section:
    claims = every_claim(scale, ledger)
    own = [claim for claim in claims if not claim.short.startswith(_TODAY)]
    cells = counted(pair for claim in claims for pair in claim.pairs)
    text = Text(
        f"Of the paper's {len(own)} claims, {_verdicts(own)}. Of today there are "
        f"{len(claims) - len(own)} more. Of the paper's cells that we measured, {cells} are within "
        f"{REPRODUCED:.0%}. Speedups are counted, and seconds are not, because machines "
        f"differ. {of_accuracies(scale, ledger)}"
    )
    columns = ["AESVM, says the paper, ...", "verdict", "on", "not on", "cells within 15 %"]
    table = Table(
        "The paper's claims, and three of today",
        columns,
        [claim.row() for claim in claims],
        "Each dataset is followed by our figure, then by the paper's in brackets. A figure is over "
        f"{_grid(scale)}. A solver that has not finished them has none: it was past its "
        f"[limit](#how), or [not run](#left-out). {ALL}: every distinct row was kept, so AESVM is "
        "the exact SVM there. After “or” comes the range of a speedup by the standard error of "
        "LIBSVM's seconds, where these are estimated. The last column counts the paper's cells.",
    )
    return Section("What the paper claims, and what we find", [text, table], "claims")


def _verdicts(claims: list[Claim]) -> str:
    number_of = Counter(claim.verdict for claim in claims)
    return ", ".join(
        f"{number_of[verdict]} {words[number_of[verdict] > 1]}"
        for verdict, words in VERDICTS.items()
        if number_of[verdict]
    )


def _grid(scale: Scale) -> str:
    few, all_of_them = len(scale.small_points), len(scale.points)
    if few == all_of_them:
        return f"all {few} points of the grid"
    return (
        f"the paper's whole grid of {all_of_them} points, or over its {few} of Table 9 ({PART}, "
        "and where solvers are compared)"
    )


def every_claim(scale: Scale, ledger: Ledger) -> list[Claim]:
    """In the order of the paper's conclusions; then those of today."""
    figures = grids.widest(scale, ledger)
    common = grids.everything(scale, ledger)
    return [
        _near(figures),
        _smaller_epsilon(figures),
        _best("typically has the lowest RMSE of the solvers compared", "RMSE", common, RIVALS),
        _features(common),
        _faster(figures),
        _best("has the highest OTS of them", "OTS", common, RIVALS),
        _fewer(figures),
        _best("has the highest OCS of them, SVMperf aside", "OCS", common, RIVALS[:3]),
        _similar(figures, common),
        _sizes(scale, ledger),
        _growing(scale, ledger),
        _subsets(scale, ledger),
        _partitions(scale, ledger),
        _polynomial(scale, ledger),
        _beside_random_rows(common),
        _beside_exact(scale, ledger, common),
        _as_it_comes(common),
    ]


def table_of(metric: str) -> dict[str, dict[str, float | None]]:
    """The paper's figures by dataset and solver, from all its tables with the RBF kernel."""
    features = published.TABLE_9.get(metric, {})
    return {
        dataset: row
        | {name: value for name, value in features.get(dataset, {}).items() if name == "RfeatSVM"}
        for dataset, row in published.RBF[metric].items()
    }


def pairs_of(figures: Figures, metrics: Iterable[str], solvers: Iterable[str]) -> list[Pair]:
    solvers = list(solvers)
    return [
        pair_of(figures, dataset, name, metric, paper)
        for metric in metrics
        for dataset, row in table_of(metric).items()
        for name, paper in row.items()
        if name in solvers and paper is not None
    ]


def pair_of(figures: Figures, dataset: str, name: str, metric: str, paper: float) -> Pair:
    one = figures.get(dataset, {}).get(name)
    ours = value_of(one, metric)
    lacks = "" if one is None or ours is not None else _lacks(one, metric)
    return Pair(ours, paper, dataset, name, lacks)


def _lacks(one: Compared, metric: str) -> str:
    """Why there is no figure, of runs that were begun."""
    if OVER in one.why:
        return f"{one.finished} of {one.wanted} points; {one.why} at others tried"
    if not one.finished:
        return one.why.strip("–")
    if one.finished < one.wanted:
        return f"{one.finished} of {one.wanted} points{_failed(one)}"
    if one.shared < one.wanted:
        late = f"; {one.exact_why} at others tried" if OVER in one.exact_why else ""
        return f"the exact SVM at {one.shared} of {one.wanted} points{late}"
    return f"seconds, and LIBSVM's on the same machine, at {one.timed} of {one.wanted} points"


def _failed(one: Compared) -> str:
    return "; failed at others" if one.why == FAILED else ""


def of_accuracies(scale: Scale, ledger: Ledger) -> str:
    """How many maxima and means are the paper's: 15 % of an accuracy is much."""
    figures = grids.widest(scale, ledger)
    pairs = pairs_of(figures, ("max", "mean"), (*SOLVERS, *RIVALS, "RfeatSVM", LIBSVM))
    measured = [(one.ours, one.paper) for one in pairs if one.ours is not None]
    near = sum(reproduced(ours, paper) for ours, paper in measured)
    same = sum(abs(ours - paper) <= SIMILAR for ours, paper in measured)
    return (
        f"Of {len(measured)} maxima and means of accuracies {near} are within {REPRODUCED:.0%}, "
        f"and {same} within {SIMILAR:g} point."
    )


def _measured(figures: Figures, metric: str, name: str = AESVM) -> Iterable[tuple[str, float]]:
    for dataset in figures:
        value = value_of(figures[dataset].get(name), metric)
        if value is not None:
            yield dataset, value


def _named(dataset: str, one: Compared) -> str:
    """With a mark where fewer points count than the whole grid has, and where all rows do."""
    return label(dataset) + (PART if one.part else "") + (ALL if one.whole else "")


def _near(figures: Figures) -> Claim:
    claim = Claim(
        "has nearly LIBSVM's accuracies", "an RMSE at most the paper's, or within 15 % of it"
    )
    for dataset, ours in _measured(figures, "RMSE"):
        paper = published.RBF["RMSE"][dataset][AESVM]
        if paper is not None:
            holds = ours <= paper or reproduced(ours, paper)
            name = _named(dataset, figures[dataset][AESVM])
            claim.judge(holds, f"{name} {number(ours, 2)} ({paper})")
    claim.pairs = pairs_of(figures, ["RMSE"], SOLVERS)
    return claim


def _smaller_epsilon(figures: Figures) -> Claim:
    claim = Claim("comes nearer as epsilon falls", "its RMSE from 1e-3 to 1e-5")
    for dataset, coarse in _measured(figures, "RMSE"):
        fine = value_of(figures[dataset].get(FINEST), "RMSE")
        if fine is not None and number(coarse, 2) != "0.00":  # there is nothing to come nearer to
            name = _named(dataset, figures[dataset][AESVM])
            shown = f"{name} {number(coarse, 2)} to {number(fine, 2)}"
            claim.judge(number(fine, 2) < number(coarse, 2), shown)
    return claim


@dataclass(frozen=True)
class Standing:
    """Where a solver is the best of several: datasets, each with the figures that say so."""

    holds: list[str]
    ties: list[str]
    others: list[str]


def standing(figures: Figures, own: str, rivals: Iterable[str], metric: str) -> Standing:
    """Of errors the lowest is the best, of speedups the highest."""
    best: Callable = min if metric == "RMSE" else max
    digits = 2 if metric == "RMSE" else 1
    found = Standing([], [], [])
    for dataset in figures:
        mine = value_of(figures[dataset].get(own), metric)
        known = {name: value_of(figures[dataset].get(name), metric) for name in rivals}
        theirs = {name: value for name, value in known.items() if value is not None}
        if mine is None or not theirs:
            continue
        rival = best(theirs, key=lambda name: theirs[name])
        name = _named(dataset, figures[dataset][own])
        shown = f"{name} {number(mine, digits)}, {rival} {number(theirs[rival], digits)}"
        papers = [table_of(metric).get(dataset, {}).get(one) for one in (own, rival)]
        if None not in papers:
            shown += f" ({papers[0]:g}, {papers[1]:g})"
        if number(mine, digits) == number(theirs[rival], digits):
            found.ties.append(shown)
        else:
            (found.holds if best(mine, theirs[rival]) == mine else found.others).append(shown)
    return found


def _best(short: str, metric: str, common: Figures, rivals: tuple[str, ...]) -> Claim:
    """Beside each dataset stands our figure, and the best rival's."""
    found = standing(common, AESVM, rivals, metric)
    ties = [f"{tie} (equal)" for tie in found.ties]
    claim = Claim(short, so=found.holds, not_so=[*found.others, *ties])
    metrics = {"RMSE": ["RMSE"], "OTS": ["ETS", "OTS"], "OCS": ["ECS", "OCS"]}[metric]
    claim.pairs = pairs_of(common, metrics, [*rivals, "CPSP"] if metric == "OCS" else rivals)
    claim.lacks = "no rival finished a grid"
    return claim


def _features(common: Figures) -> Claim:
    """All of Table 9's cells: the paper has them over the 24 points, too."""
    claim = _best("has a lower RMSE than random features", "RMSE", common, ("RfeatSVM",))
    claim.pairs = [
        pair_of(common, dataset, name, metric, paper)
        for metric, of_metric in published.TABLE_9.items()
        for dataset, row in of_metric.items()
        for name, paper in row.items()
        if paper is not None
    ]
    return claim


def _with_spread(one: Compared, value: float) -> str:
    if one.spread is None:
        return number(value)
    return f"{number(value)}, or {number(value / one.spread)} to {number(value * one.spread)}"


def _faster(figures: Figures) -> Claim:
    claim = Claim("trains faster than LIBSVM", "OTS over 1, with the seconds of its sets")
    for dataset, ours in _measured(figures, "OTS"):
        one = figures[dataset][AESVM]
        shown = f"{_named(dataset, one)} {_with_spread(one, ours)}"
        claim.judge(ours > 1.0, f"{shown} ({published.RBF['OTS'][dataset][AESVM]:g})")
    claim.pairs = pairs_of(figures, ["ETS", "OTS"], SOLVERS)
    claim.lacks = "LIBSVM's seconds were measured nowhere"
    return claim


def _fewer(figures: Figures) -> Claim:
    claim = Claim("classifies no slower than LIBSVM", "OCS at least 1")
    for dataset, ours in _measured(figures, "OCS"):
        name = _named(dataset, figures[dataset][AESVM])
        shown = f"{name} {number(ours)} ({published.RBF['OCS'][dataset][AESVM]:g})"
        claim.judge(ours >= 0.995, shown)
    claim.pairs = pairs_of(figures, ["ECS", "OCS"], SOLVERS)
    return claim


def _similar(figures: Figures, common: Figures) -> Claim:
    claim = Claim(f"has a best accuracy within {SIMILAR:g} point of LIBSVM's")
    papers = published.RBF["max"]
    for dataset, ours in _measured(figures, "max"):
        one = figures[dataset][AESVM]
        exact = value_of((common if one.part else figures)[dataset].get(LIBSVM), "max")
        if exact is not None:
            theirs = f"{papers[dataset][AESVM]:g}, {papers[dataset][LIBSVM]:g}"
            shown = f"{_named(dataset, one)} {number(ours)}, {number(exact)} ({theirs})"
            claim.judge(abs(ours - exact) <= SIMILAR, shown)
    everyone = (*SOLVERS, *RIVALS, LIBSVM)
    claim.pairs = pairs_of(figures, ("max", "mean", "std"), everyone)
    return claim


def _sizes(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim("keeps the shares M/N of Tables 2 and 3", "most of them within 15 %")
    by_dataset: dict[str, list[float]] = {}
    tables = [(e, d, row) for e, rows in published.TABLE_2.items() for d, row in rows.items()]
    tables += [(1e-3, dataset, row) for dataset, row in published.TABLE_3.items()]
    for epsilon, dataset, row in tables:
        for gamma, (paper, _) in zip(published.GAMMA_GRID, row, strict=True):
            ours = sets.mean_share(ledger, sets.reduction(scale, dataset, epsilon, gamma))
            claim.pairs.append(Pair(ours, paper, dataset, SETS))
            if ours is not None:
                by_dataset.setdefault(dataset, []).append(ours / paper)
    for dataset, ratios in sorted(by_dataset.items()):
        within = sum(abs(ratio - 1.0) <= REPRODUCED for ratio in ratios)
        shown = f"{label(dataset)} {within} of {len(ratios)}"
        if 2 * within <= len(ratios):
            shown += f" ({min(ratios):.1f} to {max(ratios):.1f} times as large)"
        claim.judge(2 * within > len(ratios), shown)
    return claim


def _growing(scale: Scale, ledger: Ledger) -> Claim:
    """Over what was measured: with g at each epsilon, and with 1/epsilon at each g."""
    claim = Claim("keeps more rows as g grows, and as epsilon falls")
    found: dict[str, dict[tuple[float, float], float]] = {}
    for epsilon, rows in published.TABLE_2.items():
        for dataset in rows:
            for gamma in published.GAMMA_GRID:
                ours = sets.mean_share(ledger, sets.reduction(scale, dataset, epsilon, gamma))
                if ours is not None:
                    found.setdefault(dataset, {})[epsilon, gamma] = ours
    for dataset, shares in sorted(found.items()):
        steps = [
            (share, shares[after])
            for (epsilon, gamma), share in shares.items()
            for after in ((epsilon, 2.0 * gamma), (_tenth(epsilon), gamma))
            if after in shares
        ]
        if steps:
            falls = sum(later < earlier for earlier, later in steps)
            shown = f"{label(dataset)} {len(steps) - falls} of {len(steps)} steps"
            claim.judge(falls == 0, shown)
    return claim


def _tenth(epsilon: float) -> float:
    finer = [one for one in published.EPSILONS if one < epsilon]
    return max(finer, default=0.0)


def _subsets(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim("keeps fewer rows the larger V is, and P matters less", "Table 1")
    shares: dict[tuple[int, int], float] = {}
    for P, row in published.TABLE_1.items():
        for V, (paper, _) in zip(published.SUBSET_SIZES, row, strict=True):
            ours = sets.mean_share(ledger, [sets.run_of(scale, P, V)])
            claim.pairs.append(Pair(ours, paper, "D1", SETS))
            if ours is not None:
                shares[P, V] = ours
    corners = [(100_000, 100), (100_000, 3000), (10_000, 1000), (200_000, 1000)]
    if all(corner in shares for corner in corners):
        by_V, by_P = (shares[a] / shares[b] for a, b in (corners[:2], corners[2:]))
        shown = f"{label('D1')} by {by_V:.2f} (2.80) and {by_P:.2f} (1.21) over the ranges"
        claim.judge(by_V > by_P, shown)
    return claim


def _partitions(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim("keeps fewer rows with FLS2 than with FLS1", "rows in a random order, Figure 1")
    for dataset in sets.ORDERED:
        found = [
            [
                sets.mean(scale, ledger, dataset, name, gamma, sets.kept_percent)
                for name in ("random + FLS1", "random + FLS2")
            ]
            for gamma in scale.orders_gammas
        ]
        both = [(one, two) for one, two in found if one is not None and two is not None]
        if both:
            first, second = (sum(sizes) for sizes in zip(*both, strict=True))
            shown = f"{label(dataset)} by a factor of {first / second:.2f}"
            claim.judge(second < first, shown)
    return claim


def _polynomial(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim(
        "is similar to LIBSVM with the polynomial kernel, and faster",
        "an RMSE at most the paper's, or within 15 % of it, and OTS over 1",
    )
    figures = grids.POLYNOMIAL.compared(scale, ledger)
    for dataset, row in published.TABLE_10.items():
        for degree, (paper, _) in zip(published.DEGREES, row, strict=True):
            runs = sets.reduction(scale, dataset, 1e-3, 1.0, degree)
            claim.pairs.append(Pair(sets.mean_share(ledger, runs), paper, dataset, SETS))
    for metric, of_metric in published.TABLE_11.items():
        for dataset, cells in of_metric.items():
            for name, value in cells.items():
                if value is not None:
                    claim.pairs.append(pair_of(figures, dataset, name, metric, value))
    claim.lacks = "LIBSVM's seconds were measured nowhere"
    for dataset, error in _measured(figures, "RMSE"):
        speed = value_of(figures[dataset].get(AESVM), "OTS")
        if speed is not None:
            papers = [published.TABLE_11[m][dataset][AESVM] or 0.0 for m in ("RMSE", "OTS")]
            shown = f"{label(dataset)} {number(error, 2)}, {number(speed)} "
            shown += f"({papers[0]:g}, {papers[1]:g})"
            near = error <= papers[0] or reproduced(error, papers[0])
            claim.judge(speed > 1.0 and near, shown)
    return claim


def _beside_random_rows(common: Figures) -> Claim:
    """As many random rows as AESVM keeps, as many as take its time, and Nystroem's method."""
    return Claim(
        "(today) has a lower RMSE than random rows and Nystroem's method",
        so=(found := standing(common, AESVM, APPROXIMATE_TODAY, "RMSE")).holds,
        not_so=[*found.others, *(f"{tie} (equal)" for tie in found.ties)],
    )


def _beside_exact(scale: Scale, ledger: Ledger, common: Figures) -> Claim:
    """The paper had LIBSVM's solver on either side; ours is faster, on either side."""
    claim = Claim("(today) trains faster than our exact SVM of all rows", "their OTS")
    for dataset, ours in _measured(common, "OTS"):
        runs = grids.small_grid(scale, dataset, EXACT)
        exact = value_of(compare(ledger, [twin(run) for run in runs], runs), "OTS")
        if exact is not None and not common[dataset][AESVM].whole:  # there both are the same SVM
            shown = f"{label(dataset)} {number(ours)}, {number(exact)}"
            claim.judge(ours > exact, shown)
    return claim


def _as_it_comes(common: Figures) -> Claim:
    claim = Claim("(today, `AESVC` by default) trains faster than intelex", "their OTS; its RMSE")
    for dataset, ours in _measured(common, "OTS", "AESVC auto"):
        intelex = value_of(common[dataset].get("intelex"), "OTS")
        error = value_of(common[dataset]["AESVC auto"], "RMSE")
        if intelex is not None:
            shown = f"{label(dataset)} {number(ours)}, {number(intelex)}; {number(error, 2)}"
            claim.judge(ours > intelex, shown)
    return claim
