"""KernelMachine: the methods that all estimators have in common, but predictions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from aesvm.certificate.certificate import Certificate
from aesvm.estimators.conversion import check_compress, compressed, to_sklearn
from aesvm.estimators.documentation import LinkedToDocumentation
from aesvm.estimators.fitting import fit_method, fitting, forget
from aesvm.estimators.gathered import certify_gathered, reread, train_on_stream
from aesvm.estimators.learning import InfeasibleError, Learning
from aesvm.estimators.parameters import check_unchanged, facts_of
from aesvm.estimators.streams import (
    available_for_streams,
    check_streams,
    extended,
    new_stream,
    streamed_from,
    takes_source,
)
from aesvm.estimators.trained import (
    TrainedOn,
    certificate,
    certify_in_memory,
    check_as_trained,
    check_not_compressed,
    fit_rows,
)
from aesvm.estimators.validation import REDUCTION_CONSTRAINTS, STREAM_CONSTRAINTS, Interval, Seconds
from aesvm.io.model_file import plain_state, save, set_plain_state
from aesvm.machines.plan import check
from aesvm.out_of_core.source import readable_again
from aesvm.out_of_core.stream import StreamedModel
from aesvm.out_of_core.weighted_rows import GatheredRows
from aesvm.representative_set import RepresentativeSet

#: Constraints of the parameters that all estimators have.
MACHINE_CONSTRAINTS: dict[str, Any] = {
    **REDUCTION_CONSTRAINTS,
    "refine": [StrOptions({"auto", "exact"}), Interval(Integral, 0, None, closed="left")],
    "max_vectors": [None, Interval(Integral, 1, None, closed="left")],
    "gap_tol": [Interval(Real, 0.0, None, closed="left")],
    "time_limit": [None, Seconds()],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "cache_size": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="left")],
    "shrinking": ["boolean"],
    **STREAM_CONSTRAINTS,
}


class KernelMachine(LinkedToDocumentation):
    """An estimator that trains one or several SVMs."""

    _learns: ClassVar[Learning]

    refine: int | str
    max_vectors: int | None
    hull_tol: float
    representative_set_: RepresentativeSet
    shape_fit_: tuple[int, int]
    n_features_in_: int
    n_seen_: int
    _trained_on_: dict[str, Any]  # see TrainedOn
    _stream_: StreamedModel | None  # None where the model is of rows in memory

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """scikit-learn's, which inspects a signature, and every fit asks."""
        return super()._get_param_names()  # type: ignore[misc]

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train on all rows, or on representatives of them, as ``refine`` says.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows, or with ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Targets: classes or numbers. :class:`aesvm.AEOneClassSVM` ignores them.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C by row; rows of weight zero are left out.

        Returns
        -------
        self : object
        """
        return fit_rows(self, X, y, sample_weight)

    @available_for_streams
    def partial_fit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add rows of a stream, which need not fit into memory as a whole.

        The first call begins a stream, as does the first call after ``fit``. Representatives stand
        for its rows, within ``hull_tol`` and ``memory_budget``. The model is that of ``refine=0``.
        It is trained again whenever the stream has grown by a quarter, and by a call without rows.
        ``gamma`` must be a number.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The next rows. None: train the model on all rows so far.
        y : array-like of shape (n_samples,), default=None
            Their targets. :class:`aesvm.AEOneClassSVM` ignores them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; rows of weight zero are left out.

        Returns
        -------
        self : object
        """
        return self._take_in(X, y, sample_weight)

    def _take_in(self, X: Any, y: Any, sample_weight: Any, classes: NDArray | None = None) -> Self:
        """Add rows of a stream; ``classes``: all that will come."""
        check(facts_of(self, in_memory=False))
        before: StreamedModel | None = getattr(self, "_stream_", None)
        if before is None and X is None:
            raise ValueError("partial_fit without X needs rows of a stream that has begun.")
        if X is None and not (y is None and sample_weight is None):
            raise ValueError("X=None: y and sample_weight belong to rows: pass X too.")
        if before is None:
            forget(self)
            before = StreamedModel(new_stream(self, self.hull_tol), classes)
        with fitting(self) as (run, progress):
            validate = partial(self._learns.chunk, self, before)
            stream = extended(self, before.stream, X, y, sample_weight, validate, run, progress)
            now = replace(before, stream=stream)
            if X is None:
                self._learns.check_enough(stream.tally, "the stream")
            if now.is_due(self._learns.least_groups) or (X is None and not now.is_final):
                with suppress(InfeasibleError) if X is not None else nullcontext():
                    now = train_on_stream(self, now, run, progress)
        self.n_seen_ = stream.n_rows
        self._stream_ = now
        return self

    @takes_source
    def fit_stream(self, source: Iterable[tuple[Any, Any, Any]]) -> Self:
        """Train on all chunks of a source.

        Parameters
        ----------
        source : iterable of (X, y, sample_weight)
            Chunks of rows; y and sample_weight may be None. The readers of ``aesvm.io`` are such
            sources. A source that can be iterated over again is read once more for
            ``gamma="scale"``, twice for each round that ``refine`` asks for, and once more after
            the last round if that is cheap. With ``max_vectors`` it is read five to twelve times.
            If a callback such as :class:`aesvm.TimeLimit` ends the first pass, the model is trained
            on the rows read so far, ``n_seen_`` of them.

        Returns
        -------
        self : object

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> model = AESVC(gamma=1.0).fit_stream([(X, y, None)])
        >>> bool(model.score(X, y) > 0.98)
        True
        """
        check_streams(self, source)
        check(facts_of(self, in_memory=False))
        again = self.refine != 0 and readable_again(source)
        if not again and self.refine not in (0, "auto"):
            raise ValueError(
                f"refine={self.refine} reads source again in each round, and this source can be "
                'read only once: use refine=0, or "auto".'
            )
        forget(self)
        validate = partial(self._learns.chunk, self, None)
        with fitting(self) as (run, progress):
            passes = again and self.max_vectors is not None
            stream = streamed_from(self, source, self.hull_tol, validate, run, progress, passes)
            cut = f"the stream ({message})" if (message := progress.ending.message()) else ""
            self._learns.check_enough(stream.tally, cut or "the stream")
            now = StreamedModel(stream)
            rounds_from = source if again else None
            now = train_on_stream(self, now, run, progress, rounds_from)
        self.n_seen_ = stream.n_rows
        self._stream_ = replace(now, classes=getattr(self, "classes_", None))
        return self

    @property
    def certificate_(self) -> Certificate:
        """How close the model is to the exact SVM."""
        return certificate(self)

    save = save
    __getstate__ = plain_state
    __setstate__ = set_plain_state
    to_sklearn = to_sklearn

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives of a stream: see ``RepresentativeSet.select``."""
        check_is_fitted(self)
        if self._stream_ is None:
            raise ValueError(
                "select returns the representatives of a stream, and this model was fitted to X: "
                "its representatives are X[representative_set_.sample_indices_]."
            )
        return self._stream_.stream.tree.everything().columns()

    @fit_method
    def certify(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Certificate:
        """Compute what ``certificate_`` lacks, from the rows the model was trained on.

        It computes the decision values of all rows and, if the model is not exact, the kernel
        matrix of all rows with a non-zero multiplier. A model whose fitted attributes (such as
        ``intercept_``) were changed after training is refused.

        Parameters
        ----------
        X, y, sample_weight
            What ``fit`` was given.

        Returns
        -------
        certificate : Certificate
            It replaces ``certificate_``.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(5000, noise=0.1, random_state=0)
        >>> model = AESVC(gamma=1.0, refine=1).fit(X, y)
        >>> certificate = model.certify(X, y)
        >>> certificate.dual_objective < certificate.objective
        True
        """
        check_is_fitted(self)
        return certify_in_memory(self, X, y, sample_weight)

    @fit_method
    def compress(
        self,
        n_vectors: int | None = None,
        *,
        tol: float | None = None,
        X: ArrayLike | None = None,
        **others: Any,
    ) -> Self:
        """A copy of the model with fewer support vectors: smaller, and faster to predict.

        Vectors are chosen one by one, each so that the span of those chosen comes closest to the
        model. Coefficients and offset then change the decision values at all support vectors as
        little as possible. With ``tol`` the model is projected onto the span, and keeps its offset
        unless it finds outliers. Pairs of classes share vectors.

        Parameters
        ----------
        n_vectors : int, default=None
            The most support vectors to keep.
        tol : float, default=None
            The most that a decision value may change, in units of ``sqrt(k(x, x))``. As many
            vectors are kept as that needs, but no more than ``n_vectors``. One of the two must be
            given.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows to measure changes on. Of a one-class SVM, pass rows like the training rows: the
            offset is then set so that as many of them are outliers as before.
        **others : dict
            Refused. (The limit that is called ``max_vectors`` in training is ``n_vectors`` here.)

        Returns
        -------
        model : object
            A fitted estimator of the same class; this one is not changed. Its ``compression_`` has
            bounds on the changes of decision values, and those measured on X. Its certificate lacks
            the objective: ``certify`` computes it.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(2000, noise=0.3, random_state=0)
        >>> model = AESVC(gamma=1.0).fit(X, y)
        >>> small = model.compress(50, X=X)
        >>> len(small.support_), small.compression_.labels_changed < 0.01
        (50, True)
        """
        check_is_fitted(self)
        if others:
            raise TypeError(
                f"{type(self).__name__}.compress has no {next(iter(others))}: n_vectors is the "
                "most support vectors to keep, tol how far decision values may change, and X rows "
                "to measure that on."
            )
        check_compress(n_vectors, tol)
        return compressed(self, n_vectors, tol, X)

    @takes_source
    def certify_stream(self, source: Iterable[tuple[Any, Any, Any]]) -> Certificate:
        """Compute the objective that ``certificate_`` lacks, with another pass over the rows.

        Parameters
        ----------
        source : iterable of (X, y, sample_weight)
            All rows of the stream that the model was trained on.

        Returns
        -------
        certificate : Certificate
            It replaces ``certificate_``.

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
        >>> certificate.objective > 0
        True
        """
        check_is_fitted(self)
        if self._stream_ is None:
            check_not_compressed(self)
            raise ValueError("certify_stream is for a model of a stream: use certify(X, y).")
        check_streams(self, source)
        check_unchanged(self, TrainedOn.of(self).parameters)
        check_as_trained(self)
        with fitting(self, name="certify") as (run, whole):
            progress = whole.to_the_end()
            tree = self._stream_.stream.tree
            held = GatheredRows(tree.everything(), tree.hull_tol)
            streamed, tol = self._stream_, tree.hull_tol
            answers = reread(self, streamed, source, held, tol, run, progress, same_chunks=False)
            return certify_gathered(self, streamed.counts(), streamed.stream.scale, answers)
