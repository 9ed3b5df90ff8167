"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def written_whole(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` once all is written and on the disk.

    Where that fails, or is interrupted, the file that was there before is as it was, and nothing
    else is left. The new file can be read and written by whom the old one could. A pipe or a device
    is written to as it is.

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
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    partial = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with open(partial, "xb") as file:
            if target.exists():
                os.chmod(partial, stat.S_IMODE(target.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
    _fsync_folder(target.parent)


def checked_output_path(path: str | os.PathLike) -> Path:
    """Where a file is to be written; a link is followed."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path={path!r}: the name of a file is needed.")
    target = Path(os.path.realpath(os.fspath(path)))
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


def _fsync_folder(folder: Path) -> None:
    """Have the new name on the disk as well, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
