"""Raw columns are the players, whatever a pipeline makes of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from aesvm import AESVC, AESVR, tabular_pipeline
from aesvm.inspection import shapley_values
from tests.inspection.coalitions import by_coalitions


def table(n_rows=200):
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": random.normal(10.0, 3.0, n_rows),
            "colour": random.choice(["red", "blue", "green", "grey"], n_rows),
            "idle": np.arange(n_rows),
            "shape": random.choice(["round", "square"], n_rows),
            "age": random.exponential(5.0, n_rows),
        }
    )
    wanted = (frame["size"] > 10) ^ (frame["colour"] == "red") ^ (frame["age"] > 5)
    return frame, wanted.map({True: "ripe", False: "raw"})


def check(model, X, background, found):
    """Values are those of all coalitions of raw columns, of the whole pipeline."""
    columns = [one for one in X.columns if one in found.feature_names]

    def decide(numbers):
        rows = pd.concat([X, background], ignore_index=True)
        mixed = {
            one: rows[one].to_numpy()[numbers[:, at].astype(int)]
            for at, one in enumerate(X.columns)
        }
        frame = pd.DataFrame(mixed).astype(X.dtypes.to_dict())
        values = model.predict if isinstance(model[-1], AESVR) else model.decision_function
        return values(frame)[:, None]

    # rows by number: column j of row i takes its value from that row of the table
    n_rows, n_all = len(X), len(X) + len(background)
    numbers = np.repeat(np.arange(float(n_all))[:, None], X.shape[1], axis=1)
    players = [[X.columns.get_loc(one)] for one in columns]
    wanted, _ = by_coalitions(decide, numbers[:n_rows], numbers[n_rows:], players)
    at = [found.feature_names.index(one) for one in columns]
    assert_allclose(found.values[:, at], wanted[:, :, 0], atol=1e-9)
    assert found.values.shape == (n_rows, len(columns))


def encoded(**parameters):
    return OneHotEncoder(handle_unknown="ignore", **parameters)


STEPS = {
    "names": ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "size"]),
            ("levels", encoded(), ["colour", "shape"]),
        ]
    ),
    "dropped": make_column_transformer(
        (encoded(drop="if_binary", sparse_output=False), ["shape", "colour"]),
        (MinMaxScaler(), slice("age", "age")),
        ("drop", ["idle"]),
        remainder="passthrough",
    ),
    "rare": make_column_transformer(
        (encoded(max_categories=2, drop="first"), make_column_selector(dtype_exclude="number")),
        (KBinsDiscretizer(4, strategy="uniform"), [0]),
        (FunctionTransformer(np.sqrt, feature_names_out="one-to-one"), [False] * 4 + [True]),
    ),
    "pipelines": Pipeline(
        [
            (
                "columns",
                make_column_transformer(
                    (make_pipeline(OrdinalEncoder(), StandardScaler()), ["colour", "shape"]),
                    (
                        make_pipeline(
                            SimpleImputer(add_indicator=True),
                            FeatureUnion([("a", StandardScaler()), ("b", MinMaxScaler())]),
                        ),
                        ["size", "age"],
                    ),
                ),
            ),
            ("some", SelectKBest(k=5)),
        ]
    ),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_pipelines_have_the_values_of_all_coalitions_of_raw_columns(steps):
    X, y = table()
    X.loc[::7, "age"] = np.nan if "pipelines" in str(steps) or "some" in str(steps) else 1.0
    model = make_pipeline(steps, AESVC(gamma=0.5)).fit(X, y)
    found = shapley_values(model, X[:4], X[60:66])
    check(model, X[:4], X[60:66], found)
    assert_array_equal(found.data[:, found.feature_names.index("size")], X["size"][:4])


@pytest.mark.parametrize("target", ["ripe", "size"])
def test_tables_of_every_kind_of_column(target):
    X, y = table()
    X["day"] = pd.date_range("2020-01-01", periods=len(X), freq="37D").astype(str)
    X.loc[::5, "age"] = np.nan
    X.loc[3, "day"] = None
    whole = X.assign(ripe=y).drop(columns="idle")
    model = tabular_pipeline(whole, target)
    rows = whole.drop(columns=target)
    model.fit(rows, whole[target])
    found = shapley_values(model, rows[:3], rows[50:56])
    assert {"colour", "shape", "age", "day"} < {*found.feature_names}
    check(model, rows[:3], rows[50:56], found)


def test_columns_of_a_table_may_play_together():
    X, y = table()
    model = make_pipeline(STEPS["names"], AESVC(gamma=0.5)).fit(X, y)
    alone = shapley_values(model, X[:4], X[60:66])
    found = shapley_values(model, X[:4], X[60:66], groups={"looks": ["colour", "shape"]})
    assert found.feature_names == ["size", "looks", "age"]
    assert_allclose(found.values.sum(axis=1), alone.values.sum(axis=1), atol=1e-12)
    assert np.isnan(found.data[:, 1].astype(float)).all()
    shuffled = X[["age", "shape", "idle", "colour", "size"]]
    for rows in (X, shuffled):  # the step selects columns by name
        found = shapley_values(model, rows[:4], rows[60:66], groups={"years": ["age"]})
        assert found.feature_names == ["size", "colour", "shape", "years"]
        assert_array_equal(found.data[:, 3], X["age"][:4])
        assert_allclose(found.values[:, [0, 1, 2, 3]], alone.values, atol=1e-12)


@pytest.mark.parametrize("step", [PCA(2), Normalizer(), FunctionTransformer(np.log1p)], ids=str)
def test_steps_that_mix_columns_are_refused(step):
    X = np.abs(np.random.default_rng(0).normal(size=(60, 3)))
    model = make_pipeline(StandardScaler(with_mean=False), step, AESVR()).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="is not known to treat columns one by one"):
        shapley_values(model, X, 5)
    found = shapley_values(model[-1], model[:-1].transform(X), 5)
    assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(X), atol=1e-9)
