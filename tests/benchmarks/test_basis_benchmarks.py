"""The benchmarks of few vectors: what their tables say, on a few rows."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVR
from benchmarks import (
    bases,
    basis_growth,
    basis_memory,
    basis_rivals,
    closeness,
    compression,
    limits,
    other_datasets,
    processes,
    rivals,
)
from benchmarks.basis_growth import Flipped
from benchmarks.datasets import Dataset
from benchmarks.limits import Fitted
from benchmarks.report import Report

linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")


def moons(n_train: int = 800, n_test: int = 300) -> Dataset:
    X, y = make_moons(n_train + n_test, noise=0.3, random_state=0)
    return Dataset("moons", X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def named(columns: list[str], rows: list[list]) -> list[dict]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def tables(report: Report) -> list[dict]:
    return json.loads(report.path.read_text())["tables"]


# --- flights


def test_flights_are_split_and_scaled_by_their_training_rows():
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.normal(3.0, 2.0, size=(50_000, 2)).astype(np.float32),
        "y": np.arange(50_000),
    }
    data = other_datasets.OTHERS["flights"].prepare(arrays)
    assert len(data.y) == 40_000
    assert data.y_test is not None
    assert len(data.y_test) == 10_000  # of 20,000 at most
    assert not np.isin(data.y_test, data.y).any()
    np.testing.assert_array_equal(data.y, np.random.default_rng(1).permutation(50_000)[:40_000])
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(data.X.std(axis=0), 1.0, atol=1e-6)
    assert abs(np.asarray(data.X_test).mean()) > 1e-5


# --- limits


def test_what_would_take_too_long_is_not_started(monkeypatch):
    sizes: list[int] = []
    times = {1000: 10.0, 2000: 40.0}

    def pretended(run, repeats):
        run()
        return times[sizes[-1]]

    monkeypatch.setattr(limits, "median_seconds", pretended)
    assert limits.too_long(sizes.append, 16_000) == "not started: some 2,560 s expected"
    assert sizes == [1000, 2000, 1000, 2000]
    monkeypatch.setattr(limits, "LIMIT", 3000.0)
    assert limits.too_long(sizes.append, 16_000) == ""
    assert limits.too_long(sizes.append, 3999) == ""
    assert len(sizes) == 8


@pytest.mark.parametrize("wanted", [7, 100, 950])
def test_bisection_comes_near_to_as_many_vectors(wanted):
    tried: list[float] = []

    def fit(at: float) -> Fitted:
        tried.append(at)
        return Fitted(at, 0.0, round(at))

    found = limits.bisected(fit, 1.0, 1000.0, wanted)
    assert found.n_vectors == pytest.approx(wanted, rel=0.08)
    assert len(tried) <= 10


def test_bisection_has_the_nearest_where_none_is_near():
    found = limits.bisected(lambda at: Fitted(at, 0.0, 10 if at < 50 else 500), 1.0, 1000.0, 400)
    assert found.n_vectors == 500


# --- compress


@pytest.fixture(scope="module")
def compressed() -> list[dict]:
    data = moons(2000)
    problem = compression.Problem(data, rivals.ours(1.0, 1.0, 1, "exact"))
    return named(compression.COLUMNS, compression.compared(problem, 1, 1, (0.2,)))


def test_every_program_has_as_many_vectors(compressed):
    exact, small, *others = compressed
    assert [line["program"] for line in compressed] == [
        "exact",
        "compress to 20%",
        "CPSP, 20%",
        "random rows, 20%",
        "refine=0, 20%",
    ]
    assert exact["labels as exact %"] == "100.00"
    assert 0 < small["vectors"] <= round(0.2 * exact["vectors"])
    assert float(small["labels as exact %"]) > 99.0
    for line in others:
        assert line["vectors"] == pytest.approx(small["vectors"], rel=0.25)
        assert float(line["labels as exact %"]) > 80.0
        assert line["bound on changes"] == ""


def test_changes_are_those_that_compress_itself_measures(compressed):
    data, line = moons(2000), compressed[1]
    model = rivals.ours(1.0, 1.0, 1, "exact").fit(data.X, data.y)
    own = model.compress(line["vectors"], X=data.X_test).compression_
    assert line["largest change"] == pytest.approx(own.largest_change, rel=1e-6)
    assert line["typical change"] == pytest.approx(own.typical_change, rel=1e-6)
    assert line["largest change"] <= line["bound on changes"] == pytest.approx(own.bound, rel=1e-6)


def test_pairs_of_classes_are_measured_each(monkeypatch):
    X, y = make_classification(600, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    data = Dataset("three classes", X[:400], y[:400], X[400:], y[400:])
    problem = compression.Problem(data, rivals.ours(1.0, 0.5, 1, "exact"))
    monkeypatch.setattr(compression, "_others", lambda problem, n_jobs: {})
    _, line = named(compression.COLUMNS, compression.compared(problem, 1, 1, (0.2,)))
    own = problem.exact.compress(line["vectors"], X=data.X_test).compression_
    assert problem.exact.decision_function_shape == "ovr"
    assert line["largest change"] == pytest.approx(own.largest_change, rel=1e-6)


def test_regressions_have_r2_and_no_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=600)
    data = Dataset("sine", X[:400], y[:400], X[400:], y[400:])
    problem = compression.Problem(data, AESVR(refine="exact", n_jobs=1))
    lines = named(compression.COLUMNS, compression.compared(problem, 1, 1, (0.2,)))
    assert [line["program"] for line in lines[2:]] == ["random rows, 20%", "refine=0, 20%"]
    assert all(line["labels as exact %"] == "" for line in lines)
    assert float(lines[0]["accuracy or R²"]) == pytest.approx(
        problem.exact.score(X[400:], y[400:]), abs=1e-4
    )
    assert float(lines[1]["accuracy or R²"]) > 0.6
    assert lines[1]["largest change"] <= lines[1]["bound on changes"]


# --- basis


@pytest.fixture
def no_intelex(monkeypatch):
    monkeypatch.setattr(rivals, "intelex", lambda C, gamma, n_jobs: rivals.svc(C, gamma))


@pytest.mark.usefixtures("no_intelex")
def test_a_basis_is_held_against_the_exact_model():
    programs = {**bases.in_basis(40), "refine=1": {"refine": 1}}
    problem = bases.Problem(moons(), 1.0, 1.0, programs)
    exact, other, small, one = named(bases.COLUMNS, bases.compared(problem, 1))
    assert [line["program"] for line in (exact, other, small, one)] == [
        "exact",
        "intelex",
        "max_vectors=40",
        "refine=1",
    ]
    for line in (exact, other):
        assert float(line["labels as exact %"]) > 99.0
        assert 0.0 <= float(line["F1 above the optimum, at most %"]) < 0.2
        assert 0.0 <= float(line["gap certified %"]) < 0.2
    assert small["vectors"] <= 40 < exact["vectors"]
    assert float(small["labels as exact %"]) > 98.0
    above, gap = (
        float(small[key]) for key in ("F1 above the optimum, at most %", "gap certified %")
    )
    assert -0.2 <= above <= gap + 0.2
    assert small["gap estimated %"] != ""
    assert one["gap estimated %"] == ""
    assert one["certify s"] > 0


@pytest.mark.usefixtures("no_intelex")
def test_what_is_not_started_has_a_remark_and_nothing_to_compare_with(monkeypatch):
    monkeypatch.setattr(limits, "too_long", lambda fit, n: "not started: so")
    problem = bases.Problem(moons(), 1.0, 1.0, bases.in_basis(40), certify=False)
    exact, other, small = named(bases.COLUMNS, bases.compared(problem, 1))
    assert exact["remark"] == other["remark"] == "not started: so"
    assert exact["seconds"] == exact["accuracy"] == ""
    assert small["labels as exact %"] == small["F1 above the optimum, at most %"] == ""
    assert small["certify s"] == ""
    assert float(small["accuracy"]) > 0.8


def test_the_problems_have_their_rows():
    sizes = bases.Sizes(500, 400, 300, 200, 100, 20, 40, 80)
    data = moons(900, 300)
    whole = Dataset("covtype", np.r_[data.X, data.X], np.r_[data.y, data.y])
    found = list(bases.problems(lambda: whole, lambda: data, sizes))
    assert [len(one.data.y) for one in found] == [500, 400, 300, 200, 200, 900]
    assert [len(one.data.y_test) for one in found] == [100, 100, 300, 100, 100, 300]
    assert [one.certify for one in found] == [False, *[True] * 5]
    assert list(found[0].programs) == ['"auto"', "max_vectors=20"]
    assert found[1].programs == {
        "max_vectors=80, gap_tol=0.002": {"refine": "auto", "max_vectors": 80, "gap_tol": 2e-3}
    }
    order = np.random.default_rng(77).permutation(len(whole.y))
    np.testing.assert_array_equal(found[0].data.X, whole.X[order[:500]])
    np.testing.assert_array_equal(found[0].data.X_test, whole.X[order[-100:]])


# --- growth and memory


def test_labels_are_flipped_and_the_first_rows_stay():
    X, y = Flipped(0.1, 70_000).rows(0, 70_000)
    clean = Flipped(0.0, 70_000).rows(0, 70_000)
    np.testing.assert_array_equal(X, clean[0])
    assert np.mean(y != clean[1]) == pytest.approx(0.1, abs=0.01)
    fewer, labels = Flipped(0.1, 100).rows(0, 100)
    np.testing.assert_array_equal(fewer, X[:100])
    np.testing.assert_array_equal(labels, y[:100])
    assert X.dtype == np.float32
    assert 0.4 < y.mean() < 0.6


def test_exponents_are_fitted_by_least_squares():
    points = [(n, 3.0 * n**1.2) for n in (100, 300, 1000)]
    assert basis_growth.fitted_exponent(points) == pytest.approx(1.2)


@linux
@pytest.mark.parametrize(
    ("way", "needs", "parameters"),
    [
        ("memory", "numpy", {"max_vectors": 30}),
        ("streams", "pyarrow", {}),
        pytest.param("cluster", "distributed", {}, marks=pytest.mark.slow),
    ],
)
def test_every_way_fits_what_was_written(way, needs, parameters, tmp_path, capsys, monkeypatch):
    pytest.importorskip(needs)
    monkeypatch.setattr(basis_growth, "N_WORKERS", 1)
    basis_growth.write(basis_growth.generated(600, 100), tmp_path, way)
    capsys.readouterr()
    basis_growth.fit(way, str(tmp_path), parameters, 0.1, 1)
    ready, *lines = capsys.readouterr().out.splitlines()
    found = {key: value for line in lines for key, value in json.loads(line).items()}
    assert ready == "ready"
    assert found["seconds"] > 0
    assert found["vectors"] > 0
    assert 0.5 < found["accuracy"] <= 1.0
    assert found["resident"] > 2**20


def test_rows_of_a_dataset_are_written_as_they_are(tmp_path):
    data = moons(500, 100)
    (series, _) = basis_growth.all_series(data, (200,), (), 50)
    basis_growth.write(series.source(200), tmp_path, "memory")
    expected = bases.in_order(data, 77, 200, 50)
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), expected.X.astype(np.float32))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected.y)
    np.testing.assert_array_equal(np.load(tmp_path / "y_test.npy"), expected.y_test)


@pytest.fixture
def pretended(monkeypatch):
    """Fits that are not run: they take a millisecond a row."""
    started = []

    def measured(command, limit, cwd):
        way, folder, parameters, _, _ = json.loads(command[-1])
        n = len(np.load(f"{folder}/y.npy")) if way == "memory" else 10_000
        started.append((way, n, parameters))
        found = {"seconds": n / 1000, "resident": 2**30, "vectors": 7, "estimated": 0.01}
        return {**found, "accuracy": 0.9}, 2**29

    monkeypatch.setattr(processes, "measured", measured)
    return started


@linux
def test_growth_ends_where_it_would_take_too_long(pretended, tmp_path, monkeypatch):
    monkeypatch.setattr(basis_growth, "LIMIT", 3.0)
    report = Report(tmp_path)
    series = basis_growth.all_series(moons(500, 100), (100, 200), (1000, 2000, 4000), 50)
    basis_growth.grow(report, "memory", series, 1)
    (table,) = tables(report)
    lines = named(basis_growth.COLUMNS, table["rows"])
    assert [line["rows"] for line in lines[::2]] == [100, 200, 1000, 2000, 4000]
    assert [line["exponent fitted"] for line in lines[::2]] == ["", "1.00", "", "1.00", ""]
    assert lines[-1]["remark"] == "not started: some 4 s expected"
    assert lines[0]["gap estimated %"] == "1.000"
    assert [parameters for _, _, parameters in pretended[:2]] == [{}, {"max_vectors": 2000}]
    assert len(pretended) == 8


@linux
@pytest.mark.usefixtures("pretended")
def test_memory_is_that_of_a_process_of_its_own(tmp_path):
    pytest.importorskip("pyarrow")
    report = Report(tmp_path)
    basis_memory.run(report, 1, 10_000)
    (table,) = tables(report)
    (line,) = named(basis_memory.COLUMNS, table["rows"])
    assert line["peak resident memory, GiB"] == 1.0
    assert line["peak anonymous memory, GiB"] == 0.5
    assert line["rows/s"] == 1000
    assert line["file, MB"] > 10_000 * 40e-6  # ten features of four bytes


# --- rivals


def test_rivals_have_as_many_vectors_or_seconds(tmp_path):
    report = Report(tmp_path)
    basis_rivals.show(report, iter([basis_rivals.Problem(moons(), 1.0, 1.0)]), 1, 30)
    (table,) = tables(report)
    exact, ours, *others = named(basis_rivals.COLUMNS, table["rows"])
    assert (exact["program"], ours["program"]) == ("exact", "ours")
    assert ours["vectors"] <= 30
    assert others[-2]["program"] == others[-1]["program"] == "ours is nearest"
    assert {line["labels as exact %"] for line in others[-2:]} <= {"0 of 1", "1 of 1"}
    theirs = others[:-2]
    assert len(theirs) == 2 * len(basis_rivals.RIVALS)
    for line in theirs:
        if line["compared at"] == basis_rivals.VECTORS:
            assert line["vectors"] == pytest.approx(30, rel=0.25)
        elif not line["remark"].startswith("takes longer"):
            assert line["seconds"] <= ours["seconds"]
        assert float(line["labels as exact %"]) > 70.0


def test_sizes_are_doubled_while_there_is_time():
    sizes = []

    def fit(size: int) -> Fitted:
        sizes.append(size)
        return Fitted(None, size / 100, size)

    assert basis_rivals.in_time(fit, 5.0, 10_000)[0] == 256
    assert sizes == [64, 128, 256, 512]
    assert basis_rivals.in_time(fit, 5.0, 300)[0] == 300
    assert basis_rivals.in_time(fit, 0.1, 300)[0] == 64


def test_the_nearest_are_counted():
    def line(data: str, program: str, at: str, labels: float) -> list:
        row = dict.fromkeys(basis_rivals.COLUMNS, "")
        found = {"data": data, "program": program, "compared at": at}
        return list({**row, **found, "labels as exact %": f"{labels:.2f}"}.values())

    rows = [
        line("a", "ours", "", 99.0),
        line("a", "CPSP", basis_rivals.VECTORS, 98.0),
        line("a", "CPSP", basis_rivals.SECONDS, 99.5),
        line("b", "ours", "", 97.0),
        line("b", "CPSP", basis_rivals.VECTORS, 97.0),
        line("b", "CPSP", basis_rivals.SECONDS, 90.0),
    ]
    found = named(basis_rivals.COLUMNS, basis_rivals.nearest(rows))
    assert [one["labels as exact %"] for one in found] == ["2 of 2", "1 of 2"]


# --- closeness


@pytest.mark.parametrize("name", ["classes", "values"])
def test_statements_of_closeness_are_compared_with_the_exact_svm(name, monkeypatch):
    monkeypatch.setattr(closeness, "VECTORS", (10, 40))
    every = {problem.name.split()[-1]: problem for problem in closeness.problems(None, 400)}
    problem = every["flipped" if name == "classes" else "1"]
    lines = named(closeness.COLUMNS, closeness.compared(problem, 1))
    assert [line["vectors"] for line in lines] == [10, 10, 40, 40]
    for line in lines:
        assert line["holds"] == "yes"
        assert line["at most % above"] >= line["truly %"] > 0.0
    assert lines[-1]["truly %"] < lines[0]["truly %"]


def test_an_objective_is_that_of_the_certificate():
    problem = next(closeness.problems(None, 400))
    model = problem.estimator.set_params(max_vectors=40).fit(problem.X, problem.y)
    known = model.certify(problem.X, problem.y)
    assert closeness.objective(model, problem) == pytest.approx(known.objective, rel=1e-9)
    assert closeness.at_most(known) == pytest.approx(known.gap / known.dual_objective)
