"""Files on the disk: text read in blocks, plain or compressed, and new files written whole."""

from __future__ import annotations

import bz2
import lzma
import os
import re
import stat
import sys
import uuid
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Any

from aesvm.io.base import BadRow, ReadProgress

#: Bytes of text handled at once.
BLOCK_BYTES = 1 << 20
#: Bytes of a compressed file read at once.
COMPRESSED_BYTES = 1 << 16
#: A line longer than this is taken for a file of another kind.
LONGEST_LINE = 1 << 26

BOM = b"\xef\xbb\xbf"


def line_blocks(
    path: Path, progress: ReadProgress, n_bytes: int | None = None
) -> Generator[bytes, None, None]:
    """The text in blocks that end with a newline, the file's last line included.

    A byte order mark is dropped. Blocks have some ``n_bytes``, by default ``BLOCK_BYTES``.

    Raises
    ------
    EOFError
        Where a file is cut short: a compressed one, or one that had more bytes when it was opened.
    BadRow
        Where the line after the last block does not end.
    """
    n_bytes = max(1, BLOCK_BYTES if n_bytes is None else n_bytes)
    first = True
    held: list[bytes] = []  # a line that has not ended
    held_bytes = 0
    with FileIO(path) as file:
        for text in _text(file, path, progress, n_bytes):
            end = text.rfind(b"\n") + 1
            if end:
                block = b"".join([*held, text[:end]])
                yield block.removeprefix(BOM) if first else block
                first = False
                held, held_bytes = [], 0
            held.append(text[end:])
            held_bytes += len(text) - end
            if held_bytes > LONGEST_LINE:
                raise BadRow(f"it is longer than {LONGEST_LINE} bytes")
    last = b"".join(held)
    if first:
        last = last.removeprefix(BOM)
    if last:
        yield last + b"\n"


def _text(
    file: FileIO, path: Path, progress: ReadProgress, n_bytes: int
) -> Generator[bytes, None, None]:
    """The text of a file as it comes, up to the size that it had when it was opened.

    A file that is being written to may end in a part of a line. Some files have no known size.
    """
    size = os.fstat(file.fileno()).st_size or sys.maxsize
    magic = file.read(max(map(len, _DECOMPRESSORS)))
    file.seek(0)
    for known, (name, decompressor) in _DECOMPRESSORS.items():
        if magic.startswith(known):
            yield from _decompressed(file, path, progress, n_bytes, name, decompressor)
            return
    left = size
    while text := file.read(min(n_bytes, left)):
        progress.position += len(text)
        left -= len(text)
        yield text
    if 0 < left < size < sys.maxsize:
        raise EOFError(
            f"{path}: the file is cut short: it had {size:,} bytes when it was opened, and ends "
            f"after {size - left:,}."
        )


def _decompressed(
    file: FileIO, path: Path, progress: ReadProgress, n_bytes: int, name: str, decompressor: Any
) -> Generator[bytes, None, None]:
    def read() -> bytes:
        data = file.read(COMPRESSED_BYTES)
        progress.position += len(data)
        return data

    data = read()
    while data:
        stream = decompressor()
        while True:
            try:
                text = stream.decompress(data, n_bytes)
            except (zlib.error, lzma.LZMAError, OSError, ValueError) as error:
                raise ValueError(f"{path}: the {name} data is damaged ({error}).") from error
            if text:
                yield text
            data = b""
            if stream.eof:
                break
            if stream.needs_input:
                data = read()
                if not data:
                    raise EOFError(
                        f"{path}: the file is cut short: it ends within its {name} data."
                    )
        data = stream.unused_data.lstrip(b"\0")
        while not data and (more := read()):
            data = more.lstrip(b"\0")


class _Gzip:
    """zlib's decompressor, with the interface that bz2's and lzma's have."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self.needs_input = not self._stream.unconsumed_tail and len(text) < max_length
        return text


_DECOMPRESSORS: dict[bytes, tuple[str, Any]] = {
    b"\x1f\x8b": ("gzip", _Gzip),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
}


#: A file that this process has open, by its number.
_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]+)")


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` once all is written and on the disk.

    Where that fails, or is interrupted, the file that was there before is as it was, and nothing
    else is left. The new file has the permissions of the old one. A pipe, a device or a file that
    is open already (``/dev/fd/3``) is written to as it is.
    """
    target = checked_output_path(path)
    is_open = _DESCRIPTOR.fullmatch(str(target))
    if is_open or (target.exists() and not target.is_file()):
        if is_open and sys.stdout is not None:
            sys.stdout.flush()  # what was printed before comes first
        with naming(path), open(os.dup(int(is_open[1])) if is_open else target, "wb") as file:
            yield file
        return
    partial = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with naming(path), open(partial, "xb") as file:
            if target.exists():
                os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def checked_output_path(path: str | os.PathLike) -> Path:
    """Where a file is to be written; links are followed, but not that to a file that is open."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: the name of a file is needed.")
    given = os.fspath(path)
    target = Path(given if _DESCRIPTOR.fullmatch(given) else os.path.realpath(given))
    if target.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder: the name of a file is needed.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r}: there is no folder {str(target.parent)!r}.")
    return target


def check_writable(path: str | os.PathLike) -> None:
    """Raise the ``OSError`` that ``written_whole`` would end with, where it cannot even begin."""
    target = checked_output_path(path)
    is_open = _DESCRIPTOR.fullmatch(str(target))
    if not is_open and (not target.exists() or target.is_file()):
        partial = target.with_name(f".{uuid.uuid4().hex}.part")
        partial.open("xb").close()
        partial.unlink()


@contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Have errors of the system name the file as it was given, unless they name another."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not str(error.filename or ".part").endswith(".part"):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
