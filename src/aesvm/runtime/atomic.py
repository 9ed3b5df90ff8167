"""For jitted code: numbers that threads share without a lock, and arrays by their addresses.

The numbers are contiguous arrays of int64: others do not compile.
"""

from __future__ import annotations

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

#: For jitted code: let another thread have this processor, where one waits for it.
give_way: Any = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)


_NUMBERS = types.Array(types.int64, 1, "C")


def _element(context, builder, signature, args):
    (array, *_), (value, index, *_) = signature.args, args
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


def _load(typingctx, numbers, index):
    """``numbers[index]``, with acquire: what was written before it is seen."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_element(context, builder, signature, args), "acquire", 8)

    return types.int64(_NUMBERS, types.intp), codegen


def _add(typingctx, numbers, index, amount):
    """Add to ``numbers[index]``, with acquire and release; returns what it was."""

    def codegen(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        return builder.atomic_rmw("add", place, args[2], "acq_rel")

    return types.int64(_NUMBERS, types.intp, types.int64), codegen


def _count_up(typingctx, numbers, index, seen):
    """Add one to ``numbers[index]`` if it is ``seen``, with acquire and release: whether it was."""

    def codegen(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        more = builder.add(args[2], ir.Constant(ir.IntType(64), 1))
        both = builder.cmpxchg(place, args[2], more, "acq_rel", "acquire")
        return builder.extract_value(both, 1)

    return types.boolean(_NUMBERS, types.intp, types.int64), codegen


def _pointer(typingctx, address):
    """An address, as ``numba.carray`` wants it."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


load: Any = intrinsic(_load)
add: Any = intrinsic(_add)
count_up: Any = intrinsic(_count_up)
pointer: Any = intrinsic(_pointer)
