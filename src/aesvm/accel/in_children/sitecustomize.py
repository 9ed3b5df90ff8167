"""Run by Python when a process starts whose parent has installed ``aesvm.accel``.

It waits until ``sklearn.svm._base`` is imported, then installs it there too: a process that does
not use SVMs does not wait for anything. The environment's ``sitecustomize``, if any, runs first.
"""

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def _run_the_next() -> None:
    """Import the ``sitecustomize`` that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    own = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    try:
        import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own


class _AfterImport:
    """Finds ``sklearn.svm._base`` as others do, and installs once it was executed."""

    def find_spec(self, name, path=None, target=None):
        if name != "sklearn.svm._base":
            return None
        sys.meta_path.remove(self)
        spec: Any = find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_install(module):
            execute(module)
            _install()

        spec.loader.exec_module = execute_and_install
        return spec


def _install() -> None:
    try:
        accel = import_module("aesvm.accel")
    except ImportError as error:
        import logging

        logging.getLogger("aesvm.accel").warning("not installed in this process: %s", error)
        return
    accel.install_in_child()


if os.environ.get("AESVM_ACCEL"):
    if "sklearn.svm._base" in sys.modules:
        _install()
    else:
        sys.meta_path.insert(0, _AfterImport())
_run_the_next()
