"""Files that change while they are read."""

from __future__ import annotations

import os

import pytest

from aesvm.io import CSVReader, LibsvmReader

ROWS = 300_000


def text(form):
    line = "1 1:0.25 2:0.5\n" if form == "libsvm" else "1,0.25,0.5\n"
    return line * ROWS


def reader(path, form):
    if form == "libsvm":
        return LibsvmReader(path, n_features=2, chunk_rows=1000)
    return CSVReader(path, target=0, header=False, chunk_rows=1000)


@pytest.mark.parametrize("form", ["libsvm", "csv"])
def test_a_file_that_is_cut_short_meanwhile_is_an_error(form, tmp_path):
    path = tmp_path / "rows"
    path.write_text(text(form))
    chunks = iter(reader(path, form))
    next(chunks)
    os.truncate(path, len(text(form)) // 2)
    with pytest.raises(EOFError, match="cut short: it had"):
        list(chunks)


@pytest.mark.parametrize("form", ["libsvm", "csv"])
def test_a_file_that_grows_meanwhile_is_read_as_it_was(form, tmp_path):
    path = tmp_path / "rows"
    path.write_text(text(form))
    chunks = iter(reader(path, form))
    n_rows = len(next(chunks)[1])
    with path.open("a") as file:
        file.write("2")
    assert n_rows + sum(len(y) for _, y, _ in chunks) == ROWS
