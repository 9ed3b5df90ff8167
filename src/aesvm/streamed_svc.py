"""AESVC on a stream: the weighted SVM of the set that stands for all rows so far.

The set is kept by ``streaming``; here the SVM of it is trained, from where the last one was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import with_callbacks
from sklearn.utils.validation import check_is_fitted

from aesvm.base import Progress, Threads, one_blas_thread
from aesvm.certificate import Certificate, check_unchanged
from aesvm.gathered import Census, Gathered, GatheredSVC
from aesvm.one_vs_one import Trained
from aesvm.representative import reduced
from aesvm.reread import Reread
from aesvm.source import check_source, digest, readable_again
from aesvm.streaming import Streaming, of_streams
from aesvm.training import StartOf
from aesvm.tree import Held, Tree

#: The model is trained again once a stream has become so much longer: all trainings together then
#: take as long as a few of the last.
GROWTH = 1.25


class StreamedSVC(GatheredSVC, Streaming):
    """``partial_fit`` of AESVC."""

    _counts_: dict[Any, int]  #: rows of each class
    _present_: frozenset  #: classes with a row of weight
    _given_classes_: NDArray | None  #: None where a source will show them
    _digests_: list[int] | None  #: of the chunks of a source that is to be read again

    _of_stream: ClassVar[tuple[str, ...]] = (
        *Streaming._of_stream,
        "_counts_",
        "_present_",
        "_given_classes_",
        "_digests_",
        "_trained_at_",
        "_started_from_",
        "_hull_tol_",
        "_pairs_",
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
        self._digests_ = None  # of a source, and it is no longer all there is
        return self._advance(X, y, sample_weight)

    @with_callbacks
    def certify_stream(self, source: Iterable[tuple[Any, Any, Any]]) -> Certificate:
        """Compute the objective that ``certificate_`` lacks, by a pass over the rows again.

        Parameters
        ----------
        source : iterable of (X, y, sample_weight)
            All rows of the stream that the model was trained on.

        Returns
        -------
        certificate : Certificate
            It takes the place of ``certificate_``.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> chunks = [(X[at : at + 5_000], y[at : at + 5_000], None) for at in (0, 5_000, 10_000)]
        >>> model = AESVC(gamma=1.0, refine=0).fit_stream(chunks)
        >>> model.certificate_.objective is None
        True
        >>> certificate = model.certify_stream(chunks)
        >>> most = certificate.reduced_objective + certificate.theorem_2_bound
        >>> 0 < certificate.objective < most
        True
        """
        check_is_fitted(self)
        estimator: Any = self
        if not hasattr(self, "_tree_"):
            raise ValueError("certify_stream is for a model of a stream: use certify(X, y).")
        check_source(source)
        check_unchanged(self, self._trained_with_)
        task = estimator._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        with one_blas_thread, Threads(self.n_jobs) as run:
            progress, n_rows = Progress(self, task), estimator.shape_fit_[0]
            digests = self._digests_ if self._tree_.n_rows == n_rows else None
            self._look(Reread(self, source, run, progress, n_rows, digests or ()))
        task.call_on_fit_task_end(estimator=self)
        return estimator.certificate_

    def _begin(self) -> None:
        super()._begin()
        self._counts_ = {}
        self._present_ = frozenset()
        self._given_classes_ = None
        self._digests_ = None

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
        if self._digests_ is not None:
            self._digests_.append(digest(rows, labels, weights))
        return rows, labels, weights

    def _reduced(
        self, held: Held, tolerance: float, enough: float | None, run: Any, progress: Progress
    ) -> Held:
        estimator: Any = self
        settings = estimator._representative_set(tolerance)
        return reduced(settings, held, tolerance, estimator.gamma_, run, progress, enough)

    def _tell(self, tree: Tree, at_end: bool, run: Any, progress: Progress) -> None:
        super()._tell(tree, at_end, run, progress)
        if at_end:
            self._check_classes()
        elif len(self._present_) < 2:
            return
        trained_at = getattr(self, "_trained_at_", 0)
        if trained_at == tree.n_rows and self.certificate_.rounds:
            return  # nothing is new, and the set alone would be a step back
        if at_end or tree.n_rows >= GROWTH * trained_at:
            self._train_on(tree.settled(self._reducer(run, progress)), run, progress)
            self._trained_at_ = tree.n_rows

    def _check_rounds(self, source: Iterable) -> None:
        self._check_not_exact()
        self._digests_ = [] if self.refine and readable_again(source) else None
        if self._digests_ is None and self.refine not in (0, "auto"):
            raise ValueError(
                f"refine={self.refine} makes rounds, in which source is read again, and this one "
                'can be read only once: use refine=0, or "auto".'
            )

    def _finish(self, source: Iterable, run: Any, progress: Progress) -> None:
        if self._digests_ is None:
            super()._finish(source, run, progress)
            self._given_classes_ = self.classes_
            return
        Streaming._tell(self, self._tree_, True, run, progress)
        self._check_classes()
        census = self._census(self._tree_.n_rows)
        places = Reread(self, source, run, progress, self._tree_.n_rows, self._digests_)
        self._refine_from(places, self._tree_, census, run, progress)
        self._trained_at_ = self._tree_.n_rows
        self._given_classes_ = self.classes_

    def _check_classes(self) -> None:
        if len(self._present_) < 2:
            raise ValueError(
                f"the stream has rows of {len(self._present_)} class "
                f"({sorted(self._present_)}): "
                "classification needs at least two classes."
            )

    def _train_on(self, tree: Tree, run: Any, progress: Progress) -> None:
        held, census = self._condensed(tree, run, progress), self._census(tree.n_rows)
        gathered = Gathered.of(held, census, self._costs(census))
        start_of = self._start_of(held, len(census.classes))
        results = self._train_gathered(gathered, census, tree.hull_tol, run, progress, start_of)
        self._started_from_ = [
            None if isinstance(one, int) else _multipliers(held, one.trained) for one in results
        ]

    def _census(self, n_rows: int) -> Census:
        if self._given_classes_ is None:
            return Census.of(n_rows, self._counts_, self._tree_.sets()[0].y)
        classes = self._given_classes_
        counts = np.array([self._counts_.get(c, 0) for c in classes.tolist()])
        return Census(n_rows, classes, counts)

    def _condensed(self, tree: Tree, run: Any, progress: Progress) -> Held:
        """What the model is trained on: ``representative_set_`` tells of it."""
        held = tree.condensed(self._reducer(run, progress))
        estimator: Any = self
        chosen = estimator._representative_set(tree.hull_tol)
        chosen._tree_ = tree._replace(levels=(held,), pending=())
        chosen.n_features_in_, chosen.gamma_ = estimator.n_features_in_, estimator.gamma_
        chosen.n_seen_ = tree.n_rows
        chosen._describe(chosen._tree_)
        estimator.representative_set_ = chosen
        return held

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


def _multipliers(held: Held, trained: Trained) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of the support vectors, by their place in the stream."""
    support = np.flatnonzero(trained.coefs)
    return held.indices[trained.rows[support]], np.abs(trained.coefs[support])
