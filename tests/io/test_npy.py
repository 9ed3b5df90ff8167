"""Readers: NumPy's files."""

import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aesvm import AESVC
from aesvm.io import NpyReader
from tests.io.test_readers import joined, sizes, written


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
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, y)
    assert np.array_equal(found.weights, np.ones(n))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((3, 2), dtype=object), None, "X.npy: the array has Python objects"),
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
    for begin, text in ((10, b'"'), (60, b"((("), (40, b"\xff\0"), (8, b"\xff")):
        damaged = whole[:begin] + text + whole[begin + len(text) :]
        with pytest.raises(ValueError, match="rows: "):
            list(NpyReader(written(tmp_path, damaged)))


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_is_cut_short_while_it_is_read_is_an_error(tmp_path, order):
    path = tmp_path / "X.npy"
    np.save(path, np.ones((100_000, 3), order=order))
    iterator = iter(NpyReader(path, chunk_rows=1000))
    next(iterator)
    os.truncate(path, 40_000)
    with pytest.raises(ValueError, match=r"X\.npy: the file was cut short while it was read"):
        list(iterator)


def test_classes_that_are_bytes_are_decoded(tmp_path):
    y = np.array(["no", "yés"])[np.arange(40) % 2]
    X = np.random.default_rng(0).normal(size=(40, 2)) + 3.0 * (np.arange(40) % 2)[:, None]
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.char.encode(y, "utf-8"))
    reader = NpyReader(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=15)
    assert joined(reader).y.tolist() == y.tolist()
    assert AESVC(gamma=1.0).fit_stream(reader).classes_.tolist() == ["no", "yés"]
    np.save(tmp_path / "y.npy", np.char.encode(y, "latin-1"))
    with pytest.raises(ValueError, match=r"y\.npy: classes of type .S3 that are not UTF-8"):
        joined(reader)


@pytest.mark.parametrize("dtype", ["<U3", ">U3"])
def test_classes_that_are_no_characters_are_refused(tmp_path, dtype):
    y = np.array(["a", "b", "c"], dtype=dtype)
    np.save(tmp_path / "X.npy", np.ones((3, 1)))
    np.save(tmp_path / "y.npy", y)
    reader = NpyReader(tmp_path / "X.npy", tmp_path / "y.npy", chunk_rows=2)
    assert joined(reader).y.tolist() == ["a", "b", "c"]
    content = (tmp_path / "y.npy").read_bytes()
    (tmp_path / "y.npy").write_bytes(content[:-4] + b"\x7f\x7f\x7f\x7f")
    with pytest.raises(ValueError, match=r"y\.npy: damaged strings, in rows from 2 on"):
        list(reader)
