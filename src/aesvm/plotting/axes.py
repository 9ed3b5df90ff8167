"""Where pictures are drawn."""

from __future__ import annotations

from typing import Any


def axes_for(display: Any, ax: Any = None) -> Any:
    """The axes that were given, or those of a new figure; matplotlib is not imported before.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from aesvm.plotting.axes import axes_for
    >>> ax = axes_for("MyDisplay")
    >>> axes_for("MyDisplay", ax) is ax
    True
    """
    try:
        import matplotlib.pyplot as plt  # of the extra "plot"
    except ImportError as error:
        name = display if isinstance(display, str) else type(display).__name__
        raise ImportError(f'{name} needs matplotlib: pip install "aesvm[plot]".') from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax
