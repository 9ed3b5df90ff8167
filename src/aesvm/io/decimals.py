"""Decimal text to doubles, correctly rounded, without leaving compiled code.

The number nearest to w 10^q, for an integer w below 2^64, is found by Eisel and Lemire's
method: w is multiplied by the leading 64 bits of 5^q, and by the next 64 where the first do not
decide how the product is rounded. With these 128 bits it is always decided (Mushtak and
Lemire). What is left is refused: subnormal and overflowing numbers, numbers of more than 19
digits that the first 19 do not tell, "inf" and "nan". Who calls then asks Python's ``float``,
so values agree with it to the bit.

Doubles are handled as their 64 bits, so that all arithmetic is of integers and the compiler's
licence to reorder sums has nothing to act on.

References
----------
D. Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and Experience 51,
2021.
N. Mushtak, D. Lemire, "Fast Number Parsing Without Fallback", Software: Practice and Experience
53, 2023.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from aesvm.io.base import BadRow
from aesvm.runtime.jit import jit

#: Powers in the table. Beyond them w 10^q is 0 or infinite for every w.
_LOWEST = -342
_HIGHEST = 308

#: Powers for which w 10^q can lie halfway between two doubles.
_LOWEST_HALFWAY = -4
_HIGHEST_HALFWAY = 23

#: Digits that always fit in 64 bits.
_MOST_DIGITS = 19

_PLUS, _MINUS, _POINT, _ZERO, _NINE, _BIG_E, _SMALL_E = b"+-.09Ee"

_U0, _U1, _U3, _U9, _U10 = (np.uint64(i) for i in (0, 1, 3, 9, 10))
_U52, _U53, _U63 = (np.uint64(i) for i in (52, 53, 63))
_LOW_9_BITS = np.uint64(0x1FF)
_FRACTION = np.uint64(2**52 - 1)


def finite_float(text: str, what: str) -> float:
    """A number as Python reads it; infinite ones, NaN and underscores are refused."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        value = float(text)
    except ValueError:
        raise BadRow(f"{what} {shown!r} is not a number") from None
    if not math.isfinite(value):
        raise BadRow(f"{what} {shown!r} is not a finite number")
    return value


def _powers_of_five() -> NDArray[np.uint64]:
    """The leading 128 bits of each power, the high and the low 64 of them.

    Cut off where the power is positive, and rounded up where it is negative, so that products
    which are exact do not come out just below what they are.
    """
    table = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for row, power in enumerate(range(_LOWEST, _HIGHEST + 1)):
        if power >= 0:
            bits = 5**power << 128
        else:
            length = (5**-power - 1).bit_length()
            bits = 2 ** (length + 127 if power >= -27 else 2 * length + 128) // 5**-power + 1
        leading = bits >> (bits.bit_length() - 128)
        table[row] = leading >> 64, leading & (2**64 - 1)
    return table


#: To be handed to jitted functions.
POWERS_OF_FIVE = _powers_of_five()


def _high_product(typingctx, a, b):
    """The upper half of the 128 bits of a * b."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


def _leading_zeros(typingctx, a):
    def codegen(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), codegen


_high: Any = intrinsic(_high_product)
_zeros: Any = intrinsic(_leading_zeros)


@jit
def _read_digits(text, at, digits, n_digits):
    """Read further digits of a number that has ``n_digits``, without leading zeros.

    Returns where they end, the number and its digits, how many were left out because there were
    too many, and whether any of these was not zero.
    """
    n_left = 0
    cut = False
    while _ZERO <= text[at] <= _NINE:
        digit = np.uint64(text[at] - _ZERO)
        if n_digits < _MOST_DIGITS:
            digits = digits * _U10 + digit
            n_digits += digits != _U0
        else:
            n_left += 1
            cut |= digit != _U0
        at += 1
    return at, digits, n_digits, n_left, cut


@jit
def number(text, at, powers):
    """The number that begins at a byte: its bits, and where it ends.

    The end is -1 where Python must be asked. The text must hold a byte that is no part of a
    number after it, a newline say.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    begin = at
    at, digits, n_digits, exponent, cut = _read_digits(text, at, _U0, 0)
    seen = at - begin
    if text[at] == _POINT:
        at += 1
        begin = at
        at, digits, n_digits, n_left, more = _read_digits(text, at, digits, n_digits)
        cut |= more
        exponent -= at - begin - n_left
        seen += at - begin
    if seen == 0:
        return _U0, -1
    if text[at] == _SMALL_E or text[at] == _BIG_E:
        at += 1
        down = text[at] == _MINUS
        if down or text[at] == _PLUS:
            at += 1
        begin = at
        power = 0
        while _ZERO <= text[at] <= _NINE:
            power = power * 10 + (text[at] - _ZERO)
            at += 1
        if at == begin or at - begin > 9:
            return _U0, -1
        exponent += -power if down else power
    sign = _U1 << _U63 if negative else _U0
    if digits == _U0:
        return sign, at
    bits = _nearest(digits, exponent, powers)
    if bits == _U0 or (cut and bits != _nearest(digits + _U1, exponent, powers)):
        return _U0, -1
    return bits | sign, at


@jit
def _nearest(digits, exponent, powers):
    """The bits of the double nearest to digits * 10^exponent; 0 where it is not a normal one."""
    if exponent < _LOWEST or exponent > _HIGHEST:
        return _U0
    zeros = _zeros(digits)
    factor = digits << zeros
    power = powers[exponent - _LOWEST]
    high = _high(factor, power[0])
    low = factor * power[0]
    if high & _LOW_9_BITS == _LOW_9_BITS:
        more = _high(factor, power[1])
        low += more
        if low < more:
            high += _U1
    top = high >> _U63
    mantissa = high >> (top + _U9)  # 54 bits: one more than a double has
    if (
        low <= _U1
        and mantissa & _U3 == _U1
        and mantissa << (top + _U9) == high
        and _LOWEST_HALFWAY <= exponent <= _HIGHEST_HALFWAY
    ):
        mantissa -= _U1  # halfway, and the lower one is even
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    # 217706 / 2^16 is log2(10), near enough for these exponents; 1023 a double's bias
    binary = ((217706 * exponent) >> 16) + 63 + 1023 - np.int64(zeros) + np.int64(top)
    if mantissa >> _U53 != _U0:
        mantissa >>= _U1
        binary += 1
    if binary < 1 or binary > 2046:
        return _U0
    return np.uint64(binary) << _U52 | mantissa & _FRACTION
