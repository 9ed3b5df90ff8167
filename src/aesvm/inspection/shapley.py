"""shapley_values: what each feature adds to a decision value, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from aesvm.estimators.fitting import compiling_announced
from aesvm.estimators.prediction import model_of
from aesvm.estimators.validation import from_gpu, validated_rows
from aesvm.gpu import devices
from aesvm.gpu.shapley import products_on_device
from aesvm.inspection.players import Players, players_of, split_pipeline
from aesvm.inspection.products import Game, rules_for, shapley_products
from aesvm.machines.prediction import PairwiseModel
from aesvm.machines.problem import pair_classes
from aesvm.machines.processor import kind_of
from aesvm.runtime.progress import Progress
from aesvm.runtime.scikit_learn import safe_indexing
from aesvm.runtime.threads import Threads, one_blas_thread, valid_jobs

#: Draws background rows: the same ones every time.
_SEED = 0


@dataclass(frozen=True)
class ShapleyValues:
    """What each feature adds to each row's decision value; ``np.asarray`` gives ``values``.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features)
        With several outputs (n_samples, n_features, n_outputs). Interactions have another axis of
        features after the first.
    base_values : float or ndarray of shape (n_outputs,)
        The mean decision value of the background. With a row's values it adds up to the row's
        decision value.
    data : ndarray of shape (n_samples, n_features)
        The rows that were explained. NaN for groups of several columns.
    feature_names : list of str
    output_names : list of str or None
        None where there is one output.
    background : {array-like, sparse matrix, DataFrame}
        The background rows.
    interactions : bool
        Whether the values are interactions of pairs of features.

    Examples
    --------
    >>> import numpy as np
    >>> from aesvm import AESVR
    >>> from aesvm.inspection import shapley_values
    >>> X = np.arange(8.0).reshape(4, 2)
    >>> model = AESVR(kernel="linear").fit(X, X[:, 0])
    >>> np.asarray(shapley_values(model, X[:1], background=X)).shape
    (1, 2)
    """

    values: NDArray[np.float64]
    base_values: Any
    data: NDArray
    feature_names: list[str]
    output_names: list[str] | None
    background: Any
    interactions: bool = False

    @property
    def importances(self) -> NDArray[np.float64]:
        """Mean absolute values: (n_features,), or (n_features, n_outputs)."""
        if self.interactions:
            raise ValueError("importances: these are interactions; compute values without them.")
        return np.abs(self.values).mean(axis=0)

    def to_shap(self) -> Any:
        """Convert to a ``shap.Explanation``, which the plots of shap take."""
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs shap: pip install shap.") from error
        base = np.asarray(self.base_values)
        return shap.Explanation(
            values=self.values,
            base_values=np.broadcast_to(base, (len(self.values), *base.shape)).copy(),
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names,
        )

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        values = np.asarray(self.values, dtype=dtype)
        if copy is False and not np.shares_memory(values, self.values):
            raise ValueError(f"copy=False, and values of type {dtype} are a copy.")
        return values.copy() if copy else values


def shapley_values(
    model: Any,
    X: Any,
    background: Any = 100,
    *,
    groups: Any = None,
    interactions: bool = False,
    n_jobs: int | None = None,
    device: str | None = None,
) -> ShapleyValues:
    """Compute exact Shapley values of a machine with the RBF or the linear kernel.

    The values are interventional: an unknown feature takes its values in the background rows,
    whatever the known features are. They are exact up to rounding, not sampled. The time grows
    with rows times background rows times support vectors times features.

    Parameters
    ----------
    model : estimator
        Fitted: AESVC or another SVM of aesvm, or a pipeline or search that ends in one. The
        columns of X are the players, also before scalers, imputers, encoders, selections and a
        ColumnTransformer of these.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        The rows to explain, as ``predict`` takes them.
    background : int, or rows like X, default=100
        The rows to compare with. Pass training rows, or some of them: a model does not keep them. A
        number draws that many rows of X at random, always the same ones.
    groups : dict or list, default=None
        Columns that play together: names of groups and their columns (names or numbers), or a
        list of lists of columns. Other columns play alone.
    interactions : bool, default=False
        Whether to return Shapley's interactions of pairs, shape (n_samples, n_features,
        n_features). Each is half of the pair's interaction index, so that those of a feature, with
        its main effect on the diagonal, add up to its value. The time grows with the
        square of the number of features.
    n_jobs : int, default=None
        Threads. None is one, -1 all processors. The result does not depend on it.
    device : {"cpu", "cuda", "cuda:1", ...}, default=None
        What computes. None: the model's ``device``.

    Returns
    -------
    values : ShapleyValues
        For two classes, of the decision value, which is positive for the second class; for
        regressors of the prediction; for one-class machines of the decision value. With more
        classes there are several outputs. With ``decision_function_shape="ovo"`` they are the
        decision values of the pairs of classes. With "ovr" there is one for each class: the sum of
        its pairs' decision values, which decides between classes with equally many votes.
        Votes are steps, and have no closed form.

    See Also
    --------
    ShapleyDisplay : Draw them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_friedman1
    >>> from aesvm import AESVR
    >>> from aesvm.inspection import shapley_values
    >>> X, y = make_friedman1(1000, random_state=0)
    >>> model = AESVR(C=10.0).fit(X, y)
    >>> found = shapley_values(model, X[:20], background=X[-100:])
    >>> found.values.shape
    (20, 10)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:20])))
    True
    """
    n_jobs = valid_jobs(n_jobs)
    steps, machine = split_pipeline(model)
    trained = model_of(machine)
    kernel = trained.spec.kernel
    if kernel not in ("rbf", "linear"):
        raise ValueError(
            f"kernel={kernel!r} has no Shapley values in closed form: it is neither a product over "
            'features, as "rbf" is, nor a sum over them, as "linear" is.'
        )
    name = trained.spec.device if device is None else device
    kind = kind_of(name)
    if interactions and kind != "cpu" and kernel == "rbf":
        raise ValueError(f'interactions=True needs device="cpu", and got device={name!r}.')
    rows = _valid(steps, machine, X, "X")
    players = players_of(steps, machine, X, groups)
    others = _background(background, X)
    other_rows = _valid(steps, machine, others, "background")
    coefs, output_names = _outputs(trained)
    progress = Progress(machine, None)

    def done(share: float) -> None:
        progress.say_now_and_then(f"Shapley values: {share:.0%}")

    with compiling_announced(machine):
        base = _base_values(trained, other_rows, n_jobs)
        if kernel == "linear":
            values = _of_weights(trained.vectors, coefs, rows, other_rows, players)
            indices = np.zeros((values.shape[0], values.shape[1], *values.shape[1:]))
        else:
            game = Game(
                trained.vectors, coefs, float(trained.spec.gamma), players.columns, players.ends
            )

            def products(pairs: bool) -> NDArray[np.float64]:
                if not len(coefs):  # a model without support vectors is a constant
                    shape = (rows.shape[0], *(1 + pairs) * (game.n_players,), coefs.shape[1])
                    return np.zeros(shape)
                if kind == "cpu":
                    with one_blas_thread(), Threads(n_jobs) as run:
                        return shapley_products(game, rows, other_rows, pairs, run, done)
                there = devices.cuda_device(devices.number_of(name))
                return products_on_device(
                    there, game, rules_for(game.n_players), rows, other_rows, done
                )

            values = products(False)
            indices = products(True) if interactions else values
    if interactions:
        values = _with_main_effects(values, indices)
    return ShapleyValues(
        values[..., 0] if output_names is None else values,
        float(base[0]) if output_names is None else base,
        _data(X, players),
        players.names,
        output_names,
        others,
        interactions,
    )


def _background(background: Any, X: Any) -> Any:
    """The background rows, as they were given, or drawn from X."""
    if not isinstance(background, Integral) or isinstance(background, bool):
        if np.ndim(background) == 0 and not sp.issparse(background):
            raise ValueError(f"background={background!r}: rows like X, or their number, is needed.")
        return background
    n_rows, size = np.shape(X)[0], int(background)
    if not 1 <= size <= n_rows:
        raise ValueError(
            f"background={size} draws this many rows of X, which has {n_rows}: pass training "
            "rows as background, or a smaller number."
        )
    chosen = np.random.default_rng(_SEED).choice(n_rows, size, replace=False)
    rows = sp.csr_array(X) if sp.issparse(X) else X
    return safe_indexing(rows, np.sort(chosen))


def _valid(steps: Any, machine: Any, X: Any, name: str) -> Any:
    """Rows as the machine sees them."""
    if np.shape(X)[:1] == (0,):
        raise ValueError(f"{name} has no rows: at least one is needed.")
    try:
        transformed = X if steps is None else steps.transform(X)
        return validated_rows(machine, from_gpu(machine, transformed)[0], reset=False)
    except ValueError as error:
        if name == "X":
            raise
        raise ValueError(f"{name}: {error}") from error


def _outputs(trained: Any) -> tuple[NDArray[np.float64], list[str] | None]:
    """Coefficients of the vectors in each output, and names where there are several."""
    n_vectors = len(trained.support)
    machines = list(trained.at_vectors())
    if not isinstance(trained, PairwiseModel) or len(trained.classes) == 2:
        sign = -1.0 if isinstance(trained, PairwiseModel) else 1.0  # positive is the second class
        coefs = np.zeros((n_vectors, 1))
        coefs[machines[0].rows, 0] = sign * machines[0].coefs
        return coefs, None
    coefs = np.zeros((n_vectors, len(machines)))
    for number, one in enumerate(machines):
        coefs[one.rows, number] = one.coefs
    names = [str(one) for one in trained.classes]
    if trained.shape == "ovr":
        return coefs @ _signs(len(names)), names
    first, second = pair_classes(len(names))
    return coefs, [f"{names[i]} or {names[j]}" for i, j in zip(first, second, strict=True)]


def _signs(n_classes: int) -> NDArray[np.float64]:
    """What each pair's decision value counts for each class, (n_pairs, n_classes)."""
    first, second = pair_classes(n_classes)
    signs = np.zeros((len(first), n_classes))
    signs[np.arange(len(first)), first] = 1.0
    signs[np.arange(len(first)), second] = -1.0
    return signs


def _base_values(trained: Any, background: Any, n_jobs: int | None) -> NDArray[np.float64]:
    """The mean of each output over the background."""
    several = isinstance(trained, PairwiseModel) and len(trained.classes) > 2
    if not several:
        return np.atleast_1d(trained.decision_function(background, n_jobs).mean())
    pairs = trained.pair_values(background, n_jobs).mean(axis=0)
    return pairs @ _signs(len(trained.classes)) if trained.shape == "ovr" else pairs


def _of_weights(
    vectors: Any, coefs: NDArray[np.float64], X: Any, background: Any, players: Players
) -> NDArray[np.float64]:
    """Values with the linear kernel: ``w_j (x_j - mean b_j)``, added up over each player."""
    weights = np.asarray((vectors.T @ coefs), dtype=np.float64)
    mean = np.asarray(background.mean(axis=0), dtype=np.float64).ravel()
    begins = np.r_[0, players.ends[:-1]]
    columns = [players.columns[a:b] for a, b in zip(begins, players.ends, strict=True)]
    rows = X.tocsc() if sp.issparse(X) else X
    return np.stack(
        [rows[:, own] @ weights[own] - mean[own] @ weights[own] for own in columns], axis=1
    )


def _with_main_effects(
    values: NDArray[np.float64], indices: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Half of each interaction index; on the diagonal, what is left of the values."""
    found = indices / 2.0
    every = np.arange(values.shape[1])
    found[:, every, every] = values - found.sum(axis=2)
    return found


def _data(X: Any, players: Players) -> NDArray:
    """The rows that are explained, a column for each player."""
    if hasattr(X, "columns"):
        given = [*map(str, X.columns)]
        places = [
            given.index(name) if name in given else own
            for own, name in enumerate(players.raw_names)
        ]
        columns = [
            np.asarray(X.iloc[:, places[own[0]]]) if len(own) == 1 else None for own in players.raw
        ]
    else:
        rows = X.tocsc() if sp.issparse(X) else np.asarray(X)
        columns = [_column(rows, own[0]) if len(own) == 1 else None for own in players.raw]
    missing = np.full(np.shape(X)[0], np.nan)
    filled = [missing if one is None else one for one in columns]
    whole = all(one.dtype.kind in "biuf" for one in filled)
    return np.stack([one.astype(np.float64 if whole else object) for one in filled], axis=1)


def _column(rows: Any, number: int) -> NDArray:
    one = rows[:, [number]]
    return (one.toarray() if sp.issparse(one) else one)[:, 0]
