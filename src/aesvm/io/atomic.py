"""Files that are written whole or not at all."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

#: Folders whose entries are the open files of a process.
_DESCRIPTORS = re.compile(r"/dev/fd|/proc/([0-9]+)(/task/[0-9]+)?/fd")

#: Links that lead to a file: where there are more, they lead in a circle.
_MOST_LINKS = 40


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` once all is written and on the disk.

    Where that fails, or is interrupted, the file that was there before is as it was, and nothing
    else is left. The new file can be read and written by whom the old one could. A pipe, a device
    or a file that is open already (``/dev/fd/3``) is written to as it is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.io.atomic import written_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder, "file")) as file:
    ...         _ = file.write(b"text")
    ...     Path(folder, "file").read_bytes()
    b'text'
    """
    target = checked_output_path(path)
    with naming(path):
        descriptor = _descriptor(target)
    if descriptor is not None or (target.exists() and not target.is_file()):
        with _opened(target if descriptor is None else descriptor, "w", path) as file:
            yield file
        return
    partial = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with _opened(partial, "x", path) as file:
            if target.exists():
                os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            with naming(path):
                os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    _fsync_folder(target.parent)


def checked_output_path(path: str | os.PathLike) -> Path:
    """Where a file is to be written; a link is followed, but not that to a file that is open."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: the name of a file is needed.")
    target = Path(os.path.abspath(os.fspath(path)))
    for _ in range(_MOST_LINKS):
        target = Path(os.path.realpath(target.parent), target.name)
        if _DESCRIPTORS.fullmatch(str(target.parent)) or not target.is_symlink():
            break
        target = target.parent / os.readlink(target)
    if target.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a folder: the name of a file is needed.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r}: there is no folder {str(target.parent)!r}.")
    return target


def check_writable(path: str | os.PathLike) -> None:
    """Raise the ``OSError`` that ``written_whole`` would end with, where it cannot even begin.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from aesvm.io.atomic import check_writable
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_writable(Path(folder, "file"))
    ...     list(Path(folder).iterdir())
    []
    """
    target = checked_output_path(path)
    if not target.exists() or target.is_file():
        partial = target.with_name(f".{uuid.uuid4().hex}.part")
        partial.open("xb").close()
        partial.unlink()


@contextmanager
def naming(path: str | os.PathLike) -> Iterator[None]:
    """Have errors of the system name the file as it was given."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


class _Named(io.FileIO):
    """A file whose errors name it."""

    def __init__(self, file: Any, mode: str, path: str | os.PathLike) -> None:
        super().__init__(file, mode)
        self.path = path

    def write(self, data: Any, /) -> int:
        with naming(self.path):
            return super().write(data)


def _opened(file: Path | int, mode: str, path: str | os.PathLike) -> io.BufferedWriter:
    with naming(path):
        return io.BufferedWriter(_Named(file, mode, path))


def _descriptor(target: Path) -> int | None:
    """A file that is open, again, at its place in it; None where a path names another."""
    folder = _DESCRIPTORS.fullmatch(str(target.parent))
    if folder is None or not target.name.isdecimal():
        return None
    if folder[1] not in (None, str(os.getpid())):  # of another process
        return os.open(target, os.O_WRONLY | os.O_APPEND)
    if sys.stdout is not None:
        sys.stdout.flush()  # what was printed before comes first
    return os.dup(int(target.name))


def _fsync_folder(folder: Path) -> None:
    """Have the new name on the disk as well, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
