"""``aesvm fit`` and ``aesvm predict`` on tables as people have them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import aesvm
from tests.command.files import done, run


@pytest.fixture
def shop(folder):
    """Text, gaps, dates, booleans, a constant, an identifier, and two columns of the target."""
    random = np.random.default_rng(0)
    n = 160
    colour = random.choice(["red", "blue", "green"], n)
    size = random.normal(size=n).round(3)
    ok = np.where((colour == "red") ^ (size > 0.3), "yes", "no")
    table = pd.DataFrame(
        {
            "colour": colour,
            "size": np.where(random.random(n) < 0.1, np.nan, size),
            "bought": pd.date_range("2015-07-01", periods=n).strftime("%Y-%m-%d"),
            "member": random.random(n) < 0.5,
            "shop": "main",
            "key": [f"k{at}" for at in range(n)],
            "copy": np.where(ok == "yes", 1, 0),
            "status": np.where(ok == "yes", "done", random.choice(["open", "lost"], n)),
            "customer": random.integers(0, 20, n),
            "ok": ok,
        }
    )
    table.to_csv("shop.csv", index=False)
    return table


def fitted(capsys, *arguments):
    return done(capsys, "fit", "shop.csv", "--target", "ok", "--drop", "status", *arguments)


def test_columns_are_prepared_by_their_types_and_odd_ones_named(shop, capsys):
    ended = done(capsys, "fit", "shop.csv", "--target", "ok", "--json")
    treated = ended.json["columns"]
    assert {name for name, one in treated.items() if one == "left out"} == {"shop", "key", "copy"}
    assert treated["colour"].startswith("one-hot")
    assert treated["member"].startswith("one-hot")
    assert treated["size"].startswith("median")
    assert treated["bought"].startswith("year, month, weekday")
    for said in (
        "column 'shop' is left out: a constant",
        "column 'key' is left out: text that differs in every row",
        "column 'copy' is left out: a copy of the target",
        "column 'status' predicts the target perfectly",
    ):
        assert said in ended.err


def test_the_model_takes_raw_tables_with_columns_in_any_order(shop, capsys):
    found = fitted(capsys, "--json").json["test"]
    assert found["accuracy"] > 0.85
    assert found["balanced_accuracy"] == pytest.approx(
        np.mean([one["recall"] for one in found["classes"].values()])
    )
    assert 0.85 < found["roc_auc"] <= 1.0
    new = shop.drop(columns=["ok", "shop", "copy", "key", "status"])
    new.loc[0, "colour"] = "violet"
    new.loc[1, ["size", "bought"]] = np.nan, None
    new[new.columns[::-1]].assign(extra="?").to_csv("new.csv", index=False)
    done(capsys, "predict", "new.csv", "shop.aesvm", "out")
    answers = Path("out").read_text().split()
    assert np.mean(np.array(answers) == shop["ok"]) > 0.85
    assert aesvm.load("shop.aesvm").predict(pd.read_csv("new.csv")).tolist() == answers
    ended = done(capsys, "predict", "shop.csv", "shop.aesvm", "again")
    assert ended.out.startswith("Accuracy = ")


def test_a_missing_or_renamed_column_is_named(shop, capsys):
    fitted(capsys, "-q")
    shop.rename(columns={"colour": "color"}).to_csv("new.csv", index=False)
    ended = run(capsys, "predict", "new.csv", "shop.aesvm")
    assert ended.code == 1
    assert "new.csv has no column 'colour', which the model was trained on" in ended.err
    assert "'color'" in ended.err


def test_a_table_without_rows_is_refused_and_nothing_is_written(shop, capsys):
    fitted(capsys, "-q")
    shop[:0].to_csv("new.csv", index=False)
    ended = run(capsys, "predict", "new.csv", "shop.aesvm", "out")
    assert ended.code == 1
    assert "new.csv: there are no rows in the file" in ended.err
    assert not Path("out").exists()
    shop.assign(size="large").to_csv("new.csv", index=False)
    ended = run(capsys, "predict", "new.csv", "shop.aesvm")
    assert ended.code == 1
    assert "column 'size': 'large' is not a number" in ended.err


def test_groups_weights_of_classes_and_scores(shop, capsys):
    found = fitted(
        capsys, "--json", "--group", "customer", "--class-weight", "balanced",
        *("--scoring", "balanced_accuracy"),
    ).json  # fmt: skip
    model = aesvm.load("shop.aesvm")
    assert model[-1].class_weight == "balanced"
    assert "customer" not in found["columns"]
    page = Path("shop.html").read_text()
    assert "groups kept together" in page
    assert "balanced_accuracy" in page.replace("<wbr>", "")
    for wrong in (["--group", "none"], ["--scoring", "best"], ["--time-limit", "0"]):
        assert run(capsys, "fit", "shop.csv", "--target", "ok", *wrong).code == 2


def test_a_time_limit_ends_the_search_with_a_model(shop, capsys):
    ended = fitted(capsys, "--time-limit", "1e-6")
    assert "the time limit has cut the search short" in ended.err
    assert aesvm.load("shop.aesvm").predict(shop).shape == (160,)


def test_the_report_has_what_a_reader_needs(shop, capsys):
    fitted(capsys, "-q")
    page = Path("shop.html").read_text()
    for wanted in ("balanced accuracy", "precision", "recall", "ROC", "Calibration", "Columns"):
        assert wanted in page
    assert "width=device-width" in page
    code = page.split("<h2>Using the model</h2>")[1].split("<pre>")[1].split("</pre>")[0]
    code = code.replace("&#x27;", "'").replace("&quot;", '"')
    shop.to_csv("new.csv", index=False)
    known: dict = {}
    exec(code.replace("\nmodel.predict", "\nanswers = model.predict"), known)
    assert len(known["answers"]) == 160
    assert not re.search(r"<(script|link|img|iframe)\b|url\(\s*http", page)


def test_a_regression_shows_residuals(shop, capsys):
    shop.to_csv("shop.csv", index=False)
    done(capsys, "fit", "shop.csv", "--target", "size", "-q", "--task", "regression")
    assert "Residuals" in Path("shop.html").read_text()
    ended = run(capsys, "fit", "shop.csv", "--target", "size", "--class-weight", "balanced")
    assert ended.code == 2


def test_a_large_table_is_streamed(shop, capsys):
    ended = fitted(capsys, "--memory", "5 kB")
    assert "it is streamed" in ended.err
    assert np.mean(aesvm.load("shop.aesvm").predict(shop) == shop["ok"]) > 0.7
    assert run(capsys, "fit", "shop.csv", "--target", "ok", "--memory", "5 kB", "--group",
               "customer").code == 2  # fmt: skip


def test_parquet_and_compressed_tables_give_the_same_model(shop, capsys):
    pytest.importorskip("pyarrow")
    fitted(capsys, "-q")
    shop.to_csv("zipped.csv.gz", index=False)
    shop.to_parquet("columns.parquet")
    predicted = []
    for name in ("shop.csv", "zipped.csv.gz", "columns.parquet"):
        done(capsys, "fit", name, "--target", "ok", "--drop", "status", "-q", "-o", "one.aesvm")
        predicted.append(aesvm.load("one.aesvm").decision_function(shop))
    np.testing.assert_allclose(predicted[1], predicted[0])
    np.testing.assert_allclose(predicted[2], predicted[0], atol=1e-6)


def test_row_numbers_leaks_and_texts_that_are_no_dates_are_named(shop, capsys):
    paid = np.where(shop["ok"] == "yes", 1.0, 0.0) + np.linspace(0.0, 0.5, len(shop))
    shop.assign(row=np.arange(len(shop)), paid=paid).to_csv("shop.csv", index=False)
    said = fitted(capsys, "--drop", "copy").err
    assert "column 'row' counts the rows" in said
    assert "column 'paid' predicts the target perfectly" in said
    fitted(capsys, "-q", "--drop", "row", "--drop", "paid")
    shop.assign(bought=["soon", *shop["bought"][1:]]).to_csv("new.csv", index=False)
    ended = run(capsys, "predict", "new.csv", "shop.aesvm")
    assert ended.code == 1
    assert "column 'bought': 'soon' is not a date" in ended.err


def test_values_in_the_thousands_are_learned(shop, capsys):
    shop["amount"] = 1000.0 * (shop["size"].fillna(0.0) + (shop["colour"] == "red")) + 5000.0
    shop.drop(columns=["ok", "status", "copy"]).to_csv("own.csv", index=False)
    assert done(capsys, "fit", "own.csv", "--target", "amount", "--json").json["test"]["r2"] > 0.7
    done(capsys, "predict", "own.csv", "own.aesvm", "out")
    errors = np.loadtxt("out") - shop["amount"]
    assert errors.std() < 0.5 * shop["amount"].std()
