"""What each command does with tables, models and standard input."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline

import aesvm
from aesvm.command import fit
from aesvm.command.data import DataOptions, opened
from aesvm.command.report import HeldOut
from aesvm.command.train import Agreement
from aesvm.io import load_libsvm_model
from tests.command import files
from tests.command.files import done, run


class TestFit:
    def test_the_model_predicts_raw_rows_and_the_report_needs_nothing_else(self, table, capsys):
        path, _, y = table
        found = done(capsys, "fit", "--json", path, "--target", "kind").json
        assert found["task"] == "classification"
        assert found["rows"] == {"train": 160, "test": 40}
        assert found["test"]["accuracy"] > found["test"]["majority"]
        assert found["exact"] is True
        model = aesvm.load("rows.aesvm")
        done(capsys, "predict", "-q", path, "rows.aesvm", "out")
        predicted = (path.parent / "out").read_text().split()
        np.testing.assert_array_equal(predicted, model.predict(pd.read_csv(path)))
        assert np.mean(np.array(predicted) == y) > 0.7
        page = (path.parent / "rows.html").read_text()
        assert page.count("<svg") == 5
        assert "mean absolute Shapley values of 160 rows" in page
        assert not re.search(r"<(script|link|img|iframe)\b|url\(\s*http", page)
        for svg in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL):
            ElementTree.fromstring(svg)
        assert "Certificate" in page
        assert "duality gap" in page

    def test_a_report_ranks_candidates_of_the_last_round_of_halving(
        self, table, capsys, monkeypatch
    ):
        path, *_ = table
        monkeypatch.setattr(fit, "_HALVING", 100)
        found = done(capsys, "fit", "--json", path, "--target", "kind").json
        page = path.with_name("rows.html").read_text()
        assert "were dropped on fewer rows" in page
        assert "grey: dropped before" in page
        ranked = page[page.index("The best candidates") :]
        best = float(re.search(r"([\d.]+) ±", ranked).group(1))
        assert best == pytest.approx(found["cross_validation_score"], abs=1e-4)

    def test_columns_are_found_by_name_wherever_they_are(self, table, capsys):
        path, X, y = table
        done(capsys, "fit", "-q", path, "--target", "kind")
        order = [3, 0, 5, 1, 4, 2]
        names = [f"f{at}" for at in order]
        moved = path.with_name("moved.csv")
        moved.write_text(files.csv_text(X[:, order], y, names=names))
        for name in (path, moved):
            done(capsys, "predict", "-q", name, "rows.aesvm", f"{name.stem}.out")
        outputs = [path.with_name(f"{stem}.out").read_text() for stem in ("rows", "moved")]
        assert outputs[0] == outputs[1]

    def test_values_are_learned_by_a_regression(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        X, y = files.values(300)
        (tmp_path / "values.csv").write_text(files.csv_text(X, y, target="y"))
        found = done(capsys, "fit", "--json", "values.csv", "--target", "y").json
        assert found["task"] == "regression"
        assert found["test"]["r2"] > 0.9

    def test_a_regression_does_not_depend_on_the_unit_of_its_target(
        self, tmp_path, capsys, monkeypatch
    ):
        monkeypatch.chdir(tmp_path)
        X, y = files.values()
        found = []
        for scale in (1.0, 2.0**-12, 2.0**12):
            (tmp_path / "rows.csv").write_text(files.csv_text(X, (y * scale).tolist()))
            found.append(done(capsys, "fit", "-q", "--json", "rows.csv", "--target", "kind").json)
            page = (tmp_path / "rows.html").read_text()
            assert f"epsilon {aesvm.load('rows.aesvm')[-1].epsilon:.4g}" in page
        scores = [one["test"]["r2"] for one in found]
        np.testing.assert_allclose(scores, scores[0], atol=0.01)
        assert min(scores) > 0.8

    def test_rows_held_out_are_not_learned_from(self, table, capsys):
        path, *_ = table
        done(capsys, "fit", "-q", path, "--target", "kind", "--test", 0.5)
        assert aesvm.load("rows.aesvm")[-1].shape_fit_[0] == 100

    def test_data_larger_than_memory_is_streamed(self, table, capsys):
        path, *_ = table
        ended = done(capsys, "fit", path, "--target", "kind", "--memory", "5 kB")
        assert "it is streamed" in ended.err
        assert (
            aesvm.load("rows.aesvm")[-1].n_seen_
            + int(re.search(r"([\d,]+) held out", ended.err)[1])
            == 200
        )

    def test_without_matplotlib_the_report_says_so(self, table, capsys, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "matplotlib", None)
        path, *_ = table
        done(capsys, "fit", "-q", path, "--target", "kind")
        page = (path.parent / "rows.html").read_text()
        assert "<svg" not in page
        assert "aesvm[plot]" in page

    def test_a_table_needs_a_target(self, table, capsys):
        path, *_ = table
        ended = run(capsys, "fit", path)
        assert ended.code == 2
        assert "--target" in ended.err


class TestScale:
    def test_ranges_are_restored_for_other_rows(self, heart, capsys):
        path, X, _ = heart
        done(capsys, "scale", "-l", 0, "-s", "range", "-o", "scaled", path)
        done(capsys, "scale", "-r", "range", "-o", "again", path)
        assert (path.parent / "scaled").read_text() == (path.parent / "again").read_text()
        lines = (path.parent / "range").read_text().splitlines()
        assert lines[:2] == ["x", "0 1"]
        assert [float(one) for one in lines[5].split()] == [4, X[:, 3].min(), X[:, 3].max()]

    def test_values_are_those_of_the_formula(self, heart, capsys):
        path, X, y = heart
        printed = done(capsys, "scale", "-l", -2, "-u", 3, "-y", 0, 10, path).out
        least, largest = X.min(axis=0), X.max(axis=0)
        expected = -2 + 5 * (X - least) / (largest - least)
        for line, row, label in zip(printed.splitlines(), expected, y, strict=True):
            target, *pairs = line.split()
            assert float(target) == (10 if label > 0 else 0)
            found = dict(pair.split(":") for pair in pairs)
            values = [float(found.get(str(at + 1), 0)) for at in range(len(row))]
            np.testing.assert_allclose(values, row, atol=1e-5)

    @pytest.mark.parametrize("text", ["", "x\n", "x\n0 1\n1 2\n", "z\n0 1\n", "x\n0 nan\n"])
    def test_a_bad_range_file_is_an_error_with_its_line(self, heart, text, capsys):
        path, *_ = heart
        path.with_name("range").write_text(text)
        ended = run(capsys, "scale", "-r", "range", "-o", "scaled", path)
        assert ended.code == 1
        assert "range, line" in ended.err
        assert not path.with_name("scaled").exists()

    @pytest.mark.parametrize("name", ["out.csv.gz", "out.svm.bz2", "out.xz", "out.npy"])
    def test_a_format_that_cannot_be_written_is_refused(self, heart, name, capsys):
        path, *_ = heart
        ended = run(capsys, "scale", path, "-s", "range", "-o", name)
        assert ended.code == 2
        assert f"{name}: rows are written as .csv, .parquet" in ended.err
        assert not path.with_name(name).exists()
        assert not path.with_name("range").exists()

    def test_tables_stay_tables(self, table, capsys):
        path, _, y = table
        done(capsys, "scale", "--target", "kind", "-o", "scaled.csv", path)
        with opened("scaled.csv", DataOptions(target="kind")) as file:
            rows = file.rows()
        assert np.abs(rows.X).max() == 1.0
        np.testing.assert_array_equal(rows.y, y)


class TestTrainAndPredict:
    def test_standard_input_and_output(self, heart, capsys, monkeypatch):
        path, *_ = heart
        text = path.read_bytes()
        done(capsys, "train", "-q", "-", "model", stdin=text, monkeypatch=monkeypatch)
        done(capsys, "predict", "-q", path, "model", "out")
        ended = done(capsys, "predict", "-", "model", stdin=text, monkeypatch=monkeypatch)
        assert ended.out == path.with_name("out").read_text()
        assert ended.err.startswith("aesvm: Accuracy = ")

    def test_json_is_one_object(self, heart, capsys):
        path, _, y = heart
        found = done(capsys, "train", "--json", path, "model").json
        assert found["model"] == "model"
        assert found["machines"][0]["obj"] < 0
        assert found["total_sv"] == len(load_libsvm_model("model").support_)
        found = done(capsys, "predict", "--json", path, "model").json
        assert len(found["predictions"]) == len(y)
        assert found["correct"] == np.sum(found["predictions"] == y)
        found = done(capsys, "train", "--json", "-v", 3, path).json
        assert found["folds"] == 3
        assert 0 <= found["accuracy"] <= 100

    def test_errors_are_json_too(self, heart, capsys):
        path, *_ = heart
        path.write_text("1 1:2\n1 1:2:3\n")
        ended = run(capsys, "train", "--json", path, "model")
        assert json.loads(ended.out) == {
            "error": f"{path}, line 2: the value of index 1 '2:3' is not a number.",
            "exit_code": 1,
            "file": str(path),
            "line": 2,
        }

    def test_native_models_know_their_columns(self, table, capsys):
        path, X, _ = table
        done(capsys, "train", "-q", path, "rows.csv.aesvm", "--target", "kind", "-g", 0.1)
        model = aesvm.load("rows.csv.aesvm")
        assert model.feature_names_in_.tolist() == [f"f{at}" for at in range(6)]
        done(capsys, "predict", "-q", path, "rows.csv.aesvm", "out")
        predicted = path.with_name("out").read_text().split()
        model.__dict__.pop("feature_names_in_")
        np.testing.assert_array_equal(predicted, model.predict(X))

    def test_names_for_classes_need_the_native_format_and_that_is_said_before_training(
        self, table, capsys
    ):
        path, *_ = table
        ended = run(capsys, "train", path, "--target", "kind")
        assert ended.code == 1
        assert "ends with .aesvm" in ended.err

    def test_data_larger_than_memory_is_streamed_and_said(self, heart, capsys):
        path, *_ = heart
        ended = done(capsys, "train", "--memory", "2 kB", path, "streamed.aesvm")
        assert "it is streamed" in ended.err
        assert "obj = " in ended.out
        assert aesvm.load("streamed.aesvm").n_seen_ == 120
        ended = run(capsys, "train", "-v", 3, "--memory", "2 kB", path)
        assert ended.code == 2

    def test_weights_of_rows(self, heart, capsys):
        path, X, y = heart
        weights = np.random.default_rng(0).uniform(0.1, 2.0, len(y)).round(3)
        path.with_name("w").write_text("".join(f"{one}\n" for one in weights))
        done(capsys, "train", "-q", "-g", 0.2, "-W", "w", path, "model")
        found = load_libsvm_model("model", n_features=X.shape[1])
        expected = aesvm.AESVC(gamma=0.2).fit(X, y, weights)
        np.testing.assert_allclose(
            found.decision_function(X), expected.decision_function(X), atol=1e-6
        )
        path.with_name("w").write_text("1\n")
        assert run(capsys, "train", "-q", "-W", "w", path, "model").code == 1

    def test_weights_of_classes_with_names(self, table, capsys):
        path, X, y = table
        options = ["-g", 1e-3, "--target", "kind"]
        done(capsys, "train", "-q", path, "m.aesvm", *options, "--class-weight", "sick=5")
        expected = aesvm.AESVC(gamma=1e-3, class_weight={"sick": 5.0}).fit(X, y)
        model = aesvm.load("m.aesvm")
        del model.feature_names_in_
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))
        ended = run(capsys, "train", path, "m.aesvm", *options, "--class-weight", "sick")
        assert ended.code == 2
        assert "--class-weight sick" in ended.err

    def test_a_model_without_support_vectors_is_warned_of(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        X, y = files.values()
        (tmp_path / "rows").write_text(files.libsvm_text(X, y))
        ended = done(capsys, "train", "-q", "-s", 3, "-p", 100, "rows", "model")
        assert "no support vectors" in ended.err

    def test_a_fit_that_is_worse_than_the_mean_is_warned_of(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        random = np.random.default_rng(5)
        text = files.csv_text(random.normal(size=(40, 5)), random.normal(size=40).tolist())
        (tmp_path / "rows.csv").write_text(text)
        ended = done(capsys, "fit", "-q", "--json", "rows.csv", "--target", "kind")
        assert ended.json["test"]["r2"] < 0
        assert "worse than the mean" in ended.err


@pytest.mark.parametrize("n_chunks", [1, 5])
def test_scores_do_not_depend_on_where_targets_begin(n_chunks):
    """A target of seconds since 1970: R2 is of how far apart targets are, not of their size."""

    class Model:
        def predict(self, X):
            return X[:, 0]

    random = np.random.default_rng(0)
    y = 1e9 + random.integers(-8, 9, 1000) / 4.0
    X = (y + random.integers(-1, 2, 1000) / 8.0)[:, None]
    chunks = [(X[at::n_chunks], y[at::n_chunks], None) for at in range(n_chunks)]
    found = HeldOut.of(Model(), chunks).found()
    assert found["r2"] == pytest.approx(r2_score(y - 1e9, X[:, 0] - 1e9), rel=1e-9)
    agreement = Agreement(regression=True)
    for X_, y_, _ in chunks:
        agreement.add(X_[:, 0], y_)
    squared = np.corrcoef(y - 1e9, X[:, 0] - 1e9)[0, 1] ** 2
    assert agreement.found()["squared_correlation_coefficient"] == pytest.approx(squared, rel=1e-9)


class TestModels:
    @pytest.mark.parametrize("before", [[], [("scale", "passthrough")], [("scale", None)]])
    def test_a_pipeline_that_does_not_scale_is_a_model_like_its_svm(self, heart, before, capsys):
        path, X, y = heart
        pipeline = Pipeline([*before, ("svm", aesvm.AESVC(gamma=0.5))]).fit(X, y)
        aesvm.save(pipeline, "one.aesvm")
        assert done(capsys, "info", "--json", "one.aesvm").json["type"] == "C-SVC"
        done(capsys, "convert", "one.aesvm", "one.model")
        for model in ("one.aesvm", "one.model"):
            done(capsys, "predict", "-q", path, model, f"{model}.out")
        outputs = [path.with_name(f"one.{kind}.out").read_text() for kind in ("aesvm", "model")]
        assert outputs[0] == outputs[1]

    def test_models_are_converted_both_ways(self, heart, capsys):
        path, *_ = heart
        path.write_text(files.libsvm_text(*files.many_classes()))
        done(capsys, "train", "-q", path, "one.model")
        done(capsys, "convert", "one.model", "two.aesvm")
        done(capsys, "convert", "two.aesvm", "three.model")
        one, three = (path.with_name(f"{name}.model").read_text() for name in ("one", "three"))
        assert one == three

    def test_a_graph_of_onnx_takes_raw_rows(self, table, capsys):
        runtime = pytest.importorskip("onnxruntime")
        pytest.importorskip("skl2onnx")
        path, X, _ = table
        done(capsys, "fit", "-q", path, "--target", "kind")
        done(capsys, "convert", "rows.aesvm", "rows.onnx")
        done(capsys, "predict", "-q", path, "rows.aesvm", "out")
        session = runtime.InferenceSession(path.with_name("rows.onnx").read_bytes())
        columns = {f"f{at}": np.float32(column[:, None]) for at, column in enumerate(X.T)}
        labels = session.run(None, columns)[0]
        np.testing.assert_array_equal(labels, path.with_name("out").read_text().split())

    def test_a_model_that_scales_cannot_be_libsvms(self, table, capsys):
        path, *_ = table
        done(capsys, "fit", "-q", path, "--target", "kind")
        ended = run(capsys, "convert", "rows.aesvm", "rows.model")
        assert ended.code == 1
        assert "scale" in ended.err

    def test_info_of_models_and_data(self, heart, table, capsys):
        path, X, _ = heart
        done(capsys, "train", "-q", path, "model")
        found = done(capsys, "info", "--json", "model").json
        assert found["type"] == "C-SVC"
        assert found["classes"] == [-1, 1]
        done(capsys, "train", "-q", path, "model.aesvm")
        found = done(capsys, "info", "--json", "model.aesvm").json
        assert found["certificate"]["exact"] is True
        found = done(capsys, "info", "--json", path).json
        assert (found["rows"], found["features"]) == X.shape
        assert sum(found["classes"].values()) == len(X)
        shown = done(capsys, "info", table[0], "--target", "kind").out
        assert re.search("rows +200", shown)


class TestWhatModelsKnow:
    def test_another_fit_forgets_the_target(self, table, capsys):
        path, X, y = table
        done(capsys, "train", "-q", path, "m.aesvm", "--target", "kind")
        assert not hasattr(aesvm.load("m.aesvm").fit(X[:, :4], y), "target_name_")

    def test_values_cannot_be_compared_with_text(self, table, capsys):
        path, X, _ = table
        path.with_name("values.csv").write_text(files.csv_text(X, X[:, 0].tolist()))
        done(capsys, "train", "-q", "-s", 3, "values.csv", "m", "--target", "kind")
        ended = run(capsys, "predict", path, "m", "out", "--target", "kind")
        assert ended.code == 1
        assert "predicts numbers" in ended.err

    def test_without_skl2onnx_a_line_says_what_to_install(self, heart, capsys, monkeypatch):
        import sys

        path, *_ = heart
        done(capsys, "train", "-q", path, "model")
        monkeypatch.setitem(sys.modules, "skl2onnx", None)
        ended = run(capsys, "convert", "model", "model.onnx")
        assert ended.code == 4
        assert "aesvm[onnx]" in ended.err
