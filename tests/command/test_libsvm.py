"""LIBSVM's programs and ours: same predictions, same lines, each other's model files."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.svm import SVC, SVR

from tests import children
from tests.command import files
from tests.command.files import done, run

svmutil = pytest.importorskip("libsvm.svmutil")

#: Data, and the flags that both programs are given.
CASES = {
    "heart": (files.heart_like, ""),
    "heart-weights": (files.heart_like, "-w1 2.5 -w-1 0.5 -c 3"),
    "heart-linear": (files.heart_like, "-t 0 -c 0.5"),
    "heart-poly": (files.heart_like, "-t 1 -d 2 -r 1 -g 0.3"),
    "heart-nu": (files.heart_like, "-s 1 -n 0.4 -g 0.2"),
    "classes": (files.many_classes, "-c 2 -g 0.5"),
    "classes-nu": (files.many_classes, "-s 1 -n 0.2 -g 0.3"),
    "classes-weights": (files.many_classes, "-w7 3 -w-3 0.2 -h 0"),
    "sparse": (files.sparse_rows, "-c 5 -w0 2"),
    "values": (files.values, "-s 3 -c 10 -g 0.5 -p 0.05"),
    "values-nu": (files.values, "-s 4 -c 10 -g 0.5 -n 0.3"),
    "outliers": (files.outliers, "-s 2 -n 0.2 -g 0.4"),
}

#: So near to its optimum that predictions of two solvers can be compared.
PRECISE = "-e 1e-6"


@pytest.fixture(params=list(CASES), ids=list(CASES))
def case(request, tmp_path):
    make, flags = CASES[request.param]
    X, y = make()
    (tmp_path / "train").write_text(files.libsvm_text(X, y))
    X, y = make(seed=11)
    (tmp_path / "test").write_text(files.libsvm_text(X, y))
    return tmp_path, f"{flags} {PRECISE}"


def theirs(folder, flags):
    """LIBSVM's model. It points into the problem, which must live as long."""
    problem = problem_of(folder / "train", is_matrix="-t 4" in flags)
    model = svmutil.svm_train(problem, f"-q {flags}")
    model.problem = problem
    return model


def problem_of(path, is_matrix=False):
    return svmutil.svm_problem(*svmutil.svm_read_problem(str(path)), isKernel=is_matrix)


def their_predictions(folder, model):
    """By LIBSVM's library: ``svm_predict`` of its svmutil has no room for pairs of nu-SVC."""
    _, rows = svmutil.svm_read_problem(str(folder / "test"))
    nodes = [svmutil.gen_svm_nodearray(row)[0] for row in rows]
    return np.array([svmutil.libsvm.svm_predict(model, node) for node in nodes])


def assert_same(one, other):
    """Classes are equal, and values to what the solvers' tolerances leave."""
    np.testing.assert_allclose(one, other, atol=1e-4)


def test_models_are_the_same_and_each_reads_the_others_file(case, capsys):
    folder, flags = case
    data, model, output = (folder / name for name in ("train", "ours.model", "out"))
    done(capsys, "train", "-q", *flags.split(), data, model)
    done(capsys, "predict", "-q", folder / "test", model, output)
    ours = np.loadtxt(output)
    model_of_libsvm = theirs(folder, flags)
    expected = their_predictions(folder, model_of_libsvm)
    assert_same(ours, expected)
    loaded = svmutil.svm_load_model(str(model))
    np.testing.assert_allclose(their_predictions(folder, loaded), ours, atol=1e-9)
    svmutil.svm_save_model(str(folder / "theirs.model"), model_of_libsvm)
    assert label_line(model) == label_line(folder / "theirs.model")
    done(capsys, "predict", "-q", folder / "test", folder / "theirs.model", output)
    np.testing.assert_allclose(np.loadtxt(output), expected, atol=1e-9)


def label_line(path):
    return [line for line in path.read_text().splitlines() if line.startswith("label")]


def numbers(text):
    """The numbers of svm-train's lines, in their order."""
    wanted = r"^(nu|C|epsilon|obj|nSV|Total nSV) = (-?[\d.]+)(?:, (rho|nBSV) = (-?[\d.]+))?$"
    found = []
    for line in text.splitlines():
        match = re.match(wanted, line)
        if match:
            found += [(match[1], float(match[2]))]
            found += [(match[3], float(match[4]))] if match[3] else []
    return found


def their_lines(data, flags):
    """What LIBSVM prints of a training."""
    program = (
        "import sys; from libsvm.svmutil import *; y, x = svm_read_problem(sys.argv[1]); "
        "svm_train(y, x, sys.argv[2])"
    )
    return children.run(children.code(program, data, f"{flags} {PRECISE}"))


@pytest.mark.parametrize("name", ["heart", "heart-nu", "classes-weights", "values", "values-nu"])
def test_lines_are_those_of_svm_train(name, tmp_path, capsys):
    make, flags = CASES[name]
    data = tmp_path / "train"
    data.write_text(files.libsvm_text(*make()))
    printed = their_lines(data, flags)
    ended = done(capsys, "train", *flags.split(), *PRECISE.split(), data, tmp_path / "model")
    expected, found = numbers(printed), numbers(ended.out)
    assert [key for key, _ in found] == [key for key, _ in expected]
    assert len(found) > 3
    for (key, ours), (_, other) in zip(found, expected, strict=True):
        if key in ("nSV", "nBSV", "Total nSV"):
            assert abs(ours - other) <= 2  # at a bound, or nearly so
        else:
            assert ours == pytest.approx(other, rel=1e-3, abs=1e-3)


def test_accuracy_is_printed_as_svm_predict_prints_it(tmp_path, capsys):
    X, y = files.heart_like()
    data, model = tmp_path / "heart", tmp_path / "model"
    data.write_text(files.libsvm_text(X, y))
    done(capsys, "train", "-q", data, model)
    ended = done(capsys, "predict", data, model, tmp_path / "out")
    right = int((np.loadtxt(tmp_path / "out") == y).sum())
    assert (
        ended.out == f"Accuracy = {100 * right / len(y):g}% ({right}/{len(y)}) (classification)\n"
    )


def test_errors_of_a_regression_are_printed_as_svm_predict_prints_them(tmp_path, capsys):
    X, y = files.values()
    data, model = tmp_path / "values", tmp_path / "model"
    data.write_text(files.libsvm_text(X, y))
    done(capsys, "train", "-q", "-s", 3, data, model)
    ended = done(capsys, "predict", data, model, tmp_path / "out")
    predicted = np.loadtxt(tmp_path / "out")
    error, correlation = np.mean((predicted - y) ** 2), np.corrcoef(predicted, y)[0, 1] ** 2
    first, second = ended.out.splitlines()
    assert first == f"Mean squared error = {error:g} (regression)"
    assert second.startswith("Squared correlation coefficient = ")
    assert float(second.split()[4]) == pytest.approx(correlation, rel=1e-4)


def accuracy(found, y):
    return 100 * np.mean(found == y)


def squared_error(found, y):
    return np.mean((found - y) ** 2)


# LIBSVM draws its folds by the C library's rand, which every other test moves on; so the folds are
# those of our program, and the models of each are LIBSVM's, by way of scikit-learn.
@pytest.mark.parametrize(
    ("make", "svm_type", "line", "machine", "folds", "measure"),
    [
        (
            files.heart_like,
            0,
            r"Cross Validation Accuracy = ([\d.]+)%\n",
            SVC(gamma="auto"),
            StratifiedKFold,
            accuracy,
        ),
        (
            files.values,
            3,
            r"Cross Validation Mean squared error = ([\d.e-]+)\n"
            r"Cross Validation Squared correlation coefficient = ([\d.]+)\n",
            SVR(gamma="auto"),
            KFold,
            squared_error,
        ),
    ],
)
def test_cross_validation_writes_no_model(
    make, svm_type, line, machine, folds, measure, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    X, y = make()
    (tmp_path / "rows").write_text(files.libsvm_text(X, y))
    ended = done(capsys, "train", "-q", "-v", 5, "-s", svm_type, "rows")
    assert re.fullmatch(line, ended.out)
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    splits = folds(5, shuffle=True, random_state=0)
    expected = measure(cross_val_predict(machine, X, y, cv=splits), y)
    assert float(re.fullmatch(line, ended.out)[1]) == pytest.approx(expected, rel=0.01)


def test_rows_to_predict_may_have_features_that_training_had_not(tmp_path, capsys):
    X, y = files.sparse_rows()
    (tmp_path / "train").write_text(files.libsvm_text(X[:, :30], y))
    (tmp_path / "test").write_text(files.libsvm_text(X, y))
    done(capsys, "train", "-q", "-g", 0.1, *PRECISE.split(), tmp_path / "train", tmp_path / "m")
    done(capsys, "predict", "-q", tmp_path / "test", tmp_path / "m", tmp_path / "out")
    expected = their_predictions(tmp_path, svmutil.svm_load_model(str(tmp_path / "m")))
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), expected)


def test_the_model_lies_where_svm_train_puts_it(tmp_path, capsys, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "heart.txt").write_text(files.libsvm_text(*files.heart_like()))
    monkeypatch.chdir(tmp_path)
    done(capsys, "train", "-q", "data/heart.txt")
    assert (tmp_path / "heart.txt.model").read_text().startswith("svm_type c_svc\n")


def test_weights_of_classes_that_do_not_occur_are_warned_of(tmp_path, capsys):
    data = tmp_path / "heart"
    data.write_text(files.libsvm_text(*files.heart_like()))
    ended = done(capsys, "train", "-q", "-w9", 3, "-w1", 2, data, tmp_path / "one")
    assert ended.err == ("aesvm: warning: class label 9 specified in weight is not found\n")
    done(capsys, "train", "-q", "-w1", 2, data, tmp_path / "two")
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()


@pytest.mark.parametrize("make", [files.heart_like, files.many_classes])
def test_kernel_matrices_are_libsvms(make, tmp_path, capsys):
    (X, y), (X_test, y_test) = make(), make(seed=11)
    for name, rows, labels in (("train", X, y), ("test", X_test, y_test)):
        numbered = np.column_stack([np.arange(1, len(rows) + 1), (0.3 * rows @ X.T + 1) ** 2])
        text = files.libsvm_text(numbered, labels)
        shifted = re.sub(r"(\d+):", lambda found: f"{int(found[1]) - 1}:", text)
        (tmp_path / name).write_text(shifted)
    data, model, output = (tmp_path / name for name in ("train", "model", "out"))
    done(capsys, "train", "-q", "-t", 4, *PRECISE.split(), data, model)
    done(capsys, "predict", "-q", tmp_path / "test", model, output)
    np.testing.assert_array_equal(
        np.loadtxt(output), matrix_predictions(tmp_path, theirs(tmp_path, f"-t 4 {PRECISE}"))
    )
    loaded = svmutil.svm_load_model(str(model))
    np.testing.assert_array_equal(np.loadtxt(output), matrix_predictions(tmp_path, loaded))
    printed = done(capsys, "train", "-q", "-t", 4, "-v", 4, data).out
    assert float(printed.split()[4].rstrip("%")) > 50
    data.write_text(data.read_text().replace(" 0:2.0 ", " 0:3.0 "))
    assert run(capsys, "train", "-q", "-t", 4, data, model).code == 1


def matrix_predictions(folder, model):
    _, rows = svmutil.svm_read_problem(str(folder / "test"))
    nodes = [svmutil.gen_svm_nodearray(row, isKernel=True)[0] for row in rows]
    return np.array([svmutil.libsvm.svm_predict(model, node) for node in nodes])


@pytest.mark.parametrize("text", ["+1 1:1\n-1 1:-1\n", "-1 1:-1\n+1 1:1\n", "3 1:1\n2 1:-1\n"])
def test_a_decision_value_of_0_goes_where_svm_predict_sends_it(text, tmp_path, capsys):
    (tmp_path / "train").write_text(text)
    (tmp_path / "test").write_text("-1 1:0\n")
    for name in ("ours.model", "ours.aesvm"):
        done(capsys, "train", "-q", "-t", 0, tmp_path / "train", tmp_path / name)
        printed = done(capsys, "predict", "-q", tmp_path / "test", tmp_path / name).out
        expected = their_predictions(tmp_path, theirs(tmp_path, "-t 0"))
        assert float(printed) == expected[0]


@pytest.mark.parametrize("name", ["heart", "heart-nu", "classes-nu", "values", "outliers"])
def test_lines_are_those_of_svm_train_where_rows_are_equal(name, tmp_path, capsys):
    """Equal rows are one support vector here, whose bound is theirs together."""
    make, flags = CASES[name]
    data = tmp_path / "train"
    data.write_text(3 * files.libsvm_text(*make()))
    printed = their_lines(data, flags)
    ended = done(capsys, "train", *flags.split(), *PRECISE.split(), data, tmp_path / "model")
    expected, found = numbers(printed), numbers(ended.out)
    assert [key for key, _ in found] == [key for key, _ in expected]
    free = 0.0
    for (key, ours), (_, other) in zip(found, expected, strict=True):
        if key == "nSV":
            free = ours
        elif key == "nBSV":  # of three equal rows, some may be at the bound without the others
            free -= ours
            assert 3 * ours - 6 <= other <= 3 * ours + 2 * free + 6
        elif key != "Total nSV":
            assert ours == pytest.approx(other, rel=1e-3, abs=1e-3), key


@pytest.mark.parametrize("flags", ["-s 0 -g 0.3", "-s 1 -n 0.4 -g 0.3", "-s 3 -p 0.05 -g 0.3"])
def test_a_weight_counts_in_the_lines_as_equal_rows_do(flags, tmp_path, capsys):
    X, y = (files.values if "-s 3" in flags else files.heart_like)()
    n_times = np.where(np.arange(len(y)) % 3, 1, 4)
    (tmp_path / "once").write_text(files.libsvm_text(X, y))
    (tmp_path / "weights").write_text("".join(f"{n}\n" for n in n_times))
    repeated = np.repeat(np.arange(len(y)), n_times)
    (tmp_path / "all").write_text(files.libsvm_text(X[repeated], y[repeated]))
    weights = ["-W", tmp_path / "weights"]
    train = ["train", *flags.split(), *PRECISE.split()]
    once = done(capsys, *train, *weights, tmp_path / "once", tmp_path / "model").out
    whole = done(capsys, *train, tmp_path / "all", tmp_path / "model").out
    assert len(numbers(once)) > 4
    for (key, one), (_, other) in zip(numbers(once), numbers(whole), strict=True):
        allowed = 2 if "SV" in key else 2e-3 * max(1.0, abs(other))
        assert one == pytest.approx(other, abs=allowed), key


@pytest.mark.parametrize("more", [[], ["--memory", "20 kB"]])
def test_lines_that_do_not_apply_to_few_vectors_are_left_out(more, heart, capsys):
    path, *_ = heart
    train = ["train", "--max-vectors", 10, *more, path, "m.aesvm"]
    out = done(capsys, *train).out
    assert "nan" not in out
    assert re.search(r"^rho = ", out, re.M)
    assert not re.search(r"^nu|obj|nBSV", out, re.M)
    (machine,) = done(capsys, *train, "--json").json["machines"]
    assert machine["obj"] is machine["nu"] is machine["n_bsv"] is None


def test_a_time_limit_that_is_too_short_gives_the_model_of_a_sample(tmp_path, capsys):
    path, model = tmp_path / "rows", tmp_path / "model"
    path.write_text(files.libsvm_text(*files.heart_like(3000)))
    whole = done(capsys, "train", "--time-limit", 1000, "--json", path, model).json
    cut = done(capsys, "train", "--time-limit", 1e-3, path, model)
    assert whole["exact"]
    assert whole["total_sv"] > 501
    n_support = int(re.search(r"Total nSV = (\d+)", cut.out)[1])
    assert n_support <= 501
    assert "stopped after" in cut.err


def test_a_time_limit_is_for_each_fold(tmp_path, capsys):
    path = tmp_path / "rows"
    path.write_text(files.libsvm_text(*files.heart_like(4500)))
    ended = done(capsys, "train", "--time-limit", 1e-3, "-v", 2, path)
    assert "Cross Validation Accuracy" in ended.out
    assert "time_limit=0.001 ended the fit" in ended.err


def test_weights_of_a_class_that_is_named_twice_are_multiplied(heart, capsys):
    path, *_ = heart
    done(capsys, "train", "-q", "-w1", 2, "-w1", 3, path, "twice")
    done(capsys, "train", "-q", "-w1", 6, path, "once")
    assert path.with_name("twice").read_text() == path.with_name("once").read_text()


def test_one_class_needs_no_targets(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", files.outliers()[0])
    out = done(capsys, "train", "-s", 2, "rows.npy", "model").out
    assert "nBSV" in out
    assert (tmp_path / "model").exists()
