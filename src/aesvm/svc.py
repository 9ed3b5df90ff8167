"""AESVC and AENuSVC: support vector classification."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from aesvm.estimators.learning import Classes, InfeasibleError
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import ClassifierParameters, by_name, with_parameters_of
from aesvm.estimators.prediction import PairwiseClassifier
from aesvm.estimators.streams import available_for_streams, classes_of_stream
from aesvm.estimators.validation import Interval
from aesvm.formulations.hinge import Hinge
from aesvm.formulations.nu_hinge import NuHinge
from aesvm.runtime.scikit_learn import CallbackSupportMixin

#: Of an estimator of classes.
CLASS_CONSTRAINTS: dict[str, list] = {
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "decision_function_shape": [StrOptions({"ovr", "ovo"})],
    "break_ties": ["boolean"],
}


class AESVC(
    CallbackSupportMixin, KernelMachine, PairwiseClassifier, ClassifierMixin, BaseEstimator
):
    """C-support vector classification for data too large for :class:`sklearn.svm.SVC`.

    The interface is SVC's. Up to about 140,000 rows of two classes, and often far beyond, the model
    is the exact SVM, found by a faster solver. With more rows it may be an approximation
    (``refine``). ``certificate_`` says how close it is to the exact SVM.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation parameter: the larger, the weaker the regularisation.
    kernel : {"rbf", "poly", "linear", "sigmoid", "precomputed"} or callable, default="rbf"
        The kernel. A callable takes two arrays of rows and returns their kernel matrix.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the "rbf", "poly" and "sigmoid" kernels, as in scikit-learn.
    degree : int, default=3
        Degree of the "poly" kernel.
    coef0 : float, default=0.0
        Independent term of the "poly" and "sigmoid" kernels.
    class_weight : dict or "balanced", default=None
        Factors of C by class. "balanced" takes them from the frequencies in y.
    refine : {"auto", "exact"} or int, default="auto"
        How exact the model is.

        - "exact" is the SVM of all rows: SVC's problem, solved to ``tol`` and to a relative
          duality gap of 1e-3.
        - "auto" is exact if rows times support vectors are at most 2e10, or 2e12 on a GPU. Any
          140,000 rows of two classes qualify, and 1,000,000 with 20,000 support vectors. Beyond
          that a sample of the rows predicts what takes least time: few vectors (as with
          ``max_vectors``), rounds, or the exact SVM. ``certificate_.plan`` and ``verbose=1`` say
          what was chosen.
        - 0 trains on a representative set alone: the paper's AESVM.
        - A number k makes a first set ten times as coarse, then at most k rounds. In a round, rows
          near the margin stand for themselves, and the rows on each side are represented anew.
          Rounds end early if no row has crossed the margin since it was represented, or if rounds
          no longer lower the objective.
    max_vectors : int, default=None
        The largest number of support vectors. The model is then the SVM of all rows with w in the
        span of that many of them, which are chosen during training. The time grows with the number
        of rows. ``refine`` must be "auto". None: no limit. For a source that can be read again, and
        on a cluster, the vectors are chosen from a representative set, and passes over all rows
        follow. ``partial_fit``, and a source that is read once, train on the set alone.
    gap_tol : float, default=1e-3
        With ``max_vectors``, and where "auto" chooses few vectors: no vectors are added once the
        relative duality gap is estimated to be smaller. With up to 20,000 rows it has hardly any
        effect, since the first vectors usually leave a smaller gap. Where "auto" chooses the exact
        SVM, a value above the default ends each solve as soon as the gap is no larger:
        ``gap_tol=0.01`` gives a model whose objective is at most 1 % above the exact one's.
    time_limit : float, default=None
        Seconds for a fit. With rows in memory, and ``refine`` "auto" or "exact", the fit trains
        SVMs of larger and larger samples, then the exact SVM, or SVMs of further rows, and combines
        them. All other fits end with the best model so far, as with
        :class:`aesvm.TimeLimit`. None: no limit.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        What computes: the processor, or an NVIDIA GPU by number (``pip install "aesvm[gpu]"``).
        Rows stay on the GPU during a fit or a prediction. See docs/gpu.md.
    n_jobs : int, default=None
        Number of threads, in ``fit`` and in predictions. None is one, -1 all processors. The
        result does not depend on it.
    verbose : int, default=0
        1 prints what a fit does, in a few lines. For a progress bar, see
        ``sklearn.callback.ProgressBar``.
    tol : float, default=1e-3
        Tolerance for stopping, with SVC's meaning.
    max_iter : int, default=-1
        Most iterations (updates of two multipliers) of each solve, in each pair of classes. -1 is
        no limit.
    cache_size : float or "auto", default="auto"
        Megabytes for rows of the kernel matrix, besides a block of at most 2,048 rows and columns
        that the solver works on. For dense rows with up to 128 features (RBF and linear kernels),
        rows are kept only if free support vectors are many: otherwise computing them again is
        faster. For two classes of such rows "auto" is 200 up to 79,000 rows, and grows with the
        square of the rows to 2,000 for 250,000 rows and more; otherwise it is 200. Pairs of more
        classes may be trained side by side, one on each thread. Each then has a block of at most
        4,096 rows and columns, and this many megabytes.
    shrinking : bool, default=True
        Whether to leave out, for a time, variables that rest at their bounds.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of the decision function with more than two classes.
    break_ties : bool, default=False
        With "ovr" and more than two classes, let ``predict`` settle ties of votes by the decision
        function.
    memory_budget : int or str, default=None
        In streams: bytes for the rows that are held, as a number or as in "2 GiB". None is no
        limit. With ``max_vectors``: bytes that a fit may take besides the rows. It takes at least
        64 bytes for each pair of vectors and 400 for each row. The rest holds kernel values; those
        that do not fit are computed again. None: held kernel values may take a quarter of the
        machine's memory.
    on_overflow : {"raise", "loosen"}, default="raise"
        In streams, what to do if the set exceeds the budget: raise an error, or loosen the
        tolerance and in the end hold a random sample. The certificate and a warning say so. If what
        a round gathers exceeds it: raise an error, or make no more rounds. With ``max_vectors``,
        where passes over all rows follow, a random sample in either case.
    hull_tol : float, default=1e-3
        Largest squared distance in kernel space between a row and the combination of
        representatives that stands for it (the paper's epsilon). Exact models do not use it. 0
        means no representatives: every distinct row is solved for.
    subset_size : int, default=1000
        Number of rows that are reduced together (the paper's V). Data with no more distinct rows is
        not reduced: the SVM of all of them takes less time than their representatives.
    partition_size : int, default=100_000
        Number of rows of the partitions that are cut into subsets (the paper's P).
    partition : {"distance", "sequence"}, default="distance"
        How the partitions are made: by distance in kernel space (the paper's FLS2), or from
        consecutive rows (FLS1).

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors in X, class by class, ascending in each.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_SV, n_features)
        The support vectors: ``X[support_]``. Empty if the kernel is precomputed.
    n_support_ : ndarray of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : {ndarray, sparse matrix} of shape (n_classes - 1, n_SV)
        Coefficients of the support vectors, in SVC's layout.
    intercept_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Intercept of each pair of classes.
    coef_ : {ndarray, sparse matrix} of shape (n_classes * (n_classes - 1) / 2, n_features)
        Weights of the features. Only with the linear kernel.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    class_weight_ : ndarray of shape (n_classes,)
        Factor of C of each class.
    tie_order_ : ndarray of shape (n_classes,) or None
        The order of classes that settles ties of votes: the first wins. None is the order of
        ``classes_``. Only models read from LIBSVM's files, and models of ``aesvm train``, have
        another.
    fit_status_ : int
        0 if every pair of classes converged, otherwise 1.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Number of iterations (updates of two multipliers) of each pair.
    dual_objective_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        The dual objective of each pair of classes, over the rows solved for last. If the model is
        exact, they add up to ``certificate_.dual_objective``.
    kkt_violation_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        How far each pair is from optimal, in the meaning of ``tol``. NaN for models on few vectors.
        The duality gap is ``certificate_.gap``.
    representative_set_ : RepresentativeSet
        The set of the first solution. With ``refine=0`` the model was trained on it. If rounds
        followed, it is ten times as coarse as ``hull_tol``.
    certificate_ : Certificate
        How close the model is to the exact SVM; see :class:`aesvm.Certificate`. ``certify``
        computes what would take more than a fraction of a second and a tenth of the fit.
    gamma_ : float
        The value of gamma that was used.
    device_ : str
        The device that the model was trained on: "cpu", or "cuda:0".
    shape_fit_ : tuple of int
        Shape of X.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has names that are strings.

    See Also
    --------
    AENuSVC : The same with a bound on the fraction of support vectors in place of C.
    AESVR : Regression.
    AEOneClassSVM : Outlier detection.
    RepresentativeSet : Weighted rows that stand for all, for any estimator.
    aesvm.model_selection.AEGridSearchCV : A search over C and gamma that shares work.

    References
    ----------
    M. Nandan, P. P. Khargonekar, S. S. Talathi, "Fast SVM Training Using Approximate Extreme
    Points", Journal of Machine Learning Research 15, 2014.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> X, y = make_moons(5000, noise=0.3, random_state=0)
    >>> model = AESVC(gamma=2.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    >>> model.certificate_.exact
    True

    The paper's method, which trains on the representative set alone:

    >>> model = AESVC(gamma=2.0, refine=0).fit(X, y)
    >>> len(model.representative_set_.sample_indices_) < 1000
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        **CLASS_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="neither")],
    }
    _learns = Classes(lambda estimator: Hinge())

    class_weight_: NDArray[np.float64]

    @by_name
    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        class_weight: dict | str | None = None,
        refine: int | str = "auto",
        max_vectors: int | None = None,
        gap_tol: float = 1e-3,
        time_limit: float | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        verbose: int = 0,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float | str = "auto",
        shrinking: bool = True,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        memory_budget: int | str | None = None,
        on_overflow: str = "raise",
        hull_tol: float = 1e-3,
        subset_size: int = 1000,
        partition_size: int = 100_000,
        partition: str = "distance",
    ) -> None:
        """Parameters become attributes by ``by_name``."""

    @available_for_streams
    def partial_fit(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
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
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream. The first call needs them, unless ``fit`` was called before.
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
        announced = classes_of_stream(self, getattr(self, "_stream_", None), classes)
        return self._take_in(X, y, sample_weight, announced)


def _check_feasible(estimator: Any, one: float, other: float) -> None:
    """Refuse a nu that two classes of such summed weights do not allow."""
    most = 2.0 * min(one, other) / (one + other)
    if estimator.nu > most * (1.0 + 1e-12):
        raise InfeasibleError(
            f"specified nu is infeasible: nu={estimator.nu:g} is more than {most:.6g}, twice the "
            "share of the lighter of two classes. Lower nu, or raise that class's weight."
        )


class AENuSVC(
    CallbackSupportMixin, KernelMachine, PairwiseClassifier, ClassifierMixin, BaseEstimator
):
    """Nu-support vector classification for data too large for :class:`sklearn.svm.NuSVC`.

    The interface is NuSVC's. All else is as in :class:`aesvm.AESVC`.

    Parameters
    ----------
    nu : float, default=0.5
        An upper bound on the fraction of rows inside the margin, and a lower bound on the fraction
        of support vectors.
    **parameters
        The parameters of :class:`aesvm.AESVC`, without ``C``.

    Attributes
    ----------
    support_, dual_coef_, intercept_, ...
        As in :class:`aesvm.AESVC`.

    See Also
    --------
    AESVC : The same with C in place of nu.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AENuSVC
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = AENuSVC(nu=0.1, gamma=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **MACHINE_CONSTRAINTS,
        **CLASS_CONSTRAINTS,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }
    _learns = Classes(lambda estimator: NuHinge(float(estimator.nu)), _check_feasible)

    @with_parameters_of(AESVC, without=("C",))
    def __init__(self, *, nu: float = 0.5, **parameters: Unpack[ClassifierParameters]) -> None:
        self.nu = nu

    partial_fit = AESVC.__dict__["partial_fit"]
