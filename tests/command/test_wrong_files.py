"""Files that are of another kind, in another encoding, or have columns without names."""

from __future__ import annotations

import numpy as np
import pytest

from tests.command import files
from tests.command.files import done, run


@pytest.fixture
def rows(folder):
    (folder / "rows.svm").write_text(files.libsvm_text(*files.heart_like(40)))
    (folder / "rows.csv").write_text(files.csv_text(*files.heart_like(40)))
    return folder


def refused(capsys, *arguments, code=1):
    ended = run(capsys, *arguments)
    assert ended.code == code
    assert ended.err.count("\n") == 1
    return ended.err


@pytest.mark.parametrize("model", ["m.model", "m.aesvm"])
@pytest.mark.parametrize("command", ["train {} x", "scale {} -o x", "predict {} m.model x"])
def test_a_model_in_place_of_data_is_said_to_be_one(command, model, rows, capsys):
    done(capsys, "train", "-q", "rows.svm", "m.model")
    done(capsys, "train", "-q", "rows.svm", "m.aesvm")
    said = refused(capsys, *command.format(model).split())
    assert f"{model}: this is a model file, and a data file is needed" in said
    assert not (rows / "x").exists()


@pytest.mark.parametrize("output", ["x.csv", "x.model", "x.aesvm"])
def test_graphs_are_not_converted_back(output, rows, capsys):
    (rows / "m.onnx").write_bytes(b"\x08\x08\x12\x08skl2onnx")
    for command in (["convert", "m.onnx", output], ["train", "m.onnx", "x"], ["info", "m.onnx"]):
        assert "m.onnx: this is an ONNX graph" in refused(capsys, *command)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
def test_text_of_utf_16_is_said_to_be_that(name, encoding, rows, capsys):
    text = (rows / name).read_text()
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (rows / name).write_text(mark + text, encoding=encoding)
    for command in ("train", "info"):
        assert f"{name}: the text is UTF-16: save it as UTF-8" in refused(capsys, command, name)


def test_names_of_columns_are_utf_8(rows, capsys):
    text = (rows / "rows.csv").read_text().replace("f2", "größe")
    (rows / "rows.csv").write_text(text)
    assert "größe" in done(capsys, "info", "rows.csv").out
    (rows / "rows.csv").write_text(text, encoding="latin-1")
    for command in ("train rows.csv m", "info rows.csv", "convert rows.csv x.csv"):
        said = refused(capsys, *command.split(), "--target", "kind")
        assert "rows.csv, line 1: the name of column 2 is not UTF-8: save the file as UTF-8" in said


def test_a_column_without_a_name_can_be_left_out_as_is_said(rows, capsys):
    lines = (rows / "rows.csv").read_text().splitlines()
    text = "".join(f"{at or ''},{line}\n" for at, line in enumerate(lines))
    (rows / "index.csv").write_text(text)
    said = refused(capsys, "train", "index.csv", "m", "--target", "kind")
    assert "--drop leaves it out, by its number from 0" in said
    done(capsys, "train", "-q", "index.csv", "one", "--target", "kind", "--drop", "0")
    done(capsys, "train", "-q", "rows.csv", "two", "--target", "kind")
    assert (rows / "one").read_text() == (rows / "two").read_text()


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        ("predict rows.svm m.model rows.d", "rows.d is a folder: the name of a file", 1),
        ("scale rows.svm -o no/x", "no/x: there is no folder 'no'", 1),
        ("train rows.csv m --target kind --features f0,kind", "--features: 'kind' is the", 2),
        ("train rows.csv m --target kind --features f0,f0", "--features: 'f0' is there twice", 2),
        ("train rows.csv m --target kind --features ,", "--features: names of columns", 2),
        ("train rows.csv m --target kind --weight kind", "--target and weight are one column", 2),
        ("train rows.csv m --target kind --weight f2", "rows.csv: a weight is negative", 1),
        ("train rows.svm m -W weights", "(sample_weight is --weight or -W)", 1),
    ],
)
def test_errors_have_the_words_of_the_command_line(arguments, said, code, rows, capsys):
    (rows / "rows.d").mkdir()
    (rows / "weights").write_text("1e300\n" * 40)
    done(capsys, "train", "-q", "rows.svm", "m.model")
    found = refused(capsys, *arguments.split(), code=code)
    assert said in found
    assert "path=" not in found


@pytest.mark.parametrize("command", ["train", "info", "scale"])
def test_a_name_that_is_empty_is_no_file(command, rows, capsys):
    assert "'': the name of a data file is needed" in refused(capsys, command, "", code=2)


def test_an_archive_is_no_table(folder, capsys):
    np.savez("rows.npz", a=np.arange(3), b=np.ones((4, 4)))
    for command in ("train", "info"):
        said = refused(capsys, command, "rows.npz")
        assert "rows.npz, line 1: this is neither LIBSVM's format nor a table" in said


def test_a_column_that_numbers_the_rows_cannot_be_learned(folder, capsys):
    text = files.csv_text(np.eye(12), [f"row {at}" for at in range(12)], target="id")
    (folder / "rows.csv").write_text(text)
    said = refused(capsys, "fit", "rows.csv", "--target", "id")
    assert "rows.csv: every row has another class" in said
    assert "--target" in said
    assert not (folder / "rows.aesvm").exists()
