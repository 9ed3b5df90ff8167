"""The benchmarks of few vectors, of refinement and of closeness: what their tables say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from aesvm import AESVR
from benchmarks import closeness, few_vectors, limits, other_datasets, refinement, rivals
from benchmarks.datasets import Dataset
from benchmarks.limits import Fitted, expected
from benchmarks.report import Report, median_seconds

pytestmark = pytest.mark.weekly


def moons(n_train: int = 800, n_test: int = 300) -> Dataset:
    X, y = make_moons(n_train + n_test, noise=0.3, random_state=0)
    return Dataset("moons", X[:n_train], y[:n_train], X[n_train:], y[n_train:])


@pytest.fixture
def no_intelex(monkeypatch):
    monkeypatch.setattr(rivals, "intelex", lambda C, gamma, n_jobs: rivals.svc(C, gamma))


# --- reports


def test_a_table_is_written_in_place_of_its_earlier_version(tmp_path, capsys):
    report = Report(tmp_path)
    report.table("A", [{"rows": 1, "seconds": 0.123456}])
    report.table("B", [{"rows": 1}], "Note.")
    report.table("A", [{"rows": 1, "seconds": 0.123456}, {"rows": 2, "remark": "not started"}])
    content = json.loads(report.path.read_text())
    assert list(content["tables"]) == ["A", "B"]
    assert content["tables"]["A"]["rows"][1] == {"rows": 2, "remark": "not started"}
    assert content["machine"]["numpy"] == np.__version__
    assert "| 0.1235 |" in " ".join(capsys.readouterr().out.split())


def test_what_takes_long_is_timed_once():
    calls = []
    assert median_seconds(lambda: calls.append(1), 3, long=60.0) >= 0.0
    assert len(calls) == 3
    median_seconds(lambda: calls.append(1), 3, long=-1.0)
    assert len(calls) == 4


def test_data_is_loaded_once(tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr("benchmarks.datasets.load", lambda name, folder: names.append(name))
    monkeypatch.setattr("benchmarks.other_datasets.load", lambda name, folder: names.append(name))
    report = Report(tmp_path)
    for name in ("covtype", "flights", "covtype"):
        report.data(name)
    assert names == ["covtype", "flights"]


def test_rows_are_taken_in_a_random_order():
    data = moons(500, 100)
    part = data.in_order(77, 200, 50)
    order = np.random.default_rng(77).permutation(500)
    np.testing.assert_array_equal(part.X, data.X[order[:200]])
    np.testing.assert_array_equal(part.X_test, data.X[order[-50:]])
    assert len(data.first(30).y) == 30
    assert len(data.first(30).y_test) == 100


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

    def pretended(run):
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


def test_what_is_expected_goes_by_the_last_two_runs():
    assert expected([], 1000) == 0.0
    assert expected([(100, 2.0)], 300) == pytest.approx(6.0)
    assert expected([(10, 50.0), (100, 1.0), (200, 4.0)], 400) == pytest.approx(16.0)
    assert expected([(100, 2.0), (200, 2.0)], 400) == pytest.approx(4.0)


def test_sizes_are_doubled_while_there_is_time():
    sizes = []

    def fit(size: int) -> Fitted:
        sizes.append(size)
        return Fitted(None, size / 100, size)

    assert limits.largest(fit, 5.0, 10_000)[0] == 256
    assert sizes == [64, 128, 256, 512]
    assert limits.largest(fit, 5.0, 300)[0] == 300
    assert limits.largest(fit, 0.1, 300)[0] == 64


# --- compress


@pytest.fixture(scope="module")
def compressed() -> list[dict]:
    problem = few_vectors.Problem(moons(2000), rivals.ours(1.0, 1.0, 1, "exact"))
    return few_vectors.compressed(problem, 1, 1, (0.2,))


def test_every_program_has_as_many_vectors(compressed):
    exact, small, *others = compressed
    assert [line["program"] for line in compressed] == [
        *("exact", "compress to 20%", "random rows, 20%", "refine=0, 20%", "CPSP, 20%")
    ]
    assert exact["labels as exact %"] == 100.0
    assert 0 < small["vectors"] <= round(0.2 * exact["vectors"])
    assert small["labels as exact %"] > 99.0
    for line in others:
        assert line["vectors"] == pytest.approx(small["vectors"], rel=0.25)
        assert line["labels as exact %"] > 80.0


def test_changes_are_those_that_compress_itself_measures(compressed):
    data, line = moons(2000), compressed[1]
    model = rivals.ours(1.0, 1.0, 1, "exact").fit(data.X, data.y)
    own = model.compress(line["vectors"], X=data.X_test).compression_
    assert line["largest change"] == pytest.approx(own.largest_change, rel=1e-6)
    assert line["largest change"] <= line["bound on changes"] == pytest.approx(own.bound, rel=1e-6)


def test_pairs_of_classes_are_measured_each():
    X, y = make_classification(600, 4, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    model = rivals.ours(1.0, 0.5, 1, "exact").fit(X[:400], y[:400])
    assert few_vectors.decision_values(model, X[400:]).shape == (200, 3)
    assert model.decision_function_shape == "ovr"


def test_regressions_have_r2_and_no_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=600)
    data = Dataset("sine", X[:400], y[:400], X[400:], y[400:])
    problem = few_vectors.Problem(data, AESVR(refine="exact", n_jobs=1))
    lines = few_vectors.compressed(problem, 1, 1, (0.2,))
    assert [line["program"] for line in lines[2:]] == ["random rows, 20%", "refine=0, 20%"]
    assert all(line["labels as exact %"] is None for line in lines)
    assert lines[0]["accuracy or R²"] == pytest.approx(
        problem.exact.score(X[400:], y[400:]), abs=1e-4
    )
    assert lines[1]["accuracy or R²"] > 0.6


# --- basis


@pytest.mark.usefixtures("no_intelex")
def test_a_basis_is_held_against_the_exact_model():
    lines = few_vectors.in_basis(moons(), 1.0, 1.0, 1, n_vectors=40)
    exact, other, auto, small, one = lines
    assert [line["program"] for line in lines] == [
        *("exact", "intelex", '"auto"', "max_vectors=40", "refine=1")
    ]
    assert exact["labels as exact %"] == auto["labels as exact %"] == 100.0
    assert exact["remark"] == auto["remark"] == "exact"
    assert other["labels as exact %"] > 99.0
    assert small["vectors"] <= 40 < exact["vectors"]
    assert small["labels as exact %"] > 98.0
    assert small["gap estimated %"] is not None
    assert one["gap estimated %"] is None


@pytest.mark.usefixtures("no_intelex")
def test_what_is_not_started_has_a_remark_and_nothing_to_compare_with(monkeypatch):
    monkeypatch.setattr(limits, "too_long", lambda fit, n: "not started: so")
    exact, other, auto, small, _ = few_vectors.in_basis(moons(), 1.0, 1.0, 1, n_vectors=40)
    assert exact["remark"] == other["remark"] == "not started: so"
    assert "seconds" not in exact
    assert auto["labels as exact %"] is small["labels as exact %"] is None
    assert small["accuracy or R²"] > 0.8


def test_a_tenth_of_the_labels_is_flipped():
    data = few_vectors.flipped(50_000, 100)
    X = data.X
    clean = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] > 0.0
    assert np.mean(clean != data.y) == pytest.approx(0.1, abs=0.01)
    assert data.X.dtype == np.float32
    assert len(data.y_test) == 100


def test_rivals_have_as_many_vectors_or_seconds():
    exact, ours, *theirs = few_vectors.beside_rivals(moons(), 1.0, 1.0, 1, 30)
    assert (exact["program"], ours["program"]) == ("exact", "ours")
    assert ours["vectors"] <= 30
    assert len(theirs) == 2 * len(few_vectors.RIVALS)
    for line in theirs:
        if line["compared at"] == "equal vectors":
            assert line["vectors"] == pytest.approx(30, rel=0.25)
        elif line["size"] > 64:
            assert line["seconds"] <= ours["seconds"]
        assert line["labels as exact %"] > 70.0


# --- refinement


@pytest.mark.usefixtures("no_intelex")
def test_every_refinement_stands_beside_the_exact_svms():
    lines = refinement.refined(moons(1500), 1.0, 1.0, 1, 1)
    assert [line["program"] for line in lines] == [
        *("SVC", "intelex", "refine=0", "refine=1", "refine=2", "refine=auto", "refine=exact"),
        "subsample",
    ]
    by_name = {line["program"]: line for line in lines}
    assert by_name["SVC"]["labels as SVC %"] == 100.0
    assert by_name["refine=exact"]["relative gap"] < 1e-3
    assert by_name["subsample"]["M/N %"] == by_name["refine=1"]["M/N %"]
    (auto, *_) = refinement.speedups(lines)
    expected = by_name["SVC"]["seconds"] / by_name["refine=auto"]["seconds"]
    assert auto["geometric mean"] == auto["least"] == pytest.approx(expected)


@pytest.fixture
def problem(monkeypatch):
    monkeypatch.setattr(refinement, "N_TEST", 500)
    return refinement.Problem(refinement.noisy(1500, 3, 3, 0.2, seed=0), 1.0, 1.0)


def test_auto_stands_beside_what_it_chooses_between(problem):
    *others, auto = refinement.beside_choices(problem, 1, 1)
    assert [line["program"] for line in others] == list(refinement.CHOICES)
    assert others[0]["what it was"] == auto["what it was"] == "exact"
    assert others[2]["what it was"].endswith(" vectors")
    assert auto["labels as exact %"] == 100.0
    best = {line["program"]: line for line in others}[auto["best of the others"]]
    assert auto["auto's seconds / its"] == pytest.approx(auto["seconds"] / best["seconds"])


def test_an_exact_svm_that_would_take_too_long_is_left_out(problem, monkeypatch):
    monkeypatch.setattr(limits, "too_long", lambda fit, n: "not started: so")
    exact, *_, auto = refinement.beside_choices(problem, 1, 1)
    assert exact["what it was"] == "not started: so"
    assert "seconds" not in exact
    assert auto["best of the others"] in ("refine=1", "max_vectors=2000")
    assert auto["labels as exact %"] is None


def test_what_is_less_accurate_is_not_the_best():
    accuracy = {"exact": 0.9, "refine=1": 0.8995, "max_vectors=2000": 0.89, "auto": 0.9}
    seconds = {"exact": 9.0, "refine=1": 4.0, "max_vectors=2000": 1.0, "auto": 5.0}
    assert refinement.regretted(seconds, accuracy) == ("refine=1", 1.25)


# --- closeness


@pytest.mark.parametrize("name", ["classes", "values"])
def test_statements_of_closeness_are_compared_with_the_exact_svm(name, monkeypatch):
    monkeypatch.setattr(closeness, "VECTORS", (10, 40))
    every = {problem.name.split()[-1]: problem for problem in closeness.problems(None, 400)}
    problem = every["flipped" if name == "classes" else "1"]
    lines = closeness.compared(problem, 1)
    assert [line["vectors"] for line in lines] == [10, 10, 40, 40]
    for line in lines:
        assert line["holds"]
        assert line["at most % above"] >= line["truly %"] > 0.0
    assert lines[-1]["truly %"] < lines[0]["truly %"]


def test_an_objective_is_that_of_the_certificate():
    problem = next(closeness.problems(None, 400))
    model = problem.estimator.set_params(max_vectors=40).fit(problem.X, problem.y)
    known = model.certify(problem.X, problem.y)
    assert closeness.objective(model, problem) == pytest.approx(known.objective, rel=1e-9)
    assert closeness.at_most(known) == pytest.approx(known.gap / known.dual_objective)
