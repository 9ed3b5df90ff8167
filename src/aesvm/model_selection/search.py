"""AEGridSearchCV and the others: scikit-learn's searches, whose fits share their work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from math import ceil, floor, log
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
)
from sklearn.utils._param_validation import HasMethods, StrOptions

from aesvm.estimators.validation import Interval, Seconds
from aesvm.model_selection.grids import paper_grid, svm_distributions, svm_grid
from aesvm.model_selection.paths import svm_of
from aesvm.model_selection.shared_search import SharedSearch
from aesvm.runtime.scikit_learn import run_search

#: Constraints of the parameters that scikit-learn's searches do not have.
_CONSTRAINTS: dict[str, list] = {
    "memory": [str, os.PathLike, HasMethods(["cache"]), None],
    "time_limit": [None, Seconds()],
}

# SharedSearch stands second: the fit of scikit-learn's halving calls the next one, which is ours.


class AEGridSearchCV(GridSearchCV, SharedSearch):
    """Search over a grid of parameters, whose fits share their work.

    Parameters, attributes and scores (to within the solver's ``tol``) are those of
    :class:`sklearn.model_selection.GridSearchCV`. Fits to one fold share work:

    - all of them: the distinct rows, and the fitted steps of a pipeline before the SVM;
    - fits that differ in the gamma of the RBF kernel: the partition;
    - fits with the same kernel: the representative sets, and the kernel values of the rows to
      predict. Each starts from the solution at the next smaller C.

    There is no start for the nu forms and the one-class SVM, with ``max_vectors`` or ``max_iter``,
    with a kernel that is not positive semidefinite, and where over a hundred pairs of classes are
    trained together.

    The models of the search have no certificate; ``best_estimator_`` is fitted as always, and has
    one. scikit-learn fits the candidates of other packages' estimators.

    Parameters
    ----------
    estimator : estimator
        Any SVM of aesvm, or a pipeline that ends in one.
    param_grid : dict, list of dicts, "svm" or "paper"
        As for ``GridSearchCV``; "svm" is a grid that centres itself on the data, see
        :func:`svm_grid`, and "paper" that of the paper's experiments, :func:`paper_grid`.
    scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score
        As for ``GridSearchCV``. Work goes through joblib: paths of candidates with one kernel,
        on one fold. With ``n_jobs=None`` the estimator's own ``n_jobs`` threads do it.
    memory : str, os.PathLike or object with the joblib.Memory interface, default=None
        A folder that keeps the results of each path on each fold, as ``Pipeline(memory=)`` keeps
        transformers. The same search with the same folder goes on where it was interrupted. Fits
        that failed are tried again. joblib unpickles what it finds there: use a folder of your own.
        Functions, such as a scoring, are known by their names: clear the folder after editing one.
        Fits that a ``time_limit`` of the search has ended are not kept.
    time_limit : float, default=None
        Seconds for the search as a whole, the last fit included. Each fit gets an even share of the
        time that is left, and ends with the best model that it has by then.
        Candidates are tried from the middle of a grid on, each on all folds; halving shares the
        time evenly among its rounds. Candidates that were not tried have the score NaN. A
        ``ConvergenceWarning`` says what was cut short. Estimators of other packages are not ended
        in a fit. None: no limit.

    Attributes
    ----------
    cv_results_ : dict of ndarrays
        As in ``GridSearchCV``. In addition, the mean and standard deviation over the folds of
        ``partition_time``, ``set_time`` and ``solve_time``, of the ``kernel_values`` that were
        computed (nan if they were not counted), and of the ``rows_solved`` for. Work that several
        fits share is counted for the first of them.
    param_grid_ : dict or list of dicts
        The grid that was searched.
    cut_short_ : str
        What the ``time_limit`` has cut short; empty where it was long enough.
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_
        And all others of ``GridSearchCV``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection import AEGridSearchCV
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> search = AEGridSearchCV(AESVC(), {"C": [0.1, 1, 10], "gamma": [0.1, 1, 10]}, cv=3).fit(X, y)
    >>> bool(search.best_score_ > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **GridSearchCV._parameter_constraints,
        "param_grid": [dict, list, StrOptions({"svm", "paper"})],
        **_CONSTRAINTS,
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score: bool = False,
        memory: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.memory = memory
        self.time_limit = time_limit

    def _candidates_from(self, X: Any, y: Any) -> None:
        self.param_grid_ = _named_grid(self.param_grid, self.estimator, X, y)

    def _run_search(self, evaluate_candidates: Callable, *, callback_ctx: Any = None) -> None:
        _search_all(self, ParameterGrid(self.param_grid_), evaluate_candidates, callback_ctx)


class AERandomizedSearchCV(RandomizedSearchCV, SharedSearch):
    """Search over random candidates, whose fits share their work; see :class:`AEGridSearchCV`.

    Fits share most where candidates have the same kernel: with gamma drawn from a list of values
    rather than from a continuous distribution.

    Parameters
    ----------
    estimator : estimator
        Any SVM of aesvm, or a pipeline that ends in one.
    param_distributions : dict, list of dicts or "svm"
        As for :class:`sklearn.model_selection.RandomizedSearchCV`; "svm" draws C uniformly on a
        logarithmic scale, and gamma from five values, as far as :func:`svm_grid` goes.
    n_iter, scoring, n_jobs, refit, cv, verbose, pre_dispatch, random_state, error_score, \
    return_train_score
        As for ``RandomizedSearchCV``.
    memory, time_limit
        See :class:`AEGridSearchCV`.

    Attributes
    ----------
    param_distributions_ : dict or list of dicts
        What candidates were drawn from.
    cv_results_, cut_short_
        See :class:`AEGridSearchCV`.
    others
        As in ``RandomizedSearchCV``.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection import AERandomizedSearchCV
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> candidates = {"C": loguniform(0.1, 100), "gamma": [0.1, 1, 10]}
    >>> search = AERandomizedSearchCV(AESVC(), candidates, n_iter=8, random_state=0).fit(X, y)
    >>> bool(search.best_score_ > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **RandomizedSearchCV._parameter_constraints,
        "param_distributions": [dict, list, StrOptions({"svm"})],
        **_CONSTRAINTS,
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        memory: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_distributions,
            n_iter=n_iter,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            random_state=random_state,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.memory = memory
        self.time_limit = time_limit

    def _candidates_from(self, X: Any, y: Any) -> None:
        self.param_distributions_ = self.param_distributions
        if self.param_distributions == "svm":
            self.param_distributions_ = svm_distributions(self.estimator, X, y)

    def _run_search(self, evaluate_candidates: Callable, *, callback_ctx: Any = None) -> None:
        drawn = ParameterSampler(
            self.param_distributions_, self.n_iter, random_state=self.random_state
        )
        _search_all(self, drawn, evaluate_candidates, callback_ctx)


class AEHalvingGridSearchCV(HalvingGridSearchCV, SharedSearch):
    """Search over a grid by halving, whose fits share their work; see :class:`AEGridSearchCV`.

    All candidates are first tried with a small part of the resource. The best of them, one in
    ``factor``, go on to the next round, which has more of it.

    Parameters
    ----------
    estimator : estimator
        Any SVM of aesvm, or a pipeline that ends in one.
    param_grid : dict, list of dicts, "svm" or "paper"
        See :class:`AEGridSearchCV`.
    resource : "n_samples", "hull_tol" or str, default="n_samples"
        What grows from round to round: the number of rows, a parameter of the estimator that takes
        whole numbers, or how finely rows are represented. With ``"hull_tol"`` (in a pipeline
        ``"svc__hull_tol"``) all candidates are first trained on coarse representative sets with
        ``refine=0``. Each further round has sets ``factor`` times as fine. The last round uses the
        candidates' own ``hull_tol``, ``refine`` and ``max_vectors``.
    factor, max_resources, min_resources, aggressive_elimination, cv, scoring, refit, error_score, \
    return_train_score, random_state, n_jobs, verbose
        As for :class:`sklearn.model_selection.HalvingGridSearchCV`, but ``return_train_score`` is
        False by default.
    memory, time_limit
        See :class:`AEGridSearchCV`.

    Attributes
    ----------
    n_candidates_, n_resources_ : list of int
        Of each round. With ``resource="hull_tol"``, how many times finer than in the first.
    cv_results_, param_grid_, cut_short_
        See :class:`AEGridSearchCV`.
    others
        As in ``HalvingGridSearchCV``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.model_selection import AEHalvingGridSearchCV
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> grid = {"C": [0.1, 1, 10], "gamma": [0.1, 1, 10]}
    >>> search = AEHalvingGridSearchCV(AESVC(), grid, cv=3, resource="hull_tol").fit(X, y)
    >>> search.n_candidates_
    [9, 3, 1]
    """

    max_resources: Any

    _parameter_constraints: ClassVar[dict] = {
        **HalvingGridSearchCV._parameter_constraints,
        "param_grid": [dict, list, StrOptions({"svm", "paper"})],
        "factor": [Interval(Real, 1, None, closed="neither")],
        **_CONSTRAINTS,
    }

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        factor: float = 3,
        resource: str = "n_samples",
        max_resources: Any = "auto",
        min_resources: Any = "exhaust",
        aggressive_elimination: bool = False,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        memory: Any = None,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_grid,
            factor=factor,
            resource=resource,
            max_resources=max_resources,
            min_resources=min_resources,
            aggressive_elimination=aggressive_elimination,
            cv=cv,
            scoring=scoring,
            refit=refit,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.memory = memory
        self.time_limit = time_limit

    def _candidates_from(self, X: Any, y: Any) -> None:
        self.param_grid_ = _named_grid(self.param_grid, self.estimator, X, y)

    def _generate_candidate_params(self) -> Any:
        return ParameterGrid(self.param_grid_)

    @property
    def _by_tolerance(self) -> bool:
        prefix, machine = svm_of(self.estimator, {})
        return machine is not None and self.resource == f"{prefix}hull_tol"

    @staticmethod
    def _select_best_index(refit: Any, refit_metric: str, results: dict[str, Any]) -> int:
        """The best candidate of the last round in which one was tried on all folds."""
        scores, rounds = results["mean_test_score"], results["iter"]
        last = np.max(rounds[~np.isnan(scores)], initial=0)
        at = np.flatnonzero(rounds == last)
        return int(at[np.argmax(np.nan_to_num(scores[at], nan=-np.inf))])

    def _rounds_left(self, n_made: int) -> int:
        required, possible = self._n_rounds(len(ParameterGrid(self.param_grid_)))
        return (required if self.aggressive_elimination else min(required, possible)) - n_made

    def _check_input_parameters(self, X: Any, y: Any, split_params: Any) -> None:
        given = self.max_resources
        if self._by_tolerance and given == "auto":
            self._candidates_from(X, y)  # before 1.9 scikit-learn checks first
            n_candidates = max(1, len(ParameterGrid(self.param_grid_)))
            self.max_resources = ceil(self.factor ** floor(log(n_candidates, self.factor)))
        try:
            super()._check_input_parameters(X, y, split_params)
        finally:
            self.max_resources = given

    def _run_search(self, evaluate_candidates: Callable, *, callback_ctx: Any) -> None:
        if not self._by_tolerance:
            run_search(super()._run_search, evaluate_candidates, callback_ctx)
            return
        prefix = self.resource.removesuffix("hull_tol")
        candidates = list(ParameterGrid(self.param_grid_))
        for name in ("refine", "max_vectors"):
            if any(f"{prefix}{name}" in params for params in candidates):
                raise ValueError(
                    f"resource={self.resource!r} sets {prefix}{name} itself until the last round: "
                    f"take {prefix}{name} out of param_grid, or use another resource."
                )

        def at_tolerance(candidates: Iterable[dict[str, Any]], *args: Any, **others: Any) -> Any:
            """Evaluate candidates, whose resource is how many times finer they are."""
            finest = self._last_resource(len(ParameterGrid(self.param_grid_)))
            as_trained = []
            for params in candidates:
                fraction = params[self.resource] / finest
                ours = [f"{prefix}{name}" for name in ("hull_tol", "refine", "max_vectors")]
                params = {name: value for name, value in params.items() if name not in ours}
                svm = self._svm_by_tolerance(params)
                how = {"hull_tol": svm.hull_tol / fraction, "refine": svm.refine}
                if fraction < 1.0:
                    how |= {"refine": 0, "max_vectors": None}
                as_trained.append(params | {f"{prefix}{name}": how[name] for name in how})
            return evaluate_candidates(as_trained, *args, **others)

        run_search(super()._run_search, at_tolerance, callback_ctx)

    def _svm_by_tolerance(self, params: dict[str, Any]) -> Any:
        """The SVM of a candidate, whose tolerance can be coarser."""
        _, svm = svm_of(self.estimator, params)
        if svm is None:
            clone(self.estimator).set_params(**clone(params, safe=False))  # says what is unknown
        if svm is None or not svm.hull_tol:
            what = "puts another estimator in its place" if svm is None else "has none, it is 0"
            raise ValueError(
                f"resource={self.resource!r} begins with a coarser one, and the candidate {params} "
                f"{what}: use another resource."
            )
        return svm

    def _last_resource(self, n_candidates: int) -> int:
        """The resource of the last round, which may be less than the most there is."""
        required, possible = self._n_rounds(n_candidates)
        rounds = possible if self.aggressive_elimination else min(possible, required)
        return min(int(self.factor ** (rounds - 1) * self.min_resources_), self.max_resources_)

    def _n_rounds(self, n_candidates: int) -> tuple[int, int]:
        """Rounds until few candidates are left, and until resources are used up."""
        required = 1 + floor(log(n_candidates, self.factor))
        possible = 1 + floor(log(self.max_resources_ // self.min_resources_, self.factor))
        return required, possible


def _search_all(owner: Any, candidates: Any, evaluate_candidates: Callable, context: Any) -> None:
    """Evaluate candidates at once, as one task."""
    task = context.subcontext(
        task_name="search",
        max_subtasks=len(candidates) * owner.n_splits_,
        sequential_subtasks=False,
    )
    task.call_on_fit_task_begin(estimator=owner)
    evaluate_candidates(candidates, callback_ctx=task)
    task.call_on_fit_task_end(estimator=owner)


def _named_grid(name: Any, estimator: Any, X: Any, y: Any) -> Any:
    """The grid of a name; a grid as it is."""
    if isinstance(name, str):
        return svm_grid(estimator, X, y) if name == "svm" else paper_grid(estimator)
    return name
