"""The descent, on functions that are known: its half-widths, its factors, and where it stops."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from aesvm.bases.descent import Descent, Goal, Here
from aesvm.bases.factor import cholesky

WIDTHS = (0.1, 0.03, 0.01)


class Bowl:
    """``1/2 x' H x - b' x``, searched exactly; its factor knows the diagonal of H alone."""

    def __init__(self, n=20, patience=50, n_factors=3, n_narrower=0, longest=np.inf):
        rng = np.random.default_rng(0)
        lines = rng.normal(size=(2 * n, n))
        self.H, self.b = lines.T @ lines / n, rng.normal(size=n)
        self.x = np.zeros(n)
        self.patience, self.n_factors = patience, n_factors
        self.n_narrower, self.longest = n_narrower, longest
        self.lines, self.renewed = [], []
        self.factor = cholesky(np.diag(np.diag(self.H)))

    @property
    def best(self):
        return np.linalg.solve(self.H, self.b)

    def search(self, line):
        self.lines.append(line)
        moved = None
        if line.direction is not None:
            slope = line.direction @ (self.H @ self.x - self.b)
            step = min(-slope / (line.direction @ self.H @ line.direction), self.longest)
            moved = step * line.direction if step > 0 else None
            self.x = self.x if moved is None else self.x + moved
        objective = 0.5 * self.x @ self.H @ self.x - self.b @ self.x
        self.here = Here(objective, self.H @ self.x - self.b, moved)

    def renew_factor(self, worn):
        self.renewed.append(worn)

    def lacks(self):
        left = self.x - self.best
        return 0.5 * left @ self.H @ left

    def narrows(self):
        self.n_narrower -= 1
        return self.n_narrower >= 0


def follow(bowl, goal, last=None, widths=WIDTHS):
    descent = Descent(bowl, widths, goal, goal if last is None else last)
    for line in descent:
        bowl.search(line)
    return descent


def n_steps(bowl):
    return sum(line.direction is not None for line in bowl.lines)


def test_it_ends_at_the_minimum():
    bowl = Bowl()
    descent = follow(bowl, Goal(1e-14))
    assert descent.solved
    assert descent.gain <= 1e-14
    assert_allclose(bowl.x, bowl.best, rtol=1e-5)
    assert n_steps(bowl) < 30


def test_every_width_is_asked_for_and_then_narrower_ones_while_they_matter():
    bowl = Bowl(n_narrower=2)
    follow(bowl, Goal(1e-6))
    here = [line for line in bowl.lines if line.direction is None]
    assert_allclose([line.width for line in here], [0.1, 0.03, 0.01, 0.003, 0.0009])
    # what will follow is known beforehand
    assert [line.narrower for line in here[:-1]] == [line.width for line in here[1:]]
    assert all(line.width in {one.width for one in here} for line in bowl.lines)


def test_widths_end_at_the_narrowest():
    bowl = Bowl(n_narrower=10**6)
    follow(bowl, Goal(1e-6))
    assert 3e-5 < bowl.lines[-1].width <= 1e-4


def test_a_factor_that_has_served_is_renewed_until_there_are_too_many():
    bowl = Bowl(patience=2, n_factors=3, longest=1e-3)
    descent = follow(bowl, Goal(1e-9), widths=(0.1,))
    assert bowl.renewed == [False, True, True]
    assert n_steps(bowl) == 6
    assert not descent.solved


@pytest.mark.parametrize("n_slow", [1, 3])
def test_a_width_is_given_up_after_slow_steps(n_slow):
    bowl = Bowl(longest=1e-6)
    bowl.x = 0.5 * bowl.best
    descent = follow(bowl, Goal(1e-2, n_slow=n_slow), widths=(0.1,))
    assert n_steps(bowl) == n_slow
    assert not descent.solved


def test_steps_that_are_made_in_any_case():
    bowl = Bowl()
    bowl.x = bowl.best + 1e-6
    follow(bowl, Goal(1.0))
    assert n_steps(bowl) == 0
    follow(bowl, Goal(1.0, n_least=1))
    assert n_steps(bowl) == len(WIDTHS)


def test_a_small_gain_is_not_enough_where_the_duality_gap_lacks_more():
    """A factor that is far too large makes any step look small."""
    loose, strict = Bowl(), Bowl()
    for bowl in (loose, strict):
        bowl.factor = cholesky(1e8 * np.eye(len(bowl.x)))
    follow(loose, Goal(1e-3), widths=(0.1,))
    follow(strict, Goal(1e-3, lacking=1e-6), widths=(0.1,))
    assert strict.lacks() <= 1e-6 * abs(strict.here.objective) < loose.lacks()
