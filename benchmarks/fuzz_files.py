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
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from aesvm.io import CSVReader, LibsvmReader, NpyReader, ParquetReader, lines

#: A row: its features and its class.
Row = tuple[tuple[float, ...], Any]

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PACK: dict[str, tuple[Callable, Callable]] = {
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


def trial(rng: np.random.Generator, folder: Path) -> str:
    formats = {"csv": _csv, "libsvm": _libsvm, "npy": _npy, "parquet": _parquet, "folder": _folder}
    name = pick(rng, list(formats))
    block, packed = (int(n) for n in np.exp(rng.uniform(0, 8, size=2)))
    with (
        mock.patch.object(lines, "BLOCK_BYTES", block),
        mock.patch.object(lines, "COMPRESSED_BYTES", packed),
    ):
        return f"{name}: {formats[name](rng, folder)}"


def pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[rng.integers(len(options))]


def _outcome(reader: Any, whole: bool) -> list[Row] | None:
    """The rows that a reader gives; None where it refuses a file that is damaged."""
    try:
        return _rows(reader)
    except (ValueError, EOFError) as error:
        if whole or str(reader.paths[0].parent) not in str(error):  # a message names the file
            raise
        return None


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


def _verdict(made: Made, found: list[Row] | None) -> str:
    return f"{'whole' if made.whole else 'damaged'}, {'refused' if found is None else 'read'}"


# Text


def _damaged(rng: np.random.Generator, text: bytes) -> Made:
    """Half of the time, with something cut out, put in or moved."""
    if rng.random() < 0.5:
        return Made(text, True)
    whole = text
    for _ in range(rng.integers(1, 4)):
        begin, end = sorted(rng.integers(0, len(text) + 1, size=2).tolist())
        end = min(end, begin + int(rng.integers(0, 9)))
        shard = pick(rng, _SHARDS).encode()
        text = {
            "cut": text[:begin] + text[end:],
            "put": text[:begin] + shard + text[begin:],
            "instead": text[:begin] + shard + text[end:],
            "twice": text[:end] + text[begin:],
            "short": text[:begin] if rng.random() < 0.2 else text,
            "byte": text[:begin] + rng.bytes(1) + text[begin + 1 :],
        }[pick(rng, ["cut", "put", "instead", "twice", "short", "byte"])]
    return Made(text, text == whole)


def _packed(rng: np.random.Generator, made: Made) -> tuple[bytes, Made]:
    """The bytes of a file, compressed or not, and what should be read of them."""
    pack, unpack = _PACK[pick(rng, list(_PACK))]
    content = pack(made.content)
    if pack is bytes or rng.random() < 0.8:
        return content, made
    content = _damaged(rng, content).content
    try:
        return content, Made(unpack(content), False)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return content, Made(b"", False)


def _written(rng: np.random.Generator) -> str:
    """A number as someone may write it."""
    value = float(pick(rng, [rng.normal(), rng.integers(-9, 9), 10.0 ** rng.integers(-320, 300)]))
    return pick(rng, [repr(value), f"{value:.3g}", f"{value:+.20e}", str(round(value, 3))])


def _number(text: str) -> float | None:
    text = text.strip(" \t\r\n\v\f")
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return None


# Comma-separated values


def _csv(rng: np.random.Generator, folder: Path) -> str:
    delimiter = pick(rng, [",", ";", "\t", "|"])
    strings = bool(rng.integers(2))
    content, made = _packed(rng, _damaged(rng, _csv_text(rng, delimiter, strings)))
    path = folder / "rows.csv"
    path.write_bytes(content)
    if not content:
        return "empty"
    options: dict[str, Any] = {
        "target": "y",
        "features": ["a", "b"],
        "delimiter": delimiter,
        "classes": "strings" if strings else "numbers",
        "chunk_rows": int(rng.integers(1, 30)),
    }
    found = _outcome(CSVReader(path, **options), made.whole)
    if found is not None:
        known = _csv_known(made, delimiter, strings, skip=False)
        _check_same(_unpadded(found, made), known and _unpadded(known, made))
    elif (known := _csv_known(made, delimiter, strings, skip=True)) is not None:
        kept = _outcome(CSVReader(path, on_bad="skip", **options), False)
        others = iter([repr(row) for row in _unpadded(known, made)])
        for row in _unpadded(kept or [], made):
            assert repr(row) in others, f"{row} is no row of the file, or not where it was read"
    return _verdict(made, found)


def _unpadded(rows: list[Row], made: Made) -> list[Row]:
    """Rows of a damaged file: the csv module does not tell whether blanks were quoted."""
    if made.whole:
        return rows
    return [(X, label.strip(" \t") if isinstance(label, str) else label) for X, label in rows]


def _csv_text(rng: np.random.Generator, delimiter: str, strings: bool) -> bytes:
    names = ["cat", "d og", " padded ", "é", 'qu"ote', "two\nlines", "a,b;c|d\te", "5\r\n6,7"]
    end = pick(rng, ["\n", "\r\n"])
    written = [delimiter.join(["a", "free", "b", "y"])]
    for _ in range(rng.integers(1, 40)):
        label = pick(rng, names) if strings else _csv_class(rng)
        numbers = [f"{pick(rng, ['', ' '])}{_written(rng)}" for _ in range(2)]
        free = pick(rng, [*names, "", "x"])
        fields = [numbers[0], _quoted(rng, free), numbers[1], _quoted(rng, label)]
        written += [delimiter.join(fields)] + [""] * int(rng.random() < 0.1)
    bom = "\ufeff" if rng.random() < 0.1 else ""
    return (bom + end.join(written) + pick(rng, ["", end])).encode()


def _csv_class(rng: np.random.Generator) -> str:
    large = str(int(rng.integers(-(2**53) + 1, 2**53)))
    return pick(rng, ["0", "1", "-1.5", "2e3", large])


def _quoted(rng: np.random.Generator, field: str) -> str:
    plain = re.fullmatch(r"[\w.+-]+( \w+)*|", field) is not None
    if plain and rng.random() < 0.5:
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
    label: Any = fields["y"] if strings else _number(fields["y"])
    a, b = _number(fields["a"]), _number(fields["b"])
    if a is None or b is None or label is None:
        return None
    return (a, b), label


# LIBSVM


def _libsvm(rng: np.random.Generator, folder: Path) -> str:
    content, made = _packed(rng, _damaged(rng, _libsvm_text(rng)))
    path = folder / "rows.libsvm"
    path.write_bytes(content)
    if not content:
        return "empty"
    options: dict[str, Any] = {"n_features": _N_FEATURES, "chunk_rows": int(rng.integers(1, 30))}
    found = _outcome(LibsvmReader(path, **options), made.whole)
    if found is None:
        known = _libsvm_known(made.content, skip=True)
        kept = _outcome(LibsvmReader(path, on_bad="skip", **options), False)
        if kept is not None:
            _check_same(kept, known)
        return _verdict(made, found)
    _check_same(found, _libsvm_known(made.content, skip=False))
    plain = folder / "plain.libsvm"
    plain.write_bytes(made.content.removeprefix(b"\xef\xbb\xbf"))
    try:
        X, y = load_svmlight_file(str(plain), n_features=_N_FEATURES, zero_based=False)
    except ValueError:
        return f"{_verdict(made, found)} (scikit-learn refuses it)"
    _check_same(found, [*zip(map(tuple, X.toarray().tolist()), y.tolist(), strict=True)])
    return _verdict(made, found)


def _libsvm_text(rng: np.random.Generator) -> bytes:
    end = pick(rng, ["\n", "\r\n"])
    written = []
    for _ in range(rng.integers(1, 40)):
        indices = np.flatnonzero(rng.random(_N_FEATURES) < 0.5) + 1
        tokens = [pick(rng, ["+1", "-1", "2", "3.5", "1e2"])]
        tokens += ["qid:7"] * int(rng.random() < 0.2)
        tokens += [f"{index}:{_written(rng)}" for index in indices]
        comment = pick(rng, ["", "", "", " # 1:2", "# 3:4", "#"])
        written.append(pick(rng, [" ", " ", "\t", "  "]).join(tokens) + comment)
        written += [pick(rng, ["", "# 1 2:3", " "])] * int(rng.random() < 0.1)
    return (end.join(written) + pick(rng, ["", end])).encode()


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


def _broken(rng: np.random.Generator, path: Path) -> bool:
    """Half of the time, damage a file; whether it is still whole."""
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        return True
    if rng.random() < 0.3:
        content = content[: rng.integers(1, len(content))]
    for _ in range(rng.integers(0, 4)):
        # the ends of files say what the rest is
        reach = min(len(content), int(np.exp(rng.uniform(0, 10))))
        place = int(rng.integers(reach))
        content[-place - 1 if rng.random() < 0.5 else place] = int(rng.integers(256))
    same = bytes(content) == path.read_bytes()
    path.write_bytes(content)
    return same


def _npy(rng: np.random.Generator, folder: Path) -> str:
    n_rows = int(rng.integers(1, 200))
    order = pick(rng, ["C", "F"])
    X = rng.normal(scale=50.0, size=(n_rows, int(rng.integers(1, 5))))
    X = np.asarray(X.astype(pick(rng, ["<f8", "<f4", ">f8", "<i4", "<u2"])), order=order)
    labels = [np.array(["no", "yés", ""]), np.array([2**60, 2**60 + 1, -1]), np.array([0.5, 1, 2])]
    labels += [np.array([b"no", b"yes", b""]), np.array([True, False, True])]
    y = labels[rng.integers(len(labels))][rng.integers(3, size=n_rows)]
    paths = folder / "X.npy", folder / "y.npy"
    for path, array in zip(paths, (X, y), strict=True):
        np.save(path, array)
    whole = _broken(rng, paths[int(rng.integers(2))])
    found = _outcome(NpyReader(*paths, chunk_rows=int(rng.integers(1, 90))), whole)
    if found is not None:
        X, y = (np.load(path, allow_pickle=False) for path in paths)
        y = np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y
        _check_same(found, [*zip(map(tuple, X.tolist()), y.tolist(), strict=True)])
    return _verdict(Made(b"", whole), found)


def _frame(rng: np.random.Generator) -> pd.DataFrame:
    n_rows = int(rng.integers(1, 120))
    y: Any = rng.integers(3, size=n_rows)
    kind = rng.integers(4)
    if kind < 2:
        y = np.array(["no", "yés", ""])[y]
    table = pd.DataFrame({"a": np.arange(n_rows), "y": y, "b": rng.normal(size=n_rows)})
    table["y"] = table["y"].astype("category") if kind == 1 else table["y"]
    if rng.random() < 0.5:
        table = table.sample(frac=1.0, random_state=int(rng.integers(99)))
        table.index.name = pick(rng, ["id", "0"]) if rng.random() < 0.5 else None
    return table


def _stored(rng: np.random.Generator, table: pd.DataFrame, path: Path) -> None:
    table.to_parquet(
        path,
        compression=pick(rng, [None, "snappy", "gzip", "zstd"]),
        row_group_size=int(rng.integers(1, 100)),
        index=None if rng.random() < 0.8 else True,
        use_dictionary=bool(rng.integers(2)),
        write_page_checksum=bool(rng.integers(2)),
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


def _parquet(rng: np.random.Generator, folder: Path) -> str:
    path = folder / "rows"
    _stored(rng, _frame(rng), path)
    whole = _broken(rng, path)
    reader = ParquetReader(path, target="y", chunk_rows=int(rng.integers(1, 90)))
    found = _outcome(reader, whole)
    if found is not None:
        _check_same(found, _table_known(path))
    return _verdict(Made(b"", whole), found)


def _folder(rng: np.random.Generator, folder: Path) -> str:
    """A table in a folder of files and folders, some of them linked, and with loops."""
    table = _frame(rng)
    top = folder / "top"
    places = [top, top / "below", folder / "aside", folder / "aside" / "deep"]
    for place in places:
        place.mkdir(exist_ok=True)
    (top / "linked").symlink_to(folder / "aside")
    (folder / "aside" / "loop").symlink_to(top)
    part_of = rng.integers(5, size=len(table))
    for part in np.unique(part_of):
        name = f"{part}.{pick(rng, ['parquet', 'PARQUET', 'Parquet'])}"
        path = places[rng.integers(len(places))] / name
        _stored(rng, table[part_of == part], path)
        if rng.random() < 0.2:
            (top / f"again-{part}.parquet").symlink_to(path)
    found = _outcome(ParquetReader(top, target="y", chunk_rows=int(rng.integers(1, 90))), True)
    _check_same(sorted(found or []), sorted(_table_rows(table)))
    return "whole, read"
