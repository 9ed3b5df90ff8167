"""Rounds that take the SVM on a representative set towards the exact one.

A row that stands for others loses them nothing where the hinge is linear: where all their
margins are below 1, or all above (Jensen's inequality, the loss of the paper's Theorem 1, is
then an equality). So once a first solution is known, a round

looks       at the margins of all rows. Those of representatives are known, and of the others
            those are proven that cannot be reached: ``|<w, z_i> - <w, u_i>| <= |w| |tau_i|``;
stratifies  each class by margin: inside (below 1 - delta), outside (above 1 + delta), and the
            band between. Delta is 1.5 times the root mean square of what the representatives get
            wrong: the loss that they pay for a row, ``sum_t gamma_it loss(z_t)``, less its own,
            over the rows where these differ. (That root mean square came to between a quarter
            and all of the true error of the margins, on the data we measured.);
represents  the two sides by sets of their own, the rows outside, whose loss is zero, ten times
            as coarsely; rows of the band stand for themselves;
solves      again, starting from the multipliers that agree with the margins. (From the lifted
            ones, which are fractions nearly everywhere, it takes twice as long.)

Who stands for whom is in the ``books``: they lift multipliers of representatives to feasible
multipliers of all rows, from which the certificate is computed.

Where every row stands for itself, the problem is the full one. "exact" solves it directly: started
from representatives it took longer on most data we measured, since the solver's work is close to
what one look at all margins takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.base import Progress
from aesvm.books import Books, Pair
from aesvm.certificate import Account
from aesvm.dual import Solution
from aesvm.expansion import scores, squared_norm
from aesvm.kernels import KernelMatrix
from aesvm.one_vs_one import Trained
from aesvm.primal import (
    balanced_multipliers,
    best_offset,
    count_violators,
    feasible,
    hinge_losses,
)
from aesvm.reduction import Representatives

#: How much coarser rows are represented before a margin is known, and later those outside it.
COARSER = 10.0

#: Largest relative duality gap of an exact solution.
DUALITY_TOL = 1e-3

#: Half the width of the band, in standard deviations of what representatives get wrong (1 leaves
#: more rows in violation, 2 solves for more rows); it never reaches beyond the decision boundary.
DEVIATIONS, WIDEST = 1.5, 1.0

#: "auto": kernel values that the exact SVM may take, or all rounds but the first (some ten
#: seconds on two cores); and those that the first round may (minutes). Beyond that, none.
EXACT_EFFORT, ROUND_EFFORT = 5e9, 3e11

#: "auto": a round that changes fewer labels is the last; also one that changes over half as many
#: as the one before.
CHANGES = 1e-3

#: Kernel values that a certificate may take without being asked for: a fraction of a second.
FREE = 2e8

#: All rows are looked at in at most so many steps, of at least so many rows.
_STEPS, _LOOK = 20, 10_000

#: A look that takes so many kernel values, a second or more, is announced.
_LONG = 1e9

#: Losses that differ by less are the same.
SAME = 1e-9


class View(NamedTuple):
    """All rows, seen by one solution."""

    margins: NDArray[np.float64]  #: of rows that are proven to be far outside, a lower bound
    offset: float  #: the b that minimises F1
    objective: float  #: F1(w, b)
    doubt: float  #: delta, how far from 1 a margin must be for its side to be believed
    multipliers: NDArray[np.float64]  #: lifted
    violators: int


class State(NamedTuple):
    """A solution, of the problem that the books tell of, after so many rounds."""

    books: Books
    solution: Solution
    rounds: int
    view: View | None = None
    certified: bool = False  #: whether the dual was evaluated at its multipliers


class Machine:
    """The SVM of one pair of classes, on ever better representatives.

    Parameters
    ----------
    pair : Pair
    kernel_for : callable
        Takes training rows and coefficients; returns the KernelMatrix, precise enough to sum
        them up.
    represent : callable
        Takes rows of two classes (a list), a tolerance and a Progress; returns their
        Representatives, with combinations.
    solve : callable
        Takes training rows, signs, bounds, a start or None and a duality_tol or None; returns a
        Solution.
    tol : float
        KKT conditions are violated by more than this, or not.
    definite : bool
        Whether the kernel is known to be positive semidefinite.
    run : callable
        ``map`` or a parallel one.
    progress : Progress
    """

    state: State

    def __init__(
        self,
        pair: Pair,
        kernel_for: Callable[[NDArray[np.intp], NDArray[np.float64]], KernelMatrix],
        represent: Callable[[list[NDArray[np.intp]], float, Progress], Representatives],
        solve: Callable[..., Solution],
        *,
        tol: float,
        definite: bool,
        run: Callable,
        progress: Progress,
    ) -> None:
        self.pair = pair
        self.kernel_for = kernel_for
        self.represent = represent
        self.solve = solve
        self.tol = tol
        self.definite = definite
        self.run = run
        self.progress = progress
        self.n_iter = 0
        self.duality_tol: float | None = None
        self.free_offset = True  # the paper's b minimises F2, ours F1 where all rows are seen
        self.best: State | None = None
        self.dual = -np.inf

    @property
    def exact(self) -> bool:
        return self.state.books.shares is None

    @property
    def coefs(self) -> NDArray[np.float64]:
        return self.pair.signs[self.state.books.members] * self.state.solution.alpha

    @property
    def squared_norm(self) -> float:
        return float(self.coefs @ self.state.solution.scores)

    @property
    def n_support(self) -> int:
        return int(np.count_nonzero(self.state.solution.alpha))

    @property
    def offset(self) -> float:
        """The b of this solution: it minimises F1 where all rows were seen, otherwise F2."""
        books, solution, view = self.state.books, self.state.solution, self.state.view
        if view is not None:
            return view.offset
        members = books.members
        bounds = self.pair.costs[members] * books.gather(self.pair.weights)
        return best_offset(solution.scores, self.pair.signs[members], bounds)

    def train(
        self,
        books: Books,
        refine: int | str,
        effort: float,
        start: NDArray[np.float64] | None = None,
    ) -> None:
        """Solve for the rows that the books name, and go on from there.

        ``effort`` is this pair's share of what "auto" may spend; ``start`` has feasible multipliers
        of the members.
        """
        if refine == "exact" and self.definite:
            self.duality_tol = DUALITY_TOL
        self.free_offset = refine != 0
        self._solve(books, start)
        if refine == "auto" and not self.exact:
            self._go_on(effort)
        elif not isinstance(refine, str):
            for _ in range(refine):
                if self.exact or self.look().violators == 0:
                    break
                self.round()
        if self._unseen() * self.n_support + self._n_lifted() ** 2 / 2 <= FREE:
            self.look(certify=True)
            if self.best is not None and not self.exact:
                self.state = self.best

    def _go_on(self, effort: float) -> None:
        """Rounds while they pay, or the exact SVM where that is affordable."""
        n = len(self.pair.rows)
        if n * self.n_support > effort * ROUND_EFFORT:
            self.progress.say(
                f"auto: a round would take over {effort * ROUND_EFFORT:.0e} kernel values; none"
            )
            books = self._books_of(np.arange(n), 1.0, self.progress)
            if books.shares is not None:  # a set that could be reduced
                self._solve(books)
            return
        budget, share = effort * EXACT_EFFORT, 1.0
        while True:
            budget -= self._unseen() * self.n_support
            view = self.look()
            support = np.count_nonzero(view.margins <= 1.0)
            if n * support <= effort * EXACT_EFFORT:
                self.progress.say(f"auto: exact, with some {support:,} support vectors")
                start = balanced_multipliers(view.margins, self.pair.signs, self.pair.bounds)
                self._solve(Books.everyone(n), start, self.state.rounds)
                return
            if view.violators == 0:
                return
            before, last = self.pair.signs * view.margins, share
            self.round()
            books, solution = self.state.books, self.state.solution
            changed = np.sign(solution.scores + self.offset) != np.sign(before[books.members])
            share = books.gather(self.pair.weights) @ changed / self.pair.weights.sum()
            self.progress.say(f"auto: round {self.state.rounds} changed {share:.2%} of the labels")
            budget -= solution.n_evaluations
            another = self._unseen() * self.n_support + solution.n_evaluations
            if another > budget or share <= CHANGES or share > 0.5 * last:
                return

    def round(self) -> None:
        """Stratify the rows by margin, represent each side by itself, and solve again."""
        with self.progress.task("round", None, quiet=True) as task:
            view = self.look()
            inside = view.margins < 1.0 - view.doubt
            outside = view.margins > 1.0 + view.doubt
            band = np.flatnonzero(~inside & ~outside)
            parts = [(band, Books.everyone(len(band)))]
            for side, coarser in ((inside, 1.0), (outside, COARSER)):
                rows = np.flatnonzero(side)
                if len(rows):
                    parts.append((rows, self._books_of(rows, coarser, task)))
            books = Books.stacked(len(inside), parts)
            start = balanced_multipliers(view.margins, self.pair.signs, self.pair.bounds)
            self._solve(books, books.gather(start), self.state.rounds + 1)
        gap = "" if self.best is None or self.dual == -np.inf else f", gap {self._gap():.3g}"
        self.progress.say(
            f"round {self.state.rounds}: {view.violators:,} violators, "
            f"F1 {view.objective:.6g}{gap}; band {len(band):,} rows "
            f"(margins within {view.doubt:.3g} of 1), "
            f"{len(books.members):,} rows solved for"
        )

    def look(self, certify: bool = False) -> View:
        """See all rows with the present solution."""
        if self.state.view is None:
            self.state = self.state._replace(view=self._view())
        view = self.state.view
        assert view is not None
        affordable = certify or self._n_lifted() ** 2 / 2 <= FREE
        if self.definite and affordable and not self.state.certified:
            self.dual = max(self.dual, self._dual_objective(view.multipliers))
            self.state = self.state._replace(certified=True)
        if self.best is None or self.best.view is None or view.objective < self.best.view.objective:
            self.best = self.state
        return view

    def account(self) -> Account:
        """What a certificate says of this pair."""
        books, solution, view = self.state.books, self.state.solution, self.state.view
        pair = self.pair
        beta = books.gather(pair.weights)
        margins = pair.signs[books.members] * (solution.scores + self.offset)
        norm = self.squared_norm
        return Account(
            exact=self.exact,
            rounds=self.state.rounds,
            n_rows=len(pair.rows),
            n_solved=len(books.members),
            max_residual=float(books.residuals.max(initial=0.0)),
            total_residual=float(books.residuals.sum()),
            squared_norm=norm,
            rounding=0.0 if norm >= 0 else self._rounding(),
            hinge_reduced=hinge_losses(margins, pair.costs[books.members] * beta),
            total_bound=float(pair.bounds.sum()),
            trivial=2.0 * min(float(pair.bounds[pair.signs == sign].sum()) for sign in (1.0, -1.0)),
            weighted_distances=float(pair.bounds @ np.sqrt(np.maximum(books.residuals, 0.0))),
            hinge=None if view is None else view.objective - 0.5 * norm,
            dual_objective=None if self.dual == -np.inf else self.dual,
            violators=None if view is None else view.violators,
        )

    def lifted(self) -> NDArray[np.float64]:
        """Multipliers of all rows, feasible for the full dual."""
        alpha = self.state.books.lift(self.state.solution.alpha, self.pair.weights)
        return feasible(alpha, self.pair.signs, self.pair.bounds)

    def _rounding(self) -> float:
        """By how much the squared norm can be off where kernel values are right to nine digits."""
        rows, coefs = self.pair.rows[self.state.books.members], self.coefs
        largest = np.abs(self.kernel_for(rows, coefs).diag(rows)).max()
        return 1e-9 * float(np.abs(coefs).sum()) ** 2 * float(largest)

    def _gap(self) -> float:
        assert self.best is not None
        assert self.best.view is not None
        return max(0.0, self.best.view.objective - self.dual)

    def _unseen(self) -> int:
        """Rows whose margins would have to be computed."""
        seen = self.state.view is not None
        return 0 if seen else len(self.pair.rows) - len(self.state.books.members)

    def _n_lifted(self) -> int:
        """Rows with a multiplier, whose kernel values among each other the dual would take."""
        if self.exact:
            return 0
        active = (self.state.solution.alpha > 0).astype(float)
        return int(np.count_nonzero(self.state.books.spread(active)))

    def _solve(
        self, books: Books, start: NDArray[np.float64] | None = None, rounds: int = 0
    ) -> None:
        pair = self.pair
        bounds = pair.costs[books.members] * books.gather(pair.weights)
        solution = self.solve(
            pair.rows[books.members],
            pair.signs[books.members],
            bounds,
            None if start is None else np.clip(start, 0.0, bounds),
            self.duality_tol if books.shares is None else None,
        )
        self.n_iter += solution.n_iter
        self.state = State(books, solution, rounds)

    def _books_of(self, rows: NDArray[np.intp], coarser: float, progress: Progress) -> Books:
        """The books of some rows, each class of them represented anew."""
        whole = self.pair
        part = Pair(whole.rows[rows], whole.signs[rows], whole.weights[rows], whole.costs[rows])
        classes = [part.rows[part.signs == sign] for sign in (1.0, -1.0)]
        found = self.represent([own for own in classes if len(own)], coarser, progress)
        return Books.of(part, found)

    def _view(self) -> View:
        pair, books, solution = self.pair, self.state.books, self.state.solution
        seen = np.zeros(len(pair.rows), dtype=bool)
        seen[books.members] = True
        known = np.array(books.spread(solution.scores))
        known[books.members] = solution.scores
        if self.definite:
            # what is not seen is taken as near to the margin as it can be
            reach = sqrt(max(self.squared_norm, 0.0)) * np.sqrt(np.maximum(books.residuals, 0.0))
            known[~seen] -= (pair.signs * reach)[~seen]
        offset = self.offset
        support = np.flatnonzero(solution.alpha)
        rows, coefs = pair.rows[books.members[support]], self.coefs[support]
        kernel = self.kernel_for(pair.rows, coefs)
        while True:
            if self.free_offset:
                offset = best_offset(known, pair.signs, pair.bounds)
            wanted = ~seen
            if self.definite:
                wanted &= pair.signs * (known + offset) < 1.0 + WIDEST
            if not wanted.any():
                break
            at = np.flatnonzero(wanted)
            if len(at) * len(rows) > _LONG:
                self.progress.say(f"looking at the margins of {len(at):,} rows")
            with self.progress.task("look", _STEPS) as task:
                for part in np.array_split(at, min(_STEPS, -(-len(at) // _LOOK))):
                    known[part] = scores(kernel, rows, coefs, pair.rows[part], self.run)
                    task.step()
            seen |= wanted
        margins = pair.signs * (known + offset)
        members = pair.signs[books.members] * (solution.scores + offset)
        wrong = books.spread(np.maximum(0.0, 1.0 - members)) - np.maximum(0.0, 1.0 - margins)
        wrong = wrong[np.abs(wrong) > SAME]
        error = sqrt(float(np.square(wrong).mean())) if len(wrong) else 0.0
        multipliers, bounds = self.lifted(), pair.bounds
        return View(
            margins=margins,
            offset=offset,
            objective=0.5 * self.squared_norm + hinge_losses(margins, bounds),
            doubt=min(DEVIATIONS * error, WIDEST),
            multipliers=multipliers,
            violators=count_violators(margins, multipliers, bounds, self.tol),
        )

    def _dual_objective(self, alpha: NDArray[np.float64]) -> float:
        if self.exact:
            return -self.state.solution.objective
        return dual_objective(self.pair, alpha, self.kernel_for, self.run)


def dual_objective(
    pair: Pair, alpha: NDArray[np.float64], kernel_for: Callable, run: Callable
) -> float:
    """The best value of the full dual between zero and multipliers of all rows of a pair."""
    held = np.flatnonzero(alpha)
    rows, coefs = pair.rows[held], (pair.signs * alpha)[held]
    norm = squared_norm(kernel_for(rows, coefs), rows, coefs, run)
    total = float(alpha.sum())
    share = min(1.0, total / norm) if norm > 0 else 1.0
    return share * (total - 0.5 * share * norm)


def completed(
    account: Account,
    pair: Pair,
    trained: Trained,
    alpha: NDArray[np.float64],
    kernel_for: Callable,
    *,
    tol: float,
    definite: bool,
    run: Callable,
) -> Account:
    """The account of a trained pair with all rows seen, given its lifted multipliers."""
    if account.hinge is not None:
        return account
    kernel = kernel_for(pair.rows, trained.coefs)
    seen = scores(kernel, trained.rows, trained.coefs, pair.rows, run)
    margins = pair.signs * (seen + trained.offset)
    dual = account.dual_objective
    if definite:
        found = dual_objective(pair, alpha, kernel_for, run)
        dual = found if dual is None else max(dual, found)
    return replace(
        account,
        hinge=hinge_losses(margins, pair.bounds),
        violators=count_violators(margins, alpha, pair.bounds, tol),
        dual_objective=dual,
    )
