"""Scores of all rows, computed only where they are not proven to be far from every kink.

The scores ``<w, z>`` of representatives are known, and a row lies within ``|w| |tau|`` of what its
combination of them says. Where that alone proves a row to be far inside a piece of zero loss, its
own score is not computed: it is taken as near to the kink as it can be.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array, Formulation, Offsets
from aesvm.sets.derive import Combinations

#: Losses that differ by less are the same.
_SAME = 1e-9


def cautious_scores(
    combinations: Combinations,
    member_scores: Array,
    norm: float,
    targets: Array,
    formulation: Formulation,
) -> Array:
    """Scores of all rows as their representatives have them, shifted by their error bound.

    ``norm`` is that of w, infinite where the kernel is not known to be positive semidefinite: then
    nothing is proven, and scores are as the representatives have them.
    """
    known = np.array(combinations.spread(member_scores))
    known[combinations.members] = member_scores
    if norm < inf:
        errors = norm * np.sqrt(np.maximum(combinations.residuals, 0.0))
        errors[combinations.members] = 0.0
        known = formulation.cautious_scores(known, targets, errors)
    return known


def rows_to_score(
    known: Array,
    seen: NDArray[np.bool_],
    norm: float,
    targets: Array,
    offsets: Offsets,
    far: float,
    formulation: Formulation,
) -> NDArray[np.bool_]:
    """Rows not yet seen that are not proven to be ``far`` from every kink."""
    wanted = ~seen
    if norm < inf:
        positions = formulation.positions(known, targets, offsets)
        wanted &= ~formulation.far_away(positions, far)
    return wanted


def wrong_losses(
    combinations: Combinations,
    losses: Array,
    member_losses: Array,
    among: NDArray[np.intp] | None = None,
) -> Array:
    """What representatives pay for each row less its own loss, where these differ.

    ``among``: the rows that are asked for; all where None.
    """
    wrong = combinations.spread(member_losses) - losses
    wrong = wrong if among is None else wrong[among]
    return wrong[np.abs(wrong) > _SAME]
