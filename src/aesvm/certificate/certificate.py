"""What is known of a trained model's distance from the exact SVM.

With ``c_i = C * class_weight * sample_weight`` and the rows' images ``z_i`` in kernel space,

    F1(w, b) = 1/2 |w|^2 + sum_i c_i max(0, 1 - y_i (<w, z_i> + b))     over all rows,
    F2(w, b) = the same over the representatives, their bounds c_t = C * class_weight * beta_t,
    F3(w, b) = the same over all rows, each replaced by what stands for it, u_i = z_i - tau_i.

Every number follows from these. With several classes the pairs are one
problem, of which all objectives are sums; one number is of the worst pair alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import inf, isinf, sqrt
from typing import Any

import numpy as np

from aesvm.certificate.accounts import Accounts
from aesvm.certificate.history import Step
from aesvm.certificate.text import as_html, caveat_of, plain, text_of, verdict_of
from aesvm.kernels import NOT_DEFINITE, TAKEN

#: Why a number is missing.
NOT_LOOKED = "takes a pass over all rows: call certify(X, y), with what fit was given"
INDEFINITE = "the kernel is not positive semidefinite: no theorem applies"
ELSEWHERE = "takes a pass over all rows: call certify_stream(source), or with Dask certify(X, y)"
SAMPLED = "rows were sampled to keep within memory_budget: no bound holds"
LARGEST_ALONE = "of rows that were gathered only a bound on the largest is known"
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
        kernel "taken to be positive semidefinite": that was not checked, and every bound below
        rests on it.
    exact : bool
        Whether every distinct row has a multiplier of its own, between 0 and its own bound:
        then the problem is SVC's, and the gap tells how well it was solved.
    n_machines : int
        Pairs of classes; 1 of an estimator that is not of classes.
    rounds : int
        Margin-stratified rounds that led to the model; the largest number of any pair.
    n_rows, n_solved : int
        Rows (``distinct``: equal ones once), and those of them that were solved for.
    hull_tol : float
        The tolerance asked for (the paper's epsilon), of no consequence where the model is exact;
        of rows that were gathered from elsewhere, that of the set they came as.
    max_residual, mean_residual : float, float or None
        Of the squared distances ``|tau_i|^2``; infinite where a stream's rows were sampled. Rows
        outside the margin are represented ten
        times as coarsely as ``hull_tol`` says; where rounds were asked for and the first
        solution was the best, all are.
    norm : float or None
        ``|w|``, or with several pairs the norm of all of them together.
    reduced_objective : float or None
        F2(w, b).
    objective : float or None
        F1(w, b), on all rows.
    dual_objective : float or None
        The best value found of the full dual, at multipliers lifted from the representatives:
        ``alpha_i = w_i sum_t gamma_it alpha_t / beta_t`` lies between 0 and c_i and keeps the
        sum of ``y_i alpha_i``. By weak duality F1 is nowhere smaller.
    gap, relative_gap : float or None
        ``objective - dual_objective``, and what rounding may add to it: F1(w, b) exceeds the exact
        SVM's by at most that; and the same divided by the magnitude of ``objective``.
    worst_pair_gap : float or None
        The largest relative gap of any one pair of classes, each divided by the magnitude of its
        own objective: a pair that was trained badly hardly shows in a sum over many. A pair whose
        gap and objective are both zero to within rounding (one that left nothing to learn) counts
        as 0; one whose objective alone is near zero has a large relative gap, and is a pair whose
        model says little. Where there is one machine it is ``relative_gap``.
    paper_bound : float or None
        What the exact SVM's objective can exceed F2's minimum by, Corollary 3 of the paper in
        our C: ``(sum_i c_i)^(3/2) sqrt(max_residual)``.
    paper_bound_is_vacuous : bool or None
        Whether, added to F2, it says no more than ``w = 0`` does, whose objective is at most
        twice the bounds of the lighter class.
    theorem_2_bound : float or None
        ``|w| sum_i c_i |tau_i|``, and what rounding may add: at least F1(w, b) - F3(w, b) by
        Theorem 2; as F3 <= F2 by Theorem 1, F1(w, b) is at most F2(w, b) plus this. Of a
        regression, with s the unit of its targets, it has ``sqrt(|w|^2 + s^2)`` for ``|w|``
        (docs/formulations.md).
    theorem_2_bound_is_vacuous : bool or None
        Whether, added to F2, it says no more than ``w = 0`` does.
    violators : int or None
        Rows whose margin contradicts their lifted multiplier by more than ``tol``; a row counts
        once for each pair it is in.
    n_vectors : int or None
        The vectors that w is in the span of, few by ``max_vectors`` or ``compress``; None of other
        models. Where ``max_residual`` is zero no row is represented by others, and F2 is F1.
    estimated_gap, estimated_gap_error : float or None
        Of a model in the span of few vectors: the relative gap, estimated from a random sample of
        the rows, and two standard errors of that. The objective is above the exact SVM's by at
        most about the sum of both, as a share of itself; ``certify`` computes a proven bound.
    changed : float or None
        The share of the rows, by weight, whose prediction the last round changed, the mean over the
        pairs; None where there was none, where another did not improve the model, or where it is
        exact.
    proven : bool
        Whether objectives, gap and violators were computed anew in double precision, and the gap
        counts what rounding may add: they are bounds then. Otherwise they come from training,
        whose sums may be in single precision, and are estimates; ``certify`` proves them.
    distinct : bool
        Whether rows that are equal count as one: of rows in memory, and not of a stream.
    negligible : bool
        Whether objective and gap, of every pair, are zero but for rounding beside the costs: the
        relative gap is then 0. It can be so only where w = 0 is optimal and pays nothing, and the
        solve came that near.
    missing : dict
        Why each number that is None was not computed.
    history : tuple of Step
        What each look at all rows saw while the model was trained: the ``rounds`` made so far, or
        ``n_vectors``, and the ``seconds``, ``objective``, ``dual_objective`` and ``relative_gap``
        then. Empty where there was none. ``aesvm.plotting.CertificateDisplay`` draws it.
    plan : str
        What the fit did, and the counts from which that was decided.
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

    def as_dict(self) -> dict[str, Any]:
        """All of it as a dict of plain values; ``max_residual`` may be infinite.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(300, noise=0.2, random_state=0)
        >>> certificate = AESVC(gamma=1.0).fit(X, y).certificate_
        >>> certificate.as_dict()["exact"]
        True
        >>> certificate.relative_gap < 1e-2
        True
        """
        steps = tuple({**asdict(one), "relative_gap": one.relative_gap} for one in self.history)
        return {**asdict(self), "history": steps}

    def verdict(self) -> str:
        """How close the model is to the exact SVM, in a line of words; what the text begins with.

        Bounds are rounded up. Percentages are of the exact SVM's objective, of which the dual
        objective is a lower bound. A model of every row is "exact to" its relative gap where it is
        at most 1e-3, which the solver aims at. A pair of classes ten times worse than all together
        is named.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(300, noise=0.2, random_state=0)
        >>> certificate = AESVC(gamma=1.0).fit(X, y).certificate_
        >>> certificate.verdict().startswith("exact to ")
        True
        >>> print(certificate)  # doctest: +ELLIPSIS
        exact to ...
          all of 300 distinct rows solved for
          objective on all rows ...
        """
        return verdict_of(self)

    def caveat(self) -> str:
        """What says that the model may be far from the exact SVM; empty where nothing does.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from aesvm import AESVC
        >>> X, y = make_moons(300, noise=0.2, random_state=0)
        >>> AESVC(gamma=1.0).fit(X, y).certificate_.caveat()
        ''
        """
        return caveat_of(self)

    def __str__(self) -> str:
        return plain(text_of(self))

    def _repr_html_(self) -> str:
        return as_html(self)


def certificate_of(
    accounts: Accounts,
    n_rows: int,
    n_solved: int,
    hull_tol: float,
    definiteness: str,
    in_memory: bool = True,
    n_vectors: int | None = None,
    history: tuple[Step, ...] = (),
    plan: str = "",
) -> Certificate:
    """The certificate of all pairs together.

    ``n_vectors``: of all pairs together, where there are few by design.
    ``n_rows`` and ``n_solved`` count a row once, however many pairs it is in.
    ``in_memory``: whether the training rows are in one place; a number that is missing can then be
    had by another call.
    """
    total = accounts.total
    squared_norm = total("squared_norm")
    negative = bool((accounts["squared_norm"] < -accounts["rounding"]).any())
    if definiteness == TAKEN and negative:
        definiteness = NOT_DEFINITE
    if definiteness != NOT_DEFINITE:  # else w may really have a negative square, and F1 counts it
        squared_norm = max(squared_norm, 0.0)
    half = 0.5 * squared_norm
    loss, dual = total("loss"), total("dual_objective")
    objective = None if loss is None else half + loss
    exact = bool(accounts["exact"].all())
    max_residual = float(accounts["max_residual"].max())
    paper_bound = None
    if not max_residual:
        paper_bound = 0.0
    elif (largest := total("squared_norm_bound")) is not None:
        # the norm as long as it can be, and the farthest that targets can be
        reach = sqrt(largest + float(accounts["target_reach"].max()) ** 2)
        with np.errstate(over="ignore"):
            paper_bound = float(np.float64(total("total_cost")) * reach * sqrt(max_residual))
    gap = None
    if objective is not None and dual is not None:
        gap = max(0.0, objective - dual) + total("proof_rounding")
        gap += _rounding_of_sums(accounts, "squared_norm", "loss", "dual_objective")
    negligible = bool(accounts.negligible.all())
    vectors = bool(accounts.known("n_vectors").any())
    # in the span of few vectors, rows are represented where not all of them could be asked
    all_seen = vectors and not max_residual
    reduced = objective if all_seen else total("loss_reduced")
    if reduced is not None and not all_seen:
        reduced += half
    residuals, beyond = total("total_residual"), _theorem_2(accounts)

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
    numbers["worst_pair_gap"] = _worst_gap(accounts, numbers["relative_gap"])
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
    estimate, error = _estimated_gap(accounts, objective) if vectors else (None, None)
    return Certificate(
        kernel=definiteness,
        exact=exact,
        n_machines=len(accounts),
        n_vectors=n_vectors if vectors else None,
        estimated_gap=estimate,
        estimated_gap_error=error,
        rounds=int(accounts["rounds"].max()),
        n_rows=n_rows,
        n_solved=n_solved,
        hull_tol=float(hull_tol),
        max_residual=max_residual,
        changed=None if exact else _mean_change(accounts),
        proven=bool(accounts["proven"].all()),
        distinct=in_memory,
        negligible=negligible,
        missing=missing,
        history=history,
        plan=plan,
        **numbers,
    )


def _rounding_of_sums(accounts: Accounts, *names: str) -> float:
    """What some numbers of several machines are off by when they are added up."""
    if len(accounts) == 1:
        return 0.0  # its proof counts it
    sizes = sum(float(np.nansum(np.abs(accounts[name]))) for name in names)
    return len(accounts) * float(np.finfo(np.float64).eps) * sizes


def _relative_gap(gap: float | None, objective: float | None, negligible: bool) -> float | None:
    """A gap as a share of its objective: zero where both are negligible."""
    if gap is None:
        return None
    if negligible or not gap:
        return 0.0
    return gap / abs(objective) if objective else inf


def _theorem_2(accounts: Accounts) -> float:
    norms = np.maximum(accounts["squared_norm"], 0.0) + accounts["target_reach"] ** 2
    distances = accounts["weighted_distances"]
    # where no row is represented by others F2 is F1, and a proof knows what that is off by
    known = accounts["proven"] & (accounts["exact"] | accounts.known("n_vectors"))
    rounding = float(np.where(known, accounts["proof_rounding"], accounts["rounding"]).sum())
    bound = float(np.sqrt(norms) @ np.where(distances < np.inf, distances, 0.0))
    return bound + rounding + _rounding_of_sums(accounts, "squared_norm", "loss_reduced")


def _mean_change(accounts: Accounts) -> float | None:
    """The share of predictions that last rounds changed, of the pairs that made any."""
    made = accounts.known("changed")
    shares, n_rows = accounts["changed"][made], accounts["n_rows"][made]
    return float(shares @ n_rows / n_rows.sum()) if made.any() else None


def _estimated_gap(
    accounts: Accounts, objective: float | None
) -> tuple[float | None, float | None]:
    """The relative gap as a sample has it, and two standard errors of that."""
    nothing = accounts["n_rows"] == 0
    duals = np.where(nothing, accounts["dual_objective"], accounts["estimated_dual"])
    if objective is None or not objective or np.isnan(duals).any():
        return None, None
    gap = objective - float(duals.sum())
    error = float(np.linalg.norm(accounts["estimated_error"]))
    return max(gap, 0.0) / abs(objective), error / abs(objective)


def _worst_gap(accounts: Accounts, of_all: float | None) -> float | None:
    """The largest relative gap of any pair; ``of_all``: that of the sums."""
    if of_all is None or len(accounts) == 1:
        return of_all
    return float(np.nan_to_num(accounts.relative_gaps(), nan=0.0, posinf=np.inf).max())
