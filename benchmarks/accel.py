"""Programs that use sklearn.svm, before and after ``aesvm.accel.install``: outputs and seconds.

python -m benchmarks accel
"""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, NuSVC

from aesvm.accel import install
from benchmarks.report import Report, installed

X, Y = make_classification(
    6000, 20, n_informative=8, n_classes=3, weights=[0.6, 0.3], flip_y=0.05, random_state=0
)
TRAIN, TEST = slice(0, 4500), slice(4500, None)

#: Seconds that passed, and those of the processor, which other programs do not lengthen as much.
Seconds = tuple[float, float]

#: What reads a model elsewhere: a program that cannot import aesvm.
_ELSEWHERE = """
import pickle, sys
sys.modules["aesvm"] = None
import numpy as np
X = np.load(sys.argv[2])
with open(sys.argv[1], "rb") as file:
    np.save(sys.argv[3], pickle.load(file).predict(X))
"""


def search() -> Any:
    """A pipeline with a search."""
    grid = {"svc__C": [0.3, 3.0], "svc__gamma": [0.02, 0.1]}
    found = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=3)
    return found.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])


def bagging() -> Any:
    model = BaggingClassifier(SVC(), n_estimators=5, max_samples=0.6, random_state=0)
    return model.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])


def smote() -> Any:
    """SVMSMOTE of imbalanced-learn: the rows near a margin are repeated with noise."""
    from imblearn.over_sampling import SVMSMOTE

    rows, classes = SVMSMOTE(random_state=0).fit_resample(X[TRAIN], Y[TRAIN])
    return SVC().fit(rows, classes).predict(X[TEST])


def calibration() -> Any:
    model = CalibratedClassifierCV(NuSVC(nu=0.2), cv=3)
    return model.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])


def saved() -> Any:
    """A model that is pickled, and predicts in a process without aesvm."""
    model = SVC(C=3.0).fit(X[TRAIN], Y[TRAIN])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("model.pkl", "X.npy", "labels.npy")]
        buffer = io.BytesIO()
        pickle.dump(model, buffer)
        files[0].write_bytes(buffer.getvalue())
        np.save(files[1], X[TEST])
        subprocess.run([sys.executable, "-E", "-c", _ELSEWHERE, *map(str, files)], check=True)
        return np.load(files[2])


PROGRAMS: dict[str, Callable[[], Any]] = {
    "pipeline with a search": search,
    "bagging": bagging,
    "SVMSMOTE": smote,
    "calibration": calibration,
    "saved model, loaded elsewhere": saved,
}


def accel(report: Report) -> None:
    """Each program by turns, without and with the accelerator."""
    lines = []
    for name, program in PROGRAMS.items():
        if program is smote and installed("imbalanced-learn") is None:
            print("SVMSMOTE is left out: pip install imbalanced-learn", file=sys.stderr)
            continue
        seconds: tuple[list[Seconds], list[Seconds]] = ([], [])
        outputs: list[Any] = [None, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with install(n_jobs=report.jobs):
                program()  # compiles
            for _ in range(report.repeats):
                outputs[0] = _timed(program, seconds[0])
                with install(n_jobs=report.jobs):
                    outputs[1] = _timed(program, seconds[1])
        line: dict[str, Any] = {"program": name}
        for when, taken in zip(("before", "after"), seconds, strict=True):
            passed, processor = (median(one) for one in zip(*taken, strict=True))
            line |= {f"{when} s": passed, f"{when}, processor s": processor}
        line["times"] = line["before s"] / line["after s"]
        equal = 100.0 * float(np.mean(outputs[0] == outputs[1]))
        lines.append({**line, "labels equal %": equal})
    report.table("Programs with sklearn.svm, unchanged", lines)


def _timed(program: Callable[[], Any], seconds: list[Seconds]) -> Any:
    begin, busy = time.perf_counter(), time.process_time()
    found = program()
    seconds.append((time.perf_counter() - begin, time.process_time() - busy))
    return found
