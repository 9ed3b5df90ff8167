"""What readers of text share: one file, and malformed lines that raise or are skipped."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Generator
from pathlib import Path

from aesvm.io.base import Chunk, ChunkReader, Progress
from aesvm.runtime.warn import warn

ON_BAD = ("raise", "skip")


class TextReader(ChunkReader):
    """A reader of a text file; a format says in ``_rows`` what a line is."""

    def __init__(self, path: str | os.PathLike, chunk_rows: int, on_bad: str) -> None:
        if not isinstance(on_bad, str) or on_bad not in ON_BAD:
            raise ValueError(f"on_bad={on_bad!r}: one of {', '.join(ON_BAD)} is needed.")
        super().__init__([Path(path)], chunk_rows)
        self.path = self.paths[0]
        self.on_bad = on_bad

    @abstractmethod
    def _rows(self, progress: Progress) -> Generator[Chunk, None, None]:
        """Yield the file's rows in chunks."""

    def _chunks(self, progress: Progress) -> Generator[Chunk, None, None]:
        yield from self._rows(progress)
        if progress.n_skipped:
            lines = "line was" if progress.n_skipped == 1 else "lines were"
            warn(f"{self.path}: {progress.n_skipped} malformed {lines} skipped.")
