"""AESVC on a stream: the weighted SVM of the set that stands for all rows so far.

The set is kept by ``streaming``; here the SVM of it is trained, from where the last one was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aesvm.base import Progress
from aesvm.certificate import NOT_DEFINITE, NOT_LOOKED, certify, definiteness
from aesvm.class_weights import class_weights
from aesvm.one_vs_one import Trained
from aesvm.representative import reduced
from aesvm.streaming import Streaming, of_streams
from aesvm.training import Options, Problem, StartOf, Training
from aesvm.tree import Held, Tree

#: The model is trained again once a stream has become so much longer: all trainings together then
#: take as long as a few of the last.
GROWTH = 1.25

#: Why a certificate has no number that all rows would be needed for.
SEEN_ONCE = "takes a pass over all rows, and a stream is seen once"


class StreamedSVC(Streaming):
    """``partial_fit`` of AESVC."""

    _counts_: dict[Any, int]  #: rows of each class
    _present_: frozenset  #: classes with a row of weight
    _given_classes_: NDArray | None  #: None where a source will show them

    _of_stream: ClassVar[tuple[str, ...]] = (
        *Streaming._of_stream,
        "_counts_",
        "_present_",
        "_given_classes_",
        "_trained_at_",
        "_started_from_",
    )

    @of_streams
    def partial_fit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Take in some more rows of a stream, which is never held whole.

        The first call, and the first after ``fit``, begins a stream. Its rows are represented
        within ``hull_tol``, and ``memory_budget``; the model is that of ``refine=0``, trained again
        whenever the stream has grown by a quarter, and by a call without rows. ``gamma`` must be a
        number.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The next rows. Without any, what is waiting is taken in, and the model trained.
        y : array-like of shape (n_samples,), default=None
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes there will be; needed in the first call, unless ``fit`` has shown them.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C by row; rows of weight zero are left out.

        Returns
        -------
        self : AESVC

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> model = AESVC(gamma=1.0)
        >>> for first in range(0, 20_000, 5_000):
        ...     rows = slice(first, first + 5_000)
        ...     model = model.partial_fit(X[rows], y[rows], classes=[0, 1])
        >>> model = model.partial_fit()
        >>> bool(model.score(X, y) > 0.98)
        True
        """
        if not hasattr(self, "_tree_") and X is not None:
            classes = getattr(self, "classes_", None) if classes is None else classes
            if classes is None:
                raise ValueError(
                    "classes=None: the first partial_fit of a stream needs all classes there "
                    "will be, as in classes=[0, 1]."
                )
            self._begin()
            self._given_classes_ = np.unique(np.asarray(classes))
        given = getattr(self, "_given_classes_", None)
        again: Any = given if classes is None else np.unique(np.asarray(classes))
        if given is not None and not np.array_equal(again, given):
            raise ValueError(
                f"classes={again.tolist()} were {given.tolist()} in the first call of this stream."
            )
        return self._advance(X, y, sample_weight)

    def _begin(self) -> None:
        super()._begin()
        self._counts_ = {}
        self._present_ = frozenset()
        self._given_classes_ = None

    def _next_rows(self, X, y, sample_weight, tree):
        if y is None:
            raise ValueError("y=None: a classifier needs the classes of the rows.")
        rows, labels, weights = super()._next_rows(X, y, sample_weight, tree)
        found, counts = np.unique(labels, return_counts=True)
        if self._given_classes_ is not None:
            unknown = np.setdiff1d(found, self._given_classes_)
            if len(unknown):
                raise ValueError(
                    f"y has {unknown.tolist()}, which are not among classes="
                    f"{self._given_classes_.tolist()}."
                )
        added = dict(zip(found.tolist(), counts.tolist(), strict=True))
        self._counts_ = {
            label: self._counts_.get(label, 0) + added.get(label, 0)
            for label in {**self._counts_, **added}
        }
        self._present_ |= frozenset(np.unique(labels[weights > 0]).tolist())
        return rows, labels, weights

    def _reduced(self, held: Held, tolerance: float, run: Any, progress: Progress) -> Held:
        estimator: Any = self
        settings = estimator._representative_set(tolerance)
        return reduced(settings, held, tolerance, estimator.gamma_, run, progress)

    def _tell(self, tree: Tree, at_end: bool, run: Any, progress: Progress) -> None:
        super()._tell(tree, at_end, run, progress)
        if len(self._present_) < 2:
            if at_end:
                raise ValueError(
                    f"the stream has rows of {len(self._present_)} class "
                    f"({sorted(self._present_)}): "
                    "classification needs at least two classes."
                )
            return
        if at_end or tree.n_rows >= GROWTH * getattr(self, "_trained_at_", 0):
            self._train_on(tree.settled(self._reducer(run, progress)), run, progress)
            self._trained_at_ = tree.n_rows

    def _train_on(self, tree: Tree, run: Any, progress: Progress) -> None:
        estimator: Any = self
        held = tree.everything()
        given = self._given_classes_
        classes = np.array(sorted(self._counts_)) if given is None else given
        labels = np.searchsorted(classes, held.y)
        estimator.classes_ = classes
        counts = [self._counts_.get(c, 0) for c in classes.tolist()]
        estimator.class_weight_ = class_weights(estimator.class_weight, classes, np.array(counts))
        costs = estimator.C * estimator.class_weight_[labels]
        problem = Problem(np.arange(len(held)), labels, held.weights, costs, len(classes))
        definite = definiteness(estimator.kernel, estimator.coef0)
        train = Training(
            Options(
                0, estimator.tol, estimator.max_iter, estimator.cache_size, estimator.shrinking
            ),
            partial(estimator._kernel_for, held.X),
            _no_rounds,
            definite != NOT_DEFINITE,
            run,
            progress,
        )
        results = train(problem, None, self._start_of(held, len(classes)))
        reach = tree.reach
        pairs = [i + j for i, j in combinations(counts, 2)]
        told = [
            one
            if isinstance(one, int)
            else one._replace(
                account=replace(
                    one.account,
                    exact=False,
                    n_rows=n_rows,
                    max_residual=reach**2,
                    total_residual=n_rows * reach**2,
                    weighted_distances=one.account.total_bound * reach,
                    hinge=None,
                    dual_objective=None,
                    violators=None,
                )
            )
            for one, n_rows in zip(results, pairs, strict=True)
        ]
        estimator._assemble(held.X, labels, told)
        self._started_from_ = [
            None if isinstance(one, int) else _multipliers(held, one.trained) for one in results
        ]
        estimator._multipliers_ = [None] * len(results)
        estimator.support_ = held.indices[estimator.support_]
        estimator._fingerprint_ = None
        estimator._trained_with_ = {}
        estimator.shape_fit_ = (tree.n_rows, held.X.shape[1])
        certificate = certify(estimator._accounts_, tree.hull_tol, definite)
        estimator.certificate_ = replace(
            certificate,
            missing={
                name: SEEN_ONCE if why == NOT_LOOKED else why
                for name, why in certificate.missing.items()
            },
        )
        chosen = estimator._representative_set(tree.hull_tol)
        chosen._tree_ = tree
        chosen.n_features_in_, chosen.gamma_ = held.X.shape[1], estimator.gamma_
        chosen.n_seen_ = tree.n_rows
        chosen._describe(tree)
        estimator.representative_set_ = chosen

    def _start_of(self, held: Held, n_classes: int) -> StartOf | None:
        """The multipliers of the last model, for those of its rows that are still held."""
        before = getattr(self, "_started_from_", None)
        if before is None or len(before) != n_classes * (n_classes - 1) // 2:
            return None

        def start_of(pair: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
            start = np.zeros(len(rows))
            if before[pair] is not None:
                indices, alpha = before[pair]
                own = held.indices[rows]
                at = np.minimum(np.searchsorted(own, indices), len(own) - 1)
                here = own[at] == indices
                start[at[here]] = alpha[here]
            return start

        return start_of


def _no_rounds(*_: Any) -> Any:
    raise AssertionError("a stream has no rounds: its rows are gone")


def _multipliers(held: Held, trained: Trained) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of the support vectors, by their place in the stream."""
    support = np.flatnonzero(trained.coefs)
    return held.indices[trained.rows[support]], np.abs(trained.coefs[support])
