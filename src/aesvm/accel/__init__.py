"""scikit-learn's own SVMs, trained by this package: no code to change.

``install`` puts the exact solver and the predictions of this package in the place of the LIBSVM
functions that ``sklearn.svm`` calls. The estimators stay scikit-learn's: ``SVC``, ``NuSVC``,
``SVR``, ``NuSVR`` and ``OneClassSVM``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from joblib import effective_n_jobs

from aesvm.accel import seam
from aesvm.accel.seam import NotAcceleratedError, Report, calls, report
from aesvm.runtime.threads import valid_jobs

__all__ = ["Installed", "NotAcceleratedError", "Report", "install", "report", "uninstall"]

#: Settings for child processes, as JSON; "1" stands for the defaults.
VARIABLE = "AESVM_ACCEL"

#: A folder for PYTHONPATH: Python runs its ``sitecustomize`` when a child starts.
_IN_CHILDREN = str(Path(__file__).parent / "in_children")


@dataclass
class Settings:
    """The arguments of ``install``, and whether a fork has made the device unusable since."""

    n_jobs: int | None = None
    device: str = "cpu"
    strict: bool = False
    forked_device: bool = False  #: whether this process was forked, which GPUs do not survive

    def threads(self) -> int:
        """Threads of a call.

        All processors by default; inside joblib, loky or Dask, no more than a worker's share:
        joblib knows nested calls, and all of them set OMP_NUM_THREADS to the share.
        """
        if self.n_jobs is not None:
            return effective_n_jobs(self.n_jobs)
        share = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
        if multiprocessing.current_process().daemon:  # of a pool, whose size is unknown
            return 1
        every = effective_n_jobs(-1)
        return max(1, min(every, int(share))) if share.isdigit() else every

    def as_json(self) -> str:
        own = {"n_jobs": self.n_jobs, "device": self.device, "strict": self.strict}
        return json.dumps(own)


class _State:
    """What is installed in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.settings: Settings | None = None
        self.before: dict[str, ModuleType] = {}  #: scikit-learn's modules
        self.environment: dict[str, str | None] = {}  #: before install
        self.running: list[str] = []  #: calls

    @contextmanager
    def call(self, what: str) -> Iterator[None]:
        self.running.append(what)
        try:
            yield
        finally:
            self.running.remove(what)

    def continue_in_child(self) -> None:
        """After a fork: calls of other threads do not run here, and GPUs cannot be used."""
        self.lock = threading.Lock()
        self.running = []
        calls.forget()
        if self.settings is not None:
            self.settings.forked_device = self.settings.device != "cpu"


_state = _State()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_state.continue_in_child)


class Installed:
    """What ``install`` returns: a context that uninstalls at its end.

    Examples
    --------
    >>> import aesvm.accel
    >>> with aesvm.accel.install() as installed:
    ...     type(installed).__name__
    'Installed'
    """

    def __enter__(self) -> Installed:
        return self

    def __exit__(self, *error: object) -> None:
        uninstall()


def install(
    *, n_jobs: int | None = None, device: str | None = None, strict: bool = False
) -> Installed:
    """Make ``sklearn.svm`` train and predict with this package.

    SVC, NuSVC, SVR, NuSVR and OneClassSVM stay scikit-learn's, whether they were imported before
    or after. Models are exact, to ``tol``. What this package does not take over goes to LIBSVM,
    with a reason in the log ("aesvm.accel") and in ``report``. Worker processes that are started
    later are accelerated as well.

    Parameters
    ----------
    n_jobs : int, default=None
        Threads of a fit or a prediction. None: all processors, or the share of a worker inside
        joblib, loky and Dask.
    device : {"cpu", "cuda", "cuda:1", ...}, default=None
        What computes; None is the processor.
    strict : bool, default=False
        Whether to raise ``NotAcceleratedError`` instead of handing a call to LIBSVM. Small problems
        and given kernel matrices, for which LIBSVM is as fast, still go to it.

    Returns
    -------
    installed : Installed
        A context, for a ``with`` statement: at its end it uninstalls.

    Examples
    --------
    >>> import aesvm.accel
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> X, y = make_moons(5000, noise=0.1, random_state=0)
    >>> with aesvm.accel.install():
    ...     model = SVC(gamma=1.0).fit(X, y)
    >>> type(model).__module__
    'sklearn.svm._classes'
    """
    settings = Settings(valid_jobs(n_jobs), _valid_device(device), _valid_strict(strict))
    with _state.lock:
        if _state.settings is not None:
            raise RuntimeError("aesvm.accel is installed already: call uninstall() first.")
        seam.check()
        module = seam.base()
        dense, sparse = module.libsvm, module.libsvm_sparse
        if isinstance(dense, seam.StandIn) or isinstance(sparse, seam.StandIn):
            raise RuntimeError("sklearn.svm has functions of another copy of aesvm.accel.")
        calls.forget()
        _state.before = {"libsvm": dense, "libsvm_sparse": sparse}
        _state.settings = settings
        for name, theirs in _state.before.items():
            setattr(module, name, seam.StandIn(name, theirs, settings, _state.call))
        _prepare_children(settings)
    return Installed()


def uninstall() -> None:
    """Undo ``install``: ``sklearn.svm`` calls LIBSVM again.

    Examples
    --------
    >>> import aesvm.accel
    >>> installed = aesvm.accel.install()
    >>> aesvm.accel.uninstall()
    """
    with _state.lock:
        if _state.settings is None:
            raise RuntimeError("aesvm.accel is not installed: call install() first.")
        if _state.running:
            raise RuntimeError(
                f"uninstall() while {_state.running[0]} runs: aesvm.accel stays installed. Call "
                "uninstall() when it has ended."
            )
        vars(seam.base()).update(_state.before)
        _state.before, _state.settings = {}, None
        _restore_environment()


def _prepare_children(settings: Settings) -> None:
    """Make processes that are started from now on install it as well.

    Python runs ``sitecustomize`` from PYTHONPATH at its start, whatever starts it: loky,
    multiprocessing, Dask or subprocess. No file changes, and other programs are not affected.
    """
    path = os.environ.get("PYTHONPATH")
    _state.environment = {VARIABLE: os.environ.get(VARIABLE), "PYTHONPATH": path}
    os.environ[VARIABLE] = settings.as_json()
    parts = [part for part in (path or "").split(os.pathsep) if part and part != _IN_CHILDREN]
    os.environ["PYTHONPATH"] = os.pathsep.join([_IN_CHILDREN, *parts])
    _end_idle_workers()


def _restore_environment() -> None:
    for name, value in _state.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _state.environment = {}
    _end_idle_workers()


def _end_idle_workers() -> None:
    """End joblib's workers: they were started with other settings, and would be used again."""
    loky: Any = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(loky, "_executor", None)
    if executor is not None:
        with suppress(RuntimeError):
            executor.shutdown(wait=True)


def install_in_child() -> None:
    """Install with the settings of the process that started this one."""
    given = json.loads(os.environ[VARIABLE])
    if _state.settings is None:
        install(**(given if isinstance(given, dict) else {}))


def _valid_device(device: Any) -> str:
    if device is None or device == "cpu":
        return "cpu"
    from aesvm.machines.processor import processor

    return processor(device).name


def _valid_strict(strict: Any) -> bool:
    if isinstance(strict, bool):
        return strict
    raise ValueError(f"strict={strict!r} must be True or False.")


def load_ipython_extension(shell: object) -> None:
    """Install, for ``%load_ext aesvm.accel``."""
    install()


def unload_ipython_extension(shell: object) -> None:
    """Uninstall, for ``%unload_ext aesvm.accel``."""
    uninstall()
