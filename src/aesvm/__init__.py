"""Kernel SVMs for data too large for ``sklearn.svm``.

Names are imported when they are first asked for: a program that only says how it is used need not
wait for NumPy, scikit-learn and Numba.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aesvm import accel as accel
    from aesvm import dask as dask
    from aesvm import inspection as inspection
    from aesvm import io as io
    from aesvm import model_selection as model_selection
    from aesvm import onnx as onnx
    from aesvm import plotting as plotting
    from aesvm import tabular as tabular
    from aesvm.bases.compress import Compression
    from aesvm.callbacks import TimeLimit
    from aesvm.certificate.certificate import Certificate
    from aesvm.compiling import warm_up
    from aesvm.io.model_file import load, save
    from aesvm.model_selection.search import (
        AEGridSearchCV,
        AEHalvingGridSearchCV,
        AERandomizedSearchCV,
    )
    from aesvm.one_class import AEOneClassSVM
    from aesvm.representative_set import RepresentativeSet
    from aesvm.svc import AESVC, AENuSVC
    from aesvm.svr import AESVR, AENuSVR
    from aesvm.tabular import tabular_pipeline

del TYPE_CHECKING  # ``dir(aesvm)`` shows what there is to use

__version__ = "1.0.0rc1"

__all__ = [
    "AESVC",
    "AESVR",
    "AEGridSearchCV",
    "AEHalvingGridSearchCV",
    "AENuSVC",
    "AENuSVR",
    "AEOneClassSVM",
    "AERandomizedSearchCV",
    "Certificate",
    "Compression",
    "RepresentativeSet",
    "TimeLimit",
    "load",
    "save",
    "tabular_pipeline",
    "warm_up",
]

#: The module that each name comes from.
_MODULES = {
    "AESVC": "aesvm.svc",
    "AESVR": "aesvm.svr",
    "AEGridSearchCV": "aesvm.model_selection.search",
    "AEHalvingGridSearchCV": "aesvm.model_selection.search",
    "AENuSVC": "aesvm.svc",
    "AENuSVR": "aesvm.svr",
    "AEOneClassSVM": "aesvm.one_class",
    "AERandomizedSearchCV": "aesvm.model_selection.search",
    "Certificate": "aesvm.certificate.certificate",
    "Compression": "aesvm.bases.compress",
    "RepresentativeSet": "aesvm.representative_set",
    "TimeLimit": "aesvm.callbacks",
    "load": "aesvm.io.model_file",
    "save": "aesvm.io.model_file",
    "tabular_pipeline": "aesvm.tabular",
    "warm_up": "aesvm.compiling",
}

_SUBMODULES = (
    "accel",
    "dask",
    "inspection",
    "io",
    "model_selection",
    "onnx",
    "plotting",
    "tabular",
)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, "__version__"})
