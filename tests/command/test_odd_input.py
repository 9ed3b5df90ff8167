"""Files and arguments out of the ordinary: an answer, or an error that says what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests import children
from tests.command import files
from tests.command.files import PROGRAM, done, run

pytestmark = pytest.mark.usefixtures("folder")


class TestScale:
    def test_features_that_are_all_constant_leave_the_labels(self, folder, capsys):
        (folder / "rows").write_text("1 1:2 2:3\n-1 1:2 2:3\n")
        assert done(capsys, "scale", "rows").out == "1 \n-1 \n"

    @pytest.mark.parametrize("index", [2 * 10**7, 2 * 10**9])
    def test_a_large_index_takes_no_memory(self, index, folder, capsys):
        (folder / "range").write_text(f"x\n0 1\n1 0 2\n{index} 0 4\n")
        (folder / "rows").write_text(f"1 1:1 {index}:1\n-1 1:2\n")
        ended = done(capsys, "scale", "-r", "range", "rows")
        assert ended.out == f"1 1:0.5 {index}:0.25 \n-1 1:1 \n"
        command = children.code(
            "import sys; from pathlib import Path; from aesvm.command.main import main; "
            "code = main(sys.argv[1:]); status = Path('/proc/self/status'); "
            "lines = status.read_text().splitlines() if status.exists() else ['VmHWM: 0']; "
            "print(*(one.split()[1] for one in lines if 'VmHWM' in one), code, file=sys.stderr)",
            *("scale", "-l", 0, "rows"),
        )
        with children.started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(timeout=children.LIMIT)
        kilobytes, code = map(int, err.split()[-2:])
        assert code == 0
        assert out == f"1 {index}:1 \n-1 1:1 \n"
        assert kilobytes < 1_000_000  # of this program alone, where the system tells

    def test_zeros_that_move_are_written_and_others_are_not(self, folder, capsys):
        """Feature 2 lies between -1 and 3, and is 0 where it is not stored."""
        (folder / "rows").write_text("1 1:1 2:3\n-1 2:-1 5:4\n1 1:2\n")
        lines = done(capsys, "scale", "-l", 0, "rows").out.splitlines()
        assert lines == ["1 1:0.5 2:1 ", "-1 5:1 ", "1 1:1 2:0.25 "]
        lines = done(capsys, "scale", "rows").out.splitlines()
        assert lines == ["1 2:1 5:-1 ", "-1 1:-1 2:-1 5:1 ", "1 1:1 2:-0.5 5:-1 "]

    def test_a_range_of_targets_alone_is_refused_with_its_line(self, folder, capsys):
        (folder / "rows").write_text("1 1:1\n-1 1:2\n")
        for text, line in (("y\n", 1), ("y\n0 1\n", 2), ("y\n0 1\n-1 1\n", 3), ("", 1)):
            (folder / "range").write_text(text)
            ended = run(capsys, "scale", "-r", "range", "rows")
            assert ended.code == 1
            assert ended.err.startswith(f"aesvm: range, line {line}: ")

    def test_a_range_of_a_column_that_is_not_there_is_refused(self, folder, capsys):
        (folder / "rows.csv").write_text("a,b\n1,2\n2,3\n")
        (folder / "range").write_text("x\n0 1\n1 0 2\n3 0 4\n")
        ended = run(capsys, "scale", "-r", "range", "rows.csv")
        assert ended.code == 1
        assert "feature 3" in ended.err


def test_an_array_without_columns_has_nothing_in_it(capsys):
    np.save("none.npy", np.empty((3, 0)))
    ended = run(capsys, "info", "--json", "none.npy")
    assert ended.code in (0, 1)
    assert "fault" not in ended.err


def test_standard_input_that_is_closed_is_said_to_be(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    ended = run(capsys, "train", "-", "model")
    assert (ended.code, ended.err) == (1, "aesvm: standard input is closed.\n")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
def test_signals_while_modules_are_imported(name, code, folder):
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, module, *_):\n"
        "        if module == 'aesvm.command.train':\n"
        f"            os.kill(os.getpid(), signal.{name})\n"
        "sys.meta_path.insert(0, Finder())\n" + PROGRAM
    )
    command = children.code(program, "train", "rows")
    with children.started(command, stderr=subprocess.PIPE) as process:
        _, err = process.communicate(timeout=children.LIMIT)
    assert process.returncode == code
    assert err == f"aesvm: {'interrupted' if name == 'SIGINT' else 'terminated'}\n"


@pytest.fixture
def heart(folder):
    (folder / "heart").write_text(files.libsvm_text(*files.heart_like(40)))
    return folder


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("train", "--memory x"),
        ("train", "--memory 0"),
        ("train", "--hull-tol -1"),
        ("train", "--hull-tol nan"),
        ("train", "-g -1"),
        ("train -s 1", "-n 2"),
        ("train -s 3", "-p -1"),
        ("train -t 1", "-d -1"),
        ("train", "-c abc"),
        ("train", "--class-weight 1=x"),
    ],
)
def test_wrong_arguments_are_the_callers_and_not_of_the_data(command, wrong, heart, capsys):
    ended = run(capsys, *command.split(), *wrong.split(), "heart")
    assert ended.code == 2
    assert "heart" not in ended.err
    assert all(one in ended.err for one in wrong.split())


def test_a_weight_that_took_the_place_of_the_data_is_what_is_wrong(heart, capsys):
    """LIBSVM's -w1 without its number: the data file is read as that, and the model as the data."""
    ended = run(capsys, "train", "-w1", "heart", "model")
    assert ended.code == 2
    assert "--class-weight 1=heart: CLASS=WEIGHT is needed" in ended.err


@pytest.mark.parametrize("name", ["-", ""])
def test_a_model_is_read_from_a_file(name, heart, capsys):
    ended = run(capsys, "predict", "heart", name, "out")
    assert ended.code == 2
    assert f"'{name}': the name of a model file is needed" in ended.err


@pytest.mark.parametrize(
    "flags", ["-n 2", "-p -1", "-s 1 -c 0", "-s 2 -c -1", "-t 0 -g -1", "-d -1"]
)
def test_flags_that_do_not_apply_are_passed_by_as_libsvm_does(flags, heart, capsys):
    applies = [one for one in ("-s 1", "-s 2", "-t 0") if flags.startswith(one)]
    done(capsys, "train", "-q", *flags.split(), "heart", "one")
    done(capsys, "train", "-q", *"".join(applies).split(), "heart", "two")
    assert (heart / "one").read_text() == (heart / "two").read_text()


class TestMessages:
    def test_data_from_a_pipe_is_named_as_it_was_given(self, folder, capsys):
        os.mkfifo("pipe")
        writer = threading.Thread(target=(folder / "pipe").write_text, args=["1 1:1\n-1 1:two\n"])
        writer.start()
        ended = run(capsys, "train", "pipe", "model")
        writer.join(60)
        assert ended.code == 1
        assert ended.err.startswith("aesvm: pipe, line 2: ")

    def test_advice_names_flags_of_the_command(self, heart, capsys):
        (heart / "rows.csv").write_text("a,b,kind\n1,x,0\n2,y,1\n")
        ended = run(capsys, "convert", "rows.csv", "rows.parquet")
        assert "--drop" in ended.err
        assert done(capsys, "info", "--json", "rows.csv", "--drop", "b").json["features"] == 2
        ended = run(capsys, "train", "rows.csv", "--target", "kind", "--features", "f2")
        assert "--features f2: there is no such column" in ended.err
        ended = run(capsys, "train", "rows.csv", "--target", "sort")
        assert "--target sort: there is no such column" in ended.err
        (heart / "zero").write_text("1 0:1 1:1\n-1 1:2\n")
        ended = run(capsys, "train", "zero")
        assert "-t 4" in ended.err

    @pytest.mark.parametrize("kind", ["parquet", "npy"])
    def test_a_value_that_is_not_finite_has_its_place(self, kind, folder, capsys):
        X = np.random.default_rng(0).normal(size=(30, 3))
        X[17, 1] = np.nan
        y = np.arange(30) % 2
        target, where = ["--target", "kind"], "row 18, column 'b'"
        if kind == "npy":
            np.save("rows.npy", np.column_stack([X, y]))
            target, where = ["--target", "3"], "row 18, column '1'"
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": y}
            pq.write_table(pa.table(table), "rows.parquet")
        for command in ("train", "fit") if kind == "npy" else ("train",):
            ended = run(capsys, command, f"rows.{kind}", *target)
            assert ended.code == 1
            assert f"rows.{kind}: {where}: nan is not a finite number" in ended.err
            assert len(ended.err) < 200

    def test_text_of_libsvms_may_begin_with_a_comment(self, heart, capsys):
        (heart / "commented").write_text("# rows\n\n# of a heart\n" + (heart / "heart").read_text())
        done(capsys, "train", "-q", "commented", "one")
        done(capsys, "train", "-q", "heart", "two")
        assert (heart / "one").read_text() == (heart / "two").read_text()
        (heart / "table").write_text("#a,b\n1,2\n3,1\n")
        assert done(capsys, "info", "--json", "table").json["format"] == "csv"


def test_progress_knows_how_far_a_file_is_read(folder, capsys):
    from aesvm.command.data import DataOptions, opened

    np.save("rows.npy", np.random.default_rng(0).normal(size=(100_000, 3)))
    (folder / "weights").write_text("1\n" * 100_000)
    with opened("rows.npy", DataOptions(target="0", weights_file="weights")) as file:
        chunks = iter(file.reader)
        places = [chunks.position for _ in chunks]
        assert 0 < places[0] < places[-1] == file.reader.n_bytes
