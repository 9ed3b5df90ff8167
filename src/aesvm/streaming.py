"""``partial_fit``: what an estimator needs to learn from rows that come in pieces (``tree``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import with_callbacks
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from aesvm.base import (
    Progress,
    Threads,
    all_or_nothing,
    fitted_attributes,
    one_blas_thread,
    validated_rows,
    warn,
)
from aesvm.kernels import resolve_gamma
from aesvm.kernels.functions import WITH_GAMMA
from aesvm.source import check_source, read, readable_again
from aesvm.spread import Spread
from aesvm.tree import Held, Reduce, Tree, bytes_of, enough_at, tolerance_of

#: Parameter constraints of an estimator that streams.
STREAM_CONSTRAINTS: dict[str, list] = {
    "memory_budget": [Interval(Integral, 1, None, closed="left"), str, None],
    "on_overflow": [StrOptions({"raise", "loosen"})],
}


def _can_stream(estimator: Any) -> bool:
    """Refuse what needs all rows at once."""
    if estimator.kernel == "precomputed":
        raise AttributeError(
            'kernel="precomputed" is the kernel matrix of all rows, and a stream never has all: '
            "partial_fit needs rows, and a kernel or a callable."
        )
    if estimator.kernel in WITH_GAMMA and isinstance(estimator.gamma, str):
        raise AttributeError(
            f"gamma={estimator.gamma!r} is a statistic of all rows, and a stream never has all: "
            "partial_fit needs a number."
        )
    return True


def of_streams(method: Callable) -> Any:
    """Decorate ``partial_fit``: it is there where a stream is possible, and all or nothing."""
    return available_if(_can_stream)(with_callbacks(all_or_nothing(method)))


#: Parameters that a stream cannot change.
_KERNEL = ("kernel", "gamma", "degree", "coef0")

_NO_ROWS = "source has no rows: a stream needs at least one."


class Streaming:
    """``partial_fit`` and ``select``, for an estimator that can reduce a weighted set."""

    kernel: Any
    gamma: str | float
    hull_tol: float
    memory_budget: int | str | None
    on_overflow: str
    n_jobs: int | None
    _tree_: Tree
    _kernel_: tuple  #: the parameters it began with
    _with_classes_: bool

    # scikit-learn's, of the estimator that this is a part of
    _validate_params: Any
    _init_callback_context: Any

    #: Attributes that only a stream has.
    _of_stream: ClassVar[tuple[str, ...]] = ("_tree_", "n_seen_", "_kernel_", "_with_classes_")

    @of_streams
    def partial_fit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Take in some more rows of a stream, which is never held whole.

        The first call, and the first after ``fit``, begins a stream. ``gamma`` must be a number.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The next rows. Without any, what is waiting is reduced.
        y : array-like of shape (n_samples,), default=None
            Their classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights; rows of weight zero are left out.

        Returns
        -------
        self : object

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import RepresentativeSet
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> stream = RepresentativeSet(gamma=1.0)
        >>> for first in range(0, 20_000, 5_000):
        ...     rows = slice(first, first + 5_000)
        ...     stream = stream.partial_fit(X[rows], y[rows])
        >>> stream = stream.partial_fit()
        >>> len(stream.sample_indices_) < 1_000
        True
        >>> float(round(stream.weights_.sum(), 6))
        20000.0
        """
        if X is not None and not hasattr(self, "_tree_"):
            self._begin()
        return self._advance(X, y, sample_weight)

    def _advance(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Take in some rows, or without any reduce what waits."""
        self._validate_params()
        tree = getattr(self, "_tree_", None)
        if X is None and tree is None:
            raise ValueError("partial_fit without X needs rows of a stream that has begun.")
        self._same_kernel(tree)
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        rows = None if X is None else self._next_rows(X, y, sample_weight, tree)
        if tree is None:
            self.gamma_ = 1.0 if isinstance(self.gamma, str) else float(self.gamma)
            tree = self._planted()
        now = self._planted()
        tree = now._replace(
            hull_tol=max(tree.hull_tol, now.hull_tol),
            pending=tree.pending,
            levels=tree.levels,
            n_rows=tree.n_rows,
        )
        progress = Progress(self, task)
        with one_blas_thread, Threads(self.n_jobs) as run:
            reduce = self._reducer(run, progress)
            grown = tree.settled(reduce) if rows is None else tree.add(*rows, reduce)
            self._keep(tree, grown)
            self._tell(grown, X is None, run, progress)
        task.call_on_fit_task_end(estimator=self)
        return self

    @with_callbacks
    @all_or_nothing
    def fit_stream(self, source: Iterable[tuple[Any, Any, Any]]) -> Self:
        """Take in all chunks of a source, as a stream of its own.

        Parameters
        ----------
        source : iterable of (X, y, sample_weight)
            Chunks of rows; y and sample_weight may be None. The readers of ``aesvm.io`` are such
            sources. One that can be iterated over again is read twice where ``gamma`` is "scale",
            and by AESVC twice more for each of the rounds that ``refine`` asks for.

        Returns
        -------
        self : object

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import RepresentativeSet
        >>> X, y = make_moons(20_000, noise=0.1, random_state=0)
        >>> parts = [slice(first, first + 5_000) for first in range(0, 20_000, 5_000)]
        >>> chunks = [(X[part], y[part], None) for part in parts]
        >>> stream = RepresentativeSet().fit_stream(chunks)
        >>> stream.n_seen_
        20000
        """
        self._validate_params()
        check_source(source)
        if self.kernel == "precomputed":
            raise ValueError(
                'kernel="precomputed" is the kernel matrix of all rows, and a stream never has '
                "all: use another kernel, or a callable."
            )
        task = self._init_callback_context(max_subtasks=None)
        task.call_on_fit_task_begin(estimator=self)
        progress = Progress(self, task)
        self._begin()
        self._check_rounds(source)
        self.gamma_ = self._gamma_of(source, progress)
        tree = self._planted()
        with one_blas_thread, Threads(self.n_jobs) as run:
            reduce = self._reducer(run, progress)
            for X, y, sample_weight in read(source, "read", progress):
                if not np.shape(X)[0]:
                    continue
                begun = tree if tree.n_rows else None
                tree = tree.add(*self._next_rows(X, y, sample_weight, begun), reduce)
            if not tree.n_rows:
                raise ValueError(_NO_ROWS)
            self._keep(self._planted(), tree.settled(reduce))
            progress.say(f"{tree.n_rows:,} rows read, {len(self._tree_.everything()):,} held")
            self._finish(source, run, progress)
        task.call_on_fit_task_end(estimator=self)
        return self

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives of a stream: what another estimator is trained with.

        Returns
        -------
        X_selected : of the kind of the rows, shape (n_representatives, n_features)
        y_selected : ndarray of shape (n_representatives,)
            Zeros where the stream has no classes.
        weights : ndarray of shape (n_representatives,)
            To be passed as ``sample_weight``.
        """
        check_is_fitted(self)
        if not hasattr(self, "_tree_"):
            raise ValueError(
                "select gives the representatives of a stream, and this was fitted to X: "
                "X[sample_indices_] are its representatives."
            )
        held = self._tree_.everything()
        return held.X.copy(), held.y.copy(), held.weights.copy()

    @abstractmethod
    def _reduced(
        self, held: Held, tolerance: float, enough: float | None, run: Any, progress: Progress
    ) -> Held:
        """A set whose rows are within a squared distance of those that remain.

        Where more than a share of ``enough`` would remain, all do.
        """

    def _tell(self, tree: Tree, at_end: bool, run: Any, progress: Progress) -> None:
        """Fitted attributes of the stream so far; ``at_end``: no more rows are known of."""
        self.n_seen_ = tree.n_rows

    def _begin(self) -> None:
        """A stream of its own begins: what was fitted before does not belong to it."""
        for name in fitted_attributes(self):
            delattr(self, name)
        self._kernel_ = self._kernel_now()

    def _kernel_now(self) -> tuple:
        return tuple(getattr(self, name) for name in _KERNEL)

    def _same_kernel(self, tree: Tree | None) -> None:
        for name, before, now in zip(_KERNEL, self._kernel_, self._kernel_now(), strict=True):
            if tree is not None and before is not now and before != now:
                raise ValueError(
                    f"{name}={now!r} was {before!r} when the stream began: distances in another "
                    "kernel's space do not add up. Begin another stream."
                )

    def _forget_stream(self) -> None:
        for name in self._of_stream:
            self.__dict__.pop(name, None)

    def _planted(self) -> Tree:
        return Tree(self.hull_tol, bytes_of(self.memory_budget), self.on_overflow == "loosen")

    def _reducer(self, run: Any, progress: Progress) -> Reduce:
        quiet = progress.quietly()

        def reduce(held: Held, hull_tol: float, level: int | None) -> Held:
            tolerance = tolerance_of(hull_tol, level, held.reach)
            return self._reduced(held, tolerance, enough_at(level), run, quiet)

        return reduce

    def _keep(self, before: Tree, tree: Tree) -> None:
        self._warn_if_looser(before.hull_tol, tree)
        self._tree_ = tree

    def _warn_if_looser(self, hull_tol: float, tree: Tree) -> None:
        if tree.hull_tol > hull_tol:
            warn(
                f"memory_budget={self.memory_budget!r} cannot hold the set at hull_tol="
                f"{hull_tol:g}: it is {tree.hull_tol:g} from here on, and rows are within "
                f"{tree.reach**2:.3g} of their combinations so far."
            )

    def _check_rounds(self, source: Iterable) -> None:
        """Refuse a source that cannot give what is asked for."""

    def _finish(self, source: Iterable, run: Any, progress: Progress) -> None:
        """Fitted attributes of a source that was read to its end."""
        self._tell(self._tree_, True, run, progress)

    def _gamma_of(self, source: Iterable, progress: Progress) -> float:
        """The number that gamma stands for; "scale" takes a pass over the source."""
        if not isinstance(self.gamma, str) or self.kernel not in WITH_GAMMA:
            return resolve_gamma(self.gamma, np.empty((0, 1)), self.kernel)
        if not readable_again(source):
            raise ValueError(
                f"gamma={self.gamma!r} is a statistic of all rows, and source can be read only "
                "once: pass a number for gamma, or a source that can be read again."
            )
        spread = Spread()
        for X, _, _ in read(source, "scale", progress):
            if not np.shape(X)[0]:
                continue
            spread |= Spread.of(validated_rows(self, X, reset=not spread.n_values))
            if self.gamma == "auto":
                break
        if not spread.n_values:
            raise ValueError(_NO_ROWS)
        return spread.gamma(self.gamma)

    def _next_rows(self, X, y, sample_weight, tree: Tree | None) -> tuple[Any, NDArray, NDArray]:
        """Valid rows, of the kind of those before; copies, since a caller may use his again."""
        data, classes, weights = valid_rows(self, X, y, sample_weight, reset=tree is None)
        if tree is not None and (y is None) == self._with_classes_:
            raise ValueError(
                f"y is {'missing' if y is None else 'given'}, and was "
                f"{'given' if y is None else 'missing'} before: a stream has classes throughout, "
                "or none."
            )
        self._with_classes_ = y is not None
        before = [] if tree is None else tree.sets()[:1]
        if any(sp.issparse(held.X) != sp.issparse(data) for held in before):
            raise ValueError(
                f"X is {'sparse' if sp.issparse(data) else 'dense'}, and was not before: a stream "
                "has rows of one kind."
            )
        if any(_kind(held.y) != _kind(classes) for held in before):
            raise ValueError(
                f"y is of {classes.dtype} and was of {before[0].y.dtype} before: a stream has "
                "numbers, or strings, for its classes throughout."
            )
        return data.copy(), classes.copy(), weights


def valid_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool
) -> tuple[Any, NDArray, NDArray[np.float64]]:
    """Some rows of a stream, the class of each (zero where there are none) and its weight."""
    data = validated_rows(estimator, X, reset=reset)
    weights = _check_sample_weight(
        sample_weight,
        data,
        dtype=np.float64,
        ensure_non_negative=True,
        copy=True,
        allow_all_zero_weights=True,
    )
    classes = np.zeros(data.shape[0], dtype=np.int8)
    if y is not None:
        check_consistent_length(data, y)
        classes = column_or_1d(y, warn=True)
        check_classification_targets(classes)
    return data, classes, weights


def _kind(values: NDArray) -> str:
    return "numbers" if values.dtype.kind in "biuf" else "strings"
