"""What the paper claims, whether it holds, and how many of its figures we find.

A claim is about datasets. It holds where the figures say so on every dataset measured, and holds
in part where they do on some. A solver counts where it and LIBSVM finished every point of the
grid: figures over different points cannot be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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
    SHOWN,
    SPEEDUPS,
    UNTIMED,
    Compared,
    Figures,
    compare,
    number,
    twin,
    value_of,
)
from experiments.paper.pages import Block, Cell, Section, Table, Text
from experiments.paper.runs import Ledger
from experiments.paper.scales import ORDER, Scale

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


#: What becomes of a cell of the paper, in the order in which the report says so.
SAME, BETTER, APART = f"within {100 * REPRODUCED:g} %", "better", "apart"
LATE, OPEN = "past a limit", "not run"


class Pair(NamedTuple):
    """Our figure, None where it was not measured, and the paper's.

    ``lacks``: why it was not measured, where more is known than that it was not run.
    """

    ours: float | None
    paper: float
    dataset: str = ""
    solver: str = ""
    metric: str = ""
    lacks: str = ""

    @property
    def outcome(self) -> str:
        if self.ours is None:
            timed = UNTIMED if self.lacks and self.metric in SPEEDUPS else OPEN
            return LATE if OVER in self.lacks else timed
        if reproduced(self.ours, self.paper):
            return SAME
        least_is_best = SHOWN[self.metric][2] if self.metric in SHOWN else None
        return BETTER if least_is_best is (self.ours < self.paper) else APART


class Finding(NamedTuple):
    """The figures of a dataset, and whether the claim holds there; it does not where two tie."""

    dataset: str
    holds: bool
    figures: Sequence[Cell | str]
    marks: str = ""
    tie: bool = False

    @property
    def word(self) -> str:
        return "equal" if self.tie else "yes" if self.holds else "no"


@dataclass
class Claim:
    """What the paper says, and what was found on each dataset: figures under ``columns``."""

    short: str
    details: str = ""
    columns: Sequence[str] = ()
    found: list[Finding] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    lacks: str = ""  #: what has to be run before it can be judged

    def judge(
        self, holds: bool, dataset: str, *figures: Cell | str, marks: str = "", tie: bool = False
    ) -> None:
        self.found.append(Finding(dataset, holds, figures, marks, tie))

    @property
    def verdict(self) -> str:
        holds = [one.holds for one in self.found]
        if not holds:
            return "not judged"
        if all(holds):
            return "holds"
        return "holds in part" if any(holds) else "does not hold"

    @property
    def words(self) -> str:
        return f"{self.short}: {self.details}" if self.details else self.short

    def row(self) -> list[Cell | str]:
        """A line of the verdicts: a word for each dataset."""
        of = {one.dataset: one.word for one in self.found}
        why = f" ({self.lacks})" if self.lacks and not self.found else ""
        counts = Counter(pair.outcome for pair in self.pairs)
        measured = counts[SAME] + counts[BETTER] + counts[APART]
        cells = f"{counts[SAME]}, {counts[BETTER]} of {measured}" if self.pairs else ""
        return [self.short, f"**{self.verdict}**{why}", *(of.get(d, "") for d in DATASETS), cells]

    def table(self) -> Table:
        """A line for each dataset."""
        rows = [[label(one.dataset) + one.marks, *one.figures, one.word] for one in self.found]
        return Table(self.words, ["dataset", *self.columns, "holds"], rows)


DATASETS = sorted(ORDER)


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


def section(claims: Sequence[Claim], accuracies: str) -> Section:
    own = [claim for claim in claims if not claim.short.startswith(_TODAY)]
    counts = Counter(pair.outcome for claim in claims for pair in claim.pairs)
    measured = counts[SAME] + counts[BETTER] + counts[APART]
    others = [f"{counts[kind]:,} {kind}" for kind in (LATE, UNTIMED, OPEN) if counts[kind]]
    text = Text(
        f"Of the paper's {len(own)} claims, {_verdicts(own)}. The last {len(claims) - len(own)} "
        "compare AESVM with what is used today.\n\n"
        f"The paper's tables have {counts.total():,} cells about these claims. We measured "
        f"{measured:,}: {counts[SAME]:,} are {SAME} of the paper's figure, and {counts[BETTER]:,} "
        "more are better than it."
        + (f" The others: {', '.join(others)} ([which and why](#left-out))." if others else "")
        + f" Seconds are not counted, because machines differ; speedups are. {accuracies}"
    )
    table = Table(
        "The paper's claims, and three of today",
        ["AESVM, says the paper, ...", "verdict", *DATASETS, f"cells {SAME}, {BETTER}"],
        [claim.row() for claim in claims],
        "“yes”: the claim holds on that dataset ([the figures](#figures)). “equal”: a rival has "
        "the same figure, so it does not. Empty: the paper does not say so there, or we could not "
        f"measure it. The last column: of the paper's cells that we measured, how many are {SAME} "
        "of the paper's figure, and how many others are better.",
    )
    return Section("What the paper claims, and what we find", [text, table], "claims")


def figures_section(claims: Sequence[Claim], scale: Scale) -> Section:
    """What each verdict rests on."""
    text = Text(
        f"Our figure, then the paper's in brackets, over {_grid(scale)}. A solver counts where it "
        f"finished all of them. {ALL}: every distinct row was kept, so AESVM is the exact SVM "
        "there. The range of a speedup is one standard error of LIBSVM's estimated seconds."
    )
    tables: list[Block] = [claim.table() for claim in claims if claim.found]
    return Section("The figures behind the verdicts", [text, *tables], "figures")


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
        _best_of_paper(
            "typically has the lowest RMSE of the solvers compared", "RMSE", common, RIVALS
        ),
        _features(common),
        _faster(figures),
        _best_of_paper("has the highest OTS of them", "OTS", common, RIVALS),
        _fewer(figures),
        _best_of_paper("has the highest OCS of them, SVMperf aside", "OCS", common, RIVALS[:3]),
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
    return Pair(ours, paper, dataset, name, metric, lacks)


def _lacks(one: Compared, metric: str) -> str:
    """Why there is no figure, of runs that were begun."""
    if OVER in one.why:
        return f"{one.finished} of {one.wanted} points; {one.why} at others tried"
    if not one.finished:
        return one.why.strip("–")
    if one.finished < one.wanted:
        failed = "; failed at others" if one.why == FAILED else ""
        return f"{one.finished} of {one.wanted} points{failed}"
    if one.shared < one.wanted:
        late = f"; {one.exact_why} at others tried" if OVER in one.exact_why else ""
        return f"the exact SVM at {one.shared} of {one.wanted} points{late}"
    return f"timed beside LIBSVM at {one.timed} of {one.wanted} points; {one.untimed}"


def of_accuracies(scale: Scale, ledger: Ledger) -> str:
    """How many maxima and means are the paper's: 15 % of an accuracy is much."""
    figures = grids.widest(scale, ledger)
    pairs = pairs_of(figures, ("max", "mean"), (*SOLVERS, *RIVALS, "RfeatSVM", LIBSVM))
    measured = [(one.ours, one.paper) for one in pairs if one.ours is not None]
    near = sum(reproduced(ours, paper) for ours, paper in measured)
    same = sum(abs(ours - paper) <= SIMILAR for ours, paper in measured)
    return (
        f"Of {len(measured)} maxima and means of accuracies {near} are {SAME}, and {same} within "
        f"{SIMILAR:g} point."
    )


def _measured(figures: Figures, metric: str, name: str = AESVM) -> Iterable[tuple[str, float]]:
    for dataset in figures:
        value = value_of(figures[dataset].get(name), metric)
        if value is not None:
            yield dataset, value


def _marks(one: Compared, metric: str) -> str:
    """Where fewer points count than the whole grid has, and where all rows do."""
    return PART * (metric in one.part) + ALL * one.whole


def _paper(metric: str, dataset: str, name: str) -> str:
    value = table_of(metric).get(dataset, {}).get(name)
    return "" if value is None else f"{value:g}"


def _is_near(error: float, paper: float) -> bool:
    """An RMSE in hundredths."""
    return error <= max(SIMILAR, paper) or reproduced(error, paper)


_NEAR = f"an RMSE under {SIMILAR:g} point, or at most the paper's (or {SAME} of it)"


def _near(figures: Figures) -> Claim:
    claim = Claim("has nearly LIBSVM's accuracies", _NEAR, ["RMSE"])
    for dataset, ours in _measured(figures, "RMSE"):
        paper = published.RBF["RMSE"][dataset][AESVM]
        if paper is not None:
            marks = _marks(figures[dataset][AESVM], "RMSE")
            shown = Cell(number(ours, 2), f"{paper:g}")
            claim.judge(_is_near(ours, paper), dataset, shown, marks=marks)
    claim.pairs = pairs_of(figures, ["RMSE"], SOLVERS)
    return claim


def _smaller_epsilon(figures: Figures) -> Claim:
    claim = Claim("comes nearer as epsilon falls", "", ["RMSE at 1e-3", "at 1e-5"])
    for dataset, coarse in _measured(figures, "RMSE"):
        fine = value_of(figures[dataset].get(FINEST), "RMSE")
        if fine is not None and number(coarse, 2) != "0.00":  # there is nothing to come nearer to
            shown = [
                Cell(number(error, 2), _paper("RMSE", dataset, name))
                for error, name in ((coarse, AESVM), (fine, FINEST))
            ]
            marks = _marks(figures[dataset][AESVM], "RMSE")
            claim.judge(number(fine, 2) < number(coarse, 2), dataset, *shown, marks=marks)
    return claim


def best(short: str, metric: str, common: Figures, rivals: Iterable[str]) -> Claim:
    """Whether AESVM is the best of several: of errors the lowest is, of speedups the highest."""
    rivals = list(rivals)
    claim = Claim(short, "", [f"AESVM's {metric}", f"the best rival's {metric}"])
    choose: Callable = min if metric == "RMSE" else max
    digits = SHOWN[metric][1]
    for dataset in common:
        mine = value_of(common[dataset].get(AESVM), metric)
        known = {name: value_of(common[dataset].get(name), metric) for name in rivals}
        theirs = {name: value for name, value in known.items() if value is not None}
        if mine is None or not theirs:
            continue
        rival = choose(theirs, key=lambda name: theirs[name])
        ours, others = number(mine, digits), number(theirs[rival], digits)
        claim.judge(
            ours != others and choose(mine, theirs[rival]) == mine,
            dataset,
            Cell(ours, _paper(metric, dataset, AESVM)),
            Cell(f"{rival} {others}", _paper(metric, dataset, rival)),
            marks=_marks(common[dataset][AESVM], metric),
            tie=ours == others,
        )
    claim.lacks = "no rival finished a grid"
    return claim


def _best_of_paper(short: str, metric: str, common: Figures, rivals: tuple[str, ...]) -> Claim:
    claim = best(short, metric, common, rivals)
    metrics = {"RMSE": ["RMSE"], "OTS": ["ETS", "OTS"], "OCS": ["ECS", "OCS"]}[metric]
    claim.pairs = pairs_of(common, metrics, [*rivals, "CPSP"] if metric == "OCS" else rivals)
    return claim


def _features(common: Figures) -> Claim:
    """All of Table 9's cells: the paper has them over the 24 points, too."""
    claim = best("has a lower RMSE than random features", "RMSE", common, ["RfeatSVM"])
    claim.pairs = [
        pair_of(common, dataset, name, metric, paper)
        for metric, of_metric in published.TABLE_9.items()
        for dataset, row in of_metric.items()
        for name, paper in row.items()
        if paper is not None
    ]
    return claim


def _faster(figures: Figures) -> Claim:
    details = "OTS over 1, with the seconds of its sets"
    claim = Claim("trains faster than LIBSVM", details, ["OTS", "range"])
    for dataset, ours in _measured(figures, "OTS"):
        one = figures[dataset][AESVM]
        spread = one.spread
        span = f"{number(ours / spread)} to {number(ours * spread)}" if spread else "measured"
        shown = Cell(number(ours), _paper("OTS", dataset, AESVM))
        claim.judge(ours > 1.0, dataset, shown, span, marks=_marks(one, "OTS"))
    claim.pairs = pairs_of(figures, SPEEDUPS, SOLVERS)
    claim.lacks = "LIBSVM's seconds were measured nowhere"
    return claim


def _fewer(figures: Figures) -> Claim:
    claim = Claim("classifies no slower than LIBSVM", "OCS at least 1", ["OCS"])
    for dataset, ours in _measured(figures, "OCS"):
        shown = Cell(number(ours), _paper("OCS", dataset, AESVM))
        marks = _marks(figures[dataset][AESVM], "OCS")
        claim.judge(ours >= 0.995, dataset, shown, marks=marks)
    claim.pairs = pairs_of(figures, ["ECS", "OCS"], SOLVERS)
    return claim


def _similar(figures: Figures, common: Figures) -> Claim:
    claim = Claim(
        f"has a best accuracy within {SIMILAR:g} point of LIBSVM's", "", ["AESVM's", "LIBSVM's"]
    )
    for dataset, ours in _measured(figures, "max"):
        one = figures[dataset][AESVM]
        exact = value_of((common if "max" in one.part else figures)[dataset].get(LIBSVM), "max")
        if exact is not None:
            shown = [
                Cell(number(value), _paper("max", dataset, name))
                for value, name in ((ours, AESVM), (exact, LIBSVM))
            ]
            holds = abs(ours - exact) <= SIMILAR
            claim.judge(holds, dataset, *shown, marks=_marks(one, "max"))
    claim.pairs = pairs_of(figures, ("max", "mean", "std"), (*SOLVERS, *RIVALS, LIBSVM))
    return claim


def _sizes(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim(
        "keeps the shares M/N of Tables 2 and 3",
        f"most of them {SAME}",
        [SAME, "ours over the paper's"],
    )
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
        shown = f"{within} of {len(ratios)}", f"{min(ratios):.1f} to {max(ratios):.1f}"
        claim.judge(2 * within > len(ratios), dataset, *shown)
    return claim


def _growing(scale: Scale, ledger: Ledger) -> Claim:
    """Over what was measured: with g at each epsilon, and with 1/epsilon at each g."""
    claim = Claim("keeps more rows as g grows, and as epsilon falls", "", ["steps that grow"])
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
            claim.judge(falls == 0, dataset, f"{len(steps) - falls} of {len(steps)}")
    return claim


def _tenth(epsilon: float) -> float:
    finer = [one for one in published.EPSILONS if one < epsilon]
    return max(finer, default=0.0)


def _subsets(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim(
        "keeps fewer rows the larger V is, and P matters less",
        "Table 1, rows kept at the one over the other",
        ["V = 100 over 3,000", "P = 10,000 over 200,000"],
    )
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
        claim.judge(by_V > by_P, "D1", Cell(f"{by_V:.2f}", "2.80"), Cell(f"{by_P:.2f}", "1.21"))
    return claim


def _partitions(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim(
        "keeps fewer rows with FLS2 than with FLS1",
        "rows in a random order, Figure 1",
        ["rows kept, FLS1 over FLS2"],
    )
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
            claim.judge(second < first, dataset, f"{first / second:.2f}")
    return claim


def _polynomial(scale: Scale, ledger: Ledger) -> Claim:
    claim = Claim(
        "is similar to LIBSVM with the polynomial kernel, and faster",
        f"{_NEAR}, and OTS over 1",
        ["RMSE", "OTS"],
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
            shown = Cell(number(error, 2), f"{papers[0]:g}"), Cell(number(speed), f"{papers[1]:g}")
            claim.judge(speed > 1.0 and _is_near(error, papers[0]), dataset, *shown)
    return claim


def _beside_random_rows(common: Figures) -> Claim:
    """As many random rows as AESVM keeps, as many as take its time, and Nystroem's method."""
    short = "(today) has a lower RMSE than random rows and Nystroem's method"
    return best(short, "RMSE", common, APPROXIMATE_TODAY)


def _beside_exact(scale: Scale, ledger: Ledger, common: Figures) -> Claim:
    """The paper had LIBSVM's solver on either side; ours is faster, on either side."""
    short = "(today) trains faster than our exact SVM of all rows"
    claim = Claim(short, "", ["AESVM's OTS", "the exact SVM's"])
    for dataset, ours in _measured(common, "OTS"):
        runs = grids.small_grid(scale, dataset, EXACT)
        exact = value_of(compare(ledger, [twin(run) for run in runs], runs), "OTS")
        if exact is not None and not common[dataset][AESVM].whole:  # there both are the same SVM
            claim.judge(ours > exact, dataset, number(ours), number(exact))
    return claim


def _as_it_comes(common: Figures) -> Claim:
    short = "(today, `AESVC` by default) trains faster than intelex"
    claim = Claim(short, "", ["its OTS", "intelex's OTS", "its RMSE"])
    for dataset, ours in _measured(common, "OTS", "AESVC auto"):
        intelex = value_of(common[dataset].get("intelex"), "OTS")
        error = value_of(common[dataset]["AESVC auto"], "RMSE")
        if intelex is not None:
            claim.judge(ours > intelex, dataset, number(ours), number(intelex), number(error, 2))
    return claim
