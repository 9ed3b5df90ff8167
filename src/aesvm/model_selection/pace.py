"""How far a search is, and how long the rest will take.

The time of a chain of candidates is that of the same chain on other folds; before it is done on
any, the mean of the others. So the first fold tells the time of all that follow.
"""

from __future__ import annotations

from collections.abc import Hashable


class Pace:
    """The seconds that pieces of work take, each known by its kind.

    Parameters
    ----------
    kinds : list of hashable
        The kind of every piece.

    Examples
    --------
    >>> from aesvm.model_selection.pace import Pace
    >>> pace = Pace(["short", "long", "short", "long"])
    >>> pace.done("short", 1.0)
    >>> pace.done("long", 3.0)
    >>> pace.fraction_done, pace.seconds_left
    (0.5, 4.0)
    >>> pace.done("short", 1.0)
    >>> pace.fraction_done, pace.seconds_left
    (0.625, 3.0)
    """

    def __init__(self, kinds: list[Hashable]) -> None:
        self.left: dict[Hashable, int] = {}
        for kind in kinds:
            self.left[kind] = self.left.get(kind, 0) + 1
        self.taken: dict[Hashable, list[float]] = {kind: [] for kind in self.left}

    def done(self, kind: Hashable, seconds: float) -> None:
        """Count a piece that is done."""
        self.left[kind] -= 1
        self.taken[kind].append(seconds)

    @property
    def seconds_left(self) -> float:
        """The expected seconds of the rest, with one worker."""
        known = [seconds for each in self.taken.values() for seconds in each]
        usual = sum(known) / len(known) if known else 1.0
        return sum(
            count * (sum(self.taken[kind]) / len(self.taken[kind]) if self.taken[kind] else usual)
            for kind, count in self.left.items()
        )

    @property
    def fraction_done(self) -> float:
        """The fraction of the expected seconds of the whole that are over."""
        done = sum(seconds for each in self.taken.values() for seconds in each)
        rest = self.seconds_left
        return done / (done + rest) if done + rest else 1.0
