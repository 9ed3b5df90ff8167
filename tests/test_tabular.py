"""Pipelines for tables: what is decided of each column, and what the pipeline does with it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import aesvm
from aesvm.tabular import describe_columns, task_of, warnings_of
from tests import children

pd = pytest.importorskip("pandas")

N = 60

DAY = pd.Timedelta(days=1)


def described(**columns):
    """What is decided of columns beside a target of two classes."""
    table = pd.DataFrame({**columns, "y": np.arange(N) % 3 == 0})
    return {one.name: one for one in describe_columns(table, "y")}


class TestDates:
    @pytest.mark.parametrize("form", ["%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y", "%Y-%m-%d %H:%M:%S"])
    def test_texts_that_parse_are_dates(self, form):
        days = pd.date_range("2015-07-01", periods=N)
        found = described(day=days.strftime(form))["day"]
        assert (found.kind, found.date_format) == ("date", form)
        assert described(day=days)["day"].kind == "date"

    def test_texts_that_mostly_do_not_are_categories(self):
        days = pd.Series(pd.date_range("2015-07-01", periods=N).strftime("%Y-%m-%d"))
        days[::4] = "unknown"
        assert described(day=days)["day"].kind == "category"
        assert described(month=["May", "June"] * (N // 2))["month"].kind == "category"
        assert described(version=["1.10", "1.12"] * (N // 2))["version"].kind == "category"

    def test_a_few_texts_that_do_not_count_as_missing_and_are_named(self):
        days = pd.Series(pd.date_range("2015-07-01", periods=N).strftime("%d/%m/%Y"))
        days[5] = "soon"
        found = described(day=days)["day"]
        assert (found.kind, found.date_format, found.no_dates) == (
            "date with gaps",
            "%d/%m/%Y",
            ("soon",),
        )
        assert "'soon'" in found.doubt

    def test_the_format_is_the_one_that_reads_most(self):
        days = ["01/02/2015", *["02/03/2015"] * (N - 2), "13/02/2015"]
        assert described(day=days)["day"].date_format == "%d/%m/%Y"

    @pytest.mark.parametrize("form", [None, "%d/%m/%Y", "%Y-%m-%d"])
    def test_a_text_that_is_no_date_is_an_error_and_a_gap_is_none(self, form, recwarn):
        days = pd.Series(pd.date_range("2015-07-13", periods=N))
        days[::7] = None
        y = np.where(days.isna(), "lost", "found")
        table = pd.DataFrame({"day": days if form is None else days.dt.strftime(form), "y": y})
        pipeline = aesvm.tabular_pipeline(table, "y", C=10.0).fit(table, table["y"])
        assert not [one for one in recwarn if "dayfirst" in str(one.message)]
        assert pipeline.score(table, table["y"]) == 1.0  # by the indicator
        with pytest.raises(ValueError, match="column 'day': 'soon' is not a date"):
            pipeline.predict(pd.DataFrame({"day": [None, "soon", "later"]}))


class TestOddColumns:
    def test_those_that_are_certain_are_left_out(self):
        y = np.arange(N) % 3 == 0
        found = described(
            one=["x"] * N,
            none=[None] * N,
            copy=np.where(y, "in", "out"),
            key=[f"k{at}" for at in range(N)],
        )
        assert not any(one.used for one in found.values())

    def test_others_are_named_and_stay(self):
        y = np.arange(N) % 3 == 0
        name = [f"k{at}" for at in range(N)]
        found = described(
            number=np.random.default_rng(0).permutation(N) + 1000,
            name=[*name[:-1], name[0]],
            status=np.where(y, "done", np.array(["open", "lost"])[np.arange(N) % 2]),
        )
        assert all(one.used and one.doubt for one in found.values())
        said = " ".join(warnings_of(list(found.values())))
        assert "'number' counts the rows" in said
        assert "'name' differs in nearly every row" in said
        assert "'status' predicts the target perfectly" in said

    def test_numbers_of_rows_are_doubted_in_a_sample_of_them(self):
        random = np.random.default_rng(0)
        table = pd.DataFrame({"row": np.arange(300), "y": random.choice(["a", "b"], 300)})
        table["key"] = random.choice(10**9, 300, replace=False)
        table["level"], table["weight"] = table["row"] // 2, table["row"] / 7
        sample = table.sample(frac=0.8, random_state=0)
        doubts = {one.name: one.doubt for one in describe_columns(sample, "y")}
        assert "counts the rows" in doubts["row"]
        assert "differs in nearly every row" in doubts["key"]
        assert doubts["level"] == doubts["weight"] == ""

    def test_a_number_that_separates_two_classes_predicts_them_perfectly(self):
        random = np.random.default_rng(0)
        y = random.random(N) < 0.3
        amount = random.random(N) - 2.0 * y
        table = pd.DataFrame({"paid": amount, "day": pd.Timestamp("2020") + amount * 9 * DAY})
        table["nearly"] = np.where(np.arange(N) == np.flatnonzero(y)[0], 0.5, amount)
        table["three"] = np.where(y, "a", random.choice(["b", "c"], N))
        doubts = {one.name: one.doubt for one in describe_columns(table.assign(y=y), "y")}
        assert "predicts the target perfectly" in doubts["paid"]
        assert "predicts the target perfectly" in doubts["day"]
        assert doubts["nearly"] == ""
        of_three = {one.name: one.doubt for one in describe_columns(table, "three")}
        assert of_three["paid"] == ""

    def test_a_linear_function_of_values_is_a_copy_and_a_noisy_one_is_not(self):
        random = np.random.default_rng(0)
        y = random.normal(size=N)
        table = pd.DataFrame({"f": 1.8 * y + 32.0, "near": y + 0.01 * random.normal(size=N)})
        kinds = {one.name: one.used for one in describe_columns(table.assign(y=y), "y")}
        assert kinds == {"f": False, "near": True}

    def test_constants_with_gaps_are_kept(self):
        assert described(flag=[1.0, None] * (N // 2))["flag"].used


def test_columns_that_are_left_out_are_warned_of_and_a_table_of_none_is_refused():
    table = pd.DataFrame({"one": [1] * N, "y": ["a", "b"] * (N // 2)})
    with (
        pytest.warns(UserWarning, match="'one' is left out: a constant"),
        pytest.raises(ValueError, match="no column is left"),
    ):
        aesvm.tabular_pipeline(table, "y")
    with pytest.raises(ValueError, match="target='z'"):
        aesvm.tabular_pipeline(table, "z")


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (np.zeros((3, 2)), "table=ndarray"),
        (pd.DataFrame({0: [1.0, 2.0], "y": [0, 1]}), r"columns \[0\]"),
        (pd.DataFrame([[1.0, 2.0, 0]], columns=["a", "a", "y"]), r"columns \['a', 'a'\]"),
        (pd.DataFrame({"a": [1.0, 2.0], "y": [0, None]}), "target='y': 1 of 2 rows"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(table, match):
    with pytest.raises(ValueError, match=match):
        aesvm.tabular_pipeline(table, "y")


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_regression_learns_in_any_unit_of_its_target(unit, tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(200, 2)), columns=["a", "b"])
    table["amount"] = unit * (5.0 + np.sin(table["a"]) + table["b"])
    pipeline = aesvm.tabular_pipeline(table, "amount").fit(table, table["amount"])
    assert pipeline.score(table, table["amount"]) > 0.95
    aesvm.save(pipeline, tmp_path / "model.aesvm")
    loaded = aesvm.load(tmp_path / "model.aesvm")
    np.testing.assert_array_equal(loaded.predict(table), pipeline.predict(table))
    assert aesvm.tabular_pipeline(table, "amount", C=3.0)[-1].C == 3.0


def test_a_loaded_pipeline_names_the_column_that_is_wrong(tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(N, 2)), columns=["a", "b"])
    table["c"], table["y"] = random.choice(["u", "v"], (2, N))
    aesvm.save(aesvm.tabular_pipeline(table, "y").fit(table, table["y"]), tmp_path / "one.aesvm")
    loaded = aesvm.load(tmp_path / "one.aesvm")
    with pytest.raises(ValueError, match="columns are missing: 'b', 'c'"):
        loaded.predict(table[["a"]])
    with pytest.raises(ValueError, match="column 'b': 'many' is not a number"):
        loaded.predict(table.assign(b=["1.5", None, "many", *["few"] * (N - 3)]))
    with pytest.raises(ValueError, match="a pandas DataFrame is needed, got ndarray"):
        loaded.predict(table.to_numpy())
    as_text = table.assign(a=table["a"].map(repr))
    np.testing.assert_array_equal(loaded.predict(as_text), loaded.predict(table))


def test_a_search_over_a_pipeline_gives_one_that_is_saved(tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(N, 2)), columns=["a", "b"])
    table["y"] = 1000.0 * table["a"] * table["b"]
    pipeline = aesvm.tabular_pipeline(table, "y")
    search = aesvm.model_selection.AEGridSearchCV(pipeline, "svm", cv=3).fit(table, table["y"])
    aesvm.save(search.best_estimator_, tmp_path / "best.aesvm")
    loaded = aesvm.load(tmp_path / "best.aesvm")
    np.testing.assert_array_equal(loaded.predict(table), search.predict(table))


def test_a_table_of_numbers_is_an_onnx_graph_and_one_with_gaps_is_refused():
    runtime, skl2onnx = map(pytest.importorskip, ("onnxruntime", "skl2onnx"))
    from skl2onnx.common.data_types import FloatTensorType

    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(N, 2)), columns=["a", "b"]).astype(np.float32)
    y = 1000.0 * table["a"] * table["b"]
    aesvm.onnx.register_converters()

    def graph(table):
        pipeline = aesvm.tabular_pipeline(table.assign(y=y), "y").fit(table, y)
        inputs = [(name, FloatTensorType([None, 1])) for name in table.columns]
        return pipeline, skl2onnx.to_onnx(pipeline, initial_types=inputs).SerializeToString()

    pipeline, written = graph(table)
    session = runtime.InferenceSession(written)
    found = session.run(None, {name: table[[name]].to_numpy() for name in table.columns})[0]
    np.testing.assert_allclose(found[:, 0], pipeline.predict(table), atol=1.0)
    with pytest.raises(ValueError, match="missing values of 'b'"):
        graph(table.assign(b=table["b"].where(table["b"] < 1.0)))


def test_submodules_are_imported_when_they_are_asked_for():
    names = ["io", "tabular", "onnx", "plotting", "model_selection", "dask"]
    code = (
        "import sys, aesvm\n"
        "print('numpy' in sys.modules)\n"
        f"for name in {names}:\n"
        "    try:\n"
        "        print(getattr(aesvm, name).__name__)\n"
        "    except ImportError as error:\n"
        "        print(f'aesvm.{name}' if 'aesvm[' in str(error) else error)\n"
    )
    expected = ["False", *(f"aesvm.{name}" for name in names)]
    assert children.run(children.code(code)).split() == expected
    assert set(names) <= set(dir(aesvm))


@pytest.mark.parametrize("task", ["guess", "regression"])
def test_a_task_that_does_not_go_with_the_target_is_refused(task):
    with pytest.raises(ValueError, match="task="):
        task_of(["a", "b"], task)


def test_levels_are_equal_as_booleans_texts_and_numbers(tmp_path):
    random = np.random.default_rng(0)
    member, code = random.random(N) < 0.5, random.integers(1, 4, N).astype(str)
    table = pd.DataFrame({"member": member, "code": code, "x": random.normal(size=N)})
    table["y"] = np.where(member ^ (code == "1"), "in", "out")
    pipeline = aesvm.tabular_pipeline(table, "y", C=10.0).fit(table, table["y"])
    assert pipeline.score(table, table["y"]) == 1.0
    as_text = table.assign(member=table["member"].astype(str), code=table["code"].astype(float))
    np.testing.assert_array_equal(
        pipeline.decision_function(as_text), pipeline.decision_function(table)
    )
    aesvm.save(pipeline, tmp_path / "model.aesvm")
    loaded = aesvm.load(tmp_path / "model.aesvm")
    np.testing.assert_array_equal(
        loaded.decision_function(table), pipeline.decision_function(table)
    )


def test_gaps_and_unknown_levels_are_predicted():
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "x": np.where(random.random(N) < 0.2, np.nan, random.normal(size=N)),
            "level": random.choice(["a", "b", None], N),
            "day": pd.date_range("2020-01-01", periods=N),
            "y": random.normal(size=N),
        }
    )
    pipeline = aesvm.tabular_pipeline(table, "y").fit(table, table["y"])
    new = pd.DataFrame({"day": [None, None], "level": ["z", None], "x": [np.nan, 1.0]})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found unknown categories")
        assert np.isfinite(pipeline.predict(new)).all()
    with pytest.raises(ValueError, match="level"):
        pipeline.predict(new.drop(columns="level"))
