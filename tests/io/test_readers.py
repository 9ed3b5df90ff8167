"""Readers: chunks of files, whatever their size, compression and faults."""

import bz2
import gzip
import lzma
import os
import pickle
import tempfile
import tracemalloc
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from aesvm.io import BadLineError, Chunk, CSVReader, LibsvmReader, NpyReader, files
from aesvm.io import csv as csv_module

COMPRESS = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
PACKED = ["gz", "bz2", "xz"]

finite = st.floats(allow_nan=False, allow_infinity=False)
below = st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True)  # numbers of classes
sizes = st.integers(1, 40)


def blocks_of(size):
    return mock.patch.object(files, "BLOCK_BYTES", size)


def written(folder, content, name="rows"):
    path = Path(folder, name)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def joined(reader):
    chunks = list(reader)
    assert all(isinstance(chunk, Chunk) for chunk in chunks)
    assert all(chunk.X.shape[0] == reader.chunk_rows for chunk in chunks[:-1])
    assert 0 < chunks[-1].X.shape[0] <= reader.chunk_rows
    stack = sp.vstack if sp.issparse(chunks[0].X) else np.concatenate
    X, y, weights = zip(*chunks, strict=True)
    return Chunk(
        stack(X),
        None if y[0] is None else np.concatenate(y),
        None if weights[0] is None else np.concatenate(weights),
    )


def libsvm(path, **options):
    return LibsvmReader(path, **{"n_features": 5, **options})


# Numbers


def read_number(text):
    with tempfile.TemporaryDirectory() as folder:
        (chunk,) = libsvm(written(folder, f"1 1:{text}\n"))
        return chunk.X.toarray()[0, 0]


@settings(max_examples=250, deadline=None)
@given(finite, st.integers(0, 25), st.sampled_from("ef"))
@example(9007199254740993.0, 0, "f")
@example(5e-324, 17, "e")
@example(0.5, 1, "f")
def test_numbers_are_those_of_python_to_the_bit(value, digits, form):
    for text in (repr(value), f"{value:.{digits}{form}}", f"{value:+.17g}"):
        if np.isfinite(float(text)):
            assert read_number(text) == float(text)


@settings(max_examples=250, deadline=None)
@given(st.from_regex(r"[+-]?[0-9]{0,24}(\.[0-9]{0,24})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("9007199254740993")
@example("9007199254740992.99999999999999999999")
@example("8.5e22")
@example("1e23")
@example("-0")
@example("0e999")
def test_decimal_text_is_read_as_python_reads_it(text):
    try:
        known = float(text)
    except ValueError:
        known = np.inf
    if np.isfinite(known):
        assert read_number(text) == known
    else:
        with pytest.raises(BadLineError, match="number"):
            read_number(text)


# LIBSVM


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize("zero_based", [False, True])
def test_libsvm_files_are_read_as_scikit_learn_reads_them(tmp_path, kind, zero_based):
    X = sp.random_array((300, 7), density=0.4, rng=0, format="csr")
    y = np.random.default_rng(0).integers(0, 3, 300) - 1.0
    plain = tmp_path / "plain"
    dump_svmlight_file(X, y, str(plain), zero_based=zero_based, comment="made up")
    path = written(tmp_path, COMPRESS[kind](plain.read_bytes()), "name.says.nothing")
    X_known, y_known = load_svmlight_file(str(plain), n_features=7, zero_based=zero_based)
    for block in (17, 1 << 20):
        with blocks_of(block):
            found = joined(libsvm(path, n_features=7, chunk_rows=64, zero_based=zero_based))
        assert np.array_equal(found.X.toarray(), X_known.toarray())
        assert np.array_equal(found.y, y_known)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(below, st.dictionaries(st.integers(1, 9), finite, max_size=6)),
        min_size=1,
        max_size=12,
    ),
    sizes,
    sizes,
    st.sampled_from(["\n", "\r\n", " \n\n", " # 1:2\n"]),
    st.sampled_from(sorted(COMPRESS)),
)
def test_any_sizes_of_chunks_and_blocks_give_the_same_libsvm_rows(rows, chunk, block, end, kind):
    text = "".join(
        " ".join([repr(label), *(f"{index}:{pairs[index]!r}" for index in sorted(pairs))]) + end
        for label, pairs in rows
    )
    expected = np.zeros((len(rows), 9))
    for row, (_, pairs) in enumerate(rows):
        for index, value in pairs.items():
            expected[row, index - 1] = value
    with tempfile.TemporaryDirectory() as folder, blocks_of(block):
        path = written(folder, COMPRESS[kind](text.encode()))
        found = joined(libsvm(path, n_features=9, chunk_rows=chunk))
    assert np.array_equal(found.X.toarray(), expected)
    assert np.array_equal(found.y, [label for label, _ in rows])


def test_libsvm_chunks_are_csr_with_short_indices_and_no_zeros(tmp_path):
    chunk = next(iter(libsvm(written(tmp_path, "1 1:0 2:-0 3:5\n2\n"))))
    assert isinstance(chunk.X, sp.csr_array)
    assert chunk.X.indices.dtype == chunk.X.indptr.dtype == np.int32
    assert chunk.X.nnz == 1
    assert chunk.X.shape == (2, 5)
    assert chunk.X.has_canonical_format
    assert chunk.weights is None


def test_very_wide_libsvm_files_have_long_indices(tmp_path):
    path = written(tmp_path, "1 1:1 3000000000:2\n")
    (chunk,) = libsvm(path, n_features=3_000_000_000)
    assert chunk.X.indices.tolist() == [0, 2_999_999_999]


def test_the_number_of_features_is_found_where_it_is_not_given(tmp_path):
    path = written(tmp_path, "1 1:1\n2 7:1\nbad\n1 9:0\n1\n")
    reader = LibsvmReader(path, n_features=None, on_bad="skip", chunk_rows=2)
    with pytest.warns(UserWarning, match="1 malformed line was skipped") as caught:
        found = joined(reader)
    assert len(caught) == 1
    assert reader.n_features == found.X.shape[1] == 9
    assert reader.n_skipped == 1


def test_libsvm_comments_queries_blanks_and_marks_are_passed_over(tmp_path):
    text = "\ufeff# a file\n\n \t\r\n+1 qid:3 1:1\t2:2  # 3:3\r\n-1#\n1e0 qid:4\n2 3:1 1:4"
    found = joined(libsvm(written(tmp_path, text)))
    assert found.y.tolist() == [1, -1, 1, 2]
    assert found.X.toarray().tolist() == [[1, 2, 0, 0, 0], [0] * 5, [0] * 5, [4, 0, 1, 0, 0]]


def test_a_comment_may_follow_a_query_at_once(tmp_path):
    path = written(tmp_path, "1 qid:5# 3:4\n2 qid:5 1:1# 3:4\n3 qid:5#3:4\n")
    assert joined(libsvm(path)).X.toarray().tolist() == [[0] * 5, [1, 0, 0, 0, 0], [0] * 5]


@pytest.mark.parametrize("n_features", [0, 2.5, True, "5", 2**62])
def test_a_number_of_features_is_a_whole_one(tmp_path, n_features):
    with pytest.raises(ValueError, match="n_features="):
        libsvm(written(tmp_path, "1 1:1\n"), n_features=n_features)


BAD_LIBSVM = {
    "x 1:1": "the class 'x' is not a number",
    "1,2 1:1": "the class '1,2'",
    "nan 1:1": "the class 'nan' is not a finite number",
    "1:1 2:2": "the class '1:1'",
    "1 1:inf": "the value of index 1 'inf' is not a finite number",
    "1 1:1e999": "not a finite number",
    "1 1:1_0": "'1_0' is not a number",
    "1 2:": "the value of index 2 '' is not a number",
    "1 2:1:1": "'1:1' is not a number",
    "1 3": "'3' is not index:value",
    "1 a:1": "'a:1' is not index:value",
    "1 -1:1": "'-1:1' is not index:value",
    "1 1: 5": "value of index 1 ''",
    "1 0:1": "zero_based",
    "1 6:1": "index 6 is above 5",
    "1 99999999999999999999:1": "is above 5",
    "1 2:1 2:3": "index 2 occurs twice",
    "1 2:1 qid:3": "'qid:3' is not index:value",
    "1 qid:x 2:1": "'qid:x' is not qid:number",
    "1 qid:": "'qid:' is not qid:number",
    "9007199254740992 1:1": "the class '9007199254740992' is not below 2^53",
    "-9007199254740993": "the class '-9007199254740993' is not below 2^53",
    "\x00\xff": "is not a number",
}


@pytest.mark.parametrize("bad", BAD_LIBSVM)
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_a_malformed_libsvm_line_is_named_wherever_it_is(tmp_path, bad, block):
    for before in (0, 1, 9):
        text = "# first\r\n\n" + "1 1:2 3:4\n" * before + bad + "\n2 5:1"
        path = written(tmp_path, text)
        with blocks_of(block), pytest.raises(BadLineError) as caught:
            list(libsvm(path, chunk_rows=4))
        assert caught.value.line == before + 3
        assert BAD_LIBSVM[bad] in caught.value.reason
        assert str(caught.value).startswith(f"{path}, line {before + 3}: ")
        with blocks_of(block), pytest.warns(UserWarning, match="1 malformed line was skipped"):
            found = joined(libsvm(path, chunk_rows=4, on_bad="skip"))
        assert found.y.tolist() == [1] * before + [2]


@pytest.mark.parametrize("form", ["libsvm", "csv"])
def test_chunks_before_a_malformed_line_are_handed_out(tmp_path, form):
    if form == "libsvm":
        reader = libsvm(written(tmp_path, "1 1:1\n2 1:1\n3 1:\n"), chunk_rows=2)
    else:
        path = written(tmp_path, "1,1\n2,1\n3,\n")
        reader = CSVReader(path, target=0, header=False, chunk_rows=2)
    iterator = iter(reader)
    assert next(iterator).y.tolist() == [1, 2]
    with pytest.raises(BadLineError, match="line 3"):
        next(iterator)


def test_skipped_lines_are_counted_as_they_are_met(tmp_path):
    path = written(tmp_path, "1 1:1\nx\ny\n2 1:1\nz\n")
    reader = libsvm(path, chunk_rows=1, on_bad="skip")
    iterator = iter(reader)
    counts = []
    with pytest.warns(UserWarning, match="3 malformed lines were skipped") as caught:
        counts += [iterator.n_skipped for _ in iterator]
    assert caught[0].filename == __file__
    assert counts == [0, 2]
    assert iterator.n_skipped == reader.n_skipped == 3


def test_bad_lines_can_be_pickled():
    error = pickle.loads(pickle.dumps(BadLineError("file", 3, "it is odd")))
    assert (error.path, error.line, str(error)) == ("file", 3, "file, line 3: it is odd.")


# Files


@pytest.mark.parametrize("kind", PACKED)
def test_several_streams_in_a_file_are_one_text(tmp_path, kind):
    pack = COMPRESS[kind]
    content = pack(b"1 1:1\n2 ") + pack(b"") + pack(b"2:2\n3 3:3") + b"\0" * 8
    for block in (1, 1 << 20):
        with blocks_of(block), mock.patch.object(files, "COMPRESSED_BYTES", 3):
            found = joined(libsvm(written(tmp_path, content)))
        assert found.X.toarray().diagonal().tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_a_compressed_file_that_is_cut_short_is_an_error(tmp_path, kind, on_bad):
    text = b"".join(b"%d 1:%d 2:0.5\n" % (i % 2, i * i) for i in range(3000))
    content = COMPRESS[kind](text)
    for n in (7, len(content) // 3, len(content) - 9, len(content) - 1):
        for before in (b"", content):
            path = written(tmp_path, before + content[:n])
            with pytest.raises(EOFError, match="cut short") as caught:
                list(libsvm(path, on_bad=on_bad))
            assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", PACKED)
def test_a_compressed_file_with_something_else_in_it_is_damaged(tmp_path, kind):
    content = bytearray(COMPRESS[kind](b"1 1:1\n" * 1000))
    for wrong in (content + b"and more", content[:20] + b"\x55\xaa" * 4 + content[28:]):
        path = written(tmp_path, bytes(wrong))
        with pytest.raises(ValueError, match="damaged") as caught:
            list(libsvm(path))
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"# nothing\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0), b"bad\n"],
)
def test_a_file_without_rows_is_an_error(tmp_path, content):
    path = written(tmp_path, content)
    with pytest.raises(ValueError, match=r"empty|no rows") as caught:
        list(libsvm(path, on_bad="skip"))
    assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match=r"empty|no rows"):
        list(CSVReader(path, target=None))


@pytest.mark.parametrize(
    "open_it",
    [
        libsvm,
        NpyReader,
        lambda path: CSVReader(path, target=0),
        lambda path: NpyReader(written(path.parent, "1"), path),
    ],
    ids=["libsvm", "npy", "csv", "classes"],
)
def test_a_missing_file_is_named(tmp_path, open_it):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_it(tmp_path / "nowhere")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        libsvm(tmp_path)


@pytest.mark.parametrize("open_it", [libsvm, NpyReader, lambda path: CSVReader(path, target=0)])
def test_a_pipe_is_refused_with_what_would_do(tmp_path, open_it):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe: this is a pipe .* write what comes from it to a"):
        open_it(tmp_path / "pipe")


def test_a_line_without_end_is_not_read_into_memory(tmp_path):
    path = written(tmp_path, "1 1:1\n" + "1" * 5000)
    with (
        blocks_of(64),
        mock.patch.object(files, "LONGEST_LINE", 1000),
        pytest.raises(BadLineError, match="line 2: it is longer than 1000 bytes"),
    ):
        list(libsvm(path))


@pytest.mark.parametrize("kind", COMPRESS)
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    row = b"1 1:0.25 2:3 3:0.125 4:1e-3 5:7\n"
    path = written(tmp_path, COMPRESS[kind](row * 100_000 + b"\n" * 12_000_000 + row))
    reader = libsvm(path, chunk_rows=1000)
    next(iter(reader))
    tracemalloc.start()
    try:
        assert sum(chunk.X.shape[0] for chunk in reader) == 100_001
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 14 * 2**20  # xz has a dictionary of 8 MiB


def outcome(reader):
    """What a pass gives: rows, or the complaint."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y, _ = joined(reader)
    except ValueError as error:
        return str(error)
    return (X.toarray() if sp.issparse(X) else X).tolist(), y.tolist(), reader.n_skipped


PIECES = ["1", "2:3", "1:0.5", "4:-1e-2", "5:1e400", "#", "qid:1", "q", " ", "\t", "\n", "\r\n"]
PIECES += [",", "1.5", "-", "+.5", "e3", '"', '"x"', "x", "é", "\x0b", "\r", "\0", "9" * 16]


IN_PYTHON = {
    LibsvmReader: mock.patch.object(LibsvmReader, "_by_scikit_learn", return_value=None),
    CSVReader: mock.patch.object(csv_module._Table, "_read", side_effect=csv_module._Unusual),
}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.sampled_from(["raise", "skip"]),
    sizes,
)
@example('1,2\n1,"2"\n', "raise", 40)
@example("1,x\x0b\n", "raise", 40)
@example('1,"2"\r\n1,"x\n2",3"\n1\r,2\r\n', "skip", 40)
@example("1,2\r\r\n1,\r2\n1,2\r \n", "skip", 40)
@example('1,2\n1,"2"3\n1, "2"\n1,\t"2"\n', "skip", 40)
@example("1,2\n\ufeff1,2\n1,+2\n1,1e400\n1,1e-400\n1,NaN\n1,0x1\n1,1_0\n1,1.e1\n", "skip", 4)
@example("1 q 1:1\n1 qid\n1 qi 2:1\n", "skip", 40)
def test_fast_code_reads_lines_as_python_does(text, on_bad, block):
    with tempfile.TemporaryDirectory() as folder, blocks_of(block):
        path = written(folder, "1 1:1\n" + text)
        readers = [libsvm(path, on_bad=on_bad, chunk_rows=3)]
        path = written(folder, "1,2\n" + text, "csv")
        readers += [
            CSVReader(path, target=1, header=False, on_bad=on_bad, chunk_rows=3, classes=classes)
            for classes in ("numbers", "strings")
        ]
        for reader in readers:
            fast = outcome(reader)
            with IN_PYTHON[type(reader)]:
                assert outcome(reader) == fast
