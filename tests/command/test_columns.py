"""Columns of tables: which of them is learned, which has weights, where both are written."""

from __future__ import annotations

import numpy as np
import pytest

from aesvm.command.app import program
from aesvm.command.data import DataOptions, opened
from tests.command import files
from tests.command.files import done, run

#: Weights in the midst of the features, and targets.
TABLE = "a,mass,b,target\n1,2,0.5,7\n2,1,4,-3\n3,1,1,7\n4,1,2,-3\n"


@pytest.fixture
def rows(folder):
    (folder / "rows.csv").write_text(TABLE)
    return folder


def write_parquet(folder):
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(folder / "rows.csv"), folder / "rows.parquet")


def test_options_of_columns_are_those_that_data_files_know():
    for command in program().commands.values():
        for option in command.params:
            if getattr(option, "rich_help_panel", None) == "Columns of tables":
                assert option.name in (*DataOptions._fields, "group"), command.name


class TestTarget:
    """The column ``target``, which tables made of LIBSVM's text have, is the one to learn."""

    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_scale_leaves_it_as_it_is(self, kind, rows, capsys):
        if kind == "parquet":
            write_parquet(rows)
        ended = done(capsys, "scale", f"rows.{kind}", "-o", "scaled.csv")
        assert "the target is the column 'target'" in ended.err
        with opened("scaled.csv", DataOptions()) as file:
            assert file.rows().y.tolist() == [7, -3, 7, -3]
            assert np.abs(file.rows().X).max() == 1.0

    def test_scale_with_the_limits_of_targets_scales_it_to_these(self, rows, capsys):
        done(capsys, "scale", "rows.csv", "-y", 0, 1, "-o", "scaled.csv")
        with opened("scaled.csv", DataOptions()) as file:
            assert file.rows().y.tolist() == [1, 0, 1, 0]

    def test_commands_agree(self, rows, capsys):
        said = "the target is the column 'target'"
        (rows / "rows.csv").write_text(files.csv_text(*files.heart_like(60), target="target"))
        for command in (
            "train rows.csv one.model",
            "convert rows.csv rows.svm",
            "fit rows.csv --search-rows 30 -o fit.aesvm",
        ):
            assert said in done(capsys, *command.split()).err
        done(capsys, "train", "-q", "rows.csv", "two.model", "--target", "target")
        assert (rows / "one.model").read_text() == (rows / "two.model").read_text()
        assert done(capsys, "info", "rows.csv", "--json").json["features"] == 6
        assert "Accuracy" in done(capsys, "predict", "rows.csv", "one.model", "out").out
        assert said in done(capsys, "train", "-s", 2, "rows.csv", "one_class.model").err
        assert done(capsys, "info", "one_class.model", "--json").json["features"] == 6

    def test_it_is_a_feature_where_that_is_said(self, rows, capsys):
        done(capsys, "scale", "rows.csv", "--features", "a,target", "-o", "features.csv")
        lines = (rows / "features.csv").read_text().splitlines()
        assert lines[0] == "a,target"
        assert lines[1] == "-1,1"
        done(capsys, "scale", "rows.csv", "--target", "a", "-o", "another.csv")
        assert (rows / "another.csv").read_text().splitlines()[0] == "mass,b,target,a"
        ended = done(capsys, "scale", "rows.csv", "--drop", "target", "-o", "less.csv")
        assert (rows / "less.csv").read_text().splitlines()[0] == "a,mass,b"
        assert "column" not in ended.err

    def test_a_model_that_learned_from_it_is_given_it(self, rows, capsys):
        done(capsys, "train", "-q", "-s", 3, "rows.csv", "m.aesvm", "--target", "b")
        (rows / "new.csv").write_text("target,a,mass\n7,1,2\n-3,2,1\n")
        done(capsys, "predict", "-q", "new.csv", "m.aesvm", "out")
        done(capsys, "predict", "-q", "rows.csv", "m.aesvm", "known")
        known = (rows / "known").read_text().splitlines()
        assert (rows / "out").read_text().splitlines() == known[:2]


class TestWeights:
    def test_convert_writes_them_beside_libsvms_rows_and_back(self, rows, capsys):
        found = done(capsys, "convert", "rows.csv", "rows.svm", "--weight", "mass", "--json").json
        assert found["output"] == ["rows.svm", "rows.svm.weights"]
        assert (rows / "rows.svm.weights").read_text().split() == ["2", "1", "1", "1"]
        assert (rows / "rows.svm").read_text().splitlines()[0].split() == ["7", "1:1", "2:0.5"]
        done(capsys, "convert", "rows.svm", "back.csv", "-W", "rows.svm.weights")
        with opened("back.csv", DataOptions(weight="weight")) as file:
            assert file.rows().weights.tolist() == [2, 1, 1, 1]

    @pytest.mark.parametrize("command", ["convert", "scale"])
    @pytest.mark.parametrize("kind", ["csv", "parquet"])
    def test_they_keep_their_name_in_tables(self, command, kind, rows, capsys):
        write_parquet(rows)
        output = [f"out.{kind}"] if command == "convert" else ["-o", f"out.{kind}"]
        done(capsys, command, "rows.csv", *output, "--weight", "mass")
        with opened(f"out.{kind}", DataOptions(weight="mass")) as file:
            found = file.rows()
            assert file.feature_names == ["a", "b"]
        assert found.weights.tolist() == [2, 1, 1, 1]
        assert found.y.tolist() == [7, -3, 7, -3]

    @pytest.mark.parametrize("output", ["-", "/dev/stdout"])
    def test_of_libsvms_rows_they_need_a_file(self, output, rows, capsys):
        ended = run(capsys, "convert", "rows.csv", output, "--weight", "mass", "--format", "csv")
        assert ended.code == 0
        assert ended.out.splitlines()[0] == "a,b,target,mass"
        done(capsys, "convert", "rows.csv", "rows.svm", "--weight", "mass")
        ended = run(capsys, "convert", "rows.svm", output, "-W", "rows.svm.weights")
        assert (ended.code, ended.out) == (2, "")
        assert "a file beside them" in ended.err

    def test_their_file_is_no_input_and_is_refused_before_rows_are_written(self, rows, capsys):
        (rows / "out.svm.weights").mkdir()
        ended = run(capsys, "convert", "rows.csv", "out.svm", "--weight", "mass")
        assert ended.code == 1
        assert "out.svm.weights" in ended.err
        assert not (rows / "out.svm").exists()
