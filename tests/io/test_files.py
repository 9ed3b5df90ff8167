"""Readers: iteration of any of them, and the files of NumPy and Parquet."""

import gzip
import pickle
import warnings
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from aesvm.io import CSVReader, LibsvmReader, NpyReader, ParquetReader, files
from tests.io.test_readers import blocks_of, written


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
    with blocks_of(4096), mock.patch.object(files, "COMPRESSED_BYTES", 4096):
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
