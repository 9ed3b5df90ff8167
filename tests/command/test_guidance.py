"""What the program says to somebody who does not know it yet: in its own words, and enough."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons

from aesvm import AESVC, AENuSVC
from aesvm.command.screen import line_of
from aesvm.runtime.warn import ParameterError
from tests.command import files
from tests.command.files import done, run


def test_rows_go_to_a_table_and_back(heart, capsys):
    path, _, _ = heart
    done(capsys, "convert", path, "rows.csv")
    back = done(capsys, "convert", "rows.csv", "back.svm")
    assert "the target is the column 'target'" in back.err
    done(capsys, "convert", path, "again.svm")
    assert (path.parent / "back.svm").read_text() == (path.parent / "again.svm").read_text()
    assert "target" in (path.parent / "rows.csv").read_text().splitlines()[0]


def test_labels_that_are_made_up_are_warned_of(table, capsys):
    ended = done(capsys, "convert", table[0], "rows.svm", "--drop", "kind")
    assert "there is no --target: every label is 0" in ended.err
    assert not done(capsys, "convert", table[0], "other.csv", "--drop", "kind").err


def test_info_shows_no_parameters_that_the_kernel_does_not_have(heart, capsys):
    for kernel, expected in (("1", {"degree", "coef0"}), ("2", set()), ("3", {"coef0"})):
        done(capsys, "train", "-q", "-t", kernel, heart[0], "some.aesvm")
        found = done(capsys, "info", "some.aesvm", "--json").json
        assert {"degree", "coef0"} & set(found) == expected


def test_info_says_which_columns_are_no_features(table, capsys):
    found = done(capsys, "info", table[0], "--json").json
    assert (found["rows"], found["features"]) == (200, 6)
    assert found["columns_of_text"] == ["kind"]
    lines = table[0].read_text().splitlines()
    fields = lines[9].split(",")
    fields[2] = ""
    table[0].write_text("\n".join([*lines[:9], ",".join(fields), *lines[10:]]) + "\n")
    found = done(capsys, "info", table[0], "--target", "kind", "--json").json
    assert found["columns_with_missing_values"] == ["f2"]
    assert found["features"] == 5
    assert set(found["classes"]) == {"sick", "well"}


def test_info_of_parquet_says_which_columns_are_no_features(tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = {"a": [1.0, 2.0], "b": ["x", "y"], "c": [None, 1.0]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    found = done(capsys, "info", tmp_path / "rows.parquet", "--json").json
    assert found["columns_of_text"] == ["b"]
    assert found["columns_with_missing_values"] == ["c"]


def test_info_does_not_pass_over_what_is_asked_for(table, capsys):
    text = table[0].read_text().replace(",sick\n", ",\n", 1)
    table[0].write_text(text)
    ended = done(capsys, "info", table[0], "--target", "kind", "--json")
    assert ended.json["rows"] == 199
    assert "1 rows without a target" in ended.err


def test_info_shows_classes_as_files_have_them(heart, capsys):
    shown = done(capsys, "info", heart[0]).out
    assert re.search(r"classes +-1: [0-9]+, 1: [0-9]+", shown)
    assert re.search(r"values that are not zero +[0-9.]+%", shown)
    assert "streamed" not in shown
    done(capsys, "train", "-q", heart[0], "heart.aesvm")
    assert re.search(r"classes +-1, 1 ", done(capsys, "info", "heart.aesvm").out)


def test_columns_that_are_not_listed_are_counted(tmp_path, capsys):
    names = [f"x{at}" for at in range(23)]
    text = files.csv_text(np.ones((4, 23)), "abab", names=names)
    (tmp_path / "rows.csv").write_text(text)
    assert "x19 and 4 more." in run(capsys, "train", tmp_path / "rows.csv").err


def test_switches_take_no_value_in_the_help(capsys):
    for command in ("train", "convert", "fit"):
        shown = done(capsys, command, "--help").out
        assert "--json" in shown
        assert "bool" not in shown.lower()


def test_a_target_that_is_not_there_is_named_by_its_flag(table, capsys):
    ended = run(capsys, "fit", table[0], "--target", "Kind")
    assert "--target Kind: there is no such column" in ended.err
    assert "which has " in ended.err
    assert "kind" in ended.err


def test_compress_says_what_its_argument_is_called():
    X, y = files.heart_like()
    with pytest.raises(TypeError, match="compress has no max_vectors: n_vectors is the most"):
        AESVC().fit(X, y).compress(max_vectors=10)


def test_the_examples_of_the_page_run(heart, capsys):
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text("utf-8")
    section = page.split("## Models and data, one command each")[1].split("\n## ")[0]
    commands = re.findall(r"^    aesvm (.*)$", section, re.MULTILINE)
    assert {line.split()[0] for line in commands} >= {"train", "predict", "convert", "info"}
    heart[0].rename("rows.svm")
    for line in commands:
        done(capsys, *shlex.split(line, comments=True))
    assert Path("small.model").exists()


def test_scale_does_not_advise_what_was_done(tmp_path, capsys):
    (tmp_path / "rows").write_text("1 1:-1 2:3\n-1 2:1\n1 2:0\n-1 1:2\n")
    args = ["-o", tmp_path / "scaled"]
    assert "with -l 0, features" in done(capsys, "scale", tmp_path / "rows", "-u", "3", *args).err
    for_zero = done(capsys, "scale", "-l", "0", tmp_path / "rows", *args).err
    assert "values were not zero" in for_zero
    assert "-l 0" not in for_zero


def test_the_report_of_a_fit_can_be_read_in_the_dark(heart, capsys):
    done(capsys, "fit", heart[0], "-q", "--search-rows", "30")
    page = (heart[0].parent / "heart.html").read_text()
    assert "prefers-color-scheme: dark" in page


def test_a_target_keeps_its_digits_from_table_to_table(folder, capsys):
    rows = [f"{k},{9007199254740992 + k % 2}" for k in range(20)]
    (folder / "big.csv").write_text("\n".join(["a,target", *rows]) + "\n")
    done(capsys, "convert", "big.csv", "copy.csv", "--classes", "strings")
    assert (folder / "copy.csv").read_text().split() == (folder / "big.csv").read_text().split()


def test_rows_on_standard_output_are_nothing_but_rows(folder, capsys):
    (folder / "rows.svm").write_text("1 1:0.5\n-1 1:2\n")
    ended = done(capsys, "convert", "rows.svm", "/dev/stdout")
    assert ended.out == done(capsys, "convert", "rows.svm", "-").out


def test_models_of_a_gpu_predict_on_the_processor(folder, capsys):
    X, y = make_moons(60, noise=0.1, random_state=0)
    model = AESVC(gamma=1.0).fit(X, y).set_params(device="cuda")
    model.save(folder / "gpu.aesvm")
    rows = [f"{c} 1:{a:.17g} 2:{b:.17g}" for (a, b), c in zip(X, y, strict=True)]
    (folder / "rows.svm").write_text("\n".join(rows) + "\n")
    done(capsys, "predict", "rows.svm", "gpu.aesvm", "labels")
    assert [float(one) for one in (folder / "labels").read_text().split()] == list(
        model.set_params(device="cpu").predict(X)
    )


def test_a_parameter_that_an_error_carries_is_named_by_its_flag():
    error = ParameterError("memory_budget", "memory_budget=1 cannot hold a row.")
    assert line_of(error) == "memory_budget=1 cannot hold a row. (memory_budget is --memory)"


def test_errors_of_estimators_carry_it():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 1]
    with pytest.raises(ValueError, match="nu is infeasible") as raised:
        AENuSVC(nu=0.9).fit(X, y)
    assert line_of(raised.value).endswith("(nu is -n)")


def test_other_lines_stay_as_they_are():
    text = "runs/nu=0.1/rows: line 2: the value of index 1 '2:3' is not a number."
    assert line_of(ValueError(text)) == text
