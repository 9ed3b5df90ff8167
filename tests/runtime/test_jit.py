from __future__ import annotations

import errno
import gc
import importlib.util
import pickle
import subprocess
import sys
import warnings
from contextlib import ExitStack

import numba
import numpy as np
import pytest
from numba.core import event
from numba.core.caching import IndexDataCacheFile

from aesvm import AESVC
from aesvm.inspection import products, shapley, shapley_values
from aesvm.runtime import jit as jit_module
from tests import children

COMPILING = "compiling code that this call needs, once per machine"

FIRST_FIT = """
import numpy as np
from aesvm import AESVC
X = np.random.default_rng(0).normal(size=(300, 2))
print(len(AESVC(gamma=1.0, refine="exact").fit(X, X[:, 0] > 0).support_))
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


def twice(x):
    return 2.0 * x


@pytest.mark.parametrize("gone", [b"caesvm.nowhere\nName\n.", b"caesvm.runtime.jit\nGone\n."])
def test_a_cache_of_modules_that_are_no_more_is_not_used(gone, tmp_path, monkeypatch):
    """As after an upgrade."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert jit_module.jit(twice)(1.0) == 2.0
    (index,) = tmp_path.rglob("*.nbi")
    whole = index.read_bytes()
    index.write_bytes(pickle.dumps(numba.__version__) + gone)
    assert jit_module.jit(twice)(1.0) == 2.0
    assert index.read_bytes() == whole  # and is renewed


@pytest.mark.parametrize("kind", ["*.nbi", "*.nbc"])
def test_a_damaged_cache_is_renewed(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert jit_module.jit(twice)(1.0) == 2.0
    (file,) = tmp_path.rglob(kind)
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2]):
        file.write_bytes(damaged)
        assert jit_module.jit(twice)(1.0) == 2.0
        assert len(file.read_bytes()) > len(whole) / 2  # and is renewed


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_where_the_disk_is_full_one_warning_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit_module, "_warned", False)
    monkeypatch.setattr(IndexDataCacheFile, "_save_data", no_space)
    compiled = jit_module.jit(twice)
    with pytest.warns(RuntimeWarning, match="No space left.*NUMBA_CACHE_DIR"):
        assert compiled(1.0) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(1) == 2.0


def function_of(text, path):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("changing", path)
    module = importlib.util.module_from_spec(spec)
    exec(compile(text, path, "exec"), vars(module))
    return jit_module.jit(module.tell)


def test_code_of_another_source_is_not_used_after_the_disk_was_full(tmp_path, monkeypatch):
    """Numba writes its index before the code: the index was of the new source, the code was not."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit_module, "_warned", True)
    path, new = tmp_path / "changing.py", "def tell(x):\n    return x + 22.0\n"
    assert function_of("def tell(x):\n    return x + 1.0\n", path)(0.0) == 1.0
    with monkeypatch.context() as full:
        full.setattr(IndexDataCacheFile, "_save_data", no_space)
        assert function_of(new, path)(0.0) == 22.0
    assert function_of(new, path)(0.0) == 22.0


def fresh():
    """A function of this package that no cache has."""

    def double(x):
        return 2.0 * x

    double.__module__ = "aesvm.nowhere"
    return numba.njit(double)


class CollectorSeen(event.Listener):
    """Whether the garbage collector runs when a compilation has begun."""

    def __init__(self):
        self.runs = []

    def on_start(self, event):
        self.runs.append(gc.isenabled())

    def on_end(self, event):
        pass


def test_the_garbage_collector_rests_while_our_code_is_compiled():
    seen = CollectorSeen()
    with event.install_listener("numba:compile", seen):
        assert fresh()(1.0) == 2.0
        assert gc.isenabled()
        numba.njit(lambda x: x)(1.0)  # which is another's
    assert seen.runs == [False, True]


def test_the_garbage_collector_runs_again_where_compiling_fails():
    with pytest.raises(numba.TypingError):
        fresh()("no number")
    assert gc.isenabled()


def test_a_garbage_collector_that_was_off_stays_off():
    gc.disable()
    try:
        fresh()(1.0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_compiling_is_told_once_and_only_where_it_happens():
    first, second, told = fresh(), fresh(), []
    with jit_module.compiling_reported_to(told.append):
        assert first(1.0) == 2.0
        assert second(2.0) == 4.0
    assert told == [COMPILING]
    with jit_module.compiling_reported_to(told.append):
        first(3.0)
        numba.njit(lambda x: x)(1.0)  # which is another's
    assert len(told) == 1
    fresh()(1.0)  # and nobody asked
    assert len(told) == 1


def test_what_cannot_be_cached_is_not_said_to_be(monkeypatch):
    monkeypatch.setattr(jit_module, "_warned", True)
    told = []
    with jit_module.compiling_reported_to(told.append):
        fresh()(1.0)
    assert told == ["compiling code that this call needs, in every process"]


def test_verbose_fits_say_that_they_compile(capsys):
    double, rows = fresh(), np.arange(6.0)[:, None]

    def kernel(a, b):
        double(1.0)
        return a @ b.T

    model = AESVC(kernel=kernel, verbose=1).fit(rows, [0, 0, 0, 1, 1, 1])
    assert capsys.readouterr().out.count(f"[AESVC] {COMPILING}\n") == 1
    model.fit(rows, [0, 0, 0, 1, 1, 1])
    assert "compiling" not in capsys.readouterr().out


def test_predictions_of_a_verbose_model_say_that_they_compile(capsys):
    compiled, rows = [fresh()], np.arange(6.0)[:, None]

    def kernel(a, b):
        compiled[-1](1.0)
        return a @ b.T

    model = AESVC(kernel=kernel).fit(rows, [0, 0, 0, 1, 1, 1]).set_params(verbose=1)
    compiled.append(fresh())
    for _ in range(2):
        model.predict(rows)
    assert capsys.readouterr().out == f"[AESVC] {COMPILING}\n"


def test_shapley_values_of_a_verbose_model_say_that_they_compile(capsys, monkeypatch):
    rows = np.arange(6.0)[:, None]
    model = AESVC().fit(rows, [0, 0, 0, 1, 1, 1]).set_params(verbose=1)
    compute, double = products.shapley_products, fresh()
    shapley_values(model, rows, rows)
    capsys.readouterr()

    def compiling(*args):
        double(1.0)
        return compute(*args)

    monkeypatch.setattr(shapley, "shapley_products", compiling)
    for _ in range(2):
        shapley_values(model, rows, rows)
    assert capsys.readouterr().out == f"[AESVC] {COMPILING}\n"


@pytest.mark.weekly
@pytest.mark.slow
def test_two_processes_can_compile_at_once_into_an_empty_cache(tmp_path):
    command = children.code(FIRST_FIT, options=("-W", "error"))
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    with ExitStack() as stack:
        both = [
            stack.enter_context(children.started(command, env=environment, stdout=subprocess.PIPE))
            for _ in range(2)
        ]
        sizes = [process.communicate(timeout=children.LIMIT)[0] for process in both]
        assert [process.returncode for process in both] == [0, 0]
    assert sizes[0] == sizes[1]
    assert any(tmp_path.rglob("*.nbi"))


SMALLEST_FIT = """
import numpy as np
from aesvm import AESVC
from aesvm.kernels import blocks
blocks.TILE_PRODUCTS = -1.0
X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
print(AESVC(gamma=1.0).fit(X, [0, 0, 0, 1, 1, 1]).predict(X).tolist())
"""


@pytest.mark.slow
def test_it_works_without_compiling():
    found = children.run(children.code(SMALLEST_FIT), env={"NUMBA_DISABLE_JIT": "1"})
    assert found.strip() == "[0, 0, 0, 1, 1, 1]"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_shows_that_a_fit_compiles_whatever_verbose_is(is_terminal, capsys, monkeypatch):
    double, rows = fresh(), np.arange(6.0)[:, None]

    def kernel(a, b):
        double(1.0)
        return a @ b.T

    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    AESVC(kernel=kernel).fit(rows, rows[:, 0] > 2.5)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (f"[AESVC] {COMPILING}\n" if is_terminal else "")
