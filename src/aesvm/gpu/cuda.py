"""Operations compiled for a GPU, by CuPy.

Those of ``tiles.cu``, ``rows.cu``, ``steps.cu``, ``subsets.cu`` and ``pairs.cu``;
``hull``, ``linear_algebra`` and ``shapley`` compile those of other files, by ``compiled``.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aesvm.gpu.forms import Form


class Summary(IntEnum):
    """The places of what the host reads in every iteration; as in ``blocks.cu``."""

    VIOLATION = 0
    LOWEST = 1  #: of each of two groups
    HIGHEST = 3
    N_CHOSEN = 5
    N_UPDATES = 6  #: so far
    MOVED = 7  #: all that coefficients have moved so far
    N_MOVED = 8  #: variables that moved so far, each in every iteration
    FELL = 9  #: what pair updates have lowered the objective by so far
    N_STAY = 10
    N_FREE = 11  #: variables strictly between their bounds


class DeviceVariables(NamedTuple):
    """Variables in play, group by group, in signed coefficients; arrays of the device."""

    scores: Any  #: float64, of rows in play
    at: Any  #: int32: the point in play of each variable
    coefs: Any  #: float64, of variables
    linear: Any
    lower: Any
    upper: Any
    groups: Any  #: int8, of variables

    @property
    def n(self) -> int:
        return len(self.coefs)


class DeviceDuals(NamedTuple):
    """Duals of two classes each; arrays of the device."""

    places: Any  #: int32, (n_duals, 2): where the classes begin, among the slots of all classes
    sizes: Any  #: int32, (n_duals, 2): rows of the classes
    starts: Any  #: int32, of duals: where their variables begin among all
    held: Any  #: float64: the sum of the magnitudes in a class; zero where it is not held
    aims: Any  #: the violation to come to
    most: Any  #: int64: updates at most
    bounds: Any  #: float64, of all variables, as are the last two
    coefs: Any
    slopes: Any


class Work(NamedTuple):
    """Memory of the steps."""

    chosen: Any  #: int32: the working set
    n_chosen: Any  #: int32, of one
    numbers: Any  #: int32: its rows, among the rows in play
    block: Any  #: its kernel values
    moved_rows: Any  #: int32: rows of variables that moved, in the same way
    moves: Any  #: float64, (1, working set): what they moved by
    n_moved: Any  #: int32, of one
    marks: Any  #: int32, of variables: those that stay in the next working set have a mark
    rest: Any  #: int8, of variables: for how many iterations each has rested at a bound
    found: Any  #: float64: candidates, as the device sees them
    edges: Any  #: float64: of chunks of variables
    state: Any  #: float64: slopes of a working set, how far its variables are from bounds, and more
    seen: Any  #: float32: slopes of a working set
    ways: Any  #: uint8: what each of its variables can do
    corner: Any  #: curvatures along the pairs of a subset
    movers: Any  #: int32: the variables that moved in a subset
    arrivals: Any  #: uint32: how often blocks came to where they wait for each other
    n_movers: Any  #: int32: how many they are; -1 where the working set is solved
    summary: Any  #: float64

    @classmethod
    def of(cls, n: int, size: int, subset: int, dtype: np.dtype, xp: Any) -> Work:
        """Memory for n variables, working sets of ``size`` and subsets of these."""

        def whole(count: int) -> Any:
            return xp.zeros(count, dtype=np.int32)

        return cls(
            chosen=whole(size),
            n_chosen=whole(1),
            numbers=whole(size),
            block=xp.empty((min(n, size), size), dtype=dtype),
            moved_rows=whole(size),
            moves=xp.zeros((1, size)),
            n_moved=whole(1),
            marks=whole(n),
            rest=xp.zeros(n, dtype=np.int8),
            found=xp.zeros(4 * size),
            edges=xp.zeros(2 * size),
            state=xp.zeros(6 * size),
            seen=xp.zeros(size, dtype=np.float32),
            ways=xp.zeros(size, dtype=np.uint8),
            corner=xp.empty(subset**2, dtype=dtype),
            movers=whole(subset),
            arrivals=xp.zeros(1, dtype=np.uint32),
            n_movers=whole(1),
            summary=xp.zeros(len(Summary) + 2),
        )


#: Variables that are solved for together.
WORKING_SET = 8192

#: Threads of a block that solves for them, so few that each has the registers that updates of pairs
#: need; and the most such blocks, a power of two: an H200 has 132 places for such blocks. All but
#: the first then have 65 columns of a working set's kernel matrix.
_SOLVERS, _MOST_BLOCKS = 384, 128

#: Bytes of a block's shared memory: of each variable of a subset, its kernel values aside
#: (``Subset`` in ``subsets.cu``); and of what is ``__shared__`` there, 8.2 KiB.
_OF_VARIABLE, _OTHER_SHARED = 68, 12 * 1024

#: Variables of a subset, at most; their positions are in the last eight bits of what is compared.
#: (An H200 has room for 224: that took as long on heart2020, and a tenth longer on covtype with a
#: large gamma.)
_LARGEST_SUBSET = 160

#: Slots of a dual of two classes, at most, and how many of them a thread has. So many hold
#: ``small_pairs.MOST_ROWS``, and empty slots of both classes, in whole warps.
MOST_SLOTS, SLOTS_PER_THREAD = 3328, 8

#: Compute capability that the kernels need: warp-wide minima.
_LEAST_CAPABILITY = 80

#: Threads of a block that looks at a chunk of variables, or at variables one by one.
_THREADS = 128

#: Blocks that fill a large GPU several times; of tiles with fewer columns, lines are split.
_ENOUGH_BLOCKS = 1024

#: Lines of a tile of kernel values, as in ``tiles.cu``.
_LINES = 64

#: Outputs that are summed up together.
_MOST_OUTPUTS = 32

_FOLDER = Path(__file__).parent


def check(number: int) -> None:
    """Refuse a GPU that is too old."""
    import cupy

    capability = cupy.cuda.Device(number).compute_capability
    if int(capability) < _LEAST_CAPABILITY:
        raise RuntimeError(
            f'device="cuda:{number}" has compute capability {int(capability) / 10}, and '
            f'{_LEAST_CAPABILITY / 10} is needed (A100, RTX 30 and later): use device="cpu".'
        )


@cache
def compiled(name: str, *definitions: str) -> Any:
    """The kernels of a file of this folder."""
    import cupy

    options = ("-std=c++17", *(f"-D{one}" for one in definitions))
    return cupy.RawModule(code=source(name), options=options)


def source(name: str) -> str:
    """A file of this folder, with those that it includes: CuPy knows it again by its text alone."""
    code = (_FOLDER / name).read_text()
    return re.sub(r'#include "(\w+\.cu)"', lambda found: source(found.group(1)), code)


def real_name(dtype: np.dtype) -> str:
    """What C++ calls a precision."""
    return "float" if dtype == np.float32 else "double"


def _tiles(form: Form) -> Any:
    return compiled(
        "tiles.cu",
        f"REAL={real_name(form.dtype)}",
        f"SINGLE={int(form.dtype == np.float32)}",
        f"MAP={form.map}",
        f"DIFFERENCES={int(form.differences)}",
    )


def _steps(dtype: np.dtype) -> Any:
    return compiled("steps.cu", f"REAL={real_name(dtype)}", f"WORKING_SET={WORKING_SET}")


def _subsets(dtype: np.dtype) -> Any:
    sizes = f"WORKING_SET={WORKING_SET}", f"THREADS={_SOLVERS}", f"OF_VARIABLE={_OF_VARIABLE}"
    per_lane = f"PER_LANE={subset_size(dtype) // 32}"
    return compiled("subsets.cu", f"REAL={real_name(dtype)}", per_lane, *sizes)


def subset_size(dtype: np.dtype) -> int:
    """Variables of a subset: as many as have room in a block's memory with their kernel values."""
    room = _attribute("MaxSharedMemoryPerBlockOptin") - _OTHER_SHARED
    sizes = range(32, min(WORKING_SET, _LARGEST_SUBSET) + 1, 32)
    return max(size for size in sizes if _shared_bytes(size, dtype) <= room)


def _shared_bytes(size: int, dtype: np.dtype) -> int:
    return size * (size * dtype.itemsize + _OF_VARIABLE)


def _attribute(name: str) -> int:
    """A property of the current device."""
    import cupy

    return int(cupy.cuda.Device().attributes[name])


@cache
def _function(module: Any, name: str, device: int) -> Any:
    return module.get_function(name)


def _kernel(module: Any, name: str, values: Any) -> Any:
    """A kernel of a module, for the device that has the values: looked up once.

    (To look it up takes longer than to launch it.)
    """
    return _function(module, name, getattr(getattr(values, "device", None), "id", 0))


def _columns_of_tile(form: Form) -> int:
    """As in ``tiles.cu``."""
    return 128 if form.dtype == np.float32 else 64


#: A row is at most two to this power of its units long. Products of the whole numbers of two rows
#: are then whole numbers below 2^24.
_UNITS = 12

#: A norm is a multiple of this, and a rest: two such multiples below 2^11 add up without rounding.
_NORM_STEP = 2.0**-12

#: Norms are no larger: kernel values are zero then, and nothing overflows.
_LARGEST_NORM = 1e38


def prepared(form: Form, rows: Any, xp: Any) -> tuple[Any, Any]:
    """Rows and their sizes as ``tiles.cu`` has them; the rows are padded to whole packs.

    Tensor cores multiply numbers of eleven binary digits (float16). In single precision a feature
    is a whole number of units and a rest, both of them such numbers: together right to 2^-23 of the
    row's length, at worst. The unit is the power of two that makes the row at most 2^12 units long.
    Of four features the whole numbers are stored, then the rests. Norms are those of rows as they
    are stored: of near rows, what both are off by cancels.
    """
    exact = rows.astype(np.float64, copy=False)
    squares = xp.einsum("ij,ij->i", exact, exact)
    if form.dtype == np.float64:
        return rows, form.norm_scale * squares
    exponents = xp.maximum(xp.frexp(xp.sqrt(squares))[1], -100) - _UNITS
    exact = xp.ldexp(exact, -exponents[:, None])
    high = xp.rint(exact).astype(np.float16)
    low = (exact - high).astype(np.float16)
    n, width = rows.shape
    packs = xp.stack([part.reshape(n, width // 4, 4) for part in (high, low)], axis=2)
    exact = high + low.astype(np.float64)
    squares = xp.ldexp(xp.einsum("ij,ij->i", exact, exact), 2 * exponents)
    norms = xp.minimum(form.norm_scale * squares, _LARGEST_NORM)
    steps = (xp.rint(norms / _NORM_STEP) * _NORM_STEP).astype(np.float32)
    units = xp.ldexp(xp.ones(n), exponents)
    sizes = xp.stack([steps, norms - steps, units], axis=1).astype(np.float32)
    return packs.reshape(n, 2 * width), sizes


def _map(form: Form) -> tuple:
    real = form.dtype.type
    return real(form.scale), real(form.shift), np.int32(form.degree)


def _pointer(values: Any) -> Any:
    return np.uintp(0) if values is None else values


def sum_lines(
    form: Form, columns: Any, lines: Any, numbers: Any, coefs: Any, count: Any, sums: Any
) -> None:
    """``sums[o, k] += sum_m coefs[o, m] K(line m, column k)``.

    Parameters
    ----------
    form : Form
    columns, lines : DenseVectors
    numbers : array of int32, or None
        Which rows of ``lines`` are lines; None: all, in order.
    coefs : array of shape (n_outputs, n_lines)
    count : array of int32 of shape (1,), or None
        How many of the lines are there; None: all.
    sums : array of shape (n_outputs, n_columns)
        Changed in place.
    """
    n_outputs, n_lines = coefs.shape
    n_columns, tile = len(columns), _columns_of_tile(form)
    if not n_lines or not n_columns:
        return
    across, down = -(-n_columns // tile), -(-n_lines // _LINES)
    splits = min(down, max(1, _ENOUGH_BLOCKS // across))
    tiles_of_split = -(-down // splits)
    splits = -(-down // tiles_of_split)
    module = _tiles(form)
    for first in range(0, n_outputs, _MOST_OUTPUTS):
        own = coefs[first : first + _MOST_OUTPUTS]
        n = len(own)
        kernel = _kernel(module, "sum_lines" if n == 1 else "sum_lines_to_several", columns.rows)
        shared = (16 + (n if n > 1 else 0)) * tile * 8
        kernel.max_dynamic_shared_size_bytes = (16 + _MOST_OUTPUTS) * tile * 8
        parts = columns.device.xp.empty((splits, n, n_columns))
        kernel(
            (across, splits),
            (256,),
            (
                columns.rows,
                columns.norms,
                np.int32(n_columns),
                lines.rows,
                lines.norms,
                _pointer(numbers),
                own,
                np.int32(n_lines),
                _pointer(count),
                np.int32(n),
                np.int32(tiles_of_split),
                np.int32(columns.n_products),
                *_map(form),
                parts,
            ),
            shared_mem=shared,
        )
        size = n * n_columns
        target = sums[first : first + n]
        _kernel(module, "add_parts", parts)(
            (-(-size // 256),), (256,), (parts, np.int32(splits), np.int64(size), target)
        )


def write_values(
    form: Form,
    columns: Any,
    column_numbers: Any,
    lines: Any,
    line_numbers: Any,
    count: Any,
    out: Any,
) -> None:
    """``out[m, k] = K(line m, column k)``.

    Parameters
    ----------
    form : Form
    columns, lines : DenseVectors
    column_numbers, line_numbers : array of int32, or None
        Which of their rows are columns, and lines; None: all, in order.
    count : array of int32 of shape (1,), or None
        How many lines, and columns, are there; None: as many as ``out`` has.
    out : array
    """
    n_lines, n_columns = out.shape
    if not out.size:
        return
    most_down = 65535 * _LINES  # of a grid
    for top in range(0, n_lines, most_down):
        own = out[top : top + most_down]
        numbers = line_numbers if line_numbers is None else line_numbers[top:]
        rows, norms = lines.rows, lines.norms
        if line_numbers is None:
            rows, norms = rows[top:], norms[top:]
        _kernel(_tiles(form), "write_values", own)(
            (-(-n_columns // _columns_of_tile(form)), -(-len(own) // _LINES)),
            (256,),
            (
                columns.rows,
                columns.norms,
                _pointer(column_numbers),
                np.int32(n_columns),
                rows,
                norms,
                _pointer(numbers),
                np.int32(len(own)),
                _pointer(count),
                np.int32(columns.n_products),
                *_map(form),
                np.int64(out.strides[0] // out.itemsize),
                own,
            ),
        )


def dense_columns(rows: Any, numbers: Any) -> Any:
    """Some rows of a CSR matrix, made dense: a column for each.

    Parameters
    ----------
    rows : CSR matrix
        No entry of which is there twice.
    numbers : array of int32
    """
    out = np.zeros_like(rows.data, shape=(rows.shape[1], len(numbers)))
    if out.size:
        kernel = compiled("rows.cu", f"REAL={real_name(rows.dtype)}").get_function("write_dense")
        given = rows.data, rows.indices, rows.indptr, numbers, np.int32(len(numbers)), out
        kernel((len(numbers),), (32,), given)
    return out


def choose(
    work: Work, variables: DeviceVariables, spans: list[slice], n_before: int, mark: int
) -> None:
    """The next working set, and the edges of optimality.

    Half of the last set stays: its first variables, of ``n_before``, which have the mark. New ones
    are those that violate optimality most in each of many chunks of a group, one that can rise and
    one that can fall; variables are in random order, so that chunks are samples. (On covtype that
    takes some 7 % more rows than the worst violators of all would, and no sort.)
    """
    steps = _steps(work.block.dtype)
    n_groups = len(spans)
    n_stay = min(n_before, WORKING_SET // 2)
    room = (WORKING_SET - n_stay) // (2 * n_groups)
    counts = []
    for group, span in enumerate(spans):
        size = span.stop - span.start
        chunk = max(1, -(-size // room))
        counts.append(-(-size // chunk))
        if not size:
            continue
        _kernel(steps, "find_candidates", work.found)(
            (counts[-1],),
            (_THREADS,),
            (
                *_of_variables(variables),
                work.marks,
                np.int32(mark),
                np.int32(span.start),
                np.int32(span.stop),
                np.int32(chunk),
                work.found[4 * group * room :],
                work.edges[2 * group * room :],
            ),
        )
    _kernel(steps, "make_working_set", work.found)(
        (1,),
        (min(WORKING_SET // 2, 1024),),
        (
            work.found,
            work.edges,
            np.int32(counts[0]),
            np.int32(counts[-1]),
            np.int32(room),
            np.int32(n_groups),
            work.chosen,
            work.n_chosen,
            work.marks,
            np.int32(mark),
            work.summary,
        ),
    )


def _of_variables(variables: DeviceVariables) -> tuple:
    scores, at, coefs, linear, lower, upper, _ = variables
    return scores, at, coefs, linear, lower, upper


def find_rows(work: Work, variables: DeviceVariables) -> None:
    """Rows of the variables chosen, by number among the rows in play."""
    _kernel(_steps(work.block.dtype), "find_rows", work.block)(
        (-(-WORKING_SET // _THREADS),),
        (_THREADS,),
        (work.chosen, work.n_chosen, variables.at, work.numbers),
    )


def solve_working_set(
    work: Work,
    variables: DeviceVariables,
    n_groups: int,
    tol: float,
    inner: float,
    limit: int,
) -> None:
    """The dual in the variables chosen, solved by updates of pairs in subsets of them.

    Parameters
    ----------
    work : Work
    variables : DeviceVariables
    n_groups : int
    tol, inner : float
        It ends when the violation is at most ``tol``, or ``inner`` times the first one.
    limit : int
        Most updates.
    """
    dtype = work.block.dtype
    kernel = _kernel(_subsets(dtype), "solve_working_set", work.block)
    shared = _shared_bytes(subset_size(dtype), dtype)
    kernel.max_dynamic_shared_size_bytes = shared
    n_blocks = min(_MOST_BLOCKS, _attribute("MultiProcessorCount"))
    arguments = (
        work.block,
        work.chosen,
        work.n_chosen,
        work.numbers,
        variables.scores,
        variables.at,
        variables.coefs,
        variables.linear,
        variables.lower,
        variables.upper,
        variables.groups,
        np.int32(n_groups),
        np.float64(tol),
        np.float64(inner),
        np.int64(limit),
        work.state,
        work.seen,
        work.ways,
        work.corner,
        work.movers,
        work.arrivals,
        work.n_movers,
        work.moved_rows,
        work.moves,
        work.n_moved,
        work.summary,
    )
    # they wait for each other: so all are launched at once, a power of two of them, or none
    n_threads = _SOLVERS << (n_blocks.bit_length() - 1)
    kernel.kernel.linear_launch(n_threads, arguments, shared, _SOLVERS, None, True)


def count_rest(work: Work, variables: DeviceVariables, most: int) -> None:
    """How long variables have rested at bounds; how many for less than ``most``, or at none."""
    _kernel(_steps(work.block.dtype), "count_rest", work.block)(
        (-(-variables.n // _THREADS),),
        (_THREADS,),
        (
            *_of_variables(variables),
            variables.groups,
            np.int32(variables.n),
            np.int32(most),
            work.rest,
            work.summary,
        ),
    )


def solve_pairs(values: Any, duals: DeviceDuals, n_slots: int, linear: float, n_groups: int) -> Any:
    """Duals of two classes each, improved by updates of pairs: how many updates each took.

    Parameters
    ----------
    values : array
        Kernel values of all slots with each other, float64.
    duals : DeviceDuals
        Coefficients and slopes are brought up to date.
    n_slots : int
        Slots of both classes of a dual, at most.
    linear : float
        The p of ``solver.small``.
    n_groups : int
        Two where the sum of each class is held.
    """
    sizes = f"MOST_SLOTS={MOST_SLOTS}", f"PER_THREAD={SLOTS_PER_THREAD}"
    module = compiled("pairs.cu", "REAL=double", *sizes)
    threads = -(-n_slots // (32 * SLOTS_PER_THREAD)) * 32
    updates = duals.most.copy()
    _kernel(module, "solve_pairs", values)(
        (len(duals.sizes),),
        (threads,),
        (
            values,
            np.int64(len(values)),
            np.float64(linear),
            np.int32(n_groups),
            *duals,
            updates,
        ),
    )
    return updates


def solve_definite(matrix: Any, right: Any) -> Any:
    """The solutions of a positive definite system; numpy's LinAlgError where it is not definite."""
    import cupyx
    from cupyx import lapack

    with cupyx.errstate(linalg="raise"):
        return lapack.posv(matrix, right)
