"""Gauss-Legendre rules for integrals of products of linear factors.

The factors are ``f_l(t) = t p_l + (1 - t) q_l`` with p_l and q_l positive, and t from 0 to 1. A
rule with N nodes is exact for polynomials of degree ``2N - 1``, so ``N = m / 2`` nodes are exact
where m factors are not constant. Far fewer are as good where p_l and q_l are close to each other.
With ``s = 2t - 1`` and ``a_l = (p_l - q_l) / (p_l + q_l)`` a factor is
``(p_l + q_l) / 2 (1 + a_l s)``. On the ellipse with foci -1 and 1 whose half axes add up to r > 1,
the product of all ``1 + a_l s`` is at most ``M = exp(sum_l |a_l| (r + 1/r) / 2)``. A polynomial of
degree ``2N - 1`` is then within ``2 M r^(1 - 2N) / (r - 1)`` of it (Bernstein), and the rule's
error is at most twice that. A rule is used where this is less than a rounding, 2^-52, of the
product of all ``(p_l + q_l) / 2``, which is the mean of the game over all coalitions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_legendre

#: The error that counts as none: a rounding.
_ROUNDING = 2.0**-52


class Rules(NamedTuple):
    """Rules with more and more nodes, one to a line."""

    sizes: NDArray[np.int64]  #: nodes of each, ascending
    reaches: NDArray[np.float64]  #: the largest sum of the |a_l| that each is good for
    nodes: NDArray[np.float64]  #: descending: 1 - t follows in the other half
    weights: NDArray[np.float64]  #: which add up to one


def rules_for(n_factors: int, step: int = 4) -> Rules:
    """Rules for products of up to ``n_factors`` factors: the last one is exact for all of them.

    Sizes are multiples of ``step``, the number of nodes in a block of the caller's loop.

    Examples
    --------
    >>> from aesvm.inspection.quadrature import rules_for
    >>> rules_for(30).sizes
    array([ 4,  8, 12, 16])
    """
    largest = -(-max(1, n_factors) // (2 * step))  # in steps
    steps = [1]
    while steps[-1] < largest:  # by a quarter: with many factors there are few rules
        steps.append(min(largest, steps[-1] + max(1, steps[-1] // 4)))
    sizes = step * np.array(steps, dtype=np.int64)
    nodes, weights = np.zeros((2, len(sizes), sizes[-1]))
    for own, size in enumerate(sizes):
        at, weight = roots_legendre(int(size))
        nodes[own, :size], weights[own, :size] = (1.0 - at) / 2.0, weight / 2.0
    return Rules(sizes, np.array([_reach(int(size)) for size in sizes]), nodes, weights)


def _reach(size: int) -> float:
    """The largest sum of the |a_l| for which a rule of this size is good."""
    r = np.geomspace(1.5, 1e4, 4000)
    logs = np.log(_ROUNDING * (r - 1.0) / 4.0) + (2 * size - 1) * np.log(r)
    return max(0.0, float(np.max(logs * 2.0 / (r + 1.0 / r))))
