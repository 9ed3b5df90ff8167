"""The paper's figures, table by table.

M. Nandan, P. P. Khargonekar, S. S. Talathi, "Fast SVM Training Using Approximate Extreme Points",
Journal of Machine Learning Research 15, 2014. A dash is a cell that the paper leaves empty: a
solver that took over forty hours. RMSE and accuracies are in hundredths.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The grids of Section 5: C' = C/N is this package's C.
C_GRID = tuple(2.0**k for k in range(-4, 8))
GAMMA_GRID = tuple(2.0**k for k in range(-4, 3))
EPSILONS = (1e-3, 1e-4, 1e-5)

#: The smaller grids: of Figures 2 and 3 and Table 9, and of the polynomial kernel.
SMALL_C_GRID = tuple(2.0**k for k in (-4, -2, 0, 2, 4, 6))
SMALL_GAMMA_GRID = tuple(2.0**k for k in (-4, -2, 0, 2))
POLY_C_GRID = tuple(2.0**k for k in (-4, -2, 0, 2))
DEGREES = (2, 3, 4)

#: Rows P of the pieces, and rows V of the subsets, of Table 1.
PARTITION_SIZES = (10_000, 50_000, 100_000, 200_000)
SUBSET_SIZES = (100, 500, 1000, 2000, 3000)

METRICS = ("RMSE", "ETS", "OTS", "ECS", "OCS", "max", "mean", "std")
AESVM = {1e-3: "AESVM 1e-3", 1e-4: "AESVM 1e-4", 1e-5: "AESVM 1e-5"}
RIVALS = ("CVM", "BVM", "LASVM", "LIBSVM")

#: M/N in per cent, and seconds.
Shares = tuple[tuple[float, int], ...]

#: Figures by metric, dataset and solver.
Cells = dict[str, dict[str, dict[str, float | None]]]


def _shares(text: str) -> dict[str, Shares]:
    """Lines of a name and ``M/N/seconds`` for each column."""
    found = {}
    for name, *cells in map(str.split, text.strip().splitlines()):
        pairs = (cell.split("/") for cell in cells)
        found[name] = tuple((float(share), int(seconds)) for share, seconds in pairs)
    return found


def _value(cell: str) -> float | None:
    return None if cell == "–" else float(cell)


def _by_solver(text: str, solvers: Sequence[str]) -> Cells:
    """Lines of a metric, a dataset and a figure for each solver; LIBSVM's where one is left."""
    found: Cells = {}
    for metric, dataset, *cells in map(str.split, text.strip().splitlines()):
        names = solvers if len(cells) == len(solvers) else solvers[:-1]
        values = dict(zip(names, map(_value, cells), strict=True))
        found.setdefault(metric, {})[dataset] = values
    return found


def _by_metric(text: str, metrics: Sequence[str] = METRICS) -> Cells:
    """Lines of a dataset, a solver and a figure for each metric."""
    found: Cells = {}
    for dataset, solver, *cells in map(str.split, text.strip().splitlines()):
        for metric, cell in zip(metrics, cells, strict=True):
            of_dataset = found.setdefault(metric, {}).setdefault(dataset, {})
            of_dataset[solver.replace("AESVM_", "AESVM ")] = _value(cell)
    return found


def _merged(*tables: Cells) -> Cells:
    found: Cells = {}
    for table in tables:
        for metric, datasets in table.items():
            for dataset, row in datasets.items():
                found.setdefault(metric, {}).setdefault(dataset, {}).update(row)
    return found


#: On D1, with g = 1 and epsilon = 1e-3: a line for each P.
TABLE_1 = {
    int(P): row
    for P, row in _shares("""
        10000   10.7/27  6.1/67  5.1/131  4.5/258  4.3/338
        50000   9.9/78   5.3/72  4.4/130  3.9/249  3.7/351
        100000  9.8/142  5.2/83  4.3/134  3.7/242  3.5/352
        200000  9.8/254  5.1/104 4.2/144  3.7/240  3.4/355
        """).items()
}

#: A column for each g of the grid, in Table 3 too.
TABLE_2 = {
    1e-3: _shares("""
        D1 1.5/98 1.9/104 2.4/110 3.2/119 4.3/132 5.9/148 8.1/168
        D2 1.2/7 1.5/8 2/9 2.8/11 4.1/15 6/18 9.2/23
        D3 0.6/37 0.6/37 0.6/36 0.6/36 0.5/37 0.6/37 0.6/39
        D4 4.3/45 6.4/57 9.4/74 13.9/103 20.7/139 30.7/178 44.8/216
        D5 4.5/7 8.3/9 14/11 21.8/14 31.8/18 43.7/21 54.9/22
        """),
    1e-4: _shares("""
        D1 3/136 4/159 5.3/191 7.2/240 9.9/297 13.3/362 17.4/435
        D2 2.8/12 3.8/18 5/27 6.8/37 9.3/44 13.5/44 19.9/82
        D3 0.5/36 0.6/37 0.6/38 0.7/39 0.8/41 0.9/43 1.1/47
        D4 13.5/135 18.3/211 24.9/300 34.2/400 47.7/493 63.5/513 74.4/445
        D5 20.1/16 27.9/22 37.4/27 47.6/31 57.3/34 66/34 74/34
        """),
    1e-5: _shares("""
        D1 7/316 9.3/425 12.2/552 15.7/726 19.6/926 24.2/1112 28.9/1235
        D2 6.2/59 7.8/87 9.8/98 13/109 18.3/138 25.6/187 34.3/235
        D3 0.7/39 0.8/42 0.9/45 1.1/50 1.4/59 1.7/73 2.2/100
        D4 30.7/607 39.5/814 51.9/1051 66/1171 75.1/1044 77.8/839 78.4/649
        D5 43.3/50 51.8/58 60.3/62 67.7/63 73.8/59 78.7/52 81.8/44
        """),
}
TABLE_3 = _shares("""
    D6 69.3/19 70.4/19 73.4/19 80.3/14 83.9/9 84/8 87.9/8
    D7 84.4/1077 84.6/1089 84.9/1069 85.6/1085 86.9/1079 89.9/1032 94.7/818
    D8 90/131 96.6/94 98.8/78 99.5/72 100/70 100/71 100/63
    D9 60.8/34 62.9/36 67/30 70.8/21 72.7/16 75.2/14 76.7/15
    """)

_TABLES_4_5 = _by_solver(
    """
    RMSE D1 0.28 0.16 0.21 0.44 0.6 0.12
    RMSE D2 2.56 1.81 1.19 26.59 24.06 2.18
    RMSE D3 0.16 0.1 0.05 0.33 0.39 55.2
    RMSE D4 1.08 0.82 0.74 9.4 9.44 –
    RMSE D5 0.99 0.39 0.23 0.74 0.84 0.13
    ETS D1 451.5 145 41.7 8.9 28.6 0.8
    ETS D2 1614.7 289.6 62.8 0.7 0.8 0.2
    ETS D3 28012.3 14799.3 7573.8 60.4 76.8 0.9
    ETS D4 103.1 13.8 3.4 8 6.6 –
    ETS D5 40.2 5 2 0.3 0.5 0.6
    OTS D1 92.1 34.2 9.5 6.2 21.6 0.8
    OTS D2 148.6 45.5 14.3 0.5 0.5 0.1
    OTS D3 968.5 800.6 514.4 23.9 22.8 0.5
    OTS D4 11.9 4.1 2.2 6.2 4.4 –
    OTS D5 5.2 2.5 1.5 0.2 0.3 0.5
    ECS D1 4.8 3.6 2.8 1.2 2 1.1
    ECS D2 35.9 15.5 7.9 4.7 5 1
    ECS D3 48.7 25.8 13.4 0.4 0.6 0.6
    ECS D4 8.4 3.3 1.8 12.4 12.1 –
    ECS D5 4.3 1.9 1.4 0.8 1 1
    OCS D1 3.8 3.1 2.5 1.1 1.9 1
    OCS D2 23.4 10.9 6.1 4.5 4.4 1
    OCS D3 32.2 16.1 9 0.3 0.5 0.2
    OCS D4 5.4 2.7 1.7 12 10.7 –
    OCS D5 2.8 1.8 1.4 0.8 1 1
    max D1 93.4 93.8 93.6 94.1 94.4 94.3 93.9
    max D2 77.1 77.2 77.8 70.3 67.1 78.1 78.2
    max D3 99.9 99.9 99.9 99.9 99.9 99.9 99.9
    max D4 68.3 68.3 68.3 63.7 62.3 – 68.2
    max D5 98.7 98.8 98.9 99 99.1 99.2 99
    mean D1 92.2 92.3 92.3 92.7 92.6 92.5 92.4
    mean D2 72.3 73.2 73.6 52.2 54.6 73.5 74.1
    mean D3 99.8 99.8 99.8 99.8 99.8 69.3 99.8
    mean D4 61.3 61 61 55.5 54.9 – 60.6
    mean D5 96 96.3 96.5 96.6 97 97 96.6
    std D1 0.7 0.8 0.8 0.8 0.9 0.8 0.8
    std D2 3.6 3.7 3.7 0.8 0.7 0.5 3.5
    std D3 0 0.1 0.1 0.2 0.2 29.9 0.1
    std D4 3.1 3.1 3.1 3.1 3.4 – 3.2
    std D5 2.5 2.6 2.6 2.5 2 2 2.4
    """,
    (*AESVM.values(), *RIVALS),
)
_TABLES_6_7 = _by_solver(
    """
    RMSE D6 0.21 – 7.8 0.85
    RMSE D7 1.37 – – 2.37
    RMSE D8 0.02 – 17.55 0
    RMSE D9 0.15 1 0.89 27.5
    ETS D6 1.8 – 0.6 0.8
    ETS D7 1.4 – – 0.9
    ETS D8 1.1 – 4.7 1
    ETS D9 1.6 1.4 17.5 0.6
    OTS D6 1.5 – 0.6 0.5
    OTS D7 1.2 – – 0.7
    OTS D8 1.1 – 2.6 0.9
    OTS D9 1.3 1.2 16.9 0.5
    ECS D6 1.2 – 1.5 1
    ECS D7 1.16 – – 1
    ECS D8 1 – 3.2 1
    ECS D9 1.2 1.8 4.9 2.3
    OCS D6 1.1 – 1.5 1
    OCS D7 1.1 – – 1
    OCS D8 1 – 2.6 1
    OCS D9 1.1 1.9 5.2 1.1
    max D6 85.2 – 85.2 85 85.1
    max D7 88.3 – – 88.4 88.6
    max D8 99.7 – 99.7 99.7 99.7
    max D9 99.3 99.5 99.5 99.5 99.5
    mean D6 81.3 – 80.2 81.1 81.4
    mean D7 85.3 – – 85.2 85.7
    mean D8 92.3 – 88.5 92.3 92.3
    mean D9 98.7 98.9 98.9 85.5 98.8
    std D6 2.8 – 8.9 2.9 2.8
    std D7 5.7 – – 6.2 4.8
    std D8 3.6 – 18.1 3.6 3.6
    std D9 0.8 0.8 0.8 23.9 0.8
    """,
    (AESVM[1e-3], *RIVALS),
)

#: Table 8 also repeats the figures of AESVM and LIBSVM.
_TABLE_8 = _by_metric("""
    D1 CPSP 0.74 3.7 0.9 6.8 6.8 94 92.7 0.5
    D4 CPSP 2.14 3.1 1.2 186.8 186.8 68.1 61.8 2.7
    D5 CPSP 0.26 0.2 0.1 5.8 5.8 99 96.7 2.4
    D6 CPSP 9.39 1.1 0.9 20 20 85.2 79.6 10.7
    D8 CPSP 54.2 37.6 23.8 49 49 99.9 55.7 42.3
    D9 CPSP 22.6 1.2 0.9 21.3 21.3 99.2 86.1 18.8
    """)
WITH_CPSP = ("D1", "D4", "D5", "D6", "D8", "D9")

#: Tables 4 to 8: the RBF kernel.
RBF = _merged(_TABLES_4_5, _TABLES_6_7, _TABLE_8)

#: Table 9: features of the random projection, and accuracies over the 24 points.
RANDOM_FEATURES = {"D1": 100, "D5": 100, "D6": 1000, "D9": 1000}
TABLE_9 = _by_metric(
    """
    D1 AESVM_1e-3 0.24 93.6 92.2 0.9
    D1 RfeatSVM 56.18 37.8 36.1 1.3
    D1 LIBSVM – 93.6 92.3 0.9
    D5 AESVM_1e-3 0.9 98.6 95.7 2.8
    D5 RfeatSVM 5.3 94.7 91.6 1.4
    D5 LIBSVM – 98.9 96.2 2.7
    D6 AESVM_1e-3 0.16 85.1 81.2 2.9
    D6 RfeatSVM 4 81.6 78 2.2
    D6 LIBSVM – 85 81.3 3
    D9 AESVM_1e-3 0.15 99.3 98.6 0.8
    D9 RfeatSVM 0.6 98.7 97.4 0.6
    D9 LIBSVM – 99.5 98.8 0.9
    """,
    ("RMSE", "max", "mean", "std"),
)

#: Tables 10 and 11: the polynomial kernel, a column for each degree in Table 10.
TABLE_10 = _shares("""
    D1 6.6/410 14.2/1329 22.5/3696
    D4 30.3/752 57.7/1839 76.5/2246
    D6 69/20 69.7/21 70.4/22
    """)
TABLE_11 = _by_metric("""
    D1 AESVM_1e-3 0.15 31.2 2 3.1 3.1 94 93.5 0.4
    D1 LIBSVM – – – – – 94.1 93.5 0.4
    D4 AESVM_1e-3 2.04 3.3 1.5 2 1.9 64.3 60.8 2.5
    D4 LIBSVM – – – – – 64.5 60.7 2.5
    D6 AESVM_1e-3 0.6 2.7 1.9 1.5 1.5 84.5 80.5 2.5
    D6 LIBSVM – – – – – 84.6 81 2.3
    """)
