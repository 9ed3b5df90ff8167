"""Features on very different scales: a warning for kernels of distances."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from aesvm.kernels.csr import narrowed
from aesvm.runtime.warn import warn

#: Twice the spread of one feature over the range of another. Features that are a hundredfold apart
#: give 12 to 60, whatever their distribution; scaled ones, beside indicators too, 0.2 to 4. An
#: indicator that is rarely set has a small spread, and a feature with a long tail a large range,
#: without being on another scale: so the spread of the larger one counts, the range of the smaller.
_FACTOR = 10.0

#: A smaller share of features on a small scale is not warned of: pixels at the edge of images, say.
_SHARE = 0.1

#: Rows looked at, at most; of wide rows fewer, down to the second number, so that values are few.
_SAMPLE, _LEAST, _VALUES = 10_000, 1000, 1e6


def warn_of_scales(X) -> None:
    """Distances are those of the features with the largest scale: say so."""
    with np.errstate(over="ignore", invalid="ignore"):
        sample = int(min(_SAMPLE, max(_LEAST, _VALUES // max(1, X.shape[1]))))
        lowest, highest, spreads = _extent(X[:: max(1, X.shape[0] // sample)].astype(np.float64))
        ranges = highest - lowest
        varies = (ranges > 0) & (spreads > 0)
        if not varies.any():
            return
        small = np.quantile(ranges[varies], _SHARE, method="lower")
        widest = np.argmax(spreads)
        is_far = 2.0 * spreads[widest] > _FACTOR * small
        factor = ranges[widest] / small
    if is_far:
        warn(
            f"The features of X differ in scale by a factor of {factor:.2g}, and the smaller ones "
            "hardly count in the distances of the RBF kernel: scale X, for instance with "
            "sklearn.preprocessing.StandardScaler."
        )


def _extent(sample) -> tuple[NDArray, NDArray, NDArray]:
    """Smallest value, largest value and standard deviation of each feature."""
    if not sp.issparse(sample):
        return sample.min(axis=0), sample.max(axis=0), sample.std(axis=0)
    _, sample = narrowed(sample)
    lowest, highest = (np.ravel(f(axis=0).toarray()) for f in (sample.min, sample.max))
    mean = np.ravel(sample.mean(axis=0))
    squares = np.ravel(sample.multiply(sample).mean(axis=0))
    return lowest, highest, np.sqrt(np.maximum(squares - mean**2, 0.0))
