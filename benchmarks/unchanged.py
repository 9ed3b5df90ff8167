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
from contextlib import ExitStack, contextmanager, nullcontext
from fnmatch import fnmatch
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification, make_moons

import aesvm
from aesvm import AESVC, AESVR, AENuSVC, AENuSVR, AEOneClassSVM

#: What is kept of a fit, beside decision values of its first rows.
_NUMBERS = ("objective", "dual_objective", "n_support")
_SHOWN = 400

Rows = tuple[Any, NDArray]


class UnavailableError(Exception):
    """A fit cannot be made here: says why."""


# Rows


def moons(n_rows: int = 600) -> Rows:
    return make_moons(n_rows, noise=0.3, random_state=0)


def blobs(n_classes: int, n_rows: int) -> Rows:
    """Classes that overlap."""
    return make_blobs(n_rows, 4, centers=n_classes, cluster_std=2.5, random_state=0)


def wide(n_rows: int = 500) -> Rows:
    """Ten features, and a twentieth of the labels wrong."""
    return make_classification(n_rows, 10, n_informative=5, flip_y=0.05, random_state=0)


def lopsided() -> Rows:
    """A large class and a small one."""
    return make_classification(500, 10, weights=[0.8], flip_y=0.05, random_state=0)


def thin() -> Rows:
    """Sparse rows of three classes."""
    X, y = make_classification(500, 30, n_informative=8, n_classes=3, random_state=0)
    return sp.csr_array(np.where(np.abs(X) < 0.8, 0.0, X)), y


def curve(n_rows: int = 600) -> Rows:
    """Rows with a target that is a noisy function of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n_rows, 2))
    return X, np.sinc(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n_rows)


def noise(n_classes: int, n_rows: int) -> Rows:
    """Classes that nothing is known of: nearly all rows are support vectors."""
    rng = np.random.default_rng(0)
    return rng.uniform(-1.0, 1.0, (n_rows, 2)), rng.integers(n_classes, size=n_rows)


def gram() -> Rows:
    """A kernel matrix."""
    X, y = moons(400)
    return np.exp(-((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)), y


def single(n_rows: int) -> Rows:
    """Rows in single precision."""
    X, y = moons(n_rows)
    return X.astype(np.float32), y


def weights(n_rows: int) -> NDArray[np.float64]:
    """A few of them are zero."""
    rng = np.random.default_rng(1)
    return rng.uniform(0.1, 3.0, n_rows) * (rng.random(n_rows) < 0.9)


def chunks(X: Any, y: Any, size: int, weighted: bool = False) -> list[tuple[Any, Any, Any]]:
    of_rows = weights(len(y)) if weighted else None
    parts = [slice(at, at + size) for at in range(0, X.shape[0], size)]
    return [(X[part], y[part], None if of_rows is None else of_rows[part]) for part in parts]


def laplacian(X: NDArray, Y: NDArray) -> NDArray:
    """A kernel of the caller's own."""
    return np.exp(-np.abs(X[:, None, :] - Y[None, :, :]).sum(axis=2))


# Ways to fit: each gives a trained model


def fitted(model: Any, X: Any, y: Any, weighted: bool = False) -> Any:
    """A fit of rows in memory; of classes, every pair's values are kept."""
    if "decision_function_shape" in model.get_params():
        model.set_params(decision_function_shape="ovo")
    return model.fit(X, y, weights(len(y)) if weighted else None)


def certified(model: Any, X: Any, y: Any) -> Any:
    """A fit, and a look at all rows after it."""
    model.fit(X, y).certify(X, y)
    return model


def streamed(model: Any, X: Any, y: Any, weighted: bool = False, size: int = 700) -> Any:
    return model.fit_stream(chunks(X, y, size, weighted))


def taken_in(model: Any, X: Any, y: Any) -> Any:
    """The rows of a stream by ``partial_fit``."""
    for some, targets, _ in chunks(X, y, 700):
        model.partial_fit(some, targets, classes=np.unique(y))
    return model.partial_fit()


def compressed(model: Any, X: Any, y: Any, **how: Any) -> Any:
    """A model on fewer vectors, and its certificate."""
    small = model.fit(X, y).compress(X=X, **how)
    small.certify(X, y)
    return small


def on_cluster(model: Any, X: Any, y: Any, size: int = 700, **parameters: Any) -> Any:
    """The estimator of Dask with the model's name, on two threads of this process."""
    try:
        import dask.array as da
        from distributed import Client, LocalCluster

        estimator = getattr(import_module("aesvm.dask"), f"Dask{type(model).__name__}")
    except ImportError as error:
        raise UnavailableError(f"Dask is missing ({error})") from error
    names = estimator().get_params()
    parameters |= {name: value for name, value in model.get_params().items() if name in names}
    place: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    quiet: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with LocalCluster(**place, **quiet) as cluster, Client(cluster, set_as_default=False) as client:
        lazy = [da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size)]
        return estimator(**{**parameters, "client": client}).fit(*lazy)


def of_tests(name: str) -> Any:
    """A module of tests/gpu."""
    with mock.patch.object(sys, "path", [str(Path(__file__).parents[1]), *sys.path]):
        return import_module(f"tests.gpu.{name}")


def numpy_device(stack: ExitStack, operations: Any) -> Any:
    """A device whose arrays are NumPy's."""
    from aesvm.gpu import hull

    stand_in = of_tests("stand_in")
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
                *((cuda, name, value) for name, value in emulator.in_place(folder).items()),
                (dual, "_SHRINK_PRODUCTS", 0.0),
                (devices, "cuda_device", lambda number: device),
            ):
                stack.enter_context(mock.patch.object(module, name, value))
        except (ImportError, AttributeError) as error:
            raise UnavailableError(f"device code cannot be emulated ({error})") from error
        yield


def outcome(
    model: Any,
    rows: Callable[..., Rows],
    *sizes: int,
    how: Callable[..., Any] = fitted,
    stands_in: Callable[[], Any] = nullcontext,
    **options: Any,
) -> dict[str, NDArray]:
    """Make a fit, and what is kept of it; NaN where the certificate lacks a number."""
    X, y = rows(*sizes)
    with stands_in():
        trained = how(clone(model), X, y, **options)
        decide = getattr(trained, "decision_function", trained.predict)
        kept = {"values": np.asarray(decide(X[:_SHOWN]), dtype=np.float64)}
    for name in ("objective", "dual_objective"):
        value = getattr(trained.certificate_, name)
        kept[name] = np.array(np.nan if value is None else float(value))
    return {**kept, "n_support": np.array(float(np.sum(trained.n_support_)))}


fit = partial(partial, outcome)
on_gpu = partial(fit, stands_in=numpy_for_cupy)
sets: dict[str, Any] = {"gamma": 1.0, "subset_size": 200}

#: Every fit by name.
FITS: dict[str, Callable[[], dict[str, NDArray]]] = {
    # formulations
    "SVC": fit(AESVC(gamma=1.0), moons),
    "NuSVC": fit(AENuSVC(gamma=1.0, nu=0.3), moons),
    "SVR": fit(AESVR(gamma=1.0, C=2.0), curve),
    "NuSVR": fit(AENuSVR(gamma=1.0, nu=0.3), curve),
    "one class": fit(AEOneClassSVM(gamma=1.0, nu=0.1), moons),
    # kernels
    "linear": fit(AESVC(kernel="linear"), wide),
    "linear SVR": fit(AESVR(kernel="linear"), curve),
    "linear, sets": fit(
        AESVC(kernel="linear", refine=0, subset_size=100, hull_tol=0.1), wide, 2000
    ),
    "poly": fit(AESVC(kernel="poly", degree=2, coef0=1.0), wide),
    "sigmoid": fit(AESVC(kernel="sigmoid", gamma=0.01), wide),
    "precomputed": fit(AESVC(kernel="precomputed"), gram),
    "callable": fit(AESVC(kernel=laplacian), moons, 400),
    # rows
    "sparse": fit(AESVC(gamma=0.02), thin),
    "sparse, refine=1": fit(AESVC(gamma=0.005, refine=1, subset_size=100, hull_tol=0.01), thin),
    "float32": fit(AESVC(gamma=1.0), single, 600),
    "float32, refine=1": fit(AESVC(refine=1, **sets), single, 3000),
    "sample_weight": fit(AESVC(gamma=1.0), moons, weighted=True),
    "sample_weight, SVR, sets": fit(AESVR(refine=0, **sets), curve, 2000, weighted=True),
    "class_weight": fit(AESVC(class_weight={0: 3.0, 2: 0.5}), blobs, 3, 300),
    "class_weight balanced": fit(
        AESVC(gamma=0.1, class_weight="balanced"), lopsided, weighted=True
    ),
    "C=1e4": fit(AESVC(gamma=1.0, C=1e4), moons),
    "C=1e4, SVR": fit(AESVR(gamma=1.0, C=1e4), curve, 400),
    # classes
    "3 classes": fit(AESVC(), blobs, 3, 300),
    "3 classes, NuSVC": fit(AENuSVC(nu=0.2), blobs, 3, 300),
    "12 classes": fit(AESVC(n_jobs=2), blobs, 12, 600),
    "30 classes": fit(AESVC(n_jobs=2), blobs, 30, 900),
    "30 classes, NuSVC": fit(AENuSVC(nu=0.05, n_jobs=2), blobs, 30, 900),
    "4 large classes": fit(AESVC(n_jobs=2), blobs, 4, 6000),
    "4 large classes, refine=1": fit(AESVC(refine=1, subset_size=200, n_jobs=2), blobs, 4, 6000),
    # refine
    "refine=0": fit(AESVC(refine=0, **sets), moons, 4000, how=certified),
    "refine=1": fit(AESVC(refine=1, **sets), moons, 4000, how=certified),
    "refine=2": fit(AESVC(refine=2, **sets), moons, 4000, how=certified),
    "refine=2, sequence": fit(
        AESVC(gamma=1.0, refine=2, subset_size=100, partition_size=500, partition="sequence"),
        moons,
        4000,
    ),
    "refine=2, NuSVC": fit(AENuSVC(nu=0.3, refine=2, **sets), moons, 3000),
    "refine=2, SVR": fit(AESVR(refine=2, **sets), curve, 3000),
    "refine=1, NuSVR": fit(AENuSVR(refine=1, **sets), curve, 2000),
    "refine=1, one class": fit(AEOneClassSVM(nu=0.1, refine=1, **sets), moons, 3000),
    "refine=exact": fit(AESVC(refine="exact", **sets), moons, 3000, how=certified),
    "refine=auto": fit(AESVC(n_jobs=2, **sets), moons, 8000),
    "refine=auto, rounds": fit(AESVC(C=0.1, n_jobs=2, **sets), noise, 4, 39_000),
    # the span of few vectors
    "max_vectors": fit(AESVC(gamma=1.0, max_vectors=50), moons, 3000, how=certified),
    "max_vectors, SVR": fit(AESVR(gamma=1.0, max_vectors=50), curve, 2000),
    "max_vectors, 4 classes": fit(AESVC(max_vectors=80, n_jobs=2), blobs, 4, 2000),
    "max_vectors, memory_budget": fit(
        AESVC(gamma=1.0, max_vectors=50, memory_budget="2 MB"), moons, 3000
    ),
    "compress, n_vectors": fit(AESVC(gamma=1.0), moons, how=compressed, n_vectors=40),
    "compress, tol, 3 classes": fit(AESVC(), blobs, 3, 300, how=compressed, tol=0.05),
    "compress, one class": fit(
        AEOneClassSVM(gamma=1.0, nu=0.1), moons, how=compressed, n_vectors=20
    ),
    # streams
    "stream, refine=0": fit(AESVC(refine=0, **sets), moons, 4000, how=streamed),
    "stream, refine=1": fit(AESVC(refine=1, **sets), moons, 4000, how=streamed),
    "stream, refine=auto": fit(
        AESVC(subset_size=200, n_jobs=2), moons, 8000, how=streamed, size=1500
    ),
    "stream, refine=1, 4 classes": fit(
        AESVC(gamma=0.03, refine=1, subset_size=200, hull_tol=0.01),
        blobs,
        4,
        3000,
        how=streamed,
        weighted=True,
    ),
    "stream, refine=1, SVR": fit(AESVR(refine=1, hull_tol=0.1, **sets), curve, 3000, how=streamed),
    "stream, max_vectors": fit(AESVC(max_vectors=50, **sets), moons, 4000, how=streamed),
    "stream, loosened": fit(
        AESVC(refine=0, memory_budget=10_000, on_overflow="loosen", **sets),
        moons,
        4000,
        how=streamed,
    ),
    "partial_fit": fit(AESVC(**sets), moons, 3000, how=taken_in),
    # clusters
    "Dask, refine=0": fit(
        AESVC(refine=0, **sets), moons, 8000, how=on_cluster, size=1500, split_every=2
    ),
    "Dask, refine=1": fit(AESVC(refine=1, **sets), moons, 4000, how=on_cluster),
    "Dask, refine=1, SVR": fit(
        AESVR(gamma=0.1, refine=1, subset_size=200, hull_tol=0.1),
        curve,
        3000,
        how=on_cluster,
        size=1000,
    ),
    "Dask, max_vectors": fit(AESVC(max_vectors=50, **sets), moons, 4000, how=on_cluster),
    # what stands in for a GPU
    "GPU": on_gpu(AESVC(gamma=1.0, device="cuda"), moons),
    "GPU, refine=1": on_gpu(
        AESVC(gamma=5.0, refine=1, subset_size=200, device="cuda"), moons, 1500
    ),
    "GPU, max_vectors": on_gpu(AESVC(gamma=5.0, max_vectors=40, device="cuda"), moons, 1500),
    "GPU, SVR": on_gpu(AESVR(gamma=1.0, C=2.0, device="cuda"), curve),
    "GPU, sparse, 3 classes": on_gpu(AESVC(gamma=0.02, device="cuda"), thin),
    "GPU, device code": fit(AESVC(gamma=1.0, device="cuda"), moons, 300, stands_in=emulated),
}


# Files of them


def save(path: Path, pattern: str = "*") -> None:
    """Make the fits whose name matches, and write what is kept of them."""
    print(f"aesvm of {aesvm.__file__}", flush=True)
    kept: dict[str, Any] = {"source": np.array(str(aesvm.__file__))}
    for name in (name for name in FITS if fnmatch(name, pattern)):
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = FITS[name]()
        except UnavailableError as error:
            print(f"{name:30s} left out: {error}", flush=True)
            continue
        kept |= {f"{name}/{field}": value for field, value in found.items()}
        print(f"{name:30s} {time.perf_counter() - start:6.2f} s", flush=True)
    np.savez(path, **kept)
    print(f"written to {path}")


def difference(before: NDArray | None, after: NDArray | None) -> float:
    """The largest, as a share of the largest value; infinite where they cannot be compared."""
    if before is None or after is None or before.shape != after.shape:
        return np.inf
    finite = np.isfinite(before)
    if not np.array_equal(before[~finite], after[~finite], equal_nan=True):
        return np.inf
    apart = np.abs(after - before)[finite].max(initial=0.0)
    return float(apart / np.abs(before[finite]).max(initial=1e-300)) if np.any(apart) else 0.0


def compare(before: Path, after: Path, tol: float) -> bool:
    """Print how two files differ; whether no fit does by more than ``tol``.

    Values, objectives and numbers of support vectors count, as shares of the largest or of
    themselves; and so do fits that one file alone has.
    """
    with np.load(before) as one, np.load(after) as two:
        old, new = dict(one), dict(two)
    names = [key.removesuffix("/values") for key in {**old, **new} if key.endswith("/values")]
    table = pd.DataFrame(
        {
            field: [difference(old.get(f"{n}/{field}"), new.get(f"{n}/{field}")) for n in names]
            for field in ("values", *_NUMBERS)
        },
        index=names,
    )
    limits = pd.Series({"values": tol, "objective": tol, "dual_objective": tol, "n_support": 0.0})
    differs = (table > limits).any(axis=1)
    print(
        table.assign(remark=np.where(differs, "DIFFERS", "")).to_string(
            float_format="{:.1e}".format
        )
    )
    print(f"Before: {old['source']}\nAfter:  {new['source']}")
    print(f"{differs.sum()} of {len(names)} fits differ by more than {tol:g}.")
    return len(names) > 0 and not differs.any()


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
