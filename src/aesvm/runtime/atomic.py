"""For jitted code: numbers that threads share without a lock, and arrays by their addresses."""

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


def _element(context, builder, signature, args):
    (array, *_), (value, index, *_) = signature.args, args
    return builder.gep(context.make_array(array)(context, builder, value).data, [index])


def _load(typingctx, numbers, index):
    """``numbers[index]``, of int64, and whatever was written before it."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_element(context, builder, signature, args), "acquire", 8)

    return types.int64(numbers, types.intp), codegen


def _add(typingctx, numbers, index, amount):
    """``numbers[index]`` before ``amount`` is added to it; what was written before goes along."""

    def codegen(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        return builder.atomic_rmw("add", place, args[2], "acq_rel")

    return types.int64(numbers, types.intp, types.int64), codegen


def _count_up(typingctx, numbers, index, seen):
    """Add one to ``numbers[index]`` where it is ``seen``: whether it was."""

    def codegen(context, builder, signature, args):
        place = _element(context, builder, signature, args)
        more = builder.add(args[2], ir.Constant(ir.IntType(64), 1))
        both = builder.cmpxchg(place, args[2], more, "acq_rel", "acquire")
        return builder.extract_value(both, 1)

    return types.boolean(numbers, types.intp, types.int64), codegen


def _pointer(typingctx, address):
    """An address, as ``numba.carray`` wants it."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


load: Any = intrinsic(_load)
add: Any = intrinsic(_add)
count_up: Any = intrinsic(_count_up)
pointer: Any = intrinsic(_pointer)
