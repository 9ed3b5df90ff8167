"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: A file that this process has open, by its number.
_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/([0-9]+)")


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` once all is written and on the disk.

    Where that fails, or is interrupted, the file that was there before is as it was, and nothing
    else is left. The new file has the permissions of the old one. A pipe, a device or a file that
    is open already (``/dev/fd/3``) is written to as it is.

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
