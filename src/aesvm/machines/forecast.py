"""What an exact fit is expected to take, before the work begins: kernel values, and seconds.

Two small SVMs, the exact ones of 1/12 and of 1/48 of the rows, have fewer support vectors, updates
and free variables than the SVM of all rows. Each count is taken to grow as a power of the number of
rows, and the two SVMs tell the power (of free variables, half of it). Kernel values are rows times
support vectors, times what the larger of the two computed for each of these:

    seconds = kernel values x seconds of one + updates x seconds of one

The time of a kernel value is measured, in a block like those of a solve. That of an update is fixed
(``_UPDATE``), as it was on one machine. (The seconds of the small SVMs do not tell: the larger one
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
from aesvm.machines.pilots import Pilots
from aesvm.machines.plan import TABLE, Exact
from aesvm.machines.problem import Machine
from aesvm.machines.sharing import SharedWork
from aesvm.runtime.progress import Silence
from aesvm.sets.derive import PreparedRows

#: The larger of the two small SVMs has 1/12 of the rows of its machine, the smaller one a quarter
#: of these. Both took 0.6 to 3.5 % of fits over five seconds, and up to a fifth of shorter ones.
_LARGER, _SMALLER = 12, 4

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

#: What is said: from this many times the seconds that are expected, to that many. Both were chosen
#: on the fits of docs/benchmarks.md. (Of 24 of these that took over a second, 18 took as long as
#: that, and of ten that took over five seconds nine. Other fits may do worse.)
_LEAST, _MOST = 1 / 1.5, 2.5

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
        if formulation.constant(problem.targets) is not None:
            continue
        shuffled = pilots.shuffled(problem)
        parts = [max(n_rows // part, 2) for part in (_LARGER * _SMALLER, _LARGER)]
        fewer, more = (pilots.trained(number, shuffled, part) for part in parts)
        times = n_rows / parts[1]
        n_support = min(_grown(fewer.n_support, more.n_support, times), n_rows)
        each = more.n_evaluations / (parts[1] * max(more.n_support, 1))
        n_values += max(each, TABLE.least_values) * n_rows * n_support
        n_updates += _grown(_n_updates(fewer), _n_updates(more), times)
        free = _n_free(formulation, fewer), _n_free(formulation, more)
        n_free = max(n_free, _grown(*free, times**TABLE.falls_on))
    all_machines = data.squared_sizes(prepared.rows) / max(squared_rows, 1.0)
    n_values, n_updates = all_machines * n_values, all_machines * n_updates
    seconds = n_values * _seconds_of_value(context, prepared.rows) + n_updates * _UPDATE
    return Forecast(n_values, n_updates, n_free, seconds)


def _n_updates(machine: Machine) -> int:
    return 0 if machine.solution is None else machine.solution.n_updates


def _n_free(formulation: Formulation, machine: Machine) -> int:
    if machine.solution is None:
        return 0
    bounds = formulation.variables(machine.set.targets, machine.set.bounds).bounds
    alpha = machine.solution.alpha
    return int(np.count_nonzero((alpha > 0.0) & (alpha < bounds)))


def _grown(fewer: int, more: int, times: float) -> float:
    """A count of ``times`` the rows, by those of two small SVMs.

    Examples
    --------
    >>> from aesvm.machines.forecast import _grown
    >>> round(_grown(100, 200, times=16.0))  # twice as many of four times the rows
    800
    """
    growth = log(max(more, 1) / max(fewer, 1), _SMALLER)
    return max(more, 1) * times ** max(growth, 0.0)


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
