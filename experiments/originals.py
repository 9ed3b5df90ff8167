"""``python -m experiments.originals``: the rivals beside the original programs, on the same data.

What the original C and C++ programs gave: support vectors, accuracy and seconds on one thread of
a two-core machine, with 600 MB of kernel cache and a tolerance of 1e-3 where the program has one.
An implementation is taken to be right where its accuracy is within half a point and its support
vectors within 15 % of the original's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.datasets import Dataset, MissingError
from benchmarks.report import Report
from experiments.rivals import BVM, CPSP, CVM, LASVM, NystroemSVM, RandomFeatureSVM

RESULTS = Path(__file__).parent / "results"


class Original(NamedTuple):
    """What an original program gave; None where it took over 150 s, or counts no vectors."""

    support_vectors: int | None
    accuracy: float | None
    seconds: float | None


PROGRAMS: dict[str, Any] = {
    "CVM (libCVM)": CVM,
    "BVM (libCVM)": BVM,
    "LASVM": LASVM,
    "SVMperf -w 9 --i 2 --b 0 --k 1000": CPSP,
    "Nystroem(1000) + LinearSVC": NystroemSVM,
    "RBFSampler(1000) + LinearSVC": RandomFeatureSVM,
}

#: By dataset, C and gamma; in the order of the programs.
ORIGINALS: dict[tuple[str, float, float], list[Original]] = {
    of: [Original(*one) for one in found]
    for of, found in {
        ("ijcnn1", 1.0, 1.0): (
            *((7525, 0.97795, 33.1), (5405, 0.9813, 13.6), (5429, 0.978, 20.2)),
            *((1000, 0.97715, 39.1), (None, 0.98125, 13.9), (None, 0.9614, 11.4)),
        ),
        ("ijcnn1", 16.0, 0.25): (
            *((5595, 0.9789, 18.1), (4952, 0.9788, 12.2), (3906, 0.9777, 16.7)),
            *((1000, 0.9766, 48.2), (None, 0.9791, 16.4), (None, 0.97455, 14.4)),
        ),
        ("a9a", 1.0, 0.0625): (
            *((12452, 0.84768, 120.5), (10350, 0.84731, 53.3), (11157, 0.84927, 41.3)),
            *((1000, 0.85062, 45.3), (None, 0.85154, 12.7), (None, 0.84829, 9.4)),
        ),
        ("kdd99", 1.0, 0.25): (
            *((5784, 0.93735, 64.7), (3164, 0.941, 19.0), (3275, 0.93925, 44.9)),
            *((1000, 0.93983, 52.0), (None, 0.94298, 25.0), (None, 0.93716, 17.6)),
        ),
    }.items()
}


def run(report: Report) -> None:
    lines: list[dict] = []
    missing = []
    for (name, C, gamma), originals in ORIGINALS.items():
        try:
            data = report.data(name)
        except MissingError as error:
            missing.append(str(error))
            continue
        for (program, kind), original in zip(PROGRAMS.items(), originals, strict=True):
            line = {"data": data.name, "C, gamma": f"{C:g}, {gamma:g}", "program": program}
            line |= _beside(kind, C, gamma, data)
            lines.append({**line, **{f"its {k}": v for k, v in original._asdict().items()}})
            report.table("The rivals beside the original programs, one thread", lines)
    print(*missing, sep="\n", file=sys.stderr)
    if not lines:
        raise MissingError("none of the datasets is here")


def _beside(kind: Any, C: float, gamma: float, data: Dataset) -> dict[str, Any]:
    model = kind(C=C, gamma=gamma, random_state=0)
    if kind is RandomFeatureSVM:
        model.set_params(n_components=1000, loss="squared_hinge")
    started = time.perf_counter()
    model.fit(data.X, data.y)
    seconds = time.perf_counter() - started
    if hasattr(model, "n_support_"):
        vectors = int(model.n_support_.sum())
    else:
        vectors = getattr(model, "n_basis_", 1000)
    accuracy = round(model.score(data.X_test, data.y_test), 5)
    return {"support vectors": vectors, "accuracy": accuracy, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.originals", description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("AESVM_DATA"))
    options = parser.parse_args()
    try:
        run(Report(RESULTS, options.data_dir))
    except MissingError as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
