"""Models in files of their own: written whole, read without running anything they say."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from aesvm import __version__
from aesvm.io.container import BadFileError, read_container, write_container
from aesvm.io.values import ESTIMATORS, Decoder, Encoder


def save(estimator: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator to a file, from which :func:`aesvm.load` reads it.

    The file has parameters and fitted attributes, as JSON and arrays, and checksums of all; it is
    replaced as a whole. Models of a stream have what it takes to go on with it.

    Parameters
    ----------
    estimator : object
        Any estimator of this package, or a ``Pipeline`` of one with ``StandardScaler``,
        ``MinMaxScaler``, ``MaxAbsScaler`` or ``RobustScaler``. One with a callable for its kernel
        cannot be written.
    path : str or path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import make_moons
    >>> import aesvm
    >>> X, y = make_moons(500, noise=0.1, random_state=0)
    >>> model = aesvm.AESVC(gamma=1.0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder, "moons.aesvm"))
    ...     loaded = aesvm.load(Path(folder, "moons.aesvm"))
    >>> bool((loaded.decision_function(X) == model.decision_function(X)).all())
    True
    """
    if hasattr(estimator, "best_estimator_"):
        raise ValueError(
            f"{type(estimator).__name__} is a search, and no model: save its best_estimator_."
        )
    if not _is_ours(estimator):
        raise ValueError(
            f"estimator={estimator!r:.80} is no estimator of aesvm, nor a pipeline of one: these "
            "can be saved."
        )
    check_is_fitted(estimator)
    encoder = Encoder()
    model = encoder.encode(estimator, type(estimator).__name__)
    versions = {"aesvm": __version__, "scikit-learn": sklearn.__version__}
    tree = {"model": model, "written_with": versions}
    write_container(path, tree, encoder.arrays)


def load(path: str | os.PathLike, *, mmap_mode: str | None = None) -> Any:
    """Read a fitted estimator from a file that its ``save`` has written.

    Nothing is unpickled: the file can name the estimators of this package, the four scalers and
    ``Pipeline`` that :func:`aesvm.save` writes, and the records listed in ``aesvm/io/values.py``.
    Parameters that the file does not have, as they came later, have their defaults.

    Parameters
    ----------
    path : str or path
        The file.
    mmap_mode : {None, "r"}, default=None
        "r" leaves the arrays in the file, from which processes share them; they are read-only then.

    Returns
    -------
    estimator : object
        It predicts what the one that was saved did, to the last bit.

    Raises
    ------
    ValueError
        Where the file is foreign, truncated, corrupt or of a newer version; it says which.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import aesvm
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.aesvm")
    ...     aesvm.AEOneClassSVM(nu=0.1).fit(X).save(path)
    ...     model = aesvm.load(path)
    >>> model.nu
    0.1
    """
    if mmap_mode not in (None, "r"):
        raise ValueError(f'mmap_mode={mmap_mode!r}: None or "r" is needed.')
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: the name of a file is needed.")
    tree, arrays = read_container(path, mapped=mmap_mode == "r")
    try:
        estimator = Decoder(arrays).decode(tree["model"])
        check_is_fitted(estimator)
        check_model(estimator)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # whatever a header can say that is not so
        raise BadFileError(
            f"{os.fspath(path)}: the file is corrupt, or of another aesvm: what it says does not "
            f"fit together ({error}){_written_with(tree)}."
        ) from error
    return estimator


def _is_ours(estimator: Any) -> bool:
    """Whether this is an estimator of this package, or a pipeline with one."""
    if not isinstance(estimator, BaseEstimator):
        return False
    name = type(estimator).__name__
    if name == "Pipeline":
        return any(_is_ours(step) for _, step in estimator.steps)
    return ESTIMATORS.get(name, "").startswith("aesvm.")


def _written_with(tree: Any) -> str:
    """The versions that a file was written with, where it says so."""
    versions = tree.get("written_with") if isinstance(tree, dict) else None
    if not isinstance(versions, dict):
        return ""
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f" (written with {listed:.80})"


def check_model(estimator: Any) -> None:
    """Refuse fitted attributes that do not fit each other, which predictions would fail of."""
    if hasattr(estimator, "steps"):
        for _, step in estimator.steps:
            check_model(step)
    if not hasattr(estimator, "support_"):
        return
    support, vectors, dual = estimator.support_, estimator.support_vectors_, estimator.dual_coef_
    intercept, n_support = np.asarray(estimator.intercept_), np.asarray(estimator.n_support_)
    n_classes = len(estimator.classes_) if hasattr(estimator, "classes_") else 2
    n_pairs = n_classes * (n_classes - 1) // 2
    matrix = estimator.kernel == "precomputed"
    numbers = [dual.data if sp.issparse(dual) else dual, intercept, float(estimator.gamma_)]
    numbers += [] if matrix else [vectors.data if sp.issparse(vectors) else vectors]
    wanted = {
        "support_": support.ndim == 1 and support.dtype.kind in "iu",
        "support_vectors_": vectors.dtype in (np.float32, np.float64)
        and (matrix or vectors.shape == (len(support), estimator.n_features_in_)),
        "dual_coef_": dual.shape == (n_classes - 1, len(support)) and dual.dtype == np.float64,
        "intercept_": intercept.shape == (n_pairs,) and intercept.dtype == np.float64,
        "n_support_": n_support.dtype.kind in "iu"
        and n_support.shape == (n_classes if hasattr(estimator, "classes_") else 1,)
        and n_support.min() >= 0
        and int(n_support.sum()) == len(support),
        "numbers that are finite": all(np.isfinite(one).all() for one in numbers),
    }
    ties = getattr(estimator, "tie_order_", None)
    if ties is not None:
        wanted["tie_order_"] = np.array_equal(np.sort(ties), np.arange(n_classes))
    if matrix and len(support):
        wanted["support_"] &= 0 <= support.min() <= support.max() < estimator.n_features_in_
    if hasattr(estimator, "_trained_on_"):
        terms = estimator._trained_on_["multipliers"]
        ends, places = terms["ends"], terms["rows"]
        wanted["_trained_on_"] = (
            len(places) == len(terms["coefs"]) == int(ends.max(initial=0))
            and bool((np.diff(ends, prepend=0) >= 0).all())
            and (not len(places) or 0 <= places.min() <= places.max() < estimator.shape_fit_[0])
        )
        str(estimator.certificate_)  # an error where its numbers are not those of a certificate
    for name, is_sound in wanted.items():
        if not is_sound:
            raise ValueError(f"{name} is not what the others say")
