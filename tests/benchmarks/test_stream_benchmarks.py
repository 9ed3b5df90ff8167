"""The benchmark of streams: its watch, its data, its limit and its picture."""

from __future__ import annotations

import json
import os
import subprocess
import time

import numpy as np
import psutil
import pytest

from benchmarks import limits, pictures, processes, streams
from benchmarks.processes import Watch, measured
from benchmarks.streams import BLOCK, NEAR, Generated
from tests import children

MB = 2**20

pytestmark = pytest.mark.weekly

linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")

#: It starts a child, which takes memory of its own, and both wait to be told to end.
FAMILY = """
import os, sys
if os.fork() == 0:
    held = b"x" * (200 * 2**20)
    print("held", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.wait()
"""

#: It takes memory, and gives it back when it is told to.
HOLDS = """
import sys
held = b"x" * (100 * 2**20)
print("held", flush=True)
sys.stdin.readline()
del held
print("released", flush=True)
sys.stdin.readline()
"""


@linux
def test_the_watch_counts_descendants():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with children.started(children.code(FAMILY), **pipes) as process:
        with Watch(process.pid) as watch:
            assert children.line(process) == "held\n"
            alone = processes._own_memory(psutil.Process(process.pid))
            assert len(processes.tree(process.pid)) == 2
        process.communicate("end\n", children.LIMIT)
    assert alone < 100 * MB
    assert 200 * MB <= watch.peak < 300 * MB


@linux
def test_the_watch_keeps_the_peak_and_ends_with_its_process():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with children.started(children.code(HOLDS), **pipes) as process:
        with Watch(process.pid) as watch:
            assert children.line(process) == "held\n"
            ends = time.monotonic() + children.LIMIT
            while watch.peak < 100 * MB:
                assert time.monotonic() < ends
                time.sleep(0.01)
            print("release", file=process.stdin, flush=True)
            assert children.line(process) == "released\n"
            assert processes.memory(process.pid) < 100 * MB
        process.communicate("end\n", children.LIMIT)
    assert watch.peak >= 100 * MB
    assert processes.memory(process.pid) == 0


@linux
def test_what_a_program_finds_is_put_together():
    code = "print('ready'); print('{\"seconds\": 2}'); print('{\"accuracy\": 0.5}')"
    found, peak = measured(children.code(code))
    assert found == {"seconds": 2, "accuracy": 0.5}
    assert peak >= 0


@linux
def test_a_program_beyond_the_limit_is_stopped_with_its_descendants():
    code = """
import os, time
pid = os.fork()
if pid:
    print("ready", flush=True)
    os.wait()
time.sleep(3600)
"""
    started = time.perf_counter()
    found, _ = measured(children.code(code), limit=0.3)
    assert found is None
    assert time.perf_counter() - started < children.LIMIT  # the descendant has the pipe as well


@linux
def test_a_program_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match="failed: 3"):
        measured(children.code("import sys; sys.exit(3)"))


def test_the_stream_is_the_same_whatever_the_chunk():
    whole = Generated(NEAR, 100_000)
    X, y = whole.rows(0, 100_000)
    for chunk in (BLOCK, 30_000, 200_000):
        pieces = list(Generated(NEAR, 100_000, chunk=chunk))
        np.testing.assert_array_equal(np.concatenate([piece[0] for piece in pieces]), X)
        np.testing.assert_array_equal(np.concatenate([piece[1] for piece in pieces]), y)
    assert X.dtype == np.float32
    assert X.shape == (100_000, 10)
    assert 0.4 < y.mean() < 0.6


def test_a_prefix_is_a_prefix_and_fresh_rows_are_others():
    X, y = Generated(NEAR, 70_000).rows(0, 70_000)
    fewer, labels = Generated(NEAR, 66_000).rows(0, 66_000)
    np.testing.assert_array_equal(fewer, X[:66_000])
    np.testing.assert_array_equal(labels, y[:66_000])
    fresh, _ = Generated(NEAR, 1000, seed=1).rows(0, 1000)
    assert not np.isin(fresh[:, 0], X[:, 0]).all()


@linux
@pytest.mark.parametrize(
    ("program", "parameters"),
    [
        ("stream", {"max_vectors": 30}),
        ("memory", {"refine": 0}),
        ("SVC", {}),
        pytest.param("cluster", {"refine": 0}, marks=pytest.mark.slow),
    ],
)
def test_every_way_fits_what_was_written(program, parameters, tmp_path, capsys):
    X, y = Generated(NEAR, 900).rows(0, 900)
    for name, values in {"X": X[:600], "y": y[:600], "X_test": X[600:], "y_test": y[600:]}.items():
        np.save(tmp_path / f"{name}.npy", values)
    parameters = {"gamma": 1.0, "n_jobs": 1, **parameters}
    streams.fit(str(tmp_path), parameters, program, workers=int(program == "cluster"))
    ready, *lines = [line for line in capsys.readouterr().out.splitlines() if line]
    found = {key: value for line in lines for key, value in json.loads(line).items()}
    assert ready == "ready"
    assert found["seconds"] > 0
    assert found["vectors"] > 0
    assert 0.8 < found["accuracy"] <= 1.0
    assert ("solved" in found) == (program != "SVC")


def test_files_of_every_kind_have_the_same_rows(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(256, size=(300, 4), dtype=np.uint8), rng.integers(2, size=300).astype("i1")
    for kind, path in streams.written(tmp_path, X, y):
        chunks = list(streams.opened(str(path)))
        rows = [getattr(chunk[0], "toarray", lambda chunk=chunk: chunk[0])() for chunk in chunks]
        np.testing.assert_allclose(np.concatenate(rows), X / 255, atol=1e-6, err_msg=kind)
        np.testing.assert_array_equal(np.concatenate([chunk[1] for chunk in chunks]), y)


def test_a_loosened_stream_stands_beside_random_rows():
    X, y = Generated(0.1, 3000).rows(0, 3000)
    data = streams.Dataset("plane", X[:2500], y[:2500], X[2500:], y[2500:])
    line = streams.beside_samples(data, 20_000, 2, 1)
    assert 0 < line["rows held"] < 500
    assert line["difference"] == pytest.approx(line["accuracy"] - line["of random rows"])


def test_levels_hand_on_fewer_and_fewer_rows(monkeypatch):
    monkeypatch.setattr(streams, "PARTITION", 500)
    monkeypatch.setattr(streams, "SPLIT_EVERY", 2)
    X, y = Generated(NEAR, 2000).rows(0, 2000)
    lines = list(streams.handed_on(lambda part: X[part], y, 1))
    assert [line["sets"] for line in lines] == [4, 4, 2, 1]
    assert lines[0]["rows"] == 2000
    assert lines[-1]["rows"] < 200
    assert lines[0]["bytes a row"] >= 40


@pytest.fixture
def started(monkeypatch):
    """Fits that are not run: their seconds are the square of hundreds of rows."""
    sizes = []

    def pretended(command, limit, cwd):
        n = json.loads(command[-1])["source"][1]
        sizes.append(n)
        seconds = (n / 100) ** 2
        return (None, 0) if seconds > limit else ({"seconds": seconds, "solved": 7}, 2**30)

    monkeypatch.setattr(processes, "measured", pretended)
    monkeypatch.setattr(streams, "ROWS", (100, 200, 400))
    return sizes


def test_a_run_that_would_take_too_long_is_not_started(started, monkeypatch):
    monkeypatch.setattr(limits, "LIMIT", 15.0)
    lines = streams.grown("AESVC", NEAR, {"refine": 0}, 1)
    assert started == [100, 200]
    assert [line.get("seconds") for line in lines] == [1.0, 4.0, None]
    assert lines[1]["exponent"] == pytest.approx(2.0)
    assert lines[1]["peak, GiB"] == 1.0
    assert lines[2]["remark"] == "not started: some 16 s expected"


def test_a_run_that_takes_longer_than_expected_ends_the_line(started, monkeypatch):
    monkeypatch.setattr(limits, "LIMIT", 3.0)
    assert streams.grown("AESVC", NEAR, {}, 1)[-1]["remark"] == "stopped after 3 s"
    assert started == [100, 200]


def test_pictures_are_drawn_from_the_tables(tmp_path):
    growth = [
        {"program": "AESVC", "noise": NEAR, "n": 100_000, "seconds": 0.4},
        {"program": "AESVC", "noise": NEAR, "n": 10_000_000, "seconds": 40.0},
        {"program": "SVC", "noise": NEAR, "n": 10_000, "seconds": 1.0},
        {"program": "SVC", "noise": NEAR, "n": 1_000_000, "remark": "not started: so"},
        {"program": "intelex", "noise": NEAR, "n": 10_000, "remark": "stopped after 600 s"},
    ]
    shares = {"accuracy": 0.9, "labels as SVC %": 99.0, "relative gap": 1e-5}
    refinement = [
        {"data": "a9a", "C, gamma": setting, "program": "SVC", "seconds": 1.0, **shares}
        for setting in ("1, 1", "16, 1/4")
    ]
    tables = {f"{streams.GROWTH}, and so on": growth, "Refinement": refinement, "Another": []}
    paths = pictures.drawn({title: {"rows": rows} for title, rows in tables.items()}, tmp_path)
    of_tables = {"stream_growth.png", "how_close_1.png", "how_close_2.png"}
    assert {path.name for path in paths} == of_tables | {
        *("speed.png", "layers.png", "auto.png", "time_limit.png")
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert not list(tmp_path.rglob("*.partial.png"))
