"""AESVC: support vector classification, on representatives or on all rows."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from aesvm.estimators.learning import Classes
from aesvm.estimators.machine import MACHINE_CONSTRAINTS, KernelMachine
from aesvm.estimators.parameters import by_name
from aesvm.estimators.prediction import PairwiseClassifier
from aesvm.estimators.streams import available_for_streams, classes_of_stream
from aesvm.formulations.hinge import Hinge
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
    """C-support vector classification, as exact as is affordable.

    A drop-in for :class:`sklearn.svm.SVC` on data too large for it. Where the exact SVM takes
    seconds it is computed. Where it takes longer, a weighted subset of each class stands for its
    rows, every one of them within ``hull_tol`` in kernel space. The subset is chosen again once
    the margin is known (``refine``). ``certificate_`` tells how close the result is to the exact
    SVM.

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
        Rows reduced together (the paper's V). Data of no more distinct rows is not reduced:
        the SVM of all of them takes less time than their representatives.
    partition_size : int, default=100_000
        Rows of the partitions that are cut into subsets (the paper's P).
    partition : {"distance", "sequence"}, default="distance"
        How the partitions are made (the paper's FLS2 and FLS1).
    refine : int, "exact" or "auto", default="auto"
        0 trains on the representative set alone: the paper's AESVM. A number k makes a first
        set ten times as coarse, and then at most k rounds. A round cuts every class by margin:
        rows near the margin stand for themselves, the others are represented anew, side by side.
        Rounds end early where no row has crossed the margin since it was represented, or where a
        round did not lower the objective. "exact" gives every distinct row its own
        multiplier: the SVM of SVC, to ``tol`` and a relative duality gap of 1e-3. "auto" is
        exact where rows times support vectors are at most 2e10, or 2e12 on a GPU: up to some
        200,000 rows, or 1,000,000 and more. Beyond that a sample of the rows tells whether the SVM
        in the span of few vectors, as with ``max_vectors``, or rounds would take less time; if not,
        it is exact. ``certificate_.plan`` says what was chosen, and why; so does ``verbose=1``.
    max_vectors : int, default=None
        The most support vectors of the model: it is the SVM of all rows with w in the span of
        these, which are chosen as training goes: a small model, in a time that grows with the
        number of rows. ``refine`` must be "auto". None: as ``refine`` says. Of a source that can be
        read again, and of rows on a cluster, the vectors are chosen by their set, and passes over
        all rows follow; ``partial_fit``, and a source that is read once, train on the set alone.
    gap_tol : float, default=1e-3
        With ``max_vectors``, and where "auto" trains so: no more vectors are added where the
        relative duality gap is estimated to be smaller. The first vectors are chosen by an exact
        SVM of up to 20,000 rows. If there are no more rows than that, these vectors usually
        leave a smaller gap already, and ``gap_tol`` has hardly any effect.
    time_limit : float, default=None
        Seconds that a fit has, after its input was checked. With rows in memory, and ``refine`` "auto" or "exact", the fit makes
        ever better models: the exact SVM of a sample, few vectors, the exact SVM. It returns the
        one with the lowest objective. All other fits end where they are, as with
        :class:`aesvm.TimeLimit`. None: no limit.
    tol : float, default=1e-3
        Tolerance for stopping, with SVC's meaning.
    max_iter : int, default=-1
        Most iterations (updates of two multipliers) in each pair of classes, as in SVC; where
        ``refine`` solves several times, in each solve. -1 for no limit.
    cache_size : float, default=200
        Megabytes for rows of the kernel matrix, beside a block of at most 2,048 rows and columns
        that the solver works on. Of dense rows with up to 128 features (RBF and linear kernels)
        they are kept only where free support vectors are many: elsewhere, computing kernel
        values anew is faster. Pairs of classes of such
        rows may be trained side by side, a thread each: then each has its own block, of at
        most 4,096 rows and columns, and of this many megabytes.
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
        limit. With ``max_vectors``: bytes that a fit may take beside the rows. The smaller it is,
        the more kernel values are computed anew. What a fit works with takes some 64 bytes for each
        pair of vectors and 400 for each row, at least. None: kernel values that are held may take a
        quarter of the machine's memory.
    on_overflow : {"raise", "loosen"}, default="raise"
        Of streams, where the budget cannot hold the set: an error, or a larger tolerance, and in
        the end a random sample; both are warned of and show in the certificate. Where it cannot
        hold what a round gathers: an error, or no more rounds. With ``max_vectors``, where passes
        over all rows follow, a random sample in any case.
    device : {"cpu", "cuda", "cuda:1", ...}, default="cpu"
        What computes: the processor, or a GPU by number (``pip install "aesvm[gpu]"``), on which
        rows stay while a fit or a prediction lasts. See docs/gpu.md for what is done there.
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
    tie_order_ : ndarray of shape (n_classes,) or None
        Classes by number, in the order that settles ties of votes: the first of them wins. None is
        the order of ``classes_``. Only models read from LIBSVM's files, and models of
        ``aesvm train``, have another.
    fit_status_ : int
        0 where every pair of classes converged, otherwise 1.
    n_iter_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        Iterations: updates of two multipliers.
    dual_objective_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        The dual objective of each pair of classes, over the rows solved for last, as the solver
        has it. Where the model is exact they add up to ``certificate_.dual_objective``; elsewhere
        that is the dual of all rows, and this of their representatives.
    kkt_violation_ : ndarray of shape (n_classes * (n_classes - 1) / 2,)
        How far each is from optimal, in the meaning of ``tol``; NaN where w is in the span of few
        vectors. The duality gap is ``certificate_.gap``.
    representative_set_ : RepresentativeSet
        The set of the first solution. With ``refine=0`` it is the set the model was trained on;
        where rounds follow it is ten times as coarse as ``hull_tol`` says.
    certificate_ : Certificate
        How close the model is to the exact SVM; see :class:`aesvm.Certificate`. What takes
        more than a fraction of a second, and a tenth of the fit, is left to ``certify``.
    gamma_ : float
        The value used.
    device_ : str
        What the model was trained on: "cpu", or "cuda:0".
    shape_fit_ : tuple of int
        Shape of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

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
    >>> len(model.representative_set_.sample_indices_) < 500
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
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        hull_tol: float = 1e-3,
        subset_size: int = 1000,
        partition_size: int = 100_000,
        partition: str = "distance",
        refine: int | str = "auto",
        max_vectors: int | None = None,
        gap_tol: float = 1e-3,
        time_limit: float | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 200,
        shrinking: bool = True,
        class_weight: dict | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        memory_budget: int | str | None = None,
        on_overflow: str = "raise",
        device: str = "cpu",
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
        self.max_vectors = max_vectors
        self.gap_tol = gap_tol
        self.time_limit = time_limit
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.shrinking = shrinking
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.memory_budget = memory_budget
        self.on_overflow = on_overflow
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose

    @available_for_streams
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
        announced = classes_of_stream(self, getattr(self, "_stream_", None), classes)
        return self._take_in(X, y, sample_weight, announced)
