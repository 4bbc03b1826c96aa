"""A value of the kernel language: one array whose first axis is the program instance.

That axis has length 1 when the value is the same in every program of the pass. Operators follow
Triton's promotion rules. Creating, reshaping and reducing values live in other modules.
"""

# ruff: noqa: D102 - the short methods have Triton's own names, which say it all

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from grader.simulator import dtypes, run
from grader.simulator.constants import constexpr, plain
from grader.simulator.dtypes import Array, dtype, pointer_type
from grader.simulator.errors import refuse
from grader.simulator.showing import shown

Function = TypeVar("Function", bound=Callable[..., Any])


class Value:
    """``tl.tensor``: a scalar or a block, per program.

    Attributes:
        data: Shape (programs or 1, *block shape), in the type that ``dtype`` computes in. Of a
            pointer: int64 element indices into the argument's storage.
        argument: The tensor argument a pointer came from.
        cause: What the answer of a comparison depends on, for splitting by it.
    """

    __slots__ = ("argument", "cause", "data", "dtype")
    __array_ufunc__ = None  # NumPy scalars leave operators to us
    __iter__ = None

    def __init__(self, data: Array, dtype: Any, argument: Any = None) -> None:
        if data.nbytes > run.BLOCK_BYTES and data.shape[0] > 1 and run.is_running():
            run.current().too_large(data.nbytes)
        self.data = data
        self.dtype = dtype
        self.argument = argument
        self.cause: Array | None = None

    @property
    def type(self) -> Any:
        return self.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape[1:]

    @property
    def numel(self) -> int:
        return int(np.prod(self.data.shape[1:]))

    @property
    def T(self) -> Value:  # noqa: N802 - tl.tensor.T
        return Value(self.data.swapaxes(-1, -2), self.dtype, self.argument)

    def __getitem__(self, index: Any) -> Value:
        parts = [plain(i) for i in (index if isinstance(index, tuple) else (index,))]
        if any(not (i is None or (isinstance(i, slice) and i == slice(None))) for i in parts):
            refuse(
                f"unsupported index {index!r}: a block takes only ':' and None; to pick elements, "
                "load them through a pointer, or use tl.where and a reduction"
            )
        if sum(i is not None for i in parts) > self.data.ndim - 1:
            refuse(f"index {index!r} has more axes than the block of shape {self.shape}")
        return Value(self.data[(slice(None), *parts)], self.dtype, self.argument)

    def __setitem__(self, index: Any, value: Any) -> None:
        refuse("a block is a value and has no item assignment; use tl.where")

    def scalar(self) -> Any:
        """The one Python number that all programs agree on; where they differ, split them."""
        flat = self.data.reshape(-1)
        if self.data.ndim > 1 and self.numel != 1:
            refuse(
                f"a block of shape {self.shape} has no single truth value or integer: use tl.where "
                "instead of `if`, and ~ instead of `not`"
            )
        if flat.size > 1 and not (flat == flat[0]).all():
            run.current().diverge(flat, self.cause)
        return flat[0].item()

    def __bool__(self) -> bool:
        return bool(self.scalar())

    def __index__(self) -> int:
        if not self.dtype.is_int():
            refuse(f"an integer is needed here, not {self.dtype}")
        return int(self.scalar())

    def __int__(self) -> int:
        return refuse("int() takes constants only; use .to(tl.int32)")

    def __float__(self) -> float:
        return refuse("float() takes constants only; use .to(tl.float32)")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return shown(self.data, self.dtype, self.argument)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return refuse(f"a block has no attribute {name!r}")


def value_of(x: Any) -> Value:
    """A value as it is, or a Python number as one."""
    x = plain(x)
    if isinstance(x, Value):
        return x
    if not isinstance(x, bool | int | float | np.number | np.bool_):
        refuse(f"cannot use {x!r} (a Python {type(x).__name__}) as a value in a kernel")
    t = dtypes.scalar_type(x)
    return Value(np.array([x], t.compute), t)


def align(*arrays: Array) -> list[Array]:
    """Give arrays the same rank: block shapes align on the right, the program axis stays first."""
    rank = max(a.ndim for a in arrays)
    out = [
        a if a.ndim == rank else a.reshape(a.shape[:1] + (1,) * (rank - a.ndim) + a.shape[1:])
        for a in arrays
    ]
    first = out[0].shape[1:]
    for a in out[1:]:
        for m, n in zip(first, a.shape[1:], strict=True):
            if m != n and 1 not in {m, n}:
                shapes = " and ".join(str(x.shape[1:]) for x in arrays)
                refuse(f"shapes {shapes} cannot be combined: axes must be equal or 1")
    return out


def operands(a: Any, b: Any, *, division: bool = False) -> tuple[Array, Array, dtype]:
    """Both operands as arrays of the same rank, in the type Triton computes in."""
    a, b = plain(a), plain(b)
    a_is_number, b_is_number = not isinstance(a, Value), not isinstance(b, Value)
    x, y = value_of(a), value_of(b)
    if isinstance(x.dtype, pointer_type) or isinstance(y.dtype, pointer_type):
        refuse(f"this operation does not take {x.dtype} and {y.dtype}")
    if x.dtype is y.dtype and not division:
        t = x.dtype
    else:
        try:
            t = dtypes.promote(x.dtype, a_is_number, y.dtype, b_is_number, division)
        except TypeError as error:
            refuse(str(error))
    left = _operand(a, x, a_is_number, t)
    right = _operand(b, y, b_is_number, t)
    if left.ndim == right.ndim and (left.shape == right.shape or left.size == 1 or right.size == 1):
        return left, right, t
    left, right = align(left, right)
    return left, right, t


def _operand(given: Any, value: Value, is_number: bool, t: dtype) -> Array:
    if not is_number:
        return dtypes.convert(value.data, value.dtype, t)
    if t.is_int() and not t.is_bool():
        limits = np.iinfo(t.storage)
        if not limits.min <= given <= limits.max:
            refuse(f"the number {given} is out of range for {t}")
    number = np.array([given], t.compute)
    return t.round(number) if t.rounds else number


def result(x: Array, t: dtype) -> Value:
    """An exact result rounded to its type."""
    return Value(t.round(x) if t.rounds else x, t)


def arithmetic(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Value:
    """Apply a NumPy function under Triton's promotion."""
    x, y, t = operands(a, b)
    return result(function(x, y), t)


def _is_pointer(x: Any) -> bool:
    return isinstance(x, Value) and x.argument is not None


def add(a: Any, b: Any) -> Value:
    """``a + b``; a pointer moves by elements."""
    if _is_pointer(b):
        a, b = b, a
    if _is_pointer(a):
        return _moved(a, b, np.add)
    return arithmetic(np.add, a, b)


def subtract(a: Any, b: Any) -> Value:
    """``a - b``; a pointer moves by elements."""
    if _is_pointer(a):
        return _moved(a, b, np.subtract)
    return arithmetic(np.subtract, a, b)


def _moved(pointer: Value, offset: Any, function: Callable[[Array, Array], Array]) -> Value:
    if _is_pointer(offset):
        refuse("two pointers cannot be added or subtracted")
    by = value_of(offset)
    if not by.dtype.is_int():
        refuse(f"a pointer moves by integers, not by {by.dtype}: cast with .to(tl.int32)")
    x, y = align(pointer.data, by.data)
    moved = function(x, y if y.dtype != np.bool_ else y.astype(np.int64))
    return Value(moved.astype(np.int64, copy=False), pointer.dtype, pointer.argument)


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
    x, y, t = operands(a, b, division=True)
    return result(np.fmod(x, y), t)


def compare(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Any:
    """A comparison; with None as Python has it."""
    if plain(b) is None or plain(a) is None:
        return function is np.not_equal
    if _is_pointer(a) and _is_pointer(b):
        return Value(function(*align(a.data, b.data)), dtypes.int1)
    x, y, _ = operands(a, b)
    answer = Value(function(x, y), dtypes.int1)
    if answer.data.ndim == 1 and answer.data.size > 1:
        answer.cause = x if y.size == 1 else y if x.size == 1 else None
    return answer


def bitwise(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Value:
    """``&``, ``|``, ``^`` and shifts."""
    x, y, t = operands(a, b)
    if t.is_floating():
        refuse(f"bitwise operators take integers, not {t}")
    return Value(function(x, y), t)


def negative(a: Any) -> Value:
    """``-a``."""
    x = value_of(a)
    if not isinstance(x.dtype, dtype) or x.dtype.is_bool():
        refuse(f"unary minus does not take {x.dtype}")
    return Value(-x.data, x.dtype)


def invert(a: Any) -> Value:
    """``~a``."""
    x = value_of(a)
    if not x.dtype.is_int():
        refuse(f"~ takes integers, not {x.dtype}")
    return Value(~x.data, x.dtype)


def _bind_operators() -> None:
    binary: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
        "add": (add, operator.add),
        "sub": (subtract, operator.sub),
        "mul": (lambda a, b: arithmetic(np.multiply, a, b), operator.mul),
        "truediv": (divide, operator.truediv),
        "floordiv": (floor_divide, operator.floordiv),
        "mod": (remainder, operator.mod),
        "and": (lambda a, b: bitwise(np.bitwise_and, a, b), operator.and_),
        "or": (lambda a, b: bitwise(np.bitwise_or, a, b), operator.or_),
        "xor": (lambda a, b: bitwise(np.bitwise_xor, a, b), operator.xor),
        "lshift": (lambda a, b: bitwise(np.left_shift, a, b), operator.lshift),
        "rshift": (lambda a, b: bitwise(np.right_shift, a, b), operator.rshift),
    }
    for name, (ours, python) in binary.items():
        setattr(Value, f"__{name}__", ours)
        setattr(Value, f"__r{name}__", lambda a, b, f=ours: f(b, a))
        setattr(constexpr, f"__{name}__", lambda a, b, f=python: f(a.value, plain(b)))
        setattr(constexpr, f"__r{name}__", lambda a, b, f=python: f(plain(b), a.value))
    comparisons = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    for name, function in comparisons.items():
        python = getattr(operator, name)
        setattr(Value, f"__{name}__", lambda a, b, f=function: compare(f, a, b))
        setattr(constexpr, f"__{name}__", lambda a, b, f=python: f(a.value, plain(b)))
    setattr(constexpr, "__pow__", lambda a, b: a.value ** plain(b))  # noqa: B010 - as its siblings
    setattr(Value, "__neg__", negative)  # noqa: B010
    setattr(Value, "__invert__", invert)  # noqa: B010
    setattr(Value, "__pos__", lambda a: a)  # noqa: B010


_bind_operators()


def member(function: Function) -> Function:
    """Make a function of the language a method of values too, as in ``x.to(tl.float32)``."""
    setattr(Value, function.__name__, function)
    return function
