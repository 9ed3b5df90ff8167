"""Files that Dask reads together: y keeps the partitions of X."""

from __future__ import annotations

import pytest

pytest.importorskip("dask")
pytest.importorskip("pyarrow")

import dask.dataframe as dd
import numpy as np
import pandas as pd

from aesvm.dask.cluster import partitions


def test_columns_of_several_files_have_as_many_partitions_as_all_of_them(tmp_path):
    rng = np.random.default_rng(0)
    columns = [f"c{number}" for number in range(12)]
    for number in range(4):
        frame = pd.DataFrame(rng.normal(size=(50, 12)), columns=columns)
        frame["label"] = number
        frame.to_parquet(tmp_path / f"{number}.parquet")
    rows = dd.read_parquet(tmp_path)
    found = partitions(rows[columns], rows["label"], None)
    assert len(found) == 4
    for number, part in enumerate(found):
        assert part.X.compute().shape == (50, 12)
        assert (part.y.compute() == number).all()
