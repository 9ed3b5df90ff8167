"""Models in ONNX and in files: what single precision changes, sizes and seconds.

python -m benchmarks exports
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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


def exports(report: Report) -> None:
    register_converters()
    drift: list[dict] = []
    files: list[dict] = []
    for name, (X, y, model) in _problems().items():
        half = len(X) // 2
        model.fit(X[:half], y[:half])
        X = X[half:]
        graph = skl2onnx.to_onnx(model, X[:1].astype(np.float32)).SerializeToString()
        session = onnxruntime.InferenceSession(graph)
        labels, values = session.run(None, {"X": X.astype(np.float32)})
        expected = model.decision_function(X).reshape(len(X), -1)
        largest = np.abs(values - expected).max()
        same = np.mean(labels == model.predict(X))
        start = {"data": name, "vectors": len(model.support_)}
        drift.append({**start, "largest difference": largest, "labels equal %": 100 * same})
        files.append({**start, **_files(model)})
    files.append({"data": "20,000 x 50 vectors", "vectors": 20_000, **_files(_many_vectors())})
    report.table("Decision values in onnxruntime", drift)
    report.table("Files of models", files)


def _many_vectors() -> AESVC:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 50))
    model = AESVC(gamma=10.0, refine="exact").fit(X, rng.integers(2, size=len(X)))
    assert len(model.support_) == len(X)  # with such a gamma no row is like another
    return model


def _files(model: AESVC) -> dict[str, float]:
    ways: dict[str, tuple[Callable, Callable]] = {
        "": (aesvm.save, aesvm.load),
        "LIBSVM ": (save_libsvm_model, load_libsvm_model),
    }
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        for name, (save, load) in ways.items():
            save(model, path)  # skops is imported
            begin = time.perf_counter()
            save(model, path)
            between = time.perf_counter()
            load(path)
            end = time.perf_counter()
            found[f"{name}MB"] = path.stat().st_size / 1e6
            found |= {f"{name}save s": between - begin, f"{name}load s": end - between}
    return found
