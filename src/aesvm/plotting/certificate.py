"""CertificateDisplay: how a model came closer to the exact SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aesvm.certificate.certificate import Certificate
from aesvm.certificate.history import Step
from aesvm.plotting.fitted import axes_for, machine_in

#: What can be drawn across, and upwards: names of a step, and of the axes.
_ACROSS = {"seconds": "seconds since the fit began", "rounds": "rounds", "n_vectors": "vectors"}
_UPWARDS = {"relative_gap": "relative duality gap", "objective": "objective on all rows"}

#: Gaps below this are rounding: a logarithmic axis does not show them.
_LEAST = 1e-16


@dataclass
class CertificateDisplay:
    """The duality gap, or the objective, against seconds, rounds or vectors.

    A point is a look at all rows while the model was trained (``certificate_.history``). The dashed
    line is what the certificate says of the model that was returned: where that was proven, it
    counts what rounding may add.

    Parameters
    ----------
    across, upwards : ndarray of shape (n_steps,)
        The points; NaN upwards where a look did not tell the dual.
    last : float or None
        What the certificate says.
    x, y : str
        What is drawn.
    verdict : str
        The certificate's first line.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The points.
    last_line_ : matplotlib Line2D or None
        The dashed line.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from aesvm import AESVC
    >>> from aesvm.plotting import CertificateDisplay
    >>> X, y = make_moons(3000, noise=0.3, random_state=0)
    >>> model = AESVC(gamma=1.0, refine=2).fit(X, y)
    >>> display = CertificateDisplay.from_estimator(model, x="rounds")
    >>> display.across
    array([0., 1., 2.])
    >>> display.ax_.get_xlabel()
    'rounds'
    """

    across: NDArray[np.float64]
    upwards: NDArray[np.float64]
    last: float | None
    x: str
    y: str
    verdict: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: str = "seconds",
        y: str = "relative_gap",
        ax: Any = None,
        **line_kwargs: Any,
    ) -> Self:
        """Draw what led to a fitted estimator.

        Parameters
        ----------
        estimator : AESVC, or another of the family
            Fitted; or a search for one, of which its best is drawn, or a pipeline that ends in one.
        x : {"seconds", "rounds", "n_vectors"}, default="seconds"
            "n_vectors" where w is in the span of few vectors.
        y : {"relative_gap", "objective"}, default="relative_gap"
            Of streams and clusters the objective alone is known.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure where None.
        **line_kwargs
            Of ``Axes.plot``.

        Returns
        -------
        display : CertificateDisplay
        """
        machine = machine_in(estimator, cls, "certificate_")
        return cls._of(machine.certificate_, x, y).plot(ax=ax, **line_kwargs)

    @classmethod
    def _of(cls, certificate: Certificate, x: str, y: str) -> Self:
        for name, value, known in (("x", x, _ACROSS), ("y", y, _UPWARDS)):
            if value not in known:
                raise ValueError(f"{name}={value!r} cannot be drawn: use one of {[*known]}.")
        steps = certificate.history
        if not steps:
            raise ValueError(
                "The model was trained without a look at all rows, so there is nothing to draw: "
                'fit rows in memory, or with refine="auto" or a number of rounds.'
            )
        across, upwards = _numbers(steps, x), _numbers(steps, y)
        if np.isnan(across).any():
            raise ValueError(f'x={x!r} is not known of this model: use "seconds" or "rounds".')
        if np.isnan(upwards).all():
            raise ValueError(f'y={y!r} is not known of this model\'s steps: use y="objective".')
        if y == "relative_gap":
            upwards = np.maximum(upwards, _LEAST)
        last = getattr(certificate, y)
        return cls(across, upwards, last, x, y, certificate.verdict())

    def plot(self, *, ax: Any = None, **line_kwargs: Any) -> Self:
        """Draw it; see ``from_estimator``."""
        ax = axes_for(self, ax)
        (self.line_,) = ax.plot(self.across, self.upwards, **{"marker": "o", **line_kwargs})
        self.last_line_ = None
        if self.last is not None and (self.last > 0 or self.y != "relative_gap"):
            self.last_line_ = ax.axhline(
                self.last, linestyle="--", linewidth=1, color=self.line_.get_color()
            )
        if self.y == "relative_gap":
            ax.set_yscale("log")
        if self.x == "seconds":
            ax.set_xlim(left=0.0)
        else:
            ax.locator_params(axis="x", integer=True)
        ax.set(xlabel=_ACROSS[self.x], ylabel=_UPWARDS[self.y], title=self.verdict)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _numbers(steps: tuple[Step, ...], name: str) -> NDArray[np.float64]:
    return np.array([getattr(step, name) for step in steps], dtype=np.float64)
