"""The benchmark of streams: its watch, its data, its limit and its picture."""

from __future__ import annotations

import json
import os
import subprocess
import time

import numpy as np
import psutil
import pytest

from benchmarks import pictures, processes, stream_growth
from benchmarks.processes import Watch, measured
from benchmarks.report import Report
from benchmarks.stream_growth import BLOCK, COLUMNS, NEAR, Generated, expected, expected_rows
from tests import children

MB = 2**20

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
    assert X.shape == (100_000, stream_growth.FEATURES)
    assert 0.4 < y.mean() < 0.6


def test_a_prefix_is_a_prefix_and_fresh_rows_are_others():
    X, y = Generated(NEAR, 70_000).rows(0, 70_000)
    fewer, labels = Generated(NEAR, 66_000).rows(0, 66_000)
    np.testing.assert_array_equal(fewer, X[:66_000])
    np.testing.assert_array_equal(labels, y[:66_000])
    fresh, _ = Generated(NEAR, 1000, seed=1).rows(0, 1000)
    assert not np.isin(fresh[:, 0], X[:, 0]).all()


def test_what_is_expected_goes_by_the_last_two_runs():
    assert expected([], 1000) == 0.0
    assert expected([(100, 2.0)], 300) == pytest.approx(6.0)
    assert expected([(10, 50.0), (100, 1.0), (200, 4.0)], 400) == pytest.approx(16.0)
    assert expected([(100, 2.0), (200, 2.0)], 400) == pytest.approx(4.0)
    assert expected_rows([(100, 1.0), (200, 4.0)], 16.0) == pytest.approx(400)


@pytest.fixture
def small(monkeypatch):
    """A benchmark of a few rows, whose programs are not run; the seconds of each size."""
    seconds = {100: 1.0, 200: 4.0, 400: 16.0}
    started = []

    def pretended(command, limit, cwd):
        _, _, n, _, _ = json.loads(command[-1])
        started.append(n)
        if seconds[n] > limit:
            return None, 0
        return {"seconds": seconds[n], "held": 7, "accuracy": 0.9, "bound": 1e-3}, 2**30

    monkeypatch.setattr(processes, "measured", pretended)
    monkeypatch.setattr(stream_growth, "ROWS", tuple(seconds))
    monkeypatch.setattr(stream_growth, "RUNS", (("AESVC", NEAR),))
    return seconds, started


def rows_of(report: Report) -> list[dict]:
    (table,) = json.loads(report.path.read_text())["tables"]
    return [dict(zip(COLUMNS, row, strict=True)) for row in table["rows"]]


@linux
def test_a_run_that_would_take_too_long_is_not_started(small, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_growth, "LIMIT", 15.0)
    report = Report(tmp_path)
    stream_growth.run(report, 1, 1)
    lines = rows_of(report)
    assert small[1] == [100, 200]
    assert [line["seconds"] for line in lines] == [1.0, 4.0, ""]
    assert lines[1]["exponent"] == lines[1]["exponent from the first"] == "2.00"
    assert lines[2]["remark"] == "not started: some 16 s expected"


@linux
def test_a_run_that_takes_longer_than_expected_ends_the_line(small, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_growth, "LIMIT", 3.0)
    report = Report(tmp_path)
    stream_growth.run(report, 1, 1)
    assert small[1] == [100, 200]
    assert rows_of(report)[-1]["remark"] == "stopped after 3 s"


def made_up(program: str, noise: float, points: dict, remark: str = "") -> list[list]:
    lines = [[noise, program, n, seconds, *[""] * 8] for n, seconds in points.items()]
    lines[-1][-1] = remark
    return lines


def test_the_picture_is_drawn_from_the_table(tmp_path):
    table = {
        "title": f"{stream_growth.TITLE}, and so on",
        "columns": COLUMNS,
        "rows": [
            *made_up("AESVC", NEAR, {100_000: 0.4, 10_000_000: 40.0}),
            *made_up("SVC", NEAR, {10_000: 1.0, 100_000: 90.0, 1_000_000: ""}, "not started: so"),
            *made_up("intelex", 0.01, {10_000: 1.0, 200_000: ""}, "stopped after 600 s"),
            *made_up("intelex", NEAR, {10_000: ""}, "stopped after 600 s"),
        ],
    }
    (path,) = pictures.pictures(table, tmp_path / "docs")
    assert path.name == "stream_growth.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert pictures.pictures({**table, "title": "Another"}, tmp_path) == []


def test_refinement_is_still_drawn(tmp_path):
    columns = ["data", "C, gamma", "program", "seconds", *(key for key, _, _ in pictures.PANELS)]
    rows = [["a9a", setting, "SVC", 1.0, 0.9, "", 1e-5] for setting in ("1, 1", "16, 1/4")]
    table = {"title": "Refinement, so many threads", "columns": columns, "rows": rows}
    paths = pictures.pictures(table, tmp_path)
    assert [path.name for path in paths] == ["how_close_1.png", "how_close_2.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
