"""Sizes of representative sets: what the tables about DeriveRS share."""

from __future__ import annotations

from experiments.paper import published
from experiments.paper.pages import Cell
from experiments.paper.runs import Ledger, Outcome, Run
from experiments.paper.scales import FOLDED, Scale

#: Of five, those that a fold is trained on.
_TRAINED = 0.8


def reduction(
    scale: Scale, dataset: str, epsilon: float, gamma: float, degree: int = 0
) -> list[Run]:
    """DeriveRS of every fold."""
    return [
        Run(
            dataset,
            "DeriveRS",
            gamma=gamma,
            epsilon=epsilon,
            kernel="poly" if degree else "rbf",
            degree=degree,
            fold=fold,
            train_rows=scale.reduction_rows.get(dataset),
        )
        for fold in scale.folds_of(dataset)
    ]


def share(dataset: str, outcome: Outcome) -> float | None:
    """M/N in per cent, with the paper's N: of a dataset with folds, all its rows.

    There M is of four fifths of the rows, and the paper's percentages level off near 80.
    """
    if not outcome.ok or outcome.kept is None or not outcome.rows:
        return None
    part = _TRAINED if dataset in FOLDED else 1.0
    return 100.0 * part * outcome.kept / outcome.rows


def mean_share(ledger: Ledger, runs: list[Run]) -> float | None:
    shares = [share(run.dataset, ledger[run]) for run in runs]
    known = [value for value in shares if value is not None]
    return sum(known) / len(known) if known else None


def cell(ledger: Ledger, runs: Run | list[Run], paper: str) -> Cell:
    """M/N in per cent and seconds, beside the paper's."""
    runs = [runs] if isinstance(runs, Run) else runs
    value = mean_share(ledger, runs)
    outcomes = [ledger[run] for run in runs]
    if value is None:
        late = any(outcome.status == "timeout" for outcome in outcomes)
        return Cell("over time" if late else "–", paper, "missing")
    done = [outcome for outcome in outcomes if outcome.ok]
    seconds = sum(outcome.seconds or 0.0 for outcome in done) / len(done)
    given_up = sum(not outcome.reduced for outcome in done)
    text = f"{value:.1f}"
    if given_up:
        text += " all" if given_up == len(done) else f" all in {given_up} folds"
    text += f" ({seconds:.1f} s)"
    if len(done) < len(runs):
        text += f" ({len(done)}/{len(runs)})"
    return Cell(text, paper)


def ratios(
    scale: Scale, ledger: Ledger, dataset: str, epsilon: float, paper: published.Shares
) -> list[float]:
    """Our M/N over the paper's, for every g measured."""
    found = []
    for gamma, (theirs, _) in zip(published.GAMMA_GRID, paper, strict=True):
        ours = mean_share(ledger, reduction(scale, dataset, epsilon, gamma))
        if ours is not None:
            found.append(ours / theirs)
    return found
