"""The memory that an exact fit takes: printed, or refused, before the work begins.

Besides the given rows there are

    copies of the rows in single precision: of all, and of a machine's in the order of its solve
    arrays of variables and rows
    kernel values in the cache, where they are kept: where they cost more than to be read again, or
    where many variables are free
    matrices of the free variables
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from aesvm.machines.fit import FitContext
from aesvm.runtime.memory import free_memory, in_bytes
from aesvm.sets.derive import PreparedRows
from aesvm.solver.free_variables import MOST_FREE
from aesvm.solver.host import WORKING_SET
from aesvm.solver.row_cache import LEAST_BYTES, usual_bytes

#: Bytes of arrays for each row of a solve, with the work before and after it. (Between 580 and 660
#: on ijcnn1 and covtype.)
_OF_ROW = 600.0

#: Matrices of free variables, in double precision, of a Newton step.
_MATRICES = 3

#: Fits are refused that are expected to take this many times the memory that is free.
_SURELY = 1.5

#: Bytes that every machine has: a fit that takes fewer does not ask it.
_LITTLE = 1e6


def check_memory(context: FitContext, prepared: PreparedRows) -> None:
    """Refuse an exact fit for which there is surely too little memory."""
    least, cache = _memory(context, prepared)
    if least + cache <= _LITTLE:
        return
    free = free_memory()
    if least > _SURELY * free:
        raise MemoryError(
            f"The exact SVM of {len(prepared.rows):,} rows needs about {in_bytes(least)} "
            f"besides them, and {in_bytes(free)} are free: use fewer rows, or fit_stream."
        )
    if cache > free and _keeps_values(context, prepared):
        given = context.options.cache_bytes
        size = "'auto'" if given is None else f"{given / 1e6:g}"
        raise MemoryError(
            f"cache_size={size} takes {in_bytes(cache)} for kernel values, and "
            f"{in_bytes(free)} are free: lower cache_size."
        )


def expected_memory(context: FitContext, prepared: PreparedRows, n_free: float) -> str:
    """The memory that exact SVMs are expected to take, in words.

    Whether values are kept may depend on how many variables are free: ``n_free`` are expected.
    """
    least, cache = _memory(context, prepared)
    free = 0.0
    if not _keeps_values(context, prepared):
        cache *= n_free > WORKING_SET
        free = _MATRICES * 8.0 * n_free**2 * (n_free <= MOST_FREE)
    return f"{in_bytes(least + cache + free)} beside the rows"


def _keeps_values(context: FitContext, prepared: PreparedRows) -> bool:
    kernel = context.kernel
    return kernel.matrix(np.dtype(np.float32), kernel.sum_tol / 10).keeps(prepared.rows)


def _memory(context: FitContext, prepared: PreparedRows) -> tuple[float, float]:
    """Bytes beside the rows that exact SVMs take in any case, and of a full cache."""
    X, groups = context.kernel.X, context.data.groups[prepared.rows]
    n_largest = float(np.sort(np.bincount(groups))[-2:].sum())
    n_rows, single = len(prepared.rows), np.dtype(np.float32).itemsize
    # of sparse rows values, and the numbers of their columns
    of_row = 2.0 * single * X.nnz / X.shape[0] if sp.issparse(X) else float(single * X.shape[1])
    of_row *= context.kernel.spec.kernel != "precomputed"
    copies = of_row * (n_rows + n_largest)
    most, every = context.options.cache_bytes, single * n_largest**2
    if most is None:
        is_small = context.data.n_machines > 1 or every <= LEAST_BYTES
        keeps = is_small or _keeps_values(context, prepared)
        most = usual_bytes(int(n_largest), keeps)
    return copies + _OF_ROW * n_largest, min(float(most), every)
