"""Classes as they are read, compared and written: what they stand for is not lost on the way."""

from __future__ import annotations

import json

import numpy as np
import pytest

import aesvm
from aesvm.command.formats import as_number, equal_labels, label_text, meaning
from tests.command import files
from tests.command.files import done, run


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Two classes that are far apart, 1 and 2."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 2)).round(3)
    y = np.repeat([1, 2], 20)
    return X + 10 * (y == 2)[:, None], y


def accuracy(capsys, *arguments):
    return done(capsys, "predict", "--json", *arguments).json["accuracy"]


def test_text_and_numbers_are_compared_as_what_they_stand_for(rows, tmp_path, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = rows
    (tmp_path / "num.csv").write_text(files.csv_text(X, y))
    X_more = np.vstack([[[-20.0, -20.0]] * 5, X])
    y_more = [*"xxxxx", *map(str, y)]
    (tmp_path / "text.csv").write_text(files.csv_text(X_more, y_more))
    (tmp_path / "rows.svm").write_text(files.libsvm_text(X, y))
    for name, labels in (("whole", y), ("text", y.astype(str))):
        table = {"f0": X[:, 0], "f1": X[:, 1], "kind": labels.tolist()}
        pq.write_table(pa.table(table), f"{name}.parquet")
        np.save(f"{name}.npy", labels)
    np.save("X.npy", X)
    for data in ("num.csv", "text.csv", "text.parquet", "whole.parquet"):
        done(capsys, "train", "-q", data, "m.aesvm", "--target", "kind")
        for other in ("num.csv", "text.parquet", "whole.parquet", "rows.svm"):
            assert accuracy(capsys, other, "m.aesvm") == 100.0, (data, other)
        for labels in ("whole.npy", "text.npy"):
            assert accuracy(capsys, "X.npy", "m.aesvm", "--target", labels) == 100.0, (data, labels)


def test_a_table_is_read_with_classes_of_the_kind_that_the_model_has(rows, tmp_path, capsys):
    """Text that numbers would not tell apart."""
    X, y = rows
    labels = np.where(y == 1, "1", "01")
    (tmp_path / "all.csv").write_text(files.csv_text(X, labels))
    done(capsys, "train", "-q", "all.csv", "m.aesvm", "--target", "kind", "--classes", "strings")
    assert aesvm.load("m.aesvm").classes_.tolist() == ["01", "1"]
    assert accuracy(capsys, "all.csv", "m.aesvm") == 100.0


def test_weights_are_of_classes_of_text_too(rows, tmp_path, capsys):
    X, y = rows
    (tmp_path / "t.csv").write_text(files.csv_text(X, y))
    train = ["train", "t.csv", "m.aesvm", "--target", "kind", "--classes", "strings", "-w1", 3]
    assert "not found" not in done(capsys, *train).err
    assert aesvm.load("m.aesvm").class_weight_.tolist() == [3.0, 1.0]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_keep_all_their_digits(dtype, rows, tmp_path, capsys):
    X, y = rows
    labels = np.where(y == 1, np.iinfo(dtype).max, np.iinfo(dtype).max - 1).astype(dtype)
    np.save("X.npy", X)
    np.save("y.npy", labels)
    done(capsys, "train", "-q", "X.npy", "m.aesvm", "--target", "y.npy")
    done(capsys, "predict", "X.npy", "m.aesvm", "out")
    assert (tmp_path / "out").read_text().split() == [str(one) for one in labels.tolist()]
    done(capsys, "convert", "X.npy", "rows.csv", "--target", "y.npy")
    written = [line.split(",")[-1] for line in (tmp_path / "rows.csv").read_text().split()[1:]]
    assert written == [str(one) for one in labels.tolist()]
    ended = run(capsys, "train", "-q", "rows.csv", "n.aesvm", "--target", "target")
    assert ended.code == 1
    assert 'classes="strings"' in ended.err
    read = ["rows.csv", "--target", "target", "--classes", "strings"]
    done(capsys, "train", "-q", *read, "n.aesvm")
    assert accuracy(capsys, "rows.csv", "n.aesvm") == 100.0
    assert accuracy(capsys, "X.npy", "n.aesvm", "--target", "y.npy") == 100.0


def test_classes_that_are_numbers_at_first_can_be_read_as_text(rows, tmp_path, capsys):
    X, y = rows
    labels = [*y[:-1], "unknown"]
    (tmp_path / "rows.csv").write_text(files.csv_text(X, labels))
    ended = run(capsys, "train", "-q", "rows.csv", "m.aesvm", "--target", "kind")
    assert ended.code == 1
    assert "rows.csv, line 41" in ended.err
    assert 'classes="strings"' in ended.err
    read = ["rows.csv", "--target", "kind", "--classes", "strings"]
    done(capsys, "train", "-q", *read, "m.aesvm")
    assert aesvm.load("m.aesvm").classes_.tolist() == ["1", "2", "unknown"]
    assert run(capsys, "train", "rows.csv", "--target", "kind", "--classes", "words").code == 2


def test_a_class_with_a_line_break_is_not_written_as_lines(rows, tmp_path, capsys):
    X, y = rows
    labels = np.where(y == 1, "one", '"two\nlines"')
    (tmp_path / "rows.csv").write_text(files.csv_text(X, labels))
    done(capsys, "train", "-q", "rows.csv", "m.aesvm", "--target", "kind")
    ended = run(capsys, "predict", "rows.csv", "m.aesvm", "out")
    assert ended.code == 1
    assert "line break" in ended.err
    assert not (tmp_path / "out").exists()
    found = done(capsys, "predict", "--json", "rows.csv", "m.aesvm").json
    assert found["predictions"] == [one.strip('"') for one in labels]


def test_features_cannot_be_named_in_another_order_than_the_model_has(rows, tmp_path, capsys):
    X, y = rows
    X = X * [1.0, 0.0] + [0.0, 3.0] * (1 + np.arange(40) % 3)[:, None]
    (tmp_path / "rows.csv").write_text(files.csv_text(X, y, names=["a", "b"]))
    done(capsys, "train", "-q", "rows.csv", "m.aesvm", "--target", "kind")
    assert accuracy(capsys, "rows.csv", "m.aesvm", "--features", "b,a") == 100.0
    ended = run(capsys, "predict", "rows.csv", "m.aesvm", "--features", "a,kind")
    assert ended.code == 2
    assert "trained on the columns a, b" in ended.err


@pytest.mark.parametrize("make", [lambda y: y, lambda y: np.where(y == 1, "in", "out")])
def test_outliers_under_other_names_are_warned_of(make, rows, tmp_path, capsys):
    X, y = rows
    labels = make(y + 5 if make(y)[0] == 1 else y)
    (tmp_path / "rows.csv").write_text(files.csv_text(X, labels))
    read = ["rows.csv", "--target", "kind"]
    done(capsys, "train", "-q", "-s", 2, *read, "m.aesvm")
    ended = done(capsys, "predict", "-q", "rows.csv", "m.aesvm", "out")
    assert "none of the classes in rows.csv is a class of the model" in ended.err
    ended = done(capsys, "train", "-q", "-s", 2, "-v", 3, *read)
    assert "none of the classes in rows.csv is a class of the model" in ended.err


def test_folds_need_targets_to_compare_with(rows, tmp_path, capsys):
    np.save("X.npy", rows[0])
    ended = run(capsys, "train", "-s", 2, "-v", 2, "X.npy")
    assert ended.code == 2
    assert json.loads(run(capsys, "train", "-s", 2, "-v", 2, "--json", "X.npy").out)["error"]


def test_labels_are_written_with_all_their_digits_and_compared_as_numbers():
    numbers = [1.0, 0.1, "cat", 2**62 + 1]
    written = ["1", "0.10000000000000001", "cat", "4611686018427387905"]
    assert list(map(label_text, numbers)) == written
    assert meaning("1") == meaning(1.0) == meaning("1.0") == 1
    assert meaning("cat") == "cat"
    assert equal_labels(np.array(["1", "2", "x"]), np.array([1.0, 1.0, 2.0])).tolist() == [1, 0, 0]
    assert [as_number(one) for one in ("1e3", "cat", "1_000")] == [1000.0, None, None]
