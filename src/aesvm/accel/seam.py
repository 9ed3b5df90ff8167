"""Replacements of ``libsvm`` and ``libsvm_sparse`` in ``sklearn.svm._base``.

That module is private. Its functions are listed here by version and by the names of their
arguments, and others are refused. Each call is noted, for the log and the report.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn

if TYPE_CHECKING:  # they take a second to import, which small programs need not wait for
    from aesvm.accel import Settings
    from aesvm.accel.exact import LibsvmSolution


logger = logging.getLogger("aesvm.accel")

OURS, LIBSVM = "aesvm", "LIBSVM"

#: Reasons for LIBSVM that cost nothing: ``strict`` accepts them.
SMALL = "small: LIBSVM takes no longer"
GIVEN = "the kernel matrix is given: LIBSVM is as fast"
HARMLESS = (SMALL, GIVEN)


class NotAcceleratedError(RuntimeError):
    """Raised with ``strict=True`` for a call that would go to LIBSVM.

    Examples
    --------
    >>> import aesvm.accel
    >>> issubclass(aesvm.accel.NotAcceleratedError, RuntimeError)
    True
    """


class Call(NamedTuple):
    """Calls of one kind: what was called, whether aesvm or LIBSVM computed it, and why LIBSVM."""

    what: str  #: such as "SVC fit"
    where: str  #: "aesvm" or "LIBSVM"
    reason: str  #: "" where aesvm computed it


@dataclass(frozen=True)
class Report:
    """What ran where since ``install``.

    Attributes
    ----------
    counts : dict
        The number of calls of each kind.
    seconds : dict
        Their seconds.
    text : str
        A table of both.

    Examples
    --------
    >>> import aesvm.accel
    >>> aesvm.accel.Report({}, {}).text
    'Nothing of sklearn.svm has run since install().'
    """

    counts: dict[Call, int] = field(repr=False)
    seconds: dict[Call, float] = field(repr=False)

    @property
    def text(self) -> str:
        if not self.counts:
            return "Nothing of sklearn.svm has run since install()."
        head = ("call", "by", "calls", "seconds", "reason")
        order = sorted(self.counts, key=lambda call: -self.seconds[call])
        lines = [
            (*call[:2], f"{self.counts[call]:,}", f"{self.seconds[call]:.3f}") for call in order
        ]
        widths = [max(map(len, column)) for column in zip(head[:4], *lines, strict=True)]
        reasons = (head[4], *(call.reason for call in order))
        return "\n".join(
            "  ".join([*map(str.ljust, line[:2], widths), *map(str.rjust, line[2:], widths[2:])])
            + f"  {reason}".rstrip()
            for line, reason in zip((head[:4], *lines), reasons, strict=True)
        )


class _Calls:
    """The calls since ``install``, in this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()  # a new one: a fork may have copied a lock that is held
        self.counts: Counter[Call] = Counter()
        self.seconds: defaultdict[Call, float] = defaultdict(float)

    def note(self, call: Call, seconds: float, size: str) -> None:
        with self.lock:
            self.counts[call] += 1
            self.seconds[call] += seconds
        because = f" ({call.reason})" if call.reason else ""
        logger.info("%s of %s by %s: %.3f s%s", call.what, size, call.where, seconds, because)

    def so_far(self) -> Report:
        with self.lock:
            return Report(dict(self.counts), dict(self.seconds))


calls = _Calls()


def report() -> Report:
    """Print what ran where since ``install``, with seconds and reasons.

    Each process has its own report; this is the one of the current process.

    Returns
    -------
    report : Report
        ``report.text`` is what was printed.

    Examples
    --------
    >>> import aesvm.accel
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> with aesvm.accel.install():
    ...     model = SVC().fit(*load_iris(return_X_y=True))
    >>> len(aesvm.accel.report().counts)  # doctest: +ELLIPSIS
    call     by      calls  seconds  reason
    SVC fit  LIBSVM      1    ...  small: LIBSVM takes no longer
    1
    """
    found = calls.so_far()
    print(found.text)
    return found


#: Versions of scikit-learn whose functions these are.
KNOWN = ("1.6", "1.7", "1.8", "1.9")

_KERNEL = ("svm_type", "kernel", "degree", "gamma", "coef0")
_SPARSE_KERNEL = ("svm_type", "kernel_type", "degree", "gamma", "coef0")
_PREDICTION = (
    *("X", "support", "SV", "nSV", "sv_coef", "intercept", "probA", "probB", *_KERNEL),
    *("class_weight", "sample_weight", "cache_size"),
)
_SPARSE_PREDICTION = (
    *("T_data", "T_indices", "T_indptr", "SV_data", "SV_indices", "SV_indptr"),
    *("sv_coef", "intercept", *_SPARSE_KERNEL, "eps", "C", "class_weight", "nu", "p"),
    *("shrinking", "probability", "nSV", "probA", "probB"),
)

#: The arguments of the functions, by module.
SIGNATURES: dict[str, dict[str, tuple[str, ...]]] = {
    "libsvm": {
        "fit": (
            *("X", "Y", *_KERNEL, "tol", "C", "nu", "epsilon", "class_weight", "sample_weight"),
            *("shrinking", "probability", "cache_size", "max_iter", "random_seed"),
        ),
        "predict": _PREDICTION,
        "decision_function": _PREDICTION,
        "predict_proba": _PREDICTION,
    },
    "libsvm_sparse": {
        "libsvm_sparse_train": (
            *("n_features", "values", "indices", "indptr", "Y", *_SPARSE_KERNEL, "eps", "C"),
            *("class_weight", "sample_weight", "nu", "cache_size", "p", "shrinking"),
            *("probability", "max_iter", "random_seed"),
        ),
        "libsvm_sparse_predict": _SPARSE_PREDICTION,
        "libsvm_sparse_decision_function": _SPARSE_PREDICTION,
        "libsvm_sparse_predict_proba": _SPARSE_PREDICTION,
    },
}

#: The rows of a sparse fit; and arguments of sparse functions that dense ones call otherwise.
_ROWS = ("values", "indices", "indptr")
_DENSE_NAMES = {"eps": "tol", "p": "epsilon"}

_NAMES = ("SVC", "NuSVC", "OneClassSVM", "SVR", "NuSVR")
_SPARSE_KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")

#: Work below which LIBSVM takes no longer: of a fit, squared rows times features; of a prediction,
#: rows times support vectors times features. Measured with 4 to 100 features, on one thread.
SMALL_FIT, SMALL_PREDICTION = 2e7, 1e5


def base() -> Any:
    """The module of scikit-learn that calls LIBSVM."""
    return import_module("sklearn.svm._base")


def check() -> None:
    """Refuse a scikit-learn whose functions are not known."""
    version = ".".join(sklearn.__version__.split(".")[:2])
    known = f"aesvm.accel knows scikit-learn {', '.join(KNOWN)}"
    if version not in KNOWN:
        raise RuntimeError(f"scikit-learn {sklearn.__version__} is unknown: {known}.")
    module = base()
    for name, functions in SIGNATURES.items():
        for function, arguments in functions.items():
            found = getattr(getattr(module, name, None), function, None)
            if found is None or tuple(inspect.signature(found).parameters) != arguments:
                raise RuntimeError(
                    f"sklearn.svm._base.{name}.{function} of scikit-learn {sklearn.__version__} is "
                    f"not the function that was expected: {known}, as they were released."
                )


class StandIn:
    """A module's functions with some of them replaced; the others are the module's."""

    def __init__(
        self, name: str, module: ModuleType, settings: Settings, running: Callable
    ) -> None:
        self._signatures = SIGNATURES[name]
        self._module = module
        self._settings = settings
        self._running = running  #: a context that notes a call while it runs

    def __getattr__(self, name: str) -> Any:
        theirs = getattr(self._module, name)
        return partial(self._call, name) if name in self._signatures else theirs

    def _call(self, name: str, *args: Any, **keywords: Any) -> Any:
        """Call ours, or LIBSVM where it declines."""
        given = {**dict(zip(self._signatures[name], args, strict=False)), **keywords}
        kind = name.removeprefix("libsvm_sparse_").replace("train", "fit")
        what = f"{_NAMES[given['svm_type']]} {kind}"
        started = time.perf_counter()
        with self._running(what):
            where, reason, found = OURS, "", None
            try:
                if self._settings.forked_device:
                    raise Declined(f"forked after install(device={self._settings.device!r})")
                found = self._ours(kind, given)
            except Declined as error:
                where, reason = LIBSVM, str(error)
            if where == LIBSVM:
                if self._settings.strict and reason not in HARMLESS:
                    raise NotAcceleratedError(
                        f"strict=True, and {what} would go to LIBSVM: {reason}."
                    )
                found = getattr(self._module, name)(*args, **keywords)
            calls.note(Call(what, where, reason), time.perf_counter() - started, _size(given))
        return found

    def _ours(self, kind: str, given: dict) -> Any:
        """What LIBSVM's function would return, computed by this package."""
        if kind == "predict_proba":
            raise Declined("predict_proba is LIBSVM's")
        threads, device = self._settings.threads(), self._settings.device
        if kind == "fit":
            _check_fit(given)
            from aesvm.accel.exact import solve

            with _declining():
                found = solve(_as_dense(given), threads, device)
            return _as_fitted(found, given)
        if _kernel(given) == "precomputed":
            raise Declined(GIVEN)
        given = _as_dense(given)
        X, vectors = given["X"], given["SV"]
        # products visit the entries of both; there may be no support vectors
        n_visited = (X.size * vectors.shape[0] + vectors.size * X.shape[0]) / 2
        if n_visited <= SMALL_PREDICTION:
            raise Declined(SMALL)
        from aesvm.accel.exact import predictions

        with _declining():
            return predictions(kind, given, threads, device)


class Declined(Exception):  # noqa: N818
    """Why a call goes to LIBSVM."""


def _as_dense(given: dict) -> dict:
    """The arguments of a sparse function by the names of the dense ones, with whole matrices."""
    if "X" in given:
        return {**given, "SV": np.asarray(given["SV"])} if "SV" in given else given
    found = {_DENSE_NAMES.get(name, name): value for name, value in given.items()}
    found["kernel"] = _kernel(given)
    if "values" in given:
        found["X"] = _csr([given[part] for part in _ROWS], given["n_features"])
        return found
    indices = given["T_indices"], given["SV_indices"]
    n_features = 1 + max(int(part.max(initial=-1)) for part in indices)
    for name, prefix in (("X", "T"), ("SV", "SV")):
        parts = [given[f"{prefix}_{part}"] for part in ("data", "indices", "indptr")]
        found[name] = _csr(parts, n_features)
    n_vectors = found["SV"].shape[0]
    found["sv_coef"] = given["sv_coef"].reshape(-1, n_vectors)
    found["support"] = np.arange(n_vectors, dtype=np.int32)
    return found


def _csr(parts: list, n_features: int) -> sp.csr_array:
    found = sp.csr_array(tuple(parts), shape=(len(parts[2]) - 1, n_features))
    found.has_sorted_indices = True  # scikit-learn sorts them
    return found


def _as_fitted(found: LibsvmSolution, given: dict) -> tuple:
    """A solution as LIBSVM's wrappers return it, the dense or the sparse one."""
    # they count a single machine as two classes, the sparse one without the second
    n_support, one_machine = found.n_support, given["svm_type"] >= 2
    rest = np.empty(0), np.empty(0), 0, found.n_iter
    if "X" in given:
        n_support = np.repeat(n_support, 2) if one_machine else n_support
        return (found.support, found.vectors, n_support, found.dual_coef, found.intercept, *rest)
    n_support = np.r_[n_support, 0].astype(np.int32) if one_machine else n_support
    vectors = found.vectors
    vectors.indices = vectors.indices.astype(np.int32)  # LIBSVM's have 32 bits
    vectors.indptr = vectors.indptr.astype(np.int32)
    vectors = getattr(base(), "_align_api_if_sparse", sp.csr_matrix)(vectors)
    return (found.support, vectors, found.dual_coef.ravel(), found.intercept, n_support, *rest)


def _kernel(given: dict) -> str:
    return given["kernel"] if "kernel" in given else _SPARSE_KERNELS[given["kernel_type"]]


def _check_fit(given: dict) -> None:
    """Decline problems that are not for our solver."""
    kernel, coef0 = _kernel(given), given["coef0"]
    if given["probability"]:
        raise Declined("probability=True: LIBSVM draws its folds")
    if kernel == "precomputed":
        raise Declined(GIVEN)
    if kernel == "sigmoid" or (kernel == "poly" and coef0 < 0):
        of = f"{kernel!r} with coef0={coef0:g}" if kernel == "poly" else repr(kernel)
        raise Declined(f"kernel={of} is not positive semidefinite")
    weights = np.asarray(given["sample_weight"])
    if len(weights) and weights.min() < 0:
        raise Declined("sample_weight has negative values")
    n_values = given["X"].size if "X" in given else len(given["values"])
    if len(given["Y"]) * n_values < SMALL_FIT:
        raise Declined(SMALL)


@contextmanager
def _declining() -> Iterator[None]:
    """Hand calls that our solver refuses to LIBSVM, which may raise its own error."""
    try:
        yield
    except (ValueError, MemoryError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise Declined(first) from error


def _size(given: dict) -> str:
    if "X" in given:
        n_rows, n_features = given["X"].shape
        return f"{n_rows:,} x {n_features:,}"
    return f"{len(given['indptr' if 'indptr' in given else 'T_indptr']) - 1:,} sparse rows"
