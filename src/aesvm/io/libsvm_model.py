r"""LIBSVM's model files: what ``svm-train`` writes and ``svm-predict`` reads.

    svm_type c_svc            or nu_svc, one_class, epsilon_svr, nu_svr
    kernel_type rbf           or linear, polynomial, sigmoid, precomputed; then degree, gamma, coef0
    nr_class 2
    total_sv 3
    rho 0.25                  of every pair of classes: what is taken off the sum
    label 1 -1                of classifiers: in the order of the classes here
    nr_sv 2 1                 the same
    SV
    0.5 1:0.7 3:1             coefficients, of which there are nr_class - 1, then the vector

A decision value is positive for the first class of its pair. Classes come in any order, ours are
sorted: their support vectors, coefficients and signs are put in order. As in LIBSVM, ties of votes
go to the class that the file has first, and a decision value of 0 is a vote for the later class.
A file has neither C nor the other parameters of training, nor the number of features.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import aesvm
from aesvm.io.base import BadLineError, is_whole
from aesvm.io.files import written_whole
from aesvm.io.libsvm import pairs_of
from aesvm.io.model_file import check_model
from aesvm.machines.one_vs_one import as_array, pair_number
from aesvm.runtime.warn import warn


class LibsvmType(NamedTuple):
    """What LIBSVM calls an estimator."""

    name: str  #: in its model files
    title: str  #: for people
    is_classifier: bool = False


#: Of each estimator that LIBSVM has.
LIBSVM_TYPES = {
    "AESVC": LibsvmType("c_svc", "C-SVC", is_classifier=True),
    "AENuSVC": LibsvmType("nu_svc", "nu-SVC", is_classifier=True),
    "AEOneClassSVM": LibsvmType("one_class", "one-class SVM"),
    "AESVR": LibsvmType("epsilon_svr", "epsilon-SVR"),
    "AENuSVR": LibsvmType("nu_svr", "nu-SVR"),
}
_ESTIMATORS = {one.name: estimator for estimator, one in LIBSVM_TYPES.items()}
_CLASSIFIERS = [one.name for one in LIBSVM_TYPES.values() if one.is_classifier]

#: LIBSVM's names of kernels, and which parameters each has.
_KERNELS = {
    "linear": "linear",
    "poly": "polynomial",
    "rbf": "rbf",
    "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}
_KERNEL_PARAMETERS = {
    "poly": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
}

#: Lines about probabilities: decision values are what is read.
_IGNORED = ("probA", "probB", "prob_density_marks")

#: The largest label and index that LIBSVM can hold.
_LARGEST = 2**31 - 1

#: Vectors with fewer values than this fraction that are not zero are kept sparse.
_DENSE_SHARE = 1 / 3


def save_libsvm_model(model: Any, path: str | os.PathLike) -> None:
    """Write a model in LIBSVM's format, which ``svm-predict`` and other programs read.

    Parameters
    ----------
    model : AESVC, AENuSVC, AESVR, AENuSVR, AEOneClassSVM, or one of their Dask twins
        Fitted, with another kernel than a callable; classes must be whole numbers.
    path : str or path
        A file that is there is replaced, as a whole.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm import AESVC
    >>> from aesvm.io import load_libsvm_model, save_libsvm_model
    >>> model = AESVC(kernel="linear").fit([[0.0], [1.0]], [-1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model")
    ...     save_libsvm_model(model, path)
    ...     print(path.read_text().splitlines()[0])
    ...     load_libsvm_model(path).predict([[-3.0], [2.0]])
    svm_type c_svc
    array([-1,  1])
    """
    name = type(model).__name__.removeprefix("Dask")
    if name not in LIBSVM_TYPES:
        raise ValueError(
            f"model={model!r:.80}: LIBSVM has no such model: use one of {', '.join(LIBSVM_TYPES)}."
        )
    check_is_fitted(model)
    if model.kernel not in _KERNELS:
        raise ValueError(
            f"kernel={model.kernel!r}: LIBSVM's files have the kernels {', '.join(_KERNELS)}, and "
            "no callable."
        )
    is_classifier = LIBSVM_TYPES[name].is_classifier
    labels = whole_labels(model.classes_) if is_classifier else []
    sign = -1.0 if len(labels) == 2 else 1.0  # as scikit-learn has it: see one_vs_one
    lines = [f"svm_type {LIBSVM_TYPES[name].name}", f"kernel_type {_KERNELS[model.kernel]}"]
    values = {"degree": model.degree, "gamma": model.gamma_, "coef0": model.coef0}
    for parameter in _KERNEL_PARAMETERS.get(model.kernel, ()):
        lines.append(f"{parameter} {_digits(values[parameter])}")
    lines += [f"nr_class {max(len(labels), 2)}", f"total_sv {len(model.support_)}"]
    dual = np.ascontiguousarray(as_array(model.dual_coef_).T)
    every = np.arange(len(dual))
    machines = _Machines(every, model.n_support_, sign * dual, -sign * model.intercept_)
    if is_classifier and model.tie_order_ is not None:  # as in the file it was read from
        labels = [labels[c] for c in model.tie_order_]
        machines = machines.with_classes(model.tie_order_)
    lines.append(" ".join(["rho", *map(_digits, machines.rho)]))
    if is_classifier:
        lines.append(" ".join(["label", *map(str, labels)]))
        lines.append(" ".join(["nr_sv", *map(str, machines.n_support)]))
    lines.append("SV")
    vectors = _vector_texts(model, machines.order)
    with written_whole(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
        for coefs, vector in zip(machines.coefs.tolist(), vectors, strict=True):
            file.write(f"{' '.join(map(_digits, coefs))} {vector}\n".encode())


def load_libsvm_model(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """Read a model file in LIBSVM's format.

    Parameters
    ----------
    path : str or path
        The file. Lines about probabilities are ignored, with a warning.
    n_features : int, default=None
        Columns of the rows to predict, with ``kernel="precomputed"`` the rows of training. None:
        the largest index of a support vector, for the file does not say.

    Returns
    -------
    model : AESVC, AENuSVC, AESVR, AENuSVR or AEOneClassSVM
        Fitted. ``C``, ``nu`` and ``epsilon`` are not in the file, and have their defaults; there is
        no ``certificate_``; ``support_`` counts the vectors, for their rows are not known.

    Raises
    ------
    BadLineError
        A ValueError: where the file is not what LIBSVM writes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm import AESVR
    >>> from aesvm.io import load_libsvm_model, save_libsvm_model
    >>> model = AESVR(kernel="linear", C=10.0).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_libsvm_model(model, Path(folder) / "line.model")
    ...     read = load_libsvm_model(Path(folder) / "line.model")
    >>> bool(abs(read.predict([[0.5]]) - model.predict([[0.5]])) < 1e-12)
    True
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: the name of a file is needed.")
    with open(path, encoding="ascii", errors="replace", newline="\n") as file:
        reading = _Reading(path, file)
        header = reading.header()
        coefs, vectors = reading.vectors(header)
    return _estimator(header, coefs, vectors, n_features)


def whole_labels(classes: NDArray) -> list[int]:
    """Labels as LIBSVM has them; others are a ValueError."""
    numbers = classes.tolist()
    for label in numbers:
        whole = isinstance(label, int | float) and float(label).is_integer()
        if not (whole and abs(label) <= _LARGEST):
            raise ValueError(
                f"classes_ has {label!r}, and LIBSVM's labels are whole numbers of 32 bits: train "
                "with such, as LabelEncoder makes them."
            )
    return list(map(int, numbers))


def _vector_texts(model: Any, order: NDArray[np.intp]) -> Iterator[str]:
    """The support vectors as LIBSVM writes them, one after the other."""
    if model.kernel == "precomputed":
        yield from (f"0:{row + 1}" for row in model.support_[order].tolist())
        return
    vectors = sp.csr_array(model.support_vectors_)[order].astype(np.float64)
    if vectors.indices.max(initial=0) >= _LARGEST:
        raise ValueError(
            f"support_vectors_ has feature {int(vectors.indices.max()) + 1}, and the largest index "
            f"that LIBSVM can hold is {_LARGEST}."
        )
    yield from map(str.rstrip, pairs_of(vectors))


def _digits(value: float) -> str:
    """As many digits as it takes to read the same number."""
    return f"{value:.17g}"


class _Reading:
    """A file that is being read, with the number of the line."""

    def __init__(self, path: Any, lines: Any) -> None:
        self.path, self.lines, self.line = path, lines, 0

    def fail(self, reason: str) -> NoReturn:
        raise BadLineError(self.path, self.line, reason)

    def header(self) -> dict[str, Any]:
        """What comes before the support vectors."""
        found: dict[str, Any] = {}
        for text in self.lines:
            self.line += 1
            key, *words = text.split() or [""]
            if self.line == 1 and key != "svm_type":
                self.fail("a model file of LIBSVM begins with svm_type: this is a foreign file")
            if not text.endswith("\n"):
                self.fail("the file is truncated")
            if key == "SV" and not words:
                return self.checked(found)
            if key in found:
                self.fail(f"{key} occurs twice")
            found[key] = self.content(key, words)
        self.line = max(self.line, 1)
        self.fail("the file is truncated, there is no line SV" if found else "the file is empty")

    def content(self, key: str, words: list[str]) -> Any:
        if key in _IGNORED:
            return None
        if key in ("svm_type", "kernel_type"):
            known = _ESTIMATORS if key == "svm_type" else {b: a for a, b in _KERNELS.items()}
            if len(words) != 1 or words[0] not in known:
                self.fail(f"{key} {' '.join(words)[:80]} is none of {', '.join(known)}")
            return words[0] if key == "svm_type" else known[words[0]]
        if key in ("nr_class", "total_sv", "degree"):
            (number,) = self.wholes(words[:1] if len(words) == 1 else ["none"], least=0)
            return number
        if key in ("label", "nr_sv"):
            return self.wholes(words, least=-_LARGEST if key == "label" else 0)
        if key in ("gamma", "coef0", "rho"):
            numbers = [self.number(word) for word in words]
            if key != "rho" and len(numbers) != 1:
                self.fail(f"{key} is one number")
            if key == "gamma" and not numbers[0] >= 0:
                self.fail(f"gamma {numbers[0]:g} is negative")
            return numbers if key == "rho" else numbers[0]
        self.fail(f"{key[:40]!r} is not a keyword of LIBSVM's model files")

    def checked(self, found: dict[str, Any]) -> dict[str, Any]:
        """Refuse a header that lacks something, or whose lists are not as long as it says."""
        ignored = [key for key in _IGNORED if key in found]
        if ignored:
            warn(f"{os.fspath(self.path)}: {' and '.join(ignored)}, of probabilities, is ignored.")
        kernel = found.get("kernel_type", "")
        is_classifier = found.get("svm_type") in _CLASSIFIERS
        wanted = ["svm_type", "kernel_type", "nr_class", "total_sv", "rho"]
        wanted += _KERNEL_PARAMETERS.get(kernel, ())
        wanted += ["label", "nr_sv"] if is_classifier else []
        missing = [key for key in wanted if key not in found]
        if missing:
            self.fail(f"the header has no {', '.join(missing)}")
        n_classes = found["nr_class"]
        lengths = {"rho": n_classes * (n_classes - 1) // 2}
        if is_classifier:
            lengths |= {"label": n_classes, "nr_sv": n_classes}
        for key, length in lengths.items():
            if len(found[key]) != length:
                self.fail(
                    f"{key} has {len(found[key])} numbers, and nr_class {n_classes} wants {length}"
                )
        if n_classes < 2 or (n_classes > 2 and not is_classifier):
            self.fail(f"nr_class {n_classes} is impossible with svm_type {found['svm_type']}")
        if is_classifier and len(set(found["label"])) < n_classes:
            self.fail("label has a class twice")
        if is_classifier and sum(found["nr_sv"]) != found["total_sv"]:
            self.fail(
                f"nr_sv adds up to {sum(found['nr_sv'])}, and total_sv is {found['total_sv']}"
            )
        return found

    def vectors(self, header: dict[str, Any]) -> tuple[NDArray, sp.csr_array]:
        """Coefficients, and the vectors; with a precomputed kernel the numbers of their rows."""
        n_coefs = header["nr_class"] - 1
        precomputed = header["kernel_type"] == "precomputed"
        coefs: list[list[float]] = []
        ends, indices, values = [0], [], []
        for text in self.lines:
            self.line += 1
            if not text.endswith("\n"):
                self.fail("the file is truncated")
            words = text.split()
            if len(words) < n_coefs + precomputed or len(coefs) == header["total_sv"]:
                self.fail(f"{n_coefs} coefficients and a vector are wanted, total_sv times")
            coefs.append([self.number(word) for word in words[:n_coefs]])
            last = -1 if precomputed else 0
            for word in words[n_coefs:]:
                index, colon, value = word.partition(":")
                if not colon:
                    self.fail(f"{word[:40]!r} is no index:value")
                (place,) = self.wholes([index], least=last + 1)
                indices.append(place - 1)
                values.append(self.number(value))
                last = place
            ends.append(len(indices))
            is_one = ends[-1] - ends[-2] == 1 and last == 0
            if precomputed and not (
                is_one and values[-1].is_integer() and 1 <= values[-1] <= _LARGEST
            ):
                self.fail("with a precomputed kernel, a vector is 0:number of its row")
        n_wanted = header["total_sv"]
        if len(coefs) != n_wanted:
            self.fail(f"the file is truncated: it has {len(coefs)} of {n_wanted} support vectors")
        table = np.array(coefs, dtype=np.float64).reshape(len(coefs), n_coefs)
        columns = np.array(indices, dtype=np.int64) + precomputed
        shape = len(coefs), int(columns.max(initial=-1)) + 1
        return table, sp.csr_array((np.array(values), columns, np.array(ends)), shape=shape)

    def wholes(self, words: list[str], least: int) -> list[int]:
        """Whole numbers that LIBSVM can hold."""
        for word in words:
            digits = word.removeprefix("-")
            if not (digits.isdigit() and len(digits) <= 10 and least <= int(word) <= _LARGEST):
                self.fail(f"{word[:40]!r} is no whole number from {least} to {_LARGEST}")
        return list(map(int, words))

    def number(self, word: str) -> float:
        try:
            value = float(word) if "_" not in word else np.nan
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            self.fail(f"{word[:40]!r} is no finite number")
        return value


def _estimator(
    header: dict[str, Any], coefs: NDArray, read: sp.csr_array, n_features: int | None
) -> Any:
    """A fitted estimator of what a file has."""
    kernel = header["kernel_type"]
    precomputed = kernel == "precomputed"
    places = read.data.astype(np.int64) - 1 if precomputed else read.indices
    width = _width(places, n_features)
    n_vectors = len(coefs)
    labels = np.array(header.get("label", []), dtype=np.int64)
    n_support = np.array(header.get("nr_sv", [n_vectors]), dtype=np.int32)
    machines = _Machines(np.arange(n_vectors), n_support, coefs, np.array(header["rho"]))
    if len(labels):
        machines = machines.with_classes(np.argsort(labels))
    order = machines.order
    sign = -1.0 if len(labels) == 2 else 1.0  # as scikit-learn has it: see one_vs_one
    vectors: Any = np.empty((0, 0))
    if not precomputed:
        read.resize((n_vectors, width))
        vectors = read[order]
        if vectors.nnz >= _DENSE_SHARE * n_vectors * width:
            vectors = vectors.toarray()
    given = {key: header[key] for key in _KERNEL_PARAMETERS.get(kernel, ())}
    if given.get("gamma") == 0.0:  # which gamma_ is then, and no parameter of ours can be
        del given["gamma"]
    estimator = getattr(aesvm, _ESTIMATORS[header["svm_type"]])(kernel=kernel, **given)
    n_machines = len(machines.rho)
    dual = sign * np.ascontiguousarray(machines.coefs.T)
    attributes = {
        "support_": places[order].astype(np.int32)
        if precomputed
        else np.arange(n_vectors, dtype=np.int32),
        "support_vectors_": vectors,
        "n_support_": machines.n_support,
        "dual_coef_": sp.csr_array(dual) if sp.issparse(vectors) else dual,
        "intercept_": -sign * machines.rho,
        "n_iter_": 0,
        "dual_objective_": np.full(n_machines, np.nan),
        "kkt_violation_": np.full(n_machines, np.nan),
        "fit_status_": 0,
        "gamma_": header.get("gamma", 1.0),
        "shape_fit_": (width if precomputed else n_vectors, width),
        "n_features_in_": width,
        "_stream_": None,
    }
    if len(labels):
        attributes |= {
            "classes_": np.sort(labels),
            "class_weight_": np.ones(len(labels)),
            "n_iter_": np.zeros(n_machines, dtype=np.int32),
            "tie_order_": np.argsort(np.argsort(labels)),
        }
    vars(estimator).update(attributes)
    check_model(estimator)
    return estimator


def _width(places: NDArray, n_features: int | None) -> int:
    """The number of features, or of the rows that a kernel matrix is of."""
    least = int(places.max(initial=0)) + 1
    if n_features is None:
        return least
    if not is_whole(n_features) or n_features < least:
        raise ValueError(
            f"n_features={n_features!r}: a whole number of at least {least} is needed, the largest "
            "index of a support vector."
        )
    return int(n_features)


class _Machines(NamedTuple):
    """The machines of a model, in LIBSVM's layout and with its signs."""

    order: NDArray[np.intp]  #: of the support vectors
    n_support: NDArray[np.int32]
    coefs: NDArray[np.float64]  #: a line for each support vector
    rho: NDArray[np.float64]

    def with_classes(self, order: NDArray[np.intp]) -> _Machines:
        """The same with the classes in another order, and their support vectors with them."""
        n_classes = len(order)
        members = np.split(np.arange(len(self.coefs)), np.cumsum(self.n_support)[:-1])
        coefs, rho = np.empty_like(self.coefs), np.empty_like(self.rho)
        for number, (i, j) in enumerate(combinations(range(n_classes), 2)):
            one, other = order[i], order[j]
            first, second = min(one, other), max(one, other)
            sign = 1.0 if one < other else -1.0
            line = {first: second - 1, second: first}
            coefs[members[one], j - 1] = sign * self.coefs[members[one], line[one]]
            coefs[members[other], i] = sign * self.coefs[members[other], line[other]]
            rho[number] = sign * self.rho[pair_number(first, second, n_classes)]
        moved = np.concatenate([members[c] for c in order])
        return _Machines(self.order[moved], self.n_support[order], coefs[moved], rho)
