"""Which format a file has: by what it holds, and by its name."""

from __future__ import annotations

import csv
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from aesvm.command.labels import as_number
from aesvm.command.outcome import CommandError, UsageError
from aesvm.io.base import BadLineError, BadRow, Progress
from aesvm.io.lines import line_blocks

FORMATS = ("libsvm", "csv", "parquet", "npy")

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

#: What names of aesvm's model files end with, and those of graphs of ONNX.
NATIVE, ONNX = ".aesvm", ".onnx"

#: Those of models, of which LIBSVM's may have any other name.
MODEL_SUFFIXES = (NATIVE, ONNX, ".model")

#: What LIBSVM's model files begin with.
_LIBSVM_MAGIC = b"svm_type "

#: What text of UTF-16 begins with.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

_DELIMITERS = ",\t;|"
_LIBSVM_LINE = re.compile(rb"\s*[-+.0-9eE]+(\s+(qid|[0-9]+):\S+)*\s*(#.*)?")
_QUOTED = re.compile(r'"[^"]*"')


def stem_of(name: str) -> str:
    """The name of a data file without what tells its format.

    Examples
    --------
    >>> from aesvm.command.formats import stem_of
    >>> stem_of("folder/rows.2026.csv.gz"), stem_of("a9a.t")
    ('rows.2026', 'a9a.t')
    """
    path = Path(Path(name).name)
    for known in (COMPRESSED, SUFFIXES):
        path = path.with_suffix("") if suffix_of(path) in known else path
    return path.name


def suffix_of(path: str | Path) -> str:
    """What a name ends with, in small letters.

    Examples
    --------
    >>> from aesvm.command.formats import suffix_of
    >>> suffix_of("rows.CSV")
    '.csv'
    """
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
    r"""The format of a data file; what is not None is taken for granted.

    Examples
    --------
    >>> import tempfile
    >>> from aesvm.command.formats import format_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows")
    ...     _ = path.write_text("a;b\n1;2\n")
    ...     format_of(path)
    Format(kind='csv', compressed=None, delimiter=';', header=True, names=['a', 'b'], n_columns=2)
    """
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
    what = "a graph of ONNX" if suffix_of(path) == ONNX else what
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
        for block in line_blocks(path, Progress()):
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
