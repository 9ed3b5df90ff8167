"""On a GPU: exact SVMs beside other programs, kernel values, sets, few vectors, many rows.

    AESVM_DATA=FOLDER python -m benchmarks.gpu [values exact large sets ...]

Seconds are from rows on the host to a model: the median of three, after one that compiles; of many
rows (``large``, ``rows``) those of a single fit. ``exact large --record`` writes what they found to
``recorded/gpu.json``, question by question; the documentation's table is made from it.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aesvm import AESVC
from aesvm.gpu.derive import DeviceSetKernel, subset_blocks
from aesvm.gpu.devices import Device, cuda_device, number_of
from aesvm.gpu.matrix import DeviceKernel
from aesvm.gpu.rows import DeviceRows
from aesvm.kernels import KernelSpec, kernel_matrix
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.runtime.progress import Silence
from aesvm.sets.derive import ReductionSettings, reduce, union
from benchmarks import other_datasets
from benchmarks.datasets import FLIGHTS, SEED, load
from benchmarks.report import replace_file
from benchmarks.speed import letters

#: What the documentation's table and chart are made of.
RECORD = Path(__file__).parent / "recorded" / "gpu.json"

#: Data of ``other_datasets``.
OTHERS = ("heart2020", "usps")

#: The last rows of covtype, in a random order, are tested with.
TEST = 20_000


class Exact(NamedTuple):
    """An exact SVM, and the seconds of others on an H200.

    ThunderSVM's are by its own clock. cuML's (26.10) are those of its C++ ``svcFit``, with the data
    on the device already. Both leave out what ours include.
    """

    data: str
    rows: int | None
    C: float
    gamma: float
    thunder: float | None = None
    cuml: float | None = None
    dense: bool = False  #: whether sparse data is made dense


EXACT = [
    Exact("ijcnn1", None, 1.0, 1.0, 0.37, 0.046),
    Exact("ijcnn1", None, 16.0, 0.25, 0.34, 0.067),
    Exact("a9a", None, 1.0, 1 / 16, 0.34),
    Exact("a9a", None, 1.0, 1 / 16, cuml=0.118, dense=True),
    Exact("kdd99", None, 1.0, 0.25, 0.46),
    Exact("covtype", 50_000, 1.0, 1.0, 0.50, 0.177),
    Exact("covtype", 100_000, 1.0, 1.0, 1.11, 0.39),
    Exact("covtype", 200_000, 1.0, 1.0, 2.95, 1.05),
    Exact("covtype", 464_000, 1.0, 1.0, 14.4, 3.56),
    Exact("covtype", 50_000, 128.0, 1 / 16, cuml=0.81),
    Exact("covtype", 50_000, 128.0, 4.0),
    Exact("heart2020", 100_000, 1.0, 1 / 25),
    Exact("heart2020", 255_836, 1.0, 1 / 25),
    Exact("usps", None, 1.0, 1 / 256),
    Exact("letters", None, 1.0, 1 / 16),
]

#: These take some ten seconds each, and are fitted once.
LARGE = [
    Exact("covtype", 464_000, 16.0, 4.0, cuml=16.1),
    Exact("covtype", 464_000, 32.0, 32.0, cuml=29.6),
    Exact("covtype", 464_000, 128.0, 1 / 16, cuml=25.3),
    Exact("covtype", 464_000, 128.0, 4.0),
]


def repeated(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """What something takes, the median, and what it gives; done several times, once before."""
    if times > 1:
        work()
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds)), result


class MemoryWatch:
    """The most bytes that were taken on a device, looked at a hundred times a second."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._before = self._free()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _free(self) -> int:
        with self.device.here():
            return int(self.device.xp.cuda.runtime.memGetInfo()[0])

    def _look(self) -> None:
        while not self._over.wait(0.01):
            self.peak = max(self.peak, self._before - self._free())


def problem(name: str, rows: int | None, folder: Path | None) -> tuple[Any, Any, Any, Any]:
    if name == "letters":
        X, y = letters()
        return X, y, X, y
    data = other_datasets.load(name, folder) if name in OTHERS else load(name, folder)
    if data.X_test is None and (rows is None or rows >= len(data.y)):
        return data.X, data.y, data.X, data.y
    if rows is None:
        return data.X, data.y, data.X_test, data.y_test
    part = data.in_order(SEED, rows, TEST)
    return part.X, part.y, part.X_test, part.y_test


def exact(folder: Path | None, device: str) -> list[dict[str, Any]]:
    """Exact SVMs beside ThunderSVM and cuML; of data without test rows, accuracy is of its rows."""
    return _compare(EXACT, 3, folder, device)


def large(folder: Path | None, device: str) -> list[dict[str, Any]]:
    """The same of 464,000 rows, with larger C and gamma, after a smaller fit that compiles."""
    X, y, _, _ = problem("covtype", 50_000, folder)
    AESVC(C=128.0, gamma=1 / 16, refine="exact", device=device).fit(X, y)
    return _compare(LARGE, 1, folder, device)


def _compare(
    problems: list[Exact], times: int, folder: Path | None, device: str
) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    print(
        f"{'data':28} {'s':>7} {'Thunder':>8} {'cuML':>7} {'vectors':>9} {'accuracy':>9} {'gap':>8}"
    )
    for one in problems:
        X, y, X_test, y_test = problem(one.data, one.rows, folder)
        if one.dense:
            X, X_test = X.toarray(), X_test.toarray()
        model = AESVC(C=one.C, gamma=one.gamma, refine="exact", device=device)
        seconds, model = repeated(lambda model=model, X=X, y=y: model.fit(X, y), times)  # type: ignore[misc]
        accuracy = float(model.score(X_test, y_test))
        name = f"{one.data} {one.rows or ''} ({one.C:g}, {one.gamma:g}){' dense' * one.dense}"
        others = (
            f"{'' if known is None else known:{w}}"
            for known, w in ((one.thunder, 8), (one.cuml, 7))
        )
        print(
            f"{name:28} {seconds:7.3f} {' '.join(others)} {len(model.support_):9,} "
            f"{accuracy:9.4f} {model.certificate_.relative_gap:8.1e}",
            flush=True,
        )
        data = {"data": one.data, "rows": X.shape[0], "features": X.shape[1]}
        given = {**data, "dense": one.dense, "C": one.C, "gamma": one.gamma}
        known = {"support vectors": len(model.support_), "accuracy": accuracy}
        lines.append({**given, "program": "aesvm", "fit s": seconds, **known})
        for program, theirs in (("ThunderSVM", one.thunder), ("cuML", one.cuml)):
            if theirs is not None:
                lines.append({**given, "program": program, "fit s": theirs})
    return lines


def values(folder: Path | None, device: str) -> None:
    """Kernel values that are summed up a second, of 54 features."""
    X = load("covtype", folder).X.astype(np.float32)
    gpu = opened(device)
    xp = gpu.xp
    with gpu.here():
        matrix = TrainingKernel(KernelSpec("rbf", 1.0, device=device), X).matrix(np.float32, 1e-5)
        assert isinstance(matrix, DeviceKernel)
        vectors = matrix.columns(np.arange(len(X))).vectors
        numbers = xp.arange(1024, dtype=np.int32)
        coefs, sums = xp.ones((1, 1024)), xp.zeros((1, len(X)))

        def some() -> None:
            for _ in range(20):
                vectors.sum_lines(vectors, numbers, coefs, None, sums)
            gpu.wait()

        seconds, _ = repeated(some)
    print(f"kernel values: {20 * 1024 * len(X) / seconds / 1e9:.0f} G a second")


def sets(folder: Path | None, device: str) -> None:
    """Representatives of all of covtype, once equal rows are merged."""
    data = load("covtype", folder)
    X, y = data.X.astype(np.float32), data.y.astype(np.intp)
    settings = ReductionSettings(1e-3, 1000, 100_000, "distance")
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    gpu = opened(device)

    def derived() -> Any:
        rows = DeviceSetKernel(subset_blocks(DeviceRows(gpu, X), kernel_matrix(X, gamma=1.0)))
        subsets = rows.cut(groups, settings, map, Silence())
        reducer = rows.reducer(settings.hull_tol, np.ones(len(X)), False)
        reduced, given_up = reduce(reducer, subsets, settings, map, Silence())
        assert given_up is None
        return union(reduced, len(X), False)

    with gpu.here():
        seconds, found = repeated(derived)
    print(
        f"representatives of {len(X):,} rows: {seconds:.2f} s, {len(found.selected) / len(X):.2%} "
        f"kept, largest residual {found.residuals.max():.6f}"
    )


def spans(folder: Path | None, device: str) -> None:
    """SVMs in the span of few vectors."""
    flights = other_datasets.load("flights", folder)
    for data, C, gamma in (
        (load("covtype", folder).in_order(SEED, 464_000, TEST), 1.0, 1.0),
        (flights, *FLIGHTS),
    ):
        model = AESVC(C=C, gamma=gamma, max_vectors=4500, gap_tol=1e-4, device=device, n_jobs=-1)
        seconds, model = repeated(lambda model=model, data=data: model.fit(data.X, data.y))  # type: ignore[misc]
        print(
            f"max_vectors=4500, {data.name}, {len(data.y):,} rows: {seconds:.2f} s, "
            f"accuracy {model.score(data.X_test, data.y_test):.4f}"
        )
        print(model.certificate_)


def predict(folder: Path | None, device: str) -> None:
    """Predictions of 100,000 rows by 100,000 support vectors."""
    X, y, _, _ = problem("covtype", 300_000, folder)
    model = AESVC(gamma=1.0, refine="exact", max_iter=1, device=device)
    model.fit(X[:1000], y[:1000])
    model.support_vectors_ = X[:100_000]
    model.support_ = np.arange(100_000)
    model.n_support_ = np.array([50_000, 50_000], dtype=np.int32)
    model.dual_coef_ = np.random.default_rng(0).normal(size=(1, 100_000))
    seconds, _ = repeated(lambda: model.decision_function(X[100_000:200_000]))
    print(f"predict, 100,000 x 100,000: {seconds:.3f} s")


def digits(folder: Path | None, device: str) -> None:
    """mnist, ten classes, on the device and on all processors."""
    from benchmarks.datasets import arrays_of, by_paper

    arrays = arrays_of(by_paper("D8"), folder)
    X, y = arrays["X_train"] / np.float32(255), arrays["y_train"]
    X_test, y_test = arrays["X_test"] / np.float32(255), arrays["y_test"]
    for name, times in ((device, 3), ("cpu", 2)):
        model = AESVC(C=10.0, gamma=1 / 64, refine="exact", device=name, n_jobs=-1)
        seconds, model = repeated(lambda model=model: model.fit(X, y), times)  # type: ignore[misc]
        print(f"mnist on {name}: {seconds:.2f} s, accuracy {model.score(X_test, y_test):.4f}")


def rows(folder: Path | None, device: str) -> None:
    """Generated rows of 20 features, a tenth of the labels flipped."""
    _of_many_rows(2_000_000, device, refine="exact")
    _of_many_rows(2_000_000, device)
    _of_many_rows(4_000_000, device, refine="exact")


def deadline(folder: Path | None, device: str) -> None:
    """What a minute is enough for, of ten million such rows."""
    _of_many_rows(10_000_000, device, time_limit=60.0)


def _of_many_rows(n: int, device: str, **parameters: Any) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(n + TEST, 20)).astype(np.float32)
    y = (X[:, :5].sum(axis=1) * X[:, 5] > 0) ^ (random.random(len(X)) < 0.1)
    model = AESVC(gamma="scale", device=device, verbose=1, **parameters)
    begin = time.perf_counter()
    with MemoryWatch(opened(device)) as watch:
        model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - begin
    accuracy = model.score(X[n:], y[n:])
    print(
        f"{n:,} rows, {parameters}: {seconds:.1f} s, {len(model.support_):,} support vectors, "
        f"accuracy {accuracy:.4f}, {watch.peak / 2**30:.2f} GiB of the device",
        flush=True,
    )
    print(model.certificate_)


def record(path: Path, lines: list[dict[str, Any]], machine: str) -> None:
    """Put lines in a record, in place of earlier ones of the same problems."""
    names = ("data", "rows", "dense", "C", "gamma")
    new = {tuple(line[name] for name in names) for line in lines}
    rows = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    kept = [line for line in rows if tuple(line.get(name, False) for name in names) not in new]
    about = {"date": date.today().isoformat(), "machine": machine}
    replace_file(path, json.dumps({**about, "rows": kept + lines}, indent=1) + "\n")


def opened(name: str) -> Device:
    if name == "cpu":
        raise SystemExit("these questions are of a GPU: --device cuda")
    return cuda_device(number_of(name))


QUESTIONS: dict[str, Callable[[Path | None, str], list[dict[str, Any]] | None]] = {
    "values": values,
    "exact": exact,
    "large": large,
    "sets": sets,
    "spans": spans,
    "predict": predict,
    "digits": digits,
    "rows": rows,
    "deadline": deadline,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("questions", nargs="*", metavar="question", help=", ".join(QUESTIONS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="a JSON file")
    parser.add_argument("--machine", default="NVIDIA H200", help="what the record calls it")
    options = parser.parse_args()
    folder = None if options.data_dir is None else Path(options.data_dir)
    opened(options.device)
    lines: list[dict[str, Any]] = []
    for name in options.questions or QUESTIONS:
        lines += QUESTIONS[name](folder, options.device) or []
        if options.record:
            record(options.record, lines, options.machine)


if __name__ == "__main__":
    main()
