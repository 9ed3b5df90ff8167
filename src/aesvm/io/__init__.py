"""Files: readers of data larger than memory, and models that are written and read.

A reader is a re-iterable of chunks ``(X, y, weights)``. The estimators take any iterable of such
triples that can be iterated over again; it need not come from this package.
"""

from aesvm.io.base import BadLineError, Chunk, ChunkIterator, ChunkReader
from aesvm.io.csv import CSVReader
from aesvm.io.libsvm import LibsvmReader
from aesvm.io.libsvm_model import load_libsvm_model, save_libsvm_model
from aesvm.io.npy import NpyReader
from aesvm.io.parquet import ParquetReader

__all__ = [
    "BadLineError",
    "CSVReader",
    "Chunk",
    "ChunkIterator",
    "ChunkReader",
    "LibsvmReader",
    "NpyReader",
    "ParquetReader",
    "load_libsvm_model",
    "save_libsvm_model",
]
