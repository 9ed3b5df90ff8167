"""``--device``: what computes, where something stands in for a GPU and where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from aesvm import AESVC, load
from aesvm.gpu import cuda, devices, hull
from tests.command.files import done, run
from tests.gpu import emulator
from tests.gpu.stand_in import NumpyDevice, launch_on_the_host


class CountingDevice(NumpyDevice):
    """A device that notes the matrices it is sent."""

    sent: int = 0

    def large_array(self, values):
        CountingDevice.sent += 1
        return super().large_array(values)


@pytest.fixture(name="gpu")
def stand_in(monkeypatch):
    device = CountingDevice()
    monkeypatch.setattr(CountingDevice, "sent", 0)
    monkeypatch.setattr(hull, "_launch", launch_on_the_host)
    monkeypatch.setattr(devices, "cuda_device", lambda number: device)
    return device


@pytest.mark.parametrize("flags", [(), ("-s", 1, "-n", 0.3), ("-s", 2), ("-s", 3)])
def test_train_and_predict_compute_there(heart, gpu, capsys, flags):
    done(capsys, "train", *flags, "heart", "here.aesvm")
    assert not CountingDevice.sent
    done(capsys, "train", *flags, "--device", "cuda", "heart", "there.aesvm")
    assert load("there.aesvm").device_ == "cuda:0"
    sent = CountingDevice.sent
    assert sent
    done(capsys, "predict", "heart", "there.aesvm", "one")
    assert CountingDevice.sent == sent  # without the flag, the processor computes
    done(capsys, "predict", "--device", "cuda", "heart", "there.aesvm", "other")
    assert CountingDevice.sent > sent
    one, other = np.loadtxt("one"), np.loadtxt("other")
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_kernel_matrix_is_trained_on_there(heart, gpu, capsys, tmp_path):
    _, X, y = heart
    lines = [
        f"{c:g} 0:{i} " + " ".join(f"{j + 1}:{v:.17g}" for j, v in enumerate(row))
        for i, (row, c) in enumerate(zip(X @ X.T, y, strict=True), 1)
    ]
    (tmp_path / "matrix").write_text("\n".join(lines) + "\n")
    done(capsys, "train", "-t", 4, "--device", "cuda", "matrix", "model.aesvm")
    done(capsys, "predict", "--device", "cuda", "matrix", "model.aesvm", "labels")
    model = AESVC(kernel="linear").fit(X, y)
    assert np.mean(np.loadtxt("labels") == model.predict(X)) > 0.98


@pytest.mark.skipif(emulator.COMPILER is None, reason="device code needs a C++ compiler")
def test_a_tested_model_of_a_table_is_trained_there(table, gpu, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(cuda, "compiled", emulator.emulate(tmp_path))  # of the report
    flags = "--device", "cuda", "--search-rows", 40, "--json"
    found = done(capsys, "fit", "rows.csv", "--target", "kind", *flags).json
    assert load(found["model"])[-1].device_ == "cuda:0"


def test_a_device_of_another_name_is_refused(heart, table, capsys):
    for command in (("train", "heart"), ("predict", "heart", "m"), ("fit", "rows.csv")):
        ended = run(capsys, *command, "--device", "gpu")
        assert ended.code == 2
        assert ended.err.startswith("aesvm: --device gpu: device='gpu' is unknown: use \"cpu\"")


@pytest.mark.parametrize(
    ("error", "code"),
    [(ImportError("it needs CuPy: pip install ..."), 4), (RuntimeError("no GPU was found"), 1)],
)
def test_a_device_that_is_not_there_is_an_error_before_data_is_read(
    folder, monkeypatch, capsys, error, code
):
    def missing(number):
        raise error

    monkeypatch.setattr(devices, "cuda_device", missing)
    ended = run(capsys, "train", "--device", "cuda:1", "no_such_file")
    assert (ended.code, ended.err) == (code, f"aesvm: --device cuda:1: {error}\n")


def test_folds_are_trained_there(heart, gpu, capsys):
    here = done(capsys, "train", "-v", 3, "heart").out
    assert done(capsys, "train", "-v", 3, "--device", "cuda", "heart").out == here
    assert CountingDevice.sent
