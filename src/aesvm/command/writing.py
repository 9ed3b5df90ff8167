"""Where results go: a file that is written whole, or standard output; rows in any format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.command.data import TARGET, DataFile
from aesvm.command.formats import COMPRESSED, MODEL_SUFFIXES, SUFFIXES, suffix_of
from aesvm.command.labels import is_numeric, label_text
from aesvm.command.outcome import CommandError, UsageError
from aesvm.io import Chunk
from aesvm.io.atomic import check_writable, checked_output_path, naming, written_whole
from aesvm.runtime.warn import warn

#: Values that are written at a time.
_BLOCK = 1_000_000

#: The column of weights that is added to tables, and what the name of a file of LIBSVM's weights
#: adds to that of its rows.
WEIGHT, WEIGHTS_FILE = "weight", ".weights"


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
    for X, y, weights in chunks:
        for here in row_blocks(*X.shape):
            dense = X[here].toarray() if sp.issparse(X) else np.asarray(X[here])
            yield Chunk(dense, *(None if one is None else one[here] for one in (y, weights)))


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Rows of a moderate number of values at a time, of which each has ``width``."""
    size = max(1, _BLOCK // max(1, width))
    for first in range(0, n_rows, size):
        yield slice(first, first + size)


def libsvm_row_lines(
    X: Any, labels: Sequence[str], numbers: NDArray | None, form: str = "g"
) -> Iterator[str]:
    """Rows in LIBSVM's format; ``numbers``: of the features, where that is not their own."""
    X = sp.csr_array(X)
    X.sort_indices()
    for label, begin, end in zip(labels, X.indptr[:-1], X.indptr[1:], strict=True):
        used = X.indices[begin:end]
        used = (used.astype(np.int64) + 1) if numbers is None else numbers[used]
        pairs = zip(used.tolist(), X.data[begin:end].tolist(), strict=True)
        kept = [f"{at}:{value:{form}} " for at, value in pairs if value]
        yield f"{label} {''.join(kept)}\n"


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
                numbers = None if features is None else features + 1
                text = "".join(libsvm_row_lines(X, labels, numbers, libsvm_digits))
                file_out.write(text.encode())
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
