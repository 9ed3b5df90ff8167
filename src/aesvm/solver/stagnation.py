"""When a solve makes no progress any more.

The violation of optimality says nothing of that: with a large C it rises first, and stays above
that of the start for many iterations. The objective always falls. From coefficients b and slopes
f = Kb + q to others, c and g, it falls by exactly

    (b - c)'(f + g) / 2.

The objective is known up to its rounding. A solve stagnates where the objective has not fallen by
more than that in a number of iterations that grows with the number of variables. (What single pair
updates claim to lower it by is no measure: where rounding decides, pairs go in circles, and each of
them claims some.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: A window has 100 iterations, and one more for every 256 variables. Half of a working set of 1,024
#: is new, so every variable is in it twice. After 1,000 pair updates per variable it ends sooner.
_ITERATIONS, _VARIABLES_PER_ITERATION, UPDATES_PER_VARIABLE = 100, 256, 1000

_EPS = float(np.finfo(np.float64).eps)


def window(n_variables: int) -> int:
    """Iterations over which the objective must fall.

    Examples
    --------
    >>> from aesvm.solver.stagnation import window
    >>> window(1_000), window(1_000_000)
    (103, 4006)
    """
    return _ITERATIONS + n_variables // _VARIABLES_PER_ITERATION


def fall(
    coefs: tuple[Any, Any],
    slopes: tuple[Any, Any],
    lengths: Any,
    unit: float,
    add: Callable[[Any], Any] = np.sum,
) -> tuple[Any, Any]:
    """What the objective has fallen by, and by how much rounding can have moved it.

    Parameters
    ----------
    coefs, slopes : pair of arrays of shape (n,)
        Before and after.
    lengths : array of shape (n,)
        Square roots of the diagonal of K.
    unit : float
        Relative rounding of kernel values.
    add : callable, default=np.sum
        Adds up an array over all variables, or over those of each of several duals.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm.solver.stagnation import fall
    >>> one = np.ones(1)
    >>> fell, rounding = fall((0.0 * one, one), (-2.0 * one, 0.0 * one), one, 1e-16)
    >>> float(fell), bool(rounding < 1e-15)
    (1.0, True)
    """
    (before, after), (first, last) = coefs, slopes
    with np.errstate(over="ignore", invalid="ignore"):
        moved = add(abs(after - before) * lengths)
        size = add((abs(before) + abs(after)) * (abs(first) + abs(last)))
        return 0.5 * add((before - after) * (first + last)), unit * moved * moved + _EPS * size


class Stagnation:
    """Follows the objective of one solve, whose variables in play may change.

    Parameters
    ----------
    n_variables : int
    unit : float
        Relative rounding of kernel values.
    """

    def __init__(self, n_variables: int, unit: float) -> None:
        self.window, self.most_updates = window(n_variables), UPDATES_PER_VARIABLE * n_variables
        self.unit = unit
        self.n_windows = 0  #: in a row, in which the objective has fallen too little
        self.n_updates_seen = 0
        self._begin_window()

    def follow(self, coefs: Any, slopes: Any) -> None:
        """Follow these variables from now on, or the same ones from other slopes."""
        self.coefs, self.slopes = coefs.copy(), slopes.copy()

    def count(self, coefs: Any, slopes: Any, lengths: Any) -> None:
        """Count what the objective has fallen by since the variables were last seen."""
        seen = (self.coefs, coefs), (self.slopes, slopes)
        fell, rounding = fall(*seen, lengths, self.unit)
        self.fell += float(fell)
        self.rounding += float(rounding)
        self.follow(coefs, slopes)

    def count_iteration(self, now: Callable[[], tuple[Any, Any, Any]], n_updates: int) -> bool:
        """Count an iteration: whether it ends a window in which the objective fell too little.

        ``n_updates``: pair updates so far.
        """
        self.n_iterations += 1
        is_short = n_updates - self.n_updates < self.most_updates
        self.n_updates_seen = n_updates
        if self.n_iterations < self.window and is_short:
            return False
        self.count(*now())
        reached = not self.fell > self.rounding
        self.n_windows = self.n_windows + 1 if reached else 0
        self._begin_window()
        return reached

    def _begin_window(self) -> None:
        self.n_iterations, self.n_updates = 0, self.n_updates_seen
        self.fell = self.rounding = 0.0
