"""``python docs/inventories/make.py``: the names of other sites that our pages link to.

Inventories in Sphinx's format, for builds without a network: with one, those of the sites are read.
"""

from __future__ import annotations

import zlib
from pathlib import Path

#: Names of each site, by their kind, and where it describes them. "$" is the name.
NAMES = {
    "sklearn": (
        "scikit-learn",
        "modules/generated/{}.html#$",
        {
            "py:class": [
                "sklearn.calibration.CalibratedClassifierCV",
                "sklearn.model_selection.GridSearchCV",
                "sklearn.model_selection.HalvingGridSearchCV",
                "sklearn.model_selection.RandomizedSearchCV",
                "sklearn.pipeline.Pipeline",
                "sklearn.svm.LinearSVC",
                "sklearn.svm.NuSVC",
                "sklearn.svm.NuSVR",
                "sklearn.svm.OneClassSVM",
                "sklearn.svm.SVC",
                "sklearn.svm.SVR",
            ],
        },
    ),
    "numpy": (
        "NumPy",
        "reference/generated/{}.html#$",
        {"py:class": ["numpy.ndarray"]},
    ),
    "python": (
        "Python",
        "library/functions.html#$",
        {"py:class": ["bool", "float", "int", "object"]},
    ),
}


def main() -> None:
    for name, (title, place, kinds) in NAMES.items():
        head = f"# Sphinx inventory version 2\n# Project: {title}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        lines = [
            f"{one} {kind} 1 {place.format(one)} -\n"
            for kind, names in kinds.items()
            for one in names
        ]
        content = zlib.compress("".join(lines).encode(), 9)
        (Path(__file__).parent / f"{name}.inv").write_bytes(head.encode() + content)


if __name__ == "__main__":
    main()
