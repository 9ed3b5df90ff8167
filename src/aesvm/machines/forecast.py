"""What a fit would take, foreseen: in counts, so that "auto" does the same on every machine.

The unit is the kernel value. The exact SVM takes twice rows times support vectors. Support vectors
are foreseen from the SVMs of two nested samples: of more rows a smaller share are support vectors,
and the two tell how fast that falls.

Rounds take, where a first set keeps a share f of the rows,

derive  the first set, of all rows, and a set of all rows of each machine. Reducing a subset of rows
        with 54 features is worth ``1 + 8 f`` times its kernel values: with fewer features these
        take less time, the rest of it does not;
first   a solve for that share of the rows, with that share of the support vectors, and a look at
        all rows with these;
round   a solve for the rows in the band, for those that lose, represented at ``hull_tol``, and for
        the others, represented as coarsely as in the first set.

The band is not known before there is a solution. It had 40 % of the rows, or somewhat more,
wherever we looked: an SVM has scores about 1 and -1 at many rows, where the hinge has its kinks.
Nor is the share that is kept at ``hull_tol`` known; it was about three times that of a set that is
ten times as coarse. That is enough to tell, from the few subsets that are reduced first, whether
rounds pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log2
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.formulations.protocol import Formulation
from aesvm.machines import rounds
from aesvm.machines.problem import Problem
from aesvm.machines.rows import Rows
from aesvm.machines.training_kernel import TrainingKernel
from aesvm.sets.derive import GIVE_UP_SHARE

#: Rows of the larger sample, and how well its SVM is solved.
_SAMPLE, _SAMPLE_TOL = 4096, 0.1

#: Machines that are trained on it: of more, these stand for all.
_MOST_MACHINES = 45

#: How much of the fall in the share of support vectors, from one sample to the next, goes on with
#: each doubling of the rows. (With all of it, 20 features and a tenth of noise had 0.8 times as
#: many as there were.)
_FALLS_ON = 0.5

#: Kernel values that a solve computes for each row and support vector; and those that reducing a
#: subset is worth, for each that it has, by the share that it keeps.
_EXACT, _REDUCE, _REDUCE_KEPT = 2.0, 1.0, 8.0

#: The features that this is so for; and those whose products take as long as the exponential and
#: the sums of a kernel value.
_FEATURES, _OTHER_WORK = 54, 20

#: The share of the rows in the band of the first round, and how many times as many rows are kept at
#: ``hull_tol`` as in the first set.
_BAND, _FINER_KEEPS = 0.4, 3.0


class Forecast(NamedTuple):
    """What the exact SVMs of all rows are expected to take."""

    n_rows: float  #: of all machines, added up
    n_support: float  #: support vectors of one machine, the mean over rows of all machines
    n_distinct: float  #: rows, each of them once
    n_features: float = _FEATURES  #: other than zero, of a row

    @property
    def effort(self) -> float:
        """Rows times support vectors, of all machines."""
        return self.n_rows * self.n_support

    def share_of_rounds(self, kept: float, n_machines: int, subset_size: int) -> float:
        """What rounds would take, as a share of the exact SVMs, where a first set keeps some.

        Examples
        --------
        >>> from aesvm.machines.forecast import Forecast
        >>> noisy = Forecast(n_rows=1e5, n_support=4e4, n_distinct=1e5)
        >>> [round(noisy.share_of_rounds(kept, 1, 1000), 2) for kept in (0.05, 0.2, 0.5)]
        [0.29, 0.71, 1.5]
        """
        finer = min(1.0, _FINER_KEEPS * kept)
        share = min(1.0, self.n_support * n_machines / self.n_rows)
        solved = _BAND + (1.0 - _BAND) * (share * finer + (1.0 - share) * kept)
        supporting = _BAND + (1.0 - _BAND) * finer
        by_kept = _REDUCE_KEPT * (_FEATURES + _OTHER_WORK) / (self.n_features + _OTHER_WORK)
        derive = (_REDUCE + by_kept * kept) * self.n_distinct / self.n_rows
        derive += _REDUCE + by_kept * finer
        values = derive * subset_size / max(self.n_support, 1.0) + kept
        return kept**2 + solved * supporting + values / _EXACT

    def most_kept(self, n_machines: int, subset_size: int) -> float:
        """The share of the rows that a first set may keep where rounds are to pay; 0: none."""
        shares = np.linspace(0.0, GIVE_UP_SHARE, 91)
        taken = (self.share_of_rounds(share, n_machines, subset_size) for share in shares)
        worth = [share for share, one in zip(shares, taken, strict=True) if one < rounds.WORTH]
        return float(max(worth, default=0.0))


def forecast(
    data: Rows,
    rows: NDArray[np.intp],
    kernel: TrainingKernel,
    formulation: Formulation,
    run: Callable,
) -> Forecast:
    """What the exact SVMs of some rows would take, as those of two samples have it.

    Parameters
    ----------
    data : Rows
    rows : ndarray
        Those to be trained on.
    kernel, formulation, run
        As ``RowsInMemory`` wants them.
    """
    sizes = min(_SAMPLE // 2, len(rows)), min(_SAMPLE, len(rows))
    rng = np.random.default_rng(0)
    order = rng.permutation(rows)
    machines = np.sort(rng.permutation(data.n_machines)[:_MOST_MACHINES])
    fewer, more = (
        _sampled(
            data.problems(np.sort(order[:size]), data.weights, machines),
            kernel,
            formulation,
            run,
        )
        for size in sizes
    )
    more = more._replace(n_rows=more.n_rows * data.n_machines / len(machines))
    share = len(rows) / sizes[1]
    n_features = kernel.X.nnz / kernel.X.shape[0] if sp.issparse(kernel.X) else kernel.X.shape[1]
    more = more._replace(n_distinct=float(len(rows)), n_features=float(n_features))
    if not more.effort:
        return more._replace(n_rows=more.n_rows * share)
    # of twice as many rows there would be twice as many support vectors, if their share stayed
    falls = min(1.0, 0.5 * more.n_support / fewer.n_support) if fewer.n_support else 1.0
    n_support = more.n_support * share * falls ** (_FALLS_ON * log2(share))
    return more._replace(n_rows=more.n_rows * share, n_support=n_support)


def _sampled(
    problems: Iterator[Problem], kernel: TrainingKernel, formulation: Formulation, run: Callable
) -> Forecast:
    """What the SVMs of a sample take."""
    n_rows = effort = 0.0
    for problem in problems:
        n_rows += len(problem.rows)
        if formulation.constant(problem.targets) is not None:
            continue
        variables = formulation.variables(problem.targets, problem.bounds)
        rows = problem.rows[variables.rows]
        limit = 100 * len(rows)
        values = kernel.for_sums(rows, variables.bounds)
        solution = kernel.minimize(
            values, rows, variables, tol=_SAMPLE_TOL, max_iter=limit, run=run
        )
        effort += len(problem.rows) * float(np.count_nonzero(solution.alpha))
    return Forecast(n_rows, effort / n_rows if n_rows else 0.0, n_rows)
