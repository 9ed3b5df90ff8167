"""LIBSVM over a whole grid, where it was run at a sample of its points.

Our exact SVM gives the labels and the support vectors of LIBSVM's at every point: how nearly is
measured at the sample. What it cannot give is LIBSVM's seconds. Those are estimated from the
sample, dataset by dataset: LIBSVM computes rows of the kernel matrix, the more of them the more
support vectors there are, and takes more iterations as C grows. So

    log seconds = a + b log(rows x support vectors) + c log C

by least squares, with the standard error of a prediction from the residuals. It has few
measurements, on fewer rows where all of them would take days: the error says what that costs.

Seconds of different machines are not compared. Those of a dataset count where most of LIBSVM's
sample was measured; other machines' runs count with their accuracies and support vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from experiments.paper.comparison import EXACT, LIBSVM, ON_DEVICES
from experiments.paper.runs import Ledger, Outcome, Run, key_of, place_of

#: A line of three numbers through fewer measurements leaves no residuals to judge it by.
_FEWEST = 5


@dataclass(frozen=True)
class Law:
    """How LIBSVM's seconds grow on a dataset, and how far off an estimate is."""

    coefficients: NDArray
    inverse: NDArray  #: of the normal equations' matrix
    error: float  #: standard deviation of the residuals, of logarithms

    def predicted(self, rows: int, support_vectors: int, C: float) -> tuple[float, float]:
        """Seconds, and their standard error as a factor."""
        x = _terms(rows, support_vectors, C)
        spread = self.error * (1.0 + float(x @ self.inverse @ x)) ** 0.5
        return exp(float(x @ self.coefficients)), exp(spread)


def _terms(rows: int, support_vectors: int, C: float) -> NDArray:
    return np.array([1.0, log(rows * support_vectors), log(C)])


def law_of(runs: Sequence[tuple[Run, Outcome]]) -> Law | None:
    """None where too few were measured."""
    found = [
        (_terms(one.rows, one.support_vectors, run.C), log(one.seconds))
        for run, one in runs
        if one.rows and one.support_vectors and one.seconds
    ]
    if len(found) < _FEWEST:
        return None
    X, y = np.array([x for x, _ in found]), np.array([seconds for _, seconds in found])
    if np.linalg.matrix_rank(X) < X.shape[1]:
        return None
    coefficients, *_ = np.linalg.lstsq(X, y, rcond=None)
    residuals = y - X @ coefficients
    error = float(residuals @ residuals / (len(y) - X.shape[1])) ** 0.5
    return Law(coefficients, np.linalg.inv(X.T @ X), error)


def samples(ledger: Ledger) -> dict[tuple[str, str], list[tuple[str, Run, Outcome]]]:
    """LIBSVM's finished runs by dataset and kernel, each with its place."""
    found: dict[tuple[str, str], list[tuple[str, Run, Outcome]]] = {}
    for content, environment in ledger.lines:
        if content["run"]["solver"] == LIBSVM and content["outcome"]["status"] == "ok":
            run, outcome = Run(**content["run"]), Outcome(**content["outcome"])
            where = place_of(environment)
            found.setdefault((run.dataset, run.kernel), []).append((where, run, outcome))
    return found


class WithLibsvm(Ledger):
    """A ledger whose runs of LIBSVM are measured, or estimated from those of our exact SVM.

    It is for reading: runs that are added later are not seen.
    """

    def __init__(self, ledger: Ledger, device: str = "cpu") -> None:
        super().__init__(ledger.path, dict(ledger.outcomes), ledger.environments, ledger.lines)
        self.device = device
        self.timed_at: dict[tuple[str, str], str] = {}
        self.laws: dict[tuple[str, str], Law] = {}
        self.found: dict[Run, Outcome] = {}
        for kind, of_kind in samples(ledger).items():
            where = Counter(place for place, _, _ in of_kind).most_common(1)[0][0]
            law = law_of([(run, one) for place, run, one in of_kind if place == where])
            self.timed_at[kind] = where
            if law is not None:
                self.laws[kind] = law
        self.places: dict[str, str] = {}
        self._choose()

    def _choose(self) -> None:
        """Of a run made on several machines, the outcome of the one where LIBSVM was timed."""
        for content, environment in self.lines:
            key, outcome = key_of(content), Outcome(**content["outcome"])
            if not outcome.ok or key not in self.outcomes:
                continue
            run, where = content["run"], place_of(environment)
            timed_at = self.timed_at.get((run["dataset"], run.get("kernel", "rbf")))
            if key not in self.places or where == timed_at:
                self.outcomes[key], self.places[key] = outcome, where

    def __getitem__(self, run: Run) -> Outcome:
        if run not in self.found:
            self.found[run] = self._found(run)
        return self.found[run]

    def _found(self, run: Run) -> Outcome:
        if run.solver in ON_DEVICES:
            found = [self._timed(one, self._made(one)) for one in on_devices(run, self.device)]
            best, late = _best(found), [one for one in found if one.status == "timeout"]
            return replace(best, reason=late[0].reason) if best.ok and late else best
        measured = self._timed(run, self._made(run))
        if run.solver != LIBSVM or (measured.ok and measured.seconds is not None):
            return measured
        exact = self._exact(run)
        if not exact.ok:
            return measured if measured.ok else exact
        seconds, factor = None, None
        law = self.laws.get((run.dataset, run.kernel))
        if law is not None and exact.rows and exact.support_vectors:
            seconds, factor = law.predicted(exact.rows, exact.support_vectors, run.C)
        return replace(exact, seconds=seconds, factor=factor, exact_seconds=exact.seconds)

    def _made(self, run: Run) -> Outcome:
        return super().__getitem__(run)

    def _exact(self, run: Run) -> Outcome:
        """On whichever device it was computed."""
        return _best([self._made(one) for one in exact_runs(run, self.device)])

    def _timed(self, run: Run, outcome: Outcome) -> Outcome:
        """Without its seconds, and with the reason, where they are not to be compared."""
        where = self.timed_at.get((run.dataset, run.kernel))
        alike = where is None or self.places.get(run.key, where) == where
        if not outcome.ok or (alike and run.device == "cpu"):
            return outcome
        if run.solver == "DeriveRS" or not outcome.seconds:
            return outcome
        reason = "made on another machine than LIBSVM's" if run.device == "cpu" else "made on a GPU"
        return replace(outcome, seconds=None, reduction_seconds=None, reason=reason)


def _best(found: Sequence[Outcome]) -> Outcome:
    """Of a run on several devices: one that ended, with seconds; or one that was begun."""
    return max(found, key=lambda one: (one.ok, bool(one.seconds), one.status == "timeout"))


def exact_runs(run: Run, device: str = "cpu") -> list[Run]:
    """Our exact SVM at the point of a run, on each device."""
    plain = replace(run, solver=EXACT, epsilon=0.0, components=0, like=None)
    return on_devices(plain, device)


def on_devices(run: Run, device: str = "cpu") -> list[Run]:
    """A run on each device that may have made it; of a solver that has no choice, itself."""
    if run.solver not in ON_DEVICES:
        return [run]
    return [replace(run, device=one) for one in dict.fromkeys([device, "cpu", "cuda"])]
