"""A stream: rows that are added chunk by chunk, and are never all in memory.

A ``Stream`` is a value: taking in a chunk gives another and leaves this one as it is, so a call
that fails has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import isclose
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.formulations.protocol import Array
from aesvm.kernels import KernelSpec
from aesvm.kernels.gamma import Moments, Variance, has_gamma
from aesvm.kernels.joint import TargetScale
from aesvm.machines.results import Terms
from aesvm.out_of_core.merge_tree import MergeTree
from aesvm.out_of_core.reducer import RowReducer
from aesvm.out_of_core.source import ClassCounts, Tally, Validate, read, readable_again
from aesvm.out_of_core.weighted_rows import WeightedRows
from aesvm.runtime.progress import Progress
from aesvm.runtime.warn import warn
from aesvm.sets.derive import ReductionSettings
from aesvm.sets.digest import NOTHING, Digest

#: The note of a fit that ended while it read a source.
_CUT = "the source was read to row {:,}, and no other row was learned from"
_CUT_SCALE = "gamma is computed from the first {:,} rows"

NO_ROWS = "source has no rows: a stream needs at least one."


#: The model of a stream is trained again once the stream is this much longer: all trainings
#: together then take as long as a few of the last.
GROWTH = 1.25


@dataclass(frozen=True)
class Stream:
    """The rows of a stream so far.

    ``began_with``: the kernel's parameters as they were given: a stream cannot change them.
    ``joint``: whether rows stand for each other together with their targets.
    """

    spec: KernelSpec
    began_with: dict[str, Any]
    tree: MergeTree
    joint: bool = False
    tally: Tally = field(default_factory=Tally.of_nothing)
    digests: dict[int, Digest] = field(default_factory=dict)  #: by number of rows, of a source
    with_targets: bool = True
    moments: Moments = field(default_factory=Moments)  #: of the targets, where ``joint``
    scale: TargetScale | None = None  #: their unit; None where all were equal, or there are none

    @property
    def n_rows(self) -> int:
        return self.tally.n_rows

    @property
    def is_sparse(self) -> bool:
        (first, *_) = self.tree.sets()
        return bool(sp.issparse(first.X))

    def check_kernel(self, now: dict[str, Any]) -> None:
        """Refuse another kernel than that of the rows before."""
        for name, before in self.began_with.items():
            if before is not now[name] and before != now[name]:
                raise ValueError(
                    f"{name}={now[name]!r} was {before!r} when the stream began: distances in "
                    "another kernel's space do not add up. Begin another stream."
                )

    def with_settings(self, hull_tol: float, budget: float, loosen: bool) -> Stream:
        """With a tolerance that is no smaller than that of the rows before, and another budget."""
        hull_tol = max(self.tree.hull_tol, float(hull_tol))
        tree = self.tree._replace(hull_tol=hull_tol, budget=budget, loosen=loosen, samples=False)
        return replace(self, tree=tree)

    def add(
        self,
        chunk: WeightedRows,
        with_targets: bool,
        settings: ReductionSettings,
        run: Callable,
        progress: Progress,
    ) -> Stream:
        """Take in a chunk."""
        if self.n_rows:
            self._check_kind(chunk, with_targets)
        moments = self.moments
        if self.joint:
            moments |= Moments.of(chunk.targets, chunk.weights)
        rows = chunk.of_stream(self.n_rows)
        now = replace(self, moments=moments, scale=self._scale(moments, rows.targets))
        reduce = now.reducer(settings).at_levels(run, progress)
        return replace(
            now,
            tree=self.tree.add(rows, len(chunk), reduce),
            tally=self.tally | Tally.of(chunk, self.n_rows),
            with_targets=with_targets,
        )

    def settled(self, settings: ReductionSettings, run: Callable, progress: Progress) -> Stream:
        """With all rows reduced."""
        reduce = self.reducer(settings).at_levels(run, progress)
        return replace(self, tree=self.tree.settled(reduce))

    def reducer(self, settings: ReductionSettings) -> RowReducer:
        return RowReducer(self.spec, settings, self.scale)

    def _scale(self, moments: Moments, targets: NDArray) -> TargetScale | None:
        """The unit of targets: their standard deviation, those that come now included; None where
        all of them are equal.

        Rows that stand for others were that near to them in the unit of then: in a larger one they
        are still, in a smaller one they need not be.
        """
        if not moments.weight:
            return None
        if self.scale is None and moments.all_equal:  # but for rounding: are they?
            held = [own.targets for own in self.tree.sets()]
            if np.ptp(np.concatenate([*held, targets])) == 0.0:
                return None
        found, before = TargetScale.from_moments(moments), self.scale
        if before is None or self.tree.whole:
            return found
        return found._replace(spread=max(found.spread, before.spread))

    def _check_kind(self, chunk: WeightedRows, with_targets: bool) -> None:
        """Refuse rows that are of another kind than those before."""
        if with_targets != self.with_targets:
            now, before = ("given", "missing") if with_targets else ("missing", "given")
            raise ValueError(
                f"y is {now}, and was {before} before: a stream has classes throughout, or none."
            )
        held = self.tree.sets()
        if not held:
            return
        if sp.issparse(held[0].X) != sp.issparse(chunk.X):
            raise ValueError(
                f"X is {'sparse' if sp.issparse(chunk.X) else 'dense'}, and was not before: a "
                "stream has rows of one kind."
            )
        if _is_number(held[0].targets) != _is_number(chunk.targets):
            raise ValueError(
                f"y is of {chunk.targets.dtype} and was of {held[0].targets.dtype} before: a "
                "stream has numbers, or strings, for its classes throughout."
            )


@dataclass(frozen=True)
class StreamedModel:
    """A stream, and the model of it that was trained last."""

    stream: Stream
    classes: NDArray | None = None  #: all that there will be; None while a source shows them
    trained_at: int = 0  #: rows of the stream when the model was trained
    trained_digest: Digest = NOTHING  #: of these rows
    refined: bool = False  #: whether rounds led to the model, or passes over all rows
    starts: Terms | None = None  #: multipliers of the model, rows by their index in the stream

    def counts(self) -> ClassCounts:
        tally = self.stream.tally
        if self.classes is not None:
            return tally.of_classes(self.classes)
        return tally.sorted_classes(self.stream.tree.sets()[0].groups)

    @property
    def is_final(self) -> bool:
        """Whether another training on the set alone would be a step back."""
        return self.refined and self.trained_at == self.stream.n_rows

    def is_due(self, n_groups: int) -> bool:
        """Whether the stream has grown enough for the model to be trained again.

        ``n_groups``: of rows that there must be, classes or others, for anything to be learned.
        """
        enough = len(self.stream.tally.present) >= n_groups
        return enough and self.stream.n_rows >= GROWTH * self.trained_at

    def check_classes(self, labels: NDArray) -> None:
        """Refuse classes that were not announced."""
        if self.classes is None:
            return
        unknown = np.setdiff1d(labels, self.classes)
        if len(unknown):
            raise ValueError(
                f"y has {unknown.tolist()}, which are not among classes={self.classes.tolist()}."
            )

    def start_of(self, number: int, indices: NDArray[np.int64]) -> Array | None:
        """The coefficients of the last model, for those of its rows that are still held."""
        if self.starts is None or not len(indices):
            return None
        start = np.zeros(len(indices))
        support, coefs = self.starts.one(number)
        at = np.minimum(np.searchsorted(indices, support), len(indices) - 1)
        here = indices[at] == support
        start[at[here]] = coefs[here]
        return start


def _is_number(values: NDArray) -> bool:
    return values.dtype.kind in "biuf"


def take_all(
    stream: Stream,
    source: Iterable,
    validate: Validate,
    settings: ReductionSettings,
    run: Callable,
    progress: Progress,
    scaled: bool = False,
) -> Stream:
    """A stream with all chunks of a source taken in, and reduced.

    ``scaled``: whether its gamma is that of "scale", from a pass before this one. Where the fit is
    to end before it is done, the stream is of the rows that were read.
    """
    digests = {}
    variance = Variance()
    for X, y, sample_weight in read(source, "read", progress, _CUT):
        try:
            chunk = validate(X, y, sample_weight, stream.n_rows == 0)
        except ValueError as error:
            where = f"in the chunk of source that begins at row {stream.n_rows:,}"
            raise type(error)(f"{error} ({where})") from error
        if scaled:
            variance |= Variance.of(chunk.X)
        stream = stream.add(chunk, y is not None, settings, run, progress)
        digests[stream.n_rows] = stream.tally.digest
    if not stream.n_rows:
        raise ValueError(NO_ROWS)
    if scaled and not progress.is_over():
        check_scale(stream.spec.gamma, variance)
    stream = replace(stream.settled(settings, run, progress), digests=digests)
    progress.say(f"{stream.n_rows:,} rows read, {len(stream.tree.everything()):,} held")
    return stream


def gamma_of_source(
    gamma: str | float,
    kernel: Any,
    source: Iterable,
    valid_rows: Callable[[Any, bool], Any],
    progress: Progress,
) -> float:
    """The number that gamma stands for; "scale" takes a pass over the source."""
    if not has_gamma(kernel):
        return 1.0
    if not isinstance(gamma, str):
        return float(gamma)
    if not readable_again(source):
        raise ValueError(
            f"gamma={gamma!r} is a statistic of all rows, and source can be read only "
            "once: pass a number for gamma, or a source that can be read again."
        )
    variance = Variance()
    for X, _, _ in read(source, "scale", progress, _CUT_SCALE):
        variance |= Variance.of(valid_rows(X, not variance.n_values))
        if gamma == "auto":
            break
    if not variance.n_values:
        raise ValueError(NO_ROWS)
    return variance.gamma(gamma)


def check_scale(gamma: float, variance: Variance) -> None:
    """Refuse a source that gave other rows for ``gamma="scale"`` than it gives now."""
    now = variance.gamma("scale")
    if not isclose(now, gamma, rel_tol=1e-9):
        raise ValueError(
            f'gamma="scale" is {gamma:.9g} for the rows that source gave first, and {now:.9g} when '
            "it was read again: it must give the same chunks each time it is read."
        )


def warn_if_looser(
    tree: MergeTree,
    hull_tol: float,
    memory_budget: int | str | None = None,
    was_sampled: bool = False,
) -> None:
    """Warn if a budget has raised the tolerance, or replaced the set by a sample.

    ``memory_budget``: as it was given; None: where only its bytes are known.
    """
    given = f"{tree.budget:,.0f} bytes" if memory_budget is None else repr(memory_budget)
    if tree.sampled and not was_sampled:
        warn(
            f"memory_budget={given} cannot hold the set even at hull_tol="
            f"{tree.hull_tol:g}: what is held of the {tree.n_rows:,} rows so far is a weighted "
            "random sample, and no bound holds. Raise memory_budget to keep a set."
        )
    elif tree.hull_tol > float(hull_tol) and not tree.sampled:
        warn(
            f"memory_budget={given} cannot hold the set at hull_tol="
            f"{hull_tol:g}: it is {tree.hull_tol:g} from here on, and rows are within "
            f"{tree.reach**2:.3g} of their combinations so far. Raise memory_budget to keep "
            "hull_tol."
        )
