"""A device whose arrays are not NumPy's: what takes them for such by mistake fails.

Arrays wrap NumPy's, and behave as CuPy's do: NumPy's functions hand them on, given arrays of both
kinds they refuse, and nothing makes an array of the host of them but ``get``. Sparse rows wrap
SciPy's, and have what CuPy's have that is used here.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import scipy.linalg

from aesvm.gpu import linear_algebra
from aesvm.gpu.forms import Form
from aesvm.gpu.vectors import DenseVectors
from tests.gpu import plain, stand_in


class There:
    """An array of the device."""

    __hash__ = None
    __cuda_array_interface__ = ()  # there, for those who look

    def __init__(self, own):
        assert type(own) is not There
        self.own = own

    def get(self, out=None):
        if out is None:
            return self.own.copy()
        out[...] = self.own
        return out

    def __array__(self, *args, **kwargs):
        raise TypeError("an array of the device is taken for one of the host.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__":
            return NotImplemented
        return wrapped(ufunc(*unwrapped(inputs), **unwrapped(kwargs)))

    def __array_function__(self, function, types, args, kwargs):
        return wrapped(function(*unwrapped(args), **unwrapped(kwargs)))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.own, name)
        return method_of(found) if callable(found) else wrapped(found)

    def __getitem__(self, at):
        return wrapped(self.own[unwrapped(at)])

    def __setitem__(self, at, values):
        self.own[unwrapped(at)] = unwrapped(values)

    def __len__(self):
        return len(self.own)

    def __iter__(self):
        return (wrapped(one) for one in self.own)

    def __bool__(self):
        return bool(self.own)

    def __float__(self):
        return float(self.own)

    def __int__(self):
        return int(self.own)

    def __index__(self):
        raise TypeError("an array of the device is taken for a number of the host.")


def _operator(name):
    function = getattr(operator, name)

    def forward(self, other):
        return wrapped(function(self.own, unwrapped(other)))

    def backward(self, other):
        return wrapped(function(unwrapped(other), self.own))

    def in_place(self, other):
        changed = getattr(operator, f"i{name.rstrip('_')}")
        self.own = changed(self.own, unwrapped(other))
        return self

    return forward, backward, in_place


def _unary(name):
    function = getattr(operator, name)
    return lambda self: wrapped(function(self.own))


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "pow", "matmul", "and_", "or_", "lshift"]
for _name in _BINARY:
    _bare = _name.rstrip("_")
    for _prefix, _function in zip(("", "r", "i"), _operator(_name), strict=True):
        setattr(There, f"__{_prefix}{_bare}__", _function)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(There, f"__{_name}__", _operator(_name)[0])
for _name in ("neg", "invert", "abs"):
    setattr(There, f"__{_name}__", _unary(_name))


class Csr:
    """Sparse rows of the device. SciPy does not know them, and they have no length."""

    format = "csr"

    def __init__(self, own):
        self.own = own

    shape = property(lambda self: self.own.shape)
    dtype = property(lambda self: self.own.dtype)
    ndim = 2
    nnz = property(lambda self: self.own.nnz)
    has_canonical_format = property(lambda self: bool(self.own.has_canonical_format))
    indices = property(lambda self: There(self.own.indices))
    indptr = property(lambda self: There(self.own.indptr))
    data = property(lambda self: There(self.own.data))

    @data.setter
    def data(self, values):
        self.own.data = values.own

    def tocsr(self):
        return self

    def get(self):
        return self.own.copy()

    def astype(self, dtype):
        return Csr(self.own.astype(dtype))

    def sum(self, axis):
        return There(np.asarray(self.own.sum(axis=axis)))

    def __getitem__(self, at):
        return Csr(self.own[unwrapped(at)])

    def __matmul__(self, other):
        return There(self.own @ other.own)

    def __array__(self, *args, **kwargs):
        raise TypeError("sparse rows of the device are taken for an array of the host.")


def method_of(function):
    return lambda *args, **kwargs: wrapped(function(*unwrapped(args), **unwrapped(kwargs)))


def wrapped(found: Any) -> Any:
    """What NumPy found, as the device's: also numbers, which CuPy leaves there."""
    if isinstance(found, tuple) and any(isinstance(one, np.ndarray) for one in found):
        return tuple(wrapped(one) for one in found)
    return There(found) if isinstance(found, np.ndarray | np.generic) else found


def unwrapped(given: Any) -> Any:
    if isinstance(given, There | Csr):
        return given.own
    if isinstance(given, np.ndarray) and given.ndim:
        raise TypeError("an array of the host is given to the device.")
    if hasattr(given, "_make"):  # a named tuple
        return given._make(map(unwrapped, given))
    if isinstance(given, tuple | list):
        return type(given)(unwrapped(one) for one in given)
    if isinstance(given, dict):
        return {name: unwrapped(one) for name, one in given.items()}
    return given


class Namespace:
    """NumPy's functions, of these arrays."""

    def __getattr__(self, name):
        found = getattr(np, name)
        return method_of(found) if callable(found) and not isinstance(found, type) else found

    def asarray(self, values, dtype=None):
        if isinstance(values, There):
            return values if dtype is None else There(values.own.astype(dtype, copy=False))
        return There(np.array(values, dtype=dtype))


class Operations:
    """Those of ``plain``, of these arrays."""

    WORKING_SET = plain.WORKING_SET
    MOST_SLOTS, SLOTS_PER_THREAD = plain.MOST_SLOTS, plain.SLOTS_PER_THREAD

    def __getattr__(self, name):
        function = getattr(plain, name)
        return lambda *given: wrapped(function(*(bare(one) for one in given)))


def bare(given):
    if not isinstance(given, DenseVectors):
        return given if isinstance(given, Form) else unwrapped(given)
    return DenseVectors(given.device, given.form, unwrapped(given.rows), unwrapped(given.norms))


class StrictDevice(stand_in.HostMemory):
    def __init__(self, name):
        super().__init__(name, Namespace(), Operations())

    def csr(self, rows):
        return Csr(rows)


def give_linear_algebra(monkeypatch):
    """Have the linear algebra of a GPU by NumPy, for these arrays alone."""

    def cholesky(matrix):
        return There(np.linalg.cholesky(matrix.own))

    def solve_triangular(factor, values):
        return There(scipy.linalg.solve_triangular(factor.own, values.own, lower=True))

    def product(matrix, vector):
        assert matrix.own.dtype == vector.own.dtype
        return There(matrix.own @ vector.own)

    def sum_rows(matrix, numbers, weights):
        own = matrix.own if numbers is None else matrix.own[numbers.own]
        return There(weights.own @ own.astype(np.float64))

    for function in (cholesky, solve_triangular, product, sum_rows):
        monkeypatch.setattr(linear_algebra, function.__name__, function)


def launch_on_the_host(device, gram, sizes, weights, tol, work, threads):
    """What the kernel of ``hull`` does, in its place, of these arrays."""
    gram, sizes, weights, work = (unwrapped(one) for one in (gram, sizes, weights, work))
    return stand_in.launch_on_the_host(device, gram, sizes, weights, tol, work, threads)
