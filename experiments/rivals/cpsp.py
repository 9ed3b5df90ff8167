"""CPSP: an SVM whose weight vector lies in the span of a few images, by cutting planes.

With n rows of signs y, no offset, and C n times the mean hinge loss, the SVM is

    min 1/2 |w|^2 + C n xi   s.t.   w . g_c >= d_c - xi   for all c in {0, 1}^n,
    g_c = 1/n sum_i c_i y_i phi(x_i),   d_c = 1/n sum_i c_i:

one slack, and planes of which the most violated is ``c_i = [y_i w . phi(x_i) < 1]``. It is added
to a working set and the problem solved for that set, until no plane is violated by more than
``tol``. In subspace pursuit w is kept in the span of the images of basis vectors: planes are
replaced by their projections, and the basis grows by what these lack (``preimage``).

In coordinates of the span a plane is ``a_c``, and the working set is solved in its dual,

    max sum_c alpha_c d_c - 1/2 |sum_c alpha_c a_c|^2,   alpha >= 0,   sum_c alpha_c = C n,

where the empty plane (c = 0) stands for xi >= 0. Before it is projected the same combination of
planes is ``v = sum_i rho_i phi(x_i)``, |rho_i| <= C. The solution w is its projection; the residual
v - w is the direction outside the span in which the objective falls fastest, and half its squared
length bounds what is to be gained there.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from aesvm.estimators.fitting import fit_method, fitting
from aesvm.estimators.parameters import kernel_spec
from aesvm.estimators.validation import validated_rows
from aesvm.kernels import KERNELS, KernelMatrix, bounded, expansion, resolve_gamma
from aesvm.runtime.jit import jit
from aesvm.runtime.progress import Progress
from aesvm.runtime.threads import Threads, one_blas_thread
from aesvm.runtime.warn import warn
from aesvm.solver.pair_updates import HUGE
from experiments.rivals.base import (
    RANDOM_CONSTRAINTS,
    RIVAL_CONSTRAINTS,
    Scored,
    validated_classes,
)
from experiments.rivals.preimage import Subspace

#: Parts in which the basis grows, one with each plane.
_PARTS = 200

#: Rounds after which a plane that has had no multiplier is dropped.
_IDLE = 30

#: The part of ``tol`` that the working set is solved to, and the steps taken at a time.
_FINER, _STEPS = 0.1, 100_000

#: So many planes that raise the dual by less than this part show that rounding is the limit.
_STALLED, _LEAST_RISE = 50, 1e-7

#: Planes between reports of progress.
_REPORT = 10

#: Errors in a kernel value beyond which it is computed in a slower way, by precision.
_ACCURACY = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-8}


@dataclass(kw_only=True, eq=False, repr=False)
class CPSP(Scored):
    """Sparse kernel SVM by cutting-plane subspace pursuit (Joachims and Yu, 2009).

    A support vector machine without an offset, whose decision function is an expansion of at
    most ``n_basis`` vectors. With the RBF kernel these need not be training rows.

    Kernel values of all rows with all basis vectors are kept: 4 bytes times rows times
    ``n_basis`` (8 bytes where there are no more than 2,048 rows). Each plane of the working set,
    some fifty of them, takes another byte per row. While the basis grows, the rows that have a
    weight are copied, twice at a time.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation, of each row as in SVC: the larger, the less.
    kernel : {"rbf", "poly", "linear", "sigmoid"}, default="rbf"
        Precomputed kernels and callables are not supported: basis vectors are input vectors.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the "rbf", "poly" and "sigmoid" kernels, as in scikit-learn.
    coef0 : float, default=0.0
        Independent term of the "poly" and "sigmoid" kernels.
    n_basis : int, default=1000
        Most basis vectors, of each machine where there are several.
    basis : {"fixed_point", "rows"}, default="fixed_point"
        What basis vectors are. "fixed_point" moves rows, with the RBF kernel, to where they
        explain more; the vectors are dense, also where the rows are sparse. Other kernels have no
        fixed points. With them, as with "rows", basis vectors are training rows; ``basis_kind_``
        tells which it was.
    tol : float, default=1e-3
        Violation of the most violated plane, a mean of hinge losses, at which to stop.
    max_iter : int, default=-1
        Most cutting planes of each machine; -1 for no limit.
    random_state : int, RandomState instance or None, default=None
        For the rows that are tried as basis vectors.
    n_jobs : int, default=None
        Threads, of ``fit`` and of prediction. None is one, -1 all processors. The result does
        not depend on it.
    verbose : int, default=0
        1 prints a line about every machine.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    basis_ : {ndarray, sparse matrix} of shape (n_vectors, n_features)
        Basis vectors of all machines: one machine for two classes, otherwise one for each class
        against the others.
    basis_coef_ : ndarray of shape (n_machines, n_vectors)
        Coefficients of the basis vectors; zero where they are another machine's.
    n_basis_ : int
        Basis vectors in all.
    basis_kind_ : {"fixed_point", "rows"}
        What the basis vectors are.
    n_iter_ : ndarray of shape (n_machines,)
        Cutting planes.
    objective_ : ndarray of shape (n_machines,)
        ``1/2 |w|^2 + C * sum of hinge losses``.
    fit_status_ : int
        0 where every machine converged, otherwise 1.
    gamma_ : float
        The value used.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    aesvm.AESVC : The SVM with an offset, on representatives or on all rows.

    Notes
    -----
    Written from descriptions of the method: neither the article nor the code of SVMperf was at
    hand. Faithful to these: the problem, with one slack and no offset; planes projected onto a span
    that grows with each of them, up to ``n_basis``; pre-images by fixed-point iteration; planes
    dropped that have been inactive for a while.

    Different from it:

    - The basis grows for the residual of the combination of planes that is the solution, and not
      for that of the newest plane. That residual is the steepest descent direction; its objective
      at 1,000 basis vectors was 0.6 % lower on ijcnn1.
    - It grows by ``n_basis / 200`` vectors with each plane, rounded up. Where the planes have
      converged and there is room left it grows on, until half of the squared residual, as
      estimated from the rows tried, is within ``tol * C * n_rows``: the error ``tol`` allows for.
    - A fixed-point step that overshoots is shortened, and a row is only replaced by its fixed
      point where that explains more of the residual, given the other basis vectors.
    - The solution kept is the one of lowest objective, which may not be the last.

    References
    ----------
    T. Joachims, C.-N. J. Yu, "Sparse Kernel SVMs via Cutting-Plane Training", Machine Learning
    76, 2009.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from experiments.rivals import CPSP
    >>> X, y = make_moons(5000, noise=0.1, random_state=0)
    >>> model = CPSP(gamma=1.0, n_basis=20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    >>> model.basis_.shape
    (20, 2)
    """

    C: float = 1.0
    kernel: str = "rbf"
    degree: int = 3
    gamma: str | float = "scale"
    coef0: float = 0.0
    n_basis: int = 1000
    basis: str = "fixed_point"
    tol: float = 1e-3
    max_iter: int = -1
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0

    _parameter_constraints: ClassVar[dict] = {
        **RIVAL_CONSTRAINTS,
        **RANDOM_CONSTRAINTS,
        "kernel": [StrOptions(set(KERNELS))],
        "n_basis": [Interval(Integral, 1, None, closed="left")],
        "basis": [StrOptions({"fixed_point", "rows"})],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
    }

    @fit_method
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes.

        Returns
        -------
        self : object
        """
        data, labels = validated_classes(self, X, y)
        self.gamma_ = resolve_gamma(self.gamma, data, self.kernel)
        bounded(self._kernel_of(data, np.float64), self.kernel, np.arange(len(labels)))
        if not np.isfinite(self.C * len(labels)):
            raise ValueError(f"C={self.C} times {len(labels)} rows is not a finite number.")
        moving = self.basis == "fixed_point" and self.kernel == "rbf"
        self.basis_kind_ = "fixed_point" if moving else "rows"
        random = check_random_state(self.random_state)
        n_classes = len(self.classes_)
        machines = []
        with fitting(self, data, y) as (run, progress):
            for positive in [1] if n_classes == 2 else range(n_classes):
                with progress.task("machine", None) as task:
                    subspace = Subspace(
                        self._kernel_of, data, min(self.n_basis, len(labels)), moving, run
                    )
                    signs = np.where(labels == positive, 1.0, -1.0)
                    machines.append(
                        _train(subspace, signs, self.C, self.tol, self.max_iter, random, task)
                    )
        self._assemble(machines)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The expansion over basis vectors.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive for the second. With more, one value for each class.
        """
        check_is_fitted(self)
        X = validated_rows(self, X, reset=False)
        vectors = self.basis_
        if sp.issparse(X) and not sp.issparse(vectors):
            vectors = sp.csr_array(vectors)
        elif sp.issparse(vectors) and not sp.issparse(X):
            X = sp.csr_array(X)
        columns = self._kernel_of(vectors, np.float64).columns(np.arange(self.n_basis_))
        edges = np.array([0, self.n_basis_])
        with one_blas_thread(), Threads(self.n_jobs) as run:
            coefs = np.ascontiguousarray(self.basis_coef_.T)
            values = expansion.expand(columns, X, edges, coefs, _only_segment, run)
        return values[:, 0] if len(self.classes_) == 2 else values

    def _kernel_of(self, vectors: Any, dtype: Any) -> KernelMatrix:
        spec = kernel_spec(self, self.gamma_)
        return spec.matrix(vectors, dtype=dtype, accuracy=_ACCURACY[np.dtype(dtype)])

    def _assemble(self, machines: list[Machine]) -> None:
        vectors = [machine.vectors for machine in machines]
        sparse = sp.issparse(vectors[0])
        self.basis_ = sp.csr_array(sp.vstack(vectors)) if sparse else np.vstack(vectors)
        self.n_basis_ = self.basis_.shape[0]
        self.basis_coef_ = np.zeros((len(machines), self.n_basis_))
        first = 0
        for coefs, machine in zip(self.basis_coef_, machines, strict=True):
            last = first + len(machine.coefs)
            coefs[first:last] = machine.coefs
            first = last
        self.n_iter_ = np.array([machine.n_planes for machine in machines], dtype=np.int32)
        self.objective_ = np.array([machine.objective for machine in machines])
        self.fit_status_ = int(not all(machine.violation <= self.tol for machine in machines))
        if self.fit_status_:
            violation = max(machine.violation for machine in machines)
            warn(
                f"CPSP stopped at a violation of {violation:.3g}, before tol={self.tol:g} was "
                "reached: raise max_iter or tol, scale the data, or lower C.",
                ConvergenceWarning,
            )


class Machine(NamedTuple):
    """Two sets of rows told apart."""

    vectors: Any
    coefs: NDArray[np.float64]
    objective: float
    n_planes: int
    violation: float  #: of the most violated plane, in the end


class Planes:
    """The working set; its first plane is the empty one.

    Attributes
    ----------
    sides : list of ndarray of shape (n_rows,)
        Of each plane ``c_i y_i``.
    offsets : ndarray of shape (n_planes,)
        Of each plane ``d_c``.
    coordinates : ndarray of shape (n_planes, size of the subspace)
    multipliers : ndarray of shape (n_planes,)
    """

    def __init__(self, subspace: Subspace, n_rows: int, budget: float) -> None:
        self.subspace = subspace
        self.n_rows = n_rows
        self.sides = [np.zeros(n_rows, dtype=np.int8)]
        self.offsets = np.zeros(1)
        self.coordinates = np.zeros((1, subspace.size))
        self.gram = np.zeros((1, 1))
        self.multipliers = np.array([budget])
        self.idle = np.zeros(1, dtype=np.intp)

    def add(self, side: NDArray[np.int8]) -> None:
        """Take in a plane."""
        products = self.subspace.products([side])[:, 0] / self.n_rows
        self.sides.append(side)
        self.offsets = np.append(self.offsets, np.count_nonzero(side) / self.n_rows)
        self.coordinates = np.vstack([self.coordinates, self.subspace.solved(products)])
        self.gram = np.pad(self.gram, (0, 1))
        self.gram[-1] = self.gram[:, -1] = self.coordinates @ self.coordinates[-1]
        self.multipliers = np.append(self.multipliers, 0.0)
        self.idle = np.append(self.idle, 0)

    def extend(self) -> None:
        """Coordinates in the directions that the subspace has gained."""
        old = self.coordinates.shape[1]
        products = self.subspace.products(self.sides, old) / self.n_rows
        factor = self.subspace.factor[old : self.subspace.size, : self.subspace.size]
        products -= factor[:, :old] @ self.coordinates.T
        fresh = solve_triangular(factor[:, old:], products, lower=True, check_finite=False).T
        self.coordinates = np.hstack([self.coordinates, fresh])
        self.gram += fresh @ fresh.T

    def solve(self, tol: float) -> NDArray[np.float64]:
        """Find the multipliers; coordinates of the solution."""
        _solve(self.gram, self.offsets, self.multipliers, tol, _STEPS)
        self.idle = np.where(self.multipliers > 0.0, 0, self.idle + 1)
        self.idle[0] = 0
        kept = np.flatnonzero(self.idle < _IDLE)
        if len(kept) < len(self.idle):
            self.sides = [self.sides[at] for at in kept]
            self.offsets, self.coordinates = self.offsets[kept], self.coordinates[kept]
            self.multipliers, self.idle = self.multipliers[kept], self.idle[kept]
            self.gram = self.gram[np.ix_(kept, kept)]
        return self.multipliers @ self.coordinates

    def slack(self, w: NDArray[np.float64]) -> float:
        """The least xi with which all planes here hold."""
        return float((self.offsets - self.coordinates @ w).max())

    def dual(self, w: NDArray[np.float64]) -> float:
        """The objective that the multipliers maximise."""
        return float(self.offsets @ self.multipliers - 0.5 * w @ w)

    def weights(self) -> NDArray[np.float64]:
        """Of the rows, in the combination of planes that is the solution."""
        total = np.zeros(self.n_rows)
        for multiplier, side in zip(self.multipliers, self.sides, strict=True):
            if multiplier > 0.0:
                total += (multiplier / self.n_rows) * side
        return total


def _train(
    subspace: Subspace,
    signs: NDArray[np.float64],
    C: float,
    tol: float,
    max_iter: int,
    random: np.random.RandomState,
    progress: Progress,
) -> Machine:
    """Cutting planes, and a subspace that grows with them."""
    n_rows, capacity = len(signs), len(subspace.factor)
    budget = C * n_rows
    planes = Planes(subspace, n_rows, budget)
    w, scores = np.zeros(0), np.zeros(n_rows)
    best, lowest = w, np.inf
    dual, n_planes, stalled, growing = -np.inf, 0, 0, True
    while True:
        margins = signs * scores
        loss = float(np.maximum(0.0, 1.0 - margins).mean())
        objective = 0.5 * float(w @ w) + budget * loss
        if objective < lowest:
            best, lowest = w, objective
        violation = loss - planes.slack(w)
        converged = violation <= tol
        if (converged and not growing) or n_planes == max_iter or stalled == _STALLED:
            break
        if not converged:
            planes.add(np.where(margins < 1.0, signs, 0.0).astype(np.int8))
            w = planes.solve(_FINER * tol)
            n_planes += 1
            if n_planes % _REPORT == 0:
                progress.step("planes")
        if growing:
            n_points = min(-(-capacity // _PARTS), capacity - subspace.size)
            negligible = 2.0 * tol * budget if converged else 0.0
            growing = subspace.grow(planes.weights(), w, n_points, random, negligible)
            if growing:
                planes.extend()
                w = planes.solve(_FINER * tol)
                growing = subspace.size < capacity
        else:
            before, dual = dual, planes.dual(w)
            stalled = stalled + 1 if dual - before <= _LEAST_RISE * abs(dual) else 0
        scores = subspace.scores(w)
    progress.say(
        f"{n_planes} planes, {subspace.size} basis vectors, objective {lowest:.6g}, "
        f"violation {violation:.2g}"
    )
    w = np.pad(best, (0, subspace.size - len(best)))
    return Machine(subspace.vectors, subspace.coefs(w), lowest, n_planes, violation)


def _only_segment(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return sums[:, 0]


@jit
def _solve(gram, offsets, multipliers, tol, max_steps):
    """Maximise ``offsets . a - 1/2 a' gram a`` over multipliers a >= 0 whose sum stays.

    Two at a time: the one of steepest slope takes from the one with which that gains most, until
    slopes differ by no more than ``tol``.
    """
    n = multipliers.size
    slopes = offsets.copy()
    for j in range(n):
        if multipliers[j] > 0.0:
            line = gram[j]
            for i in range(n):
                slopes[i] -= multipliers[j] * line[i]
    for step in range(max_steps):
        up = 0
        flattest = HUGE
        for i in range(n):
            if slopes[i] > slopes[up]:
                up = i
            if multipliers[i] > 0.0:
                flattest = min(flattest, slopes[i])
        if slopes[up] - flattest <= tol:
            return step
        down = up
        length, gain = 0.0, 0.0
        for i in range(n):
            rise = slopes[up] - slopes[i]
            if multipliers[i] > 0.0 and rise > 0.0:
                curvature = gram[up, up] + gram[i, i] - 2.0 * gram[up, i]
                longest = multipliers[i]
                if longest * curvature > rise:
                    longest = rise / curvature
                if longest * (rise - 0.5 * longest * curvature) > gain:
                    gain = longest * (rise - 0.5 * longest * curvature)
                    length = longest
                    down = i
        if down == up:
            return step
        multipliers[up] += length
        multipliers[down] = 0.0 if length >= multipliers[down] else multipliers[down] - length
        line, other = gram[up], gram[down]
        for i in range(n):
            slopes[i] -= length * (line[i] - other[i])
    return max_steps
