"""Formats of files: recognised by what a file holds, then by its name; and rows written in each.

Also classes as text, and as what they stand for: 1, "1" and "1.0" are the same number.
"""

from __future__ import annotations

import csv
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.screen import CommandError, UsageError
from aesvm.io import Chunk
from aesvm.io.base import BadLineError, BadRow, ReadProgress
from aesvm.io.files import check_writable, checked_output_path, line_blocks, naming, written_whole
from aesvm.io.libsvm import pairs_of
from aesvm.runtime.warn import warn

if TYPE_CHECKING:
    from aesvm.command.data import DataFile

FORMATS = ("libsvm", "csv", "parquet", "npy")

#: The column to learn where no option names one: ``aesvm convert`` calls LIBSVM's labels so.
TARGET = "target"

#: What names end with, and the formats that they tell.
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}

#: What names of compressed text end with, after that of its format.
COMPRESSED = (".gz", ".bz2", ".xz")

#: What names of aesvm's model files end with, and those of ONNX graphs.
NATIVE, ONNX = ".aesvm", ".onnx"

#: Those of models, of which LIBSVM's may have any other name.
MODEL_SUFFIXES = (NATIVE, ONNX, ".model")

#: Values that are written at a time.
_BLOCK = 1_000_000

#: The column of weights that is added to tables, and what the name of a file of LIBSVM's weights
#: adds to that of its rows.
WEIGHT, WEIGHTS_FILE = "weight", ".weights"

#: What LIBSVM's model files begin with.
_LIBSVM_MAGIC = b"svm_type "

#: What text of UTF-16 begins with.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_DELIMITERS = ",\t;|"
_LIBSVM_LINE = re.compile(rb"\s*[-+.0-9eE]+(\s+(qid|[0-9]+):\S+)*\s*(#.*)?")
_QUOTED = re.compile(r'"[^"]*"')


def stem_of(name: str) -> str:
    """The name of a data file without what tells its format."""
    path = Path(Path(name).name)
    for known in (COMPRESSED, SUFFIXES):
        path = path.with_suffix("") if suffix_of(path) in known else path
    return path.name


def suffix_of(path: str | Path) -> str:
    """What a name ends with, in small letters."""
    return Path(path).suffix.lower()


def format_of_model(path: str | Path) -> str | None:
    """The format of a model file, "aesvm" or "libsvm"; None where it is neither.

    A file says what it is by how it begins; one that is damaged there, by its name.
    """
    if not Path(path).is_file():
        return None
    if suffix_of(path) == NATIVE:
        return "aesvm"
    if zipfile.is_zipfile(path):  # as NumPy's archives are, too
        with zipfile.ZipFile(path) as archive:
            return "aesvm" if "schema.json" in archive.namelist() else None
    with open(path, "rb") as file:
        return "libsvm" if file.read(len(_LIBSVM_MAGIC)) == _LIBSVM_MAGIC else None


class Format(NamedTuple):
    """What is known of a file before it is read."""

    kind: str  #: one of FORMATS
    compressed: str | None = None  #: how, by pandas' name
    delimiter: str = ","
    header: bool = False
    names: list[str] | None = None  #: of the columns of a table of text with a header
    n_columns: int = 0  #: of a table of text


def format_of(
    path: Path, kind: str | None = None, delimiter: str | None = None, header: bool | None = None
) -> Format:
    """The format of a data file; what is not None is taken for granted."""
    if kind is not None and kind not in FORMATS:
        raise UsageError(f"--format {kind}: one of {', '.join(FORMATS)} is needed.")
    if delimiter is not None and len(delimiter) != 1:
        raise UsageError(f"--delimiter {delimiter!r}: one character is needed.")
    if path.is_dir():
        return Format("parquet")
    with path.open("rb") as file:
        magic = file.read(6)
    if not magic:
        raise CommandError(f"{path}: the file is empty.")
    if kind is None:
        _refuse_models(path)
    if magic[:2] in _UTF_16:
        raise CommandError(f"{path}: the text is UTF-16: save it as UTF-8.")
    by_content = "parquet" if magic[:4] == b"PAR1" else None
    by_content = "npy" if magic == b"\x93NUMPY" else by_content
    suffixes = [one.lower() for one in path.suffixes]
    compressed = {b"\x1f\x8b": "gzip", b"BZ": "bz2", b"\xfd7": "xz"}.get(magic[:2])
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    found = kind or by_content or SUFFIXES.get(suffix)
    if found in ("parquet", "npy"):
        return Format(found)
    first, second, below_comments = _first_lines(path)
    if found is None:
        found = "libsvm" if _LIBSVM_LINE.fullmatch(below_comments) else None
        is_table = b"\0" not in first and any(ord(one) in first for one in _DELIMITERS)
        if found is None and not is_table:
            raise BadLineError(
                path, 1, "this is neither LIBSVM's format nor a table of values between commas"
            )
        found = found or "csv"
    if found == "libsvm":
        return Format("libsvm", compressed)
    text = first.decode(errors="replace").rstrip("\r\n")
    if delimiter is None:
        delimiter = "\t" if suffix == ".tsv" else max(_DELIMITERS, key=_QUOTED.sub("", text).count)
    fields = _fields(text, delimiter)
    if header is None:
        header = _is_header(fields, _fields(second.decode(errors="replace"), delimiter))
    names = fields if header else None
    if header:
        _check_names_are_utf8(path, _fields(first.decode(errors="surrogateescape"), delimiter))
    return Format("csv", compressed, delimiter, header, names, len(fields))


def _refuse_models(path: Path) -> None:
    """Refuse models."""
    what = "a model file" if format_of_model(path) else None
    what = "an ONNX graph" if suffix_of(path) == ONNX else what
    if what is not None:
        raise CommandError(f"{path}: this is {what}, and a data file is needed.")


def _check_names_are_utf8(path: Path, names: list[str]) -> None:
    """Refuse names of columns that could not be written again."""
    for at, name in enumerate(names):
        if any("\udc80" <= character <= "\udcff" for character in name):
            reason = f"the name of column {at} is not UTF-8: save the file as UTF-8"
            raise BadLineError(path, 1, reason)


def _fields(line: str, delimiter: str) -> list[str]:
    return [one.strip() for one in next(csv.reader([line], delimiter=delimiter), [])]


def _is_header(first: list[str], second: list[str]) -> bool:
    """Whether the first line of a table names its columns.

    It does where no field of it is a number; where the second line has a number below a name; and
    where its numbers count the columns, as pandas has them.
    """
    numbers = [as_number(one) is not None for one in first]
    if not any(numbers):
        return True
    if all(numbers):
        return False
    below = zip(first, numbers, second, strict=False)
    if any(name and not number and as_number(value) is not None for name, number, value in below):
        return True
    counted = [one for one, number in zip(first, numbers, strict=True) if number]
    return len(counted) > 1 and counted == list(map(str, range(len(counted))))


def _first_lines(path: Path) -> tuple[bytes, bytes, bytes]:
    """The first two lines that are not blank, and the first that is no comment of LIBSVM's text.

    They are empty where there are none.
    """
    found: list[bytes] = []
    row = b""
    try:
        for block in line_blocks(path, ReadProgress()):
            for line in filter(bytes.strip, block.splitlines()):
                found += [line][: 2 - len(found)]
                row = row or (b"" if line.lstrip().startswith(b"#") else line)
                if row and len(found) == 2:
                    return found[0], found[1], row
    except BadRow as bad:
        raise BadLineError(path, 1, str(bad)) from bad
    if not found:
        raise CommandError(f"{path}: there are no rows in the file.")
    return found[0], b"" if len(found) == 1 else found[1], row


def as_number(text: str) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def label_text(label: Any) -> str:
    """A class or value as LIBSVM writes it; whole numbers with all their digits."""
    if isinstance(label, int):
        return str(int(label))
    return f"{label:.17g}" if isinstance(label, float) else str(label)


@lru_cache(maxsize=1000)
def meaning(label: Any) -> Any:
    """What a class stands for: a number where its text is one, else text."""
    if isinstance(label, int | float):
        return label
    number = as_number(str(label))
    if number is None or not isfinite(number):
        return str(label)
    return int(label) if label.removeprefix("-").removeprefix("+").isdecimal() else number


def equal_labels(some: NDArray, others: NDArray) -> NDArray[np.bool_]:
    """Where labels are equal; of text and numbers, where they stand for the same."""
    if is_numeric(some) == is_numeric(others):
        return np.asarray(some == others)
    pairs = zip(some.tolist(), others.tolist(), strict=True)
    return np.array([meaning(one) == meaning(other) for one, other in pairs], dtype=bool)


def is_numeric(labels: NDArray) -> bool:
    """Whether labels are numbers, and not text."""
    return labels.dtype.kind in "biuf"


def written_to(path: str | None) -> AbstractContextManager[IO[bytes]]:
    """A file that is written whole, or standard output where there is no name."""
    return _standard_output() if path in (None, "/dev/stdout") else written_whole(str(path))


def check_outputs(outputs: Iterable[str | None], inputs: Iterable[str | None]) -> None:
    """Refuse, before the work is done, outputs that cannot be written, or that are inputs.

    Nor can two outputs be one file. What is None or "-" is no file.
    """
    others = [one for one in inputs if one not in (None, "-")]
    for output in outputs:
        if output is None or output == "-":
            continue
        path = Path(output)
        if path.is_dir():
            raise CommandError(f"{output} is a folder: the name of a file is needed.")
        if not path.parent.is_dir():
            raise CommandError(f"{output}: there is no folder {str(path.parent)!r}.")
        path = checked_output_path(output)
        for other in others:
            if _is_same(path, Path(str(other))):
                raise UsageError(
                    f"{output} is the same file as {other}, which is read or written as well: "
                    "use another name."
                )
        with naming(output):
            check_writable(output)
        others.append(output)


def _is_same(one: Path, other: Path) -> bool:
    """Whether two names are those of one file; devices and pipes may be both."""
    if one.is_file() and other.is_file():
        return os.path.samefile(one, other)
    return not one.exists() and str(one) == os.path.realpath(other)


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def dense_blocks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Chunks cut into dense blocks of moderate size."""
    for chunk in chunks:
        for rows in row_blocks(*chunk.X.shape):
            here = chunk.rows(rows)
            yield here._replace(X=here.X.toarray() if sp.issparse(here.X) else np.asarray(here.X))


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Rows of a moderate number of values at a time, of which each has ``width``."""
    size = max(1, _BLOCK // max(1, width))
    for first in range(0, n_rows, size):
        yield slice(first, first + size)


def outputs_of(output: str | None, weighted: bool) -> list[str | None]:
    """The files that rows may be written to."""
    return [output, f"{output}{WEIGHTS_FILE}"] if output is not None and weighted else [output]


def write_rows(
    chunks: Iterable[Chunk],
    path: str | None,
    file: DataFile,
    features: NDArray[np.intp] | None = None,
    libsvm_digits: str = ".17g",
) -> tuple[int, list[str]]:
    """Write rows as they come; how many there were, and the files that were written.

    Weights of LIBSVM's rows go to a file of their own. ``features``: of the data file, those that
    the chunks have; None: all.
    """
    kind = output_format(path, file)
    n_rows, row_weights = 0, []
    with ExitStack() as stack:
        file_out = stack.enter_context(written_to(path))
        writer: Any = None  # of Parquet
        for X, y, weights in chunks if kind == "libsvm" else dense_blocks(chunks):
            if kind == "libsvm":
                if y is None and not n_rows:
                    warn("there is no --target: every label is 0, and all columns are features.")
                labels = ["0"] * X.shape[0] if y is None else _numbers(y, file)
                pairs = pairs_of(X, libsvm_digits, None if features is None else features + 1)
                lines = zip(labels, pairs, strict=True)
                file_out.write("".join(f"{label} {own}\n" for label, own in lines).encode())
                row_weights += [] if weights is None else [weights]
            else:
                columns = _columns(Chunk(X, y, weights), file, features)
                if kind == "csv":
                    named = file.feature_names or file.format.kind != "csv" or weights is not None
                    file_out.write(_csv_text(columns, header=bool(named) and not n_rows))
                else:
                    import pyarrow as pa
                    import pyarrow.parquet as pq

                    table = pa.table(columns)
                    writer = writer or stack.enter_context(pq.ParquetWriter(file_out, table.schema))
                    writer.write_table(table)
            n_rows += X.shape[0]
        if row_weights and path is not None:
            file_out.flush()  # a full disk is noticed before weights are written
            _write_weights(row_weights, f"{path}{WEIGHTS_FILE}")
    return n_rows, [one for one in outputs_of(path, bool(row_weights)) if one is not None]


def _write_weights(parts: Iterable[NDArray], path: str) -> None:
    with written_to(path) as file_out:
        for weights in parts:
            file_out.write("".join(f"{one:.17g}\n" for one in weights.tolist()).encode())


def _numbers(y: NDArray, file: DataFile) -> list[str]:
    """Targets of LIBSVM's text."""
    if not is_numeric(y):
        raise CommandError(
            f"{file.name}: the target is {y[0]!s:.40}, and LIBSVM's text has numbers: .csv and "
            ".parquet can have text."
        )
    return list(map(label_text, y.tolist()))


def output_format(path: str | None, file: DataFile, weighted: bool = False) -> str:
    """The format that the name of an output asks for, or else that goes with the data file."""
    suffix = "" if path is None else suffix_of(path)
    if suffix in (".npy", *COMPRESSED, *MODEL_SUFFIXES):
        raise UsageError(
            f"{path}: rows are written as .csv, .parquet or LIBSVM's text (.svm), not {suffix}."
        )
    found = SUFFIXES.get(suffix, "libsvm" if file.format.kind == "libsvm" else "csv")
    if weighted and path is None and found == "libsvm":
        raise UsageError(
            "weights of LIBSVM's rows are written to a file beside them, and not to standard "
            "output: the name of a file is needed."
        )
    return found


def _columns(block: Chunk, file: DataFile, features: NDArray[np.intp] | None) -> dict[str, NDArray]:
    """The columns of a table by name: as a data file has it, or else numbered, and free."""
    known = file.feature_names
    numbers = range(file.n_features) if features is None else features.tolist()
    names = [known[at] if known else f"x{at + 1}" for at in numbers]
    found = dict(zip(names, block.X.T, strict=True))
    if block.y is not None:
        found[file.target or _free(TARGET, names)] = block.y
    if block.weights is not None:
        found[file.weight or _free(WEIGHT, list(found))] = block.weights
    return found


def _free(name: str, names: list[str]) -> str:
    while name in names:
        name += "_"
    return name


def _csv_text(columns: dict[str, NDArray], header: bool) -> bytes:
    import pandas as pd

    frame = pd.DataFrame(columns)
    text = frame.to_csv(index=False, header=header, float_format="%.17g", lineterminator="\n")
    return text.encode()
