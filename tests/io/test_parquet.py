"""Readers: Parquet files, and folders of them."""

import doctest
import sys
from pathlib import Path

import numpy as np
import pytest

from aesvm.io import ParquetReader
from tests import children
from tests.io.test_readers import joined, written


@pytest.fixture
def pq():
    return pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow")


@pytest.mark.parametrize("chunk_rows", [1, 7, 64, 1000])
def test_parquet_files_and_folders_are_one_table(tmp_path, pa, pq, chunk_rows):
    X = np.random.default_rng(0).normal(size=(100, 2))
    classes = np.array(["no", "yes"])[np.arange(100) % 2]
    columns = {"a": X[:, 0], "w": np.arange(100), "b": X[:, 1], "y": classes}
    table = pa.table(columns)
    (tmp_path / "more").mkdir()
    pq.write_table(table[:30], tmp_path / "a.parquet", row_group_size=8)
    pq.write_table(table[30:], tmp_path / "more" / "b.parquet")
    written(tmp_path, "not this", "_metadata.parquet")
    files = [tmp_path / "a.parquet", str(tmp_path / "more" / "b.parquet")]
    for path in (tmp_path, files):
        reader = ParquetReader(path, target="y", weight="w", chunk_rows=chunk_rows)
        found = joined(reader)
        assert np.array_equal(found.X, X)
        assert np.array_equal(found.y, classes)
        assert np.array_equal(found.weights, np.arange(100.0))
        assert reader.position == reader.n_bytes == sum(Path(file).stat().st_size for file in files)


def test_parquet_columns_of_many_types_are_numbers(tmp_path, pa, pq):
    table = pa.table(
        {
            "small": pa.array([1, 2], pa.int8()),
            "flag": [True, False],
            "exact": pa.array([1, 2], pa.decimal128(5, 2)),
            "half": pa.array(np.array([1, 2], dtype=np.float16)),
            "y": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "rows")
    found = joined(ParquetReader(tmp_path / "rows", target="y", dtype=np.float32))
    assert found.X.dtype == np.float32
    assert found.X.tolist() == [[1, 1, 1, 1], [2, 0, 2, 2]]
    assert found.y.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "column 'name' is of type string"),
        ({"features": ["a"]}, r"column 'a' has missing values \(nulls\)"),
        ({"target": "label"}, "target='label': there is no such column in .*'a', 'name', 'y'"),
        ({"weight": "name"}, "column 'name' is of type string"),
        ({"dtype": int}, "dtype="),
    ],
)
def test_parquet_columns_that_are_no_numbers_are_named(tmp_path, pa, pq, options, message):
    path = tmp_path / "rows"
    pq.write_table(pa.table({"a": [1.0, None], "name": ["x", "z"], "y": [0, 1]}), path)
    with pytest.raises(ValueError, match=message):
        list(ParquetReader(path, **{"target": "y", **options}))


def test_parquet_files_that_are_not_whole_are_refused(tmp_path, pa, pq):
    pq.write_table(pa.table({"a": np.arange(1000.0)}), tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    for wrong in (content[:-20], b"a,b\n1,2\n", content[:500] + content[900:]):
        path = written(tmp_path, wrong)
        with pytest.raises(ValueError, match="damaged or cut short") as caught:
            list(ParquetReader(path, target=None))
        assert str(path) in str(caught.value)
    pq.write_table(pa.table({"a": np.arange(0.0)}), tmp_path / "none")
    with pytest.raises(ValueError, match="no rows"):
        list(ParquetReader(tmp_path / "none", target=None))
    (tmp_path / "folder").mkdir()
    for missing in (tmp_path / "folder", tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=missing.name):
            ParquetReader(missing, target=None)


def test_the_parquet_example_runs(pq):
    text = ParquetReader.__doc__.replace("# doctest: +SKIP", "")
    example = doctest.DocTestParser().get_doctest(text, {}, "ParquetReader", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(example).failed == 0


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        ParquetReader(tmp_path, target="y")


def test_nothing_is_imported_before_it_is_needed():
    code = (
        "import sys; sys.modules['pyarrow'] = None;"  # an import of it would raise
        "import aesvm; assert 'aesvm.io' not in sys.modules;"
        "import aesvm.io; aesvm.io.ParquetReader"
    )
    children.run(children.code(code))


def test_columns_of_further_files_go_by_their_names(tmp_path, pa, pq):
    pq.write_table(pa.table({"a": [1.0], "b": [2.0], "k": [0]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": [2.0], "k": [1], "a": [1.0]}), tmp_path / "2.parquet")
    for target in ("k", 2):
        found = joined(ParquetReader(tmp_path, target=target, chunk_rows=5))
        assert found.X.tolist() == [[1.0, 2.0], [1.0, 2.0]]
        assert found.y.tolist() == [0, 1]
    pq.write_table(pa.table({"a": [1.0], "b": [2.0], "k": ["x"]}), tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"3\.parquet: column 'k' is of type string, and holds n"):
        joined(ParquetReader(tmp_path, target="k"))
    pq.write_table(pa.table({"a": [1.0], "k": [0]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"features='b': there is no such column in .*2\.parquet"):
        joined(ParquetReader(tmp_path, target="k"))
