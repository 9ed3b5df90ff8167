"""How large blocks of kernel values and of copied rows are: decided here, for the whole package.

Two things limit a block. What a thread works on at a time should stay in its core's cache: these
sizes are constants. What is copied at once must leave memory for the data: scikit-learn's
``working_memory`` (``sklearn.set_config``) bounds it. Neither limit depends on the number of
threads or on free memory, because block boundaries decide how sums are rounded, and results
must not depend on either.
"""

from __future__ import annotations

from sklearn import get_config

#: Kernel values of a block of score updates, and rows of the kernel matrix used together in them.
UPDATE_VALUES, UPDATE_LINES = 1 << 19, 1024

#: Smallest and largest number of columns of such a block.
UPDATE_COLUMNS = (256, 2048)

#: Lines and columns of a compiled tile; and in score updates of rows with many features, whose
#: products take long enough to leave the core's cache.
TILE_LINES, TILE_COLUMNS = 256, 256
WIDE_TILE_LINES, WIDE_TILE_COLUMNS = 1024, 512

#: Multiplications that are worth compiled tiles, which take a second to compile once.
TILE_PRODUCTS = 1e8

#: Columns from which on score updates use compiled tiles, however few the lines.
MANY_COLUMNS = 2048

#: Dense rows with no more features: compiled tiles compute kernel values faster than these are read
#: from memory. (On one thread it was so up to some 200: those of covtype, repeated.)
CHEAP_FEATURES = 128

#: Lines of a working set's kernel block that a thread computes at a time.
SQUARE_LINES = 128

#: Columns of it, by compiled tiles.
SQUARE_COLUMNS = 32

#: Lines and columns of the blocks that an expansion is summed up from.
EXPANSION_LINES, EXPANSION_COLUMNS = 256, 512

#: Lines of a block of two classes whose map follows while their products are in the core's cache.
MAPPED_LINES = 32

#: Lines of a symmetric block that are computed together; the other half of it is mirrored.
SYMMETRIC_LINES = 512

#: Rows whose distances from another row are computed by one task.
DISTANCE_ROWS = 1 << 14

#: Rows whose distances in kernel space are computed together.
KERNEL_DISTANCE_ROWS = 4096

#: Rows of the square blocks that the diagonal of a callable kernel is taken from.
GIVEN_DIAGONAL_ROWS = 64

#: Bytes of rows that are copied at a time where the copy should stay in a core's cache.
_CACHED_BYTES = 1 << 22

#: Bytes of sums that a thread makes at a time where each row has very many, and the fewest rows.
#: (With half of them two threads took a third longer to predict 200 classes: they hand over the
#: interpreter's lock for every class. With twice as many it was a sixth less.)
_SUMMED_BYTES, _FEWEST_SUMMED = 1 << 24, 8

#: The fraction of ``working_memory`` that a single copy may take.
_COPIED_FRACTION = 1 / 16


def copied_bytes() -> int:
    """Largest copy of rows that is made at once: 64 MiB of scikit-learn's default of 1 GiB."""
    return int(get_config()["working_memory"] * 2**20 * _COPIED_FRACTION)


def copied_rows(bytes_per_row: int) -> int:
    """Rows that are copied at once.

    Examples
    --------
    >>> from aesvm.kernels.blocks import copied_rows
    >>> copied_rows(1 << 20)
    64
    """
    return max(1, copied_bytes() // max(1, bytes_per_row))


def cached_rows(bytes_per_row: int) -> int:
    """Rows that are copied at a time where the copy is used at once, from the core's cache."""
    return max(1, min(_CACHED_BYTES, copied_bytes()) // max(1, bytes_per_row))


def summed_rows(n_values: int) -> int:
    """Rows whose ``n_values`` sums a thread makes at a time.

    Examples
    --------
    >>> from aesvm.kernels.blocks import summed_rows
    >>> summed_rows(1 << 14)
    128
    """
    return max(_FEWEST_SUMMED, _SUMMED_BYTES // (8 * max(1, n_values)))
