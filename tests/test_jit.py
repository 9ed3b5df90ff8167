from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numba
import pytest

from aesvm import jit as jit_module

FIRST_FIT = """
import numpy as np
from aesvm import RepresentativeSet
X = np.random.default_rng(0).normal(size=(300, 2))
print(len(RepresentativeSet().fit(X).sample_indices_))
"""


def test_where_no_cache_can_be_written_one_warning_says_so(monkeypatch):
    compile_function = numba.njit

    def refusing(function, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_function(function, **options)

    monkeypatch.setattr(numba, "njit", refusing)
    monkeypatch.setattr(jit_module, "_warned", False)
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        doubled = jit_module.jit(lambda x: 2 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit_module.jit(lambda x: 3 * x)
    assert doubled(4) == 8


def test_two_processes_can_compile_at_once_into_an_empty_cache(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", FIRST_FIT],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    sizes = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sizes[0] == sizes[1]
    assert any(tmp_path.rglob("*.nbi"))
