"""Readers: Parquet files, and folders of them."""

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
    misnamed = content.replace(b"\x01a", b"\x01\x80")  # what the column is called, and its length
    for wrong in (content[:-20], b"a,b\n1,2\n", content[:500] + content[900:], misnamed):
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


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "aesvm\[io\]"'):
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


# Indices of dataframes


@pytest.fixture
def frame():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": np.arange(20.0), "k": np.arange(20) % 2, "b": np.ones(20)})
    return table.sample(frac=1.0, random_state=0)


@pytest.mark.parametrize("name", [None, "id"])
def test_the_index_of_a_dataframe_is_no_feature(tmp_path, pq, frame, name):
    frame.index.name = name
    frame.to_parquet(tmp_path / "rows")
    assert pq.read_schema(tmp_path / "rows").names[-1] in ("__index_level_0__", "id")
    reader = ParquetReader(tmp_path / "rows", target="k")
    assert reader.feature_names == ["a", "b"]
    assert np.array_equal(joined(reader).X, frame[["a", "b"]])
    assert ParquetReader(tmp_path / "rows", target=-1).feature_names == ["a", "k"]
    with pytest.raises(ValueError, match="target=3: there are 3 columns"):
        list(ParquetReader(tmp_path / "rows", target=3))


def test_an_index_of_several_levels_or_none_is_no_feature(tmp_path, pq, frame):
    frame.set_index(["b", "a"], append=True).to_parquet(tmp_path / "1.parquet")
    assert ParquetReader(tmp_path, target=None).feature_names == ["k"]
    frame.reset_index(drop=True).to_parquet(tmp_path / "1.parquet")  # a range has no column
    assert ParquetReader(tmp_path, target=None).feature_names == ["a", "k", "b"]
    frame.to_parquet(tmp_path / "2.parquet")  # another index than that of the first file
    assert joined(ParquetReader(tmp_path, target=None)).X.shape == (40, 3)


def test_an_index_that_lost_its_metadata_is_no_feature(tmp_path, pq, frame):
    frame.to_parquet(tmp_path / "rows")
    pq.write_table(pq.read_table(tmp_path / "rows").replace_schema_metadata(None), tmp_path / "n")
    assert ParquetReader(tmp_path / "n", target="k").feature_names == ["a", "b"]


def test_an_index_is_read_where_it_is_named(tmp_path, pq, frame):
    frame.index.name = "id"
    frame.to_parquet(tmp_path / "rows")
    found = joined(ParquetReader(tmp_path / "rows", target="id", features=["a"], weight="b"))
    assert np.array_equal(found.y, frame.index)
    found = joined(ParquetReader(tmp_path / "rows", target="k", features=["id"]))
    assert np.array_equal(found.X[:, 0], frame.index)


def test_damaged_metadata_of_a_dataframe_is_an_error(tmp_path, pa, pq):
    table = pa.table({"a": [1.0]}).replace_schema_metadata({"pandas": "{"})
    pq.write_table(table, tmp_path / "rows")
    with pytest.raises(ValueError, match="rows: pandas' metadata on the columns is damaged"):
        list(ParquetReader(tmp_path / "rows", target=None))


# Folders


def test_links_and_capital_suffixes_are_followed(tmp_path, pa, pq):
    inside, outside = tmp_path / "rows", tmp_path / "elsewhere"
    (inside / "more").mkdir(parents=True)
    outside.mkdir()
    for value, path in enumerate(
        [inside / "C.PARQUET", inside / "more" / "b.parquet", outside / "a.Parquet"]
    ):
        pq.write_table(pa.table({"a": [float(value)]}), path)
    (inside / "linked").symlink_to(outside)
    (inside / "d.parquet").symlink_to(inside / "C.PARQUET")  # a second name of a file
    (outside / "loop").symlink_to(inside)
    (inside / "more" / "loop").symlink_to(inside / "more")
    found = joined(ParquetReader(inside, target=None))
    assert sorted(found.X[:, 0].tolist()) == [0, 1, 2]


def test_a_link_to_nowhere_is_an_error(tmp_path, pa, pq):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"b\.parquet"):
        ParquetReader(tmp_path, target=None)


# Classes


def test_classes_keep_the_type_of_the_first_file_or_are_refused(tmp_path, pa, pq):
    def read(*columns):
        for place, column in enumerate(columns):
            table = pa.table({"a": np.ones(len(column)), "y": column})
            pq.write_table(table, tmp_path / f"{place}.parquet")
        return joined(ParquetReader(tmp_path, target="y", chunk_rows=3)).y

    large = 2**53 + 1
    y = read(pa.array([1, 2], pa.int8()), pa.array([large, 2**62], pa.int64()))
    assert y.tolist() == [1, 2, large, 2**62]
    assert read([1.0, 2.5], [3, 4]).tolist() == [1.0, 2.5, 3.0, 4.0]
    for first, second in (([1.0], [large]), ([1], [2.5]), ([1], pa.array([2**63], pa.uint64()))):
        with pytest.raises(ValueError, match=r"1\.parquet: column 'y' has classes that"):
            read(first, second)
    with pytest.raises(ValueError, match=r"1\.parquet: .* holds booleans in the first file"):
        read([True], [2])


def test_classes_that_arrays_of_strings_cannot_hold_are_refused(tmp_path, pa, pq):
    for label, message in (("x" * 20_000, "a class has 20000 characters"), ("x\0", "NUL")):
        table = pa.table({"a": np.ones(9), "y": ["y"] * 8 + [label]})
        pq.write_table(table, tmp_path / "rows")
        with pytest.raises(ValueError, match=rf"rows: column 'y': .*{message}"):
            list(ParquetReader(tmp_path / "rows", target="y"))
