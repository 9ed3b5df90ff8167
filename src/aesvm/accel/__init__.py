"""scikit-learn's own SVMs, trained by this package: no code to change.

``install`` puts the exact solver and the predictions of this package in the place of the LIBSVM
functions that ``sklearn.svm`` calls. The estimators stay scikit-learn's: ``SVC``, ``NuSVC``,
``SVR``, ``NuSVR`` and ``OneClassSVM``.
"""

from aesvm.accel.calls import NotAcceleratedError, Report, report
from aesvm.accel.installing import Installed, install, uninstall

__all__ = ["Installed", "NotAcceleratedError", "Report", "install", "report", "uninstall"]


def load_ipython_extension(shell: object) -> None:
    """Install, for ``%load_ext aesvm.accel``."""
    install()


def unload_ipython_extension(shell: object) -> None:
    """Uninstall, for ``%unload_ext aesvm.accel``."""
    uninstall()
