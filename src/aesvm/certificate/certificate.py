"""What is known of a trained model's distance from the exact SVM.

With ``c_i = C * class_weight * sample_weight`` and the rows' images ``z_i`` in kernel space,

    F1(w, b) = 1/2 |w|^2 + sum_i c_i max(0, 1 - y_i (<w, z_i> + b))     over all rows,
    F2(w, b) = the same over the representatives, their bounds c_t = C * class_weight * beta_t,
    F3(w, b) = the same over all rows, each replaced by what stands for it, u_i = z_i - tau_i.

Every number follows from these. With several classes, objectives are sums over all pairs;
``worst_pair_gap`` alone is that of one pair.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import inf, isinf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.history import Step
from aesvm.certificate.records import Records
from aesvm.certificate.text import as_html, caveat_of, plain, text_of, verdict_of
from aesvm.kernels import NOT_DEFINITE, TAKEN

#: Why a number is missing.
NOT_LOOKED = "takes a pass over all rows: call certify(X, y) with the training rows"
INDEFINITE = "the kernel is not positive semidefinite: no theorem applies"
ELSEWHERE = "takes a pass over all rows: call certify_stream(source), or with Dask certify(X, y)"
SAMPLED = "rows were sampled to keep within memory_budget: no bound holds"
LARGEST_ALONE = "for gathered rows only a bound on the largest residual is known"
NO_BOUND = "the norm of w has no bound that the weights alone give"
DEAR = "takes more than a tenth of the kernel values that the fit took"
APART = "takes multipliers of all rows and their kernel values, which are not in one place"


@dataclass(frozen=True)
class Certificate:
    """How close a model is to the exact SVM of its training rows.

    Attributes
    ----------
    kernel : str
        "positive semidefinite", "not positive semidefinite", or for a precomputed or callable
        kernel "taken to be positive semidefinite". The latter was not checked, and every bound
        rests on it.
    exact : bool
        Whether every distinct row has its own multiplier. Then the problem is SVC's, and the gap
        tells how well it was solved.
    n_machines : int
        Pairs of classes; 1 for regression and outlier detection.
    rounds : int
        Margin-stratified rounds that led to the model; the largest number of any pair.
    n_rows, n_solved : int
        Rows, and how many of them were solved for. Where ``distinct``, equal rows count once.
    hull_tol : float
        The tolerance asked for (the paper's epsilon). An exact model does not depend on it. For a
        stream or a cluster, the tolerance of the set that was gathered.
    max_residual, mean_residual : float, float or None
        Of the squared distances ``|tau_i|^2``; infinite where a stream's rows were sampled. They
        may exceed ``hull_tol``: rounds represent rows outside the margin ten times as coarsely, and
        so the first set.
    norm : float or None
        ``|w|``; with several pairs, the norm of all w together.
    reduced_objective : float or None
        F2(w, b).
    objective : float or None
        F1(w, b), on all rows.
    dual_objective : float or None
        The best value found of the full dual, at multipliers lifted from the representatives:
        ``alpha_i = w_i sum_t gamma_it alpha_t / beta_t`` lies between 0 and c_i and keeps the
        sum of ``y_i alpha_i``. By weak duality it is a lower bound on F1.
    gap, relative_gap : float or None
        ``objective - dual_objective`` plus a bound on rounding: F1(w, b) exceeds the optimum by at
        most ``gap``. ``relative_gap`` is ``gap`` divided by the magnitude of ``objective``.
    worst_pair_gap : float or None
        The largest relative gap of any pair of classes: one badly trained pair hardly shows in a
        sum over many. It is 0 for a pair whose gap and objective are both zero to within rounding,
        and large for a pair whose objective alone is near zero. With one machine it is
        ``relative_gap``.
    paper_bound : float or None
        The most by which the exact SVM's objective exceeds F2's minimum: Corollary 3 of the paper,
        in terms of C: ``(sum_i c_i)^(3/2) sqrt(max_residual)``; more where rounding, which the
        residuals leave out, may be larger.
    paper_bound_is_vacuous : bool or None
        Whether, added to F2, it exceeds the objective at ``w = 0``.
    theorem_2_bound : float or None
        ``|w| sum_i c_i |tau_i|`` plus what rounding may add. By Theorem 2 it is at least
        F1(w, b) - F3(w, b). By Theorem 1 F3 <= F2, so F1(w, b) is at most F2(w, b) plus this. For a
        regression whose targets have the unit s, ``sqrt(|w|^2 + s^2)`` stands for ``|w|``
        (docs/formulations.md).
    theorem_2_bound_is_vacuous : bool or None
        Whether, added to F2, it exceeds the objective at ``w = 0``.
    violators : int or None
        Rows whose margin contradicts their lifted multiplier by more than ``tol``. A row counts
        once for each pair it is in.
    n_vectors : int or None
        The number of vectors that span w, if ``max_vectors`` or ``compress`` limited it. If
        ``max_residual`` is zero, no row is represented by others, and F2 is F1.
    estimated_gap, estimated_gap_error : float or None
        For a model in the span of few vectors, or of samples in a fit with a time limit: the
        relative gap, estimated from a random sample of the rows, and two standard errors of the
        estimate. The objective exceeds the optimum by
        about their sum at most. ``certify`` computes a proven bound.
    changed : float or None
        The fraction of the rows, by weight, whose prediction the last round changed: the mean over
        pairs. None without rounds, where the last round did not improve the model, and where it is
        exact.
    proven : bool
        Whether objectives, gap and violators were computed anew in double precision, with rounding
        counted in: then they are bounds. Otherwise they are estimates from training, whose sums may
        be in single precision. ``certify`` proves them.
    distinct : bool
        Whether equal rows count as one: so for rows in memory, not for a stream.
    negligible : bool
        Whether objective and gap of every pair are zero to within rounding, for instance because
        ``w = 0`` is optimal and has no loss. The relative gap is then 0.
    missing : dict
        The reason why each number that is None was not computed.
    history : tuple of Step
        Each time all rows were seen in training: the ``rounds`` or ``n_vectors`` so far, and the
        ``seconds``, ``objective``, ``dual_objective`` and ``relative_gap`` then. May be empty.
        ``aesvm.plotting.CertificateDisplay`` draws it.
    plan : str
        What the fit planned to do, and the counts that decided it. Where it did something else
        in the end, or was cut short, its outcome follows.
    remedy : str
        What to change where a callback such as :class:`aesvm.TimeLimit`, or ``max_iter``, ended
        the fit before it was done; otherwise empty.
    stopped_after, exact_after : float or None
        Where a time limit ended the fit before the exact SVM was reached: the seconds it took, and
        those that the exact SVM is expected to take.
    """

    kernel: str
    exact: bool
    n_machines: int
    rounds: int
    n_rows: int
    n_solved: int
    hull_tol: float
    max_residual: float
    mean_residual: float | None
    norm: float | None
    reduced_objective: float | None
    objective: float | None
    dual_objective: float | None
    gap: float | None
    relative_gap: float | None
    worst_pair_gap: float | None
    paper_bound: float | None
    paper_bound_is_vacuous: bool | None
    theorem_2_bound: float | None
    theorem_2_bound_is_vacuous: bool | None
    violators: int | None
    n_vectors: int | None
    estimated_gap: float | None
    estimated_gap_error: float | None
    changed: float | None
    proven: bool
    distinct: bool = False
    negligible: bool = False
    missing: dict[str, str] = field(default_factory=dict, hash=False)
    history: tuple[Step, ...] = field(default=(), compare=False)
    plan: str = ""
    remedy: str = ""
    stopped_after: float | None = field(default=None, compare=False)
    exact_after: float | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """All of it as a dict of plain values; ``max_residual`` may be infinite."""
        steps = tuple({**asdict(one), "relative_gap": one.relative_gap} for one in self.history)
        return {**asdict(self), "history": steps}

    def verdict(self) -> str:
        """How close the model is to the exact SVM, in one line: the first of ``print``.

        Bounds are rounded up. Percentages are of the exact SVM's objective, bounded from below by
        the dual objective. A model of all rows is called "exact to" its relative gap up to 1e-3.
        The worst pair of classes is named where it is ten times worse than all together.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(300, noise=0.2, random_state=0)
        >>> certificate = AESVC(gamma=1.0).fit(X, y).certificate_
        >>> certificate.verdict().startswith("exact to ")
        True
        >>> certificate.as_dict()["exact"], certificate.caveat()
        (True, '')
        >>> print(certificate)  # doctest: +ELLIPSIS
        exact to ...
          all of 300 distinct rows solved for
          objective on all rows ...
        """
        return verdict_of(self)

    def caveat(self) -> str:
        """Why the model may be far from the exact SVM; empty where nothing says so."""
        return caveat_of(self)

    def __str__(self) -> str:
        return plain(text_of(self))

    def _repr_html_(self) -> str:
        return as_html(self)


def certificate_of(
    records: Records,
    n_rows: int,
    n_solved: int,
    hull_tol: float,
    definiteness: str,
    in_memory: bool = True,
    n_vectors: int | None = None,
    **others: Any,
) -> Certificate:
    """The certificate of all machines together.

    - ``n_rows``, ``n_solved``: a row counts once, however many pairs it is in.
    - ``definiteness``: of the kernel: ``DEFINITE``, ``NOT_DEFINITE`` or ``TAKEN``.
    - ``in_memory``: whether the training rows are in one place, so that ``certify`` can compute
      what is missing.
    - ``n_vectors``: of all machines together, where they were limited.
    - ``others``: ``history``, ``plan``, ``remedy``, ``stopped_after`` and ``exact_after`` of
      ``Certificate``, where these are known.
    """
    total = records.total
    squared_norm = total("squared_norm")
    negative = bool((records["squared_norm"] < -records["rounding"]).any())
    if definiteness == TAKEN and negative:
        definiteness = NOT_DEFINITE
    if definiteness != NOT_DEFINITE:  # else w may really have a negative square, and F1 counts it
        squared_norm = max(squared_norm, 0.0)
    half = 0.5 * squared_norm
    loss, dual = total("loss"), total("dual_objective")
    objective = None if loss is None else half + loss
    exact = bool(records["exact"].all())
    max_residual = float(records["max_residual"].max())
    paper_bound = None
    distances = _finite(records["weighted_distances"])
    if not (max_residual or distances.any()):
        paper_bound = 0.0
    elif (largest := total("squared_norm_bound")) is not None:
        # the norm as long as it can be, and the farthest that targets can be
        reach = sqrt(largest + float(records["target_reach"].max()) ** 2)
        with np.errstate(over="ignore"):
            farthest = np.float64(total("total_cost")) * sqrt(max_residual)
            # distances count rounding, which may be larger than the largest residual
            paper_bound = float(reach * np.maximum(farthest, distances.sum()))
    gap = None
    if objective is not None and dual is not None:
        gap = max(0.0, objective - dual) + total("proof_rounding")
        gap += _rounding_of_sums(records, "squared_norm", "loss", "dual_objective")
    negligible = bool(records.negligible.all())
    vectors = bool(records.known("n_vectors").any())
    # in the span of few vectors, rows are represented where not all of them could be asked
    all_seen = vectors and not max_residual
    reduced = objective if all_seen else total("loss_reduced")
    if reduced is not None and not all_seen:
        reduced += half
    residuals, beyond = total("total_residual"), _theorem_2(records)

    def vacuous(bound: float, reduced: float) -> bool:
        return max_residual > 0 and reduced + bound >= total("worst_optimum")

    numbers: dict[str, Any] = {
        "mean_residual": None if residuals is None else residuals / max(1, total("n_rows")),
        "norm": sqrt(max(squared_norm, 0.0)),
        "reduced_objective": reduced,
        "objective": objective,
        "dual_objective": dual,
        "gap": gap,
        "relative_gap": _relative_gap(gap, objective, negligible),
        "paper_bound": paper_bound,
        "paper_bound_is_vacuous": None
        if paper_bound is None or reduced is None
        else vacuous(paper_bound, reduced),
        "theorem_2_bound": beyond,
        "theorem_2_bound_is_vacuous": None if reduced is None else vacuous(beyond, reduced),
        "violators": total("violators"),
    }
    numbers["worst_pair_gap"] = _worst_gap(records, numbers["relative_gap"])
    apart = DEAR if exact else APART
    missing = {
        name: NOT_LOOKED if in_memory else ELSEWHERE if name == "objective" else apart
        for name, value in numbers.items()
        if value is None
    }
    if numbers["mean_residual"] is None:
        missing["mean_residual"] = LARGEST_ALONE
    for name in ("paper_bound", "paper_bound_is_vacuous"):
        if numbers[name] is None:
            missing[name] = NO_BOUND
    if isinf(max_residual):
        for name in ("paper_bound", "theorem_2_bound"):
            for which in (name, f"{name}_is_vacuous"):
                numbers[which], missing[which] = None, SAMPLED
    if definiteness == NOT_DEFINITE:
        for name in set(numbers) - {"mean_residual", "reduced_objective", "objective", "violators"}:
            numbers[name], missing[name] = None, INDEFINITE
    estimate, error = _estimated_gap(records) if vectors else (None, None)
    return Certificate(
        kernel=definiteness,
        exact=exact,
        n_machines=len(records),
        n_vectors=n_vectors if vectors else None,
        estimated_gap=estimate,
        estimated_gap_error=error,
        rounds=int(records["rounds"].max()),
        n_rows=n_rows,
        n_solved=n_solved,
        hull_tol=float(hull_tol),
        max_residual=max_residual,
        changed=None if exact else _mean_change(records),
        proven=bool(records["proven"].all()),
        distinct=in_memory,
        negligible=negligible,
        missing=missing,
        **others,
        **numbers,
    )


def _rounding_of_sums(records: Records, *names: str) -> float:
    """The rounding of sums over machines."""
    if len(records) == 1:
        return 0.0  # its proof counts it
    sizes = sum(float(np.abs(records[name][records.known(name)]).sum()) for name in names)
    return len(records) * float(np.finfo(np.float64).eps) * sizes


def _relative_gap(gap: float | None, objective: float | None, negligible: bool) -> float | None:
    """The gap divided by the objective; zero where both are negligible."""
    if gap is None:
        return None
    if negligible or not gap:
        return 0.0
    return gap / abs(objective) if objective else inf


def _theorem_2(records: Records) -> float:
    norms = np.maximum(records["squared_norm"], 0.0) + records["target_reach"] ** 2
    distances = _finite(records["weighted_distances"])
    # where no row is represented by others F2 is F1, whose rounding was proven
    known = records["proven"] & (records["exact"] | records.known("n_vectors"))
    rounding = float(np.where(known, records["proof_rounding"], records["rounding"]).sum())
    bound = float(np.sqrt(norms) @ distances)
    return bound + rounding + _rounding_of_sums(records, "squared_norm", "loss_reduced")


def _finite(values: NDArray) -> NDArray:
    """Infinite values as zeros: without a bound on distances, no theorem is cited."""
    return np.where(values < np.inf, values, 0.0)


def _mean_change(records: Records) -> float | None:
    """The fraction of predictions that last rounds changed, over the pairs that made rounds."""
    made = records.known("changed")
    shares, n_rows = records["changed"][made], records["n_rows"][made]
    return float(shares @ n_rows / n_rows.sum()) if made.any() else None


def _estimated_gap(records: Records) -> tuple[float | None, float | None]:
    """The relative gap estimated from a sample, and two standard errors of that."""
    estimated = records["estimated_dual"]  # NaN where a pair is exact, or has no rows
    duals = np.where(np.isnan(estimated), records["dual_objective"], estimated)
    losses = np.where(records.known("loss"), records["loss"], records["estimated_loss"])
    objective = float((0.5 * np.maximum(records["squared_norm"], 0.0) + losses).sum())
    if not objective or np.isnan(objective) or np.isnan(duals).any():
        return None, None
    gap = objective - float(duals.sum())
    error = float(np.linalg.norm(records["estimated_error"]))
    return max(gap, 0.0) / abs(objective), error / abs(objective)


def _worst_gap(records: Records, of_all: float | None) -> float | None:
    """The largest relative gap of any pair; ``of_all``: that of all together."""
    if of_all is None or len(records) == 1:
        return of_all
    return float(np.fmax.reduce(records.relative_gaps(), initial=0.0))
