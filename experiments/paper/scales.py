"""How much of the paper's experiments is run: ``quick`` in minutes, ``full`` in days.

``quick`` takes a few points of the paper's grids, one fold of five, and of the larger datasets
rows at even distances. What that leaves out stands in the report.

``full`` takes all rows and all points. LIBSVM would need weeks for it, so our exact SVM stands for
it, and LIBSVM itself is run at a sample of points: there the two are compared, and its seconds are
measured, from which those elsewhere are estimated (``estimates.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.paper import published

#: The datasets that the paper splits by five-fold cross-validation.
FOLDED = ("D2", "D3", "D4")


@dataclass(frozen=True)
class Scale:
    name: str
    folds: Mapping[str, tuple[int, ...]]  #: of five, where the paper has folds
    points: tuple[tuple[float, float], ...]  #: (C', g) of Tables 4 to 8
    small_points: tuple[tuple[float, float], ...]  #: of Table 9 and Figures 2 and 3
    poly_points: tuple[tuple[float, int], ...]  #: (C', d) of Table 11
    orders_gammas: tuple[float, ...]  #: of Figure 1
    repeats: int  #: random orders of Figure 1
    time_limit: float  #: seconds to train
    reduction_limit: float  #: seconds of one representative set
    train_rows: Mapping[str, int] = field(default_factory=dict)
    test_rows: int | None = None
    reduction_rows: Mapping[str, int] = field(default_factory=dict)  #: where not all are reduced
    basis: int = 1000  #: SVMperf's k
    landmarks: int = 1000  #: of Nystroem
    all_test_rows: bool = False
    sample: tuple[tuple[float, float], ...] = ()  #: LIBSVM's points; empty: the whole grid
    poly_sample: tuple[tuple[float, int], ...] = ()
    sample_rows: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  #: LIBSVM's, if fewer
    device: str = "cpu"  #: of the exact SVM

    @property
    def estimates(self) -> bool:
        """Whether our exact SVM stands for LIBSVM."""
        return bool(self.sample)

    def folds_of(self, dataset: str) -> tuple[int, ...]:
        return self.folds.get(dataset, (0,))


QUICK = Scale(
    name="quick",
    folds={"D2": (0,), "D3": (4,), "D4": (0,)},  # of D3, one with both classes on either side
    points=((1.0, 2.0**-4), (16.0, 2.0**-4), (4.0, 0.25), (64.0, 1.0)),
    small_points=((1.0, 2.0**-4), (16.0, 2.0**-4), (4.0, 0.25), (64.0, 1.0)),
    poly_points=((0.25, 2), (4.0, 2), (0.25, 3)),
    orders_gammas=(2.0**-4, 0.5, 4.0),
    repeats=1,
    time_limit=20.0,
    reduction_limit=120.0,
    train_rows={
        "D1": 20_000,
        "D2": 10_000,
        "D3": 30_000,
        "D4": 10_000,
        "D5": 15_000,
        "D6": 6_000,
        "D7": 2_000,
        "D8": 4_000,
        "D9": 8_000,
    },
    test_rows=5_000,
    reduction_rows={"D7": 4_000, "D8": 10_000},
    basis=300,
    landmarks=300,
)

FULL = Scale(
    name="full",
    folds={"D2": (0,), "D3": (4,), "D4": (0,)},
    points=tuple((C, g) for g in published.GAMMA_GRID for C in published.C_GRID),
    small_points=tuple((C, g) for g in published.SMALL_GAMMA_GRID for C in published.SMALL_C_GRID),
    poly_points=tuple((C, d) for d in published.DEGREES for C in published.POLY_C_GRID),
    orders_gammas=published.GAMMA_GRID,
    repeats=5,
    time_limit=600.0,
    reduction_limit=3600.0,
    all_test_rows=True,
    sample=(
        *((2.0**-4, 2.0**-4), (2.0**-4, 4.0), (1.0, 0.25), (4.0, 1.0)),
        *((16.0, 2.0**-4), (16.0, 4.0), (64.0, 2.0**-4), (64.0, 1.0)),
    ),
    poly_sample=(
        *((2.0**-4, 2), (2.0**-4, 3), (2.0**-4, 4)),
        *((1.0, 2), (1.0, 3), (4.0, 2)),
    ),
    sample_rows={
        "D1": (40_000, 80_000),
        "D3": (60_000, 120_000),
        "D4": (15_000, 30_000),
        "D6": (8_000, 16_000),
        "D7": (2_000, 4_000),
        "D8": (7_500, 15_000),
        "D9": (10_000, 20_000),
    },
)

#: The order of value in which ``full`` goes through the datasets: the paper's own ones that take
#: least come first.
ORDER = ("D5", "D6", "D9", "D1", "D4", "D2", "D8", "D3", "D7")

SCALES = {scale.name: scale for scale in (QUICK, FULL)}
