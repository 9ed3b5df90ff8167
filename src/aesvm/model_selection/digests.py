"""Digests of the parts of a search, the same in every process.

Values are digested by their pickles, as in ``joblib.hash``. A pickle of a function or class has its
name alone, which stays the same when its body is edited. So functions and classes are digested by
their code, constants, defaults and closures, and by the global names that the code mentions. Those
of libraries do not change between two runs: their names are enough.
"""

from __future__ import annotations

import hashlib
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from joblib.hashing import NumpyHasher

#: Attributes of a class that its author did not write.
_NOT_WRITTEN = {
    "__abstractmethods__",
    "__annotate_func__",
    "__annotations__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}

#: Types whose pickles have no functions or classes.
_PLAIN = {bool, bytes, dict, float, int, list, str, tuple, type(None)}

#: Where libraries are.
_LIBRARIES = [
    Path(path).resolve()
    for path in (
        *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")),
        site.getusersitepackages(),
    )
]


def digest_of(name: str, *values: Any) -> str:
    """A digest of some values; ``name``: what an error calls them.

    Examples
    --------
    >>> from aesvm.model_selection.digests import digest_of
    >>> one, same, other = (lambda x: x + 1), (lambda x: x + 1), (lambda x: x + 2)
    >>> digest_of("scoring", one) == digest_of("scoring", same)
    True
    >>> digest_of("scoring", one) == digest_of("scoring", other)
    False
    """
    met = _Met()
    try:
        found = [met.digest(values)]
        for one in met.objects:  # which grows, by the functions that these mention
            found += met.described(one)
    except Exception as error:
        raise ValueError(
            f"resume must tell this search from another, and {name} holds something that cannot be "
            f"pickled ({error})."
        ) from error
    return _sha1(*found)


class _Met:
    """Functions and classes found in values, each described once."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, one: Any) -> str:
        if id(one) not in self._numbers:
            self._numbers[id(one)] = len(self.objects)
            self.objects.append(one)
        return f"{type(one).__name__} {self._numbers[id(one)]}"

    def digest(self, value: Any) -> str:
        return _Hasher(self).hash(value)

    def described(self, one: Any) -> Iterator[str]:
        """The parts of a function or class, digested."""
        if isinstance(one, FunctionType):
            yield _code(one.__code__)
            cells = [_contents(cell) for cell in one.__closure__ or ()]
            yield self.digest((one.__defaults__, one.__kwdefaults__, cells))
            parts = dict(_mentioned(one))
        else:
            yield self.digest(one.__bases__)
            parts = {name: vars(one)[name] for name in vars(one) if name not in _NOT_WRITTEN}
        for name in sorted(parts):
            try:
                yield f"{name} {self.digest(parts[name])}"
            except Exception:  # a lock, a file: nothing that a result should depend on
                yield f"{name} {type(parts[name]).__qualname__}"


class _Hasher(NumpyHasher):
    """Hashes values, with functions and classes by number."""

    def __init__(self, met: _Met) -> None:
        super().__init__(hash_name="sha1")
        self.met = met

    def save(self, obj: Any) -> None:
        if type(obj) in _PLAIN:  # of which there may be very many
            super().save(obj)
            return
        if isinstance(obj, (staticmethod, classmethod)):
            obj = type(obj).__name__, obj.__func__
        elif isinstance(obj, property):
            obj = "property", obj.fget, obj.fset, obj.fdel
        elif isinstance(obj, ModuleType):
            obj = f"module {obj.__name__}"
        elif type(obj).__module__.startswith("numba.") and hasattr(obj, "py_func"):
            obj = "compiled", obj.py_func
        elif isinstance(obj, frozenset):
            obj = "frozenset", sorted(map(self.met.digest, obj))
        if isinstance(obj, (FunctionType, type)) and _is_written_here(obj):
            obj = self.met.number(obj)
        super().save(obj)


def _mentioned(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function mentions, and the attributes of modules among them."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in names & set(function.__globals__):
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, ModuleType) and not _is_of_library(value.__name__):
            for other in names & set(vars(value)):
                yield f"{name}.{other}", vars(value)[other]


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing yet"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those nested in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _code(code: CodeType) -> str:
    """A digest of code that does not depend on its place in a file."""
    return _sha1(
        code.co_code,
        getattr(code, "co_exceptiontable", b""),
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *map(_constant, code.co_consts),
    )


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return _sha1("tuple", *map(_constant, value))
    if isinstance(value, frozenset):  # whose order is another one in every process
        return _sha1("frozenset", *sorted(map(_constant, value)))
    return repr(value)


def _is_written_here(one: Any) -> bool:
    """Whether a function or class is not that of a library."""
    return "<" in one.__qualname__ or not _is_of_library(one.__module__)


def _is_of_library(module: str | None) -> bool:
    if module is None or module == "__main__":
        return False
    if module.partition(".")[0] in ("aesvm", "builtins"):
        return True
    found = sys.modules.get(module)
    if found is None:
        return False
    path = getattr(found, "__file__", None)
    return path is None or any(Path(path).resolve().is_relative_to(one) for one in _LIBRARIES)


def _sha1(*parts: Any) -> str:
    found = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        text = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        found.update(f"{len(text)} ".encode() + text)
    return found.hexdigest()
