"""DaskMachine: what every estimator of the family does with rows on a cluster."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from aesvm.certificate.certificate import Certificate
from aesvm.dask.clients import clone_with_client, state_without_client
from aesvm.dask.fitting import checked_partitions, cluster_rows
from aesvm.dask.partitions import is_lazy, partitions
from aesvm.dask.prediction import ask_lazily, check_names
from aesvm.estimators.conversion import to_sklearn
from aesvm.estimators.fitting import fit_method
from aesvm.estimators.gathered import certify_gathered, gathered_trainer, set_gathered
from aesvm.estimators.learning import Learning
from aesvm.estimators.parameters import check_unchanged, plan_elsewhere
from aesvm.estimators.prediction import ask
from aesvm.estimators.trained import TrainedOn, certificate, check_same_rows
from aesvm.io.model_file import save
from aesvm.io.state import set_plain_state
from aesvm.machines.plan import Rounds, Span
from aesvm.machines.rounds import Policy
from aesvm.out_of_core.stream import warn_if_looser
from aesvm.out_of_core.training import check_not_exact
from aesvm.representative_set import RepresentativeSet


class DaskMachine:
    """An estimator that trains one or several SVMs on rows of a cluster."""

    _learns: ClassVar[Learning]

    refine: int | str
    hull_tol: float
    memory_budget: int | str | None
    on_overflow: str
    gamma_: float
    representative_set_: RepresentativeSet
    shape_fit_: tuple[int, int]
    _trained_on_: dict[str, Any]  # see TrainedOn

    __sklearn_clone__ = clone_with_client
    __getstate__ = state_without_client
    __setstate__ = set_plain_state
    certificate_ = property(certificate)
    save = save
    to_sklearn = to_sklearn

    @fit_method
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on representatives of all rows, as ``refine`` and ``max_vectors`` say.

        Parameters
        ----------
        X : dask array or dask dataframe of shape (n_samples, n_features)
            Its chunk sizes need not be known.
        y : dask array or series of shape (n_samples,)
            What is to be learned, in the partitions of X: classes, or numbers. Ignored where
            outliers are to be found.
        sample_weight : dask array or series of shape (n_samples,), default=None
            Factors of C by row; rows of weight zero are left out.

        Returns
        -------
        self : object
        """
        learns, y = self._learns, self._targets(y)
        check_not_exact(self.refine)
        plan = plan_elsewhere(self)
        first_tol = plan.settings.hull_tol if isinstance(plan, Rounds) else self.hull_tol
        found = checked_partitions(self, X, y, sample_weight)
        passes = isinstance(plan, Span)
        asking = cluster_rows(self, found, learns.chunk_of, learns.joint, passes=passes)
        with asking as (rows, run, progress):
            tree, tally = rows.reduce(first_tol, keep=self.refine != 0)
            if not passes:
                warn_if_looser(tree, first_tol, self.memory_budget)
            learns.check_enough(tally, "y")
            first = rows.condensed(tree)
            progress.say(f"{tree.n_rows:,} rows reduced, {len(tree.everything()):,} came here")
            counts = tally.sorted_classes(first.groups)
            trainer = gathered_trainer(self, learns, counts, rows.scale, run, progress)
            learns.check_weights(self, counts.classes, tally.weights_of(counts.classes))
            progress.say(f"plan: {plan}")
            if isinstance(plan, Span):
                fit = trainer.train_in_span(first, tree.hull_tol, plan, tally.n_rows, rows)
            elif plan.most == 0:
                fit = trainer.train(first, tree.hull_tol)
            else:
                policy = Policy(plan, loosen=self.on_overflow == "loosen")
                fit = trainer.refine(first, tree.hull_tol, rows, self.hull_tol, policy)
        set_gathered(self, fit, tally.n_rows, tally.digest, plan)
        return self

    def select(self) -> tuple[Any, NDArray, NDArray[np.float64]]:
        """The representatives that the model was trained on first: see ``representative_set_``."""
        check_is_fitted(self)
        return self.representative_set_.select()

    @fit_method
    def certify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
        """Compute the objective that ``certificate_`` lacks, by another look at all rows.

        Parameters
        ----------
        X, y, sample_weight
            What ``fit`` was given.

        Returns
        -------
        certificate : Certificate
            It takes the place of ``certificate_``.
        """
        check_is_fitted(self)
        known, learns, y = TrainedOn.of(self), self._learns, self._targets(y)
        check_unchanged(self, known.parameters)
        check_names(self, X)
        found = partitions(X, y, sample_weight)
        asking = cluster_rows(
            self, found, learns.chunk_of, learns.joint, self.gamma_, name="certify"
        )
        with asking as (rows, _, _):
            tally = rows.count(self.hull_tol)
            check_same_rows(self, known, tally.digest, tally.n_rows, "in the same partitions")
            counts = tally.sorted_classes(getattr(self, "classes_", np.zeros(0)))
            return certify_gathered(self, learns, counts, rows.scale, rows)

    def _targets(self, y: Any) -> Any:
        """The y that is learned from; an error where there must be one, and is not."""
        if not self._learns.takes_targets:
            return None
        if y is None:
            self._learns.valid_targets(self, y, None)  # says what is missing
        return y

    def _ask(self, method: str, X: Any) -> Any:
        """What a method of the model gives for some rows: lazily, where X is."""
        if not is_lazy(X):
            return ask(self, method, X)
        check_is_fitted(self)
        return ask_lazily(self, method, X)
