"""The first page: what the paper claims, whether it holds, and how many of its figures we find.

A claim is about datasets. It holds where the figures say so on every dataset measured, holds in
part where on some, and is not judged on a dataset whose grid is not complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.datasets import label
from experiments.paper import grids, published, sets
from experiments.paper.claims import RIVALS, SIMILAR, Standing, size_ratios, standing
from experiments.paper.comparison import (
    AESVM,
    EXACT,
    LIBSVM,
    Compared,
    Figures,
    compare,
    number,
    twin,
)
from experiments.paper.pages import Section, Table, Text
from experiments.paper.runs import Ledger
from experiments.paper.scales import Scale

#: A figure is the paper's where it differs by no more than this share of it.
REPRODUCED = 0.15

#: Our figure, None where it was not measured, and the paper's.
Pair = tuple[float | None, float]

SOLVERS = tuple(published.AESVM.values())
FINE, FINEST = published.AESVM[1e-4], published.AESVM[1e-5]


@dataclass
class Claim:
    """What the paper says; datasets where that is so and where not, each with its figures."""

    words: str
    so: list[str] = field(default_factory=list)
    not_so: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)

    def judge(self, holds: bool, words: str) -> None:
        (self.so if holds else self.not_so).append(words)

    @property
    def verdict(self) -> str:
        if not self.so and not self.not_so:
            return "not run"
        if not self.not_so:
            return "**holds**"
        return "**holds in part**" if self.so else "**does not hold**"

    def row(self) -> list[str]:
        said = "; ".join(self.so) or "–", "; ".join(self.not_so) or "–"
        return [self.words, self.verdict, *said, counted(self.pairs)]


def counted(pairs: Iterable[Pair]) -> str:
    """Cells of the paper that are found again: of those measured, and how many there are."""
    every = list(pairs)
    measured = [(ours, paper) for ours, paper in every if ours is not None]
    if not every:
        return "–"
    same = sum(reproduced(ours, paper) for ours, paper in measured)
    return f"{same} of {len(measured)} measured (of {len(every)})"


def reproduced(ours: float, paper: float) -> bool:
    """Half a unit of the paper's last digit is allowed as well: it prints 0.02 and 0.5."""
    decimals = len(f"{paper:g}".partition(".")[2])
    return abs(ours - paper) <= max(REPRODUCED * abs(paper), 0.5 * 10.0**-decimals) + 1e-9


def section(scale: Scale, ledger: Ledger) -> Section:
    claims = every_claim(scale, ledger)
    texts = [
        Text(
            "What the paper says of AESVM, held against these runs. Behind a dataset stands our "
            "figure, then the paper's. A dataset counts once all its runs are made: over the "
            "paper's 84 points or, where those are not complete, over its 24 "
            "(a star; [how](#how)). The last column counts the paper's own cells that we find "
            f"within {REPRODUCED:.0%}."
        )
    ]
    table = Table(
        "The paper's claims",
        ["AESVM, says the paper, ...", "verdict", "so on", "not so on", "cells within 15 %"],
        [claim.row() for claim in claims],
        f"All together: {counted(pair for claim in claims for pair in claim.pairs)}. Seconds are "
        "not counted, as machines differ. Accuracies are within 15 % nearly always: what says "
        f"more is how many are within {SIMILAR:g} point, {within_a_point(scale, ledger)}.",
    )
    return Section("What the paper claims, and what we find", [*texts, table], "claims")


def every_claim(scale: Scale, ledger: Ledger) -> list[Claim]:
    """In the order of the paper's conclusions."""
    figures = grids.widest(scale, ledger)
    common = grids.everything(scale, ledger)
    return [
        _near(scale, figures),
        _smaller_epsilon(scale, figures),
        _best("has the lowest RMSE of the solvers compared", "RMSE", common, RIVALS, figures),
        _features(common),
        _faster(scale, figures),
        _best("has the highest OTS of them", "OTS", common, RIVALS, figures),
        _fewer(scale, figures),
        _best("has the highest OCS but for SVMperf's", "OCS", common, RIVALS[:3], figures),
        _similar(scale, figures, common),
        _sizes(scale, ledger),
        _growing(scale, ledger),
        _subsets(scale, ledger),
        _partitions(scale, ledger),
        _polynomial(scale, ledger),
        _beside_exact(scale, ledger, common),
    ]


def table_of(metric: str) -> dict[str, dict[str, float | None]]:
    """The paper's figures by dataset and solver, from all its tables with the RBF kernel."""
    found: dict[str, dict[str, float | None]] = {}
    for table in (published.TABLE_4, published.TABLE_5, published.TABLE_6, published.TABLE_7):
        for dataset, row in table.get(metric, {}).items():
            found.setdefault(dataset, {}).update(row)
    for dataset, of_dataset in published.TABLE_8.items():
        found[dataset]["CPSP"] = of_dataset["CPSP"][published.METRICS.index(metric)]
    features = ("RMSE", "max", "mean", "std")
    if metric in features:
        for dataset, of_dataset in published.TABLE_9.items():
            found[dataset]["RfeatSVM"] = of_dataset["RfeatSVM"][features.index(metric)]
    return found


def value_of(one: Compared | None, metric: str) -> float | None:
    return None if one is None or one.of(metric) < one.wanted else one.values[metric]


def pairs_of(figures: Figures, metrics: Iterable[str], solvers: Iterable[str]) -> list[Pair]:
    solvers = list(solvers)
    return [
        (value_of(figures.get(dataset, {}).get(name), metric), paper)
        for metric in metrics
        for dataset, row in table_of(metric).items()
        for name, paper in row.items()
        if name in solvers and paper is not None
    ]


def within_a_point(scale: Scale, ledger: Ledger) -> str:
    figures = grids.widest(scale, ledger)
    pairs = pairs_of(figures, ("max", "mean"), (*SOLVERS, *RIVALS, "RfeatSVM", LIBSVM))
    measured = [(ours, paper) for ours, paper in pairs if ours is not None]
    same = sum(abs(ours - paper) <= SIMILAR for ours, paper in measured)
    return f"{same} of {len(measured)} measured maxima and means (of {len(pairs)})"


def _measured(figures: Figures, metric: str, name: str = AESVM) -> Iterable[tuple[str, float]]:
    for dataset in figures:
        value = value_of(figures[dataset].get(name), metric)
        if value is not None:
            yield dataset, value


def _named(scale: Scale, dataset: str, one: Compared) -> str:
    """With a star where fewer points count than the whole grid has."""
    return label(dataset) + ("*" if one.wanted < _whole(scale, dataset) else "")


def _whole(scale: Scale, dataset: str) -> int:
    """Runs of the whole grid."""
    return len(scale.points) * len(scale.folds_of(dataset))


def _near(scale: Scale, figures: Figures) -> Claim:
    papers = table_of("RMSE")
    claim = Claim(
        "has LIBSVM's accuracies, nearly: an RMSE as small as the paper's, or within 15 % of it"
    )
    for dataset, ours in _measured(figures, "RMSE"):
        paper = papers[dataset][AESVM]
        if paper is not None:
            holds = ours <= paper or reproduced(ours, paper)
            name = _named(scale, dataset, figures[dataset][AESVM])
            claim.judge(holds, f"{name} {number(ours, 2)} ({paper})")
    claim.pairs = pairs_of(figures, ["RMSE"], SOLVERS)
    return claim


def _smaller_epsilon(scale: Scale, figures: Figures) -> Claim:
    claim = Claim("comes nearer as epsilon falls from 1e-3 to 1e-5")
    for dataset, coarse in _measured(figures, "RMSE"):
        fine = value_of(figures[dataset].get(FINEST), "RMSE")
        if fine is not None:
            name = _named(scale, dataset, figures[dataset][AESVM])
            shown = f"{name} {number(coarse, 2)} to {number(fine, 2)}"
            claim.judge(number(fine, 2) < number(coarse, 2), shown)
    return claim


def _best(
    words: str, metric: str, common: Figures, rivals: tuple[str, ...], figures: Figures
) -> Claim:
    found: Standing = standing(common, AESVM, rivals, metric)
    claim = Claim(words, list(found.holds), [*found.others, *(f"{d} (equal)" for d in found.ties)])
    metrics = {"RMSE": ["RMSE"], "OTS": ["ETS", "OTS"], "OCS": ["ECS", "OCS"]}[metric]
    alone = [*rivals, "CPSP"] if metric == "OCS" else rivals
    claim.pairs = pairs_of(figures, metrics, alone)
    return claim


def _features(common: Figures) -> Claim:
    """All of Table 9's cells: the paper has them over the 24 points, too."""
    words = "has a lower RMSE than random features (Table 9)"
    claim = _best(words, "RMSE", common, ("RfeatSVM",), {})
    claim.pairs = [
        (value_of(common[dataset].get(name), metric), paper)
        for dataset, of_dataset in published.TABLE_9.items()
        for name, row in of_dataset.items()
        for metric, paper in zip(("RMSE", "max", "mean", "std"), row, strict=True)
        if paper is not None
    ]
    return claim


def _with_spread(one: Compared, value: float) -> str:
    if one.spread is None:
        return number(value)
    return f"{number(value)} ({number(value / one.spread)} to {number(value * one.spread)})"


def _faster(scale: Scale, figures: Figures) -> Claim:
    papers = table_of("OTS")
    claim = Claim("trains faster than LIBSVM: OTS, with the seconds of its sets, over 1")
    for dataset, ours in _measured(figures, "OTS"):
        one = figures[dataset][AESVM]
        shown = f"{_named(scale, dataset, one)} {_with_spread(one, ours)}"
        claim.judge(ours > 1.0, f"{shown} ({papers[dataset][AESVM]})")
    claim.pairs = pairs_of(figures, ["ETS", "OTS"], SOLVERS)
    return claim


def _beside_exact(scale: Scale, ledger: Ledger, common: Figures) -> Claim:
    """The paper had LIBSVM's solver on either side; ours is faster, on either side."""
    claim = Claim("(of today) trains faster than our exact SVM of all rows: their OTS")
    for dataset, ours in _measured(common, "OTS"):
        runs = grids.small_grid(scale, dataset, EXACT)
        exact = value_of(compare(ledger, [twin(run) for run in runs], runs), "OTS")
        if exact is not None:
            shown = f"{label(dataset)} {number(ours)}, {number(exact)}"
            claim.judge(ours > exact, shown)
    return claim


def _fewer(scale: Scale, figures: Figures) -> Claim:
    papers = table_of("OCS")
    claim = Claim("classifies no slower than LIBSVM: OCS at least 1")
    for dataset, ours in _measured(figures, "OCS"):
        name = _named(scale, dataset, figures[dataset][AESVM])
        shown = f"{name} {number(ours)} ({papers[dataset][AESVM]})"
        claim.judge(ours >= 0.995, shown)
    claim.pairs = pairs_of(figures, ["ECS", "OCS"], SOLVERS)
    return claim


def _similar(scale: Scale, figures: Figures, common: Figures) -> Claim:
    claim = Claim(f"has a best accuracy within {SIMILAR:g} point of LIBSVM's")
    papers = table_of("max")
    for dataset, ours in _measured(figures, "max"):
        alike = figures if figures[dataset][AESVM].wanted == _whole(scale, dataset) else common
        exact = value_of(alike[dataset].get(LIBSVM), "max")
        if exact is not None:
            theirs = f"{papers[dataset][AESVM]}, {papers[dataset][LIBSVM]}"
            name = _named(scale, dataset, figures[dataset][AESVM])
            shown = f"{name} {number(ours)}, {number(exact)} ({theirs})"
            claim.judge(abs(ours - exact) <= SIMILAR, shown)
    everyone = (*SOLVERS, *RIVALS, LIBSVM)
    claim.pairs = pairs_of(figures, ("max", "mean", "std"), everyone)
    return claim


def _sizes(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim("keeps the shares M/N of Tables 2 and 3: most of them within 15 %")
    tables = [(e, d, row) for e, rows in published.TABLE_2.items() for d, row in rows.items()]
    tables += [(1e-3, dataset, row) for dataset, row in published.TABLE_3.items()]
    for epsilon, dataset, row in tables:
        for gamma, (paper, _) in zip(published.GAMMA_GRID, row, strict=True):
            ours = sets.mean_share(ledger, sets.reduction(scale, dataset, epsilon, gamma))
            claim.pairs.append((ours, paper))
    for dataset, ratios in sorted(size_ratios(scale, ledger).items()):
        if ratios:
            within = sum(abs(ratio - 1.0) <= REPRODUCED for ratio in ratios)
            shown = f"{label(dataset)} {within} of {len(ratios)}"
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
    claim = Claim("keeps fewer rows the larger V is; P matters less (Table 1, D1)")
    shares: dict[tuple[int, int], float] = {}
    for P, row in published.TABLE_1.items():
        for V, (paper, _) in zip(published.SUBSET_SIZES, row, strict=True):
            ours = sets.mean_share(ledger, [sets.run_of(scale, P, V)])
            claim.pairs.append((ours, paper))
            if ours is not None:
                shares[P, V] = ours
    corners = [(100_000, 100), (100_000, 3000), (10_000, 1000), (200_000, 1000)]
    if all(corner in shares for corner in corners):
        by_V, by_P = (shares[a] / shares[b] for a, b in (corners[:2], corners[2:]))
        shown = f"{label('D1')} by {by_V:.2f} (2.80) and {by_P:.2f} (1.21) over the ranges"
        claim.judge(by_V > by_P, shown)
    return claim


def _partitions(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim("keeps fewer rows with FLS2 than with FLS1, rows in a random order (Figure 1)")
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
    claim = Claim("does as well with the polynomial kernel (Tables 10 and 11): RMSE, OTS over 1")
    figures = grids.POLYNOMIAL.compared(scale, ledger)
    for dataset, row in published.TABLE_10.items():
        for degree, (paper, _) in row.items():
            runs = sets.reduction(scale, dataset, 1e-3, 1.0, degree)
            claim.pairs.append((sets.mean_share(ledger, runs), paper))
    for dataset, of_dataset in published.TABLE_11.items():
        for name, figures_of in of_dataset.items():
            one = figures[dataset].get(name)
            for metric, value in zip(published.METRICS, figures_of, strict=True):
                if value is not None:
                    claim.pairs.append((value_of(one, metric), value))
        error = value_of(figures[dataset].get(AESVM), "RMSE")
        speed = value_of(figures[dataset].get(AESVM), "OTS")
        if error is not None and speed is not None:
            theirs = of_dataset[AESVM]
            shown = f"{label(dataset)} {number(error, 2)}, {number(speed)} "
            shown += f"({theirs[0]}, {theirs[2]})"
            paper = theirs[0] or 0.0
            claim.judge(speed > 1.0 and (error <= paper or reproduced(error, paper)), shown)
    return claim
