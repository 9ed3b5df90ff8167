"""What does a model lose in another format, and how large is its file?

Decision values of rows that were not trained on, in ONNX with input of single and of double
precision, and by ONNX's own SVM operators, to which skl2onnx turns ``to_sklearn``; labels that are
others; and bytes and seconds of model files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import skl2onnx
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_classification, make_moons

import aesvm
from aesvm import AESVC
from aesvm.io import load_libsvm_model, save_libsvm_model
from aesvm.onnx import register_converters
from benchmarks.report import Report


def _problems() -> dict[str, tuple[NDArray, NDArray, AESVC]]:
    digits = load_digits()
    classes = {"n_informative": 10, "n_classes": 4, "random_state": 0}
    return {
        "moons, C=100": (*make_moons(20_000, noise=0.3, random_state=0), AESVC(C=100.0, gamma=1.0)),
        "4 classes, C=10": (*make_classification(12_000, 20, **classes), AESVC(C=10.0)),
        "digits, C=10": (digits.data / 16, digits.target, AESVC(C=10.0)),
    }


def run(report: Report) -> None:
    register_converters()
    drift, files = [], []
    for name, (X, y, model) in _problems().items():
        half = len(X) // 2
        model.fit(X[:half], y[:half])
        twin = model.to_sklearn()
        options = {type(twin): {"zipmap": False, "raw_scores": True}}
        graphs = {
            "aesvm.onnx, float32": (model, np.float32, None),
            "aesvm.onnx, float64": (model, np.float64, None),
            "ONNX's own, float32": (twin, np.float32, options),
        }
        for way, (one, dtype, how) in graphs.items():
            asked = X[half:].astype(dtype)
            labels, values, seconds = _asked(one, asked, how)
            expected = model.decision_function(X[half:]).reshape(len(asked), -1)
            if values.shape[1] == 2:
                values = -values[:, :1]  # of two classes, the first
            largest = np.abs(values - expected).max()
            same = np.mean(labels == model.predict(X[half:]))
            drift.append([name, len(model.support_), way, largest, 100 * same, seconds])
        files.append([name, len(model.support_), *_files(model)])
    report.table(
        "Decision values in onnxruntime",
        ["data", "vectors", "way", "largest difference", "labels equal %", "seconds"],
        drift,
    )
    report.table(
        "Files of models",
        ["data", "vectors", "MB", "save s", "load s", "LIBSVM MB", "save s", "load s"],
        files,
    )


def _asked(model: Any, X: NDArray, options: Any) -> tuple[NDArray, NDArray, float]:
    graph = skl2onnx.to_onnx(model, X[:1], options=options)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    begin = time.perf_counter()
    labels, values = session.run(None, {"X": X})
    return labels, values, time.perf_counter() - begin


def _files(model: AESVC) -> list[float]:
    ways: list[tuple[Callable, Callable]] = [
        (aesvm.save, aesvm.load),
        (save_libsvm_model, load_libsvm_model),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for save, load in ways:
            begin = time.perf_counter()
            save(model, path)
            between = time.perf_counter()
            load(path)
            end = time.perf_counter()
            found += [path.stat().st_size / 1e6, between - begin, end - between]
    return found
