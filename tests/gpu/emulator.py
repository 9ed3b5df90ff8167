"""CuPy's compiled modules on this processor: device code built by the C++ compiler, with fibers.

``EmulatedModule`` takes the place of ``cupy.RawModule`` and works on NumPy arrays, so that the very
code of the files ``.cu`` is tested where there is no GPU.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path

import numpy as np

COMPILER = shutil.which("g++") or shutil.which("clang++")

_LOCK = threading.Lock()
_HEADER = Path(__file__).parent / "emulation.h"
_KERNEL = re.compile(r'extern "C"\s+void\s+(\w+)\s*\(([^)]*)\)')
_TYPES = {np.dtype(np.int32): ctypes.c_int32, np.dtype(np.int64): ctypes.c_int64}
_TYPES |= {np.dtype(np.float32): ctypes.c_float, np.dtype(np.float64): ctypes.c_double}


class EmulatedModule:
    """Kernels of a source, compiled with some options."""

    def __init__(self, code, options, folder):
        source = folder / "kernels.cpp"
        source.write_text(f'#include "{_HEADER}"\n{code}')
        flags = [COMPILER, "-O1", "-w", *options]
        expanded = subprocess.run(
            [*flags, "-std=c++17", "-E", "-P", str(source)],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        launchers = [_launcher(*found.groups()) for found in _KERNEL.finditer(expanded)]
        source.write_text(source.read_text() + "\n" + "\n".join(launchers))
        library = folder / "kernels.so"
        # hidden, what a block shares belongs to this library alone: static variables of templates
        # are otherwise one for all libraries of a process, those of another precision among them
        flags += ["-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden"]
        subprocess.run([*flags, str(source), "-o", str(library)], check=True)
        self.library = ctypes.CDLL(str(library))

    def get_function(self, name):
        return _Kernel(getattr(self.library, f"launch_{name}"), self.library.went_well)


class _Kernel:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, launch, went_well):
        self.launch, self.went_well = launch, went_well

    def __call__(self, grid, block, arguments, shared_mem=0):
        across, down = (*grid, 1)[:2]
        with _LOCK:  # what a block shares is static
            self.launch(across, down, block[0], *(_argument(one) for one in arguments))
            went_well = self.went_well()
        if not went_well:
            raise RuntimeError("the kernel reads where nothing is, or its threads wait forever.")

    @property
    def kernel(self):
        return self

    def linear_launch(self, size, arguments, shared_mem, n_threads, stream, together):
        """Blocks that wait for each other: here a single one, which does the work of all.

        How several share the work is for a GPU to test (``test_on_gpu.py``).
        """
        assert together
        assert size % n_threads == 0
        self((1,), (n_threads,), arguments, shared_mem)


def _argument(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, np.uintp):
        return ctypes.c_void_p(int(value))
    return _TYPES[value.dtype](value)


def _launcher(name, parameters):
    names = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", parameters))
    return (
        f'extern "C" __attribute__((visibility("default"))) '
        f"void launch_{name}(unsigned across, unsigned down, unsigned threads, "
        f"{parameters}) {{ emulation::launch(across, down, threads, [=] {{ {name}({names}); }}); }}"
    )


def emulate(folder):
    """What ``aesvm.gpu.cuda.compiled`` is to be replaced by."""

    @cache
    def module(name, *definitions):
        from aesvm.gpu import cuda

        here = folder / f"{name}-{abs(hash(definitions))}"
        here.mkdir(exist_ok=True)
        return EmulatedModule(cuda.source(name), tuple(f"-D{one}" for one in definitions), here)

    return module


def in_place(folder):
    """What stands in for a GPU's compiler and for its properties: attributes of ``aesvm.gpu.cuda``.

    Working sets, and subsets of them, are small.
    """
    from aesvm.gpu import cuda
    from tests.gpu import plain

    properties = {
        "MaxSharedMemoryPerBlockOptin": cuda._OTHER_SHARED
        + cuda._shared_bytes(64, np.dtype(np.float64)),
        "MultiProcessorCount": 4,
    }
    return {
        "compiled": emulate(folder),
        "WORKING_SET": 128,
        "_SOLVERS": 64,
        "_attribute": properties.__getitem__,
        "solve_definite": plain.solve_definite,
    }
