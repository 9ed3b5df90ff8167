"""AESVC: support vector classification, on representatives or on all rows.

The rows of each class are represented once (``representative``). Every pair of classes is then
trained on the representatives of both (``training``), made more exact (``refine``), and the pairs
vote (``voting``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from aesvm import one_vs_one
from aesvm.base import (
    REDUCTION_CONSTRAINTS,
    Progress,
    Threads,
    all_or_nothing,
    one_blas_thread,
    say,
    validated_rows,
)
from aesvm.certificate import (
    NOT_DEFINITE,
    Account,
    Certificate,
    certify,
    check_unchanged,
    definiteness,
    parameters_of,
)
from aesvm.class_weights import class_weights
from aesvm.distinct import fingerprint
from aesvm.kernels import KernelMatrix, bounded, in_enough_precision, resolve_gamma
from aesvm.reduction import Settings, derive
from aesvm.refine import COARSER, EXACT_EFFORT
from aesvm.representative import Merged, RepresentativeSet, merge
from aesvm.scales import warn_of_scales
from aesvm.streamed_svc import StreamedSVC
from aesvm.streaming import STREAM_CONSTRAINTS
from aesvm.training import Options, Problem, Training, complete, expected_effort
from aesvm.voting import Voting

#: Kernel values are as precise as this ``tol`` needs, also where a larger one is asked for.
_TOL = 1e-3


class AESVC(CallbackSupportMixin, StreamedSVC, Voting, ClassifierMixin, BaseEstimator):
    """C-support vector classification, as exact as is affordable.

    A drop-in for :class:`sklearn.svm.SVC` on data too large for it. Where the exact SVM takes
    seconds it is computed. Where it takes longer, the rows of each class are replaced by a
    weighted subset that reaches every one of them within ``hull_tol`` in kernel space, and the
    subset is chosen again once the margin is known (``refine``). ``certificate_`` tells how
    close the result is to the exact SVM.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation, as in SVC: the larger, the less.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable takes two arrays of rows and returns their kernel matrix.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the "rbf", "poly" and "sigmoid" kernels, as in scikit-learn.
    coef0 : float, default=0.0
        Independent term of the "poly" and "sigmoid" kernels.
    hull_tol : float, default=1e-3
        Largest squared distance in kernel space between a row and the combination of
        representatives that stands for it (the paper's epsilon). 0 uses every distinct row.
    subset_size : int, default=1000
        Rows reduced together (the paper's V). Data of no more rows than that is not reduced:
        the SVM of all of them takes less time than their representatives.
    partition_size : int, default=100_000
        Rows of the coarse pieces that are cut into subsets (the paper's P).
    partition : {"distance", "sequence"}, default="distance"
        How the coarse pieces are made (the paper's FLS2 and FLS1).
    refine : int, "exact" or "auto", default="auto"
        0 trains on the representative set alone: the paper's AESVM. A number k adds k rounds,
        in which every class is cut by margin, rows near the margin stand for themselves and
        the others are represented anew, side by side; fewer where no row violates optimality
        any more. "exact" gives every distinct row a multiplier of its own: the SVM of SVC, to
        ``tol`` and a relative duality gap of 1e-3. "auto" is exact where that takes at most
        5e9 kernel values (some ten seconds on two cores), by the number of rows or the support
        vectors of a sample of them. Otherwise it makes rounds while they change over a
        thousandth of the labels and the next takes no more than that; the first is left out
        where it alone would take over 3e11.
    tol : float, default=1e-3
        Tolerance for stopping, with SVC's meaning.
    max_iter : int, default=-1
        Most pair updates in each pair of classes, as in SVC; where ``refine`` solves several
        times, in each solve. -1 stands for ``max(10_000_000, 100 * n_rows)``.
    cache_size : float, default=200
        Megabytes for rows of the kernel matrix, beside a block of at most 2,048 rows and columns
        that the solver works on.
    shrinking : bool, default=True
        Whether to leave out, for a time, variables that rest at their bounds.
    class_weight : dict or "balanced", default=None
        Factors of C by class; "balanced" takes them from the frequencies in y.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of the decision function where there are more than two classes.
    break_ties : bool, default=False
        With "ovr" and more than two classes, let ``predict`` decide ties of votes by the
        decision function.
    memory_budget : int or str, default=None
        Of streams: bytes for the rows that are held, as a number or as in "2 GiB"; None is no
        limit.
    on_overflow : {"raise", "loosen"}, default="raise"
        Of streams, where the budget cannot hold the set: an error, or a larger tolerance, which is
        warned of and shows in the certificate. Where it cannot hold what a round gathers: an
        error, or no more rounds.
    n_jobs : int, default=None
        Threads, of ``fit`` and of prediction. None is one, -1 all processors. The result does
        not depend on it.
    verbose : int, default=0
        1 prints what is done, a few lines in all. For a progress bar, see
        ``sklearn.callback.ProgressBar``.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Rows of X that are support vectors, class by class, ascending in each.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_SV, n_features)
        ``X[support_]``; of shape (0, 0) where the kernel is precomputed.
    n_support_ : ndarray of shape (n_classes,)
        Support vectors of each class.
    dual_coef_ : {ndarray, sparse matrix} of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, laid out as SVC's.
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
    coef_ : {ndarray, sparse matrix} of shape (n_classes * (n_classes - 1) / 2, n_features)
        Weights of the features, with the linear kernel only.
    classes_ : ndarray of shape (n_classes,)
    class_weight_ : ndarray of shape (n_classes,)
    fit_status_ : int
        0 where every pair of classes converged, otherwise 1.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Pair updates.
    objective_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        The dual objective of each pair of classes, over the rows solved for last.
    gap_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        How far each is from optimal, in the meaning of ``tol``.
    representative_set_ : RepresentativeSet
        The set of the first solution. With ``refine=0`` it is the set the model was trained on;
        where rounds follow it is ten times as coarse as ``hull_tol`` says (not of a stream).
    certificate_ : Certificate
        How close the model is to the exact SVM; see :class:`aesvm.Certificate`. What takes
        more than a fraction of a second is left to ``certify``.
    gamma_ : float
        The value used.
    shape_fit_ : tuple of int
        Shape of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    RepresentativeSet : The set alone, for any estimator that takes weights.

    References
    ----------
    M. Nandan, P. P. Khargonekar, S. S. Talathi, "Fast SVM Training Using Approximate Extreme
    Points", Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> X, y = make_moons(5000, noise=0.1, random_state=0)
    >>> model = AESVC(gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    >>> model.certificate_.exact
    True

    On the representative set alone:

    >>> model = AESVC(gamma=1.0, refine=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    >>> len(model.representative_set_.sample_indices_) < 500
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **REDUCTION_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "refine": [StrOptions({"auto", "exact"}), Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0.0, None, closed="left")],
        "shrinking": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        **STREAM_CONSTRAINTS,
    }

    # for certify: of each pair of classes
    _accounts_: list[Account]
    _multipliers_: list[Any]
    _fingerprint_: int | None  # None of a stream
    _trained_with_: dict[str, Any]

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        hull_tol: float = 1e-3,
        subset_size: int = 1000,
        partition_size: int = 100_000,
        partition: str = "distance",
        refine: int | str = "auto",
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        shrinking: bool = True,
        class_weight: dict | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        memory_budget: int | str | None = None,
        on_overflow: str = "raise",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.hull_tol = hull_tol
        self.subset_size = subset_size
        self.partition_size = partition_size
        self.partition = partition
        self.refine = refine
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.shrinking = shrinking
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.memory_budget = memory_budget
        self.on_overflow = on_overflow
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AESVC:
        """Train on all rows, or on representatives of them, as ``refine`` says.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows, or with ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C by row; rows of weight zero are left out.

        Returns
        -------
        self : AESVC
        """
        self._validate_params()
        self._forget_stream()
        data, labels, weights = self._validate(X, y, sample_weight)
        fit_task = self._init_callback_context(max_subtasks=2)
        fit_task.call_on_fit_task_begin(estimator=self, X=data, y=y)
        progress = Progress(self, fit_task)
        self.gamma_ = resolve_gamma(self.gamma, data, self.kernel)
        self._representative_set(0.0)._check(data)
        if self.kernel == "rbf":
            warn_of_scales(data)
        with one_blas_thread, Threads(self.n_jobs) as run:
            used = np.flatnonzero(weights)
            bounded(self._kernel_of(data, self.tol, np.float64), self.kernel, used)
            chosen = self._representative_set(self._first_tol(data, labels, weights, used, run))
            with progress.task("represent", 2) as task:
                merged = chosen._represent(
                    data, labels, weights, self.gamma_, run, task, refined_to=self.hull_tol
                )
            problem = self._problem(merged.distinct, labels, merged.weights)
            train = Training(
                Options(self.refine, self.tol, self.max_iter, self.cache_size, self.shrinking),
                partial(self._kernel_for, data),
                self._representer(merged, run),
                definiteness(self.kernel, self.coef0) != NOT_DEFINITE,
                run,
                progress,
            )
            results = train(problem, merged.found if chosen.reduced_ else None)
            self._fingerprint_ = fingerprint(data, labels, weights, run)
        self._trained_with_ = parameters_of(self)
        self._assemble(data, labels, results)
        chosen.n_features_in_ = self.n_features_in_
        self.representative_set_ = chosen
        self.shape_fit_ = data.shape
        fit_task.call_on_fit_task_end(estimator=self, X=data, y=y)
        return self

    def certify(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Certificate:
        """Compute what ``certificate_`` lacks, from the rows the model was trained on.

        It takes one look at all rows and, where the model is not exact, the kernel values of
        all rows with a multiplier among each other.

        Parameters
        ----------
        X, y, sample_weight
            What ``fit`` was given.

        Returns
        -------
        certificate : Certificate
            It takes the place of ``certificate_``.

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
        if self._fingerprint_ is None:
            raise ValueError(
                "certify wants all rows here, and the model was trained on rows that are "
                "elsewhere: use certify_stream."
            )
        check_unchanged(self, self._trained_with_)
        data = validated_rows(self, X, reset=False)
        check_consistent_length(data, y)
        labels = np.searchsorted(self.classes_, column_or_1d(y, warn=True))
        weights = self._weights_of(data, sample_weight)
        definite = definiteness(self.kernel, self.coef0)
        with one_blas_thread, Threads(self.n_jobs) as run:
            if fingerprint(data, labels, weights, run) != self._fingerprint_:
                raise ValueError(
                    f"X of shape {data.shape}, y or sample_weight is not what the model was "
                    f"trained on, shape {self.shape_fit_}: certify wants the same rows, in the "
                    "same order."
                )
            same_as = merge(data, labels, weights, run)
            used = same_as >= 0
            total = np.bincount(same_as[used], weights[used], len(labels))
            rows = np.flatnonzero(same_as == np.arange(len(labels)))
            accounts = complete(
                self._accounts_,
                self._problem(rows, labels, total),
                one_vs_one.trained_pairs(
                    self.support_, self.n_support_, self.dual_coef_, self.intercept_
                ),
                self._multipliers_,
                partial(self._kernel_for, data),
                tol=self.tol,
                definite=definite != NOT_DEFINITE,
                run=run,
                say=partial(say, self),
            )
        self._accounts_ = accounts
        self.certificate_ = certify(accounts, self.hull_tol, definite)
        return self.certificate_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _validate(self, X, y, sample_weight):
        """The rows, the class of each by number, and its weight."""
        X = validated_rows(self, X, reset=True)
        if y is None:
            raise ValueError(
                "AESVC requires y to be passed, but the target y is None: pass the classes."
            )
        check_consistent_length(X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        weights = self._weights_of(X, sample_weight)
        present = np.unique(labels[weights > 0])
        if len(present) < 2:
            where = "" if len(self.classes_) < 2 else " among the rows of non-zero sample_weight"
            raise ValueError(
                f"y has {len(present)} class{where} ({self.classes_[present].tolist()}): "
                "classification needs at least two classes."
            )
        counts = np.bincount(labels, minlength=len(self.classes_))
        self.class_weight_ = class_weights(self.class_weight, self.classes_, counts)
        return X, labels, weights

    def _weights_of(self, X, sample_weight) -> NDArray[np.float64]:
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _first_tol(self, X, labels, weights, used, run) -> float:
        """The tolerance of the first set: 0 where the SVM will be exact."""
        if self.refine == "exact" or self.hull_tol == 0 or len(used) <= self.subset_size:
            return 0.0
        if self.refine == "auto":
            problem_of = partial(self._problem, labels=labels, weights=weights)
            if problem_of(used).effort() <= EXACT_EFFORT:
                return 0.0
            kernel_for = partial(self._kernel_for, X)
            if expected_effort(used, problem_of, kernel_for, run) <= EXACT_EFFORT:
                return 0.0
        return self.hull_tol * (COARSER if self.refine else 1.0)

    def _representative_set(self, hull_tol: float) -> RepresentativeSet:
        return RepresentativeSet(
            kernel=self.kernel,
            gamma=self.gamma_,
            degree=self.degree,
            coef0=self.coef0,
            hull_tol=hull_tol,
            subset_size=self.subset_size,
            partition_size=self.partition_size,
            partition=self.partition,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )

    def _representer(self, merged: Merged, run) -> Callable:
        """A function that represents some rows, so much more coarsely than ``hull_tol``."""

        def represent(classes: list[NDArray], coarser: float, progress: Progress):
            settings = Settings(
                self.hull_tol * coarser,
                self.subset_size,
                self.partition_size,
                self.partition,
                keep_combinations=True,
            )
            return derive(merged.kernel, classes, merged.weights, settings, run, progress).found

        return represent

    def _problem(self, rows, labels, weights) -> Problem:
        costs = self.C * self.class_weight_[labels[rows]]
        return Problem(rows, labels[rows], weights[rows], costs, len(self.classes_))

    def _kernel_for(self, X, rows, coefs) -> KernelMatrix:
        """The kernel matrix, precise enough to sum up values with such coefficients."""
        tol = min(self.tol, _TOL)
        return in_enough_precision(partial(self._kernel_of, X, tol / 10), rows, coefs, tol)
