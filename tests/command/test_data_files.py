"""Which rows and columns commands read, and what they write them as."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import aesvm
from aesvm.command.data import DataOptions, opened
from aesvm.command.formats import format_of
from aesvm.io import load_libsvm_model
from tests.command import files
from tests.command.files import done, run


class TestData:
    def test_formats_are_told_by_what_files_hold(self, tmp_path):
        X, y = files.heart_like()
        texts = {
            "a": (files.libsvm_text(X, y), "libsvm"),
            "b": (files.csv_text(X, y), "csv"),
            "c.tsv": (files.csv_text(X, y).replace(",", "\t"), "csv"),
            "d.txt": (files.csv_text(X, y).replace(",", ";"), "csv"),
        }
        for name, (text, kind) in texts.items():
            (tmp_path / name).write_text(text)
            assert format_of(tmp_path / name).kind == kind
        np.save(tmp_path / "x.npy", X)
        (tmp_path / "x.npy").rename(tmp_path / "e")
        assert format_of(tmp_path / "e").kind == "npy"

    def test_every_format_gives_the_same_model(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        X, y = files.heart_like()
        (tmp_path / "a").write_text(files.libsvm_text(X, y))
        (tmp_path / "b.csv").write_text(files.csv_text(X, y))
        np.save("c.npy", np.column_stack([X, y]))
        np.save("d.npy", X)
        np.save("y.npy", y)
        done(capsys, "convert", "b.csv", "e.parquet", "--target", "kind")
        targets = {
            "a": [],
            "b.csv": ["--target", "kind"],
            "c.npy": ["--target", "6"],
            "d.npy": ["--target", "y.npy"],
            "e.parquet": ["--target", "kind"],
        }
        for name, target in targets.items():
            done(capsys, "train", "-q", name, f"{name}.model", *target)
        texts = {(tmp_path / f"{name}.model").read_text() for name in targets}
        assert len(texts) == 1

    def test_compressed_text_is_read(self, heart, capsys):
        import gzip

        path, *_ = heart
        path.with_name("heart.gz").write_bytes(gzip.compress(path.read_bytes()))
        done(capsys, "train", "-q", path, "one")
        done(capsys, "train", "-q", "heart.gz", "two")
        assert path.with_name("one").read_text() == path.with_name("two").read_text()

    def test_a_table_without_a_header(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        X, y = files.heart_like()
        text = files.csv_text(X, y).partition("\n")[2]
        (tmp_path / "rows.csv").write_text(text)
        (tmp_path / "rows").write_text(files.libsvm_text(X, y))
        done(capsys, "train", "-q", "rows.csv", "one", "--target", "6")
        done(capsys, "train", "-q", "rows", "two")
        assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()
        done(capsys, "predict", "-q", "rows.csv", "one", "p", "--target", "-1")
        ended = run(capsys, "predict", "-q", "rows.csv", "one", "p")
        assert ended.code == 1
        assert "7 features" in ended.err

    @pytest.mark.parametrize("option", ["--features", "--drop", "--weight"])
    def test_arrays_have_no_columns_but_a_target(self, option, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        np.save("x.npy", np.column_stack(files.heart_like()))
        ended = run(capsys, "train", "x.npy", "--target", "6", option, "0")
        assert ended.code == 2
        assert f"{option}: x.npy is an array" in ended.err

    def test_columns_are_named_or_left_out_and_not_both(self, table, capsys):
        path, *_ = table
        ended = run(capsys, "train", path, "--target", "kind", "--features", "f0", "--drop", "f1")
        assert ended.code == 2
        assert "--features and --drop" in ended.err

    def test_columns_are_left_out_by_name_or_number(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        X, y = files.heart_like()
        named = files.csv_text(X, y)
        (tmp_path / "named.csv").write_text(named)
        (tmp_path / "bare.csv").write_text(named.partition("\n")[2])
        (tmp_path / "less.csv").write_text(files.csv_text(X[:, 2:], y))
        done(capsys, "train", "-q", "less.csv", "expected", "--target", "kind")
        for number, (name, ignored) in enumerate(
            [("named.csv", "f0,f1"), ("named.csv", "0,1"), ("bare.csv", "0,-6")]
        ):
            model = f"{number}.model"
            done(capsys, "train", "-q", name, model, "--target", "6", "--drop", ignored)
            assert (tmp_path / model).read_text() == (tmp_path / "expected").read_text()
        for name in ("named.csv", "bare.csv"):
            ended = run(capsys, "train", name, "--target", "6", "--drop", "7")
            assert ended.code == 2
            assert "--drop 7: there is no such column" in ended.err

    def test_a_column_that_the_model_needs_cannot_be_left_out(self, table, capsys):
        path, *_ = table
        done(capsys, "train", "-q", path, "m.aesvm", "--target", "kind")
        ended = run(capsys, "predict", path, "m.aesvm", "--drop", "f2")
        assert ended.code == 2
        assert "trained on that column" in ended.err

    def test_a_target_by_number_is_known_by_name(self, table, capsys):
        path, *_ = table
        done(capsys, "train", "-q", path, "m.aesvm", "--target", "6")
        assert aesvm.load("m.aesvm").target_name_ == "kind"

    @pytest.mark.parametrize(
        ("text", "header"),
        [
            ("5.1,3.5,setosa\n4.9,3.0,setosa\n", False),
            ("1,nan,3\n4,5,6\n", False),
            ("a,b,c\n1,2,3\n", True),
            (",a,b\n1,2,3\n", True),
            ("a,2,c\n1,2,3\n", True),
            ("0,1,2,kind\n5,6,7,setosa\n", True),
            ("1,,x\n4,5,y\n", False),
            ("5.1,3.5,setosa\n", False),
        ],
    )
    def test_the_first_line_is_a_header_where_it_names_columns(self, text, header, tmp_path):
        (tmp_path / "rows.csv").write_text(text)
        assert format_of(tmp_path / "rows.csv").header is header

    def test_commas_in_quotes_are_not_counted(self, tmp_path):
        (tmp_path / "rows").write_text('"a, b, c";d\n1;2\n')
        assert format_of(tmp_path / "rows").names == ["a, b, c", "d"]

    def test_a_name_that_two_columns_have_is_refused(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "rows.csv").write_text("a,a,b,kind\n1,2,3,0\n2,3,4,1\n")
        ended = run(capsys, "train", "rows.csv", "--target", "kind")
        assert ended.code == 1
        assert "two columns have the name 'a'" in ended.err
        done(capsys, "train", "-q", "rows.csv", "--target", "kind", "--features", "b")

    def test_an_index_that_the_model_does_not_know_takes_no_memory(self, heart, capsys):
        path, *_ = heart
        done(capsys, "train", "-q", "-g", 0.2, path, "model")
        done(capsys, "predict", "-q", path, "model", "expected")
        path.with_name("far").write_text("1 2000000000:1e-9\n" + path.read_text() * 100)
        done(capsys, "predict", "-q", "far", "model", "out")
        found = path.with_name("out").read_text().split()
        assert found[1:] == path.with_name("expected").read_text().split() * 100
        path.with_name("far").write_text("1 1:0.5 7:1e3\n")
        done(capsys, "predict", "-q", "far", "model", "out")
        model = load_libsvm_model("model")
        assert float(path.with_name("out").read_text()) == (1 if model.intercept_ > 0 else -1)

    def test_classes_that_the_model_does_not_know_are_warned_of(self, table, capsys):
        path, X, y = table
        done(capsys, "train", "-q", path, "m.aesvm", "--target", "kind")
        numbers = np.where(y == "sick", 1, -1)
        path.write_text(files.csv_text(X, numbers))
        ended = done(capsys, "predict", path, "m.aesvm", "out", "--target", "kind")
        assert "none of the classes in" in ended.err
        assert "-1, 1; sick, well" in ended.err


class TestStreamed:
    """Data that is not held in memory is treated as any other."""

    def test_weights_of_classes_that_do_not_occur_are_warned_of(self, heart, capsys):
        path, *_ = heart
        ended = done(capsys, "train", "-q", "-w9", 3, "-w+1", 2, "--memory", "2 kB", path, "model")
        assert "class label 9 specified in weight is not found" in ended.err

    def test_classes_are_in_the_order_of_the_data(self, heart, capsys):
        path, *_ = heart
        path.write_text(files.libsvm_text(*files.many_classes()))
        done(capsys, "train", "-q", path, "held")
        done(capsys, "train", "-q", "--memory", "2 kB", path, "streamed")
        lines = [path.with_name(name).read_text().splitlines() for name in ("held", "streamed")]
        labels = [[one for one in text if one.startswith("label")] for text in lines]
        assert labels[0] == labels[1]

    def test_labels_are_checked_before_training(self, heart, capsys):
        path, *_ = heart
        y = np.ones(70_000)
        y[::2], y[-1] = -1, 0.5  # in the second chunk
        path.write_text("".join(f"{label} 1:{label}\n" for label in y))
        ended = run(capsys, "train", "--memory", "2 kB", path, "model")
        assert ended.code == 1
        assert "ends with .aesvm" in ended.err


class TestOutput:
    """What rows are written as."""

    def test_text_is_no_label_of_libsvms(self, table, capsys):
        path, *_ = table
        ended = run(capsys, "convert", path, "rows.svm", "--target", "kind")
        assert ended.code == 1
        assert "LIBSVM's text has numbers" in ended.err
        assert not path.with_name("rows.svm").exists()

    @pytest.mark.parametrize("name", ["scaled.parquet", "scaled.csv", "scaled"])
    def test_scaled_tables_are_what_their_name_says(self, name, table, capsys):
        path, X, y = table
        done(capsys, "scale", path, "--target", "kind", "-o", name)
        with opened(name, DataOptions(target="kind")) as file:
            rows = file.rows()
            assert file.format.kind == (name.partition(".")[2] or "csv")
            assert file.feature_names == [f"f{at}" for at in range(6)]
        low, high = X.min(axis=0), X.max(axis=0)
        np.testing.assert_allclose(rows.X, 2 * (X - low) / (high - low) - 1, atol=1e-12)
        np.testing.assert_array_equal(rows.y, y)

    def test_a_scaled_table_without_names_has_none(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "rows.csv").write_text("1,2,0\n3,2,1\n")
        assert done(capsys, "scale", "rows.csv", "--target", "2").out == "-1,0\n1,1\n"

    def test_parquet_is_written_block_by_block(self, table, capsys, monkeypatch):
        pq = pytest.importorskip("pyarrow.parquet")
        path, X, y = table
        monkeypatch.setattr("aesvm.command.formats._BLOCK", 300)
        done(capsys, "convert", path, "rows.parquet", "--target", "kind")
        assert pq.ParquetFile("rows.parquet").num_row_groups == 4
        with opened("rows.parquet", DataOptions(target="kind")) as file:
            rows = file.rows()
        np.testing.assert_array_equal(rows.X, X)
        np.testing.assert_array_equal(rows.y, y)

    def test_json_with_predictions_on_standard_output_is_one_object(self, heart, capsys):
        path, _, y = heart
        done(capsys, "train", "-q", path, "model")
        found = done(capsys, "predict", "--json", path, "model", "-").json
        assert len(found["predictions"]) == len(y)
        assert not path.with_name("-").exists()

    def test_devices_and_pipes_are_written_to(self, heart, capsys):
        path, _, y = heart
        done(capsys, "train", "-q", path, "model")
        assert done(capsys, "predict", path, "model", "/dev/null").out.startswith("Accuracy = ")
        done(capsys, "train", "-q", path, "/dev/null")
        ended = done(capsys, "predict", "-q", path, "model", "/dev/stdout")
        assert len(ended.out.split()) == len(y)
        os.mkfifo("pipe")
        with ThreadPoolExecutor(1) as readers:
            lines = readers.submit(lambda: path.with_name("pipe").read_text().split())
            done(capsys, "predict", "-q", path, "model", "pipe")
            assert len(lines.result(60)) == len(y)

    def test_permissions_are_kept(self, heart, capsys):
        path, *_ = heart
        for mode in (0o600, 0o640):
            path.with_name("model").touch()
            path.with_name("model").chmod(mode)
            done(capsys, "train", "-q", path, "model")
            assert path.with_name("model").stat().st_mode & 0o777 == mode

    def test_a_model_is_read_from_a_pipe(self, heart, capsys):
        path, _, y = heart
        done(capsys, "train", "-q", path, "model")
        done(capsys, "train", "-q", path, "model.aesvm")
        os.mkfifo("pipe")
        for content in ("model", "model.aesvm"):
            with ThreadPoolExecutor(1) as writers:
                writers.submit(
                    path.with_name("pipe").write_bytes, path.with_name(content).read_bytes()
                )
                ended = done(capsys, "predict", "-q", path, "pipe", "out")
            assert ended.err == ""
            predicted = path.with_name("out").read_text().split()
            assert len(predicted) == len(y)

    def test_rows_go_to_standard_output(self, heart, table, capsys):
        path, X, _ = heart
        lines = done(capsys, "convert", path, "-").out.splitlines()
        assert len(lines) == len(X)
        done(capsys, "train", "-q", path, "model")
        ended = run(capsys, "convert", "model", "-")
        assert ended.code == 2
        assert not path.with_name("-").exists()

    def test_names_are_shown_as_they_are(self, tmp_path, capsys, monkeypatch):
        """And not as markup: ``[/x]`` closes what was never opened."""
        monkeypatch.chdir(tmp_path)
        X, y = files.heart_like()
        names = ["length [cm]", "a[/x]", "[red]b", "c", "d", "e"]
        (tmp_path / "rows.csv").write_text(files.csv_text(X, y, target="[/kind]", names=names))
        shown = done(capsys, "info", "rows.csv").out
        assert all(name in " ".join(shown.split()) for name in names)
        ended = done(capsys, "fit", "rows.csv", "--target", "[/kind]")
        assert "[/kind] of rows.csv" in ended.out


class TestWeightsFile:
    def test_more_weights_than_rows_are_refused(self, heart, capsys):
        path, _, y = heart
        path.with_name("w").write_text("1\n" * (len(y) + 1))
        ended = run(capsys, "train", "-q", "-W", "w", path, "model")
        assert ended.code == 1
        assert "w: there are 121 weights, and 120 rows" in ended.err

    def test_a_bad_line_is_that_of_the_weights(self, heart, capsys):
        path, _, y = heart
        path.with_name("w").write_text("1\nmany\n" + "1\n" * (len(y) - 2))
        ended = run(capsys, "train", "-q", "-W", "w", path, "model")
        assert ended.code == 1
        assert "aesvm: w, line 2: 'many' is no number" in ended.err

    def test_rows_of_a_kernel_matrix_have_weights(self, heart, capsys):
        path, X, y = heart
        kernel = (0.3 * X @ X.T + 1) ** 2
        weights = np.random.default_rng(0).uniform(0.1, 2.0, len(y)).round(3)
        path.with_name("w").write_text("".join(f"{one}\n" for one in weights))
        rows = (
            f"{label} 0:{at + 1} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row))
            for at, (label, row) in enumerate(zip(y, kernel.tolist(), strict=True))
        )
        path.with_name("matrix").write_text("\n".join(rows) + "\n")
        done(capsys, "train", "-q", "-t", 4, "-W", "w", "matrix", "model")
        found = load_libsvm_model("model", n_features=len(y))
        expected = aesvm.AESVC(kernel="precomputed").fit(kernel, y, weights)
        np.testing.assert_allclose(
            found.decision_function(kernel), expected.decision_function(kernel), atol=1e-6
        )
