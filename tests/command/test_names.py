"""Names of outputs: one that tells another kind of file than is written is refused."""

from __future__ import annotations

import pytest

from tests.command import files
from tests.command.files import done, run


@pytest.fixture
def rows(folder, capsys):
    """Rows, and models of them in both formats."""
    (folder / "rows.svm").write_text(files.libsvm_text(*files.heart_like(40)))
    done(capsys, "train", "-q", "rows.svm", "rows.model")
    done(capsys, "train", "-q", "rows.svm", "rows.aesvm")
    return folder


@pytest.mark.parametrize("name", ["x.csv", "x.TSV", "x.parquet", "x.npy", "x.model.gz"])
@pytest.mark.parametrize(
    "command",
    [
        "convert rows.aesvm {}",
        "convert rows.model {}",
        "train rows.svm {}",
        "fit rows.svm -o {}",
    ],
)
def test_models_are_not_written_to_names_of_data(command, name, rows, capsys):
    ended = run(capsys, *command.format(name).split())
    assert (ended.code, ended.out) == (2, "")
    assert f"{name}: a model" in ended.err
    assert ".aesvm" in ended.err
    assert not list(rows.glob("x.*"))


@pytest.mark.parametrize("name", ["x.aesvm", "x.onnx", "x.ONNX", "x.model"])
@pytest.mark.parametrize("command", ["convert rows.svm {}", "scale rows.svm -s x.range -o {}"])
def test_rows_are_not_written_to_names_of_models(command, name, rows, capsys):
    ended = run(capsys, *command.format(name).split())
    assert ended.code == 2
    assert f"{name}: rows are written" in ended.err
    assert ".csv, .parquet" in ended.err
    assert not list(rows.glob("x.*"))


@pytest.mark.parametrize(
    "command",
    [
        "train rows.svm x.onnx",
        "fit rows.svm -o x.onnx",
    ],
)
def test_convert_alone_writes_onnx_and_that_is_said(command, rows, capsys):
    ended = run(capsys, *command.split())
    assert ended.code == 2
    assert "x.onnx" in ended.err
    assert "aesvm convert" in ended.err
    assert not (rows / "x.onnx").exists()


def test_options_of_columns_are_of_data(rows, capsys):
    ended = run(capsys, "convert", "rows.aesvm", "x.model", "--target", "kind")
    assert ended.code == 2
    assert "--target is for data files, and rows.aesvm is a model" in ended.err
    ended = run(capsys, "convert", "rows.aesvm", "x.model", "-W", "weights")
    assert "-W is for data files, and rows.aesvm is a model" in ended.err


def test_models_may_have_any_other_name(rows, capsys):
    for name in ("x", "x.svm", "x.txt", "x.libsvm"):
        done(capsys, "convert", "rows.aesvm", name)
        assert (rows / name).read_text() == (rows / "rows.model").read_text()


def test_names_in_capitals_tell_the_same(rows, capsys):
    done(capsys, "train", "rows.svm", "x.AESVM")
    done(capsys, "info", "x.AESVM")
    assert (rows / "x.AESVM").read_bytes()[:2] == (rows / "rows.aesvm").read_bytes()[:2]
