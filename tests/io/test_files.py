"""Readers: iteration of any of them, and the files of NumPy and Parquet."""

import doctest
import gzip
import pickle
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from aesvm.io import CSVReader, LibsvmReader, NpyReader, ParquetReader, lines
from tests import children
from tests.io.test_readers import blocks_of, joined, sizes, written


@pytest.fixture(params=["libsvm", "csv", "csv.gz", "npy", "parquet"])
def reader(request, tmp_path):
    """Ten chunks, and one that is not full."""
    X = np.random.default_rng(0).normal(size=(1005, 3))
    y = np.arange(1005) % 2
    if request.param == "libsvm":
        path = tmp_path / "rows"
        dump_svmlight_file(X, y, str(path), zero_based=False)
        return LibsvmReader(path, n_features=3, chunk_rows=100)
    if request.param == "npy":
        np.save(tmp_path / "X.npy", X)
        np.save(tmp_path / "y.npy", y)
        return NpyReader(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=100)
    if request.param == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=70)
        return ParquetReader(tmp_path / "rows.parquet", target="y", chunk_rows=100)
    text = "".join(f"{a!r},{b!r},{c!r},{k}\n" for (a, b, c), k in zip(X.tolist(), y, strict=True))
    pack = gzip.compress if request.param == "csv.gz" else bytes
    path = written(tmp_path, pack(text.encode()))
    return CSVReader(path, target=3, header=False, chunk_rows=100)


def same(one, other):
    dense = [chunk.X.toarray() if sp.issparse(chunk.X) else chunk.X for chunk in (one, other)]
    return np.array_equal(*dense) and np.array_equal(one.y, other.y)


def test_a_reader_can_be_iterated_over_again_and_by_two_at_once(reader):
    first = list(reader)
    assert [chunk.X.shape[0] for chunk in first] == [100] * 10 + [5]
    assert np.array_equal(np.concatenate([chunk.y for chunk in first]), np.arange(1005) % 2)
    ahead, behind = iter(reader), iter(reader)
    assert same(next(ahead), first[0])
    assert same(next(ahead), first[1])
    for chunk, after, known in zip(behind, ahead, first, strict=False):
        assert same(chunk, known)
        assert not same(after, known)
    assert all(map(same, pickle.loads(pickle.dumps(reader)), first))


def test_position_grows_to_the_size_of_the_files(reader):
    with blocks_of(4096), mock.patch.object(lines, "COMPRESSED_BYTES", 4096):
        iterator = iter(reader)
        assert iterator.position == 0
        positions = [iterator.position for _ in iterator]
        assert positions == sorted(positions)
        assert 0 < positions[0] < positions[5] < positions[-1]
        assert iterator.position == reader.position == reader.n_bytes
        assert reader.n_bytes == sum(path.stat().st_size for path in reader.paths)
        iter(reader)
        assert reader.position == 0
        assert iterator.position == reader.n_bytes


def test_a_pass_that_is_given_up_closes_its_file(reader):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        iterator = iter(reader)
        next(iterator)
        iterator.close()
        assert list(iterator) == []


# NumPy's files


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), sizes, st.sampled_from(["f4", "f8", "i4", ">f8"]), st.booleans())
def test_npy_files_are_read_in_slices(n, chunk, dtype, fortran):
    X = np.arange(3 * n).reshape(n, 3).astype(dtype, order="F" if fortran else "C")
    y = np.array(["a", "bc"])[np.arange(n) % 2]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("X.npy", "y.npy", "w.npy")]
        for path, array in zip(paths, (X, y, np.ones(n)), strict=True):
            np.save(path, array)
        found = joined(NpyReader(*paths, chunk_rows=chunk))
        assert not next(iter(NpyReader(*paths))).X.flags.owndata
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, y)
    assert np.array_equal(found.weights, np.ones(n))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((3, 2), dtype=object), None, "X.npy: the array cannot be mapped"),
        (np.ones(3), None, r"X.npy: an array of shape \(3,\)"),
        (np.ones((3, 2)), np.ones(4), "y.npy: 4 values for the 3 rows"),
        (np.ones((3, 2)), np.ones((3, 1)), "y.npy: an array of shape"),
        (np.ones((3, 2), dtype=complex), None, "X.npy: values of type complex128"),
        (np.ones((0, 2)), None, "X.npy: there are no rows"),
    ],
)
def test_arrays_that_are_no_rows_are_refused(tmp_path, X, y, message):
    np.save(tmp_path / "X.npy", X, allow_pickle=True)
    if y is not None:
        np.save(tmp_path / "y.npy", y)
    with pytest.raises(ValueError, match=message):
        list(NpyReader(tmp_path / "X.npy", None if y is None else tmp_path / "y.npy"))


def test_files_that_are_not_npy_or_not_whole_are_refused(tmp_path):
    np.savez(tmp_path / "X.npz", X=np.ones((3, 2)))
    np.save(tmp_path / "X.npy", np.ones((100, 2)))
    with pytest.raises(ValueError, match=r"not a \.npy file"):
        list(NpyReader(tmp_path / "X.npz"))
    with pytest.raises(ValueError, match=r"not a \.npy file"):
        list(NpyReader(written(tmp_path, pickle.dumps(np.ones(3)))))
    whole = (tmp_path / "X.npy").read_bytes()
    with pytest.raises(ValueError, match="cut short"):
        list(NpyReader(written(tmp_path, whole[:-1])))


# Parquet


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
