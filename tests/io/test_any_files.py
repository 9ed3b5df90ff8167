"""Files, well-formed and damaged, read by the readers and by others: the same rows, or an error.

The others are the csv module, scikit-learn's reader of svmlight files, NumPy, and pandas on
pyarrow. A well-formed file must be read. A damaged one may be refused; where it is read, its rows
are those that the others read.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import math
import re
import tempfile
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from aesvm.io import BadLineError, CSVReader, LibsvmReader, NpyReader, ParquetReader, files

pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.fuzz

#: A file is made by a generator whose seed Hypothesis draws, and shows where a test fails.
draws = st.randoms(use_true_random=True)

#: A row: its features and its class.
Row = tuple[tuple[float, ...], Any]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PACK = {
    "plain": (bytes, bytes),
    "gzip": (gzip.compress, gzip.decompress),
    "bzip2": (bz2.compress, bz2.decompress),
    "xz": (lzma.compress, lzma.decompress),
}
#: What is put into text where it is damaged.
_SHARDS = ['"', '""', ",", "\n", "\r", "\r\n", " ", "\t", "#", ":", "-", "e", ".", "_", "\0", "é"]
_SHARDS += ["qid:", "nan", "inf", "0", "9" * 17, "1e999", '"\n', ',"', '",', "\x0b", "x" * 1001]
_N_FEATURES = 6


class Made(NamedTuple):
    """A file's bytes, and whether they are as they should be."""

    content: bytes
    whole: bool


def _outcome(reader: Any, whole: bool) -> list[Row] | None:
    """The rows that a reader gives; None where it refuses a file that is damaged."""
    try:
        return _rows(reader)
    except (ValueError, EOFError) as error:
        named = str(reader.paths[0].parent) in str(error)
        if isinstance(error, BadLineError):
            named &= error.line >= 1 and f"line {error.line}:" in str(error)
        if whole or not named:
            raise
        return None


@contextmanager
def _folder(draw):
    """An empty folder, while files are read in blocks of some size."""
    block, packed = (int(math.exp(draw.uniform(0, 8))) for _ in range(2))
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(files, "BLOCK_BYTES", block),
        mock.patch.object(files, "COMPRESSED_BYTES", packed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of lines that are skipped
        yield Path(folder)


def _rows(reader: Any) -> list[Row]:
    rows: list[Row] = []
    for X, y, _ in reader:
        dense = X.toarray() if sp.issparse(X) else X
        labels = [None] * len(dense) if y is None else y.tolist()
        rows += zip(map(tuple, dense.tolist()), labels, strict=True)
    return rows


def _check_same(found: list[Row], known: list[Row] | None) -> None:
    assert known is not None, f"{len(found)} rows of a file that others refuse: {found[:3]}"
    assert len(found) == len(known), f"{len(found)} rows, and not {len(known)}"
    for number, (row, other) in enumerate(zip(found, known, strict=True)):
        assert repr(row) == repr(other), f"row {number} is {row}, and not {other}"


# Text


def _damaged(draw, text: bytes) -> Made:
    """Half of the time, with something cut out, put in or moved."""
    if draw.random() < 0.5:
        return Made(text, True)
    whole = text
    for _ in range(draw.randrange(1, 4)):
        begin, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        end = min(end, begin + draw.randrange(0, 9))
        shard = draw.choice(_SHARDS).encode()
        text = {
            "cut": text[:begin] + text[end:],
            "put": text[:begin] + shard + text[begin:],
            "instead": text[:begin] + shard + text[end:],
            "twice": text[:end] + text[begin:],
            "short": text[:begin] if draw.random() < 0.2 else text,
            "byte": text[:begin] + bytes([draw.randrange(256)]) + text[begin + 1 :],
        }[draw.choice(["cut", "put", "instead", "twice", "short", "byte"])]
    return Made(text, text == whole)


def _packed(draw, made: Made) -> tuple[bytes, Made]:
    """The bytes of a file, compressed or not, and what should be read of them."""
    pack, unpack = _PACK[draw.choice(list(_PACK))]
    content = pack(made.content)
    if pack is bytes or draw.random() < 0.8:
        return content, made
    content = _damaged(draw, content).content
    if not content.startswith(tuple(files._DECOMPRESSORS)):  # nothing says that it is compressed
        return content, Made(content, False)
    try:
        return content, Made(unpack(content), False)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return content, Made(b"", False)


def _written(draw) -> str:
    """A number as someone may write it."""
    value = float(
        draw.choice([draw.gauss(0, 1), draw.randrange(-9, 9), 10.0 ** draw.randrange(-320, 300)])
    )
    return draw.choice([repr(value), f"{value:.3g}", f"{value:+.20e}", str(round(value, 3))])


def _number(text: str) -> float | None:
    text = text.strip(" \t\r\n\v\f")
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return None


# Comma-separated values


@given(draws)
def test_tables_are_read_as_the_csv_module_reads_them(draw):
    delimiter = draw.choice([",", ";", "\t", "|"])
    strings = bool(draw.randrange(2))
    content, made = _packed(draw, _damaged(draw, _csv_text(draw, delimiter, strings)))
    options: dict[str, Any] = {
        "target": "y",
        "features": ["a", "b"],
        "delimiter": delimiter,
        "classes": "strings" if strings else "numbers",
        "chunk_rows": draw.randrange(1, 30),
    }
    with _folder(draw) as folder:
        path = folder / "rows.csv"
        path.write_bytes(content or b"\n")
        found = _outcome(CSVReader(path, **options), made.whole)
        if found is not None:
            _check_same(found, _csv_known(made, delimiter, strings, skip=False))
        elif (known := _csv_known(made, delimiter, strings, skip=True)) is not None:
            kept = _outcome(CSVReader(path, on_bad="skip", **options), False)
            others = iter(map(repr, known))
            for row in kept or []:
                assert repr(row) in others, f"{row} is no row of the file, or not where it was read"


def _csv_text(draw, delimiter: str, strings: bool) -> bytes:
    names = ["cat", "d og", " padded ", "é", 'qu"ote', "two\nlines", "a,b;c|d\te", "5\r\n6,7"]
    end = draw.choice(["\n", "\r\n"])
    written = [delimiter.join(["a", "free", "b", "y"])]
    for _ in range(draw.randrange(1, 12)):
        label = draw.choice(names) if strings else _csv_class(draw)
        numbers = [f"{draw.choice(['', ' '])}{_written(draw)}" for _ in range(2)]
        free = draw.choice([*names, "", "x"])
        fields = [numbers[0], _quoted(draw, free), numbers[1], _quoted(draw, label)]
        written += [delimiter.join(fields)] + [""] * int(draw.random() < 0.1)
    bom = "\ufeff" if draw.random() < 0.1 else ""
    return (bom + end.join(written) + draw.choice(["", end])).encode()


def _csv_class(draw) -> str:
    large = str(draw.randrange(-(2**53) + 1, 2**53))
    return draw.choice(["0", "1", "-1.5", "2e3", large])


def _quoted(draw, field: str) -> str:
    plain = re.fullmatch(r"[\w.+-]+( \w+)*|", field) is not None
    if plain and draw.random() < 0.5:
        return field
    return '"' + field.replace('"', '""') + '"'


def _csv_known(made: Made, delimiter: str, strings: bool, skip: bool) -> list[Row] | None:
    """What the csv module reads; None where it, or a number, is wrong and nothing is skipped."""
    csv.field_size_limit(1 << 30)
    text = made.content.decode("utf-8", errors="surrogateescape").removeprefix("\ufeff")
    records = csv.reader(
        re.findall("[^\n]*\n|[^\n]+", text),
        delimiter=delimiter,
        skipinitialspace=True,
        strict=not skip,
    )
    rows: list[Row] = []
    try:
        filled = [fields for fields in records if any(field.strip(" \t\r") for field in fields)]
    except csv.Error:
        return None
    names = [name.strip(" \t") for name in filled[0]] if filled else []
    if any(names.count(name) != 1 for name in ("a", "b", "y")):
        return None
    for fields in filled[1:]:
        row = _csv_row(dict(zip(names, fields, strict=False)), strings)
        if row is not None and len(fields) == len(names):
            rows.append(row)
        elif not skip:
            return None
    return rows


def _csv_row(fields: dict[str, str], strings: bool) -> Row | None:
    if not {"a", "b", "y"} <= set(fields):
        return None
    label: Any = fields["y"].strip(" \t") if strings else _number(fields["y"])
    a, b = _number(fields["a"]), _number(fields["b"])
    if a is None or b is None or label is None:
        return None
    return (a, b), label


# LIBSVM


@given(draws)
def test_libsvm_files_are_read_as_scikit_learn_reads_them(draw):
    content, made = _packed(draw, _damaged(draw, _libsvm_text(draw)))
    options: dict[str, Any] = {"n_features": _N_FEATURES, "chunk_rows": draw.randrange(1, 30)}
    with _folder(draw) as folder:
        path = folder / "rows.libsvm"
        path.write_bytes(content or b"\n")
        found = _outcome(LibsvmReader(path, **options), made.whole)
        if found is None:
            kept = _outcome(LibsvmReader(path, on_bad="skip", **options), False)
            if kept is not None:
                _check_same(kept, _libsvm_known(made.content, skip=True))
            return
        _check_same(found, _libsvm_known(made.content, skip=False))
        path.write_bytes(made.content.removeprefix(b"\xef\xbb\xbf"))
        try:
            X, y = load_svmlight_file(str(path), n_features=_N_FEATURES, zero_based=False)
        except ValueError:  # scikit-learn refuses what it may
            return
    _check_same(found, [*zip(map(tuple, X.toarray().tolist()), y.tolist(), strict=True)])


def _libsvm_text(draw) -> bytes:
    end = draw.choice(["\n", "\r\n"])
    written = []
    for _ in range(draw.randrange(1, 12)):
        indices = [1 + i for i in range(_N_FEATURES) if draw.random() < 0.5]
        tokens = [draw.choice(["+1", "-1", "2", "3.5", "1e2"])]
        tokens += ["qid:7"] * int(draw.random() < 0.2)
        tokens += [f"{index}:{_written(draw)}" for index in indices]
        comment = draw.choice(["", "", "", " # 1:2", "# 3:4", "#"])
        written.append(draw.choice([" ", " ", "\t", "  "]).join(tokens) + comment)
        written += [draw.choice(["", "# 1 2:3", " "])] * int(draw.random() < 0.1)
    return (end.join(written) + draw.choice(["", end])).encode()


def _libsvm_known(text: bytes, skip: bool) -> list[Row] | None:
    rows = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        tokens = line.partition(b"#")[0].split()
        if not tokens:
            continue
        row = _libsvm_row([token.decode(errors="replace") for token in tokens])
        if row is not None:
            rows.append(row)
        elif not skip:
            return None
    return rows


def _libsvm_row(tokens: list[str]) -> Row | None:
    label = _number(tokens[0])
    if label is None or abs(label) >= 2**53:
        return None
    values = [0.0] * _N_FEATURES
    seen = set()
    for place, token in enumerate(tokens[1:]):
        if place == 0 and re.fullmatch("qid:[0-9]+", token):
            continue
        name, _, written = token.partition(":")
        value = _number(written)
        if not re.fullmatch("[0-9]+", name) or value is None or int(name) in seen:
            return None
        if not 1 <= int(name) <= _N_FEATURES:
            return None
        seen.add(int(name))
        values[int(name) - 1] = value or 0.0  # -0 is not stored
    return tuple(values), label


# Binary files


def _broken(draw, path: Path) -> bool:
    """Half of the time, damage a file; whether it is still whole."""
    content = bytearray(path.read_bytes())
    if draw.random() < 0.5:
        return True
    if draw.random() < 0.3:
        content = content[: draw.randrange(1, len(content))]
    for _ in range(draw.randrange(0, 4)):
        # the ends of files say what the rest is
        reach = min(len(content), int(np.exp(draw.uniform(0, 10))))
        place = draw.randrange(reach)
        content[-place - 1 if draw.random() < 0.5 else place] = draw.randrange(256)
    same = bytes(content) == path.read_bytes()
    path.write_bytes(content)
    return same


@given(draws)
def test_arrays_are_read_as_numpy_reads_them(draw):
    rng = np.random.default_rng(draw.randrange(2**32))
    n_rows = draw.randrange(1, 200)
    X = rng.normal(scale=50.0, size=(n_rows, draw.randrange(1, 5)))
    dtype = draw.choice(["<f8", "<f4", ">f8", "<i4", "<u2"])
    X = np.asarray(X.astype(dtype), order=draw.choice(["C", "F"]))
    labels = [np.array(["no", "yés", ""]), np.array([2**60, 2**60 + 1, -1]), np.array([0.5, 1, 2])]
    labels += [np.array([b"no", b"yes", b""]), np.array([True, False, True])]
    y = draw.choice(labels)[rng.integers(3, size=n_rows)]
    with _folder(draw) as folder:
        paths = folder / "X.npy", folder / "y.npy"
        for path, array in zip(paths, (X, y), strict=True):
            np.save(path, array)
        whole = _broken(draw, draw.choice(paths))
        found = _outcome(NpyReader(*paths, chunk_rows=draw.randrange(1, 90)), whole)
        if found is not None:
            X, y = (np.load(path, allow_pickle=False) for path in paths)
            y = np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y
            _check_same(found, [*zip(map(tuple, X.tolist()), y.tolist(), strict=True)])


def _frame(draw) -> pd.DataFrame:
    rng = np.random.default_rng(draw.randrange(2**32))
    n_rows = draw.randrange(1, 120)
    y: Any = rng.integers(3, size=n_rows)
    kind = draw.randrange(4)
    if kind < 2:
        y = np.array(["no", "yés", ""])[y]
    table = pd.DataFrame({"a": np.arange(n_rows), "y": y, "b": rng.normal(size=n_rows)})
    table["y"] = table["y"].astype("category") if kind == 1 else table["y"]
    if draw.random() < 0.5:
        table = table.sample(frac=1.0, random_state=draw.randrange(99))
        table.index.name = draw.choice(["id", "0"]) if draw.random() < 0.5 else None
    return table


def _stored(draw, table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(
        path,
        compression=draw.choice([None, "snappy", "gzip", "zstd"]),
        row_group_size=draw.randrange(1, 100),
        index=None if draw.random() < 0.8 else True,
        use_dictionary=bool(draw.randrange(2)),
        write_page_checksum=bool(draw.randrange(2)),
    )


def _table_rows(table: pd.DataFrame) -> list[Row]:
    X = table.drop(columns="y").to_numpy(dtype=np.float64)
    return [*zip(map(tuple, X.tolist()), table["y"].tolist(), strict=True)]


def _table_known(path: Path) -> list[Row]:
    try:
        return _table_rows(pd.read_parquet(path))
    except Exception:  # where the index is damaged, or what is said of it
        return _table_rows(
            pq.read_table(path, columns=["a", "b", "y"]).to_pandas(ignore_metadata=True)
        )


@given(draws)
def test_parquet_files_are_read_as_pandas_reads_them(draw):
    with _folder(draw) as folder:
        path = folder / "rows"
        _stored(draw, _frame(draw), path)
        whole = _broken(draw, path)
        reader = ParquetReader(path, target="y", chunk_rows=draw.randrange(1, 90))
        found = _outcome(reader, whole)
        if found is not None:
            _check_same(found, _table_known(path))


@given(draws)
def test_all_files_of_a_folder_are_read_once(draw):
    """A table in a folder of files and folders, some of them linked, and with loops."""
    table = _frame(draw)
    with _folder(draw) as folder:
        top = folder / "top"
        places = [top, top / "below", folder / "aside", folder / "aside" / "deep"]
        for place in places:
            place.mkdir(exist_ok=True)
        (top / "linked").symlink_to(folder / "aside")
        (folder / "aside" / "loop").symlink_to(top)
        part_of = np.array([draw.randrange(5) for _ in range(len(table))])
        for part in np.unique(part_of):
            name = f"{part}.{draw.choice(['parquet', 'PARQUET', 'Parquet'])}"
            path = draw.choice(places) / name
            _stored(draw, table[part_of == part], path)
            if draw.random() < 0.2:
                (top / f"again-{part}.parquet").symlink_to(path)
        found = _outcome(ParquetReader(top, target="y", chunk_rows=draw.randrange(1, 90)), True)
    _check_same(sorted(found or []), sorted(_table_rows(table)))
