"""``aesvm represent``: a weighted subset of the rows that stands for all of them."""

from __future__ import annotations

from math import inf
from typing import Any

from aesvm import RepresentativeSet
from aesvm.command.data import DataOptions, opened
from aesvm.command.formats import NATIVE, suffix_of
from aesvm.command.outcome import UsageError
from aesvm.command.screen import Screen
from aesvm.command.tables import output_format, outputs_of, write_rows
from aesvm.command.writing import check_outputs
from aesvm.estimators.fit_warnings import warn_of_scales
from aesvm.io.base import Chunk

_KERNELS = ("rbf", "linear", "poly", "sigmoid")


def represent(
    data: str,
    output: str | None,
    kernel: str,
    gamma: float,
    hull_tol: float,
    jobs: int | None,
    columns: DataOptions,
    screen: Screen,
) -> None:
    """Write representatives and their weights, or with ``.aesvm`` the fitted set."""
    if kernel not in _KERNELS:
        raise UsageError(f"--kernel {kernel}: one of {', '.join(_KERNELS)} is needed.")
    if not 0 <= gamma < inf:
        raise UsageError(f"-g {gamma:g}: a number of at least 0 is needed.")
    if screen.as_json and output is None:
        raise UsageError("--json needs -o: rows would be on standard output as well.")
    check_outputs(outputs_of(output, weighted=True), [data, *columns.files])
    with opened(data, columns, needs_target=False) as file:
        file.note_target(columns, screen)
        is_native = output is not None and suffix_of(output) == NATIVE
        if not is_native:
            output_format(output, file, weighted=True)  # refused before the work is done
        chosen: Any = RepresentativeSet(
            kernel=kernel, gamma=gamma or 1.0 / file.n_features, hull_tol=hull_tol, n_jobs=jobs
        )
        with screen.progress(chosen):
            if file.is_large:
                screen.note(file.why_streamed())
                chosen.set_params(memory_budget=int(file.limit), on_overflow="loosen")
                chosen.fit_stream(file.reader)
                X, y, weights = chosen.select()
                n_rows = chosen.n_seen_
            else:
                rows = file.rows()
                if kernel == "rbf":
                    warn_of_scales(rows.X)
                X, y, weights = chosen.fit_select(*rows)
                n_rows = rows.X.shape[0]
        if output is not None and is_native:
            chosen.save(output)
            written = [output]
        else:
            _, written = write_rows([Chunk(X, y, weights)], output, file)
    note = f"{len(weights):,} of {n_rows:,} rows, within {chosen.max_residual_:.3g} of all of them"
    (screen.note if output is None else screen.line)(note)
    screen.result(
        {
            "rows": n_rows,
            "representatives": len(weights),
            "max_residual": float(chosen.max_residual_),
            "output": written,
        }
    )
