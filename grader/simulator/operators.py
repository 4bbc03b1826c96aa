"""Arithmetic of values, under Triton's promotion rules.

Integers and pointers stay formulas where sums and products with one number allow it; everything else is a NumPy operation on whole blocks of all programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from grader.simulator import dtypes, index, promotion
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype
from grader.simulator.errors import refuse
from grader.simulator.fused import fused_multiply_add
from grader.simulator.index import Index
from grader.simulator.values import Value, align, formula_value, index_of, value_of

# formulas stay below: two of them add up within int64; beyond, blocks wrap around as NumPy's do
_FARTHEST = 2**62


def operands(a: Any, b: Any, *, division: bool = False) -> tuple[Array, Array, dtype]:
    """Both operands as arrays of the same rank, in the type Triton computes in."""
    if type(a) is Value and type(b) is Value and a.dtype is b.dtype and not division:
        t = a.dtype
        if t.kind == dtypes.POINTER:
            refuse(f"this operation does not take {t} and {t}")
        left, right = a.data, b.data
    else:
        a, b = plain(a), plain(b)
        a_is_number, b_is_number = not isinstance(a, Value), not isinstance(b, Value)
        t = _common_type(a, a_is_number, b, b_is_number, division)
        left = _number(a, t) if a_is_number else dtypes.convert(a.data, a.dtype, t)
        right = _number(b, t) if b_is_number else dtypes.convert(b.data, b.dtype, t)
    if left.shape == right.shape:
        return left, right, t
    if left.ndim == right.ndim and (left.size == 1 or right.size == 1):
        return left, right, t
    left, right = align(left, right)
    return left, right, t


def _common_type(a: Any, a_is_number: bool, b: Any, b_is_number: bool, division: bool) -> dtype:
    x = _number_type(a) if a_is_number else a.dtype
    y = _number_type(b) if b_is_number else b.dtype
    if dtypes.POINTER in {x.kind, y.kind}:
        refuse(f"this operation does not take {x} and {y}")
    if x is y and not division:
        return x
    try:
        return promotion.promote(x, a_is_number, y, b_is_number, division)
    except TypeError as error:
        return refuse(str(error))


def _number_type(x: Any) -> dtype:
    return promotion.scalar_type(x) if type(x) in {int, float} else value_of(x).dtype


def _number(x: Any, t: dtype) -> Array:
    if isinstance(x, float) and x == 0:
        # 0.0 and -0.0 are one key
        return _made(x, t)
    return _known(x, t, t.compute)


def _made(x: Any, t: dtype) -> Array:
    if t.is_int() and not t.is_bool() and not t.lowest <= x <= t.highest:
        refuse(f"the number {x} is out of range for {t}")
    number = np.array([x], t.compute)
    return t.round(number) if t.rounds else number


@functools.lru_cache(maxsize=512, typed=True)
def _known(x: Any, t: dtype, compute: Any) -> Array:
    made = _made(x, t)
    made.flags.writeable = False
    return made


def result(x: Array, t: dtype) -> Value:
    """An exact result rounded to its type."""
    return Value(t.round(x) if t.rounds else x, t)


def arithmetic(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Value:
    """Apply a NumPy function under Triton's promotion."""
    x, y, t = operands(a, b)
    return Value(t.round(function(x, y)) if t.rounds else function(x, y), t)


def is_pointer(x: Any) -> bool:
    """Whether a kernel's value is a pointer."""
    return type(x) is Value and x.argument is not None


def formulas(a: Any, b: Any) -> tuple[Index, Index, dtype] | None:
    """Two integers as formulas, with the type Triton computes in; None where that is not exact."""
    x = index_of(a)
    if x is None:
        return None
    y = index_of(b)
    if y is None or is_pointer(a) or is_pointer(b):
        return None
    if not (_is_near(x) and _is_near(y)):
        return None
    a_is_number, b_is_number = type(a) is not Value, type(b) is not Value
    if not a_is_number and not b_is_number and a.dtype is b.dtype:
        return x, y, a.dtype
    t = _common_type(a, a_is_number, b, b_is_number, division=False)
    if t.lowest <= x.low and x.high <= t.highest and t.lowest <= y.low and y.high <= t.highest:
        return x, y, t
    return None


def _is_near(x: Index) -> bool:
    return x.low > -_FARTHEST and x.high < _FARTHEST


def _integer(x: Index | None, t: dtype) -> Value | None:
    """A formula as a value of a type, unless it may wrap around there."""
    if x is None or x.low < t.lowest or x.high > t.highest:
        return None
    return formula_value(x, t)


def add(a: Any, b: Any) -> Value:
    """``a + b``; a pointer moves by elements."""
    a, b = bare(a), bare(b)
    if is_pointer(b):
        a, b = b, a
    if is_pointer(a):
        return _moved(a, b, 1)
    pair = formulas(a, b)
    if pair is not None:
        total = _integer(index.plus(pair[0], pair[1]), pair[2])
        if total is not None:
            return total
    return arithmetic(np.add, a, b)


def subtract(a: Any, b: Any) -> Value:
    """``a - b``; a pointer moves by elements."""
    a, b = bare(a), bare(b)
    if is_pointer(a):
        return _moved(a, b, -1)
    pair = formulas(a, b)
    if pair is not None:
        difference = _integer(index.minus(pair[0], pair[1]), pair[2])
        if difference is not None:
            return difference
    return arithmetic(np.subtract, a, b)


def multiply(a: Any, b: Any) -> Value:
    """``a * b``."""
    a, b = bare(a), bare(b)
    pair = formulas(a, b)
    if pair is not None:
        product = _integer(_product(pair[0], pair[1]), pair[2])
        if product is not None:
            return product
    return arithmetic(np.multiply, a, b)


def _product(x: Index, y: Index) -> Index | None:
    if y.shape != (1,):
        x, y = y, x
    if y.shape != (1,) or max(-x.low, x.high) * abs(y.offset) >= _FARTHEST:
        return None
    return index.times(x, y.offset)


def bare(x: Any) -> Any:
    """An operand without tl.constexpr around it."""
    return x if type(x) is Value or type(x) is int else plain(x)


def _moved(pointer: Value, offset: Any, sign: int) -> Value:
    if is_pointer(offset):
        refuse("two pointers cannot be added or subtracted")
    start, by = index_of(pointer), index_of(offset)
    if start is not None and by is not None and _is_near(by):
        moved = index.plus(start, by) if sign == 1 else index.minus(start, by)
        if moved is not None and _is_near(moved):
            return formula_value(moved, pointer.dtype, pointer.argument)
    given = value_of(offset)
    if not given.dtype.is_int():
        refuse(f"a pointer moves by integers, not by {given.dtype}: cast with .to(tl.int32)")
    x, y = align(pointer.data, given.data)
    wide = y.astype(np.int64, copy=False)
    return Value(x + wide if sign == 1 else x - wide, pointer.dtype, pointer.argument)


def divide(a: Any, b: Any) -> Value:
    """``a / b``: integers divide as float32."""
    x, y, t = operands(a, b, division=True)
    if t.is_int():
        x, y = (dtypes.convert(v, t, dtypes.float32) for v in (x, y))
        t = dtypes.float32
    return result(x / y, t)


def floor_divide(a: Any, b: Any) -> Value:
    """``a // b`` of integers, which truncates as C does."""
    x, y, t = operands(a, b, division=True)
    if not t.is_int():
        refuse(f"// takes integers, not {t}; use / and tl.floor")
    quotient = x // y
    if t.signed:
        quotient = quotient + ((x % y != 0) & ((x < 0) != (y < 0))).astype(quotient.dtype)
    return Value(quotient, t)


def remainder(a: Any, b: Any) -> Value:
    """``a % b``, with the sign of a, as C does."""
    pair = formulas(bare(a), bare(b))
    if pair is not None and pair[1].shape == (1,) and type(a) is Value and _share_sign(a, b):
        # the usual wrapping of row numbers changes nothing in most tiles
        dividend, divisor, t = pair
        if dividend.low >= 0 and dividend.high < divisor.offset and t is a.dtype:
            return a
    x, y, t = operands(a, b, division=True)
    return Value(_float_remainder(x, y, t) if t.is_floating() else np.fmod(x, y), t)


def _share_sign(a: Value, b: Any) -> bool:
    """Whether both are signed or both unsigned; a number takes the other's type."""
    return type(b) is not Value or a.dtype.signed == b.dtype.signed


def _float_remainder(x: Array, y: Array, t: dtype) -> Array:
    """``x - trunc(x / y) * y``, which is not exact for large quotients, as LLVM has it for NVIDIA."""
    left = fused_multiply_add(-np.trunc(x / y), y, x, t)
    return np.where(np.isinf(y), x, left)


def positive(a: Any) -> Value:
    """``+a``, which kernels do not have."""
    return refuse("a block has no unary plus: leave the + out")


def negative(a: Any) -> Value:
    """``-a``."""
    x = value_of(a)
    if not isinstance(x.dtype, dtype):
        refuse(f"unary minus does not take {x.dtype}")
    if x.dtype.is_bool():
        # modulo 2
        return x
    # 0 - x, so that -(0.0) is 0.0
    return Value(np.subtract(0, x.data, dtype=x.data.dtype), x.dtype)
