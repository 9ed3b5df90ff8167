"""What differs between versions of scikit-learn, from 1.6 on.

No other module asks for the version, but for ``accel.seam``, which replaces private functions.

scikit-learn has callbacks from 1.9 on. With an older version our estimators and searches have
callbacks of their own, by the same methods: progress and ``TimeLimit`` work alike. Pipelines, and
scikit-learn's searches, do not pass them on there. ``sklearn.callback.ProgressBar`` needs 1.9.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import _clone_parametrized
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import _check_sample_weight

#: Major and minor number of the version that is installed.
VERSION: tuple[int, ...] = parse_version(sklearn.__version__).release[:2]

#: Whether scikit-learn has callbacks.
HAS_CALLBACKS = VERSION >= (1, 9)

#: Some rows, or columns, of anything that scikit-learn takes as data.
safe_indexing = _safe_indexing

_HOOKS = ("setup", "teardown", "on_fit_task_begin", "on_fit_task_end")


class OwnContext:
    """A task of a fit, as callbacks see it: scikit-learn's ``CallbackContext``, for older versions.

    ``task_id``: its number among the subtasks of its ``parent``; ``max_subtasks``: None where it is
    not known.
    """

    def __init__(
        self,
        estimator: Any,
        task_name: str,
        task_id: int = 0,
        max_subtasks: int | None = 0,
        parent: OwnContext | None = None,
    ) -> None:
        if parent is None:
            self._callbacks = getattr(estimator, "_skl_callbacks", [])
            self.estimator_name = type(estimator).__name__
        else:
            self._callbacks, self.estimator_name = parent._callbacks, parent.estimator_name
        self.task_name = task_name
        self.task_id = task_id
        self.max_subtasks = max_subtasks
        self.parent = parent
        self.n_subtasks = 0

    def subcontext(
        self,
        task_name: str = "",
        task_id: int | None = None,
        max_subtasks: int | None = 0,
        sequential_subtasks: bool = True,
    ) -> OwnContext:
        """A part of this task; ``sequential_subtasks`` is ignored."""
        number = self.n_subtasks if task_id is None else task_id
        self.n_subtasks += 1
        return OwnContext(None, task_name, number, max_subtasks, self)

    def call_on_fit_task_begin(self, *, estimator: Any, **data: Any) -> OwnContext:
        """Tell all callbacks that the task begins."""
        self._call("on_fit_task_begin", estimator, data)
        return self

    def call_on_fit_task_end(self, *, estimator: Any, **data: Any) -> bool:
        """Tell all callbacks that the task has ended; whether one of them asks to end the fit."""
        return self._call("on_fit_task_end", estimator, data)

    def _call(self, hook: str, estimator: Any, data: dict[str, Any]) -> bool:
        asked = False
        for callback in self._callbacks:
            method = getattr(callback, hook)
            wanted = {name: data.get(name) for name in _keywords(method)}
            asked |= bool(method(estimator, self, **wanted))
        return asked

    @contextmanager
    def propagate_callback_context(self, sub_estimator: Any) -> Iterator[None]:
        """Nothing: an estimator has the callbacks that were set on it, and no others."""
        yield


def _keywords(method: Callable) -> list[str]:
    parameters = inspect.signature(method).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


class OwnCallbackSupport:
    """``set_callbacks`` of an estimator: scikit-learn's ``CallbackSupportMixin``, likewise."""

    _skl_callbacks: list[Any]

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set callbacks, such as :class:`aesvm.TimeLimit`; without any, there are none any more.

        Parameters
        ----------
        *callbacks : callback instances
            With the methods ``setup``, ``teardown``, ``on_fit_task_begin`` and ``on_fit_task_end``.

        Returns
        -------
        self : estimator
        """
        for one in callbacks:
            if isinstance(one, type) or not all(hasattr(one, hook) for hook in _HOOKS):
                raise TypeError(
                    "callbacks must be instances following the FitCallback protocol: "
                    f"{one!r} is none with the methods {', '.join(_HOOKS)}."
                )
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            vars(self).pop("_skl_callbacks", None)
        return self

    def __sklearn_clone__(self) -> Any:
        copy = _clone_parametrized(self)
        if hasattr(self, "_skl_callbacks"):
            copy._skl_callbacks = self._skl_callbacks
        return copy

    def _init_callback_context(
        self,
        task_name: str = "fit",
        task_id: int = 0,
        max_subtasks: int | None = 0,
        sequential_subtasks: bool = True,
    ) -> OwnContext:
        context = OwnContext(self, task_name, task_id, max_subtasks)
        begun: list[Any] = []
        self._callbacks_begun = context, begun
        for callback in context._callbacks:
            begun.append(callback)
            callback.setup(self, context)
        return context


def _with_own_callbacks(method: Callable) -> Callable:
    """Decorate a method that fits: callbacks are torn down however it ends."""

    @functools.wraps(method)
    def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(estimator, *args, **kwargs)
        finally:
            context, begun = vars(estimator).pop("_callbacks_begun", (None, ()))
            for callback in begun:
                callback.teardown(estimator, context)

    return managed


class _OwnSearchBase(OwnCallbackSupport, BaseSearchCV):
    """scikit-learn's base of searches, with callbacks."""


if TYPE_CHECKING:
    CallbackSupportMixin = OwnCallbackSupport
    SearchBase = _OwnSearchBase

    def with_callbacks(method: Callable) -> Callable: ...
elif HAS_CALLBACKS:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    SearchBase = BaseSearchCV
else:
    CallbackSupportMixin = OwnCallbackSupport
    SearchBase = _OwnSearchBase
    with_callbacks = _with_own_callbacks


def check_search(search: Any, X: Any, y: Any, split_params: dict[str, Any]) -> None:
    """Let a search check its parameters; before 1.9 only halving has something to check."""
    search._n_samples_orig = X.shape[0] if hasattr(X, "shape") else len(X)
    if hasattr(search, "_check_input_parameters"):
        search._check_input_parameters(X=X, y=y, split_params=split_params)


def run_search(run: Callable, evaluate_candidates: Callable, context: Any) -> None:
    """Call the ``_run_search`` of one of scikit-learn's searches."""
    if HAS_CALLBACKS:
        run(evaluate_candidates, callback_ctx=context)
    else:
        run(evaluate_candidates)


_takes_zeros = "allow_all_zero_weights" in inspect.signature(_check_sample_weight).parameters


def check_sample_weight(
    sample_weight: Any, X: Any, *, copy: bool, all_may_be_zero: bool
) -> NDArray[np.float64]:
    """Weights as doubles, not negative; all of them may be zero only with ``all_may_be_zero``."""
    options: dict[str, Any] = {"allow_all_zero_weights": all_may_be_zero} if _takes_zeros else {}
    weights = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True, copy=copy, **options
    )
    if not (_takes_zeros or all_may_be_zero or weights.any()):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def as_preferred(value: Any) -> Any:
    """A fitted attribute; sparse ones as arrays, where the setting ``sparse_interface`` wants that.

    scikit-learn 1.9 has the setting. Its default leaves the kind that X has.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from aesvm.runtime.scikit_learn import as_preferred
    >>> type(as_preferred(sp.csr_matrix([[0.0, 1.0]]))).__name__
    'csr_matrix'
    """
    if sp.issparse(value) and get_config().get("sparse_interface") == "sparray":
        return sp.csr_array(value)
    return value
