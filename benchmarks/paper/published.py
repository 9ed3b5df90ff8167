"""The paper's own figures, table by table.

M. Nandan, P. P. Khargonekar, S. S. Talathi, "Fast SVM Training Using Approximate Extreme Points",
Journal of Machine Learning Research 15, 2014. ``None`` is a cell that the paper leaves empty: a
solver that took over forty hours. RMSE and accuracies are in hundredths.
"""

from __future__ import annotations

#: The grids of Section 5: C' = C/N is this package's C.
C_GRID = tuple(2.0**k for k in range(-4, 8))
GAMMA_GRID = tuple(2.0**k for k in range(-4, 3))
EPSILONS = (1e-3, 1e-4, 1e-5)

#: The smaller grids: of Figures 2 and 3 and Table 9, and of the polynomial kernel.
SMALL_C_GRID = tuple(2.0**k for k in (-4, -2, 0, 2, 4, 6))
SMALL_GAMMA_GRID = tuple(2.0**k for k in (-4, -2, 0, 2))
POLY_C_GRID = tuple(2.0**k for k in (-4, -2, 0, 2))
DEGREES = (2, 3, 4)

#: Rows of the whole dataset, as the paper gives them.
ROWS = {
    "D1": 1_074_974,
    "D2": 164_860,
    "D3": 982_863,
    "D4": 581_012,
    "D5": 49_990,
    "D6": 32_561,
    "D7": 40_000,
    "D8": 60_000,
    "D9": 49_749,
}

#: Table 1: M/N in per cent and seconds, on D1 with g = 1 and epsilon = 1e-3.
PARTITION_SIZES = (10_000, 50_000, 100_000, 200_000)
SUBSET_SIZES = (100, 500, 1000, 2000, 3000)
TABLE_1 = {
    10_000: ((10.7, 27), (6.1, 67), (5.1, 131), (4.5, 258), (4.3, 338)),
    50_000: ((9.9, 78), (5.3, 72), (4.4, 130), (3.9, 249), (3.7, 351)),
    100_000: ((9.8, 142), (5.2, 83), (4.3, 134), (3.7, 242), (3.5, 352)),
    200_000: ((9.8, 254), (5.1, 104), (4.2, 144), (3.7, 240), (3.4, 355)),
}

#: Tables 2 and 3: M/N in per cent, for each g of the grid.
TABLE_2: dict[float, dict[str, tuple[float, ...]]] = {
    1e-3: {
        "D1": (1.5, 1.9, 2.4, 3.2, 4.3, 5.9, 8.1),
        "D2": (1.2, 1.5, 2, 2.8, 4.1, 6, 9.2),
        "D3": (0.6, 0.6, 0.6, 0.6, 0.5, 0.6, 0.6),
        "D4": (4.3, 6.4, 9.4, 13.9, 20.7, 30.7, 44.8),
        "D5": (4.5, 8.3, 14, 21.8, 31.8, 43.7, 54.9),
    },
    1e-4: {
        "D1": (3, 4, 5.3, 7.2, 9.9, 13.3, 17.4),
        "D2": (2.8, 3.8, 5, 6.8, 9.3, 13.5, 19.9),
        "D3": (0.5, 0.6, 0.6, 0.7, 0.8, 0.9, 1.1),
        "D4": (13.5, 18.3, 24.9, 34.2, 47.7, 63.5, 74.4),
        "D5": (20.1, 27.9, 37.4, 47.6, 57.3, 66, 74),
    },
    1e-5: {
        "D1": (7, 9.3, 12.2, 15.7, 19.6, 24.2, 28.9),
        "D2": (6.2, 7.8, 9.8, 13, 18.3, 25.6, 34.3),
        "D3": (0.7, 0.8, 0.9, 1.1, 1.4, 1.7, 2.2),
        "D4": (30.7, 39.5, 51.9, 66, 75.1, 77.8, 78.4),
        "D5": (43.3, 51.8, 60.3, 67.7, 73.8, 78.7, 81.8),
    },
}
TABLE_3 = {
    "D6": (69.3, 70.4, 73.4, 80.3, 83.9, 84, 87.9),
    "D7": (84.4, 84.6, 84.9, 85.6, 86.9, 89.9, 94.7),
    "D8": (90, 96.6, 98.8, 99.5, 100, 100, 100),
    "D9": (60.8, 62.9, 67, 70.8, 72.7, 75.2, 76.7),
}

#: Tables 4, 6, 8 and 11, by metric, dataset and solver.
AESVM = {epsilon: f"AESVM {epsilon:.0e}".replace("e-0", "e-") for epsilon in EPSILONS}
_SOLVERS_4 = (*AESVM.values(), "CVM", "BVM", "LASVM")
_SOLVERS_6 = (AESVM[1e-3], "CVM", "BVM", "LASVM")


def _by_solver(
    solvers: tuple[str, ...], cells: dict[str, dict[str, tuple[float | None, ...]]]
) -> dict[str, dict[str, dict[str, float | None]]]:
    return {
        metric: {data: dict(zip(solvers, row, strict=True)) for data, row in rows.items()}
        for metric, rows in cells.items()
    }


TABLE_4 = _by_solver(
    _SOLVERS_4,
    {
        "RMSE": {
            "D1": (0.28, 0.16, 0.21, 0.44, 0.6, 0.12),
            "D2": (2.56, 1.81, 1.19, 26.59, 24.06, 2.18),
            "D3": (0.16, 0.10, 0.05, 0.33, 0.39, 55.2),
            "D4": (1.08, 0.82, 0.74, 9.4, 9.44, None),
            "D5": (0.99, 0.39, 0.23, 0.74, 0.84, 0.13),
        },
        "ETS": {
            "D1": (451.5, 145, 41.7, 8.9, 28.6, 0.8),
            "D2": (1614.7, 289.6, 62.8, 0.7, 0.8, 0.2),
            "D3": (28012.3, 14799.3, 7573.8, 60.4, 76.8, 0.9),
            "D4": (103.1, 13.8, 3.4, 8, 6.6, None),
            "D5": (40.2, 5, 2, 0.3, 0.5, 0.6),
        },
        "OTS": {
            "D1": (92.1, 34.2, 9.5, 6.2, 21.6, 0.8),
            "D2": (148.6, 45.5, 14.3, 0.5, 0.5, 0.1),
            "D3": (968.5, 800.6, 514.4, 23.9, 22.8, 0.5),
            "D4": (11.9, 4.1, 2.2, 6.2, 4.4, None),
            "D5": (5.2, 2.5, 1.5, 0.2, 0.3, 0.5),
        },
        "ECS": {
            "D1": (4.8, 3.6, 2.8, 1.2, 2, 1.1),
            "D2": (35.9, 15.5, 7.9, 4.7, 5, 1),
            "D3": (48.7, 25.8, 13.4, 0.4, 0.6, 0.6),
            "D4": (8.4, 3.3, 1.8, 12.4, 12.1, None),
            "D5": (4.3, 1.9, 1.4, 0.8, 1, 1),
        },
        "OCS": {
            "D1": (3.8, 3.1, 2.5, 1.1, 1.9, 1),
            "D2": (23.4, 10.9, 6.1, 4.5, 4.4, 1),
            "D3": (32.2, 16.1, 9, 0.3, 0.5, 0.2),
            "D4": (5.4, 2.7, 1.7, 12, 10.7, None),
            "D5": (2.8, 1.8, 1.4, 0.8, 1, 1),
        },
    },
)
TABLE_6 = _by_solver(
    _SOLVERS_6,
    {
        "RMSE": {
            "D6": (0.21, None, 7.8, 0.85),
            "D7": (1.37, None, None, 2.37),
            "D8": (0.02, None, 17.55, 0),
            "D9": (0.15, 1, 0.89, 27.5),
        },
        "ETS": {
            "D6": (1.8, None, 0.6, 0.8),
            "D7": (1.4, None, None, 0.9),
            "D8": (1.1, None, 4.7, 1),
            "D9": (1.6, 1.4, 17.5, 0.6),
        },
        "OTS": {
            "D6": (1.5, None, 0.6, 0.5),
            "D7": (1.2, None, None, 0.7),
            "D8": (1.1, None, 2.6, 0.9),
            "D9": (1.3, 1.2, 16.9, 0.5),
        },
        "ECS": {
            "D6": (1.2, None, 1.5, 1),
            "D7": (1.16, None, None, 1),
            "D8": (1, None, 3.2, 1),
            "D9": (1.2, 1.8, 4.9, 2.3),
        },
        "OCS": {
            "D6": (1.1, None, 1.5, 1),
            "D7": (1.1, None, None, 1),
            "D8": (1, None, 2.6, 1),
            "D9": (1.1, 1.9, 5.2, 1.1),
        },
    },
)

#: Tables 5 and 7: maximum, mean and standard deviation of the accuracies.
_SOLVERS_5 = (*_SOLVERS_4, "LIBSVM")
_SOLVERS_7 = (*_SOLVERS_6, "LIBSVM")
TABLE_5 = _by_solver(
    _SOLVERS_5,
    {
        "max": {
            "D1": (93.4, 93.8, 93.6, 94.1, 94.4, 94.3, 93.9),
            "D2": (77.1, 77.2, 77.8, 70.3, 67.1, 78.1, 78.2),
            "D3": (99.9, 99.9, 99.9, 99.9, 99.9, 99.9, 99.9),
            "D4": (68.3, 68.3, 68.3, 63.7, 62.3, None, 68.2),
            "D5": (98.7, 98.8, 98.9, 99, 99.1, 99.2, 99),
        },
        "mean": {
            "D1": (92.2, 92.3, 92.3, 92.7, 92.6, 92.5, 92.4),
            "D2": (72.3, 73.2, 73.6, 52.2, 54.6, 73.5, 74.1),
            "D3": (99.8, 99.8, 99.8, 99.8, 99.8, 69.3, 99.8),
            "D4": (61.3, 61, 61, 55.5, 54.9, None, 60.6),
            "D5": (96, 96.3, 96.5, 96.6, 97, 97, 96.6),
        },
        "std": {
            "D1": (0.7, 0.8, 0.8, 0.8, 0.9, 0.8, 0.8),
            "D2": (3.6, 3.7, 3.7, 0.8, 0.7, 0.5, 3.5),
            "D3": (0, 0.1, 0.1, 0.2, 0.2, 29.9, 0.1),
            "D4": (3.1, 3.1, 3.1, 3.1, 3.4, None, 3.2),
            "D5": (2.5, 2.6, 2.6, 2.5, 2, 2, 2.4),
        },
    },
)
TABLE_7 = _by_solver(
    _SOLVERS_7,
    {
        "max": {
            "D6": (85.2, None, 85.2, 85, 85.1),
            "D7": (88.3, None, None, 88.4, 88.6),
            "D8": (99.7, None, 99.7, 99.7, 99.7),
            "D9": (99.3, 99.5, 99.5, 99.5, 99.5),
        },
        "mean": {
            "D6": (81.3, None, 80.2, 81.1, 81.4),
            "D7": (85.3, None, None, 85.2, 85.7),
            "D8": (92.3, None, 88.5, 92.3, 92.3),
            "D9": (98.7, 98.9, 98.9, 85.5, 98.8),
        },
        "std": {
            "D6": (2.8, None, 8.9, 2.9, 2.8),
            "D7": (5.7, None, None, 6.2, 4.8),
            "D8": (3.6, None, 18.1, 3.6, 3.6),
            "D9": (0.8, 0.8, 0.8, 23.9, 0.8),
        },
    },
)

#: Tables 8, 9 and 11, by dataset and solver, in these columns.
METRICS = ("RMSE", "ETS", "OTS", "ECS", "OCS", "max", "mean", "std")
TABLE_8: dict[str, dict[str, tuple[float | None, ...]]] = {
    "D1": {
        "AESVM 1e-3": (0.28, 451.5, 92.1, 4.8, 3.8, 93.4, 92.2, 0.7),
        "CPSP": (0.74, 3.7, 0.9, 6.8, 6.8, 94, 92.7, 0.5),
        "LIBSVM": (None, None, None, None, None, 93.9, 92.4, 0.8),
    },
    "D4": {
        "AESVM 1e-3": (1.08, 103.1, 11.9, 8.4, 5.4, 68.3, 61.3, 3.1),
        "CPSP": (2.14, 3.1, 1.2, 186.8, 186.8, 68.1, 61.8, 2.7),
        "LIBSVM": (None, None, None, None, None, 68.2, 60.6, 3.2),
    },
    "D5": {
        "AESVM 1e-3": (0.99, 40.2, 5.2, 4.3, 2.8, 98.7, 96, 2.5),
        "CPSP": (0.26, 0.2, 0.1, 5.8, 5.8, 99, 96.7, 2.4),
        "LIBSVM": (None, None, None, None, None, 99, 96.6, 2.4),
    },
    "D6": {
        "AESVM 1e-3": (0.21, 1.8, 1.5, 1.2, 1.1, 85.2, 81.3, 2.8),
        "CPSP": (9.39, 1.1, 0.9, 20, 20, 85.2, 79.6, 10.7),
        "LIBSVM": (None, None, None, None, None, 85.1, 81.4, 2.8),
    },
    "D8": {
        "AESVM 1e-3": (0.02, 1.1, 1.1, 1, 1, 99.7, 92.3, 3.6),
        "CPSP": (54.2, 37.6, 23.8, 49, 49, 99.9, 55.7, 42.3),
        "LIBSVM": (None, None, None, None, None, 99.7, 92.3, 3.6),
    },
    "D9": {
        "AESVM 1e-3": (0.15, 1.6, 1.3, 1.2, 1.1, 99.3, 98.7, 0.8),
        "CPSP": (22.6, 1.2, 0.9, 21.3, 21.3, 99.2, 86.1, 18.8),
        "LIBSVM": (None, None, None, None, None, 99.5, 98.8, 0.8),
    },
}

#: Features of the random projection, and the accuracies of Table 9 (RMSE, max, mean, std).
RANDOM_FEATURES = {"D1": 100, "D5": 100, "D6": 1000, "D9": 1000}
TABLE_9: dict[str, dict[str, tuple[float | None, ...]]] = {
    "D1": {
        "AESVM 1e-3": (0.24, 93.6, 92.2, 0.9),
        "RfeatSVM": (56.18, 37.8, 36.1, 1.3),
        "LIBSVM": (None, 93.6, 92.3, 0.9),
    },
    "D5": {
        "AESVM 1e-3": (0.9, 98.6, 95.7, 2.8),
        "RfeatSVM": (5.3, 94.7, 91.6, 1.4),
        "LIBSVM": (None, 98.9, 96.2, 2.7),
    },
    "D6": {
        "AESVM 1e-3": (0.16, 85.1, 81.2, 2.9),
        "RfeatSVM": (4, 81.6, 78, 2.2),
        "LIBSVM": (None, 85, 81.3, 3),
    },
    "D9": {
        "AESVM 1e-3": (0.15, 99.3, 98.6, 0.8),
        "RfeatSVM": (0.6, 98.7, 97.4, 0.6),
        "LIBSVM": (None, 99.5, 98.8, 0.9),
    },
}
#: Density of the data before and after the projection, in per cent.
DENSITIES = {"D1": (33, 100), "D5": (59, 100), "D6": (11, 100), "D9": (4, 95.8)}

#: Table 10: M/N in per cent and seconds, by degree of the polynomial kernel.
TABLE_10 = {
    "D1": {2: (6.6, 410), 3: (14.2, 1329), 4: (22.5, 3696)},
    "D4": {2: (30.3, 752), 3: (57.7, 1839), 4: (76.5, 2246)},
    "D6": {2: (69, 20), 3: (69.7, 21), 4: (70.4, 22)},
}
TABLE_11: dict[str, dict[str, tuple[float | None, ...]]] = {
    "D1": {
        "AESVM 1e-3": (0.15, 31.2, 2, 3.1, 3.1, 94, 93.5, 0.4),
        "LIBSVM": (None, None, None, None, None, 94.1, 93.5, 0.4),
    },
    "D4": {
        "AESVM 1e-3": (2.04, 3.3, 1.5, 2, 1.9, 64.3, 60.8, 2.5),
        "LIBSVM": (None, None, None, None, None, 64.5, 60.7, 2.5),
    },
    "D6": {
        "AESVM 1e-3": (0.6, 2.7, 1.9, 1.5, 1.5, 84.5, 80.5, 2.5),
        "LIBSVM": (None, None, None, None, None, 84.6, 81, 2.3),
    },
}
