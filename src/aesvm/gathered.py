"""AESVC on rows that were gathered from elsewhere: a stream, a file, or a cluster.

The SVM is that of a weighted set, as in the paper. Where the rows can be asked again (``parts``),
rounds follow, as in ``refine``: all parts look at their rows with the SVM there is, and send those
near the margin as they are, and representatives of the others. Only the gathered rows are here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import inf, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aesvm import one_vs_one
from aesvm.assembled import Assembled
from aesvm.base import Progress, fitted_attributes, warn
from aesvm.books import Pair
from aesvm.certificate import (
    NOT_DEFINITE,
    NOT_LOOKED,
    Certificate,
    certify,
    definiteness,
    parameters_of,
)
from aesvm.class_weights import class_weights
from aesvm.parts import Cut, PairSVM, PairSVMs, Seen, Strata
from aesvm.primal import balanced_multipliers
from aesvm.refine import CHANGES, EXACT_EFFORT, FREE, ROUND_EFFORT
from aesvm.training import Options, Result, StartOf, Training
from aesvm.tree import Held, Tree, stacked

#: Why a certificate has no number that all rows would be needed for.
ELSEWHERE = "takes a pass over all rows: call certify_stream(source), or with Dask certify(X, y)"
APART = "takes multipliers of all rows and their kernel values, which are not in one place"


class OverBudgetError(ValueError):
    """What was to be gathered does not fit in ``memory_budget``."""


def check_budget(strata: dict[int, Strata], budget: float, hull_tol: float) -> None:
    """Refuse what a round would gather where it is more than the budget."""
    n_bytes = sum(own.n_bytes for own in strata.values())
    if n_bytes > budget:
        raise OverBudgetError(
            f"memory_budget={budget:,.0f} bytes cannot hold the {n_bytes:,} bytes that a round "
            f"gathers at hull_tol={hull_tol:g}: raise either, or use refine=0."
        )


class Places(Protocol):
    """Where the rows are. Every method asks all of them once."""

    def look(self, machines: PairSVMs) -> dict[int, Seen]:
        """What each pair's SVM says of its rows."""

    def stratify(self, cuts: dict[int, Cut], hull_tol: float) -> dict[int, Strata]:
        """Rows near the margin, and sets of the others, of the SVMs looked with last."""


@dataclass(frozen=True)
class Census:
    """How many rows there are, and of which classes."""

    n_rows: int
    classes: NDArray
    counts: NDArray[np.intp]  #: rows of each class

    @classmethod
    def of(cls, n_rows: int, counts: dict[Any, int], like: NDArray) -> Census:
        """Of classes that are as some labels are."""
        try:
            labels = sorted(counts)
        except TypeError as error:
            raise ValueError(
                f"y has classes of different kinds ({list(counts)[:5]}): use numbers, or strings."
            ) from error
        classes = np.array(labels, dtype=like.dtype if like.dtype.kind in "biuf" else None)
        return cls(n_rows, classes, np.array([counts[label] for label in labels]))

    @property
    def of_pairs(self) -> list[int]:
        return [int(one + other) for one, other in combinations(self.counts.tolist(), 2)]


class Share(NamedTuple):
    """What a pair of classes is trained on."""

    rows: NDArray[np.intp]  #: among all that were gathered, ascending
    weights: NDArray[np.float64]
    reach: NDArray[np.float64]  #: how far what each stands for may be, in kernel space
    margins: NDArray[np.float64] | None = None  #: by the SVM before


class Gathered(NamedTuple):
    """Rows that came from elsewhere, and the share of every pair of classes in them."""

    X: Any
    labels: NDArray[np.intp]  #: classes by number
    indices: NDArray[np.int64]  #: where they come from
    n_classes: int
    shares: list[Share]
    costs: NDArray[np.float64]  #: by class

    @classmethod
    def of(cls, held: Held, census: Census, costs: NDArray[np.float64]) -> Gathered:
        """One set for all pairs."""
        labels = np.searchsorted(census.classes, held.y)
        shares = []
        for i, j in combinations(range(len(census.classes)), 2):
            rows = np.flatnonzero((labels == i) | (labels == j))
            shares.append(Share(rows, held.weights[rows], np.full(len(rows), held.reach)))
        return cls(held.X, labels, held.indices, len(census.classes), shares, costs)

    @classmethod
    def stratified(
        cls, strata: dict[int, Strata], census: Census, costs: NDArray[np.float64]
    ) -> Gathered:
        """A set for each pair, of its own strata."""
        sets = [held for own in strata.values() for held in own]
        indices, first = np.unique(
            np.concatenate([held.indices for held in sets]), return_index=True
        )
        labels = np.searchsorted(census.classes, np.concatenate([held.y for held in sets])[first])
        X = stacked([held.X for held in sets])[first]
        nobody = Share(*(np.empty(0, dtype=kind) for kind in (np.intp, float, float, float)))
        shares = []
        for number in range(len(census.of_pairs)):
            own = [] if number not in strata else [held for held in strata[number] if len(held)]
            if not own:
                shares.append(nobody)
                continue
            rows = np.concatenate([np.searchsorted(indices, held.indices) for held in own])
            order = np.argsort(rows)
            columns = (
                np.concatenate([held.weights for held in own]),
                np.concatenate([np.full(len(held), held.reach) for held in own]),
                np.concatenate([held.margins for held in own if held.margins is not None]),
            )
            shares.append(Share(rows[order], *(column[order] for column in columns)))
        return cls(X, labels, indices, len(census.classes), shares, costs)

    def pairs(self) -> Iterator[Pair | int]:
        """As ``training.Problem`` has them."""
        present = np.bincount(self.labels, minlength=self.n_classes) > 0
        for (i, j), share in zip(combinations(range(self.n_classes), 2), self.shares, strict=True):
            if not present[i] or not present[j]:
                yield int(present[i]) - int(present[j])
                continue
            own = self.labels[share.rows]
            signs = np.where(own == i, 1.0, -1.0)
            yield Pair(share.rows, signs, share.weights, self.costs[own])

    def effort(self) -> float:
        return float(sum(len(share.rows) ** 2 for share in self.shares)) or 1.0

    @property
    def reach(self) -> float:
        return max(float(share.reach.max(initial=0.0)) for share in self.shares)


class GatheredSVC(Assembled):
    """Trains AESVC on gathered rows."""

    # of the estimator that this is a part of
    C: float
    class_weight: Any
    refine: int | str
    cache_size: float
    shrinking: bool
    memory_budget: int | str | None
    on_overflow: str

    _kernel_for: Any
    _fingerprint_: int | None
    _trained_with_: dict
    _hull_tol_: float  #: that of the rows that were gathered
    _pairs_: list[int]  #: numbers of those that have rows
    support_vectors_: Any
    n_support_: Any
    dual_coef_: Any
    intercept_: Any
    classes_: Any
    class_weight_: Any

    @abstractmethod
    def _condensed(self, tree: Tree, run: Any, progress: Progress) -> Held:
        """The set of all rows that the model is trained on first."""

    def _costs(self, census: Census) -> NDArray[np.float64]:
        """What each class may weigh."""
        self.classes_ = census.classes
        self.class_weight_ = class_weights(self.class_weight, census.classes, census.counts)
        return self.C * self.class_weight_

    def _check_not_exact(self) -> None:
        if self.refine == "exact":
            raise ValueError(
                'refine="exact" needs all rows in one place: use fit with rows in memory, or '
                'refine="auto", or a number of rounds.'
            )

    def _train_gathered(
        self,
        gathered: Gathered,
        census: Census,
        hull_tol: float,
        run: Any,
        progress: Progress,
        start_of: StartOf | None = None,
        rounds: int = 0,
    ) -> list[Result | int]:
        """The fitted attributes of the SVM of some gathered rows."""
        definite = definiteness(self.kernel, self.coef0)
        train = Training(
            Options(0, self.tol, self.max_iter, self.cache_size, self.shrinking),
            partial(self._kernel_for, gathered.X),
            _no_rows,
            definite != NOT_DEFINITE,
            run,
            progress,
        )
        results = train(gathered, None, start_of)
        told = [
            one
            if isinstance(one, int)
            else one._replace(
                account=replace(
                    one.account,
                    exact=gathered.reach == 0.0,
                    rounds=rounds,
                    n_rows=n_rows,
                    max_residual=float(share.reach.max()) ** 2,
                    total_residual=n_rows * float(share.reach.max()) ** 2,
                    weighted_distances=float(
                        gathered.costs[gathered.labels[share.rows]] * share.weights @ share.reach
                    ),
                    hinge=None,
                    dual_objective=None,
                    violators=None,
                )
            )
            for one, share, n_rows in zip(results, gathered.shares, census.of_pairs, strict=True)
        ]
        self._assemble(gathered.X, gathered.labels, told)
        self._multipliers_ = [None] * len(results)
        self.support_ = gathered.indices[self.support_]
        self._fingerprint_ = None
        self._trained_with_ = parameters_of(self)
        self.shape_fit_ = (census.n_rows, gathered.X.shape[1])
        self._hull_tol_ = hull_tol
        self._pairs_ = [number for number, one in enumerate(results) if not isinstance(one, int)]
        self._certify()
        return results

    def _certify(self) -> Certificate:
        """The certificate, as far as the accounts go."""
        definite = definiteness(self.kernel, self.coef0)
        certificate = certify(self._accounts_, self._hull_tol_, definite)
        missing = {
            name: (ELSEWHERE if name == "objective" else APART) if why == NOT_LOOKED else why
            for name, why in certificate.missing.items()
        }
        self.certificate_ = replace(certificate, missing=missing)
        return self.certificate_

    def _refine_from(
        self,
        places: Places,
        tree: Tree,
        census: Census,
        run: Any,
        progress: Progress,
        finer: Callable[[], Tree] | None = None,
    ) -> None:
        """Train on a first set, and make the rounds that ``refine`` asks for.

        ``finer`` makes the set that is to take the place of the first where none are made.
        """
        costs = self._costs(census)

        def on(tree: Tree) -> tuple[Gathered, list[Result | int]]:
            gathered = Gathered.of(self._condensed(tree, run, progress), census, costs)
            return gathered, self._train_gathered(gathered, census, tree.hull_tol, run, progress)

        gathered, results = on(tree)
        if not self.refine or gathered.reach == 0.0:
            return
        if self.refine == "auto" and _effort(results, census) > ROUND_EFFORT:
            progress.say(f"auto: a round would take over {ROUND_EFFORT:.0e} kernel values; none")
            if finer is not None:
                on(finer())
            return
        before: dict[str, Any] = {}
        budget, share, rounds, another = EXACT_EFFORT, 1.0, 0, True
        while another:
            cuts, n_values = self._look(places)
            if self._worse_than(before, rounds, progress):
                return
            before = fitted_attributes(self)
            try:
                strata = places.stratify(cuts, self.hull_tol)
            except OverBudgetError as error:
                if self.on_overflow == "raise":
                    raise
                warn(f"{error} The model is that of {rounds} rounds.")
                return
            gathered = Gathered.stratified(strata, census, costs)
            rounds += 1
            results = self._train_gathered(
                gathered, census, self.hull_tol, run, progress, partial(_start, gathered), rounds
            )
            last, share = share, _changed(gathered, results)
            solved = sum(r.solution.n_evaluations for r in results if not isinstance(r, int))
            budget -= solved + n_values
            progress.say(
                f"round {rounds}: {n_values:.3g} kernel values, {len(gathered.labels):,} rows "
                f"gathered, {share:.2%} of the labels changed"
            )
            if isinstance(self.refine, str):
                affordable = _effort(results, census) + solved <= budget
                another = affordable and CHANGES < share <= 0.5 * last
            else:
                another = rounds < self.refine
        if _effort(results, census) <= FREE:
            self._look(places)
            self._worse_than(before, rounds, progress)

    def _worse_than(self, before: dict[str, Any], rounds: int, progress: Progress) -> bool:
        """Whether the model is worse than the one before; then it is that again."""
        if not before:
            return False
        now, then = self.certificate_.objective, before["certificate_"].objective
        if now is None or now <= then:
            return False
        progress.say(f"round {rounds}: F1 {now:.6g}, and {then:.6g} before it: undone")
        for name in fitted_attributes(self):
            delattr(self, name)
        vars(self).update(before)
        return True

    def _look(self, places: Places) -> tuple[dict[int, Cut], int]:
        """See all rows with the model there is: its certificate has the objective then.

        Returns where the next round is to cut, and how many kernel values that took.
        """
        machines = self._machines()
        seen = places.look(machines)
        accounts = dict(zip(self._pairs_, self._accounts_, strict=True))
        self._accounts_ = [
            replace(account, hinge=seen[number].here()) for number, account in accounts.items()
        ]
        self._certify()
        cuts = {}
        for number, one in machines.of.items():
            own = seen[number]
            doubt = own.doubt(accounts[number].hinge_reduced)
            cuts[number] = Cut(one.classes, own.best(one.offset), doubt)
        return cuts, sum(one.n_values for one in seen.values())

    def _machines(self) -> PairSVMs:
        """The SVMs of all pairs as they are fitted, to be sent to the parts."""
        definite = definiteness(self.kernel, self.coef0) != NOT_DEFINITE
        costs = (self.C * self.class_weight_).tolist()
        pairs = combinations(range(len(self.classes_)), 2)
        trained = one_vs_one.trained_pairs(
            np.arange(len(self.support_), dtype=np.int32),
            self.n_support_,
            self.dual_coef_,
            self.intercept_,
        )
        accounts = dict(zip(self._pairs_, self._accounts_, strict=True))
        of = {}
        for number, ((i, j), one) in enumerate(zip(pairs, trained, strict=True)):
            if number in accounts:
                norm = sqrt(max(accounts[number].squared_norm, 0.0)) if definite else inf
                classes = self.classes_[i], self.classes_[j]
                of[number] = PairSVM(classes, (costs[i], costs[j]), *one, norm)
        return PairSVMs(self.support_vectors_, of)


def _effort(results: list[Result | int], census: Census) -> float:
    """Kernel values that a look at all rows may take."""
    return float(
        sum(
            n_rows * np.count_nonzero(one.trained.coefs)
            for one, n_rows in zip(results, census.of_pairs, strict=True)
            if not isinstance(one, int)
        )
    )


def _start(gathered: Gathered, number: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Multipliers that agree with the margins of the SVM before."""
    share = gathered.shares[number]
    own = gathered.labels[rows]
    signs = np.where(own == own.min(), 1.0, -1.0)  # the first class is the positive one
    assert share.margins is not None
    return balanced_multipliers(share.margins, signs, gathered.costs[own] * share.weights)


def _changed(gathered: Gathered, results: list[Result | int]) -> float:
    """The share of all labels that the last round changed, by weight."""
    changed = total = 0.0
    for share, one in zip(gathered.shares, results, strict=True):
        if isinstance(one, int) or share.margins is None:
            continue
        own = gathered.labels[share.rows]
        signs = np.where(own == own.min(), 1.0, -1.0)
        now = np.sign(one.solution.scores + one.trained.offset)
        changed += float(share.weights @ (now != np.sign(signs * share.margins)))
        total += float(share.weights.sum())
    return changed / total if total else 0.0


def _no_rows(*_: Any) -> Any:
    raise AssertionError("rows that were gathered are not represented again")
