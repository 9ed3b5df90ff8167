"""Does a change of the core change results? Small fits before it and after it, side by side.

``python -m benchmarks.unchanged save before.npz`` makes the fits of ``FITS`` and keeps the decision
values of each, the objectives of its certificate and the number of its support vectors.
``python -m benchmarks.unchanged compare before.npz after.npz`` prints where two such files differ,
and ends with exit code 1 where one of the fits does by more than ``--tol``.

A fit is a function of no arguments that makes its own rows, from a fixed seed. What it computes
depends on the processor, and on the versions of NumPy, SciPy, Numba and scikit-learn: both files
must come from one machine and one environment. ``PYTHONPATH=other/src`` makes the fits with the
code of another folder; ``save`` says where it found it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_blobs, make_classification, make_moons

import aesvm
from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM

#: Rows of whose decision values all are kept.
_SHOWN = 400

#: How a file says where the code was.
_SOURCE = "source"


class Outcome(NamedTuple):
    """What is kept of a fit; NaN where the certificate lacks a number."""

    values: NDArray[np.float64]  #: decision values, or predictions of a regression
    objective: float
    dual_objective: float
    n_support: int


class UnavailableError(Exception):
    """A fit cannot be made here: says why."""


# Rows


@cache
def moons(n_rows: int = 600) -> tuple[NDArray, NDArray]:
    return make_moons(n_rows, noise=0.3, random_state=0)


@cache
def blobs(n_classes: int, n_rows: int) -> tuple[NDArray, NDArray]:
    """Classes that overlap."""
    return make_blobs(n_rows, 4, centers=n_classes, cluster_std=2.5, random_state=0)


@cache
def wide(n_rows: int = 500) -> tuple[NDArray, NDArray]:
    """Ten features, and a twentieth of the labels wrong."""
    return make_classification(n_rows, 10, n_informative=5, flip_y=0.05, random_state=0)


@cache
def lopsided() -> tuple[NDArray, NDArray]:
    """A large class and a small one."""
    return make_classification(500, 10, weights=[0.8], flip_y=0.05, random_state=0)


@cache
def thin() -> tuple[sp.csr_array, NDArray]:
    """Sparse rows of three classes."""
    X, y = make_classification(500, 30, n_informative=8, n_classes=3, random_state=0)
    return sp.csr_array(np.where(np.abs(X) < 0.8, 0.0, X)), y


@cache
def curve(n_rows: int = 600) -> tuple[NDArray, NDArray]:
    """Rows with a target that is a noisy function of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n_rows, 2))
    return X, np.sinc(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n_rows)


@cache
def noise(n_classes: int, n_rows: int) -> tuple[NDArray, NDArray]:
    """Classes that nothing is known of: nearly all rows are support vectors."""
    rng = np.random.default_rng(0)
    return rng.uniform(-1.0, 1.0, (n_rows, 2)), rng.integers(n_classes, size=n_rows)


def weights(n_rows: int) -> NDArray[np.float64]:
    """A few of them are zero."""
    rng = np.random.default_rng(1)
    return rng.uniform(0.1, 3.0, n_rows) * (rng.random(n_rows) < 0.9)


def chunks(X: Any, y: Any, size: int, of_weights: Any = None) -> list[tuple[Any, Any, Any]]:
    parts = [slice(at, at + size) for at in range(0, X.shape[0], size)]
    return [(X[part], y[part], None if of_weights is None else of_weights[part]) for part in parts]


def laplacian(X: NDArray, Y: NDArray) -> NDArray:
    """A kernel of the caller's own."""
    return np.exp(-np.abs(X[:, None, :] - Y[None, :, :]).sum(axis=2))


# Fits


def outcome(model: Any, X: Any) -> Outcome:
    """What is kept of a fitted model, with its values at the first rows of X."""
    shown = X[:_SHOWN]
    decide = getattr(model, "decision_function", model.predict)
    certificate = model.certificate_

    def number(name: str) -> float:
        value = getattr(certificate, name)
        return np.nan if value is None else float(value)

    return Outcome(
        np.asarray(decide(shown), dtype=np.float64),
        number("objective"),
        number("dual_objective"),
        int(np.sum(model.n_support_)),
    )


def fitted(model: Any, rows: tuple[Any, Any], sample_weight: Any = None) -> Outcome:
    """A fit of rows in memory; of classes, every pair's values are kept."""
    X, y = rows
    if "decision_function_shape" in model.get_params():
        model.set_params(decision_function_shape="ovo")
    return outcome(model.fit(X, y, sample_weight), X)


def certified(model: Any, rows: tuple[Any, Any]) -> Outcome:
    """A fit, and a look at all rows after it."""
    X, y = rows
    model.fit(X, y).certify(X, y)
    return outcome(model, X)


def precomputed() -> Outcome:
    X, y = moons(400)
    gram = np.exp(-((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    return fitted(AESVC(kernel="precomputed"), (gram, y))


def single(model: Any, rows: tuple[NDArray, NDArray]) -> Outcome:
    """A fit of rows in single precision."""
    X, y = rows
    return fitted(model, (X.astype(np.float32), y))


def streamed(model: Any, rows: tuple[Any, Any], size: int, of_weights: Any = None) -> Outcome:
    X, y = rows
    return outcome(model.fit_stream(chunks(X, y, size, of_weights)), X)


def taken_in(model: Any, rows: tuple[Any, Any], size: int) -> Outcome:
    """The rows of a stream by ``partial_fit``."""
    X, y = rows
    for some, targets, _ in chunks(X, y, size):
        model.partial_fit(some, targets, classes=np.unique(y))
    return outcome(model.partial_fit(), X)


def compressed(model: Any, rows: tuple[Any, Any], **how: Any) -> Outcome:
    """A model on fewer vectors, and its certificate."""
    X, y = rows
    small = model.fit(X, y).compress(X=X, **how)
    small.certify(X, y)
    return outcome(small, X)


def on_cluster(name: str, rows: tuple[NDArray, NDArray], size: int, **parameters: Any) -> Outcome:
    """A fit of rows on a cluster of two threads of this process."""
    try:
        import dask.array as da
        from distributed import Client, LocalCluster

        estimator = getattr(import_module("aesvm.dask"), name)
    except ImportError as error:
        raise UnavailableError(f"Dask is missing ({error})") from error
    X, y = rows
    cluster = LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        lazy = [da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)]
        return outcome(estimator(client=client, **parameters).fit(*lazy), X)


def of_tests(name: str) -> Any:
    """A module of tests/gpu."""
    with mock.patch.object(sys, "path", [str(Path(__file__).parents[1]), *sys.path]):
        return import_module(f"tests.gpu.{name}")


def numpy_device(stack: ExitStack, operations: Any) -> Any:
    """A device whose arrays are NumPy's."""
    from aesvm.gpu import devices, hull

    try:
        stand_in = of_tests("stand_in")
    except ImportError:  # of code that has NumPy's in its own drivers
        return devices.Device("cuda:0", np, operations)
    stack.enter_context(mock.patch.object(hull, "_launch", stand_in.launch_on_the_host))
    return stand_in.NumpyDevice(operations=operations)


@contextmanager
def numpy_for_cupy() -> Iterator[None]:
    """``device="cuda"`` computes with NumPy and plain operations, as in tests/gpu/conftest.py."""
    with ExitStack() as stack:
        try:
            from aesvm.gpu import devices, dual

            device = numpy_device(stack, of_tests("plain"))
            stack.enter_context(mock.patch.object(dual, "_SHRINK_PRODUCTS", 0.0))
            stack.enter_context(mock.patch.object(devices, "cuda_device", return_value=device))
        except (ImportError, AttributeError) as error:
            raise UnavailableError(f"NumPy cannot stand in for CuPy ({error})") from error
        yield


@contextmanager
def emulated() -> Iterator[None]:
    """``device="cuda"`` is the device code, built for this processor by tests/gpu/emulator.py."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            emulator = of_tests("emulator")
            if emulator.COMPILER is None:
                raise UnavailableError("there is no C++ compiler to build device code with")
            from aesvm.gpu import cuda, devices, dual

            device = numpy_device(stack, cuda)
            for module, name, value in (
                (cuda, "compiled", emulator.emulate(folder)),
                (cuda, "WORKING_SET", 64),
                (dual, "_SHRINK_PRODUCTS", 0.0),
                (devices, "cuda_device", lambda number: device),
            ):
                stack.enter_context(mock.patch.object(module, name, value))
        except (ImportError, AttributeError) as error:
            raise UnavailableError(f"device code cannot be emulated ({error})") from error
        yield


def on_gpu(
    model: Any, rows: tuple[Any, Any], stands_in: Callable[[], Any] = numpy_for_cupy
) -> Outcome:
    """A fit with something that stands in for a GPU."""
    with stands_in():
        return fitted(model.set_params(device="cuda"), rows)


#: Every fit by name.
FITS: dict[str, Callable[[], Outcome]] = {
    # formulations
    "SVC": lambda: fitted(AESVC(gamma=1.0), moons()),
    "NuSVC": lambda: fitted(AENuSVC(gamma=1.0, nu=0.3), moons()),
    "SVR": lambda: fitted(AESVR(gamma=1.0, C=2.0), curve()),
    "NuSVR": lambda: fitted(AENuSVR(gamma=1.0, nu=0.3), curve()),
    "one class": lambda: fitted(AEOneClassSVM(gamma=1.0, nu=0.1), moons()),
    # kernels
    "linear": lambda: fitted(AESVC(kernel="linear"), wide()),
    "linear SVR": lambda: fitted(AESVR(kernel="linear"), curve()),
    "linear, sets": lambda: fitted(
        AESVC(kernel="linear", refine=0, subset_size=100, hull_tol=0.1), wide(2000)
    ),
    "poly": lambda: fitted(AESVC(kernel="poly", degree=2, coef0=1.0), wide()),
    "sigmoid": lambda: fitted(AESVC(kernel="sigmoid", gamma=0.01), wide()),
    "precomputed": precomputed,
    "callable": lambda: fitted(AESVC(kernel=laplacian), moons(400)),
    # rows
    "sparse": lambda: fitted(AESVC(gamma=0.02), thin()),
    "sparse, refine=1": lambda: fitted(
        AESVC(gamma=0.005, refine=1, subset_size=100, hull_tol=0.01), thin()
    ),
    "float32": lambda: single(AESVC(gamma=1.0), moons()),
    "float32, refine=1": lambda: single(AESVC(gamma=1.0, refine=1, subset_size=200), moons(3000)),
    "sample_weight": lambda: fitted(AESVC(gamma=1.0), moons(), weights(600)),
    "sample_weight, SVR, sets": lambda: fitted(
        AESVR(gamma=1.0, refine=0, subset_size=200), curve(2000), weights(2000)
    ),
    "class_weight": lambda: fitted(AESVC(class_weight={0: 3.0, 2: 0.5}), blobs(3, 300)),
    "class_weight balanced": lambda: fitted(
        AESVC(gamma=0.1, class_weight="balanced"), lopsided(), weights(500)
    ),
    "C=1e4": lambda: fitted(AESVC(gamma=1.0, C=1e4), moons()),
    "C=1e4, SVR": lambda: fitted(AESVR(gamma=1.0, C=1e4), curve(400)),
    # classes
    "3 classes": lambda: fitted(AESVC(), blobs(3, 300)),
    "3 classes, NuSVC": lambda: fitted(AENuSVC(nu=0.2), blobs(3, 300)),
    "12 classes": lambda: fitted(AESVC(n_jobs=2), blobs(12, 600)),
    "30 classes": lambda: fitted(AESVC(n_jobs=2), blobs(30, 900)),
    "30 classes, NuSVC": lambda: fitted(AENuSVC(nu=0.05, n_jobs=2), blobs(30, 900)),
    "4 large classes": lambda: fitted(AESVC(n_jobs=2), blobs(4, 6000)),
    "4 large classes, refine=1": lambda: fitted(
        AESVC(refine=1, subset_size=200, n_jobs=2), blobs(4, 6000)
    ),
    # refine
    "refine=0": lambda: certified(AESVC(gamma=1.0, refine=0, subset_size=200), moons(4000)),
    "refine=1": lambda: certified(AESVC(gamma=1.0, refine=1, subset_size=200), moons(4000)),
    "refine=2": lambda: certified(AESVC(gamma=1.0, refine=2, subset_size=200), moons(4000)),
    "refine=2, sequence": lambda: fitted(
        AESVC(gamma=1.0, refine=2, subset_size=100, partition_size=500, partition="sequence"),
        moons(4000),
    ),
    "refine=2, NuSVC": lambda: fitted(
        AENuSVC(gamma=1.0, nu=0.3, refine=2, subset_size=200), moons(3000)
    ),
    "refine=2, SVR": lambda: fitted(AESVR(gamma=1.0, refine=2, subset_size=200), curve(3000)),
    "refine=1, NuSVR": lambda: fitted(AENuSVR(gamma=1.0, refine=1, subset_size=200), curve(2000)),
    "refine=1, one class": lambda: fitted(
        AEOneClassSVM(gamma=1.0, nu=0.1, refine=1, subset_size=200), moons(3000)
    ),
    "refine=exact": lambda: certified(
        AESVC(gamma=1.0, refine="exact", subset_size=200), moons(3000)
    ),
    "refine=auto": lambda: fitted(AESVC(gamma=1.0, subset_size=200, n_jobs=2), moons(8000)),
    "refine=auto, rounds": lambda: fitted(
        AESVC(gamma=1.0, C=0.1, subset_size=200, n_jobs=2), noise(4, 39_000)
    ),
    # the span of few vectors
    "max_vectors": lambda: certified(AESVC(gamma=1.0, max_vectors=50), moons(3000)),
    "max_vectors, SVR": lambda: fitted(AESVR(gamma=1.0, max_vectors=50), curve(2000)),
    "max_vectors, 4 classes": lambda: fitted(AESVC(max_vectors=80, n_jobs=2), blobs(4, 2000)),
    "max_vectors, memory_budget": lambda: fitted(
        AESVC(gamma=1.0, max_vectors=50, memory_budget="2 MB"), moons(3000)
    ),
    "compress, n_vectors": lambda: compressed(AESVC(gamma=1.0), moons(), n_vectors=40),
    "compress, tol, 3 classes": lambda: compressed(AESVC(), blobs(3, 300), tol=0.05),
    "compress, one class": lambda: compressed(
        AEOneClassSVM(gamma=1.0, nu=0.1), moons(), n_vectors=20
    ),
    # streams
    "stream, refine=0": lambda: streamed(
        AESVC(gamma=1.0, refine=0, subset_size=200), moons(4000), 700
    ),
    "stream, refine=1": lambda: streamed(
        AESVC(gamma=1.0, refine=1, subset_size=200), moons(4000), 700
    ),
    "stream, refine=auto": lambda: streamed(AESVC(subset_size=200, n_jobs=2), moons(8000), 1500),
    "stream, refine=1, 4 classes": lambda: streamed(
        AESVC(gamma=0.03, refine=1, subset_size=200, hull_tol=0.01),
        blobs(4, 3000),
        700,
        weights(3000),
    ),
    "stream, refine=1, SVR": lambda: streamed(
        AESVR(gamma=1.0, refine=1, subset_size=200, hull_tol=0.1), curve(3000), 700
    ),
    "stream, max_vectors": lambda: streamed(
        AESVC(gamma=1.0, max_vectors=50, subset_size=200), moons(4000), 700
    ),
    "stream, loosened": lambda: streamed(
        AESVC(gamma=1.0, refine=0, subset_size=200, memory_budget=10_000, on_overflow="loosen"),
        moons(4000),
        700,
    ),
    "partial_fit": lambda: taken_in(AESVC(gamma=1.0, subset_size=200), moons(3000), 700),
    # clusters
    "Dask, refine=0": lambda: on_cluster(
        "DaskAESVC",
        moons(8000),
        1500,
        gamma=1.0,
        refine=0,
        subset_size=200,
        split_every=2,
    ),
    "Dask, refine=1": lambda: on_cluster(
        "DaskAESVC", moons(4000), 700, gamma=1.0, refine=1, subset_size=200
    ),
    "Dask, refine=1, SVR": lambda: on_cluster(
        "DaskAESVR", curve(3000), 1000, gamma=0.1, refine=1, subset_size=200, hull_tol=0.1
    ),
    "Dask, max_vectors": lambda: on_cluster(
        "DaskAESVC", moons(4000), 700, gamma=1.0, max_vectors=50, subset_size=200
    ),
    # what stands in for a GPU
    "GPU": lambda: on_gpu(AESVC(gamma=1.0), moons()),
    "GPU, refine=1": lambda: on_gpu(AESVC(gamma=5.0, refine=1, subset_size=200), moons(1500)),
    "GPU, max_vectors": lambda: on_gpu(AESVC(gamma=5.0, max_vectors=40), moons(1500)),
    "GPU, SVR": lambda: on_gpu(AESVR(gamma=1.0, C=2.0), curve()),
    "GPU, sparse, 3 classes": lambda: on_gpu(AESVC(gamma=0.02), thin()),
    "GPU, device code": lambda: on_gpu(AESVC(gamma=1.0), moons(300), emulated),
}


# Files of them


def save(path: Path, pattern: str = "*") -> None:
    """Make the fits whose name matches, and write what is kept of them."""
    print(f"aesvm of {aesvm.__file__}", flush=True)
    kept: dict[str, Any] = {_SOURCE: np.array(str(aesvm.__file__))}
    names = [name for name in FITS if fnmatch(name, pattern)]
    begin = time.perf_counter()
    for name in names:
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = FITS[name]()
        except UnavailableError as error:
            print(f"{name:30s} left out: {error}", flush=True)
            continue
        for field, value in found._asdict().items():
            kept[f"{name}/{field}"] = value
        seconds = time.perf_counter() - start
        print(f"{name:30s} {seconds:6.2f} s, {found.n_support:,} support vectors", flush=True)
    np.savez(path, **kept)
    n_fits = sum(key.endswith("/values") for key in kept)
    print(f"{n_fits} fits in {time.perf_counter() - begin:.0f} s, written to {path}")


def outcomes(path: Path) -> tuple[str, dict[str, Outcome]]:
    """Where the code of a file was, and what is kept of each fit."""
    with np.load(path) as file:
        names = [key.removesuffix("/values") for key in file.files if key.endswith("/values")]
        found = {
            name: Outcome(
                file[f"{name}/values"],
                float(file[f"{name}/objective"]),
                float(file[f"{name}/dual_objective"]),
                int(file[f"{name}/n_support"]),
            )
            for name in names
        }
        return str(file[_SOURCE]), found


def difference(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """The largest, as a share of the largest value; infinite where they cannot be compared."""
    if before.shape != after.shape or (np.isfinite(before) != np.isfinite(after)).any():
        return np.inf
    if np.array_equal(before, after, equal_nan=True):
        return 0.0
    finite = np.isfinite(before)
    if not np.array_equal(before[~finite], after[~finite], equal_nan=True):
        return np.inf
    return float(np.abs(after - before)[finite].max() / np.abs(before[finite]).max(initial=1e-300))


def compare(before: Path, after: Path, tol: float) -> bool:
    """Print how two files differ; whether no fit does by more than ``tol``.

    Values and both objectives count, as shares of the largest and of themselves, and so do the
    numbers of support vectors, and fits that one file alone has.
    """
    (source, old), (other, new) = outcomes(before), outcomes(after)
    table = Table("fit", "values differ by", "objective", "dual objective", "support vectors", "")
    faults = 0
    for name in dict.fromkeys([*old, *new]):
        if name not in old or name not in new:
            faults += 1
            table.add_row(name, "", "", "", "", f"only in {before if name in old else after}")
            continue
        one, two = old[name], new[name]
        apart = [
            difference(np.atleast_1d(getattr(one, field)), np.atleast_1d(getattr(two, field)))
            for field in ("values", "objective", "dual_objective")
        ]
        differs = max(apart) > tol or one.n_support != two.n_support
        faults += differs
        counts = f"{one.n_support:,}"
        if one.n_support != two.n_support:
            counts += f" -> {two.n_support:,}"
        objectives = [
            "none" if np.isnan(value) and not share else "equal" if not share else f"{share:.1e}"
            for value, share in zip((one.objective, one.dual_objective), apart[1:], strict=True)
        ]
        table.add_row(name, f"{apart[0]:.1e}", *objectives, counts, "DIFFERS" if differs else "")
    width = None if sys.stdout.isatty() else 120
    Console(width=width, highlight=False).print(table)
    print(f"Before: {source}\nAfter:  {other}")
    print(f"{faults} of {table.row_count} fits differ by more than {tol:g}.")
    return not faults and table.row_count > 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unchanged", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save", help="make the fits, and keep what they computed")
    saving.add_argument("file", type=Path, help="to be written: .npz")
    saving.add_argument("--only", default="*", metavar="PATTERN", help='fits by name: "stream*"')
    comparing = commands.add_parser("compare", help="print where two files differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--tol", type=float, default=1e-12, help="relative; default: 1e-12")
    options = parser.parse_args(arguments)
    if options.command == "save":
        save(options.file, options.only)
        return 0
    return 0 if compare(options.before, options.after, options.tol) else 1


if __name__ == "__main__":
    sys.exit(main())
