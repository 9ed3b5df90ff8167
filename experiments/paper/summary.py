"""The report's first page: five lines, what its words mean, and the claims in one table."""

from __future__ import annotations

from benchmarks.datasets import REGISTRY, label
from experiments.paper import grids, published
from experiments.paper.claims import (
    APPROXIMATE_TODAY,
    FAST_TODAY,
    RIVALS,
    Standing,
    errors_of_auto,
    size_ratios,
    speed_beside_intelex,
    standing,
)
from experiments.paper.comparison import AESVM, Figures
from experiments.paper.pages import Block, Points, Section, Table, Text
from experiments.paper.readings import AGREES, agreeing
from experiments.paper.runs import Ledger
from experiments.paper.scales import Scale

#: What the abbreviations of the tables stand for.
WORDS = (
    ("LIBSVM", "the exact SVM that all are held against; here scikit-learn's SVC"),
    ("AESVM", "the paper's method: an SVM of weighted representatives; `AESVC(refine=0)`"),
    ("epsilon", "squared distance in kernel space within which representatives reach every row"),
    ("N, M", "rows, and how many of them represent"),
    ("P, V", "rows of the pieces that are cut into subsets, and of a subset"),
    ("FLS1, FLS2", "first-level segregation: pieces of rows in their order, or by distance"),
    ("C', g", "regularisation, and gamma of the RBF kernel: a pair is a point of the grid"),
    ("RMSE", "root mean squared difference of accuracies from LIBSVM's, over the grid, times 100"),
    ("ETS", "expected training time speedup: the mean of LIBSVM's time over the other's"),
    ("OTS", "overall training time speedup: LIBSVM's time for the whole grid over the other's"),
    ("ECS, OCS", "the same two of support vectors, which the time of classification follows"),
    ("CPSP, RfeatSVM", "the method of SVMperf, and random Fourier features with a linear SVM"),
    ("(part), (stand-in)", "fewer rows than the paper has, or another dataset in its place"),
)


def sections(scale: Scale, ledger: Ledger) -> list[Section]:
    figures = grids.everything(scale, ledger)
    return [_five_lines(scale, ledger, figures), _words(), _table(scale, ledger, figures)]


def _five_lines(scale: Scale, ledger: Ledger, figures: Figures) -> Section:
    """Without any of the words that are explained after it."""
    sizes = [values for values in size_ratios(scale, ledger).values() if values]
    alike = sum(agreeing(values) >= 0.8 * len(values) for values in sizes)
    times = list(speed_beside_intelex(figures).values())
    errors = errors_of_auto(figures)
    compared = [
        (
            "Beside the rivals that the paper chose, its method has the accuracies nearest to the "
            "exact SVM's {}.",
            standing(figures, AESVM, RIVALS, "RMSE"),
        ),
        (
            "Beside rivals that it did not choose (random rows, Nystroem's method) it has them {}.",
            standing(figures, AESVM, APPROXIMATE_TODAY, "RMSE"),
        ),
        (
            "It is the fastest to train of those that the paper chose {}.",
            standing(figures, AESVM, RIVALS, "OTS"),
        ),
        (
            "Beside today's programs it is the fastest {}.",
            standing(figures, AESVM, FAST_TODAY, "OTS"),
        ),
    ]
    lines = [
        *(words.format(_on(found)) for words, found in compared if found.of),
        f"Its sets have the sizes that the paper reports, within {AGREES:.0%} nearly everywhere, "
        f"on {alike} of {len(sizes)} datasets.",
    ]
    if times and errors:
        lines.append(
            "This package as it comes differs from the exact SVM's accuracies by "
            f"{max(errors)[0]:.2f} hundredths at most, and is faster than scikit-learn-intelex on "
            f"{sum(time >= 1 for time in times)} of {len(times)} datasets, with one thread each."
        )
    return Section("In a few lines", [Points(lines)], "summary")


def _on(found: Standing) -> str:
    equal = f" (equal on {len(found.ties)} more)" if found.ties else ""
    return f"on {len(found.holds)} of {found.of} datasets{equal}"


def _words() -> Section:
    datasets = [
        [label(entry.paper), entry.name]
        for entry in sorted(REGISTRY.values(), key=lambda entry: entry.paper)
        if entry.paper
    ]
    return Section(
        "Words",
        [
            Text("The paper numbers its datasets and abbreviates its measures; so do the tables."),
            Table("The datasets", ["", "dataset"], datasets),
            Table("Measures and methods", ["", "meaning"], WORDS),
        ],
        "words",
    )


def _table(scale: Scale, ledger: Ledger, figures: Figures) -> Section:
    finest = published.AESVM[1e-5]
    with_features = grids.WITH_FEATURES.compared(scale, ledger)
    claims = (
        ("lowest RMSE of the paper's solvers", "RMSE", figures, AESVM, RIVALS),
        ("the same with epsilon 1e-5", "RMSE", figures, finest, RIVALS),
        ("lower RMSE than RfeatSVM", "RMSE", with_features, AESVM, ("RfeatSVM",)),
        ("highest OTS of the paper's solvers", "OTS", figures, AESVM, RIVALS),
        ("highest OCS but for SVMperf", "OCS", figures, AESVM, ("CVM", "BVM", "LASVM")),
        ("of today: lowest RMSE beside random rows", "RMSE", figures, AESVM, APPROXIMATE_TODAY),
        ("of today: highest OTS beside intelex, ours", "OTS", figures, AESVM, FAST_TODAY),
    )
    rows = []
    for claim, metric, among, own, rivals in claims:
        found = standing(among, own, rivals, metric)
        if found.of:
            rows.append([claim, _listed(found.holds), _listed(found.ties), _listed(found.others)])
    columns = ["AESVM has the ...", "so it is on", "equal on", "not on (who is ahead)"]
    blocks: list[Block] = [
        Text("What each line rests on is below, [claim by claim](#claims-one-by-one)."),
        Table("The paper's claims, and two of today", columns, rows),
    ]
    nothing: list[Block] = [Text("No dataset has been run with two of the solvers yet.")]
    return Section("Who is ahead, in one table", blocks if rows else nothing, "claims-table")


def _listed(datasets: list[str]) -> str:
    return ", ".join(datasets) or "–"
