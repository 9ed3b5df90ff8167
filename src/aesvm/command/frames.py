"""Tables with all their types, as pandas' frames."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aesvm.command.formats import Format
from aesvm.command.outcome import CommandError
from aesvm.io import Chunk, ChunkIterator
from aesvm.io.base import Progress
from aesvm.io.columns import Columns
from aesvm.runtime.warn import warn

if TYPE_CHECKING:
    import pandas as pd

#: Rows of a frame, where a table is read piece by piece.
FRAME_ROWS = 65_536


class FrameReader:
    """A re-iterable of chunks whose rows are frames; rows without a target are left out.

    ``text``: columns that are read as text, whatever they look like.
    """

    def __init__(self, path: Path, found: Format, roles: Columns, text: list[str]) -> None:
        self.path, self.format, self.text = path, found, text
        self.columns, self.features = roles.used_names, roles.feature_names
        self.target, self.weight = roles.by_name.target, roles.by_name.weight

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size

    def __iter__(self) -> ChunkIterator:
        return ChunkIterator(self._chunks(), Progress())

    def _chunks(self) -> Generator[Chunk, None, None]:
        for frame in self._frames(FRAME_ROWS):
            yield self._chunk(frame)

    def whole(self) -> Chunk:
        """All rows, with the types that whole columns have."""
        return self._chunk(next(self._frames(None)))

    def _frames(self, n_rows: int | None) -> Iterator[pd.DataFrame]:
        if self.format.kind == "parquet":
            import pyarrow.dataset as ds

            whole = ds.dataset(self.path, format="parquet")
            if n_rows is None:
                yield whole.to_table(columns=self.columns).to_pandas()
                return
            for batch in whole.to_batches(columns=self.columns, batch_size=n_rows):
                if batch.num_rows:
                    yield batch.to_pandas()
            return
        import pandas as pd

        options: dict[str, Any] = {
            "sep": self.format.delimiter,
            "names": self.format.names,
            "header": 0 if self.format.header else None,
            "usecols": self.columns,
            "dtype": dict.fromkeys(self.text, "str"),
            "compression": self.format.compressed,
            "skipinitialspace": True,
            "low_memory": False,
        }
        if n_rows is None:
            yield pd.read_csv(self.path, **options)
            return
        with pd.read_csv(self.path, chunksize=n_rows, **options) as frames:
            yield from frames

    def _chunk(self, frame: pd.DataFrame) -> Chunk:
        y = weights = None
        if self.target is not None:
            known = frame[self.target].notna()
            if not known.all():
                n_missing = int((~known).sum())
                warn(f"{n_missing:,} rows without a target (empty, NA, null, ...) are left out.")
                frame = frame[known]
            y = _targets(frame[self.target])
        if self.weight is not None:
            weights = as_numbers(frame[[self.weight]]).to_numpy()[:, 0]
        return Chunk(frame[self.features], y, weights)


def transformed(steps: Any, X: pd.DataFrame) -> Any:
    """Rows of a table after the steps of a fitted pipeline; numbers may be text."""
    numbers = [one for kind, _, one in steps[0].transformers_ if kind == "numbers"]
    return steps.transform(X.assign(**as_numbers(X[numbers[0]])) if numbers else X)


def _targets(values: pd.Series) -> NDArray:
    """Numbers as they are, all else as text."""
    if values.dtype.kind in "iuf":
        return values.to_numpy()
    return values.astype(str).to_numpy(dtype=str)


def as_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns as numbers; an error names a column that has others, and the first of them."""
    import pandas as pd

    found = {}
    for name in frame.columns:
        values = pd.to_numeric(frame[name], errors="coerce").astype(np.float64)
        wrong = frame[name][values.isna() & frame[name].notna()]
        if len(wrong):
            raise CommandError(f"column {name!r}: {str(wrong.iloc[0])[:40]!r} is not a number.")
        found[name] = values
    return pd.DataFrame(found, index=frame.index)
