"""Which format a data file has: by what it holds, and by its name."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import NamedTuple

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

_DELIMITERS = ",\t;|"
_LIBSVM_LINE = re.compile(rb"\s*[-+.0-9eE]+(\s+(qid|[0-9]+):\S+)*\s*(#.*)?")
_NUMBER = re.compile(
    r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?(nan|inf(inity)?)", re.I
)
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
        path = path.with_suffix("") if path.suffix.lower() in known else path
    return path.name


class Format(NamedTuple):
    """What is known of a file before it is read."""

    kind: str  #: one of FORMATS
    compressed: bool = False
    delimiter: str = ","
    header: bool = False
    names: list[str] | None = None  #: of the columns of a table of text with a header
    n_columns: int = 0  #: of a table of text


def format_of(
    path: Path, kind: str | None = None, delimiter: str | None = None, header: bool | None = None
) -> Format:
    r"""The format of a file; what is not None is taken for granted.

    Examples
    --------
    >>> import tempfile
    >>> from aesvm.command.formats import format_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows")
    ...     _ = path.write_text("a;b\n1;2\n")
    ...     format_of(path)
    Format(kind='csv', compressed=False, delimiter=';', header=True, names=['a', 'b'], n_columns=2)
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
    by_content = "parquet" if magic[:4] == b"PAR1" else None
    by_content = "npy" if magic == b"\x93NUMPY" else by_content
    suffixes = [one.lower() for one in path.suffixes]
    compressed = magic[:2] in (b"\x1f\x8b", b"BZ", b"\xfd7")
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    found = kind or by_content or SUFFIXES.get(suffix)
    if found in ("parquet", "npy"):
        return Format(found)
    first, second = _first_lines(path)
    if found is None:
        found = "libsvm" if _LIBSVM_LINE.fullmatch(first) else None
        if found is None and not any(ord(one) in first for one in _DELIMITERS):
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
    return Format("csv", compressed, delimiter, header, names, len(fields))


def _fields(line: str, delimiter: str) -> list[str]:
    return [one.strip() for one in next(csv.reader([line], delimiter=delimiter), [])]


def _is_header(first: list[str], second: list[str]) -> bool:
    """Whether the first line of a table names its columns.

    It does where no field of it is a number; where the second line has a number below a name; and
    where its numbers count the columns, as pandas has them.
    """
    numbers = [bool(_NUMBER.fullmatch(one)) for one in first]
    if not any(numbers):
        return True
    if all(numbers):
        return False
    below = zip(first, numbers, second, strict=False)
    if any(name and not number and _NUMBER.fullmatch(value) for name, number, value in below):
        return True
    counted = [one for one, number in zip(first, numbers, strict=True) if number]
    return len(counted) > 1 and counted == list(map(str, range(len(counted))))


def _first_lines(path: Path) -> tuple[bytes, bytes]:
    """The first two lines that are not blank; empty where there is no second one."""
    found: list[bytes] = []
    try:
        for block in line_blocks(path, Progress()):
            found += [line for line in block.splitlines() if line.strip()][: 2 - len(found)]
            if len(found) == 2:
                break
    except BadRow as bad:
        raise BadLineError(path, 1, str(bad)) from bad
    if not found:
        raise CommandError(f"{path}: there are no rows in the file.")
    return found[0], found[-1] if len(found) == 2 else b""
