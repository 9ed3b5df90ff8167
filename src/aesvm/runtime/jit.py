"""How this package compiles: on first use, without the GIL, cached on disk.

``error_model="numpy"`` and ``fastmath`` let loops vectorise; jitted code assumes finite
numbers and checks its divisors itself. Where no cache can be written (a read-only install
and home, a full disk), functions are compiled anew in every process, and one warning says so.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import intrinsic

#: How functions are compiled, but for the cache. C does not call them: they need no entry for it.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}

_warned = False

if hasattr(os, "register_at_fork"):  # a fork waits until no thread compiles: a child could not
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def _is_ours(compiling: Any) -> bool:
    """Whether an event is about a function of this package."""
    return compiling.data["dispatcher"].py_func.__module__.startswith("aesvm.")


class _Pause(event.Listener):
    """Stops the garbage collector while a function of this package is compiled.

    The compiler makes millions of objects and hardly any garbage. To look for that again and again
    takes a sixth of the time. Only one thread compiles at a time, so counting needs no lock.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.was_enabled = False

    def on_start(self, event: Any) -> None:
        if _is_ours(event):
            if self.depth == 0:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.depth += 1

    def on_end(self, event: Any) -> None:
        if _is_ours(event):
            self.depth -= 1
            if self.depth == 0 and self.was_enabled:
                gc.enable()


event.register("numba:compile", _Pause())


def jit(function: Callable, inline: str = "never") -> Callable:
    """Compile a function of arrays and scalars when it is first called."""
    compile_function = partial(nb.njit, inline=inline, **OPTIONS)
    try:
        return _forgiving(compile_function(function, cache=True))
    except RuntimeError as error:
        _warn_of_cache(error)
        return compile_function(function)


#: For a jitted function that each jitted caller calls in one place, or two: it becomes a part of
#: its caller. Otherwise LLVM would compile it twice, by itself and with its caller.
inlined = partial(jit, inline="always")


def _warn_of_cache(error: Exception) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"aesvm cannot cache its compiled code ({error}): it will be compiled in "
            "every process. Point NUMBA_CACHE_DIR at a writable folder.",
            RuntimeWarning,
            stacklevel=3,
        )


def _forgiving(compiled: Any) -> Any:
    """Have Numba compile anew where its cache cannot be read, and go on where it is not written.

    After an upgrade Numba reads what it has kept before it sees that the source is another: the
    names of modules and types that are no more. It writes a new index first, then the code. On a
    full disk the index would name the code of the source before, unless each source has names of
    its own.
    """
    cache: Any = getattr(compiled, "_cache", None)
    kept: Any = getattr(cache, "_cache_file", None)
    if kept is None:
        return compiled
    load_index, load_data, save = kept._load_index, kept._load_data, cache.save_overload

    def loaded_index() -> dict:
        try:
            return load_index()
        except Exception:  # whatever damaged bytes make of a pickle
            return {}

    def loaded_data(name: str) -> Any:
        try:
            return load_data(name)
        except Exception as error:
            raise OSError(f"{name} is damaged") from error  # Numba takes it for missing

    def save_overload(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except OSError as error:
            _warn_of_cache(error)

    kept._load_index, kept._load_data, cache.save_overload = (
        loaded_index,
        loaded_data,
        save_overload,
    )
    source = blake2b(repr(kept._source_stamp).encode(), digest_size=8).hexdigest()
    kept._data_name_pattern = f"{source}.{kept._data_name_pattern}"
    return compiled


class _Listener(event.Listener):
    """Reports, once, that a function of this package is compiled: the cache does not have it."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.has_told = False

    def on_start(self, event: Any) -> None:
        if _is_ours(event) and not self.has_told:
            self.has_told = True
            how_often = "in every process" if _warned else "once per machine"
            self.tell(f"compiling code that this call needs, {how_often}")

    def on_end(self, event: Any) -> None:
        """Nothing: the line was printed at the start."""


@contextmanager
def compiling_reported_to(tell: Callable[[str], None]) -> Iterator[None]:
    """A context in which ``tell`` gets a line when code of this package has to be compiled.

    After the first call of its kind, code comes from the cache, and there is no line.
    """
    with event.install_listener("numba:compile", _Listener(tell)):
        yield


def _minnum(typingctx, a, b):
    """min(a, b) in a form that LLVM vectorises as a reduction (Numba's own it does not)."""

    def codegen(context, builder, signature, args):
        real = args[0].type
        function = ir.FunctionType(real, [real, real])
        minnum = builder.module.declare_intrinsic("llvm.minnum", [real], function)
        return builder.call(minnum, args, fastmath=("fast",))

    return a(a, a), codegen


#: Whether Numba compiles at all; the environment variable NUMBA_DISABLE_JIT says that it does not.
COMPILES = not getattr(nb.config, "DISABLE_JIT", False)

#: For jitted code: ``minimum(a, b)`` of two floats of one type.
minimum: Any = intrinsic(_minnum) if COMPILES else min


@jit
def first_at(values, size, value):
    """Where a value is first, of the first ``size``; the last of these where it is not.

    Positions are counted in floats of the values' width, which makes vectors of both.
    """
    real = values.dtype.type
    one, here, last = real(1.0), real(0.0), real(size - 1)
    at = last
    for t in range(size):
        at = minimum(at, here if values[t] == value else last)
        here += one
    return int(at)
