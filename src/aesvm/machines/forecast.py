"""What an exact fit is expected to take, before the work begins: kernel values, and seconds.

Two small SVMs, the exact ones of 1/12 and of 1/48 of the rows, have fewer support vectors, updates
and free variables than the SVM of all rows. Each count is taken to grow as a power of the number of
rows, and the two SVMs give the power. Kernel values have three parts:

- Those of the first steps and the last ones. They depend on the number of rows alone.
- Those of all rows with the support vectors. Each is computed as often as in the larger small SVM.
- Where free support vectors are more than a working set holds, their values are computed again.
  How often grows as the updates for each support vector do.

    seconds = 1.3 x kernel values x seconds of one + updates x seconds of one

The time of a kernel value is measured, in a block like those of a solve. That of an update is fixed
(``_UPDATE``), as it was on one machine. (The seconds of the small SVMs are no guide: the larger one
took 1/5 to 1/150 of the fit.) docs/benchmarks.md has what was expected and what fits took.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.text import between
from aesvm.formulations.protocol import Formulation
from aesvm.kernels.crew import Crew, KeptRows
from aesvm.machines.fit import FitContext
from aesvm.machines.fit_memory import expected_memory
from aesvm.machines.pilots import Pilots, expected_support
from aesvm.machines.plan import TABLE, Exact
from aesvm.machines.problem import Machine
from aesvm.machines.sharing import SharedWork
from aesvm.runtime.progress import Silence
from aesvm.sets.derive import PreparedRows
from aesvm.solver.host import WORKING_SET

#: The larger of the two small SVMs has 1/12 of the rows of its machine, or ``_LEAST_ROWS`` if these
#: are at most a sixth; the smaller one has a quarter of that. (With fewer rows a solve holds all
#: kernel values, and computes each once. A solve that cannot hold them computes some again.)
_LARGER, _SMALLER, _LEAST_ROWS = 12, 4, 5000

#: Kernel values of the last steps of a solve: few variables are in play then, and all values among
#: them are held. The values of the first working set with all rows are counted apart.
_HELD = 4e6

#: The power that updates grow by is larger than between the small SVMs. It is larger by this times
#: the fraction of support vectors that are free and have no room in a working set. (On a9a at C=100
#: the power was 1.6 up to 5,000 rows, and 2 from there on; on heart2020 1.3 and 1.6. Where few are
#: free it fell.)
_FASTER = 0.7

#: The most machines (pairs of classes) that have small SVMs. What the others take is expected to be
#: in proportion to the squares of their rows. (For all 45 pairs of ten classes the small SVMs would
#: take up to six times as long.)
_MACHINES = 8

#: Seconds of an update of two variables. (Beside the kernel values it was 1.8 to 3.5 microseconds
#: on heart2020, covtype at C=16, a9a at C=100 and a regression of 40,000 rows.)
_UPDATE = 2e-6

#: Columns and lines of the block of kernel values that is timed. A solve of one machine has as many
#: columns at least (``_WORTH_ASKING``), and up to twice as many lines at a time.
_COLUMNS, _LINES = 20_000, 512

#: What a solve takes as a multiple of its kernel values' time in that block: it chooses working
#: sets, too, and its blocks differ. (The median of 24 fits of over a second on a busy machine.)
_REST = 1.3

#: What is said: from this many times the seconds that are expected, to that many. Both were chosen
#: on the fits of docs/benchmarks.md. Other fits may do worse.
_LEAST, _MOST = 1 / 1.5, 2.0

#: Small SVMs are trained where there are this many rows: shorter fits need no forecast.
_WORTH_ASKING = 20_000

#: What kernel values are timed by.
_clock = time.perf_counter


class Forecast(NamedTuple):
    """What the exact SVMs of all rows are expected to take."""

    n_values: float  #: kernel values
    n_updates: float
    n_free: float  #: free variables of a machine, the most
    seconds: float


def expect(context: FitContext, prepared: PreparedRows, plan: Exact) -> Exact:
    """Say what memory and time the plan is expected to take; the plan, with what is expected."""
    n_rows = len(prepared.rows)
    if n_rows < _WORTH_ASKING or not context.progress.says:
        return plan
    found = forecast(context, prepared, plan)
    n_free = found.n_free if context.data.n_machines == 1 else 0.0
    memory = expected_memory(context, prepared, n_free)
    seconds = between(_LEAST * found.seconds, _MOST * found.seconds)
    context.progress.say(f"memory: some {memory}; time: {seconds}")
    squared_rows = context.data.squared_sizes(prepared.rows)
    return replace(plan, values_share=found.n_values / squared_rows)


def forecast(context: FitContext, prepared: PreparedRows, plan: Exact) -> Forecast:
    """What the exact SVMs of all rows are expected to take; some stand for many of them."""
    data, formulation = context.data, context.formulation
    # their solutions are no start of this fit
    silent = replace(context, progress=Silence(), shared=SharedWork())
    pilots = Pilots(data, context.kernel, prepared, silent.trainer(plan), silent.progress)
    numbers = np.sort(np.random.default_rng(0).permutation(data.n_machines)[:_MACHINES])
    n_values = n_updates = n_free = squared_rows = 0.0
    for number, problem in zip(
        numbers.tolist(),
        data.problems(prepared.rows, prepared.weights, numbers),
        strict=True,
    ):
        n_rows = len(problem.rows)
        squared_rows += n_rows**2
        if n_rows <= _SMALLER or formulation.constant(problem.targets) is not None:
            continue
        shuffled = pilots.shuffled(problem)
        n_more = max(n_rows // _LARGER, min(_LEAST_ROWS, n_rows // 6), _SMALLER)
        parts = n_more // _SMALLER, n_more
        small = ((pilots.trained(number, shuffled, n), n) for n in parts)
        fewer, more = (_Counts.of(machine, n, formulation) for machine, n in small)
        one = _of_all(fewer, more, n_rows)
        n_values += one.n_values
        n_updates += one.n_updates
        n_free = max(n_free, one.n_free)
    all_machines = data.squared_sizes(prepared.rows) / max(squared_rows, 1.0)
    n_values, n_updates = all_machines * n_values, all_machines * n_updates
    of_value = _REST * _seconds_of_value(context, prepared.rows)
    seconds = n_values * of_value + n_updates * _UPDATE
    return Forecast(n_values, n_updates, n_free, seconds)


class _Counts(NamedTuple):
    """Of the SVM of some rows."""

    n_rows: int
    n_support: float
    n_free: float
    n_updates: float
    n_values: float

    @classmethod
    def of(cls, machine: Machine, n_rows: int, formulation: Formulation) -> _Counts:
        solution = machine.solution
        if solution is None:  # rows of one class
            return cls(n_rows, 0.0, 0.0, 0.0, 0.0)
        bounds = formulation.variables(machine.set.targets, machine.set.bounds).bounds
        n_free = np.count_nonzero((solution.alpha > 0.0) & (solution.alpha < bounds))
        counts = machine.n_support, int(n_free), solution.n_updates, solution.n_evaluations
        return cls(n_rows, *map(float, counts))


def _of_all(fewer: _Counts, more: _Counts, n_rows: int) -> _Counts:
    """The counts of the SVM of ``n_rows`` rows, by those of two small ones.

    Examples
    --------
    >>> from aesvm.machines.forecast import _Counts, _of_all
    >>> fewer = _Counts(5000, n_support=500, n_free=0, n_updates=1e4, n_values=2e7)
    >>> more = _Counts(20_000, n_support=2000, n_free=0, n_updates=4e4, n_values=1.4e8)
    >>> found = _of_all(fewer, more, 80_000)  # the same fraction are support vectors
    >>> round(found.n_support), round(found.n_updates)
    (8000, 160000)
    """
    n_support = expected_support(fewer[:2], more[:2], n_rows)
    n_support = min(max(n_support, 1.0), n_rows)
    times, support = n_rows / more.n_rows, max(more.n_support, 1.0)
    power = min(_power(fewer.n_free, more.n_free), 1.0)
    n_free = min(more.n_free * times**power, n_support)
    crowded = max(n_free - WORKING_SET, 0.0) / n_support
    power = _power(fewer.n_updates, more.n_updates) + _FASTER * crowded
    n_updates = more.n_updates * times**power
    recomputes = more.n_values > 0.5 * more.n_rows * (more.n_rows + 1)  # not all were held
    each = (more.n_values - _first(more.n_rows)) / (more.n_rows * support)
    each = max(each, 1.0) if recomputes else TABLE.exact_values
    # free variables that a working set has no room for are computed anew whenever they move
    moves = max(n_updates / n_support * support / max(more.n_updates, 1.0), 1.0)
    each *= 1.0 - crowded + crowded * moves
    n_values = _first(n_rows) + each * n_rows * n_support
    return _Counts(n_rows, n_support, n_free, n_updates, n_values)


def _first(n_rows: float) -> float:
    """Kernel values of a solve beside those of all rows with support vectors."""
    return min(WORKING_SET * n_rows + _HELD, 0.5 * n_rows**2)


def _power(fewer: float, more: float) -> float:
    """The power of the number of rows that a count grows by, from a small SVM to the larger."""
    return max(log(max(more, 1.0) / max(fewer, 1.0), _SMALLER), 0.0)


def _seconds_of_value(context: FitContext, rows: NDArray[np.intp]) -> float:
    """What a kernel value takes in a large block, on all threads; timed twice, the better."""
    kernel = context.kernel.matrix(np.dtype(np.float32), context.kernel.sum_tol / 10)
    rows = rows[:: -(-len(rows) // _COLUMNS)]
    columns, crew = kernel.columns(rows), Crew(context.run)
    first = np.arange(min(_LINES, len(rows)))
    coefs, scores = np.full(len(first), 1e-3), np.zeros(len(rows))
    seconds = []
    for _ in range(2):
        started = _clock()
        lines = columns.own_lines(first, rows[first])
        columns.accumulate(lines, coefs, scores, KeptRows.none(columns.dtype), crew)
        seconds.append(_clock() - started)
    return min(seconds) / (len(first) * len(rows))
