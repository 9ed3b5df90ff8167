"""Shapley values of sums of RBF kernels on a GPU, by ``shapley.cu``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aesvm.gpu import cuda
from aesvm.gpu.devices import Device, DeviceMemoryError
from aesvm.kernels.matrix import dense

#: Threads of a block, and rows with vectors that fill a large GPU several times.
_THREADS, _ENOUGH_THREADS = 128, 1 << 20

#: Factors at nodes of one launch: an interrupt waits for it.
_LAUNCH_FACTORS = 2e10


def products_on_device(
    device: Device,
    game: Any,
    rules: Any,
    X: Any,
    background: Any,
    done: Callable[[float], None],
) -> NDArray[np.float64]:
    """Shapley values of rows, (n_rows, n_players, n_outputs).

    Parameters
    ----------
    device : Device
    game : Game
    rules : Rules
        Both of ``inspection.products``.
    X, background : arrays or CSR matrices
    done : callable
        Called now and then with the share that is done.
    """
    n_vectors, n_players = game.coefs.shape[0], game.n_players
    row_bytes = 8 * n_players * n_vectors  # factors of a row, or sums
    with device.computing():
        room = device.free_bytes() - 8 * n_vectors * (len(game.columns) + game.coefs.shape[1])
        if room < 4 * row_bytes:
            raise DeviceMemoryError.of_bytes(device, 4 * row_bytes)
        most = int(room // (4 * row_bytes))  # half for the background; factors and sums of rows
        n_others = min(background.shape[0], 2 * most)
        work = float(n_others * n_players * n_vectors * rules.sizes[-1])
        step = int(min(most, max(1, _LAUNCH_FACTORS // work), -(-_ENOUGH_THREADS // n_vectors)))
        vectors = device.array(np.ascontiguousarray(dense(game.vectors)[:, game.columns].T))
        coefs, ends = device.array(game.coefs), device.array(game.ends)
        given = [device.array(np.ascontiguousarray(one)) for one in rules]
        found = np.zeros((X.shape[0], n_players, game.coefs.shape[1]))
        n_done, n_all = 0, X.shape[0] * background.shape[0]
        for first in range(0, background.shape[0], n_others):
            others = _factors(device, game, background[first : first + n_others], vectors, ends)
            for at in range(0, X.shape[0], step):
                rows = slice(at, at + step)
                own = _factors(device, game, X[rows], vectors, ends)
                sums = np.zeros_like(own)
                sizes = len(others), n_players, n_vectors
                width = np.int64(rules.nodes.shape[1])
                _kernel("add_values")(
                    (-(-n_vectors // _THREADS), len(own)),
                    (_THREADS,),
                    (own, others, *map(np.int64, sizes), *given, width, sums),
                )
                found[rows] += device.to_host(sums @ coefs)
                n_done += len(own) * len(others)
                done(n_done / n_all)
    found /= background.shape[0]
    return found


def _factors(device: Device, game: Any, rows: Any, vectors: Any, ends: Any) -> Any:
    """Factors of some rows, (n_rows, n_players, n_vectors)."""
    own = device.array(np.ascontiguousarray(dense(rows)[:, game.columns]))
    n_columns, n_vectors = vectors.shape
    found = np.empty_like(vectors, shape=(len(own), game.n_players, n_vectors))
    sizes = np.int64(n_columns), np.int64(n_vectors)
    players = ends, np.int64(game.n_players), np.float64(game.gamma)
    _kernel("fill_factors")(
        (-(-n_vectors // _THREADS), len(own)),
        (_THREADS,),
        (own, vectors, *sizes, *players, found),
    )
    return found


def _kernel(name: str) -> Any:
    return cuda.compiled("shapley.cu").get_function(name)
